%% @private
%% The parts that the pages of {@link sonde:top/1} are drawn from.
-module(sonde_top_text).

-export([cut/2, text/3, pairs/2, flow/2, table/3, value/3, known_by/2, missing/1, name/1, escaped/2,
         numbered/2, titled/2, sparks/3, bar/2, percent/1, once/0]).
-export_type([style/0, line/0]).

-type style() :: #{width := pos_integer(), unicode := boolean(), color := boolean()}.
-type line() :: unicode:chardata().

-define(NARROW, 60).

-spec cut(unicode:chardata(), style()) -> line().
cut(Text, Style) -> sonde_grid:fit(Text, Style).

-spec text(term(), term(), style()) -> unicode:chardata().
text(Key, Value, #{unicode := Unicode}) -> sonde_units:text(Key, Value, Unicode).

%% @doc As many pairs in a line as fit.
-spec pairs([{atom(), term()}], style()) -> [line()].
pairs(Pairs, Style) ->
    flow([[name(Key), " ", value_text(Key, Value, Style)] || {Key, Value} <- Pairs], Style).

%% Text is written as it is.
value_text(Key, Value, Style) ->
    case io_lib:printable_unicode_list(Value) andalso Value =/= "" of
        true -> escaped(Value, Style);
        false -> text(Key, Value, Style)
    end.

%% @doc As `io_lib' writes characters that the terminal does not have.
-spec escaped(string(), #{unicode := boolean(), _ => _}) -> unicode:chardata().
escaped(Text, #{unicode := true}) -> Text;
escaped(Text, _) -> [case Char > 255 of true -> io_lib:format("\\x{~.16B}", [Char]); false -> Char end || Char <- Text].

-spec name(atom()) -> unicode:chardata().
name(Key) -> string:replace(atom_to_list(Key), "_", " ", all).

-spec flow([unicode:chardata()], style()) -> [line()].
flow(Parts, #{width := Width} = Style) ->
    [cut(Line, Style) || Line <- sonde_grid:fill(Parts, "  ", Width)].

%% @doc Without a line about columns that do not fit. The column `{name, Head}' is on the narrowest
%% terminal too: a row without its name says nothing.
-spec table([line() | {name, line()}], [list()], style()) -> [line()].
table(_, [], _) ->
    [];
table(Heads, Rows, Style) ->
    Names = [{name, I} || {I, {name, _}} <- lists:zip(lists:seq(1, length(Heads)), Heads)],
    Texts = [head(Head, Style) || Head <- Heads],
    lists:sublist(sonde_grid:lines({Texts, Rows}, maps:merge(Style, maps:from_list(Names))), 1 + length(Rows)).

%% Headings are padded, so that columns do not move from one sample to the next. A narrow terminal has
%% no room for that.
head({name, Head}, Style) -> head(Head, Style);
head(Head, #{width := Width}) when Width < ?NARROW -> string:trim(Head);
head(Head, _) -> Head.

-spec value(term(), term(), style()) -> sonde_units:cell() | none.
value(_, undefined, _) -> none;
value(_, {too_large, Rows}, _) -> {number, ["of ", integer_to_list(Rows), " rows"]};
value(Key, Value, #{unicode := Unicode}) -> sonde_units:cell(Key, Value, Unicode).

%% @doc The name among the attributes of a row, or else its initial call and label.
-spec known_by([term()], style()) -> sonde_units:cell().
known_by(Attrs, #{unicode := Unicode} = Style) ->
    case {[Name || Name <- Attrs, is_atom(Name)], proplists:get_value(initial_call, Attrs)} of
        {[Name], _} -> sonde_units:cell(name, Name, Unicode);
        {[], undefined} -> {text, "-"};
        {[], Call} -> {text, [sonde_units:text(initial_call, Call, Unicode)
                              | [[$\s, escaped(Label, Style)] || {label, Label} <- Attrs]]}
    end.

%% @doc The rows as they are numbered on the page.
-spec numbered(non_neg_integer(), [Row]) -> [{sonde_units:cell(), Row}].
numbered(From, Rows) ->
    [{{number, integer_to_list(N)}, Row}
     || {N, Row} <- lists:zip(lists:seq(From + 1, From + length(Rows)), Rows)].

-spec titled(line(), [line()]) -> [line()].
titled(_, []) -> [];
titled(Title, Lines) -> [Title | Lines].

%% @doc Scaled from the least to the most of the values shown; the latest, the first of the list, is on
%% the right.
-spec sparks([number()], pos_integer(), style()) -> string().
sparks(Past, Width, Style) ->
    Values = lists:reverse(lists:sublist(Past, Width)),
    {Least, Most} = {lists:min([0 | Values -- [0]]), lists:max([0 | Values])},
    Low = case Values of [] -> Least; _ -> lists:min(Values) end,
    [bar(case Most of Low -> 0.0; _ -> (V - Low) / (Most - Low) end, Style) || V <- Values].

%% @doc One character for a share from 0.0 to 1.0.
-spec bar(number(), #{unicode := boolean(), _ => _}) -> char().
bar(Share, #{unicode := true}) -> 16#2581 + level(Share, 8);
bar(Share, _) -> lists:nth(1 + level(Share, 8), "_.-:=+*#").

level(Share, Levels) ->
    max(0, min(Levels - 1, trunc(Share * Levels))).

-spec percent(number()) -> iolist().
percent(Share) -> io_lib:format("~b%", [round(100 * Share)]).

%% @doc What stands beside the title of a page that is expensive.
-spec once() -> string().
once() -> "  looked at once; a: again".

%% @doc The text that stands in place of missing data.
-spec missing(term()) -> unicode:chardata().
missing({error, {native_off, Why}}) ->
    io_lib:format("needs the native path, which is off: ~0tp", [Why]);
missing({error, {heap_too_large, Words, Limit}}) ->
    io_lib:format("too large to read here: ~b words, the limit is ~b", [Words, Limit]);
missing({error, busy}) -> "it was running at every attempt";
missing({error, timeout}) -> "not finished in time";
missing({error, content_forbidden}) -> "content is forbidden on this node";
missing({error, {too_many, N, Most}}) -> io_lib:format("~b; more than ~b are not read", [N, Most]);
missing({error, Why}) -> io_lib:format("~0tp", [Why]);
missing(unanswered) -> "it did not answer in time";
missing(undefined) -> "it is gone".
