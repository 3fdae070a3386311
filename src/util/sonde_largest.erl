%% @private
%% The N largest of many rows, in term order, without keeping the others: what sorting all of them
%% and taking N would give. A pairing heap, since recon's order of equal rows is that of one.
-module(sonde_largest).

-export([new/1, add/2, add/3, to_list/1]).
-export_type([best/0]).

%% How many more it takes, or `full' and the heap, of which the least comes first.
-opaque best() :: {number(), [{term(), term()}]} | {full, list()}.

%% @doc Of a negative `N' it takes all.
-spec new(number()) -> best().
new(N) -> {N, []}.

-spec add(term(), best()) -> best().
add(Row, Best) -> add(Row, Row, Best).

%% @doc Ordered by `Key'. Of several with the least key that fits, the first ones stay.
-spec add(Key :: term(), term(), best()) -> best().
add(Key, _Row, {full, [{Least, _} | _]} = Best) when Key =< Least -> Best;
add(Key, Row, {full, [_ | Heaps]}) -> {full, meld([{Key, Row}], meld_all(Heaps))};
add(_Key, _Row, {0, []}) -> {0, []};
add(Key, Row, {0, Kept}) ->
    add(Key, Row, {full, lists:foldl(fun(Entry, Heap) -> meld([Entry], Heap) end, [], Kept)});
add(Key, Row, {Left, Kept}) -> {Left - 1, [{Key, Row} | Kept]}.

%% @doc The largest first.
-spec to_list(best()) -> [term()].
to_list({full, Heap}) -> largest_first(Heap, []);
to_list({_, Kept}) -> [Row || {_, Row} <- lists:reverse(lists:sort(Kept))].

largest_first([], Rows) -> Rows;
largest_first([{_, Row} | Heaps], Rows) -> largest_first(meld_all(Heaps), [Row | Rows]).

meld([], Heap) -> Heap;
meld(Heap, []) -> Heap;
meld([A | As], [B | _] = Heap) when A < B -> [A, Heap | As];
meld(Heap, [B | Bs]) -> [B, Heap | Bs].

meld_all([]) -> [];
meld_all([Heap]) -> Heap;
meld_all([A, B | Heaps]) -> meld(meld(A, B), meld_all(Heaps)).
