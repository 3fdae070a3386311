%% @private
%% The names of our functions on a node: a node onto which sonde was loaded temporarily has them in
%% one module, `sonde_guest', in which function f of module m is 'm:f' (scripts/merge).
-module(sonde_remote_name).

-export([here/2, is_lent/0, on/3, guest/2]).

-define(ASK_MS, 30000).

%% @doc The name on this node, in the form that this module itself was loaded in.
-spec here(module(), atom()) -> {module(), atom()}.
here(Module, Function) ->
    case is_lent() of
        true -> guest(Module, Function);
        false -> {Module, Function}
    end.

%% @doc Whether this code runs in `sonde_guest'.
-spec is_lent() -> boolean().
is_lent() ->
    {module, Module} = erlang:fun_info(fun is_lent/0, module),
    Module =/= ?MODULE.

%% @doc The name on another node. A sonde that was loaded for good is preferred to one that was
%% loaded temporarily, which may be removed at any moment. Code on the node's disks is not searched.
-spec on(node(), module(), atom()) -> {module(), atom()}.
on(Node, Module, Function) ->
    case is_loaded(Node, sonde_guest) andalso not is_loaded(Node, sonde) of
        true -> guest(Module, Function);
        false -> {Module, Function}
    end.

%% A node that does not answer this will not answer the call itself either.
is_loaded(Node, Module) ->
    try erpc:call(Node, code, is_loaded, [Module], ?ASK_MS) =/= false
    catch _:_ -> false
    end.

%% @doc The name in `sonde_guest'.
-spec guest(module(), atom()) -> {module(), atom()}.
guest(Module, Function) ->
    {sonde_guest, list_to_atom(lists:concat([Module, ":", Function]))}.
