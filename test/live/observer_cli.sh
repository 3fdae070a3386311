#!/usr/bin/env bash
# observer_cli.sh [DIR]: runs observer_cli, as the rabbitmq-server in DIR ships it (extracted by dpkg -x;
# by default the one in the cache, where scripts/setup rabbitmq puts it), in real terminals (tmux), on
# compat/recon and sonde. Types what a person types and reads the screen (live_observer.erl). The last
# line has the totals.
#
#   RECON               ours, or real: the recon that rabbitmq-server ships, as a control (ours)
#   OBSERVER_REFRESHES  refreshes in a row on which each view must show what was planted (3)
#   SONDE_TIMEOUT       seconds for the whole run (600)
#   SONDE_EBIN          sonde's compiled modules (_build/default/lib/sonde/ebin)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${SONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sonde}
dir=$(cd "${1:-$cache/rabbitmq-server}" && pwd)
ebin=$(cd "${SONDE_EBIN:-$here/../../_build/default/lib/sonde/ebin}" && pwd)
observer=("$dir"/usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins/observer_cli-*/ebin)
real=("$dir"/usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins/recon-*/ebin)
if [ ! -d "${observer[0]}" ]; then
    echo "observer_cli.sh: no observer_cli in $dir" >&2
    exit 1
fi
SONDE_TMP=$(mktemp -d)
export SONDE_TMP
# shellcheck disable=SC2317  # the trap calls it
stop() {
    trap - EXIT
    tmux -S "$SONDE_TMP/tmux" kill-server 2>/dev/null || :
    rm -rf "$SONDE_TMP"
}
trap stop EXIT
trap 'exit 130' INT TERM

mkdir "$SONDE_TMP/ebin"
erlc -Wall -Werror -o "$SONDE_TMP/ebin" "$here"/live_{observer,planted,report,tmux}.erl
case ${RECON:-ours} in
real)
    recon=${real[0]%/ebin}
    recon=${recon##*/recon-}
    path="${real[0]}" ;;
*)
    "$here/compat.sh" "$SONDE_TMP/recon"
    recon=2.5.6
    path="$SONDE_TMP/recon/ebin $ebin" ;;
esac
cat >"$SONDE_TMP/sys.config" <<'CONFIG'
[{observer_cli, [{plugins, [#{module => live_planted, title => "Planted", shortcut => "PL",
                              interval => 1500, sort_column => 2}]}]}].
CONFIG

# What runs in the terminals, with a home of its own: an ordinary shell.
export HOME=$SONDE_TMP TERM=screen ERL_CRASH_DUMP_SECONDS=0
export SONDE_NODE="erl -config $SONDE_TMP/sys -pa $path ${observer[0]} $SONDE_TMP/ebin"
unset TMUX ERL_LIBS ERL_FLAGS
limit=()
if command -v timeout >/dev/null; then
    limit=(timeout --foreground -k 10 "${SONDE_TIMEOUT:-600}")
fi
status=0
"${limit[@]}" erl -noinput -pa "$SONDE_TMP/ebin" -run live_observer main "$recon" \
    "${OBSERVER_REFRESHES:-3}" </dev/null | tee "$SONDE_TMP/report" || status=$?
# If the VM crashed or the time was up, there must still be a last line.
if ! tail -n 1 "$SONDE_TMP/report" | grep -q '^observer_cli: '; then
    echo "observer_cli: 0 checks passed, 1 failed (ended by itself, exit code $status)"
    status=1
fi
exit $status
