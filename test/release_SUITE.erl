%% What users build from the package: a release in embedded mode with {sonde, load} and stripped
%% beams, used from a remote shell; a build without a C compiler, with and without a prebuilt library; a
%% release with a watcher in its
%% supervision tree, upgraded in place; and a mix project with a watcher.
-module(release_SUITE).

-import(sonde_project_helper, [root/0, sh/2]).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2,
         end_per_testcase/2]).
-export([answers_from_a_release/1, answers_without_a_compiler/1,
         takes_the_prebuilt_library_without_a_compiler/1, refuses_prebuilt_libraries_that_do_not_fit/1,
         takes_the_prebuilt_library_of_its_system/1, what_is_released_is_reproducible/1,
         the_package_is_complete/1,
         the_appup_has_every_module/1, a_watcher_lives_through_an_upgrade_in_place/1,
         a_watcher_lives_under_an_elixir_supervisor/1]).

suite() ->
    [{timetrap, {minutes, 10}}].

all() ->
    [answers_from_a_release, answers_without_a_compiler, takes_the_prebuilt_library_without_a_compiler,
     refuses_prebuilt_libraries_that_do_not_fit, takes_the_prebuilt_library_of_its_system,
     what_is_released_is_reproducible, the_package_is_complete, the_appup_has_every_module,
     a_watcher_lives_through_an_upgrade_in_place, a_watcher_lives_under_an_elixir_supervisor].

%% The cases cover both sides: the builds do not know which side is under test.
init_per_suite(Config) ->
    sonde_test:init(Config).

end_per_suite(_Config) ->
    ok.

init_per_testcase(Case, Config) when Case =:= the_appup_has_every_module; Case =:= the_package_is_complete ->
    Config;
init_per_testcase(what_is_released_is_reproducible, Config) ->
    sonde_project_helper:needs(["rebar3", "make", "musl-gcc", "aarch64-linux-gnu-gcc"], Config);
init_per_testcase(a_watcher_lives_under_an_elixir_supervisor, Config) ->
    sonde_project_helper:needs(["rebar3", "git", "mix"], Config);
init_per_testcase(answers_from_a_release, Config) ->
    case os:cmd("script -qec 'echo terminal' /dev/null") of
        "terminal" ++ _ -> sonde_project_helper:needs(["rebar3", "git", "script"], Config);
        _ -> {skip, "no pseudo-terminal for the remote shell"}
    end;
init_per_testcase(_Case, Config) ->
    sonde_project_helper:needs(["rebar3", "git"], Config).

%% The pid is not in the process dictionary: after a timetrap this runs in another process.
end_per_testcase(_Case, _Config) ->
    _ = [os:cmd("kill -9 " ++ integer_to_list(Pid))
         || {ok, Pid} <- [application:get_env(?MODULE, os_pid)]],
    application:unset_env(?MODULE, os_pid).

%% ---- the tests

answers_from_a_release(Config) ->
    case code:ensure_loaded(crypto) of
        {module, crypto} -> in_a_release(Config);
        _ -> {skip, "crypto does not load on this VM, and a remote shell says so"}
    end.

in_a_release(Config) ->
    Dir = released(Config),
    Port = sonde_peer_helper:free_port(),
    Pid = start(Dir, "run", on, Port),
    {'probe@127.0.0.1', embedded, stripped, not_started, active, [true, true, true]} =
        ask(Dir, Port, "{node(), code:get_mode(), "
                       "case beam_lib:chunks(code:which(sonde), [\"Dbgi\"]) of"
                       " {error, _, _} -> stripped; _ -> not_stripped end, "
                       "case lists:keymember(sonde, 1, application:which_applications()) of"
                       " true -> started; false -> not_started end, "
                       "maps:get(status, sonde:native()), "
                       "[is_pid(P) andalso M > 0 || {P, M, _} <- sonde:proc_count(memory, 3)]}"),
    stop(Dir, Port, Pid),
    Pid2 = start(Dir, "run", off, Port),
    {{off, disabled}, 3} = tell(Dir, Port, "{maps:get(status, C(sonde, native, [])),"
                                           " length(C(sonde, proc_count, [memory, 3]))}"),
    stop(Dir, Port, Pid2).

