%% sonde never crashes the node by reading, and never changes how the node ends: other libraries
%% that handle SIGSEGV, a system that forbids the system call of the other reader, memory that goes
%% away under the reader, and faults of other code, which end the node as they would without sonde.
%% c_src/test/test_peek*.c tests the reader alone, without a node; life_SUITE tests failing
%% allocations.
%%
%% Each case has a node of its own. Cases that need a node's exit status start it through a shell.
-module(fault_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [a_handler_before_ours, handlers_over_ours, handlers_over_ours_all_kinds,
     handlers_change_while_others_scan, memory_goes_away,
     memory_goes_away_behind_a_handler_that_chains, signals_blocked_in_one_thread,
     syscall_reader_installs_nothing, few_words_at_once_where_they_are_dear,
     no_reader_before_the_proof, no_reader_after_it, no_reader_in_the_middle_of_a_window,
     no_reader_in_the_middle_of_bin_leak, refused_while_others_scan,
     looks_at_one_process_with_the_reader_of_now, faults_are_caught_by_what_is_loaded_again,
     the_handler_goes_without_a_purge, the_handler_goes_after_the_last_call,
     a_filter_that_kills_kills_nobody, builds_come_and_go, builds_leave_in_any_order, builds_over_a_stranger,
     true_faults_end_the_node, true_faults_end_it_in_the_middle_of_scans,
     true_faults_reach_who_was_there_before_us, sent_signals_end_the_node].

init_per_suite(Config0) ->
    ok = sonde_peer_helper:needs_test_build(),
    Config = sonde_test:init(Config0),
    Dir = filename:join(proplists:get_value(priv_dir, Config), "foreign"),
    case sonde_foreign_helper:build(Dir) of
        {ok, Dir} -> [{foreign, Dir} | Config];
        {skip, _} = Skip -> Skip
    end.

end_per_suite(_Config) -> ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), Case),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    [{dir, Dir} | Config].

end_per_testcase(_Case, _Config) -> ok.

%% ---- other libraries that handle SIGSEGV

%% Promise: sonde never crashes the node by reading, even if another library handled the signals
%% first.
a_handler_before_ours(Config) ->
    with(Config, [], fun(Peer) -> ok = call(Peer, handler_before_ours, []) end).

handler_before_ours() ->
    _ = [begin
             ok = sonde_foreign_helper:take_signals(Kind),
             right(guarded)
         end || Kind <- [chains]],
    Ours = sonde_test:pick(other, chains),
    [{Ours, true}, {Ours, true}] = sonde_foreign_helper:signals(),
    caught_fault(guarded),
    {0, 0} = sonde_foreign_helper:seen(),
    %% The library restores what it had before, which removes our handler; we do not install ours
    %% again.
    ok = sonde_foreign_helper:give_back(),
    right(syscall),
    [{default, false}, {default, false}] = sonde_foreign_helper:signals(),
    ok.

%% Promise: the first call after another library has replaced our handler notices that and reads by
%% system call; native() reports it, and answers stay right. Once our handler is restored, the call
%% uses it again.
handlers_over_ours(Config) ->
    with(Config, [], fun(Peer) -> ok = call(Peer, over_ours, []) end).

over_ours() ->
    right(guarded),
    _ = [begin
             Reader = take(Kind),
             Taken = sonde_foreign_helper:signals(),
             right(Reader),
             caught_fault(Reader),
             Taken = sonde_foreign_helper:signals(),
             {Kind, {0, 0}} = {Kind, sonde_foreign_helper:seen()},
             ok = sonde_foreign_helper:give_back(),
             right(guarded),
             caught_fault(guarded)
         end || Kind <- kinds()],
    %% One handler over the other.
    _ = [take(Kind) || Kind <- [chains, no_onstack, chains]],
    right(syscall),
    _ = [ok = sonde_foreign_helper:give_back() || _ <- [1, 2, 3]],
    right(guarded).

kinds() -> [chains, swallows, default, ignore, no_onstack].

%% The reader that sonde must use then. Where Erlang code runs on the stack of its thread, the VM
%% gives every handler SA_ONSTACK, whatever its library asked for; then our reader still works.
take(Kind) ->
    ok = sonde_foreign_helper:take_signals(Kind),
    case sonde_foreign_helper:signals() of
        [{other, true}, {other, true}] when Kind =:= no_onstack -> guarded;
        _ -> syscall
    end.

%% The same for every attribute and every kind of process.
handlers_over_ours_all_kinds(Config) ->
    with(Config, [], fun(Peer) -> ok = call(Peer, over_ours_all_kinds, []) end).

over_ours_all_kinds() ->
    reads_with(guarded),
    ok = sonde_foreign_helper:take_signals(swallows),
    reads_with(syscall),
    [] = sonde_kinds_helper:compare(sonde_kinds_helper:kinds(), sonde_attr:native()),
    reads_with(syscall).

