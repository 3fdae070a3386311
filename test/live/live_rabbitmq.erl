%% What sonde reports about a live broker, compared with the recon that the broker ships, and what
%% the broker's clients notice of sonde. rabbitmq.sh starts it, on a hidden node beside a running
%% broker. live_compare explains which verdicts are right for two tools that never look at the same
%% moment.
-module(live_rabbitmq).

-export([main/1, call/3, afterwards/2]).

-import(live_report, [title/1, say/2, check/3, check/4, some/1]).

-define(NODE, 'rabbit@localhost').
-define(RATE, 2000).           % messages a second while calls are compared under load
-define(LEAST_SETTLED, 5).     % processes that may change in half a second when the broker is idle
-define(ATTEMPTS, 3).          % for comparisons that a change in between can spoil as a whole
-define(WINDOWS, 10).

%% How many values may be strays (see live_compare): twice as many as recon has against itself,
%% since these counts are small and chance is uneven, and this many in a thousand. Under load, a
%% message may wait at any process on its way: about a hundred of them.
-define(ALLOWED_IDLE, 2).
-define(ALLOWED_LOADED, 100).

%% A short run checks the same, less often and with fewer messages.
-record(test, {load :: [pid()], seconds :: pos_integer(),
               rounds :: pos_integer(),       % of each attribute that is read from memory, at least
               depth :: pos_integer()}).      % messages in each queue without a consumer

main([Port, Seconds, Logs]) ->
    live_report:start(),
    ok = application:load(sonde),
    %% The client library logs messages that still arrive when it ends.
    ok = logger:set_primary_config(level, none),
    pong = net_adm:ping(?NODE),
    Status = try run(list_to_integer(Port), list_to_integer(Seconds), Logs)
             catch Class:Why:Stack ->
                     check("the test came to its end", false, {Class, Why, Stack}),
                     live_report:finish("rabbitmq")
             end,
    halt(Status).

