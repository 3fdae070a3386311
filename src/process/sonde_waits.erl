%% @private
%% Who waits for whom: which processes wait for an answer of another one, and where that ends. Read
%% natively, because only the monitor's reference on the caller's stack says for which of several
%% monitored processes it waits; and because no process that waits is sent anything.
%%
%% Which places in the code are such waits is not looked up but shown: a helper waits at each of them,
%% and the scan looks for processes with the same program counter.
-module(sonde_waits).

-export([rows/2, options/0, look/1, places/0]).
-export([hold/1]).
-export_type([row/0]).

-type row() :: {sonde_wait_graph:waited(), Waiters :: pos_integer(),
                [{longest_chain, [sonde_wait_graph:waited()]} | {direct, pos_integer()}
                 | {waits_for, sonde_wait_graph:waited()} | {deadlock, [pid()]}
                 | {registered_name, atom()} | {initial_call, mfa()} | {status, atom()}
                 | {message_queue_len, non_neg_integer()}]}.

%% Looked at in one scan.
-define(SOME, 1000).
%% Who is on his way each time does not wait.
-define(AGAIN, 2).
%% Of looks at a circle, until nobody on it moved between two of them.
-define(TRIES, 5).
-define(STEP_MS, 1).

-spec options() -> sonde_opts:known().
options() ->
    #{timeout => sonde_opts:count(30000)}.

%% @doc The rows of the `N' for whom most processes wait, directly or through others. After them, if
%% there are any, those of whom no process can be shown: `remote' and `unclear'.
-spec rows(non_neg_integer(), map()) -> [row()] | {error, timeout}.
rows(N, Opts) when is_integer(N), N >= 0 ->
    #{timeout := Ms} = sonde_opts:read(Opts, options()),
    Until = erlang:monotonic_time(millisecond) + Ms,
    Look = fun() ->
                   ok = sonde_vm:must_be_native(),
                   look(Until)
           end,
    case sonde_retry:run(Look) of
        {error, timeout} = Late -> Late;
        Graph -> named(N, Graph)
    end;
rows(_, _) ->
    error(badarg).

%% ---- rows

named(N, Graph) ->
    {Pids, Others} = lists:partition(fun({For, _}) -> is_pid(For) end, sonde_wait_graph:totals(Graph)),
    first(N, Pids, Graph) ++ [row(Other, [], Graph) || Other <- Others].

%% None of these items sends a signal to the process.
first(N, [{Pid, _} = Total | Totals], Graph) when N > 0 ->
    case process_info(Pid, [registered_name, initial_call, status, message_queue_len]) of
        undefined -> first(N, Totals, Graph);
        Known -> [row(Total, [Item || Item <- Known, Item =/= {registered_name, []}], Graph)
                  | first(N - 1, Totals, Graph)]
    end;
first(_, _, _) ->
    [].

row({For, Waiters}, Known, Graph) ->
    {For, Waiters, [{longest_chain, sonde_wait_graph:chain(For, Graph)},
                    {direct, sonde_wait_graph:direct(For, Graph)}]
     ++ [{waits_for, Next} || Next <- [sonde_wait_graph:next(For, Graph)], Next =/= undefined]
     ++ [{deadlock, Circle} || Circle <- [sonde_wait_graph:circle(For, Graph)], Circle =/= undefined]
     ++ Known}.

%% ---- looking

