%% @doc The parts of which the calls of {@link sonde} are made, for tools that combine them in their
%% own way: names to pids, lists of values of all processes, ports and sockets, samples over time,
%% the largest rows of a list. The functions, their arguments and their results are those of
%% `recon_lib'.
%%
%% <ul>
%% <li>Processes: {@link proc_attrs/1}, {@link proc_attrs/2}, {@link fold_processes/2}, {@link
%%     binary_memory/1}</li>
%% <li>Ports and sockets: {@link port_list/1}, {@link port_list/2}, {@link inet_attrs/1}, {@link
%%     inet_attrs/2}</li>
%% <li>Time: {@link sample/2}, {@link sliding_window/2}, {@link time_map/5}, {@link time_fold/6},
%%     {@link scheduler_usage_diff/2}</li>
%% <li>Lists: {@link sublist_top_n_attrs/2}, {@link count/1}</li>
%% <li>Notations of a process or a port: {@link term_to_pid/1}, {@link triple_to_pid/3}, {@link
%%     term_to_port/1}</li>
%% </ul>
%%
%% Nothing here reads natively. For the largest of all processes use {@link sonde:proc_count/2},
%% which does not ask every process.
-module(sonde_lib).

-export([proc_attrs/1, proc_attrs/2, fold_processes/2, binary_memory/1,
         port_list/1, port_list/2, inet_attrs/1, inet_attrs/2,
         sample/2, sliding_window/2, time_map/5, time_fold/6, scheduler_usage_diff/2,
         sublist_top_n_attrs/2, count/1,
         term_to_pid/1, triple_to_pid/3, term_to_port/1]).

-export_type([pid_term/0, port_term/0, inet_attr/0, inet_row/0, scheduler_times/0,
              scheduler_usage/0]).

-type pid_term() :: pid() | atom() | string() | binary() | {global, term()}
                  | {via, module(), term()}
                  | {non_neg_integer(), non_neg_integer(), non_neg_integer()}.
%% A pid or a notation of one: a registered name, `"<0.12.0>"', `<<"<0.12.0>">>', `{0, 12, 0}'.
-type port_term() :: port() | atom() | string() | non_neg_integer().
%% A port or a notation of one: a registered name, `"#Port<0.12>"', `12'.
-type inet_attr() :: cnt | oct | inet:stat_option() | atom().
%% `cnt' and `oct' are packets and octets in both directions.
-type inet_row() :: {port(), Sum :: non_neg_integer(), [{inet:stat_option(), integer()}]}.
-type scheduler_times() :: [{Id :: pos_integer(), Active :: non_neg_integer(),
                             Total :: non_neg_integer()}].
-type scheduler_usage() :: [{Id :: pos_integer(), Usage :: float()}].

