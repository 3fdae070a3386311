%% Nodes with leaks, drawn from a seed: kinds, number, sizes, speeds and names of the leaks, and of
%% harmless look-alikes: a large steady cache, a sawtooth, a busy worker, a crowd with links. The
%% plan is pure; `start/1' carries it out on the current node. No tested code knows these names.
-module(sonde_leaks_helper).

-export([plan/1, start/1, sizes/1, unused_for_binaries/0]).
-export([idle/0, born/0]).

-define(MB, 1048576).

%% One plan in five is healthy. Leaks: `#{kind, bytes, speed, named}'; speeds in bytes or objects a
%% second.
plan(Seed) ->
    Rand0 = rand:seed_s(exsss, {Seed, 271, 828}),
    {Healthy, Rand1} = {Seed rem 5 =:= 0, Rand0},
    {Looks, Rand2} = some(looks(), 2, 5, Rand1),
    {Leaks, Rand3} = case Healthy of
                         true -> {[], Rand2};
                         false -> some(kinds(), 1, 3, Rand2)
                     end,
    {Planned, _} = lists:mapfoldl(fun draw/2, Rand3, [{leak, K} || K <- Leaks]
                                      ++ [{look, K} || K <- Looks]),
    #{seed => Seed, healthy => Healthy, plan => Planned}.

looks() ->
    [cache, big_state, sawtooth, table_sawtooth, busy, crowd, registry, bursts].

kinds() ->
    [garbage, busy_garbage, router, slices, unmatched, slow, monitors, links, stack, dictionary,
     state, binaries, table, table_of_binaries, tables, processes, orphans, idle_garbage, ports,
     atoms, fragmentation].

some(Of, Least, Most, Rand) ->
    {N, Rand1} = between(Least, Most, Rand),
    {Keyed, Rand2} = lists:mapfoldl(fun(K, R) -> {V, R1} = rand:uniform_s(R), {{V, K}, R1} end,
                                    Rand1, Of),
    {[K || {_, K} <- lists:sublist(lists:sort(Keyed), N)], Rand2}.

between(A, B, Rand) ->
    {V, Rand1} = rand:uniform_s(B - A + 1, Rand),
    {A + V - 1, Rand1}.

draw({Of, Kind}, Rand0) ->
    {Bytes, Rand1} = between(10 * ?MB, 40 * ?MB, Rand0),
    {Speed, Rand2} = between(?MB, 8 * ?MB, Rand1),
    {Period, Rand3} = between(200, 1200, Rand2),
    {Named, Rand4} = between(0, 1, Rand3),
    {#{of_kind => Of, kind => Kind, bytes => Bytes, speed => Speed, period => Period,
       named => Named =:= 1}, Rand4}.

