%% @private
%% Handles SIGTERM for the command: OTP's own handler would stop the node in order, which takes a
%% second, waits for a connection that is being set up, and exits with 0.
-module(sonde_cli_signal).
-behaviour(gen_event).

-export([tell/1]).
-export([init/1, handle_event/2, handle_call/2]).

%% @doc From now on, SIGTERM sends the message `sigterm' to that process.
-spec tell(pid()) -> ok.
tell(Pid) ->
    ok = gen_event:swap_handler(erl_signal_server, {erl_signal_handler, []}, {?MODULE, Pid}).

-spec init({pid(), term()}) -> {ok, pid()}.
init({Pid, _}) -> {ok, Pid}.

-spec handle_event(atom(), pid()) -> {ok, pid()}.
handle_event(sigterm, Pid) ->
    Pid ! sigterm,
    {ok, Pid};
handle_event(Signal, Pid) ->
    _ = erl_signal_handler:handle_event(Signal, []),
    {ok, Pid}.

-spec handle_call(term(), pid()) -> {ok, ok, pid()}.
handle_call(_, Pid) -> {ok, ok, Pid}.
