%% @private
%% Ports by the memory and the traffic that `erlang:port_info/2' tells of them.
-module(sonde_ports).

-export([count/2]).
-export_type([attr/0, row/0]).

-type attr() :: memory | queue_size | input | output.
-type row() :: {port(), non_neg_integer(), [atom() | {name, string()} | {connected, pid()}]}.

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
