%% @private
%% The graph of waits: each process waits for at most one other. Pure.
%% The graph only counts the processes that no other waits for, and keeps some of them for each process
%% that they wait for: a million callers of one server are one entry.
-module(sonde_wait_graph).

-export([new/0, add/3, awaited/1, with_next/2, circles/1, totals/1, direct/2, some/2, next/2, chain/2,
         circle/2]).
-export_type([graph/0, waited/0]).

-type waited() :: pid() | remote | unclear.
%% `direct': the number of processes that wait for it, and some of these, with the distance between two of them. `next': what it waits
%% for itself, for each process in `direct'. `prev': the process before it in the longest chain, off a
%% circle. `on': the number of its circle. `circles': each process waits for the one after it, and the
%% last waits for the first.
-opaque graph() :: #{direct := #{waited() => {pos_integer(), [pid()], pos_integer()}}, next := #{pid() => waited()},
                     prev := #{waited() => pid()}, lengths := #{waited() => pos_integer()},
                     on := #{pid() => pos_integer()}, circles := #{pos_integer() => [pid()]},
                     totals := #{waited() => pos_integer()}}.

-define(SOME, 32).

-spec new() -> graph().
new() ->
    #{direct => #{}, next => #{}, prev => #{}, lengths => #{}, on => #{}, circles => #{}, totals => #{}}.

