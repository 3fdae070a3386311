%% @private
%% Reads from /proc how a node of this machine was started: what is needed to start its executable
%% again. Nothing is sent to the node.
%%
%% If the node has another root folder than this command (a container, a chroot), all paths lead
%% through /proc/PID/root, and the node's own loader starts the executable with the node's own
%% libraries.
%%
%% We run that executable and that OTP with our own rights. So for the node of another user, which root
%% may look at, the caller must say that it trusts that user.
-module(sonde_cli_target).

-include_lib("kernel/include/file.hrl").

-export([read/2, inside/2, is_traceable/2, no_right/3, machine/2]).
-export([node_words/2, started/4, executable_of/1, no_target/1]). % for core files
-export_type([target/0, started/0]).

%% `machine' is what a shared object must have been built for (sonde_bundle:machine/3); `loader' is the
%% dynamic loader with the folders of the libraries; `setup' the program erl_child_setup, or a link to what
%% is left of it; `what' what it is called in errors; `content' whether its own settings allow content, as far as its
%% command line and its configuration say.
-type target() :: #{what := text(), exe := binary(), name := binary(), machine := string(),
                    loader := {binary(), [binary()]} | none, flags := [binary()], content := boolean(),
                    root := binary(), setup := binary(), boot := binary(), boot_vars := [{binary(), binary()}],
                    libraries := binary() | none}.
%% What its command line says.
-type started() :: #{flags := [binary()], content := boolean(), root := binary(), setup := binary(), boot := binary(),
                     boot_vars := [{binary(), binary()}]}.
-type text() :: unicode:chardata().

-define(MOST_LINKS, 40).      % of one path, as in the kernel
-define(SYS_PTRACE, 19).      % the bit of CAP_SYS_PTRACE
-define(PT_INTERP, 3).
-define(X86_64, 62).          % e_machine
-define(AARCH64, 183).
-define(OTP_25, 13).          % the ERTS of OTP 25

%% @doc `Trust': it may be the node of another user.
-spec read(pos_integer(), Trust :: boolean()) -> {ok, target()} | {error, text()}.
read(OsPid, Trust) ->
    try
        Target = target(OsPid),
        %% last: what was read belongs to a process that was ours to the end
        _ = [ok = is_ours(OsPid) || not Trust],
        {ok, Target}
    catch throw:{no_target, Text} -> {error, Text}
    end.

%% @private
-spec no_target(text()) -> no_return().
no_target(Text) ->
    throw({no_target, Text}).

target(OsPid) ->
    ok = is_alive(OsPid),
    Words = command_line(OsPid),
    ok = is_permitted(OsPid),
    Prefix = prefix(OsPid),
    In = fun(Path) -> inside(Prefix, absolute(OsPid, Path)) end,
    What = what(OsPid),
    Started = started(Words, In, [proc(Child, "exe") || Child <- setups(OsPid)], What),
    {Machine, Interpreter} = executable_of(proc(OsPid, "exe")),
    Started#{what => What, exe => proc(OsPid, "exe"), name => executable(OsPid), machine => Machine,
             loader => loader(OsPid, Prefix, Interpreter), libraries => libraries(OsPid, Prefix)}.

what(OsPid) -> "process " ++ integer_to_list(OsPid).

setups(OsPid) ->
    [Child || Child <- children(OsPid), filename:basename(executable(Child)) =:= <<"erl_child_setup">>].

%% @doc What is needed to start the VM again that had this command line. `In' is where we see a path of its; `Running'
%% are other files that may be the program erl_child_setup.
-spec started({Flags :: [binary()], Args :: [binary()]}, In :: fun((binary()) -> binary()), Running :: [binary()],
              What :: text()) -> started().
started({Flags, Args}, In, Running, What) ->
    Root = In(argument(<<"-root">>, Args)),
    Bin = In(argument(<<"-bindir">>, Args)),
    #{flags => flags(Flags, erts(Bin)), root => Root, setup => setup(Bin, Running),
      boot => boot(What, Root, Args, In),
      boot_vars => [{Name, In(Path)} || [Name, Path] <- arguments(<<"-boot_var">>, 2, Args)],
      content => not lists:any(fun is_forbidden/1, settings(Args) ++ configurations(Args, In))}.

%% ---- may we?

