%% Builds sonde and its tests with OTP alone, and runs Common Test on them: one program for every
%% release, the host's and those in the chroots of the matrix, where there is no rebar3.
%% scripts/suite calls it. test/tiers.eterm defines what runs where.
%%
%% Each run has its own directory (Logs). plan/1 puts a file for each suite into Logs/queue;
%% scripts/suite takes one after the other and runs it with work/1, on a new node, so that suites do
%% not affect each other. ct_count_hook writes the outcome of each case to Logs/SUITE/results;
%% summary/1 reads these files, so it works even if a node died.
-module(run_ct).

-export([main/0, build/1, plan/1, work/1, summary/1, check/1]).

main() ->
    [Command | Args] = init:get_plain_arguments(),
    Code = try ?MODULE:(list_to_existing_atom(Command))(Args)
           catch Class:Why:Stack ->
               io:format(standard_error, "run_ct: ~p: ~p~n~p~n", [Class, Why, Stack]),
               2
           end,
    halt(Code).

%% ---- build: src/ to Dir/sonde/ebin, test/ to Dir/test; src/ with TEST to Dir/sonde_test/ebin
%%
%% A file is compiled again only if it, a header, the options or the release changed. Contents are
%% compared, not dates, since a new clone has new dates.

build([Dir]) ->
    {ok, Config} = file:consult("rebar.config"),
    Opts = proplists:get_value(erl_opts, Config),
    {test, Test} = lists:keyfind(test, 1, proplists:get_value(profiles, Config)),
    Strict = [warnings_as_errors | Opts],
    {ForTest, Same} = lists:partition(fun mentions_test/1, filelib:wildcard("src/**/*.erl")),
    Wanted = sources(Same, Dir, ["sonde/ebin", "sonde_test/ebin"], Strict)
        ++ sources(ForTest, Dir, ["sonde/ebin"], Strict)
        ++ sources(ForTest, Dir, ["sonde_test/ebin"], [{d, 'TEST'} | Strict])
        ++ sources(filelib:wildcard("test/*.erl"), Dir, ["test"],
                   Opts ++ proplists:get_value(erl_opts, Test, [])),
    ok = delete_others(Dir, lists:append([Beams || {_, Beams, _, _} <- Wanted])),
    Known = known(Dir),
    Todo = [Source || {_, Beams, _, Hash} = Source <- Wanted,
                      not lists:all(fun(Beam) -> maps:get(Beam, Known, none) =:= Hash
                                                     andalso filelib:is_file(Beam) end, Beams)],
    Built = parallel(fun compile_one/1, Todo),
    Bad = [Beams || {{_, Beams, _, _}, error} <- lists:zip(Todo, Built)],
    Good = [{Beam, Hash} || {_, Beams, _, Hash} <- Wanted, not lists:member(Beams, Bad),
                            Beam <- Beams],
    ok = write_terms(hashes(Dir), [maps:from_list(Good)]),
    Modules = [list_to_atom(filename:basename(F, ".erl")) || F <- filelib:wildcard("src/**/*.erl")],
    ok = write_app(Modules, filename:join(Dir, "sonde/ebin")),
    length(Bad).

%% Files that do not mention TEST are the same in both builds.
mentions_test(File) -> binary:match(contents(File), <<"TEST">>) =/= nomatch.

%% [{Source, its beams, options, a hash of everything that it depends on}]
sources(Files, Dir, Subs, Opts) ->
    _ = [ok = filelib:ensure_dir(filename:join([Dir, Sub, "x"])) || Sub <- Subs],
    Common = {erlang:system_info(otp_release), Opts, [contents(H) || H <- headers()]},
    [{File, [filename:join([Dir, Sub, filename:basename(File, ".erl") ++ ".beam"]) || Sub <- Subs],
      [binary, {i, "include"}, {i, "src"}, report | Opts],
      binary:decode_unsigned(erlang:md5(term_to_binary({Common, contents(File)})))}
     || File <- Files].

headers() -> filelib:wildcard("{src,test,include}/*.hrl").

