%% Which processes wait for which: a look sees every call, at whatever place it waits, and disturbs none.
-module(waits_SUITE).

-compile([export_all, nowarn_export_all]).
-import(sonde_server_helper, [server/1]).

suite() -> [{timetrap, {minutes, 3}}].

all() ->
    [a_chain_ends_with_the_culprit, one_of_many_monitors, every_place_counts, at_rest_it_does_not_wait,
     a_circle_is_a_deadlock, a_circle_that_moves_is_none, nobody_is_sent_anything,
     calls_of_another_node, like_reachability, the_rows_of_n, unread_ones_are_reported, no_time_is_reported,
     its_helpers_have_no_row, helpers_that_have_not_begun_have_no_row, those_kept_are_evenly_spread,
     a_killed_caller_leaves_nothing, bad_arguments].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% A server may answer its callers in the order in which they are seen, so the first ones would not do.
those_kept_are_evenly_spread(_Config) ->
    _ = [begin
             Graph = lists:foldl(fun(I, G) -> sonde_wait_graph:add(I, server, G) end, sonde_wait_graph:new(),
                                 lists:seq(0, N - 1)),
             N = sonde_wait_graph:direct(server, Graph),
             [0 | Rest] = Kept = lists:sort(sonde_wait_graph:some(server, Graph)),
             [Apart] = lists:usort([B - A || {A, B} <- lists:zip(lists:droplast(Kept), Rest)]),
             {N, true} = {N, length(Kept) >= min(N, 16) andalso length(Kept) < 32 andalso N - lists:last(Kept) =< Apart}
         end || N <- [2, 16, 31, 32, 33, 62, 63, 64, 1000, 100000]],
    ok.

%% ---- processes that wait

caller(Pid) -> spawn(fun() -> gen_server:call(Pid, go, infinity) end).

stop(Pids) -> sonde_test:stop(Pids).

%% The rows of these processes, when as many wait as should.
rows(Pids, Waiters) ->
    sonde_test:until(Waiters, fun() ->
                                      Rows = [Row || {Pid, _, _} = Row <- sonde:waits(1000000),
                                                     lists:member(Pid, Pids)],
                                      lists:sum([N || {_, N, _} <- Rows]) =:= Waiters
                              end),
    [Row || {Pid, _, _} = Row <- sonde:waits(1000000), lists:member(Pid, Pids)].

of_row(Key, {_, _, Attrs}) -> proplists:get_value(Key, Attrs).

%% ---- cases

a_chain_ends_with_the_culprit(_Config) ->
    End = server(none),
    Middle = server(End),
    true = register(waits_middle, Middle),
    Callers = [caller(Middle) || _ <- lists:seq(1, 300)],
    [{End, 301, _} = First, {Middle, 300, Attrs} = Second] = rows([End, Middle], 601),
    [Caller, Middle, End] = of_row(longest_chain, First),
    [_, Middle] = of_row(longest_chain, Second),
    true = lists:member(Caller, Callers),
    [{longest_chain, _}, waits_middle | _] = Attrs,
    {1, 300} = {of_row(direct, First), of_row(direct, Second)},
    {undefined, End} = {of_row(waits_for, First), of_row(waits_for, Second)},
    {undefined, undefined} = {of_row(deadlock, First), of_row(deadlock, Second)},
    299 = of_row(message_queue_len, Second),
    stop([End, Middle | Callers]).

%% A pool's owner, say, monitors its clients all the time, and calls somebody now.
one_of_many_monitors(_Config) ->
    Others = [server(none) || _ <- lists:seq(1, 20)],
    Servers = [server(none) || _ <- lists:seq(1, 3)],
    Callers = [spawn(fun() ->
                             _ = [monitor(process, Pid) || Pid <- Others ++ Servers],
                             _ = [link(Pid) || Pid <- tl(Others)],
                             _ = gen_server:send_request(hd(Others), go),
                             gen_server:call(Server, go, infinity)
                     end) || Server <- Servers, _ <- lists:seq(1, 10)],
    Rows = rows(Servers, 30),
    [10, 10, 10] = [N || {_, N, _} <- Rows],
    [] = [Row || {Pid, _, _} = Row <- sonde:waits(1000000), lists:member(Pid, Others)],
    stop(Callers ++ Others ++ Servers).