is_alive(OsPid) ->
    case {file:read_file(proc(OsPid, "status")), file:read_file(proc("self", "status"))} of
        {_, {error, _}} -> no_target("--pid needs Linux, and /proc");
        {{error, _}, _} -> no_target(["there is no process ", integer_to_list(OsPid)]);
        {{ok, Status}, _} ->
            case re:run(Status, "^State:\\s*[ZXx]", [multiline, {capture, none}]) of
                match -> no_target(["process ", integer_to_list(OsPid), " has ended"]);
                nomatch -> ok
            end
    end.

%% The flags of the emulator, and the arguments after the first `--'.
command_line(OsPid) ->
    case is_node(OsPid) of
        {true, Flags, Args} -> {Flags, Args};
        false -> no_target(["process ", integer_to_list(OsPid), " is not an Erlang node" | others(OsPid)])
    end.

%% Where we may read the link to its executable, the kernel knows better than its own words.
is_node(OsPid) ->
    node_words(words(OsPid, "cmdline"), executable(OsPid)).

%% @doc The flags of the emulator, and the arguments after the first `--'. `Exe' may be empty.
-spec node_words([binary()], Exe :: binary()) -> {true, Flags :: [binary()], Args :: [binary()]} | false.
node_words(Words, Exe) ->
    {Emulator, Args} = lists:splitwith(fun(Word) -> Word =/= <<"--">> end, Words),
    case {Emulator, arguments(<<"-root">>, 1, Args), arguments(<<"-bindir">>, 1, Args)} of
        {[Name | Flags], [_ | _], [_ | _]} ->
            is_emulator(case Exe of <<>> -> Name; _ -> Exe end) andalso {true, Flags, Args};
        _ ->
            false
    end.

is_emulator(Path) ->
    case filename:basename(Path) of
        <<"beam", _/bits>> -> true;
        _ -> false
    end.

%% Its parent and its children: run_erl, heart, a shell and erl_child_setup stand beside the node.
others(OsPid) ->
    case [Other || Other <- parent(OsPid) ++ children(OsPid), is_node(Other) =/= false] of
        [Other] -> [": is ", integer_to_list(Other), " meant?"];
        _ -> ""
    end.

parent(OsPid) ->
    [binary_to_integer(Pid) || {ok, Status} <- [file:read_file(proc(OsPid, "status"))],
                               {match, [Pid]} <- [re:run(Status, "^PPid:\\s*([1-9][0-9]*)",
                                                         [multiline, {capture, [1], binary}])]].

children(OsPid) ->
    File = proc(OsPid, ["task/", integer_to_list(OsPid), "/children"]),
    [binary_to_integer(Pid) || {ok, Pids} <- [file:read_file(File)],
                               Pid <- string:lexemes(Pids, " \n")].

is_permitted(OsPid) ->
    Yama = file:read_file("/proc/sys/kernel/yama/ptrace_scope"),
    {ok, Status} = file:read_file(proc("self", "status")),
    case {file:read_link_all(proc(OsPid, "exe")), is_traceable(Yama, Status)} of
        {{error, Why}, _} when Why =:= eacces; Why =:= eperm ->
            no_target([what(OsPid), $\s, no_right(users("self"), users(OsPid), may_trace(Status))]);
        {_, {false, Text}} -> no_target(Text);
        _ -> ok
    end.

%% @doc Why the kernel does not show us what a process runs, by the user ids of both, and by our capabilities.
-spec no_right(Ours :: [binary()], Its :: [binary()], MayTrace :: boolean()) -> text().
no_right(Same, Same, false) ->
    "has more rights than this command (capabilities of its program or container), or forbids to be read: run sonde as "
    "root with the capability SYS_PTRACE (in a container: --cap-add SYS_PTRACE)";
no_right([_, <<"0">> | _], _, false) ->
    "belongs to another user, and this root has no capability SYS_PTRACE: in a container, add it by --cap-add SYS_PTRACE";
no_right(_, _, true) ->
    "cannot be read, though this command has the capability SYS_PTRACE: it belongs to another user namespace, or a "
    "security module of the kernel forbids it";
no_right(_, _, false) ->
    "belongs to another user: run sonde as that user, or as root".

may_trace(Status) ->
    {match, [Hex]} = re:run(Status, "^CapEff:\\s*([0-9a-f]+)", [multiline, {capture, [1], list}]),
    list_to_integer(Hex, 16) band (1 bsl ?SYS_PTRACE) =/= 0.