%% The C part cannot be built: the build prints one line of warning, and the portable side answers.
answers_without_a_compiler(Config) ->
    Dir = project(Config, "no_compiler", "main", "1"),
    Built = sh(Dir, "CC=no-such-compiler rebar3 compile"),
    {match, _} = re:run(Built, "sonde: the C part could not be built"),
    Said = sh(Dir, "erl -noshell -pa _build/default/lib/*/ebin -eval '"
                   "#{status := {off, {not_loaded, _}}} = sonde:native(), "
                   "3 = length(sonde:proc_count(memory, 3)), io:put_chars(\"well\"), halt().'"),
    "well" = lists:nthtail(length(Said) - 4, Said).

%% ---- prebuilt libraries

%% The package as scripts/prebuilt leaves it: with a library, and with checksums.
takes_the_prebuilt_library_without_a_compiler(Config) ->
    Dir = project(Config, "prebuilt", "prebuilt", "1"),
    Machine = maps:get(machine, sonde_bundle:system()),
    Built = sh(Dir, "CC=no-such-compiler rebar3 compile"),
    {match, _} = re:run(Built, "sonde: uses the prebuilt library for " ++ Machine),
    Said = sh(Dir, "erl -noshell -pa _build/default/lib/*/ebin -eval '"
                   "#{status := active} = sonde:native(), "
                   "3 = length(sonde:proc_count(memory, 3)), io:put_chars(\"well\"), halt().'"),
    "well" = lists:nthtail(length(Said) - 4, Said),
    %% With a compiler, it is compiled.
    There = filename:join(Dir, "_build/default/lib/sonde"),
    Objects = fun() -> filelib:wildcard(filename:join(There, "c_src/obj/*/nif/nif.o")) end,
    [] = Objects(),
    "" = sh(There, "sh c_src/build.sh"),
    [_] = Objects(),
    [_] = libraries(filename:join(There, "priv")),
    ok.

%% Another library, other sources, or no checksum: a line, no library, and the build goes on.
refuses_prebuilt_libraries_that_do_not_fit(Config) ->
    Machine = maps:get(machine, sonde_bundle:system()),
    _ = [begin
             Dir = prebuilt(Config, Name, [Machine]),
             _ = sh(Dir, Damage),
             {Said, []} = {built(Dir, ""), libraries(filename:join(Dir, "priv"))},
             {{match, _}, _} = {re:run(Said, "^sonde: " ++ Why ++ ".*; sonde will answer from its portable side\n$"), Said},
             %% our own builds do not go on
             {1, _} = status(Dir, "SONDE_REQUIRE_NATIVE=1 CC=no-such-compiler sh c_src/build.sh")
         end
         || {Name, Damage, Why} <-
                [{"damaged", "for f in c_src/prebuilt/*/*.so; do printf x >>$f; done",
                  "c_src/prebuilt is refused, its checksums do not fit \\(c_src/prebuilt/" ++ Machine},
                 {"changed", "printf '\\n' >>c_src/vm/peek.h",
                  "c_src/prebuilt is refused, its checksums do not fit \\(c_src/vm/peek.h"},
                 {"newer", "printf '\\n' >>src/native/sonde_nif.erl",
                  "c_src/prebuilt is refused, its checksums do not fit \\(src/native/sonde_nif.erl"},
                 {"gone", "rm c_src/prebuilt/*/*.so",
                  "c_src/prebuilt is refused, its checksums do not fit"},
                 {"unlisted", "grep -v prebuilt c_src/prebuilt/SHA256SUMS >s && mv s c_src/prebuilt/SHA256SUMS",
                  "the C part could not be built .*no library for this system"}]],
    ok.

