%% Processes of every kind that a node has, all at rest, and what process_info reports of them.
-module(sonde_kinds_helper).

-export([kinds/0, remote_kinds/1, official/2, rows/2, compare/2, compare_reads/2]).
-export([settle/1]).
-export([busy/9, sleep_on/0, wait/0, wait/1, dead_end/1]).

-define(ALL, 134217727).

%% The value from process_info alone.
official(Attr, Pid) ->
    {Item, Value} = item(Attr),
    case process_info(Pid, Item) of
        {Item, Found} -> Value(Found);
        undefined -> undefined
    end.

item(binary_memory) -> {binary, fun(Bs) -> lists:sum([Size || {_, Size, _} <- Bs]) end};
item(binary_count) -> {binary, fun erlang:length/1};
item(link_count) -> {links, fun erlang:length/1};
item(monitor_count) -> {monitors, fun erlang:length/1};
item(monitored_by_count) -> {monitored_by, fun erlang:length/1};
item(dictionary_size) -> {dictionary, fun erlang:length/1};
item(Attr) -> {Attr, fun(Value) -> Value end}.

%% The values of these processes, all read in one scan.
rows(Attr, Pids) ->
    Wanted = maps:from_keys(Pids, true),
    [{Pid, Value} || {Pid, Value, _} <- sonde:proc_count(Attr, ?ALL), is_map_key(Pid, Wanted)].

%% Makes a new process of each kind for each attribute, since asking changes a process. Returns the
%% differences: {Attr, Kind, Official, Found}.
%%
%% Asking for the first time makes a process with heap fragments run and collect. So all processes
%% are asked once before, except those that must not be asked.
compare(Kinds, Attrs) ->
    lists:append([compare_one(Attr, Kinds, memory, fun rows/2) || Attr <- Attrs]).

