%% Answers are complete and right on a busy node, on both paths: with processes of every kind, and
%% with processes that start, die, collect, are in native calls or have a million of something while
%% they are read.
-module(edge_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 3}}].

all() ->
    [every_attribute_of_every_kind, read_as_the_first_asking_says,
     everything_at_the_other_end_of_a_wire,
     spawn_request_under_way, complete_while_many_churn, complete_while_the_large_exit,
     complete_while_mailboxes_flood, growth_while_many_churn, leaks_while_many_churn,
     in_a_dirty_call, in_a_long_call, a_hundred_thousand_links, a_million_messages,
     a_million_binaries, node_without_distribution_and_alone].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% ---- every kind of process, quiet

every_attribute_of_every_kind(_Config) ->
    with([], fun(Peer) -> [] = call(Peer, kinds, []) end).

kinds() -> sonde_kinds_helper:compare(sonde_kinds_helper:kinds(), sonde_attr:native()).

%% A scan reads what process_info would have returned instead, although asking changes the process.
%% Only processes that cannot be read natively are left to process_info.
read_as_the_first_asking_says(_Config) ->
    with([], fun(Peer) ->
                     {Wrong, Asked} = call(Peer, reads, []),
                     [] = Wrong,
                     [] = [{Attr, Kind} || {Attr, Kind} <- Asked, not may_be_asked(Attr, Kind)]
             end).

reads() ->
    _ = sonde:native(),
    Found = sonde_kinds_helper:compare_reads(sonde_kinds_helper:kinds(), sonde_attr:native()),
    {[Wrong || {_, _, _, Value} = Wrong <- Found, Value =/= ask],
     [{Attr, Kind} || {Attr, Kind, _, ask} <- Found]}.

%% The reasons: flags that change what process_info shows, a buffer for saved calls, and the 64
%% buffers of an off-heap queue.
may_be_asked(Attr, Kind) when Kind =:= sensitive; Kind =:= traced; Kind =:= receive_traced ->
    lists:member(Attr, [memory, total_heap_size, message_queue_len, dictionary_size]);
may_be_asked(Attr, saving_calls) -> Attr =:= memory;
may_be_asked(Attr, {outer_queue, off_heap, _}) -> may_wait(Attr);
may_be_asked(Attr, {behind_a_signal, off_heap}) -> may_wait(Attr);
may_be_asked(Attr, {undecoded, _}) -> may_wait(Attr);
may_be_asked(_, _) -> false.

may_wait(Attr) -> lists:member(Attr, [memory, total_heap_size, message_queue_len]).

%% ---- another node at the other end

everything_at_the_other_end_of_a_wire(_Config) ->
    with_two(fun(Peer, _Other, Node) -> [] = call(Peer, remote_kinds, [Node]) end).

remote_kinds(Node) ->
    pong = net_adm:ping(Node),
    sonde_kinds_helper:compare(sonde_kinds_helper:remote_kinds(Node), sonde_attr:native()).

%% The other node stands still, so its answers do not come.
spawn_request_under_way(_Config) ->
    with_two(fun(Peer, Other, Node) ->
                     pong = sonde_peer_helper:call(Peer, net_adm, ping, [Node]),
                     _ = sonde_peer_helper:call(Other, erts_debug, set_internal_state,
                                                [available_internal_state, true]),
                     Parent = self(),
                     _ = spawn_link(fun() -> Parent ! blocking, _ = block(Other, 1500),
                                             Parent ! blocked end),
                     receive blocking -> timer:sleep(200) end,
                     Different = call(Peer, spawn_requests, [Node]),
                     receive blocked -> ok end,
                     [] = Different
             end).

block(Other, Ms) -> sonde_peer_helper:call(Other, erts_debug, set_internal_state, [block, Ms]).

spawn_requests(Node) ->
    Kinds = [{Opts, fun() -> requester(Node, Opts) end}
             || Opts <- [[], [monitor], [link], [monitor, link]]],
    Attrs = [memory, link_count, monitor_count, monitored_by_count, binary_count],
    sonde_kinds_helper:compare(Kinds, Attrs).

requester(Node, Opts) ->
    Parent = self(),
    P = spawn(fun() ->
                      Id = spawn_request(Node, sonde_kinds_helper, wait, [], Opts),
                      Parent ! {built, self()},
                      receive stop -> Id end
              end),
    receive {built, P} -> P end.

%% ---- busy nodes

