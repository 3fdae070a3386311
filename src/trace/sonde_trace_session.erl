%% @private
%% Where traces are set: from OTP 27 on in a trace session of our own, so that other tracing is not
%% touched; up to OTP 26 in the node's only tracing.
-module(sonde_trace_session).

-export([open/1, close/2, forget/1, set/2, trace/3, spare/2, clear/0]).
-export_type([session/0, pattern/0]).

-opaque session() :: {module(), term()}.
%% The tracing module is data, because it does not exist in every release.
-type pattern() :: {Function :: tuple(), Match :: true | list(), Scope :: [atom()]}.

-define(EVERYTHING, {'_', '_', '_'}).

%% @doc Opens a session that sends its messages to `Tracer'. It ends with the process that holds it.
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

%% @doc Ends our tracing. In the node's only tracing, the flags of processes must not be removed, as
%% they may belong to another tracer by now: ours end with the tracer, which must be dead.
-spec close(session(), [pattern()]) -> ok.
close({erlang, _Tracer}, Patterns) ->
    _ = [unset(Function, Scope) || {Function, _, Scope} <- Patterns],
    ok;
close({Module, Session}, _Patterns) ->
    _ = Module:session_destroy(Session),
    ok.

%% A pattern that is not valid could not be set, and cannot be unset.
unset(Function, Scope) ->
    try [erlang:trace_pattern(One, false, Where) || {One, Where} <- safe(Function, Scope)]
    catch error:badarg -> 0
    end.

%% @doc Like {@link close/2}, for a session that lost its holder.
-spec forget([pattern()]) -> ok.
forget(Patterns) ->
    case module() of
        erlang -> close({erlang, none}, Patterns);
        _ -> ok
    end.

%% @doc Sets a pattern and returns how many functions match.
-spec set(session(), pattern()) -> non_neg_integer().
set(Session, {Function, Match, Scope}) ->
    set_all(Session, Match, safe(Function, Scope), 0).

set_all(_, _, [], N) -> N;
set_all(Session, Match, [{Function, Scope} | Others], N) ->
    set_all(Session, Match, Others, N + set(Session, Function, Match, Scope)).

set({erlang, _Tracer}, Function, Match, Scope) ->
    erlang:trace_pattern(Function, Match, Scope);
set({Module, Session}, Function, Match, Scope) ->
    case Module:function(Session, Function, Match, Scope) of
        N when is_integer(N), N >= 0 -> N
    end.

%% The interpreter can end when a trace of global calls is switched off: erts_clear_export_break writes 0 over an
%% instruction at which a process may wait for its turn. Local calls are traced elsewhere, so there all calls of
%% the same functions are traced.
safe(Function, Scope) ->
    Exported = case lists:member(Scope, [[], [global]]) andalso erlang:system_info(emu_flavor) =:= emu of
                   true -> [{One, [local]} || One <- exported(Function)];
                   false -> []
               end,
    case Exported of
        [] -> [{Function, Scope}];
        _ -> Exported
    end.

exported({'_', '_', '_'}) -> [One || {M, _} <- code:all_loaded(), One <- exported({M, '_', '_'})];
exported({M, '_', '_'}) -> [{M, F, A} || {F, A} <- exports(M)];
exported({M, F, '_'}) -> [{M, F, A} || {Name, A} <- exports(M), Name =:= F];
exported({M, F, A}) -> [{M, F, A} || One <- exports(M), One =:= {F, A}];
exported(_) -> [].

exports(M) ->
    try erlang:module_loaded(M) andalso M:module_info(exports) of
        false -> [];
        Exports -> Exports
    catch
        error:undef -> []
    end.

%% @doc Sets flags on a process, or on `all', `new', `existing'.
-spec trace(session(), pid() | atom(), [atom()]) -> ok.
trace({erlang, Tracer}, Who, Flags) ->
    _ = erlang:trace(Who, true, [{tracer, Tracer} | Flags]),
    ok;
trace({Module, Session}, Who, Flags) ->
    _ = Module:process(Session, Who, true, Flags),
    ok.

%% @doc Excludes this process from the trace.
-spec spare(session(), pid()) -> ok.
spare({erlang, _Tracer}, Pid) ->
    _ = erlang:trace(Pid, false, [all]),
    ok;
spare({Module, Session}, Pid) ->
    _ = Module:process(Session, Pid, false, [all]),
    ok.

%% @doc Without sessions: ends all call tracing on the node, whatever began it.
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
