%% @private
%% Reads the map of options that our calls take as the last argument.
-module(sonde_opts).

-export([read/2, flag/1, count/1, positive/1, is_count/1, is_positive/1]).
-export_type([known/0, option/0]).

-type option() :: {Default :: term(), IsGood :: fun((term()) -> boolean())}.
-type known() :: #{atom() => option()}.

%% @doc `Known' says for each key the default and which values are good. Anything else is badarg.
-spec read(term(), known()) -> #{atom() => term()}.
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

-spec flag(boolean()) -> option().
flag(Default) -> {Default, fun is_boolean/1}.

-spec count(non_neg_integer()) -> option().
count(Default) -> {Default, fun is_count/1}.

-spec positive(pos_integer()) -> option().
positive(Default) -> {Default, fun is_positive/1}.

-spec is_count(term()) -> boolean().
is_count(N) -> is_integer(N) andalso N >= 0.

-spec is_positive(term()) -> boolean().
is_positive(N) -> is_integer(N) andalso N > 0.
