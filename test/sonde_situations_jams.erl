%% Situations in which processes or ports wait, from field reports: some of them move on, others never do.
-module(sonde_situations_jams).

-export([healthy/0, leaks/0, run/1]).
-export([consumer/1, caller/1, streams/2, peer/2]).

-import(sonde_situations_parts, [server/2, do/2, ask/2, client/2, each/2, between/2, one_of/1, mb/2, named/1,
                                 payload/1, rows/1]).

healthy() -> [waiting_consumers, busy_calls, buffered_stream].

leaks() -> [circle_of_calls, unanswered_calls, peer_reads_nothing].

%% ---- healthy: what waits moves on

%% Consumers wait for a job in a call that the queue answers when there is one. Most of them wait for minutes.
run(waiting_consumers) ->
    Queue = named(server(fun given/2, fun queue:new/0)),
    each(between(30, 200), fun(_) -> proc_lib:spawn_link(?MODULE, consumer, [Queue]) end),
    _ = client(between(20, 200), fun(I) -> gen_server:cast(Queue, {job, I}) end),
    timer:sleep(500);

%% All clients call the same server, which asks another one for each answer.
run(busy_calls) ->
    Store = server(fun(_, State) -> State end, fun() -> rows(100) end),
    Server = named(server(fun(_, State) -> State end, fun() -> 0 end)),
    Ask = fun(_) -> do(Server, fun(N) -> {do(Store, fun(Rows) -> {length(Rows), Rows} end), N + 1} end) end,
    each(between(20, 100), fun(_) -> client(between(2, 20), Ask) end),
    timer:sleep(500);

%% A sender may queue some megabytes, and always does; its peer reads all of them within a second.
run(buffered_stream) ->
    Pause = between(20, 50),
    {Sender, _} = sender(mb(8, 14), fun(Socket) -> reads(Socket, Pause) end),
    _ = proc_lib:spawn_link(?MODULE, streams, [Sender, payload(between(65536, 262144))]),
    timer:sleep(2000);

%% ---- leaks: nothing moves

%% Each of them calls the next one to answer a request, and the last one the first.
run(circle_of_calls) ->
    Ask = fun({next, Next}, N) -> receive go -> ok = do(Next, fun(M) -> {ok, M} end), N + 1 end end,
    [First | Others] = Circle = [named(server(Ask, fun() -> 0 end)) || _ <- rows(between(2, 5))],
    _ = [gen_server:cast(Pid, {next, Next}) || {Pid, Next} <- lists:zip(Circle, Others ++ [First])],
    _ = [Pid ! go || Pid <- Circle],
    callers(between(0, 100), one_of(Circle)),
    jammed(Circle, deadlock, break_circle, none);

%% A server waits for an answer from elsewhere, or for another server that does, and its clients wait for it.
run(unanswered_calls) ->
    Waits = one_of([fun waits_for_a_peer/0, fun waits_for_a_message/0]),
    Last = server(fun(_, State) -> Waits(), State end, fun() -> none end),
    ok = gen_server:cast(Last, request),
    Server = one_of([fun() -> Last end, fun() -> asks(Last) end]),
    Asked = named(Server()),
    callers(between(25, 300), Asked),
    jammed([Asked], bottleneck, unblock, none);

%% A client asked for a lot, and stopped reading. The sender may queue much more than that.
run(peer_reads_nothing) ->
    {Sender, Port} = sender(mb(60, 90), fun(_) -> timer:sleep(infinity) end),
    Size = mb(1, 2) div 50,
    Bytes = mb(16, 30),
    ok = filled(Sender, Port, Size, Bytes),
    _ = client(20, fun(_) -> gen_server:cast(Sender, {part, payload(Size)}) end),
    jammed([Sender], port_queue, slow_peer, Bytes).

jammed(Whats, Kind, Remedy, Bytes) ->
    #{whats => Whats, kinds => [Kind], remedies => [Remedy], bytes => Bytes}.

%% ---- calls

given({ask, job, Consumer}, Consumers) ->
    queue:in(Consumer, Consumers);
given({job, _} = Job, Consumers) ->
    case queue:out(Consumers) of
        {{value, Consumer}, Others} -> ok = gen_server:reply(Consumer, Job), Others;
        {empty, _} -> Consumers
    end.

consumer(Queue) ->
    {job, I} = ask(Queue, job),
    _ = lists:sort(rows(I rem 1000)),
    consumer(Queue).

caller(Server) ->
    _ = do(Server, fun(State) -> {ok, State} end),
    caller(Server).

callers(N, Server) ->
    each(N, fun(_) -> proc_lib:spawn_link(?MODULE, caller, [Server]) end),
    timer:sleep(500).

asks(Other) ->
    Server = server(fun(_, State) -> do(Other, fun(S) -> {ok, S} end), State end, fun() -> none end),
    ok = gen_server:cast(Server, request),
    Server.

waits_for_a_message() ->
    receive {answer, Answer} -> Answer end.

waits_for_a_peer() ->
    {Listen, Number} = listening([]),
    _ = proc_lib:spawn_link(?MODULE, peer, [Number, fun(_) -> timer:sleep(infinity) end]),
    {ok, Socket} = gen_tcp:accept(Listen),
    gen_tcp:recv(Socket, 0).

%% ---- connections

%% A server that sends parts to a peer; up to Most bytes may wait in its port.
sender(Most, Peer) ->
    {Listen, Number} = listening([{high_watermark, Most}, {low_watermark, Most div 2}]),
    _ = proc_lib:spawn_link(?MODULE, peer, [Number, Peer]),
    {ok, Socket} = gen_tcp:accept(Listen),
    Sender = named(server(fun({part, Part}, S) -> ok = gen_tcp:send(S, Part), S end, fun() -> Socket end)),
    ok = gen_tcp:controlling_process(Socket, Sender),
    {Sender, Socket}.

listening(Opts) ->
    {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, binary, {active, false} | Opts]),
    {ok, Number} = inet:port(Listen),
    {Listen, Number}.

peer(Number, Peer) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Number, [binary, {active, false}]),
    Peer(Socket).

reads(Socket, Pause) ->
    {ok, _} = gen_tcp:recv(Socket, 1048576),
    timer:sleep(Pause),
    reads(Socket, Pause).

streams(Sender, Part) ->
    ok = do(Sender, fun(Socket) -> {gen_tcp:send(Socket, Part), Socket} end),
    streams(Sender, Part).

filled(Sender, Port, Size, Bytes) ->
    case erlang:port_info(Port, queue_size) of
        {queue_size, Queued} when Queued >= Bytes ->
            ok;
        _ ->
            ok = do(Sender, fun(Socket) -> {gen_tcp:send(Socket, payload(Size)), Socket} end),
            filled(Sender, Port, Size, Bytes)
    end.
