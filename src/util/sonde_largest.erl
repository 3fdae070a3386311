%% @private
%% The N largest of many rows, in term order, without keeping the others: what sorting all of them
%% and taking N would give. Rows must differ from each other.
-module(sonde_largest).

-export([new/1, add/2, to_list/1]).
-export_type([best/0]).

-opaque best() :: none | {pos_integer(), gb_sets:set()} | {full, term(), gb_sets:set()}.

-spec new(non_neg_integer()) -> best().
new(0) -> none;
new(N) -> {N, gb_sets:new()}.

-spec add(term(), best()) -> best().
add(_Row, none) -> none;
add(Row, {full, Least, _} = Best) when Row =< Least -> Best;
add(Row, {full, _, Set}) -> full(gb_sets:add_element(Row, element(2, gb_sets:take_smallest(Set))));
add(Row, {1, Set}) -> full(gb_sets:add_element(Row, Set));
add(Row, {Room, Set}) -> {Room - 1, gb_sets:add_element(Row, Set)}.

%% @doc The largest first.
-spec to_list(best()) -> [term()].
to_list(none) -> [];
to_list({full, _, Set}) -> lists:reverse(gb_sets:to_list(Set));
to_list({_, Set}) -> lists:reverse(gb_sets:to_list(Set)).

full(Set) ->
    {full, gb_sets:smallest(Set), Set}.
