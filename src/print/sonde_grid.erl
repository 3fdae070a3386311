%% @private
%% Text tables, no line longer than the width. The first column matters most, the last one least.
-module(sonde_grid).

-export([lines/2, fit/2, fill/3, bold/2, red/2]).
-export_type([style/0, table/0]).

%% `name': the position of the column that names the rows. It stays where others have no room.
-type style() :: #{width := pos_integer(), unicode := boolean(), color := boolean(), name => pos_integer()}.
%% Headers may be none; a row has a cell for each column.
-type table() :: {[unicode:chardata()], [[sonde_units:cell() | none]]}.
-type line() :: unicode:chardata().

-define(GAP, 2).
-define(FIRST, 12).           % the least for the first column: a pid must not be cut
-define(OTHER, 8).
-define(NAME, 12).            % the least for the name of rows, if that leaves room for
-define(KEYS, 3).             % the first columns: the number of the row, and what the rows are sorted by
%% Each column gets that many characters, from the first column on, before any column gets more.
-define(SHARES, [8, 24, 1 bsl 30]).

%% @doc The lines of a table. Columns that do not fit are left out, from the last one on, and named
%% in a line below.
-spec lines(table(), style()) -> [line()].
lines({Headers, Rows}, #{width := Width} = Style) ->
    Cells = [[cell(C, Style) || C <- Row] || Row <- Rows],
    Heads = [cell({text, H}, Style) || H <- Headers],
    Columns = columns(Heads, Cells),
    {Fits, All} = case Heads of
                      [] -> {[true || _ <- Columns], Columns};
                      _ -> fits(Columns, Style)
                  end,
    Kept = only(Fits, All),
    Widths = widths(Kept, Width),
    Body = [line(only(Fits, Row), Kept, Widths, Style) || Row <- Cells],
    case Heads of
        [] -> Body;
        _ -> [bold(line(tight(only(Fits, Heads), Widths), Kept, Widths, Style), Style) | Body]
                 ++ left_out([Head || {false, Head} <- lists:zip(Fits, Heads)], Style)
    end.

%% The padding of a heading goes before its letters do.
tight(Heads, Widths) ->
    [case Length > Width of
         true -> Tight = string:trim(Text), {width(Tight), Kind, Tight};
         false -> Head
     end || {{Length, Kind, Text} = Head, Width} <- lists:zip(Heads, Widths)].

only(Fits, Columns) -> [Column || {true, Column} <- lists:zip(Fits, Columns)].

%% {Length, Kind, Text}; the text is a binary, because there may be very many cells.
cell(none, _) ->
    {0, none, <<>>};
cell({Kind, Text}, Style) ->
    Cut = fit(Text, Style),
    {width(Cut), Kind, unicode:characters_to_binary(Cut)}.

%% @doc One line of any text, cut if it is too long.
-spec fit(unicode:chardata(), #{width := non_neg_integer(), unicode := boolean(), _ => _}) ->
          line().
fit(Text, #{width := Width, unicode := Unicode}) ->
    cut(sonde_units:safe(Text), Width, Unicode).

%% The text, or its beginning and a mark that shows the cut.
cut(Text, Width, Unicode) ->
    case width(Text) =< Width of
        true -> Text;
        false when Unicode, Width > 0 -> [first(Text, Width - 1), 16#2026];
        false -> [first(Text, max(0, Width - 2)), lists:sublist("..", Width)]
    end.

%% The columns of a terminal that a text takes.
width(Text) -> lists:foldl(fun(C, Sum) -> Sum + columns_of(C) end, 0, unicode:characters_to_list(Text)).

%% As many characters as fit, with the marks on the last one.
first(Text, Width) -> taken(unicode:characters_to_list(Text), Width).

taken([C | Cs], Left) ->
    case Left - columns_of(C) of
        Less when Less >= 0 -> [C | taken(Cs, Less)];
        _ -> []
    end;
taken([], _) ->
    [].

%% Marks that stand on another character, and characters of two columns: of East Asia, and emoji. Where terminals differ, as
%% with rare marks, this is the larger number: a line that is too short does not break the frame.
-define(IN(C, From, To), C >= From, C =< To).

columns_of(C) when C < 16#300 -> 1;
columns_of(C) when ?IN(C, 16#300, 16#36F); ?IN(C, 16#483, 16#489); ?IN(C, 16#591, 16#5BD); ?IN(C, 16#64B, 16#65F);
                   ?IN(C, 16#1160, 16#11FF); ?IN(C, 16#1AB0, 16#1ACE); ?IN(C, 16#1DC0, 16#1DFF); ?IN(C, 16#20D0, 16#20F0);
                   ?IN(C, 16#302A, 16#302D); ?IN(C, 16#3099, 16#309A); ?IN(C, 16#FE00, 16#FE0E); ?IN(C, 16#FE20, 16#FE2F);
                   ?IN(C, 16#E0100, 16#E01EF) ->
    0;
columns_of(C) when ?IN(C, 16#1100, 16#115F); ?IN(C, 16#231A, 16#231B); ?IN(C, 16#2329, 16#232A); ?IN(C, 16#23E9, 16#23F3);
                   ?IN(C, 16#25FD, 16#25FE); ?IN(C, 16#2600, 16#27BF); ?IN(C, 16#2B1B, 16#2B1C); C =:= 16#2B50; C =:= 16#2B55;
                   ?IN(C, 16#2E80, 16#303E); ?IN(C, 16#3041, 16#A4CF); ?IN(C, 16#A960, 16#A97F); ?IN(C, 16#AC00, 16#D7A3);
                   ?IN(C, 16#F900, 16#FAFF); ?IN(C, 16#FE10, 16#FE19); ?IN(C, 16#FE30, 16#FE6F); ?IN(C, 16#FF00, 16#FF60);
                   ?IN(C, 16#FFE0, 16#FFE6); ?IN(C, 16#16FE0, 16#18DFF); ?IN(C, 16#1AFF0, 16#1B2FF); ?IN(C, 16#1F000, 16#1FAFF);
                   ?IN(C, 16#20000, 16#3FFFD) ->
    2;
columns_of(_) -> 1.

%% {Kind, Longest, Least}: the length of the longest cell or header, and the least width with which
%% the column is shown. With headers, a column of numbers must fit completely, since a number that
%% is cut is wrong. Without headers, there are two columns, which always fit.
columns(Heads, Cells) ->
    Kinds = kinds(Cells),
    Longest = longest(Cells),
    Both = [max(L, H) || {L, H} <- lists:zip(Longest, heads(Heads, Longest))],
    [First | Rest] = lists:zip3(Kinds, Longest, Both),
    [column(First, ?FIRST, Heads) | [column(C, ?OTHER, Heads) || C <- Rest]].

heads([], Longest) -> [0 || _ <- Longest];
heads(Heads, _) -> [Length || {Length, _, _} <- Heads].

column({Kind, _, Both}, _, []) -> {Kind, Both, min(Both, ?OTHER)};
column({number, Longest, Both}, _, _) -> {number, Both, max(Longest, min(Both, ?OTHER))};
column({Kind, _, Both}, Least, _) -> {Kind, Both, min(Both, Least)}.

%% A column with only numbers is aligned to the right.
kinds([Row | Rows]) ->
    lists:foldl(fun(R, Kinds) -> [both(K, Kind) || {{_, K, _}, Kind} <- lists:zip(R, Kinds)] end,
                [Kind || {_, Kind, _} <- Row], Rows).

both(Kind, Kind) -> Kind;
both(none, Kind) -> Kind;
both(Kind, none) -> Kind;
both(_, _) -> text.

longest([Row | Rows]) ->
    lists:foldl(fun(R, Ls) -> [max(L, N) || {{N, _, _}, L} <- lists:zip(R, Ls)] end,
                [N || {N, _, _} <- Row], Rows).

%% Which columns fit, and the columns, with the least width of the name.
fits(Columns, #{name := Name, width := Width}) when Name > 1 ->
    {Before, [{Kind, Longest, _} | After]} = lists:split(Name - 1, Columns),
    Others = Before ++ After,
    Beside = fun(Least) -> room(Others, Width - ?GAP - min(Longest, Least)) end,
    {Many, Keys} = {Beside(?NAME), min(?KEYS, Beside(?OTHER))},
    Least = case Many >= Keys of true -> ?NAME; false -> ?OTHER end,
    {Left, Right} = lists:split(Name - 1, shown(max(Many, Keys), Others)),
    {Left ++ [true | Right], Before ++ [{Kind, Longest, min(Longest, Least)} | After]};
fits(Columns, #{width := Width}) ->
    {shown(room(Columns, Width), Columns), Columns}.

shown(N, Columns) -> [I =< N || I <- lists:seq(1, length(Columns))].

%% How many columns fit.
room([{_, _, Least} | Columns], Width) ->
    1 + more_room(Columns, Width - Least).

more_room([{_, _, Least} | Columns], Left) when Left - ?GAP >= Least ->
    1 + more_room(Columns, Left - ?GAP - Least);
more_room(_, _) ->
    0.

widths(Columns, Width) ->
    Least = [min(L, Width) || {_, _, L} <- Columns],
    Left = Width - lists:sum(Least) - ?GAP * (length(Columns) - 1),
    {Widths, _} = lists:foldl(fun(Share, {Ws, L}) -> grow(Columns, Ws, Share, L) end, {Least, Left},
                              ?SHARES),
    Widths.

grow(Columns, Widths, Share, Left) ->
    lists:mapfoldl(fun({{_, Longest, _}, Width}, L) ->
                           More = max(0, min(L, min(Longest, Share) - Width)),
                           {Width + More, L - More}
                   end, Left, lists:zip(Columns, Widths)).

%% ---- lines

line(Row, Columns, Widths, Style) ->
    Cells = lists:zip3(Row, Columns, Widths),
    string:trim(lists:join(lists:duplicate(?GAP, $\s),
                           [padded(Text, Length, Kind, Width, Style)
                            || {{Length, _, Text}, {Kind, _, _}, Width} <- Cells]),
                trailing, " ").

padded(Text, Length, _, Width, #{unicode := Unicode}) when Length > Width ->
    cut(Text, Width, Unicode);
padded(Text, Length, number, Width, _) ->
    [lists:duplicate(Width - Length, $\s), Text];
padded(Text, Length, _, Width, _) ->
    [Text, lists:duplicate(Width - Length, $\s)].

left_out([], _) ->
    [];
left_out(Heads, #{width := Width, unicode := Unicode}) ->
    Names = lists:join(", ", [Text || {_, _, Text} <- Heads]),
    [cut(["not shown: ", Names], Width, Unicode)].

%% @doc Lines with as many pieces each as fit.
-spec fill([unicode:chardata()], Between :: string(), pos_integer()) -> [line()].
fill([], _, _) ->
    [];
fill([First | Pieces], Between, Width) ->
    {Last, Lines} = lists:foldl(fun(Piece, {Line, Done}) ->
                                        Longer = [Line, Between, Piece],
                                        case width(Longer) =< Width of
                                            true -> {Longer, Done};
                                            false -> {Piece, [Line | Done]}
                                        end
                                end, {First, []}, Pieces),
    lists:reverse([Last | Lines]).

-spec bold(line(), #{color := boolean(), _ => _}) -> line().
bold(Line, Style) -> colored("\e[1m", Line, Style).

-spec red(line(), #{color := boolean(), _ => _}) -> line().
red(Line, Style) -> colored("\e[31m", Line, Style).

colored(Color, Line, #{color := true}) -> [Color, Line, "\e[0m"];
colored(_, Line, _) -> Line.
