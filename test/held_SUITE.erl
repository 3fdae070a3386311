%% A reader notices every change to what it reads: the suite holds it between its opening stamp, its
%% walk and its closing stamp, and changes the process meanwhile. Readers that are broken on purpose
%% give a wrong answer in the same place, every time. Runs in a node of its own, with the build for
%% tests.
-module(held_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [a_held_scan_of_what_stays_is_right, a_scan_notices_that_its_process_ran,
     a_scan_notices_a_collection, a_refusal_notices_a_collection, a_scan_notices_what_was_sent_to_one_that_does_not_run,
     a_scan_that_compares_no_stamp_is_wrong, a_scan_that_compares_reductions_alone_is_wrong,
     a_look_notices_that_its_process_ran, a_look_that_compares_no_stamp_is_wrong,
     a_part_is_one_of_what_was_counted, a_part_is_not_of_what_came_later, a_part_beside_other_values].

init_per_suite(Config) ->
    case sonde_peer_helper:needs_test_build() of
        ok -> [{peer, sonde_peer_helper:start(test)} | Config];
        Skip -> Skip
    end.

end_per_suite(Config) -> sonde_peer_helper:stop(proplists:get_value(peer, Config)).

%% Runs one of this suite's functions in the node with the build for tests, and makes the readers
%% whole again afterwards.
there(Config, F, A) ->
    Peer = proplists:get_value(peer, Config),
    #{status := active} = sonde_peer_helper:call(Peer, sonde, native, []),
    try sonde_peer_helper:call(Peer, ?MODULE, F, A)
    after ok = sonde_peer_helper:call(Peer, sonde_nif, weaken, [0])
    end.

%% ---- scans that compare their stamps

a_held_scan_of_what_stays_is_right(Config) ->
    Held = there(Config, held_scans, [fun() -> still() end, fun(_) -> ok end]),
    [] = [Scan || {_, _, Was, Said, Now, Torn} = Scan <- Held,
                  {Was, Said, Torn} =/= {Said, Now, 0}].

%% The process is back at the same wait, with the same heap: it only ran for a moment.
a_scan_notices_that_its_process_ran(Config) ->
    notices(there(Config, held_scans, [fun() -> still() end, fun runs/1])).

a_scan_notices_a_collection(Config) ->
    notices(there(Config, held_scans, [fun() -> still() end, fun garbage_collect/1])).

%% A heap was too large when the scan began with it, and was collected before the scan reported it.
a_refusal_notices_a_collection(Config) ->
    {Rows, Rows, 1} = there(Config, collected_while_held, []).

%% In the node: the rows of a held scan and of a later one, and how often the held one was torn.
collected_while_held() ->
    P = spawn(fun() -> loses(lists:seq(1, 10000)) end),
    ok = sonde_test:settle(P),
    #{torn := Before} = sonde_nif:counters(),
    Scan = sonde_nif:scan_new(garbage_bytes, each, 0, [P], [], 0),
    ok = sonde_nif:scan_limit(Scan, 5000, 0),
    Rows = held(P, opened, fun() -> scan(Scan, sonde_nif:scan_step(Scan), []) end,
                fun() -> runs(P) end),
    #{torn := After} = sonde_nif:counters(),
    [{P, [_]}] = Now = scan(P, garbage_bytes),
    sonde_test:stop(P),
    {Rows, Now, After - Before}.

loses(List) ->
    receive {run, From} -> true = List =/= [], true = garbage_collect(), From ! {ran, self()} end,
    waits([]).

%% A scan that does not count what was sent need not notice it.
a_scan_notices_what_was_sent_to_one_that_does_not_run(Config) ->
    {Same, Changed} = lists:partition(fun({_, _, Was, _, Now, _}) -> Was =:= Now end,
                                      there(Config, held_scans,
                                            [fun() -> suspended() end, fun sends/1])),
    [] = [Scan || {_, _, Was, Said, _, _} = Scan <- Same, Said =/= Was],
    notices(Changed),
    [] = [binary_exclusive, binary_unique, flat_size, memory] -- [Attr || {Attr, _, _, _, _, _} <- Changed].

%% Each held scan was torn and then tried again.
notices(Held) ->
    [] = [Scan || {_, _, _, Said, Now, Torn} = Scan <- Held, Said =/= Now orelse Torn =:= 0].

%% ---- scans that compare no stamps

%% What was sent lies in two places: on the heap, which the scan sees as it was, and behind the last
%% message, which the scan sees as it is. It misses the second message of three.
a_scan_that_compares_no_stamp_is_wrong(Config) ->
    10100 = there(Config, scan_of_what_is_sent, [1]).

%% A sender writes to a suspended process, which uses no reduction meanwhile.
a_scan_that_compares_reductions_alone_is_wrong(Config) ->
    10100 = there(Config, scan_of_what_is_sent, [2]).

%% In the node: returns a wrong value, which was never true.
scan_of_what_is_sent(Weakness) ->
    P = suspended(),
    [100] = values(scan(P, binary_unique)),
    Reductions = scan(P, reductions),
    ok = sonde_nif:weaken(Weakness),
    [Value] = values(held(P, opened, fun() -> scan(P, binary_unique) end, fun() -> sends(P) end)),
    Reductions = scan(P, reductions),
    ok = sonde_nif:weaken(0),
    [11100] = values(scan(P, binary_unique)),
    sonde_test:stop(P),
    Value.

%% ---- looks

a_look_notices_that_its_process_ran(Config) ->
    [{torn, undefined}, {torn, undefined}] =
        [there(Config, look_at_what_moves, [0, Where]) || Where <- [opened, walked]].

%% A list moves from the dictionary, which the look sees as it is, to the stack, which the look sees
%% as it was: the look finds it nowhere.
a_look_that_compares_no_stamp_is_wrong(Config) ->
    {done, Words} = there(Config, look_at_what_moves, [1, opened]),
    true = Words < held_words().

%% In the node: what the look returns, and how many words it counts.
look_at_what_moves(Weakness, Where) ->
    P = spawn(fun moves/0),
    ok = sonde_test:settle(P),
    Before = words(P),
    ok = sonde_nif:weaken(Weakness),
    Said = moved(Where, P),
    ok = sonde_nif:weaken(0),
    After = words(P),
    {true, true} = {Before >= held_words(), After >= held_words()},
    sonde_test:stop(P),
    Said.

words(P) ->
    Look = look(P),
    done = sonde_nif:look_step(Look),
    element(1, sonde_nif:look_flat(Look)).

look(P) ->
    sonde_nif:look_new(flat, P, [stack, dictionary], 1 bsl 40, 0, 0).

moved(opened, P) ->
    Look = look(P),
    ok = move(P),
    case sonde_nif:look_step(Look) of
        done -> {done, element(1, sonde_nif:look_flat(Look))};
        Why -> {Why, undefined}
    end;
moved(walked, P) ->
    Look = look(P),
    {held(P, walked, fun() -> sonde_nif:look_step(Look) end, fun() -> ok = move(P) end),
     undefined}.

move(P) ->
    P ! move,
    sonde_test:until(moved, fun() -> process_info(P, current_function)
                                         =:= {current_function, {?MODULE, has_moved, 1}} end),
    sonde_test:settle(P).

held_words() -> 2 * 1000.

moves() ->
    _ = put(moved, lists:seq(1, held_words() div 2)),
    true = garbage_collect(),
    receive move -> ok end,
    Moved = moves_out_of_the_dictionary(),
    {gone, Moved}.

%% Makes no new term, so the list stays where it lay. The new frame is below the old ones.
moves_out_of_the_dictionary() -> has_moved(erase(moved)).

has_moved(Moved) -> receive never -> Moved end.

%% ---- parts are of what was counted, whatever happens afterwards

%% The process takes its messages, whose binaries are on its heap as well, after it was counted as two
%% holders.
a_part_is_one_of_what_was_counted(Config) ->
    Bytes = parts_bytes(),
    [{_, Bytes, _}] = there(Config, parts, [binary_proportional]).

%% One now holds what another one holds, and a third one nothing.
a_part_is_not_of_what_came_later(Config) ->
    Bytes = parts_bytes(),
    [{_, Bytes, _}, {_, Bytes, _}, {_, Bytes, _}] = there(Config, later_parts, []).

a_part_beside_other_values(Config) ->
    Bytes = parts_bytes(),
    [{memory, [{P, Memory, _}]}, {binary_proportional, [{P, Bytes, _}]}, {binary_count, [{P, 20, _}]}] =
        there(Config, parts, [[memory, binary_proportional, binary_count]]),
    true = Memory > 0.

parts_bytes() -> 20 * 1000.

%% In the node: the rows of the process. The reader is held at a process that comes much later.
parts(Attrs) ->
    P = spawn_opt(fun posts_to_itself/0, [{message_queue_data, off_heap}]),
    while_counted(P, Attrs, [P], fun() -> runs(P) end).

%% Afterwards the second process holds what the first holds, and the third holds nothing.
later_parts() ->
    [P, Q, R] = [spawn_opt(fun posts_to_itself/0, [{message_queue_data, off_heap}])
                 || _ <- [1, 2, 3]],
    while_counted(P, binary_proportional, [P, Q, R],
                   fun() ->
                           Q ! {become, self(), P},
                           receive {became, Q} -> ok end,
                           R ! {become, self(), none},
                           receive {became, R} -> ok end,
                           [ok = sonde_test:settle(X) || X <- [P, Q, R]]
                   end).

while_counted(P, Attrs, Pids, Change) ->
    ok = sonde_test:settle(P),
    Later = [spawn(fun() -> receive never -> ok end end) || _ <- lists:seq(1, 100)],
    Last = lists:last(Later),
    true = P < Last,
    All = held(Last, opened, fun() -> sonde:proc_count(Attrs, 1000) end, Change),
    _ = [sonde_test:stop(X) || X <- Pids ++ Later],
    rows_of(Pids, Attrs, All).

rows_of(Pids, Attrs, All) when is_list(Attrs) ->
    [{Attr, rows_of(Pids, Attr, Rows)} || {Attr, Rows} <- All];
rows_of(Pids, _, Rows) ->
    [Row || {Pid, Value, _} = Row <- Rows, lists:member(Pid, Pids), Value > 0].

posts_to_itself() ->
    Own = [binary:copy(<<I>>, 1000) || I <- lists:seq(1, 20)],
    _ = [self() ! {own, B} || B <- Own],
    true = garbage_collect(),
    takes(Own).

takes(Own) ->
    receive
        {run, From} -> drop_own(), true = garbage_collect(), From ! {ran, self()}, takes(Own);
        {give, From} -> drop_own(), From ! {given, Own}, takes(Own);
        {become, From, Whose} ->
            drop_own(),
            New = [receive {given, Given} -> Given end || is_pid(Whose), {give, _} <- [Whose ! {give, self()}]],
            becomes(From, New)
    end.

%% A call, so that what the process held before is on no stack any more.
becomes(From, New) ->
    true = garbage_collect(),
    From ! {became, self()},
    takes(New).

drop_own() ->
    receive {own, _} -> drop_own()
    after 0 -> ok
    end.

%% ---- in the node: processes and what changes them

%% Holds something for every attribute, and some garbage.
still() ->
    P = spawn(fun() ->
                      _ = [put(I, binary:copy(<<I>>, 100)) || I <- lists:seq(1, 20)],
                      Others = [spawn_link(fun() -> receive never -> ok end end)
                                || _ <- lists:seq(1, 20)],
                      _ = [monitor(process, Other) || Other <- Others],
                      waits(Others)
              end),
    Me = self(),
    _ = spawn(fun() ->
                      Ref = monitor(process, P),
                      _ = [P ! {mail, binary:copy(<<2>>, 200)} || _ <- lists:seq(1, 5)],
                      %% Otherwise this process would hold them as well, and drop them at any time.
                      true = garbage_collect(),
                      Me ! {watches, P},
                      receive {'DOWN', Ref, process, P, _} -> ok end
              end),
    receive {watches, P} -> ok end,
    ok = sonde_test:settle(P),
    P.

waits(Kept) ->
    receive {run, From} -> From ! {ran, self()} end,
    waits(Kept).

runs(P) ->
    P ! {run, self()},
    receive {ran, P} -> ok end,
    sonde_test:settle(P).

%% Has room on its heap for a little, and one message.
suspended() ->
    P = spawn_opt(fun() -> receive never -> ok end end, [{min_heap_size, 1000}]),
    ok = sonde_test:settle(P),
    true = erlang:suspend_process(P),
    P ! {first, binary:copy(<<1>>, 100)},
    true = garbage_collect(),
    P.

%% The second message goes to the heap; for the third there is no room.
sends(P) ->
    P ! {second, binary:copy(<<2>>, 1000)},
    P ! {third, lists:seq(1, 5000), binary:copy(<<3>>, 10000)},
    true = garbage_collect(), % what is only in the messages is exclusive
    ok.

%% ---- in the node: readers that are held

%% For every attribute that has a stamp, held in both places: {Attr, Where, value of a scan before,
%% value of the held scan, value of a scan afterwards, how often the held scan was torn}.
held_scans(Start, Change) ->
    [begin
         P = Start(),
         Was = scan(P, Attr),
         #{torn := Before} = sonde_nif:counters(),
         Said = held(P, Where, fun() -> scan(P, Attr) end, fun() -> Change(P) end),
         #{torn := After} = sonde_nif:counters(),
         Now = scan(P, Attr),
         sonde_test:stop(P),
         {Attr, Where, Was, Said, Now, After - Before}
     end || Attr <- stamped(), Where <- [opened, walked]].

%% Three attributes are read as one word each and need no stamp.
stamped() ->
    (sonde_attr:native() -- [catchlevel, heap_size, reductions])
        ++ [garbage_bytes, bin_garbage, bin_garbage_bytes, bin_waste, flat_size, binary_unique,
            binary_exclusive].

%% Returns what Reader returns, held in that place while Change runs.
held(P, Where, Reader, Change) ->
    ok = sonde_nif:hold_reader(P, Where),
    {Pid, Ref} = spawn_monitor(fun() -> exit({said, Reader()}) end),
    ok = sonde_test:until({held, Where}, fun sonde_nif:is_reader_held/0),
    _ = Change(),
    true = sonde_nif:release_reader(),
    receive {'DOWN', Ref, process, Pid, {said, Said}} -> Said end.

%% Scans that process alone, on a dirty scheduler: while it is held there, it holds up nothing else.
scan(P, Attr) ->
    Scan = sonde_nif:scan_new(Attr, each, 0, [P], [], 0),
    scan(Scan, sonde_nif:scan_step(Scan), []).

scan(_Scan, done, Seen) -> Seen;
scan(Scan, more, Seen) -> scan(Scan, sonde_nif:scan_step(Scan), Seen);
scan(Scan, {rows, Rows}, Seen) -> scan(Scan, sonde_nif:scan_step(Scan), Rows ++ Seen);
scan(Scan, {ask, Pids}, Seen) ->
    ok = sonde_nif:scan_feed(Scan, []),
    scan(Scan, sonde_nif:scan_step(Scan), [{P, ask} || P <- Pids] ++ Seen).

values(Rows) -> lists:append([Values || {_, Values} <- Rows]).
