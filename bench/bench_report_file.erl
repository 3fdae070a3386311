%% How long a report of a large node takes: all that the caller waits for, the interval of its diagnosis as
%% well. The report is made inside the node, where it is idle and where it grows, from another node, and from
%% outside by the command.
-module(bench_report_file).

-export([rows/3]).
-export([times/3, grow/0]).

-define(MS, 1000000).
-define(PAUSE_MS, 10).
-define(GROW_MS, 20).
-define(GROW_BYTES, 20000).   % in each of these, of the process and of the table: 1 MB a second

%% @doc Emits the rows of one node with so many processes, then with so many, each with the milliseconds that
%% a report may take. BENCH_COMMAND is the file that `make escript' makes, or unset.
-spec rows([{Processes :: pos_integer(), Ms :: pos_integer()}], pos_integer(), fun((map()) -> term())) -> ok.
rows(Sizes, Runs, Emit) ->
    File = filename:join(os:getenv("TMPDIR", "/tmp"), "sonde-bench-" ++ os:getpid() ++ ".html"),
    Code = ["-pa", filename:dirname(code:which(sonde)), filename:dirname(code:which(?MODULE))],
    bench_start:named(
      ["+P", "2000000" | Code],
      fun(Peer, Flags) ->
              Here = fun() -> peer:call(Peer, ?MODULE, times, [File, #{}, Runs], infinity) end,
              There = fun() -> from_another(peer:call(Peer, erlang, node, []), File, Runs, Flags ++ Code) end,
              Outside = fun() -> from_outside(os:getenv("BENCH_COMMAND"), peer:call(Peer, os, getpid, []), File, Runs) end,
              Calls = [{"report(File), with its interval of 2 s", Here},
                       {"report(File), a process and a table grow", fun() -> growing(Peer, Here) end},
                       {"report(File, #{node => Node}), from another node", There}]
                  ++ [{"sonde --pid P report FILE, from outside", Outside} || is_list(os:getenv("BENCH_COMMAND")),
                                                                             filelib:is_file("/proc/self/maps")],
              lists:foldl(fun({N, Ms}, Before) ->
                                  ok = peer:call(Peer, bench_crowd, idle, [N - Before], infinity),
                                  _ = [Emit(#{kind => alone, work => bench_row:number(N) ++ " idle processes", call => Call,
                                              sonde => bench_clock:median(Measure()), targets => [{within, Ms * ?MS}]})
                                       || {Call, Measure} <- Calls],
                                  N
                          end, 0, Sizes)
      end),
    file:delete(File).

%% @doc The times of reports with these options.
-spec times(file:name(), map(), pos_integer()) -> [non_neg_integer()].
times(File, Opts, Runs) ->
    Report = fun() -> {ok, #{missing := [{<<"watcher">>, _}]}} = sonde:report(File, Opts#{force => true}) end,
    #{sonde := Times} = bench_clock:alternate(Runs, ?PAUSE_MS, #{sonde => Report}),
    Times.

from_another(Node, File, Runs, Args) ->
    bench_start:with_node(#{name => "reporter", host => "127.0.0.1", longnames => true, args => ["-dist_listen", "false" | Args]},
                          fun(Peer) -> peer:call(Peer, ?MODULE, times, [File, #{node => Node}, Runs], infinity) end).

from_outside(Command, OsPid, File, Runs) ->
    [bench_start:ns(fun() -> bench_start:run(Command, ["--pid", OsPid, "report", File, "--force"], "") end)
     || _ <- lists:seq(1, Runs)].

growing(Peer, Measure) ->
    Pid = peer:call(Peer, erlang, spawn, [?MODULE, grow, []]),
    Times = Measure(),
    true = peer:call(Peer, erlang, exit, [Pid, kill]),
    Times.

%% @doc A process and a table that grow.
-spec grow() -> no_return().
grow() ->
    grow(ets:new(grows, []), 0, []).

grow(Table, N, Held) ->
    Words = ?GROW_BYTES div erlang:system_info(wordsize),
    true = ets:insert(Table, {N, list_to_tuple(lists:seq(1, Words))}),
    timer:sleep(?GROW_MS),
    grow(Table, N + 1, [lists:seq(1, Words div 2) | Held]).
