%% @private
%% On a node onto which sonde was loaded temporarily: the process that loads it there, monitors the
%% clients, and removes everything when the last of them has left or fallen silent.
%%
%% It runs in the one module that is loaded temporarily (scripts/merge), beside which there is only
%% `sonde_nif'. Deleting them sends no message to any process, and no call reaches them from then
%% on. Purging a module, which frees its memory, sends one to each process of the node, and another
%% for its literals. That is done where it is cheap. On a larger node the two stay, out of reach,
%% until sonde is loaded there again, since loading purges the old module, or until the node ends.
%%
%% It does the loading itself, from one message, so there is no moment at which the end of that
%% node, or of the connection, leaves something behind.
-module(sonde_janitor).

-export([start/1, run/2, keep/0]).
-export_type([job/0]).

%% Missed beats. They are counted here: a node that was stopped counts one for all of that time.
-define(SILENT, 9).
-define(KEEP_MS, 5000).
%% With that many processes, two purges take about 40 ms of CPU; with ten times as many, 400 ms.
-define(PURGE_MAX, 10000).

%% `guest': the one module, and the file name under which it is loaded. No such file exists: the
%% name identifies the module as ours. `beat_ms': the time between two beats of a client.
%% `linger_ms': how long the janitor waits for a client to come again after the last one has left.
-type job() :: #{client := pid(), guest := {module(), file:filename()}, nif := sonde_bundle:object(),
                 libraries := [{file:filename(), binary()}], beat_ms := pos_integer(),
                 linger_ms := non_neg_integer()}.

