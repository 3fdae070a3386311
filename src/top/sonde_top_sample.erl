%% @private
%% One sample of {@link sonde:top/1}, taken on the node that is looked at: statistics of the node,
%% and the rows of one page. This module keeps no state, and pids leave the node only as text, so
%% that a page looks the same wherever it is shown.
-module(sonde_top_sample).

-export([take/1, meter/1]).
-export_type([request/0, page/0, sample/0, head/0, row/0, order/0]).

-type order() :: {count | growth, sonde_attr:attr()}.
-type page() :: {procs, order()} | {process, Text :: string()} | {ets, sonde_ets:attr()}
              | binaries | allocators | waits | none.
-type request() :: #{page := page(), from := non_neg_integer(), rows := non_neg_integer(),
                     interval := Ms :: pos_integer(), deep := boolean(), without => [pid()]}.
%% `deep': take the expensive parts, too. `without': the caller of {@link sonde:top/1}, which has no
%% row, as in all calls.
-type head() :: #{node := node(), otp := string(), clock := calendar:time(),
                  at := Ms :: integer(), uptime := Seconds :: non_neg_integer(),
                  side := native | {portable, term()}, run_queue := non_neg_integer(),
                  schedulers := pos_integer(),
                  times := [{pos_integer(), non_neg_integer(), non_neg_integer()}],
                  memory := [{atom(), non_neg_integer()}],
                  counters := #{atom() => non_neg_integer()},
                  limits := [{atom(), non_neg_integer(), pos_integer()}]}.
-type row() :: {Pid :: string(), Value :: term(), sonde_attr:attrs(), [term()]}.
-type sample() :: #{page := page(), head := head(), ms := non_neg_integer(),
                    body := #{atom() => term()}}.

