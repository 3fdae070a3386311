%% @doc Watches the node from a supervision tree: it sweeps the node at each interval, keeps a
%% bounded history, and reports leaks, judged by their trend, and limits that are near.
%%
%% ```
%% init([]) ->
%%     {ok, {#{}, [sonde_watch:child_spec(#{callback => {my_alerts, told}}), ...]}}.
%% '''
%% In Elixir `{:sonde_watch, interval: 10_000}' is a child. Without a supervision tree, set `{watch,
%% Opts}' in the environment of the application `sonde', and start the application.
%%
%% <h4>Options</h4>
%% A map, or a list of pairs:
%% <ul>
%% <li>`interval' (30000 ms): the time from one sweep to the next</li>
%% <li>`history' (120): the number of samples kept for {@link history/1}</li>
%% <li>`top' (20): the number of rows for each attribute, and of tables, in a sample</li>
%% <li>`min_bytes' (10000000): the watcher does not follow processes and tables that never have so
%%     many bytes</li>
%% <li>`budget' (1): the percentage of time that sweeps may take. If one takes longer, the next
%%     comes later, and an event reports it. Walks of large heaps, each of them every five minutes,
%%     may take as much again</li>
%% <li>`callback' (`none'): `{M, F}': `M:F(Event)' is called for each event</li>
%% <li>`remedy' (`none'): `{collect, #{garbage_bytes => Bytes, per_minute => N}}': collects
%%     processes that hold more garbage than that, including the binaries to which only garbage
%%     refers, at most `N' a minute, those with most first. It works only where the native path is
%%     on, which finds garbage</li>
%% <li>`name' (`sonde_watch'): `undefined' for a watcher without a name, to run several of them</li>
%% </ul>
%% <h4>What counts as a leak</h4>
%% For each kind of memory, each large process and table, and the number of processes, ports, atoms
%% and tables, the watcher keeps one value for each quarter of an hour of three days. For a process it
%% follows the size that its heap and its binaries would have after a collection, which the native
%% path finds without one, so that even the largest sawtooth hides nothing; where the native path is
%% off, it follows what is left after collections. A leak is reported if, for almost five hours (eleven
%% for sums, and where the native path is off), growth continued in nearly each quarter of an hour, did
%% not slow down like that of a cache that fills up, and is not explained by the load of the node. A slow
%% leak under noise is reported after one to three days, if its growth is even and not only a few steps.
%% Numbers rise with the load for a part of each day, so their growth must be seen for two hours, and so must
%% growth that only a day or more shows; growth of numbers that only several days show must be seen for six.
%% A cache that fills up at an even pace for longer than that looks like a leak.
%%
%% Growth that returns at the same time of each day is no leak. A leak that was cleared is reported again
%% as soon as a new one, if it fell at once (within half an hour) and to below every value of the day
%% before. If it fell slowly, or less far, it is reported up to a day later.
%%
%% <h4>Events</h4>
%% A map with `event', `name' and `node', and by event:
%% <ul>
%% <li>`sample': a sweep is done; the map has the sample of {@link history/1}. It is not logged</li>
%% <li>`leak': `what' grows (`{process, Pid}', `{table, Tab}', `{memory, Kind}' or `{count, Kind}'),
%%     `per_hour' bytes or items an hour, by `growth' in `hours' from `from'; `attrs' are its names.
%%     `leak_over': it no longer grows, or is gone</li>
%% <li>`limit': `count' of `what' is 80 percent of the node's `limit'; `limit_over': less than
%%     70</li>
%% <li>`collected': `what' held `garbage' bytes, of which `freed' are gone</li>
%% <li>`slower', `normal': sweeps exceeded the budget, and are within it again; `period_ms' is the
%%     new time between two sweeps</li>
%% <li>`failed': a sweep failed, for `reason'</li>
%% </ul>
%% All events but samples go to `logger', as reports with the domain `[sonde]'. (By default logger's
%% default handler drops domains that it does not know: call `logger:add_handler_filter(default,
%% sonde, {fun logger_filters:domain/2, {log, sub, [sonde]}})', or set the same in the configuration
%% of the handler. A watcher that finds such a handler reports this at its start.) If
%% `alarm_handler' runs, `leak' and `limit' set the alarms `{sonde, leak, What}' and `{sonde, limit,
%% What}', once; they are cleared when the cause or the watcher ends. If the application telemetry
%% is available, each event is `[sonde, watch, Event]'. Listeners run in a process of their own, one
%% event at a time; one that crashes, or takes more than ten seconds, is reported once, and affects
%% nothing else. If a hundred events wait for them, samples are dropped.
-module(sonde_watch).

-behaviour(gen_server).

-export([child_spec/1, start_link/1, history/1, history/2, status/0, status/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2, code_change/3]).
-export_type([opts/0, watcher/0, status/0]).

-type opts() :: sonde_watch_opts:given().
-type watcher() :: pid() | atom().
-type status() :: #{interval := pos_integer(), period := pos_integer(), sweeps := non_neg_integer(),
                    failed := non_neg_integer(), last_ms := non_neg_integer() | undefined,
                    budget_ms := number(), slower := boolean(), accused := [map()],
                    followed := non_neg_integer(), dropped := non_neg_integer(),
                    listeners_failed := non_neg_integer(),
                    remedy := none | active | {native_off, term()},
                    collected := non_neg_integer(), freed_bytes := non_neg_integer(),
                    sweep_ms := non_neg_integer(), native := native | {off, term()}}.

-define(WAITING, 100).        % events that may wait for the listeners
-define(LOOKS, 20).           % budgets that may be saved for a large heap
-define(SLOWEST_MS, 3600000). % the longest period, if the interval is not longer
-define(STUCK_MS, 60000).     % a sweep that takes longer is given up

-record(watch, {opts, core, history = [], kept = 0, sweep, deadline, period, teller, waiting = 0,
                looked = #{}, look_ms = 0, look_left = 0.0, tokens = 0.0, then, well = true,
                stats}).

%% @doc Returns a child specification. Raises `{badarg, Option}' for an invalid option.
-spec child_spec(opts()) -> supervisor:child_spec().
child_spec(Given) ->
    case sonde_watch_opts:read(Given) of
        {ok, #{name := Name}} ->
            #{id => id(Name), start => {?MODULE, start_link, [Given]}, restart => permanent,
              shutdown => 5000, type => worker, modules => [?MODULE]};
        {error, Why} ->
            error(Why)
    end.

