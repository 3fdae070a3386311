%% @private
%% The page of a supervision tree of {@link sonde:top/1}: the processes below an application or a
%% process, with sizes. A child is a process that is linked to another one and was started by it. No
%% supervisor is called: one that waits for its child, or for ever, is shown as well as any other.
-module(sonde_top_tree).

-export([take/1, texts/1, lines/3]).
-export_type([row/0]).

-type row() :: {Pid :: string(), Depth :: non_neg_integer(), what(),
                Memory :: non_neg_integer() | undefined, Below :: non_neg_integer() | undefined,
                Messages :: non_neg_integer() | undefined, Children :: non_neg_integer() | undefined}.
-type what() :: [atom() | {initial_call, mfa() | undefined}] % a process
              | unanswered                   % it may be a child, or not
              | {more, pos_integer()}        % that are linked, and not looked at one by one
              | {links, pos_integer()}.      % too many to read

-define(MOST, 1000).          % processes that are asked
-define(MOST_CHILDREN, 200).  % of them, below one process
-define(MOST_LINKS, 100000).  % of one process; a list of them is made
-define(AT_ONCE, 1000).       % pids that one scan takes
-define(PATIENCE_MS, 2000).
-define(INDENTED, 20).        % levels

%% ---- on the node

%% @doc Of an application, or of a process, by their texts.
-spec take(string()) -> #{nodes := [row()] | {error, atom()}}.
take(Text) ->
    case root(Text) of
        {error, _} = Error -> #{nodes => Error};
        Root -> sonde_helper:call(fun(Caller) ->
                    walked(Root, {sonde_top_rows:until(?PATIENCE_MS), Caller})
                end)
    end.

root([$< | _] = Text) ->
    case sonde_top_rows:pid(Text) of
        undefined -> {error, no_such_process};
        Pid -> Pid
    end;
root(Text) ->
    case [App || {App, _, _} <- application:loaded_applications(), atom_to_list(App) =:= Text] of
        [App] -> master(application_controller:get_master(App));
        [] -> {error, no_such_application}
    end.

master(undefined) -> {error, no_processes};
master(Pid) -> Pid.

