#!/usr/bin/env bash
# rabbitmq.sh [DIR]: compares sonde on a live broker under load with the recon that the broker ships.
# Starts the RabbitMQ in DIR (Debian's rabbitmq-server package, extracted by dpkg -x; by default
# the one in the cache, where scripts/setup rabbitmq puts it) on loopback, loads sonde into it by
# remote_load, compares, measures what its clients notice, and checks every message (live_*.erl).
# The last line has the totals.
#
# Uses nothing of this machine but a few free ports and a temporary directory; at the end it stops the
# broker and epmd and removes the directory.
#
# Other runs: RECON=ours checks a broker with compat/recon in place of the recon that it ships
# (live_compat.erl); LOOK=binaries checks where the memory of a backlog is (live_binaries.erl);
# LOOK=attach checks the command from outside (live_attach.erl, see attach.sh); LOOK=healthy
# diagnoses it and other servers (live_healthy.erl, see healthy.sh).
#
#   RABBITMQ_SECONDS   seconds of each of the ten windows (10); less than 10 also shortens everything else
#   SONDE_TIMEOUT      seconds for the whole run (1200)
#   SONDE_EBIN         sonde's compiled modules (_build/default/lib/sonde/ebin)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${SONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sonde}
dir=$(cd "${1:-$cache/rabbitmq-server}" && pwd)
ebin=$(cd "${SONDE_EBIN:-$here/../../_build/default/lib/sonde/ebin}" && pwd)
server=("$dir"/usr/lib/rabbitmq/lib/rabbitmq_server-*)
if [ ! -x "${server[0]}/sbin/rabbitmq-server" ]; then
    echo "rabbitmq.sh: no rabbitmq-server in $dir" >&2
    exit 1
fi
tmp=$(mktemp -d)
looks=live_${LOOK:-rabbitmq}

# The broker is a process group of its own: it is asked to stop, and killed after ten seconds.
broker=
check=
# shellcheck disable=SC2317  # the trap calls it
stop() {
    trap - EXIT
    [ -z "$check" ] || kill -9 -- "-$check" 2>/dev/null || :
    if [ -n "$broker" ]; then
        kill "$broker" 2>/dev/null || :
        for _ in $(seq 100); do
            kill -0 -- "-$broker" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 -- "-$broker" 2>/dev/null || :
        wait "$broker" 2>/dev/null || :
        for _ in $(seq 50); do
            epmd -kill 2>/dev/null | grep -q Killed && break
            sleep 0.1
        done
    fi
    rm -rf "$tmp"
}
trap stop EXIT
trap 'exit 130' INT TERM

# A copy of the broker's directory, made of links, except for recon; its programs find the copy by their
# own location.
if [ "${RECON:-}" = ours ]; then
    looks=live_compat
    mkdir -p "$tmp/server/plugins/sonde"
    cp -r "${server[0]}/sbin" "$tmp/server/"
    ln -s "${server[0]}/escript" "$tmp/server/"
    ln -s "${server[0]}"/plugins/* "$tmp/server/plugins/"
    rm "$tmp"/server/plugins/recon-*
    ln -s "$ebin" "$ebin/../priv" "$tmp/server/plugins/sonde/"
    "$here/compat.sh" "$tmp/server/plugins/recon-2.5.6"
    server=("$tmp/server")
fi

# Compiles the modules of the check with the Erlang in PATH; they use the broker's own libraries.
export ERL_LIBS=${server[0]}/plugins ERL_CRASH_DUMP_SECONDS=0
mkdir "$tmp/ebin" "$tmp/broker"
erlc -Wall -Werror -o "$tmp/ebin" "$here"/live_*.erl

# Four ports that are free now: AMQP, epmd, distribution, management.
read -ra port < <(erl -noinput -eval '
    Sockets = [S || _ <- lists:seq(1, 4), {ok, S} <- [gen_tcp:listen(0, [{ip, {127,0,0,1}}])]],
    [io:format("~b ", [P]) || {ok, P} <- [inet:port(S) || S <- Sockets]], io:nl(), halt().')
cookie=$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
loopback="-kernel inet_dist_use_interface {127,0,0,1} -setcookie $cookie"

# The broker has a home and an epmd of its own: it touches no cookie and no node of this machine.
export HOME=$tmp ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=${port[1]}
export RABBITMQ_NODENAME=rabbit@localhost
export RABBITMQ_NODE_IP_ADDRESS=127.0.0.1
export RABBITMQ_NODE_PORT=${port[0]} RABBITMQ_DIST_PORT=${port[2]}
export RABBITMQ_MNESIA_BASE=$tmp/mnesia RABBITMQ_LOG_BASE=$tmp/log RABBITMQ_PID_FILE=$tmp/pid
export RABBITMQ_ENABLED_PLUGINS_FILE=$tmp/enabled_plugins RABBITMQ_CONF_ENV_FILE=$tmp/env.conf
export RABBITMQ_CONFIG_FILE=$tmp/rabbitmq.conf RABBITMQ_ADVANCED_CONFIG_FILE=$tmp/advanced.config
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="$loopback"
echo '[rabbitmq_top].' >"$RABBITMQ_ENABLED_PLUGINS_FILE"
printf 'listeners.tcp.1 = 127.0.0.1:%s\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %s\n' \
    "${port[0]}" "${port[3]}" >"$RABBITMQ_CONFIG_FILE"
: >"$RABBITMQ_CONF_ENV_FILE"
echo '[].' >"$RABBITMQ_ADVANCED_CONFIG_FILE"
# The memory monitor takes the node's size from recon_alloc; by default it asks the system.
if [ $looks = live_compat ]; then
    echo 'vm_memory_calculation_strategy = allocated' >>"$RABBITMQ_CONFIG_FILE"
fi

errors() { cat "$tmp"/log/*.log 2>/dev/null | grep -A 5 -E '\[(error|critical|alert|emergency)\]'; }

TMPDIR=$tmp/broker setsid "${server[0]}/sbin/rabbitmq-server" >"$tmp/stdout" 2>&1 &
broker=$!
started() { grep -qs 'Server startup complete' "$tmp"/log/*.log; }
for _ in $(seq 240); do
    if started || ! kill -0 "$broker" 2>/dev/null; then break; fi
    sleep 0.5
done
if ! started; then
    tail -n 20 "$tmp/stdout" >&2
    errors | tail -n 40 >&2 || :
    echo "rabbitmq: 0 checks passed, 1 failed (the broker did not start)"
    exit 1
fi

# The broker's log is checked, too, when all is over.
limit=()
if command -v timeout >/dev/null; then
    limit=(timeout --foreground -k 10 "${SONDE_TIMEOUT:-1200}")
fi
run_check() {
    # shellcheck disable=SC2086  # a list
    "${limit[@]}" erl -noinput -hidden -sname sonde_check@localhost $loopback -pa "$ebin" "$tmp/ebin" \
        -run "$looks" main "${port[0]}" "${RABBITMQ_SECONDS:-10}" "$tmp/log" </dev/null |
        tee "$tmp/report"
}
# Runs in a process group of its own, in the background, so that a signal to this script ends it at once.
set -m
run_check &
check=$!
set +m
status=0
wait "$check" || status=$?
check=
if [ $status != 0 ]; then errors | tail -n 40 >&2 || :; fi
# If the VM crashed or the time was up, there must still be a last line.
if ! tail -n 1 "$tmp/report" | grep -q '^rabbitmq: '; then
    echo "rabbitmq: 0 checks passed, 1 failed (ended by itself, exit code $status)"
    status=1
fi
exit $status
