%% remote_load brings sonde to nodes without it, and leaves nothing on their disks; other modules
%% load as with recon. Each case begins with bare nodes.
-module(load_SUITE).

-compile([export_all, nowarn_export_all]).

-import(sonde_attach_helper, [ebin/0, ours/0, modules/1, has_library/0]).

-import(sonde_peer_helper, [call/4]).

-define(NOT_THERE, 'p1@127.0.0.1').

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [comes_to_a_bare_node, answers_as_well_as_at_home, says_what_happened_for_each_node,
     is_there_already, another_build_is_left_alone, takes_all_back_when_it_fails,
     library_is_seen_by_its_owner_only, nothing_stays_on_disk, embedded_node,
     without_a_library_it_is_portable, other_system_gets_no_library, to_all_nodes, other_modules_as_recon,
     bad_arguments, no_message_reaches_the_caller].

init_per_suite(Config0) ->
    Config = sonde_test:init(Config0),
    Dir = filename:join(get(priv_dir, Config), nodes),
    ok = file:make_dir(Dir),
    [{dir, Dir}, {home, sonde_attach_helper:home(Dir)},
     {bare, [sonde_attach_helper:bare(Dir), sonde_attach_helper:bare(Dir)]} | Config].

end_per_suite(Config) ->
    _ = [sonde_attach_helper:stop(Peer) || {Peer, _} <- [get(home, Config) | get(bare, Config)]],
    ok.

init_per_testcase(_Case, Config) ->
    _ = [ok = sonde_attach_helper:unload(Peer) || {Peer, _} <- get(bare, Config)],
    Config.

end_per_testcase(_Case, _Config) ->
    ok.

get(Key, Config) -> proplists:get_value(Key, Config).

%% ---- sonde