walked(Root, How) ->
    case asked([Root], #{}, How) of
        #{Root := #{}} = Found ->
            {_, Rows} = rows(Root, 0, levels([Root], Found#{Root := in_tree(Root, Found)}, How)),
            #{nodes => Rows};
        #{Root := unanswered} ->
            #{nodes => {error, unanswered}};
        _ ->
            #{nodes => {error, no_such_process}}
    end.

%% One level of the tree after the other, so that what is left out is far from the root. Each process
%% is asked once; one that is linked to several is a child of the one that started it.
levels([], Found, _) ->
    Found;
levels(Level, Found, How) ->
    {New, Marked} = lists:foldl(fun candidates/2, {[], Found}, Level),
    {Next, Known} = lists:foldl(fun children/2, {[], asked(New, Marked, How)}, Level),
    levels(lists:reverse(Next), Known, How).

asked(Pids, Found, How) ->
    sonde_top_rows:ask([{Pid, fun() -> about(Pid) end} || Pid <- Pids],
                       fun(Pid, {ok, #{} = Known}, Acc) -> Acc#{Pid => Known};
                          (Pid, {ok, _}, Acc) -> Acc#{Pid => gone};
                          (Pid, unanswered, Acc) -> Acc#{Pid => unanswered}
                       end, Found, How).

candidates(Pid, {New, Found}) ->
    case Found of
        #{Pid := #{links := Links} = Known} when is_list(Links) ->
            {Old, Unknown} = lists:partition(fun(Link) -> is_map_key(Link, Found) end, Links),
            {Few, More} = split(min(?MOST_CHILDREN, ?MOST - map_size(Found)), Unknown),
            Marked = lists:foldl(fun(Link, F) -> F#{Link => unanswered} end, Found, Few),
            {Few ++ New, Marked#{Pid := Known#{links := Few ++ Old, few => Few, more => more(More)}}};
        _ ->
            {New, Found}
    end.

split(N, List) when N > 0, length(List) > N -> lists:split(N, List);
split(N, List) when N > 0 -> {List, []};
split(_, List) -> {[], List}.

children(Pid, {Next, Found}) ->
    #{Pid := #{links := Links} = Known} = Found,
    Children = [Link || is_list(Links), Link <- Links, is_child(Link, Pid, Found)],
    Marked = lists:foldl(fun(Child, F) -> F#{Child := in_tree(Child, F)} end, Found, Children),
    {lists:reverse(Children) ++ Next, Marked#{Pid := Known#{children => Children}}}.

is_child(Link, Pid, Found) ->
    case Found of
        #{Link := #{parent := Pid, is_in_tree := false}} -> true;
        _ -> false
    end.

in_tree(Pid, Found) -> (map_get(Pid, Found))#{is_in_tree := true}.

%% On the native path they are read without asking them.
more([]) -> none;
more(Pids) ->
    case glance(Pids, []) of
        unknown -> {length(Pids), undefined, undefined};
        Read -> {length(Pids), lists:sum([Memory || {_, [Memory, _]} <- Read]),
                 lists:sum([Messages || {_, [_, Messages]} <- Read])}
    end.

glance([], Read) ->
    Read;
glance(Pids, Read) ->
    {Some, Rest} = split(?AT_ONCE, Pids),
    case sonde_every_process:glance(Some, [memory, message_queue_len], fun(_) -> unknown end) of
        unknown -> unknown;
        More -> glance(Rest, More ++ Read)
    end.

about(Pid) ->
    case sonde_every_process:one(Pid, [memory, message_queue_len, link_count]) of
        {ok, [Memory, Messages, Links]} ->
            Items = [registered_name, initial_call, parent | [links || Links =< ?MOST_LINKS]],
            about(process_info(Pid, Items), Pid, #{memory => Memory, messages => Messages,
                                                   links => Links, is_in_tree => false});
        undefined ->
            gone
    end.

about([{registered_name, Name}, {initial_call, _} = Call, {parent, Parent} | Links], Pid, Known) ->
    Local = [[Link || Link <- All, is_pid(Link), node(Link) =:= node()] || {links, All} <- Links],
    Known#{attrs => [Name || Name =/= []] ++ sonde_origin:attrs(Pid, [Call]) ++ sonde_top_rows:labelled(Pid), parent => Parent,
           links := hd(Local ++ [map_get(links, Known)])};
about(undefined, _, _) ->
    gone.

%% ---- rows: a process, and below it its children, the largest first

rows(Pid, Depth, Found) ->
    #{Pid := #{memory := Memory, messages := Messages, attrs := Attrs,
               children := Children} = Known} = Found,
    Below = lists:reverse(lists:keysort(1, [rows(Child, Depth + 1, Found) || Child <- Children])),
    Silent = [{pid_to_list(Link), Depth + 1, unanswered, undefined, undefined, undefined, undefined}
              || Link <- maps:get(few, Known, []), unanswered =:= map_get(Link, Found)],
    {More, Bytes} = more_row(Known, Depth + 1),
    Sum = Memory + Bytes + lists:sum([Its || {Its, _} <- Below]),
    {Sum, [{pid_to_list(Pid), Depth, Attrs, Memory, Sum, Messages, length(Children)}
           | lists:append([Rows || {_, Rows} <- Below]) ++ Silent ++ More]}.

more_row(#{more := {N, undefined, _}}, Depth) ->
    {[{"", Depth, {more, N}, undefined, undefined, undefined, undefined}], 0};
more_row(#{more := {N, Bytes, Messages}}, Depth) ->
    {[{"", Depth, {more, N}, undefined, Bytes, Messages, undefined}], Bytes};
more_row(#{links := N}, Depth) when is_integer(N) ->
    {[{"", Depth, {links, N}, undefined, undefined, undefined, undefined}], 0};
more_row(_, _) ->
    {[], 0}.

%% ---- how it looks

%% @doc The texts of a row that a search looks at.
-spec texts(row()) -> [unicode:chardata()].
texts({Pid, _, Attrs, _, _, _, _}) when is_list(Attrs) ->
    {_, Text} = sonde_top_text:known_by(Attrs, #{width => 80, unicode => true, color => false}),
    [Pid, Text];
texts({Pid, _, _, _, _, _, _}) ->
    [Pid].

-spec lines(string(), sonde_top_model:model(), sonde_top_text:style()) ->
    {sonde_top_text:line(), [[sonde_top_text:line()]]}.
lines(Text, Model, Style) ->
    case sonde_top_model:deep(Model) of
        none -> {["tree of ", Text, "  looking ..."], []};
        #{nodes := {error, Why}} -> {["tree of ", Text],
                                     [[sonde_top_text:cut(why(Why), Style)]]};
        #{nodes := Nodes} -> {["tree of ", Text, sonde_top_text:once(), left_out(Nodes, Style)],
                              [table(Model, Style)]}
    end.

why(no_such_application) -> "no such application is loaded";
why(no_processes) -> "it has no processes of its own, or does not run";
why(no_such_process) -> "it is gone";
why(unanswered) -> sonde_top_text:missing(unanswered).

left_out(Nodes, Style) ->
    More = lists:sum([N || {_, _, {How, N}, _, _, _, _} <- Nodes, How =:= more orelse How =:= links]),
    Silent = length([Row || {_, _, unanswered, _, _, _, _} = Row <- Nodes]),
    [[["  left out: ", sonde_top_text:text(count, More, Style)] || More > 0],
     [["  no answer: ", integer_to_list(Silent)] || Silent > 0]].

table(#{from := From} = Model, #{width := Width} = Style) ->
    Wide = Width >= 95,
    sonde_top_text:table(
      ["  #", string:pad("pid", 10, leading), string:pad("and below", 10, leading)]
      ++ [string:pad("memory", 10, leading) || Wide] ++ ["messages"] ++ ["children" || Wide]
      ++ [{name, "name or initial call"}],
      [[Number, {number, Pid}, sonde_top_text:value(memory, Below, Style)]
       ++ [sonde_top_text:value(memory, Memory, Style) || Wide]
       ++ [sonde_top_text:value(messages, Messages, Style)]
       ++ [sonde_top_text:value(children, Children, Style) || Wide]
       ++ [{text, [lists:duplicate(2 * min(Depth, ?INDENTED), $\s), what(What, Style)]}]
       || {Number, {Pid, Depth, What, Memory, Below, Messages, Children}}
              <- sonde_top_text:numbered(From, sonde_top_model:rows(Model))], Style).

what(unanswered, _) -> "did not answer";
what({more, N}, Style) -> ["... ", sonde_top_text:text(count, N, Style), " more, linked to it"];
what({links, N}, Style) -> ["... ", sonde_top_text:text(count, N, Style), " links, not followed"];
what(Attrs, Style) ->
    {_, Text} = sonde_top_text:known_by(Attrs, Style),
    Text.
