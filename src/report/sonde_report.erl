%% @private
%% {@link sonde:report/2}: one HTML file with all that sonde knows of a node. The page is
%% `priv/report.html', with a place for the data; the browser draws. The data come from this node, or
%% from another one that has sonde; the file is always written here.
-module(sonde_report).

-export([write/2, write/3, printed/2, options/0, page/1, page_file/0, built/1]).
-export_type([opts/0, written/0, error/0]).

-type opts() :: #{force => boolean(), content => boolean(), interval => Ms :: pos_integer(),
                  top => pos_integer(), timeout => Ms :: pos_integer(), node => node(),
                  watcher => sonde_watch:watcher()}.
-type written() :: #{bytes := non_neg_integer(), ms := non_neg_integer(),
                     missing | incomplete := [{Section :: binary(), Why :: binary()}]}.
-type error() :: content_forbidden | timeout | no_page | too_large | file:posix()
               | {node(), noconnection | no_sonde | timeout | term()}.

-define(PLACE, <<"@SONDE-DATA@">>).
-define(MOST_BYTES, 2000000).  % of the file
-define(CALL_MS, 10000).       % beyond the time that the sections may take
-define(MOST_MS, 3600000).

%% @doc Writes the file. Bad options raise `badarg' before anything is done.
-spec write(file:name_all(), opts()) -> {ok, written()} | {error, error()}.
write(File, Given) -> write(File, Given, here).

%% @doc The same, with sections from elsewhere.
-spec write(file:name_all(), opts(), here | sonde_report_data:source()) -> {ok, written()} | {error, error()}.
write(File, Given, Source) ->
    #{force := Force} = Opts = sonde_opts:read(Given, options()),
    Name = sonde_private_file:name(File),
    case sonde_private_file:write(Name, Force, fun(Caller) -> open(Opts, Source, Caller) end) of
        {ok, #{bytes := _, ms := _, missing := _, incomplete := _} = Written} ->
            {ok, maps:with([bytes, ms, missing, incomplete], Written)};
        {error, _} = Error ->
            Error
    end.

%% @doc The page itself instead of a file. Page and JSON are ASCII, so each device prints it as it is, whatever its encoding.
-spec printed(opts(), here | sonde_report_data:source()) -> {ok, #{page := binary(), missing | incomplete := list()}} | {error, error()}.
printed(Given, Source) ->
    Opts = sonde_opts:read(Given, options()),
    case sonde_helper:call(fun(Caller) -> page(Opts, Source, Caller) end) of
        {ok, Page, Lacks} -> {ok, Lacks#{page => iolist_to_binary(Page)}};
        {error, _} = Error -> Error
    end.

-spec options() -> sonde_opts:known().
options() ->
    maps:merge(maps:remove(version, sonde_report_data:options()),
               #{force => sonde_opts:flag(false), node => {node(), fun is_atom/1},
                 timeout => {60000, fun(Ms) -> sonde_opts:is_positive(Ms) andalso Ms =< ?MOST_MS end}}).

open(Opts, Source, Caller) ->
    case page(Opts, Source, Caller) of
        {ok, Page, Lacks} -> {ok, pieces([{data, Page}, {done, Lacks}])};
        {error, _} = Error -> Error
    end.

%% The page is read first: without it, there is no report, and no process is read.
page(Opts, Source, Caller) ->
    case page(fun page_file/0) of
        {ok, Page} ->
            case data(maps:without([force], Opts), Source, Caller) of
                {ok, #{json := Json} = Data} -> filled(Page, Json, maps:with([missing, incomplete], Data));
                {error, _} = Error -> Error
            end;
        {error, _} = Error ->
            Error
    end.

filled({Before, After}, Json, Lacks) ->
    Page = [Before, sonde_report_data:quoted(Json), After], % the head, and what an older node sends
    case iolist_size(Page) of
        Bytes when Bytes > ?MOST_BYTES -> {error, too_large};
        _ -> {ok, Page, Lacks}
    end.

%% Called in one process, until `done'.
pieces(Pieces) ->
    Key = make_ref(),
    _ = put(Key, Pieces),
    fun() ->
            [Piece | Rest] = get(Key),
            _ = case Rest of [] -> erase(Key); _ -> put(Key, Rest) end,
            Piece
    end.

%% ---- the page

%% @doc What stands before and after the data.
-spec page(fun(() -> {ok, binary()} | error)) -> {ok, {binary(), binary()}} | {error, no_page}.
page(Read) ->
    case Read() of
        {ok, Html} ->
            case binary:split(Html, ?PLACE) of
                [Before, After] -> {ok, {Before, After}};
                _ -> {error, no_page}
            end;
        error ->
            {error, no_page}
    end.

%% @doc The page, from the folder or from inside the command.
-spec page_file() -> {ok, binary()} | error.
page_file() ->
    case built("report.html") of
        {ok, _} = Page -> Page;
        error -> sonde_bundle:page()
    end.

%% @doc A page of priv. A node onto which sonde was loaded has none.
-spec built(file:name()) -> {ok, binary()} | error.
built(Name) ->
    Beside = case code:which(?MODULE) of
                 File when is_list(File) ->
                     filename:join([filename:dirname(filename:dirname(File)), "priv", Name]);
                 _ ->
                     Name
             end,
    case file:read_file(Beside) of
        {ok, _} = Page -> Page;
        {error, _} -> error
    end.

%% ---- the data

data(#{node := Node, timeout := Ms} = Opts, Source, Caller) ->
    Ask = (maps:without([node], Opts))#{version => sonde_bundle:version()},
    Get = case Node =:= node() of
              true -> fun(_) -> sonde_report_data:json(Ask, Source) end;
              false -> fun(_) -> there(Node, Ask, Ms + ?CALL_MS) end
          end,
    Until = erlang:monotonic_time(millisecond) + Ms + 2 * ?CALL_MS,
    case sonde_helper:jobs(fun(Job) -> sonde_helper:job(Get, Job) end, fun(_, Answer, _) -> Answer end,
                           none, [all], #{in_flight => 1, until => Until, caller => Caller}) of
        unanswered -> {error, {Node, timeout}};
        {ok, #{json := Json, missing := _, incomplete := _}} = Data when is_binary(Json) -> Data;
        {error, Why} when Why =:= content_forbidden; Why =:= timeout; is_tuple(Why) -> {error, Why};
        _ -> {error, {Node, bad_answer}}
    end.

there(Node, Ask, Ms) ->
    {Module, Function} = sonde_remote_name:on(Node, sonde_report_data, json),
    try
        erpc:call(Node, Module, Function, [Ask], Ms)
    catch
        error:{erpc, Why} -> {error, {Node, Why}};
        error:{exception, undef, _} -> {error, {Node, no_sonde}};
        error:{exception, Why, _} -> {error, {Node, Why}}
    end.
