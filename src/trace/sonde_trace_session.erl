%% @private
%% Where traces are set: in a session of our own where the release has sessions (27 and later), so
%% that nobody else's tracing is touched; before that in the node's only tracing.
-module(sonde_trace_session).

-export([open/1, close/2, forget/1, set/2, trace/3, spare/2, clear/0]).
-export_type([session/0, pattern/0]).

-opaque session() :: {module(), term()}.
%% The module that traces is data: it does not exist everywhere.
-type pattern() :: {Function :: tuple(), Match :: true | list(), Scope :: [atom()]}.

-define(EVERYTHING, {'_', '_', '_'}).

%% @doc A session whose messages go to `Tracer'. It lasts no longer than the process that holds it.
-spec open(pid()) -> session().
open(Tracer) ->
    case module() of
        erlang -> {erlang, Tracer};
        Module -> {Module, Module:session_create(sonde_trace, Tracer, [])}
    end.

module() ->
    Loaded = code:ensure_loaded(trace),
    case Loaded =:= {module, trace} andalso erlang:function_exported(trace, session_create, 3) of
        true -> trace;
        false -> erlang
    end.

%% @doc Nothing of ours is traced any more. In the node's only tracing the processes' flags are not
%% ours to take away, they may be somebody else's by now: they end with the tracer, which must be
%% dead.
-spec close(session(), [pattern()]) -> ok.
close({erlang, _Tracer}, Patterns) ->
    _ = [unset(Function, Scope) || {Function, _, Scope} <- Patterns],
    ok;
close({Module, Session}, _Patterns) ->
    _ = Module:session_destroy(Session),
    ok.

%% What could not be set, because it is no pattern, cannot be unset.
unset(Function, Scope) ->
    try erlang:trace_pattern(Function, false, Scope)
    catch error:badarg -> 0
    end.

%% @doc As {@link close/2}, when the session's holder is gone.
-spec forget([pattern()]) -> ok.
forget(Patterns) ->
    case module() of
        erlang -> close({erlang, none}, Patterns);
        _ -> ok
    end.

%% @doc How many functions match.
-spec set(session(), pattern()) -> non_neg_integer().
set({erlang, _Tracer}, {Function, Match, Scope}) ->
    erlang:trace_pattern(Function, Match, Scope);
set({Module, Session}, {Function, Match, Scope}) ->
    Module:function(Session, Function, Match, Scope).

%% @doc Sets flags on a process, or on `all', `new', `existing'.
-spec trace(session(), pid() | atom(), [atom()]) -> ok.
trace({erlang, Tracer}, Who, Flags) ->
    _ = erlang:trace(Who, true, [{tracer, Tracer} | Flags]),
    ok;
trace({Module, Session}, Who, Flags) ->
    _ = Module:process(Session, Who, true, Flags),
    ok.

%% @doc This process is not traced.
-spec spare(session(), pid()) -> ok.
spare({erlang, _Tracer}, Pid) ->
    _ = erlang:trace(Pid, false, [all]),
    ok;
spare({Module, Session}, Pid) ->
    _ = Module:process(Session, Pid, false, [all]),
    ok.

%% @doc Where there are no sessions: ends all call tracing on the node, whoever began it.
-spec clear() -> ok.
clear() ->
    case module() of
        erlang ->
            _ = erlang:trace(all, false, [all]),
            _ = erlang:trace_pattern(?EVERYTHING, false, [local, meta, call_count, call_time]),
            _ = erlang:trace_pattern(?EVERYTHING, false, []),
            ok;
        _ ->
            ok
    end.
