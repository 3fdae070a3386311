%% @private A look at one process's heap: retries, deadline, suspension, progress. The walker in C
%% decides what to look for, and the caller what to do with the result.
-module(sonde_look).

-export([run/4, given/1, options/1, until/1, report/2, finish/1]).
-export([held/3, hold/2, release/1]).
-export([all/1]).
-export_type([options/0, what/0, errors/0]).

-type options() :: #{suspend := boolean(), max_words := non_neg_integer(),
                     timeout := non_neg_integer(), progress := boolean(), atom() => term()}.
%% The kind of walker, the atoms that it is to recognize, the largest number of entries that it
%% remembers (0: no limit), and a number that some walkers need.
-type what() :: {Kind :: atom(), Want :: [atom()], MaxEntries :: non_neg_integer(),
                 N :: non_neg_integer()}.
-type errors() :: undefined
                | {error, busy | timeout | no_memory
                          | {heap_too_large, Words :: non_neg_integer(), Limit :: non_neg_integer()}
                          | {native_off, sonde_vm:reason()}}.

%% A torn walk is retried; a process that does not rest in so many tries is busy.
-define(TRIES, 50).
-define(PAUSE_MS, 2).
-define(SOON, 45).            % while more tries are left, a busy process may soon rest
-define(SLICE_MS, 5).         % of do_look_step
-define(WAIT_MAX_MS, 16#FFFFFFFF).
-define(WORDS_MAX, (1 bsl 60)). % more than there can be; an option may have any size

%% @doc The options that every such call takes, with their defaults and which values are good.
-spec options(sonde_opts:known()) -> sonde_opts:known().
options(More) ->
    maps:merge(#{suspend => sonde_opts:flag(false), max_words => sonde_opts:count(1000000000),
                 timeout => sonde_opts:count(30000), progress => sonde_opts:flag(false)}, More).

%% @doc When a portable path gives up, with this timeout: it has the time of one slice at least, after which
%% a native walk first looks at the clock.
-spec until(Timeout :: non_neg_integer()) -> Ms :: integer().
until(Timeout) when is_integer(Timeout) ->
    erlang:monotonic_time(millisecond) + max(Timeout, ?SLICE_MS).

%% @doc Runs a look, and calls `Fun' with it when it is done. If the process is the caller itself, a
%% helper reads its heap while the caller waits. With `suspend', a map that `Fun' returns gains
%% `suspended_ms'.
-spec run(term(), what(), options(), fun((sonde_nif:look()) -> Answer)) -> Answer | errors().
run(Pid, What, Opts, Fun) when is_pid(Pid), node(Pid) =:= node() ->
    try sonde_retry:run(fun() -> look(Pid, What, Opts, Fun) end)
    catch error:{native_off, reloaded} = Why -> {error, Why}
    end;
run(_, _, _, _) ->
    error(badarg).

look(Pid, What, Opts, Fun) ->
    case sonde_vm:side() of
        native when Pid =:= self(); map_get(suspend, Opts) ->
            sonde_helper:call(fun(Caller) -> start(Pid, What, Opts#{caller => Caller}, Fun) end);
        native ->
            start(Pid, What, Opts, Fun);
        {portable, Why} ->
            {error, {native_off, Why}}
    end.

start(Pid, What, #{timeout := Timeout, progress := Progress} = Opts, Fun) ->
    Painter = sonde_progress:start(Progress),
    Limited = Opts#{until => erlang:monotonic_time(millisecond) + Timeout, painter => Painter},
    try
        held(Pid, Limited, fun() -> try_it(Pid, What, Limited, Fun, ?TRIES) end)
    after
        ok = sonde_progress:stop(Painter)
    end.

%% @doc Returns an answer of a look that is done. The answer is withheld if the process became
%% sensitive meanwhile, or ended: then the whole look is retried.
-spec given(Answer | sonde_nif:withheld()) -> Answer.
given(Withheld) when is_atom(Withheld) -> throw({?MODULE, Withheld});
given(Answer) -> Answer.

%% @doc Frees the look's memory, in slices: a large heap's takes long.
-spec finish(sonde_nif:look()) -> ok.
finish(Look) ->
    case sonde_nif:look_end(Look) of
        ok -> ok;
        more -> finish(Look)
    end.

%% @doc Returns all of an answer that comes in pieces; `Piece' returns the next one from there on.
-spec all(fun((From :: non_neg_integer()) -> [Item])) -> [Item].
all(Piece) -> all(Piece, 0).

all(Piece, From) ->
    case Piece(From) of
        [] -> [];
        Some -> Some ++ all(Piece, From + length(Some))
    end.

answered(Look, Fun) ->
    try Fun(Look)
    catch throw:{?MODULE, Withheld} -> Withheld
    after ok = finish(Look)
    end.

