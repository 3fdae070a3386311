%% @private
%% A diagnosis of another OS process, or of a core file, from its memory alone: which processes hold up others, leave
%% their messages, wait for a processor or are suspended. Of an OS process that runs there are two looks, and a suspect
%% must be one in both. Of one that is stopped, and of a core file, there is one moment: what grows is not known.
-module(sonde_outside_diagnose).

-export([diagnosis/2]).
-export_type([diagnosis/0, suspect/0]).

%% As `sonde_judge' has them, but names may be texts.
-type suspect() :: #{kind := sonde_judge:kind(), what := pid() | port() | {processes, sonde_outside_names:function_there()} | node,
                     bytes := non_neg_integer(), share := float(), evidence := [{atom(), term()}],
                     see := {sonde, atom(), [term()]}, remedy := sonde_judge:remedy()}.
%% `ms': between the two looks; 0: there was one. `read': the processes that each look read in full. `largest': rows as
%% of proc_count, and what each grew by between two looks: exactly, or at least.
-type diagnosis() :: #{at := integer(), ms := non_neg_integer(), memory := #{processes := non_neg_integer()},
                       counts := #{processes := {Count :: non_neg_integer(), Limit :: pos_integer()}},
                       read := non_neg_integer(), suspects := [suspect()],
                       largest := #{memory | binary_memory := [largest()]}, not_looked_at := [{atom(), term()}]}.
-type largest() :: {pid(), pos_integer(), [sonde_outside_names:name() | {grown | grown_over | current_function | initial_call, term()}]}.
%% `looked_at': the processes whose state was read: all, or `each' second, fourth and so on. `waits': of the processes that
%% others wait for, how many do, directly and in all, and on which circle each is. `queues': the longest mailboxes.
%% `sizes': the memory of their processes, 0 if it is not known. `memory', `binary_memory': of those that have much.
%% `heart': what it waits for in the end; itself, if it is in its callback, and waits for no process. `states': the
%% processes that are in each state, with what each began with. `ports': what normal schedulers run; a mark stays the
%% same only if nothing else ran there meanwhile.
-type look() :: #{processes := non_neg_integer(), bytes := non_neg_integer(), looked_at := non_neg_integer(), each := pos_integer(),
                  waits := #{pid() => {Direct :: pos_integer(), All :: pos_integer(), [pid()] | undefined}},
                  queues | sizes := #{pid() => non_neg_integer()},
                  memory | binary_memory := #{pid() => pos_integer()},
                  heart := {Heart :: pid(), WaitsFor :: pid()} | undefined,
                  states := #{runnable | suspended => #{sonde_nif:function_there() => [pid(), ...]}},
                  busy := #{pid() => {Reductions :: non_neg_integer(), sonde_outside_names:function_there() | undefined}},
                  ports := [{port(), Mark :: non_neg_integer(), Name :: binary()}],
                  unread | missed := sonde_scan:result()}.

-define(FEW, 1000).           % messages, or processes that wait for a processor, as in sonde_judge
-define(MANY, 20).            % waiters of one process, as in sonde_facts_waits
-define(TOP, 20).             % mailboxes
-define(SAMPLE, 32768).       % processes whose state is read, at most
-define(MESSAGE, 40).         % bytes of a message without its terms, at least
-define(STILL, 0.9).          % a backlog that has not become smaller
-define(NEAR, 0.8).           % of the limit of processes
-define(MUCH, 262144).        % bytes, which a look remembers
-define(LARGE, 1048576).      % bytes, of a process that is named as large
-define(LARGEST, 3).
-define(STUCK_MS, 500).       % without a reduction
-define(SOME, 3).             % processes of a group that are named

%% @doc `interval': the milliseconds between two looks; with 0 there is one. `at': when that was, if not now.
-spec diagnosis(#{interval := non_neg_integer(), at => integer(), os_pid => pos_integer()}, sonde_scan:how()) -> {diagnosis(), sonde_scan:result()}.
diagnosis(#{interval := Ms} = Opts, #{until := Until} = How) ->
    First = look(How),
    Pause = min(Ms, max(0, Until - erlang:monotonic_time(millisecond))),
    Both = case Ms of
               0 -> [First];
               _ -> ok = timer:sleep(Pause),
                    [First, look(How#{until := Until + Ms})]
           end,
    #{processes := Count, bytes := Bytes, looked_at := LookedAt, each := Each} = Last = lists:last(Both),
    Missed = all_missed(Both, Count),
    #{left_out := LeftOut, timeout := NoTime} = sonde_scan:report(Missed, false),
    Limit = erlang:system_info(process_limit), % that of the other one, or it would not be read
    {#{at => maps:get(at, Opts, erlang:system_time(millisecond)), ms => Pause, memory => #{processes => Bytes},
       counts => #{processes => {Count, Limit}}, read => max(0, Count - LeftOut),
       largest => largest(Both),
       suspects => worst(suspects(Both, Opts#{interval := Pause}) ++ near_limit(Count, Limit, Last)),
       not_looked_at => [{What, outside} || What <- [ports, tables, atoms, allocators]]
           ++ [{processes, {no_time, NoTime}} || NoTime > 0] ++ [{growth, one_moment} || Ms =:= 0] ++ [{states, {sampled, LookedAt}} || Each > 1]},
     Missed}.

%% A suspect is one in each look, so what one of them missed counts. Two looks that ran out of time may have missed the
%% same ones, which have no name: never more than there are.
all_missed(Looks, Count) ->
    #{missed := Named, unseen := Unseen} = All =
        lists:foldl(fun sonde_scan:merge/2, sonde_scan:nothing(), [Missed || #{missed := Missed} <- Looks]),
    All#{unseen := min(Unseen, max(0, Count - length(Named)))}.

worst(Suspects) ->
    Sorted = lists:sort(fun(#{share := A, bytes := X}, #{share := B, bytes := Y}) -> {A, X} >= {B, Y} end, Suspects),
    once(Sorted, []).

%% A process is accused once, for the worst.
once([#{what := Pid} = Suspect | Rest], Seen) when is_pid(Pid) ->
    case lists:member(Pid, Seen) of
        true -> once(Rest, Seen);
        false -> [Suspect | once(Rest, [Pid | Seen])]
    end;
once([Suspect | Rest], Seen) -> [Suspect | once(Rest, Seen)];
once([], _) -> [].

%% ---- one look

-spec look(sonde_scan:how()) -> look().
look(#{until := Until} = How) ->
    {Graph, Waiting} = sonde_waits:look_there(Until),
    {#{some := Looked} = Read, Unread} = processes(How),
    {Queues, Unqueued} = queues(How),
    Sizes = maps:map(fun(Pid, _) -> size(Pid, Until) end, Queues),
    {States, Late} = states(Looked, Until),
    {Busy, Later} = each_of(status, [Pid || #{missed := Some} <- [Waiting, Unread], {Pid, busy} <- Some],
                            fun(State) -> State =:= running end, Until),
    Missed = lists:foldl(fun sonde_scan:merge/2, no_time(Late ++ Later), [Unqueued, Unread, Waiting]),
    (maps:with([bytes, memory, binary_memory, each], Read))#{
      processes => count(Read, Unread),
      looked_at => length(Looked), waits => waits(Graph), queues => Queues, sizes => Sizes, states => States, heart => heart(Graph),
      ports => [{Port, Mark, Name} || {port, Port, Mark, Name} <- on_normal_schedulers()],
      busy => maps:from_list([{Pid, Known} || {Pid, _} <- Busy, Known <- running(Pid)]),
      unread => Unread, missed => Missed}.

no_time(Pids) -> (sonde_scan:nothing())#{missed := [{Pid, timeout} || Pid <- lists:usort(Pids)]}.

%% All that can be read: how many, their bytes, those that have much, and some of them.
processes(How) ->
    Here = How#{attrs => [memory, binary_memory]},
    Scans = sonde_scan:scan(each, 0, undefined, Here),
    Policy = #{ask => fun(_, By, Asked, {Read, Missed}) ->
                              {Rows, Left} = sonde_scan:again(Asked, By),
                              {[], {lists:foldl(fun row/2, Read, Rows), Left ++ Missed}}
                      end,
               row => fun(Row, {Read, Missed}) -> {row(Row, Read), Missed} end},
    None = #{count => 0, bytes => 0, memory => #{}, binary_memory => #{}, some => [], each => 1},
    case sonde_scan:drive(Scans, Here, Policy, {None, []}) of
        {no_reader, _} ->
            throw(no_reader);
        {End, {Read, Missed}} ->
            Result = (sonde_scan:nothing())#{missed := lists:usort(Missed)},
            {Read, case End of
                       done -> Result;
                       late -> sonde_scan:late(Scans, Here, Result)
                   end}
    end.

%% Of a million processes, a list would take more memory than all else.
row({Pid, [Bytes, Binaries]}, #{count := N, bytes := Sum, memory := Memory, binary_memory := Holding} = Read) ->
    some(Pid, Read#{count := N + 1, bytes := Sum + Bytes, memory := much(Pid, Bytes, Memory),
                    binary_memory := much(Pid, Binaries, Holding)}).

much(Pid, Bytes, Rows) when Bytes >= ?MUCH -> Rows#{Pid => Bytes};
much(_, _, Rows) -> Rows.

%% Every K-th, so that those that began together are not all that is seen.
some(Pid, #{count := N, some := Some, each := Each} = Read) when (N - 1) rem Each =:= 0 ->
    case N > ?SAMPLE * Each of
        true -> Read#{some := every_second([Pid | Some]), each := 2 * Each};
        false -> Read#{some := [Pid | Some]}
    end;
some(_, Read) ->
    Read.

every_second([Pid, _ | Pids]) -> [Pid | every_second(Pids)];
every_second(Pids) -> Pids.

count(#{count := N}, #{missed := Missed}) ->
    case sonde_nif:count_there() of
        undefined -> N + length(Missed);
        Count -> Count
    end.

waits(Graph) ->
    maps:from_list([{Pid, {sonde_wait_graph:direct(Pid, Graph), N, sonde_wait_graph:circle(Pid, Graph)}}
                    || {Pid, N} <- sonde_wait_graph:totals(Graph), is_pid(Pid)]).

%% The boot script starts it, so it is among the first processes, and one step of the search finds it. In its own loop it
%% waits for no process.
heart(Graph) ->
    case sonde_nif:find_name(<<"heart">>, 0) of
        Heart when is_pid(Heart) ->
            Awaited = [{For, sonde_wait_graph:some(For, Graph)} || For <- sonde_wait_graph:awaited(Graph)],
            case [For || {For, Some} <- Awaited, lists:member(Heart, Some)] of
                [For | _] -> held_by(Heart, last(For, Graph, []));
                [] -> held_by(Heart, in_callback(Heart, [For || {For, Some} <- Awaited,
                                                                sonde_wait_graph:direct(For, Graph) > length(Some)]))
            end;
        _ ->
            undefined
    end.

held_by(_, none) -> undefined;
held_by(Heart, Pid) -> {Heart, Pid}.

%% Of a circle, there is none.
last(Pid, Graph, Before) ->
    case {lists:member(Pid, Before), sonde_wait_graph:next(Pid, Graph)} of
        {true, _} -> none;
        {false, Next} when is_pid(Next) -> last(Next, Graph, [Pid | Before]);
        {false, _} -> Pid
    end.

%% Of those that wait for a bottleneck, the graph keeps some only.
in_callback(Heart, Bottlenecks) ->
    case sonde_nif:identity(Heart) of
        {_, _, {<<"heart">>, _, _}, _} -> none;
        {_, _, {<<"gen">>, _, _}, _} when Bottlenecks =/= [] -> none;
        {_, _, {_, _, _}, waiting} -> Heart;
        _ -> none
    end.

queues(How) ->
    Here = How#{attrs => [message_queue_len]},
    Scans = sonde_scan:scan(top, ?TOP, undefined, Here),
    Missed = sonde_scan:run(Scans, Here),
    {maps:from_list([{Pid, N} || {N, Pid} <- sonde_scan:rows(Scans, 0, ?TOP), N >= ?FEW]), Missed}.

size(Pid, Until) ->
    case sonde_outside_info:process(Pid, [memory], #{timeout => max(0, Until - erlang:monotonic_time(millisecond))}) of
        {memory, Bytes} when is_integer(Bytes) -> Bytes;
        _ -> 0
    end.

%% Those that wait for a processor, or are suspended, by what each began with; and those for which there was no time.
states(Pids, Until) ->
    {Found, Late} = each_of(status, Pids, fun(State) -> State =:= runnable orelse State =:= suspended end, Until),
    {Calls, Later} = each_of(initial_call, [Pid || {Pid, _} <- Found], fun is_tuple/1, Until),
    States = maps:from_list(Found),
    {maps:from_list([{State, maps:groups_from_list(fun({_, Call}) -> Call end, fun({Pid, _}) -> Pid end,
                                                   [Known || {Pid, _} = Known <- Calls, map_get(Pid, States) =:= State])}
                     || State <- [runnable, suspended]]),
     Late ++ Later}.

%% Those with such a value, and those that it did not come to.
each_of(What, Pids, IsSuch, Until) -> each_of(What, Pids, IsSuch, Until, []).

each_of(What, [_ | _] = Pids, IsSuch, Until, Found) ->
    case erlang:monotonic_time(millisecond) < Until of
        true ->
            Values = sonde_nif:each_of(What, Pids),
            {Now, Later} = lists:split(length(Values), Pids),
            each_of(What, Later, IsSuch, Until, [Such || {_, Value} = Such <- lists:zip(Now, Values), IsSuch(Value)] ++ Found);
        false -> {Found, Pids}
    end;
each_of(_, [], _, _, Found) ->
    {Found, []}.

running(Pid) ->
    case sonde_nif:identity(Pid) of
        {_, _, Current, running} ->
            [{N, sonde_outside_names:function(Current)} || {reductions, N} <- sonde_outside_info:words(Pid, [reductions])];
        _ ->
            []
    end.

%% ---- suspects: those of every look

suspects(Looks, #{interval := Ms} = Opts) ->
    #{processes := All} = Last = lists:last(Looks),
    heart_waits(Looks) ++ held_up(Looks, max(1, All)) ++ mailboxes(Looks) ++ groups(Looks, Last, Opts) ++ native_calls(Looks, Ms) ++ driver_calls(Looks, Ms).

%% A circle was verified in each look. A server with few callers may be about to answer.
held_up([#{waits := First} | _] = Looks, All) ->
    #{waits := Waits} = lists:last(Looks),
    [Found || {Pid, {Direct, N, Circle}} <- maps:to_list(Waits), is_map_key(Pid, First),
              Found <- case {Circle, map_get(Pid, First)} of
                           {[Head | _], {_, _, [_ | _]}} -> [deadlock(Pid, Direct, N, Circle, All) || Head =:= lists:min(Circle)];
                           {undefined, {Before, _, undefined}} when Direct >= ?MANY, Before >= ?MANY ->
                               [bottleneck(Pid, Direct, N, All, Queued)
                                || Queued <- [queued(Pid)], 2 * Queued >= Direct];
                           _ -> []
                       end].

%% It kills the node, so that counts most.
heart_waits([#{heart := {Heart, Pid} = Held} | _] = Looks) ->
    case lists:last(Looks) of
        #{heart := Held, waits := Waits} ->
            [suspect(heart, Pid, 0, 1.0,
                     [{heart, Heart} || Heart =/= Pid] ++ [{waiters, N} || #{Pid := {_, N, _}} <- [Waits]]
                     ++ current(Pid) ++ named(Pid), see(Heart, Pid), answer_heart)];
        _ ->
            []
    end;
heart_waits(_) ->
    [].

see(Heart, Heart) -> {sonde, info, [Heart]};
see(_, _) -> {sonde, waits, [5]}.

queued(Pid) -> proplists:get_value(message_queue_len, sonde_outside_info:words(Pid, [message_queue_len]), 0).

%% Each process on it waits for the next one: the one that has the smallest pid next to it stands for it.
deadlock(Pid, Direct, N, Circle, All) ->
    suspect(deadlock, Pid, 0, N / All, [{waiters, N}, {direct, Direct}, {deadlock, Circle} | named(Pid)],
            {sonde, waits, [5]}, break_circle).

bottleneck(Pid, Direct, N, All, Queued) ->
    suspect(bottleneck, Pid, 0, N / All, [{waiters, N}, {direct, Direct}, {messages, Queued} | current(Pid) ++ named(Pid)],
            {sonde, waits, [5]}, unblock).

mailboxes([#{queues := First} | _] = Looks) ->
    #{queues := Queues, sizes := Sizes, bytes := All} = lists:last(Looks),
    [suspect(mailbox, Pid, Own, Own / max(1, Bytes),
             [{messages, N} | [{grown, N - Before} || length(Looks) > 1]] ++ state_of(Pid) ++ named(Pid),
             {sonde, mailbox, [Pid, 5]}, remedy(Pid))
     || {Pid, N} <- maps:to_list(Queues), #{Pid := Before} <- [First], N >= ?STILL * Before,
        Memory <- [map_get(Pid, Sizes)], Own <- [max(N * ?MESSAGE, Memory)], Bytes <- [All + Own - Memory]].

state_of(Pid) ->
    case sonde_nif:identity(Pid) of
        {_, _, _, State} -> [{status, State}];
        gone -> []
    end.

remedy(Pid) ->
    case state_of(Pid) of
        [{status, suspended}] -> let_run;
        [{status, waiting}] -> drop_unmatched;
        _ -> batches
    end.

groups([#{states := First} | _] = Looks, #{states := #{suspended := Suspended} = Last, looked_at := LookedAt}, Opts) ->
    #{processes := All} = lists:last(Looks),
    Full = [Ends || map_size(Suspended) > 0, Ends <- full(Opts)],
    [suspect(Kind, {processes, sonde_outside_names:function(Call)}, 0, N / max(1, LookedAt),
             [{processes, Of}, {some, lists:sublist(Both, ?SOME)} | current(hd(Both))]
             ++ [Ends || State =:= suspended, Ends <- Full],
             {sonde, stacks, [5]}, Remedy)
     || {State, Kind, Least, Remedy} <- [{runnable, run_queue, ?FEW, fewer_at_once}, {suspended, suspended, 1, let_run}],
        {Call, Pids} <- maps:to_list(map_get(State, Last)), Call =/= undefined,
        Both <- [in_both(State, Pids, maps:get(Call, map_get(State, First), []))],
        N <- [length(Both)], N > 0, Of <- [N * max(1, All) div max(1, LookedAt)], Of >= Least].

%% Of processes that wait for a processor each may run between the looks.
in_both(runnable, Pids, [_ | _] = Before) -> lists:sublist(lists:sort(Pids), min(length(Pids), length(Before)));
in_both(_, Pids, Before) -> ordsets:intersection(lists:sort(Pids), lists:sort(Before)).

%% Which other end takes nothing, as the kernel has it: the VM suspends those that send to it.
full(#{os_pid := OsPid}) -> [{full_sockets, Full} || [_ | _] = Full <- [sonde_outside_sockets:full(OsPid)]];
full(_) -> [].

current(Pid) ->
    {_, _, Current} = sonde_outside_names:who(Pid),
    [{current_function, Current} || Current =/= undefined].

%% It runs, and its reductions stand still: it is in a native function that does not return.
%% One on a dirty scheduler may stay there.
native_calls([#{busy := First}, #{busy := Last}], Ms) when Ms >= ?STUCK_MS ->
    Normal = [Pid || {Pid, _, _, _, _} <- on_normal_schedulers()],
    [suspect(native_call, Pid, 0, 1.0, [{reductions, 0}, {current_function, Current} | named(Pid)],
             {sonde, info, [Pid]}, native_function)
     || {Pid, {N, Current}} <- maps:to_list(Last), not sonde_nif:has_schedulers() orelse lists:member(Pid, Normal),
        {M, _} <- [maps:get(Pid, First, {none, none})], N =:= M];
native_calls(_, _) ->
    [].

%% A scheduler runs a port in both looks, and nothing else meanwhile.
driver_calls([#{ports := First}, #{ports := Last}], Ms) when Ms >= ?STUCK_MS ->
    [suspect(driver_call, Port, 0, 1.0, [{port_name, Name}], {sonde, schedulers, []}, driver)
     || {Port, _, Name} = Held <- Last, lists:member(Held, First)];
driver_calls(_, _) ->
    [].

%% What each of them runs.
on_normal_schedulers() ->
    case sonde_nif:has_schedulers() of
        true -> on_normal_schedulers(0);
        false -> []
    end.

on_normal_schedulers(From) ->
    case sonde_nif:schedulers(normal, From, erlang:system_info(atom_count)) of
        no_reader -> [];
        {done, Some} -> [Running || {_, _, Running} <- Some];
        {Next, Some} -> [Running || {_, _, Running} <- Some] ++ on_normal_schedulers(Next)
    end.

%% ---- what only is large is no suspect

largest([First | _] = Looks) ->
    Last = lists:last(Looks),
    maps:from_list([{Attr, [{Pid, Bytes, grown(Pid, Bytes, Attr, First, Looks) ++ sonde_outside_names:attrs(Pid)}
                            || {Bytes, Pid} <- most([{B, Pid} || {Pid, B} <- maps:to_list(map_get(Attr, Last)), B >= ?LARGE])]}
                    || Attr <- [memory, binary_memory]]).

%% What the first look read, but does not remember, was not much.
grown(_, _, _, _, [_]) ->
    [];
grown(Pid, Bytes, Attr, #{unread := #{missed := Missed, unseen := Unseen}} = First, _) ->
    case map_get(Attr, First) of
        #{Pid := Before} -> [{grown, Bytes - Before}];
        #{} -> [{grown_over, Bytes - ?MUCH} || Unseen =:= 0, not lists:keymember(Pid, 1, Missed)]
    end.

most(Rows) -> lists:sublist(lists:reverse(lists:sort(Rows)), ?LARGEST).

near_limit(Count, Limit, _) when Count < ?NEAR * Limit ->
    [];
near_limit(Count, Limit, #{bytes := Bytes}) ->
    [suspect(processes, node, Bytes, Count / Limit, [{count, Count}, {limit, Limit}],
             {sonde, proc_group, [initial_call, memory]}, end_processes)].

suspect(Kind, What, Bytes, Share, Evidence, See, Remedy) ->
    #{kind => Kind, what => What, bytes => Bytes, share => min(1.0, float(Share)), evidence => Evidence, see => See,
      remedy => Remedy}.

named(Pid) ->
    {Name, Call, _} = sonde_outside_names:who(Pid),
    [{registered_name, Name} || Name =/= undefined] ++ [{initial_call, Call} || Call =/= undefined].
