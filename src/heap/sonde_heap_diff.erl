%% @private
%% Compares two dumps by path and kind of object. It knows the meaning of nodes and edges, but not
%% the layout of the file.
%%
%% Each node has one word in an array. At first it is the node's parent:
%%
%%     1 bit: visited on the way up    30 bits: its parent, plus 1    28 bits: the label of the edge
%%
%% and then, as a negative number, the path under which the node counts.
-module(sonde_heap_diff).

-export([diff/2]).

-define(ELEMENT, 1).
-define(INTERNAL, 3).
-define(HIDDEN, 4).
-define(WEAK, 6).

-define(STEPS, 4).
-define(WIDE, 32).         % edges; those of a node with more have no number
-define(PATHS, 65536).
-define(KINDS, 100000).    % in paths
-define(LETTERS, 120).     % of a name

-define(PASSED, (1 bsl 58)).
-define(LABEL_BITS, 28).
-define(LABEL_MASK, 16#FFFFFFF).

%% Labels: two bits are the kind, 26 bits the number.
-define(NO_STEP, 0).
-define(ANY, 1).
-define(NUMBERED(I), (I bsl 2 bor 2)).
-define(NAMED(I), (I bsl 2 bor 3)).
-define(NUMBER_MAX, 16#3FFFFFF).

%% Paths by parent path and label: a number whose last bits are the number of steps.
-define(ROOT, 0).
-define(STEPS_OF(Path), (Path band 7)).

%% @doc Returns the rows of `sonde_heap:diff/2'. Only in a helper of that caller.
-spec diff([file:name_all()], reference()) ->
          [sonde_heap:growth()]
        | {error, file:posix() | {bad_snapshot, {file:name_all(), atom()}}}.
diff([A, B], Caller) ->
    try
        Before = sums(A, Caller),
        true = erlang:garbage_collect(), % frees what the first file took
        rows(Before, sums(B, Caller))
    catch
        throw:{error, Why} -> {error, Why}
    end.

rows(Before, After) ->
    Deltas = maps:fold(fun(Key, {Count, Bytes}, Acc) -> add(Key, -Count, -Bytes, Acc) end,
                       After, Before),
    Rows = [{-Bytes, -Count, Path, Kind}
            || {{Path, Kind}, {Count, Bytes}} <- maps:to_list(Deltas), {Count, Bytes} =/= {0, 0}],
    [{Path, Kind, -Count, -Bytes} || {Bytes, Count, Path, Kind} <- lists:sort(Rows)].

add(Key, Count, Bytes, Sums) ->
    case Sums of
        #{Key := {C, B}} -> Sums#{Key := {C + Count, B + Bytes}};
        #{} -> Sums#{Key => {Count, Bytes}}
    end.

%% ---- one file: {Path, Kind} to count and bytes

sums(Name, Caller) ->
    try
        case sonde_v8_reader:open(Name, Caller) of
            {ok, File} -> sums(File);
            Error -> throw(Error)
        end
    catch
        throw:{bad, Why} -> throw({error, {bad_snapshot, {Name, Why}}})
    end.

sums(File) ->
    {Nodes, EdgeCount} = sonde_v8_reader:counts(File),
    Ways = atomics:new(Nodes, [{signed, true}]),
    ok = put_path(Ways, 0, ?ROOT),
    Edges = link(0, Nodes, EdgeCount, sonde_v8_reader:nodes(File), sonde_v8_reader:edges(File), Ways),
    {Paths, Sums} = count(0, Nodes, sonde_v8_reader:nodes(File), Ways, #{}, #{}),
    Texts = texts(Paths, Sums, Edges),
    ok = sonde_v8_reader:close(File),
    in_words(Paths, Sums, Texts).

%% ---- the parent of each node: the first node in the file with an edge to it

link(N, N, EdgesLeft, Nodes, Edges, _Ways) ->
    _ = sonde_v8_reader:ended(Nodes),
    EdgesLeft =:= 0 orelse throw({bad, counts}),
    sonde_v8_reader:ended(Edges);
link(V, N, EdgesLeft, {[_, _, _, _, Count, _, _ | Left], Cursor}, Edges, Ways) ->
    link(V + 1, N, EdgesLeft - Count, {Left, Cursor},
         children(Count, Count > ?WIDE, V, Edges, Ways, N), Ways);
link(V, N, EdgesLeft, Nodes, Edges, Ways) ->
    link(V, N, EdgesLeft, sonde_v8_reader:more(Nodes), Edges, Ways).

children(0, _Wide, _V, Edges, _Ways, _N) ->
    Edges;
children(Count, Wide, V, {[Type, Name, To | Left], Cursor}, Ways, N) ->
    Child = To div 7,
    (To rem 7 =:= 0 andalso Child < N) orelse throw({bad, edge}),
    case Type =/= ?WEAK andalso atomics:get(Ways, Child + 1) =:= 0 of
        true when Child =/= V ->
            put_way(Ways, Child, 0, V + 1, label(Type, Name, Wide, V));
        _ ->
            ok
    end,
    children(Count - 1, Wide, V, {Left, Cursor}, Ways, N);
children(Count, Wide, V, Edges, Ways, N) ->
    children(Count, Wide, V, sonde_v8_reader:more(Edges), Ways, N).

%% The areas follow the root directly. Their named edges are the keys of the dictionary.
-define(IS_AREA(V), V < 6).

label(?INTERNAL, _, _, _) -> ?NO_STEP;
label(?HIDDEN, _, _, _) -> ?NO_STEP;
label(?ELEMENT, _, true, _) -> ?ANY;
label(?ELEMENT, I, _, _) when I =< ?NUMBER_MAX -> ?NUMBERED(I);
label(?ELEMENT, _, _, _) -> ?ANY;
label(_, _, true, V) when not (?IS_AREA(V)) -> ?ANY;
label(Type, I, _, _) when Type =< ?WEAK, I =< ?NUMBER_MAX -> ?NAMED(I);
label(_, _, _, _) -> throw({bad, edge}).

put_way(Ways, V, Passed, Up, Label) ->
    atomics:put(Ways, V + 1, Passed bor (Up bsl ?LABEL_BITS) bor Label).

put_path(Ways, V, Path) ->
    atomics:put(Ways, V + 1, bnot Path).

up(Way) ->
    (Way band (?PASSED - 1)) bsr ?LABEL_BITS.

%% ---- the path of each node, and its counts

count(N, N, _Nodes, _Ways, Paths, Sums) ->
    {Paths, Sums};
count(V, N, {[_, Name, _, Size, _, _, _ | Left], Cursor}, Ways, Paths, Sums) ->
    {Path, More} = path(Ways, V, Paths),
    count(V + 1, N, {Left, Cursor}, Ways, More, counted(Path, Name, Size, Sums));
count(V, N, Nodes, Ways, Paths, Sums) ->
    count(V, N, sonde_v8_reader:more(Nodes), Ways, Paths, Sums).

counted(_Path, _Name, 0, Sums) ->
    Sums;
counted(Path, Name, Size, Sums) when is_map_key({Path, Name}, Sums); map_size(Sums) < ?KINDS ->
    add({Path, Name}, 1, Size, Sums);
counted(Path, _Name, Size, Sums) ->
    add({Path, more}, 1, Size, Sums).

path(Ways, V, Paths) ->
    case atomics:get(Ways, V + 1) of
        Path when Path < 0 -> {bnot Path, Paths};
        Way -> climb(Ways, V, Way, 0, Paths)
    end.

%% Climbs to the first node with a known path, reversing each link so that it leads back, and
%% returns the same way. A list of a million cells can be one such path, so there is no stack.
climb(_Ways, _V, 0, _Below, _Paths) ->
    throw({bad, unreachable});
climb(_Ways, _V, Way, _Below, _Paths) when Way band ?PASSED =/= 0 ->
    throw({bad, cycle});
climb(Ways, V, Way, Below, Paths) ->
    ok = put_way(Ways, V, ?PASSED, Below, Way band ?LABEL_MASK),
    Parent = up(Way) - 1,
    case atomics:get(Ways, Parent + 1) of
        Path when Path < 0 -> descend(Ways, V, bnot Path, Paths);
        Above -> climb(Ways, Parent, Above, V + 1, Paths)
    end.

descend(Ways, V, Above, Paths) ->
    Way = atomics:get(Ways, V + 1),
    {Path, More} = step(Above, Way band ?LABEL_MASK, Paths),
    ok = put_path(Ways, V, Path),
    case up(Way) of
        0 -> {Path, More};
        Below -> descend(Ways, Below - 1, Path, More)
    end.

step(Above, ?NO_STEP, Paths) ->
    {Above, Paths};
step(Above, _, Paths) when ?STEPS_OF(Above) =:= ?STEPS ->
    {Above, Paths};
step(Above, Label, Paths) ->
    case Paths of
        #{{Above, Label} := Path} ->
            {Path, Paths};
        #{} when map_size(Paths) < ?PATHS ->
            Path = (map_size(Paths) + 1) bsl 3 bor (?STEPS_OF(Above) + 1),
            {Path, Paths#{{Above, Label} => Path}};
        #{} ->
            {Above, Paths}
    end.

%% ---- text

texts(Paths, Sums, Edges) ->
    Names = [I || {_, Label} <- maps:keys(Paths), Label band 3 =:= 3, I <- [Label bsr 2]]
        ++ [I || {_, I} <- maps:keys(Sums), I =/= more],
    sonde_v8_reader:strings(fun(I, Text, Acc) -> Acc#{I => cut(Text)} end, #{},
                           lists:usort(Names), Edges).

cut(Text) ->
    case string:slice(Text, 0, ?LETTERS) of
        Text -> binary:copy(Text);
        Short -> <<Short/binary, "...">>
    end.

in_words(Paths, Sums, Texts) ->
    ByPath = maps:from_list([{Path, Step} || {Step, Path} <- maps:to_list(Paths)]),
    maps:fold(fun({Path, Name}, {Count, Bytes}, Acc) ->
                      add({path_text(Path, ByPath, Texts), kind(Name, Texts)}, Count, Bytes, Acc)
              end, #{}, Sums).

path_text(?ROOT, _ByPath, _Texts) ->
    <<>>;
path_text(Path, ByPath, Texts) ->
    {Above, Label} = map_get(Path, ByPath),
    Step = step_text(Label, Texts),
    case path_text(Above, ByPath, Texts) of
        <<>> -> Step;
        Text -> <<Text/binary, " / ", Step/binary>>
    end.

step_text(?ANY, _Texts) -> <<"[_]">>;
step_text(Label, Texts) when Label band 3 =:= 3 -> map_get(Label bsr 2, Texts);
step_text(Label, _Texts) -> <<$[, (integer_to_binary(Label bsr 2))/binary, $]>>.

%% In a dump with values, the name continues after the kind.
kind(more, _Texts) -> <<"...">>;
kind(I, Texts) -> hd(binary:split(map_get(I, Texts), <<": ">>)).
