%% What a collection would free, and which binary bytes are held in vain. The values equal what a
%% collection by hand frees, and what a model of the slices predicts; no process is collected,
%% disturbed, or shown as 0.
-module(waste_SUITE).

-include_lib("proper/include/proper.hrl").

-compile([export_all, nowarn_export_all]).

-define(HEAP, [garbage_bytes, bin_garbage, bin_garbage_bytes, bin_waste]).
-define(ALL, 1000000).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [garbage_is_what_a_collection_frees, slices_are_those_of_a_model,
     nothing_is_collected, hibernated_have_none, what_waits_is_not_garbage, what_waits_is_seen,
     small_slices_become_binaries, writable_binaries_count,
     bytes_only_where_nobody_else_refers, rows_of_garbage, caller_is_in_garbage, caller_has_a_row,
     waste_is_unseen_bytes, worst_come_first, waste_of_many_slices,
     slices_are_sorted, slices_of_oneself, no_binaries_no_slices,
     what_may_wait_is_missed, too_large_is_left_out, restless_is_left_out_or_right, time_is_up, together_with_others,
     others_have_a_report_too, all_rows_of_all, dead_have_no_row].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% ---- against the collector

garbage_is_what_a_collection_frees(_Config) ->
    check(prop_collection(), 150).

check(Property, Times) ->
    proper:quickcheck(Property, [quiet, {numtests, Times}, {max_size, 30}, {max_shrinks, 100}])
        orelse ct:fail({counterexample, proper:counterexample()}).

%% Up to OTP 26 a collection turns small slices into heap binaries, which are smaller: see
%% small_slices_become_binaries.
prop_collection() ->
    ?FORALL({Steps, Where}, {list(step()), oneof([on_heap, off_heap])},
            begin
                {Pid, Dropped} = made(Steps, Where),
                {Counted, Bytes, Told} = compared(Pid),
                sonde_test:stop(Pid),
                Small = has_heap_slices() andalso lists:keymember(small_slices, 1, Steps),
                Gone = Dropped + lists:sum([N || {small_slices, N} <- Steps]),
                Unlisted = case is_listed() of true -> 0; false -> Gone end,
                ?WHENFAIL(ct:pal("~p ~p~n~p, unlisted ~p", [Steps, Where, Told, Unlisted]),
                          Counted(Unlisted) andalso (Small orelse Bytes))
            end).

%% Compares the values before and after a collection by hand, from sonde and from process_info.
compared(Pid) ->
    Listed = length(info(binary, Pid)),
    ok = sonde_test:settle(Pid),
    Used = used(Pid),
    [Garbage, Entries] = [value(Pid, Attr) || Attr <- [garbage_bytes, bin_garbage]],
    Used = used(Pid),
    true = garbage_collect(Pid),
    Freed = Used - used(Pid),
    After = length(info(binary, Pid)),
    {fun(Unlisted) -> Entries =:= Listed - After + Unlisted end, Garbage =:= Freed,
     [{garbage, Garbage}, {freed, Freed}, {entries, Entries}, {listed, Listed, After}]}.

%% Bytes on heap, old heap and fragments.
used(Pid) ->
    Info = info(garbage_collection_info, Pid),
    8 * lists:sum([proplists:get_value(Key, Info) || Key <- [heap_size, old_heap_size, mbuf_size]]).

info(Item, Pid) ->
    {Item, Value} = process_info(Pid, Item),
    Value.

