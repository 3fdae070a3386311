%% Witnesses in a node under fire: processes whose contents change all the time and are known at
%% every moment, since each change is logged with its time. A value reported for a witness must have
%% been true at some moment during the call.
%%
%% To add a witness, add an attribute in kinds/0 and a clause of start/4. It must log with
%% changing/4 the range of the value (or with any_of/3 its possible values) before each change, and
%% with stable/3 the value after it.
-module(sonde_stress_witness).

-export([log/0, start/1, dead/1, judge/6, judge_window/7, judge_leak/5, judge_garbage/5, late/1]).
-export([stack_words/0, level_words/0]).

-define(SIZE, 100).     % bytes of each binary of a witness
-define(SLICE, 70).     % and of the part of it that some processes see
-define(LEAST, 2000).   % of everything in a witness: more than any other process of the node has
-define(SMALL, 200).
-define(SHARED, 100).   % binaries that two processes have
-define(TURN, 100).     % at most so many come and go before a witness is stable again
-define(MOST, 3 * ?LEAST).
-define(HELD_LEAST, 200). % levels of the held term: more words than ?LEAST

log() -> ets:new(?MODULE, [ordered_set, public, {write_concurrency, true}]).

%% [{Attribute, [The process that is looked at | Its helpers]}]
start(Log) ->
    Idle = idle(?MOST),
    [{idle, Idle} | [{Attr, start(Attr, Log, lists:sublist(shuffle(Idle), 3 * Least), Least)}
                     || {Attr, Least} <- kinds()]].

%% The trees and lists occur in several sizes, because most of what can be misread is in them. In a
%% large one there is much to walk while it changes; a walk through a small one may end before its
%% process stops running.
kinds() ->
    [{Attr, ?LEAST} || Attr <- [dictionary_size, message_queue_len, binary_count, binary_memory,
                                bin_leak, bin_garbage, bin_waste, binary_unique, binary_exclusive,
                                binary_proportional, heap, heap_top, mailbox, flat]]
        ++ [{Attr, Least} || Attr <- [link_count, monitor_count, monitored_by_count],
                             Least <- [?LEAST, ?SMALL, ?SMALL]].

%% A witness that died proves nothing any more.
dead(Witnesses) ->
    [{Attr, died} || {Attr, Pids} <- Witnesses, Pid <- Pids, not is_process_alive(Pid)].

%% ---- the log of what was true

changing(Log, Pid, A, B) -> note(Log, Pid, {min(A, B), max(A, B)}).
stable(Log, Pid, Value) -> note(Log, Pid, {Value, Value}).
any_of(Log, Pid, Values) -> note(Log, Pid, Values).

note(Log, Pid, Truth) ->
    Key = {Pid, now_ns(), erlang:unique_integer([monotonic])},
    true = ets:insert(Log, {Key, Truth}),
    Key.

%% Replaces an entry, with its original time.
correct(Log, Key, Truth) -> true = ets:insert(Log, {Key, Truth}).

now_ns() -> erlang:monotonic_time(nanosecond).

%% The ranges or values that held at some moment from T0 to T1.
truths(Log, Pid, T0, T1) ->
    Start = {Pid, T0, -(1 bsl 70)},
    before(Log, Pid, ets:prev(Log, Start)) ++ between(Log, Pid, T1, ets:next(Log, Start)).

before(Log, Pid, {Pid, _, _} = Key) -> [range(Log, Key)];
before(_, _, _) -> [{0, ?MOST * ?SIZE * 2}].

between(Log, Pid, T1, {Pid, T, _} = Key) when T =< T1 ->
    [range(Log, Key) | between(Log, Pid, T1, ets:next(Log, Key))];
between(_, _, _, _) -> [].

range(Log, Key) -> ets:lookup_element(Log, Key, 2).

%% ---- judgement: {Verdict, [Errors]}

judge(_, _, _, no_value, _, _) ->
    {no_value, []};
