%% What the suites share: the side under test, processes that hold still or churn, a node that holds
%% still, a blocked process, the reason of an error, recon, and figures for the summary.
-module(sonde_test).

-export([side/0, pick/2, init/1, recon/0, has_musl/0, is_interpreter/0]).
-export([crowd/1, queue/1, sockets/0, received/2]).
-export([hold/1, hold/2, hold_each/2, park/1, stop/1, settle/1, until/2, until/3, patience/0]).
-export([churn/2, beside/4, helpers/0, in_process/1, in_process/2, no_message/1]).
-export([ends_with_caller/1, still/1, servers/0, in_window/2, while_asleep/2]).
-export([rows_of/2, all_rows/1, pids/1, mailbox/0]).
-export([raised/1, same/3, figures/2]).
-export([block/1, unblock/1]).

%% ---- the side

side() ->
    case os:getenv("SONDE_SIDE") of
        "portable" -> portable;
        _ -> native
    end.

%% Picks the expectation for this side, where the two sides differ by contract. Only the picked one
%% is called, if it is a fun without arguments.
pick(Native, Portable) ->
    Picked = case side() of native -> Native; portable -> Portable end,
    case is_function(Picked, 0) of
        true -> Picked();
        false -> Picked
    end.

%% For init_per_suite. A native run on the portable side would pass for the wrong reason.
init(Config) ->
    Expected = case side() of native -> active; portable -> {off, disabled} end,
    _ = application:load(sonde),
    _ = [sonde:native(off) || side() =:= portable],
    #{status := Expected} = sonde:native(),
    Config.

%% The VM's C library.
has_musl() -> lists:suffix("-musl", erlang:system_info(system_architecture)).

is_interpreter() -> erlang:system_info(emu_flavor) =:= emu.

%% Puts the real recon's modules on the code path, or returns why that fails. Beams of an older
%% release that do not load are compiled again from the code in them.
recon() ->
    Found = [Dir || Pattern <- [os:getenv("SONDE_RECON")], is_list(Pattern),
                    Dir <- filelib:wildcard(Pattern)],
    _ = [code:add_pathz(Dir) || Dir <- Found],
    case {Found, lists:all(fun loads/1, [recon_lib, recon, recon_alloc, recon_map, recon_rec,
                                         recon_trace])} of
        {[], _} -> {skip, "recon is not here (SONDE_RECON names its ebin)"};
        {_, true} -> ok;
        _ -> {skip, "recon's modules do not load on this release"}
    end.

loads(Module) ->
    case code:ensure_loaded(Module) of
        {module, Module} -> true;
        {error, _} -> loads_again(Module, code:where_is_file(atom_to_list(Module) ++ ".beam"))
    end.

loads_again(_Module, non_existing) ->
    false;
loads_again(Module, File) ->
    {ok, {Module, [{abstract_code, {raw_abstract_v1, Forms}}]}} =
        beam_lib:chunks(File, [abstract_code]),
    {ok, Module, Beam} = compile:forms(Forms, [binary]),
    {module, Module} =:= code:load_binary(Module, File, Beam).

%% ---- processes that hold still

%% A process that has built the result of Fun, keeps it, and waits.
hold(Fun) ->
    hold(Fun, []).

hold(Fun, Opts) ->
    [Pid] = hold_each([Fun], Opts),
    Pid.

%% One process for each fun. They settle together, which takes a moment for hundreds of them.
hold_each(Funs, Opts) ->
    Parent = self(),
    Pids = [spawn_opt(fun() ->
                              State = Fun(),
                              Parent ! {built, self()},
                              park(State)
                      end, Opts) || Fun <- Funs],
    _ = [receive {built, Pid} -> ok end || Pid <- Pids],
    ok = settle(Pids),
    Pids.

park(State) ->
    receive {stop, Ref} -> exit({Ref, State}) end.

%% Waits until the process, or each of the processes, waits and runs no more.
settle(Pids) when is_list(Pids) ->
    until({settled, Pids}, fun() -> are_still(Pids) end);
settle(Pid) ->
    settle([Pid]).

are_still(Pids) ->
    Look = fun() -> [process_info(Pid, [status, reductions]) || Pid <- Pids] end,
    First = Look(),
    timer:sleep(2),
    First =:= Look() andalso not lists:any(fun runs/1, First).

