%% rabbitmq_check.escript PORT: what sonde says about a live broker, beside what the recon says that the
%% broker ships. rabbitmq.sh starts it, on a hidden node beside a broker that is starting.
%%
%% Two calls never look at the same moment. So each difference between sonde and recon stands beside the
%% difference between recon and recon, called once more: that much is the broker's own doing.
-mode(compile).

-include_lib("amqp_client/include/amqp_client.hrl").

-define(NODE, 'rabbit@localhost').
-define(ALL, 100000000).
-define(QUEUES, 300).
-define(CONNECTIONS, 30).
-define(RUNS, 9).           % of a call that is timed; the median is shown
-define(ROUNDS, 3).         % of bin_leak

main([Port]) ->
    ok = application:load(sonde),
    ok = logger:set_primary_config(level, none),    % the client's, about what still comes when it ends
    ok = wait_for_broker(60),
    title("The broker"),
    say("RabbitMQ ~s, OTP ~s, ~b processes, recon ~s",
        [version(rabbit), call(erlang, system_info, [otp_release]),
         call(erlang, system_info, [process_count]), version(recon)]),
    [{?NODE, {ok, Status}}] = sonde:remote_load([?NODE], sonde),
    active = maps:get(status, Status),
    say("remote_load: ~0p", [maps:with([status, layout, reader], Status)]),
    [{?NODE, {already, _}}] = sonde:remote_load([?NODE], sonde),
    Load = load(list_to_integer(Port)),
    ok = under_load(Load),
    ok = idle(Load),
    title("Afterwards"),
    #{counters := Counters} = call(sonde, native, []),
    say("~0p", [Counters]),
    ok = publishing(Load, true),
    timer:sleep(1000),
    Rate = rate(Load, 2000),
    say("The broker serves: ~b messages/s", [Rate]),
    true = Rate > 0,
    ok = stop(Load),
    halt(0).

%% ---- under load

under_load(Load) ->
    timer:sleep(10000),
    title("Under load"),
    say("~b connections, ~b queues, ~b messages/s, ~b processes, ~b MB of binaries",
        [?CONNECTIONS, ?QUEUES, rate(Load, 2000), call(erlang, system_info, [process_count]),
         call(erlang, memory, [binary]) div 1000000]),
    heading(),
    lists:foreach(fun compare/1, attrs()),
    windows(),
    leaks(),
    disturbance(Load).

idle(Load) ->
    ok = rest(Load),
    title("Idle"),
    say("~b references to binaries", [lists:sum([N || {_, N, _} <- all(sonde, binary_count)])]),
    heading(),
    lists:foreach(fun compare/1, attrs()),
    title("bin_leak, idle: does the change agree with counts before and after, made by the other tool?"),
    ok = leak_agrees(recon, sonde),
    ok = publishing(Load, true),
    timer:sleep(5000),
    ok = rest(Load),
    leak_agrees(sonde, recon).

rest(Load) ->
    ok = publishing(Load, false),
    timer:sleep(8000).

leak_agrees(Tool, Other) ->
    Count = fun() -> counted(Other) end,
    Before = Count(),
    {Us, Rows} = call(timer, tc, [Tool, bin_leak, [?ALL]]),
    After = Count(),
    Seen = [{maps:get(Pid, After) - maps:get(Pid, Before), Change}
            || {Pid, Change, _} <- Rows, is_map_key(Pid, Before), is_map_key(Pid, After)],
    say("~s:bin_leak(all) ~.2f ms: ~b processes, of ~b binaries ~b let go, ~b values differ",
        [Tool, Us / 1000, length(Seen), lists:sum(maps:values(Before)),
         -lists:sum([Change || {_, Change} <- Seen]), length([x || {A, B} <- Seen, A =/= B])]).

counted(sonde) -> values(all(sonde, binary_count), fun(N) -> N end);
counted(recon) -> values(all(recon, binary), fun erlang:length/1).

%% ---- one attribute, everybody