judge(Log, Attr, Pid, Value, T0, T1) ->
    Truths = truths(Log, Pid, T0, T1),
    verdict(lists:any(fun(Truth) -> fits(Value, Truth) end, Truths),
            case Value of missing -> no_value; _ -> witnessed end, {Attr, Value, Truths, T1 - T0}).

%% A witness with a small value may rank below other processes.
fits(missing, {Lo, _}) -> Lo < ?LEAST;
fits(Value, {Lo, Hi}) -> is_integer(Value) andalso Lo =< Value andalso Value =< Hi;
fits(Value, Values) -> lists:member(Value, Values).

%% Judges the gain in a window of at least Ms: the first look ended at least Ms before the end of
%% the call, and the second began at least Ms after its start.
judge_window(_, _, _, missing, _, _, _) ->
    {no_value, []};
judge_window(Log, Attr, Pid, Value, T0, T1, Ms) ->
    First = truths(Log, Pid, T0, T1 - Ms * 1000000),
    Second = truths(Log, Pid, T0 + Ms * 1000000, T1),
    verdict(lists:any(fun({Lo1, Hi1}) ->
                              lists:any(fun({Lo2, Hi2}) ->
                                                Lo2 - Hi1 =< Value andalso Value =< Hi2 - Lo1
                                        end, Second)
                      end, First),
            witnessed, {window, Attr, Value, First, Second, T1 - T0}).

%% A still process loses all its garbage, or none if another collected it before.
judge_leak(_, _, missing, _, _) ->
    {no_value, []};
judge_leak(Log, Pid, Value, T0, T1) ->
    case truths(Log, Pid, T0, T1) of
        [{N, N}] ->
            verdict(Value =:= 0 orelse Value =:= -N, witnessed, {bin_leak, Value, N, T1 - T0});
        Moved ->
            Most = lists:max([Hi || {_, Hi} <- Moved]),
            verdict(abs(Value) =< Most, no_value, {bin_leak, Value, Moved, T1 - T0})
    end.

%% Only the owner of the garbage knows whether it was collected earlier, and it finds out when it
%% goes on. So an answer of 0 is judged now, and again at the end.
judge_garbage(Log, Pid, 0, T0, T1) ->
    true = ets:insert(Log, {{late, T1, erlang:unique_integer()}, {Pid, T0}}),
    judge(Log, bin_garbage, Pid, 0, T0, T1);
judge_garbage(Log, Pid, Value, T0, T1) ->
    judge(Log, bin_garbage, Pid, Value, T0, T1).

%% Returns the answers that turned out to be wrong.
late(Log) ->
    lists:append([Wrong || [T1, Pid, T0] <- ets:match(Log, {{late, '$1', '_'}, {'$2', '$3'}}),
                           {_, Wrong} <- [judge(Log, bin_garbage, Pid, 0, T0, T1)]]).

verdict(true, Verdict, _) -> {Verdict, []};
verdict(false, _, Wrong) -> {untrue, [Wrong]}.

%% ---- the witnesses

witness(Fun) -> witness(Fun, []).

witness(Fun, Opts) -> spawn_opt(Fun, Opts).

some() -> some(?LEAST).

some(Least) -> Least + rand:uniform(Least).

%% It comes right before each change and lasts as long as a scan: a scan then meets the change.
rest() ->
    receive never -> ok after rand:uniform(3) - 1 -> ok end.

start(dictionary_size, Log, _, _) ->
    [witness(fun() -> keys(Log, 0) end)];
start(message_queue_len, Log, _, _) ->
    Reader = witness(fun read_all/0, [{message_queue_data, one_of([on_heap, off_heap])}]),
    [Reader, witness(fun() -> mail(Log, Reader) end)];
start(binary_count, Log, _, _) ->
    [witness(fun() -> binaries(Log, 1, [], 0) end)];
start(binary_memory, Log, _, _) ->
    [witness(fun() -> binaries(Log, ?SIZE, [], 0) end)];
start(binary_unique, Log, _, _) ->
    owner(Log, ?SHARED * ?SIZE);
start(binary_exclusive, Log, _, _) ->
    owner(Log, 0);
