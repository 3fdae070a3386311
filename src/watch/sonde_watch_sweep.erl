%% @private
%% The watcher's sample of the node, in a process of its own: one sweep over the processes, the
%% largest tables, the node's totals, and as many heaps as there is time for. If so configured, it
%% also collects the processes that hold the most garbage.
-module(sonde_watch_sweep).

-export([take/1]).
-export_type([ask/0, report/0]).

%% `looked': when a heap was read last, in milliseconds of monotonic time; `look_ms': the time for
%% all heaps together; `collect': the processes with more garbage than `Bytes', at most `Most'.
-type ask() :: #{top := non_neg_integer(), min_bytes := non_neg_integer(), pids := [pid()],
                 tables := [ets:table()], looked := #{pid() => integer()},
                 look_ms := non_neg_integer(),
                 collect := none | {Bytes :: non_neg_integer(), Most :: non_neg_integer()}}.
-type report() :: #{sample := sonde_watch_core:sample(), looked := #{pid() => integer()},
                    look_ms := non_neg_integer(), took_ms := non_neg_integer(),
                    collected := [collected()] | {native_off, term()}}.
-type collected() :: #{pid := pid(), garbage := non_neg_integer(), freed := non_neg_integer(),
                       attrs := sonde_attr:attrs()}.

-define(AGAIN_MS, 300000).    % until the same heap is read again
-define(PATIENCE_US, 500).     % for each try to read a busy process: a sweep has a budget
-define(COLLECT_MS, 5000).    % for a process to collect

-spec take(ask()) -> report().
take(#{collect := Collect} = Ask) ->
    %% The proof, at the first call on a node, does not count as part of a sweep.
    _ = sonde_vm:side(),
    Start = now_ms(),
    {Sample, Looked} = sample(Start, Ask),
    Looks = now_ms(),
    Collected = collect(Collect),
    End = now_ms(),
    {LookMs, Rest} = maps:take(ms, Looked),
    #{sample => Sample, looked => Rest, look_ms => LookMs, collected => Collected,
      took_ms => End - Start - min(LookMs, Looks - Start)}.

now_ms() -> erlang:monotonic_time(millisecond).

started_ms() -> erlang:convert_time_unit(erlang:system_info(start_time), native, millisecond).

