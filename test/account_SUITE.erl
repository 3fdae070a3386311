%% Who holds the binary memory: nodes are built with known ownership, and every part of an account
%% is what was built; shares are those of a naive model. Where recon and process_info are blind we
%% are not.
%%
%% What is known of a whole node is tested in a node of its own, where nothing else moves.
-module(account_SUITE).

-include_lib("proper/include/proper.hrl").

-import(sonde_test, [raised/1]).

-compile([export_all, nowarn_export_all]).

-define(MANY, 1000000).
%% Of the port through which we talk to the other node: it comes and goes.
-define(READ_BUFFER, 66000).
-define(BINARY, [binary_unique, binary_exclusive, binary_proportional]).
-define(PARTS, [resources | ?BINARIES]).
-define(BINARIES, [exclusive, shared, ets, queues, literals, mixed, elsewhere]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    case sonde_test:side() of
        native -> blind_spots() ++ ownership() ++ census() ++ holders() ++ rows() ++ both();
        portable -> both()
    end.

%% The rows of "Blind spots".
blind_spots() ->
    [messages_on_heap, messages_off_heap, binary_that_grows, shared_by_many, slices_of_one,
     table_alone, all_at_once].

ownership() ->
    [one_process, several_processes, tables_of_every_type, literals_of_persistent_terms,
     mixed_kinds, queue_of_a_port, timers, resources_of_a_library, binary_of_a_resource,
     arrangements_are_those_of_a_model].

census() ->
    [small_ones_add_up, nothing_is_collected, under_load_it_adds_up, restless_are_told,
     large_tables_are_told, literals_missed_are_told, sample_is_near, sample_keeps_its_bound,
     census_is_small, killed_callers_leave_nothing, no_message_reaches_the_caller].

holders() ->
    [largest_and_most_shared, holders_of_one, what_holders_see, garbage_sees_nothing,
     tables_queues_literals_and_others_hold, nobodys_ids,
     large_tables_hold_elsewhere, too_many_for_holders].

rows() ->
    [owners_come_first, attributes_together, caller_is_left_out, helpers_have_no_row,
     window_of_processes_and_tables, window_of_oneself].

both() ->
    [off_is_an_error, bad_arguments_are_badarg, other_calls_do_not_take_them, zero_rows].

init_per_suite(Config0) ->
    Config = sonde_test:init(Config0),
    Peer = sonde_peer_helper:start(shipped),
    ok = on(Peer, fun warm_up/0),
    [{peer, Peer} | Config].

end_per_suite(Config) ->
    sonde_peer_helper:stop(proplists:get_value(peer, Config)).

init_per_testcase(_Case, Config) ->
    [{before, on(Config, fun() -> {lists:sort(processes()), quiet()} end)} | Config].

%% All is as it was; what a case that failed has left does not make others fail.
end_per_testcase(_Case, Config) ->
    {Pids, Parts} = proplists:get_value(before, Config),
    Status = proplists:get_value(tc_status, Config),
    case on(Config, fun() -> left(Pids, Parts) end) of
        nothing -> ok;
        _ when Status =/= ok -> ok;
        Left -> {fail, Left}
    end.

left(Pids, Parts) ->
    Left = processes() -- [self() | Pids],
    Terms = [Key || {Key, _} <- persistent_term:get(), is_ours(Key)],
    ok = sonde_test:stop(Left),
    _ = [true = persistent_term:erase(Key) || Key <- Terms],
    _ = [garbage_collect(Pid) || Pid <- processes()],
    _ = is_native() andalso becomes(Parts),
    case {Left, Terms} of
        {[], []} -> nothing;
        _ -> {left, Left, Terms}
    end.

is_ours({Key, _}) -> is_ours(Key);
is_ours(Key) -> is_atom(Key) andalso lists:prefix("account_", atom_to_list(Key)).

%% What runs in the node of its own.
on(Peer, Fun) when is_pid(Peer) -> sonde_peer_helper:call(Peer, erlang, apply, [Fun, []]);
on(Config, Fun) -> on(proplists:get_value(peer, Config), Fun).

is_native() -> maps:get(status, sonde:native()) =:= active.

%% Modules are binaries of who called them first, until it collects.
warm_up() ->
    {ok, Ours} = file:list_dir(filename:dirname(code:which(sonde))),
    _ = [{module, _} = code:ensure_loaded(list_to_atom(filename:basename(F, ".beam")))
         || F <- Ours, filename:extension(F) =:= ".beam"],
    _ = [{module, M} = code:ensure_loaded(M)
         || M <- [?MODULE, lists, maps, timer, atomics, rand, sonde_foreign_helper]],
    _ = [sonde:bin_account() || is_native()],
    _ = [garbage_collect(Pid) || Pid <- processes()],
    ok.

%% ---- what is built

bin(Size) -> binary:copy(<<1>>, Size).

%% What a process makes that is gone then, and holds nothing any more.
made(Build) ->
    {Pid, Ref} = spawn_monitor(fun() -> exit({made, Build()}) end),
    receive
        {'DOWN', Ref, process, Pid, {made, Made}} -> Made;
        {'DOWN', Ref, process, Pid, Why} -> error({not_made, Why})
    end.

%% Resources come and go with whoever makes references, and we hold our own.
parts() -> maps:with(?BINARIES, sonde:bin_account()).

%% Freed memory is given back late: the same three times. The one that talks to the other node has
%% what came last until it collects.
quiet() ->
    _ = [garbage_collect(Pid) || Pid <- processes()],
    Parts = is_native() andalso quiet(parts(), 3, 200),
    _ = is_native() andalso put(unseen, maps:get(unseen, sonde:bin_account())),
    Parts.

quiet(Parts, 0, _) -> Parts;
quiet(Parts, N, Tries) when Tries > 0 ->
    timer:sleep(5),
    case parts() of
        Parts -> quiet(Parts, N - 1, Tries);
        Others -> quiet(Others, 3, Tries - 1)
    end.

becomes(Parts) ->
    true = garbage_collect(),
    becomes(Parts, 200).

becomes(Parts, Tries) ->
    Account = sonde:bin_account(),
    case maps:with(?BINARIES, Account) of
        Parts ->
            Account;
        _ when Tries > 0 ->
            timer:sleep(5),
            becomes(Parts, Tries - 1);
        Others ->
            error({is, [{P, V, Parts} || {P, V} <- maps:to_list(Others), maps:get(P, Parts) =/= V]})
    end.

plus(Parts, Grown) -> maps:map(fun(Part, Bytes) -> Bytes + maps:get(Part, Grown, 0) end, Parts).

%% Builds it, until Grown is what there is more of each part; then Look; then it goes.
grows(Grown, Build) -> grows(Grown, Build, fun(_, _) -> ok end).

grows(Grown, Build, Look) ->
    Before = quiet(),
    Made = made(Build),
    try
        Account = becomes(plus(Before, Grown)),
        ok = adds_up(Account),
        Look(Made, Account)
    after
        undo(Made),
        becomes(Before)
    end.

%% Every part, and nothing is unseen, but for what the port has through which we talk to the other
%% node.
adds_up(#{total := Total, overhead := Overhead, unseen := Unseen, processes_missed := 0,
          tables_missed := 0} = Account) ->
    Unseen = Total - Overhead - lists:sum(maps:values(maps:with(?PARTS, Account))),
    true = abs(Unseen - get(unseen)) =< Total div 100 + 65536 orelse error({Account, get(unseen)}),
    ok.

