%% @private Decides between the native and the portable path: it proves the memory layout once for
%% the node.
%%
%% The proof runs at the first call, in a separate process; the library keeps its outcome, and
%% callers that come meanwhile wait for it. There are three outcomes: proved; refuted, if the same
%% check fails in the same way on three fresh sets of probes; and disturbed, for anything else,
%% which later calls retry less and less often. No caller waits forever.
-module(sonde_vm).

-export([library/0, side/0, must_be_native/0, native/0, native/1]).
-export([helper/1]). % initial call of sonde's own processes
-export_type([status/0, reason/0]).

-type reason() :: disabled | reloaded | {not_loaded, string()} | {unsupported, term()}
                | {check, atom()} | {probes_busy, Tries :: pos_integer()}
                | {disturbed, prover_died | prover_late}.
-type check() :: {atom(), ok | not_run | {failed, Expected :: term(), Found :: term()}}.
-type status() :: #{status := active | {off, reason()}, otp := string(), erts := string(),
                    flavor := jit | emu, arch := string(), layout := atom(),
                    reader := guarded | syscall | other | core | none, checks := [check()],
                    counters := #{native | busy | torn | asked | faults := non_neg_integer()}}.

-define(TRIES, 10).
-define(WAIT_MS, 100).
-define(WAIT_MAX_MS, 60000).
-define(SAME, 3).   % failures of one check in a row refute a table
%% What survives a change of library: which library is configured, and how.
-define(INSTANCE, 1).
-define(NATIVE, 2).
-define(READER, 3).
-define(ON, 0).
-define(OFF, 1).
-define(SYSCALL, 1).
-define(SECCOMP, 4).
-define(ALLOWED, 1).
-define(TURNOVER_TRIES, 20).
-define(OWN_TRIES, 5).
-define(LOOKS, 20). % at a probe that another process disturbs
-define(DEADLINE_MS, 30000). % of the prover
-define(IS_DISTURBED(Why), (Why =:= probes_busy orelse Why =:= disturbed orelse Why =:= not_loaded)).
-define(PATIENCE_MS, 32000). % of a process that waits for it
%% A proof needs them all, and the loader may refuse what another release has compiled.
-define(MODULES, [sonde_probe, sonde_probe_terms, sonde_attr]).

%% @doc Returns the path that answers now. Cheap once the layout is proved.
-spec side() -> native | {portable, reason()}.
side() ->
    case library() of
        true -> side(sonde_nif:state());
        NotLoaded -> {portable, NotLoaded}
    end.

