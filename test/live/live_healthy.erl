%% Diagnoses of servers: of healthy ones, idle, under load and idle again, in which nothing may be
%% accused; and of a broker with planted faults, each of which must be accused first. healthy.sh
%% starts it, on a hidden node beside a running broker.
%%
%%   HEALTHY_DIAGNOSES   of each server, idle and under load each (50); a fifth of it afterwards
%%   HEALTHY_SERVERS     some of "rabbitmq faults yaws ejabberd" (all)
-module(live_healthy).

-export([main/1]).

-import(live_report, [title/1, say/2, check/4]).

-define(BROKER, 'rabbit@localhost').
-define(WARM_MS, 10000).
-define(RATE, 1000).        % messages in a second
-define(CALL_MS, 120000).
-define(FAULT_DIAGNOSES, 3).

main([Port, _Seconds, _Logs]) ->
    live_report:start(),
    _ = process_flag(trap_exit, true),
    ok = application:load(sonde),
    ok = logger:set_primary_config(level, none),
    pong = net_adm:ping(?BROKER),
    Wanted = string:lexemes(os:getenv("HEALTHY_SERVERS", "rabbitmq faults yaws ejabberd"), " "),
    _ = [look(What, list_to_integer(Port)) || What <- Wanted],
    halt(live_report:finish("rabbitmq")).

look(What, Port) ->
    try server(What, Port)
    catch Class:Why:Stack ->
            check(What ++ " came to its end", false, "~0tp", [{Class, Why, Stack}])
    end.

server("rabbitmq", Port) ->
    Load = fun() ->
                   Clients = live_load:start(Port),
                   ok = live_load:pace(Clients, {rate, ?RATE}),
                   fun() -> live_load:drain(Clients), live_load:stop(Clients) end
           end,
    idle_and_loaded("RabbitMQ", ?BROKER, Load);
server("faults", Port) ->
    ok = with_sonde(?BROKER),
    {module, _} = live_faults:load(?BROKER),
    _ = [fault(Fault) || Fault <- live_faults:all(Port)],
    ok;
server("yaws", _) ->
    {Node, Http, Stop} = live_servers:yaws(),
    idle_and_loaded("yaws", Node, fun() -> live_requests:http(Http) end),
    Stop();
server("ejabberd", _) ->
    {Node, Xmpp, Stop} = live_servers:ejabberd(),
    idle_and_loaded("ejabberd", Node, fun() -> live_requests:xmpp(Node, Xmpp) end),
    Stop().

%% ---- healthy servers

idle_and_loaded(Name, Node, Load) ->
    ok = with_sonde(Node),
    healthy(Name ++ ", idle", Node, times()),
    Stop = Load(),
    healthy(Name ++ ", under load", Node, times()),
    Stop(),
    healthy(Name ++ ", idle again", Node, max(1, times() div 5)).

with_sonde(Node) ->
    [{Node, {Result, #{status := active}}}] = sonde:remote_load([Node], sonde),
    true = lists:member(Result, [ok, already]),
    ok.

healthy(Name, Node, Times) ->
    title(Name),
    timer:sleep(?WARM_MS),
    Start = erlang:monotonic_time(second),
    Diagnoses = [on(Node, sonde, diagnosis, []) || _ <- lists:seq(1, Times)],
    Suspects = [S || #{suspects := Suspects} <- Diagnoses, S <- Suspects],
    Accusing = length([x || #{suspects := [_ | _]} <- Diagnoses]),
    say("~b diagnoses in ~b s, ~s MB, not looked at: ~0tp",
        [length(Diagnoses), erlang:monotonic_time(second) - Start, total(Diagnoses),
         lists:usort([Part || #{not_looked_at := Not} <- Diagnoses, Part <- Not])]),
    distinct(Node, Suspects),
    check("nothing is accused", Suspects =:= [], "~b of ~b diagnoses have suspects",
          [Accusing, length(Diagnoses)]).

times() -> list_to_integer(os:getenv("HEALTHY_DIAGNOSES", "50")).

total(Diagnoses) ->
    #{memory := #{total := Total}} = lists:last(Diagnoses),
    megabytes(Total).

%% Each distinct suspect, with how often it was accused and, for a process, what a collection frees.
distinct(Node, Suspects) ->
    Groups = maps:groups_from_list(fun(#{kind := K, what := W, remedy := R}) -> {K, W, R} end,
                                   Suspects),
    _ = [say("~b times ~s, ~0tp, ~s MB, remedy ~s~n    ~0tp~n    ~0tp",
             [length(Of), Kind, What, megabytes(most(Of)), Remedy, evidence(hd(Of)),
              tried(Node, What)])
         || {{Kind, What, Remedy}, Of} <- maps:to_list(Groups)],
    ok.

most(Suspects) -> lists:max([Bytes || #{bytes := Bytes} <- Suspects]).

evidence(#{evidence := Evidence}) -> Evidence.

tried(Node, Pid) when is_pid(Pid) ->
    case on(Node, erlang, process_info, [Pid, [memory, dictionary, status, current_function]]) of
        undefined ->
            dead;
        [Memory, {_, Dictionary}, Status, Function] ->
            Before = on(Node, sonde, heap, [Pid]),
            true = on(Node, erlang, garbage_collect, [Pid]),
            [{initial_call, proplists:get_value('$initial_call', Dictionary)}, Status, Function,
             Memory, {then, on(Node, erlang, process_info, [Pid, memory])},
             {heap, brief(Before)}, {heap_then, brief(on(Node, sonde, heap, [Pid]))}]
    end;
tried(_, _) ->
    [].

brief(#{} = Heap) -> maps:with([garbage, reachable, roots, binaries], Heap);
brief(Other) -> Other.

%% ---- faults

fault({Name, Kind, Plant}) ->
    title("RabbitMQ, planted: " ++ Name),
    {What, End} = Plant(?BROKER),
    timer:sleep(?WARM_MS div 2),
    Found = [First || _ <- lists:seq(1, ?FAULT_DIAGNOSES),
                      First <- first(on(?BROKER, sonde, diagnosis, []))],
    check("it is named first", [{Kind, What}] =:= lists:usort(Found), "~0tp, planted: ~0tp",
          [Found, {Kind, What}]),
    ok = End().

first(#{suspects := []}) -> [nothing];
first(#{suspects := [#{kind := Kind, what := What} = First | Others]}) ->
    say("first: ~s, ~s MB, share ~.2f, remedy ~s, ~0tp",
        [Kind, megabytes(map_get(bytes, First)), map_get(share, First), map_get(remedy, First),
         evidence(First)]),
    _ = [say("also: ~s, ~s MB, ~0tp ~0tp", [K, megabytes(B), W, E])
         || #{kind := K, bytes := B, what := W, evidence := E} <- Others],
    [{Kind, What}].

%% ---- parts

megabytes(Bytes) -> io_lib:format("~.1f", [Bytes / 1000000]).

on(Node, Module, Function, Args) -> erpc:call(Node, Module, Function, Args, ?CALL_MS).
