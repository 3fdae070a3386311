%% @private
%% What our functions are called on a node: a node that sonde was only lent to has them in one module,
%% `sonde_guest', in which function f of module m is 'm:f' (scripts/merge).
-module(sonde_remote_name).

-export([here/2, is_lent/0, on/3, guest/2]).

-define(ASK_MS, 30000).

%% @doc Of the node and module that this runs in.
-spec here(module(), atom()) -> {module(), atom()}.
here(Module, Function) ->
    case is_lent() of
        true -> guest(Module, Function);
        false -> {Module, Function}
    end.

%% @doc Whether this runs in the one module.
-spec is_lent() -> boolean().
is_lent() ->
    {module, Module} = erlang:fun_info(fun is_lent/0, module),
    Module =/= ?MODULE.

%% @doc Of another node. What was brought there for good goes before what is lent, which may go at
%% any moment. No code is looked for on its disks.
-spec on(node(), module(), atom()) -> {module(), atom()}.
on(Node, Module, Function) ->
    case is_loaded(Node, sonde_guest) andalso not is_loaded(Node, sonde) of
        true -> guest(Module, Function);
        false -> {Module, Function}
    end.

%% Who does not answer does not answer the call itself either.
is_loaded(Node, Module) ->
    try erpc:call(Node, code, is_loaded, [Module], ?ASK_MS) =/= false
    catch _:_ -> false
    end.

%% @doc In the one module.
-spec guest(module(), atom()) -> {module(), atom()}.
guest(Module, Function) ->
    {sonde_guest, list_to_atom(lists:concat([Module, ":", Function]))}.
