%% What others build from the package: a release in embedded mode with {sonde, load} and stripped beams,
%% asked from a remote shell; and a build where there is no C compiler.
-module(release_SUITE).

-import(sonde_project_helper, [root/0, sh/2]).

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1, end_per_testcase/2]).
-export([answers_from_a_release/1, answers_without_a_compiler/1]).

suite() ->
    [{timetrap, {minutes, 3}}].

all() ->
    [answers_from_a_release, answers_without_a_compiler].

init_per_suite(Config) ->
    Needed = ["rebar3", "git", "script"],
    case [N || N <- Needed, os:find_executable(N) =:= false] of
        [_ | _] = Missing ->
            {skip, "not installed: " ++ lists:flatten(lists:join(", ", Missing))};
        [] ->
            Package = filename:join(proplists:get_value(priv_dir, Config), "package"),
            ok = copy_package(root(), Package),
            [{package, Package} | Config]
    end.

end_per_suite(_Config) ->
    ok.

%% Not the process dictionary: after a timetrap this runs in another process.
end_per_testcase(_Case, _Config) ->
    _ = [os:cmd("kill -9 " ++ integer_to_list(Pid))
         || {ok, Pid} <- [application:get_env(?MODULE, os_pid)]],
    application:unset_env(?MODULE, os_pid).

%% ---- the tests

answers_from_a_release(Config) ->
    case {os:getenv("SONDE_SANITIZE", ""), os:cmd("script -qec 'echo terminal' /dev/null")} of
        {"", "terminal" ++ _} -> release_answers(Config);
        {"", _} -> {skip, "no pseudo-terminal for the remote shell"};
        {_, _} -> {skip, "a release's script does not start under the sanitizers"}
    end.

release_answers(Config) ->
    Port = free_port(),
    Dir = project(Config, "release", sonde_test:side()),
    ok = file:write_file(filename:join(Dir, "vm.args"), vm_args(Port)),
    _ = sh(Dir, "rebar3 release"),
    start(Dir, Port),
    Status = case sonde_test:side() of
                 native -> active;
                 portable -> {off, disabled}
             end,
    {'probe@127.0.0.1', embedded, stripped, not_started, Status, [true, true, true]} =
        ask(Port, "{node(), code:get_mode(), "
                  "case beam_lib:chunks(code:which(sonde), [\"Dbgi\"]) of"
                  " {error, _, _} -> stripped; _ -> not_stripped end, "
                  "case lists:keymember(sonde, 1, application:which_applications()) of"
                  " true -> started; false -> not_started end, "
                  "maps:get(status, sonde:native()), "
                  "[is_pid(P) andalso M > 0 || {P, M, _} <- sonde:proc_count(memory, 3)]}").

%% The C part cannot be built: that is one line of warning, and the portable side answers.
answers_without_a_compiler(Config) ->
    Dir = project(Config, "no_compiler", native),
    Built = sh(Dir, "CC=no-such-compiler rebar3 compile"),
    {match, _} = re:run(Built, "sonde: the C part could not be built"),
    Said = sh(Dir, "erl -noshell -pa _build/default/lib/*/ebin -eval '"
                   "#{status := {off, {not_loaded, _}}} = sonde:native(), "
                   "3 = length(sonde:proc_count(memory, 3)), io:put_chars(\"well\"), halt().'"),
    "well" = lists:nthtail(length(Said) - 4, Said).

%% ---- a project that has sonde as a dependency

%% The package holds what the app file's `files' names, so the list is tested to be enough.
copy_package(Root, Package) ->
    {ok, [{application, sonde, Props}]} = file:consult(filename:join(Root, "src/sonde.app.src")),
    Patterns = proplists:get_value(files, Props),
    Files = [F || P <- Patterns, F <- filelib:wildcard(P, Root)],
    _ = [copy(filename:join(Root, F), filename:join(Package, F)) || F <- Files],
    _ = sh(Package, "git init -q && git add -Af . && "
                    "git -c user.name=test -c user.email=test@localhost commit -q -m package"),
    ok.

