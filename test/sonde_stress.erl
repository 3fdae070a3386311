%% A node under fire, with witnesses in it: see sonde_stress_fire and sonde_stress_witness. Hands
%% call all of sonde at the same time, and judge the values that are reported for the witnesses.
%%
%% To add a call, add a clause of call/3.
-module(sonde_stress).

-export([run/3]).
-export([calls/3, reads/3, looks/3, counts/3]).
-export([seen_in_rows/1, seen_in_mailbox/1]).

-define(WINNERS, 20).
-define(NO_LIMIT, 134217727).
-define(ENOUGH, 5).         % the run ends after so many wrong answers
-define(LOOK_MS, 500).      % a process that runs within this time, and
-define(SECOND_MS, 1000).   % is read before this time, ran within the last second

%% Returns what was done and seen, by name; `wrong' lists the values that were not true. Hands is
%% the number of each kind of hand: calls (what people call), reads (of single witnesses, natively),
%% looks (into the heaps of the witnesses made for that) and counts (of all processes: how many were
%% answered natively, and how many of those that had been busy).
run(Ms, Hands, {Crowd, Options}) ->
    process_flag(priority, high),
    %% Under fire the code server has to wait like every process, and a call that needs a module waits for it.
    _ = [{module, M} = code:ensure_loaded(M) || M <- modules()],
    Log = sonde_stress_witness:log(),
    [{idle, _} | Witnesses] = All = sonde_stress_witness:start(Log),
    Fire = sonde_stress_fire:start(Crowd, Options),
    #{counters := Before} = sonde:native(),
    Stop = {now_ns() + Ms * 1000000, counters:new(1, [])},
    Monitors = [spawn_opt(?MODULE, Kind, [Log, Witnesses, Stop],
                          [monitor, {priority, priority(Kind)}])
                || {Kind, Times} <- maps:to_list(Hands), _ <- lists:seq(1, Times)],
    Seen = [receive {'DOWN', Ref, process, Pid, Why} -> seen(Why) end || {Pid, Ref} <- Monitors],
    #{counters := After} = sonde:native(),
    _ = [exit(P, kill) || P <- Fire],
    Dead = sonde_stress_witness:dead(All),
    Late = sonde_stress_witness:late(Log),
    _ = [exit(P, kill) || {_, Ps} <- All, P <- Ps],
    true = ets:delete(Log),
    Sum = lists:foldl(fun plus/2, #{}, [S || {S, _} <- Seen]),
    Sum#{counters => maps:map(fun(K, V) -> V - maps:get(K, Before) end, After),
         wrong => Dead ++ Late ++ lists:append([W || {_, W} <- Seen])}.

modules() ->
    {ok, Ours} = file:list_dir(filename:dirname(code:which(sonde))),
    [list_to_atom(filename:basename(F, ".beam")) || F <- Ours, filename:extension(F) =:= ".beam"]
        ++ lists:append([Modules || App <- [kernel, stdlib], {ok, Modules} <- [application:get_key(App, modules)]]).

seen({seen, Counts, Wrong}) -> {Counts, Wrong};
seen(Why) -> {#{}, [{died, Why}]}.

%% Hundreds of processes wait for a scheduler all the time. Hands that mostly wait for answers run
%% at high priority, so that they do not wait too.
priority(reads) -> normal;
priority(looks) -> normal;
priority(_) -> high.

plus(A, B) -> maps:fold(fun(K, V, Sum) -> Sum#{K => V + maps:get(K, Sum, 0)} end, B, A).

now_ns() -> erlang:monotonic_time(nanosecond).

one_of(List) -> lists:nth(rand:uniform(length(List)), List).

%% ---- hands

calls(Log, Witnesses, Stop) -> hand(fun call/3, Log, Witnesses, Stop).
reads(Log, Witnesses, Stop) ->
    hand(fun read/3, Log, [W || {Attr, _} = W <- Witnesses, Attr =/= bin_leak,
                                Attr =/= binary_proportional,
                                not is_look(Attr)], Stop).
looks(Log, Witnesses, Stop) ->
    hand(fun look/3, Log, [W || {Attr, _} = W <- Witnesses, is_look(Attr)], Stop).

%% Attributes that are asked of a single process.
is_look(Attr) -> lists:member(Attr, [heap, heap_top, mailbox, flat]).

%% The time is up, or enough wrong answers show that something is wrong.
is_over({End, Wrong}) -> now_ns() >= End orelse counters:get(Wrong, 1) >= ?ENOUGH.

hand(Look, Log, Witnesses, Stop) ->
    _ = rand:seed(exsss),
    exit(hand(Look, Log, Witnesses, Stop, #{}, [])).

hand(Look, Log, Witnesses, {_, AllWrong} = Stop, Counts, Wrong) ->
    case is_over(Stop) of
        true ->
            {seen, Counts, Wrong};
        false ->
            {Attr, [Pid | _]} = one_of(Witnesses),
            {What, {Verdict, New}} = Look(Log, Attr, Pid),
            ok = counters:add(AllWrong, 1, length(New)),
            hand(Look, Log, Witnesses, Stop,
                 plus(Counts, #{What => 1, Verdict => 1, {Verdict, Attr} => 1}), New ++ Wrong)
    end.

read(Log, Attr, Pid) ->
    T0 = now_ns(),
    Value = case sonde_nif:read(Pid, Attr) of
                N when is_integer(N) -> N;
                _ -> no_value
            end,
    T1 = now_ns(),
    %% To the scheduler a call costs next to nothing; a process that is never preempted would keep
    %% others from running.
    true = erlang:bump_reductions(1000),
    {reads, judge(Log, Attr, Pid, Value, T0, T1)}.

judge(Log, bin_garbage, Pid, Value, T0, T1) ->
    sonde_stress_witness:judge_garbage(Log, Pid, Value, T0, T1);
judge(Log, Attr, Pid, Value, T0, T1) ->
    sonde_stress_witness:judge(Log, Attr, Pid, Value, T0, T1).

%% Asks for more rows than there are large witnesses, so a witness is always among the winners.
call(Log, bin_leak, Pid) ->
    T0 = now_ns(),
    #{rows := Rows} = sonde:bin_leak(5, #{deadline => 2000, threads => threads()}),
    {leaks, sonde_stress_witness:judge_leak(Log, Pid, value(Pid, Rows), T0, now_ns())};
%% Other processes may waste more, and a process with no garbage has no row.
call(Log, Attr, Pid) when Attr =:= bin_garbage; Attr =:= bin_waste; Attr =:= binary_unique ->
    T0 = now_ns(),
    Rows = case Attr of
               bin_garbage -> sonde:bin_garbage(5);
               _ -> sonde:proc_count(Attr, 50, #{threads => threads()})
           end,
    {scans, judge(Log, Attr, Pid, missing_is_none(value(Pid, Rows)), T0, now_ns())};
call(Log, binary_exclusive, Pid) ->
    T0 = now_ns(),
    case rand:uniform(4) of
        1 ->
            Ms = rand:uniform(20),
            Rows = sonde:bin_window(50, Ms),
            {windows, sonde_stress_witness:judge_window(Log, binary_exclusive, Pid,
                                                        value(Pid, Rows), T0, now_ns(), Ms)};
        2 ->
            {accounts, account(one_of([whole, sample, holders, one, resources, shares]))};
        _ ->
            Rows = owned(rand:uniform(4)),
            {scans, sonde_stress_witness:judge(Log, binary_exclusive, Pid,
                                               missing_is_none(value(Pid, Rows)), T0, now_ns())}
    end;
call(Log, binary_proportional, Pid) ->
    T0 = now_ns(),
    Rows = sonde:proc_count(binary_proportional, 1000),
    {scans, judge(Log, binary_proportional, Pid, missing_is_none(value(Pid, Rows)), T0, now_ns())};
call(Log, heap, Pid) ->
    case rand:uniform(3) of
        1 -> look(Log, heap, Pid);
        _ -> {looks, {no_value, looked_into(one_of(processes()))}}
    end;
call(Log, Attr, Pid) when Attr =:= heap_top; Attr =:= mailbox; Attr =:= flat ->
    look(Log, Attr, Pid);
call(Log, Attr, Pid) ->
    T0 = now_ns(),
    case rand:uniform(1000) of
        1 -> {diagnoses, diagnosis(sonde:diagnosis(#{interval => 100}))};
        N when N < 100 -> {waits, waits(sonde:waits(rand:uniform(50)))};
        N when N < 200 -> {stacks, stacks(sonde:stacks(1000000, #{threads => threads()}))};
        N when N < 250 ->
            By = one_of([initial_call, application]),
            {groups, groups(By, sonde:proc_group(By, [memory, reductions], #{threads => threads()}))};
        N when N < 300 -> {schedulers, schedulers(sonde:schedulers(#{interval => one_of([0, 0, 1])}))};
        _ -> counted(Log, Attr, Pid, T0)
    end.

%% Nothing else knows what runs. But each scheduler has one row, and no process is on two of them that hold it.
schedulers(Rows) ->
    Keys = [Key || {Key, _, _} <- Rows],
    All = lists:sum([erlang:system_info(Item) || Item <- [schedulers, dirty_cpu_schedulers, dirty_io_schedulers]]),
    Held = [Pid || {_, _, Attrs} <- Rows, lists:keymember(held_ms, 1, Attrs), {pid, Pid} <- Attrs],
    Wrong = length(Keys) =/= All orelse has_twice(Keys) orelse has_twice(Held)
        orelse [Pid || Pid <- Held, node(Pid) =/= node()] =/= [],
    {no_value, [{schedulers, Rows} || Wrong]}.

counted(Log, Attr, Pid, T0) ->
    case rand:uniform(26) of
        N when N > 20 ->
            {together, sonde_stress_witness:judge(Log, Attr, Pid, together(N, Attr, Pid),
                                                  T0, now_ns())};
        1 ->
            Ms = rand:uniform(20),
            Rows = sonde:proc_window(Attr, ?WINNERS, Ms, #{threads => threads()}),
            {windows, sonde_stress_witness:judge_window(Log, Attr, Pid, value(Pid, Rows),
                                                        T0, now_ns(), Ms)};
        2 ->
            _ = sonde:proc_window(one_of(sonde_attr:native()), 1, rand:uniform(20)),
            {windows, {no_value, []}};
        3 ->
            _ = sonde:proc_count(one_of(sonde_attr:native()), 1),
            {scans, {no_value, []}};
        _ ->
            Rows = sonde:proc_count(Attr, ?WINNERS, #{threads => threads()}),
            {scans, sonde_stress_witness:judge(Log, Attr, Pid, value(Pid, Rows), T0, now_ns())}
    end.

%% The right diagnosis of a node under fire is unknown; checks only that there is one, and that it
%% has no impossible values.
diagnosis(#{suspects := Suspects, memory := #{total := Total}}) when Total > 0 ->
    {no_value, [{suspect, S} || #{share := Share, bytes := Bytes} = S <- Suspects,
                                Share < 0 orelse Share > 1 orelse Bytes < 0]}.

%% No process knows which other one is next there; but no chain and no circle has a process twice.
waits(Rows) ->
    {no_value, [{waits, Row} || {For, Waiters, [{longest_chain, Chain} | Attrs]} = Row <- Rows,
                                Waiters < 1 orelse length(Chain) < 2 orelse lists:last(Chain) =/= For
                                    orelse has_twice(Chain) orelse length(Chain) > Waiters + 1
                                    orelse has_twice(proplists:get_value(deadlock, Attrs, []))]}.

%% No process knows where the others are. But each function is one of a module that was loaded, no stack has
%% two rows, and there are not more processes than there may be.
stacks(Rows) ->
    Counts = [N || {_, N, _} <- Rows],
    Modules = lists:usort([M || {Stack, _, _} <- Rows, {M, _, _} <- Stack]),
    Wrong = lists:sum(Counts) > erlang:system_info(process_limit)
        orelse Counts =/= lists:reverse(lists:sort(Counts))
        orelse has_twice([Stack || {Stack, _, _} <- Rows])
        orelse [M || M <- Modules, not erlang:module_loaded(M), code:which(M) =:= non_existing] =/= [],
    {no_value, [{stacks, Rows} || Wrong]}.

%% The planted processes, which are there all the time, are no fewer; no group comes twice, and none has less than
%% nothing.
groups(By, Groups) ->
    Wrong = lists:sum([N || {_, N, _} <- Groups]) > erlang:system_info(process_limit)
        orelse has_twice([Key || {Key, _, _} <- Groups])
        orelse [N || {_, N, [{memory, M}, {reductions, R}]} <- Groups, N < 1 orelse M < 1 orelse R < 0] =/= []
        orelse (By =:= application andalso not lists:keymember(kernel, 1, Groups)),
    {no_value, [{groups, Groups} || Wrong]}.

has_twice(List) -> length(lists:usort(List)) < length(List).

%% One thread as often as several.
threads() -> one_of([1, 1, 1, 2, 3, 8]).

missing_is_none(missing) -> no_value;
missing_is_none(Value) -> Value.

%% Sometimes suspends running processes.
owned(1) ->
    {Rows, #{left_out := N, missed := #{count := N}}} =
        sonde:bin_owned(50, #{report => true, suspend => true, threads => threads()}),
    Rows;
owned(_) ->
    sonde:bin_owned(50).

%% For a whole node only impossible values are known to be wrong.
account(whole) -> said(sonde:bin_account(#{threads => rand:uniform(4)}));
account(sample) ->
    said(sonde:bin_account(#{max_entries => 100 + rand:uniform(10000), threads => rand:uniform(4)}));
account(holders) -> holders(sonde:bin_holders(rand:uniform(20), one_of([size, count])));
account(resources) ->
    {no_value, [{resources, Row} || {_, Count, _, Holders} = Row <- sonde:bin_resources(20),
                                    Count < 1 orelse Holders < 1]};
account(shares) ->
    _ = sonde:proc_count(binary_proportional, 20),
    {no_value, []};
account(one) ->
    Id = case process_info(one_of(processes()), binary) of
             {binary, [_ | _] = Binaries} -> element(1, one_of(Binaries));
             _ -> 8 * rand:uniform(1 bsl 40)
         end,
    holders([Holder || Holder <- [sonde:bin_holder(Id)], Holder =/= undefined]).

said(#{unseen := Unseen, total := Total} = Account) ->
    Parts = maps:without([unseen, total, ms, unused, sampled, error, processes_missed,
                          tables_missed, literals_missed, missed, suspended, suspended_ms],
                         Account),
    {no_value, [{account, Account} || lists:any(fun(Bytes) -> Bytes < 0 end, maps:values(Parts))
                                          orelse Total - lists:sum(maps:values(Parts)) =/= Unseen]}.

holders(Holders) ->
    {no_value, [{holder, Holder} || #{size := Size, refc := Refc, elsewhere := Elsewhere,
                                      holders := Held} = Holder <- Holders,
                                    Size < 0 orelse Refc < 1 orelse Elsewhere < 0
                                        orelse lists:any(fun({_, N, _}) -> N < 1 end, Held)]}.

%% Several attributes in one sweep, a sweep by process, and one process alone.
together(21, Attr, Pid) ->
    [_, {Attr, Rows}, _] = sonde:proc_count([one_of(sonde_attr:native()), Attr, Attr],
                                             ?WINNERS),
    value(Pid, Rows);
together(22, Attr, Pid) ->
    Find = fun(P, [_, Value], [], _) when P =:= Pid -> Value;
              (_, [_, _], [], Found) -> Found
           end,
    sonde_every_process:fold(Find, missing, [one_of(sonde_attr:native()), Attr], []);
together(23, Attr, Pid) ->
    _ = sonde:proc_group(one_of([application, registered_name]), [Attr]),
    together(24, Attr, Pid);
together(_, Attr, Pid) ->
    case sonde_every_process:one(Pid, [Attr, one_of(sonde_attr:native())]) of
        {ok, [Value, _]} -> Value;
        undefined -> missing
    end.

%% What a witness's dictionary reaches, and the like.
look(Log, Attr, Pid) ->
    T0 = now_ns(),
    Value = seen_in(Attr, Pid),
    {looks, sonde_stress_witness:judge(Log, Attr, Pid, Value, T0, now_ns())}.

seen_in(heap, Pid) ->
    case heap_of(Pid) of
        {#{roots := {_, _, Dictionary, _, _}}, _, _} -> Dictionary div 8;
        _ -> no_value
    end;
seen_in(heap_top, Pid) ->
    case sonde:heap_top(Pid, 10, #{timeout => 100}) of
        {error, _} -> no_value;
        Rows -> seen_in_rows(Rows)
    end;
seen_in(flat, Pid) ->
    case sonde:flat_size(Pid, dictionary, #{timeout => 100}) of
        Words when is_integer(Words) -> Words;
        {error, _} -> no_value
    end;
seen_in(mailbox, Pid) ->
    case {rand:uniform(2), #{timeout => 100}} of
        {1, Opts} -> three_words_each(sonde:flat_size(Pid, messages, Opts));
        {2, Opts} -> seen_in_mailbox(sonde:mailbox(Pid, 10, Opts))
    end.

%% What `sonde:heap_top/2' says of a witness.
seen_in_rows(Rows) ->
    largest([{Path, Bytes div 8} || #{path := Path, retained := Bytes} <- Rows]).

%% The constant stack comes first, then the held term, then that term without its first level.
largest([{[{_, _}], Stack} | Rows]) ->
    Held = [dictionary, {key, held}],
    case {Stack =:= sonde_stress_witness:stack_words(), lists:keyfind(Held, 1, Rows),
          lists:keyfind(Held ++ [{index, 2}], 1, Rows)} of
        {true, false, false} -> missing;
        {true, {_, Words}, false} -> 3 + Words;
        {true, {_, Words}, {_, Rest}} ->
            case Words - Rest =:= sonde_stress_witness:level_words() of
                true -> 3 + Words;
                false -> {odd, Words, Rest}
            end;
        {_, _, _} -> {odd, Stack, Rows}
    end;
largest(Rows) ->
    {odd, Rows}.

three_words_each({error, _}) -> no_value;
three_words_each(Words) when Words rem 3 =:= 0 -> Words div 3;
three_words_each(Words) -> {odd, Words}.

%% Each shape has as many messages, or one more; there may also be a message that asks to read.
seen_in_mailbox({error, _}) ->
    no_value;
seen_in_mailbox(#{messages := N, bytes := Bytes, binary_bytes := 0, examined := N,
          shapes := Shapes} = All) ->
    ByShape = maps:from_list([{Shape, Of} || #{shape := Shape, messages := Of} <- Shapes]),
    Of = [maps:get(Shape, ByShape, 0) || Shape <- [{mail, 2}, {any, 2}, {post, 2}]],
    Read = maps:get({read, 2}, ByShape, 0),
    case Bytes =:= 24 * N andalso lists:sum([Read | Of]) =:= N andalso Read =< 1
        andalso lists:max(Of) - lists:min(Of) =< 1
        andalso lists:all(fun(#{messages := K, bytes := B}) -> B =:= 24 * K end, Shapes) of
        true -> N;
        false -> {odd, All}
    end;
seen_in_mailbox(All) ->
    {odd, All}.

%% Of any process: the reached bytes add up, and fit into its blocks.
looked_into(Pid) ->
    case heap_of(Pid) of
        {#{roots := Roots, young := Young, old := Old, fragments := Fragments}, _, Bars} ->
            Reached = lists:sum(tuple_to_list(Roots)),
            [{heap, Pid, Roots, Young, Old, Fragments, Bars}
             || Reached =/= lists:sum([Bytes || {_, _, Bytes} <- Bars])
                    orelse Reached > Young + Old + Fragments];
        undefined -> [];
        {error, _} -> []
    end.

heap_of(Pid) ->
    Opts = #{suspend => false, max_words => 1 bsl 30, timeout => 100, progress => false},
    sonde_look:run(Pid, {mark, [histogram, visible], 0, 0}, Opts, fun sonde_nif:look_heap/1).

value(Pid, Rows) ->
    case lists:keyfind(Pid, 1, Rows) of
        {Pid, Value, _} -> Value;
        false -> missing
    end.

%% ---- native answers: all attempts, and those on processes that had been busy

counts(_Log, _Witnesses, Stop) ->
    exit({seen, counts(Stop, #{}), []}).

counts(Stop, Counts) ->
    case is_over(Stop) of
        true -> Counts;
        false ->
            Until = now_ns() + ?SECOND_MS * 1000000,
            {First, _} = scanned(reductions, sample, undefined),
            timer:sleep(?LOOK_MS),
            {Gains, _} = scanned(reductions, diff, First),
            Idle = maps:from_keys([Pid || {Pid, 0} <- sonde_nif:scan_rows(Gains)], []),
            counts(Stop, counts(shuffled(sonde_attr:native()), Idle, Until, Counts))
    end.

shuffled(List) ->
    [X || {_, X} <- lists:sort([{rand:uniform(), X} || X <- List])].

counts([], _, _, Counts) ->
    Counts;
counts([Attr | Attrs], Idle, Until, Counts) ->
    {Scan, Asked} = scanned(Attr, top, undefined),
    case now_ns() < Until of
        false -> Counts;
        true ->
            Native = [Pid || {Pid, _} <- sonde_nif:scan_rows(Scan)],
            BusyNative = busy(Native, Idle),
            counts(Attrs, Idle, Until,
                   plus(Counts, #{attempts => length(Native) + length(Asked),
                                  attempts_native => length(Native),
                                  busy_attempts => BusyNative + busy(Asked, Idle),
                                  busy_native => BusyNative,
                                  {asked, Attr} => length(Asked)}))
    end.

%% A process that ran, collected or received has done reductions; one born meanwhile is not idle
%% either.
busy(Pids, Idle) -> length([Pid || Pid <- Pids, not is_map_key(Pid, Idle)]).

%% One scan as the calls do it, but processes that could not be read are not asked.
scanned(Attr, Mode, First) ->
    Scan = sonde_nif:scan_new(Attr, Mode, ?NO_LIMIT, First, [self()], ?NO_LIMIT),
    {Scan, to_the_end(Scan, sonde_nif:scan_step(Scan), [])}.

to_the_end(_Scan, done, Asked) ->
    Asked;
to_the_end(Scan, more, Asked) ->
    to_the_end(Scan, sonde_nif:scan_step(Scan), Asked);
to_the_end(Scan, {ask, Pids}, Asked) ->
    ok = sonde_nif:scan_feed(Scan, []),
    to_the_end(Scan, sonde_nif:scan_step(Scan), Pids ++ Asked).