%% Several watchers in one supervisor need an id each.
id(undefined) -> {?MODULE, make_ref()};
id(Name) -> Name.

%% @doc Starts a watcher. Returns `{error, {badarg, Option}}' for an unknown or invalid option.
-spec start_link(opts()) -> {ok, pid()} | ignore | {error, term()}.
start_link(Given) ->
    case sonde_watch_opts:read(Given) of
        {ok, #{name := undefined} = Opts} -> gen_server:start_link(?MODULE, Opts, []);
        {ok, #{name := Name} = Opts} -> gen_server:start_link({local, Name}, ?MODULE, Opts, []);
        {error, _} = Error -> Error
    end.

%% @equiv history(sonde_watch, N)
-spec history(N :: non_neg_integer()) -> [map()].
history(N) -> history(?MODULE, N).

%% @doc Returns the last `N' samples, the newest first:
%% <ul>
%% <li>`time': the time of the sweep, in milliseconds since 1970; `took_ms': its duration</li>
%% <li>`memory': bytes by kind, those of `erlang:memory/0', where `other' is the rest of `system'
%%     (kinds that are not known, because an allocator is switched off, are absent); `counts':
%%     `{Kind, Number, Limit}'; `run_queue'</li>
%% <li>`top': rows by attribute, those of {@link sonde:proc_count/2}</li>
%% <li>`tables': the largest, `{Table, Bytes, Attrs}'</li>
%% <li>`processes': those that the watcher follows, `{Pid, Bytes, Live, Attrs}', where `Live' is
%%     what a collection would leave, if the process was walked</li>
%% </ul>
%% Raises `badarg' if `N' is not a non-negative integer.
-spec history(watcher(), N :: non_neg_integer()) -> [map()].
history(Watcher, N) when is_integer(N), N >= 0 -> gen_server:call(Watcher, {history, N});
history(_, _) -> error(badarg).

