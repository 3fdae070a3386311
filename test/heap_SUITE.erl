%% sonde:heap/1 is exact: it reaches what a major collection keeps, to the word; the parts add up,
%% to the byte; the process that it reads notices nothing; and an answer that is not possible gives
%% its reason.
-module(heap_SUITE).

-include_lib("proper/include/proper.hrl").

-compile([export_all, nowarn_export_all]).

-define(WORDS, erlang:system_info(wordsize)).

suite() ->
    [{timetrap, {minutes, 5}}].

all() ->
    [reached_is_what_a_collection_keeps, a_heap_in_two_places, attributes_of_a_heap_in_two_places,
     parts_add_up, roots_in_their_order,
     small_slices_become_heap_binaries, waiting_messages_are_reached, hibernated_with_arguments,
     preempted_with_arguments,
     kinds_are_named, binaries_by_who_holds_them, literals_are_leaves,
     who_is_looked_at_does_not_run, own_heap, held_while_it_is_walked,
     resumed_when_the_caller_dies, no_longer_suspended_than_it_may,
     limits_of_any_size, limits_are_said, busy_is_said, progress_is_drawn,
     progress_on_what_is_held, nonsense_is_badarg, large_heap, off_is_said].

init_per_suite(Config) ->
    ok = sonde_terms_helper:init(),
    sonde_test:init(Config).

end_per_suite(_Config) ->
    ok.

%% ---- compared with the collector

%% Terms of every kind, shared among each other, with garbage between them and in all generations.
reached_is_what_a_collection_keeps(_Config) ->
    true = proper:quickcheck(prop_reached(), [quiet, {numtests, 200}, {max_size, 40}])
        orelse ct:fail({counterexample, proper:counterexample()}).

prop_reached() ->
    prop_reached(fun(Steps) -> sonde_test:hold(fun() -> build(Steps, []) end, [{fullsweep_after, 65535}]) end).

prop_reached(Held) ->
    ?FORALL(Steps, list(step()),
            begin
                Pid = Held(Steps),
                #{reachable := Reachable, blocks := #{fragments := Fragments}} = Heap =
                    sonde:heap(Pid),
                Sums = adds_up(Heap),
                Kept = kept(Pid),
                #{reachable := Now, garbage := Left} = sonde:heap(Pid),
                %% What a BIF left in a fragment is kept once, garbage or not: then it is on the
                %% heap.
                Again = kept(Pid),
                #{reachable := Last, garbage := Garbage} = sonde:heap(Pid),
                ok = sonde_test:stop(Pid),
                ?WHENFAIL(ct:log("~p~nkept ~p, reached ~p, kept ~p, reached ~p and garbage ~p~n~p",
                                 [Heap, Kept, Now, Again, Last, Garbage, Steps]),
                          Sums andalso Reachable =:= Kept andalso Now + Left =:= Kept
                          andalso (Left =:= 0 orelse Fragments > 0) andalso Now =:= Again
                          andalso Last =:= Again andalso Garbage =:= 0)
            end).

step() ->
    frequency([{10, {keep, oneof(exact_kinds()), range(1, 40)}},
               {3, {drop, range(1, 5)}},
               {3, {share, range(1, 5)}},
               {2, minor}, {1, major},
               {2, {dictionary, range(1, 30), oneof(exact_kinds())}},
               {1, {forget, range(1, 30)}}]).

%% Small slices change in a collection up to OTP 26 and have a test of their own.
exact_kinds() ->
    sonde_terms_helper:kinds() -- [part, matched_part, rest_of_a_match].

build(Steps, Kept) ->
    lists:foldl(fun do/2, Kept, Steps).

do({keep, Kind, N}, Kept) -> [sonde_terms_helper:value(Kind, N) | Kept];
do({drop, N}, Kept) -> lists:nthtail(min(N, length(Kept)), Kept);
do({share, N}, Kept) ->
    [{lists:sublist(Kept, N), Kept} | lists:nthtail(min(N, length(Kept)), Kept)];
