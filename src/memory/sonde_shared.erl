%% @private
%% Counts two numbers that `erts_debug:size_shared/1' does not report for a term: the words of
%% literals (constants of modules, persistent terms) that it refers to, and the words of nodes of
%% large maps, which OTP 25 to 29 count twice. (`size_shared/1' takes about 3 ns a word and does not
%% yield.)
%%
%% In Erlang, a term is a literal if `size_shared/1' returns 0. That is fast for a literal, but for
%% any other term it takes as long as the term is large: to test each part from the top would take
%% forever in a deep term. But a term that holds a term which is not a literal is not a literal
%% either. So the walk follows one line to its end (the tail of a list, the last element of a
%% tuple), which is small, and tests there. If the end is a literal, a binary search finds where the
%% literals begin on the line.
%%
%% Each literal, and each node, counts once. Two are the same if `erts_debug:same/2' returns true; a
%% hash of their outer level selects which ones to compare. Time and memory are bounded: after 20
%% million comparisons only the last 30 of the same hash are compared, at most a million are
%% remembered, and of a list that is a literal, beyond its last 1000 cells, each 32nd; a literal
%% that is not recognized counts again.
%%
%% Some literals are not visible, and are identified by the term that they belong to: the reference
%% of a fun (OTP 27), the definition of a native record (29). The reference of a binary (27 and
%% later), 3 words, is left out if the only term made from it is a part that is not a literal
%% itself.
-module(sonde_shared).

-export([words/4]).

-define(COMPARISONS, 20000000).
-define(ALIKE, 30).
-define(REMEMBERED, 1000000).
-define(SHORT, 1000).         % cells
-define(SOME, 32).
-define(STEPS, 1000).         % from one check to the next

-define(IS_LEAF(Term),
        (is_atom(Term) orelse is_number(Term) orelse is_bitstring(Term) orelse is_list(Term)
         orelse is_tuple(Term) orelse is_pid(Term) orelse is_port(Term)
         orelse is_reference(Term))).

%% `seen': by hash, the terms that were counted, and the identities of those that are not visible.
-record(s, {literals = 0 :: non_neg_integer(),
            nodes = 0 :: non_neg_integer(),       % nodes that are not literals
            seen = #{} :: #{non_neg_integer() => [term()], {hidden, term()} => []},
            size = 0 :: non_neg_integer(),
            comparisons = ?COMPARISONS :: non_neg_integer(),
            steps = 0 :: non_neg_integer(),
            fun_ref :: boolean(),                 % whether funs have such a part
            check :: fun(() -> ok)}).

%% The parts of a map come from the calls that `erts_debug:size/1' uses. A node of a large map is
%% not a valid term for any function except `size_shared/1' and `same/2'.
-type item() :: {any, term()}                   % it is not known whether it is a literal
              | {line, term(), Open :: non_neg_integer()} % this and the following are not literals
              | {elements, tuple(), From :: pos_integer(), To :: pos_integer()} % of no literal
              | {literal, term()}
              | {cells, term(), Left :: non_neg_integer()}                      % of a literal
              | {rest, tuple(), From :: pos_integer()}                          % of a literal
              | {{node, any | literal}, map()}.

