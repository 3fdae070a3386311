%% Sockets of the socket module: exactly the planted ones are shown.
-module(sockets_SUITE).

-import(sonde_test, [raised/1, until/2]).

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2]).
-export([traffic_is_the_planted_one/1, sent_files_count/1, plain_sockets_have_rows/1,
         local_sockets_have_paths/1,
         ports_are_in_the_one_list_and_sockets_in_the_other/1, most_traffic_comes_first/1,
         one_protocol_at_a_time/1, owner_takes_its_sockets_along/1, closed_sockets_have_no_row/1,
         sockets_may_close_meanwhile/1, waiting_sockets_do_not_hold_it_up/1,
         bad_protocol_is_badarg/1, no_socket_module_no_sockets/1, no_message_reaches_the_caller/1]).
-export([without_registry/0]).

-define(LOOPBACK, {127, 0, 0, 1}).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [traffic_is_the_planted_one, sent_files_count, plain_sockets_have_rows,
     local_sockets_have_paths,
     ports_are_in_the_one_list_and_sockets_in_the_other, most_traffic_comes_first,
     one_protocol_at_a_time, owner_takes_its_sockets_along, closed_sockets_have_no_row,
     sockets_may_close_meanwhile, waiting_sockets_do_not_hold_it_up, bad_protocol_is_badarg,
     no_socket_module_no_sockets, no_message_reaches_the_caller].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% Waits until the sockets of the previous case are gone.
init_per_testcase(_Case, Config) ->
    ok = until(no_sockets, fun() -> sonde:sockets() =:= [] end),
    Config.

%% ---- what is shown

%% 1000 octets go one way and 234 the other, over both backends.
traffic_is_the_planted_one(_Config) ->
    #{listen := Listen, client := Client, server := Server} = connection([{inet_backend, socket}]),
    ok = talk(Client, Server),
    {ok, {_, Port}} = inet:sockname(Listen),
    {ok, ClientName} = inet:sockname(Client),
    Server2 = {?LOOPBACK, Port},
    [{_, 1234, C}] = [R || {_, _, As} = R <- sonde:sockets(), value(local, As) =:= ClientName],
    [{_, 1234, S}] = [R || {_, _, As} = R <- sonde:sockets(), value(remote, As) =:= ClientName],
    [{_, 0, L}] = [R || {_, _, As} = R <- sonde:sockets(), value(remote, As) =:= undefined],
    #{read_byte := 234, write_byte := 1000} = value(counters, C),
    #{read_byte := 1000, write_byte := 234} = value(counters, S),
    #{acc_success := 1} = value(counters, L),
    [Server2, Server2, Server2] = [value(remote, C), value(local, S), value(local, L)],
    _ = [[inet, stream, tcp] = [value(Key, As) || Key <- [domain, type, protocol]]
         || As <- [C, S, L]],
    _ = [true = is_pid(value(owner, As)) || As <- [C, S, L]],
    3 = length(sonde:sockets()),
    #{client := Client2, server := Server3} = Ports = connection([]),
    ok = talk(Client2, Server3),
    3 = length(sonde:sockets()),
    [{Client2, 1234, [{recv_oct, 234}, {send_oct, 1000}]}] =
        [R || {P, _, _} = R <- sonde:inet_count(oct, -1), P =:= Client2],
    close(Ports).

sent_files_count(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "sent"),
    ok = file:write_file(File, <<0:40000>>),
    #{client := Client, server := Server} = Sockets = connection([{inet_backend, socket}]),
    {ok, 5000} = file:sendfile(File, Client),
    {ok, <<_:5000/binary>>} = gen_tcp:recv(Server, 5000, 5000),
    ok = talk(Client, Server),
    [6234, 6234, 0] = [Octets || {_, Octets, _} <- sonde:sockets(tcp)],
    close(Sockets).