runs([{status, Status}, _]) -> Status =:= running orelse Status =:= runnable;
runs(undefined) -> false.

%% Waits until Fun returns true, for at most two minutes: what takes a moment on a quiet machine
%% takes longer beside four busy loops, and what takes minutes is broken. What names the condition
%% in the failure. SONDE_PATIENCE_MS changes the two minutes, for scripts/mutants, where the
%% condition may never come true.

until(What, Fun) ->
    until(What, Fun, patience()).

patience() -> list_to_integer(os:getenv("SONDE_PATIENCE_MS", "120000")).

until(What, Fun, Ms) ->
    until(What, Fun, Ms, erlang:monotonic_time(millisecond) + Ms).

until(What, Fun, Ms, End) ->
    case {Fun(), erlang:monotonic_time(millisecond) > End} of
        {true, _} -> ok;
        {false, true} -> error({waited_in_vain, What, {ms, Ms}});
        {false, false} -> timer:sleep(5), until(What, Fun, Ms, End)
    end.

stop(Pids) when is_list(Pids) ->
    Refs = [{Pid, monitor(process, Pid)} || Pid <- Pids],
    _ = [exit(Pid, kill) || Pid <- Pids],
    _ = [receive {'DOWN', Ref, process, Pid, _} -> ok end || {Pid, Ref} <- Refs],
    ok;
stop(Pid) ->
    stop([Pid]).

%% N processes that differ in every attribute. One whose messages lie beside its heap may collect when it is
%% first asked, because it runs to answer, and then is larger: each of them is asked here.
crowd(N) ->
    Pids = hold_each([fun() -> build(I) end || I <- lists:seq(1, N)], []),
    _ = [[_, _] = process_info(Pid, [messages, total_heap_size]) || Pid <- Pids],
    ok = settle(Pids),
    Pids.

build(I) ->
    _ = [put({key, K}, K) || K <- lists:seq(1, I rem 7)],
    _ = [spawn_link(fun() -> timer:sleep(infinity) end) || _ <- lists:seq(1, I rem 3)],
    _ = [monitor(process, whereis(init)) || _ <- lists:seq(1, I rem 5)],
    _ = process_flag(trap_exit, I rem 2 =:= 0),
    queue(I rem 11),
    {lists:seq(1, 10 * I), [binary:copy(<<I>>, 65 + I) || _ <- lists:seq(1, I rem 6)]}.

queue(N) ->
    _ = [self() ! {queued, I} || I <- lists:seq(1, N)],
    ok.

%% A listener, both ends of a connection that has carried 1000 octets, and UDP sockets; and a fun
%% that closes them.
sockets() ->
    {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}, binary]),
    {ok, Port} = inet:port(Listen),
    {ok, Connected} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary]),
    {ok, Accepted} = gen_tcp:accept(Listen),
    ok = gen_tcp:send(Connected, <<0:8000>>),
    ok = received(Accepted, 1000),
    {ok, Udp} = gen_udp:open(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Udp6} = case gen_udp:open(0, [inet6, {ip, {0, 0, 0, 0, 0, 0, 0, 1}}]) of
                     {ok, Socket} -> {ok, Socket};
                     {error, _} -> gen_udp:open(0, [{ip, {127, 0, 0, 1}}])
                 end,
    {#{tcp => Listen, sent => Connected, accepted => Accepted, udp => Udp, udp6 => Udp6},
     fun() ->
             _ = [ok = gen_tcp:close(S) || S <- [Accepted, Connected, Listen]],
             _ = [ok = gen_udp:close(S) || S <- [Udp, Udp6]],
             ok
     end}.

received(_, 0) -> ok;
received(Socket, N) -> receive {tcp, Socket, Bytes} -> received(Socket, N - byte_size(Bytes)) end.

%% N processes that repeat Fun; stop/1 ends them.
churn(N, Fun) ->
    [spawn(fun() -> again(Fun) end) || _ <- lists:seq(1, N)].

again(Fun) ->
    _ = Fun(),
    again(Fun).

