%% @private
%% Every native scan of processes is made and driven here. What to do about a process that cannot be
%% read natively is the caller's policy: {@link drive/4} asks its `ask'; {@link run/2} is for values
%% that no process can be asked for: it looks again and again, suspends the process if that is
%% allowed, and then reports it.
-module(sonde_scan).

-export([scan/4, threads/2, drive/4, run/2, once/2, again/2, late/3, look/2, rows/3, values/1, skip/2, report/1, report/2, options/0,
         options/1, max_entries/0, merge/2, nothing/0]).
-export_type([how/0, scans/0, policy/1, missed/0, result/0, report/0]).

-type how() ::
        #{attrs := [atom()],
          max_words => non_neg_integer(),          % of a heap to mark
          max_entries => non_neg_integer(),        % processes that a first pass remembers
          until => integer() | infinity,           % monotonic time in milliseconds
          by => reference(),                       % the caller, as its helper knows it
          caller => pid(),                         % never suspended
          without => [pid()],                      % left out, besides this process
          account => sonde_nif:account()           % to be filled;
                   | [sonde_nif:account()],        % one for each part
          suspend => boolean(),                    % only in a helper
          threads => sonde_threads:threads(),
          patience_us => 0..1000000,               % of each try at a busy process
          places => [pid()],                       % only those that wait where these do
          calls => [{Module :: binary(), [Function :: binary()]}], % only those in one of these
          outside => true,                         % in another OS process: none can be asked
          still => boolean(),                      % in a core file: another look sees the same
          skip_missed => true,                     % no row for one that only the first look could read
          atom() => term()}.
%% The parts of one scan.
-type scans() :: [sonde_nif:scan(), ...].
%% `ask': of processes that could not be read; what it returns is fed to the scan. `row': folds over
%% what mode `each' reads. `join': what two parts have gathered; not needed where there is one part.
%% Where there are several, all run in helpers, and the `how()' that `ask' is given is that helper's.
-type policy(Acc) ::
        #{ask := fun((sonde_nif:scan(), how(), [pid()], Acc) ->
                            {[{pid(), integer() | [integer()] | undefined}], Acc}),
          row => fun(({pid(), [integer() | pid()]}, Acc) -> Acc),
          join => fun((Acc, Acc) -> Acc)}.
%% `runnable': it waits for a scheduler; only `sonde_waits' from outside tells it from `busy'. `no_code': the functions
%% that it is in cannot be read; of another OS process.
-type why() :: busy | runnable | too_large | timeout | no_code.
-type missed() :: [{pid(), why()}].
%% `unseen': how many more processes were not read before the timeout; `waiting': up to ten of them.
-type result() :: #{missed := missed(), suspended := [{pid(), Ms :: float()}],
                    unseen := non_neg_integer(), waiting := [pid()]}.
%% `left_out': the number of processes without a row, whatever their value: those with more than
%% `max_words', those that were never at rest, and those that were not read before the timeout.
%% `missed': the same number, and up to ten of them by name; `runnable', if there are any: how many of them
%% wait for a scheduler. `timeout': for how many there was no time. With `suspend' also the processes that
%% were suspended, up to ten of them with the milliseconds of each, and the sum of these.
-type report() :: #{left_out := non_neg_integer(), too_large := non_neg_integer(),
                    busy := non_neg_integer(), timeout := non_neg_integer(),
                    missed := #{count := non_neg_integer(), runnable => pos_integer(), pids := missed()},
                    suspended => #{count := non_neg_integer(), pids := [{pid(), float()}]},
                    suspended_ms => float()}.