start(binary_proportional, Log, _, _) ->
    Poster = witness(fun() -> posts(Log, 0) end, [{message_queue_data, off_heap}]),
    [Poster, witness(fun() -> collects(Poster) end)];
start(bin_waste, Log, _, _) ->
    [witness(fun() -> waste(Log, [], 0) end)];
start(bin_leak, Log, _, _) ->
    [witness(fun() -> leak(Log) end, uncollected())];
start(bin_garbage, Log, _, _) ->
    [witness(fun() -> garbage(Log, 0) end, uncollected())];
start(heap, Log, _, _) ->
    [witness(fun() -> heap(Log, {once, ?LEAST, 3}, 0, pairs(15 * ?LEAST)) end)];
start(heap_top, Log, _, _) ->
    [witness(fun() -> heap(Log, {once, ?SMALL, 20}, 0, pairs(stack_pairs())) end)];
start(flat, Log, _, _) ->
    [witness(fun() -> heap(Log, {twice, ?LEAST, 10}, 0, []) end)];
start(mailbox, Log, _, _) ->
    Reader = witness(fun read_any/0, [{message_queue_data, one_of([on_heap, off_heap])}]),
    [Reader, witness(fun() -> mail_turns(Log, Reader, 0, some()) end)];
start(link_count, Log, Idle, Least) ->
    {First, Rest} = lists:split(some(Least), Idle),
    [witness(fun() -> _ = [link(P) || P <- First],
                      exchanges(Log, First, Rest, fun(P) -> true = link(P), P end,
                                fun(P) -> true = unlink(P), P end)
             end)];
start(monitor_count, Log, Idle, Least) ->
    [witness(fun() ->
                     {First, Rest} = lists:split(some(Least), Idle),
                     exchanges(Log, [{monitor(process, P), P} || P <- First], Rest,
                               fun(P) -> {monitor(process, P), P} end,
                               fun({Ref, P}) -> true = demonitor(Ref, [flush]), P end)
             end)];
start(monitored_by_count, Log, _, Least) ->
    Seen = witness(fun answer/0),
    [Seen, witness(fun() -> watch(Log, Seen, some(Least), []) end)].

%% Only requested collections take place.
uncollected() -> [{min_heap_size, 200000}, {min_bin_vheap_size, 10000000}].

one_of(List) -> lists:nth(rand:uniform(length(List)), List).

idle(N) -> [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, N)].

%% One key belongs to the random numbers.
keys(Log, Had) ->
    N = some(),
    rest(),
    changing(Log, self(), Had + 1, N + 1),
    _ = [put(K, K) || Had < N, K <- lists:seq(Had + 1, N)],
    _ = [erase(K) || N < Had, K <- lists:seq(N + 1, Had)],
    N = length(get()) - 1,
    stable(Log, self(), N + 1),
    keys(Log, N).

%% Some entries come and as many go, one at a time: a walk through the tree meanwhile sees some
%% twice, or not at all. The oldest go first.
exchanges(Log, In, Out, Come, Go) ->
    N = length(In),
    {Going, Stay} = lists:split(rand:uniform(?TURN), In),
    {Coming, Wait} = lists:split(length(Going), Out),
    stable(Log, self(), N),
    rest(),
    changing(Log, self(), N, N + 1),
    {Came, Gone} = lists:unzip([{Come(C), Go(G)} || {C, G} <- lists:zip(Coming, Going)]),
    exchanges(Log, Stay ++ Came, Wait ++ Gone, Come, Go).

shuffle(List) ->
    [X || {_, X} <- lists:sort([{rand:uniform(), X} || X <- List])].

%% One process monitors another many times. Signals between two processes arrive in the order of
%% sending, so an answer means that all monitors have arrived.
watch(Log, Seen, N, []) ->
    changing(Log, Seen, 0, N),
    Refs = [monitor(process, Seen) || _ <- lists:seq(1, N)],
    answered(Seen),
    watch(Log, Seen, N, Refs);