%% Promise: answers stay right and the node lives while handlers come and go. (Nothing faults here:
%% if a load really faults behind a handler installed in the last millisecond, that handler decides
%% what happens.)
handlers_change_while_others_scan(Config) ->
    with(Config, [], fun(Peer) -> tell(call(Peer, change_handlers, [60])) end).

change_handlers(Rounds) ->
    reads_with(guarded),
    Scanners = scanners(3),
    Before = native_count(),
    _ = [change_handler(Kind) || _ <- lists:seq(1, Rounds), Kind <- kinds()],
    Scans = stop_scanners(Scanners),
    Native = native_count() - Before,
    {0, 0} = sonde_foreign_helper:seen(),
    right(guarded),
    #{scans => Scans, native => Native}.

change_handler(Kind) ->
    reads_with(take(Kind)),
    pause(),
    ok = sonde_foreign_helper:give_back(),
    reads_with(guarded),
    pause().

pause() -> _ = [erlang:yield() || _ <- lists:seq(1, rand:uniform(200))].

%% Processes that scan all the time and compare the values of quiet processes with the expected
%% ones.
scanners(N) ->
    Quiet = quiet(),
    Expected = [{Attr, official(Attr, Quiet)} || Attr <- [memory, binary_count, link_count]],
    Pids = [spawn_monitor(fun() -> scanner(Expected, Quiet, 0) end) || _ <- lists:seq(1, N)],
    ok = until_scanned(Pids),
    Pids.

%% Each of them has scanned at least once.
until_scanned(Pids) ->
    _ = [begin
             P ! {count, self()},
             receive {P, _} -> ok; {'DOWN', Mon, process, _, Why} -> error(Why) end
         end || {P, Mon} <- Pids],
    ok.

scanner(Expected, Quiet, N) ->
    receive
        stop -> exit({scans, N});
        {count, From} when N > 0 -> From ! {self(), N}, scanner(Expected, Quiet, N)
    after 0 ->
        _ = [{Attr, Values} = {Attr, found(Attr, Quiet)} || {Attr, Values} <- Expected],
        scanner(Expected, Quiet, N + 1)
    end.

stop_scanners(Pids) ->
    _ = [P ! stop || {P, _} <- Pids],
    [receive {'DOWN', Mon, process, _, Why} -> {scans, N} = Why, N end || {_, Mon} <- Pids].

%% ---- memory that goes away

%% Promise: a fault of ours becomes an answer; nobody sees a signal. Every block above 64 kB is a
%% mapping of its own, and is unmapped as soon as it is freed, under the scans.
memory_goes_away(Config) ->
    with(Config, unmaps(), fun(Peer) -> tell(call(Peer, unmap_under_scans, [1500])) end).

unmaps() -> ["+MMmcs", "0", "+MHsbct", "64", "+MBsbct", "64"].

unmap_under_scans(Ms) ->
    reads_with(guarded),
    Scanners = scanners(2),
    Swelling = swelling(8),
    timer:sleep(Ms),
    Scans = stop_scanners(Scanners),
    sonde_test:stop(Swelling),
    #{counters := Counters} = sonde:native(),
    right(guarded),
    Counters#{scans => Scans}.

%% Processes that grow to some hundred kilobytes, collect, and end. Others replace them until the
%% returned process is killed. On the native path, two walkers read them all the time.
swelling(N) ->
    Native = sonde_test:side() =:= native,
    spawn(fun() ->
                  _ = process_flag(trap_exit, true),
                  _ = [spawn_link(fun swell/0) || _ <- lists:seq(1, N)],
                  _ = [spawn_link(fun walker/0) || Native, _ <- [1, 2]],
                  replace_dead()
          end).

replace_dead() ->
    receive {'EXIT', _, normal} -> _ = spawn_link(fun swell/0), replace_dead() end.

%% Only walks the growing processes, one after the other.
walker() ->
    Scan = sonde_nif:scan_new(binary_count, top, 1, undefined, [], 1000000),
    ok = walk(Scan, sonde_nif:scan_step(Scan)),
    walker().

walk(_, done) ->
    ok;
walk(Scan, more) ->
    walk(Scan, sonde_nif:scan_step(Scan));
walk(Scan, {ask, Pids}) ->
    ok = sonde_nif:scan_feed(Scan, [{P, undefined} || P <- Pids]),
    walk(Scan, sonde_nif:scan_step(Scan)).

%% The walk over each is long: a chain of binaries runs through the whole heap, and each collection
%% moves it.
swell() ->
    Bins = bins(5000 + rand:uniform(5000)),
    _ = [begin
             receive after 1 -> ok end,
             garbage_collect()
         end || _ <- lists:seq(1, rand:uniform(10))],
    true = length(Bins) > 0,
    ok.