-define(CALL_SITE, [registered_name, current_function, initial_call]).
-define(MAX_PORT, 16#FFFFFFFFFFFFFFFF). % a larger number would wrap around

%% ---- processes

%% @doc Returns `{Pid, Value, Attrs}' for all processes but the caller, in the order of
%% `processes/0'. Takes the attributes of {@link sonde:proc_count/2} and returns its rows, for all
%% processes. The call asks every process by `process_info/2', and keeps a row for each in the
%% caller's memory.
%%
%% Raises `badarg' if the argument is not an attribute.
%%
%% ```
%% 1> sonde_lib:proc_attrs(message_queue_len).
%% [{<0.0.0>,0,[init,{current_function,{init,boot_loop,2}},
%%                   {initial_call,{erl_init,start,2}}]},
%%  ...]
%% '''
-spec proc_attrs(sonde:attr()) -> [sonde:row()].
proc_attrs(Attr) ->
    Items = [sonde_attr:item(Attr) | ?CALL_SITE],
    Self = self(),
    [row(Attr, Pid, Info) || Pid <- processes(), Pid =/= Self,
                             [_ | _] = Info <- [process_info(Pid, Items)]].

%% @doc Returns the row of one process, which may be the caller; `{error, undefined}' if it is dead.
%% Takes a pid only; {@link term_to_pid/1} translates names. Raises `badarg' for an invalid
%% attribute, or for a term that is not a pid of this node.
%%
%% ```
%% 1> sonde_lib:proc_attrs(memory, whereis(init)).
%% {ok,{<0.0.0>,16728,[init,{current_function,{init,boot_loop,2}},
%%                          {initial_call,{erl_init,start,2}}]}}
%% '''
-spec proc_attrs(sonde:attr(), pid()) -> {ok, sonde:row()} | {error, undefined}.
proc_attrs(Attr, Pid) ->
    case process_info(Pid, [sonde_attr:item(Attr) | ?CALL_SITE]) of
        undefined -> {error, undefined};
        Info -> {ok, row(Attr, Pid, Info)}
    end.

row(Attr, Pid, [{_, Value}, {registered_name, []} | Calls]) ->
    {Pid, sonde_attr:value(Attr, Value), Calls};
row(Attr, Pid, [{_, Value}, {registered_name, Name} | Calls]) ->
    {Pid, sonde_attr:value(Attr, Value), [Name | Calls]}.

%% @doc Calls `Fun(Pid, Acc)' for each process, including the caller, and returns the last `Acc'.
%% From OTP 28 on it uses an iterator and makes no list of all processes; it may miss a process that
%% starts meanwhile.
%%
%% ```
%% 1> sonde_lib:fold_processes(fun(_, N) -> N + 1 end, 0).
%% 44
%% '''
-spec fold_processes(fun((pid(), Acc) -> Acc), Acc) -> Acc.
fold_processes(Fun, Acc) ->
    case erlang:function_exported(erlang, processes_iterator, 0) of
        true -> fold_iterator(erlang, Fun, Acc);
        false -> lists:foldl(Fun, Acc, processes())
    end.

%% The module is a variable because these functions do not exist before OTP 28.
fold_iterator(Erlang, Fun, Acc) ->
    fold_next(Erlang, Fun, Acc, Erlang:processes_next(Erlang:processes_iterator())).

fold_next(Erlang, Fun, Acc, {Pid, Iterator}) ->
    fold_next(Erlang, Fun, Fun(Pid, Acc), Erlang:processes_next(Iterator));
fold_next(_Erlang, _Fun, Acc, none) ->
    Acc.

%% @doc Returns the bytes of the binaries in `process_info(Pid, binary)': the sum of the second
%% elements. A binary that is listed twice counts twice.
%%
%% ```
%% 1> sonde_lib:binary_memory([{94230314959296, 103, 2}, {94230314959312, 1000, 1}]).
%% 1103
%% '''
-spec binary_memory([{Id :: term(), Bytes, References :: term()}]) -> Bytes
              when Bytes :: number().
binary_memory(Binaries) ->
    lists:foldl(fun({_, Bytes, _}, Sum) -> Sum + Bytes end, 0, Binaries).

%% ---- ports and sockets

%% @doc Returns `{Port, Value}' for each port: an item of `erlang:port_info/2', in its unit. For
%% `registered_name' it returns only ports that have a name. Raises `badarg' if `Item' is not an
%% item.
%%
%% ```
%% 1> sonde_lib:port_list(name).
%% [{#Port<0.0>,"forker"},{#Port<0.3>,"2/2"},{#Port<0.5>,"tcp_inet"}]
%% '''
-spec port_list(Item :: atom()) -> [{port(), term()}].
port_list(Item) ->
    [{Port, Value} || Port <- erlang:ports(), {_, Value} <- [erlang:port_info(Port, Item)]].

%% @doc Returns the ports with `Value' as their `Item'. Raises `badarg' if `Item' is not an item of
%% `erlang:port_info/2'.
%%
%% ```
%% 1> sonde_lib:port_list(name, "tcp_inet").
%% [#Port<0.5>]
%% '''
-spec port_list(Item :: atom(), term()) -> [port()].
port_list(Item, Value) ->
    [Port || {Port, V} <- port_list(Item), V =:= Value].

%% @doc Returns `{Port, Sum, Values}' for each port of TCP, UDP or SCTP: the values of
%% `inet:getstat/2' and their sum. A port that does not know `Attr' is left out, so for an invalid
%% attribute the result is `[]'. Sockets of the `socket' module are not ports: {@link
%% sonde:sockets/0} returns them.
%%
%% ```
%% 1> sonde_lib:inet_attrs(oct).
%% [{#Port<0.5>,1000,[{recv_oct,0},{send_oct,1000}]}]
%% '''
-spec inet_attrs(inet_attr()) -> [inet_row()].
inet_attrs(Attr) ->
    [Row || {Port, Driver} <- port_list(name),
            lists:member(Driver, ["tcp_inet", "udp_inet", "sctp_inet"]),
            {ok, Row} <- [inet_attrs(Attr, Port)]].

%% @doc Returns the row of one port, or `{error, einval}' if it is closed, is not a socket, or does
%% not know `Attr'.
%%
%% ```
%% 1> {ok, Socket} = gen_udp:open(0), sonde_lib:inet_attrs(send_oct, Socket).
%% {ok,{#Port<0.6>,0,[{send_oct,0}]}}
%% '''
-spec inet_attrs(inet_attr(), port()) -> {ok, inet_row()} | {error, inet:posix()}.
inet_attrs(Attr, Port) ->
    case inet:getstat(Port, inet_keys(Attr)) of
        {ok, Values} -> {ok, {Port, lists:sum([Value || {_, Value} <- Values]), Values}};
        {error, _} = Error -> Error
    end.

inet_keys(cnt) -> [recv_cnt, send_cnt];
inet_keys(oct) -> [recv_oct, send_oct];
inet_keys(Attr) -> [Attr].

%% ---- time

%% @doc Calls `Fun()' now and after `Ms' milliseconds, and returns both results. Raises
%% `timeout_value' if `Ms' is not a timeout.
%%
%% ```
%% 1> sonde_lib:sample(1000, fun() -> erlang:memory(total) end).
%% {15131768,15134824}
%% '''
-spec sample(timeout(), fun(() -> Result)) -> {First :: Result, Last :: Result}.
sample(Ms, Fun) ->
    First = Fun(),
    ok = timer:sleep(Ms),
    {First, Fun()}.

%% @doc Returns what changed between two lists of `{Key, Value, Other}': the difference of the
%% values for a key in both lists, the value itself for a key in one list. `Other' is that of the
%% last list if the key is there. The result has no order. Raises `badarith' if values of a key in
%% both lists are not numbers.
%%
%% ```
%% 1> sonde_lib:sliding_window([{a, 1, x}, {b, 2, x}], [{a, 5, y}, {c, 7, y}]).
%% [{a,4,y},{b,2,x},{c,7,y}]
%% '''
-spec sliding_window([{Key, number(), Other}], [{Key, number(), Other}]) ->
    [{Key, number(), Other}].
sliding_window(First, Last) ->
    Before = maps:from_list([{Key, {Value, Other}} || {Key, Value, Other} <- First]),
    After = lists:foldl(fun({Key, Value, Other}, Seen) ->
                                case Seen of
                                    #{Key := {V, _}} -> Seen#{Key := {Value - V, Other}};
                                    #{} -> Seen#{Key => {Value, Other}}
                                end
                        end, Before, [Row || {_, _, _} = Row <- Last]),
    [{Key, Value, Other} || {Key, {Value, Other}} <- maps:to_list(After)].

%% @doc Returns a list of `N' results. For each it calls `{Result, NewState} = Fun(State)', adds
%% `MapFun(Result)' to the list, and sleeps for `Ms' milliseconds. A negative `N' goes on until a
%% call fails.
%%
%% ```
%% 1> sonde_lib:time_map(3, 100, fun(I) -> {I * I, I + 1} end, 1, fun(X) -> -X end).
%% [-1,-4,-9]
%% '''
-spec time_map(N :: integer(), timeout(), fun((State) -> {Result, State}), State,
               fun((Result) -> Mapped)) -> [Mapped].
time_map(0, _Ms, _Fun, _State, _MapFun) ->
    [];
time_map(N, Ms, Fun, State, MapFun) ->
    {Result, Next} = Fun(State),
    ok = timer:sleep(Ms),
    [MapFun(Result) | time_map(N - 1, Ms, Fun, Next, MapFun)].

%% @doc Folds over `N' results. For each it sleeps for `Ms' milliseconds, calls `{Result, NewState}
%% = Fun(State)', then `FoldFun(Result, Acc)'. A negative `N' goes on until a call fails.
%%
%% ```
%% 1> sonde_lib:time_fold(3, 100, fun(I) -> {I * I, I + 1} end, 1, fun erlang:'+'/2, 0).
%% 14
%% '''
-spec time_fold(N :: integer(), timeout(), fun((State) -> {Result, State}), State,
                fun((Result, Acc) -> Acc), Acc) -> Acc.
time_fold(0, _Ms, _Fun, _State, _FoldFun, Acc) ->
    Acc;
time_fold(N, Ms, Fun, State, FoldFun, Acc) ->
    ok = timer:sleep(Ms),
    {Result, Next} = Fun(State),
    NewAcc = FoldFun(Result, Acc),
    time_fold(N - 1, Ms, Fun, Next, FoldFun, NewAcc).

%% @doc Returns the part of the time between two results of `erlang:statistics(scheduler_wall_time)'
%% during which each scheduler worked, from 0.0 to 1.0; 0.0 if no time has passed. Returns
%% `undefined' if one of them is `undefined', because the time was not measured. Raises
%% `function_clause' if they are not of the same schedulers.
%%
%% ```
%% 1> sonde_lib:scheduler_usage_diff([{1, 0, 0}, {2, 5, 10}], [{1, 5, 10}, {2, 5, 10}]).
%% [{1,0.5},{2,0.0}]
%% '''
-spec scheduler_usage_diff(scheduler_times() | undefined, scheduler_times() | undefined) ->
    scheduler_usage() | undefined.
scheduler_usage_diff(undefined, _Last) ->
    undefined;
scheduler_usage_diff(_First, undefined) ->
    undefined;
scheduler_usage_diff(First, Last) ->
    lists:map(fun usage/1, lists:zip(lists:sort(First), lists:sort(Last))).

usage({{Id, _, Total}, {Id, _, Total}}) -> {Id, 0.0};
usage({{Id, Active1, Total1}, {Id, Active2, Total2}}) ->
    {Id, (Active2 - Active1) / (Total2 - Total1)}.

%% ---- lists

%% @doc Returns the `N' largest of a list of `{Key, Value, Attrs}', largest first: by value, for
%% equal values by key. Of rows that are equal in both, it keeps those that come first in the list,
%% and returns them in descending order. Keys, values and attributes are any terms. The call keeps
%% at most `N' rows while it reads the list.
%%
%% `N' = 0 returns `[]', a negative `N' returns all rows. Raises `badarith' if `N' is not a number,
%% `function_clause' if a row is not a triple.
%%
%% ```
%% 1> sonde_lib:sublist_top_n_attrs([{a, 1, []}, {b, 5, []}, {c, 3, []}], 2).
%% [{b,5,[]},{c,3,[]}]
%% '''
-spec sublist_top_n_attrs([Row], N :: integer()) -> [Row]
              when Row :: {Key :: term(), Value :: term(), Attrs :: term()}.
sublist_top_n_attrs(_Rows, 0) ->
    [];
sublist_top_n_attrs(Rows, N) ->
    largest(Rows, sonde_largest:new(N)).

largest([], Best) ->
    sonde_largest:to_list(Best);
largest([{Key, Value, _} = Row | Rows], Best) ->
    largest(Rows, sonde_largest:add({Value, Key}, Row, Best)).

%% @doc Returns how often each term is in the list: `{Term, N}', in no order.
%%
%% ```
%% 1> sonde_lib:count([a, b, a]).
%% [{a,2},{b,1}]
%% '''
-spec count([Term]) -> [{Term, pos_integer()}].
count(Terms) ->
    Add = fun(Term, Counts) -> maps:update_with(Term, fun(N) -> N + 1 end, 1, Counts) end,
    maps:to_list(lists:foldl(Add, #{}, Terms)).

%% ---- notations

%% @doc Returns the pid for a pid, a registered name, `"<0.12.0>"', `<<"<0.12.0>">>', `{0, 12, 0}',
%% `{global, Name}' or `{via, Module, Name}'; `undefined' for a name that is not registered.
%%
%% Raises `function_clause' for a term that cannot denote a process (a string must begin with
%% `"<0."'), `badarg' for an invalid notation, `undef' if there is no such `Module'.
%%
%% ```
%% 1> sonde_lib:term_to_pid("<0.0.0>").
%% <0.0.0>
%% '''
-spec term_to_pid(pid_term()) -> pid() | port() | undefined.
term_to_pid(Pid) when is_pid(Pid) -> Pid;
term_to_pid(Name) when is_atom(Name) -> whereis(Name);
term_to_pid("<0." ++ _ = Text) -> list_to_pid(Text);
term_to_pid(<<"<0.", _/bits>> = Text) when is_binary(Text) -> list_to_pid(binary_to_list(Text));
term_to_pid({global, Name}) -> global:whereis_name(Name);
term_to_pid({via, Module, Name}) -> Module:whereis_name(Name);
term_to_pid({A, B, C}) when is_integer(A), is_integer(B), is_integer(C) -> triple_to_pid(A, B, C).

%% @doc Returns the pid that is shown as `<A.B.C>'. Raises `badarg' if no such pid can exist.
%%
%% ```
%% 1> sonde_lib:triple_to_pid(0, 12, 0).
%% <0.12.0>
%% '''
-spec triple_to_pid(non_neg_integer(), non_neg_integer(), non_neg_integer()) -> pid().
triple_to_pid(A, B, C) ->
    list_to_pid("<" ++ integer_to_list(A) ++ "." ++ integer_to_list(B) ++ "."
                ++ integer_to_list(C) ++ ">").

%% @doc Returns the port for a port, a registered name, `"#Port<0.12>"' or `12'; `undefined' for a
%% name that is not registered. The result for the name of a process is its pid.
%%
%% Raises `function_clause' for a term that cannot denote a port, `badarg' for an invalid notation.
%%
%% ```
%% 1> sonde_lib:term_to_port(12).
%% #Port<0.12>
%% '''
-spec term_to_port(port_term()) -> port() | pid() | undefined.
term_to_port(Port) when is_port(Port) -> Port;
term_to_port(Name) when is_atom(Name) -> whereis(Name);
term_to_port("#Port<0." ++ Text) ->
    case string:to_integer(Text) of
        {N, ">"} -> term_to_port(N);
        _ -> error(badarg)
    end;
term_to_port(N) when is_integer(N) ->
    N >= 0 andalso N =< ?MAX_PORT orelse error(badarg),
    list_to_port("#Port<0." ++ integer_to_list(N) ++ ">").