%% The Erlang that builds has the last word: the rule is that of sonde_bundle:machine/3. Other libraries
%% need not be there.
takes_the_prebuilt_library_of_its_system(Config) ->
    Machines = ["x86_64-linux-gnu", "x86_64-linux-musl", "aarch64-linux-gnu", "aarch64-linux-musl"],
    Dir = prebuilt(Config, "systems", Machines),
    _ = [begin
             Said = built_by(Architecture, C, Dir, ""),
             Machine = sonde_bundle:machine(Architecture, {list_to_atom(C)}, 8),
             Expected = case lists:member(Machine, Machines) of
                            true -> [file("c_src/prebuilt/" ++ Machine ++ "/sonde_nif-" ++ Machine ++ ".so", Dir)];
                            false -> []
                        end,
             {Architecture, C, Expected} =
                 {Architecture, C, [file(F, "") || F <- libraries(filename:join(Dir, "priv"))]},
             {_, _} = {binary:match(list_to_binary(Said), <<"sonde: ">>), Said}
         end || Architecture <- ["x86_64-pc-linux-gnu", "x86_64-linux-gnu", "x86_64-alpine-linux-musl",
                                 "aarch64-unknown-linux-gnu", "aarch64-linux-musl", "riscv64-unknown-linux-gnu",
                                 "x86_64-pc-linux-gnux32", "x86_64-unknown-freebsd13.2"],
                C <- ["glibc", "undefined"]],
    {match, _} = re:run(built_by("aarch64-linux-gnu", "glibc", Dir, ""), "uses the prebuilt library"),
    {match, _} = re:run(built_by("aarch64-linux-gnu", "glibc", Dir, "CROSSCOMPILE=x "), "could not be built").

built_by(Architecture, C, Dir, Environment) ->
    _ = sh(Dir, "rm -f priv/*.so && mkdir -p bin && printf '#!/bin/sh\\necho " ++ Architecture ++ " "
           ++ C ++ "\\n' >bin/erl && chmod +x bin/erl"),
    built(Dir, Environment ++ "PATH=$PWD/bin:$PATH ").

%% In two folders, of other lengths.
what_is_released_is_reproducible(Config) ->
    Cache = os:getenv("SONDE_CACHE", filename:join(os:getenv("XDG_CACHE_HOME", os:getenv("HOME") ++ "/.cache"), "sonde")),
    case filelib:is_dir(filename:join(Cache, "musl-arm64")) of
        true ->
            [Sums, Sums] =
                [begin
                     Dir = filename:join(proplists:get_value(priv_dir, Config), Name),
                     _ = sonde_project_helper:repository(Dir),
                     _ = sh(Dir, "umask " ++ Umask ++ " && export TZ=" ++ Zone ++ " && SONDE_CACHE='" ++ Cache
                                 ++ "' scripts/prebuilt && rebar3 compile && "
                                 "scripts/escript _build/default/lib/sonde/ebin _build/escript/sonde c_src/prebuilt"),
                     {file("_build/prebuilt/SHA256SUMS", Dir),
                      sh(Dir, "cd _build/escript && sha256sum sonde")}
                 end || {Name, Umask, Zone} <- [{"one", "022", "UTC"}, {"another/one", "077", "Asia/Tokyo"}]],
            {Libraries, _Command} = Sums,
            {match, _} = re:run(Libraries, "^[0-9a-f]{64}  sonde-.*-prebuilt\\.tar\\.gz\n$");
        false ->
            {skip, "no musl for aarch64: scripts/setup prebuilt"}
    end.

%% The package with libraries for these systems, in a folder of its own. The contents of a library for
%% another system are its name.
prebuilt(Config, Name, Machines) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "prebuilt-" ++ Name),
    _ = sonde_project_helper:package(Dir),
    with_prebuilt(Dir, [{Machine, Machine} || Machine <- Machines]).

