#!/bin/sh
# rebar3's hook before it compiles. Without the C part sonde still works, on its portable side, so
# nothing that goes wrong here may break the build of those who depend on us: one line says so.
# SONDE_REQUIRE_NATIVE=1 (the top Makefile and CI set it) makes it an error.
cd "$(dirname "$0")" || exit 1
make=$(command -v gmake || command -v make)

if [ -n "$make" ] && "$make" -s --no-print-directory; then
    exit 0
fi

rm -f "${PRIV_DIR:-${MIX_APP_PATH:-..}/priv}"/sonde_nif*.so    # an old one would not fit the Erlang side
echo "sonde: the C part could not be built (make, a C compiler and erl_nif.h are needed);" \
     "sonde will answer from its portable side" >&2
[ -z "${SONDE_REQUIRE_NATIVE:-}" ]
