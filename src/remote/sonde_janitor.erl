%% @private
%% On a node that sonde was only lent to: the process that loads it there, watches over those who
%% look at the node, and takes all away when the last of them has left or is not heard of any more.
%%
%% It runs in the one module that is lent (scripts/merge), beside which there is only `sonde_nif'.
%% Both are deleted, which asks nobody: from then on no call reaches them. To purge a module, which
%% gives its memory back, a node asks each of its processes, and once more for its literals. That is
%% done where it is cheap; on a larger node the two stay, out of reach, until somebody comes again,
%% since to load a module is to purge what was there before it, or until the node ends.
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
%% Of that many processes two purges take about 40 ms of CPU, of ten times as many ten times that.
-define(PURGE_MAX, 10000).

%% `guest': the one module, and under which name it is loaded. No file has it: it says whose it is.
%% `beat_ms': how often everybody who is attached says so. `linger_ms': how long it waits for
%% somebody to come again after the last one has left.
-type job() :: #{client := pid(), guest := {module(), file:filename()}, nif := sonde_bundle:object(),
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
            rest(Clients, Lent, maps:with([guest, beat_ms, linger_ms], Job));
        {error, Lent, Why} ->
            ok = remove(Lent),
            Client ! {?MODULE, self(), {error, Why}},
            remove_self(Job)
    end.

%% @doc Somebody else relies on `sonde_nif' here from now on: it stays.
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

%% Where there is no room for a file, it goes without.
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

%% ---- and taking away. No call of another module of ours from here on, but one

%% Whoever has loaded a module anew meanwhile keeps it. Nobody reaches what is deleted, and that asks
%% nobody; it is taken out where that is cheap, and so is the text why a library did not load.
remove(Lent) ->
    Names = [M || {M, Loaded} <- Lent, code:is_loaded(M) =:= Loaded],
    _ = [leave_signals() || lists:member(sonde_nif, Names)],
    _ = [code:delete(M) || M <- Names],
    _ = [application:unset_env(sonde_vm, Key) || Names =/= [], Key <- [kept, forbidden]],
    _ = [take_out(M) || M <- Names, is_cheap()],
    ok.

take_out(Module) ->
    _ = code:purge(Module),
    _ = persistent_term:erase({Module, not_loaded}),
    ok.

is_cheap() ->
    erlang:system_info(process_count) =< ?PURGE_MAX.

%% The handler goes with the library, once nobody is in a native call any more.
leave_signals() ->
    try sonde_nif:leave()
    catch error:_ -> ok
    end.

%% The code that runs here becomes old, and is taken out once it does not run any more.
remove_self(#{guest := {Module, File}}) ->
    case code:is_loaded(Module) =:= {file, File} of
        true ->
            true = code:delete(Module),
            _ = [spawn(code, purge, [Module]) || is_cheap()],
            ok;
        false ->
            ok
    end.
