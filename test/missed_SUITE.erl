%% Processes that cannot be read are named, and few are missed. Those that may be suspended are
%% always read, and run on afterwards.
-module(missed_SUITE).

-compile([export_all, nowarn_export_all]).

-define(ALL, 1000000).
-define(LARGE, 4000000).      % words: a walk that takes longer than any pause of a running process
-define(DIRTY_MS, 120000).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [without_a_report_rows_are_as_before, reports_have_one_shape, a_busy_process_is_named,
     ten_are_named_and_all_counted, too_large_ones_are_named, out_of_time_is_named,
     one_that_always_runs_is_met,
     one_that_is_busy_is_looked_at_often, a_large_one_that_always_runs_is_suspended_and_read,
     each_call_suspends, a_dirty_one_is_let_go, nobody_stays_suspended_if_the_caller_dies,
     helpers_are_neither_missed_nor_suspended, suspends_only_whom_nobody_waits_for,
     a_diagnosis_names_them, clusters_have_reports].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% ---- the calls that can have a report

calls() ->
    [{{proc_count, A}, fun(Opts) -> sonde:proc_count(A, ?ALL, Opts) end}
     || A <- [garbage_bytes, bin_garbage, bin_waste, flat_size, binary_unique, binary_exclusive,
              binary_proportional]]
        ++ [{bin_garbage, fun(Opts) -> sonde:bin_garbage(?ALL, count, Opts) end},
            {bin_garbage_bytes, fun(Opts) -> sonde:bin_garbage(?ALL, bytes, Opts) end},
            {bin_waste, fun(Opts) -> sonde:bin_waste(?ALL, Opts) end},
            {bin_owned, fun(Opts) -> sonde:bin_owned(?ALL, Opts) end},
            {bin_holders, fun(Opts) -> sonde:bin_holders(3, size, Opts) end},
            {bin_resources, fun(Opts) -> sonde:bin_resources(3, Opts) end},
            {bin_window, fun(Opts) -> sonde:bin_window(?ALL, 1, Opts) end}].

%% These calls ask the processes that they cannot read, so they never suspend.
asking() ->
    [{proc_count, fun(Opts) -> sonde:proc_count(memory, 3, Opts) end},
     {proc_window, fun(Opts) -> sonde:proc_window(memory, 3, 1, Opts) end},
     {proc_group, fun(Opts) -> sonde:proc_group(registered_name, [memory], Opts) end}].

