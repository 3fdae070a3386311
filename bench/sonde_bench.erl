%% Compares sonde with recon, in the same node and the same run. bench/run starts one node for each
%% work.
%%
%%   work NAME RECON_DIR OUT    does one work and appends its figures to OUT, a file of terms
%%   report FILE...             prints them
%%   write PAGE FILE...         puts them between the marks in PAGE, a file of markdown
%%   disturb DIR                bench_disturb, which prints its own figures
%%
%% The figures are rows `{row, Map}', which bench_report describes.
-module(sonde_bench).

-export([main/0]).

-define(ATTRIBUTES, [memory, total_heap_size, heap_size, stack_size, message_queue_len, reductions,
                     binary_memory]).
-define(LISTS, [{binary_count, binary}, {link_count, links}, {monitor_count, monitors},
                {monitored_by_count, monitored_by}, {dictionary_size, dictionary}]).
-define(N, 10).
-define(MIB, 1048576).

-spec main() -> no_return().
main() ->
    Code = try command(init:get_plain_arguments())
           catch Class:Why:Stack ->
               io:format(standard_error, "bench: ~p: ~p~n~p~n", [Class, Why, Stack]),
               1
           end,
    halt(Code).

command(["work", Name, ReconDir, Out]) ->
    How = bench_crowd:load_recon(ReconDir),
    #{status := active} = sonde:native(),
    {ok, File} = file:open(Out, [append]),
    bench_report:put(File, node, bench_report:node_facts(How)),
    Emit = fun(Row) -> bench_report:put(File, row, Row#{work => title(Name)}) end,
    work(Name, Emit),
    file:close(File),
    0;
command(["disturb", Dir]) ->
    #{status := active} = sonde:native(),
    ok = bench_disturb:run(Dir),
    0;
command(["report" | Files]) ->
    bench_report:print(Files),
    0;
command(["write", Page | Files]) ->
    bench_report:write(Page, Files).

%% ---- sizes. BENCH_SCALE=0.01 is for trying the bench itself

scale() ->
    case os:getenv("BENCH_SCALE", "") of
        "" -> 1;
        Text -> try list_to_float(Text) catch error:badarg -> list_to_integer(Text) end
    end.

scaled(N) -> max(1, round(N * scale())).

%% Works that take seconds get fewer runs.
runs() -> 5.
few() -> 3.

title("many") -> thousands(scaled(1000000)) ++ " idle processes";
title("light") -> thousands(scaled(100000)) ++ " processes with 2 refc binaries each";
title("heavy") -> "20 processes with " ++ thousands(scaled(100000)) ++ " refc binaries each";
title("small") -> "400 processes, default table size";
title("calls") -> thousands(scaled(100000)) ++ " processes, one of them with "
                      ++ thousands(scaled(300000)) ++ " messages and keys, one with "
                      ++ thousands(scaled(100000)) ++ " refc binaries";
title("heaps") -> "one heap";
title("binaries") -> thousands(scaled(100000))
                         ++ " processes with 20 refc binaries each, a tenth shared";
title("trips") -> "ping-pong beside " ++ thousands(scaled(100000)) ++ " processes".

thousands(N) when N < 1000 -> integer_to_list(N);
thousands(N) -> thousands(N div 1000) ++ io_lib:format(",~3..0b", [N rem 1000]).

%% ---- the works

work("many", Emit) ->
    bench_crowd:idle(scaled(1000000)),
    %% before anything else grows the node
    peak(Emit),
    [compare(Emit, runs(), Attr, 30) || Attr <- [memory, message_queue_len]],
    compare_leak(Emit, few(), 40);
work("light", Emit) ->
    _ = bench_crowd:holders(scaled(100000), 2),
    compare(Emit, runs(), binary_memory, 15),
    compare_leak(Emit, runs(), 4),
    speed(Emit, runs(), call("bin_garbage", [?N]) ++ " and recon:bin_leak", 5,
          fun() -> recon:bin_leak(?N) end, fun() -> sonde:bin_garbage(?N) end),
    floor_of_collecting(Emit);
work("heavy", Emit) ->
    _ = bench_crowd:holders(20, scaled(100000)),
    compare(Emit, runs(), binary_memory, 4),
    bare(Emit),
    compare(Emit, runs(), binary_count, 8),
    compare_leak(Emit, runs(), 4),
    floor_of_collecting(Emit);
work("small", Emit) ->
    bench_crowd:fill_up(400),
    [compare(Emit, scaled(300), Attr, never_slower)
     || Attr <- ?ATTRIBUTES ++ [A || {A, _} <- ?LISTS] ++ [catchlevel]],
    [speed(Emit, scaled(100), call("proc_window", [Attr, ?N, 0]), never_slower,
           fun() -> recon:proc_window(Attr, ?N, 0) end,
           fun() -> sonde:proc_window(Attr, ?N, 0) end) || Attr <- [memory, reductions]],
    compare_leak(Emit, scaled(100), never_slower);
work("calls", Emit) ->
    _ = bench_crowd:servers(scaled(50000)),
    bench_crowd:idle(scaled(50000)),
    Full = bench_crowd:full(scaled(300000), scaled(300000)),
    [Holder] = bench_crowd:holders(1, scaled(100000)),
    _ = [speed(Emit, runs(), call(Name, Args), never_slower, Theirs, Ours)
         || {Name, Args, Theirs, Ours} <- less_work(Full, Holder)],
    ok;
work("heaps", Emit) ->
    bench_heap:rows([scaled(Mb * 1000000) || Mb <- [1, 100, 1000]], Emit);
work("binaries", Emit) ->
    _ = bench_binaries:crowd(scaled(100000), 20),
    bench_binaries:rows(Emit);
work("trips", Emit) ->
    _ = bench_crowd:holders(scaled(100000), 2),
    trips(Emit).

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
    Add = fun({Pid, Value, _}, Totals) ->
                  maps:update_with(key(By, Pid), fun({N, Sum}) -> {N + 1, Sum + Value} end,
                                   {1, Value}, Totals)
          end,
    lists:reverse(lists:keysort(2, maps:to_list(lists:foldl(Add, #{}, recon_lib:proc_attrs(Attr))))).

key(initial_call, Pid) -> proc_lib:translate_initial_call(Pid);
key(registered_name, Pid) -> process_info(Pid, registered_name);
key(application, Pid) -> application:get_application(Pid).

compare(Emit, Runs, Attr, Target) ->
    speed(Emit, Runs, call("proc_count", [Attr, ?N]), Target, theirs(Attr),
          fun() -> sonde:proc_count(Attr, ?N) end).

compare_leak(Emit, Runs, Target) ->
    speed(Emit, Runs, call("bin_leak", [?N]), Target,
          fun() -> recon:bin_leak(?N) end, fun() -> sonde:bin_leak(?N) end).

call(Name, Args) ->
    lists:flatten([Name, "(", lists:join(", ", [io_lib:format("~p", [A]) || A <- Args]), ")"]).

speed(Emit, Runs, Call, Target, Theirs, Ours) ->
    Times = bench_clock:alternate(Runs, pause(Target), #{recon => Theirs, sonde => Ours}),
    Emit((maps:map(fun(_, Ns) -> bench_clock:median(Ns) end, Times))
         #{kind => speed, call => Call, target => Target, all => Times}).

%% Small works measure an idle node, not one that still frees what the last call left.
pause(never_slower) -> 1;
pause(_) -> 10.

%% recon cannot sort by sonde's own attributes: apply its sort to the list.
theirs(Attr) ->
    case lists:keyfind(Attr, 1, ?LISTS) of
        {_, Item} -> fun() -> recon_lib:sublist_top_n_attrs(lengths(Item), ?N) end;
        false -> fun() -> recon:proc_count(Attr, ?N) end
    end.

lengths(Item) ->
    [{Pid, length(List), Attrs} || {Pid, List, Attrs} <- recon_lib:proc_attrs(Item)].

%% ---- figures that are no ratio

%% Ours first, and the worst of several runs: recon leaves free memory behind in the node.
peak(Emit) ->
    Ours = [bench_clock:peak(fun() -> sonde:proc_count(A, ?N) end)
            || _ <- lists:seq(1, few()), A <- [memory, message_queue_len]],
    Worst = fun(Key, Peaks) -> lists:max([maps:get(Key, P) || P <- Peaks]) end,
    Theirs = bench_clock:peak(fun() -> recon:proc_count(memory, ?N) end),
    [Emit(#{kind => peak, call => "peak memory added, " ++ Text, target => 16 * ?MIB,
            recon => maps:get(Key, Theirs), sonde => Worst(Key, Ours)})
     || {Key, Text} <- [{allocated, "by the node's figures"}, {resident, "resident"}],
        is_integer(maps:get(Key, Theirs))].

%% The bare loop reads the same chains, without what makes it safe or useful.
bare(Emit) ->
    ok = bench_bare:start(),
    Times = bench_clock:alternate(3 * runs(), pause(none),
                                  #{bare => fun bench_bare:binary_memory/0,
                                    sonde => fun() -> sonde:proc_count(binary_memory, ?N) end}),
    {Bytes, Count} = bench_bare:binary_memory(),
    Emit((maps:map(fun(_, Ns) -> bench_clock:median(Ns) end, Times))
         #{kind => bare, call => call("proc_count", [binary_memory, ?N]) ++ " and the bare C loop",
           target => 1.25, bytes => Bytes, count => Count, all => Times}).

floor_of_collecting(Emit) ->
    #{floor := Ns} = bench_clock:alternate(runs(), pause(none), #{floor => fun bench_floor:collect/0}),
    Emit(#{kind => floor, call => "collecting alone, 100 at a time",
           floor => bench_clock:median(Ns)}).

trips(Emit) ->
    Ms = max(200, scaled(4000)),
    Idle = fun() -> receive never -> ok end end,
    Works = [{"nothing", none, Idle}
             | [{call("proc_count", [A, ?N]), Tool, fun() -> Tool:proc_count(A, ?N) end}
                || A <- [memory, binary_memory], Tool <- [recon, sonde]]]
        ++ [{call("bin_leak", [?N]), Tool, fun() -> Tool:bin_leak(?N) end} || Tool <- [recon, sonde]],
    [Emit((bench_trip:during(Work, Ms))#{kind => trip, call => Call, tool => Tool, ms => Ms})
     || {Call, Tool, Work} <- Works].
