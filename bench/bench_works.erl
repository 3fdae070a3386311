%% The works: on which processes each call is measured, what it is compared with, and its targets.
-module(bench_works).

-export([work/2, scaled/1]).

-define(ATTRIBUTES, [memory, total_heap_size, heap_size, stack_size, message_queue_len, reductions,
                     binary_memory]).
-define(LISTS, [{binary_count, binary}, {link_count, links}, {monitor_count, monitors},
                {monitored_by_count, monitored_by}, {dictionary_size, dictionary}]).
-define(N, 10).
-define(MIB, 1048576).
-define(MS, 1000000).
-define(PAUSE_MS, 10).
-define(SHORT_PAUSE_MS, 1).   % measures an idle node, not one that frees what the last call left
-define(DIAGNOSIS_MS, 2000).

%% @doc Does one work, and hands each of its rows to the function, which returns it. The tables of
%% growth have titles of their own, and reports stand in those of two crowds.
-spec work(string(), fun((bench_row:row()) -> bench_row:row())) -> term().
work("growth" = Name, Put) ->
    bench_growth:rows(fun scaled/1, fun(Row) -> Put(Row#{name => Name}) end);
work("report" = Name, Put) ->
    bench_report_file:rows([{scaled(100000), 3000}, {scaled(1000000), 10000}], few(),
                           fun(Row) -> Put(Row#{name => Name}) end);
work(Name, Put) ->
    measure(Name, fun(Row) -> Put(Row#{name => Name, work => title(Name)}) end).

%% @doc BENCH_SCALE=0.01 is for trying the bench itself.
-spec scaled(pos_integer()) -> pos_integer().
scaled(N) -> max(1, round(N * scale())).

scale() ->
    case os:getenv("BENCH_SCALE", "") of
        "" -> 1;
        Text -> try list_to_float(Text) catch error:badarg -> list_to_integer(Text) end
    end.

%% Works that take seconds get fewer runs, calls that take less than a millisecond more. The check,
%% whose works are small, says how many it needs.
runs() -> runs(5).
few() -> runs(3).
many(N) -> max(runs(), scaled(N)).

runs(Default) -> list_to_integer(os:getenv("BENCH_RUNS", integer_to_list(Default))).

title("many") -> bench_row:number(scaled(1000000)) ++ " idle processes";
title("light") -> bench_row:number(scaled(100000)) ++ " processes with 2 refc binaries each";
title("heavy") -> "20 processes with " ++ bench_row:number(scaled(100000)) ++ " refc binaries each";
title("small") -> "400 processes, default table size";
title("calls") -> bench_row:number(scaled(100000)) ++ " processes, one of them with "
                      ++ bench_row:number(scaled(300000)) ++ " messages and keys, one with "
                      ++ bench_row:number(scaled(100000)) ++ " refc binaries";
title("heaps") -> "one heap";
title("start") -> "a new node";
title("diagnose") -> title("many");
title("top") -> bench_row:number(scaled(1000000)) ++ " processes, the pages of top";
title("binaries") -> bench_row:number(scaled(100000))
                         ++ " processes with 20 refc binaries each, a tenth shared";
title("trips") -> "ping-pong beside " ++ bench_row:number(scaled(100000)) ++ " processes".

%% ---- the works

measure("many", Emit) ->
    bench_crowd:idle(scaled(1000000)),
    %% before anything else grows the node
    peak(Emit),
    _ = [compare(Emit, runs(), Attr, [{faster, Times}])
         || {Attr, Times} <- [{memory, 50}, {message_queue_len, 60}]],
    _ = speed(Emit, few(), ?PAUSE_MS, leak(), [{faster, 90}], recon_leak(), sonde_leak()),
    one_word(Emit);
measure("diagnose", Emit) ->
    bench_crowd:idle(scaled(1000000)),
    diagnosis(Emit);
measure("light", Emit) ->
    _ = bench_crowd:holders(scaled(100000), 2),
    _ = compare(Emit, runs(), binary_memory, [{faster, 25}]),
    leak_and_floor(Emit, [{at_most, 1.15}]),
    speed(Emit, runs(), ?PAUSE_MS, call("bin_garbage", [?N]) ++ " and recon:bin_leak",
          [{faster, 5}], recon_leak(), fun() -> sonde:bin_garbage(?N) end);
measure("heavy", Emit) ->
    _ = bench_crowd:holders(20, scaled(100000)),
    _ = compare(Emit, runs(), binary_memory, [{faster, 4}]),
    bare(Emit),
    _ = compare(Emit, runs(), binary_count, [{faster, 8}]),
    leak_and_floor(Emit, []);
measure("small", Emit) ->
    bench_crowd:fill_up(400),
    slowest(small(Emit), Emit);
measure("calls", Emit) ->
    _ = bench_crowd:servers(scaled(50000)),
    bench_crowd:idle(scaled(50000)),
    Full = bench_crowd:full(scaled(300000), scaled(300000)),
    [Holder] = bench_crowd:holders(1, scaled(100000)),
    [speed(Emit, runs(), ?SHORT_PAUSE_MS, call(Name, Args), [never_slower], Theirs, Ours)
     || {Name, Args, Theirs, Ours} <- less_work(Full, Holder)];
measure("heaps", Emit) ->
    bench_heap:rows([{Mb, scaled(Mb * 1000000)} || Mb <- [1, 100, 1000]], few(), Emit);
measure("binaries", Emit) ->
    Crowd = bench_binaries:crowd(scaled(100000), 20),
    bench_binaries:rows(Crowd, few(), Emit);
measure("start", Emit) ->
    bench_start:rows(runs(), scaled(1000000), Emit);
measure("top", Emit) ->
    bench_top:rows(fun scaled/1, runs(), Emit);
measure("trips", Emit) ->
    _ = bench_crowd:holders(scaled(100000), 2),
    trips(Emit).

small(Emit) ->
    Never = [never_slower],
    [speed(Emit, many(300), ?SHORT_PAUSE_MS, call("proc_count", [Attr, ?N]), Never, theirs(Attr),
           fun() -> sonde:proc_count(Attr, ?N) end)
     || Attr <- ?ATTRIBUTES ++ [A || {A, _} <- ?LISTS] ++ [catchlevel]]
        ++ [speed(Emit, many(100), ?SHORT_PAUSE_MS, call("proc_window", [Attr, ?N, 0]), Never,
                  fun() -> recon:proc_window(Attr, ?N, 0) end,
                  fun() -> sonde:proc_window(Attr, ?N, 0) end) || Attr <- [memory, reductions]]
        ++ [speed(Emit, many(100), ?SHORT_PAUSE_MS, leak(), Never, recon_leak(), sonde_leak())].

slowest(Rows, Emit) ->
    {Ns, Call} = lists:max([{Ns, Call} || #{sonde := Ns, call := Call} <- Rows]),
    Emit(#{kind => alone, call => lists:concat([Call, ", the slowest of ", length(Rows), " calls"]),
           sonde => Ns, targets => [{within, ?MS div 4}]}).

%% Calls where sonde does less work than recon. Calls that recon lacks are compared with what its
%% users write.
less_work(Full, Holder) ->
    [{"proc_window", [Attr, ?N, 0], fun() -> recon:proc_window(Attr, ?N, 0) end,
      fun() -> sonde:proc_window(Attr, ?N, 0) end} || Attr <- [memory, reductions]]
        ++ [{"proc_count", [Many, ?N], fun() -> [recon:proc_count(A, ?N) || A <- Many] end,
             fun() -> sonde:proc_count(Many, ?N) end}
            || Many <- [[memory, message_queue_len, binary_memory]]]
        ++ [{"proc_group", [By, [memory]], fun() -> by_hand(By, memory) end,
             fun() -> sonde:proc_group(By, [memory]) end}
            || By <- [initial_call, registered_name, application]]
        ++ [{"info", ['Full'], fun() -> recon:info(Full) end, fun() -> sonde:info(Full) end},
            {"info", ['Holder', binary_memory], fun() -> recon:info(Holder, binary_memory) end,
             fun() -> sonde:info(Holder, binary_memory) end}]
        ++ [{"recon_alloc:" ++ atom_to_list(F), Args, fun() -> apply(recon_alloc, F, Args) end,
             fun() -> apply(sonde_alloc, F, Args) end}
            || {F, Args} <- [{snapshot, []}, {memory, [used]}, {memory, [allocated_types]},
                             {fragmentation, [current]}, {average_block_sizes, [current]},
                             {sbcs_to_mbcs, [current]}, {cache_hit_rates, []}, {allocators, []}]].

by_hand(By, Attr) ->
    Add = fun({Pid, Value, _}, Acc) ->
                  maps:update_with(key(By, Pid), fun({N, Sum}) -> {N + 1, Sum + Value} end,
                                   {1, Value}, Acc)
          end,
    Totals = lists:foldl(Add, #{}, recon_lib:proc_attrs(Attr)),
    lists:reverse(lists:keysort(2, maps:to_list(Totals))).

key(initial_call, Pid) -> proc_lib:translate_initial_call(Pid);
key(registered_name, Pid) -> process_info(Pid, registered_name);
key(application, Pid) -> application:get_application(Pid).

%% ---- rows

compare(Emit, Runs, Attr, Targets) ->
    speed(Emit, Runs, ?PAUSE_MS, call("proc_count", [Attr, ?N]), Targets, theirs(Attr),
          fun() -> sonde:proc_count(Attr, ?N) end).

speed(Emit, Runs, PauseMs, Call, Targets, Theirs, Ours) ->
    Times = bench_clock:alternate(Runs, PauseMs, #{recon => Theirs, sonde => Ours}),
    Emit((bench_clock:against(recon, sonde, Times))
         #{kind => speed, call => Call, targets => Targets}).

%% recon cannot sort by sonde's own attributes: apply its sort to the list.
theirs(Attr) ->
    case lists:keyfind(Attr, 1, ?LISTS) of
        {_, Item} -> fun() -> recon_lib:sublist_top_n_attrs(lengths(Item), ?N) end;
        false -> fun() -> recon:proc_count(Attr, ?N) end
    end.

lengths(Item) ->
    [{Pid, length(List), Attrs} || {Pid, List, Attrs} <- recon_lib:proc_attrs(Item)].

leak() -> call("bin_leak", [?N]).
recon_leak() -> fun() -> recon:bin_leak(?N) end.
sonde_leak() -> fun() -> sonde:bin_leak(?N) end.

call(Name, Args) ->
    lists:flatten([Name, "(", lists:join(", ", [io_lib:format("~p", [A]) || A <- Args]), ")"]).

%% Ours first, and the worst of several runs: recon leaves free memory behind in the node.
peak(Emit) ->
    Ours = [bench_clock:peak(fun() -> sonde:proc_count(A, ?N) end)
            || _ <- lists:seq(1, few()), A <- [memory, message_queue_len]],
    Worst = fun(Key, Peaks) -> lists:max([maps:get(Key, P) || P <- Peaks]) end,
    Theirs = bench_clock:peak(fun() -> recon:proc_count(memory, ?N) end),
    [Emit(#{kind => peak, call => "peak memory added, " ++ Text, targets => [{under, 16 * ?MIB}],
            other => maps:get(Key, Theirs), sonde => Worst(Key, Ours)})
     || {Key, Text} <- [{allocated, "by the node's figures"}, {resident, "resident"}],
        is_integer(maps:get(Key, Theirs))].

%% The time that the user waits beyond the interval.
diagnosis(Emit) ->
    Look = fun() -> sonde:diagnosis(#{interval => ?DIAGNOSIS_MS}) end,
    #{sonde := Times} = bench_clock:alternate(few(), ?PAUSE_MS, #{sonde => Look}),
    Emit(#{kind => alone, call => "diagnosis(), without its interval of 2 s",
           sonde => bench_clock:median(Times) - ?DIAGNOSIS_MS * ?MS,
           targets => [{within, 1000 * ?MS}]}).

leak_and_floor(Emit, Targets) ->
    Times = bench_clock:alternate(runs(), ?PAUSE_MS, #{recon => recon_leak(), sonde => sonde_leak(),
                                                       floor => fun bench_floor:collect/0}),
    Emit((bench_clock:against(recon, sonde, Times))
         #{kind => speed, call => leak(), targets => [{faster, 4}]}),
    Emit((bench_clock:against(floor, sonde, Times))
         #{kind => beside, call => leak() ++ " and collecting alone, 100 at a time",
           targets => Targets}).

%% The bare loop reads the same lists, without what makes it safe or useful.
bare(Emit) ->
    beside_loop(Emit, 3 * runs(), binary_memory, fun bench_bare:binary_memory/1, [{at_most, 1.1}]).

%% It reads the same words of each process: the attribute, who it is, and whether it lives.
one_word(Emit) ->
    [beside_loop(Emit, runs(), Attr, fun(Threads) -> bench_bare:largest(Attr, Threads) end,
                 [{at_most, 1.2}])
     || Attr <- [reductions, heap_size]].

%% Both use as many threads as sonde chooses on a quiet node.
beside_loop(Emit, Runs, Attr, Loop, Targets) ->
    ok = bench_bare:start(),
    Threads = min(8, erlang:system_info(schedulers_online)),
    Ours = fun() -> sonde:proc_count(Attr, ?N, #{threads => Threads}) end,
    Times = bench_clock:alternate(Runs, ?PAUSE_MS, #{bare => fun() -> Loop(Threads) end,
                                                     sonde => Ours}),
    Emit((bench_clock:against(bare, sonde, Times))
         #{kind => beside, targets => Targets,
           call => lists:concat([call("proc_count", [Attr, ?N]), " and the bare C loop, ",
                                 Threads, " thread", ["s" || Threads > 1], " each"])}).

%% While bin_leak repeats, the slowest trips may not be slower than beside recon's.
trips(Emit) ->
    _ = trip(Emit, "nothing", fun() -> receive never -> ok end end, []),
    _ = [trip(Emit, call(lists:concat([Tool, ":proc_count"]), [Attr, ?N]),
              fun() -> Tool:proc_count(Attr, ?N) end, [])
         || Attr <- [memory, binary_memory], Tool <- [recon, sonde]],
    #{p999 := Recons} = trip(Emit, "recon:" ++ leak(), recon_leak(), []),
    trip(Emit, "sonde:" ++ leak(), sonde_leak(), [{tail, Recons}]).

trip(Emit, Call, Work, Targets) ->
    Ms = max(200, scaled(4000)),
    Emit((bench_trip:during(Work, Ms))
         #{kind => trip, call => Call, ms => Ms, targets => Targets}).