-define(NO_LIMIT, 134217727).
-define(WORDS_MAX, (1 bsl 60)). % more than there can be
%% A process that always runs is off its scheduler for less than a microsecond at each end of its
%% time slice. Tries of 5 ms without a pause find nine of ten such processes if the walk is short,
%% and one of ten if the process allocates all the time; ten such tries find nearly all. A walk that
%% takes longer than such a moment never succeeds.
-define(TRIES, 10).
-define(PATIENCE_US, 5000).
-define(PAUSE_MS, 4).
%% A process in a dirty call stops only when it leaves the call; this is the longest wait.
-define(SUSPEND_MS, 500).
-define(ASK_MS, 200).
-define(NAMED, 10).
-define(PLACE_TRIES, 1000).
-define(FEW, 1000). % processes

%% @doc The options of each call that walks heaps, with their defaults and which values are good.
-spec options() -> sonde_opts:known().
options() ->
    options(#{self => sonde_opts:flag(false), max_words => sonde_opts:count(1000000000),
              timeout => sonde_opts:count(30000), threads => sonde_threads:option()}).

%% @doc How many processes a first look remembers, as an option.
-spec max_entries() -> sonde_opts:option().
max_entries() ->
    sonde_opts:positive(?NO_LIMIT).

%% @doc The options for what is missed, of each call that has a sweep.
-spec options(sonde_opts:known()) -> sonde_opts:known().
options(More) ->
    More#{report => sonde_opts:flag(false), suspend => sonde_opts:flag(false)}.

