%% A binary's holders are the processes, messages, tables and terms that were made to hold it, with
%% their references and the bytes that they see of it; likewise the holders of resources of other
%% libraries.
-module(bin_holders_SUITE).

-import(sonde_binaries_helper, [on/2, in_own_node/2, bin/1, made/1, undo/1, hold/1, holders/2,
                                letter/1, table/2, literal/2, quiet/0, becomes/1, grows/3,
                                adds_up/1, await/2, value/2, held_by/1]).

-compile([export_all, nowarn_export_all]).

-define(MANY, 1000000).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [largest_and_most_shared, holders_of_one, what_holders_see, garbage_sees_nothing,
     tables_queues_literals_and_others_hold, nobodys_ids, several_ids_at_once, large_tables_hold_elsewhere,
     too_many_for_holders, resources_of_a_library, binary_of_a_resource].

init_per_suite(Config) -> sonde_binaries_helper:start(?MODULE, sonde_test:init(Config)).
end_per_suite(Config) -> sonde_binaries_helper:stop(Config).

init_per_testcase(_Case, Config) -> sonde_binaries_helper:look(Config).
end_per_testcase(_Case, Config) -> sonde_binaries_helper:is_as_before(Config).

%% ---- binaries

largest_and_most_shared(Config) ->
    on(Config, fun() ->
                       Build = fun() ->
                                       Sizes = [30000000, 20000000, 10000000],
                                       [hold(fun() -> [bin(S) || S <- Sizes] end),
                                        holders(60, bin(100)), received(200, bin(77))]
                               end,
                       grows(#{exclusive => 60000077, shared => 100}, Build,
                             fun([Pid, Pids, Many], _) ->
                                     Rows = sonde:bin_holders(3),
                                     [30000000, 20000000, 10000000] = [S || #{size := S} <- Rows],
                                     [[{Pid, 1, 30000000}], [{Pid, 1, 20000000}],
                                      [{Pid, 1, 10000000}]] =
                                         [H || #{holders := H, refc := 1, elsewhere := 0} <- Rows],
                                     [One] = sonde:bin_holders(1, size),
                                     One = hd(Rows),
                                     [#{size := 77, refc := 200, elsewhere := 0,
                                        holders := [{Many, 200, 77}]},
                                      #{size := 100, refc := 60, elsewhere := 0,
                                        holders := Holders}] =
                                         sonde:bin_holders(2, count),
                                     Holders = [{P, 1, 100} || P <- lists:sort(Pids)],
                                     [] = sonde:bin_holders(0),
                                     All = sonde:bin_holders(?MANY),
                                     Sizes = [S || #{size := S} <- All],
                                     Sizes = lists:reverse(lists:sort(Sizes)),
                                     Ids = [Id || #{id := Id} <- All],
                                     true = length(Ids) =:= length(lists:usort(Ids)),
                                     ok
                             end)
               end).

%% A process with several references to the same binary: each message brings one.
received(N, Bin) ->
    Pid = spawn(fun() ->
                        Copies = [receive {copy, B} -> B end || _ <- lists:seq(1, N)],
                        true = garbage_collect(),
                        sonde_test:park(Copies)
                end),
    _ = [Pid ! {copy, Bin} || _ <- lists:seq(1, N)],
    ok = sonde_test:until(received, fun() -> process_info(Pid, current_function)
                                                 =:= {current_function, {sonde_test, park, 1}} end),
    ok = sonde_test:settle(Pid),
    Pid.

%% Each binary that process_info lists is found, with as many references as it lists.
holders_of_one(Config) ->
    on(Config, fun() ->
                       Build = fun() ->
                                       Bin = bin(5000),
                                       [hold(fun() -> [bin(S)
                                                       || S <- lists:seq(65, 2000, 200)] end),
                                        received(3, Bin), hold(fun() -> Bin end)]
                               end,
                       Bytes = lists:sum(lists:seq(65, 2000, 200)),
                       grows(#{exclusive => Bytes, shared => 5000}, Build,
                             fun(Pids, _) ->
                                     Listed = [{Id, Size, Refc, Pid}
                                               || Pid <- Pids,
                                                  {binary, Bs} <- [process_info(Pid, binary)],
                                                  {Id, Size, Refc} <- Bs],
                                     [3, 1] = [length([1 || {_, 5000, 4, P} <- Listed, P =:= Pid])
                                               || Pid <- tl(Pids)],
                                     true = length(Listed) =:= 14,
                                     _ = [begin
                                              #{id := Id, size := Size, refc := Refc,
                                                elsewhere := 0, holders := Holders} = Said =
                                                  sonde:bin_holder(Id),
                                              4 = map_size(Said) - 1,
                                              Found = [{P, N} || {P, N, _} <- Holders],
                                              Found = [{P, N}
                                                       || P <- lists:sort(Pids),
                                                          N <- [length([1 || {I, _, _, Q} <- Listed,
                                                                             I =:= Id, P =:= Q])],
                                                          N > 0]
                                          end || {Id, Size, Refc, _} <- Listed],
                                     ok
                             end)
               end).

%% The bytes that the terms of a process see, its mailbox included: each byte once.
what_holders_see(Config) ->
    on(Config, fun() ->
                       Build = fun() ->
                                       Bin = bin(10000),
                                       Cut = fun(Parts) -> [binary:part(Bin, P) || P <- Parts] end,
                                       [hold(fun() -> Cut([{0, 100}, {50, 100}, {9000, 1000}]) end),
                                        hold(fun() -> Cut([{10, 70}]) end),
                                        letter(binary:part(Bin, 100, 200))]
                               end,
                       grows(#{mixed => 10000}, Build,
                             fun([A, B, C], _) ->
                                     [#{size := 10000, elsewhere := 0, refc := Refc,
                                        holders := Holders}] =
                                         [H || #{size := 10000} = H <- sonde:bin_holders(20)],
                                     Refc = lists:sum([N || {_, N, _} <- Holders]),
                                     1150 = seen_by(A, Holders),
                                     70 = seen_by(B, Holders),
                                     200 = seen_by({queue, C}, Holders),
                                     ok
                             end)
               end).

%% There is another holder: the fun of the building process has the whole binary.
seen_by(Holder, Holders) ->
    {Holder, _, Visible} = lists:keyfind(Holder, 1, Holders),
    Visible.

garbage_sees_nothing(Config) ->
    on(Config, fun() ->
                       Drop = fun() -> 33333 = byte_size(bin(33333)), ok end,
                       Build = fun() -> sonde_test:hold(Drop, [{min_heap_size, 100000},
                                                               {min_bin_vheap_size, 1000000}]) end,
                       grows(#{exclusive => 33333}, Build,
                             fun(Pid, _) ->
                                     [#{size := 33333, refc := 1, elsewhere := 0,
                                        holders := [{Pid, 1, 0}]}] = held_by(Pid),
                                     33333 = value(Pid, binary_unique),
                                     33333 = value(Pid, bin_garbage_bytes),
                                     ok
                             end)
               end).

