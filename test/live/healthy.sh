#!/usr/bin/env bash
# healthy.sh: diagnoses servers from Debian's packages, idle, under load and idle again: the broker
# that rabbitmq.sh starts, yaws and ejabberd. Nothing may be accused, except for faults that are
# planted in the broker (live_healthy.erl). The last line has the totals.
#
#   HEALTHY_DIAGNOSES   of each server, idle and under load each (50)
#   HEALTHY_SERVERS     some of "rabbitmq faults yaws ejabberd" (all)
#   SONDE_TIMEOUT       seconds for the whole run (3600)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${SONDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sonde}
for ebin in "$cache"/yaws/usr/lib/{yaws,erlang/lib/yaws-*}/ebin; do
    if [ -e "$ebin/yaws.beam" ]; then export SONDE_YAWS=$ebin; fi
done
export SONDE_EJABBERD=$cache/ejabberd
if [ -z "${SONDE_YAWS:-}" ] || [ ! -d "$SONDE_EJABBERD" ]; then
    echo "healthy.sh: no yaws or no ejabberd in $cache" >&2
    exit 1
fi
export LOOK=healthy SONDE_TIMEOUT=${SONDE_TIMEOUT:-3600}
exec "$here/rabbitmq.sh"
