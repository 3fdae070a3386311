%% A node that has died, read from its core file: its rows are what it said of itself just before, what is not in the
%% file is reported as not read, and no file of any kind gives a wrong number or ends the command.
-module(core_SUITE).

-compile([export_all, nowarn_export_all]).

-include_lib("kernel/include/file.hrl").

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [targets_exclude_each_other, help_names_them, whose_files, hostile_files, files_that_are_none,
     rows_are_those_of_the_node, names_are_those_of_the_node, stacks_are_those_of_the_node,
     schedulers_are_those_of_the_node, a_heap_is_that_of_the_node,
     one_process_is_that_of_the_node, binaries_are_those_of_the_node, dumps_are_those_of_the_node,
     a_diagnosis_is_that_of_the_node, waits_and_groups_are_those_of_the_node,
     a_process_that_ran_has_a_row_or_is_named, a_debuggers_core_file_is_read_alike, without_one_of_its_parts,
     cut_off, cut_off_names_are_right_or_not_known,
     a_debuggers_file_cut_off, why_a_process_is_not_read, cut_off_before_the_stack, without_code, without_memory,
     without_build_id, another_build_is_refused,
     another_process_limit_is_refused, written_meanwhile, ten_gigabytes_are_not_read, no_memory,
     no_call_takes_long, only_this_module_may_aim, it_aims_once,
     a_report_has_the_numbers_of_the_calls, command_answers, flame_graphs_are_those_of_the_rows, its_commands_can_be_pasted, flags_are_those_of_the_node, executable_is_deleted_or_replaced, a_folder_with_the_old_files,
     core_files_of_others, programs_of_others, chroot_of_otp_27, chroot_of_otp_29].

init_per_suite(Config) ->
    case {outside_rows_SUITE:init_per_suite(Config), way()} of
        {{skip, _} = Skip, _} -> Skip;
        {_, none} -> {skip, "no core files: the kernel gives them to a program (core_pattern) or limits them, and gdb "
                            "is not installed (scripts/setup core)"};
        {Good, _} -> with_core([{dir, string:trim(os:cmd("mktemp -d"))} | Good])
    end.

