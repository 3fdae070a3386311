%% How long calls take, and how much memory they add.
-module(bench_clock).

-export([alternate/3, against/3, peak/1, median/1, percentile/2]).
-export([loop/3]).

-define(PAUSE_MS, 10).
-define(IDLE_MS, 1000).  % at most so long for what the last call left
-define(WARM_UP, 1).

%% @doc Runs the calls in turn, each in a process of its own. Returns the nanoseconds of each call,
%% `Runs' times after a warm-up.
-spec alternate(pos_integer(), non_neg_integer(), #{Name => fun(() -> term())}) ->
          #{Name => [non_neg_integer()]}.
alternate(Runs, PauseMs, Calls) ->
    Order = maps:to_list(Calls),
    _ = [once(Call, PauseMs) || _ <- lists:seq(1, ?WARM_UP), {_, Call} <- Order],
    Times = [{Name, once(Call, PauseMs)} || _ <- lists:seq(1, Runs), {Name, Call} <- Order],
    maps:map(fun(Name, _) -> [Ns || {N, Ns} <- Times, N =:= Name] end, Calls).

%% @doc The figures of a row that compares two of these calls.
-spec against(Name, Name, #{Name => [non_neg_integer()]}) ->
          #{other | sonde := number(), times := #{other | sonde := [non_neg_integer()]}}.
against(Other, Sonde, Times) ->
    #{Other := Theirs, Sonde := Ours} = Times,
    #{other => median(Theirs), sonde => median(Ours), times => #{other => Theirs, sonde => Ours}}.

once(Call, PauseMs) ->
    timer:sleep(PauseMs),
    ok = wait_until_idle(?IDLE_MS),
    in_process(fun() ->
                       Start = erlang:monotonic_time(),
                       _ = Call(),
                       Stop = erlang:monotonic_time(),
                       erlang:convert_time_unit(Stop - Start, native, nanosecond)
               end).

%% A process that ends reports so before it frees its heap. To free the 700 MB of a list of a million rows takes
%% longer than a pause, and meanwhile that core is not idle.
wait_until_idle(Ms) ->
    case lists:sum(erlang:statistics(active_tasks_all)) of
        Active when Active > 1, Ms > 0 -> timer:sleep(1), wait_until_idle(Ms - 1);
        _ -> ok
    end.

in_process(Fun) ->
    {Pid, Ref} = spawn_monitor(fun() -> exit({result, Fun()}) end),
    receive
        {'DOWN', Ref, process, Pid, {result, Result}} -> Result;
        {'DOWN', Ref, process, Pid, Why} -> error(Why)
    end.

%% @doc The most bytes that the node had during the call, above those before it: by its allocators,
%% and by the operating system (`undefined' if that does not report it).
-spec peak(fun(() -> term())) ->
          #{allocated := non_neg_integer(), resident := non_neg_integer() | undefined}.
peak(Call) ->
    _ = garbage_collect(),
    timer:sleep(?PAUSE_MS),
    ok = wait_until_idle(?IDLE_MS),
    Before = memory(),
    Self = self(),
    Poller = spawn_opt(?MODULE, loop, [Self, Before, Before], [{priority, max}]),
    _ = in_process(Call),
    Poller ! {stop, Self},
    {Allocated, Resident} = receive {Poller, Most} -> Most end,
    {A, R} = Before,
    #{allocated => Allocated - A,
      resident => case R of undefined -> undefined; _ -> Resident - R end}.

loop(Owner, {A, R}, Before) ->
    {NowA, NowR} = memory(),
    Most = {max(A, NowA), case R of undefined -> R; _ -> max(R, NowR) end},
    receive
        {stop, Owner} -> Owner ! {self(), Most}
    after 1 ->
        loop(Owner, Most, Before)
    end.

memory() ->
    {erlang:memory(total), resident()}.

%% The fields of statm are pages; the second is the resident set.
resident() ->
    case prim_file:read_file("/proc/self/statm") of
        {ok, Text} ->
            [_, Pages | _] = string:lexemes(binary_to_list(Text), " "),
            list_to_integer(Pages) * 4096;
        {error, _} ->
            undefined
    end.

-spec median([number()]) -> number().
median(Values) ->
    percentile(Values, 50).

-spec percentile([number()], number()) -> number().
percentile(Values, Percent) ->
    Sorted = lists:sort(Values),
    N = length(Sorted),
    lists:nth(max(1, min(N, ceil(N * Percent / 100))), Sorted).
