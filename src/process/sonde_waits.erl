%% @private
%% Which processes wait for an answer of another process, and where such a chain ends. Only the native
%% path answers this. Only the monitor's reference on the caller's stack shows which of several
%% monitored processes the caller waits for. And the native path sends nothing to a process that waits.
%%
%% The module has no list of the addresses of such waits: a helper waits at each place in the code,
%% and the scan looks for processes with the same program counter.
-module(sonde_waits).

-export([rows/2, look/1, look_at/2, places/0, look_there/1, row/4]).
-export_type([row/0, options/0]).

-type row() :: {sonde_wait_graph:waited(), Waiters :: pos_integer(),
                [{longest_chain, [sonde_wait_graph:waited()]} | (Name :: atom()) | {direct, pos_integer()}
                 | {waits_for, sonde_wait_graph:waited()} | {deadlock, [pid()]}
                 | {message_queue_len, non_neg_integer()} | {initial_call, mfa()}]}.
-type options() :: #{timeout => Ms :: non_neg_integer(), report => boolean()}.

%% Processes that one scan looks at.
-define(SOME, 1000).
%% More looks at a process that was busy. A process that is busy each time runs, or is suspended.
-define(AGAIN, 2).
%% More looks at a circle, until no process on it moved between two of them.
-define(TRIES, 5).
-define(STEP_MS, 1).
-define(ELSEWHERE, 2000).      % steps of STEP_MS
%% Longer than a look takes: the look ends the helper, and with it the call.
-define(LONG_MS, 16#FFFFFFF).

%% @doc Returns the rows of the `N' processes that most others wait for, directly or through others.
%% After them come the rows `remote' and `unclear', if there are any: sonde knows no pid for these.
-spec rows(non_neg_integer(), map()) -> {[row()], sonde_scan:report()}.
rows(N, Opts) when is_integer(N), N >= 0 ->
    #{timeout := Ms} = sonde_opts:read(Opts, #{timeout => sonde_opts:count(30000),
                                               report => sonde_opts:flag(false)}),
    Until = erlang:monotonic_time(millisecond) + Ms,
    {Graph, Missed} = look(Until),
    {named(N, Graph), sonde_scan:report(Missed, false)};
rows(_, _) ->
    error(badarg).

%% ---- rows

named(N, Graph) ->
    {Pids, Others} = lists:partition(fun({For, _}) -> is_pid(For) end, sonde_wait_graph:totals(Graph)),
    first(N, Pids, Graph) ++ [row(Other, [], [], Graph) || Other <- Others].

%% Neither these items of process_info nor a native read send anything to a process that waits.
first(N, [{Pid, _} = Total | Totals], Graph) when N > 0 ->
    case process_info(Pid, [registered_name, initial_call]) of
        [{_, Name}, {_, Call}] ->
            case is_ours(Pid, Call, Graph) of
                true -> first(N, Totals, Graph);
                false -> [row(Total, [Name || Name =/= []], queued(Pid) ++ [{initial_call, Call}], Graph)
                          | first(N - 1, Totals, Graph)]
            end;
        undefined ->
            first(N, Totals, Graph)
    end;
first(_, _, _) ->
    [].

%% A helper of another call like this one, or a process that such a helper starts.
is_ours(Pid, Call, Graph) ->
    sonde_attr:is_ours(Call)
        orelse lists:all(fun(Waiter) ->
                                 case process_info(Waiter, initial_call) of
                                     {_, Of} -> sonde_attr:is_ours(Of);
                                     undefined -> false
                                 end
                         end, lists:sublist(sonde_wait_graph:some(Pid, Graph), 2)).

queued(Pid) ->
    case sonde_every_process:read(Pid, message_queue_len) of
        N when is_integer(N) -> [{message_queue_len, N}];
        _ -> []
    end.

%% @doc The row of one that others wait for, with its name, if it has one, and what else is known of it.
-spec row({sonde_wait_graph:waited(), pos_integer()}, [term()], [term()], sonde_wait_graph:graph()) -> tuple().
row({For, Waiters}, Name, Known, Graph) ->
    {For, Waiters, [{longest_chain, sonde_wait_graph:chain(For, Graph)} | Name]
     ++ [{direct, sonde_wait_graph:direct(For, Graph)}]
     ++ [{waits_for, Next} || Next <- [sonde_wait_graph:next(For, Graph)], Next =/= undefined]
     ++ [{deadlock, Circle} || Circle <- [sonde_wait_graph:circle(For, Graph)], Circle =/= undefined]
     ++ Known}.

%% ---- looking

