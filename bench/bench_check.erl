%% Whether calls became slower than recorded: by the ratio of sonde's time to the time of what it is
%% compared with in the same run. Knows bench/recorded, which has terms of two kinds:
%%
%%   {Processor, Release, Work, Call, Ratio, Noise}   the median of ten rounds, and how far nine of
%%                                                    them were from it at most, as a part of it
%%   {Processor, Release, Work, Call, short | longer | noisy}   is not compared
%%
%% short: one of the two times is too short. longer: sonde's time is so much longer that a busy core
%% delays it more than the other. noisy: its noise could hide a call three times slower.
%%
%% The short calls of a work are compared together: what all of them pay shows in their sum.
%%
%% Ratios to recon's times depend little on the processor: on the two that we tried, those of the
%% same code differed by less than 1.5. Ratios to a collection, a copy or a bare loop in C differed
%% by up to 7, because the rate of memory decides about these. So on a processor without records
%% only the former are compared, with more room.
-module(bench_check).

-export([check/2, slower/2, record/2]).

-define(SHORT, 1000000).      % ns
-define(LONGER, 5).           % times the other's time
-define(NOISE, 0.5).          % at least: while a neighbour keeps the other half of a core busy,
                              % calls are 1.7 times slower, now and then those of one side only
-define(NOISE_ELSEWHERE, 0.75).
-define(NOISY, 0.75).         % at most
-define(USUAL, 90).           % percent of the rounds
-define(BEYOND, 2).           % times the noise
-define(TOGETHER, "the short calls together").

%% A row of one round. The fastest calls of both sides were disturbed least.
-record(row, {key :: key(), kind :: atom(), ours :: number(), theirs :: number()}).

%% Part: the ratio as a part of the recorded one; none if they are not compared.
-record(verdict, {key :: key(), part = none :: number() | none, limit = none :: number() | none,
                  is :: same | slower | faster | gone | new | short | longer | noisy |
                        elsewhere}).

-type key() :: {Work :: string(), Call :: string()}.

