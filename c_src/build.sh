#!/bin/sh
# rebar3's hook before it compiles. Where the C core cannot be compiled, it takes the prebuilt library for
# this machine from c_src/prebuilt, if a release archive was unpacked there (scripts/prebuilt). It downloads
# nothing. sonde works without its C core, on the portable path, so a failure here must not break the build
# of a project that depends on sonde: it prints one line.
# SONDE_REQUIRE_NATIVE=1 (set by the top Makefile and CI) makes a failure an error, and takes no prebuilt
# library where there is a compiler.
cd "$(dirname "$0")" || exit 1
priv=${PRIV_DIR:-${MIX_APP_PATH:-..}/priv}
make=$(command -v gmake || command -v make)
compiler=${CC:-cc}

portable() {
    rm -f "$priv"/sonde_nif*.so     # an old library would not fit the new Erlang modules
    echo "sonde: $1; sonde will answer from its portable side" >&2
    [ -z "${SONDE_REQUIRE_NATIVE:-}" ]
    exit
}

# The system of the Erlang that builds this, by the rule of sonde_bundle:machine/3. Nothing if there is no
# library for it.
machine() {
    case $(erl -noinput -eval 'io:format("~s ~w", [erlang:system_info(system_architecture),
                                   element(1, erlang:system_info(allocator))]), halt().' 2>/dev/null) in
    x86_64-*linux-gnu\ glibc)  echo x86_64-linux-gnu ;;
    aarch64-*linux-gnu\ glibc) echo aarch64-linux-gnu ;;
    *\ glibc) ;;
    x86_64-*linux-musl\ *)     echo x86_64-linux-musl ;;
    aarch64-*linux-musl\ *)    echo aarch64-linux-musl ;;
    esac
}

# The lines of SHA256SUMS about one library, and about the sources of all of them.
sums() {
    awk -v all=c_src/prebuilt/ -v own="c_src/prebuilt/$1/" \
        'index($2, all) != 1 || index($2, own) == 1' prebuilt/SHA256SUMS
}

why="the C part could not be built (make, a C compiler and erl_nif.h are needed)"
if [ -n "$make" ] && command -v "${compiler%% *}" >/dev/null; then
    "$make" -s --no-print-directory && exit 0
    [ -z "${SONDE_REQUIRE_NATIVE:-}" ] || portable "$why"
fi

# Erlang's system is not the one to build for if this is a cross-compilation.
{ [ -f prebuilt/SHA256SUMS ] && [ -z "${CROSSCOMPILE:-}" ]; } || portable "$why"
machine=$(machine)
library=$(sums "${machine:-none}" | awk 'index($2, "c_src/prebuilt/") == 1 { print $2 }')
[ -n "$library" ] || portable "$why, and c_src/prebuilt has no library for this system"
bad=$(sums "$machine" | (cd .. && LC_ALL=C sha256sum -c 2>&1) | grep -v ': OK$' | head -n 1)
[ -z "$bad" ] || portable "c_src/prebuilt is refused, its checksums do not fit ($bad)"

name=$(basename "$library")
[ -f "$priv/$name" ] || echo "sonde: uses the prebuilt library for $machine" >&2
mkdir -p "$priv" && cp "../$library" "$priv/$name.tmp" && mv -f "$priv/$name.tmp" "$priv/$name" ||
    portable "the prebuilt library could not be copied"
(cd "$priv" && ls sonde_nif-*.so | grep -vxF "$name" | xargs rm -f)
ln -sfn "$name" "$priv/sonde_nif.so"
