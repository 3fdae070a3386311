%% What h(sonde). and h(sonde, bin_leak). show in a shell: the documentation is in the beams.
-module(docs_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([module_is_documented/1, functions_are_documented/1, nothing_but_the_beam_is_needed/1]).

all() ->
    [module_is_documented, functions_are_documented, nothing_but_the_beam_is_needed].

init_per_suite(Config) ->
    case code:which(sonde) of
        cover_compiled -> {skip, "cover has replaced the beams"};
        _ -> Config
    end.

end_per_suite(_Config) ->
    ok.

module_is_documented(_Config) ->
    {ok, Docs} = code:get_doc(sonde),
    {match, _} = re:run(shown(shell_docs:render(sonde, Docs)), "\\w{3,} \\w+", [unicode]).

%% Each function that a person can call has a text, not its specification alone.
functions_are_documented(_Config) ->
    {ok, Docs} = code:get_doc(sonde),
    {docs_v1, _, _, _, _, _, Entries} = Docs,
    Undocumented = [{Name, Arity} || {Name, Arity} <- sonde:module_info(exports),
                                     Name =/= module_info,
                                     not has_text(lists:keyfind({function, Name, Arity}, 1, Entries))],
    [] = Undocumented,
    {match, _} = re:run(shown(shell_docs:render(sonde, bin_leak, Docs)), "bin_leak\\(", [unicode]).

has_text({_, _, _, #{} = Doc, _}) -> map_size(Doc) > 0;
has_text({_, _, _, _, #{equiv := _}}) -> true;
has_text(_) -> false.

%% A release has no doc/ directory: the chunk is in the beam itself.
nothing_but_the_beam_is_needed(_Config) ->
    {sonde, Object, _File} = code:get_object_code(sonde),
    {ok, {sonde, [{"Docs", <<131, _/binary>>}]}} = beam_lib:chunks(Object, ["Docs"]).

shown({error, _} = Error) -> ct:fail(Error);
shown(Text) -> unicode:characters_to_binary(Text).
