%% @doc Prints function calls as they happen, safely in production: every trace has a limit.
%%
%% <h4>What do you want to see?</h4>
%% <ul>
%% <li>Ten calls of a function, with arguments: ``sonde_trace:calls({Mod, Fun, '_'}, 10)''</li>
%% <li>Also what they return: `sonde_trace:calls({Mod, Fun, return_trace}, 10)'</li>
%% <li>Only calls with certain arguments: `sonde_trace:calls({Mod, Fun, fun([A, _]) when A > 3 ->
%%     return_trace() end}, 10)', typed in a shell</li>
%% <li>Calls from one process: ``sonde_trace:calls({Mod, Fun, '_'}, 10, [{pid, Pid}])''</li>
%% <li>Local calls, and where they return to: ``sonde_trace:calls({Mod, Fun, '_'}, 10, [{scope,
%%     local}, return_to])''</li>
%% <li>At most 10 calls a second, without a limit in time: ``sonde_trace:calls({Mod, Fun, '_'}, {10,
%%     1000})''</li>
%% <li>Stop the trace: `sonde_trace:clear()'</li>
%% </ul>
%%
%% <h4>How it ends</h4>
%% Tracing stops, with its flags and breakpoints, when the limit is reached, at {@link clear/0}, at
%% the next {@link calls/3}, when the process that called {@link calls/3} ends for any reason, when
%% the formatter crashes, or when the process that receives the text ends. The caller is linked to
%% nothing and gets no message.
%%
%% On OTP 27 and later, sonde uses a trace session of its own: it and other tracers do not affect
%% each other. Before OTP 27 the node has a single tracer: {@link calls/3} and {@link clear/0} end
%% all call tracing on the node.
%%
%% <h4>What it costs the node</h4>
%% Each call of a traced function sends a message to one process, with a copy of the arguments
%% (`{args, arity}' leaves them out), until the limit is reached; messages that arrive later are
%% dropped. This process has a high priority, so that it keeps up with the processes that it traces.
-module(sonde_trace).

-export([clear/0, calls/2, calls/3]).
-export([format/1, format_trace_output/1, format_trace_output/2]).
-export([count_tracer/1, rate_tracer/2, formatter/5]).
-export_type([tspec/0, args/0, max/0, options/0, pidspec/0, formatterfun/0]).

-type tspec() :: {Mod :: module(), Fun :: atom(), args()}.
%% `_' stands for all.
-type args() :: '_' | 0..255 | return_trace | MatchSpec :: list() | fun((_) -> term()).
%% All arities; one arity; all arities with their results; a match specification of
%% `erlang:trace_pattern/3'; or a fun that a shell translates into one, as `dbg:fun2ms/1' does.
-type max() :: non_neg_integer() | {non_neg_integer(), Ms :: non_neg_integer()}.
%% The number of messages in all, or in a window of so many milliseconds.
-type pidspec() :: all | existing | new | term().
%% A process is a pid, a registered name, `"<0.1.0>"', `{global, Name}', `{via, Mod, Name}', or the
%% three numbers of a pid.
-type formatterfun() :: fun((tuple()) -> unicode:chardata()).
-type options() :: [{pid, pidspec() | [pidspec()]}
                    | {timestamp, formatter | trace}
                    | {args, args | arity}
                    | {io_server, pid() | atom()}
                    | {formatter, formatterfun()}
                    | return_to | {return_to, boolean()}
                    | {scope, global | local}].

%% The formatter calls these modules, or nearly all code does: all their functions at once are too
%% many.
-define(DANGEROUS, ['_', sonde_trace, recon_trace, io, lists]).

%% ---- on and off

