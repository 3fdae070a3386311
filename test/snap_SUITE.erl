%% sonde_v8_writer: a dump agrees with sonde:heap/1 and sonde_heap_top, in the format that Chrome
%% reads. Dominators and sizes are the same folded and unfolded; and any obstacle is reported.
-module(snap_SUITE).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([forbidden_there/0]).
-export([sizes_are_those_of_heap_top/1, folded_retains_the_same/1, a_long_list_is_folded/1,
         ids_stay/1, names_of_nodes_and_edges/1, modules_of_elixir_have_no_prefix/1,
         values_are_previews/1, content_forbidden/1,
         pieces_are_small/1, limits_are_said/1, held_while_it_is_written/1, busy_is_said/1,
         off_is_said/1]).

-define(WORD, erlang:system_info(wordsize)).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [sizes_are_those_of_heap_top, folded_retains_the_same, a_long_list_is_folded, ids_stay,
     names_of_nodes_and_edges, modules_of_elixir_have_no_prefix, values_are_previews, content_forbidden, pieces_are_small,
     limits_are_said, held_while_it_is_written, busy_is_said, off_is_said].

init_per_suite(Config) ->
    sonde_test:init(Config).

end_per_suite(_Config) ->
    ok.

%% ---- dumps

options(Opts) ->
    maps:merge(#{force => false, values => false, max_nodes => 5000000, max_words => 1000000000,
                 timeout => 30000, suspend => false, progress => false}, Opts).

