%% Rows of processes and tables by their binaries are right: owners, the attributes that count
%% binaries, and growth in a window.
-module(bin_rows_SUITE).

-import(sonde_binaries_helper, [on/2, attrs/0, bin/1, made/1, undo/1, hold/1, grows/3, await/2]).

-compile([export_all, nowarn_export_all]).

-define(MANY, 1000000).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [owners_come_first, attributes_together, caller_is_left_out, nothing_is_collected,
     window_of_processes_and_tables, window_of_oneself].

init_per_suite(Config) -> sonde_binaries_helper:start(?MODULE, sonde_test:init(Config)).
end_per_suite(Config) -> sonde_binaries_helper:stop(Config).

init_per_testcase(_Case, Config) -> sonde_binaries_helper:look(Config).
end_per_testcase(_Case, Config) -> sonde_binaries_helper:is_as_before(Config).

owners_come_first(Config) ->
    on(Config, fun() ->
                       Sizes = [90000000, 80000000, 70000000],
                       Build = fun() -> [hold(fun() -> bin(Size) end) || Size <- Sizes] end,
                       grows(#{exclusive => lists:sum(Sizes)}, Build,
                             fun(Pids, _) ->
                                     Rows = sonde:bin_owned(3),
                                     Rows = [{Pid, Size, [{current_function, {sonde_test, park, 1}},
                                                          {initial_call, {erlang, apply, 2}}]}
                                             || {Pid, Size} <- lists:zip(Pids, Sizes)],
                                     _ = [Rows = sonde:proc_count(Attr, 3) || Attr <- attrs()],
                                     [] = sonde:bin_owned(0),
                                     [_] = sonde:bin_owned(1),
                                     ok
                             end)
               end).

