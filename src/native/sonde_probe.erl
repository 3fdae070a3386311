%% @private Probe processes with known contents, and the checks that compare what must be found in
%% them.
%%
%% Every field of the layout has a check of its own name, which compares the result of the layout
%% table with an official call on a probe, or with what the probe was given. The order matters
%% twice. A check may rely only on fields that an earlier check has proved, so the first failure
%% names the wrong field. And items that send a signal to a probe (memory, links, ...) come last,
%% because they make the probe run; until then the probes' reductions must not change.
-module(sonde_probe).

-export([start/0, stop/0, are_alive/0, quiet/1, alone/1, look_again/1, field_checks/2, late_checks/1,
         functions/1, known_places/1, has_self_bit/1]).
-export([asleep/1, tell/1, begun/1]). % hibernated probes wake up here; processes of in_another/1; a first call
-export_type([probes/0, check/0]).

-type probes() :: #{guard := pid(), pids := #{atom() => pid()}, facts := #{atom() => map()},
                    atom() => term()}.
-type check() :: {atom(), fun(() -> [{Expected :: term(), Found :: term()}])}.

-define(SETTLE_TRIES, 2000).
-define(TRIES, 20).
-define(LOOK_MS, 200). % until a silent probe is checked to be alive
-define(SLICE, 400).   % words that the library compares at once
-define(ROOM, 17731). % words
-define(NO_FRAGMENT, 16#FFFFFFFFFFFFFFF8).

%% ---- the probes ---------------------------------------------------------------------------------

%% The contents are random for each proof, so that a wrong offset does not match by chance. Another
%% process may kill a probe at any time: then this function, or a function that reads the probe,
%% throws `died' or fails. Call stop/0 afterwards in any case.
-spec start() -> probes().
start() ->
    Guard = guard(),
    put(?MODULE, [Guard]),
    S = seeds(),
    [L1, L2, L3] = [spawn_probe(Guard, [], fun wait/1) || _ <- [1, 2, 3]],
    Port = open_port({spawn_driver, "ram_file_drv"}, []),
    Still = maps:map(fun(_, {Opts, Fun}) -> spawn_probe(Guard, Opts, Fun) end,
                    #{base => {[], fun wait/1},
                      ages => {[roomy], fun(Up) -> ages(Up, maps:get(ages, S), 2) end},
                      ages2 => {[roomy], fun(Up) -> ages(Up, maps:get(ages2, S), 3) end},
                      beside => {[roomy], fun swallow_beside/1},
                      combined => {[roomy, off_heap], fun(Up) -> swallow(Up, 1) end},
                      queued => {[], fun wait/1},
                      attached => {[], fun wait/1},
                      attached_bin => {[], fun wait/1},
                      queued_off => {[off_heap], fun wait/1},
                      marked => {[], fun marked/1},
                      delayed => {[], fun(Up) -> delayed(Up, S) end},
                      binaries => {[], fun(Up) -> tidy(Up, binaries(S)) end},
                      appended => {[], fun(Up) -> hold(Up, appended(S)) end},
                      asleep => {[], fun hibernate/1},
                      caught => {[], fun(Up) -> caught(Up, maps:get(caught, S)) end},
                      caught2 => {[], fun(Up) -> caught(Up, maps:get(caught2, S)) end},
                      dict1 => {[], fun(Up) -> dictionary(Up, [maps:get(key, S)]) end},
                      dict2 => {[], fun(Up) -> dictionary(Up, maps:get(keys2, S)) end},
                      dict3 => {[], fun(Up) -> dictionary(Up, maps:get(keys3, S)) end},
                      thinned => {[], fun(Up) -> thinned(Up, S) end},
                      led => {[], fun(Up) -> group_leader(L1, self()), wait(Up) end},
                      led2 => {[], fun(Up) -> group_leader(L2, self()), wait(Up) end},
                      token => {[], fun(Up) -> token(Up, S) end},
                      things => {[], fun(Up) -> things(Up, S) end},
                      shared => {[], fun(Up) -> tidy(Up, shared(maps:get(refs, S), S)) end},
                      shared2 => {[], fun(Up) -> tidy(Up, shared(maps:get(refs2, S), S)) end},
                      trapped => {[], fun trapped/1},
                      calls => {[], fun(Up) -> save_calls(Up, S) end},
                      tables => {[], fun(Up) -> tidy(Up, ets:new(sonde_probe, [])) end},
                      sensitive => {[], fun(Up) -> process_flag(sensitive, true), wait(Up) end},
                      place1 => {[], fun place1/1},
                      place1b => {[], fun place1/1},
                      place2 => {[], fun place2/1},
                      links => {[], fun(Up) -> tidy(Up, [link(P) || P <- [L1, L2, L3]]) end},
                      port_link => {[], fun(Up) -> tidy(Up, link(Port)) end},
                      monitor => {[], fun(Up) -> tidy(Up, monitor(process, L1)) end},
                      alias => {[], fun(Up) -> tidy(Up, alias()) end},
                      named => {[], fun(Up) -> tidy(Up, named_monitor(L2)) end},
                      suspender => {[], fun(Up) -> tidy(Up, erlang:suspend_process(L3)) end},
                      watched => {[], fun wait/1},
                      begun => {[], begun}}),
    Watched = maps:get(watched, Still),
    Watch = fun(Up) -> tidy(Up, monitor(process, Watched)) end,
    Watchers = [spawn_probe(Guard, [], Watch) || _ <- [1, 2, 3]],
    Suspended = #{held_up => held_up(Guard, maps:get(held_up, S)),
                  held_up2 => held_up(Guard, maps:get(held_up2, S)),
                  busy5 => suspended(Guard, busy, fun(Up) -> busy5(Up, S) end),
                  busy9 => suspended(Guard, busy, fun(Up) -> busy9(Up, S) end)},
    Pids = maps:merge(Still, Suspended),
    send_messages(Pids, S),
    %% the chain, last first, with the address of each Binary; asking makes the probe run
    {binary, Reversed} = process_info(maps:get(binaries, Pids), binary),
    Listed = lists:reverse(Reversed),
    %% negative if another process has just begun to monitor one of them: then the check fails
    Slots = max(0, (rest(Still, dict1) - rest(Still, base)) div 8),
    settle(maps:values(Still)),
    #{guard => Guard, pids => Pids, seeds => S, watchers => Watchers, links => [L1, L2, L3],
      port => Port, facts => maps:map(fun(_, P) -> facts(P) end, Still), listed => Listed,
      slots => Slots}.

%% Ends all that start/0 began, also if it failed. The guard may be dead, and this process may not
%% know the last probe that it spawned.
-spec stop() -> ok.
stop() ->
    {links, Links} = process_info(self(), links),
    _ = [try port_close(Port) catch error:badarg -> closed end || Port <- Links, is_port(Port)],
    case lists:reverse(ours()) of
        [Guard | Pids] ->
            Mon = monitor(process, Guard),
            Guard ! {stop, self()},
            receive {'DOWN', Mon, process, Guard, _} -> ok end,
            kill(Pids),
            _ = [ok = sonde_nif:disallow_probe(Pid) || Pid <- Pids],
            erase(?MODULE),
            flush();
        [] ->
            ok
    end.

%% Drops the messages of a probe that was given up.
flush() ->
    receive
        {ready, _} -> flush();
        {Said, _, _} when Said =:= spawned; Said =:= unlinked -> flush();
        {'EXIT', _, _} -> flush()
    after 0 -> ok
    end.

%% The guard is the last one.
ours() ->
    case get(?MODULE) of
        undefined -> [];
        Pids -> Pids
    end.

%% Whether the probes and their guard are alive.
-spec are_alive() -> boolean().
are_alive() -> lists:all(fun is_process_alive/1, ours()).

seeds() ->
    Ages = fun() -> #{old => number(), middle => number(), young => number(),
                      words => 40 + rand:uniform(100)} end,
    %% more than fits the smallest heap of this node, +hms
    {min_heap_size, Least} = erlang:system_info(min_heap_size),
    #{ages => Ages(), ages2 => Ages(), numbers => numbers(6, 14), marked => numbers(6, 14),
      held_up => numbers(6, 14), held_up2 => numbers(15, 25),
      big1 => Least + 1000 + rand:uniform(200), big2 => Least + 1300 + rand:uniform(200),
      fill => number(), sizes => [65 + rand:uniform(5000) || _ <- lists:seq(1, 4)],
      data => rand:bytes(8), key => number(), keys2 => numbers(20, 40), keys3 => numbers(100, 200),
      calls => 5 + rand:uniform(40), label => number(), thing => number(),
      caught => 2 + rand:uniform(20), caught2 => 30 + rand:uniform(20),
      bytes => rand:bytes(300), refs => 2 + rand:uniform(20), refs2 => 30 + rand:uniform(20)}.

%% An immediate term of 59 random bits.
number() -> rand:uniform(1 bsl 58).

numbers(Least, Most) ->
    [number() || _ <- lists:seq(1, Least - 1 + rand:uniform(Most - Least + 1))].

%% A heap large enough that no collection happens before the probe starts one.
options(Opts) ->
    Data = case lists:member(off_heap, Opts) of true -> off_heap; false -> on_heap end,
    {min_heap_size, Least} = erlang:system_info(min_heap_size),
    Room = case lists:member(roomy, Opts) of true -> max(?ROOM, 4 * Least); false -> Least end,
    [{message_queue_data, Data}, {min_heap_size, Room}, {min_bin_vheap_size, 46422},
     {fullsweep_after, 65535}, {max_heap_size, 0}].

%% Fun(Up) calls ready(Up) and then waits. It keeps only what the checks must find.
spawn_probe(Guard, Opts, Fun) ->
    Up = self(),
    Guard ! {spawn, case Fun of
                        begun -> begun;
                        _ -> fun() -> Fun(Up) end
                    end, options(Opts)},
    case told(Guard, spawned) of
        system_limit ->
            error(system_limit);
        Pid ->
            put(?MODULE, [Pid | ours()]),
            Guard ! {known, Pid},
            Pid = told(Guard, unlinked),
            ok = sonde_nif:allow_probe(Pid),
            ok = is_ready(Pid),
            Pid
    end.

told(Guard, What) ->
    receive {What, Guard, Pid} -> Pid
    after ?LOOK_MS -> is_process_alive(Guard) orelse throw(died), told(Guard, What)
    end.

%% Does not monitor the probe: monitors are among what the checks read.
is_ready(Pid) ->
    receive {ready, Pid} -> ok
    after ?LOOK_MS -> is_process_alive(Pid) orelse throw(died), is_ready(Pid)
    end.

ready(Up) ->
    Up ! {ready, self()},
    ok.

%% What a probe keeps must be live on its stack.
hold(Up, Term) ->
    ready(Up),
    receive stop -> Term end.

%% Leaves nothing else on its heap, not even what Fun brought.
tidy(Up, Term) ->
    true = erlang:garbage_collect(),
    hold(Up, Term).

wait(Up) -> tidy(Up, ok).

%% Starts the probes, and kills them if the prover is killed at any time. It does not link to them:
%% links are among what the checks read.
guard() ->
    Prover = self(),
    spawn(fun() ->
                  Mon = monitor(process, Prover),
                  guard([], Prover, Mon)
          end).

guard(Pids, Prover, Mon) ->
    receive
        {spawn, Fun, Opts} ->
            %% linked until the prover knows it: if the guard is killed before, it dies too
            Pid = try started(Fun, Prover, [link | Opts]) catch error:system_limit -> system_limit end,
            Prover ! {spawned, self(), Pid},
            guard([Pid || is_pid(Pid)] ++ Pids, Prover, Mon);
        {known, Pid} ->
            true = unlink(Pid),
            _ = process_info(Pid, links), % the answer comes after the link is gone
            Prover ! {unlinked, self(), Pid},
            guard(Pids, Prover, Mon);
        {stop, _} -> kill(Pids);
        {'DOWN', Mon, process, _, _} -> kill(Pids)
    end.

%% One probe begins with another function than the others.
started(begun, Prover, Opts) -> spawn_opt(?MODULE, begun, [Prover], Opts);
started(Fun, _, Opts) -> spawn_opt(Fun, Opts).

kill(Pids) -> lists:foreach(fun(P) -> exit(P, kill) end, Pids).

%% Puts a term into each generation: old is older than two collections, middle than one.
ages(Up, #{old := O, middle := M, young := Y, words := N}, Minors) ->
    Old = lists:duplicate(N, O),
    _ = [erlang:garbage_collect(self(), [{type, minor}]) || _ <- lists:seq(2, Minors)],
    Middle = lists:duplicate(N + Minors, M),
    erlang:garbage_collect(self(), [{type, minor}]),
    Young = lists:duplicate(N + 3 * Minors, Y),
    hold(Up, {Old, Middle, Young}).

%% Big messages arrive while the stack is so deep that they need separate fragments. When they are
%% received the stack is gone, so the heap has room for the fragments, and they cause no collection.
swallow_beside(Up) ->
    {stack_size, S0} = process_info(self(), stack_size),
    S100 = deep(100, fun() -> element(2, process_info(self(), stack_size)) end),
    {heap_size, Room} = process_info(self(), heap_size),
    Depth = (Room - 700) * 100 div (S100 - S0),
    _ = deep(Depth, fun() -> ready(Up), receive go -> 0 end end),
    swallow(2, [], Up).

%% Not a tail call: every level is a frame.
deep(0, Fun) -> Fun();
deep(N, Fun) -> deep(N - 1, Fun) + 0 * N.

%% The data stays in fragments until the next collection.
swallow(Up, N) ->
    ready(Up),
    swallow(N, [], Up).

swallow(0, Got, Up) ->
    hold(Up, Got);
swallow(N, Got, Up) ->
    receive Big when is_tuple(Big) -> swallow(N - 1, [Big | Got], Up) end.

%% It sends to itself when all signals of its start are handled, and has no messages when it is ready again.
to_itself(Up) ->
    ready(Up),
    receive go -> self() ! Up end,
    receive Up -> wait(Up) end.

%% Waits with a receive marker in its message queue, after the messages that were there before.
marked(Up) ->
    ready(Up),
    receive go -> ready(Up) end,
    Ref = make_ref(),
    receive Ref -> ok end.

%% Fills its heap in the middle of a receive, when it looks at a message as interpreted code does. Collections are
%% delayed meanwhile, so the VM gives it another heap, and abandons this one. What it made before may have been
%% collected and its heap may have another size by then, if it was asked meanwhile whether it is alive.
delayed(Up, #{thing := N, ages := #{words := Words}}) ->
    true = erlang:garbage_collect(),
    ready(Up),
    Look = fun(_) ->
                   Made = lists:duplicate(Words, N),
                   {heap_size, Block} = process_info(self(), heap_size),
                   overflow(Block - 2 * Words - 250),
                   true = length(Made) =:= Words,
                   ready(Up),
                   nomatch
           end,
    prim_eval:'receive'(Look, infinity).

%% All but a few words at once, because each time that there is no room makes a small fragment.
overflow(Free) ->
    Filled = erlang:make_tuple(max(0, Free), 0),
    Rest = lists:seq(1, 400),
    true = tuple_size(Filled) + length(Rest) > 0.

hibernate(Up) ->
    ready(Up),
    erlang:hibernate(?MODULE, asleep, [x]).

binaries(#{sizes := Sizes}) -> [binary:copy(<<0>>, N) || N <- Sizes].

%% A writable binary: appended to until it does not fit the heap.
appended(#{data := Data}) ->
    lists:foldl(fun(I, Acc) -> <<Acc/binary, I:32>> end, <<Data/binary>>, lists:seq(1, 100)).

dictionary(Up, Keys) ->
    lists:foreach(fun(K) -> put(K, K) end, Keys),
    wait(Up).

%% The table keeps its size, and has more slots than keys.
thinned(Up, #{keys3 := Keys}) ->
    lists:foreach(fun(K) -> put(K, K) end, Keys),
    lists:foreach(fun erase/1, lists:sublist(Keys, length(Keys) div 4)),
    wait(Up).

%% After setting a seq_trace token the probe must send nothing: the receiver would continue with the
%% token. Nothing else is near the token on the heap.
token(Up, #{label := Label, ages := #{words := N}}) ->
    _ = seq_trace:get_token(), % loads the module, which leaves terms behind
    true = erlang:garbage_collect(),
    Before = lists:duplicate(N, N),
    ready(Up),
    _ = seq_trace:set_token(label, Label),
    receive stop -> Before end.

things(Up, #{thing := N, bytes := Bytes}) ->
    Things = sonde_probe_terms:hold_all(N, Bytes),
    true = erlang:garbage_collect(),
    ok = sonde_probe_terms:leave_garbage(N, Bytes),
    hold(Up, [sonde_probe_terms:small_slice(Bytes) | Things]).

%% A term read from a table adds one reference to the same Binary.
shared(N, #{data := Data}) ->
    Table = ets:new(sonde_probe, []),
    true = ets:insert(Table, {x, list_to_binary([Data, binary:copy(<<255>>, 100)])}),
    Bins = [ets:lookup_element(Table, x, 2) || _ <- lists:seq(1, N)],
    true = ets:delete(Table),
    Bins.

%% Preempted with live arguments: five, and more than the process structure has room for.
-spec busy5(pid(), map()) -> no_return().
busy5(Up, #{numbers := [A, B, C, D, E | _]}) ->
    ready(Up),
    busy(A, B, C, D, E).

-spec busy(T, T, T, T, T) -> no_return().
busy(A, B, C, D, E) -> busy(B, C, D, E, A).

-spec busy9(pid(), map()) -> no_return().
busy9(Up, #{numbers := [A, B, C, D, E, F | _]}) ->
    ready(Up),
    busy(A, B, C, D, E, F, A, A, A).

-spec busy(T, T, T, T, T, T, T, T, T) -> no_return().
busy(A, B, C, D, E, F, G, H, I) -> busy(B, C, D, E, F, G, H, I, A).

save_calls(Up, #{calls := N}) ->
    process_flag(save_calls, N),
    wait(Up).

%% Monitors by a name, which another process may already have registered; if all are taken, by a
%% name that is always registered.
named_monitor(Pid) -> named_monitor(Pid, [sonde_probe_named, sonde_probe_named_2]).

named_monitor(_, []) ->
    monitor(process, init);
named_monitor(Pid, [Name | Names]) ->
    try register(Name, Pid) of
        true ->
            Ref = monitor(process, Name),
            true = unregister(Name),
            Ref
    catch
        error:badarg -> named_monitor(Pid, Names)
    end.

%% Runs once this process is allowed to: only a probe is.
trapped(Up) ->
    ready(Up),
    receive go -> ok end,
    ok = sonde_nif:probe_trap(),
    wait(Up).

%% Waits inside of so many `try' expressions.
caught(Up, 0) ->
    wait(Up);
caught(Up, N) ->
    try caught(Up, N - 1) catch throw:never -> ok end.

place1(Up) ->
    ready(Up),
    receive stop -> ok; {on, To} -> place2(To) end.

place2(Up) ->
    ready(Up),
    receive stop -> ok; {back, To} -> place1(To) end.

-spec begun(pid()) -> term().
begun(Up) -> wait(Up).

-spec asleep(term()) -> ok.
asleep(_) -> ok.

%% The state between unlink/1 and the answer of the other end: only the process itself can read it.
unlink_and_look() ->
    Look = fun() -> sonde_nif:probe(self(), [links, link_unlinking], value, none) end,
    Other = spawn_link(fun() -> receive stop -> ok end end),
    Before = Look(),
    unlink(Other),
    After = Look(),
    exit(Other, kill),
    {Before, is_positive(After)}.

send_messages(#{beside := B, combined := C, queued := Q, attached := A, attached_bin := AB,
                queued_off := QO, marked := M, trapped := T, delayed := D},
              #{big1 := N1, big2 := N2, fill := F, numbers := Numbers, marked := More,
                sizes := [Size | _]}) ->
    Big1 = erlang:make_tuple(N1, F),
    Big2 = erlang:make_tuple(N2, F),
    _ = [Q ! X || X <- Numbers],
    _ = [M ! X || X <- More],
    B ! Big1, B ! Big2, C ! Big1, D ! go,
    _ = [P ! go || P <- [B, M, T]],
    _ = [ok = is_ready(P) || P <- [B, C, M, T, D]],
    A ! Big1,
    AB ! erlang:append_element(Big1, binary:copy(<<1>>, Size)),
    QO ! Big2,
    ok.

