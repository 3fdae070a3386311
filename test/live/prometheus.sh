#!/usr/bin/env bash
# prometheus.sh: promtool, an independent reader, checks our metrics: those of a node with a watcher that
# has swept, and those of a node without. scripts/setup prometheus puts promtool into the cache. The last
# line has the totals.
#
#   SONDE_PROMTOOL  another promtool
#   SONDE_EBIN      sonde's compiled modules (_build/default/lib/sonde/ebin)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${SONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sonde}
ebin=$(cd "${SONDE_EBIN:-$here/../../_build/default/lib/sonde/ebin}" && pwd)
promtool=${SONDE_PROMTOOL:-$cache/prometheus/usr/bin/promtool}
if [ ! -x "$promtool" ]; then
    echo "prometheus.sh: no promtool (scripts/setup prometheus fetches it)" >&2
    exit 1
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

passed=0
failed=0
# check NAME EXPECTED-EXIT-CODE FILE
check() {
    local status=0
    "$promtool" check metrics <"$3" >"$tmp/said" 2>&1 || status=$?
    if [ -s "$3" ] && [ $status = "$2" ]; then
        passed=$((passed + 1))
        echo "$1: ok"
    else
        failed=$((failed + 1))
        echo "$1: FAILED (exit code $status)"
        cat "$tmp/said"
    fi
}

timeout 60 erl -noinput -pa "$ebin" -eval '
    [Without, With] = init:get_plain_arguments(),
    ok = file:write_file(Without, sonde_prometheus:format()),
    {ok, _} = sonde_watch:start_link(#{interval => 10}),
    Swept = fun(Again) -> maps:get(sweeps, sonde_watch:status()) > 2 orelse Again(Again) end,
    true = Swept(Swept),
    ok = file:write_file(With, sonde_prometheus:format()),
    halt().' -extra "$tmp/without" "$tmp/with"

check "metrics without a watcher" 0 "$tmp/without"
check "metrics with a watcher" 0 "$tmp/with"
# A wrong line is found, which proves that promtool reads the lines.
{ cat "$tmp/with"; echo 'sonde_wrong{kind=1} x'; } >"$tmp/wrong"
check "a wrong line is found" 1 "$tmp/wrong"
grep -v '^# HELP sonde_watch_up' "$tmp/with" >"$tmp/mute"
check "a metric without help is found" 3 "$tmp/mute"
echo "prometheus: $passed checks passed, $failed failed"
[ $failed = 0 ]
