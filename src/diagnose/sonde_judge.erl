%% @private
%% Which of a node's processes, tables and limits are in trouble, from the facts of `sonde_facts', the
%% worst first. Pure, and it knows no names: only sizes, series and how things behave.
%%
%% What only is large is not accused: a cache is large. Accused is what keeps growing, and what
%% is not needed at any of the moments: garbage that no collection takes, parts of binaries that no
%% term sees, messages that stay, monitors on the same process, processes without any tie.
-module(sonde_judge).

-export([find/1, least/1]).
-export_type([suspect/0, kind/0, remedy/0, node_facts/0]).

-import(sonde_facts_procs, [held/1]).
-import(sonde_series, [grown/2, looks/2, is_rising/4, rises/3, goes_on/2, rate/2, elapsed/1,
                       never_rests/1, stays/2, doubles/3]).

-type kind() :: garbage | passed_on_binaries | pinned_slices | mailbox | monitors | links | stack
              | dictionary | state | binaries | ets_table | ets_tables | processes | orphans | ports
              | atoms | fragmentation | outside | persistent_terms | persistent_values | port_queue | max_heap
              | busy_connection | timers | log_queue
              | settings | bottleneck | deadlock
              | native_call | driver_call | run_queue | suspended | heart. % from outside alone
-type remedy() :: hibernate | collect | fullsweep_after | binary_copy | drop_unmatched | look_longer | batches | resume
                | demonitor | unlink | tail_call | erase | bound_state | evict | delete_tables
                | end_processes | supervise | close_ports | list_to_existing_atom | allocator_settings
                | native_library | erase_terms | slow_peer | heap_limit | generations | unblock
                | break_circle | disconnect | cancel_timers | let_run | cancel_started | log_less
                | smaller_process_table | smaller_port_table | native_function | driver | fewer_at_once
                | answer_heart | bound_values.
%% `bytes': what it holds, or for a limit what lies behind it. `share': of the node's memory, or,
%% where that is more, of the limit, of the processes that wait, or of the connections. `what' says
%% which: a pid, a table, the initial call of a group of processes, or `node'.
-type suspect() ::
        #{kind := kind(), what := pid() | {ets, ets:table()} | {processes, mfa()} | node,
          bytes := non_neg_integer(), share := float(), evidence := [{atom(), term()}],
          see := mfargs(), remedy := remedy(), frees => non_neg_integer()}.
-type mfargs() :: {module(), atom(), [term()]}.
%% `least': suspects have at least so many bytes. `grown': less growth counts as none.
%% `rest': the reductions that an idle process used as well.
%% `again': what grows in the first look must go on in the second. `up': the node's age in milliseconds.
-type node_facts() :: #{total | rest | up := non_neg_integer(), least := pos_integer(),
                        grown := pos_integer(), again := sonde_series:again()}.
-type suspects() :: [suspect()].

-define(SHARE, 0.03).         % of the node's memory: the least of a suspect
-define(LEAST, 2000000).      % bytes, likewise
-define(GROWN, 524288).       % bytes; growth below is no growth
-define(GROWTH_SHARE, 0.04).  % of all growth
-define(FEW, 1000).           % messages, monitors, links: fewer are no backlog and no leak
-define(DEAF_MS, 1800).       % two seconds, less what the first sample may be late; a request may take one
-define(STILL, 0.9).          % of what it was: a backlog that has not become smaller
-define(ENTRIES, 1000).       % of a dictionary
-define(NEAR, 0.8).           % of the largest heap
-define(BUSY, 10000).         % reductions in two seconds; answering us takes a few
-define(MANY, 10).            % minor collections, of which some would promote what is to be promoted
-define(FULLSWEEP, 10).       % the setting that is recommended
-define(OFTEN, 1000).         % times the minor collections since the last full one; a start may be 100 times the work
-define(STEADILY, 10).        % likewise, if it always worked about as now
-define(SOON_MS, 60000).      % a collection that comes within this time comes by itself
-define(FORESEEN_MS, 300000). % likewise, where the rate is an average of many collections
-define(CROWD, 50).           % processes
-define(MANY_SIZES, 6).       % samples; so many random sizes rise once in 720 times, and four once in 24

