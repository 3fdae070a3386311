%% The beams contain the documentation that h(sonde). and h(sonde_alloc, memory). show in a shell.
-module(docs_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([module_is_documented/1, functions_are_documented/1, nothing_but_the_beam_is_needed/1,
         table_of_the_sides_has_every_call/1, table_of_what_is_revealed_has_every_call/1]).

-define(MODULES, [sonde, sonde_lib, sonde_alloc, sonde_map, sonde_rec, sonde_trace, sonde_heap,
                  sonde_watch, sonde_prometheus, sonde_web]).

all() ->
    [module_is_documented, functions_are_documented, nothing_but_the_beam_is_needed,
     table_of_the_sides_has_every_call, table_of_what_is_revealed_has_every_call].

init_per_suite(Config) ->
    case code:which(sonde) of
        cover_compiled -> {skip, "cover has replaced the beams"};
        _ -> Config
    end.

end_per_suite(_Config) ->
    ok.

module_is_documented(_Config) ->
    _ = [{M, {match, _}} =
             {M, re:run(shown(shell_docs:render(M, docs(M))), "\\w{3,} \\w+", [unicode])}
         || M <- ?MODULES],
    ok.

%% Each function that a person can call has a text besides its specification; a server's callbacks
%% are hidden.
functions_are_documented(_Config) ->
    [] = [{M, Name, Arity}
          || M <- ?MODULES, {docs_v1, _, _, _, _, _, Entries} <- [docs(M)],
             {Name, Arity} <- M:module_info(exports) -- callbacks(M),
             Name =/= module_info,
             not has_text(lists:keyfind({function, Name, Arity}, 1, Entries))],
    _ = [{match, _} =
             re:run(shown(shell_docs:render(M, F, docs(M))), atom_to_list(F) ++ "\\(", [unicode])
         || {M, F} <- [{sonde, bin_leak}, {sonde_alloc, memory}, {sonde_trace, calls}]],
    ok.

%% Only OTP calls these.
callbacks(Module) ->
    lists:append([B:behaviour_info(callbacks)
                  || {behaviour, Bs} <- Module:module_info(attributes), B <- Bs]).

docs(Module) ->
    {ok, Docs} = code:get_doc(Module),
    Docs.

has_text({_, _, _, hidden, _}) -> true;
has_text({_, _, _, #{} = Doc, _}) -> map_size(Doc) > 0;
has_text({_, _, _, _, #{equiv := _}}) -> true;
has_text(_) -> false.

%% A release has no doc/ directory: the chunk is in the beam itself.
nothing_but_the_beam_is_needed(_Config) ->
    {sonde, Object, _File} = code:get_object_code(sonde),
    {ok, {sonde, [{"Docs", <<131, _/binary>>}]}} = beam_lib:chunks(Object, ["Docs"]).

%% One table lists which calls answer {native_off, _} and which never do: each has its place in it.
table_of_the_sides_has_every_call(_Config) ->
    File = filename:join([os:getenv("SONDE_ROOT"), "doc", "how-it-works.md"]),
    {ok, Text} = file:read_file(File),
    [_, Table | _] =
        re:split(Text, "\\| call \\| answers `\\{native_off, _\\}` \\||\n\n(?=Nor do)"),
    {match, Found} = re:run(Table, "`(\\w+)/([0-9,]+)`", [global, {capture, all_but_first, list}]),
    Listed = [{list_to_atom(Name), list_to_integer(Arity)}
              || [Name, Arities] <- Found, Arity <- string:lexemes(Arities, ",")],
    Exported = sonde:module_info(exports) -- [{module_info, 0}, {module_info, 1}],
    [] = lists:sort(Exported) -- Listed,
    [] = Listed -- Exported.

%% One table lists what each call can reveal and how to forbid that: each call is in one row, with
%% one of the three kinds and at least one of the three ways. The calls of compat/recon are covered
%% by those of the same names.
table_of_what_is_revealed_has_every_call(_Config) ->
    {ok, Text} = file:read_file(filename:join(os:getenv("SONDE_ROOT"), "SECURITY.md")),
    [_, Table | _] =
        re:split(Text, "\\| call \\| can reveal \\| how to forbid it \\|\n|\n\n(?=Each call of `compat)"),
    [<<"| --- ", _/binary>> | Rows] = re:split(string:trim(Table), "\n"),
    Listed = lists:append([revealed(Row) || Row <- Rows]),
    [] = Listed -- lists:usort(Listed),
    Exported = [{M, F, A} || M <- ?MODULES, {F, A} <- M:module_info(exports) -- callbacks(M),
                             F =/= module_info],
    [] = lists:sort(Exported) -- Listed,
    [] = Listed -- Exported,
    [] = [Call || {M, F, A} = Call <- recon(), not lists:member({M, F, A}, Listed)].

revealed(Row) ->
    [<<>>, Calls, Reveals, Forbids, <<>>] = [string:trim(Cell) || Cell <- re:split(Row, "\\|")],
    {match, _} = re:run(Reveals, "^(numbers|names|content)\\b"),
    {match, _} = re:run(Forbids, "^(env|flag|list)(, (env|flag|list))*$"),
    {match, Found} = re:run(Calls, "`(\\w+):(\\w+)/([0-9,]+)`", [global, {capture, all_but_first, list}]),
    [{list_to_atom(M), list_to_atom(F), list_to_integer(A)}
     || [M, F, Arities] <- Found, A <- string:lexemes(Arities, ",")].

%% The exports of compat/recon, under the names of our modules.
recon() ->
    Files = filelib:wildcard(filename:join([os:getenv("SONDE_ROOT"), "compat", "recon", "src", "*.erl"])),
    [_, _, _, _, _ | _] = Files,
    [{list_to_atom("sonde" ++ Rest), F, A}
     || File <- Files, "recon" ++ Rest <- [filename:basename(File, ".erl")],
        {ok, Forms} <- [epp:parse_file(File, [])],
        {attribute, _, export, Calls} <- Forms, {F, A} <- Calls].

shown({error, _} = Error) -> ct:fail(Error);
shown(Text) -> unicode:characters_to_binary(Text).
