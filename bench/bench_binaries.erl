%% Which processes hold a node's binary memory: sonde, what people write by hand, and a bare loop in
%% C that reads each binary's header once and remembers nothing.
-module(bench_binaries).

-export([crowd/2, crowd/3, rows/3]).
-export([hold/3]).

-define(WAVE, 1000).  % holders that build their binaries at the same time
-define(SHARED, 10).  % one in this many is shared by two
-define(PAUSE_MS, 10).

%% @doc As crowd/3; the next process also holds a tenth of the binaries.
-spec crowd(non_neg_integer(), pos_integer()) -> [pid()].
crowd(Processes, Each) ->
    crowd(Processes, Each, Each div ?SHARED).

%% @doc Starts processes with `Each' binaries of 65 to 200 bytes; the next process also holds `Shared'
%% of them.
-spec crowd(non_neg_integer(), pos_integer(), non_neg_integer()) -> [pid()].
crowd(0, _, _) ->
    [];
crowd(Processes, Each, Shared) ->
    Now = min(Processes, ?WAVE),
    [First | Rest] = Pids = [spawn(?MODULE, hold, [self(), Each, Shared])
                             || _ <- lists:seq(1, Now)],
    _ = [Pid ! {next, Next} || {Pid, Next} <- lists:zip(Pids, Rest ++ [First])],
    _ = [receive {Pid, ready} -> ok end || Pid <- Pids],
    Pids ++ crowd(Processes - Now, Each, Shared).

hold(Owner, Each, Shared) ->
    Next = receive {next, Pid} -> Pid end,
    Mine = [binary:copy(<<0>>, 64 + rand:uniform(136)) || _ <- lists:seq(1, Each)],
    Next ! {shared, lists:sublist(Mine, Shared)},
    Others = receive {shared, Some} -> Some end,
    true = garbage_collect(),
    Owner ! {self(), ready},
    receive stop -> {Mine, Others} end.

%% @doc Emits the rows beside such a crowd, from so many runs of each call.
-spec rows([pid()], pos_integer(), fun((map()) -> term())) -> ok.
rows(Crowd, Runs, Emit) ->
    ok = bench_bare:start(),
    Account = fun() -> #{processes_missed := 0} = sonde:bin_account() end,
    %% ours first: the other leaves free memory behind in the node
    #{allocated := Ours} = bench_clock:peak(Account),
    #{allocated := Theirs} = bench_clock:peak(fun by_hand/0),
    {_, Bytes} = bench_bare:gather(Crowd),
    {Bytes, _} = bench_bare:touch(),
    _ = same(by_hand(), sonde:bin_account()),
    Times = bench_clock:alternate(
              Runs, ?PAUSE_MS,
              #{account => Account, hand => fun by_hand/0, touch => fun bench_bare:touch/0,
                proportional => fun() -> sonde:proc_count(binary_proportional, 10) end,
                holders => fun() -> sonde:bin_holders(10) end}),
    Row = fun(Kind, Call, Other, Sonde, Targets) ->
                  Emit((bench_clock:against(Other, Sonde, Times))
                       #{kind => Kind, call => Call, targets => Targets})
          end,
    Row(speed, "bin_account() and process_info(_, binary) with a map", hand, account,
        [{faster, 20}]),
    Emit(#{kind => peak, call => "peak memory added, by the node's figures",
           targets => [{under, Theirs div 10}], other => Theirs, sonde => Ours}),
    Row(beside, "bin_account() and touching each header once, in C", touch, account, []),
    Row(beside, "proc_count(binary_proportional, 10) and bin_account()", account, proportional,
        [{at_most, 1.3}]),
    Row(beside, "bin_holders(10) and bin_account()", account, holders, [{at_most, 1.3}]),
    lists:foreach(fun(Call) -> alone(Call, Runs, Emit) end, calls()).

%% The cost of a call that nothing is compared with.
alone({Name, Text, Call}, Runs, Emit) ->
    #{sonde := Times} = bench_clock:alternate(Runs, ?PAUSE_MS, #{sonde => Call}),
    Emit(#{kind => alone, call => Name ++ "(" ++ Text ++ ")", sonde => bench_clock:median(Times),
           targets => []}).

calls() ->
    [#{id := Id}] = sonde:bin_holders(1),
    Few = #{max_entries => 200000},
    [{"bin_account", "#{max_entries => 200000}", fun() -> sonde:bin_account(Few) end},
     {"bin_owned", "10", fun() -> sonde:bin_owned(10) end},
     {"proc_count", "binary_unique, 10", fun() -> sonde:proc_count(binary_unique, 10) end},
     {"bin_holders", "10, count", fun() -> sonde:bin_holders(10, count) end},
     {"bin_holder", "Id", fun() -> sonde:bin_holder(Id) end},
     {"bin_resources", "10", fun() -> sonde:bin_resources(10) end},
     {"bin_window", "10, 0", fun() -> sonde:bin_window(10, 0) end}].

%% Erlang code cannot find binaries in queues and tables; there are next to none here.
same(ByHand, #{exclusive := Exclusive, shared := Shared, elsewhere := Elsewhere} = Account) ->
    true = lists:all(fun({A, B}) -> abs(A - B) =< (Exclusive + Shared) div 100 end,
                     lists:zip(tuple_to_list(ByHand), [Exclusive, Shared, Elsewhere])),
    Account.

%% The exclusive bytes, the shared ones, and those with references from outside of processes, as far
%% as Erlang code can find them.
by_hand() ->
    Binaries = lists:foldl(fun of_process/2, #{}, processes()),
    maps:fold(fun(_, {Size, Refc, References, _}, {E, S, Other}) when Refc > References ->
                      {E, S, Other + Size};
                 (_, {Size, _, _, several}, {E, S, Other}) -> {E, S + Size, Other};
                 (_, {Size, _, _, _}, {E, S, Other}) -> {E + Size, S, Other}
              end, {0, 0, 0}, Binaries).

of_process(Pid, Known) ->
    case process_info(Pid, binary) of
        {binary, Binaries} -> lists:foldl(fun(B, Acc) -> add(Pid, B, Acc) end, Known, Binaries);
        undefined -> Known
    end.

add(Pid, {Id, Size, Refc}, Known) ->
    case Known of
        #{Id := {_, _, N, Pid}} -> Known#{Id := {Size, Refc, N + 1, Pid}};
        #{Id := {_, _, N, _}} -> Known#{Id := {Size, Refc, N + 1, several}};
        #{} -> Known#{Id => {Size, Refc, 1, Pid}}
    end.