undo(Made) when is_list(Made) -> lists:foreach(fun undo/1, Made);
undo(Pid) when is_pid(Pid) -> sonde_test:stop(Pid);
undo({term, Key}) -> true = persistent_term:erase(Key);
undo({timer, Ref}) -> true = is_integer(erlang:cancel_timer(Ref));
undo({os, OsPid}) -> "" = os:cmd("kill " ++ integer_to_list(OsPid));
undo({_, Tab}) when is_reference(Tab) -> ok.

hold(Fun) -> sonde_test:hold(Fun).

mailbox(Where) -> sonde_test:hold(fun() -> ok end, [{message_queue_data, Where}]).

%% N messages that nobody takes.
letters(Where, N, Size) ->
    Pid = mailbox(Where),
    _ = [Pid ! {letter, I, bin(Size)} || I <- lists:seq(1, N)],
    ok = sonde_test:settle(Pid),
    Pid.

holders(K, Bin) -> [hold(fun() -> Bin end) || _ <- lists:seq(1, K)].

%% Its owner and the table.
table(Options, Binaries) ->
    Test = self(),
    Pid = hold(fun() ->
                       Tab = ets:new(account, Options),
                       true = ets:insert(Tab, [{I, [B]} || {I, B} <- lists:enumerate(Binaries())]),
                       Test ! {table, Tab},
                       true = garbage_collect()
               end),
    receive {table, Tab} -> [Pid, {table, Tab}] end.

