%% Where a live broker's binary memory is: a backlog of transient messages in one of ten classic
%% queues must be found in that queue's process, and the whole account must add up. rabbitmq.sh
%% starts it, on a hidden node beside a running broker.
-module(live_binaries).

-export([main/1]).

-import(live_report, [title/1, say/2, check/3]).

-include_lib("amqp_client/include/amqp_client.hrl").

-define(NODE, 'rabbit@localhost').
-define(QUEUES, 10).
-define(BYTES, 10000).
-define(SETTLE_TRIES, 60).
%% The part of the total that may be unseen: a percentage, and this many bytes more.
-define(PER_CENT, 1).
-define(SLACK, 65536).

main([Port, Seconds, _Logs]) ->
    live_report:start(),
    ok = application:load(sonde),
    ok = logger:set_primary_config(level, none),
    pong = net_adm:ping(?NODE),
    Messages = case list_to_integer(Seconds) of
                   Short when Short < 10 -> 5000;
                   _ -> 50000
               end,
    Status = try run(list_to_integer(Port), Messages)
             catch Class:Why:Stack ->
                     check("the test came to its end", false, {Class, Why, Stack}),
                     live_report:finish("rabbitmq")
             end,
    halt(Status).

run(Port, Messages) ->
    title("The broker"),
    [{?NODE, {ok, #{status := active}}}] = sonde:remote_load([?NODE], sonde),
    Queues = [<<"sonde.", (integer_to_binary(N))/binary>> || N <- lists:seq(1, ?QUEUES)],
    Full = lists:nth(1 + rand:uniform(?QUEUES - 1), Queues),
    {Connection, Channel} = publish(Port, Queues, Full, Messages),
    Pid = queue(Full),
    backlog(Messages, Pid),
    ok = amqp_channel:close(Channel),
    ok = amqp_connection:close(Connection),
    live_report:finish("rabbitmq").

publish(Port, Queues, Full, Messages) ->
    {ok, Connection} = amqp_connection:start(#amqp_params_network{host = "127.0.0.1", port = Port}),
    {ok, Channel} = amqp_connection:open_channel(Connection),
    _ = [#'queue.declare_ok'{} = amqp_channel:call(Channel, #'queue.declare'{queue = Queue})
         || Queue <- Queues],
    Transient = #'P_basic'{delivery_mode = 1},
    #'confirm.select_ok'{} = amqp_channel:call(Channel, #'confirm.select'{}),
    _ = [ok = amqp_channel:call(Channel, #'basic.publish'{routing_key = Full},
                                #amqp_msg{props = Transient, payload = rand:bytes(?BYTES)})
         || _ <- lists:seq(1, Messages)],
    true = amqp_channel:wait_for_confirms(Channel, 60),
    {Connection, Channel}.

queue(Name) ->
    Resource = call(rabbit_misc, r, [<<"/">>, queue, Name]),
    {ok, Queue} = call(rabbit_amqqueue, lookup, [Resource]),
    call(amqqueue, get_pid, [Queue]).

backlog(Messages, Pid) ->
    title("A backlog in one queue"),
    #{total := Total, unseen := Unseen} = Account =
        settled(?SETTLE_TRIES, call(sonde, bin_account, [])),
    say("~p", [Account]),
    check("the parts add up", abs(Unseen) * 100 =< Total * ?PER_CENT + 100 * ?SLACK, Account),
    [{First, Bytes, Attrs}] = call(sonde, bin_owned, [1]),
    say("first of bin_owned: ~p", [{First, Bytes, Attrs}]),
    check("that queue's process is the first row", First =:= Pid, {First, Pid}),
    %% its connection may still have some that it read
    check("and owns the backlog", Bytes * 100 >= Messages * ?BYTES * (100 - ?PER_CENT), Bytes),
    check("which is all there is", bytes_of(Pid, binary_unique) >= Messages * ?BYTES,
          bytes_of(Pid, binary_unique)),
    [{Pid, Recons, _}] = call(recon, proc_count, [binary_memory, 1]),
    say("recon's binary_memory of it: ~b", [Recons]),
    Shares = call(sonde, proc_count, [binary_proportional, 1]),
    check("also by its share", [Pid] =:= [P || {P, _, _} <- Shares], Shares),
    [#{holders := Holders} = Largest] = call(sonde, bin_holders, [1]),
    check("the largest binary has holders", Holders =/= [] orelse maps:get(elsewhere, Largest) > 0,
          Largest),
    check("purged, it owns next to nothing", purged(Pid, ?SETTLE_TRIES),
          call(sonde, bin_owned, [1])).

%% Memory that was freed on other schedulers is given back a little later.
settled(0, Account) ->
    Account;
settled(Tries, #{unseen := Unseen, total := Total} = Account) ->
    case abs(Unseen) * 100 =< Total * ?PER_CENT of
        true -> Account;
        false ->
            timer:sleep(500),
            settled(Tries - 1, call(sonde, bin_account, []))
    end.

purged(_, 0) ->
    false;
purged(Pid, Tries) ->
    {ok, _} = call(gen_server2, call, [Pid, purge, 60000]),
    true = call(erlang, garbage_collect, [Pid]),
    case bytes_of(Pid, binary_exclusive) > 1000000 of
        true ->
            timer:sleep(500),
            purged(Pid, Tries - 1);
        false -> true
    end.

bytes_of(Pid, Attr) ->
    lists:sum([Bytes || {P, Bytes, _} <- call(sonde, proc_count, [Attr, 100000, #{}]), P =:= Pid]).

call(M, F, A) -> erpc:call(?NODE, M, F, A, 120000).
