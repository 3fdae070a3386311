%% Listeners of a watcher, and made-up sweeps: on the suite's node, or on a peer, where take/1
%% replaces the watcher's own sweep.
-module(sonde_watch_helper).

-export([listen/0, listener/1, told/1, events/1, crash/1, hang/1]).
-export([script/1, take/1, log/2, execute/3, crowd/1, idlers/1, alarms/0]).

%% ---- listeners

listen() ->
    Pid = spawn(?MODULE, listener, [[]]),
    true = register(?MODULE, Pid),
    ok.

listener(Events) ->
    receive
        {told, Event} -> listener([Event | Events]);
        {events, From, Ref} -> From ! {Ref, lists:reverse(Events)}, listener(Events)
    end.

told(Event) ->
    ?MODULE ! {told, Event}.

crash(_) -> error(on_purpose).

hang(_) ->
    receive after infinity -> ok end.

events(Kind) ->
    Ref = make_ref(),
    ?MODULE ! {events, self(), Ref},
    receive {Ref, Events} -> [E || #{event := K} = E <- Events, K =:= Kind] end.

%% A handler of logger.
log(#{level := Level, msg := {report, Report},
      meta := #{domain := [sonde], report_cb := Format}}, _) ->
    {Text, Args} = Format(Report),
    told(#{event => logged, level => Level, report => Report,
           text => lists:flatten(io_lib:format(Text, Args))});
log(#{msg := {"sonde_watch: logger's default handler" ++ _, []}}, _) ->
    told(#{event => hint});
log(_, _) ->
    ok.

%% Called as telemetry:execute/3.
execute(Name, Measurements, Metadata) ->
    told(#{event => telemetry, name => Name, measurements => Measurements, metadata => Metadata}).

alarms() ->
    alarm_handler:get_alarms().

%% Starts processes that alone fill this part of the process table: those that live now may end at any
%% time, like the fifty of the proof.
crowd(Part) ->
    idlers(ceil(Part * erlang:system_info(process_limit))).

idlers(N) ->
    [spawn(fun() -> receive after infinity -> ok end end) || _ <- lists:seq(1, N)].

%% ---- sweeps: `block'; {grow, PerHour}: 30 seconds pass between sweeps, and one process grows
%% evenly; {took, List}: the milliseconds that each sweep took; the last value holds for all later
%% ones

script(What) ->
    persistent_term:put(?MODULE, {What, counters:new(1, [])}).

take(_Ask) ->
    case persistent_term:get(?MODULE) of
        {block, _} ->
            receive after infinity -> ok end;
        {{grow, PerHour}, Count} ->
            N = next(Count),
            report(N, 50000000 + N * PerHour div 120, 0);
        {{took, List}, Count} ->
            N = next(Count),
            report(N, 0, lists:nth(min(N, length(List)), List))
    end.

next(Count) ->
    ok = counters:add(Count, 1, 1),
    counters:get(Count, 1).

report(N, Live, Took) ->
    #{sample => #{at => N * 30000, time => 0, reductions => N * 1000000, run_queue => 0,
                  memory => [{processes, 100000000}], counts => [{processes, 100, 1000}],
                  processes => [{whereis(init), Live, Live, [init]}], tables => [], top => [],
                  gone => []},
      looked => #{}, look_ms => 0, took_ms => Took, collected => []}.