with_prebuilt(Dir, Libraries) ->
    _ = [begin
             File = filename:join([Dir, "c_src/prebuilt", Machine, "sonde_nif-" ++ Machine ++ ".so"]),
             ok = filelib:ensure_dir(File),
             ok = file:write_file(File, Bytes)
         end || {Machine, Bytes} <- Libraries],
    _ = sh(Dir, "sha256sum c_src/prebuilt/*/*.so src/native/sonde_nif.erl "
                "$(make -s -C c_src sources | sed 's,^,c_src/,') >c_src/prebuilt/SHA256SUMS"),
    Dir.

%% What the hook says where there is no compiler.
built(Dir, Environment) ->
    sh(Dir, Environment ++ "CC=no-such-compiler sh c_src/build.sh").

status(Dir, Command) ->
    Said = sh(Dir, "st=0; out=$(" ++ Command ++ " 2>&1) || st=$?; echo \"$st $out\""),
    {Status, [$\s | Text]} = string:to_integer(Said),
    {Status, Text}.

libraries(Priv) -> filelib:wildcard(filename:join(Priv, "sonde_nif-*.so")).

file(Name, Dir) ->
    {ok, Bytes} = file:read_file(filename:join(Dir, Name)),
    Bytes.

%% ---- the package

%% Hex asks for these; the other cases build from the same list of files.
the_package_is_complete(_Config) ->
    {ok, [{application, sonde, Props}]} = file:consult(filename:join(root(), "src/sonde.app.src")),
    [Description, Licenses, Tools, Files] =
        [proplists:get_value(Key, Props) || Key <- [description, licenses, build_tools, files]],
    true = length(Description) > 20 andalso length(Description) =< 300,
    {["Apache-2.0"], ["rebar3", "make"]} = {Licenses, Tools},
    {match, _} = re:run(proplists:get_value(vsn, Props), "^[0-9]+\\.[0-9]+\\.[0-9]+$"),
    [] = [P || P <- Files, P =/= "c_src/prebuilt", filelib:wildcard(P, root()) =:= []],
    Packed = lists:append([all_files(F) || P <- Files, F <- filelib:wildcard(P, root())]),
    [] = [F || F <- Packed, lists:member(filename:extension(F), [".o", ".so", ".beam", ".d"]),
               not lists:prefix("c_src/prebuilt/", F)],
    true = lists:sum([filelib:file_size(filename:join(root(), F)) || F <- Packed]) < 8 * 1024 * 1024,
    %% what a build runs, and what its lines in rebar.config name
    [] = [F || F <- ["rebar.config", "c_src/build.sh", "c_src/Makefile", "scripts/embed_docs", "src/sonde.appup.src",
                     "LICENSE", "README.md", "CHANGELOG.md"], not lists:member(F, Packed)],
    [] = string:lexemes(sh(root(), "make -s -C c_src sources"), "\n") -- [F || "c_src/" ++ F <- Packed].

all_files(File) ->
    case file:list_dir(filename:join(root(), File)) of
        {ok, Names} -> lists:append([all_files(filename:join(File, Name)) || Name <- Names]);
        {error, enotdir} -> [File]
    end.

%% ---- a watcher in a user's supervision tree

%% The appup lists every module, including new ones, and the current version.
the_appup_has_every_module(_Config) ->
    {ok, [{Version, [{_, Up}], [{_, Down}]}]} =
        file:consult(filename:join(root(), "src/sonde.appup.src")),
    {ok, [{application, sonde, Props}]} =
        file:consult(filename:join(root(), "src/sonde.app.src")),
    Version = proplists:get_value(vsn, Props),
    Modules = lists:sort([list_to_atom(filename:basename(F, ".erl"))
                          || F <- filelib:wildcard(filename:join(root(), "src/**/*.erl"))]),
    Modules = lists:sort([element(2, Step) || Step <- Up]),
    Modules = lists:sort([element(2, Step) || Step <- Down]).

