%% compat/recon replaces recon for those who used it: six modules that only call sonde, an
%% application with recon's name and version, and two small projects that depend on it as
%% doc/migrating-from-recon.md shows.
-module(compat_SUITE).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2,
         end_per_testcase/2]).
-export([exports_what_recon_exports/1, does_nothing_but_call_sonde/1, calls_what_is_there/1,
         is_an_application_named_recon/1, answers_as_sonde_does/1, is_of_use_where_it_is_loaded/1,
         a_part_brings_the_others/1, lists_are_no_attributes/1, names_every_difference/1,
         replaces_recon_in_a_rebar3_release/1, replaces_recon_in_a_mix_release/1]).

-define(MODULES, [recon, recon_lib, recon_alloc, recon_map, recon_rec, recon_trace]).
-define(DOC, "doc/migrating-from-recon.md").

%% recon exports these for processes that it spawns; nobody else can call them.
-define(NOT_FOR_CALLERS, [{count_tracer, 1}, {rate_tracer, 2}, {formatter, 5}]).

suite() ->
    [{timetrap, {minutes, 4}}].

all() ->
    [exports_what_recon_exports, does_nothing_but_call_sonde, calls_what_is_there,
     is_an_application_named_recon, answers_as_sonde_does, is_of_use_where_it_is_loaded,
     a_part_brings_the_others, lists_are_no_attributes, names_every_difference,
     replaces_recon_in_a_rebar3_release, replaces_recon_in_a_mix_release].

%% Compiled here, since there is no rebar3 in the chroots; loaded only into peers, since this node
%% may have the real recon.
init_per_suite(Config) ->
    Ebin = filename:join(proplists:get_value(priv_dir, Config), "recon/ebin"),
    ok = filelib:ensure_dir(filename:join(Ebin, "x")),
    Opts = [{outdir, Ebin}, debug_info, warnings_as_errors, warn_missing_spec, return_errors],
    _ = [{ok, M} = compile:file(source(M), Opts) || M <- ?MODULES],
    App = {application, recon, lists:keystore(modules, 1, app(), {modules, ?MODULES})},
    ok = file:write_file(filename:join(Ebin, "recon.app"), io_lib:format("~p.~n", [App])),
    sonde_test:init([{ebin, Ebin} | Config]).

end_per_suite(_Config) ->
    ok.

init_per_testcase(replaces_recon_in_a_rebar3_release, Config) ->
    needs(["git", "rebar3"], Config);
init_per_testcase(replaces_recon_in_a_mix_release, Config) ->
    case code:ensure_loaded(crypto) of
        {module, crypto} -> needs(["git", "rebar3", "mix"], Config);
        _ -> {skip, "mix needs crypto, which does not load on this VM"}
    end;
init_per_testcase(_Case, Config) ->
    Config.

end_per_testcase(_Case, _Config) ->
    ok.

needs(Tools, Config) ->
    case filelib:is_file(in_tree(".git")) of
        true -> sonde_project_helper:needs(Tools, Config);
        false -> {skip, "this tree is not git's"}
    end.

%% ---- the modules

%% Read from recon's files: OTP 29 does not load them.
exports_what_recon_exports(Config) ->
    case os:getenv("SONDE_RECON") of
        false -> {skip, "recon is not here (SONDE_RECON names its ebin)"};
        Recon ->
            Ebin = proplists:get_value(ebin, Config),
            _ = [same_exports(M, exports(filename:join(Recon, M)) -- ?NOT_FOR_CALLERS,
                              exports(filename:join(Ebin, M))) || M <- ?MODULES],
            ok
    end.

same_exports(Module, Theirs, Ours) ->
    {Module, [], []} = {Module, Theirs -- Ours, Ours -- Theirs}.

exports(Beam) ->
    {ok, {_, [{exports, Exports}]}} = beam_lib:chunks(Beam, [exports]),
    lists:sort(Exports -- [{module_info, 0}, {module_info, 1}]).

%% Each function has one clause without a guard: a call of the same name with the same arguments. No
%% other functions exist. One clause may precede it that refuses what recon refuses.
does_nothing_but_call_sonde(Config) ->
    _ = [begin
             Beam = filename:join(proplists:get_value(ebin, Config), M),
             Delegations = [delegation(sonde_conform:ours(M), F) || F <- functions(M)],
             Exported = exports(Beam),
             {M, Exported} = {M, lists:sort(Delegations)}
         end || M <- ?MODULES],
    ok.

