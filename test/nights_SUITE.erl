%% Nodes that are made to hang on purpose, looked at from outside: the first row of the answer that one would ask
%% for is the culprit. Deadlocks and processes that never rest are also in outside_calls_SUITE and outside_rows_SUITE.
-module(nights_SUITE).

-compile([export_all, nowarn_export_all]).
-import(outside_calls_SUITE, [ask/3, ask/4, atoms/1]).

suite() -> [{timetrap, {minutes, 10}}].

all() ->
    [a_long_mailbox, a_mailbox_of_ten_million, a_run_queue, a_deadlock, callers_of_one_server, a_native_function,
     distribution_is_flooded, heart_is_about_to_kill, heart_sleeps, memory_runs_out, an_idle_node_has_no_suspects,
     a_dirty_call_holds_nothing].

init_per_suite(Config) -> outside_rows_SUITE:init_per_suite(Config).
end_per_suite(_Config) -> ok.

%% Fun(Of, Twin), as in outside_calls_SUITE.
both(Fun) -> outside_calls_SUITE:both(Fun).

%% The first suspect, and the first row of a call.
suspect(Twin) -> suspect(Twin, 1000).

suspect(Twin, Ms) -> suspect(Twin, Ms, #{}).

suspect(Twin, Ms, Opts) ->
    {ok, #{suspects := Suspects}, _} = ask(Twin, diagnose, [], Opts#{interval => Ms}),
    case Suspects of
        [#{kind := Kind, what := What, evidence := Evidence} | _] ->
            #{kind => Kind, what => atoms(What), evidence => [{Key, named(Key, Value)} || {Key, Value} <- Evidence]};
        [] -> none
    end.

named(full_sockets, Sockets) -> Sockets;
named(_, Value) -> atoms(Value).

first(Twin, Function, Args) ->
    {ok, [First | _], _} = ask(Twin, Function, Args),
    atoms(First).

%% ---- a mailbox

%% In the target: it takes none of them.
deaf(N) ->
    Pid = spawn(fun() -> true = register(night_deaf, self()), receive never -> ok end end),
    _ = fill(N, Pid),
    ok = sonde_test:until(filled, fun() -> process_info(Pid, message_queue_len) =:= {message_queue_len, N} end),
    Pid.

fill(0, _) -> ok;
fill(N, Pid) -> Pid ! N, fill(N - 1, Pid).

a_long_mailbox(_Config) -> long_mailbox(200000).
a_mailbox_of_ten_million(_Config) -> long_mailbox(10000000).

long_mailbox(N) ->
    both(fun(Of, Twin) ->
        Pid = Of(?MODULE, deaf, [N]),
        %% in a crowd of others that have some
        _ = Of(outside_rows_SUITE, crowd, []),
        {Pid, N, [night_deaf | _]} = first(Twin, proc_count, [message_queue_len, 3]),
        {Pid, _, _} = first(Twin, proc_count, [memory, 3]),
        #{kind := mailbox, what := Pid, evidence := [{messages, N} | _]} = suspect(Twin),
        {ok, #{messages := N}, _} = ask(Twin, mailbox, [{process, "night_deaf"}, 5])
    end).

%% ---- a run queue

%% In the target: each has something to do, without an end.
crowd(N) ->
    [spawn_opt(?MODULE, works, [0], [{priority, low}]) || _ <- lists:seq(1, N)],
    ok.

works(N) -> works(N + 1).

a_run_queue(_Config) ->
    both(fun(Of, Twin) ->
        ok = Of(?MODULE, crowd, [50000]),
        true = Of(erlang, statistics, [total_run_queue_lengths]) > 40000,
        {[{?MODULE, works, 1} | _], Stacks, _} = first(Twin, stacks, [3]),
        {_, true} = {Stacks, Stacks > 25000},
        {{?MODULE, works, 1}, Count, _} = first(Twin, proc_group, [initial_call, [reductions]]),
        {_, true} = {Count, Count > 45000},
        %% whether it is in a call is not known of one that is about to run, and it is not said to run all the time
        {ok, _, #{busy := Busy, missed := #{count := Missed, runnable := Runnable, pids := Pids}}} = ask(Twin, waits, [3]),
        {_, true} = {{Missed, Runnable, Busy}, Busy < 1000 andalso Runnable > 1000 andalso Runnable + Busy =< Missed},
        true = lists:keymember(runnable, 2, Pids) orelse Busy >= 10,
        #{kind := run_queue, what := {processes, {?MODULE, works, 1}}, evidence := [{processes, N} | _]} = suspect(Twin),
        {_, true} = {N, N > 40000 andalso N =< 51000},
        %% how many of them were looked at is said
        {ok, #{not_looked_at := Not}, _} = ask(Twin, diagnose, [], #{interval => 0}),
        {states, {sampled, Looked}} = lists:keyfind(states, 1, Not),
        {_, true} = {Looked, Looked > 20000 andalso Looked =< 32768}
    end).

%% ---- processes that wait for others

a_deadlock(_Config) ->
    both(fun(Of, Twin) ->
        Circle = Of(outside_calls_SUITE, circle, []),
        {Pid, 2, Attrs} = first(Twin, waits, [3]),
        true = lists:member(Pid, Circle),
        {deadlock, [_, _, _]} = lists:keyfind(deadlock, 1, Attrs),
        #{kind := deadlock, what := On, evidence := Evidence} = suspect(Twin),
        true = lists:member(On, Circle),
        {deadlock, Pids} = lists:keyfind(deadlock, 1, Evidence),
        {Same, Same} = {lists:sort(Circle), lists:sort(Pids)}
    end).

callers_of_one_server(_Config) ->
    both(fun(Of, Twin) ->
        {End, Middle, _} = Of(outside_calls_SUITE, chain, []),
        {End, 301, _} = first(Twin, waits, [3]),
        %% the requests lie in the mailbox of the one in the middle, which waits itself
        #{kind := bottleneck, what := Middle, evidence := [{waiters, 300} | _]} = suspect(Twin)
    end).

%% ---- a scheduler that is held

%% In the target: in native functions that spin and do not return, one on each scheduler, in a moment.
held(Dir) ->
    ok = sonde_foreign_helper:load(Dir),
    Pids = [begin
                Pid = spawn_opt(fun() -> receive go -> sonde_foreign_helper:spin(normal, 600000000, I) end end, [{scheduler, I}]),
                true = register(Name, Pid),
                Pid
            end || {I, Name} <- [{1, night_held_1}, {2, night_held_2}]],
    ok = in_a_moment(Pids),
    Pids.

%% To all at once: a timer of a scheduler that is held already would never be due.
in_a_moment(Pids) ->
    _ = spawn(fun() -> receive after 500 -> [Pid ! go || Pid <- Pids] end end),
    ok.

%% It answers nobody any more.
a_native_function(Config) ->
    case sonde_foreign_helper:build(filename:join(proplists:get_value(priv_dir, Config), "night")) of
        {skip, _} = Skip ->
            Skip;
        {ok, Dir} ->
            Target = sonde_peer_helper:start(shipped, ["+S", "2"]),
            Of = fun(M, F, A) -> sonde_peer_helper:call(Target, M, F, A) end,
            OsPid = Of(os, getpid, []),
            try outside_rows_SUITE:twin([], fun(Peer) ->
                    ok = outside_rows_SUITE:open(Peer, Of),
                    Pids = Of(?MODULE, held, [Dir]),
                    Twin = fun(M, F, A) -> sonde_peer_helper:call(Peer, M, F, A) end,
                    ok = sonde_test:until(held, fun() ->
                        [running, running] =:= [Status || Pid <- Pids, {ok, {_, Status}, _} <- [ask(Twin, info, [Pid, status])]]
                    end),
                    #{kind := native_call, what := Pid, evidence := Evidence} = suspect(Twin),
                    {_, true} = {Pid, lists:member(Pid, Pids)},
                    {sonde_foreign_helper, spin_normal, 2} = proplists:get_value(current_function, Evidence)
                end)
            after
                "" = os:cmd("kill -KILL " ++ OsPid),
                try sonde_peer_helper:stop(Target) catch exit:_ -> ok end
            end
    end.

%% ---- distribution

distribution_is_flooded(_Config) ->
    sonde_peer_helper:with_nodes(2, fun([{A, _}, {B, NodeB}]) ->
        Of = fun(M, F, Args) -> sonde_peer_helper:call(A, M, F, Args) end,
        Other = sonde_peer_helper:call(B, os, getpid, []),
        true = Of(net_kernel, connect_node, [NodeB]),
        "" = os:cmd("kill -STOP " ++ Other),
        try
            Pids = Of(?MODULE, senders, [NodeB, 30]),
            outside_rows_SUITE:twin([], fun(Peer) ->
                Twin = fun(M, F, Args) -> sonde_peer_helper:call(Peer, M, F, Args) end,
                ok = outside_rows_SUITE:open(Peer, Of),
                {Stack, 30, _} = first(Twin, stacks, [3]),
                {?MODULE, sends, 2} = lists:last(Stack),
                {ok, {status, suspended}, _} = ask(Twin, info, [{process, Of(erlang, pid_to_list, [hd(Pids)])}, status]),
                %% who sends, and the other end
                OsPid = list_to_integer(Of(os, getpid, [])),
                #{kind := suspended, what := {processes, {?MODULE, sends, 2}}, evidence := Evidence} =
                    suspect(Twin, 1000, #{os_pid => OsPid}),
                30 = proplists:get_value(processes, Evidence),
                "p" ++ Address = atom_to_list(NodeB),
                [Port, Host] = string:split(Address, "@"),
                [{End, Bytes} | _] = proplists:get_value(full_sockets, Evidence),
                {End, true} = {Host ++ ":" ++ Port, Bytes > 10000}
            end)
        after
            "" = os:cmd("kill -CONT " ++ Other)
        end
    end).

%% In the node: they send until the VM suspends them.
senders(Node, N) ->
    Pids = [spawn(?MODULE, sends, [Node, binary:copy(<<"x">>, 100000)]) || _ <- lists:seq(1, N)],
    ok = sonde_test:until(suspended, fun() ->
        [] =:= [Pid || Pid <- Pids, process_info(Pid, status) =/= {status, suspended}]
    end),
    Pids.

sends(Node, Bytes) ->
    {night_nobody, Node} ! Bytes,
    sends(Node, Bytes).

%% ---- heart

%% Its callback calls a server, which calls one that does not answer.
heart_is_about_to_kill(_Config) ->
    with_heart(fun(Of, Twin) ->
            Server = Of(?MODULE, heart_hangs, []),
            Begun = erlang:monotonic_time(millisecond),
            First = first(Twin, waits, [1]),
            {Server, 2, [{longest_chain, [Heart, _, Server]}, night_silent | _]} = First,
            {ok, {registered_name, Name}, _} = ask(Twin, info, [Heart, registered_name]),
            heart = atoms(Name),
            %% long before it is killed
            Ms = erlang:monotonic_time(millisecond) - Begun,
            ok = sonde_test:figures("heart hangs: named after ~p ms", [Ms]),
            #{kind := heart, what := Server, evidence := [{heart, Heart}, {waiters, 2} | Evidence]} = suspect(Twin),
            night_silent = proplists:get_value(registered_name, Evidence)
    end).

%% It waits for no process. Promise: while it beats, it is no suspect.
heart_sleeps(_Config) ->
    with_heart(fun(Of, Twin) ->
        none = suspect(Twin),
        none = suspect(Twin, 0),
        ok = Of(heart, set_callback, [?MODULE, sleeps]),
        Heart = Of(erlang, whereis, [heart]),
        ok = sonde_test:until(sleeps, fun() -> Of(erlang, process_info, [Heart, current_function]) =:= {current_function, {timer, sleep, 1}} end),
        #{kind := heart, what := Heart, evidence := [{current_function, {timer, sleep, 1}}, {registered_name, heart} | _]} = suspect(Twin)
    end).

with_heart(Fun) ->
    case filelib:is_regular(filename:join(os:getenv("BINDIR", ""), "heart")) of
        true -> with_heart(["-heart", "-env", "HEART_BEAT_TIMEOUT", "60"], Fun);
        false -> {skip, "this OTP has no heart"}
    end.

with_heart(Args, Fun) ->
    sonde_peer_helper:with(shipped, Args, fun(Target) ->
        Of = fun(M, F, A) -> sonde_peer_helper:call(Target, M, F, A) end,
        outside_rows_SUITE:twin([], fun(Peer) ->
            ok = outside_rows_SUITE:open(Peer, Of),
            Fun(Of, fun(M, F, A) -> sonde_peer_helper:call(Peer, M, F, A) end)
        end)
    end).

heart_hangs() ->
    Server = spawn(fun() -> true = register(night_silent, self()), receive never -> ok end end),
    ok = sonde_test:until(named, fun() -> whereis(night_silent) =:= Server end),
    Busy = spawn(fun() -> true = register(night_busy, self()), _ = silent() end),
    ok = sonde_test:until(named, fun() -> whereis(night_busy) =:= Busy end),
    ok = sonde_test:until(waits, fun() -> process_info(Server, message_queue_len) =/= {message_queue_len, 0} end),
    ok = heart:set_callback(?MODULE, is_well),
    ok = sonde_test:until(hangs, fun() -> process_info(Busy, message_queue_len) =/= {message_queue_len, 0} end),
    Server.

is_well() -> gen_server:call(night_busy, is_well, infinity).

silent() -> gen_server:call(night_silent, is_well, infinity).

sleeps() -> timer:sleep(infinity).

%% ---- memory

%% Promise: who holds most memory and binaries is named, with what it grew by, and not accused: a cache is large.
memory_runs_out(_Config) ->
    both(fun(Of, Twin) ->
        {Cache, Hoarder} = Of(?MODULE, large, []),
        {ok, #{suspects := [], largest := #{memory := [{Cache, Words, CacheAttrs} | _], binary_memory := [{Hoarder, Bytes, Attrs} | _]}}, _} =
            outside_calls_SUITE:whole(fun() -> ask(Twin, diagnose, [], #{interval => 0}) end),
        {memory, Words} = Of(erlang, process_info, [Cache, memory]),
        {true, false} = {Words > 16000000, lists:keymember(grown, 1, CacheAttrs ++ Attrs)},
        {30000000, night_hoarder} = {Bytes, atoms(hd(Attrs))},
        {ok, #{largest := #{memory := [{Cache, Words, [{grown, 0} | _]} | _],
                            binary_memory := [{Hoarder, More, [{grown, Grown} | _]} | _]}}, _} =
            outside_calls_SUITE:whole(fun() ->
                                          _ = Of(erlang, send_after, [1000, Hoarder, {more, 20}]),
                                          ask(Twin, diagnose, [], #{interval => 3000})
                                      end),
        {_, 2000000, true} = {More, Grown, More >= 32000000}
    end).

large() ->
    Cache = spawn(fun() -> Rows = lists:seq(1, 1000000), receive never -> Rows end end),
    Hoarder = spawn(fun() -> true = register(night_hoarder, self()), hoards(hoard(300, [])) end),
    ok = sonde_test:settle([Cache, Hoarder]),
    {Cache, Hoarder}.

hoard(N, All) -> [binary:copy(<<N>>, 100000) || _ <- lists:seq(1, N)] ++ All.

hoards(All) -> receive {more, N} -> hoards(hoard(N, All)) end.

%% ---- and none

%% Promise: a native function on a dirty scheduler is where it should be, however long it takes.
a_dirty_call_holds_nothing(Config) ->
    case sonde_foreign_helper:build(filename:join(proplists:get_value(priv_dir, Config), "dirty")) of
        {skip, _} = Skip ->
            Skip;
        {ok, Dir} ->
            both(fun(Of, Twin) ->
                Pids = Of(?MODULE, dirty, [Dir]),
                ok = sonde_test:until(running, fun() ->
                    [running, running] =:= [Status || Pid <- Pids, {ok, {_, Status}, _} <- [ask(Twin, info, [Pid, status])]]
                end),
                none = suspect(Twin)
            end)
    end.

dirty(Dir) ->
    ok = sonde_foreign_helper:load(Dir),
    [spawn(fun() -> sonde_foreign_helper:sleep(Kind, 600000, 1) end) || Kind <- [dirty_cpu, dirty_io]].

an_idle_node_has_no_suspects(_Config) ->
    both(fun(Of, Twin) ->
        _ = Of(outside_rows_SUITE, crowd, []),
        none = suspect(Twin, 0),
        none = suspect(Twin, 300)
    end).
