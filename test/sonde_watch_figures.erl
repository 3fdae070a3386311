%% How soon the watcher finds a leak, and how often it accuses a healthy node, on simulated nodes from
%% seeds that were not used before. `make watcher-figures' prints the table of doc/testing.md.
-module(sonde_watch_figures).

-export([main/0]).

-define(HOURS, 72).
-define(MB, 1000000).

%% WATCHER_NODES: nodes of each leak (20). WATCHER_DAYS: healthy days of each kind (1000). SONDE_FIRST_SEED: to
%% draw the same nodes again.
-spec main() -> no_return().
main() ->
    First = number("SONDE_FIRST_SEED", rand:uniform(1 bsl 40)),
    Nodes = number("WATCHER_NODES", 20),
    Days = number("WATCHER_DAYS", 1000),
    io:format("from seed ~b on; ~b nodes for each leak, watched for ~b hours~n~n", [First, Nodes, ?HOURS]),
    io:format("| kind | an hour | noise | rhythm | half found after | 95 % found after | found in ~b h |~n"
              "| --- | --- | --- | --- | --- | --- | --- |~n", [?HOURS]),
    _ = [row(Leak, Nodes, First) || Leak <- leaks()],
    healthy("two", 2, #{}, Days, First + 1000000),
    healthy("ten, with weekends and steps", 10, #{week => true}, Days, First + 2000000),
    halt(0).

number(Name, Default) ->
    list_to_integer(os:getenv(Name, integer_to_list(Default))).

leaks() ->
    [{Kind, What, Rate, Noise, Rhythm}
     || {Kind, What, Rates, Noises} <-
            [{"process", {process, 1}, sizes(), [none, healthy, twice]},
             {"table", {table, 1}, sizes(), [none, healthy, twice]},
             {"binaries", {memory, binary}, sizes(), [healthy]},
             {"native memory", {memory, other}, sizes(), [healthy]},
             {"atoms", {count, atoms}, [1000, 10000, 100000], [healthy]},
             {"processes", {count, processes}, [100, 1000, 10000], [healthy]},
             {"ports", {count, ports}, [100, 1000, 10000], [healthy]}],
        Rate <- Rates, Noise <- Noises, Rhythm <- [0.0, 0.8]].

sizes() -> [?MB, 10 * ?MB, 100 * ?MB].

row({Kind, What, Rate, Noise, Rhythm}, Nodes, First) ->
    Opts = #{leak => {What, {steady, Rate}}, noise => Noise, rhythm => Rhythm},
    Found = lists:sort(parallel(fun(I) -> found(What, First + I, Opts) end, lists:seq(1, Nodes))),
    io:format("| ~s | ~s | ~s | ~s | ~s | ~s | ~b of ~b |~n",
              [Kind, rate(What, Rate), Noise, case Rhythm > 0 of false -> "flat"; true -> "daily" end,
               hours(Found, 0.5), hours(Found, 0.95), length([H || H <- Found, H =/= never]), Nodes]).

rate({count, _}, Rate) -> integer_to_list(Rate);
rate(_, Rate) -> io_lib:format("~b MB", [Rate div ?MB]).

%% Numbers are less than atoms.
hours(Found, Part) ->
    case lists:nth(ceil(Part * length(Found)), Found) of
        never -> "not";
        Hours -> io_lib:format("~.1f h", [Hours])
    end.

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
                      [{First + I, What} || {_, #{event := leak, what := What}}
                                                <- sonde_leaks_sim:run(Sim, 24 * Each, #{})]
              end, lists:seq(1, Days div Each))),
    io:format("~n~b healthy days, nodes of ~s: ~b false accusations ~0p~n", [Days, Text, length(Wrong), Wrong]).

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
