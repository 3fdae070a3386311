%% No native call holds its scheduler long, whatever the node contains: at most 10 ms for a dirty
%% call, 1 ms for a normal one. Every function of the library is measured in CPU time of its thread,
%% with the test build on a separate node, and so are the destructors that run after a caller dies.
-module(slices_SUITE).

-compile([export_all, nowarn_export_all]).

%% A slice ends by the clock, so on a slower machine only its last piece takes longer. Twice the
%% promise leaves room for a machine several times slower, and is far less than an unsliced walk
%% would take here. The machine's own work (a page fault, an interrupt, a pause by its host) counts
%% too, at times tens of milliseconds, but not in each try: a call that took too long is repeated a
%% moment later, and the run reports that.
-define(LIMIT_NS, #{dirty => 2 * 10000000, normal => 2 * 1000000}).
-define(TIMES, 5).
-define(MOMENT_MS, 500).

suite() -> [{timetrap, {minutes, 10}}].

all() ->
    [every_function_is_measured, a_hundred_thousand_links_and_monitors,
     a_million_messages_on_the_heap, a_million_messages_off_the_heap, a_million_binaries,
     large_blocks_go_back_in_steps, a_hundred_megabytes_of_terms, fifty_thousand_processes, a_huge_dictionary,
     large_tables_of_binaries, by_the_slower_reader].

init_per_suite(Config) ->
    case {sonde_peer_helper:needs_test_build(), os:getenv("SONDE_SANITIZE", "")} of
        {ok, ""} -> [{peer, sonde_peer_helper:start(test, ["+P", "1048576"])} | Config];
        {ok, _} -> {skip, "sanitizers multiply the time that is measured"};
        {Skip, _} -> Skip
    end.

end_per_suite(Config) -> sonde_peer_helper:stop(proplists:get_value(peer, Config)).

%% Fails for a function that nothing here calls, so that a new one is added to calls/2.
every_function_is_measured(Config) ->
    Rows = keeps_the_promise(Config, small) ++ from_outside(Config, ?TIMES),
    All = there(Config, sonde_nif, longest_calls, []),
    true = length(All) > 50,
    %% the proof calls this one on older releases only
    [] = [{Name, Arity} || {Name, Arity, _, _, _} <- All, Name =/= do_trust_self_bit]
        -- [{Name, Arity} || {{Name, Arity, _}, _} <- Rows].

%% By a twin of the peer. Without /proc it fails, as soon as it can know that.
from_outside(Config, Times) ->
    OsPid = list_to_integer(there(Config, os, getpid, [])),
    Rows = sonde_peer_helper:with(test, ["+P", "1048576", "-sonde_twin", "test"], fun(Twin) ->
               sonde_peer_helper:call(Twin, ?MODULE, outside, [OsPid])
           end),
    case too_long(Rows) of
        [] -> Rows;
        [_ | _] when Times > 1 -> from_outside(Config, Times - 1)
    end.

outside(OsPid) ->
    #{status := active} = sonde:native(),
    ok = sonde_nif:reset_calls(),
    %% a core file of nothing; core_SUITE measures a real one
    {error, No} = sonde_outside:open(#{path => <<"/proc/self/maps">>, seen => {0, 0, 0}, headers => 0, segments => <<>>}),
    true = lists:member(No, [changed, other_program, no_build_id]),
    case sonde_outside:open(OsPid) of
        ok ->
            {ok, [{Pid, _, _} | _], _} = sonde_outside:call(proc_count, [memory, 10], #{}),
            {ok, [_ | _], _} = sonde_outside:call(stacks, [10], #{}),
            {ok, [_ | _], _} = sonde_outside:call(schedulers, [], #{}),
            {ok, #{}, _} = sonde_outside:call(heap, [Pid], #{}),
            {ok, [_ | _], _} = sonde_outside:call(info, [{process, "code_server"}], #{}),
            {ok, [_ | _], _} = sonde_outside:call(proc_group, [initial_call, [memory, binary_count]], #{}),
            {ok, [_ | _], _} = sonde_outside:call(proc_group, [current_function, [memory]], #{}),
            {ok, Rows, _} = sonde_outside:call(waits, [10], #{}),
            true = is_list(Rows),
            {ok, [], _} = sonde_outside:call(waits, [10], #{timeout => 0});
        {error, other_program} ->
            Scan = sonde_nif:scan_new([waits_for], each, 0, undefined, [], 1000),
            Look = sonde_nif:look_new(mark, whereis(init), [], 1000000, 0, 0),
            [badarg] = lists:usort([sonde_test:raised(Call)
                                    || Call <- [fun() -> sonde_nif:identity(self()) end,
                                                 fun() -> sonde_nif:absent(0) end,
                                                fun() -> sonde_nif:find_name(<<>>, 0) end,
                                                fun() -> sonde_nif:each_of(initial_call, []) end,
                                                fun() -> sonde_nif:scan_calls(Scan, <<>>, [], {0, 0}) end,
                                                fun() -> sonde_nif:look_process(Look) end]]),
            undefined = sonde_nif:count_there()
    end,
    [{{Name, Arity, Where}, Ns} || {Name, Arity, Where, Ns, Calls} <- sonde_nif:longest_calls(), Calls > 0].

a_hundred_thousand_links_and_monitors(Config) -> keeps_the_promise(Config, {ties, 100000}).
a_million_messages_on_the_heap(Config) -> keeps_the_promise(Config, {messages, on_heap, 1000000}).
a_million_messages_off_the_heap(Config) -> keeps_the_promise(Config, {messages, off_heap, 1000000}).
%% Each remembers more than 32 MB, and a call frees some 4 MB, whatever the clock says.
a_million_binaries(Config) ->
    _ = keeps_the_promise(Config, {binaries, 1000000}),
    {Look, Account} = Calls = there(Config, ?MODULE, calls_that_free, [1000000]),
    figure(io_lib:format("  slices: to free a look and an account of a million binaries: ~p and ~p calls~n",
                         tuple_to_list(Calls))),
    true = Look >= 8 andalso Account >= 8.
%% What a walk drops on its way goes back as what it leaves at its end does: in steps.
large_blocks_go_back_in_steps(Config) ->
    ok = there(Config, ?MODULE, goes_back_in_steps, [proplists:get_value(priv_dir, Config)]).
a_hundred_megabytes_of_terms(Config) -> keeps_the_promise(Config, {terms, 100}).
fifty_thousand_processes(Config) -> keeps_the_promise(Config, {processes, 50000}).
a_huge_dictionary(Config) -> keeps_the_promise(Config, {dictionary, 300000}).
large_tables_of_binaries(Config) -> keeps_the_promise(Config, {tables, 300000}).
by_the_slower_reader(Config) -> keeps_the_promise(Config, {slower_reader, 5000}).

%% Returns all functions that were called, {{Name, Arity, Scheduler}, LongestNs}.
keeps_the_promise(Config, What) ->
    Said = there(Config, ?MODULE, measured, [What, proplists:get_value(priv_dir, Config)]),
    ok = figures(What, Said),
    [] = [{Call, Row} || {Call, Tries} <- Said, Row <- too_long(lists:last(Tries))],
    lists:usort([Row || {_, Tries} <- Said, Row <- lists:append(Tries)]).

there(Config, M, F, A) ->
    sonde_peer_helper:call(proplists:get_value(peer, Config), M, F, A, 300000).

%% Figures that scripts/suite prints at the end.
figures(What, Said) ->
    Best = lists:append([lists:last(Tries) || {_, Tries} <- Said]),
    Longest = [io_lib:format("~.1f ms in ~s (~s)", [Ns / 1000000, Name, Where])
               || Where <- [dirty, normal],
                  {Ns, Name} <- [lists:max([{Ns, Name} || {{Name, _, W}, Ns} <- Best,
                                                          W =:= Where])]],
    Again = [{Call, [too_long(Try) || Try <- lists:droplast(Tries)]}
             || {Call, [_, _ | _] = Tries} <- Said],
    Line = io_lib:format("  slices: ~0p: longest ~s~s~n",
                         [What, lists:join(", ", Longest),
                          [io_lib:format("; again: ~0p", [Again]) || Again =/= []]]),
    ct:pal("~ts~p", [Line, lists:sublist(lists:reverse(lists:keysort(2, Best)), 30)]),
    figure(Line).

figure(Line) ->
    case os:getenv("SONDE_FIGURES") of
        false -> ok;
        File -> file:write_file(File, Line, [append])
    end.

%% ---- on the peer: a hard case, and every call

calls_that_free(N) ->
    #{status := active} = sonde:native(),
    {P, []} = made({binaries, N}),
    Look = sonde_nif:look_new(account, P, [], 1 bsl 40, 0, 0),
    done = looked_at(Look, 100000),
    Account = accounted(),
    ok = sonde_nif:reset_calls(),
    ok = sonde_look:finish(Look),
    ok = ended(Account, sonde_nif:account_end(Account)),
    Calls = {calls_of(do_look_end), calls_of(do_account_end)},
    ok = dies_while_it_frees(P),
    ok = sonde_test:stop([P]),
    Calls.

%% Then the destructor frees what is left: most of 32 MB.
dies_while_it_frees(P) ->
    Before = erlang:memory(system),
    dies(look, fun() ->
             Look = sonde_nif:look_new(account, P, [], 1 bsl 40, 0, 0),
             done = looked_at(Look, 100000),
             more = sonde_nif:look_end(Look),
             Look
         end),
    sonde_test:until(freed, fun() -> erlang:memory(system) < Before + 8000000 end).

goes_back_in_steps(Dir) ->
    #{status := active} = sonde:native(),
    {P, []} = made(deep),
    ok = nothing_stays_behind(P),
    File = filename:join(Dir, "steps.heapsnapshot"),
    ok = sonde_nif:reset_calls(),
    [_ | _] = sonde:heap_top(P, 100, #{timeout => 120000}),
    {ok, _} = sonde_heap:dump(P, File, #{force => true, timeout => 120000}),
    #{reachable := _} = sonde:heap(P),
    _ = [[_ | _] = sonde:proc_count(Attr, 3)
         || Attr <- [flat_size, garbage_bytes, bin_waste, binary_unique, binary_exclusive]],
    Walks = [do_look_step, do_look_end, do_scan_step],
    [] = [Freed || {Name, _} = Freed <- sonde_nif:freed_at_once(), lists:member(Name, Walks)],
    %% a destructor does not wait, so the count shows it
    ok = dies(look, fun() -> looked_at(top, P, 1000000) end),
    true = proplists:get_value(release_look, sonde_nif:freed_at_once(), 0) > 1 bsl 20,
    sonde_test:stop([P]).

%% Neither a scan that is done, however long its caller keeps it, nor one whose caller died keeps what it dropped. Where
%% in a slice it drops it is chance, so both happen several times.
nothing_stays_behind(P) ->
    Before = erlang:memory(system),
    Freed = fun() -> erlang:memory(system) < Before + 8000000 end,
    Done = [scan_of(account, P) || _ <- lists:seq(1, 4)],
    ok = sonde_test:until(done_and_freed, Freed),
    _ = [dies(scan, fun() -> scan_of(each, P) end) || _ <- lists:seq(1, 4)],
    ok = sonde_test:until(died_and_freed, Freed),
    true = lists:all(fun is_reference/1, Done),
    ok.

scan_of(account, P) ->
    Account = sonde_nif:account_new(1 bsl 27, false, true),
    Scan = sonde_nif:scan_new(binary_unique, account, 0, {Account, [P]}, [], 1000),
    ok = to_the_end(Scan, sonde_nif:scan_step(Scan)),
    ok = ended(Account, sonde_nif:account_end(Account)),
    Scan;
%% With rows to take it is not done yet.
scan_of(each, P) ->
    Scan = sonde_nif:scan_new(binary_exclusive, each, 0, [P], [], 1000),
    {rows, [{P, _}]} = to_the_rows(Scan, sonde_nif:scan_step(Scan)),
    Scan.

to_the_rows(Scan, more) -> to_the_rows(Scan, sonde_nif:scan_step(Scan));
to_the_rows(_Scan, Rows) -> Rows.

ended(Account, more) -> ended(Account, sonde_nif:account_end(Account));
ended(_Account, ok) -> ok.

calls_of(Function) -> lists:sum([N || {Name, _, _, _, N} <- sonde_nif:longest_calls(), Name =:= Function]).

%% {Call, the longest time of each function in each try}; the last try is the good one, if any is.
measured(What, Dir) ->
    #{status := active} = sonde:native(),
    %% the measuring itself needs some of the sealed tools
    _ = sonde_nif:unseal(true),
    %% some binaries exist in every case
    {Some, _} = made(small),
    {Pid, Others} = made(What),
    try
        [{Name, tries(Call, ?TIMES)} || {Name, Call} <- calls(Pid, Dir)]
    after
        ok = sonde_nif:want_reader(guarded),
        _ = sonde_nif:unseal(false),
        ok = sonde_test:stop([Some, Pid | Others])
    end.

tries(Call, Times) ->
    ok = sonde_nif:reset_calls(),
    _ = Call(),
    Rows = [{{Name, Arity, Where}, Ns}
            || {Name, Arity, Where, Ns, Calls} <- sonde_nif:longest_calls(), Calls > 0],
    case too_long(Rows) of
        [_ | _] when Times > 1 ->
            timer:sleep(?MOMENT_MS),
            [Rows | tries(Call, Times - 1)];
        _ ->
            [Rows]
    end.

too_long(Rows) ->
    [Row || {{_, _, Where}, Ns} = Row <- Rows, Ns > maps:get(Where, ?LIMIT_NS)].

calls(P, Dir) ->
    the_proof() ++ counts(P) ++ binaries(P) ++ looks(P, Dir) ++ sizes(P)
        ++ others(P) ++ deaths(P) ++ [{leaves, fun leave_and_come_back/0}].

%% A new proof with every check, sealed; the slower reader makes it long, in many short calls. Then
%% a proof that fails.
the_proof() ->
    [{native, fun() -> ok = sonde_nif:forget_proof(),
                       _ = sonde_nif:unseal(false),
                       #{status := active} = sonde:native(),
                       true = false =:= sonde_nif:unseal(true) end},
     {refuted, fun() -> ok = sonde_nif:forget_proof(),
                        ok = sonde_nif:set_offset(heap, 0),
                        #{status := {off, {check, heap}}} = sonde:native(),
                        ok = sonde_nif:set_offset(none, 0),
                        #{status := active} = sonde:native(on) end}].

counts(P) ->
    Attrs = sonde_attr:native(),
    [{{proc_count, Attr}, fun() -> [_ | _] = sonde:proc_count(Attr, 10) end} || Attr <- Attrs]
        ++ [{proc_count, fun() -> [_ | _] = sonde:proc_count(Attrs, 10, #{}) end},
            {threads, fun() -> [_ | _] = sonde:proc_count(memory, 10, #{threads => 2}) end},
            {proc_window, fun() -> [_ | _] = sonde:proc_window(memory, 10, 1) end},
            {proc_group, fun() -> true = sonde_nif:has_first_call(),
                                  [_ | _] = sonde:proc_group(initial_call, [memory]) end},
            {turnover, fun() -> true = sonde_nif:has_turnover() end},
            {one, fun() -> {ok, [_, _]} = sonde_every_process:one(P, [memory, binary_count]) end},
            {stacks, fun() -> [_ | _] = sonde:stacks(10, #{depth => 64}) end},
            {schedulers, fun() -> [_ | _] = sonde:schedulers(#{interval => 0}) end},
            {diagnosis, fun() -> #{suspects := _} = sonde:diagnosis(#{interval => 100}) end}].

binaries(P) ->
    [{bin_leak, fun() -> #{rows := _} = sonde:bin_leak(10, #{deadline => 60000}) end},
     {proportional, fun() -> [_ | _] = sonde:proc_count(binary_proportional, 10) end},
     {in_shares, fun() -> [_ | _] = sonde:proc_count(binary_proportional, 10, #{threads => 2}) end},
     {bin_account, fun() -> #{total := _} = sonde:bin_account() end},
     {joined, fun() -> #{total := _} = sonde:bin_account(#{threads => 2}) end},
     {sample, fun() -> #{total := _} = sonde:bin_account(#{max_entries => 1000}) end},
     {bin_holder, fun() -> [_] = [sonde:bin_holder(Id)
                                  || #{id := Id} <- sonde:bin_holders(1, count)] end},
     {bin_holders, fun() -> [_ | _] = sonde:bin_holders(1000, size) end},
     {bin_resources, fun() -> true = is_list(sonde:bin_resources(10)) end},
     {bin_owned, fun() -> [_ | _] = sonde:bin_owned(10) end},
     {bin_window, fun() -> true = is_list(sonde:bin_window(10, 1)) end},
     {bin_waste, fun() -> true = is_list(sonde:bin_waste(10)) end},
     {bin_garbage, fun() -> true = is_list(sonde:bin_garbage(10, bytes)) end},
     {bin_slices, fun() -> true = is_list(sonde:bin_slices(P)) end}].

looks(P, Dir) ->
    File = filename:join(Dir, "slices.heapsnapshot"),
    [{heap, fun() -> #{reachable := _} = sonde:heap(P) end},
     {heap_top, fun() -> true = is_list(sonde:heap_top(P, 100, #{timeout => 120000})) end},
     {mailbox, fun() -> #{messages := _} = sonde:mailbox(P, 100) end},
     {dump, fun() -> {ok, _} = sonde_heap:dump(P, File, #{force => true, timeout => 120000}) end}].

sizes(P) ->
    Terms = [{some, "small", <<"term">>}, large(2000000)],
    [{{flat_size, Root}, fun() -> true = is_integer(sonde:flat_size(P, Root)) end}
     || Root <- [dictionary, messages, stack]]
        ++ [{{term_size, I}, fun() -> #{} = sonde:term_size(Term) end}
            || {I, Term} <- lists:enumerate(Terms)]
        ++ [{{flat_size, I}, fun() -> true = sonde:flat_size(Term) > 0 end}
            || {I, Term} <- lists:enumerate(Terms)].

large(Words) -> [{I, [I], #{I => <<I:64>>}} || I <- lists:seq(1, Words div 10)].

%% Functions that are called only if processes cannot be read, if the terminal shows progress or if
%% the library is switched; and those that only tests call.
others(P) ->
    [{prover, fun() -> undefined = sonde_nif:prover() end},
     {switches, fun() -> ok = sonde_nif:want_reader(sonde_nif:reader()), ok = sonde_nif:switch(on),
                         on = sonde_nif:state(), true = sonde_nif:content(true) end},
     {reads, fun() -> _ = [sonde_nif:read(P, Attr) || Attr <- sonde_attr:native()] end},
     {unread, fun() -> Scan = scanned(memory, sample),
                       ok = sonde_nif:scan_feed(Scan, [{P, 1}]),
                       ok = sonde_nif:scan_skip(Scan, P),
                       [_ | _] = sonde_nif:scan_values(Scan, 0, 1000) end},
     {waiting, fun() -> {_, #{missed := #{pids := [_ | _]}}} =
                            sonde:bin_owned(3, #{report => true, timeout => 0}) end},
     {patient, fun() -> Busy = spawn(fun Spin() -> Spin() end),
                        Scan = sonde_nif:scan_new(binary_unique, each, 0, [Busy], [], 1 bsl 27),
                        ok = sonde_nif:scan_limit(Scan, 1 bsl 40, 100000),
                        _ = patient(Scan, sonde_nif:scan_step(Scan)),
                        exit(Busy, kill) end},
     {progress, fun() -> Look = looked_at(top, P, 1000000),
                         {_, _} = sonde_nif:look_progress(Look),
                         #{} = sonde_nif:look_top_info(Look),
                         true = sonde_nif:look_content(Look),
                         ok = sonde_look:finish(Look) end}].

%% It comes last, since purging the old module wakes every process.
leave_and_come_back() ->
    _ = code:purge(sonde_nif),
    ok = sonde_nif:leave(),
    {module, sonde_nif} = code:load_file(sonde_nif),
    #{reader := Reader} = sonde:native(),
    true = Reader =/= none.

patient(Scan, more) -> patient(Scan, sonde_nif:scan_step(Scan));
patient(_Scan, _) -> ok.

%% What a caller leaves behind if it dies in the middle of its work, or before it gave it back.
deaths(P) ->
    Looks = [{mark, 10}, {account, 1000000}, {snapshot, 1000000}, {flat, 10}, {slices, 10}, {top, 1000000}],
    [{{dies, Kind}, fun() -> dies(look, fun() -> looked_at(Kind, P, Steps) end) end}
     || {Kind, Steps} <- Looks]
        ++ [{{dies, scan}, fun() -> dies(scan, fun() -> scanned(memory, sample) end) end},
            {{dies, accounting}, fun() -> dies(account, fun accounted/0) end}].

%% At most Steps steps.
looked_at(Kind, P, Steps) ->
    Look = sonde_nif:look_new(Kind, P, [], 1 bsl 40, 1000, 100),
    _ = looked_at(Look, Steps),
    Look.

looked_at(_Look, 0) -> more;
looked_at(Look, Steps) ->
    case sonde_nif:look_step(Look) of
        more -> looked_at(Look, Steps - 1);
        Said -> Said
    end.

scanned(Attr, Mode) -> scanned(Attr, Mode, undefined).

scanned(Attr, Mode, From) ->
    Scan = sonde_nif:scan_new(Attr, Mode, 10, From, [], 1 bsl 27),
    ok = to_the_end(Scan, sonde_nif:scan_step(Scan)),
    Scan.

to_the_end(_Scan, done) -> ok;
to_the_end(Scan, {ask, _}) ->
    ok = sonde_nif:scan_feed(Scan, []),
    to_the_end(Scan, sonde_nif:scan_step(Scan));
to_the_end(Scan, more) -> to_the_end(Scan, sonde_nif:scan_step(Scan)).

accounted() ->
    Account = sonde_nif:account_new(1 bsl 27, false, true),
    _ = scanned(binary_unique, account, {Account, undefined}),
    Account.

%% Waits until the destructor has run.
dies(What, Fun) ->
    {Pid, Ref} = spawn_monitor(fun() -> Made = Fun(), exit({made, is_reference(Made)}) end),
    {made, true} = receive {'DOWN', Ref, process, Pid, Why} -> Why end,
    Release = list_to_atom("release_" ++ atom_to_list(What)),
    sonde_test:until(Release, fun() -> calls_of(Release) > 0 end).

%% ---- on the peer: the hard cases

made(small) ->
    {sonde_test:hold(fun() -> [binary:copy(<<1>>, 100), put(key, value), filled(set, 10)] end), []};
made({ties, N}) ->
    Others = [spawn(fun() -> receive never -> ok end end) || _ <- lists:seq(1, N)],
    {sonde_test:hold(fun() -> [{link(P), monitor(process, P)} || P <- Others] end), Others};
made({messages, Data, N}) ->
    P = spawn_opt(fun() -> receive never -> ok end end, [{message_queue_data, Data}]),
    _ = [P ! {I, mail} || I <- lists:seq(1, N)],
    {P, []};
made({binaries, N}) ->
    {sonde_test:hold(fun() -> [binary:copy(<<1>>, 70) || _ <- lists:seq(1, N)] end), []};
%% Binaries, and terms so deep that the stack of a walk becomes large.
made(deep) ->
    Deep = fun(N) -> lists:foldl(fun(I, In) -> {{In, I}, [I]} end, [], lists:seq(1, N)) end,
    {sonde_test:hold(fun() -> {Deep(500000), [binary:copy(<<1>>, 70) || _ <- lists:seq(1, 500000)]} end), []};
%% Tuples, lists, maps and floats of more than MB megabytes.
made({terms, MB}) ->
    Some = fun(I) -> {I, large(1000), I / 3, #{{key, I} => [I]}} end,
    {sonde_test:hold(fun() -> [Some(I) || I <- lists:seq(1, 60 * MB)] end), []};
made({processes, N}) ->
    {sonde_test:hold(fun() -> ok end),
     [spawn(fun() -> receive never -> ok end end) || _ <- lists:seq(1, N)]};
made({dictionary, N}) ->
    {sonde_test:hold(fun() -> [put({key, I}, [I]) || I <- lists:seq(1, N)] end), []};
made({tables, N}) ->
    {sonde_test:hold(fun() -> [filled(Type, N div 3) || Type <- [set, ordered_set, bag]] end), []};
%% This reader needs a system call for each word.
made({slower_reader, N}) ->
    ok = sonde_nif:want_reader(syscall),
    {sonde_test:hold(fun() -> [binary:copy(<<1>>, 70) || _ <- lists:seq(1, N)] end), []}.

filled(Type, N) ->
    Table = ets:new(table, [Type, public]),
    _ = [ets:insert(Table, {I, binary:copy(<<1>>, 100)}) || I <- lists:seq(1, N)],
    Table.
