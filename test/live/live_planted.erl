%% Plants what observer_cli is to show: processes, tables, connections, an application and a plugin
%% whose names and figures are known. They live on the node that observer_cli runs on; figures that
%% only that node can know are written to a file.
%%
%% A window of proc_window or inet_window shows by how much something grew, so what stands still
%% does not appear. A process that starts in the window has its full value: so there is always a
%% newborn process, and a newborn connection, younger than a window.
-module(live_planted).
-behaviour(gen_server).
-behaviour(application).

-export([plant/1]).
-export([init/1, handle_call/3, handle_cast/2]).
-export([start/2, stop/1]).
-export([attributes/1, sheet_header/0, sheet_body/1]).

-define(NEWBORN_MS, 400).
-define(WORDS, 8000000).       % of heap: 64 MB, more than any other process has

%% @doc Plants all of it; then the file holds a list of {Name, Figure}.
plant(File) ->
    Self = self(),
    Gardener = spawn(fun() ->
                             Self ! {self(), planted()},
                             newborns(listen(), whereis(planted_newborn), [])
                     end),
    Facts = receive {Gardener, Planted} -> Planted end,
    logger:notice("planted: ~p processes", [length(processes())]),
    ok = file:write_file(File ++ ".tmp", io_lib:format("~p.~n", [Facts])),
    file:rename(File ++ ".tmp", File).

planted() ->
    {ok, Server} = gen_server:start({local, planted_server}, ?MODULE, server,
                                    [{spawn_opt, [{min_heap_size, ?WORDS}]}]),
    Queue = named(planted_queue, fun() -> ok end),
    _ = [Queue ! {planted_message, N} || N <- lists:seq(1, 34567)],
    Holder = named(planted_binaries, fun() -> [binary:copy(<<"x">>, 4000000)
                                               || _ <- lists:seq(1, 20)] end),
    _ = [Holder ! {planted_message, N} || N <- lists:seq(1, 3)],
    Worker = named(planted_worker, fun() -> work(200000000) end),
    planted_table = ets:new(planted_table, [named_table, public]),
    _ = [ets:insert(planted_table, {N}) || N <- lists:seq(1, 43210)],
    _ = [process([{min_heap_size, 1000}], fun() -> ok end) || _ <- lists:seq(1, 60)],
    ok = mnesia(),
    ok = application(),
    Listener = listen(),
    [_Sender, _Receiver] = connect(Listener, 7654321, 111),
    Newborn = newborn(),
    [{versions, versions()}, {server, pid_to_list(Server)}, {queue, pid_to_list(Queue)},
     {server_memory, figure(Server, memory)}, {server_words, figure(Server, total_heap_size)},
     {worker, figure(Worker, reductions)},
     {newborn_memory, figure(Newborn, memory)}, {newborn_words, figure(Newborn, total_heap_size)},
     {newborn_reductions, figure(Newborn, reductions)},
     {table_memory, ets:info(planted_table, memory) * erlang:system_info(wordsize)},
     {mnesia_memory, mnesia:table_info(planted_mnesia, memory) * erlang:system_info(wordsize)}].

figure(Pid, Item) ->
    {Item, Figure} = process_info(Pid, Item),
    Figure.

%% Which recon it is, and whether sonde is behind it.
versions() ->
    _ = [application:load(App) || App <- [recon, observer_cli]],
    Behind = case code:ensure_loaded(sonde) of
                 {module, Sonde} -> maps:get(status, Sonde:native());
                 {error, _} -> none
             end,
    [begin {ok, V} = application:get_key(App, vsn), {App, V} end || App <- [recon, observer_cli]]
        ++ [{sonde, Behind}].

%% ---- processes: they keep what they have built, and their mail

named(Name, Build) ->
    Pid = process([], Build),
    true = register(Name, Pid),
    Pid.

