%% Simulated nodes: what the watcher's sweep would see of them, every 30 simulated seconds, drawn
%% from a seed. A node has a daily rhythm of load with noise; processes and tables that are steady,
%% follow the load, wander, warm up, or fill up and stay full; collections that make the memory of
%% each process swing by up to hundreds of MB; deployments, after which some processes start anew;
%% and, on request, weekends, deployments that change the level of everything else too, and one leak.
-module(sonde_leaks_sim).

-export([new/2, next/1, run/3]).

-define(STEP_MS, 30000).
-define(DAY_MS, 86400000).
-define(HOUR_MS, 3600000).
-define(MB, 1000000).

%% Options: `leak' ({What, How}, where What is {process, 1}, {table, 1}, {memory, Kind} or {count,
%% Kind}, as the watcher names it, and How is {steady, PerHour}, {bursts, PerHour, Ms} or {by_load,
%% PerHour}, in bytes or in numbers); `swing': the swing of the leaking process, in bytes;
%% `swing_ms': its approximate period; `rhythm': the largest part by which the load swings; `reads':
%% whether heaps can be read; `noise' of the thing that leaks: `none', `healthy' (as of the others), or
%% `twice' that (the number of atoms has none, because atoms stay); `week': two days of seven have another load, and each deployment may set tables, kinds
%% of memory and counts to another level for good, or empty a table that fills up again.
new(Seed, Opts) ->
    _ = rand:seed(exsss, {Seed, Seed bsl 3, 4711}),
    Rhythm = uniform(0, maps:get(rhythm, Opts, 0.8)),
    Sim = #{at => pick(0, ?DAY_MS), start => 0, reads => maps:get(reads, Opts, true),
            rhythm => Rhythm, noon => pick(0, ?DAY_MS), gust => 0.0, lag => 1.0,
            lag_ms => uniform(60000, ?HOUR_MS), noise => uniform(0.02, 0.1), reductions => 0,
            next => 1000,
            leak => maps:get(leak, Opts, none), times => times(Opts), leaked => 0.0, tick => 0,
            rate => pick(0, 2) / 24, binary => tooth(pick(1, 500) * ?MB),
            base => maps:from_list([{K, uniform(A, B)} || {K, A, B} <- bases()]),
             weekend => weekend(Opts)},
    Begun = Sim#{start => maps:get(at, Sim)},
    Begun#{processes => leaking_process(Opts, Begun)
               ++ [process(N, Begun) || N <- lists:seq(1, pick(6, 12))],
           tables => [table(N, Begun) || N <- lists:seq(1, pick(3, 8))]}.

