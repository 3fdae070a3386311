%% Witnesses in a node under fire: processes whose contents change all the time and are known at every
%% moment, since each change is written down with its time. What is said of a witness must have been true
%% at some moment between two.
%%
%% To add a witness: an attribute in kinds/0 and a clause of start/4 that keeps to this: before a change
%% changing/4 says between what the value may be, after it stable/3 says what it is.
-module(sonde_stress_witness).

-export([log/0, start/1, dead/1, judge/6, judge_window/7, judge_leak/5]).

-define(SIZE, 100).     % bytes of each binary of a witness
-define(LEAST, 2000).   % of everything in a witness: more than anybody else in the node has
-define(SMALL, 200).
-define(TURN, 100).     % at most so many come and go before a witness is still again
-define(MOST, 3 * ?LEAST).

log() -> ets:new(?MODULE, [ordered_set, public, {write_concurrency, true}]).

%% [{What it is a witness of, [The one that is looked at | Its helpers]}]
start(Log) ->
    Idle = idle(?MOST),
    [{idle, Idle} | [{Attr, start(Attr, Log, lists:sublist(shuffle(Idle), 3 * Least), Least)}
                     || {Attr, Least} <- kinds()]].

%% The trees and lists are several, because most of what can be misread is in them. In a large one there
%% is much to walk while it changes; a walk through a small one may end before its process stops to run.
kinds() ->
    [{Attr, ?LEAST} || Attr <- [dictionary_size, message_queue_len, binary_count, binary_memory, bin_leak]]
        ++ [{Attr, Least} || Attr <- [link_count, monitor_count, monitored_by_count],
                             Least <- [?LEAST, ?SMALL, ?SMALL]].

%% A witness that died says nothing any more.
dead(Witnesses) ->
    [{Attr, died} || {Attr, Pids} <- Witnesses, Pid <- Pids, not is_process_alive(Pid)].

%% ---- what was true

changing(Log, Pid, A, B) -> note(Log, Pid, {min(A, B), max(A, B)}).
stable(Log, Pid, Value) -> note(Log, Pid, {Value, Value}).

note(Log, Pid, Range) ->
    true = ets:insert(Log, {{Pid, now_ns(), erlang:unique_integer([monotonic])}, Range}).

now_ns() -> erlang:monotonic_time(nanosecond).

%% At some moment from T0 to T1, as ranges.
truths(Log, Pid, T0, T1) ->
    Start = {Pid, T0, -(1 bsl 70)},
    before(Log, Pid, ets:prev(Log, Start)) ++ between(Log, Pid, T1, ets:next(Log, Start)).

before(Log, Pid, {Pid, _, _} = Key) -> [range(Log, Key)];
before(_, _, _) -> [{0, ?MOST * ?SIZE * 2}].

between(Log, Pid, T1, {Pid, T, _} = Key) when T =< T1 ->
    [range(Log, Key) | between(Log, Pid, T1, ets:next(Log, Key))];
between(_, _, _, _) -> [].

range(Log, Key) -> ets:lookup_element(Log, Key, 2).

%% ---- judgement: {Verdict, [What is wrong]}

judge(_, _, _, no_value, _, _) ->
    {no_value, []};
judge(Log, Attr, Pid, Value, T0, T1) ->
    Truths = truths(Log, Pid, T0, T1),
    case Value of
        %% others may have had more
        missing -> verdict(lists:any(fun({Lo, _}) -> Lo < ?LEAST end, Truths), no_value,
                           {Attr, missing, Truths, T1 - T0});
        _ -> verdict(is_integer(Value) andalso
                     lists:any(fun({Lo, Hi}) -> Lo =< Value andalso Value =< Hi end, Truths),
                     witnessed, {Attr, Value, Truths, T1 - T0})
    end.

%% The gain in a window that is at least Ms long: the first look came before the rest of it, and the
%% second after it.
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

%% Who kept still lets go of all its garbage, or of none, if somebody else had it collected before.
judge_leak(_, _, missing, _, _) ->
    {no_value, []};
judge_leak(Log, Pid, Value, T0, T1) ->
    case truths(Log, Pid, T0, T1) of
        [{N, N}] -> verdict(Value =:= 0 orelse Value =:= -N, witnessed, {bin_leak, Value, N, T1 - T0});
        Moved ->
            Most = lists:max([Hi || {_, Hi} <- Moved]),
            verdict(abs(Value) =< Most, no_value, {bin_leak, Value, Moved, T1 - T0})
    end.

verdict(true, Verdict, _) -> {Verdict, []};
verdict(false, _, Wrong) -> {untrue, [Wrong]}.

%% ---- the witnesses

witness(Fun) -> witness(Fun, []).

witness(Fun, Opts) -> spawn_opt(Fun, Opts).

some() -> some(?LEAST).

some(Least) -> Least + rand:uniform(Least).

%% Right before each change, for a moment as short as a scan's: who is looked at then changes meanwhile.
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
start(bin_leak, Log, _, _) ->
    %% no collection but those that are asked for
    [witness(fun() -> leak(Log) end, [{min_heap_size, 200000}, {min_bin_vheap_size, 10000000}])];
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

one_of(List) -> lists:nth(rand:uniform(length(List)), List).

idle(N) -> [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, N)].

%% One key is that of the random numbers.
keys(Log, Had) ->
    N = some(),
    rest(),
    changing(Log, self(), Had + 1, N + 1),
    _ = [put(K, K) || Had < N, K <- lists:seq(Had + 1, N)],
    _ = [erase(K) || N < Had, K <- lists:seq(N + 1, Had)],
    N = length(get()) - 1,
    stable(Log, self(), N + 1),
    keys(Log, N).

%% Some others come and as many go, one at a time: whoever walks through the tree meanwhile sees
%% some twice, or not at all. Who came first goes first.
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

%% One watches another many times over. What it sends is seen in the order in which it is sent, so an
%% answer means that all of it has been taken in.
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

%% The reader sleeps while it is written to: only the writer moves the length, but at the reading.
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

%% After a collection there are just those that are kept.
binaries(Log, Each, Kept, Had) ->
    N = some(),
    changing(Log, self(), 0, Each * (Had + N)),
    More = copies(N),
    New = lists:sublist(More, N div 2) ++ lists:sublist(Kept, N - N div 2),
    true = garbage_collect(),
    stable(Log, self(), Each * length(New)),
    rest(),
    binaries(Log, Each, New, length(New)).

copies(N) -> [binary:copy(<<1>>, ?SIZE) || _ <- lists:seq(1, N)].

%% Garbage of a known number, until somebody collects it.
leak(Log) ->
    changing(Log, self(), 0, 2 * ?MOST),
    true = garbage_collect(),
    N = some(),
    N = length(copies(N)),
    stable(Log, self(), N),
    receive never -> ok after 200 + rand:uniform(1500) -> ok end,
    leak(Log).
