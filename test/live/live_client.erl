%% One AMQP client: a connection with a channel that publishes and one that consumes, and some
%% queues of its own. Each message has the number of its queue, a number of its own that counts up,
%% random bytes and a checksum. The client remembers what it published until that is confirmed, and
%% accepts deliveries only in the order and shape in which they were published: anything else is a
%% fault.
%%
%% A `kept' queue has no consumer until `drain'. While messages are timed, a client waits for the
%% broker only in its loop.
-module(live_client).

-export([start/3, ask/2, tell/2]).

-include_lib("amqp_client/include/amqp_client.hrl").

-define(WINDOW, 10).        % messages of a client that are not confirmed yet
-define(BACKLOG, 100).      % messages of a client that are not delivered yet
-define(PREFETCH, 50).
-define(SMALLEST, 65).      % bytes of a payload: more than 64, so that it is a binary off the heap
-define(LARGEST, 4096).
-define(FRAME, 16).         % of these are queue, number and checksum
-define(FAULTS, 5).         % are kept for each client; all are counted

-record(client,
        {connection, out, in,
         consumed :: tuple(),       % queues with a consumer, published to in turns
         kept :: [integer()],
         next = 0,
         pace = paused :: paused | flat | {every, Us :: pos_integer(), Due :: integer()},
         sent = 0,                  % on the channel: the broker's confirms have this number
         lowest = 1,                % no older message is unconfirmed
         unconfirmed = #{} :: #{Sent :: integer() => Us :: integer()},
         published = #{} :: #{Queue :: integer() => Last :: integer()},
         delivered = #{} :: #{Queue :: integer() => Last :: integer()},
         waiting = 0,               % published to a queue with a consumer, not delivered yet
         confirms = [],             % microseconds each, since they were last taken
         random :: binary(),
         fault_count = 0, faults = []}).

%% @doc The queues are there, and consumed, when this returns.
start(Port, Consumed, Kept) ->
    Parent = self(),
    Pid = spawn_link(fun() -> init(Parent, Port, Consumed, Kept) end),
    receive {ready, Pid} -> Pid end.

%% @doc `{pace, paused | flat | {every, Us}}', `{fill, N}' (N to each queue that is kept, or
%% `{fill, N, Queue}'), `drain'.
tell(Pid, Order) ->
    Pid ! {order, Order},
    ok.