times(#{noise := none}) -> 0;
times(#{noise := twice}) -> 2;
times(_) -> 1.

%% As noisy as others, unless it is what leaks.
times(What, #{leak := {What, _}, times := Times}) -> Times;
times(_, _) -> 1.

%% The day of the week on which the node starts, and the load at a weekend.
weekend(#{week := true}) -> {pick(0, 6), uniform(0.3, 1.3)};
weekend(_) -> none.

bases() ->
    [{pool, 10 * ?MB, 300 * ?MB}, {binary, 5 * ?MB, 200 * ?MB}, {ets, 5 * ?MB, 50 * ?MB},
     {atom, 500000, 3 * ?MB}, {code, 10 * ?MB, 60 * ?MB}, {system, 20 * ?MB, 80 * ?MB},
     {count, 300, 30000}, {ports, 20, 10000}, {atoms, 15000, 60000}, {names, 50, 1000},
     {warm, 60000, 2 * ?HOUR_MS}].

%% Its base exists from the start; the leak is added.
leaking_process(#{leak := {{process, 1}, _}} = Opts, #{at := At}) ->
    Swing = maps:get(swing, Opts, pick(1, 500) * ?MB),
    Period = maps:get(swing_ms, Opts, pick(60000, ?HOUR_MS)),
    [#{key => 1, born => At, level => {steady, uniform(10, 60) * ?MB},
       wander => wander(maps:get(noise, Opts, none)), tooth => {uniform(0, Swing), Swing, Swing / Period},
       in_flight => in_flight(maps:get(noise, Opts, none)), leaks => true}];
leaking_process(_, _) ->
    [].

wander(none) -> {0.0, 0.002, ?HOUR_MS};
wander(healthy) -> {0.0, uniform(0, 0.1), uniform(60000, ?HOUR_MS / 2)};
wander(twice) -> {0.0, 2 * uniform(0, 0.1), uniform(60000, ?HOUR_MS / 2)}.

in_flight(none) -> uniform(0, 200000);
in_flight(healthy) -> uniform(0, ?MB);
in_flight(twice) -> 2 * uniform(0, ?MB).

process(N, #{at := At}) ->
    #{key => N + 1, born => At, level => level(),
      wander => {0.0, uniform(0, 0.1), uniform(60000, ?HOUR_MS / 2)},
      tooth => tooth(pick(1, 500) * ?MB), in_flight => uniform(0, ?MB), leaks => false}.

table(N, #{at := At, leak := Leak, times := Times}) ->
    Leaks = is_tuple(Leak) andalso element(1, Leak) =:= {table, N},
    Noise = case Leaks of true -> Times; false -> 1 end,
    #{key => N, born => At, level => level(), wander => {0.0, Noise * uniform(0, 0.02), ?HOUR_MS / 2},
      tooth => {0, 0, 0}, in_flight => Noise * uniform(0, 100000), leaks => Leaks}.

tooth(Swing) ->
    {uniform(0, Swing), Swing, Swing / uniform(20000, 2 * ?HOUR_MS)}.

level() ->
    Size = math:exp(uniform(math:log(1), math:log(400))) * ?MB,
    case pick(1, 6) of
        1 -> {elastic, Size, uniform(0.2, 1)};
        2 -> {fills, Size, uniform(0, 2 * ?HOUR_MS)};
        3 -> {fills_evenly, Size, uniform(60000, 3.5 * ?HOUR_MS)};
        _ -> {steady, Size}
    end.

%% ---- one sample

next(#{at := At0, tick := Tick} = Sim0) ->
    At = At0 + ?STEP_MS,
    Sim1 = #{load := Load, reductions := Done, lag := Lag, base := Base} =
        leak(blow(deploy(Sim0#{at => At, tick => Tick + 1}))),
    {Processes, Rows} = lists:unzip([grow_process(P, Sim1) || P <- maps:get(processes, Sim1)]),
    {Tables, TableRows} = lists:unzip([grow(T, Sim1) || T <- maps:get(tables, Sim1)]),
    {Garbage, Binary} = swing(maps:get(binary, Sim1), Load),
    Warm = 1 - math:exp((maps:get(start, Sim1) - At) / maps:get(warm, Base)),
    Of = fun(Key) -> map_get(Key, Base) end,
    Noise = fun(What, Kind, Part) -> noise(Part * times({What, Kind}, Sim1)) end,
    All = lists:sum([B || {_, B, _, _} <- Rows]),
    Large = lists:sum([B || {_, B, _} <- TableRows]),
    Sample =
        #{at => At, reductions => Done, gone => maps:get(gone, Sim1),
          memory => [{Kind, trunc(Bytes + leaked({memory, Kind}, Sim1))}
                     || {Kind, Bytes} <- [{processes, All + Of(pool) * (0.3 + 0.7 * Lag)
                                                          * Noise(memory, processes, 0.02)},
                                          {binary, Of(binary) * Lag * Noise(memory, binary, 0.05) + Garbage},
                                          {ets, Large + Of(ets)},
                                          {atom, Of(atom) * (1 + 0.2 * Warm)},
                                          {code, Of(code) * (1 + 0.5 * Warm)},
                                          {other, Of(system) * (1 + 0.3 * Warm) * Noise(memory, other, 0.005)}]],
          counts => [{Kind, trunc(N + leaked({count, Kind}, Sim1)), Limit}
                     || {Kind, N, Limit} <- [{processes, Of(count) * Lag * Noise(count, processes, 0.03), 1000000},
                                             {ports, Of(ports) * Lag * Noise(count, ports, 0.05), 1000000},
                                             {atoms, Of(atoms) * (1 + 0.2 * Warm), 10000000},
                                             {ets_tables, Of(names) * Noise(count, ets_tables, 0.05), undefined}]],
          processes => Rows, tables => TableRows},
    {Sample, Sim1#{processes => Processes, tables => Tables, binary => Binary, gone => []}}.

%% Gusts last about a quarter of an hour, and each sample has noise; sessions end some time after
%% they began, so what is in use follows the load slowly.
blow(#{at := At, noon := Noon, rhythm := Rhythm, gust := Gust0, noise := Noise, lag := Lag,
       lag_ms := LagMs, reductions := Done, weekend := Weekend} = Sim) ->
    Gust = Gust0 * 0.97 + Noise * 0.25 * rand:normal(),
    Calm = 1 + Rhythm * math:sin(2 * math:pi() * (At - Noon) / ?DAY_MS),
    Load = max(0.02, Calm * today(Weekend, At) * (1 + Gust) * noise(0.1)),
    Sim#{gust => Gust, load => Load, lag => Lag + (Load - Lag) * min(1.0, ?STEP_MS / LagMs),
         reductions => Done + trunc(Load * 30000000)}.

today({First, Load}, At) when (First + At div ?DAY_MS) rem 7 >= 5 -> Load;
today(_, _) -> 1.

%% Some processes start anew; others change their level.
deploy(#{at := At, rate := PerHour, processes := Processes, next := Next} = Sim) ->
    case rand:uniform() < PerHour * ?STEP_MS / ?HOUR_MS of
        true ->
            {New, Gone} = lists:mapfoldl(fun(P, Out) -> anew(P, At, Out, Next) end, [], Processes),
            shift(Sim#{processes => New, gone => Gone, next => Next + 100});
        false ->
            Sim#{gone => maps:get(gone, Sim, [])}
    end.

anew(#{leaks := false, key := Key, level := Level} = P, At, Gone, Next) ->
    case rand:uniform(3) of
        1 -> {P#{key => Next + Key rem 100, born => At}, [{process, Key} | Gone]};
        2 -> {P#{level => setelement(2, Level, element(2, Level) * uniform(0.9, 1.1))}, Gone};
        _ -> {P, Gone}
    end;
anew(P, _, Gone, _) ->
    {P, Gone}.

%% What else a deployment changes, on nodes that have weekends.
shift(#{weekend := none} = Sim) ->
    Sim;
shift(#{at := At, base := Base, tables := Tables} = Sim) ->
    Sim#{base => maps:map(fun(Key, Value) when Key =:= warm; Key =:= atoms; Key =:= atom -> Value;
                             (_, Value) -> case rand:uniform(6) of
                                               1 -> Value * uniform(0.8, 1.25);
                                               _ -> Value
                                           end
                          end, Base),
         tables => [case rand:uniform(6) of
                        1 -> Table#{level => setelement(2, Level, element(2, Level) * uniform(0.8, 1.25))};
                        2 -> Table#{born => At};
                        _ -> Table
                    end || #{level := Level} = Table <- Tables]}.

leak(#{leak := {_, How}, leaked := Leaked, load := Load, at := At} = Sim) ->
    Sim#{leaked => Leaked + case How of
                                {steady, PerHour} -> PerHour * ?STEP_MS / ?HOUR_MS;
                                {by_load, PerHour} -> PerHour * Load * ?STEP_MS / ?HOUR_MS;
                                {bursts, PerHour, Ms} when At rem Ms < ?STEP_MS ->
                                    PerHour * Ms / ?HOUR_MS;
                                {bursts, _, _} -> 0
                            end};
leak(Sim) ->
    Sim.

leaked(What, #{leak := {What, _}, leaked := Leaked}) -> Leaked;
leaked(_, _) -> 0.

%% Each heap is looked at every five minutes, unless its process is running then.
grow_process(#{tooth := Tooth, key := Key} = P0,
             #{load := Load, reads := Reads, tick := Tick} = Sim) ->
    {P1, {_, Live, _}} = grow(P0, Sim),
    {Garbage, Swung} = swing(Tooth, Load),
    Seen = case (Tick + Key) rem 10 =:= 0 andalso rand:uniform() > 0.03 of
               _ when not Reads -> unknown;
               true -> Live;
               false -> later
           end,
    {P1#{tooth => Swung}, {Key, trunc(Live + Garbage), Seen, []}}.

grow(#{key := Key, born := Born, level := Level, wander := {Off0, Much, Ms}, in_flight := InFlight,
       leaks := Leaks} = Thing, #{at := At, lag := Lag, load := Load, leaked := Leaked}) ->
    Part = ?STEP_MS / Ms,
    Off = Off0 * (1 - Part) + Much * math:sqrt(2 * Part) * rand:normal(),
    Bytes = level(Level, At - Born, Lag) * (1 + Off) - InFlight * Load * math:log(rand:uniform())
        + case Leaks of true -> Leaked; false -> 0 end,
    {Thing#{wander => {Off, Much, Ms}}, {Key, max(0, trunc(Bytes)), []}}.

level({steady, Size}, _, _) -> Size;
level({elastic, Size, Part}, _, Lag) -> Size * (1 - Part + Part * Lag);
level({fills, Size, Ms}, Age, _) -> Size * (1 - math:exp(-Age / max(Ms, 1)));
level({fills_evenly, Size, Ms}, Age, _) -> Size * min(1, Age / Ms).

%% Garbage grows with the load until a collection, at some moment between two samples.
swing({Garbage, Swing, Rate}, Load) ->
    case Garbage + Rate * Load * ?STEP_MS of
        More when More =< Swing -> {More, {More, Swing, Rate}};
        _ -> Left = rand:uniform() * min(Swing, Rate * Load * ?STEP_MS),
             {Left, {Left, Swing * uniform(0.999, 1.001), Rate}}
    end.

noise(Part) -> 1 + Part * rand:normal().
uniform(A, B) -> A + (B - A) * rand:uniform().
pick(A, B) -> A + rand:uniform(B - A + 1) - 1.

%% ---- a watcher that watches one node for Hours: [{Hour, Event}]

run(Sim, Hours, Opts) ->
    Core = sonde_watch_core:new(maps:merge(#{min_bytes => 10000000, top => 20}, Opts)),
    run(Sim, Hours * 120, Core, []).

run(_Sim, 0, _Core, Events) ->
    lists:reverse(Events);
run(#{start := Start} = Sim0, N, Core0, Events) ->
    {#{at := At} = Sample, Sim} = next(Sim0),
    {New, Core} = sonde_watch_core:step(Sample, Core0),
    run(Sim, N - 1, Core, [{(At - Start) / ?HOUR_MS, Event} || Event <- New] ++ Events).
