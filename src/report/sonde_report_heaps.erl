%% @private
%% What retains the heaps of the worst processes, each as a tree: an object is below the object that it
%% is reached through, if that one retains it. So no part is larger than what it is in.
-module(sonde_report_heaps).

-export([section/1, tree/2]).
-export_type([object/0]).

-type object() :: #{name := binary(), bytes := non_neg_integer(), self := non_neg_integer(),
                    kind := binary() | undefined, children := [object()], preview => binary()}.

-import(sonde_report_text, [text/1, process/1, kind/1]).

-define(PROCESSES, 3).
-define(OBJECTS, 150).
-define(KINDS, 15).
-define(HEAP_MS, 4000).        % for one look at a heap
-define(ALL_MS, 12000).
-define(MAX_WORDS, 100000000).
-define(LONGEST_PATH, 150).   % characters

%% @doc `worst': processes, each with the reason to look at it; the same one may come again. `named': how to name one,
%% if not as this node does.
-spec section(#{atom() => term()}) -> sonde_report_data:made().
section(#{worst := Worst, content := Content} = Opts) ->
    Named = maps:get(named, Opts, fun sonde_report_text:registered/1),
    ok = sonde_vm:must_be_native(),
    Until = now_ms() + ?ALL_MS,
    #{data => #{processes => [heap(Pid, Named(Pid), Why, Content, Until)
                              || {Pid, Why} <- first(?PROCESSES, Worst, [])]}}.

now_ms() -> erlang:monotonic_time(millisecond).

first(0, _, _) -> [];
first(N, [{Pid, _} = One | Rest], Seen) ->
    case lists:member(Pid, Seen) of
        true -> first(N, Rest, Seen);
        false -> [One | first(N - 1, Rest, [Pid | Seen])]
    end;
first(_, [], _) -> [].

heap(Pid, Named, Why, Content, Until) ->
    Limits = fun() -> #{timeout => max(0, min(?HEAP_MS, Until - now_ms())), max_words => ?MAX_WORDS} end,
    About = #{process => process(Pid), named => Named, why => Why},
    case sonde_heap_map:heap(Pid, Limits()) of
        #{reachable := Reachable} = Map ->
            Rows = case Content of
                       true -> sonde_heap_top:top(Pid, ?OBJECTS, Limits());
                       false -> sonde_heap_top:shape(Pid, ?OBJECTS, Limits())
                   end,
            objects(Rows, Reachable, maps:merge(About, parts(Map)));
        Error ->
            About#{failed => failed(Error)}
    end.

parts(#{blocks := Blocks, reachable := Reachable, garbage := Garbage, roots := Roots,
        histogram := Kinds, binaries := Binaries} = Map) ->
    #{blocks => Blocks, reachable => Reachable, garbage => Garbage, roots => Roots,
      binaries => Binaries, sensitive => maps:get(content, Map, false) =:= sensitive,
      kinds => [{kind(Kind), Count, Bytes} || {Kind, Count, Bytes} <- lists:sublist(Kinds, ?KINDS)]}.

objects(Rows, Reachable, About) when is_list(Rows) ->
    About#{tree => tree(Rows, Reachable)};
objects(Error, _, About) ->
    About#{failed => failed(Error)}.

failed(undefined) -> <<"the process ended meanwhile">>;
failed({error, busy}) -> <<"the process ran at each attempt to read its heap">>;
failed({error, timeout}) -> <<"its heap could not be read in time">>;
failed({error, {heap_too_large, _, _}}) -> <<"its heap is too large to be read here">>;
failed({error, Why}) when is_atom(Why) -> text(atom_to_list(Why));
failed({error, _}) -> <<"its heap could not be read">>.

%% ---- the tree

%% @doc Builds the tree. Where keys are hidden, several objects may have the same path: what is in one of
%% them is left out, since it is not known in which. The heap may have changed between two looks: then the
%% root gets as much as its children have.
-spec tree([sonde_heap_top:row()], non_neg_integer()) -> object().
tree(Rows, Reachable) ->
    Count = fun(#{path := Path}, Acc) -> maps:update_with(Path, fun(N) -> N + 1 end, 1, Acc) end,
    Several = maps:filter(fun(_, N) -> N > 1 end, lists:foldl(Count, #{}, Rows)),
    Known = [Row || #{path := Path} = Row <- Rows, not is_in(before(Path), Several)],
    Sorted = lists:sort(fun(#{retained := A, path := P}, #{retained := B, path := Q}) -> {B, P} =< {A, Q} end, Known),
    {_, All} = lists:foldl(fun add/2, {#{}, #{[] => []}}, Sorted),
    Top = children([], All),
    #{name => <<"reachable">>, self => 0, kind => undefined, children => Top,
      bytes => max(Reachable, lists:sum([Bytes || #{bytes := Bytes} <- Top]))}.

%% Left: the bytes that an object has for children. Children: by the path of the object above.
add(#{path := Path, retained := Retained, self := Self} = Row, {Left, Children}) ->
    Above = above(before(Path), Retained, Left),
    Taken = case Left of
                #{Above := Room} -> Left#{Above := Room - Retained};
                _ -> Left
            end,
    {Taken#{Path => Retained - Self},
     maps:update_with(Above, fun(Rows) -> [Row | Rows] end, [Row], Children)}.

%% The nearest object on the path that still has room.
above([], _, _) -> [];
above(Path, Retained, Left) ->
    case Left of
        #{Path := Room} when Room >= Retained -> Path;
        _ -> above(before(Path), Retained, Left)
    end.

is_in([], _) -> false;
is_in(Path, Several) -> is_map_key(Path, Several) orelse is_in(before(Path), Several).

before([]) -> [];
before(Path) -> lists:droplast(Path).

children(Above, All) ->
    [object(Row, Above, All) || Row <- lists:reverse(maps:get(Above, All, []))].

object(#{path := Path, retained := Retained, self := Self, kind := Kind, preview := Preview}, Above, All) ->
    Steps = lists:nthtail(length(Above), Path),
    Object = #{name => short(sonde_heap_top:path_text(Steps)), bytes => Retained, self => Self,
               kind => kind(Kind), children => children(Path, All)},
    case is_binary(Preview) of
        true -> Object#{preview => text(Preview)};
        false -> Object
    end.

short(Chars) ->
    case unicode:characters_to_list(Chars) of
        List when length(List) > ?LONGEST_PATH ->
            %% the end says what it is
            text(["... ", lists:nthtail(length(List) - ?LONGEST_PATH, List)]);
        List ->
            text(List)
    end.