%% @doc Returns the words of a term, each part counted once: those outside of literals, and those of
%% literals. `Flat': its words, with each part counted at each place; `Nodes': those of nodes of
%% large maps. The walk calls `Check' regularly, which raises an exception to end the walk.
-spec words(term(), Flat :: non_neg_integer(), Nodes :: non_neg_integer(), fun(() -> ok)) ->
          {Shared :: non_neg_integer(), Literals :: non_neg_integer()}.
words(Term, Flat, Nodes, Check) ->
    ok = Check(),
    case erts_debug:size_shared(Term) of
        Said when Said =:= Flat + Nodes ->
            {Flat, 0};
        Said ->
            #s{literals = Literals, nodes = Twice} =
                loop([{any, Term}], #s{fun_ref = sonde_parts:has_fun_ref(), check = Check}),
            {Said - Twice, Literals}
    end.

-spec loop([item()], #s{}) -> #s{}.
loop([], S) ->
    S;
loop(Work, #s{steps = ?STEPS, check = Check} = S) ->
    ok = Check(),
    loop(Work, S#s{steps = 0});
loop([Item | Work], #s{steps = N} = S) ->
    step(Item, Work, S#s{steps = N + 1}).

step({any, Term}, Work, S) ->
    case sonde_parts:is_boxed(Term) of
        true -> step({line, Term, open(Term)}, Work, S);
        false -> loop(Work, S)
    end;
step({line, Term, 0}, Work, S) ->
    case is_literal(Term) of
        true -> literal(Term, Work, S);
        false -> opened(Term, Work, S)
    end;
step({line, Term, Open}, Work, S) ->
    opened(Term, [{line, next(Term), Open - 1} | Work], S);
step({elements, Tuple, I, To}, Work, S) ->
    loop([{any, element(I, Tuple)} | elements(Tuple, I + 1, To, Work)], S);
step({literal, Term}, Work, S) ->
    case sonde_parts:is_boxed(Term) of
        true -> literal(Term, Work, S);
        false -> loop(Work, S)
    end;
step({cells, Cells, Left}, Work, S) ->
    cells(Cells, Left, Work, S);
step({rest, Tuple, I}, Work, S) when I =< tuple_size(Tuple) ->
    loop([{literal, element(I, Tuple)}, {rest, Tuple, I + 1} | Work], S);
step({rest, _, _}, Work, S) ->
    loop(Work, S);
step({{node, Kind}, Node}, Work, S) ->
    case Kind =:= literal orelse is_literal(Node) of
        true -> node(literal, Node, Work, S);
        false -> node(any, Node, Work, S)
    end.

is_literal(Term) ->
    erts_debug:size_shared(Term) =:= 0.

%% ---- a line: from each term to the last of its parts. Nodes of large maps are on no line

%% The number of terms on the line that are not literals, without its end. The literals begin after
%% them, or there are none.
open(Term) ->
    {End, Length} = down(Term, 0),
    case is_literal(End) of
        true -> first_literal(Term, 0, Length);
        false -> Length
    end.

down(Term, N) ->
    case next(Term) of
        none -> {Term, N};
        Next -> down(Next, N + 1)
    end.

%% `Term' is the one at `From'; the one at `To' is a literal.
first_literal(_Term, To, To) ->
    To;
first_literal(Term, From, To) ->
    Middle = (From + To) div 2,
    Found = nth_next(Term, Middle - From),
    case is_literal(Found) of
        true -> first_literal(Term, From, Middle);
        false -> first_literal(next(Found), Middle + 1, To)
    end.

nth_next(Term, 0) -> Term;
nth_next(Term, N) -> nth_next(next(Term), N - 1).

%% The atom none means no next term: an atom is not a part that counts.
next([H | T]) ->
    case sonde_parts:is_boxed(T) of
        true -> T;
        false -> last([H])
    end;
next(Tuple) when is_tuple(Tuple) ->
    case last_boxed(Tuple, tuple_size(Tuple)) of
        0 -> none;
        I -> element(I, Tuple)
    end;
next(Term) ->
    case parts(Term) of
        large_map -> none;
        {_, Parts} -> last(Parts)
    end.

last(Parts) -> lists:last([none | boxed(Parts)]).

boxed(Parts) -> [Part || Part <- Parts, sonde_parts:is_boxed(Part)].

last_boxed(_Tuple, 0) ->
    0;
last_boxed(Tuple, I) ->
    case sonde_parts:is_boxed(element(I, Tuple)) of
        true -> I;
        false -> last_boxed(Tuple, I - 1)
    end.

%% For a term that is not a literal: its parts outside of the line.
opened([H | T], Work, S) ->
    case sonde_parts:is_boxed(T) of
        true -> loop([{any, H} | Work], S);
        false -> loop(Work, S)
    end;
opened(Tuple, Work, S) when is_tuple(Tuple) ->
    loop(elements(Tuple, 1, last_boxed(Tuple, tuple_size(Tuple)) - 1, Work), S);
opened(Term, Work, S) ->
    case parts(Term) of
        large_map ->
            large_map(any, Term, Work, S);
        {_, Parts} ->
            loop(but_last([{any, Part} || Part <- boxed(Parts)]) ++ Work, hidden(any, Term, S))
    end.

but_last([]) -> [];
but_last(Parts) -> lists:droplast(Parts).

elements(_Tuple, From, To, Work) when From > To ->
    Work;
elements(Tuple, From, To, Work) ->
    case sonde_parts:is_boxed(element(From, Tuple)) of
        true -> [{elements, Tuple, From, To} | Work];
        false -> elements(Tuple, From + 1, To, Work)
    end.

%% For a term that holds no more than a few dozen terms: its own words, without what hidden/3 counts
%% of a native record, and these terms.
parts(Map) when is_map(Map) ->
    try erts_internal:map_to_tuple_keys(Map) of
        Keys -> {3 + map_size(Map), [Keys | maps:values(Map)]}
    catch
        error:badarg -> large_map
    end;
parts(Fun) when is_function(Fun) ->
    sonde_parts:fun_parts(Fun);
parts(Term) when ?IS_LEAF(Term) ->
    {erts_debug:flat_size(Term), []};
parts(Record) ->
    {Own, Hidden, _, Values} = sonde_parts:record_parts(Record),
    {Own - Hidden, Values}.

%% ---- literals

literal([_ | _] = List, Work, S) ->
    cell(List, length_of(List, 0), Work, S);
literal(Tuple, Work, S) when is_tuple(Tuple) ->
    once(Tuple, 1 + tuple_size(Tuple), [{rest, Tuple, 1}], Work, S);
literal(Term, Work, S) ->
    case parts(Term) of
        large_map ->
            large_map(literal, Term, Work, S);
        {Own, Parts} ->
            once(Term, Own, [{literal, Part} || Part <- Parts], Work, hidden(literal, Term, S))
    end.

length_of([_ | T], N) -> length_of(T, N + 1);
length_of(_, N) -> N.

%% The tail of a list, with so many cells. Other lists may have the same tail: a short one is
%% compared at each cell, a long one only at some cells.
cells(Tail, 0, Work, S) ->
    loop([{literal, Tail} | Work], S);
cells(Cells, Left, Work, S) when Left =< ?SHORT; Left rem ?SOME =:= 0 ->
    cell(Cells, Left, Work, S);
cells([H | T], Left, Work, S) ->
    case sonde_parts:is_boxed(H) of
        true -> loop([{literal, H}, {cells, T, Left - 1} | Work], add(literal, 2, S));
        false -> cells(T, Left - 1, Work, add(literal, 2, S))
    end.

cell([H | T] = Cells, Left, Work, S) ->
    count(literal, Cells, {Left, outside(H, 2)}, 2, [{literal, H}, {cells, T, Left - 1}], Work, S).

%% ---- large maps: pairs are cells; pairs whose keys have the same hash are in a tuple of cells

large_map(Kind, Map, Work, S) ->
    node(Kind, Map, {map_size(Map)}, 2, Work, S).

node(Kind, Node, Work, S) ->
    node(Kind, Node, {}, 1, Work, S).

node(Kind, Node, Outside, Head, Work, S) ->
    Children = erts_internal:map_hashmap_children(Node),
    Parts = [case is_map(Child) of
                 true -> {{node, Kind}, Child};
                 false -> {Kind, Child}
             end || Child <- Children],
    Words = Head + length(Children),
    count(Kind, Node, [Words, Outside | outside(a_pair(Children), 3)], Words, Parts, Work, S).

a_pair([Node | _]) when is_map(Node) -> a_pair(erts_internal:map_hashmap_children(Node));
a_pair([Pair | _]) -> Pair.

%% ---- what was counted

%% The literal that belongs to a term and that no other term can show. The words of a fun that is a
%% literal itself include it.
hidden(any, Fun, #s{fun_ref = true} = S) when is_function(Fun) ->
    {Own, Held} = sonde_parts:fun_parts(Fun),
    Name = [erlang:fun_info(Fun, Item) || Item <- [module, new_index, new_uniq]],
    OnHeap = erts_debug:size_shared([Fun | Held]) - erts_debug:size_shared(Held) - 2,
    add_hidden(Name, Own - OnHeap, S);
hidden(_, Term, S) when is_map(Term); is_function(Term); ?IS_LEAF(Term) ->
    S;
hidden(_, Record, S) ->
    {_, Words, Name, _} = sonde_parts:record_parts(Record),
    add_hidden(Name, Words, S).

add_hidden(_Name, 0, S) -> S;
add_hidden(Name, _, #s{seen = Seen} = S) when is_map_key({hidden, Name}, Seen) -> S;
add_hidden(Name, Words, #s{seen = Seen} = S) ->
    add(literal, Words, S#s{seen = Seen#{{hidden, Name} => []}}).

once(Term, Words, Parts, Work, S) ->
    count(literal, Term, outside(Term, 3), Words, Parts, Work, S).

count(Kind, Term, Outside, Words, Parts, Work, #s{seen = Seen, comparisons = Left} = S) ->
    Hash = erlang:phash2(Outside),
    Alike = maps:get(Hash, Seen, []),
    Most = max(Left, ?ALIKE),
    case is_among(Term, Alike, Most) of
        true -> loop(Work, S);
        {false, Rest} ->
            Compared = S#s{comparisons = max(0, Left - (Most - Rest))},
            loop(Parts ++ Work, remember(Term, Hash, Alike, add(Kind, Words, Compared)))
    end.

is_among(Term, [Other | Others], Most) when Most > 0 ->
    erts_debug:same(Term, Other) orelse is_among(Term, Others, Most - 1);
is_among(_, _, Most) ->
    {false, Most}.

add(literal, Words, #s{literals = Literals} = S) -> S#s{literals = Literals + Words};
add(any, Words, #s{nodes = Nodes} = S) -> S#s{nodes = Nodes + Words}.

remember(Term, Hash, Alike, #s{seen = Seen, size = N} = S) when N < ?REMEMBERED ->
    S#s{seen = Seen#{Hash => [Term | Alike]}, size = N + 1};
remember(_, _, _, S) ->
    S.

%% A small term that describes the outer level of a term.
outside(Term, _) when is_atom(Term); is_float(Term); Term =:= [] ->
    Term;
outside(Term, _) when is_bitstring(Term) ->
    case Term of
        <<First:64, _/bitstring>> -> {bit_size(Term), First};
        _ -> Term
    end;
outside(Term, _) when is_integer(Term) ->
    {erts_debug:flat_size(Term), Term band 16#FFFFFF};
outside(Fun, _) when is_function(Fun) ->
    [erlang:fun_info(Fun, Item) || Item <- [module, name, arity]];
outside(Term, 0) ->
    {is_list(Term), is_tuple(Term) andalso tuple_size(Term)};
outside([H | T], Depth) ->
    [outside(H, Depth - 1) | outside(T, Depth - 1)];
outside(Tuple, Depth) when is_tuple(Tuple) ->
    N = tuple_size(Tuple),
    [N | [outside(element(I, Tuple), Depth - 1) || I <- lists:usort([1, 2, 3, N]), I =< N, I > 0]];
outside(Map, Depth) when is_map(Map) ->
    case maps:next(maps:iterator(Map)) of
        {Key, Value, _} -> {map_size(Map), outside(Key, Depth - 1), outside(Value, Depth - 1)};
        none -> #{}
    end;
outside(Term, _) when ?IS_LEAF(Term) ->
    Term;
outside(Record, _) ->
    {_, _, Name, _} = sonde_parts:record_parts(Record),
    Name.
