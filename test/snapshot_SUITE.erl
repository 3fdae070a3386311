%% Heap snapshots in files: how a file is written, and what grew from one to the next. The contents
%% are made up here. `make test-snapshot' checks that Chrome reads them as we do.
-module(snapshot_SUITE).

-include_lib("kernel/include/file.hrl").

-import(sonde_test, [helpers/0, raised/1, until/2]).
-import(sonde_snapshot_helper, [roots/1]).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [content_arrives, private_before_there_is_content, nothing_is_overwritten,
     no_link_is_followed, force_replaces_what_is_complete, no_trace_of_what_failed,
     no_trace_of_a_killed_caller, no_trace_of_a_killed_helper, no_trace_on_a_full_disk,
     places_where_no_file_can_be, bad_arguments, content_forbidden, helpers_are_gone,
     growth_as_counted_plainly, growth_as_one_wants_it, growth_first_and_shrinking_last,
     places_of_many_are_one, many_paths_and_kinds, a_long_list_in_little_memory,
     no_file_is_a_crash, what_is_no_dump].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% Each case has a directory, so that leftover files can be seen.
init_per_testcase(Case, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), atom_to_list(Case)),
    ok = file:make_dir(Dir),
    [{dir, Dir}, {file, filename:join(Dir, "a.heapsnapshot")} | Config].

end_per_testcase(_Case, _Config) -> ok.

dir(Config) -> proplists:get_value(dir, Config).
file(Config) -> proplists:get_value(file, Config).

left(Config) ->
    {ok, Names} = file:list_dir_all(dir(Config)),
    lists:sort(Names).

%% ---- the file of a dump

content_arrives(Config) ->
    Nodes = sonde_snapshot_helper:random(50, 1),
    Text = iolist_to_binary(sonde_snapshot_helper:text(Nodes)),
    {NodeCount, EdgeCount} = sonde_snapshot_helper:counts(Nodes),
    _ = [begin
             {ok, #{nodes := NodeCount, edges := EdgeCount, bytes := Bytes, ms := Ms}} =
                 write(Name, false, Nodes, Piece),
             true = is_integer(Ms) andalso Ms >= 0,
             Bytes = byte_size(Text),
             {ok, Text} = file:read_file(Name),
             ok = file:delete(Name)
         end || Piece <- [1, 1000, 1000000],
                Base <- ["list", <<"binary">>, ["de", [$e, $p]], [16#E9]],
                Name <- [filename:join(dir(Config), Base)]],
    [] = left(Config).

write(File, Force, Nodes, Piece) ->
    sonde_private_file:write(File, Force,
                          fun(_) -> {ok, sonde_snapshot_helper:pieces(Nodes, Piece)} end).

%% Checks the file at the time that content is first requested, before anything is written.
private_before_there_is_content(Config) ->
    File = file(Config),
    _ = [begin
             {error, busy} =
                 sonde_private_file:write(
                   File, Force,
                   fun(_) ->
                           [Name] = left(Config),
                           {ok, #file_info{mode = Mode, size = 0, type = regular}} =
                               file:read_link_info(filename:join(dir(Config), Name)),
                           8#600 = Mode band 8#7777,
                           {error, busy}
                   end),
             [] = left(Config)
         end || Force <- [false, true]],
    {ok, _} = write(File, false, [], 100),
    {ok, _} = write(File, true, [], 100),
    {ok, #file_info{mode = Mode}} = file:read_file_info(File),
    8#600 = Mode band 8#7777.

nothing_is_overwritten(Config) ->
    ok = file:write_file(file(Config), "mine"),
    Never = fun(_) -> exit(opened) end,
    {error, eexist} = sonde_private_file:write(file(Config), false, Never),
    {error, eexist} = sonde_heap:dump(self(), file(Config)),
    {error, eexist} = sonde_heap:dump(self(), file(Config), #{force => false}),
    {ok, <<"mine">>} = file:read_file(file(Config)),
    ["a.heapsnapshot"] = left(Config).

no_link_is_followed(Config) ->
    Other = filename:join(dir(Config), "other"),
    ok = file:make_symlink(Other, file(Config)),
    {error, eexist} = write(file(Config), false, [], 100),
    ["a.heapsnapshot"] = left(Config),
    ok = file:write_file(Other, "other"),
    {error, eexist} = write(file(Config), false, [], 100),
    {ok, _} = write(file(Config), true, [], 100),
    {ok, <<"other">>} = file:read_file(Other),
    {ok, #file_info{type = regular}} = file:read_link_info(file(Config)),
    ok = no_other_link_is_replaced(file(Config)).

%% A link to nothing is replaced as well, and one to what is no file stays. Also report_SUITE's.
no_other_link_is_replaced(File) ->
    Link = fun(To) ->
               _ = file:delete(File, [raw]),
               ok = file:make_symlink(To, File)
           end,
    Write = fun() ->
                sonde_private_file:write(File, true, fun(_) -> {ok, sonde_snapshot_helper:pieces([], 100)} end)
            end,
    _ = [begin
             ok = Link(To),
             {To, {ok, _}} = {To, Write()},
             {ok, #file_info{type = regular}} = file:read_link_info(File)
         end || To <- ["nothing/of/this/name", filename:basename(File)]],
    _ = [begin
             ok = Link(To),
             {To, {error, Why}} = {To, Write()},
             {ok, To} = file:read_link(File)
         end || {To, Why} <- [{"/dev/null", eexist}, {"/proc/self/fd/1", eexist}, {"/proc/none", eexist}, {".", eisdir}]],
    file:delete(File, [raw]).

force_replaces_what_is_complete(Config) ->
    File = file(Config),
    ok = file:write_file(File, "old"),
    Old = fun() -> {ok, <<"old">>} = file:read_file(File), ok end,
    Failing = pieces_then(fun() -> ok = Old(), {error, busy} end),
    {error, busy} = sonde_private_file:write(File, true, Failing),
    ok = Old(),
    Good = pieces_then(fun() -> ok = Old(), {done, #{nodes => 1, edges => 0}} end),
    {ok, #{bytes := 3}} = sonde_private_file:write(File, true, Good),
    {ok, <<"new">>} = file:read_file(File),
    ["a.heapsnapshot"] = left(Config).

%% Returns some content, and then the result of Last.
pieces_then(Last) ->
    Ref = counters:new(1, []),
    fun(_) ->
            counters:put(Ref, 1, 0),
            {ok, fun() ->
                         counters:add(Ref, 1, 1),
                         case counters:get(Ref, 1) of
                             1 -> {data, [<<"ne">>, $w]};
                             _ -> Last()
                         end
                 end}
    end.

no_trace_of_what_failed(Config) ->
    File = file(Config),
    _ = [begin
             Answer = sonde_private_file:write(File, Force, fun(_) -> Answer end),
             Answer = sonde_private_file:write(File, Force, pieces_then(fun() -> Answer end)),
             [] = left(Config)
         end || Force <- [false, true],
                Answer <- [undefined, {error, busy}, {error, {heap_too_large, 2, 1}}]],
    Oops = fun() -> error(oops) end,
    _ = [begin
             oops = raised(fun() -> sonde_private_file:write(File, Force, Open) end),
             [] = left(Config)
         end || Force <- [false, true], Open <- [fun(_) -> Oops() end, pieces_then(Oops)]],
    ok.

no_trace_of_a_killed_caller(Config) ->
    _ = [begin
             {Caller, Helper} = midway(file(Config), Force),
             ok = sonde_test:stop(Caller),
             Helper ! {self(), go_on},
             ok = until(nothing_left, fun() -> left(Config) =:= [] end),
             ok = until(helper_gone, fun() -> not is_process_alive(Helper) end)
         end || Force <- [false, true]],
    ok.

no_trace_of_a_killed_helper(Config) ->
    _ = [begin
             {Caller, Helper} = midway(file(Config), Force),
             Ref = monitor(process, Caller),
             ok = sonde_test:stop(Helper),
             receive {'DOWN', Ref, process, Caller, killed} -> ok end,
             ok = until(nothing_left, fun() -> left(Config) =:= [] end)
         end || Force <- [false, true]],
    ok.

%% A half-written file; its helper waits for a message.
midway(File, Force) ->
    Test = self(),
    Wait = fun() ->
                   Test ! {midway, self()},
                   receive {Test, go_on} -> {data, "more"} end
           end,
    Caller = spawn(fun() -> exit(sonde_private_file:write(File, Force, pieces_then(Wait))) end),
    receive {midway, Helper} -> {Caller, Helper} end.

%% To a node that survives the signal, a limit on file size looks like a full disk.
no_trace_on_a_full_disk(Config) ->
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Limit = "trap '' XFSZ; ulimit -f 64; exec \"$0\" \"$@\"",
    {ok, Peer, _} = peer:start(#{connection => standard_io, wait_boot => 60000,
                                 exec => {"/bin/sh", ["-c", Limit, Erl]},
                                 args => ["-pa" | [filename:dirname(code:which(M))
                                                   || M <- [sonde, ?MODULE]]]}),
    _ = [begin
             {error, efbig} = peer:call(Peer, ?MODULE, write_much, [file(Config), Force]),
             [] = left(Config)
         end || Force <- [false, true]],
    ok = peer:stop(Peer).

write_much(File, Force) ->
    sonde_private_file:write(File, Force, fun(_) -> {ok, fun() -> {data, <<0:80000>>} end} end).

%% The error is that of file:open/2.
places_where_no_file_can_be(Config) ->
    In = fun(Name) -> filename:join(dir(Config), Name) end,
    ok = file:write_file(In("file"), ""),
    ok = file:make_dir(In("dir")),
    ok = file:make_symlink("loop", In("loop")),
    "" = os:cmd("mkfifo '" ++ In("pipe") ++ "'"),
    Long = lists:duplicate(300, $a),
    Never = fun(_) -> exit(opened) end,
    _ = [begin
             {error, Why} = sonde_private_file:write(In(Name), Force, Never),
             {error, Why} = sonde_heap:dump(self(), In(Name), #{force => Force})
         end || {Name, Whys} <- [{"none/a", [enoent, enoent]}, {"file/a", [enotdir, enotdir]},
                                 {"dir", [eexist, eisdir]}, {"loop/a", [eloop, eloop]},
                                 {"pipe", [eexist, eexist]}, {Long, [enametoolong, enametoolong]},
                                 {Long ++ "/a", [enametoolong, enametoolong]}],
                {Force, Why} <- lists:zip([false, true], Whys)],
    ["dir", "file", "loop", "pipe"] = left(Config).

bad_arguments(Config) ->
    File = file(Config),
    Self = self(),
    _ = [badarg = raised(fun() -> apply(sonde_heap, dump, Args) end)
         || Args <- [[Pid, File] || Pid <- [x, 17, "<0.1.0>", make_ref(), remote()]]
                ++ [[Self, Name] || Name <- [17, {a}, make_ref(), [a | 17], [-1], [$a, 0], <<0>>]]
                ++ [[Self, File, Opts]
                    || Opts <- [[], x, #{more => true}, #{force => 1}, #{values => undefined},
                                #{suspend => []}, #{progress => 0}, #{max_nodes => 0},
                                #{max_nodes => 1.0}, #{max_words => -1}, #{timeout => infinity}]]],
    _ = [badarg = raised(fun() -> sonde_heap:diff(A, B) end)
         || Name <- [17, {a}, self(), [a | 17], [$a, 0], <<"a", 0>>],
            {A, B} <- [{Name, File}, {File, Name}]],
    [] = left(Config).

%% A pid of another node, in the external format.
remote() ->
    Node = <<"other@host">>,
    binary_to_term(<<131, 88, 119, (byte_size(Node)), Node/binary, 1:32, 0:32, 1:32>>).

content_forbidden(Config) ->
    sonde_peer_helper:with(shipped, fun(Peer) ->
        [] = sonde_peer_helper:call(Peer, ?MODULE, forbidden_there, [Config])
    end).

forbidden_there(Config) ->
    ok = file:write_file(file(Config), ""),
    {error, eexist} = sonde_heap:dump(self(), file(Config), #{values => true}),
    ok = file:delete(file(Config)),
    _ = [begin
             ok = application:set_env(sonde, allow_content, Value),
             {error, content_forbidden} =
                 sonde_heap:dump(self(), file(Config), #{values => true, force => Force}),
             [] = left(Config),
             badarg = raised(fun() -> sonde_heap:dump(self(), file(Config),
                                                      #{values => true, force => x}) end)
         end || Value <- [false, no], Force <- [false, true]],
    ok = file:write_file(file(Config), ""),
    {error, eexist} = sonde_heap:dump(self(), file(Config), #{values => false}),
    ok = file:delete(file(Config)),
    left(Config).

%% No process and no message is left by a dump or a comparison.
helpers_are_gone(Config) ->
    File = file(Config),
    [] = helpers(),
    ok = sonde_test:no_message(fun() ->
        {ok, _} = write(File, false, roots(#{}), 10),
        {ok, _} = write(File, true, roots(#{}), 10),
        {error, busy} = sonde_private_file:write(File, true, pieces_then(fun() -> {error, busy} end)),
        [] = sonde_heap:diff(File, File)
    end),
    until(helpers_gone, fun() -> helpers() =:= [] end).

%% ---- what grew

growth_as_counted_plainly(Config) ->
    _ = [begin
             Before = sonde_snapshot_helper:random(Size, I),
             After = sonde_snapshot_helper:random(Size, I + 1000),
             {A, B} = {make(Config, "a", Before), make(Config, "b", After)},
             Expected = growth(sonde_snapshot_helper:sums(Before),
                               sonde_snapshot_helper:sums(After)),
             {I, Expected} = {I, lists:sort(sonde_heap:diff(A, B))},
             {I, []} = {I, sonde_heap:diff(B, B)}
         end || I <- lists:seq(1, 60), Size <- [I rem 10 + 1, 5 * I]],
    ok.

growth(Before, After) ->
    [{Path, Kind, C2 - C1, B2 - B1}
     || {Path, Kind} = Key <- lists:usort(maps:keys(Before) ++ maps:keys(After)),
        {C1, B1} <- [maps:get(Key, Before, {0, 0})],
        {C2, B2} <- [maps:get(Key, After, {0, 0})],
        {C1, B1} =/= {C2, B2}].

make(Config, Name, Nodes) ->
    File = filename:join(dir(Config), Name),
    ok = file:write_file(File, sonde_snapshot_helper:text(Nodes)),
    File.

%% A cache in the dictionary has grown: one row for the cells of its list, one for its tuples.
growth_as_one_wants_it(Config) ->
    A = make(Config, "a", cache(10)),
    B = make(Config, "b", cache(1010)),
    Growth = [{<<"dictionary / {key,cache} / head">>, <<"tuple/3">>, 1000, 32000},
              {<<"dictionary / {key,cache}">>, <<"cons">>, 1000, 16000},
              {<<"dictionary / {key,cache} / head / [2]">>, <<"float">>, 1000, 16000}],
    Growth = sonde_heap:diff(A, B),
    Shrunk = sonde_heap:diff(B, A),
    [] = Growth -- [{Path, Kind, -Count, -Bytes} || {Path, Kind, Count, Bytes} <- Shrunk],
    3 = length(Shrunk),
    [] = sonde_heap:diff(A, A).

%% A list of N tuples; its first cell is last in the file.
cache(N) ->
    Cell = fun(I) -> 3 * I + 3 end,
    roots(#{dictionary => [{property, "{key,cache}", Cell(N)}]})
        ++ lists:append([[{object, "cons", 100 + 3 * I, 16,
                           [{property, "head", Cell(I) + 1}]
                           ++ [{internal, "tail", Cell(I - 1)} || I > 1]},
                          {object, "tuple/3: {ok, 1}", 101 + 3 * I, 32,
                           [{element, 2, Cell(I) + 2}]},
                          {number, "float", 102 + 3 * I, 16, []}] || I <- lists:seq(1, N)]).

growth_first_and_shrinking_last(Config) ->
    Leaves = fun(Sizes) ->
                     Each = lists:zip(lists:seq(1, length(Sizes)), Sizes),
                     roots(#{stack => [{element, I, 5 + I} || {I, _} <- Each]})
                         ++ [{object, "tuple/" ++ integer_to_list(I), 10 + I, Size, []}
                             || {I, Size} <- Each]
             end,
    A = make(Config, "a", Leaves([8, 800, 16, 24, 0, 8])),
    B = make(Config, "b", Leaves([80, 8, 8, 24, 0, 888])),
    [{<<"stack / [6]">>, <<"tuple/6">>, 0, 880}, {<<"stack / [1]">>, <<"tuple/1">>, 0, 72},
     {<<"stack / [3]">>, <<"tuple/3">>, 0, -8}, {<<"stack / [2]">>, <<"tuple/2">>, 0, -792}] =
        sonde_heap:diff(A, B).

%% Up to 32 places are kept apart. The keys of a dictionary always are.
places_of_many_are_one(Config) ->
    Empty = make(Config, "empty", roots(#{})),
    Rows = fun(Name, Area, Edges) ->
                   Nodes = roots(#{Area => Edges})
                       ++ [{object, "tuple/1", 9 + I, 16, []} || I <- lists:seq(1, length(Edges))],
                   sonde_heap:diff(Empty, make(Config, Name, Nodes))
           end,
    Edges = fun(N, Type, Label) -> [{Type, Label(I), 5 + I} || I <- lists:seq(1, N)] end,
    Itself = fun(I) -> I end,
    32 = length(Rows("few", mailbox, Edges(32, element, Itself))),
    [{<<"mailbox / [_]">>, <<"tuple/1">>, 33, 528}] =
        Rows("many", mailbox, Edges(33, element, Itself)),
    100 = length(Rows("keys", dictionary, Edges(100, property, fun integer_to_list/1))),
    %% the keys of a nested map are not
    Map = fun(N) -> roots(#{stack => [{element, 0, 6}]})
                        ++ [{object, "map", 7, 8, [{property, integer_to_list(I), 6 + I}
                                                   || I <- lists:seq(1, N)]}]
                        ++ [{object, "tuple/1", 9 + I, 16, []} || I <- lists:seq(1, N)] end,
    33 = length(sonde_heap:diff(Empty, make(Config, "map32", Map(32)))),
    [{<<"stack / [0] / [_]">>, <<"tuple/1">>, 33, 528}, {<<"stack / [0]">>, <<"map">>, 1, 8}] =
        sonde_heap:diff(Empty, make(Config, "map33", Map(33))).

%% Nothing is lost if there are more paths or kinds than are kept apart.
many_paths_and_kinds(Config) ->
    Empty = make(Config, "empty", roots(#{})),
    N = 110000,
    Things = fun(Kind) -> [{object, Kind(I), 9 + I, 16, []} || I <- lists:seq(1, N)] end,
    Paths = make(Config, "paths",
                 roots(#{dictionary => [{property, "key" ++ integer_to_list(I), 5 + I}
                                        || I <- lists:seq(1, N)]}) ++ Things(fun(_) -> "map" end)),
    [{<<"dictionary">>, <<"map">>, Rest, RestBytes} | Told] = sonde_heap:diff(Empty, Paths),
    true = length(Told) > 60000,
    N = Rest + lists:sum([C || {_, <<"map">>, C, _} <- Told]),
    RestBytes = 16 * Rest,
    Kinds = make(Config, "kinds",
                 roots(#{stack => [{element, I, 5 + I} || I <- lists:seq(1, N)]})
                     ++ Things(fun(I) -> "kind" ++ integer_to_list(I) end)),
    [{<<"stack / [_]">>, <<"...">>, 10000, 160000} | Each] = sonde_heap:diff(Empty, Kinds),
    100000 = length(Each),
    N = 10000 + lists:sum([C || {<<"stack / [_]">>, _, C, 16} <- Each]).

%% A list of N elements is a path of that length. The heap limit kills a process that needs more
%% memory than a word or two for each element.
a_long_list_in_little_memory(Config) ->
    N = 150000,
    A = make(Config, "a", cache(1)),
    B = make(Config, "b", cache(N + 1)),
    [{_, <<"tuple/3">>, N, _}, {_, <<"cons">>, N, _}, {_, <<"float">>, N, _}] =
        sonde_peer_helper:with(shipped, ["+hmax", "2000000", "+hmaxel", "false"], fun(Peer) ->
            sonde_peer_helper:call(Peer, sonde_heap, diff, [A, B])
        end).

%% ---- files that are not dumps

%% The file is cut off anywhere, or has a changed byte, or is made up.
no_file_is_a_crash(Config) ->
    Text = iolist_to_binary(sonde_snapshot_helper:text(sonde_snapshot_helper:random(8, 3))),
    Good = make(Config, "good", sonde_snapshot_helper:random(8, 4)),
    Bad = filename:join(dir(Config), "bad"),
    Whole = byte_size(string:trim(Text, trailing)),
    _ = [begin
             ok = file:write_file(Bad, binary:part(Text, 0, Length)),
             {error, {bad_snapshot, {Bad, Why}}} = sonde_heap:diff(Bad, Good),
             {error, {bad_snapshot, {Bad, Why}}} = sonde_heap:diff(Good, Bad),
             true = is_atom(Why)
         end || Length <- lists:seq(0, Whole - 1)],
    _ = rand:seed(exsss, 5),
    _ = [begin
             At = rand:uniform(byte_size(Text)) - 1,
             <<Before:At/binary, _, After/binary>> = Text,
             New = element(rand:uniform(3), {rand:uniform(256) - 1, $0 - 1 + rand:uniform(10),
                                             lists:nth(rand:uniform(8), "[]{},\"\\ ")}),
             ok = file:write_file(Bad, [Before, New, After]),
             case sonde_heap:diff(Bad, Good) of
                 Rows when is_list(Rows) -> true = lists:all(fun is_row/1, Rows);
                 {error, {bad_snapshot, {Bad, Why}}} when is_atom(Why) -> ok
             end
         end || _ <- lists:seq(1, 2000)],
    ok.

is_row({Path, Kind, Count, Bytes}) ->
    is_binary(Path) andalso is_binary(Kind) andalso is_integer(Count) andalso is_integer(Bytes).

what_is_no_dump(Config) ->
    Good = make(Config, "good", roots(#{})),
    In = fun(Name) -> filename:join(dir(Config), Name) end,
    Why = fun(File) -> {error, {bad_snapshot, {File, W}}} = sonde_heap:diff(Good, File), W end,
    {error, enoent} = sonde_heap:diff(In("none"), Good),
    {error, enoent} = sonde_heap:diff(Good, In("none")),
    {error, eisdir} = sonde_heap:diff(Good, dir(Config)),
    "" = os:cmd("mkfifo '" ++ In("pipe") ++ "'"),
    not_a_file = Why(In("pipe")),
    Circle = roots(#{stack => [{element, 0, 6}]})
        ++ [{object, "a", 7, 8, []}, {object, "b", 8, 8, [{element, 0, 8}]},
            {object, "c", 9, 8, [{element, 0, 7}]}],
    cycle = Why(make(Config, "circle", Circle)),
    unreachable = Why(make(Config, "alone", roots(#{}) ++ [{object, "a", 7, 8, []}])),
    Text = iolist_to_binary(sonde_snapshot_helper:text(cache(5))),
    Changed = fun(From, To) ->
                      true = re:run(Text, From, [{capture, none}]) =:= match,
                      ok = file:write_file(In("changed"), re:replace(Text, From, To)),
                      Why(In("changed"))
              end,
    counts = Changed("\"node_count\":\\d+", "\"node_count\":999999999999"),
    counts = Changed("\"node_count\":\\d+", "\"node_count\":0"),
    header = Changed("\"node_count\":\\d+", "\"node_count\":1e3"),
    counts = Changed("\"edge_count\":\\d+", "\"edge_count\":18"),
    too_many = Changed("\"nodes\":\\[", "\"nodes\":[9,0,1,0,0,0,0,"),
    too_many = Changed("\"edges\":\\[", "\"edges\":[2,1,7,"),
    node_fields = Changed("\"self_size\",", ""),
    edge_types = Changed("\"weak\"", "\"week\""),
    no_number = Changed("16,", "-16,"),
    no_number = Changed("16,", "16.0,"),
    no_number = Changed("16,", "99999999999999999999999,"),
    edge = Changed("\"edges\":\\[2,\\d+,7", "\"edges\":[2,1,8"),
    edge = Changed("\"edges\":\\[2,\\d+,7", "\"edges\":[2,1,7000"),
    edge = Changed("\"edges\":\\[2,\\d+,7", "\"edges\":[17,1,7"),
    too_few = Changed("\"float\",\n[^]]*", "\"float\""),
    string = Changed("\"float\"", "\"\\\\x\""),
    As = binary:copy(<<"a">>, 2000000),
    Long = binary:replace(Text, <<"\"float\"">>, <<$", As/binary, $">>),
    ok = file:write_file(In("long"), Long),
    string = Why(In("long")).
