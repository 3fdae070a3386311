# Sourced by .ci/run and scripts/soak: runs steps that continue after a failure, so that one run shows all
# failures, and prints a table of them at the end, with the cases that failed. Their output goes to $logs/NAME.log.
# shellcheck shell=bash
mkdir -p "$logs"
red=0
steps=()
failed=()

# Prints the last line of a log, without terminal escapes.
last_line() { sed 's/\x1b\[[0-9;]*m//g; /^$/d' "$1" | tail -n 1 | cut -c1-110; }

# failures NAME: the failed cases and the compiler errors that the log of a step names, each in one line
failures() { grep -E '^ *FAILED |: error: ' "$logs/$1.log" | head -n 8 | cut -c1-200 | sed "s/^ */$1: /"; }

# step NAME COMMAND... : runs a step and prints its result and time; if it failed, also the end of its log
step() {
    local name=$1 start=$SECONDS said
    shift
    if "$@" >"$logs/$name.log" 2>&1 </dev/null; then
        said=$(last_line "$logs/$name.log")
        echo "$name: ok ($((SECONDS - start)) s)"
    else
        tail -n 40 "$logs/$name.log"
        said="FAILED: $(last_line "$logs/$name.log")"
        mapfile -t -O ${#failed[@]} failed < <(failures "$name")
        echo "$name: FAILED ($((SECONDS - start)) s)"
        red=1
    fi
    steps+=("$(printf '%-12s %5d s  %s' "$name" $((SECONDS - start)) "$said")")
}

# shown NAME COMMAND... : the same, and prints the step's result lines in any case
shown() {
    step "$@"
    grep -E '^(  |OTP |C units)' "$logs/$1.log" | grep -vE '^  (CC|LD)' || :
}

table() {
    printf '%s\n' "${steps[@]}"
    [ ${#failed[@]} = 0 ] || printf '%s\n' "${failed[@]}"
    echo "together     $(printf '%5d' $SECONDS) s  load $(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null || echo unknown)"
}
