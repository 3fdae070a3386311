%% What sonde:native/0 reports. Its proof succeeds on every kind of node, under load, for many
%% callers at once and whichever process is killed meanwhile, and leaves nothing behind.
-module(proof_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 3}}].

all() ->
    [status_is_as_documented, no_value_is_an_address,
     switched_off_and_on_it_answers_the_same, only_on_and_off_are_known,
     configured_off_it_is_proved_when_switched_on, proves_with_the_other_reader,
     proves_under_full_load, proves_while_everything_is_collected,
     disturbed_is_not_refuted, disturbed_is_tried_ever_more_rarely,
     names_that_are_taken, modules_that_do_not_load, killed_probes_hang_nobody,
     a_prover_that_is_stuck, on_proves_anew, proved_once_by_two_hundred,
     proves_on_one_scheduler, proves_with_off_heap_mailboxes, having_sent_to_itself_it_is_read, proves_with_other_settings,
     proves_in_the_interpreter, proves_when_tracing_of_new_processes_ends,
     many_first_callers_share_one_proof, killed_first_caller_spoils_nothing, no_caller_loads_the_library,
     killed_prover_leaves_nothing, nothing_stays_behind, no_message_for_the_caller].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% ---- the status

status_is_as_documented(_Config) ->
    with([], fun(Peer) -> documented(call(Peer, sonde, native, [])) end),
    documented(sonde:native()).

documented(Status) ->
    [arch, checks, counters, erts, flavor, layout, otp, reader, status] =
        lists:sort(maps:keys(Status)),
    #{status := Now, otp := Otp, erts := Erts, flavor := Flavor, arch := Arch, layout := Layout,
      reader := Reader, checks := Checks, counters := Counters} = Status,
    Otp = erlang:system_info(otp_release),
    Erts = erlang:system_info(version),
    Flavor = erlang:system_info(emu_flavor),
    Arch = erlang:system_info(system_architecture),
    [asked, busy, faults, native, torn] = lists:sort(maps:keys(Counters)),
    [] = [C || {_, N} = C <- maps:to_list(Counters), not is_integer(N) orelse N < 0],
    true = lists:member(Reader, [guarded, syscall, none]),
    case sonde_test:side() of
        native ->
            active = Now,
            true = is_atom(Layout) andalso Layout =/= none,
            [ok] = lists:usort([Result || {Name, Result} <- Checks, is_atom(Name)]),
            true = length(Checks) =:= length(lists:usort(Checks));
        portable ->
            {{off, disabled}, none, []} = {Now, Layout, Checks}
    end.

