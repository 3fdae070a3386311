%% sonde_trace keeps recon_trace's contract, and its own promise: whichever process dies and
%% whichever limit is reached, all tracing is off within a second, and the caller gets no message.
-module(trace_SUITE).

-import(sonde_test, [until/2]).

-compile([export_all, nowarn_export_all]).

-define(SEEN, {?MODULE, seen, 1}).
-define(TRIPPED, "Recon tracer rate limit tripped.\n").
-define(NAMES, [sonde_trace_guard, sonde_trace_tracer, sonde_trace_formatter]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [answers_as_recon, texts_where_there_is_no_recon, requests_as_recon, requests_are_these,
     nothing_runs_when_loaded, count_is_a_hard_limit, zero_and_less_trace_nothing,
     rate_is_a_hard_limit, slower_than_the_rate_goes_on, no_number_ends_at_the_first_message,
     flood_ends_at_the_limit, rate_ends_a_flood,
     off_when_the_caller_is_killed, off_when_the_caller_ends, off_when_the_tracer_is_killed,
     off_when_the_formatter_is_killed, off_when_the_formatter_raises,
     off_when_the_formatter_hangs_and_the_caller_dies, off_when_the_guard_is_killed,
     off_when_the_device_dies, off_when_all_but_one_are_killed, off_when_a_shell_ends,
     off_after_bad_input, clear_ends_a_formatter_that_hangs, who_was_left_behind_is_ended,
     clear_may_come_from_a_formatter,
     caller_is_not_linked_and_gets_no_message, the_next_call_ends_the_last,
     callers_at_the_same_time, somebody_elses_tracing_goes_on,
     somebody_elses_tracing_ends_before_sessions, own_processes_are_not_traced,
     pids_of_all_kinds, new_processes_only, shell_funs_are_match_specs,
     empty_text_prints_nothing, text_with_tildes_is_text, unicode_text,
     text_goes_to_the_device, without_arguments, times_of_the_calls].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

init_per_testcase(_Case, Config) ->
    ok = sonde_trace:clear(),
    Config.

end_per_testcase(_Case, _Config) ->
    sonde_trace:clear().

%% ---- as recon

answers_as_recon(_Config) ->
    sonde_conform:cases(recon_trace, texts() ++ terms_as_text() ++ records_and_maps() ++ traces()
                                     ++ errors() ++ tracers()).

texts() ->
    [{format, N, fun(M) -> flat(M:format(stamped(Message))) end}
     || {N, Message} <- numbered(messages())]
    ++ [{format, {odd, N}, fun(M) -> flat(M:format(Message)) end}
        || {N, Message} <- numbered(odd_messages())]
    ++ [{format, clock, fun(M) -> scrubbed(flat(M:format({trace, self(), exit, normal}))) end}].

messages() ->
    Mfa = {lists, seq, [1, 10]},
    P = whereis(init),
    Odd = [<<"bin">>, "str", [1, 2, 3], #{a => 1}, {a, b}, fun lists:seq/2, 1.5, P, <<1:3>>,
           [a | b], 'At om', "\x{fc}n\x{ef}", [1000, 1001], []],
    Long = lists:seq(1, 60),
    [[call, Mfa], [call, {lists, seq, 2}], [call, {lists, seq, []}], [call, {m, f, Odd}],
     [call, {'M od', 'f un', [1]}], [call, {m, f, [Long, {x, Long}, lists:duplicate(99, $x)]}],
     [call, Mfa, extra], [call, Mfa, "str"], [call, Mfa, <<"bin">>], [call, Mfa, {m, f, 1}],
     [call, Mfa, undefined], [call, {lists, seq, 2}, extra], [call, {m, f, []}, #{a => [#{}]}],
     [call, {m, f, ["~p~n"]}], [call, weird], [call],
     [return_from, {m, f, 2}, [1, 2, 3]], [return_from, {m, f, 2}, {ok, "abc"}],
     [return_from, {m, f, 2}, Long], [return_from, {m, f, 2}, #{a => {b}}],
     [return_from, {m, f, 2}], [return_to, {m, f, 2}], [return_to, undefined],
     [exception_from, {m, f, 2}, {error, badarg}], [exception_from, {m, f, 2}, {throw, Long}],
     [exception_from, {m, f, 2}, error],
     [send, {hello, "x"}, P], [send, hello, {name, node}], [send, Long, name], [send, hello],
     [send_to_non_existing_process, {hello, x}, P],
     ['receive', {hello, "w"}], ['receive', Long], ['receive', {hello, "w"}, P],
     [spawn, P, {m, f, [1, "a"]}], [spawn, P, {m, f, 1}], [spawn, P, weird],
     [spawned, P, {m, f, [1, "a"]}], [exit, normal], [exit, {a, Long}],
     [link, P], [unlink, P], [getting_linked, P], [getting_unlinked, P],
     [register, name], [unregister, name],
     [in, {m, f, 1}], [out, {m, f, 1}], [in, 0], [out, 0], [in, 1, {m, f, 1}], [in_exiting, 0],
     [out_exiting, 0], [out_exited, 0],
     [gc_minor_start, [{heap_size, 1}]], [gc_minor_end, [{heap_size, 1}]],
     [gc_major_start, [{heap_size, 1}]], [gc_major_end, [{heap_size, 1}]],
     [gc_max_heap_size, [{heap_size, 1}]],
     [gc_start, [{old_heap_size, 1}, {heap_size, 2}, {mbuf_size, 4}, {stack_size, 8}]],
     [gc_end, [{old_heap_size, 1}, {heap_size, 2}, {mbuf_size, 4}, {stack_size, 8}]],
     [open, P, "drv"], [closed, normal], [foo], [foo, bar], [foo, bar, baz], [foo, a, b, Long]].

stamped(Message) ->
    list_to_tuple([trace_ts, whereis(init) | Message] ++ [{1700, 1, 123456}]).

%% Messages that the VM never sends.
odd_messages() ->
    [foo, {}, {trace}, {trace, self()}, {drop, 5}, {seq_trace, 1, foo}, "string", 1,
     {trace_ts, self(), {1700, 1, 123456}}, {trace_ts, self(), call, {m, f, [1]}, {0, 0, 0}},
     {trace_ts, notapid, call, {m, f, [1]}, {0, 3661, 5}}, {trace_ts, "x", exit, a, {0, 0, 0}}].

terms_as_text() ->
    [{format_trace_output, {Recs, N}, fun(M) -> flat(M:format_trace_output(Recs, Term)) end}
     || {N, Term} <- numbered(terms()), Recs <- [true, false]]
    ++ [{format_trace_output, empty_tuple, fun(M) -> flat(M:format_trace_output(true, {})) end}].

terms() ->
    R = {st, 1, 2, 3},
    M = #{k => 1, z => 2},
    V = #{w => R},
    [[], 1, "abc", [1, 2], {a, 1}, <<"x">>, M, V, R, [R], [M], [V], {t, R}, {t, M}, {t, [M, R]},
     [{x, M}], #{M => R}, {st, M, R, [M, R]}, {st, "abc", V, 5}, [a | M], [R | M],
     [1, 2 | R], {M, R}, {"s", M}, {[], M}, #{}, {a}, {{a}}, {x, <<"ab">>, "str", 1.5},
     fun lists:map/2, "a" ++ [M],
     [0, 1 | <<"x">>], {1, "abc", [1, {R}]}, #{1 => "str", <<"a">> => [1, {2}]}, 'a B', [960],
     "\x{fc}n\x{ef}", <<"\x{3c0}"/utf8>>, <<1:1>>, lists:seq(1, 200), lists:duplicate(200, $x),
     maps:from_list([{N, N} || N <- lists:seq(1, 50)]), [[a, [b]], "abc", [{1, 2}]], '\x{3c0}'].

%% recon's text depends on the tables; both sides get the same tables.
records_and_maps() ->
    Call = {trace, self(), call, {m, f, [{sonde_seen, 1, 2}, #{k => 1, z => 2}]}},
    Return = {trace, self(), return_from, {m, f, 2}, [#{k => 1, z => {sonde_seen, 3, 4}}]},
    Said = {trace, self(), call, {m, f, []}, {sonde_seen, #{k => 1, z => 2}, a}},
    Send = {trace, self(), send, {sonde_seen, 1, 2}, self()},
    All = fun(M) -> [scrubbed(flat(M:format(T))) || T <- [Call, Return, Said, Send]] end,
    [{format, records, fun(M) -> with_tables(M, [records], fun() -> All(M) end) end},
     {format, records_and_maps, fun(M) -> with_tables(M, [records, maps], fun() -> All(M) end) end},
     {format, maps, fun(M) -> with_tables(M, [maps], fun() -> All(M) end) end},
     {format_trace_output, imported,
      fun(M) -> with_tables(M, [records], fun() ->
                    flat(M:format_trace_output([{sonde_seen, 1, 2}]))
                end) end}].

with_tables(Module, Tables, Fun) ->
    Rec = beside(Module, rec),
    Map = beside(Module, map),
    Clear = fun() -> Rec:clear(), Map:clear() end,
    Clear(),
    _ = [Rec:import(module_with_record()) || lists:member(records, Tables)],
    _ = [ok = Map:limit(short, #{k => 1}, [k]) || lists:member(maps, Tables)],
    try Fun() after Clear() end.

beside(recon_trace, rec) -> recon_rec;
beside(recon_trace, map) -> recon_map;
beside(sonde_trace, rec) -> sonde_rec;
beside(sonde_trace, map) -> sonde_map.

%% A module on disk that contains its abstract code.
module_with_record() ->
    Dir = filename:join([filename:dirname(code:which(?MODULE)), "trace_SUITE_made"]),
    Source = filename:join(Dir, "sonde_seen_rec.erl"),
    ok = filelib:ensure_dir(Source),
    ok = file:write_file(Source, "-module(sonde_seen_rec).\n-export([r/0]).\n"
                                 "-record(sonde_seen, {first, second}).\n"
                                 "r() -> #sonde_seen{}.\n"),
    {ok, Module} = compile:file(Source, [debug_info, {outdir, Dir}]),
    true = code:add_pathz(Dir),
    {module, Module} = code:ensure_loaded(Module),
    Module.

traces() ->
    Seq = fun(Ns) -> fun() -> [?MODULE:seen(N) || N <- Ns] end end,
    Local = fun() -> ?MODULE:outer(5) end,
    Case = fun(Name, TSpecs, Max, Opts, Do) ->
               {calls, Name, fun(M) -> traced(M, TSpecs, Max, Opts, Do) end}
           end,
    Raw = fun(Message) -> io_lib:format("~0p~n", [Message]) end,
    [Case(plain, ?SEEN, 2, [], Seq([1, "two", 3])),
     Case(all_arities, {?MODULE, seen, '_'}, 2, [], Seq([1, 2, 3])),
     Case(two_specs, [?SEEN, {?MODULE, outer, 1}, {?MODULE, none, 3}], 2, [], Seq([1, 2])),
     Case(returns, {?MODULE, seen, return_trace}, 2, [], Seq([1])),
     Case(match_spec, {?MODULE, seen, [{[2], [], [{return_trace}]}]}, 2, [], Seq([1, 2, 3])),
     Case(message, {?MODULE, seen, [{'_', [], [{message, {{said, "it"}}}]}]}, 1, [], Seq([1])),
     Case(shell_fun, {?MODULE, seen, shell_fun("fun([X]) when X > 1 -> return_trace() end.")}, 2,
          [], Seq([1, 2])),
     Case(shell_fun_bound, {?MODULE, seen, shell_fun("fun([X]) when X > Y -> ok end.")}, 1,
          [], Seq([1, 2, 3])),
     Case(exception, {?MODULE, fails, [{'_', [], [{exception_trace}]}]}, 2, [],
          fun() -> try ?MODULE:fails(1) catch error:seen -> ok end end),
     Case(arity, ?SEEN, 1, [{args, arity}], Seq([1])),
     Case(args, ?SEEN, 1, [{args, args}], Seq([1])),
     Case(by_the_tracer, ?SEEN, 1, [{timestamp, trace}], Seq([1])),
     Case(by_the_formatter, ?SEEN, 1, [{timestamp, formatter}], Seq([1])),
     Case(local, {?MODULE, inner, 1}, 1, [{scope, local}], Local),
     Case(local_return, {?MODULE, inner, return_trace}, 3, [{scope, local}, return_to], Local),
     Case(local_return_to, {?MODULE, inner, 1}, 2, [{scope, local}, {return_to, true}], Local),
     Case(global, ?SEEN, 1, [{scope, global}, {return_to, false}], Seq([1])),
     Case(return_to_needs_local, ?SEEN, 1, [return_to], Seq([1])),
     Case(myself, ?SEEN, 1, [{pid, self()}, {pid, whereis(init)}, foo, {foo, bar}],
          fun() -> ok end),
     Case(raw, ?SEEN, 1, [{formatter, Raw}], Seq([1])),
     Case(no_formatter, ?SEEN, 1, [{formatter, foo}], Seq([1])),
     Case(formatter_of_two, ?SEEN, 1, [{formatter, fun(A, _) -> A end}], Seq([1])),
     Case(text_is_a_format, ?SEEN, 1, [{formatter, fun(_) -> "a~~b~n" end}], Seq([1])),
     Case(text_is_a_binary, ?SEEN, 1, [{formatter, fun(_) -> <<"binary\n">> end}], Seq([1])),
     Case(text_is_unicode, ?SEEN, 1, [{formatter, fun(_) -> [960, $\n] end}], Seq([1])),
     Case(text_is_an_atom, ?SEEN, 1, [{formatter, fun(_) -> atom end}], Seq([1])),
     Case(text_is_no_format, ?SEEN, 1, [{formatter, fun(_) -> "100~p" end}], Seq([1])),
     Case(rate, ?SEEN, {2, 60000}, [], Seq([1, 2, 3, 4])),
     Case(rate_of_none, ?SEEN, {0, 60000}, [], Seq([1, 2])),
     {calls, caller_ends, fun goes_on_without_its_caller/1},
     {calls, unknown_function, fun(M) -> {M:calls({?MODULE, none, 1}, 1), M:clear()} end},
     {calls, unknown_module, fun(M) -> {M:calls({sonde_none, '_', '_'}, 1), M:clear()} end},
     {calls, two_arguments, fun(M) -> {M:calls([?SEEN, {lists, seq, 2}], 1), M:clear()} end},
     {clear, twice, fun(M) -> {M:clear(), M:clear()} end}].

%% The text that one side writes until the limit is reached, with clocks and pids replaced: these
%% never repeat.
traced(Module, TSpecs, Max, Opts, Do) ->
    Device = device(),
    Pid = case proplists:get_value(pid, Opts) of undefined -> [{pid, self()}]; _ -> [] end,
    Functions = Module:calls(TSpecs, Max, [{io_server, Device} | Pid ++ Opts]),
    _ = Do(),
    ok = await_end(Module, Pid =/= []),
    ok = Module:clear(),
    {Functions, scrubbed(text(Device))}.

%% Tools that act as an output device match on the requests that a device receives.
requests_as_recon(_Config) ->
    case sonde_test:recon() of
        ok ->
            _ = [begin
                     Theirs = sent(recon_trace, Formatter),
                     {Formatter, Theirs} = {Formatter, sent(sonde_trace, Formatter)}
                 end || Formatter <- [none | formatters()]],
            ok;
        Skip ->
            Skip
    end.

formatters() ->
    [fun(_) -> "a~~b~n" end, fun(_) -> <<"binary\n">> end, fun(_) -> [960, [$\n]] end,
     fun(_) -> atom end].

requests_are_these(_Config) ->
    Format = fun(Text, Args) -> {put_chars, unicode, io_lib, format, [Text, Args]} end,
    First = Format("Option return_to only works with option {scope, local}~n", []),
    Last = Format("Recon tracer rate limit tripped.~n", []),
    Line = fun(Arg) -> Format("\nCLOCK PID trace_SUITE:seen(" ++ Arg ++ ")\n", []) end,
    Default = [First, Line("1"), Line("\"two\""), Last],
    Default = sent(sonde_trace, none),
    %% recon's formatter crashes on these
    Text = fun({trace, _, call, {_, _, [_]}}) -> "100~p ~" end,
    No = Format("~ts", ["100~p ~"]),
    [First, No, No, Last] = sent(sonde_trace, Text).

%% The requests that the caller's group leader receives; it is the default device.
sent(Module, Formatter) ->
    Device = recorder(),
    Opts = [return_to | [{formatter, Formatter} || Formatter =/= none]],
    {_, ok} = sonde_test:in_process(fun() ->
        group_leader(Device, self()),
        1 = Module:calls(?SEEN, 2, [{pid, self()} | Opts]),
        _ = [?MODULE:seen(Arg) || Arg <- [1, "two", 3]],
        await_end(Module, true)
    end),
    ok = Module:clear(),
    Device ! {requests, self()},
    receive {Device, Requests} -> [comparable(R) || R <- Requests] end.

%% A text is a nested list, and contains a clock and a pid.
comparable({put_chars, Encoding, M, F, [Text, Args]}) when is_list(Text) ->
    {put_chars, Encoding, M, F, [scrubbed(flat(Text)), Args]};
comparable(Request) ->
    Request.

recorder() ->
    spawn(fun() -> recorder([]) end).

recorder(Requests) ->
    receive
        {io_request, From, As, Request} when is_pid(From), is_reference(As) ->
            From ! {io_reply, As, ok},
            recorder([Request | Requests]);
        {requests, From} ->
            From ! {self(), lists:reverse(Requests)}
    end.

goes_on_without_its_caller(Module) ->
    Device = device(),
    {Caller, Ref} = spawn_monitor(fun() -> 1 = Module:calls(?SEEN, 200, [{io_server, Device}]) end),
    receive {'DOWN', Ref, process, Caller, normal} -> ok end,
    ok = until(limit_reached, fun() ->
                                      _ = ?MODULE:seen(1),
                                      whereis(formatter_name(Module)) =:= undefined
                              end),
    lines(Device) =:= 200.

%% A process that never calls does not reach the limit, so there is nothing to wait for.
await_end(_Module, false) -> ok;
await_end(recon_trace, true) ->
    until(limit_reached, fun() -> whereis(recon_trace_formatter) =:= undefined end);
await_end(sonde_trace, true) ->
    until(limit_reached, fun is_ended/0).

is_ended() -> [] =:= [N || N <- ?NAMES, whereis(N) =/= undefined].

scrubbed(Text) ->
    Replace = fun({From, To}, T) -> re:replace(T, From, To, [global, unicode, {return, list}]) end,
    lists:foldl(Replace, Text,
                [{"[0-9]+:[0-9]+:[0-9]+\\.[0-9]{6}", "CLOCK"}, {"<0\\.[0-9]+\\.[0-9]+>", "PID"},
                 {"{[0-9]+,[0-9]+,[0-9]+}}", "STAMP}"}]).

errors() ->
    Bad = [{none, [], 5, []}, {pair, {?MODULE, seen}, 5, []}, {no_tuple, ?MODULE, 5, []},
           {arity_256, {?MODULE, seen, 256}, 5, []}, {arity_minus, {?MODULE, seen, -1}, 5, []},
           {arity_float, {?MODULE, seen, 1.0}, 5, []}, {arity_atom, {?MODULE, seen, foo}, 5, []},
           {arity_binary, {?MODULE, seen, <<>>}, 5, []},
           {match_spec, {?MODULE, seen, [foo]}, 5, []},
           {compiled_fun, {?MODULE, seen, fun(_) -> ok end}, 5, []},
           {external_fun, {?MODULE, seen, fun lists:seq/2}, 5, []},
           {fun_of_two, {?MODULE, seen, shell_fun("fun(_, _) -> ok end.")}, 5, []},
           {fun_that_calls, {?MODULE, seen, shell_fun("fun(X) -> foo(X) end.")}, 5, []},
           {fun_with_case, {?MODULE, seen, shell_fun("fun(X) -> case X of 1 -> 2 end end.")},
            5, []},
           {all_of_arity, {'_', '_', 1}, 5, []},
           {pid_nobody, ?SEEN, 5, [{pid, sonde_nobody}]}, {pid_number, ?SEEN, 5, [{pid, 42}]},
           {pid_global, ?SEEN, 5, [{pid, {global, sonde_nobody}}]},
           {pid_none, ?SEEN, 5, [{pid, []}]},
           {pid_dead, ?SEEN, 5, [{pid, dead()}]}, {pid_processes, ?SEEN, 5, [{pid, processes}]},
           {pid_port, ?SEEN, 5, [{pid, hd(erlang:ports())}]},
           {timestamp, ?SEEN, 5, [{timestamp, foo}]}, {args, ?SEEN, 5, [{args, foo}]},
           {scope, ?SEEN, 5, [{scope, foo}]}, {opts_atom, ?SEEN, 5, foo},
           {opts_map, ?SEEN, 5, #{}}],
    Combos = [{'_', '_', '_'}, {'_', '_', []}, {'_', seen, '_'}, {recon_trace, '_', '_'},
              {io, '_', '_'}, {io, format, []}, {lists, '_', '_'}, {lists, seq, '_'},
              {lists, seq, []}],
    [{calls, Name, fun(M) -> cleared(M, fun() -> M:calls(TSpec, Max, Opts) end) end}
     || {Name, TSpec, Max, Opts} <- Bad]
    ++ [{calls, Combo, fun(M) -> cleared(M, fun() -> M:calls(Combo, 5) end) end}
        || Combo <- Combos]
    ++ [{calls, {max, Max}, fun(M) -> cleared(M, fun() -> M:calls(?SEEN, Max) end) end}
        || Max <- [foo, {foo, bar}, {1, 2, 3}, "a"]].

cleared(Module, Fun) ->
    try Fun() after ok = Module:clear() end.

%% What recon spawns, tested alone.
tracers() ->
    [{count_tracer, two, fun(M) -> handed_on(M, count_tracer, [2], 4) end},
     {count_tracer, none, fun(M) -> handed_on(M, count_tracer, [0], 2) end},
     {count_tracer, less_than_none, fun(M) -> handed_on(M, count_tracer, [-1], 2) end},
     {rate_tracer, two, fun(M) -> handed_on(M, rate_tracer, [2, 60000], 5) end},
     {rate_tracer, none, fun(M) -> handed_on(M, rate_tracer, [0, 60000], 2) end},
     {rate_tracer, slow, fun(M) -> handed_on(M, rate_tracer, [1, -1], 5) end},
     {formatter, limit, fun(M) -> written(M, normal) end},
     {formatter, killed, fun(M) -> written(M, killed) end},
     {formatter, no_tracer, fun(M) -> formatter_of(M, dead()) end}].

%% Returns the messages that reach the process registered as the formatter, and how the tracer ends:
%% the test kills it if it would hand on more.
handed_on(Module, Function, Args, Messages) ->
    register(formatter_name(Module), self()),
    {Tracer, Ref} = spawn_monitor(Module, Function, Args),
    _ = [Tracer ! {message, N} || N <- lists:seq(1, Messages)],
    ok = until(handed_on, fun() -> not is_process_alive(Tracer)
                                       orelse length(sonde_test:mailbox()) =:= Messages end),
    exit(Tracer, kill),
    End = receive {'DOWN', Ref, process, Tracer, Why} -> Why end,
    unregister(formatter_name(Module)),
    {End, sonde_test:mailbox()}.

formatter_name(recon_trace) -> recon_trace_formatter;
formatter_name(sonde_trace) -> sonde_trace_formatter.

written(Module, Why) ->
    Tracer = spawn(fun() -> receive Reason -> exit(Reason) end end),
    Device = device(),
    Ref = make_ref(),
    Fun = fun(Message) -> io_lib:format("got ~p~n", [Message]) end,
    {Formatter, Down} = spawn_monitor(Module, formatter, [Tracer, self(), Ref, Fun, Device]),
    receive {Ref, linked} -> ok end,
    _ = [Formatter ! Message || Message <- [foo, {a, b}]],
    Formatter ! {c},
    Tracer ! Why,
    receive {'DOWN', Down, process, Formatter, End} -> {End, text(Device)} end.

formatter_of(Module, Tracer) ->
    Args = [Tracer, self(), ref, fun(M) -> M end, user],
    {Formatter, Down} = spawn_monitor(Module, formatter, Args),
    receive {ref, linked} -> ok end,
    receive {'DOWN', Down, process, Formatter, End} -> End end.

%% recon's modules do not load on every release.
texts_where_there_is_no_recon(_Config) ->
    Golden = [{[call, {m, f, [a, "b", [1, 2], <<"c">>]}], "m:f(a, \"b\", [1,2], <<\"c\">>)"},
              {[call, {m, f, 2}], "m:f/2"},
              {[call, {m, f, []}, {m, g, 1}], "m:f() {m,g,1}"},
              {[return_from, {m, f, 1}, {ok, #{k => "v"}}], "m:f/1 --> {ok,#{k => \"v\"}}"},
              {[return_to, {m, f, 1}], " '--> m:f/1"},
              {[exception_from, {m, f, 1}, {error, badarg}], "m:f/1 error badarg"},
              {[send, hello, name], " > name: hello"},
              {['receive', hello], "< hello"},
              {[spawn, name, {m, f, [1]}], "spawned name as m:f(1)"},
              {[exit, normal], "EXIT normal"},
              {[what, ever], "unknown trace type what -- [ever]"}],
    [{M, Text} = {M, tl(lists:droplast(scrubbed(flat(sonde_trace:format(stamped(M))))))}
     || {M, T} <- Golden, Text <- ["CLOCK PID " ++ T]],
    "\nCLOCK PID m:f(x)\n" = scrubbed(flat(sonde_trace:format({trace, self(), call, {m, f, [x]}}))),
    ok.

%% ---- limits

nothing_runs_when_loaded(_Config) ->
    {module, _} = code:ensure_loaded(sonde_trace),
    true = is_ended(),
    ok = off().

count_is_a_hard_limit(_Config) ->
    Device = device(),
    1 = calls(?SEEN, 3, [{io_server, Device}]),
    _ = [?MODULE:seen(N) || N <- lists:seq(1, 10)],
    ok = ended(),
    3 = lines(Device).

zero_and_less_trace_nothing(_Config) ->
    [begin
         Device = device(),
         1 = calls(?SEEN, Max, [{io_server, Device}]),
         _ = ?MODULE:seen(1),
         ok = ended(),
         {Max, 0} = {Max, lines(Device)}
     end || Max <- [0, -1, -1.5]],
    ok.

rate_is_a_hard_limit(_Config) ->
    Device = device(),
    1 = calls(?SEEN, {3, 60000}, [{io_server, Device}]),
    _ = [?MODULE:seen(N) || N <- lists:seq(1, 10)],
    ok = ended(),
    4 = lines(Device). % the message that exceeds it is shown, as in recon

slower_than_the_rate_goes_on(_Config) ->
    Device = device(),
    1 = calls(?SEEN, {1, 1}, [{io_server, Device}]),
    _ = [begin ?MODULE:seen(N), timer:sleep(5) end || N <- lists:seq(1, 20)],
    until(all_lines, fun() -> lines(Device) =:= 20 end).

no_number_ends_at_the_first_message(_Config) ->
    [begin
         1 = calls(?SEEN, Max, [{io_server, device()}]),
         _ = ?MODULE:seen(1),
         ok = ended()
     end || Max <- [foo, {foo, 1000}, {5, foo}, "text", {1, 2, 3}]],
    [] = sonde_test:mailbox(),
    ok.

%% Messages on their way when the limit is reached are dropped, and the node recovers.
%% The interpreter would end here if global calls were traced as such.
flood_ends_at_the_limit(_Config) ->
    flood(10, 10).

rate_ends_a_flood(_Config) ->
    flood({10, 60000}, 11).

flood(Max, Lines) ->
    Device = device(),
    Memory = erlang:memory(total),
    1 = calls(?SEEN, Max, [{io_server, Device}]),
    Callers = [spawn_monitor(fun() -> [?MODULE:seen(N) || N <- lists:seq(1, 250000)] end)
               || _ <- lists:seq(1, 4)],
    _ = [receive {'DOWN', Ref, process, Pid, normal} -> ok end || {Pid, Ref} <- Callers],
    ok = ended(),
    Lines = lines(Device),
    until(memory_as_before, fun() -> erlang:memory(total) < Memory + 50000000 end).

%% ---- everything goes off, whichever process dies

off_when_the_caller_is_killed(_Config) ->
    off_after(fun(Caller) -> exit(Caller, kill) end).

off_when_the_caller_ends(_Config) ->
    off_after(fun(Caller) -> Caller ! {exit, normal} end),
    off_after(fun(Caller) -> Caller ! {exit, shutdown} end).

off_when_the_tracer_is_killed(_Config) ->
    off_after(fun(_) -> exit(whereis(sonde_trace_tracer), kill) end).

off_when_the_formatter_is_killed(_Config) ->
    off_after(fun(_) -> exit(whereis(sonde_trace_formatter), kill) end).

off_when_the_formatter_raises(_Config) ->
    _ = [off_after(fun(_) -> ?MODULE:seen(1) end, [{formatter, Fun}])
         || Fun <- [fun(_) -> exit(oops) end, fun(_) -> error(oops) end, fun(_) -> throw(oops) end,
                    fun(_) -> [no, {text}] end, fun(_) -> exit(normal) end]],
    ok.

off_when_the_formatter_hangs_and_the_caller_dies(_Config) ->
    off_after(fun(Caller) ->
                  _ = ?MODULE:seen(1),
                  exit(Caller, kill)
              end, [{formatter, fun hang/1}]).

off_when_the_guard_is_killed(_Config) ->
    off_after(fun(_) -> exit(whereis(sonde_trace_guard), kill) end).

off_when_the_device_dies(_Config) ->
    Device = device(),
    off_after(fun(_) -> exit(Device, kill) end, [{io_server, Device}]),
    Named = device(),
    register(sonde_named_device, Named),
    off_after(fun(_) -> exit(Named, kill) end, [{io_server, sonde_named_device}]),
    off_after(fun(_) -> ?MODULE:seen(1) end, [{io_server, sonde_no_device}]).

%% Without sessions a function keeps its breakpoint if every process that knows of it is killed; no
%% process is traced then.
off_when_all_but_one_are_killed(_Config) ->
    _ = [off_after(fun(_) -> [exit(P, kill) || N <- ?NAMES, N =/= Left,
                                               P <- [whereis(N)], is_pid(P)] end)
         || Left <- ?NAMES, Left =/= sonde_trace_formatter orelse has_sessions()],
    ok.

%% A shell evaluates in a separate process, which ends when an expression raises.
off_when_a_shell_ends(_Config) ->
    Eval = fun(Text) -> fun() ->
               {ok, Tokens, _} = erl_scan:string(Text),
               {ok, Exprs} = erl_parse:parse_exprs(Tokens),
               erl_eval:exprs(Exprs, [])
           end end,
    {Shell, Ref} = spawn_monitor(Eval("1 = sonde_trace:calls({trace_SUITE, seen, 1}, 10), 1 = 2.")),
    receive {'DOWN', Ref, process, Shell, {{badmatch, 2}, _}} -> ok end,
    ended().

off_after_bad_input(_Config) ->
    _ = [begin
             {'EXIT', _} = caught(fun() -> calls(TSpecs, 5, Opts) end),
             ok = ended()
         end || {TSpecs, Opts} <- [{[?SEEN, {?MODULE, seen, [foo]}], []},
                                   {[?SEEN, {?MODULE, seen, 256}], []},
                                   {[?SEEN, {'_', '_', 1}], []},
                                   {?SEEN, [{scope, foo}]},
                                   {?SEEN, [{pid, [self(), sonde_nobody]}]}]],
    [] = sonde_test:mailbox(),
    ok.

caught(Fun) ->
    try Fun() catch _:Why -> {'EXIT', Why} end.

clear_ends_a_formatter_that_hangs(_Config) ->
    1 = calls(?SEEN, 1, [{formatter, fun hang/1}]),
    _ = ?MODULE:seen(1),
    % the limit is reached, the text is still to be written: tracing is off all the same
    ok = until(off, fun() -> off() =:= ok end),
    ok = sonde_trace:clear(),
    true = is_ended(),
    ok.

%% The guard was killed, and the formatter never returns to receive its exit.
who_was_left_behind_is_ended(_Config) ->
    1 = calls(?SEEN, 10, [{formatter, fun hang/1}]),
    _ = ?MODULE:seen(1),
    Left = whereis(sonde_trace_formatter),
    exit(whereis(sonde_trace_guard), kill),
    ok = until(off, fun() -> off() =:= ok end),
    true = is_process_alive(Left),
    1 = calls(?SEEN, 1, []),
    false = is_process_alive(Left),
    _ = ?MODULE:seen(1),
    ended().

clear_may_come_from_a_formatter(_Config) ->
    1 = calls(?SEEN, 10, [{formatter, fun(_) -> sonde_trace:clear(), "text" end}]),
    _ = ?MODULE:seen(1),
    ended().

hang(_) -> receive sonde_never -> ok end.

%% Tracing must be off within a second: 200 looks with 5 ms between them, which take longer on a
%% busy machine.
off_after(End) ->
    off_after(End, []).

off_after(End, Opts) ->
    {Caller, Ref} = caller(?SEEN, 10, Opts),
    on = is_on(),
    _ = End(Caller),
    ok = off_within(200),
    end_of(Caller, Ref).

off_within(Looks) ->
    case {is_ended(), off()} of
        {true, ok} -> ok;
        Still when Looks =:= 0 -> error({still_on, Still});
        _ -> timer:sleep(5), off_within(Looks - 1)
    end.

%% A caller that traces until it is told to exit, and then fails if it has received a message.
caller(TSpecs, Max, Opts) ->
    Self = self(),
    {Caller, Ref} = spawn_monitor(fun() ->
                                      process_flag(trap_exit, true),
                                      1 = calls(TSpecs, Max, Opts),
                                      Self ! {traces, self()},
                                      Why = receive {exit, W} -> W end,
                                      [] = sonde_test:mailbox(),
                                      exit(Why)
                                  end),
    receive {traces, Caller} -> {Caller, Ref} end.

end_of(Caller, Ref) ->
    Caller ! {exit, normal},
    receive
        {'DOWN', Ref, process, Caller, Why} ->
            false = is_tuple(Why), % a badmatch: it had received a message
            ok
    end.

ended() ->
    until(ended, fun() -> is_ended() andalso off() =:= ok end).

is_on() ->
    {_, _} = off(),
    on.

%% ok if the node traces nothing; with sessions, if ours trace nothing.
off() ->
    case has_sessions() of
        true ->
            case [S || S <- sessions(all) ++ sessions(?SEEN) ++ sessions(self()), is_ours(S)] of
                [] -> ok;
                [On | _] -> {on, On}
            end;
        false ->
            Flags = [{P, F} || P <- [new | processes()],
                               {flags, [_ | _] = F} <- [erlang:trace_info(P, flags)]],
            Functions = [{F, I} || F <- [?SEEN, {?MODULE, outer, 1}],
                                   {all, I} <- [erlang:trace_info(F, all)], I =/= false],
            case Flags ++ Functions of
                [] -> ok;
                [Flag | _] -> {on, Flag}
            end
    end.

has_sessions() ->
    {module, trace} =:= code:ensure_loaded(trace).

sessions(What) ->
    Trace = trace,
    case Trace:session_info(What) of
        Sessions when is_list(Sessions) -> Sessions;
        _ -> []
    end.

is_ours({sonde_trace, _}) -> true;
is_ours({_, {sonde_trace, _}}) -> true;
is_ours(_) -> false.

%% ---- the caller, and other tracers

caller_is_not_linked_and_gets_no_message(_Config) ->
    sonde_test:no_message(fun() ->
        Was = process_info(self(), [links, monitors, monitored_by]),
        1 = calls(?SEEN, 2, []),
        _ = [?MODULE:seen(N) || N <- [1, 2, 3]],
        ok = ended(),
        1 = calls(?SEEN, 2, []),
        1 = calls(?SEEN, 2, [{formatter, fun(_) -> exit(oops) end}]),
        _ = [?MODULE:seen(N) || N <- [1, 2, 3]],
        ok = ended(),
        ok = sonde_trace:clear(),
        Was = process_info(self(), [links, monitors, monitored_by])
    end).

the_next_call_ends_the_last(_Config) ->
    First = device(),
    Second = device(),
    1 = calls(?SEEN, 10, [{io_server, First}]),
    Old = [whereis(N) || N <- ?NAMES],
    1 = calls({?MODULE, outer, 1}, 1, [{io_server, Second}]),
    [] = [P || P <- Old, is_process_alive(P)],
    _ = ?MODULE:seen(1),
    _ = ?MODULE:outer(1),
    ok = ended(),
    {0, 1} = {lines(First), lines(Second)}.

%% The last caller traces; the others traced before it, or got setup_failed.
callers_at_the_same_time(_Config) ->
    _ = [begin
             Device = device(),
             Racers = [racer(Device) || _ <- lists:seq(1, 4)],
             _ = [Racer ! go || {Racer, _} <- Racers],
             Said = [receive {said, Racer, What} -> What end || {Racer, _} <- Racers],
             {_, []} = {Said, Said -- [S || S <- Said, S =:= 1 orelse S =:= setup_failed]},
             {_, true} = {Said, lists:member(1, Said)},
             on = is_on(),
             round = ?MODULE:seen(round),
             ok = until(its_line, fun() -> lines(Device) > 0 end),
             _ = [Racer ! done || {Racer, _} <- Racers],
             _ = [receive {'DOWN', Ref, process, Racer, Why} -> normal = Why end
                  || {Racer, Ref} <- Racers],
             ok = ended(),
             1 = lines(Device)
         end || _ <- lists:seq(1, 25)],
    ok.

%% It tries once on demand, and stays until all have tried.
racer(Device) ->
    Test = self(),
    spawn_monitor(fun() ->
                      receive go -> ok end,
                      Said = sonde_test:raised(fun() -> calls(?SEEN, 3, [{io_server, Device}]) end),
                      Test ! {said, self(), case Said of {returned, N} -> N; Why -> Why end},
                      receive done -> ok end
                  end).

somebody_elses_tracing_goes_on(_Config) ->
    case has_sessions() of
        false -> {skip, "this release has one tracing for all"};
        true -> ok = goes_on(fun in_session/1), ok = goes_on(fun in_the_nodes_tracing/1)
    end.

goes_on(Begin) ->
    Tracer = spawn_link(fun() -> tracer([]) end),
    End = Begin(Tracer),
    Device = device(),
    1 = calls(?SEEN, 2, [{io_server, Device}]),
    _ = ?MODULE:seen(during),
    ok = until(first_line, fun() -> lines(Device) =:= 1 end),
    ok = sonde_trace:clear(),
    _ = ?MODULE:seen(after_clear),
    1 = calls(?SEEN, 1, [{io_server, Device}]),
    _ = ?MODULE:seen(limit),
    ok = ended(),
    _ = ?MODULE:seen(after_limit),
    ok = until(all_messages, fun() -> length(tracer_got(Tracer)) =:= 4 end),
    [[during], [after_clear], [limit], [after_limit]]
        = [Args || {trace, _, call, {?MODULE, seen, Args}} <- tracer_got(Tracer)],
    2 = lines(Device),
    End(),
    unlink(Tracer),
    exit(Tracer, kill),
    ok.

in_session(Tracer) ->
    Trace = trace,
    Session = Trace:session_create(somebody, Tracer, []),
    1 = Trace:function(Session, ?SEEN, true, [local]),
    1 = Trace:process(Session, self(), true, [call]),
    fun() -> Trace:session_destroy(Session) end.

in_the_nodes_tracing(Tracer) ->
    1 = erlang:trace_pattern(?SEEN, true, [local]),
    1 = erlang:trace(self(), true, [call, {tracer, Tracer}]),
    fun() ->
        erlang:trace(self(), false, [call]),
        erlang:trace_pattern(?SEEN, false, [local])
    end.

%% Contract: without sessions, all call tracing of the node goes off.
somebody_elses_tracing_ends_before_sessions(_Config) ->
    case has_sessions() of
        true -> {skip, "this release has sessions"};
        false ->
            Tracer = spawn_link(fun() -> tracer([]) end),
            _ = in_the_nodes_tracing(Tracer),
            {on, _} = off(),
            ok = sonde_trace:clear(),
            ok = off(),
            unlink(Tracer),
            exit(Tracer, kill),
            ok
    end.

tracer(Got) ->
    receive
        {got, From} -> From ! {self(), lists:reverse(Got)}, tracer(Got);
        Message -> tracer([Message | Got])
    end.

tracer_got(Tracer) ->
    Tracer ! {got, self()},
    receive {Tracer, Got} -> Got end.

%% A formatter that calls the traced function would feed itself until the limit.
own_processes_are_not_traced(_Config) ->
    Device = device(),
    Format = fun({trace, _, call, {_, _, [X]}}) ->
                     _ = ?MODULE:seen(text),
                     io_lib:format("~p~n", [X])
             end,
    1 = calls(?SEEN, 4, [{io_server, Device}, {formatter, Format}]),
    _ = [?MODULE:seen(N) || N <- [1, 2, 3]],
    ok = until(three_lines, fun() -> lines(Device) >= 3 end),
    _ = ?MODULE:seen(4),
    ok = ended(),
    "1\n2\n3\n4\n" = text(Device).

%% ---- options

pids_of_all_kinds(_Config) ->
    Caller = spawn_link(fun Loop() ->
                            receive {call, From} -> ?MODULE:seen(1), From ! done, Loop() end
                        end),
    register(sonde_traced, Caller),
    yes = global:register_name(sonde_traced, Caller),
    Text = pid_to_list(Caller),
    ["<0", B, C] = string:split(string:trim(Text, trailing, ">"), ".", all),
    Kinds = [Caller, [Caller], [whereis(init), Caller], sonde_traced, Text, list_to_binary(Text),
             [Text, init], {0, list_to_integer(B), list_to_integer(C)}, {global, sonde_traced},
             {via, global, sonde_traced}, existing, all, [new, sonde_traced]],
    _ = [begin
             Device = device(),
             1 = calls(?SEEN, 1, [{io_server, Device}, {pid, Kind}]),
             Caller ! {call, self()},
             receive done -> ok end,
             ok = ended(),
             {Kind, 1} = {Kind, lines(Device)}
         end || Kind <- Kinds],
    _ = global:unregister_name(sonde_traced),
    unlink(Caller),
    sonde_test:stop(Caller).

new_processes_only(_Config) ->
    Device = device(),
    1 = calls(?SEEN, 1, [{io_server, Device}, {pid, new}]),
    _ = ?MODULE:seen(old),
    {Pid, Ref} = spawn_monitor(fun() -> ?MODULE:seen(new) end),
    receive {'DOWN', Ref, process, Pid, normal} -> ok end,
    ok = ended(),
    {match, _} = re:run(text(Device), "trace_SUITE:seen\\(new\\)"),
    1 = lines(Device).

shell_funs_are_match_specs(_Config) ->
    Device = device(),
    1 = calls({?MODULE, seen, shell_fun("fun([X]) when X > Y -> return_trace() end.")}, 2,
              [{io_server, Device}]),
    _ = [?MODULE:seen(N) || N <- [1, 2, 3]], % Y is 2
    ok = ended(),
    {match, _} = re:run(text(Device), "seen\\(3\\)\n.*seen/1 --> 3\n", [dotall]).

shell_fun(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, [Expr]} = erl_parse:parse_exprs(Tokens),
    {value, Fun, _} = erl_eval:expr(Expr, [{'Y', 2}]),
    Fun.

empty_text_prints_nothing(_Config) ->
    Device = device(),
    Fun = fun({trace, _, call, {_, _, [1]}}) -> ""; (_) -> "text\n" end,
    1 = calls(?SEEN, 2, [{io_server, Device}, {formatter, Fun}]),
    _ = [?MODULE:seen(N) || N <- [1, 2]],
    ok = ended(),
    {1, "text\n"} = {requests(Device), text(Device)}.

text_with_tildes_is_text(_Config) ->
    Device = device(),
    1 = calls(?SEEN, 1, [{io_server, Device}]),
    _ = ?MODULE:seen("~p~n~~"),
    ok = ended(),
    {match, _} = re:run(text(Device), "seen\\(\"~p~n~~\"\\)").

unicode_text(_Config) ->
    Device = device(),
    Fun = fun({trace, _, call, {_, _, [Text]}}) -> ["<", Text, ">"] end,
    1 = calls(?SEEN, 2, [{io_server, Device}, {formatter, Fun}]),
    _ = [?MODULE:seen(T) || T <- [[960], <<"\x{3c0}"/utf8>>]],
    ok = ended(),
    [$<, 960, $>, $<, 960, $>] = text(Device).

%% The end is reported where the caller's text goes, as in recon: the device may be a file.
text_goes_to_the_device(_Config) ->
    Device = device(),
    Leader = group_leader(),
    Own = device(),
    group_leader(Own, self()),
    1 = sonde_trace:calls(?SEEN, 1, [{io_server, Device}]),
    1 = ?MODULE:seen(1),
    ok = ended(),
    1 = sonde_trace:calls(?SEEN, 1),
    1 = ?MODULE:seen(1),
    ok = ended(),
    group_leader(Leader, self()),
    "\nCLOCK PID trace_SUITE:seen(1)\n" = scrubbed(text(Device)),
    ?TRIPPED ++ "\nCLOCK PID trace_SUITE:seen(1)\n" ++ ?TRIPPED = scrubbed(text(Own)),
    ok.

without_arguments(_Config) ->
    Device = device(),
    1 = calls(?SEEN, 1, [{io_server, Device}, {args, arity}]),
    _ = ?MODULE:seen(lists:seq(1, 100000)),
    ok = ended(),
    "\nCLOCK PID trace_SUITE:seen/1\n" = scrubbed(text(Device)).

times_of_the_calls(_Config) ->
    Self = self(),
    Fun = fun({trace_ts, _, call, _, {_, _, _} = Time}) -> Self ! {at, Time}, "" end,
    1 = calls(?SEEN, 1, [{formatter, Fun}, {timestamp, trace}]),
    Before = os:timestamp(),
    _ = ?MODULE:seen(1),
    After = os:timestamp(),
    receive
        {at, Time} -> true = Before =< Time andalso Time =< After
    end,
    ended().

%% ---- what is traced

seen(X) -> X.

fails(_) -> error(seen).

%% Not a tail call, so it returns here.
outer(X) -> {inner(X)}.

inner(X) -> {X}.

%% Writes to a device that receives no other text of the suite.
calls(TSpecs, Max, Opts) ->
    Device = [{io_server, device()} || not proplists:is_defined(io_server, Opts)],
    sonde_trace:calls(TSpecs, Max, Device ++ Opts).

dead() ->
    {Pid, ok} = sonde_test:in_process(fun() -> ok end),
    Pid.

numbered(List) ->
    lists:zip(lists:seq(1, length(List)), List).

flat(Text) ->
    unicode:characters_to_list(Text).

%% ---- an output device that remembers

device() ->
    spawn(fun() -> device([]) end).

device(Texts) ->
    receive
        {io_request, From, As, Request} ->
            {Reply, More} = io(Request),
            From ! {io_reply, As, Reply},
            device(More ++ Texts);
        {texts, From} ->
            From ! {self(), lists:reverse(Texts)},
            device(Texts)
    end.

io({put_chars, _, Chars}) -> put_chars(Chars);
io({put_chars, _, M, F, A}) -> put_chars(try apply(M, F, A) catch error:_ -> bad end);
io(_) -> {{error, request}, []}.

put_chars(Chars) ->
    try unicode:characters_to_list(Chars) of
        Text when is_list(Text) -> {ok, [Text]};
        _ -> {{error, put_chars}, []}
    catch error:_ -> {{error, put_chars}, []}
    end.

texts(Device) ->
    Device ! {texts, self()},
    receive {Device, Texts} -> Texts end.

text(Device) -> lists:append(texts(Device)).

requests(Device) -> length(texts(Device)).

%% Each message is written in one request.
lines(Device) -> requests(Device).
