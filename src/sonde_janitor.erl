%% @private
%% On a node that sonde was only lent to: the process that loads it there, watches over those who
%% look at the node, and takes all away when the last of them has left or is not heard of any more.
%%
%% It does the loading itself, from one message, so there is no moment at which the end of that
%% node, or of the connection, leaves something behind.
-module(sonde_janitor).

-export([start/1, run/2, keep/0]).
-export_type([job/0]).

%% Beats without a word. They are counted here: a node that was stopped for a while counts one for
%% all of that.
-define(SILENT, 9).
-define(KEEP_MS, 5000).

%% `base': a name that no file has, under which the modules are loaded: it says whose they are.
%% `beat_ms': how often everybody who is attached says so. `linger_ms': how long it waits for
%% somebody to come again after the last one has left.
-type job() :: #{client := pid(), base := file:filename(), modules := [sonde_files:object()],
                 libraries := [{file:filename(), binary()}], beat_ms := pos_integer(),
                 linger_ms := non_neg_integer()}.

%% @doc Only from the process that has just loaded this module (`sonde_attach'): ends with the
%% janitor's pid, once that has its name.
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
            rest(Clients, Lent, maps:with([base, beat_ms, linger_ms], Job));
        {error, Lent, Why} ->
            ok = remove(Lent),
            Client ! {?MODULE, self(), {error, Why}},
            remove_self(Job)
    end.

%% @doc Somebody else relies on sonde here from now on: what is loaded stays.
-spec keep() -> ok.
keep() ->
    case whereis(?MODULE) of
        undefined ->
            ok;
        Pid ->
            Ref = monitor(process, Pid),
            Pid ! keep,
            receive {'DOWN', Ref, process, Pid, _} -> ok
            after ?KEEP_MS -> true = demonitor(Ref, [flush]), ok
            end
    end.

%% ---- who is there: #{Pid => {Monitor, ticks since the last word}}

%% The modules came as binaries, which are nobody's any more.
rest(Clients, Lent, Job) ->
    true = garbage_collect(),
    ok = tick_later(Job),
    loop(Clients, Lent, Job).

loop(Clients, Lent, Job) when map_size(Clients) =:= 0 ->
    ok = remove(Lent),
    remove_self(Job);
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
            case linger(forget(Pid, Clients), Job) of
                keep -> ok;
                Left -> loop(Left, Lent, Job)
            end;
        {'DOWN', _, process, Pid, _} when is_map_key(Pid, Clients) ->
            loop(forget(Pid, Clients), Lent, Job);
        tick ->
            ok = tick_later(Job),
            loop(maps:fold(fun tick/3, Clients, Clients), Lent, Job);
        keep ->
            ok;
        _ ->
            loop(Clients, Lent, Job)
    end.

linger(Clients, #{linger_ms := Ms}) when map_size(Clients) =:= 0 ->
    receive
        {join, Pid} ->
            Pid ! {?MODULE, self(), joined},
            watch(Pid, Clients);
        keep ->
            keep
    after Ms ->
        Clients
    end;
linger(Clients, _) ->
    Clients.

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

install(#{modules := Modules, libraries := Libraries} = Job) ->
    {value, Nif, Pure} = lists:keytake(sonde_nif, 1, lists:keydelete(?MODULE, 1, Modules)),
    case [M || {M, _, _} <- [Nif | Pure], code:is_loaded(M) =/= false] of
        [] -> load([named(Object, Job) || Object <- Pure], named(Nif, Job), Libraries);
        Taken -> {error, [], {taken, Taken}}
    end.

load(Pure, Nif, Libraries) ->
    case code:atomic_load(Pure) of
        ok ->
            Lent = [{M, {file, File}} || {M, File, _} <- Pure],
            try load_nif(Nif, Libraries) of
                Side -> {ok, [{sonde_nif, code:is_loaded(sonde_nif)} | Lent], Side}
            catch
                throw:Why -> {error, Lent, Why}
            end;
        {error, Why} ->
            {error, [], {not_loaded, Why}}
    end.

%% Where there is no room for a file, it goes without.
load_nif(Nif, Libraries) ->
    try sonde_load:load_nif(node(), Nif, Libraries) of
        ok when Libraries =:= [] -> portable;
        ok -> native
    catch
        throw:{no_folder, Why} ->
            ok = sonde_load:load_nif(node(), Nif, []),
            {no_folder, Why}
    end.

named({Module, _, Object}, Job) ->
    {Module, file(Module, Job), Object}.

file(Module, #{base := Base}) ->
    filename:join(Base, atom_to_list(Module) ++ ".beam").

%% ---- and taking away. No call of another module of ours from here on, but one

%% Whoever has loaded a module anew meanwhile keeps it.
remove(Lent) ->
    Names = [M || {M, Loaded} <- Lent, code:is_loaded(M) =:= Loaded],
    _ = [leave_signals() || lists:member(sonde_nif, Names)],
    %% Old code goes first: nothing can be deleted in front of it. Then all at once are out of
    %% reach, and go one after the other, since for each every process of the node is asked.
    _ = [code:F(M) || F <- [purge, delete, purge], M <- Names],
    _ = [persistent_term:erase(Key) || {{M, _} = Key, _} <- persistent_term:get(),
                                       lists:member(M, Names)],
    ok.

%% The handler goes with the library, once nobody is in a native call any more.
leave_signals() ->
    try sonde_nif:leave()
    catch error:_ -> ok
    end.

%% The code that runs here becomes old, and is taken out once it does not run any more.
remove_self(Job) ->
    case code:is_loaded(?MODULE) =:= {file, file(?MODULE, Job)} of
        true ->
            true = code:delete(?MODULE),
            _ = spawn(code, purge, [?MODULE]),
            ok;
        false ->
            ok
    end.
