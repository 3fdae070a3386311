%% Healthy situations that may look odd: large, busy, or up and down, in bounded memory. Each is
%% steady when `run/1' returns. Their periods are shorter than the two seconds of a diagnosis, or, where
%% there is garbage, than the six that it takes then, since its documentation states that longer ones may be
%% accused.
-module(sonde_situations_healthy).

%% init/1 is also the supervisor's.
-behaviour(gen_statem).

-export([names/0, run/1]).
-export([init/1, callback_mode/0, handle_event/4]).
-export([device/1, session/1, handler/2, chunks/3, sorter/3, ranker/3]).

-import(sonde_situations_parts, [server/2, server/3, client/2, each/2, between/2, one_of/1, named/1,
                                 payload/1, rows/1, directory/0]).

names() ->
    [ets_cache, ttl_cache, dets_file, mnesia_tables, logger_burst, code_loading, bursty_pool,
     tcp_stream, many_timers, persistent_terms, bulk_parse, bulk_jobs, chunk_worker,
     chunk_worker_fullsweep, large_state, idle_supervisees, fill_and_drain, backlog_that_drains,
     metrics_table, request_handlers, sorted_heap, ranked_rows, collecting_proxy, timed_sessions,
     compressed_logs, short_connections, timer_rows, limited_workers].

%% ---- tables

%% A large cache: its clients read, and overwrite rows that are there.
run(ets_cache) ->
    Rows = between(20000, 60000),
    Row = one_of([fun(I) -> {I, sonde_situations_parts:session(I)} end,
                  fun(I) -> {I, payload(600)} end]),
    Tab = table(Rows, Row),
    each(between(2, 4),
         fun(_) -> client(between(5, 20), fun(_) -> used(Tab, Rows, Row) end) end),
    steady(500);

%% Rows expire, and the cache deletes the expired ones now and then.
run(ttl_cache) ->
    Ttl = between(400, 1200),
    Sweep = between(100, 400),
    Each = between(20, 60),
    Tab = ets:new(cache, [public, {keypos, 1}]),
    _ = named(client(Sweep, fun(_) -> expired(Tab) end)),
    _ = client(10, fun(I) -> each(Each, fun(J) -> ets:insert(Tab, row({I, J}, Ttl)) end) end),
    steady(Ttl + 3 * Sweep);

%% A file of customers that is read and written all the time. The process of the file keeps the
%% binaries of the first load: it makes minor collections alone, for many minutes.
run(dets_file) ->
    Rows = between(2000, 8000),
    Size = between(300, 1500),
    File = filename:join(directory(), "customers.dets"),
    {ok, Tab} = dets:open_file(customers, [{file, File}, {auto_save, between(300, 1000)}]),
    ok = dets:insert(Tab, [{I, payload(Size)} || I <- lists:seq(1, Rows)]),
    Use = fun(_) -> [_] = dets:lookup(Tab, rand:uniform(Rows)),
                    ok = dets:insert(Tab, {rand:uniform(Rows), payload(Size)}) end,
    each(between(1, 3), fun(_) -> client(between(5, 20), Use) end),
    ok = steady(1500),
    {holds_garbage, dets_server:get_pid(Tab)};

%% Accounts in memory, with transfers between them in transactions.
run(mnesia_tables) ->
    Rows = between(10000, 40000),
    ok = application:set_env(mnesia, dir, directory()),
    ok = mnesia:start(),
    {atomic, ok} = mnesia:create_table(account, [{ram_copies, [node()]},
                                                 {attributes, [id, balance, owner]}]),
    each(Rows, fun(I) -> ok = mnesia:dirty_write({account, I, 100, <<"owner">>}) end),
    each(between(2, 5), fun(_) -> client(between(5, 20), fun(_) -> transfer(Rows) end) end),
    steady(1000);

%% A counter for each kind of request, all of them known from the start.
run(metrics_table) ->
    Keys = between(20000, 80000),
    Tab = ets:new(metrics, [public, {write_concurrency, true}]),
    each(Keys, fun(I) -> ets:insert(Tab, {{requests, I, <<"GET /articles/:id">>}, 0}) end),
    Count = fun(_) -> each(20, fun(_) -> counted(Tab, rand:uniform(Keys)) end) end,
    each(between(2, 4), fun(_) -> client(between(5, 20), Count) end),
    steady(300);

%% ---- code, configuration, logs

%% New versions of many modules are loaded while their functions are called.
run(code_loading) ->
    Names = ["shop_page_" ++ integer_to_list(I) || I <- lists:seq(1, between(10, 30))],
    Modules = [list_to_atom(Name) || Name <- Names],
    Beams = [[{M, beam(M, Version, between(100, 1000))} || M <- Modules] || Version <- [1, 2]],
    Load = fun(I) -> loaded(lists:nth(I rem length(Modules) + 1,
                                      lists:nth(I div length(Modules) rem 2 + 1, Beams))) end,
    each(2 * length(Modules), Load),
    _ = client(between(20, 80), Load),
    _ = client(10, fun(I) -> M = lists:nth(I rem length(Modules) + 1, Modules), M:rows() end),
    steady(500);

%% Settings that every request reads, and that are replaced now and then.
run(persistent_terms) ->
    Keys = [{setting, I} || I <- lists:seq(1, between(3, 12))],
    Size = between(500, 6000),
    Put = fun(_) -> persistent_term:put(one_of(Keys), maps:from_list(
                                                        [{I, rows(3)} || I <- lists:seq(1, Size)]))
          end,
    _ = [persistent_term:put(Key, #{1 => []}) || Key <- Keys],
    _ = named(client(between(150, 500), Put)),
    each(between(3, 8),
         fun(_) -> client(10, fun(_) -> map_get(1, persistent_term:get(one_of(Keys))) end) end),
    steady(2500);

%% Several processes log a burst of events, into files that rotate.
run(logger_burst) ->
    File = filename:join(directory(), "shop.log"),
    _ = logger:remove_handler(default),
    ok = logger:add_handler(shop, logger_std_h,
                            #{config => #{file => File, max_no_bytes => 1000000,
                                          max_no_files => 2}}),
    Events = between(100, 500),
    Log = fun(_) -> each(Events, fun(I) -> logger:notice(#{what => request, id => I,
                                                           path => "/articles"}) end) end,
    each(between(2, 5), fun(_) -> client(between(300, 900), Log) end),
    steady(2500);

%% Log lines are compressed into a file in memory, which then is sent away.
run(compressed_logs) ->
    Lines = between(200, 2000),
    _ = named(client(between(100, 400), fun(_) -> compressed(Lines) end)),
    steady(1000);

%% ---- workers

%% All workers of a pool get a job at the same time.
run(bursty_pool) ->
    Work = between(1000, 8000),
    Workers = [server(fun({job, N}, Done) -> worked(N), Done + 1 end, fun() -> 0 end)
               || _ <- lists:seq(1, between(8, 40))],
    _ = client(between(300, 900),
               fun(_) -> [gen_server:cast(W, {job, Work}) || W <- Workers] end),
    steady(2500);

%% A large text is parsed into terms, which are used and dropped, by a server.
run(bulk_parse) ->
    Text = text(between(3000, 10000)),
    Server = named(server(fun(parse, N) -> N + length(parsed(binary:copy(Text))) end,
                          fun() -> 0 end)),
    _ = client(between(300, 800), fun(_) -> gen_server:cast(Server, parse) end),
    steady(3000);

%% The same, by a new process for each text.
run(bulk_jobs) ->
    Text = text(between(3000, 10000)),
    Job = fun() -> exit({parsed, length(parsed(binary:copy(Text)))}) end,
    _ = named(client(between(200, 800),
                     fun(_) ->
                             {Pid, Ref} = spawn_monitor(Job),
                             receive {'DOWN', Ref, process, Pid, {parsed, _}} -> ok end
                     end)),
    steady(2000);

%% Makes many binaries, drops them, and waits a moment.
run(chunk_worker) ->
    chunk_worker([]);
run(chunk_worker_fullsweep) ->
    chunk_worker([{fullsweep_after, one_of([0, 10])}]);

%% Builds a large list and sorts it, again and again.
run(sorted_heap) ->
    _ = proc_lib:spawn_link(?MODULE, sorter, [between(50000, 200000), between(100, 400), 0]),
    steady(2500);

%% Every few seconds, a page of a console shows the largest of many things; then its process rests.
run(ranked_rows) ->
    Pause = between(2500, 4000),
    _ = named(proc_lib:spawn_link(?MODULE, ranker, [between(10000, 80000), Pause, []])),
    steady(Pause + 1000);

%% One process for each request, as a web server has them.
run(request_handlers) ->
    Size = between(5000, 60000),
    Lives = between(5, 50),
    Start = one_of([fun proc_lib:spawn/3, fun proc_lib:spawn_link/3]),
    Each = between(3, 10),
    Acceptor = fun(_) -> each(Each, fun(_) -> Start(?MODULE, handler, [Size, Lives]) end) end,
    _ = named(client(10, Acceptor)),
    steady(1000);

%% ---- servers

%% An index that was read at the start and is looked up and updated.
run(large_state) ->
    Rows = between(40000, 120000),
    Server = named(server(fun({seen, I}, State) ->
                                  maps:update_with(I, fun(S) -> S#{since := today} end, State)
                          end,
                          fun() -> maps:from_list([{I, sonde_situations_parts:session(I)}
                                                   || I <- lists:seq(1, Rows)]) end)),
    true = erlang:garbage_collect(Server),
    _ = client(between(10, 50), fun(_) -> gen_server:cast(Server, {seen, rand:uniform(Rows)}) end),
    steady(1000);

%% A device for each child of a supervisor; most have nothing to do.
run(idle_supervisees) ->
    {ok, Sup} = supervisor:start_link(?MODULE, devices),
    each(between(4000, 15000), fun(I) -> {ok, _} = supervisor:start_child(Sup, [I]) end),
    Devices = list_to_tuple([Pid || {_, Pid, _, _} <- supervisor:which_children(Sup)]),
    _ = client(10, fun(_) -> element(rand:uniform(tuple_size(Devices)), Devices) ! beat end),
    steady(500);

%% A queue in a state that fills at once and drains little by little.
run(fill_and_drain) ->
    Jobs = between(2000, 10000),
    Size = between(100, 1000),
    Period = between(300, 900),
    Server = named(server(fun queued/2, fun() -> {queue:new(), max(1, Jobs * 20 div Period)} end)),
    _ = client(10, fun(_) -> gen_server:cast(Server, take) end),
    New = fun() -> [payload(Size) || _ <- lists:seq(1, Jobs)] end,
    Add = fun(_) -> gen_server:cast(Server, {add, New()}) end,
    _ = client(Period, Add),
    steady(3 * Period);

%% The same with messages: a burst of them comes, and the server takes them in time.
run(backlog_that_drains) ->
    Jobs = between(2000, 8000),
    Server = named(server(fun({job, I, Rows}, Sum) -> paused(I), Sum + length(Rows) end,
                          fun() -> 0 end)),
    _ = client(between(500, 1000),
               fun(_) -> each(Jobs, fun(I) -> gen_server:cast(Server, {job, I, rows(5)}) end) end),
    steady(2500);

%% Tens of thousands of timers run; each starts again when it ends.
run(many_timers) ->
    Timers = between(10000, 50000),
    Period = between(20000, 60000),
    Server = named(server(fun({retry, I}, N) ->
                                  erlang:send_after(Period, self(), {retry, I}), N + 1
                          end, fun() -> 0 end)),
    each(Timers, fun(I) -> erlang:send_after(rand:uniform(Period), Server, {retry, I}) end),
    steady(300);

%% Thousands of timers of the module `timer', a row each; each starts again when it ends.
run(timer_rows) ->
    Timers = between(2000, 15000),
    Period = between(5000, 30000),
    Start = fun(Server, I, Ms) -> {ok, _} = timer:apply_after(Ms, gen_server, cast, [Server, {again, I}]) end,
    Server = named(server(fun({again, I}, N) -> _ = Start(self(), I, Period), N + 1 end, fun() -> 0 end)),
    each(Timers, fun(I) -> Start(Server, I, rand:uniform(Period)) end),
    steady(300);

