%% Another OS process, read from its memory alone by a VM that runs the same program: its rows are what it says of
%% itself, also while it is stopped, stuck or under fire; and what cannot be read is refused or reported.
-module(outside_rows_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [counts_are_those_of_the_target, names_are_those_of_the_target, any_number_of_rows, stacks_are_those_of_the_target,
     no_process_of_this_vm_has_a_row, a_target_that_is_stopped_answers, one_that_runs_is_reported_by_name,
     values_under_fire_are_true, growth_is_that_of_the_target, a_heap_is_that_of_the_target,
     other_looks_are_refused, many_processes, a_target_that_ends, other_programs_are_refused,
     another_process_limit_is_refused, other_architectures_are_refused, only_this_module_may_aim, it_aims_once, the_twin_stays_as_it_was,
     attributes_that_nothing_there_can_answer, fails_with_a_wrong_offset].

%% The memory of another OS process is read through /proc.
init_per_suite(Config) ->
    case file:read_file_info("/proc/self/maps") of
        {ok, _} -> can_read(sonde_test:init(Config));
        {error, _} -> {skip, "no /proc"}
    end.

end_per_suite(_Config) -> ok.

can_read({skip, _} = Skip) ->
    Skip;
can_read(Config) ->
    case string:prefix(erlang:system_info(system_architecture), "x86_64") of
        nomatch -> {skip, "only x86-64 orders what another process reads"};
        _ -> Config
    end.

%% ---- a target and its twin

%% Fun(Target, Twin): Target(M, F, A) calls the one, Twin(Function, Args) is answered from its memory.
both(Fun) -> both([], Fun).

both(Args, Fun) ->
    sonde_peer_helper:with(shipped, Args, fun(Target) ->
        twin(Args, fun(Twin) ->
            Of = fun(M, F, A) -> sonde_peer_helper:call(Target, M, F, A) end,
            ok = open(Twin, Of),
            Fun(Of, fun(Function, A) -> outside(Twin, Function, A) end)
        end)
    end).

twin(Args, Fun) -> sonde_peer_helper:with(shipped, Args ++ ["-sonde_twin", "test"], Fun).

open(Twin, Of) ->
    sonde_peer_helper:call(Twin, sonde_outside, open, [list_to_integer(Of(os, getpid, []))]).

outside(Twin, Function, Args) -> outside(Twin, Function, Args, #{}).

outside(Twin, Function, Args, Opts) ->
    sonde_peer_helper:call(Twin, sonde_outside, call, [Function, Args, Opts]).

%% In the target: processes with known contents, which wait.
crowd() ->
    Up = self(),
    Fill = fun(I) ->
                   _ = [put({?MODULE, K}, K) || K <- lists:seq(1, I)],
                   _ = [self() ! K || K <- lists:seq(1, 3 * I)],
                   Binaries = [binary:copy(<<I>>, 100 + K) || K <- lists:seq(1, I)],
                   _ = [spawn_link(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, I)],
                   wait(Up, Binaries)
           end,
    Pids = [spawn(fun() -> Fill(I) end) || I <- lists:seq(1, 40)],
    _ = [receive {Pid, ready} -> ok end || Pid <- Pids],
    ok = sonde_test:settle(Pids),
    Pids.

wait(Up, Kept) ->
    true = erlang:garbage_collect(),
    Up ! {self(), ready},
    receive never -> Kept end.

asked(Pids, Attr) ->
    [{Pid, element(2, sonde_attr:read(Attr, Pid))} || Pid <- Pids].

%% The rows of a call in which nothing of the target was missed. Who just answered it may still run for a moment.
whole(Twin, Function, Args) ->
    ok = sonde_test:until({missed_nothing, Function}, fun() ->
        case Twin(Function, Args) of
            {ok, Rows, #{left_out := 0}} -> put(whole, Rows), true;
            {ok, _, #{left_out := _}} -> false
        end
    end),
    erase(whole).

%% ---- cases

any_number_of_rows(_Config) ->
    both(fun(_Of, Twin) ->
        _ = [{Function, {ok, [_ | _], _}} = {Function, Twin(Function, Args)}
             || {Function, Args} <- [{proc_count, [memory, 1 bsl 64]}, {bin_owned, [1 bsl 64]},
                                     {proc_window, [reductions, 1 bsl 64, 1]}]]
    end),
    ok.

counts_are_those_of_the_target(_Config) ->
    both(fun(Of, Twin) ->
        Pids = Of(?MODULE, crowd, []),
        [begin
             _ = Of(?MODULE, asked, [Pids, Attr]), % makes each of them run once
             ok = Of(sonde_test, settle, [Pids]),
             Rows = whole(Twin, proc_count, [Attr, 100000]),
             Values = [Value || {_, Value, _} <- Rows],
             Values = lists:reverse(lists:sort(Values)),
             Told = Of(?MODULE, asked, [Pids, Attr]),
             {Attr, []} = {Attr, [{Pid, Value, lists:keyfind(Pid, 1, Rows)}
                                  || {Pid, Value} <- Told, Attr =/= reductions,
                                     Value =/= 0 orelse lists:keymember(Pid, 1, Rows),
                                     [Value] =/= [V || {P, V, _} <- Rows, P =:= Pid]]},
             [] = [Pid || Attr =:= reductions, {Pid, Value} <- Told, {P, V, _} <- Rows, P =:= Pid, V > Value]
         end || Attr <- sonde_attr:native()],
        {ok, [{Most, _, _}], _} = Twin(proc_count, [message_queue_len, 1]),
        Most = lists:last(Pids),
        {ok, [], _} = Twin(proc_count, [memory, 0])
    end).

%% Names of all kinds: the VM keeps long and foreign ones apart.
names() ->
    [a, 'Elixir.MyApp.Repo', list_to_atom(lists:duplicate(255, $x)), list_to_atom(lists:duplicate(64, $y)),
     list_to_atom(lists:duplicate(65, 1092)), list_to_atom([228, 32, 39, 10])].

named() ->
    [begin
         Pid = spawn(?MODULE, hold_many, [I]),
         true = register(Name, Pid),
         Pid
     end || {I, Name} <- lists:zip(lists:seq(1, 6), names())].

never_ran() -> spawn(erlang, hibernate, [?MODULE, asleep, []]).

hold_many(I) ->
    _ = [self() ! I || _ <- lists:seq(1, 1000 * I)],
    erlang:hibernate(?MODULE, asleep, []).

asleep() -> receive never -> ok end.

site(Pid) ->
    {ok, Site} = sonde_attr:call_site(Pid),
    Site.

names_are_those_of_the_target(_Config) ->
    both(fun(Of, Twin) ->
        Pids = lists:reverse(Of(?MODULE, named, [])) ++ [Of(?MODULE, never_ran, [])],
        ok = Of(sonde_test, settle, [Pids]),
        {ok, All, _} = Twin(proc_count, [message_queue_len, 1000]),
        Rows = [Row || {Pid, _, _} = Row <- All, lists:member(Pid, Pids)],
        Pids = [Pid || {Pid, _, _} <- Rows],
        Sites = [Of(?MODULE, site, [Pid]) || Pid <- Pids],
        Sites = [[as_atom(Attr) || Attr <- Attrs] || {_, _, Attrs} <- Rows],
        %% a name is gone as soon as it is
        true = Of(erlang, unregister, [a]),
        {ok, Again, _} = Twin(proc_count, [message_queue_len, length(Pids)]),
        false = lists:member(a, lists:append([Attrs || {_, _, Attrs} <- Again]))
    end).

%% The twin makes no atom; these are atoms here.
as_atom({Key, {M, F, A}}) -> {Key, {as_atom(M), as_atom(F), A}};
as_atom(Text) when is_binary(Text) -> binary_to_existing_atom(Text);
as_atom(Other) -> Other.

stacks_are_those_of_the_target(_Config) ->
    both(fun(Of, Twin) ->
        Pids = Of(?MODULE, crowd, []),
        ok = Of(sonde_test, settle, [Pids]),
        Rows = whole(Twin, stacks, [1000]),
        Inside = Of(sonde, stacks, [1000]),
        %% processes that work for the call that asked
        Passing = fun(Stack) -> [M || {M, _, _} <- Stack, lists:member(M, [peer, sonde_helper, user, group])] =/= [] end,
        Counts = fun(All) -> lists:sort([{[as_atom_function(F) || F <- Stack], Count} || {Stack, Count, _} <- All,
                                                                                        not Passing(Stack)]) end,
        {Same, Same} = {Counts(Inside), Counts(Rows)},
        [40] = waiting(Rows),
        40 = length(Pids)
    end).

waiting(Stacks) ->
    [Count || {[First | _], Count, _} <- Stacks, as_atom_function(First) =:= {?MODULE, wait, 2}].

as_atom_function({M, F, A}) -> {as_atom(M), as_atom(F), A}.

no_process_of_this_vm_has_a_row(_Config) ->
    both(fun(Of, Twin) ->
        {ok, Rows, _} = Twin(proc_count, [memory, 100000]),
        Of(erlang, garbage_collect, []),
        There = Of(erlang, processes, []),
        [] = [Pid || {Pid, _, _} <- Rows] -- There,
        true = length(Rows) >= length(There) - 3
    end).

a_target_that_is_stopped_answers(_Config) ->
    both(fun(Of, Twin) ->
        Pids = Of(?MODULE, crowd, []),
        OsPid = Of(os, getpid, []),
        Told = Of(?MODULE, asked, [Pids, dictionary_size]),
        ok = Of(sonde_test, settle, [Pids]),
        "" = os:cmd("kill -STOP " ++ OsPid),
        try
            {ok, Rows, _} = Twin(proc_count, [dictionary_size, 1000]),
            Told = lists:sort([{Pid, Value} || {Pid, Value, _} <- Rows, lists:member(Pid, Pids)]),
            {ok, Stacks, _} = Twin(stacks, [1000]),
            [40] = waiting(Stacks)
        after
            "" = os:cmd("kill -CONT " ++ OsPid)
        end
    end).

spins() -> spins().

spinner() ->
    Pid = spawn(?MODULE, spins, []),
    true = register(sonde_spins, Pid),
    Pid.

%% It cannot be asked, and is never at rest. But another process may run just when the target is stopped.
one_that_runs_is_reported_by_name(_Config) ->
    both(fun(Of, Twin) ->
        Pid = Of(?MODULE, spinner, []),
        ok = sonde_test:until(stopped_in_it, fun() -> is_reported(Pid, Of(os, getpid, []), Twin) end),
        true = Of(erlang, exit, [Pid, kill])
    end).

is_reported(Pid, OsPid, Twin) ->
    "" = os:cmd("kill -STOP " ++ OsPid),
    try
        {ok, Rows, #{left_out := N, missed := #{pids := Missed}}} = Twin(proc_count, [memory, 100000]),
        %% one word is whole at any time
        {ok, [{Pid, _, Attrs}], _} = Twin(proc_count, [reductions, 1]),
        [sonde_spins, {current_function, _}, {initial_call, {?MODULE, spins, 0}}] = lists:map(fun as_atom/1, Attrs),
        Reported = lists:member({Pid, busy}, Missed),
        Reported = Reported andalso N >= 1,
        Reported = not lists:keymember(Pid, 1, Rows),
        Reported
    after
        "" = os:cmd("kill -CONT " ++ OsPid)
    end.

%% ---- under fire

-define(LOOKS, 20).
-define(LONG_WALKS, [heap, heap_top, mailbox, bin_garbage, bin_waste, binary_exclusive]).
-define(ROUNDS, 100).

values_under_fire_are_true(_Config) ->
    both(fun(Of, Twin) ->
        {Log, Witnesses} = Of(?MODULE, fire, []),
        Attrs = [{Attr, Pid} || {Attr, [Pid | _]} <- Witnesses, sonde_attr:is_native(Attr)],
        true = length(Attrs) >= 5,
        Verdicts = [begin
                        T0 = Of(erlang, monotonic_time, [nanosecond]),
                        {Ms, {ok, Rows, Report}} = count_or_window(rand:uniform(4), Attr, Twin),
                        T1 = Of(erlang, monotonic_time, [nanosecond]),
                        case {seen(Pid, Rows, Report), Ms} of
                            {no_value, _} -> {no_value, []};
                            {Seen, none} -> Of(sonde_stress_witness, judge, [Log, Attr, Pid, Seen, T0, T1]);
                            {Seen, _} -> Of(sonde_stress_witness, judge_window, [Log, Attr, Pid, Seen, T0, T1, Ms])
                        end
                    end || _ <- lists:seq(1, ?ROUNDS div length(Attrs)), {Attr, Pid} <- Attrs],
        [] = lists:append([Wrong || {_, Wrong} <- Verdicts]),
        Witnessed = length([true || {witnessed, _} <- Verdicts]),
        ok = sonde_test:figures("~p of ~p values witnessed~n", [Witnessed, length(Verdicts)]),
        true = Witnessed > length(Verdicts) div 2,
        Looks = [{Attr, looked(Attr, Pid, Log, Of, Twin)}
                 || _ <- lists:seq(1, ?LOOKS), {Attr, [Pid | _]} <- Witnesses, lists:member(Attr, ?LONG_WALKS)],
        [] = lists:append([Wrong || {_, {_, Wrong}} <- Looks]),
        [] = Of(sonde_stress_witness, late, [Log]),
        Seen = [{Attr, length([true || {A, {witnessed, _}} <- Looks, A =:= Attr])} || Attr <- ?LONG_WALKS],
        ok = sonde_test:figures("of ~p each: ~0p~n", [?LOOKS, Seen]),
        [] = [Attr || {Attr, 0} <- Seen],
        [] = Of(sonde_stress_witness, dead, [Witnesses])
    end).

%% What lies in many pages of the target.
looked(Attr, Pid, Log, Of, Twin) ->
    T0 = Of(erlang, monotonic_time, [nanosecond]),
    Value = long_walk(Attr, Pid, Twin),
    T1 = Of(erlang, monotonic_time, [nanosecond]),
    case Attr of
        bin_garbage when Value =/= no_value -> Of(sonde_stress_witness, judge_garbage, [Log, Pid, Value, T0, T1]);
        _ -> Of(sonde_stress_witness, judge, [Log, Attr, Pid, Value, T0, T1])
    end.

long_walk(heap, Pid, Twin) ->
    case Twin(heap, [Pid]) of
        {ok, #{roots := #{dictionary := Bytes}}, _} -> Bytes div 8;
        {ok, {error, busy}, _} -> no_value
    end;
long_walk(heap_top, Pid, Twin) ->
    case Twin(heap_top, [Pid, 10]) of
        {ok, [_ | _] = Rows, _} -> sonde_stress:seen_in_rows(Rows);
        {ok, {error, busy}, _} -> no_value
    end;
long_walk(mailbox, Pid, Twin) ->
    case Twin(mailbox, [Pid, 10]) of
        {ok, #{messages := N, bytes := Bytes}, _} when Bytes =:= 24 * N -> N;
        {ok, #{} = Mailbox, _} -> {odd, Mailbox};
        {ok, {error, busy}, _} -> no_value
    end;
long_walk(Attr, Pid, Twin) ->
    {ok, Rows, Report} = case Attr of
                             binary_exclusive -> Twin(bin_owned, [50]);
                             _ -> Twin(Attr, [50])
                         end,
    case seen(Pid, Rows, Report) of
        missing -> no_value;
        Value -> Value
    end.

count_or_window(1, Attr, Twin) ->
    Ms = rand:uniform(20),
    {Ms, Twin(proc_window, [Attr, 60, Ms])};
count_or_window(_, Attr, Twin) ->
    {none, Twin(proc_count, [Attr, 60])}.

seen(Pid, Rows, #{left_out := LeftOut}) ->
    case lists:keyfind(Pid, 1, Rows) of
        {Pid, Value, _} -> Value;
        false when LeftOut > 0 -> no_value;
        false -> missing
    end.

%% In the target. The table belongs to a process that stays.
fire() ->
    Self = self(),
    Keeper = spawn(fun() ->
                           Log = sonde_stress_witness:log(),
                           Self ! {fire, {Log, sonde_stress_witness:start(Log)}},
                           churn()
                   end),
    receive {fire, Fire} -> Fire after 60000 -> error({timeout, Keeper}) end.

%% Processes come and go, with heaps of many sizes.
churn() ->
    _ = [spawn(fun() -> put(x, lists:seq(1, rand:uniform(2000))), erlang:garbage_collect() end)
         || _ <- lists:seq(1, 50)],
    receive stop -> ok after 1 -> churn() end.

%% In the target: it gets a message each millisecond.
grows() ->
    spawn(fun() -> _ = timer:send_interval(1, again), receive never -> ok end end).

queued(Pid) ->
    {message_queue_len, N} = process_info(Pid, message_queue_len),
    N.

growth_is_that_of_the_target(_Config) ->
    both(fun(Of, Twin) ->
        Pid = Of(?MODULE, grows, []),
        N1 = Of(?MODULE, queued, [Pid]),
        {ok, [{Pid, Grown, Attrs} | _], _} = Twin(proc_window, [message_queue_len, 3, 300]),
        N2 = Of(?MODULE, queued, [Pid]),
        {true, _} = {Grown > 0 andalso Grown =< N2 - N1, {N1, Grown, N2}},
        [_] = [M || {current_function, {M, _, _}} <- Attrs],
        {ok, Rows, _} = Twin(proc_window, [memory, 1000, 0]),
        true = length(Rows) > 30,
        {ok, [], _} = Twin(proc_window, [memory, 0, 0]),
        {error, {badarg, proc_window}} = Twin(proc_window, [status, 5, 0])
    end).

a_heap_is_that_of_the_target(_Config) ->
    both(fun(Of, Twin) ->
        Pids = Of(?MODULE, crowd, []),
        Pid = lists:last(Pids),
        Of(sonde_test, settle, [Pids]),
        Inside = Of(sonde, heap, [Pid]),
        {ok, Outside, _} = Twin(heap, [Pid]),
        Same = [blocks, reachable, garbage, roots],
        {Here, Here} = {maps:with(Same, Inside), maps:with(Same, Outside)},
        {_, true} = {Here, map_get(reachable, Here) > 1000},
        true = Of(erlang, exit, [Pid, kill]),
        ok = Of(sonde_test, until, [dead, fun() -> not is_process_alive(Pid) end]),
        {error, {no_process, Pid}} = Twin(heap, [Pid]),
        %% what would name an atom of that node as one of this node, or show content
        {error, {not_there, flat_size}} = Twin(flat_size, [Pid])
    end).

%% In the twin: the library itself refuses them.
refused(Pid) ->
    [sonde_test:raised(fun() -> sonde_nif:look_new(Kind, Pid, [], 1000, 0, 0) end)
     || Kind <- [mark, flat]].

other_looks_are_refused(_Config) ->
    sonde_peer_helper:with(shipped, fun(Target) ->
        twin([], fun(Twin) ->
            ok = open(Twin, fun(M, F, A) -> sonde_peer_helper:call(Target, M, F, A) end),
            Pid = sonde_peer_helper:call(Target, erlang, whereis, [init]),
            [badarg] = lists:usort(sonde_peer_helper:call(Twin, ?MODULE, refused, [Pid])),
            false = sonde_peer_helper:call(Twin, sonde_content, allowed, [])
        end)
    end).

%% ---- size, and what is refused

many(N) ->
    [spawn(fun() -> receive never -> ok end end) || _ <- lists:seq(1, N)].

many_processes(_Config) ->
    both(fun(Of, Twin) ->
        Pids = Of(?MODULE, many, [20000]),
        Rows = whole(Twin, proc_count, [memory, 100000]),
        %% the twin's own processes have some of these pids
        Found = lists:sort([Pid || {Pid, _, _} <- Rows]),
        Found = lists:usort(Found),
        [] = ordsets:subtract(lists:sort(Pids), Found),
        {ok, [{_, Count, _} | _], _} = Twin(stacks, [1]),
        true = Count >= 20000
    end).

a_target_that_ends(_Config) ->
    twin([], fun(Twin) ->
        Of = sonde_peer_helper:with(shipped, fun(Target) ->
            Here = fun(M, F, A) -> sonde_peer_helper:call(Target, M, F, A) end,
            OsPid = Here(os, getpid, []),
            ok = open(Twin, Here),
            {ok, [_ | _], _} = outside(Twin, proc_count, [memory, 5]),
            OsPid
        end),
        gone = sonde_test:until(the_end, fun() -> filelib:is_dir("/proc/" ++ Of) =:= false end) =:= ok andalso gone,
        {error, no_reader} = outside(Twin, proc_count, [memory, 5]),
        {error, no_reader} = outside(Twin, stacks, [5]),
        [_ | _] = unicode:characters_to_list(sonde_outside:errors(no_reader))
    end).

other_programs_are_refused(_Config) ->
    Port = open_port({spawn_executable, os:find_executable("sleep")}, [{args, ["100"]}]),
    {os_pid, Sleep} = erlang:port_info(Port, os_pid),
    twin([], fun(Twin) ->
        Open = fun(OsPid) -> sonde_peer_helper:call(Twin, sonde_outside, open, [OsPid]) end,
        {error, other_program} = Open(Sleep),
        {error, gone} = Open(1 bsl 30),
        %% a process without memory of its own, if the kernel shows one
        _ = [{error, _} = Open(2) || {ok, <<>>} <- [file:read_file("/proc/2/cmdline")]],
        %% it can still be aimed
        ok = sonde_peer_helper:with(shipped, fun(Target) ->
            Open(list_to_integer(sonde_peer_helper:call(Target, os, getpid, [])))
        end)
    end),
    true = port_close(Port),
    _ = os:cmd("kill " ++ integer_to_list(Sleep)).

another_process_limit_is_refused(_Config) ->
    sonde_peer_helper:with(shipped, ["+P", "500000"], fun(Target) ->
        twin([], fun(Twin) ->
            {error, process_limit} = open(Twin, fun(M, F, A) -> sonde_peer_helper:call(Target, M, F, A) end)
        end)
    end).

only_this_module_may_aim(_Config) ->
    %% a node that was started for something else
    sonde_peer_helper:with(shipped, fun(Node) ->
        {badarg, _} = try open(Node, fun(os, getpid, []) -> os:getpid() end) catch exit:Why -> Why end,
        #{reader := Its} = sonde_peer_helper:call(Node, sonde, native, []),
        true = Its =/= other
    end),
    badarg = sonde_test:raised(fun() -> sonde_nif:aim(list_to_integer(os:getpid())) end),
    badarg = sonde_test:raised(fun() -> sonde_nif:learn([], []) end),
    [badarg] = lists:usort([sonde_test:raised(Call)
                            || Call <- [fun() -> sonde_nif:identity(self()) end,
                                        fun() -> sonde_nif:find_name(<<"init">>, 0) end,
                                        fun() -> sonde_nif:each_of(registered_name, [self()]) end,
                                        fun() -> sonde_nif:look_new(process, self(), [], 8, 0, 0) end]]),
    undefined = sonde_nif:count_there(),
    #{reader := Reader} = sonde:native(),
    true = Reader =/= other.

it_aims_once(_Config) ->
    sonde_peer_helper:with(shipped, fun(Target) ->
        Of = fun(M, F, A) -> sonde_peer_helper:call(Target, M, F, A) end,
        twin([], fun(Twin) ->
            ok = open(Twin, Of),
            %% there is no way back, and none to a third process
            {badarg, _} = try open(Twin, Of) catch exit:Why -> Why end
        end)
    end).

%% Its own calls go on, with the reader that they need.
the_twin_stays_as_it_was(_Config) ->
    both(fun(Of, Twin) ->
        {ok, #{status := active, reader := other, otp := Otp}, #{}} = Twin(native, []),
        Otp = Of(erlang, system_info, [otp_release]),
        #{reader := Reader} = Of(sonde, native, []),
        true = Reader =/= other
    end).

attributes_that_nothing_there_can_answer(_Config) ->
    both(fun(_, Twin) ->
        {error, {badarg, proc_count}} = Twin(proc_count, [status, 5]),
        {error, {badarg, proc_count}} = Twin(proc_count, [binary_exclusive, 5]),
        {error, {not_there, heap_top}} = Twin(heap_top, [self()]),
        [] = [Why || Why <- [{native_off, disabled}, gone, forbidden, other_program, process_limit, code, atoms,
                             atoms_there, architecture, identity, process_table, processes, {not_there, heap_top}, {badarg, proc_count}],
                     [] =:= unicode:characters_to_list(sonde_outside:errors(Why))]
    end).

%% There no barrier orders what another process writes.
other_architectures_are_refused(_Config) ->
    [true, true, false, false] = [sonde_outside:is_ordered(Name)
                                  || Name <- ["x86_64-pc-linux-gnu", "x86_64-alpine-linux-musl", "aarch64-unknown-linux-gnu", ""]],
    true = sonde_outside:is_ordered(erlang:system_info(system_architecture)),
    Text = unicode:characters_to_list(sonde_outside:errors(architecture)),
    {_, [_ | _]} = {Text, string:find(Text, "x86-64")}.

%% A twin that did not prove its own VM looks at no other one.
fails_with_a_wrong_offset(_Config) ->
    case sonde_peer_helper:needs_test_build() of
        ok ->
            sonde_peer_helper:with(test, ["-sonde_twin", "test"], fun(Twin) ->
                ok = sonde_peer_helper:call(Twin, sonde_nif, set_offset, [heap, 8]),
                {error, {native_off, {check, _}}} =
                    sonde_peer_helper:call(Twin, sonde_outside, open, [list_to_integer(os:getpid())])
            end);
        Skip ->
            Skip
    end.
