%% Sizes of terms without native help. They equal OTP's, for terms of every kind; where OTP has no
%% figure, they equal what the test itself made; and limits hold whatever the term.
-module(size_SUITE).

-include_lib("proper/include/proper.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [flat_is_what_otp_says, bytes_are_what_erlang_term_says, each_word_counts_once,
     keys_of_one_hash, a_fun_from_elsewhere, a_record_of_an_older_module,
     no_literals_and_nothing_shared, literals_of_a_module, literals_of_funs,
     literals_of_records, persistent_terms,
     a_literal_at_the_end, changed_literal_map, many_equal_literals,
     binaries_are_pinned_once, small_binaries_outside, binaries_of_literals, many_binaries,
     a_limit_is_exact, no_time_is_one_slice, exponential_terms, deep_terms, a_long_list_takes_no_memory,
     nothing_reaches_the_caller, bad_options].

init_per_suite(Config) ->
    ok = sonde_terms_helper:init(),
    sonde_test:init(Config).

end_per_suite(_Config) -> ok.

end_per_testcase(_Case, _Config) ->
    _ = [persistent_term:erase(Key) || {{?MODULE, _} = Key, _} <- persistent_term:get()],
    ok.

%% ---- against OTP

flat_is_what_otp_says(_Config) ->
    check(?FORALL(Shape, shape(),
                  begin
                      Term = build(Shape),
                      same({flat, erts_debug:flat_size(Term)},
                           {flat, sonde_size:flat(Term, patient())})
                  end), 400).

bytes_are_what_erlang_term_says(_Config) ->
    check(?FORALL(Shape, shape(),
                  begin
                      Term = build(Shape),
                      same({bytes, 8 * (1 + erts_debug:flat_size(Term)) + large_binaries(Term)},
                           {bytes, sonde_size:bytes(Term, patient())})
                  end), 300).