%% Workers with a limit of their own, which they never come near.
run(limited_workers) ->
    Rows = between(2000, 20000),
    Limit = #{size => 40 * Rows + 1000000, kill => true, error_logger => false},
    Work = fun(work, N) -> N + length(lists:sort(rows(rand:uniform(Rows)))) end,
    Workers = [server(Work, fun() -> 0 end, [{max_heap_size, Limit}]) || _ <- rows(between(5, 20))],
    _ = client(between(10, 50), fun(_) -> gen_server:cast(one_of(Workers), work) end),
    steady(1000);

%% Sessions that connect, stay open for a while, and end.
run(timed_sessions) ->
    Each = between(1, 5),
    Open = between(200, 800),
    _ = named(client(10, fun(_) -> each(Each, fun(_) -> {ok, _} = session(Open) end) end)),
    steady(2 * Open + 1000);

%% ---- the network

%% Large binaries through a connection, at a steady rate.
run(tcp_stream) ->
    Chunk = payload(between(65536, 400000)),
    Mode = one_of([passive, once, 10]),
    Root = self(),
    Sink = proc_lib:spawn_link(fun() -> received(listened(Root), Mode, 0) end),
    Port = receive {Sink, Listening} -> Listening end,
    Pause = between(10, 40),
    _ = proc_lib:spawn_link(fun() ->
                                    {ok, Socket} = connected(Port),
                                    sent(Socket, Chunk, Pause)
                            end),
    steady(1500);

