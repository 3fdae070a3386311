%% @private
%% The three processes of a trace. The tracer counts messages and forwards them; the formatter
%% writes them; the guard holds the session and monitors the two, the caller and the output device.
%% When one of them is gone, the guard ends the trace. The tracer monitors the guard, so tracing
%% stops whichever process is killed.
%%
%% None of them is linked to the caller, which gets no message but the answer: a limit that is
%% reached, or a formatter that crashes, must not disturb a shell.
-module(sonde_trace_guard).

-export([start/1, stop/0]).
-export([init/1, tracer/3, count/1, rate/2, formatter/5]).
-export_type([setup/0]).

-type setup() :: #{patterns := [sonde_trace_session:pattern()],
                   processes := [pid() | atom()],
                   flags := [atom()],
                   max := term(),
                   formatter := fun((tuple()) -> term()),
                   io_server := term()}.

-define(GUARD, sonde_trace_guard).
-define(TRACER, sonde_trace_tracer).
-define(FORMATTER, sonde_trace_formatter).
-define(SETUP_MS, 5000).

%% @doc Returns the number of functions that are traced now, or raises what the guard raised.
-spec start(setup()) -> non_neg_integer().
start(Setup) ->
    Guard = spawn(?MODULE, init, [self()]),
    Ref = monitor(process, Guard, [{alias, reply_demonitor}]),
    Guard ! {set_up, Ref, Setup},
    receive
        {Ref, {ok, Functions}} -> Functions;
        {Ref, {raised, Class, Why, Stack}} -> erlang:raise(Class, Why, Stack);
        {'DOWN', Ref, process, Guard, _} -> error(setup_failed)
    end.

%% @doc Ends our trace, if there is one. When it returns, its processes and their names are gone.
-spec stop() -> ok.
stop() ->
    with_name(?GUARD, fun(Guard) -> Guard ! stop end).

kill(Pid) ->
    with(Pid, fun(_) -> exit(Pid, kill) end).

%% Does something to a process that ends it, and waits until it is gone.
with_name(Name, End) ->
    _ = [with(Pid, End) || Pid <- [whereis(Name)], is_pid(Pid)],
    ok.

with(Pid, End) ->
    Ref = monitor(process, Pid),
    _ = End(Pid),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

%% ---- the guard

-spec init(pid()) -> ok.
init(Caller) ->
    _ = monitor(process, Caller),
    receive
        {set_up, Reply, Setup} -> set_up(Reply, Setup);
        {'DOWN', _, process, Caller, _} -> ok
    end.

set_up(Reply, Setup) ->
    try processes(Setup) of
        {Tracer, Formatter} -> set_up(Reply, Setup, Tracer, Formatter)
    catch
        Class:Why:Stack -> Reply ! {Reply, {raised, Class, Why, Stack}}, ok
    end.