%% @doc Starts a scan in this mode (`sonde_nif:scan_new/6'), over all or the given processes, or the
%% second look after the given first one. Over all, it consists of as many parts as threads may work
%% at it.
-spec scan(sonde_nif:mode(), non_neg_integer(), scans() | [pid()] | undefined, how()) -> scans().
scan(diff, Want, Firsts, How) ->
    parts(diff, Want, Firsts, How);
scan(account, Want, undefined, #{account := [_ | _] = Accounts} = How) ->
    parts(account, Want, [undefined || _ <- Accounts], How);
scan(Mode, Want, undefined, How) when Mode =/= each, not is_map_key(account, How) ->
    parts(Mode, Want, lists:duplicate(threads(Mode, How), undefined), How);
scan(Mode, Want, From, How) ->
    [one(Mode, Want, From, 0, How)].

parts(Mode, Want, Froms, How) ->
    [begin
         Scan = one(Mode, Want, From, 0, Here),
         ok = sonde_nif:scan_part(Scan, Part, length(Froms)),
         Scan
     end || {Part, {From, Here}} <- lists:enumerate(0, lists:zip(Froms, hows(Froms, How)))].

%% What is asked of each part.
hows(_Parts, #{account := [_ | _] = Accounts} = How) -> [How#{account := Account} || Account <- Accounts];
hows(Parts, How) -> [How || _ <- Parts].

%% @doc How many threads may work at a scan of all. Each part remembers as many as it meets, up to the
%% limit; there is only one where all together could have more than that. And processes are suspended
%% one at a time.
-spec threads(sonde_nif:mode(), how()) -> pos_integer().
threads(_Mode, #{suspend := true}) ->
    1;
threads(Mode, How) ->
    Few = maps:get(max_entries, How, ?NO_LIMIT) < erlang:system_info(process_limit),
    case Few andalso Mode =/= top of
        true -> 1;
        false -> sonde_threads:count(maps:get(threads, How, auto))
    end.

%% Numbers of any size are good in options, but the native code takes 64 bits.
one(Mode, Want, From, PatienceUs, #{attrs := Attrs} = How) ->
    Scan = sonde_nif:scan_new(Attrs, Mode, min(Want, ?NO_LIMIT), with_account(From, How),
                              [self() | maps:get(without, How, [])],
                              min(maps:get(max_entries, How, ?NO_LIMIT), ?NO_LIMIT)),
    ok = sonde_nif:scan_limit(Scan, min(maps:get(max_words, How, ?WORDS_MAX), ?WORDS_MAX),
                              PatienceUs),
    _ = [place(Scan, Pid, ?PLACE_TRIES) || Pid <- maps:get(places, How, [])],
    _ = [calls(Scan, Calls) || #{calls := Calls} <- [How]],
    Scan.

%% A process that waits may have just answered a question.
place(Scan, Pid, Tries) ->
    case sonde_nif:scan_place(Scan, Pid) of
        ok -> ok;
        no_memory -> error(no_memory);
        Why when Why =:= no_reader; Tries =:= 0 -> error({native_off, {unsupported, Why}});
        _ ->
            timer:sleep(1),
            place(Scan, Pid, Tries - 1)
    end.

%% Some of these modules may not be loaded.
calls(Scan, Calls) ->
    case lists:sum([calls(Scan, Module, Functions, {0, 0}, 0) || {Module, Functions} <- Calls]) of
        0 -> error({native_off, {unsupported, code}});
        _ -> ok
    end.

calls(Scan, Module, Functions, From, Found) ->
    case sonde_nif:scan_calls(Scan, Module, Functions, From) of
        {done, N} -> Found + N;
        {Next, N} -> calls(Scan, Module, Functions, Next, Found + N);
        no_memory -> error(no_memory);
        Why -> error({native_off, {unsupported, Why}})
    end.

with_account(From, #{account := Account}) -> {Account, From};
with_account(From, _) -> From.

%% @doc Steps through a scan until it is `done', its time is up, or no process can be read any more: the
%% signal handler was taken away, and the other reader is forbidden. Several parts are worked at
%% at the same time, each in a helper.
-spec drive(scans(), how(), policy(Acc), Acc) -> {done | late | no_reader, Acc}.
drive([Scan], How, Policy, Acc) ->
    step(Scan, hd(hows([Scan], How)), Policy, Acc);
drive(Scans, #{by := Caller} = How, #{join := Join} = Policy, Acc) ->
    %% the helper of one part is no busy process for the others
    Exclude = fun(Pids) -> [ok = sonde_nif:scan_exclude(Scan, Pids) || Scan <- Scans] end,
    Ends = sonde_helper:all([fun(By) -> step(Scan, Here#{by := By}, Policy, Acc) end
                             || {Scan, Here} <- lists:zip(Scans, hows(Scans, How))], Exclude, Caller),
    lists:foldl(fun({End, Seen}, {Worst, All}) -> {worse(End, Worst), Join(Seen, All)} end,
                {done, Acc}, Ends);
drive(Scans, How, Policy, Acc) ->
    sonde_helper:call(fun(Caller) -> drive(Scans, How#{by => Caller}, Policy, Acc) end).

worse(done, End) -> End;
worse(_, no_reader) -> no_reader;
worse(End, _) -> End.

step(Scan, How, #{ask := Ask} = Policy, Acc) ->
    _ = [sonde_helper:check_caller(Caller) || #{by := Caller} <- [How]],
    case left_ms(How) =:= 0 orelse slice(Scan) of
        true -> {late, Acc};
        done -> {done, Acc};
        more -> step(Scan, How, Policy, Acc);
        {rows, Rows} ->
            step(Scan, How, Policy, lists:foldl(map_get(row, Policy), Acc, Rows));
        {ask, Pids} ->
            {Answers, Next} = Ask(Scan, How, Pids, Acc),
            ok = sonde_nif:scan_feed(Scan, Answers),
            step(Scan, How, Policy, Next);
        {error, no_reader} -> {no_reader, Acc};
        {error, Why} -> error(Why)
    end.

%% A small node is scanned in less time than it takes to change to a dirty scheduler and back.
slice(Scan) ->
    case erlang:system_info(process_count) =< ?FEW andalso sonde_nif:scan_begin(Scan) of
        Not when Not =:= false; Not =:= more -> sonde_nif:scan_step(Scan);
        Result -> Result
    end.

%% Where nothing else can answer.
must_drive(Scans, How, Policy, Acc) ->
    case drive(Scans, How, Policy, Acc) of
        {no_reader, _} -> error({native_off, {unsupported, no_reader}});
        Ended -> Ended
    end.

%% @doc Steps through it, and reports what was missed: processes of ours are never among them.
-spec run(scans(), how()) -> result().
run(Scans, How) ->
    Ask = fun(Scan, Here, Pids, Result) ->
                  #{large := Large} = sonde_nif:scan_info(Scan),
                  {Rows, Missed, Suspended} = second(Pids -- Large, Here),
                  _ = [ok = sonde_nif:scan_skip(Scan, Pid) || #{skip_missed := true} <- [How], {Pid, _} <- Missed],
                  {Rows, merge(Result, (nothing())#{missed := [{Pid, too_large} || Pid <- Large]
                                                        ++ Missed,
                                                    suspended := Suspended})}
          end,
    case must_drive(Scans, How, #{ask => Ask, join => fun merge/2}, nothing()) of
        {done, Result} -> Result;
        {late, Result} -> late(Scans, How, Result)
    end.

%% @doc The same for scans that take no rows (`stacks'): what cannot be read is missed at once.
-spec once(scans(), how()) -> result().
once(Scans, How) ->
    Ask = fun(_, _, Pids, Result) ->
                  {[], merge(Result, (nothing())#{missed := [{Pid, busy} || Pid <- Pids]})}
          end,
    case must_drive(Scans, How, #{ask => Ask, join => fun merge/2}, nothing()) of
        {done, Result} -> Result;
        {late, Result} -> late(Scans, How, Result)
    end.

%% @doc Returns the result of a sweep that missed no process.
-spec nothing() -> result().
nothing() -> #{missed => [], suspended => [], unseen => 0, waiting => []}.

%% @doc Adds to the result the processes that these scans had not come to when the time was up.
-spec late(scans() | [], how(), result()) -> result().
late(Scans, How, #{missed := Missed} = Result) ->
    Infos = [sonde_nif:scan_info(Scan) || Scan <- Scans],
    Answered = lists:sum([N || #{answered := N} <- Infos]),
    Waiting = lists:append([Pids || #{waiting := Pids} <- Infos]),
    Unseen = max(0, others(How, Answered + length(Waiting)) - Answered - length(Missed)),
    Result#{unseen := Unseen, waiting := lists:sublist(Waiting, Unseen)}.

%% How many processes there are, besides those of sonde.
others(#{outside := true}, AtLeast) ->
    case sonde_nif:count_there() of
        undefined -> AtLeast;
        Count -> Count
    end;
others(#{others := Others}, _) ->
    Others;
others(How, _) ->
    erlang:system_info(process_count) - 1 - length(maps:get(without, How, [])).

%% @doc Combines what two sweeps of one call missed.
-spec merge(result(), result()) -> result().
merge(#{missed := Missed, suspended := Suspended, unseen := Unseen, waiting := Waiting},
      #{missed := More, suspended := Held, unseen := Others, waiting := These}) ->
    #{missed => lists:ukeysort(1, More ++ Missed), suspended => Held ++ Suspended,
      unseen => max(Unseen, Others), waiting => lists:usort(These ++ Waiting)}.

left_ms(#{until := Until}) when is_integer(Until) ->
    max(0, Until - erlang:monotonic_time(millisecond));
left_ms(_) ->
    infinity.

%% ---- what a scan has found

%% @doc Returns `{Value, Pid}', largest first, for the K-th attribute, from 0. Values that are equal:
%% the higher pid first, as Erlang orders them too.
-spec rows(scans(), non_neg_integer(), non_neg_integer()) -> [{integer(), pid()}].
rows(Scans, K, Want) ->
    Rows = [[{Value, Pid} || {Pid, Value} <- sonde_nif:scan_rows(Scan, K)] || Scan <- Scans],
    most(Rows, Want).

most([Rows], _Want) -> Rows;
most(Rows, Want) -> lists:sublist(lists:reverse(lists:sort(lists:append(Rows))), Want).

%% @doc Returns what a first look remembers, `{Pid, Value | undefined | skip}'.
-spec values(scans()) -> [{pid(), integer() | undefined | skip}].
values(Scans) ->
    lists:append([sonde_nif:scan_values(Scan) || Scan <- Scans]).

%% @doc The process will have no row.
-spec skip(scans(), pid()) -> ok.
skip(Scans, Pid) ->
    lists:foreach(fun(Scan) -> ok = sonde_nif:scan_skip(Scan, Pid) end, Scans).

%% ---- reports

%% @doc Returns the report of a call that misses no process.
-spec report(boolean()) -> report().
report(Suspend) ->
    report(nothing(), Suspend).

%% @doc Returns the report of a scan. `Suspend': whether suspension was allowed.
-spec report(result(), Suspend :: boolean()) -> report().
report(#{missed := Missed, suspended := Suspended, unseen := Unseen, waiting := Waiting}, Suspend) ->
    LeftOut = length(Missed) + Unseen,
    Count = fun(Why) -> length([M || {_, Is} = M <- Missed, Is =:= Why]) end,
    %% those that a second try may read come first
    Named = [M || {_, busy} = M <- Missed] ++ [M || {_, Why} = M <- Missed, Why =/= busy]
        ++ [{Pid, timeout} || Pid <- Waiting, not lists:keymember(Pid, 1, Missed)],
    Runnable = maps:from_list([{runnable, N} || N <- [Count(runnable)], N > 0]),
    Report = #{left_out => LeftOut, too_large => Count(too_large), busy => Count(busy), timeout => Count(timeout) + Unseen,
               missed => Runnable#{count => LeftOut, pids => lists:sublist(Named, ?NAMED)}},
    case Suspend of
        false -> Report;
        true -> Report#{suspended => #{count => length(Suspended),
                                       pids => lists:sublist(Suspended, ?NAMED)},
                        suspended_ms => lists:sum([0.0 | [Ms || {_, Ms} <- Suspended]])}
    end.

%% ---- processes that could not be read

%% Returns rows, what is still missed, and the processes that it suspended.
second([], _How) ->
    {[], [], []};
second(Pids, #{still := true}) ->
    {[], [{Pid, busy} || Pid <- Pids], []};
second(Pids, How) ->
    {Rows, Missed} = again(Pids, How, ?TRIES),
    {Busy, Others} = lists:partition(fun({_, Why}) -> Why =:= busy end, Missed),
    case {Busy, How} of
        {[_ | _], #{by := Caller}} when not is_map_key(outside, How) ->
            Alive = alive([Pid || {Pid, busy} <- Busy], Caller),
            {More, Left, Suspended} = suspended(Alive, How),
            {More ++ Rows, Left ++ Others, Suspended};
        _ ->
            {Rows, Missed, []}
    end.

%% @doc More looks at processes that were busy.
-spec again([pid()], how()) -> {[{pid(), [integer() | pid()]}], missed()}.
again([], _How) -> {[], []};
again(Pids, #{still := true}) -> {[], [{Pid, busy} || Pid <- Pids]};
again(Pids, How) -> again(Pids, How, ?TRIES).

again(Pids, How, Tries) ->
    {Rows, Missed} = look(Pids, patience(How), How),
    case {[Pid || {Pid, busy} <- Missed], Tries} of
        {[_ | _] = Busy, _} when Tries > 1 ->
            timer:sleep(rand:uniform(?PAUSE_MS)),
            {More, Left} = again(Busy, How, Tries - 1),
            {More ++ Rows, Left ++ [M || {_, Why} = M <- Missed, Why =/= busy]};
        _ ->
            {Rows, Missed}
    end.

patience(How) ->
    Us = maps:get(patience_us, How, ?PATIENCE_US),
    case left_ms(How) of
        infinity -> Us;
        Ms -> min(Us, 1000 * Ms)
    end.

%% @doc One look at these: rows, and what was missed.
-spec look([pid()], how()) -> {[{pid(), [integer() | pid()]}], missed()}.
look(Pids, How) ->
    look(Pids, 0, How).

look(Pids, PatienceUs, How) ->
    Scan = one(mode(How), 0, Pids, PatienceUs, How),
    Ask = fun(_, _, Asked, {Rows, Missed}) ->
                  #{large := Large} = sonde_nif:scan_info(Scan),
                  {[], {Rows, [{Pid, too_large} || Pid <- Large]
                            ++ [{Pid, busy} || Pid <- Asked -- Large] ++ Missed}}
          end,
    Row = fun(Row, {Rows, Missed}) -> {[Row | Rows], Missed} end,
    case must_drive([Scan], How, #{ask => Ask, row => Row}, {[], []}) of
        {done, Seen} -> Seen;
        {late, {Rows, Missed}} ->
            {Rows, Missed ++ [{Pid, timeout} || Pid <- Pids, not lists:keymember(Pid, 1, Rows),
                                                not lists:keymember(Pid, 1, Missed)]}
    end.

%% An account receives what the scan finds; otherwise there are rows.
mode(#{account := _, attrs := [binary_unique]}) -> account;
mode(_) -> each.

%% ---- suspension: the VM resumes a process whose suspender dies

%% The initial call of each, without dead processes and sonde's own: two helpers that suspend each
%% other would never resume. A process that does not answer may belong to sonde.
alive(Pids, Caller) ->
    sonde_helper:jobs(fun(Pid) -> sonde_helper:job(fun what/1, Pid) end,
                      fun(_, Gone, Acc) when Gone =:= gone; Gone =:= ours -> Acc;
                         (Pid, unanswered, Acc) -> [{Pid, spared} | Acc];
                         (Pid, What, Acc) -> [{Pid, What} | Acc]
                      end, [], Pids,
                      #{in_flight => 100, caller => Caller,
                        until => erlang:monotonic_time(millisecond) + ?ASK_MS}).

what(Pid) ->
    case process_info(Pid, [registered_name, initial_call, current_function]) of
        undefined -> gone;
        [{_, Name}, {_, Call}, {_, Now}] ->
            case {sonde_attr:is_ours(Pid, Call, Now), is_spared(Name, Call)} of
                {true, _} -> ours;
                {_, true} -> spared;
                _ -> other
            end
    end.

%% Processes that sonde or the VM may have to wait for.
is_spared(Name, {Module, _, _}) ->
    lists:member(Name, [init, code_server, erl_prim_loader, logger, user, net_kernel,
                        standard_error, erl_signal_server])
        orelse lists:member(Module, [erts_code_purger, erts_literal_area_collector,
                                     erts_dirty_process_signal_handler, erts_trace_cleaner,
                                     prim_file, socket_registry]);
is_spared(_, _) ->
    true.

suspended(Pids, #{suspend := true} = How) ->
    lists:foldl(fun({Pid, What}, {Rows, Missed, Suspended}) ->
                        {More, Left, Held} = suspend(Pid, What, How),
                        {More ++ Rows, Left ++ Missed, Held ++ Suspended}
                end, {[], [], []}, Pids);
suspended(Pids, _) ->
    {[], [{Pid, busy} || {Pid, _} <- Pids], []}.

suspend(Pid, What, How) ->
    Spared = What =:= spared orelse lists:member(Pid, [maps:get(caller, How, none),
                                                       group_leader()]),
    Ms = min(left_ms(How), ?SUSPEND_MS),
    case Spared orelse sonde_look:hold(Pid, erlang:monotonic_time(millisecond) + Ms) of
        true when Spared ->
            {[], [{Pid, busy}], []};
        true ->
            Start = erlang:monotonic_time(microsecond),
            {Rows, Missed} = try look([Pid], How) after sonde_look:release(Pid) end,
            {Rows, Missed, [{Pid, (erlang:monotonic_time(microsecond) - Start) / 1000}]};
        undefined ->
            {[], [], []};
        {error, timeout} ->
            {[], [{Pid, busy}], []}
    end.
