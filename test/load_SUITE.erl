%% remote_load: sonde comes to nodes that do not have it, and leaves nothing on their disks; other
%% modules as with recon. Each case has its own nodes, joined over the loopback interface.
-module(load_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [comes_to_a_bare_node, answers_as_well_as_at_home, says_what_happened_for_each_node,
     is_there_already, another_build_is_left_alone, takes_all_back_when_it_fails,
     library_is_seen_by_its_owner_only, nothing_stays_on_disk, embedded_node,
     without_a_library_it_is_portable, to_all_nodes, other_modules_as_recon,
     bad_arguments, no_message_reaches_the_caller].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), Case),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_Case, _Config) ->
    ok.

%% ---- sonde

comes_to_a_bare_node(Config) ->
    {Home, [{Bare, Node}]} = nodes_of(1, Config),
    non_existing = peer:call(Bare, code, which, [sonde]),
    [{Node, {ok, Status}}] = at(Home, [[Node], sonde]),
    Status = (peer:call(Bare, sonde, native, []))#{counters := maps:get(counters, Status)},
    right_side(Status),
    3 = length(peer:call(Bare, sonde, proc_count, [memory, 3])),
    stop(Home, [Bare]).

%% Every call that a person has works there; nothing was forgotten.
answers_as_well_as_at_home(Config) ->
    {Home, [{Bare, Node}]} = nodes_of(1, Config),
    [{Node, {ok, _}}] = at(Home, [Node, sonde]),
    [_] = peer:call(Bare, sonde, proc_window, [reductions, 1, 1]),
    [_] = peer:call(Bare, sonde, bin_leak, [1]),
    #{rows := [_, _]} = peer:call(Bare, sonde, bin_leak, [2, #{}]),
    [_] = peer:call(Bare, sonde, proc_count, [monitor_count, 1, #{self => true}]),
    Brought = [M || {M, _} <- peer:call(Bare, code, all_loaded, []), is_ours(M)],
    Expected = ours(),
    Expected = lists:sort(Brought),
    stop(Home, [Bare]).

says_what_happened_for_each_node(Config) ->
    {Home, [{One, Node1}, {Two, Node2}]} = nodes_of(2, Config),
    [{Node1, {ok, _}}] = at(Home, [[Node1], sonde]),
    Down = 'p1@127.0.0.1',
    [{Node2, {ok, _}}, {Down, {error, noconnection}}, {Node1, {already, _}}] =
        at(Home, [[Node2, Down, Node1], sonde]),
    [] = at(Home, [[], sonde]),
    stop(Home, [One, Two]).

is_there_already(Config) ->
    {Home, [{Bare, Node}]} = nodes_of(1, Config),
    Self = peer:call(Home, erlang, node, []),
    [{Self, {already, Status}}] = at(Home, [Self, sonde]),
    right_side(Status),
    %% Not loaded yet, but on the node's code path.
    _ = [true = peer:call(Bare, code, add_patha, [Dir]) || Dir <- [ebin()]],
    [{Node, {already, _}}] = at(Home, [Node, sonde]),
    stop(Home, [Bare]).

another_build_is_left_alone(Config) ->
    {Home, [{Bare, Node}]} = nodes_of(1, Config),
    Other = make_module(Bare, ["-module(sonde).", "-export([native/0]).",
                               "native() -> #{status => other}."]),
    [{Node, {error, {other_build, #{status := other}}}}] = at(Home, [[Node], sonde]),
    Other = peer:call(Bare, sonde, module_info, [md5]),
    false = peer:call(Bare, code, is_loaded, [sonde_procs]),
    stop(Home, [Bare]).

takes_all_back_when_it_fails(Config) ->
    {Home, [{Bare, Node}]} = nodes_of(1, Config),
    case has_library() of
        true ->
            true = peer:call(Bare, os, putenv, ["TMPDIR", "/nowhere/at/all"]),
            [{Node, {error, {no_folder, enoent}}}] = at(Home, [[Node], sonde]),
            [] = [M || {M, _} <- peer:call(Bare, code, all_loaded, []), is_ours(M)],
            true = peer:call(Bare, os, putenv, ["TMPDIR", proplists:get_value(dir, Config)]),
            [{Node, {ok, _}}] = at(Home, [[Node], sonde]),
            stop(Home, [Bare]);
        false ->
            stop(Home, [Bare]),
            {skip, "no shared object was built"}
    end.

%% The node's own trace shows what was made, and with which mode.
library_is_seen_by_its_owner_only(Config) ->
    {Home, [{Bare, Node}]} = nodes_of(1, Config),
    Calls = traced(Bare, fun() -> [{Node, {ok, _}}] = at(Home, [[Node], sonde]) end),
    case has_library() of
        true ->
            [Dir | Below] = [D || {make_dir, [D]} <- Calls],
            true = lists:prefix(filename:join(proplists:get_value(dir, Config), "sonde-"), Dir),
            [] = [D || D <- Below, not lists:prefix(Dir ++ "/", D)],
            %% Closed before anything is in it.
            [{make_dir, [Dir]}, {change_mode, [Dir, 8#700]} | Later] = Calls,
            [] = [C || {make_dir, [D]} = C <- Later, D =:= Dir],
            Written = [F || {write_file, [F, _, [exclusive]]} <- Later],
            Written = [F || {change_mode, [F, 8#600]} <- Later],
            [] = [C || {write_file, Args} = C <- Later, length(Args) =/= 3],
            true = length(Written) >= 2;
        false ->
            [] = Calls
    end,
    stop(Home, [Bare]).

nothing_stays_on_disk(Config) ->
    {Home, [{Bare, Node}]} = nodes_of(1, Config),
    Path = peer:call(Bare, code, get_path, []),
    [{Node, {ok, _}}] = at(Home, [[Node], sonde]),
    {ok, []} = file:list_dir(proplists:get_value(dir, Config)),
    Path = peer:call(Bare, code, get_path, []),
    3 = length(peer:call(Bare, sonde, proc_count, [memory, 3])),
    stop(Home, [Bare]).

embedded_node(Config) ->
    {Home, [{Bare, Node}]} = nodes_of(1, Config, ["-mode", "embedded"]),
    embedded = peer:call(Bare, code, get_mode, []),
    [{Node, {ok, Status}}] = at(Home, [[Node], sonde]),
    right_side(Status),
    stop(Home, [Bare]).

%% As it is for a node of another system: the modules come alone, and answer.
without_a_library_it_is_portable(Config) ->
    Alone = filename:join(proplists:get_value(dir, Config), "alone/ebin"),
    ok = filelib:ensure_dir(filename:join(Alone, "x")),
    _ = [{ok, _} = file:copy(F, filename:join(Alone, filename:basename(F)))
         || F <- filelib:wildcard(filename:join(ebin(), "*"))],
    {Home, [{Bare, Node}]} = nodes_of(1, Config, []),
    _ = [true = peer:call(Home, code, F, [D])
         || {F, D} <- [{del_path, ebin()}, {add_patha, Alone}]],
    _ = [peer:call(Home, code, F, [M]) || M <- ours(), F <- [purge, delete, purge]],
    [{Node, {ok, #{status := {off, Why}}}}] = at(Home, [[Node], sonde]),
    true = Why =:= disabled orelse element(1, Why) =:= not_loaded,
    3 = length(peer:call(Bare, sonde, proc_count, [memory, 3])),
    stop(Home, [Bare]).

to_all_nodes(Config) ->
    {Home, [{One, Node1}, {Two, Node2}]} = nodes_of(2, Config),
    [] = peer:call(Home, sonde, remote_load, [sonde]),
    badarg = raised(Home, remote_load, [sonde_test]),
    _ = [true = peer:call(Home, net_kernel, connect_node, [N]) || N <- [Node1, Node2]],
    Result = peer:call(Home, sonde, remote_load, [sonde]),
    Expected = lists:sort([Node1, Node2]),
    Expected = lists:sort([N || {N, {ok, _}} <- Result]),
    {[{module, sonde_test}, {module, sonde_test}], []} =
        peer:call(Home, sonde, remote_load, [sonde_test]),
    stop(Home, [One, Two]).

%% ---- other modules

other_modules_as_recon(Config) ->
    {Home, [{Bare, Node}]} = nodes_of(1, Config),
    Down = 'p1@127.0.0.1',
    {[{module, sonde_test}], []} = at(Home, [[Node], sonde_test]),
    {[{module, sonde_test}], []} = at(Home, [Node, sonde_test]),
    {[{module, sonde_test}], [Down]} = at(Home, [[Node, Down], sonde_test]),
    [{[{module, sonde_test}], []}, {[{module, sonde_best}], []}] =
        at(Home, [[Node], [sonde_test, sonde_best]]),
    [] = at(Home, [[Node], []]),
    [{[{module, sonde_test}], []}, [{Node, _}]] = at(Home, [[Node], [sonde_test, sonde]]),
    stop(Home, [Bare]).

bad_arguments(Config) ->
    {Home, [{Bare, Node}]} = nodes_of(1, Config),
    {badmatch, error} = raised(Home, remote_load, [[Node], no_such_module]),
    badarg = raised(Home, remote_load, [[], sonde_test]),
    badarg = raised(Home, remote_load, [["node"], sonde]),
    badarg = raised(Home, remote_load, [5, sonde]),
    stop(Home, [Bare]).

no_message_reaches_the_caller(Config) ->
    {Home, [{Bare, Node}]} = nodes_of(1, Config),
    {[{Node, {ok, _}}, {'p1@127.0.0.1', {error, _}}], []} =
        peer:call(Home, ?MODULE, load_and_look, [[Node, 'p1@127.0.0.1']]),
    stop(Home, [Bare]).

load_and_look(Nodes) ->
    {sonde:remote_load(Nodes, sonde), sonde_test:mailbox()}.

%% ---- nodes

%% One with sonde on its path, which loads, and N without. Their folder for temporary files is the
%% test's. Nothing is started beside them: names are ports.
nodes_of(N, Config) ->
    nodes_of(N, Config, []).

nodes_of(N, Config, Args) ->
    {Home, _} = start(["-epmd_module", "sonde_epmd", "-pa", ebin()], Config, free_port()),
    {Home, [begin
                Port = free_port(),
                start(["-erl_epmd_port", integer_to_list(Port) | Args], Config, Port)
            end || _ <- lists:seq(1, N)]}.

start(Args, Config, Port) ->
    {ok, Peer, Node} =
        peer:start_link(#{name => "p" ++ integer_to_list(Port), host => "127.0.0.1",
                          longnames => true, connection => standard_io,
                          env => [{"TMPDIR", proplists:get_value(dir, Config)}],
                          args => ["-pa", filename:dirname(code:which(sonde_epmd)),
                                   "-start_epmd", "false",
                                   "-setcookie", "load_suite_" ++ os:getpid(),
                                   "-kernel", "inet_dist_use_interface", "{127,0,0,1}" | Args]}),
    ok = peer:call(Peer, application, set_env, [sonde, native, on_off()]),
    {Peer, Node}.

stop(Home, Bare) ->
    _ = [ok = peer:stop(Peer) || Peer <- [Home | Bare]],
    ok.

free_port() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.

at(Home, Args) ->
    peer:call(Home, sonde, remote_load, Args, 60000).

raised(Peer, Function, Args) ->
    peer:call(Peer, ?MODULE, raised_here, [Function, Args]).

raised_here(Function, Args) ->
    try apply(sonde, Function, Args) of
        Result -> {returned, Result}
    catch
        error:Why -> Why
    end.

%% What is asked of the file module on that node while Fun runs.
traced(Peer, Fun) ->
    ok = peer:call(Peer, ?MODULE, start_recorder, []),
    _ = Fun(),
    peer:call(Peer, ?MODULE, recorded, []).

start_recorder() ->
    Parent = self(),
    Recorder = spawn(fun() ->
                             _ = erlang:trace(all, true, [call]),
                             _ = [erlang:trace_pattern({file, F, '_'}, true, [global])
                                  || F <- [make_dir, change_mode, write_file]],
                             Parent ! {ready, self()},
                             record([])
                     end),
    true = register(recorder, Recorder),
    receive {ready, Recorder} -> ok end.

record(Calls) ->
    receive
        {trace, _, call, {file, F, Args}} -> record([{F, Args} | Calls]);
        {what, From} -> From ! {recorded, lists:reverse(Calls)}
    end.

recorded() ->
    Ref = erlang:trace_delivered(all),
    receive {trace_delivered, all, Ref} -> ok end,
    recorder ! {what, self()},
    receive {recorded, Calls} -> Calls end.

%% A module of that name, on that node only.
make_module(Peer, Lines) ->
    Forms = [begin
                 {ok, Tokens, _} = erl_scan:string(Line),
                 {ok, Form} = erl_parse:parse_form(Tokens),
                 Form
             end || Line <- Lines],
    {ok, Module, Object} = compile:forms(Forms),
    {module, Module} = peer:call(Peer, code, load_binary, [Module, "made", Object]),
    peer:call(Peer, Module, module_info, [md5]).

on_off() ->
    case sonde_test:side() of native -> on; portable -> off end.

right_side(#{status := Status}) ->
    Status = case sonde_test:side() of native -> active; portable -> {off, disabled} end.

ebin() ->
    filename:dirname(code:which(sonde)).

ours() ->
    lists:sort([list_to_atom(filename:basename(F, ".beam"))
                || F <- filelib:wildcard(filename:join(ebin(), "sonde*.beam"))]).

is_ours(Module) ->
    lists:member(Module, ours()).

has_library() ->
    filelib:wildcard(filename:join(ebin(), "../priv/sonde_nif*.so")) =/= [].