values(Attr) ->
    {Rows, #{left_out := 0}} = sonde:proc_count(Attr, ?MANY, #{report => true}),
    maps:from_list([{Pid, Value} || {Pid, Value, _} <- Rows]).

value(Pid, Attr) -> maps:get(Pid, values(Attr)).

%% ---- blind spots

messages_on_heap(Config) -> messages(Config, on_heap).

messages_off_heap(Config) -> messages(Config, off_heap).

messages(Config, Where) ->
    on(Config, fun() -> [ok = messages(Where, N, Size)
                         || {N, Size} <- [{1000, 10000}, {1000, 65}, {20, 1000001}, {1, 300}]] end).

%% On a heap messages may be at once, where the sender finds room.
messages(Where, N, Size) ->
    Before = quiet(),
    Pid = made(fun() -> letters(Where, N, Size) end),
    Bytes = N * Size,
    {ok, Account} = until(fun() ->
                                  #{queues := Queues, exclusive := Heap} = A = sonde:bin_account(),
                                  Queued = Queues - maps:get(queues, Before),
                                  {Bytes =:= Queued + Heap - maps:get(exclusive, Before)
                                       andalso (Where =:= on_heap orelse Queued =:= Bytes), A}
                          end),
    ok = adds_up(Account),
    [Bytes, Bytes, Bytes] = [value(Pid, Attr) || Attr <- ?BINARY],
    ok = undo(Pid),
    _ = becomes(Before),
    ok.

until(Fun) -> until(Fun, 200).

until(Fun, Tries) ->
    case Fun() of
        {true, Answer} -> {ok, Answer};
        {false, Answer} when Tries =:= 0 -> error(Answer);
        {false, _} -> timer:sleep(5), until(Fun, Tries - 1)
    end.

%% And its spare room: the larger ones would be missed in the total.
binary_that_grows(Config) ->
    on(Config, fun() -> [ok = grown(Size) || Size <- [1000, 100000, 1000000, 5000000]] end).

grown(Size) ->
    Before = quiet(),
    Pid = made(fun() -> sonde_test:hold(fun() -> Bin = append(<<>>, Size),
                                                 true = garbage_collect(), Bin end) end),
    {ok, Account} = until(fun() ->
                                  #{exclusive := Heap} = A = sonde:bin_account(),
                                  {Heap - maps:get(exclusive, Before) >= Size, A}
                          end),
    ok = adds_up(Account),
    Bytes = maps:get(exclusive, Account) - maps:get(exclusive, Before),
    true = Bytes =< 2 * Size + 1000,
    [Bytes, Bytes, Bytes] = [value(Pid, Attr) || Attr <- ?BINARY],
    [#{size := Bytes, refc := 1, elsewhere := 0, holders := [{Pid, 1, Size}]}] = held_by(Pid),
    ok = undo(Pid),
    _ = becomes(Before),
    ok.

append(Bin, Size) when byte_size(Bin) < Size -> append(<<Bin/binary, "0123456789">>, Size);
append(Bin, _) -> Bin.

held_by(Pid) ->
    [Holder || #{holders := Holders} = Holder <- sonde:bin_holders(30),
               lists:keymember(Pid, 1, Holders)].

%% The parts of one size are the whole, whatever remains, and whoever else has it.
shared_by_many(Config) ->
    on(Config, fun() -> [ok = shared(Size, K, Others)
                         || {Size, K} <- [{1000000, 100}, {1000003, 100}, {1000000, 7}, {99, 100}],
                            Others <- [nobody, table, queue, literal, table_and_queue]] end).

shared(Size, K, Others) ->
    Grown = case Others of nobody -> #{shared => Size}; _ -> #{mixed => Size} end,
    Build = fun() ->
                    Bin = bin(Size),
                    holders(K, Bin) ++ shared_with(Others, Bin)
            end,
    grows(Grown, Build,
          fun(Made, _) ->
                  Pids = [Pid || Pid <- lists:flatten(Made), is_pid(Pid)],
                  Values = [V || {Pid, V} <- maps:to_list(values(binary_proportional)),
                                 lists:member(Pid, Pids)],
                  Size = lists:sum(Values) + rest(Others, Size, K),
                  {0, Size} = {Size - value(hd(Pids), binary_unique), Size},
                  [] = [V || {Pid, V} <- maps:to_list(values(binary_exclusive)),
                             lists:member(Pid, Pids), V > 0],
                  ok
          end).

shared_with(nobody, _) -> [];
shared_with(table, Bin) -> table([private], fun() -> [Bin] end);
shared_with(queue, Bin) ->
    Pid = mailbox(off_heap),
    Pid ! Bin,
    ok = sonde_test:settle(Pid),
    [Pid];
shared_with(literal, Bin) ->
    ok = persistent_term:put(account_shared, Bin),
    [{term, account_shared}];
shared_with(table_and_queue, Bin) ->
    shared_with(table, Bin) ++ shared_with(queue, Bin).

%% What is not a process's.
rest(table, Size, K) -> Size div (K + 1);
rest(literal, Size, K) -> Size div (K + 1) + Size rem (K + 1);
rest(table_and_queue, Size, K) -> Size div (K + 2);
rest(_, _, _) -> 0.

slices_of_one(Config) ->
    on(Config, fun() -> [ok = sliced(Size, N, Each)
                         || {Size, N, Each} <- [{1000000, 50, 100}, {10000, 50, 100}, {65, 1, 65},
                                                {3000000, 1000, 70}]] end).

sliced(Size, N, Each) ->
    Step = Size div N,
    Cut = fun() ->
                  Whole = bin(Size),
                  [binary:part(Whole, Step * I, Each) || I <- lists:seq(0, N - 1)]
          end,
    grows(#{exclusive => Size},
          fun() -> hold(fun() -> Parts = Cut(), true = garbage_collect(), Parts end) end,
          fun(Pid, _) ->
                  [Size, Size, Size] = [value(Pid, Attr) || Attr <- ?BINARY],
                  Waste = Size - N * Each,
                  Waste = value(Pid, bin_waste),
                  [#{size := Size, refc := Refc, elsewhere := 0,
                     holders := [{Pid, Refc, Visible}]}] = held_by(Pid),
                  Visible = N * Each,
                  ok
          end).

table_alone(Config) ->
    on(Config, fun() -> [ok = in_table(N, Size)
                         || {N, Size} <- [{1000, 10000}, {10, 1000000}, {10000, 65}]] end).

in_table(N, Size) ->
    Bytes = N * Size,
    grows(#{ets => Bytes},
          fun() -> table([private], fun() -> [bin(Size) || _ <- lists:seq(1, N)] end) end,
          fun([Pid, {table, Tab}], _) ->
                  [{Tab, Bytes, [account, {owner, Pid} | _]}] = sonde:ets_count(binary_memory, 1),
                  [0, 0, 0] = [value(Pid, Attr) || Attr <- ?BINARY],
                  ok
          end).

all_at_once(Config) ->
    on(Config, fun() ->
                       Build = fun() ->
                                       Shared = bin(1000000),
                                       [letters(off_heap, 1000, 10000),
                                        holders(100, Shared),
                                        hold(fun() -> binary:part(bin(1000000), 5, 100) end),
                                        hold(fun() -> [bin(5000) || _ <- lists:seq(1, 500)] end),
                                        table([private],
                                              fun() -> [bin(1000000) || _ <- lists:seq(1, 10)] end),
                                        literal(account_all, bin(700001)),
                                        mixed(123457)]
                               end,
                       grows(#{exclusive => 3500000, shared => 1000000, ets => 10000000,
                               queues => 10000000, literals => 700001, mixed => 123457}, Build)
               end).

literal(Key, Term) ->
    ok = persistent_term:put(Key, Term),
    {term, Key}.

mixed(Size) ->
    Bin = bin(Size),
    [table([set], fun() -> [Bin] end) | holders(1, Bin)].

%% ---- known ownership

one_process(Config) ->
    on(Config, fun() -> [grows(#{exclusive => N * Size},
                               fun() -> hold(fun() -> [bin(Size) || _ <- lists:seq(1, N)] end) end)
                         || {N, Size} <- [{1, 65}, {100, 1000}, {1000, 3333}, {3, 1000001}]],
                        ok end).

