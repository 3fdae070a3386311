%% @private
%% What the live page shows, sampled while somebody looks ({@link sonde_web}). One process takes a point of
%% each number at each interval, and the sections at a pace of their own: a part comes again only after its
%% last work is within its share of the node's processors. All is encoded once, for all who look.
-module(sonde_web_sample).

-export([start/1, parts/0, first/4, pace/3, dirty/1, threads/3]).
-export_type([request/0, part/0, pace/0, extent/0]).

-type part() :: processes | busy | tables | ports | allocators | groups | waits | stacks | binaries | diagnosis.
%% When a part is taken again, in milliseconds of monotonic time.
-type pace() :: #{part() => Due :: integer()}.
-type extent() :: #{processes | bytes | rows := non_neg_integer()}.
-type request() :: #{server := pid(), interval := Ms :: pos_integer(), pace := pace()}.

-define(TOP, 20).             % rows by each number
-define(WINDOW_MS, 100).      % the shortest one for reductions
%% Percent of the time of one processor. To take a point is to wait for the other schedulers most of the time.
-define(POINT_SHARE, 2).
%% A scheduler that is stuck holds up a point, which takes no processor time meanwhile.
-define(LONGEST_MS, 10000).
-define(FREE_MS, 250).        % what may be done at once, before anything is known of its duration
-define(ROWS, 100000).        % a table with more rows is not asked for its binaries
-define(WATCH_MS, 2000).      % how long the diagnosis watches, which takes a few percent of a processor
-define(WATCH_SHARE, 0.1).
-define(DIAGNOSIS_MS, 60000). % a diagnosis that takes longer is ended
-define(THREADS, 8).          % with which it reads, at most

%% Its share of the time of all processors, in percent, and the least number of milliseconds until it comes
%% again. The sum of the shares is below 1, since points, and those who look, cost, too.
share(processes) -> {0.15, 1000};
share(busy) -> {0.1, 1000};
share(groups) -> {0.08, 10000};
share(diagnosis) -> {0.12, 30000};
share(stacks) -> {0.03, 10000};
share(binaries) -> {0.03, 10000};
share(_) -> {0.03, 5000}.

%% @doc In the order in which they are taken. `busy' is last: it lasts until the next point.
-spec parts() -> [part()].
parts() -> [processes, tables, ports, allocators, groups, waits, stacks, binaries, diagnosis, busy].

%% @doc Starts the sampler, linked. It sends `{about, Self, Json}', then `{point, Self, Json}' and
%% `{part, Self, Part, Json, Pace}' again and again, and `{pace, Self, Pace}' when a diagnosis begins, since this
%% process may be ended before that is done.
-spec start(request()) -> pid().
start(Request) -> sonde_helper:job(fun run/1, Request).

