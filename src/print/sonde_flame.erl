%% @private
%% A flame graph of stacks, as one picture without script: each function is as wide as the number of processes that
%% are in it, or in what it called. The first call is at the bottom.
-module(sonde_flame).

-export([svg/2]).
-export_type([stack/0]).

%% Texts of functions, the first call first, and the number of processes.
-type stack() :: {[unicode:chardata()], pos_integer()}.
-type tree() :: #{Name :: binary() => {pos_integer(), tree()}}.

-define(WIDTH, 1200).
-define(SIDE, 10).
-define(HEAD, 44).            % above the highest function
-define(ROW, 19).
-define(CHAR, 7.25).          % of the font, in its size
-define(LEAST, 0.3).          % a narrower function cannot be seen
-define(FONT, "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace").

%% @doc The picture. All stacks together are as wide as it is.
-spec svg(unicode:chardata(), [stack()]) -> unicode:chardata().
svg(Title, Stacks) ->
    Total = lists:sum([N || {_, N} <- Stacks]),
    Tree = lists:foldl(fun({Calls, N}, Tree) -> add([unicode:characters_to_binary(C) || C <- Calls], N, Tree) end,
                       #{}, Stacks),
    Rows = 1 + lists:max([0 | [length(Calls) || {Calls, _} <- Stacks]]),
    Height = ?HEAD + Rows * ?ROW + ?SIDE,
    Unit = (?WIDTH - 2 * ?SIDE) / max(1, Total),
    How = #{unit => Unit, total => max(1, Total), bottom => Height - ?SIDE - ?ROW},
    [head(Height, Title),
     frame(<<"all">>, Total, float(?SIDE), 0, How), frames(Tree, float(?SIDE), 1, How),
     "</g>\n</svg>\n"].

-spec add([binary()], pos_integer(), tree()) -> tree().
add([], _, Tree) ->
    Tree;
add([Call | Calls], N, Tree) ->
    {Count, Below} = maps:get(Call, Tree, {0, #{}}),
    Tree#{Call => {Count + N, add(Calls, N, Below)}}.

%% In the order of their names, so that the same stacks give the same picture.
frames(Tree, X, Row, #{unit := Unit} = How) ->
    {Frames, _} = lists:mapfoldl(fun({Name, {N, Above}}, At) ->
                                         {[frame(Name, N, At, Row, How), frames(Above, At, Row + 1, How)], At + N * Unit}
                                 end, X, lists:sort(maps:to_list(Tree))),
    Frames.

frame(_, 0, _, _, _) ->
    [];
frame(_, N, _, _, #{unit := Unit}) when N * Unit < ?LEAST ->
    [];
frame(Name, N, X, Row, #{unit := Unit, total := Total, bottom := Bottom}) ->
    Width = N * Unit,
    Y = Bottom - Row * ?ROW,
    Text = unicode:characters_to_list(Name),
    ["<g><title>", escaped(Text), ": ", sonde_units:text(count, N, true),
     case N of 1 -> " process, "; _ -> " processes, " end, sonde_units:text(usage, N / Total, true), "</title>",
     io_lib:format("<rect x=\"~.2f\" y=\"~b\" width=\"~.2f\" height=\"~b\" rx=\"2\" fill=\"~s\"/>",
                   [X, Y, Width, ?ROW - 1, color(Row, Text)]),
     label(Text, X, Y, Width), "</g>\n"].

%% What fits, or nothing.
label(Text, X, Y, Width) ->
    case trunc((Width - 6) / ?CHAR) of
        Room when Room < 3 -> [];
        Room -> [io_lib:format("<text x=\"~.2f\" y=\"~b\">", [X + 3, Y + 13]), escaped(fitting(Text, Room)), "</text>"]
    end.

fitting(Text, Room) ->
    case string:length(Text) =< Room of
        true -> Text;
        false -> string:slice(Text, 0, Room - 2) ++ ".."
    end.

%% One for each module.
color(0, _) -> "#8b90a0";
color(_, Text) ->
    Module = hd(string:split(Text, ":")),
    Hash = erlang:phash2(Module),
    io_lib:format("hsl(~b,~b%,~b%)", [Hash rem 48 + 8, 60 + Hash div 48 rem 25, 58 + Hash div 1200 rem 12]).

head(Height, Title) ->
    io_lib:format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"~b\" height=\"~b\" viewBox=\"0 0 ~b ~b\" role=\"img\">~n"
                  "<title>~ts</title>~n<rect width=\"~b\" height=\"~b\" rx=\"8\" fill=\"#1d1f27\"/>~n"
                  "<text x=\"~b\" y=\"26\" fill=\"#d7dae3\" font-family=\"~s\" font-size=\"14\">~ts</text>~n"
                  "<g font-family=\"~s\" font-size=\"12\" fill=\"#1d1f27\" xml:space=\"preserve\">~n",
                  [?WIDTH, Height, ?WIDTH, Height, escaped(Title), ?WIDTH, Height, ?SIDE, ?FONT, escaped(Title), ?FONT]).

escaped(Text) ->
    [escape(C) || C <- unicode:characters_to_list(Text)].

escape($<) -> "&lt;";
escape($>) -> "&gt;";
escape($&) -> "&amp;";
escape($") -> "&quot;";
escape($') -> "&#39;";
escape(C) when C < 32; C >= 127, C < 160; C =:= 16#FFFE; C =:= 16#FFFF -> 16#FFFD;
escape(C) -> C.