%% Processes that start, grow, link, monitor, send, collect and die all the time.
churn(N) ->
    %% the caller must not wait in line with all of them
    _ = process_flag(priority, high),
    sonde_test:churn(N, fun() -> sonde_test:in_process(fun() -> live(rand:uniform(10)) end) end).

live(0) ->
    ok;
live(I) ->
    Bins = [binary:copy(<<I>>, 70 + rand:uniform(100)) || _ <- lists:seq(1, rand:uniform(10))],
    {Pid, Mon} = spawn_monitor(fun() -> self() ! Bins, put(k, Bins),
                                        receive B -> length(B) end end),
    _ = spawn_link(fun() -> lists:seq(1, 100 * I) end),
    self() ! {I, Bins},
    _ = [garbage_collect() || I rem 7 =:= 0],
    receive {'DOWN', Mon, process, Pid, _} -> ok end,
    receive {I, _} -> live(I - 1) end.

%% Quiet processes, each with something of everything; sizes drawn at random.
quiet(N) ->
    Pids = [quiet_one(rand:uniform(3000), rand:uniform(20)) || _ <- lists:seq(1, N)],
    ok = sonde_kinds_helper:settle(Pids),
    _ = [process_info(P, memory) || P <- Pids],
    ok = sonde_kinds_helper:settle(Pids),
    Pids.

quiet_one(Words, Few) ->
    Parent = self(),
    P = spawn(fun() ->
                      Bins = [binary:copy(<<1>>, 65 + N) || N <- lists:seq(1, Few)],
                      Keep = {lists:seq(1, Words), Bins},
                      _ = [put(N, N) || N <- lists:seq(1, Few + 3)],
                      _ = [monitor(process, init) || _ <- lists:seq(1, Few + 5)],
                      _ = [link(spawn(fun sonde_kinds_helper:wait/0))
                           || _ <- lists:seq(1, Few + 7)],
                      garbage_collect(),
                      Parent ! {built, self()},
                      sonde_kinds_helper:wait(Keep)
              end),
    receive {built, P} -> ok end,
    _ = [P ! N || N <- lists:seq(1, Few)],
    P.

complete_while_many_churn(_Config) ->
    Churn = fun() -> churn(200) end,
    with(["+P", "262144"], fun(Peer) -> ok = call(Peer, scan_the_quiet, [Churn, 100, 1]) end).

complete_while_the_large_exit(_Config) ->
    Exits = fun() -> [spawn(fun exits/0)] end,
    with([], fun(Peer) -> ok = call(Peer, scan_the_quiet, [Exits, 100, 2]) end).

%% Kills one large process after the other.
exits() ->
    Pids = [spawn(fun() -> L = lists:seq(1, 300000),
                           B = [binary:copy(<<1>>, 100) || _ <- lists:seq(1, 2000)],
                           Ls = [spawn_link(fun sonde_kinds_helper:wait/0)
                                 || _ <- lists:seq(1, 100)],
                           sonde_kinds_helper:wait({L, B, Ls})
                  end) || _ <- lists:seq(1, 5)],
    receive after 10 -> ok end,
    _ = [exit(P, kill) || P <- Pids],
    exits().

complete_while_mailboxes_flood(_Config) ->
    with([], fun(Peer) -> ok = call(Peer, scan_the_quiet, [fun flood/0, 100, 3]) end).

%% Processes that receive faster than they take, on heap and off heap, some of them sleepers.
flood() ->
    Sinks = [spawn_opt(fun() -> sink(Ms) end, [{message_queue_data, Data}])
             || Ms <- [0, 1], Data <- [on_heap, off_heap], _ <- lists:seq(1, 4)],
    Sources = [spawn(fun() -> source(Sinks, 0) end) || _ <- lists:seq(1, 3)],
    Sinks ++ Sources.

sink(Ms) ->
    receive {_, _} -> receive after Ms -> ok end end,
    case process_info(self(), message_queue_len) of
        {_, N} when N > 20000 -> drop();
        _ -> ok
    end,
    sink(Ms).

drop() -> receive _ -> drop() after 0 -> ok end.

source(Sinks, N) ->
    _ = [S ! {N, binary:copy(<<N>>, 70)} || S <- Sinks],
    _ = [receive after 1 -> ok end || N rem 100 =:= 0],
    source(Sinks, N + 1).