several_processes(Config) ->
    on(Config, fun() -> [grows(#{shared => Size}, fun() -> holders(K, bin(Size)) end)
                         || {K, Size} <- [{2, 65}, {3, 1000}, {300, 1000001}]], ok end).

tables_of_every_type(Config) ->
    Kinds = [[Type, Access | More] || Type <- [set, ordered_set, bag, duplicate_bag],
                                      Access <- [private, public],
                                      More <- [[], [compressed], [{write_concurrency, true}]]],
    on(Config, fun() -> [grows(#{ets => 100 * 1000},
                               fun() -> table(Kind, fun() -> [bin(1000)
                                                              || _ <- lists:seq(1, 100)] end) end)
                         || Kind <- Kinds], ok end).

literals_of_persistent_terms(Config) ->
    on(Config, fun() ->
                       _ = [grows(#{literals => Size},
                                  fun() -> [literal(account_term, Term(bin(Size)))] end)
                            || Size <- [100, 10000, 1000001],
                               Term <- [fun(B) -> B end, fun(B) -> {[B, B], #{a => B}} end,
                                        fun(B) -> binary:part(B, 0, byte_size(B) - 1) end,
                                        fun(B) -> fun() -> B end end]],
                       Twice = fun() -> Bin = bin(20000),
                                        [literal(account_one, Bin),
                                         literal(account_two, [binary:part(Bin, 7, 100)])] end,
                       ok = grows(#{literals => 20000}, Twice)
               end).

mixed_kinds(Config) ->
    on(Config, fun() ->
                       Kinds = [fun(B) -> holders(1, B) end, fun(B) -> holders(2, B) end,
                                fun(B) -> table([bag], fun() -> [B, B] end) end,
                                fun(B) -> shared_with(queue, B) end,
                                fun(B) -> literal(account_mixed, B) end],
                       Pairs = [{A, B} || A <- lists:seq(1, 5), B <- lists:seq(A + 1, 5),
                                          {A, B} =/= {1, 2}],
                       _ = [grows(#{mixed => 77777}, fun() -> Bin = bin(77777),
                                                              [(lists:nth(I, Kinds))(Bin)
                                                               || I <- [A, B]] end)
                            || {A, B} <- Pairs],
                       ok
               end).

%% Nobody reads: what the system does not take waits in the port, a socket's as it is, a program's
%% as a copy.
queue_of_a_port(Config) ->
    on(Config, fun() ->
                       Size = 8000000,
                       %% modules are loaded
                       _ = [undo(made(fun() -> Make(bin(Size)) end))
                            || Make <- [fun socket/1, fun program/1]],
                       ok = grows(#{elsewhere => Size},
                                  fun() -> Bin = bin(Size), [socket(Bin), holders(1, Bin)] end),
                       ok = grows(#{elsewhere => Size}, fun() -> Bin = bin(Size),
                                                                 [socket(Bin),
                                                                  table([set], fun() -> [Bin] end)]
                                                        end),
                       ok = unseen(Size, fun() -> socket(bin(Size)) end),
                       unseen(Size, fun() -> program(bin(Size)) end)
               end).

socket(Bin) ->
    Pid = hold(fun() ->
                       Small = [binary, {active, false}, {sndbuf, 4096}, {recbuf, 4096},
                                {ip, {127, 0, 0, 1}}],
                       {ok, Listen} = gen_tcp:listen(0, Small),
                       {ok, Port} = inet:port(Listen),
                       {ok, Socket} =
                           gen_tcp:connect({127, 0, 0, 1}, Port, Small -- [{ip, {127, 0, 0, 1}}]),
                       {ok, Other} = gen_tcp:accept(Listen),
                       true = port_command(Socket, Bin),
                       {queue_size, Size} = erlang:port_info(Socket, queue_size),
                       true = Size > 0,
                       {Listen, Socket, Other}
               end),
    true = garbage_collect(Pid),
    Pid.

program(Bin) ->
    Test = self(),
    Pid = hold(fun() ->
                       Port = open_port({spawn, "sleep 60"}, [binary]),
                       Test ! erlang:port_info(Port, os_pid),
                       true = port_command(Port, Bin),
                       {queue_size, Size} = erlang:port_info(Port, queue_size),
                       true = Size > 0
               end),
    receive {os_pid, OsPid} -> true = garbage_collect(Pid), [Pid, {os, OsPid}] end.

%% What nothing that is walked refers to is unseen.
unseen(Bytes, Build) ->
    Before = quiet(),
    #{unseen := Unseen} = sonde:bin_account(),
    Made = made(Build),
    Grows = fun(By) ->
                    until(fun() ->
                                  #{unseen := Now} = sonde:bin_account(),
                                  {abs(Now - Unseen - By) =< Bytes div 50 + ?READ_BUFFER,
                                   {unseen, Now - Unseen, By}}
                          end)
            end,
    try
        {ok, _} = Grows(Bytes),
        _ = becomes(Before),
        ok
    after
        undo(Made),
        {ok, _} = Grows(0)
    end.

timers(Config) ->
    on(Config, fun() ->
                       Timer =
                           fun(Bin) -> {timer, erlang:send_after(600000, init, {never, Bin})} end,
                       ok = grows(#{elsewhere => 50000},
                                  fun() -> Bin = bin(50000), [Timer(Bin), holders(2, Bin)] end),
                       ok = grows(#{elsewhere => 50000},
                                  fun() -> Bin = bin(50000), [Timer(Bin), shared_with(queue, Bin)]
                                  end),
                       unseen(5000000, fun() -> [Timer(bin(5000000))] end)
               end).

%% ---- resources

foreign(Config, Fun) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "foreign"),
    case sonde_foreign_helper:build(Dir) of
        {skip, _} = Skip -> Skip;
        {ok, Dir} ->
            Peer = sonde_peer_helper:start(shipped),
            try
                ok = on(Peer, fun warm_up/0),
                ok = on(Peer, fun() -> ok = sonde_foreign_helper:load(Dir), Fun() end)
            after
                sonde_peer_helper:stop(Peer)
            end
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

%% So many resources of that size, held by K processes; their bytes.
of_things(N, Size, K) ->
    Type = {sonde_foreign_helper, thing},
    Before = quiet(),
    Background = sonde:bin_account(),
    Others = sonde:bin_resources(?MANY),
    false = lists:keyfind(Type, 1, Others),
    Made = made(fun() -> Things = [sonde_foreign_helper:thing(Size) || _ <- lists:seq(1, N)],
                         [hold(fun() -> Things end) || _ <- lists:seq(1, K)] end),
    {ok, Rows} = until(fun() ->
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
    {ok, Account} = until(fun() ->
                                  true = garbage_collect(),
                                  #{resources := Now} = A = sonde:bin_account(),
                                  {abs(Now - Bytes - maps:get(resources, Background)) < 1000, A}
                          end),
    ok = adds_up(Account),
    [0, 0] = [value(hd(Made), Attr) || Attr <- [binary_unique, binary_exclusive]],
    ok = undo(Made),
    _ = becomes(Before),
    Bytes.

%% Its bytes are the resource's own, which are counted as that.
binary_of_a_resource(Config) ->
    foreign(Config, fun() ->
                            Before = quiet(),
                            Made =
                                made(fun() ->
                                             hold(fun() -> T = sonde_foreign_helper:thing(100000),
                                                           {T, sonde_foreign_helper:thing_binary(T)}
                                                  end)
                                     end),
                            {ok, Bytes} =
                                until(fun() ->
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

%% ---- a model

arrangements_are_those_of_a_model(Config) ->
    Peer = proplists:get_value(peer, Config),
    proper:quickcheck(prop_arranged(Peer),
                      [quiet, {numtests, 60}, {max_size, 25}, {max_shrinks, 50}])
        orelse ct:fail({counterexample, proper:counterexample()}).

%% Binaries, and where they are: on heaps and in mailboxes of three processes, in tables, in
%% persistent terms, in timers.
prop_arranged(Peer) ->
    Place = frequency([{4, {heap, range(1, 3)}}, {3, {queue, range(1, 3)}},
                       {2, {table, range(1, 2)}}, {1, literal}, {1, timer}]),
    ?FORALL(Arranged, list({range(65, 3000), list(Place)}),
            begin
                Kept = [{Size, Places} || {Size, Places} <- Arranged, Places =/= [],
                                          lists:usort(Places) =/= [timer]],
                {Model, Found} = on(Peer, fun() -> arranged(Kept) end),
                ?WHENFAIL(ct:pal("~p~nmodel ~p~nfound ~p", [Kept, Model, Found]), Model =:= Found)
            end).

arranged(Arranged) ->
    Before = quiet(),
    Made = [Pids, _, _, _] =
        made(fun() -> arrange([{bin(Size), Places} || {Size, Places} <- Arranged]) end),
    Parts = lists:foldl(fun({Size, Places}, Sum) ->
                                plus(Sum, #{part(lists:usort(Places)) => Size})
                        end, maps:from_keys(?BINARIES, 0), Arranged),
    Model = [{I, [lists:sum([Share(Attr, Pid, I, Pids, Binary) || Binary <- Arranged])
                  || Attr <- ?BINARY]}
             || {I, Pid} <- lists:enumerate(Pids), Share <- [fun share/5]],
    try becomes(plus(Before, Parts)) of
        _ -> {Model, [{I, [value(Pid, Attr) || Attr <- ?BINARY]}
                      || {I, Pid} <- lists:enumerate(Pids)]}
    catch
        error:Wrong -> {{Parts, Model}, Wrong}
    after
        undo(Made),
        becomes(Before)
    end.

arrange(Binaries) ->
    At = fun(Place) -> [B || {B, Places} <- Binaries, P <- Places, P =:= Place] end,
    Pids = [sonde_test:hold(fun() -> Mine end, [{message_queue_data, off_heap}])
            || I <- [1, 2, 3],
               Mine <- [[B || {B, Places} <- Binaries, lists:member({heap, I}, Places)]]],
    _ = [lists:nth(I, Pids) ! {letter, B} || I <- [1, 2, 3], B <- At({queue, I})],
    _ = [ok = sonde_test:settle(Pid) || Pid <- Pids],
    Tables = [table([Type, private], fun() -> At({table, I}) end)
              || {I, Type} <- [{1, set}, {2, ordered_set}]],
    Terms = [literal({account_model, I}, B) || {I, B} <- lists:enumerate(At(literal))],
    Timers = [{timer, erlang:send_after(600000, init, B)} || B <- At(timer)],
    [Pids, Tables, Terms, Timers].

part(Places) ->
    case lists:member(timer, Places) orelse lists:usort([kind(P) || P <- Places]) of
        true -> elsewhere;
        [heap] when length(Places) > 1 -> shared;
        [heap] -> exclusive;
        [table] -> ets;
        [queue] -> queues;
        [literal] -> literals;
        _ -> mixed
    end.

kind({Kind, _}) -> Kind;
kind(Kind) -> Kind.

%% What process I has of a binary.
share(Attr, Pid, I, Pids, {Size, All}) ->
    Places = lists:usort(All),
    Mine = [P || {Kind, _} = P <- Places, P =:= {Kind, I}, Kind =/= table],
    case Attr of
        _ when Mine =:= [] -> 0;
        binary_unique -> Size;
        binary_exclusive when Mine =:= Places -> Size;
        binary_exclusive -> 0;
        binary_proportional ->
            Holders = lists:usort([holder(P, Pids) || P <- Places]),
            K = length(Holders),
            First = [1 || hd(Holders) =:= Pid orelse hd(Holders) =:= {queue, Pid}],
            length(Mine) * (Size div K) + length(First) * (Size rem K)
    end.

%% In the order of terms: what is no process, table or queue is one.
holder({heap, I}, Pids) -> lists:nth(I, Pids);
holder({queue, I}, Pids) -> {queue, lists:nth(I, Pids)};
holder({table, I}, _) -> {ets, I};
holder(_, _) -> elsewhere.

%% ---- the census

%% Each costs what its block costs: a third of all, where they are small.
small_ones_add_up(Config) ->
    on(Config, fun() ->
                       _ = [grows(#{exclusive => 100000 * Size},
                                  fun() -> hold(fun() -> [bin(Size)
                                                          || _ <- lists:seq(1, 100000)] end) end)
                            || Size <- [65, 72, 80, 100]],
                       ok
               end).

%% Neither ours nor theirs.
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

%% What moves is at most what those that make it hold at any time; some of that is seen, and gone
%% when the total is read, or comes after it was looked for, or is freed and not yet given back.
under_load_it_adds_up(Config) ->
    on(Config, fun() ->
                       Before = quiet(),
                       Still = made(fun() -> hold(fun() -> [bin(50000)
                                                            || _ <- lists:seq(1, 1000)] end) end),
                       _ = becomes(plus(Before, #{exclusive => 50000000})),
                       N = 6,
                       Live = 3 * 10000 * 10,
                       Pids = made(fun() -> [spawn(fun() -> churn(none) end)
                                             || _ <- lists:seq(1, N)] end),
                       _ = [Pid ! {next, Next}
                            || {Pid, Next} <- lists:zip(Pids, tl(Pids) ++ [hd(Pids)])],
                       Moves = 2 * N * Live,
                       _ = [ok = adds_up_loaded(sonde:bin_account(), Before, Moves)
                            || _ <- lists:seq(1, 100)],
                       ok = undo([Still | Pids]),
                       _ = becomes(Before),
                       ok
               end).

adds_up_loaded(#{total := Total, unseen := Unseen, exclusive := Exclusive,
                 processes_missed := Missed}, Before, Moves) ->
    true = is_integer(Missed) andalso Missed >= 0,
    true = abs(Unseen - get(unseen)) =< Total div 100 + 65536 + Moves
        orelse error({unseen, Unseen, Total, Moves}),
    Extra = Exclusive - maps:get(exclusive, Before) - 50000000,
    true = Extra >= 0 andalso Extra =< Moves orelse error({exclusive, Extra, Moves}),
    ok.

%% Spawns, sends and drops binaries: ten of 10 kB in its hands, as many in its mailbox, as many in a
%% child.
churn(Next0) ->
    Next = receive {next, Pid} -> Pid after 0 -> Next0 end,
    Bins = [bin(10000) || _ <- lists:seq(1, 10)],
    {Child, Ref} = spawn_monitor(fun() -> exit({has, length(Bins)}) end),
    receive {'DOWN', Ref, process, Child, {has, 10}} -> ok end,
    _ = [Next ! {take, Bins} || is_pid(Next)],
    _ = receive {take, _} -> ok after 2 -> ok end,
    true = garbage_collect(),
    churn(drained(Next)).

drained(Next) ->
    receive {take, _} -> drained(Next)
    after 0 -> Next
    end.

%% Who never rests is read where it was caught waiting for a scheduler, else told.
restless_are_told(Config) ->
    on(Config, fun() ->
                       Before = quiet(),
                       Size = 10000000,
                       Pids = made(fun() -> spinners(3, Size) end),
                       #{exclusive := Exclusive, processes_missed := Missed} = sonde:bin_account(),
                       Grown = Exclusive - maps:get(exclusive, Before),
                       0 = Grown rem Size,
                       true = Grown div Size + Missed >= 3 orelse error({Grown, Missed}),
                       ok = undo(Pids)
               end).

spinners(N, Size) ->
    Test = self(),
    Spin = fun() -> Bin = bin(Size), Test ! {spins, self()}, spin(Bin, 0) end,
    Pids = [spawn_opt(Spin, [{priority, low}]) || _ <- lists:seq(1, N)],
    [receive {spins, Pid} -> Pid end || Pid <- Pids].

spin(Bin, N) -> spin(Bin, (N + byte_size(Bin)) rem 1000).

%% A look at the persistent terms that comes to no end. In its place, since it would take millions.
literals_missed_are_told(Config) ->
    Forms = [{attribute, 1, module, sonde_term}, {attribute, 1, export, [{hold, 2}]},
             erl_parse_form("hold(_, _) -> {error, timeout}.")],
    {ok, sonde_term, Beam} = compile:forms(Forms),
    on(Config, fun() ->
                       ok = persistent_term:put({account_missed, 1}, bin(300000)),
                       true = garbage_collect(),
                       #{literals := Literals} = Whole = sonde:bin_account(),
                       {true, false} = {Literals >= 300000, is_map_key(literals_missed, Whole)},
                       {module, _} = code:load_binary(sonde_term, "none", Beam),
                       #{literals := 0, literals_missed := true, unseen := Unseen} =
                           try sonde:bin_account()
                           after
                               _ = code:purge(sonde_term),
                               {module, _} = code:load_file(sonde_term),
                               _ = code:purge(sonde_term)
                           end,
                       true = Unseen >= 300000,
                       true = persistent_term:erase({account_missed, 1}),
                       ok
               end).

erl_parse_form(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Form} = erl_parse:parse_form(Tokens),
    Form.

large_tables_are_told(Config) ->
    on(Config, fun() ->
                       Build = fun() ->
                                       table([set],
                                             fun() -> [bin(100) || _ <- lists:seq(1, 2000)] end)
                               end,
                       grows(#{ets => 200000}, Build,
                             fun(_, #{ets := Ets}) ->
                                     Less = #{tables_missed := Missed} =
                                         sonde:bin_account(#{max_rows => 1999}),
                                     true = Missed >= 1,
                                     true = Ets - maps:get(ets, Less) >= 200000,
                                     #{ets := Ets, tables_missed := 0} =
                                         sonde:bin_account(#{max_rows => 2000}),
                                     ok
                             end)
               end).

%% The error is exceeded once in twenty times, five of it never.
sample_is_near(Config) ->
    on(Config, fun() ->
                       Build = fun() ->
                                       [hold(fun() -> [bin(100 + 10 * J)
                                                       || J <- lists:seq(1, 2000)] end)
                                        || _ <- lists:seq(1, 10)]
                               end,
                       Bytes = 10 * lists:sum([100 + 10 * J || J <- lists:seq(1, 2000)]),
                       grows(#{exclusive => Bytes}, Build,
                             fun(_, Whole) ->
                                     false = maps:is_key(sampled, Whole)
                                         orelse maps:is_key(error, Whole),
                                     _ = [ok = near(Most, Whole) || Most <- [1000, 5000, 15000]],
                                     same = sampled(100000, Whole)
                             end),
                       ok
               end).

near(Most, Whole) ->
    #{sampled := Sampled, error := Error} = Some = sonde:bin_account(#{max_entries => Most}),
    K = round(math:log2(1 / Sampled)),
    {Sampled, true} = {1 / (1 bsl K), K >= 1},
    %% no more than needed are left out: a binary more than twice as many, and chance
    true = 20000 * Sampled > Most / 4,
    Seen = fun(Account) -> lists:sum(maps:values(maps:with(?PARTS, Account))) end,
    true = Error > 0 andalso Error < Seen(Whole) div 2,
    true = abs(Seen(Some) - Seen(Whole)) =< 5 * Error
        orelse error({Seen(Some), Seen(Whole), Error}),
    true = abs(maps:get(exclusive, Some) - maps:get(exclusive, Whole)) =< 5 * Error,
    ok.

sampled(Most, Whole) ->
    Account = sonde:bin_account(#{max_entries => Most}),
    false = maps:is_key(sampled, Account),
    true = maps:with(?PARTS, Whole) =:= maps:with(?PARTS, Account),
    same.

%% Bytes of memory; what is kept of binaries that are known to be so many. Their ids are followed by
%% nobody.
sample_keeps_its_bound(Config) ->
    on(Config, fun() -> [ok = bounded(N, Most)
                         || {N, Most} <- [{20000, 1000}, {100000, 5000}, {300000, 100}]] end).

bounded(N, Most) ->
    {{0, 0, Bytes, 0, 0, 0, 0, 0}, _, Count, Level, Variance, Memory} = counted(N, Most),
    true = Count =< Most,
    true = Count >= 1,
    true = Level >= 1,
    true = Variance > 0,
    Bytes = Count * 100 bsl Level,
    true = Memory =< Most * 32 * 4 + 200000 orelse error({memory, Memory, Most}),
    ok.

%% 32 bytes for each, and room to grow.
census_is_small(Config) ->
    on(Config, fun() ->
                       N = 300000,
                       {{0, 0, Bytes, 0, 0, 0, 0, 0}, _, N, 0, Variance, Memory} =
                           counted(N, 20000000),
                       {true, Bytes} = {Variance == 0, N * 100},
                       true = Memory =< N * 32 * 3 orelse error({memory, Memory}),
                       ok
               end).

counted(N, Most) ->
    #{status := active} = sonde:native(),
    Account = sonde_nif:account_new(Most, false),
    _ = [ok = sonde_nif:account_add(Account, table, [{16#7f0000000000 + 136 * (From + I), 100, 1, 1}
                                                     || I <- lists:seq(1, 1000)])
         || From <- lists:seq(0, N - 1000, 1000)],
    Sums = sums(Account),
    ok = sonde_nif:account_end(Account),
    Sums.

sums(Account) ->
    case sonde_nif:account_sum(Account) of
        more -> sums(Account);
        Sums -> Sums
    end.

%% Each had millions of bytes in hand.
killed_callers_leave_nothing(Config) ->
    on(Config, fun() ->
                       Held = made(fun() -> [hold(fun() -> [bin(65)
                                                            || _ <- lists:seq(1, 50000)] end)
                                             || _ <- lists:seq(1, 4)] end),
                       _ = [kill_caller(Ms) || Ms <- lists:seq(1, 3)],
                       Before = system_memory(),
                       _ = [kill_caller(I rem 30) || I <- lists:seq(1, 40)],
                       Growth = system_memory() - Before,
                       true = Growth < 15000000 orelse error({growth, Growth}),
                       ok = undo(Held)
               end).

kill_caller(Ms) ->
    Pid = spawn(fun forever/0),
    timer:sleep(Ms),
    true = exit(Pid, kill),
    sonde_test:until(fun() -> [] =:= helpers() end).

forever() ->
    _ = sonde:bin_account(),
    _ = sonde:bin_holders(3),
    _ = sonde:proc_count(binary_proportional, 3),
    forever().

helpers() ->
    [P || P <- processes(),
          {initial_call, {sonde_helper, _, _}} <- [process_info(P, initial_call)]].

system_memory() ->
    _ = [garbage_collect(P) || P <- processes()],
    timer:sleep(50),
    erlang:memory(system).

no_message_reaches_the_caller(Config) ->
    on(Config, fun() ->
                       Test = self(),
                       {Pid, Ref} = spawn_monitor(
                                      fun() ->
                                              _ = [Call() || Call <- calls()],
                                              Test ! {self(), sonde_test:mailbox()}
                                      end),
                       receive {Pid, []} -> ok end,
                       receive {'DOWN', Ref, process, Pid, normal} -> ok end,
                       [] = helpers(),
                       ok
               end).

%% ---- holders

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

%% A process with several references to the same: each message brings one.
received(N, Bin) ->
    Pid = spawn(fun() ->
                        Copies = [receive {copy, B} -> B end || _ <- lists:seq(1, N)],
                        true = garbage_collect(),
                        sonde_test:park(Copies)
                end),
    _ = [Pid ! {copy, Bin} || _ <- lists:seq(1, N)],
    {ok, _} = until(fun() -> {process_info(Pid, current_function)
                              =:= {current_function, {sonde_test, park, 1}}, Pid} end),
    ok = sonde_test:settle(Pid),
    Pid.

%% Each that process_info lists is found, with as many references as are listed.
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

%% The bytes that terms of a process see, its mailbox included: each once.
what_holders_see(Config) ->
    on(Config, fun() ->
                       Build = fun() ->
                                       Bin = bin(10000),
                                       Cut = fun(Parts) -> [binary:part(Bin, P) || P <- Parts] end,
                                       [hold(fun() -> Cut([{0, 100}, {50, 100}, {9000, 1000}]) end),
                                        hold(fun() -> Cut([{10, 70}]) end),
                                        letter_of(binary:part(Bin, 100, 200))]
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

letter_of(Term) ->
    Pid = mailbox(off_heap),
    Pid ! {letter, Term},
    ok = sonde_test:settle(Pid),
    Pid.

%% The maker's own fun has the whole of it.
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
                                        letter_of(Bin), letter_of([Bin, binary:part(Bin, 1, 100)]),
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

%% Compared, never followed.
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

%% Whose rows are not listed refers to a binary as anything does that is not walked.
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
                       _ = [system_limit =
                                raised(fun() -> sonde:bin_holders(3, By, #{max_entries => 100}) end)
                            || By <- [size, count]],
                       [_, _, _] = sonde:bin_holders(3, size, #{max_entries => 100000}),
                       #{sampled := _} = sonde:bin_account(#{max_entries => 100}),
                       ok = undo(Pid)
               end).

%% ---- rows of processes

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
                                     _ = [Rows = sonde:proc_count(Attr, 3) || Attr <- ?BINARY],
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
                            || Attr <- ?BINARY],
                       [{memory, [{_, _, _}]}] = [Row || {memory, _} = Row <- Said],
                       _ = [{[{Pid, 90000001, _}], #{left_out := 0}} =
                                sonde:proc_count(Attr, 1, #{report => true})
                            || Attr <- ?BINARY],
                       _ = [{[], #{left_out := 0}} = sonde:proc_count(Attr, 0, #{report => true})
                            || Attr <- ?BINARY],
                       ok = undo(Pid)
               end).

caller_is_left_out(Config) ->
    on(Config, fun() ->
                       {Me, Without, With} =
                           made(fun() ->
                                        Mine = bin(70000),
                                        Opts = #{self => true},
                                        Said = {self(),
                                                [sonde:proc_count(Attr, ?MANY) || Attr <- ?BINARY],
                                                [sonde:proc_count(Attr, ?MANY, Opts)
                                                 || Attr <- ?BINARY]},
                                        70000 = byte_size(Mine),
                                        Said
                                end),
                       [[], [], []] = [sonde_test:rows_of([Me], Rows) || Rows <- Without],
                       [[{Me, 70000, _}], [{Me, 70000, _}], [{Me, 70000, _}]] =
                           [sonde_test:rows_of([Me], Rows) || Rows <- With],
                       ok
               end).

helpers_have_no_row(Config) ->
    on(Config, fun() ->
                       _ = [[] = [Row
                                  || {_, _, Attrs} = Row <- sonde:proc_count(Attr, ?MANY,
                                                                             #{self => true}),
                                     {initial_call, {sonde_helper, _, _}} <- Attrs]
                            || Attr <- ?BINARY],
                       ok
               end).

%% Until they are caught at it: who grows on, and a table that does.
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
                       {ok, Rows} = until(fun() ->
                                                  Dies = spawn(fun() -> timer:sleep(10),
                                                                        Bin = bin(20000000),
                                                                        timer:sleep(10),
                                                                        exit({done, byte_size(Bin)})
                                                               end),
                                                  Rows = sonde:bin_window(10, 500),
                                                  false = lists:keymember(Dies, 1, Rows),
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

%% Most 50 MB.
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

%% It cannot do anything meanwhile; but its mailbox grows.
window_of_oneself(Config) ->
    on(Config, fun() ->
                       {Me, Without, With} =
                           made(fun() ->
                                        _ = process_flag(message_queue_data, off_heap),
                                        Me = self(),
                                        Writer = spawn(fun() -> write(Me, 1) end),
                                        Without = sonde:bin_window(10, 100),
                                        {ok, With} =
                                            until(fun() -> Rows = sonde:bin_window(10, 100,
                                                                                   #{self => true}),
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

%% ---- both sides

%% All that give rows, or an account.
calls() ->
    [fun() -> sonde:bin_account() end, fun() -> sonde:bin_account(#{max_entries => 100000}) end,
     fun() -> sonde:bin_owned(3) end, fun() -> sonde:bin_owned(0) end,
     fun() -> sonde:bin_holders(3) end, fun() -> sonde:bin_holders(3, size) end,
     fun() -> sonde:bin_holders(3, count) end,
     fun() -> sonde:bin_holders(0, count, #{max_rows => 1}) end,
     fun() -> sonde:bin_holder(8) end, fun() -> sonde:bin_holder(-1) end,
     fun() -> sonde:bin_resources(3) end, fun() -> sonde:bin_resources(0, #{}) end,
     fun() -> sonde:bin_window(3, 1) end, fun() -> sonde:bin_window(0, 0, #{self => true}) end]
        ++ [fun() -> sonde:proc_count(Attrs, 3, Opts) end
            || Attrs <- ?BINARY ++ [?BINARY, [memory | ?BINARY]],
               Opts <- [#{}, #{self => true}, #{report => true}]].

off_is_an_error(_Config) ->
    Was = sonde_test:side(),
    _ = sonde:native(off),
    Raised = [raised(Call) || Call <- calls()],
    _ = [sonde:native(on) || Was =:= native],
    [{native_off, disabled}] = lists:usort(Raised),
    [] = sonde_test:mailbox().

bad_arguments_are_badarg(_Config) ->
    Amounts = [-1, 1.0, foo, "1"],
    Bad = [#{foo => 1}, #{max_entries => 0}, #{max_entries => -1}, #{max_entries => 1.0},
           #{max_rows => -1}, #{max_rows => all}, #{timeout => 1}, [], foo],
    Calls = [{bin_account, [Opts]} || Opts <- Bad]
        ++ [{bin_owned, [N]} || N <- Amounts]
        ++ [{bin_holders, [N]} || N <- Amounts]
        ++ [{bin_holders, [1, By]} || By <- [foo, sizes, 1, #{}]]
        ++ [{bin_holders, [N, size] } || N <- Amounts]
        ++ [{bin_holders, [1, count, Opts]} || Opts <- Bad]
        ++ [{bin_holder, [Id]} || Id <- [foo, 8.0, <<"8">>, self(), [], {8}]]
        ++ [{bin_resources, [N]} || N <- Amounts]
        ++ [{bin_resources, [1, Opts]} || Opts <- Bad]
        ++ [{bin_window, [N, 1]} || N <- Amounts]
        ++ [{bin_window, [1, Ms]} || Ms <- Amounts]
        ++ [{bin_window, [1, 1, Opts]} || Opts <- [#{self => yes} | Bad]]
        ++ [{proc_count, [Attr, 1, Opts]}
            || Attr <- ?BINARY, Opts <- [#{foo => 1}, #{max_words => -1}, #{self => 1}]]
        ++ [{proc_count, [Attr, N, #{}]} || Attr <- ?BINARY, N <- Amounts]
        ++ [{proc_count, [[binary_unique, binary_uniques], 1, #{}]}],
    [] = [{Call, Said} || {F, Args} = Call <- Calls,
                          Said <- [raised(fun() -> apply(sonde, F, Args) end)], Said =/= badarg].

%% These numbers have no meaning in a window, a group, or for process_info.
other_calls_do_not_take_them(_Config) ->
    [badarg] = lists:usort([raised(Call)
                            || Attr <- ?BINARY,
                               Call <- [fun() -> sonde:proc_window(Attr, 1, 1) end,
                                        fun() -> sonde:proc_group(application, [Attr]) end,
                                        fun() -> sonde:info(self(), Attr) end]]).

zero_rows(_Config) ->
    Calls = [fun() -> sonde:bin_owned(0) end, fun() -> sonde:bin_holders(0) end,
             fun() -> sonde:bin_resources(0) end, fun() -> sonde:bin_window(0, 0) end],
    Expected = case sonde_test:side() of
                   native -> {returned, []};
                   portable -> {native_off, disabled}
               end,
    [Expected] = lists:usort([raised(Call) || Call <- Calls]).