%% @doc The same process or table is accused once, for what holds most.
-spec find(sonde_facts:facts()) -> [suspect()].
find(#{moments := [_ | _]} = Facts) ->
    Node = node_of(Facts),
    All = lists:append([processes(Facts, Node), tables(Facts, Node), crowd(Facts, Node),
                        [share(Found, Node) || Found <- sonde_judge_node:find(Facts, Node)]]),
    once(lists:sort(fun worse/2, joined(All, Facts, Node)), []).

%% ---- one suspect for one fault

%% The suspect is what is known best: a handler that lags behind, not its mailbox or those who wait for it.
joined(All, Facts, Node) ->
    lists:foldl(fun join/2, timers(All, Facts, Node), [Found || #{kind := log_queue} = Found <- All]).

join(#{what := Pid} = Found, All) ->
    {Same, Others} = lists:partition(fun(#{what := What}) -> What =:= Pid end, All),
    [lists:foldl(fun(#{bytes := Bytes, share := Share}, #{bytes := Most, share := Worst} = Of) ->
                         Of#{bytes := max(Bytes, Most), share := max(Share, Worst)}
                 end, Found, Same) | Others].

%% A timer is one of the VM's, and may be kept as a reference in a state, or as a row in the table of the
%% module `timer', too. The process comes first, since it started the timers.
timers(All, Facts, Node) ->
    case [Found || #{kind := timers} = Found <- All] of
        [#{evidence := Evidence} = Found] ->
            New = proplists:get_value(per_second, Evidence),
            {Keepers, Others} = lists:partition(fun(Of) -> 2 * kept(Of, Facts) >= New end, All -- [Found]),
            {Processes, Tables} = lists:partition(fun(#{what := What}) -> is_pid(What) end, Keepers),
            [merged(Processes ++ Tables, Found, Node) | Others];
        [] ->
            All
    end.

%% The new ones in a second.
kept(#{kind := ets_table, what := {ets, Tab}, remedy := cancel_timers}, #{tables := Tables}) ->
    hd([rate(rows, Samples) || #{table := T, samples := Samples} <- Tables, T =:= Tab]);
kept(#{kind := Kind, what := Pid}, #{processes := Processes})
  when is_pid(Pid), Kind =:= state orelse Kind =:= dictionary orelse Kind =:= binaries ->
    case [#{at => At, references => N}
          || #{pid := P, samples := Samples} <- Processes, P =:= Pid,
             #{at := At, heap := #{references := N}} <- Samples] of
        [_, _ | _] = Known -> rate(references, Known);
        _ -> 0
    end;
kept(_, _) ->
    0.

merged([#{what := Pid, bytes := State, evidence := Evidence} = Keeper | _],
       #{bytes := Bytes, evidence := Timers, remedy := Remedy}, Node) when is_pid(Pid) ->
    Names = [Pair || {Key, _} = Pair <- Evidence, not lists:member(Key, [bytes_grown, bytes_per_second, entries])],
    share(Keeper#{kind := timers, bytes := State + Bytes, evidence := Timers ++ Names, remedy := Remedy}, Node);
merged([#{bytes := Rows, evidence := Evidence} = Table | _], #{bytes := Bytes, evidence := Timers}, Node) ->
    share(Table#{bytes := Rows + Bytes, evidence := [hd(Timers) | Evidence]}, Node);
merged([], Found, _) ->
    Found.

%% The node may have several suspects; a process or a table has one.
once([#{what := node} = Suspect | Rest], Seen) ->
    [Suspect | once(Rest, Seen)];
once([#{what := What} = Suspect | Rest], Seen) ->
    case lists:member(What, Seen) of
        true -> once(Rest, Seen);
        false -> [Suspect | once(Rest, [What | Seen])]
    end;
once([], _) ->
    [].

worse(#{share := A, bytes := X}, #{share := B, bytes := Y}) -> {A, X} >= {B, Y}.

%% What is measured against.
node_of(#{moments := Moments, processes := Processes, tables := Tables, again := Again, up := Up,
          crowd := #{rest := Rest}}) ->
    Totals = [Size || #{size := Size} <- Moments],
    Grown = lists:sum([max(0, grown(size, S)) || #{samples := S} <- Processes])
        + lists:sum([max(0, grown(bytes, S)) || #{samples := S} <- Tables]),
    Total = lists:max(Totals),
    #{total => Total, rest => Rest, again => Again, up => Up, least => least(Total),
      grown => max(?GROWN, round(?GROWTH_SHARE * max(Grown, lists:last(Totals) - hd(Totals))))}.

%% @doc The bytes that the least of suspects has, on a node with so many.
-spec least(non_neg_integer()) -> pos_integer().
least(Total) -> max(?LEAST, round(?SHARE * Total)).

%% ---- processes

-spec processes(sonde_facts:facts(), node_facts()) -> suspects().
processes(#{processes := Processes}, Node) ->
    [suspect(Pid, Attrs, Found, Node)
     || #{pid := Pid, attrs := Attrs, samples := Samples} = Process <- Processes,
        Judge <- judges(Samples),
        Found <- [Judge(Process, Node)], is_map(Found)].

%% On a busy node, a process may have answered only once. That it monitors another one many times shows then, too.
judges([_]) ->
    [fun monitors/2];
judges([_, _ | _]) ->
    [fun garbage/2, fun slices/2, fun mailbox/2, fun monitors/2, fun links/2, fun stack/2, fun dictionary/2,
     fun growth/2, fun max_heap/2].

suspect(Pid, Attrs, #{evidence := Evidence} = Found, Node) ->
    share(Found#{what => Pid, evidence => Evidence ++ names(Attrs)}, Node).

share(#{bytes := Bytes} = Found, #{total := Total}) ->
    Of = Bytes / max(1, Total),
    Found#{share => max(min(1.0, Of), maps:get(share, Found, 0.0))}.

names([Name | Calls]) when is_atom(Name) -> [{registered_name, Name} | Calls];
names(Calls) -> Calls.

%% Garbage that the process has in each sample, and that no collection of its own will free soon.
%% For binaries, the bytes that a collection would free, as far as known.
garbage(#{samples := Samples, waste := Waste} = Process, #{least := Least, rest := Rest, up := Up}) ->
    case heaps(Samples) of
        [_, _ | _] = Heaps ->
            Binaries = min(maps:get(bin_garbage_bytes, Waste, 0),
                           lists:min([Bytes || #{binaries := #{garbage := Bytes}} <- Heaps])),
            Found = {lists:min([Bytes || #{garbage := Bytes} <- Heaps]), Binaries},
            Idle = is_idle(Samples, Rest),
            accused(stays(Found, collects(Process, Up), Idle, Samples), Process, Least);
        _ ->
            false
    end.

accused({Terms, Binaries, Remedy}, #{samples := Samples, waste := Waste}, Least)
  when Terms + Binaries >= Least ->
    #{kind => case Binaries > 2 * Terms of true -> passed_on_binaries; false -> garbage end,
      bytes => Terms + Binaries, frees => Terms + Binaries,
      evidence => [{garbage, Terms}, {binaries, Binaries},
                   {binary_references, maps:get(bin_garbage, Waste, 0)},
                   {reductions, grown(reductions, Samples)}],
      see => {sonde, bin_garbage, [5]}, remedy => Remedy};
accused(_, _, _) ->
    false.

%% What a process keeps that collects as it does, and what frees it. Minor collections leave the
%% garbage of the old generation, until a full one comes. A process that makes a full collection by
%% itself leaks nothing, and neither does one with the setting that would be recommended.
stays(_, full, _, _) ->
    none;
stays({Terms, Binaries}, none, Idle, _) ->
    {Terms, Binaries, case Idle of true -> hibernate; false -> collect end};
stays({Terms, Binaries}, minor, Idle, Samples) ->
    case lists:last(Samples) of
        #{fullsweep_after := Few} when Few =< ?FULLSWEEP ->
            none;
        _ ->
            {not_young(Terms, terms, Samples), not_young(Binaries, binaries, Samples),
             case Idle of true -> hibernate; false -> fullsweep_after end}
    end.

%% More of it cannot be in the young generation.
not_young(Bytes, What, Samples) ->
    max(0, Bytes - lists:max([Of || #{young := #{What := Of}} <- Samples])).

%% A process that is idle for a while can hibernate; one that works must be made to collect.
is_idle(Samples, Rest) ->
    Few = grown(reductions, Samples) - Rest,
    Few < ?BUSY orelse Few * 1000 < ?BUSY div 2 * elapsed(Samples).

%% Which collections were noticed, or are near if the process goes on as it did.
collects(#{collected := #{minor := Minor, full := Full}, samples := Samples}, Up) ->
    Steps = steps_of([C || #{collections := C} <- Samples]),
    Young = filling(young, Samples),
    case {Full > 0 orelse lists:member(full, Steps) orelse filling(old, Samples)
          orelse fills(Minor, Samples) orelse sweeps(Minor, Samples) orelse sweeps_often(Samples, Up),
          Minor > 0 orelse lists:member(minor, Steps) orelse Young} of
        {true, _} -> full;
        {false, true} -> minor;
        {false, false} -> none
    end.

steps_of([Same, Same | Rest]) -> steps_of([Same | Rest]);
steps_of([{Before, _}, {Now, _} = Next | Rest]) ->
    [case Now > Before of true -> minor; false -> full end | steps_of([Next | Rest])];
steps_of(_) -> [].

%% At the rate at which it fills, the generation is full soon.
filling(Generation, Samples) ->
    Series = [Of || #{Generation := Of} <- Samples],
    #{room := Room, binary_room := BinaryRoom} = lists:last(Series),
    Ms = elapsed(Samples),
    is_soon(Room, grown(terms, Series), Ms) orelse is_soon(BinaryRoom, grown(binaries, Series), Ms).

is_soon(Room, Grown, Ms) -> is_soon(Room, Grown, Ms, ?SOON_MS).

is_soon(Room, Grown, Ms, Soon) -> Grown > 0 andalso Room * Ms < Grown * Soon.

%% A few minor collections may promote nothing by chance. So it is also full soon if each promotes what
%% they did on average since the last full one, or all that the young generation has now if that is
%% less. A process that collects so rarely takes minutes for what others do in one.
fills(Minor, Samples) when Minor > 0, Minor < ?MANY ->
    #{collections := {Gcs, _}, old := #{room := Room, binary_room := BinaryRoom} = Old}
        = lists:last(Samples),
    Each = fun(What) ->
                   min(map_get(What, Old) div Gcs,
                       lists:max([Of || #{young := #{What := Of}} <- Samples]))
           end,
    Gcs >= 2 * ?MANY
        andalso (is_soon(Room, Minor * Each(terms), elapsed(Samples), ?FORESEEN_MS)
                 orelse is_soon(BinaryRoom, Minor * Each(binaries), elapsed(Samples), ?FORESEEN_MS));
fills(_, _) ->
    false.

%% The number of minor collections soon reaches the one at which a full collection comes.
sweeps(Minor, Samples) ->
    #{fullsweep_after := After, collections := {Gcs, _}} = lists:last(Samples),
    is_soon(max(0, After - Gcs), Minor, elapsed(Samples)).

%% At the rate at which it works and collects, the last full collection came within a minute, and it made many
%% more minor collections in its life than since then: it makes full ones again and again. Fewer are enough for a
%% process that is as old as the node and always worked about as now: at this rate its work so far would take half to
%% twice the node's age. A process that did most of its work at once, for instance to start, made most of its
%% collections then.
sweeps_often([#{collections := {Before, _}} | _] = Samples, Up) ->
    #{reductions := All, collections := {Gcs, _}} = lists:last(Samples),
    {Made, Worked, Ms} = {Gcs - Before, grown(reductions, Samples), elapsed(Samples)},
    IsSteady = 2 * All * Ms >= Up * Worked andalso All * Ms =< 2 * Up * Worked,
    Often = case IsSteady of true -> ?STEADILY; false -> ?OFTEN end,
    All * Made >= Often * Gcs * Worked andalso is_soon(Gcs, Made, Ms).

slices(#{pid := Pid, samples := Samples, waste := Waste}, #{least := Least}) ->
    Held = [{Pinned - Seen, Seen, Pinned}
            || #{binaries := #{pinned := Pinned, visible := Seen}} <- heaps(Samples)],
    case Held of
        [_, _ | _] ->
            {Unseen, Seen, Pinned} = lists:min(Held),
            Unseen >= Least andalso Seen * 2 < Pinned andalso
                #{kind => pinned_slices, bytes => Unseen,
                  frees => min(Unseen, maps:get(binary_exclusive, Waste, Unseen)),
                  evidence => [{seen, Seen}, {pinned, Pinned}],
                  see => {sonde, bin_slices, [Pid]}, remedy => binary_copy};
        _ ->
            false
    end.

mailbox(#{pid := Pid, samples := Samples} = Process, #{least := Least, again := Again}) ->
    Lengths = [Length || #{message_queue_len := Length} <- Samples],
    Bytes = mailbox_bytes(Samples),
    lists:min(Lengths) >= ?FEW
        andalso lists:last(Lengths) >= ?STILL * hd(Lengths)
        andalso (Bytes >= Least orelse is_rising(message_queue_len, Samples, ?FEW, Again))
        andalso
        begin
            Suspended = lists:all(fun(#{status := Status}) -> Status =:= suspended end, Samples),
            Long = elapsed(Samples) >= ?DEAF_MS,
            Remedy = case {current(Process), is_deaf(Process)} of
                         {{sys, suspend_loop, _}, _} -> resume;
                         _ when Suspended -> let_run;
                         {_, true} when Long -> drop_unmatched;
                         {_, true} -> look_longer;
                         {_, false} -> batches
                     end,
            #{kind => mailbox, bytes => Bytes,
              evidence => [{messages, lists:last(Lengths)},
                           {grown, lists:last(Lengths) - hd(Lengths)},
                           {status, maps:get(status, lists:last(Samples))}]
                  ++ [Pair || Remedy =:= drop_unmatched, Pair <- oldest(Lengths, Samples)],
              see => {sonde, mailbox, [Pid, 5]}, remedy => Remedy}
        end.

%% For how long its oldest message stayed, if that is known. It may belong to the next request, while the
%% process waits for an answer to one. If it took newer messages meanwhile, that is less likely.
oldest(Lengths, Samples) ->
    [Pair || {_, N} = Pair <- [{oldest_stayed_ms, elapsed(Samples)}, {newer_taken, taken(Lengths)}], N > 0,
             stays(oldest, Samples)].

%% At least so many messages were taken: more may have come than the queue became shorter.
taken([Before, Now | Lengths]) -> max(0, Before - Now) + taken([Now | Lengths]);
taken([_]) -> 0.

%% A consumer that is too slow works, or waits for the answer of another process, or takes its oldest
%% message. One that waits and leaves that message where it is, for seconds, may match none of them.
%% Checking each new message, and answering our calls, takes a few reductions.
is_deaf(#{samples := Samples} = Process) ->
    Waits = [x || #{status := waiting} <- Samples],
    2 * length(Waits) > length(Samples)
        andalso not waits_for_another(current(Process))
        andalso not takes_oldest(Samples)
        andalso (grown(reductions, Samples)
                     =< 10 * max(0, grown(message_queue_len, Samples)) + 5000
                 orelse stays(oldest, Samples)).

%% A collection may move a message, and so change its number.
takes_oldest([#{oldest := A, collections := Same}, #{oldest := B, collections := Same} | _]) when A =/= B ->
    true;
takes_oldest([_ | Samples]) -> takes_oldest(Samples);
takes_oldest([]) -> false.

current(#{attrs := Attrs}) -> proplists:get_value(current_function, Attrs).

%% In these a process waits for one answer, of another process or a port, or for a time to pass.
waits_for_another(Function) ->
    lists:member(Function, [{gen, do_call, 4}, {gen, wait_response, 2}, {gen, receive_response, 2},
                            {erpc, call, 5}, {rpc, call, 5}, {io, wait_io_mon_reply, 2},
                            {prim_inet, recv0, 3}, {prim_inet, accept0, 3}, {gen_tcp, recv, 3},
                            {timer, sleep, 1}, {'Elixir.Task', await, 2},
                            {'Elixir.Process', sleep, 1}]).

%% The bytes of the messages if they are known, or all bytes of the process.
mailbox_bytes(Samples) ->
    case heaps(Samples) of
        [_ | _] = Heaps ->
            #{roots := #{mailbox := Bytes}, binaries := #{pinned := Binaries}} = lists:last(Heaps),
            Bytes + case Bytes > 0 of true -> Binaries; false -> 0 end;
        [] ->
            #{memory := Memory, binary_memory := Binaries} = lists:last(Samples),
            Memory + Binaries
    end.

%% Many monitors on the same process, of which one would do, or more of them with each moment.
%% `unknown' is more than any number.
monitors(#{pid := Pid, twins := Twins, samples := Samples}, #{least := Least, again := Again}) ->
    #{monitor_count := Of, monitored_by_count := By} = Last = lists:last(Samples),
    Rises = is_rising(monitor_count, Samples, ?FEW, Again) orelse
        is_rising(monitored_by_count, Samples, ?FEW, Again),
    Bytes = ties(Last),
    (Rises orelse Twins > max(Of, By) div 2) andalso Twins >= ?FEW andalso Bytes >= Least
        andalso
        #{kind => monitors, bytes => Bytes,
          evidence => [{monitors, Of}, {monitored_by, By}, {same_process, Twins},
                       {grown, grown(monitor_count, Samples) + grown(monitored_by_count, Samples)}],
          see => {sonde, info, [Pid, meta]}, remedy => demonitor}.

%% The VM counts links and monitors in a process's memory, beside its heap.
ties(#{size := Size, used := Used, binary_memory := Binaries}) -> Size - Used - Binaries.

links(#{pid := Pid, samples := Samples}, #{least := Least, again := Again}) ->
    #{link_count := Links} = Last = lists:last(Samples),
    Bytes = ties(Last),
    Links >= ?FEW andalso is_rising(link_count, Samples, ?FEW div 10, Again) andalso Bytes >= Least
        andalso
        #{kind => links, bytes => Bytes,
          evidence => [{links, Links}, {grown, grown(link_count, Samples)}],
          see => {sonde, info, [Pid, meta]}, remedy => unlink}.

stack(#{pid := Pid, samples := Samples}, #{least := Least}) ->
    Bytes = lists:min([Size || #{stack_size := Size} <- Samples]),
    Bytes >= Least andalso
        #{kind => stack, bytes => Bytes, evidence => [{stack, Bytes}],
          see => {sonde, info, [Pid, location]}, remedy => tail_call}.

%% The VM ends a process when it collects and needs more than this.
max_heap(#{pid := Pid, samples := Samples}, _) ->
    #{total_heap := Heap, counted := Binaries, heap_limit := Limit} = lists:last(Samples),
    Bytes = Heap + Binaries,
    is_integer(Limit) andalso Bytes >= ?NEAR * Limit andalso
        #{kind => max_heap, bytes => Bytes, share => Bytes / Limit,
          evidence => [{heap, Heap}] ++ [{binaries, Binaries} || Binaries > 0] ++ [{heap_limit, Limit}],
          see => {sonde, heap_top, [Pid, 5]}, remedy => heap_limit}.

%% A dictionary is not a cache. If heaps cannot be read, its size is not known either.
dictionary(#{pid := Pid, samples := Samples}, #{least := Least}) ->
    case [{Bytes, All} || #{roots := #{dictionary := Bytes}, reachable := All} <- heaps(Samples)] of
        [] ->
            false;
        Known ->
            {Bytes, All} = lists:last(Known),
            Entries = maps:get(dictionary_size, lists:last(Samples), 0),
            Bytes >= Least andalso 2 * Bytes > All andalso Entries >= ?ENTRIES andalso
                #{kind => dictionary, bytes => Bytes, evidence => [{entries, Entries}],
                  see => {sonde, heap_top, [Pid, 5]}, remedy => erase}
    end.

%% Growth of what survives collections: of the reachable bytes if heaps can be read, otherwise of
%% the size, and only if there was a collection in between: that is weak evidence, since a worker may
%% need more at the moment, so it counts only for what is large. A backlog that grows is no state, and
%% neither is what the heaps, where some were read, show to be garbage. Of a few sizes that go up and down,
%% each may be larger than the last by chance.
growth(#{pid := Pid, samples := Samples} = Process,
       #{least := Large, grown := Least, again := Again} = Node) ->
    #{size := Size} = lists:last(Samples),
    IsState = fun(First) ->
                      Size >= Large andalso length(First) >= ?MANY_SIZES
                          andalso not is_refuted(Samples, Large)
                          andalso not is_map(mailbox(Process, Node))
              end,
    case survives(Samples, Least, Again, IsState) orelse Size >= Large andalso creeps(Samples, Again) of
        true ->
            Grown = grown(size, Samples),
            {Kind, See} = case 2 * grown(binary_memory, Samples) > Grown of
                              true -> {binaries, {sonde, bin_slices, [Pid]}};
                              false -> {state, {sonde, heap_top, [Pid, 5]}}
                          end,
            #{kind => Kind, bytes => Size,
              evidence => [{bytes_grown, Grown}, {bytes_per_second, rate(size, Samples)}],
              see => See, remedy => bound_state};
        false ->
            false
    end.

survives(Samples, Least, Again, IsState) ->
    {First, Second} = looks(Samples, Again),
    case held_by(First) of
        [_, _, _, _, _ | _] = Held -> rises(Held, Least, held_by(Second));
        _ -> is_rising(size, Samples, Least, Again) andalso collected(Samples) andalso IsState(First)
    end.

held_by(Samples) -> [held(Heap) || Heap <- heaps(Samples)].

%% A heap shows that what survives is small, or the process grew from one heap to a later one and what
%% survives did not. Then the growth is garbage, and a bound on the state would free none of it.
is_refuted(Samples, Large) ->
    case [{Size, held(Heap)} || #{size := Size, heap := Heap} <- Samples] of
        [] ->
            false;
        [{Before, First} | _] = Read ->
            {Now, Last} = lists:last(Read),
            Last < Large orelse Now > Before andalso Last =< First
    end.

%% Little growth, but in each step, and enough to double it within a day.
creeps(Samples, Again) ->
    {First, Second} = looks(Samples, Again),
    Held = held_by(First),
    never_rests(Held) andalso doubles(lists:last(Held) - hd(Held), lists:last(Held), First)
        andalso goes_on(lists:last(Held), held_by(Second)).

collected(Samples) ->
    length(lists:usort([C || #{collections := C} <- Samples])) > 1.

heaps(Samples) -> [Heap || #{heap := Heap} <- Samples].

%% ---- tables

-spec tables(sonde_facts:facts(), node_facts()) -> suspects().
tables(#{tables := Tables}, Node) ->
    [share(Found, Node) || Table <- Tables, Found <- [pinned(Table, Node)], is_map(Found)]
        ++ growing(Tables, Node).

growing(Tables, #{again := Again} = Node) ->
    [share(#{kind => ets_table, what => {ets, Tab}, bytes => Bytes + behind(Binaries),
             evidence => [{name, Name}, {rows, Rows}, {bytes_grown, grown(bytes, Samples)},
                          {rows_per_second, rate(rows, Samples)},
                          {binaries, Binaries}, {owner, Owner}],
             see => {sonde, ets_count, [binary_memory, 5]},
             remedy => case Timers of true -> cancel_timers; false -> evict end}, Node)
     || #{table := Tab, name := Name, owner := Owner, timers := Timers, samples := [_, _ | _] = Samples,
          binaries := Binaries} <- Tables,
        is_rising(rows, Samples, 1, Again), #{bytes := Bytes, rows := Rows} <- [lists:last(Samples)],
        has_grown(Bytes + behind(Binaries), Rows, Samples, Node)].

%% Rows that have a small part of a large binary keep all of it. What some rows have is extrapolated
%% to all rows if these rows explain most of the binaries: others may have parts of the same ones.
pinned(#{table := Tab, name := Name, owner := Owner, samples := Samples, binaries := Binaries,
         slices := #{rows := Of, seen := Seen, pinned := Pinned}}, #{least := Least})
  when is_integer(Binaries), 2 * Seen < Pinned ->
    #{rows := Rows} = lists:last(Samples),
    Visible = Seen * Rows div Of,
    Unseen = Binaries - Visible,
    Unseen >= Least andalso 2 * Visible < Binaries andalso 2 * (Pinned * Rows div Of) >= Binaries
        andalso
        #{kind => pinned_slices, what => {ets, Tab}, bytes => Unseen, frees => Unseen,
          evidence => [{name, Name}, {rows, Rows}, {seen, Visible}, {pinned, Binaries},
                       {rows_read, Of}, {owner, Owner}],
          see => {sonde, ets_count, [binary_memory, 5]}, remedy => binary_copy};
pinned(_, _) ->
    false.

%% By much, or, if the table is large, by a little in each step. Its rows are assumed to be of equal
%% size.
has_grown(Bytes, Rows, Samples, #{least := Large, grown := Least, again := Again}) ->
    {First, _} = looks(Samples, Again),
    Grown = Bytes * grown(rows, Samples) div max(1, Rows),
    Grown >= Least
        orelse Bytes >= Large andalso never_rests([R || #{rows := R} <- First])
               andalso doubles(Grown, Bytes, Samples).

behind(undefined) -> 0;
behind(Bytes) -> Bytes.

%% ---- crowds

-spec crowd(sonde_facts:facts(), node_facts()) -> suspects().
crowd(#{crowd := #{groups := Groups} = Crowd, moments := Moments, limits := Limits}, #{again := Again} = Node) ->
    Rises = is_rising(processes, Moments, ?CROWD, Again),
    Most = lists:max([0 | [Born || #{born := Born} <- Groups]]),
    [share(estimated(Found, Crowd), Node)
     || Group <- Groups,
        Judge <- [fun orphans/2, fun idle_garbage/2,
                  fun(G, _) -> newborn(Rises, Most, Moments, Limits, G) end],
        Found <- [Judge(Group, Node)], is_map(Found)].

%% Counts and sizes of a group may be of a sample.
estimated(#{evidence := Evidence} = Found, #{each := Each, sampled := Sampled}) when Each > 1 ->
    Found#{evidence := Evidence ++ [{estimated_from, Sampled}]};
estimated(Found, _) ->
    Found.

orphans(#{key := Key, orphans := Orphans, orphan_bytes := Bytes} = Group, #{least := Least}) ->
    Orphans >= ?CROWD andalso Bytes >= Least andalso
        #{kind => orphans, what => {processes, Key}, bytes => Bytes,
          evidence => [{processes, Orphans} | like(Group)],
          see => {sonde, proc_group, [initial_call, [memory]]}, remedy => supervise}.

idle_garbage(#{key := Key, count := Count, garbage := Bytes, idle := Idle} = Group,
             #{least := Least}) ->
    Count >= ?CROWD andalso Bytes >= Least andalso
        #{kind => garbage, what => {processes, Key}, bytes => Bytes, frees => Bytes,
          evidence => [{processes, Count}, {idle, Idle} | like(Group)],
          see => {sonde, proc_count, [garbage_bytes, 5]}, remedy => hibernate}.

%% The number of all processes rises, and these are the new ones.
newborn(true, Most, Moments, #{processes := Limit},
        #{key := Key, count := Count, bytes := Bytes, born := Born} = Group)
  when Born > 0, 2 * Born > Most ->
    Grown = grown(processes, Moments),
    #{processes := All} = lists:last(Moments),
    #{kind => processes, what => {processes, Key}, bytes => Bytes, share => All / Limit,
      evidence => [{processes, Count}, {grown, Grown},
                   {per_second, rate(processes, Moments)} | like(Group)],
      see => {sonde, proc_group, [initial_call, [memory]]}, remedy => end_processes};
newborn(_, _, _, _, _) ->
    false.

like(#{current := Current, some := Some}) ->
    [{current_function, Current}, {some, Some}].