%% Promise: a handler that forwards unknown faults does no harm, even if it is installed in the
%% middle of a slice: our faults reach us through it.
memory_goes_away_behind_a_handler_that_chains(Config) ->
    with(Config, unmaps(), fun(Peer) -> tell(call(Peer, unmap_behind_handlers, [1500])) end).

unmap_behind_handlers(Ms) ->
    reads_with(guarded),
    Scanners = scanners(2),
    Swelling = swelling(8),
    change_handler_until(erlang:monotonic_time(millisecond) + Ms),
    Scans = stop_scanners(Scanners),
    sonde_test:stop(Swelling),
    #{counters := Counters} = sonde:native(),
    right(guarded),
    Counters#{scans => Scans, through_the_other => sonde_foreign_helper:seen()}.

change_handler_until(End) ->
    change_handler(chains),
    case erlang:monotonic_time(millisecond) < End of
        true -> timer:sleep(1), change_handler_until(End);
        false -> ok
    end.

%% ---- threads that cannot take the signals

%% Promise: each call checks at its entry whether the current thread can take a fault.
signals_blocked_in_one_thread(Config) ->
    with(Config, ["+S", "1:1", "+SDcpu", "1:1", "+SDio", "1"],
         fun(Peer) ->
                 ok = call(Peer, block_in_threads, []),
                 skip_if(call(Peer, block_and_refuse, []))
         end).

%% native() runs on a normal scheduler, scans on dirty ones.
block_in_threads() ->
    right(guarded),
    ok = sonde_foreign_helper:mask_signals(normal, block),
    right(syscall),
    caught_fault(syscall),
    ok = sonde_foreign_helper:mask_signals(normal, unblock),
    ok = sonde_foreign_helper:mask_signals(dirty_io, block),
    right(guarded).

block_and_refuse() ->
    case sonde_foreign_helper:deny_syscall() of
        ok ->
            %% on a small node the normal scheduler reads, too
            ok = sonde_foreign_helper:mask_signals(normal, block),
            Before = native_count(),
            answers_right(),
            Before = native_count(),
            ok = sonde_foreign_helper:mask_signals(normal, unblock),
            ok = sonde_foreign_helper:mask_signals(dirty_io, unblock),
            right(guarded);
        {skip, _} = Skip -> Skip
    end.

%% Promise: {sonde, [{reader, syscall}]} installs no handler. Neither does a node whose native path
%% is off.
syscall_reader_installs_nothing(Config) ->
    with(Config, ["-sonde", "reader", "syscall"],
         fun(Peer) -> ok = call(Peer, nothing_installed, [syscall]) end),
    with(Config, ["-sonde", "native", "off"],
         fun(Peer) -> ok = call(Peer, nothing_installed, [off]) end).

nothing_installed(Reader) ->
    Before = sonde_foreign_helper:signals(),
    [{default, false}, {default, false}] = Before,
    case Reader of
        syscall -> right(syscall), caught_fault(syscall);
        off -> #{status := {off, disabled}, reader := none} = sonde:native(), answers_right()
    end,
    Before = sonde_foreign_helper:signals(),
    ok.

%% Promise: no native call holds a scheduler for a millisecond, even if each word costs a system
%% call: then it measures fewer words at once.
few_words_at_once_where_they_are_dear(Config) ->
    with(Config, ["-sonde", "reader", "syscall"],
         fun(Peer) -> ok = call(Peer, measured_at_once, [sonde_test:side()]) end).

measured_at_once(native) ->
    reads_with(syscall),
    {200, 0} = sonde_nif:flat_quick(lists:seq(1, 100)),
    more = sonde_nif:flat_quick(lists:seq(1, 1000)),
    2000 = sonde:flat_size(lists:seq(1, 1000)),
    ok;
measured_at_once(portable) ->
    2000 = sonde:flat_size(lists:seq(1, 1000)),
    ok.

%% ---- the system call refused

%% Promise: without any reader, native() reports why and every call gives the same answer; when a
%% reader comes back, nothing has to be restarted.
no_reader_before_the_proof(Config) ->
    with(Config, ["+S", "1:1"], fun(Peer) -> skip_if(call(Peer, no_reader_first, [])) end).

no_reader_first() ->
    ok = sonde_foreign_helper:mask_signals(normal, block),
    case sonde_foreign_helper:deny_syscall() of
        ok ->
            right(none),
            #{layout := none, checks := []} = sonde:native(),
            right(none),
            ok = sonde_foreign_helper:mask_signals(normal, unblock),
            right(guarded);
        Skip -> Skip
    end.

no_reader_after_it(Config) ->
    with(Config, [], fun(Peer) -> skip_if(call(Peer, no_reader_later, [])) end).