%% @doc Looks at every process, and then at the processes that others wait for, until that time. Sees
%% each process at a moment of its own. But there was one moment at which each process on a circle
%% waited for the next one.
-spec look(integer()) -> {sonde_wait_graph:graph(), sonde_scan:result()}.
look(Until) ->
    with_places(Until, fun all/1,
                fun(How) ->
                        Scans = sonde_scan:scan(each, 0, undefined, How),
                        {sonde_wait_graph:new(), sonde_scan:late(Scans, How, sonde_scan:nothing())}
                end).

%% @doc Returns which of these processes wait, what each of them waits for, and in which call.
-spec look_at([pid()], integer()) ->
    #{pid() => {sonde_wait_graph:waited(), Call :: integer()}}.
look_at(Pids, Until) ->
    with_places(Until, fun(How) -> next(Pids, How) end, fun(_) -> #{} end).

%% @doc The same as look/1 in another OS process. No helper can wait there, so all of a function is a place.
-spec look_there(integer()) -> {sonde_wait_graph:graph(), sonde_scan:result()}.
look_there(Until) ->
    Calls = [{Module, Function} || {Module, Functions, _} <- places(), Function <- Functions],
    all(#{attrs => [waits_for, waits_call], until => Until, outside => true, still => sonde_nif:reader() =:= core,
          calls => [{atom_to_binary(Module), [atom_to_binary(F) || {M, F} <- lists:usort(Calls), M =:= Module]}
                    || Module <- lists:usort([M || {M, _} <- Calls])]}).

%% The helpers end before the result goes to the caller. The result is the exit reason of this helper,
%% and each process that is linked to it, or monitors it, would get a copy.
with_places(Until, Look, Late) ->
    sonde_retry:run(fun() ->
                            ok = sonde_vm:must_be_native(),
                            sonde_helper:call(fun(By) -> at_places(By, Until, Look, Late) end)
                    end).

