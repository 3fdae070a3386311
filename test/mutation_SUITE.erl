%% The proof of the layout is itself proved: with any one number of the table wrong, native turns
%% off, names the check of that very number, and nothing crashes. Runs on a peer with the test
%% build.
-module(mutation_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [one_word_too_far, one_word_too_near, zero, anywhere, things_of_other_kinds,
     a_refuted_table_is_not_tried_again,
     the_right_table_is_proved_after_all, the_very_first_proof_can_fail,
     shipped_library_cannot_be_told_an_offset, shipped_module_cannot_be_told_an_offset].

init_per_suite(Config) ->
    case sonde_peer_helper:needs_test_build() of
        ok -> Config;
        Skip -> Skip
    end.

end_per_suite(_Config) -> ok.

init_per_testcase(_Case, Config) ->
    Peer = sonde_peer_helper:start(test),
    [{peer, Peer} | Config].

end_per_testcase(_Case, Config) ->
    ok = sonde_peer_helper:stop(proplists:get_value(peer, Config)).

%% ---- the mutants

one_word_too_far(Config) -> all_caught(Config, own, fun(Offset) -> [Offset + 8] end).

one_word_too_near(Config) -> all_caught(Config, own, fun(Offset) -> [Offset - 8] end).

zero(Config) -> all_caught(Config, own, fun(_) -> [0] end).

%% As many mutants as the other three cases together.
anywhere(Config) ->
    Seed = seed(),
    ct:pal("seed ~p (SONDE_SEED=~p does this again)", [Seed, Seed]),
    _ = rand:seed(exsss, Seed),
    all_caught(Config, any, fun(_) -> [rand:uniform(1024) - 1 || _ <- lists:seq(1, draws())] end).

%% SONDE_DRAWS=100 gives a long run by hand.
draws() -> list_to_integer(os:getenv("SONDE_DRAWS", "3")).

%% A draw past the end of a structure may read the same field of the next structure of its kind: the
%% right number in the wrong place. So the draws are fixed, and failures of fresh ones (make soak,
%% SONDE_FIRST_SEED) are reviewed by a person.
seed() ->
    list_to_integer(os:getenv("SONDE_SEED", os:getenv("SONDE_FIRST_SEED", "1"))).

%% Checks: `own', each field is refused by its own check; `any', it is refused.
all_caught(Config, Checks, Offsets) ->
    Peer = proplists:get_value(peer, Config),
    {Name, Fields} = prove(Peer, table, []),
    Mutants = [{Field, Offset, Wrong} || {Field, Offset} <- Fields, Wrong <- Offsets(Offset),
                                         Wrong >= 0, Wrong =/= Offset],
    true = length(Mutants) >= 10,
    Escaped = [{Mutant, Outcome} || {Field, _, Wrong} = Mutant <- Mutants,
                                    not is_equivalent(Mutant),
                                    Outcome <- [mutate(Peer, Field, Wrong)],
                                    not is_caught(Checks, Field, Outcome)],
    ct:pal("~p: ~p mutants", [Name, length(Mutants)]),
    [] = Escaped,
    {Name, Fields} = prove(Peer, table, []).

is_caught(own, Field, Outcome) -> Outcome =:= {off, {check, own_check(Field)}};
is_caught(any, _Field, {off, {check, _}}) -> true;
is_caught(any, _Field, _) -> false.

%% Changes the tables of heap objects: a kind is removed or taken for a float, and forms are wrong.
%% Objects that this release lacks cannot occur, nor the literal part of a fun (OTP 27).
things_of_other_kinds(Config) ->
    Peer = proplists:get_value(peer, Config),
    Otp = list_to_integer(erlang:system_info(otp_release)),
    {Map, Forms} = case Otp of
                       25 -> {15, lists:seq(256, 261)};
                       26 -> {15, lists:seq(256, 261)};
                       _ -> {11, lists:seq(256, 260)}
                   end,
    Tags = [0, 2, 3, 4, 5, 6, 8, 9, 10, Map, 12, 13, 14],
    {Name, _} = prove(Peer, table, []),
    Float = 4,
    Mutants = [Tag bsl 4 bor Kind
               || Tag <- Tags, Kind <- [0, Float], {Tag, Kind} =/= {6, Float}] ++ Forms,
    Escaped = [{Mutant, Outcome} || Mutant <- Mutants, Outcome <- [mutate(Peer, things, Mutant)],
                                    not is_about_things(Outcome)],
    ct:pal("~p: ~p mutants", [Name, length(Mutants)]),
    [] = Escaped,
    {Name, _} = prove(Peer, table, []).

is_about_things({off, {check, Check}}) -> Check =:= garbage orelse Check =:= things;
is_about_things(_) -> false.

own_check(Field) -> sonde_mutate_helper:own_check(Field).

%% A proof that was disturbed says nothing about the number. sonde repeats it later; this does at once, and only once.
mutate(Peer, Field, Offset) ->
    case proved_with(Peer, Field, Offset) of
        {off, {probes_busy, _}} ->
            ok = sonde_test:figures("  mutation: the proof with ~p at ~p was disturbed", [Field, Offset]),
            proved_with(Peer, Field, Offset);
        Status ->
            Status
    end.

proved_with(Peer, Field, Offset) ->
    try
        {Status, _Failed} = prove(Peer, prove_with, [Field, Offset]),
        Status
    catch
        Class:Why -> ct:fail("~p at ~p: the node died (~p:~p)", [Field, Offset, Class, Why])
    end.

prove(Peer, Function, Args) ->
    sonde_peer_helper:call(Peer, sonde_mutate_helper, Function, Args).

%% Wrong numbers that cannot matter: {Field, Right, Wrong}, and why.
%%
%% The program counter is only compared with itself, and the stamp reads the whole word at the
%% offset: two offsets in the same word are the same to it. (That is true for other fields of the
%% stamp too, but these have further uses, and are caught.)
is_equivalent({pc, Right, Wrong}) -> Wrong div 8 =:= Right div 8;
is_equivalent(_) -> false.

%% ---- beyond single mutants

the_right_table_is_proved_after_all(Config) ->
    Peer = proplists:get_value(peer, Config),
    {off, {check, heap}} = mutate(Peer, heap, 0),
    {Name, Fields} = prove(Peer, table, []),
    true = length(Fields) > 70,
    Table = sonde_peer_helper:call(Peer, sonde, native, []),
    #{status := active, layout := Name, checks := Checks} = Table,
    [] = [Field || {Field, _} <- Fields, not lists:member({own_check(Field), ok}, Checks)],
    [] = [Check || {_, Result} = Check <- Checks, Result =/= ok].

%% The same check failed on three sets of probes: that is final until a new proof is requested.
a_refuted_table_is_not_tried_again(Config) ->
    Peer = proplists:get_value(peer, Config),
    Call = fun(M, F, A) -> sonde_peer_helper:call(Peer, M, F, A) end,
    {module, sonde_probe} = Call(code, ensure_loaded, [sonde_probe]),
    Start = {sonde_probe, start, 0},
    Starts = fun() -> {call_count, N} = Call(erlang, trace_info, [Start, call_count]), N end,
    1 = Call(erlang, trace_pattern, [Start, true, [call_count]]),
    {off, {check, heap}} = mutate(Peer, heap, 0),
    Tables = length(Call(sonde_nif, tables, [])),
    {3, 0} = {Starts() div Tables, Starts() rem Tables},
    #{status := {off, {check, heap}}} = Call(sonde, native, []),
    [_, _] = Call(sonde, proc_count, [memory, 2]),
    3 = Starts() div Tables.

%% On a VM that matches no table, nothing has been found before.
the_very_first_proof_can_fail(Config) ->
    Peer = proplists:get_value(peer, Config),
    {off, {check, id}} = mutate(Peer, id, 8),
    {off, {check, process_table}} = mutate(Peer, ptab_tab, 8),
    #{checks := [{id, ok}, {process_table, {failed, true, false}} | Rest]} =
        sonde_peer_helper:call(Peer, sonde, native, []),
    [not_run] = lists:usort([Result || {_, Result} <- Rest]),
    [_, _] = sonde_peer_helper:call(Peer, sonde, proc_count, [memory, 2]).

%% ---- the shipped build

%% The names of functions that only the test build has.
means() ->
    [set_offset, fail_alloc, weaken, hold_reader, is_reader_held, release_reader, longest_calls,
     reset_calls, freed_at_once, prover_knows, unseal, forget_proof].

shipped_library_cannot_be_told_an_offset(_Config) ->
    Priv = filename:join(filename:dirname(filename:dirname(code:which(sonde_nif))), "priv"),
    Means = fun(File) ->
                    {ok, Bytes} = file:read_file(File),
                    [What || What <- means(),
                             binary:match(Bytes, atom_to_binary(What)) =/= nomatch]
            end,
    Shipped = filelib:wildcard(filename:join(Priv, "sonde_nif*.so")),
    [_ | _] = Shipped,
    [] = [{File, What} || File <- Shipped, What <- Means(File)],
    %% the same search finds them in the test build
    [ForTests | _] = filelib:wildcard(filename:join(os:getenv("SONDE_TEST_NIF"), "sonde_nif-*.so")),
    true = means() =:= Means(ForTests).

shipped_module_cannot_be_told_an_offset(_Config) ->
    {module, sonde_nif} = code:ensure_loaded(sonde_nif),
    [] = [F || {F, _} <- sonde_nif:module_info(functions), lists:member(F, means())],
    Beside = filename:join(filename:dirname(code:which(sonde_nif)), "sonde_nif.beam"),
    {ok, {sonde_nif, [{atoms, Atoms}]}} = beam_lib:chunks(Beside, [atoms]),
    [] = [A || {_, A} <- Atoms, lists:member(A, means())],
    %% and means/0 is complete
    ForTests = filename:join(os:getenv("SONDE_TEST_EBIN"), "sonde_nif.beam"),
    More = exports(ForTests) -- exports(Beside),
    [] = More -- means(),
    [] = means() -- More.

exports(Beam) ->
    {ok, {sonde_nif, [{exports, Exports}]}} = beam_lib:chunks(Beam, [exports]),
    [F || {F, _} <- Exports].