%% @doc Whether the kernel's Yama module lets this process read others of the same user, by its
%% setting and by our capabilities.
-spec is_traceable({ok, binary()} | {error, term()}, Status :: binary()) -> true | {false, text()}.
is_traceable({ok, <<$0, _/bits>>}, _) ->
    true;
is_traceable({ok, Scope}, Status) ->
    case {Scope, may_trace(Status)} of
        {<<$3, _/bits>>, _} ->
            {false, "the kernel lets no process read the memory of another one "
                    "(kernel.yama.ptrace_scope = 3). A core file can be looked into: --core FILE"};
        {_, false} ->
            {false, ["the kernel allows only root to read the memory of another process "
                     "(kernel.yama.ptrace_scope = ", string:trim(Scope), "): run sonde as root"]};
        _ ->
            true
    end;
is_traceable({error, _}, _) ->
    true.

%% ---- whose program is it?

%% If all of its user ids are ours, no other user chose what it runs.
is_ours(OsPid) ->
    case users(OsPid) =:= users("self") of
        true -> ok;
        false ->
            no_target(["process ", integer_to_list(OsPid), " belongs to another user, whose program sonde would "
                       "run with your rights: run sonde as that user, or with --trust"])
    end.

%% Real, effective, saved, and of files.
users(OsPid) ->
    case file:read_file(proc(OsPid, "status")) of
        {ok, Status} ->
            {match, [Users]} = re:run(Status, "^Uid:\\s*([0-9\\s]+)$",
                                      [multiline, {capture, [1], binary}]),
            string:lexemes(Users, "\t \n");
        {error, _} ->
            none
    end.

%% ---- where its files are

%% Empty if the node sees the same files as we do.
prefix(OsPid) ->
    case [[linked(proc(Of, What)) || Of <- [OsPid, "self"]] || What <- ["ns/mnt", "root"]] of
        [[Mounts, Mounts], [Root, Root]] -> <<>>;
        _ -> proc(OsPid, "root")
    end.

%% @doc The file that a process sees under this path if its root folder is `Prefix'. Absolute
%% symbolic links would lead out of it.
-spec inside(Prefix :: binary(), Path :: binary()) -> binary().
inside(<<>>, Path) -> Path;
inside(Prefix, Path) -> walk(Prefix, [], tl(filename:split(Path)), ?MOST_LINKS).

walk(Prefix, Done, [], _) -> at(Prefix, Done);
walk(Prefix, Done, [<<".">> | Names], Left) -> walk(Prefix, Done, Names, Left);
walk(Prefix, Done, [<<"..">> | Names], Left) -> walk(Prefix, tl(Done ++ [<<>>]), Names, Left);
walk(Prefix, Done, [Name | Names], Left) ->
    case Left > 0 andalso linked(at(Prefix, [Name | Done])) of
        Path when is_binary(Path) ->
            case filename:split(Path) of
                [<<"/">> | To] -> walk(Prefix, [], To ++ Names, Left - 1);
                To -> walk(Prefix, Done, To ++ Names, Left - 1)
            end;
        _ -> walk(Prefix, [Name | Done], Names, Left)
    end.

at(Prefix, Done) ->
    iolist_to_binary([Prefix | [[$/, Name] || Name <- lists:reverse(Done), Name =/= <<>>]]).

absolute(_, <<$/, _/bits>> = Path) -> Path;
absolute(OsPid, Path) ->
    case linked(proc(OsPid, "cwd")) of
        none -> Path;
        Folder -> filename:join(seen_from(OsPid, Folder), Path)
    end.

%% The kernel shows the paths of a process in a chroot from our own root folder.
seen_from(OsPid, Path) ->
    case linked(proc(OsPid, "root")) of
        none -> Path;
        <<"/">> -> Path;
        Root ->
            Size = byte_size(Root),
            case Path of
                <<Root:Size/binary, Rest/bits>> -> Rest;
                _ -> Path
            end
    end.

executable(OsPid) ->
    case linked(proc(OsPid, "exe")) of
        none -> <<>>;
        Path -> without(<<" (deleted)">>, Path)
    end.

%% ---- may content be shown?

%% In the form of a configuration file.
settings(Args) ->
    [[Name, ", ", Value, "}"] || {Name, Value} <- pairs(of_flag(<<"-sonde">>, Args))].

pairs([Name, Value | Words]) -> [{Name, Value} | pairs(Words)];
pairs(_) -> [].

configurations(Args, In) ->
    [Text || Name <- of_flag(<<"-config">>, Args), {ok, Text} <- [configuration(Name, In)]].

configuration(Name, In) ->
    Path = case filename:extension(Name) of
               <<".config">> -> Name;
               _ -> <<Name/binary, ".config">>
           end,
    try file:read_file(In(Path))
    catch throw:{no_target, _} -> none % a relative path, in a core file
    end.

%% What stands there for `allow_content', of whatever application, is not `true'. As a search, because the file is
%% of another node, and its terms would make atoms here.
is_forbidden(Text) ->
    re:run(Text, "allow_content'?\\s*,\\s*+(?!true\\s*\\})", [{capture, none}]) =:= match.

