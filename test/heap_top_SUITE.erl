%% sonde_heap_top reports retained sizes and paths: the retained size is, to the byte, what goes
%% when an object is taken away; a path leads to its object; previews are short; and an answer that
%% is not possible gives its reason.
-module(heap_top_SUITE).

-compile([export_all, nowarn_export_all]).

-define(WORD, erlang:system_info(wordsize)).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [retained_is_what_goes, paths_lead_there, one_row_for_a_list_or_a_map, roots_are_named,
     shared_tail_is_a_thing, fields_of_records, long_ways_are_cut, previews_are_short,
     modules_of_elixir_have_no_prefix, strange_keys,
     content_forbidden, binaries_by_size, memory_is_bounded, memory_is_given_back,
     no_more_than_asked_for, limits_are_said, nonsense_is_badarg, own_heap, off_is_said].

init_per_suite(Config) ->
    sonde_test:init(Config).

end_per_suite(_Config) ->
    ok.

%% ---- terms that share parts, as a model and on a heap

%% `{v, Id, Parts}': Parts has some of the vertices before it.
vertices(N) ->
    [{Id, lists:nth(rand:uniform(8), [tuple, list, improper, map, keys, large, nested, env]),
      [rand:uniform(Id - 1) || Id > 1, _ <- lists:seq(1, rand:uniform(4))]}
     || Id <- lists:seq(1, N)].

build(Vertices) ->
    lists:foldl(fun({Id, Kind, Children}, Built) ->
                        Terms = [maps:get(C, Built) || C <- Children],
                        Built#{Id => {v, Id, parts(Kind, Terms)}}
                end, #{}, Vertices).

parts(tuple, Terms) -> list_to_tuple([t | Terms]);
parts(list, Terms) -> [l, self() | Terms];
parts(improper, Terms) -> [i | list_to_tuple([t | Terms])];
parts(map, Terms) -> maps:from_list([{I, T} || {I, T} <- lists:zip(numbers(Terms), Terms)]);
parts(keys, Terms) -> maps:from_list([{{I, T}, I} || {I, T} <- lists:zip(numbers(Terms), Terms)]);
parts(large, Terms) ->
    maps:from_list([{I, I} || I <- lists:seq(101, 200)] ++ lists:zip(numbers(Terms), Terms));
parts(nested, Terms) -> {[[Terms]], float(length(Terms))};
parts(env, Terms) -> fun(X) -> [X | Terms] end.

numbers(Terms) ->
    lists:seq(1, length(Terms)).

%% Words of a vertex without those of its parts: numbers stand for these.
words({_, env, Children}) ->
    %% the fun's environment is one list
    4 + fun_words() + 2 * length(Children);
words({_, Kind, Children}) ->
    4 + erts_debug:flat_size(parts(Kind, Children)).

fun_words() ->
    case list_to_integer(erlang:system_info(otp_release)) of
        R when R =< 26 -> 6;
        27 -> 4;
        _ -> 3
    end.

reached(Model, Roots, Without) ->
    Seen = reach(Roots -- [Without], Model, Without, #{}),
    lists:sum([element(1, maps:get(Id, Model)) || Id <- maps:keys(Seen)]).

reach([], _, _, Seen) -> Seen;
reach([Id | Ids], Model, Without, Seen) when is_map_key(Id, Seen); Id =:= Without ->
    reach(Ids, Model, Without, Seen);
reach([Id | Ids], Model, Without, Seen) ->
    {_, Children} = maps:get(Id, Model),
    reach(Children ++ Ids, Model, Without, Seen#{Id => true}).

%% A process that holds roots in its dictionary and can follow paths.
holder(Vertices, Roots) ->
    sonde_test:hold(fun() ->
                            Built = build(Vertices),
                            _ = [put({root, R}, maps:get(R, Built)) || R <- Roots],
                            _ = [put(I, I) || I <- lists:seq(1, 30)],
                            nothing
                    end).

heaps(Fun) ->
    _ = rand:seed(exsss, {1, 2, 3}),
    _ = [begin
             Vertices = vertices(60),
             Roots = lists:usort([60 | [rand:uniform(60) || _ <- lists:seq(1, I rem 4)]]),
             Pid = holder(Vertices, Roots),
             Fun(Pid, Vertices, Roots),
             sonde_test:stop(Pid)
         end || I <- lists:seq(1, 30)],
    ok.

rows(Pid) ->
    rows(Pid, 100000).

rows(Pid, N) ->
    Rows = sonde_heap_top:top(Pid, N, #{}),
    true = is_list(Rows),
    Rows.

%% The vertex that a row stands for, found by its preview.
id(#{preview := <<"{v,", Rest/binary>>, kind := {tuple, 3}}) ->
    {Id, <<",", _/binary>>} = string:to_integer(Rest),
    Id;
id(_) ->
    none.

retained_is_what_goes(_Config) ->
    heaps(fun(Pid, Vertices, Roots) ->
                  Model = maps:from_list([{Id, {words(V), Cs}} || {Id, _, Cs} = V <- Vertices]),
                  All = reached(Model, Roots, none),
                  Rows = rows(Pid),
                  Got = maps:from_list([{id(R), R} || R <- Rows, id(R) =/= none]),
                  Ids = lists:sort(maps:keys(reach(Roots, Model, none, #{}))),
                  Ids = lists:sort(maps:keys(Got)),
                  Expected = [{Id, ?WORD * (All - reached(Model, Roots, Id))} || Id <- Ids],
                  Expected = [{Id, maps:get(retained, maps:get(Id, Got))} || Id <- Ids],
                  Sizes = [Size || #{retained := Size} <- Rows],
                  Sizes = lists:reverse(lists:sort(Sizes)),
                  true = lists:all(fun(#{self := Self, retained := R}) -> Self =< R end, Rows)
          end).

%% ---- paths

paths_lead_there(_Config) ->
    heaps(fun(Pid, _, _) ->
                  Rows = [{id(R), Path} || #{path := Path} = R <- rows(Pid), id(R) =/= none],
                  true = Rows =/= [],
                  {dictionary, Pairs} = process_info(Pid, dictionary),
                  [] = [{Id, Path} || {Id, [dictionary | Path]} <- Rows,
                                      not lists:member(Id, [element(2, T) || {v, _, _} = T <-
                                                               follow(Path, {dictionary, Pairs})])]
          end).

%% All terms that a path may lead to: `key' stands for some key.
follow([], Term) -> [Term];
follow([{key, K} | Path], {dictionary, Pairs}) -> follow(Path, value(K, Pairs));
follow([{key, K} | Path], Map) -> follow(Path, value(K, maps:to_list(Map)));
follow([key | Path], Map) -> lists:append([attempt(Path, K) || K <- maps:keys(Map)]);
follow([{element, I} | Path], Tuple) -> follow(Path, element(I, Tuple));
follow([{index, I} | Path], List) -> follow(Path, hd(cells(I - 1, List)));
follow([{tail, I} | Path], List) -> follow(Path, cells(I, List));
follow([{env, I} | Path], Fun) ->
    {env, Env} = erlang:fun_info(Fun, env),
    follow(Path, lists:nth(I, Env)).