%% Binaries that a server passes on; it collects now and then, or hibernates.
run(collecting_proxy) ->
    Size = between(5000, 60000),
    After = between(5, 30),
    Rest = one_of([collect, hibernate]),
    Sink = server(fun({packet, P}, N) -> _ = erlang:crc32(P), erlang:garbage_collect(), N + 1 end,
                  fun() -> 0 end),
    Proxy = named(server(fun({packet, P}, N) -> Sink ! {packet, P}, rested(Rest, N + 1, After) end,
                         fun() -> 0 end)),
    _ = client(between(3, 15), fun(_) -> gen_server:cast(Proxy, {packet, payload(Size)}) end),
    steady(1500);

%% Clients connect, ask once, and close.
run(short_connections) ->
    Root = self(),
    Server = proc_lib:spawn_link(fun() -> {Listen, _} = listening(Root), answered(Listen) end),
    Port = receive {Server, Listening} -> Listening end,
    each(between(1, 3), fun(_) -> client(between(20, 60), fun(_) -> asked(Port) end) end),
    steady(1000).

%% Lets some periods pass, which is what happened on a real node long ago.
steady(Ms) -> timer:sleep(Ms).

%% ---- tables

table(Rows, Row) ->
    Tab = ets:new(cache, [public, {read_concurrency, true}]),
    each(Rows, fun(I) -> ets:insert(Tab, Row(I)) end),
    Tab.