%% ---- when a probe is idle -----------------------------------------------------------------------

settle(Pids) -> lists:foreach(fun(P) -> settle(P, -1, ?SETTLE_TRIES) end, Pids).

settle(_, _, 0) -> ok;
settle(Pid, Reds, Tries) ->
    case process_info(Pid, [status, reductions, message_queue_len]) of
        [{status, waiting}, {reductions, Reds}, _] -> ok;
        [_, {reductions, Now}, _] -> erlang:yield(), settle(Pid, Now, Tries - 1)
    end.

%% Suspends a probe in the intended function.
suspended(Guard, Function, Fun) ->
    suspend(spawn_probe(Guard, [], Fun), Function).

%% Suspended before the messages arrive: they stay in the outer queue.
held_up(Guard, Messages) ->
    Pid = suspended(Guard, hold, fun wait/1),
    _ = [Pid ! M || M <- Messages],
    Pid.

suspend(Pid, Function) ->
    {Mine, Named} = sonde_remote_name:here(?MODULE, Function),
    true = erlang:suspend_process(Pid),
    case process_info(Pid, current_function) of
        {current_function, {Mine, Named, _}} ->
            Pid;
        _ ->
            true = erlang:resume_process(Pid),
            erlang:yield(),
            suspend(Pid, Function)
    end.

