%% The library's life: it is loaded twice, upgraded, purged or replaced by another build while scans
%% are open; it is missing, or its file is not a library; memory runs out; its terms go to the wrong
%% processes, and wrong terms come in. The node survives and answers stay right.
-module(life_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 6}}].

all() ->
    [loaded_again_it_stays_proved, purged_it_comes_back, reloaded_while_others_scan,
     purged_while_a_scan_is_open, another_build_takes_over_while_a_scan_is_open,
     builds_come_while_others_call, refusals_while_builds_come,
     functions_are_asked_for_while_builds_come, the_next_build_is_configured_too,
     no_library_is_no_reason_to_fail, garbage_is_not_a_library, another_abi_is_refused,
     no_memory_while_it_scans, no_memory_while_it_accounts, no_memory_while_it_looks,
     no_memory_while_it_proves, no_memory_while_it_loads, failed_allocations_leak_nothing,
     scans_of_killed_callers_are_freed, one_scan_in_many_hands, sample_in_many_hands,
     wrong_arguments_are_badarg, refusals_are_no_exceptions, scan_steps_in_the_wrong_order].

init_per_suite(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "other"),
    [{other, other_build(Dir)} | sonde_test:init(Config)].

end_per_suite(_Config) -> ok.

init_per_testcase(Case, Config) ->
    Test = [no_memory_while_it_scans, no_memory_while_it_accounts, no_memory_while_it_looks,
            no_memory_while_it_proves, no_memory_while_it_loads, failed_allocations_leak_nothing],
    Other = [another_build_takes_over_while_a_scan_is_open, another_abi_is_refused],
    Dir = filename:join(proplists:get_value(priv_dir, Config), Case),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    Needed = [sonde_peer_helper:needs_test_build() || lists:member(Case, Test)]
        ++ [proplists:get_value(other, Config) || lists:member(Case, Other)],
    case [Skip || {skip, _} = Skip <- Needed] of
        [] -> [{dir, Dir} | Config];
        [Skip | _] -> Skip
    end.

end_per_testcase(_Case, _Config) -> ok.

%% ---- loading

loaded_again_it_stays_proved(_Config) ->
    with(shipped, fun(Peer) -> ok = call(Peer, load_again, []) end).

load_again() ->
    #{status := active} = sonde:native(),
    ok = starts_of_proof(start),
    _ = [begin
             {module, sonde_nif} = code:load_file(sonde_nif),
             on = sonde_nif:state(),
             right(),
             _ = code:purge(sonde_nif)
         end || _ <- lists:seq(1, 20)],
    0 = starts_of_proof(count),
    ok.

starts_of_proof(start) ->
    1 = erlang:trace_pattern({sonde_probe, start, 0}, true, [call_count]),
    ok;
starts_of_proof(count) ->
    {call_count, N} = erlang:trace_info({sonde_probe, start, 0}, call_count),
    N.

%% A known process is among the rows, with the value that it reports itself.
right() ->
    right(fun() -> sonde:proc_count(memory, 10000) end).

right(Rows) ->
    Keep = some_words(3000),
    Pid = sonde_test:hold(fun() -> Keep end),
    {Pid, Value, _} = lists:keyfind(Pid, 1, Rows()),
    {memory, Value} = process_info(Pid, memory),
    sonde_test:stop(Pid).

some_words(N) -> lists:seq(1, N).

purged_it_comes_back(_Config) ->
    with(shipped, fun(Peer) -> ok = call(Peer, purge_and_come_back, []) end).

purge_and_come_back() ->
    #{status := active} = sonde:native(),
    _ = [begin
             true = code:delete(sonde_nif),
             _ = code:purge(sonde_nif),
             false = code:is_loaded(sonde_nif),
             right(),
             #{status := active, counters := #{native := N}} = sonde:native(),
             true = N > 0
         end || _ <- lists:seq(1, 10)],
    ok.

%% A purge kills processes that still run old code (OTP does this). Other processes notice nothing.
reloaded_while_others_scan(_Config) ->
    with(shipped, fun(Peer) -> ok = call(Peer, reload_under_way, [1500]) end).

reload_under_way(Ms) ->
    Keep = [sonde_test:hold(fun() -> lists:seq(1, N) end) || N <- lists:seq(10000, 50000, 10000)],
    Expected = lists:sort([{P, M} || P <- Keep, {memory, M} <- [process_info(P, memory)]]),
    Parent = self(),
    Scanner = fun() -> Parent ! {self(), scan_on(Keep, Expected, 0)} end,
    Scanners = [spawn_monitor(Scanner) || _ <- lists:seq(1, 4)],
    End = erlang:monotonic_time(millisecond) + Ms,
    Reloads = reload_until(End, 0),
    _ = [Pid ! stop || {Pid, _} <- Scanners],
    Scans = [receive
                 {Pid, N} -> N;
                 {'DOWN', Mon, process, _, Why} -> exit(Why)
             end || {Pid, Mon} <- Scanners],
    ct:pal("~p reloads, ~p scans", [Reloads, Scans]),
    true = Reloads > 0 andalso lists:min(Scans) > 0,
    sonde_test:stop(Keep).

reload_until(End, N) ->
    case erlang:monotonic_time(millisecond) < End of
        false -> N;
        true ->
            Loaded = case code:soft_purge(sonde_nif) of
                         true -> {module, sonde_nif} = code:load_file(sonde_nif), 1;
                         false -> 0
                     end,
            timer:sleep(5),
            reload_until(End, N + Loaded)
    end.

scan_on(Keep, Expected, N) ->
    receive stop -> N
    after 0 ->
        Rows = sonde:proc_count(memory, 10000),
        Expected = lists:sort([{P, V} || {P, V, _} <- Rows, lists:member(P, Keep)]),
        _ = sonde:proc_window(reductions, 3, 1),
        scan_on(Keep, Expected, N + 1)
    end.

%% The scan outlives the module; it is freed when its owner dies.
purged_while_a_scan_is_open(_Config) ->
    with(shipped, fun(Peer) -> ok = call(Peer, purge_under_a_scan, []) end).

purge_under_a_scan() ->
    #{status := active} = sonde:native(),
    Owner = scan_owner(1000),
    true = code:delete(sonde_nif),
    _ = code:purge(sonde_nif),
    sonde_test:stop(Owner),
    right(),
    #{status := active} = sonde:native(),
    %% again, with a scan that is continued in the new instance, to which it does not belong
    Next = scan_owner(1000),
    true = code:delete(sonde_nif),
    _ = code:purge(sonde_nif),
    #{status := active} = sonde:native(),
    Next ! {go_on, self()},
    receive {Next, Answer} -> true = lists:member(Answer, [done, badarg]) end,
    sonde_test:stop(Next),
    right().

