%% @private
%% The state of {@link sonde:top/1}: the page, its order, and the samples so far. It uses no
%% terminal and no clock: actions and samples go in, and requests for samples come out.
-module(sonde_top_model).

-export([new/1, size/3, request/1, key/2, sampled/2, room/1, deep/1]).
-export_type([model/0]).

-type model() ::
        #{interval := pos_integer(), most := pos_integer() | auto,
          width := pos_integer(), height := pos_integer(),
          page := sonde_top_sample:page() | help,
          sort := sonde_top_sample:order(),           % of the page of processes
          from := non_neg_integer(),                  % rows that come before those on the page
          paused := boolean(), note := string(),
          sample := sonde_top_sample:sample() | none, % the last one
          before := sonde_top_sample:head() | none,   % the head of the sample before it
          past := #{atom() => [non_neg_integer()]},   % memory by kind, the latest first
          deep := {term(), map()} | none}.            % what is expensive, and for which page
%% Lines around the rows of the page of processes: six of the header, two headings, two of keys, and
%% the line in which the person types.
-define(AROUND, 11).
-define(PAST, 60).
-define(LEAST_MS, 1000).
-define(MOST_MS, 3600000).

-spec new(#{interval := pos_integer(), rows := pos_integer() | auto, sort := term(),
            atom() => term()}) -> model().
