%% Plants five leaks, as seen in production, in the node that this runs on. The names of the
%% processes describe the leaks, so the rows of sonde's answers explain themselves.
-module(sonde_demo_leaks).

-export([sizes/0, plant/1, hold_up/1]).
-export([router/0, slices/1, unread/0, owner/2, sessions/2]).
-export_type([sizes/0]).

-type sizes() :: #{routed | slices | unread | cached | sessions := pos_integer()}.

%% @doc Random sizes for the leaks.
-spec sizes() -> sizes().
sizes() ->
    #{routed => between(20000, 40000),
      slices => between(200, 400),
      unread => between(30000, 60000),
      cached => between(20000, 40000),
      sessions => between(5000, 10000)}.

%% @doc Plants leaks of these sizes. Returns when they are there and no process is busy.
-spec plant(sizes()) -> ok.
plant(#{routed := Routed, slices := Slices, unread := Unread, cached := Cached,
        sessions := Sessions}) ->
    ok = plant_router(Routed),
    ok = plant_slices(Slices),
    ok = plant_mailbox(Unread),
    ok = plant_cache(Cached),
    ok = plant_sessions(Sessions).

%% ---- a router: the binaries only pass through it, and yet it refers to all of them

%% Its heap is large, like that of a process that was busy once, or is tuned to collect rarely. Now
%% it is idle, so nothing makes it collect.
plant_router(Count) ->
    Router = spawn_opt(?MODULE, router, [],
                       [{min_heap_size, 1000000}, {min_bin_vheap_size, 2000000}]),
    true = register(demo_router, Router),
    for_a_while(fun() -> times(Count, fun(I) -> Router ! {route, payload(I)} end) end),
    still(Router).

-spec router() -> no_return().
router() ->
    receive
        {route, Payload} ->
            Worker = spawn(fun worker/0),
            Worker ! {work, Payload}
    end,
    router().

worker() ->
    receive {work, Payload} -> erlang:crc32(Payload) end.

%% ---- a process that keeps a few bytes of each large binary, and so all of it

plant_slices(Count) ->
    Slices = spawn(?MODULE, slices, [[]]),
    true = register(demo_slices, Slices),
    for_a_while(fun() -> times(Count, fun(I) -> Slices ! {packet, packet(I)} end) end),
    still(Slices).

%% The fix would be binary:copy(Header).
-spec slices([binary()]) -> no_return().
slices(Headers) ->
    receive
        {packet, <<_Version:32, Header:80/binary, _/binary>>} -> slices([Header | Headers])
    end.

%% ---- a mailbox that is never read

plant_mailbox(Count) ->
    Unread = spawn(?MODULE, unread, []),
    true = register(demo_mailbox, Unread),
    for_a_while(fun() -> times(Count, fun(I) -> Unread ! {event, I, lists:seq(1, 40)} end) end),
    still(Unread).

-spec unread() -> no_return().
unread() ->
    receive never_sent -> unread() end.

%% ---- an ETS table that only grows

%% The writer ends at once, and the owner never reads the table: no process refers to its contents.
plant_cache(Count) ->
    Parent = self(),
    Owner = spawn(?MODULE, owner, [Parent, Count]),
    receive {Owner, ready} -> ok end.

-spec owner(pid(), pos_integer()) -> no_return().
owner(Parent, Count) ->
    true = register(demo_cache, self()),
    Table = ets:new(demo_cache, [named_table, public]),
    for_a_while(fun() -> times(Count, fun(I) -> ets:insert(Table, {I, page(I)}) end) end),
    Parent ! {self(), ready},
    grow(Table, Count).

%% The table keeps growing slowly while sonde looks.
grow(Table, Last) ->
    timer:sleep(20),
    for_a_while(fun() -> ets:insert(Table, {Last + 1, page(Last + 1)}) end),
    grow(Table, Last + 1).

%% ---- a server that never forgets a session; all its data is one key of its dictionary

plant_sessions(Count) ->
    Parent = self(),
    Sessions = spawn(?MODULE, sessions, [Parent, Count]),
    receive {Sessions, ready} -> ok end,
    still(Sessions).

-spec sessions(pid(), pos_integer()) -> no_return().
sessions(Parent, Count) ->
    true = register(demo_sessions, self()),
    put(sessions, maps:from_list([{I, session(I)} || I <- lists:seq(1, Count)])),
    true = garbage_collect(),
    Parent ! {self(), ready},
    grow_sessions(Count).

%% Adds a session every second.
grow_sessions(Last) ->
    receive never_sent -> ok
    after 1000 ->
        put(sessions, (get(sessions))#{Last + 1 => session(Last + 1)})
    end,
    grow_sessions(Last + 1).

session(I) -> {session, I, [{seen, I + N} || N <- lists:seq(1, 10)]}.

%% ---- no leak: callers who wait for one that waits itself

%% @doc So many customers wait for `demo_orders', and it for `demo_stock', which waits for nobody.
-spec hold_up(pos_integer()) -> ok.
hold_up(Customers) ->
    Stock = spawn(fun() -> receive never -> ok end end),
    true = register(demo_stock, Stock),
    Orders = spawn(fun() ->
                           receive {'$gen_call', From, Order} ->
                                   gen:reply(From, gen:call(demo_stock, '$gen_call', Order, infinity))
                           end
                   end),
    true = register(demo_orders, Orders),
    Pids = [spawn(fun() -> gen_server:call(demo_orders, {order, I}, infinity) end)
            || I <- lists:seq(1, Customers)],
    lists:foreach(fun still/1, [Orders, lists:last(Pids)]).

%% ---- what they leak

%% A binary of more than 64 bytes lives outside the heaps and is counted by reference.
payload(I) -> binary:copy(<<I:32>>, between(17, 40)).
packet(I) -> binary:copy(<<I:32>>, between(24 * 1024, 32 * 1024)).
page(I) -> binary:copy(<<I:32>>, between(100, 400)).

%% ---- helpers

between(Low, High) -> Low + rand:uniform(High - Low + 1) - 1.

times(0, _) -> ok;
times(N, Fun) -> Fun(N), times(N - 1, Fun).

%% Runs in a process of its own, so that this one keeps no reference.
for_a_while(Fun) ->
    {Pid, Ref} = spawn_monitor(Fun),
    receive {'DOWN', Ref, process, Pid, normal} -> ok end.

%% Waits until the process has handled its messages and waits for more.
still(Pid) ->
    {reductions, Before} = process_info(Pid, reductions),
    timer:sleep(30),
    case process_info(Pid, [reductions, status]) of
        [{reductions, Before}, {status, waiting}] -> ok;
        _ -> still(Pid)
    end.
