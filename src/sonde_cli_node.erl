%% @private
%% Being a node for a while: hidden, with a name that nobody else has, listening to nobody. And in
%% words, why another one cannot be reached.
-module(sonde_cli_node).

-export([start/2, connect/1]).

-define(EPMD_MS, 5000).

%% @doc Names are as long as those of the nodes.
-spec start([node(), ...], file:filename() | undefined) -> ok | {error, unicode:chardata()}.
start(Nodes, File) ->
    case {cookie(File), lists:usort([is_long(Node) || Node <- Nodes])} of
        {{ok, Cookie}, [IsLong]} -> start(IsLong, Cookie, is_alive());
        {{ok, _}, _} -> {error, "nodes with long names and nodes with short ones do not mix"};
        {Error, _} -> Error
    end.

start(_, Cookie, true) ->
    cookie_is(Cookie);
start(IsLong, Cookie, false) ->
    _ = logger:set_primary_config(level, none),
    Name = list_to_atom(lists:concat(["sonde-", os:getpid(), "-", random(), host(IsLong)])),
    Domain = case IsLong of true -> longnames; false -> shortnames end,
    case net_kernel:start(Name, #{name_domain => Domain, hidden => true, dist_listen => false}) of
        {ok, _} -> cookie_is(Cookie);
        {error, Why} -> {error, ["this machine cannot be a node: ", short(Why)]}
    end.

cookie_is(Cookie) ->
    true = erlang:set_cookie(Cookie),
    ok.

random() ->
    integer_to_list(rand:uniform(1 bsl 40), 36).

is_long(Node) ->
    lists:member($., host_of(Node)).

host_of(Node) ->
    [_, Host] = string:split(atom_to_list(Node), "@"),
    Host.

%% A long name needs a host with a dot, whatever this machine is called; nobody connects to it.
host(false) ->
    "";
host(true) ->
    Host = net_adm:localhost(),
    case lists:member($., Host) of
        true -> "@" ++ Host;
        false -> "@" ++ Host ++ ".local"
    end.

%% ---- the cookie: never from the command line, where everybody on the machine can read it

cookie(undefined) ->
    case {os:getenv("SONDE_COOKIE", ""), home()} of
        {"", []} -> {error, "no cookie: no --cookie-file, no $SONDE_COOKIE, no ~/.erlang.cookie"};
        {"", [File | _]} -> cookie(File);
        {Cookie, _} -> cookie_of(Cookie, "$SONDE_COOKIE")
    end;
cookie(File) ->
    case file:read_file(File) of
        {ok, Bytes} -> cookie_of(hd(string:split(Bytes, "\n")), File);
        {error, Why} -> {error, ["cookie file ", File, ": ", file:format_error(Why)]}
    end.

cookie_of(Text, From) ->
    case string:trim(unicode:characters_to_list(Text)) of
        [_ | _] = Cookie when length(Cookie) < 256 -> {ok, list_to_atom(Cookie)};
        _ -> {error, ["no cookie in ", From]}
    end.

%% Where OTP itself looks.
home() ->
    Home = os:getenv("HOME", "/"),
    Config = os:getenv("XDG_CONFIG_HOME", filename:join(Home, ".config")),
    [File || File <- [filename:join(Home, ".erlang.cookie"),
                      filename:join([Config, "erlang", ".erlang.cookie"])],
             filelib:is_regular(File)].

%% ---- other nodes

-spec connect(node()) -> ok | {error, unicode:chardata()}.
connect(Node) ->
    case net_kernel:connect_node(Node) of
        true -> ok;
        _ -> {error, [atom_to_list(Node), ": ", refused(Node)]}
    end.

refused(Node) ->
    [Name, Host] = string:split(atom_to_list(Node), "@"),
    case inet:gethostbyname(Host) of
        {error, _} ->
            ["no such host: ", Host];
        {ok, _} ->
            registered(net_kernel:epmd_module(), Name, Host)
    end.

registered(Epmd, Name, Host) ->
    case try_port(Epmd, Name, Host) of
        {port, Port, _} -> listening(Port, Host);
        noport -> ["no such node on ", Host];
        _ -> ["no Erlang node on ", Host, ", or not to be asked: its epmd does not answer"]
    end.

try_port(Epmd, Name, Host) ->
    try Epmd:port_please(Name, Host, ?EPMD_MS)
    catch _:_ -> error
    end.

%% It is there and did not want us; there is no telling why.
listening(Port, Host) ->
    case gen_tcp:connect(Host, Port, [], ?EPMD_MS) of
        {ok, Socket} ->
            ok = gen_tcp:close(Socket),
            "refused. Is it another cookie? (--cookie-file, $SONDE_COOKIE, ~/.erlang.cookie)";
        {error, Why} ->
            ["it does not answer on port ", integer_to_list(Port), ": ", inet:format_error(Why)]
    end.

short(Why) ->
    io_lib:format("~0tP", [Why, 20]).