%% @equiv status(sonde_watch)
-spec status() -> status().
status() -> status(?MODULE).

%% @doc Returns the state of the watcher:
%% <ul>
%% <li>`interval' and `period': the requested and the present number of milliseconds from one sweep
%%     to the next; `slower': the period is longer, since sweeps exceeded the budget of
%%     `budget_ms'</li>
%% <li>`sweeps': the number of sweeps, `failed': of failed ones, `sweep_ms': the time of all sweeps,
%%     `last_ms': of the last one</li>
%% <li>`accused': the events of leaks and limits that are not over; `followed': the number of
%%     processes and tables</li>
%% <li>`remedy': `none', `active', or `{native_off, Reason}'; how many processes were `collected',
%%     and `freed_bytes'</li>
%% <li>`dropped': the number of samples that the listeners did not get; `listeners_failed': how
%%     often listeners crashed or took too long</li>
%% <li>`native': which path answers, `native' or `{off, Reason}'</li>
%% </ul>
-spec status(watcher()) -> status().
status(Watcher) -> gen_server:call(Watcher, status).

%% ---- the server

%% @private
-spec init(sonde_watch_opts:opts()) -> {ok, #watch{}}.
init(#{interval := Interval, callback := Callback} = Opts) ->
    _ = process_flag(trap_exit, true),
    _ = erlang:send_after(0, self(), sweep),
    {ok, #watch{opts = Opts, core = sonde_watch_core:new(Opts), period = Interval,
                teller = sonde_watch_notify:start(Callback, []), then = now_ms(),
                stats = #{sweeps => 0, failed => 0, last_ms => undefined, sweep_ms => 0,
                          collected => 0, freed_bytes => 0, dropped => 0, listeners_failed => 0,
                          remedy => none, native => unknown}}}.

%% @private
-spec handle_call(term(), gen_server:from(), #watch{}) -> {reply, term(), #watch{}}.
handle_call({history, N}, _From, #watch{history = History, opts = #{history := Most}} = Watch) ->
    {reply, lists:sublist(History, min(N, Most)), Watch};
handle_call(status, _From, Watch) ->
    {reply, told_status(Watch), Watch};
handle_call(_, _From, Watch) ->
    {reply, {error, badarg}, Watch}.

told_status(#watch{opts = #{interval := Interval}, period = Period, core = Core,
                   stats = Stats} = Watch) ->
    {Pids, Tables} = sonde_watch_core:followed(Core),
    Stats#{interval => Interval, period => Period, slower => Period > Interval,
           budget_ms => budget_ms(Watch), accused => sonde_watch_core:accused(Core),
           followed => length(Pids) + length(Tables)}.