%% All words that follow such a flag, up to the next one.
of_flag(_, []) -> [];
of_flag(_, [<<"-extra">> | _]) -> [];
of_flag(Flag, [Flag | Args]) ->
    {Words, Rest} = lists:splitwith(fun(Word) -> not is_flag(Word) end, Args),
    Words ++ of_flag(Flag, Rest);
of_flag(Flag, [_ | Args]) -> of_flag(Flag, Args).

is_flag(<<$-, _/bits>>) -> true;
is_flag(_) -> false.

%% ---- its loader

loader(_, <<>>, _) -> none;
loader(_, _, none) -> none;
loader(OsPid, Prefix, Path) -> {inside(Prefix, Path), folders(OsPid, Prefix)}.

%% @doc By the program's header and the dynamic loader that it names.
-spec machine(Processor :: 0..65535, binary() | none) -> string().
machine(?X86_64, Interpreter) -> "x86_64-linux-" ++ c_library(Interpreter);
machine(?AARCH64, Interpreter) -> "aarch64-linux-" ++ c_library(Interpreter);
machine(_, _) -> maps:get(machine, sonde_bundle:system()).

c_library(none) -> "gnu";
c_library(Interpreter) ->
    case filename:basename(Interpreter) of
        <<"ld-musl-", _/bits>> -> "musl";
        _ -> "gnu"
    end.

%% @doc The machine of an executable, and its dynamic loader; a static one has none.
-spec executable_of(binary()) -> {Machine :: string(), Loader :: binary() | none}.
executable_of(Exe) ->
    case file:open(Exe, [read, raw, binary]) of
        {ok, File} ->
            try headers(File, Exe)
            after file:close(File)
            end;
        {error, Why} ->
            no_target([Exe, ": ", file:format_error(Why)])
    end.

headers(File, Exe) ->
    {Processor, Offset, Size, Count} =
        case file:pread(File, 0, 64) of
            {ok, <<16#7F, "ELF", 2, 1, _:12/binary, P:16/little, _:12/binary, O:64/little, _:14/binary,
                   S:16/little, C:16/little, _/bits>>} -> {P, O, S, C};
            _ -> no_target([Exe, " is no program of this machine"])
        end,
    {ok, Headers} = file:pread(File, Offset, Size * Count),
    Interpreter =
        case [{At, Length} || <<Header:Size/binary>> <= Headers,
                              <<?PT_INTERP:32/little, _:32, At:64/little, _:16/binary,
                                Length:64/little, _/bits>> <- [Header]] of
            [{At, Length}] ->
                {ok, Path} = file:pread(File, At, Length),
                hd(binary:split(Path, <<0>>));
            [] ->
                none
        end,
    {machine(Processor, Interpreter), Interpreter}.

%% Of the libraries that it has mapped.
folders(OsPid, Prefix) ->
    {ok, Maps} = file:read_file(proc(OsPid, "maps")),
    {match, Paths} = re:run(Maps, "^\\S+ \\S+ \\S+ \\S+ \\S+ +(/.*\\.so.*)$",
                            [multiline, global, {capture, [1], binary}]),
    All = [inside(Prefix, filename:dirname(seen_from(OsPid, Path))) || [Path] <- lists:usort(Paths)],
    lists:usort(All).

%% An environment in which the executable finds its libraries; the loader gets their folders.
libraries(OsPid, <<>>) ->
    case [Path || <<"LD_LIBRARY_PATH=", Path/bits>> <- words(OsPid, "environ")] of
        [Path | _] -> Path;
        [] -> none
    end;