watch(Log, Seen, N, Refs) ->
    {Going, Stay} = lists:split(rand:uniform(?TURN), Refs),
    stable(Log, Seen, N),
    rest(),
    changing(Log, Seen, N, N + 1),
    Came = [begin
                Come = monitor(process, Seen),
                true = demonitor(Go, [flush]),
                Come
            end || Go <- Going],
    answered(Seen),
    watch(Log, Seen, N, Stay ++ Came).

answered(Seen) ->
    Ref = make_ref(),
    Seen ! {are_you_there, Ref, self()},
    receive {yes, Ref} -> ok end.

answer() ->
    receive {are_you_there, Ref, From} -> From ! {yes, Ref} end,
    answer().

%% The reader sleeps while it is written to: except while it reads, only the writer changes the
%% length.
mail(Log, Reader) ->
    N = some(),
    changing(Log, Reader, 0, N),
    _ = [Reader ! {mail, I} || I <- lists:seq(1, N)],
    stable(Log, Reader, N),
    rest(),
    changing(Log, Reader, 0, N + 1),
    Reader ! {read, N, self()},
    receive {Reader, done} -> ok end,
    mail(Log, Reader).

read_all() ->
    receive
        {read, N, From} ->
            _ = [receive {mail, _} -> ok end || _ <- lists:seq(1, N)],
            From ! {self(), done},
            read_all()
    end.

%% As many messages of each shape in turn, all of the same size: the mailbox always holds one
%% contiguous piece of the sequence, whichever process reads it.
mail_turns(Log, Reader, Had, Most) when Had < Most ->
    N = 3 * rand:uniform(?TURN),
    changing(Log, Reader, Had, Had + N),
    _ = [Reader ! letter(I rem 3, I) || I <- lists:seq(0, N - 1)],
    stable(Log, Reader, Had + N),
    receive never -> ok after chance(20) -> ok end,
    mail_turns(Log, Reader, Had + N, Most);
mail_turns(Log, Reader, Had, _) ->
    changing(Log, Reader, 0, Had + 1),
    Reader ! {read, self()},
    receive {Reader, done} -> ok end,
    stable(Log, Reader, 0),
    receive never -> ok after chance(20) -> ok end,
    mail_turns(Log, Reader, 0, some()).

letter(0, I) -> {mail, I};
letter(1, I) -> {I, mail};
letter(2, I) -> {post, I}.

read_any() ->
    receive
        {read, From} ->
            ok = drop_all(),
            From ! {self(), done},
            read_any()
    end.

drop_all() ->
    receive {_, _} -> drop_all()
    after 0 -> ok
    end.

%% After a collection only the kept binaries are left.
binaries(Log, Each, Kept, Had) ->
    N = some(),
    changing(Log, self(), 0, Each * (Had + N)),
    More = copies(N),
    New = lists:sublist(More, N div 2) ++ lists:sublist(Kept, N - N div 2),
    true = garbage_collect(),
    stable(Log, self(), Each * length(New)),
    rest(),
    binaries(Log, Each, New, length(New)).

%% It always shares some binaries with another process, and has others alone.
owner(Log, Base) ->
    Shared = copies(?SHARED),
    Start = fun(Then) -> fun() -> _ = put(shared, Shared), Then() end end,
    [witness(Start(fun() -> owned(Log, Base, [], 0) end)),
     witness(Start(fun() -> receive never -> ok end end))].

owned(Log, Base, Kept, Had) ->
    N = some(),
    changing(Log, self(), 0, Base + ?SIZE * (Had + N)),
    More = copies(N),
    New = lists:sublist(More, N div 2) ++ lists:sublist(Kept, N - N div 2),
    true = garbage_collect(),
    stable(Log, self(), Base + ?SIZE * length(New)),
    rest(),
    owned(Log, Base, New, length(New)).

%% No other process has its binaries, which are always on its heap and at times in its mailbox too.
%% They are few, so that it rests most of the time.
posts(Log, Had) ->
    N = some(?SMALL),
    changing(Log, self(), 0, ?SIZE * (Had + N)),
    Own = copies(N),
    true = garbage_collect(),
    stable(Log, self(), ?SIZE * N),
    ok = post(?TURN, Own),
    posts(Log, N).

