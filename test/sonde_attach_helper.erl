%% Nodes without sonde, and a home node that loads it onto them, temporarily or for good. They are
%% connected over the loopback interface, with no other program started; names contain ports. Also
%% shows what of sonde a node has, and runs processes at home that are attached to a node.
-module(sonde_attach_helper).

-export([home/1, bare/1, bare/2, stop/1, cookie/0]).
-export([ebin/0, ours/0, has_library/0, modules/1, is_there/1, caught/1, traces/2,
         unload/1]).
-export([attach/3, attach/4, leave/2, from/4, ask/3, kill_keepers/1]).
-export([traced/3, pretend/2]).

-export([made_up/1]).

-export([keep/3, keep/4, keeper/5, order/2, kill_keeper/1, kill_keepers/0, unload/0]).
-export([start_recorder/1, recorded/0]).

-import(sonde_peer_helper, [call/4]).

%% ---- nodes: {Peer, Node}; Dir is their folder for temporary files. They run the side under test.
%% Bare nodes do not connect to each other, and must not drop known nodes because of that.

%% A node with sonde on its path.
home(Dir) ->
    start(Dir, sonde_peer_helper:free_port(), ["-epmd_module", "sonde_epmd", "-pa", ebin()]).

bare(Dir) ->
    bare(Dir, []).

bare(Dir, Args) ->
    Port = sonde_peer_helper:free_port(),
    start(Dir, Port, ["-erl_epmd_port", integer_to_list(Port) | Args]).

start(Dir, Port, Args) ->
    {ok, Peer, Node} =
        peer:start(#{name => "p" ++ integer_to_list(Port), host => "127.0.0.1",
                     longnames => true, connection => standard_io, wait_boot => 60000,
                     env => [{"TMPDIR", Dir}],
                     args => ["-pa", filename:dirname(code:which(?MODULE)),
                              "-start_epmd", "false",
                              "-setcookie", cookie(),
                              "-kernel", "inet_dist_use_interface", "{127,0,0,1}",
                              "prevent_overlapping_partitions", "false" | Args]}),
    ok = call(Peer, application, set_env, [sonde, native, sonde_test:pick(on, off)]),
    {Peer, Node}.

%% Some nodes have already ended.
stop(Peer) ->
    try peer:stop(Peer)
    catch _:_ -> ok
    end.

cookie() -> "sonde_" ++ os:getpid().

%% ---- what a node has of sonde

ebin() ->
    filename:dirname(code:which(sonde)).

ours() ->
    lists:sort([list_to_atom(filename:basename(F, ".beam"))
                || F <- filelib:wildcard(filename:join(ebin(), "sonde*.beam"))]).

has_library() ->
    filelib:wildcard(filename:join(ebin(), "../priv/sonde_nif*.so")) =/= [].

modules(Peer) ->
    Ours = [sonde_guest | ours()],
    lists:sort([M || {M, _} <- call(Peer, code, all_loaded, []), lists:member(M, Ours)]).

is_there(Peer) ->
    lists:any(fun(M) -> call(Peer, code, is_loaded, [M]) =/= false end, [sonde, sonde_guest]).

%% Only we use names with this prefix, apart from the tests' own modules.
traces(Peer, Dir) ->
    Ours = ours(),
    #{modules => modules(Peer),
      processes => [Name || Name <- call(Peer, erlang, registered, []),
                            lists:prefix("sonde", atom_to_list(Name))],
      terms => [Key || {{M, _} = Key, _} <- call(Peer, persistent_term, get, []),
                       lists:member(M, Ours)]
          ++ call(Peer, application, get_all_env, [sonde_vm]),
      path => call(Peer, code, get_path, []),
      files => file:list_dir(Dir)}.

%% Linux reports which signals a process catches.
caught(Peer) ->
    case file:read_file("/proc/" ++ call(Peer, os, getpid, []) ++ "/status") of
        {ok, Status} ->
            {match, [Caught]} = re:run(Status, "SigCgt:\\s*(\\w+)", [{capture, [1], list}]),
            Caught;
        {error, _} ->
            unknown
    end.

%% Makes a node bare again after sonde was loaded onto it.
unload(Peer) ->
    ok = call(Peer, ?MODULE, unload, []),
    [] = modules(Peer),
    ok.

%% Runs on the node, where sonde need not be on any path. Only names decide what is ours: another
%% library's module with such a name goes too.
unload() ->
    Names = [M || {M, _} <- code:all_loaded(), M =/= ?MODULE, is_ours(atom_to_list(M))],
    _ = [code:F(M) || F <- [purge, delete, purge], M <- Names],
    _ = [persistent_term:erase(Key) || {{M, _} = Key, _} <- persistent_term:get(),
                                       lists:member(M, Names)],
    application:unset_env(sonde_vm, kept).

%% The tests' own modules are on the path of every node.
is_ours(Name) ->
    lists:prefix("sonde", Name) andalso
        not filelib:is_file(filename:join(filename:dirname(code:which(?MODULE)), Name ++ ".beam")).

