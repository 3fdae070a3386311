%% @private
%% What a diagnosis is made from: the node, at several moments of a short time. It judges nothing;
%% `sonde_judge' does. All in a helper of ours, and nothing is collected or suspended.
-module(sonde_facts).

-export([take/2, longest/1, interval/1]).
-export_type([facts/0, moment/0, because/0]).

%% Why a part of the node was not looked at, or not all of it.
-type because() :: {native_off, term()} | no_proc | not_reported | {allocators_off, [atom(), ...]}
                 | {left_out, pos_integer()}
                 | {left_out, pos_integer(), Some :: sonde_scan:missed()}
                 | {sampled, pos_integer()}.
-type moment() :: #{at := integer(), memory := #{atom() => non_neg_integer()},
                    size := non_neg_integer(),
                    persistent := non_neg_integer(), persistent_terms := non_neg_integer(),
                    allocated := non_neg_integer(), used := non_neg_integer(),
                    unused := [{atom(), non_neg_integer(), non_neg_integer()}],
                    processes := non_neg_integer(),
                    ports := non_neg_integer(), atoms := non_neg_integer(),
                    tables := non_neg_integer(), timers => non_neg_integer()}.
%% `memory' has the kinds that are known; `unused' is what no block took since the moment before,
%% and the carriers, of each allocator;
%% `size' is the total on which shares of the node are based; `timers' are the bytes of timers of
%% `erlang:send_after/3' and the like, where they are known.
%% `up': how many milliseconds ago the node started.
%% `moments', and the samples of each process and table, are in the order of time. Those from `again' on
%% are of the second look.
-type facts() ::
        #{ms := pos_integer(), up := non_neg_integer(), moments := [moment(), ...], again := sonde_series:again(),
          limits := #{processes | ports | atoms | tables := pos_integer()},
          by_allocator := [{atom(), non_neg_integer()}],
          rss := non_neg_integer() | undefined, mapped | kept := non_neg_integer(),
          processes := [sonde_facts_procs:process()], crowd := sonde_facts_sample:crowd(),
          tables := [sonde_facts_tables:table()], owners := [sonde_facts_tables:owner()],
          connected := [{pid(), pos_integer()}],
          queues := [sonde_facts_ports:queue()], connections := [sonde_facts_ports:connection()],
          waits := [sonde_facts_waits:wait()],
          loggers := [sonde_facts_procs:logger()],
          settings := #{fullsweep_after | process_table | port_table := non_neg_integer()},
          not_looked_at := [{atom(), because()}]}.

%% The times of the samples, in parts of the interval. They are uneven, so that a value that goes up
%% and down periodically is not met in the same state each time.
-define(WHEN, [0.0, 0.13, 0.29, 0.43, 0.61, 0.83, 1.0]).
%% If something grows, there is a second look, for another half of the interval. If a process keeps garbage
%% and makes no full collection, the second look is four times as long, but at most four seconds for this alone:
%% a process that works every few seconds and rests in between collects then.
-define(LATER, [0.0, 0.06, 0.14, 0.21, 0.31, 0.38, 0.5]).
-define(LONGER, 4).
-define(RESTS_MS, 4000).
-define(GROWERS, 50).