%% Calls Look so many times beside N processes that repeat Fun, then until Fun has run 100 times.
beside(N, Fun, Times, Look) ->
    Done = counters:new(1, []),
    Churn = churn(N, fun() -> _ = Fun(), counters:add(Done, 1, 1) end),
    try
        _ = [Look() || _ <- lists:seq(1, Times)],
        until(churned, fun() -> _ = Look(), counters:get(Done, 1) >= 100 end)
    after
        stop(Churn)
    end.

%% The processes that sonde's calls start and end.
helpers() ->
    [Pid || Pid <- processes(),
            {initial_call, {sonde_helper, _, _}} <- [process_info(Pid, initial_call)]].

%% The result of Fun in a new process, and that process.
in_process(Fun) ->
    in_process(Fun, []).

in_process(Fun, Opts) ->
    {Pid, Ref} = spawn_opt(fun() -> exit({returned, Fun()}) end, [monitor | Opts]),
    receive
        {'DOWN', Ref, process, Pid, {returned, Result}} -> {Pid, Result};
        {'DOWN', Ref, process, Pid, Why} -> error({died, Why})
    end.

%% Nothing that Fun calls changes the caller's mailbox: no message is added, even late, and none is
%% removed or moved.
no_message(Fun) ->
    Kept = [{kept, I} || I <- lists:seq(1, 5)],
    {_, {Fun, Kept}} = in_process(fun() ->
                                          _ = [self() ! M || M <- Kept],
                                          _ = Fun(),
                                          timer:sleep(300),
                                          {Fun, mailbox()}
                                  end),
    ok.

%% ---- a node that holds still

%% The result of Fun in a new process while all others are suspended, so that their values stay the
%% same. Exempt are the processes that answer Fun itself, and the caller, which waits. If Fun needs
%% a suspended process, it is killed after a minute, which ends the suspensions.
still(Fun) ->
    Test = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
                                       ok = suspend(processes() -- [Test, self() | servers()]),
                                       exit({returned, Fun()})
                               end),
    receive
        {'DOWN', Ref, process, Pid, {returned, Result}} -> Result;
        {'DOWN', Ref, process, Pid, Why} -> error({died, Why})
    after 60000 ->
        exit(Pid, kill),
        error(never_still)
    end.

%% No other process calls them now, so they hold still too. The VM's own must handle signals.
servers() ->
    [Pid || Name <- [init, code_server, erl_prim_loader, application_controller],
            Pid <- [whereis(Name)], is_pid(Pid)]
        ++ [Pid || Pid <- processes(), {_, {M, _, _}} <- [process_info(Pid, initial_call)],
                   lists:prefix("erts_", atom_to_list(M))].

suspend(Pids) ->
    _ = [try erlang:suspend_process(Pid) catch error:_ -> false = is_process_alive(Pid) end
         || Pid <- Pids],
    ok.

%% Runs Fun while Pid is in timer:sleep/1, and keeps Pid there until Fun is done.
while_asleep(Pid, Fun) ->
    ok = until({asleep, Pid}, fun() -> is_asleep(Pid) end),
    true = erlang:suspend_process(Pid),
    true = is_asleep(Pid),
    Result = Fun(),
    true = erlang:resume_process(Pid),
    Result.

is_asleep(Pid) ->
    process_info(Pid, current_function) =:= {current_function, {timer, sleep, 1}}.

%% The result of Ask, a call that looks twice and sleeps in between. Fun runs during the sleep.
in_window(Ask, Fun) ->
    {Pid, Ref} = spawn_monitor(fun() -> exit({returned, Ask()}) end),
    ok = until({asleep, Pid}, fun() -> is_asleep(Pid) orelse not is_process_alive(Pid) end),
    case suspended_asleep(Pid) of
        true ->
            _ = Fun(),
            true = erlang:resume_process(Pid),
            receive
                {'DOWN', Ref, process, Pid, {returned, Result}} -> Result;
                {'DOWN', Ref, process, Pid, Why} -> error({died, Why})
            end;
        false ->
            %% a busy machine let the sleep go by
            true = exit(Pid, kill),
            receive
                {'DOWN', Ref, process, Pid, Why} when Why =:= killed; element(1, Why) =:= returned ->
                    in_window(Ask, Fun);
                {'DOWN', Ref, process, Pid, Why} ->
                    error({died, Why})
            end
    end.

