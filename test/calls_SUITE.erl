%% sonde answers its callers as recon does: each of recon's calls runs beside ours, on this node and
%% between nodes. Then what sonde promises beyond recon.
-module(calls_SUITE).

-import(sonde_test, [queue/1, raised/1, until/2]).

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([answers_as_recon/1, other_nodes_as_recon/1, every_call_answers/1,
         allocators_may_be_off/1, what_is_known_without_an_allocator/1, sizes_of_terms/1, info_is_one_look/1, info_takes_our_attributes/1,
         info_of_the_dead_is_undefined/1,
         info_of_a_huge_mailbox/1, port_that_closes_is_undefined/1,
         stats_are_those_of_the_node/1, stats_go_on_until_something_fails/1,
         wall_time_is_measured_only_meanwhile/1, wall_time_of_others_goes_on/1,
         error_logger_queue_only_if_there_is_one/1, every_scheduler_has_a_usage/1,
         window_bad_input_at_once/1, source_without_syntax_tools/1,
         fun_travels_to_a_node_without_sonde/1, bad_module_does_not_end_the_node/1,
         no_message_reaches_the_caller/1]).
-export([more_binaries/0, more_tables/0, recon_raises/0]).
-export([beside/1, without_syntax_tools/0, raised_remote_load/1]).

suite() -> [{timetrap, {minutes, 3}}].

all() ->
    [answers_as_recon, other_nodes_as_recon, every_call_answers,
     allocators_may_be_off, what_is_known_without_an_allocator, sizes_of_terms,
     info_is_one_look, info_takes_our_attributes, info_of_the_dead_is_undefined,
     info_of_a_huge_mailbox, port_that_closes_is_undefined,
     stats_are_those_of_the_node, stats_go_on_until_something_fails,
     wall_time_is_measured_only_meanwhile, wall_time_of_others_goes_on,
     error_logger_queue_only_if_there_is_one, every_scheduler_has_a_usage,
     window_bad_input_at_once, source_without_syntax_tools,
     fun_travels_to_a_node_without_sonde, bad_module_does_not_end_the_node,
     no_message_reaches_the_caller].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% ---- compared with recon