%% ---- suspension: if a process dies, the VM resumes those that it has suspended

%% @doc Returns the result of `Fun'; with `suspend' the process is suspended during the call.
%% `until' is then in the map. Only in a helper.
-spec held(pid(), #{suspend := boolean(), atom() => term()}, fun(() -> Answer)) ->
    Answer | undefined | {error, timeout}.
held(_Pid, #{suspend := false}, Fun) ->
    Fun();
held(Pid, #{until := Until}, Fun) ->
    case hold(Pid, Until) of
        true ->
            Start = erlang:monotonic_time(),
            Answer = try Fun() after release(Pid) end,
            suspended(Answer, erlang:monotonic_time() - Start);
        No ->
            No
    end.

%% @doc Suspends a process. A process in a dirty call stops only when it leaves the call, which may
%% be long after the deadline. In a helper an answer that comes too late is lost.
-spec hold(pid(), Until :: integer()) -> true | undefined | {error, timeout}.
hold(Pid, Until) ->
    Tag = make_ref(),
    try erlang:suspend_process(Pid, [{asynchronous, Tag}]) of
        true ->
            receive
                {Tag, suspended} -> true;
                {Tag, _} -> undefined
            after wait_ms(Until) ->
                    true = release(Pid),
                    {error, timeout}
            end
    catch
        error:badarg -> undefined
    end.

wait_ms(Until) ->
    max(0, min(Until - erlang:monotonic_time(millisecond), ?WAIT_MAX_MS)).

%% @doc Resumes a process, which may have been killed meanwhile.
-spec release(pid()) -> true.
release(Pid) ->
    try erlang:resume_process(Pid) catch error:badarg -> true end.

suspended(#{} = Answer, Time) ->
    Answer#{suspended_ms => erlang:convert_time_unit(Time, native, millisecond)};
suspended(Answer, _) ->
    Answer.

%% ---- tries

try_it(Pid, {Kind, Want, Max, N} = What, #{max_words := Words} = Opts, Fun, Tries) ->
    case new(Kind, Pid, Want, Words, Max, N) of
        Look when is_reference(Look) ->
            step(Look, Pid, What, Opts, Fun, Tries);
        Why ->
            no(Why, Pid, What, Opts, Fun, Tries)
    end.

new(Kind, Pid, Want, Words, Max, N) ->
    try sonde_nif:look_new(Kind, Pid, Want, min(Words, ?WORDS_MAX), Max, N)
    catch error:no_memory -> no_memory
    end.

step(Look, Pid, What, #{until := Until} = Opts, Fun, Tries) ->
    _ = [sonde_helper:check_caller(Caller) || #{caller := Caller} <- [Opts]],
    case sonde_nif:look_step(Look) of
        done ->
            case answered(Look, Fun) of
                Withheld when Withheld =:= torn; Withheld =:= gone ->
                    no(Withheld, Pid, What, Opts, Fun, Tries);
                Answer ->
                    Answer
            end;
        more ->
            case erlang:monotonic_time(millisecond) of
                Now when Now >= Until ->
                    ok = finish(Look),
                    {error, timeout};
                _ ->
                    ok = report(Look, Opts),
                    step(Look, Pid, What, Opts, Fun, Tries)
            end;
        too_large ->
            {_, Total} = sonde_nif:look_progress(Look),
            ok = finish(Look),
            {error, {heap_too_large, Total, maps:get(max_words, Opts)}};
        Why ->
            ok = finish(Look),
            no(Why, Pid, What, Opts, Fun, Tries)
    end.

no(gone, _, _, _, _, _) ->
    undefined;
no(no_memory, _, _, _, _, _) ->
    {error, no_memory};
no(ask, _, _, _, _, _) ->
    {error, {native_off, {unsupported, literals}}};
no(no_reader, _, _, _, _, _) ->
    {error, {native_off, {unsupported, no_reader}}};
no(_, Pid, What, #{until := Until} = Opts, Fun, Tries) ->
    case erlang:monotonic_time(millisecond) of
        _ when Tries =:= 1 -> {error, busy};
        Now when Now >= Until -> {error, timeout};
        _ ->
            pause(Tries),
            try_it(Pid, What, Opts, Fun, Tries - 1)
    end.

%% At first yield only: if the process is the caller, it only has to begin to wait.
pause(Tries) when Tries > ?SOON -> erlang:yield();
pause(_) -> timer:sleep(?PAUSE_MS).

%% ---- progress

-spec report(sonde_nif:look(), #{painter := sonde_progress:painter(), atom() => term()}) -> ok.
report(_Look, #{progress := false}) ->
    ok;
report(Look, #{painter := Painter}) ->
    {Done, Total} = sonde_nif:look_progress(Look),
    sonde_progress:tell(Painter, Done, Total).