%% Each place that is claimed, as the code of this release has it; also with a time limit.
every_place_counts(_Config) ->
    Silent = sonde_test:hold(fun() -> ok end),
    Ways = [Place || {Module, _, _} = Place <- sonde_waits:places(), Module =/= proc_lib]
        ++ [{gen, [do_call], fun(Pid) -> gen_server:call(Pid, go, 100000) end},
            {gen, [do_call], fun(Pid) -> gen_statem:call(Pid, go) end},
            {gen, [do_call], fun(Pid) -> gen_event:call(Pid, some, go, 100000) end},
            {io, [execute_request], fun(Pid) -> io:get_line(Pid, "") end},
            {gen, [wait_response], fun(Pid) ->
                                         gen_server:wait_response(gen_server:send_request(Pid, go), 100000)
                                 end},
            {gen, [receive_response], fun(Pid) ->
                                            Request = gen_statem:send_request(Pid, go),
                                            gen_statem:receive_response(Request, 100000)
                                    end}],
    Callers = [spawn(fun() -> Come(Silent) end) || {_, _, Come} <- Ways],
    N = length(Callers),
    [{Silent, N, _}] = rows([Silent], N),
    [] = [{Place, Is} || {{Module, Functions, _} = Place, Pid} <- lists:zip(Ways, Callers),
                         {_, {M, F, _}} = Is <- [process_info(Pid, current_function)],
                         M =/= Module orelse not lists:member(F, Functions)],
    %% what they start answers nothing, until Silent ends
    Starters = [spawn(fun() -> Start(Silent) end)
                || Start <- [Come || {proc_lib, _, Come} <- sonde_waits:places()]
                       ++ [fun(Pid) -> proc_lib:start_link(?MODULE, starts, [Pid], 100000) end,
                           fun(Pid) -> proc_lib:start(?MODULE, starts, [Pid], 100000) end]],
    Children = fun() -> [Child || Pid <- Starters,
                                  {Child, 1, Attrs} <- sonde:waits(1000000),
                                  proplists:get_value(longest_chain, Attrs) =:= [Pid, Child]] end,
    sonde_test:until(started, fun() -> length(Children()) =:= length(Starters) end),
    stop([Silent | Callers ++ Starters]).

starts(Pid) ->
    Ref = monitor(process, Pid),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

%% It monitors somebody, and keeps the reference; but it waits for anybody.
at_rest_it_does_not_wait(_Config) ->
    Server = server(none),
    Resting = [spawn(fun() -> resting(monitor(process, Server), Server) end) || _ <- lists:seq(1, 50)],
    ok = sonde_test:settle(Resting),
    [] = [Row || {Pid, _, _} = Row <- sonde:waits(1000000), Pid =:= Server],
    Suspended = caller(Server),
    _ = rows([Server], 1),
    true = erlang:suspend_process(Suspended),
    [] = [Row || {Pid, _, _} = Row <- sonde:waits(1000000), Pid =:= Server],
    stop([Server, Suspended | Resting]).

resting(Ref, Pid) ->
    receive
        {'DOWN', Ref, process, Pid, Why} -> exit(Why);
        {get, From} -> From ! Ref, resting(Ref, Pid)
    end.

%% Three servers that call each other, and others that call them.
a_circle_is_a_deadlock(_Config) ->
    [A, B, C] = Circle = [server(none) || _ <- [1, 2, 3]],
    _ = [gen_server:cast(Pid, {call, Next}) || {Pid, Next} <- [{A, B}, {B, C}, {C, A}]],
    Before = server(A),
    Caller = caller(Before),
    [{_, 4, _}, {_, 4, _}, {_, 4, _}, {Before, 1, _}] = Rows = rows([Before | Circle], 13),
    _ = [begin
             Row = {_, 4, _} = lists:keyfind(Pid, 1, Rows),
             Others = of_row(deadlock, Row),
             Next = of_row(waits_for, Row),
             {Next, Pid} = {hd(Others), lists:last(Others)},
             true = lists:sort(Circle) =:= lists:sort(Others)
         end || Pid <- Circle],
    [Caller, Before, A, B, C] = of_row(longest_chain, lists:keyfind(C, 1, Rows)),
    undefined = of_row(deadlock, lists:keyfind(Before, 1, Rows)),
    stop([Before, Caller | Circle]).

