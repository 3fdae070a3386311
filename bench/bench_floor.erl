%% The floor of bin_leak: collecting every process, at most 100 at the same time, and nothing else.
-module(bench_floor).

-export([collect/0]).

-define(IN_FLIGHT, 100).

-spec collect() -> ok.
collect() ->
    {Now, Later} = split(lists:delete(self(), processes())),
    _ = [ask(Pid) || Pid <- Now],
    answers(Later, length(Now)).

split(Pids) ->
    lists:split(min(?IN_FLIGHT, length(Pids)), Pids).

ask(Pid) ->
    garbage_collect(Pid, [{async, []}]).

answers([], 0) -> ok;
answers([], Out) -> receive {garbage_collect, [], _} -> answers([], Out - 1) end;
answers([Pid | Pids], Out) ->
    receive {garbage_collect, [], _} -> ok end,
    _ = ask(Pid),
    answers(Pids, Out).
