%% @private
%% Series of samples: maps with their time, `at', in ms.
-module(sonde_series).

-export([grown/2, is_rising/3, rises/2, rate/2, elapsed/1, never_rests/1, doubles/3]).

-type samples() :: [#{at := integer(), atom() => term()}, ...].

-define(DAY_MS, 86400000).

%% @doc The last value less the first.
-spec grown(atom(), [map(), ...]) -> number().
grown(Key, Samples) ->
    maps:get(Key, lists:last(Samples)) - maps:get(Key, hd(Samples)).

%% @doc It rises by `Least' in all and in most of the steps, and falls in none of them: a value that
%% goes up and down falls in some step.
-spec is_rising(atom(), [map()], integer()) -> boolean().
is_rising(Key, Samples, Least) ->
    rises([Value || #{Key := Value} <- Samples], Least).

%% @doc The same of values.
-spec rises([integer()], integer()) -> boolean().
rises(Values, Least) ->
    Steps = steps(Values),
    length(Values) >= 4 andalso lists:last(Values) - hd(Values) >= Least
        andalso not lists:any(fun(Step) -> Step < 0 end, Steps)
        andalso 2 * length([up || Step <- Steps, Step > 0]) > length(Steps).

steps([A, B | Rest]) -> [B - A | steps([B | Rest])];
steps(_) -> [].

%% @doc The growth in a second.
-spec rate(atom(), samples()) -> integer().
rate(Key, Samples) ->
    grown(Key, Samples) * 1000 div elapsed(Samples).

%% @doc The ms between the first sample and the last, at least 1.
-spec elapsed(samples()) -> number().
elapsed(Samples) -> max(1, grown(at, Samples)).

%% @doc It rises in each step.
-spec never_rests([integer()]) -> boolean().
never_rests(Values) ->
    length(Values) >= 6 andalso lists:all(fun(Step) -> Step > 0 end, steps(Values)).

%% @doc At this rate, the bytes double within a day.
-spec doubles(integer(), non_neg_integer(), samples()) -> boolean().
doubles(Grown, Bytes, Samples) ->
    Grown * ?DAY_MS div elapsed(Samples) >= Bytes.
