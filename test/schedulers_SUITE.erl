%% What each scheduler thread runs: the process that holds it is named first, from inside while a normal scheduler
%% is left, and from outside while none is; nothing is claimed that is not known.
-module(schedulers_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 3}}].

all() ->
    [each_scheduler_has_a_row, the_caller_runs_on_its_own, a_native_call_is_named_first, a_long_bif_is_named,
     a_port_is_named_first, a_port_that_leaves_is_not_held,
     no_dirty_scheduler_is_needed, one_that_leaves_is_not_held, one_look_holds_nothing,
     processes_that_come_and_go, proved_beside_stuck_ones, only_natively, bad_arguments,
     all_stuck_from_outside, stuck_in_drivers_from_outside, run_queues_from_outside].

init_per_suite(Config) ->
    case sonde_foreign_helper:build(filename:join(proplists:get_value(priv_dir, Config), "foreign")) of
        {ok, Dir} -> sonde_test:init([{foreign, Dir} | Config]);
        Skip -> Skip
    end.

end_per_suite(_Config) -> ok.

-define(STUCK_MS, 60000).

%% Fun(Of) with a node that has two normal schedulers, of which the second may be stuck: the first takes over what waits
%% for it, as often as it has nothing else to do. Such a node cannot be told to stop.
with_node(Args, Config, Fun) -> with_node(Args, Config, true, Fun).

with_node(Args, Config, Proves, Fun) ->
    Peer = sonde_peer_helper:start(shipped, ["+S", "2:2" | Args]),
    Of = fun(M, F, A) -> sonde_peer_helper:call(Peer, M, F, A) end,
    OsPid = Of(os, getpid, []),
    try
        ok = Of(sonde_foreign_helper, load, [proplists:get_value(foreign, Config)]),
        ok = Of(?MODULE, prepare, [Proves]),
        Fun(Of)
    after
        "" = os:cmd("kill -KILL " ++ OsPid),
        try sonde_peer_helper:stop(Peer) catch exit:_ -> ok end
    end.

