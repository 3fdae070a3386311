%% @private
%% Starts the command again on the executable of a node of this machine, or of one that left a core file: a twin of
%% that node. Only there is what is proved of a VM true for the node as well.
%%
%% The twin has the terminal of the command, and two pipes to it. It says when it is up, and waits to be told to begin,
%% because the command may have been killed meanwhile. Later it learns from them when the command is gone. It finds
%% sonde in a private folder, which the command removes, or the twin, if it is left alone.
-module(sonde_cli_twin).

-export([run/2, is_twin/0, may_show/0, main/0]).
-export([watch/2]).

-define(UP, <<"up">>).
-define(BEGIN, <<"begin">>).
-define(STOP, <<"stop">>).
-define(NOT_LOADED, 70).      % the exit code of a VM that cannot load our modules
-define(TERMINATED, 143).
-define(FILTERED, 159).       % by SIGSYS
-define(STOP_MS, 300).        % shorter than sonde_cli waits for helpers
-define(START_MS, 30000).
-define(FOLDER, "sonde-twin-").

%% ---- the command

%% @doc Runs the command line in a twin and returns its exit code.
-spec run({ok, sonde_cli_target:target()} | {error, unicode:chardata()}, [string()]) ->
    {ok, 0..3} | {error, unicode:chardata()}.
run({ok, Target}, Words) ->
    Ours = sonde_bundle:ours(),
    sonde_helper:call(fun(Caller) -> with_folder(Target, Ours, Words, Caller) end);
run({error, _} = Error, _) ->
    Error.

with_folder(Target, Ours, Words, Caller) ->
    Place = filename:absname(os:getenv("TMPDIR", "/tmp")),
    Folder = filename:join(Place, ?FOLDER ++ binary_to_list(binary:encode_hex(rand:bytes(12)))),
    case file:make_dir(Folder) of
        ok ->
            try
                ok = fill(Folder, Target, Ours),
                ok = page(Folder, Words),
                Port = start(Folder, Target, Words),
                with_twin(Port, Target, maps:get(compiled_on, Ours), Caller)
            catch
                throw:{no_folder, Why} -> no_folder(Folder, Why)
            after
                file:del_dir_r(Folder)
            end;
        {error, Why} ->
            no_folder(Folder, Why)
    end.

with_twin({error, Why}, Target, _, _) ->
    {error, ["the VM of ", what(Target), " cannot be started again: ", file:format_error(Why)]};
with_twin(Port, Target, CompiledOn, Caller) ->
    %% modules and libraries that were read: the twin needs the memory
    _ = [garbage_collect(Pid) || Pid <- processes()],
    Twin = case erlang:port_info(Port, os_pid) of
               {os_pid, OsPid} -> integer_to_list(OsPid);
               undefined -> none
           end,
    try wait(Port, Twin, Target, CompiledOn, Caller, ?START_MS)
    after [file:delete(File) || File <- perf_files(Twin, lists:member(<<"-JPperf">>, maps:get(flags, Target)))]
    end.

no_folder(Folder, Why) ->
    {error, ["no private folder (", Folder, ": ", file:format_error(Why),
             "): set TMPDIR to a folder with room"]}.

