%% @private Restarts calls that run while another build of the library is loaded. Their scans and
%% looks belong to the old build and are invalid for the new one, which also has to prove the layout
%% first.
-module(sonde_retry).

-export([run/1, instance/0]).

-define(TRIES, 5).

%% @doc Returns the result of `Fun', which calls `sonde_vm:side/0' itself and may run several times.
%% If another library is loaded during each run: `error({native_off, reloaded})'.
-spec run(fun(() -> Result)) -> Result.
run(Fun) ->
    _ = sonde_vm:library(),
    run(Fun, ?TRIES).

run(Fun, Tries) ->
    Before = instance(),
    try Fun()
    catch
        error:badarg:Stack ->
            case instance() of
                Before -> erlang:raise(error, badarg, Stack);
                _ when Tries =:= 1 -> error({native_off, reloaded});
                _ -> run(Fun, Tries - 1)
            end
    end.

%% @doc Returns a different number for each library that is loaded; the same one if the same build
%% is loaded over itself.
-spec instance() -> integer() | none.
instance() ->
    try sonde_nif:instance()
    catch error:_ -> none
    end.