comes_to_a_bare_node(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    non_existing = call(Bare, code, which, [sonde]),
    [{Node, {ok, Status}}] = at(Home, [[Node], sonde]),
    Status = (call(Bare, sonde, native, []))#{counters := maps:get(counters, Status)},
    right_side(Status),
    3 = length(call(Bare, sonde, proc_count, [memory, 3])).

%% Every public call works there, so no module was forgotten.
answers_as_well_as_at_home(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    [{Node, {ok, _}}] = at(Home, [Node, sonde]),
    [_] = call(Bare, sonde, proc_window, [reductions, 1, 1]),
    [_] = call(Bare, sonde, bin_leak, [1]),
    #{rows := [_, _]} = call(Bare, sonde, bin_leak, [2, #{}]),
    [_] = call(Bare, sonde, proc_count, [monitor_count, 1, #{self => true}]),
    {Ours, Ours} = {ours(), modules(Bare)},
    ok.

says_what_happened_for_each_node(Config) ->
    {Home, [{_, Node1}, {_, Node2}]} = all_nodes(Config),
    [{Node1, {ok, _}}] = at(Home, [[Node1], sonde]),
    [{Node2, {ok, _}}, {?NOT_THERE, {error, noconnection}}, {Node1, {already, _}}] =
        at(Home, [[Node2, ?NOT_THERE, Node1], sonde]),
    [] = at(Home, [[], sonde]).

is_there_already(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    Self = call(Home, erlang, node, []),
    [{Self, {already, Status}}] = at(Home, [Self, sonde]),
    right_side(Status),
    %% Not loaded yet, but on the node's code path.
    true = call(Bare, code, add_patha, [ebin()]),
    try [{Node, {already, _}}] = at(Home, [Node, sonde])
    after true = call(Bare, code, del_path, [ebin()])
    end.

another_build_is_left_alone(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    Other = make_module(Bare, ["-module(sonde).", "-export([native/0]).",
                               "native() -> #{status => other}."]),
    [{Node, {error, {other_build, #{status := other}}}}] = at(Home, [[Node], sonde]),
    Other = call(Bare, sonde, module_info, [md5]),
    false = call(Bare, code, is_loaded, [sonde_proc_count]).

takes_all_back_when_it_fails(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    case has_library() of
        true ->
            true = call(Bare, os, putenv, ["TMPDIR", "/nowhere/at/all"]),
            try
                [{Node, {error, {no_folder, enoent}}}] = at(Home, [[Node], sonde]),
                [] = modules(Bare)
            after true = call(Bare, os, putenv, ["TMPDIR", get(dir, Config)])
            end,
            [{Node, {ok, _}}] = at(Home, [[Node], sonde]);
        false ->
            {skip, "no shared object was built"}
    end.

%% A trace on the node shows which files were made, and with which mode.
library_is_seen_by_its_owner_only(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    Asked = [{file, F} || F <- [make_dir, change_mode, write_file]],
    Calls = sonde_attach_helper:traced(Bare, Asked, fun() ->
                [{Node, {ok, _}}] = at(Home, [[Node], sonde])
            end),
    case has_library() of
        true ->
            [Dir | Below] = [D || {make_dir, [D]} <- Calls],
            true = lists:prefix(filename:join(get(dir, Config), "sonde-"), Dir),
            [] = [D || D <- Below, not lists:prefix(Dir ++ "/", D)],
            %% The directory is closed to others before any file is in it.
            [{make_dir, [Dir]}, {change_mode, [Dir, 8#700]} | Later] = Calls,
            [] = [C || {make_dir, [D]} = C <- Later, D =:= Dir],
            Written = [F || {write_file, [F, _, [exclusive]]} <- Later],
            Written = [F || {change_mode, [F, 8#600]} <- Later],
            [] = [C || {write_file, Args} = C <- Later, length(Args) =/= 3],
            true = length(Written) >= 2;
        false ->
            [] = Calls
    end.

nothing_stays_on_disk(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    Path = call(Bare, code, get_path, []),
    [{Node, {ok, _}}] = at(Home, [[Node], sonde]),
    {ok, []} = file:list_dir(get(dir, Config)),
    Path = call(Bare, code, get_path, []),
    3 = length(call(Bare, sonde, proc_count, [memory, 3])).

embedded_node(Config) ->
    {Bare, Node} = sonde_attach_helper:bare(get(dir, Config), ["-mode", "embedded"]),
    try
        embedded = call(Bare, code, get_mode, []),
        [{Node, {ok, Status}}] = at(home(Config), [[Node], sonde]),
        right_side(Status)
    after sonde_attach_helper:stop(Bare)
    end.

%% As on a node of another system: the modules come without the library, and answer.
without_a_library_it_is_portable(Config) ->
    Alone = filename:join(get(priv_dir, Config), "alone/ebin"),
    ok = filelib:ensure_dir(filename:join(Alone, "x")),
    _ = [{ok, _} = file:copy(F, filename:join(Alone, filename:basename(F)))
         || F <- filelib:wildcard(filename:join(ebin(), "*"))],
    {_, Bare, Node} = nodes_of(Config),
    {Home, _} = sonde_attach_helper:home(get(dir, Config)),
    try
        _ = [true = call(Home, code, F, [D])
             || {F, D} <- [{del_path, ebin()}, {add_patha, Alone}]],
        ok = sonde_attach_helper:unload(Home),
        [{Node, {ok, #{status := {off, Why}}}}] = at(Home, [[Node], sonde]),
        true = Why =:= disabled orelse element(1, Why) =:= not_loaded,
        3 = length(call(Bare, sonde, proc_count, [memory, 3]))
    after sonde_attach_helper:stop(Home)
    end.

%% No file is written onto a node of another system.
other_system_gets_no_library(Config) ->
    {Bare, Node} = sonde_attach_helper:bare(get(dir, Config)),
    try
        ok = sonde_attach_helper:pretend(Bare, #{system_architecture => "riscv64-unknown-linux-gnu"}),
        [] = sonde_attach_helper:traced(Bare, [{file, write_file}], fun() ->
                 [{Node, {ok, #{status := {off, Why}}}}] = at(home(Config), [[Node], sonde]),
                 true = Why =:= disabled orelse element(1, Why) =:= not_loaded
             end),
        3 = length(call(Bare, sonde, proc_count, [memory, 3]))
    after sonde_attach_helper:stop(Bare)
    end.

to_all_nodes(Config) ->
    {Home, Bare} = all_nodes(Config),
    Nodes = lists:sort([Node || {_, Node} <- Bare]),
    ok = sonde_test:until(alone, fun() ->
        Others = call(Home, erlang, nodes, []),
        _ = [call(Home, erlang, disconnect_node, [Other]) || Other <- Others],
        Others =:= []
    end),
    [] = at(Home, [sonde]),
    badarg = raised(Home, remote_load, [sonde_test]),
    _ = [true = call(Home, net_kernel, connect_node, [N]) || N <- Nodes],
    Nodes = lists:sort([N || {N, {ok, _}} <- at(Home, [sonde])]),
    {[{module, sonde_test}, {module, sonde_test}], []} = at(Home, [sonde_test]).

%% ---- other modules

other_modules_as_recon(Config) ->
    {Home, _, Node} = nodes_of(Config),
    {[{module, sonde_test}], []} = at(Home, [[Node], sonde_test]),
    {[{module, sonde_test}], []} = at(Home, [Node, sonde_test]),
    {[{module, sonde_test}], [?NOT_THERE]} = at(Home, [[Node, ?NOT_THERE], sonde_test]),
    [{[{module, sonde_test}], []}, {[{module, sonde_largest}], []}] =
        at(Home, [[Node], [sonde_test, sonde_largest]]),
    [] = at(Home, [[Node], []]),
    [{[{module, sonde_test}], []}, [{Node, _}]] = at(Home, [[Node], [sonde_test, sonde]]).

bad_arguments(Config) ->
    {Home, _, Node} = nodes_of(Config),
    {badmatch, error} = raised(Home, remote_load, [[Node], no_such_module]),
    badarg = raised(Home, remote_load, [[], sonde_test]),
    badarg = raised(Home, remote_load, [["node"], sonde]),
    badarg = raised(Home, remote_load, [5, sonde]).

no_message_reaches_the_caller(Config) ->
    {Home, _, Node} = nodes_of(Config),
    {[{Node, {ok, _}}, {?NOT_THERE, {error, _}}], []} =
        call(Home, ?MODULE, load_and_look, [[Node, ?NOT_THERE]]).

load_and_look(Nodes) ->
    {sonde:remote_load(Nodes, sonde), sonde_test:mailbox()}.

%% ---- nodes

nodes_of(Config) ->
    {Home, [{Bare, Node} | _]} = all_nodes(Config),
    {Home, Bare, Node}.

all_nodes(Config) ->
    {home(Config), get(bare, Config)}.

home(Config) ->
    element(1, get(home, Config)).

at(Home, Args) ->
    call(Home, sonde, remote_load, Args).

raised(Peer, Function, Args) ->
    call(Peer, ?MODULE, raised_here, [Function, Args]).

raised_here(Function, Args) ->
    sonde_test:raised(fun() -> apply(sonde, Function, Args) end).

%% Makes a module of that name on this node only.
make_module(Peer, Lines) ->
    Forms = [begin
                 {ok, Tokens, _} = erl_scan:string(Line),
                 {ok, Form} = erl_parse:parse_form(Tokens),
                 Form
             end || Line <- Lines],
    {ok, Module, Object} = compile:forms(Forms),
    {module, Module} = call(Peer, code, load_binary, [Module, "made", Object]),
    call(Peer, Module, module_info, [md5]).

right_side(#{status := Status}) ->
    Status = sonde_test:pick(active, {off, disabled}).
