%% A row of figures: which table it is in, what that shows of it, and whether it meets its targets.
%% Each row has `name' and `work', the work and the title of its table, and `call', `kind' and
%% `targets'. Other fields by kind:
%%
%%   speed   other (recon), sonde: ns of one call; the ratio is how many times faster sonde is
%%   beside  other (a floor or a call to compare with), sonde: ns; the ratio is sonde's time to it
%%   alone   sonde: ns
%%   peak    other (recon), sonde: bytes
%%   heap    as beside; words walked; bytes held for it
%%   trip    p50, p99, p999: ns; scans, in ms
%%   size    size, of what `work' says; sonde: ns; the call is the same in all rows of a table. If
%%           it did not fit: needed and free, in bytes, in place of sonde
%%   threads one, sonde: ns with one thread and with two; bytes that the call reads
%%
%% Rows that come from calls in turns also have `times', the ns of each call of both.
%%
%% Targets: {faster, Times}; never_slower; {at_most, Times} what it is compared with; {within, Ns};
%% {under, Bytes}; {rate, Million} words a second at least; {share, Percent} of the heap in memory;
%% {tail, Ns} for p99.9.
-module(bench_row).

-export([tables/1, cells/1, missed/1, judged/1, number/1]).
-export_type([row/0]).

-type row() :: #{name := string(), work := string(), call := string(), kind := atom(),
                 targets := [term()], atom() => term()}.

-define(MIB, 1048576).
-define(PAPER, [8, 64]).      % threads

%% @doc One table for each work and shape of row: title, header, rows.
-spec tables([row()]) -> [{Title :: string(), Header :: [string()], [row()]}].
tables(Rows) ->
    Keys = lists:foldl(fun(R, Ks) ->
                               K = {maps:get(work, R), shape(R)},
                               case lists:member(K, Ks) of true -> Ks; false -> Ks ++ [K] end
                       end, [], Rows),
    [{Work, header(Shape), [R || R <- Rows, maps:get(work, R) =:= Work, shape(R) =:= Shape]}
     || {Work, Shape} <- Keys].