%% @doc Called only by the process that has just loaded this module (`sonde_attach'): exits with the
%% janitor's pid, once the janitor is registered.
-spec start(job()) -> no_return().
start(Job) ->
    {Pid, Ref} = spawn_monitor(?MODULE, run, [self(), Job]),
    receive
        {Pid, named} -> exit({started, Pid});
        {'DOWN', Ref, process, Pid, Why} -> exit(Why)
    end.

-spec run(pid(), job()) -> ok.
run(Starter, #{client := Client} = Job) ->
    true = register(?MODULE, self()),
    true = group_leader(whereis(init), self()),
    Clients = watch(Client, #{}),
    Starter ! {self(), named},
    case install(Job) of
        {ok, Lent, Side} ->
            Client ! {?MODULE, self(), {ready, Side}},
            rest(Clients, Lent, maps:with([guest, beat_ms, linger_ms], Job));
        {error, Lent, Why} ->
            Removed = remove(Lent),
            Client ! {?MODULE, self(), {error, Why}},
            remove_self(Job, Removed)
    end.

%% @doc `sonde_nif' is needed here from now on: the janitor leaves it loaded.
-spec keep() -> ok.
keep() ->
    case whereis(?MODULE) of
        undefined ->
            ok;
        Pid ->
            Ref = monitor(process, Pid),
            Pid ! {keep, self(), Ref},
            receive
                {Ref, kept} -> true = demonitor(Ref, [flush]), ok;
                {'DOWN', Ref, process, Pid, _} -> ok
            after ?KEEP_MS -> true = demonitor(Ref, [flush]), ok
            end
    end.

%% ---- the clients: #{Pid => {Monitor, ticks since the last beat}}

%% The modules came as binaries, which are garbage now.
rest(Clients, Lent, Job) ->
    true = garbage_collect(),
    ok = tick_later(Job),
    loop(Clients, Lent, Job).

loop(Clients, Lent, Job) when map_size(Clients) =:= 0 ->
    remove_self(Job, remove(Lent));
loop(Clients, Lent, Job) ->
    receive
        {join, Pid} ->
            Pid ! {?MODULE, self(), joined},
            loop(watch(Pid, Clients), Lent, Job);
        {beat, Pid} when is_map_key(Pid, Clients) ->
            #{Pid := {Ref, _}} = Clients,
            loop(Clients#{Pid := {Ref, 0}}, Lent, Job);
        {leave, Pid} when is_map_key(Pid, Clients) ->
            Pid ! {?MODULE, self(), left},
            {Left, Stays} = linger(forget(Pid, Clients), Lent, Job),
            loop(Left, Stays, Job);
        {'DOWN', _, process, Pid, _} when is_map_key(Pid, Clients) ->
            loop(forget(Pid, Clients), Lent, Job);
        tick ->
            ok = tick_later(Job),
            loop(maps:fold(fun tick/3, Clients, Clients), Lent, Job);
        {keep, Pid, Ref} ->
            Pid ! {Ref, kept},
            loop(Clients, [], Job);
        _ ->
            loop(Clients, Lent, Job)
    end.

linger(Clients, Lent, #{linger_ms := Ms}) when map_size(Clients) =:= 0 ->
    receive
        {join, Pid} ->
            Pid ! {?MODULE, self(), joined},
            {watch(Pid, Clients), Lent};
        {keep, Pid, Ref} ->
            Pid ! {Ref, kept},
            {Clients, []}
    after Ms ->
        {Clients, Lent}
    end;
linger(Clients, Lent, _) ->
    {Clients, Lent}.

tick_later(#{beat_ms := BeatMs}) ->
    _ = erlang:send_after(BeatMs, self(), tick),
    ok.

watch(Pid, Clients) when is_map_key(Pid, Clients) -> Clients;
watch(Pid, Clients) -> Clients#{Pid => {monitor(process, Pid), 0}}.

forget(Pid, Clients) ->
    {{Ref, _}, Left} = maps:take(Pid, Clients),
    true = demonitor(Ref, [flush]),
    Left.

tick(Pid, {_, ?SILENT}, Clients) -> forget(Pid, Clients);
tick(Pid, {Ref, Ticks}, Clients) -> Clients#{Pid := {Ref, Ticks + 1}}.

%% ---- loading

install(#{nif := {Nif, _, _} = Object, libraries := Libraries} = Job) ->
    case code:is_loaded(Nif) of
        false ->
            try load_nif(named(Object, Job), Libraries) of
                Side -> {ok, [{Nif, code:is_loaded(Nif)}], Side}
            catch
                throw:Why -> {error, [], Why}
            end;
        _ ->
            {error, [], {taken, [Nif]}}
    end.

%% If there is no folder for a file, load without the library.
load_nif(Nif, Libraries) ->
    try sonde_loader:load_nif(node(), Nif, Libraries) of
        ok when Libraries =:= [] -> portable;
        ok -> native
    catch
        throw:{no_folder, Why} ->
            ok = sonde_loader:load_nif(node(), Nif, []),
            {no_folder, Why}
    end.

named({Module, _, Object}, #{guest := {_, Guest}}) ->
    {Module, filename:join(filename:dirname(Guest), atom_to_list(Module) ++ ".beam"), Object}.

%% ---- and removing. From here on, there is only one call of another module of ours

%% Returns whether anything was removed. A module that was loaded anew meanwhile stays. No call reaches a
%% deleted module, and deleting it sends no message. Purging it, with the reason why a library did not
%% load, is done where cheap.
remove(Lent) ->
    Names = [M || {M, Loaded} <- Lent, code:is_loaded(M) =:= Loaded],
    _ = [leave_signals() || lists:member(sonde_nif, Names)],
    _ = [code:delete(M) || M <- Names],
    _ = [application:unset_env(sonde_vm, Key) || Names =/= [], Key <- [kept, forbidden]],
    _ = [take_out(M) || M <- Names, is_cheap()],
    Names =/= [].

take_out(Module) ->
    _ = code:purge(Module),
    _ = persistent_term:erase({Module, not_loaded}),
    ok.

is_cheap() ->
    erlang:system_info(process_count) =< ?PURGE_MAX.

%% The signal handler is removed with the library, once no process is in a native call any more.
leave_signals() ->
    try sonde_nif:leave()
    catch error:_ -> ok
    end.

%% The code that runs here becomes old, and is purged once it does not run any more. A call under way may
%% store a setting again after remove/1. The purge ends that call, so the setting is removed after it.
remove_self(#{guest := {Module, File}}, Removed) ->
    case code:is_loaded(Module) =:= {file, File} of
        true ->
            true = code:delete(Module),
            Last = [{fun code:purge/1, [Module]}]
                ++ [{fun application:unset_env/2, [sonde_vm, kept]} || Removed],
            {Calls, Args} = lists:unzip(Last),
            _ = [spawn(lists, zipwith, [fun erlang:apply/2, Calls, Args]) || is_cheap()],
            ok;
        false ->
            ok
    end.