%% Every scan has every quiet process with its right value, while Disturb's processes do their
%% worst.
scan_the_quiet(Disturb, N, Times) ->
    Quiet = quiet(N),
    Official = fun(Attr) -> [{P, sonde_kinds_helper:official(Attr, P)} || P <- Quiet] end,
    Expected = maps:from_list([{Attr, Official(Attr)} || Attr <- attrs()]),
    _ = Disturb(),
    Same = fun(Attr, Rows) ->
                   {Attr, [], []} = {Attr, maps:get(Attr, Expected) -- Rows,
                                     Rows -- maps:get(Attr, Expected)}
           end,
    _ = [Same(Attr, scan(Attr, Quiet)) || _ <- lists:seq(1, Times), Attr <- attrs()],
    %% with their names: hardly any other process has as many
    Rows = [{P, V} || {P, V, _} <- sonde:proc_count(monitor_count, N + 20), lists:member(P, Quiet)],
    Same(monitor_count, Rows),
    ok.

%% Reads no names, since these take longest where so many processes run; for the same reason it asks
%% only the quiet ones among the processes that could not be read.
scan(Attr, Pids) ->
    sonde_test:pick(
      fun() ->
              #{status := active} = sonde:native(),
              Scan = sonde_nif:scan_new(Attr, top, 134217727, undefined, [self()], 134217727),
              Wanted = maps:from_keys(Pids, true),
              ok = scan_to_end(Attr, Scan, Wanted),
              [Row || {P, _} = Row <- sonde_nif:scan_rows(Scan), is_map_key(P, Wanted)]
      end,
      fun() -> [{P, V} || P <- Pids, {ok, V} <- [sonde_attr:read(Attr, P)]] end).

scan_to_end(Attr, Scan, Wanted) ->
    case sonde_nif:scan_step(Scan) of
        done -> ok;
        more -> scan_to_end(Attr, Scan, Wanted);
        {ask, Pids} ->
            ok = sonde_nif:scan_feed(Scan, [{P, sonde_kinds_helper:official(Attr, P)}
                                            || P <- Pids, is_map_key(P, Wanted)]),
            scan_to_end(Attr, Scan, Wanted)
    end.

%% Asking for names makes the quiet processes run a little.
attrs() -> sonde_attr:native() -- [reductions].

growth_while_many_churn(_Config) ->
    with(["+P", "262144"], fun(Peer) -> ok = call(Peer, window_of_the_quiet, []) end).

%% The quiet processes have not grown, and none is missing.
window_of_the_quiet() ->
    Quiet = quiet(50),
    Wanted = maps:from_keys(Quiet, true),
    _ = churn(50),
    _ = [begin
             Rows = [V || {P, V, _} <- sonde:proc_window(Attr, 134217727, 20),
                          is_map_key(P, Wanted)],
             {Attr, 50, [0]} = {Attr, length(Rows), lists:usort(Rows)}
         end || Attr <- [memory, binary_count]],
    ok.

leaks_while_many_churn(_Config) ->
    with(["+P", "262144"], fun(Peer) -> ok = call(Peer, leaks_of_the_quiet, []) end).

%% They keep what they hold, so nothing is freed. Those for which there was no time are counted.
leaks_of_the_quiet() ->
    Quiet = quiet(50),
    Wanted = maps:from_keys(Quiet, true),
    _ = churn(50),
    _ = [begin
             #{rows := All, skipped := Skipped} = sonde:bin_leak(134217727, #{}),
             Rows = [V || {P, V, _} <- All, is_map_key(P, Wanted)],
             {true, []} = {length(Rows) + Skipped >= 50, lists:usort(Rows) -- [0]},
             true = length(Rows) =:= 50 orelse Skipped > 0
         end || _ <- [1, 2, 3]],
    ok.

%% ---- native calls

in_a_dirty_call(Config) -> in_a_call(Config, dirty).

%% On a normal scheduler: the answer waits for the call, as process_info does.
in_a_long_call(Config) -> in_a_call(Config, normal).

in_a_call(Config, How) ->
    case sonde_foreign_helper:build(filename:join(proplists:get_value(priv_dir, Config), How)) of
        {skip, _} = Skip -> Skip;
        {ok, Dir} -> with([], fun(Peer) -> ok = call(Peer, scan_sleepers, [Dir, How]) end)
    end.

