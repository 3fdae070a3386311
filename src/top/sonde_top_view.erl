%% @private
%% The lines of {@link sonde:top/1}: the header, the page, the keys. They depend on the model alone,
%% so a page is the same whenever it is drawn.
-module(sonde_top_view).

-export([lines/2]).

-import(sonde_top_text, [cut/2, value/3, sparks/3, bar/2, percent/1]).

-export_type([style/0]).

-type style() :: #{unicode := boolean(), color := boolean()}.
-type line() :: unicode:chardata().

-define(NARROWEST, 40).
-define(LOWEST, 12).
-define(KINDS, [total, processes, binary, ets, code, atom]).
-define(KIND_WIDTH, 13).
-define(MOST_BARS, 16).       % of schedulers; if there are more, no bars
-define(NEARLY, 85).          % percent of a limit

%% @doc Every line is shorter than the terminal is wide: after the last column, the cursor is on
%% this line in some terminals, and on the next one in others.
-spec lines(sonde_top_model:model(), style()) -> [line()].
lines(#{width := Width, height := Height} = Model, Style)
  when Width >= ?NARROWEST, Height >= ?LOWEST ->
    Full = Style#{width => Width - 1},
    All = header(Model, Full) ++ page(Model, Full),
    {Keys, Room} = {keys(Model, Full), Height - 3},
    Shown = lists:sublist(All, Room),
    Shown ++ lists:duplicate(Room - length(Shown), "") ++ Keys;
lines(#{width := Width, height := Height}, Style) ->
    [cut(io_lib:format("~bx~b is too small, ~bx~b is needed",
                       [Width, Height, ?NARROWEST, ?LOWEST]), Style#{width => max(1, Width - 1)})].

bold(Text, Style) -> sonde_grid:bold(cut(Text, Style), Style).

join(Parts) ->
    lists:join("  ", [Part || Part <- Parts, Part =/= ""]).

%% ---- the header

header(#{sample := none, late := Late} = Model, Style) ->
    [bold(["sonde  ", case Late of 0 -> "looking ..."; _ -> pace(Model) end], Style), "", "", "", "", ""];
header(#{sample := #{head := Head, ms := Ms}} = Model, Style) ->
    [bold(title(Head, Model), Style),
     cut(work(Head, rates(Model), Ms, Style), Style),
     limits(maps:get(limits, Head), Style)
     | memory(Head, Model, Style)].

title(#{node := Node, clock := Clock, uptime := Uptime, side := Side, otp := Otp}, Model) ->
    join([["sonde ", atom_to_list(Node)], clock(Clock), ["up ", uptime(Uptime)], pace(Model),
          side(Side), ["OTP ", Otp]]).

clock({H, M, S}) -> io_lib:format("~2..0b:~2..0b:~2..0b", [H, M, S]).

uptime(S) when S >= 86400 -> io_lib:format("~bd ~ts", [S div 86400, uptime(S rem 86400)]);
uptime(S) -> clock({S div 3600, S div 60 rem 60, S rem 60}).

pace(#{late := Late}) when Late > 0 -> io_lib:format("no answer for ~b s", [Late]);
pace(#{paused := true}) -> "paused";
pace(#{interval := Ms}) when Ms rem 1000 =:= 0 -> io_lib:format("every ~b s", [Ms div 1000]);
pace(#{interval := Ms}) -> io_lib:format("every ~b ms", [Ms]).

side(native) -> "native";
side({portable, Why}) -> ["portable: ", why(Why)].

why(Why) -> io_lib:format("~0tp", [Why]).

%% Rates per second since the sample before. The first sample has none.
rates(#{before := #{at := Then, counters := Was, times := Times},
        sample := #{head := #{at := Now, counters := Is} = Head}}) when Now > Then ->
    #{per_second => maps:map(fun(Key, N) ->
                                     max(0, N - map_get(Key, Was)) * 1000 div (Now - Then)
                             end, Is),
      usage => usage(Times, Head)};
rates(_) ->
    none.

usage(Before, #{times := Now, schedulers := N}) when length(Before) =:= length(Now), Now =/= [] ->
    [Share || {Id, Share} <- sonde_lib:scheduler_usage_diff(Before, Now), Id =< N];
usage(_, _) ->
    [].

work(#{run_queue := Queue}, none, Ms, _) ->
    join(["busy -", ["run queue ", count(Queue)], ["sweep ", ms(Ms)]]);
work(#{run_queue := Queue}, #{per_second := Rates, usage := Usage}, Ms, Style) ->
    Rate = fun(Key) -> map_get(Key, Rates) end,
    join([["busy ", busy(Usage, Style)], ["run queue ", count(Queue)], ["sweep ", ms(Ms)],
          ["reds ", count(Rate(reductions)), "/s"],
          ["gc ", count(Rate(collections)), "/s"],
          ["in ", bytes(Rate(input)), "/s"], ["out ", bytes(Rate(output)), "/s"]]).

busy([], _) -> "-";
busy(Usage, Style) ->
    [percent(lists:sum(Usage) / length(Usage)),
     [[" ", [bar(Share, Style) || Share <- Usage]] || length(Usage) =< ?MOST_BARS]].

ms(Ms) -> sonde_units:text(ms, Ms, false).
bytes(Bytes) -> sonde_units:text(bytes, Bytes, false).

%% 1234567 is 1.2M.
count(N) when N < 10000 -> integer_to_list(N);
count(N) -> scaled(N, 1000, "kMGTPE").

scaled(N, Size, [_ | [_ | _] = Units]) when N >= Size * 1000 - Size div 2 ->
    scaled(N, Size * 1000, Units);
scaled(N, Size, [Unit | _]) when N >= 10 * Size ->
    [integer_to_list((N + Size div 2) div Size), Unit];
scaled(N, Size, [Unit | _]) ->
    [io_lib:format("~.1f", [N / Size]), Unit].

%% ---- limits

limits(Limits, Style) ->
    Line = cut(join([limit(L) || L <- Limits]), Style),
    case lists:any(fun is_near/1, Limits) of
        true -> sonde_grid:red(Line, Style);
        false -> Line
    end.

limit({Kind, N, Limit} = Near) ->
    [atom_to_list(Kind), " ", count(N), "/", count(Limit), " ", percent(N / max(1, Limit)),
     case is_near(Near) of true -> "!"; false -> "" end].

is_near({_, N, Limit}) -> N * 100 > Limit * ?NEARLY.

%% ---- memory: three lines, a column for each kind

memory(#{memory := []}, _, Style) ->
    [cut("memory: this node's allocators keep no statistics", Style), "", ""];
memory(#{memory := Memory}, #{past := Past}, #{width := Width} = Style) ->
    Known = [Kind || Kind <- ?KINDS, lists:keymember(Kind, 1, Memory)],
    Kinds = lists:sublist(Known, Width div ?KIND_WIDTH),
    Column = fun(Text) -> string:pad(Text, ?KIND_WIDTH - 2, leading) end,
    Row = fun(Text) -> string:trim(join([Column(Text(Kind)) || Kind <- Kinds]), trailing) end,
    [Row(fun atom_to_list/1), Row(fun(Kind) -> bytes(proplists:get_value(Kind, Memory)) end),
     Row(fun(Kind) -> sparks(maps:get(Kind, Past, []), ?KIND_WIDTH - 2, Style) end)].

%% ---- the page

page(#{sample := none}, _) -> [];
page(#{page := help} = Model, Style) -> sonde_top_pages:lines(Model, Style);
page(#{page := Page} = Model, Style) ->
    case {sonde_top_model:is_shown(Model), Page} of
        {false, _} -> [cut("looking ...", Style)];
        {true, {procs, Order}} -> procs(Order, Model, Style);
        {true, _} -> sonde_top_pages:lines(Model, Style)
    end.

procs({How, Attr}, #{from := From, sample := #{body := #{rows := Rows} = Body}} = Model, Style) ->
    [bold(heading(How, Attr, Body, Model), Style)
     | [cut(sonde_top_text:missing({error, Why}), Style) || #{error := Why} <- [Body]]
     ++ table(How, Attr, lists:zip(lists:seq(From + 1, From + length(Rows)), Rows), Style)].

heading(How, Attr, Body, #{note := Note, find := Find, interval := Ms}) ->
    join(["processes by " ++ atom_to_list(Attr),
          case How of growth -> io_lib:format("grown in ~b ms", [Ms]); count -> "" end,
          case Body of
              #{left_out := N, missed := [_ | _] = Some} when N > 0 ->
                  ["not read: ", sonde_units:missed(N, Some)];
              #{left_out := N} when N > 0 -> [count(N), " could not be read in time"];
              _ -> ""
          end, case Find of "" -> ""; _ -> ["/", Find, " (calls: of the first 1,000)"] end, Note]).

table(How, Attr, Numbered, #{width := Width} = Style) ->
    Columns = columns(How, Attr, Width),
    sonde_top_text:table([Head || {Head, _} <- Columns],
                          [[Cell(N, Row, Style) || {_, Cell} <- Columns] || {N, Row} <- Numbered],
                          Style).

%% Headings are as wide as the usual values below them, so that columns do not move from one sample
%% to the next.
columns(How, Attr, Width) ->
    Number = fun(N, _, _) -> {number, integer_to_list(N)} end,
    Pid = fun(_, {Text, _, _, _}, _) -> {number, Text} end, % a pid must not be cut
    Value = fun(_, {_, V, _, _}, Style) -> value(Attr, V, Style) end,
    [{"  #", Number}, {string:pad("pid", 11, leading), Pid},
     {string:pad(short(How, Attr), 11, leading), Value}]
        ++ [{string:pad(Head, Wide, leading), told(I, Key)}
            || {I, Key, Head, Wide, From} <- [{1, memory, "memory", 10, 60},
                                              {2, message_queue_len, "messages", 8, 70},
                                              {3, reductions, "reductions", 13, 100}],
               Width >= From, {count, Key} =/= {How, Attr}]
        ++ [{{name, "name or initial call"}, fun name/3}, {"current function", fun current/3}].

short(How, Attr) ->
    {_, _, Short} = lists:keyfind(Attr, 2, sonde_top_keys:sorts()),
    case How of growth -> "+" ++ Short; count -> Short end.

told(I, Key) ->
    fun(_, {_, _, _, Cells}, Style) -> value(Key, lists:nth(I, Cells), Style) end.

name(_, {_, _, Attrs, _}, Style) ->
    sonde_top_text:known_by(Attrs, Style).

current(_, {_, _, Attrs, _}, Style) ->
    call(current_function, Attrs, Style).

call(Key, Attrs, #{unicode := Unicode}) ->
    case lists:keyfind(Key, 1, Attrs) of
        {_, undefined} -> {text, "-"};
        {_, Call} -> sonde_units:cell(Key, Call, Unicode);
        false -> {text, "-"}
    end.

%% ---- the keys; those that do not fit are in the help

keys(Model, #{width := Width} = Style) ->
    Others = ["q quit", "h help", "1.. row", "/ find", "u up"]
        ++ [[C, " ", sonde_top_text:escaped(Title, Style)] || {C, Title, _} <- sonde_top_model:own(Model)]
        ++ [[C, " ", Text] || {C, _, Text} <- sonde_top_keys:pages()] ++ ["< > rows", "p pause"],
    [cut(fitting(of_page(Model, Style), Width), Style), cut(fitting(Others, Width), Style)].

of_page(#{page := {Page, _}}, _) when Page =:= process; Page =:= links; Page =:= stack; Page =:= messages ->
    ["of this process:" | [[C, " ", Text] || {C, _, Text} <- sonde_top_keys:of_process()]] ++ ["a again"];
of_page(#{page := {tree, _}}, _) -> ["1.. that process", "a again"];
of_page(#{page := Page} = Model, Style) ->
    case {Page, sonde_top_model:own_keys(Model)} of
        {{own, _}, [_ | _] = Keys} -> by([[C, " ", sonde_top_text:escaped(Heading, Style)] || {C, Heading} <- Keys]);
        {{own, _}, _} -> [""];
        {{network, _}, Keys} ->
            {First, Others} = lists:split(6, [[C, " ", sonde_top_network:short(Attr)] || {C, Attr} <- Keys]),
            by(First ++ ["twice: growth" | Others]);
        {_, none} ->
            Sorts = [{C, Short} || {C, _, Short} <- sonde_top_keys:sorts()],
            by([[C, " ", proplists:get_value(C, Sorts)] || C <- "mnrbgxtwdloycksv"] ++ ["twice: growth"]);
        {_, Keys} ->
            by([[C, " ", sonde_top_text:name(Attr)] || {C, Attr} <- Keys])
    end.

by([First | Keys]) -> [["by: ", First] | Keys].

fitting(Parts, Width) -> hd(sonde_grid:fill(Parts, "  ", Width)).
