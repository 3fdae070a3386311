%% @private
%% Finds what is needed to start the executable again that left a core file: by the names in the file, and only if
%% its build id is the one in the file. With a root folder of another machine or container, all paths lead through
%% it, and its own loader starts the executable with its own libraries.
%%
%% We run that executable and that OTP with our own rights, and the file chooses them. So unless the caller says that
%% it trusts them, the file, and all that would be run, must belong to root or to this user, and no other user may be
%% able to change it.
-module(sonde_cli_core).

-export([target/2, open/1, said/1, without_code/1, errors/1]).

-type opts() :: #{trust => boolean(), sysroot => file:filename_all(), atom() => term()}.
-type text() :: unicode:chardata().

%% @doc What {@link sonde_cli_twin:run/2} needs.
-spec target(file:filename_all(), opts()) -> {ok, sonde_cli_target:target()} | {error, text()}.
target(Name, Opts) ->
    try
        {ok, Core} = opened(Name),
        Target = found(Core, Opts),
        _ = [ok = is_ours(Core, Target) || not maps:get(trust, Opts, false)],
        {ok, Target}
    catch throw:{no_target, Text} -> {error, Text}
    end.

%% @doc The core file; in the twin.
-spec open(file:filename_all()) -> {ok, sonde_core_file:core()} | {error, text()}.
open(Name) ->
    try opened(Name)
    catch throw:{no_target, Text} -> {error, Text}
    end.

opened(Name) ->
    case filelib:is_file("/proc/self/status") of
        true -> ok;
        false -> no("--core needs Linux, and /proc")
    end,
    case sonde_core_file:open(filename:absname(Name)) of
        {ok, Core} -> {ok, Core};
        {error, Why} -> no([Name, ": ", sonde_core_file:errors(Why)])
    end.

-spec no(text()) -> no_return().
no(Text) ->
    sonde_cli_target:no_target(Text).

%% ---- its program

found(#{path := Path} = Core, Opts) ->
    Prefix = prefix(Opts),
    In = fun(<<$/, _/bits>> = There) -> sonde_cli_target:inside(Prefix, seen_inside(Prefix, There));
            (There) -> no(["the node of ", Path, " was started with a relative path (", There, ")"])
         end,
    Name = program(Core),
    Words = words(Core, Name),
    Exe = In(Name),
    ok = is_build(Core, Exe),
    What = ["core ", Path],
    {Machine, Interpreter} = sonde_cli_target:executable_of(Exe),
    Started = sonde_cli_target:started(Words, In, [], What),
    Started#{what => What, exe => Exe, name => Name, machine => Machine,
             loader => loader(Core, Prefix, Interpreter, In),
             libraries => libraries(Core, Prefix)}.

