%% @private
%% What the command prints: answers, and in one line each, failures and what was not read.
-module(sonde_cli_answer).

-export([put_text/1, complain/1, good/1, ok/1, failed/1]).
-export([answer/2, show/6, picture/3, not_read/2, format/1, wait/1]).
-export([of_file/3, reported_to/4, not_in_it/2, with_missing/1]).
-export_type([opts/0, command/0]).

-type opts() :: #{atom() => term()}.
-type command() :: #{run := atom() | {sonde, atom()}, atom() => term()}.

-define(DONE, 0).
-define(CALL_MS, 60000).

-spec put_text(unicode:chardata()) -> 0.
put_text(Text) ->
    io:put_chars(Text),
    ?DONE.

%% @doc Always one line.
-spec complain(unicode:chardata()) -> ok.
complain(Text) ->
    Line = re:replace(unicode:characters_to_binary(["sonde: ", Text]), "\\s+", " ",
                      [global, unicode, {return, binary}]),
    io:put_chars(standard_error, [Line, $\n]).

-spec good({error, unicode:chardata()} | Good) -> Good.
good({error, Text}) -> failed(Text);
good(Good) -> Good.

-spec failed(unicode:chardata()) -> no_return().
failed(Text) ->
    throw({failed, Text}).

-spec ok({ok, Result}) -> Result.
ok({ok, Result}) -> Result.

%% ---- answers

%% @doc The answer, unless it says why there is none.
-spec answer(Answer, atom()) -> Answer.
answer(Answer, Function) ->
    case sonde_cli_errors:answer(Answer, Function) of
        answer -> Answer;
        {failed, Text} -> failed(Text)
    end.

-spec show(node(), command(), [term()], term(), map(), opts()) -> 0.
show(Node, #{run := {sonde, stacks}}, _, Rows, Report, #{collapsed := true} = Opts) ->
    Done = put_text(sonde_stacks:collapsed(Rows)),
    not_read(sonde_cli_show:as_there(Report, Node), Opts),
    Done;
show(Node, #{run := {sonde, stacks}}, _, Rows, Report, #{svg := File} = Opts) ->
    ok = picture(File, sonde_stacks:flame(Rows), Opts),
    not_read(sonde_cli_show:as_there(Report, Node), Opts),
    ?DONE;
show(Node, Command, Args, Answer, Report, Opts) ->
    [Shown, Said] = [sonde_cli_show:as_there(Part, Node) || Part <- [Answer, Report]],
    ok = sonde_cli_show:show(format(Opts), Command, Args, Shown, Said),
    _ = [not_read(Part, Opts) || Part <- [Shown, Said]],
    ?DONE.

-spec picture(file:filename(), unicode:chardata(), opts()) -> ok.
picture("-", Svg, _) ->
    io:put_chars(Svg);
picture(File, Svg, Opts) ->
    Bytes = unicode:characters_to_binary(Svg),
    Once = fun() ->
                   case erase(picture) of
                       undefined -> {done, #{bytes => byte_size(Bytes)}};
                       Left -> {data, Left}
                   end
           end,
    case sonde_private_file:write(File, maps:get(force, Opts, false), fun(_) -> _ = put(picture, Bytes), {ok, Once} end) of
        {ok, _} -> ok;
        {error, Why} -> failed([File, ": ", file:format_error(Why)])
    end.

%% @doc Says what was not read.
-spec not_read(term(), opts()) -> ok.
not_read(Report, Opts) ->
    lists:foreach(fun complain/1, sonde_cli_errors:missed(Report, Opts)).

-spec format(opts()) -> json | text.
format(#{json := true}) -> json;
format(_) -> text.

%% @doc How long an answer may take, in milliseconds.
-spec wait(opts()) -> pos_integer().
wait(Opts) -> maps:get(timeout, Opts, ?CALL_MS).

%% ---- files

%% @doc An error of the file names it.
-spec of_file(file:filename(), term(), Text) -> Text | [unicode:chardata()].
of_file(File, Posix, _) when Posix =:= eexist; Posix =:= enoent; Posix =:= eacces; Posix =:= eisdir; Posix =:= enotdir;
                             Posix =:= enospc; Posix =:= erofs ->
    [File, ": ", file:format_error(Posix)];
of_file(_, _, Text) ->
    Text.

%% @doc The page has the standard output for itself.
-spec reported_to(command(), unicode:chardata(), map(), opts()) -> 0.
reported_to(_, Before, #{page := Page} = Written, _) ->
    ok = not_in_it(Before, Written),
    put_text(Page);
reported_to(Command, Before, Written, Opts) ->
    ok = not_in_it(Before, Written),
    Shown = case format(Opts) of
                json -> with_missing(Written);
                text -> maps:without([missing, incomplete], Written)
            end,
    ok = sonde_cli_show:show(format(Opts), Command, [], Shown, #{}),
    ?DONE.

%% @doc Says which sections a report lacks; `Before' names the node where there are several.
-spec not_in_it(unicode:chardata(), map()) -> ok.
not_in_it(Before, #{missing := Missing, incomplete := Cut}) ->
    _ = [complain([Before, What, " in the report: ", Section, ": ", Why])
         || {What, Sections} <- [{"missing", Missing}, {"not complete", Cut}], {Section, Why} <- Sections],
    ok.

-spec with_missing(map()) -> map().
with_missing(#{missing := Missing, incomplete := Cut} = Written) ->
    Each = fun(Sections) -> [#{section => S, why => W} || {S, W} <- Sections] end,
    Written#{missing := Each(Missing), incomplete := Each(Cut)}.

