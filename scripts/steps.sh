# Sourced by .ci/run and scripts/soak: steps that go on after a failure, so that one run tells all, and a
# table of them at the end. Their output goes to $logs/NAME.log.
# shellcheck shell=bash
mkdir -p "$logs"
red=0
steps=()

# The last line of a log, without what a terminal would make of it.
last_line() { sed 's/\x1b\[[0-9;]*m//g; /^$/d' "$1" | tail -n 1 | cut -c1-110; }

# step NAME COMMAND... : a line with what it took and said last; if it failed, the end of what it said
step() {
    local name=$1 start=$SECONDS said
    shift
    if "$@" >"$logs/$name.log" 2>&1 </dev/null; then
        said=$(last_line "$logs/$name.log")
        echo "$name: ok ($((SECONDS - start)) s)"
    else
        tail -n 40 "$logs/$name.log"
        said="FAILED: $(last_line "$logs/$name.log")"
        echo "$name: FAILED ($((SECONDS - start)) s)"
        red=1
    fi
    steps+=("$(printf '%-12s %5d s  %s' "$name" $((SECONDS - start)) "$said")")
}

# shown NAME COMMAND... : the same for a command whose lines are worth reading in any case
shown() {
    step "$@"
    grep -E '^(  |OTP |C units)' "$logs/$1.log" | grep -vE '^  (CC|LD)' || :
}

table() {
    printf '%s\n' "${steps[@]}"
    echo "together     $(printf '%5d' $SECONDS) s  load $(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null || echo unknown)"
}
