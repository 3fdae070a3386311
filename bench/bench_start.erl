%% What the first call costs: in a node that never made a native call, and by the command on a node
%% that does not have sonde; and what the command costs that looks from outside. Each run has a new node, which speaks
%% over standard input and output.
-module(bench_start).

-export([rows/3, with_node/2, named/2, run/3, ns/1]).

-define(MS, 1000000).
-define(COOKIE, "sonde_bench").

%% @doc Emits the rows, from so many runs, the last ones of a node with so many processes. BENCH_COMMAND is the file
%% that `make escript' makes, or unset.
-spec rows(pos_integer(), pos_integer(), fun((map()) -> term())) -> ok.
rows(Runs, Processes, Emit) ->
    Row = fun(Call, MostMs, Once) ->
                  Times = [Once() || _ <- lists:seq(1, Runs)],
                  Emit(#{kind => alone, call => Call, sonde => bench_clock:median(Times),
                         targets => [{within, MostMs * ?MS}]})
          end,
    Row("proc_count(memory, 10), the first native call, with the proof", 50, fun first_call/0),
    _ = [Row("sonde --node N proc_count memory 5, the whole process, on a node without sonde", 500,
             fun() -> command(Command) end) || Command <- [os:getenv("BENCH_COMMAND", "")],
                                               Command =/= ""],
    _ = [outside(Command, Processes, Row) || Command <- [os:getenv("BENCH_COMMAND", "")], Command =/= "",
                                             filelib:is_file("/proc/self/maps")],
    ok.

%% One node for all runs: its processes take seconds to start.
outside(Command, Processes, Row) ->
    with_node(#{args => ["+P", "2000000", "-pa", filename:dirname(code:which(?MODULE))]},
              fun(Peer) ->
                      ok = peer:call(Peer, bench_crowd, idle, [Processes], infinity),
                      OsPid = peer:call(Peer, os, getpid, []),
                      Row("sonde --pid P proc_count memory 5, the whole process, of a node with "
                          ++ bench_row:number(Processes) ++ " processes", 3000,
                          fun() -> ns(fun() -> run(Command, ["--pid", OsPid, "proc_count", "memory", "5"], "") end) end)
              end).

%% As a user's node: modules are loaded when they are called.
first_call() ->
    with_node(#{args => ["-pa", filename:dirname(code:which(sonde))]},
              fun(Peer) ->
                      {module, timer} = peer:call(Peer, code, ensure_loaded, [timer]),
                      {Us, [_ | _]} = peer:call(Peer, timer, tc, [sonde, proc_count, [memory, 10]],
                                                infinity),
                      Us * 1000
              end).

command(Command) ->
    named([], fun(Peer, Flags) ->
                      Node = atom_to_list(peer:call(Peer, erlang, node, [])),
                      ns(fun() -> run(Command, ["--node", Node, "proc_count", "memory", "5"],
                                      lists:join(" ", Flags))
                         end)
              end).

%% @doc A node with a name. Others find it without epmd, because they get the flags, which have its port.
-spec named([string()], fun((peer:server_ref(), Flags :: [string()]) -> Result)) -> Result.
named(Args, Fun) ->
    {ok, Listener} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Listener),
    ok = gen_tcp:close(Listener),
    Flags = ["-setcookie", ?COOKIE, "-erl_epmd_port", integer_to_list(Port), "-start_epmd", "false"],
    with_node(#{name => "bench" ++ integer_to_list(Port), host => "127.0.0.1", longnames => true,
                args => ["-kernel", "inet_dist_use_interface", "{127,0,0,1}" | Flags ++ Args]},
              fun(Peer) -> Fun(Peer, Flags) end).

%% @doc A node as long as the function runs.
-spec with_node(map(), fun((peer:server_ref()) -> Result)) -> Result.
with_node(Options, Fun) ->
    {ok, Peer, _} = peer:start(Options#{connection => standard_io, wait_boot => 60000}),
    try Fun(Peer) after peer:stop(Peer) end.

%% @doc Runs the command, which must succeed.
-spec run(file:name(), [string()], Flags :: iolist()) -> ok.
run(Command, Args, Flags) ->
    Port = open_port({spawn_executable, Command},
                     [{args, Args}, {env, [{"SONDE_COOKIE", ?COOKIE},
                                           {"ERL_FLAGS", lists:flatten(Flags)}]},
                      exit_status, binary, stderr_to_stdout]),
    printed(Port, <<>>).

printed(Port, Text) ->
    receive
        {Port, {data, More}} -> printed(Port, <<Text/binary, More/binary>>);
        {Port, {exit_status, 0}} -> ok;
        {Port, {exit_status, Status}} -> error({Status, Text})
    end.

-spec ns(fun(() -> ok)) -> integer().
ns(Fun) ->
    Start = erlang:monotonic_time(nanosecond),
    ok = Fun(),
    erlang:monotonic_time(nanosecond) - Start.