%% @doc Looks at every process, and then at those for whom others wait, until that time. Each process
%% is seen at a moment of its own; but everybody on a circle did wait for the next one at one moment.
-spec look(integer()) -> sonde_wait_graph:graph() | {error, timeout}.
look(Until) ->
    sonde_helper:call(fun(By) ->
                              Twins = [twin(Place) || Place <- places()],
                              looked(Twins, #{attrs => [reductions, waits_for], by => By, until => Until})
                      end).

looked(Twins, How) ->
    Pids = [Pid || {Pid, _} <- Twins],
    case lists:all(fun(Twin) -> has_arrived(Twin, How) end, Twins) of
        true -> all(How#{places => Pids, without => Pids});
        false -> {error, timeout}
    end.

all(How) ->
    Policy = #{ask => fun(_, _, Pids, {Graph, Busy}) -> {[], {Graph, Pids ++ Busy}} end,
               row => fun(Row, {Graph, Busy}) -> {add(Row, Graph), Busy} end},
    case sonde_scan:drive(sonde_scan:scan(each, 0, undefined, How), How, Policy,
                          {sonde_wait_graph:new(), []}) of
        {done, {Graph, Busy}} ->
            All = lists:foldl(fun add/2, Graph, again(Busy, How, ?AGAIN)),
            verified(next(sonde_wait_graph:awaited(All), How), All, How, ?TRIES);
        {late, _} ->
            {error, timeout};
        {no_reader, _} ->
            error({native_off, {unsupported, no_reader}})
    end.

add({Pid, [_, For]}, Graph) ->
    sonde_wait_graph:add(Pid, waited(For), Graph).

waited(1) -> remote;
waited(2) -> unclear;
waited(Pid) when is_pid(Pid) -> Pid.

%% Those that were not at rest, if their status, which disturbs nobody, says that they wait.
again(Busy, How, Tries) when Tries > 0 ->
    {Rows, Missed} = some([Pid || Pid <- Busy, process_info(Pid, status) =:= {status, waiting}], How),
    Rows ++ again([Pid || {Pid, busy} <- Missed], How, Tries - 1);
again(_, _, _) ->
    [].

some([], _How) ->
    {[], []};
some(Pids, How) ->
    {Now, Later} = lists:split(min(?SOME, length(Pids)), Pids),
    {Rows, Missed} = sonde_scan:look(Now, How),
    {More, Left} = some(Later, How),
    {Rows ++ More, Missed ++ Left}.

%% For whom each waits, with its reductions: equal in two looks, it did not run between them.
next(Pids, How) ->
    {Rows, _} = some(Pids, How),
    maps:from_list([{Pid, {Reds, waited(For)}} || {Pid, [Reds, For]} <- Rows]).

verified(Next, All, How, Tries) ->
    Graph = sonde_wait_graph:with_next(maps:map(fun(_, {_, For}) -> For end, Next), All),
    Members = lists:append(sonde_wait_graph:circles(Graph)),
    Now = next(Members, How),
    case [Pid || Pid <- Members, map_get(Pid, Next) =/= maps:get(Pid, Now, gone)] of
        [] -> Graph;
        Moved when Tries > 0 -> verified(maps:merge(maps:without(Moved, Next), Now), All, How, Tries - 1);
        Moved -> verified(maps:without(Moved, Next), All, How, 0)
    end.

%% ---- places

%% @doc The places in the code that count, as helpers come to them: the function, and how to get there.
%% What they wait for is the process that is given, which never answers.
-spec places() -> [{module(), Function :: atom(), fun((pid()) -> term())}].
places() ->
    [{gen, do_call, fun(Pid) -> gen:call(Pid, sonde, wait, infinity) end},
     {gen, receive_response,
      fun(Pid) -> gen_server:receive_response(gen_server:send_request(Pid, wait), infinity) end},
     {gen, wait_response,
      fun(Pid) -> gen_server:wait_response(gen_server:send_request(Pid, wait), infinity) end},
     {io, execute_request, fun(Pid) -> io:request(Pid, {setopts, []}) end},
     {proc_lib, sync_start_link, fun(Pid) -> proc_lib:start_link(?MODULE, hold, [Pid]) end},
     {proc_lib, sync_start, fun(Pid) -> proc_lib:start(?MODULE, hold, [Pid]) end}].

%% @doc A process that never tells that it has started, until that one ends.
-spec hold(pid()) -> ok.
hold(Pid) ->
    Ref = monitor(process, Pid),
    receive
        {'DOWN', Ref, process, _, _} -> ok
    end.

twin({Module, Function, Come}) ->
    {sonde_helper:job(Come, self()), {Module, Function}}.

has_arrived({Pid, {Module, Function}} = Twin, #{until := Until} = How) ->
    case {process_info(Pid, [current_function, status]), erlang:monotonic_time(millisecond) < Until} of
        {[{_, {Module, Function, _}}, {_, waiting}], _} -> true;
        {[_, _], true} -> timer:sleep(?STEP_MS), has_arrived(Twin, How);
        _ -> false
    end.