%% As sonde_loader does on other nodes: a new folder, closed to others, and empty after that.
fill(Folder, #{machine := Machine} = Target, #{modules := Modules, libraries := Libraries}) ->
    good(file:change_mode(Folder, 8#700)),
    {ok, []} = file:list_dir(Folder),
    [Ebin, Priv, Bin] = Subs = [filename:join(Folder, Sub) || Sub <- ["ebin", "priv", "bin"]],
    _ = [good(file:make_dir(Sub)) || Sub <- Subs],
    _ = [put_file(filename:join(Ebin, atom_to_list(Module) ++ ".beam"), Object)
         || {Module, _, Object} <- Modules],
    _ = [put_file(filename:join(Priv, Name), Library)
         || {#{machine := For}, Name, Library} <- Libraries, For =:= Machine],
    bin(Bin, Target).

%% Only a report needs it, and our version.
page(Folder, Words) ->
    case lists:member("report", Words) andalso sonde_report:page_file() of
        {ok, Page} ->
            put_file(filename:join([Folder, "priv", "report.html"]), Page),
            put_file(filename:join([Folder, "ebin", "sonde.app"]),
                     io_lib:format("~p.~n", [{application, sonde, [{vsn, sonde_bundle:version()}]}]));
        _ -> ok
    end.

put_file(Path, Bytes) ->
    good(file:write_file(Path, Bytes, [raw, exclusive])).

good(ok) -> ok;
good({error, Why}) -> throw({no_folder, Why}).

%% The programs that the VM starts by itself. It asks inet_gethost for the name of this machine, which
%% may take seconds: here, the answer to its first question is that there is none.
bin(Bin, #{setup := Setup} = Target) ->
    Path = filename:join(Bin, "erl_child_setup"),
    case loaded_by(Target) of
        [] -> good(file:make_symlink(Setup, Path));
        Loader -> script(Path, ["exec ", [[quoted(Word), $\s] || Word <- Loader ++ [Setup]], "\"$@\"\n"])
    end,
    script(filename:join(Bin, "inet_gethost"),
           "dd bs=1 count=1 >/dev/null 2>&1\n"
           "printf '\\0\\0\\0\\016\\0\\0\\0\\001\\0notfound\\0'\n"
           "exec cat >/dev/null\n").

script(Path, Lines) ->
    put_file(Path, ["#!/bin/sh\n", Lines]),
    good(file:change_mode(Path, 8#700)).

quoted(Word) ->
    [$', string:replace(Word, "'", "'\\''", all), $'].

loaded_by(#{loader := none}) -> [];
loaded_by(#{loader := {Loader, Folders}}) ->
    [Loader, <<"--library-path">>, iolist_to_binary(lists:join($:, Folders))].

%% ---- the twin's command line, as erlexec writes it

start(Folder, #{exe := Exe, name := Name} = Target, Words) ->
    [Program | Before] = loaded_by(Target) ++ [Exe],
    Bin = filename:join(Folder, "bin"),
    Args = Before ++ arguments(Folder, Bin, Target, Words),
    Opts = [{env, environment(Folder, Bin, Target)}, nouse_stdio, exit_status, binary],
    case started(Program, [{args, Args} | Opts] ++ [{arg0, Name} || Before =:= []]) of
        {error, eacces} -> started("/bin/sh", [{args, ["-c", "exec \"$0\" \"$@\"", Program | Args]} | Opts]);
        Port -> Port
    end.

%% open_port/2 asks whether this user may run the program, and forgets that a capability may allow it.
started(Program, Opts) ->
    try open_port({spawn_executable, Program}, Opts)
    catch error:Why when is_atom(Why) -> {error, Why}
    end.

%% The allocator gives back at once what a collection frees (MMmcs).
arguments(Folder, Bin, #{flags := Flags, root := Root, boot := Boot, boot_vars := Vars, content := Content}, Words) ->
    lists:append(
      [["-Bd", "-sbtu", "-MMmcs", "0" | Flags],
       ["--", "-root", Root, "-bindir", Bin, "-progname", "sonde", "--", "-home", Folder, "--"],
       ["-boot", Boot], lists:append([["-boot_var", Var, Path] || {Var, Path} <- Vars]),
       ["-noshell", "-noinput", "-kernel", "logger_level", "emergency"],
       ["-sonde_no_content" || not Content],
       ["-pa", filename:join(Folder, "ebin"), "-sonde_twin", Folder, "-eval", main_or_code(), "-extra"],
       [unicode:characters_to_binary(Word) || Word <- Words]]).

main_or_code() ->
    lists:concat(["case code:ensure_loaded(", ?MODULE, ") of {module, M} -> M:main(); _ -> halt(",
                  ?NOT_LOADED, ") end."]).

%% Nothing of the user's own Erlang gets in; no crash dump gets out.
environment(Folder, Bin, #{root := Root, libraries := Libraries}) ->
    [{"ROOTDIR", text(Root)}, {"BINDIR", text(Bin)}, {"EMU", "beam"}, {"PROGNAME", "sonde"},
     {"HOME", text(Folder)}, {"XDG_CONFIG_HOME", text(Folder)}, {"ERL_LIBS", false},
     {"ERL_INETRC", false}, {"ERL_CRASH_DUMP_SECONDS", "0"}]
        ++ [{"LD_LIBRARY_PATH", text(Libraries)} || Libraries =/= none].

text(Path) when is_list(Path) -> Path;
text(Path) ->
    case unicode:characters_to_list(Path, file:native_name_encoding()) of
        Text when is_list(Text) -> Text;
        _ -> throw({no_folder, eilseq})
    end.

%% OTP 25 cannot have its frames without them.
perf_files(Twin, true) -> ["/tmp/perf-" ++ Twin ++ ".map", "/tmp/jit-" ++ Twin ++ ".dump"];
perf_files(_, false) -> [].

%% ---- until it ends

wait(Port, Twin, Target, CompiledOn, Caller, Ms) ->
    receive
        {Port, {data, _}} ->
            _ = try port_command(Port, ?BEGIN) catch error:badarg -> true end,
            wait(Port, Twin, Target, CompiledOn, Caller, infinity);
        {Port, {exit_status, Code}} when Ms =:= infinity, Code =< 3 -> {ok, Code};
        {Port, {exit_status, Code}} -> {error, ended(Code, Ms, Target, CompiledOn)};
        {'DOWN', Caller, process, _, _} -> stop(Port, Twin), exit(caller_is_gone)
    after Ms ->
        stop(Port, Twin),
        {error, ["the VM of ", what(Target), ", started again, does not answer"]}
    end.

ended(?NOT_LOADED, _, Target, Release) ->
    [what(Target), " cannot load code that was compiled on OTP ", Release,
     ": is its release older?"];
ended(?FILTERED, infinity, _, _) ->
    sonde_outside:errors(filtered);
ended(Code, infinity, Target, _) ->
    ["looking at ", what(Target), " failed: the VM for it ended with code ",
     integer_to_list(Code)];
ended(Code, _, Target, _) ->
    ["the VM of ", what(Target), " does not start again (code ", integer_to_list(Code),
     "): was its OTP replaced or removed since it started?"].

what(#{what := What}) -> What.

stop(Port, Twin) ->
    _ = try port_command(Port, ?STOP) catch error:badarg -> true end,
    receive
        {Port, {exit_status, _}} -> ok
    after ?STOP_MS ->
        _ = os:cmd("kill -KILL " ++ Twin),
        ok
    end.

%% ---- the twin

-spec is_twin() -> boolean().
is_twin() ->
    init:get_argument(sonde_twin) =/= error.

%% @doc Whether the settings of the node that this is the twin of allow content, as far as they are known.
-spec may_show() -> boolean().
may_show() ->
    init:get_argument(sonde_no_content) =:= error.

%% @doc The twin begins here; its arguments are those of the command.
-spec main() -> no_return().
main() ->
    {ok, [[Folder]]} = init:get_argument(sonde_twin),
    Watch = spawn(?MODULE, watch, [self(), Folder]),
    receive {Watch, go_on} -> ok end,
    sonde_cli:main(init:get_plain_arguments()).

%% Ends the twin with the command. If the command was killed while the twin started, the port fails, because no process
%% reads from it.
-spec watch(pid(), file:filename()) -> no_return().
watch(Main, Folder) ->
    _ = process_flag(priority, max),
    _ = process_flag(trap_exit, true),
    Port = open_port({fd, 3, 4}, [eof, binary]),
    Port ! {self(), {command, ?UP}},
    watch(Port, Main, Folder).

watch(Port, Main, Folder) ->
    receive
        {Port, {data, ?BEGIN}} ->
            Main ! {self(), go_on},
            watch(Port, Main, Folder);
        Gone when element(1, Gone) =:= Port; element(1, Gone) =:= 'EXIT' ->
            %% it may end the VM before the folder is gone; init does, if it is killed
            true = erlang:suspend_process(Main),
            _ = [exit(Pid, kill) || Pid <- processes(),
                                    {_, {sonde_cli, work, _}} <- [process_info(Pid, initial_call)]],
            ?FOLDER ++ _ = filename:basename(Folder),
            _ = file:del_dir_r(Folder),
            Perf = case file:read_file("/proc/self/cmdline") of
                       {ok, Line} -> lists:member(<<"-JPperf">>, binary:split(Line, <<0>>, [global]));
                       {error, _} -> false
                   end,
            _ = [file:delete(File) || File <- perf_files(os:getpid(), Perf)],
            erlang:halt(?TERMINATED, [{flush, false}])
    end.
