%% The native module is no API. Its tools are sealed, and whichever function is called with whatever
%% arguments, the node survives, returns no word of foreign memory, and holds no scheduler long.
-module(seal_SUITE).

-compile([export_all, nowarn_export_all]).

%% The limits are those of slices_SUITE; a call that takes too long is tried again.
-define(LIMIT_NS, #{dirty => 2 * 10000000, normal => 2 * 1000000}).
-define(TIMES, 5).
-define(MOMENT_MS, 300).
-define(SECRETS, 50).

suite() -> [{timetrap, {seconds, 120 + 3 * seconds()}}].

all() ->
    [tools_answer_nobody, tools_answer_nobody_while_somebody_proves,
     the_prover_reads_its_own_processes_alone, a_killed_prover_changes_nothing, probes_are_few, switches_are_for_our_own,
     whatever_is_called].

init_per_suite(Config) ->
    case sonde_peer_helper:needs_test_build() of
        ok -> Config;
        Skip -> Skip
    end.

end_per_suite(_Config) -> ok.

%% `make soak' runs it for a minute.
seconds() ->
    list_to_integer(os:getenv("FUZZ_SECONDS", "5")).

%% ---- the tools

tools(P) ->
    [{calibrate, [0]}, {calibrate_table, [erlang:system_info(process_limit)]},
     {probe, [P, [id], value, none]}, {probe, [self(), [heap], has, {0, 10, {term, ok}}]},
     {probe_swollen, [{3000, 5000, x}, [mbuf, frag_used], value, none]}, {probe_trap, []},
     {calibrate_fun, [fun() -> P end, ?MODULE]}, {calibrate_literals, [{?MODULE, x}, 1 bsl 30]},
     {calibrate_code, [[{P, {?MODULE, tools, 1}, 1}]]}, {calibrate_places, [[{P, [], {?MODULE, tools, 1}, []}]]},
     {calibrate_ports, [erlang:system_info(port_limit)]}, {turnover, []}, {trust_turnover, []}, {trust_self_bit, []},
     {probe_resource, [100]},
     {calibrate_resources, [make_ref(), make_ref(), make_ref(), 1 bsl 40, sonde_nif]},
     {allow_probe, [P]}, {disallow_probe, [P]}, {adopt, [#{status => active}]}].

switches() ->
    [{prover_begin, []}, {put_status, [#{status => {off, disabled}}]}, {switch, [off]},
     {want_reader, [syscall]}, {leave, []}].

outcome({F, Args}) -> try apply(sonde_nif, F, Args) catch error:Why -> Why end.

refused(Calls) -> [] = [{Call, Said} || Call <- Calls, Said <- [outcome(Call)], Said =/= badarg].

unread(P) ->
    refused([{read, [P, memory]}, {look_new, [mark, P, [], 1000, 0, 0]},
             {scan_new, [memory, top, 10, undefined, [], 1000]}, {account_new, [1000, false, true]}]).

%% The tools refuse before the proof and after it.
tools_answer_nobody(_Config) ->
    with(shipped, fun(Peer) -> ok = call(Peer, tools_refuse, []) end).

tools_refuse() ->
    P = sonde_test:hold(fun() -> ok end),
    ok = sonde_nif:prover_end(),
    refused(tools(P)),
    unread(P),
    none = sonde_nif:state(),
    undefined = sonde_nif:status(),
    #{status := active} = sonde:native(),
    refused(tools(P)),
    undefined = sonde_nif:prover(),
    true = is_integer(sonde_nif:read(P, memory)),
    #{status := active} = sonde:native(),
    ok.

%% They also refuse while a prover has calibrated: the prover is stopped at any moment of its work.
tools_answer_nobody_while_somebody_proves(_Config) ->
    with(test, fun(Peer) -> ok = call(Peer, while_proving, []) end).

while_proving() ->
    P = sonde_test:hold(fun() -> ok end),
    #{status := active} = sonde:native(),
    true = lists:sum([stopped_prover(P, Us) || Us <- lists:seq(0, 6000, 200)]) > 0,
    #{status := active} = sonde:native(on),
    ok.

stopped_prover(P, Us) ->
    ok = sonde_nif:forget_proof(),
    {_, Mon} = spawn_monitor(sonde, native, []),
    [Prover] = proof_SUITE:found(1000000),
    proof_SUITE:spin(Us),
    Stopped = try erlang:suspend_process(Prover) catch error:_ -> false end,
    N = case Stopped andalso sonde_nif:state() of
            none -> refused(tools(P)), unread(P), refused(tools(Prover)), unread(Prover), 1;
            _ -> 0
        end,
    _ = [erlang:resume_process(Prover) || Stopped],
    receive {'DOWN', Mon, process, _, _} -> N end.

%% Lists what the prover itself may do.
the_prover_reads_its_own_processes_alone(_Config) ->
    with(test, fun(Peer) -> ok = call(Peer, as_prover, []) end).

as_prover() ->
    Other = sonde_test:hold(fun() -> ok end),
    Probe = sonde_test:hold(fun() -> ok end),
    Table = this_vm(),
    ok = begin_proof(),
    {busy, Self} = in_another(fun() -> _ = sonde_nif:unseal(true), Said = sonde_nif:prover_begin(),
                                       _ = sonde_nif:unseal(false), Said end),
    Self = self(),
    ok = sonde_nif:calibrate(Table),
    ok = sonde_nif:calibrate_table(erlang:system_info(process_limit)),
    Read = fun(P) -> {probe, [P, [id], is, {term, P}]} end,
    1 = outcome(Read(self())),
    refused([Read(Other), Read(Probe), {probe, [self(), [pc], same, Other]}]),
    refused([{F, [P | As]} || P <- [Other, Probe], {F, As} <- [{read, [memory]}]]),
    refused([{look_new, [mark, Other, [], 1000, 0, 0]}]),
    ok = sonde_nif:allow_probe(Probe),
    1 = outcome(Read(Probe)),
    true = is_integer(sonde_nif:read(Probe, memory)),
    refused([Read(Other)]),
    badarg = in_another(fun() -> outcome(Read(self())) end),
    badarg = in_another(fun() -> outcome(Read(Probe)) end),
    %% one call does no more than one time slice of work
    0 = sonde_nif:probe(Probe, [heap], has, {0, 400, {term, never_there}}),
    refused([{probe, [Probe, [heap], has, {0, 401, {term, never_there}}]},
             {probe_swollen, [{1 bsl 14, 1, x}, [mbuf, frag_used], value, none]}]),
    ok = sonde_nif:disallow_probe(Probe),
    refused([Read(Probe)]),
    ok = sonde_nif:adopt(#{status => active}),
    refused(tools(self()) -- [{disallow_probe, [self()]}]),
    ok = sonde_nif:prover_end(),
    ok = sonde_test:stop([Other, Probe]).

begin_proof() ->
    false = sonde_nif:unseal(true),
    ok = sonde_nif:prover_begin(),
    true = sonde_nif:unseal(false),
    ok.

this_vm() ->
    #{layout := Name} = sonde:native(),
    ok = sonde_nif:forget_proof(),
    hd([I || {I, N, _, _, _, _} <- sonde_nif:tables(), N =:= Name]).

in_another(Fun) ->
    {_, Mon} = spawn_monitor(fun() -> exit({said, Fun()}) end),
    receive {'DOWN', Mon, process, _, {said, Said}} -> Said end.

%% A prover that is killed in a dirty call is dead at once, but the call goes on, beside the next prover.
a_killed_prover_changes_nothing(_Config) ->
    with(test, fun(Peer) -> ok = call(Peer, killed_provers, []) end).

killed_provers() ->
    Table = this_vm(),
    _ = [ok = killed_prover(Table, Call) || Call <- spoiling()],
    #{status := active} = sonde:native(),
    ok.

%% What these calls learn would spoil what the next prover knows; a table that is found again counts no turnover.
spoiling() ->
    [{calibrate_table, [erlang:system_info(process_limit)]}, {calibrate_code, [[]]}, {calibrate_places, [[]]},
     {calibrate_schedulers, [0, 0, 0]}, {calibrate_ports, [1]}].

killed_prover(Table, {F, Args}) ->
    ok = sonde_nif:forget_proof(),
    Old = spawn(fun() -> ok = calibrated(Table), receive go -> apply(sonde_nif, F, Args) end end),
    ok = sonde_test:until(calibrated, fun() -> sonde_nif:prover_knows() =:= [table] end),
    ok = sonde_nif:hold_reader(Old, learned),
    Old ! go,
    ok = sonde_test:until({held, F}, fun sonde_nif:is_reader_held/0),
    true = exit(Old, kill),
    ok = sonde_test:until(dead, fun() -> sonde_nif:prover() =:= undefined end),
    ok = calibrated(Table),
    Probes = sonde_probe:start(),
    ok = learns_all(Probes),
    Known = sonde_nif:prover_knows(),
    Calls = calls_of(F),
    true = sonde_nif:release_reader(),
    ok = sonde_test:until({returned, F}, fun() -> calls_of(F) =:= Calls + 1 end),
    Known = sonde_nif:prover_knows(),
    ok = sonde_probe:stop(),
    sonde_nif:prover_end().

%% Nothing is left of what an earlier prover learned.
calibrated(Table) ->
    ok = begin_proof(),
    ok = sonde_nif:calibrate(Table),
    ok = sonde_nif:calibrate_table(erlang:system_info(process_limit)),
    [false, false, false] = [sonde_nif:calibrate_code([]), sonde_nif:calibrate_places([]), sonde_nif:calibrate_ports(1)],
    ok = own_scheduler(),
    false = sonde_nif:calibrate_schedulers(0, 0, 0),
    ok.

own_scheduler() ->
    sonde_test:until(own_scheduler, fun() -> sonde_nif:own_scheduler(erlang:system_info(scheduler_id)) end).

learns_all(Probes) ->
    ok = sonde_nif:trust_turnover(),
    ok = sonde_nif:trust_self_bit(),
    true = sonde_nif:calibrate_code(sonde_probe:functions(Probes)),
    true = sonde_nif:calibrate_places(sonde_probe:known_places(Probes)),
    true = sonde_nif:calibrate_schedulers(erlang:system_info(schedulers), erlang:system_info(dirty_cpu_schedulers),
                                          erlang:system_info(dirty_io_schedulers)),
    true = sonde_nif:calibrate_ports(erlang:system_info(port_limit)),
    [table, turnover, self_bit, code, places, schedulers, ports] = sonde_nif:prover_knows(),
    ok.

calls_of(F) ->
    Name = list_to_existing_atom("do_" ++ atom_to_list(F)),
    lists:sum([N || {Called, _, _, _, N} <- sonde_nif:longest_calls(), Called =:= Name]).

probes_are_few(_Config) ->
    with(test, fun(Peer) -> ok = call(Peer, many_probes, []) end).

many_probes() ->
    ok = begin_proof(),
    _ = [ok = sonde_nif:allow_probe(self()) || _ <- lists:seq(2, 256)],
    system_limit = outcome({allow_probe, [self()]}),
    ok = sonde_nif:prover_end(),
    refused([{allow_probe, [self()]}]),
    #{status := active} = sonde:native(),
    ok.

%% In the shipped build, a caller whose initial call is elsewhere is refused.
switches_are_for_our_own(_Config) ->
    with(shipped, fun(Peer) -> ok = call(Peer, switches_refuse, []) end).

switches_refuse() ->
    refused(switches()),
    #{status := active, reader := Reader} = sonde:native(),
    refused(switches()),
    _ = [badarg = exit_of(apply, [sonde_nif, F, Args], [erlang, apply]) || {F, Args} <- switches()],
    on = sonde_nif:state(),
    #{status := active, reader := Reader} = sonde:native(),
    #{status := {off, disabled}} = sonde:native(off),
    #{status := active} = sonde:native(on),
    ok.

%% Returns how a process ends whose initial call is this function.
exit_of(apply, [M, F, Args], _) ->
    _ = logger:set_primary_config(level, none),
    {_, Mon} = spawn_monitor(M, F, Args),
    receive {'DOWN', Mon, process, _, {Why, _}} -> Why end.

%% ---- whatever is called

%% Calls each exported function with arguments of every kind.
whatever_is_called(_Config) ->
    Seed = list_to_integer(os:getenv("SONDE_SEED", os:getenv("SONDE_FIRST_SEED", "1"))),
    ct:pal("seed ~p", [Seed]),
    Functions = exported(),
    with(test, fun(Peer) ->
                       {Calls, Ok, Wrong} =
                           sonde_peer_helper:call(Peer, ?MODULE, fuzz,
                                                  [Seed, seconds() * 1000, Functions],
                                                  60000 + 2000 * seconds()),
                       ct:pal("~p calls, ~p of them right~n~p", [Calls, Ok, Wrong]),
                       [] = Wrong,
                       true = Calls > 1000 andalso Ok > 100
               end).

%% The exports of the shipped module, so new ones are included automatically.
exported() ->
    Beam = filename:join(filename:dirname(code:which(sonde)), "sonde_nif.beam"),
    {ok, {sonde_nif, [{exports, Exports}]}} = beam_lib:chunks(Beam, [exports]),
    [E || {F, _} = E <- Exports, F =/= module_info].

fuzz(Seed, Ms, Functions) ->
    _ = rand:seed(exsss, Seed),
    Secrets = [rand:uniform(1 bsl 58) + (1 bsl 57) || _ <- lists:seq(1, ?SECRETS)],
    Others = [sonde_test:hold(fun() -> kept(I) end) || I <- lists:seq(1, 5)],
    Holders = [hold_secret(S) || S <- Secrets],
    #{status := active} = sonde:native(),
    Checks = checks(hd(Others)),
    Before = {sonde_nif:status(), sonde_nif:state(), sonde_nif:reader()},
    Spoiler = spawn_link(fun spoil/0),
    Kept = binary:copy(<<5>>, 300),
    World = #{secrets => words(Secrets), ranges => ranges(), pids => Others, spoiler => Spoiler,
              functions => Functions, addresses => addresses(), atoms => atoms()},
    %% the search finds what it looks for
    [Secret, Address] = [hd(Secrets), 128 + element(1, hd(maps:get(ranges, World)))],
    [_, _, _, _] = [Found || Hidden <- [Secret, <<0, Secret:64/little>>, Secret bsr 4, Address],
                             Found <- leaked([{a, #{b => Hidden}}], look_top, World)],
    Swept = huge_arguments(World, resources(World)),
    End = erlang:monotonic_time(millisecond) + Ms,
    Said = calls(World, resources(World), End, Swept),
    unlink(Spoiler),
    exit(Spoiler, kill),
    Before = {sonde_nif:status(), sonde_nif:state(), sonde_nif:reader()},
    [] = [C || {_, N} = C <- maps:to_list(sonde_nif:counters()), N < 0 orelse N > 1 bsl 40],
    Checks = checks(hd(Others)),
    [_, _, _] = sonde:proc_count(memory, 3),
    300 = byte_size(Kept),
    [] = [P || P <- Holders ++ Others, not is_process_alive(P)],
    Said.

kept(I) -> [{I, a}, #{k => [I]}, binary:copy(<<I>>, 200), make_ref(), 1.5, fun() -> I end].

checks(P) -> [{A, sonde_nif:read(P, A)} || A <- sonde_attr:native(), A =/= reductions].

%% These processes are never passed to a call.
hold_secret(S) ->
    P = spawn(fun() ->
                      process_flag(sensitive, true),
                      put(S, <<S:64, 0:1000>>),
                      L = lists:duplicate(20, S),
                      receive stop -> L end
              end),
    P ! {S, <<S:64/little, 0:1000>>},
    P.

%% The secrets as numbers, and as they lie in memory: the word of a number, the bytes in a binary.
words(Secrets) ->
    #{numbers => maps:from_keys(lists:append([[S, S bsl 4 bor 15, S bsr 4] || S <- Secrets]), true),
      bytes => binary:compile_pattern(
                 lists:append([[<<S:64>>, <<S:64/little>>, <<(S bsl 4 bor 15):64/little>>]
                               || S <- Secrets]))}.

%% The VM's readable memory, with its code.
ranges() ->
    case file:read_file("/proc/self/maps") of
        {ok, Maps} ->
            [{From, To} || Line <- binary:split(Maps, <<"\n">>, [global]),
                           {From, To} <- range(Line)];
        _ -> % not readable, as in a chroot: near a block of the allocators
            {binary, [{Id, _, _} | _]} = process_info(self(), binary),
            [{(Id bsr 24) bsl 24, ((Id bsr 24) + 1) bsl 24}]
    end.

range(Line) ->
    case re:run(Line, "^([0-9a-f]+)-([0-9a-f]+) r", [{capture, all_but_first, binary}]) of
        {match, [From, To]} -> [{binary_to_integer(From, 16), binary_to_integer(To, 16)}];
        nomatch -> []
    end.

%% Real addresses, for calls that might follow them.
addresses() ->
    Bin = binary:copy(<<7>>, 300),
    {binary, Known} = process_info(self(), binary),
    7 = binary:first(Bin),
    [Id || {Id, _, _} <- Known] ++ [From + 64 || {From, _} <- lists:sublist(ranges(), 10)].

atoms() ->
    Fields = lists:usort([F || {_, _, _, _, _, Fs} <- sonde_nif:tables(), {F, _} <- Fs]),
    sonde_attr:native() ++ Fields
        ++ [top, sample, diff, holders, all, each, account, mark, snapshot, flat, mailbox, slices,
            histogram, visible, content, values, stack, registers, dictionary, messages, slot, bytes,
            binaries, shared, refs, table, literal, size, count, next, on, off, none, guarded, syscall,
            value, constant, is, minus, own, same, less, has, has_pair, has_data, has_ref, base, at,
            undefined, true, false, ok, binary_unique, binary_exclusive, binary_proportional, flat_size,
            bin_garbage, no_such_atom].

%% Scans, looks and accounts that belong to another process, in every state.
resources(#{pids := Pids}) ->
    Make = fun() ->
                   P = one(Pids),
                   Scans = [sonde_nif:scan_new(A, M, 10, undefined, [], 100000)
                            || {A, M} <- [{memory, top}, {memory, sample}, {[memory, heap_size], each},
                                          {binary_count, holders}, {memory, all}]],
                   Looks = [sonde_nif:look_new(K, P, W, 1 bsl 30, 1000, 100)
                            || {K, W} <- [{mark, [histogram]}, {top, [content]}, {snapshot, [values]},
                                          {flat, [dictionary]}, {mailbox, [content]}, {slices, []},
                                          {account, []}]],
                   Account = sonde_nif:account_new(100000, false, true),
                   Filled = sonde_nif:scan_new(binary_unique, account, 10, {Account, undefined}, [],
                                               100000),
                   [step(S, scan_step) || S <- [Filled | Scans], rand:uniform(3) > 1],
                   [step(L, look_step) || L <- Looks, is_reference(L), rand:uniform(4) > 1],
                   exit({made, [Filled, Account | Scans] ++ [L || L <- Looks, is_reference(L)]})
           end,
    Seed = rand:uniform(1 bsl 30),
    {_, Mon} = spawn_monitor(fun() -> _ = rand:seed(exsss, Seed), Make() end),
    receive {'DOWN', Mon, process, _, {made, Made}} -> list_to_tuple(Made) end.

step(R, F) -> step(R, F, 20).

step(_, _, 0) -> ok;
step(R, F, N) ->
    case sonde_nif:F(R) of
        more -> step(R, F, N - 1);
        {rows, _} -> step(R, F, N - 1);
        {ask, _} -> _ = sonde_nif:scan_feed(R, []), step(R, F, N - 1);
        _ -> ok
    end.

%% Uses the same resources at the same time.
spoil() ->
    receive Rs ->
        _ = [try sonde_nif:F(R) catch error:_ -> refused end
             || R <- tuple_to_list(Rs), F <- [scan_step, look_step, scan_info, look_progress, account_sum]],
        spoil()
    end.

calls(World, Resources, End, {N, Ok, Wrong} = Seen) ->
    case erlang:monotonic_time(millisecond) > End orelse length(Wrong) > 20 of
        true ->
            Seen;
        false when N rem 300 =:= 299 ->
            New = resources(World),
            maps:get(spoiler, World) ! New,
            calls(World, New, End, called(World, New, {N, Ok, Wrong}));
        false ->
            calls(World, Resources, End, called(World, Resources, Seen))
    end.

called(#{functions := Functions} = World, Resources, Seen) ->
    {F, A} = one(Functions),
    made(F, arguments(F, A, World, Resources), World, Seen).

made(F, Args, World, {N, Ok, Wrong}) ->
    ok = sonde_nif:reset_calls(),
    Said = outcome({F, Args}),
    More = leaked(Said, F, World) ++ long(F, Args, ?TIMES),
    {N + 1, Ok + case Said of badarg -> 0; _ -> 1 end,
     [{F, [brief(X) || X <- Args], W} || W <- More] ++ Wrong}.

brief(X) -> lists:flatten(io_lib:format("~P", [X, 12])).

%% A call that took too long is repeated.
long(F, Args, Times) ->
    Rows = [{Name, Where, Ns} || {Name, _, Where, Ns, _} <- sonde_nif:longest_calls(),
                                 Ns > maps:get(Where, ?LIMIT_NS)],
    case Rows of
        [_ | _] when Times > 1 ->
            timer:sleep(?MOMENT_MS),
            ok = sonde_nif:reset_calls(),
            _ = outcome({F, Args}),
            long(F, Args, Times - 1);
        _ ->
            [{too_long, Row} || Row <- Rows]
    end.

%% Makes each argument of each function huge, and the others right.
huge_arguments(#{functions := Functions} = World, Resources) ->
    All = [{F, Before, Kind, After}
           || {F, A} <- Functions, Right <- [rights(F, World, Resources)], I <- lists:seq(1, A),
              {Before, [_ | After]} <- [lists:split(I - 1, fitted(A, Right))],
              Kind <- lists:seq(1, 6)],
    lists:foldl(fun({F, Before, Kind, After}, Seen) ->
                        made(F, Before ++ [huge(Kind, World) | After], World, Seen)
                end, {0, 0, []}, All).

fitted(A, Right) -> lists:sublist(Right ++ lists:duplicate(A, 1), A).

%% Mostly arguments of the kind that a function expects, sometimes any other.
arguments(F, A, World, Resources) ->
    Right = rights(F, World, Resources),
    case rand:uniform(4) of
        N when N > 1, length(Right) =:= A ->
            [case rand:uniform(5) of 1 -> any(World, Resources); _ -> X end || X <- Right];
        _ ->
            [any(World, Resources) || _ <- lists:seq(1, A)]
    end.

rights(F, #{pids := Pids, atoms := Atoms} = World, Resources) ->
    R = one(tuple_to_list(Resources)),
    N = number(World),
    case F of
        look_new -> [one([mark, account, top, snapshot, flat, mailbox, slices]), one(Pids ++ processes_of_otp()),
                     [one(Atoms) || _ <- lists:seq(2, rand:uniform(3))], N, rand:uniform(1000), N];
        scan_new -> [one(sonde_attr:native()), one([top, sample, each, all, holders, diff, account]), N,
                     one([undefined, R, Pids, {R, undefined}]), [], rand:uniform(100000)];
        read -> [one(Pids ++ processes_of_otp()), one(Atoms)];
        probe -> [one(Pids), [one(Atoms) || _ <- lists:seq(1, rand:uniform(3))], one(Atoms), N];
        probe_swollen -> [{rand:uniform(100), rand:uniform(100), N}, [mbuf, frag_mem], is, N];
        account_add -> [R, one([table, literal]), [{N, N, N, N}]];
        account_want -> [R, [N || _ <- lists:seq(1, rand:uniform(3))]];
        account_rank -> [R, one([size, count, parts]), N];
        account_holdings -> [R, one([first, next])];
        account_lend -> [R, one(tuple_to_list(Resources)), rand:uniform(3), rand:uniform(5)];
        account_parts -> [R, one(tuple_to_list(Resources)), rand:uniform(3) - 1, rand:uniform(3)];
        F when F =:= account_join; F =:= account_return; F =:= account_take_parts ->
            [R, one(tuple_to_list(Resources))];
        account_new -> [rand:uniform(100000), true, one([true, false])];
        scan_feed -> [R, [{one(Pids), N}]];
        scan_skip -> [R, one(Pids)];
        flat_quick -> [any(World, Resources)];
        _ -> [R, N, rand:uniform(100)]
    end.

processes_of_otp() -> [whereis(N) || N <- [init, code_server, kernel_sup, logger]].

number(#{addresses := Addresses}) ->
    one([0, 1, rand:uniform(1000), rand:uniform(1 bsl 59), -1, -(1 bsl 40), 1 bsl 62, 1 bsl 64, (1 bsl 64) - 1,
         1 bsl 200, -(1 bsl 90), 16#7FFFFFFF, 16#80000000, 1 bsl 63, one(Addresses),
         (one(Addresses) - 16) bsr 4]).

any(#{pids := Pids, atoms := Atoms} = World, Resources) ->
    case rand:uniform(22) of
        1 -> self();
        2 -> one(Pids);
        3 -> one(processes_of_otp());
        4 -> dead();
        5 -> binary_to_term(<<131, 88, 119, 14, "sonde@nowhere.", 1:32, 2:32, 3:32>>);
        6 -> make_ref();
        7 -> one([hd(erlang:ports()), atomics:new(1, []), fun() -> World end, fun lists:map/2, 1.5]);
        8 -> one([<<>>, <<1:7>>, rand:bytes(100), binary:copy(<<1>>, 100000), rand:bytes(8)]);
        N when N < 12 -> one(tuple_to_list(Resources));
        N when N < 15 -> one(Atoms);
        N when N < 18 -> number(World);
        18 -> [one(Atoms) || _ <- lists:seq(1, rand:uniform(6))];
        19 -> one([[a | b], [one(Pids) | one(Atoms)], [number(World) | 1], [[]], {}, #{}, #{a => #{}}]);
        20 -> huge(rand:uniform(6), World);
        21 -> list_to_tuple([any(World, Resources) || _ <- lists:seq(1, rand:uniform(4))]);
        22 -> [any(World, Resources) || _ <- lists:seq(1, rand:uniform(4))]
    end.

huge(1, #{pids := [P | _]}) -> lists:duplicate(200000, P);
huge(2, _) -> lists:duplicate(200000, one([histogram, visible, memory, shared]));
huge(3, _) -> lists:seq(1, 200000);
huge(4, #{pids := [P | _]}) -> lists:duplicate(200000, {P, 1});
huge(5, _) -> lists:duplicate(100000, {1, 2, 3, 4});
huge(6, _) -> erlang:make_tuple(200000, x).

dead() ->
    {P, Mon} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Mon, process, P, _} -> P end.

one(List) -> lists:nth(rand:uniform(length(List)), List).

%% An address that the fuzz feeds to a scan comes back as that scan's value; that is not a leak.
%% These calls name binaries by their addresses, as process_info(_, binary) does.
-define(IDS, [look_pinned, look_slices, look_refs, account_ranked, account_holdings, account_known]).

leaked(badarg, _, _) -> [];
leaked(Said, F, #{secrets := #{numbers := Numbers, bytes := Bytes}, ranges := Ranges,
                  addresses := Fed}) ->
    {Ns, Bs} = leaves(Said, {[], []}),
    [{secret, N} || N <- Ns, is_map_key(N, Numbers)]
        ++ [{secret, B} || B <- Bs, binary:match(B, Bytes) =/= nomatch]
        ++ [{address, N} || not lists:member(F, ?IDS), N <- Ns, N > 1 bsl 32,
                            not lists:member(N, Fed), {From, To} <- Ranges, N >= From, N < To].

leaves(N, {Ns, Bs}) when is_integer(N) -> {[N | Ns], Bs};
leaves(B, {Ns, Bs}) when is_binary(B) -> {Ns, [B | Bs]};
leaves([H | T], Seen) -> leaves(T, leaves(H, Seen));
leaves(T, Seen) when is_tuple(T) -> leaves(tuple_to_list(T), Seen);
leaves(M, Seen) when is_map(M) -> leaves(maps:to_list(M), Seen);
leaves(_, Seen) -> Seen.

%% ---- peers

with(Build, Fun) -> sonde_peer_helper:with(Build, Fun).

call(Peer, F, Args) -> sonde_peer_helper:call(Peer, ?MODULE, F, Args).