side(on) -> native;
side(off) -> {portable, disabled};
side(none) ->
    Outcome = outcome(call),
    case {sonde_nif:state(), Outcome} of
        {none, #{status := {off, Why}}} -> {portable, Why};
        {State, _} -> side(State)
    end.

%% @doc Returns `true', or why the library is not loaded. Nothing of it may be called before this.
%%
%% If a process dies while it loads a module whose `on_load' runs, the code server of OTP 26.1 and later releases of
%% 26 dies with it, and so the node. A caller may be killed at any time, so a helper loads the library.
-spec library() -> true | {not_loaded, string()}.
library() ->
    case is_here() orelse load() of
        true -> sonde_nif:loaded();
        false -> {not_loaded, "it was not loaded in time"}
    end.

is_here() -> erlang:module_loaded(sonde_nif) orelse sonde_remote_name:is_lent().

load() ->
    try by_helper(load), is_here()
    catch error:system_limit -> false
    end.

%% @doc Raises `{native_off, Reason}' if the native path is off. For calls without a portable path.
-spec must_be_native() -> ok.
must_be_native() ->
    case side() of
        native -> ok;
        {portable, Why} -> error({native_off, Why})
    end.

%% @doc Returns the result of `sonde:native/0'.
-spec native() -> status().
native() ->
    case library() of
        true -> complete(loaded_status());
        NotLoaded -> complete(off(NotLoaded))
    end.

loaded_status() ->
    Outcome = case sonde_nif:state() of
                  off -> proved();
                  _ -> outcome(status)
              end,
    with_reader(sonde_nif:state(), maps:remove(retry, Outcome#{counters => sonde_nif:counters()})).

%% To find out which reader works, the library must prepare it, which may install a signal handler:
%% not if the native path is off.
with_reader(off, Outcome) -> Outcome#{status => {off, disabled}};
with_reader(_, Outcome) ->
    case sonde_nif:reader() of
        none -> Outcome#{status => {off, {unsupported, no_reader}}};
        Reader -> Outcome#{reader => Reader}
    end.

proved() ->
    case sonde_nif:status() of
        undefined -> off(disabled);
        Outcome -> Outcome
    end.

off(Why) -> #{status => {off, Why}, layout => none, checks => []}.

complete(Outcome) ->
    maps:merge(#{otp => erlang:system_info(otp_release), erts => erlang:system_info(version),
                 flavor => erlang:system_info(emu_flavor),
                 arch => erlang:system_info(system_architecture), reader => none,
                 counters => #{native => 0, busy => 0, torn => 0, asked => 0, faults => 0}},
               Outcome).

%% @doc Switches by hand. A proof stays valid; without one, `on' runs it again.
-spec native(on | off) -> status().
native(OnOff) when OnOff =:= on; OnOff =:= off ->
    _ = [by_helper({switch, OnOff}) || library() =:= true],
    native();
native(_) ->
    error(badarg).

%% Only a process with its initial call in this module may switch the library, and prove.
by_helper(What) ->
    {Pid, Mon} = spawn_opt(?MODULE, helper, [What], [monitor, {max_heap_size, 0}]),
    receive
        {'DOWN', Mon, process, Pid, _} -> done
    after ?PATIENCE_MS ->
        demonitor(Mon, [flush]),
        late
    end.

%% @doc The body of sonde's own processes.
-spec helper(load | {switch, on | off} | prove | {stay, pid()} | {watch, pid()}) -> ok.
helper(load) ->
    _ = code:ensure_loaded(sonde_nif),
    ok;
helper({switch, OnOff}) ->
    Kept = configure(),
    ok = atomics:put(Kept, ?NATIVE, map_get(OnOff, #{on => ?ON, off => ?OFF})),
    ok = sonde_nif:switch(OnOff),
    %% this changes nothing if the layout is proved
    _ = [sonde_nif:put_status(undefined) || OnOff =:= on],
    ok;
helper(prove) ->
    try sonde_retry:run(fun prover/0)
    catch error:{native_off, reloaded} -> ok
    end;
helper({stay, Prover}) ->
    Mon = monitor(process, Prover),
    receive
        go -> ok;
        {'DOWN', Mon, process, _, _} -> ok
    end;
helper({watch, Prover}) ->
    watch(Prover).

%% ---- the proof ----------------------------------------------------------------------------------

%% Returns the outcome, after a proof if there is none yet. If a proof found the probes busy, later
%% calls retry it less and less often, because the disturbance may persist and each try costs some
%% tenths of a second. `sonde:native()' retries at once. If it found no reader, it is retried once
%% there is one.
outcome(For) ->
    Outcome = sonde_nif:status(),
    case is_lasting(Outcome) orelse (For =:= call andalso is_too_early(Outcome)) of
        true -> Outcome;
        false -> prove()
    end.

is_too_early(#{retry := {NotBefore, _}}) -> erlang:monotonic_time(millisecond) < NotBefore;
is_too_early(_) -> false.

%% `undefined': no proof was tried, or a new one is requested.
is_lasting(undefined) -> false;
is_lasting(#{status := {off, {Why, _}}}) when ?IS_DISTURBED(Why) -> false;
is_lasting(#{status := {off, {unsupported, no_reader}}}) -> sonde_nif:reader() =:= none;
is_lasting(_) -> true.

prove() ->
    try by_helper(prove) of
        late -> off({disturbed, prover_late});
        done ->
            case sonde_nif:status() of
                undefined -> off({disturbed, prover_died});
                Outcome -> Outcome
            end
    catch
        error:system_limit -> off({probes_busy, 1})
    end.

%% The first caller proves, the others wait for it.
prover() ->
    case sonde_nif:prover_begin() of
        ok ->
            try is_lasting(sonde_nif:status()) orelse prover_run(), ok
            after sonde_nif:prover_end()
            end;
        proved ->
            ok;
        {busy, Prover} ->
            Mon = monitor(process, Prover),
            receive {'DOWN', Mon, process, _, _} -> ok after ?PATIENCE_MS -> ok end
    end.

prover_run() ->
    _ = configure(),
    case sonde_nif:state() of
        off -> ok;
        _ ->
            %% a killed probe also ends the port that it is linked to, which this process owns
            _ = process_flag(trap_exit, true),
            Outcome = try
                          _ = spawn(?MODULE, helper, [{watch, self()}]),
                          run_loaded(not_loaded())
                      catch error:system_limit -> off({probes_busy, 1})
                      end,
            keep(Outcome)
    end.

keep(#{status := active}) -> ok; % the library kept it when it was adopted
keep(Outcome) ->
    _ = sonde_nif:put_status(with_retry(Outcome, sonde_nif:status())),
    ok.

%% A prover that is stuck, or killed, also leaves an outcome; its probes end with it.
watch(Prover) ->
    Mon = monitor(process, Prover),
    receive
        {'DOWN', Mon, process, _, normal} -> ok;
        {'DOWN', Mon, process, _, noproc} -> ok;
        {'DOWN', Mon, process, _, _} -> keep(off({disturbed, prover_died}))
    after ?DEADLINE_MS ->
        keep(off({disturbed, prover_late})),
        exit(Prover, kill),
        ok
    end.

with_retry(#{status := {off, {Why, _} = Reason}} = Outcome, Before) when ?IS_DISTURBED(Why) ->
    Wait = case Before of
               _ when Reason =:= {disturbed, prover_late} -> ?WAIT_MAX_MS;
               #{retry := {_, Last}} -> min(2 * Last, ?WAIT_MAX_MS);
               _ -> ?WAIT_MS
           end,
    Outcome#{retry => {erlang:monotonic_time(millisecond) + Wait, Wait}};
with_retry(Outcome, _) ->
    Outcome.

%% Returns the modules that are missing, and why. If sonde is loaded temporarily, one module
%% contains all of them.
not_loaded() ->
    [{M, Why} || not sonde_remote_name:is_lent(), M <- ?MODULES, {error, Why} <- [code:ensure_loaded(M)]].

run_loaded([]) -> run(?TRIES);
run_loaded([{Module, Why} | _]) ->
    off({not_loaded, lists:flatten(io_lib:format("the module ~s: ~0p", [Module, Why]))}).

%% Once for each library that is loaded, with the settings of the first one; a switch by hand stays
%% in effect.
configure() ->
    Kept = kept(),
    Instance = sonde_retry:instance(),
    _ = [begin
             _ = [sonde_nif:switch(off) || atomics:get(Kept, ?NATIVE) =:= ?OFF],
             _ = [sonde_nif:want_reader(syscall) || atomics:get(Kept, ?READER) =:= ?SYSCALL],
             _ = [sonde_nif:want_reader(filtered) || atomics:get(Kept, ?SECCOMP) =:= ?ALLOWED]
         end || atomics:exchange(Kept, ?INSTANCE, Instance) =/= Instance],
    _ = sonde_content:allowed(),
    Kept.

%% Not in `persistent_term': sonde removes it when it leaves, and to erase a persistent term the VM
%% scans every process of the node.
kept() ->
    case application:get_env(?MODULE, kept) of
        undefined ->
            Env = environment(),
            Kept = atomics:new(4, []),
            _ = [atomics:put(Kept, ?NATIVE, ?OFF) || proplists:get_value(native, Env) =:= off],
            _ = [atomics:put(Kept, ?READER, ?SYSCALL)
                 || proplists:get_value(reader, Env) =:= syscall],
            _ = [atomics:put(Kept, ?SECCOMP, ?ALLOWED)
                 || proplists:get_value(seccomp, Env) =:= allowed],
            _ = [sonde_content:forbid() || {allow_content, Allowed} <- Env, Allowed =/= true],
            ok = application:set_env(?MODULE, kept, Kept),
            Kept;
        {ok, Kept} ->
            Kept
    end.

%% The command line (`-sonde native off') counts once the application is loaded, but loading it
%% would drop what was set before. A missing application file does not matter.
environment() ->
    Before = application:get_all_env(sonde),
    _ = application:load(sonde),
    Before ++ application:get_all_env(sonde).

%% A process that monitors, links to or collects all others may disturb a proof and be gone when the
%% prover looks for it, so a single failure refutes nothing. A wrong number fails the same check
%% each time, whatever the probes: only that is a lasting reason. Failures of different checks are
%% retried by the next caller.
run(Tries) -> run(Tries, {none, 0}).

run(0, _) -> off({probes_busy, ?TRIES});
run(Tries, Failed) ->
    case sonde_nif:reader() of
        none -> off({unsupported, no_reader});
        _ -> judge_try(try_tables(tables(), []), Tries, Failed)
    end.

judge_try(busy, Tries, Failed) ->
    run(Tries - 1, Failed);
judge_try(#{status := {off, {check, Check}}} = Outcome, Tries, Failed) ->
    case in_a_row(Check, Failed) of
        ?SAME -> Outcome;
        Times -> timer:sleep(Times), run(Tries - 1, {Check, Times})
    end;
judge_try(Outcome, _, _) ->
    Outcome.

in_a_row(Check, {Check, Times}) -> Times + 1;
in_a_row(_, _) -> 1.

%% Tables made for this release come first; a patched release may resemble another one.
tables() ->
    Otp = list_to_integer(erlang:system_info(otp_release)),
    Distance = fun({_, _, Release, _, _, _}) -> abs(Release - Otp) end,
    [T || {_, _, T} <- lists:sort([{Distance(T), element(1, T), T} || T <- sonde_nif:tables()])].

%% Each table gets its own probes: those of a table that failed late have run since. If none is
%% proved, the (first) one with most passed checks shows best what is wrong.
try_tables([], Outcomes) ->
    hd(lists:sort(fun(A, B) -> passed(A) >= passed(B) end, lists:reverse(Outcomes)));
try_tables([Table | Tables], Outcomes) ->
    case try_one(Table) of
        #{status := {off, _}} = Outcome -> try_tables(Tables, [Outcome | Outcomes]);
        ActiveOrBusy -> ActiveOrBusy
    end.

passed(#{checks := Checks}) -> length([ok || {_, ok} <- Checks]).

%% If a probe died, or another process disturbs all of them, that says nothing about the table.
try_one(Table) ->
    try try_table(Table, sonde_probe:start())
    catch
        throw:Why when Why =:= died; Why =:= busy -> busy;
        error:Why:Where when Why =/= system_limit ->
            sonde_probe:are_alive() andalso erlang:raise(error, Why, Where),
            busy
    after
        sonde_probe:stop()
    end.

try_table({Index, Name, Release, Shift, TypeMask, _}, Probes) ->
    case calibrate(Index) of
        ok ->
            {Mine, _} = sonde_remote_name:here(?MODULE, try_table),
            ok = sonde_nif:calibrate_fun(fun() -> Name end, Mine),
            ok = sonde_nif:calibrate_literals({?MODULE, literal}, literal_area()),
            judge({Name, Release}, checks({Shift, TypeMask}, Probes), Probes);
        {failed, Check} ->
            #{status => {off, {check, Check}}, layout => none,
              checks => found_table(Check)
                  ++ not_run(sonde_probe:field_checks(Probes, {Shift, TypeMask})
                             ++ sonde_probe:late_checks(Probes))};
        no_reader ->
            off({unsupported, no_reader})
    end.

calibrate(Index) ->
    case sonde_nif:calibrate(Index) of
        ok -> sonde_nif:calibrate_table(erlang:system_info(process_limit));
        Not -> Not
    end.

%% Bytes reserved for literals, wherever they are; 0: literals may be anywhere.
literal_area() ->
    try lists:foldl(fun(Key, Props) -> element(2, lists:keyfind(Key, 1, Props)) end,
                    erlang:system_info({allocator, erts_mmap}),
                    [literal_mmap, supercarrier, sizes, total])
    catch error:_ -> 0
    end.

found_table(id) -> [{id, {failed, true, false}}, {process_table, not_run}];
found_table(process_table) -> [{id, ok}, {process_table, {failed, true, false}}].

not_run(Checks) -> [{Name, not_run} || {Name, _} <- Checks].

judge({Name, Release}, Checks, Probes) ->
    case [Check || {Check, {failed, _, _}} <- Checks] of
        [] ->
            %% without the first two, stacks and groups come from the portable path
            _ = sonde_nif:calibrate_code(sonde_probe:functions(Probes)),
            _ = sonde_nif:calibrate_places(sonde_probe:known_places(Probes)),
            _ = calibrate_schedulers(?OWN_TRIES) andalso sonde_nif:calibrate_ports(erlang:system_info(port_limit)),
            ok = calibrate_turnover(?TURNOVER_TRIES),
            _ = [ok = sonde_nif:trust_self_bit() || Release =< 26, sonde_probe:has_self_bit(Probes)],
            Outcome = #{status => active, layout => Name, checks => Checks},
            ok = sonde_nif:adopt(Outcome),
            Outcome;
        [First | _] ->
            #{status => {off, {check, First}}, layout => none, checks => Checks}
    end.

%% To load a module takes a dirty scheduler, and all of them may be stuck when it is asked what the schedulers run.
load_early() ->
    code:ensure_modules_loaded([sonde, sonde_opts, sonde_schedulers]).

%% This process may be moved to another scheduler before the library looks for its own.
calibrate_schedulers(0) ->
    false;
calibrate_schedulers(Tries) ->
    case sonde_nif:own_scheduler(erlang:system_info(scheduler_id)) of
        true ->
            _ = sonde_remote_name:is_lent() orelse load_early(),
            sonde_nif:calibrate_schedulers(erlang:system_info(schedulers), erlang:system_info(dirty_cpu_schedulers),
                                           erlang:system_info(dirty_io_schedulers));
        false -> calibrate_schedulers(Tries - 1)
    end.

%% The process table counts its processes, and those that it ever had. With right counts, a sweep ends
%% where it has met all processes; without them it reads the rest of the table too. Other processes may
%% start and end meanwhile.
calibrate_turnover(0) ->
    ok;
calibrate_turnover(Tries) ->
    New = 2 + rand:uniform(10),
    Before = counts(),
    Pids = [spawn(?MODULE, helper, [{stay, self()}]) || _ <- lists:seq(1, New)],
    After = counts(),
    _ = [Pid ! go || Pid <- Pids],
    case {Before, After} of
        {{Count, {Count, Given}}, {More, {More, Gave}}}
          when More - Count =:= New, (Gave - Given) band 16#FFFFFFFF =:= New ->
            sonde_nif:trust_turnover();
        _ ->
            calibrate_turnover(Tries - 1)
    end.

counts() ->
    {erlang:system_info(process_count), sonde_nif:turnover()}.

%% Fields first, while the probes are idle; what the probes answer themselves only after that.
checks(Form, Probes) ->
    Late = sonde_probe:late_checks(Probes),
    Early = run_checks(early, fun(P) -> sonde_probe:field_checks(P, Form) end, Probes),
    Rest = case lists:all(fun({_, Result}) -> Result =:= ok end, Early) of
               true -> run_checks(late, fun(_) -> Late end, Probes);
               false -> not_run(Late)
           end,
    [{id, ok}, {process_table, ok} | Early ++ Rest].

%% The first failure is the result: later checks rely on it. On a node where other processes ask
%% every process all the time, the expected value of a probe may be outdated: read it again.
run_checks(When, Make, Probes) -> run_checks(When, Make, Make(Probes), Probes, [], ?LOOKS).

run_checks(_, _, [], _, Done, _) ->
    lists:reverse(Done);
run_checks(When, Make, [{Name, Check} | Checks], Probes, Done, Looks) ->
    case {[{Expected, Found} || {Expected, Found} <- Check(), Expected =/= Found], When} of
        {[], _} ->
            run_checks(When, Make, Checks, Probes, [{Name, ok} | Done], ?LOOKS);
        {_, early} when Looks > 0 ->
            erlang:yield(),
            Again = sonde_probe:look_again(Probes),
            Left = lists:nthtail(length(Done), Make(Again)),
            run_checks(When, Make, Left, Again, Done, Looks - 1);
        {[{Expected, Found} | _], _} ->
            case (When =:= late orelse sonde_probe:quiet(Probes))
                andalso sonde_probe:alone(Probes) of
                true ->
                    lists:reverse(Done, [{Name, {failed, Expected, Found}} | not_run(Checks)]);
                false ->
                    throw(busy)
            end
    end.
