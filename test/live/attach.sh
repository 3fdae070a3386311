#!/usr/bin/env bash
# attach.sh: runs the command `sonde` against nodes without sonde: the broker that rabbitmq.sh starts, and
# yaws, both from Debian's packages. Checks what the command prints, and what is left on the nodes
# (live_attach.erl). The last line has the totals.
#
#   SONDE_COMMAND   the command (_build/escript/sonde)
#   SONDE_TIMEOUT   seconds for the whole run (600)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${SONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sonde}
yaws=("$cache"/yaws/usr/lib/{yaws,erlang/lib/yaws-*}/ebin)
for ebin in "${yaws[@]}"; do
    if [ -e "$ebin/yaws.beam" ]; then export SONDE_YAWS=$ebin; fi
done
if [ -z "${SONDE_YAWS:-}" ]; then
    echo "attach.sh: no yaws in $cache" >&2
    exit 1
fi
SONDE_COMMAND=$(realpath "${SONDE_COMMAND:-$here/../../_build/escript/sonde}")
export SONDE_COMMAND
export LOOK=attach SONDE_TIMEOUT=${SONDE_TIMEOUT:-600}
exec "$here/rabbitmq.sh"