tables_queues_literals_and_others_hold(Config) ->
    on(Config, fun() ->
                       Build = fun() ->
                                       Bin = bin(44444),
                                       [hold(fun() -> Bin end),
                                        table([duplicate_bag, private],
                                              fun() -> [Bin, Bin, Bin] end),
                                        letter(Bin), letter([Bin, binary:part(Bin, 1, 100)]),
                                        literal(account_holders, {Bin}),
                                        {timer, erlang:send_after(600000, init, Bin)}]
                               end,
                       grows(#{elsewhere => 44444}, Build,
                             fun([Pid, [_, {table, Tab}], A, B, _, _], _) ->
                                     [#{id := Id, size := 44444, refc := Refc, elsewhere := 1,
                                        holders := Holders} = Said] =
                                         [H || #{size := 44444} = H <- sonde:bin_holders(20)],
                                     {{ets, Tab}, 3, undefined} =
                                         lists:keyfind({ets, Tab}, 1, Holders),
                                     {literals, 1, undefined} = lists:keyfind(literals, 1, Holders),
                                     {Pid, 1, 44444} = lists:keyfind(Pid, 1, Holders),
                                     {{queue, A}, 1, 44444} = lists:keyfind({queue, A}, 1, Holders),
                                     {{queue, B}, InB, 44444} =
                                         lists:keyfind({queue, B}, 1, Holders),
                                     Refc = 3 + 1 + 1 + 1 + InB + 1,
                                     5 = length(Holders),
                                     Holders = lists:sort(Holders),
                                     Said = sonde:bin_holder(Id),
                                     ok
                             end)
               end).

