%% The demo finds what it planted. From one run of demo/run: each call names the process that was
%% planted for it, whatever the sizes; the table whose binaries no process holds is named, and the
%% parts of the binary memory add up; a person sees all of it, and nothing is left running.
-module(demo_SUITE).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([compiles_without_warnings/1, diagnosis_names_the_planted/1, first_rows_are_the_planted/1,
         heaps_are_seen_into/1, table_is_what_no_process_holds/1, the_culprit_is_waited_for/1, shows_every_call/1,
         leaves_nothing_running/1]).

suite() ->
    [{timetrap, {minutes, 3}}].

all() ->
    [compiles_without_warnings, diagnosis_names_the_planted, first_rows_are_the_planted,
     heaps_are_seen_into, table_is_what_no_process_holds, the_culprit_is_waited_for, shows_every_call,
     leaves_nothing_running].

%% The demo ends by itself after a minute and reports that in its exit status.
init_per_suite(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "demo_answers"),
    Flags = sonde_test:pick("", "-sonde native off"),
    Port = open_port({spawn_executable, os:find_executable("sh")},
                     [{args, [filename:join([root(), "demo", "run"]), File]},
                      {env, [{"SONDE_EBIN", filename:dirname(code:which(sonde))},
                             {"ERL_AFLAGS", Flags}]},
                      exit_status, binary, stderr_to_stdout]),
    {0, Text} = output(Port, []),
    {ok, Binary} = file:read_file(File),
    {Sizes, Answers} = binary_to_term(Binary),
    sonde_test:init([{text, Text}, {sizes, Sizes}, {answers, Answers} | Config]).

end_per_suite(_Config) ->
    ok.

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

compiles_without_warnings(_Config) ->
    [_, _ | _] = Sources = filelib:wildcard(filename:join([root(), "demo", "*.erl"])),
    [] = [{Source, Result} || Source <- Sources,
                              Result <- [compile:file(Source, [strong_validation, return])],
                              Result =/= {ok, module(Source), []}].

module(Source) -> list_to_atom(filename:basename(Source, ".erl")).

%% ---- the answers

answers(Config) -> proplists:get_value(answers, Config).

sizes(Config) -> proplists:get_value(sizes, Config).

