%% @private
%% What processes wait at or run: groups of processes with the same stack. The native path counts stacks
%% by their addresses, and names the functions only once for each stack. A process that runs at each look
%% is asked, and so is each process on the portable path.
-module(sonde_stacks).

-export([rows/2, groups/2, collapsed/1, flame/1]).
-export_type([row/0, options/0]).

-type row() :: {[mfa()], Processes :: pos_integer(),
                [{example, pid()} | {initial_call, mfa()} | (Name :: atom())]}.
-type options() :: #{depth => 1..64, timeout => Ms :: non_neg_integer(), report => boolean(),
                     threads => sonde_threads:threads()}.
%% `not_known': of those in another OS process of which a function cannot be read.
-type groups() :: #{[mfa()] | not_known => {Processes :: pos_integer(), Example :: pid()}}.

-define(DEEPEST, 64).
%% A process in a long native call does not answer before the call ends.
-define(ASK_MS, 500).
-define(IN_FLIGHT, 100).

%% @doc Returns the rows of the `N' stacks that most processes have.
-spec rows(non_neg_integer(), map()) -> {[row()], sonde_scan:report()}.
rows(N, Opts) when is_integer(N), N >= 0 ->
    #{timeout := Ms} = Read =
        sonde_opts:read(Opts, #{depth => {own_depth(), fun is_depth/1}, timeout => sonde_opts:count(30000),
                                report => sonde_opts:flag(false), threads => sonde_threads:option()}),
    How = (maps:with([depth, threads], Read))#{caller => self(),
                                               until => erlang:monotonic_time(millisecond) + Ms},
    {Groups, Result} = sonde_retry:run(fun() -> groups(How) end),
    {named(N, sorted(Groups)), sonde_scan:report(Result, false)};
rows(_, _) ->
    error(badarg).

%% How many functions the VM's own traces have: the VM reports the setting only to a process that sets it.
own_depth() -> length(even(?DEEPEST)).

even(0) ->
    {_, Trace} = process_info(self(), current_stacktrace),
    Trace;
even(N) ->
    Trace = odd(N - 1),
    true = is_list(Trace),
    Trace.

odd(N) ->
    Trace = even(N - 1),
    true = is_list(Trace),
    Trace.

is_depth(Depth) -> is_integer(Depth) andalso Depth >= 1 andalso Depth =< ?DEEPEST.

%% @doc Returns lines for tools that draw flame graphs: the first call first, then a count.
-spec collapsed([row()]) -> unicode:chardata().
collapsed(Rows) ->
    [[frames(Stack), $\s, integer_to_list(Count), $\n] || {Stack, Count, _} <- Rows].

%% @doc A flame graph of rows; each may have one more frame at the bottom.
-spec flame([row() | {Below :: unicode:chardata(), row()}]) -> unicode:chardata().
flame(Rows) ->
    Stacks = [stack_of(Row) || Row <- Rows],
    Title = [count(lists:sum([N || {_, N} <- Stacks]), "process", "es"), " in ", count(length(Stacks), "stack", "s")],
    sonde_flame:svg(Title, Stacks).

stack_of({[], Count, _}) -> {["(none)"], Count};
stack_of({[_ | _] = Stack, Count, _}) -> {[sonde_names:call(F, true) || F <- lists:reverse(Stack)], Count};
stack_of({Below, Row}) ->
    {Calls, Count} = stack_of(Row),
    {[Below | Calls], Count}.

count(1, One, _) -> ["1 ", One];
count(N, One, More) -> [sonde_units:text(count, N, true), $\s, One, More].

frames([]) -> "(none)";
frames(Stack) -> lists:join($;, [frame(F) || F <- lists:reverse(Stack)]).

%% A semicolon separates functions.
frame(Function) ->
    string:replace(sonde_names:call(Function, true), ";", ":", all).

%% ---- rows

sorted(Groups) ->
    lists:sort([{-Count, Stack, Pid} || {Stack, {Count, Pid}} <- maps:to_list(Groups)]).

%% Neither of these items sends anything to a process that waits and has no new message.
named(N, [{Less, Stack, Pid} | Groups]) when N > 0 ->
    Told = process_info(Pid, [registered_name, initial_call]),
    case is_ours(Pid, Stack, Told) of
        true -> named(N, Groups);
        false -> [{Stack, -Less, [{example, Pid} | site(Told, Less)]} | named(N - 1, Groups)]
    end;
named(_, _) ->
    [].

site([{_, Name}, {_, Call}], Less) -> [Name || Name =/= [], Less =:= -1] ++ [{initial_call, Call}];
site(undefined, _) -> [].

%% Of one that has ended, only the functions tell. Those that are shown may end within a helper's native call.
is_ours(Pid, [Now | _], [_, {_, Call}]) -> sonde_attr:is_ours(Pid, Call, Now);
is_ours(_, [], [_, {_, Call}]) -> sonde_attr:is_ours(Call);
is_ours(_, [{sonde_nif, _, _} | _], undefined) -> true;
is_ours(Pid, Stack, undefined) -> lists:any(fun(F) -> sonde_attr:is_ours(Pid, F, F) end, Stack).

