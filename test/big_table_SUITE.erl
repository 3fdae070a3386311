%% Answers are right on a node with the largest process table that is possible (it takes about 2
%% GiB), with the smallest, and after pids have wrapped around.
-module(big_table_SUITE).

-compile([export_all, nowarn_export_all]).

-define(LARGEST, 134217727).
-define(NEEDED, 6 * 1024 * 1024 * 1024).

suite() -> [{timetrap, {minutes, 4}}].

all() -> [largest_table, smallest_table, smallest_table_when_full,
          slow_answers_when_full, pids_that_went_round, legacy_table,
          a_sweep_ends_where_all_were_met, more_groups_than_there_is_room_for].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

init_per_testcase(largest_table, Config) ->
    case free_bytes() of
        unknown -> {skip, "cannot find out whether there are 6 GiB free for the largest table"};
        Free when Free < ?NEEDED -> {skip, "less than 6 GiB free for the largest table"};
        _ -> Config
    end;
init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(_Case, _Config) -> ok.

%% Free memory of the whole machine; a chroot may have no /proc.
free_bytes() ->
    Available = number(os:cmd("sed -n 's/^MemAvailable: *\\([0-9]*\\) kB$/\\1/p' /proc/meminfo"
                              " 2>/dev/null")),
    Free = number(os:cmd("getconf _AVPHYS_PAGES 2>/dev/null")),
    Page = number(os:cmd("getconf PAGESIZE 2>/dev/null")),
    case {Available, Free, Page} of
        {N, _, _} when is_integer(N) -> N * 1024;
        {_, N, P} when is_integer(N), is_integer(P) -> N * P;
        _ -> unknown
    end.

number(Text) ->
    try list_to_integer(string:trim(Text)) catch error:badarg -> unknown end.

%% ---- the tests

largest_table(_Config) ->
    with(?LARGEST, fun(Peer) -> call(Peer, right, [?LARGEST, 2000]) end).

smallest_table(_Config) ->
    with(1024, fun(Peer) -> call(Peer, right, [1024, 200]) end).

smallest_table_when_full(_Config) ->
    with(1024, fun(Peer) -> call(Peer, full, []) end).

%% Promise: where no process can be started, those that answer slowly are asked one after the other.
slow_answers_when_full(_Config) ->
    with(1024, fun(Peer) -> call(Peer, asked_when_full, []) end).

%% In a table of 1024 entries, the number of a pid says less and less about its slot.
pids_that_went_round(_Config) ->
    with(1024, fun(Peer) -> call(Peer, gone_round, []) end).

%% Such a table does not count the processes that it ever had: each sweep reads all of it.
legacy_table(_Config) ->
    ok = sonde_peer_helper:with(shipped, ["+P", "legacy"],
                                fun(Peer) ->
                                        call(Peer, all_right_in_legacy, [2000])
                                end).

a_sweep_ends_where_all_were_met(_Config) ->
    with(1024, fun(Peer) -> call(Peer, met, []) end).

%% ---- in the node

all_right_in_legacy(N) ->
    #{status := Status} = sonde:native(),
    true = lists:member(Status, [active, {off, disabled}]),
    false = sonde_nif:has_turnover(),
    all_right([holder(I) || I <- lists:seq(1, N)]).

%% Processes start and exit all the time: a sweep meets each process that lives all the while.
met() ->
    #{status := Status} = sonde:native(),
    true = sonde_nif:has_turnover() =:= (Status =:= active),
    Steady = lists:sort([holder(I) || I <- lists:seq(1, 50)]),
    Restless = [spawn(fun() -> turn(1 bsl 60) end) || _ <- [1, 2, 3]],
    _ = [begin
             Seen = maps:from_list([{P, V} || {P, V, _} <- sonde:proc_count(heap_size, 1000)]),
             [] = [P || P <- Steady, not is_map_key(P, Seen)],
             Grown = maps:from_list([{P, V} || {P, V, _} <- sonde:proc_window(catchlevel, 1000, 0)]),
             [] = [P || P <- Steady, maps:get(P, Grown, none) =/= 0]
         end || _ <- lists:seq(1, 50)],
    _ = [exit(P, kill) || P <- Restless],
    sonde_test:stop(Steady).

