%% A node under fire, with witnesses in it. The fire: processes that are born and die by the thousand,
%% run, collect, hibernate, grow and shrink, get mail, link, monitor, are suspended, traced or killed.
%% The witnesses: processes whose contents change all the time and are known at every moment, since
%% each change is written down with its time. Whatever is said of a witness must have been true between
%% the moments just before and just after the call.
-module(sonde_stress).

-export([run/3]).
-export([scans/3, reads/3]).

-define(ATTRS, [dictionary_size, link_count, message_queue_len, binary_count, binary_memory]).
-define(SIZE, 100).     % bytes of each binary of a witness
-define(LEAST, 2000).   % of everything in a witness: more than anybody else in the node has
-define(MOST, 4500).

%% What was done and seen, by name; `wrong' is a list of what was not true. Kind: scans (the calls that
%% people make) or reads (of the witnesses alone, one after the other, natively).
run(Ms, Kind, Hands) ->
    Log = ets:new(?MODULE, [ordered_set, public, {write_concurrency, true}]),
    Witnesses = [{Attr, witness(Attr, Log)} || Attr <- ?ATTRS ++ [link_count, link_count]],
    Fire = [spawn(fun() -> fire(What) end) || {What, Times} <- fires(), _ <- lists:seq(1, Times)],
    #{counters := Before} = sonde:native(),
    End = now_ns() + Ms * 1000000,
    Monitors = [spawn_monitor(?MODULE, Kind, [Log, Witnesses, End]) || _ <- lists:seq(1, Hands)],
    Seen = [receive {'DOWN', Ref, process, Pid, Why} -> seen(Why) end || {Pid, Ref} <- Monitors],
    #{counters := After} = sonde:native(),
    _ = [exit(P, kill) || P <- Fire ++ lists:append([Ps || {_, Ps} <- Witnesses])],
    true = ets:delete(Log),
    Sum = lists:foldl(fun plus/2, #{}, [S || {S, _} <- Seen]),
    Sum#{counters => maps:map(fun(K, V) -> V - maps:get(K, Before) end, After),
         wrong => lists:append([W || {_, W} <- Seen])}.

seen({seen, Counts, Wrong}) -> {Counts, Wrong};
seen(Why) -> {#{}, [{died, Why}]}.

plus(A, B) -> maps:fold(fun(K, V, Sum) -> Sum#{K => V + maps:get(K, Sum, 0)} end, B, A).

now_ns() -> erlang:monotonic_time(nanosecond).

%% ---- witnesses: the pid that is looked at comes first

%% From the moment Lo..Hi is written until the moment that one value is, anything between may be seen.
changing(Log, Pid, Lo, Hi) -> note(Log, Pid, {Lo, Hi}).
stable(Log, Pid, Value) -> note(Log, Pid, {Value, Value}).

note(Log, Pid, Range) ->
    true = ets:insert(Log, {{Pid, now_ns(), erlang:unique_integer([monotonic])}, Range}).

%% What was true at some moment from T0 to T1, as ranges.
truths(Log, Pid, T0, T1) ->
    before(Log, Pid, ets:prev(Log, {Pid, T0, -(1 bsl 70)}))
        ++ between(Log, Pid, T1, ets:next(Log, {Pid, T0, -(1 bsl 70)})).

before(Log, Pid, {Pid, _, _} = Key) -> [range(Log, Key)];
before(_, _, _) -> [{0, ?MOST * ?SIZE * 2}].

between(Log, Pid, T1, {Pid, T, _} = Key) when T =< T1 ->
    [range(Log, Key) | between(Log, Pid, T1, ets:next(Log, Key))];
between(_, _, _, _) -> [].

range(Log, Key) -> ets:lookup_element(Log, Key, 2).

is_true(Value, Ranges) ->
    is_integer(Value) andalso lists:any(fun({Lo, Hi}) -> Lo =< Value andalso Value =< Hi end, Ranges).

some() -> ?LEAST + rand:uniform(?MOST - ?LEAST - 500).

%% Most of the time still, for a moment as short as a scan's.
rest() ->
    case rand:uniform(3) of
        1 -> erlang:yield();
        _ -> receive never -> ok after 1 -> ok end
    end.

witness(dictionary_size, Log) ->
    [spawn(fun() -> keys(Log, 0) end)];
witness(link_count, Log) ->
    Others = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, ?MOST)],
    {First, Rest} = lists:split(some(), Others),
    [spawn(fun() -> _ = [link(P) || P <- First], links(Log, First, Rest, length(First)) end) | Others];
witness(message_queue_len, Log) ->
    Reader = spawn_opt(fun read_all/0, [{message_queue_data, one_of([on_heap, off_heap])}]),
    [Reader, spawn(fun() -> mail(Log, Reader) end)];
witness(Attr, Log) ->
    Each = case Attr of
               binary_count -> 1;
               binary_memory -> ?SIZE
           end,
    [spawn(fun() -> binaries(Log, Each, [], 0) end)].

one_of(List) -> lists:nth(rand:uniform(length(List)), List).

keys(Log, Had) ->
    N = some(),
    changing(Log, self(), min(Had, N), max(Had, N)),
    _ = [put(K, K) || K <- lists:seq(Had + 1, N)],
    _ = [erase(K) || K <- lists:seq(N + 1, Had)],
    stable(Log, self(), N),
    rest(),
    keys(Log, N).

%% Some hundred others come and as many go, one at a time, all over the tree: whoever walks through it
%% meanwhile sees some twice, or not at all.
links(Log, In, Out, N) ->
    changing(Log, self(), N, N + 1),
    {NewIn, NewOut} = exchange(rand:uniform(300), shuffle(In), shuffle(Out)),
    stable(Log, self(), N),
    rest(),
    links(Log, NewIn, NewOut, N).

exchange(0, In, Out) -> {In, Out};
exchange(K, [Goes | In], [Comes | Out]) ->
    true = link(Comes),
    true = unlink(Goes),
    {NewIn, NewOut} = exchange(K - 1, In, Out),
    {[Comes | NewIn], [Goes | NewOut]}.

shuffle(List) ->
    [X || {_, X} <- lists:sort([{rand:uniform(), X} || X <- List])].

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
    More = [binary:copy(<<1>>, ?SIZE) || _ <- lists:seq(1, N)],
    New = lists:sublist(More, N div 2) ++ lists:sublist(Kept, N - N div 2),
    true = garbage_collect(),
    stable(Log, self(), Each * length(New)),
    rest(),
    binaries(Log, Each, New, length(New)).

%% ---- hands

scans(Log, Witnesses, End) -> hand(fun scan/2, Log, Witnesses, End).
reads(Log, Witnesses, End) -> hand(fun read/2, Log, Witnesses, End).

hand(Look, Log, Witnesses, End) ->
    _ = rand:seed(exsss),
    exit(hand(Look, Log, Witnesses, End, #{}, [])).

hand(Look, Log, Witnesses, End, Counts, Wrong) ->
    case now_ns() < End andalso length(Wrong) < 10 of
        false ->
            {seen, Counts, Wrong};
        true ->
            {Attr, [Pid | _]} = one_of(Witnesses),
            T0 = now_ns(),
            {What, Value} = Look(Attr, Pid),
            T1 = now_ns(),
            {Counted, New} = judge(Log, Attr, Pid, Value, T0, T1),
            hand(Look, Log, Witnesses, End, plus(Counts, #{What => 1, Counted => 1}), New ++ Wrong)
    end.

judge(_, _, _, no_value, _, _) ->
    {no_value, []};
judge(Log, Attr, Pid, missing, T0, T1) ->
    case missing(Log, Pid, T0, T1) of
        true -> {no_value, []};
        false -> {untrue, [{Attr, missing, truths(Log, Pid, T0, T1), T1 - T0}]}
    end;
judge(Log, Attr, Pid, Value, T0, T1) ->
    Ranges = truths(Log, Pid, T0, T1),
    case is_true(Value, Ranges) of
        true -> {witnessed, []};
        false -> {untrue, [{Attr, Value, Ranges, T1 - T0}]}
    end.

%% It may have had so little that others had more.
missing(Log, Pid, T0, T1) ->
    lists:any(fun({Lo, _}) -> Lo < ?LEAST end, truths(Log, Pid, T0, T1)).

read(Attr, Pid) ->
    case sonde_nif:read(Pid, Attr) of
        Value when is_integer(Value) -> {reads, Value};
        _ -> {reads, no_value}
    end.

%% A witness is among the winners, whatever else goes on.
scan(Attr, Pid) ->
    case rand:uniform(40) of
        1 ->
            _ = sonde:bin_leak(3),
            {leaks, no_value};
        2 ->
            _ = sonde:proc_window(one_of(sonde_attr:native()), 5, rand:uniform(20)),
            {windows, no_value};
        3 ->
            _ = sonde:proc_count(one_of(sonde_attr:native()), 10),
            {scans, no_value};
        _ ->
            Rows = sonde:proc_count(Attr, 30),
            {scans, case lists:keyfind(Pid, 1, Rows) of
                        {Pid, Value, _} -> Value;
                        false -> missing
                    end}
    end.

%% ---- fire

fires() ->
    [{births, 2}, {hog, erlang:system_info(schedulers)}, {collects, 4}, {hibernates, 2}, {swells, 2},
     {mails, 4}, {ties, 2}, {suspends, 1}, {traces, 1}, {too_large, 1}, {ports, 1}, {tables, 1},
     {reloads, 1}].

fire(What) ->
    _ = rand:seed(exsss),
    keep(What).

keep(What) ->
    burn(What),
    keep(What).

%% Thousands that do a little and die.
burn(births) ->
    _ = [spawn(fun() -> little(rand:uniform(300)) end) || _ <- lists:seq(1, 300)],
    pause(3);
burn(hog) ->
    _ = lists:foldl(fun(I, Sum) -> Sum + I * I end, 0, lists:seq(1, 2000)),
    ok;
burn(collects) ->
    Data = [{I, binary:copy(<<1>>, 65)} || I <- lists:seq(1, rand:uniform(2000))],
    true = garbage_collect(self(), [{type, one_of([major, minor])}]),
    pause(length(Data) rem 3);
burn(hibernates) ->
    P = spawn(fun() -> _ = lists:seq(1, 500), erlang:hibernate(timer, sleep, [20]) end),
    P ! wake,
    pause(1);
%% Blocks large enough to be mapped and unmapped.
burn(swells) ->
    P = spawn(fun() -> little(length(lists:seq(1, 100000 + rand:uniform(400000)))) end),
    pause(20),
    exit(P, kill);
burn(mails) ->
    Kind = [{message_queue_data, one_of([on_heap, off_heap])}],
    Reader = spawn_opt(fun() -> reads_some(500) end, Kind),
    _ = [spawn(fun() -> [Reader ! {I, binary:copy(<<2>>, 80)} || I <- lists:seq(1, 200)] end)
         || _ <- lists:seq(1, 4)],
    pause(10),
    exit(Reader, kill);
burn(ties) ->
    Others = [spawn(fun() -> receive stop -> ok after 200 -> ok end end) || _ <- lists:seq(1, 100)],
    Refs = [monitor(process, P) || P <- Others],
    _ = [link(P) || P <- Others],
    _ = [alias() || _ <- [1, 2, 3]],
    _ = [demonitor(R, [flush]) || R <- Refs],
    _ = [begin unlink(P), exit(P, kill) end || P <- Others],
    pause(1);
burn(suspends) ->
    P = spawn(fun() -> little(100000) end),
    _ = try
            true = erlang:suspend_process(P),
            pause(2),
            true = erlang:resume_process(P)
        catch error:badarg -> dead
        end,
    exit(P, kill);
burn(traces) ->
    P = spawn(fun() -> reads_some(100) end),
    Tracer = spawn(fun() -> reads_some(1000) end),
    _ = try erlang:trace(P, true, ['receive', send, {tracer, Tracer}]) catch error:badarg -> 0 end,
    _ = [P ! I || I <- lists:seq(1, 100)],
    pause(5),
    exit(P, kill),
    exit(Tracer, kill);
burn(too_large) ->
    _ = spawn_opt(fun() -> lists:seq(1, 1000000) end,
                  [{max_heap_size, #{size => 50000, kill => true, error_logger => false}}]),
    pause(10);
burn(ports) ->
    Port = open_port({spawn, "cat"}, [binary]),
    true = port_command(Port, binary:copy(<<3>>, 1000)),
    receive {Port, {data, _}} -> ok after 1000 -> ok end,
    true = port_close(Port),
    pause(20);
burn(tables) ->
    T = ets:new(t, [public]),
    _ = [ets:insert(T, {I, binary:copy(<<4>>, 100)}) || I <- lists:seq(1, 1000)],
    true = ets:delete(T),
    pause(5);
burn(reloads) ->
    _ = case code:soft_purge(sonde_nif) of
            true -> code:load_file(sonde_nif);
            false -> in_use
        end,
    pause(50).

%% Also lets go of whatever came by message.
pause(Ms) ->
    receive {'EXIT', _, _} -> ok after Ms -> ok end.

little(N) ->
    Data = [binary:copy(<<I>>, 60 + I rem 20) || I <- lists:seq(1, N rem 50)],
    _ = put(little, lists:seq(1, N)),
    pause(N rem 7),
    length(Data).

reads_some(0) -> ok;
reads_some(N) ->
    receive {_, _} -> reads_some(N - 1);
            _ -> reads_some(N - 1)
    after 100 -> ok
    end.
