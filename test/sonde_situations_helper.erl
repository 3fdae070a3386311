%% Situations in which nodes are found, written from field reports: half of them healthy but odd,
%% half of them leaks. Each is a small simulation with real parts of OTP. Sizes, rates, names and
%% periods are drawn from a seed.
%%
%% It shares no code with the other generator, `sonde_leaks_helper', and no tested code knows it.
-module(sonde_situations_helper).

-export([names/0, mix/1, start/2, start/3, follow/3]).
-export([root/3]).

-define(MINUTES, 300000).

names() ->
    [{Name, healthy} || Name <- healthy()] ++ [{Name, leak} || Name <- leaks()].

healthy() -> sonde_situations_healthy:names() ++ sonde_situations_jams:healthy().

leaks() -> sonde_situations_leaks:names() ++ sonde_situations_jams:leaks().

%% The situations of one drawn node: 2 to 4 healthy ones and up to 2 leaks.
mix(Seed) ->
    {Healthy, Rand} = drawn(2, 4, healthy(),
                            rand:seed_s(exsss, {Seed, 31, 415})),
    {Leaks, _} = drawn(0, 2, leaks(), Rand),
    Healthy ++ Leaks.

drawn(Least, Most, Names, Rand) ->
    {More, Rand1} = rand:uniform_s(Most - Least + 1, Rand),
    drawn(Least + More - 1, Names, Rand1).

drawn(0, _, Rand) ->
    {[], Rand};
drawn(N, Names, Rand) ->
    {I, Rand1} = rand:uniform_s(length(Names), Rand),
    Name = lists:nth(I, Names),
    {More, Rand2} = drawn(N - 1, lists:delete(Name, Names), Rand1),
    {[Name | More], Rand2}.

%% Returns when the situation is steady, or the leak has its size. Of a leak, `whats' may be
%% accused, with one of `kinds' and one of `remedies'; `accused' may be accused too, and
%% `holds_garbage' may be if a collection frees what its suspect states. `bytes' is the size of the
%% leak, or `none' if it is not one of memory.
start(Name, Seed) ->
    start(Name, Seed, []).

%% Opts are those of the process that leaks.
start(Name, Seed, Opts) ->
    {Root, Ref} = spawn_monitor(?MODULE, root, [Name, Seed, Opts]),
    Root ! {start, self()},
    receive
        {Root, Planted} ->
            true = demonitor(Ref, [flush]),
            maps:merge(#{name => Name, seed => Seed, root => Root, whats => [], kinds => [],
                         remedies => [], accused => [], holds_garbage => [], bytes => none},
                       Planted);
        {'DOWN', Ref, process, Root, Why} ->
            error({Name, Seed, Why})
    after ?MINUTES ->
        exit(Root, kill),
        error({Name, Seed, never_steady})
    end.

%% All processes of a situation are linked to its root.
root(Name, Seed, Opts) ->
    _ = rand:seed(exsss, {Seed, erlang:phash2(Name), 59}),
    Caller = receive {start, From} -> From end,
    Caller ! {self(), planted(run(Name, Opts))},
    proc_lib:hibernate(timer, sleep, [infinity]).

run(Name, Opts) ->
    [Run] = [Run || {Names, Run} <- [{sonde_situations_healthy:names(), fun() -> sonde_situations_healthy:run(Name) end},
                                     {sonde_situations_jams:healthy(), fun() -> sonde_situations_jams:run(Name) end},
                                     {sonde_situations_jams:leaks(), fun() -> sonde_situations_jams:run(Name) end},
                                     {sonde_situations_leaks:names(), fun() -> sonde_situations_leaks:run(Name, Opts) end}],
                    lists:member(Name, Names)],
    Run().

planted(#{} = Leak) -> Leak;
planted(ok) -> #{};
planted({holds_garbage, Pid}) -> #{holds_garbage => [Pid]}.

%% Does what the remedy of a suspect says. Settings hold for new processes, so that they need the
%% same work again.
follow(Name, #{seed := Seed, root := Root}, fullsweep_after) ->
    ok = sonde_situations_parts:closed(Root),
    _ = start(Name, Seed, [{fullsweep_after, 10}]),
    ok;
follow(Name, Planted, Remedy) ->
    sonde_situations_leaks:follow(Name, Planted, Remedy).