run(Port, Seconds, Logs) ->
    bring(),
    Test = test(live_load:start(Port), Seconds),
    ok = live_load:fill(Test#test.load, Test#test.depth),
    idle(Test),
    under_load(Test),
    windows(Test),
    afterwards(Test#test.load, Logs),
    live_report:finish("rabbitmq").

test(Load, Seconds) when Seconds < 10 ->
    #test{load = Load, seconds = Seconds, rounds = 2, depth = 400};
test(Load, Seconds) ->
    #test{load = Load, seconds = Seconds, rounds = 5, depth = 1400}.

%% ---- remote_load

bring() ->
    title("The broker"),
    say("RabbitMQ ~s, OTP ~s, ~b processes, recon ~s",
        [version(rabbit), call(erlang, system_info, [otp_release]),
         call(erlang, system_info, [process_count]), version(recon)]),
    [{?NODE, First}] = sonde:remote_load([?NODE], sonde),
    check("remote_load brings sonde, which reads natively",
          is_active(First, ok), brief_status(First)),
    [{?NODE, Again}] = sonde:remote_load([?NODE], sonde),
    check("remote_load finds it there the second time", is_active(Again, already),
          brief_status(Again)),
    check("remote_load/1 takes the nodes that are connected, and not hidden",
          sonde:remote_load(sonde) =:= [], nodes()),
    check("remote_load takes any module", {[{module, live_compare}], []} =:=
              sonde:remote_load(?NODE, live_compare), live_compare),
    Left = call(filelib, wildcard, ["sonde-*", call(os, getenv, ["TMPDIR"])]),
    check("remote_load leaves no file behind", Left =:= [], Left).

is_active({Result, #{status := active, checks := Checks}}, Result) ->
    lists:all(fun({_, Good}) -> Good =:= ok end, Checks);
is_active(_, _) -> false.

brief_status({Result, #{checks := Checks} = Status}) ->
    {Result, maps:with([status, layout, reader], Status), [{checks, length(Checks)}]};
brief_status(Other) -> Other.

version(recon) ->
    "recon-" ++ Version = filename:basename(call(code, lib_dir, [recon])),
    Version;
version(App) ->
    {ok, Version} = call(application, get_key, [App, vsn]),
    Version.

%% ---- idle

idle(#test{load = Load} = Test) ->
    rest(Load),
    title("Idle"),
    describe(),
    values("idle", ?ALLOWED_IDLE, Test),
    _ = [agreed(io_lib:format("idle, ~s, native side off", [Attr]),
                [{Attr, judged(call(live_compare, switched_off, [Attr]), ?ALLOWED_IDLE)}])
         || Attr <- [memory, binary_memory]],
    tops(),
    check("a row of its own for the caller who wants one", [true, false, true, false] =:=
              [Row =/= false || Row <- call(live_compare, own_row, [])], "as documented", []),
    _ = [growth(Attr, Load) || Attr <- [memory, total_heap_size, binary_memory, message_queue_len,
                                        min_bin_vheap_size]],
    times([memory, message_queue_len, binary_memory, binary_count]),
    leaks(recon, sonde, Load),
    leaks(sonde, recon, Load),
    Tops = call(live_compare, leak_tops, [10]),
    check("idle, the 10 rows of bin_leak", Tops =:= agree orelse Tops =:= never_still, Tops).

%% Waits until hardly any process changes: queues and channels hibernate some seconds after the last
%% message.
rest(Load) ->
    ok = live_load:pace(Load, paused),
    rest(30, sizes()).

rest(0, _) -> ok;
rest(Left, Before) ->
    timer:sleep(500),
    After = sizes(),
    case length(After -- Before) =< ?LEAST_SETTLED of
        true -> ok;
        false -> rest(Left - 1, After)
    end.

sizes() ->
    lists:sort([{Pid, Value} || {Pid, Value, _} <- call(recon, proc_count, [memory, 100000])]).

describe() ->
    Binaries = lists:sum([N || {_, N, _} <- call(sonde, proc_count, [binary_count, -1])]),
    say("~b connections, ~b queues, ~b processes, ~b references to binaries, ~b MB of binaries",
        [live_load:connections(), live_load:queues(), call(erlang, system_info, [process_count]),
         Binaries, call(erlang, memory, [binary]) div 1000000]).

%% One line for each attribute that is read from memory, and one for the items that are asked for.
values(When, Allowed, #test{rounds = Rounds}) ->
    Name = fun(What) -> io_lib:format("~s, ~ts", [When, What]) end,
    _ = [agreed(Name(Attr), [{Attr, looked(Attr, Rounds, Allowed)}])
         || Attr <- live_compare:native()],
    Asked = call(live_compare, asked, []),
    agreed(Name(io_lib:format("~b other items", [length(Asked)])),
           [{Attr, looked(Attr, 1, Allowed)} || Attr <- Asked]).

looked(Attr, Rounds, Allowed) ->
    judged(attempt(fun() -> call(live_compare, values, [Attr, Rounds]) end,
                   fun(Seen) -> is_agreed(Seen, Allowed) end), Allowed).

judged(Seen, Allowed) ->
    Seen#{good => is_agreed(Seen, Allowed)}.

agreed(Name, Seen) ->
    Sum = fun(Key, I) -> lists:sum([element(I, map_get(Key, One)) || {_, One} <- Seen]) end,
    Bad = [{Attr, maps:with([ours, theirs, suspects, faults], One)}
           || {Attr, #{good := false} = One} <- Seen],
    check(Name, Bad =:= [], "~b values, ~b differ (recon's own ~b), ~b outside (~b)~ts",
          [lists:sum([Values || {_, #{values := Values}} <- Seen]),
           Sum(ours, 1), Sum(theirs, 1), Sum(ours, 2), Sum(theirs, 2),
           some(Bad)]).

is_agreed(#{values := Values, ours := {Differ, Outside}, theirs := {TheirDiffer, TheirOutside},
            suspects := Suspects, faults := Faults}, Allowed) ->
    Suspects =:= [] andalso Faults =:= []
        andalso Differ =< 2 * TheirDiffer + Values * Allowed div 1000
        andalso Outside =< 2 * TheirOutside + Values * Allowed div 1000.

%% `never_still': recon's own ten were never the same twice, in all tries.
tops() ->
    Attrs = lists:delete(reductions, live_compare:native() ++ call(live_compare, asked, [])),
    Seen = [{Attr, call(live_compare, tops, [Attr, 10])} || Attr <- Attrs],
    Bad = [One || {_, Result} = One <- Seen, Result =/= agree, Result =/= never_still],
    Restless = [Attr || {Attr, never_still} <- Seen],
    check("idle, the 10 largest, whole rows",
          Bad =:= [] andalso length(Restless) < length(Seen) div 2,
          "by ~b attributes, of which ~b were never still~ts~ts",
          [length(Seen), length(Restless), some(Restless), some(Bad)]).

%% While both tools have a window open, messages go into a queue without a consumer.
growth(Attr, Load) ->
    Queue = queue_pid(live_load:kept_queue()),
    Good = fun(#{processes := Processes, strays := Strays}) ->
                   length(Strays) =< Processes div 100
                       andalso not lists:keymember(Queue, 1, Strays)
           end,
    Seen = attempt(fun() -> window(Attr, Queue, Load) end, Good),
    #{processes := Processes, strays := Strays, grown := Grown} = Seen,
    check(io_lib:format("idle, proc_window of ~s", [Attr]), Good(Seen),
          "~b processes, ~b differ~ts; the queue that got messages grew by ~0p",
          [Processes, length(Strays), some(Strays), Grown]).

window(Attr, Queue, Load) ->
    Key = erpc:send_request(?NODE, live_compare, windows, [Attr, 1000, Queue]),
    timer:sleep(400),
    ok = live_load:fill_one(Load, 100),
    erpc:receive_response(Key, 60000).

queue_pid(Name) ->
    {ok, Queue} = call(rabbit_amqqueue, lookup, [rabbit_misc:r(<<"/">>, queue, Name)]),
    call(amqqueue, get_pid, [Queue]).

%% Tries again after a failure: something may have changed, as a broker's timers do.
attempt(Fun, Good) -> attempt(Fun, Good, ?ATTEMPTS).

attempt(Fun, _Good, 1) -> Fun();
attempt(Fun, Good, Left) ->
    Result = Fun(),
    case Good(Result) of
        true -> Result;
        false -> attempt(Fun, Good, Left - 1)
    end.

leaks(Tool, Other, Load) ->
    Good = fun(#{strays := Strays, noise := Noise, let_go := LetGo}) ->
                   length(Strays) =< Noise + 3 andalso LetGo > 0
           end,
    Seen = attempt(fun() ->
                           ok = live_load:pace(Load, {rate, ?RATE}),
                           timer:sleep(2000),
                           rest(Load),
                           call(live_compare, leaks, [Tool, Other])
                   end, Good),
    #{processes := Processes, binaries := Binaries, let_go := LetGo, strays := Strays,
      missing := Missing} = Seen,
    check(io_lib:format("idle, bin_leak of ~s as counted by ~s", [Tool, Other]),
          Good(Seen) andalso Missing =:= [],
          "~b processes, ~b of ~b binaries let go, ~b values differ~ts, ~b missing",
          [Processes, LetGo, Binaries, length(Strays), some(Strays), length(Missing)]).

times(Attrs) ->
    say("milliseconds for proc_count(_, 10), the median of 9: ~s",
        [lists:join(", ", [io_lib:format("~s ~.2f (recon ~.2f)", [Attr | both(Attr)])
                           || Attr <- Attrs])]).

both(Attr) ->
    {Item, _} = live_compare:recon(Attr),
    [call(live_compare, timed, [Tool, proc_count, [A, 10], 9])
     || {Tool, A} <- [{sonde, Attr}, {recon, Item}]].

%% ---- under load

under_load(#test{load = Load} = Test) ->
    ok = live_load:pace(Load, {rate, ?RATE}),
    timer:sleep(3000),
    title("Under load"),
    _ = live_load:take(Load),
    timer:sleep(1000),
    say("about ~b messages a second", [length(live_load:take(Load))]),
    describe(),
    values("under load", ?ALLOWED_LOADED, Test),
    times([memory, message_queue_len, binary_memory, binary_count]),
    work(),
    leaks_loaded(),
    leak_report().

work() ->
    #{processes := Processes, strays := Strays} =
        attempt(fun() -> call(live_compare, nested, [500]) end,
                fun(#{strays := Strays}) -> Strays =:= [] end),
    check("under load, proc_window of reductions, between recon's growth inside and around it",
          Strays =:= [], "~b processes, ~b not between~ts",
          [Processes, length(Strays), some(Strays)]).

%% All processes receive and drop binaries all the time, so a change rarely equals the difference of
%% two counts around it; that happens about as often for sonde as for recon. That collecting takes
%% nothing from the messages is checked at the end.
leaks_loaded() ->
    {Ours, Theirs} = attempt(fun() -> {call(live_compare, leaks, [sonde, recon]),
                                       call(live_compare, leaks, [recon, recon])}
                             end, fun alike/1),
    check("under load, bin_leak as counted by recon", alike({Ours, Theirs}),
          "~b processes, ~b values differ (recon's own ~b)",
          [maps:get(processes, Ours)
           | [length(maps:get(strays, Leaks)) || Leaks <- [Ours, Theirs]]]).

alike({#{processes := Processes, strays := Ours, missing := Missing}, #{strays := Theirs}}) ->
    Missing =:= []
        andalso length(Ours) =< 2 * length(Theirs) + Processes * ?ALLOWED_LOADED div 1000.

leak_report() ->
    Before = call(erlang, system_info, [process_count]),
    #{rows := Rows, collected := Collected, left := Left, skipped := Skipped, binary := Binary,
      ms := Ms} = call(sonde, bin_leak, [10, #{}]),
    Changes = [Change || {_, Change, _} <- Rows],
    check("under load, bin_leak/2", length(Rows) =:= 10 andalso Changes =:= lists:sort(Changes)
              andalso hd(Changes) < 0 andalso abs(Collected + Left + Skipped - Before) =< 10,
          "~b collected, ~b left, ~b skipped, ~b ms, bytes of binaries ~0p, changes ~0p",
          [Collected, Left, Skipped, Ms, Binary, Changes]).

%% ---- what the clients feel

windows(#test{load = Load, seconds = Seconds}) ->
    title(io_lib:format("~b windows of ~b s, flat out, without and with sonde scanning each second",
                        [?WINDOWS, Seconds])),
    ok = live_load:pace(Load, flat),
    timer:sleep(2000),
    Windows = live_windows:run(Load, ?NODE, ?WINDOWS, Seconds * 1000),
    check("messages were confirmed in every window",
          lists:all(fun(#{confirmed := N}) -> N > 0 end, Windows),
          lists:sum([N || #{confirmed := N} <- Windows])),
    check("sonde scanned in its windows", lists:all(fun(#{scans := N}) -> N > 0 end,
                                                    [W || #{kind := with} = W <- Windows]),
          lists:sum([N || #{scans := N} <- Windows])).

%% ---- afterwards

%% @doc Everything that was published has arrived, and the broker is well.
afterwards(Load, Logs) ->
    title("Afterwards"),
    ok = live_load:drain(Load),
    States = live_load:states(Load),
    Sum = fun(Key) -> lists:sum([maps:get(Key, State) || State <- States]) end,
    Published = total(published, States),
    check("every message was confirmed", Sum(unconfirmed) =:= 0 andalso Published > 0,
          "~b published, ~b not confirmed", [Published, Sum(unconfirmed)]),
    check("every message arrived, in every queue",
          [maps:get(published, S) || S <- States] =:= [maps:get(delivered, S) || S <- States],
          "~b delivered in ~b queues", [total(delivered, States), queues(States)]),
    check("none twice, out of order, damaged, returned or refused", Sum(fault_count) =:= 0,
          "~b faults~ts", [Sum(fault_count), some(faults(States))]),
    check("the queues are empty", Sum(stored) =:= 0, Sum(stored)),
    ok = live_load:stop(Load),
    broker(Logs).

total(Key, States) ->
    lists:sum([N || State <- States, N <- maps:values(maps:get(Key, State))]).

queues(States) ->
    lists:sum([map_size(maps:get(delivered, State)) || State <- States]).

faults(States) ->
    lists:append([Faults || #{faults := Faults} <- States]).

broker(Logs) ->
    check("the broker runs", call(rabbit, is_running, []), ?NODE),
    Errors = errors(Logs),
    check("no error in the broker's log", Errors =:= [], "~b~ts", [length(Errors), some(Errors)]),
    Alarms = call(rabbit_alarm, get_alarms, []),
    check("no alarm", Alarms =:= [], Alarms),
    #{status := Status, counters := Counters} = call(sonde, native, []),
    check("sonde still reads natively", Status =:= active, Counters).

errors(Logs) ->
    Files = [_ | _] = filelib:wildcard(filename:join(Logs, "*.log")),
    [Line || File <- Files, {ok, Text} <- [file:read_file(File)],
             Line <- string:split(Text, "\n", all),
             re:run(Line, "\\[(error|critical|alert|emergency)\\]") =/= nomatch].

call(Module, Function, Args) ->
    erpc:call(?NODE, Module, Function, Args, 120000).
