%% @private
%% Ports: their kinds, what is known of one of them, their memory and traffic; and the sockets of the
%% `socket' module, which are no ports and which nothing else here sees.
-module(sonde_port).

-export([ports/1, port_types/0, info/1, info/2, count/2, inet_count/2, inet_window/3, sockets/0,
         sockets/1]).
-export_type([category/0, attr/0, row/0, protocol/0, socket_row/0]).

-type category() :: meta | signals | io | memory_used | type.
-type attr() :: memory | queue_size | input | output.
-type row() :: {port(), non_neg_integer(), [atom() | {name, string()} | {connected, pid()}]}.
-type protocol() :: tcp | udp | sctp.
-type socket_row() :: {socket:socket(), Octets :: non_neg_integer(),
                       [{owner | domain | type | protocol | local | remote | counters, term()}]}.

-define(CATEGORIES, [meta, signals, io, memory_used, specific]).

-spec ports(tcp | udp | sctp | file) -> [port()].
ports(Kind) -> sonde_lib:port_list(name, driver(Kind)).

driver(tcp) -> "tcp_inet";
driver(udp) -> "udp_inet";
driver(sctp) -> "sctp_inet";
driver(file) -> "efile".

-spec port_types() -> [{string(), pos_integer()}].
port_types() ->
    Counts = sonde_lib:count([Name || {_, Name} <- sonde_lib:port_list(name)]),
    lists:sort(fun({A, N}, {B, M}) -> {-N, A} =< {-M, B} end, Counts).

%% ---- one of them; what is closed is `undefined', and no error

-spec info(sonde_lib:port_term()) -> [{category(), [term()]}].
info(Term) ->
    Port = sonde_lib:term_to_port(Term),
    [info(Port, Category) || Category <- ?CATEGORIES].

-spec info(sonde_lib:port_term(), category() | specific | atom() | [atom()]) -> term().
info(Term, Key) when is_atom(Key) ->
    about(sonde_lib:term_to_port(Term), Key);
info(Term, Keys) when is_list(Keys) ->
    Port = sonde_lib:term_to_port(Term),
    [erlang:port_info(Port, Key) || Key <- Keys].

about(Port, specific) ->
    {type, inet_info(Port, erlang:port_info(Port, name))};
about(Port, Key) ->
    case items(Key) of
        none -> erlang:port_info(Port, Key);
        %% A port without a name has no entry for it.
        Items -> {Key, [Info || Item <- Items, Info <- [erlang:port_info(Port, Item)], Info =/= []]}
    end.

items(meta) -> [registered_name, id, name, os_pid];
items(signals) -> [connected, links, monitors];
items(io) -> [input, output];
items(memory_used) -> [memory, queue_size];
items(_) -> none.

inet_info(Port, {name, Driver}) ->
    case lists:member(Driver, [driver(Kind) || Kind <- [tcp, udp, sctp]]) of
        true -> [{Key, Value} || {Key, Ask} <- inet_items(), {ok, Value} <- [Ask(Port)]];
        false -> []
    end;
inet_info(_Port, undefined) ->
    [].

inet_items() ->
    [{statistics, fun inet:getstat/1}, {peername, fun inet:peername/1},
     {sockname, fun inet:sockname/1}, {options, fun options/1}].

%% A socket leaves out those that it does not know.
options(Port) ->
    inet:getopts(Port, option_keys()).

option_keys() ->
    [active, broadcast, buffer, delay_send, dontroute, exit_on_close, header, high_watermark,
     ipv6_v6only, keepalive, linger, low_watermark, mode, nodelay, packet, packet_size, priority,
     read_packets, recbuf, reuseaddr, send_timeout, sndbuf].

%% ---- the largest

-spec count(attr(), non_neg_integer()) -> [row()].
count(Attr, N) when is_integer(N), N >= 0,
                    Attr =:= memory orelse Attr =:= queue_size orelse Attr =:= input
                    orelse Attr =:= output ->
    Rows = [Row || Port <- erlang:ports(), {_, _, _} = Row <- [row(Port, Attr)]],
    sonde_lib:sublist_top_n_attrs(Rows, N);
count(_, _) ->
    error(badarg).

%% Whatever is closed while it is asked has no row.
row(Port, Attr) ->
    Items = [erlang:port_info(Port, Item) || Item <- [Attr, name, connected]],
    case {Items, erlang:port_info(Port, registered_name)} of
        {[{_, Value}, Name, Connected], {registered_name, Registered}} ->
            {Port, Value, [Registered, Name, Connected]};
        {[{_, Value}, {_, _} = Name, {_, _} = Connected], _} ->
            {Port, Value, [Name, Connected]};
        _ ->
            closed
    end.

-spec inet_count(sonde_lib:inet_attr(), integer()) -> [sonde_lib:inet_row()].
inet_count(Attr, N) ->
    sonde_lib:sublist_top_n_attrs(sonde_lib:inet_attrs(Attr), N).

-spec inet_window(sonde_lib:inet_attr(), integer(), timeout()) ->
    [{port(), integer(), [{atom(), integer()}]}].
inet_window(Attr, N, Ms) ->
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
    Rows = [Row || Socket <- Sockets, {_, _, _} = Row <- [socket(Socket)]],
    sonde_lib:sublist_top_n_attrs(Rows, -1).

socket(Socket) ->
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
