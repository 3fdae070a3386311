%% @doc Pages of your own in {@link sonde:top/1}: a module with the callback `page/1' makes the rows of one.
%%
%% ```
%% -module(my_pools).
%% -behaviour(sonde_top_page).
%% -export([page/1]).
%%
%% page(Before) ->
%%     Pools = my_pool:all(),                   % [{Name, Busy, Free, Bytes, Taken, Pid}]
%%     Taken = lists:sum([T || {_, _, _, _, T, _} <- Pools]),
%%     {#{lines => [["taken since the last sample: ", integer_to_list(Taken - Before)] || Before =/= undefined],
%%        columns => ["pool", {$b, "busy"}, {$f, "free"}, {$m, "memory"}, "owner"],
%%        rows => [[Name, Busy, Free, {bytes, Bytes}, Pid] || {Name, Busy, Free, Bytes, _, Pid} <- Pools]},
%%      Taken}.
%% '''
%%
%% `sonde:top(#{pages => [{$O, "pools", my_pools}]})' has this page behind the key `O'. Where the environment
%% of the application sonde has `{top_pages, [{$O, "pools", my_pools}]}', each view of that node has it.
%%
%% The callback runs on the node that is looked at, once for each sample while its page is shown, in a process of
%% its own, and is killed if it has not returned after 2 seconds. Its argument is what it returned with the page
%% before, or `undefined', and has at most 1 MB as a binary. If it fails, or returns something else, the page shows the
%% error. The rest of the view goes on.
%%
%% The first column names the rows. The letter of a column, which cannot be `a', `h', `i', `p', `q' or `u',
%% sorts by it: numbers from the largest, then texts from A on. Without one, rows stay as they come. A number that
%% is typed leads to the first local process or port in that row. `/text' looks at all cells.
-module(sonde_top_page).

-export([are_pages/1, configured/0, take/3, lines/4]).
-export_type([page/0, column/0, cell/0, own/0]).

-callback page(Before :: undefined | term()) -> {page(), State :: term()}.

%% `lines': text above the rows, at most 5 lines. Each row has a cell for each column.
-type page() :: #{columns := [column(), ...], rows := [[cell()]], lines => [unicode:chardata()]}.
-type column() :: Heading :: unicode:chardata() | {Letter :: char(), Heading :: unicode:chardata()}.
%% `usage': from 0.0 to 1.0. Terms of any other type are printed like in the shell, and cut.
-type cell() :: number() | {bytes | ms, integer()} | {usage, float()} | atom() | pid() | port() | unicode:chardata() | term().
%% A capital letter that has no other page, what the line of keys says (at most 20 characters), and the module, which
%% has no other page.
-type own() :: {Key :: char(), Title :: unicode:chardata(), module()}.
-type sort() :: char() | none.

-define(PATIENCE_MS, 2000).
-define(MOST_PAGES, 10).
-define(MOST_COLUMNS, 20).
-define(MOST_LINES, 5).
-define(LONGEST, 200).        % characters of a cell, and of a reason
-define(MOST_STATE, 1000000). % bytes
-define(TITLE, 20).
-define(TAKEN, "ahipqu").     % letters with a meaning on every page

%% @private
-spec are_pages(term()) -> boolean().
are_pages(Pages) ->
    is_list(Pages) andalso length(Pages) =< ?MOST_PAGES andalso lists:all(fun is_page/1, Pages)
        andalso lists:all(fun is_distinct/1, [[Key || {Key, _, _} <- Pages], [Module || {_, _, Module} <- Pages]]).

is_page({Key, Title, Module}) when is_integer(Key), Key >= $A, Key =< $Z, is_atom(Module) ->
    is_title(unicode:characters_to_list(Title))
        andalso not lists:any(fun(Keys) -> lists:keymember(Key, 1, Keys) end,
                              [sonde_top_keys:pages(), sonde_top_keys:of_process()]);
is_page(_) ->
    false.

is_title([_ | _] = Title) ->
    length(Title) =< ?TITLE andalso io_lib:printable_unicode_list(Title) andalso lists:min(Title) >= $\s;
is_title(_) ->
    false.

is_distinct(Keys) -> length(lists:usort(Keys)) =:= length(Keys).

%% @private
%% @doc Those that the node's own settings have.
-spec configured() -> [own()] | invalid.
configured() ->
    Pages = application:get_env(sonde, top_pages, []),
    try are_pages(Pages) of
        true -> Pages;
        false -> invalid
    catch
        error:badarg -> invalid   % an improper list, or a title that is no text
    end.

%% ---- on the node that is looked at

%% @private
-spec take(module(), sort(), sonde_top_sample:request()) -> #{failed := string()} | #{columns := list(), _ => _}.
take(Module, Sort, Request) ->
    Before = maps:get(state, Request, none),
    Asked = maps:remove(state, Request),
    try sonde_top_rows:within(?PATIENCE_MS, fun() -> made(Module, Before, Sort, Asked) end) of
        {ok, #{} = Body} -> Body;
        {ok, failed} -> failed(Module, "returned no page");
        unanswered -> failed(Module, "did not return in time")
    catch
        exit:Why -> failed(Module, ["ended: ", term(Why)]) % it was killed, or a process that it is linked to ended
    end.

failed(Module, Why) -> #{failed => lists:flatten([atom_to_list(Module), ":page/1 ", Why])}.

made(Module, Before, Sort, Request) ->
    case code:ensure_loaded(Module) =:= {module, Module} andalso erlang:function_exported(Module, page, 1) of
        true -> called(Module, Before, Sort, Request);
        false -> failed(Module, "is not on this node")
    end.

called(Module, Before, Sort, Request) ->
    try Module:page(state(Before)) of
        {#{columns := Columns, rows := Rows} = Page, State} ->
            Lines = maps:get(lines, Page, []),
            Kept = term_to_binary(State),
            case wrong(Columns, Rows, Lines, Kept) of
                none -> (body(Columns, Lines, Rows, Sort, Request))#{state => Kept};
                Wrong -> failed(Module, ["returned ", Wrong])
            end;
        _ ->
            failed(Module, "returned no page")
    catch
        Class:Why -> failed(Module, ["failed: ", term({Class, Why})])
    end.

%% Only this node reads it, so it may have pids and funs.
state(none) -> undefined;
state(Kept) -> binary_to_term(Kept).

wrong(Columns, _, _, _) when Columns =:= []; length(Columns) > ?MOST_COLUMNS ->
    [integer_to_list(length(Columns)), " columns"];
wrong(_, _, _, Kept) when byte_size(Kept) > ?MOST_STATE ->
    io_lib:format("~b bytes for its next call; the limit is ~b", [byte_size(Kept), ?MOST_STATE]);
wrong(_, _, [Line | _], _) when is_integer(Line) ->
    "lines that are no list of texts";
wrong(Columns, Rows, _, _) ->
    Keys = [Key || {Key, _} <- Columns],
    case {[Key || Key <- Keys, not is_letter(Key)], is_distinct(Keys)} of
        {[Key | _], _} -> ["a column with the letter ", case is_integer(Key) andalso Key > $\s andalso Key < 127 of
                                                            true -> [Key];
                                                            false -> term(Key)
                                                        end];
        {[], false} -> "a letter twice";
        {[], true} -> wrong_row(numbered(Rows), length(Columns))
    end.

wrong_row([{_, Row} | Rows], Count) when length(Row) =:= Count -> wrong_row(Rows, Count);
wrong_row([{I, _} | _], Count) -> io_lib:format("no list of ~b cells as row ~b", [Count, I]);
wrong_row([], _) -> none.

is_letter(Key) -> is_integer(Key) andalso Key >= $a andalso Key =< $z andalso not lists:member(Key, ?TAKEN).

numbered(Rows) -> lists:zip(lists:seq(1, length(Rows)), Rows).

body(Columns, Lines, Rows, Sort, Request) ->
    Find = maps:get(find, Request, ""),
    Shown = sonde_top_rows:shown([{behind(Row), Row} || Row <- sorted(Sort, Columns, Rows), is_found(Row, Find)], Request),
    #{columns => [column(Column) || Column <- Columns], lines => [line(Line) || Line <- lists:sublist(Lines, ?MOST_LINES)],
      rows => [{Behind, [cell(Cell) || Cell <- Row]} || {Behind, Row} <- Shown]}.

column({Key, Heading}) -> {Key, line(Heading)};
column(Heading) -> {none, line(Heading)}.

sorted(Sort, Columns, Rows) ->
    case [I || {I, {Key, _}} <- numbered(Columns), Key =:= Sort] of
        [I] -> [Row || {_, Row} <- lists:keysort(1, [{rank(lists:nth(I, Row)), Row} || Row <- Rows])];
        [] -> Rows
    end.

rank(N) when is_number(N) -> {1, -N};
rank({Unit, N}) when Unit =:= bytes; Unit =:= ms; Unit =:= usage -> rank(N);
rank(Other) -> {2, string:casefold(text(Other))}.

is_found(_, "") -> true;
is_found(Row, Find) -> lists:any(fun(Cell) -> sonde_top_rows:has(text(Cell), Find) end, Row).

behind(Row) ->
    case [Cell || Cell <- Row, is_pid(Cell) orelse is_port(Cell), node(Cell) =:= node()] of
        [First | _] -> text(First);
        [] -> none
    end.

text(Cell) -> {_, Text} = cell(Cell), Text.

%% Pids leave the node only as text.
cell(N) when is_number(N) -> known(count, N);
cell({Unit, N}) when is_number(N), Unit =:= bytes orelse Unit =:= ms orelse Unit =:= usage -> known(Unit, N);
cell(Name) when is_atom(Name) -> known(name, Name);
cell(Text) when is_binary(Text); is_list(Text) -> {text, line(Text)};
cell(Term) -> {text, term(Term)}.

known(Key, Value) ->
    {Kind, Text} = sonde_units:cell(Key, Value, true),
    {Kind, lists:flatten(Text)}.

%% A text as it is, another term as the shell prints it.
line(Text) ->
    try unicode:characters_to_list(Text) of
        [_ | _] = Chars ->
            case io_lib:printable_unicode_list(Chars) of
                true -> lists:sublist(Chars, ?LONGEST);
                false -> term(Text)
            end;
        [] -> "";
        _ -> term(Text)
    catch
        error:badarg -> term(Text)
    end.

%% Bounded, however large the term is.
term(Term) -> lists:sublist(unicode:characters_to_list(sonde_units:text(term, Term, true)), ?LONGEST).

%% ---- how it looks

%% @private
-spec lines(module(), sort(), sonde_top_model:model(), sonde_top_text:style()) ->
    {sonde_top_text:line(), [[sonde_top_text:line()]]}.
lines(Module, Sort, #{sample := #{body := Body}} = Model, #{width := Width} = Style) ->
    [Title] = [sonde_top_text:escaped(Title, Style) || {_, Title, Of} <- sonde_top_model:own(Model), Of =:= Module],
    case Body of
        #{columns := Columns, lines := Lines} ->
            {[Title, [[" by ", sonde_top_text:escaped(Heading, Style)] || {Key, Heading} <- Columns, Key =/= none, Key =:= Sort]],
             [[sonde_top_text:cut(sonde_top_text:escaped(Line, Style), Style)
               || Line <- lists:sublist(Lines, sonde_top_model:info(Model))],
              table(Columns, Model, Style)]};
        #{failed := Why} ->
            {Title, [[sonde_top_text:cut(Line, Style) || Line <- sonde_grid:fill(string:lexemes(sonde_top_text:escaped(Why, Style), " "), " ", Width)]]};
        _ ->
            {Title, [["the sonde of that node is older, and has no such pages"]]}
    end.

table([{_, Name} | Columns], #{from := From} = Model, Style) ->
    Text = fun(Chars) -> sonde_top_text:escaped(Chars, Style) end,
    case sonde_top_model:rows(Model) of
        [] -> ["no row"];
        Rows ->
            sonde_top_text:table(["  #", {name, Text(Name)} | [Text(Heading) || {_, Heading} <- Columns]],
                                 [[Number | [{Kind, Text(Chars)} || {Kind, Chars} <- Cells]]
                                  || {Number, {_, Cells}} <- sonde_top_text:numbered(From, Rows)], Style)
    end.