run(#{server := Server, pace := Known} = Request) ->
    _ = process_flag(trap_exit, true),
    %% on as long as this process lives
    _ = erlang:system_flag(scheduler_wall_time, true),
    Server ! {about, self(), json(about())},
    Now = now_ms(),
    First = first(native(sonde_vm:side()), size(), capacity(), Now),
    Pace = maps:merge(First, Known),
    _ = [Server ! {part, self(), Part, json(#{in => Due - Now, at => erlang:system_time(millisecond)}), Pace}
         || {Part, Due} <- maps:to_list(First), Due > Now, not is_map_key(Part, Known)],
    again(Request#{pace := Pace, beside => none}, none).

%% What the work depends on, as far as it is known.
-spec size() -> extent().
size() ->
    Rows = [N || Tab <- ets:all(), N <- [ets:info(Tab, size)], is_integer(N), N =< ?ROWS],
    #{processes => erlang:system_info(process_count), rows => lists:sum(Rows),
      bytes => proplists:get_value(processes, sonde_memory:read([processes]), 0)}.

again(#{server := Server, interval := Interval} = State, Before) ->
    Start = now_us(),
    Counters = counters(),
    Server ! {point, self(), json(point(Before, Counters))},
    Took = (now_us() - Start) / 1000,
    Next = now_ms() + max(Interval, min(?LONGEST_MS, ceil(100 * Took / ?POINT_SHARE))),
    Taken = lists:foldl(fun(Part, Now) -> take(Part, Next, Now) end, State, parts()),
    again(wait(Next, Taken), Counters).

wait(Until, #{server := Server, beside := Beside} = State) ->
    receive
        {'EXIT', Server, _} -> exit(shutdown);
        {'EXIT', Beside, Why} -> wait(Until, diagnosed(Why, State))
    after max(0, Until - now_ms()) -> State
    end.

%% ---- the pace

%% @doc When the parts are taken for the first time: at once, unless the node is so large that
%% this alone would take long. Then it takes its share before, not after.
-spec first(Native :: [part()], extent(), pos_integer(), integer()) -> pace().
first(Native, Size, Capacity, Now) ->
    maps:from_list([{Part, case expected(Part, lists:member(Part, Native), Size) of
                               Ms when Ms =< ?FREE_MS -> Now;
                               Ms -> Now + pace(Part, Ms, Capacity)
                           end} || Part <- parts()]).

%% What is read natively: where the first call of a process is not, groups ask each process.
native(native) -> (parts() -- [groups]) ++ [groups || sonde_nif:has_first_call()];
native(_) -> [].

%% About; the work is known afterwards. The diagnosis marks all heaps, and the account of binaries lists rows of tables.
expected(diagnosis, true, #{processes := N, bytes := Bytes}) -> (2 * N + 3 * Bytes div 10000) / 1000;
expected(binaries, true, #{processes := N, rows := Rows}) -> (0.3 * N + 2 * Rows) / 1000;
expected(Part, Native, #{processes := N}) -> N * each_us(Part, Native) / 1000.

each_us(processes, Native) -> case Native of true -> 0.5; false -> 5 end;
each_us(busy, Native) -> case Native of true -> 0.3; false -> 10 end;
each_us(groups, Native) -> case Native of true -> 0.3; false -> 5 end;
each_us(stacks, Native) -> case Native of true -> 1; false -> 20 end;
each_us(diagnosis, false) -> 50;
each_us(waits, true) -> 0.3;
each_us(_, _) -> 0.

%% @doc Milliseconds until a part that took `Ms' comes again, with so many processors.
-spec pace(part(), number(), pos_integer()) -> pos_integer().
pace(Part, Ms, Capacity) ->
    {Share, Least} = share(Part),
    max(Least, ceil(100 * Ms / Share / Capacity)).

%% All parts but the diagnosis scan with one thread: whatever they wait for, they take no more than that of one processor.
capacity() -> erlang:system_info(schedulers_online).

take(diagnosis, _, #{pace := #{diagnosis := Due}} = State) ->
    case Due =< now_ms() of
        true -> beside(State);
        false -> State
    end;
take(Part, Next, #{pace := Pace} = State) ->
    case map_get(Part, Pace) =< now_ms() of
        true ->
            {Ms, Section} = worked(Part, Next, State),
            taken(Part, Ms, Section, State);
        false ->
            State
    end.

taken(Part, Ms, Section, #{server := Server, pace := Pace} = State) ->
    Every = pace(Part, Ms, capacity()),
    Now = Pace#{Part := now_ms() + Every},
    Server ! {part, self(), Part, json(Section#{ms => round(10 * Ms) / 10, every => Every, at => erlang:system_time(millisecond)}), Now},
    State#{pace := Now}.

%% In a process of its own, so that garbage and late messages go with it. The time in which it sleeps is no work.
worked(Part, Next, #{server := Server}) ->
    Start = now_us(),
    Slept = case Part of busy -> max(?WINDOW_MS, Next - now_ms()); _ -> 0 end,
    Pid = sonde_helper:job(fun section/1, {Part, Slept}),
    Section = receive
                  {'EXIT', Pid, {answer, Answer}} -> Answer;
                  {'EXIT', Pid, _} -> ended();
                  {'EXIT', Server, _} -> exit(shutdown)
              end,
    {max(0, (now_us() - Start) / 1000 - Slept), Section}.

ended() -> #{failed => <<"it was ended">>}.

%% The diagnosis watches the node for seconds, so it runs beside the others. If the viewers leave meanwhile and others
%% come, no second one starts at once.
beside(#{server := Server, beside := none, pace := Pace} = State) ->
    Later = Pace#{diagnosis := now_ms() + ?DIAGNOSIS_MS},
    Server ! {pace, self(), Later},
    State#{beside := sonde_helper:job(fun diagnose/1, ?WATCH_MS), pace := Later};
beside(#{beside := Pid} = State) ->
    true = exit(Pid, kill),
    State.

%% It reads with several threads, on dirty I/O schedulers: their work in that time counts, also what others gave them.
diagnose(Ms) ->
    Start = now_us(),
    Before = erlang:statistics(scheduler_wall_time_all),
    Section = section({diagnosis, Ms}),
    Usage = sonde_lib:scheduler_usage_diff(Before, erlang:statistics(scheduler_wall_time_all)),
    {(now_us() - Start) / 1000 * threads(sonde_vm:side(), dirty(Usage), capacity()), Section}.

%% @doc How many processors a diagnosis takes. On the portable path it asks each process, from normal schedulers. What
%% waits for a disk is work of its scheduler, too, but not of ours.
-spec threads(native | {portable, term()}, number(), pos_integer()) -> float().
threads(native, Dirty, Capacity) -> min(Dirty, min(?THREADS, Capacity)) + ?WATCH_SHARE;
threads(_, _, _) -> 1 + ?WATCH_SHARE.

%% @doc How many dirty I/O schedulers worked, of all shares.
-spec dirty([{pos_integer(), float()}]) -> number().
dirty(Usage) ->
    Others = erlang:system_info(schedulers) + erlang:system_info(dirty_cpu_schedulers),
    lists:sum([Share || {Id, Share} <- Usage, Id > Others]).

diagnosed({answer, {Ms, Section}}, State) -> taken(diagnosis, Ms, Section, State#{beside := none});
diagnosed(_, State) -> taken(diagnosis, ?DIAGNOSIS_MS, ended(), State#{beside := none}).

section({Part, Ms}) ->
    Side = sonde_vm:side(),
    sonde_report_data:section(Part, #{side => Side, top => ?TOP, interval => Ms, threads => 1, max_rows => ?ROWS,
                                      attrs => attrs(Side), binaries => false}).

%% Without the native path, to ask for binaries is far more expensive than for the others.
attrs(native) -> [memory, binary_memory, message_queue_len, reductions];
attrs(_) -> [memory, message_queue_len, reductions].

%% ---- a point

counters() ->
    {{input, In}, {output, Out}} = erlang:statistics(io),
    {Reductions, _} = erlang:statistics(reductions),
    {Collections, _, _} = erlang:statistics(garbage_collection),
    {now_us(), [{reductions, Reductions}, {collections, Collections}, {input, In}, {output, Out}],
     erlang:statistics(scheduler_wall_time)}.

point(Before, Now) ->
    Kinds = [total, processes, binary, ets, code, atom],
    (increments(Before, Now))#{at => erlang:system_time(millisecond),
                               memory => maps:from_list(sonde_memory:read(Kinds)),
                               run_queue => erlang:statistics(run_queue),
                               counts => maps:from_list([{Kind, erlang:system_info(Count)} || {Kind, Count, _} <- limits()])}.

%% Each second. In the first point nothing is known of them.
increments(none, {_, Counters, _}) ->
    maps:from_list([{usage, undefined} | [{Key, undefined} || {Key, _} <- Counters]]);
increments({Then, First, FirstTimes}, {Now, Last, LastTimes}) ->
    Seconds = max(1, Now - Then) / 1000000,
    maps:from_list([{usage, usage(sonde_lib:scheduler_usage_diff(FirstTimes, LastTimes))}
                    | [{Key, round((B - A) / Seconds)} || {{Key, A}, {Key, B}} <- lists:zip(First, Last)]]).

usage(undefined) -> undefined;
usage(Usage) -> list_to_tuple([round(1000 * Share) / 1000 || {Id, Share} <- Usage, Id =< erlang:system_info(schedulers)]).

limits() ->
    [{processes, process_count, process_limit}, {ports, port_count, port_limit},
     {atoms, atom_count, atom_limit}, {tables, ets_count, ets_limit}].

about() ->
    Side = sonde_vm:side(),
    (sonde_report_sections:about_node())#{
      at => erlang:system_time(millisecond), node => sonde_report_text:text(atom_to_list(node())), native => sonde_report_data:native(Side),
      made_by => sonde_report_text:text(sonde_bundle:version()), wordsize => erlang:system_info(wordsize), top => ?TOP,
      limits => maps:from_list([{Kind, erlang:system_info(Limit)} || {Kind, _, Limit} <- limits()])}.

json(Term) -> iolist_to_binary(sonde_json:encode(Term)).

now_ms() -> erlang:monotonic_time(millisecond).

now_us() -> erlang:monotonic_time(microsecond).
