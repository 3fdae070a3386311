%% @private
%% Does a value grow for hours, despite garbage collections? A series keeps only the least value (or
%% the mean) of every quarter of an hour, for a day. It grows only if nearly all pairs of these are
%% in rising order (Kendall's tau), at a slope that no outlier moves (Theil and Sen), if the growth
%% continues as it began (a cache that fills up slows down), and if the load of the node does not
%% explain it: memory in use follows the load, a leak is the sum of it.
-module(sonde_trend).

-export([new/1, add/3, blocks/1, judge/3, index/1]).
-export_type([series/0, kind/0, finding/0, rule/0]).

-type kind() :: least | mean.
%% The block that is being filled, its value (of a mean: sum and number), and those before it,
%% newest first.
-opaque series() :: {kind(), integer() | undefined, term(), [block()], non_neg_integer()}.
-type block() :: {Index :: integer(), Value :: number()}.
%% `growth': the least growth that counts; `share': the same as a share of the level that it began
%% with; `hours': how long it must have lasted.
-type rule() :: #{growth := number(), share := number(), hours := 5 | 12}.
-type finding() :: #{per_hour := number(), growth := number(), from := number(), hours := number(),
                     tau := float()}.

-define(BLOCK_MS, 900000).
-define(KEPT, 96).
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
        New when N >= 2 * ?KEPT ->
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
    judge(Windows, Newest, Blocks, blocks(Load), Rule);
judge(_, _, _) ->
    none.

judge([{Length, Missing, Tau} | Windows], Newest, Blocks, Load, Rule) ->
    Points = since(Newest - Length, Blocks),
    N = length(Points),
    case N >= Length - Missing andalso grows(Points, N, Tau, Load, Rule) of
        {grows, _} = Finding -> Finding;
        _ when N < Length - Missing -> none;
        false -> judge(Windows, Newest, Blocks, Load, Rule)
    end;
judge([], _, _, _, _) ->
    none.

%% Oldest first.
since(Before, Blocks) ->
    lists:reverse(lists:takewhile(fun({Index, _}) -> Index > Before end, Blocks)).

grows([{First, _} | _] = Points, N, LeastTau, Load, #{growth := Least, share := Share}) ->
    {Early, Late} = lists:split(N div 2, Points),
    From = least(Early),
    Needed = max(Least, Share * From),
    case least(Late) - From >= Needed / 4 andalso rises(Points, N div 4) of
        true ->
            {Slope, Tau, Z} = kendall(Points, N),
            {Last, _} = lists:last(Points),
            Growth = Slope * (Last - First),
            Goes = Tau >= LeastTau andalso Z >= ?Z
                andalso Growth - explained(First, Last, From, Load) >= Needed
                andalso goes_on(Slope, slope(Early), Late, lists:nthtail(N - ?LAST, Points)),
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

%% The growth that the load of the node explains.
explained(First, Last, Level, Load) ->
    case since(First - 1 - ?LATE, [Point || {Index, _} = Point <- Load, Index =< Last]) of
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
