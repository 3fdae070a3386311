%% @private
%% Asks many processes to collect, some at a time, until a deadline.
-module(sonde_collect).

-export([all/4]).
-export_type([pids/0, limits/0]).

%% A lazy list.
-type pids() :: maybe_improper_list(pid(), rest()) | rest().
-type rest() :: [] | fun(() -> pids()).
%% `until' in milliseconds of monotonic time.
-type limits() :: #{in_flight := pos_integer(), until := integer(), caller := reference(),
                    atom() => term()}.

-record(flight, {ref, until, caller, in_flight, fold,
                 most,         % how many may be out; more where some do not answer
                 turns = 0}).  % requests and answers until the clock is looked at

-define(PATIENCE_MS, 100).
-define(TURNS, 64).

%% @doc Folds over the answers as they come: `true', `false' for a process that is dead, and `unanswered'
%% for one that has not answered when the time is up. After 100 ms without an answer, those that are waited
%% for do not count as in flight any more: a few that never answer must not delay the others. Call it only
%% in a helper, with the handle of its caller: a late answer is lost with the helper.
%%
%% The pids without an answer are keys of the process dictionary: that costs a tenth of a map, and there is
%% one for each process of the node.
-spec all(pids(), fun((pid(), boolean() | unanswered, Acc) -> Acc), Acc, limits()) -> Acc.
all(Pids, Fold, Acc, #{in_flight := Most, until := Until, caller := Caller}) ->
    fly(Pids, 0, Acc, #flight{ref = make_ref(), until = Until, caller = Caller, in_flight = Most,
                              fold = Fold, most = Most}).

%% Out: how many have not answered.
fly(Pids, Out, Acc, #flight{turns = 0, caller = Caller} = F) ->
    ok = sonde_helper:check_caller(Caller),
    case left_ms(F) > 0 of
        true -> fly(Pids, Out, Acc, F#flight{turns = ?TURNS});
        false -> give_up(Pids, Acc, F)
    end;
fly([Pid | Pids], Out, Acc, #flight{most = Most, ref = Ref, turns = N} = F) when Out < Most ->
    _ = put(Pid, Ref),
    async = garbage_collect(Pid, [{async, [Ref | Pid]}]),
    fly(Pids, Out + 1, Acc, F#flight{turns = N - 1});
fly(More, Out, Acc, F) when is_function(More) ->
    fly(More(), Out, Acc, F);
fly([], 0, Acc, _) ->
    Acc;
fly(Pids, Out, Acc, #flight{ref = Ref} = F) ->
    receive {garbage_collect, [Ref | Pid], Answer} -> answered(Pid, Answer, Pids, Out, Acc, F)
    after 0 -> wait(Pids, Out, Acc, F)
    end.

wait(Pids, Out, Acc, #flight{ref = Ref, caller = Caller, in_flight = Most} = F) ->
    receive
        {garbage_collect, [Ref | Pid], Answer} ->
            answered(Pid, Answer, Pids, Out, Acc, F);
        {'DOWN', Caller, process, _, _} ->
            exit(caller_is_gone)
    after min(left_ms(F), ?PATIENCE_MS) ->
            fly(Pids, Out, Acc, F#flight{most = Out + Most, turns = 0})
    end.

answered(Pid, Answer, Pids, Out, Acc, #flight{fold = Fold, turns = N} = F) ->
    _ = erase(Pid),
    fly(Pids, Out - 1, Fold(Pid, Answer, Acc), F#flight{turns = N - 1}).

left_ms(#flight{until = Until}) -> max(0, Until - erlang:monotonic_time(millisecond)).

give_up(Pids, Acc, #flight{ref = Ref, fold = Fold}) ->
    Out = get_keys(Ref),
    _ = [erase(Pid) || Pid <- Out],
    unanswered(Pids, Fold, lists:foldl(fun(Pid, A) -> Fold(Pid, unanswered, A) end, Acc, Out)).

unanswered([Pid | Pids], Fold, Acc) -> unanswered(Pids, Fold, Fold(Pid, unanswered, Acc));
unanswered([], _, Acc) -> Acc;
unanswered(More, Fold, Acc) -> unanswered(More(), Fold, Acc).