new(#{interval := Ms, rows := Most, sort := Sort}) ->
    Order = case Sort of
                {growth, _} -> Sort;
                Attr -> {count, Attr}
            end,
    #{interval => Ms, most => Most, width => 80, height => 24, page => {procs, Order},
      sort => Order, from => 0, paused => false, note => "", sample => none, before => none,
      past => #{}, deep => none}.

-spec size(pos_integer(), pos_integer(), model()) -> model().
size(Width, Height, Model) ->
    Model#{width => Width, height => Height}.

%% @doc How many rows fit on a page.
-spec room(model()) -> pos_integer().
room(#{height := Height, most := auto}) -> max(1, Height - ?AROUND);
room(#{most := Most} = Model) -> min(room(Model#{most := auto}), Most).

%% @doc The sample that is needed next; none while paused, unless the page has no sample yet.
-spec request(model()) -> sonde_top_sample:request() | none.
request(#{paused := true, sample := #{}} = Model) ->
    case is_answered(Model) of
        true -> none;
        false -> wanted(Model)
    end;
request(Model) ->
    wanted(Model).

wanted(#{page := Page, from := From, interval := Ms} = Model) ->
    #{page => case Page of help -> none; _ -> Page end, from => From, rows => room(Model),
      interval => Ms, deep => not has_deep(Model)}.

%% @doc The expensive part of the sample, if it belongs to this page and to its rows.
-spec deep(model()) -> map() | none.
deep(#{deep := {_, Deep}} = Model) ->
    case has_deep(Model) of
        true -> Deep;
        false -> none
    end;
deep(_) ->
    none.

%% Whether the last sample belongs to this page.
is_answered(#{page := help}) -> true;
is_answered(#{page := Page, sample := #{page := Page}} = Model) -> has_deep(Model);
is_answered(_) -> false.

has_deep(#{deep := {Of, _}} = Model) -> Of =:= deep_of(Model);
has_deep(Model) -> deep_of(Model) =:= none.

%% The next page shows other tables, so each page of them needs a sample of its own.
deep_of(#{page := {process, _} = Page}) -> Page;
deep_of(#{page := {ets, binary_memory} = Page, from := From}) -> {Page, From};
deep_of(#{page := binaries}) -> binaries;
deep_of(_) -> none.

%% ---- samples

-spec sampled(sonde_top_sample:sample(), model()) -> model().
sampled(#{page := Page, body := Body, head := Head} = Sample, #{past := Past} = Model) ->
    Kept = (seen(Model))#{sample => Sample,
                          past => remember(maps:get(memory, Head), Past)},
    case Kept of
        #{page := Page} -> keep_deep(deep_of(Kept), Body, Kept);
        _ -> Kept
    end.

seen(#{sample := #{head := Head}} = Model) -> Model#{before => Head};
seen(Model) -> Model.

remember(Memory, Past) ->
    maps:from_list([{Kind, lists:sublist([Bytes | maps:get(Kind, Past, [])], ?PAST)}
                    || {Kind, Bytes} <- Memory]).

keep_deep(none, _, Model) ->
    Model;
keep_deep(Of, Body, Model) ->
    case maps:with([heap, things, slices, tables, account, owned, holders], Body) of
        Deep when map_size(Deep) > 0 -> Model#{deep => {Of, Deep}};
        _ -> Model
    end.

%% ---- keys

-spec key(sonde_top_keys:action(), model()) -> {go | quit, model()}.
key(quit, Model) -> {quit, Model};
key(Action, Model) -> {go, act(Action, Model#{note => ""})}.

act(next, Model) -> Model;
act(help, #{page := help} = Model) -> to_page(procs, Model);
act(help, Model) -> Model#{page => help, from => 0};
act(pause, #{paused := Paused} = Model) -> Model#{paused => not Paused};
act(again, Model) -> Model#{deep => none};
act(forth, Model) -> forth(Model);
act(back, #{from := From} = Model) -> Model#{from => max(0, From - room(Model))};
act({page, Page}, Model) -> to_page(Page, Model);
act({pid, Pid}, Model) -> Model#{page => {process, Pid}, from => 0};
act({row, N}, Model) -> row(N, Model);
act({interval, Ms}, Model) when Ms >= ?LEAST_MS, Ms =< ?MOST_MS -> Model#{interval => Ms};
act({interval, _}, Model) -> Model#{note => "the interval is 1000 to 3600000 ms"};
act({unknown, Text}, Model) -> Model#{note => "no such key: " ++ Text ++ " (h: help)"};
act({How, Key}, #{page := {ets, Was}} = Model) when How =:= key; How =:= twice ->
    case ets_attr(Key) of
        none -> Model#{note => "tables are sorted by m, s or b"};
        Attr when Attr =:= Was -> Model;
        Attr -> Model#{page => {ets, Attr}, from => 0}
    end;
act({How, Key}, #{sort := Sort} = Model) ->
    {Key, Attr, _} = lists:keyfind(Key, 1, sonde_top_keys:sorts()),
    sorted(order(How, Attr, Sort), Model).

ets_attr($m) -> memory;
ets_attr($s) -> size;
ets_attr($b) -> binary_memory;
ets_attr(_) -> none.

order(How, Attr, Sort) ->
    case sonde_attr:is_heap(Attr) of
        true -> {count, Attr};
        false when How =:= twice; Sort =:= {count, Attr} -> {growth, Attr};
        false -> {count, Attr}
    end.

sorted(Order, Model) ->
    Model#{sort => Order, page => {procs, Order}, from => 0}.

to_page(procs, #{sort := Sort} = Model) -> sorted(Sort, Model);
to_page(ets, Model) -> Model#{page => {ets, memory}, from => 0};
to_page(Page, Model) -> Model#{page => Page, from => 0}.

%% There is a next page if this one is full.
forth(#{from := From} = Model) ->
    case length(on_page(Model)) >= room(Model) of
        true -> Model#{from => From + room(Model)};
        false -> Model#{note => "this is the last page"}
    end.

on_page(#{page := {process, _}, from := From, deep := {_, #{things := Things}}})
  when is_list(Things) ->
    lists:nthtail(min(From, length(Things)), Things);
on_page(#{page := {ets, binary_memory}, deep := {_, #{tables := Tables}}}) -> Tables;
on_page(#{sample := #{body := #{rows := Rows}}}) -> Rows;
on_page(#{sample := #{body := #{tables := Tables}}}) -> Tables;
on_page(#{sample := #{body := #{fragmentation := Rows}}}) -> Rows;
on_page(#{sample := #{body := #{waits := Rows}}}) when is_list(Rows) -> Rows;
on_page(_) -> [].

%% The rows are numbered as they are shown.
row(N, #{page := {procs, _}, from := From, sample := #{body := #{rows := Rows}}} = Model)
  when N > From, N =< From + length(Rows) ->
    {Pid, _, _, _} = lists:nth(N - From, Rows),
    Model#{page => {process, Pid}, from => 0};
row(N, #{page := waits, from := From} = Model) when N > From ->
    case lists:sublist(on_page(Model), N - From, 1) of
        [{[$< | _] = Pid, _, _}] -> Model#{page => {process, Pid}, from => 0};
        _ -> no_row(N, Model)
    end;
row(N, #{page := {ets, _}, from := From} = Model) when N > From ->
    owner(lists:sublist(on_page(Model), N - From, 1), N, Model);
row(N, Model) ->
    no_row(N, Model).

owner([{_, _, Attrs, _}], _, Model) ->
    {owner, Pid} = lists:keyfind(owner, 1, Attrs),
    Model#{page => {process, Pid}, from => 0};
owner(_, N, Model) ->
    no_row(N, Model).

no_row(N, Model) ->
    Model#{note => "there is no row " ++ integer_to_list(N) ++ " here"}.