%% The same process runs on in the new code and keeps its state; then the node is stopped.
a_watcher_lives_through_an_upgrade_in_place(Config) ->
    Dir = released(Config),
    _ = project(Config, "release", "main", "2"),
    _ = sh(Dir, "rm -rf rebar.lock _build/default/lib/sonde && rebar3 release && "
                "rebar3 relup -n probe -v 2 -u 1 && rebar3 tar && "
                "cp -r run upgraded && mkdir upgraded/releases/2 && "
                "mv _build/default/rel/probe/probe-2.tar.gz upgraded/releases/2/probe.tar.gz"),
    Port = sonde_peer_helper:free_port(),
    Pid = start(Dir, "upgraded", on, Port),
    {Before, Sweeps, "0.0.1"} = tell(Dir, Port, about()),
    true = Sweeps > 0,
    {{ok, "2"}, {ok, "1", []}, ok} =
        tell(Dir, Port, "{C(release_handler, unpack_release, [\"2/probe\"]),"
                        " C(release_handler, install_release, [\"2\"]),"
                        " C(release_handler, make_permanent, [\"2\"])}"),
    Version = version(package(Config)),
    {Before, More, Version} = tell(Dir, Port, about()),
    true = More >= Sweeps,
    true = tell(Dir, Port, "begin N = maps:get(sweeps, C(sonde_watch, status, [])),"
                           " Wait = fun(W) -> N < maps:get(sweeps, C(sonde_watch, status, []))"
                           " orelse W(W) end, Wait(Wait) end"),
    stop(Dir, Port, Pid).

version(Package) ->
    {ok, [{application, sonde, Props}]} =
        file:consult(filename:join(Package, "src/sonde.app.src")),
    proplists:get_value(vsn, Props).

supervisor() ->
    "-module(probe).\n-behaviour(application).\n-behaviour(supervisor).\n"
    "-export([start/2, stop/1, init/1]).\n"
    "start(_, _) -> supervisor:start_link(?MODULE, []).\n"
    "stop(_) -> ok.\n"
    "init([]) -> {ok, {#{}, [sonde_watch:child_spec(#{interval => 100, budget => 100})]}}.\n".

%% The watcher's process, its number of sweeps, and the loaded version, taken from its path.
about() ->
    "{pid_to_list(C(erlang, whereis, [sonde_watch])), maps:get(sweeps, C(sonde_watch, status, [])),"
    " lists:last(string:split(filename:basename(filename:dirname(filename:dirname("
    "C(code, which, [sonde_watch])))), \"-\"))}".

%% The answer of a node that can call the release; without a terminal there is nothing to wait for.
tell(Dir, Port, Expression) ->
    File = filename:join(Dir, "told"),
    _ = sh(Dir, "erl -noinput -name asker@127.0.0.1 -hidden -dist_listen false -setcookie "
           ++ cookie() ++ dist_flags(Port) ++ " -eval '"
           "C = fun(M, F, A) -> erpc:call(list_to_atom(\"probe@127.0.0.1\"), M, F, A, 60000) end, "
           "ok = file:write_file(\"" ++ File ++ "\", io_lib:format(\"~p.~n\", ["
           ++ Expression ++ "])), halt().'"),
    {ok, [Told]} = file:consult(File),
    Told.

