%% @private
%% Series of samples: maps with their time, `at', in ms.
-module(sonde_series).

-export([grown/2, looks/2, is_rising/4, rises/2, rises/3, goes_on/2, rate/2, elapsed/1, never_rests/1,
         stays/2, doubles/3]).
-export_type([again/0]).

%% When the second look began, if there was one.
-type again() :: integer() | none.
-type samples() :: [#{at := integer(), atom() => term()}, ...].

-define(DAY_MS, 86400000).
-define(KEPT, 4).             % samples

%% @doc The last value less the first.
-spec grown(atom(), [map(), ...]) -> number().
grown(Key, Samples) ->
    maps:get(Key, lists:last(Samples)) - maps:get(Key, hd(Samples)).

%% @doc The samples of the first look, and those of the second, which began at `Again'. If there is only
%% one look, that is the first.
-spec looks([Sample], again()) -> {First :: [Sample], Second :: [Sample]} when Sample :: #{at := integer(), _ => _}.
looks(Samples, none) ->
    {Samples, []};
looks(Samples, Again) ->
    case lists:splitwith(fun(#{at := At}) -> At < Again end, Samples) of
        {[], Second} -> {Second, []};
        Both -> Both
    end.

%% @doc It rises by `Least' in the first look, and goes on to rise in the second.
-spec is_rising(atom(), [map()], integer(), again()) -> boolean().
is_rising(Key, Samples, Least, Again) ->
    {First, Second} = looks(Samples, Again),
    rises(values(Key, First), Least, values(Key, Second)).

values(Key, Samples) -> [Value || #{Key := Value} <- Samples].

%% @doc The same of the values of both looks.
-spec rises([number()], integer(), [number()]) -> boolean().
rises(First, Least, Second) ->
    rises(First, Least) andalso goes_on(lists:last(First), Second).

%% @doc The values rise by `Least' in all and in most of the steps, and fall in none of them: a value that
%% goes up and down falls in some step.
-spec rises([number()], integer()) -> boolean().
rises(Values, Least) ->
    Steps = steps(Values),
    length(Values) >= 4 andalso lists:last(Values) - hd(Values) >= Least
        andalso not lists:any(fun(Step) -> Step < 0 end, Steps)
        andalso 2 * length([up || Step <- Steps, Step > 0]) > length(Steps).

%% @doc Of many values that go up and down, some rise in all of a few steps by chance. Those are seldom
%% above that again: most values of the second look must be.
-spec goes_on(number(), [number()]) -> boolean().
goes_on(_, []) -> true;
goes_on(Last, Second) ->
    2 * length([above || Value <- Second, Value > Last]) > length(Second).

steps([A, B | Rest]) -> [B - A | steps([B | Rest])];
steps(_) -> [].

%% @doc The growth in a second.
-spec rate(atom(), samples()) -> integer().
rate(Key, Samples) ->
    grown(Key, Samples) * 1000 div elapsed(Samples).

%% @doc The ms between the first sample and the last, at least 1.
-spec elapsed(samples()) -> number().
elapsed(Samples) -> max(1, grown(at, Samples)).

%% @doc The value is the same in all of at least four samples, for example of the oldest message.
-spec stays(atom(), [map()]) -> boolean().
stays(Key, Samples) ->
    length(Samples) >= ?KEPT
        andalso case lists:usort([maps:get(Key, Sample, none) || Sample <- Samples]) of
                    [none] -> false;
                    [_] -> true;
                    _ -> false
                end.

%% @doc It rises in each step.
-spec never_rests([integer()]) -> boolean().
never_rests(Values) ->
    length(Values) >= 6 andalso lists:all(fun(Step) -> Step > 0 end, steps(Values)).

%% @doc At this rate, the bytes double within a day.
-spec doubles(integer(), non_neg_integer(), samples()) -> boolean().
doubles(Grown, Bytes, Samples) ->
    Grown * ?DAY_MS div elapsed(Samples) >= Bytes.
