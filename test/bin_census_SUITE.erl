%% An account adds up while binaries come and go, reports what it missed, keeps its bound when it
%% takes a sample, and leaves nothing behind if its caller is killed.
-module(bin_census_SUITE).

-import(sonde_binaries_helper, [on/2, places/0, bin/1, made/1, undo/1, hold/1, table/2, spinners/2,
                                quiet/0, becomes/1, plus/2, grows/2, grows/3]).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [small_ones_add_up, under_load_it_adds_up, restless_are_told, large_tables_are_told,
     literals_missed_are_told, sample_is_near, sample_keeps_its_bound, census_is_small,
     killed_callers_leave_nothing].

init_per_suite(Config) -> sonde_binaries_helper:start(?MODULE, sonde_test:init(Config)).
end_per_suite(Config) -> sonde_binaries_helper:stop(Config).

init_per_testcase(_Case, Config) -> sonde_binaries_helper:look(Config).
end_per_testcase(_Case, Config) -> sonde_binaries_helper:is_as_before(Config).

%% Each binary costs what its block costs; for small ones that is a third of the total.
small_ones_add_up(Config) ->
    on(Config, fun() ->
                       _ = [grows(#{exclusive => 100000 * Size},
                                  fun() -> hold(fun() -> [bin(Size)
                                                          || _ <- lists:seq(1, 100000)] end) end)
                            || Size <- [65, 72, 80, 100]],
                       ok
               end).

%% At most what the makers hold at any time moves. The account may see some of it that is freed
%% before the total is read, or miss some that came after the search, or that is freed but not yet
%% given back.
under_load_it_adds_up(Config) ->
    on(Config, fun() ->
                       Before = quiet(),
                       Still = made(fun() -> hold(fun() -> [bin(50000)
                                                            || _ <- lists:seq(1, 1000)] end) end),
                       _ = becomes(plus(Before, #{exclusive => 50000000})),
                       N = 6,
                       Live = 3 * 10000 * 10,
                       Pids = made(fun() -> sonde_test:churn(N, fun passes_on/0) end),
                       _ = [Pid ! {next, Next}
                            || {Pid, Next} <- lists:zip(Pids, tl(Pids) ++ [hd(Pids)])],
                       Moves = 2 * N * Live,
                       _ = [ok = adds_up_loaded(sonde:bin_account(), Before, Moves)
                            || _ <- lists:seq(1, 50)],
                       ok = undo([Still | Pids]),
                       _ = becomes(Before),
                       ok
               end).

adds_up_loaded(#{total := Total, unseen := Unseen, exclusive := Exclusive,
                 processes_missed := Missed}, Before, Moves) ->
    true = is_integer(Missed) andalso Missed >= 0,
    true = abs(Unseen - get(unseen)) =< Total div 100 + 70000 + Moves
        orelse error({unseen, Unseen, Total, Moves}),
    Extra = Exclusive - maps:get(exclusive, Before) - 50000000,
    true = Extra >= 0 andalso Extra =< Moves orelse error({exclusive, Extra, Moves}),
    ok.

%% Spawns, sends and drops binaries: holds ten of 10 kB, as many in a child, and as many in the
%% mailbox of the process before, which asks for them: never more, however long that process does
%% not run.
passes_on() ->
    Bins = [bin(10000) || _ <- lists:seq(1, 10)],
    {_, 10} = sonde_test:in_process(fun() -> length(Bins) end),
    receive
        {next, Next} -> Next ! {ask, self()}, put(next, Next);
        {ask, Pid} -> Pid ! {take, Bins};
        {take, _} -> get(next) ! {ask, self()}
    after 2 -> ok
    end,
    true = garbage_collect(),
    timer:sleep(1).

%% A process that never rests is read if it is caught waiting for a scheduler, and reported
%% otherwise.
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

%% A look at the persistent terms that never ends; simulated, since a real one would take millions.
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

%% The error is exceeded once in twenty times, five times the error never.
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
    %% no more than needed are left out: up to twice as many, and chance
    true = 20000 * Sampled > Most / 4,
    Seen = fun(Account) -> lists:sum(maps:values(parts(Account))) end,
    true = Error > 0 andalso Error < Seen(Whole) div 2,
    true = abs(Seen(Some) - Seen(Whole)) =< 5 * Error
        orelse error({Seen(Some), Seen(Whole), Error}),
    true = abs(maps:get(exclusive, Some) - maps:get(exclusive, Whole)) =< 5 * Error,
    ok.

sampled(Most, Whole) ->
    Account = sonde:bin_account(#{max_entries => Most}),
    false = maps:is_key(sampled, Account),
    true = parts(Whole) =:= parts(Account),
    same.

%% Checks the memory, and what is kept when the number of binaries is known. The ids are made up;
%% nothing follows them.
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
    Account = sonde_nif:account_new(Most, false, false),
    _ = [ok = sonde_nif:account_add(Account, table, [{16#7f0000000000 + 136 * (From + I), 100, 1, 1}
                                                     || I <- lists:seq(1, 1000)])
         || From <- lists:seq(0, N - 1000, 1000)],
    Sums = sums(Account),
    ok = ended(sonde_nif:account_end(Account), Account),
    Sums.

ended(more, Account) -> ended(sonde_nif:account_end(Account), Account);
ended(ok, _) -> ok.

sums(Account) ->
    case sonde_nif:account_sum(Account) of
        more -> sums(Account);
        Sums -> Sums
    end.

%% Each killed caller held millions of bytes.
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
    sonde_test:until(no_helpers, fun() -> [] =:= sonde_test:helpers() end).

forever() ->
    _ = sonde:bin_account(),
    _ = sonde:bin_holders(3),
    _ = sonde:proc_count(binary_proportional, 3),
    forever().

system_memory() ->
    _ = [garbage_collect(P) || P <- processes()],
    timer:sleep(50),
    erlang:memory(system).

parts(Account) -> maps:with([resources | places()], Account).
