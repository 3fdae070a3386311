%% @private
%% The application starts a watcher if its environment configures one, and nothing otherwise. The
%% calls need no running application: `{sonde, load}' in a release is enough.
-module(sonde_app).

-behaviour(application).
-behaviour(supervisor).

-export([start/2, stop/1, init/1]).

-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Args) ->
    case sonde_watch_opts:read(application:get_env(sonde, watch, [])) of
        {ok, _} -> started(supervisor:start_link({local, sonde_sup}, ?MODULE, []));
        {error, Why} -> {error, Why}
    end.

started({ok, Pid}) -> {ok, Pid};
started({error, Why}) -> {error, Why}.

-spec stop(term()) -> ok.
stop(_State) -> ok.

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    Watchers = [sonde_watch:child_spec(Opts) || {ok, Opts} <- [application:get_env(sonde, watch)]],
    {ok, {#{strategy => one_for_one, intensity => 10, period => 60}, Watchers}}.
