%% What the live page (sonde_web) costs the node that it shows: the processor time of a node with N idle
%% processes while nobody looks, and while viewers do, as percent of its processors. Others of its processes may work
%% meanwhile, the same amount in each second. The viewers are on a node of their own. bench/web runs it.
-module(bench_web).

-export([node/1, viewers/1]).

-define(READY_MS, 5000).
-define(TICK_MS, 10).
-define(WINDOW_MS, 500).      % to find how much work is one percent

%% Prints the address, then a row for each number of viewers that comes by standard input. `Work': percent of the
%% processors that other processes take.
-spec node([string()]) -> no_return().
node([N, Seconds, Work]) ->
    ok = many(list_to_integer(N)),
    ok = workers(list_to_integer(Work)),
    {ok, _} = sonde_web:start_link(#{}),
    ok = timer:sleep(?READY_MS),
    io:format("~s~n", [sonde_web:url()]),
    rows(list_to_integer(N), list_to_integer(Seconds) * 1000).

many(N) ->
    Self = self(),
    _ = [spawn_opt(fun() -> [Self ! ready || I =:= N], receive stop -> ok end end, [{min_heap_size, 12}]) || I <- lists:seq(1, N)],
    receive ready -> ok end.

%% One for each scheduler, with garbage, so that they collect.
workers(0) -> ok;
workers(Percent) ->
    Until = erlang:monotonic_time(millisecond) + ?WINDOW_MS,
    Rounds = ?TICK_MS * Percent * rounds(Until, 0) div (100 * ?WINDOW_MS),
    _ = [spawn(fun() -> tick(Rounds, erlang:monotonic_time(millisecond)) end) || _ <- lists:seq(1, erlang:system_info(schedulers_online))],
    ok.

rounds(Until, Done) ->
    case erlang:monotonic_time(millisecond) >= Until of
        true -> Done;
        false -> ok = round_of_work(), rounds(Until, Done + 1)
    end.

round_of_work() ->
    5050 = lists:sum([X || {X, _} <- [{I, [I]} || I <- lists:seq(1, 100)]]),
    ok.

%% After a late tick, the sleeps are shorter.
tick(Rounds, At) ->
    lists:foreach(fun(_) -> round_of_work() end, lists:seq(1, Rounds)),
    ok = timer:sleep(max(0, At + ?TICK_MS - erlang:monotonic_time(millisecond))),
    tick(Rounds, At + ?TICK_MS).

rows(N, Ms) ->
    case io:get_line("") of
        eof -> halt(0);
        Line ->
            {Before, _} = erlang:statistics(runtime),
            ok = timer:sleep(Ms),
            {After, _} = erlang:statistics(runtime),
            Cores = erlang:system_info(schedulers_online),
            io:format("~s processes, ~s viewers: ~.3f % of ~b processors~n",
                      [integer_to_list(N), string:trim(Line), 100 * (After - Before) / Ms / Cores, Cores]),
            rows(N, Ms)
    end.

%% Looks as the page does, and prints at the end how long the parts took, and how often they came.
-spec viewers([string()]) -> no_return().
viewers([Url, Viewers, Seconds]) ->
    #{host := Host, port := Port, path := Path} = uri_string:parse(Url),
    Until = erlang:monotonic_time(millisecond) + list_to_integer(Seconds) * 1000,
    Self = self(),
    Pids = [spawn_link(fun() -> Self ! {self(), look({Host, Port, Path}, 0, Until, 0)} end)
            || _ <- lists:seq(1, list_to_integer(Viewers))],
    [{Answers, Last} | _] = [receive {Pid, Seen} -> Seen end || Pid <- Pids],
    io:format("  ~b answers of ~b bytes; ~s~n", [Answers, byte_size(Last), parts(Last)]),
    halt(0).

look({Host, Port, Path} = Where, After, Until, Answers) ->
    {ok, Socket} = gen_tcp:connect(Host, Port, [binary, {active, false}]),
    Last = erlang:monotonic_time(millisecond) >= Until,
    From = case Last of true -> 0; false -> After end,
    ok = gen_tcp:send(Socket, ["GET ", Path, "data?after=", integer_to_list(From), " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"]),
    Json = received(Socket, []),
    {match, [Number]} = re:run(Json, "\"number\":([0-9]+)", [{capture, [1], list}]),
    case Last of
        true -> {Answers, Json};
        false ->
            ok = timer:sleep(1000),
            look(Where, list_to_integer(Number), Until, Answers + 1)
    end.

received(Socket, Parts) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, Part} -> received(Socket, [Parts, Part]);
        {error, closed} -> iolist_to_binary(Parts)
    end.

parts(Json) ->
    [_, Parts] = binary:split(Json, <<"\"parts\":">>),
    {match, Found} = re:run(Parts, "\"every\":([0-9]+)[^{}]*\"ms\":([0-9.]+)|\"in\":([0-9]+)|\"(allocators|binaries|busy|diagnosis|groups|ports|processes|stacks|tables|waits)\":\\{\"at\"",
                            [global, {capture, all_but_first, list}]),
    lists:join(" ", [case F of
                         [_, _, _, Name] -> ["; ", Name];
                         ["", "", In] -> ["first in ", In, " ms"];
                         [Every, Took] -> [Took, " ms each ", Every]
                     end || F <- Found]).