%% Two that call each other in turn: each waits for the other, but never both at one moment.
a_circle_that_moves_is_none(_Config) ->
    Pairs = [begin
                 A = spawn(fun() -> receive B -> in_turn(B, called) end end),
                 B = spawn(fun() -> in_turn(A, calls) end),
                 A ! B,
                 [A, B]
             end || _ <- lists:seq(1, 20)],
    Seen = [Row || _ <- lists:seq(1, 60), Row <- sonde:waits(1000000)],
    [] = [Row || Row <- Seen, of_row(deadlock, Row) =/= undefined],
    true = [] =/= [Pid || {Pid, _, _} <- Seen, lists:member(Pid, lists:append(Pairs))],
    stop(lists:append(Pairs)).

in_turn(Other, calls) ->
    {ok, ok} = gen:call(Other, '$gen_call', go, infinity),
    in_turn(Other, called);
in_turn(Other, called) ->
    receive {'$gen_call', From, go} -> gen:reply(From, ok) end,
    in_turn(Other, calls).

%% A signal would make them run, and so would a message.
nobody_is_sent_anything(_Config) ->
    [A, B] = [server(none) || _ <- [1, 2]],
    _ = [gen_server:cast(Pid, {call, Next}) || {Pid, Next} <- [{A, B}, {B, A}]],
    Callers = [caller(A) || _ <- lists:seq(1, 100)],
    _ = rows([A, B], 202),
    Pids = [A, B | Callers],
    Before = [process_info(Pid, [reductions, message_queue_len]) || Pid <- Pids],
    _ = [[_, _ | _] = sonde:waits(10) || _ <- lists:seq(1, 50)],
    Before = [process_info(Pid, [reductions, message_queue_len]) || Pid <- Pids],
    [] = [Message || {messages, Messages} <- [process_info(self(), messages)], Message <- Messages],
    stop(Pids).

%% A process of another node has no row; the number of those that wait for one is reported.
calls_of_another_node(_Config) ->
    sonde_peer_helper:with_nodes(2, fun([{Peer, _}, {Other, Node}]) ->
        Server = sonde_peer_helper:call(Other, sonde_server_helper, server, [none]),
        true = sonde_peer_helper:call(Peer, net_kernel, connect_node, [Node]),
        Local = sonde_peer_helper:call(Peer, sonde_server_helper, server, [none]),
        Callers = [sonde_peer_helper:call(Peer, ?MODULE, caller, [Server]) || _ <- lists:seq(1, 5)],
        sonde_test:until(remote, fun() ->
                                         lists:keymember(5, 2, sonde_peer_helper:call(Peer, sonde, waits, [0]))
                                 end),
        [{remote, 5, [{longest_chain, [One, remote]}, {direct, 5}]}]
            = sonde_peer_helper:call(Peer, sonde, waits, [10]),
        true = lists:member(One, Callers),
        %% some of them hold up others
        Through = sonde_peer_helper:call(Peer, sonde_server_helper, server, [Server]),
        _ = [sonde_peer_helper:call(Peer, ?MODULE, caller, [Pid]) || Pid <- [Through, Through, Local]],
        sonde_test:until(through, fun() ->
                                          lists:keymember(8, 2, sonde_peer_helper:call(Peer, sonde, waits, [0]))
                                  end),
        [{Through, 2, Attrs}, {Local, 1, _}, {remote, 8, _}]
            = sonde_peer_helper:call(Peer, sonde, waits, [10]),
        remote = proplists:get_value(waits_for, Attrs)
    end).

%% Any graph in which each process waits for one other at most: the waiters of a process are those
%% from which it can be reached, and no chain is longer than the longest.
like_reachability(_Config) ->
    _ = [like_reachability(rand:uniform(12), rand:uniform(4)) || _ <- lists:seq(1, 300)],
    ok.