prefix(#{sysroot := Folder}) ->
    case filelib:is_dir(Folder) of
        true -> raw(filename:absname(Folder));
        false -> no(["there is no folder ", Folder])
    end;
prefix(_) ->
    <<>>.

raw(Path) when is_binary(Path) -> Path;
raw(Path) ->
    case unicode:characters_to_binary(Path, unicode, file:native_name_encoding()) of
        Raw when is_binary(Raw) -> Raw;
        _ -> no("a path is no text in the encoding of file names")
    end.

%% A debugger outside of a chroot writes the names of files as it sees them.
seen_inside(Prefix, Path) ->
    Size = byte_size(Prefix),
    case Path of
        <<Prefix:Size/binary, $/, Rest/bits>> when Size > 0 -> <<$/, Rest/bits>>;
        _ -> Path
    end.

%% A file that was deleted may be there again, and the same.
program(#{path := Path} = Core) ->
    case sonde_core_file:program(Core) of
        {_, Name} -> Name;
        none -> no([Path, " does not say which program it is of"])
    end.

words(#{path := Path} = Core, Name) ->
    case {sonde_core_file:words(Core), filename:basename(Name)} of
        {Words, <<"beam", _/bits>>} ->
            case sonde_cli_target:node_words(Words, Name) of
                {true, Flags, Args} -> {Flags, Args};
                false -> without_stack(Core, Name)
            end;
        {_, _} ->
            no([Path, " is not of an Erlang node, but of ", Name])
    end.

%% The OTP of an executable is the folder that it is in.
without_stack(#{path := Path} = Core, Name) ->
    case {sonde_core_file:flags(Core), lists:reverse(filename:split(Name))} of
        {{ok, Flags}, [_Beam, Bin, <<"erts-", _/bits>> = Erts | [_ | _] = Above]} ->
            Root = filename:join(lists:reverse(Above)),
            {Flags, [<<"-root">>, Root, <<"-bindir">>, filename:join([Root, Erts, Bin])]};
        _ ->
            no([Path, " has no command line of a node: its stack is not in it",
                case cut_off(Core) of
                    [Said] -> [" (", Said, ")"];
                    [] -> without(0)
                end])
    end.

is_build(#{path := Path} = Core, Exe) ->
    case {sonde_core_file:build_id(Core), sonde_core_file:build_id_of(Exe)} of
        {{ok, Id}, {ok, Id}} -> ok;
        {none, _} ->
            no([Path, " has no build id of its program: the first page of each program is not in it "
                "(coredump_filter), or it was built without"]);
        {{ok, Id}, {ok, Other}} ->
            no(["the program of ", Path, " is another build than ", Exe, " is now (", hex(Id), ", not ", hex(Other),
                "): was it upgraded? A folder with the old files can be given by --sysroot"]);
        {{ok, _}, none} -> no([Exe, " has no build id"]);
        {{ok, Id}, {error, Why}} ->
            no(["the program of ", Path, " cannot be read (", Exe, ": ", sonde_core_file:errors(Why),
                "): a folder with its files can be given by --sysroot (build id ", hex(Id), ")"])
    end.

hex(Id) -> string:lowercase(binary:encode_hex(Id)).

loader(_, <<>>, _, _) ->
    none;
loader(_, _, none, _) ->
    none;
loader(Core, _, Path, In) ->
    {In(Path), lists:usort([filename:dirname(In(Library)) || Library <- sonde_core_file:libraries(Core)])}.

libraries(Core, <<>>) ->
    %% the last ones are those of its environment
    case lists:reverse([Path || <<"LD_LIBRARY_PATH=", Path/bits>> <- sonde_core_file:words(Core)]) of
        [Path | _] -> Path;
        [] -> none
    end;
libraries(_, _) ->
    none.

%% ---- whose program is it?

is_ours(#{path := Path}, Target) ->
    case sonde_cli_owner:others([Path | runs(Target)]) of
        none -> ok;
        {other, File} ->
            no([File, " belongs to another user, or another user can change it: sonde would run what it chooses with "
                "your rights. Say --trust if you trust it"])
    end.

%% All that the twin may load: the boot file leads to kernel and stdlib, and the other applications are in its path.
runs(#{exe := Exe, setup := Setup, boot := Boot, root := Root, boot_vars := Vars} = Target) ->
    Folders = [filename:join(Root, "lib") | [Folder || {_, Var} <- Vars, Folder <- [Var, filename:join(Var, "lib")]]],
    [Exe, Setup, <<Boot/binary, ".boot">> | Folders]
        ++ [Path || Folder <- Folders, {Name, App} <- inside(Folder), Path <- of_application(Name, filename:join(App, "ebin"))]
        ++ case Target of
               #{loader := {Loader, Paths}} -> [Loader | Paths];
               #{libraries := none} -> [];
               #{libraries := Paths} -> [Path || Path <- binary:split(Paths, <<":">>, [global]), Path =/= <<>>]
           end.

of_application(<<Name:6/binary, _/bits>>, Ebin) when Name =:= <<"kernel">>; Name =:= <<"stdlib">> ->
    [Ebin | [File || {_, File} <- inside(Ebin)]];
of_application(_, Ebin) ->
    [Ebin].

inside(Folder) ->
    case file:list_dir_all(Folder) of
        {ok, Names} -> [{Name, filename:join(Folder, Name)} || Listed <- Names, Name <- [raw(Listed)]];
        {error, _} -> []
    end.

%% ---- words

%% @doc What is to be said of it before any answer.
-spec said(sonde_core_file:core()) -> [text()].
said(#{path := Path} = Core) ->
    [[Path, " is cut off: ", Said, ", or are still being written"] || Said <- cut_off(Core)].

cut_off(Core) ->
    [[integer_to_list(Missing), " bytes are missing"] || Missing <- [sonde_core_file:missing(Core)], Missing > 0].

%% @doc The same if no function can be read.
-spec without_code(sonde_core_file:core()) -> text().
without_code(#{path := Path}) ->
    ["core ", Path, ": ", errors(no_code), ", so functions have no names"].

-spec errors(sonde_outside:why()) -> text().
errors(Why) when Why =:= no_reader; Why =:= changed -> "the file was written, or replaced, while it was read";
errors(no_build_id) -> "the build id of its program is not in it";
errors(other_program) -> "its program is another build than that of the command";
errors(no_memory) -> "there is no memory for its list of parts";
errors(processes) -> ["its processes are not as expected, or not in it", without(0)];
errors(process_table) -> ["its table of processes is not as expected, or not in it", without(0)];
errors(no_code) -> ["the program's code is not in it", without(1)];
errors({name_not_known, Name}) -> [sonde_outside:errors({name_not_known, Name}), ": they are not in it"];
errors({not_there, Function}) -> [atom_to_list(Function), " does not work on a core file"];
errors(Why) -> sonde_outside:errors(Why).

%% Which memory the kernel leaves out.
without(Bit) -> io_lib:format(" (coredump_filter without bit ~b, or cut off)", [Bit]).