no_reader_later() ->
    right(guarded),
    no_reader(fun() ->
                      right(none),
                      none = maps:get(reader, sonde:native()),
                      [{[_ | _], N, _} | _] = sonde:stacks(1000),
                      true = N >= 1,
                      [_ | _] = sonde:proc_group(initial_call, [memory]),
                      {native_off, _} =
                          try sonde:stacks(1, #{depth => 64}) catch error:Why -> Why end,
                      ok = sonde_foreign_helper:give_back(),
                      right(guarded),
                      caught_fault(guarded)
              end).

%% A foreign handler, and the system call refused.
no_reader(Then) ->
    ok = sonde_foreign_helper:take_signals(swallows),
    case sonde_foreign_helper:deny_syscall() of
        ok -> Then(), ok;
        Skip -> Skip
    end.

%% Promise: a call that is under way when the last reader goes away gives the same answer.
no_reader_in_the_middle_of_a_window(Config) ->
    with(Config, [], fun(Peer) -> skip_if(call(Peer, window_without_reader, [])) end).

window_without_reader() ->
    reads_with(guarded),
    [Still, Grows, Dies] = Pids = [mailbox(N) || N <- [6, 5, 4]],
    Caller = suspended_in_window(),
    no_reader(fun() ->
                      Born = mailbox(9),
                      fill(Grows, 7),
                      sonde_test:stop(Dies),
                      true = erlang:resume_process(Caller),
                      Rows = receive {Caller, R} -> R end,
                      [{Born, 9}, {Grows, 7}, {Dies, 4}, {Still, 0}] =
                          [{P, V} || {P, V, _} <- Rows, lists:member(P, [Born | Pids])],
                      right(none)
              end).

mailbox(N) ->
    Pid = spawn(fun sonde_kinds_helper:wait/0),
    fill(Pid, N).

fill(Pid, N) ->
    _ = [Pid ! I || I <- lists:seq(1, N)],
    ok = sonde_test:settle(Pid),
    Pid.

%% After its first look and before its second.
suspended_in_window() ->
    Parent = self(),
    Pid = spawn(fun() -> Parent ! {self(), sonde:proc_window(message_queue_len, 10000, 1000)} end),
    IsAsleep = fun() -> {_, {M, _, _}} = process_info(Pid, current_function), M =:= timer end,
    ok = sonde_test:until(asleep, fun() -> not is_process_alive(Pid) orelse IsAsleep() end),
    case is_process_alive(Pid) andalso erlang:suspend_process(Pid) andalso IsAsleep() of
        true -> Pid;
        false -> sonde_test:stop(Pid), suspended_in_window()
    end.

no_reader_in_the_middle_of_bin_leak(Config) ->
    Dir = proplists:get_value(dir, Config),
    with(Config, [], fun(Peer) -> skip_if(call(Peer, leak_without_reader, [Dir])) end).

%% A process that cannot collect keeps the call waiting between its two counts.
leak_without_reader(Dir) ->
    reads_with(guarded),
    Keeps = sonde_test:hold(fun() -> bins(5) end),
    Leaks = leaky(30),
    Dies = sonde_test:hold(fun() -> bins(7) end),
    {Blocked, _} = Block = sonde_test:block(Dir),
    All = lists:delete(self(), processes()),
    Parent = self(),
    Caller = spawn(fun() -> Parent ! {self(), sonde:bin_leak(10000, #{deadline => 60000})} end),
    ok = sonde_test:until(collected,
                          fun() -> sonde_kinds_helper:official(binary_count, Leaks) =:= 0 end),
    no_reader(fun() ->
                      sonde_test:stop(Dies),
                      ok = sonde_test:unblock(Block),
                      #{rows := Rows, skipped := 0} = receive {Caller, R} -> R end,
                      {Leaks, -30, [_ | _]} = lists:keyfind(Leaks, 1, Rows),
                      {Dies, 0, []} = lists:keyfind(Dies, 1, Rows),
                      {Keeps, 0, _} = lists:keyfind(Keeps, 1, Rows),
                      {Blocked, Few, _} = lists:keyfind(Blocked, 1, Rows), % the name of its file
                      true = Few =:= 0 orelse Few =:= -1,
                      true = length(Rows) =:= length(lists:ukeysort(1, Rows)),
                      [] = All -- [Parent | sonde_test:pids(Rows)],
                      right(none)
              end).

bins(N) -> [binary:copy(<<I>>, 100) || I <- lists:seq(1, N)].

%% Holds N binaries that a collection frees.
leaky(N) ->
    sonde_test:hold(fun() -> N = length(bins(N)), ok end, [{min_heap_size, 10000}]).

%% Promise: a native answer is right or discarded. A refusal in the middle of a scan must not make
%% processes look dead.
refused_while_others_scan(Config) ->
    Results = [with(Config, ["-sonde", "reader", "syscall"],
                    fun(Peer) -> call(Peer, refuse_while_scanning, []) end) || _ <- [1, 2, 3]],
    skip_if(hd(Results)).

refuse_while_scanning() ->
    reads_with(syscall),
    Scanners = scanners(4),
    Refused = sonde_foreign_helper:deny_syscall(),
    ok = until_scanned(Scanners),
    _ = stop_scanners(Scanners),
    case Refused of
        ok -> right(none);
        Skip -> Skip
    end.

%% ---- the library's other calls

%% Promise: each native call checks which reader works before it reads anything, arguments included.
looks_at_one_process_with_the_reader_of_now(Config) ->
    with(Config, [], fun(Peer) -> skip_if(call(Peer, reader_of_now, [])) end).

reader_of_now() ->
    reads_with(guarded),
    false = sonde_nif:unseal(true),
    [A, B] = [sonde_test:hold(fun() -> ok end) || _ <- [1, 2]],
    Less = fun() -> sonde_nif:probe(A, [id], less, B) end,
    Read = fun() -> sonde_nif:read(A, message_queue_len) end,
    [1, 0] = [Less(), Read()],
    no_reader(fun() ->
                      _ = [begin
                               [no_reader, no_reader] = [First(), Second()],
                               ok = sonde_foreign_helper:give_back(),
                               [Right, Other] = [First(), Second()],
                               [0, 1] = lists:sort([Right, Other]),
                               ok = sonde_foreign_helper:take_signals(swallows)
                           end || {First, Second} <- [{Less, Read}, {Read, Less}]]
              end).

%% Promise: whoever purges the module, no handler points into code that is gone.
faults_are_caught_by_what_is_loaded_again(Config) ->
    with(Config, [], fun(Peer) -> ok = call(Peer, load_again, []) end).

load_again() ->
    reads_with(guarded),
    _ = [begin
             true = code:delete(sonde_nif),
             _ = code:purge(sonde_nif),
             [{other, true}, {other, true}] = sonde_foreign_helper:signals(),
             reads_with(guarded),
             caught_fault(guarded)
         end || _ <- lists:seq(1, 5)],
    right(guarded).

%% Promise: sonde removes its handler when it leaves, even if nothing is purged.
the_handler_goes_without_a_purge(Config) ->
    with(Config, [], fun(Peer) -> ok = call(Peer, leave_and_come_back, [sonde_test:side()]) end).

leave_and_come_back(portable) ->
    reads_with(guarded),
    ok = leave(),
    bare();
leave_and_come_back(native) ->
    _ = [begin
             reads_with(guarded),
             caught_fault(guarded),
             [{other, true}, {other, true}] = sonde_foreign_helper:signals(),
             _ = code:purge(sonde_nif),
             ok = leave(),
             bare(),
             %% A caller that is still running finds no reader and does not bring the handler back.
             none = sonde_nif:reader(),
             true = code:delete(sonde_nif),
             bare()
         end || _ <- lists:seq(1, 5)],
    right(guarded).

%% Only the janitor may call leave/0, unless it is unsealed.
leave() ->
    false = sonde_nif:unseal(true),
    ok = sonde_nif:leave(),
    true = sonde_nif:unseal(false),
    ok.

bare() ->
    [{default, false}, {default, false}] = sonde_foreign_helper:signals(),
    ok.

%% While a read is under way, the handler stays until that read ends, even if its caller was killed.
the_handler_goes_after_the_last_call(Config) ->
    with(Config, [], fun(Peer) -> ok = call(Peer, leave_under_a_call, [sonde_test:side()]) end).

leave_under_a_call(portable) -> ok;
leave_under_a_call(native) ->
    _ = [begin
             reads_with(guarded),
             Pid = sonde_test:hold(fun() -> ok end),
             ok = sonde_nif:hold_reader(Pid, Where),
             {Caller, Mon} = spawn_monitor(fun() -> exit({value, read_slowly(Pid)}) end),
             ok = sonde_test:until({held, Where}, fun sonde_nif:is_reader_held/0),
             ok = leave(),
             [{other, true}, {other, true}] = sonde_foreign_helper:signals(),
             _ = [exit(Caller, kill) || Killed],
             none = sonde_nif:reader(),
             true = sonde_nif:release_reader(),
             receive {'DOWN', Mon, process, Caller, _} -> ok end,
             ok = sonde_test:until(gone, fun() ->
                      sonde_foreign_helper:signals() =:= [{default, false}, {default, false}]
                  end),
             _ = code:purge(sonde_nif),
             {module, sonde_nif} = code:load_file(sonde_nif),
             sonde_test:stop(Pid)
         end || Where <- [opened, walked], Killed <- [false, true]],
    right(guarded).

%% Runs on a dirty scheduler, so that the process that waits for it can go on.
read_slowly(Pid) ->
    Scan = sonde_nif:scan_new([memory], each, 0, [Pid], [], 1000),
    sonde_nif:scan_step(Scan).

%% ---- a filter that ends the node for a system call of ours

%% Promise: where the kernel filters system calls, sonde makes none that the VM does not make
%% itself, unless the application's environment allows it.
a_filter_that_kills_kills_nobody(Config) ->
    case sonde_foreign_helper:build_filtered(proplists:get_value(dir, Config)) of
        {ok, Program} ->
            case os:cmd(Program ++ " 0 erl -noshell -eval 'halt().'; echo $?") of
                "0\n" -> filtered_by(Program);
                _ -> {skip, "this VM alone ends under the filter: musl starts threads with membarrier"}
            end;
        Skip -> Skip
    end.

filtered_by(Program) ->
    Native = sonde_test:pick(["on"], ["off"]),
    Guarded = case {erlang:system_info(system_architecture), sonde_test:side()} of
                  {"x86_64" ++ _, native} -> "active guarded 0";
                  {_, native} -> "off none 0";
                  {_, portable} -> "off none 0"
              end,
    Guarded = filtered(Program, Native, ""),
    "off none 0" = filtered(Program, Native, " -sonde reader syscall"),
    %% If allowed, sonde tries the call, and the filter ends the node by signal 31.
    Allowed = filtered(Program, Native, " -sonde reader syscall -sonde seccomp allowed"),
    true = lists:suffix(sonde_test:pick("159", "off none 0"), Allowed),
    ok.

%% What a node under the filter reports about its reader, and how it ends.
filtered(Program, [Native], Args) ->
    Paths = string:join([filename:dirname(code:which(M)) || M <- [sonde, ?MODULE]], " "),
    string:trim(os:cmd(Program ++ " 0 erl -noshell -pa " ++ Paths ++ " -sonde native " ++ Native ++ Args
                       ++ " -run fault_SUITE tell_reader; echo $?")).

tell_reader() ->
    #{status := Status, reader := Reader} = sonde:native(),
    answers_right(),
    io:format("~s ~s ", [case Status of active -> active; {off, _} -> off end, Reader]),
    halt(0).

%% ---- other builds of sonde, each with a handler of its own over those of the others

%% Promise: after a rollback the previous build reads as it did before.
%% A handler that is sanitized takes so much of the VM's signal stack that 24 do not fit on each machine.
builds_come_and_go(Config) ->
    Builds = builds(case os:getenv("SONDE_SANITIZE", "") of "" -> 24; _ -> 8 end, Config),
    with(Config, [], fun(Peer) -> ok = call(Peer, come_and_go, [Builds]) end).

come_and_go(Builds) ->
    _ = [read_by(Build) || Build <- Builds],
    _ = [read_by(Build) || Build <- shuffled(Builds)],
    right(guarded).

read_by(Build) ->
    ok = sonde_builds_helper:load(Build),
    reads_with(guarded),
    caught_fault(guarded).

%% Whichever build leaves first: no build that is still loaded loses its handler, and after the last
%% one none is left.
builds_leave_in_any_order(Config) ->
    Builds = builds(5, Config),
    with(Config, [], fun(Peer) -> ok = call(Peer, leave_in_any_order, [Builds]) end).

leave_in_any_order(Builds) ->
    _ = [leave_in_order(Builds, shuffled(Builds))
         || sonde_test:side() =:= native, _ <- lists:seq(1, 8)],
    ok.

leave_in_order(Builds, Order) ->
    _ = [read_by(Build) || Build <- Builds],
    lists:foldl(fun(Build, [Build | Stay]) ->
                        ok = sonde_builds_helper:load(Build),
                        ok = leave(),
                        _ = [[{other, true}, {other, true}] = sonde_foreign_helper:signals()
                             || Stay =/= []],
                        _ = [read_by(Other) || Other <- Stay],
                        Stay
                end, Order, Order),
    bare().

%% A foreign handler in between that forwards nothing is noticed.
builds_over_a_stranger(Config) ->
    Builds = builds(2, Config),
    with(Config, [], fun(Peer) -> ok = call(Peer, over_a_stranger, [Builds]) end).

over_a_stranger([First, Second]) ->
    read_by(First),
    ok = sonde_foreign_helper:take_signals(swallows),
    read_by(Second),
    ok = sonde_builds_helper:load(First),
    reads_with(syscall),
    caught_fault(syscall),
    %% When the foreign library restores its handler, it removes ours over it, too.
    ok = sonde_foreign_helper:give_back(),
    reads_with(guarded),
    caught_fault(guarded),
    ok = sonde_builds_helper:load(Second),
    reads_with(syscall),
    caught_fault(syscall).

shuffled(List) -> [X || {_, X} <- lists:sort([{rand:uniform(), X} || X <- List])].

builds(N, Config) -> sonde_builds_helper:make(proplists:get_value(dir, Config), N).

%% ---- real faults: nodes whose parent sees how they end

%% Promise: a fault of other code ends the node by signal 11, and with a core file, as it would
%% without sonde.
true_faults_end_the_node(Config) ->
    same_end([{crash, normal}, {crash, dirty_cpu}, {crash, dirty_io}], [used], Config).

true_faults_end_it_in_the_middle_of_scans(Config) ->
    same_end([{crash, normal}, {crash, dirty_io}], [scanning], Config).

sent_signals_end_the_node(Config) ->
    same_end([{raise_segv, dirty_cpu}, killed], [used, scanning], Config).

same_end(Ends, Uses, Config) ->
    _ = [begin
             [{_, {139, _} = Without} | With] = ends(End, [unused | Uses], [], Config),
             tell({End, Without}),
             [] = [{End, Use, Status, Without} || {Use, Status} <- With, Status =/= Without]
         end || End <- Ends].

%% 43 is the exit status with which that handler ends the node.
true_faults_reach_who_was_there_before_us(Config) ->
    [{unused, {43, _}}, {used, {43, _}}, {scanning, {43, _}}] =
        ends({crash, normal}, [unused, used, scanning], [swallows], Config),
    [{unused, {139, _}}, {used, {139, _}}] =
        ends({crash, dirty_cpu}, [unused, used], [chains], Config).

%% The build for tests: a tool of the proof makes the fault, and the shipped build has sealed it.
%% The application file lies beside the shipped build.
shipped() -> filename:dirname(code:which(sonde)).

%% One node for each use, all at the same time: {exit status as a shell sees it, is there a core
%% file?}.
ends(End, Uses, Handlers, Config) ->
    Victims = [{Use, start_victim(End, Use, Handlers, Config)} || Use <- Uses],
    [{Use, end_of(End, Victim)} || {Use, Victim} <- Victims].

%% A core need not be whole: the limit is in units of 512 or 1024 bytes.
start_victim(End, Use, Handlers, Config) ->
    Name = integer_to_list(erlang:unique_integer([positive])),
    Dir = filename:join(proplists:get_value(dir, Config), Name),
    ok = file:make_dir(Dir),
    Script =
        "cd \"$1\" && shift && { ulimit -c 4096 2>/dev/null || :; } && \"$@\"; echo \"end $?\"",
    Erl = filename:join([code:root_dir(), "bin", "erl"]),
    Paths = [os:getenv("SONDE_TEST_EBIN"), filename:dirname(code:which(?MODULE)), "-pz", shipped()],
    Call = lists:flatten(io_lib:format("~s:victim(~p).",
                                       [?MODULE, {End, Use, Handlers, sonde_test:side(),
                                                  proplists:get_value(foreign, Config)}])),
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", Script, "sh", Dir, Erl, "-noinput", "-pa" | Paths]
                           ++ ["-eval", Call]},
                      {env, [{"ERL_CRASH_DUMP_SECONDS", "0"}]},
                      exit_status, stderr_to_stdout, binary]),
    {Port, Dir}.

end_of(End, {Port, Dir}) ->
    Said = listen(Port, End, <<>>),
    {match, [Status]} = re:run(Said, "end ([0-9]+)", [{capture, all_but_first, list}]),
    Cores = filelib:wildcard(filename:join(Dir, "*core*")),
    _ = [ok = file:delete(Core) || Core <- Cores],
    {list_to_integer(Status), Cores =/= []}.

listen(Port, End, Said) ->
    receive
        {Port, {data, Data}} ->
            Now = <<Said/binary, Data/binary>>,
            listen(Port, kill(End, Now), Now);
        {Port, {exit_status, _}} -> Said
    end.

%% Sent from outside, once the node has said that it is ready.
kill(killed, Said) ->
    case re:run(Said, "ready ([0-9]+)\n", [{capture, all_but_first, list}]) of
        {match, [OsPid]} -> "" = os:cmd("kill -SEGV " ++ OsPid), done;
        nomatch -> killed
    end;
kill(End, _Said) -> End.

%% Runs in the node that is to end.
victim({End, Use, Handlers, Side, Dir}) ->
    %% In case the process that started the node has been stopped meanwhile.
    _ = spawn(fun() -> timer:sleep(60000), halt(1) end),
    ok = sonde_foreign_helper:load(Dir),
    _ = [sonde_foreign_helper:take_signals(Kind) || Kind <- Handlers],
    use(Use, Side),
    case End of
        killed -> io:format("ready ~s~n", [os:getpid()]);
        {Function, Where} -> sonde_foreign_helper:Function(Where)
    end.

use(unused, _Side) -> ok;
use(Use, Side) ->
    ok = application:load(sonde),
    _ = [application:set_env(sonde, native, off) || Side =:= portable],
    _ = [active = maps:get(status, sonde:native()) || Side =:= native],
    [_] = sonde:proc_count(memory, 1),
    _ = [caught_fault(guarded) || Side =:= native],
    _ = [scanners(2) || Use =:= scanning],
    ok.

%% ---- checks

%% Uses that reader and answers right.
right(Reader) ->
    reads_with(Reader),
    Before = native_count(),
    answers_right(),
    true = native_count() > Before orelse Reader =:= none orelse sonde_test:side() =:= portable,
    reads_with(Reader).

reads_with(Reader) ->
    #{status := Status, reader := Found} = sonde:native(),
    Expected = case {sonde_test:side(), Reader} of
                   {portable, _} -> {{off, disabled}, none};
                   {native, none} -> {{off, {unsupported, no_reader}}, none};
                   {native, _} -> {active, Reader}
               end,
    Expected = {Status, Found},
    ok.

native_count() -> maps:get(native, maps:get(counters, sonde:native())).

%% A read at an address where nothing is: every reader reports it as torn, and a fault of the
%% guarded reader is counted.
caught_fault(Reader) ->
    case sonde_test:side() of
        native -> caught_native(Reader);
        portable -> ok
    end.

caught_native(Reader) ->
    Pid = sonde_test:hold(fun() -> ok end), % no dictionary: the pointer to it is NULL
    #{counters := #{faults := Before}} = sonde:native(),
    false = sonde_nif:unseal(true),
    torn = sonde_nif:probe(Pid, [dictionary, dict_count], value, none),
    true = sonde_nif:unseal(false),
    #{counters := #{faults := After}} = sonde:native(),
    Expected = case Reader of guarded -> 1; syscall -> 0 end,
    Expected = After - Before,
    sonde_test:stop(Pid).

%% Every call, about processes whose values are known.
answers_right() ->
    Quiet = quiet(),
    _ = [begin
             Official = official(Attr, Quiet),
             {Attr, Official} = {Attr, found(Attr, Quiet)}
         end || Attr <- sonde_attr:native() -- [reductions]],
    _ = [true = is_integer(V) || {_, V} <- sonde_kinds_helper:rows(reductions, Quiet)],
    Window = sonde:proc_window(binary_memory, 10000, 1),
    [0] = lists:usort([V || {P, V, _} <- Window, lists:member(P, Quiet)]),
    Leaky = leaky(20),
    Leaks = sonde:bin_leak(10000),
    {Leaky, -20, _} = lists:keyfind(Leaky, 1, Leaks),
    [0] = lists:usort([V || {P, V, _} <- Leaks, lists:member(P, Quiet)]),
    sonde_test:stop([Leaky | Quiet]).

%% Five processes with a little of everything, each different.
quiet() ->
    Pids = [sonde_test:hold(fun() -> little(N) end) || N <- lists:seq(1, 5)],
    _ = [[P ! I || I <- lists:seq(1, I0)] || {I0, P} <- lists:enumerate(Pids)],
    ok = sonde_kinds_helper:settle(Pids),
    _ = [process_info(P, memory) || P <- Pids],
    ok = sonde_kinds_helper:settle(Pids),
    Pids.

little(N) ->
    _ = [put(I, I) || I <- lists:seq(1, N)],
    _ = [monitor(process, init) || _ <- lists:seq(1, 2 * N)],
    Term = {lists:seq(1, 100 * N), bins(3 * N)},
    garbage_collect(),
    Term.

official(Attr, Pids) -> lists:sort([{P, sonde_kinds_helper:official(Attr, P)} || P <- Pids]).

found(Attr, Pids) -> lists:sort(sonde_kinds_helper:rows(Attr, Pids)).

tell(Term) -> ct:pal("~0p", [Term]).

%% ---- nodes

with(Config, Args, Fun) ->
    Peer = sonde_peer_helper:start(test, ["-pz", shipped() | Args]),
    try
        ok = sonde_peer_helper:call(Peer, sonde_foreign_helper, load,
                                    [proplists:get_value(foreign, Config)]),
        true = sonde_peer_helper:call(Peer, os, putenv,
                                      ["SONDE_SIDE", atom_to_list(sonde_test:side())]),
        Fun(Peer)
    after
        sonde_peer_helper:stop(Peer)
    end.

call(Peer, F, A) -> sonde_peer_helper:call(Peer, ?MODULE, F, A).

skip_if({skip, _} = Skip) -> Skip;
skip_if(ok) -> ok.