%% Returns what was planted: one of `whats' must be accused, with a kind and a remedy from the
%% lists; `accused' may be accused too.
start(#{plan := Plan}) ->
    Planted = [P#{planted => plant(P)} || #{of_kind := look} = P <- Plan]
        ++ [P#{planted => plant(P)} || #{of_kind := leak} = P <- Plan],
    timer:sleep(300),
    _ = erlang:garbage_collect(),
    Planted.

%% The current size of each leak, as the VM counts it if that is what leaks; `none' if it is not one
%% of memory.
sizes(Planted) ->
    [{Kind, size(Kind, Bytes, Whats)}
     || #{of_kind := leak, kind := Kind, bytes := Bytes, planted := #{whats := Whats}} <- Planted].

size(Kind, Planned, _) when Kind =:= garbage; Kind =:= busy_garbage; Kind =:= router;
                            Kind =:= slices; Kind =:= idle_garbage ->
    Planned;
size(Kind, _, _) when Kind =:= ports; Kind =:= atoms; Kind =:= tables; Kind =:= links;
                      Kind =:= fragmentation ->
    none;
%% A heap may have as much room again as it uses.
size(dictionary, _, [Pid]) ->
    {_, Heap} = process_info(Pid, garbage_collection_info),
    8 * lists:sum([proplists:get_value(Key, Heap) || Key <- [heap_size, old_heap_size, mbuf_size]]);
size(_, _, Whats) ->
    lists:max([0 | [size_of(What) || What <- Whats]]).

size_of({ets, Tab}) ->
    ets:info(Tab, memory) * 8 + lists:sum([Size || {_, Size, _} <- ets:info(Tab, binary)]);
size_of({processes, Call}) ->
    lists:sum([Bytes || Pid <- processes(), {initial_call, C} <- [process_info(Pid, initial_call)],
                        C =:= Call, {memory, Bytes} <- [process_info(Pid, memory)]]);
size_of(Pid) when is_pid(Pid) ->
    [{_, Memory}, {_, Binaries}] = process_info(Pid, [memory, binary]),
    Memory + lists:sum([Size || {_, Size, _} <- lists:usort(Binaries)]);
size_of(_) ->
    0.

%% What lies unused in the carriers of binaries.
unused_for_binaries() ->
    Parts = [Part || {instance, _, All} <- erlang:system_info({allocator_sizes, binary_alloc}), {Kind, Part} <- All,
                     lists:member(Kind, [mbcs, mbcs_pool, sbcs])],
    lists:sum([element(2, lists:keyfind(carriers_size, 1, Part)) || Part <- Parts])
        - lists:sum([element(2, Size) || Part <- Parts, {blocks, Types} <- Part, {_, Figures} <- Types,
                                         Size <- Figures, element(1, Size) =:= size]).

%% ---- processes

%% Waits until the process has built what it is meant to hold.
grown(Fun, Opts, #{named := Named}) ->
    Parent = self(),
    {Pid, Mon} = spawn_opt(fun() -> Fun(fun() -> Parent ! {built, self()} end) end,
                           [monitor | Opts]),
    receive
        {built, Pid} -> true = demonitor(Mon, [flush]);
        {'DOWN', Mon, process, Pid, Why} -> error(Why)
    end,
    _ = [true = register(list_to_atom("n" ++ integer_to_list(erlang:unique_integer([positive]))),
                         Pid) || Named],
    Pid.

%% Linked to another process, as if supervised.
supervised(Fun, Opts, Plan) ->
    Pid = grown(Fun, Opts, Plan),
    _ = spawn(fun() -> link(Pid), idle() end),
    Pid.

idle() -> receive stop -> ok end.

event(Pid) -> fun(I) -> Pid ! {event, I, lists:seq(1, 20)} end.

keep(State) -> receive {stop, Ref} -> exit({Ref, State}) end.

large() -> [{min_heap_size, 12000000}, {min_bin_vheap_size, 100000000}].

tell(Pid, Kinds, Remedies) ->
    #{whats => [Pid], kinds => Kinds, remedies => Remedies, accused => []}.

plant(#{kind := garbage, bytes := Bytes} = P) ->
    tell(supervised(fun(Built) -> _ = lists:seq(1, Bytes div 16), Built(), idle() end, large(), P),
         [garbage], [hibernate]);
%% Works all the time, on a heap that is never collected. On OTP 29, a process that loads a module is collected, so
%% that of sleep/1 is loaded first.
plant(#{kind := busy_garbage, bytes := Bytes} = P) ->
    {module, timer} = code:ensure_loaded(timer),
    tell(supervised(fun(Built) -> _ = lists:seq(1, Bytes div 16), Built(), spin() end, large(), P),
         [garbage], [collect]);
plant(#{kind := router, bytes := Bytes} = P) ->
    Router = supervised(fun(Built) -> Built(), pass_on() end, large(), P),
    Feeder = spawn(fun() -> times(Bytes div 4000,
                                  fun(I) -> Router ! {packet, binary:copy(<<I:32>>, 1000)} end)
                   end),
    ok = ended(Feeder),
    ok = emptied(Router),
    tell(Router, [passed_on_binaries], [hibernate, collect]);
plant(#{kind := slices, bytes := Bytes} = P) ->
    tell(supervised(fun(Built) ->
                            Kept = [slice(I) || I <- lists:seq(1, Bytes div 100000)],
                            erlang:garbage_collect(), Built(), keep(Kept)
                    end, [], P), [pinned_slices], [binary_copy]);
plant(#{kind := unmatched, bytes := Bytes} = P) ->
    Pid = supervised(fun(Built) -> Built(), idle() end, [], P),
    ok = ended(spawn(fun() -> times(Bytes div 400, event(Pid)) end)),
    tell(Pid, [mailbox], [drop_unmatched]);
%% It works, but more messages come.
plant(#{kind := slow, bytes := Bytes} = P) ->
    Pid = supervised(fun(Built) -> Built(), slow(<<0:16000000>>) end, [], P),
    ok = ended(spawn(fun() -> times(Bytes div 400, event(Pid)) end)),
    _ = spawn(fun() -> every(50, fun() -> times(300, event(Pid)) end) end),
    tell(Pid, [mailbox], [batches]);
plant(#{kind := monitors, bytes := Bytes} = P) ->
    Whom = spawn(?MODULE, idle, []),
    Pid = supervised(fun(Built) ->
                             times(Bytes div 120, fun(_) -> monitor(process, Whom) end),
                             erlang:garbage_collect(), Built(), idle()
                     end, [], P),
    tell(Pid, [monitors], [demonitor]);
plant(#{kind := links, speed := Speed} = P) ->
    Pid = supervised(fun(Built) ->
                             times(3000, fun(_) -> spawn_link(?MODULE, idle, []) end),
                             Built(),
                             every(50, fun() -> times(max(10, Speed div 60000),
                                                      fun(_) -> spawn_link(?MODULE, born, []) end)
                                       end)
                     end, [], P),
    #{whats => [Pid, {processes, {?MODULE, born, 0}}, {processes, {?MODULE, idle, 0}}],
      kinds => [links, processes], remedies => [unlink, end_processes], accused => []};
plant(#{kind := stack, bytes := Bytes} = P) ->
    tell(supervised(fun(Built) -> deep(Bytes div 24, Built) end, [], P), [stack], [tail_call]);
plant(#{kind := dictionary, bytes := Bytes} = P) ->
    tell(supervised(fun(Built) ->
                            times(Bytes div 400, fun(I) -> put({key, I}, lists:seq(1, 20)) end),
                            Built(), idle()
                    end, [], P), [dictionary, state], [erase, bound_state]);
plant(#{kind := state, bytes := Bytes, speed := Speed} = P) ->
    tell(supervised(fun(Built) ->
                            State = items(Bytes div 4, 1000),
                            Built(),
                            grow(State, fun(S) -> [items(Speed div 50, 1000) | S] end)
                    end, [], P), [state], [bound_state]);
plant(#{kind := binaries, bytes := Bytes, speed := Speed} = P) ->
    tell(supervised(fun(Built) ->
                            State = [binary:copy(<<1>>, 10000)
                                     || _ <- lists:seq(1, Bytes div 40000)],
                            Built(),
                            grow(State, fun(S) -> [binary:copy(<<2>>, Speed div 50) | S] end)
                    end, [], P), [binaries], [bound_state]);
plant(#{kind := table, bytes := Bytes, speed := Speed} = P) ->
    table(P, fun(I) -> {I, lists:seq(1, 20)} end, Bytes div 1600, max(1, Speed div 8000));
plant(#{kind := table_of_binaries, bytes := Bytes, speed := Speed} = P) ->
    table(P, fun(I) -> {I, binary:copy(<<I:32>>, 250)} end, Bytes div 1000,
          max(1, Speed div 20000));
plant(#{kind := tables} = P) ->
    Pid = grown(fun(Built) -> Built(), every(50, fun() -> _ = ets:new(t, []) end) end, [], P),
    #{whats => [node], kinds => [ets_tables], remedies => [delete_tables], accused => [Pid]};
plant(#{kind := processes, speed := Speed} = P) ->
    Pid = grown(fun(Built) ->
                        times(2000, fun(_) -> spawn(?MODULE, born, []) end),
                        Built(),
                        every(50, fun() -> times(max(10, Speed div 60000),
                                                 fun(_) -> spawn(?MODULE, born, []) end) end)
                end, [], P),
    #{whats => [{processes, {?MODULE, born, 0}}], kinds => [processes, orphans],
      remedies => [end_processes, supervise], accused => [Pid]};
plant(#{kind := orphans, bytes := Bytes}) ->
    times(Bytes div 2800, fun(_) -> spawn(?MODULE, idle, []) end),
    #{whats => [{processes, {?MODULE, idle, 0}}], kinds => [orphans], remedies => [supervise],
      accused => []};
%% Idle connections that each keep what they once needed.
plant(#{kind := idle_garbage, bytes := Bytes}) ->
    Owner = spawn(fun() -> receive start -> ok end,
                           times(Bytes div 100000,
                                 fun(_) -> proc_lib:spawn_link(fun forgetful/0) end),
                           idle() end),
    Owner ! start,
    ok = settled(Owner),
    #{whats => [{processes, {?MODULE, forgetful, 0}}], kinds => [garbage], remedies => [hibernate],
      accused => []};
plant(#{kind := ports} = P) ->
    Pid = grown(fun(Built) -> Built(), every(50, fun() -> {ok, _} = gen_udp:open(0, [local_ip()])
                                                 end) end, [], P),
    #{whats => [node], kinds => [ports], remedies => [close_ports], accused => [Pid]};
plant(#{kind := atoms} = P) ->
    Pid = grown(fun(Built) -> Built(), every(20, fun() -> times(10, fun new_atom/1) end) end,
                [], P),
    #{whats => [node], kinds => [atoms], remedies => [list_to_existing_atom], accused => [Pid]};
%% One in twelve binaries stays in its carrier.
plant(#{kind := fragmentation, bytes := Bytes} = P) ->
    Pid = supervised(fun(Built) ->
                             All = [binary:copy(<<I:32>>, 200)
                                    || I <- lists:seq(1, 5 * Bytes div 800)],
                             Some = [B || <<I:32, _/binary>> = B <- All, I rem 12 =:= 0],
                             erlang:garbage_collect(), Built(), keep(Some)
                     end, [], P),
    #{whats => [node], kinds => [fragmentation], remedies => [allocator_settings],
      accused => [Pid]};

%% ---- harmless

plant(#{kind := cache, bytes := Bytes} = P) ->
    grown(fun(Built) ->
                  Tab = ets:new(cache, [public]),
                  times(Bytes div 400, fun(I) -> ets:insert(Tab, {I, lists:seq(1, 20)}) end),
                  Built(),
                  every(20, fun() -> _ = ets:lookup(Tab, 7), ets:insert(Tab, {7, [7]}) end)
          end, [], P);
plant(#{kind := big_state, bytes := Bytes} = P) ->
    supervised(fun(Built) ->
                       State = items(Bytes, 1000), erlang:garbage_collect(), Built(), keep(State)
               end, [], P);
plant(#{kind := sawtooth, bytes := Bytes, period := Period} = P) ->
    supervised(fun(Built) -> Built(), sawtooth([], Bytes div 2, Period) end, [], P);
plant(#{kind := table_sawtooth, bytes := Bytes, period := Period} = P) ->
    grown(fun(Built) -> Tab = ets:new(buffer, []), Built(), refill(Tab, Bytes div 400, Period) end,
          [], P);
plant(#{kind := busy} = P) ->
    supervised(fun(Built) -> Built(), busy() end, [], P);
plant(#{kind := crowd, bytes := Bytes} = P) ->
    grown(fun(Built) ->
                  times(Bytes div 10000, fun(_) -> spawn_link(fun worker/0) end), Built(), idle()
          end, [], P);
plant(#{kind := registry} = P) ->
    supervised(fun(Built) ->
                       times(3000, fun(_) -> monitor(process, spawn_link(?MODULE, idle, [])) end),
                       Built(), idle()
               end, [], P);
plant(#{kind := bursts, period := Period} = P) ->
    Pid = supervised(fun(Built) -> Built(), slow(<<0>>) end, [], P),
    _ = spawn(fun() -> every(Period, fun() -> times(3000, fun(I) -> Pid ! {event, I, []} end) end)
              end),
    Pid.

%% ---- parts

local_ip() -> {ip, {127, 0, 0, 1}}.

times(N, Fun) when N > 0 -> _ = Fun(N), times(N - 1, Fun);
times(_, _) -> ok.

every(Ms, Fun) ->
    timer:sleep(Ms),
    _ = Fun(),
    every(Ms, Fun).

ended(Pid) ->
    Mon = monitor(process, Pid),
    receive {'DOWN', Mon, process, Pid, _} -> ok end.

emptied(Pid) -> is_told(Pid, {message_queue_len, 0}).

settled(Pid) -> is_told(Pid, {current_function, {?MODULE, idle, 0}}).

is_told(Pid, {Item, _} = Told) ->
    sonde_test:until({Pid, Told}, fun() -> process_info(Pid, Item) =:= Told end).

spin() -> spin(0).

spin(N) ->
    case N rem 20000 of
        0 -> timer:sleep(1);
        _ -> ok
    end,
    spin(N + 1).

pass_on() ->
    receive
        {packet, Packet} ->
            Worker = spawn(fun() -> receive {packet, _} -> ok end end),
            Worker ! {packet, Packet}
    end,
    pass_on().

slice(I) ->
    <<_:10/binary, Slice:70/binary, _/binary>> = binary:copy(<<I:32>>, 25000),
    Slice.

slow(Work) ->
    receive {event, _, _} -> erlang:crc32(Work) end,
    slow(Work).

deep(0, Built) -> Built(), idle(), 0;
deep(N, Built) -> 1 + deep(N - 1, Built).

items(Bytes, Each) ->
    [lists:seq(1, Each div 16) || _ <- lists:seq(1, max(1, Bytes div Each))].

grow(State, Fun) ->
    timer:sleep(20),
    grow(Fun(State), Fun).

table(#{named := Named} = P, Row, First, Each) ->
    Parent = self(),
    Pid = grown(fun(Built) ->
                        Tab = ets:new(rows, [case Named of true -> public; false -> protected end]),
                        Parent ! {table, Tab},
                        times(First, fun(I) -> ets:insert(Tab, Row(I)) end),
                        Built(),
                        fill(Tab, Row, First, Each)
                end, [], P#{named := false}),
    Tab = receive {table, T} -> T end,
    #{whats => [{ets, Tab}], kinds => [ets_table], remedies => [evict], accused => [Pid]}.

fill(Tab, Row, From, Each) ->
    times(Each, fun(I) -> ets:insert(Tab, Row(From + I)) end),
    timer:sleep(50),
    fill(Tab, Row, From + Each, Each).

new_atom(_) -> list_to_atom("a" ++ integer_to_list(erlang:unique_integer([positive]))).

born() -> idle().

forgetful() ->
    _ = lists:seq(1, 6000),
    idle().

%% Live data, all dropped at the end of each period, also on a busy machine.
sawtooth(State, Bytes, Period) ->
    Each = Bytes div max(1, Period div 20),
    Full = until(now_ms() + Period, fun(S) -> [items(Each, 1000) | S] end, State),
    _ = length(Full),
    erlang:garbage_collect(),
    sawtooth([], Bytes, Period).

refill(Tab, Rows, Period) ->
    Each = Rows div max(1, Period div 20),
    _ = until(now_ms() + Period,
              fun(I) -> times(Each, fun(J) -> ets:insert(Tab, {{I, J}, [J]}) end), I + 1 end, 0),
    ets:delete_all_objects(Tab),
    refill(Tab, Rows, Period).

until(End, Fun, State) ->
    case now_ms() < End of
        true -> timer:sleep(20), until(End, Fun, Fun(State));
        false -> State
    end.

now_ms() -> erlang:monotonic_time(millisecond).

busy() ->
    _ = [binary:copy(<<1>>, 1000) || _ <- lists:seq(1, 1000)],
    _ = lists:seq(1, 20000),
    timer:sleep(5),
    busy().

worker() ->
    Kept = lists:seq(1, 200),
    keep(Kept).
