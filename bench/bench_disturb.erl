%% How much a scan disturbs other processes, compared with a control: a dirty native call that only
%% spins, for as long and as often as the scan. Windows of idle, control and sonde take turns; in
%% each, two processes send each other messages without pause.
-module(bench_disturb).

-export([run/1]).

-define(EVERY_MS, 100).         % between the starts of two scans, or of two spins
-define(N, 10).

%% @doc `Foreign': the directory for the library of sonde_foreign_helper.
-spec run(file:filename()) -> ok.
run(Foreign) ->
    {Processes, Windows, Ms} = {env("DISTURB_PROCESSES", 100000), env("DISTURB_WINDOWS", 20),
                                env("DISTURB_MS", 10000)},
    {ok, Dir} = sonde_foreign_helper:build(Foreign),
    ok = sonde_foreign_helper:load(Dir),
    _ = bench_crowd:holders(Processes, 2),
    ScanUs = mean([us(fun scan/0) || _ <- lists:seq(1, 20)]),
    io:format("~b processes with 2 binaries each, ~b windows of ~b ms of each kind, ping-pong beside~n"
              "  sonde    proc_count(binary_memory, ~b), ~.2f ms each, every ~b ms~n"
              "  control  a dirty native call that spins as long, as often~n~n",
              [Processes, Windows, Ms, ?N, ScanUs / 1000, ?EVERY_MS]),
    Works = [{idle, fun() -> receive never -> ok end end},
             {control, every(fun() -> sonde_foreign_helper:spin(dirty_io, round(ScanUs), []) end)},
             {sonde, every(fun scan/0)}],
    Seen = [{Kind, bench_trip:during(Work, Ms)} || _ <- lists:seq(1, Windows), {Kind, Work} <- Works],
    print(Seen).

env(Name, Default) ->
    case os:getenv(Name, "") of
        "" -> Default;
        Text -> list_to_integer(Text)
    end.

scan() -> sonde:proc_count(binary_memory, ?N).

us(Fun) ->
    {Us, _} = timer:tc(Fun),
    Us.

mean(List) -> lists:sum(List) / length(List).

every(Work) ->
    fun() ->
            Us = us(Work),
            timer:sleep(max(0, ?EVERY_MS - Us div 1000))
    end.

%% ---- medians and quartiles of the windows' figures, in microseconds

print(Seen) ->
    io:format("~-8s ~28s ~28s ~28s ~8s~n",
              ["us", "p50: quartiles, median", "p99: quartiles, median", "p99.9: quartiles, median",
               "calls/s"]),
    Kinds = [idle, control, sonde],
    Figures = maps:from_list([{{Kind, P}, quartiles([maps:get(P, T) || {K, T} <- Seen, K =:= Kind])}
                              || Kind <- Kinds, P <- [p50, p99, p999]]),
    [io:format("~-8s ~28s ~28s ~28s ~8.1f~n",
               [Kind] ++ [text(maps:get({Kind, P}, Figures)) || P <- [p50, p99, p999]]
               ++ [mean([maps:get(scans, T) || {K, T} <- Seen, K =:= Kind]) / (env("DISTURB_MS", 10000) / 1000)])
     || Kind <- Kinds],
    io:format("~nsonde's median at or below the control's upper quartile: ~ts~n",
              [lists:join(", ", [[Name, " ", verdict(P, Figures)]
                                 || {P, Name} <- [{p50, "p50"}, {p99, "p99"}, {p999, "p99.9"}]])]).

verdict(P, Figures) ->
    #{{sonde, P} := {_, Ours, _}, {control, P} := {_, _, Upper}} = Figures,
    case Ours =< Upper of true -> "yes"; false -> "no" end.

quartiles(Values) ->
    Sorted = lists:sort(Values),
    N = length(Sorted),
    list_to_tuple([lists:nth(max(1, round(N * Part)), Sorted) || Part <- [0.25, 0.5, 0.75]]).

text({Low, Median, High}) ->
    io_lib:format("~.2f..~.2f, ~.2f", [X / 1000 || X <- [Low, High, Median]]).
