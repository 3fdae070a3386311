%% @private
%% The pages of ports and sockets of {@link sonde:top/1}: the rows, the page of one port, and how
%% they look.
-module(sonde_top_network).

-export([take/2, port/2, lines/3, port_lines/3, short/1, address/1]).
-export_type([attr/0, row/0]).

-type attr() :: oct | recv_oct | send_oct | cnt | recv_cnt | send_cnt | memory | queue_size.
-type row() :: {Id :: string(), Value :: integer(), #{atom() => term()}}.
%% The `id' is that of a port, or the kind of a socket, which has none. All text, as everywhere.

-define(SOCKET, "socket").
-define(RELATED, 1000).       % links of a port
-define(COUNTS, [recv_oct, send_oct, recv_cnt, send_cnt]).

%% ---- the rows

-spec take({count | growth, attr()}, sonde_top_sample:request()) -> #{sockets := [row()]}.
take(Order, Request) ->
    Find = maps:get(find, Request, ""),
    Wanted = {Find, sonde_top_rows:named(Find)},
    Rows = rows(Order, most(Find, Request), Request),
    Found = case Find of
                "" -> [row(Row) || Row <- sonde_top_rows:shown(Rows, Request)];
                _ -> sonde_top_rows:shown([Known || Row <- Rows, Known <- [row(Row)],
                                                    is_found(Wanted, owner_of(Row), Known)],
                                          Request)
            end,
    #{sockets => Found}.

%% A search has to look at all.
most("", Request) -> sonde_top_rows:want(Request);
most(_, _) -> erlang:system_info(port_limit).

is_found(Wanted, Owner, {Id, _, Of}) ->
    Texts = [Text || Key <- [kind, owner, owner_name, local, remote], Text <- [maps:get(Key, Of, "")]],
    sonde_top_rows:is_found(Wanted, Owner, [Id | Texts]).

rows({count, Attr}, N, _) when Attr =:= memory; Attr =:= queue_size ->
    sonde_port:count(Attr, N);
rows({count, Attr}, N, _) ->
    sonde_lib:sublist_top_n_attrs(traffic(Attr), N);
rows({growth, Attr}, N, #{interval := Ms}) ->
    {First, Last} = sonde_lib:sample(Ms, fun() -> traffic(Attr) end),
    Grown = sonde_lib:sliding_window(First, Last),
    sonde_lib:sublist_top_n_attrs([Row || {_, Value, _} = Row <- Grown, Value =/= 0], N).

%% Of ports and of sockets that are none. A port has more values than those by which it is sorted, so
%% they are asked for again where they are shown.
traffic(Attr) ->
    sonde_lib:inet_attrs(Attr)
        ++ [{Socket, of_socket(Attr, maps:from_list(Of)), Of}
            || {Socket, _, Of} <- sonde_port:sockets()].

of_socket(Attr, #{counters := Counters}) ->
    lists:sum([maps:get(Key, Counters, 0) || Key <- counters(Attr)]).

counters(oct) -> counters(recv_oct) ++ counters(send_oct);
counters(cnt) -> counters(recv_cnt) ++ counters(send_cnt);
counters(recv_cnt) -> [read_pkg];
counters(send_cnt) -> [write_pkg, sendfile_pkg];
counters(recv_oct) -> [read_byte];
counters(send_oct) -> [write_byte, sendfile_byte].

owner_of({Port, _, _}) when is_port(Port) ->
    case erlang:port_info(Port, connected) of
        {connected, Pid} -> Pid;
        undefined -> none
    end;
owner_of({_, _, Of}) ->
    proplists:get_value(owner, Of, none).

row({Port, Value, _} = Row) when is_port(Port) ->
    Info = [Pair || Item <- [name, memory, queue_size],
                    {_, _} = Pair <- [erlang:port_info(Port, Item)]],
    {erlang:port_to_list(Port), Value,
     maps:merge(owned(owner_of(Row)),
                maps:from_list([{kind, kind(proplists:get_value(name, Info))}
                                | proplists:delete(name, Info)] ++ traffic_of(Port)))};
row({_, Value, Of}) ->
    Known = maps:from_list(Of),
    #{counters := Counters} = Known,
    Address = fun(Key) -> [{Key, address(At)} || {ok, At} <- [maps:find(Key, Known)]] end,
    {?SOCKET, Value,
     maps:merge(owned(maps:get(owner, Known, none)),
                maps:from_list([{kind, lists:concat(["socket ", protocol(Known)])},
                                {recv_oct, maps:get(read_byte, Counters, 0)},
                                {send_oct, of_socket(send_oct, #{counters => Counters})}]
                               ++ Address(local) ++ Address(remote)))}.

protocol(#{protocol := Protocol}) when is_atom(Protocol) -> Protocol;
protocol(#{type := Type}) -> Type.

owned(Pid) when is_pid(Pid) ->
    #{owner => pid_to_list(Pid), owner_name => sonde_top_rows:name(Pid)};
owned(_) ->
    #{}.

kind("tcp_inet") -> "tcp";
kind("udp_inet") -> "udp";
kind("sctp_inet") -> "sctp";
kind(undefined) -> "-";
kind(Name) -> Name.

traffic_of(Port) ->
    case proplists:get_value(type, [sonde_port:info(Port, specific)], []) of
        [] -> [];
        Info ->
            Statistics = proplists:get_value(statistics, Info, []),
            [Pair || {Key, _} = Pair <- Statistics, lists:member(Key, ?COUNTS)]
                ++ [{Side, address(At)} || {Key, Side} <- [{sockname, local}, {peername, remote}],
                                           {Known, At} <- Info, Known =:= Key]
    end.

-spec address(term()) -> string().
address({local, Path}) -> lists:flatten(io_lib:format("~ts", [Path]));
address({Address, Port}) when is_integer(Port) ->
    case inet:ntoa(Address) of
        {error, _} -> sonde_top_rows:text({Address, Port});
        Text when tuple_size(Address) =:= 8 -> lists:concat(["[", Text, "]:", Port]);
        Text -> lists:concat([Text, ":", Port])
    end;
address(Other) -> sonde_top_rows:text(Other).

%% ---- one port

-spec port(string(), sonde_top_sample:request()) -> #{port := [term()] | undefined, _ => _}.
port(Text, Request) ->
    try list_to_port(Text) of
        Port -> about(Port, erlang:port_info(Port), Request)
    catch
        error:badarg -> #{port => undefined}
    end.

about(_, undefined, _) ->
    #{port => undefined};
about(Port, _, Request) ->
    Info = lists:append([Pairs || {_, Pairs} <- sonde_port:info(Port)]),
    Related = [{Pid, owner} || {connected, Pid} <- Info]
        ++ [{Other, linked} || {links, Links} <- Info, Other <- lists:sublist(Links, ?RELATED)]
        ++ [{Other, monitored} || {monitors, Pids} <- Info, Other <- lists:sublist(Pids, ?RELATED)],
    #{port => [{Key, plain(Value)} || {Key, Value} <- Info, Key =/= connected, Key =/= links,
                                      Key =/= monitors, Key =/= statistics, Key =/= options],
      statistics => proplists:get_value(statistics, Info, []),
      options => [{Key, plain(Value)} || {Key, Value} <- proplists:get_value(options, Info, [])],
      related => [{id(Of), How, name(Of)}
                  || {Of, How} <- sonde_top_rows:shown(Related, maps:remove(without, Request))]}.

plain({_, Port} = Address) when is_integer(Port) -> address(Address);
plain({local, _} = Address) -> address(Address);
plain(Value) when is_integer(Value); is_atom(Value) -> Value;
plain(Value) -> case io_lib:printable_unicode_list(Value) of
                    true -> Value;
                    false -> sonde_top_rows:text(Value)
                end.

id(Pid) when is_pid(Pid) -> pid_to_list(Pid);
id(Port) when is_port(Port) -> erlang:port_to_list(Port);
id(Other) -> sonde_top_rows:text(Other).

name(Pid) when is_pid(Pid) -> sonde_top_rows:name(Pid);
name(_) -> "".

%% ---- how they look

-spec short(attr()) -> string().
short(oct) -> "traffic";
short(recv_oct) -> "received";
short(send_oct) -> "sent";
short(cnt) -> "packets";
short(recv_cnt) -> "packets in";
short(send_cnt) -> "packets out";
short(memory) -> "memory";
short(queue_size) -> "queue".

-spec lines({count | growth, attr()}, sonde_top_model:model(), sonde_top_text:style()) ->
    {sonde_top_text:line(), [[sonde_top_text:line()]]}.
lines({How, Attr}, #{interval := Ms} = Model, #{width := Width} = Style) ->
    Rows = sonde_top_model:rows(Model),
    Title = ["ports and sockets by ", short(Attr),
             case How of growth -> io_lib:format("  grown in ~b ms", [Ms]); count -> "" end],
    Extra = [Key || {Key, From} <- [{recv_oct, 100}, {send_oct, 100}, {queue_size, 100}, {memory, 140}],
                    Width + 1 >= From, {count, Key} =/= {How, Attr}],
    {Title, [none(Rows), table(How, Attr, Extra, Rows, Model, Style)]}.

none([]) -> ["no row"];
none(_) -> [].

table(How, Attr, Extra, Rows, #{from := From}, Style) ->
    Head = case How of growth -> "+"; count -> "" end ++ short(Attr),
    sonde_top_text:table(
      ["  #", string:pad(Head, 10, leading)] ++ [string:pad(short(Key), 10, leading) || Key <- Extra]
      ++ ["owner     ", "kind", "remote", "local", {name, "port"}],
      [[Number, sonde_top_text:value(Attr, Value, Style)]
       ++ [sonde_top_text:value(Key, maps:get(Key, Of, undefined), Style) || Key <- Extra]
       ++ [{text, maps:get(Key, Of, "-")} || Key <- [owner_name, kind, remote, local]]
       ++ [{text, Id}]
       || {Number, {Id, Value, Of}} <- sonde_top_text:numbered(From, Rows)], Style).

-spec port_lines(string(), sonde_top_model:model(), sonde_top_text:style()) ->
    {sonde_top_text:line(), [[sonde_top_text:line()]]}.
port_lines(Text, #{sample := #{body := #{port := undefined}}}, _) ->
    {["port ", Text, " is closed"], []};
port_lines(Text, #{from := From, sample := #{body := #{port := Info, statistics := Statistics,
                                                       options := Options}}} = Model, Style) ->
    {["port ", Text],
     [lists:sublist([Line || Pairs <- [Info, Statistics, Options],
                             Line <- sonde_top_text:pairs(Pairs, Style)], sonde_top_model:info(Model)),
      sonde_top_text:table(["  #", "pid or port", "relation", {name, "name"}],
                           [[Number, {text, Id}, {text, atom_to_list(How)}, {text, Name}]
                            || {Number, {Id, How, Name}}
                                   <- sonde_top_text:numbered(From, sonde_top_model:rows(Model))],
                           Style)]}.
