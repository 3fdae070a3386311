%% @doc Formats the node's memory and counts, and the results of a watcher, as Prometheus text: for
%% the `/metrics' handler of any HTTP server. No label contains a pid, so the number of series is
%% bounded.
-module(sonde_prometheus).

-export([format/0, format/1]).

-type metric() :: {Name :: string(), gauge | counter, Help :: string(),
                   [{[{kind, atom()}], number()}]}.

%% @equiv format(sonde_watch)
-spec format() -> iolist().
format() -> format(sonde_watch).

%% @doc Returns metrics such as `sonde_memory_bytes{kind="binary"}', each with its HELP and TYPE
%% lines, including those of this watcher. If no such watcher runs, or it does not answer for a
%% second, the metrics of watchers are absent, except `sonde_watch_up', which is 0.
%%
%% ```
%% 1> io:put_chars(sonde_prometheus:format()).
%% # HELP sonde_memory_bytes Memory of the node by kind, as erlang:memory/0 reports it.
%% # TYPE sonde_memory_bytes gauge
%% sonde_memory_bytes{kind="processes"} 5326264
%% '''
-spec format(sonde_watch:watcher()) -> iolist().
format(Watcher) ->
    [lines(Metric) || {_, _, _, [_ | _]} = Metric <- node_metrics() ++ watcher_metrics(Watcher)].

-spec node_metrics() -> [metric()].
node_metrics() ->
    {Wall, _} = erlang:statistics(wall_clock),
    {Reductions, _} = erlang:statistics(reductions),
    {Collections, Words, _} = erlang:statistics(garbage_collection),
    [{"memory_bytes", gauge, "Memory of the node by kind, as erlang:memory/0 reports it.",
      [{[{kind, Kind}], Bytes} || {Kind, Bytes} <- sonde_memory:read(),
                                  lists:member(Kind, [processes, atom, binary, code, ets])]},
     {"memory_all_bytes", gauge, "Memory of the node.",
      [{[], Bytes} || {total, Bytes} <- sonde_memory:read()]},
     {"things", gauge, "How many processes, ports, atoms and tables there are.",
      [{[{kind, Kind}], erlang:system_info(Item)}
       || {Kind, Item} <- [{processes, process_count}, {ports, port_count}, {atoms, atom_count},
                           {ets_tables, ets_count}]]},
     {"things_limit", gauge, "How many there can be.",
      [{[{kind, Kind}], erlang:system_info(Item)}
       || {Kind, Item} <- [{processes, process_limit}, {ports, port_limit}, {atoms, atom_limit}]]},
     {"run_queue", gauge, "Processes that are ready to run.",
      [{[], erlang:statistics(run_queue)}]},
     {"reductions_total", counter, "Work that was done.", [{[], Reductions}]},
     {"collections_total", counter, "Garbage collections.", [{[], Collections}]},
     {"collected_bytes_total", counter, "What garbage collections reclaimed.",
      [{[], Words * erlang:system_info(wordsize)}]},
     {"uptime_seconds", gauge, "Since the node was started.", [{[], Wall / 1000}]}].

-spec watcher_metrics(sonde_watch:watcher()) -> [metric()].
watcher_metrics(Watcher) ->
    Up = {"watch_up", gauge, "Whether the watcher answers.", [{[], 1}]},
    try gen_server:call(Watcher, status, 1000) of
        Status -> [Up | metrics(Status)]
    catch
        exit:_ -> [setelement(4, Up, [{[], 0}])]
    end.

metrics(#{sweeps := Sweeps, failed := Failed, sweep_ms := All, last_ms := Last, period := Period,
          accused := Accused, followed := Followed, collected := Collected, freed_bytes := Freed,
          dropped := Dropped, native := Native}) ->
    [{"watch_sweeps_total", counter, "Sweeps that were made.", [{[], Sweeps}]},
     {"watch_failed_sweeps_total", counter, "Sweeps that failed.", [{[], Failed}]},
     {"watch_sweep_seconds_total", counter, "How long all sweeps took.", [{[], All / 1000}]},
     {"watch_last_sweep_seconds", gauge, "How long the last sweep took.",
      [{[], Last / 1000} || is_integer(Last)]},
     {"watch_period_seconds", gauge, "From one sweep to the next.", [{[], Period / 1000}]},
     {"watch_followed", gauge, "Processes and tables that are followed.", [{[], Followed}]},
     {"watch_leaks", gauge, "What grows and is accused of leaking, by what it is.",
      [{[{kind, Kind}], length([Kind || #{event := leak, what := {K, _}} <- Accused, K =:= Kind])}
       || Kind <- [process, table, memory, count]]},
     {"watch_limits_near", gauge, "Limits of the node that are near.",
      [{[], length([limit || #{event := limit} <- Accused])}]},
     {"watch_growth_bytes", gauge, "By how much what is accused grows in an hour.",
      [{[{kind, Kind}], lists:sum([N || #{event := leak, what := {K, _}, per_hour := N} <- Accused,
                                        K =:= Kind])}
       || Kind <- [process, table, memory]]},
     {"watch_collected_total", counter, "Processes that were collected.", [{[], Collected}]},
     {"watch_freed_bytes_total", counter, "Bytes that were freed with that.", [{[], Freed}]},
     {"watch_dropped_samples_total", counter, "Samples that no listener was told of.",
      [{[], Dropped}]},
     {"watch_native", gauge, "Whether the native side answers.",
      [{[], case Native of native -> 1; _ -> 0 end}]}].

lines({Name, Type, Help, Samples}) ->
    ["# HELP sonde_", Name, $\s, Help, "\n# TYPE sonde_", Name, $\s, atom_to_list(Type), $\n
     | [["sonde_", Name, labels(Labels), $\s, number(Value), $\n] || {Labels, Value} <- Samples]].

labels([]) -> [];
labels(Labels) ->
    [${, lists:join($,, [[atom_to_list(Key), "=\"", atom_to_list(Value), $"]
                         || {Key, Value} <- Labels]), $}].

number(N) when is_integer(N) -> integer_to_list(N);
number(F) -> io_lib:format("~.3f", [F]).
