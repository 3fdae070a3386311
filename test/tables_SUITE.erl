%% ets_count and port_count report what was planted in tables and ports, including private tables
%% and binaries that only a table holds.
-module(tables_SUITE).

-import(sonde_test, [raised/1]).

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([memory_is_bytes/1, rows_are_counted/1, binaries_of_a_table_alone/1,
         every_kind_of_table/1, shared_binaries_count_once/1, many_rows_are_not_listed/1,
         rows_are_right_while_tables_go/1, bad_arguments/1, nothing_is_left_behind/1,
         ports_by_queue_and_traffic/1, ports_have_their_names/1,
         rows_are_right_while_ports_close/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [memory_is_bytes, rows_are_counted, binaries_of_a_table_alone, every_kind_of_table,
     shared_binaries_count_once, many_rows_are_not_listed, rows_are_right_while_tables_go,
     bad_arguments, nothing_is_left_behind, ports_by_queue_and_traffic, ports_have_their_names,
     rows_are_right_while_ports_close].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% ---- tables

%% A process that has made a table with these options and rows, and the table.
table(Options, Rows) ->
    Test = self(),
    Pid = sonde_test:hold(fun() ->
                                  Tab = ets:new(planted, Options),
                                  true = ets:insert(Tab, Rows()),
                                  Test ! {table, Tab},
                                  true = garbage_collect()
                          end),
    receive {table, Tab} -> {Tab, Pid} end.

row(Tab, Rows) ->
    {Tab, Value, Attrs} = lists:keyfind(Tab, 1, Rows),
    {Value, Attrs}.

most() -> length(ets:all()) + 1000.

memory_is_bytes(_Config) ->
    {Tab, Pid} =
        table([private], fun() -> [{I, lists:seq(1, 100)} || I <- lists:seq(1, 20000)] end),
    [{Tab, Bytes, Attrs} | _] = Rows = sonde:ets_count(memory, most()),
    Bytes = ets:info(Tab, memory) * erlang:system_info(wordsize),
    [planted, {owner, Pid}, {type, set}, {size, 20000}] = Attrs,
    Values = [V || {_, V, _} <- Rows],
    Values = lists:reverse(lists:sort(Values)),
    [] = ets:all() -- [T || {T, _, _} <- Rows],
    ok = sonde_test:stop(Pid).

rows_are_counted(_Config) ->
    {Tab, Pid} = table([duplicate_bag, public],
                       fun() -> [{same, I} || I <- lists:seq(1, 300000)] end),
    [{Tab, 300000, [planted, {owner, Pid}, {type, duplicate_bag}, {size, 300000}]}] =
        sonde:ets_count(size, 1),
    [] = sonde:ets_count(size, 0),
    ok = sonde_test:stop(Pid).

%% No process refers to these binaries, and the table's own memory does not include them.
binaries_of_a_table_alone(_Config) ->
    _ = [begin
             Count = 10000000 div Size,
             {Tab, Pid} = table([private], fun() -> [{I, binary:copy(<<I:32>>, Size div 4)}
                                                     || I <- lists:seq(1, Count)] end),
             Bytes = Count * Size,
             [{Tab, Bytes, [planted, {owner, Pid} | _]}] = sonde:ets_count(binary_memory, 1),
             {Own, _} = row(Tab, sonde:ets_count(memory, most())),
             Words = ets:info(Tab, memory),
             Own = Words * erlang:system_info(wordsize),
             {binary, []} = process_info(Pid, binary),
             ok = sonde_test:stop(Pid)
         end || Size <- [100, 10000, 1000000]],
    ok.

every_kind_of_table(_Config) ->
    Kinds = [[Type, Access | More] || Type <- [set, ordered_set, bag, duplicate_bag],
                                      Access <- [private, protected, public],
                                      More <- [[], [compressed], [{write_concurrency, true}]]],
    _ = [begin
             {Tab, Pid} = table(Kind, fun() -> [{I, [{binary:copy(<<I>>, 1000)}], I, small}
                                                || I <- lists:seq(1, 100)] end),
             {Kind, {100000, [planted, {owner, Pid}, {type, Type}, {size, 100}]}} =
                 {Kind, row(Tab, sonde:ets_count(binary_memory, most()))},
             ok = sonde_test:stop(Pid)
         end || [Type | _] = Kind <- Kinds],
    ok.

%% The binaries are shared by rows, within one row, and as slices of a larger one; binaries of up to
%% 64 bytes lie in the table.
shared_binaries_count_once(_Config) ->
    {Tab, Pid} = table([bag], fun() ->
                                      Large = binary:copy(<<7>>, 100000),
                                      [{I, Large, [Large], binary:part(Large, I, 200), <<I:64>>,
                                        binary:copy(<<I>>, 64)} || I <- lists:seq(1, 50)]
                              end),
    {100000, _} = row(Tab, sonde:ets_count(binary_memory, most())),
    ok = sonde_test:stop(Pid).

many_rows_are_not_listed(_Config) ->
    {Tab, Pid} =
        table([set], fun() -> [{I, binary:copy(<<1>>, 100)} || I <- lists:seq(1, 1000)] end),
    {{too_large, 1000}, [planted, _, _, {size, 1000}]} =
        row(Tab, sonde:ets_count(binary_memory, most(), #{max_rows => 999})),
    {100000, _} = row(Tab, sonde:ets_count(binary_memory, most(), #{max_rows => 1000})),
    [{_, {too_large, _}, _} | _] = sonde:ets_count(binary_memory, 1, #{max_rows => 0}),
    ok = sonde_test:stop(Pid).

%% Tables that stay have all their rows, with unchanged values; a table that comes and goes has a
%% row that was true at some moment, or none.
rows_are_right_while_tables_go(_Config) ->
    Stay = [table([public], fun() -> [{J, binary:copy(<<J>>, 1000)} || J <- lists:seq(1, I)] end)
            || I <- lists:seq(1, 20)],
    Owners = maps:from_list(Stay),
    Attrs = [memory, size, binary_memory],
    Staying = fun(Rows) -> lists:sort([{T, V} || {T, V, _} <- Rows, is_map_key(T, Owners)]) end,
    Before = [{A, Staying(sonde:ets_count(A, most()))} || A <- Attrs],
    [Values, Sizes, Bytes] = [[V || {_, V} <- Rows] || {_, Rows} <- Before],
    true = lists:all(fun(V) -> V > 0 end, Values),
    {Sizes, Bytes} = {[ets:info(T, size) || {T, _} <- lists:sort(Stay)], [1000 * N || N <- Sizes]},
    Come = fun() ->
                   Tabs = [ets:new(churned, [public]) || _ <- lists:seq(1, 20)],
                   _ = [true = ets:insert(Tab, {1, binary:copy(<<1>>, 100)}) || Tab <- Tabs],
                   timer:sleep(1),
                   _ = [true = ets:delete(Tab) || Tab <- Tabs]
           end,
    Look = fun() ->
                   [begin
                        Rows = sonde:ets_count(Attr, most()),
                        {Attr, Expected} = {Attr, Staying(Rows)},
                        [] = [R || {_, _, [churned | _]} = R <- Rows, not was_true(Attr, R)]
                    end || {Attr, Expected} <- Before]
           end,
    ok = sonde_test:beside(2, Come, 100, Look),
    ok = sonde_test:stop(maps:values(Owners)).

was_true(Attr, {_, Value, [churned, {owner, Pid}, {type, set}, {size, Size}]}) ->
    is_pid(Pid) andalso is_integer(Value) andalso (Size =:= 0 orelse Size =:= 1)
        andalso case Attr of
                    memory -> Value > 0;
                    size -> Value =:= Size;
                    binary_memory -> Value =:= 0 orelse Value =:= 100
                end;
was_true(_, _) ->
    false.

bad_arguments(_Config) ->
    _ = [badarg = raised(fun() -> apply(sonde, Call, Args) end)
         || {Call, Args} <- [{ets_count, [Attr, 1]} || Attr <- [x, input, "memory", 1]]
                ++ [{ets_count, [memory, N]} || N <- [-1, 1.0, x]]
                ++ [{ets_count, [memory, 1, Opts]}
                    || Opts <- [[], #{x => 1}, #{max_rows => -1}, #{max_rows => all}]]
                ++ [{port_count, [Attr, 1]} || Attr <- [x, size, binary_memory, [memory]]]
                ++ [{port_count, [memory, N]} || N <- [-1, 1.0, x]]],
    ok.

nothing_is_left_behind(_Config) ->
    ok = sonde_test:no_message(fun() ->
        _ = [sonde:ets_count(Attr, 3) || Attr <- [memory, size, binary_memory]],
        _ = sonde:port_count(memory, 3)
    end),
    sonde_test:until(no_helper, fun() -> sonde_test:helpers() =:= [] end).

%% ---- ports

%% The program does not read, so what the pipe cannot take waits in the port.
ports_by_queue_and_traffic(_Config) ->
    Port = open_port({spawn, "sleep 60"}, [binary]),
    true = port_command(Port, binary:copy(<<1>>, 3000000)),
    %% The pipe fills only once the program runs.
    ok = sonde_test:until(pipe_is_full, fun() -> erlang:port_info(Port, queue_size)
                                                     < {queue_size, 3000000}
                                        end),
    {queue_size, Waits} = erlang:port_info(Port, queue_size),
    true = Waits > 2000000,
    Me = self(),
    [{Port, Waits, [{name, "sleep 60"}, {connected, Me}]}] = sonde:port_count(queue_size, 1),
    _ = [begin
             Rows = sonde:port_count(Attr, 1000),
             [] = erlang:ports() -- [P || {P, _, _} <- Rows],
             _ = [{Attr, V} = erlang:port_info(P, Attr) || {P, V, _} <- Rows],
             Values = [V || {_, V, _} <- Rows],
             Values = lists:reverse(lists:sort(Values))
         end || Attr <- [memory, queue_size, input, output]],
    [] = sonde:port_count(input, 0),
    {os_pid, Sleeps} = erlang:port_info(Port, os_pid),
    true = port_close(Port),
    "" = os:cmd("kill " ++ integer_to_list(Sleeps)),
    ok.

ports_have_their_names(_Config) ->
    Port = open_port({spawn, "cat"}, [binary]),
    true = register(tables_port, Port),
    true = port_command(Port, <<"hello">>),
    receive {Port, {data, <<"hello">>}} -> ok end,
    Me = self(),
    _ = [{Port, 5, [tables_port, {name, "cat"}, {connected, Me}]} =
             lists:keyfind(Port, 1, sonde:port_count(Attr, 1000)) || Attr <- [input, output]],
    true = port_close(Port).

rows_are_right_while_ports_close(_Config) ->
    Stay = lists:sort([begin {ok, Port} = gen_udp:open(0), Port end || _ <- lists:seq(1, 10)]),
    Attrs = [{name, "udp_inet"}, {connected, self()}],
    Come = fun() ->
                   Sockets = [begin {ok, S} = gen_udp:open(0), S end || _ <- lists:seq(1, 10)],
                   timer:sleep(1),
                   _ = [ok = gen_udp:close(Socket) || Socket <- Sockets]
           end,
    Look = fun() ->
                   [begin
                        Rows = sonde:port_count(Attr, 1000),
                        {Attr, Stay} = {Attr, lists:sort([P || {P, _, As} <- Rows, As =:= Attrs])},
                        [] = [R || {_, V, As} = R <- Rows,
                                   not is_integer(V)
                                       orelse not is_list(proplists:get_value(name, As))
                                       orelse not is_pid(proplists:get_value(connected, As))]
                    end || Attr <- [memory, queue_size, input, output]]
           end,
    ok = sonde_test:beside(2, Come, 100, Look),
    _ = [ok = gen_udp:close(Port) || Port <- Stay],
    ok.
