%% @private Decides, in this one place, whether the content of terms may be shown. `{sonde,
%% [{allow_content, false}]}', or any value but `true', forbids it for good: the native library
%% remembers that and withholds content from every caller, also if the environment changes back.
-module(sonde_content).

-export([allowed/0, forbid/0]).

%% @doc Reads the environment. Call {@link sonde_vm:side/0} first: it loads the application, and
%% with it the settings of the command line.
-spec allowed() -> boolean().
allowed() ->
    case application:get_env(sonde_vm, forbidden, false) orelse environment() =/= true of
        true -> forbid(), false;
        false -> native(true)
    end.

%% @doc Forbids content while sonde stays on the node, in any build: each build asks here when it is
%% loaded.
-spec forbid() -> ok.
forbid() ->
    ok = application:set_env(sonde_vm, forbidden, true),
    _ = native(false),
    ok.

%% Without the library nothing else of the environment matters, so the application may be loaded
%% here.
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