sample(At, #{top := Top, pids := Pids, tables := Tables} = Ask) ->
    Attrs = attrs(sonde_vm:side()),
    Counted = sonde_proc_count:counts(Attrs, Top, #{self => false, threads => 1}),
    Named = maps:from_list([{Pid, Names} || {_, Rows} <- Counted, {Pid, _, Names} <- Rows]),
    Sizes = [{Pid, bytes(Pid, Attrs)} || Pid <- lists:usort(maps:keys(Named) ++ Pids)],
    Largest = sonde_largest:to_list(
                lists:foldl(fun sonde_largest:add/2, sonde_largest:new(Top),
                            [{Bytes, Tab} || Tab <- ets:all(), Bytes <- [sonde_ets:bytes(Tab)],
                                             is_integer(Bytes)])),
    Others = Tables -- [Tab || {_, Tab} <- Largest],
    Rows = lists:append([table(Tab, Bytes)
                         || {Bytes, Tab} <- Largest ++ [{sonde_ets:bytes(Tab), Tab} || Tab <- Others]]),
    {Processes, Looked} = look([{Pid, Bytes, maps:get(Pid, Named, [])}
                                || {Pid, Bytes} <- Sizes, is_integer(Bytes)], Ask),
    {#{at => At - started_ms(), time => erlang:system_time(millisecond),
       reductions => element(1, erlang:statistics(reductions)),
       run_queue => erlang:statistics(run_queue),
       memory => memory(), counts => counts(), processes => Processes, tables => Rows,
       top => Counted,
       gone => [{process, Pid} || {Pid, undefined} <- Sizes]
           ++ [{table, Tab} || Tab <- Others, sonde_ets:bytes(Tab) =:= undefined]},
     Looked}.

%% On the portable path, reading `binary_memory' copies the list of a process's binaries.
attrs(native) -> [memory, binary_memory, message_queue_len];
attrs(_) -> [memory, message_queue_len].

bytes(Pid, Attrs) ->
    case sonde_every_process:one(Pid, lists:delete(message_queue_len, Attrs)) of
        {ok, Values} -> lists:sum(Values);
        undefined -> undefined
    end.

table(Tab, Bytes) ->
    case sonde_ets:row(Tab) of
        [{Tab, _, Attrs}] when is_integer(Bytes) -> [{Tab, Bytes, Attrs}];
        _ -> []
    end.

%% If some allocators are off, not all kinds are known.
memory() ->
    Memory = sonde_memory:read(),
    [{Kind, Bytes} || Kind <- [processes, binary, ets, atom, code],
                      {K, Bytes} <- Memory, K =:= Kind] ++ other(maps:from_list(Memory)).

other(#{system := System, atom := Atom, binary := Binary, code := Code, ets := Ets}) ->
    [{other, max(0, System - Atom - Binary - Code - Ets)}];
other(_) ->
    [].

counts() ->
    [{processes, erlang:system_info(process_count), erlang:system_info(process_limit)},
     {ports, erlang:system_info(port_count), erlang:system_info(port_limit)},
     {atoms, erlang:system_info(atom_count), erlang:system_info(atom_limit)},
     {ets_tables, erlang:system_info(ets_count), undefined}].

%% ---- heaps: those that are overdue the longest first

look(Processes, #{looked := Looked, min_bytes := Least, pids := Pids, look_ms := Ms}) ->
    Now = now_ms(),
    Followed = maps:from_keys(Pids, []),
    {Due, Rest} = lists:partition(fun({Pid, Bytes, _}) ->
                                          (Bytes >= Least orelse is_map_key(Pid, Followed))
                                              andalso Now - maps:get(Pid, Looked, Now - ?AGAIN_MS)
                                                  >= ?AGAIN_MS
                                  end, Processes),
    Order = lists:keysort(1, [{maps:get(Pid, Looked, Now - 2 * ?AGAIN_MS), Process}
                              || {Pid, _, _} = Process <- Due]),
    Read = heaps([Process || {_, Process} <- Order], Now + Ms),
    Seen = [Pid || {Pid, _, Live, _} <- Read, Live =/= later],
    Known = maps:with([Pid || {Pid, _, _} <- Processes], Looked),
    {Read ++ [{Pid, Bytes, later(), Attrs} || {Pid, Bytes, Attrs} <- Rest],
     (maps:merge(Known, maps:from_keys(Seen, Now)))#{ms => now_ms() - Now}}.

later() ->
    case sonde_vm:side() of
        native -> later;
        _ -> unknown
    end.

heaps([{Pid, Bytes, Attrs} | Rest], Until) ->
    case Until - now_ms() of
        Left when Left > 0 -> [{Pid, Bytes, live(Pid, Left), Attrs} | heaps(Rest, Until)];
        _ -> [{P, B, later(), A} || {P, B, A} <- [{Pid, Bytes, Attrs} | Rest]]
    end;
heaps([], _) ->
    [].

live(Pid, Ms) ->
    case sonde_heap_map:heap(Pid, #{timeout => Ms}) of
        #{reachable := Bytes, binaries := #{live := Binaries}} -> Bytes + Binaries;
        _ -> unknown
    end.

%% ---- collecting

collect(none) ->
    [];
collect({_, 0}) ->
    [];
collect({Bound, Most}) ->
    case sonde_vm:side() of
        native ->
            Read = (sonde_opts:read(#{threads => 1}, sonde_scan:options()))#{patience_us => ?PATIENCE_US},
            {Counted, _} = sonde_garbage:most([garbage_bytes, bin_garbage_bytes], Most, Read),
            Rows = lists:append([Rows || {_, Rows} <- Counted]),
            Sums = lists:foldl(fun({Pid, Bytes, Attrs}, Sums) ->
                                       {Sum, _} = maps:get(Pid, Sums, {0, []}),
                                       Sums#{Pid => {Sum + Bytes, Attrs}}
                               end, #{}, Rows),
            Worst = lists:sublist(lists:reverse(lists:sort([{Garbage, Pid, Attrs}
                                                            || {Pid, {Garbage, Attrs}}
                                                                   <- maps:to_list(Sums),
                                                               Garbage > Bound])), Most),
            lists:append([collect_one(Row) || Row <- Worst]);
        {portable, Why} ->
            {native_off, Why}
    end.

%% A process that does not collect in time does so later, and has no row.
collect_one({Garbage, Pid, Attrs}) ->
    Before = bytes(Pid, attrs(native)),
    Ref = make_ref(),
    async = garbage_collect(Pid, [{async, Ref}]),
    receive
        {garbage_collect, Ref, true} ->
            case bytes(Pid, attrs(native)) of
                After when is_integer(After), is_integer(Before) ->
                    [#{pid => Pid, garbage => Garbage, freed => max(0, Before - After),
                       attrs => Attrs}];
                _ ->
                    []
            end;
        {garbage_collect, Ref, false} ->
            []
    after ?COLLECT_MS ->
        []
    end.
