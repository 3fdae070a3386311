%% @private
%% Work in processes of our own: a helper that does the work of one call, so that no message can
%% reach the mailbox of its caller, and in the helper many short jobs at a time, until a deadline.
%% All of them run at the priority of the caller, as if it did the work itself. Rows leave out processes
%% that start in this module (`sonde_attr:call_site/1').
-module(sonde_helper).

-export([call/1, all/3, check_caller/1, jobs/5, job/2, aside/2, ask/4]).
-export([serve/2, work/2]).
-export_type([jobs/1, limits/0]).

%% A lazy list.
-type jobs(Job) :: maybe_improper_list(Job, rest(Job)) | rest(Job).
-type rest(Job) :: [] | fun(() -> jobs(Job)).
%% `until' in milliseconds of monotonic time.
-type limits() :: #{in_flight := pos_integer(), until := integer(), caller := reference(),
                    atom() => term()}.

%% After that time without an answer, a job does not count as in flight any more: a few processes
%% that never answer must not delay the others.
-define(PATIENCE_MS, 100).

%% A process at rest answers in a few microseconds. If the answers of some took longer than that, the
%% next are asked at the same time: each of a thousand that want to run answers after a second.
-define(SLOW_MS, 20).
-define(REST_US, 100).
-define(ANSWER_US, 20).
-define(ASKED_AT_ONCE, 20).
-define(NO_END, (1 bsl 50)). % more milliseconds than there can be

%% @doc Runs `Fun' in a helper and returns its result, or raises its exception. The result is the
%% exit reason of the helper, so a late message is lost with the helper. `Fun' gets the handle for
%% {@link check_caller/1}.
-spec call(fun((reference()) -> Result)) -> Result.
call(Fun) ->
    {Pid, Ref} = start(Fun),
    receive
        {'DOWN', Ref, process, Pid, Why} -> result(Why)
    end.

start(Fun) ->
    spawn_opt(?MODULE, serve, [self(), Fun], [monitor, process_info(self(), priority)]).

result({done, Result}) -> Result;
result({raised, Class, Why, Stack}) -> erlang:raise(Class, Why, Stack);
result(Why) -> exit(Why).

%% @doc Does the same for several at a time; `First' gets the helpers before they begin. Call it only in
%% a helper, with the handle of its caller.
-spec all([fun((reference()) -> Result)], fun(([pid()]) -> term()), reference()) -> [Result].
all(Funs, First, Caller) ->
    Started = [start(when_told(Fun)) || Fun <- Funs],
    try
        _ = First([Pid || {Pid, _} <- Started]),
        _ = [Pid ! now || {Pid, _} <- Started],
        [wait_for(Helper, Caller) || Helper <- Started]
    after
        [exit(Pid, kill) || {Pid, Ref} <- Started, demonitor(Ref, [flush, info])]
    end.

when_told(Fun) ->
    fun(Ref) ->
            receive
                now -> Fun(Ref);
                {'DOWN', Ref, process, _, _} -> exit(caller_is_gone)
            end
    end.

wait_for({Pid, Ref}, Caller) ->
    receive
        {'DOWN', Ref, process, Pid, Why} -> result(Why);
        {'DOWN', Caller, process, _, _} -> exit(caller_is_gone)
    end.

-spec serve(pid(), fun((reference()) -> term())) -> no_return().
serve(Caller, Fun) ->
    _ = process_flag(trap_exit, true),
    Ref = monitor(process, Caller),
    exit(try {done, Fun(Ref)}
         catch Class:Why:Stack -> {raised, Class, Why, Stack}
         end).

%% @doc Ends the helper if its caller is gone.
-spec check_caller(reference()) -> ok.
check_caller(Ref) ->
    receive
        {'DOWN', Ref, process, _, _} -> exit(caller_is_gone)
    after 0 -> ok
    end.

%% @doc Starts every job and folds over the answers as they arrive. `Start' returns what {@link job/2}
%% does. A job without an answer when the time is up is folded as `unanswered'. Call it only in a helper.
-spec jobs(fun((Job) -> pid()), fun((Job, term(), Acc) -> Acc), Acc, jobs(Job), limits()) -> Acc.
jobs(Start, Fold, Acc, Jobs, Limits) ->
    fill(Jobs, #{}, Acc, 0, {Start, Fold, Limits}).

%% @doc Starts a job; its answer is the result of `Fun(Arg)'.
-spec job(fun((Arg) -> term()), Arg) -> pid().
job(Fun, Arg) ->
    started(Fun, Arg, [link, process_info(self(), priority)]).

%% @doc Like {@link job/2}, but without a link: its end is not reported.
-spec aside(fun((Arg) -> term()), Arg) -> pid().
aside(Fun, Arg) ->
    started(Fun, Arg, [process_info(self(), priority)]).

