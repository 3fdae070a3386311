#!/usr/bin/env bash
# report.sh: looks at the page of reports in headless Chromium (report_page.mjs), with reports of a node with
# 10,000 processes (live_page.erl). First it checks that priv/report.html is what src/report/page builds. The last line
# has the totals.
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
node "$root/src/report/page/build.mjs" "$MODULES" "$tmp/built.html"
erlc -Wall -Werror -o "$tmp/ebin" "$here/live_page.erl"
limit=()
if command -v timeout >/dev/null; then
    limit=(timeout --foreground -k 10 "${SONDE_TIMEOUT:-600}")
fi
status=0
{
    "${limit[@]}" erl -noinput +P 100000 -pa "$tmp/ebin" "$ebin" -run live_page main "$tmp" </dev/null &&
        "${limit[@]}" node "$here/report_page.mjs" "$MODULES" "$tmp" "$tmp/built.html" "$root/priv/report.html"
} | tee "$tmp/report" || status=$?
# If a program crashed or the time was up, there must still be a last line.
if ! tail -n 1 "$tmp/report" | grep -q '^report: '; then
    echo "report: 0 checks passed, 1 failed (ended by itself, exit code $status)"
    status=1
fi
exit $status
