%% A third-party library, as other people have in their nodes: long calls, signal handlers of its
%% own, real faults, a filter that refuses a system call, resources. It is built on the tested
%% machine, from sonde_foreign_helper_data/sonde_foreign.c; and a driver, from sonde_foreign_driver.c.
-module(sonde_foreign_helper).

-export([build/1, build_filtered/1, load/1, open_driver/1, drive/2, sleep/3, spin/3, crash/1, raise_segv/1, mask_signals/2]).
-export([take_signals/1, give_back/0, signals/0, seen/0, deny_syscall/0, thing/1, thing_binary/1]).
-export([sleep_normal/2, sleep_dirty_cpu/2, sleep_dirty_io/2,
         spin_normal/2, spin_dirty_cpu/2, spin_dirty_io/2,
         crash_normal/0, crash_dirty_cpu/0, crash_dirty_io/0,
         raise_segv_normal/0, raise_segv_dirty_cpu/0, raise_segv_dirty_io/0,
         mask_signals_normal/1, mask_signals_dirty_cpu/1, mask_signals_dirty_io/1]).
-export_type([where/0, kind/0]).

-nifs([sleep_normal/2, sleep_dirty_cpu/2, sleep_dirty_io/2,
       spin_normal/2, spin_dirty_cpu/2, spin_dirty_io/2,
       crash_normal/0, crash_dirty_cpu/0, crash_dirty_io/0,
       raise_segv_normal/0, raise_segv_dirty_cpu/0, raise_segv_dirty_io/0,
       mask_signals_normal/1, mask_signals_dirty_cpu/1, mask_signals_dirty_io/1,
       take_signals/1, give_back/0, signals/0, seen/0, deny_syscall/0, thing/1, thing_binary/1]).

%% The kind of scheduler whose thread runs the call.
-type where() :: normal | dirty_cpu | dirty_io.

%% chains: forwards everything to the previous handler. swallows: ends the node with exit code 43 at
%% a fault, and ignores sent signals. no_onstack: reinstalls the current handler without SA_ONSTACK.
-type kind() :: chains | swallows | default | ignore | no_onstack.

%% ---- building