right(Limit, N) ->
    Limit = erlang:system_info(process_limit),
    Pids = [holder(I) || I <- lists:seq(1, N)],
    all_right(Pids).

all_right(Pids) ->
    _ = [process_info(P, memory) || P <- Pids],
    ok = sonde_kinds_helper:settle(Pids),
    _ = [counted(Attr, Pids) || Attr <- [memory, message_queue_len, binary_count, link_count]],
    grown(Pids),
    leaked(Pids),
    sonde_test:stop(Pids).

%% Drops some binaries without collecting, and keeps others.
holder(I) ->
    Parent = self(),
    P = spawn_opt(fun() ->
                          Gone = [binary:copy(<<1>>, 100) || _ <- lists:seq(1, I rem 13)],
                          Kept = [binary:copy(<<1>>, 100) || _ <- lists:seq(1, I rem 7)],
                          Parent ! {built, self(), length(Gone)},
                          hold(Kept)
                  end, [{min_heap_size, 1000 + I rem 3000}]),
    receive {built, P, _} -> P end.

hold(Kept) ->
    receive
        {grow, From} ->
            put(grown, lists:seq(1, 20000)),
            From ! {grown, self()},
            hold(Kept);
        stop -> Kept
    end.

counted(Attr, Pids) ->
    Official = lists:sort([{P, sonde_kinds_helper:official(Attr, P)} || P <- Pids]),
    {Us, Rows} = timer:tc(sonde, proc_count, [Attr, 1000000]),
    tell({Attr, ms, Us div 1000}),
    Wanted = maps:from_keys(Pids, true),
    {Attr, Official} = {Attr, lists:sort([{P, V} || {P, V, _} <- Rows, is_map_key(P, Wanted)])},
    %% every process has a row, in recon's order
    true = length(Rows) >= length(processes()) - 1,
    Values = [V || {_, V, _} <- Rows],
    Values = lists:reverse(lists:sort(Values)),
    Best = [P || {P, _, _} <- Rows],
    Best = [P || {_, P} <- lists:reverse(lists:sort([{V, P} || {P, V, _} <- Rows]))].

grown(Pids) ->
    One = lists:nth(rand:uniform(length(Pids)), Pids),
    Self = self(),
    %% after the first look, however long that takes on this machine
    {Look, _} = timer:tc(sonde, proc_count, [memory, 1]),
    Ms = 50 + Look div 500,
    spawn(fun() -> timer:sleep(Ms), One ! {grow, Self} end),
    {Us, [{Most, Growth, _} | _]} = timer:tc(sonde, proc_window, [memory, 1000000, 3 * Ms]),
    receive {grown, One} -> ok end,
    tell({window, ms, Us div 1000}),
    {One, true} = {Most, Growth > 20000 * 16 - 10000}.

leaked(Pids) ->
    ok = sonde_kinds_helper:settle(Pids),
    Before = [{P, sonde_kinds_helper:official(binary_count, P)} || P <- Pids],
    {Us, Rows} = timer:tc(sonde, bin_leak, [1000000]),
    tell({bin_leak, ms, Us div 1000}),
    Expected = lists:sort([{P, sonde_kinds_helper:official(binary_count, P) - N}
                           || {P, N} <- Before]),
    Wanted = maps:from_keys(Pids, true),
    Expected = lists:sort([{P, V} || {P, V, _} <- Rows, is_map_key(P, Wanted)]),
    true = lists:any(fun({_, V}) -> V < 0 end, Expected).

