%% The figures of a run, as text and as markdown. A file of figures belongs to one release and has
%% terms: `{node, Facts}', one for each work, `{machine, Figures}' and `{row, Row}' (bench_row).
%% bench/reasons explains why rows miss their targets.
-module(bench_report).

-export([put/3, node_facts/1, print/1, write/2]).

-define(PICTURE, "pictures/growth.svg").

%% ---- writing the file

-spec put(file:io_device(), node | machine | row, map()) -> ok.
put(File, Kind, Map) ->
    io:format(File, "~0tp.~n", [{Kind, Map}]).

-spec node_facts(atom()) -> map().
node_facts(Recon) ->
    #{otp => erlang:system_info(otp_release), erts => erlang:system_info(version),
      flavor => erlang:system_info(emu_flavor), schedulers => erlang:system_info(schedulers_online),
      cpu => os:getenv("BENCH_CPU", "unknown"),
      processor => os:getenv("BENCH_PROCESSOR", "unknown"), load => os:getenv("BENCH_LOAD", "unknown"),
      recon => Recon}.

%% ---- text

-spec print([file:name()]) -> ok.
print(Files) ->
    lists:foreach(fun(File) -> print_one(read(File)) end, Files).

print_one({Facts, Rows}) ->
    io:format("~n~ts~n", [heading(Facts)]),
    [begin
         io:format("~n~ts~n", [Work]),
         table(Header, [bench_row:cells(R) || R <- Some])
     end || {Work, Header, Some} <- bench_row:tables(Rows)],
    io:format("~n~ts~n", [missing(Facts, Rows, Rows)]).

%% What explains figures that differ from those of another machine.
heading(#{otp := Otp, erts := Erts, flavor := Flavor, schedulers := N, cpu := Cpu, load := Load,
          recon := Recon} = Facts) ->
    [io_lib:format("OTP ~s (erts ~s, ~s), ~b schedulers, ~ts, ", [Otp, Erts, Flavor, N, Cpu]),
     case Facts of
         #{load_ns := LoadNs, gb_s := GbS, processes_ns := ProcessesNs} ->
             io_lib:format("a random load ~.1f ns, a sum ~.1f GB/s, "
                           "`processes()` ~.1f ns a process, ", [LoadNs, GbS, ProcessesNs]);
         _ ->
             ""
     end,
     "load average before the run ", Load,
     case Recon of
         as_shipped -> "";
         compiled_again -> ", recon recompiled for this release"
     end].

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

%% @doc Puts the tables between the marks of their sections, and makes the picture. A section without
%% figures stays as it is.
-spec write(file:name(), [file:name()]) -> 0 | 1.
write(Page, Files) ->
    Read = [read(F) || F <- Files],
    Growth = [{Facts, Grown} || {Facts, Rows} <- Read, [_ | _] = Grown <- [grown(Rows)]],
    Bench = [{Facts, Others} || {Facts, Rows} <- Read, [_ | _] = Others <- [Rows -- grown(Rows)]],
    ok = picture(filename:join(filename:dirname(Page), ?PICTURE), Growth),
    lists:max([section(Page, "bench", [["\n", compared(F)] || F <- Bench]),
               section(Page, "growth", [["\n![cost against size](", ?PICTURE, ")\n"] || Growth =/= []]
                       ++ [["\n", growth(F)] || F <- Growth])]).

grown(Rows) -> [R || #{name := "growth"} = R <- Rows].

section(_, _, []) ->
    0;
section(Page, Name, Text) ->
    {ok, Old} = file:read_file(Page),
    {Begin, End} = {["<!-- ", Name, ":begin -->"], ["<!-- ", Name, ":end -->"]},
    case {string:split(Old, Begin), string:split(Old, End)} of
        {[Before, _], [_, After]} ->
            ok = file:write_file(Page, unicode:characters_to_binary(
                                         [Before, Begin, "\n", Text, "\n", End, After])),
            0;
        _ ->
            io:format(standard_error, "bench: no ~ts and ~ts in ~ts~n", [Begin, End, Page]),
            1
    end.

compared({#{otp := Otp} = Facts, Rows}) ->
    Tables = [{Work, Header, shortened(Some)} || {Work, Header, Some} <- bench_row:tables(Rows)],
    ["### OTP ", Otp, "\n\n", heading(Facts), ":\n", markdown_tables(Tables),
     "\n", missing(Facts, Rows, [R || {_, _, Some} <- Tables, R <- Some])].

growth({#{otp := Otp} = Facts, Rows}) ->
    ["### Growth on OTP ", Otp, "\n\n", heading(Facts), ":\n",
     markdown_tables(bench_row:tables(Rows))].

%% Of the first release.
picture(_, []) ->
    ok;
picture(File, [{#{otp := Otp}, Rows} | _]) ->
    Lines = [{[Call, ", ", Of], [{Size, Ns} || #{size := Size, sonde := Ns} <- Some]}
             || {Of, [_, Call | _], [#{kind := size} | _] = Some} <- bench_row:tables(Rows)],
    file:write_file(File, bench_picture:svg("cost against size, OTP " ++ Otp, Lines)).

markdown_tables(Tables) ->
    [["\n", markdown_table([Work | tl(Header)], [bench_row:cells(R) || R <- Some])]
     || {Work, Header, Some} <- Tables].

markdown_table(Header, Rows) ->
    [["| ", lists:join(" | ", Header), " |\n| ---", lists:duplicate(length(Header) - 1, " | ---:"),
      " |\n"], [["| ", lists:join(" | ", Cells), " |\n"] || Cells <- Rows]].

%% Of the calls that met the target never_slower, shows only the worst one.
shortened(Rows) ->
    case [R || #{targets := [never_slower]} = R <- Rows] -- bench_row:missed(Rows) of
        [_, _ | _] = Met ->
            Ratio = fun(#{other := Other, sonde := Sonde}) -> Other / Sonde end,
            [Worst | Others] = lists:sort(fun(A, B) -> Ratio(A) =< Ratio(B) end, Met),
            Call = io_lib:format("~ts, the worst of ~b calls",
                                 [maps:get(call, Worst), length(Met)]),
            [Worst#{call := lists:flatten(Call)} | Rows -- [Worst | Others]];
        _ ->
            Rows
    end.

%% ---- reading

read(File) ->
    {ok, Terms} = file:consult(File),
    [Facts | _] = [F || {node, F} <- Terms],
    {lists:foldl(fun maps:merge/2, Facts, [F || {machine, F} <- Terms]), [R || {row, R} <- Terms]}.

%% ---- targets that were missed, and why

%% One line for each reason. It names its rows by the words that selected them.
missing(#{otp := Otp}, Rows, Shown) ->
    Missed = bench_row:missed(Rows),
    {ok, Reasons} = file:consult("bench/reasons"),
    {Lines, Unknown} = lists:mapfoldl(fun(Reason, Left) -> explained(Reason, Otp, Left) end,
                                      Missed, Reasons),
    [io_lib:format("Targets missed: ~b of ~b.~n",
                   [length(Missed), length([R || R <- Shown, bench_row:judged(R)])]),
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
