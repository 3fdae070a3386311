%% Clients that keep a web server or an XMPP server busy. Each call returns what ends them,
%% and fails there if one of them ended by itself. The caller traps exits.
-module(live_requests).

-export([http/1, xmpp/2]).

-define(HTTP_CLIENTS, 8).
-define(REQUESTS, 50).      % on one connection
-define(XMPP_CLIENTS, 20).
-define(EACH_MS, 10).       % a client waits between two requests
-define(ANSWER_MS, 10000).

%% ---- HTTP: connections that are kept for a while

http(Port) ->
    started([spawn_link(fun() -> http_loop(Port) end) || _ <- lists:seq(1, ?HTTP_CLIENTS)]).

http_loop(Port) ->
    Socket = connect(Port, [{packet, http_bin}]),
    _ = [ok = get(Socket, Path) || _ <- lists:seq(1, ?REQUESTS div 2),
                                   Path <- ["/small.html", "/large.txt"]],
    ok = gen_tcp:close(Socket),
    http_loop(Port).

get(Socket, Path) ->
    ok = gen_tcp:send(Socket, ["GET ", Path, " HTTP/1.1\r\nHost: localhost\r\n\r\n"]),
    {ok, {http_response, _, 200, _}} = gen_tcp:recv(Socket, 0, ?ANSWER_MS),
    Length = headers(Socket, 0),
    ok = inet:setopts(Socket, [{packet, raw}]),
    {ok, Body} = gen_tcp:recv(Socket, Length, ?ANSWER_MS),
    Length = byte_size(Body),
    ok = inet:setopts(Socket, [{packet, http_bin}]),
    timer:sleep(?EACH_MS).

headers(Socket, Length) ->
    case gen_tcp:recv(Socket, 0, ?ANSWER_MS) of
        {ok, {http_header, _, 'Content-Length', _, Value}} ->
            headers(Socket, binary_to_integer(Value));
        {ok, {http_header, _, _, _, _}} -> headers(Socket, Length);
        {ok, http_eoh} -> Length
    end.

%% ---- XMPP: each client writes to the next one

xmpp(Node, Port) ->
    Users = ["user" ++ integer_to_list(N) || N <- lists:seq(1, ?XMPP_CLIENTS)],
    _ = [ok = erpc:call(Node, ejabberd_auth, try_register,
                        [list_to_binary(User), <<"localhost">>, <<"secret">>]) || User <- Users],
    started([xmpp_client(Port, User, Next)
             || {User, Next} <- lists:zip(Users, tl(Users) ++ [hd(Users)])]).

xmpp_client(Port, User, Next) ->
    Parent = self(),
    Pid = spawn_link(fun() ->
                             Socket = session(Port, User),
                             Parent ! {ready, self()},
                             ok = inet:setopts(Socket, [{active, true}]),
                             chat(Socket, Next)
                     end),
    receive
        {ready, Pid} -> Pid;
        {'EXIT', Pid, Why} -> error(Why)
    end.

session(Port, User) ->
    Socket = connect(Port, []),
    ok = ask(Socket, stream(), "</stream:features>"),
    Secret = base64:encode_to_string([0 | User] ++ [0 | "secret"]),
    ok = ask(Socket, ["<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>", Secret,
                      "</auth>"], "<success"),
    ok = ask(Socket, stream(), "</stream:features>"),
    ok = ask(Socket, ["<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>",
                      "<resource>r</resource></bind></iq>"], "</iq>"),
    ok = gen_tcp:send(Socket, "<presence/>"),
    Socket.

stream() ->
    "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' "
        "to='localhost' version='1.0'>".

ask(Socket, Request, Expected) ->
    ok = gen_tcp:send(Socket, Request),
    answered(Socket, Expected, <<>>).

answered(Socket, Expected, Before) ->
    {ok, Data} = gen_tcp:recv(Socket, 0, ?ANSWER_MS),
    All = <<Before/binary, Data/binary>>,
    case string:find(All, Expected) of
        nomatch -> answered(Socket, Expected, All);
        _ -> ok
    end.

chat(Socket, Next) ->
    ok = gen_tcp:send(Socket, ["<message type='chat' to='", Next, "@localhost/r'><body>",
                               base64:encode(rand:bytes(rand:uniform(1000))), "</body></message>"]),
    received(?EACH_MS),
    chat(Socket, Next).

received(Ms) ->
    receive
        {tcp, _, _} -> received(Ms);
        {tcp_closed, _} -> exit(closed)
    after Ms -> ok
    end.

%% ---- parts

connect(Port, Opts) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port,
                                   [binary, {active, false}, {nodelay, true} | Opts]),
    Socket.

started(Pids) ->
    fun() ->
            _ = [begin
                     exit(Pid, kill),
                     receive {'EXIT', Pid, Why} -> killed = Why end
                 end || Pid <- Pids],
            ok
    end.