contents(File) ->
    {ok, Bytes} = file:read_file(File),
    Bytes.

hashes(Dir) -> filename:join(Dir, "hashes.eterm").

known(Dir) ->
    case file:consult(hashes(Dir)) of
        {ok, [Known]} -> Known;
        _ -> #{}
    end.

delete_others(Dir, Beams) ->
    Found = lists:append([filelib:wildcard(filename:join([Dir, Sub, "*.beam"]))
                          || Sub <- ["sonde/ebin", "sonde_test/ebin", "test"]]),
    lists:foreach(fun(Beam) -> ok = file:delete(Beam) end, Found -- Beams).

compile_one({File, Beams, Opts, _Hash}) ->
    case compile:file(File, Opts) of
        {ok, _, Code} -> _ = [ok = file:write_file(Beam, Code) || Beam <- Beams], ok;
        _ -> error
    end.

%% Returns results in order; runs as many at a time as there are schedulers.
parallel(Fun, Items) ->
    Slots = erlang:system_info(schedulers_online),
    parallel(Fun, Items, Slots, [], []).

parallel(_Fun, [], _, [], Done) ->
    [Result || {_, Result} <- lists:sort(Done)];
parallel(Fun, [Item | Items], Slots, Running, Done) when length(Running) < Slots ->
    {_, Ref} = spawn_monitor(fun() -> exit({result, Fun(Item)}) end),
    parallel(Fun, Items, Slots, [{Ref, length(Running) + length(Done)} | Running], Done);
parallel(Fun, Items, Slots, Running, Done) ->
    receive
        {'DOWN', Ref, process, _, {result, Result}} ->
            {value, {Ref, N}, Others} = lists:keytake(Ref, 1, Running),
            parallel(Fun, Items, Slots, Others, [{N, Result} | Done])
    end.

write_app(Modules, Ebin) ->
    {ok, [{application, sonde, Props}]} = file:consult("src/sonde.app.src"),
    App = {application, sonde, lists:keystore(modules, 1, Props, {modules, Modules})},
    write_terms(filename:join(Ebin, "sonde.app"), [App]).

write_terms(File, Terms) ->
    Text = [io_lib:format("~0tp.~n", [T]) || T <- Terms],
    file:write_file(File, unicode:characters_to_binary(Text)).

%% ---- check: every suite has a row, every row a suite, every case that a row names exists, every
%% case that exists is in its suite's all/0

check([Dir]) ->
    Found = [list_to_atom(filename:basename(F, ".beam"))
             || F <- filelib:wildcard(filename:join(Dir, "test/*_SUITE.beam"))],
    Rows = table(),
    Suites = [element(1, Row) || Row <- Rows, tuple_size(Row) =:= 4],
    Odd = [Row || Row <- Rows, not is_row(Row)],
    Bad = [{no_row_for, S} || S <- Found -- Suites] ++ [{no_suite_for, S} || S <- Suites -- Found]
        ++ [{twice, S} || S <- Suites -- lists:usort(Suites)] ++ [{odd, Row} || Row <- Odd]
        ++ [{no_case, {S, Case}} || {S, Cases, _, _, _} <- Rows -- Odd, Case <- Cases,
                                    not erlang:function_exported(loaded(S), Case, 1)],
    _ = [io:format("test/tiers.eterm: ~0p~n", [B]) || B <- Bad],
    Never = [{S, Case} || S <- Found, Case <- never_run(filename:join([Dir, "test", S]), (loaded(S)):all())],
    _ = [io:format("test/~s.erl: ~s is in no list of cases, and would never run~n", [S, Case])
         || {S, Case} <- Never],
    length(Bad ++ Never).

%% Functions that take a Config as a case does, that no other function mentions, and that are not
%% among the cases (All may be computed from what is exported).
never_run(Beam, All) ->
    {ok, {_, [{abstract_code, {_, Forms}}]}} = beam_lib:chunks(Beam, [abstract_code]),
    Mentioned = lists:append([atoms(Clauses) -- [Name] || {function, _, Name, _, Clauses} <- Forms]),
    [Name || {function, _, Name, 1, [{clause, _, [{var, _, Config}], _, _}]} <- Forms,
             lists:member(Config, ['Config', '_Config']),
             not lists:member(Name, [init_per_suite, end_per_suite | All ++ Mentioned])].

