#!/usr/bin/env bash
# snapshot.sh: checks that Chrome's own loader reads heap snapshots, made up and of processes
# (live_snapshot.erl). scripts/setup snapshot puts that loader into the cache. The last line has the
# totals.
#
#   SONDE_LOADER   another loader (bundled, for Node)
#   SONDE_EBIN     sonde's compiled modules (_build/default/lib/sonde/ebin)
#   SONDE_TIMEOUT  seconds for the whole run (300)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${SONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sonde}
ebin=$(cd "${SONDE_EBIN:-$here/../../_build/default/lib/sonde/ebin}" && pwd)
loaders=("$cache"/heap-snapshot-worker-*/reader.mjs)
export SONDE_LOADER=${SONDE_LOADER:-${loaders[-1]}}
if [ ! -f "$SONDE_LOADER" ]; then
    echo "snapshot.sh: no reader (scripts/setup snapshot fetches it)" >&2
    exit 1
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

mkdir "$tmp/ebin"
erlc -Wall -Werror -o "$tmp/ebin" "$here"/{live_snapshot,live_report,../sonde_snapshot_helper}.erl
limit=()
if command -v timeout >/dev/null; then
    limit=(timeout --foreground -k 10 "${SONDE_TIMEOUT:-300}")
fi
status=0
"${limit[@]}" erl -noinput -pa "$tmp/ebin" "$ebin" \
    -run live_snapshot main "$here/snapshot_reader.mjs" "$tmp" </dev/null | tee "$tmp/report" || status=$?
# If the VM crashed or the time was up, there must still be a last line.
if ! tail -n 1 "$tmp/report" | grep -q '^snapshot: '; then
    echo "snapshot: 0 checks passed, 1 failed (ended by itself, exit code $status)"
    status=1
fi
exit $status