%% A mix project with a path dependency, `{:sonde_watch, opts}' among its children, and the
%% application's own watcher.
a_watcher_lives_under_an_elixir_supervisor(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "elixir"),
    File = filename:join(Dir, "told"),
    Texts = [{"mix.exs", mix_exs(package(Config))},
             {"config/config.exs", config_exs()}, {"lib/probe.ex", probe_ex()}],
    _ = [begin
             ok = filelib:ensure_dir(filename:join(Dir, Name)),
             ok = file:write_file(filename:join(Dir, Name), Text)
         end || {Name, Text} <- Texts],
    _ = [begin
             _ = sh(Dir, "MIX_REBAR3=$(command -v rebar3) PROBE=" ++ File ++ " PROBE_NATIVE=" ++ Set
                    ++ " timeout 120 mix run -e 'Probe.tell()'"),
             {ok, [{500, Side, true, 700, {badarg, {interval, 0}}}]} = file:consult(File)
         end || {Set, Side} <- [{"on", native}, {"off", {off, disabled}}]],
    ok.

mix_exs(Package) ->
    ["defmodule Probe.MixProject do\n  use Mix.Project\n"
     "  def project, do: [app: :probe, version: \"1.0.0\",\n"
     "    deps: [{:sonde, path: \"", Package, "\", manager: :rebar3}]]\n"
     "  def application, do: [mod: {Probe, []}]\nend\n"].

config_exs() ->
    "import Config\nconfig :sonde, native: String.to_atom(System.fetch_env!(\"PROBE_NATIVE\")), "
    "watch: [interval: 500, name: :sonde_watch]\n".

probe_ex() ->
    "defmodule Probe do\n  use Application\n"
    "  def start(_type, _args) do\n"
    "    children = [{:sonde_watch, interval: 700, name: :probe_watch}]\n"
    "    Supervisor.start_link(children, strategy: :one_for_one)\n  end\n"
    "  def wait(name) do\n"
    "    if :sonde_watch.status(name).sweeps > 0, do: true, else: wait(name)\n  end\n"
    "  def tell do\n"
    "    swept = wait(:sonde_watch) and wait(:probe_watch)\n"
    "    {:error, why} = :sonde_watch.start_link(interval: 0)\n"
    "    told = {:sonde_watch.status().interval, :sonde_watch.status().native, swept,\n"
    "            :sonde_watch.status(:probe_watch).interval, why}\n"
    "    File.write!(System.fetch_env!(\"PROBE\"), :io_lib.format(\"~p.~n\", [told]))\n"
    "  end\nend\n".

%% ---- a project that has sonde as a dependency

%% The branch `old' contains the same with an older version, `prebuilt' the same with a library.
package(Config) ->
    sonde_project_helper:once("package", Config, fun(Dir) ->
        _ = sonde_project_helper:package(Dir),
        sh(Dir, "git checkout -q -b old && "
                "sed 's/{vsn, \"[0-9.]*\"}/{vsn, \"0.0.1\"}/' src/sonde.app.src >app && "
                "mv app src/sonde.app.src && "
                "git -c user.name=test -c user.email=test@localhost commit -q -a -m old && "
                "git checkout -q main && git checkout -q -b prebuilt && make -s -C c_src PRIV_DIR=../built"),
        [Library] = libraries(filename:join(Dir, "built")),
        _ = with_prebuilt(Dir, [{maps:get(machine, sonde_bundle:system()), file(Library, "")}]),
        sh(Dir, "git add -Af c_src/prebuilt && "
                "git -c user.name=test -c user.email=test@localhost commit -q -m prebuilt && "
                "git checkout -q main")
    end).

