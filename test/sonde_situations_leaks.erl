%% Leaks as field reports describe them. `run/2' returns when a leak has its size: what may be
%% accused of it, with which kinds and remedies. Each goes on as it would on a real node.
-module(sonde_situations_leaks).

-export([names/0, run/2, follow/3]).
-export([waits/0, request/1, connection/1, connected/0, recursion/1]).

-import(sonde_situations_parts, [server/2, server/3, do/2, memory/1, held_binaries/1, client/2,
                                 rested/1, each/2, between/2, one_of/1, mb/2, named/1, session/1,
                                 payload/1, rows/1]).

names() ->
    [growing_state, subscribed_twice, timers_not_cancelled, dictionary_cache, late_replies,
     late_replies_beside_work, slow_consumer, slow_consumer_of_slow_database, pinned_keys_in_state,
     pinned_keys_in_growing_table, pinned_keys_in_bounded_table, idle_router, busy_router,
     sessions_table, payloads_table, monitors_kept, requests_that_hang, tables_per_request,
     atoms_from_input, sockets_left_open, report_garbage, dropped_index, idle_connections,
     recursion_without_end, fragmented_by_purge, timers_without_end, stuck_log, near_its_limit,
     terms_of_tenants, list_in_a_term].

%% ---- states that grow

%% A session for each login, and no logout.
run(growing_state, Opts) ->
    First = mb(16, 40) div 400,
    Each = mb(1, 4) div 50 div 400,
    Login = fun(I, State) -> State#{I => session(I)} end,
    Server = named(server(fun({login, I}, State) -> Login(I, State) end,
                          fun() -> built(First, Login, #{}) end, Opts)),
    Logins = fun(I) -> each(Each, fun(J) -> gen_server:cast(Server, {login, First + I * Each + J})
                                  end) end,
    _ = client(20, Logins),
    of_process(Server, [state], [bound_state]);

%% Clients subscribe again at each reconnect, and stay in the list as often.
run(subscribed_twice, Opts) ->
    Bytes = mb(16, 30),
    Clients = list_to_tuple([proc_lib:spawn_link(?MODULE, waits, []) || _ <- rows(between(5, 50))]),
    Subscribe = fun(I, Subs) ->
                        [#{id => I, pid => element(I rem tuple_size(Clients) + 1, Clients),
                           topic => <<"news">>, level => at_least_once} | Subs]
                end,
    Server = named(server(fun({subscribe, I}, Subs) -> Subscribe(I, Subs) end,
                          fun() -> built(Bytes div 100, Subscribe, []) end, Opts)),
    Each = between(20, 200),
    _ = client(20, fun(_) -> each(Each, fun(I) -> gen_server:cast(Server, {subscribe, I}) end) end),
    of_process(Server, [state], [bound_state]);

%% A request waits for a timeout of an hour, although the answer came long ago.
run(timers_not_cancelled, Opts) ->
    Bytes = mb(16, 30),
    Each = mb(1, 3) div 50 div 500,
    Ask = fun(I, State) -> State#{erlang:start_timer(3600000, self(), I) => session(I)} end,
    Server = named(server(fun({ask, I}, State) -> Ask(I, State) end,
                          fun() -> built(Bytes div 500, Ask, #{}) end, Opts)),
    _ = client(20, fun(_) -> each(Each, fun(I) -> gen_server:cast(Server, {ask, I}) end) end),
    #{whats := Whats} = Planted = of_process(Server, [state, timers], [bound_state, cancel_started]),
    Planted#{whats := [node | Whats]};

%% The same, but nothing refers to the timers.
run(timers_without_end, Opts) ->
    Each = mb(1, 3) div 50 div 152,
    Server = named(server(fun({ask, I}, N) -> _ = erlang:send_after(3600000, self(), {timeout, I}), N + 1 end,
                          fun() -> 0 end, Opts)),
    _ = client(20, fun(_) -> each(Each, fun(I) -> gen_server:cast(Server, {ask, I}) end) end),
    (accuse([node], [timers], [cancel_started], none))#{accused => [Server]};

%% Its heap has nearly come to its limit.
run(near_its_limit, Opts) ->
    Rows = mb(4, 30) div 400,
    Server = named(server(fun(_, State) -> State end,
                          fun() -> built(Rows, fun(I, S) -> S#{I => session(I)} end, #{}) end, Opts)),
    true = erlang:garbage_collect(Server),
    {_, Words} = process_info(Server, total_heap_size),
    ok = do(Server, fun(State) ->
                            _ = process_flag(max_heap_size, #{size => Words + Words div between(10, 20), kill => true,
                                                              error_logger => false}),
                            {ok, State}
                    end),
    accuse([Server], [max_heap], [heap_limit], none);

%% Results are kept in the process dictionary.
run(dictionary_cache, Opts) ->
    Bytes = mb(16, 40),
    Each = mb(1, 3) div 50 div 400,
    Keep = fun(Key, N) -> _ = put({cached, Key}, session(N)), N + 1 end,
    Server = named(server(fun({asked, Key}, N) -> Keep(Key, N) end,
                          fun() -> built(Bytes div 400, Keep, 0) end, Opts)),
    Asks = fun(I) -> each(Each, fun(J) -> gen_server:cast(Server, {asked, {I, J}}) end) end,
    _ = client(20, Asks),
    of_process(Server, [dictionary, state], [erase, bound_state]);

%% The call to itself is not the last one, so each event leaves a frame.
run(recursion_without_end, Opts) ->
    Bytes = mb(12, 24),
    Pid = named(proc_lib:spawn_opt(?MODULE, recursion, [0], [link | Opts])),
    each(Bytes div 16, fun(I) -> Pid ! {event, I} end),
    ok = rested(Pid),
    Each = between(10, 100),
    _ = client(20, fun(_) -> each(Each, fun(I) -> Pid ! {event, I} end) end),
    {stack_size, Words} = process_info(Pid, stack_size),
    accuse([Pid], [stack], [tail_call], 8 * Words);

%% ---- mailboxes

%% Answers that came after the timeout of their call. No clause takes them.
run(late_replies, Opts) ->
    {Pid, Bytes} = late_replies(Opts),
    accuse([Pid], [mailbox], [drop_unmatched], Bytes);
run(late_replies_beside_work, Opts) ->
    {Pid, Bytes} = late_replies(Opts),
    Ask = fun(_) -> Pid ! {work, self(), 1}, receive {done, _} -> ok end end,
    _ = client(between(50, 200), Ask),
    accuse([Pid], [mailbox], [drop_unmatched], Bytes);

%% More orders come than it can compress.
run(slow_consumer, Opts) ->
    Orders = term_to_binary([rand:uniform(1 bsl 40) || _ <- lists:seq(1, between(10000, 40000))]),
    consumer(fun() -> zlib:compress(Orders) end, Opts);

%% It does nothing but wait for the answers of a database.
run(slow_consumer_of_slow_database, Opts) ->
    Takes = between(5, 15),
    Database = server(fun(_, State) -> State end, fun() -> none end),
    consumer(fun() -> do(Database, fun(S) -> timer:sleep(Takes), {ok, S} end) end, Opts);

%% The device of a log is stuck, and those who log go on.
run(stuck_log, _) ->
    Device = proc_lib:spawn_link(?MODULE, waits, []),
    _ = logger:remove_handler(default),
    ok = logger:add_handler(orders, logger_std_h, #{config => #{type => {device, Device}}}),
    Size = between(20, 200),
    Log = fun(I) -> logger:notice(#{what => order, id => I, items => rows(Size)}) end,
    each(mb(8, 20) div (48 * Size), Log),
    _ = client(between(10, 50), Log),
    accuse([whereis(logger_std_h_orders)], [log_queue], [log_less], none);

%% ---- binaries

%% A short key of each packet is kept, and with it the whole packet. The number of keys is bounded.
run(pinned_keys_in_state, Opts) ->
    Size = between(20000, 120000),
    Slots = mb(16, 40) div Size,
    Keep = fun(I, {Copy, Keys}) -> {Copy, Keys#{I rem Slots => Copy(key(payload(Size)))}} end,
    Server = named(server(fun({packet, I}, State) -> Keep(I, State) end,
                          fun() -> built(Slots, Keep, {fun(Key) -> Key end, #{}}) end, Opts)),
    true = erlang:garbage_collect(Server),
    _ = client(between(30, 100), fun(I) -> gen_server:cast(Server, {packet, I}) end),
    (accuse([Server], [pinned_slices], [binary_copy], Slots * Size))#{server => Server};

%% The same in a table, without a bound and with one.
run(pinned_keys_in_growing_table, _) ->
    Size = between(20000, 100000),
    {Tab, Owner} = pinned_table(Size, mb(16, 40) div Size, infinity, between(30, 60)),
    of_table(Tab, Owner, [ets_table, pinned_slices], [evict, binary_copy]);
run(pinned_keys_in_bounded_table, _) ->
    Size = between(20000, 100000),
    Slots = mb(16, 40) div Size,
    {Tab, Owner} = pinned_table(Size, Slots, Slots, between(30, 100)),
    of_table(Tab, Owner, [pinned_slices], [binary_copy]);

%% It passed packets on after it had waited for the next node. Nothing makes it collect now.
run(idle_router, Opts) ->
    Router = router(Opts),
    Bytes = burst(Router),
    (accuse([Router], [passed_on_binaries, garbage], [hibernate], Bytes))#{server => Router};

%% The same, but many small messages pass through it, then and now: they promote the references to
%% the old part of its heap.
run(busy_router, Opts) ->
    Router = router(Opts),
    _ = client(between(3, 10), fun(I) -> gen_server:cast(Router, {ping, I}) end),
    Bytes = burst(Router),
    accuse([Router], [passed_on_binaries, garbage], [fullsweep_after], Bytes);

%% ---- garbage

%% It made a large report once, and has had nothing to do since.
run(report_garbage, Opts) ->
    Rows = mb(16, 40) div 400,
    Server = named(server(fun(_, State) -> State end, fun() -> #{reports => 0} end, Opts)),
    _ = do(Server, fun(State) -> {report(Rows), State} end),
    (accuse([Server], [garbage], [hibernate], 320 * Rows))#{server => Server};

%% It had an index for hours, so that all of it came to the old part of its heap, and dropped it.
%% Small requests never make it collect that part.
run(dropped_index, Opts) ->
    Rows = mb(16, 40) div 400,
    Server = named(server(fun({request, I}, State) -> _ = lists:reverse(rows(I rem 100)), State end,
                          fun() -> none end, Opts)),
    Index = fun(_) -> {ok, built(Rows, fun(I, S) -> S#{I => session(I)} end, #{})} end,
    ok = do(Server, Index),
    _ = [true = erlang:garbage_collect(Server, [{type, minor}]) || _ <- [1, 2, 3]],
    ok = do(Server, fun(_) -> {ok, none} end),
    _ = client(between(3, 10), fun(I) -> gen_server:cast(Server, {request, I}) end),
    timer:sleep(1500),
    accuse([Server], [garbage], [fullsweep_after], 320 * Rows);

%% Idle connections; each keeps what its handshake needed.
run(idle_connections, _) ->
    Each = between(100, 300),
    Number = mb(16, 40) div (400 * Each),
    Pids = [proc_lib:spawn_link(?MODULE, connection, [Each]) || _ <- lists:seq(1, max(60, Number))],
    lists:foreach(fun sonde_situations_parts:rested/1, Pids),
    (accuse([{processes, {?MODULE, connection, 1}}], [garbage], [hibernate],
            320 * Each * length(Pids)))#{accused => Pids, pids => Pids};

%% ---- tables

run(sessions_table, _) ->
    Items = between(5, 40),
    Row = fun(I) -> {I, <<"token", I:64>>, rows(Items)} end,
    {Tab, Owner} = growing_table(Row, mb(16, 40) div (80 + 48 * Items),
                                 max(1, mb(1, 3) div 50 div (80 + 48 * Items))),
    of_table(Tab, Owner, [ets_table], [evict]);
run(payloads_table, _) ->
    Size = between(200, 5000),
    {Tab, Owner} = growing_table(fun(I) -> {I, payload(Size)} end, mb(16, 40) div Size,
                                 max(1, mb(1, 3) div 50 div Size)),
    of_table(Tab, Owner, [ets_table], [evict]);

%% A table for each request. The owner lives on, and so do the tables.
run(tables_per_request, _) ->
    Server = named(server(fun({request, I}, N) ->
                                  true = ets:insert(ets:new(request, []), {id, I}), N + 1
                          end, fun() -> 0 end)),
    each(between(50, 500), fun(I) -> gen_server:cast(Server, {request, I}) end),
    _ = client(between(20, 50), fun(I) -> gen_server:cast(Server, {request, I}) end),
    ok = rested(Server),
    (accuse([node], [ets_tables], [delete_tables], none))#{accused => [Server]};

%% ---- processes

%% One process for each request; the answer that it waits for never comes.
run(requests_that_hang, _) ->
    Start = one_of([fun proc_lib:spawn/3, fun proc_lib:spawn_link/3]),
    Items = between(50, 200),
    Each = between(2, 8),
    New = fun(_) -> each(Each, fun(_) -> Start(?MODULE, request, [Items]) end) end,
    Acceptor = named(client(20, New)),
    each(mb(16, 30) div (3000 + 48 * Items), fun(_) -> Start(?MODULE, request, [Items]) end),
    (accuse([{processes, {?MODULE, request, 1}}], [processes, orphans, links],
            [end_processes, supervise, unlink], mb(16, 16)))#{accused => [Acceptor, self()]};

%% A monitor for each request of the same few clients.
run(monitors_kept, Opts) ->
    Clients = [proc_lib:spawn_link(?MODULE, waits, []) || _ <- rows(between(1, 5))],
    Ask = fun(Client, N) -> _ = monitor(process, Client), N + 1 end,
    Number = between(180000, 300000),
    Server = named(server(fun({ask, Client}, N) -> Ask(Client, N) end,
                          fun() -> lists:foldl(Ask, 0, lists:append(lists:duplicate(
                                               Number div length(Clients), Clients))) end, Opts)),
    true = erlang:garbage_collect(Server),
    Each = between(10, 40),
    _ = client(20, fun(_) -> each(Each, fun(_) -> gen_server:cast(Server, {ask, hd(Clients)}) end)
                   end),
    accuse([Server], [monitors], [demonitor], memory(Server));

%% ---- limits

run(atoms_from_input, _) ->
    Each = between(3, 20),
    Input = fun(_) -> "user_" ++ integer_to_list(erlang:unique_integer([positive])) end,
    Pid = named(client(20, fun(_) -> each(Each, fun(I) -> list_to_atom(Input(I)) end) end)),
    (accuse([node], [atoms], [list_to_existing_atom], none))#{accused => [Pid]};

%% A server that never closes the connections of clients that went silent.
run(sockets_left_open, _) ->
    {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, binary]),
    {ok, Port} = inet:port(Listen),
    Server = proc_lib:spawn_link(fun() -> accepting(Listen) end),
    Client = named(client(between(20, 60),
                          fun(_) -> {ok, _} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary]) end)),
    timer:sleep(1000),
    (accuse([node], [ports], [close_ports], none))#{accused => [Server, Client]};

%% The settings of each tenant are a persistent term, which stays when the tenant has left.
run(terms_of_tenants, _) ->
    Settings = maps:from_list([{{setting, I}, I} || I <- lists:seq(1, between(20, 200))]),
    Bytes = mb(16, 30),
    Each = 8 * erts_debug:flat_size(Settings),
    Put = fun(I) -> ok = persistent_term:put({tenant, I}, Settings) end,
    each(Bytes div Each, Put),
    New = max(1, mb(1, 3) div 50 div Each),
    _ = named(client(20, fun(I) -> each(New, fun(J) -> Put({I, J}) end) end)),
    accuse([node], [persistent_terms], [erase_terms], Bytes);

%% Blocked addresses are one persistent term. When some are added, a longer list replaces it.
run(list_in_a_term, _) ->
    Bytes = mb(8, 16),
    Put = fun(Rows) -> ok = persistent_term:put(blocked, rows(Rows)) end,
    Row = 8 * erts_debug:flat_size(rows(1)),
    New = mb(1, 3) div 20 div Row,
    Put(Bytes div Row),
    _ = named(client(50, fun(I) -> Put(Bytes div Row + I * New) end)),
    accuse([node], [persistent_values], [bound_values], Bytes);

%% Most rows of a table were deleted; the others keep the memory from being returned.
run(fragmented_by_purge, _) ->
    Rows = mb(90, 130) div 2000,
    Kept = between(12, 20),
    Tab = ets:new(archive, [public]),
    each(Rows, fun(I) -> ets:insert(Tab, {I, payload(between(1000, 3000))}) end),
    each(Rows, fun(I) -> I rem Kept =:= 0 orelse ets:delete(Tab, I) end),
    true = erlang:garbage_collect(),
    accuse([node], [fragmentation], [allocator_settings], none).

accuse(Whats, Kinds, Remedies, Bytes) ->
    #{whats => Whats, kinds => Kinds, remedies => Remedies, bytes => Bytes}.

%% What is live in a server counts.
of_process(Server, Kinds, Remedies) ->
    true = erlang:garbage_collect(Server),
    accuse([Server], Kinds, Remedies, memory(Server)).

of_table(Tab, Owner, Kinds, Remedies) ->
    Binaries = lists:sum([Size || {_, Size, _} <- lists:ukeysort(1, ets:info(Tab, binary))]),
    (accuse([{ets, Tab}], Kinds, Remedies, ets:info(Tab, memory) * 8 + Binaries))
        #{accused => [Owner]}.

%% ---- following a remedy

follow(_, #{pids := Pids}, hibernate) ->
    _ = [Pid ! hibernate || Pid <- Pids],
    sonde_test:until(hibernated, fun() -> lists:all(fun is_hibernated/1, Pids) end);
follow(_, #{server := Server}, hibernate) ->
    ok = gen_server:call(Server, hibernate),
    sonde_test:until(hibernated, fun() -> is_hibernated(Server) end);
follow(pinned_keys_in_state, #{server := Server}, binary_copy) ->
    Copy = fun binary:copy/1,
    Copies = fun(Keys) -> maps:map(fun(_, Key) -> Copy(Key) end, Keys) end,
    ok = do(Server, fun({_, Keys}) -> {ok, {Copy, Copies(Keys)}} end),
    true = erlang:garbage_collect(Server),
    ok;
%% Who copies each key before it is stored; until then nothing is stored.
follow(pinned_keys_in_bounded_table, #{whats := [{ets, Tab}], accused := [Writer]}, binary_copy) ->
    Self = self(),
    Holder = spawn(fun() ->
                           true = erlang:suspend_process(Writer),
                           Self ! {self(), suspended},
                           timer:sleep(infinity)
                   end),
    receive {Holder, suspended} -> ok end,
    _ = [true = ets:insert(Tab, {Slot, binary:copy(Key)}) || {Slot, Key} <- ets:tab2list(Tab)],
    ok.

%% From OTP 28 on, a gen_server hibernates with its stack.
is_hibernated(Pid) ->
    {_, {Module, Function, _}} = process_info(Pid, current_function),
    lists:member({Module, Function}, [{erlang, hibernate}, {gen_server, loop_hibernate}]).

%% ---- parts

%% The state after N requests.
built(N, Next, State) ->
    lists:foldl(Next, State, lists:seq(1, N)).

waits() ->
    receive
        {work, From, N} -> From ! {done, N}, waits()
    end.

recursion(N) ->
    receive
        {event, I} ->
            Sum = recursion(N + I),
            Sum + I;
        stop ->
            N
    end.

late_replies(Opts) ->
    Rows = between(10, 60),
    Number = mb(16, 40) div (48 * Rows),
    Pid = named(proc_lib:spawn_opt(?MODULE, waits, [], [link | Opts])),
    each(Number, fun(_) -> Pid ! {make_ref(), {ok, rows(Rows)}} end),
    _ = client(between(10, 50), fun(_) -> Pid ! {make_ref(), {ok, rows(Rows)}} end),
    {Pid, 48 * Rows * Number}.

%% Two to four times as many orders come as it can do. A backlog is there already.
consumer(Work, Opts) ->
    Rows = between(10, 40),
    Number = mb(16, 40) div (48 * Rows),
    Order = fun(Server) -> fun(I) -> gen_server:cast(Server, {order, I, rows(Rows)}) end end,
    Server = named(server(fun({order, _, _}, N) -> _ = Work(), N + 1 end, fun() -> 0 end, Opts)),
    {Micros, _} = timer:tc(fun() -> each(10, fun(_) -> Work() end) end),
    each(Number, Order(Server)),
    Each = between(2, 4) * 20 * 10000 div Micros + 1,
    _ = client(20, fun(_) -> each(Each, Order(Server)) end),
    accuse([Server], [mailbox], [batches], 48 * Rows * Number).

key(<<_:16/binary, Key:80/binary, _/binary>>) -> Key.

pinned_table(Size, First, Slots, Pause) ->
    Tab = ets:new(sources, [public]),
    Insert = fun(I) -> true = ets:insert(Tab, {slot(I, Slots), key(payload(Size))}) end,
    each(First, Insert),
    {Tab, named(client(Pause, fun(I) -> Insert(First + I) end))}.

slot(I, infinity) -> I;
slot(I, Slots) -> I rem Slots.

growing_table(Row, First, Each) ->
    Tab = ets:new(rows, [public]),
    each(First, fun(I) -> ets:insert(Tab, Row(I)) end),
    {Tab, named(client(20, fun(I) -> each(Each, fun(J) -> ets:insert(Tab, Row(First + I * Each + J))
                                                end) end))}.

router(Opts) ->
    Take = fun({packet, P}, Sum) -> Crc = erlang:crc32(Sum, P), erlang:garbage_collect(), Crc end,
    Next = server(Take, fun() -> 0 end),
    named(server(fun routed/2, fun() -> Next end, Opts)).

%% Bursts of packets come while the router waits for the next node, until it refers to as many
%% bytes as one burst has after it passed all of them on. With some settings it never does.
burst(Router) ->
    Size = between(2000, 80000),
    Packets = mb(16, 40) div Size,
    ok = burst(Router, Size, Packets, 10),
    min(Size * Packets, held_binaries(Router)).

burst(_, _, _, 0) ->
    ok;
burst(Router, Size, Packets, Times) ->
    gen_server:cast(Router, {wait, 300}),
    each(Packets, fun(_) -> gen_server:cast(Router, {packet, payload(Size)}) end),
    timer:sleep(300),
    ok = do(Router, fun(Next) -> {ok, Next} end),
    timer:sleep(500),
    case held_binaries(Router) >= Size * Packets of
        true -> ok;
        false -> burst(Router, Size, Packets, Times - 1)
    end.

routed({wait, Ms}, Next) -> timer:sleep(Ms), Next;
routed({packet, _} = Packet, Next) -> gen_server:cast(Next, Packet), Next;
routed({ping, I}, Next) -> _ = lists:sort(rows(I rem 200)), Next.

report(Rows) ->
    Sessions = [session(I) || I <- lists:seq(1, Rows)],
    Largest = lists:max([Id || #{id := Id} <- Sessions]),
    {length(Sessions), Largest}.

request(Items) ->
    Request = rows(Items),
    receive {answer, Answer} -> {Request, Answer} end.

connection(Each) ->
    Handshake = [session(I) || I <- lists:seq(1, Each)],
    Each = length(Handshake),
    connected().

connected() ->
    receive
        hibernate -> proc_lib:hibernate(?MODULE, connected, [])
    end.

accepting(Listen) ->
    {ok, _} = gen_tcp:accept(Listen),
    accepting(Listen).
