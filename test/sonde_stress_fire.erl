%% The fire: processes that are born and die by the ten thousand, run, collect, hibernate, grow and
%% shrink, receive mail of every kind, link, monitor, are suspended, traced or killed.
%%
%% To add a kind of fire, add a line in kinds/0 and a clause of burn/1, which is called repeatedly.
-module(sonde_stress_fire).

-export([start/2]).

-define(BORN, 60).          % at once

%% Returns all processes to kill at the end. Crowd: the number of permanent processes. Options: hot
%% leaves no scheduler idle; foreign adds native calls of another library.
start(Crowd, Options) ->
    Kinds = [{Kind, Times} || {Kind, Times, Condition} <- kinds(),
                              Condition =:= always orelse lists:member(Condition, Options)],
    [spawn(fun() -> member(I rem 10) end) || I <- lists:seq(1, Crowd)]
        ++ [spawn(fun() -> _ = rand:seed(exsss), keep(Kind) end)
            || {Kind, Times} <- Kinds, _ <- lists:seq(1, Times)].

kinds() ->
    [{births, 1, always}, {hibernates, 1, always}, {ties, 1, always}, {aliases, 1, always},
     {hog, erlang:system_info(schedulers), hot}, {births, 1, hot}, {collects, 5, hot},
     {collects_much, 1, hot}, {hibernates, 1, hot}, {swells, 2, hot}, {mails, 5, hot}, {floods, 1, hot},
     {ties, 1, hot}, {suspends, 1, hot}, {traces, 1, hot}, {too_large, 1, hot}, {ports, 1, hot},
     {files, 2, hot}, {tables, 1, hot}, {reloads, 1, hot}, {holds_in_dirty_calls, 2, foreign}]
        ++ [{prioritizes, 1, hot} || erlang:system_info(otp_release) >= "28"].

keep(Kind) ->
    burn(Kind),
    keep(Kind).

%% One in ten sleeps for ever; the others act now and then, each in its own way.
member(0) ->
    receive never -> ok end;
member(How) ->
    _ = rand:seed(exsss),
    _ = [process_flag(message_queue_data, off_heap) || How =:= 9],
    member(How, []).

member(How, Kept) ->
    receive Got -> member(How, [Got])
    after 300 + rand:uniform(2700) -> member(How, act(How, Kept))
    end.

act(1, _) -> [binary:copy(<<1>>, 100) || _ <- lists:seq(1, 10)];
act(2, Kept) -> true = garbage_collect(), Kept;
act(3, Kept) -> true = garbage_collect(self(), [{type, minor}]), [Kept];
act(4, _) -> lists:seq(1, rand:uniform(2000));
act(5, _) -> put(rand:uniform(50), lists:seq(1, 20));
act(6, _) -> [begin self() ! {mail, I, binary:copy(<<2>>, 70)}, I end || I <- [1, 2, 3]];
act(7, _) -> binary:copy(<<7>>, 65 + rand:uniform(5000));
act(8, _) -> [monitor(process, init), alias()];
act(9, Kept) -> self() ! binary:copy(<<3>>, 500), Kept.

%% Processes that do a little and die.
burn(births) ->
    _ = [spawn(fun() -> little(rand:uniform(300)) end) || _ <- lists:seq(1, ?BORN)],
    pause(5);
burn(hog) ->
    _ = lists:foldl(fun(I, Sum) -> Sum + I * I end, 0, lists:seq(1, 2000)),
    ok;
burn(collects) ->
    Data = [{I, binary:copy(<<1>>, 65)} || I <- lists:seq(1, rand:uniform(2000))],
    true = garbage_collect(self(), [{type, one_of([major, minor])}]),
    pause(length(Data) rem 3);
%% So much data that a dirty scheduler collects it.
burn(collects_much) ->
    Data = lists:seq(1, 300000),
    true = garbage_collect(),
    pause(length(Data) rem 3 + 20);
burn(hibernates) ->
    P = spawn(fun() -> _ = lists:seq(1, 500), erlang:hibernate(timer, sleep, [20]) end),
    P ! wake,
    pause(1);
%% Blocks large enough to be mapped and unmapped.
burn(swells) ->
    P = spawn(fun() -> little(length(lists:seq(1, 100000 + rand:uniform(400000)))) end),
    pause(20),
    exit(P, kill);
burn(mails) ->
    Kind = [{message_queue_data, one_of([on_heap, off_heap])}],
    Reader = spawn_opt(fun() -> reads_some(500) end, Kind),
    _ = [spawn(fun() -> [Reader ! {I, binary:copy(<<2>>, 80)} || I <- lists:seq(1, 200)] end)
         || _ <- lists:seq(1, 4)],
    pause(10),
    exit(Reader, kill);
%% Several send to a process with off-heap mail: each gets its own buffer, and they send in
%% parallel.
burn(floods) ->
    Reader = spawn_opt(fun() -> reads_some(1000000) end, [{message_queue_data, off_heap}]),
    Senders = [spawn_monitor(fun() -> flood(Reader, 5000) end) || _ <- lists:seq(1, 4)],
    _ = [receive {'DOWN', Ref, _, _, _} -> ok end || {_, Ref} <- Senders],
    exit(Reader, kill),
    pause(50);