natively(Fun) ->
    sonde_test:pick(Fun, fun() ->
                                 _ = [{Name, {native_off, disabled}} =
                                          {Name, sonde_test:raised(fun() -> Call(Opts) end)}
                                      || {Name, Call} <- calls(),
                                         Opts <- [#{}, #{report => true}, #{suspend => true}]],
                                 ok
                         end).

without_a_report_rows_are_as_before(_Config) ->
    _ = [[_ | _] = Call(#{report => false}) || {_, Call} <- asking()],
    natively(fun() -> _ = [{Name, true} = {Name, is_list(Call(Opts))}
                           || {Name, Call} <- calls(), Opts <- [#{}, #{report => false}]],
                      ok
             end).

reports_have_one_shape(_Config) ->
    _ = [{[_ | _], #{left_out := 0, too_large := 0, busy := 0,
                     missed := #{count := 0, pids := []}} = Report} = Call(#{report => true})
         || {_, Call} <- asking(), Report <- [sonde_scan:report(false)]],
    _ = [badarg = sonde_test:raised(fun() -> Call(#{Key => 1}) end)
         || {_, Call} <- calls() ++ asking(), Key <- [report, suspend, what]],
    natively(fun() ->
                     _ = [begin
                              {Rows, Report} = Call(#{report => true}),
                              {Name, true} = {Name, is_list(Rows)},
                              [busy, left_out, missed, timeout, too_large] = lists:sort(maps:keys(Report)),
                              {_, More} = Call(#{report => true, suspend => true}),
                              [suspended, suspended_ms] = lists:sort(maps:keys(More))
                                  -- maps:keys(Report)
                          end || {Name, Call} <- calls()],
                     ok
             end).

%% ---- which processes are named

%% A process in a long call on a dirty scheduler is busy at each look.
a_busy_process_is_named(_Config) ->
    natively(fun() ->
                     Pid = dirty(),
                     _ = [begin
                              {_, #{left_out := N, missed := #{count := N, pids := Pids}}} =
                                  Call(#{report => true}),
                              {Name, {Pid, busy}} = {Name, lists:keyfind(Pid, 1, Pids)}
                          end || {Name, Call} <- calls()],
                     #{processes_missed := N, missed := #{count := N, pids := Pids}} =
                         sonde:bin_account(),
                     {Pid, busy} = lists:keyfind(Pid, 1, Pids),
                     gone([Pid])
             end).

ten_are_named_and_all_counted(_Config) ->
    natively(fun() ->
                     sonde_peer_helper:with(
                       shipped, ["+SDio", "32"],
                       fun(Peer) -> sonde_peer_helper:call(Peer, ?MODULE, twenty_five, []) end)
             end).

%% Runs on a peer with as many dirty schedulers; otherwise some would wait for one, and be at rest.
twenty_five() ->
    Pids = [dirty() || _ <- lists:seq(1, 25)],
    {Rows, #{busy := Busy, missed := #{count := Count, pids := Named}}} =
        sonde:bin_owned(?ALL, #{report => true}),
    [] = sonde_test:rows_of(Pids, Rows),
    10 = length(lists:usort(Named)),
    true = Count >= 25 andalso Busy >= 25 andalso Count =< 27,
    [] = [Why || {_, Why} <- Named, Why =/= busy],
    gone(Pids).

too_large_ones_are_named(_Config) ->
    natively(fun() ->
                     Large = sonde_test:hold(fun() -> lists:seq(1, 300000) end),
                     {_, #{too_large := N, missed := #{pids := Pids}}} =
                         sonde:proc_count(flat_size, ?ALL, #{report => true, max_words => 500000}),
                     true = N >= 1,
                     true = lists:member({Large, too_large}, Pids),
                     sonde_test:stop(Large)
             end).

out_of_time_is_named(_Config) ->
    natively(fun() ->
                     {[], #{left_out := N, busy := 0, missed := #{count := N, pids := Pids}}} =
                         sonde:proc_count(bin_garbage, ?ALL, #{report => true, timeout => 0}),
                     10 = length(lists:usort(Pids)),
                     [timeout] = lists:usort([Why || {_, Why} <- Pids]),
                     true = lists:all(fun({Pid, _}) -> is_process_alive(Pid) end, Pids)
             end).

%% ---- processes that always run

%% A small heap is read between two time slices. On a quiet machine each call succeeds; on a busy
%% one the process may stay on its processor for all of a call.
one_that_always_runs_is_met(_Config) ->
    natively(fun() ->
                     Pid = spinner(10),
                     Seen = fun() -> sonde_test:rows_of([Pid], sonde:bin_owned(?ALL)) end,
                     {Calls, Met} = until_met(10, 0, Seen, []),
                     sonde_test:figures("one that always runs: met in ~b of ~b calls",
                                        [length(Met), Calls]),
                     [1000] = lists:usort([Value || {_, Value, _} <- Met]),
                     gone([Pid])
             end).

until_met(N, Calls, _Seen, Met) when length(Met) >= N -> {Calls, Met};
until_met(N, Calls, Seen, Met) -> until_met(N, Calls + 1, Seen, Seen() ++ Met).

%% The number of looks does not depend on the machine: they go on for milliseconds, without a pause.
one_that_is_busy_is_looked_at_often(_Config) ->
    natively(fun() ->
                     Pid = dirty(),
                     #{busy := Before} = sonde_nif:counters(),
                     _ = sonde:bin_owned(1),
                     #{busy := After} = sonde_nif:counters(),
                     {true, _} = {After - Before > 500, After - Before},
                     gone([Pid])
             end).

a_large_one_that_always_runs_is_suspended_and_read(_Config) ->
    natively(fun() ->
                     Pid = spinner(?LARGE div 2),
                     Held = [begin
                                 {Rows, #{suspended := #{count := N, pids := Pids},
                                          suspended_ms := Ms, left_out := 0}} =
                                     sonde:proc_count(flat_size, ?ALL,
                                                      #{report => true, suspend => true}),
                                 [{Pid, Words, _}] = sonde_test:rows_of([Pid], Rows),
                                 true = Words >= ?LARGE,
                                 true = Ms >= lists:sum([M || {_, M} <- Pids]) - 0.001,
                                 true = N >= length(Pids),
                                 [{Pid, M} || {P, M} <- Pids, P =:= Pid, M > 0]
                             end || _ <- lists:seq(1, 3)],
                     [_ | _] = lists:append(Held),
                     ok = goes_on(Pid),
                     gone([Pid])
             end).

each_call_suspends(_Config) ->
    natively(fun() ->
                     Pid = spinner(?LARGE div 20),
                     _ = [begin
                              {_, #{missed := #{pids := Pids}}} =
                                  Call(#{report => true, suspend => true}),
                              {Name, false} = {Name, lists:keyfind(Pid, 1, Pids)},
                              ok = goes_on(Pid)
                          end || {Name, Call} <- calls()],
                     #{suspended := #{}, missed := #{pids := Pids}} =
                         sonde:bin_account(#{suspend => true}),
                     false = lists:keyfind(Pid, 1, Pids),
                     gone([Pid])
             end).

%% It cannot be suspended before it leaves the dirty call: sonde gives up after half a second.
a_dirty_one_is_let_go(_Config) ->
    natively(fun() ->
                     Pid = dirty(20000),
                     {_, #{missed := #{pids := Pids}, suspended := #{pids := Held}}} =
                         sonde:bin_owned(?ALL, #{report => true, suspend => true}),
                     {Pid, busy} = lists:keyfind(Pid, 1, Pids),
                     false = lists:keyfind(Pid, 1, Held),
                     gone([Pid])
             end).

nobody_stays_suspended_if_the_caller_dies(_Config) ->
    natively(fun() ->
                     Pid = spinner(?LARGE div 2),
                     ok = sonde_test:until(
                            killed_midway,
                            fun() ->
                                    {Caller, Ref} =
                                        spawn_monitor(
                                          fun() -> sonde:proc_count(flat_size, 1,
                                                                    #{suspend => true}) end),
                                    Caught = caught(Pid, Ref),
                                    exit(Caller, kill),
                                    Caught
                            end),
                     ok = goes_on(Pid),
                     ok = sonde_test:until(no_helpers, fun() -> sonde_test:helpers() =:= [] end),
                     gone([Pid])
             end).

%% Whether the process was seen suspended before the call ended.
caught(Pid, Ref) ->
    receive {'DOWN', Ref, process, _, _} -> false
    after 0 ->
        process_info(Pid, status) =:= {status, suspended} orelse caught(Pid, Ref)
    end.

%% Two calls that suspend see each other's helpers run: if they suspended these, both would wait for
%% ever.
helpers_are_neither_missed_nor_suspended(_Config) ->
    natively(fun() ->
                     Pid = spinner(?LARGE div 4),
                     Callers = [spawn_monitor(
                                  fun() ->
                                          exit({said, [sonde:proc_count(flat_size, ?ALL,
                                                                        #{report => true,
                                                                          suspend => true})
                                                       || _ <- lists:seq(1, 5)]})
                                  end) || _ <- lists:seq(1, 3)],
                     Said = [receive {'DOWN', Ref, process, Caller, {said, S}} -> S end
                             || {Caller, Ref} <- Callers],
                     Pids = [P || {_, #{missed := #{pids := M}, suspended := #{pids := S}}}
                                      <- lists:append(Said), {P, _} <- M ++ S],
                     %% our helpers are dead by now, so a dead pid would be a helper's
                     [] = [P || P <- Pids, not is_process_alive(P)],
                     %% and a helper that never rests
                     Helper = sonde_helper:aside(fun dirty_for/1, 20000),
                     ok = is_dirty(Helper),
                     {_, #{missed := #{pids := Missed}}} =
                         sonde:bin_owned(1, #{report => true, suspend => true}),
                     false = lists:keyfind(Helper, 1, Missed),
                     gone([Helper]),
                     ok = goes_on(Pid),
                     gone([Pid])
             end).

suspends_only_whom_nobody_waits_for(_Config) ->
    natively(fun() ->
                     Test = self(),
                     Leader = spinner(?LARGE div 2),
                     Named = spinner(?LARGE div 2),
                     User = whereis(user),
                     true = unregister(user),
                     true = register(user, Named),
                     {_, Ref} = spawn_monitor(
                                  fun() ->
                                          true = group_leader(Leader, self()),
                                          Test ! sonde:proc_count(flat_size, ?ALL,
                                                                  #{report => true,
                                                                    suspend => true})
                                  end),
                     receive {'DOWN', Ref, process, _, Why} -> normal = Why end,
                     true = unregister(user),
                     true = register(user, User),
                     {_, #{suspended := #{pids := Held}}} =
                         receive {Rows, Report} when is_list(Rows) -> {Rows, Report} end,
                     [] = [P || {P, _} <- Held, P =:= Leader orelse P =:= Named],
                     gone([Leader, Named])
             end).

%% ---- how calls use the report

a_diagnosis_names_them(_Config) ->
    natively(fun() ->
                     Pid = dirty(),
                     #{not_looked_at := Not} = Diagnosis = sonde:diagnosis(#{interval => 100}),
                     {heaps, {left_out, N, Some}} = lists:keyfind(heaps, 1, Not),
                     true = N >= 1 andalso lists:member({Pid, busy}, Some),
                     Text = unicode:characters_to_list(sonde_diagnose:format(Diagnosis)),
                     {match, _} = re:run(Text, "could not read [0-9]+ process"),
                     _ = iolist_to_binary(sonde_json:encode(Diagnosis)),
                     gone([Pid])
             end).

clusters_have_reports(_Config) ->
    natively(fun() ->
                     Pid = dirty(),
                     Node = node(),
                     #{rows := [_ | _], failed := [],
                       reports := [{Node, #{missed := #{pids := Pids}}}]} =
                         sonde:cluster({bin_owned, [3, #{report => true}]}, #{nodes => [Node]}),
                     {Pid, busy} = lists:keyfind(Pid, 1, Pids),
                     false = is_map_key(reports, sonde:cluster({bin_owned, [3]},
                                                               #{nodes => [Node]})),
                     gone([Pid])
             end).

%% ---- processes

dirty() -> dirty(?DIRTY_MS).

dirty(Ms) ->
    Pid = spawn(?MODULE, dirty_for, [Ms]),
    ok = is_dirty(Pid),
    Pid.

dirty_for(Ms) ->
    _ = erts_debug:dirty_io(wait, Ms),
    receive never -> ok end.

is_dirty(Pid) ->
    sonde_test:until(dirty, fun() -> process_info(Pid, current_function)
                                         =:= {current_function, {erts_debug, dirty_io, 2}} end).

%% It never waits, and holds a list of so many cells and one binary.
spinner(Cells) ->
    Test = self(),
    Pid = spawn(fun() ->
                        Kept = [binary:copy(<<1>>, 1000) | lists:seq(1, Cells)],
                        true = garbage_collect(),
                        Test ! {spins, self()},
                        spin(0, Kept)
                end),
    receive {spins, Pid} -> Pid end.

spin(N, Kept) -> spin(N bxor 1, Kept).

%% It runs again, and is not suspended.
goes_on(Pid) ->
    {reductions, Before} = process_info(Pid, reductions),
    sonde_test:until(goes_on, fun() ->
                                      {reductions, Now} = process_info(Pid, reductions),
                                      {status, Status} = process_info(Pid, status),
                                      Now > Before + 10000 andalso Status =/= suspended
                              end).

gone(Pids) ->
    _ = [exit(Pid, kill) || Pid <- Pids],
    ok.
