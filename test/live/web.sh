#!/usr/bin/env bash
# web.sh: looks at the live page of a node in headless Chromium (web_page.mjs), with 10,000 processes on the
# node (live_web.erl). First it checks that priv/live.html is what src/report/page builds. The last line has
# the totals.
#
#   MODULES         the packages of src/report/page/package-lock.json (scripts/setup report)
#   CHROMIUM        the browser (chromium)
#   SONDE_EBIN      sonde's compiled modules (_build/default/lib/sonde/ebin)
#   SONDE_TIMEOUT   seconds for the whole run (600)
#   SONDE_SHOTS     a folder for pictures of the page, if there should be any
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
ebin=$(cd "${SONDE_EBIN:-$root/_build/default/lib/sonde/ebin}" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

mkdir "$tmp/ebin"
node "$root/src/report/page/build.mjs" "$MODULES" "$tmp/built.html" live
erlc -Wall -Werror -o "$tmp/ebin" "$here/live_web.erl"
limit=()
if command -v timeout >/dev/null; then
    limit=(timeout --foreground -k 10 "${SONDE_TIMEOUT:-600}")
fi
"${limit[@]}" erl -noinput +P 100000 -pa "$tmp/ebin" "$ebin" -run live_web main "$tmp" &
erlang=$!
status=0
"${limit[@]}" node "$here/web_page.mjs" "$MODULES" "$tmp" "$tmp/built.html" "$root/priv/live.html" | tee "$tmp/report" || status=$?
touch "$tmp/end"
wait $erlang || status=$?
# If a program crashed or the time was up, there must still be a last line.
if ! tail -n 1 "$tmp/report" | grep -q '^web: '; then
    echo "web: 0 checks passed, 1 failed (ended by itself, exit code $status)"
    status=1
fi
exit $status