value(Pid, Attr) ->
    {Rows, #{left_out := 0}} = sonde:proc_count(Attr, ?ALL, #{report => true}),
    {Pid, Value, _} = lists:keyfind(Pid, 1, Rows),
    Value.

%% Before OTP 25.3, with erts 13.2, process_info does not list binaries that are being appended to.
is_listed() ->
    [list_to_integer(Number) || Number <- string:lexemes(erlang:system_info(version), ".")] >= [13, 2].

%% On these releases a collection turns slices of at most 24 bytes into heap binaries.
has_heap_slices() -> erlang:system_info(otp_release) < "27".

%% Makes a process that does these steps, keeps some of the results, and waits; returns also how
%% many writable binaries it dropped. It collects only on request, and not once it has writable
%% binaries, so that their place is known.
made(Steps, Where) ->
    Parent = self(),
    {Before, After} = lists:partition(fun({collect, _}) -> true; (_) -> false end,
                                      [S || S <- Steps, not makes_writable(S)]),
    Early = lists:sublist(After, length(Before)),
    Order = lists:append([[A, B]
                          || {A, B} <- lists:zip(Early, lists:sublist(Before, length(Early)))])
        ++ lists:nthtail(length(Early), After) ++ lists:filter(fun makes_writable/1, Steps),
    Drop = [S || {drop, _} = S <- Steps],
    Pid = spawn_opt(fun() ->
                            Kept = lists:foldl(fun step/2, [], Order ++ Drop),
                            Parent ! {built, self(), writable(Order) - writable(Kept)},
                            sonde_test:park(Kept)
                    end, [{message_queue_data, Where}, {min_heap_size, 300000},
                          {min_bin_vheap_size, 10000000}]),
    Writable = receive {built, Pid, Dropped} -> Dropped end,
    ok = sonde_test:settle(Pid),
    {Pid, Writable}.

makes_writable(Step) -> lists:member(element(1, Step), [appended, small_slices]).

writable(Things) -> length([T || T <- Things, is_tuple(T), element(1, T) =:= appended]).

step() ->
    N = range(1, 20),
    oneof([{binaries, N, range(65, 3000)}, {shared, N}, {slices, N, range(65, 500)},
           {small_slices, N}, {appended, N}, {matched, N}, {in_tuples, N}, {in_maps, range(1, 60)},
           {funs, N}, {words, range(1, 500)}, {dictionary, N}, {erase, N}, {floats, N},
           {read_mail, N}, {drop, range(1, 5)}, {drop_all}, {collect, minor}, {collect, major}]).

step({binaries, N, Size}, Kept) -> [[binary:copy(<<I>>, Size) || I <- lists:seq(1, N)] | Kept];
step({shared, N}, Kept) -> [lists:duplicate(N, binary:copy(<<1>>, 1000)) | Kept];
step({slices, N, Size}, Kept) -> [slices(N, Size) | Kept];
step({small_slices, N}, Kept) -> [small_slices(N, N) | Kept];
step({appended, N}, Kept) -> [{appended, append(<<>>, N)} | Kept];
step({matched, N}, Kept) ->
    <<_:N/binary, Rest/binary>> = binary:copy(<<2>>, 500),
    [Rest | Kept];
step({in_tuples, N}, Kept) -> [{I, binary:copy(<<I>>, 100)} || I <- lists:seq(1, N)] ++ Kept;
step({in_maps, N}, Kept) ->
    [maps:from_list([{I, binary:copy(<<I>>, 70)} || I <- lists:seq(1, N)]) | Kept];
step({funs, N}, Kept) ->
    Held = binary:copy(<<N>>, 100),
    [fun() -> {Held, N} end | Kept];
step({words, N}, Kept) -> [lists:seq(1, N) | Kept];
step({floats, N}, Kept) -> [[I / 3 || I <- lists:seq(1, N)] | Kept];
step({dictionary, N}, Kept) -> _ = [put(I, binary:copy(<<I>>, 80)) || I <- lists:seq(1, N)], Kept;
step({erase, N}, Kept) -> _ = [erase(I) || I <- lists:seq(1, N)], Kept;
step({read_mail, N}, Kept) ->
    _ = [self() ! {mail, I, binary:copy(<<I>>, 90), [I]} || I <- lists:seq(1, N)],
    [[receive {mail, I, Bin, _} -> Bin end || I <- lists:seq(1, N)] | Kept];
step({drop, I}, Kept) when I =< length(Kept) -> lists:delete(lists:nth(I, Kept), Kept);
step({drop, _}, Kept) -> Kept;
step({drop_all}, _Kept) -> [];
step({collect, Type}, Kept) -> true = garbage_collect(self(), [{type, Type}]), Kept.

append(Bin, 0) -> Bin;
append(Bin, N) -> append(<<Bin/binary, N:256>>, N - 1).

slices(N, Size) ->
    Whole = binary:copy(<<1>>, 1000),
    [binary:part(Whole, I, Size) || I <- lists:seq(1, N)].

%% These are parts of a binary that was appended to: other parts of at most 64 bytes are heap
%% binaries from the start.
small_slices(N, Size) ->
    [begin
         Part = more(<<>>, Size),
         true = byte_size(more(Part, 1)) > Size,
         Part
     end || _ <- lists:seq(1, N)].

more(Bin, Size) -> <<Bin/binary, 1:Size/unit:8>>.

nothing_is_collected(_Config) ->
    Pid = garbage(500),
    Before = process_info(Pid, [binary, garbage_collection_info]),
    [{Pid, 500, _}] = sonde_test:rows_of([Pid], sonde:bin_garbage(30)),
    [{Pid, 500, _}] = sonde_test:rows_of([Pid], sonde:bin_garbage(30)),
    Before = process_info(Pid, [binary, garbage_collection_info]),
    sonde_test:stop(Pid).

%% Hibernation has already collected.
hibernated_have_none(_Config) ->
    Pid = spawn(fun() -> Kept = garbage_and(300, [binary:copy(<<1>>, 100)]),
                         erlang:hibernate(sonde_test, park, [Kept]) end),
    ok = sonde_test:until(hibernated, fun() -> info(current_function, Pid)
                                                   =:= {erlang, hibernate, 3} end),
    ok = sonde_test:settle(Pid),
    [0, 0, 0, 0] = [value(Pid, Attr) || Attr <- ?HEAP],
    sonde_test:stop(Pid).

%% A collection drops the garbage and, if messages lie on the heap, takes in the waiting ones. This
%% is the documented difference to what process_info shows afterwards.
what_waits_is_not_garbage(_Config) ->
    _ = [what_waits(Where, Gained) || {Where, Gained} <- [{on_heap, 40}, {off_heap, 0}]].

what_waits(Where, Gained) ->
    Pid = sonde_test:hold(fun() -> garbage_and(60, []) end,
                          [{message_queue_data, Where}, {min_heap_size, 2000},
                           {min_bin_vheap_size, 1000000}]),
    Before = used(Pid),
    %% the messages do not fit on the heap
    true = erlang:suspend_process(Pid),
    _ = [Pid ! {I, binary:copy(<<I>>, 100), lists:seq(1, 3000)} || I <- lists:seq(1, 40)],
    true = erlang:resume_process(Pid),
    ok = sonde_test:settle(Pid),
    [60, 6000] = [value(Pid, Attr) || Attr <- [bin_garbage, bin_garbage_bytes]],
    Garbage = value(Pid, garbage_bytes),
    true = Garbage > 0 andalso Garbage =< Before,
    Listed = length(info(binary, Pid)),
    true = garbage_collect(Pid),
    After = length(info(binary, Pid)),
    {Where, Gained} = {Where, After - (Listed - 60)},
    0 = value(Pid, bin_garbage),
    sonde_test:stop(Pid).

%% This holds even if the process has no other binaries.
what_waits_is_seen(_Config) ->
    _ = [begin
             Pid = sonde_test:hold(fun() -> ok end, [{message_queue_data, Where}]),
             Pid ! {one, binary:part(binary:copy(<<1>>, 5000), 100, 200)},
             ok = sonde_test:settle(Pid),
             {Where, 4800} = {Where, value(Pid, bin_waste)},
             [{_, 5000, _, [{100, 300}]}] = sonde:bin_slices(Pid),
             sonde_test:stop(Pid)
         end || Where <- [on_heap, off_heap]].

%% Up to OTP 26 a collection copies slices of at most 24 bytes: their off-heap entries go, and a
%% heap binary (header, size and bytes) replaces a slice of five words.
small_slices_become_binaries(_Config) ->
    N = 30,
    _ = [begin
             Pid = sonde_test:hold(fun() -> small_slices(N, Size) end,
                                   [{min_heap_size, 100000}, {min_bin_vheap_size, 1000000}]),
             Used = used(Pid),
             [Garbage, Entries] = [value(Pid, Attr) || Attr <- [garbage_bytes, bin_garbage]],
             true = garbage_collect(Pid),
             {Smaller, Goes} = case has_heap_slices() andalso Size =< 24 of
                                   true -> {N * 8 * (5 - 2 - (Size + 7) div 8), N};
                                   false -> {0, 0}
                               end,
             {Size, Goes, Smaller} = {Size, Entries, Used - used(Pid) - Garbage},
             sonde_test:stop(Pid)
         end || Size <- [1, 8, 9, 24, 25, 64]].

%% Dropped ones count, even on OTP 25, where process_info never lists them.
writable_binaries_count(_Config) ->
    Pid = sonde_test:hold(fun() -> Kept = [append(<<>>, I) || I <- lists:seq(1, 20)],
                                   lists:nthtail(15, Kept) end,
                          [{min_heap_size, 100000}, {min_bin_vheap_size, 1000000}]),
    15 = value(Pid, bin_garbage),
    true = value(Pid, bin_garbage_bytes) >= lists:sum([32 * I || I <- lists:seq(1, 15)]),
    true = garbage_collect(Pid),
    0 = value(Pid, bin_garbage),
    sonde_test:stop(Pid).

bytes_only_where_nobody_else_refers(_Config) ->
    Mine = binary:copy(<<1>>, 5000),
    Opts = [{min_heap_size, 100000}, {min_bin_vheap_size, 1000000}],
    Pid = sonde_test:hold(fun() ->
                                  Keep = binary:copy(<<2>>, 3000),
                                  Twice = binary:copy(<<3>>, 700),
                                  _ = [receive B -> byte_size(B) end
                                       || _ <- [self() ! Keep, self() ! Twice, self() ! Mine]],
                                  Keep
                          end, Opts),
    %% of the kept one an entry may be garbage, of the one sent twice all are; we keep one of ours
    700 = value(Pid, bin_garbage_bytes),
    true = value(Pid, bin_garbage) >= 2,
    5000 = byte_size(Mine),
    sonde_test:stop(Pid).

%% ---- rows

rows_of_garbage(_Config) ->
    A = garbage(400),
    [B, C] = lists:sort([garbage(3000) || _ <- [1, 2]]), % pids are not given in order
    Pids = [A, B, C],
    Clean = sonde_test:hold(fun() -> [binary:copy(<<1>>, 100)] end),
    [{C, 3000, Attrs}, {B, 3000, Attrs}, {A, 400, Attrs}] =
        sonde_test:rows_of(Pids, sonde:bin_garbage(30)),
    [{current_function, {sonde_test, park, 1}}, {initial_call, {erlang, apply, 2}}] = Attrs,
    [{C, 300000, Attrs}, {B, 300000, Attrs}, {A, 40000, Attrs}] =
        sonde_test:rows_of(Pids, sonde:bin_garbage(30, bytes)),
    [{C, 3000, Attrs}] = sonde:bin_garbage(1),
    [{C, 3000, Attrs}, {B, 3000, Attrs}] = sonde:bin_garbage(2, count),
    Rows = sonde:bin_garbage(?ALL),
    false = lists:keymember(Clean, 1, Rows),
    [] = [Row || {_, Value, _} = Row <- Rows, Value =< 0],
    Rows = lists:reverse(lists:sort(fun({P, V, _}, {Q, W, _}) -> {V, P} =< {W, Q} end, Rows)),
    sonde_test:stop([Clean | Pids]).

caller_is_in_garbage(_Config) ->
    {Caller, Rows} = in_process(fun() -> ok = garbage_and(900, ok), sonde:bin_garbage(30) end),
    [{Caller, 900, _}] = sonde_test:rows_of([Caller], Rows).

caller_has_a_row(_Config) ->
    %% with its row first: the rows of all processes may make it collect
    {Pid, {With, Without}} =
        in_process(fun() -> ok = garbage_and(900, ok),
                            Own = sonde:proc_count(bin_garbage, ?ALL, #{self => true}),
                            {Own, sonde:proc_count(bin_garbage, ?ALL)} end),
    [] = sonde_test:rows_of([Pid], Without),
    [{Pid, 900, _}] = sonde_test:rows_of([Pid], With).

%% ---- slices

slices_are_those_of_a_model(_Config) ->
    check(prop_slices(), 60).

prop_slices() ->
    ?FORALL(Parts, non_empty(list({range(165, 3000), list({range(0, 99), range(65, 200)})})),
            begin
                Pid = sonde_test:hold(fun() -> [cut(Part) || Part <- Parts] end),
                Expected = lists:sort([{Size, lists:sort([ends(P, Size) || P <- Of])}
                                       || {Size, Of} <- Parts, Of =/= []]),
                Slices = sonde:bin_slices(Pid),
                [{_, Waste, _}] = sonde_test:rows_of([Pid], sonde:proc_count(bin_waste, ?ALL)),
                Listed = info(binary, Pid),
                sonde_test:stop(Pid),
                ?WHENFAIL(ct:pal("~p~n~p~n~p", [Parts, Slices, Waste]),
                          Expected =:= lists:sort([{Size, Of} || {_, Size, 1, Of} <- Slices])
                          andalso Slices =:= lists:sort(Slices)
                          andalso lists:all(fun({Id, Size, _, _}) ->
                                                    lists:keymember(Id, 1, Listed)
                                                        andalso {Id, Size, 1}
                                                                =:= lists:keyfind(Id, 1, Listed)
                                            end, Slices)
                          andalso Waste
                                  =:= lists:sum([Size - covered(Of) || {Size, Of} <- Expected]))
            end).

cut({Size, Parts}) ->
    Whole = binary:copy(<<1>>, Size),
    [binary:part(Whole, From, Length) || P <- Parts, {From, To} <- [ends(P, Size)],
                                         Length <- [To - From]].

ends({From, Length}, Size) ->
    Start = min(From, Size - 65),
    {Start, min(Start + Length, Size)}.

%% The simplest method: counts each byte once.
covered(Slices) ->
    length(lists:usort(lists:append([lists:seq(From, To - 1) || {From, To} <- Slices]))).

waste_is_unseen_bytes(_Config) ->
    Pid = sonde_test:hold(fun() -> cut({1000, [{0, 100}, {50, 100}]}) end),
    850 = value(Pid, bin_waste),
    [{_, 1000, 1, [{0, 100}, {50, 150}]}] = sonde:bin_slices(Pid),
    [{Pid, 850, [{worst, [{150, 1000, 2}]} | Attrs]}] =
        sonde_test:rows_of([Pid], sonde:bin_waste(?ALL)),
    [{current_function, {sonde_test, park, 1}}, {initial_call, {erlang, apply, 2}}] = Attrs,
    sonde_test:stop(Pid).

worst_come_first(_Config) ->
    Sizes = [1000000, 2000000, 3000000, 4000000],
    Pid = sonde_test:hold(fun() -> Whole = binary:copy(<<1>>, 50000000),
                                   {byte_size(Whole), Whole,
                                    [cut({Size, [{10, 80}]}) || Size <- Sizes]} end),
    Waste = lists:sum(Sizes) - 4 * 80,
    [{Pid, Waste, [{worst, Worst} | _]}] = sonde:bin_waste(1),
    [{80, 4000000, 1}, {80, 3000000, 1}, {80, 2000000, 1}] = Worst,
    sonde_test:stop(Pid).

waste_of_many_slices(_Config) ->
    N = 200000,
    Pid = sonde_test:hold(fun() -> Whole = binary:copy(<<1>>, 100 * N),
                                   [binary:part(Whole, 100 * (N - I), 70)
                                    || I <- lists:seq(1, N)] end),
    Waste = 30 * N,
    Waste = value(Pid, bin_waste),
    [{_, Size, 1, Slices}] = sonde:bin_slices(Pid),
    Size = 100 * N,
    Slices = [{100 * I, 100 * I + 70} || I <- lists:seq(0, N - 1)],
    sonde_test:stop(Pid).

slices_are_sorted(_Config) ->
    Pid = sonde_test:hold(fun() -> [cut({1000 + I, [{99, 70}, {10, 80}, {50, 70}, {10, 77}]})
                                    || I <- lists:seq(1, 3000)] end),
    Slices = sonde:bin_slices(Pid),
    3000 = length(Slices),
    Slices = lists:sort(Slices),
    [[{10, 87}, {10, 90}, {50, 120}, {99, 169}]] = lists:usort([Of || {_, _, 1, Of} <- Slices]),
    sonde_test:stop(Pid).

slices_of_oneself(_Config) ->
    {_, {Kept, Slices}} = in_process(fun() -> Kept = cut({2000, [{5, 70}]}),
                                              {Kept, sonde:bin_slices(self())} end),
    [{_, 2000, _, [{5, 75}]}] = [S || {_, 2000, _, _} = S <- Slices],
    [70] = [byte_size(Part) || Part <- Kept].

no_binaries_no_slices(_Config) ->
    Pid = sonde_test:hold(fun() -> lists:seq(1, 1000) end),
    [] = sonde:bin_slices(Pid),
    [0, 0, 0] = [value(Pid, Attr) || Attr <- [bin_garbage, bin_garbage_bytes, bin_waste]],
    sonde_test:stop(Pid).

%% ---- which processes are left out

too_large_is_left_out(_Config) ->
    Large = sonde_test:hold(fun() -> {lists:seq(1, 300000),
                                      garbage_and(10, [binary:copy(<<1>>, 100)])} end),
    Small = garbage(50),
    _ = [begin
             {Rows, Report} = sonde:proc_count(Attr, ?ALL, #{report => true, max_words => 500000}),
             #{left_out := Left, too_large := Left, busy := 0} = Report,
             {Attr, true} = {Attr, Left >= 1},
             [] = sonde_test:rows_of([Large], Rows),
             [_] = sonde_test:rows_of([Small], Rows),
             [_] = sonde_test:rows_of([Large],
                                      sonde:proc_count(Attr, ?ALL, #{max_words => 100000000}))
         end || Attr <- ?HEAP],
    {error, {heap_too_large, Words, 1000}} = sonde:bin_slices(Large, #{max_words => 1000}),
    true = Words >= 600000,
    sonde_test:stop([Large, Small]).

%% Where messages may wait that only the process itself finds, its waste is not 0, but unknown: in the queue between
%% the two, and in the buffers that an off-heap queue has while many send to it.
what_may_wait_is_missed(_Config) ->
    sonde_peer_helper:with(shipped, fun(Peer) ->
        [{How, [], true} = {How, sonde_test:rows_of([Pid], Rows), lists:member({Pid, busy}, Missed)}
         || How <- [one_queue, buffers],
            {Pid, {Rows, #{missed := #{pids := Missed}}}} <-
                [sonde_peer_helper:call(Peer, ?MODULE, suspended_with_slices, [How])]]
    end),
    ok.

suspended_with_slices(How) ->
    Self = self(),
    _ = erts_debug:set_internal_state(available_internal_state, true),
    Pid = spawn_opt(fun() ->
                            _ = [erts_debug:set_internal_state(proc_sig_buffers, true) || How =:= buffers],
                            Self ! {self(), ready},
                            receive never -> ok end
                    end, [{message_queue_data, off_heap}]),
    receive {Pid, ready} -> ok end,
    ok = sonde_test:settle(Pid),
    true = erlang:suspend_process(Pid),
    Large = binary:copy(<<1>>, 1000000),
    _ = [Pid ! binary:part(Large, At, 100) || At <- [0, 500]],
    {Pid, sonde:bin_waste(?ALL, #{report => true})}.

%% A process that never stops has no row, or a right one if it was caught waiting for a scheduler.
restless_is_left_out_or_right(_Config) ->
    Pids = sonde_binaries_helper:spinners(3, 100),
    {Rows, #{left_out := Left, too_large := 0, busy := Left}} =
        sonde:proc_count(bin_waste, ?ALL, #{report => true}),
    Ours = sonde_test:rows_of(Pids, Rows),
    true = length(Ours) + Left >= 3,
    [] = [Row || {_, Value, _} = Row <- Ours, Value =/= 0],
    sonde_test:stop(Pids).

time_is_up(_Config) ->
    Pid = garbage(50),
    {[], #{left_out := Left, too_large := 0, busy := 0}} =
        sonde:proc_count(bin_garbage, ?ALL, #{report => true, timeout => 0}),
    true = Left >= 10,
    [] = sonde:proc_count(bin_garbage, ?ALL, #{timeout => 0}),
    sonde_test:stop(Pid).

together_with_others(_Config) ->
    Pid = garbage(3000),
    {[{memory, Memory}, {bin_garbage, [{Pid, 3000, _}]}, {memory, Memory}, {garbage_bytes, [_]}],
     #{left_out := 0, too_large := 0, busy := 0}} =
        sonde:proc_count([memory, bin_garbage, memory, garbage_bytes], 1, #{report => true}),
    [{_, _, _}] = Memory,
    [{bin_garbage, [{Pid, 3000, _}]}, {status, [_]}] = sonde:proc_count([bin_garbage, status], 1),
    sonde_test:stop(Pid).

others_have_a_report_too(_Config) ->
    {[_, _], #{left_out := 0, too_large := 0, busy := 0}} =
        sonde:proc_count(memory, 2, #{report => true}),
    [_, _] = sonde:proc_count(memory, 2, #{max_words => 0, timeout => 0}).

%% Each process has a row or is left out.
all_rows_of_all(_Config) ->
    ok = sonde_test:until(
           same_processes,
           fun() ->
                   Pids = lists:sort(processes()),
                   {Rows, #{left_out := Left}} =
                       sonde:proc_count(garbage_bytes, ?ALL, #{report => true, self => true}),
                   Pids =/= lists:sort(processes())
                       orelse (length(Pids) =:= length(Rows) + Left orelse
                               ct:fail({length(Pids), length(Rows), Left}))
           end).

dead_have_no_row(_Config) ->
    Pid = garbage(100000),
    sonde_test:stop(Pid),
    [] = sonde_test:rows_of([Pid], sonde:bin_garbage(?ALL)),
    undefined = sonde:bin_slices(Pid).

%% ---- helpers

%% A process whose only contents are N dropped binaries of 100 bytes.
garbage(N) ->
    sonde_test:hold(fun() -> garbage_and(N, []) end,
                    [{min_heap_size, 100 + 30 * N}, {min_bin_vheap_size, 10000000}]).

garbage_and(N, Kept) ->
    N = length([binary:copy(<<I>>, 100) || I <- lists:seq(1, N)]),
    Kept.

in_process(Fun) ->
    sonde_test:in_process(Fun, [{min_heap_size, 100000}, {min_bin_vheap_size, 10000000}]).