started(Fun, Arg, Opts) ->
    case spawn_opt(?MODULE, work, [Fun, Arg], Opts) of
        Pid when is_pid(Pid) -> Pid
    end.

-spec work(fun((Arg) -> term()), Arg) -> no_return().
work(Fun, Arg) ->
    exit({answer, Fun(Arg)}).

%% @doc Folds over what `Ask' gets from each of these processes: it asks one after the other while they answer
%% at once, and the rest at the same time, so the answers come in any order. The caller asks itself.
%% If there is no room for another process, it asks one after the other to the end.
-spec ask(fun((pid()) -> Answer), fun((pid(), Answer, Acc) -> Acc), Acc, [pid()]) -> Acc.
ask(Ask, Fold, Acc, Pids) ->
    Now = now_us(),
    ask(Ask, Fold, Acc, Pids, Now, Now + 1000 * ?SLOW_MS).

ask(_Ask, _Fold, Acc, [], _Now, _Until) ->
    Acc;
ask(Ask, Fold, Acc, [Pid | Rest], Now, Until) ->
    More = Fold(Pid, Ask(Pid), Acc),
    Then = now_us(),
    case Until + allowed(Then - Now) of
        Later when Then > Later, Rest =/= [] -> at_once(Ask, Fold, More, Rest);
        Later -> ask(Ask, Fold, More, Rest, Then, Later)
    end.

%% On a slow machine, one at rest takes longer too. But now and then the system takes the processor from us.
allowed(Took) when Took < ?REST_US -> Took + ?ANSWER_US;
allowed(_) -> ?ANSWER_US.

now_us() -> erlang:monotonic_time(microsecond).

one_by_one(Ask, Fold, Acc, Pids) ->
    lists:foldl(fun(Pid, A) -> Fold(Pid, Ask(Pid), A) end, Acc, Pids).

at_once(Ask, Fold, Acc, Pids) ->
    {Self, Others} = lists:partition(fun(Pid) -> Pid =:= self() end, Pids),
    Start = fun(Pid) -> job(Ask, Pid) end,
    Limits = #{in_flight => ?ASKED_AT_ONCE, until => ?NO_END},
    try call(fun(Caller) -> jobs(Start, Fold, Acc, Others, Limits#{caller => Caller}) end) of
        All -> one_by_one(Ask, Fold, All, Self)
    catch
        error:system_limit -> one_by_one(Ask, Fold, Acc, Pids)
    end.

%% ---- Out: the jobs in flight by key. Slow: the number of them that do not count any more

fill(Jobs, Out, Acc, Slow, {Start, _, #{in_flight := Max, until := Until}} = How) ->
    Left = Until - erlang:monotonic_time(millisecond),
    case map_size(Out) < Max + Slow andalso next(Jobs) of
        [] when map_size(Out) =:= 0 -> Acc;
        _ when Left =< 0 -> give_up(Jobs, Out, Acc, How);
        [Job | Rest] -> fill(Rest, Out#{Start(Job) => Job}, Acc, Slow, How);
        [] -> wait(min(Left, ?PATIENCE_MS), [], Out, Acc, Slow, How);
        false -> wait(min(Left, ?PATIENCE_MS), Jobs, Out, Acc, Slow, How)
    end.

next(Jobs) when is_function(Jobs) -> next(Jobs());
next(Jobs) -> Jobs.

wait(Ms, Jobs, Out, Acc, Slow, {_, _, #{caller := Caller}} = How) ->
    receive
        {'EXIT', Key, {answer, Answer}} when is_map_key(Key, Out) ->
            answered(Key, Answer, Jobs, Out, Acc, Slow, How);
        {'EXIT', Key, Why} when is_map_key(Key, Out) ->
            ended(Why, Out);
        {'DOWN', Caller, process, _, _} ->
            ended(caller_is_gone, Out)
    after Ms ->
        fill(Jobs, Out, Acc, map_size(Out), How)
    end.

-spec ended(term(), #{pid() => term()}) -> no_return().
ended(Why, Out) ->
    ok = kill(Out),
    exit(Why).

%% A job that traps exits would go on.
kill(Out) ->
    _ = [exit(Worker, kill) || Worker <- maps:keys(Out)],
    ok.

answered(Key, Answer, Jobs, Out, Acc, Slow, {_, Fold, _} = How) ->
    {Job, Rest} = maps:take(Key, Out),
    fill(Jobs, Rest, Fold(Job, Answer, Acc), Slow, How).

give_up(Jobs, Out, Acc, {_, Fold, _} = How) ->
    ok = kill(Out),
    give_up_rest(next(Jobs), maps:fold(fun(_, Job, A) -> Fold(Job, unanswered, A) end, Acc, Out),
                 How).

give_up_rest([], Acc, _How) -> Acc;
give_up_rest([Job | Jobs], Acc, {_, Fold, _} = How) ->
    give_up_rest(next(Jobs), Fold(Job, unanswered, Acc), How).
