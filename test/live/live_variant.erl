%% Run by scripts/otp-variant on a VM that was started or built otherwise: says whether the native path is
%% active, or which check failed, and compares every attribute of made-up processes with process_info,
%% beside others that run, collect and die. Prints one line; ends with 1 if a value differs, or if a path
%% that is off does not name a check.
-module(live_variant).

-export([main/0]).

-define(ROUNDS, 40).
-define(CHURN, 4).

-spec main() -> no_return().
main() ->
    ok = sonde_terms_helper:init(),
    _ = rand:seed(exsss),
    Status = sonde:native(),
    Pids = sonde_test:crowd(30) ++ [made() || _ <- lists:seq(1, number("SONDE_MADE", 60))],
    Before = counters(),
    Churn = sonde_test:churn(?CHURN, fun churn/0),
    {Values, WrongValues} = compared(Pids),
    {Stacks, WrongStacks} = stacks(Pids, ?ROUNDS),
    {Equal, Wrong} = {Values + Stacks, WrongValues ++ WrongStacks},
    ok = sonde_test:stop(Churn),
    Asked = maps:get(asked, counters()) - maps:get(asked, Before),
    io:format("~ts; ~b values equal, ~b not~ts~n",
              [status(Status), Equal, length(Wrong), questions(Status, Asked)]),
    _ = [io:format("  ~0p~n", [W]) || W <- lists:sublist(Wrong, 20)],
    %% what +JPperf leaves behind
    _ = [file:delete(["/tmp/", Kind, "-", os:getpid(), End]) || {Kind, End} <- [{"jit", ".dump"}, {"perf", ".map"}]],
    halt(case {Wrong, is_named(Status), Equal} of
             {[], true, N} when N > 0 -> 0;
             _ -> 1
         end).

number(Variable, Default) -> list_to_integer(os:getenv(Variable, integer_to_list(Default))).

counters() -> maps:get(counters, sonde:native()).

status(#{status := active, layout := Table, checks := Checks, reader := Reader}) ->
    io_lib:format("active, table ~s, ~b checks passed, reader ~s", [Table, length(Checks), Reader]);
status(#{status := {off, {check, Check}}, checks := Checks}) ->
    [{Expected, Found} | _] = [{E, F} || {_, {failed, E, F}} <- Checks],
    io_lib:format("off, check ~s: expected ~0p, found ~0p", [Check, Expected, Found]);
status(#{status := {off, Why}}) ->
    io_lib:format("off, ~0p", [Why]).

questions(#{status := active}, Asked) -> io_lib:format("; ~b processes asked", [Asked]);
questions(_, _) -> "".

%% What is off because a check failed names it; other reasons are none of the VM's.
is_named(#{status := active}) -> true;
is_named(#{status := {off, {check, Check}}}) -> is_atom(Check);
is_named(_) -> false.

churn() ->
    Self = self(),
    Pid = spawn(fun() ->
                        Self ! {self(), [binary:copy(<<1>>, 100 + I) || I <- lists:seq(1, 50)]},
                        receive stop -> ok end
                end),
    receive {Pid, Bins} -> 50 = length(Bins) end,
    Pid ! stop,
    erlang:garbage_collect().

made() ->
    {ok, Make} = proper_gen:pick(prop_SUITE:make(), 20),
    {Pid, _Watchers} = prop_SUITE:make(Make),
    Pid.

compared(Pids) ->
    ok = sonde_test:settle(Pids),
    lists:foldl(fun(Attr, {Equal, Wrong}) ->
                        {E, W} = compared(Attr, Pids, {0, []}, ?ROUNDS),
                        {Equal + E, Wrong ++ W}
                end, {0, []}, sonde_attr:native()).

%% Stacks, where each process counts once. The made-up processes wait, others may come and go.
stacks(Pids, Rounds) ->
    Theirs = counted([functions(Pid) || Pid <- Pids, functions(Pid) =/= []]),
    Ours = maps:from_list([{Stack, N} || {Stack, N, _} <- sonde:stacks(1000000)]),
    Others = counted([functions(Pid) || Pid <- processes() -- Pids]),
    Wrong = [{stack, Stack, {ours, maps:get(Stack, Ours, 0)}, {process_info, N}}
             || {Stack, N} <- maps:to_list(Theirs), not is_map_key(Stack, Others),
                maps:get(Stack, Ours, 0) =/= N],
    case Wrong of
        [_ | _] when Rounds > 0 -> stacks(Pids, Rounds - 1);
        _ -> {lists:sum(maps:values(Theirs)), Wrong}
    end.

counted(List) -> lists:foldl(fun(E, Map) -> maps:update_with(E, fun(N) -> N + 1 end, 1, Map) end, #{}, List).

functions(Pid) ->
    case process_info(Pid, current_stacktrace) of
        {_, Trace} -> [{M, F, A} || {M, F, A, _} <- Trace];
        undefined -> []
    end.

%% Comparing is fair only if the process did nothing meanwhile; one that is asked may collect, and is
%% compared again in the next round.
compared(_, [], Result, _) ->
    Result;
compared(Attr, Pids, {Equal, Wrong}, 0) ->
    {Equal, [{Attr, Pid, never_at_rest} || Pid <- Pids] ++ Wrong};
compared(Attr, Pids, {Equal, Wrong}, Rounds) ->
    Fair = fair(Attr, Pids),
    Bad = [{Attr, Pid, {ours, Ours}, {process_info, Theirs}}
           || {Pid, Ours, Theirs} <- Fair, Ours =/= Theirs],
    Left = Pids -- [Pid || {Pid, _, _} <- Fair],
    compared(Attr, Left, {Equal + length(Fair) - length(Bad), Bad ++ Wrong}, Rounds - 1).

%% [{Pid, Ours, Theirs}]. The rows' names are asked for after their values were read, which takes
%% reductions; process_info reads reductions without a question.
fair(reductions, Pids) ->
    ok = sonde_test:settle(Pids),
    Before = [asked(reductions, Pid) || Pid <- Pids],
    Rows = rows(reductions),
    lists:zip3(Pids, [map_get(Pid, Rows) || Pid <- Pids], Before);
fair(Attr, Pids) ->
    Rows = rows(Attr),
    Looks = [{Pid, at(Pid), asked(Attr, Pid), at(Pid)} || Pid <- Pids],
    Again = rows(Attr),
    [{Pid, map_get(Pid, Rows), Theirs}
     || {Pid, At, Theirs, At} <- Looks, map_get(Pid, Rows) =:= map_get(Pid, Again)].

rows(Attr) -> maps:from_list([{Pid, Value} || {Pid, Value, _} <- sonde:proc_count(Attr, -1)]).

%% What changes if the process takes in messages or collects.
at(Pid) -> process_info(Pid, [garbage_collection_info, message_queue_len]).

asked(catchlevel, Pid) -> element(2, process_info(Pid, catchlevel));
asked(Attr, Pid) -> prop_SUITE:asked(Attr, Pid).
