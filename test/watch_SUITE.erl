%% The watcher: which leaks it reports, on simulated nodes (sonde_leaks_sim) with a simulated clock;
%% where and how it reports them; its options; that nothing crashes it and that it crashes nothing.
-module(watch_SUITE).

-include_lib("proper/include/proper.hrl").

-export([init/1]).
-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2,
         end_per_testcase/2]).
-export([finds_a_leak_under_a_sawtooth_within_six_hours/1, accuses_nobody_on_healthy_days/1,
         a_plain_slope_would_accuse/1, finds_leaks_of_other_shapes/1,
         finds_what_leaks_and_nothing_else/1, small_things_are_not_followed/1,
         acquits_what_stopped/1,
         limits_have_hysteresis/1, what_is_kept_of_a_series_is_bounded/1,
         what_follows_the_load_is_no_leak/1, steps_weekends_and_caches_are_no_leaks/1,
         a_load_that_falls_makes_no_trend/1, what_grows_each_day_is_no_leak/1,
         a_leak_that_was_cleared_is_reported_again/1, quiet_days_are_no_leaks/1, a_gap_hides_no_leak/1,
         a_slow_leak_shows_beside_a_rhythm/1, a_collection_in_hours_hides_no_leak/1,
         days_with_weekends_and_steps_accuse_nobody/1,
         bad_options_are_errors_at_start/1, starts_under_a_supervisor_several_times/1,
         starts_with_the_application_if_that_is_asked_for/1, history_is_bounded/1,
         sees_the_largest_processes_and_tables/1, what_is_followed_is_seen_until_it_is_gone/1,
         a_sweep_has_every_kind_of_memory_and_every_count/1, looks_into_large_heaps/1,
         goes_on_while_processes_are_born_and_die/1,
         a_callback_that_crashes_is_told_of_once/1, a_callback_that_hangs_stops_no_sweep/1,
         a_sweep_that_is_killed_is_followed_by_others/1, survives_who_tells/1,
         its_end_ends_what_it_started/1, tells_of_a_leak_in_every_way/1,
         names_of_elixir_are_as_elixir_writes_them/1,
         sets_and_clears_alarms/1, works_without_an_alarm_handler/1,
         says_so_where_its_reports_are_dropped/1, tells_telemetry_where_it_is/1,
         samples_less_beyond_its_budget/1,
         collects_who_holds_garbage/1, collects_at_a_bounded_rate/1,
         keeps_what_it_knows_over_a_change_of_code/1, metrics_are_what_prometheus_reads/1,
         metrics_without_a_watcher/1, a_rise_of_half_a_day_is_no_leak/1, numbers_that_grew_for_days_must_go_on/1,
         what_is_not_clear_must_last_longer/1, what_is_clear_must_last_as_well/1]).

suite() ->
    [{timetrap, {minutes, 10}}].

all() ->
    [F || {F, 1} <- ?MODULE:module_info(exports),
          not lists:member(F, [init, init_per_suite, end_per_suite, module_info])].

init_per_suite(Config) ->
    sonde_test:init(Config).

end_per_suite(_Config) ->
    ok.

init_per_testcase(_Case, Config) ->
    ok = sonde_watch_helper:listen(),
    Config.

end_per_testcase(_Case, _Config) ->
    exit(whereis(sonde_watch_helper), kill),
    sonde_test:until(no_listener, fun() -> whereis(sonde_watch_helper) =:= undefined end).

%% ---- what it accuses: simulated nodes

finds_a_leak_under_a_sawtooth_within_six_hours(_Config) ->
    Leak = #{leak => {{process, 1}, {steady, 1000000}}, swing => 500000000, rhythm => 0.0},
    Found = [found({process, 1}, 6, Seed, Leak) || Seed <- lists:seq(1, 25)],
    ct:pal("hours until 1 MB an hour under 500 MB was found: ~0p", [Found]),
    [] = [Seed || {Seed, never} <- lists:zip(lists:seq(1, 25), Found)].

