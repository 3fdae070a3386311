%% How soon the watcher finds a leak, and how often it accuses a healthy node, on simulated nodes from
%% seeds that were not used before. `make watcher-figures' prints the tables of doc/testing.md.
-module(sonde_watch_figures).

-export([main/0]).

-define(HOURS, 72).
-define(MB, 1000000).

%% WATCHER_NODES: nodes of each leak (40). WATCHER_DAYS: healthy days of each kind (10000). WATCHER_PARTS: of
%% "two_days,ten_days" and the kinds of leaks, those to run (all). SONDE_FIRST_SEED: to draw the same nodes again.
-spec main() -> no_return().
main() ->
    First = number("SONDE_FIRST_SEED", rand:uniform(1 bsl 40)),
    Nodes = number("WATCHER_NODES", 40),
    Days = number("WATCHER_DAYS", 10000),
    io:format("from seed ~b on; ~b nodes for each leak, watched for ~b hours~n~n", [First, Nodes, ?HOURS]),
    io:format("| nodes | healthy days | falsely accused | in 1,000 days |~n| --- | --- | --- | --- |~n"),
    Wrong = [healthy(Text, Each, Opts, Days, First + Skipped)
             || {Part, Text, Each, Opts, Skipped}
                    <- [{"two_days", "", 2, #{}, 1000000},
                        {"ten_days", ", with weekends and steps", 10, #{week => true}, 2000000}], is_part(Part)],
    io:format("~nfalsely accused: ~0p~n~n", [lists:append(Wrong)]),
    io:format("| kind | an hour | rhythm | no noise | healthy | twice |~n| --- | --- | --- | --- | --- | --- |~n"),
    _ = [row(Leak, Nodes, First) || {Kind, _, _, _} = Leak <- leaks(), is_part(Kind)],
    halt(0).

is_part(Part) ->
    case os:getenv("WATCHER_PARTS") of
        false -> true;
        Parts -> lists:member(Part, string:split(Parts, ",", all))
    end.

number(Name, Default) ->
    list_to_integer(os:getenv(Name, integer_to_list(Default))).

leaks() ->
    [{Kind, What, Rate, Rhythm}
     || {Kind, What, Rates} <-
            [{"process", {process, 1}, sizes()},
             {"table", {table, 1}, sizes()},
             {"binaries", {memory, binary}, sizes()},
             {"native memory", {memory, other}, sizes()},
             {"atoms", {count, atoms}, [1000, 10000, 100000]},
             {"processes", {count, processes}, [100, 1000, 10000]},
             {"ports", {count, ports}, [100, 1000, 10000]}],
        Rate <- Rates, Rhythm <- [0.0, 0.8]].

sizes() -> [?MB, 10 * ?MB, 100 * ?MB].

row({Kind, What, Rate, Rhythm}, Nodes, First) ->
    io:format("| ~s | ~s | ~s |", [Kind, rate(What, Rate), case Rhythm > 0 of false -> "flat"; true -> "daily" end]),
    _ = [cell(What, Rate, Rhythm, Noise, Nodes, First) || Noise <- [none, healthy, twice]],
    io:format("~n").

cell({count, atoms}, _, _, Noise, _, _) when Noise =/= healthy ->
    io:format(" - |");
cell(What, Rate, Rhythm, Noise, Nodes, First) ->
    Opts = #{leak => {What, {steady, Rate}}, noise => Noise, rhythm => Rhythm},
    Found = lists:sort(parallel(fun(I) -> found(What, First + I, Opts) end, lists:seq(1, Nodes))),
    io:format(" ~s / ~s~s |", [hours(Found, 0.5), hours(Found, 0.95), missed(length([H || H <- Found, H =:= never]))]).

rate({count, _}, Rate) -> integer_to_list(Rate);
rate(_, Rate) -> io_lib:format("~b MB", [Rate div ?MB]).

%% Numbers are less than atoms.
hours(Found, Part) ->
    case lists:nth(ceil(Part * length(Found)), Found) of
        never -> "not";
        Hours -> io_lib:format("~.1f", [Hours])
    end.

missed(0) -> "";
missed(N) -> io_lib:format(", missed ~b", [N]).

%% A leak in a process shows in the memory of all processes, too: either is right.
found(What, Seed, Opts) ->
    Sim = sonde_leaks_sim:new(Seed, Opts),
    case [Hour || {Hour, #{event := leak, what := Named}} <- sonde_leaks_sim:run(Sim, ?HOURS, #{}),
                  lists:member(Named, [What | also(What)])] of
        [Hour | _] -> Hour;
        [] -> never
    end.

also({process, _}) -> [{memory, processes}];
also({table, _}) -> [{memory, ets}];
also(_) -> [].

healthy(Text, Each, Opts, Days, First) ->
    Wrong = lists:append(parallel(
              fun(I) ->
                      Sim = sonde_leaks_sim:new(First + I, Opts),
                      [{First + I, What, Hours} || {_, #{event := leak, what := What, hours := Hours}}
                                                       <- sonde_leaks_sim:run(Sim, 24 * Each, #{})]
              end, lists:seq(1, Days div Each))),
    N = length(Wrong),
    PerThousand = fun(Times) -> Times * 1000 / Days end,
    {Low, High} = interval(N),
    io:format("| ~b of ~b days~s | ~b | ~b | ~.1f (~.1f to ~.1f) |~n",
              [Days div Each, Each, Text, Days, N | [PerThousand(Times) || Times <- [N, Low, High]]]),
    Wrong.

%% The interval of 95 % of Poisson's distribution: the means at which as many or more, and as few or fewer, have
%% a chance of 2.5 %.
interval(N) ->
    Most = 2.0 * N + 20,
    {case N of 0 -> 0.0; _ -> mean_at(N - 1, 0.975, 0.0, Most) end, mean_at(N, 0.025, 0.0, Most)}.

mean_at(_, _, Low, High) when High - Low < 0.001 ->
    Low;
mean_at(N, Chance, Low, High) ->
    Middle = (Low + High) / 2,
    case at_most(N, Middle) > Chance of
        true -> mean_at(N, Chance, Middle, High);
        false -> mean_at(N, Chance, Low, Middle)
    end.

at_most(N, Mean) ->
    {Sum, _} = lists:foldl(fun(I, {Sum0, Term}) -> {Sum0 + Term, Term * Mean / I} end,
                           {0.0, math:exp(-Mean)}, lists:seq(1, N + 1)),
    Sum.

%% As many at a time as there are schedulers.
parallel(Fun, Items) ->
    Parent = self(),
    {Now, Later} = lists:split(min(length(Items), erlang:system_info(schedulers_online)), Items),
    Start = fun(Item) -> spawn_link(fun() -> Parent ! {done, Fun(Item)} end) end,
    _ = [Start(Item) || Item <- Now],
    collect(length(Now), Later, Start).

collect(0, [], _) -> [];
collect(N, Later, Start) ->
    receive
        {done, Result} ->
            case Later of
                [Item | Rest] -> _ = Start(Item), [Result | collect(N, Rest, Start)];
                [] -> [Result | collect(N - 1, [], Start)]
            end
    end.
