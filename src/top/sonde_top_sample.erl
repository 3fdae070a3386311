%% @private
%% One sample of {@link sonde:top/1}, taken on the node that is looked at: statistics of the node,
%% and the rows of one page. This module keeps no state, and pids leave the node only as text, so
%% that a page looks the same wherever it is shown.
-module(sonde_top_sample).

-export([take/1, meter/1]).

-import(sonde_top_rows, [native/1, shown/2, want/1]).

-export_type([request/0, page/0, sample/0, head/0, row/0, order/0]).

-type order() :: {count | growth, sonde_attr:attr()}.
-type page() :: {procs, order()} | {process, Text :: string()} | {ets, sonde_ets:attr()}
              | {sonde_top_related:what() | tree | port, Text :: string()}
              | {network, {count | growth, sonde_top_network:attr()}}
              | {own, {module(), Column :: char() | none}} | {mnesia, sonde_top_mnesia:attr()} | {apps, sonde_top_apps:attr()}
              | apps | binaries | allocators | waits | system | none.
-type request() :: #{page := page(), from := non_neg_integer(), rows := non_neg_integer(),
                     find => string(), state => binary(), interval := Ms :: pos_integer(), deep := boolean(),
                     without => [pid()]}.
%% `find': only rows with this text. `state': what a page of someone's own returned before. `deep': take the expensive
%% parts, too. `without': the caller of {@link sonde:top/1}, which has no row, as in all calls.
-type head() :: #{node := node(), otp := string(), clock := calendar:time(),
                  at := Ms :: integer(), uptime := Seconds :: non_neg_integer(),
                  side := native | {portable, term()}, run_queue := non_neg_integer(),
                  schedulers := pos_integer(),
                  times := [{pos_integer(), non_neg_integer(), non_neg_integer()}],
                  memory := [{atom(), non_neg_integer()}],
                  counters := #{atom() => non_neg_integer()},
                  limits := [{atom(), non_neg_integer(), pos_integer()}],
                  pages => [sonde_top_page:own()] | invalid}.
-type row() :: {Pid :: string(), Value :: term(), sonde_attr:attrs(), [term()]}.
-type sample() :: #{page := page(), from => non_neg_integer(), find => string(),
                    head := head(), ms := non_neg_integer(), body := #{atom() => term()}}.

%% Short looks at a busy process: the next page comes soon.
-define(PATIENCE_US, 500).
%% For attributes that need heap walks: processes that were not read by then are left out.
-define(WALK_MS, 1000).
%% For what lies on one heap.
-define(LOOK, #{timeout => 2000, max_words => 200000000}).
-define(THINGS, 100).         % of one heap; more than a page has
-define(SLICES, 5).
-define(MOST_HOLDERS, 5).
-define(MAX_ROWS, 1000000).   % of a table whose binaries are summed up
%% The first rows of the order, among which a search looks for calls. Names are searched in all.
-define(SEARCHED, 1000).

%% @doc Takes one sample. Raises no exception of its own: an error stands in place of missing data.
-spec take(request()) -> sample().
take(#{page := Page} = Request) ->
    Start = erlang:monotonic_time(millisecond),
    Body = body(Page, Request),
    Ms = erlang:monotonic_time(millisecond) - Start,
    #{page => Page, from => map_get(from, Request), find => maps:get(find, Request, ""),
      body => Body, ms => max(0, Ms - waited(Page, Request)), head => head()}.

%% The duration of a window is not work.
waited({Page, {growth, _}}, #{interval := Ms}) when Page =:= procs; Page =:= network -> Ms;
waited(_, _) -> 0.

%% @doc A process that keeps `scheduler_wall_time' on as long as `Watcher' lives.
-spec meter(pid()) -> ok.
meter(Watcher) ->
    Ref = monitor(process, Watcher),
    _ = erlang:system_flag(scheduler_wall_time, true),
    receive
        {'DOWN', Ref, process, _, _} -> ok
    end.

%% ---- the node

head() ->
    {Reductions, _} = erlang:statistics(reductions),
    {Collections, _, _} = erlang:statistics(garbage_collection),
    {{input, In}, {output, Out}} = erlang:statistics(io),
    {Runtime, _} = erlang:statistics(runtime),
    #{node => node(), otp => erlang:system_info(otp_release), clock => time(),
      at => erlang:monotonic_time(millisecond), uptime => uptime(), side => sonde_vm:side(),
      run_queue => erlang:statistics(run_queue),
      schedulers => erlang:system_info(schedulers), pages => sonde_top_page:configured(),
      times => times(erlang:statistics(scheduler_wall_time)), memory => memory(),
      counters => #{reductions => Reductions, collections => Collections, input => In,
                    output => Out, runtime => Runtime},
      limits => [{Kind, erlang:system_info(Count), erlang:system_info(Limit)}
                 || {Kind, Count, Limit} <- [{processes, process_count, process_limit},
                                             {ports, port_count, port_limit},
                                             {atoms, atom_count, atom_limit},
                                             {ets, ets_count, ets_limit}]]}.