%% Items that need no signal, and so change nothing in an idle process.
facts(Pid) ->
    Items = [reductions, catchlevel, heap_size, stack_size, garbage_collection, garbage_collection_info,
             status],
    Info = maps:from_list(process_info(Pid, Items)),
    maps:merge(Info, maps:from_list(maps:get(garbage_collection_info, Info))).

%% Checks that no probe has run since its facts were taken (all but the suspended ones answer
%% without running), that none is traced (another process may trace all new processes), and that
%% none was collected: the fragments are still there.
-spec quiet(probes()) -> boolean().
quiet(#{pids := Pids} = Ps) ->
    Same = fun(Name) ->
                   Pid = maps:get(Name, Pids),
                   process_info(Pid, reductions) =:= {reductions, fact(Ps, Name, reductions)}
                       andalso erlang:trace_info(Pid, flags) =:= {flags, []}
           end,
    fragments_there(Ps) andalso lists:all(Same, still(Ps)).

fragments_there(Ps) -> lists:all(fun(P) -> fact(Ps, P, mbuf_size) > 0 end, [beside, combined, delayed]).

%% Checks that no process outside of the probes links to or monitors one of them. This makes the
%% probes run, so it comes after a proof that has failed.
-spec alone(probes()) -> boolean().
alone(#{guard := Guard, pids := Pids, watchers := Watchers, links := Links} = Ps) ->
    Ours = maps:from_keys([self(), Guard] ++ maps:values(Pids) ++ Watchers ++ Links, true),
    Seen = [process_info(maps:get(Name, Pids), [links, monitored_by]) || Name <- still(Ps)]
        ++ [process_info(Pid, [links, monitored_by]) || Pid <- Links],
    lists:all(fun is_list/1, Seen) andalso
        [] =:= [Other || Items <- Seen, {_, Others} <- Items, Other <- Others,
                         is_pid(Other), not is_map_key(Other, Ours)].

%% A question makes the suspended probe take in its messages, so this replaces it by a new one.
-spec look_again(probes()) -> probes().
look_again(#{guard := Guard, pids := Pids, seeds := S} = Ps) ->
    Still = maps:with(still(Ps), Pids),
    settle(maps:values(Still)),
    %% the first ones are in the late checks
    _ = [ok = sonde_nif:disallow_probe(maps:get(P, Pids))
         || P <- [held_up, held_up2], is_map_key(again, Ps)],
    Ps#{again => true,
        facts := maps:map(fun(_, P) -> facts(P) end, Still),
        pids := Pids#{held_up := held_up(Guard, maps:get(held_up, S)),
                      held_up2 := held_up(Guard, maps:get(held_up2, S))}}.

%% The names of the probes that wait.
still(#{facts := Facts}) -> maps:keys(Facts).

%% ---- fields -------------------------------------------------------------------------------------

-spec field_checks(probes(), {non_neg_integer(), non_neg_integer()}) -> [check()].
field_checks(Probes, Form) ->
    execution(Probes) ++ young_heap(Probes) ++ old_heap(Probes) ++ messages(Probes)
        ++ fragments(Probes) ++ off_heap(Probes) ++ registers(Probes) ++ dictionary(Probes)
        ++ roots(Probes) ++ ties(Probes, Form) ++ sonde_probe_terms:resource_checks().

read(Ps, Name, Path) -> read(Ps, Name, Path, value, none).

read(#{pids := Pids}, Name, Path, Op, {Words, Word})
  when Op =:= has; Op =:= has_pair; Op =:= has_data; Op =:= has_ref; Op =:= has_count ->
    has_from(0, maps:get(Name, Pids), Path, Op, Words, Word);
read(#{pids := Pids}, Name, Path, Op, Arg) ->
    sonde_nif:probe(maps:get(Name, Pids), Path, Op, Arg).

%% Compares in slices.
has_from(From, Pid, Path, Op, Words, Word) ->
    case sonde_nif:probe(Pid, Path, Op, {From, min(?SLICE, Words - From), Word}) of
        0 when From + ?SLICE < Words -> has_from(From + ?SLICE, Pid, Path, Op, Words, Word);
        Found -> Found
    end.

fact(#{facts := Facts}, Name, Fact) -> maps:get(Fact, maps:get(Name, Facts)).

%% Compares a number with that of an official call, on several probes.
numbers(Ps, Names, Field, Fact) ->
    fun() -> [{fact(Ps, N, Fact), read(Ps, N, [Field])} || N <- Names] end.

%% Compares the number of words between two pointers, of which the second is proved already.
distances(Ps, Names, Field, Other, Fact) ->
    fun() -> [{fact(Ps, N, Fact), read(Ps, N, [Field], minus, Other)} || N <- Names] end.

%% Another field may point into the block by chance, but not to its start: the start is at a known
%% distance from its end, or (if the end is the wrong number) from its used part.
begins(Ps, Names, Field, Ends) ->
    [{true, lists:any(fun({End, Fact}) ->
                              read(Ps, N, [End], minus, Field) =:= fact(Ps, N, Fact)
                      end, Ends)}
     || N <- Names].

%% The field points to a block that holds what the probe was given.
has(Ps, Name, Path, Words, Term) ->
    {1, read(Ps, Name, Path, has, {Words, {term, Term}})}.

execution(#{pids := Pids} = Ps) ->
    Mask = 16#3F bor 16#400 bor 16#800 bor 16#2000 bor 16#8000 bor 16#10000 bor 16#20000,
    State = fun(P) -> masked(sonde_nif:probe(P, [state], value, none), Mask) end,
    Suspended = fun() -> State(maps:get(held_up, Pids)) end,
    [{state, fun() -> [{16#2A, State(maps:get(base, Pids))},
                       {16#A02A, State(self())},
                       stopped(Suspended, 16#1202A, ?SETTLE_TRIES)] end},
     {lock, fun() -> [{0, read(Ps, P, [lock])} || P <- still(Ps)]
                         ++ [{1, own_lock()} | [{1, in_another(fun own_lock/0)} || _ <- [1, 2]]]
           end},
     {reds, numbers(Ps, [base, ages, dict1], reds, reductions)},
     {pc, fun() -> places(Ps) end},
     {catches, numbers(Ps, still(Ps), catches, catchlevel)},
     {trace_flags, fun() -> [{0, read(Ps, P, [trace_flags])} || P <- still(Ps) -- [sensitive]]
                                ++ [{8, read(Ps, sensitive, [trace_flags])}] end}].

%% The state of a suspended process changes a moment before it stops.
stopped(State, Expected, Tries) ->
    case State() of
        Found when Tries > 0, Found =:= Expected bor 16#8000 ->
            erlang:yield(),
            stopped(State, Expected, Tries - 1);
        Found ->
            {Expected, Found}
    end.

masked(N, Mask) when is_integer(N) -> N band Mask;
masked(Other, _) -> Other.

is_positive(N) -> is_integer(N) andalso N > 0.

%% A running process holds its main lock.
own_lock() -> sonde_nif:probe(self(), [lock], value, none).

%% The other process is a probe too. It ends by itself if this process is gone; it is not linked,
%% since links are among what the checks read.
in_another(Fun) ->
    {Pid, Mon} = spawn_opt(?MODULE, tell, [Fun], [monitor, {max_heap_size, 0}]),
    ok = sonde_nif:allow_probe(Pid),
    Pid ! go,
    receive
        {'DOWN', Mon, process, Pid, Why} ->
            ok = sonde_nif:disallow_probe(Pid),
            case Why of
                {is, Result} -> Result;
                _ -> throw(died)
            end
    end.

-spec tell(fun(() -> term())) -> no_return().
tell(Fun) ->
    receive go -> exit({is, Fun()})
    after 1000 -> exit(alone)
    end.

%% Many wait at the same place, some at other places.
places(#{pids := Pids}) ->
    #{place1 := A, place1b := B, place2 := C, base := D, marked := E, asleep := F} = Pids,
    Same = fun(X, Y) -> sonde_nif:probe(X, [pc], same, Y) end,
    Hold = [maps:get(P, Pids) || P <- [ages, beside, queued, binaries, dict1, links]],
    [{1, Same(X, Y)} || {X, Y} <- [{A, B} | [{D, H} || H <- Hold]]]
        ++ [{0, Same(X, Y)} || X <- [A, C, D, E, F], Y <- [A, C, D, E, F], X < Y].

young_heap(#{seeds := #{thing := N} = Seeds} = Ps) ->
    Ages = [ages, ages2],
    [%% the hibernated one has less than its least size
     {heap_sz, numbers(Ps, [base, asleep | Ages], heap_sz, heap_block_size)},
     {heap, fun() -> [has(Ps, P, [heap], fact(Ps, P, recent_size), M)
                      || P <- Ages, #{middle := M} <- [maps:get(P, Seeds)]]
                         ++ begins(Ps, Ages, heap,
                                   [{hend, heap_block_size}, {htop, heap_size}]) end},
     {hend, distances(Ps, Ages, hend, heap, heap_block_size)},
     {htop, distances(Ps, Ages, htop, heap, heap_size)},
     {stop, fun() -> [{-fact(Ps, P, stack_size), read(Ps, P, [stop], minus, hend)}
                      || P <- [base | Ages]] end},
     {high_water, distances(Ps, Ages, high_water, heap, recent_size)},
     %% its last word is the number of words in use
     {abandoned, fun() -> [has(Ps, delayed, [abandoned], fact(Ps, delayed, heap_size), N),
                           {1, read(Ps, delayed, [abandoned], has,
                                    {fact(Ps, delayed, heap_block_size) - 1, 1,
                                     fact(Ps, delayed, heap_size)})}
                          | nothing(Ps, abandoned, still(Ps) -- [delayed])] end}].

old_heap(#{seeds := Seeds} = Ps) ->
    Ages = [ages, ages2],
    [{old_heap, fun() -> [has(Ps, P, [old_heap], fact(Ps, P, old_heap_size), O)
                          || P <- Ages, #{old := O} <- [maps:get(P, Seeds)]]
                             ++ begins(Ps, Ages, old_heap, [{old_hend, old_heap_block_size},
                                                            {old_htop, old_heap_size}]) end},
     {old_htop, distances(Ps, Ages, old_htop, old_heap, old_heap_size)},
     {old_hend, distances(Ps, Ages, old_hend, old_heap, old_heap_block_size)},
     {gen_gcs, fun() -> [{proplists:get_value(minor_gcs, fact(Ps, P, garbage_collection)),
                          read(Ps, P, [gen_gcs])} || P <- still(Ps)] end}].

%% ---- messages -----------------------------------------------------------------------------------

messages(#{seeds := #{numbers := [N1, N2, N3, N4 | _] = Numbers,
                      fill := F, big1 := Big1, big2 := Big2,
                      held_up := [O | _] = Outer, held_up2 := [O2 | _] = Outer2}} = Ps) ->
    K = length(Numbers),
    HasMail = [queued, marked, attached, attached_bin, queued_off, delayed],
    [{sig_first, fun() -> [has(Ps, queued, [sig_first], 6, N1)] end},
     {msg_tag, fun() -> [{1, read(Ps, queued, [sig_first, msg_tag], is, {term, N1})}] end},
     {msg_next, fun() -> [has(Ps, queued, [sig_first | Next], 6, N)
                          || {N, Next} <- [{N2, [msg_next]}, {N3, [msg_next, msg_next]},
                                           {N4, [msg_next, msg_next, msg_next]}]] end},
     {msg_attached, fun() ->
          [{1, read(Ps, attached, [sig_first, msg_attached], has, {Big1, {term, F}})},
           {1, read(Ps, queued_off, [sig_first, msg_attached])},
           {0, read(Ps, queued, [sig_first, msg_attached])}] end},
     %% the first word of the data is the header of the tuple
     {frag_mem, fun() -> [{1, read(Ps, attached, [sig_first, msg_attached, frag_mem], is,
                                   Big1 bsl 6)}] end},
     {msg_hfrag, fun() -> [{1, read(Ps, queued_off, [sig_first, {at, msg_hfrag}, frag_mem], is,
                                    Big2 bsl 6)}] end},
     {sig_len, fun() -> [{K, read(Ps, queued, [sig_len])}
                         | [{0, read(Ps, P, [sig_len])} || P <- still(Ps) -- HasMail]] end},
     {sig_flags, fun() -> [{Flags, masked(read(Ps, P, [sig_flags]), 16#FF)}
                           || P <- still(Ps),
                              Flags <- [case lists:member(P, [combined, queued_off]) of
                                            true -> 1;
                                            false -> 2
                                        end]] end},
     {inq_first, fun() -> [has(Ps, held_up, [inq_first], 6, O),
                           has(Ps, held_up2, [inq_first], 6, O2)] end},
     {inq_len, fun() -> [{length(Outer), read(Ps, held_up, [inq_len])},
                         {length(Outer2), read(Ps, held_up2, [inq_len])}
                         | [{0, read(Ps, P, [inq_len])} || P <- still(Ps)]] end}].

%% The data of received messages waits in fragments; those on `mbuf' come from calls that found no
%% room on the heap, and only the process itself can read them.
fragments(#{seeds := #{fill := F, big1 := Big1, big2 := Big2}} = Ps) ->
    Swollen = fun(What) -> in_another(swollen(What, Big1 rem 997, Big2 rem 991, F)) end,
    [{mbuf_sz, fun() -> [{true, fragments_there(Ps)}
                         | [{fact(Ps, P, mbuf_size), read(Ps, P, [mbuf_sz])}
                            || P <- [base, beside, combined]]] end},
     {mbuf, fun() -> [Swollen(head), {0, read(Ps, base, [mbuf])}] end},
     %% these have more room than is used
     {frag_used, fun() -> [Swollen(last),
                           {Big1 + 1, read(Ps, attached, [sig_first, msg_attached, frag_used])}]
                 end},
     {frag_next, fun() -> [Swollen(first)] end},
     {msg_frag, fun() -> [has(Ps, P, [msg_frag | To], Big1, F)
                          || {P, To} <- [{combined, []}, {beside, [msg_attached]}]]
                             ++ nothing(Ps, msg_frag, still(Ps) -- [combined, beside]) end}].

%% Makes two tuples, one after the other, for which the heap has no room; returns what is expected
%% of one of them, and what is found. The tuples are small, because only then a normal scheduler
%% makes them; so a large heap (+hms) is filled first.
swollen(What, More1, More2, Fill) ->
    fun() ->
            {total_heap_size, Words} = process_info(self(), total_heap_size),
            true = garbage_collect(),
            Filled = erlang:make_tuple(max(0, Words - 2000), Fill), % the rest is almost empty
            {First, Last} = {3000 + More1, 5000 + 2 * More2},
            {Expected, Path, Op, Arg} =
                case What of
                    head -> {1, [mbuf, frag_mem], is, Last bsl 6};
                    last -> {Last + 1, [mbuf, frag_used], value, none};
                    first -> {First + 1, [mbuf, frag_next, frag_used], value, none}
                end,
            Found = sonde_nif:probe_swollen({First, Last, Fill}, Path, Op, Arg),
            true = tuple_size(Filled) >= 0,
            {Expected, Found}
    end.

%% ---- binaries -----------------------------------------------------------------------------------

off_heap(#{listed := [{B1, S1, _}, {B2, S2, _} | _],
           seeds := #{data := Data, refs := Refs, refs2 := Refs2}} = Ps) ->
    [{off_heap, fun() -> [{1, read(Ps, binaries, [off_heap], has, {6, B1})}] end},
     {bin_thing, fun() -> [{1, read(Ps, binaries, [off_heap], head_field, bin_thing)}] end},
     {bin_ptr, fun() -> [{1, read(Ps, binaries, [off_heap, bin_ptr], is, B1)}] end},
     {oh_next, fun() -> [{1, read(Ps, binaries, [off_heap, oh_next], has, {6, B2})}] end},
     {bin_size, fun() ->
          [{S1, read(Ps, binaries, [off_heap, bin_ptr, bin_size])},
           {S2, read(Ps, binaries, [off_heap, oh_next, bin_ptr, bin_size])}] end},
     {bin_refc, fun() -> [{N, read(Ps, P, [off_heap, bin_ptr, bin_refc])}
                          || {P, N} <- [{shared, Refs}, {shared2, Refs2}]] end},
     {bin_bytes, fun() -> [{1, read(Ps, P, [off_heap, bin_ptr, bin_bytes], is, Data)}
                           || P <- [shared, shared2]] end},
     {frag_off_heap, fun() ->
          [{1, read(Ps, attached_bin, [sig_first, msg_attached, frag_off_heap], head_field,
                    bin_thing)}] end},
     {wrt_bins, fun() -> [{1, read(Ps, appended, [wrt_bins], has_data, {6, Data})}
                          | nothing(Ps, wrt_bins, still(Ps) -- [appended, things])] end}].

%% Without such an object the field is 0.
nothing(Ps, Field, Names) -> [{0, read(Ps, P, [Field])} || P <- Names].

%% ---- registers, dictionary, process specific data -----------------------------------------------

registers(#{seeds := #{numbers := [N | _]}} = Ps) ->
    [{arity, fun() -> [{0, read(Ps, P, [arity])} || P <- still(Ps) -- [asleep]]
                          ++ [{A, read(Ps, P, [arity])}
                              || {P, A} <- [{asleep, 3}, {busy5, 5}, {busy9, 9}]] end},
     {arg_reg, fun() -> [has(Ps, asleep, [arg_reg], 3, mine()), has(Ps, busy5, [arg_reg], 5, N),
                         has(Ps, busy9, [arg_reg], 9, N)] end},
     {def_arg_reg, fun() -> [{Own, read(Ps, P, [arg_reg], own, def_arg_reg)}
                             || {P, Own} <- [{asleep, 1}, {base, 1}, {busy5, 1}, {busy9, 0}]] end}].

mine() -> element(1, sonde_remote_name:here(?MODULE, asleep)).

dictionary(#{seeds := #{key := Key, keys2 := Keys2, keys3 := Keys3, calls := Calls},
             slots := Slots} = Ps) ->
    Sizes = [{dict1, 1}, {dict2, length(Keys2)}, {dict3, length(Keys3)}],
    [{dictionary, fun() -> [{1, read(Ps, dict1, [dictionary], has_pair, {Slots, {term, Key}})}
                            | nothing(Ps, dictionary, still(Ps) -- [dict1, dict2, dict3, thinned])]
                  end},
     {dict_count, fun() -> [{N, read(Ps, P, [dictionary, dict_count])} || {P, N} <- Sizes] end},
     {dict_used, fun() -> [places_used(Ps, Sizes ++ [{thinned, length(Keys3)}])] end},
     {psd, fun() -> [{1, read(Ps, calls, [psd], has_count, {10, Calls})}] end},
     {psd_saved_calls, fun() ->
          [{1, read(Ps, calls, [psd, psd_saved_calls], head_count, Calls)},
           {0, read(Ps, tables, [psd, psd_saved_calls])}] end},
     %% the data names its function
     {psd_nfunc, fun() -> [has(Ps, trapped, [psd, psd_nfunc], 16, sonde_nif),
                           {0, read(Ps, tables, [psd, psd_nfunc])}] end}].

%% A dictionary grows by a few slots at a time. Its initial number of slots (+hpds) is known only to
%% be a power of two.
places_used(Ps, Sizes) ->
    Found = [read(Ps, P, [dictionary, dict_used]) || {P, _} <- Sizes],
    Grown = fun(Log) -> [places(1 bsl Log, 1, Keys) || {_, Keys} <- Sizes] end,
    case [Log || Log <- lists:seq(0, 16), Grown(Log) =:= Found] of
        [] -> {Grown(3), Found};
        _ -> {Found, Found}
    end.

places(Places, Key, Keys) when Key > Keys -> Places;
places(Places, Key, Keys) when Places > Key -> places(Places, Key + 1, Keys);
places(Places, Key, Keys) -> places(Places + max(1, Places div 4 band 15), Key + 1, Keys).

%% ---- the rarer roots

roots(#{guard := Guard, links := [L1, L2 | _], seeds := #{label := Label}} = Ps) ->
    Is = fun(P, Field, Pid) -> {1, read(Ps, P, [Field], is, {term, Pid})} end,
    [{group_leader, fun() -> [Is(P, group_leader, L) || {P, L} <- [{led, L1}, {led2, L2}]] end},
     {parent, fun() -> [Is(P, parent, Guard) || P <- still(Ps)] end},
     {seq_token, fun() -> [has(Ps, token, [seq_token], 6, Label)] end},
     {live_frag_end, fun() -> [{1, read(Ps, P, [live_frag_end], is, ?NO_FRAGMENT)}
                               || P <- still(Ps)] end},
     {recv_marks, fun() -> [{1, read(Ps, marked, [recv_marks], has_ref, {1, 0})}
                            | nothing(Ps, recv_marks, still(Ps) -- [marked])] end}].

%% ---- links and monitors -------------------------------------------------------------------------

-define(LINK_PROC, 10).
-define(LINK_PORT, 11).

ties(#{pids := #{watched := Watched}, watchers := [W1, W2, W3], links := [L1 | _] = Links,
       port := Port} = Ps, {Shift, TypeMask}) ->
    %% in the order of the tree, its root in the middle
    Holds = fun(Path, Nth) -> has(Ps, links, Path, 6, lists:nth(Nth, by_word(Links))) end,
    Type = fun(Name, Path) -> masked(read(Ps, Name, Path ++ [node_type]), TypeMask) end,
    Flags = fun(Name, Path) -> shifted(read(Ps, Name, Path ++ [node_flags]), Shift) end,
    [{links, fun() -> [Holds([links], 2), has(Ps, port_link, [links], 6, Port)
                       | nothing(Ps, links, still(Ps) -- [links, port_link])] end},
     {tree_right, fun() -> [Holds([links, tree_right], 3)] end},
     {tree_left, fun() -> [Holds([links, tree_left], 1)] end},
     {lt_monitors, fun() -> [has(Ps, watched, [lt_monitors], 6, W1)
                             | nothing(Ps, lt_monitors, still(Ps) -- [watched])] end},
     {list_next, fun() -> [has(Ps, watched, [lt_monitors | Next], 6, W)
                           || {W, Next} <- [{W2, [list_next]}, {W3, [list_next, list_next]},
                                            {W1, [list_next, list_next, list_next]}]] end},
     {monitors, fun() -> [has(Ps, monitor, [monitors], 6, L1)
                          | nothing(Ps, monitors, still(Ps) -- [monitor, named, alias, suspender])]
                end},
     %% the origin comes first in what both ends share
     {node_offset, fun() -> [has(Ps, watched, [lt_monitors, base], 6, Watched) | offsets(Ps)] end},
     {node_flags, fun() -> [{3, Flags(watched, [lt_monitors])}, {2, Flags(monitor, [monitors])},
                            {2, Flags(links, [links])},
                            {16#10, masked(Flags(named, [monitors]), 16#10)}] end},
     {node_type, fun() -> [{0, Type(monitor, [monitors])}, {?LINK_PROC, Type(links, [links])},
                           {?LINK_PORT, Type(port_link, [links])}] end},
     {node_other, fun() -> [{1, read(Ps, P, [Root, node_other], is, {term, Other})}
                            || {P, Root, Other} <- [{monitor, monitors, L1},
                                                    {links, links, lists:nth(2, by_word(Links))}]]
                  end},
     {link_unlinking, fun() -> [{{0, true}, in_another(fun unlink_and_look/0)}] end},
     {mon_refc, fun() -> [{N, read(Ps, P, [Root, base, mon_refc])}
                          || {P, Root, N} <- [{monitor, monitors, 2}, {named, monitors, 2},
                                              {watched, lt_monitors, 2},
                                              {alias, monitors, 1}]] end},
     {mon_ref, fun() -> [{1, read(Ps, P, [Root, base, mon_ref], head_ref, none)}
                         || {P, Root} <- [{monitor, monitors}, {named, monitors}, {alias, monitors},
                                          {watched, lt_monitors}]] end}].

offsets(Ps) ->
    Target = read(Ps, watched, [lt_monitors, node_offset]),
    [{0, read(Ps, P, [Root, node_offset])}
     || {P, Root} <- [{monitor, monitors}, {named, monitors}, {alias, monitors}, {links, links}]]
        ++ [{true, is_positive(Target)},
            {Target, read(Ps, watched, [lt_monitors, list_next, node_offset])}].

shifted(N, Shift) when is_integer(N) -> N bsr Shift;
shifted(Other, _) -> Other.

%% The trees are ordered by the words of the pids, which is not term order.
by_word(Pids) ->
    lists:sort(fun(A, B) -> sonde_nif:probe(A, [id], less, B) =:= 1 end, Pids).

%% ---- sizes, and whole attributes ----------------------------------------------------------------

%% Sizes are proved by `memory' of a probe that has one object besides its blocks. Then come every
%% attribute, read as a scan does, on every probe, and what a walk over its heap reaches.
-spec late_checks(probes()) -> [check()].
late_checks(#{pids := Pids} = Ps) ->
    sizes(Ps) ++ attributes(Ps) ++ sonde_probe_terms:checks(maps:with(still(Ps), Pids)).

%% @doc Returns the function and the line in which each probe waits. A probe that hibernates is in none.
-spec functions(probes()) -> [{pid(), mfa(), Line :: non_neg_integer()}].
functions(#{pids := Pids} = Ps) ->
    [{Pid, Function, line(Stack)}
     || {_, Pid} <- lists:sort(maps:to_list(maps:with(still(Ps), Pids))),
        [{_, {M, _, _} = Function}, {_, Stack}] <- [process_info(Pid, [current_function, current_stacktrace])],
        M =/= erlang].

%% 0: none.
line([{_, _, _, Where} | _]) -> proplists:get_value(line, Where, 0);
line([]) -> 0.

%% @doc Returns whether the state of a process has a bit for having sent to itself. Newer releases set the same bit
%% while messages arrive, and then the process has work to do. This probe sent to itself, has no messages, and is idle.
%% Nobody asks it: the VM clears the bit when a process handles signals.
-spec has_self_bit(probes()) -> boolean().
has_self_bit(#{guard := Guard}) ->
    Pid = spawn_probe(Guard, [off_heap], fun to_itself/1),
    Pid ! go,
    ok = is_ready(Pid),
    told_itself(Pid, ?SETTLE_TRIES, 3).

told_itself(_, _, 0) -> true;
told_itself(_, 0, _) -> false;
told_itself(Pid, Tries, Looks) ->
    erlang:yield(),
    Read = fun(Field) -> sonde_nif:probe(Pid, [Field], value, none) end,
    case {masked(Read(state), 16#2000 bor 16#1000 bor 16#80000), Read(sig_len), Read(inq_len)} of
        {16#1000, 0, 0} -> told_itself(Pid, Tries - 1, Looks - 1);
        {State, _, _} when is_integer(State), State band 16#2000 =/= 0 -> told_itself(Pid, Tries - 1, Looks);
        _ -> false
    end.

%% @doc Returns how some probes began, and the function in which each of them is. The VM keeps that function of a
%% probe that was asked for it.
-spec known_places(probes()) -> [{pid(), [], mfa(), mfa()}].
known_places(#{pids := Pids}) ->
    [{Pid, [], Call, Function}
     || #{asleep := A, place1 := B, place2 := C, begun := D} <- [Pids], Pid <- [A, B, C, D],
        [{_, Call}, {_, Function}] <- [process_info(Pid, [initial_call, current_function])]].

sizes(#{seeds := #{numbers := Numbers, marked := More}, pids := Pids} = Ps) ->
    K = length(Numbers),
    Size = fun(Field) -> read(Ps, base, [], constant, Field) end,
    Rest = fun(Name) -> rest(Pids, Name) - Size(proc_size) end,
    Slots = fun(Name) -> read(Ps, Name, [dictionary, dict_array]) end,
    Is = fun(Field, Fun) -> {Field, fun() -> [{Fun(), Size(Field)}] end} end,
    [{proc_size, fun() -> [{rest(Pids, P), Size(proc_size)} || P <- [base, ages, beside]] end},
     Is(link_size, fun() -> Rest(links) div 3 end),
     Is(mon_size, fun() -> Rest(monitor) * 2 end),
     Is(mon_alias_size, fun() -> Rest(alias) end),
     Is(mon_suspend_size, fun() -> Rest(suspender) * 2 end),
     %% the words of the reference follow the struct, the first of them is in it
     Is(mon_ext_size, fun() -> Rest(named) * 2 + 8 - 24 end),
     Is(psd_size, fun() -> Rest(tables) end),
     {dict_array, fun() -> [{(Rest(D) - Rest(dict1)) div 8, difference(Slots(D), Slots(dict1))}
                            || D <- [dict2, dict3]] end},
     {dict_head, fun() -> [{Rest(dict1) - 8 * number_or_0(Slots(dict1)), Size(dict_head)}] end},
     Is(msg_size, fun() -> Rest(queued) div K end),
     Is(marker_size, fun() -> Rest(marked) - length(More) * Size(msg_size) end)].

%% Bytes of memory outside of the blocks.
rest(Pids, Name) ->
    [{memory, M}, {total_heap_size, T}] =
        process_info(maps:get(Name, Pids), [memory, total_heap_size]),
    M - 8 * T.

difference(A, B) when is_integer(A), is_integer(B) -> A - B;
difference(A, B) -> {A, B}.

number_or_0(N) when is_integer(N) -> N;
number_or_0(_) -> 0.

attributes(#{pids := Pids}) ->
    [{Attr, fun() -> [attribute(Attr, Probe, ?TRIES) || Probe <- lists:sort(maps:to_list(Pids))]
            end} || Attr <- sonde_attr:native()].

%% The previous question may still be running in the probe.
attribute(Attr, {Name, Pid} = Probe, Tries) ->
    Found = sonde_probe_terms:at_rest(fun() -> sonde_nif:read(Pid, Attr) end),
    {ok, Official} = sonde_attr:read(Attr, Pid),
    case Found of
        Official -> {Official, Official};
        ask when Name =:= calls; Name =:= sensitive -> {ask, ask};
        _ when Tries > 0 -> attribute(Attr, Probe, Tries - 1);
        _ -> {{Name, Official}, {Name, Found}}
    end.
