%% Sizes of terms and of the roots of a process are what erts_debug reports, on the native and the
%% portable path, for terms of every kind; a term that is too large is reported as such.
-module(flat_SUITE).

-include_lib("proper/include/proper.hrl").

-compile([export_all, nowarn_export_all]).

-define(DEEP, 2000000).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [terms_of_every_kind, any_terms, both_sides_agree, own_term_in_a_fragment,
     shared_parts_count_once, binaries_count_where_they_are_seen, limit_is_exact, too_large_ends,
     time_is_up, deep_terms, large_term_is_not_copied, many_callers_at_once,
     mailbox_of_the_caller_stays, dictionary_is_its_pairs, messages_wherever_they_are,
     stack_and_registers, everything_together, own_roots, attribute_of_all_processes,
     literals_as_if_copied, suspended_process_goes_on, who_is_not_there, roots_are_native,
     bad_arguments].

init_per_suite(Config) ->
    ok = sonde_terms_helper:init(),
    sonde_test:init(Config).

end_per_suite(_Config) -> ok.

%% ---- terms

terms_of_every_kind(_Config) ->
    Terms = [sonde_terms_helper:value(Kind, N) || Kind <- sonde_terms_helper:kinds(),
                                                  N <- [1, 2, 17, 40]],
    [] = [{T, F, erts_debug:flat_size(T)} || T <- [Terms | Terms],
                                             F <- [sonde_term:flat_size(T, #{})],
                                             F =/= erts_debug:flat_size(T)],
    [] = [{T, B, by_hand(T)} || T <- [Terms | Terms], B <- [sonde_term:byte_size(T, #{})],
                                B =/= by_hand(T)].

any_terms(_Config) ->
    check(?FORALL(Term, term_(),
                  begin
                      Flat = erts_debug:flat_size(Term),
                      #{flat_words := Also} = sonde_term:term_size(Term, #{}),
                      Flat =:= sonde_term:flat_size(Term, #{}) andalso Flat =:= Also
                          andalso by_hand(Term) =:= sonde_term:byte_size(Term, #{})
                  end)).

%% A binary that was appended to may lose its spare room when the portable path passes it on.
both_sides_agree(_Config) ->
    check(?FORALL(Term, term_(),
                  begin
                      #{binary_pinned := Pinned} = Ours = sonde_term:term_size(Term, #{}),
                      #{binary_pinned := Less} = Theirs = sonde_size:term(Term, #{}),
                      Less =< Pinned andalso Ours#{binary_pinned := Less} =:= Theirs
                  end)).

%% A term that a native function builds lies in a fragment if the heap has no room.
own_term_in_a_fragment(_Config) ->
    Big = binary_to_term(term_to_binary([{I, [I]} || I <- lists:seq(1, 100000)])),
    true = erts_debug:flat_size(Big) =:= sonde_term:flat_size(Big, #{}).

shared_parts_count_once(_Config) ->
    Part = list_to_tuple(lists:seq(1, 100)),
    Term = [Part, Part, {Part, "a literal", "a literal"}],
    #{flat_words := Flat, shared_words := Shared} = sonde_term:term_size(Term, #{}),
    Flat = erts_debug:flat_size(Term),
    Shared = erts_debug:size_shared(Term),
    true = Flat - Shared > 200.

binaries_count_where_they_are_seen(_Config) ->
    Whole = binary:copy(<<"abc">>, 1000),
    Slice = binary:part(Whole, 10, 100),
    Other = binary:copy(<<"d">>, 500),
    Held = fun() -> Other end,
    Expected = #{binary_visible => 3000 + 3 * 100 + 500, binary_pinned => 3500},
    Expected = maps:with([binary_visible, binary_pinned],
                         sonde_term:term_size([Whole, Slice, {Slice, #{a => Slice}}, Held], #{})),
    %% in a fun the binaries do not count as bytes of the term
    Bytes = sonde_term:byte_size([Slice, Held], #{}),
    Bytes = 8 * (1 + erts_debug:flat_size([Slice, Held])) + 100.

limit_is_exact(_Config) ->
    [begin
         Flat = erts_debug:flat_size(Term),
         Flat = sonde_term:flat_size(Term, #{max_words => Flat}),
         {error, {heap_too_large, Words, Limit}} =
             sonde_term:flat_size(Term, #{max_words => Flat - 1}),
         true = Words > Limit andalso Limit =:= Flat - 1
     end || Term <- [{a}, lists:seq(1, 10), lists:seq(1, 100000)]].

%% The term would take 2^1000 words.
too_large_ends(_Config) ->
    Term = lists:foldl(fun(_, T) -> {T, T} end, [1], lists:seq(1, 1000)),
    _ = [{error, {heap_too_large, _, 1000000}} = Call(Term, #{max_words => 1000000})
         || Call <- calls()].

time_is_up(_Config) ->
    Term = lists:foldl(fun(_, T) -> {T, T} end, [1], lists:seq(1, 1000)),
    _ = [{error, timeout} = Call(Term, #{max_words => 1 bsl 50, timeout => 100})
         || Call <- calls()].

calls() -> [fun sonde_term:flat_size/2, fun sonde_term:byte_size/2, fun sonde_term:term_size/2].

%% Deep in the head, in the tail, and in both.
deep_terms(_Config) ->
    _ = [begin
             Words = sonde_term:flat_size(deep(Step, N, []), #{})
         end || {Step, N, Words} <- deep()].

deep() ->
    [{fun(T) -> [T] end, ?DEEP, 2 * ?DEEP},
     {fun(T) -> [a | T] end, ?DEEP, 2 * ?DEEP},
     {fun(T) -> {T, {x}} end, 1000000, 5000000},
     {fun(T) -> {{x}, T, [a]} end, 1000000, 8000000}].

deep(_Step, 0, Term) -> Term;
deep(Step, N, Term) -> deep(Step, N - 1, Step(Term)).

large_term_is_not_copied(_Config) ->
    Term = lists:seq(1, 6250000),
    _ = garbage_collect(),
    Before = process_memory(),
    Watch = spawn_link(fun() -> watch(0) end),
    12500000 = sonde_term:flat_size(Term, #{}),
    100000008 = sonde_term:byte_size(Term, #{}),
    Watch ! {most, self()},
    Most = receive {most, M} -> M end,
    12500000 = erts_debug:flat_size(Term),
    true = Most < Before + 50000000.

process_memory() -> erlang:memory(processes_used).

watch(Most) ->
    receive {most, Pid} -> Pid ! {most, Most}
    after 1 -> watch(max(Most, process_memory()))
    end.

many_callers_at_once(_Config) ->
    Me = self(),
    _ = [spawn_link(fun() ->
                            Term = lists:seq(1, 10000 + I),
                            Me ! {I, [sonde_term:flat_size(Term, #{}) || _ <- lists:seq(1, 20)]}
                    end) || I <- lists:seq(1, 10)],
    _ = [receive {I, Sizes} -> [] = [S || S <- Sizes, S =/= 2 * (10000 + I)] end
         || I <- lists:seq(1, 10)].

mailbox_of_the_caller_stays(_Config) ->
    self() ! before,
    20000 = sonde_term:flat_size(lists:seq(1, 10000), #{}),
    {messages, [before]} = process_info(self(), messages),
    receive before -> ok end.

%% ---- roots

dictionary_is_its_pairs(_Config) ->
    Pairs = [{{key, I}, sonde_terms_helper:value(Kind, I rem 40 + 1)}
             || I <- lists:seq(1, 300),
                Kind <- [lists:nth(I rem 20 + 1, sonde_terms_helper:kinds())]],
    Pid = sonde_test:hold(fun() -> [put(K, V) || {K, V} <- Pairs], none end),
    {dictionary, Held} = process_info(Pid, dictionary),
    Words = lists:sum([erts_debug:flat_size(Pair) || Pair <- Held]),
    ok = sonde_test:settle(Pid),
    Words = sonde_term:root_size(Pid, dictionary, #{}),
    sonde_test:stop(Pid).

messages_wherever_they_are(_Config) ->
    Messages = [sonde_terms_helper:value(Kind, N) || Kind <- sonde_terms_helper:kinds(),
                                                     N <- [1, 20]],
    _ = [begin
             Pid = sonde_test:hold(fun() -> none end, Opts),
             _ = [Pid ! Message || Message <- [an_atom | Messages]],
             ok = sonde_test:settle(Pid),
             Words = lists:sum([erts_debug:flat_size(M) || M <- Messages]),
             Words = sonde_term:root_size(Pid, messages, #{}),
             _ = [garbage_collect(Pid) || Collect],
             ok = sonde_test:settle(Pid),
             Words = sonde_term:root_size(Pid, messages, #{}),
             sonde_test:stop(Pid)
         end || Opts <- [[], [{message_queue_data, off_heap}]], Collect <- [false, true]].

%% Compares a process that holds a term with one that holds none.
stack_and_registers(_Config) ->
    Term = [sonde_terms_helper:value(Kind, 3) || Kind <- sonde_terms_helper:kinds()],
    Words = erts_debug:flat_size(Term),
    Stacks = [size_of(sonde_test:hold(fun() -> T end), stack) || T <- [Term, none]],
    Words = hd(Stacks) - lists:last(Stacks),
    Registers = [size_of(hibernated(T), all) || T <- [Term, none]],
    Words = hd(Registers) - lists:last(Registers).

hibernated(Term) ->
    Pid = spawn(fun() -> erlang:hibernate(sonde_test, park, [Term]) end),
    ok = sonde_test:settle(Pid),
    Pid.

size_of(Pid, Root) ->
    Size = sonde_term:root_size(Pid, Root, #{}),
    sonde_test:stop(Pid),
    Size.

everything_together(_Config) ->
    Pid = sonde_test:hold(fun() -> put(a, lists:seq(1, 100)), lists:seq(1, 200) end),
    Pid ! lists:seq(1, 300),
    ok = sonde_test:settle(Pid),
    Sizes = [sonde_term:root_size(Pid, Root, #{})
             || Root <- [stack, dictionary, messages, all]],
    [Stack, 203, 600, All] = Sizes,
    All = Stack + 203 + 600,
    true = Stack >= 400,
    {error, {heap_too_large, _, 700}} =
        sonde_term:root_size(Pid, all, #{max_words => 700}),
    sonde_test:stop(Pid).

own_roots(_Config) ->
    Before = sonde_term:root_size(self(), dictionary, #{}),
    undefined = put({?MODULE, key}, lists:seq(1, 50)),
    After = sonde_term:root_size(self(), dictionary, #{}),
    _ = erase({?MODULE, key}),
    106 = After - Before.

%% A row has the value that the look at one process gives; a process that is too large has no row.
attribute_of_all_processes(_Config) ->
    Terms = [sonde_terms_helper:value(Kind, 20) || Kind <- sonde_terms_helper:kinds()],
    Pids = [sonde_test:hold(fun() -> put(part, lists:nthtail(I, Terms)), Terms end)
            || I <- lists:seq(1, 10)],
    _ = [Pid ! Terms || Pid <- Pids],
    _ = [ok = sonde_test:settle(Pid) || Pid <- Pids],
    Large =
        sonde_test:hold(fun() -> lists:foldl(fun(_, T) -> {T, T} end, [], lists:seq(1, 100)) end),
    {Rows, #{too_large := 1}} =
        sonde:proc_count(flat_size, 1000000, #{report => true, max_words => 10000000}),
    false = lists:keyfind(Large, 1, Rows),
    [] = [{Pid, One, Row} || Pid <- Pids, One <- [sonde_term:root_size(Pid, all, #{})],
                             Row <- [lists:keyfind(Pid, 1, Rows)], element(2, Row) =/= One],
    sonde_test:stop([Large | Pids]).

literals_as_if_copied(_Config) ->
    Literal = {a, "literal", #{'of' => [this, <<"module">>]}},
    0 = erts_debug:size_shared(Literal),
    persistent_term:put(?MODULE, lists:seq(1, 1000)),
    Kept = persistent_term:get(?MODULE),
    0 = erts_debug:size_shared(Kept),
    Pid = sonde_test:hold(fun() -> put(a, Literal), put(b, Kept), none end),
    Words = 6 + erts_debug:flat_size(Literal) + 2000,
    Words = sonde_term:root_size(Pid, dictionary, #{}),
    #{shared_words := 0, literal_words := 2000} = sonde_term:term_size(Kept, #{}),
    sonde_test:stop(Pid),
    persistent_term:erase(?MODULE).

suspended_process_goes_on(_Config) ->
    Pid = sonde_test:hold(fun() -> put(a, [1]), none end),
    5 = sonde_term:root_size(Pid, dictionary, #{suspend => true}),
    {status, waiting} = process_info(Pid, status),
    sonde_test:stop(Pid).

who_is_not_there(_Config) ->
    Pid = spawn(fun() -> ok end),
    Mon = monitor(process, Pid),
    receive {'DOWN', Mon, process, Pid, _} -> ok end,
    undefined = sonde_term:root_size(Pid, all, #{}).

%% Runs only without the native path.
roots_are_native(_Config) ->
    {Dead, Mon} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Mon, process, Dead, _} -> ok end,
    [{error, {native_off, disabled}}] =
        lists:usort([sonde_term:root_size(Pid, Root, #{})
                     || Pid <- [self(), whereis(init), Dead],
                        Root <- [stack, dictionary, messages, all]]),
    {native_off, disabled} = sonde_test:raised(fun() -> sonde:proc_count(flat_size, 1) end).

bad_arguments(_Config) ->
    Remote = sonde_terms_helper:value(foreign_pid, 1),
    Bad = [fun() -> sonde_term:root_size(Remote, all, #{}) end,
           fun() -> sonde_term:root_size(a_name, all, #{}) end,
           fun() -> sonde_term:root_size(self(), registers, #{}) end,
           fun() -> sonde_term:root_size(self(), all, #{max_words => -1}) end,
           fun() -> sonde_term:root_size(self(), all, #{sample => 1}) end,
           fun() -> sonde_term:root_size(self(), all, []) end]
        ++ [fun() -> Call(a, Opts) end || Call <- calls(),
                                          Opts <- [a, #{a => b}, #{timeout => a}]],
    [] = [Fun || Fun <- Bad, sonde_test:raised(Fun) =/= badarg].

%% ---- by hand

by_hand(Term) -> 8 * (1 + erts_debug:flat_size(Term)) + large(Term).

large(Bin) when is_binary(Bin), byte_size(Bin) > 64 -> byte_size(Bin);
large([H | T]) -> large(H) + large(T);
large(Tuple) when is_tuple(Tuple) -> lists:sum([large(E) || E <- tuple_to_list(Tuple)]);
large(Map) when is_map(Map) -> lists:sum([large(K) + large(V) || {K, V} <- maps:to_list(Map)]);
large(_) -> 0.

%% Values, and containers of them, some of which occur twice.
term_() ->
    ?LET(Values, list({oneof(sonde_terms_helper:kinds()), range(1, 40)}),
         ?LET(Shapes, list(oneof([list, tuple, map, twice, 'fun'])),
              lists:foldl(fun wrap/2, [sonde_terms_helper:value(K, N) || {K, N} <- Values],
                          lists:sublist(Shapes, 6)))).

wrap(list, T) -> [T, T | tail];
wrap(tuple, T) -> {T, lists:seq(1, 20)};
wrap(map, T) -> #{T => T, a => [T]};
wrap(twice, T) -> {T, T};
wrap('fun', T) -> fun() -> T end.

check(Property) ->
    proper:quickcheck(Property, [quiet, {numtests, 100}, {max_size, 20}, {max_shrinks, 30}])
        orelse ct:fail({counterexample, proper:counterexample()}).