%% Version 1 of a release with a watcher in its tree and the older sonde; it starts from `run'.
released(Config) ->
    sonde_project_helper:once("release", Config, fun(_) ->
        Dir = project(Config, "release", "old", "1"),
        ok = file:write_file(filename:join(Dir, "src/probe.erl"), supervisor()),
        write(Dir, "src/probe.app.src",
              [{application, probe, [{vsn, "1"}, {applications, [kernel, stdlib]},
                                     {mod, {probe, []}}]}]),
        sh(Dir, "rebar3 release && cp -r _build/default/rel/probe run")
    end).

%% A project that uses this branch of the package, with this version; it may exist already.
project(Config, Name, Branch, Version) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), Name),
    write(Dir, "rebar.config",
          [{deps, [{sonde, {git, "file://" ++ package(Config), {branch, Branch}}}]},
           {relx, [{release, {probe, Version}, [sasl, probe, {sonde, load}]},
                   {mode, prod}, {include_erts, false}, {debug_info, strip},
                   {sys_config, "sys.config"}, {vm_args, "vm.args"}]}]),
    write(Dir, "sys.config", [[{sonde, [{native, on}]}]]),
    ok = file:write_file(filename:join(Dir, "vm.args"), "-name probe@127.0.0.1\n"),
    App = filename:join(Dir, "src/probe.app.src"),
    _ = [write(Dir, "src/probe.app.src",
               [{application, probe, [{vsn, "1"}, {applications, [kernel, stdlib]}]}])
         || not filelib:is_file(App)],
    Dir.

write(Dir, Name, Terms) ->
    File = filename:join(Dir, Name),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, [io_lib:format("~p.~n", [T]) || T <- Terms]).

%% ---- the node: on the loopback interface, without epmd, so that no process is left behind

vm_args(Port) ->
    ["-name probe@127.0.0.1\n-setcookie ", cookie(), "\n", dist_flags(Port), "\n",
     "-kernel inet_dist_use_interface {127,0,0,1}\n"].

start(Dir, Release, Native, Port) ->
    write(Dir, filename:join(Release, "releases/1/sys.config"), [[{sonde, [{native, Native}]}]]),
    ok = file:write_file(filename:join([Dir, Release, "releases/1/vm.args"]), vm_args(Port)),
    P = open_port({spawn_executable, filename:join([Dir, Release, "bin/probe"])},
                  [{args, ["foreground"]}, {cd, Dir}, {env, [{"HOME", Dir}]}, stderr_to_stdout,
                   binary]),
    {os_pid, Pid} = erlang:port_info(P, os_pid),
    ok = application:set_env(?MODULE, os_pid, Pid),
    try sonde_test:until({listens, Port}, fun() -> listens(Port) end, 60000)
    catch error:Why ->
        Said = receive {P, {data, Data}} -> Data after 0 -> "" end,
        ct:fail("the release did not start: ~0tp~n~ts", [Why, Said])
    end,
    Pid.

listens(Port) ->
    case gen_tcp:connect({127, 0, 0, 1}, Port, []) of
        {ok, Socket} -> ok =:= gen_tcp:close(Socket);
        {error, _} -> false
    end.

stop(Dir, Port, Pid) ->
    ok = tell(Dir, Port, "C(init, stop, [])"),
    ok = sonde_test:until({ended, Pid}, fun() ->
        os:cmd("kill -0 " ++ integer_to_list(Pid)) =/= ""
    end),
    application:unset_env(?MODULE, os_pid).

%% Types an expression into a remote shell, on a pseudo-terminal from script(1), and leaves it with
%% ^G q. If that fails, the shell's node ends by itself: it would outlive its terminal.
ask(Dir, Port, Expression) ->
    Shell = "erl -name asker@127.0.0.1 -hidden -dist_listen false -setcookie " ++ cookie()
        ++ dist_flags(Port) ++ " -remsh probe@127.0.0.1"
        ++ " -eval 'timer:apply_after(60000, erlang, halt, []).'",
    Typed = "io:format(\"<\" \"<~0tp>\" \">~n\", [" ++ Expression ++ "]).",
    Said = sh(Dir, "wait_for() { n=0; until grep -q \"$1\" said || [ $n = 500 ]; "
                   "do sleep 0.1; n=$((n + 1)); done; }; : >said; "
                   "{ wait_for '(probe@'; printf '%s\\n' '" ++ Typed ++ "'; wait_for '<<.*>>'; "
                   "printf '\\a'; wait_for ' --> '; printf 'q\\n'; sleep 0.5; } | "
                   "TERM=xterm script -qefc \"" ++ Shell ++ "\" said"),
    case re:run(Said, "<<(.*)>>", [{capture, all_but_first, list}]) of
        {match, [Answer]} ->
            {ok, Tokens, _} = erl_scan:string(Answer ++ "."),
            {ok, Term} = erl_parse:parse_term(Tokens),
            Term;
        nomatch ->
            ct:fail("the remote shell said: ~ts", [Said])
    end.

dist_flags(Port) ->
    " -start_epmd false -erl_epmd_port " ++ integer_to_list(Port).

cookie() ->
    "release_suite_" ++ os:getpid().
