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

%% @doc All categories.
-spec process(sonde_lib:pid_term()) -> [{category(), [{atom(), term()}] | undefined}].
process(Term) ->
    Items = [{Category, items(Category)} || Category <- ?CATEGORIES],
    case values(sonde_lib:term_to_pid(Term), lists:append([Is || {_, Is} <- Items])) of
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
    values(Pid, Keys);
about(Pid, Key) when is_atom(Key) ->
    case {items(Key), sonde_attr:is_counted(Key)} of
        {none, false} -> process_info(Pid, Key);
        {none, true} -> one(values(Pid, [Key]));
        {Items, _} -> {Key, values(Pid, Items)}
    end.

one(undefined) -> undefined;
one([Value]) -> Value.

%% Only what the process would have to list is read: of one process, all else is quickly asked. Read
%% first, since asking makes it run.
values(Pid, Keys) ->
    {Counted, Other} = lists:partition(fun sonde_attr:is_counted/1, Keys),
    case {read(Pid, Counted), told(Pid, Other, Counted)} of
        {{ok, Read}, Told} when is_list(Told) -> in_order(Keys, lists:zip(Counted, Read), Told);
        _ -> undefined
    end.

read(_Pid, []) -> {ok, []};
read(Pid, Counted) -> sonde_every_process:one(Pid, Counted).

told(_Pid, [], [_ | _]) -> [];
told(Pid, Other, _) -> process_info(Pid, Other).

in_order(_Keys, [], Told) -> Told;
in_order([Key | Keys], [{Key, _} = Value | Read], Told) -> [Value | in_order(Keys, Read, Told)];
in_order([Key | Keys], Read, [{Key, _} = Value | Told]) -> [Value | in_order(Keys, Read, Told)].

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
