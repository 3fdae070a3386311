%% Promises of the documentation that concern several calls: what a look changes, opens and counts,
%% how long it holds a scheduler, and that the proof succeeds if heaps are limited.
-module(promises_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [looks_change_nothing_of_a_process, looks_open_nothing, sensitive_dictionary_is_not_counted,
     counters_tell_who_was_asked, no_native_call_takes_long, proves_where_heaps_are_limited,
     bin_window_of_a_table_is_its_growth, text_that_is_no_format_is_written,
     no_leak_is_told_in_its_first_five_hours].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% ---- what a look leaves unchanged

%% A trace, link, monitor or flag would show in process_info. The native side asks no process, so
%% the process has not run either, except for the attributes of its row.
looks_change_nothing_of_a_process(_Config) ->
    Pid = sonde_test:hold(fun() ->
                                  put(key, value),
                                  self() ! {some, mail},
                                  [binary:copy(<<1>>, 1000), lists:seq(1, 1000)]
                          end),
    Kept = [links, monitors, monitored_by, trap_exit, error_handler, priority, group_leader,
            registered_name, sequential_trace_token, suspending, trace, fullsweep_after,
            min_heap_size, message_queue_data, dictionary, messages, status, current_function],
    Runs = [reductions, garbage_collection, status],
    {flags, []} = erlang:trace_info(Pid, flags),
    _ = [begin
             Before = process_info(Pid, Kept),
             Still = process_info(Pid, Runs),
             _ = Look(Pid),
             {Name, true} = {Name, is_asked(Name) orelse process_info(Pid, Runs) =:= Still},
             {Name, Before} = {Name, process_info(Pid, Kept)},
             {Name, {flags, []}} = {Name, erlang:trace_info(Pid, flags)}
         end || {Name, Look} <- looks()],
    sonde_test:stop(Pid).

is_asked(Name) ->
    sonde_test:side() =:= portable orelse
        lists:member(Name, [proc_count, garbage, shares, proc_window, proc_group, bin_garbage,
                            bin_waste, info]).

%% A look opens no file or port and registers no name. Loading code opens files, so it comes before.
looks_open_nothing(_Config) ->
    Pid = sonde_test:hold(fun() -> [binary:copy(<<1>>, 1000)] end),
    _ = [Look(Pid) || {_, Look} <- looks()],
    Before = {erlang:ports(), lists:sort(registered())},
    Opens = [{prim_file, open, 2}, {prim_file, read_file, 1}, {prim_inet, open, 3}],
    _ = [{module, M} = code:ensure_loaded(M) || {M, _, _} <- Opens],
    [1, 1] = [erlang:trace_pattern(Open, true, [call_count]) || {prim_file, _, _} = Open <- Opens],
    _ = erlang:trace_pattern({prim_inet, open, 3}, true, [call_count]),
    {ok, Self} = file:read_file(code:which(?MODULE)),
    true = opened(Opens) > 0 andalso byte_size(Self) > 0,
    Already = opened(Opens),
    _ = [begin
             _ = Look(Pid),
             {Name, Already} = {Name, opened(Opens)}
         end || {Name, Look} <- looks()],
    _ = [erlang:trace_pattern(Open, false, [call_count]) || Open <- Opens],
    Before = {erlang:ports(), lists:sort(registered())},
    sonde_test:stop(Pid).

opened(Opens) ->
    lists:sum([N || Open <- Opens, {call_count, N} <- [erlang:trace_info(Open, call_count)],
                    is_integer(N)]).

%% All calls that look at processes and change none, except sonde:diagnosis, which reads /proc.
looks() ->
    [{Name, fun(Pid) -> try Look(Pid) catch error:{native_off, _} -> off end end}
     || {Name, Look} <- [{proc_count, fun(_) -> sonde:proc_count(sonde_attr:native(), 1000) end},
                         {garbage, fun(_) -> sonde:proc_count(garbage_bytes, 1000) end},
                         {shares, fun(_) -> sonde:proc_count(binary_proportional, 1000) end},
                         {proc_window, fun(_) -> sonde:proc_window(memory, 1000, 1) end},
                         {proc_group, fun(_) -> sonde:proc_group(initial_call, [memory]) end},
                         {bin_account, fun(_) -> sonde:bin_account() end},
                         {bin_garbage, fun(_) -> sonde:bin_garbage(1000) end},
                         {bin_waste, fun(_) -> sonde:bin_waste(1000) end},
                         {bin_holders, fun(_) -> sonde:bin_holders(10) end},
                         {info, fun sonde:info/1},
                         {heap, fun sonde:heap/1},
                         {heap_top, fun(Pid) -> sonde:heap_top(Pid, 10) end},
                         {mailbox, fun(Pid) -> sonde:mailbox(Pid, 10) end},
                         {flat_size, fun(Pid) -> sonde:flat_size(Pid, all) end},
                         {bin_slices, fun sonde:bin_slices/1}]].

%% ---- what process_info hides

sensitive_dictionary_is_not_counted(_Config) ->
    Pid = sonde_test:hold(fun() ->
                                  _ = process_flag(sensitive, true),
                                  [put(I, secret) || I <- lists:seq(1, 100)]
                          end),
    {dictionary, []} = process_info(Pid, dictionary),
    [{Pid, 0, _}] = sonde_test:rows_of([Pid], sonde:proc_count(dictionary_size, -1)),
    [{dictionary_size, 0}] = sonde:info(Pid, [dictionary_size]),
    sonde_test:stop(Pid).

%% ---- the native side

%% A process in a long native call is busy at each try, and is then asked.
counters_tell_who_was_asked(Config) ->
    Blocked = {Pid, _} = sonde_test:block(proplists:get_value(priv_dir, Config)),
    #{counters := #{busy := Busy, asked := Asked, native := Native}} = sonde:native(),
    [{Pid, _, _}] = sonde_test:rows_of([Pid], sonde:proc_count(binary_count, -1)),
    #{counters := #{busy := Busier, asked := More, native := Read}} = sonde:native(),
    true = Busier > Busy andalso More > Asked andalso Read > Native + 10,
    ok = sonde_test:unblock(Blocked),
    sonde_test:stop(Pid).

%% A slice ends after five milliseconds, and marking so large a heap takes many: no call does it
%% all.
no_native_call_takes_long(_Config) ->
    Pid = sonde_test:hold(fun() -> lists:seq(1, 4000000) end),
    Scan = sonde_nif:scan_new([garbage_bytes], each, 0, [Pid], [], 1000),
    true = slices(fun() -> sonde_nif:scan_step(Scan) end) >= 2,
    Look = sonde_nif:look_new(mark, Pid, [], 1 bsl 40, 0, 0),
    true = slices(fun() -> sonde_nif:look_step(Look) end) >= 2,
    ok = sonde_look:finish(Look),
    sonde_test:stop(Pid).

slices(Step) -> slices(Step, 0).

slices(Step, N) ->
    case Step() of
        more -> slices(Step, N + 1);
        _ -> N
    end.

%% A heap limit for all new processes does not apply to those of the proof.
proves_where_heaps_are_limited(_Config) ->
    sonde_peer_helper:with(shipped, fun(Peer) ->
        Call = fun(M, F, A) -> sonde_peer_helper:call(Peer, M, F, A) end,
        {ok, Ours} = file:list_dir(filename:dirname(code:which(sonde))),
        _ = [{module, _} = Call(code, ensure_loaded, [list_to_atom(filename:rootname(Beam))])
             || Beam <- Ours, filename:extension(Beam) =:= ".beam"],
        _ = Call(erlang, system_flag, [max_heap_size, #{size => 30000, kill => true,
                                                        error_logger => false}]),
        #{status := active} = Call(sonde, native, [])
    end).

