%% Sonde is lent to a node that does not have it, and nothing is left when the last of those who
%% look at the node has gone, however that comes. Each case has its own nodes, joined over the
%% loopback interface.
-module(attach_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [answers_as_at_home, nothing_is_left_after_leaving, can_come_again,
     nothing_is_left_after_the_end_of_who_attached, nothing_is_left_when_its_node_is_killed,
     nothing_is_left_when_nobody_is_heard_of, who_comes_again_soon_finds_it_there,
     first_to_leave_takes_nothing_away,
     two_who_come_at_the_same_time, node_that_has_it_is_used_as_it_is,
     what_was_loaded_anew_meanwhile_stays, brought_for_good_it_stays,
     brought_for_good_while_it_lingers_it_stays,
     other_system_gets_no_library, no_folder_no_library, module_of_that_name_is_left_alone,
     damaged_module_leaves_nothing, embedded_node, node_that_is_not_there,
     signals_are_handled_as_before,
     janitor_is_in_no_row, no_message_reaches_the_caller].

%% Nodes that are answered from the portable side are among the cases.
init_per_suite(Config) ->
    case sonde_test:side() of
        native -> sonde_test:init(Config);
        portable -> {skip, "what is lent has both sides, whatever that of the lender"}
    end.

end_per_suite(_Config) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), Case),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_Case, _Config) ->
    ok.

%% ---- one who looks

answers_as_at_home(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        {ok, How} = attach(Home, a, Node),
        How = expected(),
        3 = length(from(Home, Node, proc_count, [memory, 3])),
        [_] = from(Home, Node, proc_window, [reductions, 1, 1]),
        [_] = from(Home, Node, bin_leak, [1]),
        #{status := Status} = from(Home, Node, native, []),
        Status = status(),
        true = is_there(Bare),
        ok = leave(Home, a)
    end).

nothing_is_left_after_leaving(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        Before = traces(Bare, Config),
        {ok, _} = attach(Home, a, Node),
        _ = from(Home, Node, proc_count, [memory, 3]),
        {ok, []} = file:list_dir(dir(Config)),
        ok = leave(Home, a),
        as_before(Bare, Before, Config)
    end).

can_come_again(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        Before = traces(Bare, Config),
        _ = [begin
                 {ok, How} = attach(Home, a, Node),
                 How = expected(),
                 #{status := Status} = from(Home, Node, native, []),
                 Status = status(),
                 ok = leave(Home, a)
             end || _ <- lists:seq(1, 5)],
        as_before(Bare, Before, Config)
    end).

%% ---- ends that are no leaving

nothing_is_left_after_the_end_of_who_attached(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        Before = traces(Bare, Config),
        {ok, _} = attach(Home, a, Node),
        ok = peer:call(Home, ?MODULE, kill_keeper, [a]),
        as_before(Bare, Before, Config)
    end).

nothing_is_left_when_its_node_is_killed(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        Before = traces(Bare, Config),
        {ok, _} = attach(Home, a, Node),
        %% In the middle of a call, too.
        ok = peer:call(Home, ?MODULE, call_on, [Node]),
        "" = os:cmd("kill -9 " ++ peer:call(Home, os, getpid, [])),
        as_before(Bare, Before, Config)
    end).