like_reachability(Size, Idle) ->
    Pids = [list_to_pid(lists:flatten(io_lib:format("<0.~b.0>", [100 + I]))) || I <- lists:seq(1, Size)],
    Edges = [{Pid, For} || Pid <- Pids, rand:uniform(Idle + 1) > 1,
                           For <- [lists:nth(rand:uniform(Size), Pids)], For =/= Pid],
    Added = lists:foldl(fun({Pid, For}, Acc) -> sonde_wait_graph:add(Pid, For, Acc) end,
                        sonde_wait_graph:new(), Edges),
    Graph = sonde_wait_graph:with_next(maps:from_list(Edges), Added),
    Reaching = fun(For) -> [Pid || Pid <- Pids, Pid =/= For, lists:member(For, way(Pid, Edges))] end,
    Expected = [{For, length(Reaching(For))} || For <- Pids, Reaching(For) =/= []],
    {Edges, true} = {Edges, Expected =:= lists:sort(sonde_wait_graph:totals(Graph))},
    _ = [begin
             Chain = sonde_wait_graph:chain(For, Graph),
             Longest = lists:max([steps(Pid, For, Edges) || Pid <- Reaching(For)]),
             {Edges, For, Longest, For} = {Edges, For, length(Chain) - 1, lists:last(Chain)},
             {Edges, true} = {Edges, lists:all(fun(Edge) -> lists:member(Edge, Edges) end,
                                               lists:zip(lists:droplast(Chain), tl(Chain)))},
             OnCircle = lists:member(For, way(For, Edges)),
             {Edges, OnCircle} = {Edges, sonde_wait_graph:circle(For, Graph) =/= undefined}
         end || {For, _} <- Expected],
    ok.

%% All that are reached from it, itself only if it is on a circle.
way(Pid, Edges) -> way(Pid, Edges, []).

way(Pid, Edges, Seen) ->
    case lists:keyfind(Pid, 1, Edges) of
        {_, For} -> case lists:member(For, Seen) of
                        true -> Seen;
                        false -> way(For, Edges, [For | Seen])
                    end;
        false -> Seen
    end.

steps(For, For, _) -> 0;
steps(Pid, For, Edges) ->
    {_, Next} = lists:keyfind(Pid, 1, Edges),
    1 + steps(Next, For, Edges).

