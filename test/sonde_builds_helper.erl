%% Other builds of sonde_nif, as upgrades bring them to a node one after the other: the test build,
%% with another name of the same length in its library.
-module(sonde_builds_helper).

-export([make/2, load/1, id/0]).

%% @doc Where the modules of `N' builds are, each with its library beside.
-spec make(file:filename(), pos_integer()) -> [Ebin :: file:filename()].
make(Dir, N) ->
    Beam = filename:join(os:getenv("SONDE_TEST_EBIN"), "sonde_nif.beam"),
    [Library] = filelib:wildcard(filename:join(os:getenv("SONDE_TEST_NIF"), "sonde_nif-*.so")),
    "sonde_nif-" ++ Id = filename:basename(Library, ".so"),
    {ok, Bytes} = file:read_file(Library),
    {ok, Module} = file:read_file(Beam),
    [begin
         Name = lists:flatten(io_lib:format("~*..0b", [length(Id), I])),
         Ours = binary:replace(Bytes, list_to_binary(Id), list_to_binary(Name), [global]),
         true = Ours =/= Bytes,
         Root = filename:join(Dir, Name),
         ok = written(filename:join([Root, "priv", "sonde_nif-" ++ Name ++ ".so"]), Ours),
         ok = written(filename:join([Root, "ebin", "sonde_nif.beam"]), Module),
         filename:join(Root, "ebin")
     end || I <- lists:seq(1, N)].

written(File, Bytes) ->
    ok = filelib:ensure_dir(File),
    file:write_file(File, Bytes).

%% @doc In the node that is to have this one.
-spec load(file:filename()) -> ok.
load(Ebin) ->
    %% otherwise the library would be looked for there, not beside the module
    true = os:unsetenv("SONDE_TEST_NIF"),
    _ = code:purge(sonde_nif),
    true = code:add_patha(Ebin),
    {module, sonde_nif} = code:load_file(sonde_nif),
    true = code:del_path(Ebin),
    %% the right build is loaded
    Id = filename:basename(filename:dirname(Ebin)),
    {Id, Id} = {Id, id()},
    ok.

-spec id() -> string().
id() -> element(2, sonde_nif:build_id()).
