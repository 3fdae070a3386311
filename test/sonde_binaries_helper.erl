%% What the suites about binaries build and wait for. All binaries of a node can be known only if no
%% other work runs on it: so each suite has its own node, in its Config, and its cases run there.
-module(sonde_binaries_helper).

-export([start/2, stop/1, look/1, is_as_before/1, on/2, in_own_node/2]).
-export([attrs/0, places/0]).
-export([bin/1, made/1, undo/1, hold/1, holders/2, mailbox/1, letter/1, table/2, literal/2,
         spinners/2]).
-export([quiet/0, becomes/1, plus/2, grows/2, grows/3, adds_up/1, await/2]).
-export([values/1, value/2, held_by/1]).

%% Memory that was freed is given back well within this time.
-define(PATIENCE_MS, 60000).

%% The native binary attributes of a process; and the places of binaries in an account.
attrs() -> [binary_unique, binary_exclusive, binary_proportional].
places() -> [exclusive, shared, ets, queues, literals, mixed, elsewhere].

%% ---- the node of a suite

start(Suite, Config) ->
    Peer = sonde_peer_helper:start(shipped),
    ok = on(Peer, fun() -> warm_up(Suite) end),
    [{peer, Peer} | Config].

stop(Config) ->
    sonde_peer_helper:stop(proplists:get_value(peer, Config)).

on(Peer, Fun) when is_pid(Peer) -> sonde_peer_helper:call(Peer, erlang, apply, [Fun, []]);
on(Config, Fun) -> on(proplists:get_value(peer, Config), Fun).

%% For changes that a node cannot undo.
in_own_node(Suite, Fun) ->
    sonde_peer_helper:with(shipped, fun(Peer) ->
                                            ok = on(Peer, fun() -> warm_up(Suite) end),
                                            on(Peer, Fun)
                                    end).

%% Until it collects, the first process that calls a module holds its code, a binary.
warm_up(Suite) ->
    {ok, Ours} = file:list_dir(filename:dirname(code:which(sonde))),
    _ = [{module, _} = code:ensure_loaded(list_to_atom(filename:basename(F, ".beam")))
         || F <- Ours, filename:extension(F) =:= ".beam"],
    _ = [{module, M} = code:ensure_loaded(M)
         || M <- [Suite, ?MODULE, lists, maps, timer, atomics, rand, sonde_foreign_helper]],
    _ = sonde:bin_account(),
    _ = [garbage_collect(Pid) || Pid <- processes()],
    ok.

%% For init_per_testcase and end_per_testcase: a case must leave all as it was. Leftovers of a
%% failed case do not make others fail.
look(Config) ->
    [{before, on(Config, fun() -> {processes(), quiet()} end)} | Config].

is_as_before(Config) ->
    {Pids, Parts} = proplists:get_value(before, Config),
    Passed = proplists:get_value(tc_status, Config) =:= ok,
    case on(Config, fun() -> left(Pids, Parts, Passed) end) of
        {[], [], {returned, _}} -> ok;
        _ when not Passed -> ok;
        Left -> {fail, {left, Left}}
    end.

left(Pids, Parts, Passed) ->
    Left = processes() -- [self() | Pids],
    Terms = [Key || {Key, _} <- persistent_term:get(), is_ours(Key)],
    ok = sonde_test:stop(Left),
    _ = [true = persistent_term:erase(Key) || Key <- Terms],
    _ = [garbage_collect(Pid) || Pid <- processes()],
    {Left, Terms, sonde_test:raised(fun() -> Passed andalso becomes(Parts) end)}.

is_ours({Key, _}) -> is_ours(Key);
is_ours(Key) -> is_atom(Key) andalso lists:prefix("account_", atom_to_list(Key)).

%% ---- what is built

bin(Size) -> binary:copy(<<1>>, Size).

%% The result of a process that has ended and holds nothing any more.
made(Build) ->
    {_, Made} = sonde_test:in_process(Build),
    Made.

undo(Made) when is_list(Made) -> lists:foreach(fun undo/1, Made);
undo(Pid) when is_pid(Pid) -> sonde_test:stop(Pid);
undo({term, Key}) -> true = persistent_term:erase(Key);
undo({timer, Ref}) -> true = is_integer(erlang:cancel_timer(Ref));
undo({os, OsPid}) -> "" = os:cmd("kill " ++ integer_to_list(OsPid));
undo({_, Tab}) when is_reference(Tab) -> ok.

