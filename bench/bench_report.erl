%% The figures of a run, as text and as markdown. A file of figures belongs to one release and has
%% terms `{node, Facts}', one for each work, and `{row, Row}'. The fields of a row by its `kind':
%%
%%   speed   recon, sonde: ns of one call (medians); target: how many times faster, or never_slower
%%   peak    recon, sonde: bytes; target: bytes
%%   bare    bare, sonde: ns; target: at most how many times slower
%%   floor   floor: ns; no target
%%   beside  other, sonde: ns; no target
%%   alone   sonde: ns; no target
%%   heap    other, sonde: ns; words walked; bytes held for it; targets: {slower, AtMost} times,
%%           {rate, Million} words a second at least, {share, Percent} of the heap in memory at most
%%   trip    tool, p50, p99, p999: ns; scans, in ms
%%
%% bench/reasons explains why rows miss their targets.
-module(bench_report).

-export([put/3, node_facts/1, print/1, write/2]).

-define(BEGIN, "<!-- bench:begin -->").
-define(END, "<!-- bench:end -->").
-define(MIB, 1048576).

%% ---- writing the file

-spec put(file:io_device(), node | row, map()) -> ok.
put(File, Kind, Map) ->
    io:format(File, "~0tp.~n", [{Kind, Map}]).

-spec node_facts(atom()) -> map().
node_facts(Recon) ->
    #{otp => erlang:system_info(otp_release), erts => erlang:system_info(version),
      flavor => erlang:system_info(emu_flavor), schedulers => erlang:system_info(schedulers_online),
      cpu => os:getenv("BENCH_CPU", "unknown"), load => os:getenv("BENCH_LOAD", "unknown"),
      recon => Recon, scale => os:getenv("BENCH_SCALE", "1")}.

%% ---- text

-spec print([file:name()]) -> ok.
print(Files) ->
    lists:foreach(fun print_one/1, Files).

print_one(File) ->
    {Facts, Rows} = read(File),
    io:format("~n~ts~n", [heading(Facts)]),
    [begin
         io:format("~n~ts~n", [Work]),
         table(Header, [cells(R) || R <- Some])
     end || {Work, Header, Some} <- tables(Rows)],
    io:format("~n~ts~n", [missing(Facts, Rows, Rows)]).

heading(#{otp := Otp, erts := Erts, flavor := Flavor, schedulers := N, cpu := Cpu, load := Load,
          recon := Recon}) ->
    io_lib:format("OTP ~s (erts ~s, ~s), ~b schedulers, ~ts, load average before the run ~ts~ts",
                  [Otp, Erts, Flavor, N, Cpu, Load,
                   case Recon of
                       as_shipped -> "";
                       compiled_again -> ", recon recompiled for this release"
                   end]).

%% One table for each work and shape of row.
tables(Rows) ->
    Keys = lists:foldl(fun(R, Ks) ->
                               K = {maps:get(work, R), shape(R)},
                               case lists:member(K, Ks) of true -> Ks; false -> Ks ++ [K] end
                       end, [], Rows),
    [{Work, header(Shape), [R || R <- Rows, maps:get(work, R) =:= Work, shape(R) =:= Shape]}
     || {Work, Shape} <- Keys].

