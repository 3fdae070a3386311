%% What `make demo' shows: a node of its own with four leaks in it, and what sonde says about it.
%%
%% The answers are data, so that a test can check them; printing is apart.
-module(sonde_demo).

-export([main/0, answers/2]).
-export_type([answers/0, answer/0]).

-type answer() :: #{look_for := string(), call := string(), first := atom(),
                    rows := [{pid(), integer(), list()}]}.
-type answers() :: #{os_pid := string(), processes := pos_integer(), native := map(),
                     counters := map(), calls := [answer()],
                     unseen := [{Call :: string(), Result :: integer()}]}.

-define(WIDTH, 78).
-define(LIMIT_MS, 55000).

%% @doc For `demo/run': shows everything, and halts.
-spec main() -> no_return().
main() ->
    {ok, _} = timer:apply_after(?LIMIT_MS, erlang, halt, [1]),
    io:format("Starting a node, and planting four leaks in it ...~n"),
    print(answers(sonde_demo_leaks:sizes(), [])),
    halt(0).

%% @doc Starts a node (an Erlang VM of its own that is not distributed and ends with this one), plants
%% the leaks, asks sonde there, stops the node. `Args' are arguments of its `erl'.
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
               processes => Call(erlang, system_info, [process_count])},
    Answers = [#{look_for => LookFor, first => First, rows => Call(sonde, Function, Args),
                 call => text("sonde", Function, Args)}
               || {LookFor, First, Function, Args} <- questions()],
    Before#{calls => Answers,
            counters => maps:get(counters, Call(sonde, native, [])),
            unseen => unseen(Call)}.

questions() ->
    [{"Who has most memory? Look for: one row far above the others (bytes).",
      demo_mailbox, proc_count, [memory, 5]},
     {"Who cannot keep up? Look for: a queue that is not near 0. It explains the first.",
      demo_mailbox, proc_count, [message_queue_len, 5]},
     {"Who keeps binaries alive? Look for: megabytes in a process that needs bytes.",
      demo_slices, proc_count, [binary_memory, 5]},
     {"Who keeps binaries only for want of a collection? Look for: large negatives.",
      demo_router, bin_leak, [5]}].

%% What the node has and no process holds is somewhere else: here in a table, one by one.
unseen(Call) ->
    Held = lists:sum([Bytes || {_, Bytes, _} <- Call(sonde, proc_count, [binary_memory, -1])]),
    Cached = lists:sum([Bytes || {_, Bytes, _} <- Call(ets, info, [demo_cache, binary])]),
    Size = Call(ets, info, [demo_cache, size]),
    Words = Call(ets, info, [demo_cache, memory]),
    Node = Call(erlang, memory, [binary]),
    timer:sleep(500),
    [{"erlang:memory(binary)", Node},
     {"lists:sum([B || {_, B, _} <- sonde:proc_count(binary_memory, -1)])", Held},
     {"lists:sum([B || {_, B, _} <- ets:info(demo_cache, binary)])", Cached},
     {"ets:info(demo_cache, memory) * erlang:system_info(wordsize)",
      Words * Call(erlang, system_info, [wordsize])},
     {"ets:info(demo_cache, size)", Size},
     {"ets:info(demo_cache, size)", Call(ets, info, [demo_cache, size])}].

text(Module, Function, Args) ->
    lists:flatten([Module, $:, atom_to_list(Function), $(,
                   lists:join(", ", [io_lib:format("~p", [Arg]) || Arg <- Args]), $)]).

%% ---- printing

print(#{processes := Processes, native := Native, calls := Calls, counters := Counters,
        unseen := Unseen}) ->
    io:format("It runs, with ~b processes: OTP ~s, ~s.~n~n",
              [Processes, maps:get(otp, Native), maps:get(arch, Native)]),
    io:format("Does sonde read the node itself, or does it have to ask each process?~n"
              "> maps:with([status, layout, reader], sonde:native()).~n~*p~n~n",
              [?WIDTH, maps:with([status, layout, reader], Native)]),
    lists:foreach(fun print_call/1, Calls),
    io:format("How many processes were read natively for this, and how many asked?~n"
              "> maps:with([native, asked], maps:get(counters, sonde:native())).~n~*p~n~n",
              [?WIDTH, maps:with([native, asked], Counters)]),
    io:format("The fourth leak is in no row above: an ETS table, whose binaries belong to no~n"
              "process. Look for: the node has far more binaries than its processes hold.~n"
              "(A table's own `memory' leaves its binaries out, too.)~n"),
    _ = [io:format("> ~s.~n~b~n", [Call, Result]) || {Call, Result} <- Unseen],
    io:format("~nHalf a second lies between the last two: it grows.~n"
              "The node is stopped. Nothing is left running.~n").

print_call(#{look_for := LookFor, call := Call, rows := Rows}) ->
    io:format("~s~n> ~s.~n~*p~n~n", [LookFor, Call, ?WIDTH, Rows]).
