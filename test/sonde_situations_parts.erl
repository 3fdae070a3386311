%% What situations are made of: a gen_server that is given as a fun, clients, and the terms that
%% real systems keep. Draws come from the random numbers of the calling process.
-module(sonde_situations_parts).

-behaviour(gen_server).

-export([server/2, server/3, do/2, ask/2, memory/1, held_binaries/1]).
-export([client/2, rested/1, closed/1, each/2]).
-export([between/2, one_of/1, mb/2, named/1]).
-export([session/1, payload/1, rows/1, directory/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
-export([repeated/3]).

%% ---- servers

%% A gen_server: Build returns its first state, and Handle the next one for each cast and message.
%% `{hibernate, State}' lets it hibernate.
server(Handle, Build) ->
    server(Handle, Build, []).

server(Handle, Build, Opts) ->
    {ok, Pid} = gen_server:start_link(?MODULE, {Handle, Build}, [{spawn_opt, Opts}]),
    Pid.

%% The server calls Fun with its state, and replies with the first of the two that Fun returns.
do(Pid, Fun) ->
    gen_server:call(Pid, {do, Fun}, infinity).

%% Handle is given `{ask, Request, From}', and may reply later.
ask(Pid, Request) ->
    gen_server:call(Pid, {ask, Request}, infinity).

init({Handle, Build}) ->
    {ok, {Handle, Build()}}.

handle_call({do, Fun}, _From, {Handle, State}) ->
    {Reply, Next} = Fun(State),
    {reply, Reply, {Handle, Next}};
handle_call({ask, Request}, From, State) ->
    handle_cast({ask, Request, From}, State);
handle_call(hibernate, _From, State) ->
    {reply, ok, State, hibernate}.

handle_cast(Message, {Handle, State}) ->
    case Handle(Message, State) of
        {hibernate, Next} -> {noreply, {Handle, Next}, hibernate};
        Next -> {noreply, {Handle, Next}}
    end.

handle_info(Message, State) ->
    handle_cast(Message, State).

memory(Pid) ->
    {memory, Bytes} = process_info(Pid, memory),
    Bytes.

%% Each binary counts once.
held_binaries(Pid) ->
    {binary, Binaries} = process_info(Pid, binary),
    lists:sum([Size || {_, Size, _} <- lists:ukeysort(1, Binaries)]).

%% ---- clients

%% A linked process that calls Fun about every Pause ms, with 1, 2, 3 and so on.
client(Pause, Fun) ->
    proc_lib:spawn_link(?MODULE, repeated, [Pause, Fun, 1]).

repeated(Pause, Fun, I) ->
    timer:sleep(Pause div 2 + rand:uniform(Pause)),
    _ = Fun(I),
    repeated(Pause, Fun, I + 1).

each(N, Fun) ->
    lists:foreach(Fun, lists:seq(1, N)).

%% Waits until the process has nothing to do.
rested(Pid) ->
    sonde_test:until({rested, Pid},
                     fun() -> process_info(Pid, [status, message_queue_len])
                                  =:= [{status, waiting}, {message_queue_len, 0}] end).

%% Ends a process and those that are linked to it, and waits until all of them are gone.
closed(Pid) ->
    {links, Linked} = process_info(Pid, links),
    Refs = [monitor(process, P) || P <- [Pid | Linked], is_pid(P)],
    exit(Pid, kill),
    lists:foreach(fun(Ref) -> receive {'DOWN', Ref, process, _, _} -> ok end end, Refs).

%% ---- draws

between(From, To) -> From + rand:uniform(To - From + 1) - 1.

one_of(Values) -> lists:nth(rand:uniform(length(Values)), Values).

%% Bytes.
mb(From, To) -> between(From * 1048576, To * 1048576).

%% A name as real systems have them, or none for a process that is not registered.
named(Pid) ->
    Name = list_to_atom(one_of(["orders", "users", "mail", "geo", "stock", "chat"])
                        ++ one_of(["_server", "_index", "_keeper", ""])
                        ++ integer_to_list(between(1, 1000000))),
    _ = [register(Name, Pid) || one_of([true, false])],
    Pid.

%% ---- terms

%% A session of a web shop: about 400 bytes.
session(I) ->
    #{id => I, user => <<"user-", (integer_to_binary(I))/binary>>,
      since => {2026, I rem 12 + 1, I rem 28 + 1},
      cart => [{article, I + J, 1} || J <- lists:seq(1, 4)]}.

payload(Size) ->
    binary:copy(<<(rand:uniform(1 bsl 32)):64>>, (Size + 7) div 8).

rows(N) ->
    [{row, I, I * 7} || I <- lists:seq(1, N)].

%% A new directory. SONDE_TEST_DIR names the one in which it is.
directory() ->
    Name = "situation-" ++ os:getpid() ++ "-"
        ++ integer_to_list(erlang:unique_integer([positive])),
    Dir = filename:join(os:getenv("SONDE_TEST_DIR", "/tmp"), Name),
    ok = filelib:ensure_dir(filename:join(Dir, "file")),
    Dir.