the_rows_of_n(_Config) ->
    Servers = [server(none) || _ <- lists:seq(1, 5)],
    Callers = [caller(Pid) || {N, Pid} <- lists:enumerate(Servers), _ <- lists:seq(1, N * 10)],
    All = rows(Servers, 150),
    [50, 40, 30, 20, 10] = [N || {_, N, _} <- All],
    [] = [Row || {Pid, _, _} = Row <- sonde:waits(0), is_pid(Pid)],
    [{_, 50, _}, {_, 40, _}] = [Row || {Pid, _, _} = Row <- sonde:waits(2), is_pid(Pid)],
    {[{_, 50, _} | _], #{missed := #{pids := Missed}}} = sonde:waits(1, #{report => true}),
    [] = [Pid || {Pid, _} <- Missed, lists:member(Pid, Servers ++ Callers)],
    stop(Servers ++ Callers).

%% A suspended process cannot be read, so the report has it.
unread_ones_are_reported(_Config) ->
    Server = server(none),
    [Held | _] = Callers = [caller(Server) || _ <- lists:seq(1, 3)],
    _ = rows([Server], 3),
    true = erlang:suspend_process(Held),
    {Rows, #{left_out := Left, busy := Busy, missed := #{pids := Missed}}} =
        sonde:waits(1000, #{report => true}),
    true = erlang:resume_process(Held),
    {Server, 2, _} = lists:keyfind(Server, 1, Rows),
    {Held, busy} = lists:keyfind(Held, 1, Missed),
    true = Left >= Busy andalso Busy >= 1,
    stop([Server | Callers]).

%% A process that was not looked at is counted.
no_time_is_reported(_Config) ->
    Before = length(processes()),
    {_, #{left_out := Left, missed := #{count := Left, pids := Pids}}} = sonde:waits(1, #{report => true, timeout => 0}),
    %% others may have come, but those that such a call starts are not among them
    true = Left > 10 andalso Left =< max(Before, length(processes())),
    [_ | _] = Pids,
    [] = [Why || {_, Why} <- Pids, Why =/= timeout],
    ok.

%% A call brings helpers to each place in the code that counts; other calls do not see them meanwhile.
its_helpers_have_no_row(_Config) ->
    Counted = fun() -> lists:sum([N || {_, N, _} <- sonde:proc_group(initial_call, [memory])]) end,
    Before = Counted(),
    Callers = [spawn(fun Loop() -> _ = sonde:waits(1), Loop() end) || _ <- [1, 2]],
    Calls = [fun() -> sonde:proc_count(memory, 100000) end, fun() -> sonde:proc_count(current_function, 100000) end,
             fun() -> sonde:proc_window(memory, 100000, 1) end, fun() -> sonde:bin_leak(100000) end,
             fun() -> sonde:proc_count(garbage_bytes, 100000) end],
    Functions = [current_function, initial_call, registered_name],
    try
        [{_, []} = {Call, [Row || {_, _, As} = Row <- Call(), is_list(As), is_of_a_call(proplists:get_value(current_function, As))]}
         || _ <- lists:seq(1, 20), Call <- Calls],
        [{_, []} = {By, [Key || {Key, _, _} <- sonde:proc_group(By, [memory]), is_of_a_call(Key)]}
         || _ <- lists:seq(1, 20), By <- Functions],
        %% the three helpers that proc_lib starts would be in the group of their first call
        true = lists:min([Counted() || _ <- lists:seq(1, 20)]) =< Before + length(Callers),
        true = lists:sum([Counted() || _ <- lists:seq(1, 100)]) =< 100 * (Before + length(Callers) + 1),
        [[] = [Stack || {[First | _] = Stack, _, _} <- sonde:stacks(100000), is_of_a_call(First)] || _ <- lists:seq(1, 50)],
        ok
    after
        stop(Callers)
    end.

%% Before its first turn, only its parent tells what a child of proc_lib is.
helpers_that_have_not_begun_have_no_row(_Config) ->
    {_, _, Start} = lists:keyfind([sync_start], 2, sonde_waits:places()),
    Helper = sonde_helper:aside(Start, self()),
    Other = spawn(fun() -> Start(self()) end),
    NotBegun = {proc_lib, init_p, 5},
    try
        [true, false] = [sonde_attr:is_ours(child(Parent), NotBegun, NotBegun) || Parent <- [Helper, Other]],
        false = sonde_attr:is_ours(child(Helper), NotBegun, {proc_lib, init_p_do_apply, 3}),
        false = sonde_attr:is_ours(whereis(init), NotBegun, NotBegun)
    after
        stop([Helper, Other])
    end.

child(Parent) ->
    Children = fun() -> [Pid || Pid <- processes(), process_info(Pid, parent) =:= {parent, Parent}] end,
    sonde_test:until(child, fun() -> Children() =/= [] end),
    hd(Children()).

is_of_a_call({sonde, helper, 1}) -> true;
is_of_a_call({sonde_waits, Function, _}) -> Function =:= hold;
is_of_a_call({sonde_nif, scan_step, _}) -> true;
is_of_a_call({proc_lib, init_p, _}) -> true;
is_of_a_call(_) -> false.

a_killed_caller_leaves_nothing(_Config) ->
    Before = length(processes()),
    _ = [begin
             Pid = spawn(fun() -> [sonde:waits(10) || _ <- lists:seq(1, 1000)] end),
             timer:sleep(rand:uniform(10)),
             exit(Pid, kill)
         end || _ <- lists:seq(1, 50)],
    sonde_test:until(gone, fun() -> length(processes()) =< Before end),
    ok.

bad_arguments(_Config) ->
    _ = [{Args, badarg} = {Args, try apply(sonde, waits, Args) catch error:Why -> Why end}
         || Args <- [[-1], [x], [1.0], [1, []], [1, #{timeout => -1}], [1, #{report => 1}],
                     [1, #{threads => 1}]]],
    ok.
