%% Small real projects that depend on sonde: a git repository of the tested tree, to clone from, and
%% commands that run as a user's would, not as those of the build that runs the suite.
-module(sonde_project_helper).

-export([needs/2, once/3, root/0, repository/1, package/1, copy/2, sh/2]).

%% For init_per_testcase.
needs(Tools, Config) ->
    case {[T || T <- Tools, os:find_executable(T) =:= false], os:getenv("SONDE_SANITIZE", "")} of
        {[], ""} -> Config;
        {[], _} -> {skip, "a release's script does not start under the sanitizers"};
        {Missing, _} -> {skip, "not installed: " ++ lists:flatten(lists:join(", ", Missing))}
    end.

%% Makes a folder of the suite that several cases need; only the first case builds it.
once(Name, Config, Make) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), Name),
    Made = Dir ++ ".made",
    _ = [begin
             _ = Make(Dir),
             ok = file:write_file(Made, "")
         end || not filelib:is_file(Made)],
    Dir.

%% The tested tree: scripts/suite names it; under rebar3 ct it is found from here.
root() ->
    case os:getenv("SONDE_ROOT") of
        false -> up(filename:dirname(code:which(?MODULE)));
        Root -> Root
    end.

up(Dir) ->
    case filelib:is_regular(filename:join(Dir, "src/sonde.app.src")) of
        true -> Dir;
        false -> up(filename:dirname(Dir))
    end.

%% Commits the working tree, with uncommitted files but without ignored ones, as the one commit on
%% the branch main of a repository in Dir. Returns its URL.
repository(Dir) ->
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    There = "xargs -0 sh -c 'for f; do [ ! -e \"$f\" ] || printf \"%s\\0\" \"$f\"; done' sh",
    _ = sh(root(), "git ls-files -z --cached --others --exclude-standard | " ++ There
           ++ " | tar -c --null -T - | tar -x -C '" ++ Dir ++ "'"),
    commit(Dir).

%% The same with the files of the package, as listed in `files' of the app file, to test that the
%% list is complete. Prebuilt libraries that this tree may have are left out.
package(Dir) ->
    {ok, [{application, sonde, Props}]} = file:consult(filename:join(root(), "src/sonde.app.src")),
    Files = [F || P <- proplists:get_value(files, Props) -- ["c_src/prebuilt"],
                  F <- filelib:wildcard(P, root())],
    _ = [ok = copy(filename:join(root(), F), filename:join(Dir, F)) || F <- Files],
    commit(Dir).

commit(Dir) ->
    _ = sh(Dir, "git init -q -b main && git add -Af . && "
                "git -c user.name=test -c user.email=test@localhost commit -q -m tree"),
    "file://" ++ Dir.

%% Copies a file with its permissions, or a folder with its contents.
copy(From, To) ->
    case file:list_dir(From) of
        {ok, Names} ->
            _ = [ok = copy(filename:join(From, N), filename:join(To, N)) || N <- Names],
            ok;
        {error, enotdir} ->
            ok = filelib:ensure_dir(To),
            {ok, _} = file:copy(From, To),
            {ok, Info} = file:read_file_info(From),
            file:write_file_info(To, Info)
    end.

%% Runs Command in Dir, which is also the home directory, so that this machine's user settings do
%% not apply. Returns the output; raises if the command fails.
sh(Dir, Command) ->
    Clean = "unset MAKEFLAGS MFLAGS MAKELEVEL WERROR SONDE_REQUIRE_NATIVE ERL_FLAGS ERL_LIBS; "
            "unset XDG_CACHE_HOME XDG_CONFIG_HOME; ",
    Port = open_port({spawn_executable, os:find_executable("sh")},
                     [{args, ["-c", Clean ++ Command]}, {cd, Dir}, {env, [{"HOME", Dir}]},
                      exit_status, stderr_to_stdout, binary]),
    collect(Port, Command, []).

collect(Port, Command, Said) ->
    receive
        {Port, {data, Data}} -> collect(Port, Command, [Said, Data]);
        {Port, {exit_status, 0}} -> text(Said);
        {Port, {exit_status, Code}} -> ct:fail("~ts: ~p~n~ts", [Command, Code, text(Said)])
    end.

text(Said) ->
    case unicode:characters_to_list(Said) of
        Text when is_list(Text) -> Text;
        _ -> binary_to_list(iolist_to_binary(Said))
    end.