uptime() ->
    erlang:convert_time_unit(erlang:monotonic_time() - erlang:system_info(start_time), native,
                             second).

%% `undefined' while `scheduler_wall_time' is off.
times(undefined) -> [];
times(Times) -> lists:sort(Times).

%% If some allocators are off, not all kinds are known.
memory() ->
    [Known || {_, Bytes} = Known <- sonde_memory:read([total, processes, binary, ets, code, atom]),
              is_integer(Bytes)].

%% ---- pages

body({procs, Order}, Request) -> procs(Order, Request);
body({process, Text}, Request) -> process(sonde_top_rows:pid(Text), Request);
body({network, Order}, Request) -> sonde_top_network:take(Order, Request);
body({port, Text}, Request) -> sonde_top_network:port(Text, Request);
body(apps, #{deep := true}) -> sonde_top_apps:take();
body({tree, Text}, #{deep := true}) -> sonde_top_tree:take(Text);
body({own, {Module, Sort}}, Request) -> sonde_top_page:take(Module, Sort, Request);
body({mnesia, Attr}, Request) -> sonde_top_mnesia:take(Attr, Request);
body(system, _) -> sonde_top_system:take();
body({messages, Text}, #{deep := true} = Request) ->
    sonde_top_related:take(messages, sonde_top_rows:pid(Text), Request);
body({What, Text}, Request) when What =:= links; What =:= stack ->
    sonde_top_related:take(What, sonde_top_rows:pid(Text), Request);
body({ets, Attr}, Request) -> tables(Attr, Request);
body(binaries, #{deep := true} = Request) -> binaries(Request);
body(allocators, Request) -> allocators(Request);
body(waits, Request) ->
    #{waits => waits(native(fun() -> sonde_waits:rows(most(Request), #{}) end), Request)};
body(_, _) -> #{}.

%% A search needs more rows.
most(Request) ->
    case maps:get(find, Request, "") of
        "" -> want(Request);
        _ -> max(?SEARCHED, want(Request))
    end.

wanted(Request) ->
    Find = maps:get(find, Request, ""),
    {Find, sonde_top_rows:named(Find)}.

procs({growth, Attr}, #{interval := Ms} = Request) ->
    #{rows => rows(sonde_proc_count:window(Attr, most(Request), Ms, #{self => false}), Request)};
procs({count, Attr}, Request) ->
    case sonde_attr:is_heap(Attr) of
        true -> walked(native(fun() -> walk(Attr, most(Request)) end), Request);
        false -> #{rows => rows(counted(Attr, Request), Request)}
    end.

%% The processes that are found by their names or by their pid rank anywhere.
counted(Attr, Request) ->
    First = sonde_proc_count:count(Attr, most(Request), #{self => false}),
    case wanted(Request) of
        {"", _} -> First;
        {Find, Named} ->
            Known = maps:from_list([{Pid, true} || {Pid, _, _} <- First]),
            Others = [Pid || Pid <- [sonde_top_rows:pid(Find)] ++ maps:keys(Named),
                             is_pid(Pid), not is_map_key(Pid, Known)],
            More = lists:append([one(Pid, Attr) || Pid <- lists:usort(Others)]),
            sonde_lib:sublist_top_n_attrs(First ++ More, -1)
    end.

one(Pid, Attr) ->
    case {sonde_every_process:one(Pid, [Attr]), sonde_attr:call_site(Pid)} of
        {{ok, [Value]}, {ok, Attrs}} -> [{Pid, Value, Attrs}];
        _ -> []
    end.

walk(Attr, N) ->
    Read = sonde_opts:read(#{timeout => ?WALK_MS, report => true}, sonde_scan:options()),
    sonde_garbage:most([Attr], N, Read#{patience_us => ?PATIENCE_US}).

walked({error, Why}, _) -> #{rows => [], error => Why};
walked({[{_, Rows}], #{left_out := N, missed := #{pids := Pids}}}, Request) ->
    #{rows => rows(Rows, Request), left_out => N,
      missed => [{pid_to_list(Pid), Why} || {Pid, Why} <- lists:sublist(Pids, 1)]}.

rows(Rows, Request) ->
    Shown = shown(found(Rows, wanted(Request)), Request),
    Labels = sonde_top_rows:labels(unnamed(Shown)),
    [row(Pid, Value, Attrs ++ maps:get(Pid, Labels, []),
         sonde_every_process:one(Pid, [memory, message_queue_len, reductions]))
     || {Pid, Value, Attrs} <- Shown].

row(Pid, Value, Attrs, {ok, Cells}) ->
    {pid_to_list(Pid), Value, sonde_origin:attrs(Pid, Attrs), Cells};
row(Pid, Value, Attrs, undefined) ->
    {pid_to_list(Pid), Value, Attrs, [undefined, undefined, undefined]}.

unnamed(Rows) ->
    [Pid || {Pid, _, Attrs} <- Rows, not lists:any(fun is_atom/1, Attrs)].

%% Rows of processes: by pid, name, label, initial call or current function.
found(Rows, {"", _}) ->
    Rows;
found(Rows, Wanted) ->
    Known = maps:from_list([{Pid, true} || {Pid, _, Attrs} <- Rows, is_known(Pid, Attrs, Wanted)]),
    Labels = sonde_top_rows:labels([Pid || Pid <- unnamed(Rows), not is_map_key(Pid, Known)]),
    [Row || {Pid, _, _} = Row <- Rows,
            is_map_key(Pid, Known)
                orelse sonde_top_rows:is_found(Wanted, Pid, [Label || {label, Label} <- maps:get(Pid, Labels, [])])].

is_known(Pid, Attrs, Wanted) ->
    sonde_top_rows:is_found(Wanted, Pid, [waited(Pid)])
        orelse sonde_top_rows:is_found(Wanted, Pid, calls(sonde_origin:attrs(Pid, Attrs))).

calls(Attrs) ->
    [sonde_units:text(Key, Call, true)
     || {Key, {_, _, _} = Call} <- Attrs,
        Key =:= initial_call orelse Key =:= current_function].

%% ---- one process

process(undefined, _) ->
    #{info => undefined};
process(Pid, Request) ->
    Items = [registered_name, status, priority, trap_exit, initial_call, current_function,
             message_queue_data, garbage_collection, group_leader],
    case {process_info(Pid, Items), sonde_every_process:one(Pid, numbers())} of
        {[{registered_name, Name} | Told], {ok, Values}} ->
            {Info, [{_, Settings}, {_, Leader}]} = lists:split(length(Told) - 2, Told),
            inside(Pid, Request, #{info => [{registered_name, name(Name)}
                                            | sonde_origin:attrs(Pid, Info)]
                                       ++ [{Key, proplists:get_value(Key, Settings)}
                                           || Key <- [minor_gcs, fullsweep_after, min_heap_size, min_bin_vheap_size]]
                                       ++ sonde_top_rows:labelled(Pid) ++ [{group_leader, pid_to_list(Leader)}]
                                       ++ [{application, App}
                                           || {ok, App} <- [application:get_application(Pid)]],
                                   numbers => lists:zip(numbers(), Values)});
        _ ->
            #{info => undefined}
    end.

name([]) -> none;
name(Name) -> Name.

inside(Pid, #{deep := true}, Body) ->
    Body#{heap => sonde_heap_map:heap(Pid, ?LOOK), things => sonde_heap_top:top(Pid, ?THINGS, ?LOOK),
          slices => slices(sonde_garbage:bin_slices(Pid, ?LOOK))};
inside(_, _, Body) ->
    Body.

slices(Slices) when is_list(Slices) ->
    Largest = lists:sublist(lists:reverse(lists:keysort(2, Slices)), ?SLICES),
    Found = native(fun() -> sonde_bin_account:of_ids([Id || {Id, _, _, _} <- Largest], #{}) end),
    Holders = maps:from_list([{Id, Holder} || is_list(Found), #{id := Id} = Holder <- Found]),
    {length(Slices), lists:sum([Size || {_, Size, _, _} <- Slices]),
     [{Id, Size, Refc, length(Parts), min(Size, seen(Parts)), held(maps:get(Id, Holders, undefined))}
      || {Id, Size, Refc, Parts} <- Largest]};
slices(Nothing) ->
    Nothing.

seen(Parts) ->
    lists:sum([End - Start || {Start, End} <- Parts]).

held(#{holders := Holders}) ->
    {length(Holders), [holder(H) || {H, _, _} <- lists:sublist(Holders, ?MOST_HOLDERS)]};
held(_) ->
    undefined.

holder(Pid) when is_pid(Pid) -> sonde_top_rows:name(Pid);
holder({queue, Pid}) -> "queue of " ++ sonde_top_rows:name(Pid);
holder({ets, Table}) -> "ets " ++ sonde_top_rows:text(Table);
holder(literals) -> "literals".

%% ---- tables

tables(Attr, #{deep := Deep} = Request) when Attr =/= binary_memory; Deep ->
    {Find, _} = Wanted = wanted(Request),
    %% a search has to look at all
    N = case Find of "" -> want(Request); _ -> length(ets:all()) end,
    Tables = [Row || {Table, _, Attrs} = Row <- sonde_ets:count(Attr, N, #{max_rows => ?MAX_ROWS}),
                     Find =:= "" orelse is_found(Table, Attrs, Wanted)],
    #{tables => [{sonde_top_rows:text(Table), Value, lists:append([named(A) || A <- Attrs]) ++ settings(Table),
                  sonde_ets:bytes(Table)}
                 || {Table, Value, Attrs} <- shown(Tables, Request)]};
tables(_, _) ->
    #{}.

settings(Table) ->
    [{Key, ets:info(Table, Key)} || Key <- [protection, keypos, read_concurrency, write_concurrency]].

is_found(Table, [Name, {owner, Owner} | _], Wanted) ->
    Texts = [sonde_top_rows:text(Table), atom_to_list(Name), pid_to_list(Owner)],
    sonde_top_rows:is_found(Wanted, Owner, Texts).

%% The pid opens the owner's page, the name is what people read.
named({owner, Pid}) -> [{owner, pid_to_list(Pid)}, {owner_name, sonde_top_rows:name(Pid)}];
named({_, _} = Attr) -> [Attr];
named(Name) -> [{name, Name}].

%% ---- binaries and allocators

binaries(#{rows := N} = Request) ->
    First = Request#{from := 0},
    {Account, Holders} = account(N),
    #{account => Account, holders => holders(Holders),
      owned => owned(native(fun() -> sonde_garbage:bin_owned(want(First), #{}) end), First)}.

%% From one visit to all processes, unless there are so many binaries that not all of them are remembered.
account(N) ->
    case native(fun() -> sonde_bin_account:all(N, #{}) end) of
        {error, _} = Error -> {native(fun() -> sonde_bin_account:bin_account(#{}) end), Error};
        {Account, Holders, _} -> {Account, Holders}
    end.

owned({error, _} = Error, _) -> Error;
owned({Rows, _}, Request) ->
    [{pid_to_list(Pid), Bytes, Attrs}
     || {Pid, Bytes, Attrs} <- shown(sonde_origin:rows(Rows), Request)].

holders({error, _} = Error) -> Error;
holders(Binaries) ->
    [{Id, Size, Refc, Elsewhere, held(Binary)}
     || #{id := Id, size := Size, refc := Refc, elsewhere := Elsewhere} = Binary <- Binaries].

%% The length of the chain, and pids as text. In a deadlock, `waits_for' is the whole circle.
waits({error, _} = Error, _) -> Error;
waits({Rows, _}, Request) ->
    [{waited(For), Waiters, [wait(Attr) || Attr <- lists:reverse(Attrs)]}
     || {For, Waiters, Attrs} <- shown(waiting(sonde_origin:rows(Rows), wanted(Request)), Request)].

waiting(Rows, {"", _}) -> Rows;
waiting(Rows, Wanted) ->
    [Row || {For, _, Attrs} = Row <- Rows,
            sonde_top_rows:is_found(Wanted, For, [waited(For) | calls(Attrs)])].

waited(Pid) when is_pid(Pid) -> pid_to_list(Pid);
waited(Other) -> atom_to_list(Other).

wait({longest_chain, Chain}) -> {longest_chain, length(Chain)};
wait({waits_for, For}) -> {waits_for, waited(For)};
wait({deadlock, Circle}) -> {waits_for, lists:flatten(lists:join(" > ", [waited(Pid) || Pid <- Circle]))};
wait(Attr) -> Attr.

%% Only allocators that are on have statistics.
allocators(Request) ->
    Types = sonde_alloc:memory(allocated_types),
    #{totals => [{Key, sonde_alloc:memory(Key)} || Key <- [allocated, used, unused, usage]],
      types => lists:reverse(lists:keysort(2, Types)),
      fragmentation => shown(sonde_alloc:fragmentation(current), Request)}.

%% Of one process: those that rows can be sorted by.
numbers() -> sonde_attr:native() -- [catchlevel].