atoms({atom, _, Atom}) -> [Atom];
atoms({function, Name, Arity}) when is_integer(Arity) -> [Name];
atoms(Form) when is_tuple(Form) -> atoms(tuple_to_list(Form));
atoms(Forms) when is_list(Forms) -> lists:usort(lists:append([atoms(F) || F <- Forms, not is_atom(F)]));
atoms(_) -> [].

is_row({_, Native, Portable, Releases}) ->
    [Native, Portable] -- [test, test, ci, ci, soak, soak, never, never] =:= []
        andalso lists:member(Releases, [every, later, one]);
is_row({Suite, Cases, Native, Portable, Releases}) when is_list(Cases) ->
    is_row({Suite, Native, Portable, Releases});
is_row(_) ->
    false.

loaded(Suite) ->
    _ = code:ensure_loaded(Suite),
    Suite.

table() ->
    {ok, Rows} = file:consult(filename:join(root(), "test/tiers.eterm")),
    Rows.

root() -> os:getenv("SONDE_ROOT", ".").

%% ---- plan: puts the suites of a run into Logs/queue, in the order of the table
%%
%% Tiers: "test,ci" selects the cases of these tiers; "all" every case. Suites and cases named on
%% the command line run unless the table says never.

plan([Side, Tiers, Logs | Args]) ->
    Queue = filename:join(Logs, "queue"),
    ok = filelib:ensure_dir(filename:join(Queue, "x")),
    Asked = asked(Args),
    Rows = table(),
    Suites = [Suite || {Suite, _, _, _} <- Rows],
    Runs = case {map_size(Asked), Tiers} of
               {0, _} when Tiers =/= "all" ->
                   fun(Row) -> runs_in([list_to_atom(T) || T <- string:lexemes(Tiers, ",")],
                                       is_host(), tier(list_to_atom(Side), Row), Row) end;
               _ -> fun(Row) -> tier(list_to_atom(Side), Row) =/= never end
           end,
    Plans = [{Suite, Plan} || Suite <- Suites,
                              map_size(Asked) =:= 0 orelse is_map_key(Suite, Asked),
                              Plan <- [plan_of(Suite, Rows, Runs, maps:get(Suite, Asked, all))],
                              is_any(Plan)],
    _ = [ok = write_terms(filename:join(Queue, io_lib:format("~3..0b-~s", [N, Suite])), [Plan])
         || {N, {Suite, _} = Plan} <- lists:zip(lists:seq(1, length(Plans)), Plans)],
    Unknown = maps:keys(Asked) -- Suites,
    _ = [io:format(standard_error, "no such suite: ~s~n", [Suite]) || Suite <- Unknown],
    length(Unknown).