%% The trace before ours ends here, where the name is ours: a call that came at the same moment, and
%% found the name taken, must not end our trace.
set_up(Reply, #{patterns := Patterns} = Setup, Tracer, Formatter) ->
    ok = sonde_trace_session:clear(),
    Session = sonde_trace_session:open(Tracer),
    try trace(Session, Setup, Tracer, [Formatter, self()]) of
        Functions ->
            Reply ! {Reply, {ok, Functions}},
            watch(Session, Patterns, Tracer, Formatter)
    catch
        Class:Why:Stack ->
            finish(Session, Patterns, Tracer, Formatter),
            Reply ! {Reply, {raised, Class, Why, Stack}},
            ok
    end.

%% If another trace is set up at the same moment, the name is taken. If the machine is too busy to
%% start a formatter in five seconds, it is too busy to trace.
processes(#{max := Max, patterns := Patterns, formatter := Fun, io_server := Io}) ->
    Ref = make_ref(),
    try register(?GUARD, self()) catch error:badarg -> error(setup_failed) end,
    {Tracer, _} = spawn_opt(?MODULE, tracer, [self(), Max, Patterns],
                            [monitor, {priority, high}, {message_queue_data, off_heap}]),
    {Formatter, _} = spawn_monitor(sonde_trace, formatter, [Tracer, self(), Ref, Fun, Io]),
    _ = [monitor(process, Device) || Device <- device(Io)],
    receive
        {Ref, linked} ->
            take_name(?TRACER, Tracer),
            take_name(?FORMATTER, Formatter),
            {Tracer, Formatter}
    after ?SETUP_MS ->
        kill(Tracer),
        kill(Formatter),
        error(setup_failed)
    end.

%% A process that still has the name is left over from a guard that was killed: no other guard runs.
take_name(Name, Pid) ->
    ok = with_name(Name, fun(Left) -> exit(Left, kill) end),
    true = register(Name, Pid).

device(Pid) when is_pid(Pid) -> [Pid];
device(Name) when is_atom(Name) -> [Pid || Pid <- [whereis(Name)], is_pid(Pid)];
device(_) -> [].

%% Functions come last: by then the processes of the trace are excluded from it. Otherwise the calls
%% that the formatter makes to write a line would cause the next line.
trace(Session, #{patterns := Patterns, processes := Processes, flags := Flags}, Tracer, Ours) ->
    _ = [ok = sonde_trace_session:trace(Session, Who, Flags) || Who <- Processes],
    _ = [ok = sonde_trace_session:spare(Session, Pid) || Pid <- Ours],
    Tracer ! go,
    lists:sum([sonde_trace_session:set(Session, Pattern) || Pattern <- Patterns]).

%% At the limit, the formatter still has text to write; otherwise the trace ends at once.
watch(Session, Patterns, Tracer, Formatter) ->
    receive
        {'DOWN', _, process, Tracer, _} ->
            ok = sonde_trace_session:close(Session, Patterns),
            receive
                {'DOWN', _, process, _, _} -> ok;
                stop -> ok
            end,
            kill(Formatter);
        {'DOWN', _, process, _, _} ->
            finish(Session, Patterns, Tracer, Formatter);
        stop ->
            finish(Session, Patterns, Tracer, Formatter)
    end.

finish(Session, Patterns, Tracer, Formatter) ->
    kill(Tracer),
    ok = sonde_trace_session:close(Session, Patterns),
    kill(Formatter).

%% ---- the tracer

-spec tracer(pid(), term(), [sonde_trace_session:pattern()]) -> no_return().
tracer(Guard, Max, Patterns) ->
    _ = monitor(process, Guard),
    receive
        go -> ok;
        {'DOWN', _, process, Guard, Why} -> exit(Why)
    end,
    try limit(Max)
    catch
        % The session ended with the guard; without sessions, the guard's patterns are still set.
        exit:guard_is_gone ->
            ok = sonde_trace_session:forget(Patterns),
            exit(shutdown)
    end.

limit({Max, Ms}) -> rate(Max, Ms);
limit(Max) -> count(Max).

%% @doc Forwards that many messages.
-spec count(term()) -> no_return().
count(Max) when Max =< 0 ->
    exit(normal);
count(Max) ->
    hand_on(),
    count(Max - 1).

%% @doc Forwards messages until there are more than `Max' in a window of `Ms' milliseconds.
-spec rate(term(), term()) -> no_return().
rate(Max, Ms) ->
    rate(Max, Ms, erlang:monotonic_time(millisecond), Max).

rate(Max, Ms, Since, Left) ->
    hand_on(),
    Now = erlang:monotonic_time(millisecond),
    case Ms - (Now - Since) of
        Over when Over < 0 -> within(Max, Ms, Now, Max - 1);
        _ -> within(Max, Ms, Since, Left - 1)
    end.

within(_Max, _Ms, _Since, Left) when Left < 0 -> exit(normal);
within(Max, Ms, Since, Left) -> rate(Max, Ms, Since, Left).

%% A trace message is never a 'DOWN'.
hand_on() ->
    receive
        {'DOWN', _, process, _, _} -> exit(guard_is_gone);
        Message -> send(Message)
    end.

send(Message) ->
    try ?FORMATTER ! Message of
        _ -> ok
    catch
        error:badarg -> exit(shutdown)
    end.

%% ---- the formatter

%% @doc Writes messages until the tracer is gone.
-spec formatter(pid(), pid(), reference(), fun((tuple()) -> term()), term()) -> no_return().
formatter(Tracer, Parent, Ref, Fun, Io) ->
    Down = monitor(process, Tracer),
    Parent ! {Ref, linked},
    write_all(Down, Fun, Io).

write_all(Down, Fun, Io) ->
    receive
        {'DOWN', Down, process, _, normal} ->
            io:format("Recon tracer rate limit tripped.~n"),
            exit(normal);
        {'DOWN', Down, process, _, Why} ->
            exit(Why);
        Message ->
            ok = write(Io, Fun(Message)),
            write_all(Down, Fun, Io)
    end.

%% Devices get the request that recon sends, {put_chars, unicode, io_lib, format, [Text, []]}: some
%% tools match on it. The result of a formatter is used as a format, as in recon, or, if it is not a
%% valid one, printed as it is.
write(_Io, "") -> ok;
write(Io, Text) ->
    try io_lib:format(Text, []) of
        _ -> io:format(Io, Text, [])
    catch
        error:badarg -> io:format(Io, "~ts", [Text])
    end.