post(0, _Own) ->
    ok;
post(Turns, Own) ->
    _ = [self() ! {own, Bin} || Bin <- Own],
    receive never -> ok after rand:uniform(10) -> ok end,
    ok = drop_all(),
    receive never -> ok after rand:uniform(10) -> ok end,
    post(Turns - 1, Own).

%% This collection drops received messages and changes the off-heap lists.
collects(Pid) ->
    _ = garbage_collect(Pid, [{type, minor}]),
    receive never -> ok after rand:uniform(5) -> ok end,
    collects(Pid).

copies(N) -> [binary:copy(<<1>>, ?SIZE) || _ <- lists:seq(1, N)].

%% Dropped slices do not count, collected or not. But slices in a heap fragment that the next collection
%% keeps whole do (`live_hf_end'); after this collection there is no such fragment.
waste(Log, Kept, Had) ->
    N = some(),
    Each = ?SIZE - ?SLICE,
    changing(Log, self(), 0, Each * (Had + N)),
    More = [binary:part(Bin, I rem (Each + 1), ?SLICE)
            || {I, Bin} <- lists:zip(lists:seq(1, N), copies(N))],
    true = garbage_collect(),
    New = lists:sublist(More, N div 2) ++ lists:sublist(Kept, N - N div 2),
    stable(Log, self(), Each * length(New)),
    rest(),
    waste(Log, New, length(New)).

%% What the dictionary holds is reachable only from there: the random numbers are not kept there,
%% and the stack, which is walked first and takes a while, shares nothing with it. The heap moves
%% meanwhile. A term that is held twice exists once, except in a message. While it builds a new term
%% to hold, the process may have more of that than it holds.
heap(Log, {How, Most, Pause} = Kind, Had, Stack) ->
    N = chance(Most) + ?HELD_LEAST,
    receive never -> ok after chance(3) -> ok end,
    Words = 3 + held_words(How, N),
    any_of(Log, self(), [Had, Words, missing]),
    _ = put(held, held(How, N)),
    true = garbage_collect(),
    stable(Log, self(), Words),
    receive never -> ok after chance(Pause) -> ok end,
    heap(Log, Kind, Words, Stack).

chance(N) -> erlang:phash2(make_ref(), N).

pairs(N) -> [{I, I} || I <- lists:seq(1, N)].

%% More words than a small witness holds.
stack_pairs() -> 4 * (?HELD_LEAST + ?SMALL).
stack_words() -> 5 * stack_pairs().

held(once, N) -> levels(N, []);
held(twice, N) -> Once = levels(N, []), {Once, Once}.

held_words(once, N) -> N * level_words();
held_words(twice, N) -> 3 + 2 * N * level_words().

%% Lists, tuples, floats, maps and binaries, some deep and some long.
levels(0, Held) -> Held;
levels(N, Held) -> levels(N - 1, [{N / 3, [N]}, Held, binary:copy(<<N:64>>)]).

%% Three pairs, a tuple, a float, a list of one, a binary of 8 bytes.
level_words() -> 6 + 3 + 2 + 2 + 3.

%% Has a known amount of garbage, until it is collected.
leak(Log) ->
    changing(Log, self(), 0, 2 * ?MOST),
    true = garbage_collect(),
    N = some(),
    N = length(copies(N)),
    stable(Log, self(), N),
    keep_still(),
    leak(Log).

keep_still() ->
    receive never -> ok after 200 + rand:uniform(1500) -> ok end.

%% The same; whether it was collected is known when it goes on.
garbage(Log, Had) ->
    N = some(),
    any_of(Log, self(), [Had, 0, N]),
    true = garbage_collect(),
    N = length(copies(N)),
    Said = any_of(Log, self(), [0, N]),
    keep_still(),
    {binary, Left} = process_info(self(), binary),
    _ = [correct(Log, Said, [N]) || length(Left) >= N],
    garbage(Log, N).
