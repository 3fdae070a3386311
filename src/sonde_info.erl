%% @private
%% What is known of one process, or of one port. A dead one is an answer and no error.
-module(sonde_info).

-export([process/1, process/2, port/1, port/2]).
-export_type([category/0, port_category/0]).

-type category() :: meta | signals | location | memory_used | work.
-type port_category() :: meta | signals | io | memory_used | type.

-define(CATEGORIES, [meta, signals, location, memory_used, work]).
-define(PORT_CATEGORIES, [meta, signals, io, memory_used, specific]).

%% ---- processes

%% @doc All categories, from one look at the process.
-spec process(sonde_lib:pid_term()) -> [{category(), [{atom(), term()}] | undefined}].
process(Term) ->
    Items = [{Category, items(Category)} || Category <- ?CATEGORIES],
    case process_info(sonde_lib:term_to_pid(Term), lists:append([Is || {_, Is} <- Items])) of
        undefined -> [{Category, undefined} || Category <- ?CATEGORIES];
        Values -> deal(Items, Values)
    end.

deal([], []) ->
    [];
deal([{Category, Items} | Categories], Values) ->
    {Mine, Others} = lists:split(length(Items), Values),
    [{Category, Mine} | deal(Categories, Others)].

-spec process(sonde_lib:pid_term(), category() | atom() | [atom()]) -> term().
process(Term, Key) ->
    about(sonde_lib:term_to_pid(Term), Key).

about(Pid, Keys) when is_list(Keys) ->
    _ = length(Keys), % badarg for what is no proper list
    case process_info(Pid, [sonde_attr:item(Key) || Key <- Keys]) of
        undefined -> undefined;
        Values -> [{Key, sonde_attr:value(Key, Value)}
                   || {Key, {_, Value}} <- lists:zip(Keys, Values)]
    end;
about(Pid, Key) when is_atom(Key) ->
    case {items(Key), sonde_attr:item(Key)} of
        {none, Key} -> process_info(Pid, Key);
        {none, Item} -> computed(Key, process_info(Pid, Item));
        {Items, _} -> {Key, process_info(Pid, Items)}
    end.

computed(_Key, undefined) -> undefined;
computed(Key, {_, Value}) -> {Key, sonde_attr:value(Key, Value)}.

items(meta) -> [registered_name, dictionary, group_leader, status];
items(signals) -> [links, monitors, monitored_by, trap_exit];
items(location) -> [initial_call, current_stacktrace];
items(memory_used) -> [memory, message_queue_len, heap_size, total_heap_size, garbage_collection];
items(work) -> [reductions];
items(_) -> none.

%% ---- ports

-spec port(sonde_lib:port_term()) -> [{port_category(), [term()]}].
port(Term) ->
    Port = sonde_lib:term_to_port(Term),
    [port(Port, Category) || Category <- ?PORT_CATEGORIES].

-spec port(sonde_lib:port_term(), port_category() | specific | atom() | [atom()]) -> term().
port(Term, Key) when is_atom(Key) ->
    about_port(sonde_lib:term_to_port(Term), Key);
port(Term, Keys) when is_list(Keys) ->
    Port = sonde_lib:term_to_port(Term),
    [erlang:port_info(Port, Key) || Key <- Keys].

about_port(Port, specific) ->
    {type, inet_info(Port, erlang:port_info(Port, name))};
about_port(Port, Key) ->
    case port_items(Key) of
        none -> erlang:port_info(Port, Key);
        %% A port without a name has no entry for it.
        Items -> {Key, [Info || Item <- Items, Info <- [erlang:port_info(Port, Item)], Info =/= []]}
    end.

port_items(meta) -> [registered_name, id, name, os_pid];
port_items(signals) -> [connected, links, monitors];
port_items(io) -> [input, output];
port_items(memory_used) -> [memory, queue_size];
port_items(_) -> none.

inet_info(Port, {name, Driver}) ->
    case sonde_inet:is_driver(Driver) of
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
