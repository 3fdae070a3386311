%% A picture of cost against size: both axes are logarithmic, and each call is a line.
-module(bench_picture).

-export([svg/2]).

-define(WIDTH, 900).
-define(HEIGHT, 420).
-define(LEFT, 80).
-define(RIGHT, 310).          % the names of the lines, beside their ends
-define(APART, 18).
-define(TOP, 44).
-define(BOTTOM, 44).
-define(GREY, "#8b90a0").
-define(INKS, ["#61afef", "#8fc379", "#e5c07b"]).

%% @doc `Lines': the name of each, and its points.
-spec svg(string(), [{Name :: string(), [{Size :: number(), Ns :: number()}]}]) -> iodata().
svg(Title, Lines) ->
    {Sizes, Times} = lists:unzip(lists:append([Points || {_, Points} <- Lines])),
    {Columns, Rows} = {decades(Sizes), decades(Times)},
    Inked = lists:zip(Lines, lists:sublist(?INKS, length(Lines))),
    X = fun(Size) -> place(Size, Columns, ?LEFT, ?WIDTH - ?RIGHT) end,
    Y = fun(Ns) -> place(Ns, Rows, ?HEIGHT - ?BOTTOM, ?TOP) end,
    [io_lib:format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"~b\" height=\"~b\" "
                   "viewBox=\"0 0 ~b ~b\" role=\"img\">~n<title>~ts</title>~n"
                   "<rect width=\"~b\" height=\"~b\" rx=\"8\" fill=\"#1d1f27\"/>~n"
                   "<g font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', "
                   "monospace\" font-size=\"13\">~n",
                   [?WIDTH, ?HEIGHT, ?WIDTH, ?HEIGHT, Title, ?WIDTH, ?HEIGHT]),
     text(?LEFT, 24, "start", ?GREY, Title),
     [[line([{X(Size), ?TOP}, {X(Size), ?HEIGHT - ?BOTTOM}], "#353945"),
       text(X(Size), ?HEIGHT - ?BOTTOM + 20, "middle", ?GREY, count(Size))] || Size <- Columns],
     [[line([{?LEFT, Y(Ns)}, {?WIDTH - ?RIGHT, Y(Ns)}], "#353945"),
       text(?LEFT - 8, Y(Ns) + 4, "end", ?GREY, time(Ns))] || Ns <- Rows],
     [curve([{X(Size), Y(Ns)} || {Size, Ns} <- Points], Ink) || {{_, Points}, Ink} <- Inked],
     names([{Y(Ns), Name, Ink} || {{Name, Points}, Ink} <- Inked,
                                  {_, Ns} <- [lists:last(Points)]]),
     "</g>\n</svg>\n"].

%% The powers of ten from the first at or below all values to the first at or above them.
decades(Values) ->
    [math:pow(10, E) || E <- lists:seq(floor(math:log10(lists:min(Values))),
                                       ceil(math:log10(lists:max(Values))))].

place(Value, Decades, From, To) ->
    [First, Last] = [math:log10(D) || D <- [hd(Decades), lists:last(Decades)]],
    From + (To - From) * (math:log10(Value) - First) / (Last - First).

curve(Points, Ink) ->
    [line(Points, Ink), [dot(Point, Ink) || Point <- Points]].

%% Each as high as the end of its line, unless it would touch the name above it.
names(Names) ->
    X = ?WIDTH - ?RIGHT + 12,
    Place = fun({End, Name, Ink}, Free) ->
                    Y = max(End + 4, Free),
                    {text(X, Y, "start", Ink, Name), Y + ?APART}
            end,
    {Texts, _} = lists:mapfoldl(Place, 0, lists:sort(Names)),
    Texts.

line(Points, Ink) ->
    io_lib:format("<polyline points=\"~ts\" fill=\"none\" stroke=\"~s\" stroke-width=\"1.5\"/>~n",
                  [lists:join(" ", [io_lib:format("~.1f,~.1f", [float(X), float(Y)])
                                    || {X, Y} <- Points]), Ink]).

dot({X, Y}, Ink) ->
    io_lib:format("<circle cx=\"~.1f\" cy=\"~.1f\" r=\"3.5\" fill=\"~s\"/>~n", [X, Y, Ink]).

text(X, Y, Anchor, Ink, Text) ->
    io_lib:format("<text x=\"~.1f\" y=\"~.1f\" text-anchor=\"~s\" fill=\"~s\">~ts</text>~n",
                  [float(X), float(Y), Anchor, Ink, Text]).

count(N) when N >= 1000000000 -> [integer_to_list(round(N / 1000000000)), " G"];
count(N) when N >= 1000000 -> [integer_to_list(round(N / 1000000)), " M"];
count(N) when N >= 1000 -> [integer_to_list(round(N / 1000)), " k"];
count(N) -> integer_to_list(round(N)).

time(Ns) when Ns >= 1000000000 -> [integer_to_list(round(Ns / 1000000000)), " s"];
time(Ns) when Ns >= 1000000 -> [integer_to_list(round(Ns / 1000000)), " ms"];
time(Ns) -> [integer_to_list(round(Ns / 1000)), " us"].
