%% @private
%% The pages of {@link sonde:top/1} about one process, beside the one with its heap: what it is
%% linked to and monitors, its stack, and what waits in its mailbox.
-module(sonde_top_related).

-export([take/3, lines/4]).
-export_type([what/0]).

-type what() :: links | stack | messages.

-define(PATIENCE_MS, 2500).   % more than the look
-define(MOST, 10000).         % of its links, and so on; a list of them is made
-define(LOOK, #{timeout => 2000, max_words => 200000000}).
-define(SHAPES, 100).

-spec take(what(), pid() | undefined, sonde_top_sample:request()) -> #{related := term(), _ => _}.
take(_, undefined, _) ->
    #{related => undefined};
take(What, Pid, Request) ->
    case sonde_top_rows:within(?PATIENCE_MS, fun() -> look(What, Pid, Request) end) of
        {ok, Related} when Related =/= failed -> #{related => Related};
        _ -> #{related => unanswered}
    end.

look(links, Pid, Request) ->
    Read = sonde_every_process:one(Pid, [link_count, monitor_count, monitored_by_count]),
    case {Read, process_info(Pid, parent)} of
        {{ok, Counts}, {parent, Parent}} ->
            Lists = lists:zip([links, monitors, monitored_by], Counts),
            Rows = [{Parent, parent, 1} || is_pid(Parent)]
                ++ lists:append([rows(Item, N, Pid) || {Item, N} <- Lists]),
            {Lists ++ [{not_listed, atom_to_list(relation(Item))} || {Item, N} <- Lists, N > ?MOST],
             [{id(Of), How, N, name(Of)}
              || {Of, How, N} <- sonde_top_rows:shown(found(Rows, Request), maps:remove(without, Request))]};
        _ ->
            undefined
    end;
look(stack, Pid, _) ->
    case process_info(Pid, current_stacktrace) of
        {current_stacktrace, Stack} ->
            {stack, [{{M, F, A}, place(Where)} || {M, F, A, Where} <- Stack]};
        undefined -> undefined
    end;
look(messages, Pid, _) ->
    case sonde_mailbox:mailbox(Pid, ?SHAPES, ?LOOK) of
        #{shapes := Shapes} = Mailbox ->
            First = [messages, bytes, binary_bytes, examined],
            {[{Key, map_get(Key, Mailbox)} || Key <- First]
             ++ maps:to_list(maps:without([shapes | First], Mailbox)),
             [{from(From), Messages, Bytes, Shape}
              || #{shape := Shape, messages := Messages, bytes := Bytes, from := From} <- Shapes]};
        Nothing ->
            Nothing
    end.

%% Those that are there several times have one row: a process that monitors another one again and
%% again is an error that nothing else shows.
rows(_, N, _) when N > ?MOST -> [];
rows(Item, _, Pid) ->
    case process_info(Pid, Item) of
        {_, Known} ->
            Counted = lists:reverse(lists:keysort(2, sonde_lib:count(Known))),
            [{Of, relation(Item), N} || {Of, N} <- Counted];
        undefined ->
            []
    end.

relation(links) -> linked;
relation(monitors) -> monitors;
relation(monitored_by) -> 'monitored by'.

found(Rows, Request) ->
    case maps:get(find, Request, "") of
        "" -> Rows;
        Find -> Wanted = {Find, sonde_top_rows:named(Find)},
                [Row || {Of, How, _} = Row <- Rows,
                        sonde_top_rows:is_found(Wanted, pid_of(Of), [id(Of), atom_to_list(How)])]
    end.

pid_of({process, Pid}) when is_pid(Pid) -> Pid;
pid_of(Pid) when is_pid(Pid) -> Pid;
pid_of(_) -> none.

id({process, {Name, Node}}) when Node =:= node() -> sonde_top_rows:text(Name);
id({_, Of}) when is_pid(Of); is_port(Of) -> id(Of);
id(Pid) when is_pid(Pid) -> pid_to_list(Pid);
id(Port) when is_port(Port) -> erlang:port_to_list(Port);
id(Other) -> sonde_top_rows:text(Other).

name(Of) ->
    case pid_of(Of) of
        Pid when is_pid(Pid), node(Pid) =:= node() ->
            case sonde_attr:call_site(Pid) of
                {ok, Attrs} -> sonde_origin:attrs(Pid, lists:keydelete(current_function, 1, Attrs));
                _ -> []
            end;
        _ -> []
    end.

place(Where) ->
    case {proplists:get_value(file, Where), proplists:get_value(line, Where)} of
        {File, Line} when is_list(File), is_integer(Line) -> lists:concat([File, ":", Line]);
        _ -> ""
    end.

from(Pid) when is_pid(Pid) -> pid_to_list(Pid);
from(undefined) -> "-".

%% ---- how they look

-spec lines(what(), string(), sonde_top_model:model(), sonde_top_text:style()) ->
    {sonde_top_text:line(), [[sonde_top_text:line()]]}.
lines(What, Pid, Model, Style) ->
    {[title(What), Pid], blocks(What, related(What, Model), Model, Style)}.

related(messages, Model) ->
    case sonde_top_model:deep(Model) of
        none -> looking;
        #{related := Related} -> Related
    end;
related(_, #{sample := #{body := #{related := Related}}}) ->
    Related.

blocks(_, looking, _, _) ->
    [["looking ..."]];
blocks(What, {Known, _}, Model, Style) when is_list(Known) ->
    [lists:sublist(sonde_top_text:pairs(Known, Style), sonde_top_model:info(Model)),
     table(What, Model, Style)];
blocks(What, {stack, _}, Model, Style) ->
    [table(What, Model, Style)];
blocks(_, Nothing, _, Style) ->
    [[sonde_top_text:cut(sonde_top_text:missing(Nothing), Style)]].

title(links) -> "links and monitors of ";
title(stack) -> "stack of ";
title(messages) -> "mailbox of ".

table(What, #{from := From} = Model, Style) ->
    sonde_top_text:table(["  #" | heads(What)],
                         [[Number | cells(What, Row, Style)]
                          || {Number, Row} <- sonde_top_text:numbered(From, sonde_top_model:rows(Model))],
                         Style).

heads(links) -> ["process or port", "relation", "times", {name, "name or initial call"}];
heads(stack) -> ["function", "line"];
heads(messages) -> ["messages", "     bytes", {name, "shape"}, "sender of one"].

cells(links, {Id, How, N, Attrs}, Style) ->
    [{text, Id}, {text, atom_to_list(How)}, sonde_top_text:value(times, N, Style),
     sonde_top_text:known_by(Attrs, Style)];
cells(stack, {Call, Where}, Style) ->
    [sonde_top_text:value(current_function, Call, Style), {text, Where}];
cells(messages, {From, Messages, Bytes, Shape}, Style) ->
    [sonde_top_text:value(messages, Messages, Style), sonde_top_text:value(bytes, Bytes, Style),
     sonde_top_text:value(shape, Shape, Style), {text, From}].
