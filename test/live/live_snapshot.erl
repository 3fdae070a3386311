%% Heap snapshots as Chrome reads them: its own loader, run in Node, reports what it finds in a
%% file, and that must equal our own reading. snapshot.sh starts it.
%%
%% Our reading is computed in the simplest way, from the file: the retained size of an object is
%% what goes when the object is taken away and the rest is counted.
-module(live_snapshot).

-export([main/1]).

-import(live_report, [title/1, say/2, check/3, check/4, some/1]).

-define(SNAPSHOTS, 12).
-define(THINGS, 300).

main([Reader, Dir]) ->
    live_report:start(),
    Status = try run(Reader, Dir)
             catch Class:Why:Stack ->
                     check("the test came to its end", false, {Class, Why, Stack}),
                     live_report:finish("snapshot")
             end,
    halt(Status).

run(Reader, Dir) ->
    Read = fun(Args) -> read(Reader, Dir, Args) end,
    title("Heaps that nobody has"),
    _ = [made_up(Seed, Dir, Read) || Seed <- lists:seq(1, ?SNAPSHOTS)],
    compared(Dir, Read),
    title("Heaps of processes"),
    _ = [dumped(Name, Holds, Dir, Read) || {Name, Holds} <- held()],
    title("What is wrong is seen"),
    _ = [planted(Name, Error, Dir, Read) || {Name, Error} <- errors()],
    live_report:finish("snapshot").

%% Returns the terms that the reader prints.
read(Reader, Dir, Args) ->
    Out = filename:join(Dir, "out"),
    Quoted = [[" '", Arg, "'"] || Arg <- Args],
    Said = os:cmd(lists:flatten(["node '", Reader, "'", Quoted, " 2>&1 >'", Out, "'"])),
    case file:consult(Out) of
        {ok, Terms} when Said =:= "" -> Terms;
        _ -> [{problem, Said}]
    end.

%% ---- a file as it should be

made_up(Seed, Dir, Read) ->
    Nodes = sonde_snapshot_helper:random(?THINGS, Seed),
    File = filename:join(Dir, "made_up.heapsnapshot"),
    {ok, _} = write(File, Nodes),
    agrees(io_lib:format("random ~b", [Seed]), File, Read).

write(File, Nodes) ->
    sonde_private_file:write(File, true,
                          fun(_) -> {ok, sonde_snapshot_helper:pieces(Nodes, 1000)} end).

%% Our reading of the file itself, not of what was meant to be in it.
agrees(Name, File, Read) ->
    Nodes = sonde_snapshot_helper:read(File),
    Terms = Read([File, "all"]),
    check([Name, ": Chrome finds nothing wrong"], [P || {problem, P} <- Terms] =:= [],
          "~b nodes, ~b edges~ts", tuple_to_list(sonde_snapshot_helper:counts(Nodes))
          ++ [some([P || {problem, P} <- Terms])]),
    Expected = expected(Nodes),
    Told = [Term || Term <- Terms, element(1, Term) =/= class],
    check([Name, ": and says the same sizes"], lists:sort(Told) =:= lists:sort(Expected),
          "total ~p~ts", [proplists:get_value(total, Terms),
                          some((Told -- Expected) ++ (Expected -- Told))]),
    Largest = [Retained || {largest, _, _, _, Retained, _} <- Told],
    check([Name, ": the largest first"],
          Largest =:= lists:reverse(lists:sort(Largest)) andalso Largest =/= [],
          lists:sublist(Largest, 10)),
    Classes = [{class, Class, Count, Bytes} || {class, Class, Count, Bytes} <- Terms],
    check([Name, ": and the same of each kind"], lists:sort(Classes) =:= classes(Nodes),
          "~b kinds~ts", [length(Classes), some(Classes -- classes(Nodes))]).