plain_sockets_have_rows(_Config) ->
    {ok, One} = socket:open(inet, dgram, udp),
    {ok, Two} = socket:open(inet, dgram, udp),
    _ = [ok = socket:bind(S, #{family => inet, addr => ?LOOPBACK, port => 0}) || S <- [One, Two]],
    {ok, #{port := Port} = To} = socket:sockname(Two),
    _ = [ok = socket:sendto(One, <<0:800>>, To) || _ <- lists:seq(1, 3)],
    _ = [{ok, {_, <<_:100/binary>>}} = socket:recvfrom(Two, 0, 5000) || _ <- lists:seq(1, 3)],
    Self = self(),
    #{One := {300, Sent}, Two := {300, Received}} =
        maps:from_list([{S, {Octets, As}} || {S, Octets, As} <- sonde:sockets()]),
    #{write_byte := 300, write_pkg := 3, read_byte := 0} = value(counters, Sent),
    #{read_byte := 300, read_pkg := 3, write_byte := 0} = value(counters, Received),
    [Self, inet, dgram, udp, {?LOOPBACK, Port}, undefined] =
        [value(Key, Received) || Key <- [owner, domain, type, protocol, local, remote]],
    _ = [ok = socket:close(S) || S <- [One, Two]],
    ok.

%% The path is in /tmp, since the path of such a socket must be short.
local_sockets_have_paths(_Config) ->
    Path = list_to_binary(filename:join("/tmp", "sonde_" ++ os:getpid())),
    {ok, Socket} = socket:open(local, stream, default),
    case socket:bind(Socket, #{family => local, path => Path}) of
        ok ->
            [{Socket, 0, As}] = sonde:sockets(),
            [local, stream, {local, Path}] = [value(Key, As) || Key <- [domain, type, local]],
            ok = file:delete(Path);
        {error, _} ->
            ok
    end,
    socket:close(Socket).

ports_are_in_the_one_list_and_sockets_in_the_other(_Config) ->
    Before = {length(sonde:tcp()), length(sonde:udp())},
    #{client := Client} = Sockets = connection([{inet_backend, socket}]),
    {ok, Udp} = gen_udp:open(0, [{inet_backend, socket}, {ip, ?LOOPBACK}]),
    {3, 1} = {length(sonde:sockets(tcp)), length(sonde:sockets(udp))},
    Before = {length(sonde:tcp()), length(sonde:udp())},
    #{client := Port} = Ports = connection([]),
    true = is_port(Port),
    false = is_port(Client),
    {3, 1} = {length(sonde:sockets(tcp)), length(sonde:sockets(udp))},
    true = lists:member(Port, sonde:tcp()),
    ok = gen_udp:close(Udp),
    close(Sockets),
    close(Ports).

most_traffic_comes_first(_Config) ->
    Sizes = [50, 5000, 0, 700, 700],
    {ok, To} = socket:open(inet, dgram, udp),
    ok = socket:bind(To, #{family => inet, addr => ?LOOPBACK, port => 0}),
    {ok, Name} = socket:sockname(To),
    Sockets = [begin
                   {ok, Socket} = socket:open(inet, dgram, udp),
                   _ = [ok = socket:sendto(Socket, <<0:Size/unit:8>>, Name) || Size > 0],
                   Socket
               end || Size <- Sizes],
    [5000, 700, 700, 50, 0, 0] = [Octets || {_, Octets, _} <- sonde:sockets()],
    {First, 5000, _} = hd(sonde:sockets()),
    First = lists:nth(2, Sockets),
    _ = [ok = socket:close(S) || S <- [To | Sockets]],
    ok.

one_protocol_at_a_time(_Config) ->
    {ok, Tcp} = socket:open(inet, stream, tcp),
    {ok, Default} = socket:open(inet, stream),
    {ok, Udp} = socket:open(inet, dgram, udp),
    Sorted = lists:sort([Tcp, Default]),
    Sorted = lists:sort([S || {S, _, _} <- sonde:sockets(tcp)]),
    [Udp] = [S || {S, _, _} <- sonde:sockets(udp)],
    case socket:open(inet, seqpacket, sctp) of
        {ok, Sctp} -> [Sctp] = [S || {S, _, _} <- sonde:sockets(sctp)], ok = socket:close(Sctp);
        {error, _} -> [] = sonde:sockets(sctp)
    end,
    3 = length(sonde:sockets()),
    _ = [ok = socket:close(S) || S <- [Tcp, Default, Udp]],
    ok.

%% ---- what comes and goes

owner_takes_its_sockets_along(_Config) ->
    Pid = sonde_test:hold(fun() -> {ok, Socket} = socket:open(inet, stream, tcp), Socket end),
    [{_, 0, As}] = sonde:sockets(),
    Pid = value(owner, As),
    sonde_test:stop(Pid),
    until(no_sockets, fun() -> sonde:sockets() =:= [] end).

closed_sockets_have_no_row(_Config) ->
    {ok, Socket} = socket:open(inet, stream, tcp),
    [{Socket, 0, _}] = sonde:sockets(),
    ok = socket:close(Socket),
    [] = sonde:sockets().

sockets_may_close_meanwhile(_Config) ->
    {ok, Stays} = socket:open(inet, dgram, udp),
    Come = fun() ->
                   Sockets = [S || _ <- lists:seq(1, 20),
                                   {ok, S} <- [socket:open(inet, stream, tcp)]],
                   timer:sleep(1),
                   _ = [ok = socket:close(Socket) || Socket <- Sockets]
           end,
    ok = sonde_test:beside(3, Come, 200, fun() ->
        Rows = sonde:sockets(),
        true = lists:keymember(Stays, 1, Rows),
        [] = [As || {_, Octets, As} <- Rows, Octets =/= 0 orelse not is_pid(value(owner, As))]
    end),
    socket:close(Stays).

%% One waits for a connection, one for octets that never come, one for room to send.
waiting_sockets_do_not_hold_it_up(_Config) ->
    Listen = listener(),
    {ok, Name} = socket:sockname(Listen),
    [Full, Silent] = [begin
                          {ok, Socket} = socket:open(inet, stream, tcp),
                          ok = socket:connect(Socket, Name),
                          {ok, _} = socket:accept(Listen, 5000),
                          Socket
                      end || _ <- [full, silent]],
    Waiting = [spawn(Fun) || Fun <- [fun() -> fill(Full) end,
                                          fun() -> socket:recv(Silent, 0) end,
                                          fun() -> socket:accept(Listen) end]],
    ok = until(all_wait, fun() -> lists:all(fun is_waiting/1, Waiting) end),
    #{Full := FullOnes, Silent := 0, Listen := 0} =
        maps:from_list([{Socket, Octets} || {Socket, Octets, _} <- sonde:sockets()]),
    true = FullOnes > 0,
    true = lists:all(fun is_waiting/1, Waiting),
    ok = sonde_test:stop(Waiting),
    _ = [ok = socket:close(Socket) || {Socket, _, _} <- sonde:sockets()],
    ok.

fill(Socket) ->
    ok = socket:send(Socket, <<0:8000000>>),
    fill(Socket).

is_waiting(Pid) ->
    {status, Status} = process_info(Pid, status),
    Status =:= waiting.

listener() ->
    {ok, Listen} = socket:open(inet, stream, tcp),
    ok = socket:bind(Listen, #{family => inet, addr => ?LOOPBACK, port => 0}),
    ok = socket:listen(Listen),
    Listen.

%% ---- odd places

bad_protocol_is_badarg(_Config) ->
    _ = [{P, badarg} = {P, raised(fun() -> sonde:sockets(P) end)}
         || P <- [foo, stream, inet, local, "tcp", [tcp], 5, undefined, <<"tcp">>]],
    ok.

%% As on a node whose socket module has no native part: no process keeps a list of sockets.
no_socket_module_no_sockets(_Config) ->
    {[], []} = sonde_peer_helper:with(shipped, fun(Peer) ->
        sonde_peer_helper:call(Peer, ?MODULE, without_registry, [])
    end).

without_registry() ->
    Registry = whereis(socket_registry),
    true = unregister(socket_registry),
    Rows = {sonde:sockets(), sonde:sockets(tcp)},
    true = register(socket_registry, Registry),
    Rows.

no_message_reaches_the_caller(_Config) ->
    {ok, Socket} = socket:open(inet, stream, tcp),
    ok = sonde_test:no_message(fun() -> {[_], [_]} = {sonde:sockets(), sonde:sockets(tcp)} end),
    socket:close(Socket).

%% ---- what is planted

connection(Backend) ->
    Opts = Backend ++ [binary, {active, false}],
    {ok, Listen} = gen_tcp:listen(0, Backend ++ [{ip, ?LOOPBACK}, binary, {active, false}]),
    {ok, Port} = inet:port(Listen),
    {ok, Client} = gen_tcp:connect(?LOOPBACK, Port, Opts),
    {ok, Server} = gen_tcp:accept(Listen),
    #{listen => Listen, client => Client, server => Server}.

talk(Client, Server) ->
    ok = gen_tcp:send(Client, <<0:8000>>),
    {ok, <<_:1000/binary>>} = gen_tcp:recv(Server, 1000, 5000),
    ok = gen_tcp:send(Server, <<0:1872>>),
    {ok, <<_:234/binary>>} = gen_tcp:recv(Client, 234, 5000),
    ok.

close(Sockets) ->
    _ = [ok = gen_tcp:close(Socket) || Socket <- maps:values(Sockets)],
    ok.

value(Key, Attrs) ->
    proplists:get_value(Key, Attrs).