%% Code cannot be loaded later.
prepare(Proves) ->
    _ = [#{status := active} = sonde:native() || Proves],
    _ = [{module, M} = code:ensure_loaded(M) || M <- [timer, sonde_test, ?MODULE, nights_SUITE, io_lib]],
    _ = spawn_opt(?MODULE, ticks, [], [{scheduler, 1}]),
    ok.

ticks() -> receive after 5 -> ticks() end.

natively(Fun) ->
    case sonde_test:side() of
        native -> Fun();
        portable -> {skip, "native only"}
    end.

%% In the node: processes in native calls of these kinds, on the last normal scheduler or any dirty one, and the rows
%% while they are in there.
stuck(Kinds, Opts) ->
    Pids = [held_up(Kind) || Kind <- Kinds],
    ok = sonde_test:until(they_are_there, fun() ->
        Rows = sonde:schedulers(#{interval => 0}),
        lists:all(fun({Kind, Pid}) -> is_inside(Kind, Pid, Rows) end, lists:zip(Kinds, Pids))
    end),
    {Pids, sonde:schedulers(Opts)}.

%% A process runs on a normal scheduler before it is in the native call, and may stay there for long on a busy machine.
is_inside(Kind, Pid, Rows) ->
    [] =/= [No || {{K, No}, _, [{pid, P} | Attrs]} <- Rows, K =:= Kind, P =:= Pid,
                  {current_function, {sonde_foreign_helper, F, 2}} <- Attrs, F =:= sleeps(Kind)].

sleeps(Kind) -> list_to_atom(lists:concat([sleep_, Kind])).

held_up(Kind) ->
    Name = list_to_atom("held_up_" ++ atom_to_list(Kind)),
    spawn_opt(fun() ->
                      true = register(Name, self()),
                      sonde_foreign_helper:sleep(Kind, ?STUCK_MS, x)
              end, [{scheduler, 2}]).

running(Rows) ->
    [Pid || {_, _, Attrs} <- Rows, {pid, Pid} <- Attrs, is_pid(Pid)].

%% On the first scheduler, which stays free.
on_the_first(M, F, A) ->
    Self = self(),
    Ref = make_ref(),
    _ = spawn_opt(fun() -> Self ! {Ref, apply(M, F, A)} end, [{scheduler, 1}, link]),
    receive {Ref, Result} -> Result end.

%% ---- inside

each_scheduler_has_a_row(_Config) ->
    natively(fun() ->
        Rows = sonde:schedulers(),
        Numbers = fun(Kind) -> lists:sort([No || {{K, No}, _, _} <- Rows, K =:= Kind]) end,
        [{Kind, All} = {Kind, Numbers(Kind)}
         || {Kind, Item} <- [{normal, schedulers}, {dirty_cpu, dirty_cpu_schedulers}, {dirty_io, dirty_io_schedulers}],
            All <- [lists:seq(1, erlang:system_info(Item))]],
        true = lists:all(fun({_, Queue, _}) -> is_integer(Queue) end, Rows),
        [] = sonde_test:mailbox()
    end).

the_caller_runs_on_its_own(_Config) ->
    natively(fun() ->
        N = erlang:system_info(schedulers_online),
        [begin
             {Self, Rows} = called_on(No),
             {_, _, Attrs} = lists:keyfind({normal, No}, 1, Rows),
             {pid, Self} = lists:keyfind(pid, 1, Attrs),
             {current_function, {sonde_nif, _, _}} = lists:keyfind(current_function, 1, Attrs),
             {initial_call, {erlang, apply, 2}} = lists:keyfind(initial_call, 1, Attrs),
             [No] = [Other || {{normal, Other}, _, As} <- Rows, lists:member({pid, Self}, As)]
         end || No <- lists:seq(1, N)]
    end).

called_on(No) ->
    Self = self(),
    Pid = spawn_opt(fun() -> Self ! {self(), sonde:schedulers(#{interval => 0})} end, [{scheduler, No}, link]),
    receive {Pid, Rows} -> {Pid, Rows} end.

a_native_call_is_named_first(Config) ->
    natively(fun() ->
        [with_node(["+SDcpu", "2:2", "+SDio", "2"], Config, fun(Of) ->
             {[Pid], [{{Kind, No}, _, [{pid, Pid}, Name, {held_ms, Ms} | Attrs]} | Rows]} =
                 Of(?MODULE, on_the_first, [?MODULE, stuck, [[Kind], #{interval => 50}]]),
             Function = sleeps(Kind),
             {Kind, true} = {Kind, is_atom(Name) andalso Ms >= 50 andalso No >= 1},
             [{current_function, {sonde_foreign_helper, Function, 2}}, {initial_call, {erlang, apply, 2}}] = Attrs,
             [] = [Row || {_, _, As} = Row <- Rows, lists:keymember(held_ms, 1, As)]
         end) || Kind <- [normal, dirty_cpu, dirty_io]]
    end).

%% A tree that is small in memory, and large to a function that does not know it.
tree(0) -> x;
tree(N) -> T = tree(N - 1), {T, T}.

in_a_bif() ->
    Tree = tree(30),
    erts_debug:flat_size(Tree) + 1.

a_long_bif_is_named(Config) ->
    natively(fun() -> with_node([], Config, fun(Of) ->
        {Pid, Rows} = Of(?MODULE, on_the_first, [?MODULE, beside_a_bif, []]),
        [{{normal, 2}, _, [{pid, Pid}, {held_ms, Ms}, {current_function, Function}, _]} | _] = Rows,
        true = Ms >= 20,
        {true, _} = {Function =:= {erts_debug, flat_size, 1} orelse element(1, Function) =:= ?MODULE, Function}
    end) end).

beside_a_bif() ->
    Pid = spawn_opt(?MODULE, in_a_bif, [], [{scheduler, 2}]),
    ok = sonde_test:until(it_is_there, fun() -> lists:member(Pid, running(sonde:schedulers(#{interval => 0}))) end),
    {Pid, sonde:schedulers(#{interval => 20})}.

%% The caller, on the first scheduler, has a port that the second one runs.
with_port(Dir, What, Fun) ->
    Self = self(),
    Owner = spawn_opt(fun() ->
                              Port = sonde_foreign_helper:open_driver(Dir),
                              true = register(driven, Port),
                              Self ! {self(), Port},
                              receive go -> sonde_foreign_helper:drive(Port, What) end,
                              receive never -> ok end
                      end, [{scheduler, 2}]),
    receive {Owner, Port} -> Owner ! go, Fun(Port) end.

a_port_is_named_first(Config) ->
    natively(fun() -> with_node([], Config, fun(Of) ->
        {Port, Row} = Of(?MODULE, on_the_first, [?MODULE, beside_a_port, [proplists:get_value(foreign, Config)]]),
        {{normal, 2}, Queue, [{port, Port}, driven, {held_ms, Ms}, {name, "sonde_foreign_driver"}]} = Row,
        true = is_integer(Queue) andalso Ms >= 50
    end) end).

beside_a_port(Dir) ->
    with_port(Dir, ?STUCK_MS, fun(Port) ->
        ok = sonde_test:until(it_is_there, fun() -> [] =/= of_port(Port, #{interval => 0}) end),
        {Port, hd(sonde:schedulers(#{interval => 50}))}
    end).

of_port(Port, Opts) -> [Attrs || {_, _, [{port, P} | Attrs]} <- sonde:schedulers(Opts), P =:= Port].

%% Its calls of two milliseconds follow one another.
a_port_that_leaves_is_not_held(Config) ->
    natively(fun() -> with_node([], Config, fun(Of) ->
        {Seen, Held} = Of(?MODULE, on_the_first, [?MODULE, beside_a_busy_port, [proplists:get_value(foreign, Config)]]),
        {_, _, true} = {Seen, Held, Seen > 2 * Held}
    end) end).

beside_a_busy_port(Dir) ->
    with_port(Dir, {again, 2}, fun(Port) ->
        Looks = [Attrs || _ <- lists:seq(1, 60), Attrs <- of_port(Port, #{interval => 20})],
        {length(Looks), length([held || Attrs <- Looks, lists:keymember(held_ms, 1, Attrs)])}
    end).

%% All that there are are stuck; the code that answers was loaded before.
no_dirty_scheduler_is_needed(Config) ->
    natively(fun() -> with_node(["+SDcpu", "2:1", "+SDio", "1"], Config, fun(Of) ->
        {[Cpu, Io], Rows} = Of(?MODULE, on_the_first, [?MODULE, stuck, [[dirty_cpu, dirty_io], #{}]]),
        [{{dirty_cpu, 1}, _, [{pid, Cpu} | _]}, {{dirty_io, 1}, _, [{pid, Io} | _]} | _] = Rows,
        [true, true] = [lists:keymember(held_ms, 1, Attrs) || {_, _, Attrs} <- lists:sublist(Rows, 2)]
    end) end).

spins() -> spins().

%% Whatever it does in Erlang, it leaves. But on a busy machine, its thread may get no processor meanwhile.
one_that_leaves_is_not_held(Config) ->
    natively(fun() -> with_node([], Config, fun(Of) ->
        {Held, Left} = lists:partition(fun(Is) -> Is end, Of(?MODULE, on_the_first, [?MODULE, beside_spins, []])),
        {_, _, true} = {length(Held), length(Left), length(Left) > length(Held)}
    end) end).

beside_spins() ->
    Pid = spawn_opt(?MODULE, spins, [], [{scheduler, 2}]),
    [lists:keymember(held_ms, 1, Attrs) || _ <- lists:seq(1, 15), {_, _, Attrs} <- sonde:schedulers(#{interval => 100}),
                                           lists:member({pid, Pid}, Attrs)].

one_look_holds_nothing(Config) ->
    natively(fun() -> with_node([], Config, fun(Of) ->
        {[Pid], Rows} = Of(?MODULE, on_the_first, [?MODULE, stuck, [[dirty_io], #{interval => 0}]]),
        [_] = [Attrs || {{dirty_io, _}, _, Attrs} <- Rows, lists:member({pid, Pid}, Attrs)],
        [] = [Attrs || {_, _, Attrs} <- Rows, lists:keymember(held_ms, 1, Attrs)]
    end) end).

%% Each pid is that of a process of the node.
processes_that_come_and_go(Config) ->
    natively(fun() -> with_node([], Config, fun(Of) -> [] = Of(?MODULE, unknown_ones, []) end) end).

unknown_ones() ->
    Known = ets:new(known, [public]),
    Before = processes(),
    Churn = [spawn_link(fun() -> churn(Known) end) || _ <- [1, 2, 3]],
    Seen = [running(sonde:schedulers(#{interval => 0})) || _ <- lists:seq(1, 2000)],
    _ = [begin unlink(Pid), exit(Pid, kill) end || Pid <- Churn],
    %% one may have been seen before it is known
    _ = receive after 200 -> ok end,
    [Pid || Pid <- lists:usort(lists:append(Seen)), not ets:member(Known, Pid), not lists:member(Pid, Before ++ Churn)].

churn(Known) ->
    {Pid, Mon} = spawn_monitor(fun() ->
                                       true = ets:insert(Known, {self()}),
                                       lists:sum(lists:seq(1, rand:uniform(500)))
                               end),
    receive {'DOWN', Mon, process, Pid, _} -> churn(Known) end.

%% The VM keeps more pointers to a scheduler then.
proved_beside_stuck_ones(Config) ->
    natively(fun() -> with_node(["+SDcpu", "2:2", "+SDio", "3"], Config, false, fun(Of) ->
        true = Of(?MODULE, on_the_first, [?MODULE, proved_beside, []])
    end) end).

proved_beside() ->
    _ = [held_up(Kind) || Kind <- [dirty_cpu, dirty_io]],
    #{status := active} = sonde:native(),
    sonde_nif:has_schedulers().

%% ---- what cannot be answered

only_natively(_Config) ->
    case sonde_test:side() of
        portable -> {native_off, disabled} = sonde_test:raised(fun sonde:schedulers/0);
        native -> {skip, "portable only"}
    end.

bad_arguments(_Config) ->
    [badarg = sonde_test:raised(fun() -> sonde:schedulers(Opts) end)
     || Opts <- [#{interval => -1}, #{interval => 60001}, #{interval => 1.0}, #{interval => infinity},
                 #{n => 1}, [], interval]],
    ok.

%% ---- from outside

%% Nothing there could answer.
all_stuck_from_outside(Config) ->
    outside(["+SDcpu", "2:2", "+SDio", "2"], Config, fun(Of, Twin) ->
        {Pids, _} = Of(?MODULE, on_the_first, [?MODULE, stuck, [[dirty_cpu, dirty_io, normal], #{interval => 0}]]),
        ok = Of(?MODULE, on_the_first, [?MODULE, the_last_one, []]),
        ok = sonde_test:until(both_are_stuck, fun() ->
            {ok, Rows, _} = Twin(schedulers, [], #{interval => 20}),
            2 =:= length([No || {{normal, No}, _, Attrs} <- Rows, lists:keymember(held_ms, 1, Attrs)])
        end),
        {ok, Rows, _} = Twin(schedulers, [], #{}),
        {Held, Rest} = lists:split(4, Rows),
        true = lists:all(fun({_, _, Attrs}) -> lists:keymember(held_ms, 1, Attrs) end, Held),
        [] = [Row || {_, _, [_ | _]} = Row <- Rest],
        [] = Pids -- running(Held),
        Names = [outside_calls_SUITE:atoms(Name) || {_, _, [_, Name | _]} <- Held],
        [held_up_dirty_cpu, held_up_dirty_io, held_up_last, held_up_normal] = lists:sort(Names),
        Functions = [outside_calls_SUITE:atoms(F) || {_, _, Attrs} <- Held, {current_function, F} <- Attrs],
        [{sonde_foreign_helper, sleep_dirty_cpu, 2}, {sonde_foreign_helper, sleep_dirty_io, 2},
         {sonde_foreign_helper, sleep_normal, 2}, {sonde_foreign_helper, sleep_normal, 2}] = lists:sort(Functions),
        true = lists:all(fun({_, Queue, _}) -> is_integer(Queue) end, Rows)
    end).

%% Both normal ones are in calls of a driver; the diagnosis names these ports.
stuck_in_drivers_from_outside(Config) ->
    outside([], Config, fun(Of, Twin) ->
        Ports = Of(?MODULE, in_drivers, [proplists:get_value(foreign, Config)]),
        ok = sonde_test:until(both_are_stuck, fun() ->
            {ok, Rows, _} = Twin(schedulers, [], #{interval => 20}),
            Ports =:= lists:sort([Port || {_, _, [{port, Port}, {held_ms, _}, {name, "sonde_foreign_driver"}]} <- Rows])
        end),
        {ok, #{suspects := Suspects}, _} = Twin(diagnose, [], #{interval => 600}),
        Accused = [What || #{kind := driver_call, what := What, evidence := [{port_name, <<"sonde_foreign_driver">>}],
                             see := {sonde, schedulers, []}, remedy := driver} <- Suspects],
        {Ports, Ports} = {Ports, lists:sort(Accused)}
    end).

%% After the answer is out. Each port is run by the scheduler of its owner.
in_drivers(Dir) ->
    Self = self(),
    Owners = [spawn_opt(fun() ->
                                Port = sonde_foreign_helper:open_driver(Dir),
                                Self ! {self(), Port},
                                receive go -> sonde_foreign_helper:drive(Port, ?STUCK_MS) end,
                                receive never -> ok end
                        end, [{scheduler, No}]) || No <- [1, 2]],
    Ports = [receive {Owner, Port} -> Port end || Owner <- Owners],
    ok = nights_SUITE:in_a_moment(Owners),
    lists:sort(Ports).

%% After the answer is out, the first one is stuck as well.
the_last_one() ->
    _ = spawn_opt(fun() ->
                          true = register(held_up_last, self()),
                          receive after 500 -> ok end,
                          sonde_foreign_helper:sleep(normal, ?STUCK_MS, x)
                  end, [{scheduler, 1}]),
    ok.

outside(Args, Config, Fun) ->
    case file:read_file_info("/proc/self/maps") of
        {ok, _} -> natively(fun() -> with_twin(Args, Config, Fun) end);
        {error, _} -> {skip, "no /proc"}
    end.

with_twin(Args, Config, Fun) ->
    with_node(Args, Config, fun(Of) ->
        outside_rows_SUITE:twin([], fun(Twin) ->
            ok = outside_rows_SUITE:open(Twin, Of),
            Fun(Of, fun(F, A, Opts) -> outside_rows_SUITE:outside(Twin, F, A, Opts) end)
        end)
    end).

%% The lengths are those of processes that may run on no other scheduler than that one.
run_queues_from_outside(Config) ->
    outside([], Config, fun(Of, Twin) ->
        _ = Of(?MODULE, on_the_first, [?MODULE, stuck, [[normal], #{interval => 0}]]),
        [begin
             ok = Of(?MODULE, on_the_first, [?MODULE, wait_for_the_second, [More]]),
             ok = sonde_test:until({they_wait, All}, fun() ->
                 {ok, Rows, _} = Twin(schedulers, [], #{interval => 0}),
                 [All] =:= [Queue || {{normal, 2}, Queue, _} <- Rows]
             end)
         end || {More, All} <- [{3, 3}, {40, 43}, {1, 44}]],
        ok
    end).

wait_for_the_second(N) ->
    _ = [spawn_opt(fun() -> ok end, [{scheduler, 2}]) || _ <- lists:seq(1, N)],
    ok.
