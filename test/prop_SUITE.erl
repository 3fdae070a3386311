%% Properties of random processes: calls report the values of process_info; the N best are those of
%% sorting and taking; changes of bin_leak equal counting, collecting and counting by hand.
-module(prop_SUITE).

-include_lib("proper/include/proper.hrl").

-compile([export_all, nowarn_export_all]).

%% Asking a process does not change these.
-define(STEADY, [message_queue_len, link_count, monitor_count, monitored_by_count,
                 dictionary_size]).
%% A process that is asked runs, and may collect then.
-define(MOVING, [memory, total_heap_size, heap_size, stack_size, binary_memory, binary_count]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [values_are_those_of_process_info, reductions_are_between_two_looks,
     winners_are_sort_and_take, windows_are_differences, changes_are_those_by_hand,
     best_is_sort_and_take].

init_per_suite(Config) ->
    ok = sonde_terms_helper:init(),
    sonde_test:init(Config).

end_per_suite(_Config) -> ok.

values_are_those_of_process_info(_Config) -> check(prop_values(), 60).
reductions_are_between_two_looks(_Config) -> check(prop_reductions(), 30).
winners_are_sort_and_take(_Config) -> check(prop_winners(), 40).
windows_are_differences(_Config) -> check(prop_windows(), 30).
changes_are_those_by_hand(_Config) -> check(prop_changes(), 80).
best_is_sort_and_take(_Config) -> check(prop_best(), 300).

check(Property, Times) ->
    proper:quickcheck(Property, [quiet, {numtests, Times}, {max_size, 30}, {max_shrinks, 50}])
        orelse ct:fail({counterexample, proper:counterexample()}).

%% ---- properties

prop_values() ->
    ?FORALL(Makes, list(make()),
            with(Makes, fun(Pids) ->
                                [] =:= [Wrong || Attr <- ?STEADY, Wrong <- wrong(Attr, Pids)]
                                    andalso [] =:= [Wrong || Attr <- ?MOVING,
                                                             Wrong <- moved(Attr, Pids, 10)]
                        end)).

%% {Attribute, number of the process, our value, the value of process_info}
wrong(Attr, Pids) ->
    Rows = sonde_test:rows_of(Pids, sonde:proc_count(Attr, -1)),
    [said({Attr, N, Value, Asked})
     || {N, Pid} <- lists:zip(lists:seq(1, length(Pids)), Pids),
        {Value, Asked} <- [{value_in(Pid, Rows), asked(Attr, Pid)}], Value =/= Asked].

%% Comparing is fair only if the heap stays the same; all processes are at rest after some rounds.
moved(_Attr, [], _Rounds) ->
    [];
moved(Attr, _Pids, 0) ->
    [said({Attr, never_at_rest})];
moved(Attr, Pids, Rounds) ->
    Before = [info(garbage_collection_info, Pid) || Pid <- Pids],
    Wrong = wrong(Attr, Pids),
    After = [info(garbage_collection_info, Pid) || Pid <- Pids],
    At = [N || {N, G, G} <- lists:zip3(lists:seq(1, length(Pids)), Before, After)],
    case [W || {_, N, _, _} = W <- Wrong, lists:member(N, At)] of
        [] -> moved(Attr, [P || {P, G1, G2} <- lists:zip3(Pids, Before, After), G1 =/= G2],
                    Rounds - 1);
        Unfair -> Unfair
    end.

said(Wrong) ->
    ct:log("wrong: ~p", [Wrong]),
    Wrong.

prop_reductions() ->
    ?FORALL(Makes, list(make()),
            with(Makes, fun(Pids) ->
                                Before = [asked(reductions, Pid) || Pid <- Pids],
                                Rows = sonde:proc_count(reductions, -1),
                                After = [asked(reductions, Pid) || Pid <- Pids],
                                lists:all(fun({Pid, Low, High}) ->
                                                  V = value_in(Pid, Rows),
                                                  Low =< V andalso V =< High
                                          end, lists:zip3(Pids, Before, After))
                        end)).

%% The processes have more messages than any other process of the node, so they are the winners.
prop_winners() ->
    ?FORALL({Lengths, N}, {non_empty(list(range(100, 110))), range(0, 40)},
            with([{[{mail, plain, L}], on_heap, waiting} || L <- Lengths],
                 fun(Pids) ->
                         Sorted = lists:reverse(lists:sort(lists:zip(Lengths, Pids))),
                         Take = min(N, length(Pids)),
                         Rows = sonde:proc_count(message_queue_len, N),
                         lists:sublist(Sorted, Take)
                             =:= lists:sublist([{V, P} || {P, V, _} <- Rows], Take)
                             andalso length(Rows) =:= N
                 end)).

prop_windows() ->
    ?FORALL(Pairs, non_empty(list({range(0, 50), range(0, 50), range(0, 3)})),
            with([{[{mail, plain, First}], on_heap, waiting} || {First, _, _} <- Pairs],
                 fun(Pids) ->
                         Change = fun() -> lists:zipwith(fun changed/2, Pids, Pairs) end,
                         Ask = fun() -> sonde:proc_window(message_queue_len, -1, 300) end,
                         Rows = sonde_test:in_window(Ask, Change),
                         [growth(Pair) || Pair <- Pairs] =:= [value_in(P, Rows) || P <- Pids]
                 end)).

%% One in four dies.
changed(Pid, {_, _, 0}) -> sonde_test:stop(Pid);
changed(Pid, {_, More, _}) -> send(Pid, plain, More).

growth({First, _, 0}) -> First;
growth({_, More, _}) -> More.

%% The row is the difference of process_info before and after, and everything that a collection can
%% change was collected: another one by hand changes nothing. There is one exception. A collection
%% keeps the heap fragments of a BIF that yielded as they are, and only the next one checks which
%% parts are needed (roots.h): with fragments, the second collection by hand changes nothing.
prop_changes() ->
    ?FORALL(Makes, list(make()), with(Makes, fun is_changed_as_by_hand/1)).

is_changed_as_by_hand(Pids) ->
    Before = [count_at_rest(Pid) || Pid <- Pids],
    Fragments = [has_fragments(Pid) || Pid <- Pids],
    %% the deadline is long: this does not test how busy the machine is
    #{rows := Rows} = sonde:bin_leak(100000, #{deadline => 60000}),
    After = [asked(binary_count, Pid) || Pid <- Pids],
    Ours = [value_in(Pid, Rows) || Pid <- Pids],
    ByHand = [A - B || {A, B} <- lists:zip(After, Before)],
    First = [by_hand(Pid) || Pid <- Pids],
    Second = [by_hand(Pid) || Pid <- Pids],
    Wrong = [x || Ours =/= ByHand] ++ [N || N <- Second, N =/= 0]
        ++ [N || {N, false} <- lists:zip(First, Fragments), N =/= 0],
    Wrong =:= [] orelse said([{ByHand, Ours, First, Second, Fragments}]) =:= [].

has_fragments(Pid) ->
    proplists:get_value(mbuf_size, info(garbage_collection_info, Pid)) > 0.

%% When it is asked for the first time, a process takes in its messages, and may collect.
count_at_rest(Pid) ->
    _ = asked(binary_count, Pid),
    ok = sonde_test:settle(Pid),
    asked(binary_count, Pid).

by_hand(Pid) ->
    Before = asked(binary_count, Pid),
    true = garbage_collect(Pid),
    asked(binary_count, Pid) - Before.

prop_best() ->
    ?FORALL({Values, N}, {list(oneof([integer(), float(), atom(), range(1, 5)])), range(0, 20)},
            begin
                Rows = [{V, I} || {I, V} <- lists:zip(lists:seq(1, length(Values)), Values)],
                Best = lists:foldl(fun sonde_largest:add/2, sonde_largest:new(N), Rows),
                sonde_largest:to_list(Best)
                    =:= lists:sublist(lists:reverse(lists:sort(Rows)), N)
            end).

value_in(Pid, Rows) ->
    case lists:keyfind(Pid, 1, Rows) of
        {Pid, Value, _} -> Value;
        false -> no_row
    end.

asked(binary_memory, Pid) -> lists:sum([S || {_, S, _} <- info(binary, Pid)]);
asked(binary_count, Pid) -> length(info(binary, Pid));
asked(link_count, Pid) -> length(info(links, Pid));
asked(monitor_count, Pid) -> length(info(monitors, Pid));
asked(monitored_by_count, Pid) -> length(info(monitored_by, Pid));
asked(dictionary_size, Pid) -> length(info(dictionary, Pid));
asked(Item, Pid) -> info(Item, Pid).

info(Item, Pid) ->
    {Item, Value} = process_info(Pid, Item),
    Value.

%% ---- random processes: {What it does, where its messages are, how it waits}

make() ->
    {list(step()), oneof([on_heap, off_heap]), frequency([{4, waiting}, {1, suspended},
                                                         {1, hibernated}])}.

step() ->
    N = range(1, 40),
    oneof([{binaries, N, range(65, 5000)}, {small_binaries, N}, {shared, N}, {slices, N},
           {appended, N}, {matched, N}, {forget}, {words, range(1, 3000)}, {dictionary, N},
           {erase, N}, {linked, range(1, 8)}, {ports, range(1, 3)}, {watching, range(1, 8)},
           {watching_a_name, range(1, 4)}, {aliases, range(1, 4)}, {unlinked, range(1, 3)},
           {timers, range(1, 4)}, {collect, oneof([major, minor])},
           {watched, range(1, 8)},
           {mail, oneof([plain, deep, binaries, large, terms]), range(1, 60)},
           {read_mail, range(1, 20)}, {flip, oneof([on_heap, off_heap])},
           {terms, list({oneof(sonde_terms_helper:kinds()), range(1, 40)})}]).

%% Makes the processes, runs Fun on them, and leaves nothing behind.
with(Makes, Fun) ->
    {Pids, Watchers} = lists:unzip([make(Make) || Make <- Makes]),
    _ = [ok = sonde_test:settle(Pid) || Pid <- Pids],
    try
        Fun(Pids)
    after
        sonde_test:stop([Pid || Pid <- Pids ++ lists:append(Watchers), is_process_alive(Pid)])
    end.

make({Steps, Where, How}) ->
    {Outside, Inside} = lists:partition(fun(S) -> lists:member(element(1, S), [watched, mail]) end,
                                        Steps),
    Parent = self(),
    Pid = spawn_opt(fun() ->
                            Kept = lists:foldl(fun step/2, [], Inside),
                            Parent ! {built, self()},
                            wait(How, Kept)
                    end, [{message_queue_data, Where}]),
    receive {built, Pid} -> ok end,
    ok = sonde_test:settle(Pid),
    %% The place of a message depends on whether its reader runs meanwhile.
    true = erlang:suspend_process(Pid),
    Watchers = lists:append([from_outside(S, Pid) || S <- Outside]),
    true = How =:= suspended orelse erlang:resume_process(Pid),
    {Pid, Watchers}.

wait(hibernated, Kept) -> erlang:hibernate(sonde_test, park, [Kept]);
wait(_, Kept) -> sonde_test:park(Kept).

from_outside({mail, Kind, N}, Pid) ->
    send(Pid, Kind, N),
    [];
from_outside({watched, N}, Pid) ->
    Parent = self(),
    Watchers = [spawn(fun() -> Ref = monitor(process, Pid), Parent ! {watching, self()},
                               sonde_test:park(Ref) end) || _ <- lists:seq(1, N)],
    _ = [receive {watching, W} -> ok end || W <- Watchers],
    Watchers.

send(Pid, Kind, N) ->
    _ = [Pid ! message(Kind, I) || I <- lists:seq(1, N)],
    ok.

message(plain, I) -> I;
message(deep, I) -> {mail, lists:seq(1, I), #{I => [I]}};
message(large, I) -> {mail, binary:copy(<<I>>, 100), lists:seq(1, 300)};
message(terms, I) ->
    {mail, [sonde_terms_helper:value(Kind, I) || Kind <- sonde_terms_helper:kinds()]};
message(binaries, I) -> {mail, binary:copy(<<I>>, 100), <<I>>}.

step({binaries, N, Size}, Kept) -> [[binary:copy(<<I>>, Size) || I <- lists:seq(1, N)] | Kept];
step({small_binaries, N}, Kept) -> [[<<I, 0:(8 * I)>> || I <- lists:seq(1, N)] | Kept];
step({shared, N}, Kept) ->
    Whole = binary:copy(<<1>>, 10000),
    [[binary:part(Whole, 0, 10000) || _ <- lists:seq(1, N)] | Kept];
step({slices, N}, Kept) ->
    Whole = binary:copy(<<1>>, 10000),
    [[binary:part(Whole, I, I) || I <- lists:seq(1, N)] | Kept];
step({appended, N}, Kept) ->
    [lists:foldl(fun(I, Bin) -> <<Bin/binary, I:256>> end, <<>>, lists:seq(1, N)) | Kept];
step({matched, N}, Kept) ->
    <<_:N/binary, Rest/binary>> = binary:copy(<<2>>, 500),
    [Rest | Kept];
step({forget}, _Kept) -> [];
step({flip, Where}, Kept) -> _ = process_flag(message_queue_data, Where), Kept;
step({terms, Terms}, Kept) -> [[sonde_terms_helper:value(Kind, N) || {Kind, N} <- Terms] | Kept];
step({words, N}, Kept) -> [lists:seq(1, N) | Kept];
step({dictionary, N}, Kept) -> _ = [put({N, I}, [I]) || I <- lists:seq(1, N)], Kept;
step({erase, N}, Kept) -> _ = [erase(K) || {K, _} <- lists:sublist(get(), N)], Kept;
step({linked, N}, Kept) -> [[sleeper() || _ <- lists:seq(1, N)] | Kept];
step({unlinked, N}, Kept) -> _ = [unlink(sleeper()) || _ <- lists:seq(1, N)], Kept;
step({ports, N}, Kept) -> [[open_port({spawn, "cat"}, []) || _ <- lists:seq(1, N)] | Kept];
step({watching, N}, Kept) -> [[monitor(process, whereis(init)) || _ <- lists:seq(1, N)] | Kept];
step({watching_a_name, N}, Kept) -> [[monitor(process, init) || _ <- lists:seq(1, N)] | Kept];
step({aliases, N}, Kept) -> [[alias() || _ <- lists:seq(1, N)] | Kept];
step({timers, N}, Kept) ->
    [[erlang:send_after(1000000, self(), late) || _ <- lists:seq(1, N)] | Kept];
step({collect, Type}, Kept) -> true = garbage_collect(self(), [{type, Type}]), Kept;
step({read_mail, N}, Kept) ->
    _ = [self() ! I || I <- lists:seq(1, 2 * N)],
    _ = [receive I -> ok end || I <- lists:seq(1, N)],
    Kept.

%% It ends with its maker.
sleeper() ->
    Maker = self(),
    spawn_link(fun() ->
                       Ref = monitor(process, Maker),
                       receive {'DOWN', Ref, _, _, _} -> ok end
               end).
