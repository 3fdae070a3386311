%% Made-up heap snapshots: a writer of our dump format in plain Erlang, random snapshots, and the
%% expected results, computed in the simplest way.
%%
%% A snapshot is a list of nodes, `{Type, Name, Id, Size, [{EdgeType, NameOrIndex, To}]}', where To
%% is the index of a node in the list, from 0.
-module(sonde_snapshot_helper).

-export([text/1, pieces/2, counts/1, node_types/0, edge_types/0]).
-export([roots/1, random/2]).
-export([read/1, retained/1, sums/1]).

node_types() ->
    [hidden, array, string, object, code, closure, regexp, number, native, synthetic,
     'concatenated string', 'sliced string', symbol, bigint, 'object shape'].

edge_types() ->
    [context, element, property, internal, hidden, shortcut, weak].

%% ---- writing

text(Nodes) ->
    Names = lists:usort(["" | lists:append([[Name | [L || {T, L, _} <- Es, is_named(T)]]
                                            || {_, Name, _, _, Es} <- Nodes])]),
    Index = maps:from_list(lists:zip(Names, lists:seq(0, length(Names) - 1))),
    {NodeCount, EdgeCount} = counts(Nodes),
    Head = io_lib:format("{\"snapshot\":{\"meta\":~s,\"node_count\":~b,\"edge_count\":~b,"
                         "\"trace_function_count\":0},\n", [meta(), NodeCount, EdgeCount]),
    [Head,
     "\"nodes\":[", lists:join(",\n", [node_text(Node, Index) || Node <- Nodes]), "],\n",
     "\"edges\":[", lists:join(",\n", [edge_text(Edge, Index) || {_, _, _, _, Edges} <- Nodes,
                                                                 Edge <- Edges]), "],\n",
     "\"strings\":[", lists:join(",\n", [string_text(Name) || Name <- Names]), "]}\n"].

counts(Nodes) ->
    {length(Nodes), lists:sum([length(Edges) || {_, _, _, _, Edges} <- Nodes])}.

meta() ->
    Quoted = fun(Atoms) -> lists:join($,, [[$", atom_to_list(A), $"] || A <- Atoms]) end,
    ["{\"node_fields\":[\"type\",\"name\",\"id\",\"self_size\",\"edge_count\",\"trace_node_id\","
     "\"detachedness\"],\"node_types\":[[", Quoted(node_types()), "],\"string\",\"number\","
     "\"number\",\"number\",\"number\",\"number\"],"
     "\"edge_fields\":[\"type\",\"name_or_index\",\"to_node\"],"
     "\"edge_types\":[[", Quoted(edge_types()), "],\"string_or_number\",\"node\"]}"].

node_text({Type, Name, Id, Size, Edges}, Index) ->
    numbers([place(Type, node_types()), map_get(Name, Index), Id, Size, length(Edges), 0, 0]).

edge_text({Type, Label, To}, Index) ->
    Number = case is_named(Type) of true -> map_get(Label, Index); false -> Label end,
    numbers([place(Type, edge_types()), Number, 7 * To]).

is_named(Type) ->
    Type =/= element andalso Type =/= hidden.

numbers(Ns) ->
    lists:join($,, [integer_to_list(N) || N <- Ns]).

place(Atom, Atoms) ->
    length(lists:takewhile(fun(A) -> A =/= Atom end, Atoms)).

string_text(Text) ->
    [$", [escaped(C) || C <- Text], $"].

escaped(C) when C < 32; C >= 127; C =:= $"; C =:= $\\ ->
    <<Utf16/binary>> = unicode:characters_to_binary([C], unicode, utf16),
    [io_lib:format("\\u~4.16.0b", [U]) || <<U:16>> <= Utf16];
escaped(C) -> C.

%% A source of a dump's content, in pieces of Length bytes.
pieces(Nodes, Length) ->
    {NodeCount, EdgeCount} = counts(Nodes),
    Ref = atomics:new(1, []),
    Text = iolist_to_binary(text(Nodes)),
    fun() ->
            At = atomics:get(Ref, 1),
            atomics:add(Ref, 1, Length),
            case Text of
                <<_:At/binary, Piece:Length/binary, _/binary>> -> {data, [Piece]};
                <<_:At/binary, Rest/binary>> when Rest =/= <<>> -> {data, Rest};
                _ -> {done, #{nodes => NodeCount, edges => EdgeCount}}
            end
    end.

%% ---- made-up snapshots

%% The root and the areas, each with these edges.
roots(Areas) ->
    Names = ["stack", "registers", "dictionary", "mailbox", "other"],
    [{synthetic, "", 1, 0, [{property, Name, I}
                            || {I, Name} <- lists:zip(lists:seq(1, 5), Names)]}
     | [{synthetic, Name, 1 + I, 0, maps:get(list_to_atom(Name), Areas, [])}
        || {I, Name} <- lists:zip(lists:seq(1, 5), Names)]].

%% N reachable objects without cycles, in any order in the file.
random(N, Seed) ->
    _ = rand:seed(exsss, Seed),
    Things = lists:seq(6, N + 5),
    Places = maps:from_list(lists:zip(Things, shuffled(Things))),
    To = fun(V) -> maps:get(V, Places, V) end,
    Links = [{From, {Type, Label, To(V)}}
             || V <- Things, _ <- lists:seq(1, rand:uniform(2)),
                From <- [To(some_before(V))], {Type, Label} <- [edge()]],
    ByNode = maps:map(fun(_, Es) -> shuffled(Es) end,
                      lists:foldl(fun({From, Edge}, Acc) ->
                                          maps:update_with(From, fun(Es) -> [Edge | Es] end,
                                                           [Edge], Acc)
                                  end, #{}, Links)),
    Edges = fun(V) -> maps:get(V, ByNode, []) end,
    [Root | Areas] = roots(#{}),
    [Root | [{Type, Name, Id, Size, Edges(I)}
             || {I, {Type, Name, Id, Size, _}} <- lists:zip(lists:seq(1, 5), Areas)]]
        ++ [thing(V, Edges(V)) || V <- Things].

%% Near the roots, or in long chains.
some_before(V) ->
    case rand:uniform(3) of
        1 -> rand:uniform(V - 1);
        2 -> max(1, V - rand:uniform(3));
        3 -> rand:uniform(min(V - 1, 20))
    end.

edge() ->
    case rand:uniform(4) of
        1 -> {element, rand:uniform(5)};
        2 -> {property, "key" ++ integer_to_list(rand:uniform(5))};
        3 -> {context, "\"\\ /" ++ [16#1F600 + rand:uniform(5), 16#E9, 1]};
        4 -> {internal, "tail"}
    end.

thing(V, Edges) ->
    {Type, Name} = element(rand:uniform(6), {{object, "tuple/3"}, {object, "cons"},
                                             {native, "refc binary"}, {string, "heap binary"},
                                             {closure, "fun m:f/1: #Fun"}, {number, "float"}}),
    {Type, Name, V * 3, 8 * rand:uniform(40) - 8, Edges}.

shuffled(List) ->
    [X || {_, X} <- lists:sort([{rand:uniform(), X} || X <- List])].

%% ---- reading a whole file

read(File) ->
    {ok, Text} = file:read_file(File),
    [Numbers, Edges, Strings] = [part(Text, Key) || Key <- ["nodes", "edges", "strings"]],
    Names = list_to_tuple(strings(Strings)),
    nodes(integers(Numbers), integers(Edges), Names).

part(Text, Key) ->
    {match, [Part]} = re:run(Text, ["\"", Key, "\":\\[(.*?)\\][,}]\\s*(?:\"edges\"|\"strings\"|$)"],
                             [dotall, {capture, [1], binary}]),
    Part.

integers(Text) ->
    [binary_to_integer(I) || I <- binary:split(Text, [<<",">>, <<"\n">>], [global, trim_all])].

%% Undoes the escapes of the writers here.
strings(Text) ->
    {match, Found} = re:run(Text, "\"((?:[^\"\\\\]|\\\\.)*)\"", [global, {capture, [1], binary}]),
    [unescaped(S) || [S] <- Found].

unescaped(Text) ->
    Hex = fun(H) -> binary_to_integer(H, 16) end,
    Utf16 = fun U(<<"\\u", H:4/binary, R/binary>>) -> <<(Hex(H)):16, (U(R))/binary>>;
                U(<<$\\, C, R/binary>>) -> <<C:16, (U(R))/binary>>;
                U(<<C, R/binary>>) -> <<C:16, (U(R))/binary>>;
                U(<<>>) -> <<>>
            end,
    unicode:characters_to_list(Utf16(Text), utf16).

nodes([Type, Name, Id, Size, Count, _, _ | Numbers], Edges, Names) ->
    {Mine, Others} = lists:split(3 * Count, Edges),
    [{lists:nth(Type + 1, node_types()), element(Name + 1, Names), Id, Size, edges(Mine, Names)}
     | nodes(Numbers, Others, Names)];
nodes([], [], _Names) ->
    [].

edges([Type, Label, To | Edges], Names) ->
    Atom = lists:nth(Type + 1, edge_types()),
    Text = case is_named(Atom) of true -> element(Label + 1, Names); false -> Label end,
    [{Atom, Text, To div 7} | edges(Edges, Names)];
edges([], _Names) ->
    [].

%% ---- expected results

%% The retained size of each node, in order: removes the node and counts again.
retained(Nodes) ->
    Graph = maps:from_list(lists:zip(lists:seq(0, length(Nodes) - 1), Nodes)),
    All = reachable(Graph, none),
    [All - reachable(Graph, V) || V <- lists:seq(0, length(Nodes) - 1)].

reachable(_Graph, 0) ->
    0;
reachable(Graph, Without) ->
    reach([0], Graph, #{Without => true, 0 => true}, 0).

reach([], _Graph, _Seen, Bytes) ->
    Bytes;
reach([V | Vs], Graph, Seen, Bytes) ->
    {_, _, _, Size, Edges} = map_get(V, Graph),
    New = lists:usort([To || {_, _, To} <- Edges, not is_map_key(To, Seen)]),
    reach(New ++ Vs, Graph, maps:merge(Seen, maps:from_keys(New, true)), Bytes + Size).

%% Maps `{Path, Kind}' to count and bytes, as `sonde_heap:diff/2' must see them.
sums(Nodes) ->
    Places = lists:zip(lists:seq(0, length(Nodes) - 1), Nodes),
    Ups = lists:foldl(fun({To, Up}, Acc) -> maps:merge(#{To => Up}, Acc) end, #{},
                      [{To, {From, Edge, length(Edges)}}
                       || {From, {_, _, _, _, Edges}} <- Places, {_, _, To} = Edge <- Edges]),
    lists:foldl(fun({V, {_, Name, _, Size, _}}, Acc) when Size > 0 ->
                        Path = unicode:characters_to_binary(lists:join(" / ", path(V, Ups))),
                        Kind = unicode:characters_to_binary(hd(string:split(Name, ": "))),
                        maps:update_with({Path, Kind}, fun({C, B}) -> {C + 1, B + Size} end,
                                         {1, Size}, Acc);
                   (_, Acc) -> Acc
                end, #{}, Places).

path(V, Ups) ->
    lists:sublist(lists:reverse(steps(V, Ups)), 4).

steps(0, _Ups) ->
    [];
steps(V, Ups) ->
    {From, {Type, Label, V}, Edges} = map_get(V, Ups),
    case Type of
        internal -> [];
        element when Edges =< 32 -> [["[", integer_to_list(Label), "]"]];
        element -> ["[_]"];
        _ when Edges > 32, From > 5 -> ["[_]"];
        _ -> [Label]
    end ++ steps(From, Ups).