%% @doc Builds the library in `Dir', for {@link load/1} on any node of this machine.
-spec build(file:filename()) -> {ok, Dir :: file:filename()} | {skip, string()}.
build(Dir) ->
    Include = filename:join([code:root_dir(), "erts-" ++ erlang:system_info(version), "include"]),
    case {[Cc || N <- ["cc", "gcc"], Cc <- [os:find_executable(N)], is_list(Cc)],
          filelib:is_regular(filename:join(Include, "erl_nif.h"))} of
        {[Cc | _], true} ->
            _ = [begin
                     Library = filename:join(Dir, Name ++ ".so"),
                     Source = filename:join(filename:dirname(source()), Name ++ ".c"),
                     ok = filelib:ensure_dir(Library),
                     Said = os:cmd(lists:join(" ", [Cc, "-shared -fPIC -O1", ["-I", quoted(Include)],
                                                    "-o", quoted(Library), quoted(Source), "2>&1"])),
                     filelib:is_regular(Library) orelse error({does_not_build, Said})
                 end || Name <- ["sonde_foreign", "sonde_foreign_driver"]],
            {ok, Dir};
        _ ->
            {skip, "no C compiler or no erl_nif.h"}
    end.

%% The source is beside this module, where scripts/suite puts it, or in the tree.
source() ->
    Beside = filename:dirname(code:which(?MODULE)),
    Trees = [Root || Root <- [os:getenv("SONDE_ROOT")], is_list(Root)]
        ++ [filename:join(Beside, "../../../../..")],
    Name = "sonde_foreign_helper_data/sonde_foreign.c",
    Files = [filename:join(Beside, Name) | [filename:join([T, "test", Name]) || T <- Trees]],
    hd([File || File <- Files, filelib:is_regular(File)]).

quoted(Path) -> ["'", Path, "'"].

%% @doc A program that runs others under a filter that refuses system calls that only sonde makes. Its first argument: how,
%% as an errno, or 0 to end them.
-spec build_filtered(file:filename()) -> {ok, Program :: file:filename()} | {skip, string()}.
build_filtered(Dir) ->
    Program = filename:join(Dir, "filtered"),
    ok = filelib:ensure_dir(Program),
    Source = filename:join(filename:dirname(source()), "filtered.c"),
    _ = os:cmd(lists:join(" ", ["cc -O1 -o", quoted(Program), quoted(Source), "2>&1"])),
    case filelib:is_regular(Program)
        andalso string:trim(os:cmd(quoted(Program) ++ " 0 true; echo $?")) of
        "0" -> {ok, Program};
        Why -> {skip, lists:flatten(io_lib:format("no filter: ~p", [Why]))}
    end.

%% @doc Once for a node.
-spec load(file:filename()) -> ok.
load(Dir) ->
    ok = erlang:load_nif(filename:join(Dir, "sonde_foreign"), 0).

%% ---- a driver

%% @doc A port of it, which the caller owns.
-spec open_driver(Dir :: file:filename()) -> port().
open_driver(Dir) ->
    _ = erl_ddll:load_driver(Dir, "sonde_foreign_driver"),
    open_port({spawn_driver, "sonde_foreign_driver"}, []).

%% @doc As soon as a scheduler has taken the port, it is in one call of its driver for Ms; and again after that, without
%% end, if it is told so.
-spec drive(port(), Ms :: non_neg_integer() | {again, Ms :: non_neg_integer()}) -> true.
drive(Port, {again, Ms}) -> port_command(Port, [integer_to_list(Ms), " again"]);
drive(Port, Ms) -> port_command(Port, integer_to_list(Ms)).

%% ---- long calls, during which a process holds Term; they return Term

-spec sleep(where(), Ms :: non_neg_integer(), Term) -> Term.
sleep(normal, Ms, Term) -> sleep_normal(Ms, Term);
sleep(dirty_cpu, Ms, Term) -> sleep_dirty_cpu(Ms, Term);
sleep(dirty_io, Ms, Term) -> sleep_dirty_io(Ms, Term).

-spec spin(where(), Us :: non_neg_integer(), Term) -> Term.
spin(normal, Us, Term) -> spin_normal(Us, Term);
spin(dirty_cpu, Us, Term) -> spin_dirty_cpu(Us, Term);
spin(dirty_io, Us, Term) -> spin_dirty_io(Us, Term).

%% ---- faults

%% @doc Writes to no address. Does not return.
-spec crash(where()) -> no_return().
crash(normal) -> crash_normal();
crash(dirty_cpu) -> crash_dirty_cpu();
crash(dirty_io) -> crash_dirty_io().

%% @doc A SIGSEGV that is sent, by a thread to itself.
-spec raise_segv(where()) -> ok.
raise_segv(normal) -> raise_segv_normal();
raise_segv(dirty_cpu) -> raise_segv_dirty_cpu();
raise_segv(dirty_io) -> raise_segv_dirty_io().

%% ---- signals

%% @doc SIGSEGV and SIGBUS for one scheduler's thread, until it is told otherwise.
-spec mask_signals(where(), block | unblock) -> ok.
mask_signals(normal, How) -> mask_signals_normal(How);
mask_signals(dirty_cpu, How) -> mask_signals_dirty_cpu(How);
mask_signals(dirty_io, How) -> mask_signals_dirty_io(How).

%% @doc Installs a handler of its own for SIGSEGV and SIGBUS. One caller at a time.
-spec take_signals(kind()) -> ok.
take_signals(_Kind) -> erlang:nif_error(not_loaded).

%% @doc Undoes the last {@link take_signals/1}.
-spec give_back() -> ok.
give_back() -> erlang:nif_error(not_loaded).

%% @doc What is installed for SIGSEGV and for SIGBUS.
-spec signals() -> [{default | ignore | chains | swallows | other, OnStack :: boolean()}].
signals() -> erlang:nif_error(not_loaded).

%% @doc How many signals its handlers were given.
-spec seen() -> {Faults :: non_neg_integer(), Sent :: non_neg_integer()}.
seen() -> erlang:nif_error(not_loaded).

%% @doc From now on the system refuses process_vm_readv to every thread of the node.
-spec deny_syscall() -> ok | {skip, string()}.
deny_syscall() -> erlang:nif_error(not_loaded).

%% ---- resources

%% @doc A resource of so many bytes, of the type `{sonde_foreign_helper, thing}'.
-spec thing(non_neg_integer()) -> reference().
thing(_Bytes) -> erlang:nif_error(not_loaded).

%% @doc A binary that is the memory of such a resource.
-spec thing_binary(reference()) -> binary().
thing_binary(_Thing) -> erlang:nif_error(not_loaded).

%% ---- stubs

sleep_normal(_Ms, _Term) -> erlang:nif_error(not_loaded).
sleep_dirty_cpu(_Ms, _Term) -> erlang:nif_error(not_loaded).
sleep_dirty_io(_Ms, _Term) -> erlang:nif_error(not_loaded).
spin_normal(_Us, _Term) -> erlang:nif_error(not_loaded).
spin_dirty_cpu(_Us, _Term) -> erlang:nif_error(not_loaded).
spin_dirty_io(_Us, _Term) -> erlang:nif_error(not_loaded).
crash_normal() -> erlang:nif_error(not_loaded).
crash_dirty_cpu() -> erlang:nif_error(not_loaded).
crash_dirty_io() -> erlang:nif_error(not_loaded).
raise_segv_normal() -> erlang:nif_error(not_loaded).
raise_segv_dirty_cpu() -> erlang:nif_error(not_loaded).
raise_segv_dirty_io() -> erlang:nif_error(not_loaded).
mask_signals_normal(_How) -> erlang:nif_error(not_loaded).
mask_signals_dirty_cpu(_How) -> erlang:nif_error(not_loaded).
mask_signals_dirty_io(_How) -> erlang:nif_error(not_loaded).
