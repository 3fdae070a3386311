%% How long the pages of `sonde:top' take on a large node: one sample of each page, taken as the view
%% takes it, and its lines. The view repeats a sample after its interval, so a page has to be made within it.
-module(bench_top).

-export([rows/3]).
-export([start/2, stop/1, tree/1, wait_for/1]).

-define(MS, 1000000).
-define(INTERVAL_MS, 1000).   % the view's own
-define(PAUSE_MS, 10).
-define(SIZE, {160, 50}).     % columns and lines of the terminal: as many of both as pages use
-define(APP, sonde_bench_top).
-define(ROWS, 100).           % of each table
-define(MNESIA, 100).         % tables

%% @doc Emits a row for each page, from so many runs. `Scaled' gives the sizes of what the node has.
-spec rows(fun((pos_integer()) -> pos_integer()), pos_integer(), fun((map()) -> term())) -> ok.
rows(Scaled, Runs, Emit) ->
    Node = node_with(Scaled),
    _ = spawn(sonde_top_sample, meter, [self()]), % as in a view: the schedulers' times are on
    lists:foreach(fun({Call, Page}) -> Emit(row(Call, Page, Runs)) end, pages(Node)).

%% ---- the pages

pages(#{full := Full, holder := Holder, server := Server, root := Root, port := Port, mnesia := Mnesia}) ->
    [{"P, processes by memory", {procs, {count, memory}}},
     {"P, processes by binaries", {procs, {count, binary_memory}}},
     {"P, processes by garbage, which walks all heaps", {procs, {count, garbage_bytes}}},
     {"P, processes by growth of memory, without the interval", {procs, {growth, memory}}},
     {"P, a search for a name", {find, "kernel_sup"}},
     {"G, applications", {apps, memory}},
     {"N, ports by traffic", {network, {count, oct}}},
     {"N, ports by growth of traffic, without the interval", {network, {growth, oct}}},
     {"N, one port", {port, erlang:port_to_list(Port)}},
     {"E, tables by memory", {ets, memory}},
     {"E, tables by binaries", {ets, binary_memory}},
     {"W, processes that others wait for", waits}]
        ++ [{"M, Mnesia", {mnesia, memory}} || Mnesia =:= ok]
        ++ [{"S, the system", system},
            {"B, binaries", binaries},
            {"A, allocators", allocators},
            {"a process with messages and keys", {process, pid_to_list(Full)}},
            {"a process with refc binaries", {process, pid_to_list(Holder)}},
            {"L, links and monitors of a process that others wait for", {links, pid_to_list(Server)}},
            {"K, stack", {stack, pid_to_list(Server)}},
            {"Q, mailbox of the process with messages", {messages, pid_to_list(Full)}},
            {"T, tree of an application", {tree, atom_to_list(?APP)}},
            {"T, tree of a process", {tree, pid_to_list(Root)}}].

row(Call, Page, Runs) ->
    #{sonde := Times} = bench_clock:alternate(Runs, ?PAUSE_MS, #{sonde => fun() -> shown(Page) end}),
    #{kind => alone, call => Call, sonde => max(0, bench_clock:median(Times) - waited(Page)),
      targets => [{within, ?INTERVAL_MS * ?MS}]}.

waited({_, {growth, _}}) -> ?INTERVAL_MS * ?MS;
waited(_) -> 0.

%% The sample that a view asks for when it comes to the page, and the lines that it makes of it.
shown(Page) ->
    {Width, Height} = ?SIZE,
    Model = at(Page, sonde_top_model:size(Width, Height, sonde_top_model:new(#{interval => ?INTERVAL_MS, rows => auto, sort => memory}))),
    Asked = (sonde_top_model:request(Model))#{without => [self()]},
    {ok, Sample} = sonde_top:take(node(), Asked),
    Full = sonde_top_model:sampled(Sample, Model),
    true = sonde_top_model:is_shown(Full),
    none = sonde_top_model:request(Full#{paused := true}), % nothing of the page is missing
    [_ | _] = sonde_top_view:lines(Full, #{unicode => true, color => true}).

%% A view begins with the processes by memory.
at({find, Text}, Model) -> Model#{find := Text};
at(Page, Model) -> Model#{page := Page}.

%% ---- the node

%% A tenth of the processes is the tree of an application, a twentieth holds binaries; some wait for another
%% process; the others are idle.
node_with(Scaled) ->
    ok = application:load({application, ?APP, [{vsn, "1"}, {mod, {?MODULE, Scaled(100000)}}, {applications, [kernel, stdlib]}]}),
    ok = application:start(?APP),
    _ = bench_crowd:holders(Scaled(50000), 2),
    [Holder] = bench_crowd:holders(1, Scaled(10000)),
    Full = bench_crowd:full(Scaled(100000), Scaled(100000)),
    Server = spawn(bench_crowd, wait, []),
    _ = [spawn(?MODULE, wait_for, [Server]) || _ <- lists:seq(1, Scaled(1000))],
    _ = [table(Scaled(?ROWS)) || _ <- lists:seq(1, Scaled(1000))],
    [Port | _] = [P || _ <- lists:seq(1, Scaled(100)), P <- ports()],
    Mnesia = mnesia(Scaled(?MNESIA)),
    ok = bench_crowd:fill_up(Scaled(1000000)),
    #{full => Full, holder => Holder, server => Server, root => whereis(?APP), port => Port, mnesia => Mnesia}.

start(_, N) ->
    proc_lib:start_link(?MODULE, tree, [N]).

stop(_) -> ok.

tree(N) ->
    true = register(?APP, self()),
    _ = [proc_lib:spawn_link(bench_crowd, wait, []) || _ <- lists:seq(1, N)],
    ok = proc_lib:init_ack({ok, self()}),
    bench_crowd:wait().

wait_for(Server) ->
    gen_server:call(Server, ask, infinity).

table(Rows) ->
    Table = ets:new(table, [public]),
    true = ets:insert(Table, [{Row, binary:copy(<<0>>, 100)} || Row <- lists:seq(1, Rows)]).

%% One of UDP, and a connection through which something went.
ports() ->
    {ok, Udp} = gen_udp:open(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Listener} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Number} = inet:port(Listener),
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, Number, [{active, false}]),
    {ok, Tcp} = gen_tcp:accept(Listener),
    ok = gen_tcp:close(Listener),
    ok = gen_tcp:send(Tcp, "sonde"),
    [Tcp, Client, Udp].

%% The name is a variable, as Mnesia is optional.
mnesia(N) -> mnesia(mnesia, N).

mnesia(Mnesia, N) ->
    _ = application:load(Mnesia),
    ok = application:set_env(Mnesia, schema_location, ram),
    case application:start(Mnesia) of
        ok ->
            _ = [{atomic, ok} = Mnesia:create_table(list_to_atom("table" ++ integer_to_list(I)), []) || I <- lists:seq(1, N)],
            ok;
        {error, _} = Error ->
            Error
    end.