%% The table has no room for a helper, a prover or a probe, before and after the proof: calls that
%% can answer do, the others report why not. No process dies, and once there is room again all calls
%% answer as before.
full() ->
    Modules = [sonde, sonde_nif, sonde_vm, sonde_probe, sonde_attr, sonde_proc_count, sonde_largest,
               sonde_bin_leak, sonde_helper, sonde_opts, sonde_kinds_helper, sonde_test],
    _ = [{module, M} = code:ensure_loaded(M) || M <- Modules],
    First = fill([]),
    [_, _, _] = sonde:proc_count(memory, 3),
    Busy = {off, {probes_busy, 1}},
    Unproved = maps:get(status, sonde:native()),
    true = lists:member(Unproved, sonde_test:pick([Busy], [Busy, {off, disabled}])),
    sonde_test:stop(First),
    Expected = sonde_test:pick(active, {off, disabled}),
    Expected = maps:get(status, sonde:native()),
    Pids = [holder(I) || I <- lists:seq(1, 100)],
    Filler = fill([]),
    _ = [counted(Attr, Pids) || Attr <- [memory, binary_count]],
    Leak = try sonde:bin_leak(3) of
               Rows -> length(Rows)
           catch
               error:system_limit -> system_limit
           end,
    true = Leak =:= 3 orelse Leak =:= system_limit,
    Expected = maps:get(status, sonde:native()),
    sonde_test:stop(Filler),
    [_, _, _] = sonde:bin_leak(3),
    sonde_test:stop(Pids).

%% First there is no room at all, then for a helper that has none for its jobs.
asked_when_full() ->
    {module, _} = code:ensure_loaded(sonde_helper),
    Ask = fun(Pid) -> timer:sleep(10), {answered, Pid} end,
    Fold = fun(Pid, {answered, Pid}, Acc) -> [Pid | Acc] end,
    Filler = [Last | _] = fill([]),
    Pids = [self() | lists:sublist(Filler, 2, 20)],
    All = lists:sort(Pids),
    All = lists:sort(sonde_helper:ask(Ask, Fold, [], Pids)),
    {_, Mon} = {exit(Last, kill), monitor(process, Last)},
    receive {'DOWN', Mon, _, _, _} -> ok end,
    All = lists:sort(sonde_helper:ask(Ask, Fold, [], Pids)),
    sonde_test:stop(Filler -- [Last]).

fill(Pids) ->
    try spawn(fun sonde_kinds_helper:wait/0) of
        Pid -> fill([Pid | Pids])
    catch
        error:system_limit -> Pids
    end.

gone_round() ->
    Old = [holder(I) || I <- lists:seq(1, 50)],
    ok = turn(200000),
    Middle = [holder(I) || I <- lists:seq(1, 50)],
    ok = turn(200000),
    all_right(Old ++ Middle ++ [holder(I) || I <- lists:seq(1, 50)]).

turn(0) -> ok;
turn(N) ->
    {_, Mon} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Mon, _, _, _} -> turn(N - 1) end.

%% Promise: what does not fit into the native count of groups is counted by asking.
more_groups_than_there_is_room_for(_Config) ->
    with(262144, fun(Peer) -> call(Peer, many_leaders, []) end).

%% Each has a leader of its own, which makes more keys than are counted natively.
many_leaders() ->
    Me = self(),
    Lead = fun() -> group_leader(self(), self()), Me ! led, sonde_kinds_helper:wait() end,
    Pids = [spawn(Lead) || _ <- lists:seq(1, 60000)],
    _ = [receive led -> ok end || _ <- Pids],
    {_, N, _} = lists:keyfind({erlang, apply, 2}, 1, sonde:proc_group(initial_call, [])),
    true = N >= 60000,
    ok.

tell(Term) -> io:format(user, "~0p~n", [Term]).

%% ---- peers

with(Limit, Fun) ->
    ok = sonde_peer_helper:with(shipped, ["+P", integer_to_list(Limit)], Fun).

call(Peer, F, A) -> sonde_peer_helper:call(Peer, ?MODULE, F, A).