attributes_together(Config) ->
    on(Config, fun() ->
                       Pid = made(fun() -> hold(fun() -> bin(90000001) end) end),
                       Attrs = [binary_proportional, memory, binary_unique, bin_waste,
                                binary_exclusive],
                       {Said, #{left_out := 0, too_large := 0, busy := 0}} =
                           sonde:proc_count(Attrs, 1, #{report => true}),
                       Attrs = [Attr || {Attr, _} <- Said],
                       _ = [[{Pid, 90000001, _}] = proplists:get_value(Attr, Said)
                            || Attr <- attrs()],
                       [{memory, [{_, _, _}]}] = [Row || {memory, _} = Row <- Said],
                       _ = [{[{Pid, 90000001, _}], #{left_out := 0}} =
                                sonde:proc_count(Attr, 1, #{report => true})
                            || Attr <- attrs()],
                       _ = [{[], #{left_out := 0}} = sonde:proc_count(Attr, 0, #{report => true})
                            || Attr <- attrs()],
                       ok = undo(Pid)
               end).

caller_is_left_out(Config) ->
    on(Config, fun() ->
                       {Me, Without, With} =
                           made(fun() ->
                                        Mine = bin(70000),
                                        Opts = #{self => true},
                                        Said = {self(),
                                                [sonde:proc_count(Attr, ?MANY) || Attr <- attrs()],
                                                [sonde:proc_count(Attr, ?MANY, Opts)
                                                 || Attr <- attrs()]},
                                        70000 = byte_size(Mine),
                                        Said
                                end),
                       [[], [], []] = [sonde_test:rows_of([Me], Rows) || Rows <- Without],
                       [[{Me, 70000, _}], [{Me, 70000, _}], [{Me, 70000, _}]] =
                           [sonde_test:rows_of([Me], Rows) || Rows <- With],
                       ok
               end).

%% Neither the caller nor the process that is read.
nothing_is_collected(Config) ->
    on(Config, fun() ->
                       Pid = made(fun() -> hold(fun() -> [bin(100)
                                                          || _ <- lists:seq(1, 1000)] end) end),
                       Look = fun(P) -> process_info(P, [garbage_collection_info,
                                                         garbage_collection, messages, binary]) end,
                       _ = Look(Pid),
                       Before = Look(Pid),
                       _ = [sonde:bin_account(), sonde:bin_owned(3), sonde:bin_holders(3),
                            sonde:proc_count(binary_proportional, 3), sonde:bin_resources(1)],
                       Before = Look(Pid),
                       ok = undo(Pid)
               end).

brief() ->
    timer:sleep(10),
    Bin = bin(20000000),
    timer:sleep(10),
    exit({done, byte_size(Bin), erlang:monotonic_time(millisecond)}).

%% Repeats until a window catches the process and the table that keep growing.
window_of_processes_and_tables(Config) ->
    on(Config, fun() ->
                       [Grows, Shrinks, Still, Fills] = Pids =
                           made(fun() -> [spawn(fun() -> grow([]) end),
                                          hold(fun() -> self() ! go,
                                                        shrink([bin(50000)
                                                                || _ <- lists:seq(1, 200)]) end),
                                          hold(fun() -> bin(5000000) end),
                                          spawn(fun() -> fill(ets:new(fills, [private]), 1) end)]
                                end),
                       Rows = await(caught, fun() ->
                                                  {Dies, Mon} = spawn_monitor(fun brief/0),
                                                  Start = erlang:monotonic_time(millisecond),
                                                  Rows = sonde:bin_window(10, 500),
                                                  End = receive {'DOWN', Mon, process, Dies, {done, _, At}} -> At end,
                                                  %% on a busy machine, it may outlive the window
                                                  true = End >= Start + 500 orelse not lists:keymember(Dies, 1, Rows),
                                                  {lists:keymember(Grows, 1, Rows)
                                                   andalso lists:any(fun({H, _, _}) -> is_tuple(H)
                                                                     end, Rows), Rows}
                                          end),
                       {Grows, More, [{current_function, _}, {initial_call, _}]} =
                           lists:keyfind(Grows, 1, Rows),
                       {0, true} = {More rem 1000, More > 0},
                       [{{ets, _}, Filled, [fills, {owner, Fills}, {type, set}, {size, _}]}] =
                           [Row || {{ets, _}, _, _} = Row <- Rows],
                       {0, true} = {Filled rem 1000, Filled > 0},
                       [] = sonde_test:rows_of([Shrinks, Still, Fills, self()], Rows),
                       Values = [V || {_, V, _} <- Rows],
                       Values = lists:reverse(lists:sort(Values)),
                       [] = sonde:bin_window(0, 1),
                       [{_, _, _}] = sonde:bin_window(1, 100),
                       ok = undo(Pids)
               end).

%% At most 50 MB.
grow(Held) when length(Held) < 50000 ->
    timer:sleep(1),
    grow([bin(1000) | Held]);
grow(Held) -> sonde_test:park(Held).

shrink([]) -> ok;
shrink([_ | Held]) ->
    true = garbage_collect(),
    shrink(Held).

fill(Tab, N) ->
    true = ets:insert(Tab, {N, bin(1000)}),
    true = garbage_collect(),
    timer:sleep(1),
    fill(Tab, N + 1).

%% The caller cannot do anything meanwhile, but its mailbox grows.
window_of_oneself(Config) ->
    on(Config, fun() ->
                       {Me, Without, With} =
                           made(fun() ->
                                        _ = process_flag(message_queue_data, off_heap),
                                        Me = self(),
                                        Writer = spawn(fun() -> write(Me, 1) end),
                                        Without = sonde:bin_window(10, 100),
                                        Opts = #{self => true},
                                        With = await(own_row,
                                                     fun() ->
                                                             Rows = sonde:bin_window(10, 100, Opts),
                                                             {lists:keymember(Me, 1, Rows), Rows}
                                                     end),
                                        ok = sonde_test:stop(Writer),
                                        {Me, Without, With}
                                end),
                       [] = sonde_test:rows_of([Me], Without),
                       [{Me, Bytes, _}] = sonde_test:rows_of([Me], With),
                       {true, 0} = {Bytes > 0, Bytes rem 1000},
                       ok
               end).

write(Pid, N) ->
    Pid ! {N, bin(1000)},
    true = garbage_collect(),
    timer:sleep(1),
    write(Pid, N + 1).