shape(#{kind := trip}) -> trips;
shape(#{kind := heap}) -> heaps;
shape(#{kind := size, call := Call}) -> {sizes, Call};
shape(#{kind := threads}) -> threads;
shape(_) -> figures.

header(trips) -> ["meanwhile, in a loop", "p50 us", "p99 us", "p99.9 us", "scans/s", "target", ""];
header(heaps) -> ["call, and what it is compared with", "that", "sonde", "ratio", "million words/s",
                  "memory", "target", ""];
header({sizes, Call}) -> ["size", Call, "each"];
header(threads) -> ["call", "1 thread", "2 threads", "ratio", "memory", "serial"]
                       ++ [integer_to_list(N) ++ " on paper" || N <- ?PAPER] ++ ["memory then"];
header(figures) -> ["call", "recon", "sonde", "ratio", "target", ""].

-spec cells(row()) -> [unicode:chardata()].
cells(#{kind := size, size := Size, sonde := Sonde}) ->
    [number(Size), ms(Sonde), short(Sonde / Size) ++ " ns"];
cells(#{kind := size, size := Size, needed := Needed, free := Free}) ->
    [number(Size), ["left out: it needs ", gb(Needed), ", and ", gb(Free), " are free"], ""];
cells(#{kind := threads, call := Call, one := One, sonde := Two, bytes := Bytes}) ->
    Serial = serial(One, Two),
    Paper = [Serial + (One - Serial) / N || N <- ?PAPER],
    [Call, ms(One), ms(Two), short(One / Two), gb_s(Bytes, Two), ms(Serial)]
        ++ [ms(Ns) || Ns <- Paper] ++ [gb_s(Bytes, lists:last(Paper))];
cells(#{call := Call} = Row) ->
    [Call] ++ figures(Row) ++ targets(Row).

figures(#{kind := speed, other := Other, sonde := Sonde}) ->
    [ms(Other), ms(Sonde), short(Other / Sonde)];
figures(#{kind := beside, other := Other, sonde := Sonde}) ->
    ["(" ++ ms(Other) ++ ")", ms(Sonde), io_lib:format("~.2f", [Sonde / Other])];
figures(#{kind := alone, sonde := Sonde}) ->
    ["", ms(Sonde), ""];
figures(#{kind := peak, other := Other, sonde := Sonde}) ->
    [mib(Other), mib(Sonde), ""];
figures(#{kind := heap, other := Other, sonde := Sonde} = Row) ->
    [ms(Other), ms(Sonde), io_lib:format("~.2f", [Sonde / Other]), short(rate(Row)),
     io_lib:format("~.1f %", [share(Row)])];
figures(#{kind := trip, p50 := P50, p99 := P99, p999 := P999, scans := Scans, ms := Ms}) ->
    [us(P50), us(P99), us(P999), case Scans of 0 -> ""; _ -> short(Scans * 1000 / Ms) end].

%% By Amdahl's law: the part of the time that the second thread did not halve.
serial(One, Two) -> min(One, max(0, 2 * Two - One)).

targets(#{targets := []}) -> ["", ""];
targets(#{targets := Targets} = Row) ->
    [lists:join(", ", [wanted(T) || T <- Targets]),
     case met(Row) of true -> "met"; false -> "missed" end].

wanted({faster, Times}) -> io_lib:format("~b times", [Times]);
wanted(never_slower) -> "never slower";
wanted({at_most, Times}) -> io_lib:format("at most ~.2f", [Times]);
wanted({within, Ns}) -> "at most " ++ ms(Ns);
wanted({under, Bytes}) -> "under " ++ mib(Bytes);
wanted({rate, Million}) -> io_lib:format("~b million/s", [Million]);
wanted({share, Percent}) -> io_lib:format("at most ~b %", [Percent]);
wanted({tail, Ns}) -> "p99.9 at most " ++ us(Ns) ++ " us".

%% ---- targets

%% @doc Whether the row has a target.
-spec judged(row()) -> boolean().
judged(#{targets := Targets}) -> Targets =/= [].

-spec missed([row()]) -> [row()].
missed(Rows) -> [R || R <- Rows, not met(R)].

met(#{targets := Targets} = Row) ->
    lists:all(fun(Target) -> met(Target, Row) end, Targets).

%% Compares with the precision that is shown.
met({faster, Times}, #{other := Other, sonde := Sonde}) -> Other / Sonde >= Times;
met(never_slower, #{other := Other, sonde := Sonde}) -> Other / Sonde >= 0.995;
met({at_most, Times}, #{other := Other, sonde := Sonde}) -> Sonde / Other < Times + 0.005;
met({within, Ns}, #{sonde := Sonde}) -> Sonde =< Ns;
met({under, Bytes}, #{sonde := Sonde}) -> Sonde < Bytes;
met({rate, Million}, Row) -> rate(Row) >= Million;
met({share, Percent}, Row) -> share(Row) < Percent;
met({tail, Ns}, #{p999 := P999}) -> P999 =< Ns.

rate(#{words := Words, sonde := Sonde}) -> Words * 1000 / Sonde.
share(#{words := Words, bytes := Bytes}) -> Bytes * 100 / (Words * 8).

%% ---- units

%% @doc Returns the digits in groups of three.
-spec number(non_neg_integer()) -> string().
number(N) when N < 1000 -> integer_to_list(N);
number(N) -> lists:flatten(io_lib:format("~ts,~3..0b", [number(N div 1000), N rem 1000])).

ms(Ns) -> short(Ns / 1000000) ++ " ms".
us(Ns) -> short(Ns / 1000).
mib(Bytes) -> short(Bytes / ?MIB) ++ " MiB".
gb(Bytes) -> short(Bytes / 1000000000) ++ " GB".
gb_s(Bytes, Ns) -> short(Bytes / Ns) ++ " GB/s".

%% Three significant digits.
short(X) when X >= 100 -> integer_to_list(round(X));
short(X) when X >= 10 -> float_to_list(X * 1.0, [{decimals, 1}]);
short(X) -> float_to_list(X * 1.0, [{decimals, 2}]).