%% The row shows the growth, not the size: the table starts with 50 MB, and gains at most 20 MB.
bin_window_of_a_table_is_its_growth(_Config) ->
    Test = self(),
    Pid = spawn(fun() ->
                        Tab = ets:new(fills, [private]),
                        true = ets:insert(Tab, {0, [binary:copy(<<1>>, 5000000)
                                                    || _ <- lists:seq(1, 10)]}),
                        true = garbage_collect(),
                        Test ! {fills, Tab},
                        _ = [begin
                                 true = ets:insert(Tab, {I, binary:copy(<<1>>, 1000)}),
                                 true = garbage_collect(),
                                 timer:sleep(1)
                             end || I <- lists:seq(1, 20000)],
                        sonde_test:park([])
                end),
    Tab = receive {fills, Made} -> Made end,
    {_, Growth, _} = lists:keyfind({ets, Tab}, 1, sonde:bin_window(100, 300)),
    {0, true} = {Growth rem 1000, Growth > 0 andalso Growth =< 20000000},
    sonde_test:stop(Pid).

%% ---- traces

%% A formatter may return a format, as in recon, or text.
text_that_is_no_format_is_written(Config) ->
    Name = filename:join(proplists:get_value(priv_dir, Config), "text"),
    {ok, File} = file:open(Name, [write]),
    Text = fun({trace, _, call, {_, _, [T]}}) -> T end,
    1 = sonde_trace:calls({?MODULE, seen, 1}, 2,
                          [{pid, self()}, {io_server, File}, {formatter, Text}]),
    _ = [?MODULE:seen(T) || T <- ["100~p\n", "a~~b~n"]],
    ok = sonde_test:until(traced, fun() -> whereis(sonde_trace_formatter) =:= undefined end),
    ok = sonde_trace:clear(),
    ok = file:close(File),
    {ok, <<"100~p\na~b\n">>} = file:read_file(Name).

seen(Text) -> Text.

%% ---- the watcher

%% A leak must show in two successive blocks, each of a quarter of an hour.
no_leak_is_told_in_its_first_five_hours(_Config) ->
    Hours = first_told(0, sonde_watch_core:new(#{min_bytes => 10000000, top => 20})),
    {Hours, true} = {Hours, Hours >= 5 andalso Hours < 6}.

first_told(N, Core0) when N < 1000 ->
    Bytes = 50000000 + N * 100000,
    Sample = #{at => N * 30000, reductions => N * 1000000, memory => [], counts => [], tables => [],
               gone => [], processes => [{p, Bytes, Bytes, []}]},
    {Events, Core} = sonde_watch_core:step(Sample, Core0),
    case [leak || #{event := leak} <- Events] of
        [] -> first_told(N + 1, Core);
        _ -> N / 120
    end.