answers_as_recon(Config) ->
    Friend = sonde_test:hold(fun() -> ok end),
    Still = sonde_test:hold(fun() -> put(key, value), link(Friend), queue(3) end),
    Named = sonde_test:hold(fun() -> register(calls_suite_named, self()) end),
    yes = global:register_name(calls_suite_global, Still),
    Dead = dead(),
    {#{tcp := Listen} = Ports, Close} = sonde_test:sockets(),
    true = register(calls_suite_port, Listen),
    Result = sonde_conform:cases(recon, processes(Still, Named, Dead) ++ rows([Still, Named])
                                            ++ ports(Ports#{named => Listen}) ++ node_cases()
                                            ++ code(Config) ++ rpcs()),
    ok = Close(),
    global:unregister_name(calls_suite_global),
    sonde_test:stop([Still, Named, Friend]),
    Result.

%% {Function, [Args]}: both answers are the same term.
calls(F, ArgLists) ->
    [{F, list_to_atom(lists:concat([F, "_", I])), fun(M) -> apply(M, F, Args) end}
     || {I, Args} <- lists:zip(lists:seq(1, length(ArgLists)), ArgLists)].

%% Both answers have the same shape: numbers and pids are compared by type only.
shapes(F, Name, Args) ->
    [{F, Name, fun(M) -> sonde_conform:shape(apply(M, F, Args)) end}].

processes(Still, Named, Dead) ->
    Text = pid_to_list(Still),
    [A, B, C] = [list_to_integer(I) || I <- string:lexemes(Text, "<.>")],
    Terms = [Still, Named, Dead, calls_suite_named, nobody, undefined, Text, list_to_binary(Text),
             {A, B, C}, {global, calls_suite_global}, {global, nobody}, {via, no_such, x},
             {via, global, calls_suite_global}, {via, "x", y}, {9, 9, 9}, {a, b, c}, {1, 2},
             "<0.x>", "foo", [], <<"foo">>, 5, 1.0, hd(erlang:ports()), remote_pid()],
    Keys = [memory, message_queue_len, status, registered_name, links, dictionary, binary, messages,
            foo, undefined, [], [memory], [memory, status, memory], [registered_name],
            [binary_memory, memory, binary_memory], [binary], [meta], [foo], "memory", 1,
            {dictionary, key}, [{dictionary, key}], [1], [memory | status], <<"memory">>]
        ++ [meta, signals, location, memory_used],
    calls(info, [[Term] || Term <- Terms -- [Still, Named, calls_suite_named]])
        ++ calls(info, [[Term, memory] || Term <- Terms])
        ++ calls(info, [[Pid, Key] || Pid <- [Still, Named], Key <- [binary_memory | Keys]])
        ++ calls(info, [[nobody, Key] || Key <- [binary_memory | Keys]])
        ++ calls(info, [[Dead, Key] || Key <- Keys -- [[binary_memory, memory, binary_memory]]])
        ++ [{info, Name, fun(M) -> [{Cat, [I || {K, _} = I <- Is, K =/= reductions]}
                                    || {Cat, Is} <- M:info(Term)] end}
            || {Name, Term} <- [{whole, Still}, {whole_named, calls_suite_named}, {by_text, Text}]]
        ++ [{info, dead_binary_memory, fun(M) -> M:info(Dead, binary_memory) end},
            {info, dead_list_binary_memory, fun(M) -> M:info(Dead, [binary_memory, memory]) end}]
        ++ shapes(info, work, [Still, work]) ++ shapes(info, self, [init])
        ++ calls(info, [[A, B, C, memory], [A, B, C, [status]], [A, B, C, meta], [a, B, C, memory],
                        [9, 9, 9, memory], [a, B, C], [0, -1, 0], [9, 9, 9]])
        ++ calls(get_state, [[kernel_safe_sup], [whereis(kernel_safe_sup), infinity], [nobody],
                             [nobody, 10], [Dead], [init, 10], [5, foo], ["<0.x>", 1]]).

rows(Pids) ->
    Planted = fun(Rows) -> [Row || {Pid, _, _} = Row <- Rows, lists:member(Pid, Pids)] end,
    [{proc_count, message_queue_len, fun(M) -> Planted(M:proc_count(message_queue_len, -1)) end},
     {proc_count, status, fun(M) -> Planted(M:proc_count(status, 100000)) end},
     {proc_count, none, fun(M) -> M:proc_count(memory, 0) end},
     {proc_count, unknown, fun(M) -> M:proc_count(foo, 1) end},
     {proc_count, no_number, fun(M) -> M:proc_count(memory, foo) end},
     {proc_window, message_queue_len,
      fun(M) -> Planted(M:proc_window(message_queue_len, -1, 1)) end},
     {proc_window, no_numbers, fun(M) -> M:proc_window(status, 1, 1) end},
     {proc_window, no_time, fun(M) -> M:proc_window(memory, 1, -1) end},
     {bin_leak, none, fun(M) -> M:bin_leak(0) end},
     {bin_leak, no_number, fun(M) -> M:bin_leak(foo) end},
     {bin_leak, planted,
      fun(M) ->
              Pid = sonde_test:hold(fun garbage/0, [{min_heap_size, 100000}]),
              [{Pid, Change, As}] = sonde_test:rows_of([Pid], M:bin_leak(-1)),
              sonde_test:stop(Pid),
              {Change, As}
      end},
     {bin_leak, caller_is_in, fun(M) -> lists:keymember(self(), 1, M:bin_leak(-1)) end}].

ports(#{tcp := Listen, sent := Connected, udp := Udp, named := Named} = Ports) ->
    Closed = list_to_port("#Port<0.99999>"),
    Number = list_to_integer(hd(string:lexemes(lists:nthtail(8, erlang:port_to_list(Connected)),
                                               ">"))),
    Terms = maps:values(Ports)
        ++ [Closed, calls_suite_port, nobody, init, self(), Number, 99999,
            erlang:port_to_list(Connected), "#Port<0.x>", "#Port<9.1>", "foo", <<"#Port<0.1>">>,
            1.0, []],
    Keys = [meta, signals, io, memory_used, type, specific, registered_name, name, id, connected,
            input, output, queue_size, os_pid, locking, monitored_by, statistics, foo, undefined, 1,
            "name", {a, b}, [], [name, id, name], [registered_name, name], [meta], [type], [foo],
            [1], [name | io]],
    calls(port_info, [[Term] || Term <- Terms])
        ++ calls(port_info, [[Term, name] || Term <- Terms])
        ++ calls(port_info, [[Port, Key] || Port <- [Connected, Named, Udp, Closed, nobody],
                                            Key <- Keys])
        ++ [{port_info, negative, fun(M) -> M:port_info(-1) end},
            {port_info, unclosed, fun(M) -> M:port_info("#Port<0.99999", name) end}]
        ++ lists:append([calls(F, [[]]) || F <- [tcp, udp, sctp, files, port_types]])
        ++ calls(inet_count, [[Attr, N] || Attr <- [cnt, oct, recv_oct, send_pend, foo, "oct",
                                                    [send_oct]],
                                           N <- [0, 1, 2, 100, -1, 1.0]])
        ++ calls(inet_count, [[oct, foo], [foo, foo]])
        ++ calls(inet_window, [[Attr, N, 1] || Attr <- [oct, send_cnt, foo, "oct"],
                                               N <- [0, 1, 100, -1, 2.5]])
        ++ calls(inet_window, [[oct, 1, -1], [oct, 1, foo], [oct, foo, 1], [oct, foo, foo],
                               ["oct", foo, foo], [foo, 1, -1]])
        ++ [{inet_window, growth, fun(M) -> growth(M, Listen) end},
            {inet_window, no_rows_and_no_number, fun(M) -> M:inet_window(foo, foo, 1) end}].

%% Opens a connection of its own, which sends 7 octets in the window.
growth(M, Listen) ->
    {ok, Port} = inet:port(Listen),
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary]),
    ok = gen_tcp:send(Socket, <<"before">>),
    Rows = sonde_test:in_window(fun() -> M:inet_window(send_oct, -1, 500) end,
                                fun() -> ok = gen_tcp:send(Socket, <<"seconds">>) end),
    [{_, Grown, Values}] = [R || {S, _, _} = R <- Rows, S =:= Socket],
    ok = gen_tcp:close(Socket),
    {Grown, Values}.

node_cases() ->
    Count = fun(_, N) -> N + 1 end,
    shapes(node_stats_list, two, [2, 1]) ++ shapes(node_stats_list, one, [1, 0])
        ++ calls(node_stats_list, [[0, 1], [a, 1], [1, -1], [1, foo], [0, foo]])
        ++ calls(node_stats, [[0, 1, Count, 0], [3, 1, Count, 0], [0, foo, bar, acc],
                              [1, -1, Count, 0], [1, 1, foo, 0], [a, 1, Count, 0],
                              [1, 1, fun(_, _) -> throw(stop) end, 0]])
        ++ [{node_stats, bad_arity,
             fun(M) -> try M:node_stats(1, 1, fun(_) -> ok end, 0)
                       catch error:{badarity, {_, [_, 0]}} -> badarity end end},
            {node_stats, oldest_first,
             fun(M) -> Stats = M:node_stats_list(3, 5),
                       Counts = [proplists:get_value(process_count, A) || {A, _} <- Stats],
                       {length(Stats), [is_integer(C) || C <- Counts]} end},
            {node_stats, measured_after_exception,
             fun(M) -> ok = until(not_measured, fun() -> not is_measured() end),
                       stop = try M:node_stats(1, 1, fun(_, _) -> throw(stop) end, 0)
                              catch Thrown -> Thrown end,
                       is_measured() end},
            {node_stats_print, two,
             fun(M) -> printed(M, fun() -> M:node_stats_print(2, 1) end) end}]
        ++ calls(node_stats_print, [[0, 1], [0, foo], [1, foo]])
        ++ shapes(scheduler_usage, ids, [1])
        ++ [{scheduler_usage, ids_in_order, fun(M) -> [Id || {Id, _} <- M:scheduler_usage(1)] end}]
        ++ calls(scheduler_usage, [[-1], [1.0], [infinity], [foo], [undefined]]).

is_measured() ->
    erlang:statistics(scheduler_wall_time) =/= undefined.

%% Without numbers, and without white space: line breaks depend on how long the numbers are.
printed(M, Fun) ->
    {returned, Result, Text} = sonde_conform:outcome(M, fun(_) -> Fun() end),
    NoSpace = re:replace(Text, "\\s", "", [global, {return, list}]),
    {Result, re:replace(NoSpace, "[0-9]+(\\.[0-9]+(e-?[0-9]+)?)?", "N", [global, {return, list}])}.

code(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    {ok, Bare, Object} = compile:forms(forms(calls_suite_bare), []),
    ok = file:write_file(filename:join(Dir, "calls_suite_bare.beam"), Object),
    true = code:add_pathz(Dir),
    calls(source, [[lists], [Bare], [no_such_module], [erlang], ["lists"], [5], [sonde_opts]])
        ++ calls(remote_load, [[sonde_epmd], [[]], [[sonde_epmd]], [[], sonde_epmd], [node(), []],
                               [node(), no_such_module], ['a@b', sonde_epmd], [node(), sonde_epmd],
                               [[node(), 'a@b'], [sonde_epmd, sonde_epmd]],
                               [[node()], [sonde_epmd, no_such_module]], ["x", sonde_epmd],
                               [5, sonde_epmd]]).

forms(Module) ->
    [{attribute, 1, module, Module}, {attribute, 2, export, [{f, 0}]},
     {function, 3, f, 0, [{clause, 3, [], [], [{atom, 3, ok}]}]}].

rpcs() ->
    Node = fun() -> node() end,
    Slow = fun() -> timer:sleep(1000) end,
    lists:append(
      [[{F, Name, fun(M) -> without_stacks(apply(M, F, Args)) end}
        || {Name, Args} <- [{returns, [Node]}, {errors, [fun() -> error(why) end]},
                            {exits, [fun() -> exit(why) end]}, {throws, [fun() -> throw(it) end]},
                            {is_killed, [fun() -> exit(self(), kill), timer:sleep(1000) end]},
                            {is_killed_there,
                             [node(), fun() -> exit(self(), kill), Slow() end, 5000]},
                            {undefined, [fun no_such_module:f/0]}, {external, [fun erlang:node/0]},
                            {one_node, [node(), Node]}, {nodes, [[node(), node()], Node]},
                            {down, [['a@b', node()], Node]}, {no_node, [[], Node]},
                            {number, [5, Node]}, {string, ["x", Node]}, {fun_first, [Node, 100]},
                            {arity, [fun(_) -> ok end]}, {no_fun, [node(), foo]},
                            {mfa, [{erlang, node, []}]}, {in_time, [node(), Node, 10000]},
                            {not_in_time, [node(), Slow, 20]}, {no_time, [node(), Slow, 0]},
                            {for_ever, [[node()], Node, infinity]}, {negative, [node(), Node, -1]},
                            {bad_time, [node(), Node, foo]}, {bad_nodes, [[node() | x], Node]}]]
       || F <- [rpc, named_rpc]]).

without_stacks({Results, Bad}) ->
    {[case Result of
          {badrpc, {'EXIT', {Why, Stack}}} when is_list(Stack) -> {badrpc, {'EXIT', {Why, stack}}};
          _ -> Result
      end || Result <- Results], Bad}.

%% ---- compared with recon, on a node that knows others

other_nodes_as_recon(_Config) ->
    case sonde_test:recon() of
        ok -> with_home_and_bare(fun compare_on/2);
        Skip -> Skip
    end.

compare_on(Home, Node) ->
    [] = [Differs || {_, Theirs, Ours} = Differs <- sonde_peer_helper:call(Home, ?MODULE, beside,
                                                                           [Node]),
                     Theirs =/= Ours],
    ok.

%% Runs on the node that calls.
beside(Node) ->
    ok = sonde_test:recon(),
    Down = 'p1@127.0.0.1',
    There = fun() -> node() end,
    Cases =
        [{{F, Args}, fun(M) -> without_stacks(apply(M, F, Args)) end}
         || F <- [rpc, named_rpc],
            Args <- [[There], [Node, There], [[Node, node(), Node], There], [[Down, Node], There],
                     [[Node, Down], fun() -> error(why) end], [Node, fun() -> exit(why) end],
                     [[Node, node()], fun() -> throw(it) end],
                     [[Node, node()], fun() -> node() =:= Node andalso timer:sleep(2000) end, 300],
                     [Node, There, 5000], [fun no_such_module:f/0]]]
        ++ [{{remote_load, Args}, fun(M) -> apply(M, remote_load, Args) end}
            || Args <- [[sonde_epmd], [[sonde_epmd, sonde_test]], [Node, sonde_epmd],
                        [[Node, Down], sonde_epmd], [[Node], [sonde_epmd, no_such_module]],
                        [Node, no_such_module], [[Node, "x"], sonde_epmd]]],
    [{What, sonde_conform:outcome(recon, Case), sonde_conform:outcome(sonde, Case)}
     || {What, Case} <- Cases].

%% Fun(Home, Node): Home has sonde; Node is connected to Home and has only recon.
with_home_and_bare(Fun) ->
    sonde_peer_helper:with_nodes([shipped, bare], fun([{Home, _}, {Bare, Node}]) ->
        _ = sonde_peer_helper:call(Bare, sonde_test, recon, []),
        true = sonde_peer_helper:call(Home, net_kernel, connect_node, [Node]),
        Fun(Home, Node)
    end).

%% ---- without recon

%% Each export answers a call with sensible arguments; without the native path it answers as the
%% table in doc/how-it-works.md has it. Other suites check what the calls answer, and `top'.
every_call_answers(_Config) ->
    {#{tcp := Port}, Close} = sonde_test:sockets(),
    Pid = sonde_test:hold(fun() -> put(key, lists:seq(1, 100)), queue(3) end),
    Calls = sonde_test:pick(calls(Pid, Port, on), calls(Pid, Port, off)),
    [] = (sonde:module_info(exports) -- [{F, length(Args)} || {_, Fs} <- Calls, {F, Args} <- Fs])
        -- [{top, 0}, {top, 1}, {module_info, 0}, {module_info, 1}],
    _ = sonde_test:pick(fun() -> [] = surprises(native, Calls) end, ok),
    Was = sonde_test:pick(on, off),
    _ = sonde:native(off),
    try
        [] = surprises(off, [{Without, Fs} || {Without, Fs} <- calls(Pid, Port, off),
                                              Without =/= once])
    after
        _ = sonde:native(Was),
        _ = [file:delete(report(N)) || N <- [1, 2]]
    end,
    sonde_test:stop(Pid),
    Close().

%% A file of this node only.
report(Arity) ->
    Name = lists:concat(["calls_suite_", os:getpid(), "_", Arity, ".html"]),
    filename:join(os:getenv("TMPDIR", "/tmp"), Name).

%% On such nodes erlang:memory/1 raises notsup for every kind.
allocators_may_be_off(_Config) ->
    _ = [sonde_peer_helper:with(shipped, Args, fun(Peer) ->
             sonde_peer_helper:call(Peer, ?MODULE, every_call_answers, [[]])
         end) || Args <- [["+Mea", "min"], ["+MHe", "false"], ["+MBe", "false"],
                          ["+Muatags", "true"]]],
    ok.

what_is_known_without_an_allocator(_Config) ->
    Kinds = [atom, atom_used, binary, code, ets],
    _ = sonde_memory:known(),
    ok = until(the_same, fun() -> erlang:memory(Kinds) =:= sonde_memory:known() end),
    ok = knows(["+MHe", "false"], [eheap_alloc], [binary, ets]),
    ok = knows(["+MBe", "false"], [binary_alloc], [ets]),
    ok = knows(["+Mea", "min"], all, []).

knows(Args, Off, Known) ->
    sonde_peer_helper:with(shipped, Args, fun(Peer) ->
        Call = fun(M, F, As) -> sonde_peer_helper:call(Peer, M, F, As) end,
        #{memory := Memory, growth := #{memory := Grown}, not_looked_at := Not} = Diagnosis =
            Call(sonde, diagnosis, [#{interval => 100}]),
        [] = [K || K <- [total, processes], map_get(K, Memory) =/= undefined],
        [] = [K || K <- [atom, code | Known], not is_integer(map_get(K, Memory))],
        [] = [K || K <- [atom, code | Known], not is_integer(map_get(K, Grown))],
        {memory, {allocators_off, Those}} = lists:keyfind(memory, 1, Not),
        true = Off =:= all andalso length(Those) > 5 orelse Those =:= Off,
        Text = unicode:characters_to_list(sonde_diagnose:format(Diagnosis)),
        [] = [A || A <- Those, string:find(Text, atom_to_list(A)) =:= nomatch, Off =/= all],
        ok = accounts(Call, lists:member(binary, Known)),
        ok = grows(Call, memory_bin, more_binaries, lists:member(binary, Known)),
        ok = grows(Call, memory_ets, more_tables, lists:member(ets, Known)),
        Metrics = iolist_to_binary(Call(sonde_prometheus, format, [])),
        [] = [K || K <- [atom, code | Known],
                   re:run(Metrics, ["kind=\"", atom_to_list(K), "\"} [1-9]"], [{capture, none}])
                       =/= match],
        recon_raises(Call(sonde_test, recon, []), Call)
    end).

accounts(Call, IsKnown) ->
    _ = sonde_test:pick(fun() ->
        #{total := Total, unseen := Unseen, exclusive := _} = Call(sonde, bin_account, []),
        {IsKnown, IsKnown} = {is_integer(Total), is_integer(Unseen)}
    end, ok),
    ok.

grows(Call, Key, More, true) ->
    Before = absolute(Call, Key),
    _ = Call(?MODULE, More, []),
    Grown = absolute(Call, Key) - Before,
    {true, Grown} = {Grown > 19000000 andalso Grown < 30000000, Grown},
    ok;
grows(Call, Key, _, false) ->
    undefined = absolute(Call, Key),
    ok.

absolute(Call, Key) ->
    [{Absolutes, _}] = Call(sonde, node_stats_list, [1, 1]),
    undefined = proplists:get_value(memory_total, Absolutes),
    {_, Value} = lists:keyfind(Key, 1, Absolutes),
    Value.

more_binaries() ->
    sonde_test:hold(fun() -> [binary:copy(<<0>>, 20000) || _ <- lists:seq(1, 1000)] end).

more_tables() ->
    sonde_test:hold(fun() ->
        Table = ets:new(calls_suite, []),
        ets:insert(Table, [{I, lists:seq(1, 1250)} || I <- lists:seq(1, 1000)])
    end).

%% One of the differences that doc/migrating-from-recon.md lists.
recon_raises(ok, Call) ->
    notsup = Call(?MODULE, recon_raises, []),
    ok;
recon_raises(_, _) ->
    ok.

recon_raises() -> raised(fun() -> recon:node_stats_list(1, 1) end).

%% The calls, by what they do where the native path is off.
calls(Pid, Port, OnOff) ->
    Term = [self(), binary:copy(<<0>>, 100)],
    [A, B, C] = [list_to_integer(I) || I <- string:lexemes(pid_to_list(Pid), "<.>")],
    Node = fun() -> node() end,
    Count = fun(_, N) -> N + 1 end,
    [{answers,
      [{proc_count, [memory, 1]}, {proc_count, [memory, 1, #{}]}, {proc_window, [memory, 1, 1]},
       {proc_window, [memory, 1, 1, #{}]}, {proc_group, [application, [memory]]},
       {proc_group, [application, [memory], #{}]}, {bin_leak, [1]}, {bin_leak, [1, #{}]},
       {mailbox, [Pid, 1]}, {mailbox, [Pid, 1, #{}]}, {flat_size, [Term]}, {flat_size, [Term, #{}]},
       {byte_size, [Term]}, {byte_size, [Term, #{}]}, {term_size, [Term]}, {term_size, [Term, #{}]},
       {info, [Pid]}, {info, [Pid, memory]}, {info, [A, B, C]}, {info, [A, B, C, memory]},
       {get_state, [kernel_safe_sup]}, {get_state, [kernel_safe_sup, 5000]}, {tcp, []}, {udp, []},
       {sctp, []}, {files, []}, {port_types, []}, {port_info, [Port]}, {port_info, [Port, name]},
       {inet_count, [oct, 1]}, {inet_window, [oct, 1, 1]}, {sockets, []}, {sockets, [tcp]},
       {port_count, [memory, 1]}, {ets_count, [memory, 1]}, {ets_count, [memory, 1, #{}]},
       {diagnose, [#{interval => 100}]}, {diagnosis, [#{interval => 100}]},
       {report, [report(2), #{force => true, interval => 100}]},
       {node_stats, [1, 1, Count, 0]}, {node_stats_print, [1, 1]}, {node_stats_list, [1, 1]},
       {stacks, [1]}, {stacks, [1, #{}]}, {scheduler_usage, [1]}, {source, [lists]}, {remote_load, [[node()], sonde_epmd]},
       {rpc, [Node]}, {rpc, [node(), Node]}, {rpc, [node(), Node, 5000]}, {named_rpc, [Node]},
       {named_rpc, [node(), Node]}, {named_rpc, [node(), Node, 5000]},
       {cluster, [{proc_count, [memory, 1]}, #{}]}, {print, [x]}, {print, [x, #{}]}, {native, []},
       {native, [OnOff]}]},
     {once, [{diagnose, []}, {diagnosis, []}, {report, [report(1)]}]},
     {raises,
      [{waits, [1]}, {waits, [1, #{}]}, {schedulers, []}, {schedulers, [#{}]}, {bin_garbage, [1]}, {bin_garbage, [1, bytes]}, {bin_waste, [1]}, {bin_account, []},
       {bin_garbage, [1, count, #{}]}, {bin_waste, [1, #{}]}, {bin_owned, [1, #{}]},
       {bin_account, [#{}]}, {bin_owned, [1]}, {bin_holders, [1]}, {bin_holders, [1, size]},
       {bin_holders, [1, size, #{}]}, {bin_holder, [0]}, {bin_resources, [1]},
       {bin_resources, [1, #{}]}, {bin_window, [1, 1]}, {bin_window, [1, 1, #{}]}]},
     {returns_an_error,
      [{bin_slices, [Pid]}, {bin_slices, [Pid, #{}]}, {heap, [Pid]}, {heap, [Pid, #{}]},
       {heap_top, [Pid, 1]}, {heap_top, [Pid, 1, #{}]}, {flat_size, [Pid, dictionary, #{}]}]},
     {needs_another_node, [{remote_load, [sonde_epmd]}]}].

surprises(Side, Calls) ->
    [{F, Args, Answer} || {Without, Fs} <- Calls, {F, Args} <- Fs,
                          Answer <- [raised(fun() -> apply(sonde, F, Args) end)],
                          not is_expected(Side, Without, Answer)].

is_expected(_, needs_another_node, Answer) -> Answer =:= badarg;
is_expected(off, raises, Answer) -> Answer =:= {native_off, disabled};
is_expected(off, returns_an_error, {returned, {error, Why}}) -> Why =:= {native_off, disabled};
is_expected(_, _, {returned, Result}) -> not is_tuple(Result) orelse element(1, Result) =/= error;
is_expected(_, _, _) -> false.

%% `byte_size' and `term_size' of the caller's own terms; flat_SUITE has terms of every kind.
sizes_of_terms(_Config) ->
    Word = erlang:system_info(wordsize),
    Large = binary:copy(<<"b">>, 1000),
    Slice = binary:part(Large, 10, 100),
    Shared = list_to_tuple(lists:seq(1, 50)),
    Terms = [{a, 0}, {[], 0}, {17, 0}, {1 bsl 200, 0}, {1.5, 0}, {"text", 0}, {{a, [b]}, 0},
             {#{k => {v}}, 0}, {binary:copy(<<"s">>, 64), 0}, {Large, 1000},
             {{Large, [Large]}, 2000}, {#{Large => Slice}, 1100}, {[Shared, Shared], 0},
             {lists:seq(1, 100000), 0}],
    [] = [{T, Bytes} || {T, Outside} <- Terms, Opts <- [#{}, #{max_words => 1000000}],
                        Bytes <- [sonde:byte_size(T), sonde:byte_size(T, Opts)],
                        Bytes =/= Word * (1 + erts_debug:flat_size(T)) + Outside],
    [] = [{T, Sizes} || {T, Visible} <- Terms,
                        Sizes <- [sonde:term_size(T), sonde:term_size(T, #{})],
                        Sizes =/= sizes(T, Visible, min(Visible, 1000), Sizes)],
    #{flat_words := 106, shared_words := 55} = sonde:term_size([Shared, Shared]),
    #{shared_words := 0, literal_words := 3} = sonde:term_size({a, literal}),
    _ = [begin
             {error, {heap_too_large, Words, 10}} = Call(lists:seq(1, 1000), #{max_words => 10}),
             true = Words > 10,
             Doubled = lists:foldl(fun(_, T) -> {T, T} end, [1], lists:seq(1, 100)),
             {error, timeout} = Call(Doubled, #{max_words => 1 bsl 50, timeout => 10}),
             _ = [{Opts, badarg} = {Opts, raised(fun() -> Call(Large, Opts) end)}
                  || Opts <- [[], x, #{x => 1}, #{max_words => -1}, #{max_words => 1.0},
                              #{timeout => infinity}, #{timeout => -1}]]
         end || Call <- [fun sonde:byte_size/2, fun sonde:term_size/2]],
    ok.

%% Literals are the part of the term that shared_words leaves out.
sizes(Term, Visible, Pinned, #{literal_words := Literal}) ->
    #{flat_words => erts_debug:flat_size(Term), binary_visible => Visible, binary_pinned => Pinned,
      shared_words => erts_debug:size_shared(Term), literal_words => Literal}.

%% ---- one process

%% The process counts in its dictionary the monitors that it holds: at any moment the two agree.
info_is_one_look(_Config) ->
    Pid = spawn_link(fun() -> count_monitors(0, []) end),
    _ = [begin
             Info = sonde:info(Pid),
             Dictionary = proplists:get_value(dictionary, proplists:get_value(meta, Info)),
             Monitors = proplists:get_value(monitors, proplists:get_value(signals, Info)),
             Ahead = proplists:get_value(n, Dictionary, 0) - length(Monitors),
             {true, Ahead} = {Ahead =:= 0 orelse Ahead =:= 1, Ahead}
         end || _ <- lists:seq(1, 300)],
    unlink(Pid),
    sonde_test:stop(Pid).

count_monitors(50, Refs) ->
    _ = [begin
             true = demonitor(Ref, [flush]),
             put(n, get(n) - 1)
         end || Ref <- Refs],
    count_monitors(0, []);
count_monitors(N, Refs) ->
    put(n, N + 1),
    count_monitors(N + 1, [monitor(process, whereis(init)) | Refs]).

info_takes_our_attributes(_Config) ->
    Pid = sonde_test:hold(fun() -> put(key, value), queue(2) end),
    {dictionary_size, 1} = sonde:info(Pid, dictionary_size),
    [{link_count, 0}, {message_queue_len, 2}, {monitor_count, 0}, {dictionary, [{key, value}]}] =
        sonde:info(Pid, [link_count, message_queue_len, monitor_count, dictionary]),
    sonde_test:stop(Pid).

info_of_the_dead_is_undefined(_Config) ->
    Dead = dead(),
    [{meta, undefined}, {signals, undefined}, {location, undefined}, {memory_used, undefined},
     {work, undefined}] = sonde:info(Dead),
    _ = [{Key, undefined} = {Key, sonde:info(Dead, Key)}
         || Key <- [memory, registered_name, binary_memory, link_count, [], [memory],
                    [binary_memory, memory], [dictionary_size]]],
    {work, undefined} = sonde:info(Dead, work).

info_of_a_huge_mailbox(_Config) ->
    Pid = sonde_test:hold(fun() -> queue(200000) end),
    {message_queue_len, 200000} = sonde:info(Pid, message_queue_len),
    Memory = process_info(Pid, memory),
    Memory = sonde:info(Pid, memory),
    {memory_used, [Memory, {message_queue_len, 200000} | _]} = sonde:info(Pid, memory_used),
    sonde_test:stop(Pid).

port_that_closes_is_undefined(_Config) ->
    {ok, Port} = gen_udp:open(0, [{ip, {127, 0, 0, 1}}]),
    {name, "udp_inet"} = sonde:port_info(Port, name),
    ok = gen_udp:close(Port),
    undefined = sonde:port_info(Port, name),
    {type, []} = sonde:port_info(Port, specific),
    [{meta, [undefined, undefined, undefined, undefined]},
     {signals, [undefined, undefined, undefined]}, {io, [undefined, undefined]},
     {memory_used, [undefined, undefined]}, {type, []}] = sonde:port_info(Port).

%% ---- the node

%% Work done between the two looks shows in the second.
stats_are_those_of_the_node(_Config) ->
    {Sockets, Close} = sonde_test:sockets(),
    Work = fun(_, first) -> {work(Sockets), second};
              ({Absolutes, Increments}, {Pids, second}) -> {Pids, Absolutes, Increments}
           end,
    Before = erlang:system_info(process_count),
    {Pids, Absolutes, Increments} = sonde:node_stats(2, 1, Work, first),
    Enough = fun(Key, Least, List) ->
                     {Key, true} = {Key, proplists:get_value(Key, List) >= Least}
             end,
    _ = [Enough(Key, Least, Increments)
         || {Key, Least} <- [{bytes_in, 100000}, {bytes_out, 100000}, {gc_count, 50},
                             {gc_words_reclaimed, 100000}, {reductions, 100000}]],
    Enough(process_count, Before - 20 + 500, Absolutes),
    Enough(memory_bin, 20000000, Absolutes),
    Total = proplists:get_value(memory_total, Absolutes),
    true = Total > lists:sum([proplists:get_value(Key, Absolutes)
                              || Key <- [memory_procs, memory_bin, memory_ets]]),
    sonde_test:stop(Pids),
    Close().

work(#{sent := Connected, accepted := Accepted}) ->
    Bytes = <<0:800000>>,
    ok = gen_tcp:send(Connected, Bytes),
    ok = sonde_test:received(Accepted, 100000),
    _ = [begin
             _ = lists:seq(1, 10000),
             garbage_collect()
         end || _ <- lists:seq(1, 50)],
    Holder = sonde_test:hold(fun() -> binary:copy(<<0>>, 20000000) end),
    [Holder | [spawn(fun() -> sonde_test:park([]) end) || _ <- lists:seq(1, 500)]].

stats_go_on_until_something_fails(_Config) ->
    Until5 = fun(_, 5) -> throw(five); (_, N) -> N + 1 end,
    five = try sonde:node_stats(-1, 1, Until5, 0) catch Thrown -> Thrown end,
    timeout_value = raised(fun() -> sonde:node_stats(-1, foo, Until5, 0) end),
    acc = sonde:node_stats(0, foo, bar, acc).

wall_time_is_measured_only_meanwhile(_Config) ->
    false = is_measured(),
    _ = sonde:scheduler_usage(1),
    false = is_measured(),
    ok = sonde:node_stats(1, 1, fun(_, Acc) -> true = is_measured(), Acc end, ok),
    false = is_measured(),
    stop = try sonde:node_stats(1, 1, fun(_, _) -> throw(stop) end, ok) catch Thrown -> Thrown end,
    false = is_measured(),
    timeout_value = raised(fun() -> sonde:scheduler_usage(-1) end),
    false = is_measured(),
    Caller = spawn(fun() -> sonde:scheduler_usage(1000000) end),
    ok = until(measured, fun is_measured/0),
    sonde_test:stop(Caller),
    until(not_measured, fun() -> not is_measured() end).

%% Wall time stays on for a process that wanted it before, and only as long as that process wants
%% it.
wall_time_of_others_goes_on(_Config) ->
    _ = erlang:system_flag(scheduler_wall_time, true),
    _ = sonde:scheduler_usage(1),
    true = is_measured(),
    _ = erlang:system_flag(scheduler_wall_time, false),
    false = is_measured(),
    Other = sonde_test:hold(fun() -> erlang:system_flag(scheduler_wall_time, true) end),
    _ = sonde:scheduler_usage(1),
    true = is_measured(),
    sonde_test:stop(Other),
    until(not_measured, fun() -> not is_measured() end).

error_logger_queue_only_if_there_is_one(_Config) ->
    undefined = whereis(error_logger),
    Length = fun() ->
                     [{Absolutes, _}] = sonde:node_stats_list(1, 0),
                     proplists:get_value(error_logger_queue_len, Absolutes)
             end,
    undefined = Length(),
    Pid = sonde_test:hold(fun() -> register(error_logger, self()), queue(17) end),
    17 = Length(),
    sonde_test:stop(Pid),
    undefined = Length().

every_scheduler_has_a_usage(_Config) ->
    Ids = lists:seq(1, erlang:system_info(schedulers) + erlang:system_info(dirty_cpu_schedulers)),
    Usage = sonde:scheduler_usage(20),
    Ids = [Id || {Id, _} <- Usage],
    [] = [U || {_, U} <- Usage, not is_float(U) orelse U < 0.0 orelse U > 1.0],
    [{_, Increments}] = sonde:node_stats_list(1, 1),
    Ids = [Id || {Id, _} <- proplists:get_value(scheduler_usage, Increments)].

window_bad_input_at_once(_Config) ->
    _ = [{N, Ms, Why} = {N, Ms, raised(fun() -> sonde:inet_window(oct, N, Ms) end)}
         || {N, Ms, Why} <- [{foo, infinity, badarith}, {"1", 100000000, badarith},
                             {1, -1, timeout_value}, {1, 1.0, timeout_value},
                             {foo, foo, timeout_value}]],
    function_clause = raised(fun() -> sonde:inet_window("oct", 1, infinity) end).

source_without_syntax_tools(_Config) ->
    {With, Without} = sonde_peer_helper:with(shipped, fun(Peer) ->
        sonde_peer_helper:call(Peer, ?MODULE, without_syntax_tools, [])
    end),
    _ = [{match, _} = re:run(Text, "-module\\(lists\\)") || Text <- [With, Without]],
    true = With =/= Without.

without_syntax_tools() ->
    With = unicode:characters_to_binary(sonde:source(lists)),
    _ = [code:del_path(Dir) || Dir <- code:get_path(),
                               string:find(Dir, "syntax_tools") =/= nomatch],
    _ = [code:F(erl_prettypr) || F <- [purge, delete, purge]],
    non_existing = code:which(erl_prettypr),
    {With, unicode:characters_to_binary(sonde:source(lists))}.

%% ---- other nodes

fun_travels_to_a_node_without_sonde(_Config) ->
    with_home_and_bare(fun(Home, Node) ->
        Fun = typed("fun() -> {node(), code:which(sonde)} end."),
        Call = fun(F, Args) -> sonde_peer_helper:call(Home, sonde, F, Args) end,
        {[{Node, {Node, non_existing}}], []} = Call(named_rpc, [Node, Fun, 5000]),
        {[{Node, non_existing}], []} = Call(rpc, [[Node], Fun]),
        {[{module, sonde_epmd}], []} = Call(remote_load, [sonde_epmd]),
        {[{_, {_, _}}, {Node, {Node, non_existing}}], []} = Call(named_rpc, [Fun])
    end).

typed(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    {value, Fun, _} = erl_eval:exprs(Expressions, []),
    Fun.

%% The code server would die if it were asked for module 5.
bad_module_does_not_end_the_node(_Config) ->
    true = sonde_peer_helper:with(shipped, fun(Peer) ->
        _ = [{Module, badarg} = {Module, sonde_peer_helper:call(Peer, ?MODULE, raised_remote_load,
                                                                [Module])}
             || Module <- [5, "x", {lists}, <<"lists">>, [lists | foo]]],
        sonde_peer_helper:is_alive(Peer)
    end).

raised_remote_load(Module) ->
    case raised(fun() -> sonde:remote_load([node()], Module) end) of
        function_clause -> badarg;
        {bad_generator, _} -> badarg;
        Why -> Why
    end.

%% Not even an answer that comes too late.
no_message_reaches_the_caller(_Config) ->
    sonde_test:no_message(fun() ->
        Slow = spawn(fun late_state/0),
        {timeout, _} = try sonde:get_state(Slow, 10) catch exit:Why -> Why end,
        Late = fun() -> timer:sleep(100), late end,
        {[], [_]} = sonde:rpc(node(), Late, 10),
        {[], [_]} = sonde:named_rpc(node(), Late, 10),
        Dies = fun() -> exit(self(), kill), Late() end,
        {[{badrpc, _}], []} = sonde:named_rpc(node(), Dies, 5000),
        _ = sonde:info(self()),
        _ = sonde:node_stats_list(1, 1),
        _ = sonde:scheduler_usage(1),
        _ = sonde:inet_window(oct, 1, 1),
        {[{module, _}], []} = sonde:remote_load([node()], sonde_epmd)
    end).

late_state() ->
    receive
        {system, From, get_state} -> timer:sleep(100), gen:reply(From, {ok, too_late})
    end.

%% ---- planted processes

dead() ->
    {Pid, ok} = sonde_test:in_process(fun() -> ok end),
    Pid.

%% A pid of a node that does not exist.
remote_pid() ->
    binary_to_term(<<131, 103, 119, 3, "a@b", 1:32, 0:32, 1>>).

garbage() ->
    _ = [binary:copy(<<"garbage">>, 100) || _ <- lists:seq(1, 20)],
    ok.
