%% What processes wait at or run: stacks are those of process_info, each process counts once, and no
%% process that waits is sent anything.
-module(stacks_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 3}}].

all() ->
    [as_process_info_reports, equal_stacks_are_one_group, one_that_hibernates_has_none, one_that_hibernates_is_not_ours,
     as_deep_as_wanted, a_recursion_shows_once,
     a_name_only_for_one, the_caller_has_no_row, no_process_that_waits_is_sent_anything,
     one_that_runs_is_asked, a_silent_one_is_reported, no_time_is_reported, code_that_goes_away,
     several_threads_count_as_one, a_killed_caller_leaves_nothing, printed_with_the_stacks_last,
     lines_for_flame_graphs, a_flame_graph_has_the_counts, names_in_a_flame_graph_are_text, deeper_than_the_node_only_natively, bad_arguments].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

-define(ALL, 1000000).

%% ---- processes that wait in known functions

one(Up) -> Up ! {self(), here}, receive stop -> ok end.

two(Up) -> _ = one(Up), ok.

three(Up) -> ok = two(Up), done.

%% Waits that many calls deep; every other call comes from another place.
deep(0, Up) -> one(Up);
deep(N, Up) when N rem 2 =:= 0 -> [_] = [deep(N - 1, Up)], even;
deep(N, Up) -> {_} = {deep(N - 1, Up)}, odd.

recursion(0, Up) -> one(Up);
recursion(N, Up) -> [recursion(N - 1, Up)].

started(Count, Fun) ->
    Self = self(),
    Pids = [spawn(fun() -> Fun(Self) end) || _ <- lists:seq(1, Count)],
    _ = [receive {Pid, here} -> ok end || Pid <- Pids],
    ok = sonde_test:settle(Pids),
    Pids.

functions(Pid) ->
    {_, Trace} = process_info(Pid, current_stacktrace),
    [{M, F, A} || {M, F, A, _} <- Trace].

%% Processes of this stack, which must have one row.
count(Stack, Rows) ->
    case [N || {S, N, _} <- Rows, S =:= Stack] of
        [N] -> N;
        [] -> 0
    end.

%% ---- cases

as_process_info_reports(_Config) ->
    Pids = started(3, fun one/1) ++ started(2, fun three/1) ++ started(1, fun(Up) -> deep(4, Up) end),
    Stacks = lists:usort([functions(Pid) || Pid <- Pids]),
    3 = length(Stacks),
    true = lists:all(fun([First | _]) -> First =:= {?MODULE, one, 1} end, Stacks),
    Rows = sonde:stacks(?ALL),
    [3, 2, 1] = lists:reverse(lists:sort([count(Stack, Rows) || Stack <- Stacks])),
    ok = sonde_test:until(so_has_every_process_that_waits, fun() -> other_stacks() =:= [] end),
    sonde_test:stop(Pids).

%% Of processes that wait, each with a stack of its own; one may have moved meanwhile.
other_stacks() ->
    [Row || {Stack, 1, [{example, Pid} | _]} = Row <- sonde:stacks(?ALL),
            process_info(Pid, status) =:= {status, waiting}, functions(Pid) =/= Stack].

equal_stacks_are_one_group(_Config) ->
    Pids = started(500, fun two/1),
    Rows = sonde:stacks(?ALL),
    500 = count(functions(hd(Pids)), Rows),
    [{example, Example}, {initial_call, {erlang, apply, 2}}] =
        hd([Attrs || {Stack, 500, Attrs} <- Rows, Stack =:= functions(hd(Pids))]),
    true = lists:member(Example, Pids),
    Counts = [N || {_, N, _} <- Rows],
    Counts = lists:reverse(lists:sort(Counts)),
    [_, _] = sonde:stacks(2),
    [] = sonde:stacks(0),
    sonde_test:stop(Pids).

%% Its program counter is in no function of a module.
one_that_hibernates_has_none(_Config) ->
    Pids = [spawn(fun() -> erlang:hibernate(?MODULE, spin, []) end) || _ <- [1, 2, 3]],
    ok = sonde_test:settle(Pids),
    [] = functions(hd(Pids)),
    [[{example, Example} | _]] = [Attrs || {[], N, Attrs} <- sonde:stacks(?ALL), N >= 3],
    true = lists:member(Example, Pids) orelse functions(Example) =:= [],
    _ = [true = exit(Pid, kill) || Pid <- Pids],
    ok.