%% @doc Ends sonde's tracing, and returns when it is off. Before OTP 27 this ends all call tracing
%% of the node, whichever process started it; in later releases the tracing of others goes on.
%%
%% ```
%% 1> sonde_trace:clear().
%% ok
%% '''
-spec clear() -> ok.
clear() ->
    ok = sonde_trace_guard:stop(),
    sonde_trace_session:clear().

%% @equiv calls(TSpecs, Max, [])
-spec calls(tspec() | [tspec(), ...], max()) -> Functions :: non_neg_integer().
calls(TSpecs, Max) ->
    calls(TSpecs, Max, []).

%% @doc Prints calls of the functions that match, until there were `Max' of them, or, if `Max' is
%% `{N, Ms}', more than `N' in `Ms' milliseconds; then prints a line about the limit (in recon's
%% words) and stops. Returns how many functions matched: `0' if the module is not loaded. A new call
%% replaces the trace of an earlier call; see {@link clear/0}.
%%
%% A line for a return is a separate message, and counts too. As in recon, the message that exceeds
%% a rate is shown.
%%
%% Options:
%% <ul>
%% <li>`{pid, Which}': the processes to trace; one or a list of `all' (default), `existing', `new',
%%     or a process in any of its notations</li>
%% <li>`{timestamp, formatter | trace}': the time of printing (default), or of the call itself</li>
%% <li>`{args, args | arity}': shows arguments (default), or only their number, which copies
%%     less</li>
%% <li>`{scope, global | local}': traces calls with the name of the module from anywhere (default),
%%     or also local calls, including those of functions that are not exported. A VM without a JIT can end when
%%     a global trace is switched off; there `global' includes local calls of exported functions</li>
%% <li>`return_to', `{return_to, true}': shows where a function returns to; only with `{scope,
%%     local}'</li>
%% <li>`{formatter, Fun}': formats a trace message instead of {@link format/1}. The result `""'
%%     prints nothing. If it crashes, tracing ends; a value that is not a fun with one argument is
%%     not used</li>
%% <li>`{io_server, Device}': where to print (default: the caller's group leader)</li>
%% </ul>
%% Other options are ignored.
%%
%% Raises `function_clause' without a specification, `{dangerous_combo, {Mod, Fun, Args}}' for all
%% functions, or all arities, of modules that printing a line itself calls, `{case_clause, X}' for
%% invalid arguments, `timestamp' or `args', `badarg' for a process that does not exist and for a
%% bad match specification, and exits with `shell_funs_only' for a compiled fun. Raises
%% `setup_failed' if another process sets up a trace at the same time, or if the node is so busy
%% that the setup takes 5 seconds. As in recon, `Max' is not checked: a value that is not a number
%% ends the trace at its first message. A negative number counts as 0.
%%
%% ```
%% 1> sonde_trace:calls({queue, in, '_'}, 2, [{timestamp, trace}]).
%% 1
%% 13:14:34.086078 <0.44.0> queue:in(mymsg, {[],[]})
%%
%% 13:14:34.086310 <0.44.0> queue:in(mymsg, {[mymsg],[]})
%%
%% Recon tracer rate limit tripped.
%% 2> sonde_trace:calls({queue, in, return_trace}, {10, 1000}, [{pid, new}]).
%% '''
-spec calls(tspec() | [tspec(), ...], max(), options()) -> Functions :: non_neg_integer().
calls({_, _, _} = TSpec, Max, Opts) ->
    calls([TSpec], Max, Opts);
calls([_ | _] = TSpecs, Max, Opts) ->
    Formatter = formatter(Opts),
    ok = sonde_trace_guard:stop(),
    Scope = proplists:get_value(scope, Opts, global),
    sonde_trace_guard:start(
      #{processes => processes_of(proplists:get_value(pid, Opts, all)),
        flags => [call | flags(Opts, Scope)],
        patterns => [pattern(TSpec, Scope) || TSpec <- TSpecs],
        max => Max,
        formatter => Formatter,
        io_server => proplists:get_value(io_server, Opts, group_leader())}).

formatter(Opts) ->
    case proplists:get_value(formatter, Opts) of
        Fun when is_function(Fun, 1) -> Fun;
        _ -> fun ?MODULE:format/1
    end.

flags(Opts, Scope) ->
    Timestamp = case proplists:get_value(timestamp, Opts, formatter) of
                    formatter -> [];
                    trace -> [timestamp]
                end,
    Args = case proplists:get_value(args, Opts, args) of
               args -> [];
               arity -> [arity]
           end,
    ReturnTo = proplists:get_bool(return_to, Opts),
    _ = [io:format("Option return_to only works with option {scope, local}~n") || ReturnTo, Scope =/= local],
    Timestamp ++ Args ++ [return_to || ReturnTo, Scope =:= local].

%% A string is one process, any other list is many.
processes_of("<0." ++ _ = Pid) -> [process(Pid)];
processes_of([_ | _] = List) -> [process(P) || P <- List];
processes_of(One) -> [process(One)].

process(Which) when Which =:= all; Which =:= existing; Which =:= new; is_pid(Which) -> Which;
process(Which) -> sonde_lib:term_to_pid(Which).

pattern({Mod, Fun, Args}, Scope) when is_function(Args) ->
    pattern({Mod, Fun, match_spec(Args)}, Scope);
pattern({Mod, Fun, Args}, Scope) ->
    case Args of
        _ when Args =:= '_'; Args =:= [] ->
            _ = [error({dangerous_combo, {Mod, Fun, Args}}) || lists:member(Mod, ?DANGEROUS)],
            {{Mod, Fun, '_'}, true, [Scope]};
        return_trace ->
            {{Mod, Fun, '_'}, [{'_', [], [{return_trace}]}], [Scope]};
        Match when is_list(Match) ->
            {{Mod, Fun, '_'}, Match, [Scope]};
        Arity when Arity >= 0, Arity =< 255 ->
            {{Mod, Fun, Arity}, true, [Scope]}
    end.

%% A fun that was typed in a shell still has its clauses.
match_spec(Fun) ->
    case erl_eval:fun_data(Fun) of
        {fun_data, Bindings, Clauses} ->
            case ms_transform:transform_from_shell(dbg, Clauses, Bindings) of
                {error, [{_, [{_, _, Code} | _]} | _], _} ->
                    io:format("Error: ~ts~n", [ms_transform:format_error(Code)]),
                    {error, transform_error};
                Match ->
                    Match
            end;
        false ->
            exit(shell_funs_only)
    end.

%% ---- text

%% @doc Returns a trace message as text: an empty line, then a line with the time, the process and
%% its action. The time is that of the message, or the present if the message has none. Knows the
%% messages of `erlang:trace/3' about calls, messages, links, names, scheduling and exits; prints
%% other messages as terms. Formats records and maps in arguments and results like {@link
%% format_trace_output/1}.
%%
%% Raises `badarg' or `{case_clause, _}' for a term that is not a trace message.
%%
%% ```
%% 1> io:put_chars(sonde_trace:format({trace, self(), call, {lists, seq, [1, 10]}})).
%%
%% 14:46:21.418951 <0.85.0> lists:seq(1, 10)
%% '''
-spec format(TraceMessage :: tuple()) -> iolist().
format(Message) ->
    sonde_trace_text:message(Message).

%% @doc Returns a term as text. Records have the names of their fields if {@link sonde_rec} knows
%% any records; {@link sonde_map} may hide keys of maps. Use it to write a formatter.
%%
%% ```
%% 1> io:put_chars([sonde_trace:format_trace_output([a, #{b => "c"}]), $\n]).
%% [a,#{b => "c"}]
%% '''
-spec format_trace_output(term()) -> iolist().
format_trace_output(Term) ->
    sonde_term_text:format(Term).

%% @doc Works like {@link format_trace_output/1}; `Records' selects whether tuples may be records.
%%
%% ```
%% 1> io:put_chars([sonde_trace:format_trace_output(false, {state, 1, 2}), $\n]).
%% {state,1,2}
%% '''
-spec format_trace_output(Records :: boolean(), term()) -> iolist().
format_trace_output(Records, Term) ->
    sonde_term_text:format(Records, sonde_map:is_active(), Term).

%% ---- functions that recon exports because it spawns them

%% @doc Counts trace messages: passes `N' of them to the process that is registered as
%% `sonde_trace_formatter', then exits with `normal'. Exported because recon exports it; use {@link
%% calls/3}.
-spec count_tracer(N :: non_neg_integer()) -> no_return().
count_tracer(N) ->
    sonde_trace_guard:count(N).

%% @doc Works like {@link count_tracer/1}, until there are more than `N' messages in a window of
%% `Ms' milliseconds.
-spec rate_tracer(N :: non_neg_integer(), Ms :: non_neg_integer()) -> no_return().
rate_tracer(N, Ms) ->
    sonde_trace_guard:rate(N, Ms).

%% @doc Prints trace messages: sends `{Ref, linked}' to `Parent', then writes the result of `Fun'
%% for each message to `Device', until the process `Tracer' ends. Exported because recon exports it;
%% use {@link calls/3}.
-spec formatter(pid(), Parent :: pid(), reference(), formatterfun(), Device :: pid() | atom()) ->
          no_return().
formatter(Tracer, Parent, Ref, Fun, Device) ->
    sonde_trace_guard:formatter(Tracer, Parent, Ref, Fun, Device).
