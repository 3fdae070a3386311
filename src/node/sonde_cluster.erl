%% @private
%% Calls on many nodes. One of `sonde', its rows put together: only what the module exports and what
%% returns rows is called, by its name, so the nodes may run different builds. Or a fun: only OTP's own
%% functions are called there, so nothing of ours need be on the node.
-module(sonde_cluster).

-export([call/2, each/4, functions/0, asked/2, rows/3, reason/1, rpc/3, named_rpc/3]).
-export_type([opts/0, result/0]).

-type opts() :: #{nodes => [node()], timeout => Ms :: non_neg_integer()}.
%% `reports': the report of each node, if the call has `report => true'.
-type result() :: #{rows := [{node(), Row :: term()}], failed := [{node(), Reason :: term()}],
                    reports => [{node(), sonde_scan:report()}]}.
-type results() :: {[term()], BadNodes :: [node()]}.

-define(MAX_MS, 16#FFFFFFFF).

%% @doc Returns the functions that return rows, and the order of these rows: by an element, by an
%% element of which the smallest comes first, or by the first of the totals in an element.
-spec functions() -> #{atom() => {largest | smallest | totals, pos_integer()} | holders}.
functions() ->
    Value = {largest, 2},
    #{proc_count => Value, proc_window => Value, proc_group => {totals, 3},
      bin_leak => {smallest, 2}, bin_garbage => Value, bin_waste => Value, bin_owned => Value,
      bin_holders => holders, bin_resources => {largest, 3}, bin_window => Value,
      port_types => Value, port_count => Value, ets_count => Value, inet_count => Value,
      inet_window => Value, sockets => Value, waits => Value, stacks => Value}.

