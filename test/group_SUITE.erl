%% proc_count of several attributes, proc_group, and the sweep that both share: they read each
%% process once, and report what process_info reports.
-module(group_SUITE).

-import(sonde_test, [crowd/1, helpers/0, raised/1, same/3, still/1]).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([rows_are_those_of_each_alone/1, one_sweep_for_all/1, order_and_repeats_as_asked/1,
         odd_lists/1, caller_in_or_out/1,
         groups_by_what_they_run/1, groups_by_name/1, groups_by_application/1, groups_by_label/1,
         groups_of_odd_processes/1, groups_without_asking/1, those_that_may_not_have_begun_are_asked/1,
         groups_by_several_threads/1,
         totals_are_sums_of_process_info/1, largest_first/1, group_of_the_caller/1,
         helpers_are_in_no_row/1, helper_that_ends_in_a_window/1,
         a_slow_answer_delays_no_other/1, helpers_have_the_priority_of_the_caller/1,
         too_many_groups/1, bad_input_at_once/1,
         groups_while_processes_die/1, one_process_as_it_says/1, asked_where_it_cannot_be_read/1,
         people_see_what_proc_lib_began/1, no_message_reaches_the_caller/1]).
-export([serve/0, idle/0, worker/2, told/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [rows_are_those_of_each_alone, one_sweep_for_all, order_and_repeats_as_asked, odd_lists,
     caller_in_or_out, groups_by_what_they_run, groups_by_name, groups_by_application,
     groups_by_label, groups_of_odd_processes, groups_without_asking, those_that_may_not_have_begun_are_asked,
     groups_by_several_threads,
     totals_are_sums_of_process_info, largest_first, group_of_the_caller,
     helpers_are_in_no_row, helper_that_ends_in_a_window, a_slow_answer_delays_no_other,
     helpers_have_the_priority_of_the_caller, too_many_groups, bad_input_at_once,
     groups_while_processes_die, one_process_as_it_says, asked_where_it_cannot_be_read,
     people_see_what_proc_lib_began, no_message_reaches_the_caller].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% ---- initial calls of processes of proc_lib

%% Rows give recon's answer; what people read, and rows of our own calls, give the call itself. An
%% exception is a process whose dictionary may not be read, or is large and would have to be copied.
people_see_what_proc_lib_began(_Config) ->
    Self = self(),
    [Plain, Sensitive, Large] = Pids =
        [begin
             Pid = proc_lib:spawn(?MODULE, worker, [Self, Kind]),
             receive {Pid, ready} -> Pid end
         end || Kind <- [plain, sensitive, large]],
    ProcLib = {initial_call, {proc_lib, init_p, 5}},
    Worker = {initial_call, {?MODULE, worker, 2}},
    Rows = [Row || {P, _, _} = Row <- sonde:proc_count(memory, -1), lists:member(P, Pids)],
    3 = length([Attrs || {_, _, Attrs} <- Rows, lists:last(Attrs) =:= ProcLib]),
    HasKeys = lists:member('$initial_call', keys_of(Large)),
    #{Plain := Worker, Sensitive := ProcLib, Large := Seen} =
        maps:from_list([{P, lists:last(Attrs)} || {P, _, Attrs} <- sonde_origin:rows(Rows)]),
    true = Seen =:= case HasKeys of true -> Worker; false -> ProcLib end,
    Text = printed([Row || {P, _, _} = Row <- Rows, P =:= Plain]),
    {match, _} = re:run(Text, "group_SUITE:worker/2"),
    nomatch = re:run(Text, "proc_lib"),
    _ = sonde_test:pick(fun() ->
            _ = [{F, [Worker]} = {F, [lists:last(As) || {P, _, As} <- sonde:F(1000), P =:= Plain]}
                 || F <- [bin_owned, bin_garbage, bin_waste]]
        end, ok),
    [#{attrs := Attrs}] =
        sonde_facts_procs:last(#{waste => #{}, tried => #{}, seen => #{},
                                 series => #{Plain => [#{monitor_count => 0,
                                                         monitored_by_count => 0}]}}),
    Worker = lists:last(Attrs),
    Worker = lists:last(of_an_event(Plain)),
    {location, [Worker, _]} =
        sonde_origin:shown([Plain], sonde:info(Plain, location)),
    sonde_test:stop(Pids).

