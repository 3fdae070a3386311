%% sonde exports what recon exports; proc_count and proc_window keep recon's contract: rows, order,
%% ties, which processes are left out, odd inputs. The oracle is process_info, sorted, and recon
%% itself where it is available.
-module(recon_SUITE).

-import(sonde_test, [crowd/1, queue/1, raised/1, same/3]).

-compile([export_all, nowarn_export_all]).

-define(OURS, [binary_memory, binary_count, link_count, monitor_count, monitored_by_count,
               dictionary_size]).
-define(NATIVE, [memory, total_heap_size, heap_size, stack_size, message_queue_len, reductions,
                 catchlevel | ?OURS]).
-define(ITEMS, [binary, catchlevel, current_function, current_location, current_stacktrace,
                dictionary, error_handler, garbage_collection, group_leader, heap_size,
                initial_call, links, memory, message_queue_data, message_queue_len, messages,
                min_heap_size, monitored_by, monitors, priority, reductions, registered_name,
                sequential_trace_token, stack_size, status, suspending, total_heap_size, trace,
                trap_exit, fullsweep_after, group_leader, backtrace]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [exports_what_recon_exports, rows_are_sort_and_take, every_item_has_rows,
     new_attributes_are_lengths, names_come_first_only_if_registered, equal_values_by_higher_pid,
     caller_is_left_out, caller_is_in_with_self, odd_n, unknown_attribute_is_badarg,
     bad_options_are_badarg, dead_processes_have_no_row, rows_are_full_while_processes_die,
     window_is_growth, window_of_the_new_and_the_dead, window_names_the_dead,
     window_of_many_dead,
     window_with_self, window_bad_input_at_once, window_infinity_waits, window_max_entries,
     no_message_reaches_the_caller, blocked_process_has_a_row, counts_as_recon,
     windows_as_recon, errors_as_recon].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% For all six modules; the recon of `compat' covers the other direction.
exports_what_recon_exports(_Config) ->
    with_recon(fun() ->
        _ = [ok = sonde_conform:exports(M)
             || M <- [recon, recon_lib, recon_alloc, recon_map, recon_rec, recon_trace]],
        ok
    end).

%% ---- rows

rows_are_sort_and_take(_Config) ->
    Pids = crowd(30),
    _ = [same_as_oracle(Attr, N) || Attr <- ?NATIVE -- [reductions], N <- [0, 1, 7, 30, 100000]],
    sonde_test:stop(Pids).

same_as_oracle(Attr, N) ->
    Oracle = fun() -> lists:sublist(sonde_test:all_rows(fun(P) -> value(Attr, P) end), N) end,
    Ours = fun() -> [{P, V} || {P, V, _} <- sonde:proc_count(Attr, N)] end,
    same({Attr, N}, Oracle, Ours).

every_item_has_rows(_Config) ->
    Pids = crowd(5),
    _ = [begin
             Rows = sonde_test:rows_of(Pids, sonde:proc_count(Item, -1)),
             {Item, Expected} = {Item, [{P, V} || {P, V} <- item_rows(Item, Pids)]},
             {Item, Expected} = {Item, [{P, V} || {P, V, _} <- Rows]}
         end || Item <- ?ITEMS -- [reductions]], % asking adds reductions
    sonde_test:stop(Pids).

item_rows(Item, Pids) ->
    Rows = [{V, P} || P <- Pids, [{_, V}] <- [process_info(P, [Item])]],
    [{P, V} || {V, P} <- lists:reverse(lists:sort(Rows))].

new_attributes_are_lengths(_Config) ->
    Pids = crowd(12),
    _ = [begin
             Rows = sonde_test:rows_of(Pids, sonde:proc_count(Attr, -1)),
             12 = length(Rows),
             _ = [{Attr, P, {ok, V}} = {Attr, P, value(Attr, P)} || {P, V, _} <- Rows]
         end || Attr <- ?OURS],
    sonde_test:stop(Pids).

names_come_first_only_if_registered(_Config) ->
    Named = sonde_test:hold(fun() -> register(sonde_named, self()), queue(30) end),
    Unnamed = sonde_test:hold(fun() -> queue(20) end),
    Rows = sonde:proc_count(message_queue_len, 2),
    [{Named, 30, [sonde_named, {current_function, {sonde_test, park, 1}},
                  {initial_call, {erlang, apply, 2}}]},
     {Unnamed, 20, [{current_function, {sonde_test, park, 1}},
                    {initial_call, {erlang, apply, 2}}]}] = Rows,
    sonde_test:stop([Named, Unnamed]).

equal_values_by_higher_pid(_Config) ->
    Pids = [sonde_test:hold(fun() -> queue(17) end) || _ <- lists:seq(1, 20)],
    Rows = sonde:proc_count(message_queue_len, 15),
    Expected = lists:sublist(lists:reverse(lists:sort(Pids)), 15),
    Expected = sonde_test:pids(Rows),
    sonde_test:stop(Pids).

caller_is_left_out(_Config) ->
    _ = [false = lists:keymember(self(), 1, sonde:proc_count(Attr, -1))
         || Attr <- [memory, message_queue_len, status, binary_count]],
    false = lists:keymember(self(), 1, sonde:proc_window(memory, -1, 0)),
    false = lists:keymember(self(), 1, sonde:proc_count(memory, 100000, #{})),
    false = lists:keymember(self(), 1, sonde:proc_count(memory, 100000, #{self => false})).

caller_is_in_with_self(_Config) ->
    _ = [self() ! {mine, I} || I <- lists:seq(1, 1000)],
    _ = [put({key, I}, I) || I <- lists:seq(1, 5000)],
    Self = self(),
    [{Self, 1000, [{current_function, _}, {initial_call, _}]}] =
        sonde:proc_count(message_queue_len, 1, #{self => true}),
    Keys = length(get()),
    [{Self, Keys, _}] = sonde:proc_count(dictionary_size, 1, #{self => true}),
    [{Self, 1000, _}] = [R || {P, _, _} = R <- sonde:proc_count(message_queue_len, 100000,
                                                                #{self => true}), P =:= Self],
    _ = [receive {mine, I} -> ok end || I <- lists:seq(1, 1000)],
    ok.

%% recon counts N down to 0: an N that never reaches 0 gives all rows, sorted.
odd_n(_Config) ->
    [] = sonde:proc_count(memory, 0),
    [] = sonde:proc_window(memory, 0, 0),
    _ = [begin
             Rows = sonde:proc_count(status, N),
             Sorted = lists:reverse(lists:sort([{V, P} || {P, V, _} <- Rows])),
             Sorted = [{V, P} || {P, V, _} <- Rows],
             true = length(Rows) > 20
         end || N <- [-1, 1.0, 0.5, -7.5, 1 bsl 80]],
    _ = [{N, badarith} = {N, raised(fun() -> sonde:proc_count(memory, N) end)}
         || N <- [foo, "1", {}, <<>>, self()]],
    _ = [{N, badarith} = {N, raised(fun() -> sonde:proc_window(memory, N, 0) end)}
         || N <- [foo, "1", {}]].

unknown_attribute_is_badarg(_Config) ->
    _ = [{A, N, badarg} = {A, N, raised(fun() -> sonde:proc_count(A, N) end)}
         || A <- [foo, undefined, binary_uniq, "memory", [[memory]], {memory}, <<"memory">>, 1,
                  self(), #{}],
            N <- [0, 1, -1]],
    _ = [{A, badarg} = {A, raised(fun() -> sonde:proc_window(A, 1, infinity) end)}
         || A <- [foo, "memory", 1]],
    badarg = raised(fun() -> sonde:proc_count(foo, 1, #{}) end),
    badarg = raised(fun() -> sonde:proc_window(foo, 1, 0, #{}) end).

bad_options_are_badarg(_Config) ->
    _ = [{Opts, badarg} = {Opts, raised(fun() -> sonde:proc_count(memory, 1, Opts) end)}
         || Opts <- [#{foo => 1}, #{self => 1}, #{max_entries => 1}, [], [{self, true}], true]],
    _ = [{Opts, badarg} = {Opts, raised(fun() -> sonde:proc_window(memory, 1, infinity, Opts) end)}
         || Opts <- [#{foo => 1}, #{self => yes}, #{max_entries => 0}, #{max_entries => 1.0},
                     #{max_entries => infinity}, []]],
    _ = [{N, badarg} = {N, raised(fun() -> sonde:proc_count(memory, N, #{}) end)}
         || N <- [-1, 1.0, foo, "1"]],
    _ = [{N, badarg} = {N, raised(fun() -> sonde:proc_window(memory, N, infinity, #{}) end)}
         || N <- [-1, 1.0, foo]].

%% ---- dying processes

dead_processes_have_no_row(_Config) ->
    Pids = crowd(10),
    {Dead, Alive} = lists:split(5, Pids),
    ok = sonde_test:stop(Dead),
    Rows = sonde:proc_count(memory, -1),
    [] = sonde_test:rows_of(Dead, Rows),
    5 = length(sonde_test:rows_of(Alive, Rows)),
    sonde_test:stop(Alive).

rows_are_full_while_processes_die(_Config) ->
    Pids = crowd(100),
    Die = fun() -> _ = [spawn(fun dies_soon/0) || _ <- lists:seq(1, 20)], timer:sleep(2) end,
    ok = sonde_test:beside(2, Die, 20, fun() ->
        [begin
             Rows = sonde:proc_count(Attr, 100),
             100 = length(Rows),
             true = [{V, P} || {P, V, _} <- Rows]
                 =:= lists:reverse(lists:usort([{V, P} || {P, V, _} <- Rows])),
             [] = [R || {_, _, As} = R <- Rows, not is_attrs(As)]
         end || Attr <- [memory, heap_size, message_queue_len, status]]
    end),
    sonde_test:stop(Pids).

%% It is large, so that it is among the winners.
dies_soon() ->
    _ = lists:seq(1, 5000),
    queue(3).

is_attrs([Name | Calls]) when is_atom(Name) -> is_attrs(Calls);
is_attrs([{current_function, _}, {initial_call, {_, _, _}}]) -> true;
is_attrs(_) -> false.

%% ---- windows

window_is_growth(_Config) ->
    [Grown, Same] = [sonde_test:hold(fun() -> queue(N) end) || N <- [10, 900]],
    Shrunk = spawn(fun() -> queue(500), receive shrink -> flush() end, sonde_test:park([]) end),
    sonde_test:settle(Shrunk),
    Rows = in_window(fun() ->
                             _ = [Grown ! {more, I} || I <- lists:seq(1, 400)],
                             Shrunk ! shrink,
                             sonde_test:settle(Shrunk)
                     end),
    [{Grown, 400, _}] = sonde_test:rows_of([Grown], Rows),
    [{Shrunk, -500, _}] = sonde_test:rows_of([Shrunk], Rows),
    [{Same, 0, _}] = sonde_test:rows_of([Same], Rows),
    {Grown, 400, Attrs} = hd(Rows),
    true = is_attrs(Attrs),
    sonde_test:stop([Grown, Shrunk, Same]).

window_of_the_new_and_the_dead(_Config) ->
    [Dead, Kept] = [sonde_test:hold(fun() -> queue(N) end) || N <- [700, 800]],
    Self = self(),
    Rows = in_window(fun() ->
                             sonde_test:stop(Dead),
                             Self ! {new, sonde_test:hold(fun() -> queue(600) end)}
                     end),
    New = receive {new, Pid} -> Pid end,
    [{Dead, 700, _}, {New, 600, _} | _] = Rows,
    [{Kept, 0, _}] = sonde_test:rows_of([Kept], Rows),
    sonde_test:stop([New, Kept]).

window_names_the_dead(_Config) ->
    Dead = sonde_test:hold(fun() -> register(sonde_dies, self()), queue(700) end),
    [{Dead, 700, [sonde_dies, {current_function, {sonde_test, park, 1}},
                  {initial_call, {erlang, apply, 2}}]} | _] =
        in_window(fun() -> sonde_test:stop(Dead) end).

%% More processes die than are asked at the start: each row still has the two calls.
window_of_many_dead(_Config) ->
    Dead = [sonde_test:hold(fun() -> queue(5) end) || _ <- lists:seq(1, 40)],
    Large = [sonde_test:hold(fun() -> queue(50) end) || _ <- lists:seq(1, 40)],
    Rows = sonde_test:in_window(fun() -> sonde:proc_window(message_queue_len, 60, 1000) end,
                                fun() -> sonde_test:stop(Dead ++ Large) end),
    true = length(sonde_test:rows_of(Dead, Rows)) >= 15,
    [] = [R || {_, _, As} = R <- Rows, not is_attrs(As)].

window_with_self(_Config) ->
    Test = self(),
    Ask = fun() ->
                  _ = [self() ! {mine, I} || I <- lists:seq(1, 50)],
                  Test ! {asks, self()},
                  {self(), sonde:proc_window(message_queue_len, 1, 1000, #{self => true})}
          end,
    {Self, [{Self, 1000, _}]} =
        sonde_test:in_window(Ask, fun() ->
                                          Pid = receive {asks, Asks} -> Asks end,
                                          [Pid ! {mine, I} || I <- lists:seq(51, 1050)]
                                  end).

window_bad_input_at_once(_Config) ->
    _ = [{Ms, timeout_value} = {Ms, raised(fun() -> sonde:proc_window(memory, 1, Ms) end)}
         || Ms <- [-1, 1.0, foo, "1", undefined]],
    timeout_value = raised(fun() -> sonde:proc_window(memory, 1, -1, #{}) end),
    timeout_value = raised(fun() -> sonde:proc_window(status, 1, -1) end),
    _ = [{A, badarith} = {A, raised(fun() -> sonde:proc_window(A, 1, infinity) end)}
         || A <- [status, links, binary, registered_name, current_function]].

window_infinity_waits(_Config) ->
    {Pid, Ref} = spawn_monitor(fun() -> sonde:proc_window(memory, 1, infinity) end),
    ok = sonde_test:while_asleep(Pid, fun() -> ok end),
    receive {'DOWN', Ref, _, _, Why} -> ct:fail(Why) after 100 -> ok end,
    exit(Pid, kill),
    receive {'DOWN', Ref, _, _, killed} -> ok end.

window_max_entries(_Config) ->
    system_limit = raised(fun() -> sonde:proc_window(memory, 1, 0, #{max_entries => 5}) end),
    [_] = sonde:proc_window(memory, 1, 0, #{max_entries => 100000}).

%% A window of queue lengths, with Fun run inside it.
in_window(Fun) ->
    sonde_test:in_window(fun() -> sonde:proc_window(message_queue_len, -1, 1000) end, Fun).

flush() ->
    receive {queued, _} -> flush()
    after 0 -> ok
    end.

%% ---- what the caller notices

no_message_reaches_the_caller(_Config) ->
    sonde_test:no_message(fun() ->
        _ = sonde:proc_count(memory, 5),
        _ = sonde:proc_count(status, 5),
        _ = sonde:proc_window(memory, 5, 1),
        badarg = raised(fun() -> sonde:proc_count(foo, 5) end)
    end).

%% The values are those of process_info, read natively or asked.
blocked_process_has_a_row(Config) ->
    {Pid, _} = Blocked = sonde_test:block(proplists:get_value(priv_dir, Config)),
    [{Pid, 0, _}] = sonde_test:rows_of([Pid], sonde:proc_count(message_queue_len, -1)),
    {ok, Count} = value(binary_count, Pid),
    [{Pid, Count, _}] = sonde_test:rows_of([Pid], sonde:proc_count(binary_count, -1)),
    ok = sonde_test:unblock(Blocked),
    sonde_test:stop(Pid).

%% ---- beside recon itself

counts_as_recon(_Config) ->
    with_recon(fun() ->
        Pids = crowd(20),
        _ = [same_rows({proc_count, [Attr, N]})
             || Attr <- [binary_memory | ?ITEMS] -- [reductions, garbage_collection],
                N <- [0, 1, 3, 20, 100000, -1, 1.0]],
        sonde_test:stop(Pids)
    end).

windows_as_recon(_Config) ->
    with_recon(fun() ->
        Pids = crowd(20),
        _ = [same_rows({proc_window, [Attr, N, 1]})
             || Attr <- [memory, message_queue_len, heap_size, binary_memory], N <- [0, 5, -1]],
        sonde_test:stop(Pids)
    end).

%% Class and reason agree; the stack trace is not part of the contract.
errors_as_recon(_Config) ->
    with_recon(fun() ->
        _ = [begin
                 Theirs = raised(fun() -> apply(recon, F, Args) end),
                 {F, Args, Theirs} = {F, Args, raised(fun() -> apply(sonde, F, Args) end)}
             end || {F, Args} <- [{proc_count, [foo, 1]}, {proc_count, [foo, 0]},
                                  {proc_count, [memory, foo]},
                                  {proc_count, [{memory}, 1]}, {proc_count, ["memory", 1]},
                                  {proc_count, [foo, foo]},
                                  {proc_window, [memory, 1, -1]}, {proc_window, [memory, 1, foo]},
                                  {proc_window, [memory, 1, 1.5]}, {proc_window, [foo, 1, 1]},
                                  {proc_window, [status, 1, 1]}, {proc_window, [links, 1, 1]},
                                  {proc_window, [memory, foo, 1]},
                                  {proc_window, [status, 1, -1]},
                                  {bin_leak, [foo]}, {bin_leak, ["1"]}]],
        ok
    end).

with_recon(Fun) ->
    case sonde_test:recon() of
        ok -> Fun();
        Skip -> Skip
    end.

same_rows({F, Args}) ->
    same({F, Args}, fun() -> apply(recon, F, Args) end, fun() -> apply(sonde, F, Args) end).

%% ---- the oracle

value(binary_memory, Pid) -> mapped(binary, Pid, fun(Bs) -> lists:sum([S || {_, S, _} <- Bs]) end);
value(binary_count, Pid) -> mapped(binary, Pid, fun erlang:length/1);
value(link_count, Pid) -> mapped(links, Pid, fun erlang:length/1);
value(monitor_count, Pid) -> mapped(monitors, Pid, fun erlang:length/1);
value(monitored_by_count, Pid) -> mapped(monitored_by, Pid, fun erlang:length/1);
value(dictionary_size, Pid) -> mapped(dictionary, Pid, fun erlang:length/1);
value(Item, Pid) -> mapped(Item, Pid, fun(Value) -> Value end).

mapped(Item, Pid, Fun) ->
    case process_info(Pid, Item) of
        {Item, Value} -> {ok, Fun(Value)};
        undefined -> undefined
    end.