-spec call({atom(), [term()]}, opts()) -> result().
call({Function, Args}, Opts) when is_atom(Function), is_list(Args) ->
    #{nodes := Nodes, timeout := Timeout} =
        sonde_opts:read(Opts, #{nodes => {[node() | nodes()], fun are_nodes/1},
                                timeout => {10000, fun is_timeout/1}}),
    Order = order(Function, Args),
    Asked = lists:usort(Nodes),
    Answers = ask(Asked, Function, asked(Function, Args), Timeout),
    {Rows, Failed, Reports} =
        lists:foldr(fun({Node, {ok, Answer}}, Acc) ->
                            sort_out({Node, {ok, rows(Function, Args, Answer)}}, Order, Acc);
                       (Error, Acc) ->
                            sort_out(Error, Order, Acc)
                    end, {[], [], []}, Answers),
    Result = #{rows => [NodeAndRow || {_, NodeAndRow} <- lists:keysort(1, Rows)],
               failed => Failed},
    case lists:reverse(Args) of
        [#{report := true} | _] -> Result#{reports => Reports};
        _ -> Result
    end;
call(_, _) ->
    error(badarg).

%% @doc Returns the arguments for the call on another node. In these calls the caller has a row too,
%% and there it is a process that `erpc' starts: the call gets one row more, and {@link rows/3}
%% removes it.
-spec asked(atom(), [term()]) -> [term()].
asked(Function, [N | Args]) when is_integer(N), N > 0,
                                 (Function =:= bin_leak orelse Function =:= bin_garbage
                                  orelse Function =:= bin_waste) ->
    [N + 1 | Args];
asked(_, Args) ->
    Args.

-spec rows(atom(), [term()], Answer) -> Answer when Answer :: term().
rows(Function, Args, Rows) when is_list(Rows) ->
    case asked(Function, Args) of
        Args -> Rows;
        [_ | _] -> lists:sublist(sonde_attr:without_calls(Rows), hd(Args))
    end;
rows(Function, Args, {Rows, Report}) when is_list(Rows) ->
    {rows(Function, Args, Rows), Report};
rows(_, _, Answer) ->
    Answer.

%% @doc Returns what a call without rows returns on each node; for the command.
-spec each(atom(), [term()], [node()], Ms :: non_neg_integer()) ->
    [{node(), {ok, term()} | {error, Why :: term()}}].
each(Function, Args, Nodes, Ms) ->
    [{Node, case Answer of
                {ok, _} -> Answer;
                Error -> {error, reason(Error)}
            end} || {Node, Answer} <- ask(Nodes, Function, Args, min(Ms, ?MAX_MS))].

%% On nodes where sonde is only loaded temporarily, the module has another name.
ask(Nodes, Function, Args, Timeout) ->
    Answers = lists:zip(Nodes, erpc:multicall(Nodes, sonde, Function, Args, Timeout)),
    case [Node || {Node, {error, {exception, undef, [{sonde, _, _, _} | _]}}} <- Answers] of
        [] ->
            Answers;
        Without ->
            {Guest, Named} = sonde_remote_name:guest(sonde, Function),
            Lent = lists:zip(Without, erpc:multicall(Without, Guest, Named, Args, Timeout)),
            [{Node, lent(proplists:get_value(Node, Lent, Answer), Guest, Answer)}
             || {Node, Answer} <- Answers]
    end.

lent({error, {exception, undef, [{Guest, _, _, _} | _]}}, Guest, Answer) -> Answer;
lent(Lent, _, _) -> Lent.

are_nodes(Nodes) when length(Nodes) >= 0 -> lists:all(fun is_atom/1, Nodes);
are_nodes(_) -> false.

is_timeout(Ms) ->
    is_integer(Ms) andalso Ms >= 0 andalso Ms =< ?MAX_MS.

%% With several attributes, proc_count returns a list of rows for each of them, which cannot be
%% merged.
order(proc_count, [Attr | _]) when is_list(Attr) -> error(badarg);
order(bin_leak, [_, _]) -> error(badarg);
order(bin_holders, [_, count | _]) -> fun(#{refc := Refc}) -> descending(Refc) end;
order(Function, Args) ->
    _ = code:ensure_loaded(sonde),
    erlang:function_exported(sonde, Function, length(Args)) orelse error(badarg),
    case functions() of
        #{Function := {largest, Nth}} -> fun(Row) -> descending(element(Nth, Row)) end;
        #{Function := {smallest, Nth}} -> fun(Row) -> element(Nth, Row) end;
        #{Function := {totals, Nth}} ->
            fun(Row) -> [descending(Total) || {_, Total} <- element(Nth, Row)] end;
        #{Function := holders} -> fun(#{size := Size}) -> descending(Size) end;
        #{} -> error(badarg)
    end.

%% A value that is not a number, such as the size of a table that is too large, comes first, as in
%% the call.
descending(N) when is_number(N) -> {1, -N};
descending(_) -> {0, 0}.

sort_out({Node, {ok, {Rows, #{missed := _} = Report}}}, Order, {Sorted, Failed, Reports}) ->
    sort_out({Node, {ok, Rows}}, Order, {Sorted, Failed, [{Node, Report} | Reports]});
sort_out({Node, {ok, Rows}}, Order, {Sorted, Failed, Reports}) when is_list(Rows) ->
    try [{Order(Row), {Node, Row}} || Row <- Rows] of
        Ordered -> {Ordered ++ Sorted, Failed, Reports}
    catch
        error:_ -> {Sorted, [{Node, no_rows} | Failed], Reports}
    end;
sort_out({Node, {ok, _}}, _, {Sorted, Failed, Reports}) ->
    {Sorted, [{Node, no_rows} | Failed], Reports};
sort_out({Node, Error}, _, {Sorted, Failed, Reports}) ->
    {Sorted, [{Node, reason(Error)} | Failed], Reports}.

%% @doc Why a call by `erpc' has no result.
-spec reason({error | exit | throw, term()}) -> term().
reason({error, {erpc, Why}}) -> Why;
reason({error, {exception, Why, _}}) -> Why;
reason({exit, {exception, Why}}) -> Why;
reason({exit, {signal, Why}}) -> Why;
reason({throw, Thrown}) -> {nocatch, Thrown};
reason({_, Why}) -> Why.

%% ---- funs

-spec rpc([node(), ...], fun(() -> term()), timeout()) -> results().
rpc(Nodes, Fun, Timeout) ->
    rpc:multicall(Nodes, erlang, apply, [Fun, []], Timeout).

%% @doc What the fun returned comes with the node; what it raised as `rpc' shows it.
-spec named_rpc([node(), ...], fun(() -> term()), timeout()) -> results().
named_rpc(Nodes, Fun, Timeout) ->
    lists:foldr(fun sorted_out/2, {[], []}, lists:zip(Nodes, answers(Nodes, Fun, Timeout))).

%% In the order of the nodes; one deadline for all of them.
answers(Nodes, Fun, Timeout) ->
    try
        erpc:multicall(Nodes, erlang, apply, [Fun, []], Timeout)
    catch
        error:{erpc, badarg} -> error(badarg)
    end.

sorted_out({Node, {error, {erpc, _}}}, {Results, Bad}) -> {Results, [Node | Bad]};
sorted_out({Node, Answer}, {Results, Bad}) -> {[result(Node, Answer) | Results], Bad}.

result(Node, {ok, Result}) -> {Node, Result};
result(_, {throw, Thrown}) -> Thrown;
result(_, {exit, {_, Why}}) -> {badrpc, {'EXIT', Why}};
result(_, {error, {exception, Why, Stack}}) -> {badrpc, {'EXIT', {Why, Stack}}}.
