%% Peer nodes, for what must not happen to the node that runs the tests. They are connected by
%% standard input and output, without distribution. They run the shipped build, or the test build,
%% whose offsets can be set wrong and whose allocations can fail.
-module(sonde_peer_helper).

-export([needs_test_build/0, start/1, start/2, start_node/1, start_node/2, stop/1, call/4, call/5, is_alive/1]).
-export([with/2, with/3, with_nodes/2, with_nodes/3, free_port/0]).

%% Returns ok, or a reason to skip.
needs_test_build() ->
    case {os:getenv("SONDE_TEST_EBIN"), os:getenv("SONDE_TEST_NIF")} of
        {Ebin, Nif} when is_list(Ebin), is_list(Nif) -> ok;
        _ -> {skip, "no build for tests (scripts/suite makes one)"}
    end.

start(Build) -> start(Build, []).

%% Args are the emulator's. The peer runs the side under test.
start(Build, Args) ->
    {ok, Peer, _} = peer:start(#{connection => standard_io, wait_boot => 60000,
                                 args => paths(Build) ++ Args}),
    _ = [ok = call(Peer, application, set_env, [sonde, native, off])
         || sonde_test:side() =:= portable],
    %% From OTP 27, the first process to call a module holds its code, a binary, until it collects.
    _ = [{module, M} = call(Peer, code, ensure_loaded, [M]) || M <- [sonde_kinds_helper, sonde_test]],
    Peer.

%% Starts a node that others can connect to, over the loopback interface and without epmd.
start_node(Build) -> start_node(Build, []).

start_node(Build, Args) ->
    Port = free_port(),
    Name = "p" ++ integer_to_list(Port),
    Peer = start(Build, ["-name", Name ++ "@127.0.0.1",
                         "-start_epmd", "false", "-epmd_module", "sonde_epmd",
                         "-setcookie", "sonde_" ++ os:getpid(),
                         "-kernel", "inet_dist_use_interface", "{127,0,0,1}" | Args]),
    {Peer, list_to_atom(Name ++ "@127.0.0.1")}.

%% Returns the result of Fun, called with a peer, or with nodes [{Peer, Node}]: N of them, or one
%% for each of these builds. They end when Fun returns or fails.
with(Build, Fun) -> with(Build, [], Fun).

with(Build, Args, Fun) ->
    Peer = start(Build, Args),
    ended(fun() -> Fun(Peer) end, [Peer]).

with_nodes(Builds, Fun) -> with_nodes(Builds, [], Fun).

with_nodes(N, Args, Fun) when is_integer(N) -> with_nodes(lists:duplicate(N, shipped), Args, Fun);
with_nodes(Builds, Args, Fun) ->
    Nodes = [start_node(Build, Args) || Build <- Builds],
    ended(fun() -> Fun(Nodes) end, [Peer || {Peer, _} <- Nodes]).

%% A node that is gone is a failure, but the first failure is reported.
ended(Fun, Peers) ->
    try Fun() of
        Result ->
            _ = [ok = stop(Peer) || Peer <- Peers],
            Result
    catch
        Class:Why:Stack ->
            _ = [try stop(Peer) catch exit:noproc -> ok end || Peer <- Peers],
            erlang:raise(Class, Why, Stack)
    end.

%% A port that no process listens on at this moment.
free_port() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.

stop(Peer) -> ok = peer:stop(Peer).

call(Peer, M, F, A) -> call(Peer, M, F, A, 240000).

call(Peer, M, F, A, Ms) -> peer:call(Peer, M, F, A, Ms).

is_alive(Peer) ->
    try call(Peer, erlang, system_info, [otp_release]) of
        Release -> Release =:= erlang:system_info(otp_release)
    catch
        _:_ -> false
    end.

paths(bare) -> ["-pa", tests()];
paths(shipped) -> ["-pa", filename:dirname(code:which(sonde)), tests()];
paths(test) -> ["-pa", os:getenv("SONDE_TEST_EBIN"), tests()].

tests() -> filename:dirname(code:which(?MODULE)).
