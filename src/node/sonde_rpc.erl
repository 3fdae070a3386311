%% @private
%% A fun on many nodes. Only OTP's own functions are called there, so nothing of ours need be on the
%% node: the caller's fun travels as it is.
-module(sonde_rpc).

-export([call/3, named/3]).

-type results() :: {[term()], BadNodes :: [node()]}.

-spec call([node(), ...], fun(() -> term()), timeout()) -> results().
call(Nodes, Fun, Timeout) ->
    rpc:multicall(Nodes, erlang, apply, [Fun, []], Timeout).

%% @doc What the fun returned comes with the node; what it raised as `rpc' shows it.
-spec named([node(), ...], fun(() -> term()), timeout()) -> results().
named(Nodes, Fun, Timeout) ->
    lists:foldr(fun sort_out/2, {[], []}, lists:zip(Nodes, answers(Nodes, Fun, Timeout))).

%% In the order of the nodes; one deadline for all of them.
answers(Nodes, Fun, Timeout) ->
    try
        erpc:multicall(Nodes, erlang, apply, [Fun, []], Timeout)
    catch
        error:{erpc, badarg} -> error(badarg)
    end.

sort_out({Node, {error, {erpc, _}}}, {Results, Bad}) -> {Results, [Node | Bad]};
sort_out({Node, Answer}, {Results, Bad}) -> {[result(Node, Answer) | Results], Bad}.

result(Node, {ok, Result}) -> {Node, Result};
result(_, {throw, Thrown}) -> Thrown;
result(_, {exit, {_, Why}}) -> {badrpc, {'EXIT', Why}};
result(_, {error, {exception, Why, Stack}}) -> {badrpc, {'EXIT', {Why, Stack}}}.