do(minor, Kept) -> true = erlang:garbage_collect(self(), [{type, minor}]), Kept;
do(major, Kept) -> true = erlang:garbage_collect(), Kept;
do({dictionary, Key, Kind}, Kept) -> _ = put(Key, sonde_terms_helper:value(Kind, Key)), Kept;
do({forget, Key}, Kept) -> _ = erase(Key), Kept.

%% While collections are delayed, a process whose heap is full gets another one.
a_heap_in_two_places(_Config) ->
    true = proper:quickcheck(prop_reached(fun(Steps) -> in_two_places(fun() -> build(Steps, []) end) end),
                             [quiet, {numtests, 100}, {max_size, 40}])
        orelse ct:fail({counterexample, proper:counterexample()}).

%% Looks at a message as an interpreted `receive' does, and needs more words than its heap has meanwhile.
in_two_places(Fun) ->
    Up = self(),
    Look = fun(go) ->
                   {total_heap_size, Words} = process_info(self(), total_heap_size),
                   true = tuple_size(erlang:make_tuple(max(0, Words - 500), x)) + length(lists:seq(1, Words)) > 0,
                   Up ! {ready, self()},
                   nomatch
           end,
    Pid = spawn_opt(fun() -> Kept = Fun(), _ = prim_eval:'receive'(Look, infinity), Kept end,
                    [{fullsweep_after, 65535}]),
    Pid ! go,
    receive {ready, Pid} -> ok end,
    ok = sonde_test:settle(Pid),
    %% the VM does not count the new heap among these
    {_, Info} = process_info(Pid, garbage_collection_info),
    Words = [proplists:get_value(Item, Info) || Item <- [heap_block_size, old_heap_block_size, mbuf_size]],
    case sonde:heap(Pid) of
        #{blocks := Blocks} ->
            true = lists:sum(maps:values(Blocks)) > lists:sum(Words) * ?WORDS,
            Pid;
        {error, busy} ->
            %% with a heap of just this size, a BIF has a fragment that only it knows: with another one it has not
            ok = sonde_test:stop(Pid),
            in_two_places(fun() -> [lists:seq(1, 400) | Fun()] end)
    end.

%% To answer some of these, a process runs, and then it collects: each is asked of a process of its own.
attributes_of_a_heap_in_two_places(_Config) ->
    Attrs = [memory, total_heap_size, heap_size, stack_size, binary_memory, binary_count],
    _ = [begin
             Pid = in_two_places(fun() -> [binary:copy(<<I>>, 100 + I) || I <- lists:seq(1, 50)] end),
             {ok, [Native]} = sonde_every_process:one(Pid, [Attr]),
             {ok, Official} = sonde_attr:read(Attr, Pid),
             {Attr, Official} = {Attr, Native}
         end || Attr <- Attrs],
    Pid = in_two_places(fun() -> lists:seq(1, 1000) end),
    #{garbage := Garbage} = sonde:heap(Pid),
    {Pid, Garbage, _} = lists:keyfind(Pid, 1, sonde:proc_count(garbage_bytes, 10000)),
    [#{retained := 16000}] = sonde:heap_top(Pid, 1),
    _ = kept(Pid),
    [#{retained := 16000}] = sonde:heap_top(Pid, 1).

%% Bytes of the heap after a major collection.
kept(Pid) ->
    true = erlang:garbage_collect(Pid),
    ok = sonde_test:settle(Pid),
    {garbage_collection_info, Info} = process_info(Pid, garbage_collection_info),
    #{old_heap_size := 0, mbuf_size := 0, heap_size := Words} = maps:from_list(Info),
    Words * ?WORDS.

adds_up(#{blocks := Blocks, reachable := Reachable, garbage := Garbage, roots := Roots,
          histogram := Histogram}) ->
    #{free := Free, stack := Stack} = Blocks,
    All = lists:sum(maps:values(Blocks)),
    Bars = [Bytes || {_, _, Bytes} <- Histogram],
    Reachable + Garbage + Free + Stack =:= All andalso Garbage >= 0
        andalso lists:sum(maps:values(Roots)) =:= Reachable
        andalso lists:sum(Bars) =:= Reachable
        andalso Bars =:= lists:reverse(lists:sort(Bars)).

%% To the byte, on all processes of this node that hold still; the sum is what process_info reports.
parts_add_up(_Config) ->
    Off = sonde_test:hold(fun() -> receive {big, _} = Big -> Big after 0 -> ok end end,
                          [{message_queue_data, off_heap}]),
    _ = [Off ! {big, lists:seq(1, 1000)} || _ <- lists:seq(1, 50)],
    ok = sonde_test:settle(Off),
    Whole = [{Pid, Heap} || Pid <- processes(), Pid =/= self(), #{} = Heap <- [sonde:heap(Pid)]],
    true = length(Whole) > 20,
    [] = [{Pid, Heap} || {Pid, Heap} <- Whole, not adds_up(Heap)],
    #{blocks := #{fragments := Fragments}} = sonde:heap(Off),
    true = Fragments >= 50 * 1000 * 2 * ?WORDS,
    Pid = sonde_test:hold(fun() -> lists:seq(1, 12345) end),
    #{blocks := #{young := Young, old := Old, stack := Stack, free := Free}} = sonde:heap(Pid),
    {garbage_collection_info, Info} = process_info(Pid, garbage_collection_info),
    #{heap_size := Heap, old_heap_size := OldHeap, stack_size := StackSize,
      heap_block_size := HeapBlock, old_heap_block_size := OldBlock} = maps:from_list(Info),
    {Young, Old, Stack} = {Heap * ?WORDS, OldHeap * ?WORDS, StackSize * ?WORDS},
    Free = (HeapBlock + OldBlock) * ?WORDS - Young - Old - Stack,
    _ = [sonde_test:stop(P) || P <- [Off, Pid]],
    ok.

%% Words that several roots reach count for the first: stack, registers, dictionary, mailbox, other.
roots_in_their_order(_Config) ->
    Pid = sonde_test:hold(fun() ->
                                  Shared = lists:seq(1, 100),
                                  put(shared, Shared),
                                  put(own, list_to_tuple(lists:seq(1, 50))),
                                  self() ! {seen, self(), 2},
                                  Shared
                          end),
    #{roots := Roots} = sonde:heap(Pid),
    Mailbox = 4 * ?WORDS,
    #{dictionary := Dictionary, mailbox := Mailbox, registers := 0, other := 0} = Roots,
    %% if both keys fall into one slot, the slot holds a list of them
    true = lists:member(Dictionary div ?WORDS, [51 + 2 * 3, 51 + 2 * 3 + 2 * 2]),
    #{stack := OnStack} = Roots,
    true = OnStack >= 200 * ?WORDS,
    ok = sonde_test:stop(Pid).

%% The first named difference: up to OTP 26 a collection turns slices of up to 24 bytes into heap
%% binaries.
small_slices_become_heap_binaries(_Config) ->
    Hold = fun(Size) ->
                   sonde_test:hold(fun() ->
                                           Whole = binary:copy(<<"x">>, 1000),
                                           [binary:part(Whole, I, Size) || I <- lists:seq(1, 10)]
                                   end)
           end,
    [Small, Large] = [Hold(24), Hold(300)],
    [{SmallBefore, _}, {LargeBefore, Cells}] =
        [begin
             #{reachable := Reachable, histogram := Bars} = sonde:heap(P),
             {cons, Count, _} = lists:keyfind(cons, 1, Bars),
             {Reachable, Count}
         end || P <- [Small, Large]],
    10 = Cells,
    LargeBefore = kept(Large),
    SmallKept = kept(Small),
    case lists:member(erlang:system_info(otp_release), ["25", "26"]) of
        true ->
            %% ten slices of five words each become ten heap binaries of five; the binary is gone
            SmallBefore = SmallKept,
            {binary, []} = process_info(Small, binary);
        false ->
            SmallBefore = SmallKept
    end,
    _ = [sonde_test:stop(P) || P <- [Small, Large]],
    ok.

%% The second: a collection moves messages that wait in fragments of their own onto the heap.
waiting_messages_are_reached(_Config) ->
    Pid = sonde_test:hold(fun() -> ok end, [{message_queue_data, on_heap}]),
    Big = list_to_tuple(lists:seq(1, 5000)),
    _ = [Pid ! {I, Big} || I <- lists:seq(1, 20)],
    ok = sonde_test:settle(Pid),
    #{roots := #{mailbox := Waiting}} = sonde:heap(Pid),
    20 * (5001 + 3) * 8 = Waiting,
    #{reachable := Before} = sonde:heap(Pid),
    Before = kept(Pid),
    ok = sonde_test:stop(Pid).

hibernated_with_arguments(_Config) ->
    Term = {kept, lists:seq(1, 100)},
    Pid = spawn(fun() -> erlang:hibernate(sonde_test, park, [Term]) end),
    ok = sonde_test:settle(Pid),
    #{roots := #{registers := Bytes, stack := 0}, garbage := 0} = sonde:heap(Pid),
    {_, Bytes} = {Bytes, (3 + 200 + 2) * 8},
    exit(Pid, kill),
    ok.

%% Live arguments of a process that was suspended in the middle of its work.
preempted_with_arguments(_Config) ->
    Test = self(),
    Pid = spawn_link(fun() -> List = lists:seq(1, 1000), Test ! {spins, self()}, spin(List, 0) end),
    receive {spins, Pid} -> ok end,
    Heaps = [sonde:heap(Pid, #{suspend => true}) || _ <- lists:seq(1, 20)],
    [] = [H || H <- Heaps, not is_map(H)],
    [] = [H || #{reachable := Reachable} = H <- Heaps, Reachable < 2000 * 8],
    [] = [H || H <- Heaps, not adds_up(H)],
    true = unlink(Pid),
    exit(Pid, kill),
    ok.

spin(List, N) -> spin(List, N + 1).

%% ---- the answer

kinds_are_named(_Config) ->
    Y = rand:uniform(10),
    Pid = sonde_test:hold(
            fun() ->
                    [[fun(A) -> A + Y + N end, fun lists:map/N, N * 1.5, make_ref(), 1 bsl (64 + N),
                      #{a => N}, list_to_tuple(lists:seq(1, 100 + N)), binary:copy(<<N>>, 10),
                      binary:copy(<<N>>, 100)]
                     || N <- lists:seq(1, 3)]
            end),
    #{histogram := Bars} = sonde:heap(Pid),
    Counts = maps:from_list([{Kind, Count} || {Kind, Count, _} <- Bars]),
    [{'-kinds_are_named/1-fun-1-', 3}] =
        [{Name, Count} || {{'fun', ?MODULE, Name, 1}, Count} <- maps:to_list(Counts)],
    %% from OTP 26 on these are literals
    Exports = [{Arity, Count} || {{'fun', lists, map, Arity}, Count} <- maps:to_list(Counts)],
    true = lists:member(lists:sort(Exports), [[{1, 1}, {2, 1}, {3, 1}]
                                              | [[] || list_to_integer(
                                                         erlang:system_info(otp_release)) > 25]]),
    #{float := 3, ref := 3, bignum := 3,
      {tuple, 101} := 1, {tuple, 102} := 1, {tuple, 103} := 1, heap_binary := 3, refc_binary := 3}
        = Counts,
    #{binaries := #{visible := 300, live := 300, garbage := 0, pinned := 300}} = sonde:heap(Pid),
    ok = sonde_test:stop(Pid).

%% Bytes of binaries: what a collection would keep, what it would free, and what is held for a slice
%% or by a message that waits.
binaries_by_who_holds_them(_Config) ->
    Pid = sonde_test:hold(fun() ->
                                  Kept = binary:copy(<<1>>, 1000),
                                  Slice = binary:part(binary:copy(<<2>>, 100000), 10, 100),
                                  _ = [binary:copy(<<3>>, 5000) || _ <- lists:seq(1, 3)],
                                  {Kept, Kept, Slice}
                          end, [{min_heap_size, 10000}]),
    #{binaries := #{live := 101000, garbage := 15000, pinned := 101000, visible := Seen}} =
        sonde:heap(Pid),
    true = Seen =:= 1100 orelse Seen =:= 2100,
    _ = [Pid ! binary:copy(<<N>>, 2000) || N <- lists:seq(1, 5)],
    ok = sonde_test:settle(Pid),
    #{binaries := #{garbage := 15000, pinned := 111000, live := Live}} = sonde:heap(Pid),
    true = Live =:= 101000 orelse Live =:= 111000,
    true = erlang:garbage_collect(Pid),
    #{binaries := #{garbage := 0, pinned := 111000, live := 111000}} = sonde:heap(Pid),
    ok = sonde_test:stop(Pid).

%% Each literal has one reference.
literals_are_leaves(_Config) ->
    Count = fun(Fun) ->
                    Pid = sonde_test:hold(Fun),
                    #{literals := Bytes, reachable := Reachable} = sonde:heap(Pid),
                    ok = sonde_test:stop(Pid),
                    {Bytes, Reachable}
            end,
    {None, _} = Count(fun() -> [self()] end),
    {One, Reachable} = Count(fun() -> [literal() || _ <- lists:seq(1, 10)] end),
    Reachable = 10 * 2 * ?WORDS,
    {5, _} = {(One - None) div ?WORDS, literal()},
    %% each once, however many there are and in whatever order
    Many = many_literals(),
    {All, AllReachable} = Count(fun() -> [Tuple || _ <- lists:seq(1, 10), Tuple <- Many ++ lists:reverse(Many)] end),
    AllReachable = 20 * length(Many) * 2 * ?WORDS,
    {120, 40} = {(All - None) div ?WORDS, length(Many)},
    ok.

%% All of this is one literal; the tuples are parts of it.
many_literals() ->
    [{1, a}, {2, a}, {3, a}, {4, a}, {5, a}, {6, a}, {7, a}, {8, a}, {9, a}, {10, a},
     {11, a}, {12, a}, {13, a}, {14, a}, {15, a}, {16, a}, {17, a}, {18, a}, {19, a}, {20, a},
     {21, a}, {22, a}, {23, a}, {24, a}, {25, a}, {26, a}, {27, a}, {28, a}, {29, a}, {30, a},
     {31, a}, {32, a}, {33, a}, {34, a}, {35, a}, {36, a}, {37, a}, {38, a}, {39, a}, {40, a}].

literal() -> {a, [literal, "of", {many, parts}], 1.5, "x"}.

%% The process receives no signal, and its caller no message.
who_is_looked_at_does_not_run(_Config) ->
    Pid = sonde_test:hold(fun() -> lists:seq(1, 100000) end),
    Look = fun() -> process_info(Pid, [reductions, garbage_collection, status]) end,
    Before = Look(),
    _ = [#{} = sonde:heap(Pid) || _ <- lists:seq(1, 100)],
    Before = Look(),
    [] = sonde_test:mailbox(),
    ok = sonde_test:stop(Pid).

own_heap(_Config) ->
    Kept = lists:seq(1, 50000),
    #{roots := #{stack := Stack}} = Heap = sonde:heap(self()),
    true = Stack >= length(Kept) * 2 * ?WORDS,
    true = adds_up(Heap),
    [] = sonde_test:mailbox().

held_while_it_is_walked(_Config) ->
    List = lists:seq(1, 10000),
    [Pid] = sonde_test:churn(1, fun() -> [X + 1 || X <- List] end),
    #{suspended_ms := Ms} = Heap = sonde:heap(Pid, #{suspend => true}),
    true = is_integer(Ms) andalso Ms >= 0 andalso adds_up(Heap),
    {status, Status} = process_info(Pid, status),
    true = Status =/= suspended,
    ok = sonde_test:stop(Pid).

resumed_when_the_caller_dies(_Config) ->
    Pid = sonde_test:hold(fun() -> lists:seq(1, 5000000) end),
    Becomes = fun(Status) ->
                      sonde_test:until(Status, fun() -> process_info(Pid, status)
                                                            =:= {status, Status} end)
              end,
    _ = [begin
             Callers = sonde_test:churn(1, fun() -> sonde:heap(Pid, #{suspend => true}) end),
             ok = Becomes(suspended),
             ok = sonde_test:stop(Callers),
             ok = Becomes(waiting)
         end || _ <- lists:seq(1, 5)],
    ok = sonde_test:stop(Pid).

%% A process in a dirty call cannot be suspended yet: that wait counts against the timeout, too.
no_longer_suspended_than_it_may(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    {Pid, _} = Blocked = sonde_test:block(Dir),
    Opts = #{suspend => true, timeout => 50},
    {error, timeout} = sonde:heap(Pid, Opts),
    {error, timeout} = sonde_heap:dump(Pid, filename:join(Dir, "suspended"), Opts),
    ok = sonde_test:unblock(Blocked),
    ok = sonde_test:until(waits, fun() -> process_info(Pid, status) =:= {status, waiting} end),
    [] = sonde_test:mailbox(),
    ok = sonde_test:stop(Pid).

limits_of_any_size(_Config) ->
    Much = #{max_words => 1 bsl 70, timeout => 1 bsl 70},
    Pid = sonde_test:hold(fun() -> lists:seq(1, 100) end),
    #{} = sonde:heap(Pid, Much),
    [_] = sonde:heap_top(Pid, 1, Much),
    [] = sonde:bin_slices(Pid, Much),
    #{messages := 0} = sonde:mailbox(Pid, 1, Much#{sample => 1 bsl 70}),
    true = sonde:flat_size(Pid, all, Much) >= 200,
    true = sonde:flat_size(lists:seq(1, 100000), maps:remove(timeout, Much)) =:= 200000,
    {[_], _} = sonde:proc_count(garbage_bytes, 1, Much#{report => true}),
    ok = sonde_test:stop(Pid).

%% No machine walks 128 MB within the slice that even a timeout of 0 allows.
limits_are_said(_Config) ->
    Pid = sonde_test:hold(fun() -> lists:seq(1, 8000000) end),
    {error, {heap_too_large, Words, 1000}} = sonde:heap(Pid, #{max_words => 1000}),
    true = Words >= 16000000,
    {error, timeout} = sonde:heap(Pid, #{timeout => 0}),
    #{} = sonde:heap(Pid, #{max_words => Words}),
    ok = sonde_test:stop(Pid),
    undefined = sonde:heap(Pid),
    undefined = sonde:heap(Pid, #{suspend => true}).

%% In a long call on a dirty scheduler, nobody knows what a process does with its heap.
busy_is_said(Config) ->
    {Pid, _} = Blocked = sonde_test:block(proplists:get_value(priv_dir, Config)),
    {error, busy} = sonde:heap(Pid),
    {error, timeout} = sonde:heap(Pid, #{timeout => 20}),
    ok = sonde_test:unblock(Blocked),
    ok = sonde_test:settle(Pid),
    #{} = sonde:heap(Pid),
    ok = sonde_test:stop(Pid).

%% A line is drawn only if the walk takes long enough: no machine walks a gigabyte before the first line is due.
progress_is_drawn(_Config) ->
    true = lists:any(fun is_drawn/1, [5000000, 20000000, 80000000]).

is_drawn(Length) ->
    Pid = sonde_test:hold(fun() -> lists:seq(1, Length) end),
    Shown = "^(\\r\\d+ of \\d{8,9} words, \\d+%\\e\\[K)+\\r\\e\\[K$",
    Text = on_terminal(fun() -> none end, fun() -> sonde:heap(Pid, #{progress => true}) end),
    ok = sonde_test:stop(Pid),
    case Text of
        <<>> -> false;
        _ -> {match, _} = re:run(Text, Shown), true
    end.

%% Nothing waits for the line: even the terminal itself may be held and read.
progress_on_what_is_held(_Config) ->
    Held = fun() ->
                   #{suspended_ms := _} =
                       sonde:heap(group_leader(), #{progress => true, suspend => true})
           end,
    Text = on_terminal(fun() -> lists:seq(1, 10000000) end, Held),
    {match, _} = re:run(Text, "^(\\r\\d+ of \\d+ words, \\d+%\\e\\[K)*(\\r\\e\\[K)?$"),
    [] = sonde_test:mailbox().

%% What Call writes to a terminal: a process that also keeps what Make returns.
on_terminal(Make, Call) ->
    Out = spawn_link(fun() -> _ = put(kept, Make()), terminal([]) end),
    ok = sonde_test:settle(Out),
    Old = group_leader(),
    true = group_leader(Out, self()),
    #{} = try Call() after group_leader(Old, self()) end,
    Out ! {text, self()},
    receive {Out, Written} -> Written end.

terminal(Text) ->
    receive
        {io_request, From, Ref, {put_chars, _, Chars}} ->
            From ! {io_reply, Ref, ok},
            terminal([Text, Chars]);
        {io_request, From, Ref, {put_chars, _, M, F, A}} ->
            From ! {io_reply, Ref, ok},
            terminal([Text, apply(M, F, A)]);
        {text, From} ->
            From ! {self(), iolist_to_binary(Text)}
    end.

nonsense_is_badarg(_Config) ->
    {Dead, _} = sonde_test:in_process(fun() -> ok end),
    Other = sonde_terms_helper:value(foreign_pid, 1),
    _ = [{Args, badarg} = {Args, sonde_test:raised(fun() -> apply(sonde, heap, Args) end)}
         || Args <- [[x], [Other], [self(), []], [self(), #{x => 1}], [self(), #{suspend => 1}],
                     [self(), #{max_words => -1}], [self(), #{timeout => infinity}],
                     [self(), #{progress => yes}], [Dead, #{timeout => 1.0}]]],
    ok.

%% Five million words in a list and in a deep term: marks and stack take less than a twentieth.
large_heap(_Config) ->
    Deep = fun() -> lists:foldl(fun(I, Acc) -> {Acc, [I]} end, [], lists:seq(1, 1000000)) end,
    _ = [begin
             Pid = sonde_test:hold(Build),
             {Reached, Words, Bytes} =
                 sonde_look:run(Pid, {mark, [], 0, 0}, options(),
                                fun(Look) ->
                                        {#{roots := Roots, words := W, bytes := B}, _, []} =
                                            sonde_nif:look_heap(Look),
                                        {lists:sum(tuple_to_list(Roots)), W, B}
                                end),
             {_, true} = {{Bytes, Words}, Bytes < Words * 8 div 20},
             Reached = kept(Pid),
             ok = sonde_test:stop(Pid)
         end || Build <- [fun() -> lists:seq(1, 2500000) end, Deep]],
    ok.

options() ->
    sonde_opts:read(#{}, sonde_look:options(#{})).

%% Runs only without the native path.
off_is_said(_Config) ->
    {error, {native_off, disabled}} = sonde:heap(self()),
    {error, {native_off, disabled}} = sonde:heap(spawn(fun() -> ok end), #{suspend => true}).