at_places(By, Until, Look, Late) ->
    %% without the processes that are about to be started, and this one
    Others = erlang:system_info(process_count) - 1,
    Silent = sonde_helper:job(fun timer:sleep/1, infinity),
    Twins = [twin(Place, Silent) || Place <- places()],
    Pids = [Pid || {Pid, _} <- Twins],
    How = #{attrs => [waits_for, waits_call], by => By, until => Until, others => Others, without => [Silent | Pids]},
    try lists:all(fun(Twin) -> has_arrived(Twin, How) end, Twins) of
        true -> Look(How#{places => Pids});
        false -> Late(How)
    after
        _ = [unlink(Pid) || Pid <- [Silent | Pids]],
        _ = [exit(Pid, kill) || Pid <- [Silent | Pids]]
    end.

all(How) ->
    Scans = sonde_scan:scan(each, 0, undefined, How),
    Policy = #{ask => fun(_, _, Pids, {Graph, Busy}) -> {[], {Graph, Pids ++ Busy}} end,
               row => fun(Row, {Graph, Busy}) -> {add(Row, Graph), Busy} end},
    case sonde_scan:drive(Scans, How, Policy, {sonde_wait_graph:new(), []}) of
        {no_reader, _} ->
            error({native_off, {unsupported, no_reader}});
        {End, {Graph, Busy}} ->
            {Waiting, Missed} = again(Busy, How),
            All = lists:foldl(fun add/2, Graph, Waiting),
            {Next, Unread} = some(sonde_wait_graph:awaited(All), How, ?AGAIN),
            %% first all that were missed: `late' counts none of them again
            Result = (sonde_scan:nothing())#{missed := lists:ukeysort(1, Unread ++ Missed)},
            Swept = case End of
                        done -> Result;
                        late -> sonde_scan:late(Scans, How, Result)
                    end,
            {verified(calls(Next), All, How, ?TRIES), Swept}
    end.

add({Pid, [For, _]}, Graph) ->
    sonde_wait_graph:add(Pid, waited(For), Graph).

waited(1) -> remote;
waited(2) -> unclear;
waited(Pid) when is_pid(Pid) -> Pid.

%% From outside, another look finds every place in the code again. So there is none for processes that run or want to,
%% and none in a core file, where it would see the same.
again(Busy, #{outside := true} = How) ->
    States = states(Busy),
    Late = [{Pid, case State of runnable -> runnable; _ -> busy end} || {Pid, State} <- States,
                                                                        State =:= runnable orelse State =:= running],
    Others = [Pid || {Pid, State} <- States, State =/= runnable, State =/= running],
    {Waiting, Missed} = case How of
                            #{still := true} -> {[], [{Pid, busy} || Pid <- Others]};
                            _ -> some(Others, How, ?AGAIN)
                        end,
    {Waiting, Late ++ Missed};
again(Busy, How) ->
    some(Busy, How, ?AGAIN).

states([]) ->
    [];
states(Pids) ->
    States = sonde_nif:each_of(status, Pids),
    {Now, Later} = lists:split(length(States), Pids),
    lists:zip(Now, States) ++ states(Later).

%% Looks again, a few times, at processes that were busy: a process that waits is soon at rest. Also
%% returns the processes that were busy each time, and those that were not looked at.
some(Pids, How, Tries) ->
    {Rows, Missed} = looks(Pids, How),
    case lists:partition(fun({_, Why}) -> Why =:= busy end, Missed) of
        {[_ | _] = Busy, Others} when Tries > 0 ->
            {More, Left} = some([Pid || {Pid, _} <- Busy], How, Tries - 1),
            {Rows ++ More, Others ++ Left};
        _ ->
            {Rows, Missed}
    end.

looks([], _How) ->
    {[], []};
looks(Pids, How) ->
    {Now, Later} = split(?SOME, Pids, []),
    {Rows, Missed} = sonde_scan:look(Now, How),
    {More, Left} = looks(Later, How),
    {Rows ++ More, Missed ++ Left}.

split(N, [Pid | Pids], Now) when N > 0 -> split(N - 1, Pids, [Pid | Now]);
split(_, Pids, Now) -> {Now, Pids}.

next(Pids, How) ->
    {Rows, _} = some(Pids, How, ?AGAIN),
    calls(Rows).

calls(Rows) ->
    maps:from_list([{Pid, {waited(For), Call}} || {Pid, [For, Call]} <- Rows]).

%% If each process on a circle is in the same call in two looks, all of them waited at the moment
%% between the looks.
verified(Next, All, How, Tries) ->
    Graph = sonde_wait_graph:with_next(maps:map(fun(_, {For, _}) -> For end, Next), All),
    Members = lists:append(sonde_wait_graph:circles(Graph)),
    Now = next(Members, How),
    case [Pid || Pid <- Members, map_get(Pid, Next) =/= maps:get(Pid, Now, gone)] of
        [] -> Graph;
        Moved when Tries > 0 -> verified(maps:merge(maps:without(Moved, Next), Now), All, How, Tries - 1);
        Moved -> verified(maps:without(Moved, Next), All, How, 0)
    end.

%% ---- places

%% @doc Returns the places in the code that count as waits. Each has the functions that are that place
%% on some release, and a fun that brings a helper there. The helper waits for the process that is
%% the fun's argument, which never answers. A child that the helper starts never reports its start.
-spec places() -> [{module(), Functions :: [atom()], fun((pid()) -> term())}].
places() ->
    %% gen:call waits at two places: with a time limit, or for a remote process, it uses an alias
    [{gen, [do_call], fun(Pid) -> gen:call(Pid, '$gen_call', wait, infinity) end},
     {gen, [do_call], fun(Pid) -> gen:call(Pid, '$gen_call', wait, ?LONG_MS) end},
     {gen, [receive_response],
      fun(Pid) -> gen_server:receive_response(gen_server:send_request(Pid, wait), infinity) end},
     {gen, [wait_response],
      fun(Pid) -> gen_server:wait_response(gen_server:send_request(Pid, wait), infinity) end},
     {io, [execute_request], fun(Pid) -> io:request(Pid, {setopts, []}) end},
     {proc_lib, [sync_start_link, sync_start],
      fun(Pid) -> proc_lib:start_link(erlang, apply, [fun hold/1, [Pid]]) end},
     {proc_lib, [sync_start], fun(Pid) -> proc_lib:start(erlang, apply, [fun hold/1, [Pid]]) end},
     {proc_lib, [sync_start_monitor],
      fun(Pid) -> proc_lib:start_monitor(erlang, apply, [fun hold/1, [Pid]]) end}].

%% Never reports its start to its parent; ends with `Pid', or with its parent, by which others know that it is ours.
hold(Pid) ->
    _ = put('$initial_call', {sonde, helper, 1}),
    [Parent | _] = get('$ancestors'),
    _ = [monitor(process, P) || P <- [Pid, Parent], is_pid(P)],
    receive
        {'DOWN', _, process, _, _} -> ok
    end.

twin({Module, Functions, Come}, Silent) ->
    {sonde_helper:job(Come, Silent), {Module, Functions}}.

%% A helper that waits elsewhere may wait until a module is loaded, but not for long.
has_arrived(Twin, How) -> has_arrived(Twin, ?ELSEWHERE, How).

has_arrived({_, Place}, 0, _) ->
    error({native_off, {unsupported, Place}});
has_arrived({Pid, {Module, Functions}} = Twin, Tries, #{until := Until} = How) ->
    [{_, {M, F, _}}, {_, Status}] = process_info(Pid, [current_function, status]),
    IsThere = M =:= Module andalso lists:member(F, Functions),
    case erlang:monotonic_time(millisecond) < Until of
        _ when IsThere, Status =:= waiting -> true;
        false -> false;
        true ->
            timer:sleep(?STEP_MS),
            has_arrived(Twin, case Status of waiting -> Tries - 1; _ -> Tries end, How)
    end.