%% SONDE_DAYS=1000 runs more days.
accuses_nobody_on_healthy_days(_Config) ->
    Days = list_to_integer(os:getenv("SONDE_DAYS", "20")),
    Accused = [{Seed, What} || Seed <- lists:seq(1, Days div 2),
                               {_, #{event := leak, what := What}} <- run(Seed, 48, #{})],
    ct:pal("~b healthy days, accused: ~0p", [Days, Accused]),
    [] = Accused.

%% The number of processes or ports follows the load, which rises for half of a day, also above the day
%% before. These nodes showed it in two blocks of a quarter of an hour in a row, or in up to six.
a_rise_of_half_a_day_is_no_leak(_Config) ->
    Accused = [{Seed, What} || {Seed, Hours} <- [{71000080, 24}, {71000157, 72}, {71000028, 110}],
                               {_, #{event := leak, what := What}} <- run(Seed, Hours, #{week => true})],
    [] = Accused.

%% On these nodes, such a number was above that of two days before, for two hours and more.
numbers_that_grew_for_days_must_go_on(_Config) ->
    Accused = [{Seed, What} || {Seed, Hours} <- [{400847814953, 95}, {400847815560, 105}],
                               {_, #{event := leak, what := What}} <- run(Seed, Hours, #{week => true})],
    [] = Accused.

%% On these nodes a process or table rose for five hours or half a day, with more exceptions than a leak has: for
%% two blocks in a row.
what_is_not_clear_must_last_longer(_Config) ->
    Accused = [{Seed, What} || Seed <- [88847224441, 88847222519, 88847225901, 88847225736],
                               {_, #{event := leak, what := What}} <- run(Seed, 48, #{})],
    [] = Accused.

%% A table that fills up looked like a leak for two blocks in a row, in a clear order, and for one more in a less clear
%% one; another one after deployments for up to seven, in the window of a day.
what_is_clear_must_last_as_well(_Config) ->
    Accused = [{Seed, What} || {Seed, Hours} <- [{619725208775, 8}, {619725209157, 167}],
                               {_, #{event := leak, what := What}} <- run(Seed, Hours, #{week => true})],
    [] = Accused.

%% Judges the same nodes by the slope of their memory over six hours. It accuses, so the test above
%% can fail.
a_plain_slope_would_accuse(_Config) ->
    Accused = [Seed || Seed <- lists:seq(1, 10), grows_by_plain_slope(Seed)],
    true = length(Accused) >= 5.

grows_by_plain_slope(Seed) ->
    Next = fun(_, Sim0) ->
                   {#{at := At, processes := Rows}, Sim} = sonde_leaks_sim:next(Sim0),
                   {{At / 3600000, Rows}, Sim}
           end,
    {Points, _} = lists:mapfoldl(Next, sonde_leaks_sim:new(Seed, #{}), lists:seq(1, 720)),
    {_, First} = hd(Points),
    lists:any(fun(Pid) ->
                      Values = [{At, Bytes} || {At, Rows} <- Points,
                                               {P, Bytes, _, _} <- Rows, P =:= Pid],
                      plain_slope(Values) >= 1000000
              end, [Pid || {Pid, _, _, _} <- First]).

plain_slope(Points) ->
    N = length(Points),
    {Xs, Ys} = lists:unzip(Points),
    {X, Y} = {lists:sum(Xs) / N, lists:sum(Ys) / N},
    lists:sum([(A - X) * (B - Y) || {A, B} <- Points]) / lists:sum([(A - X) * (A - X) || A <- Xs]).

finds_leaks_of_other_shapes(_Config) ->
    Of = fun(How) -> #{leak => {{process, 1}, How}, rhythm => 0.0} end,
    [] = [{Hours, Opts, Seed}
          || {Hours, Opts} <-
                 [{8, Of({bursts, 2000000, 1200000})},
                  {8, Of({by_load, 5000000})},
                  {30, (Of({steady, 10000000}))#{rhythm => 0.6}},
                  {48, (Of({steady, 5000000}))#{swing => 10000000, reads => false}}],
             Seed <- [1, 2, 3], found({process, 1}, Hours, Seed, Opts) =:= never].

%% Without the leak nothing is accused on these nodes; with it, only the leak is.
finds_what_leaks_and_nothing_else(_Config) ->
    Calm = #{rhythm => 0.0},
    Seeds = [1, 2],
    Accused = fun(Seed, Opts) ->
                      lists:usort([What || {_, #{event := leak, what := What}}
                                               <- run(Seed, 20, Opts)])
              end,
    [] = [{Seed, Whom} || Seed <- Seeds, Whom <- [Accused(Seed, Calm)], Whom =/= []],
    [] = [{What, Seed, Whom}
          || {What, PerHour} <- [{{table, 1}, 10000000},
                                 {{memory, processes}, 600000000}, {{memory, binary}, 200000000},
                                 {{memory, ets}, 10000000}, {{memory, atom}, 1000000},
                                 {{memory, code}, 5000000}, {{memory, other}, 10000000},
                                 {{count, processes}, 2000}, {{count, ports}, 1000},
                                 {{count, atoms}, 5000}, {{count, ets_tables}, 200}],
             Seed <- Seeds,
             Whom <- [Accused(Seed, Calm#{leak => {What, {steady, PerHour}}})], Whom =/= [What]].

%% A process or table below `min_bytes' is not followed, however it grows; a larger one is, but only
%% if it was that large within the last three quarters of an hour.
small_things_are_not_followed(_Config) ->
    Followed = fun(Values) ->
                       Core = lists:foldl(
                                fun({N, Bytes}, Core0) ->
                                        Sample = (sample(N, Bytes))#{tables => [{t, Bytes, []}]},
                                        {[], Core1} = sonde_watch_core:step(Sample, Core0),
                                        Core1
                                end, core(#{}), lists:zip(lists:seq(1, length(Values)), Values)),
                       sonde_watch_core:followed(Core)
               end,
    {[], []} = Followed([I * 40000 || I <- lists:seq(1, 240)]),
    {[p], [t]} = Followed([10000000]),
    {[p], [t]} = Followed([10000000 | lists:duplicate(89, 0)]),
    {[], []} = Followed([10000000 | lists:duplicate(91, 0)]).

%% A process is acquitted two blocks after its growth stopped at the earliest, or once it is gone.
acquits_what_stopped(_Config) ->
    {Core1, Events} = feed(fun(H) -> 50000000 + trunc(min(H, 7) * 5000000) end, 0, 720 * 2,
                           core(#{}), []),
    [{From, leak}, {To, leak_over}] = Events,
    true = From > 4.5 andalso From < 6 andalso To > 7,
    {Core2, [{_, leak}]} = feed(fun(H) -> trunc(H * 5000000) + 50000000 end, 0, 720, core(#{}), []),
    {[#{event := leak_over, what := {process, p}}], Core3} =
        sonde_watch_core:step((sample(721, 0))#{processes => [], gone => [{process, p}]}, Core2),
    [] = sonde_watch_core:accused(Core3),
    [] = sonde_watch_core:accused(Core1).

limits_have_hysteresis(_Config) ->
    {_, Said} = lists:foldl(
                  fun({At, N}, {Core0, Acc}) ->
                          Sample = (sample(At, 1))#{counts => [{ports, N, 100}]},
                          {Events, Core} = sonde_watch_core:step(Sample, Core0),
                          {Core, Acc ++ [{N, E} || #{event := E} <- Events]}
                  end, {core(#{}), []},
                  lists:zip(lists:seq(1, 9), [50, 79, 80, 95, 75, 70, 69, 75, 81])),
    [{80, limit}, {69, limit_over}, {81, limit}] = Said.

what_is_kept_of_a_series_is_bounded(_Config) ->
    true = proper:quickcheck(
             ?FORALL({Kind, Values}, {oneof([least, mean]), resize(3000, list(nat()))},
                     begin
                         Series = series(Kind, Values, 400000),
                         Blocks = sonde_trend:blocks(Series),
                         Most = lists:max([0 | Values]),
                         length(Blocks) =< 400 andalso
                             lists:all(fun({_, V}) -> V >= 0 andalso V =< Most end, Blocks)
                     end), [{numtests, 100}, {to_file, user}]).

what_follows_the_load_is_no_leak(_Config) ->
    Rule = #{growth => 1, share => 0.0, hours => 5, bins => mean},
    true = proper:quickcheck(
             ?FORALL({Level, Step}, {integer(10, 1000), integer(1, 20)},
                     begin
                         Values = [Level + Step * I || I <- lists:seq(1, 90)],
                         Grows = series(least, Values, 300000),
                         Same = series(mean, Values, 300000),
                         Flat = series(mean, [7 || _ <- Values], 300000),
                         none =:= sonde_trend:judge(Grows, Same, Rule)
                             andalso none =/= sonde_trend:judge(Grows, Flat, Rule)
                     end), [{numtests, 100}, {to_file, user}]).

%% Over ten days, at no quarter of an hour. The load swings by a half each day; a value may follow it.
steps_weekends_and_caches_are_no_leaks(_Config) ->
    Steps = fun(Ats) -> fun(H, _) -> 10000 * (1 + 0.15 * length([At || At <- Ats, H >= At])) end end,
    Cache = fun(Hours, Begun) -> 10000 * (1 - math:exp(min(0, Begun - Hours) / 4.0)) end,
    Healthy = [{one_step, Steps([60]), fun daily/1},
               {two_steps, Steps([40, 61]), fun daily/1},
               {three_steps, Steps([40, 57, 77]), fun steady/1},
               {a_step_each_day, Steps([33, 57, 81]), fun daily/1},
               {up_and_down, fun(H, _) when H > 40, H < 100 -> 13000; (_, _) -> 10000 end,
                fun(H) -> (daily(H) + 1) * today(H + 20, 0.6) end},
               {cache, fun(H, _) -> Cache(H, 0) end, fun daily/1},
               {refilled, fun(H, _) -> Cache(H, 50 * (trunc(H) div 50)) end, fun steady/1},
               {weekend, fun(_, Load) -> 10000 * Load end, fun(H) -> daily(H) * today(H, 0.5) end},
               {busy_weekend, fun(_, Load) -> 10000 * Load end, fun(H) -> daily(H) * today(H, 1.5) end},
               {weekend_of_its_own, fun(H, _) -> 10000 * today(H, 0.5) end, fun steady/1},
               {step_at_a_trough, fun(H, Load) when H > 70 -> 13000 * Load; (_, Load) -> 10000 * Load end,
                fun(H) -> daily(H - 8) end}],
    [] = [{Name, Seed, Hours} || {Name, Value, Load} <- Healthy, Seed <- [1, 2, 3],
                                 Hours <- [accused(Value, Load, 240, mean, 0.01, Seed)], Hours =/= []].

%% Two tables of simulated nodes, at a weekend: one was larger for a day and a half, one grew in two
%% steps. Their values less those of the load rise evenly.
a_load_that_falls_makes_no_trend(_Config) ->
    Grows = fun(Size, Bins, Values, Loads) ->
                    Blocks = fun(Of) -> lists:append([lists:duplicate(Size, X) || X <- Of]) ++ [0] end,
                    sonde_trend:judge(series(least, Blocks(Values), 900000),
                                      series(mean, Blocks(Loads), 900000),
                                      #{growth => 300, share => 0.005, hours => 12, bins => Bins})
            end,
    none = Grows(12, mean, [22932, 24101, 24392, 23291, 23123, 22450, 22249, 21907, 26210, 29236, 30248,
                            29829, 29110, 27338, 26618, 26524, 23319, 23235, 23323, 22898, 22350,
                            21216, 21406, 21702],
                 [102, 106, 106, 103, 100, 96, 95, 96, 101, 103, 106, 103, 101, 95, 92, 90, 79, 81, 81,
                  78, 77, 72, 72, 74]),
    none = Grows(8, least, lists:duplicate(10, 30064) ++ lists:duplicate(4, 33295)
                     ++ lists:duplicate(10, 35788),
                 [113, 129, 131, 125, 118, 102, 87, 73, 63, 71, 81, 100, 112, 129, 132, 138, 121, 105,
                  86, 69, 65, 69, 26, 31]).

%% A rhythm that the load does not explain looks like growth on the first day, and on no other.
what_grows_each_day_is_no_leak(_Config) ->
    [] = [Found || Seed <- [1, 2, 3],
                   Found <- accused(fun(H, _) -> 10000 * daily(H) end, fun steady/1, 240, mean, 0.01, Seed),
                   Found > 48].

%% It is below the day before, but it fell at once, and to less than it ever was on that day.
a_leak_that_was_cleared_is_reported_again(_Config) ->
    Leak = fun(H, _) when H < 40 -> 10000 + 200 * H; (H, _) -> 10000 + 200 * (H - 40) end,
    [] = [Seed || Seed <- lists:seq(1, 5),
                  not lists:any(fun(H) -> H > 45 andalso H =< 54 end,
                                accused(Leak, fun steady/1, 60, mean, 0.01, Seed))].

%% The load explains none, and on Saturday all are below Friday: a rhythm that is weaker on that day; one that
%% falls to half of its level during Friday; a table that fills during the day, and that a job empties each night.
quiet_days_are_no_leaks(_Config) ->
    Saturday = fun(H) -> trunc(H) div 24 =:= 5 end,
    Today = fun(H) -> case Saturday(H) of true -> 0.4; false -> 1.0 end end,
    Wave = fun(H) -> 1 - math:cos(2 * math:pi() * H / 24) end,
    Rhythm = fun(H, _) -> 10000 * (1 + Today(H) * Wave(H)) end,
    Falls = fun(H, _) -> 10000 * (2 + Wave(H)) * (1 - max(0, min(1, (H - 108) / 12)) / 2) end,
    Table = fun(H, _) -> 10000 * (1 + Today(H) * min(1, (H - 24 * (trunc(H) div 24)) / 14)) end,
    [] = [{Seed, H} || Seed <- [1, 2, 3], Value <- [Rhythm, Falls, Table],
                       H <- accused(Value, fun steady/1, 144, mean, 0.01, Seed), Saturday(H)].

%% A leak that only windows of two and three days show: a gap of two hours leaves too few values for the shorter
%% windows.
a_gap_hides_no_leak(_Config) ->
    Leak = fun(H, _) when H >= 100, H < 102.25 -> none; (H, _) -> 10000 + 20 * H end,
    [] = [Seed || Seed <- lists:seq(1, 5),
                  not lists:any(fun(H) -> H > 103 end,
                                accused(Leak, fun steady/1, 115, mean, 0.01, Seed))].

%% A hundredth of the level an hour; within a day, five times as much rises and falls with the load. It
%% grew from a value that it had in the first half of the window, not from one without the load.
a_slow_leak_shows_beside_a_rhythm(_Config) ->
    [] = [Seed || Seed <- lists:seq(1, 5),
                  Found <- [findings(fun(H, Load) -> 10000 * Load + 100 * H end, fun daily/1, 72, mean, 0.01, Seed)],
                  Found =:= [] orelse lists:any(fun({H, #{from := From}}) -> From > 4000 + 100 * H end, Found)].

%% Most blocks have seen no collection: their least values say little.
a_collection_in_hours_hides_no_leak(_Config) ->
    Garbage = fun(H) -> 20000 * (H / 2.6 - trunc(H / 2.6)) end,
    Saw = fun(H, _) -> 10000 + 100 * H + Garbage(H) end,
    [] = [Seed || Seed <- lists:seq(1, 5), accused(Saw, fun steady/1, 72, least, 0.01, Seed) =:= []],
    Flat = fun(H, _) -> 10000 + Garbage(H) end,
    [] = [Seed || Seed <- lists:seq(1, 5), accused(Flat, fun steady/1, 72, least, 0.01, Seed) =/= []].

daily(Hour) -> 1 + 0.5 * math:sin(2 * math:pi() * Hour / 24).

steady(_) -> 1.0.

%% Two days of seven.
today(Hour, Weekend) when trunc(Hour) div 24 rem 7 >= 5 -> Weekend;
today(_, _) -> 1.0.

%% The hours at which it is accused.
accused(Value, Load, Hours, Bins, Noise, Seed) ->
    [H || {H, _} <- findings(Value, Load, Hours, Bins, Noise, Seed)].

%% A quarter of an hour with the value `none' has no sample.
findings(Value, Load, Hours, Bins, Noise, Seed) ->
    _ = rand:seed(exsss, {Seed, 7, 4711}),
    Rule = #{growth => 300, share => 0.05, hours => 12, bins => Bins},
    {_, Found} = lists:foldl(
                   fun(N, {{Values, Loads}, Acc}) ->
                           H = N / 4,
                           L = Load(H) * (1 + Noise * rand:normal()),
                           case Value(H, L) of
                               none ->
                                   {{Values, Loads}, Acc};
                               V ->
                                   Now = sonde_trend:add(N * 900000, V * (1 + Noise * rand:normal()), Values),
                                   Beside = sonde_trend:add(N * 900000, L, Loads),
                                   {{Now, Beside}, [{H, Finding} || {grows, Finding}
                                                                        <- [sonde_trend:judge(Now, Beside, Rule)]]
                                                    ++ Acc}
                           end
                   end, {{sonde_trend:new(least), sonde_trend:new(mean)}, []}, lists:seq(0, 4 * Hours)),
    lists:reverse(Found).

%% Nodes with weekends and deployments that change the level of everything. Only what was judged by
%% a day and more counts: twelve hours at the end of a weekend can look like growth (doc/testing.md).
%% SONDE_DAYS=1000 runs more days.
days_with_weekends_and_steps_accuse_nobody(_Config) ->
    Days = list_to_integer(os:getenv("SONDE_DAYS", "50")),
    Accused = [{Seed, What} || Seed <- lists:seq(1, Days div 10),
                               {_, #{event := leak, what := What, hours := Hours}}
                                   <- run(Seed, 240, #{week => true}), Hours >= 22],
    ct:pal("~b healthy days, accused: ~0p", [Days, Accused]),
    [] = Accused.

series(Kind, Values, Step) ->
    {_, Series} = lists:foldl(fun(V, {At, S}) -> {At + Step, sonde_trend:add(At, V, S)} end,
                              {0, sonde_trend:new(Kind)}, Values),
    Series.

found(What, Hours, Seed, Opts) ->
    case [H || {H, #{event := leak, what := W}} <- run(Seed, Hours, Opts), W =:= What] of
        [H | _] -> round(H * 10) / 10;
        [] -> never
    end.

run(Seed, Hours, Opts) ->
    sonde_leaks_sim:run(sonde_leaks_sim:new(Seed, Opts), Hours, #{}).

core(Opts) ->
    sonde_watch_core:new(maps:merge(#{min_bytes => 10000000, top => 20}, Opts)).

feed(_, To, To, Core, Events) ->
    {Core, lists:reverse(Events)};
feed(Live, N, To, Core0, Events) ->
    {New, Core} = sonde_watch_core:step(sample(N, Live(N / 120)), Core0),
    feed(Live, N + 1, To, Core, [{N / 120, E} || #{event := E} <- New] ++ Events).

sample(N, Live) ->
    #{at => N * 30000, reductions => N * 1000000, memory => [], counts => [], tables => [],
      gone => [], processes => [{p, Live, Live, []}]}.

%% ---- options, and where it starts

bad_options_are_errors_at_start(_Config) ->
    Bad = [{interval, 0}, {interval, a}, {interval, 1.5}, {history, -1}, {top, x}, {min_bytes, -1},
           {budget, 0}, {budget, 101}, {callback, f}, {callback, {lists, no_such_function}},
           {callback, {no_such_module, f}}, {remedy, collect}, {remedy, {collect, #{}}},
           {remedy, {collect, #{garbage_bytes => 1, per_minute => 0}}},
           {remedy, {collect, #{garbage_bytes => 1, per_minute => 1, more => 1}}},
           {name, "name"}, {no_such_option, 1}],
    _ = [begin
             {error, {badarg, Option}} = sonde_watch:start_link(maps:from_list([Option])),
             {error, {badarg, Option}} = sonde_watch:start_link([Option]),
             {badarg, Option} = sonde_test:raised(fun() -> sonde_watch:child_spec([Option]) end)
         end || Option <- Bad],
    _ = [{error, {badarg, Given}} = sonde_watch:start_link(Given)
         || Given <- [x, "x", [{top, 1}, {top, 2}], [{top, 1} | x]]],
    _ = [badarg = sonde_test:raised(fun() -> sonde_watch:history(sonde_watch, N) end)
         || N <- [-1, x]],
    ok.

starts_under_a_supervisor_several_times(_Config) ->
    Specs = [sonde_watch:child_spec(#{interval => 20, name => undefined}),
             sonde_watch:child_spec([{interval, 20}, {name, undefined}]),
             sonde_watch:child_spec(#{interval => 20, name => watch_suite})],
    {ok, Sup} = supervisor:start_link(?MODULE, Specs),
    Children = [Pid || {_, Pid, worker, [sonde_watch]} <- supervisor:which_children(Sup)],
    3 = length(Children),
    _ = [ok = swept(Pid, 2) || Pid <- [watch_suite | Children]],
    true = unlink(Sup),
    sonde_test:stop(Children),
    exit(Sup, shutdown),
    sonde_test:until(no_supervisor, fun() -> not is_process_alive(Sup) end).

%% The test is the supervisor's callback module too.
init(Specs) ->
    {ok, {#{}, Specs}}.

starts_with_the_application_if_that_is_asked_for(_Config) ->
    on_a_peer([], fun starts_with_the_application/1).

starts_with_the_application(Call) ->
    ok = Call(application, start, [sonde]),
    undefined = Call(erlang, whereis, [sonde_watch]),
    ok = Call(application, stop, [sonde]),
    ok = Call(application, set_env, [sonde, watch, [{interval, 20}]]),
    ok = Call(application, start, [sonde]),
    ok = sonde_test:until(sweeps,
                          fun() -> maps:get(sweeps, Call(sonde_watch, status, [])) > 1 end),
    [#{memory := [_ | _]}] = Call(sonde_watch, history, [1]),
    ok = Call(application, stop, [sonde]),
    undefined = Call(erlang, whereis, [sonde_watch]),
    ok = Call(application, set_env, [sonde, watch, [{interval, x}]]),
    {error, {{badarg, {interval, x}}, _}} = Call(application, start, [sonde]).

history_is_bounded(_Config) ->
    Pid = start(#{interval => 1, history => 3, top => 1}),
    ok = swept(Pid, 10),
    [#{time := A}, #{time := B}, #{time := C}] = sonde_watch:history(Pid, 100),
    true = A >= B andalso B >= C,
    [_] = sonde_watch:history(Pid, 1),
    [] = sonde_watch:history(Pid, 0),
    stop(Pid),
    None = start(#{interval => 1, history => 0}),
    ok = swept(None, 3),
    [] = sonde_watch:history(None, 5),
    stop(None).

sees_the_largest_processes_and_tables(_Config) ->
    Big = sonde_test:hold(fun() -> lists:seq(1, 2000000) end),
    Table = ets:new(watch_table, [public]),
    true = ets:insert(Table, [{I, I} || I <- lists:seq(1, 200000)]),
    Pid = start(#{interval => 20, top => 20, min_bytes => 1000000}),
    ok = swept(Pid, 3),
    Rows = fun() ->
                   [#{top := Top, tables := Tables, processes := Followed}] =
                       sonde_watch:history(Pid, 1),
                   [lists:keymember(Big, 1, proplists:get_value(memory, Top)),
                    lists:keymember(Table, 1, Tables), lists:keymember(Big, 1, Followed)]
           end,
    ok = sonde_test:until(seen, fun() -> Rows() =:= [true, true, true] end),
    true = ets:delete(Table),
    sonde_test:stop(Big),
    ok = sonde_test:until(gone, fun() -> Rows() =:= [false, false, false] end),
    stop(Pid).

%% This holds for processes and tables that are not among the largest, too. One sample reports that
%% it is gone.
what_is_followed_is_seen_until_it_is_gone(_Config) ->
    Held = sonde_test:hold(fun() -> ok end),
    Table = ets:new(watch_table, [public]),
    Ask = #{top => 0, min_bytes => 0, pids => [Held], tables => [Table], looked => #{},
            look_ms => 0, collect => none},
    #{sample := #{processes := [{Held, Bytes, _, _}], tables := [{Table, Size, _}], gone := []}} =
        sonde_watch_sweep:take(Ask),
    {memory, Bytes} = process_info(Held, memory),
    Size = ets:info(Table, memory) * erlang:system_info(wordsize),
    sonde_test:stop(Held),
    true = ets:delete(Table),
    #{sample := #{processes := [], tables := [], gone := [{process, Held}, {table, Table}]}} =
        sonde_watch_sweep:take(Ask).

%% The kinds of memory add up to all that the node has.
a_sweep_has_every_kind_of_memory_and_every_count(_Config) ->
    Pid = start(#{interval => 20}),
    ok = swept(Pid, 1),
    [#{memory := Memory, counts := Counts} | _] = sonde_watch:history(Pid, 1),
    [atom, binary, code, ets, other, processes] = lists:sort([Kind || {Kind, _} <- Memory]),
    [] = [Kind || {Kind, 0} <- Memory],
    Total = erlang:memory(total),
    {Total, Memory, true} =
        {Total, Memory, abs(lists:sum([B || {_, B} <- Memory]) - Total) < Total div 4},
    [{atoms, AtomLimit}, {ets_tables, undefined}, {ports, PortLimit}, {processes, ProcessLimit}] =
        lists:sort([{Kind, Limit} || {Kind, _, Limit} <- Counts]),
    [AtomLimit, PortLimit, ProcessLimit] =
        [erlang:system_info(I) || I <- [atom_limit, port_limit, process_limit]],
    Open = fun(_) -> {ok, Port} = gen_udp:open(0, [{ip, {127, 0, 0, 1}}]), Port end,
    Ports = lists:map(Open, lists:seq(1, 50)),
    Tables = [ets:new(watch_table, []) || _ <- lists:seq(1, 50)],
    Crowd = sonde_watch_helper:idlers(50),
    Atom = fun(N) -> list_to_atom("watch_suite_" ++ integer_to_list(N)) end,
    _ = [Atom(erlang:unique_integer([positive])) || _ <- lists:seq(1, 1000)],
    Then = maps:get(sweeps, sonde_watch:status(Pid)),
    ok = swept(Pid, Then + 2),
    [#{counts := Now} | _] = sonde_watch:history(Pid, 1),
    More = fun(Kind) ->
                   [{_, A, _}, {_, B, _}] = [lists:keyfind(Kind, 1, L) || L <- [Now, Counts]],
                   A - B
           end,
    [] = [{Kind, More(Kind)} || {Kind, Least} <- [{processes, 40}, {ports, 40}, {ets_tables, 40},
                                                  {atoms, 900}], More(Kind) < Least],
    _ = [ok = gen_udp:close(Port) || Port <- Ports],
    _ = [true = ets:delete(Tab) || Tab <- Tables],
    sonde_test:stop(Crowd),
    stop(Pid).

%% Finds what a collection would leave of a process whose heap is eight times as large.
looks_into_large_heaps(_Config) ->
    Big = sonde_test:hold(fun() -> _ = length(lists:seq(1, 1000000)), lists:seq(1, 100000) end),
    Pid = start(#{interval => 2000, top => 20, min_bytes => 1000000}),
    Seen = fun() -> lists:append([Rows || #{processes := Rows} <- sonde_watch:history(Pid, 9)]) end,
    ok = sonde_test:until(looked_at, fun() -> lists:keymember(Big, 1, Seen()) end),
    {Big, Bytes, Live, _} = lists:keyfind(Big, 1, Seen()),
    true = sonde_test:pick(fun() -> Live >= 1600000 andalso Live < 2000000
                                        andalso Bytes > 2 * Live end,
                           Live =:= unknown),
    sonde_test:stop(Big),
    stop(Pid).

goes_on_while_processes_are_born_and_die(_Config) ->
    Born = counters:new(1, []),
    Churn = sonde_test:churn(2, fun() -> born_and_gone(Born) end),
    Pid = start(#{interval => 1, min_bytes => 0, top => 50}),
    try
        ok = swept(Pid, 10),
        ok = sonde_test:until(births, fun() -> counters:get(Born, 1) > 1000 end),
        #{sweeps := N} = sonde_watch:status(Pid),
        ok = swept(Pid, N + 1),
        #{failed := 0} = sonde_watch:status(Pid)
    after
        stop(Pid),
        sonde_test:stop(Churn)
    end.

%% Some live longer than a sweep takes, most do not.
born_and_gone(Born) ->
    ok = counters:add(Born, 1, 1),
    _ = spawn(fun() ->
                      _ = ets:new(churn, [public]),
                      _ = length(lists:seq(1, rand:uniform(5000))),
                      timer:sleep(rand:uniform(50))
              end),
    counters:get(Born, 1) rem 20 =/= 0 orelse timer:sleep(1).

%% ---- nothing crashes it

a_callback_that_crashes_is_told_of_once(_Config) ->
    with_log(fun() ->
                     Pid = start(#{interval => 5, callback => {sonde_watch_helper, crash}}),
                     Failed = fun() -> maps:get(listeners_failed, sonde_watch:status(Pid)) end,
                     ok = sonde_test:until(crashes, fun() -> Failed() > 5 end),
                     [#{report := #{callback := {sonde_watch_helper, crash},
                                    reason := {error, on_purpose, _}}}] =
                         [L || #{report := #{event := callback}} = L
                                   <- sonde_watch_helper:events(logged)],
                     stop(Pid)
             end).

%% The process that runs callbacks ends with its watcher, whatever it still has queued.
a_callback_that_hangs_stops_no_sweep(_Config) ->
    Pid = start(#{interval => 1, callback => {sonde_watch_helper, hang}}),
    ok = sonde_test:until(dropped, fun() -> maps:get(dropped, sonde_watch:status(Pid)) > 0 end),
    #{sweeps := Then} = sonde_watch:status(Pid),
    ok = swept(Pid, Then + 5),
    Teller = teller(Pid),
    stop(Pid),
    sonde_test:stop([P || P <- sonde_test:helpers(), process_info(P, current_function)
                              =:= {current_function, {sonde_watch_helper, hang, 1}}]),
    sonde_test:until(no_teller, fun() -> not is_process_alive(Teller) end).

a_sweep_that_is_killed_is_followed_by_others(_Config) ->
    with_script(block, fun killed_in_a_sweep/1).

killed_in_a_sweep(Call) ->
    {ok, Pid} = Call(gen_server, start, [sonde_watch, opts(#{interval => 5}), []]),
    Sweep = fun() ->
                    {links, Links} = Call(erlang, process_info, [Pid, links]),
                    [P || P <- Links, is_pid(P)]
            end,
    ok = sonde_test:until(a_sweep, fun() -> Sweep() =/= [] end),
    [Worker] = Sweep(),
    true = Call(erlang, exit, [Worker, kill]),
    ok = sonde_test:until(another, fun() -> not lists:member(Sweep(), [[], [Worker]]) end),
    [Other] = Sweep(),
    #{failed := 1, sweeps := 0} = Call(sonde_watch, status, [Pid]),
    true = Call(erlang, exit, [Pid, kill]),
    ok = sonde_test:until(both_end, fun() -> not (Call(erlang, is_process_alive, [Pid])
                                                  orelse Call(erlang, is_process_alive, [Other]))
                                    end).

survives_who_tells(_Config) ->
    Pid = start(#{interval => 5, callback => {sonde_watch_helper, told}}),
    Samples = fun() -> length(sonde_watch_helper:events(sample)) end,
    ok = sonde_test:until(a_sample, fun() -> Samples() > 0 end),
    sonde_test:stop(teller(Pid)),
    Then = Samples(),
    ok = sonde_test:until(more_samples, fun() -> Samples() > Then + 2 end),
    stop(Pid).

%% This also holds when it is killed: none of its processes is left.
its_end_ends_what_it_started(_Config) ->
    _ = [begin
             Pid = start(#{interval => 1}),
             ok = swept(Pid, 2),
             Teller = teller(Pid),
             End(Pid),
             ok = sonde_test:until(no_teller, fun() -> not is_process_alive(Teller) end)
         end || End <- [fun stop/1, fun sonde_test:stop/1]],
    ok.

%% The watcher monitors one process permanently; it monitors named servers while it calls them.
teller(Pid) ->
    {monitors, Monitors} = process_info(Pid, monitors),
    [Teller] = [Of || {process, Of} <- Monitors, is_pid(Of)],
    Teller.

%% ---- how it reports

tells_of_a_leak_in_every_way(_Config) ->
    with_script({grow, 20000000},
                fun(Call) ->
                        ok = Call(sonde_watch_helper, listen, []),
                        {ok, _} = Call(application, ensure_all_started, [sasl]),
                        ok = Call(logger, add_handler, [watch, sonde_watch_helper, #{}]),
                        Opts = opts(#{interval => 1, callback => {sonde_watch_helper, told}}),
                        {ok, Pid} = Call(gen_server, start, [sonde_watch, Opts, []]),
                        Init = Call(erlang, whereis, [init]),
                        Id = {sonde, leak, {process, Init}},
                        Alarms = fun() -> Call(sonde_watch_helper, alarms, []) end,
                        ok = sonde_test:until(an_alarm, fun() -> Alarms() =/= [] end),
                        [{Id, #{per_hour := PerHour}}] = Alarms(),
                        true = abs(PerHour - 20000000) < 200000,
                        [#{what := {process, Init}, node := _, name := sonde_watch}] =
                            Call(sonde_watch_helper, events, [leak]),
                        [#{level := warning, text := "sonde_watch: process " ++ Text}] =
                            [L || #{report := #{event := leak}} = L
                                      <- Call(sonde_watch_helper, events, [logged])],
                        {match, _} = re:run(Text, "\\(init\\) grows by 19\\.\\d MiB an hour"),
                        #{accused := [#{event := leak}]} = Call(sonde_watch, status, [Pid]),
                        true = Call(erlang, exit, [Pid, kill]),
                        ok = sonde_test:until(no_alarm, fun() -> Alarms() =:= [] end)
                end).

names_of_elixir_are_as_elixir_writes_them(_Config) ->
    Said = fun(What, Attrs) ->
                   {"sonde_watch: ~ts", [Text]} =
                       sonde_watch_notify:format(#{event => collected, what => What, freed => 1,
                                                   garbage => 1, attrs => Attrs}),
                   "collected " ++ Of = unicode:characters_to_list(Text),
                   hd(string:split(Of, ", which"))
           end,
    M = 'Elixir.MyApp.Worker',
    _ = [{Attrs, Expected} = {Attrs, Said({ets, 'Elixir.MyApp.Cache'}, Attrs)}
         || {Attrs, Expected} <-
                [{[M], "ets MyApp.Cache (MyApp.Worker)"},
                 {[{initial_call, {M, init, 1}}], "ets MyApp.Cache (MyApp.Worker.init/1)"},
                 {[{initial_call, {m, init, 1}}], "ets MyApp.Cache ({m,init,1})"},
                 {['two words'], "ets MyApp.Cache ('two words')"}, {[], "ets MyApp.Cache"}]],
    ok.

sets_and_clears_alarms(_Config) ->
    on_a_peer(["+P", "1024"], fun alarms/1).

alarms(Call) ->
    {ok, _} = Call(application, ensure_all_started, [sasl]),
    {ok, Pid} = Call(gen_server, start, [sonde_watch, opts(#{interval => 20}), []]),
    Alarms = fun() -> Call(sonde_watch_helper, alarms, []) end,
    Crowd = Call(sonde_watch_helper, crowd, [0.85]),
    ok = sonde_test:until(an_alarm, fun() -> Alarms() =/= [] end),
    [{{sonde, limit, {count, processes}}, #{limit := 1024, count := N}}] = Alarms(),
    true = N >= 820,
    ok = Call(sonde_test, stop, [Crowd]),
    ok = sonde_test:until(no_alarm, fun() -> Alarms() =:= [] end),
    _ = Call(sonde_watch_helper, crowd, [0.85]),
    ok = sonde_test:until(an_alarm, fun() -> Alarms() =/= [] end),
    ok = Call(gen_server, stop, [Pid]),
    sonde_test:until(no_alarm, fun() -> Alarms() =:= [] end).

works_without_an_alarm_handler(_Config) ->
    on_a_peer(["+P", "1024"], fun no_alarm_handler/1).

no_alarm_handler(Call) ->
    undefined = Call(erlang, whereis, [alarm_handler]),
    ok = Call(sonde_watch_helper, listen, []),
    Told = fun(Kind) -> fun() -> Call(sonde_watch_helper, events, [Kind]) =/= [] end end,
    Opts = opts(#{interval => 20, callback => {sonde_watch_helper, told}}),
    {ok, _} = Call(gen_server, start, [sonde_watch, Opts, []]),
    Crowd = Call(sonde_watch_helper, crowd, [0.85]),
    ok = sonde_test:until(limit, Told(limit)),
    ok = Call(sonde_test, stop, [Crowd]),
    sonde_test:until(limit_over, Told(limit_over)).

%% The default handler drops reports at first; there is no hint once a filter lets them through.
says_so_where_its_reports_are_dropped(_Config) ->
    on_a_peer([], fun hints/1).

%% The hint comes before the first sample is reported.
hints(Call) ->
    ok = Call(sonde_watch_helper, listen, []),
    ok = Call(logger, add_handler, [watch, sonde_watch_helper, #{}]),
    Events = fun(Kind) -> Call(sonde_watch_helper, events, [Kind]) end,
    Hints = fun(Name) ->
                    Opts = opts(#{interval => 20, name => Name,
                                  callback => {sonde_watch_helper, told}}),
                    {ok, Pid} = Call(gen_server, start, [sonde_watch, Opts, []]),
                    Told = fun() -> [E || #{name := N} = E <- Events(sample), N =:= Name] end,
                    ok = sonde_test:until(a_sample, fun() -> Told() =/= [] end),
                    ok = Call(gen_server, stop, [Pid]),
                    length(Events(hint))
            end,
    1 = Hints(first),
    ok = Call(logger, add_handler_filter,
              [default, sonde, {fun logger_filters:domain/2, {log, sub, [sonde]}}]),
    1 = Hints(second).

%% telemetry is not available here: a module of that name has the one function that is called.
tells_telemetry_where_it_is(_Config) ->
    on_a_peer([], fun telemetry/1).

telemetry(Call) ->
    {module, telemetry} =
        load(Call, telemetry,
             "-export([execute/3]). execute(A, B, C) -> sonde_watch_helper:execute(A, B, C)."),
    ok = Call(sonde_watch_helper, listen, []),
    {ok, _} = Call(gen_server, start, [sonde_watch, opts(#{interval => 20}), []]),
    Told = fun() -> Call(sonde_watch_helper, events, [telemetry]) end,
    ok = sonde_test:until(telemetry, fun() -> Told() =/= [] end),
    [#{name := [sonde, watch, sample], measurements := Numbers, metadata := #{node := _}} | _] =
        Told(),
    #{took_ms := _, binary := _, processes := _, process_count := _} = Numbers,
    true = lists:all(fun is_number/1, maps:values(Numbers)).

%% ---- budget and remedies

%% The budget is five milliseconds; the duration of the sweeps is made up.
samples_less_beyond_its_budget(_Config) ->
    with_script({took, [0, 5, 12]}, fun slower_and_normal/1).

slower_and_normal(Call) ->
    ok = Call(sonde_watch_helper, listen, []),
    Told = fun(Kind) -> Call(sonde_watch_helper, events, [Kind]) end,
    {ok, Pid} = Call(gen_server, start,
                     [sonde_watch, opts(#{interval => 100, budget => 5,
                                          callback => {sonde_watch_helper, told}}), []]),
    ok = sonde_test:until(slower, fun() -> Told(slower) =/= [] end),
    #{slower := true, interval := 100, period := 400, budget_ms := 5.0} =
        Call(sonde_watch, status, [Pid]),
    ok = Call(sonde_watch_helper, script, [{took, [3, 2]}]),
    ok = sonde_test:until(normal, fun() -> Told(normal) =/= [] end),
    #{slower := false, period := 100} = Call(sonde_watch, status, [Pid]),
    [#{took_ms := 12, budget_ms := 5.0, period_ms := 400}] = Told(slower),
    [#{took_ms := 2, period_ms := 100}] = Told(normal).

collects_who_holds_garbage(_Config) ->
    Pid = collecting(60000),
    ok = sonde_test:pick(fun() -> collects(Pid) end,
                         fun() ->
                                 ok = swept(Pid, 2),
                                 #{remedy := {native_off, disabled}, collected := 0} =
                                     sonde_watch:status(Pid),
                                 ok
                         end),
    stop(Pid).

collects(Pid) ->
    Holder = wasteful(),
    Is = fun() -> [E || #{what := {process, P}} = E <- sonde_watch_helper:events(collected),
                        P =:= Holder]
         end,
    ok = sonde_test:until(collected, fun() -> Is() =/= [] end),
    [#{garbage := Garbage, freed := Freed} | _] = Is(),
    true = Garbage > 8000000 andalso Freed > 8000000,
    #{remedy := active, collected := N, freed_bytes := Bytes} = sonde_watch:status(Pid),
    true = N > 0 andalso Bytes >= Freed,
    sonde_test:stop(Holder).

%% Three processes hold garbage for long. With an ineffective limit all are collected within a few
%% sweeps, in which four per second would collect none. Four per second collects them all, but takes
%% at least as long as that rate requires.
collects_at_a_bounded_rate(_Config) ->
    Few = 5,
    true = collected_within(60000, fun(#{sweeps := N}) -> N >= Few end, fun(N, _) -> N >= 3 end),
    true = collected_within(1, fun(#{sweeps := N}) -> N >= Few end,
                            fun(N, Ms) -> N =< Ms div 60000 end),
    true = collected_within(240, fun(#{collected := N}) -> N >= 3 end,
                            fun(N, Ms) -> N =< Ms * 240 div 60000 end).

%% Waits until the status of a watcher satisfies Until. Returns whether Judge accepts the number of
%% collections so far and the milliseconds since before the watcher's start.
collected_within(PerMinute, Until, Judge) ->
    Holders = [wasteful() || _ <- lists:seq(1, 3)],
    Start = erlang:monotonic_time(millisecond),
    Pid = collecting(PerMinute),
    ok = sonde_test:until({collected, PerMinute}, fun() -> Until(sonde_watch:status(Pid)) end),
    #{collected := N} = sonde_watch:status(Pid),
    Ms = erlang:monotonic_time(millisecond) - Start,
    stop(Pid),
    sonde_test:stop(Holders),
    ct:pal("~b a minute: ~b collected within ~b ms", [PerMinute, N, Ms]),
    Judge(N, Ms).

collecting(PerMinute) ->
    start(#{interval => 20, callback => {sonde_watch_helper, told},
            remedy => {collect, #{garbage_bytes => 8000000, per_minute => PerMinute}}}).

%% A process that has built and dropped sixteen megabytes; it waits, so it does not collect.
wasteful() ->
    sonde_test:hold(fun() -> length(lists:seq(1, 1000000)) end).

%% ---- an upgrade, as release_handler does it

keeps_what_it_knows_over_a_change_of_code(_Config) ->
    Pid = start(#{interval => 20, callback => {sonde_watch_helper, told}}),
    ok = swept(Pid, 2),
    Teller = teller(Pid),
    #{sweeps := Before} = sonde_watch:status(Pid),
    ok = sys:suspend(Pid),
    ok = sys:change_code(Pid, sonde_watch, "0.0.1", []),
    ok = sys:resume(Pid),
    #{sweeps := N} = sonde_watch:status(Pid),
    true = N >= Before,
    [_, _ | _] = sonde_watch:history(Pid, 100),
    Told = length(sonde_watch_helper:events(sample)),
    ok = swept(Pid, N + 2),
    ok = sonde_test:until(told, fun() -> length(sonde_watch_helper:events(sample)) > Told end),
    Teller = teller(Pid),
    stop(Pid).

%% ---- metrics, parsed by a reader that knows the format's rules and nothing of our code

metrics_are_what_prometheus_reads(_Config) ->
    Pid = start(#{interval => 20}),
    ok = swept(Pid, 2),
    Metrics = read_metrics(sonde_prometheus:format(Pid)),
    _ = [true = is_map_key(Name, Metrics)
         || Name <- ["sonde_memory_bytes", "sonde_reductions_total", "sonde_uptime_seconds",
                     "sonde_watch_sweeps_total", "sonde_watch_last_sweep_seconds"]],
    [{[], 1.0}] = maps:get("sonde_watch_up", Metrics),
    true = lists:all(fun(Name) -> lists:prefix("sonde_", Name) end, maps:keys(Metrics)),
    true = lists:sum([length(Samples) || Samples <- maps:values(Metrics)]) < 100,
    stop(Pid).

metrics_without_a_watcher(_Config) ->
    Metrics = read_metrics(sonde_prometheus:format(no_such_watcher)),
    [{[], Up}] = maps:get("sonde_watch_up", Metrics),
    true = Up == 0,
    false = is_map_key("sonde_watch_sweeps_total", Metrics).

%% HELP, TYPE and at least one sample, in this order; each name appears once, each line ends.
read_metrics(Text) ->
    Lines = string:split(binary_to_list(iolist_to_binary(Text)), "\n", all),
    "" = lists:last(Lines),
    read_metrics(lists:droplast(Lines), #{}).

read_metrics([], Metrics) ->
    Metrics;
read_metrics(["# HELP " ++ Help, "# TYPE " ++ Type | Rest], Metrics) ->
    [Name, [_ | _]] = string:split(Help, " "),
    [Name, Kind] = string:split(Type, " "),
    {match, _} = re:run(Name, "^[a-z][a-z_]*$"),
    {true, _} = {lists:suffix("_total", Name) =:= (Kind =:= "counter"), Name},
    true = lists:member(Kind, ["counter", "gauge"]),
    false = is_map_key(Name, Metrics),
    {[_ | _] = Samples, Others} = lists:splitwith(fun(Line) -> hd(Line) =/= $# end, Rest),
    Read = [read_sample(Name, Line) || Line <- Samples],
    true = length(Read) =:= length(lists:usort([Labels || {Labels, _} <- Read])),
    read_metrics(Others, Metrics#{Name => Read}).

read_sample(Name, Line) ->
    {match, [Name, Labels, Value]} =
        re:run(Line, "^([a-z_]+)(?:\\{((?:[a-z]+=\"[^\"\\\\]*\",?)+)\\})? "
               "(-?[0-9]+(?:\\.[0-9]+)?)$",
               [{capture, all_but_first, list}]),
    {Labels, try list_to_float(Value) catch error:badarg -> float(list_to_integer(Value)) end}.

%% ---- watchers

start(Opts) ->
    {ok, Pid} = gen_server:start(sonde_watch, opts(Opts), []),
    Pid.

%% As start_link/1 passes them to its server. Within the default budget, one slow sweep would delay
%% the next by a hundred times as long, and the first sweep may have to wait for the proof.
opts(Opts) ->
    {ok, Read} = sonde_watch_opts:read(maps:merge(#{budget => 100}, Opts)),
    Read.

stop(Pid) ->
    ok = gen_server:stop(Pid).

swept(Pid, N) ->
    sonde_test:until({sweeps, N}, fun() -> maps:get(sweeps, sonde_watch:status(Pid)) >= N end).

with_log(Fun) ->
    ok = logger:add_handler(watch_suite, sonde_watch_helper, #{}),
    try Fun() after logger:remove_handler(watch_suite) end.

on_a_peer(Args, Fun) ->
    sonde_peer_helper:with(shipped, Args,
                           fun(Peer) ->
                                   Fun(fun(M, F, A) -> sonde_peer_helper:call(Peer, M, F, A) end)
                           end).

%% A peer whose sweeps are made up.
with_script(What, Fun) ->
    on_a_peer([], fun(Call) ->
                          {module, sonde_watch_sweep} =
                              load(Call, sonde_watch_sweep,
                                   "-export([take/1]). "
                                   "take(Ask) -> sonde_watch_helper:take(Ask)."),
                          ok = Call(sonde_watch_helper, script, [What]),
                          Fun(Call)
                  end).

load(Call, Module, Source) ->
    {ok, Tokens, _} = erl_scan:string(Source),
    Forms = [begin {ok, Form} = erl_parse:parse_form(F), Form end || F <- forms(Tokens, [])],
    {ok, Module, Beam} = compile:forms([{attribute, 1, module, Module} | Forms]),
    Call(code, load_binary, [Module, "made_up", Beam]).

forms([], []) -> [];
forms([{dot, _} = Dot | Rest], Form) -> [lists:reverse([Dot | Form]) | forms(Rest, [])];
forms([Token | Rest], Form) -> forms(Rest, [Token | Form]).
