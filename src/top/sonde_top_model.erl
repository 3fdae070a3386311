%% @private
%% The state of {@link sonde:top/1}: the page, its order, and the samples so far. It uses no
%% terminal and no clock: actions and samples go in, and requests for samples come out.
-module(sonde_top_model).

-export([new/1, size/3, request/1, key/2, sampled/2, room/1, deep/1, rows/1, info/1,
         is_shown/1, own/1, own_keys/1]).
-export_type([model/0]).

-type model() ::
        #{interval := pos_integer(), most := pos_integer() | auto,
          width := pos_integer(), height := pos_integer(),
          page := sonde_top_sample:page() | help,
          sort := sonde_top_sample:order(),           % of the page of processes
          own := [sonde_top_page:own()] | auto,       % pages of someone's own; auto: those of the node
          states := #{module() => binary()},          % what such pages returned, for their next samples
          from := non_neg_integer(),                  % rows that come before those on the page
          find := string(),                           % only rows with this text
          back := [{sonde_top_sample:page() | help, non_neg_integer(), string()}],
          trail := {Pid :: string(), [{sonde_attr:attr(), [number()]}]} | none,
          paused := boolean(), note := string(),
          late := non_neg_integer(),                  % seconds without an answer, where these are too many
          sample := sonde_top_sample:sample() | none, % the last one
          before := sonde_top_sample:head() | none,   % the head of the sample before it
          past := #{atom() => [non_neg_integer()]},   % memory by kind, the latest first
          deep := {term(), map()} | none}.            % what is expensive, and for which page
%% Lines around the rows of the page of processes: six of the header, two headings, two of keys, and
%% the line in which the person types.
-define(AROUND, 11).
-define(PAST, 60).
-define(MOST_BACK, 20).
-define(MOST_SYSTEM, 1000).     % lines of the page of the system, and more
-define(LEAST_MS, 1000).
-define(MOST_MS, 3600000).

-spec new(#{interval := pos_integer(), rows := pos_integer() | auto, sort := term(),
            atom() => term()}) -> model().