%% Parses "a_SUITE b_SUITE:case" into #{Suite => all | [Case]}.
asked(Args) ->
    lists:foldl(fun(Arg, Asked) ->
                        case [list_to_atom(Part) || Part <- string:lexemes(Arg, ":")] of
                            [Suite] -> Asked#{Suite => all};
                            [Suite, Case] ->
                                maps:update_with(Suite, fun(all) -> all; (Cs) -> [Case | Cs] end,
                                                 [Case], Asked)
                        end
                end, #{}, Args).

%% {Whether a case runs, [{Case, whether it runs} for each exception]}.
plan_of(Suite, Rows, Runs, Asked) ->
    [Default] = [Runs({Native, Portable, Where})
                 || {S, Native, Portable, Where} <- Rows, S =:= Suite],
    Others = [{Case, Runs({Native, Portable, Where})}
              || {S, Cases, Native, Portable, Where} <- Rows, S =:= Suite, Case <- Cases],
    case Asked of
        all -> {Default, Others};
        Cases -> {false, [{Case, proplists:get_value(Case, Others, Default)} || Case <- Cases]}
    end.

is_any({Default, Others}) -> Default orelse lists:any(fun({_, Runs}) -> Runs end, Others).

tier(native, {Native, _, _}) -> Native;
tier(portable, {_, Portable, _}) -> Portable.

runs_in(Tiers, IsHost, Tier, {_, _, Releases}) ->
    lists:member(postponed(Tier, IsHost, Releases), Tiers) andalso (Releases =/= one orelse IsHost).

postponed(ci, false, later) -> soak;
postponed(Tier, _, _) -> Tier.

%% Cases that do not depend on the release run only on the host's, not in the chroots of the matrix.
is_host() -> os:getenv("SONDE_CHROOT", "") =:= "".

%% ---- work: one suite, as planned

work([Side, Dir, Plan]) ->
    Logs = filename:dirname(Plan),
    {ok, [{Suite, Cases}]} = file:consult(Plan),
    Say = fun(Term) -> ct_count_hook:say(Logs, Term) end,
    ok = Say({suite, Suite}),
    ok = choose(list_to_existing_atom(Side)),
    ok = case wrong_side(list_to_existing_atom(Side)) of
             {yes, Status} -> Say({failed, {Suite, run_test}, {wrong_side, Status}});
             no -> mix_pids(), suite(Suite, Cases, filename:join(Dir, "test"), Logs, Say)
         end,
    ok = Say(ended),
    0.

suite(Suite, Cases, Tests, Logs, Say) ->
    Opts = [{dir, Tests}, {suite, Suite}, {logdir, Logs}, {auto_compile, false},
            {abort_if_missing_suites, true}, {ct_hooks, [{ct_count_hook, {Cases, Logs}}]}],
    case ct:run_test(Opts) of
        {Passed, _, _} -> Say({passed, Suite, Passed});
        Error -> Say({failed, {Suite, run_test}, Error})
    end.

%% The setting is persistent, so that loading the application later does not undo it.
choose(Side) ->
    _ = application:load(sonde),
    Value = case Side of native -> on; portable -> off end,
    application:set_env(sonde, native, Value, [{persistent, true}]).

%% A run on the wrong side would pass for the wrong reason.
wrong_side(Side) ->
    case {Side, maps:get(status, sonde:native())} of
        {native, active} -> no;
        {portable, {off, disabled}} -> no;
        {_, Status} -> {yes, Status}
    end.

%% The VM reuses pids in the order in which their processes ended. So on a node that has worked for
%% a while, as in production, a later process may have a smaller pid.
mix_pids() ->
    {_, Mon} = spawn_monitor(fun mixed/0),
    receive {'DOWN', Mon, process, _, Why} -> Why = normal end,
    wait_for_less(1000).

mixed() ->
    Free = erlang:system_info(process_limit) - erlang:system_info(process_count) - 200,
    Pids = [spawn(fun() -> receive after infinity -> ok end end) || _ <- lists:seq(1, Free)],
    _ = [exit(Pid, kill) || {_, Pid} <- lists:sort([{rand:uniform(), Pid} || Pid <- Pids])],
    ok.

wait_for_less(Count) ->
    case erlang:system_info(process_count) < Count of
        true -> ok;
        false -> timer:sleep(10), wait_for_less(Count)
    end.

%% ---- summary: all results, into Logs/summary. If a node ended in the middle of a case, that case
%% has failed; a suite that was not begun has failed too

summary([Side, Logs]) ->
    Results = [results(File) || File <- filelib:wildcard(filename:join(Logs, "*/results"))],
    All = lists:append(Results),
    Begun = [filename:dirname(Plan) || Plan <- filelib:wildcard(filename:join(Logs, "*/plan"))],
    Left = [{{list_to_atom(suite_of(filename:basename(File))), run_test},
             "not run: the time was up, or its node did not start"}
            || File <- filelib:wildcard(filename:join(Logs, "queue/*"))
                   ++ [Dir || Dir <- Begun, not filelib:is_file(filename:join(Dir, "results"))]],
    Failed = [{Where, Why} || {failed, Where, Why} <- All] ++ Left
        ++ lists:append([unfinished(R) || R <- Results]),
    Skipped = [{Where, Why} || {skipped, Where, Why} <- All],
    Silent = [{Where, "skipped without a reason"} || {Where, ""} <- Skipped],
    Passed = lists:sum([N || {passed, _, N} <- All] ++ [passed_before(R) || R <- Results]),
    Empty = [{{run, list_to_atom(Side)}, "no test was executed"} || Passed =:= 0, Failed =:= []],
    Bad = Failed ++ Silent ++ Empty,
    Lines = [io_lib:format("  FAILED ~ts: ~ts~n", [name(Where), short(Why)]) || {Where, Why} <- Bad]
        ++ slowest(All)
        ++ [io_lib:format("OTP ~s ~s: ~b passed, ~b failed, ~b skipped~ts~n",
                          [erlang:system_info(otp_release), Side, Passed, length(Bad),
                           length(Skipped) - length(Silent),
                           reasons(lists:usort([Why || {_, Why} <- Skipped, Why =/= ""]))])],
    ok = file:write_file(filename:join(Logs, "summary"), unicode:characters_to_binary(Lines)),
    case Bad of [] -> 0; _ -> 1 end.

%% 012-a_SUITE in the queue, a_SUITE once it is taken.
suite_of(Name) -> lists:last(string:split(Name, "-")).

%% The last line of a killed node may be incomplete.
results(File) ->
    {ok, Text} = file:read_file(File),
    [begin
         {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Line)),
         {ok, Term} = erl_parse:parse_term(Tokens),
         Term
     end || Line <- lists:droplast(binary:split(Text, <<"\n">>, [global]))].