used(Tab, Rows, Row) ->
    each(20, fun(_) -> [_] = ets:lookup(Tab, rand:uniform(Rows)) end),
    ets:insert(Tab, Row(rand:uniform(Rows))).

row(Key, Ttl) ->
    {Key, erlang:monotonic_time(millisecond) + Ttl, rows(20)}.

expired(Tab) ->
    Now = erlang:monotonic_time(millisecond),
    ets:select_delete(Tab, [{{'_', '$1', '_'}, [{'<', '$1', Now}], [true]}]).

counted(Tab, I) ->
    ets:update_counter(Tab, {requests, I, <<"GET /articles/:id">>}, 1).

transfer(Rows) ->
    {From, To} = {rand:uniform(Rows), rand:uniform(Rows)},
    {atomic, ok} = mnesia:transaction(fun() -> moved(From, -1), moved(To, 1) end).

moved(Id, Amount) ->
    [{account, Id, Balance, Owner}] = mnesia:wread({account, Id}),
    ok = mnesia:write({account, Id, Balance + Amount, Owner}).

%% ---- code

beam(Module, Version, Rows) ->
    Function = fun(Name, Value) ->
                       {function, 1, Name, 0,
                        [{clause, 1, [], [], [erl_parse:abstract(Value)]}]}
               end,
    {ok, Module, Beam} =
        compile:forms([{attribute, 1, module, Module},
                       {attribute, 1, export, [{version, 0}, {rows, 0}]},
                       Function(version, Version), Function(rows, rows(Rows))], [binary]),
    Beam.

