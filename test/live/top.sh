#!/usr/bin/env bash
# top.sh [write]: runs sonde:top in real terminals (tmux): 80x24, 120x40, TERM=dumb, and in a remote shell.
# Types what a person types and compares the screens with those in test/live/top, numbers masked
# (live_top.erl). The last line has the totals. `write' rewrites those files.
#
#   SONDE_TIMEOUT  seconds for the whole run (420)
#   SONDE_EBIN     sonde's compiled modules (_build/default/lib/sonde/ebin)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
ebin=$(cd "${SONDE_EBIN:-$here/../../_build/default/lib/sonde/ebin}" && pwd)
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

mkdir "$SONDE_TMP/ebin" "$SONDE_TMP/epmd"
erlc -Wall -Werror -o "$SONDE_TMP/ebin" "$here"/live_{top,tmux,report}.erl
erlc -o "$SONDE_TMP/epmd" "$here/../sonde_epmd.erl"

# Two nodes without epmd, on two free ports; the second has a remote shell on the first.
ports=$(erl -noinput -eval '
    Sockets = [element(2, {ok, _} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}])) || _ <- [1, 2]],
    [io:format("~b ", [element(2, inet:port(S))]) || S <- Sockets], halt().')
read -r one two <<<"$ports"
joined="-start_epmd false -epmd_module sonde_epmd -setcookie sonde_$$"
joined+=" -kernel inet_dist_use_interface '{127,0,0,1}'"
export HOME=$SONDE_TMP LC_ALL=C.UTF-8 ERL_CRASH_DUMP_SECONDS=0
export SONDE_NODE="erl -pa $ebin $SONDE_TMP/ebin $SONDE_TMP/epmd"
export SONDE_TARGET="-name p$one@127.0.0.1 $joined"
export SONDE_REMOTE="erl -pa $SONDE_TMP/epmd -name p$two@127.0.0.1 $joined -remsh p$one@127.0.0.1"
unset TMUX ERL_LIBS ERL_FLAGS NO_COLOR
limit=()
if command -v timeout >/dev/null; then
    limit=(timeout --foreground -k 10 "${SONDE_TIMEOUT:-420}")
fi
status=0
"${limit[@]}" erl -noinput -pa "$SONDE_TMP/ebin" -run live_top main "$here/top" "$@" \
    </dev/null | tee "$SONDE_TMP/report" || status=$?
# If the VM crashed or the time was up, there must still be a last line.
if ! tail -n 1 "$SONDE_TMP/report" | grep -q '^top: '; then
    echo "top: 0 checks passed, 1 failed (ended by itself, exit code $status)"
    status=1
fi
exit $status
