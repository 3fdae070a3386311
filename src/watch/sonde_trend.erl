%% @private
%% Does a value grow for hours, despite garbage collections? A series keeps only the least value (or
%% the mean) of every quarter of an hour, for three days. It grows only if nearly all pairs of these
%% are in rising order (Kendall's tau), at a slope that no outlier moves (Theil and Sen), if the growth
%% continues as it began (a cache that fills up slows down), and if the load of the node does not
%% explain it: memory in use follows the load, a leak is the sum of it. Over one to three days, which
%% show slower leaks under more noise, it must also be straighter than a few steps are.
-module(sonde_trend).

-export([new/1, add/3, blocks/1, judge/3, index/1]).
-export_type([series/0, kind/0, finding/0, rule/0]).

-type kind() :: least | mean.
%% The block that is being filled, its value (of a mean: sum and number), and those before it,
%% newest first.
-opaque series() :: {kind(), integer() | undefined, term(), [block()], non_neg_integer()}.
-type block() :: {Index :: integer(), Value :: number()}.
%% `growth': the least growth that counts; `share': the same as a share of the level that it began
%% with; `hours': how long it must have lasted; `bins': what counts of several blocks, the least where
%% collections take longer than a block to reach the floor, else the mean.
-type rule() :: #{growth := number(), share := number(), hours := 5 | 12, bins := kind()}.
-type finding() :: #{per_hour := number(), growth := number(), from := number(), hours := number(),
                     tau := float()}.

-define(BLOCK_MS, 900000).
-define(DAY, 96).
%% Three days, and the load before them.
-define(KEPT, 296).
%% In blocks: five hours, half a day, a day; how many of them may be missing; the least tau.
-define(WINDOWS, [{20, 1, 0.92}, {48, 4, 0.8}, {96, 8, 0.8}]).
-define(Z, 4.0).
%% The least slope of the second half, as a share of the first one's: a value that fills up with a
%% time constant of 4.9 hours has less in the shortest window.
-define(GOES_ON, 0.75).
-define(LATE_TAU, 0.75).
%% The least slope of the last hour and a half, as a share of the whole slope. The load counts from
%% two hours before the window: memory in use may follow it late.
-define(LAST, 6).
-define(STILL, 0.35).
-define(LATE, 8).
%% Below that, the load is only noise, and a value that follows it would be as noisy.
-define(LOAD_TAU, 0.4).
%% Memory may grow by more than the load that causes it.
-define(ELASTIC, 1.3).
%% One, two and three days: so many bins of so many blocks, and their least tau.
-define(BINS, 24).
-define(SCALES, [4, 8, 12]).
-define(BINS_TAU, 0.8).
%% The load that goes with a value may be so many blocks older.
-define(LAGS, [0, 2, 4]).
%% So many bins must be above those a day before, and by this part of what the slope tells.
-define(ABOVE, 0.75).
-define(BY, 0.5).
-define(NEW, 0.25).
%% A value that falls at once does so within this number of blocks: a mean shows all of it in the second one.
-define(AT_ONCE, 2).
%% Growth that this many steps fit as well as a line is not reported.
-define(STEPS, 3).

%% @doc `least': for values that collections reduce; `mean': for values that are noise about a
%% level.
-spec new(kind()) -> series().
new(Kind) -> {Kind, undefined, undefined, [], 0}.

%% @doc Which block a time is in.
-spec index(integer()) -> integer().
index(AtMs) -> AtMs div ?BLOCK_MS.

%% @doc Values come in the order of their times, in milliseconds of one clock.
-spec add(integer(), number(), series()) -> series().
add(At, Value, {Kind, Index, Now, Blocks, N}) ->
    case At div ?BLOCK_MS of
        Index when Kind =:= least, Value >= Now -> {Kind, Index, Now, Blocks, N};
        Index -> {Kind, Index, more(Kind, Value, Now), Blocks, N};
        New when Index =:= undefined -> {Kind, New, first(Kind, Value), Blocks, N};
        New when N >= ?KEPT + ?DAY ->
            {Kind, New, first(Kind, Value),
             [{Index, value(Kind, Now)} | lists:sublist(Blocks, ?KEPT)], ?KEPT + 1};
        New -> {Kind, New, first(Kind, Value), [{Index, value(Kind, Now)} | Blocks], N + 1}
    end.

first(least, Value) -> Value;
first(mean, Value) -> {Value, 1}.

more(least, Value, _Larger) -> Value;
more(mean, Value, {Sum, N}) -> {Sum + Value, N + 1}.