loaded({Module, Beam}) ->
    _ = code:purge(Module),
    {module, Module} = code:load_binary(Module, atom_to_list(Module) ++ ".erl", Beam).

%% ---- logs

compressed(Lines) ->
    {ok, File} = file:open(<<>>, [ram, binary, read, write]),
    Z = zlib:open(),
    ok = zlib:deflateInit(Z),
    each(Lines, fun(I) -> ok = file:write(File, zlib:deflate(Z, line(I))) end),
    ok = file:write(File, zlib:deflate(Z, [], finish)),
    ok = zlib:deflateEnd(Z),
    ok = zlib:close(Z),
    {ok, _} = file:position(File, bof),
    {ok, _} = file:read(File, 10000000),
    ok = file:close(File).

line(I) ->
    io_lib:format("2026-11-23 GET /articles/~b 200 ~b bytes~n", [I, rand:uniform(100000)]).

%% ---- workers

worked(N) ->
    Rows = [{rand:uniform(N), I, <<"row">>} || I <- lists:seq(1, N)],
    byte_size(term_to_binary(lists:sort(Rows))).

chunk_worker(Opts) ->
    _ = proc_lib:spawn_opt(?MODULE, chunks, [1000, 5000, 40], [link | Opts]),
    steady(1500).

chunks(N, Size, Pause) ->
    Chunks = [binary:copy(<<I>>, Size) || I <- lists:seq(1, N)],
    N = length(Chunks),
    timer:sleep(Pause),
    chunks(N, Size, Pause).

sorter(Rows, Pause, Sum) ->
    Sorted = lists:sort([{rand:uniform(Rows), I} || I <- lists:seq(1, Rows)]),
    Least = hd(Sorted),
    timer:sleep(Pause),
    sorter(Rows, Pause, Sum + element(1, Least)).

ranker(N, Pause, Shown) ->
    Rows = [[{thing, I}, {bytes, rand:uniform(N)}, {calls, I rem 7}, {name, {I, node()}}] || I <- lists:seq(1, N)],
    Largest = lists:sublist(lists:sort(fun([_, A | _], [_, B | _]) -> A >= B end, Rows), 1000),
    timer:sleep(Pause),
    ranker(N, Pause, lists:sublist([length(Shown) | Largest], 1000)).

handler(Size, Lives) ->
    Body = payload(Size),
    Parts = binary:split(Body, <<0>>, [global]),
    timer:sleep(rand:uniform(Lives)),
    length(Parts) + byte_size(Body).

%% ---- texts in the way of JSON

text(Objects) ->
    iolist_to_binary([$[, lists:join($,, [object(I) || I <- lists:seq(1, Objects)]), $]]).

object(I) ->
    io_lib:format("{\"id\":~b,\"name\":\"article ~b\",\"tags\":[\"new\",\"cheap\"],"
                  "\"stock\":{\"here\":~b,\"there\":~b}}", [I, I, I rem 7, I rem 11]).

parsed(Text) ->
    {Term, <<>>} = value(Text),
    Term.

