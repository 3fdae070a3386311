%% @private
%% Terms of another node as they look there, and the other way round.
-module(sonde_cli_terms).

-export([as_there/2]).

%% @doc With the pids, ports and references of that node as if they were of this one, so that they
%% are written as they are there: `<0.44.0>'. Those of third nodes, and what is in funs, stay as they
%% are.
-spec as_there(term(), node()) -> term().
as_there(Term, Node) when Node =:= node() ->
    Term;
as_there(Pid, Node) when is_pid(Pid), node(Pid) =:= Node ->
    here(pid_to_list(Pid), fun list_to_pid/1, Pid);
as_there(Port, Node) when is_port(Port), node(Port) =:= Node ->
    here(port_to_list(Port), fun list_to_port/1, Port);
as_there(Ref, Node) when is_reference(Ref), node(Ref) =:= Node ->
    here(ref_to_list(Ref), fun list_to_ref/1, Ref);
as_there([Term | Tail], Node) ->
    [as_there(Term, Node) | as_there(Tail, Node)];
as_there(Tuple, Node) when is_tuple(Tuple) ->
    list_to_tuple([as_there(Term, Node) || Term <- tuple_to_list(Tuple)]);
as_there(Map, Node) when is_map(Map) ->
    maps:from_list([{as_there(K, Node), as_there(V, Node)} || {K, V} <- maps:to_list(Map)]);
as_there(Term, _Node) ->
    Term.

%% The first number is the node's.
here(Text, From, Foreign) ->
    {match, [Before, After]} =
        re:run(Text, "^([^0-9]*)[0-9]+(.*)$", [{capture, all_but_first, list}]),
    try From(Before ++ "0" ++ After)
    catch error:badarg -> Foreign
    end.