%% erts_debug:size/1 compares each part with all equal parts, and may never end where much is shared
%% many times. A process that holds only the term has all of it but literals on its heap. Excluded
%% are: references to binaries, which OTP counts as a copy would; and what erts_debug:size/1 does
%% not enter (funs, native records) or counts as one word ({} on OTP 25).
each_word_counts_once(_Config) ->
    Not = [fun_of_a_module, fun_with_environment, fun_that_holds_a_binary, fun_from_elsewhere,
           alike_funs, native_record, literal, part, matched_part, rest_of_a_match, decoded,
           bit_string, empty, atoms_and_nil],
    Endless = counters:new(1, []),
    check(?FORALL(Shape, shape(sonde_terms_helper:kinds() -- Not, [list, tuple, map, twice, kept]),
                  begin
                      {OnHeap, Once, #{shared_words := Shared, literal_words := Literals}} =
                          alone(fun() -> build(Shape) end, shares(Shape)),
                      _ = [counters:add(Endless, 1, 1) || Once =:= endless],
                      same({on_heap, OnHeap}, {on_heap, Shared})
                          andalso (Once =:= endless
                                   orelse same({once, Once}, {once, Shared + Literals}))
                  end), 300),
    ct:pal("~b terms for which erts_debug:size/1 took too long", [counters:get(Endless, 1)]).

%% Only terms with sharing may be too much for erts_debug:size/1.
shares({Container, _}) when Container =:= twice; Container =:= kept -> true;
shares({leaf, _, _}) -> false;
shares({_, Shapes}) -> lists:any(fun shares/1, Shapes).

%% Builds a term in a process that holds nothing else. Its heap size is read from outside: asked
%% itself, the process would report more.
alone(Make, MayBeEndless) ->
    Parent = self(),
    {Pid, Ref} = spawn_monitor(
                   fun() ->
                           Term = Make(),
                           Parent ! {self(), built},
                           receive
                               tell ->
                                   Parent ! {self(), sonde_size:term(Term, patient())},
                                   exit({told, erts_debug:size(Term)})
                           end
                   end),
    %% A process that is suspended while a persistent term is put is not yet at rest.
    receive
        {Pid, built} -> ok;
        {'DOWN', Ref, process, Pid, Early} -> ct:fail(Early)
    end,
    ok = sonde_test:settle(Pid),
    %% The first collection may leave a few words that the last call of the process held.
    true = garbage_collect(Pid),
    true = garbage_collect(Pid),
    {_, Info} = process_info(Pid, garbage_collection_info),
    OnHeap = lists:sum([proplists:get_value(Item, Info) || Item <- [heap_size, old_heap_size]]),
    Pid ! tell,
    Sizes = receive
                {Pid, Told} -> Told;
                {'DOWN', Ref, process, Pid, Crash} -> ct:fail(Crash)
            end,
    receive
        {'DOWN', Ref, process, Pid, {told, Once}} -> {OnHeap, Once, Sizes};
        {'DOWN', Ref, process, Pid, Why} -> ct:fail(Why)
    after case MayBeEndless of true -> 300; false -> 60000 end ->
        exit(Pid, kill),
        receive {'DOWN', Ref, process, Pid, _} -> ok end,
        MayBeEndless orelse ct:fail(slow),
        {OnHeap, endless, Sizes}
    end.

%% Since OTP 27 keys with the same hash are in separate nodes.
keys_of_one_hash(_Config) ->
    _ = [begin
             Map = sonde_terms_helper:value(alike_funs, N),
             Flat = erts_debug:flat_size(Map),
             #{flat_words := Flat, shared_words := Flat, literal_words := 0} =
                 sonde_size:term(Map, patient())
         end || N <- [2, 3, 16, 17, 40]],
    Info = erts_debug:map_info(sonde_terms_helper:value(alike_funs, 40)),
    true = lists:member({collisions, 1}, [{Kind, N} || {Kind, N, _} <- Info])
        orelse erlang:system_info(otp_release) < "27".

a_fun_from_elsewhere(_Config) ->
    Here = sonde_terms_helper:value(fun_with_environment, 1),
    There = sonde_terms_helper:value(fun_from_elsewhere, 1),
    {Size, Size} = {erts_debug:flat_size(There), sonde_size:flat(There, patient())},
    true = Size > erts_debug:flat_size(Here) orelse erlang:system_info(otp_release) >= "27".

%% The record's module is loaded with other fields, or not at all.
a_record_of_an_older_module(_Config) ->
    case erlang:system_info(otp_release) >= "29" of
        true ->
            Old = sonde_terms_helper:record("a, b", [[1, 2], {3}]),
            New = sonde_terms_helper:record("c, a, d", [4, 5, "six"]),
            Size = erts_debug:flat_size([Old, New]),
            Size = sonde_size:flat([Old, New], patient()),
            true = sonde_terms_helper:forget_records(),
            Size = sonde_size:flat([Old, New], patient());
        false ->
            {skip, "OTP 29 has the first"}
    end.

%% ---- literals

no_literals_and_nothing_shared(_Config) ->
    Term = [{I, [I], maps:from_list([{{K}, K} || K <- lists:seq(1, I)])} || I <- lists:seq(1, 100)],
    Flat = erts_debug:flat_size(Term),
    {Flat, 0} = words(Term).

literals_of_a_module(_Config) ->
    {"text", Tuple} = Whole = constant(),
    Size = erts_debug:flat_size(Whole),
    {0, Size} = words(Whole),
    {2, Size} = words([Whole | Whole]),
    {4, Size} = words({Whole, Tuple, element(1, Whole)}),
    {3, Size} = words({tl(element(1, Whole)), Whole}),
    {2, 9} = words([Tuple | self()]),
    %% The tuple of the keys is a literal if the code that makes the map contains them.
    {14, 3} = words([#{a => I, b => I} || I <- [self(), self()]]),
    {7, 9} = words([#{a => self(), b => [1, "b"]}]),
    Fun = sonde_terms_helper:value(external_fun, 1),
    External = erts_debug:flat_size(Fun),
    {2, External} = words([Fun | Fun]),
    ok.

constant() -> {"text", {an, [atom, 1.0]}}.

%% On OTP 27 two closures made at one place share a reference, which is a literal unless the
%% closures come from a binary.
literals_of_funs(_Config) ->
    [One, Two] = [sonde_terms_helper:value(fun_that_holds_a_binary, N) || N <- [1, 2]],
    Term = [One | Two],
    Ref = case erlang:system_info(otp_release) of
              "27" -> 3;
              _ -> 0
          end,
    Flat = erts_debug:flat_size(Term),
    {Shared, Ref} = words(Term),
    Shared = Flat - 2 * Ref,
    {Flat, 0} = words(binary_to_term(term_to_binary(Term))).

literals_of_records(_Config) ->
    case erlang:system_info(otp_release) >= "29" of
        true ->
            Term = [sonde_terms_helper:record("a, b", [N, [N]]) || N <- [1, 2]],
            Definition = erts_debug:flat_size(hd(Term)) - 6,
            {16, Definition} = words(Term);
        false ->
            {skip, "OTP 29 has the first"}
    end.

persistent_terms(_Config) ->
    List = kept(lists:seq(1, 100)),
    {0, 200} = words(List),
    {3, 200} = words({List, tl(List)}),
    Part = lists:seq(1, 3),
    {0, 8} = words(kept([Part | Part])),
    Map = maps:from_list([{I, [I]} || I <- lists:seq(1, 1000)]),
    Size = erts_debug:flat_size(Map),
    {0, Size} = words(kept(Map)).

%% Asking for each part whether it is a literal would take quadratic time.
a_literal_at_the_end(_Config) ->
    Text = element(1, constant()),
    N = 100000,
    Levels = lists:seq(1, N),
    _ = [begin
             Term = lists:foldl(Around, Text, Levels),
             Flat = erts_debug:flat_size(Term),
             {Shared, Literals} = words(Term),
             {Kind, Flat} = {Kind, Shared + Literals + More * (N - 1)},
             {Kind, true} = {Kind, Literals >= 8}
         end || {Kind, More, Around} <-
                    [{list, 0, fun(I, Inner) -> [I | Inner] end},
                     {list_of_tuples, 0, fun(I, Inner) -> [{I} | Inner] end},
                     {tuple, 0, fun(I, Inner) -> {I, Inner, I} end},
                     {map, 3, fun(I, Inner) -> #{a => Inner, b => I} end}]].

%% Most nodes of the changed map are still literals.
changed_literal_map(_Config) ->
    Map = kept(maps:from_list([{I, {I}} || I <- lists:seq(1, 1000)])),
    Changed = Map#{5 => five, more => 1},
    _ = [begin
             {Shared, Literals} = words(Term),
             Once = erts_debug:size(Term),
             {Once, true, true} = {Shared + Literals, Shared > 0, Literals > Shared}
         end || Term <- [Changed, [Changed], {Map, Changed}, {Changed, Changed#{6 => six}}]].

%% There are more of them than are compared with each other.
many_equal_literals(_Config) ->
    Term = kept([{a, I * 0.0} || I <- lists:seq(1, 1000)]),
    {0, 7000} = words(Term).

%% ---- binaries

binaries_are_pinned_once(_Config) ->
    Whole = binary:copy(<<1>>, 1000),
    Slice = binary:part(Whole, 10, 100),
    <<_:3, Bits:802/bitstring, _/bitstring>> = Whole,
    {1000, 1000} = binaries(Whole),
    {100, 1000} = binaries([Slice]),
    {2301, 1000} = binaries({Whole, Slice, Bits, [Slice, Whole]}),
    {302, 1000} = binaries(#{Slice => [Bits | Bits]}),
    {2000, 2000} = binaries([Whole, binary:copy(<<1>>, 1000)]),
    {1000, 1000} = binaries(fun() -> Whole end),
    {0, 0} = binaries([<<1:512>>, <<>>, <<1:3>>, binary:part(<<(self_id()), 1:400>>, 1, 30)]).

self_id() -> erlang:phash2(self(), 256).

%% An off-heap binary of up to 64 bytes is rare, and its words do not always identify it.
small_binaries_outside(_Config) ->
    Compressed = [term_to_binary(lists:duplicate(400, $a) ++ lists:seq(1, N), [compressed])
                  || N <- lists:seq(1, 60)],
    Outside = [Bin || Bin <- Compressed, byte_size(Bin) =< 64, is_outside(Bin)],
    Sizes = [byte_size(Bin) || Bin <- Outside],
    true = lists:any(fun(Size) -> Size >= 25 andalso Size =< 32 end, Sizes),
    true = lists:any(fun(Size) -> Size >= 41 andalso Size =< 48 end, Sizes),
    OnHeap = [binary:copy(Bin) || Bin <- Outside],
    Sum = lists:sum(Sizes),
    {Twice, Sum} = binaries([Outside, OnHeap, Outside]),
    Twice = 2 * Sum,
    {0, 0} = binaries(OnHeap).

is_outside(Bin) ->
    Pid = sonde_test:hold(fun() -> [Bin] end),
    {binary, Held} = process_info(Pid, binary),
    ok = sonde_test:stop(Pid),
    Held =/= [].

binaries_of_literals(_Config) ->
    {_, _, Literal} = sonde_terms_helper:value(literal, 1),
    Size = byte_size(Literal),
    {Twice, Size} = binaries([Literal, Literal]),
    Twice = 2 * Size,
    Whole = binary:copy(<<1>>, 1000),
    {200, 1000} = binaries(kept([binary:part(Whole, 0, 100), binary:part(Whole, 500, 100)])),
    {1100, 1000} = binaries([Whole | kept(binary:part(Whole, 0, 100))]).

%% There are more of them than are asked about at a time.
many_binaries(_Config) ->
    Wholes = [binary:copy(<<I:16>>, 50) || I <- lists:seq(1, 2500)],
    {250000, 250000} = binaries(Wholes),
    {500000, 250000} = binaries(Wholes ++ Wholes).

%% ---- limits

a_limit_is_exact(_Config) ->
    check(?FORALL(Shape, shape(),
                  begin
                      Term = build(Shape),
                      Flat = erts_debug:flat_size(Term),
                      Flat =:= sonde_size:flat(Term, up_to(Flat))
                          andalso (Flat =:= 0 orelse is_beyond(Term, Flat - 1))
                  end), 200).

is_beyond(Term, Limit) ->
    {error, {heap_too_large, Words, Limit}} = sonde_size:flat(Term, up_to(Limit)),
    Words > Limit.

%% As natively: the clock is not looked at before that.
no_time_is_one_slice(_Config) ->
    Term = {lists:seq(1, 100), <<0:1000>>},
    Words = erts_debug:flat_size(Term),
    ok = sonde_test:until(answered, fun() -> sonde_size:flat(Term, #{timeout => 0}) =:= Words end),
    ok = sonde_test:until(answered, fun() -> is_integer(sonde_size:bytes(Term, #{timeout => 0})) end),
    ok = sonde_test:until(answered, fun() -> is_map(sonde_size:term(Term, #{timeout => 0})) end).

%% Each term has more words than the world has atoms. The memory must stay small and the time
%% bounded; the timetrap catches calls that never end.
exponential_terms(_Config) ->
    Large = maps:from_list([{I, I} || I <- lists:seq(1, 40)]),
    Twice = [fun(T) -> [T | T] end, fun(T) -> {T, 1, T} end, fun(T) -> #{a => T, T => b} end,
             fun(T) -> Large#{1 => T, 40 => T} end,
             fun(T) -> U = [T], fun() -> {T, U} end end]
        ++ [fun(T) -> sonde_native_record:make(T, [T]) end
            || erlang:function_exported(sonde_native_record, make, 2)],
    Calls = [fun sonde_size:flat/2, fun sonde_size:bytes/2, fun sonde_size:term/2],
    _ = [in_little_memory(
           fun() ->
                   Term = doubled(Double, 100, []),
                   {error, {heap_too_large, Words, 100000}} =
                       Call(Term, up_to(100000)),
                   true = Words > 100000,
                   {error, timeout} = Call(Term, #{timeout => 100, max_words => 1 bsl 60})
           end) || Double <- Twice, Call <- Calls],
    {error, timeout} = sonde_size:flat(kept(doubled(hd(Twice), 100, [])),
                                       #{timeout => 100, max_words => 1 bsl 60}).

doubled(_Double, 0, Term) -> Term;
doubled(Double, N, Term) -> doubled(Double, N - 1, Double(Term)).

in_little_memory(Fun) ->
    {Pid, Ref} = spawn_opt(fun() -> Fun(), exit(well) end,
                           [monitor, {max_heap_size, #{size => 1000000, error_logger => false}}]),
    receive {'DOWN', Ref, process, Pid, Why} -> well = Why end.

deep_terms(_Config) ->
    _ = [begin
             Term = lists:foldl(Around, [], lists:seq(1, N)),
             Flat = erts_debug:flat_size(Term),
             {Kind, Flat} = {Kind, sonde_size:flat(Term, patient())},
             {Kind, Bytes} = {Kind, sonde_size:bytes(Term, patient())},
             {Kind, Bytes} = {Kind, 8 * (1 + Flat)},
             {Kind, #{flat_words := Flat}} = {Kind, sonde_size:term(Term, patient())}
         end || {Kind, N, Around} <-
                    [{left, 1000000, fun(_, Inner) -> [Inner] end},
                     {both, 1000000, fun(I, Inner) -> [[Inner], I] end},
                     {tuple, 1000000, fun(I, Inner) -> {I, Inner} end},
                     {middle, 1000000, fun(I, Inner) -> {{}, Inner, {I}} end},
                     {map, 100000, fun(I, Inner) -> #{I => Inner} end},
                     {map_key, 10000, fun(I, Inner) -> #{Inner => I} end},
                     {function, 10000, fun(_, Inner) -> fun() -> Inner end end}]].

%% A call may take at most one word for each hundred of the term.
a_long_list_takes_no_memory(_Config) ->
    Long = lists:seq(1, 5000000),
    {total_heap_size, Words} = process_info(self(), total_heap_size),
    Before = process_flag(max_heap_size, #{size => Words + 100000, kill => true}),
    10000000 = sonde_size:flat(Long, patient()),
    80000008 = sonde_size:bytes(Long, patient()),
    #{shared_words := 10000000} = sonde_size:term(Long, patient()),
    _ = process_flag(max_heap_size, Before),
    5000000 = length(Long).

%% ---- the caller

nothing_reaches_the_caller(_Config) ->
    Before = process_flag(trap_exit, true),
    {3000, 3000} = binaries([binary:copy(<<1>>, 1000) || _ <- [1, 2, 3]]),
    {messages, []} = process_info(self(), messages),
    true = process_flag(trap_exit, Before).

bad_options(_Config) ->
    _ = [{Bad, badarg} = {Bad, sonde_test:raised(fun() -> Call([], Bad) end)}
         || Call <- [fun sonde_size:flat/2, fun sonde_size:bytes/2, fun sonde_size:term/2,
                     fun(_, Opts) -> sonde_size:options(Opts) end],
            Bad <- [[], none, #{other => 1}, #{max_words => -1}, #{max_words => 1.0},
                    #{max_words => infinity}, #{timeout => -1}, #{timeout => infinity},
                    #{timeout => 1 bsl 32}, #{suspend => 1}, #{progress => yes}]],
    #{max_words := 1000000000, timeout := 30000, suspend := false, progress := false} =
        sonde_size:options(#{}),
    #{max_words := 0, timeout := 0, suspend := true, progress := true} =
        sonde_size:options(#{max_words => 0, timeout => 0, suspend => true, progress => true}).

%% ---- helpers

%% A slow machine gets all the time it needs.
patient() -> up_to(1000000000).

up_to(Words) -> #{timeout => 16#FFFFFFFF, max_words => Words}.

check(Property, Times) ->
    proper:quickcheck(Property, [quiet, {numtests, Times}, {max_size, 30}, {max_shrinks, 50}])
        orelse ct:fail({counterexample, proper:counterexample()}).

same(Same, Same) ->
    true;
same(Theirs, Ours) ->
    ct:log("~p, and we say ~p", [Theirs, Ours]),
    false.

words(Term) ->
    #{shared_words := Shared, literal_words := Literals} = sonde_size:term(Term, patient()),
    {Shared, Literals}.

binaries(Term) ->
    #{binary_visible := Visible, binary_pinned := Pinned} = sonde_size:term(Term, patient()),
    {Visible, Pinned}.

%% Returns the term as a literal.
kept(Term) ->
    Key = {?MODULE, make_ref()},
    ok = persistent_term:put(Key, Term),
    persistent_term:get(Key).

large_binaries(Bin) when is_binary(Bin), byte_size(Bin) > 64 -> byte_size(Bin);
large_binaries([H | T]) -> large_binaries(H) + large_binaries(T);
large_binaries(Tuple) when is_tuple(Tuple) -> large_binaries(tuple_to_list(Tuple));
large_binaries(Map) when is_map(Map) -> large_binaries(maps:to_list(Map));
large_binaries(_) -> 0.

%% ---- random terms: kinds of leaves, in kinds of containers

shape() ->
    shape(sonde_terms_helper:kinds(), [list, tuple, map, held, twice, kept]).

shape(Leaves, Containers) ->
    ?SIZED(Size, shape(Size, Leaves, Containers)).

shape(Size, Leaves, Containers) ->
    Leaf = {leaf, oneof(Leaves), range(1, 40)},
    case Size < 2 of
        true -> Leaf;
        false ->
            Inner = ?LAZY(shape(Size div 4, Leaves, Containers)),
            frequency([{1, Leaf}, {4, {oneof(Containers), list(Inner)}}])
    end.

build({leaf, Kind, N}) -> sonde_terms_helper:value(Kind, N);
build({list, Shapes}) -> [build(Shape) || Shape <- Shapes];
build({tuple, Shapes}) -> list_to_tuple([build(Shape) || Shape <- Shapes]);
build({map, Shapes}) -> maps:from_list(pairs([build(Shape) || Shape <- Shapes]));
build({held, Shapes}) -> Held = build({list, Shapes}), fun() -> Held end;
build({twice, Shapes}) -> Term = build({tuple, Shapes}), [Term, Term | Term];
build({kept, Shapes}) -> kept(build({list, Shapes})).

pairs([Key, Value | Rest]) -> [{Key, Value} | pairs(Rest)];
pairs(Rest) -> [{I, Term} || {I, Term} <- lists:zip(lists:seq(1, length(Rest)), Rest)].