functions(Module) ->
    {ok, Forms} = epp:parse_file(source(Module), []),
    [F || F <- Forms, element(1, F) =:= function].

delegation(Target, {function, L, Name, Arity, [{clause, _, Params, [[_]], [Refusal]}, Clause]}) ->
    {call, _, {atom, _, error}, [{atom, _, badarg}, Args]} = Refusal,
    Params = params(Args),
    delegation(Target, {function, L, Name, Arity, [Clause]});
delegation(Target, {function, _, Name, Arity, [{clause, _, Params, [], [Body]}]}) ->
    {call, _, {remote, _, {atom, _, Target}, {atom, _, Name}}, Args} = Body,
    Names = [V || {var, _, V} <- Params],
    Names = [V || {var, _, V} <- Args],
    Arity = length(lists:usort(Names)),
    {Name, Arity}.

params({nil, _}) -> [];
params({cons, _, Param, Params}) -> [Param | params(Params)].

calls_what_is_there(Config) ->
    Ebin = proplists:get_value(ebin, Config),
    [] = [{sonde_conform:ours(M), F, A} || M <- ?MODULES, {F, A} <- exports(filename:join(Ebin, M)),
                             not is_exported(sonde_conform:ours(M), F, A)].

is_exported(Module, Function, Arity) ->
    {module, Module} =:= code:ensure_loaded(Module)
        andalso erlang:function_exported(Module, Function, Arity).

%% ---- the application

%% The version is the contract's, which satisfies a dependency on recon 2.5; the application depends
%% on sonde, so a release that has recon has sonde.
is_an_application_named_recon(Config) ->
    with_peer(Config, fun(Peer) ->
        {ok, Started} = sonde_peer_helper:call(Peer, application, ensure_all_started, [recon]),
        [recon, sonde] = lists:sort(Started),
        {ok, "2.5.6"} = sonde_peer_helper:call(Peer, application, get_key, [recon, vsn]),
        {ok, [kernel, stdlib, sonde]} =
            sonde_peer_helper:call(Peer, application, get_key, [recon, applications])
    end).

answers_as_sonde_does(Config) ->
    with_peer(Config, fun same_answers/1).

same_answers(Peer) ->
    Init = sonde_peer_helper:call(Peer, erlang, whereis, [init]),
    Calls = [{recon, info, [Init, location]}, {recon, info, [Init, links]},
             {recon, info, ["<0.0.0>", meta]}, {recon, proc_count, [heap_size, 0]},
             {recon, proc_count, [no_such_attribute, 1]},
             {recon, port_types, []}, {recon_lib, term_to_pid, [init]},
             {recon_lib, sublist_top_n_attrs, [[{a, 1, b}, {c, 2, d}], 1]},
             {recon_alloc, memory, [no_such_key]}, {recon_alloc, set_unit, [byte]},
             {recon_map, is_active, []}, {recon_rec, is_active, []}, {recon_trace, clear, []}],
    [] = [{M, F, A, Theirs, Ours} || {M, F, A} <- Calls,
                                     Theirs <- [answer(Peer, M, F, A)],
                                     Ours <- [answer(Peer, sonde_conform:ours(M), F, A)],
                                     Theirs =/= Ours orelse Theirs =:= {error, undef}].

answer(Peer, M, F, A) ->
    try sonde_peer_helper:call(Peer, M, F, A)
    catch error:{exception, Why, _} -> {error, Why};
          Class:Why -> {Class, Why}
    end.

with_peer(Config, Test) ->
    sonde_peer_helper:with(shipped, ["-pa", proplists:get_value(ebin, Config)], Test).

%% ---- the documentation

%% Loaded onto another node, our recon works there, as recon itself would.
is_of_use_where_it_is_loaded(Config) ->
    {Home, _} = sonde_peer_helper:start_node(shipped),
    {Bare, Node} = sonde_peer_helper:start_node(bare),
    try
        true = sonde_peer_helper:call(Home, code, add_patha, [proplists:get_value(ebin, Config)]),
        non_existing = sonde_peer_helper:call(Bare, code, which, [sonde]),
        {[{module, recon}], []} = sonde_peer_helper:call(Home, recon, remote_load, [Node, recon]),
        [{[{module, recon_lib}], []}, {[{module, recon_alloc}], []}] =
            sonde_peer_helper:call(Home, recon, remote_load, [[Node], [recon_lib, recon_alloc]]),
        3 = length(sonde_peer_helper:call(Bare, recon, proc_count, [memory, 3])),
        true = sonde_peer_helper:call(Bare, recon_alloc, memory, [used]) > 0,
        {[], ['p1@127.0.0.1']} =
            sonde_peer_helper:call(Home, recon, remote_load, [['p1@127.0.0.1'], recon])
    after
        sonde_peer_helper:stop(Home),
        sonde_peer_helper:stop(Bare)
    end.

