%% A node under fire: whatever is said of the witnesses in it was true, and the node lives. Readers
%% that are broken on purpose are found out.
-module(stress_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {seconds, 300 + 4 * seconds()}}].

all() -> [scans_under_fire, reads_under_fire, a_reader_without_stamps, a_reader_of_reductions].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

init_per_testcase(Case, Config) ->
    Broken = lists:member(Case, [a_reader_without_stamps, a_reader_of_reductions]),
    case {sonde_test:side(), Broken andalso sonde_peer_helper:needs_test_build()} of
        {portable, _} -> {skip, "the portable side asks one after the other, minutes for a scan here"};
        {native, {skip, _} = Skip} -> Skip;
        {native, _} -> Config
    end.

end_per_testcase(_Case, _Config) -> ok.

%% make stress SECONDS=60 is a longer run.
seconds() ->
    list_to_integer(os:getenv("STRESS_SECONDS", "6")).

scans_under_fire(_Config) ->
    Seen = under_fire(shipped, 0, seconds() * 1000, scans),
    true = maps:get(witnessed, Seen) > 0,
    [] = maps:get(wrong, Seen).

reads_under_fire(_Config) ->
    Seen = under_fire(shipped, 0, seconds() * 500, reads),
    true = maps:get(witnessed, Seen) > 100,
    [] = maps:get(wrong, Seen).

a_reader_without_stamps(_Config) -> found_out(1, 5).

a_reader_of_reductions(_Config) -> found_out(2, 5).

%% It is enough to be found out once; the run ends then.
found_out(_How, 0) ->
    ct:fail(witness_is_too_weak);
found_out(How, Tries) ->
    case maps:get(wrong, under_fire(test, How, 10000, reads)) of
        [] -> found_out(How, Tries - 1);
        [_ | _] = Wrong -> ct:pal("~p", [Wrong])
    end.

under_fire(Build, Weakness, Ms, Kind) ->
    Peer = sonde_peer_helper:start(Build, ["+P", "262144"]),
    try
        #{status := _} = sonde_peer_helper:call(Peer, sonde, native, []),
        _ = [ok = sonde_peer_helper:call(Peer, sonde_nif, weaken, [Weakness]) || Weakness =/= 0],
        Seen = sonde_peer_helper:call(Peer, sonde_stress, run, [Ms, Kind, 3], Ms + 120000),
        ct:pal("~p ms of ~p: ~p", [Ms, Kind, Seen]),
        Seen
    after
        sonde_peer_helper:stop(Peer)
    end.
