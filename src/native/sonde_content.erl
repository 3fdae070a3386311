%% @private
%% Whether the content of terms may be shown. The one place that decides: `{sonde, [{allow_content,
%% false}]}', or anything but `true', forbids it for good. The native library remembers that and gives
%% none any more, whoever calls it; setting the environment back changes nothing.
-module(sonde_content).

-export([allowed/0, forbid/0]).

%% @doc Reads the environment. Call {@link sonde_vm:side/0} first: it loads the application, and with it
%% what the command line says.
-spec allowed() -> boolean().
allowed() ->
    case application:get_env(sonde_vm, forbidden, false) orelse environment() =/= true of
        true -> forbid(), false;
        false -> native(true)
    end.

%% @doc For as long as sonde stays on the node, whichever build: each one that is loaded asks here first.
-spec forbid() -> ok.
forbid() ->
    ok = application:set_env(sonde_vm, forbidden, true),
    _ = native(false),
    ok.

%% Without the library nothing else of the environment matters, so the application may be loaded here.
environment() ->
    case application:get_env(sonde, allow_content) of
        {ok, Value} -> Value;
        undefined ->
            _ = [application:load(sonde) || sonde_nif:loaded() =/= true],
            application:get_env(sonde, allow_content, true)
    end.

native(Allowed) ->
    case sonde_nif:loaded() of
        true -> sonde_nif:content(Allowed);
        _ -> Allowed
    end.
