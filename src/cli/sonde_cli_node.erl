%% @private
%% Makes this VM a node for a while: hidden, with a unique name, and accepting no connections. Also
%% explains why another node cannot be reached.
-module(sonde_cli_node).

-export([start/2, connect/1]).

-define(EPMD_MS, 5000).
-define(MOST_NAMES, 10).      % of the nodes of one host

%% @doc Uses long names if the nodes have long names.
-spec start([node(), ...], file:filename() | undefined) -> ok | {error, unicode:chardata()}.
start(Nodes, File) ->
    case {cookie(File), lists:usort([is_long(Node) || Node <- Nodes])} of
        {{ok, Cookie}, [IsLong]} -> start(IsLong, Cookie, is_alive());
        {{ok, _}, _} -> {error, "nodes with long names and nodes with short names cannot be mixed"};
        {Error, _} -> Error
    end.

start(_, Cookie, true) ->
    cookie_is(Cookie);
start(IsLong, Cookie, false) ->
    Name = list_to_atom(lists:concat(["sonde-", os:getpid(), "-", random(), host(IsLong)])),
    Domain = case IsLong of true -> longnames; false -> shortnames end,
    case net_kernel:start(Name, #{name_domain => Domain, hidden => true, dist_listen => false}) of
        {ok, _} -> cookie_is(Cookie);
        {error, Why} -> {error, ["cannot start a node on this machine: ", short(Why)]}
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

%% A long name needs a host with a dot, whatever this machine is called; no node connects to it.
host(false) ->
    "";
host(true) ->
    Host = net_adm:localhost(),
    case lists:member($., Host) of
        true -> "@" ++ Host;
        false -> "@" ++ Host ++ ".local"
    end.

%% ---- the cookie: never from the command line, where every user of the machine can read it

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

%% The files that OTP itself reads.
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
        {error, _} -> ["no such host: ", Host | elsewhere(Name, Host)];
        {ok, _} -> registered(net_kernel:epmd_module(), Node, Name, Host)
    end.

registered(Epmd, Node, Name, Host) ->
    case try_port(Epmd, Name, Host) of
        {port, Port, _} -> listening(Node, Host, Port);
        noport -> ["no such node on ", Host | others(Epmd, Host)];
        _ -> ["no answer from epmd on ", Host, ": no Erlang node is there, or it is not reachable"]
    end.

try_port(Epmd, Name, Host) ->
    try Epmd:port_please(Name, Host, ?EPMD_MS)
    catch _:_ -> error
    end.

%% The host's long name does not resolve, but its short name may.
elsewhere(Name, Host) ->
    [Short | Rest] = string:split(Host, "."),
    Known = Rest =/= [] andalso inet:gethostbyname(Short),
    case Known =/= false andalso element(1, Known) =:= ok
        andalso try_port(net_kernel:epmd_module(), Name, Short) of
        {port, Port, _} -> [", but there is ", Short | is_called(sonde_cli_handshake:name(Short, Port))];
        _ -> ""
    end.

is_called({ok, Real}) ->
    Safe = sonde_units:safe(Real),
    [", and its node is ", Safe, ": try --node ", Safe];
is_called(_) -> "".

others(Epmd, Host) ->
    try Epmd:names(Host) of
        {ok, [_ | _] = Names} ->
            [", where there ", case Names of [_] -> "is "; _ -> "are " end,
             lists:join(", ", [N || {N, _} <- lists:sublist(lists:sort(Names), ?MOST_NAMES)]),
             [", ..." || length(Names) > ?MOST_NAMES]];
        _ -> ""
    catch _:_ -> ""
    end.

%% The node is there and refused us. It reports its name to every client, and accepts a connection
%% only for exactly that name, with the host spelled the same way.
listening(Node, Host, Port) ->
    Known = atom_to_list(Node),
    case sonde_cli_handshake:name(Host, Port) of
        {ok, Known} ->
            "refused: it may have another cookie (--cookie-file, $SONDE_COOKIE, ~/.erlang.cookie)";
        {ok, Real} ->
            Safe = sonde_units:safe(Real),
            ["refused: the node there is called ", Safe, ", so try --node ", Safe];
        {error, {no_port, Why}} ->
            ["it does not answer on port ", integer_to_list(Port), ": ", inet:format_error(Why)];
        {error, _} ->
            ["refused: it may have another cookie (--cookie-file, $SONDE_COOKIE, ~/.erlang.cookie)"
             ", or its host may be spelled in another way (", other_spelling(Node), ")"]
    end.

other_spelling(Node) ->
    [Name, Host] = string:split(atom_to_list(Node), "@"),
    case is_long(Node) of
        true -> [Name, "@", hd(string:split(Host, "."))];
        false -> [Name, "@", Host, ".DOMAIN"]
    end.

short(Why) ->
    io_lib:format("~0tP", [Why, 20]).
