%% @private
%% The map of options that a call of ours takes as its last argument.
-module(sonde_opts).

-export([read/2]).

%% @doc `Known' says for each key the default and which values are good. Anything else is badarg.
-spec read(term(), #{atom() => {term(), fun((term()) -> boolean())}}) -> #{atom() => term()}.
read(Given, Known) when is_map(Given) ->
    Defaults = maps:map(fun(_, {Default, _}) -> Default end, Known),
    maps:fold(fun(Key, Value, Opts) ->
                      case Known of
                          #{Key := {_, Good}} -> Good(Value) orelse error(badarg);
                          _ -> error(badarg)
                      end,
                      Opts#{Key => Value}
              end, Defaults, Given);
read(_, _) ->
    error(badarg).