no_value_is_an_address(_Config) ->
    with([], fun(Peer) ->
                     [] = large(maps:remove(counters, call(Peer, sonde, native, []))),
                     _ = call(Peer, sonde, proc_count, [memory, 5]),
                     [] = large(call(Peer, sonde, native, []))
             end),
    [] = large({16#FFFFFFFF, "100000", ok, <<"x">>}),
    [16#100000000] = large([{a, #{b => [16#100000000]}}]).

%% Returns numbers of more than 32 bits, and any term that could hide one.
large(N) when is_integer(N) -> [N || abs(N) > 16#FFFFFFFF];
large(L) when is_list(L) -> lists:append([large(E) || E <- L]);
large(T) when is_tuple(T) -> large(tuple_to_list(T));
large(M) when is_map(M) -> large(maps:to_list(M));
large(A) when is_atom(A) -> [];
large(B) when is_binary(B) -> [];
large(Other) -> [Other].

%% ---- switches

switched_off_and_on_it_answers_the_same(_Config) ->
    with([], fun(Peer) ->
                     Pids = [call(Peer, ?MODULE, still, [N]) || N <- [1000, 2000, 3000]],
                     #{status := active, checks := Checks} = call(Peer, sonde, native, []),
                     Native = call(Peer, ?MODULE, answers, [Pids]),
                     #{status := {off, disabled}, checks := Checks, layout := Layout} =
                         call(Peer, sonde, native, [off]),
                     #{status := {off, disabled}} = call(Peer, sonde, native, []),
                     Native = call(Peer, ?MODULE, answers, [Pids]),
                     #{status := active, checks := Checks, layout := Layout} =
                         call(Peer, sonde, native, [on]),
                     Native = call(Peer, ?MODULE, answers, [Pids])
             end).

%% A process that keeps a list of N numbers and waits.
still(N) ->
    Pid = spawn(fun() -> L = lists:seq(1, N), receive stop -> L end end),
    ok = sonde_test:settle(Pid),
    Pid.

answers(Pids) ->
    [[{Pid, Value} || {Pid, Value, _} <- sonde:proc_count(Attr, 1000), lists:member(Pid, Pids)]
     || Attr <- sonde_attr:native(), Attr =/= reductions]. % asking makes it run

only_on_and_off_are_known(_Config) ->
    _ = [badarg = try sonde:native(X) catch error:Why -> Why end
         || X <- [true, false, undefined, 1, "on", <<"on">>, self(), {on}, []]],
    documented(sonde:native()).

configured_off_it_is_proved_when_switched_on(_Config) ->
    with(["-sonde", "native", "off"],
         fun(Peer) ->
                 ok = call(Peer, application, load, [sonde]),
                 #{status := {off, disabled}, checks := [], layout := none} =
                     call(Peer, sonde, native, []),
                 [_, _] = call(Peer, sonde, proc_count, [memory, 2]),
                 #{counters := #{native := 0}} = call(Peer, sonde, native, []),
                 #{status := active} = call(Peer, sonde, native, [on]),
                 [_, _] = call(Peer, sonde, proc_count, [memory, 2]),
                 #{counters := #{native := N}} = call(Peer, sonde, native, []),
                 true = N > 0
         end).

proves_with_the_other_reader(_Config) ->
    with(["-sonde", "reader", "syscall"],
         fun(Peer) ->
                 ok = call(Peer, application, load, [sonde]),
                 Pids = [call(Peer, ?MODULE, still, [N]) || N <- [1000, 2000, 3000]],
                 #{status := active, reader := syscall, counters := #{faults := 0}} =
                     call(Peer, sonde, native, []),
                 Answers = call(Peer, ?MODULE, answers, [Pids]),
                 #{counters := #{native := N}} = call(Peer, sonde, native, [off]),
                 true = N > 0,
                 Answers = call(Peer, ?MODULE, answers, [Pids])
         end).

%% ---- nodes of many kinds

%% Every scheduler is busy, and processes keep asking every process for everything.
proves_under_full_load(_Config) ->
    Items = [reductions, status, memory, message_queue_len, messages, binary, links, monitors,
             dictionary],
    with([], fun(Peer) -> active(Peer, load, [Items]) end).

proves_while_everything_is_collected(_Config) ->
    with([], fun(Peer) -> active(Peer, load, [garbage_collect]) end).

%% A disturbed proof is not final. While a process links to or monitors all others, the proof may
%% fail, but none of these disturbances refutes the layout, and afterwards the proof succeeds.
disturbed_is_not_refuted(_Config) ->
    _ = [with_test(fun(Peer) -> ok = call(Peer, ?MODULE, prove_beside, [What]) end)
         || What <- [monitor, link]],
    ok.

prove_beside(What) ->
    {Storm, Ref} = spawn_monitor(fun() -> process_flag(trap_exit, true), storm(What) end),
    Proofs = [begin
                  ok = sonde_nif:forget_proof(),
                  Status = maps:get(status, sonde_vm:native()),
                  [_, _, _] = sonde:proc_count(memory, 3),
                  Status
              end || _ <- lists:seq(1, 10)],
    Storm ! stop,
    receive {'DOWN', Ref, process, Storm, normal} -> ok end,
    [] = [Status || Status <- Proofs, Status =/= active, Status =/= {off, {probes_busy, 10}}],
    active = maps:get(status, sonde:native()),
    ok.

%% The disturbance may last while calls go on. Each further proof waits twice as long as the one
%% before it, 100 ms at first, so the elapsed time bounds their number on any machine.
disturbed_is_tried_ever_more_rarely(_Config) ->
    with([], fun(Peer) -> ok = call(Peer, ?MODULE, call_while_disturbed, [60]) end).

call_while_disturbed(Calls) ->
    Start = {sonde_probe, start, 0},
    {module, sonde_probe} = code:ensure_loaded(sonde_probe),
    1 = erlang:trace_pattern(Start, true, [call_count]),
    Proofs = fun() -> {call_count, N} = erlang:trace_info(Start, call_count), N div 10 end,
    _ = trace_new(true),
    From = erlang:monotonic_time(millisecond),
    _ = [[_, _, _] = sonde:proc_count(memory, 3) || _ <- lists:seq(1, Calls)],
    Ms = erlang:monotonic_time(millisecond) - From,
    true = Proofs() >= 1,
    {true, _, _} = {100 * ((1 bsl (Proofs() - 1)) - 1) =< Ms, Proofs(), Ms},
    #{status := {off, {probes_busy, 10}}} = Status = sonde:native(),
    false = is_map_key(retry, Status),
    _ = trace_new(false),
    #{status := active} = sonde:native(),
    ok.

%% Promise: a taken name does not matter.
names_that_are_taken(_Config) ->
    with([], fun(Peer) -> ok = call(Peer, ?MODULE, prove_without_names, []) end).

prove_without_names() ->
    Taken = [sonde_prover, sonde_probe_named, sonde_probe_named_2],
    _ = [true = register(Name, sonde_test:hold(fun() -> ok end)) || Name <- Taken],
    #{status := active} = sonde:native(),
    [_, _, _] = sonde:proc_count(memory, 3),
    [] = Taken -- registered(),
    ok.

%% Promise: if a module of the proof is missing or was compiled by another release, the portable
%% side answers at once and reports why; once the module is there, the layout is proved.
modules_that_do_not_load(Config) ->
    Beams = filename:dirname(code:which(sonde)),
    Dir = filename:join(proplists:get_value(priv_dir, Config), "part"),
    Ebin = filename:join(Dir, "ebin"),
    _ = [begin
             ok = filelib:ensure_dir(filename:join([Dir, Sub, "x"])),
             _ = [{ok, _} = file:copy(F, filename:join([Dir, Sub, filename:basename(F)]))
                  || F <- filelib:wildcard(filename:join([filename:dirname(Beams), Sub, "*"]))]
         end || Sub <- ["ebin", "priv"]],
    Beam = filename:join(Ebin, "sonde_probe_terms.beam"),
    {ok, Bytes} = file:read_file(Beam),
    _ = [sonde_peer_helper:with(bare, ["-pa", Ebin],
                                fun(Peer) -> ok = without(Peer, Beam, Bytes, Break) end)
         || Break <- [fun() -> file:delete(Beam) end,
                      fun() -> file:write_file(Beam, binary:part(Bytes, 0, 2000)) end]],
    ok.

without(Peer, Beam, Bytes, Break) ->
    ok = Break(),
    _ = call(Peer, logger, set_primary_config, [level, none]),
    {Us, #{status := {off, {not_loaded, "the module sonde_probe_terms" ++ _}}}} =
        call(Peer, timer, tc, [sonde, native, []]),
    true = Us < 5000000,
    3 = length(call(Peer, sonde, proc_count, [memory, 3])),
    undefined = call(Peer, sonde_nif, prover, []),
    ok = file:write_file(Beam, Bytes),
    #{status := active} = call(Peer, sonde, native, [on]),
    ok.

%% Promise: a probe, or the guard of all probes, may die at any time, and no caller hangs.
killed_probes_hang_nobody(_Config) ->
    with_test(fun(Peer) -> ok = call(Peer, ?MODULE, kill_probes, []) end).

kill_probes() ->
    _ = logger:set_primary_config(level, none),
    #{status := active} = sonde:native(),
    Before = leftovers(),
    Killed = [prove_and_kill(Us, Which) || Us <- lists:seq(0, 2950, 50) ++ lists:seq(3000, 9000, 300),
                                           Which <- [first, last, any]],
    true = lists:member(true, Killed),
    #{status := active} = sonde:native(on),
    ok = sonde_test:until(nothing_left, fun() -> is_no_more(leftovers(), Before) end).

%% Kills one of the processes that the prover has started, if there is one yet. The first one is the guard.
prove_and_kill(Us, Which) ->
    ok = sonde_nif:forget_proof(),
    Others = processes(),
    {Caller, Mon} = spawn_monitor(fun() -> exit(maps:get(status, sonde_vm:native())) end),
    Prover = found(100000),
    spin(Us),
    New = [P || P <- processes() -- (Others ++ Prover ++ [Caller]), not is_helper(P)],
    _ = [exit(case Which of
                  first -> hd(New);
                  last -> lists:last(New);
                  any -> lists:nth(rand:uniform(length(New)), New)
              end, kill) || New =/= []],
    Status = receive {'DOWN', Mon, process, _, Said} -> Said after 20000 -> hangs end,
    {Us, Which, true} = {Us, Which, lists:member(Status, [active, {off, {probes_busy, 10}}])},
    New =/= [].

is_helper(P) -> process_info(P, initial_call) =:= {initial_call, {sonde_vm, helper, 1}}.

%% Promise: the prover has a deadline; from then on the portable side answers, and reports why.
a_prover_that_is_stuck(_Config) ->
    with_test(fun(Peer) -> ok = call(Peer, ?MODULE, stop_the_prover, []) end).

stop_the_prover() ->
    #{status := active} = sonde:native(),
    Before = leftovers(),
    {_, Mon} = suspended_prover(fun() -> exit({rows, length(sonde:proc_count(memory, 3))}) end),
    {Us, [_, _, _]} = timer:tc(sonde, proc_count, [memory, 3]),
    true = Us > 10000000 andalso Us < 40000000,
    receive {'DOWN', Mon, process, _, {rows, 3}} -> ok after 10000 -> error(hangs) end,
    #{status := {off, {disturbed, prover_late}}} = sonde_nif:status(),
    {Quick, [_, _, _]} = timer:tc(sonde, proc_count, [memory, 3]),
    true = Quick < 5000000,
    #{status := active} = sonde:native(on),
    ok = sonde_test:until(nothing_left, fun() -> is_no_more(leftovers(), Before) end).

%% Suspends the prover in the middle of its work for this first caller.
suspended_prover(Fun) ->
    ok = sonde_nif:forget_proof(),
    {_, Mon} = Caller = spawn_monitor(Fun),
    [Prover] = found(1000000),
    case try erlang:suspend_process(Prover) catch error:_ -> false end of
        true ->
            case {sonde_nif:state(), sonde_nif:status()} of
                {none, undefined} -> {Prover, Mon};
                _ -> erlang:resume_process(Prover), again(Caller, Fun)
            end;
        false ->
            again(Caller, Fun)
    end.

again({_, Mon}, Fun) ->
    receive {'DOWN', Mon, process, _, _} -> suspended_prover(Fun) end.

%% Promise: native(on) repeats a proof that failed or was not tried; a successful proof stays.
on_proves_anew(_Config) ->
    with_test(fun(Peer) -> ok = call(Peer, ?MODULE, switch_on_anew, []) end).

switch_on_anew() ->
    ok = sonde_nif:set_offset(heap, 0),
    #{status := {off, {check, heap}}} = sonde:native(),
    ok = sonde_nif:set_offset(none, 0),
    #{status := {off, {check, heap}}} = sonde:native(),
    #{status := active} = sonde:native(on),
    {module, sonde_probe} = code:ensure_loaded(sonde_probe),
    1 = erlang:trace_pattern({sonde_probe, start, 0}, true, [call_count]),
    #{status := active} = sonde:native(on),
    {call_count, 0} = erlang:trace_info({sonde_probe, start, 0}, call_count),
    ok.

%% Promise: there is one proof, however many call meanwhile. The prover is held until all have
%% called.
proved_once_by_two_hundred(_Config) ->
    with_test(fun(Peer) -> ok = call(Peer, ?MODULE, prove_once, [200]) end).

prove_once(N) ->
    #{status := active} = sonde:native(),
    {Prover, First} = suspended_prover(fun() -> exit(maps:remove(counters, sonde:native())) end),
    1 = erlang:trace_pattern({sonde_probe, start, 0}, true, [call_count]),
    1 = erlang:trace_pattern({sonde_vm, try_table, 2}, true, [call_count]),
    Call = fun() -> exit(maps:remove(counters, sonde:native())) end,
    Callers = [First | [Mon || {_, Mon} <- [spawn_monitor(Call) || _ <- lists:seq(2, N)]]],
    Waiting = fun() -> length([P || P <- processes(), is_helper(P)]) > N end, % plus the watcher
    ok = sonde_test:until(all_wait, Waiting),
    true = erlang:resume_process(Prover),
    Said = [receive {'DOWN', Mon, process, _, Answer} -> Answer end || Mon <- Callers],
    [#{status := active}] = lists:usort(Said),
    Count = fun(MFA) -> {call_count, C} = erlang:trace_info(MFA, call_count), C end,
    {true, _, _} = {Count({sonde_probe, start, 0}) + Count({sonde_vm, try_table, 2}) =< most(hd(Said)),
                    Count({sonde_probe, start, 0}), Count({sonde_vm, try_table, 2})},
    ok.

%% Each table that is tried has probes of its own. Those of the first may have been started before the count began.
most(#{layout := Layout}) -> max(2, 2 * tried(Layout) - 1).

%% As many tables of this release were tried as stand before this one, and this one.
tried(Layout) ->
    Release = list_to_integer(erlang:system_info(otp_release)),
    Names = [Name || {_, Name, Otp, _, _, _} <- sonde_nif:tables(), Otp =:= Release],
    length(lists:takewhile(fun(Name) -> Name =/= Layout end, Names)) + 1.

%% It ends by itself: killing it would send exit signals to all its links. What it binds stays for a
%% while, so that a probe has more links or monitors at each look.
storm(What) ->
    Bound = lists:append([bind_all(What) || _ <- lists:seq(1, 20)]),
    receive stop -> ok
    after 0 -> free_all(What, Bound), storm(What)
    end.

bind_all(monitor) -> [monitor(process, P) || P <- processes()];
bind_all(link) -> [P || P <- processes(), P =/= self(), try link(P) catch error:noproc -> false end].

free_all(monitor, Refs) -> lists:foreach(fun(Ref) -> demonitor(Ref, [flush]) end, Refs);
free_all(link, Pids) ->
    lists:foreach(fun erlang:unlink/1, Pids),
    flush().

flush() -> receive {'EXIT', _, _} -> flush() after 0 -> ok end.

active(Peer, Function, Args) ->
    ok = call(Peer, ?MODULE, Function, Args),
    %% beside other work, a proof may be disturbed at each of its tries; a later call begins another one
    ok = sonde_test:until(active, fun() -> active =:= maps:get(status, call(Peer, sonde, native, [])) end),
    3 = length(call(Peer, sonde, proc_count, [memory, 3])).

load(What) ->
    _ = [spawn(fun Hog() -> Hog() end) || _ <- lists:seq(1, 2 * erlang:system_info(schedulers))],
    _ = [spawn(fun Ask() -> _ = [ask(P, What) || P <- processes()], Ask() end)
         || _ <- lists:seq(1, erlang:system_info(schedulers))],
    ok.

ask(Pid, garbage_collect) -> erlang:garbage_collect(Pid);
ask(Pid, Items) -> process_info(Pid, Items).

proves_on_one_scheduler(_Config) ->
    works_with([["+S", "1"], ["+S", "1:1", "+SDcpu", "1:1", "+SDio", "1"]]).

proves_with_off_heap_mailboxes(_Config) ->
    works_with([["+hmqd", "off_heap"]]).

%% The state of a process that sent to itself has a bit, which in newer releases tells that messages wait. Asking it
%% would clear the bit.
having_sent_to_itself_it_is_read(_Config) ->
    #{status := active} = sonde:native(),
    P = spawn_opt(fun() -> self() ! told, receive told -> receive stop -> ok end end end,
                  [{message_queue_data, off_heap}]),
    ok = sonde_test:until(read, fun() -> sonde_nif:read(P, message_queue_len) =:= 0 end),
    ok = sonde_test:stop(P).

proves_with_other_settings(_Config) ->
    works_with([["+sub", "true"], ["+hms", "100000"], ["+hmbs", "1000000"], ["+hmax", "10000000"],
                ["+P", "legacy"], ["+P", "1024"], ["+Mea", "min"], ["+pc", "unicode"],
                ["+c", "false"],                ["+A", "4"], ["+hpds", "500"]]).

proves_in_the_interpreter(_Config) ->
    case length(filelib:wildcard(filename:join(code:root_dir(), "erts-*/bin/beam.emu.smp"))) of
        0 -> {skip, "this Erlang comes without the interpreter"};
        _ -> works_with([["-emu_flavor", "emu"]])
    end.

works_with(Settings) ->
    [] = [{Args, Result} || Args <- Settings, Result <- [works_with_one(Args)], Result =/= ok].

works_with_one(Args) ->
    with(Args, fun(Peer) ->
                       #{status := Status, checks := Checks} = call(Peer, sonde, native, []),
                       Pid = call(Peer, ?MODULE, still, [100000]),
                       Rows = call(Peer, sonde, proc_count, [memory, 1000]),
                       {memory, Bytes} = call(Peer, erlang, process_info, [Pid, memory]),
                       case Status of
                           active ->
                               {_, Bytes, _} = lists:keyfind(Pid, 1, Rows),
                               ok;
                           _ -> {Status, [C || {_, {failed, _, _}} = C <- Checks]}
                       end
               end).

%% A traced process cannot be compared, but that is not a lasting reason.
proves_when_tracing_of_new_processes_ends(_Config) ->
    with([], fun(Peer) ->
                     Tracer = call(Peer, ?MODULE, trace_new, [true]),
                     #{status := {off, {probes_busy, _}}} = call(Peer, sonde, native, []),
                     3 = length(call(Peer, sonde, proc_count, [memory, 3])),
                     Tracer = call(Peer, ?MODULE, trace_new, [false]),
                     #{status := active} = call(Peer, sonde, native, [])
             end).

trace_new(How) ->
    _ = [register(tracer, spawn(fun Eat() -> receive _ -> Eat() end end))
         || whereis(tracer) =:= undefined],
    Tracer = whereis(tracer),
    _ = erlang:trace(new, How, [procs, 'receive'] ++ [{tracer, Tracer} || How]),
    Tracer.

%% ---- callers, and killed processes

%% It begins once for each table of this release, until one fits.
many_first_callers_share_one_proof(_Config) ->
    with([], fun(Peer) ->
        {[#{layout := Table}], Starts} = call(Peer, ?MODULE, many_first_callers, [200]),
        {Starts, Starts} = {tried(Table), Starts}
    end).

many_first_callers(N) ->
    {module, _} = code:ensure_loaded(sonde_probe),
    1 = erlang:trace_pattern({sonde_probe, start, 0}, true, [call_count]),
    Caller = fun() -> receive go -> exit(maps:remove(counters, sonde:native())) end end,
    Callers = [spawn_monitor(Caller) || _ <- lists:seq(1, N)],
    _ = [Pid ! go || {Pid, _} <- Callers],
    Answers = [receive {'DOWN', Mon, process, _, Answer} -> Answer end || {_, Mon} <- Callers],
    [#{status := active}] = Same = lists:usort(Answers),
    {call_count, Starts} = erlang:trace_info({sonde_probe, start, 0}, call_count),
    {Same, Starts}.

killed_first_caller_spoils_nothing(_Config) ->
    with([], fun(Peer) -> ok = call(Peer, ?MODULE, kill_first_callers, []) end).

kill_first_callers() ->
    Before = leftovers(),
    Ends = [begin
                {Pid, Mon} = spawn_monitor(sonde, native, []),
                spin(Us),
                exit(Pid, kill),
                receive {'DOWN', Mon, process, _, Why} -> Why end
            end || Us <- lists:seq(0, 2000, 100)],
    true = lists:member(killed, Ends),
    #{status := active} = sonde:native(),
    ok = sonde_test:until(nothing_left, fun() -> is_no_more(leftovers(), Before) end).

%% On OTP 26.1 and later releases of 26 the node ends if a process dies while it loads a module whose on_load runs.
%% Tracing would disturb a proof.
no_caller_loads_the_library(_Config) ->
    _ = [with(["-sonde", "native", "off"], fun(Peer) -> {Call, []} = {Call, call(Peer, ?MODULE, callers_that_load, [Call])} end)
         || Call <- [{native, []}, {native, [off]}, {proc_count, [memory, 1]}, {bin_leak, [1]}, {heap, [self()]}]],
    ok.

callers_that_load({Function, Args}) ->
    false = erlang:module_loaded(sonde_nif),
    1 = erlang:trace_pattern({code, ensure_loaded, 1}, [{[sonde_nif], [], []}], []),
    _ = erlang:trace(all, true, [call]),
    {Caller, Mon} = spawn_monitor(sonde, Function, [case Arg of _ when is_pid(Arg) -> self(); _ -> Arg end || Arg <- Args]),
    receive {'DOWN', Mon, process, _, Why} -> normal = Why end,
    _ = erlang:trace(all, false, [call]),
    Loaders = traced_calls(),
    true = Loaders =/= [] andalso erlang:module_loaded(sonde_nif),
    [Pid || Pid <- Loaders, Pid =:= Caller].

traced_calls() ->
    receive {trace, Pid, call, _} -> [Pid | traced_calls()]
    after 100 -> []
    end.

%% The prover is killed at any moment of its work.
killed_prover_leaves_nothing(_Config) ->
    with_test(fun(Peer) -> ok = call(Peer, ?MODULE, kill_provers, []) end).

kill_provers() ->
    _ = [code:ensure_loaded(M) || M <- [sonde_vm, sonde_probe, sonde_attr]],
    Before = leftovers(),
    ok = kill_provers(30, 0),
    ok = sonde_nif:forget_proof(),
    #{status := active} = sonde:native(),
    ok = sonde_test:until(nothing_left, fun() -> is_no_more(leftovers(), Before) end).

%% On a busy machine many provers finish before they are killed.
kill_provers(0, _) -> ok;
kill_provers(Wanted, Tried) when Tried < 5000 ->
    case kill_prover(50 + 350 * Tried rem 12000) of
        true -> kill_provers(Wanted - 1, Tried + 1);
        false -> kill_provers(Wanted, Tried + 1)
    end.

kill_prover(Us) ->
    ok = sonde_nif:forget_proof(),
    {_, Mon} = spawn_monitor(fun() -> exit(maps:get(status, sonde_vm:native())) end),
    Prover = found(100000),
    spin(Us),
    _ = [exit(P, kill) || P <- Prover],
    receive
        {'DOWN', Mon, process, _, active} -> false;
        {'DOWN', Mon, process, _, {off, {disturbed, prover_died}}} -> true
    end.

found(0) -> [];
found(Tries) ->
    case sonde_nif:prover() of
        undefined -> found(Tries - 1);
        Pid -> [Pid]
    end.

spin(Us) -> spin_until(erlang:monotonic_time(microsecond) + Us).

spin_until(End) ->
    case erlang:monotonic_time(microsecond) < End of
        true -> spin_until(End);
        false -> ok
    end.

leftovers() ->
    {length(processes()), lists:sort(registered()), length(erlang:ports()), length(ets:all())}.

%% The probes of a proof end a moment after it, so the earlier count may still include some.
is_no_more({Processes, Names, Ports, Tables}, {Processes0, Names0, Ports0, Tables0}) ->
    Processes =< Processes0 andalso Names -- Names0 =:= [] andalso Ports =< Ports0
        andalso Tables =< Tables0.

nothing_stays_behind(_Config) ->
    with_test(fun(Peer) -> ok = call(Peer, ?MODULE, prove_often, []) end).

prove_often() ->
    #{status := active} = sonde_vm:native(),
    Before = leftovers(),
    _ = [begin
             ok = sonde_nif:forget_proof(),
             #{status := active} = sonde_vm:native()
         end || _ <- lists:seq(1, 20)],
    sonde_test:until(nothing_left, fun() -> is_no_more(leftovers(), Before) end).

no_message_for_the_caller(_Config) ->
    with([], fun(Peer) -> [] = call(Peer, ?MODULE, mailbox_after, []) end).

mailbox_after() ->
    _ = sonde:native(),
    _ = sonde:proc_count(memory, 3),
    _ = sonde:native(off),
    _ = sonde:native(on),
    timer:sleep(50),
    {messages, Messages} = process_info(self(), messages),
    Messages.

%% ---- peers

with(Args, Fun) -> sonde_peer_helper:with(shipped, Args, Fun).

%% Runs the test build, in which a proof can be forgotten.
with_test(Fun) -> sonde_peer_helper:with(test, [], Fun).

call(Peer, M, F, A) -> sonde_peer_helper:call(Peer, M, F, A).