%% @doc The stacks of finished scans in another OS process, those of most processes first; `Function' is applied to each
%% function. And how many processes have a stack of which a function cannot be read, with one of them.
-spec groups(sonde_scan:scans(), fun((tuple()) -> tuple())) ->
    {[{Less :: neg_integer(), [tuple()], Example :: pid()}], {Processes :: pos_integer(), pid()} | none}.
groups(Scans, Function) ->
    Add = fun(not_known, _, Acc) -> Acc;
             (Stack, {Count, Pid}, Acc) -> add(lists:map(Function, Stack), Count, Pid, Acc)
          end,
    All = lists:foldl(fun read/2, #{}, Scans),
    {sorted(maps:fold(Add, #{}, All)), maps:get(not_known, All, none)}.

%% ---- groups

groups(How) ->
    case path() of
        native ->
            try sonde_helper:call(fun(By) -> natively(How#{by => By}) end)
            catch throw:no_reader -> portably({unsupported, no_reader}, How)
            end;
        {portable, Why} ->
            portably(Why, How)
    end.

portably(Why, #{depth := Depth} = How) ->
    Depth =< own_depth() orelse error({native_off, Why}),
    sonde_helper:call(fun(By) -> asked(processes(), How#{by => By}, nothing()) end).

path() ->
    case sonde_vm:side() of
        native ->
            case sonde_nif:has_code() of
                true -> native;
                false -> {portable, {unsupported, code}}
            end;
        Portable ->
            Portable
    end.

nothing() -> {#{}, sonde_scan:nothing()}.

natively(#{depth := Depth, caller := Caller} = How) ->
    Here = How#{attrs => [stack], max_words => Depth, without => [Caller]},
    Scans = sonde_scan:scan(stacks, 0, undefined, Here),
    Policy = #{ask => fun(_, #{by := By}, Pids, Acc) -> {[], asked(Pids, soon(How#{by := By}), Acc)} end,
               join => fun join/2},
    case sonde_scan:drive(Scans, Here, Policy, nothing()) of
        {no_reader, _} ->
            throw(no_reader);
        {End, {Asked, Missed}} ->
            Result = case End of
                         done -> Missed;
                         late -> sonde_scan:late(Scans, Here, Missed)
                     end,
            {lists:foldl(fun read/2, Asked, Scans), Result}
    end.

%% Two addresses may lie on one line of code, or in one function: then their stacks are equal.
read(Scan, Groups) -> read(Scan, 1, Groups).

read(Scan, From, Groups) ->
    {Next, Ends} = sonde_nif:scan_stacks(Scan, From),
    All = lists:foldl(fun({Node, Count, Pid}, Acc) -> add(stack(Scan, Node), Count, Pid, Acc) end,
                      Groups, Ends),
    case Next of
        done -> All;
        _ -> read(Scan, Next, All)
    end.

stack(Scan, Node) ->
    case sonde_nif:scan_stack(Scan, Node) of
        no_reader -> throw(no_reader);
        Stack -> Stack
    end.

-spec add([mfa()] | not_known, pos_integer(), pid(), groups()) -> groups().
add(Stack, Count, Pid, Groups) ->
    maps:update_with(Stack, fun({N, One}) -> {N + Count, One} end, {Count, Pid}, Groups).

join({Groups, Result}, {More, Other}) ->
    {maps:fold(fun(Stack, {Count, Pid}, Acc) -> add(Stack, Count, Pid, Acc) end, Groups, More),
     sonde_scan:merge(Result, Other)}.

%% ---- processes that are asked

soon(#{until := Until} = How) ->
    How#{until := min(Until, erlang:monotonic_time(millisecond) + ?ASK_MS)}.

asked(Pids, #{depth := Depth, by := By, until := Until, caller := Caller}, Acc) ->
    Others = [Pid || Pid <- Pids, Pid =/= Caller, Pid =/= self()],
    Add = fun(Pid, Trace, {Groups, Result}) when is_list(Trace) ->
                  {add(functions(Depth, Trace), 1, Pid, Groups), Result};
             (Pid, unanswered, {Groups, #{missed := Missed} = Result}) ->
                  {Groups, Result#{missed := [{Pid, timeout} | Missed]}};
             (_, gone, Seen) ->
                  Seen
          end,
    sonde_helper:jobs(fun(Pid) -> sonde_helper:job(fun trace/1, Pid) end, Add, Acc, Others,
                      #{in_flight => ?IN_FLIGHT, caller => By, until => Until}).

trace(Pid) ->
    case process_info(Pid, [initial_call, current_function, current_stacktrace]) of
        [{_, Call}, {_, Now}, {_, Trace}] ->
            case sonde_attr:is_ours(Pid, Call, Now) of
                true -> gone;
                false -> Trace
            end;
        undefined ->
            gone
    end.

functions(Depth, Trace) ->
    [{M, F, A} || {M, F, A, _} <- lists:sublist(Trace, Depth)].