hold(Fun) -> sonde_test:hold(Fun).

holders(K, Bin) -> sonde_test:hold_each(lists:duplicate(K, fun() -> Bin end), []).

mailbox(Where) -> sonde_test:hold(fun() -> ok end, [{message_queue_data, Where}]).

%% A message that is never received.
letter(Term) ->
    Pid = mailbox(off_heap),
    Pid ! {letter, Term},
    ok = sonde_test:settle(Pid),
    Pid.

%% Returns the owner and the table.
table(Options, Binaries) ->
    Test = self(),
    Pid = hold(fun() ->
                       Tab = ets:new(account, Options),
                       true = ets:insert(Tab, [{I, [B]} || {I, B} <- lists:enumerate(Binaries())]),
                       Test ! {table, Tab},
                       true = garbage_collect()
               end),
    receive {table, Tab} -> [Pid, {table, Tab}] end.

literal(Key, Term) ->
    ok = persistent_term:put(Key, Term),
    {term, Key}.

%% Each process holds its own binary, and never rests.
spinners(N, Size) ->
    Test = self(),
    Pids = sonde_test:churn(N, fun() -> spin(get(spins), Size, Test) end),
    [receive {spins, Pid} -> Pid end || Pid <- Pids].

spin(undefined, Size, Test) ->
    _ = process_flag(priority, low),
    undefined = put(spins, bin(Size)),
    Test ! {spins, self()};
spin(Bin, Size, _) ->
    Size = byte_size(Bin).

%% ---- what an account shows

%% Without resources: processes that make references create and free some, and we hold our own.
parts() -> maps:with(places(), sonde:bin_account()).

%% Freed memory is given back late, so waits until the parts no longer change. The process that
%% talks to the other node holds its last messages until it collects.
quiet() ->
    _ = [garbage_collect(Pid) || Pid <- processes()],
    Parts = await(quiet, fun() ->
                                 Now = parts(),
                                 {lists:all(fun(_) -> timer:sleep(5), parts() =:= Now end,
                                            [1, 2, 3]), Now}
                         end),
    _ = put(unseen, maps:get(unseen, sonde:bin_account())),
    Parts.

%% Waits for an account with these parts.
becomes(Parts) ->
    true = garbage_collect(),
    await({becomes, Parts}, fun() ->
                                    Account = sonde:bin_account(),
                                    {maps:with(places(), Account) =:= Parts, Account}
                            end).

%% Waits until Fun returns {true, Answer}; if it never does, the failure shows its last answer.
await(What, Fun) ->
    Look = fun() ->
                   {Is, Answer} = Fun(),
                   _ = put(?MODULE, Answer),
                   Is
           end,
    try sonde_test:until(What, Look, ?PATIENCE_MS) of
        ok -> erase(?MODULE)
    catch
        error:Why -> error({Why, erase(?MODULE)})
    end.

plus(Parts, Grown) -> maps:map(fun(Part, Bytes) -> Bytes + maps:get(Part, Grown, 0) end, Parts).

%% Builds it, waits until each part has grown by Grown, calls Look, and undoes the building.
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

%% All parts add up to the total: nothing is unseen, except the binaries of the port that connects
%% us to the other node, and one scan of an earlier call, of 66 kB, that is not yet collected.
adds_up(#{total := Total, overhead := Overhead, unseen := Unseen, processes_missed := 0,
          tables_missed := 0} = Account) ->
    Parts = maps:with([resources | places()], Account),
    Unseen = Total - Overhead - lists:sum(maps:values(Parts)),
    true = abs(Unseen - get(unseen)) =< Total div 100 + 70000 orelse error({Account, get(unseen)}),
    ok.

%% ---- what attributes report

values(Attr) ->
    {Rows, #{left_out := 0}} = sonde:proc_count(Attr, 1 bsl 20, #{report => true}),
    maps:from_list([{Pid, Value} || {Pid, Value, _} <- Rows]).

value(Pid, Attr) -> maps:get(Pid, values(Attr)).

held_by(Pid) ->
    [Holder || #{holders := Holders} = Holder <- sonde:bin_holders(30),
               lists:keymember(Pid, 1, Holders)].
