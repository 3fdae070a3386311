%% @private
%% The processes that a diagnosis looks at: those with the most of any attribute at first, and those
%% that grow most, each with a series of samples. The heaps of the few with the most memory are
%% read.
-module(sonde_facts_procs).

-export([loggers/0, first/2, watch/3, next/2, more/2, grows/1, keeps_garbage/1, held/1, last/1]).
-export_type([process/0, sample/0, procs/0, heap/0, logger/0]).

%% In bytes, except for the counts. `used': its terms in its heap blocks, garbage included. `size':
%% `used' with messages outside of the heap and the binaries that it refers to. `collections': its
%% number of minor collections, and sizes that change with most of the others. `heap_limit': the most
%% that `total_heap' and `counted' may become together before the VM ends the process; `counted': the
%% bytes of binaries that the limit includes. `young' and `old': its terms in each
%% generation, and the binaries that it counts there; `room': what still fits before the next
%% collection, in the young generation a minor one, in the old one a full one. `heap' is there if the
%% heap was read.
-type sample() ::
        #{at := integer(), size := non_neg_integer(), memory := non_neg_integer(),
          used := non_neg_integer(), collections := {non_neg_integer(), term()},
          total_heap | counted := non_neg_integer(), heap_limit := pos_integer() | none,
          young := generation(), old := generation(), fullsweep_after := non_neg_integer(),
          binary_memory := non_neg_integer(),
          stack_size := non_neg_integer(), status := atom(), reductions := non_neg_integer(),
          message_queue_len | link_count | monitor_count | monitored_by_count
          | dictionary_size => non_neg_integer(),
          heap => heap()}.
%% `references': the number of references that the process has.
-type heap() :: #{reachable | garbage | references := non_neg_integer(),
                  literals := non_neg_integer() | undefined,
                  blocks | roots | binaries := #{atom() => non_neg_integer()},
                  content => sensitive, suspended_ms => non_neg_integer()}.
-type generation() :: #{terms | binaries | room | binary_room := non_neg_integer()}.
%% `collected': the collections that were noticed in the interval.
%% `twins': how many of its monitors are for a process that it already monitors, or, if these are more, how many of
%% those on it are by a process of another node that already monitors it. (A process of this node has them among its
%% own.) `unknown': there are too many to list.
-type process() :: #{pid := pid(), attrs := sonde_attr:attrs(), samples := [sample(), ...],
                     twins := non_neg_integer() | unknown,
                     collected := sonde_facts_collections:count(),
                     waste := #{garbage_bytes | bin_garbage | bin_garbage_bytes | bin_waste
                                | binary_exclusive => non_neg_integer()}}.