%% @private
-spec handle_cast(term(), #watch{}) -> {noreply, #watch{}}.
handle_cast(_, Watch) -> {noreply, Watch}.

%% @private
-spec handle_info(term(), #watch{}) -> {noreply, #watch{}}.
handle_info(sweep, #watch{sweep = undefined} = Watch) ->
    {noreply, begin_sweep(Watch)};
handle_info({'EXIT', Pid, {answer, Report}}, #watch{sweep = Pid} = Watch) ->
    {noreply, next(report(Report, sweep_ends(Watch)))};
handle_info({'EXIT', Pid, Why}, #watch{sweep = Pid} = Watch) ->
    {noreply, next(failed(Why, sweep_ends(Watch)))};
handle_info({stuck, Pid}, #watch{sweep = Pid} = Watch) ->
    %% The sweep may be in a call of the VM that cannot be interrupted; do not wait for that.
    true = exit(Pid, kill),
    {noreply, next(failed(timeout, sweep_ends(Watch)))};
handle_info({told, Pid, How}, #watch{teller = {Pid, _}, waiting = Waiting} = Watch) ->
    Told = Watch#watch{waiting = Waiting - 1},
    {noreply, case How of ok -> Told; failed -> count(listeners_failed, 1, Told) end};
handle_info({'DOWN', Ref, process, _, _},
            #watch{teller = {_, Ref}, core = Core, opts = #{callback := Callback}} = Watch) ->
    Teller = sonde_watch_notify:start(Callback, sonde_watch_core:accused(Core)),
    {noreply, Watch#watch{teller = Teller, waiting = 0}};
handle_info(_, Watch) ->
    {noreply, Watch}.

%% @private
-spec terminate(term(), #watch{}) -> ok.
terminate(_, #watch{sweep = Sweep}) ->
    _ = [exit(Sweep, kill) || is_pid(Sweep)],
    ok.

%% @private
-spec code_change(term(), #watch{}, term()) -> {ok, #watch{}}.
code_change(_, #watch{teller = {Teller, _}} = Watch, _) ->
    ok = sonde_watch_notify:upgrade(Teller),
    {ok, Watch}.

%% ---- a sweep

now_ms() -> erlang:monotonic_time(millisecond).

%% Linked: the sweep dies with the watcher.
begin_sweep(#watch{core = Core, looked = Looked, opts = Opts, then = Then} = Watch0) ->
    Now = now_ms(),
    Watch = earn(Now - Then, Watch0#watch{then = Now}),
    {Pids, Tables} = sonde_watch_core:followed(Core),
    Ask = (maps:with([top, min_bytes], Opts))
        #{pids => Pids, tables => Tables, looked => Looked,
          look_ms => max(0, trunc(Watch#watch.look_left)), collect => collect(Watch)},
    Pid = sonde_helper:job(fun sonde_watch_sweep:take/1, Ask),
    Watch#watch{sweep = Pid, deadline = erlang:send_after(?STUCK_MS, self(), {stuck, Pid})}.

%% The allowance for walks of heaps, and for collections, grows with time.
earn(Ms, #watch{look_left = Left, tokens = Tokens, opts = #{budget := Percent} = Opts} = Watch) ->
    Budget = budget_ms(Watch),
    Saved = min(?LOOKS * Budget, Left + max(Budget, Ms * Percent / 100)),
    Watch#watch{look_left = Saved,
                tokens = case Opts of
                             #{remedy := {collect, #{per_minute := N}}} ->
                                 min(float(N), Tokens + Ms * N / 60000);
                             _ ->
                                 0.0
                         end}.

collect(#watch{opts = #{remedy := {collect, #{garbage_bytes := Bytes}}}, tokens = Tokens}) ->
    {Bytes, trunc(Tokens)};
collect(_) ->
    none.

budget_ms(#watch{opts = #{interval := Interval, budget := Percent}}) -> Interval * Percent / 100.

sweep_ends(#watch{deadline = Deadline} = Watch) ->
    _ = erlang:cancel_timer(Deadline),
    Watch#watch{sweep = undefined}.

next(#watch{period = Period} = Watch) ->
    _ = erlang:send_after(Period, self(), sweep),
    Watch.

report(#{sample := Sample, looked := Looked, look_ms := LookMs, took_ms := Took,
         collected := Collected}, #watch{core = Core0, look_left = Left} = Watch0) ->
    {Events, Core} = sonde_watch_core:step(Sample, Core0),
    Kept = kept(Sample, Took, Core),
    Watch1 = count(sweep_ms, Took + LookMs, count(sweeps, 1, keep(Kept, Watch0))),
    Watch2 = Watch1#watch{core = Core, looked = Looked, look_left = Left - LookMs, well = true,
                          stats = (Watch1#watch.stats)#{last_ms => Took, native => side()}},
    Watch3 = tell([Kept#{event => sample} | Events], Watch2),
    pace(Took, collected(Collected, Watch3)).

side() ->
    case sonde_vm:side() of
        native -> native;
        {portable, Why} -> {off, Why}
    end.

kept(#{processes := Processes} = Sample, Took, Core) ->
    {Pids, _} = sonde_watch_core:followed(Core),
    Followed = maps:from_keys(Pids, []),
    (maps:with([time, memory, counts, run_queue, top, tables], Sample))
        #{took_ms => Took,
          processes => [Row || {Pid, _, _, _} = Row <- Processes, is_map_key(Pid, Followed)]}.

%% Newest first; shortened only now and then.
keep(_, #watch{opts = #{history := 0}} = Watch) ->
    Watch;
keep(Sample, #watch{history = History, kept = Kept, opts = #{history := Most}} = Watch)
  when Kept >= Most + Most div 4 ->
    Watch#watch{history = [Sample | lists:sublist(History, Most - 1)], kept = Most};
keep(Sample, #watch{history = History, kept = Kept} = Watch) ->
    Watch#watch{history = [Sample | History], kept = Kept + 1}.

failed(Why, #watch{well = Well} = Watch) ->
    Failed = count(failed, 1, Watch#watch{well = false}),
    case Well of
        true -> tell([#{event => failed, reason => Why}], Failed);
        false -> Failed
    end.

collected({native_off, _} = Off, #watch{stats = Stats} = Watch) ->
    Watch#watch{stats = Stats#{remedy => Off}};
collected(Rows, #watch{tokens = Tokens, opts = #{remedy := Remedy}, stats = Stats} = Watch) ->
    Active = case Remedy of none -> none; _ -> active end,
    Freed = lists:sum([Bytes || #{freed := Bytes} <- Rows]),
    Counted = count(collected, length(Rows),
                    count(freed_bytes, Freed, Watch#watch{stats = Stats#{remedy => Active},
                                                          tokens = Tokens - length(Rows)})),
    tell([(maps:remove(pid, Row))#{event => collected, what => {process, Pid}}
          || #{pid := Pid} = Row <- Rows], Counted).

%% Long sweeps come less often, so that they stay within the budget. The period doubles, so that it
%% does not change, with an event, at every sweep.
pace(Took, #watch{period = Period, opts = #{interval := Interval}} = Watch) ->
    Budget = budget_ms(Watch),
    Needed = needed(Interval, Took * Interval / Budget),
    Said = #{took_ms => Took, budget_ms => Budget, period_ms => Needed},
    if
        Needed > Period ->
            tell([Said#{event => slower}], Watch#watch{period = Needed});
        Needed < Period, Took =< Budget / 2 ->
            tell([Said#{event => normal}], Watch#watch{period = Needed});
        true ->
            Watch
    end.

needed(Period, Least) when Period >= Least; 2 * Period > ?SLOWEST_MS -> Period;
needed(Period, Least) -> needed(2 * Period, Least).

%% ---- events

tell(Events, Watch) -> lists:foldl(fun tell_one/2, Watch, Events).

tell_one(#{event := sample}, #watch{waiting = Waiting} = Watch) when Waiting >= ?WAITING ->
    count(dropped, 1, Watch);
tell_one(Event, #watch{teller = {Pid, _}, waiting = Waiting, opts = #{name := Name}} = Watch) ->
    ok = sonde_watch_notify:tell(Pid, Event#{name => Name, node => node()}),
    Watch#watch{waiting = Waiting + 1}.

count(What, N, #watch{stats = Stats} = Watch) ->
    Watch#watch{stats = Stats#{What => map_get(What, Stats) + N}}.