burn(ties) ->
    Others = [spawn(fun() -> receive stop -> ok after 200 -> ok end end) || _ <- lists:seq(1, 100)],
    Refs = [monitor(process, P) || P <- Others],
    _ = [link(P) || P <- Others],
    _ = [demonitor(R, [flush]) || R <- Refs],
    _ = [begin unlink(P), exit(P, kill) end || P <- Others],
    pause(1);
burn(aliases) ->
    Aliases = [alias(Opts) || _ <- lists:seq(1, 20), Opts <- [[], [reply]]],
    _ = spawn(fun() -> [A ! {to_an_alias, binary:copy(<<5>>, 90)} || A <- Aliases] end),
    _ = [receive {to_an_alias, _} -> ok after 5 -> ok end || _ <- Aliases],
    _ = [unalias(A) || A <- Aliases],
    pause(1);
burn(suspends) ->
    P = spawn(fun() -> little(100000) end),
    _ = try
            true = erlang:suspend_process(P),
            pause(2),
            true = erlang:resume_process(P)
        catch error:badarg -> dead
        end,
    exit(P, kill);
burn(traces) ->
    P = spawn(fun() -> reads_some(100) end),
    Tracer = spawn(fun() -> reads_some(1000) end),
    _ = try erlang:trace(P, true, ['receive', send, {tracer, Tracer}]) catch error:badarg -> 0 end,
    _ = [P ! I || I <- lists:seq(1, 100)],
    pause(5),
    exit(P, kill),
    exit(Tracer, kill);
burn(too_large) ->
    _ = spawn_opt(fun() -> lists:seq(1, 1000000) end,
                  [{max_heap_size, #{size => 50000, kill => true, error_logger => false}}]),
    pause(10);
burn(ports) ->
    Port = open_port({spawn, "cat"}, [binary]),
    true = port_command(Port, binary:copy(<<3>>, 1000)),
    receive {Port, {data, _}} -> ok after 1000 -> ok end,
    true = port_close(Port),
    pause(20);
%% Calls on dirty schedulers that read and write binaries.
burn(files) ->
    {ok, File} = file:open("/dev/zero", [read, write, raw, binary]),
    {ok, Bytes} = file:read(File, 50000),
    ok = file:write(File, [Bytes, binary:copy(<<6>>, 300)]),
    ok = file:close(File),
    pause(1);
burn(tables) ->
    T = ets:new(t, [public]),
    _ = [ets:insert(T, {I, binary:copy(<<4>>, 100)}) || I <- lists:seq(1, 1000)],
    true = ets:delete(T),
    pause(5);
burn(reloads) ->
    _ = case code:soft_purge(sonde_nif) of
            true -> code:load_file(sonde_nif);
            false -> in_use
        end,
    pause(50);
%% Priority messages go before waiting ones (from OTP 28; the compiler of 25 knows the options).
burn(prioritizes) ->
    Reader = spawn_opt(fun() -> prioritized() end, [{message_queue_data, one_of([on_heap, off_heap])}]),
    Reader ! {alias_for, self()},
    receive
        {alias, Alias} ->
            _ = [erlang:send(Alias, {I, binary:copy(<<8>>, 100)}, Opts)
                 || I <- lists:seq(1, 200), Opts <- [[], [priority]]]
    after 1000 -> ok
    end,
    pause(5),
    exit(Reader, kill);
burn(holds_in_dirty_calls) ->
    P = spawn(fun() -> Held = [binary:copy(<<9>>, 100) || _ <- lists:seq(1, 50)],
                       sonde_foreign_helper:sleep(one_of([dirty_cpu, dirty_io]), 3, Held) end),
    sonde_foreign_helper:spin(dirty_io, 1000, binary:copy(<<9>>, 1000)),
    pause(5),
    exit(P, kill).

%% Also receives an exit message that came meanwhile.
pause(Ms) ->
    receive {'EXIT', _, _} -> ok after Ms -> ok end.

little(N) ->
    Data = [binary:copy(<<I>>, 60 + I rem 20) || I <- lists:seq(1, N rem 50)],
    _ = put(little, lists:seq(1, N)),
    pause(N rem 7),
    length(Data).

reads_some(0) -> ok;
reads_some(N) ->
    receive {_, _} -> reads_some(N - 1);
            _ -> reads_some(N - 1)
    after 100 -> ok
    end.

flood(_Reader, 0) -> ok;
flood(Reader, N) ->
    Reader ! {flood, binary:copy(<<2>>, 80)},
    flood(Reader, N - 1).

prioritized() ->
    Alias = alias([priority]),
    receive {alias_for, From} -> From ! {alias, Alias} end,
    reads_some(300).

one_of(List) -> lists:nth(rand:uniform(length(List)), List).
