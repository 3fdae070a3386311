%% A node under fire: whatever is said of the witnesses in it was true, next to everybody is
%% answered natively, and the node lives. Readers that are broken on purpose are found out.
-module(stress_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {seconds, 600 + 4 * seconds()}}].

all() -> [everything_under_fire, a_reader_without_stamps, a_reader_of_reductions,
     a_look_without_stamps].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

init_per_testcase(Case, Config) ->
    Broken = Case =/= everything_under_fire,
    case {sonde_test:side(), Broken andalso sonde_peer_helper:needs_test_build()} of
        {portable, _} ->
            {skip, "the portable side asks one after the other, minutes for a scan here"};
        {native, {skip, _} = Skip} -> Skip;
        {native, _} -> Config
    end.

end_per_testcase(_Case, _Config) -> ok.

%% make stress SECONDS=60 is a longer run.
seconds() ->
    list_to_integer(os:getenv("STRESS_SECONDS", "6")).

everything_under_fire(Config) ->
    Foreign = filename:join(proplists:get_value(priv_dir, Config), "foreign"),
    {Dir, Fire} = case sonde_foreign_helper:build(Foreign) of
                      {ok, Built} -> {Built, [hot, foreign]};
                      {skip, _} -> {none, [hot]}
                  end,
    Seen = under_fire(shipped, sound, seconds() * 1000,
                      #{calls => 3, reads => 1, looks => 1, counts => 1}, {12000, Fire, Dir}),
    ok = report(Seen),
    [] = maps:get(wrong, Seen),
    true = maps:get(witnessed, Seen) > 100,
    #{attempts := All, attempts_native := Native, busy_attempts := Busy,
      busy_native := BusyNative} = Seen,
    {true, _} = {4 * Busy >= All, {busy, Busy, All}},
    {true, _} = {BusyNative >= 0.95 * Busy, {busy_native, BusyNative, Busy}},
    {true, _} = {Native >= 0.99 * All, {native, Native, All}}.

a_reader_without_stamps(_Config) -> found_out(1, reads).

a_reader_of_reductions(_Config) -> found_out(2, reads).

a_look_without_stamps(_Config) -> found_out(1, looks).

%% The run ends as soon as it is; on two processors that others leave alone, after a second or two.
found_out(How, Hand) ->
    Start = erlang:monotonic_time(millisecond),
    Seen = under_fire(test, How, 60000, #{Hand => 2}, {1000, [], none}),
    Found = length(maps:get(wrong, Seen)),
    ok = figures("~s by a reader ~s: ~b wrong answers found in ~b, after ~.1f s",
                 [Hand, element(How, {"that compares no stamp", "that compares reductions alone"}),
                  Found, maps:get(witnessed, Seen, 0) + Found,
                  (erlang:monotonic_time(millisecond) - Start) / 1000]),
    true = Found > 0.

under_fire(Build, Weakness, Ms, Hands, {Crowd, Options, Foreign}) ->
    Peer = sonde_peer_helper:start(Build, ["+P", "262144"]),
    try
        _ = [ok = sonde_peer_helper:call(Peer, sonde_foreign_helper, load, [Foreign])
             || Foreign =/= none],
        #{status := active} = sonde_peer_helper:call(Peer, sonde, native, []),
        Seen = sonde_peer_helper:call(Peer, sonde_stress, run,
                                      [Ms, Hands, Weakness, {Crowd, Options}], Ms + 360000),
        ct:pal("~p ms: ~p", [Ms, Seen]),
        Seen
    after
        sonde_peer_helper:stop(Peer)
    end.

%% ---- what scripts/suite prints when it is done

report(#{counters := Counters} = Seen) ->
    #{native := Native, busy := Busy, torn := Torn, asked := Asked, faults := Faults} = Counters,
    #{attempts := All, attempts_native := N, busy_attempts := Ran, busy_native := RanNative} = Seen,
    [Scans, Windows, Leaks, Reads, True] = [maps:get(K, Seen, 0)
                                            || K <- [scans, windows, leaks, reads, witnessed]],
    ok = figures("~b s: ~b scans, ~b windows, ~b leaks, ~b reads; ~b answers witnessed, ~b wrong",
                 [seconds(), Scans, Windows, Leaks, Reads, True, length(maps:get(wrong, Seen))]),
    ok = figures("answers: ~b native, ~b busy, ~b torn, ~b asked; ~b faults caught",
                 [Native, Busy, Torn, Asked, Faults]),
    figures("of ~b attempts ~.2f % native; of ~b on who ran in the second before ~.2f %",
            [All, 100 * N / All, Ran, 100 * RanNative / Ran]).

figures(Format, Args) ->
    Line = io_lib:format("  stress: " ++ Format ++ "~n", Args),
    ct:pal("~ts", [Line]),
    case os:getenv("SONDE_FIGURES") of
        false -> ok;
        File -> file:write_file(File, Line, [append])
    end.
