%% Load for a broker: clients on connections of their own, with queues of their own. Every third
%% queue has no consumer: its messages stay in the broker's memory until the end.
-module(live_load).

-export([start/1, queues/0, connections/0, pace/2, fill/2, fill_one/2, kept_queue/0, take/1,
         drain/1, states/1, stop/1]).

-define(CONNECTIONS, 30).
-define(QUEUES, 300).
-define(CHUNK, 100).        % to each queue at a time: they wait in the clients
-define(STUCK_MS, 60000).   % if nothing changes for this long, what is missing will not come

start(Port) ->
    [begin
         Queues = lists:seq(I, ?QUEUES, ?CONNECTIONS),
         Kept = [Queue || Queue <- Queues, is_kept(Queue)],
         live_client:start(Port, Queues -- Kept, Kept)
     end || I <- lists:seq(1, ?CONNECTIONS)].

is_kept(Queue) ->
    (Queue div ?CONNECTIONS) rem 3 =:= 2.

queues() -> ?QUEUES.

connections() -> ?CONNECTIONS.

%% @doc Of every client; `{rate, PerSecond}' is that of all together.
pace(Clients, {rate, PerSecond}) ->
    pace(Clients, {every, 1000000 * length(Clients) div PerSecond});
pace(Clients, Pace) ->
    _ = [live_client:tell(Client, {pace, Pace}) || Client <- Clients],
    ok.

%% @doc N messages to each queue without a consumer; returns when they are confirmed.
fill(Clients, N) when N > ?CHUNK ->
    ok = fill(Clients, ?CHUNK),
    fill(Clients, N - ?CHUNK);
fill(Clients, N) ->
    _ = [live_client:tell(Client, {fill, N}) || Client <- Clients],
    settled(Clients).

%% @doc As fill/2, to one queue alone: the one named by kept_queue/0.
fill_one(Clients, N) ->
    {Client, Queue} = {lists:nth(kept() rem ?CONNECTIONS, Clients), kept()},
    ok = live_client:tell(Client, {fill, N, Queue}),
    settled([Client]).

kept_queue() ->
    <<"sonde.", (integer_to_binary(kept()))/binary>>.

kept() ->
    2 * ?CONNECTIONS + 1.

%% @doc The latencies of confirms since this was called last, in microseconds.
take(Clients) ->
    lists:append([live_client:ask(Client, confirms) || Client <- Clients]).

%% @doc Publishing ends, the queues without a consumer get one, and all that is under way arrives.
drain(Clients) ->
    ok = pace(Clients, paused),
    _ = [live_client:tell(Client, drain) || Client <- Clients],
    ok = settled(Clients),
    timer:sleep(500).    % duplicates would come now

states(Clients) ->
    [live_client:ask(Client, state) || Client <- Clients].

stop(Clients) ->
    _ = [begin unlink(Client), ok = live_client:ask(Client, close), exit(Client, kill) end
         || Client <- Clients],
    ok.

%% Until nothing is under way, or nothing has changed for long; the caller finds out which.
settled(Clients) -> settled(Clients, none, 0).

settled(_Clients, _Before, Ms) when Ms >= ?STUCK_MS -> ok;
settled(Clients, Before, Ms) ->
    case lists:sum([live_client:ask(Client, under_way) || Client <- Clients]) of
        0 -> ok;
        Before -> timer:sleep(100), settled(Clients, Before, Ms + 100);
        UnderWay -> timer:sleep(100), settled(Clients, UnderWay, 0)
    end.
