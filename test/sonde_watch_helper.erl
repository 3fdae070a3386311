%% Who is told by a watcher, and sweeps that are made up: on the node of the suite, or on a peer,
%% where take/1 stands in for the watcher's own sweep.
-module(sonde_watch_helper).

-export([listen/0, listener/1, told/1, events/0, events/1, crash/1, hang/1]).
-export([script/1, take/1, log/2, execute/3, crowd/1, disperse/1, alarms/0]).

%% ---- listeners

listen() ->
    Pid = spawn(?MODULE, listener, [[]]),
    true = register(?MODULE, Pid),
    ok.

listener(Events) ->
    receive
        {told, Event} -> listener([Event | Events]);
        {events, From, Ref} -> From ! {Ref, lists:reverse(Events)}, listener(Events);
        stop -> ok
    end.

told(Event) ->
    ?MODULE ! {told, Event}.

crash(_) -> error(on_purpose).

hang(_) ->
    receive after infinity -> ok end.

events() ->
    Ref = make_ref(),
    ?MODULE ! {events, self(), Ref},
    receive {Ref, Events} -> Events end.

events(Kind) ->
    [E || #{event := K} = E <- events(), K =:= Kind].

%% As a handler of logger.
log(#{level := Level, msg := {report, Report},
      meta := #{domain := [sonde], report_cb := Format}}, _) ->
    {Text, Args} = Format(Report),
    told(#{event => logged, level => Level, report => Report,
           text => lists:flatten(io_lib:format(Text, Args))});
log(#{msg := {"sonde_watch: logger's default handler" ++ _, []}}, _) ->
    told(#{event => hint});
log(_, _) ->
    ok.

%% As telemetry's.
execute(Name, Measurements, Metadata) ->
    told(#{event => telemetry, name => Name, measurements => Measurements, metadata => Metadata}).

alarms() ->
    alarm_handler:get_alarms().

%% Processes until the node is so full.
crowd(Part) ->
    Wanted = ceil(Part * erlang:system_info(process_limit)),
    [spawn(fun() -> receive after infinity -> ok end end)
     || _ <- lists:seq(erlang:system_info(process_count), Wanted)].

disperse(Pids) ->
    _ = [exit(Pid, kill) || Pid <- Pids],
    ok.

%% ---- sweeps: {block, _}, or {grow, PerHour}: 30 seconds pass from one to the next, and one
%% process grows evenly

script(What) ->
    persistent_term:put(?MODULE, {What, counters:new(1, [])}).

take(_Ask) ->
    case persistent_term:get(?MODULE) of
        {block, _} -> receive after infinity -> ok end;
        {{grow, PerHour}, Count} ->
            ok = counters:add(Count, 1, 1),
            N = counters:get(Count, 1),
            report(N, 50000000 + N * PerHour div 120, [])
    end.

report(N, Live, Gone) ->
    #{sample => #{at => N * 30000, time => 0, reductions => N * 1000000, run_queue => 0,
                  memory => [{processes, 100000000}], counts => [{processes, 100, 1000}],
                  processes => [{whereis(init), Live, Live, [init]}], tables => [], top => [],
                  gone => Gone},
      looked => #{}, look_ms => 0, took_ms => 0, collected => []}.