copy(From, To) ->
    case file:list_dir(From) of
        {ok, Names} ->
            [copy(filename:join(From, N), filename:join(To, N)) || N <- Names];
        {error, enotdir} ->
            ok = filelib:ensure_dir(To),
            {ok, _} = file:copy(From, To),
            {ok, Info} = file:read_file_info(From),
            ok = file:write_file_info(To, Info)
    end.

project(Config, Name, Side) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), Name),
    write(Dir, "src/probe.app.src",
          [{application, probe, [{vsn, "1"}, {applications, [kernel, stdlib]}]}]),
    Value = case Side of native -> on; portable -> off end,
    write(Dir, "sys.config", [[{sonde, [{native, Value}]}]]),
    write(Dir, "rebar.config",
          [{deps, [{sonde, {git, "file://" ++ proplists:get_value(package, Config),
                            {branch, branch(Config)}}}]},
           {relx, [{release, {probe, "1"}, [sasl, probe, {sonde, load}]},
                   {mode, prod}, {include_erts, false}, {debug_info, strip},
                   {sys_config, "sys.config"}, {vm_args, "vm.args"}]}]),
    ok = file:write_file(filename:join(Dir, "vm.args"), "-name probe@127.0.0.1\n"),
    Dir.

branch(Config) ->
    string:trim(sh(proplists:get_value(package, Config), "git symbolic-ref --short HEAD")).

write(Dir, Name, Terms) ->
    File = filename:join(Dir, Name),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, [io_lib:format("~p.~n", [T]) || T <- Terms]).

%% ---- the node: on the loopback interface, without epmd, so that nothing is left behind

vm_args(Port) ->
    ["-name probe@127.0.0.1\n-setcookie ", cookie(), "\n", dist_flags(Port), "\n",
     "-kernel inet_dist_use_interface {127,0,0,1}\n"].

start(Dir, Port) ->
    Program = filename:join(Dir, "_build/default/rel/probe/bin/probe"),
    P = open_port({spawn_executable, Program},
                  [{args, ["foreground"]}, {cd, Dir}, {env, [{"HOME", Dir}]}, stderr_to_stdout,
                   binary]),
    {os_pid, Pid} = erlang:port_info(P, os_pid),
    ok = application:set_env(?MODULE, os_pid, Pid),
    wait_for(Port, 100).

wait_for(_Port, 0) ->
    Said = receive {_, {data, Data}} -> Data after 0 -> "" end,
    ct:fail("the release did not start: ~ts", [Said]);
wait_for(Port, Tries) ->
    case gen_tcp:connect({127, 0, 0, 1}, Port, []) of
        {ok, Socket} -> gen_tcp:close(Socket);
        {error, _} -> timer:sleep(100), wait_for(Port, Tries - 1)
    end.

%% Types an expression into a remote shell, on a terminal as script(1) gives it, and leaves by ^G q.
%% The asker ends by itself should that go wrong: it would outlive its terminal.
ask(Port, Expression) ->
    Shell = "erl -name asker@127.0.0.1 -hidden -dist_listen false -setcookie " ++ cookie()
        ++ dist_flags(Port) ++ " -remsh probe@127.0.0.1"
        ++ " -eval 'timer:apply_after(30000, erlang, halt, []).'",
    Typed = "io:format(\"<\" \"<~0tp>\" \">~n\", [" ++ Expression ++ "]).",
    Said = sh("/tmp", "{ sleep 1; printf '%s\\n' '" ++ Typed ++ "'; sleep 3; "
                      "printf '\\a'; sleep 0.5; printf 'q\\n'; sleep 0.5; } | "
                      "TERM=xterm script -qec \"" ++ Shell ++ "\" /dev/null"),
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

free_port() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.
