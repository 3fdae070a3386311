%% Faults in a broker, each with the kind of which it must be accused: a slow consumer, a queue that
%% is stuck, one without a consumer, a table of a plugin that leaks. Part of this module runs in the
%% broker.
-module(live_faults).

-export([load/1, all/1]).
-export([slow_consumer/0, filler/1, leak/1]).

-include_lib("amqp_client/include/amqp_client.hrl").

-define(EACH_MS, 5).          % between two messages, to and from
-define(BURST, 100).          % messages at a time: more than the consumer handles
-define(PAYLOAD, 5000).       % bytes of a message
-define(ROWS, 2000).          % of a leak, at a time
-define(ROW_BYTES, 500).

load(Node) ->
    {?MODULE, Code, File} = code:get_object_code(?MODULE),
    erpc:call(Node, code, load_binary, [?MODULE, File, Code]).

%% @doc {Name, Kind, fun((node()) -> {What, fun(() -> ok)})}.
all(Port) ->
    [{"a consumer that is slower than its publishers", mailbox, fun consumer/1},
     {"a queue process that is stuck", mailbox, fun stuck_queue/1},
     {"a queue with publishers and no consumer", binaries,
      fun(Node) -> sleeping_queue(Node, Port) end},
     {"a table of a plugin, from which nothing is deleted", ets_table, fun table/1}].

consumer(Node) ->
    Consumer = spawn(Node, ?MODULE, slow_consumer, []),
    Publisher = spawn(Node, ?MODULE, filler, [Consumer]),
    {Consumer, ended([Publisher, Consumer])}.

slow_consumer() ->
    receive {deliver, _, _} -> timer:sleep(?EACH_MS) end,
    slow_consumer().

filler(Pid) ->
    _ = [Pid ! {deliver, N, rand:bytes(?ROW_BYTES)} || N <- lists:seq(1, ?BURST)],
    timer:sleep(?EACH_MS),
    filler(Pid).

%% A queue process of the broker that is suspended keeps what is published in its mailbox.
stuck_queue(Node) ->
    Pid = declared(Node, <<"sonde.stuck">>),
    ok = erpc:call(Node, sys, suspend, [Pid]),
    Publisher = spawn(Node, ?MODULE, filler, [Pid]),
    {Pid, ended([Publisher, Pid])}.

%% Its messages stay in its memory.
sleeping_queue(Node, Port) ->
    Name = <<"sonde.sleeping">>,
    Pid = declared(Node, Name),
    Publisher = spawn(fun() -> publisher(Port, Name) end),
    {Pid, ended([Publisher, Pid])}.

publisher(Port, Queue) ->
    {ok, Connection} = amqp_connection:start(#amqp_params_network{host = "127.0.0.1",
                                                                  port = Port}),
    {ok, Channel} = amqp_connection:open_channel(Connection),
    publish(Channel, #'basic.publish'{routing_key = Queue}).

publish(Channel, To) ->
    _ = [ok = amqp_channel:call(Channel, To, #amqp_msg{payload = rand:bytes(?PAYLOAD)})
         || _ <- lists:seq(1, ?BURST)],
    timer:sleep(100),
    publish(Channel, To).

declared(Node, Name) ->
    Resource = erpc:call(Node, rabbit_misc, r, [<<"/">>, queue, Name]),
    {_, Queue} = erpc:call(Node, rabbit_amqqueue, declare,
                           [Resource, false, false, [], none, <<"sonde">>]),
    erpc:call(Node, amqqueue, get_pid, [Queue]).

table(Node) ->
    Caller = self(),
    Owner = spawn(Node, ?MODULE, leak, [Caller]),
    Table = receive {Owner, Of} -> Of end,
    {{ets, Table}, ended([Owner])}.

leak(Caller) ->
    Table = ets:new(plugin_sessions, [public]),
    Caller ! {self(), Table},
    leak(Table, 0).

leak(Table, N) ->
    _ = [ets:insert(Table, {{session, I}, os:timestamp(), lists:seq(1, 20)})
         || I <- lists:seq(N, N + ?ROWS)],
    timer:sleep(100),
    leak(Table, N + ?ROWS).

%% Returns what ends them and waits until they are gone.
ended(Pids) ->
    fun() ->
            _ = [begin
                     Ref = monitor(process, Pid),
                     exit(Pid, kill),
                     receive {'DOWN', Ref, _, _, _} -> ok end
                 end || Pid <- Pids],
            ok
    end.