%% @doc Adds that `Pid' waits for `For'.
-spec add(pid(), waited(), graph()) -> graph().
add(Pid, For, #{direct := Direct} = Graph) ->
    Counted = case Direct of
                  #{For := {N, Some, Apart}} when N rem Apart =:= 0 -> thinned(N + 1, [Pid | Some], Apart);
                  #{For := {N, Some, Apart}} -> {N + 1, Some, Apart};
                  _ -> {1, [Pid], 1}
              end,
    Graph#{direct := Direct#{For => Counted}}.

%% They come in the order in which they were started. A server may answer them in that order, so those that are kept
%% are evenly spread.
thinned(N, Some, Apart) when N > (?SOME - 1) * Apart -> {N, every_second(Some), 2 * Apart};
thinned(N, Some, Apart) -> {N, Some, Apart}.

every_second([_, Pid | Pids]) -> [Pid | every_second(Pids)];
every_second([]) -> [].

%% @doc Returns the processes that others wait for.
-spec awaited(graph()) -> [pid()].
awaited(#{direct := Direct}) -> [Pid || Pid <- maps:keys(Direct), is_pid(Pid)].

-spec direct(waited(), graph()) -> pos_integer().
direct(For, #{direct := Direct}) -> element(1, map_get(For, Direct)).

%% @doc Returns some of the processes that wait for it: of many, at least sixteen, evenly spread.
-spec some(waited(), graph()) -> [pid(), ...].
some(For, #{direct := Direct}) -> element(2, map_get(For, Direct)).

-spec next(waited(), graph()) -> waited() | undefined.
next(For, #{next := Next}) -> maps:get(For, Next, undefined).

%% @doc Returns the circle that the process is on, with this process as the last.
-spec circle(waited(), graph()) -> [pid(), ...] | undefined.
circle(Pid, #{on := On, circles := Circles}) ->
    case On of
        #{Pid := Id} ->
            Circle = map_get(Id, Circles),
            {Before, [Pid | After]} = lists:splitwith(fun(P) -> P =/= Pid end, Circle),
            After ++ Before ++ [Pid];
        _ ->
            undefined
    end.

%% @doc Adds what the awaited processes wait for themselves. The functions below need this.
-spec with_next(#{pid() => waited()}, graph()) -> graph().
with_next(Next, #{direct := Seen} = Graph) ->
    Known = maps:filter(fun(Pid, _) -> is_map_key(Pid, Seen) end, Next),
    %% adds the processes that no process was seen to wait for before
    Direct = maps:fold(fun(Pid, For, Acc) -> maps:merge(#{For => {1, [Pid], 1}}, Acc) end, Seen, Known),
    peel(Graph#{direct := Direct, next := Known, on := #{}, circles := #{}}).

-spec circles(graph()) -> [[pid(), ...]].
circles(#{circles := Circles}) -> maps:values(Circles).

%% @doc Returns how many processes wait for each, directly or through others; largest first.
-spec totals(graph()) -> [{waited(), pos_integer()}].
totals(#{totals := Totals}) ->
    lists:sort(fun({A, N}, {B, M}) -> {N, A} >= {M, B} end, maps:to_list(Totals)).

%% Removes, again and again, each process that no awaited process waits for. The circles remain.
peel(#{direct := Direct, next := Next} = Graph) ->
    Into = maps:fold(fun(_, For, Acc) -> maps:update_with(For, fun(N) -> N + 1 end, 1, Acc) end,
                     #{}, Next),
    Ends = [For || For <- maps:keys(Direct), not is_map_key(For, Into)],
    Totals = maps:map(fun(_, {N, _, _}) -> N end, Direct),
    {Left, Summed} = peel(Ends, Into, Graph#{totals := Totals, prev := #{},
                                             lengths := maps:map(fun(_, _) -> 2 end, Direct)}),
    around(maps:keys(Left), Summed).

peel([], Into, Graph) ->
    {Into, Graph};
peel([Pid | Ends], Into, #{next := Next, totals := Totals, prev := Prev, lengths := Lengths} = Graph) ->
    case Next of
        #{Pid := For} ->
            Length = 1 + map_get(Pid, Lengths),
            Added = Graph#{totals := add_to(For, map_get(Pid, Totals), Totals)},
            Longer = case Length > map_get(For, Lengths) of
                         true -> Added#{prev := Prev#{For => Pid}, lengths := Lengths#{For := Length}};
                         false -> Added
                     end,
            case Into of
                #{For := 1} -> peel([For | Ends], maps:remove(For, Into), Longer);
                #{For := N} -> peel(Ends, Into#{For := N - 1}, Longer)
            end;
        _ ->
            peel(Ends, Into, Graph)
    end.

add_to(For, N, Totals) -> maps:update_with(For, fun(M) -> M + N end, Totals).

%% Each process on a circle waits for all others on it.
around([Pid | Left], #{on := On} = Graph) when is_map_key(Pid, On) ->
    around(Left, Graph);
around([Pid | Left], #{next := Next, totals := Totals, on := On, circles := Circles} = Graph) ->
    Circle = [Pid | follow(map_get(Pid, Next), Pid, Next)],
    All = lists:sum([map_get(P, Totals) || P <- Circle]),
    Id = map_size(Circles) + 1,
    around(Left, Graph#{on := lists:foldl(fun(P, Acc) -> Acc#{P => Id} end, On, Circle),
                        circles := Circles#{Id => Circle},
                        totals := lists:foldl(fun(P, Acc) -> Acc#{P := All - 1} end, Totals, Circle)});
around([], Graph) ->
    Graph.

follow(First, First, _Next) -> [];
follow(Pid, First, Next) -> [Pid | follow(map_get(Pid, Next), First, Next)].

%% @doc Returns the longest chain that ends with it: each process waits for the one after it. No
%% process is in the chain twice, even on a circle.
-spec chain(waited(), graph()) -> [waited(), ...].
chain(For, Graph) ->
    case circle(For, Graph) of
        undefined -> tail(For, [], Graph);
        Circle -> longest(lists:droplast(Circle), For, Graph)
    end.

%% A chain that enters the circle earlier passes more of it, but may be shorter outside of it.
longest(Others, For, Graph) ->
    Members = Others ++ [For],
    Count = length(Members),
    {_, Tail, Skip} = lists:max([{length(Tail) - I, Tail, I}
                                 || {I, P} <- lists:zip(lists:seq(1, Count), Members),
                                    Tail <- [tail(P, [], Graph)]]),
    Tail ++ lists:nthtail(Skip, Members).

%% The part of the chain off a circle, up to the process where it enters one.
tail(For, After, #{prev := Prev} = Graph) ->
    case Prev of
        #{For := Pid} -> tail(Pid, [For | After], Graph);
        _ -> leaf(For, After, Graph) ++ [For | After]
    end.

%% A waiter was seen a moment earlier, so it may already be in the chain.
leaf(For, After, #{direct := Direct, on := On}) ->
    {_, Some, _} = map_get(For, Direct),
    lists:sublist([Pid || Pid <- Some, not is_map_key(Pid, On), not lists:member(Pid, After)], 1).