%% A node that says something else of its system than it is, to each call from another node: #{Item =>
%% Value} are answers of erlang:system_info/1.
pretend(Peer, Answers) ->
    ok = call(Peer, ?MODULE, made_up, [Answers]).

%% Runs there. A call from another node runs `execute_call/4' of this module; sonde uses `call/5' for calls of
%% its own node.
made_up(Answers) ->
    Lines = ["-module(erpc).", "-export([execute_call/4, call/5, check_response/3]).",
             "check_response(_, _, _) -> no_response.", % global_group asks, from OTP 29 on
             "call(Node, M, F, A, _) when Node =:= node() -> apply(M, F, A).",
             "execute_call(Ref, erlang, system_info, [Item]) when is_map_key(Item, "
             ++ io_lib:format("~0p", [Answers]) ++ ") -> exit({Ref, return, map_get(Item, "
             ++ io_lib:format("~0p", [Answers]) ++ ")});"
             "execute_call(Ref, M, F, A) ->"
             " exit(try {Ref, return, apply(M, F, A)}"
             " catch throw:Why -> {Ref, throw, Why};"
             " exit:Why -> {Ref, exit, Why};"
             " error:Why:Stack -> {Ref, error, Why, lists:sublist(Stack, 1)} end)."],
    Forms = [begin
                 {ok, Tokens, _} = erl_scan:string(lists:flatten(Line)),
                 {ok, Form} = erl_parse:parse_form(Tokens),
                 Form
             end || Line <- Lines],
    {ok, erpc, Object} = compile:forms(Forms),
    true = code:unstick_mod(erpc),
    {module, erpc} = code:load_binary(erpc, "made_up", Object),
    _ = code:purge(erpc),
    ok.

%% ---- attach: a process Name at home is attached to the node

attach(Home, Name, Node) ->
    attach(Home, Name, Node, #{linger_ms => 0}).

attach(Home, Name, Node, Opts) ->
    call(Home, ?MODULE, keep, [Name, Node, sonde_bundle:ours(), Opts]).

leave(Home, Name) ->
    call(Home, ?MODULE, order, [Name, close]).

from(Home, Node, Function, Args) ->
    call(Home, ?MODULE, ask, [Node, Function, Args]).

ask(Node, Function, Args) ->
    {Module, Named} = sonde_remote_name:on(Node, sonde, Function),
    erpc:call(Node, Module, Named, Args, 60000).

kill_keepers(Home) ->
    call(Home, ?MODULE, kill_keepers, []).

%% ---- calls

%% Returns the calls [{Function, Args}] that the node makes of these functions, [{Module,
%% Function}], while Fun runs.
traced(Peer, Functions, Fun) ->
    ok = call(Peer, ?MODULE, start_recorder, [Functions]),
    _ = Fun(),
    call(Peer, ?MODULE, recorded, []).

start_recorder(Functions) ->
    Parent = self(),
    {Recorder, Ref} = spawn_monitor(fun() -> recorder(Parent, Functions) end),
    receive
        {ready, Recorder} -> true = demonitor(Ref, [flush]), ok;
        {'DOWN', Ref, process, Recorder, Why} -> error({recorder, Why})
    end.

recorder(Parent, Functions) ->
    true = register(recorder, self()),
    _ = erlang:trace(all, true, [call]),
    _ = [erlang:trace_pattern({M, F, '_'}, true, [global]) || {M, F} <- Functions],
    Parent ! {ready, self()},
    record([]).

record(Calls) ->
    receive
        {trace, _, call, {_, F, Args}} -> record([{F, Args} | Calls]);
        {what, From} -> From ! {recorded, lists:reverse(Calls)}
    end.

recorded() ->
    Ref = erlang:trace_delivered(all),
    receive {trace_delivered, all, Ref} -> ok end,
    Mon = monitor(process, recorder),
    recorder ! {what, self()},
    Calls = receive {recorded, Recorded} -> Recorded end,
    receive {'DOWN', Mon, process, _, _} -> ok end,
    Calls.

%% ---- processes that are attached to a node

keep(Name, Node, Ours) ->
    keep(Name, Node, Ours, #{linger_ms => 0}).

keep(Name, Node, Ours, Opts) ->
    {Pid, Ref} = spawn_monitor(?MODULE, keeper, [self(), Name, Node, Ours, Opts]),
    receive
        {Pid, Answer} -> true = demonitor(Ref, [flush]), Answer;
        {'DOWN', Ref, process, Pid, Why} -> error({keeper, Name, Why})
    end.

keeper(Parent, Name, Node, Ours, Opts) ->
    true = register(Name, self()),
    case sonde_attach:open(Node, Ours, Opts) of
        {ok, #{how := How} = Attached} ->
            Parent ! {self(), {ok, How}},
            receive {order, From, close} -> From ! {self(), sonde_attach:close(Attached)} end;
        Error ->
            true = unregister(Name),
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

kill_keepers() ->
    sonde_test:stop([Pid || Pid <- processes(),
                            process_info(Pid, initial_call)
                                =:= {initial_call, {?MODULE, keeper, 5}}]).