process(Opts, Build) ->
    Self = self(),
    Pid = spawn_opt(fun() ->
                            Built = Build(),
                            Self ! {built, self()},
                            wait(Built)
                    end, Opts),
    receive {built, Pid} -> Pid end.

wait(Built) ->
    receive {die, Ref} -> exit({Ref, Built}) end.

work(Reductions) when Reductions > 0 ->
    true = erlang:bump_reductions(1000),
    work(Reductions - 1000);
work(_) ->
    ok.

%% ---- newborns: each lives until the next one is there; and those that die

newborns(Listener, Before, Sockets) ->
    _ = mayflies(),
    Next = newborn(),
    Connected = connect(Listener, 3456789, 33),
    true = exit(Before, kill),
    _ = [gen_tcp:close(S) || S <- Sockets],
    timer:sleep(?NEWBORN_MS),
    newborns(Listener, Next, Connected).

newborn() ->
    Pid = process([{min_heap_size, ?WORDS div 4}],
                  fun() ->
                          Held = [binary:copy(<<"x">>, 100000) || _ <- lists:seq(1, 50)],
                          work(20000000),
                          Held
                  end),
    _ = [Pid ! planted || _ <- lists:seq(1, 23456)],
    _ = [unregister(planted_newborn) || is_pid(whereis(planted_newborn))],
    true = register(planted_newborn, Pid),
    Pid.

%% They exist when a window begins, among the least of all, and not when it ends.
mayflies() ->
    [spawn(fun() -> timer:sleep(1000) end) || _ <- lists:seq(1, 5)].

%% ---- connections: what goes through them is known to the byte

listen() ->
    {ok, Listener} = gen_tcp:listen(0, [binary, {active, false}, {ip, {127, 0, 0, 1}}]),
    Listener.

connect(Listener, Octets, Packets) ->
    {ok, Port} = inet:port(Listener),
    {ok, Sender} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    {ok, Receiver} = gen_tcp:accept(Listener),
    Each = Octets div Packets,
    Last = Octets - Each * (Packets - 1),
    _ = [begin
             ok = gen_tcp:send(Sender, binary:copy(<<"x">>, Size)),
             {ok, _} = gen_tcp:recv(Receiver, Size)
         end || Size <- lists:duplicate(Packets - 1, Each) ++ [Last]],
    [Sender, Receiver].

%% ---- a server with a state, and an application: a supervisor and 17 of its children

init(server) ->
    put(planted_key, planted_value),
    {ok, {planted_state, 271828}};
init(child) ->
    {ok, child};
init(supervisor) ->
    Child = fun(N) -> #{id => N, start => {gen_server, start_link, [?MODULE, child, []]}} end,
    {ok, {#{}, [Child(N) || N <- lists:seq(1, 17)]}}.

handle_call(_, _, State) -> {reply, ok, State}.

handle_cast(_, State) -> {noreply, State}.

application() ->
    ok = application:load({application, planted_app,
                           [{description, ""}, {vsn, "9.8.7"}, {modules, []}, {registered, []},
                            {applications, [kernel, stdlib]}, {mod, {?MODULE, []}}]}),
    application:start(planted_app).

start(_Type, _Args) ->
    supervisor:start_link(?MODULE, supervisor).

stop(_State) ->
    ok.

%% ---- a table of mnesia's

mnesia() ->
    ok = application:start(mnesia),
    {atomic, ok} = mnesia:create_table(planted_mnesia, [{ram_copies, [node()]}]),
    _ = [ok = mnesia:dirty_write({planted_mnesia, N, planted}) || N <- lists:seq(1, 2222)],
    ok.

%% ---- a plugin of observer_cli's

attributes(Prev) ->
    {[[#{content => "planted attribute", width => 20}, #{content => 161803, width => 20}]], Prev}.

sheet_header() ->
    [#{title => "Pid", width => 20}, #{title => "Planted", width => 20, shortcut => "pl"}].

sheet_body(Prev) ->
    {[[whereis(planted_server), 141421]], Prev}.
