%% What `make demo' shows: a node of its own with five leaks in it, and what sonde reports about it.
%%
%% The answers are data, so that a test can check them; printing is separate.
-module(sonde_demo).

-export([main/0, main/1, answers/2]).
-export_type([answers/0, answer/0]).

-type answer() :: #{look_for := string(), call := string(), first := atom(),
                    rows := [{pid(), integer(), list()}]}.
-type answers() :: #{os_pid := string(), processes := pos_integer(), native := map(),
                     diagnosis := map(),
                     counters := map(), calls := [answer()],
                     inside := [{LookFor :: string(), Call :: string(), Result :: term()}],
                     binaries := [{LookFor :: string(), Call :: string(), Result :: term()}],
                     waiting := [{LookFor :: string(), Call :: string(), Result :: term()}]}.

-define(WIDTH, 78).
-define(LIMIT_MS, 55000).
-define(DUMP, "_build/demo_sessions.heapsnapshot").

%% @doc For `demo/run': shows everything, and halts.
-spec main() -> no_return().
main() -> main([]).

%% @doc Also writes `{sonde_demo_leaks:sizes(), answers()}' to the file, if one is named.
-spec main([File :: file:name()]) -> no_return().
main(Files) ->
    {ok, _} = timer:apply_after(?LIMIT_MS, erlang, halt, [1]),
    io:format("Starting a node, and planting five leaks in it ...~n"),
    Sizes = sonde_demo_leaks:sizes(),
    Answers = answers(Sizes, []),
    print(Answers),
    _ = [ok = file:write_file(File, term_to_binary({Sizes, Answers})) || File <- Files],
    halt(0).

%% @doc Starts a node (an Erlang VM of its own that is not distributed and ends with this one),
%% plants the leaks, calls sonde there, and stops the node. `Args' are arguments of its `erl'.
-spec answers(sonde_demo_leaks:sizes(), Args :: [string()]) -> answers().
answers(Sizes, Args) ->
    Paths = lists:append([["-pa", filename:dirname(code:which(Module))]
                          || Module <- [sonde, sonde_demo_leaks]]),
    {ok, Peer, _Node} = peer:start_link(#{connection => standard_io, args => Paths ++ Args,
                                          wait_boot => 30000}),
    Call = fun(Module, Function, Arguments) ->
                   peer:call(Peer, Module, Function, Arguments, 30000)
           end,
    try
        ok = Call(application, load, [sonde]),
        ok = Call(sonde_demo_leaks, plant, [Sizes]),
        ask(Call)
    after
        peer:stop(Peer)
    end.

ask(Call) ->
    Before = #{os_pid => Call(os, getpid, []),
               native => Call(sonde, native, []),
               processes => Call(erlang, system_info, [process_count]),
               diagnosis => Call(sonde, diagnosis, [])},
    %% before a collection changes the heaps
    Inside = inside(Call, Before),
    Answers = [#{look_for => LookFor, first => First, rows => Call(sonde, Function, Args),
                 call => text("sonde", Function, Args)}
               || {LookFor, First, Function, Args} <- questions()],
    Before#{calls => Answers,
            inside => Inside,
            counters => maps:get(counters, Call(sonde, native, [])),
            binaries => begin ok = settled(Call), binaries(Call, Before) end,
            waiting => waiting(Call, Before)}.

questions() ->
    [{"Which processes use most memory? Look for: a row far above the others (bytes).",
      demo_mailbox, proc_count, [memory, 5]},
     {"Which process cannot keep up? Look for: a queue that is not near 0.",
      demo_mailbox, proc_count, [message_queue_len, 5]},
     {"Which process holds binaries? Look for: megabytes where bytes are needed.",
      demo_slices, proc_count, [binary_memory, 5]},
     {"Which hold binaries only until they collect? Look for: large negative numbers.",
      demo_router, bin_leak, [5]}].