%% A connection that breaks without a word: who attached is stopped, and says nothing any more.
nothing_is_left_when_nobody_is_heard_of(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        Before = traces(Bare, Config),
        {ok, _} = peer:call(Home, ?MODULE, keep, [a, Node, sonde_files:ours(),
                                             #{beat_ms => 500}], 120000),
        Pid = peer:call(Home, os, getpid, []),
        "" = os:cmd("kill -STOP " ++ Pid),
        try as_before(Bare, Before, Config)
        after os:cmd("kill -CONT " ++ Pid)
        end
    end).

%% Only after leaving: a connection that breaks leaves nothing for later.
who_comes_again_soon_finds_it_there(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        Before = traces(Bare, Config),
        Attach = fun(Name) -> peer:call(Home, ?MODULE, keep, [Name, Node, sonde_files:ours(),
                                                              #{linger_ms => 3600000}], 120000)
                 end,
        {ok, _} = Attach(a),
        ok = leave(Home, a),
        {ok, others} = Attach(b),
        3 = length(from(Home, Node, proc_count, [memory, 3])),
        ok = leave(Home, b),
        {ok, others} = Attach(c),
        "" = os:cmd("kill -9 " ++ peer:call(Home, os, getpid, [])),
        as_before(Bare, Before, Config)
    end).

%% ---- several

first_to_leave_takes_nothing_away(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        Before = traces(Bare, Config),
        {Other, _} = home(Config),
        {ok, _} = attach(Home, a, Node),
        {ok, others} = attach(Other, b, Node),
        {ok, others} = attach(Home, c, Node),
        ok = leave(Home, a),
        3 = length(from(Other, Node, proc_count, [memory, 3])),
        ok = leave(Home, c),
        3 = length(from(Other, Node, proc_count, [memory, 3])),
        true = is_there(Bare),
        ok = leave(Other, b),
        as_before(Bare, Before, Config),
        ok = peer:stop(Other)
    end).

two_who_come_at_the_same_time(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        Before = traces(Bare, Config),
        Names = [a, b, c, d],
        _ = [begin
                 Hows = [element(2, R) || R <- peer:call(Home, ?MODULE, attach_all, [Names, Node],
                                                         120000)],
                 [_] = Hows -- [others || _ <- Names],
                 3 = length(from(Home, Node, proc_count, [memory, 3])),
                 _ = [ok = leave(Home, Name) || Name <- Names]
             end || _ <- lists:seq(1, 3)],
        as_before(Bare, Before, Config)
    end).

%% ---- what is not ours

node_that_has_it_is_used_as_it_is(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        true = peer:call(Bare, code, add_patha, [ebin()]),
        {ok, has_it} = attach(Home, a, Node),
        undefined = peer:call(Bare, erlang, whereis, [sonde_janitor]),
        3 = length(from(Home, Node, proc_count, [memory, 3])),
        ok = leave(Home, a),
        {file, File} = peer:call(Bare, code, is_loaded, [sonde]),
        File = filename:join(ebin(), "sonde.beam"),
        3 = length(peer:call(Bare, sonde, proc_count, [memory, 3]))
    end).

what_was_loaded_anew_meanwhile_stays(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        {ok, _} = attach(Home, a, Node),
        {sonde_best, Object, _} = code:get_object_code(sonde_best),
        {module, _} = peer:call(Bare, code, load_binary, [sonde_best, "theirs", Object]),
        ok = leave(Home, a),
        ok = sonde_test:until(fun() -> sonde_modules(Bare) =:= [sonde_best] end),
        {file, "theirs"} = peer:call(Bare, code, is_loaded, [sonde_best])
    end).

brought_for_good_it_stays(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        {ok, _} = attach(Home, a, Node),
        [{Node, {already, _}}] = peer:call(Home, sonde, remote_load, [[Node], sonde], 60000),
        ok = leave(Home, a),
        true = is_there(Bare),
        3 = length(peer:call(Bare, sonde, proc_count, [memory, 3]))
    end).

%% The one who left may come again, so it is still there; and from now on it is somebody's.
brought_for_good_while_it_lingers_it_stays(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        {ok, _} = peer:call(Home, ?MODULE, keep, [a, Node, sonde_files:ours(),
                                                  #{linger_ms => 8000}], 120000),
        ok = leave(Home, a),
        [{Node, {already, _}}] = peer:call(Home, sonde, remote_load, [[Node], sonde], 60000),
        ok = sonde_test:until(fun() -> undefined =:= peer:call(Bare, erlang, whereis,
                                                               [sonde_janitor])
                              end),
        true = is_there(Bare),
        3 = length(peer:call(Bare, sonde, proc_count, [memory, 3]))
    end).

module_of_that_name_is_left_alone(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        {sonde_best, Object, _} = code:get_object_code(sonde_best),
        {module, _} = peer:call(Bare, code, load_binary, [sonde_best, "theirs", Object]),
        {error, {taken, [sonde_best]}} = attach(Home, a, Node),
        ok = sonde_test:until(fun() -> sonde_modules(Bare) =:= [sonde_best] end),
        undefined = peer:call(Bare, erlang, whereis, [sonde_janitor])
    end).

%% ---- other systems

%% The library was built for another processor, or another release.
other_system_gets_no_library(Config) ->
    _ = [with(1, Config, fun(Home, [{Bare, Node}]) ->
             Before = traces(Bare, Config),
             {ok, {portable, {other_system, [{Item, _}]}}} =
                 peer:call(Home, ?MODULE, attach_as, [a, Node, Item, Value], 120000),
             #{status := {off, _}} = from(Home, Node, native, []),
             3 = length(from(Home, Node, proc_count, [memory, 3])),
             ok = leave(Home, a),
             as_before(Bare, Before, Config)
         end) || has_library(), {Item, Value} <- [{system_architecture, "riscv64-unknown-linux"},
                                                  {otp_release, "17"}]],
    ok.

no_folder_no_library(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        Before = traces(Bare, Config),
        true = peer:call(Bare, os, putenv, ["TMPDIR", "/nowhere/at/all"]),
        {ok, {portable, Why}} = attach(Home, a, Node),
        Why = case has_library() of true -> {no_folder, enoent}; false -> no_library end,
        3 = length(from(Home, Node, proc_count, [memory, 3])),
        ok = leave(Home, a),
        as_before(Bare, Before, Config)
    end).

damaged_module_leaves_nothing(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        Before = traces(Bare, Config),
        {error, {not_loaded, [{sonde_best, _}]}} =
            peer:call(Home, ?MODULE, attach_damaged, [a, Node, sonde_best], 120000),
        as_before(Bare, Before, Config),
        {error, {not_loaded, [{sonde_janitor, _}]}} =
            peer:call(Home, ?MODULE, attach_damaged, [a, Node, sonde_janitor], 120000),
        as_before(Bare, Before, Config)
    end).

%% Linux tells which signals a process catches.
signals_are_handled_as_before(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        Before = traces(Bare, Config),
        case caught(Bare) of
            {error, Why} ->
                {skip, Why};
            Caught ->
                _ = [begin
                         {ok, _} = attach(Home, a, Node),
                         #{reader := Reader} = from(Home, Node, native, []),
                         true = Reader =/= guarded orelse caught(Bare) =/= Caught,
                         3 = length(from(Home, Node, proc_count, [memory, 3])),
                         ok = leave(Home, a),
                         as_before(Bare, Before, Config),
                         ok = sonde_test:until(fun() -> caught(Bare) =:= Caught end)
                     end || _ <- lists:seq(1, 3)]
        end
    end).

caught(Bare) ->
    case file:read_file("/proc/" ++ peer:call(Bare, os, getpid, []) ++ "/status") of
        {ok, Status} ->
            {match, [Caught]} = re:run(Status, "SigCgt:\\s*(\\w+)", [{capture, [1], list}]),
            Caught;
        {error, _} ->
            {error, "no /proc"}
    end.

embedded_node(Config) ->
    with(1, Config, ["-mode", "embedded"], fun(Home, [{Bare, Node}]) ->
        Before = traces(Bare, Config),
        {ok, How} = attach(Home, a, Node),
        How = expected(),
        3 = length(from(Home, Node, proc_count, [memory, 3])),
        ok = leave(Home, a),
        as_before(Bare, Before, Config)
    end).

node_that_is_not_there(Config) ->
    with(0, Config, fun(Home, []) ->
        {error, noconnection} = attach(Home, a, 'p1@127.0.0.1')
    end).

%% ---- manners

janitor_is_in_no_row(Config) ->
    with(1, Config, fun(Home, [{Bare, Node}]) ->
        {ok, _} = attach(Home, a, Node),
        Janitor = peer:call(Bare, erlang, whereis, [sonde_janitor]),
        true = is_pid(Janitor),
        Pids = [Pid || {Pid, _, _} <- from(Home, Node, proc_count, [memory, 100000])],
        true = length(Pids) > 10,
        false = lists:member(Janitor, Pids),
        ok = leave(Home, a)
    end).

no_message_reaches_the_caller(Config) ->
    with(1, Config, fun(Home, [{_, Node}]) ->
        {{ok, _}, {error, noconnection}, ok, []} =
            peer:call(Home, ?MODULE, attach_and_look, [Node, 'p1@127.0.0.1'], 120000)
    end).

attach_and_look(Node, NoNode) ->
    {ok, Attached} = Opened = sonde_attach:open(Node, sonde_files:ours()),
    Failed = sonde_attach:open(NoNode, sonde_files:ours()),
    Closed = sonde_attach:close(Attached),
    {Opened, Failed, Closed, sonde_test:mailbox()}.

%% ---- at home: a process of that name is attached

attach(Home, Name, Node) ->
    peer:call(Home, ?MODULE, keep, [Name, Node, sonde_files:ours()], 120000).

leave(Home, Name) ->
    peer:call(Home, ?MODULE, order, [Name, close], 120000).

from(Home, Node, Function, Args) ->
    peer:call(Home, erpc, call, [Node, sonde, Function, Args, 60000], 120000).

attach_as(Name, Node, Item, Value) ->
    #{built_for := System} = Ours = sonde_files:ours(),
    keep(Name, Node, Ours#{built_for := lists:keyreplace(Item, 1, System, {Item, Value})}).

attach_damaged(Name, Node, Module) ->
    #{modules := Modules} = Ours = sonde_files:ours(),
    {Module, File, Object} = lists:keyfind(Module, 1, Modules),
    Damaged = binary:part(Object, 0, byte_size(Object) div 2),
    keep(Name, Node, Ours#{modules := lists:keyreplace(Module, 1, Modules,
                                                       {Module, File, Damaged})}).

attach_all(Names, Node) ->
    Ours = sonde_files:ours(),
    Parent = self(),
    Pids = [spawn(fun() -> Parent ! {self(), keep(Name, Node, Ours)} end) || Name <- Names],
    [receive {Pid, Answer} -> Answer end || Pid <- Pids].

keep(Name, Node, Ours) ->
    keep(Name, Node, Ours, #{linger_ms => 0}).

keep(Name, Node, Ours, Opts) ->
    Parent = self(),
    Pid = spawn(fun() -> keeper(Parent, Name, Node, Ours, Opts) end),
    receive {Pid, Answer} -> Answer end.

keeper(Parent, Name, Node, Ours, Opts) ->
    case sonde_attach:open(Node, Ours, Opts) of
        {ok, #{how := How} = Attached} ->
            true = register(Name, self()),
            Parent ! {self(), {ok, How}},
            receive {order, From, close} -> From ! {self(), sonde_attach:close(Attached)} end;
        Error ->
            Parent ! {self(), Error}
    end.

order(Name, Order) ->
    Pid = whereis(Name),
    Ref = monitor(process, Pid),
    Pid ! {order, self(), Order},
    receive {'DOWN', Ref, process, Pid, normal} -> ok end,
    receive {Pid, Answer} -> Answer end.

kill_keeper(Name) ->
    sonde_test:stop(whereis(Name)).

%% Calls that go on over there when their caller has gone.
call_on(Node) ->
    _ = [spawn(fun() -> erpc:call(Node, sonde, proc_window, [memory, 3, 100000]) end)
         || _ <- lists:seq(1, 5)],
    timer:sleep(200).

%% ---- what is seen of us on a node

traces(Bare, Config) ->
    {sonde_modules(Bare), processes_of_ours(Bare), peer:call(Bare, code, get_path, []),
     element(2, file:list_dir(dir(Config))), terms_of_ours(Bare)}.

as_before(Bare, Before, Config) ->
    ok = sonde_test:until(fun() -> traces(Bare, Config) =:= Before end).

sonde_modules(Bare) ->
    lists:sort([M || {M, _} <- peer:call(Bare, code, all_loaded, []), is_ours(M)]).

processes_of_ours(Bare) ->
    [Name || Name <- peer:call(Bare, erlang, registered, []), is_ours(Name)].

terms_of_ours(Bare) ->
    [Key || {{M, _} = Key, _} <- peer:call(Bare, persistent_term, get, []), is_ours(M)].

%% Suites and their helpers are there as well.
is_ours(Name) ->
    Text = atom_to_list(Name),
    lists:prefix("sonde", Text) andalso not lists:member(Name, [sonde_test, sonde_epmd]).

is_there(Bare) ->
    peer:call(Bare, code, is_loaded, [sonde]) =/= false.

expected() ->
    case has_library() of
        true -> native;
        false -> {portable, no_library}
    end.

status() ->
    case sonde_test:side() of native -> active; portable -> {off, disabled} end.

has_library() ->
    filelib:wildcard(filename:join(ebin(), "../priv/sonde_nif*.so")) =/= [].

%% ---- nodes, as in load_SUITE: nothing is started beside them, names are ports

with(N, Config, Test) ->
    with(N, Config, [], Test).

with(N, Config, Args, Test) ->
    {Home, _} = home(Config),
    Bare = [begin
                Port = load_SUITE:free_port(),
                start(["-erl_epmd_port", integer_to_list(Port) | Args], Config, Port)
            end || _ <- lists:seq(1, N)],
    try Test(Home, Bare)
    after [stop(Peer) || {Peer, _} <- [{Home, home} | Bare]]
    end.

%% Some have ended by then.
stop(Peer) ->
    try peer:stop(Peer)
    catch _:_ -> ok
    end.

home(Config) ->
    start(["-epmd_module", "sonde_epmd", "-pa", ebin()], Config, load_SUITE:free_port()).

start(Args, Config, Port) ->
    {ok, Peer, Node} =
        peer:start(#{name => "p" ++ integer_to_list(Port), host => "127.0.0.1",
                     longnames => true, connection => standard_io, wait_boot => 60000,
                     env => [{"TMPDIR", dir(Config)}],
                     args => ["-pa", filename:dirname(code:which(sonde_epmd)),
                              "-start_epmd", "false",
                              "-setcookie", cookie(),
                              "-kernel", "inet_dist_use_interface", "{127,0,0,1}" | Args]}),
    ok = peer:call(Peer, application, set_env, [sonde, native, on_off()]),
    {Peer, Node}.

cookie() -> "attach_suite_" ++ os:getpid().

on_off() ->
    case sonde_test:side() of native -> on; portable -> off end.

dir(Config) -> proplists:get_value(dir, Config).

ebin() ->
    filename:dirname(code:which(sonde)).