%% Ids are compared, never followed.
nobodys_ids(Config) ->
    on(Config, fun() ->
                       Pid = made(fun() -> hold(fun() -> bin(100000) end) end),
                       {binary, [{Id, 100000, 1}]} = process_info(Pid, binary),
                       #{id := Id} = sonde:bin_holder(Id),
                       _ = [{Not, undefined} = {Not, sonde:bin_holder(Not)}
                            || Not <- [0, -8, 8, 4096, 1 bsl 47, 1 bsl 63, 1 bsl 64 - 8, 1 bsl 64,
                                       1 bsl 70, -(1 bsl 70), Id + 1, Id - 1, Id + 8, Id - 8,
                                       Id + 64, -Id]],
                       ok = undo(Pid)
               end).

%% From one visit, the same as one by one, and of no other binary.
several_ids_at_once(Config) ->
    on(Config, fun() ->
                       Pid = made(fun() -> hold(fun() -> [bin(100000 + I) || I <- lists:seq(1, 5)] end) end),
                       {binary, Binaries} = process_info(Pid, binary),
                       Ids = [Id || {Id, Size, _} <- Binaries, Size > 100000],
                       {5, 5} = {length(Ids), length(lists:usort(Ids))},
                       Found = sonde_bin_account:of_ids(tl(Ids), #{}),
                       _ = [[H] = [F || #{id := Of} = F <- Found, Of =:= Id] || Id <- tl(Ids), H <- [sonde:bin_holder(Id)]],
                       {4, []} = {length(Found), sonde_bin_account:of_ids([], #{})},
                       [] = sonde_bin_account:of_ids([8, hd(Ids) + 8], #{}),
                       ok = undo(Pid)
               end).

%% A table whose rows are not listed counts as elsewhere, like any holder that is not walked.
large_tables_hold_elsewhere(Config) ->
    on(Config, fun() ->
                       Shared = bin(50000000),
                       Tab = ets:new(account_large, [public]),
                       true = ets:insert(Tab, [{I, Shared} || I <- [1, 2, 3]]),
                       Me = self(),
                       Holders = fun(Opts) ->
                                         [#{size := 50000000, refc := 4} = Largest] =
                                             sonde:bin_holders(1, size, Opts),
                                         maps:with([holders, elsewhere], Largest)
                                 end,
                       #{holders := [{Me, 1, 50000000}], elsewhere := 3} =
                           Holders(#{max_rows => 2}),
                       #{holders := [{Me, 1, 50000000}, {{ets, Tab}, 3, undefined}],
                         elsewhere := 0} = Holders(#{max_rows => 3}),
                       true = ets:delete(Tab),
                       50000000 = byte_size(Shared),
                       ok
               end).

too_many_for_holders(Config) ->
    on(Config, fun() ->
                       Pid = made(fun() -> hold(fun() -> [bin(100)
                                                          || _ <- lists:seq(1, 1000)] end) end),
                       Few = fun(By) -> sonde:bin_holders(3, By, #{max_entries => 100}) end,
                       _ = [system_limit = sonde_test:raised(fun() -> Few(By) end)
                            || By <- [size, count]],
                       [_, _, _] = sonde:bin_holders(3, size, #{max_entries => 100000}),
                       #{sampled := _} = sonde:bin_account(#{max_entries => 100}),
                       ok = undo(Pid)
               end).

%% ---- resources

foreign(Config, Fun) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "foreign"),
    case sonde_foreign_helper:build(Dir) of
        {skip, _} = Skip -> Skip;
        {ok, Dir} -> in_own_node(?MODULE, fun() -> ok = sonde_foreign_helper:load(Dir), Fun() end)
    end.

resources_of_a_library(Config) ->
    foreign(Config, fun() ->
                            [{100, A}, {100, B}, {7, C}] =
                                [{N, of_things(N, Size, K)}
                                 || {N, Size, K} <- [{100, 10000, 1}, {100, 20000, 3}, {7, 0, 1}]],
                            {1000000, _} = {B - A, C},
                            true = A - 100 * 10000 < 100 * 100,
                            true = C < 7 * 100,
                            ok
                    end).

%% N resources of that size, held by K processes; returns their bytes.
of_things(N, Size, K) ->
    Type = {sonde_foreign_helper, thing},
    Before = quiet(),
    Background = sonde:bin_account(),
    Others = sonde:bin_resources(?MANY),
    false = lists:keyfind(Type, 1, Others),
    Made = made(fun() -> Things = [sonde_foreign_helper:thing(Size) || _ <- lists:seq(1, N)],
                         [hold(fun() -> Things end) || _ <- lists:seq(1, K)] end),
    Rows = await({N, K}, fun() ->
                                 Rows = sonde:bin_resources(?MANY),
                                 {lists:member({N, K}, [{Count, Holders}
                                                        || {T, Count, _, Holders} <- Rows,
                                                           T =:= Type]), Rows}
                         end),
    {Type, N, Bytes, K} = lists:keyfind(Type, 1, Rows),
    true = Bytes >= N * Size,
    Sizes = [B || {_, _, B, _} <- Rows],
    Sizes = lists:reverse(lists:sort(Sizes)),
    [{Type, N, Bytes, K}] = sonde:bin_resources(1),
    [] = sonde:bin_resources(0),
    [] = [Row || {_, Count, _, Held} = Row <- Rows, Count < 1 orelse Held < 1],
    Account = await({resources, Bytes},
                    fun() ->
                            true = garbage_collect(),
                            #{resources := Now} = A = sonde:bin_account(),
                            {abs(Now - Bytes - maps:get(resources, Background)) < 1000, A}
                    end),
    ok = adds_up(Account),
    [0, 0] = [value(hd(Made), Attr) || Attr <- [binary_unique, binary_exclusive]],
    ok = undo(Made),
    _ = becomes(Before),
    Bytes.

%% Its bytes are those of the resource, and count as such.
binary_of_a_resource(Config) ->
    foreign(Config, fun() ->
                            Before = quiet(),
                            Made =
                                made(fun() ->
                                             hold(fun() -> T = sonde_foreign_helper:thing(100000),
                                                           {T, sonde_foreign_helper:thing_binary(T)}
                                                  end)
                                     end),
                            Bytes =
                                await(resource,
                                      fun() ->
                                              case sonde:bin_resources(1) of
                                                  [{{sonde_foreign_helper, thing}, 1, B, 1}] ->
                                                      {true, B};
                                                  Rows -> {false, Rows}
                                              end
                                      end),
                            true = Bytes >= 100000 andalso Bytes < 100200,
                            #{resources := Now} = Account = sonde:bin_account(),
                            ok = adds_up(Account),
                            true = Now >= Bytes,
                            ok = undo(Made),
                            _ = becomes(Before),
                            ok
                    end).
