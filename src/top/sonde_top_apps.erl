%% @private
%% The page of applications of {@link sonde:top/1}: the totals of their processes.
-module(sonde_top_apps).

-export([take/0, sorted/2, tree/1, lines/3]).
-export_type([attr/0, row/0]).

-type attr() :: memory | message_queue_len | reductions | binary_memory | processes.
-type status() :: loading | loaded | starting | started | unknown.
-type row() :: {Name :: string(), Version :: string(), status(), Processes :: non_neg_integer(),
                [{sonde_attr:attr(), non_neg_integer()}]}.

-define(ATTRS, [memory, message_queue_len, reductions, binary_memory]).
-define(MOST, 100000).
-define(ASK_MS, 500).
-define(NONE, "(none)").      % of processes that belong to no application

%% @doc All applications that are loaded, those without a process too. On the portable path, each
%% process is asked for its group leader, by which Erlang knows its application.
-spec take() -> #{apps := [row()] | {error, term()}}.
take() ->
    Versions = [{App, Version} || {App, _, Version} <- application:loaded_applications()],
    Grouped = fun() -> sonde_group:group(application, ?ATTRS, #{max_groups => ?MOST}) end,
    #{apps => case sonde_top_rows:native(Grouped) of
                  {error, _} = Error ->
                      Error;
                  Groups ->
                      Seen = maps:from_list([{App, true} || {App, _, _} <- Groups]),
                      Told = told(),
                      [row(Group, Versions, Told) || Group <- Groups]
                          ++ [row({App, 0, [{Attr, 0} || Attr <- ?ATTRS]}, Versions, Told)
                              || {App, _} <- Versions, not is_map_key(App, Seen)]
              end}.

%% An application can be in several lists: the last one counts. If the controller does not answer in time, the status is
%% unknown.
told() ->
    case sonde_top_rows:native(fun() -> sonde_top_rows:within(?ASK_MS, fun application:info/0) end) of
        {ok, Info} when is_list(Info) ->
            maps:from_list([{element(1, App), Status}
                            || {Status, Key} <- [{loaded, loaded}, {loading, loading}, {starting, starting}, {started, started}],
                               App <- proplists:get_value(Key, Info, [])]);
        _ ->
            #{}
    end.

row({undefined, Processes, Totals}, _, _) ->
    {?NONE, "", unknown, Processes, Totals};
row({App, Processes, Totals}, Versions, Told) ->
    {atom_to_list(App), version(proplists:get_value(App, Versions, "")), maps:get(App, Told, unknown), Processes, Totals}.

%% It is what the file of the application has.
version(Version) ->
    case io_lib:printable_unicode_list(Version) of
        true -> Version;
        false -> sonde_top_rows:text(Version)
    end.

-spec sorted(attr(), [row()]) -> [row()].
sorted(Attr, Rows) ->
    lists:sort(fun(A, B) -> {-value(Attr, A), A} =< {-value(Attr, B), B} end, Rows).

value(processes, {_, _, _, Processes, _}) -> Processes;
value(Attr, {_, _, _, _, Totals}) -> proplists:get_value(Attr, Totals).

%% @doc The page behind a row.
-spec tree(row()) -> {tree, string()} | none.
tree({?NONE, _, _, _, _}) -> none;
tree({App, _, _, _, _}) -> {tree, App}.

-spec lines(attr(), sonde_top_model:model(), sonde_top_text:style()) ->
    {sonde_top_text:line(), [[sonde_top_text:line()]]}.
lines(Attr, #{from := From} = Model, #{width := Width} = Style) ->
    Title = ["applications by ", atom_to_list(Attr)],
    case sonde_top_model:deep(Model) of
        #{apps := {error, _} = Error} ->
            {Title, [[sonde_top_text:cut(sonde_top_text:missing(Error), Style)]]};
        #{apps := _} ->
            Columns = [{processes, "processes", 0}, {memory, "    memory", 0},
                       {message_queue_len, "  messages", 50}, {binary_memory, "  binaries", 60},
                       {reductions, "   reductions", 90}],
            Kept = [Column || {_, _, Least} = Column <- Columns, Width >= Least],
            {[Title, sonde_top_text:once()],
             [sonde_top_text:table(
                ["  #" | [Head || {_, Head, _} <- Kept]] ++ [{name, "application"}, "version", "status"],
                [[Number | [sonde_top_text:value(Key, value(Key, Row), Style) || {Key, _, _} <- Kept]]
                 ++ [{text, element(1, Row)}, {text, element(2, Row)}, {text, status(element(3, Row))}]
                 || {Number, Row} <- sonde_top_text:numbered(From, sonde_top_model:rows(Model))], Style)]};
        none ->
            {[Title, "  looking ..."], []}
    end.

status(unknown) -> "";
status(Status) -> atom_to_list(Status).