value(least, Value) -> Value;
value(mean, {Sum, N}) -> Sum / N.

%% @doc The blocks that are full, newest first.
-spec blocks(series()) -> [block()].
blocks({_, _, _, Blocks, _}) -> Blocks.

%% @doc Whether it grows, beside the load in the same blocks.
-spec judge(series(), series(), rule()) -> {grows, finding()} | none.
judge({_, _, _, [{Newest, _} | _] = Blocks, _}, Load, #{hours := Hours} = Rule) ->
    Windows = [Window || {Length, _, _} = Window <- ?WINDOWS,
                         Length * ?BLOCK_MS >= Hours * 3600000],
    case judge(Windows, Newest, Blocks, blocks(Load), Rule) of
        none -> days(?SCALES, Newest, Blocks, blocks(Load), Rule);
        Finding -> Finding
    end;
judge(_, _, _) ->
    none.

judge([{Length, Missing, Tau} | Windows], Newest, Blocks, Load, Rule) ->
    Points = since(Newest - Length, Blocks),
    N = length(Points),
    case N >= Length - Missing andalso grows(Points, N, Tau, Load, Blocks, Rule) of
        {grows, _} = Finding -> Finding;
        false -> judge(Windows, Newest, Blocks, Load, Rule)
    end;
judge([], _, _, _, _) ->
    none.

%% Oldest first.
since(Before, Blocks) ->
    lists:reverse(lists:takewhile(fun({Index, _}) -> Index > Before end, Blocks)).

grows([{First, _} | _] = Points, N, LeastTau, Load, Blocks, #{growth := Least, share := Share}) ->
    {Early, Late} = lists:split(N div 2, Points),
    From = least(Early),
    Needed = max(Least, Share * From),
    case least(Late) - From >= Needed / 4 andalso rises(Points, N div 4) of
        true ->
            {Slope, Tau, Z} = kendall(Points, N),
            {Last, _} = lists:last(Points),
            Growth = Slope * (Last - First),
            Goes = Tau >= LeastTau andalso Z >= ?Z
                andalso Growth - explained(From, load(First, Last, Load), Last) >= Needed
                andalso goes_on(Slope, slope(Early), Late, lists:nthtail(N - ?LAST, Points))
                andalso is_not_daily(Points, N, Growth, Blocks),
            Goes andalso {grows, #{per_hour => Slope * 3600000 / ?BLOCK_MS, growth => Growth,
                                   from => From, tau => Tau,
                                   hours => (Last - First) * ?BLOCK_MS / 3600000}};
        false ->
            false
    end.

%% A series that grows rises from each quarter to the next. Most series do not, and need no further
%% computation.
rises(Points, Quarter) ->
    {First, Rest} = lists:split(Quarter, Points),
    length(Rest) < Quarter
        orelse begin
                   {Second, _} = lists:split(Quarter, Rest),
                   middle(First) < middle(Second) andalso rises(Rest, Quarter)
               end.

middle(Points) -> median([Value || {_, Value} <- Points]).

least(Points) -> lists:min([Value || {_, Value} <- Points]).

goes_on(Slope, Before, Late, Last) ->
    {After, Tau, _} = kendall(Late, length(Late)),
    Tau >= ?LATE_TAU andalso After >= ?GOES_ON * Before andalso slope(Last) >= ?STILL * Slope.

%% What grows at this time of each day is where it was a day before. Half of a growth that is new is
%% above that in the middle of the window. A value below it may be that of a quiet day, which grows
%% less, or of a leak that was cleared.
is_not_daily([{First, _} | _] = Points, N, Growth, Blocks) ->
    Values = maps:from_list(Blocks),
    Differences = differences(Points, Values, ?DAY),
    2 * length(Differences) < N
        orelse begin
                   Above = median(Differences),
                   Above >= ?NEW * Growth
                       orelse Above =< -?NEW * Growth
                              andalso was_cleared(since(First - ?DAY, Blocks), ?NEW * Growth, Blocks, Values)
               end.

%% It fell at once, and to below all values of a whole day. A rhythm falls slowly, and a job that clears
%% something each day leaves as much as it left the day before.
was_cleared(Points, Least, Blocks, Values) ->
    Falls = [{Value - map_get(At - ?AT_ONCE, Values), At, Value}
             || {At, Value} <- Points, is_map_key(At - ?AT_ONCE, Values)],
    Falls =/= []
        andalso begin
                    {_, At, Value} = lists:min(Falls),
                    Day = [V || {I, V} <- Blocks, I =< At - ?AT_ONCE, I > At - ?AT_ONCE - ?DAY],
                    2 * length(Day) >= ?DAY andalso lists:min(Day) - Value >= Least
                end.

load(First, Last, Load) ->
    since(First - 1 - ?LATE, [Point || {Index, _} = Point <- Load, Index =< Last]).

%% The growth that the load of the node explains.
explained(Level, Load, Last) ->
    case Load of
        [{Begin, _}, _ | _] = Points ->
            {Slope, Tau, _} = kendall(Points, length(Points)),
            Rise = Slope * (Last - Begin),
            Before = middle(Points) - Rise / 2,
            case Tau > ?LOAD_TAU of
                true when Before > 0 -> ?ELASTIC * Level * Rise / Before;
                true -> infinite(Level);
                false -> 0
            end;
        _ ->
            0
    end.

%% The node was idle before: the load may explain any growth.
infinite(Level) -> 1000 * Level + 1.0e15.

%% ---- one to three days, in bins

days([Size | Sizes], Newest, Blocks, Load, #{bins := Kind} = Rule) ->
    Bins = bins(Kind, Size, Newest, Blocks),
    N = length(Bins),
    case N >= ?BINS - 1 andalso grows_for_days(Bins, N, Size, Newest, Load, Rule) of
        {grows, _} = Finding -> Finding;
        false -> days(Sizes, Newest, Blocks, Load, Rule)
    end;
days([], _, _, _, _) ->
    none.

%% Oldest first. A bin has no value if most of its blocks are missing.
bins(Kind, Size, Newest, Blocks) -> bins(Kind, Size, ?BINS - 1, Newest, Blocks, []).

bins(_, _, -1, _, _, Bins) ->
    Bins;
bins(Kind, Size, At, Newest, Blocks, Bins) ->
    {In, Before} = lists:splitwith(fun({Index, _}) -> Index > Newest - Size end,
                                   lists:dropwhile(fun({Index, _}) -> Index > Newest end, Blocks)),
    bins(Kind, Size, At - 1, Newest - Size, Before,
         [{At, joined(Kind, [Value || {_, Value} <- In])} || 2 * length(In) >= Size] ++ Bins).

joined(least, Values) -> lists:min(Values);
joined(mean, Values) -> lists:sum(Values) / length(Values).

%% A daily rhythm is taken out only where there is a day to compare with: within one day, a step at
%% night looks like a trend beside it.
grows_for_days(Raw, N, Size, Newest, Load, Rule) ->
    Day = ?DAY div Size,
    case differences(Raw, maps:from_list(Raw), Day) of
        [] ->
            goes_straight(Raw, Raw, N, Size, bins(mean, Size, Newest, Load), Rule);
        Differences ->
            Above = length([up || Difference <- Differences, Difference > 0]),
            Above >= ?ABOVE * length(Differences)
                andalso begin
                            [Now | _] = Loads = [bins(mean, Size, Newest - Lag, Load) || Lag <- ?LAGS],
                            Calm = without_load(Raw, Loads),
                            median(Differences) >= ?BY * Day * slope(Calm)
                                andalso goes_straight(Calm, Raw, N, Size, Now, Rule)
                        end
    end.

%% From the values of so much earlier.
differences(Points, Values, Earlier) ->
    [Value - map_get(At - Earlier, Values) || {At, Value} <- Points, is_map_key(At - Earlier, Values)].

%% Values without the load show whether it grows. Levels are those of the values themselves.
goes_straight([{First, _} | _] = Bins, Raw, N, Size, Load, #{growth := Least, share := Share}) ->
    {Early, Late} = lists:split(N div 2, Bins),
    From = max(0, least(lists:sublist(Raw, N div 2))),
    Needed = max(Least, Share * From),
    case least(Late) - least(Early) >= Needed / 4 of
        true ->
            {Slope, Tau, Z} = kendall(Bins, N),
            {Last, _} = lists:last(Bins),
            Growth = Slope * (Last - First),
            Goes = Tau >= ?BINS_TAU andalso Z >= ?Z
                andalso Growth - explained(From, Load, Last) >= Needed
                andalso slope(Late) >= ?GOES_ON * slope(Early)
                andalso slope(lists:nthtail(N - N div 4, Bins)) >= ?STILL * Slope
                andalso is_straighter(spread(Slope, Bins), Bins, Raw),
            Goes andalso {grows, #{per_hour => Slope * 3600000 / (Size * ?BLOCK_MS), growth => Growth,
                                   from => From, tau => Tau,
                                   hours => (Last - First) * Size * ?BLOCK_MS / 3600000}};
        false ->
            false
    end.

%% The line must fit better than steps, with the load and without it.
is_straighter(Line, Bins, Raw) ->
    Line < stairs(Bins) andalso (Raw =:= Bins orelse Line < stairs(Raw)).

%% The squared distances from a line of that slope.
spread(Slope, Bins) ->
    squares([Value - Slope * At || {At, Value} <- Bins]).

squares(Values) ->
    Mean = lists:sum(Values) / length(Values),
    lists:sum([(Value - Mean) * (Value - Mean) || Value <- Values]).

%% The squared distances from the function of so many steps that fits best. Dynamic programming: the
%% best fit of J bins with one more step is the best fit of the first I bins, then one level.
stairs(Bins) ->
    Values = [Value || {_, Value} <- Bins],
    Mean = lists:sum(Values) / length(Values),
    Sums = list_to_tuple([{0, 0} | sums([Value - Mean || Value <- Values], 0, 0)]),
    Flat = [{J, level(0, J, Sums)} || J <- lists:seq(1, length(Values))],
    {_, Best} = lists:last(lists:foldl(fun(_, Fits) -> step(Fits, Sums) end, Flat,
                                       lists:seq(1, ?STEPS))),
    Best.

sums([V | Values], Sum, Squares) ->
    [{Sum + V, Squares + V * V} | sums(Values, Sum + V, Squares + V * V)];
sums([], _, _) ->
    [].

step(Fits, Sums) ->
    [{J, lists:min([Fit | [Before + level(I, J, Sums) || {I, Before} <- Fits, I < J]])}
     || {J, Fit} <- Fits].

level(I, J, Sums) ->
    {A, SquaresA} = element(I + 1, Sums),
    {B, SquaresB} = element(J + 1, Sums),
    SquaresB - SquaresA - (B - A) * (B - A) / (J - I).

%% The values less what goes with the load, of the lags the one that leaves least: the least squares
%% of time and load together, so that the growth is not taken out with it.
without_load(Bins, Loads) ->
    case lists:append([fit(Bins, Load) || Load <- Loads]) of
        [] -> Bins;
        Fits -> element(2, lists:min(Fits))
    end.

fit(Bins, Load) ->
    Loads = maps:from_list(Load),
    case lists:all(fun({At, _}) -> is_map_key(At, Loads) end, Bins) of
        true -> fit_all([{At, Value, map_get(At, Loads)} || {At, Value} <- Bins]);
        false -> []
    end.

fit_all(Rows) ->
    N = length(Rows),
    {Ts, Vs, Ls} = lists:unzip3(Rows),
    {MeanT, MeanV, MeanL} = {lists:sum(Ts) / N, lists:sum(Vs) / N, lists:sum(Ls) / N},
    {T, V, L} = {[X - MeanT || X <- Ts], [X - MeanV || X <- Vs], [X - MeanL || X <- Ls]},
    {TT, TL, LL, TV, LV} = {dot(T, T), dot(T, L), dot(L, L), dot(T, V), dot(L, V)},
    Det = TT * LL - TL * TL,
    %% A load that is flat or goes with the time explains nothing here.
    case Det > 0.01 * TT * LL of
        true ->
            PerLoad = max(0, (LV * TT - TV * TL) / Det),
            PerTime = (TV - PerLoad * TL) / TT,
            [{dot(V, V) - PerLoad * LV - PerTime * TV,
              [{At, Value - PerLoad * (Of - MeanL)} || {At, Value, Of} <- Rows]}];
        false ->
            []
    end.

dot([A | As], [B | Bs]) -> A * B + dot(As, Bs);
dot([], []) -> 0.

%% ---- slopes

slope(Points) -> median(slopes(Points)).

slopes([{I, V} | Rest]) -> [(W - V) / (J - I) || {J, W} <- Rest] ++ slopes(Rest);
slopes([]) -> [].

%% The slope of Theil and Sen, Kendall's tau, and its distance, in standard deviations, from that of
%% values in random order.
kendall(Points, N) ->
    Slopes = slopes(Points),
    S = length([up || Slope <- Slopes, Slope > 0]) - length([down || Slope <- Slopes, Slope < 0]),
    Deviation = math:sqrt(N * (N - 1) * (2 * N + 5) / 18),
    {median(Slopes), S / (N * (N - 1) / 2), (S - 1) / Deviation}.

median(Values) ->
    Sorted = lists:sort(Values),
    lists:nth((length(Sorted) + 1) div 2, Sorted).