%% The same with the values that the library reads before a process was asked. Processes that it
%% leaves to process_info have `ask'.
compare_reads(Kinds, Attrs) ->
    Read = fun(Attr, Pids) -> [{Pid, read(Pid, Attr, 1000)} || Pid <- Pids] end,
    lists:append([compare_one(Attr, Kinds, status, Read) || Attr <- Attrs]).

read(Pid, Attr, Tries) ->
    case sonde_nif:read(Pid, Attr) of
        %% also where the call was interrupted for so long that its time was over
        Not when Tries > 0, Not =:= busy orelse Not =:= torn orelse Not =:= timeslice ->
            erlang:yield(),
            read(Pid, Attr, Tries - 1);
        Found -> Found
    end.

compare_one(Attr, Kinds, Ask, Look) ->
    Made = make(Kinds, Ask),
    Pids = [Pid || {_, Pid} <- Made],
    Rows = maps:from_list(Look(Attr, Pids)),
    Wrong = [{Attr, Kind, Official, Found}
             || {Kind, Pid} <- Made, Official <- [official(Attr, Pid)],
                Found <- [maps:get(Pid, Rows, none)], not is_same(Attr, Official, Found)],
    sonde_test:stop(Pids),
    Wrong.

%% A process that was asked for its names or its reductions has run since.
is_same(reductions, Official, Found) -> is_integer(Found) andalso Found =< Official;
is_same(_, Official, Found) -> Official =:= Found.

make(Kinds, Ask) ->
    Made = [{Kind, Fun()} || {Kind, Fun} <- Kinds],
    Restless = [Pid || {_, Pid} <- Made, is_pid(Pid)],
    settle(Restless),
    _ = [{Ask, _} = process_info(Pid, Ask) || Pid <- Restless],
    settle(Restless),
    [{Kind, case Pid of {still, P} -> P; P -> P end} || {Kind, Pid} <- Made].

%% Waits until none of them has run for a while.
settle(Pids) ->
    sonde_test:until({settled, length(Pids)}, fun() -> are_still(Pids) end).

are_still(Pids) ->
    Look = fun() -> [process_info(Pid, [status, reductions]) || Pid <- Pids] end,
    First = Look(),
    timer:sleep(5),
    [] =:= [S || [{status, S}, _] <- First, S =:= running orelse S =:= runnable]
        andalso First =:= Look().

held(Fun) -> held(Fun, []).

held(Fun, Opts) ->
    Parent = self(),
    Pid = spawn_opt(fun() -> Term = Fun(), Parent ! {built, self()}, wait(Term) end, Opts),
    receive {built, Pid} -> Pid end.

wait() -> receive stop -> ok end.
wait(Term) -> receive stop -> Term end.

%% ---- the kinds: Fun makes one. {still, Pid}: it is at rest already, and must not be asked

%% The process evaluates the expression and keeps the value.
-define(KEEPS(Value), fun() -> held(fun() -> Value end) end).
-define(TIMES(N, Value), [Value || _ <- lists:seq(1, N)]).

kinds() ->
    states() ++ heaps() ++ mailboxes() ++ ties() ++ binaries() ++ others().

states() ->
    [{waiting, ?KEEPS(ok)},
     {in_two_try_expressions,
      fun() -> spawn(fun() ->
                             try (try wait() catch throw:inner -> ok end)
                             catch throw:outer -> ok
                             end
                     end) end},
     {hibernated,
      fun() -> spawn(fun() -> erlang:hibernate(?MODULE, wait, [lists:seq(1, 10)]) end) end},
     {suspended, fun() -> suspended(held(fun() -> ok end)) end},
     {suspended_in_nine_arguments,
      fun() -> suspended(spawn(?MODULE, busy, lists:seq(1, 9))) end},
     {with_a_timer, fun() -> spawn(fun() -> receive never -> ok after 100000 -> ok end end) end},
     {low, ?KEEPS(process_flag(priority, low))},
     {trapping, ?KEEPS(process_flag(trap_exit, true))},
     {sensitive, ?KEEPS({process_flag(sensitive, true), put(k, v)})},
     {saving_calls, ?KEEPS(process_flag(save_calls, 100))},
     {named, ?KEEPS(register(sonde_kind, self()))},
     {receive_traced, fun() -> traced(['receive']) end},
     {traced, fun() -> traced([procs, garbage_collection, send, running]) end}].

busy(A, B, C, D, E, F, G, H, I) -> busy(B, C, D, E, F, G, H, I, A).

suspended(Pid) ->
    timer:sleep(1),
    true = erlang:suspend_process(Pid),
    timer:sleep(1),
    {still, Pid}.

traced(Flags) ->
    Pid = held(fun() -> ok end),
    Tracer = spawn(fun Eat() -> receive _ -> Eat() end end),
    1 = erlang:trace(Pid, true, [{tracer, Tracer} | Flags]),
    _ = [Pid ! M || M <- [a, {b, lists:seq(1, 200)}, <<0:1000>>]],
    Pid.

heaps() ->
    [{large, ?KEEPS(lists:seq(1, 100000))},
     {old_and_young, ?KEEPS({age(lists:seq(1, 5000)), lists:seq(1, 3000)})},
     {collected, ?KEEPS(collect(lists:seq(1, 5000)))},
     {shrunk, ?KEEPS({length(lists:seq(1, 100000)), garbage_collect()})},
     {deep_stack, fun() -> spawn(fun() -> deep(5000) end) end},
     {min_heap_size, fun() -> held(fun() -> ok end, [{min_heap_size, 50000}]) end},
     {max_heap_size, fun() -> held(fun() -> ok end, [{max_heap_size, 1000000}]) end},
     {fullsweep, fun() -> held(fun() -> lists:seq(1, 5000) end, [{fullsweep_after, 0}]) end},
     {maps_and_floats, ?KEEPS(maps:from_list([{N, N / 3} || N <- lists:seq(1, 1000)]))},
     {big_numbers, ?KEEPS([1 bsl N || N <- lists:seq(60, 1000)])}].

collect(Term) -> garbage_collect(), Term.

%% After two minor collections the term is on the old heap.
age(Term) ->
    garbage_collect(self(), [{type, minor}]),
    garbage_collect(self(), [{type, minor}]),
    Term.

deep(0) -> wait();
deep(N) -> [N | deep(N - 1)].

mailboxes() ->
    Small = [a, {b, 1}, "three"],
    Large = [{lists:seq(1, 1000), N} || N <- lists:seq(1, 5)],
    Bins = [bin(70 + N) || N <- lists:seq(1, 5)],
    OnOff = [{on_heap, []}, {off_heap, [{message_queue_data, off_heap}]}],
    Sets = [{small, Small}, {large, Large}, {binary, Bins}, {many, lists:seq(1, 5000)}, {one, [x]}],
    [{{mailbox, Data, What}, fun() -> unread(Messages, Opts) end}
     || {Data, Opts} <- OnOff, {What, Messages} <- Sets]
        ++ [{{outer_queue, Data, What}, fun() -> not_taken_in(Messages, Opts) end}
            || {Data, Opts} <- OnOff, {What, Messages} <- Sets]
        ++ [{{behind_a_signal, Data}, fun() -> behind_a_signal(Opts) end}
            || {Data, Opts} <- OnOff]
        ++ [{received_and_kept, fun() -> received(Large, []) end},
            {scanned_in_vain, fun() -> scanned(lists:seq(1, 100)) end},
            {marked, fun() -> marked(lists:seq(1, 100)) end},
            {data_flipped, fun() -> flipped(Large ++ Bins) end}].

unread(Messages, Opts) ->
    P = held(fun() -> ok end, Opts),
    _ = [P ! M || M <- Messages],
    P.

not_taken_in(Messages, Opts) ->
    {still, P} = suspended(held(fun() -> ok end, Opts)),
    _ = [P ! M || M <- Messages],
    {still, P}.

%% Sends messages, then another kind of signal, then messages, to a process that takes in none.
behind_a_signal(Opts) ->
    {still, P} = not_taken_in([a, {b, lists:seq(1, 100)}], Opts),
    _ = spawn(fun() -> monitor(process, P), wait() end),
    timer:sleep(1),
    _ = [P ! M || M <- [c, <<0:800>>]],
    {still, P}.

flipped(Messages) ->
    P = held(fun() -> process_flag(message_queue_data, off_heap),
                      process_flag(message_queue_data, on_heap) end),
    _ = [P ! M || M <- Messages],
    P.

received(Messages, Opts) ->
    Parent = self(),
    N = length(Messages),
    P = spawn_opt(fun() ->
                          Parent ! {built, self()},
                          wait_for(never, [receive M -> M end || _ <- lists:seq(1, N)])
                  end, Opts),
    receive {built, P} -> ok end,
    _ = [P ! M || M <- Messages],
    P.

wait_for(What, Term) -> receive What -> Term end.

scanned(Messages) ->
    P = spawn(fun() -> wait_for(never, ok) end),
    _ = [P ! M || M <- Messages],
    P.

marked(Messages) ->
    Parent = self(),
    P = spawn(fun() ->
                      Parent ! {built, self()},
                      receive go -> ok end,
                      Ref = make_ref(),
                      receive {Ref, never} -> ok end
              end),
    receive {built, P} -> ok end,
    _ = [P ! M || M <- Messages ++ [go]],
    P.

ties() ->
    own_ties() ++ monitors() ++ ties_of_others().

own_ties() ->
    [{links, ?KEEPS(?TIMES(50, link(idle())))},
     {one_link, ?KEEPS(link(idle()))},
     {unlinked, ?KEEPS(begin P = idle(), link(P), unlink(P) end)},
     {port_link, ?KEEPS(open_port({spawn_driver, "ram_file_drv"}, []))},
     {alias, ?KEEPS(alias())},
     {reply_alias, ?KEEPS(alias([reply]))},
     {many_aliases, ?KEEPS(?TIMES(30, alias()))},
     {unaliased, ?KEEPS(unalias(alias()))},
     {suspending, ?KEEPS(erlang:suspend_process(idle()))},
     {suspending_twice, ?KEEPS(begin P = idle(), ?TIMES(2, erlang:suspend_process(P)) end)},
     {mixed, ?KEEPS(begin
                        P = idle(), link(P), _ = monitor(process, P), _ = alias(),
                        _ = monitor(process, init), _ = spawn_link(fun wait/0),
                        _ = spawn_monitor(fun wait/0), erlang:suspend_process(P)
                    end)}].

monitors() ->
    Monitor = fun(What, Opts) -> ?KEEPS(monitor(process, What(), Opts)) end,
    Idle = fun idle/0,
    Init = fun() -> init end,
    [{monitors, ?KEEPS(?TIMES(50, monitor(process, idle())))},
     {monitors_of_one, ?KEEPS(begin P = idle(), ?TIMES(3, monitor(process, P)) end)},
     {demonitored, ?KEEPS(demonitor(monitor(process, idle())))},
     {monitor_of_the_dead, ?KEEPS(monitor(process, dead()))},
     {named_monitor, Monitor(Init, [])},
     {named_monitor_of_nobody, ?KEEPS(monitor(process, sonde_nobody))},
     {name_and_node, ?KEEPS(monitor(process, {init, node()}))},
     {port_monitor, ?KEEPS(monitor(port, hd(erlang:ports())))},
     {time_offset_monitor, ?KEEPS(monitor(time_offset, clock_service))},
     {monitor_with_alias, Monitor(Idle, [{alias, explicit_unalias}])},
     {monitor_with_alias_too, Monitor(Idle, [{alias, demonitor}])},
     {monitor_with_reply_alias, Monitor(Idle, [{alias, reply_demonitor}])},
     {monitor_with_tag, Monitor(Idle, [{tag, a_tag}])},
     {monitor_with_large_tag, Monitor(Idle, [{tag, lists:seq(1, 50)}])},
     {named_with_tag_and_alias, Monitor(Init, [{alias, demonitor}, {tag, {a, tag}}])},
     {node_monitors, ?KEEPS(net_kernel:monitor_nodes(true))},
     {monitoring_itself, ?KEEPS(monitor(process, self()))}].

ties_of_others() ->
    [{linked_by_others, fun() -> by_others(fun(P) -> link(P) end, held(fun() -> ok end)) end},
     {monitored, fun() -> by_others(fun(P) -> monitor(process, P) end, held(fun() -> ok end)) end},
     {monitored_by_name, fun() -> by_others(fun(_) -> monitor(process, sonde_kind2) end,
                                            held(fun() -> register(sonde_kind2, self()) end)) end},
     %% the library behind sockets monitors their owners
     {socket_owner, ?KEEPS(try socket:open(inet, stream, tcp) catch _:_ -> none end)}].

by_others(What, P) ->
    _ = ?TIMES(20, spawn(fun() -> What(P), wait() end)),
    P.

idle() -> spawn(fun wait/0).

dead() ->
    {P, Mon} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Mon, _, _, _} -> P end.

bin(Bytes) -> binary:copy(<<1>>, Bytes).

binaries() ->
    [{refc_binaries, ?KEEPS([bin(64 + N) || N <- lists:seq(1, 100)])},
     {same_binary, ?KEEPS(begin B = bin(1000), [B, binary_to_list(B), B] end)},
     {sub_binaries, ?KEEPS(pieces(bin(10000), 80))},
     {small_pieces, ?KEEPS(pieces(bin(10000), 10))},
     {bit_strings, ?KEEPS([<<0:(8 * 100 + N)>> || N <- lists:seq(1, 7)])},
     {appended, ?KEEPS(append(<<>>, 500))},
     {several_appended, ?KEEPS([append(<<N>>, 100 * N) || N <- lists:seq(1, 5)])},
     {appended_and_collected, ?KEEPS(collect(append(<<>>, 500)))},
     {appended_and_old, ?KEEPS({age(append(<<>>, 500)), append(<<>>, 300)})},
     {matched, ?KEEPS(begin <<_:80, Rest/binary>> = bin(1000), Rest end)},
     {in_generations, ?KEEPS({age(?TIMES(50, bin(100))), ?TIMES(30, bin(100))})},
     {in_the_dictionary, ?KEEPS(collect([put(N, bin(100)) || N <- lists:seq(1, 20)]))},
     {received_binaries, fun() -> received([{N, bin(100)} || N <- lists:seq(1, 20)], []) end},
     {received_off_heap, fun() -> received([{N, bin(100), lists:seq(1, 50)}
                                            || N <- lists:seq(1, 20)],
                                           [{message_queue_data, off_heap}]) end},
     {funs, ?KEEPS([fun() -> N end || N <- lists:seq(1, 50)])},
     {magic, ?KEEPS({atomics:new(1, []), counters:new(2, []), re:compile("a.*b"),
                     ?TIMES(2, ets:match_spec_compile([{'_', [], ['$_']}]))})},
     {foreign_pids, ?KEEPS([foreign_pid(N) || N <- lists:seq(1, 50)])},
     {from_term, ?KEEPS(binary_to_term(term_to_binary(?TIMES(20, bin(100)))))},
     {from_a_file, ?KEEPS(begin
                              {ok, F} = file:open(<<"/dev/zero">>, [read, raw, binary]),
                              {F, file:read(F, 10000)}
                          end)}].

pieces(Bin, Bytes) -> [binary:part(Bin, N, Bytes) || N <- lists:seq(1, 100)].

append(Bin, 0) -> Bin;
append(Bin, N) -> append(<<Bin/binary, N:32>>, N - 1).

foreign_pid(N) -> binary_to_term(<<131, 88, 100, 0, 7, "a@b.c.d", N:32, 0:32, 7:32>>).

others() ->
    [{one_key, ?KEEPS(put(a, b))},
     {many_keys, ?KEEPS([put({k, N}, lists:seq(1, N rem 10)) || N <- lists:seq(1, 1000)])},
     {erased_keys, ?KEEPS({[put(N, N) || N <- lists:seq(1, 1000)],
                           [erase(N) || N <- lists:seq(1, 990)]})},
     {ets_owner, ?KEEPS(?TIMES(20, ets:new(t, [])))},
     {fixer, ?KEEPS(ets:safe_fixtable(ets:new(t, [public]), true))},
     {gen_event, fun() -> {ok, P} = gen_event:start(), P end},
     {group_leader, ?KEEPS(group_leader(whereis(user), self()))},
     {after_an_exception, ?KEEPS(try error({a, lists:seq(1, 100)})
                                 catch error:Why:Stack -> {Why, Stack} end)},
     {collecting_others, ?KEEPS(garbage_collect(whereis(init)))},
     {sleeping, fun() -> spawn(?MODULE, sleep_on, []) end}].

sleep_on() -> timer:sleep(1000000), sleep_on().

%% ---- kinds with a process of another node at the other end

remote_kinds(Node) ->
    Large = [a, {lists:seq(1, 1000)}, bin(1000)],
    Many = [{N, lists:seq(1, 100)} || N <- lists:seq(1, 20)],
    [{remote_link, ?KEEPS(link(idle(Node)))},
     {remote_links, ?KEEPS(?TIMES(30, link(idle(Node))))},
     {remote_unlink, ?KEEPS(begin P = idle(Node), link(P), unlink(P) end)},
     {linked_from_there, fun() -> from(Node, fun(P) -> link(P) end, 5) end},
     {remote_monitor, ?KEEPS(monitor(process, idle(Node)))},
     {remote_monitors, ?KEEPS(begin P = idle(Node), ?TIMES(3, monitor(process, P)) end)},
     {remote_name, ?KEEPS(monitor(process, {init, Node}))},
     {remote_nobody, ?KEEPS(monitor(process, {sonde_nobody, Node}))},
     {remote_alias, ?KEEPS(monitor(process, idle(Node), [{alias, reply_demonitor}]))},
     {remote_tag, ?KEEPS(monitor(process, idle(Node), [{tag, {a, lists:seq(1, 9)}}]))},
     {monitored_from_there, fun() -> from(Node, fun(P) -> monitor(process, P) end, 5) end},
     {named_from_there, fun() -> named_from(Node) end},
     {monitor_of_a_node, ?KEEPS(monitor_node(Node, true))},
     {spawned_link_there, ?KEEPS(spawn_link(Node, ?MODULE, wait, []))},
     {spawned_monitor_there, ?KEEPS(erlang:spawn_monitor(Node, ?MODULE, wait, []))},
     {spawn_requested, ?KEEPS(spawn_requested(Node))},
     {remote_pids, ?KEEPS(?TIMES(20, idle(Node)))},
     {received_from_there, fun() -> from(Node, fun(P) -> [P ! M || M <- Large] end, 1) end},
     {undecoded, fun() -> undecoded(Node, Large, []) end},
     {undecoded_off_heap, fun() -> undecoded(Node, Many, [{message_queue_data, off_heap}]) end}].

idle(Node) -> spawn(Node, ?MODULE, wait, []).

from(Node, What, Times) ->
    P = held(fun() -> ok end),
    _ = ?TIMES(Times, remote(Node, fun() -> What(P) end)),
    P.

named_from(Node) ->
    P = held(fun() -> register(sonde_kind3, self()) end),
    Here = node(),
    _ = ?TIMES(5, remote(Node, fun() -> monitor(process, {sonde_kind3, Here}) end)),
    P.

spawn_requested(Node) ->
    Id = spawn_request(Node, ?MODULE, wait, [], [monitor, link]),
    receive {spawn_reply, Id, _, _} -> ok end.

undecoded(Node, Messages, Opts) ->
    {still, P} = suspended(held(fun() -> ok end, Opts)),
    remote(Node, fun() -> [P ! M || M <- Messages] end),
    timer:sleep(20),
    {still, P}.

%% Fun runs there, in a process that lives on.
remote(Node, Fun) ->
    Me = self(),
    Pid = spawn(Node, ?MODULE, dead_end, [fun() -> Fun(), Me ! {done, self()}, wait() end]),
    receive {done, Pid} -> Pid end.

dead_end(Fun) -> Fun().