expected([{_, _, _, _, Roots} | Things] = Nodes) ->
    [Total | _] = Retained = sonde_snapshot_helper:retained(Nodes),
    Distances = distances([0], #{0 => 0}, list_to_tuple(Nodes)),
    [{nodes, length(Nodes)}, {total, Total}]
        ++ [{child, Edge, Name, Id, Self, lists:nth(To + 1, Retained)}
            || {_, Edge, To} <- Roots,
               {_, Name, Id, Self, _} <- [lists:nth(To + 1, Nodes)]]
        ++ [{largest, Id, Name, Self, Bytes, maps:get(I, Distances, none)}
            || {I, {_, Name, Id, Self, _}, Bytes} <-
                   lists:zip3(lists:seq(1, length(Things)), Things, tl(Retained))].

%% By the shortest path from the root.
distances([], Distances, _Nodes) ->
    Distances;
distances([I | Is], Distances, Nodes) ->
    {_, _, _, _, Edges} = element(I + 1, Nodes),
    New = lists:usort([To || {_, _, To} <- Edges, not is_map_key(To, Distances)]),
    Next = map_get(I, Distances) + 1,
    distances(Is ++ New, maps:merge(Distances, maps:from_keys(New, Next)), Nodes).

%% The Summary of the Memory panel.
classes(Nodes) ->
    Sums = lists:foldl(fun({_, _, _, 0, _}, Acc) -> Acc;
                          ({Type, Name, _, Size, _}, Acc) ->
                               maps:update_with(class(Type, Name),
                                                fun({C, B}) -> {C + 1, B + Size} end,
                                                {1, Size}, Acc)
                       end, #{}, Nodes),
    lists:sort([{class, Class, Count, Bytes} || {Class, {Count, Bytes}} <- maps:to_list(Sums)]).

class(Type, Name) when Type =:= object; Type =:= native -> Name;
class(closure, _) -> "Function";
class(Type, _) -> "(" ++ atom_to_list(Type) ++ ")".

%% ---- two files: what the Comparison goes by is the ids

compared(Dir, Read) ->
    [A, B] = Files = [filename:join(Dir, Name) || Name <- ["a.heapsnapshot", "b.heapsnapshot"]],
    {ok, _} = write(A, leaves([{10, "tuple/2", 16}, {11, "tuple/2", 16}, {13, "map", 40}])),
    {ok, _} = write(B, leaves([{11, "tuple/2", 16}, {12, "tuple/2", 24}, {13, "map", 48}])),
    check("two files are compared by their ids",
          Read(Files ++ ["diff"]) =:= [{changed, "tuple/2", 1, 1, 24, 16, [12], [10]}],
          Read(Files ++ ["diff"])),
    check("as sonde_heap:diff/2 counts them",
          sonde_heap:diff(A, B) =:= [{<<"stack / [1]">>, <<"tuple/2">>, 0, 8},
                                     {<<"stack / [2]">>, <<"map">>, 0, 8}],
          sonde_heap:diff(A, B)).

leaves(Leaves) ->
    sonde_snapshot_helper:roots(#{stack => [{element, I - 6, I}
                                            || I <- lists:seq(6, length(Leaves) + 5)]})
        ++ [{object, Name, Id, Size, []} || {Id, Name, Size} <- Leaves].

%% ---- processes

held() ->
    [{"a little of all",
      fun() -> {self(), make_ref(), 1.5, 1 bsl 100, "text", #{a => [b], "c" => {}},
                fun() -> node() end, <<"heap">>, binary:copy(<<"refc">>, 100)}
      end},
     {"shared", fun() -> One = lists:seq(1, 3), {One, One, [One | One]} end},
     {"a map of a hundred", fun() -> maps:from_list([{{I}, [I]} || I <- lists:seq(1, 100)]) end}].

dumped(Name, Holds, Dir, Read) ->
    Test = self(),
    Pid = spawn_link(fun() ->
                             Held = Holds(),
                             _ = put({key, Name}, {Held}),
                             Test ! {holds, self()},
                             receive {stop, Ref} -> exit({Ref, Held}) end
                     end),
    receive {holds, Pid} -> ok end,
    _ = [Pid ! {message, I, [I]} || I <- lists:seq(1, 3)],
    File = filename:join(Dir, "dumped.heapsnapshot"),
    case sonde_heap:dump(Pid, File, #{force => true}) of
        {ok, #{nodes := Nodes, edges := Edges}} ->
            Counts = sonde_snapshot_helper:counts(sonde_snapshot_helper:read(File)),
            check([Name, ": as many as it said"], Counts =:= {Nodes, Edges}, Counts),
            agrees(Name, File, Read);
        {error, {native_off, Why}} ->
            say("~ts: no dump: ~0tp", [Name, Why])
    end,
    unlink(Pid),
    exit(Pid, kill).

%% ---- errors

planted(Name, Error, Dir, Read) ->
    File = filename:join(Dir, "wrong.heapsnapshot"),
    Text = iolist_to_binary(sonde_snapshot_helper:text(Error(chain()))),
    ok = file:write_file(File, Text),
    Terms = Read([File, "all"]),
    case lists:keyfind(problem, 1, Terms) of
        {problem, Why} ->
            check(Name, true, Why);
        false ->
            Others = expected(sonde_snapshot_helper:read(File)) -- Terms,
            check(Name, Others =/= [], "not told~ts", [some(Others)])
    end.

%% A list of three: objects 6 to 8, of 16 bytes each.
chain() ->
    sonde_snapshot_helper:roots(#{stack => [{element, 0, 6}], dictionary => [{element, 1, 8}]})
        ++ [{object, "cons", 10 + I, 16, [{internal, "tail", 6 + I} || I < 3]}
            || I <- lists:seq(1, 3)].

errors() ->
    Change = fun(I, New) -> fun(Nodes) ->
                                    {Before, [Node | After]} = lists:split(I, Nodes),
                                    Before ++ [New(Node) | After]
                            end end,
    Edges = fun(New) -> fun(Node) -> setelement(5, Node, New) end end,
    [{"an id twice", Change(6, fun(Node) -> setelement(3, Node, 12) end)},
     {"a number that is too large", Change(6, fun(Node) -> setelement(4, Node, 1 bsl 32 + 8) end)},
     {"a thing that nothing leads to", fun(Nodes) -> Nodes ++ [{object, "cons", 99, 16, []}] end},
     {"a thing that is held weakly", Change(7, Edges([{weak, "w", 8}]))},
     {"an edge to the root", Change(8, Edges([{element, 1, 0}]))},
     {"an edge to nowhere", Change(8, Edges([{element, 1, 77}]))},
     {"a shortcut to one of the areas",
      Change(0, fun({_, _, _, _, [Stack | Others]} = Node) ->
                        setelement(5, Node, [setelement(1, Stack, shortcut) | Others])
                end)}].