new(#{interval := Ms, rows := Most, sort := Sort} = Opts) ->
    Order = case Sort of
                {growth, _} -> Sort;
                Attr -> {count, Attr}
            end,
    #{interval => Ms, most => Most, width => 80, height => 24, page => {procs, Order},
      sort => Order, own => maps:get(pages, Opts, auto), states => #{}, from => 0, find => "", back => [], paused => false, note => "", sample => none,
      before => none, past => #{}, trail => none, deep => none, late => 0}.

-spec size(pos_integer(), pos_integer(), model()) -> model().
size(Width, Height, Model) ->
    Model#{width => Width, height => Height}.

%% @doc How many rows fit on a page.
-spec room(model()) -> pos_integer().
room(#{height := Height, most := auto} = Model) -> max(1, Height - ?AROUND - info(Model));
room(#{most := Most} = Model) -> min(room(Model#{most := auto}), Most).

%% @doc How many lines the page has above its rows; none on a low terminal.
-spec info(model()) -> non_neg_integer().
info(#{page := {own, _}, sample := #{body := #{lines := Lines}}} = Model) ->
    fitting(length(Lines), Model);
info(#{page := {Page, _}} = Model) ->
    fitting(maps:get(Page, #{mnesia => 3, links => 1, messages => 2, port => 9}, 0), Model);
info(_) -> 0.

fitting(Lines, #{height := Height}) when is_integer(Lines), Height - ?AROUND > Lines + 2 -> Lines;
fitting(_, _) -> 0.

%% @doc The pages of someone's own.
-spec own(model()) -> [{char(), string(), module()}].
own(#{own := auto, sample := #{head := #{pages := Pages}}}) when is_list(Pages) -> titled(Pages);
own(#{own := Pages}) when is_list(Pages) -> titled(Pages);
own(_) -> [].

titled(Pages) -> [{Key, unicode:characters_to_list(Title), Module} || {Key, Title, Module} <- Pages].

%% @doc The sample that is needed next; none while paused, unless the page has no sample yet.
-spec request(model()) -> sonde_top_sample:request() | none.
request(#{paused := true, sample := #{}} = Model) ->
    case is_answered(Model) of
        true -> none;
        false -> wanted(Model)
    end;
request(Model) ->
    wanted(Model).

wanted(#{page := {own, {Module, _}}, states := States} = Model) when is_map_key(Module, States) ->
    (asked_for(Model))#{state => map_get(Module, States)};
wanted(Model) ->
    asked_for(Model).

asked_for(#{page := Page, from := From, find := Find, interval := Ms} = Model) ->
    #{page => asked(Page), from => From, rows => room(Model), find => Find, interval => Ms,
      deep => not has_deep(Model)}.

%% Applications come all at once, and are sorted here.
asked(help) -> none;
asked({apps, _}) -> apps;
asked(Page) -> Page.

%% @doc The expensive part of the sample, if it belongs to this page and to its rows.
-spec deep(model()) -> map() | none.
deep(#{deep := {_, Deep}} = Model) ->
    case has_deep(Model) of
        true -> Deep;
        false -> none
    end;
deep(_) ->
    none.

is_answered(#{page := help}) -> true;
is_answered(Model) -> is_shown(Model) andalso has_deep(Model).

%% @doc Whether the last sample belongs to this page, to its rows and to the search.
-spec is_shown(model()) -> boolean().
is_shown(#{page := Page, from := From, find := Find, sample := #{page := Of} = Sample}) ->
    Has = {maps:get(from, Sample, From), maps:get(find, Sample, Find)},
    asked(Page) =:= Of andalso (has_all_rows(Page) orelse Has =:= {From, Find});
is_shown(_) -> false.

%% The sample has the rows of all pages.
has_all_rows({Page, _}) -> lists:member(Page, [process, apps, tree, messages, stack]);
has_all_rows(Page) -> Page =:= system orelse Page =:= binaries orelse Page =:= help.

has_deep(#{deep := {Of, _}} = Model) -> Of =:= deep_of(Model);
has_deep(Model) -> deep_of(Model) =:= none.

%% The next page shows other tables, so each page of them needs a sample of its own.
deep_of(#{page := {process, _} = Page}) -> Page;
deep_of(#{page := {ets, binary_memory} = Page, from := From, find := Find}) -> {Page, From, Find};
deep_of(#{page := binaries}) -> binaries;
deep_of(#{page := {apps, _}}) -> apps;
deep_of(#{page := {tree, _} = Page}) -> Page;
deep_of(#{page := {messages, _} = Page}) -> Page;
deep_of(_) -> none.

%% ---- samples

-spec sampled(sonde_top_sample:sample(), model()) -> model().
sampled(#{page := Page, body := Body, head := Head} = Sample, #{past := Past} = Model) ->
    Kept = told(Head, (seen(Model))#{sample => Sample,
                                     past => remember(maps:get(memory, Head), Past)}),
    case asked(map_get(page, Kept)) of
        Page -> own_state(Page, Body, trail(Page, Body, keep_deep(deep_of(Kept), Body, Kept)));
        _ -> Kept
    end.

own_state({own, {Module, _}}, #{state := State}, #{states := States} = Model) -> Model#{states := States#{Module => State}};
own_state(_, _, Model) -> Model.

%% What one process had in the last samples: its memory, and its reductions between them.
trail({process, Pid}, #{numbers := Numbers}, #{trail := Trail} = Model) ->
    Now = [{Key, proplists:get_value(Key, Numbers, 0)} || Key <- [memory, reductions]],
    Before = case Trail of {Pid, Old} -> Old; _ -> [{Key, []} || {Key, _} <- Now] end,
    Model#{trail => {Pid, [{Key, lists:sublist([N | Ns], ?PAST)}
                           || {{Key, N}, {Key, Ns}} <- lists:zip(Now, Before)]}};
trail(_, _, Model) ->
    Model.

told(#{pages := invalid}, #{before := none, own := auto} = Model) ->
    Model#{note => "the setting top_pages of sonde is no list of pages"};
told(_, Model) ->
    Model.

seen(#{sample := #{head := Head}} = Model) -> Model#{before => Head};
seen(Model) -> Model.

remember(Memory, Past) ->
    maps:from_list([{Kind, lists:sublist([Bytes | maps:get(Kind, Past, [])], ?PAST)}
                    || {Kind, Bytes} <- Memory]).

keep_deep(none, _, Model) ->
    Model;
keep_deep(Of, Body, Model) ->
    case maps:with([heap, things, slices, tables, account, owned, holders, apps, nodes, related], Body) of
        Deep when map_size(Deep) > 0 -> Model#{deep => {Of, Deep}};
        _ -> Model
    end.

%% ---- keys

-spec key(sonde_top_keys:action(), model()) -> {go | quit, model()}.
key(quit, Model) -> {quit, Model};
key(Action, Model) -> {go, act(Action, Model#{note => ""})}.

act(next, Model) -> Model;
act(help, #{page := help} = Model) -> to_page(procs, Model);
act(help, Model) -> go(help, Model);
act(up, #{back := []} = Model) -> to_page(procs, Model);
act(up, #{back := [{Page, From, Find} | Back]} = Model) ->
    Model#{page => Page, from => From, find => Find, back => Back};
act({find, Find}, Model) -> find(Find, Model);
act({of_process, What}, Model) -> of_process(What, Model);
act(pause, #{paused := Paused} = Model) -> Model#{paused => not Paused};
act(again, Model) -> Model#{deep => none};
act(forth, Model) -> forth(Model);
act(back, #{from := From} = Model) -> Model#{from => max(0, From - room(Model))};
act({page, Page}, Model) -> to_page(Page, Model);
act({pid, Pid}, Model) -> go({process, Pid}, Model);
act({row, N}, Model) -> row(N, Model);
act({interval, Ms}, Model) when Ms >= ?LEAST_MS, Ms =< ?MOST_MS -> Model#{interval => Ms};
act({interval, _}, Model) -> Model#{note => "the interval is 1000 to 3600000 ms"};
act({unknown, Text}, Model) ->
    case {[Module || {Key, _, Module} <- own(Model), [Key] =:= Text], own_keys(Model)} of
        {[Module], _} -> go({own, {Module, none}}, Model);
        {[], [_ | _]} when length(Text) =:= 1, hd(Text) >= $a -> act({key, hd(Text)}, Model);
        _ -> Model#{note => "no such key: " ++ Text ++ " (h: help)"}
    end;
act({How, Key}, #{page := Page} = Model) ->
    case own_keys(Model) of
        none -> by_process(How, Key, Model);
        Keys -> by_own({How, Key}, proplists:get_value(Key, Keys, none), Page, Keys, Model)
    end.

by_process(How, Key, #{sort := Sort} = Model) ->
    {Key, Attr, _} = lists:keyfind(Key, 1, sonde_top_keys:sorts()),
    sorted(order(How, Attr, Sort), Model).

%% @doc The keys that sort the rows of a page other than that of processes.
-spec own_keys(model()) -> [{char(), atom() | string()}] | none.
own_keys(#{page := {own, {Module, _}}, sample := #{page := {own, {Module, _}}, body := Body}}) ->
    [{Key, Heading} || {Key, Heading} <- maps:get(columns, Body, []), Key =/= none];
own_keys(#{page := {own, _}}) -> [];
own_keys(#{page := {Page, _}}) -> keys(Page);
own_keys(_) -> none.

keys(ets) -> [{$m, memory}, {$s, size}, {$b, binary_memory}];
keys(mnesia) -> [{$m, memory}, {$s, size}];
keys(network) ->
    [{$o, oct}, {$r, recv_oct}, {$s, send_oct}, {$c, cnt}, {$m, memory}, {$n, queue_size}, {$v, recv_cnt}, {$t, send_cnt}];
keys(apps) ->
    [{$m, memory}, {$n, message_queue_len}, {$b, binary_memory}, {$r, reductions}, {$c, processes}];
keys(_) -> none.

by_own(_, none, _, [], Model) ->
    Model#{note => "this page has no other order"};
by_own(_, none, _, Keys, Model) ->
    Model#{note => ["this page is sorted by ", lists:join(" ", [[Key] || {Key, _} <- Keys])]};
by_own({_, Key}, _, {own, {Module, _}}, _, Model) ->
    Model#{page => {own, {Module, Key}}, from => 0};
by_own({How, _}, Attr, {network, Sort}, _, Model) ->
    Model#{page => {network, flow_order(How, Attr, Sort)}, from => 0};
by_own(_, Attr, {_, Attr}, _, Model) -> Model;
by_own(_, Attr, {Page, _}, _, Model) -> Model#{page => {Page, Attr}, from => 0}.

%% Memory and queue are not counters that grow.
flow_order(_, Attr, _) when Attr =:= memory; Attr =:= queue_size -> {count, Attr};
flow_order(twice, Attr, _) -> {growth, Attr};
flow_order(key, Attr, {count, Attr}) -> {growth, Attr};
flow_order(key, Attr, _) -> {count, Attr}.

%% Another page, from which `up' leads back here.
go(Page, #{page := Page} = Model) ->
    Model#{from => 0};
go(Page, #{page := Was, from := From, find := Find, back := Back} = Model) ->
    Model#{page => Page, from => 0, find => "",
           back => lists:sublist([{Was, From, Find} | Back], ?MOST_BACK)}.

find(Find, #{page := Page} = Model) ->
    case is_searched(Page) of
        true -> Model#{find => Find, from => 0};
        false -> Model#{note => "there is nothing to search on this page"}
    end.

is_searched(waits) -> true;
is_searched({Page, _}) -> lists:member(Page, [procs, ets, network, apps, tree, mnesia, links, own]);
is_searched(_) -> false.

of_process(What, #{page := {Page, [$< | _] = Pid}} = Model)
  when Page =:= process; Page =:= tree; Page =:= links; Page =:= stack; Page =:= messages ->
    go({What, Pid}, Model);
of_process(_, Model) ->
    Model#{note => "first choose a process, by its number or pid"}.

order(How, Attr, Sort) ->
    case sonde_attr:is_heap(Attr) of
        true -> {count, Attr};
        false when How =:= twice; Sort =:= {count, Attr} -> {growth, Attr};
        false -> {count, Attr}
    end.

sorted(Order, #{page := {procs, _}} = Model) ->
    Model#{sort => Order, page => {procs, Order}, from => 0};
sorted(Order, Model) ->
    go({procs, Order}, Model#{sort => Order}).

to_page(procs, #{sort := Sort} = Model) -> sorted(Sort, Model);
to_page(ets, Model) -> go({ets, memory}, Model);
to_page(network, Model) -> go({network, {count, oct}}, Model);
to_page(apps, Model) -> go({apps, memory}, Model);
to_page(mnesia, Model) -> go({mnesia, memory}, Model);
to_page(Page, Model) -> go(Page, Model).

%% There is a next page if this one is full. Where the lines of the system and of the help end depends on the width.
forth(#{page := Page, from := From} = Model) when Page =:= system; Page =:= help ->
    Model#{from => min(From + room(Model), ?MOST_SYSTEM)};
forth(#{from := From} = Model) ->
    case length(rows(Model)) >= room(Model) of
        true -> Model#{from => From + room(Model)};
        false -> Model#{note => "this is the last page"}
    end.

%% @doc The rows that are on the page.
-spec rows(model()) -> [tuple() | map()].
rows(#{page := {apps, Attr}, find := Find} = Model) ->
    case deep(Model) of
        #{apps := Apps} when is_list(Apps) ->
            Sorted = sonde_top_apps:sorted(Attr, Apps),
            page_of([App || App <- Sorted, sonde_top_rows:has(element(1, App), Find)], Model);
        _ -> []
    end;
rows(#{page := {tree, _}, find := Find} = Model) ->
    case deep(Model) of
        #{nodes := Nodes} when is_list(Nodes) ->
            page_of([Node || Node <- Nodes, lists:any(fun(Text) -> sonde_top_rows:has(Text, Find) end,
                                                      sonde_top_tree:texts(Node))], Model);
        _ -> []
    end;
rows(#{page := {messages, _}} = Model) ->
    case deep(Model) of
        #{related := {_, Rows}} -> page_of(Rows, Model);
        _ -> []
    end;
%% The first page has less room for them, so the next one begins with the same.
rows(#{page := {process, _}, from := From} = Model) ->
    case deep(Model) of
        #{things := Things} when is_list(Things) ->
            page_of(Things, Model#{from := max(0, From - room(Model))});
        _ -> []
    end;
rows(#{page := {ets, binary_memory}} = Model) ->
    case deep(Model) of
        #{tables := Tables} -> Tables;
        _ -> []
    end;
rows(#{page := {stack, _} = Page,
       sample := #{page := Page, body := #{related := {_, Rows}}}} = Model) ->
    page_of(Rows, Model);
rows(#{sample := #{body := Body}} = Model) ->
    case is_shown(Model) of
        true -> rows_of(Body);
        false -> []
    end;
rows(_) -> [].

rows_of(#{rows := Rows}) -> Rows;
rows_of(#{tables := Tables}) -> Tables;
rows_of(#{sockets := Rows}) -> Rows;
rows_of(#{fragmentation := Rows}) -> Rows;
rows_of(#{waits := Rows}) when is_list(Rows) -> Rows;
rows_of(#{related := {_, Rows}}) -> Rows;
rows_of(#{related := Rows}) when is_list(Rows) -> Rows;
rows_of(_) -> [].

page_of(Rows, #{from := From} = Model) ->
    lists:sublist(lists:nthtail(min(From, length(Rows)), Rows), room(Model)).

%% The rows are numbered as they are shown.
row(N, #{page := Page, from := From} = Model) ->
    case [behind(Page, Row) || N > From, Row <- lists:sublist(rows(Model), N - From, 1)] of
        [none] -> Model#{note => io_lib:format("row ~b has no page behind it", [N])};
        [Behind] -> go(Behind, Model);
        [] -> Model#{note => "there is no row " ++ integer_to_list(N) ++ " here"}
    end.

%% What is behind a row: a process, if there is one.
behind({procs, _}, {Pid, _, _, _}) -> process(Pid);
behind(waits, {Pid, _, _}) -> process(Pid);
behind({ets, _}, {_, _, Attrs, _}) -> process(proplists:get_value(owner, Attrs));
behind({network, _}, {"socket", _, Of}) -> process(maps:get(owner, Of, none));
behind({network, _}, {Port, _, _}) -> {port, Port};
behind({own, _}, {Id, _}) -> process(Id);
behind({mnesia, _}, {_, _, Of}) -> process(maps:get(owner, Of, none));
behind({apps, _}, App) -> sonde_top_apps:tree(App);
behind({tree, _}, {Pid, _, _, _, _, _, _}) -> process(Pid);
behind({port, _}, {Id, _, _}) -> process(Id);
behind({links, _}, {Id, _, _, _}) -> process(Id);
behind({messages, _}, {From, _, _, _}) -> process(From);
behind(_, _) -> none.

process([$< | _] = Pid) -> {process, Pid};
process("#Port<" ++ _ = Port) -> {port, Port};
process(_) -> none.