%% Whatever their sizes: the process that waits with a full mailbox, and the table that grows; on
%% the native path also the process that keeps slices. The others may be too small for a report on a
%% node of this size.
diagnosis_names_the_planted(Config) ->
    #{diagnosis := #{suspects := Suspects}} = answers(Config),
    Found = [{Kind, Remedy, proplists:get_value(registered_name, Evidence,
                                                proplists:get_value(name, Evidence))}
             || #{kind := Kind, remedy := Remedy, evidence := Evidence} <- Suspects],
    [] = [{mailbox, drop_unmatched, demo_mailbox}, {ets_table, evict, demo_cache}
          | sonde_test:pick([{pinned_slices, binary_copy, demo_slices}], [])] -- Found.

first_rows_are_the_planted(Config) ->
    #{routed := Routed, slices := Slices, unread := Unread} = sizes(Config),
    #{native := #{status := Status}, calls := Calls,
      counters := #{native := Read}} = answers(Config),
    Expected = sonde_test:pick({active, true}, {{off, disabled}, false}),
    Expected = {Status, Read > 0},
    [#{first := demo_mailbox, rows := [{_, Memory, _}, {_, Second, _} | _]} = ByMemory,
     ByQueue, ByBinary, ByLeak] = Calls,
    _ = [{Name, 5, Name} = {Name, length(Rows), first(Rows)}
         || #{first := Name, rows := Rows} <- Calls],
    {Memory, Second, true} = {Memory, Second, Memory > 1.5 * Second},
    Unread = value(ByQueue),
    %% The router may have collected by itself once; what is sliced is at least this large.
    {_, true} = {value(ByLeak), -value(ByLeak) > Routed div 2 andalso -value(ByLeak) =< Routed},
    {_, true} = {value(ByBinary), value(ByBinary) >= Slices * 96 * 1024},
    {_, true} = {value(ByMemory), value(ByMemory) >= Unread * 80 * 8}.

first([{_, _, [Name | _]} | _]) -> Name.

value(#{rows := [{_, Value, _} | _]}) -> Value.

%% No collection was needed: the router's garbage is what bin_leak drops afterwards.
heaps_are_seen_into(Config) ->
    #{inside := Inside, calls := Calls} = answers(Config),
    sonde_test:pick(fun() -> heaps([Result || {_, _, Result} <- Inside], lists:last(Calls),
                                   sizes(Config)) end,
                    fun() -> [] = Inside end).

heaps([[{_, Garbage, [demo_router | _]} | _],
       [{_, Waste, [{worst, [{80, _, 1} | _]}, demo_slices | _]}],
       [{_, Size, _, [{4, 84}]} | _],
       [#{path := [dictionary, {key, sessions} | _], retained := Retained} | _],
       {ok, #{nodes := Nodes}}], Leak, #{slices := Slices, sessions := Sessions}) ->
    Garbage = -value(Leak),
    true = Waste > Slices * 90 * 1024 andalso Size > 90 * 1024,
    true = Retained > Sessions * 40 * 8 andalso Nodes > Sessions * 10.

%% Who holds up the others comes before the one for whom most wait directly.
the_culprit_is_waited_for(Config) ->
    #{waiting := Waiting} = answers(Config),
    sonde_test:pick(fun() -> [{_, _, [{Stock, 301, First}, {Orders, 300, Second}]}] = Waiting,
                             true = lists:member(demo_stock, First),
                             true = lists:member(demo_orders, Second),
                             Stock = proplists:get_value(waits_for, Second),
                             [_, Orders, Stock] = proplists:get_value(longest_chain, First)
                    end,
                    fun() -> [] = Waiting end).

%% The node's binaries less those of all processes: at least nine tenths of the rest are the
%% table's.
table_is_what_no_process_holds(Config) ->
    #{cached := Cached, slices := Slices} = sizes(Config),
    #{binaries := Binaries} = answers(Config),
    [Node, Held | Rest] = [Result || {_, _, Result} <- Binaries],
    {Account, [[{demo_cache, InTable, [demo_cache, {owner, Owner}, {type, set}, {size, Size}]}],
               [{demo_cache, OwnMemory, _}] | Growth]} =
        lists:split(sonde_test:pick(2, 0), Rest),
    true = is_pid(Owner),
    {Binaries, true} = {Binaries, InTable > 0.9 * (Node - Held)},
    {Binaries, true} = {Binaries, InTable > 2 * OwnMemory},
    {Binaries, true} = {Binaries, Size >= Cached andalso InTable >= Cached * 400},
    sonde_test:pick(fun() -> account(Account, InTable, Slices), grown_within(Growth) end,
                    fun() -> [Then, Later] = Growth, true = Then >= Size andalso Later > Then end).

%% The table grew between the calls, by one page each 20 ms.
account([#{total := Total, ets := Ets, exclusive := Exclusive, unseen := Unseen},
         [{_, Owned, [demo_slices | _]}]], InTable, Slices) ->
    {Ets, InTable, true} = {Ets, InTable, Ets > 0.99 * InTable andalso Ets =< InTable},
    {Total, true} = {Total, abs(Unseen) < Total div 100 + 70000},
    true = Owned >= Slices * 96 * 1024 andalso Owned =< Exclusive.

%% 25 pages of 400 to 1600 bytes, or fewer on a busy machine.
grown_within([[{{ets, demo_cache}, Grown,
                [demo_cache, {owner, _}, {type, set}, {size, _}]}]]) ->
    {Grown, true} = {Grown, Grown >= 400 andalso Grown =< 100 * 1600}.

%% ---- what a person sees

shows_every_call(Config) ->
    Lines = string:split(proplists:get_value(text, Config), "\n", all),
    [] = [Line || Line <- Lines, string:length(Line) > 80],
    Shown = [binary_to_list(Line) || <<"> ", Line/binary>> <- Lines],
    [_, "sonde:diagnose().", "sonde:proc_count(memory, 5).",
     "sonde:proc_count(message_queue_len, 5).", "sonde:proc_count(binary_memory, 5)." | _] = Shown,
    true = lists:member("sonde:bin_leak(5).", Shown),
    Last = last_shown(),
    Last = lists:nthtail(length(Shown) - length(Last), Shown).

last_shown() ->
    ["maps:with([native, asked], maps:get(counters, sonde:native())).",
     "erlang:memory(binary).",
     "lists:sum([B || {_, B, _} <- sonde:proc_count(binary_memory, -1)])."]
        ++ sonde_test:pick(["sonde:print(sonde:bin_account()).", "sonde:bin_owned(1)."], [])
        ++ ["sonde:ets_count(binary_memory, 1).", "sonde:ets_count(memory, 1)."]
        ++ sonde_test:pick(["sonde:bin_window(1, 500).", "sonde:waits(2)."],
                           ["ets:info(demo_cache, size).", "ets:info(demo_cache, size)."]).

%% Neither the node with the leaks nor anything else of the run is left.
leaves_nothing_running(Config) ->
    #{os_pid := OsPid} = answers(Config),
    sonde_test:until({ends, OsPid}, fun() -> os:cmd("kill -0 " ++ OsPid ++ " 2>&1") =/= "" end).
