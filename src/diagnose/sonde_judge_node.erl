%% @private
%% What is wrong with the node itself: limits that are near, memory that belongs to no process and
%% no table, and settings that hurt. For `sonde_judge'.
-module(sonde_judge_node).

-export([find/2]).

-import(sonde_series, [grown/2, looks/2, is_rising/4, rate/2, elapsed/1, never_rests/1, stays/2]).

-define(CROWD, 50).           % processes
-define(NEAR, 0.8).           % of a limit
-define(DAYS, 30).            % a limit that is not reached within this time is far away
-define(DAY_MS, 86400000).
-define(QUEUED, 4096).        % bytes; a port stays busy while it has more to send, unless its watermark was set
-define(STALLED_MS, 2000).    % in which a connection takes nothing, or the peer of a port not all that waits
-define(UNUSED_PART, 4).      % one part in so many of the allocated memory
-define(APART_MS, 250).       % between two looks at persistent terms
-define(OUTSIDE, 268435456).  % bytes; what malloc keeps, the VM's code and its threads' stacks are not counted
-define(PROCESSES, 1048576).  % the VM's default limits; that of processes from OTP 27 on
-define(PORTS, 65536).
-define(TIMER, 152).          % bytes of a timer, on OTP 25 to 29
-define(UNUSED, 32000000).    % bytes, that a small node has anyway

%% @doc The suspects, without their share of the node's memory.
-spec find(sonde_facts:facts(), sonde_judge:node_facts()) -> [map()].
find(Facts, Node) ->
    lists:append([limits(Facts), memory(Facts, Node), kept_terms(Facts, Node), timers(Facts, Node),
                  queues(Facts, Node), connections(Facts), log_queues(Facts), settings(Facts, Node),
                  waits(Facts)]).

%% ---- limits

limits(#{moments := Moments, limits := Limits, owners := Owners, connected := Connected, again := Again}) ->
    #{memory := Memory} = lists:last(Moments),
    Kinds = [{processes, ?CROWD, 0, end_processes,
              {sonde, proc_group, [initial_call, [memory]]}, []},
             {ports, 20, 0, close_ports, {sonde, port_types, []}, [{most, Connected}]},
             {atoms, 20, maps:get(atom, Memory), list_to_existing_atom,
              {erlang, system_info, [atom_count]}, []},
             {tables, 20, 0, delete_tables, {sonde, ets_count, [memory, 5]}, [{most, Owners}]}],
    [#{kind => limit_kind(What), what => node, bytes => Bytes, share => Count / Limit,
       evidence => [{count, Count}, {limit, Limit}, {grown, grown(What, Moments)},
                    {per_second, rate(What, Moments)} | More],
       see => See, remedy => Remedy}
     || {What, Few, Bytes, Remedy, See, More} <- Kinds,
        #{What := Limit} <- [Limits], #{What := Count} <- [lists:last(Moments)],
        Count >= ?NEAR * Limit orelse What =/= processes andalso nears(What, Few, Limit, Moments, Again)].

limit_kind(tables) -> ets_tables;
limit_kind(What) -> What.

%% It rises in each step, and would reach the limit soon.
nears(What, Few, Limit, Moments, Again) ->
    is_rising(What, Moments, Few, Again) andalso
        (Limit - maps:get(What, lists:last(Moments))) * 1000 div max(1, rate(What, Moments))
            < ?DAYS * ?DAY_MS.

%% ---- memory that belongs to no process and no table

memory(#{moments := Moments, rss := Rss, mapped := Mapped}, Node) ->
    [Found || Found <- [fragmentation(Moments, Node), outside(Rss, Mapped, lists:last(Moments))],
              is_map(Found)].

%% Most of one allocator's carriers are unused at all times since the first moment: what is in use at
%% times is not fragmented, and a little of each allocator is unused on any node.
fragmentation([_ | [_ | _] = Moments], #{least := Least}) ->
    #{allocated := Taken, used := Used, unused := Last} = lists:last(Moments),
    {Unused, Allocator, Carriers} =
        lists:max([{0, none, 0} | [{Bytes, A, All} || {A, _, All} <- Last,
                                                      Bytes <- [least_unused(A, Moments)],
                                                      2 * Bytes > All]]),
    Unused > ?UNUSED + Least andalso Unused * ?UNUSED_PART > Taken andalso
        #{kind => fragmentation, what => node, bytes => Unused,
          evidence => [{allocator, Allocator}, {carriers, Carriers}, {allocated, Taken},
                       {used, Used}],
          see => {sonde_alloc, fragmentation, [current]}, remedy => allocator_settings};
fragmentation(_, _) ->
    false.

least_unused(Allocator, Moments) ->
    lists:min([Bytes || #{unused := Unused} <- Moments, {A, Bytes, _} <- Unused, A =:= Allocator]).

%% Memory that the operating system counts, and the VM does not: neither in its allocators, nor among the freed
%% segments that it keeps. If an allocator is off, the VM itself allocates outside of its allocators.
outside(Rss, Mapped, #{allocated := Allocated, memory := #{total := _}}) when is_integer(Rss) ->
    Outside = Rss - max(Allocated, Mapped),
    Outside > ?OUTSIDE andalso Outside * 4 > Rss andalso
        #{kind => outside, what => node, bytes => Outside,
          evidence => [{resident, Rss}, {mapped, Mapped}, {allocated, Allocated}],
          see => {sonde_alloc, memory, [allocated_types]}, remedy => native_library};
outside(_, _, _) ->
    false.

%% ---- persistent terms, timers, queues

%% Each key stays until it is erased. If the number of keys stays the same, values were replaced, and no
%% key can be erased that was not needed before. A value that is set for the first time also adds to the
%% bytes, but not in every step of two looks.
kept_terms(#{moments := Moments}, #{grown := Least, again := Again}) ->
    #{persistent := Bytes, persistent_terms := Count} = lists:last(Moments),
    [#{kind => Kind, what => node, bytes => Bytes,
       evidence => [{count, Count}, {bytes_grown, grown(persistent, Moments)},
                    {bytes_per_second, rate(persistent, Moments)}],
       see => {persistent_term, info, []}, remedy => Remedy}
     || is_rising(persistent, Moments, Least, Again),
        {Kind, Remedy} <- case is_rising(persistent_terms, Moments, 1, Again) of
                              true -> [{persistent_terms, erase_terms}];
                              false -> [{persistent_values, bound_values} || swell(Moments, Again)]
                          end].

%% A value that is replaced a few times a second is the same at two looks that are close.
swell(Moments, Again) ->
    Some = apart(Moments),
    {First, Second} = looks(Some, Again),
    length(lists:usort([Count || #{persistent_terms := Count} <- Moments])) =:= 1
        andalso length(First) >= 6 andalso length(Second) >= 3
        andalso never_rests([Bytes || #{persistent := Bytes} <- Some]).

apart([#{at := At} = Moment | Later]) ->
    [Moment | apart(lists:dropwhile(fun(#{at := Next}) -> Next - At < ?APART_MS end, Later))];
apart([]) ->
    [].

%% Many more timers start than end. Timers that start again when they end are as many at all times, but
%% for the few that a scheduler frees later, so a little growth in each step means nothing.
timers(#{moments := Moments}, #{grown := Least, again := Again}) ->
    [#{kind => timers, what => node, bytes => Bytes,
       evidence => [{timers, Bytes div ?TIMER}, {grown, grown(timers, Known) div ?TIMER},
                    {per_second, rate(timers, Known) div ?TIMER}],
       see => {sonde_trace, calls, [[{erlang, send_after, '_'}, {erlang, start_timer, '_'}], 10]},
       remedy => cancel_started}
     || [_, _ | _] = Known <- [[M || #{timers := _} = M <- Moments]],
        #{timers := Bytes} <- [lists:last(Known)], is_rising(timers, Known, Least, Again)].

%% A handler with a longer queue than its own limit each time: it takes the events too slowly, or waits
%% for its device. One that waits, and leaves its oldest event where it is, waits for its device: after five
%% seconds it gives the event up, and drops others, so that its queue need not be long.
log_queues(#{ms := Ms, loggers := Loggers, processes := Processes}) ->
    [#{kind => log_queue, what => Pid, bytes => 0,
       evidence => [{handler, Handler}, {messages, lists:last(Lengths)}, {limit, Limit}]
           ++ [{oldest_stayed_ms, elapsed(Samples)} || stays(oldest, Samples)]
           ++ [{current_function, proplists:get_value(current_function, Attrs)}],
       see => {sonde, info, [Pid, location]}, remedy => log_less}
     || Ms >= ?STALLED_MS, {Handler, Pid, Limit} <- Loggers,
        #{pid := P, attrs := Attrs, samples := Samples} <- Processes, P =:= Pid,
        [_, _, _, _ | _] = Lengths <- [[Length || #{message_queue_len := Length} <- Samples]],
        lists:min(Lengths) >= Limit orelse stays(oldest, Samples)].

%% A port that had as much to send at the start as at the end, and would take more than two seconds to send that, as
%% its peer took so little meanwhile. A peer that keeps up took all of it, and the port has other data now.
queues(#{queues := Queues}, #{least := Least}) ->
    [#{kind => port_queue, what => Owner, bytes => min(First, Last),
       evidence => [{port, Port}, {queued, Last}, {bytes_grown, Last - First}, {taken, Taken} | More],
       see => {sonde, port_info, [Port]}, remedy => slow_peer}
     || {Port, Owner, First, Last, {Taken, Ms}, More} <- Queues, min(First, Last) >= Least,
        min(First, Last) * Ms > Taken * ?STALLED_MS].

%% A connection to another node that had something to send all the time, and the other node took none of
%% it: the senders are suspended, or soon will be. The other end of a slow connection takes some, and a
%% busy node may take nothing for a second. Who is suspended may wait for something else, so that number
%% is evidence, and no measure.
connections(#{ms := Ms, connections := Connections, crowd := #{suspended := Suspended}}) ->
    [#{kind => busy_connection, what => node, bytes => 0, share => 1 / length(Connections),
       evidence => [{to, Node}, {port, Port}, {queued, Last}, {taken, 0}]
           ++ [{suspended, Suspended} || is_integer(Suspended), Suspended > 0],
       see => {sonde, port_info, [Port]}, remedy => disconnect}
     || Ms >= ?STALLED_MS,
        #{node := Node, port := Port, queued := {First, Last}, taken := 0} <- Connections,
        min(First, Last) >= ?QUEUED].

%% ---- settings

settings(#{settings := #{fullsweep_after := After} = Settings} = Facts, Node) ->
    [#{kind => settings, what => node, bytes => 0, evidence => [{fullsweep_after, 0}],
       see => {erlang, system_info, [fullsweep_after]}, remedy => generations} || After =:= 0]
        ++ tables(Settings, Facts, Node).

%% A table has an entry for each process or port that there may be. The default one would have room for
%% twice as many as there are.
tables(Settings, #{limits := Limits, moments := Moments}, #{least := Least}) ->
    [#{kind => settings, what => node, bytes => Bytes, frees => Frees,
       evidence => [{Table, Bytes}, {Item, Limit}, {What, Count}],
       see => {erlang, system_info, [Item]}, remedy => Remedy}
     || {What, Item, Table, Default, Remedy}
            <- [{processes, process_limit, process_table, ?PROCESSES, smaller_process_table},
                {ports, port_limit, port_table, ?PORTS, smaller_port_table}],
        #{Table := Bytes} <- [Settings], #{What := Limit} <- [Limits],
        #{What := Count} <- [lists:last(Moments)],
        Frees <- [Bytes - Bytes * min(Default, Limit) div Limit],
        2 * Count =< Default, Frees >= Least].

%% ---- processes that make others wait

%% A circle, or a process that leaves its requests unread while callers wait for the same answer all
%% the time. If it read the requests, it may answer later, as a queue answers its consumers.
waits(#{waits := Waits}) ->
    [Found || Wait <- Waits, Found <- [deadlock(Wait), bottleneck(Wait)], is_map(Found)].

deadlock(#{stays := true, circle := Circle} = Wait) ->
    held_up(Wait, deadlock, break_circle, [{deadlock, Circle}]);
deadlock(_) ->
    false.

bottleneck(#{circle := undefined, direct := Direct, queued := {First, Last}, some := Some, stuck := Stuck,
             next := Next} = Wait) ->
    4 * length(Stuck) >= Some andalso 2 * min(First, Last) >= Direct andalso
        held_up(Wait, bottleneck, unblock, [{messages, Last}, {waits_for, Next}]);
bottleneck(_) ->
    false.

held_up(#{pid := Pid, names := Names, waiters := N, direct := Direct, processes := All}, Kind, Remedy, More) ->
    #{kind => Kind, what => Pid, bytes => 0, share => min(1.0, N / All),
      evidence => [{waiters, N}, {direct, Direct}] ++ More
          ++ [{registered_name, Name} || Name <- Names],
      see => {sonde, waits, [5]}, remedy => Remedy}.