value(<<${, Text/binary>>) -> pairs(Text, #{});
value(<<$[, Text/binary>>) -> items(Text, []);
value(<<$", Text/binary>>) -> string(Text);
value(Text) -> number(Text, 0).

pairs(<<$}, Text/binary>>, Pairs) ->
    {Pairs, Text};
pairs(<<$,, Text/binary>>, Pairs) ->
    pairs(Text, Pairs);
pairs(<<$", Text/binary>>, Pairs) ->
    {Key, <<$:, More/binary>>} = string(Text),
    {Value, Rest} = value(More),
    pairs(Rest, Pairs#{Key => Value}).

items(<<$], Text/binary>>, Items) -> {lists:reverse(Items), Text};
items(<<$,, Text/binary>>, Items) -> items(Text, Items);
items(Text, Items) ->
    {Value, Rest} = value(Text),
    items(Rest, [Value | Items]).

string(Text) ->
    {At, 1} = binary:match(Text, <<$">>),
    <<String:At/binary, $", Rest/binary>> = Text,
    {String, Rest}.

number(<<Digit, Text/binary>>, N) when Digit >= $0, Digit =< $9 ->
    number(Text, 10 * N + Digit - $0);
number(Text, N) ->
    {N, Text}.

%% ---- servers

queued({add, Jobs}, {Queue, Each}) ->
    {queue:join(Queue, queue:from_list(Jobs)), Each};
queued(take, {Queue, Each}) ->
    {lists:foldl(fun(_, Q) -> queue:drop(Q) end, Queue, lists:seq(1, min(Each, queue:len(Queue)))),
     Each}.

%% Waits for a disk or another node now and then.
paused(I) when I rem 50 =:= 0 -> timer:sleep(1);
paused(_) -> ok.

rested(Rest, N, After) when N rem After =:= 0 ->
    case Rest of
        collect -> true = erlang:garbage_collect(), N;
        hibernate -> {hibernate, N}
    end;
rested(_, N, _) ->
    N.

%% The devices' supervisor, and a session.
init(devices) ->
    {ok, {#{strategy => simple_one_for_one}, [#{id => device, start => {?MODULE, device, []}}]}};
init({session, Open}) ->
    {ok, connecting, Open, [{state_timeout, Open div 4, connected}]}.

device(I) ->
    Beat = fun(beat, #{beats := Beats} = State) -> State#{beats := Beats + 1} end,
    {ok, server(Beat, fun() -> #{device => I, beats => 0} end)}.

session(Open) ->
    gen_statem:start_link(?MODULE, {session, Open}, []).

callback_mode() -> handle_event_function.

handle_event(state_timeout, connected, connecting, Open) ->
    {next_state, open, rows(Open), [{state_timeout, Open, ended}]};
handle_event(state_timeout, ended, open, _) ->
    stop.

%% ---- the network

%% Sends the root the port to connect to.
listening(Root) ->
    {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, binary, {active, false},
                                      {backlog, 100}]),
    {ok, Port} = inet:port(Listen),
    Root ! {self(), Port},
    {Listen, Port}.

listened(Root) ->
    {Listen, _} = listening(Root),
    {ok, Socket} = gen_tcp:accept(Listen),
    Socket.

connected(Port) ->
    gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]).

sent(Socket, Chunk, Pause) ->
    ok = gen_tcp:send(Socket, Chunk),
    timer:sleep(Pause),
    sent(Socket, Chunk, Pause).

received(Socket, passive, Sum) ->
    {ok, Bytes} = gen_tcp:recv(Socket, 0),
    received(Socket, passive, erlang:crc32(Sum, Bytes));
received(Socket, Active, Sum) ->
    ok = inet:setopts(Socket, [{active, Active}]),
    received(Socket, Active, of_socket(Socket, Active, Sum)).

of_socket(Socket, Active, Sum) ->
    receive
        {tcp, Socket, Bytes} when Active =:= once -> erlang:crc32(Sum, Bytes);
        {tcp, Socket, Bytes} -> of_socket(Socket, Active, erlang:crc32(Sum, Bytes));
        {tcp_passive, Socket} -> Sum
    end.

answered(Listen) ->
    {ok, Socket} = gen_tcp:accept(Listen),
    {ok, <<"which?">>} = gen_tcp:recv(Socket, 6),
    ok = gen_tcp:send(Socket, <<"this one">>),
    ok = gen_tcp:close(Socket),
    answered(Listen).

asked(Port) ->
    {ok, Socket} = connected(Port),
    ok = gen_tcp:send(Socket, <<"which?">>),
    {ok, <<"this one">>} = gen_tcp:recv(Socket, 8),
    ok = gen_tcp:close(Socket).
