%% bin_leak returns recon's rows, in parallel and with a deadline: which processes it collects,
%% leaves alone and skips; and it leaves no message in any mailbox.
-module(bin_leak_SUITE).

-import(sonde_test, [helpers/0, raised/1]).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [leak_is_first_with_its_count, change_is_that_of_collecting_by_hand, count_can_rise,
     equal_changes_by_higher_pid, caller_is_in, odd_n, bad_options_are_badarg,
     report_counts_everybody, node_figures_show_what_was_freed, idle_and_clean_are_left_alone,
     all_collects_everybody, hibernated_do_not_collect, suspended_collect,
     blocked_is_skipped_and_has_no_row, blocked_ones_hold_up_nobody, late_reply_reaches_nobody,
     deadline_zero_skips_all, rows_come_while_processes_die, killed_caller_ends_the_work,
     killed_caller_ends_the_collections,
     several_at_once, helpers_have_no_row, changes_as_recon].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% ---- rows

leak_is_first_with_its_count(_Config) ->
    [Small, Large] = Pids = [leaky(N) || N <- [300, 4000]],
    [{Large, -4000, Attrs}, {Small, -300, Attrs} | _] = sonde:bin_leak(5),
    [{current_function, {sonde_test, park, 1}}, {initial_call, {erlang, apply, 2}}] = Attrs,
    [] = [Row || {Pid, N, _} = Row <- sonde:bin_leak(-1), lists:member(Pid, Pids), N =/= 0],
    sonde_test:stop(Pids).

%% Each kind twice: one is counted, collected and counted by hand, the other by bin_leak.
change_is_that_of_collecting_by_hand(_Config) ->
    ByHand = [by_hand(Make()) || {_, Make} <- kinds()],
    Made = [{Kind, Make()} || {Kind, Make} <- kinds()],
    Rows = sonde:bin_leak(-1),
    Ours = [{Kind, N} || {Kind, Pid} <- Made, {P, N, _} <- Rows, P =:= Pid],
    Expected = [{Kind, N} || {{Kind, _}, N} <- lists:zip(kinds(), ByHand)],
    Expected = Ours,
    sonde_test:stop([Pid || {_, Pid} <- Made]).

count_can_rise(_Config) ->
    Make = proplists:get_value(waiting_on_heap, kinds()),
    Rise = by_hand(Make()),
    true = Rise > 0,
    Pid = Make(),
    [{Pid, Rise, _}] = sonde_test:rows_of([Pid], sonde:bin_leak(-1)),
    sonde_test:stop(Pid).

equal_changes_by_higher_pid(_Config) ->
    Pids = [leaky(700) || _ <- lists:seq(1, 12)],
    Expected = lists:sublist(lists:reverse(lists:sort(Pids)), 10),
    Rows = sonde:bin_leak(10),
    Expected = sonde_test:pids(Rows),
    [-700] = lists:usort([N || {_, N, _} <- Rows]),
    All = [{-N, Pid} || {Pid, N, _} <- sonde:bin_leak(-1)],
    All = lists:reverse(lists:sort(All)),
    sonde_test:stop(Pids).

caller_is_in(_Config) ->
    {Pid, Rows} = sonde_test:in_process(fun() -> garbage(900), sonde:bin_leak(1) end, roomy()),
    [{Pid, -900, _}] = Rows.

%% recon counts N down to 0: an N that never gets there gives all rows.
odd_n(_Config) ->
    Pid = leaky(10),
    [] = sonde:bin_leak(0),
    [{Pid, 0, _}] = sonde_test:rows_of([Pid], sonde:bin_leak(-1)), % bin_leak(0) collected it
    _ = [true = lists:keymember(self(), 1, sonde:bin_leak(N)) || N <- [-1, 1.0, 0.5, 1 bsl 80]],
    _ = [{N, badarith} = {N, raised(fun() -> sonde:bin_leak(N) end)}
         || N <- [foo, "1", {}, self()]],
    sonde_test:stop(Pid).