suspended_asleep(Pid) ->
    try erlang:suspend_process(Pid) of
        true -> is_asleep(Pid)
    catch
        error:badarg -> false
    end.

%% A helper of Call that is suspended in the middle of its work until its caller is killed does not
%% go on. Short work may need several tries.
ends_with_caller(Call) ->
    until({ends_with_caller, Call}, fun() -> notices(Call) end).

notices(Call) ->
    [Caller] = churn(1, Call),
    ok = until({works, Call}, fun() ->
                                      true = is_process_alive(Caller),
                                      helpers() =/= []
                              end),
    Held = [{Pid, monitor(process, Pid)} || Pid <- helpers()],
    %% It may have ended; or it is suspended already, which raises internal_error.
    _ = [raised(fun() -> erlang:suspend_process(Pid) end) || {Pid, _} <- Held],
    ok = stop(Caller),
    _ = [raised(fun() -> erlang:resume_process(Pid) end) || {Pid, _} <- Held],
    Ends = [receive {'DOWN', Ref, process, Pid, Why} -> Why after patience() -> still_there end
            || {Pid, Ref} <- Held],
    lists:any(fun({raised, exit, caller_is_gone, _}) -> true; (_) -> false end, Ends).

%% ---- rows

pids(Rows) ->
    [Pid || {Pid, _, _} <- Rows].

rows_of(Pids, Rows) ->
    [Row || {Pid, _, _} = Row <- Rows, lists:member(Pid, Pids)].

%% What sorting all rows gives: recon's own method, apart from the names.
all_rows(Value) ->
    Rows = [{V, Pid} || Pid <- processes(), Pid =/= self(), {ok, V} <- [Value(Pid)]],
    [{Pid, V} || {V, Pid} <- lists:reverse(lists:sort(Rows))].

mailbox() ->
    {messages, Messages} = process_info(self(), messages),
    Messages.

%% ---- answers

raised(Fun) ->
    try Fun() of
        Result -> {returned, Result}
    catch
        error:Why -> Why
    end.

%% Theirs and Ours give the same answer on a node that holds still. Ours is compared between two
%% equal answers of Theirs: the VM's threads may still finish work after the processes were
%% suspended, and change the answers at first.
same(What, Theirs, Ours) ->
    {Expected, Answer, Again} = still(fun() -> _ = Theirs(), between(What, Theirs, Ours, 0) end),
    _ = [figures("~0p: asked ~b times again, since the node moved", [What, Again]) || Again > 0],
    Answer =:= Expected orelse ct:fail({What, Expected, Answer}),
    ok.

between(What, Theirs, Ours, Again) ->
    Before = Theirs(),
    Answer = Ours(),
    case Theirs() of
        Before -> {Before, Answer, Again};
        After when Again =:= 100 -> error({moves, What, Before, After});
        _ -> timer:sleep(5), between(What, Theirs, Ours, Again + 1)
    end.

%% Adds a line that scripts/suite prints after the suites.
figures(Format, Args) ->
    Line = io_lib:format("  " ++ Format ++ "~n", Args),
    ct:pal("~ts", [Line]),
    case os:getenv("SONDE_FIGURES") of
        false -> ok;
        File -> file:write_file(File, unicode:characters_to_binary(Line), [append])
    end.

%% ---- a process in a long native call: it opens a named pipe that nobody writes to

block(Dir) ->
    Pipe = filename:join(Dir, "pipe" ++ integer_to_list(erlang:unique_integer([positive]))),
    "" = os:cmd("mkfifo '" ++ Pipe ++ "'"),
    Garbage = fun() -> binary:copy(<<"held">>, 100) end,
    Pid = spawn(fun() ->
                        Held = [Garbage() || _ <- lists:seq(1, 10)],
                        {ok, File} = file:open(Pipe, [read, raw]),
                        ok = file:close(File),
                        park(Held)
                end),
    ok = until(blocked, fun() -> process_info(Pid, current_function)
                                     =:= {current_function, {prim_file, open_nif, 2}} end),
    {Pid, Pipe}.

unblock({_Pid, Pipe}) ->
    "" = os:cmd("true > '" ++ Pipe ++ "'"),
    ok.