%% observer_cli's escript finds a recon on the node and expects all of its modules. A module that is
%% already there stays: recon_lib is the real one, or something taken for it.
a_part_brings_the_others(Config) ->
    {Home, _} = sonde_peer_helper:start_node(shipped),
    {Bare, Node} = sonde_peer_helper:start_node(bare),
    {Partly, Other} = sonde_peer_helper:start_node(bare),
    Call = fun sonde_peer_helper:call/4,
    try
        true = Call(Home, code, add_patha, [proplists:get_value(ebin, Config)]),
        {module, recon_lib} = Call(Partly, code, load_binary, [recon_lib, "theirs", theirs()]),
        {[{module, recon_rec}, {module, recon_rec}], ['p1@127.0.0.1']} =
            Call(Home, recon, remote_load, [[Node, 'p1@127.0.0.1', Other], recon_rec]),
        [{1, 0.5}] = Call(Bare, recon_lib, scheduler_usage_diff, [[{1, 1, 1}], [{1, 2, 3}]]),
        [] = [{P, M} || P <- [Bare, Partly], M <- [sonde | ?MODULES],
                        not Call(P, erlang, module_loaded, [M])],
        theirs = Call(Partly, recon_lib, whose, []),
        [_] = Call(Partly, recon, proc_count, [memory, 1])
    after
        [sonde_peer_helper:stop(Peer) || Peer <- [Home, Bare, Partly]]
    end.

theirs() ->
    {ok, recon_lib, Object} =
        compile:forms([{attribute, 1, module, recon_lib}, {attribute, 1, export, [{whose, 0}]},
                       {function, 1, whose, 0, [{clause, 1, [], [], [{atom, 1, theirs}]}]}]),
    Object.

%% sonde's own calls take lists; recon asks each process for an item of that name.
lists_are_no_attributes(Config) ->
    Calls = [{F, [Attrs | Args]}
             || Attrs <- [[], [memory], [memory, reductions]],
                {F, Args} <- [{proc_count, [3]}, {proc_count, [0]}, {proc_count, [foo]},
                              {proc_window, [3, 1]}, {proc_window, [foo, 1]},
                              {proc_window, [3, -1]}]],
    _ = case sonde_test:recon() of
            ok -> [] = [Call || {F, Args} = Call <- Calls,
                                sonde_test:raised(fun() -> apply(recon, F, Args) end) =/= badarg];
            _ -> no_recon
        end,
    with_peer(Config, fun(Peer) ->
        [] = [Call || {F, Args} = Call <- Calls, answer(Peer, recon, F, Args) =/= {error, badarg}],
        [{memory, [_]}] = sonde_peer_helper:call(Peer, sonde, proc_count, [[memory], 1])
    end).

%% The documentation lists every difference that sonde_conform knows: each call has a row of the
%% table.
names_every_difference(_Config) ->
    Rows = [Line || Line <- string:split(doc(), "\n", all), lists:prefix("|", Line)],
    Calls = lists:usort([{M, F} || {M, F, _, _, _, _} <- sonde_conform:differences()]),
    [] = [Call || Call <- Calls, not lists:any(fun(Row) -> is_named(Call, Row) end, Rows)].

is_named({Module, Function}, Row) ->
    Call = io_lib:format("\\b~s:~s\\b", [Module, Function]),
    re:run(Row, Call, [{capture, none}]) =:= match.

%% The first code block in the documentation that contains Word, with our repository filled in.
snippet(Word, Config) ->
    {match, Blocks} = re:run(doc(), "```\\w*\\n(.*?)```",
                             [global, dotall, {capture, all_but_first, list}]),
    [Block | _] = [B || [B] <- Blocks, string:find(B, Word) =/= nomatch],
    [Before, After] = string:split(Block, "<this repository>"),
    [Before, repository(Config), After].

doc() ->
    {ok, Text} = file:read_file(in_tree(?DOC)),
    unicode:characters_to_list(Text).

