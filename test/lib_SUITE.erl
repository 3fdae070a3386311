%% sonde_lib replaces recon_lib for programs that use it: observer_cli and the like.
-module(lib_SUITE).

-import(sonde_test, [queue/1, raised/1]).

-export([suite/0, all/0, init_per_suite/1, end_per_suite/1]).
-export([answers_as_recon_lib/1,
         own_attributes_have_rows/1, rows_are_those_of_proc_count/1,
         fold_sees_every_process/1, fold_runs_nothing_twice/1,
         top_of_many_is_the_sorted_top/1, ports_above_32_bits_are_no_other_port/1,
         window_of_samples_is_growth/1, no_message_reaches_the_caller/1]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [answers_as_recon_lib, own_attributes_have_rows,
     rows_are_those_of_proc_count, fold_sees_every_process, fold_runs_nothing_twice,
     top_of_many_is_the_sorted_top, ports_above_32_bits_are_no_other_port,
     window_of_samples_is_growth, no_message_reaches_the_caller].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% ---- beside recon

answers_as_recon_lib(_Config) ->
    Pids = [sonde_test:hold(fun() -> queue(I) end) || I <- lists:seq(1, 5)],
    Named = sonde_test:hold(fun() -> register(lib_suite_named, self()), queue(9) end),
    {Dead, ok} = sonde_test:in_process(fun() -> ok end),
    {#{tcp := Listen, sent := Connected, udp := Udp}, Close} = sonde_test:sockets(),
    Result = sonde_conform:cases(recon_lib, cases([Named | Pids], Dead, [Listen, Connected, Udp])),
    ok = Close(),
    sonde_test:stop([Named | Pids]),
    Result.

cases(Pids, Dead, Sockets) ->
    lists:append([calls(same()), calls(pids(Pids, Dead)), calls(ports(Sockets)), unordered(),
                  rows(Pids), named()]).

%% {Function, [Args]}: both sides return the same terms.
calls(Table) ->
    [{F, list_to_atom(lists:concat([F, "_", I])), fun(M) -> apply(M, F, Args) end}
     || {F, ArgLists} <- Table,
        {I, Args} <- lists:zip(lists:seq(1, length(ArgLists)), ArgLists)].

same() ->
    Count = fun(I) -> {I, I + 1} end,
    Three = fun(I) -> I < 3 orelse throw(third), {I, I + 1} end,
    Times10 = fun(I) -> io:format("mapped ~p~n", [I]), I * 10 end,
    Cons = fun(I, Is) -> [I | Is] end,
    [{sample, [[1, fun() -> x end], [-1, fun() -> x end], [foo, fun() -> x end], [1, foo],
               [foo, fun() -> throw(first) end]]},
     {count, [[foo], [[a | b]], [[]], [[a]]]},
     {time_map, [[3, 1, Count, 0, Times10], [0, foo, bar, 0, baz], [1, foo, Count, 0, Times10],
                 [a, 1, Three, 0, Times10], [-1, 1, Three, 0, Times10], [0.0, 1, Three, 0, Times10],
                 [1, 1, fun(S) -> S end, 0, Times10]]},
     {time_fold, [[3, 1, Count, 0, Cons, []], [0, foo, x, 0, y, []], [-1, 1, Three, 0, Cons, []],
                  [a, 1, Three, 0, Cons, []], [1, foo, Three, 0, Cons, []],
                  [1, -1, Three, 0, Cons, []]]},
     {scheduler_usage_diff,
      [[[{1, 0, 0}, {2, 5, 10}], [{1, 5, 10}, {2, 5, 10}]],
       [[{2, 0, 0}, {1, 5, 10}], [{1, 5, 10}, {2, 5, 10}]],
       [[{1, 0, 0}, {2, 5, 10}], [{2, 5, 10}, {1, 5, 10}]],
       [[{1, 0, 0}], [{2, 5, 10}]], [[{1, 0, 0}], [{1, 5, 10}, {2, 5, 10}]],
       [undefined, [{2, 5, 10}]], [[{2, 5, 10}], undefined], [undefined, foo], [[], []]]},
     {binary_memory, [[[{1, 10, 1}, {1, 10, 1}]], [[]], [[{1, 2}]], [foo], [[{1, a, 3}]]]},
     {sublist_top_n_attrs,
      [[Rows, N] || Rows <- row_lists(), N <- [0, 1, 2, 3, 5, 100, -1, 1.0]]
          ++ [[Rows, N] || Rows <- [foo, [], [{1, 2, 3}], [{1, 2}], [{1, 2, 3}, {1, 2}],
                                    [{1, 2, 3} | foo]],
                           N <- [0, 1, -1, foo, 0.0, -2.5]]
          ++ [[random_rows(), rand:uniform(8)] || _ <- lists:seq(1, 300)]}].

%% What observer_cli passes: {0, Value, Row} with any terms; and ties of every kind.
row_lists() ->
    [[{a, 1, x}, {b, 5, y}, {c, 3, z}, {d, 5, w}],
     [{0, 1, x}, {0, 1, y}, {0, 1, z}], [{0, 1, z}, {0, 1, y}, {0, 1, x}],
     [{0, 1, b}, {0, 1, a}, {0, 2, c}], [{0, 1, a}, {0, 1, b}, {0, 1, c}, {0, 2, c}],
     [{0, 1, a}, {0, 1, a}, {0, 1, a}, {0, 0, a}],
     [{0, 1, a}, {0, 1.0, b}, {0, 1, c}], [{0, 1.0, a}, {0.0, 1, b}, {0, 1.0, c}],
     [{0, a, 1}, {0, [1], 2}, {0, {x}, 3}, {0, 7, 4}, {0, <<1>>, 5}, {0, #{}, 6}, {0, self(), 7}],
     [{0, [], [{<<"b">>, 1}]}, {0, "name", [{<<"a">>, 2}]}, {0, {m, f, 1}, []},
      {0, {m, f, 0}, []}]].

%% Ties in all positions, but none of 1 with 1.0, whose order recon leaves undefined.
random_rows() ->
    [{one_of([0, a]), one_of([1, 2, 2.5, x]), one_of([p, q, 1, {}])}
     || _ <- lists:seq(1, rand:uniform(12))].

one_of(List) ->
    lists:nth(rand:uniform(length(List)), List).

pids([Named | _] = Pids, Dead) ->
    Text = pid_to_list(Named),
    [A, B, C] = [list_to_integer(I) || I <- string:lexemes(Text, "<.>")],
    [{triple_to_pid, [[A, B, C], [0, 0, 0], [a, 0, 0], [1, 0, 0], [0, 1 bsl 40, 0], [0, -1, 0],
                      [0, 1.0, 0]]},
     {term_to_pid,
      [[Term] || Term <- [Named, Dead, lib_suite_named, nobody_is_called_so, undefined, Text,
                          list_to_binary(Text), {A, B, C}, {9, 9, 9}, {a, b, c}, {1, 2},
                          {global, nobody}, {via, global, nobody}, {via, no_such_module, x},
                          {via, "x", y}, "<0.x>", "<0.1", "<0.1.0>x", "<1.1.0>", "foo", [],
                          <<"foo">>, <<"<0.x">>, <<"<0.0.0>", 1:1>>, 5, 1.0, hd(erlang:ports()),
                          make_ref(), #{}]]},
     {proc_attrs,
      [[Attr, Pid] || Attr <- [memory, binary_memory, message_queue_len, registered_name, status,
                               links, binary, current_function, initial_call, foo, "x", [memory]],
                      Pid <- [hd(Pids), lists:last(Pids), Dead]]
          ++ [[memory, NoPid] || NoPid <- [init, "<0.0.0>", 5, undefined]]
          ++ [[foo], ["x"], [[memory]]]}].

ports([Listen, Connected, Udp]) ->
    Closed = list_to_port("#Port<0.99999>"),
    Other = hd(erlang:ports()),
    [{port_list,
      [[Item] || Item <- [name, id, connected, registered_name, os_pid, links, foo, "x", {a}]]
          ++ [[name, "tcp_inet"], [name, "udp_inet"], [name, undefined], [name, tcp_inet],
              [registered_name, []], [foo, 1], [id, 0], [id, 0.0]]},
     {inet_attrs,
      [[Attr] || Attr <- attrs()]
          ++ [[Attr, Port] || Attr <- attrs(), Port <- [Listen, Connected, Udp, Closed, Other]]
          ++ [[oct, foo]]},
     {term_to_port,
      [[Term] || Term <- [Connected, erlang:port_to_list(Connected), nobody, init, "#Port<0.1>",
                          "#Port<0.x>", "#Port<0.>", "#Port<0.1>junk", "#Port<0.1",
                          "#Port<0. 1>", "#Port<1.1>", "x", <<"#Port<0.1>">>, [], self(), 0, 1, 1.0,
                          {1}, make_ref(), 16#0FFFFFFF]]}].

attrs() ->
    [cnt, oct, recv_oct, recv_cnt, send_oct, send_cnt, send_pend, foo, "oct", [send_oct], 1].

unordered() ->
    Window = fun(First, Last) ->
                     fun(M) -> sonde_conform:sorted(M:sliding_window(First, Last)) end
             end,
    [{sliding_window, list_to_atom("window_" ++ integer_to_list(I)), Window(First, Last)}
     || {I, {First, Last}} <- lists:zip(lists:seq(1, 13), windows())]
        ++ [{count, many, fun(M) -> lists:sort(M:count([a, b, a, 1, 1.0, c, <<>>, 1, {}, b])) end}].

windows() ->
    [{[], []}, {[{a, 1, x}, {b, 2, y}], [{a, 5, z}, {c, 7, w}]},
     {[{a, 1, x}, {a, 2, y}], [{a, 5, z}]}, {[{a, 1, x}], [{a, 5, z}, {a, 9, w}]},
     {[], [{a, 5, z}, {a, 9, w}]}, {[{a, p, x}], [{a, 2, y}]}, {[{a, p, x}], [{b, q, y}]},
     {[{1, 1, x}], [{1.0, 2, y}]}, {[{a, 1, x} | foo], [{1.0, 2, y}]}, {[{a, 1, x}], foo},
     {foo, []}, {[{a, 1}, {b, 2, 3}, c], [{b, 5, 6}, {c, 1}, "d"]}, {[{a, 1.5, x}], [{a, 1, y}]}].

%% Compares only processes that both sides see: each side has processes of its own.
rows(Pids) ->
    [{proc_attrs, list_to_atom("all_" ++ atom_to_list(Attr)),
      fun(M) -> [Row || {Pid, _, _} = Row <- M:proc_attrs(Attr), lists:member(Pid, Pids)] end}
     || Attr <- [memory, binary_memory, message_queue_len, registered_name, links, status, binary]]
        ++ [{proc_attrs, caller_is_left_out,
             fun(M) -> lists:keymember(self(), 1, M:proc_attrs(memory)) end},
            {proc_attrs, caller_by_its_pid,
             fun(M) -> {ok, {Pid, 0, As}} = M:proc_attrs(message_queue_len, self()),
                       {Pid =:= self(), length(As)} end}].

%% Cases in which we differ on purpose.
named() ->
    [{term_to_port, negative, fun(M) -> M:term_to_port(-1) end},
     {term_to_port, text_negative, fun(M) -> M:term_to_port("#Port<0.-1>") end},
     {term_to_port, unclosed, fun(M) -> M:term_to_port("#Port<0.12") end},
     {term_to_port, beyond_32_bits, fun(M) -> is_port_1(M, (1 bsl 32) + 1) end},
     {term_to_port, text_beyond_32_bits, fun(M) -> is_port_1(M, "#Port<0.4294967297>") end}].

is_port_1(M, Term) ->
    try M:term_to_port(Term) of
        Port -> Port =:= list_to_port("#Port<0.1>")
    catch
        error:badarg -> false
    end.

%% ---- ours

own_attributes_have_rows(_Config) ->
    Other = sonde_test:hold(fun() -> ok end),
    Pid = sonde_test:hold(fun() -> _ = [put(I, I) || I <- lists:seq(1, 7)], link(Other) end),
    {ok, {Pid, 7, _}} = sonde_lib:proc_attrs(dictionary_size, Pid),
    [{Pid, 1, _}] = sonde_test:rows_of([Pid], sonde_lib:proc_attrs(link_count)),
    sonde_test:stop([Pid, Other]).

rows_are_those_of_proc_count(_Config) ->
    Pids = [sonde_test:hold(fun() -> queue(I) end) || I <- lists:seq(1, 20)],
    Rows = sonde_lib:sublist_top_n_attrs(
             sonde_test:rows_of(Pids, sonde_lib:proc_attrs(message_queue_len)), 7),
    Rows = lists:sublist(sonde_test:rows_of(Pids, sonde:proc_count(message_queue_len, -1)), 7),
    sonde_test:stop(Pids).

fold_sees_every_process(_Config) ->
    Pids = [sonde_test:hold(fun() -> I end) || I <- lists:seq(1, 50)],
    Seen = sonde_lib:fold_processes(fun(Pid, Acc) -> [Pid | Acc] end, []),
    [] = [self() | Pids] -- Seen,
    true = length(Seen) =:= length(lists:usort(Seen)),
    sonde_test:stop(Pids).

%% recon takes an undef inside the fun for an old release, and starts again.
fold_runs_nothing_twice(_Config) ->
    Calls = counters:new(1, []),
    {undef, [{no_such_module, f, [], _} | _]} =
        try
            sonde_lib:fold_processes(fun(_, _) ->
                                             ok = counters:add(Calls, 1, 1),
                                             apply(no_such_module, f, [])
                                     end, [])
        catch
            error:Why:Stack -> {Why, Stack}
        end,
    1 = counters:get(Calls, 1).

%% If no two rows are equal in both fields, the result is that of sort-and-take.
top_of_many_is_the_sorted_top(_Config) ->
    Rows = [{I, erlang:phash2(I, 100), {row, I}} || I <- lists:seq(1, 5000)],
    Sorted = lists:reverse([R || {_, R} <- lists:sort([{{V, K}, R} || {K, V, _} = R <- Rows])]),
    _ = [{N, true} = {N, lists:sublist(Sorted, N) =:= sonde_lib:sublist_top_n_attrs(Rows, N)}
         || N <- [0, 1, 2, 99, 4999, 5000, 5001, 100000]],
    Sorted = sonde_lib:sublist_top_n_attrs(Rows, -1),
    Sorted = sonde_lib:sublist_top_n_attrs(Sorted, 5000).

%% Only some releases have such ports.
ports_above_32_bits_are_no_other_port(_Config) ->
    Text = "#Port<0.4294967297>",
    _ = [case raised(fun() -> sonde_lib:term_to_port(Term) end) of
             badarg -> ok;
             {returned, Port} -> Text = erlang:port_to_list(Port)
         end || Term <- [(1 bsl 32) + 1, Text]],
    _ = [{Term, badarg} = {Term, raised(fun() -> sonde_lib:term_to_port(Term) end)}
         || Term <- [1 bsl 64, (1 bsl 64) + 1, -1, "#Port<0.-1>", "#Port<0.12", "#Port<0.12>>",
                     "#Port<0.18446744073709551617>"]].

window_of_samples_is_growth(_Config) ->
    Pid = sonde_test:hold(fun() -> queue(10) end),
    {First, Last} = sonde_lib:sample(1, fun() -> sonde_lib:proc_attrs(message_queue_len) end),
    [{Pid, 0, _}] = sonde_test:rows_of([Pid], sonde_lib:sliding_window(First, Last)),
    _ = [Pid ! {queued, I} || I <- lists:seq(1, 5)],
    Now = sonde_lib:proc_attrs(message_queue_len),
    [{Pid, 5, _}] = sonde_test:rows_of([Pid], sonde_lib:sliding_window(First, Now)),
    sonde_test:stop(Pid).

no_message_reaches_the_caller(_Config) ->
    sonde_test:no_message(fun() ->
        _ = sonde_lib:proc_attrs(memory),
        _ = sonde_lib:inet_attrs(oct),
        _ = sonde_lib:sample(1, fun() -> ok end)
    end).