%% Short looks at a busy process: the next page comes soon.
-define(PATIENCE_US, 500).
%% For attributes that need heap walks: processes that were not read by then are left out.
-define(WALK_MS, 1000).
%% For what lies on one heap.
-define(LOOK, #{timeout => 2000, max_words => 200000000}).
-define(THINGS, 100).         % of one heap; more than a page has
-define(SLICES, 5).
-define(MOST_HOLDERS, 5).

%% @doc Takes one sample. Raises no exception of its own: an error stands in place of missing data.
-spec take(request()) -> sample().
take(#{page := Page} = Request) ->
    Start = erlang:monotonic_time(millisecond),
    Body = body(Page, Request),
    Ms = erlang:monotonic_time(millisecond) - Start,
    #{page => Page, body => Body, ms => max(0, Ms - waited(Page, Request)), head => head()}.

%% The duration of a window is not work.
waited({procs, {growth, _}}, #{interval := Ms}) -> Ms;
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
    #{node => node(), otp => erlang:system_info(otp_release), clock => time(),
      at => erlang:monotonic_time(millisecond), uptime => uptime(), side => sonde_vm:side(),
      run_queue => erlang:statistics(run_queue),
      schedulers => erlang:system_info(schedulers),
      times => times(erlang:statistics(scheduler_wall_time)), memory => memory(),
      counters => #{reductions => Reductions, collections => Collections, input => In,
                    output => Out},
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
body({process, Text}, Request) -> process(pid(Text), Request);
body({ets, Attr}, Request) -> tables(Attr, Request);
body(binaries, #{deep := true} = Request) -> binaries(Request);
body(allocators, Request) -> allocators(Request);
body(waits, Request) -> #{waits => waits(native(fun() -> sonde_waits:rows(want(Request), #{}) end), Request)};
body(_, _) -> #{}.

%% The part of the rows that is on the page.
shown(Rows, #{from := From, rows := N} = Request) ->
    Without = maps:get(without, Request, []),
    lists:sublist([Row || Row <- Rows, not lists:member(element(1, Row), Without)], From + 1, N).

want(#{from := From, rows := N} = Request) ->
    From + N + length(maps:get(without, Request, [])).

%% For calls that need the native path.
native(Fun) ->
    try Fun()
    catch error:{native_off, Why} -> {error, {native_off, Why}};
          error:system_limit -> {error, system_limit}
    end.

procs({growth, Attr}, #{interval := Ms} = Request) ->
    #{rows => rows(sonde_proc_count:window(Attr, want(Request), Ms, #{self => false}), Request)};
procs({count, Attr}, Request) ->
    case sonde_attr:is_heap(Attr) of
        true -> walked(native(fun() -> walk(Attr, want(Request)) end), Request);
        false -> #{rows => rows(sonde_proc_count:count(Attr, want(Request), #{self => false}), Request)}
    end.

walk(Attr, N) ->
    Read = sonde_opts:read(#{timeout => ?WALK_MS, report => true}, sonde_scan:options()),
    sonde_garbage:most([Attr], N, Read#{patience_us => ?PATIENCE_US}).

walked({error, Why}, _) -> #{rows => [], error => Why};
walked({[{_, Rows}], #{left_out := N, missed := #{pids := Pids}}}, Request) ->
    #{rows => rows(Rows, Request), left_out => N,
      missed => [{pid_to_list(Pid), Why} || {Pid, Why} <- lists:sublist(Pids, 1)]}.

rows(Rows, Request) ->
    [row(Pid, Value, Attrs, sonde_every_process:one(Pid, [memory, message_queue_len, reductions]))
     || {Pid, Value, Attrs} <- shown(Rows, Request)].

row(Pid, Value, Attrs, {ok, Cells}) ->
    {pid_to_list(Pid), Value, sonde_origin:attrs(Pid, Attrs), Cells};
row(Pid, Value, Attrs, undefined) ->
    {pid_to_list(Pid), Value, Attrs, [undefined, undefined, undefined]}.

%% ---- one process

pid(Text) ->
    try list_to_pid(Text) of
        Pid when node(Pid) =:= node() -> Pid;
        _ -> undefined
    catch error:badarg -> undefined
    end.

process(undefined, _) ->
    #{info => undefined};
process(Pid, Request) ->
    Items = [registered_name, status, priority, trap_exit, initial_call, current_function,
             group_leader],
    case {process_info(Pid, Items), sonde_every_process:one(Pid, numbers())} of
        {[{registered_name, Name} | Told], {ok, Values}} ->
            {value, {_, Leader}, Info} = lists:keytake(group_leader, 1, Told),
            inside(Pid, Request, #{info => [{registered_name, name(Name)}
                                            | sonde_origin:attrs(Pid, Info)]
                                       ++ [{group_leader, pid_to_list(Leader)}],
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
    {length(Slices), lists:sum([Size || {_, Size, _, _} <- Slices]),
     [{Id, Size, Refc, length(Parts), min(Size, seen(Parts)),
       held(native(fun() -> sonde_bin_account:bin_holder(Id, #{}) end))}
      || {Id, Size, Refc, Parts} <- Largest]};
slices(Nothing) ->
    Nothing.

seen(Parts) ->
    lists:sum([End - Start || {Start, End} <- Parts]).

held(#{holders := Holders}) ->
    {length(Holders), [holder(H) || {H, _, _} <- lists:sublist(Holders, ?MOST_HOLDERS)]};
held(_) ->
    undefined.

holder(Pid) when is_pid(Pid) -> name_or_pid(Pid);
holder({queue, Pid}) -> "queue of " ++ name_or_pid(Pid);
holder({ets, Table}) -> "ets " ++ table(Table);
holder(literals) -> "literals".

name_or_pid(Pid) ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> table(Name);
        _ -> pid_to_list(Pid)
    end.

table(Table) -> lists:flatten(sonde_names:readable(io_lib:format("~0tp", [Table]))).

%% ---- tables

tables(Attr, #{deep := Deep} = Request) when Attr =/= binary_memory; Deep ->
    Tables = sonde_ets:count(Attr, want(Request), #{max_rows => 1000000}),
    #{tables => [{table(Table), Value, lists:append([named(A) || A <- Attrs]), sonde_ets:bytes(Table)}
                 || {Table, Value, Attrs} <- shown(Tables, Request)]};
tables(_, _) ->
    #{}.

%% The pid opens the owner's page, the name is what people read.
named({owner, Pid}) -> [{owner, pid_to_list(Pid)}, {owner_name, name_or_pid(Pid)}];
named({_, _} = Attr) -> [Attr];
named(Name) -> [{name, Name}].

%% ---- binaries and allocators

binaries(#{rows := N} = Request) ->
    First = Request#{from := 0},
    #{account => native(fun() -> sonde_bin_account:bin_account(#{}) end),
      owned => owned(native(fun() -> sonde_garbage:bin_owned(want(First), #{}) end), First),
      holders => holders(native(fun() -> sonde_bin_account:bin_holders(N, size, #{}) end))}.

owned({error, _} = Error, _) -> Error;
owned({Rows, _}, Request) ->
    [{pid_to_list(Pid), Bytes, Attrs}
     || {Pid, Bytes, Attrs} <- shown(sonde_origin:rows(Rows), Request)].

holders({error, _} = Error) -> Error;
holders({Binaries, _}) ->
    [{Id, Size, Refc, Elsewhere, held(Binary)}
     || #{id := Id, size := Size, refc := Refc, elsewhere := Elsewhere} = Binary <- Binaries].

%% The length of the chain, and pids as text. In a deadlock, `waits_for' is the whole circle.
waits({error, _} = Error, _) -> Error;
waits({Rows, _}, Request) ->
    [{waited(For), Waiters, [wait(Attr) || Attr <- lists:reverse(Attrs)]}
     || {For, Waiters, Attrs} <- shown(sonde_origin:rows(Rows), Request)].

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