%% {what sonde is asked, what recon is asked, what becomes of recon's value}
attrs() ->
    Same = fun(Value) -> Value end,
    [{A, A, Same} || A <- [memory, total_heap_size, heap_size, stack_size, message_queue_len,
                           reductions, binary_memory]]
        ++ [{A, B, fun erlang:length/1} || {A, B} <- [{binary_count, binary}, {link_count, links},
                                                     {monitor_count, monitors},
                                                     {monitored_by_count, monitored_by},
                                                     {dictionary_size, dictionary}]]
        ++ [{A, A, Same} || A <- [status, trap_exit, priority, current_function, message_queue_data,
                                  garbage_collection, suspending, links, dictionary, registered_name]].

heading() ->
    say("Milliseconds for the 10 largest. Of all processes, how many values differ.", []),
    say("~-19s ~9s ~9s  ~9s  ~13s ~13s", ["", "sonde ms", "recon ms", "processes",
                                         "sonde/=recon", "recon/=recon"]).

compare({Ours, Theirs, Convert}) ->
    First = all(recon, Theirs),
    Second = all(recon, Theirs),
    Mine = all(sonde, Ours),
    Middle = values(Second, Convert),
    {Common, Differ} = differ(values(Mine, fun(V) -> V end), Middle),
    {_, Noise} = differ(values(First, Convert), Middle),
    ok = sorted(Mine),
    {SondeMs, ReconMs} = {timed(sonde, Ours), timed(recon, Theirs)},
    say("~-19s ~9.2f ~9.2f  ~9b  ~13b ~13b", [Ours, SondeMs, ReconMs, Common, Differ, Noise]).

all(Module, Attr) ->
    call(Module, proc_count, [Attr, ?ALL]).

timed(Module, Attr) ->
    Times = [Us || _ <- lists:seq(1, ?RUNS),
                   {Us, _} <- [call(timer, tc, [Module, proc_count, [Attr, 10]])]],
    lists:nth((?RUNS + 1) div 2, lists:sort(Times)) / 1000.

values(Rows, Convert) ->
    maps:from_list([{Pid, Convert(Value)} || {Pid, Value, _} <- Rows]).

differ(Ours, Theirs) ->
    Common = maps:keys(maps:with(maps:keys(Ours), Theirs)),
    {length(Common), length([Pid || Pid <- Common, maps:get(Pid, Ours) =/= maps:get(Pid, Theirs)])}.

sorted(Rows) ->
    Keys = [{Value, Pid} || {Pid, Value, _} <- Rows],
    Keys = lists:reverse(lists:sort(Keys)),
    ok.

%% ---- a second of it, both at the same time

windows() ->
    title("proc_window(_, 10, 1000), both at the same time"),
    [begin
         Key = erpc:send_request(?NODE, recon, proc_window, [Attr, 10, 1000]),
         Mine = call(sonde, proc_window, [Attr, 10, 1000]),
         Theirs = erpc:receive_response(Key, 30000),
         Common = length([P || {P, _, _} <- Mine, lists:keymember(P, 1, Theirs)]),
         say("~-19s ~b of 10 the same; first of sonde ~0p, of recon ~0p",
             [Attr, Common, brief(Mine), brief(Theirs)])
     end || Attr <- [reductions, memory, binary_memory]],
    ok.

brief([]) -> none;
brief([{_, Value, []} | _]) -> {Value, died};
brief([{_, Value, [Name | _]} | _]) -> {Value, Name}.

%% ---- bin_leak

leaks() ->
    title("bin_leak, in turns, with 3 s of load before each"),
    Options = #{deadline => 60000, collect => all},
    [leak(Module, Args) || Rest <- [[10], [?ALL]], _ <- lists:seq(1, ?ROUNDS),
                           {Module, Args} <- [{sonde, Rest}, {recon, Rest}, {sonde, Rest ++ [Options]}]],
    timer:sleep(3000),
    Report = call(sonde, bin_leak, [10, #{}]),
    say("sonde:bin_leak(10, #{}): ~0p", [maps:remove(rows, Report)]),
    _ = [say("    ~b ~0p", [Change, Attrs])
         || {_, Change, Attrs} <- lists:sublist(maps:get(rows, Report), 3)],
    ok.

leak(Module, Args) ->
    timer:sleep(3000),
    {Us, Result} = call(timer, tc, [Module, bin_leak, Args]),
    Rows = case Result of #{rows := R} -> R; R -> R end,
    Down = [Change || {_, Change, _} <- Rows, Change < 0],
    say("~s:bin_leak/~b of ~s ~9.2f ms, ~4b processes let go of ~5b binaries, first ~0p",
        [Module, length(Args), case hd(Args) of ?ALL -> "all"; N -> integer_to_list(N) end,
         Us / 1000, length(Down), -lists:sum(Down), brief(Rows)]).

%% ---- what the broker's clients feel

disturbance(Load) ->
    title("From publish to delivery with proc_count(memory, 10) every 20 ms, 5 s each"),
    [begin
         Scanner = spawn_link(fun() -> scan(Tool, 0) end),
         Sorted = latencies(Load, 5000),
         Scanner ! {count, self()},
         Count = receive {count, N} -> N end,
         say("~-8s ~6b scans, ~6b messages, p50 ~.2f ms, p99 ~.2f ms, most ~.2f ms",
             [Tool, Count, length(Sorted) | [at(P, Sorted) / 1000 || P <- [0.5, 0.99, 1.0]]])
     end || _ <- lists:seq(1, ?ROUNDS), Tool <- [nothing, recon, sonde]],
    ok.

scan(Tool, Count) ->
    _ = [call(Tool, proc_count, [memory, 10]) || Tool =/= nothing],
    receive
        {count, Pid} -> Pid ! {count, Count}
    after 20 -> scan(Tool, Count + 1)
    end.

at(Part, Sorted) ->
    lists:nth(max(1, round(Part * length(Sorted))), Sorted).

%% ---- load: publishers and consumers over TCP; a third of the queues has no consumer

load(Port) ->
    Collector = spawn_link(fun() -> collect([], 0) end),
    Clients = [begin
                   Parent = self(),
                   Pid = spawn_link(fun() -> client(I, Port, Collector, Parent) end),
                   receive {ready, Pid} -> Pid end
               end || I <- lists:seq(1, ?CONNECTIONS)],
    #{clients => Clients, collector => Collector}.

client(I, Port, Collector, Parent) ->
    {ok, Connection} = amqp_connection:start(#amqp_params_network{host = "127.0.0.1", port = Port}),
    {ok, Out} = amqp_connection:open_channel(Connection),
    {ok, In} = amqp_connection:open_channel(Connection),
    Queues = [<<"sonde.", (integer_to_binary(Q))/binary>>
              || Q <- lists:seq(I, ?QUEUES, ?CONNECTIONS)],
    _ = [#'queue.declare_ok'{} = amqp_channel:call(Out, #'queue.declare'{queue = Q})
         || Q <- Queues],
    #'basic.qos_ok'{} = amqp_channel:call(In, #'basic.qos'{prefetch_count = 50}),
    _ = [amqp_channel:subscribe(In, #'basic.consume'{queue = Q}, self())
         || {N, Q} <- lists:zip(lists:seq(1, length(Queues)), Queues), N rem 3 =/= 0],
    Parent ! {ready, self()},
    serve(#{connection => Connection, out => Out, in => In, queues => Queues, next => 0,
            running => true, collector => Collector}).

serve(#{in := In, collector := Collector} = Client) ->
    receive
        {#'basic.deliver'{delivery_tag = Tag}, #amqp_msg{payload = <<Sent:64/signed, _/binary>>}} ->
            Collector ! {took, erlang:monotonic_time(microsecond) - Sent},
            ok = amqp_channel:cast(In, #'basic.ack'{delivery_tag = Tag}),
            serve(Client);
        {running, Running} -> serve(Client#{running := Running});
        {stop, Pid} ->
            ok = amqp_connection:close(maps:get(connection, Client)),
            Pid ! {stopped, self()};
        _ -> serve(Client)
    after 5 -> serve(publish(Client))
    end.

publish(#{running := false} = Client) -> Client;
publish(#{out := Out, queues := Queues, next := Next} = Client) ->
    Queue = lists:nth(Next rem length(Queues) + 1, Queues),
    Payload = <<(erlang:monotonic_time(microsecond)):64/signed,
                (binary:copy(<<"x">>, 100 + rand:uniform(4000)))/binary>>,
    ok = amqp_channel:cast(Out, #'basic.publish'{routing_key = Queue}, #amqp_msg{payload = Payload}),
    Client#{next := Next + 1}.

collect(Took, Count) ->
    receive
        {took, Us} -> collect([Us | Took], Count + 1);
        {take, Pid} -> Pid ! {took_all, Took}, collect([], Count)
    end.

latencies(#{collector := Collector}, Ms) ->
    _ = take(Collector),
    timer:sleep(Ms),
    lists:sort(take(Collector)).

take(Collector) ->
    Collector ! {take, self()},
    receive {took_all, Took} -> Took end.

rate(Load, Ms) -> length(latencies(Load, Ms)) * 1000 div Ms.

publishing(#{clients := Clients}, Running) ->
    _ = [Client ! {running, Running} || Client <- Clients],
    ok.

stop(#{clients := Clients}) ->
    _ = [begin unlink(Client), Client ! {stop, self()} end || Client <- Clients],
    _ = [receive {stopped, Client} -> ok after 10000 -> ok end || Client <- Clients],
    ok.

%% ---- helpers

wait_for_broker(0) -> error(the_broker_did_not_start);
wait_for_broker(Left) ->
    case net_adm:ping(?NODE) =:= pong andalso rpc:call(?NODE, rabbit, is_running, []) of
        true -> ok;
        _ -> timer:sleep(1000), wait_for_broker(Left - 1)
    end.

version(recon) ->
    "recon-" ++ Version = filename:basename(call(code, lib_dir, [recon])),
    Version;
version(App) ->
    {ok, Version} = call(application, get_key, [App, vsn]),
    Version.

call(Module, Function, Args) ->
    erpc:call(?NODE, Module, Function, Args, 60000).

title(Text) -> io:format("~n== ~s~n", [Text]).

say(Format, Args) -> io:format(Format ++ "~n", Args).