shape(#{kind := trip}) -> trips;
shape(#{kind := heap}) -> heaps;
shape(_) -> figures.

header(trips) -> ["meanwhile, in a loop", "p50 us", "p99 us", "p99.9 us", "scans/s"];
header(heaps) -> ["call, and what it is compared with", "that", "sonde", "ratio", "million words/s",
                  "memory", "target", ""];
header(figures) -> ["call", "recon", "sonde", "ratio", "target", ""].

cells(#{kind := speed, call := Call, recon := Recon, sonde := Sonde, target := Target} = R) ->
    [Call, ms(Recon), ms(Sonde), times(Recon / Sonde), wanted(Target), verdict(R)];
cells(#{kind := peak, call := Call, recon := Recon, sonde := Sonde, target := Target} = R) ->
    [Call, mib(Recon), mib(Sonde), "", "under " ++ mib(Target), verdict(R)];
cells(#{kind := bare, call := Call, bare := Bare, sonde := Sonde, target := Target} = R) ->
    [Call, "(" ++ ms(Bare) ++ ")", ms(Sonde), io_lib:format("~.2f", [Sonde / Bare]),
     io_lib:format("at most ~.2f", [Target]), verdict(R)];
cells(#{kind := beside, call := Call, other := Other, sonde := Sonde}) ->
    [Call, "(" ++ ms(Other) ++ ")", ms(Sonde), io_lib:format("~.2f", [Sonde / Other]), "", ""];
cells(#{kind := alone, call := Call, sonde := Sonde}) ->
    [Call, "", ms(Sonde), "", "", ""];
cells(#{kind := floor, call := Call, floor := Floor}) ->
    [Call, "", ms(Floor), "", "(the floor)", ""];
cells(#{kind := heap, call := Call, other := Other, sonde := Sonde, targets := Targets} = R) ->
    [Call, ms(Other), ms(Sonde), io_lib:format("~.2f", [Sonde / Other]), short(rate(R)),
     io_lib:format("~.1f %", [share(R)]), lists:join(", ", [wanted(T) || T <- Targets]),
     case Targets of [] -> ""; _ -> verdict(R) end];
cells(#{kind := trip, call := Call, tool := Tool, p50 := P50, p99 := P99, p999 := P999,
        scans := Scans, ms := Ms}) ->
    {Name, Rate} = case Tool of
                       none -> {Call, ""};
                       _ -> {atom_to_list(Tool) ++ ":" ++ Call, short(Scans * 1000 / Ms)}
                   end,
    [Name, us(P50), us(P99), us(P999), Rate].

wanted(never_slower) -> "never slower";
wanted({slower, Times}) -> io_lib:format("at most ~.2f", [Times]);
wanted({rate, Million}) -> io_lib:format("~b million/s", [Million]);
wanted({share, Percent}) -> io_lib:format("under ~b %", [Percent]);
wanted(Target) -> io_lib:format("~b times", [Target]).

verdict(Row) ->
    case met(Row) of true -> "met"; false -> "missed" end.

%% Compares with the precision that is shown.
met(#{kind := speed, recon := Recon, sonde := Sonde, target := never_slower}) ->
    Recon / Sonde >= 0.995;
met(#{kind := speed, recon := Recon, sonde := Sonde, target := Target}) ->
    Recon / Sonde >= Target;
met(#{kind := peak, sonde := Sonde, target := Target}) ->
    Sonde < Target;
met(#{kind := bare, bare := Bare, sonde := Sonde, target := Target}) ->
    Sonde / Bare =< Target + 0.005;
met(#{kind := heap, other := Other, sonde := Sonde, targets := Targets} = R) ->
    lists:all(fun({slower, Times}) -> Sonde / Other =< Times + 0.005;
                 ({rate, Million}) -> rate(R) >= Million;
                 ({share, Percent}) -> share(R) < Percent
              end, Targets);
met(_) ->
    true.

rate(#{words := Words, sonde := Sonde}) -> Words * 1000 / Sonde.
share(#{words := Words, bytes := Bytes}) -> Bytes * 100 / (Words * 8).

missed(Rows) -> [R || R <- Rows, not met(R)].

ms(Ns) -> short(Ns / 1000000) ++ " ms".
us(Ns) -> short(Ns / 1000).
mib(Bytes) -> short(Bytes / ?MIB) ++ " MiB".
times(Ratio) -> short(Ratio).

%% Three significant digits.
short(X) when X >= 100 -> integer_to_list(round(X));
short(X) when X >= 10 -> io_lib:format("~.1f", [X]);
short(X) -> io_lib:format("~.2f", [X]).

table(Header, Rows) ->
    Texts = [[unicode:characters_to_list(C) || C <- R] || R <- [Header | Rows]],
    Widths = [lists:max([string:length(C) || C <- Column]) || Column <- columns(Texts)],
    [io:format("  ~ts~n", [string:trim(line(R, Widths), trailing)]) || R <- Texts].

columns([[] | _]) -> [];
columns(Rows) -> [[hd(R) || R <- Rows] | columns([tl(R) || R <- Rows])].

%% Aligns text to the left and figures to the right.
line([First | Rest], [W | Widths]) ->
    [string:pad(First, W) | [["  ", string:pad(C, Width, leading)]
                             || {C, Width} <- lists:zip(Rest, Widths)]].

%% ---- markdown

-spec write(file:name(), [file:name()]) -> 0 | 1.
write(Page, Files) ->
    Text = case file:read_file(Page) of {ok, T} -> T; {error, _} -> <<>> end,
    case {string:split(Text, ?BEGIN), string:split(Text, ?END)} of
        {[Before, _], [_, After]} ->
            Tables = [["\n", markdown(read(F))] || F <- Files],
            ok = file:write_file(Page, unicode:characters_to_binary(
                                         [Before, ?BEGIN, "\n", Tables, "\n", ?END, After])),
            0;
        _ ->
            io:format(standard_error, "bench: no " ?BEGIN " and " ?END " in ~ts~n", [Page]),
            1
    end.

markdown({#{otp := Otp} = Facts, Rows}) ->
    Tables = [{Work, Header, shortened(Some)} || {Work, Header, Some} <- tables(Rows)],
    ["### OTP ", Otp, "\n\n", heading(Facts), ":\n",
     [["\n| ", lists:join(" | ", [Work | tl(Header)]), " |\n| ---",
       lists:duplicate(length(Header) - 1, " | ---:"), " |\n",
       [["| ", lists:join(" | ", cells(R)), " |\n"] || R <- Some]]
      || {Work, Header, Some} <- Tables],
     "\n", missing(Facts, Rows, [R || {_, _, Some} <- Tables, R <- Some])].

judged(#{targets := Targets}) -> Targets =/= [];
judged(Row) -> is_map_key(target, Row).

%% Of the calls that met the target never_slower, shows only the worst one.
shortened(Rows) ->
    case [R || #{target := never_slower} = R <- Rows, met(R)] of
        [_, _ | _] = Met ->
            Ratio = fun(#{recon := Recon, sonde := Sonde}) -> Recon / Sonde end,
            [Worst | Others] = lists:sort(fun(A, B) -> Ratio(A) =< Ratio(B) end, Met),
            Call = io_lib:format("~ts, the worst of ~b calls", [maps:get(call, Worst), length(Met)]),
            [Worst#{call => Call} | Rows -- [Worst | Others]];
        _ ->
            Rows
    end.

%% ---- reading

read(File) ->
    {ok, Terms} = file:consult(File),
    [Facts | _] = [F || {node, F} <- Terms],
    {Facts, [R || {row, R} <- Terms]}.

%% ---- targets that were missed, and why

%% One line for each reason. It names its rows by the words that selected them.
missing(#{otp := Otp}, Rows, Shown) ->
    Missed = missed(Rows),
    {ok, Reasons} = file:consult(os:getenv("BENCH_REASONS", "bench/reasons")),
    {Lines, Unknown} = lists:mapfoldl(fun(Reason, Left) -> explained(Reason, Otp, Left) end,
                                      Missed, Reasons),
    [io_lib:format("Targets missed: ~b of ~b.~n", [length(Missed), length([R || R <- Shown, judged(R)])]),
     ["\n" || Missed =/= []], Lines,
     [["- No reason is known for ", lists:join("; ", [named(R) || R <- Unknown]), ".\n"]
      || Unknown =/= []]].

%% A line for the rows that the reason fits, and the other rows.
explained({_, _, _, Text} = Reason, Otp, Rows) ->
    case lists:partition(fun(R) -> fits(Reason, Otp, R) end, Rows) of
        {[], _} -> {"", Rows};
        {These, Others} -> {["- ", named(Reason, These), ": ", Text, "\n"], Others}
    end.

fits({Releases, Title, Start, _}, Otp, #{work := Work, call := Call}) ->
    (Releases =:= any orelse lists:member(list_to_integer(Otp), Releases))
        andalso (Title =:= any orelse string:find(Work, Title) =/= nomatch)
        andalso (Start =:= any orelse starts(Start, Call)).

%% Calls of one kind start alike: "heap, 1 MB, tuples".
starts(Start, Call) ->
    case string:prefix(Call, Start) of
        nomatch -> false;
        Rest -> Rest =:= "" orelse hd(Rest) =:= $,
    end.

named(_, [Row]) -> named(Row);
named({_, _, any, _}, [#{work := Work} | _] = Rows) -> [Work, number(Rows)];
named({_, _, Start, _}, [#{work := Work} | _] = Rows) -> ["`", Start, "`, ", Work, number(Rows)].

named(#{work := Work, call := Call}) -> ["`", Call, "`, ", Work].

number(Rows) -> io_lib:format(", ~b rows", [length(Rows)]).