scan_sleepers(Dir, How) ->
    ok = sonde_foreign_helper:load(Dir),
    Quiet = quiet(20),
    _ = [begin
             Expected = [{P, sonde_kinds_helper:official(Attr, P)} || P <- Quiet],
             Sleepers = [spawn_sleeper(How, 150) || _ <- [1, 2]],
             timer:sleep(20),
             Rows = sonde_kinds_helper:rows(Attr, Sleepers ++ Quiet),
             {Attr, [], []} = {Attr, Sleepers -- [P || {P, _} <- Rows], Expected -- Rows},
             [] = [V || {P, V} <- Rows, lists:member(P, Sleepers), not is_integer(V)],
             sonde_test:stop(Sleepers)
         end || Attr <- case How of
                            dirty -> attrs();
                            normal -> [memory, binary_count, link_count]
                        end],
    Sleepers = [spawn_sleeper(How, 300) || _ <- [1, 2]],
    timer:sleep(20),
    Leaks = [P || {P, _, _} <- sonde:bin_leak(134217727)],
    [] = Quiet -- Leaks,
    sonde_test:stop(Sleepers).

spawn_sleeper(How, Ms) ->
    Where = case How of dirty -> dirty_cpu; normal -> normal end,
    spawn(fun() -> Bins = [binary:copy(<<1>>, 100) || _ <- lists:seq(1, 10)],
                   sonde_kinds_helper:wait(sonde_foreign_helper:sleep(Where, Ms, Bins)) end).

%% ---- one process with a million of something

a_hundred_thousand_links(_Config) ->
    with(["+P", "262144"], fun(Peer) -> ok = call(Peer, huge, [links, 100000]) end).

a_million_messages(_Config) ->
    with([], fun(Peer) -> ok = call(Peer, huge, [messages, 1000000]) end).

a_million_binaries(_Config) ->
    with([], fun(Peer) -> ok = call(Peer, huge, [binaries, 1000000]) end).

huge(What, N) ->
    Pid = huge_one(What, N),
    ok = sonde_kinds_helper:settle([Pid]),
    Attrs = case What of
                links -> [{link_count, N}, {monitor_count, N}, {memory, any}];
                messages -> [{message_queue_len, N}, {memory, any}, {total_heap_size, any}];
                binaries -> [{binary_count, N}, {binary_memory, 70 * N}, {memory, any}]
            end,
    _ = [one_of_huge(Pid, Attr, Value) || {Attr, Value} <- Attrs],
    _ = [huge_leak(Pid) || What =:= binaries],
    ok.

one_of_huge(Pid, Attr, Value) ->
    [{Pid, Found, _}] = sonde:proc_count(Attr, 1),
    Official = sonde_kinds_helper:official(Attr, Pid),
    {Attr, Official} = {Attr, Found},
    true = Value =:= any orelse Value =:= Found.

huge_leak(Pid) ->
    {Pid, 0, _} = lists:keyfind(Pid, 1, sonde:bin_leak(134217727)).

huge_one(links, N) ->
    Parent = self(),
    P = spawn(fun() ->
                      Others = [spawn(fun sonde_kinds_helper:wait/0) || _ <- lists:seq(1, N)],
                      _ = [link(O) || O <- Others],
                      _ = [monitor(process, O) || O <- Others],
                      garbage_collect(),
                      Parent ! {built, self()},
                      sonde_kinds_helper:wait()
              end),
    receive {built, P} -> P end;
huge_one(messages, N) ->
    P = spawn(fun() -> receive go -> ok end, sonde_kinds_helper:wait() end),
    _ = [P ! {I, x} || I <- lists:seq(1, N)],
    P;
huge_one(binaries, N) ->
    Parent = self(),
    P = spawn(fun() ->
                      Bins = [binary:copy(<<1>>, 70) || _ <- lists:seq(1, N)],
                      garbage_collect(),
                      Parent ! {built, self()},
                      sonde_kinds_helper:wait(Bins)
              end),
    receive {built, P} -> P end.

%% ---- nodes

node_without_distribution_and_alone(_Config) ->
    with(["-kernel", "start_distribution", "false", "+S", "1:1"],
         fun(Peer) ->
                 3 = length(sonde_peer_helper:call(Peer, sonde, proc_count, [memory, 3])),
                 [_ | _] = sonde_peer_helper:call(Peer, sonde, bin_leak, [3])
         end).

with(Args, Fun) -> sonde_peer_helper:with(shipped, Args, Fun).

with_two(Fun) ->
    sonde_peer_helper:with_nodes(2, fun([{Peer, _}, {Other, Node}]) -> Fun(Peer, Other, Node) end).

call(Peer, F, A) -> sonde_peer_helper:call(Peer, ?MODULE, F, A).
