%% Modules with the names that Elixir's compiler gives, and a process that runs in one.
-module(sonde_elixir_helper).

-export([start/0, stop/1, with_kernel/1, load_kernel/0]).

-define(WORKER, 'Elixir.MyApp.Worker').

%% Registered as MyApp.Worker, started as a fun of MyApp.Worker.start/0, waits in
%% MyApp.Worker."odd name"/1, owns the table MyApp.Cache.
start() ->
    ok = load(?WORKER,
              ["-export([start/0]).",
               "start() -> proc_lib:spawn(fun() -> true = register('Elixir.MyApp.Worker', self()),"
               "    T = ets:new('Elixir.MyApp.Cache', [named_table, public]),"
               "    true = ets:insert(T, [{N, N} || N <- lists:seq(1, 100000)]),"
               "    put('Elixir.MyApp.Key', {'Elixir.MyApp.Value', lists:seq(1, 10000)}),"
               "    'odd name'(T) end).",
               "'odd name'(T) -> receive {stop, Ref, From} -> From ! {Ref, T} end."]),
    Pid = ?WORKER:start(),
    ok = sonde_test:until(odd, fun() ->
                                   process_info(Pid, current_function) =:=
                                       {current_function, {?WORKER, 'odd name', 1}}
                               end),
    Pid.

stop(Pid) ->
    sonde_test:stop(Pid),
    unload(?WORKER).

%% Runs Fun on a node that seems to run Elixir.
with_kernel(Fun) ->
    ok = load_kernel(),
    try Fun()
    after unload('Elixir.Kernel')
    end.

load_kernel() ->
    load('Elixir.Kernel', []).

load(Module, Texts) ->
    Forms = [form(T) || T <- [lists:flatten(io_lib:format("-module(~p).", [Module])) | Texts]],
    {ok, Module, Beam} = compile:forms(Forms),
    {module, Module} = code:load_binary(Module, "", Beam),
    ok.

form(Text) ->
    {ok, Tokens, _} = erl_scan:string(Text),
    {ok, Form} = erl_parse:parse_form(Tokens),
    Form.

unload(Module) ->
    true = code:delete(Module),
    _ = code:purge(Module),
    ok.