attempt(Path, Term) ->
    try follow(Path, Term) catch error:_ -> [] end.

cells(0, List) -> List;
cells(N, [_ | List]) -> cells(N - 1, List).

value(K, Pairs) ->
    {K, V} = lists:keyfind(K, 1, Pairs),
    V.

roots_are_named(_Config) ->
    Pid = sonde_test:hold(fun() ->
                                  put({a, 1}, lists:seq(1, 1000)),
                                  self() ! {one, lists:seq(1, 900)},
                                  self() ! {two, lists:seq(1, 800)},
                                  list_to_tuple(lists:seq(1, 700))
                          end),
    [#{path := [dictionary, {key, {a, 1}}], kind := cons},
     #{path := [{message, 1}], kind := {tuple, 2}},
     #{path := [{message, 1}, {element, 2}], kind := cons},
     #{path := [{message, 2}]}, #{path := [{message, 2}, {element, 2}]},
     #{path := [{stack, I}], kind := {tuple, 700}, self := Self, retained := Self}]
        = rows(Pid, 6),
    true = is_integer(I) andalso Self =:= 701 * ?WORD,
    ok = sonde_test:stop(Pid),
    Hibernated = spawn(fun() -> erlang:hibernate(?MODULE, serve, []) end),
    Argument = spawn(erlang, hibernate, [?MODULE, serve, [lists:seq(1, 500)]]),
    _ = [sonde_test:until(hibernated, fun() -> process_info(P, current_function)
                                                   =:= {current_function, {erlang, hibernate, 3}}
                                      end)
         || P <- [Hibernated, Argument]],
    ok = sonde_test:settle(Argument),
    [#{path := [{register, 3} | _], kind := cons} | _] = rows(Argument),
    sonde_test:stop([Hibernated, Argument]).

serve() ->
    receive after infinity -> ok end.

%% Cells of a list, nodes and pairs of a large map, and pairs of the dictionary have no rows.
one_row_for_a_list_or_a_map(_Config) ->
    Pid = sonde_test:hold(fun() ->
                                  put(list, lists:seq(1, 1000)),
                                  put(map, maps:from_list([{I, I} || I <- lists:seq(1, 1000)])),
                                  put(more, #{a => self(), b => lists:seq(1, 3)})
                          end),
    Rows = [Row || #{path := [dictionary | _]} = Row <- rows(Pid)],
    [{[dictionary, {key, map}], hashmap},
     {[dictionary, {key, list}], cons},
     {[dictionary, {key, more}], flatmap},
     {[dictionary, {key, more}, {key, b}], cons}]
        = [{Path, Kind} || #{path := Path, kind := Kind} <- Rows],
    Words = erts_debug:flat_size(maps:from_list([{I, I} || I <- lists:seq(1, 1000)])) * ?WORD,
    [#{self := Words, retained := Words}, #{self := 16000, retained := 16000} | _] = Rows,
    sonde_test:stop(Pid).

%% One list is the tail of two others: neither retains it, and an index counts on through the tail.
shared_tail_is_a_thing(_Config) ->
    Pid = sonde_test:hold(fun() ->
                                  Tail = [1, 2, 3 | [list_to_tuple(lists:seq(1, 500)) || _ <- "x"]],
                                  put(lists, {[a, b | Tail], [c | Tail]})
                          end),
    [#{path := [dictionary, {key, lists}], kind := {tuple, 2}},
     #{path := [dictionary, {key, lists}, {element, 1}, {tail, 2}], kind := cons, self := 64},
     #{path := [dictionary, {key, lists}, {element, 1}, {index, 6}], kind := {tuple, 500}},
     #{path := [dictionary, {key, lists}, {element, 1}], retained := 32},
     #{path := [dictionary, {key, lists}, {element, 2}], retained := 16} | _] = rows(Pid),
    sonde_test:stop(Pid).

fields_of_records(_Config) ->
    _ = sonde_rec:clear(),
    [_ | _] = sonde_rec:import(heap_top_records()),
    Pid = sonde_test:hold(fun() ->
                                  put(r, list_to_tuple([player, 1, lists:seq(1, 100), x])),
                                  put(s, list_to_tuple([stranger, 1, lists:seq(1, 50), x]))
                          end),
    [_, #{path := [dictionary, {key, r}, {field, score}]},
     _, #{path := [dictionary, {key, s}, {element, 3}]} | _] = rows(Pid),
    ok = sonde_test:stop(Pid),
    sonde_rec:clear(),
    ok.

heap_top_records() ->
    Forms = [{attribute, 1, module, heap_top_records},
             {attribute, 1, record,
              {player, [{record_field, 1, {atom, 1, F}} || F <- [name, score, token]]}}],
    {ok, Module, Beam} = compile:forms(Forms, [debug_info]),
    ok = file:write_file("heap_top_records.beam", Beam),
    true = code:add_pathz("."),
    {module, Module} = code:load_abs(filename:absname("heap_top_records")),
    Module.

long_ways_are_cut(_Config) ->
    Pid = sonde_test:hold(fun() ->
                                  Rest = list_to_tuple(lists:seq(1, 300)),
                                  Deep = lists:foldl(fun(I, T) -> {I, T} end, {end_of_it, Rest},
                                                     lists:seq(1, 99)),
                                  put(k, Deep)
                          end),
    Rows = rows(Pid),
    true = lists:all(fun(#{path := Path}) -> length(Path) =< 32 end, Rows),
    [#{path := Path}] = [R || #{kind := {tuple, 300}} = R <- Rows],
    %% the key, 99 pairs and the last one
    Step = {element, 2},
    {[dictionary, {key, k} | Begin], ['...' | End]} =
        lists:splitwith(fun(S) -> S =/= '...' end, Path),
    true = lists:all(fun(S) -> S =:= Step end, Begin ++ End),
    [#{path := [dictionary, {key, k} | Near]}]
        = [R || #{preview := <<"{80,", _/binary>>} = R <- Rows],
    Near = lists:duplicate(19, Step),
    sonde_test:stop(Pid).

%% ---- what people see

previews_are_short(_Config) ->
    Wide = list_to_tuple(lists:seq(1, 1000)),
    Name = list_to_atom(lists:duplicate(200, 16#20AC)),
    Terms = [{wide, Wide}, {deep, {1, {2, {3, {4}}}}}, {wider, lists:duplicate(50, {a, Wide, b})},
             {improper, [1, 2 | lists:last([x])]}, {string, lists:seq($a, $z)},
             {float, [1.5, -2.0e100]}, {big, {1 bsl 100}}, {long, {Name, Name}},
             {pid, {self(), make_ref()}}, {'fun', {fun() -> Wide end}},
             {map, maps:from_list([{I, {I}} || I <- lists:seq(1, 100)])},
             {small, #{a => {b}, 2 => [c]}}, {bits, {<<1:3>>, <<1:801>>}}],
    Pid = sonde_test:hold(fun() -> _ = [put(K, binary_to_term(term_to_binary(T)))
                                        || {K, T} <- Terms] end),
    Rows = maps:from_list([{K, P} || #{path := [dictionary, {key, K}], preview := P} <- rows(Pid)]),
    _ = [{true, K} = {byte_size(P) =< 200, K} || {K, P} <- maps:to_list(Rows)],
    _ = [true = is_list(unicode:characters_to_list(P)) || P <- maps:values(Rows)],
    #{wide := <<"{1,2,3,4,5,6,7,8,9,10,...}">>,
      deep := <<"{1,{2,{3,...}}}">>,
      improper := <<"[1,2|x]">>,
      string := <<"\"abcdefghij\"...">>,
      float := <<"[1.5,-2.0e100]">>,
      big := <<"{<integer of 16 bytes>}">>,
      small := <<"#{2 => \"c\",a => {b}}">>,
      bits := <<"{<<1 bytes>>,<<101 bytes>>}">>} = Rows#{small := small(maps:get(small, Rows))},
    #{map := <<"#{", _/binary>>, long := Long, pid := <<"{<0.", _/binary>>} = Rows,
    true = byte_size(Long) > 190,
    <<"...">> = binary:part(Long, byte_size(Long), -3),
    sonde_test:stop(Pid).

%% A map may have its keys in any order.
small(<<"#{a => {b},2 => [c]}">>) -> <<"#{2 => \"c\",a => {b}}">>;
small(<<"#{2 => [c],a => {b}}">>) -> <<"#{2 => \"c\",a => {b}}">>.

%% Text that people read has no prefix; a key is the term itself.
modules_of_elixir_have_no_prefix(_Config) ->
    Pid = sonde_elixir_helper:start(),
    [#{path := [dictionary, {key, 'Elixir.MyApp.Key'}] = Path, preview := Preview}]
        = [R || #{path := [dictionary, {key, 'Elixir.MyApp.Key'}]} = R <- rows(Pid)],
    <<"{MyApp.Value,[1,2,", _/binary>> = Preview,
    <<"dictionary / key MyApp.Key">> = iolist_to_binary(sonde_heap_top:path_text(Path)),
    sonde_elixir_helper:stop(Pid).

strange_keys(_Config) ->
    Keys = [1, a, 1.5, {a, [b, 2]}, "abc", {<<"secret">>, 1}, lists:seq(1, 100), self(), [], #{}],
    Pid = sonde_test:hold(fun() -> _ = [put(K, lists:seq(1, 100)) || K <- Keys] end),
    Rows = [K || #{path := [dictionary, {key, K}], kind := cons, self := 1600} <- rows(Pid)],
    Expected = [1, a, 1.5, {a, [b, 2]}, "abc", <<"{<<6 bytes>>,1}">>, <<"[1,2,3,4,5,...]">>, self(),
                [], <<"#{}">>],
    {Expected, Expected} = {[K || K <- Expected, lists:member(K, Rows)], Expected},
    sonde_test:stop(Pid).

%% In a node of its own: content stays forbidden once it was.
content_forbidden(_Config) ->
    sonde_peer_helper:with(shipped, fun(Peer) ->
        ok = sonde_peer_helper:call(Peer, ?MODULE, forbidden_there, [])
    end).

forbidden_there() ->
    Pid = sonde_test:hold(fun() ->
                                  put(shown, lists:seq(1, 100)),
                                  put({not_shown, 1}, lists:seq(1, 90)),
                                  put("nor this", lists:seq(1, 80))
                          end),
    ok = application:set_env(sonde, allow_content, false),
    Rows = rows(Pid),
    [#{path := [dictionary, {key, shown}], preview := forbidden},
     #{path := [dictionary, {key, '_'}]}, #{path := [dictionary, {key, '_'}]} | _] = Rows,
    [forbidden] = lists:usort([P || #{preview := P} <- Rows]),
    sonde_test:stop(Pid).

binaries_by_size(_Config) ->
    Pid = sonde_test:hold(fun() ->
                                  Large = binary:copy(<<"large">>, 1000),
                                  <<_:10/binary, Part:200/binary, _/binary>> = Large,
                                  put(large, {Large, Part}),
                                  put(small, binary:copy(<<"s">>, 20))
                          end),
    Rows = [Row || #{path := [dictionary, {key, K} | _]} = Row <- rows(Pid), K =/= x],
    [#{preview := <<"{<<5000 bytes>>,<<200 bytes>>}">>, retained := Retained}]
        = [R || #{kind := {tuple, 2}} = R <- Rows],
    %% nothing retains what lies outside of the heap
    true = Retained < 40 * ?WORD,
    [#{path := [dictionary, {key, small}]}] = [R || #{preview := <<"<<20 bytes>>">>} = R <- Rows],
    sonde_test:stop(Pid).

%% ---- limits

%% For maps and tuples, a call takes less than 60 percent of the heap.
memory_is_bounded(_Config) ->
    Shapes = [fun() -> [#{id => I, at => {I, I}} || I <- lists:seq(1, 50000)] end,
              fun() -> maps:from_list([{I, {v, I}} || I <- lists:seq(1, 100000)]) end,
              fun() -> [{row, I, {I}} || I <- lists:seq(1, 100000)] end,
              fun() -> lists:seq(1, 1000000) end,
              fun() -> lists:foldl(fun(I, T) -> {I, T, s} end, x, lists:seq(1, 200000)) end],
    _ = [begin
             Pid = sonde_test:hold(fun() -> T = Shape(), true = erlang:garbage_collect(), T end),
             #{bytes := Bytes, words := Words} = cost(Pid),
             true = Bytes * 100 < Words * ?WORD * 60,
             ok = sonde_test:stop(Pid)
         end || Shape <- Shapes],
    ok.

%% Freed with the call, whether or not the caller collects: the memory is not on its heap.
memory_is_given_back(_Config) ->
    Pid = sonde_test:hold(fun() -> [{I} || I <- lists:seq(1, 500000)] end),
    #{bytes := Bytes} = cost(Pid),
    Before = erlang:memory(system),
    Callers = [sonde_test:hold(fun() -> Call(Pid) end)
               || Call <- [fun(P) -> sonde_heap_top:top(P, 1, #{}) end, fun cut_short/1,
                           fun dumped/1]],
    true = erlang:memory(system) - Before < Bytes div 2,
    _ = [ok = sonde_test:stop(P) || P <- [Pid | Callers]],
    ok.

%% The timeout comes after the whole heap was marked, or later.
cut_short(Pid) ->
    _ = [sonde_heap_top:top(Pid, 1, #{timeout => Ms}) || Ms <- lists:seq(0, 100, 5)],
    ok.

dumped(Pid) ->
    {ok, Next} = sonde_v8_writer:open(Pid, #{suspend => false, max_words => 1 bsl 40, timeout => 60000,
                                        progress => false, values => false, max_nodes => 1000000}),
    to_the_end(Next).

to_the_end(Next) ->
    case Next() of
        {data, _} -> to_the_end(Next);
        End -> End
    end.

cost(Pid) ->
    sonde_look:run(Pid, {top, [], 10, 0}, #{suspend => false, max_words => 1 bsl 40,
                                            timeout => 60000, progress => false},
                   fun sonde_nif:look_top_info/1).

no_more_than_asked_for(_Config) ->
    Pid = sonde_test:hold(fun() -> [{I} || I <- lists:seq(1, 1000)] end),
    [] = rows(Pid, 0),
    [#{kind := cons}] = rows(Pid, 1),
    17 = length(rows(Pid, 17)),
    true = length(rows(Pid)) > 1000,
    sonde_test:stop(Pid),
    Many = sonde_test:hold(fun() -> [{I} || I <- lists:seq(1, 100000)] end),
    100000 = length(rows(Many, 1 bsl 70)),
    sonde_test:stop(Many).

limits_are_said(_Config) ->
    Pid = sonde_test:hold(fun() -> lists:seq(1, 2000000) end),
    {error, {heap_too_large, Words, 1000}} = sonde_heap_top:top(Pid, 1, #{max_words => 1000}),
    true = Words >= 200000,
    {error, timeout} = sonde_heap_top:top(Pid, 1, #{timeout => 0}),
    [_] = sonde_heap_top:top(Pid, 1, #{suspend => true}),
    ok = sonde_test:stop(Pid),
    undefined = sonde_heap_top:top(Pid, 1, #{}).

nonsense_is_badarg(_Config) ->
    _ = [{Args, badarg} = {Args, sonde_test:raised(fun() -> apply(sonde_heap_top, top, Args) end)}
         || Args <- [[x, 1, #{}], [self(), -1, #{}], [self(), 1.0, #{}], [self(), 1, []],
                     [self(), 1, #{x => 1}], [self(), 1, #{suspend => 1}]]],
    ok.

own_heap(_Config) ->
    put(mine, lists:seq(1, 5000)),
    Rows = sonde_heap_top:top(self(), 100, #{}),
    erase(mine),
    [#{retained := 80000}] = [R || #{path := [dictionary, {key, mine}]} = R <- Rows],
    ok.

%% Runs only without the native path.
off_is_said(_Config) ->
    {error, {native_off, disabled}} = sonde_heap_top:top(self(), 1, #{}),
    {error, {native_off, disabled}} = sonde_heap_top:top(spawn(fun() -> ok end), 3, #{}).
