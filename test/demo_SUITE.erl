%% The demo: each call names the process that was planted for it, whatever the sizes; the table that
%% holds what no process does is named, and the parts of the binary memory add up; and nothing is
%% left running.
-module(demo_SUITE).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([diagnosis_names_the_planted/1, first_rows_are_the_planted/1, heaps_are_seen_into/1,
         table_is_what_no_process_holds/1, shows_and_ends/1]).

-define(DRAWS, 3).

suite() ->
    [{timetrap, {minutes, 2}}].

all() ->
    [diagnosis_names_the_planted, first_rows_are_the_planted, heaps_are_seen_into,
     table_is_what_no_process_holds, shows_and_ends].

init_per_suite(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "demo"),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    [_ | _] = Sources = filelib:wildcard(filename:join([root(), "demo", "*.erl"])),
    _ = [{ok, _} = compile:file(Source, [{outdir, Dir}, warnings_as_errors, report])
         || Source <- Sources],
    true = code:add_patha(Dir),
    sonde_test:init([{demo, Dir} | Config]).

end_per_suite(Config) ->
    _ = code:del_path(proplists:get_value(demo, Config)),
    ok.

%% ---- the answers

%% Whatever their sizes: who waits with a mailbox full, and the table that grows; natively also who
%% keeps slices. The others are below what a node of this size is told about, or not.
diagnosis_names_the_planted(_Config) ->
    #{diagnosis := #{suspects := Suspects}} = answers(sonde_demo_leaks:sizes()),
    Found = [{Kind, Remedy, proplists:get_value(registered_name, Evidence,
                                                proplists:get_value(name, Evidence))}
             || #{kind := Kind, remedy := Remedy, evidence := Evidence} <- Suspects],
    [] = [{mailbox, drop_unmatched, demo_mailbox}, {ets_table, evict, demo_cache}
          | [{pinned_slices, binary_copy, demo_slices} || sonde_test:side() =:= native]] -- Found.

first_rows_are_the_planted(_Config) ->
    _ = [first_rows(sonde_demo_leaks:sizes()) || _ <- lists:seq(1, ?DRAWS)],
    ok.

first_rows(Sizes) ->
    #{native := #{status := Status}, calls := Calls, counters := Counters} = answers(Sizes),
    case sonde_test:side() of
        native -> active = Status, #{native := Read, faults := _} = Counters, true = Read > 0;
        portable -> {off, disabled} = Status, #{native := 0} = Counters
    end,
    [#{first := First, rows := [{_, Memory, _}, {_, Second, _} | _]} = ByMemory, ByQueue, ByBinary,
     ByLeak] = Calls,
    demo_mailbox = First,
    _ = [{Name, 5, Name} = {Name, length(Rows), first(Rows)}
         || #{first := Name, rows := Rows} <- Calls],
    {Sizes, true} = {Sizes, Memory > 1.5 * Second},
    #{routed := Routed, slices := Slices, unread := Unread} = Sizes,
    Unread = value(ByQueue),
    %% The router may have collected by itself once; what is sliced is at least so large.
    {Sizes, true} = {Sizes, -value(ByLeak) > Routed div 2 andalso -value(ByLeak) =< Routed},
    {Sizes, true} = {Sizes, value(ByBinary) >= Slices * 96 * 1024},
    {Sizes, true} = {Sizes, value(ByMemory) >= Unread * 80 * 8}.

%% Nothing was collected for it: the router's garbage is what bin_leak drops afterwards.
heaps_are_seen_into(_Config) ->
    #{slices := Slices, sessions := Sessions} = Sizes = sonde_demo_leaks:sizes(),
    #{inside := Inside, calls := Calls} = answers(Sizes),
    heaps(sonde_test:side(), Inside, Slices, Sessions, lists:last(Calls)).

heaps(native, Inside, Slices, Sessions, Leak) ->
    [[{_, Garbage, [demo_router | _]} | _],
     [{_, Waste, [{worst, [{80, _, 1} | _]}, demo_slices | _]}],
     [{_, Size, _, [{4, 84}]} | _], [#{path := [dictionary, {key, sessions} | _]} = Top | _],
     {ok, #{nodes := Nodes}}] = [Result || {_, _, Result} <- Inside],
    Garbage = -value(Leak),
    true = Waste > Slices * 90 * 1024 andalso Size > 90 * 1024,
    #{retained := Retained} = Top,
    true = Retained > Sessions * 40 * 8 andalso Nodes > Sessions * 10;
heaps(portable, [], _, _, _) ->
    ok.

%% The node's binaries less those of all processes: at least nine tenths of that are the table's.
table_is_what_no_process_holds(_Config) ->
    #{cached := Cached, slices := Slices} = Sizes = sonde_demo_leaks:sizes(),
    #{binaries := Binaries} = answers(Sizes),
    [Node, Held | Rest] = [Result || {_, _, Result} <- Binaries],
    {Account, [[{demo_cache, InTable, [demo_cache, {owner, Owner}, {type, set}, {size, Size}]}],
               [{demo_cache, OwnMemory, _}] | Growth]} = lists:split(account_calls(), Rest),
    true = is_pid(Owner),
    {Binaries, true} = {Binaries, InTable > 0.9 * (Node - Held)},
    {Binaries, true} = {Binaries, InTable > 2 * OwnMemory},
    {Binaries, true} = {Binaries, Size >= Cached andalso InTable >= Cached * 400},
    account(sonde_test:side(), Account, InTable, Slices),
    growth(sonde_test:side(), Growth, Size).

account_calls() ->
    case sonde_test:side() of
        native -> 2;
        portable -> 0
    end.

%% The table grew between the calls, by a page for each 20 ms.
account(native, [#{total := Total, ets := Ets, exclusive := Exclusive, unseen := Unseen},
                 [{_, Owned, [demo_slices | _]}]], InTable, Slices) ->
    {Ets, InTable, true} = {Ets, InTable, Ets > 0.99 * InTable andalso Ets =< InTable},
    {Total, true} = {Total, abs(Unseen) < Total div 100 + 65536},
    true = Owned >= Slices * 96 * 1024 andalso Owned =< Exclusive;
account(portable, [], _, _) ->
    ok.

%% 25 pages of 400 to 1600 bytes, or fewer where the machine is busy.
growth(native, [[{{ets, demo_cache}, Grown, [demo_cache, {owner, _}, {type, set}, {size, _}]}]],
       _) ->
    {Grown, true} = {Grown, Grown >= 400 andalso Grown =< 100 * 1600};
growth(portable, [Size, SizeLater], First) ->
    true = Size >= First andalso SizeLater > Size.

answers(Sizes) ->
    Answers = #{os_pid := OsPid} = sonde_demo:answers(Sizes, args()),
    ok = sonde_test:until(fun() -> not is_running(OsPid) end),
    Answers.

args() ->
    case sonde_test:side() of
        native -> [];
        portable -> ["-sonde", "native", "off"]
    end.

first([{_, _, [Name | _]} | _]) -> Name.

value(#{rows := [{_, Value, _} | _]}) -> Value.

is_running(OsPid) ->
    os:cmd("kill -0 " ++ OsPid ++ " 2>/dev/null && echo yes") =/= "".

%% ---- what a person gets

shows_and_ends(_Config) ->
    Run = filename:join([root(), "demo", "run"]),
    Env = [{"SONDE_EBIN", filename:dirname(code:which(sonde))},
           {"ERL_AFLAGS", string:join(args(), " ")}],
    Start = erlang:monotonic_time(millisecond),
    Port = open_port({spawn_executable, os:find_executable("sh")},
                     [{args, [Run]}, {env, Env}, exit_status, binary, stderr_to_stdout]),
    {0, Text} = output(Port, []),
    true = erlang:monotonic_time(millisecond) - Start < 60000,
    Lines = string:split(Text, "\n", all),
    [] = [Line || Line <- Lines, string:length(Line) > 80],
    Shown = [binary_to_list(Line) || <<"> ", Line/binary>> <- Lines],
    [_, "sonde:diagnose().", "sonde:proc_count(memory, 5).", "sonde:proc_count(message_queue_len, 5).",
     "sonde:proc_count(binary_memory, 5)." | _] = Shown,
    true = lists:member("sonde:bin_leak(5).", Shown),
    Last = last_shown(sonde_test:side()),
    Last = lists:nthtail(length(Shown) - length(Last), Shown).

last_shown(Side) ->
    ["maps:with([native, asked], maps:get(counters, sonde:native())).",
     "erlang:memory(binary).",
     "lists:sum([B || {_, B, _} <- sonde:proc_count(binary_memory, -1)])."]
        ++ ["sonde:print(sonde:bin_account())." || Side =:= native]
        ++ ["sonde:bin_owned(1)." || Side =:= native]
        ++ ["sonde:ets_count(binary_memory, 1).", "sonde:ets_count(memory, 1)."]
        ++ ["sonde:bin_window(1, 500)." || Side =:= native]
        ++ ["ets:info(demo_cache, size)." || Side =:= portable, _ <- [1, 2]].

output(Port, Acc) ->
    receive
        {Port, {data, Data}} -> output(Port, [Acc, Data]);
        {Port, {exit_status, Status}} -> {Status, iolist_to_binary(Acc)}
    end.

root() ->
    case os:getenv("SONDE_ROOT") of
        false -> filename:join(code:lib_dir(sonde), "../../../..");
        Root -> Root
    end.
