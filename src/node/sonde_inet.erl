%% @private
%% Ports by their kind, and those that are sockets by their traffic; and the sockets of the `socket'
%% module, which are no ports and which nothing else here sees.
-module(sonde_inet).

-export([is_driver/1, ports/1, port_types/0, count/2, window/3, sockets/0, sockets/1]).
-export_type([protocol/0, socket_row/0]).

-type protocol() :: tcp | udp | sctp.
-type socket_row() :: {socket:socket(), Octets :: non_neg_integer(),
                       [{owner | domain | type | protocol | local | remote | counters, term()}]}.

-spec is_driver(string()) -> boolean().
is_driver(Name) ->
    lists:member(Name, ["tcp_inet", "udp_inet", "sctp_inet"]).

-spec ports(tcp | udp | sctp | file) -> [port()].
ports(tcp) -> sonde_lib:port_list(name, "tcp_inet");
ports(udp) -> sonde_lib:port_list(name, "udp_inet");
ports(sctp) -> sonde_lib:port_list(name, "sctp_inet");
ports(file) -> sonde_lib:port_list(name, "efile").

-spec port_types() -> [{string(), pos_integer()}].
port_types() ->
    Counts = sonde_lib:count([Name || {_, Name} <- sonde_lib:port_list(name)]),
    lists:sort(fun({A, N}, {B, M}) -> {-N, A} =< {-M, B} end, Counts).

-spec count(sonde_lib:inet_attr(), integer()) -> [sonde_lib:inet_row()].
count(Attr, N) ->
    sonde_lib:sublist_top_n_attrs(sonde_lib:inet_attrs(Attr), N).

-spec window(sonde_lib:inet_attr(), integer(), timeout()) ->
    [{port(), integer(), [{atom(), integer()}]}].
window(Attr, N, Ms) ->
    {First, Last} = sonde_lib:sample(Ms, fun() -> sonde_lib:inet_attrs(Attr) end),
    sonde_lib:sublist_top_n_attrs(sonde_lib:sliding_window(First, Last), N).

%% ---- sockets of the socket module

-spec sockets() -> [socket_row()].
sockets() ->
    rows(listed(fun socket:which_sockets/0)).

-spec sockets(protocol()) -> [socket_row()].
sockets(Protocol) ->
    rows(listed(fun() -> socket:which_sockets(Protocol) end)).

%% Where Erlang was built without it, or for a system that it does not support, there are none. What
%% is raised there is not told by its documentation; there is nothing else that can be wrong.
listed(Which) ->
    try
        Which()
    catch
        error:_ -> []
    end.

rows(Sockets) ->
    Rows = [Row || Socket <- Sockets, {_, _, _} = Row <- [row(Socket)]],
    sonde_lib:sublist_top_n_attrs(Rows, -1).

row(Socket) ->
    try {socket:info(Socket), socket:sockname(Socket), socket:peername(Socket)} of
        {#{counters := Counters, rstates := States} = Info, Local, Remote} ->
            is_open(States) andalso
                {Socket, octets(Counters),
                 [{Key, maps:get(Key, Info)} || Key <- [owner, domain, type, protocol]]
                 ++ address(local, Local) ++ address(remote, Remote) ++ [{counters, Counters}]}
    catch
        error:_ -> false
    end.

is_open(States) ->
    not lists:any(fun(State) -> State =:= closing orelse State =:= closed end, States).

%% What was sent from files is counted by itself, from the first time on.
octets(#{read_byte := Read, write_byte := Written} = Counters) ->
    Read + Written + maps:get(sendfile_byte, Counters, 0).

address(Side, {ok, #{addr := Address, port := Port}}) -> [{Side, {Address, Port}}];
address(Side, {ok, #{family := local, path := Path}}) -> [{Side, {local, Path}}];
address(_Side, _) -> [].