%% @doc Prints the rows beside their records. Returns 1 if a row is slower, or has gone. The file
%% has the figures of a few rounds; a row is slower only if it was so in each.
-spec check(file:name(), file:name()) -> 0 | 1.
check(Record, File) ->
    {{Processor, Otp}, Verdicts} = verdicts(Record, File),
    io:format("OTP ~b, ~ts: ratios as parts of the recorded ones~n", [Otp, Processor]),
    lists:foreach(fun print/1, lists:keysort(#verdict.part, Verdicts)),
    Number = fun(These) -> length([V || V <- Verdicts, lists:member(V#verdict.is, These)]) end,
    _ = [io:format("If this is as it should be, record it: make bench-check RECORD=1~n")
         || Number([slower, faster, gone, new]) > 0],
    Each = [[same, slower, faster], [slower], [faster], [gone], [new],
            [short, longer, noisy, elsewhere]],
    io:format("~b calls compared: ~b slower, ~b faster; ~b gone, ~b new, ~b not compared~n",
              [Number(These) || These <- Each]),
    case Number([slower, gone]) of 0 -> 0; _ -> 1 end.

print(#verdict{key = {Work, Call}, part = none, is = Is}) ->
    io:format("  ~-9s              ~-9s ~ts~n", [Work, Is, Call]);
print(#verdict{key = {Work, Call}, part = Part, limit = Limit, is = Is}) ->
    io:format("  ~-9s ~5.2f of ~4.2f ~-9s ~ts~n", [Work, Part, Limit, Is, Call]).

%% @doc Prints the names of the works that have slower rows.
-spec slower(file:name(), file:name()) -> 0.
slower(Record, File) ->
    {_, Verdicts} = verdicts(Record, File),
    Works = lists:usort([Work || #verdict{key = {Work, _}, is = slower} <- Verdicts]),
    io:format("~ts~n", [lists:join(" ", Works)]),
    0.

%% @doc Writes the ratios and their noise. Records of other processors, releases and works stay.
-spec record(file:name(), file:name()) -> 0.
record(Record, File) ->
    {{Processor, Otp} = Where, Rounds} = read(File),
    Shorts = [Key || {Key, Rows} <- by_key(Rounds), is_short(Rows)],
    New = [to_record(Where, Row, Shorts) || Row <- by_key(with_sums(Rounds, Shorts))],
    Works = [element(3, R) || R <- New],
    Others = [R || R <- recorded(Record),
                   {element(1, R), element(2, R)} =/= Where
                       orelse not lists:member(element(3, R), Works)],
    ok = file:write_file(Record,
                         ["%% See bench_check.erl. `make bench-check RECORD=1' writes this file.\n",
                          [io_lib:format("~0tp.~n", [R]) || R <- lists:sort(Others ++ New)]]),
    io:format("~b calls recorded for OTP ~b on ~ts, ~b of them to be compared~n",
              [length(New), Otp, Processor, length([R || {_, _, _, _, _, _} = R <- New])]),
    0.

%% ---- verdicts

verdicts(Record, File) ->
    {{Processor, Otp} = Where, Rounds} = read(File),
    Records = [R || R <- recorded(Record), element(2, R) =:= Otp],
    Here = [R || R <- Records, element(1, R) =:= Processor],
    Known = case Here of [] -> Records; _ -> Here end,
    Rows = by_key(with_sums(Rounds, [key(R) || {_, _, _, _, short} = R <- Known])),
    Compared = [verdict(Row, [R || R <- Known, key(R) =:= Key], Here =/= [])
                || {Key, _} = Row <- Rows],
    {Where, Compared ++ gone(Here, Rows)}.

%% Of the works that were run.
gone(Records, Rows) ->
    Keys = [Key || {Key, _} <- Rows],
    Works = [Work || {Work, _} <- Keys],
    [#verdict{key = Key, is = gone} || {Work, _} = Key <- [key(R) || R <- Records] -- Keys,
                                       lists:member(Work, Works)].

verdict({Key, _}, [], _) ->
    #verdict{key = Key, is = new};
verdict({Key, [#row{kind = Kind} | _]}, _, false) when Kind =/= speed ->
    #verdict{key = Key, is = elsewhere};
verdict({Key, Rows}, Records, IsHere) ->
    case [{Ratio, Noise} || {_, _, _, _, Ratio, Noise} <- Records] of
        [] ->
            #verdict{key = Key, is = element(5, hd(Records))};
        Ratios ->
            {Recorded, Noise} = lists:max(Ratios),
            Least = case IsHere of true -> ?NOISE; false -> ?NOISE_ELSEWHERE end,
            compared(Key, lists:min([ratio(R) || R <- Rows]) / Recorded, max(Least, Noise))
    end.

compared(Key, Part, Noise) ->
    Limit = 1 + ?BEYOND * Noise,
    Is = if Part > Limit -> slower; Part < 1 / Limit -> faster; true -> same end,
    #verdict{key = Key, part = Part, limit = Limit, is = Is}.

%% ---- records

to_record({Processor, Otp}, {{Work, Call} = Key, Rows}, Shorts) ->
    Ratios = [ratio(R) || R <- Rows],
    Median = bench_clock:median(Ratios),
    Noise = bench_clock:percentile([max(R / Median, Median / R) - 1 || R <- Ratios], ?USUAL),
    case lists:member(Key, Shorts) orelse is_short(Rows) of
        true -> {Processor, Otp, Work, Call, short};
        false when Median > ?LONGER -> {Processor, Otp, Work, Call, longer};
        false when Noise > ?NOISY -> {Processor, Otp, Work, Call, noisy};
        false -> {Processor, Otp, Work, Call, rounded(Median), rounded(max(?NOISE, Noise))}
    end.

is_short(Rows) -> bench_clock:median([min(R#row.ours, R#row.theirs) || R <- Rows]) < ?SHORT.

key(Record) -> {element(3, Record), element(4, Record)}.

rounded(X) -> list_to_float(float_to_list(X, [{decimals, 4}])).

recorded(File) ->
    case file:consult(File) of
        {ok, Records} -> Records;
        {error, enoent} -> []
    end.

%% ---- figures

ratio(#row{ours = Ours, theirs = Theirs}) -> Ours / Theirs.

%% Of each row, those of all rounds.
by_key(Rounds) ->
    All = lists:append(Rounds),
    [{Key, [R || #row{key = K} = R <- All, K =:= Key]}
     || Key <- lists:usort([Key || #row{key = Key} <- All])].

with_sums(Rounds, Shorts) ->
    [Round ++ [sum(Work, Some) || {Work, Some} <- shorts(Round, Shorts)] || Round <- Rounds].

%% Of each work, those that are compared with recon.
shorts(Round, Shorts) ->
    Some = [R || #row{key = Key, kind = speed} = R <- Round, lists:member(Key, Shorts)],
    [{Work, [R || #row{key = {W, _}} = R <- Some, W =:= Work]}
     || Work <- lists:usort([Work || #row{key = {Work, _}} <- Some])].

sum(Work, Rows) ->
    #row{key = {Work, ?TOGETHER}, kind = speed, ours = lists:sum([R#row.ours || R <- Rows]),
         theirs = lists:sum([R#row.theirs || R <- Rows])}.

%% A round begins where a row comes again.
read(File) ->
    {ok, Terms} = file:consult(File),
    [#{otp := Otp, processor := Processor} | _] = [F || {node, F} <- Terms],
    Rows = [#row{key = {Work, Call}, kind = Kind, ours = lists:min(Ours),
                 theirs = lists:min(Theirs)}
            || {row, #{name := Work, call := Call, kind := Kind,
                       times := #{sonde := Ours, other := Theirs}}} <- Terms],
    {{Processor, list_to_integer(Otp)}, rounds(Rows, [])}.

rounds([], Round) ->
    [Round];
rounds([#row{key = Key} = Row | Rows], Round) ->
    case lists:keymember(Key, #row.key, Round) of
        true -> [Round | rounds(Rows, [Row])];
        false -> rounds(Rows, Round ++ [Row])
    end.
