%% @private
%% Reports the events of a watcher: to the logger, to the alarm handler and to telemetry if they are
%% there, and to a callback. It is a process of its own, so that a listener can be slow, crash, or
%% hang without disturbing the watcher. It ends with its watcher, and clears the alarms.
-module(sonde_watch_notify).

-export([start/2, tell/2, upgrade/1, init/3, loop/1, listen/1, format/1]).

%% How long a listener may take with one event.
-define(PATIENCE_MS, 10000).

-define(UPGRADE, {?MODULE, upgrade}).

-record(state, {watcher, callback, telemetry, alarms, well = true}).

%% @doc `Accused': the events of what was accused when the notifier before this one ended. Their
%% alarms are set.
-spec start(none | {module(), atom()}, [sonde_watch_core:event()]) -> {pid(), reference()}.
start(Callback, Accused) ->
    spawn_monitor(?MODULE, init, [self(), Callback, Accused]).

%% @doc The watcher will get `{told, Pid, How}'.
-spec tell(pid(), sonde_watch_core:event()) -> ok.
tell(Pid, Event) ->
    Pid ! {tell, Event},
    ok.

%% @doc Makes it continue in the new version of its code.
-spec upgrade(pid()) -> ok.
upgrade(Pid) ->
    Pid ! ?UPGRADE,
    ok.

-spec init(pid(), none | {module(), atom()}, [sonde_watch_core:event()]) -> ok.
init(Watcher, Callback, Accused) ->
    _ = monitor(process, Watcher),
    _ = [logger:notice(hint(), []) || not is_shown()],
    loop(#state{watcher = Watcher, callback = Callback, telemetry = has_telemetry(),
                alarms = [alarm(Event) || Event <- Accused]}).

%% Checked once: each check for a missing module searches the whole code path.
has_telemetry() ->
    code:ensure_loaded(telemetry) =:= {module, telemetry}
        andalso erlang:function_exported(telemetry, execute, 3).