%% @doc Runs in a helper; `Caller' is the handle from {@link sonde_helper:call/1}.
-spec take(pos_integer(), reference()) -> facts().
take(Ms, Caller) ->
    Side = sonde_vm:side(),
    ok = load(),
    Loggers = sonde_facts_procs:loggers(),
    {Procs, Unread} = sonde_facts_procs:first(Side, [Pid || {_, Pid, _} <- Loggers]),
    Crowd = sonde_facts_sample:first(Side, Caller),
    Tables = sonde_facts_tables:first(),
    {Queues, Unasked} = sonde_facts_ports:first(),
    {Nodes, Unheard} = sonde_facts_ports:nodes_first(),
    {Waits, Unfollowed} = sonde_facts_waits:first(Side),
    Start = now_ms(),
    Grown = fun(For) -> sonde_proc_count:window(memory, ?GROWERS, For, #{self => true}) end,
    Window = sonde_helper:job(Grown, Ms),
    How = #{start => Start, ms => Ms, caller => Caller, side => Side},
    State = looks(?WHEN, {[], Procs, Tables}, How),
    Growers = receive
                  {'EXIT', Window, {answer, Rows}} -> Rows;
                  {'EXIT', Window, Why} -> exit(Why)
              end,
    {{Moments, Procs1, Tables1}, Again} = again(Growers, State, How#{start := now_ms()}),
    {Tables2, Skipped} = sonde_facts_tables:last(Tables1, lists:last(Moments)),
    {Rss, Mapped, Kept} = taken_from_system(),
    NoRss = [{rss, no_proc} || Rss =:= undefined],
    #{ms => Ms, up => up_ms(), moments => Moments, again => Again, limits => limits(),
      by_allocator => [T || {_, Bytes} = T <- sonde_alloc:memory(allocated_types), Bytes > 0],
      rss => Rss, mapped => Mapped, kept => Kept, processes => sonde_facts_procs:last(Procs1),
      crowd => sonde_facts_sample:last(Crowd, Growers, max(1, (now_ms() - Start) / Ms), Caller), tables => Tables2,
      owners => sonde_facts_tables:owners(), connected => sonde_facts_ports:connected(),
      queues => sonde_facts_ports:last(Queues), connections => sonde_facts_ports:nodes_last(Nodes),
      waits => sonde_facts_waits:last(Waits), loggers => Loggers,
      settings => settings(),
      not_looked_at => Unread ++ sonde_facts_sample:unseen(Crowd)
                           ++ Skipped ++ Unasked ++ Unfollowed ++ Unheard ++ NoRss ++ off()
                           ++ [{timers, not_reported} || not lists:all(fun(M) -> is_map_key(timers, M) end, Moments)]}.

%% What the operating system says, what the VM says, and how much of it no allocator has. On a busy node, segments
%% come and go between two reads.
taken_from_system() ->
    Before = sonde_memory:mapped(),
    Rss = sonde_memory:resident(),
    After = sonde_memory:mapped(),
    {Rss, max(Before, After), max(0, After - trunc(sonde_alloc:memory(allocated)))}.

%% @doc The milliseconds of both looks together, at most.
-spec longest(pos_integer()) -> pos_integer().
longest(Ms) -> Ms + max(Ms div 2, min(?LONGER * Ms div 2, ?RESTS_MS)).

%% @doc The interval of which both looks take so many milliseconds, at most.
-spec interval(non_neg_integer()) -> non_neg_integer().
interval(Both) -> max(2 * Both div (?LONGER + 2), min(2 * Both div 3, Both - ?RESTS_MS)).

%% Modules that are loaded during the diagnosis would count as growth of code and atoms, and so
%% would the VM's names of its allocators, which it makes at the first call for them.
load() ->
    Ours = [sonde_proc_count, sonde_every_process, sonde_group, sonde_look, sonde_progress, sonde_heap_map,
            sonde_garbage, sonde_scan, sonde_alloc, sonde_ets, sonde_lib, sonde_origin,
            sonde_memory, sonde_facts_procs, sonde_facts_collections, sonde_facts_sample,
            sonde_facts_tables, sonde_facts_ports, sonde_facts_waits, sonde_waits, sonde_wait_graph,
            sonde_judge, sonde_judge_node, sonde_series],
    Once = case sonde_remote_name:is_lent() of true -> []; false -> Ours end,
    _ = [{module, M} = code:ensure_loaded(M) || M <- [timer | Once]],
    _ = moment(),
    ok.

%% ---- moments

%% All times are counted from the first moment.
looks([First | When], State, How) ->
    Begun = look(First, State, How),
    #{at := At} = hd(element(1, Begun)),
    lists:foldl(fun(Part, Before) -> look(Part, Before, How#{start := At}) end, Begun, When).

look(Part, {Moments, Procs0, Tables}, #{start := Start, ms := Ms} = How) ->
    Procs = sonde_facts_procs:watch(Procs0, Start + round(Part * Ms), How),
    {Moments ++ [moment()], sonde_facts_procs:next(Procs, How), sonde_facts_tables:next(Tables)}.

%% Does growth go on? Processes that the first sweep did not select are looked at now.
again(Growers, {Moments, Procs0, Tables} = State, #{start := Again, ms := Ms} = How) ->
    Procs = sonde_facts_procs:more(Growers, Procs0),
    Grows = Procs =/= Procs0 orelse sonde_facts_procs:grows(Procs) orelse sonde_facts_tables:grows(Tables)
        orelse grows(Moments),
    case max(case Grows of true -> 1; false -> 0 end,
             case sonde_facts_procs:keeps_garbage(Procs) of
                 true -> min(?LONGER, 2 * ?RESTS_MS / Ms);
                 false -> 0
             end)
    of
        0 ->
            {State, none};
        Times ->
            {Later, Procs1, Tables1} = looks([Times * Part || Part <- ?LATER], {[], Procs, Tables}, How),
            {{Moments ++ Later, Procs1, Tables1}, Again}
    end.

grows(Moments) ->
    lists:any(fun(Key) -> sonde_series:is_rising(Key, Moments, 1, none) end,
              [persistent, timers, processes, ports, atoms, tables]).

moment() ->
    Counts = counted([process_count, port_count, atom_count, ets_count]),
    At = now_ms(),
    Unused = sonde_memory:unused(), % before others ask the allocators
    Memory = maps:from_list(sonde_memory:read()),
    #{count := Terms, memory := Kept} = persistent_term:info(),
    Timers = maps:from_list([{timers, Bytes} || Bytes <- [sonde_memory:timers()], is_integer(Bytes)]),
    (maps:merge(Counts, Timers))#{
            at => At, persistent => Kept, persistent_terms => Terms, memory => Memory,
            size => case Memory of #{total := Total} -> Total; _ -> sonde_memory:total() end,
            unused => Unused, allocated => sonde_alloc:memory(allocated),
            used => sonde_alloc:memory(used)}.

%% `statistics(wall_clock)' would restart the interval that other callers see.
up_ms() ->
    erlang:convert_time_unit(erlang:monotonic_time() - erlang:system_info(start_time), native, millisecond).

now_ms() ->
    erlang:monotonic_time(millisecond).

limits() ->
    counted([process_limit, port_limit, atom_limit, ets_limit]).

counted(Items) ->
    maps:from_list(lists:zip([processes, ports, atoms, tables],
                             [erlang:system_info(Item) || Item <- Items])).

%% ---- the node

%% The bytes of the VM's tables of processes and ports, which do not depend on how many there are.
settings() ->
    Areas = erlang:system_info(allocated_areas),
    maps:from_list([erlang:system_info(fullsweep_after)
                    | [lists:keyfind(Table, 1, Areas) || Table <- [process_table, port_table]]]).

%% If an allocator is off, the VM has no totals.
off() ->
    [{memory, {allocators_off, Off}} || [_ | _] = Off <- [sonde_memory:off()]].