%% OTP 26.2 and later.
keys_of(Pid) ->
    try process_info(Pid, {dictionary, '$initial_call'}) of
        {{_, Key}, {?MODULE, worker, 2}} -> [Key]
    catch error:badarg -> []
    end.

printed(Rows) ->
    {returned, ok, Text} = sonde_conform:outcome(sonde, fun(M) -> M:print(Rows, #{width => 200}) end),
    Text.

%% The names that a watcher's sweep found, as its listeners receive them.
of_an_event(Pid) ->
    true = register(group_suite_told, self()),
    {Tell, _} = sonde_watch_notify:start({?MODULE, told}, []),
    [{_, _, Attrs}] = [Row || {P, _, _} = Row <- sonde:proc_count(memory, -1), P =:= Pid],
    ok = sonde_watch_notify:tell(Tell, #{event => collected, what => {process, Pid}, freed => 0,
                                       garbage => 0, attrs => Attrs}),
    Told = receive {told, #{what := {process, Pid}, attrs := Seen}} -> Seen end,
    exit(Tell, kill),
    true = unregister(group_suite_told),
    receive {told, Tell, _} -> ok after 0 -> ok end,
    Told.

told(Event) -> group_suite_told ! {told, Event}.

%% Holds binaries, sees a part of them, and has dropped some.
worker(Test, Kind) ->
    _ = process_flag(sensitive, Kind =:= sensitive),
    _ = [put({key, I}, lists:seq(1, 100)) || Kind =:= large, I <- lists:seq(1, 1000)],
    _ = [put({binary, I}, binary:part(binary:copy(<<I>>, 5000), 1, 2500)) || I <- lists:seq(1, 3)],
    _ = [erase({binary, 3})],
    Test ! {self(), ready},
    receive stop -> ok end.

%% ---- several attributes

rows_are_those_of_each_alone(_Config) ->
    Pids = crowd(40),
    Attrs = (sonde_attr:native() -- [reductions]) ++ [status, links, registered_name],
    _ = [same({Some, N}, fun() -> [{A, sonde:proc_count(A, N)} || A <- Some] end,
               fun() -> sonde:proc_count(Some, N) end)
         || Some <- [Attrs, sonde_attr:native() -- [reductions], [memory], [status], [links, memory]],
            N <- [0, 1, 13, -1]],
    sonde_test:stop(Pids).

%% The native path counts the processes that it read: as many as there are, not as many times as
%% there are attributes.
one_sweep_for_all(_Config) ->
    Pids = crowd(500),
    Before = counters(),
    [{memory, [_]}, {binary_count, [_]}, {link_count, [_]}, {heap_size, [_]}] =
        sonde:proc_count([memory, binary_count, link_count, heap_size], 1),
    After = counters(),
    Read = sonde_test:pick(1, 0),
    true = maps:get(native, After) - maps:get(native, Before) =< Read * 2 * length(processes()),
    true = maps:get(native, After) - maps:get(native, Before) >= Read * 450,
    sonde_test:stop(Pids).

counters() -> maps:get(counters, sonde:native()).

order_and_repeats_as_asked(_Config) ->
    [{status, [_]}, {memory, [M]}, {binary_memory, [_]}, {memory, [M]}, {status, [_]}] =
        sonde:proc_count([status, memory, binary_memory, memory, status], 1).

odd_lists(_Config) ->
    [] = sonde:proc_count([], 5),
    [] = sonde:proc_count([], 5, #{}),
    [{memory, []}, {status, []}] = sonde:proc_count([memory, status], 0),
    {All, [{memory, Rows}]} =
        still(fun() -> {processes() -- [self()], sonde:proc_count([memory], -1)} end),
    {[], []} = {All -- sonde_test:pids(Rows), sonde_test:pids(Rows) -- All},
    _ = [{L, badarg} = {L, raised(fun() -> sonde:proc_count(L, 1) end)}
         || L <- [[foo], [memory, foo], [memory | status], "memory", [[memory]], [memory, "status"],
                  [1]]],
    _ = [{L, badarg} = {L, raised(fun() -> sonde:proc_count(L, 1, #{}) end)}
         || L <- [[foo], [memory | status]]],
    badarith = raised(fun() -> sonde:proc_count([memory], foo) end),
    badarith = raised(fun() -> sonde:proc_count([], foo) end),
    badarg = raised(fun() -> sonde:proc_count([memory], -1, #{}) end).

caller_in_or_out(_Config) ->
    _ = [self() ! {mine, I} || I <- lists:seq(1, 1000)],
    Self = self(),
    [{message_queue_len, [{Self, 1000, _}]}, {status, Status}] =
        sonde:proc_count([message_queue_len, status], 1, #{self => true}),
    [_] = Status,
    [{_, Rows}, {_, Others}] = sonde:proc_count([message_queue_len, status], 1000),
    false = lists:keymember(Self, 1, Rows) orelse lists:keymember(Self, 1, Others),
    _ = [receive {mine, I} -> ok end || I <- lists:seq(1, 1000)],
    ok.

%% ---- groups

%% The planted processes form a group of their own, under the name that proc_lib knows.
groups_by_what_they_run(_Config) ->
    Servers = [proc_lib:start(?MODULE, serve, []) || _ <- lists:seq(1, 7)],
    Plain = [spawn(?MODULE, idle, []) || _ <- lists:seq(1, 5)],
    _ = [sonde_test:settle(P) || P <- Servers ++ Plain],
    _ = [P ! {queued, I} || P <- Servers, I <- lists:seq(1, 3)],
    {Groups, M} = still(fun() -> {sonde:proc_group(initial_call, [message_queue_len, memory]),
                                  lists:sum([V || P <- Servers,
                                                  {memory, V} <- [process_info(P, memory)]])} end),
    {_, 7, [{message_queue_len, 21}, {memory, M}]} = lists:keyfind({?MODULE, serve, 0}, 1, Groups),
    {_, 12, []} = still_group(current_function, {?MODULE, idle, 0}, []),
    {_, 5, []} = still_group(initial_call, {?MODULE, idle, 0}, []),
    false = lists:keymember({proc_lib, init_p, 5}, 1, sonde:proc_group(initial_call, [memory])),
    sonde_test:stop(Servers ++ Plain).

serve() ->
    proc_lib:init_ack(self()),
    idle().

idle() ->
    receive stop -> ok end.

groups_by_name(_Config) ->
    Named = sonde_test:hold(fun() -> register(sonde_named, self()) end),
    {Groups, Unnamed} =
        still(fun() -> {sonde:proc_group(registered_name, [memory]),
                        [P || P <- processes(), P =/= self(),
                              process_info(P, registered_name) =:= []]} end),
    {sonde_named, 1, [{memory, _}]} = lists:keyfind(sonde_named, 1, Groups),
    {undefined, Many, _} = lists:keyfind(undefined, 1, Groups),
    Many = length(Unnamed),
    sonde_test:stop(Named).

groups_by_application(_Config) ->
    {Groups, Expected} =
        still(fun() -> {sonde:proc_group(application, [message_queue_len]),
                        [P || P <- processes(), P =/= self(),
                              application:get_application(P) =:= {ok, kernel}]} end),
    {kernel, Kernel, _} = lists:keyfind(kernel, 1, Groups),
    Kernel = length(Expected),
    true = lists:keymember(undefined, 1, Groups),
    [] = [Key || {Key, _, _} <- Groups, not is_atom(Key)].

groups_by_label(_Config) ->
    case erlang:function_exported(proc_lib, set_label, 1) of
        true ->
            Pids = [sonde_test:hold(fun() -> apply(proc_lib, set_label, [{room, I rem 2}]) end)
                    || I <- lists:seq(1, 9)],
            {_, 5, []} = still_group(label, {room, 1}, []),
            {_, 4, [{message_queue_len, 0}]} = still_group(label, {room, 0}, [message_queue_len]),
            sonde_test:stop(Pids);
        false ->
            badarg = raised(fun() -> sonde:proc_group(label, [memory]) end)
    end.

%% What proc_lib says of a process decides, wherever its dictionary has it, and whatever that is.
groups_of_odd_processes(_Config) ->
    Key = '$initial_call',
    Many = lists:seq(1, 2000),
    Odd = [fun() -> put(Key, {lists, seq, 2}) end,               % a literal
           fun() -> put(Key, {lists, seq, length(processes())}) end,
           fun() -> put(Key, {lists, seq, [a, b]}) end,
           fun() -> put(Key, {lists, seq}) end,
           fun() -> put(Key, "lists") end,
           fun() -> [put(I, I) || I <- Many], put(Key, made({lists, sort, 1})) end,
           fun() -> put(Key, made({lists, sort, 1})), [put(I, I) || I <- Many] end,
           fun() -> put(Key, made({lists, sort, 1})), [put(I, I) || I <- Many], [erase(I) || I <- Many] end,
           fun() -> put(Key, made({lists, sort, 1})), process_flag(sensitive, true) end,
           fun() -> put(Key, made({lists, sort, 1})), garbage_collect(), garbage_collect() end,
           fun() -> group_leader(self(), self()) end,
           fun() -> group_leader(elsewhere(), self()) end],
    Pids = [proc_lib:spawn(?MODULE, idle, []) | [sonde_test:hold(Fun) || Fun <- Odd ++ Odd]],
    _ = [same(By, fun() -> belongs(By) end, fun() -> [{K, N} || {K, N, _} <- lists:sort(sonde:proc_group(By, [memory]))] end)
         || By <- [initial_call, application]],
    sonde_test:stop(Pids).

%% No literal: it is on the heap.
made({M, F, A}) -> {M, F, A + length(processes()) * 0}.

%% A process of a node that is not connected.
elsewhere() -> binary_to_term(<<131, 88, 119, 3, "a@b", 1:32, 0:32, 1:32>>).

belongs(By) ->
    Add = fun(Key, Groups) -> maps:update_with(Key, fun(N) -> N + 1 end, 1, Groups) end,
    lists:sort(maps:to_list(lists:foldl(Add, #{}, [belongs(By, P) || P <- processes(), P =/= self()]))).

belongs(application, Pid) ->
    case application:get_application(Pid) of
        {ok, App} -> App;
        undefined -> undefined
    end;
belongs(initial_call, Pid) ->
    {initial_call, Call} = process_info(Pid, initial_call),
    case process_info(Pid, dictionary) of
        {dictionary, Dictionary} ->
            case proc_lib:translate_initial_call([{initial_call, Call}, {dictionary, Dictionary}]) of
                {proc_lib, init_p, _} -> Call;
                Began -> Began
            end
    end.

%% Promise: natively a process at rest is not asked to what it belongs.
groups_without_asking(_Config) ->
    sonde_test:pick(fun() ->
        Pids = [spawn(?MODULE, idle, []) || _ <- lists:seq(1, 3000)],
        _ = [sonde_test:settle(P) || P <- [hd(Pids), lists:last(Pids)]],
        1 = erlang:trace_pattern({sonde_attr, ask, 3}, true, [local, call_count]),
        _ = [{_, N, _} = lists:keyfind({?MODULE, idle, 0}, 1, sonde:proc_group(initial_call, [memory])) || N <- [3000]],
        {undefined, _, _} = lists:keyfind(undefined, 1, sonde:proc_group(application, [memory, reductions])),
        {call_count, Asked} = erlang:trace_info({sonde_attr, ask, 3}, call_count),
        1 = erlang:trace_pattern({sonde_attr, ask, 3}, false, [local, call_count]),
        true = Asked < 1000,
        sonde_test:stop(Pids)
    end, ok).

%% One whose dictionary does not have what proc_lib was to call looks as if it had not begun. A helper that has not
%% begun is known by its parent, which is asked for.
those_that_may_not_have_begun_are_asked(_Config) ->
    sonde_test:pick(fun() ->
        Forget = fun() -> _ = erase('$initial_call'), idle() end,
        Pids = [proc_lib:spawn(erlang, apply, [Forget, []]) || _ <- lists:seq(1, 300)],
        _ = [sonde_test:settle(P) || P <- Pids],
        1 = erlang:trace_pattern({sonde_attr, ask, 3}, true, [local, call_count]),
        {_, N, _} = lists:keyfind({proc_lib, init_p, 5}, 1, sonde:proc_group(initial_call, [memory])),
        {call_count, Asked} = erlang:trace_info({sonde_attr, ask, 3}, call_count),
        1 = erlang:trace_pattern({sonde_attr, ask, 3}, false, [local, call_count]),
        {_, _, true} = {N, Asked, N >= 300 andalso Asked >= 300},
        sonde_test:stop(Pids)
    end, ok).

groups_by_several_threads(_Config) ->
    Servers = [proc_lib:spawn(?MODULE, idle, []) || _ <- lists:seq(1, 700)],
    Plain = [spawn(?MODULE, idle, []) || _ <- lists:seq(1, 1300)],
    _ = [sonde_test:settle(P) || P <- [hd(Servers), lists:last(Servers), lists:last(Plain)]],
    Idle = fun(Threads) ->
                   lists:keyfind({?MODULE, idle, 0}, 1,
                                 sonde:proc_group(initial_call, [memory, link_count], #{threads => Threads}))
           end,
    {_, 2000, [{memory, Bytes}, {link_count, 0}]} = One = Idle(1),
    Bytes = lists:sum([M || P <- Servers ++ Plain, {memory, M} <- [process_info(P, memory)]]),
    _ = [{Threads, One} = {Threads, Idle(Threads)} || Threads <- [2, 3, 8]],
    _ = [badarg = raised(fun() -> sonde:proc_group(initial_call, [memory], #{threads => T}) end) || T <- [0, 9, many]],
    sonde_test:stop(Servers ++ Plain).

still_group(By, Key, Attrs) ->
    lists:keyfind(Key, 1, still(fun() -> sonde:proc_group(By, Attrs) end)).

totals_are_sums_of_process_info(_Config) ->
    Pids = crowd(60),
    Attrs = [memory, binary_memory, binary_count, link_count, total_heap_size, message_queue_len,
             dictionary_size, min_heap_size],
    same(totals, fun() -> oracle(Attrs) end,
          fun() -> lists:sort(sonde:proc_group(registered_name, Attrs)) end),
    sonde_test:stop(Pids).

oracle(Attrs) ->
    Add = fun(Pid, Groups) ->
                  Name = case process_info(Pid, registered_name) of
                             {_, N} -> N;
                             [] -> undefined
                         end,
                  Values = [element(2, sonde_attr:read(A, Pid)) || A <- Attrs],
                  maps:update_with(Name, fun({N, Sums}) ->
                                                 {N + 1, lists:zipwith(fun erlang:'+'/2, Sums, Values)}
                                         end, {1, Values}, Groups)
          end,
    Groups = lists:foldl(Add, #{}, processes() -- [self()]),
    lists:sort([{Name, N, lists:zip(Attrs, Sums)} || {Name, {N, Sums}} <- maps:to_list(Groups)]).

largest_first(_Config) ->
    _ = [begin
             Groups = sonde:proc_group(By, [Attr, reductions]),
             Order = [{Total, N} || {_, N, [{_, Total}, _]} <- Groups],
             Order = lists:reverse(lists:sort(Order))
         end || By <- [initial_call, current_function, registered_name, application],
                Attr <- [memory, message_queue_len, binary_memory]],
    Counts = [N || {_, N, []} <- sonde:proc_group(initial_call, [])],
    Counts = lists:reverse(lists:sort(Counts)).

group_of_the_caller(_Config) ->
    true = register(sonde_asking, self()),
    false = lists:keymember(sonde_asking, 1, sonde:proc_group(registered_name, [memory])),
    {sonde_asking, 1, [{memory, M}]} =
        lists:keyfind(sonde_asking, 1, sonde:proc_group(registered_name, [memory], #{self => true})),
    true = M > 1000,
    true = unregister(sonde_asking).

%% Helpers of a call that runs meanwhile, and of a trace, are no processes of the user.
helpers_are_in_no_row(_Config) ->
    {Pid, Ref} = spawn_monitor(fun() -> sonde_helper:call(fun(_) -> timer:sleep(infinity) end) end),
    ok = sonde_test:until(a_helper, fun() -> helpers() =/= [] end),
    1 = sonde_trace:calls({?MODULE, serve, '_'}, 10),
    ok = sonde_map:limit(label, #{a => 1}, none),
    Traces = [P || Name <- [sonde_trace_guard, sonde_trace_tracer, sonde_trace_formatter],
                   P <- [whereis(Name)], is_pid(P)],
    3 = length(Traces),
    Dump = spawn(sonde_dump, serve, [self(), Pid, #{values => false, suspend => false,
                                                    progress => false, max_nodes => 1000000,
                                                    max_words => 1000000, timeout => 10000}]),
    Ours = [ets:info(sonde_map, owner), Dump | Traces] ++ helpers(),
    Groups = sonde:proc_group(initial_call, []),
    [] = [M || {{M, _, _}, _, _} <- Groups,
               lists:member(M, [sonde_helper, sonde_trace, sonde_trace_guard, sonde_ets_owner])],
    _ = [{A, []} = {A, sonde_test:rows_of(Ours, Rows)}
         || {A, Rows} <- sonde:proc_count([memory, status], -1)],
    [] = sonde_test:rows_of(Ours, sonde:proc_window(memory, -1, 0)),
    [] = sonde_test:rows_of(Ours, sonde:bin_leak(-1)),
    true = lists:all(fun is_process_alive/1, Ours),
    ok = sonde_trace:clear(),
    ok = sonde_map:clear(),
    _ = [exit(H, kill) || H <- [Dump | helpers()]],
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

%% The helper was there at the first look, and large: its end would be the largest loss.
helper_that_ends_in_a_window(_Config) ->
    Look = fun() -> {_, Large} = process_info(self(), message_queue_len), Large end,
    Me = self(),
    {Caller, Ref} = spawn_monitor(fun() ->
        sonde_helper:call(fun(_) ->
            _ = [self() ! {waits, N} || N <- lists:seq(1, 100000)],
            Me ! {helper, self()},
            receive stop -> Look() end
        end)
    end),
    Helper = receive {helper, Pid} -> Pid end,
    {ok, _} = timer:send_after(300, Helper, stop),
    Rows = sonde:proc_window(message_queue_len, -1, 1500),
    receive {'DOWN', Ref, process, Caller, _} -> ok end,
    false = is_process_alive(Helper),
    [] = sonde_test:rows_of([Helper], Rows).

%% Each answer but the first two comes only when ten processes are asked at the same time.
a_slow_answer_delays_no_other(_Config) ->
    Pids = crowd(30),
    All = lists:sublist(Pids, 20) ++ [self() | lists:nthtail(20, Pids)],
    Asked = counters:new(1, []),
    Slow = lists:sublist(Pids, 2),
    Ask = fun(Pid) ->
                  case lists:member(Pid, [self() | Slow]) of
                      true -> timer:sleep(20);
                      false ->
                          ok = counters:add(Asked, 1, 1),
                          ok = sonde_test:until(ten_asked, fun() -> counters:get(Asked, 1) >= 10 end, 20000)
                  end,
                  {Pid, self()}
          end,
    Answers = sonde_helper:ask(Ask, fun(Pid, {Pid, By}, Acc) -> [{Pid, By} | Acc] end, [], All),
    true = lists:sort(All) =:= lists:sort([Pid || {Pid, _} <- Answers]),
    Self = self(),
    {Self, Self} = lists:keyfind(Self, 1, Answers),
    ok.

%% At a lower one, the answer would wait for all that want to run at the priority of the caller.
helpers_have_the_priority_of_the_caller(_Config) ->
    Own = fun(_) -> process_info(self(), priority) end,
    Add = fun(_, Answer, Acc) -> [Answer | Acc] end,
    Both = fun(Caller) ->
                   [Own(helper) | sonde_helper:jobs(fun(Job) -> sonde_helper:job(Own, Job) end, Add, [], [job],
                                                    #{in_flight => 1, until => 1 bsl 50, caller => Caller})]
           end,
    [begin
         {priority, Was} = {priority, process_flag(priority, Level)},
         Seen = sonde_helper:call(Both),
         _ = process_flag(priority, Was),
         {Level, [{priority, Level}, {priority, Level}]} = {Level, Seen}
     end || Level <- [low, high, normal]],
    ok.

too_many_groups(_Config) ->
    system_limit = raised(fun() -> sonde:proc_group(registered_name, [memory], #{max_groups => 2}) end),
    [_ | _] = sonde:proc_group(application, [memory], #{max_groups => 1000}).

bad_input_at_once(_Config) ->
    _ = [{By, badarg} = {By, raised(fun() -> sonde:proc_group(By, [memory]) end)}
         || By <- [foo, "application", {application}, [], undefined, self(), 1]],
    _ = [{As, badarg} = {As, raised(fun() -> sonde:proc_group(application, As) end)}
         || As <- [memory, [foo], [memory | foo], {memory}, "memory", #{}]],
    _ = [{As, badarith} = {As, raised(fun() -> sonde:proc_group(application, As) end)}
         || As <- [[status], [memory, links], [registered_name]]],
    _ = [{O, badarg} = {O, raised(fun() -> sonde:proc_group(application, [memory], O) end)}
         || O <- [#{foo => 1}, #{self => 1}, #{max_groups => 0}, #{max_groups => 1.0}, [], true]].

%% The processes that stay are all in their group, whatever else comes and goes.
groups_while_processes_die(_Config) ->
    Stay = [spawn(?MODULE, idle, []) || _ <- lists:seq(1, 50)],
    _ = [sonde_test:settle(P) || P <- Stay],
    Die = fun() ->
                  _ = [spawn(fun() -> lists:seq(1, 500) end) || _ <- lists:seq(1, 20)],
                  timer:sleep(1)
          end,
    ok = sonde_test:beside(2, Die, 30, fun() ->
        [begin
             Groups = sonde:proc_group(By, [memory, binary_count]),
             {By, {_, 50, _}} = {By, lists:keyfind({?MODULE, idle, 0}, 1, Groups)},
             [] = [G || {_, N, [{memory, M}, {binary_count, B}]} = G <- Groups,
                        N =< 0 orelse M =< 0 orelse B < 0]
         end || By <- [initial_call, current_function]]
    end),
    sonde_test:stop(Stay).

%% ---- one process

one_process_as_it_says(_Config) ->
    Pids = crowd(20),
    Attrs = (sonde_attr:native() -- [reductions]) ++ [memory],
    _ = [begin
             same(P, fun() -> sonde_attr:ask(P, Attrs, []) end,
                   fun() -> {ok, Values} = sonde_every_process:one(P, Attrs), {Values, []} end),
             {P, {ok, [waiting | _]}} = {P, sonde_every_process:one(P, [status | Attrs])}
         end || P <- Pids],
    ok = sonde_test:stop(Pids),
    _ = [undefined = sonde_every_process:one(P, Attrs) || P <- Pids],
    {ok, [Mine]} = sonde_every_process:one(self(), [message_queue_len]),
    {message_queue_len, Mine} = process_info(self(), message_queue_len),
    badarg = raised(fun() -> sonde_every_process:one(hd(erlang:ports()), [memory]) end).

%% A process that runs all the time has to be asked, and is asked once for everything.
asked_where_it_cannot_be_read(_Config) ->
    Names = [sonde_spins_1, sonde_spins_2, sonde_spins_3],
    Spinners = [spawn_opt(fun() -> register(Name, self()), spin() end, [{priority, low}])
                || Name <- Names],
    ok = sonde_test:until(they_spin, fun() -> [whereis(Name) || Name <- Names] =:= Spinners end),
    Groups = sonde:proc_group(registered_name, [link_count, dictionary_size]),
    [{_, 1, [{link_count, 0}, {dictionary_size, 0}]}] =
        [G || {sonde_spins_2, _, _} = G <- Groups],
    [{dictionary_size, _}, {status, Rows}] = sonde:proc_count([dictionary_size, status], -1),
    3 = length(sonde_test:rows_of(Spinners, Rows)),
    _ = [{ok, [0]} = sonde_every_process:one(P, [link_count]) || P <- Spinners],
    sonde_test:stop(Spinners).

spin() -> spin().

no_message_reaches_the_caller(_Config) ->
    sonde_test:no_message(fun() ->
        _ = sonde:proc_count([memory, status], 5),
        _ = [sonde:proc_group(By, [memory]) || By <- [application, initial_call, registered_name]],
        badarg = raised(fun() -> sonde:proc_group(foo, [memory]) end)
    end).
