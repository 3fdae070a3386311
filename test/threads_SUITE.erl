%% With any number of threads a call gives the same answer, misses no process, shows no process of
%% ours, and ends with its caller.
-module(threads_SUITE).

-compile([export_all, nowarn_export_all]).

-define(ALL, 1000000).
-define(THREADS, [2, 3, 8]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [same_rows, same_rows_of_marked_heaps, same_account, same_sample, windows_add_up,
     leaks_are_counted, busy_ones_have_a_row, helpers_are_not_busy, killed_caller_ends_all,
     no_message_for_the_caller, helpers_are_in_no_row, suspends_with_one, bad_numbers_are_badarg,
     no_more_is_remembered_than_allowed, a_busy_or_small_node_gives_one].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% ---- the same answers

%% Many processes have equal values: their order is the same too.
same_rows(_Config) ->
    Pids = sonde_test:crowd(100) ++ sonde_test:hold_each(lists:duplicate(100, fun() -> ok end), []),
    _ = [[] = differ(fun(Opts) -> sonde:proc_count(Attr, N, Opts) end)
         || Attr <- sonde_attr:native() -- [reductions], N <- [1, 7, ?ALL]],
    [] = differ(fun(Opts) -> sonde:proc_count([memory, binary_count, link_count], ?ALL, Opts) end),
    sonde_test:stop(Pids).

same_rows_of_marked_heaps(_Config) ->
    Pids = sonde_test:crowd(50),
    sonde_test:pick(fun() ->
        _ = [[] = differ(fun(Opts) -> sonde:proc_count(Attr, ?ALL, Opts) end)
             || Attr <- sonde_attr:heap()],
        [] = differ(fun(Opts) -> sonde:bin_owned(?ALL, Opts) end),
        [] = differ(fun(Opts) -> sonde:bin_garbage(?ALL, bytes, Opts#{self => false}) end),
        [] = differ(fun(Opts) ->
                            {Rows, #{left_out := 0}} = sonde:bin_waste(?ALL, Opts#{self => false,
                                                                                   report => true}),
                            Rows
                    end)
    end, fun() -> ok end),
    sonde_test:stop(Pids).

%% Each thread fills an account of its own; binaries are shared by processes of several parts. There are so
%% many that threads also settle parts for each other.
same_account(_Config) ->
    Pids = sonde_test:crowd(30) ++ sharers(40) ++ holders(80, 600),
    sonde_test:pick(fun() ->
        [] = differ(fun(Opts) ->
                            maps:without([ms, total, unseen, unused, overhead], sonde:bin_account(Opts))
                    end),
        [] = differ(fun(Opts) -> sonde:bin_resources(?ALL, Opts) end),
        [] = differ(fun(Opts) -> sonde:bin_holders(100, size, Opts) end),
        [] = differ(fun(Opts) -> sonde:bin_holders(100, count, Opts) end),
        [] = differ(fun(Opts) -> sonde:proc_count(binary_proportional, ?ALL, Opts) end)
    end, fun() -> ok end),
    sonde_test:stop(Pids).

%% Each of these holds some of a hundred binaries, on its heap, in its mailbox, or both.
sharers(N) ->
    Bins = [binary:copy(<<I>>, 1000 + I) || I <- lists:seq(1, 100)],
    [begin
         Pid = sonde_test:hold(fun() -> [Bin || {K, Bin} <- lists:enumerate(Bins), K rem I =:= 0] end),
         _ = [Pid ! Bin || {K, Bin} <- lists:enumerate(Bins), K rem (I + 3) =:= 1],
         ok = sonde_test:settle(Pid),
         Pid
     end || I <- lists:seq(1, N)].

%% Of so many binaries each, and of others that are in the mailboxes of several.
holders(N, Each) ->
    Pids = sonde_test:hold_each([fun() -> [binary:copy(<<1>>, 65 + I) || I <- lists:seq(1, Each)] end
                                 || _ <- lists:seq(1, N)], []),
    Bins = [binary:copy(<<2>>, 100 + I) || I <- lists:seq(1, Each)],
    _ = [Pid ! Bin || {K, Bin} <- lists:enumerate(Bins), {I, Pid} <- lists:enumerate(Pids), (K + I) rem 20 =:= 0],
    ok = sonde_test:settle(Pids),
    Pids.

%% Above the limit each thread keeps a sample; joined, these are one sample. What it adds up to is compared,
%% so what others on the node hold must not matter: a megabyte in one binary, which a sample may miss.
same_sample(_Config) ->
    Pids = [sonde_test:hold(fun() -> [binary:copy(<<1>>, 2000) || _ <- lists:seq(1, 500)] end)
            || _ <- lists:seq(1, 40)],
    sonde_test:pick(fun() ->
        _ = [begin
                 #{exclusive := All} = sonde:bin_account(#{threads => 1}),
                 #{sampled := Sampled, exclusive := Sum, error := Error} =
                     sonde:bin_account(#{threads => N, max_entries => Max}),
                 true = Sampled < 1,
                 true = abs(Sum - All) =< max(4 * Error, All div 4)
             end || N <- [1 | ?THREADS], Max <- [1000, 5000]]
    end, fun() -> ok end),
    sonde_test:stop(Pids).

%% The rows of several threads where they are not those of one, while nobody else runs. To answer
%% sonde, even a suspended process may collect: then the comparison is made again.
differ(Call) ->
    sonde_test:still(fun() ->
                             Ours = sonde_test:servers(),
                             Rows = fun(N) -> without(Ours, Call(#{threads => N})) end,
                             [Differs || N <- [auto | ?THREADS], Differs <- differ(Rows, N, 20)]
                     end).

differ(Rows, N, Tries) ->
    One = Rows(1),
    More = Rows(N),
    case Rows(1) of
        One when More =:= One -> [];
        One -> [{N, More, One}];
        _ when Tries > 0 -> differ(Rows, N, Tries - 1);
        Two -> [{never_still, One, Two}]
    end.

%% The servers do not hold still.
without(Pids, [_ | _] = Rows) when is_tuple(hd(Rows)) ->
    [case Row of
         {Attr, Some} -> {Attr, without(Pids, Some)};
         _ -> Row
     end || Row <- Rows, not lists:member(element(1, Row), Pids)];
without(_, Others) ->
    Others.

%% Each process receives another number of messages in the window.
windows_add_up(_Config) ->
    _ = [begin
             Pids = [sonde_test:hold(fun() -> sonde_test:queue(50) end) || _ <- lists:seq(1, 30)],
             Send = fun() -> [Pid ! {more, I} || {N, Pid} <- lists:enumerate(Pids),
                                                 I <- lists:seq(1, N)]
                    end,
             Rows = sonde_test:in_window(fun() ->
                                                 sonde:proc_window(message_queue_len, ?ALL, 500,
                                                                   #{threads => Threads})
                                         end, Send),
             Grown = sonde_test:rows_of(Pids, Rows),
             [] = [Row || {N, Pid} <- lists:enumerate(Pids),
                          Row <- [lists:keyfind(Pid, 1, Grown)], element(2, Row) =/= N],
             Dead = hd(Pids),
             ok = sonde_test:stop(Pids),
             false = is_process_alive(Dead)
         end || Threads <- [1 | ?THREADS]].

leaks_are_counted(_Config) ->
    _ = [begin
             Made = [{N, leaky(N)} || N <- lists:seq(10, 300, 10)],
             #{rows := Rows, skipped := 0} = sonde:bin_leak(?ALL, #{threads => Threads}),
             [] = [{N, Row} || {N, Pid} <- Made, Row <- [lists:keyfind(Pid, 1, Rows)],
                               element(2, Row) =/= -N],
             sonde_test:stop([Pid || {_, Pid} <- Made])
         end || Threads <- [1 | ?THREADS]].

leaky(N) ->
    sonde_test:hold(fun() -> _ = [binary:copy(<<1>>, 100) || _ <- lists:seq(1, N)], ok end,
                    [{fullsweep_after, 100000}, {min_heap_size, 100000}]).

%% A process that cannot be read is asked, in every part of the table. In a long call on a dirty scheduler it
%% is busy at each look; those that only compute are met at rest, most of the time.
busy_ones_have_a_row(_Config) ->
    Busy = [missed_SUITE:dirty() || _ <- lists:seq(1, 3)] ++ [spawn(fun() -> spin(0) end)
                                                              || _ <- lists:seq(1, 17)],
    _ = [begin
             Rows = sonde:proc_count(memory, ?ALL, #{threads => Threads}),
             20 = length(sonde_test:rows_of(Busy, Rows))
         end || Threads <- [1 | ?THREADS], _ <- lists:seq(1, 5)],
    sonde_test:stop(Busy).

spin(I) -> spin(I + 1).

%% ---- helpers

killed_caller_ends_all(_Config) ->
    Pids = sonde_test:hold_each(lists:duplicate(5000, fun() -> lists:seq(1, 2000) end), []) ++ holders(500, 600),
    sonde_test:pick(fun() ->
        ok = sonde_test:ends_with_caller(fun() -> sonde:bin_account(#{threads => 4}) end),
        ok = sonde_test:ends_with_caller(fun() -> sonde:proc_count(garbage_bytes, 5, #{threads => 4}) end),
        ok = sonde_test:ends_with_caller(fun() -> sonde:proc_count(memory, 5, #{threads => 4}) end)
    end, fun() -> ok end),
    ok = sonde_test:until(no_helpers, fun() -> sonde_test:helpers() =:= [] end),
    sonde_test:stop(Pids).

%% The helpers of a sweep do not wait for each other to be at rest.
helpers_are_not_busy(_Config) ->
    Peer = sonde_peer_helper:start(shipped, []),
    try
        ok = sonde_test:until(helpers_meet_no_busy_process,
                              fun() -> sonde_peer_helper:call(Peer, ?MODULE, busy, [], 60000) =:= 0 end)
    after
        sonde_peer_helper:stop(Peer)
    end.

busy() ->
    Pids = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 20000)],
    #{busy := Before} = sonde_nif:counters(),
    _ = [sonde:proc_count(garbage_bytes, 5, #{threads => 4}) || _ <- lists:seq(1, 10)],
    #{busy := After} = sonde_nif:counters(),
    _ = [Pid ! stop || Pid <- Pids],
    After - Before.

no_message_for_the_caller(_Config) ->
    sonde_test:no_message(fun() ->
        _ = sonde:proc_count(memory, 5, #{threads => 4}),
        _ = sonde:proc_window(memory, 5, 10, #{threads => 4}),
        sonde:bin_leak(5, #{threads => 4})
    end).

helpers_are_in_no_row(_Config) ->
    Calls = sonde_test:churn(2, fun() -> sonde:proc_count(memory, 5, #{threads => 8}) end),
    _ = [begin
             Rows = sonde:proc_count(Attr, ?ALL, #{threads => 4}),
             [] = [Row || {_, _, Attrs} = Row <- Rows,
                          {initial_call, {sonde_helper, _, _}} <- Attrs]
         end || Attr <- [memory, message_queue_len, link_count], _ <- lists:seq(1, 20)],
    sonde_test:stop(Calls).

%% ---- the number

%% Processes are suspended one at a time, so one thread does it.
suspends_with_one(_Config) ->
    sonde_test:pick(fun() ->
        How = #{attrs => [garbage_bytes], threads => 8},
        [_] = sonde_scan:scan(top, 1, undefined, How#{suspend => true}),
        true = length(sonde_scan:scan(top, 1, undefined, How#{suspend => false})) > 1
    end, fun() -> ok end).

bad_numbers_are_badarg(_Config) ->
    _ = [{Bad, badarg} = {Bad, sonde_test:raised(fun() -> Call(#{threads => Bad}) end)}
         || Bad <- [0, 9, -1, 2.0, foo, "2", infinity, 1 bsl 70],
            Call <- [fun(Opts) -> sonde:proc_count(memory, 1, Opts) end,
                     fun sonde:bin_account/1,
                     fun(Opts) -> sonde:bin_holders(1, size, Opts) end,
                     fun(Opts) -> sonde:proc_window(memory, 1, 1000000, Opts) end,
                     fun(Opts) -> sonde:bin_leak(1, Opts) end,
                     fun(Opts) -> sonde:bin_garbage(1, count, Opts) end,
                     fun(Opts) -> sonde:bin_owned(1, Opts) end,
                     fun(Opts) -> sonde:bin_waste(1, Opts) end,
                     fun(Opts) -> sonde:bin_window(1, 1000000, Opts) end]],
    ok.

no_more_is_remembered_than_allowed(_Config) ->
    Pids = sonde_test:crowd(40),
    _ = [system_limit = sonde_test:raised(fun() ->
                                                  sonde:proc_window(memory, 1, 0, #{threads => Threads,
                                                                                    max_entries => 30})
                                          end)
         || Threads <- [1 | ?THREADS]],
    sonde_test:stop(Pids).

a_busy_or_small_node_gives_one(_Config) ->
    {ok, 1} = {ok, sonde_threads:count(auto)},
    Peer = sonde_peer_helper:start(shipped, ["+P", "262144"]),
    try
        {Idle, Busy} = sonde_peer_helper:call(Peer, ?MODULE, idle_and_busy, [], 120000),
        true = Idle >= 1 andalso Idle =< 8,
        1 = Busy
    after
        sonde_peer_helper:stop(Peer)
    end.

idle_and_busy() ->
    _ = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 100000)],
    timer:sleep(100),
    Idle = sonde_threads:count(auto),
    _ = [spawn(fun() -> spin(0) end) || _ <- lists:seq(1, 2 * erlang:system_info(schedulers))],
    {Idle, sonde_threads:count(auto)}.
