#!/usr/bin/env bash
# compat.sh DIR: compiles compat/recon as rebar3 would, as an application in DIR.
set -euo pipefail
recon=$(cd "$(dirname "$0")/../../compat/recon" && pwd)
mkdir -p "$1/ebin"
erlc +debug_info -Wall -Werror -o "$1/ebin" "$recon"/src/*.erl
erl -noinput -eval '
    [Source, Ebin] = init:get_plain_arguments(),
    {ok, [{application, recon, Props}]} = file:consult(Source),
    Modules = [list_to_atom(filename:basename(B, ".beam"))
               || B <- filelib:wildcard(filename:join(Ebin, "*.beam"))],
    App = {application, recon, lists:keystore(modules, 1, Props, {modules, Modules})},
    ok = file:write_file(filename:join(Ebin, "recon.app"), io_lib:format("~p.~n", [App])),
    halt().' -extra "$recon/src/recon.app.src" "$1/ebin"