-spec loop(#state{}) -> ok.
loop(#state{watcher = Watcher, alarms = Alarms} = State) ->
    receive
        {tell, Seen} ->
            Event = with_its_call(Seen),
            ok = log(Event),
            Alarmed = State#state{alarms = alarms(Event, Alarms)},
            {How, Told} = listeners(Event, Alarmed),
            Watcher ! {told, self(), How},
            loop(Told);
        ?UPGRADE ->
            ?MODULE:loop(State);
        {'DOWN', _, process, Watcher, _} ->
            clear(Alarms)
    end.

%% Adds the function that the process began with, for people: a sweep takes the names as they are.
with_its_call(#{what := {process, Pid}, attrs := Attrs} = Event) ->
    Event#{attrs := sonde_origin:attrs(Pid, Attrs)};
with_its_call(Event) ->
    Event.

%% ---- the logger

log(#{event := sample}) -> ok;
log(Event) ->
    logger:log(level(Event), Event,
               #{domain => [sonde], report_cb => fun ?MODULE:format/1}).

%% Whether our reports get through: unless configured otherwise, the default handler of every node
%% silently drops reports of a domain that it does not know.
is_shown() ->
    case logger:get_handler_config(default) of
        {ok, #{filters := Filters, filter_default := Default}} ->
            Event = #{level => warning, msg => {report, #{event => leak}},
                      meta => #{domain => [sonde], pid => self(), gl => group_leader(),
                                time => logger:timestamp()}},
            passes(Event, Filters, Default);
        _ ->
            true
    end.

passes(Event, [{_, {Fun, Arg}} | Filters], Default) ->
    try Fun(Event, Arg) of
        ignore -> passes(Event, Filters, Default);
        Answer -> Answer =/= stop
    catch
        _:_ -> passes(Event, Filters, Default)
    end;
passes(_, [], Default) ->
    Default =:= log.

hint() ->
    "sonde_watch: logger's default handler drops reports of the domain [sonde]; to see them, call~n"
        "  logger:add_handler_filter(default, sonde,~n"
        "      {fun logger_filters:domain/2, {log, sub, [sonde]}}).".

level(#{event := Event}) ->
    case lists:member(Event, [leak, limit, failed, callback]) of
        true -> warning;
        false -> notice
    end.

%% @doc The text of an event that was logged.
-spec format(sonde_watch_core:event()) -> {io:format(), [term()]}.
format(Report) ->
    {"sonde_watch: ~ts", [text(Report)]}.

text(#{event := leak, what := {count, Kind}, per_hour := N, growth := Growth, hours := Hours}) ->
    io_lib:format("~p grow by ~b an hour: ~b more in ~p hours", [Kind, N, Growth, Hours]);
text(#{event := leak, what := What, per_hour := N, growth := Growth, hours := Hours,
       attrs := Attrs}) ->
    io_lib:format("~ts grows by ~ts an hour despite garbage collection: ~ts more in ~p hours",
                  [name(What, Attrs), bytes(N), bytes(Growth), Hours]);
text(#{event := leak_over, what := What}) ->
    io_lib:format("~ts stopped growing, or is gone", [name(What, [])]);
text(#{event := limit, what := {count, Kind}, count := N, limit := Limit}) ->
    io_lib:format("~b ~p, near the limit of ~b", [N, Kind, Limit]);
text(#{event := limit_over, what := {count, Kind}}) ->
    io_lib:format("~p are well below their limit again", [Kind]);
text(#{event := collected, what := What, freed := Freed, garbage := Garbage, attrs := Attrs}) ->
    io_lib:format("collected ~ts, which held ~ts of garbage: ~ts freed",
                  [name(What, Attrs), bytes(Garbage), bytes(Freed)]);
text(#{event := slower, took_ms := Took, budget_ms := Budget, period_ms := Period}) ->
    io_lib:format("a sweep took ~b ms of ~p: from now on, one every ~b ms", [Took, Budget, Period]);
text(#{event := normal, period_ms := Period}) ->
    io_lib:format("sweeps are fast again: one every ~b ms", [Period]);
text(#{event := failed, reason := Why}) ->
    io_lib:format("a sweep failed: ~0tP", [Why, 20]);
text(#{event := callback, callback := {M, F}, reason := Why}) ->
    io_lib:format("the callback ~tp:~tp/1 failed: ~0tP", [M, F, Why, 20]);
text(Event) ->
    io_lib:format("~0tP", [Event, 30]).

name({Kind, Id}, Attrs) ->
    [atom_to_list(Kind), $\s, sonde_names:readable(io_lib:format("~0tp", [Id]))
     | [[" (", called(Name), $)] || Name <- named(Attrs)]].

named([Name | _]) when is_atom(Name), Name =/= undefined -> [Name];
named(Attrs) -> [MFA || {initial_call, MFA} <- Attrs].

called({_, _, _} = Call) ->
    case sonde_names:of_elixir(Call, true) of
        none -> io_lib:format("~tp", [Call]);
        Text -> Text
    end;
called(Name) ->
    sonde_names:atom(Name, true).

bytes(Bytes) -> sonde_units:bytes(Bytes).

%% ---- alarms: set once, and cleared

alarms(#{event := Event} = Said, Alarms) when Event =:= leak; Event =:= limit ->
    {Id, _} = Alarm = alarm(Said),
    case lists:keymember(Id, 1, Alarms) of
        true -> Alarms;
        false -> handler(set_alarm, Alarm), [Alarm | Alarms]
    end;
alarms(#{event := Event} = Said, Alarms) when Event =:= leak_over; Event =:= limit_over ->
    {Id, _} = alarm(Said),
    _ = [handler(clear_alarm, Id) || lists:keymember(Id, 1, Alarms)],
    lists:keydelete(Id, 1, Alarms);
alarms(_, Alarms) ->
    Alarms.

alarm(#{event := Event, what := What} = Said) when Event =:= leak; Event =:= leak_over ->
    {{sonde, leak, What}, maps:with([per_hour, growth, hours, attrs], Said)};
alarm(#{what := What} = Said) ->
    {{sonde, limit, What}, maps:with([count, limit], Said)}.

clear(Alarms) ->
    lists:foreach(fun({Id, _}) -> handler(clear_alarm, Id) end, Alarms).

%% The alarm handler is in sasl, which may not run, and may not be in the code path.
handler(Function, Arg) ->
    _ = [apply(alarm_handler, Function, [Arg]) || is_pid(whereis(alarm_handler))],
    ok.

%% ---- listeners, which may take long

listeners(_Event, #state{callback = none, telemetry = false} = State) ->
    {ok, State};
listeners(Event, #state{watcher = Watcher, well = Well} = State) ->
    %% If its watcher is gone, it does not wait for a hanging listener: many events may be left.
    case Well orelse is_process_alive(Watcher) of
        true -> listener(Event, State);
        false -> {failed, State}
    end.

listener(Event, #state{callback = Callback, telemetry = Telemetry, well = Well} = State) ->
    {Pid, Ref} = spawn_monitor(sonde_helper, work, [fun ?MODULE:listen/1,
                                                    {Event, Callback, Telemetry}]),
    case ended(Pid, Ref) of
        ok ->
            {ok, State#state{well = true}};
        Failed ->
            %% Log it once, until the listener works again.
            _ = [log(#{event => callback, callback => Callback, reason => Failed})
                 || Well, Callback =/= none],
            {failed, State#state{well = false}}
    end.

ended(Pid, Ref) ->
    receive
        {'DOWN', Ref, process, Pid, {answer, How}} -> How;
        {'DOWN', Ref, process, Pid, Why} -> Why
    after ?PATIENCE_MS ->
        exit(Pid, kill),
        receive {'DOWN', Ref, process, Pid, _} -> timeout end
    end.

%% @doc In a process of its own.
-spec listen({sonde_watch_core:event(), none | {module(), atom()}, boolean()}) -> ok | tuple().
listen({Event, Callback, Telemetry}) ->
    _ = [execute(Event) || Telemetry],
    try call(Callback, Event) of
        _ -> ok
    catch
        Class:Why:Stack -> {Class, Why, lists:sublist(Stack, 3)}
    end.

call(none, _) -> ok;
call({M, F}, Event) -> M:F(Event).

%% A handler that fails is detached by telemetry itself.
execute(#{event := Event} = Said) ->
    {Numbers, Rest} = lists:partition(fun({_, Value}) -> is_number(Value) end,
                                      maps:to_list(measured(Said))),
    try apply(telemetry, execute, [[sonde, watch, Event], maps:from_list(Numbers),
                                   maps:from_list(Rest)])
    catch _:_ -> ok
    end.

measured(#{event := sample, memory := Memory, counts := Counts} = Said) ->
    maps:merge(maps:with([at, time, took_ms, run_queue, name, node, side], Said),
               maps:from_list(Memory ++ [{count(Kind), N} || {Kind, N, _} <- Counts]));
measured(Said) ->
    Said.

%% In one map: bytes are named after their kind, so counts need other names.
count(processes) -> process_count;
count(ports) -> port_count;
count(atoms) -> atom_count;
count(ets_tables) -> ets_count.