libraries(_, _) ->
    none.

%% ---- its arguments

%% The emulator's flags that change what pids and stacks look like.
flags([<<"-JPperf", Value/bits>> | Flags], Erts) ->
    with_value(<<"-JPperf">>, Value, Flags, Erts);
flags([<<"-JMsingle", Value/bits>> | Flags], Erts) ->
    with_value(<<"-JMsingle">>, Value, Flags, Erts);
flags([<<"-P", Value/bits>> | Flags], Erts) ->
    with_value(<<"-P">>, Value, Flags, Erts);
flags([_ | Flags], Erts) ->
    flags(Flags, Erts);
flags([], _) ->
    [].

with_value(Flag, <<>>, [Value | Flags], Erts) -> [Flag, value(Flag, Value, Erts) | flags(Flags, Erts)];
with_value(_, <<>>, [], _) -> [];
with_value(Flag, Value, Flags, Erts) -> [Flag, value(Flag, Value, Erts) | flags(Flags, Erts)].

%% The same frames, but no files for perf. OTP 25 has no such value.
value(<<"-JPperf">>, Value, Erts) when Erts > ?OTP_25, Value =/= <<"false">>, Value =/= <<"no_fp">> ->
    <<"fp">>;
value(_, Value, _) ->
    Value.

%% The major version, as the folder is called: .../erts-13.1.5/bin.
erts(Bin) ->
    case re:run(Bin, "erts-([0-9]+)\\.[^/]*/bin/?$", [{capture, [1], binary}]) of
        {match, [Major]} -> binary_to_integer(Major);
        nomatch -> unknown
    end.

argument(Name, Args) -> hd(hd(arguments(Name, 1, Args))).

%% The values of each such argument, in front of the user's own.
arguments(Name, 1, [Name, Value | Args]) -> [[Value] | arguments(Name, 1, Args)];
arguments(Name, 2, [Name, One, Two | Args]) -> [[One, Two] | arguments(Name, 2, Args)];
arguments(_, _, [<<"-extra">> | _]) -> [];
arguments(Name, Count, [_ | Args]) -> arguments(Name, Count, Args);
arguments(_, _, []) -> [].

%% The smallest boot file, without its extension. A release has it beside its own; a name alone is in its OTP.
boot(What, Root, Args, In) ->
    Own = [filename:dirname(In(Path)) || [Path] <- arguments(<<"-boot">>, 1, Args), filename:basename(Path) =/= Path],
    Folders = [filename:join(Root, "bin") | Own]
        ++ filelib:wildcard(filename:join(binary_to_list(Root), "releases/*")),
    Found = [Path || Folder <- Folders, Name <- ["no_dot_erlang", "start_clean"],
                     Path <- [raw(filename:join(Folder, Name))],
                     filelib:is_regular(<<Path/binary, ".boot">>)],
    case Found of
        [Path | _] -> Path;
        [] -> no_target(["there is no start_clean.boot in the OTP of ", What, " (", Root,
                         "), so its VM cannot be started again"])
    end.

%% The VM does not start without it. The node's own still runs if its file is deleted.
setup(Bin, Running) ->
    case [Path || Path <- [filename:join(Bin, "erl_child_setup") | Running], filelib:is_regular(Path)] of
        [Path | _] -> Path;
        [] -> no_target(["there is no erl_child_setup in ", Bin])
    end.

%% ---- /proc

proc(OsPid, Name) when is_integer(OsPid) -> proc(integer_to_list(OsPid), Name);
proc(OsPid, Name) -> iolist_to_binary(["/proc/", OsPid, $/, Name]).

words(OsPid, Name) ->
    case file:read_file(proc(OsPid, Name)) of
        {ok, Bytes} -> binary:split(without(<<0>>, Bytes), <<0>>, [global]);
        {error, _} -> []
    end.

without(Suffix, Bytes) ->
    Size = byte_size(Bytes) - byte_size(Suffix),
    case Bytes of
        <<Rest:Size/binary, Suffix/binary>> -> Rest;
        _ -> Bytes
    end.

linked(Path) ->
    case file:read_link_all(Path) of
        {ok, To} -> raw(To);
        {error, _} -> none
    end.

%% File names as the kernel has them.
raw(Path) when is_binary(Path) -> Path;
raw(Path) -> unicode:characters_to_binary(Path, unicode, file:native_name_encoding()).