%% Inside heaps, without copying or collecting one; only on the native path.
inside(Call, #{native := #{status := active}}) ->
    Pid = fun(Name) -> Call(erlang, whereis, [Name]) end,
    Sessions = Pid(demo_sessions),
    [{"Which processes would release binaries in a collection? None collects here.",
      "sonde:bin_garbage(2)", Call(sonde, bin_garbage, [2])},
     {"Which process holds large binaries by small slices? Remedy: binary:copy/1.",
      "sonde:bin_waste(1)", Call(sonde, bin_waste, [1])},
     {"Which bytes of which binary does each slice hold? [{Id, Size, Refc, Parts}]",
      "lists:sublist(sonde:bin_slices(whereis(demo_slices)), 3)",
      lists:sublist(Call(sonde, bin_slices, [Pid(demo_slices)]), 3)},
     {"What is the largest term in the process that grows, and where is it?",
      "sonde:heap_top(whereis(demo_sessions), 2)", Call(sonde, heap_top, [Sessions, 2])},
     {"All of it, for Chrome: DevTools, Memory, Load.",
      "sonde_heap:dump(whereis(demo_sessions), \"" ?DUMP "\")",
      dump(Call, Sessions)}];
inside(_Call, _) ->
    [].

dump(Call, Pid) ->
    ok = filelib:ensure_dir(?DUMP),
    _ = file:delete(?DUMP),
    Call(sonde_heap, dump, [Pid, ?DUMP]).

%% What a collection frees of the memory of another scheduler still counts until that one runs and takes it back: on a
%% busy machine up to 300 ms later. Waits until it has not fallen for half a second, at most ten seconds.
settled(Call) -> settled(Call, Call(erlang, memory, [binary]), 5, 100).

settled(_, _, Quiet, Left) when Quiet =:= 0; Left =:= 0 -> ok;
settled(Call, Before, Quiet, Left) ->
    timer:sleep(100),
    Now = Call(erlang, memory, [binary]),
    settled(Call, Now, case Before - Now > 100000 of true -> 5; false -> Quiet - 1 end, Left - 1).

%% Binary memory that no process holds is somewhere else: here in a table, which the calls name.
binaries(Call, Before) ->
    Held = lists:sum([Bytes || {_, Bytes, _} <- Call(sonde, proc_count, [binary_memory, -1])]),
    [{"How much has the node, and how much of it do its processes refer to?",
      "erlang:memory(binary)", Call(erlang, memory, [binary])},
     {"", "lists:sum([B || {_, B, _} <- sonde:proc_count(binary_memory, -1)])", Held}]
        ++ account(Call, Before)
        ++ [{"The table's leak is in no row of a process. The table's own `memory' leaves\n"
             "the binaries out.",
             "sonde:ets_count(binary_memory, 1)", Call(sonde, ets_count, [binary_memory, 1])},
            {"", "sonde:ets_count(memory, 1)", Call(sonde, ets_count, [memory, 1])}]
        ++ growth(Call, Before).

%% Which processes wait for which, in a shop whose stock keeper waits for a terminal.
waiting(Call, #{native := #{status := active}}) ->
    ok = Call(sonde_demo_leaks, hold_up, [300]),
    [{"Callers time out. Which process do they wait for, and what does that one wait\n"
      "for? The culprit comes first, though only one process waits for it directly.",
      "sonde:waits(2)", Call(sonde, waits, [2])}];
waiting(_Call, _) ->
    [].

account(Call, #{native := #{status := active}}) ->
    [{"Where is every byte of it? Look for: the largest part. Where to look next:\n"
      "`exclusive' by sonde:bin_owned, `ets' by sonde:ets_count, `queues' by\n"
      "sonde:proc_count(binary_unique, _), `shared' by sonde:bin_holders(_, count).",
      "sonde:bin_account()", Call(sonde, bin_account, [])},
     {"What would one process free? Look for: bytes that no other process holds.",
      "sonde:bin_owned(1)", Call(sonde, bin_owned, [1])}];
account(_Call, _) ->
    [].

growth(Call, #{native := #{status := active}}) ->
    [{"Where do binaries grow, within half a second?",
      "sonde:bin_window(1, 500)", Call(sonde, bin_window, [1, 500])}];
growth(Call, _) ->
    First = Call(ets, info, [demo_cache, size]),
    timer:sleep(500),
    [{"It grows: these are half a second apart.", "ets:info(demo_cache, size)", First},
     {"", "ets:info(demo_cache, size)", Call(ets, info, [demo_cache, size])}].

text(Module, Function, Args) ->
    lists:flatten([Module, $:, atom_to_list(Function), $(,
                   lists:join(", ", [io_lib:format("~p", [Arg]) || Arg <- Args]), $)]).

%% ---- printing

print(#{processes := Processes, native := Native, diagnosis := Diagnosis, calls := Calls,
        counters := Counters, inside := Inside, binaries := Binaries, waiting := Waiting}) ->
    io:format("It runs, with ~b processes: OTP ~s, ~s.~n~n",
              [Processes, maps:get(otp, Native), maps:get(arch, Native)]),
    io:format("Does sonde read natively, or does it ask each process?~n"
              "> maps:with([status, layout, reader], sonde:native()).~n~*p~n~n",
              [?WIDTH, maps:with([status, layout, reader], Native)]),
    io:format("---- What is wrong, and what can be done? ----~n~n> sonde:diagnose().~n~ts~n",
              [sonde_diagnose:format(Diagnosis, #{width => ?WIDTH})]),
    io:format("---- The same by hand ----~n~n"),
    _ = [print_call(Answer) || #{call := "sonde:proc_count" ++ _} = Answer <- Calls],
    io:format("---- Inside heaps ----~n~n"),
    lists:foreach(fun print_inside/1, Inside),
    _ = [io:format("(Not on this node: the native path is off.)~n~n") || Inside =:= []],
    _ = [print_call(Answer) || #{call := "sonde:bin_leak" ++ _} = Answer <- Calls],
    io:format("How many processes did sonde read natively so far, and how many did it ask?~n"
              "> maps:with([native, asked], maps:get(counters, sonde:native())).~n~*p~n~n",
              [?WIDTH, maps:with([native, asked], Counters)]),
    io:format("---- Where is the binary memory? ----~n~n"),
    lists:foreach(fun print_inside/1, Binaries),
    _ = [io:format("---- Which processes wait for which? ----~n~n") || Waiting =/= []],
    lists:foreach(fun print_inside/1, Waiting),
    io:format("The node is stopped. Nothing is left running.~n").

print_inside({LookFor, Call, Result}) ->
    _ = [io:format("~s~n", [LookFor]) || LookFor =/= ""],
    case lists:member(hd(string:lexemes(Call, "(")), ["sonde:heap_top", "sonde:bin_account"]) of
        true ->
            io:format("> sonde:print(~s).~n", [Call]),
            ok = sonde:print(Result, #{width => ?WIDTH, color => never}),
            io:format("~n");
        false ->
            io:format("> ~s.~n~*p~n~n", [Call, ?WIDTH, Result])
    end.

print_call(#{look_for := LookFor, call := Call, rows := Rows}) ->
    io:format("~s~n> ~s.~n~*p~n~n", [LookFor, Call, ?WIDTH, Rows]).