%% `tried': how often the heap of a process was looked at, with success or without.
-opaque procs() :: #{waste := #{pid() => map()}, series := #{pid() => [sample()]},
                     tried := #{pid() => pos_integer()},
                     seen := sonde_facts_collections:seen()}.

%% A handler of `logger', its process, and the length of its queue from which it drops events.
%% `logger_proxy' is no handler: it passes on the events of other nodes.
-type logger() :: {logger:handler_id() | logger_proxy, pid(), pos_integer()}.

-define(TOP, 15).             % of each attribute
-define(HEAPS, 10).           % of each attribute that needs heaps to be marked
-define(HEAPS_MS, 5000).      % for all heaps of the node
-define(LOOK_MS, 300).        % for one heap
-define(MANY_LOOKS, 20).
-define(LOOKS_PART, 7).       % all heaps of one moment take at most this part of the interval
-define(LOOK_WORDS, 40000000).
-define(GARBAGE, 1000000).    % bytes; processes with less are not watched for collections
-define(WATCHES, 1000).       % reads of each such process in the interval
-define(SMALL, 262144).       % bytes; the heap of a smaller process is not read,
-define(FLOOR, 50).           % nor of one below this part of the node's memory, if it does not grow
-define(ANSWER_MS, 300).      % for all processes of one moment
-define(MOST_TIES, 500000).   % a longer list of monitors is not read
-define(FEW_TIES, 1000).

%% The attributes to rank by. Only the native path reads the size of a dictionary without a copy.
attrs(native) -> [dictionary_size | attrs(portable)];
attrs(_) -> [memory, total_heap_size, stack_size, message_queue_len, reductions, binary_memory,
             link_count, monitor_count, monitored_by_count].

%% @doc The handlers that have a process with a limit, as those of OTP do, and the proxy. The name of a
%% handler's process is made of the module and the name of the handler.
-spec loggers() -> [logger()].
loggers() ->
    [{Id, Pid, Limit} || {Id, Name, #{drop_mode_qlen := Limit}} <- [proxy() | handlers()],
                         Pid <- [whereis(Name)], is_pid(Pid)].

proxy() -> {logger_proxy, logger_proxy, logger:get_proxy_config()}.

handlers() ->
    [{Id, Name, Config} || Id <- logger:get_handler_ids(),
                           {ok, #{module := Module, config := Config}} <- [logger:get_handler_config(Id)],
                           Name <- known_atom([Module, "_", Id])].

%% The atom, if there is one.
known_atom(Parts) ->
    try [list_to_existing_atom(lists:concat(Parts))]
    catch error:badarg -> []
    end.

%% @doc One sweep over the cheap attributes, and on the native path one over all heaps. The processes
%% `Also' are looked at in any case.
-spec first(native | {portable, term()}, [pid()]) -> {procs(), [{atom(), sonde_facts:because()}]}.
first(Side, Also) ->
    {Waste, Unread} = waste(Side),
    Tops = sonde_proc_count:largest(attrs(Side) -- [total_heap_size], ?TOP),
    Pids = Also ++ maps:keys(Waste) ++ [Pid || Best <- Tops, {Value, Pid} <- Best, Value > 0],
    {#{waste => Waste, series => maps:from_list([{Pid, []} || Pid <- Pids]), tried => #{},
       seen => #{}}, Unread}.

waste({portable, Why}) ->
    {#{}, [{heaps, {native_off, Why}}, {dictionaries, {native_off, Why}}]};
waste(native) ->
    try sonde_garbage:most([garbage_bytes, bin_garbage, bin_garbage_bytes, bin_waste,
                            binary_exclusive], ?HEAPS,
                           sonde_opts:read(#{self => true, timeout => ?HEAPS_MS, report => true},
                                           sonde_scan:options()))
    of
        {ByAttr, #{missed := #{count := Left, pids := Some}}} ->
            {lists:foldl(fun({Pid, Attr, Value}, Acc) ->
                                 maps:update_with(Pid, fun(Of) -> Of#{Attr => Value} end,
                                                  #{Attr => Value}, Acc)
                         end, #{}, [{Pid, Attr, Value} || {Attr, Rows} <- ByAttr,
                                                          {Pid, Value, _} <- Rows, Value > 0]),
             [{heaps, {left_out, Left, Some}} || Left > 0]}
    catch
        error:{native_off, Why} -> waste({portable, Why})
    end.

%% ---- collections

%% @doc Waits until that time, and watches meanwhile which of the processes with garbage collect.
-spec watch(procs(), Until :: integer(), #{ms := pos_integer(), caller := reference(),
                                           side := term(), atom() => term()}) -> procs().
watch(#{waste := Waste, series := Series, seen := Seen} = Procs, Until,
      #{ms := Ms, caller := Caller, side := Side}) ->
    Pids = case Side of
               native -> [Pid || {Pid, Samples} <- maps:to_list(Series),
                                 has_garbage(maps:get(Pid, Waste, #{}), Samples)];
               _ -> []
           end,
    Procs#{seen := sonde_facts_collections:watch(
                     lists:sublist(Pids, ?MANY_LOOKS), Until, max(1, Ms div ?WATCHES),
                     {fun() -> sonde_helper:check_caller(Caller) end, Seen})}.

has_garbage(#{garbage_bytes := Bytes}, _) when Bytes >= ?GARBAGE -> true;
has_garbage(#{bin_garbage_bytes := Bytes}, _) when Bytes >= ?GARBAGE -> true;
has_garbage(_, Samples) ->
    lists:any(fun(#{heap := #{garbage := Terms, binaries := #{garbage := Bytes}}}) ->
                      Terms + Bytes >= ?GARBAGE;
                 (_) ->
                      false
              end, Samples).

%% @doc Another sample of each. A process that is dead, or does not answer soon, has no sample of
%% this moment.
-spec next(procs(), #{ms := pos_integer(), caller := reference(), side := term(),
                      atom() => term()}) -> procs().
next(#{waste := Waste, series := Series, tried := Tried} = Procs, #{ms := Ms, caller := Caller, side := Side}) ->
    Now = sonde_helper:jobs(fun(Pid) -> sonde_helper:job(fun(P) -> sample(P, Side) end, Pid) end,
                            fun(Pid, Answer, Acc) -> [{Pid, Answer} || is_map(Answer)] ++ Acc end,
                            [], maps:keys(Series),
                            #{in_flight => 10, caller => Caller,
                              until => erlang:monotonic_time(millisecond) + ?ANSWER_MS}),
    {Looked, Looks} =
        case Side of
            native -> look_into(Now, Waste, Series, Tried, erlang:monotonic_time(millisecond)
                                                           + Ms div ?LOOKS_PART);
            _ -> {Now, Tried}
        end,
    Procs#{tried := Looks,
           series := lists:foldl(fun({Pid, Sample}, Acc) ->
                                         maps:update_with(Pid, fun(Of) -> Of ++ [Sample] end, Acc)
                                 end, Series, Looked)}.

sample(Pid, Side) ->
    Attrs = attrs(Side),
    Asked = process_info(Pid, [status, garbage_collection, garbage_collection_info]),
    case Asked =/= undefined andalso sonde_every_process:one(Pid, Attrs) of
        {ok, Values} ->
            maps:merge(oldest(Pid, Side), sample(Asked, maps:from_list(lists:zip(Attrs, Values)), word()));
        _ ->
            dead
    end.

%% A number for the oldest message. No official call reads one message without copying all.
oldest(Pid, native) ->
    maps:from_list([{oldest, N} || N <- [sonde_every_process:read(Pid, oldest_message)], is_integer(N),
                                   N > 0]);
oldest(_, _) ->
    #{}.

sample([{status, Status}, {_, Settings}, {_, Info}],
       #{memory := Memory, total_heap_size := Heap, stack_size := Stack, binary_memory := Binaries}
       = Values, Word) ->
    [Minor, Young, Old, Loose] =
        [proplists:get_value(K, L, 0) || {K, L} <- [{minor_gcs, Settings}, {heap_size, Info},
                                                    {old_heap_size, Info}, {mbuf_size, Info}]],
    Used = (Young + Old + Loose) * Word,
    Bytes = fun(Key) -> proplists:get_value(Key, Info, 0) * Word end,
    Room = fun(Size, Taken) -> max(0, Bytes(Size) - Bytes(Taken)) end,
    %% block sizes change with most of the collections that minor_gcs does not count
    Blocks = [proplists:get_value(K, Info) || K <- [heap_block_size, old_heap_block_size,
                                                    recent_size]],
    {Limit, Counted} = heap_limit(proplists:get_value(max_heap_size, Settings),
                                  Bytes(bin_vheap_size) + Bytes(bin_old_vheap_size), Word),
    (maps:remove(total_heap_size, Values))#{
        at => erlang:monotonic_time(millisecond), status => Status, used => Used,
        stack_size := Stack * Word, collections => {Minor, Blocks},
        young => #{terms => (Young + Loose) * Word, binaries => Bytes(bin_vheap_size),
                   room => max(0, Room(heap_block_size, heap_size) - Stack * Word),
                   binary_room => Room(bin_vheap_block_size, bin_vheap_size)},
        old => #{terms => Old * Word, binaries => Bytes(bin_old_vheap_size),
                 room => Room(old_heap_block_size, old_heap_size),
                 binary_room => Room(bin_old_vheap_block_size, bin_old_vheap_size)},
        total_heap => Heap * Word, counted => Counted, heap_limit => Limit,
        fullsweep_after => proplists:get_value(fullsweep_after, Settings, 0),
        size => Used + Binaries + max(0, Memory - (Heap + Loose) * Word)}.

%% From OTP 26 on, a limit may include binaries.
heap_limit(#{size := Words, kill := true} = Setting, Binaries, Word) when Words > 0 ->
    {Words * Word, case Setting of #{include_shared_binaries := true} -> Binaries; _ -> 0 end};
heap_limit(_, _, _) ->
    {none, 0}.

word() -> erlang:system_info(wordsize).

%% ---- reading heaps

%% Until the time is up, reads the heaps of the largest processes, those that were tried least often
%% first. A running process may be at rest at none of the attempts, so those come last, and no process
%% may take more than half of the time that is left.
look_into(Now, Waste, Series, Tried, Until) ->
    Floor = max(?SMALL, sonde_memory:total() div ?FLOOR),
    Large = [{Size, Pid, Status} || {Pid, #{size := Size, status := Status}} <- Now,
                                    Size >= Floor
                                        orelse wasted(maps:get(Pid, Waste, #{})) >= Floor
                                        orelse gained(Size, map_get(Pid, Series)) >= ?SMALL],
    Chosen = lists:sort([{Status =/= waiting, maps:get(Pid, Tried, 0), -Size, Pid}
                         || {Size, Pid, Status} <- lists:sublist(lists:reverse(lists:sort(Large)),
                                                                 ?MANY_LOOKS)]),
    Answers = [{Pid, heap(Pid, Until - erlang:monotonic_time(millisecond))}
               || {_, _, _, Pid} <- Chosen],
    Heaps = maps:from_list([{Pid, (maps:remove(histogram, Heap))#{references => references(Bars)}}
                            || {Pid, #{garbage := _, histogram := Bars} = Heap} <- Answers]),
    {[case Heaps of
          #{Pid := Heap} -> {Pid, Sample#{heap => Heap}};
          _ -> {Pid, Sample}
      end || {Pid, Sample} <- Now],
     lists:foldl(fun({Pid, Answer}, Acc) when Answer =/= no_time ->
                         maps:update_with(Pid, fun(N) -> N + 1 end, 1, Acc);
                    (_, Acc) ->
                         Acc
                 end, Tried, Answers)}.

references(Bars) -> lists:sum([N || {ref, N, _} <- Bars]).

wasted(Waste) ->
    lists:max([0 | [Bytes || {Attr, Bytes} <- maps:to_list(Waste), Attr =/= bin_garbage]]).

gained(_, []) -> 0;
gained(Size, [#{size := First} | _]) -> Size - First.

heap(Pid, Left) when Left > 0 ->
    sonde_heap_map:heap(Pid, #{max_words => ?LOOK_WORDS, timeout => min(1 + Left div 2, ?LOOK_MS)});
heap(_, _) ->
    no_time.

%% ---- growth

%% @doc Adds the processes of a window's rows that are not in the series yet.
-spec more([sonde_proc_count:row()], procs()) -> procs().
more(Rows, #{series := Series} = Procs) ->
    New = [Pid || {Pid, Gained, _} <- lists:sublist(Rows, ?TOP), Gained >= ?SMALL,
                  not is_map_key(Pid, Series)],
    Procs#{series := maps:merge(maps:from_list([{Pid, []} || Pid <- New]), Series)}.

%% @doc Whether any of them grows, or has more of something, each time.
-spec grows(procs()) -> boolean().
grows(#{series := Series}) ->
    lists:any(fun(Samples) ->
                      sonde_series:rises([held(Heap) || #{heap := Heap} <- Samples], 1)
                          orelse lists:any(fun(Key) -> sonde_series:is_rising(Key, Samples, 1, none) end,
                                           [size, message_queue_len, link_count, monitor_count,
                                            monitored_by_count])
              end, maps:values(Series)).

%% @doc Whether any of them has much garbage in each sample, and no full collection of it was noticed.
-spec keeps_garbage(procs()) -> boolean().
keeps_garbage(#{series := Series, seen := Seen}) ->
    Least = sonde_judge:least(sonde_memory:total()),
    lists:any(fun({Pid, Samples}) ->
                      case [Terms + Bytes || #{heap := #{garbage := Terms, binaries := #{garbage := Bytes}}} <- Samples] of
                          [_, _ | _] = Garbage ->
                              lists:min(Garbage) >= Least
                                  andalso map_get(full, sonde_facts_collections:seen(Pid, Seen)) =:= 0;
                          _ ->
                              false
                      end
              end, maps:to_list(Series)).

%% @doc The bytes of its terms, but not of its messages, and of the binaries that its terms refer to.
-spec held(heap()) -> number().
held(#{reachable := Reachable, roots := #{mailbox := Mailbox}, binaries := #{live := Binaries}}) ->
    Reachable - Mailbox + Binaries.

%% @doc The processes with at least one sample, with their names.
-spec last(procs()) -> [process()].
last(#{waste := Waste, series := Series, seen := Seen}) ->
    [#{pid => Pid, attrs => sonde_origin:attrs(Pid, Attrs), samples => Samples,
       collected => sonde_facts_collections:seen(Pid, Seen), waste => maps:get(Pid, Waste, #{}),
       twins => twins(Pid, lists:last(Samples))}
     || {Pid, [_ | _] = Samples} <- maps:to_list(Series),
        {ok, Attrs} <- [sonde_attr:call_site(Pid)]].

%% ---- monitors

twins(_, #{monitor_count := Of}) when Of > ?MOST_TIES ->
    unknown;
twins(Pid, #{monitor_count := Of, monitored_by_count := By}) ->
    max(twins(Pid, monitors, fun(_) -> true end, Of), twins(Pid, monitored_by, fun is_remote/1, By)).

twins(Pid, Item, Is, Count) when Count >= ?FEW_TIES, Count =< ?MOST_TIES ->
    case process_info(Pid, Item) of
        {_, Ties} -> Some = lists:filter(Is, Ties), length(Some) - length(lists:usort(Some));
        undefined -> 0
    end;
twins(_, _, _, _) -> 0.

is_remote(Pid) -> is_pid(Pid) andalso node(Pid) =/= node().