unfinished(Results) ->
    case {lists:member(ended, Results), [Where || {begun, Where} <- Results] -- over(Results)} of
        {true, _} -> [];
        {false, []} -> [{{Suite, run_test}, "its node ended, between two cases"}
                        || {suite, Suite} <- Results];
        {false, Begun} -> [{Where, "its node ended in it, or the time was up"} || Where <- Begun]
    end.

over(Results) ->
    [Where || {done, Where, _} <- Results]
        ++ [Where || {Kind, Where, _} <- Results, Kind =:= failed orelse Kind =:= skipped].

%% The number of cases that passed in an unfinished suite.
passed_before(Results) ->
    case lists:keymember(passed, 1, Results) of
        true -> 0;
        false -> length([Where || {done, Where, _} <- Results,
                                  not lists:keymember(Where, 2, [R || R <- Results, is_tuple(R),
                                                                      element(1, R) =/= done,
                                                                      element(1, R) =/= begun])])
    end.

slowest(All) ->
    case lists:sublist(lists:reverse(lists:sort([{Ms, Where} || {done, Where, Ms} <- All])), 10) of
        Cases when length(Cases) > 1 ->
            [io_lib:format("  slowest: ~ts~n",
                           [lists:join(", ", [io_lib:format("~ts ~.1f s", [name(Where), Ms / 1000])
                                              || {Ms, Where} <- Cases, Ms >= 1000])])
             || element(1, hd(Cases)) >= 1000];
        _ -> []
    end.

reasons([]) -> "";
reasons(Reasons) -> [" (", lists:join("; ", Reasons), ")"].

name({Suite, {Case, Group}}) -> io_lib:format("~s:~s (~s)", [Suite, Case, Group]);
name({Suite, Case}) -> io_lib:format("~s:~s", [Suite, Case]).

%% One line, whatever the reason is.
short(Why) ->
    Text = case io_lib:printable_unicode_list(Why) of
               true -> Why;
               false when is_binary(Why) -> io_lib:format("~ts", [Why]);
               false -> io_lib:format("~0tP", [Why, 40])
           end,
    string:slice(re:replace(Text, "\\s+", " ", [global, unicode, {return, list}]), 0, 600).
