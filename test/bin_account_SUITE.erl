%% An account of a node's binaries has exactly what the test built in every part, and the shares of
%% processes are those of a naive model, even where recon and process_info see nothing.
-module(bin_account_SUITE).

-include_lib("proper/include/proper.hrl").

-import(sonde_binaries_helper, [on/2, attrs/0, places/0, bin/1, made/1, undo/1, hold/1, holders/2,
                                mailbox/1, letter/1, table/2, literal/2, quiet/0, becomes/1, plus/2,
                                grows/2, grows/3, adds_up/1, await/2, values/1, value/2,
                                held_by/1]).

-compile([export_all, nowarn_export_all]).

%% The read buffer of the port through which the test talks to the other node: it comes and goes.
-define(READ_BUFFER, 66000).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [messages_on_heap, messages_off_heap, binary_that_grows, shared_by_many, slices_of_one,
     table_alone, all_at_once, one_process, several_processes, tables_of_every_type,
     literals_of_persistent_terms, mixed_kinds, queue_of_a_port, timers,
     arrangements_are_those_of_a_model].

init_per_suite(Config) -> sonde_binaries_helper:start(?MODULE, sonde_test:init(Config)).
end_per_suite(Config) -> sonde_binaries_helper:stop(Config).

init_per_testcase(_Case, Config) -> sonde_binaries_helper:look(Config).
end_per_testcase(_Case, Config) -> sonde_binaries_helper:is_as_before(Config).

%% ---- blind spots

messages_on_heap(Config) -> messages(Config, on_heap).

messages_off_heap(Config) -> messages(Config, off_heap).

messages(Config, Where) ->
    on(Config, fun() -> [ok = messages(Where, N, Size)
                         || {N, Size} <- [{1000, 10000}, {1000, 65}, {20, 1000001}, {1, 300}]] end).

%% A process with N messages that it never takes.
letters(Where, N, Size) ->
    Pid = mailbox(Where),
    _ = [Pid ! {letter, I, bin(Size)} || I <- lists:seq(1, N)],
    ok = sonde_test:settle(Pid),
    Pid.

%% A message may be on the heap at once, if the sender finds room there.
messages(Where, N, Size) ->
    Before = quiet(),
    Pid = made(fun() -> letters(Where, N, Size) end),
    Bytes = N * Size,
    Account = await(Where, fun() ->
                                   #{queues := Queues, exclusive := Heap} = A = sonde:bin_account(),
                                   Queued = Queues - maps:get(queues, Before),
                                   {Bytes =:= Queued + Heap - maps:get(exclusive, Before)
                                        andalso (Where =:= on_heap orelse Queued =:= Bytes), A}
                           end),
    ok = adds_up(Account),
    [Bytes, Bytes, Bytes] = [value(Pid, Attr) || Attr <- attrs()],
    ok = undo(Pid),
    _ = becomes(Before),
    ok.

%% Includes its spare room: the total would show if that of a large binary were missed.
binary_that_grows(Config) ->
    on(Config, fun() -> [ok = grown(Size) || Size <- [1000, 100000, 1000000, 5000000]] end).

grown(Size) ->
    Before = quiet(),
    Pid = made(fun() -> sonde_test:hold(fun() -> Bin = append(<<>>, Size),
                                                 true = garbage_collect(), Bin end) end),
    Account = await(grown, fun() ->
                                   #{exclusive := Heap} = A = sonde:bin_account(),
                                   {Heap - maps:get(exclusive, Before) >= Size, A}
                           end),
    ok = adds_up(Account),
    Bytes = maps:get(exclusive, Account) - maps:get(exclusive, Before),
    true = Bytes =< 2 * Size + 1000,
    [Bytes, Bytes, Bytes] = [value(Pid, Attr) || Attr <- attrs()],
    [#{size := Bytes, refc := 1, elsewhere := 0, holders := [{Pid, 1, Size}]}] = held_by(Pid),
    ok = undo(Pid),
    _ = becomes(Before),
    ok.

append(Bin, Size) when byte_size(Bin) < Size -> append(<<Bin/binary, "0123456789">>, Size);
append(Bin, _) -> Bin.

%% The parts of one size add up to the whole, whatever the remainder and whoever else holds it.
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
shared_with(queue, Bin) -> [letter(Bin)];
shared_with(literal, Bin) -> [literal(account_shared, Bin)];
shared_with(table_and_queue, Bin) ->
    shared_with(table, Bin) ++ shared_with(queue, Bin).

%% The part that belongs to no process.
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
                  [Size, Size, Size] = [value(Pid, Attr) || Attr <- attrs()],
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
                  [0, 0, 0] = [value(Pid, Attr) || Attr <- attrs()],
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

%% Nobody reads at the other end: what the system does not take waits in the port, in a socket's as
%% the binary itself, in a program's as a copy.
queue_of_a_port(Config) ->
    on(Config, fun() ->
                       Size = 8000000,
                       %% loads the modules first
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

%% A binary is unseen if nothing that is walked refers to it.
unseen(Bytes, Build) ->
    Before = quiet(),
    #{unseen := Unseen} = sonde:bin_account(),
    Made = made(Build),
    Grows = fun(By) ->
                    await({unseen, By},
                          fun() ->
                                  #{unseen := Now} = sonde:bin_account(),
                                  {abs(Now - Unseen - By) =< Bytes div 50 + ?READ_BUFFER,
                                   Now - Unseen}
                          end)
            end,
    try
        _ = Grows(Bytes),
        _ = becomes(Before),
        ok
    after
        undo(Made),
        _ = Grows(0)
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

%% ---- a model

arrangements_are_those_of_a_model(Config) ->
    Peer = proplists:get_value(peer, Config),
    proper:quickcheck(prop_arranged(Peer),
                      [quiet, {numtests, 60}, {max_size, 25}, {max_shrinks, 50}])
        orelse ct:fail({counterexample, proper:counterexample()}).

%% Binaries and where they are: on heaps and in mailboxes of three processes, in tables, in
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
                        end, maps:from_keys(places(), 0), Arranged),
    Model = [{I, [lists:sum([Share(Attr, Pid, I, Pids, Binary) || Binary <- Arranged])
                  || Attr <- attrs()]}
             || {I, Pid} <- lists:enumerate(Pids), Share <- [fun share/5]],
    try becomes(plus(Before, Parts)) of
        _ -> {Model, [{I, [value(Pid, Attr) || Attr <- attrs()]}
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

%% Holders in the order of terms; all that are no process, table or queue count as one.
holder({heap, I}, Pids) -> lists:nth(I, Pids);
holder({queue, I}, Pids) -> {queue, lists:nth(I, Pids)};
holder({table, I}, _) -> {ets, I};
holder(_, _) -> elsewhere.
