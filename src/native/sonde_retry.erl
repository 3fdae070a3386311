%% @private
%% Calls in flight while another build of the library is loaded. What they hold, scans and looks, is
%% the other build's, and no argument to this one; and this one has to prove the layout first. So they
%% begin again.
-module(sonde_retry).

-export([run/1, instance/0]).

-define(TRIES, 5).

%% @doc What `Fun' returns, from its beginning, for which it asks `sonde_vm:side/0' itself. It may run
%% several times. If another library comes each time: `error({native_off, reloaded})'.
-spec run(fun(() -> Result)) -> Result.
run(Fun) ->
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

%% @doc Another one for each library that is loaded; the same build loaded over itself is the same.
-spec instance() -> integer() | none.
instance() ->
    try sonde_nif:instance()
    catch error:_ -> none
    end.
