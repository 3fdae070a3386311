%% @doc recon's tracing, answered by {@link sonde_trace}: each function is the one of the same name
%% there, and `h(sonde_trace, calls).' tells what it does.
-module(recon_trace).

%% sonde:remote_load/2 loads these together: code that finds one module of recon on a node expects
%% the others there.
-needs([sonde, recon, recon_lib, recon_alloc, recon_map, recon_rec, recon_trace]).

-export([calls/2, calls/3, clear/0, format/1, format_trace_output/1, format_trace_output/2]).

-export_type([tspec/0, max_traces/0, max_rate/0, options/0, num_matches/0]).

-type matchspec() :: [{[term()] | '_', [term()], [term()]}].
-type tspec() :: {module() | '_', atom() | '_',
                  '_' | arity() | return_trace | matchspec() | fun((term()) -> term())}.
-type max_traces() :: non_neg_integer().
-type max_rate() :: {max_traces(), Ms :: pos_integer()}.
-type options() :: [{atom(), term()} | return_to].
-type num_matches() :: non_neg_integer().

-spec calls(tspec() | [tspec(), ...], max_traces() | max_rate()) -> num_matches().
calls(Specs, Max) -> sonde_trace:calls(Specs, Max).

-spec calls(tspec() | [tspec(), ...], max_traces() | max_rate(), options()) -> num_matches().
calls(Specs, Max, Opts) -> sonde_trace:calls(Specs, Max, Opts).

-spec clear() -> ok.
clear() -> sonde_trace:clear().

-spec format(TraceMsg :: tuple()) -> iolist().
format(TraceMsg) -> sonde_trace:format(TraceMsg).

-spec format_trace_output(term()) -> iolist().
format_trace_output(Term) -> sonde_trace:format_trace_output(Term).

-spec format_trace_output(boolean(), term()) -> iolist().
format_trace_output(IsRecords, Term) -> sonde_trace:format_trace_output(IsRecords, Term).
