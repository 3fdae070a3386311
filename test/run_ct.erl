%% Builds sonde and its tests with nothing but OTP, and runs Common Test on them: one program for
%% every release, the host's and those in the chroots of the matrix, where there is no rebar3.
%% scripts/suite calls it; what it has to say goes to a file, since Common Test talks a lot.
-module(run_ct).

-export([main/0]).

main() ->
    Code = try command(init:get_plain_arguments())
           catch Class:Why:Stack ->
               io:format(standard_error, "run_ct: ~p: ~p~n~p~n", [Class, Why, Stack]),
               2
           end,
    halt(Code).

command(["build", Dir]) ->
    build(Dir);
command(["run", Side, Dir, Logs | Suites]) ->
    run(list_to_existing_atom(Side), Dir, Logs, Suites).

%% ---- build: src/ to Dir/sonde/ebin, test/ to Dir/test; src/ with TEST defined to Dir/sonde_test/ebin

build(Dir) ->
    {ok, Config} = file:consult("rebar.config"),
    Opts = proplists:get_value(erl_opts, Config),
    {test, Test} = lists:keyfind(test, 1, proplists:get_value(profiles, Config)),
    Strict = [warnings_as_errors | Opts],
    Src = compile_all("src/*.erl", Dir, "sonde/ebin", Strict),
    ForTest = compile_all("src/*.erl", Dir, "sonde_test/ebin", [{d, 'TEST'} | Strict]),
    Tests = compile_all("test/*.erl", Dir, "test", Opts ++ proplists:get_value(erl_opts, Test, [])),
    ok = write_app([M || {ok, M} <- Src], filename:join(Dir, "sonde/ebin")),
    length([error || error <- Src ++ ForTest ++ Tests]).

compile_all(Pattern, Dir, Sub, Opts) ->
    Out = filename:join(Dir, Sub),
    ok = filelib:ensure_dir(filename:join(Out, "x")),
    _ = [ok = file:delete(B) || B <- filelib:wildcard(filename:join(Out, "*.beam")),
                                filename:basename(B) =/= "run_ct.beam"],
    [compile_one(F, [{outdir, Out}, {i, "include"}, {i, "src"}, report | Opts])
     || F <- filelib:wildcard(Pattern)].

compile_one(File, Opts) ->
    case compile:file(File, Opts) of
        {ok, Module} -> {ok, Module};
        _ -> error
    end.

write_app(Modules, Ebin) ->
    {ok, [{application, sonde, Props}]} = file:consult("src/sonde.app.src"),
    App = {application, sonde, lists:keystore(modules, 1, Props, {modules, Modules})},
    file:write_file(filename:join(Ebin, "sonde.app"), io_lib:format("~p.~n", [App])).

%% ---- run: the suites on one side, into Logs/summary

run(Side, Dir, Logs, Args) ->
    {ok, Out} = file:open(filename:join(Logs, "summary"), [write, {encoding, utf8}]),
    ok = choose(Side),
    Result = case wrong_side(Side) of
                 {yes, Status} ->
                     say(Out, "  FAILED to be on the ~s side: ~0tp~n", [Side, Status]),
                     {0, 1, []};
                 no ->
                     ok = mix_pids(),
                     suites(Out, filename:join(Dir, "test"), Logs, Args)
             end,
    Code = summary(Out, Side, Result),
    ok = file:close(Out),
    Code.

%% Persistent, so that loading the application later does not undo it.
choose(Side) ->
    _ = application:load(sonde),
    Value = case Side of native -> on; portable -> off end,
    application:set_env(sonde, native, Value, [{persistent, true}]).

%% A run that is meant to be native and is not would pass for the wrong reason.
wrong_side(Side) ->
    _ = code:ensure_loaded(sonde),
    case erlang:function_exported(sonde, native, 0) of
        false -> no;
        true ->
            case {Side, maps:get(status, sonde:native())} of
                {native, active} -> no;
                {portable, {off, disabled}} -> no;
                {_, Status} -> {yes, Status}
            end
    end.

%% A pid is given again in the order in which those before it ended. On a node that has worked for a
%% while, as in production, a later process need not have the larger pid.
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

suites(Out, Dir, Logs, Args) ->
    Table = ets:new(ct_count_hook, [named_table, public, duplicate_bag]),
    Opts = [{dir, Dir}, {logdir, Logs}, {auto_compile, false}, {abort_if_missing_suites, true},
            {ct_hooks, [ct_count_hook]} | which(Dir, Args)],
    Passed = case ct:run_test(Opts) of
                 {Ok, _, _} -> Ok;
                 Error -> ets:insert(Table, {failed, {ct, run_test}, Error}), 0
             end,
    Failed = ets:lookup(Table, failed),
    _ = [say(Out, "  FAILED ~ts: ~ts~n", [name(Where), short(Why)]) || {_, Where, Why} <- Failed],
    {Passed, length(Failed), [{Where, skip_reason(Why)}
                              || Kind <- [tc_user_skip, tc_auto_skip],
                                 {_, Where, Why} <- ets:lookup(Table, Kind), is_case(Where)]}.

is_case({_Suite, {Name, _Group}}) -> is_case({none, Name});
is_case({_Suite, Name}) -> not lists:member(Name, [init_per_suite, end_per_suite,
                                                   init_per_group, end_per_group]).

which(Dir, []) ->
    [{suite, [filename:basename(F, ".beam")
              || F <- filelib:wildcard(filename:join(Dir, "*_SUITE.beam"))]}];
which(_Dir, [Arg]) ->
    case string:split(Arg, ":") of
        [Suite, Case] -> [{suite, Suite}, {testcase, list_to_atom(Case)}];
        [Suite] -> [{suite, Suite}]
    end;
which(_Dir, Args) ->
    [{suite, Args}].

summary(Out, Side, {Passed, Failed0, Skips}) ->
    Silent = [Where || {Where, ""} <- Skips],
    _ = [say(Out, "  FAILED ~ts: skipped without a reason~n", [name(W)]) || W <- Silent],
    Empty = Passed + Failed0 =:= 0,
    _ = [say(Out, "  FAILED: no test was executed~n", []) || Empty],
    Failed = Failed0 + length(Silent) + length([x || Empty]),
    say(Out, "OTP ~s ~s: ~b passed, ~b failed, ~b skipped~ts~n",
        [erlang:system_info(otp_release), Side, Passed, Failed, length(Skips) - length(Silent),
         reasons(lists:usort([R || {_, R} <- Skips, R =/= ""]))]),
    case Failed of 0 -> 0; _ -> 1 end.

reasons([]) -> "";
reasons(Reasons) -> [" (", lists:join("; ", Reasons), ")"].

skip_reason({failed, {_Suite, Function, _Why}}) -> io_lib:format("~s failed", [Function]);
skip_reason(Why) when Why =:= undefined; Why =:= []; Why =:= <<>> -> "";
skip_reason(Why) -> short(Why).

name({Suite, {Case, Group}}) -> io_lib:format("~s:~s (~s)", [Suite, Case, Group]);
name({Suite, Case}) -> io_lib:format("~s:~s", [Suite, Case]).

%% One line, whatever it is.
short(Why) ->
    Text = case io_lib:printable_unicode_list(Why) of
               true -> Why;
               false when is_binary(Why) -> io_lib:format("~ts", [Why]);
               false -> io_lib:format("~0tP", [Why, 40])
           end,
    string:slice(re:replace(Text, "\\s+", " ", [global, unicode, {return, list}]), 0, 600).

say(Out, Format, Args) ->
    io:format(Out, Format, Args).
