%% Servers that call each other: each request makes one call the next one, or is never answered.
-module(sonde_server_helper).
-behaviour(gen_server).

-export([server/1, init/1, handle_call/3, handle_cast/2]).

%% @doc A server that calls `Next' for each request; with `none' it does not answer.
-spec server(pid() | none) -> pid().
server(Next) ->
    {ok, Pid} = gen_server:start(?MODULE, Next, []),
    Pid.

init(Next) -> {ok, Next}.

handle_call(_, _, none) -> {noreply, none};
handle_call(Request, _, Next) -> {reply, gen_server:call(Next, Request, infinity), Next}.

handle_cast({call, Pid}, State) -> _ = gen_server:call(Pid, go, infinity), {noreply, State}.