%% @doc `confirms' (and forget them), `under_way', `state', `close'.
ask(Pid, What) ->
    Pid ! {ask, self(), What},
    receive {answer, Pid, Answer} -> Answer end.

init(Parent, Port, Consumed, Kept) ->
    {ok, Connection} = amqp_connection:start(#amqp_params_network{host = "127.0.0.1", port = Port}),
    {ok, Out} = amqp_connection:open_channel(Connection),
    {ok, In} = amqp_connection:open_channel(Connection),
    #'confirm.select_ok'{} = amqp_channel:call(Out, #'confirm.select'{}),
    ok = amqp_channel:register_confirm_handler(Out, self()),
    ok = amqp_channel:register_return_handler(Out, self()),
    #'basic.qos_ok'{} = amqp_channel:call(In, #'basic.qos'{prefetch_count = ?PREFETCH}),
    _ = [#'queue.declare_ok'{} = amqp_channel:call(Out, #'queue.declare'{queue = name(Queue)})
         || Queue <- Consumed ++ Kept],
    ok = consume(In, Consumed),
    _ = [monitor(process, Pid) || Pid <- [Connection, Out, In]],
    Parent ! {ready, self()},
    loop(#client{connection = Connection, out = Out, in = In,
                 consumed = list_to_tuple(Consumed), kept = Kept,
                 random = rand:bytes(2 * ?LARGEST)}).

name(Queue) ->
    <<"sonde.", (integer_to_binary(Queue))/binary>>.

consume(In, Queues) ->
    _ = [#'basic.consume_ok'{} = amqp_channel:subscribe(In, consumer(Queue), self())
         || Queue <- Queues],
    ok.

consumer(Queue) ->
    #'basic.consume'{queue = name(Queue), consumer_tag = name(Queue)}.

loop(#client{} = Client) ->
    case due(Client) of
        now -> loop(publish_next(Client));
        Wait ->
            receive Message -> loop(handle(Message, Client))
            after Wait -> loop(Client)
            end
    end.

due(#client{pace = paused}) -> infinity;
due(#client{unconfirmed = Waiting}) when map_size(Waiting) >= ?WINDOW -> infinity;
due(#client{waiting = Waiting}) when Waiting >= ?BACKLOG -> infinity;
due(#client{pace = flat}) -> now;
due(#client{pace = {every, _, Due}}) ->
    case Due - now_us() of
        Left when Left > 0 -> Left div 1000 + 1;
        _ -> now
    end.

now_us() ->
    erlang:monotonic_time(microsecond).

%% ---- what comes in

handle({order, Order}, Client) -> obey(Order, Client);
handle({ask, From, What}, Client) ->
    {Answer, Left} = answer(What, Client),
    From ! {answer, self(), Answer},
    Left;
handle(#'basic.ack'{delivery_tag = Tag, multiple = Multiple}, Client) ->
    confirmed(Tag, Multiple, now_us(), Client);
handle(#'basic.nack'{} = Nack, Client) -> fault({refused, Nack}, Client);
handle({#'basic.return'{} = Return, _}, Client) -> fault({returned, Return}, Client);
handle({#'basic.deliver'{delivery_tag = Tag} = How, #amqp_msg{payload = Payload}}, Client) ->
    ok = amqp_channel:cast(Client#client.in, #'basic.ack'{delivery_tag = Tag}),
    delivered(How, Payload, Client);
handle(#'basic.consume_ok'{}, Client) -> Client;
handle(Other, Client) -> fault({unexpected, Other}, Client).

obey({pace, {every, Us}}, Client) -> Client#client{pace = {every, Us, now_us() + rand:uniform(Us)}};
obey({pace, Pace}, Client) -> Client#client{pace = Pace};
obey({fill, N}, #client{kept = Kept} = Client) ->
    lists:foldl(fun(Queue, C) -> obey({fill, N, Queue}, C) end, Client, Kept);
obey({fill, N, Queue}, Client) ->
    lists:foldl(fun(_, C) -> publish(Queue, C) end, Client, lists:seq(1, N));
obey(drain, #client{in = In, kept = Kept, waiting = Waiting} = Client) ->
    ok = consume(In, Kept),
    Stored = lists:sum([last(Queue, Client#client.published) || Queue <- Kept]),
    Client#client{kept = [], waiting = Waiting + Stored}.

answer(confirms, #client{confirms = Confirms} = Client) ->
    {Confirms, Client#client{confirms = []}};
answer(under_way, #client{unconfirmed = Unconfirmed, waiting = Waiting} = Client) ->
    {map_size(Unconfirmed) + Waiting, Client};
answer(state, Client) ->
    {#{published => Client#client.published, delivered => Client#client.delivered,
       unconfirmed => map_size(Client#client.unconfirmed), waiting => Client#client.waiting,
       fault_count => Client#client.fault_count, faults => Client#client.faults,
       stored => stored(Client)}, Client};
answer(close, #client{connection = Connection} = Client) ->
    {amqp_connection:close(Connection), Client}.

%% The messages that the broker reports to be in the queues.
stored(#client{out = Out, published = Published}) ->
    lists:sum([stored(Out, name(Queue)) || Queue <- maps:keys(Published)]).

stored(Out, Name) ->
    #'queue.declare_ok'{message_count = Count} =
        amqp_channel:call(Out, #'queue.declare'{queue = Name, passive = true}),
    Count.

fault(Fault, #client{fault_count = Count, faults = Faults} = Client) ->
    Client#client{fault_count = Count + 1, faults = lists:sublist(Faults ++ [Fault], ?FAULTS)}.

last(Queue, Numbers) ->
    maps:get(Queue, Numbers, 0).

%% ---- publishing

publish_next(#client{consumed = Queues, next = Next, waiting = Waiting} = Client) ->
    Queue = element(Next rem tuple_size(Queues) + 1, Queues),
    publish(Queue, later(Client#client{next = Next + 1, waiting = Waiting + 1})).

later(#client{pace = {every, Us, Due}} = Client) -> Client#client{pace = {every, Us, Due + Us}};
later(Client) -> Client.

publish(Queue, #client{out = Out, sent = Sent, unconfirmed = Unconfirmed,
                       published = Published} = Client) ->
    Number = last(Queue, Published) + 1,
    Message = #amqp_msg{payload = payload(Queue, Number, Client#client.random)},
    Publish = #'basic.publish'{routing_key = name(Queue), mandatory = true},
    Now = now_us(),
    ok = amqp_channel:cast(Out, Publish, Message),
    Client#client{sent = Sent + 1, unconfirmed = Unconfirmed#{Sent + 1 => Now},
                  published = Published#{Queue => Number}}.

payload(Queue, Number, Random) ->
    Size = ?SMALLEST + rand:uniform(?LARGEST - ?SMALLEST + 1) - 1 - ?FRAME,
    Body = binary:part(Random, rand:uniform(byte_size(Random) - Size) - 1, Size),
    Checked = <<Queue:32, Number:64, Body/binary>>,
    <<Checked/binary, (erlang:crc32(Checked)):32>>.

%% `multiple': confirms all up to this one.
confirmed(Tag, true, Now, #client{lowest = Lowest} = Client) ->
    Tags = [T || T <- lists:seq(Lowest, Tag), is_map_key(T, Client#client.unconfirmed)],
    Left = lists:foldl(fun(T, C) -> confirmed(T, false, Now, C) end, Client, Tags),
    Left#client{lowest = Tag + 1};
confirmed(Tag, false, Now, #client{unconfirmed = Unconfirmed, confirms = Confirms} = Client) ->
    case maps:take(Tag, Unconfirmed) of
        {Sent, Rest} -> Client#client{unconfirmed = Rest, confirms = [Now - Sent | Confirms]};
        error -> fault({confirmed_twice, Tag}, Client)
    end.

%% ---- taking

delivered(#'basic.deliver'{redelivered = true} = How, _, Client) ->
    fault({redelivered, How}, Client);
delivered(#'basic.deliver'{consumer_tag = Consumer}, Payload, Client) ->
    case open(Payload) of
        {Queue, Number} -> in_order(Consumer =:= name(Queue), Queue, Number, Client);
        damaged -> fault({damaged, Consumer, byte_size(Payload)}, Client)
    end.

open(Payload) when byte_size(Payload) >= ?FRAME ->
    {Checked, <<Sum:32>>} = split_binary(Payload, byte_size(Payload) - 4),
    case erlang:crc32(Checked) of
        Sum ->
            <<Queue:32, Number:64, _/binary>> = Checked,
            {Queue, Number};
        _ -> damaged
    end;
open(_) -> damaged.

in_order(false, Queue, Number, Client) ->
    fault({wrong_queue, Queue, Number}, Client);
in_order(true, Queue, Number, #client{delivered = Delivered, waiting = Waiting} = Client) ->
    Taken = Client#client{delivered = Delivered#{Queue => Number}, waiting = Waiting - 1},
    case last(Queue, Delivered) + 1 of
        Number -> Taken;
        Expected -> fault({out_of_order, Queue, Expected, Number}, Taken)
    end.
