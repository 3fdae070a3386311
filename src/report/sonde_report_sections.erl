%% @private
%% What each section of a report has. Rows are tuples, which become arrays; names are texts. Nothing
%% here is content of terms, except where `content' is true, in `heaps'.
-module(sonde_report_sections).

-export([section/2, attrs/0, about_node/0, emulator/0]).
%% what is the same of a node that is looked at from outside
-export([none/1, left_out/1, suspects/2, not_looked_at/1, table/3, grouped/1, waits/2, stacks/2]).

-import(sonde_report_text, [text/1, long/1, name/1, call/1, names/1, process/1, registered/1, table/1]).

-define(HOLDERS, 30).
-define(SHOWN, 8).            % holders of one binary
-define(GROUPS, 400).
-define(MOST_GROUPS, 100000).
-define(ROWS, 200000).        % a table with more rows is not asked for its binaries
-define(WAITS, 100).
-define(STACKS, 400).
-define(DEPTH, 32).
-define(SAMPLES, 1000).
-define(BINARIES_MS, 3000).   % for the binaries of tables

%% @doc Runs in a helper. `keep' is for other sections and not shown.
-spec section(atom(), #{atom() => term()}) -> sonde_report_data:made().
section(node, #{interval := Ms}) -> #{data => the_node(Ms)};
section(diagnosis, #{interval := Ms}) -> diagnosis(sonde_diagnose:diagnosis(#{interval => Ms}));
section(busy, Opts) -> #{data => busy(Opts)};
section(binaries, Opts) -> binaries(maps:with([threads, max_rows], Opts));
section(groups, Opts) -> groups(Opts);
section(processes, Opts) -> processes(Opts);
section(tables, Opts) -> tables(Opts);
section(ports, Opts) -> #{data => ports(Opts)};
section(sockets, Opts) -> #{data => sockets(Opts)};
section(allocators, _) -> #{data => allocators()};
section(waits, _) -> waits();
section(stacks, Opts) -> stacks(Opts);
section(watcher, #{watcher := Watcher}) -> #{data => watcher(Watcher)};
section(heaps, Opts) -> sonde_report_heaps:section(Opts).

%% @doc There is no such section, and why.
-spec none(binary()) -> no_return().
none(Text) -> throw({none, Text}).

%% @doc What a call could not read, as of its own report.
-spec left_out(#{left_out := non_neg_integer(), atom() => term()}) -> #{cut => [binary()]}.
left_out(#{left_out := 0}) -> #{};
left_out(#{left_out := N} = Report) ->
    Late = maps:get(timeout, Report, 0),
    #{cut => [text([sonde_units:missed(N, []), " could not be read" | [[", ", integer_to_list(Late), " of them not in time"] || Late > 0]])]}.

%% ---- the node

the_node(Ms) ->
    [{Absolutes, Increments}] = sonde_node:stats(1, Ms, fun(Stats, _) -> [Stats] end, []),
    Usage = proplists:get_value(scheduler_usage, Increments, []),
    (about_node())#{
      ms => Ms, run_queue => proplists:get_value(run_queue, Absolutes),
      usage => list_to_tuple([{Id, Share} || {Id, Share} <- Usage]),
      increments => maps:from_list([I || {Key, _} = I <- Increments, Key =/= scheduler_usage])}.

%% @doc What does not change while it is watched, and since when it runs.
-spec about_node() -> #{atom() => term()}.
about_node() ->
    #{otp => text(erlang:system_info(otp_release)), erts => text(erlang:system_info(version)),
      system => text(erlang:system_info(system_architecture)),
      emulator => emulator(),
      schedulers => erlang:system_info(schedulers), online => erlang:system_info(schedulers_online),
      cores => known(erlang:system_info(logical_processors_available)),
      up_ms => erlang:convert_time_unit(erlang:monotonic_time() - erlang:system_info(start_time),
                                        native, millisecond)}.

%% @doc Its kind, and how it was built.
-spec emulator() -> binary().
emulator() ->
    text([atom_to_list(erlang:system_info(emu_flavor)), $\s, atom_to_list(erlang:system_info(build_type))]).

known(N) when is_integer(N) -> N;
known(_) -> undefined.

%% ---- the diagnosis

diagnosis(#{suspects := Suspects, not_looked_at := Not, growth := #{ms := Ms, memory := Grown} = Growth,
            memory := Memory, counts := Counts}) ->
    Shell = sonde_names:shell(node()),
    {By, Kinds} = maps:take(by_allocator, Memory),
    {Told, Keep} = suspects(Suspects, Shell),
    #{keep => Keep,
      data => #{ms => Ms, memory => Kinds, grown => Grown,
                by_allocator => [{name(A), Bytes} || {A, Bytes} <- By],
                counts => [{name(K), N, Limit, map_get(K, Growth)}
                           || K <- [processes, ports, atoms, tables], #{K := {N, Limit}} <- [Counts]],
                suspects => Told, not_looked_at => not_looked_at(Not)}}.

%% @doc What a diagnosis could not look at, in words.
-spec not_looked_at([{atom(), term()}]) -> [{binary(), binary()}].
not_looked_at(Not) -> [{text(What), text(Why)} || {What, Why} <- sonde_diagnose_text:not_looked_at(Not)].

%% @doc The suspects in words, and the processes whose heaps may be the matter, the largest first.
-spec suspects([sonde_judge:suspect() | sonde_outside_diagnose:suspect()], sonde_names:shell() | fun((mfa()) -> unicode:chardata())) ->
    {[#{atom() => term()}], [{pid(), binary()}]}.
suspects(Suspects, Shell) ->
    Pids = [{Bytes, Pid, text(["suspect ", integer_to_list(I)])}
            || {I, #{what := Pid, bytes := Bytes, kind := Kind}} <- lists:enumerate(Suspects), is_pid(Pid),
               Kind =/= bottleneck, Kind =/= deadlock], % their heaps are not the matter
    {[suspect(S, Shell) || S <- Suspects], [{Pid, Why} || {_, Pid, Why} <- lists:reverse(lists:sort(Pids))]}.

suspect(#{what := What, kind := Kind, bytes := Bytes, share := Share} = Suspect, Shell) ->
    #{finding := Finding, evidence := Evidence, remedy := Remedy, see := See} =
        sonde_diagnose_text:told(Suspect, Shell),
    #{kind => Kind, finding => long(Finding), remedy => long(Remedy), see => long(See),
      bytes => Bytes, share => Share, pid => case What of Pid when is_pid(Pid) -> process(Pid); _ -> undefined end,
      evidence => [{text(Key), text(Value)} || {Key, Value} <- Evidence]}.

%% ---- processes

%% @doc The attributes of the table: numbers that the native path reads without a message.
-spec attrs() -> [sonde_attr:attr()].
attrs() ->
    [memory, binary_memory, message_queue_len, reductions, total_heap_size, stack_size,
     binary_count, link_count, monitor_count, monitored_by_count, dictionary_size].

processes(#{top := N} = Opts) ->
    Attrs = maps:get(attrs, Opts, attrs()),
    Counted = [{Attr, sonde_attr:without_calls(Rows)}
               || {Attr, Rows} <- sonde_proc_count:counts(Attrs, N, how(Opts))],
    Read = fun(Pid, Of, Missing) ->
                   case sonde_every_process:one(Pid, Missing) of
                       {ok, Read} -> {ok, Read, names(sonde_origin:attrs(Pid, Of))};
                       undefined -> undefined
                   end
           end,
    table(Attrs, Counted, Read).

%% @doc The table of processes: a process that ranks for one attribute is read once more for the others, with its names.
-spec table([sonde_attr:attr()], [{sonde_attr:attr(), [{pid(), integer(), Of}]}],
            fun((pid(), Of, [sonde_attr:attr()]) -> {ok, [integer() | undefined], tuple()} | undefined)) -> sonde_report_data:made().
table(Attrs, Counted, Read) ->
    Known = lists:foldl(fun({Attr, Rows}, Acc) -> lists:foldl(fun(Row, A) -> ranked(Attr, Row, A) end, Acc, Rows) end,
                        #{}, Counted),
    Rows = lists:append([row(Pid, Of, Values, Attrs, Read) || {Pid, {Of, Values}} <- maps:to_list(Known)]),
    Sorted = lists:reverse(lists:keysort(5, Rows)),
    #{keep => largest(Counted),
      data => #{attrs => [text(atom_to_list(Attr)) || Attr <- Attrs],
                units => [unit(Attr) || Attr <- Attrs], rows => Sorted}}.

how(Opts) -> (maps:with([threads], Opts))#{self => false}.

unit(Attr) -> text(atom_to_list(sonde_units:unit(Attr))).

ranked(Attr, {Pid, Value, Of}, Known) ->
    maps:update_with(Pid, fun({Before, Values}) -> {Before, Values#{Attr => Value}} end,
                     {Of, #{Attr => Value}}, Known).

row(Pid, Of, Values, Attrs, Read) ->
    Missing = [Attr || Attr <- Attrs, not is_map_key(Attr, Values)],
    case Read(Pid, Of, Missing) of
        {ok, Others, {Name, Initial, Current}} ->
            All = maps:merge(Values, maps:from_list(lists:zip(Missing, Others))),
            [list_to_tuple([process(Pid), Name, Initial, Current | [map_get(Attr, All) || Attr <- Attrs]])];
        undefined ->
            []
    end.

%% By memory and binaries.
largest(Counted) ->
    Rows = lists:append([Rows || {Attr, Rows} <- Counted, Attr =:= memory orelse Attr =:= binary_memory]),
    Sums = lists:foldl(fun({Pid, Bytes, _}, A) -> maps:update_with(Pid, fun(B) -> B + Bytes end, Bytes, A) end, #{}, Rows),
    [{Pid, <<"most memory">>} || {Pid, _} <- lists:reverse(lists:keysort(2, maps:to_list(Sums)))].

busy(#{top := N, interval := Ms} = Opts) ->
    Rows = sonde_attr:without_calls(sonde_proc_count:window(reductions, N, Ms, how(Opts))),
    #{ms => Ms, rows => [busy_row(Pid, Done, names(sonde_origin:attrs(Pid, Attrs)))
                         || {Pid, Done, Attrs} <- Rows, not sonde_facts_sample:is_idle(Done)]}.

busy_row(Pid, Done, {Name, Initial, Current}) -> {process(Pid), Name, Initial, Current, Done}.

groups(#{side := Side} = Opts) ->
    Attrs = case Side of
                native -> [memory, binary_memory, message_queue_len];
                _ -> [memory, message_queue_len]
            end,
    All = sonde_group:group(application_call, Attrs, (maps:with([threads], Opts))#{max_groups => ?MOST_GROUPS}),
    grouped(All).

%% @doc The groups with most, and the others of each application together.
-spec grouped([{{atom(), {sonde_names:name(), sonde_names:name(), arity()} | undefined}, pos_integer(), [{atom(), integer()}]}]) ->
    sonde_report_data:made().
grouped(All) ->
    {Shown, Rest} = lists:split(min(?GROUPS, length(All)), All),
    #{data => #{rows => [group(App, call(Call), 1, N, Totals) || {{App, Call}, N, Totals} <- Shown] ++ others(Rest)}}.

group(App, Call, Groups, N, Totals) ->
    {name(App), Call, Groups, N, proplists:get_value(memory, Totals),
     proplists:get_value(binary_memory, Totals), proplists:get_value(message_queue_len, Totals)}.

%% One row for the rest of each application.
others(Rest) ->
    Add = fun({{App, _}, N, Totals}, Acc) ->
                  maps:update_with(App, fun({G, M, Sums}) -> {G + 1, M + N, added(Sums, Totals)} end,
                                   {1, N, Totals}, Acc)
          end,
    [group(App, undefined, G, N, Totals) || {App, {G, N, Totals}} <- maps:to_list(lists:foldl(Add, #{}, Rest))].

added(A, B) -> [{Key, X + Y} || {{Key, X}, {Key, Y}} <- lists:zip(A, B)].

%% ---- binaries

binaries(How) ->
    {Account, Holders, Resources} = try sonde_bin_account:all(?HOLDERS, How)
                                    catch error:system_limit -> {sonde_bin_account:bin_account(How), [], []}
                                    end,
    Parts = [exclusive, shared, ets, queues, literals, mixed, resources, elsewhere, overhead, unseen],
    (sampled(Account))#{
      data => #{total => map_get(total, Account), unused => map_get(unused, Account),
                parts => [{name(Part), map_get(Part, Account)} || Part <- Parts],
                missed => map_get(processes_missed, Account), tables_missed => map_get(tables_missed, Account),
                sampled => maps:get(sampled, Account, undefined), error => maps:get(error, Account, undefined),
                holders => [#{size => Size, refc => Refc, elsewhere => Elsewhere, held_by => length(Of),
                              holders => [{registered(H), Refs, Visible}
                                          || {H, Refs, Visible} <- lists:sublist(Of, ?SHOWN)]}
                            || #{size := Size, refc := Refc, holders := Of, elsewhere := Elsewhere} <- Holders],
                resources => [{resource(Type), Count, Bytes, Of} || {Type, Count, Bytes, Of} <- Resources]}}.

sampled(#{sampled := _}) -> #{cut => [<<"there are too many binaries to list the largest">>]};
sampled(_) -> #{}.

resource({Module, Type}) -> text([name(Module), $:, name(Type)]);
resource(unknown) -> <<"of the VM">>.

%% ---- tables, ports, sockets, allocators

tables(#{top := N} = Opts) ->
    Rows = lists:usort([{Tab, Name, Owner, Type, Size}
                        || Attr <- [memory, size],
                           {Tab, _, [Name, {owner, Owner}, {type, Type}, {size, Size}]}
                               <- sonde_ets:count(Attr, N, #{})]),
    Until = case Opts of
                #{binaries := false} -> never;
                _ -> erlang:monotonic_time(millisecond) + ?BINARIES_MS
            end,
    Largest = [{Row, outside(Tab, Size, Until)} || {Tab, _, _, _, Size} = Row <- unique(Rows)],
    {More, Late} = most_outside(ets:all() -- [Tab || {{Tab, _, _, _, _}, _} <- Largest], N, Until),
    Read = lists:append([table_row(Row, Outside) || {Row, Outside} <- Largest ++ More]),
    Unread = Late + length([Row || Row <- Read, Until =/= never, element(7, Row) =:= undefined]),
    (case Unread of
         0 -> #{};
         _ -> #{cut => [text([integer_to_list(Unread), " tables were not asked for their binaries: "
                              "they have too many rows, or there was no time left"])]}
     end)#{data => #{rows => lists:reverse(lists:keysort(6, Read)), all => length(ets:all())}}.

%% A table may have another size each time.
unique(Rows) -> lists:ukeysort(1, Rows).

%% Of the other tables, those with the most binaries, and how many could not be asked. A small table may refer to much.
most_outside(_, _, never) -> {[], 0};
most_outside(Tabs, N, Until) ->
    Sizes = lists:reverse(lists:sort([{Size, Tab} || Tab <- Tabs, Size <- [ets:info(Tab, size)],
                                                     is_integer(Size), Size > 0])),
    Asked = [{outside(Tab, Size, Until), Tab} || {Size, Tab} <- Sizes],
    Most = lists:foldl(fun sonde_largest:add/2, sonde_largest:new(N),
                       [Row || {Bytes, _} = Row <- Asked, is_integer(Bytes), Bytes > 0]),
    {[{{Tab, Name, Owner, Type, Size}, Bytes}
      || {Bytes, Tab} <- sonde_largest:to_list(Most),
         {_, _, [Name, {owner, Owner}, {type, Type}, {size, Size}]} <- sonde_ets:row(Tab)],
     length([Tab || {undefined, Tab} <- Asked])}.

table_row({Tab, _, Owner, Type, _}, Outside) ->
    case {sonde_ets:bytes(Tab), ets:info(Tab, size)} of
        {Bytes, Size} when is_integer(Bytes), is_integer(Size) ->
            [{table(Tab), registered(Owner), name(Type), name(ets:info(Tab, protection)), Size, Bytes,
              Outside}];
        _ ->
            []
    end.

outside(_, _, never) -> undefined;
outside(_, 0, _) -> 0;
outside(Tab, Size, Until) when Size =< ?ROWS ->
    case erlang:monotonic_time(millisecond) < Until andalso sonde_ets:memory(Tab, ?ROWS) of
        Bytes when is_integer(Bytes) -> Bytes;
        _ -> undefined
    end;
outside(_, _, _) -> undefined.

ports(#{top := N}) ->
    Attrs = [memory, queue_size, input, output],
    Ports = lists:usort([Port || Attr <- Attrs, {Port, _, _} <- sonde_port:count(Attr, N)]),
    #{rows => lists:append([port(Port, Attrs) || Port <- Ports]), all => erlang:system_info(port_count),
      kinds => kinds(sonde_port:port_types())}.

%% Ports of one program may have different arguments.
kinds(Types) ->
    Sums = lists:foldl(fun({Name, N}, Acc) -> maps:update_with(program(Name), fun(M) -> M + N end, N, Acc) end,
                       #{}, Types),
    lists:sublist(lists:reverse(lists:keysort(2, maps:to_list(Sums))), ?HOLDERS).

port(Port, Attrs) ->
    Info = [erlang:port_info(Port, Item) || Item <- [name, connected | Attrs]],
    case lists:member(undefined, Info) of
        true -> [];
        false ->
            [{_, Name}, {_, Pid} | Values] = Info,
            [list_to_tuple([process(Port), program(Name), registered(Pid) | [V || {_, V} <- Values]])]
    end.

%% The name of a port is the command that started it: its arguments may be secrets.
program(Command) ->
    text(hd(string:lexemes(Command, " ") ++ [""])).

%% Without addresses.
sockets(#{top := N}) ->
    All = sonde_port:sockets(),
    #{all => length(All),
      rows => [{registered(proplists:get_value(owner, Attrs)), name(kind_of(protocol, Attrs)),
                name(kind_of(domain, Attrs)), Octets,
                maps:get(read_byte, proplists:get_value(counters, Attrs, #{}), 0),
                maps:get(write_byte, proplists:get_value(counters, Attrs, #{}), 0)}
               || {_, Octets, Attrs} <- lists:sublist(All, N)]}.

kind_of(Key, Attrs) ->
    case proplists:get_value(Key, Attrs) of
        Kind when is_atom(Kind) -> Kind;
        _ -> other
    end.

%% The instances of an allocator together.
allocators() ->
    Rows = sonde_alloc:fragmentation(current),
    Sums = lists:foldl(fun({{Allocator, _}, Props}, Acc) ->
                               maps:update_with(Allocator, fun({N, Sum}) -> {N + 1, plus(Sum, sizes(Props))} end,
                                                {1, sizes(Props)}, Acc)
                       end, #{}, Rows),
    #{rows => lists:reverse(lists:keysort(6, [list_to_tuple([name(Allocator), N | Sizes])
                                              || {Allocator, {N, Sizes}} <- maps:to_list(Sums)]))}.

sizes(Props) ->
    [proplists:get_value(Key, Props) || Key <- [sbcs_block_size, sbcs_carriers_size,
                                                mbcs_block_size, mbcs_carriers_size]].

plus(A, B) -> [X + Y || {X, Y} <- lists:zip(A, B)].

%% ---- waits, and where

waits() ->
    {Rows, Report} = sonde_waits:rows(?WAITS, #{}),
    (left_out(Report))#{data => waits([{For, N, began(For, Attrs)} || {For, N, Attrs} <- Rows], fun sonde_report_text:registered/1)}.

began(Pid, Attrs) when is_pid(Pid) -> sonde_origin:attrs(Pid, Attrs);
began(_, Attrs) -> Attrs.

%% @doc The processes that others wait for; Named writes a process with its name.
-spec waits([{pid() | atom(), pos_integer(), list()}], fun((pid() | atom()) -> binary())) -> #{rows := [map()]}.
waits(Rows, Named) -> #{rows => [wait(Row, Named) || Row <- Rows]}.

wait({For, Waiters, Attrs}, Named) ->
    #{process => process(For), named => Named(For), waiters => Waiters,
      direct => proplists:get_value(direct, Attrs),
      waits_for => case proplists:get_value(waits_for, Attrs) of
                       undefined -> undefined;
                       Next -> process(Next)
                   end,
      chain => [Named(Pid) || Pid <- proplists:get_value(longest_chain, Attrs, [])],
      deadlock => [process(Pid) || Pid <- proplists:get_value(deadlock, Attrs, [])],
      queue => proplists:get_value(message_queue_len, Attrs),
      initial_call => call(proplists:get_value(initial_call, Attrs))}.

stacks(#{side := Side} = Opts) ->
    Depth = case Side of native -> #{depth => ?DEPTH}; _ -> #{} end,
    {Rows, Report} = sonde_stacks:rows(?STACKS, maps:merge(Depth, maps:with([threads], Opts))),
    (left_out(Report))#{data => stacks(Rows, fun sonde_report_text:registered/1)}.

%% @doc Stacks as numbers of calls; Named writes a process with its name.
-spec stacks([sonde_stacks:row()], fun((pid()) -> binary())) -> #{calls | rows := list()}.
stacks(Rows, Named) ->
    Calls = lists:usort(lists:append([Stack || {Stack, _, _} <- Rows])),
    Numbers = maps:from_list(lists:zip(Calls, lists:seq(0, length(Calls) - 1))),
    %% the first call first, as a flame grows
    #{calls => [call(Call) || Call <- Calls],
      rows => [{N, list_to_tuple([map_get(Call, Numbers) || Call <- lists:reverse(Stack)]),
                case lists:keyfind(example, 1, Attrs) of
                    {_, Pid} -> Named(Pid);
                    false -> undefined
                end} || {Stack, N, Attrs} <- Rows]}.

%% ---- the watcher

watcher(Watcher) ->
    Pid = case is_pid(Watcher) of true -> Watcher; false -> whereis(Watcher) end,
    is_pid(Pid) orelse none(<<"no watcher runs on this node">>),
    is_watcher(Pid) orelse none(<<"this process is no watcher">>),
    #{accused := Accused, interval := Interval, sweeps := Sweeps} = sonde_watch:status(Watcher),
    History = lists:reverse(sonde_watch:history(Watcher, ?SAMPLES)),
    History =/= [] orelse none(<<"the watcher has no samples yet">>),
    #{interval => Interval, sweeps => Sweeps,
      times => list_to_tuple([T || #{time := T} <- History]),
      series => [{<<"memory">>, name(Kind), list_to_tuple([proplists:get_value(Kind, M) || #{memory := M} <- History])}
                 || Kind <- [processes, binary, ets, code, atom, other]]
          ++ [{<<"count">>, name(Kind), list_to_tuple([count(Kind, C) || #{counts := C} <- History])}
              || Kind <- [processes, ports, atoms, ets_tables]]
          ++ [{<<"count">>, <<"run_queue">>, list_to_tuple([N || #{run_queue := N} <- History])}],
      findings => [found(Event, started_ms()) || Event <- Accused]}.

%% Another process would have to do with a message that it does not know.
is_watcher(Pid) -> proc_lib:translate_initial_call(Pid) =:= {sonde_watch, init, 1}.

%% Events have the time since the VM started, by the clock that never jumps.
started_ms() ->
    Up = erlang:monotonic_time() - erlang:system_info(start_time),
    erlang:system_time(millisecond) - erlang:convert_time_unit(Up, native, millisecond).

count(Kind, Counts) ->
    case lists:keyfind(Kind, 1, Counts) of
        {_, N, _} -> N;
        false -> undefined
    end.

found(#{event := Event, what := What, at := At} = Found, Started) ->
    #{event => Event, what => subject(What), at => At + Started,
      per_hour => maps:get(per_hour, Found, undefined), growth => maps:get(growth, Found, undefined),
      hours => maps:get(hours, Found, undefined), from => maps:get(from, Found, undefined),
      count => maps:get(count, Found, undefined), limit => maps:get(limit, Found, undefined)}.

subject({process, Pid}) -> text(["process ", registered(Pid)]);
subject({table, Tab}) -> text(["table ", table(Tab)]);
subject({memory, Kind}) -> text(["memory of ", name(Kind)]);
subject({count, Kind}) -> text(["number of ", name(Kind)]).