%% Of a process without a stack it is not known whether it has run: what a user's function started has a row.
one_that_hibernates_is_not_ours(_Config) ->
    Parent = sonde_helper:aside(fun(Test) ->
                                        Test ! {child, proc_lib:spawn(erlang, hibernate, [?MODULE, spin, []])},
                                        receive never -> ok end
                                end, self()),
    Child = receive {child, Pid} -> Pid end,
    ok = sonde_test:settle([Child]),
    Hibernated = fun() -> lists:sum([N || {[], N, _} <- sonde:stacks(?ALL)]) end,
    With = Hibernated(),
    true = With > 0,
    Others = [P || P <- processes(), P =/= Child, functions(P) =:= []],
    {_, _, true} = {With, length(Others), With > length(Others)},
    sonde_test:stop([Parent, Child]).

as_deep_as_wanted(_Config) ->
    [Pid] = Pids = started(1, fun(Up) -> deep(30, Up) end),
    Whole = functions(Pid),
    8 = length(Whole),
    _ = [1 = count(lists:sublist(Whole, Depth), sonde:stacks(?ALL, #{depth => Depth}))
         || Depth <- lists:seq(2, 8)],
    [{?MODULE, one, 1}] = [S || {[{?MODULE, one, 1} = S], 1, _} <- sonde:stacks(?ALL, #{depth => 1})],
    sonde_test:stop(Pids).

a_recursion_shows_once(_Config) ->
    [Pid] = Pids = started(1, fun(Up) -> recursion(1000, Up) end),
    [{?MODULE, one, 1}, {?MODULE, recursion, 2} | Rest] = Whole = functions(Pid),
    true = length([F || {?MODULE, recursion, 2} = F <- Rest]) =< 1,
    1 = count(Whole, sonde:stacks(?ALL)),
    sonde_test:stop(Pids).

a_name_only_for_one(_Config) ->
    [Alone] = started(1, fun three/1),
    true = register(stacks_alone, Alone),
    [First | _] = Others = started(2, fun one/1),
    true = register(stacks_first, First),
    Rows = sonde:stacks(?ALL),
    [[{example, Alone}, stacks_alone, {initial_call, _}]] =
        [Attrs || {Stack, 1, Attrs} <- Rows, Stack =:= functions(Alone)],
    [[{example, _}, {initial_call, _}]] =
        [Attrs || {Stack, 2, Attrs} <- Rows, Stack =:= functions(First)],
    sonde_test:stop([Alone | Others]).

%% Nor any process of sonde.
the_caller_has_no_row(_Config) ->
    Rows = sonde:stacks(?ALL),
    [] = [Row || {_, _, [{example, Pid} | _]} = Row <- Rows, Pid =:= self()],
    [] = [Row || {Stack, _, _} = Row <- Rows, {M, _, _} <- Stack,
                 M =:= sonde_stacks orelse M =:= sonde_helper].

no_process_that_waits_is_sent_anything(_Config) ->
    natively(fun() ->
                     Pids = started(200, fun two/1),
                     Reds = fun() -> [process_info(Pid, reductions) || Pid <- Pids] end,
                     Before = Reds(),
                     _ = [sonde:stacks(10) || _ <- lists:seq(1, 20)],
                     Before = Reds(),
                     [] = sonde_test:mailbox(),
                     sonde_test:stop(Pids)
             end).

spin() -> spin().

%% Alone on a scheduler, it runs at nearly each look, and answers, or on a busy machine answers too late.
one_that_runs_is_asked(_Config) ->
    Pid = spawn(fun spin/0),
    Seen = [begin
                {Rows, #{missed := #{pids := Missed}}} = sonde:stacks(?ALL, #{report => true}),
                {count([{?MODULE, spin, 0}], Rows), lists:member({Pid, timeout}, Missed)}
            end || _ <- lists:seq(1, 30)],
    true = exit(Pid, kill),
    [] = Seen -- [S || S <- Seen, S =:= {1, false} orelse S =:= {0, true}],
    true = lists:member({1, false}, Seen).

%% In a long native call it neither rests nor answers.
a_silent_one_is_reported(Config) ->
    natively(fun() ->
                     {Pid, _} = Blocked = sonde_test:block(proplists:get_value(priv_dir, Config)),
                     {Rows, Report} = sonde:stacks(?ALL, #{report => true}),
                     Seen = [P || {_, 1, [{example, P} | _]} <- Rows, P =:= Pid],
                     #{left_out := Left, missed := #{pids := Missed}} = Report,
                     %% a process in a dirty call may be answered for by the VM
                     true = Seen =:= [Pid] orelse (Left >= 1 andalso lists:member({Pid, timeout}, Missed)),
                     ok = sonde_test:unblock(Blocked),
                     sonde_test:stop(Pid)
             end).

no_time_is_reported(_Config) ->
    {Rows, #{left_out := Left}} = sonde:stacks(10, #{report => true, timeout => 0}),
    true = Rows =:= [] andalso Left > 10 andalso Left =< length(processes()).

%% A module is loaded, waited in, replaced, and purged, while others look: all names are right, or the
%% functions are left out.
code_that_goes_away(_Config) ->
    Forms = [{attribute, 1, module, stacks_gone}, {attribute, 1, export, [{wait, 1}]},
             {function, 1, wait, 1,
              [{clause, 1, [{var, 1, 'Up'}], [],
                [{op, 1, '!', {var, 1, 'Up'}, {tuple, 1, [{call, 1, {atom, 1, self}, []}, {atom, 1, here}]}},
                 {'receive', 1, [{clause, 1, [{atom, 1, stop}], [], [{atom, 1, ok}]}]}]}]}],
    {ok, stacks_gone, Beam} = compile:forms(Forms),
    natively(fun() ->
                     Callers = sonde_test:churn(2, fun() -> [_ | _] = sonde:stacks(50) end),
                     _ = [waited_in(Beam) || _ <- lists:seq(1, 20)],
                     sonde_test:stop(Callers)
             end).

waited_in(Beam) ->
    {module, stacks_gone} = code:load_binary(stacks_gone, "stacks_gone", Beam),
    [Pid] = started(1, fun(Up) -> apply(stacks_gone, wait, [Up]) end),
    [[{stacks_gone, wait, 1} | _]] = stacks_of(Pid),
    true = code:delete(stacks_gone),
    [[{stacks_gone, wait, 1} | _]] = stacks_of(Pid),
    true = code:purge(stacks_gone).

stacks_of(Pid) ->
    [Stack || {Stack, 1, [{example, P} | _]} <- sonde:stacks(?ALL), P =:= Pid].

several_threads_count_as_one(_Config) ->
    Pids = started(300, fun one/1) ++ started(200, fun three/1),
    Counts = fun(Opts) ->
                     Rows = sonde:stacks(?ALL, Opts),
                     [count(functions(Pid), Rows) || Pid <- [hd(Pids), lists:last(Pids)]]
             end,
    _ = [[300, 200] = Counts(#{threads => Threads}) || Threads <- [1, 2, 3, 8]],
    sonde_test:stop(Pids).

a_killed_caller_leaves_nothing(_Config) ->
    Before = length(processes()),
    _ = [begin
             Pid = spawn(fun() -> [sonde:stacks(10) || _ <- lists:seq(1, 1000)] end),
             timer:sleep(rand:uniform(10)),
             exit(Pid, kill)
         end || _ <- lists:seq(1, 50)],
    sonde_test:until(gone, fun() -> length(processes()) =< Before end).

printed_with_the_stacks_last(Config) ->
    Pids = started(700, fun three/1),
    File = filename:join(proplists:get_value(priv_dir, Config), "printed"),
    {ok, Device} = file:open(File, [write]),
    ok = sonde_print:print([Row || {_, 700, _} = Row <- sonde:stacks(10)],
                           #{width => 200, device => Device}),
    ok = file:close(Device),
    {ok, Text} = file:read_file(File),
    {match, _} = re:run(Text, "processes +example +stack\n +700 +<[0-9.]+> +stacks_SUITE:one/1 < "
                        ".*stacks_SUITE:three/1\n"),
    sonde_test:stop(Pids).

lines_for_flame_graphs(_Config) ->
    "b:g/1;a:f/0 7\n'x:y':z/2 1\n(none) 3\n" =
        unicode:characters_to_list(
          sonde_stacks:collapsed([{[{a, f, 0}, {b, g, 1}], 7, []}, {[{'x;y', z, 2}], 1, []},
                                  {[], 3, []}])).

%% Each function is as wide as the number of processes in it, and stands on the one that called it.
a_flame_graph_has_the_counts(_Config) ->
    Rows = [{[{a, g, 0}, {a, f, 1}], 600, []}, {[{b, h, 0}, {a, f, 1}], 250, []}, {[{a, f, 1}], 50, []},
            {[{c, i, 2}], 95, []}, {[], 5, []}],
    All = frames(sonde_stacks:flame(Rows)),
    [<<"(none)">>, <<"a:f/1">>, <<"a:g/0">>, <<"all">>, <<"b:h/0">>, <<"c:i/2">>] = lists:sort([Name || {Name, _, _, _, _} <- All]),
    {_, 1000, Left, Bottom, Whole} = lists:keyfind(<<"all">>, 1, All),
    _ = [begin
             {Name, Count, X, _, Width} = lists:keyfind(Name, 1, All),
             {Name, true} = {Name, abs(Width / Whole - Count / 1000) < 0.0005},
             {Name, true} = {Name, X >= Left - 0.01 andalso X + Width =< Left + Whole + 0.01}
         end || {Name, Count} <- [{<<"a:f/1">>, 900}, {<<"a:g/0">>, 600}, {<<"b:h/0">>, 250}, {<<"c:i/2">>, 95}]],
    %% those that it called are above it, within it, and beside each other
    {_, _, Fx, Fy, Fw} = lists:keyfind(<<"a:f/1">>, 1, All),
    {_, _, Gx, Gy, Gw} = lists:keyfind(<<"a:g/0">>, 1, All),
    {_, _, Hx, Gy, Hw} = lists:keyfind(<<"b:h/0">>, 1, All),
    true = Gy < Fy andalso Fy < Bottom,
    true = Gx >= Fx - 0.01 andalso Hx + Hw =< Fx + Fw + 0.01,
    true = abs(Gx + Gw - Hx) < 0.011,
    %% of several nodes each has its own
    [<<"a@h">>, <<"all">>, <<"b@h">>, <<"c:i/2">>, <<"c:i/2">>] =
        lists:sort([Name || {Name, _, _, _, _} <- frames(sonde_stacks:flame([{Node, {[{c, i, 2}], 4, []}} || Node <- ["a@h", "b@h"]]))]),
    [] = frames(sonde_stacks:flame([])).

frames(Svg) ->
    {match, Found} =
        case re:run(unicode:characters_to_binary(Svg),
                    "<g><title>([^<]*): ([0-9,]+) process(?:es)?, [0-9.]+%</title>"
                    "<rect x=\"([0-9.]+)\" y=\"([0-9]+)\" width=\"([0-9.]+)\"",
                    [global, {capture, all_but_first, binary}]) of
            nomatch -> {match, []};
            Match -> Match
        end,
    [{Name, binary_to_integer(binary:replace(Count, <<",">>, <<>>, [global])), binary_to_float(X), binary_to_integer(Y),
      binary_to_float(Width)} || [Name, Count, X, Y, Width] <- Found].

%% Nothing of a name becomes a part of the picture.
names_in_a_flame_graph_are_text(_Config) ->
    Names = ['<script>alert(1)</script>', 'a"b\'c&d', list_to_atom([16#20AC, 1, 127]), 'Elixir.My.App', 'x]]>y'],
    Svg = unicode:characters_to_binary(sonde_stacks:flame([{[{Name, f, 1}], 10, []} || Name <- Names])),
    true = is_binary(Svg),
    nomatch = re:run(Svg, "<script|href|onload|<style|<foreignObject", [caseless]),
    nomatch = re:run(Svg, "[\\x00-\\x09\\x0b-\\x1f\\x7f]"),
    %% all that is left are our own elements
    {match, Tags} = re:run(Svg, "<(/?[a-zA-Z]+)", [global, {capture, all_but_first, list}]),
    ["/g", "/svg", "/text", "/title", "g", "rect", "svg", "text", "title"] = lists:usort(lists:append(Tags)),
    Count = fun(Tag) -> length([T || [T] <- Tags, T =:= Tag]) end,
    _ = [{Tag, true} = {Tag, Count(Tag) =:= Count("/" ++ Tag)} || Tag <- ["g", "svg", "text", "title"]],
    nomatch = re:run(Svg, "&(?!(lt|gt|amp|quot|#39);)"),
    {match, _} = re:run(Svg, "My\\.App\\.f/1: 10 processes").

%% Else the portable path would show other stacks.
deeper_than_the_node_only_natively(_Config) ->
    [Pid] = Pids = started(1, fun(Up) -> deep(30, Up) end),
    case sonde_test:side() of
        native ->
            [Stack] = [S || {S, 1, [{example, P} | _]} <- sonde:stacks(?ALL, #{depth => 64}), P =:= Pid],
            true = length(Stack) > 30 andalso lists:prefix(functions(Pid), Stack);
        portable ->
            {native_off, _} = try sonde:stacks(?ALL, #{depth => 9}) catch error:Why -> Why end
    end,
    sonde_test:stop(Pids).

bad_arguments(_Config) ->
    _ = [{Args, badarg} = {Args, try apply(sonde, stacks, Args) catch error:Why -> Why end}
         || Args <- [[-1], [x], [1.0], [1, []], [1, #{timeout => -1}], [1, #{report => 1}],
                     [1, #{threads => 0}], [1, #{depth => 0}], [1, #{depth => 65}],
                     [1, #{depth => all}], [1, #{self => true}]]],
    ok.

natively(Fun) ->
    case sonde_test:side() of
        native -> Fun();
        portable -> {skip, "the portable path asks each process"}
    end.