%% ---- two small projects

replaces_recon_in_a_rebar3_release(Config) ->
    Dir = project(Config, "rebar3"),
    Relx = {relx, [{release, {probe, "1.0.0"}, [sasl, probe]}, {mode, prod}, {include_erts, false},
                   {sys_config, "sys.config"}, {vm_args, "vm.args"}]},
    ok = write(Dir, "rebar.config",
               [snippet("git_subdir", Config), io_lib:format("~p.~n", [Relx])]),
    ok = write(Dir, "sys.config", "[{sonde,[{native,on}]}].\n"),
    ok = write(Dir, "vm.args", vm_args()),
    _ = sonde_project_helper:sh(Dir, "rebar3 release"),
    answers_well(Dir, "_build/default/rel/probe", "bin/probe foreground").

replaces_recon_in_a_mix_release(Config) ->
    Dir = project(Config, "mix"),
    ok = sonde_project_helper:copy(filename:join(data(Config), "rebar3/src/probe.erl"),
                                   filename:join(Dir, "src/probe.erl")),
    {ok, Text} = file:read_file(filename:join(Dir, "mix.exs")),
    ok = write(Dir, "mix.exs", string:replace(Text, "DEPENDENCY", snippet("sparse:", Config))),
    ok = write(Dir, "config/config.exs", "import Config\nconfig :sonde, native: :on\n"),
    Mix = "MIX_ENV=prod MIX_REBAR3=$(command -v rebar3) mix ",
    _ = sonde_project_helper:sh(Dir, Mix ++ "deps.get && " ++ Mix ++ "release --quiet"),
    answers_well(Dir, "_build/prod/rel/probe", "bin/probe start").

%% A fresh copy of the project: an earlier run may have left something.
project(Config, Name) ->
    Dir = filename:join([proplists:get_value(priv_dir, Config), "projects", Name]),
    ok = sonde_project_helper:copy(filename:join(data(Config), Name), Dir),
    Dir.

data(Config) -> proplists:get_value(data_dir, Config).

write(Dir, Name, Text) ->
    File = filename:join(Dir, Name),
    ok = filelib:ensure_dir(File),
    file:write_file(File, Text).

%% The release's script needs a name; there is no epmd, so nothing is left behind.
vm_args() ->
    "-name probe@127.0.0.1\n-setcookie probe\n-start_epmd false -erl_epmd_port 0\n"
    "-kernel inet_dist_use_interface {127,0,0,1}\n".

%% The node writes its answers and ends by itself; with the native path on, and with it off in the
%% release's own configuration.
answers_well(Dir, Release, Command) ->
    File = filename:join([Dir, Release, "releases/1.0.0/sys.config"]),
    {ok, Config} = file:read_file(File),
    [On, Off] = [Config, re:replace(Config, "{native, *on}", "{native,off}")],
    answers_well(Dir, Release, Command, active),
    ok = file:write_file(File, Off),
    true = iolist_to_binary(Off) =/= On,
    answers_well(Dir, Release, Command, {off, disabled}).

answers_well(Dir, Release, Command, Status) ->
    File = filename:join(Dir, "answers"),
    _ = sonde_project_helper:sh(filename:join(Dir, Release),
                                "RELEASE_DISTRIBUTION=none PROBE_ANSWERS=" ++ File
                                ++ " timeout 60 " ++ Command),
    {ok, [Answers]} = file:consult(File),
    ok = file:delete(File),
    Expected = #{version => "2.5.6", applications => [recon, sonde], mode => embedded,
                 status => Status, proc_count => true, windows => 2, used => true, usage => true,
                 pid => true, record => <<"{a, 1}">>, map => false, traced => {1, ok}},
    {[], []} = {maps:to_list(Expected) -- maps:to_list(Answers),
                maps:to_list(Answers) -- maps:to_list(Expected)},
    ok.

%% ---- where things are

repository(Config) ->
    "file://" ++ sonde_project_helper:once("repository", Config,
                                           fun sonde_project_helper:repository/1).

app() ->
    {ok, [{application, recon, Props}]} = file:consult(in_tree("compat/recon/src/recon.app.src")),
    Props.

source(Module) ->
    in_tree(filename:join("compat/recon/src", atom_to_list(Module) ++ ".erl")).

in_tree(Name) ->
    filename:join(sonde_project_helper:root(), Name).