with_core(Config) ->
    Dir = get(dir, Config),
    ok = file:change_mode(Dir, 8#755),
    {Path, Told} = of_node([], Dir, abort, default, fun told/1),
    [{core, Path}, {told, Told} | Config].

end_per_suite(Config) ->
    ok = file:del_dir_r(get(dir, Config)).

init_per_testcase(Case, Config) ->
    Dir = filename:join(get(dir, Config), Case),
    ok = file:make_dir(Dir),
    ok = file:change_mode(Dir, 8#755),
    lists:keystore(dir, 1, Config, {dir, Dir}).

end_per_testcase(_Case, Config) ->
    ok = file:del_dir_r(get(dir, Config)).

get(Key, Config) -> proplists:get_value(Key, Config).

%% ---- nodes that die

%% How a core file can be made here. SONDE_CORES=gcore: as where the kernel gives none.
way() ->
    case os:getenv("SONDE_CORES") of
        "gcore" -> gcore;
        _ -> kernels_way()
    end.

kernels_way() ->
    {ok, Pattern} = case file:read_file("/proc/sys/kernel/core_pattern") of
                        {error, _} -> {ok, <<"|">>};
                        Read -> Read
                    end,
    Limited = case os:cmd("ulimit -Hc") of "unlimited" ++ _ -> false; _ -> true end,
    case Pattern of
        <<C, _/bits>> when C =/= $|, C =/= $/, not Limited -> abort;
        _ -> case os:find_executable("gcore") of false -> none; _ -> gcore end
    end.

%% Fun(Of) prepares a node, which then dies. Returns its core file, and what Fun returned.
of_node(Args, Dir, How, Filter, Fun) ->
    %% a debugger writes what is only reserved as well
    Peer = sonde_peer_helper:start(shipped, Args ++ case way() of gcore -> ["+MIscs", "32", "+A", "1"]; abort -> [] end),
    Of = fun(M, F, A) -> sonde_peer_helper:call(Peer, M, F, A) end,
    try
        Told = Fun(Of),
        {core_of(Of(os, getpid, []), Of, Dir, How, Filter), Told}
    after
        try sonde_peer_helper:stop(Peer) catch exit:_ -> ok end
    end.

core_of(OsPid, Of, Dir, How, Filter) ->
    ok = filelib:ensure_dir(filename:join([Dir, "x"])),
    _ = [ok = file:write_file("/proc/" ++ OsPid ++ "/coredump_filter", Filter) || Filter =/= default],
    case {How, way()} of
        {abort, abort} -> aborted(OsPid, fun() -> ok = Of(file, set_cwd, [Dir]) end, Dir);
        _ -> by_debugger(OsPid, Dir)
    end.

aborted(OsPid, InDir, Dir) ->
    Before = filelib:wildcard("*", Dir),
    ok = InDir(),
    "" = os:cmd("prlimit --core=unlimited:unlimited --pid " ++ OsPid),
    %% one that was not stopped may be gone before it is told to go on
    "" = os:cmd(["kill -ABRT ", OsPid, " && { kill -CONT ", OsPid, " 2> /dev/null || :; }"]),
    ok = sonde_test:until(dead, fun() -> has_ended(OsPid) end),
    [Name] = filelib:wildcard("*", Dir) -- Before,
    filename:join(Dir, Name).

has_ended(OsPid) ->
    case file:read_file("/proc/" ++ OsPid ++ "/status") of
        {ok, Status} -> nomatch =/= re:run(Status, "^State:\\s*[ZX]", [multiline]);
        {error, _} -> true
    end.

%% It stays alive.
by_debugger(OsPid, Dir) ->
    File = filename:join(Dir, "core"),
    Said = os:cmd(lists:concat(["gcore -o ", File, " ", OsPid, " 2>&1"])),
    {true, _} = {filelib:is_regular(File ++ "." ++ OsPid), Said},
    File ++ "." ++ OsPid.

%% What it says of processes that are at rest: asking makes each of them run once.
told(Of) ->
    More = Of(?MODULE, more, []),
    Pids = Of(outside_rows_SUITE, crowd, []),
    Named = lists:reverse(Of(outside_rows_SUITE, named, [])) ++ [Of(outside_rows_SUITE, never_ran, [])],
    Attrs = sonde_attr:native(),
    Ask = fun() -> [{Attr, Of(outside_rows_SUITE, asked, [Pids, Attr])} || Attr <- Attrs] end,
    _ = Ask(),
    #{full := Full} = More,
    Holders = Of(?MODULE, binaries, []),
    ok = Of(sonde_test, settle, [Holders]),
    Dumps = [Of(?MODULE, dumped, [Pid]) || Pid <- Full],
    Account = Of(sonde, bin_account, []),
    Spins = Of(outside_rows_SUITE, spinner, []),
    ok = Of(sonde_test, settle, [Pids ++ Named]),
    Values = Ask(),
    Sites = [{Pid, Of(outside_rows_SUITE, site, [Pid])} || Pid <- Named],
    ok = Of(sonde_test, settle, [Pids ++ Named]),
    More#{dumps => Dumps, account => Account, pids => Pids, values => Values, sites => Sites, spins => Spins,
          schedulers => [Of(erlang, system_info, [Item])
                         || Item <- [schedulers, dirty_cpu_schedulers, dirty_io_schedulers]],
          heap => Of(sonde, heap, [lists:last(Pids)]), stacks => Of(sonde, stacks, [1000])}.

%% In the node: more kinds of processes, and what it says of them.
more() ->
    Full = outside_calls_SUITE:full(),
    {End, Middle, _} = outside_calls_SUITE:chain(),
    Members = outside_calls_SUITE:members(),
    By = [initial_call, current_function, registered_name],
    Attrs = [total_heap_size, message_queue_len],
    Info = [{Pid, outside_calls_SUITE:said(Pid)} || Pid <- Full],
    Groups = [{Key, outside_calls_SUITE:groups(Key, Attrs)} || Key <- By],
    ok = sonde_test:settle([End, Middle | Full ++ Members]),
    #{full => Full, info => Info, groups => [{Key, ours(All)} || {Key, All} <- Groups],
      waits => [Row || {Pid, _, _} = Row <- sonde:waits(1000), lists:member(Pid, [End, Middle])],
      rows => [{Function, [{Pid, Value} || {Pid, Value, _} <- sonde:Function(100000), lists:member(Pid, Full)]}
               || Function <- [bin_garbage, bin_waste, bin_owned]],
      looks => [{Pid, outside_calls_SUITE:as_text(sonde_heap_top:shape(Pid, 10, #{})), sonde:mailbox(Pid, 0), sonde:bin_slices(Pid)} || Pid <- Full]}.

%% ---- the twin

twin(Args, Fun) -> outside_rows_SUITE:twin(Args, Fun).

%% Fun(Answers): Answers(Function, Args) is answered from that core file.
opened(Path, Fun) ->
    twin([], fun(Twin) ->
        ok = open(Twin, Path),
        Fun(fun(Function, Args) -> outside_rows_SUITE:outside(Twin, Function, Args) end)
    end).

open(Twin, Path) ->
    {ok, Core} = sonde_core_file:open(Path),
    sonde_peer_helper:call(Twin, sonde_outside, open, [Core]).

%% Of the processes that rest: none has another value, and none is missing without being counted.
rows_are_right(#{pids := Pids, values := Told}, Answers) ->
    lists:max([begin
         {ok, Rows, #{left_out := LeftOut}} = Answers(proc_count, [Attr, 100000]),
         Said = maps:from_list(proplists:get_value(Attr, Told)),
         Wrong = [{Pid, Value, map_get(Pid, Said)}
                  || {Pid, Value, _} <- Rows, is_map_key(Pid, Said),
                     case Attr of reductions -> Value < map_get(Pid, Said); _ -> Value =/= map_get(Pid, Said) end],
         {Attr, []} = {Attr, Wrong},
         Without = [Pid || Pid <- Pids, not lists:keymember(Pid, 1, Rows), map_get(Pid, Said) =/= 0],
         {Attr, true} = {Attr, length(Without) =< LeftOut},
         length(Without)
     end || {Attr, _} <- Told]).

%% ---- words

targets_exclude_each_other(_Config) ->
    _ = [{Words, {wrong, _}} = {Words, outside_SUITE:parsed(Words)}
         || Words <- ["--core f --node a@h native", "--core f --pid 1 native", "--core", "--core f top",
                      "--core f proc_window memory 1 1", "--core f proc_count memory 1 --suspend",
                      "--sysroot d native --node a@h", "--pid 1 --sysroot d native"]],
    {run, #{name := "native"}, [], #{core := "f", sysroot := "d", trust := true}} =
        outside_SUITE:parsed("native --core f --sysroot d --trust"),
    [] = ["native", "proc_count", "proc_group", "stacks", "schedulers", "waits", "info", "heap", "heap_top", "mailbox", "bin_slices",
          "bin_garbage", "bin_waste", "bin_owned", "bin_account", "dump", "diagnose",
          "report"]
        -- [Name || #{name := Name, core := true} <- sonde_cli_table:commands()].

help_names_them(_Config) ->
    General = unicode:characters_to_list(sonde_cli_help:general()),
    _ = [true = has(Part, General) || Part <- ["--core FILE", "--sysroot DIR", "core file"]],
    _ = [{Name, Is} = {Name, has("--core FILE", unicode:characters_to_list(sonde_cli_help:command(Command)))}
         || #{run := {sonde, _}, name := Name} = Command <- sonde_cli_table:commands(),
            Is <- [is_map_key(core, Command)]].

%% ---- whose files are run

whose_files(Config) ->
    Dir = list_to_binary(get(dir, Config)),
    {ok, #file_info{uid = Uid, gid = Gid}} = file:read_file_info(Dir),
    Us = {Uid, Gid},
    File = filename:join(Dir, "a/b"),
    ok = filelib:ensure_dir(File),
    ok = file:write_file(File, "x"),
    Mode = fun(Path, Bits) -> ok = file:change_mode(Path, Bits) end,
    Folder = filename:dirname(File),
    Mode(Folder, 8#755), Mode(File, 8#644),
    none = sonde_cli_owner:others([File, filename:join(Dir, "not/there"), filename:join(File, "x")], Us),
    %% root may do all
    _ = [{other, _} = sonde_cli_owner:others([File], {Uid + 1, Gid}) || Uid =/= 0],
    %% others can write it, or what is in its folder
    _ = [begin
             Mode(Path, Bits),
             {Path, Bits, {other, Path}} = {Path, Bits, sonde_cli_owner:others([File], Whom)},
             Mode(Path, 8#755)
         end || Path <- [File, Folder],
                {Bits, Whom} <- [{8#757, Us} | [{8#775, {Uid, Gid + 1}} || Gid =/= 0]]],
    _ = [begin
             ok = file:change_group(File, 65534),
             Mode(File, 8#664),
             {other, File} = sonde_cli_owner:others([File], Us),
             none = sonde_cli_owner:others([File], {Uid, 65534}),
             ok = file:change_group(File, 0)
         end || Us =:= {0, 0}],
    %% of its own group all may
    Mode(File, 8#775),
    none = sonde_cli_owner:others([File], Us),
    Mode(File, 8#644),
    "" = os:cmd("chmod 1777 " ++ binary_to_list(Folder)),
    none = sonde_cli_owner:others([File], Us),
    Mode(File, 8#666),
    {other, File} = sonde_cli_owner:others([File], Us),
    Mode(Folder, 8#755), Mode(File, 8#644),
    %% links are followed, and may not lead around for ever
    Link = fun(Name, To) -> Path = filename:join(Dir, Name), ok = file:make_symlink(To, Path), Path end,
    none = sonde_cli_owner:others([filename:join(Link("to_a", "a/../a"), "b"), Link("far", File)], Us),
    {other, _} = sonde_cli_owner:others([Link("loop", "loop")], Us),
    Mode(Folder, 8#777),
    {other, Folder} = sonde_cli_owner:others([filename:join(Dir, "to_a/b")], Us),
    {other, Folder} = sonde_cli_owner:others([filename:join(Dir, "far")], Us),
    Mode(Folder, 8#755).

%% A file of another user, and one that the kernel does not let this one see.
core_files_of_others(Config) ->
    outside_SUITE:as_root(fun() ->
        Copy = copy(Config),
        ok = file:change_owner(Copy, 65534),
        {1, "", Said} = sonde(["--core ", Copy, " native"], Config),
        true = outside_SUITE:is_one_line(Said) andalso has("another user", Said) andalso has("--trust", Said),
        {0, [_ | _], ""} = sonde(["--core ", Copy, " native --trust"], Config),
        %% that user may not read what is root's
        ok = file:change_owner(Copy, 0),
        ok = file:change_mode(Copy, 8#600),
        {1, "", Denied} = sonde(["--core ", Copy, " native"], as(nobody, Config)),
        true = has("permission denied", Denied)
    end).

as(nobody, Config) ->
    Ebin = filename:join(get(dir, Config), "all"),
    ok = file:make_dir(Ebin),
    "" = os:cmd(["cp -r '", sonde_attach_helper:ebin(), "' '", sonde_attach_helper:ebin(), "/../priv' ", Ebin,
                 " && chmod -R a+rX ", Ebin, " && chmod 777 ", get(dir, Config)]),
    [{as, outside_SUITE:nobody()}, {real, false}, {stub, Ebin} | Config].

%% The files of an OTP that another user can change decide what would be run.
programs_of_others(Config) ->
    outside_SUITE:as_root(fun() ->
        with_vm(Config, fun(Core, Root) ->
            {0, [_ | _], ""} = sonde(["--core ", Core, " native"], Config),
            Kernel = filename:dirname(hd(filelib:wildcard(filename:join(Root, "lib/kernel-*/ebin/kernel.app")))),
            _ = [begin
                     {ok, #file_info{mode = Mode}} = file:read_file_info(Path),
                     ok = file:change_owner(Path, 65534),
                     {Path, {1, "", Said}} = {Path, sonde(["--core ", Core, " native"], Config)},
                     {Path, true} = {Path, has("another user", Said) andalso has(Path, Said)},
                     ok = file:change_owner(Path, 0),
                     ok = file:change_mode(Path, Mode bor 8#002),
                     {Path, {1, "", _}} = {Path, sonde(["--core ", Core, " native"], Config)},
                     ok = file:change_mode(Path, Mode)
                 end || Path <- [beam(Root), Root, filename:join(Root, "bin/no_dot_erlang.boot"),
                                 filename:join(Kernel, "code.beam"), Kernel,
                                 filename:join(filename:dirname(beam(Root)), "erl_child_setup")]],
            {0, [_ | _], ""} = sonde(["--core ", Core, " native"], Config)
        end)
    end).

%% ---- files of any kind

%% Headers of a core file, as ELF has them.
elf(Segments) -> elf(Segments, length(Segments), <<>>).

elf(Segments, Count, More) ->
    [<<16#7F, "ELF", 2, 1, 1, 0:72, 4:16/little, 62:16/little, 1:32/little, 0:64, 64:64/little, 0:64, 0:32, 64:16/little,
       56:16/little, Count:16/little, 0:48>>,
     [<<Type:32/little, 4:32/little, At:64/little, Start:64/little, 0:64, Size:64/little, Size:64/little, 1:64/little>>
      || {Type, At, Start, Size} <- Segments], More].

note(Type, Bytes) ->
    Pad = (4 - byte_size(Bytes) rem 4) rem 4,
    [<<5:32/little, (byte_size(Bytes)):32/little, Type:32/little, "CORE", 0, 0:24>>, Bytes, <<0:Pad/unit:8>>].

auxv(Pairs) -> note(6, << <<K:64/little, V:64/little>> || {K, V} <- Pairs >>).

%% A core file of these notes, and one segment with these bytes.
with_notes(Notes, At, Bytes) ->
    N = iolist_to_binary(Notes),
    [elf([{4, 64 + 112, 0, byte_size(N)}, {1, 64 + 112 + byte_size(N), At, byte_size(Bytes)}]), N, Bytes].

%% More segments than the number in the header may be: the first section has it.
elsewhere(Bytes, Count) ->
    <<Before:40/binary, _:64, Middle:8/binary, _:16, After/bits>> = Whole = iolist_to_binary(Bytes),
    [Before, <<(byte_size(Whole)):64/little>>, Middle, <<16#FFFF:16/little>>, After, <<0:352, Count:32/little, 0:128>>].

-define(AT, 16#7F0000000000).

%% Each is parsed, or refused, within a bound: a time trap of this case would end one that takes longer.
hostile_files(Config) ->
    Many = 16 bsl 20,
    Stack = [{3, ?AT}, {5, 2}, {15, ?AT}, {31, ?AT + (8 bsl 20)}],
    Names = fun(Count, Bytes) -> note(16#46494C45, <<Count:64/little, 4096:64/little, Bytes/binary>>) end,
    Files =
        [{no_auxv, elf([])},
         {no_auxv, elf([{1, 0, ?AT, 64}])},
         {too_short, elf([], 3, <<>>)},
         {no_auxv, elf([], 16#FFFF, <<>>)},
         {ok, elsewhere(with_notes(auxv(Stack), ?AT, <<"x">>), 2)},
         {too_many_parts, elsewhere(with_notes(auxv(Stack), ?AT, <<"x">>), (1 bsl 18) + 1)},
         {overlapping, elf([{1, 0, ?AT, 64}, {1, 0, ?AT + 63, 64}])},
         {overlapping, elf([{1, 0, (1 bsl 64) - 8, 64}])},
         {overlapping, elf([{1, (1 bsl 63) - 1, ?AT, 64}])},
         {notes, elf([{4, 0, 0, 17 bsl 20}])},
         {notes, elf([{4, 64, 0, 9 bsl 20}, {4, 64, 0, 9 bsl 20}])},
         %% notes without end, without bytes, and one of all
         {no_auxv, with_notes(binary:copy(<<0:96>>, Many div 12), ?AT, <<"x">>)},
         {no_auxv, with_notes(<<5:32/little, 16#FFFFFFFF:32/little, 6:32/little, "CORE">>, ?AT, <<"x">>)},
         {no_auxv, with_notes(note(6, binary:copy(<<3:64/little, 1:64>>, Many div 16 - 2)), ?AT, <<"x">>)},
         %% mapped files
         {notes, with_notes([auxv(Stack), Names(1 bsl 40, <<>>)], ?AT, <<"x">>)},
         {notes, with_notes([auxv(Stack), Names(1000, binary:copy(<<0:192>>, 999))], ?AT, <<"x">>)},
         {notes, with_notes([auxv(Stack), Names(2, <<0:384, "no end">>)], ?AT, <<"x">>)},
         {ok, with_notes([auxv(Stack), Names(200000, binary:copy(<<0:192, 0:8>>, 200000))], ?AT, <<"x">>)},
         %% words without end, without bytes, and of one byte
         {ok, with_notes(auxv(Stack), ?AT, binary:copy(<<"x">>, 8 bsl 20))},
         {ok, with_notes(auxv(Stack), ?AT, binary:copy(<<0>>, 8 bsl 20))},
         {ok, with_notes(auxv(Stack), ?AT, binary:copy(<<"-boot_var", 0>>, (8 bsl 20) div 10 + 1))},
         {ok, with_notes(auxv(Stack), ?AT, binary:copy(<<"--", 0, "-root", 0>>, (8 bsl 20) div 9 + 1))},
         {ok, with_notes(auxv([{3, ?AT}, {5, 64}, {15, ?AT + 9}, {31, ?AT + 5}]), ?AT,
                         binary:copy(<<4:32/little, 0:32, 0:64, 0:64, 0:64, 65536:64/little, 0:128>>, 64))}],
    File = filename:join(get(dir, Config), "file"),
    _ = [begin
             ok = file:write_file(File, Bytes),
             {I, Expected} = {I, case sonde_core_file:open(File) of
                                     {ok, Core} -> looked_at(Core), ok;
                                     {error, Why} -> [_ | _] = text(sonde_core_file:errors(Why)), Why
                                 end},
             {error, Said} = sonde_cli_core:target(File, #{}),
             [_ | _] = text(Said)
         end || {I, {Expected, Bytes}} <- lists:enumerate(Files)],
    %% what a core file begins with, with some bytes changed
    {ok, F} = file:open(get(core, Config), [read, raw, binary]),
    {ok, Head} = file:pread(F, 0, 65536),
    ok = file:close(F),
    _ = [begin
             ok = file:write_file(File, mutated(rand:uniform(8), Head)),
             case sonde_core_file:open(File) of
                 {ok, Core} -> looked_at(Core);
                 {error, Why} -> [_ | _] = text(sonde_core_file:errors(Why))
             end
         end || _ <- lists:seq(1, 500)].

mutated(0, Bytes) -> Bytes;
mutated(N, Bytes) ->
    At = rand:uniform(min(byte_size(Bytes), case rand:uniform(2) of 1 -> 256; 2 -> 65536 end)) - 1,
    <<Before:At/binary, _, After/bits>> = Bytes,
    mutated(N - 1, <<Before/binary, (rand:uniform(256) - 1), After/bits>>).

looked_at(Core) ->
    true = length(sonde_core_file:words(Core)) =< 4096,
    _ = sonde_core_file:build_id(Core),
    _ = sonde_core_file:program(Core),
    true = is_list(sonde_core_file:libraries(Core)),
    true = sonde_core_file:missing(Core) >= 0.

text(Said) -> unicode:characters_to_list(Said).

files_that_are_none(Config) ->
    Dir = get(dir, Config),
    File = filename:join(Dir, "file"),
    Zstd = <<16#28, 16#B5, 16#2F, 16#FD, 0:1000>>,
    _ = [begin
             ok = file:write_file(File, Bytes),
             {1, "", Said} = sonde(["--core ", File, " native"], Config),
             {Bytes, true} = {Bytes, outside_SUITE:is_one_line(Said) andalso has(Part, Said)}
         end || {Bytes, Part} <- [{<<>>, "not a core file"}, {<<"text">>, "not a core file"}, {Zstd, "compressed"},
                                  {element(2, file:read_file("/bin/sh")), "not a core file"}]],
    _ = [{1, "", _} = sonde(["--core ", Path, " native"], Config) || Path <- [Dir, "/dev/null", File ++ ".none"]],
    %% one that is not of a node
    case way() of
        abort ->
            Port = open_port({spawn_executable, "/bin/sh"}, [{args, ["-c", "ulimit -c unlimited; exec sleep 60"]}, {cd, Dir}]),
            OsPid = outside_SUITE:os_pid(Port),
            ok = sonde_test:until(sleeps, fun() -> file:read_file("/proc/" ++ OsPid ++ "/comm") =:= {ok, <<"sleep\n">>} end),
            Core = aborted(OsPid, fun() -> ok end, Dir),
            {1, "", Other} = sonde(["--core ", Core, " native"], Config),
            true = has("is not of an Erlang node", Other);
        gcore ->
            ok
    end.

%% ---- what the core file of a node says

rows_are_those_of_the_node(Config) ->
    Told = get(told, Config),
    opened(get(core, Config), fun(Answers) ->
        0 = rows_are_right(Told, Answers),
        {ok, [], _} = Answers(proc_count, [memory, 0]),
        {error, {badarg, proc_count}} = Answers(proc_count, [status, 5])
    end).

names_are_those_of_the_node(Config) ->
    #{sites := Sites} = get(told, Config),
    opened(get(core, Config), fun(Answers) ->
        {ok, Rows, _} = Answers(proc_count, [memory, 100000]),
        _ = [{Pid, Site} = {Pid, [outside_rows_SUITE:as_atom(A) || A <- Attrs]}
             || {Pid, Site} <- Sites, {P, _, Attrs} <- Rows, P =:= Pid],
        [] = [Pid || {Pid, _} <- Sites] -- [Pid || {Pid, _, _} <- Rows]
    end).

%% It may have been on none just when the node died. Nothing is known of how long it was there.
schedulers_are_those_of_the_node(Config) ->
    #{spins := Pid, schedulers := Counts} = get(told, Config),
    opened(get(core, Config), fun(Answers) ->
        {ok, Rows, _} = Answers(schedulers, []),
        Counts = [length([No || {{K, No}, _, _} <- Rows, K =:= Kind]) || Kind <- [normal, dirty_cpu, dirty_io]],
        [] = [Row || {_, _, Attrs} = Row <- Rows, lists:keymember(held_ms, 1, Attrs)],
        true = lists:all(fun({_, Queue, _}) -> is_integer(Queue) end, Rows),
        true = 1 >= length([spins || {_, _, [{pid, P}, Name | _]} <- Rows, P =:= Pid,
                                     sonde_spins =:= outside_rows_SUITE:as_atom(Name)])
    end).

stacks_are_those_of_the_node(Config) ->
    #{stacks := Inside} = get(told, Config),
    opened(get(core, Config), fun(Answers) ->
        {ok, Rows, _} = Answers(stacks, [1000]),
        Passing = fun(Stack) -> [M || {M, _, _} <- Stack, lists:member(M, [peer, sonde_helper, user, group, outside_rows_SUITE])] =/= [] end,
        %% one that has nothing to do for a while may hibernate meanwhile
        Resting = fun({gen_server, Loop, _}) when Loop =:= loop; Loop =:= loop_hibernate -> {gen_server, loop};
                     (F) -> F
                  end,
        Counts = fun(All) -> maps:groups_from_list(fun({Named, _}) -> lists:map(Resting, Named) end, fun({_, Count}) -> Count end,
                                                   [{Named, Count} || {Stack, Count, _} <- All,
                                                                      Named <- [[outside_rows_SUITE:as_atom_function(F) || F <- Stack]],
                                                                      not Passing(Named)]) end,
        Sums = fun(All) -> maps:map(fun(_, Each) -> lists:sum(Each) end, Counts(All)) end,
        {Same, Same} = {Sums(Inside), Sums(Rows)},
        {_, true} = {Same, map_size(Same) > 5},
        [40] = outside_rows_SUITE:waiting(Rows)
    end).

a_heap_is_that_of_the_node(Config) ->
    #{pids := Pids, heap := Inside} = get(told, Config),
    opened(get(core, Config), fun(Answers) ->
        {ok, Outside, _} = Answers(heap, [lists:last(Pids)]),
        Same = [blocks, reachable, garbage, roots],
        {Here, Here} = {maps:with(Same, Inside), maps:with(Same, Outside)},
        true = map_get(reachable, Here) > 1000,
        {error, {not_there, flat_size}} = Answers(flat_size, [hd(Pids)])
    end).

ours(Groups) ->
    Keys = [{sonde_server_helper, init, 1}, {outside_calls_SUITE, wait, 1}, outside_group],
    [Group || {Key, _, _} = Group <- Groups, lists:member(Key, Keys)].

one_process_is_that_of_the_node(Config) ->
    #{full := Full, looks := Looks, info := Info, rows := Rows} = get(told, Config),
    opened(get(core, Config), fun(Answers) ->
        _ = [begin
                 {ok, Top, _} = Answers(heap_top, [Pid, 10]),
                 {ok, Mailbox, _} = Answers(mailbox, [Pid, 10]),
                 {ok, Slices, _} = Answers(bin_slices, [Pid]),
                 Look = {Pid, outside_calls_SUITE:as_text(Top), maps:without([content, constants], Mailbox), Slices}
             end || {Pid, _, _, _} = Look <- Looks],
        _ = [begin
                 {ok, Sections, _} = Answers(info, [Pid]),
                 Known = maps:from_list(outside_calls_SUITE:atoms(lists:append([Items || {_, Items} <- Sections]))),
                 Here = maps:without([reductions, catchlevel], Said),
                 {Pid, Here} = {Pid, maps:with(maps:keys(Here), Known)}
             end || {Pid, Said} <- Info],
        _ = [begin
                 {ok, All, _} = Answers(Function, [100000]),
                 Here = lists:sort([{Pid, Value} || {Pid, Value, _} <- All, lists:member(Pid, Full)]),
                 {Function, Here} = {Function, lists:sort(Inside)}
             end || {Function, Inside} <- Rows],
        {error, {no_name, "nobody"}} = Answers(heap, [{process, "nobody"}])
    end).

%% In the node: binaries of a size that is known, in one process, in two, and in one and a table.
binaries() ->
    Binary = fun(MB) -> binary:copy(<<MB>>, MB bsl 20) end,
    Shared = Binary(7),
    Both = Binary(5),
    Owner = sonde_test:hold(fun() ->
                                Tab = ets:new(core_binaries, [public]),
                                true = ets:insert(Tab, [{both, Both}, {table, Binary(3)}]),
                                {Binary(11), Shared, Both}
                            end),
    Other = sonde_test:hold(fun() -> Shared end),
    true = erlang:garbage_collect(),
    [Owner, Other].

%% What the node says itself, within what this call moves.
-define(MOVES, (1 bsl 20)).

binaries_are_those_of_the_node(Config) ->
    #{account := Inside} = get(told, Config),
    opened(get(core, Config), fun(Answers) ->
        {ok, #{not_known := NotKnown} = Outside, _} = Answers(bin_account, []),
        [] = [total, ets, literals] -- NotKnown,
        [] = [Key || Key <- NotKnown, is_map_key(Key, Outside)],
        _ = [{Key, Bytes, Known, true} = {Key, Bytes, Known, abs(Bytes - Known) < ?MOVES}
             || Key <- [exclusive, shared, queues], #{Key := Known} <- [Inside], #{Key := Bytes} <- [Outside]],
        true = map_get(exclusive, Outside) >= 11 bsl 20,
        true = map_get(shared, Outside) >= 7 bsl 20,
        %% held by a process and a table: there is a reference that was not found
        #{mixed := Mixed, elsewhere := Elsewhere} = Inside,
        true = Mixed >= 5 bsl 20,
        #{elsewhere := NotFound} = Outside,
        {_, _, true} = {NotFound, Inside, abs(NotFound - Mixed - Elsewhere) < ?MOVES}
    end).

%% To the byte with content, but for the names of functions. Without it, the same objects are in it.
dumps_are_those_of_the_node(Config) ->
    #{full := Full, dumps := Dumps} = get(told, Config),
    true = length(Full) =:= length(Dumps),
    Compare = fun(Content, Same) ->
                  twin([], fun(Twin) ->
                      {ok, Core} = sonde_core_file:open(get(core, Config)),
                      ok = sonde_peer_helper:call(Twin, sonde_outside, open, [Core, Content]),
                      _ = [begin
                               File = filename:join(get(dir, Config), lists:concat(["dump", Content, I])),
                               {ok, Written, _} = outside_rows_SUITE:outside(Twin, dump, [Pid, File]),
                               {Pid, Counts, Counts} = {Pid, maps:with([nodes, edges], Inside), maps:with([nodes, edges], Written)},
                               {ok, Outside} = file:read_file(File),
                               ok = Same(Pid, Bytes, Outside),
                               {error, eexist} = element(2, outside_rows_SUITE:outside(Twin, dump, [Pid, File]))
                           end || {I, {Pid, {Inside, Bytes}}} <- lists:enumerate(Dumps)]
                  end)
              end,
    Compare(true, fun(Pid, Inside, Outside) ->
        [] = [{Pid, A, B} || {A, B} <- lists:zip(lines(Inside), lines(Outside)), A =/= B,
                             binary:match(A, <<"\"fun ">>) =:= nomatch],
        ok
    end),
    [{Deep, _} | _] = Dumps,
    %% its keys are the numbers from 1 to 20, which are content
    Compare(false, fun(Pid, Inside, Outside) ->
        Named = fun(Bytes) -> length(binary:matches(Bytes, <<"\n,1,13,">>)) end,
        {_, true} = {Pid, Pid =/= Deep orelse Named(Inside) > Named(Outside)},
        ok
    end).

lines(Bytes) -> binary:split(Bytes, <<"\n">>, [global]).

%% In the node.
dumped(Pid) ->
    File = string:trim(os:cmd("mktemp -u")),
    {ok, Written} = sonde_heap:dump(Pid, File),
    {ok, Bytes} = file:read_file(File),
    ok = file:delete(File),
    {Pid, {Written, Bytes}}.

a_diagnosis_is_that_of_the_node(Config) ->
    #{waits := [{End, _, _}, {Middle, _, _}], heap := _} = get(told, Config),
    opened(get(core, Config), fun(Answers) ->
        {ok, #{suspects := Suspects, not_looked_at := Not, ms := 0}, _} = Answers(diagnose, []),
        %% 300 callers, whose requests lie unread; the node itself says the same
        [#{evidence := Evidence}] = [S || #{kind := bottleneck, what := What} = S <- Suspects, What =:= Middle],
        300 = proplists:get_value(waiters, Evidence),
        [] = [S || #{what := What} = S <- Suspects, What =:= End],
        one_moment = proplists:get_value(growth, Not),
        %% mailboxes of 1000 to 6000 messages
        #{sites := Sites} = get(told, Config),
        Long = [Pid || {Pid, _} <- Sites, lists:keymember(Pid, 1, Sites)],
        true = length([Pid || #{kind := mailbox, what := Pid} <- Suspects, lists:member(Pid, Long)]) >= 5
    end).

waits_and_groups_are_those_of_the_node(Config) ->
    #{waits := Waits, groups := Groups} = get(told, Config),
    opened(get(core, Config), fun(Answers) ->
        {ok, Rows, _} = Answers(waits, [1000]),
        Counts = fun(All) -> [{Pid, N} || {Pid, N, _} <- All, lists:keymember(Pid, 1, Waits)] end,
        [{_, 301}, {Middle, 300}] = Inside = Counts(Waits),
        Inside = Counts(Rows),
        {ok, {registered_name, outside_middle}, _} =
            outside_calls_SUITE:atoms(Answers(info, [{process, "outside_middle"}, registered_name])),
        {ok, {_, waiting}, _} = Answers(info, [Middle, status]),
        _ = [begin
                 {ok, All, _} = Answers(proc_group, [By, [total_heap_size, message_queue_len]]),
                 Here = [{outside_calls_SUITE:atoms(Key), N, Totals} || {Key, N, Totals} <- All],
                 {By, Said} = {By, ours(Here)}
             end || {By, Said} <- Groups],
        %% started by no proc_lib, it has the key all the same; also those that ran have reductions
        {ok, All, #{left_out := 0}} = Answers(proc_group, [initial_call, [reductions]]),
        {ok, Each, #{left_out := 0}} = Answers(proc_count, [reductions, 100000]),
        {N, N} = {length(Each), lists:sum([Count || {_, Count, _} <- All])},
        [1] = [One || {Key, One, _} <- All, outside_calls_SUITE:atoms(Key) =:= {application_controller, start, 1}]
    end).

%% It may have been at rest just when the node died.
a_process_that_ran_has_a_row_or_is_named(Config) ->
    #{spins := Pid} = get(told, Config),
    opened(get(core, Config), fun(Answers) ->
        {ok, Rows, #{left_out := N, missed := #{pids := Missed}}} = Answers(proc_count, [memory, 100000]),
        true = lists:keymember(Pid, 1, Rows) =/= lists:keymember(Pid, 1, Missed),
        true = lists:keymember(Pid, 1, Rows) orelse N >= 1,
        {ok, All, _} = Answers(proc_count, [reductions, 100000]),
        [[sonde_spins, {current_function, _}, {initial_call, {outside_rows_SUITE, spins, 0}}]] =
            [lists:map(fun outside_rows_SUITE:as_atom/1, Attrs) || {P, _, Attrs} <- All, P =:= Pid]
    end).

%% And like the living node itself, from outside.
a_debuggers_core_file_is_read_alike(Config) ->
    case os:find_executable("gcore") of
        false ->
            {skip, "not installed: gdb"};
        _ ->
            Args = ["+MIscs", "32", "+A", "1"],
            Compare = fun(Of) ->
                Told = told(Of),
                OsPid = Of(os, getpid, []),
                Living = twin([], fun(Twin) ->
                    ok = outside_rows_SUITE:open(Twin, Of),
                    resting(Told, fun(Function, A) -> outside_rows_SUITE:outside(Twin, Function, A) end)
                end),
                Core = by_debugger(OsPid, get(dir, Config)),
                Dead = opened(Core, fun(Answers) ->
                    0 = rows_are_right(Told, Answers),
                    resting(Told, Answers)
                end),
                ok = file:delete(Core),
                {Living, Living} = {Living, Dead}
            end,
            sonde_peer_helper:with(shipped, Args, fun(Target) ->
                Compare(fun(M, F, A) -> sonde_peer_helper:call(Target, M, F, A) end)
            end)
    end.

resting(#{pids := Pids}, Answers) ->
    [{Attr, lists:sort([Row || {Pid, _, _} = Row <- element(2, Answers(proc_count, [Attr, 100000])),
                               lists:member(Pid, Pids)])} || Attr <- sonde_attr:native()].

%% ---- what is not in the file

%% Some of the large parts are left out, one at a time. Where the node can be read at all, all that is said is true.
without_one_of_its_parts(Config) ->
    Told = get(told, Config),
    Copy = copy(Config),
    {ok, #{segments := Segments}} = sonde_core_file:open(Copy),
    All = [{Start, Size} || <<Start:64/native, Size:64/native, _:64>> <= Segments, Size >= 256 * 1024],
    Large = lists:usort(lists:sublist(All, 4) ++ lists:nthtail(max(0, length(All) - 8), All)),
    {ok, File} = file:open(Copy, [read, write, raw, binary]),
    {ok, <<Offset:64/little>>} = file:pread(File, 32, 8),
    {ok, <<Count:16/little>>} = file:pread(File, 56, 2),
    Found = [begin
                 At = Offset + 56 * I + 32,
                 ok = file:pwrite(File, At, <<0:64>>),
                 How = refused_or_right(Copy, Told),
                 ok = file:pwrite(File, At, <<Size:64/little>>),
                 How
             end || I <- lists:seq(0, Count - 1),
                    {ok, <<1:32/little, _:96, Start:64/little, _:64, Size:64/little>>} <- [file:pread(File, Offset + 56 * I, 40)],
                    lists:member({Start, Size}, Large)],
    ok = file:close(File),
    %% some have nothing of the processes, some have processes, and some the node's own variables
    ok = sonde_test:figures("~p~n", [Found]),
    true = lists:member({right, 0}, Found),
    true = [N || {right, N} <- Found, N > 0] =/= [],
    true = [Why || {refused, Why} <- Found] =/= [].

refused_or_right(Path, Told) ->
    twin([], fun(Twin) ->
        case open(Twin, Path) of
            ok ->
                Answers = fun(Function, Args) -> outside_rows_SUITE:outside(Twin, Function, Args) end,
                {ok, _, _} = Answers(stacks, [1000]),
                %% suspects are known among those alone that are in it
                _ = case Answers(diagnose, []) of
                        {ok, #{read := Read, counts := #{processes := {Count, _}}}, #{left_out := Left}} ->
                            {_, _, Read} = {Count, Left, max(0, Count - Left)};
                        {error, _} -> refused
                    end,
                {right, rows_are_right(Told, Answers)};
            {error, Why} ->
                true = lists:member(Why, [no_build_id, process_table, process_limit, atoms_there, processes]),
                [_ | _] = text(sonde_cli_core:errors(Why)),
                {refused, Why}
        end
    end).

cut_off(Config) ->
    Told = get(told, Config),
    Copy = copy(Config),
    {ok, #file_info{size = Whole}} = file:read_file_info(Copy),
    Sizes = [Whole * N div 100 || N <- [95, 70, 40, 20, 8, 2]] ++ [100000, 4096, 100, 0],
    _ = [begin
             ok = cut(Copy, Size),
             case sonde_core_file:open(Copy) of
                 {ok, Core} ->
                     {Size, Missing} = {Size, sonde_core_file:missing(Core)},
                     true = Missing > 0,
                     [Said] = sonde_cli_core:said(Core),
                     true = has("is cut off", text(Said)),
                     refused_or_right(Copy, Told);
                 {error, Why} ->
                     {refused, Why}
             end
         end || Size <- Sizes, Missing <- [Whole - Size]],
    {1, "", _} = sonde(["--core ", Copy, " native"], Config).

%% A name, group or stack that a cut-off file has is that of the whole file, or it is reported as not known.
cut_off_names_are_right_or_not_known(Config) -> kernels_or(fun each_is_refused/1, fun cut_off_names/1, Config).

%% A debugger writes its notes last.
kernels_or(Debuggers, Kernels, Config) ->
    case way() of
        gcore -> Debuggers(Config);
        abort -> Kernels(Config)
    end.

each_is_refused(Config) ->
    Copy = copy(Config),
    {ok, #file_info{size = Whole}} = file:read_file_info(Copy),
    {ok, File} = file:open(Copy, [read, raw, binary]),
    {ok, <<Sections:64/little>>} = file:pread(File, 40, 8),
    ok = file:close(File),
    Ends = [begin
                ok = cut(Copy, Size),
                {Size, {error, {no_notes, Missing}}} = {Size, sonde_core_file:open(Copy)},
                Size + Missing
            end || Size <- parts(Whole)],
    %% What is not missed: the names of the sections and their headers, which come last.
    [End] = lists:usort(Ends),
    {true, _, _} = {End =< Sections andalso Sections - End < 65536, Sections, End},
    ok.

cut(Path, Size) ->
    {ok, File} = file:open(Path, [read, write, raw]),
    {ok, Size} = file:position(File, Size),
    ok = file:truncate(File),
    ok = file:close(File).

parts(Whole) -> [Whole * N div 200 || N <- [197, 190, 180, 165, 150]].

cut_off_names(Config) ->
    Copy = copy(Config),
    {ok, #file_info{size = Whole}} = file:read_file_info(Copy),
    All = opened(Copy, fun named_of/1),
    #{rows := Rows, names := Names, groups := Groups, stacks := Stacks} = All,
    {_, true} = {All, map_size(Names) > 10 andalso map_size(Stacks) > 5},
    [] = [Key || {Key, _} <- maps:to_list(Groups), element(2, Key) =:= not_known],
    Seen = fun(Size) ->
                "" = os:cmd(["cp --sparse=always ", get(core, Config), " ", Copy]),
                ok = cut(Copy, Size),
                twin([], fun(Twin) ->
                    case open(Twin, Copy) of
                        ok ->
                            Answers = fun(Function, Args) -> outside_rows_SUITE:outside(Twin, Function, Args) end,
                            Cut = named_of(Answers),
                            #{rows := CutRows, groups := CutGroups, stacks := CutStacks} = Cut,
                            Wrong = [{Pid, Key, Value, Other}
                                     || {Pid, Items} <- maps:to_list(CutRows), {Key, Value} <- maps:to_list(Items),
                                        Other <- [maps:get(Key, maps:get(Pid, Rows, #{}), none)],
                                        Value =/= not_known, Value =/= Other],
                            {Size, []} = {Size, Wrong},
                            More = [{Key, N} || {Key, N} <- maps:to_list(CutGroups) ++ maps:to_list(CutStacks),
                                                element(2, Key) =/= not_known,
                                                N > maps:get(Key, maps:merge(Groups, Stacks), 0)],
                            {Size, []} = {Size, More},
                            %% none is left out
                            {Size, _, true} = {Size, Cut, all_counted(All, Cut)},
                            Lost = [Name || {Name, Pid} <- maps:to_list(Names),
                                            case Answers(info, [{process, atom_to_list(Name)}, registered_name]) of
                                                {ok, {registered_name, Text}, _} -> outside_rows_SUITE:as_atom(Text) =/= Name;
                                                {error, {name_not_known, _}} -> false;
                                                {error, {no_process, Pid}} -> false;
                                                _ -> true
                                            end],
                            {Size, []} = {Size, Lost},
                            length([Key || {Key, _} <- maps:to_list(CutGroups), element(2, Key) =:= not_known]);
                        {error, _} ->
                            refused
                    end
                end)
           end,
    Lacking = [{Size, Seen(Size)} || Size <- parts(Whole)],
    ok = sonde_test:figures("~p~n", [Lacking]),
    case lists:any(fun({_, N}) -> is_integer(N) andalso N > 0 end, Lacking) of
        true -> ok;
        false -> between(lists:min([Size || {Size, 0} <- [{Whole, 0} | Lacking]]),
                         lists:max([Size || {Size, refused} <- [{0, refused} | Lacking]]), Seen, 12)
    end.

%% Between a file that has all names, and one that is refused.
between(_, _, _, 0) ->
    {comment, "a file that lacks some names was not found"};
between(Has, Refused, Seen, Times) ->
    Size = (Has + Refused) div 2,
    case Seen(Size) of
        0 -> between(Size, Refused, Seen, Times - 1);
        refused -> between(Has, Size, Seen, Times - 1);
        _ -> ok
    end.

%% What it says of names: by process, how many processes are in which group, and which stacks there are.
named_of(Answers) ->
    By = [registered_name, current_function, initial_call],
    {ok, Rows, #{left_out := Out}} = Answers(proc_count, [reductions, 100000]),
    Items = maps:from_list([{Pid, row_of([outside_rows_SUITE:as_atom(A) || A <- Attrs])} || {Pid, _, Attrs} <- Rows]),
    Groups = [{Key, outside_calls_SUITE:atoms(Answers(proc_group, [Key, [reductions]]))} || Key <- By],
    {ok, Stacks, #{left_out := NoStack}} = Answers(stacks, [100000]),
    #{rows => Items,
      names => maps:from_list([{Name, Pid} || {Pid, #{name := Name}} <- maps:to_list(Items), is_atom(Name), Name =/= none,
                                              Name =/= not_known]),
      groups => maps:from_list([{{Key, Group}, N} || {Key, {ok, All, _}} <- Groups, {Group, N, _} <- All]),
      stacks => maps:from_list([{{stack, [outside_rows_SUITE:as_atom_function(F) || F <- Stack]}, N} || {Stack, N, _} <- Stacks]),
      sums => [{Key, lists:sum([N || {_, N, _} <- All]) + Left} || {Key, {ok, All, #{left_out := Left}}} <- Groups]
              ++ [{rows, length(Rows) + Out}, {stack, lists:sum([N || {_, N, _} <- Stacks]) + NoStack}]}.

row_of([Name | Attrs]) when not is_tuple(Name) -> (row_of(Attrs))#{name := Name};
row_of(Attrs) -> (maps:from_list(Attrs))#{name => none}.

all_counted(#{sums := Sums}, #{sums := Cut}) ->
    lists:all(fun({{Key, N}, {Key, M}}) -> M >= N end, lists:zip(Sums, Cut)).

%% It has its notes at the end.
a_debuggers_file_cut_off(Config) ->
    case os:find_executable("gcore") of
        false ->
            {skip, "not installed: gdb"};
        _ ->
            sonde_peer_helper:with(shipped, ["+MIscs", "32", "+A", "1"], fun(Target) ->
                Core = by_debugger(sonde_peer_helper:call(Target, os, getpid, []), get(dir, Config)),
                {ok, #file_info{size = Whole}} = file:read_file_info(Core),
                {ok, _} = sonde_core_file:open(Core),
                {ok, File} = file:open(Core, [read, write, raw]),
                {ok, _} = file:position(File, Whole div 2),
                ok = file:truncate(File),
                ok = file:close(File),
                {error, {no_notes, Missing}} = sonde_core_file:open(Core),
                %% behind the notes there is only what a debugger wants to have
                {_, _, true} = {Missing, Whole, Missing =< Whole - Whole div 2 andalso Missing > Whole div 4},
                {1, "", Said} = sonde(["--core ", Core, " native"], Config),
                true = outside_SUITE:is_one_line(Said) andalso has(integer_to_list(Missing) ++ " bytes are missing", Said)
            end)
    end.

%% In the node.
secret() ->
    sonde_test:hold(fun() -> _ = process_flag(sensitive, true), secret end).

stopped() ->
    Pid = sonde_test:hold(fun() -> stopped end),
    true = erlang:suspend_process(Pid),
    receive never -> Pid end.

%% By its state, and by whether it is in the file.
why_a_process_is_not_read(Config) ->
    {Core, {Secret, Stopped}} =
        of_node([], get(dir, Config), abort, default,
                fun(Of) ->
                    Pid = Of(?MODULE, secret, []),
                    %% the VM resumes it if this one ends
                    Suspender = Of(erlang, spawn, [?MODULE, stopped, []]),
                    ok = sonde_test:until(suspends, fun() -> Of(erlang, process_info, [Suspender, suspending]) =/= {suspending, []} end),
                    {suspending, [{Other, _, _}]} = Of(erlang, process_info, [Suspender, suspending]),
                    ok = Of(sonde_test, settle, [[Pid]]),
                    {Pid, Other}
                end),
    Why = fun(Command, Pid) ->
              {0, Json, _} = sonde(["--core ", Core, " ", Command, " --json"], Config),
              #{<<"missed">> := #{<<"pids">> := Missed}} = outside_SUITE:read(Json),
              [Word || #{<<"pid">> := P, <<"why">> := Word} <- Missed, P =:= list_to_binary(pid_to_list(Pid))]
          end,
    [<<"waits, but not known from outside">>] = Why("proc_count memory 1", Secret),
    [<<"suspended">>] = Why("waits 1", Stopped),
    [] = Why("proc_count memory 1", Stopped),
    %% this is known without its dictionary
    [] = Why("proc_group initial_call reductions", Secret).

%% The stack is at the end of a file of the kernel. The beginning of the command line is elsewhere.
cut_off_before_the_stack(Config) -> kernels_or(fun each_is_refused/1, fun without_the_stack/1, Config).

without_the_stack(Config) ->
    Copy = copy(Config),
    {ok, #{segments := Segments, auxv := #{31 := Name}} = Whole} = sonde_core_file:open(Copy),
    [Offset] = [At || <<Start:64/native, Size:64/native, At:64/native>> <= Segments, Name >= Start, Name < Start + Size],
    {ok, []} = sonde_core_file:flags(Whole#{line => <<"/usr/bin/beam.smp -- -root x">>}),
    {ok, [<<"-P">>, <<"9">>]} = sonde_core_file:flags(Whole#{line => <<"beam.smp -P 9 -- -root">>}),
    %% it may go on
    none = sonde_core_file:flags(Whole#{line => <<"/usr/bin/beam.smp -P 9">>}),
    none = sonde_core_file:flags(Whole#{line => <<"/usr/bin/beam.smp -P 9 --">>}),
    {ok, Flags} = sonde_core_file:flags(Whole),
    {Flags, _} = lists:splitwith(fun(Word) -> Word =/= <<"--">> end, tl(sonde_core_file:words(Whole))),
    ok = cut(Copy, Offset),
    {0, Json, Said} = sonde(["--core ", Copy, " proc_count memory 100000 --json"], Config),
    true = has("is cut off", Said),
    #{<<"rows">> := Rows} = outside_SUITE:read(Json),
    true = length(Rows) >= 40.

%% Without the memory that processes share, in which the code lies: the numbers are there, the functions are not.
without_code(Config) ->
    {Core, Told} = of_node([], get(dir, Config), abort, "0x31", fun told/1),
    opened(Core, fun(Answers) ->
        0 = rows_are_right(Told, Answers),
        {ok, [{_, _, _} | _] = Rows, _} = Answers(proc_count, [memory, 100]),
        [_ | _] = [Pid || {Pid, _, Attrs} <- Rows, {current_function, not_known} <- Attrs],
        [_ | _] = [Pid || {Pid, _, Attrs} <- Rows, {initial_call, F} <- Attrs, is_tuple(F)],
        %% a stack whose functions are not known is none that is empty
        #{stacks := Inside, pids := [Pid | _]} = Told,
        {ok, Stacks, #{left_out := Unread, missed := #{pids := Missed}}} = Answers(stacks, [1000]),
        [] = [Stack || {[_ | _] = Stack, _, _} <- Stacks],
        {_, true} = {Unread, Unread >= lists:sum([N || {[_ | _], N, _} <- Inside]) - 10},
        [_ | _] = [P || {P, no_code} <- Missed],
        {ok, {current_stacktrace, not_known}, _} = Answers(info, [Pid, current_stacktrace]),
        {error, no_code} = Answers(waits, [5]),
        {error, no_code} = Answers(diagnose, [])
    end),
    _ = [begin
             {Is, _, Said} = sonde(["--core ", Core, " ", Call], Config),
             {Call, Code, true} = {Call, Is, has("coredump_filter without bit 1", Said) andalso not has("did not find out", Said)}
         end || {Call, Code} <- [{"stacks 5", 0}, {"proc_count memory 1", 0}, {"waits 5", 1}]].

%% Without the memory of its own there is no stack, and so no command line.
without_memory(Config) ->
    {Core, _} = of_node([], get(dir, Config), abort, "0x32", fun(_) -> ok end),
    {1, "", Said} = sonde(["--core ", Core, " native"], Config),
    true = outside_SUITE:is_one_line(Said)
        andalso (has("no command line", Said) orelse has("not as expected, or not in it", Said))
        andalso has("coredump_filter without bit 0", Said),
    twin([], fun(Twin) -> {error, process_table} = open(Twin, Core) end).

without_build_id(Config) ->
    {Core, _} = of_node([], get(dir, Config), abort, "0x23", fun(_) -> ok end),
    case sonde_core_file:open(Core) of
        {ok, Opened} ->
            case sonde_core_file:build_id(Opened) of
                none ->
                    {1, "", Said} = sonde(["--core ", Core, " native"], Config),
                    true = outside_SUITE:is_one_line(Said) andalso has("no build id", Said),
                    twin([], fun(Twin) -> {error, no_build_id} = open(Twin, Core) end);
                {ok, _} ->
                    gcore = way() % it does not ask for that bit
            end
    end.

another_build_is_refused(Config) ->
    Copy = copy(Config),
    {ok, Core} = sonde_core_file:open(Copy),
    {ok, Id} = sonde_core_file:build_id(Core),
    {ok, File} = file:open(Copy, [read, write, raw, binary]),
    {ok, Head} = file:pread(File, 0, 1 bsl 20),
    [{At, _} | _] = binary:matches(Head, Id),
    ok = file:pwrite(File, At, <<(binary:first(Id) bxor 1)>>),
    ok = file:close(File),
    {1, "", Said} = sonde(["--core ", Copy, " native"], Config),
    true = outside_SUITE:is_one_line(Said) andalso has("is another build than", Said)
        andalso has(binary_to_list(string:lowercase(binary:encode_hex(Id))), Said),
    %% not even if the trusted caller says so
    {1, "", Said} = sonde(["--core ", Copy, " native --trust"], Config),
    twin([], fun(Twin) ->
        {error, other_program} = open(Twin, Copy),
        %% it can still be aimed
        ok = open(Twin, get(core, Config))
    end).

another_process_limit_is_refused(Config) ->
    twin(["+P", "500000"], fun(Twin) -> {error, process_limit} = open(Twin, get(core, Config)) end).

written_meanwhile(Config) ->
    Copy = copy(Config),
    twin([], fun(Twin) ->
        Call = fun(M, F, A) -> sonde_peer_helper:call(Twin, M, F, A) end,
        {ok, Before} = sonde_core_file:open(Copy),
        ok = file:write_file(Copy, "x", [append]),
        {error, changed} = Call(sonde_outside, open, [Before]),
        {ok, Core} = sonde_core_file:open(Copy),
        ok = Call(sonde_outside, open, [Core]),
        true = Call(sonde_outside, is_there, []),
        {ok, [_ | _], _} = outside_rows_SUITE:outside(Twin, proc_count, [memory, 5]),
        ok = file:write_file(Copy, "x", [append]),
        false = Call(sonde_outside, is_there, []),
        _ = [{error, no_reader} = outside_rows_SUITE:outside(Twin, F, A)
             || {F, A} <- [{proc_count, [memory, 5]}, {stacks, [5]}, {heap, [hd(map_get(pids, get(told, Config)))]}]],
        true = has("was written", text(sonde_cli_core:errors(no_reader)))
    end).

%% ---- size

%% Ten gigabytes of holes among its parts.
ten_gigabytes_are_not_read(Config) ->
    Copy = copy(Config),
    {ok, File} = file:open(Copy, [read, write, raw, binary]),
    {ok, _} = file:position(File, 10 bsl 30),
    ok = file:truncate(File),
    ok = file:close(File),
    Told = get(told, Config),
    twin([], fun(Twin) ->
        Read = fun() -> sonde_peer_helper:call(Twin, ?MODULE, bytes_read, []) end,
        Before = Read(),
        {ok, Core} = sonde_peer_helper:call(Twin, sonde_core_file, open, [Copy]),
        ok = sonde_peer_helper:call(Twin, sonde_outside, open, [Core]),
        {ok, [_ | _], _} = outside_rows_SUITE:outside(Twin, proc_count, [memory, 5]),
        {ok, [_ | _], _} = outside_rows_SUITE:outside(Twin, stacks, [5]),
        {ok, #{}, _} = outside_rows_SUITE:outside(Twin, heap, [hd(map_get(pids, Told))]),
        Bytes = Read() - Before,
        ok = sonde_test:figures("~p bytes~n", [Bytes]),
        {_, true} = {Bytes, Bytes < 200 bsl 20}
    end).

bytes_read() ->
    {ok, Io} = file:read_file("/proc/self/io"),
    {match, [Bytes]} = re:run(Io, "rchar: ([0-9]+)", [{capture, [1], list}]),
    list_to_integer(Bytes).

no_memory(Config) ->
    with_test_build(fun(Twin) ->
        {ok, Core} = sonde_core_file:open(get(core, Config)),
        Open = fun(N) -> sonde_peer_helper:call(Twin, ?MODULE, open_without_memory, [Core, N]) end,
        {error, no_memory} = Open(1),
        {error, no_memory} = Open(2),
        ok = Open(0)
    end).

open_without_memory(Core, N) ->
    #{status := active} = sonde:native(),
    ok = sonde_nif:fail_alloc(N),
    try sonde_outside:open(Core)
    after ok = sonde_nif:fail_alloc(0)
    end.

with_test_build(Fun) ->
    case sonde_peer_helper:needs_test_build() of
        ok -> sonde_peer_helper:with(test, ["-sonde_twin", "test"], Fun);
        Skip -> Skip
    end.

%% In CPU time, with as many parts as there may be.
no_call_takes_long(Config) ->
    {ok, #{segments := Segments} = Core} = sonde_core_file:open(get(core, Config)),
    Last = binary:part(Segments, byte_size(Segments), -24),
    <<Start:64/native, Size:64/native, _:64>> = Last,
    More = << <<(Start + Size + 16 * I):64/native, 8:64/native, 0:64>>
              || I <- lists:seq(1, (1 bsl 18) - byte_size(Segments) div 24) >>,
    Times = fun F(0) -> []; F(N) ->
        Long = with_test_build(fun(Twin) ->
            sonde_peer_helper:call(Twin, ?MODULE, long_calls, [Core#{segments := <<Segments/binary, More/binary>>}])
        end),
        case Long of
            [_ | _] when N > 1 -> F(N - 1);
            _ -> Long
        end
    end,
    case Times(10) of
        {skip, _} = Skip -> Skip;
        [] -> ok
    end.

long_calls(Core) ->
    #{status := active} = sonde:native(),
    ok = sonde_nif:reset_calls(),
    ok = sonde_outside:open(Core),
    {ok, [{Pid, _, _} | _], _} = sonde_outside:call(proc_count, [memory, 10], #{}),
    {ok, [_ | _], _} = sonde_outside:call(stacks, [10], #{}),
    {ok, #{}, _} = sonde_outside:call(heap, [Pid], #{}),
    slices_SUITE:too_long([{{Name, Arity, Where}, Ns}
                           || {Name, Arity, Where, Ns, Calls} <- sonde_nif:longest_calls(), Calls > 0]).

%% ---- who may

only_this_module_may_aim(Config) ->
    {ok, #{path := Path, seen := Seen, headers := Headers, segments := Segments} = Core} =
        sonde_core_file:open(get(core, Config)),
    badarg = sonde_test:raised(fun() -> sonde_nif:aim_core(Path, Seen, Headers, Segments) end),
    sonde_peer_helper:with(shipped, fun(Node) ->
        {badarg, _} = try sonde_peer_helper:call(Node, sonde_outside, open, [Core]) catch exit:Why -> Why end,
        #{reader := Its} = sonde_peer_helper:call(Node, sonde, native, []),
        false = lists:member(Its, [other, core])
    end).

it_aims_once(Config) ->
    twin([], fun(Twin) ->
        ok = open(Twin, get(core, Config)),
        {badarg, _} = try open(Twin, get(core, Config)) catch exit:Why -> Why end,
        #{reader := core} = sonde_peer_helper:call(Twin, sonde, native, []),
        false = sonde_peer_helper:call(Twin, sonde_content, allowed, [])
    end).

%% ---- the command

command_answers(Config) ->
    Core = get(core, Config),
    #{pids := Pids, values := Told, spins := Spins} = get(told, Config),
    Run = fun(Words) -> sonde(["--core ", Core, " ", Words], Config) end,
    {0, Native, ""} = Run("native --json"),
    #{<<"status">> := <<"active">>} = outside_SUITE:read(Native),
    {0, Json, _} = Run("proc_count memory 100000 --json"),
    #{<<"rows">> := Rows} = outside_SUITE:read(Json),
    Values = maps:from_list([{Pid, Value} || #{<<"pid">> := Pid, <<"value">> := Value} <- Rows]),
    _ = [{Pid, Value} = {Pid, map_get(list_to_binary(pid_to_list(Pid)), Values)}
         || {Pid, Value} <- proplists:get_value(memory, Told)],
    {0, Text, Said} = Run("proc_count message_queue_len 3"),
    true = has(" 6,000 ", Text),
    true = Said =:= "" orelse has(pid_to_list(Spins), Said),
    {0, Stacks, _} = Run("stacks 50"),
    true = has("wait/2", Stacks),
    {0, Lines, _} = Run("stacks 1000 --collapsed"),
    true = has("wait/2 40\n", Lines),
    {0, [_ | _], ""} = Run(["heap '", pid_to_list(hd(Pids)), "'"]),
    {1, "", Gone} = Run("heap 0.30000.0"),
    true = has("no process", Gone),
    {0, Page, Missing} = Run("report -"),
    true = cli_SUITE:is_page(Page) andalso has("missing in the report: tables: ", Missing),
    {2, "", _} = Run("top"),
    [] = filelib:wildcard(filename:join(get(dir, Config), "sonde-twin-*")).

flame_graphs_are_those_of_the_rows(Config) ->
    outside_SUITE:with_xml(fun() ->
        Rows = outside_SUITE:same_stacks(fun(Words) -> sonde(["--core ", get(core, Config), " ", Words], Config) end, Config),
        true = lists:member(40, [N || #{<<"processes">> := N} <- Rows])
    end).

%% Each is on one line, however long, with the path as one word.
its_commands_can_be_pasted(Config) ->
    Long = filename:join(get(dir, Config), "it's  a $HOME of " ++ lists:duplicate(80, $x)),
    ok = file:make_dir(Long),
    Path = filename:join(Long, "core"),
    ok = file:make_symlink(get(core, Config), Path),
    Of = filename:join(get(dir, Config), "core"),
    ok = file:make_symlink(get(core, Config), Of),
    Typed = fun(Name, Options) ->
                {3, Text, _} = sonde(["--core \"", string:replace(Name, "$", "\\$"), "\"", Options, " diagnose"], Config),
                [Command || "    sonde " ++ Command <- string:split(Text, "\n", all)]
            end,
    [First | _] = Plain = Typed(Of, ""),
    true = lists:prefix("--core " ++ Of ++ " ", First),
    false = has("--sysroot", First) orelse has("--trust", First),
    All = Typed(Path, ""),
    {Same, Same} = {length(Plain), length(All)},
    %% with what it took to look at this file at all
    [Again | _] = Typed(Of, " --trust --sysroot /"),
    true = lists:prefix("--core " ++ Of ++ " --sysroot / --trust ", Again),
    _ = [{Command, {0, [_ | _], _}} = {Command, sonde(Command, Config)} || Command <- [Again | All]].

%% Those of the calls on the same file.
a_report_has_the_numbers_of_the_calls(Config) ->
    File = filename:join(get(dir, Config), "report.html"),
    twin([], fun(Twin) ->
        ok = open(Twin, get(core, Config)),
        {ok, #{missing := Missing, incomplete := Cut}} = sonde_peer_helper:call(Twin, sonde_outside_report, write, [File, #{}, #{name => "core", command => "sonde --core x", interval => 0}]),
        Data = report_SUITE:data([{file, File}]),
        ok = outside_calls_SUITE:all_is_said(Missing ++ Cut, Data, [<<"busy">>]),
        ok = outside_calls_SUITE:same_numbers(Data, fun(stacks, [N]) -> outside_rows_SUITE:outside(Twin, stacks, [N], #{depth => 32});
                                                       (Function, Args) -> outside_rows_SUITE:outside(Twin, Function, Args)
                                                    end)
    end).

%% As for a living node.
flags_are_those_of_the_node(Config) ->
    Jit = [Flag || Flag <- ["+JPperf", "true"], not sonde_test:is_interpreter()],
    {Core, Told} = of_node(["+P", "40000" | Jit], get(dir, Config), abort, default, fun(Of) ->
        {Of(os, getpid, []), Of(outside_rows_SUITE, many, [100])}
    end),
    {OsPid, Pids} = Told,
    _ = [file:delete(File) || File <- filelib:wildcard("/tmp/{perf,jit}-" ++ OsPid ++ ".*")],
    {0, Json, _} = sonde(["--core ", Core, " proc_count memory 100000 --json"], Config),
    #{<<"rows">> := Rows} = outside_SUITE:read(Json),
    [] = [list_to_binary(pid_to_list(Pid)) || Pid <- Pids] -- [Pid || #{<<"pid">> := Pid} <- Rows],
    {0, Stacks, _} = sonde(["--core ", Core, " stacks 1 --json"], Config),
    true = has("\"processes\":100", Stacks),
    %% the time of a diagnosis is that of the file
    {ok, #file_info{mtime = Written}} = file:read_file_info(Core, [{time, posix}]),
    {_, Found, _} = sonde(["--core ", Core, " diagnose --json"], Config),
    At = 1000 * Written,
    #{<<"at">> := At} = outside_SUITE:read(Found).

%% ---- other places

%% A copy of this OTP, whose node dies.
with_vm(Config, Fun) ->
    with_vm(filename:join(get(dir, Config), "otp"), Config, Fun).

with_vm(Root, Config, Fun) ->
    Bin = filename:join([Root, "erts-9.9", "bin"]),
    ok = filelib:ensure_dir(filename:join(Bin, "x")),
    ok = filelib:ensure_dir(filename:join([Root, "lib", "x"])),
    "" = os:cmd(["cp ", os:getenv("BINDIR"), "/* ", Bin, " && cp -rL ", code:root_dir(), "/bin ", Root, " && cp -rL ",
                 code:lib_dir(kernel), " ", code:lib_dir(stdlib), " ", filename:join(Root, "lib"),
                 " && chmod -R go-w ", Root]),
    Cores = filename:join(get(dir, Config), "cores"),
    Core = outside_SUITE:with_vm(Root, Bin, "start_clean", fun(OsPid) -> dead(OsPid, Cores) end),
    Fun(Core, Root).

%% It began in the folder `/', and has no way to another one.
dead(OsPid, Dir) ->
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    by_debugger_or_abort(os:find_executable("gcore"), OsPid, Dir).

by_debugger_or_abort(false, OsPid, Dir) ->
    Core = aborted(OsPid, fun() -> ok end, "/"),
    Moved = filename:join(Dir, "core"),
    "" = os:cmd(["mv ", Core, " ", Moved]),
    Moved;
by_debugger_or_abort(_, OsPid, Dir) ->
    by_debugger(OsPid, Dir).

beam(Root) -> filename:join(Root, "erts-9.9/bin/beam.smp").

executable_is_deleted_or_replaced(Config) ->
    with_vm(Config, fun(Core, Root) ->
        Run = fun() -> sonde(["--core ", Core, " native"], Config) end,
        {0, [_ | _], ""} = Run(),
        {ok, Beam} = file:read_file(beam(Root)),
        ok = file:delete(beam(Root)),
        {1, "", Gone} = Run(),
        true = outside_SUITE:is_one_line(Gone) andalso has("no such file", Gone) andalso has("--sysroot", Gone),
        %% the same name, another build
        {ok, Opened} = sonde_core_file:open(Core),
        {ok, Id} = sonde_core_file:build_id(Opened),
        [Before, After] = binary:split(Beam, Id),
        New = <<(binary:first(Id) bxor 1), (binary:part(Id, 1, byte_size(Id) - 1))/binary>>,
        ok = file:write_file(beam(Root), [Before, New, After]),
        ok = file:change_mode(beam(Root), 8#755),
        {1, "", Replaced} = Run(),
        true = outside_SUITE:is_one_line(Replaced) andalso has("was it upgraded", Replaced),
        %% a program without one
        ok = file:write_file(beam(Root), "#!/bin/sh\n"),
        {1, "", None} = Run(),
        true = has("has no build id", None),
        %% and nothing that was not there was run
        [] = filelib:wildcard(filename:join(get(dir, Config), "sonde-twin-*")),
        ok = file:write_file(beam(Root), Beam),
        {0, [_ | _], ""} = Run(),
        ok = file:delete(filename:join(filename:dirname(beam(Root)), "erl_child_setup")),
        {1, "", NoSetup} = Run(),
        true = has("no erl_child_setup", NoSetup)
    end).

%% The machine has other files at these places now; the old ones are in a folder.
a_folder_with_the_old_files(Config) ->
    Dir = get(dir, Config),
    with_vm(Config, fun(Core, Root) ->
        Old = filename:join(Dir, "old"),
        ok = filelib:ensure_dir(filename:join(Old, Root)),
        Under = fun(Path) -> Old ++ Path end,
        ok = filelib:ensure_dir(Under(Root)),
        ok = file:rename(Root, Under(Root)),
        {ok, Opened} = sonde_core_file:open(Core),
        _ = [begin
                 ok = filelib:ensure_dir(Under(Library)),
                 {ok, _} = file:copy(Library, Under(Library)),
                 ok = file:change_mode(Under(Library), 8#755)
             end || Path <- sonde_core_file:libraries(Opened), Library <- [binary_to_list(Path)]],
        %% where its loader is by name
        {File, Name} = case sonde_test:has_musl() of
                           true -> {<<"musl">>, "/lib/ld-musl-x86_64.so.1"};
                           false -> {<<"ld-linux">>, "/lib64/ld-linux-x86-64.so.2"}
                       end,
        Loader = hd([binary_to_list(Path) || Path <- sonde_core_file:libraries(Opened),
                                             binary:match(Path, File) =/= nomatch]),
        ok = filelib:ensure_dir(Under(Name)),
        ok = file:make_symlink(Loader, Under(Name)),
        "" = os:cmd(["chmod -R go-w ", Old]),
        {1, "", _} = sonde(["--core ", Core, " native"], Config),
        {0, Json, ""} = sonde(["--core ", Core, " --sysroot ", Old, " native --json"], Config),
        #{<<"status">> := <<"active">>} = outside_SUITE:read(Json),
        {0, [_ | _], _} = sonde(["--core ", Core, " --sysroot ", Old, " proc_count memory 5"], Config),
        {1, "", None} = sonde(["--core ", Core, " --sysroot ", Old, "/none native"], Config),
        true = has("there is no folder", None)
    end).

chroot_of_otp_27(Config) -> chroot("trixie", <<"27">>, Config).

chroot_of_otp_29(Config) -> chroot("sid", <<"29">>, Config).

chroot(Name, Release, Config) ->
    outside_SUITE:in_chroot(Name, fun(Root) ->
        {[_ | _] = Was, Core} = outside_SUITE:with_node("chroot " ++ Root ++ " ", ["+P", "40000"], fun(OsPid) ->
            {at_rest(OsPid, Config), in_chroot(way(), OsPid, Root, get(dir, Config))}
        end),
        _ = [{Call, Said} = {Call, answer(["--core ", Core, " --sysroot ", Root], Call, Config)} || {Call, Said} <- Was],
        {0, Json, ""} = sonde(["--core ", Core, " --sysroot ", Root, " native --json"], Config),
        #{<<"otp">> := Release} = outside_SUITE:read(Json),
        {0, Out, _} = sonde(["--core ", Core, " --sysroot ", Root, " proc_count memory 5"], Config),
        true = has("code_server", Out) andalso has("code_server:loop/1", Out),
        {0, Stacks, _} = sonde(["--core ", Core, " --sysroot ", Root, " stacks 5"], Config),
        true = has("gen_server:loop/", Stacks)
    end).

in_chroot(gcore, OsPid, _, Dir) -> by_debugger(OsPid, Dir);
in_chroot(abort, OsPid, Root, Dir) ->
    Core = aborted(OsPid, fun() -> ok end, Root),
    Moved = filename:join(Dir, "core"),
    "" = os:cmd(["mv ", Core, " ", Moved]),
    Moved.

%% What a node says whose processes all wait: stopped as before. It stays stopped until it dies: a timer would change it.
%% What its threads do is another matter in one that aborts.
at_rest(OsPid, Config) -> at_rest(OsPid, Config, 20).

at_rest(OsPid, Config, Times) when Times > 0 ->
    All = fun() -> [{Call, answer(["--pid ", OsPid], Call, Config)} || Call <- same_calls()] end,
    First = All(),
    "" = os:cmd("kill -STOP " ++ OsPid),
    case All() of
        First -> First;
        _ -> "" = os:cmd("kill -CONT " ++ OsPid), at_rest(OsPid, Config, Times - 1)
    end.

same_calls() ->
    ["proc_count " ++ Attr ++ " 1000" || Attr <- ["memory", "reductions", "message_queue_len", "binary_memory", "stack_size"]]
        ++ ["stacks 1000", "waits 10", "proc_group initial_call memory", "proc_group registered_name memory",
            "heap code_server", "heap_top code_server 10", "bin_waste 10", "info code_server"].

answer(Target, Call, Config) ->
    {0, Json, _} = sonde([Target, " ", Call, " --json"], Config),
    outside_SUITE:read(Json).

%% ---- helpers

%% With holes where there are only zeros.
copy(Config) ->
    Copy = filename:join(get(dir, Config), "copy"),
    "" = os:cmd(["cp --sparse=always ", get(core, Config), " ", Copy]),
    Copy.

sonde(Words, Config) ->
    outside_SUITE:sonde(Words, Config ++ [{real, true}]).

has(Part, Text) ->
    string:find(Text, Part) =/= nomatch.