dump(Pid, Opts) ->
    {ok, Next} = sonde_v8_writer:open(Pid, options(Opts)),
    {Pieces, End} = pieces(Next, []),
    case End of
        {done, #{nodes := N, edges := E}} -> read(iolist_to_binary(Pieces), N, E);
        No -> No
    end.

pieces(Next, Pieces) ->
    case Next() of
        {data, Data} -> pieces(Next, [iolist_to_binary(Data) | Pieces]);
        End -> {lists:reverse(Pieces), End}
    end.

%% `#{Number => {Type, Name, Id, Size, [{Type, Name, To}]}}'; any violation of the format crashes.
read(Text, N, E) ->
    [Head, Rest1] = binary:split(Text, <<"\"nodes\":[">>),
    [Nodes, Rest2] = binary:split(Rest1, <<"],\n\"edges\":[">>),
    [Edges, Strings] = binary:split(Rest2, <<"],\n\"strings\":[">>),
    Counts = iolist_to_binary(io_lib:format("\"node_count\":~b,\"edge_count\":~b,", [N, E])),
    {_, _} = binary:match(Head, Counts),
    true = byte_size(Head) < 4096,
    Names = names(Strings),
    {Graph, []} = lists:mapfoldl(fun([Type, Name, Id, Size, Count, 0, 0], Left) ->
                                         {Mine, Others} = lists:split(Count, Left),
                                         {{Type, element(Name + 1, Names), Id, Size,
                                           [edge(Edge, Names, N) || Edge <- Mine]}, Others}
                                 end, records(Edges, 3), records(Nodes, 7)),
    {N, E} = {length(Graph), lists:sum([length(Es) || {_, _, _, _, Es} <- Graph])},
    N = length(lists:usort([Id || {_, _, Id, _, _} <- Graph])),
    maps:from_list(lists:zip(lists:seq(0, N - 1), Graph)).

records(Text, Fields) ->
    Lines = [string:trim(L, both, "\n,") || L <- binary:split(Text, <<"\n">>, [global])],
    Records = [[binary_to_integer(F) || F <- binary:split(L, <<",">>, [global])]
               || L <- Lines, L =/= <<>>],
    true = lists:all(fun(R) -> length(R) =:= Fields end, Records),
    true = lists:all(fun(F) -> F >= 0 andalso F < 1 bsl 32 end, lists:append(Records)),
    Records.

edge([1, Index, To], _, N) when To rem 7 =:= 0, To > 0, To div 7 < N -> {1, Index, To div 7};
edge([Type, Name, To], Names, N) when To rem 7 =:= 0, To > 0, To div 7 < N ->
    {Type, element(Name + 1, Names), To div 7}.

%% The names are ASCII, one on each line, in quotes.
names(Text) ->
    Size = byte_size(Text) - 3,
    <<Strings:Size/binary, "]}\n">> = Text,
    list_to_tuple([begin
                       true = lists:all(fun(C) -> C >= 32 andalso C < 127 end, binary_to_list(L)),
                       string:trim(L, both, "\",")
                   end || L <- binary:split(Strings, <<"\n">>, [global])]).

total(Graph) ->
    element(1, reached(Graph, none)).

reached(Graph, Without) ->
    Seen = reach([0], Graph, Without, #{}),
    {lists:sum([element(4, maps:get(I, Graph)) || I <- maps:keys(Seen)]), map_size(Seen)}.

reach([], _, _, Seen) -> Seen;
reach([I | Is], Graph, Without, Seen) when is_map_key(I, Seen); I =:= Without ->
    reach(Is, Graph, Without, Seen);
reach([I | Is], Graph, Without, Seen) ->
    {_, _, _, _, Edges} = maps:get(I, Graph),
    reach([To || {_, _, To} <- Edges] ++ Is, Graph, Without, Seen#{I => true}).

%% The bytes that each object retains, by its id.
retained(Graph) ->
    All = total(Graph),
    {_, Count} = reached(Graph, none),
    Count = map_size(Graph),
    maps:from_list([{Id, All - element(1, reached(Graph, I))}
                    || {I, {_, _, Id, _, _}} <- maps:to_list(Graph)]).

%% ---- processes

%% Tuples, lists and maps that share parts with each other.
shared(N) ->
    Built = lists:foldl(fun(I, Built) ->
                                Some = [maps:get(rand:uniform(I - 1), Built)
                                        || I > 1, _ <- lists:seq(1, rand:uniform(3))],
                                Built#{I => value(rand:uniform(4), I, Some)}
                        end, #{}, lists:seq(1, N)),
    [maps:get(I, Built) || I <- [N, N - 1, N div 2]].

value(1, I, Some) -> list_to_tuple([I | Some]);
value(2, I, Some) -> [I | Some];
value(3, _, Some) -> maps:from_list(lists:zip(lists:seq(1, length(Some)), Some));
value(4, I, Some) -> maps:from_list([{K, K} || K <- lists:seq(100, 150)] ++ [{I, S} || S <- Some]).

holder(Seed) ->
    sonde_test:hold(fun() ->
                            _ = rand:seed(exsss, {Seed, 2, 3}),
                            [A, B, C] = shared(40),
                            erase(),
                            put(a, A),
                            put({b, 1}, B),
                            C
                    end).

each_holder(Fun) ->
    _ = [begin
             Pid = holder(Seed),
             Fun(Pid),
             ok = sonde_test:stop(Pid)
         end || Seed <- lists:seq(1, 20)],
    ok.

%% ---- cases

sizes_are_those_of_heap_top(_Config) ->
    each_holder(fun(Pid) ->
                        Graph = dump(Pid, #{}),
                        #{reachable := Reachable} = sonde:heap(Pid),
                        Reachable = total(Graph),
                        Retained = [R || {Id, R} <- maps:to_list(retained(Graph)), Id > 6,
                                         R > 0],
                        Rows = sonde_heap_top:top(Pid, 1000, #{}),
                        Ours = [R || #{retained := R} <- Rows],
                        %% pairs of the dictionary and shared parts of maps have no rows
                        [] = Ours -- Retained,
                        true = length(Ours) >= length(Retained) * 3 div 4
                end).

folded_retains_the_same(_Config) ->
    each_holder(fun(Pid) ->
                        Whole = dump(Pid, #{}),
                        Sizes = retained(Whole),
                        Total = total(Whole),
                        _ = [same_when_folded(dump(Pid, #{max_nodes => Max}), Max, Sizes, Total)
                             || Max <- [1, 2, 10, 20, 30, map_size(Whole) - 1],
                                Max < map_size(Whole)],
                        {Whole, Whole} = {dump(Pid, #{max_nodes => map_size(Whole)}), Whole}
                end).

same_when_folded(Folded, Max, Sizes, Total) ->
    true = map_size(Folded) =< Max + 14,
    Total = total(Folded),
    [{9, <<"folded: ", _/binary>>, 7, _, _}] = [V || {_, _, 7, _, _} = V <- maps:values(Folded)],
    Kept = [{Id, R} || {Id, R} <- maps:to_list(retained(Folded)), Id > 20 orelse Id < 7,
                       is_map_key(Id, Sizes)],
    [] = [{Id, R, maps:get(Id, Sizes)} || {Id, R} <- Kept, R =/= maps:get(Id, Sizes)],
    ok.

a_long_list_is_folded(_Config) ->
    Pid = sonde_test:hold(fun() -> put(rows, [{I, {I}} || I <- lists:seq(1, 20000)]), ok end),
    Graph = dump(Pid, #{max_nodes => 100}),
    #{reachable := Reachable} = sonde:heap(Pid),
    Reachable = total(Graph),
    true = map_size(Graph) < 114 andalso map_size(Graph) > 50,
    [List] = [Es || {3, <<"list">>, _, 320000, Es} <- maps:values(Graph)],
    [Size] = [element(4, maps:get(To, Graph)) || {3, <<"folded">>, To} <- List],
    true = Size > 19900 * 5 * ?WORD andalso Size < 20000 * 5 * ?WORD,
    sonde_test:stop(Pid).

ids_stay(_Config) ->
    each_holder(fun(Pid) ->
                        Graph = dump(Pid, #{}),
                        {Graph, Graph} = {dump(Pid, #{}), Graph},
                        true = lists:all(fun({_, _, Id, _, _}) -> Id > 0 end, maps:values(Graph))
                end).

names_of_nodes_and_edges(_Config) ->
    Atom = list_to_atom([$", $\\, 16#E9, 16#20AC, 16#1F600]),
    Pid = sonde_test:hold(fun() ->
                                  Built = binary_to_term(term_to_binary(
                                      [entry, [x, {Atom, 1}], #{name => {1}, 7 => {2}},
                                       1.5, 1 bsl 70, <<1:80>>])),
                                  put(cache, list_to_tuple(Built)),
                                  put(17, {self()}),
                                  put({binary:copy(<<"secret">>)}, [make_ref()]),
                                  F = lists:seq(1, 3),
                                  put(f, fun(X) -> [X | F] end),
                                  ok
                          end),
    Graph = dump(Pid, #{}),
    Find = fun(Name) -> hd([V || {_, N, _, _, _} = V <- maps:values(Graph), N =:= Name]) end,
    At = fun({_, _, _, _, Es}, Label) ->
                 [To] = [To || {_, L, To} <- Es, L =:= Label],
                 maps:get(To, Graph)
         end,
    {9, <<"dictionary">>, 4, 0, Pairs} = maps:get(3, Graph),
    Below = [{Label, maps:get(To, Graph)} || {3, <<"pair">>, P} <- Pairs,
                                             {2, Label, To} <- element(5, maps:get(P, Graph))],
    [<<"key">>, <<"{key,...}">>, <<"{key,17}">>, <<"{key,cache}">>, <<"{key,f}">>]
        = lists:sort([Label || {Label, _} <- Below]),
    {3, <<"{entry, ...}/6">>, _, 56, _} = Entry = proplists:get_value(<<"{key,cache}">>, Below),
    {3, <<"list">>, _, 32, _} = List = At(Entry, 2),
    {3, Name, _, 24, _} = At(List, 2),
    <<"{'\\\"\\\\", _/binary>> = Name,
    true = lists:all(fun(Part) -> binary:match(Name, Part) =/= nomatch end,
                     [<<"\\u20ac">>, <<"\\ud83d\\ude00">>]),
    {3, <<"map">>, _, _, _} = Map = At(Entry, 3),
    {3, <<"tuple/1">>, _, 16, _} = At(Map, <<"name">>),
    {3, <<"tuple/1">>, _, 16, _} = At(Map, 7),
    {7, <<"float">>, _, 16, _} = At(Entry, 4),
    {13, <<"bignum">>, _, _, _} = At(Entry, 5),
    {2, <<"heap binary">>, _, _, _} = Find(<<"heap binary">>),
    {3, <<"ref">>, _, _, _} = Find(<<"ref">>),
    {5, <<"fun snap_SUITE:", _/binary>>, _, _, [{0, <<"1">>, _}]}
        = proplists:get_value(<<"{key,f}">>, Below),
    sonde_test:stop(Pid).

modules_of_elixir_have_no_prefix(_Config) ->
    Pid = sonde_elixir_helper:start(),
    Graph = dump(Pid, #{}),
    [Value] = [To || {_, _, _, _, Edges} <- maps:values(Graph),
                     {_, <<"{key,MyApp.Key}">>, To} <- Edges],
    {3, <<"{MyApp.Value, ...}/2">>, _, _, _} = maps:get(Value, Graph),
    sonde_elixir_helper:stop(Pid).

values_are_previews(_Config) ->
    Pid = sonde_test:hold(fun() ->
                                  put(k, {some, lists:seq(1, 100), binary:copy(<<"secret">>, 2)}),
                                  put(l, [{I, "text"} || I <- lists:seq(1, 1000)])
                          end),
    Graph = dump(Pid, #{values => true}),
    Names = [Name || {_, Name, _, _, _} <- maps:values(Graph)],
    true = lists:member(<<"{some, ...}/3: {some,[1,2,3,4,5,...],<<12 bytes>>}">>, Names),
    1000 = length([N || <<"tuple/2: {", _/binary>> = N <- Names]),
    true = lists:member(<<"tuple/2: {1000,\\\"text\\\"}">>, Names)
        orelse lists:member(<<"tuple/2: {1000,...}">>, Names),
    [] = [N || N <- Names, binary:match(N, <<"secret">>) =/= nomatch],
    Without = dump(Pid, #{}),
    {Same, Same} = {shape(Without), shape(Graph)},
    sonde_test:stop(Pid).

shape(Graph) ->
    Same = [{N, Type, Id, Size, Edges} || {N, {Type, _, Id, Size, Edges}} <- maps:to_list(Graph)],
    lists:sort(Same).

%% Numbers as keys count as content too.
content_forbidden(_Config) ->
    sonde_peer_helper:with(shipped, fun(Peer) ->
        ok = sonde_peer_helper:call(Peer, ?MODULE, forbidden_there, [])
    end).

forbidden_there() ->
    Pid = sonde_test:hold(fun() -> put(42, {maps:from_list([{43, {a}}])}), ok end),
    ok = application:set_env(sonde, allow_content, false),
    Graph = dump(Pid, #{}),
    Labels = [L || {_, _, _, _, Es} <- maps:values(Graph), {_, L, _} <- Es],
    false = lists:member(<<"{key,42}">>, Labels) orelse lists:member(43, Labels),
    true = lists:member(<<"{key,...}">>, Labels),
    sonde_test:stop(Pid).

pieces_are_small(_Config) ->
    Pid = sonde_test:hold(fun() -> [{I} || I <- lists:seq(1, 50000)] end),
    {ok, Next} = sonde_v8_writer:open(Pid, options(#{})),
    {Pieces, {done, #{nodes := Nodes}}} = pieces(Next, []),
    true = Nodes > 50000 andalso length(Pieces) > 20,
    true = lists:all(fun(Piece) -> byte_size(Piece) < 70000 end, Pieces),
    [] = [Key || {{sonde_v8_writer, _} = Key, _} <- get()],
    sonde_test:stop(Pid).

limits_are_said(_Config) ->
    Pid = sonde_test:hold(fun() -> lists:seq(1, 10000) end),
    {error, {heap_too_large, Words, 100}} = dump(Pid, #{max_words => 100}),
    true = Words >= 20000,
    {error, timeout} = dump(Pid, #{timeout => 0}),
    ok = sonde_test:stop(Pid),
    undefined = sonde_v8_writer:open(Pid, options(#{suspend => true})),
    undefined = dump(Pid, #{}).

held_while_it_is_written(_Config) ->
    Pid = spawn(fun() -> counts(0) end),
    {ok, Next} = sonde_v8_writer:open(Pid, options(#{suspend => true})),
    {status, suspended} = process_info(Pid, status),
    {_, {done, _}} = pieces(Next, []),
    ok = sonde_test:until(goes_on, fun() -> process_info(Pid, status) =/= {status, suspended} end),
    sonde_test:stop(Pid).

counts(N) ->
    receive after 0 -> counts(N + 1) end.

busy_is_said(_Config) ->
    List = lists:seq(1, 10000),
    [Pid] = sonde_test:churn(1, fun() -> lists:reverse(List) end),
    {error, busy} = dump(Pid, #{}),
    sonde_test:stop(Pid).

off_is_said(_Config) ->
    Pid = sonde_test:hold(fun() -> ok end),
    #{status := {off, disabled}} = sonde:native(off),
    try
        {error, {native_off, disabled}} = sonde_v8_writer:open(Pid, options(#{}))
    after
        #{status := active} = sonde:native(on)
    end,
    sonde_test:stop(Pid).