bad_options_are_badarg(_Config) ->
    Pid = leaky(10),
    _ = [{Opts, badarg} = {Opts, raised(fun() -> sonde:bin_leak(1, Opts) end)}
         || Opts <- [#{foo => 1}, #{collect => none}, #{deadline => -1}, #{deadline => infinity},
                     #{deadline => 1.0}, #{deadline => 1 bsl 40}, #{in_flight => 0},
                     #{in_flight => 10001}, #{in_flight => 1.0}, [], [{collect, all}], 5]],
    _ = [{N, badarg} = {N, raised(fun() -> sonde:bin_leak(N, #{}) end)}
         || N <- [-1, 1.0, foo, "1"]],
    [{Pid, -10, _}] = sonde_test:rows_of([Pid], sonde:bin_leak(-1)), % none of these collected
    sonde_test:stop(Pid).

%% ---- the report

report_counts_everybody(_Config) ->
    Pids = [leaky(N) || N <- [1, 2, 3]],
    Report = sonde:bin_leak(2, #{}),
    [binary, collected, left, ms, rows, skipped, total] = lists:sort(maps:keys(Report)),
    #{rows := [_, _], collected := Collected, skipped := 0, left := Left,
      total := {Total, _}, binary := {Binary, _}, ms := Ms} = Report,
    true = Collected >= 3,
    true = Collected + Left >= length(processes()) - 10,
    true = Ms >= 0,
    case has_figures() of
        true -> true = Total > Binary andalso Binary > 0;
        false -> undefined = Total
    end,
    true = sonde_test:pick(Left > 0, Left =:= 0),
    sonde_test:stop(Pids).

%% Not if an allocator of the VM is switched off.
has_figures() ->
    try is_integer(erlang:memory(total)) catch error:notsup -> false end.

node_figures_show_what_was_freed(_Config) ->
    case has_figures() of
        true -> figures_show_what_was_freed();
        false -> {skip, "this node has no figures of its memory"}
    end.

figures_show_what_was_freed() ->
    Pid = leaky(20, 1000000),
    #{rows := [{Pid, -20, _}], binary := {BinaryBefore, BinaryAfter},
      total := {TotalBefore, TotalAfter}} = sonde:bin_leak(1, #{}),
    true = BinaryBefore - BinaryAfter >= 19000000,
    true = TotalBefore - TotalAfter >= 15000000,
    sonde_test:stop(Pid).

%% Only natively: the portable path cannot know which processes are clean.
idle_and_clean_are_left_alone(_Config) ->
    Clean = sonde_test:hold(fun() -> lists:seq(1, 1000) end),
    Before = process_info(Clean, [reductions, garbage_collection_info]),
    #{left := Left} = sonde:bin_leak(0, #{}),
    true = Left > 0,
    Before = process_info(Clean, [reductions, garbage_collection_info]),
    [{Clean, 0, [_, _]}] = sonde_test:rows_of([Clean], sonde:bin_leak(-1)),
    sonde_test:stop(Clean).

all_collects_everybody(_Config) ->
    Clean = sonde_test:hold(fun() -> lists:seq(1, 1000) end),
    Before = process_info(Clean, reductions),
    #{left := 0, skipped := 0, collected := Collected} = sonde:bin_leak(0, #{collect => all}),
    true = Collected >= length(processes()) - 10,
    true = process_info(Clean, reductions) > Before,
    sonde_test:stop(Clean).

%% ---- states of the target

hibernated_do_not_collect(_Config) ->
    Pid = spawn(fun() -> Kept = binaries(50), erlang:hibernate(sonde_test, park, [Kept]) end),
    ok = sonde_test:until(hibernated, fun() -> process_info(Pid, current_function)
                                                   =:= {current_function, {erlang, hibernate, 3}}
                                      end),
    ok = sonde_test:settle(Pid),
    #{rows := Rows, skipped := 0} = sonde:bin_leak(100000, #{}),
    [{Pid, 0, [_, _]}] = sonde_test:rows_of([Pid], Rows),
    sonde_test:stop(Pid).

suspended_collect(_Config) ->
    Pid = leaky(60),
    true = erlang:suspend_process(Pid),
    #{rows := [{Pid, -60, _}], skipped := 0} = sonde:bin_leak(1, #{}),
    true = erlang:resume_process(Pid),
    sonde_test:stop(Pid).

%% ---- the deadline

blocked_is_skipped_and_has_no_row(Config) ->
    {Pid, _} = Blocked = block(Config),
    #{rows := Rows} = in_time(1, 1, #{deadline => 500}),
    [] = sonde_test:rows_of([Pid], Rows),
    unblock(Blocked).

%% Even one at a time: blocked processes do not delay the others.
blocked_ones_hold_up_nobody(Config) ->
    Blocked = [block(Config) || _ <- lists:seq(1, 6)],
    _ = in_time(20, 6, #{deadline => 3000, in_flight => 1}),
    _ = [unblock(B) || B <- Blocked].

%% A report that skips the blocked processes and has all of the N others that leak. A busy machine
%% may need more time for these: then the deadline is doubled.
in_time(N, Blocked, #{deadline := Ms} = Opts) ->
    Leaky = [leaky(50) || _ <- lists:seq(1, N)],
    #{rows := Rows, skipped := Skipped} = Report = sonde:bin_leak(100000, Opts),
    Changes = [Change || {_, Change, _} <- sonde_test:rows_of(Leaky, Rows)],
    sonde_test:stop(Leaky),
    case {Skipped, lists:duplicate(N, -50)} of
        {Blocked, Changes} -> Report;
        _ when Ms < 50000 ->
            sonde_test:figures("bin_leak: asked again, with a deadline of ~b ms", [2 * Ms]),
            in_time(N, Blocked, Opts#{deadline := 2 * Ms})
    end.

late_reply_reaches_nobody(Config) ->
    ok = sonde_test:no_message(
           fun() ->
                   {Pid, _} = Blocked = block(Config),
                   #{skipped := Skipped} = sonde:bin_leak(1, #{deadline => 300}),
                   true = Skipped >= 1,
                   unblock(Blocked),
                   sonde_test:until(ended, fun() -> not is_process_alive(Pid) end)
           end),
    ok = sonde_test:until(no_helpers, fun() -> helpers() =:= [] end).

deadline_zero_skips_all(_Config) ->
    Pid = leaky(40),
    #{rows := Rows, collected := 0, skipped := Skipped} = sonde:bin_leak(100000, #{deadline => 0}),
    true = Skipped > 0,
    [] = sonde_test:rows_of([Pid], Rows),
    [{Pid, -40, _}] = sonde:bin_leak(1),
    sonde_test:stop(Pid).

%% ---- a live node

rows_come_while_processes_die(_Config) ->
    Leaky = leaky(5000),
    Churn = sonde_test:churn(2, fun() ->
                                        _ = [spawn(fun() -> garbage(3) end)
                                             || _ <- lists:seq(1, 20)],
                                        timer:sleep(2)
                                end),
    try
        _ = [begin
                 Rows = sonde:bin_leak(30),
                 30 = length(Rows),
                 [] = [R || {Pid, N, As} = R <- Rows,
                            not (is_pid(Pid) andalso is_integer(N)
                                 andalso (length(As) >= 2 orelse {N, As} =:= {0, []}))]
             end || _ <- lists:seq(1, 20)]
    after
        sonde_test:stop([Leaky | Churn])
    end.

killed_caller_ends_the_work(Config) ->
    Blocked = block(Config),
    ok = sonde_test:ends_with_caller(fun() -> sonde:bin_leak(1, #{deadline => 100000}) end),
    ok = sonde_test:until(no_helpers, fun() -> helpers() =:= [] end),
    unblock(Blocked).

%% What is in flight is waited for in a loop of its own. The blocked process never answers.
killed_caller_ends_the_collections(Config) ->
    {Pid, _} = Blocked = block(Config),
    All = fun(By) -> sonde_collect:all([Pid], fun(_, _, _) -> ok end, ok,
                                       #{in_flight => 2, caller => By,
                                         until => erlang:monotonic_time(millisecond) + 100000})
          end,
    Caller = spawn(fun() -> sonde_helper:call(All) end),
    ok = sonde_test:until(it_waits, fun() -> lists:any(fun waits_for_answers/1, helpers()) end),
    true = is_process_alive(Caller),
    ok = sonde_test:stop(Caller),
    ok = sonde_test:until(no_helpers, fun() -> helpers() =:= [] end),
    unblock(Blocked).

waits_for_answers(Helper) ->
    case process_info(Helper, [status, current_function]) of
        [{status, waiting}, {current_function, {sonde_collect, _, _}}] -> true;
        _ -> false
    end.

several_at_once(_Config) ->
    Pids = [leaky(500) || _ <- lists:seq(1, 10)],
    Calls = [spawn_monitor(fun() -> exit({report, sonde:bin_leak(10, #{})}) end)
             || _ <- lists:seq(1, 8)],
    Reports = [receive {'DOWN', Ref, _, _, {report, R}} -> R end || {_, Ref} <- Calls],
    [0] = lists:usort([S || #{skipped := S} <- Reports]),
    [10] = lists:usort([length(Rows) || #{rows := Rows} <- Reports]),
    %% Each leak was seen whole by at least one of them, and by none as more than it was.
    _ = [true = lists:member(-500, changes(Pid, Reports)) || Pid <- Pids],
    sonde_test:stop(Pids).

changes(Pid, Reports) ->
    [N || #{rows := Rows} <- Reports, {P, N, _} <- Rows, P =:= Pid, N >= -500].

helpers_have_no_row(Config) ->
    Blocked = block(Config),
    %% These callers wait for the blocked process as long as the test takes.
    Others = [spawn_monitor(fun() -> sonde:bin_leak(1, #{deadline => 100000}) end)
              || _ <- lists:seq(1, 5)],
    try
        no_row_for_helpers()
    after
        _ = [begin exit(P, kill), receive {'DOWN', R, _, _, _} -> ok end end || {P, R} <- Others],
        unblock(Blocked)
    end.

no_row_for_helpers() ->
    %% Helpers that ask the others come and go; helpers that wait for the blocked process stay.
    ok = sonde_test:until(helpers_stay, fun() ->
                                                Before = helpers(),
                                                timer:sleep(100),
                                                length(Before) >= 5 andalso Before =:= helpers()
                                        end),
    Helpers = helpers(),
    Rows = sonde:bin_leak(100000, #{deadline => 500}),
    [] = sonde_test:rows_of(Helpers, maps:get(rows, Rows)),
    [] = sonde_test:rows_of(Helpers, sonde:proc_count(memory, -1)),
    [] = sonde_test:rows_of(Helpers, sonde:proc_count(status, -1)),
    [] = sonde_test:rows_of(Helpers, sonde:proc_window(memory, -1, 0)),
    true = lists:all(fun is_process_alive/1, Helpers).

changes_as_recon(_Config) ->
    case sonde_test:recon() of
        ok ->
            Kinds = [K || {K, _} <- kinds()],
            Of = fun(Leak) ->
                         Made = [Make() || {_, Make} <- kinds()],
                         Rows = Leak(-1),
                         Changes = [N || Pid <- Made, {P, N, _} <- Rows, P =:= Pid],
                         ok = sonde_test:stop(Made),
                         lists:zip(Kinds, Changes)
                 end,
            Theirs = Of(fun recon:bin_leak/1),
            Theirs = Of(fun sonde:bin_leak/1);
        Skip ->
            Skip
    end.

%% ---- processes

leaky(N) ->
    leaky(N, 100).

leaky(N, Bytes) ->
    sonde_test:hold(fun() -> garbage(N, Bytes) end, roomy()).

%% Does not collect by itself before the test does.
roomy() ->
    [{min_heap_size, 200000}, {min_bin_vheap_size, 10000000}].

garbage(N) ->
    garbage(N, 100).

garbage(N, Bytes) ->
    _ = [binary:copy(<<I>>, Bytes) || I <- lists:seq(1, N)],
    ok.

kinds() ->
    [{empty, fun() -> sonde_test:hold(fun() -> ok end) end},
     {garbage, fun() -> leaky(123) end},
     {kept, fun() -> sonde_test:hold(fun() -> binaries(77) end) end},
     {kept_and_garbage,
      fun() -> sonde_test:hold(fun() -> garbage(31), binaries(44) end, roomy()) end},
     {slices, fun() -> sonde_test:hold(fun slices/0, roomy()) end},
     {appended, fun() -> sonde_test:hold(fun appended/0, roomy()) end},
     {old_and_dropped, fun() -> sonde_test:hold(fun old_and_dropped/0, roomy()) end},
     {waiting_on_heap, fun() -> waiting(on_heap, 1000, small) end},
     %% no room for any of them: the heap itself holds no binary until it is collected
     {waiting_beside_the_heap, fun() -> waiting(on_heap, 5, lists:seq(1, 3000)) end},
     {waiting_off_heap, fun() -> waiting(off_heap, 1000, small) end}].

binaries(N) ->
    [binary:copy(<<I>>, 100) || I <- lists:seq(1, N)].

slices() ->
    Whole = binary:copy(<<7>>, 100000),
    [binary:part(Whole, I * 100, 5 + 10 * (I rem 8)) || I <- lists:seq(0, 99)].

appended() ->
    lists:foldl(fun(I, Bin) -> <<Bin/binary, I:800>> end, <<>>, lists:seq(1, 100)).

old_and_dropped() ->
    put(kept, binaries(200)),
    garbage_collect(self(), [{type, minor}]),
    garbage_collect(self(), [{type, minor}]),
    _ = erase(kept),
    garbage(10).

waiting(Where, N, With) ->
    Pid = sonde_test:hold(fun() -> ok end, [{message_queue_data, Where}]),
    %% Where a message lies depends on whether its reader runs meanwhile.
    true = erlang:suspend_process(Pid),
    _ = [Pid ! {With, binary:copy(<<I>>, 100)} || I <- lists:seq(1, N)],
    true = erlang:resume_process(Pid),
    ok = sonde_test:settle(Pid),
    Pid.

by_hand(Pid) ->
    Count = fun() -> length(element(2, process_info(Pid, binary))) end,
    Before = Count(),
    true = garbage_collect(Pid),
    Change = Count() - Before,
    ok = sonde_test:stop(Pid),
    Change.

block(Config) ->
    sonde_test:block(proplists:get_value(priv_dir, Config)).

unblock({Pid, _} = Blocked) ->
    ok = sonde_test:unblock(Blocked),
    sonde_test:stop(Pid).