%% Holds a half-done scan; `go_on' steps it to its end. It waits outside the module, so no purge
%% kills it.
scan_owner(N) ->
    Parent = self(),
    Pid = spawn(fun() ->
                        Scan = sonde_nif:scan_new(memory, top, N, undefined, [], 1000000),
                        _ = sonde_nif:scan_step(Scan),
                        Parent ! {self(), open},
                        receive {go_on, From} -> From ! {self(), steps(Scan)} end,
                        receive stop -> Scan end
                end),
    receive {Pid, open} -> Pid end.

steps(Scan) ->
    try sonde_nif:scan_step(Scan) of
        more -> steps(Scan);
        {ask, Pids} -> ok = sonde_nif:scan_feed(Scan, [{P, 0} || P <- Pids]), steps(Scan);
        Answer -> Answer
    catch
        error:Why -> Why
    end.

%% ---- another build

another_build_takes_over_while_a_scan_is_open(Config) ->
    {_, Ebin} = proplists:get_value(other, Config),
    with(shipped, fun(Peer) -> ok = call(Peer, take_over, [Ebin]) end).

take_over(Ebin) ->
    #{status := active} = sonde:native(),
    {"sonde-12", _} = sonde_nif:build_id(),
    Owner = scan_owner(1000),
    true = code:add_patha(Ebin),
    {module, sonde_nif} = code:load_file(sonde_nif),
    {"other", _} = sonde_nif:build_id(),
    #{status := active} = sonde:native(),
    Owner ! {go_on, self()},
    %% the scan belongs to the other build, and this build refuses it
    receive {Owner, badarg} -> ok end,
    _ = code:purge(sonde_nif),
    sonde_test:stop(Owner),
    [garbage_collect(P) || P <- processes()],
    right(),
    ok.

%% Calls that are under way start again, or report that the build changed; they never raise badarg.
builds_come_while_others_call(Config) ->
    Builds = sonde_builds_helper:make(proplists:get_value(dir, Config), 3),
    with(shipped, fun(Peer) -> ok = call(Peer, call_while_builds_come, [Builds, Config]) end).

call_while_builds_come(Builds, Config) ->
    Dir = proplists:get_value(dir, Config),
    Pid = sonde_test:hold(fun() -> {lists:seq(1, 30000), [binary:copy(<<I>>, 100)
                                                          || I <- lists:seq(1, 200)]} end),
    Many = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 3000)],
    Term = lists:seq(1, 30000),
    Whole = erlang:system_info(process_limit),
    Value = fun(Rows) -> {Pid, V, _} = lists:keyfind(Pid, 1, Rows), V end,
    Flat = sonde:flat_size(Term),
    #{status := active} = sonde:native(),
    #{reachable := Reachable} = sonde:heap(Pid, #{}),
    Calls = [{count, fun() -> 0 = Value(sonde:proc_count(message_queue_len, Whole)) end},
             {window, fun() -> [_] = sonde:proc_window(reductions, 1, 20) end},
             {group, fun() -> [_ | _] = sonde:proc_group(initial_call, [memory]) end},
             {garbage, fun() -> true = is_list(sonde:proc_count(garbage_bytes, 10)) end},
             {owned, fun() -> true = is_list(sonde:bin_owned(10)) end},
             {account, fun() -> #{} = sonde:bin_account() end},
             {holders, fun() -> true = is_list(sonde:bin_holders(3, size)) end},
             {bin_window, fun() -> true = is_list(sonde:bin_window(3, 20)) end},
             {leak, fun() -> true = is_list(sonde:bin_leak(3)) end},
             {heap, fun() -> #{reachable := Reachable} = sonde:heap(Pid, #{}) end},
             {flat, fun() -> Flat = sonde:flat_size(Term) end},
             {sizes, fun() -> #{flat_words := Flat} = sonde:term_size(Term) end},
             {mailbox, fun() -> #{messages := 0} = sonde:mailbox(Pid, 3) end},
             {dump, fun() -> dumped(Pid, filename:join(Dir, "dump.heapsnapshot")) end},
             {diagnosis, fun() -> #{} = sonde:diagnosis(#{interval => 200}) end},
             {native, fun() -> #{status := active} = sonde:native() end}],
    Parent = self(),
    Callers = [spawn_monitor(fun() -> Parent ! {self(), Name, call_on(Call, 0, [])} end)
               || {Name, Call} <- Calls],
    ok = load_in_turn(Builds, erlang:monotonic_time(millisecond) + 8000),
    _ = [Caller ! stop || {Caller, _} <- Callers],
    Done = [receive
                {Caller, _, Outcome} -> {Name, Outcome};
                {'DOWN', Mon, process, Caller, Why} -> {ended, Why}
            after 60000 -> {ended, {Name, process_info(Caller, current_stacktrace)}}
            end || {{Caller, Mon}, {Name, _}} <- lists:zip(Callers, Calls)],
    ct:pal("~p", [Done]),
    [] = [Outcome || {_, {_, [_ | _]}} = Outcome <- Done],
    [] = [Outcome || {_, {0, _}} = Outcome <- Done],
    [] = [Outcome || {ended, _} = Outcome <- Done],
    right(),
    sonde_test:stop([Pid | Many]).

%% For a moment after a load the VM calls the library through stubs. If a call raised, the VM would keep a pointer
%% into the stub, free the stub, and read it when it builds the stack trace. Here it builds the stack trace when
%% the stubs are gone. No dirty call is among these, because dirty calls wait until then.
refusals_while_builds_come(Config) ->
    Builds = sonde_builds_helper:make(proplists:get_value(dir, Config), 2),
    sonde_peer_helper:with(shipped, ["+MRsbct", "1", "+MMmcs", "0"],
                           fun(Peer) -> ok = call(Peer, refuse_while_builds_come, [Builds]) end).

refuse_while_builds_come(Builds) ->
    #{status := active} = sonde:native(),
    Nobody = make_ref(),
    Calls = [fun() -> sonde_nif:scan_info(Nobody) end, fun() -> sonde_nif:look_heap(Nobody) end,
             fun() -> sonde_nif:account_ranked(Nobody, 0) end],
    _ = [begin
             Callers = [spawn_monitor(fun() -> receive go -> refused(10, Call) end end)
                        || Call <- Calls],
             ok = sonde_builds_helper:load(lists:nth(1 + Round rem length(Builds), Builds)),
             _ = [Caller ! go || {Caller, _} <- Callers],
             _ = [receive {'DOWN', Mon, process, Caller, Why} -> normal = Why end || {Caller, Mon} <- Callers]
         end || Round <- lists:seq(1, 60)],
    right(),
    ok.

refused(0, _Call) -> ok;
refused(Times, Call) ->
    [_ | _] = try refused_slowly(Call) of _ -> [] catch error:badarg:Stack -> Stack end,
    refused(Times - 1, Call).

refused_slowly(Call) ->
    try Call() after timer:sleep(10) end.

%% While a dirty call runs that came through such a stub, the stub is the current function of the process.
functions_are_asked_for_while_builds_come(Config) ->
    Builds = sonde_builds_helper:make(proplists:get_value(dir, Config), 2),
    sonde_peer_helper:with(shipped, ["+MRsbct", "1", "+MMmcs", "0"],
                           fun(Peer) -> ok = call(Peer, ask_while_builds_come, [Builds]) end).

ask_while_builds_come(Builds) ->
    #{status := active} = sonde:native(),
    Calls = counters:new(1, []),
    _ = [ok = asked_for_functions(lists:nth(1 + Round rem length(Builds), Builds), Calls)
         || Round <- lists:seq(1, 300)],
    true = counters:get(Calls, 1) > 100,
    right(),
    ok.

%% Those that ask take the schedulers from the VM, too, which then keeps the stubs for longer.
asked_for_functions(Build, Calls) ->
    Callers = [spawn(fun() -> receive go -> calls_without_end(Calls) end end) || _ <- lists:seq(1, 10)],
    Askers = [spawn(fun() -> asks_without_end(Callers) end) || _ <- lists:seq(1, 2)],
    ok = sonde_builds_helper:load(Build),
    Before = counters:get(Calls, 1),
    _ = [Caller ! go || Caller <- Callers],
    ok = some_calls(Calls, Before, 1000),
    _ = [exit(Pid, kill) || Pid <- Askers ++ Callers],
    ok.

%% For 6 ms, or longer until there was one. Where nothing shows when the stub is gone, that takes a second.
some_calls(Calls, Before, Left) ->
    timer:sleep(6),
    case counters:get(Calls, 1) of
        Before when Left > 0 -> some_calls(Calls, Before, Left - 1);
        _ -> ok
    end.

calls_without_end(Calls) ->
    ok = try sonde_nif:calibrate_table(1 bsl 18) of _ -> ok catch error:badarg -> ok end,
    ok = counters:add(Calls, 1, 1),
    calls_without_end(Calls).

asks_without_end(Pids) ->
    _ = [process_info(Pid, current_function) || Pid <- Pids],
    asks_without_end(Pids).

%% Settings from the environment and switches set by hand hold for every build.
the_next_build_is_configured_too(Config) ->
    Builds = sonde_builds_helper:make(proplists:get_value(dir, Config), 3),
    sonde_peer_helper:with(shipped, ["-sonde", "native", "off"],
                           fun(Peer) -> ok = call(Peer, stay_switched, [Builds, off]) end),
    sonde_peer_helper:with(shipped, ["-sonde", "reader", "syscall"],
                           fun(Peer) -> ok = call(Peer, stay_switched, [Builds, on]) end).

stay_switched([First, Second, Third], OnOff) ->
    Other = case OnOff of on -> off; off -> on end,
    ok = sonde_builds_helper:load(First),
    OnOff = switched(),
    ok = sonde_builds_helper:load(Second),
    OnOff = switched(),
    _ = sonde:native(Other),
    Other = switched(),
    ok = sonde_builds_helper:load(Third),
    Other = switched(),
    _ = sonde:native(OnOff),
    ok = sonde_builds_helper:load(First),
    OnOff = switched(),
    ok.

switched() ->
    case sonde:native() of
        #{status := active, reader := Reader} when Reader =/= none -> on;
        #{status := {off, disabled}} -> off
    end.

dumped(Pid, File) ->
    case sonde_heap:dump(Pid, File, #{force => true}) of
        {ok, _} -> ok;
        {error, {native_off, reloaded}} -> ok;
        {error, busy} -> ok
    end.

%% Callers leave the module often: this test is not about processes that a purge kills.
load_in_turn([Build | Builds], Until) ->
    case erlang:monotonic_time(millisecond) < Until of
        false -> ok;
        true ->
            case code:soft_purge(sonde_nif) of
                true -> ok = sonde_builds_helper:load(Build);
                false -> ok
            end,
            timer:sleep(100 + rand:uniform(900)),
            load_in_turn(Builds ++ [Build], Until)
    end.

%% Returns the number of answered calls and all other outcomes.
call_on(Call, N, Failed) ->
    receive stop -> {N, Failed}
    after 0 ->
        try Call() of
            _ -> call_on(Call, N + 1, Failed)
        catch
            error:{native_off, reloaded} -> call_on(Call, N, Failed);
            Class:Why:Stack ->
                call_on(Call, N, lists:sublist([{Class, Why, lists:sublist(Stack, 4)} | Failed], 2))
        end
    end.

%% Builds our sources with another ABI and another layout of scans and state: {priv, ebin}.
other_build(Dir) ->
    case [N || N <- ["make", "gcc"], os:find_executable(N) =:= false] of
        [_ | _] = Missing -> {skip, "not installed: " ++ lists:flatten(lists:join(", ", Missing))};
        [] -> {other_library(source(), Dir), other_module(source(), Dir)}
    end.

source() ->
    case os:getenv("SONDE_ROOT") of
        false -> filename:join(filename:dirname(code:which(sonde)), "../../../..");
        Root -> Root
    end.

other_library(Src, Dir) ->
    C = copy(filename:join(Src, "c_src"), "*/*.{c,h,S}", filename:join(Dir, "c_src")),
    _ = copy(filename:join(Src, "c_src"), "Makefile", C),
    change(filename:join(C, "nif/nif.h"),
           [{"\"sonde-12\"", "\"other\""},
            {"atomic_uint users;", "char more[64]; atomic_uint users;"}]),
    change(filename:join(C, "nif/nif_scan.h"),
           [{"struct held \\{\n", "struct held {\n    char more[4096];\n"}]),
    Priv = filename:join(Dir, "priv"),
    Out = os:cmd("make -s -j2 -C '" ++ C ++ "' CFLAGS=-O1 PRIV_DIR='" ++ Priv
                 ++ "' OBJ_ROOT='" ++ filename:join(Dir, "obj") ++ "' 2>&1"),
    ct:pal("~ts", [Out]),
    [_ | _] = filelib:wildcard(filename:join(Priv, "sonde_nif-*.so")),
    Priv.

other_module(Src, Dir) ->
    Ebin = filename:join(Dir, "ebin"),
    Erl = copy(filename:join(Src, "src/native"), "sonde_nif.erl", filename:join(Dir, "src")),
    change(filename:join(Erl, "sonde_nif.erl"), [{"\"sonde-12\"", "\"other\""}]),
    ok = filelib:ensure_dir(filename:join(Ebin, "x")),
    {ok, sonde_nif} = compile:file(filename:join(Erl, "sonde_nif.erl"), [{outdir, Ebin}]),
    Ebin.

copy(From, Pattern, To) ->
    _ = [begin
             ok = filelib:ensure_dir(filename:join(To, F)),
             {ok, _} = file:copy(filename:join(From, F), filename:join(To, F))
         end || F <- filelib:wildcard(Pattern, From)],
    To.

change(File, Changes) ->
    {ok, Old} = file:read_file(File),
    New = lists:foldl(fun({What, With}, Text) ->
                              true = re:run(Text, What) =/= nomatch,
                              re:replace(Text, What, With, [global, {return, binary}])
                      end, Old, Changes),
    ok = file:write_file(File, New).

%% ---- no library

no_library_is_no_reason_to_fail(Config) ->
    Text = not_loaded(Config, fun(_Priv) -> ok end),
    "no sonde_nif" ++ _ = Text.

garbage_is_not_a_library(Config) ->
    Text = not_loaded(Config, fun(Priv) ->
                                      ok = file:write_file(filename:join(Priv, "sonde_nif-0123.so"),
                                                           garbage())
                              end),
    true = length(Text) > 10 andalso io_lib:printable_unicode_list(Text).

garbage() -> << <<(rand:uniform(256) - 1)>> || _ <- lists:seq(1, 20000) >>.

another_abi_is_refused(Config) ->
    {Other, _} = proplists:get_value(other, Config),
    Text = not_loaded(Config, fun(Priv) -> copy(Other, "sonde_nif*.so", Priv) end),
    "the library speaks other, not sonde-12" = Text.

%% Copies the beams beside a priv that Fill fills; returns the reason that the load gives.
not_loaded(Config, Fill) ->
    Root = filename:join(proplists:get_value(dir, Config), "root"),
    Ebin = copy(filename:dirname(code:which(sonde)), "*.{beam,app}", filename:join(Root, "ebin")),
    ok = filelib:ensure_dir(filename:join([Root, "priv", "x"])),
    Fill(filename:join(Root, "priv")),
    Peer = sonde_peer_helper:start(bare, ["-pa", Ebin]),
    try
        Status = sonde_peer_helper:call(Peer, sonde, native, []),
        #{status := {off, {not_loaded, Text}}, reader := none, layout := none, checks := [],
          counters := #{native := 0}} = Status,
        #{status := {off, {not_loaded, Text}}} = sonde_peer_helper:call(Peer, sonde, native, [off]),
        #{status := {off, {not_loaded, Text}}} = sonde_peer_helper:call(Peer, sonde, native, [on]),
        ok = call(Peer, right, []),
        [_] = sonde_peer_helper:call(Peer, sonde, proc_window, [memory, 1, 1]),
        [_] = sonde_peer_helper:call(Peer, sonde, bin_leak, [1]),
        Text
    after
        sonde_peer_helper:stop(Peer)
    end.

%% ---- no memory

no_memory_while_it_scans(_Config) ->
    with(test, fun(Peer) -> Outcomes = call(Peer, scan_without_memory, []),
                            ct:pal("~p", [Outcomes]),
                            %% prove that memory did run out: some calls failed
                            true = lists:any(fun({_, Failed}) -> Failed > 0 end, Outcomes),
                            true = proplists:get_value(look, Outcomes) > 3
               end).

%% Uses fewer processes, since each call visits all of them several times.
no_memory_while_it_accounts(_Config) ->
    with(test, fun(Peer) -> Outcomes = call(Peer, account_without_memory, []),
                            ct:pal("~p", [Outcomes]),
                            [] = [Name || {Name, 0} <- Outcomes]
               end).

%% The N-th allocation fails, for N from 1 until several in a row do no harm any more.
scan_without_memory() ->
    Whole = erlang:system_info(process_limit),
    without_memory(3000, fun(Fragments, Binaries, _) ->
        [{memory, fun() -> sonde:proc_count(memory, Whole) end},
         {binary_count, fun() -> sonde:proc_count(binary_count, Whole) end},
         {binary_memory, fun() -> sonde:proc_count(binary_memory, Whole) end},
         {parts, fun() -> sonde:proc_count(memory, Whole, #{threads => 3}) end},
         {stacks, fun() -> stacks_of(hd(Fragments), sonde:stacks(Whole)) end},
         {groups, fun() -> [{hd(Fragments), N, []}
                            || {Call, N, _} <- sonde:proc_group(initial_call, [memory], #{threads => 3}),
                               {initial_call, Call} =:= process_info(hd(Fragments), initial_call)] end},
         {window, fun() -> sonde:proc_window(memory, Whole, 1) end},
         {window_in_parts, fun() -> sonde:proc_window(memory, Whole, 1, #{threads => 3}) end},
         {leak, fun() -> sonde:bin_leak(Whole) end},
         {leak_in_parts, fun() -> maps:get(rows, sonde:bin_leak(Whole, #{threads => 3})) end},
         {look, fun() -> looks(Fragments ++ Binaries) end}
         | [{Attr, fun() -> sonde:proc_count(Attr, Whole) end}
            || Attr <- sonde_attr:heap() -- [binary_proportional]]]
    end).

account_without_memory() ->
    Whole = erlang:system_info(process_limit),
    without_memory(100, fun(_, _, Pids) ->
        [{shares, fun() -> sonde:proc_count(binary_proportional, Whole) end},
         {shares_in_parts, fun() -> sonde:proc_count(binary_proportional, Whole, #{threads => 3}) end},
         {slices, fun() -> [{P, slices(P), []} || P <- Pids] end},
         {account, fun() -> [{hd(Pids), known(sonde:bin_account()), []}] end},
         {account_in_parts, fun() -> [{hd(Pids), known(sonde:bin_account(#{threads => 3})), []}] end},
         {holders, fun() -> [{hd(Pids), held(sonde:bin_holders(100, size)), []}] end},
         {resources, fun() -> [{hd(Pids), is_list(sonde:bin_resources(100)), []}] end},
         {bin_window, fun() -> sonde:bin_window(Whole, 1) end}]
    end).

without_memory(Crowd, Calls) ->
    #{status := active} = sonde:native(),
    Binaries = [sonde_test:hold(fun() -> [binary:copy(<<1>>, 100) || _ <- lists:seq(1, 50)] end)
                || _ <- lists:seq(1, 5)],
    Fragments = [fragmented(200) || _ <- lists:seq(1, 2)],
    Idle = [sonde_test:hold(fun() -> ok end) || _ <- lists:seq(1, 20)],
    _ = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, Crowd)],
    Pids = Binaries ++ Fragments ++ Idle,
    Outcomes = [{Name, without_memory(Call, values(Call(), Pids), Pids, 1, 0, 0)}
                || {Name, Call} <- Calls(Fragments, Binaries, Pids)],
    sonde_test:stop(Pids),
    Outcomes.

%% The fields that stay constant during the test.
known(#{processes_missed := 0} = Account) ->
    maps:with([queues, ets, literals, mixed, elsewhere], Account).

held(Holders) ->
    lists:sort([{Id, Size, Refc, [{Holder, References} || {Holder, References, _} <- Held]}
                || #{id := Id, size := Size, refc := Refc, holders := Held} <- Holders,
                   Size =:= 80]).

slices(Pid) ->
    case sonde:bin_slices(Pid) of
        {error, no_memory} -> error(no_memory);
        Slices -> Slices
    end.

%% What each process reaches.
looks(Pids) ->
    Opts = #{suspend => false, max_words => 1 bsl 30, timeout => 60000, progress => false},
    What = {mark, [histogram, visible, slices], 0, 0},
    [case sonde_look:run(Pid, What, Opts, fun sonde_nif:look_heap/1) of
         {#{roots := Roots}, #{visible := Visible}, [_ | _]} -> {Pid, {Roots, Visible}, []};
         {error, no_memory} -> error(no_memory)
     end || Pid <- Pids].

stacks_of(Pid, Rows) ->
    {_, Trace} = process_info(Pid, current_stacktrace),
    [{Pid, N, []} || {Stack, N, _} <- Rows, Stack =:= [{M, F, A} || {M, F, A, _} <- Trace]].

values(Rows, Pids) -> lists:sort([{P, V} || {P, V, _} <- Rows, lists:member(P, Pids)]).

without_memory(_, _, _, _, Failed, 30) -> Failed;
without_memory(Call, Right, Pids, N, Failed, Harmless) ->
    ok = sonde_nif:fail_alloc(N),
    Result = try {rows, Call()}
             catch error:no_memory -> no_memory
             end,
    ok = sonde_nif:fail_alloc(0),
    case Result of
        {rows, Rows} ->
            {N, Right} = {N, values(Rows, Pids)},
            without_memory(Call, Right, Pids, N + 1, Failed, Harmless + 1);
        no_memory ->
            without_memory(Call, Right, Pids, N + 1, Failed + 1, 0)
    end.

%% Has so many fragments that the walk needs a list of them.
fragmented(N) ->
    Pid = spawn_opt(fun() -> receive stop -> ok end end, [{message_queue_data, off_heap}]),
    _ = [Pid ! {I, binary:copy(<<I>>, 80)} || I <- lists:seq(1, N)],
    ok = sonde_test:settle(Pid),
    Pid.

%% A look at one heap returns no_memory; the size of a term is then found without the native path.
no_memory_while_it_looks(_Config) ->
    with(test, fun(Peer) -> Failed = call(Peer, look_without_memory, []),
                            ct:pal("~p", [Failed]),
                            true = lists:all(fun(N) -> N > 0 end, Failed)
               end).

look_without_memory() ->
    #{status := active} = sonde:native(),
    Term = lists:foldl(fun(I, T) -> {T, lists:seq(1, 100), "literal", binary:copy(<<I>>, 70)} end,
                       [], lists:seq(1, 100)),
    Pid = sonde_test:hold(fun() -> put(term, Term), Term end, [{message_queue_data, off_heap}]),
    _ = [Pid ! {I, lists:seq(1, 10000), Term} || I <- lists:seq(1, 50)],
    ok = sonde_test:settle(Pid),
    Calls = [fun() -> sonde_term:flat_size(Term, #{}) end,
             fun() -> sonde_term:term_size(Term, #{}) end,
             fun() -> sonde_term:root_size(Pid, all, #{}) end,
             fun() -> sonde_mailbox:mailbox(Pid, 10, #{}) end],
    Failed = [look_without_memory(Call, Call(), 1, 0, 0) || Call <- Calls],
    sonde_test:stop(Pid),
    %% the first two calls have a fallback
    [Failed1, Failed2 | Others] = Failed,
    [0, 0] = [Failed1, Failed2],
    Others.

look_without_memory(_, _, _, Failed, 30) -> Failed;
look_without_memory(Call, Right, N, Failed, Harmless) ->
    ok = sonde_nif:fail_alloc(N),
    Result = Call(),
    ok = sonde_nif:fail_alloc(0),
    case Result of
        Right -> look_without_memory(Call, Right, N + 1, Failed, Harmless + 1);
        {error, no_memory} -> look_without_memory(Call, Right, N + 1, Failed + 1, 0)
    end.

no_memory_while_it_proves(_Config) ->
    with(test, fun(Peer) -> ok = call(Peer, prove_without_memory, []) end).

prove_without_memory() ->
    _ = logger:set_primary_config(level, none),
    Before = length(processes()),
    Statuses = [begin
                    ok = sonde_nif:forget_proof(),
                    ok = sonde_nif:fail_alloc(N),
                    #{status := Status} = sonde_vm:native(),
                    ok = sonde_nif:fail_alloc(0),
                    Status
                end || N <- lists:seq(1, 20)],
    [] = [S || S <- Statuses, S =/= active, S =/= {off, {disturbed, prover_died}}],
    ok = sonde_nif:forget_proof(),
    #{status := active} = sonde_vm:native(),
    ok = sonde_test:until(probes_ended, fun() -> length(processes()) =< Before end),
    right().

%% A failed load does not raise, and is not final: a later load works.
no_memory_while_it_loads(_Config) ->
    with(test, fun(Peer) ->
                       Loaded = call(Peer, load_without_memory, []),
                       {[_ | _], [_ | _]} = lists:partition(fun(L) -> L =:= not_loaded end, Loaded)
               end).

load_without_memory() ->
    #{status := active} = sonde:native(),
    Loaded = [load_without_memory(N, Start) || N <- lists:seq(1, 5), Start <- [anew, upgrade]],
    0 = length([P || P <- processes(), erlang:check_process_code(P, sonde_nif)]),
    Loaded.

%% Upgrades while a scan of the previous instance is open.
load_without_memory(N, Start) ->
    Owner = scan_owner(1000),
    _ = [begin true = code:delete(sonde_nif), _ = code:purge(sonde_nif) end || Start =:= anew],
    persistent_term:put({sonde_nif, fail_load}, N),
    {module, sonde_nif} = code:load_file(sonde_nif),
    persistent_term:put({sonde_nif, fail_load}, 0),
    Loaded = case maps:get(status, sonde:native()) of
                 active -> ok = sonde_nif:fail_alloc(0), loaded;
                 {off, {not_loaded, Text}} -> true = length(Text) > 10, not_loaded;
                 {off, {disturbed, prover_died}} -> ok = sonde_nif:fail_alloc(0), loaded
             end,
    right(),
    _ = code:purge(sonde_nif),
    {module, sonde_nif} = code:load_file(sonde_nif),
    #{status := active} = sonde:native(),
    right(),
    _ = code:purge(sonde_nif),
    sonde_test:stop(Owner),
    Loaded.

failed_allocations_leak_nothing(_Config) ->
    with(test, fun(Peer) -> Growth = call(Peer, fail_often, []),
                            ct:pal("~p bytes more after 3000 failed scans", [Growth]),
                            true = Growth < 3000000
               end).

%% If each scan leaked only its first allocation, that would be 10 MB.
fail_often() ->
    #{status := active} = sonde:native(),
    _ = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 1000)],
    _ = [fail_once(N) || N <- lists:seq(1, 300)],
    Before = settled_memory(),
    _ = [fail_once(N) || N <- lists:seq(1, 3000)],
    settled_memory() - Before.

fail_once(I) ->
    ok = sonde_nif:fail_alloc(1 + I rem 8),
    _ = try sonde:proc_window(binary_count, 1000, 0) catch error:no_memory -> no_memory end,
    sonde_nif:fail_alloc(0).

settled_memory() ->
    _ = [garbage_collect(P) || P <- processes()],
    timer:sleep(50),
    erlang:memory(system).

%% ---- scans

scans_of_killed_callers_are_freed(_Config) ->
    with(shipped, fun(Peer) -> Growth = call(Peer, kill_callers, [10000]),
                               ct:pal("~p bytes more after 10000 killed callers", [Growth]),
                               true = Growth < 8000000
                  end).

%% Each caller has an open scan of at least 20 kB.
kill_callers(N) ->
    #{status := active} = sonde:native(),
    _ = [kill_caller(I) || I <- lists:seq(1, 500)],
    Before = settled_memory(),
    _ = [kill_caller(I) || I <- lists:seq(1, N)],
    settled_memory() - Before.

kill_caller(I) ->
    Parent = self(),
    Attr = lists:nth(1 + I rem 3, [memory, binary_count, reductions]),
    Mode = lists:nth(1 + I rem 3, [top, sample, each]),
    Caller = fun() ->
                     Scan = sonde_nif:scan_new(Attr, Mode, 1000, undefined, [], 1000000),
                     Parent ! open,
                     keep_stepping(Scan)
             end,
    {Pid, Mon} = spawn_monitor(Caller),
    receive open -> ok end,
    _ = [erlang:yield() || _ <- lists:seq(1, I rem 5)],
    exit(Pid, kill),
    receive {'DOWN', Mon, process, _, _} -> ok end.

keep_stepping(Scan) ->
    _ = sonde_nif:scan_step(Scan),
    keep_stepping(Scan).

%% A process that steps a scan while another does gets badarg; no process gets a wrong answer.
one_scan_in_many_hands(_Config) ->
    with(shipped, fun(Peer) -> ok = call(Peer, share_scan, []) end).

share_scan() ->
    #{status := active} = sonde:native(),
    Many = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 20000)],
    _ = [share_one(Attr) || Attr <- [memory, binary_count, link_count], _ <- [1, 2, 3]],
    sonde_test:stop(Many),
    right().

share_one(Attr) ->
    Scan = sonde_nif:scan_new(Attr, top, 10, undefined, [], 1000000),
    Hands = [spawn_monitor(fun() -> exit(step_shared(Scan)) end)
             || _ <- lists:seq(1, 6)],
    Ends = [receive {'DOWN', Mon, process, _, Why} -> Why end || {_, Mon} <- Hands],
    [] = [Why || Why <- Ends, Why =/= stepped],
    done = sonde_nif:scan_step(Scan),
    10 = length(sonde_nif:scan_rows(Scan)),
    ok.

step_shared(Scan) ->
    try {sonde_nif:scan_step(Scan), sonde_nif:scan_info(Scan)} of
        {done, _} -> stepped;
        {more, _} -> step_shared(Scan);
        {{ask, Pids}, _} -> feed_shared(Scan, Pids), step_shared(Scan)
    catch
        error:badarg -> step_shared(Scan)
    end.

feed_shared(Scan, Pids) ->
    try sonde_nif:scan_feed(Scan, [{P, 0} || P <- Pids]) catch error:badarg -> refused end.

rows_shared(Scan) ->
    try sonde_nif:scan_rows(Scan) catch error:badarg -> rows_shared(Scan) end.

%% Several second looks read the first look of one window at once, while its owner uses it too. No
%% second look can start before the first is finished.
sample_in_many_hands(_Config) ->
    with(shipped, fun(Peer) -> ok = call(Peer, share_sample, []) end).

share_sample() ->
    #{status := active} = sonde:native(),
    Many = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 20000)],
    First = sonde_nif:scan_new(memory, sample, 10, undefined, [], 1000000),
    badarg = outcome(scan_new, [memory, diff, 10, First, [], 1000000]),
    done = steps(First),
    Second = fun() ->
                     Scan = second_look(First),
                     _ = step_shared(Scan),
                     exit({rows, length(rows_shared(Scan))})
             end,
    Hands = [spawn_monitor(Second) || _ <- lists:seq(1, 4)]
        ++ [spawn_monitor(fun() -> _ = step_shared(First), exit({rows, 10}) end)],
    Ends = [receive {'DOWN', Mon, process, _, Why} -> Why end || {_, Mon} <- Hands],
    [{rows, 10}] = lists:usort(Ends),
    sonde_test:stop(Many),
    right().

%% Another process may be using it.
second_look(First) ->
    try sonde_nif:scan_new(memory, diff, 10, First, [], 1000000)
    catch error:badarg -> second_look(First)
    end.

%% ---- wrong terms

wrong_arguments_are_badarg(_Config) ->
    with(shipped, fun(Peer) -> ok = call(Peer, wrong_arguments, []) end).

wrong_arguments() ->
    _ = sonde:native(),
    Exports = [{F, A} || {F, A} <- sonde_nif:module_info(exports), A > 0, F =/= module_info],
    true = length(Exports) > 10,
    [] = [{F, Args, Result} || {F, A} <- Exports, Args <- arguments(A),
                               Result <- [outcome(F, Args)], Result =/= badarg,
                               not is_right(F, Args, Result)],
    right().

outcome(F, Args) ->
    try apply(sonde_nif, F, Args) catch error:Why -> Why end.

%% Calls the library itself, which the functions of the module wrap: soon after a load, an exception could end
%% the node.
refusals_are_no_exceptions(_Config) ->
    with(shipped, fun(Peer) -> ok = call(Peer, refuse_without_exceptions, []) end).

refuse_without_exceptions() ->
    Nifs = all_exported(),
    #{status := active} = sonde:native(),
    Handles = [sonde_nif:scan_new(memory, top, 10, undefined, [], 1000),
               sonde_nif:look_new(mark, self(), [], 1 bsl 30, 1000, 100),
               sonde_nif:account_new(1000, false, true)],
    %% do_leave is the last one: no reader works after it
    Answers = [{F, A, direct_answer(F, Args)}
               || {F, A} <- (Nifs -- [{do_leave, 0}]) ++ [{do_leave, 0}], Args <- arguments(A, Handles)],
    [] = lists:usort([{F, A, Why} || {F, A, {exception, Why}} <- Answers]),
    %% each of the others refuses something
    Takers = [Nif || {_, A} = Nif <- Nifs, A > 0],
    [{do_direct, 1}, {do_put_status, 1}, {flat_quick, 1}] =
        lists:sort(Takers -- [{F, A} || {F, A, {answer, {raise, _}}} <- Answers]),
    [Library] = filelib:wildcard(filename:join(code:priv_dir(sonde), "sonde_nif-*.so")),
    refers_to_no_exception(Library).

%% Loads the module with all its functions exported, and returns those that are in the library.
all_exported() ->
    File = code:which(sonde_nif),
    {ok, {_, [{abstract_code, {_, Forms}}]}} = beam_lib:chunks(File, [abstract_code]),
    {ok, sonde_nif, Beam} = compile:forms(Forms, [export_all, nowarn_export_all]),
    _ = code:purge(sonde_nif),
    {module, sonde_nif} = code:load_binary(sonde_nif, File, Beam),
    Nifs = lists:append([Some || {attribute, _, nifs, Some} <- Forms]),
    true = length(Nifs) > 50,
    Nifs.

%% The file of a library contains the names of the VM's functions that it calls. So this covers the refusals
%% that no call above reaches.
refers_to_no_exception(Library) ->
    {ok, Bytes} = file:read_file(Library),
    true = is_named(<<"enif_make_tuple">>, Bytes),
    [] = [Name || Name <- [<<"enif_make_badarg">>, <<"enif_raise_exception">>], is_named(Name, Bytes)],
    ok.

is_named(Name, Bytes) -> binary:match(Bytes, Name) =/= nomatch.

arguments(0, _) -> [[]];
arguments(A, Handles) ->
    Odd = arguments(A),
    Odd ++ [[Handle | Rest] || Handle <- Handles, [_ | Rest] <- lists:sublist(Odd, 100)].

direct_answer(F, Args) ->
    try {answer, apply(sonde_nif, F, Args)} catch _:Why -> {exception, Why} end.

%% Some odd terms are valid for some calls.
is_right(flat_quick, [Term], {Words, _}) -> Words =:= erts_debug:flat_size(Term);
is_right(flat_quick, _, more) -> true;
is_right(_, _, _) -> false.

%% One argument is odd; the others are right, or odd too.
arguments(1) -> [[T] || T <- odd_terms()];
arguments(N) ->
    Odd = odd_terms(),
    [[lists:nth(rand:uniform(length(Odd)), Odd) || _ <- lists:seq(1, N)]
     || _ <- lists:seq(1, 300)]
        ++ [replace(I, T, Right) || Right <- rights(N), I <- lists:seq(1, N), T <- Odd].

replace(I, T, List) ->
    {Before, [_ | After]} = lists:split(I - 1, List),
    Before ++ [T] ++ After.

rights(2) -> [[foo, bar]];
rights(3) -> [[foo, 0, 10]];
rights(4) -> [[foo, [id], value, none]];
rights(6) -> [[foo, top, 10, undefined, [], 1000], [[foo, bar], each, 0, [self()], [], 1000]];
rights(_) -> [].

odd_terms() ->
    Pid = spawn(fun() -> ok end),
    [a, 'an atom that is longer than any name that the library knows about, much longer', "",
     "text", <<>>, <<1:7>>, <<"bytes">>, binary:copy(<<1>>, 100), 0.0, -1, -1 bsl 70,
     1 bsl 64, 1 bsl 100,
     {}, {a}, {a, b}, {at, foo}, {term, {big}}, [a | b], [[]], lists:seq(1, 300), #{}, #{a => b},
     make_ref(), self(), Pid, fun() -> ok end, fun lists:map/2, hd(erlang:ports()),
     [{self(), a}], [{a, 1}], lists:duplicate(20, self()), binary_to_term(
        <<131, 88, 100, 0, 7, "a@b.c.d", 1:32, 0:32, 0:32>>)].

%% Steps come out of order, twice, after the end, or with answers that were not asked for.
scan_steps_in_the_wrong_order(_Config) ->
    with(shipped, fun(Peer) -> ok = call(Peer, wrong_order, []) end).

wrong_order() ->
    #{status := active} = sonde:native(),
    _ = [garble(Attr, Mode) || Attr <- sonde_attr:native() ++ sonde_attr:heap(),
                               Mode <- [top, each, sample, holders, all],
                               (Mode =/= holders andalso Mode =/= all) orelse not lists:member(Attr, one_word()),
                               _ <- lists:seq(1, 10)],
    %% what a mode needs, it needs without a list, too
    badarg = outcome(scan_new, [memory, stacks, 0, undefined, [], 10]),
    [] = [{Attr, Mode} || Attr <- one_word(), Mode <- [holders, all],
                          badarg =/= outcome(scan_new, [Attr, Mode, 1, undefined, [], 10])],
    badarg = outcome(scan_new, [link_count, groups, 0, undefined, [], 10]),
    badarg = outcome(scan_new, [binary_count, groups, 0, undefined, [], 10]),
    _ = [garble(Attr, Mode) || {Attr, Mode} <- [{stack, stacks}, {[stack], stacks}, {[memory, origin], groups}],
                               _ <- lists:seq(1, 10)],
    right().

%% They are read without a lock, so nothing that waits for the process can be read with them.
one_word() -> [heap_size, reductions, catchlevel].

%% A scan fills an account, which may be listed meanwhile.
garble(binary_proportional, _) ->
    Account = some_new_account(),
    garble_account(Account),
    Scan = sonde_nif:scan_new(binary_unique, account, 0, {Account, undefined}, [], 1000),
    _ = [case rand:uniform(3) of
             1 -> garble_account(rand:uniform(13), Account);
             2 -> outcome(scan_step, [Scan]);
             3 -> garble_once(rand:uniform(15), Scan)
         end || _ <- lists:seq(1, 120)],
    garble_account(Account);
garble(Attrs, Mode) when is_list(Attrs) ->
    garble_scan(Attrs, Mode);
garble(Attr, Mode) when Mode =:= top; Mode =:= each ->
    garble_scan([Attr | lists:sublist(sonde_attr:native(), rand:uniform(11))], Mode);
garble(Attr, Mode) ->
    garble_scan(Attr, Mode).

garble_scan(Attr, Mode) ->
    Scan = sonde_nif:scan_new(Attr, Mode, rand:uniform(20) - 1, undefined, [], rand:uniform(200)),
    _ = [garble_once(rand:uniform(15), Scan) || _ <- lists:seq(1, 40)],
    ok.

garble_account(Account) ->
    _ = [garble_account(rand:uniform(22), Account) || _ <- lists:seq(1, 40)],
    ok.

some_new_account() ->
    sonde_nif:account_new(lists:nth(rand:uniform(2), [1 + rand:uniform(500), 1000000]), false, rand:uniform(2) =:= 1).

garble_account(1, A) -> outcome(account_add, [A, table, some_binaries()]);
garble_account(2, A) -> outcome(account_add, [A, literal, some_binaries()]);
garble_account(3, A) -> outcome(account_want, [A, [Id || {Id, _, _, _} <- some_binaries()]]);
garble_account(4, A) -> outcome(account_sum, [A]);
garble_account(5, A) -> outcome(account_rank, [A, size, rand:uniform(300)]);
garble_account(6, A) -> outcome(account_rank, [A, count, next]);
garble_account(7, A) -> outcome(account_ranked, [A, rand:uniform(100) - 1]);
garble_account(8, A) -> outcome(account_holdings, [A, lists:nth(rand:uniform(2), [first, next])]);
garble_account(9, A) -> outcome(account_resources, [A, rand:uniform(100000)]);
garble_account(10, A) -> outcome(account_join, [A, some_account()]);
garble_account(11, A) -> outcome(account_join, [some_account(), A]);
garble_account(12, A) -> outcome(account_end, [A]);
garble_account(13, A) -> outcome(account_rank, [A, parts, rand:uniform(300)]);
garble_account(14, A) -> outcome(account_settle, [A]);
garble_account(15, A) ->
    %% so many that the census has parts
    [outcome(account_add, [A, table, [{16#7f0000000000 + 64 * (1000 * K + I), 100, 1, 1} || I <- lists:seq(1, 1000)]])
     || K <- lists:seq(1, 5)];
garble_account(16, A) ->
    To = sonde_nif:account_new(1000000, false, false),
    _ = put(some_account, To),
    N = rand:uniform(4),
    outcome(account_lend, [A, To, rand:uniform(N), N]);
garble_account(17, A) -> outcome(account_return, [A, some_account()]);
garble_account(18, A) -> outcome(account_return, [some_account(), A]);
garble_account(19, A) ->
    To = sonde_nif:account_new(1, false, false),
    _ = put(some_account, To),
    N = rand:uniform(3),
    outcome(account_parts, [To, A, rand:uniform(N) - 1, N]);
garble_account(20, A) -> outcome(account_parts, [A, some_account(), 0, rand:uniform(2)]);
garble_account(21, A) -> outcome(account_take_parts, [A, some_account()]);
garble_account(22, A) -> outcome(account_take_parts, [some_account(), A]).

%% The last one again, or one that has counted some processes, or all.
some_account() ->
    case {get(some_account), rand:uniform(3)} of
        {Last, 1} when Last =/= undefined ->
            Last;
        _ ->
            Account = some_new_account(),
            Scan = sonde_nif:scan_new(binary_unique, account, 0, {Account, undefined}, [], 1000),
            _ = [outcome(scan_step, [Scan]) || _ <- lists:seq(1, rand:uniform(4))],
            _ = put(some_account, Account),
            Account
    end.

some_binaries() ->
    [{8 * rand:uniform(2000), rand:uniform(1000), rand:uniform(5), rand:uniform(7)}
     || _ <- lists:seq(1, rand:uniform(300))].

garble_once(1, S) -> outcome(scan_feed, [S, [{P, rand:uniform(100)} || P <- some_pids()]]);
garble_once(2, S) -> outcome(scan_after, [S]);
garble_once(3, S) ->
    outcome(scan_rows, [S, rand:uniform(3) - 1, rand:uniform(50) - 1, rand:uniform(50) - 1]);
garble_once(4, S) -> outcome(scan_pids, [S, rand:uniform(50) - 1, rand:uniform(50) - 1]);
garble_once(5, S) -> outcome(scan_skip, [S, hd(some_pids())]);
garble_once(6, S) -> outcome(scan_info, [S]);
garble_once(7, S) -> outcome(scan_feed, [S, [{hd(some_pids()), undefined}]]);
garble_once(10, S) -> outcome(scan_feed, [S, [{hd(some_pids()), lists:seq(1, rand:uniform(12))}]]);
garble_once(8, S) -> diff(S);
garble_once(11, S) -> outcome(scan_limit, [S, rand:uniform(10000), rand:uniform(1000)]);
garble_once(12, S) -> outcome(scan_part, [S, rand:uniform(4) - 1, rand:uniform(4)]);
garble_once(13, S) -> outcome(scan_exclude, [S, some_pids()]);
garble_once(14, S) -> outcome(scan_place, [S, hd(some_pids())]);
garble_once(_, S) -> outcome(scan_step, [S]).

diff(First) ->
    case outcome(scan_new, [memory, diff, 5, First, [], 100]) of
        badarg -> badarg;
        Second -> steps(Second)
    end.

some_pids() ->
    Ps = [spawn(fun() -> ok end), self() | processes()],
    [lists:nth(rand:uniform(length(Ps)), Ps) || _ <- lists:seq(1, rand:uniform(5))].

%% ---- peers

with(Build, Fun) -> sonde_peer_helper:with(Build, Fun).

call(Peer, F, A) -> sonde_peer_helper:call(Peer, ?MODULE, F, A).
