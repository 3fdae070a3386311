#!/usr/bin/env bash
# rabbitmq.sh DIR [OUTPUT]: starts the RabbitMQ in DIR (Debian's rabbitmq-server package, extracted by
# dpkg -x; scripts/setup bench puts one into the cache) on loopback, brings sonde into it by remote_load
# and compares it with the recon that the broker ships, idle and under load (rabbitmq_check.escript).
# By hand, not in CI: it takes about three minutes, and what a loaded broker does is never twice the same.
#
# Nothing of this machine is used but free ports (RABBITMQ_PORT and the nine after it; 45670) and a
# temporary folder; when it ends, broker and epmd are stopped and the folder is gone.
#
#   SONDE_EBIN   sonde's compiled modules (_build/default/lib/sonde/ebin)
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
dir=$(cd "$1" && pwd)
output=${2:-/dev/stdout}
ebin=$(cd "${SONDE_EBIN:-$here/../../_build/default/lib/sonde/ebin}" && pwd)
server=("$dir"/usr/lib/rabbitmq/lib/rabbitmq_server-*)
[ -x "${server[0]}/sbin/rabbitmq-server" ] || { echo "rabbitmq.sh: no rabbitmq-server in $dir" >&2; exit 1; }

port=${RABBITMQ_PORT:-45670}
tmp=$(mktemp -d)
cookie=$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')
loopback="-kernel inet_dist_use_interface {127,0,0,1} -setcookie $cookie"

# A home and an epmd of its own: no cookie and no node of this machine is touched.
export HOME=$tmp ERL_EPMD_ADDRESS=127.0.0.1 ERL_EPMD_PORT=$((port + 1))
export RABBITMQ_NODENAME=rabbit@localhost
export RABBITMQ_NODE_IP_ADDRESS=127.0.0.1 RABBITMQ_NODE_PORT=$port RABBITMQ_DIST_PORT=$((port + 2))
export RABBITMQ_MNESIA_BASE=$tmp/mnesia RABBITMQ_LOG_BASE=$tmp/log RABBITMQ_PID_FILE=$tmp/pid
export RABBITMQ_ENABLED_PLUGINS_FILE=$tmp/enabled_plugins RABBITMQ_CONF_ENV_FILE=$tmp/env.conf
export RABBITMQ_CONFIG_FILE=$tmp/rabbitmq.conf RABBITMQ_ADVANCED_CONFIG_FILE=$tmp/advanced.config
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="$loopback"
echo '[rabbitmq_top].' >"$RABBITMQ_ENABLED_PLUGINS_FILE"
printf 'listeners.tcp.1 = 127.0.0.1:%s\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %s\n' \
    "$port" $((port + 3)) >"$RABBITMQ_CONFIG_FILE"
: >"$RABBITMQ_CONF_ENV_FILE"
echo '[].' >"$RABBITMQ_ADVANCED_CONFIG_FILE"

# The broker is a process group of its own: asked to stop, and after ten seconds made to.
broker=
stop() {
    trap - EXIT
    if [ -n "$broker" ]; then
        kill "$broker" 2>/dev/null || :
        for _ in $(seq 100); do
            kill -0 -- "-$broker" 2>/dev/null || break
            sleep 0.1
        done
        kill -9 -- "-$broker" 2>/dev/null || :
        wait "$broker" 2>/dev/null || :
    fi
    for _ in $(seq 50); do
        epmd -kill 2>/dev/null | grep -q Killed && break
        sleep 0.1
    done
    rm -rf "$tmp"
}
trap stop EXIT
trap 'exit 130' INT TERM

setsid "${server[0]}/sbin/rabbitmq-server" >"$tmp/stdout" 2>&1 &
broker=$!

export ERL_LIBS=${server[0]}/plugins
status=0
ERL_FLAGS="-hidden -sname sonde_check@localhost $loopback -pa $ebin" \
    escript "$here/rabbitmq_check.escript" "$port" >"$output" || status=$?
if [ $status != 0 ]; then
    tail -n 20 "$tmp/stdout" >&2
    grep -h -A 5 '\[error\]' "$tmp"/log/*.log 2>/dev/null | tail -n 40 >&2 || :
fi
echo "Errors in the broker's log: $(cat "$tmp"/log/*.log 2>/dev/null | grep -c '\[error\]' || :)" >>"$output"
exit $status
