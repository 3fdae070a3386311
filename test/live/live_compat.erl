%% A broker that has compat/recon, and sonde behind it, in place of recon: its memory monitor, which
%% uses recon_alloc, goes on, and its messages flow. rabbitmq.sh starts it.
-module(live_compat).

-export([main/1]).

-import(live_report, [title/1, say/2, check/3, check/4]).
-import(live_rabbitmq, [call/3]).

-define(NODE, 'rabbit@localhost').
-define(MODULES, [recon, recon_lib, recon_alloc, recon_map, recon_rec, recon_trace]).
-define(RATE, 2000).           % messages a second
-define(FIGURES, 8).           % of the monitor, a second apart
-define(DEPTH, 400).           % messages in each queue without a consumer
-define(MONITOR_MS, 6000).     % the monitor looks every 2.5 seconds by itself

main([Port, _Seconds, Logs]) ->
    live_report:start(),
    ok = logger:set_primary_config(level, none),
    pong = net_adm:ping(?NODE),
    Status = try run(list_to_integer(Port), Logs)
             catch Class:Why:Stack ->
                     check("the test came to its end", false, {Class, Why, Stack}),
                     live_report:finish("rabbitmq")
             end,
    halt(Status).

run(Port, Logs) ->
    title("The broker"),
    recon(),
    title("Its memory monitor"),
    asks_by_itself(),
    Load = live_load:start(Port),
    grows(Load),
    moves(Load),
    agrees(),
    title("recon's calls in it"),
    calls(),
    live_rabbitmq:afterwards(Load, Logs),
    live_report:finish("rabbitmq").

recon() ->
    {ok, Version} = call(application, get_key, [recon, vsn]),
    say("RabbitMQ on OTP ~s", [call(erlang, system_info, [otp_release])]),
    Files = [call(code, which, [M]) || M <- ?MODULES],
    check("its recon is compat/recon", Version =:= "2.5.6" andalso
              lists:all(fun(F) -> string:find(F, "/recon-2.5.6/") =/= nomatch end, Files), Version),
    #{status := Status} = call(sonde, native, []),
    check("sonde reads natively", Status =:= active, Status).

%% ---- the memory monitor: strategy `allocated', which is recon_alloc's

%% Counted by the VM; nothing else calls it meanwhile.
asks_by_itself() ->
    Functions = call(erlang, trace_pattern, [{sonde_alloc, memory, '_'}, true, [call_count]]),
    timer:sleep(?MONITOR_MS),
    Counts = [call(erlang, trace_info, [{sonde_alloc, memory, A}, call_count]) || A <- [1, 2]],
    _ = call(erlang, trace_pattern, [{sonde_alloc, memory, '_'}, false, [call_count]]),
    check("it asks ours by itself", Functions > 0 andalso
              lists:max([N || {call_count, N} <- Counts]) > 0,
          "~p in ~b ms", [Counts, ?MONITOR_MS]).

grows(Load) ->
    Before = monitored(),
    ok = live_load:fill(Load, ?DEPTH),
    After = grown(Before, 20),
    check("its figure grows with what the queues hold", After > Before, {Before, After}).

%% The monitor looks every few seconds.
grown(Before, Seconds) ->
    case monitored() of
        Figure when Figure > Before; Seconds =:= 0 -> Figure;
        _ -> timer:sleep(1000), grown(Before, Seconds - 1)
    end.

moves(Load) ->
    ok = live_load:pace(Load, {rate, ?RATE}),
    Figures = [begin timer:sleep(1000), monitored() end || _ <- lists:seq(1, ?FIGURES)],
    ok = live_load:pace(Load, paused),
    check("its figures go on changing under load", length(lists:usort(Figures)) >= ?FIGURES div 2,
          Figures).

monitored() ->
    call(vm_memory_monitor, get_process_memory, []).

%% Compares two looks at a broker that is not quite still.
agrees() ->
    timer:sleep(2000),
    Allocated = call(recon_alloc, memory, [allocated]),
    Total = call(erlang, memory, [total]),
    Monitored = monitored(),
    check("it is what recon_alloc says", near(Monitored, Allocated, 5), {Monitored, Allocated}),
    {total, Totals} = lists:keyfind(total, 1, call(rabbit_vm, memory, [])),
    check("and so is the total in its breakdown",
          near(proplists:get_value(allocated, Totals), Allocated, 5), Totals),
    check("more is allocated than used", Allocated > Total, {Allocated, Total}),
    Used = call(recon_alloc, memory, [used]),
    %% The total includes the allocators of literals and machine code as well.
    check("used is most of erlang:memory(total)", Used < Total andalso Used * 3 > Total * 2,
          {Used, Total}).

near(A, B, Percent) ->
    abs(A - B) * 100 =< B * Percent.

%% ---- as people on call use it

calls() ->
    Rows = call(recon, proc_count, [memory, 10]),
    Values = [V || {_, V, _} <- Rows],
    check("proc_count", length(Rows) =:= 10 andalso Values =:= lists:reverse(lists:sort(Values)),
          Values),
    Types = call(recon, port_types, []),
    Sockets = live_load:connections(),
    check("port_types counts the connections", proplists:get_value("tcp_inet", Types, 0) >= Sockets,
          Types),
    Ports = call(recon, inet_count, [oct, 5]),
    check("inet_count", [] =/= Ports andalso
              lists:all(fun({P, N, _}) -> is_port(P) andalso N > 0 end, Ports), length(Ports)),
    Largest = element(1, hd(Rows)),
    [{memory_used, [_ | _]}] = [Info || {memory_used, _} = Info <- call(recon, info, [Largest])],
    Fragments = call(recon_alloc, fragmentation, [current]),
    check("fragmentation", length(Fragments) > 5, length(Fragments)),
    Limiter = call(recon, get_state, [vm_memory_monitor]),
    check("get_state of the monitor", is_tuple(Limiter), element(1, Limiter)).
