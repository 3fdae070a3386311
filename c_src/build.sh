#!/bin/sh
# rebar3's hook before it compiles. sonde works without its C core, on the portable path, so a failure
# here must not break the build of a project that depends on sonde: it prints one line.
# SONDE_REQUIRE_NATIVE=1 (set by the top Makefile and CI) makes it an error.
cd "$(dirname "$0")" || exit 1
make=$(command -v gmake || command -v make)

if [ -n "$make" ] && "$make" -s --no-print-directory; then
    exit 0
fi

rm -f "${PRIV_DIR:-${MIX_APP_PATH:-..}/priv}"/sonde_nif*.so    # an old library would not fit the new Erlang modules
echo "sonde: the C part could not be built (make, a C compiler and erl_nif.h are needed);" \
     "sonde will answer from its portable side" >&2
[ -z "${SONDE_REQUIRE_NATIVE:-}" ]
