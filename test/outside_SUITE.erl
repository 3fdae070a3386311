%% The command with --pid: on which VM its twin runs, what is refused, and that nothing is left, however
%% it ends. What the twin reads is outside_rows_SUITE's. Most cases put a module of the test in the place
%% of `sonde_outside', which prints what the twin is, or fails.
-module(outside_SUITE).

-compile([export_all, nowarn_export_all]).

%% The twin ends within a second; this machine may be busy.
-define(SOON_MS, 5000).

suite() -> [{timetrap, {minutes, 3}}].

all() ->
    [targets_exclude_each_other, only_some_commands_look_from_outside, help_names_them,
     names_without_atoms_are_written_alike, json_has_names_without_atoms, later_releases_load_it,
     links_stay_inside_of_a_root, yama_is_a_sentence,
     words_that_are_no_text, no_such_process, not_a_node, ended_but_not_reaped, ended_meanwhile, another_user,
     root_runs_no_program_of_a_user,
     capability_is_enough, missing_rights_are_sentences, a_filter_is_a_sentence, settings_of_the_target_count,
     twin_is_the_same_program, flags_are_those_of_the_target, nothing_of_the_user_gets_in,
     folder_is_private_and_gone, exit_codes_are_those_of_the_twin, twin_that_dies, no_room,
     output_that_cannot_be_written, sigterm_ends_both, killed_leaves_no_twin, killed_while_the_twin_starts, interrupted_leaves_no_twin,
     executable_is_deleted, release_with_boot_files_of_its_own, no_boot_file,
     freeze_needs_a_process, frozen_only_for_the_look, frozen_and_killed, frozen_no_longer_than_the_limit,
     what_was_there_stays_if_it_is_late, a_stopped_process_is_told, frozen_looks_are_whole, stopped_by_others_it_stays_so, let_go_on_by_others, freezing_is_forbidden, no_other_process_gets_a_signal,
     chroot_of_otp_27, chroot_of_otp_29, in_a_container, in_a_user_namespace, a_million_processes_in_little_memory,
     a_terminal_is_the_twins, what_is_not_known_there_is_said,
     no_time_is_no_answer, none_is_said_of_all, flame_graphs_are_those_of_the_rows, command_answers].

init_per_suite(Config) ->
    case file:read_file_info("/proc/self/maps") of
        {ok, _} -> with_stub(sonde_test:init(Config));
        {error, _} -> {skip, "no /proc"}
    end.

%% A copy of sonde with our own sonde_outside, in a folder that every user can read.
with_stub(Config) ->
    Dir = string:trim(os:cmd("mktemp -d")),
    ok = file:change_mode(Dir, 8#755),
    Ebin = sonde_attach_helper:ebin(),
    "" = os:cmd(["cp -r '", Ebin, "' '", Ebin, "/../priv' ", Dir]),
    Source = filename:join(get(data_dir, Config), "sonde_outside"),
    {ok, _} = compile:file(Source, [{outdir, filename:join(Dir, "ebin")}]),
    [{stub, Dir} | Config].

end_per_suite(Config) ->
    ok = file:del_dir_r(get(stub, Config)).

init_per_testcase(Case, Config) ->
    Dir = filename:join(get(stub, Config), Case),
    ok = file:make_dir(Dir),
    ok = file:change_mode(Dir, 8#777),
    [{dir, Dir} | Config].

end_per_testcase(_Case, _Config) -> ok.

get(Key, Config) -> proplists:get_value(Key, Config).

%% ---- words

targets_exclude_each_other(_Config) ->
    _ = [{Words, {wrong, _}} = {Words, parsed(Words)}
         || Words <- ["--pid 1 --node a@h native", "--cluster a@h --pid 1 proc_count memory 1", "--pid",
                      "--pid 0 native", "--pid -1 native", "--pid x native", "--pid 1 top",
                      "--pid 1 proc_count memory 1 --suspend"]],
    {run, #{name := "native"}, [], #{pid := 17}} = parsed("native --pid 17"),
    {run, _, [3], #{pid := 17, depth := 2, collapsed := true}} =
        parsed("-p 17 stacks 3 --depth 2 --collapsed").

parsed(Words) ->
    sonde_cli_args:parse(string:lexemes(Words, " ")).

only_some_commands_look_from_outside(_Config) ->
    Said = [{Name, is_map_key(outside, Command), parsed(lists:concat(["-p 1 ", Name | words(Command)]))}
            || #{name := Name, run := Run} = Command <- sonde_cli_table:commands(),
               Run =/= help, Run =/= completion],
    [] = [Name || {Name, false, Parsed} <- Said,
                  Parsed =/= {wrong, [Name, " cannot look from outside: use --node"]}],
    [] = ["native", "proc_count", "stacks"] -- [Name || {Name, true, {run, _, _, _}} <- Said].

words(#{args := Args}) -> [[$\s | word(Type)] || #{type := Type} <- Args].

word({one_of, [Atom | _]}) -> atom_to_list(Atom);
word(_) -> "3".

help_names_them(_Config) ->
    General = unicode:characters_to_list(sonde_cli_help:general()),
    true = has("--pid OSPID", General),
    _ = [true = has(Name, General) || Name <- ["native", "proc_count", "stacks"]],
    _ = [Is = has("--pid OSPID", unicode:characters_to_list(sonde_cli_help:command(Command)))
         || #{run := {sonde, _}} = Command <- sonde_cli_table:commands(),
            Is <- [is_map_key(outside, Command)]].

%% ---- names

%% A binary is written like the atom with this text, and stays no atom.
names_without_atoms_are_written_alike(_Config) ->
    Names = ["plain", "Elixir.MyApp.Repo", "Elixir.my", "With space", "it's", "a@b_9", "9a", "", "andalso",
             "ok", [16#E4, $b], [16#F7, $b], [$x, 16#F7], [$a, 16#142], "a\nb", "a\\b", "_a", "A"],
    _ = [begin
             Binary = unicode:characters_to_binary(Name),
             Alike = fun(F) ->
                 New = unicode:characters_to_list(F(Binary)),
                 {Name, New} = {Name, unicode:characters_to_list(F(list_to_atom(Name)))},
                 true
             end,
             _ = [true = Alike(fun(N) -> F(N, Unicode) end)
                  || Unicode <- [true, false],
                     F <- [fun sonde_names:atom/2, fun(N, U) -> sonde_names:call({N, lists, 1}, U) end,
                           fun(N, U) -> sonde_names:call({lists, N, 1}, U) end,
                           fun(N, U) -> sonde_names:call({'Elixir.A', N, 1}, U) end]],
             true = Alike(fun(N) -> printed([{self(), 1, [{current_function, {N, N, 2}}]}]) end),
             true = Alike(fun(N) -> printed([{[{N, f, 1}, {lists, N, 2}], 4, [{example, self()}]}]) end),
             true = Alike(fun(N) -> printed([{N, 2, [{memory, 5}]}, {{N, N, 1}, 2, [{memory, 4}]}]) end),
             true = Alike(fun(N) -> printed([{meta, [{registered_name, N}, {initial_call, {N, N, 0}}]},
                                             {location, [{current_stacktrace, [{N, lists, 1, []}]}]}]) end),
             true = Alike(fun(N) -> sonde_stacks:collapsed([{[{N, N, 1}], 4, []}]) end)
         end || Name <- Names],
    New = "name_" ++ integer_to_list(erlang:unique_integer([positive])),
    Text = printed([{self(), 1, [list_to_binary(New), {initial_call, {list_to_binary(New), <<"f">>, 2}}]}]),
    true = has(" " ++ New ++ " ", Text) andalso has(New ++ ":f/2", Text),
    badarg = sonde_test:raised(fun() -> list_to_existing_atom(New) end),
    %% Data is no name.
    _ = [true = is_list(printed([{self(), 1, [{current_function, {Odd, f, 2}}, {name, Odd}]}]))
         || Odd <- [<<255>>, <<1:3>>, binary:copy(<<"x">>, 256), {}, self(), undefined]].

printed(Result) ->
    Device = sonde_terminal_helper:start(#{}),
    ok = sonde_print:print(Result, #{width => 200, device => Device}),
    Text = sonde_terminal_helper:written(Device),
    ok = sonde_terminal_helper:stop(Device),
    Text.

json_has_names_without_atoms(_Config) ->
    Rows = [{self(), 1, [<<"my_srv">>, {current_function, {<<"my_mod">>, <<"f">>, 2}},
                         {initial_call, {lists, <<"g">>, 1}}]}],
    Atoms = [{self(), 1, [my_srv, {current_function, {my_mod, f, 2}}, {initial_call, {lists, g, 1}}]}],
    _ = [true = iolist_to_binary(sonde_json:encode(maps:from_list([{name, N} | As])))
             =:= iolist_to_binary(sonde_json:encode(maps:from_list([{name, M} | Bs])))
         || {{_, _, [N | As]}, {_, _, [M | Bs]}} <- lists:zip(Rows, Atoms)],
    <<"{\"stack\":[\"my_mod:f/1\",\"a:b/2\"]}">> =
        iolist_to_binary(sonde_json:encode(#{stack => [{<<"my_mod">>, <<"f">>, 1}, {a, b, 2}]})),
    <<"{\"group\":\"my_mod:f/1\"}">> =
        iolist_to_binary(sonde_json:encode(#{group => {<<"my_mod">>, <<"f">>, 1}})),
    %% Elsewhere it is data.
    <<"{\"x\":[\"a\",\"b\",1]}">> = iolist_to_binary(sonde_json:encode(#{x => {<<"a">>, <<"b">>, 1}})),
    <<"{\"stack\":[1]}">> = iolist_to_binary(sonde_json:encode(#{stack => [1]})).

%% The compiler of OTP 25 makes an instruction for a tail of whole bytes that OTP 29 refuses.
later_releases_load_it(_Config) ->
    Beams = filelib:wildcard(filename:join(sonde_attach_helper:ebin(), "sonde*.beam")),
    [] = [{M, F} || Beam <- Beams, {beam_file, M, _, _, _, Functions} <- [beam_disasm:file(Beam)],
                    {function, F, _, _, Code} <- Functions,
                    lists:any(fun({test, bs_test_unit, _, _}) -> true; (_) -> false end, Code)].

%% ---- what is read of the target

links_stay_inside_of_a_root(Config) ->
    Root = list_to_binary(get(dir, Config)),
    In = fun(Path) -> <<Root/binary, Path/binary>> end,
    _ = [ok = filelib:ensure_dir(In(Path)) || Path <- [<<"/usr/lib/x">>, <<"/opt/x">>]],
    _ = [ok = file:make_symlink(To, In(Link))
         || {Link, To} <- [{<<"/lib">>, "usr/lib"}, {<<"/lib64">>, "/usr/lib"}, {<<"/loop">>, "loop"},
                           {<<"/usr/lib/up">>, "../../../../opt"}, {<<"/opt/far">>, "/lib64/./up"}]],
    _ = [{Path, Real} = {Path, sonde_cli_target:inside(Root, Path)}
         || {Path, Real} <- [{<<"/usr/lib/a">>, In(<<"/usr/lib/a">>)}, {<<"/lib/a">>, In(<<"/usr/lib/a">>)},
                             {<<"/lib64/a">>, In(<<"/usr/lib/a">>)}, {<<"/opt/far/a">>, In(<<"/opt/a">>)},
                             {<<"/none/b">>, In(<<"/none/b">>)}, {<<"/">>, Root}]],
    true = is_binary(sonde_cli_target:inside(Root, <<"/loop/a">>)),
    <<"/lib/a">> = sonde_cli_target:inside(<<>>, <<"/lib/a">>).

yama_is_a_sentence(_Config) ->
    Status = fun(Caps) -> ["Name:\tx\nCapPrm:\tffff\nCapEff:\t", Caps, "\nCapBnd:\t0\n"] end,
    None = Status("0000000000000000"),
    Ptrace = Status("0000000000080000"),
    true = sonde_cli_target:is_traceable({error, enoent}, None),
    true = sonde_cli_target:is_traceable({ok, <<"0\n">>}, None),
    _ = [true = sonde_cli_target:is_traceable({ok, Scope}, Ptrace) || Scope <- [<<"1\n">>, <<"2\n">>]],
    _ = [begin
             {false, Why} = sonde_cli_target:is_traceable({ok, Scope}, None),
             true = has("run sonde as root", unicode:characters_to_list(Why))
         end || Scope <- [<<"1\n">>, <<"2\n">>]],
    {false, _} = sonde_cli_target:is_traceable({ok, <<"3\n">>}, Ptrace).

%% The VM makes halves of characters of such bytes, or no list at all.
words_that_are_no_text(Config) ->
    Wrong = fun(Words) -> {wrong, Why} = sonde_cli_args:parse(Words), unicode:characters_to_list(Why) end,
    "argument 2 is not text" ++ _ = Wrong(["native", [$q, 16#DCFF]]),
    "argument 1 is not text" ++ _ = Wrong([{error, "q", <<255>>}, "native"]),
    _ = [begin
             {2, "", Said} = sonde(Words, Config),
             {Words, true} = {Words, is_one_line(Said) andalso has("is not text", Said)}
         end || Words <- ["\"$(printf 'q\\377')\"", "--pid 1 info \"$(printf 'q\\377')\"", "--core \"$(printf 'w/\\377')\" native"]].

no_such_process(Config) ->
    {1, "", "sonde: there is no process 4194305\n"} = sonde("--pid 4194305 native", Config).

not_a_node(Config) ->
    Port = open_port({spawn, "sleep 60"}, []),
    {1, "", Other} = sonde(["--pid ", os_pid(Port), " native"], Config),
    "sonde: process " ++ _ = Other,
    true = has("is not an Erlang node", Other),
    true = stop(Port),
    %% What stands beside a node is taken for it.
    with_node(fun(OsPid) ->
        [Child | _] = string:lexemes(os:cmd("pgrep -P " ++ OsPid), "\n"),
        {1, "", Meant} = sonde(["--pid ", Child, " native"], Config),
        true = has("is not an Erlang node: is " ++ OsPid ++ " meant?", Meant)
    end).

ended_but_not_reaped(Config) ->
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", "sleep 0 & echo $!; exec sleep 60"]}, {line, 100}]),
    OsPid = receive {Port, {data, {eol, Text}}} -> Text end,
    ok = sonde_test:until(ended, fun() ->
        {ok, Status} = file:read_file("/proc/" ++ OsPid ++ "/status"),
        nomatch =/= string:find(Status, "zombie")
    end),
    {1, "", Said} = sonde(["--pid ", OsPid, " native"], Config),
    true = Said =:= "sonde: process " ++ OsPid ++ " has ended\n",
    true = stop(Port).

%% Killed when its twin is about to start: what is wrong is that it has ended, not what no longer can be found.
ended_meanwhile(Config) ->
    true = lists:any(fun(_) -> with_node(fun(OsPid) ->
             Errors = filename:join(get(dir, Config), "said"),
             Port = run_shell([command(["--pid ", OsPid, " native"], Config), " 2>", Errors, " </dev/null"], Config),
             ok = sonde_test:until(folder, fun() -> folders(Config) =/= [] end),
             _ = os:cmd("kill -KILL " ++ OsPid),
             case collect(Port, <<>>) of
                 {0, _} -> false; % the twin had begun before
                 {1, <<>>} ->
                     {ok, Said} = file:read_file(Errors),
                     {Said, true} = {Said, has("there is no process " ++ OsPid, binary_to_list(Said))
                                         orelse has("has ended", binary_to_list(Said))},
                     true
             end
         end) end, lists:seq(1, 30)).

%% As nobody.
another_user(Config) ->
    as_root(fun() ->
        with_node(fun(OsPid) ->
            {1, "", Said} = sonde(["--pid ", OsPid, " native"], [{as, nobody()} | Config]),
            true = is_one_line(Said) andalso has("belongs to another user", Said)
                andalso has("as root", Said)
        end)
    end).

%% The owner of a node would get what root may do.
root_runs_no_program_of_a_user(Config) ->
    as_root(fun() ->
        with_node(nobody(), [], fun(OsPid) ->
            {1, "", Said} = sonde(["--pid ", OsPid, " native"], Config),
            true = is_one_line(Said) andalso has("another user", Said) andalso has("--trust", Said),
            #{<<"native">> := _, <<"mode">> := <<"700 0">>} = twin([OsPid, " --trust"], Config),
            %% That user may.
            #{<<"mode">> := <<"700 65534">>} = twin(OsPid, [{as, nobody()} | Config])
        end)
    end).

%% Of another user, but with the capability that the kernel asks for.
capability_is_enough(Config) ->
    as_root(fun() ->
        As = nobody() ++ "--inh-caps=+sys_ptrace --ambient-caps=+sys_ptrace ",
        case os:cmd(As ++ "true") of
            "" ->
                with_node(fun(OsPid) ->
                    #{<<"native">> := <<"active">>} = twin([OsPid, " --trust"], [{as, As} | Config])
                end);
            _ ->
                {skip, "this root has no SYS_PTRACE itself"}
        end
    end).

%% Each names what would help.
missing_rights_are_sentences(Config) ->
    Said = fun(Ours, Its, May) -> unicode:characters_to_list(sonde_cli_target:no_right(Ours, Its, May)) end,
    Root = [<<"0">>, <<"0">>, <<"0">>, <<"0">>],
    User = [<<"5">>, <<"5">>, <<"5">>, <<"5">>],
    true = has("more rights", Said(User, User, false)) andalso has("SYS_PTRACE", Said(User, User, false)),
    true = has("--cap-add SYS_PTRACE", Said(Root, Root, false)),
    true = has("--cap-add SYS_PTRACE", Said(Root, User, false)),
    true = has("security module", Said(User, Root, true)),
    "belongs to another user: run sonde as that user, or as root" = Said(User, Root, false),
    as_root(fun() ->
        As = "setpriv --bounding-set=-sys_ptrace --inh-caps=-sys_ptrace ",
        with_node(fun(OsPid) ->
            case os:cmd([As, "readlink /proc/", OsPid, "/exe"]) of
                "" ->
                    {1, "", Line} = sonde(["--pid ", OsPid, " native"], [{as, As} | Config]),
                    true = is_one_line(Line) andalso has("more rights than this command", Line);
                _ ->
                    {skip, "this root has no SYS_PTRACE itself"}
            end
        end)
    end).

%% What forbids the call, and no right that we have anyway, is named.
a_filter_is_a_sentence(Config) ->
    case sonde_foreign_helper:build_filtered(get(dir, Config)) of
        {skip, _} = Skip -> Skip;
        {ok, Filter} ->
            with_node(fun(OsPid) ->
                _ = [begin
                         As = [Filter, $\s, How, $\s],
                         {1, "", Line} = sonde(["--pid ", OsPid, " proc_count memory 1"], [{as, As}, {real, true} | Config]),
                         {true, _} = {is_one_line(Line) andalso has("seccomp", Line), Line}
                     end || How <- ["1", "38", "0"]] % EPERM, ENOSYS
            end)
    end.

%% On its command line, or in its configuration.
settings_of_the_target_count(Config) ->
    Real = [{real, true} | Config],
    File = filename:join(get(dir, Config), "sys.config"),
    Top = fun(More) -> fun(OsPid) -> sonde(["--pid ", OsPid, " heap_top init 1", More], Real) end end,
    Forbidden = ["-sonde other 1 allow_content false", {"[{sonde, [{allow_content, false}]}].", File},
                 {"[{kernel, []}, {sonde, [{'allow_content' ,\n no}]}].", filename:rootname(File)}],
    _ = [begin
             Flag = setting(Setting, File),
             {1, "", Said} = with_node("", [Flag], Top(" --values")),
             {true, _} = {has("allow_content", Said) andalso is_one_line(Said), Said},
             {0, _, ""} = with_node("", [Flag], Top(""))
         end || Setting <- Forbidden],
    _ = [{0, _, ""} = with_node("", [setting(Setting, File)], Top(" --values"))
         || Setting <- ["", "-sonde allow_content true", {"[{sonde, [{allow_content,  true }]}].", File}]],
    ok.

setting({Text, Name}, File) ->
    ok = file:write_file(File, Text),
    "-config " ++ Name;
setting(Flags, _) ->
    Flags.

%% The command and its twin together, what they share with others in shares; looked at ten times a second.
a_million_processes_in_little_memory(Config) ->
    Start = "'_ = [spawn(timer, sleep, [infinity]) || _ <- lists:seq(1, 1000000)], io:put_chars([os:getpid(), 10])'",
    as_one_file(Config, fun(File) ->
        with_port(["exec erl +P 2000000 -noinput -eval ", Start], looks_take_little([{file, File} | Config]))
    end).

looks_take_little(Config) ->
    fun(OsPid) ->
        Rows = in_little_memory(OsPid, " proc_count memory 3", Config),
        5 = length(string:lexemes(Rows, "\n")),
        %% what is kept of each process would show
        Found = in_little_memory(OsPid, " diagnose --interval 0", Config),
        {match, [Sampled]} = re:run(Found, "all but a sample of ([0-9,]+)", [{capture, [1], list}]),
        N = list_to_integer([C || C <- Sampled, C =/= $,]),
        {true, _} = {N > 25000 andalso N =< 32768, N}
    end.

in_little_memory(OsPid, Words, Config) ->
    Begun = erlang:monotonic_time(millisecond),
    Port = started(["--pid ", OsPid, Words], Config),
    {os_pid, Command} = erlang:port_info(Port, os_pid),
    {Out, Most} = most_memory(Port, integer_to_list(Command), <<>>, 0),
    ok = sonde_test:figures("~s, a million processes: ~p ms, ~p MB",
                            [Words, erlang:monotonic_time(millisecond) - Begun, Most div 1000]),
    {true, _} = {Most > 50000 andalso Most < 100000, Most},
    Out.

most_memory(Port, Command, Out, Most) ->
    receive
        {Port, {data, More}} -> most_memory(Port, Command, <<Out/binary, More/binary>>, Most);
        {Port, {exit_status, 0}} -> {Out, Most}
    after 100 ->
        most_memory(Port, Command, Out, max(Most, lists:sum([share(Of) || Of <- family(Command)])))
    end.

family(OsPid) ->
    case file:read_file(["/proc/", OsPid, "/task/", OsPid, "/children"]) of
        {ok, Children} -> [OsPid | lists:append([family(Child) || Child <- string:lexemes(binary_to_list(Children), " ")])];
        {error, _} -> []
    end.

%% In thousands of bytes.
share(OsPid) ->
    lists:sum([list_to_integer(Kilo) * 1024 div 1000
               || {ok, Text} <- [file:read_file(["/proc/", OsPid, "/smaps_rollup"])],
                  {match, [Kilo]} <- [re:run(Text, "^Pss:\\s+([0-9]+) kB", [multiline, {capture, [1], list}])]]).

as_root(Fun) ->
    case {os:cmd("id -u"), os:find_executable("setpriv")} of
        {"0\n", Setpriv} when is_list(Setpriv) -> Fun();
        _ -> {skip, "needs root and setpriv"}
    end.

nobody() -> "setpriv --reuid=65534 --regid=65534 --clear-groups ".

%% ---- the twin

twin_is_the_same_program(Config) ->
    with_node(fun(OsPid) ->
        {ok, Exe} = file:read_link("/proc/" ++ OsPid ++ "/exe"),
        Release = list_to_binary(erlang:system_info(otp_release)),
        #{<<"exe">> := Found, <<"otp">> := Release, <<"alive">> := false,
          <<"applications">> := [<<"kernel">>, <<"stdlib">>], <<"native">> := <<"active">>} = twin(OsPid, Config),
        Exe = unicode:characters_to_list(Found)
    end).

flags_are_those_of_the_target(Config) ->
    case sonde_test:is_interpreter() of
        true -> {skip, "this VM has no +JPperf"};
        false -> flags_are_taken(Config)
    end.

flags_are_taken(Config) ->
    with_node("", ["+P", "40000", "+A", "3", "+JPperf", "true"], fun(OsPid) ->
        #{<<"limit">> := 65536, <<"line">> := Line, <<"os_pid">> := Twin} = twin(OsPid, Config),
        {Flags, _} = lists:splitwith(fun(Word) -> Word =/= <<"--">> end, Line),
        [<<"-MMmcs">>, <<"0">>, <<"-P">>, <<"40000">>, <<"-JPperf">>, _] = lists:nthtail(3, Flags),
        [] = filelib:wildcard("/tmp/{perf,jit}-" ++ binary_to_list(Twin) ++ ".*"),
        _ = [file:delete(File) || File <- filelib:wildcard("/tmp/{perf,jit}-" ++ OsPid ++ ".*")]
    end),
    with_node(fun(OsPid) ->
        Default = erlang:system_info(process_limit),
        #{<<"limit">> := Limit} = twin(OsPid, Config),
        true = Limit > 65536 orelse Limit =:= Default
    end).

%% Neither the command's code paths nor ~/.erlang.
nothing_of_the_user_gets_in(Config) ->
    Dir = get(dir, Config),
    Said = filename:join(Dir, "said"),
    ok = file:write_file(filename:join(Dir, ".erlang"),
                         io_lib:format("file:write_file(~p, \"yes\").~n", [Said])),
    with_node(fun(OsPid) ->
        Env = [{"HOME", Dir}, {"ERL_LIBS", Dir}, {"ERL_ZFLAGS", "-kernel x 1"}],
        #{<<"line">> := Line} = twin(OsPid, [{env, Env} | Config]),
        false = lists:member(<<"x">>, Line),
        {error, enoent} = file:read_file(Said)
    end).

folder_is_private_and_gone(Config) ->
    with_node(fun(OsPid) ->
        #{<<"mode">> := Mode, <<"path">> := Path} = twin(OsPid, Config),
        <<"700 ", _/bits>> = Mode,
        true = lists:prefix(filename:join(get(dir, Config), "sonde-twin-"), binary_to_list(Path)),
        [] = folders(Config)
    end).

folders(Config) -> filelib:wildcard("sonde-twin-*", get(dir, Config)).

exit_codes_are_those_of_the_twin(Config) ->
    with_node(fun(OsPid) ->
        Run = fun(Twin) -> sonde(["--pid ", OsPid, " native"], [{twin, Twin} | Config]) end,
        {0, [_ | _], ""} = Run(""),
        {1, "", Said} = Run("refuses"),
        Said = "sonde: process " ++ OsPid ++ ": it is refused\n",
        {3, "", ""} = Run("halts 3"),
        {2, "", _} = sonde(["--pid ", OsPid, " native 3"], Config)
    end).

twin_that_dies(Config) ->
    with_node(fun(OsPid) ->
        _ = [begin
                 {1, "", Said} = sonde(["--pid ", OsPid, " native"], [{twin, Twin} | Config]),
                 true = is_one_line(Said) andalso has("looking at process " ++ OsPid ++ " failed", Said),
                 [] = folders(Config)
             end || Twin <- ["crashes", "halts 9"]]
    end).

no_room(Config) ->
    with_node(fun(OsPid) ->
        {1, "", Said} = sonde(["--pid ", OsPid, " native"], [{env, [{"TMPDIR", "/nonexistent"}]} | Config]),
        true = is_one_line(Said) andalso has("TMPDIR", Said)
    end).

%% What was not written is no result.
output_that_cannot_be_written(Config) ->
    with_node(fun(OsPid) ->
        _ = [begin
                 {1, "", Said} = sonde([Words, " >/dev/full"], Config),
                 {Words, true} = {Words, is_one_line(Said) andalso has("could not be written", Said)}
             end || Words <- ["--help", ["--pid ", OsPid, " native --help"]]]
    end).

sigterm_ends_both(Config) -> ends_both("TERM", 143, Config).

%% The command can do nothing; the twin sees that it is alone.
killed_leaves_no_twin(Config) -> ends_both("KILL", 137, Config).

interrupted_leaves_no_twin(Config) -> ends_both("INT", 130, Config).

%% A twin that begins when the command is gone says nothing, and removes the folder.
killed_while_the_twin_starts(Config) ->
    with_node(fun(OsPid) ->
        _ = [begin
                 File = filename:join(get(dir, Config), "twin"),
                 Port = started(["--pid ", OsPid, " native"], [{twin, "stays " ++ File} | Config]),
                 ok = sonde_test:until(twin_begins, fun() -> begun(Config) =/= [] end),
                 ok = timer:sleep(Ms),
                 "" = os:cmd("kill -KILL " ++ os_pid(Port)),
                 ok = sonde_test:until(gone, fun() -> begun(Config) =:= [] andalso folders(Config) =:= [] end),
                 {137, <<>>} = collect(Port, <<>>)
             end || Ms <- [0, 30, 60, 90]]
    end).

%% The twins that were started from here.
begun(Config) ->
    [File || File <- filelib:wildcard("/proc/[0-9]*/cmdline"), {ok, Line} <- [file:read_file(File)],
             binary:match(Line, iolist_to_binary(["-sonde_twin", 0, get(dir, Config)])) =/= nomatch].

ends_both(Signal, Code, Config) ->
    with_node(fun(OsPid) ->
        File = filename:join(get(dir, Config), "twin"),
        Port = started(["--pid ", OsPid, " native"], [{twin, "stays " ++ File} | Config]),
        try
            ok = sonde_test:until(twin, fun() -> filelib:file_size(File) > 0 end),
            {ok, Twin} = file:read_file(File),
            [_] = folders(Config),
            "" = os:cmd(lists:concat(["kill -", Signal, " ", os_pid(Port)])),
            Start = erlang:monotonic_time(millisecond),
            {Code, <<>>} = collect(Port, <<>>),
            ok = sonde_test:until(gone, fun() ->
                not filelib:is_dir(["/proc/", Twin]) andalso folders(Config) =:= []
            end),
            Ms = erlang:monotonic_time(millisecond) - Start,
            {Ms, true} = {Ms, Ms < ?SOON_MS}
        after stop(Port)
        end
    end).

%% ---- frozen

freeze_needs_a_process(_Config) ->
    _ = [{Words, {wrong, _}} = {Words, parsed(Words)}
         || Words <- ["--core f --freeze native", "--node a@h --freeze native", "--cluster a@h --freeze native",
                      "--pid 1 --freeze-limit 5 native", "--pid 1 --freeze --freeze-limit 0 native",
                      "--pid 1 --freeze --freeze-limit 60001 native", "--pid 1 --freeze proc_window memory 1 1"]],
    {wrong, Why} = parsed("--core f --freeze native"),
    true = has("needs --pid", unicode:characters_to_list(Why)),
    {run, _, [], #{freeze := true, 'freeze-limit' := 60000}} = parsed("--pid 1 --freeze --freeze-limit 60000 native").

state(OsPid) ->
    {ok, Status} = file:read_file(["/proc/", OsPid, "/status"]),
    {match, [State]} = re:run(Status, "^State:\\s*(.)", [multiline, {capture, [1], list}]),
    State.

runs(OsPid) -> state(OsPid) =/= "T".

%% However the look ends.
frozen_only_for_the_look(Config) ->
    with_node(fun(OsPid) ->
        Run = fun(Twin) -> sonde(["--pid ", OsPid, " native --json --freeze"], [{twin, Twin} | Config]) end,
        {0, [_ | _], Said} = Run(""),
        {match, _} = re:run(Said, "^sonde: process [0-9]+ was stopped for [0-9]+\\.[0-9]{3} s\n$"),
        true = runs(OsPid),
        _ = [begin
                 {1, "", Failed} = Run(Twin),
                 {Twin, true} = {Twin, Failed =/= ""},
                 ok = sonde_test:until(runs, fun() -> runs(OsPid) end)
             end || Twin <- ["fails", "crashes later"]],
        %% the look has no more time than the limit
        #{<<"opts">> := #{<<"timeout">> := Ms}} = read(element(2, Run(""))),
        {_, true} = {Ms, Ms =< 5000},
        #{<<"opts">> := #{<<"timeout">> := Less}} = in_time(["--pid ", OsPid, " native --json --freeze --freeze-limit 700"], Config),
        {_, true} = {Less, Less =< 700}
    end).

%% Where the machine is busy, a look may be late, and is none.
in_time(Words, Config) ->
    case sonde(Words, Config) of
        {0, Json, _} ->
            read(Json);
        {1, "", Late} ->
            true = has("had to go on before the look was done", Late),
            in_time(Words, Config)
    end.

%% The command is killed, or its twin, or the user presses Ctrl-C.
frozen_and_killed(Config) ->
    with_node(fun(OsPid) ->
        _ = [begin
                 File = filename:join(get(dir, Config), lists:concat(["twin", Signal, Which])),
                 Port = started(["--pid ", OsPid, " native --freeze --freeze-limit 60000"], [{twin, "holds " ++ File} | Config]),
                 try
                     ok = sonde_test:until(holds, fun() -> filelib:file_size(File) > 0 end),
                     "T" = state(OsPid),
                     {ok, Twin} = file:read_file(File),
                     Killed = case Which of command -> os_pid(Port); twin -> binary_to_list(Twin) end,
                     "" = os:cmd(lists:concat(["kill -", Signal, " ", Killed])),
                     Start = erlang:monotonic_time(millisecond),
                     ok = sonde_test:until(runs, fun() -> runs(OsPid) end),
                     Ms = erlang:monotonic_time(millisecond) - Start,
                     {Ms, true} = {Ms, Ms < ?SOON_MS},
                     {_, _} = collect(Port, <<>>)
                 after stop(Port)
                 end
             end || {Signal, Which} <- [{"KILL", command}, {"INT", command}, {"TERM", command}, {"KILL", twin}]]
    end).

%% Also if the twin itself stands still. An answer that would not be of one moment is none.
frozen_no_longer_than_the_limit(Config) ->
    with_node(fun(OsPid) ->
        {1, "", Late} = sonde(["--pid ", OsPid, " native --freeze --freeze-limit 500"], [{twin, "late"} | Config]),
        true = is_one_line(Late) andalso has("had to go on before the look was done", Late),
        true = runs(OsPid),
        Dump = filename:join(get(dir, Config), "late.heapsnapshot"),
        {1, "", Late} = sonde(["--pid ", OsPid, " dump 0.0.0 ", Dump, " --freeze --freeze-limit 500"], [{twin, "late"} | Config]),
        {ok, ["stderr", "was"]} = listed(Config),
        File = filename:join(get(dir, Config), "twin"),
        Port = started(["--pid ", OsPid, " native --freeze --freeze-limit 3000"], [{twin, "holds " ++ File} | Config]),
        try
            ok = sonde_test:until(holds, fun() -> filelib:file_size(File) > 0 end),
            {ok, Twin} = file:read_file(File),
            "" = os:cmd("kill -STOP " ++ binary_to_list(Twin)),
            "T" = state(OsPid),
            ok = sonde_test:until(runs, fun() -> runs(OsPid) end),
            _ = os:cmd("kill -KILL " ++ binary_to_list(Twin)) % the command may have ended it
        after stop(Port)
        end
    end).

%% A file of that name is not ours to delete, and only a whole look replaces it.
what_was_there_stays_if_it_is_late(Config) ->
    with_node(fun(OsPid) ->
        Dump = filename:join(get(dir, Config), "there.heapsnapshot"),
        Run = fun(Twin, Words) -> sonde(["--pid ", OsPid, " dump 0.0.0 ", Dump, " --freeze ", Words], [{twin, Twin} | Config]) end,
        ok = file:write_file(Dump, "mine"),
        _ = [{{Twin, Words}, {1, "", [_ | _]}, {ok, <<"mine">>}} = {{Twin, Words}, Run(Twin, Words), file:read_file(Dump)}
             || Twin <- ["", "left out", "late"], Words <- ["--freeze-limit 500", "--freeze-limit 500 --force"],
                {Twin, Words} =/= {"", "--freeze-limit 500 --force"}],
        {ok, ["stderr", "there.heapsnapshot", "was"]} = listed(Config),
        {0, [_ | _], _} = Run("", "--force"),
        {ok, <<"new">>} = file:read_file(Dump),
        {ok, ["stderr", "there.heapsnapshot", "was"]} = listed(Config)
    end),
    %% the node ends meanwhile
    ok = file:delete(filename:join(get(dir, Config), "there.heapsnapshot")),
    _ = [with_node(fun(OsPid) ->
             File = filename:join(get(dir, Config), "ended.heapsnapshot"),
             {1, "", Said} = sonde(["--pid ", OsPid, " dump 0.0.0 ", File, " --freeze", Force], [{twin, "ends it"} | Config]),
             {_, true} = {Said, is_one_line(Said) andalso has("it ended while it was stopped", Said)},
             {ok, ["stderr", "was"]} = listed(Config)
         end) || Force <- ["", " --force"]],
    ok.

%% Why it answers nobody, and what to do: before anything else. With --freeze its line says so.
a_stopped_process_is_told(Config) ->
    with_node(fun(OsPid) ->
        Said = fun(Words) -> {0, [_ | _], Line} = sonde(["--pid ", OsPid, " native", Words], Config), Line end,
        "" = Said(""),
        "" = os:cmd("kill -STOP " ++ OsPid),
        ok = sonde_test:until(stopped, fun() -> "T" =:= state(OsPid) end),
        Stopped = Said(""),
        {_, true} = {Stopped, is_one_line(Stopped) andalso has("is stopped, by SIGSTOP", Stopped)
                                  andalso has("kill -CONT " ++ OsPid, Stopped)},
        Frozen = Said(" --freeze"),
        {_, true} = {Frozen, is_one_line(Frozen) andalso has("was stopped before", Frozen)},
        "" = os:cmd("kill -CONT " ++ OsPid),
        ok = sonde_test:until(runs, fun() -> runs(OsPid) end),
        "" = Said("")
    end).

listed(Config) ->
    {ok, Names} = file:list_dir(get(dir, Config)),
    {ok, lists:sort(Names)}.

%% What there was no time for is reported of a process that runs. One that was stopped for it was so in vain.
frozen_looks_are_whole(Config) ->
    with_node(fun(OsPid) ->
        Run = fun(Words) -> sonde(["--pid ", OsPid, " ", Words], [{twin, "left out"} | Config]) end,
        {0, [_ | _], _} = Run("native"),
        Dump = filename:join(get(dir, Config), "part.heapsnapshot"),
        _ = [begin
                 {1, "", Said} = Run(Words),
                 {Words, true} = {Words, is_one_line(Said) andalso has("the look was not done in time", Said)
                                            andalso has("was stopped for", Said)}
             end || Words <- ["native --freeze", "native --freeze --json", ["dump 0.0.0 ", Dump, " --freeze"]]],
        {ok, ["stderr", "was"]} = listed(Config),
        true = runs(OsPid),
        %% a report has one millisecond here
        Report = filename:join(get(dir, Config), "part.html"),
        {1, "", Late} = sonde(["--pid ", OsPid, " report ", Report, " --freeze --timeout 1"], [{real, true} | Config]),
        {_, true} = {Late, is_one_line(Late) andalso has("the look was not done in time", Late)
                               andalso has("was stopped for", Late)},
        false = filelib:is_file(Report),
        ok = file:write_file(Report, "mine"),
        {1, "", [_ | _]} = sonde(["--pid ", OsPid, " report ", Report, " --freeze --force --timeout 1"], [{real, true} | Config]),
        {ok, <<"mine">>} = file:read_file(Report),
        %% one that is printed has no file: another one of that name stays, also if some sections were done in time
        Other = filename:join(get(dir, Config), "-"),
        ok = file:write_file(Other, "mine"),
        _ = [begin
                 {_, _, [_ | _]} = sonde(["--pid ", OsPid, " report - --freeze ", Limit], [{real, true}, {as, ["cd ", get(dir, Config), " && "]} | Config]),
                 {Limit, {ok, <<"mine">>}} = {Limit, file:read_file(Other)}
             end || Limit <- ["--timeout 1", "--freeze-limit 660", "--freeze-limit 720", "--freeze-limit 800"]]
    end).

%% An answer that is not of one moment is none: also if the process stands again when the look is done.
let_go_on_by_others(Config) ->
    with_node(fun(OsPid) ->
        _ = [begin
                 "" = os:cmd("kill -" ++ Before ++ " " ++ OsPid),
                 ok = sonde_test:until(signalled, fun() -> runs(OsPid) =:= (Before =:= "CONT") end),
                 {1, "", Said} = sonde(["--pid ", OsPid, " native --freeze"], [{twin, Twin} | Config]),
                 {Before, Twin, Said, true} = {Before, Twin, Said, is_one_line(Said) andalso has("it went on before the look was done", Said)}
             end || Before <- ["STOP", "CONT"], Twin <- ["lets it go on", "stops it again"]]
    end).

stopped_by_others_it_stays_so(Config) ->
    with_node(fun(OsPid) ->
        "" = os:cmd("kill -STOP " ++ OsPid),
        ok = sonde_test:until(stopped, fun() -> not runs(OsPid) end),
        {0, [_ | _], Said} = sonde(["--pid ", OsPid, " native --freeze"], Config),
        true = is_one_line(Said) andalso has("stopped before, and stays so", Said),
        "T" = state(OsPid)
    end).

%% Root without the capability KILL.
freezing_is_forbidden(Config) ->
    as_root(fun() ->
        with_node(nobody(), [], fun(OsPid) ->
            Without = "setpriv --bounding-set=-kill --inh-caps=-kill ",
            case os:cmd(Without ++ "kill -0 " ++ OsPid ++ " 2>&1") of
                "" -> {skip, "this system lets root send signals without the capability"};
                _ ->
                    {1, "", Said} = sonde(["--pid ", OsPid, " native --freeze --trust"], [{as, Without} | Config]),
                    {_, true} = {Said, is_one_line(Said) andalso has("cannot be stopped", Said) andalso has("root", Said)
                                       andalso has("without --freeze", Said)},
                    true = runs(OsPid)
            end
        end)
    end).

%% Another process that got its number: it began at another time.
no_other_process_gets_a_signal(_Config) ->
    with_node(fun(OsPid) ->
        Script = lists:append(string:replace(sonde_cli_freeze:script(), "'", "'\\''", all)),
        Out = fun(Begun) -> os:cmd(lists:concat(["sh -c '", Script, "' sh ", OsPid, " ", Begun, " 5 </dev/null 2>&1"])) end,
        "gone\n" = Out("1"),
        true = runs(OsPid),
        {ok, Stat} = file:read_file(["/proc/", OsPid, "/stat"]),
        [_, After] = binary:split(Stat, <<") ">>),
        %% as often as it is asked, however short it is
        _ = ["stopped\ncontinued\n" = Out(binary_to_list(lists:nth(20, string:lexemes(After, " ")))) || _ <- lists:seq(1, 50)],
        true = runs(OsPid)
    end).

%% ---- other places

%% As after an upgrade of the package.
executable_is_deleted(Config) ->
    Root = filename:join(get(dir, Config), "otp"),
    Bin = filename:join([Root, "erts-9.9", "bin"]),
    ok = filelib:ensure_dir(filename:join(Bin, "x")),
    "" = os:cmd(["cp ", bin(), "/* ", Bin]),
    ok = file:make_symlink(filename:join(code:root_dir(), "lib"), filename:join(Root, "lib")),
    ok = file:make_symlink(filename:join(code:root_dir(), "bin"), filename:join(Root, "bin")),
    with_vm(Root, Bin, "start_clean", fun(OsPid) ->
        ok = file:del_dir_r(filename:dirname(Bin)),
        #{<<"exe">> := Exe} = twin(OsPid, Config),
        true = has("(deleted)", binary_to_list(Exe)),
        [] = folders(Config)
    end).

bin() -> os:getenv("BINDIR").

release_with_boot_files_of_its_own(Config) ->
    Root = release(Config),
    Boot = filename:join([Root, "releases", "1.0", "start_clean"]),
    {ok, _} = file:copy(filename:join([code:root_dir(), "bin", "start_clean.boot"]), Boot ++ ".boot"),
    with_vm(Root, bin(), Boot, fun(OsPid) ->
        #{<<"line">> := Line} = twin(OsPid, Config),
        true = lists:member(list_to_binary(Boot), Line)
    end).

no_boot_file(Config) ->
    Root = release(Config),
    Boot = filename:join([Root, "releases", "1.0", "mine"]),
    {ok, _} = file:copy(filename:join([code:root_dir(), "bin", "start_clean.boot"]), Boot ++ ".boot"),
    with_vm(Root, bin(), Boot, fun(OsPid) ->
        {1, "", Said} = sonde(["--pid ", OsPid, " native"], Config),
        true = is_one_line(Said) andalso has("no start_clean.boot", Said)
    end).

release(Config) ->
    Root = filename:join(get(dir, Config), "release"),
    ok = filelib:ensure_dir(filename:join([Root, "releases", "1.0", "x"])),
    ok = file:make_symlink(filename:join(code:root_dir(), "lib"), filename:join(Root, "lib")),
    Root.

chroot_of_otp_27(Config) -> chroot("trixie", <<"27">>, Config).

chroot_of_otp_29(Config) -> chroot("sid", <<"29">>, Config).

chroot(Name, Release, Config) ->
    in_chroot(Name, fun(Root) ->
        with_node("chroot " ++ Root ++ " ", ["+P", "40000"], fun(OsPid) ->
            #{<<"otp">> := Release, <<"limit">> := 65536, <<"alive">> := false} = twin(OsPid, Config),
            [] = folders(Config),
            {0, Out, ""} = sonde(["--pid ", OsPid, " proc_count memory 1 --json"], [{real, true} | Config]),
            true = has("code_server", Out),
            {0, Rows, ""} = sonde(["--pid ", OsPid, " schedulers --json"], [{real, true} | Config]),
            true = has("[\"dirty_io\",1]", Rows) andalso not has("\"run_queue\":null", Rows)
        end)
    end).

%% Promise: a node in a container is read from the host. There it is process 1, and its files are not those of the host.
in_a_container(Config) -> container("", Config).

in_a_user_namespace(Config) -> container("--user --map-root-user ", Config).

container(User, Config) ->
    Enter = "unshare " ++ User ++ "--mount --pid --uts --ipc --net --fork --kill-child ",
    Dir = filename:join(get(dir, Config), "container"),
    ok = file:make_dir(Dir),
    in_chroot("trixie", fun(Root) ->
        Script = filename:join(get(dir, Config), "enter"),
        ok = file:write_file(Script, pivoted(Root, Dir)),
        case os:cmd([Enter, "sh ", Script, " echo can"]) of
            "can\n" -> with_port(["exec ", Enter, "sh ", Script, " erl -noinput -eval ", up()], contained(Config));
            Why -> {skip, "no namespaces or overlay here: " ++ lists:flatten(string:replace(Why, "\n", " ", all))}
        end
    end).

%% As container engines do it.
pivoted(Root, Dir) ->
    ["set -e\ncd ", Dir, "\nmount -t tmpfs tmpfs .\ncd ", Dir, "\nmkdir upper work root\n"
     "mount -t overlay overlay -o lowerdir=", Root, ",upperdir=upper,workdir=work root\n"
     "mount --rbind /dev root/dev\nmount -t proc proc root/proc\ncd root\nmkdir before\n"
     "pivot_root . before\numount -l /before\ncd /\nexec \"$@\"\n"].

contained(Config) ->
    fun(Port, "1") ->
        [_, OsPid | _] = family(os_pid(Port)),
        #{<<"otp">> := <<"27">>, <<"alive">> := false} = twin(OsPid, Config),
        Real = [{real, true} | Config],
        {0, Rows, ""} = sonde(["--pid ", OsPid, " proc_count memory 1000 --json"], Real),
        true = has("code_server", Rows) andalso has("\"application_controller\"", Rows),
        {0, Frozen, Said} = sonde(["--pid ", OsPid, " --freeze info init"], Real),
        true = has("init:loop/1", Frozen) andalso has("was stopped for", Said),
        {0, _, ""} = sonde(["--pid ", OsPid, " diagnose"], Real),
        [] = folders(Config)
    end.

%% Fun(Root), if there is that chroot of scripts/matrix.
in_chroot(Name, Fun) ->
    Cache = os:getenv("SONDE_CACHE", filename:join(os:getenv("XDG_CACHE_HOME",
                                                             os:getenv("HOME", "/") ++ "/.cache"), "sonde")),
    Root = filename:join(Cache, Name),
    case {os:cmd("id -u"), filelib:is_regular(filename:join(Root, "usr/bin/erl"))} of
        {"0\n", true} ->
            case sonde_test:has_musl() of
                true -> {skip, "the library here is not for the C library there"};
                false -> Fun(Root)
            end;
        _ -> {skip, "needs root, and the chroot " ++ Root ++ " of scripts/matrix"}
    end.

%% With colours, and as wide as the terminal.
a_terminal_is_the_twins(Config) ->
    case os:find_executable("script") of
        false -> {skip, "not installed: script"};
        _ ->
            with_node(fun(OsPid) ->
                Words = ["--pid ", OsPid, " proc_count memory 2"],
                Line = ["stty cols 50; ", command(Words, [{real, true} | Config])],
                File = filename:join(get(dir, Config), "in_a_terminal"),
                ok = file:write_file(File, Line),
                Port = run_shell(["script -qec 'sh ", File, "' /dev/null"],
                                 [{env, [{"TERM", "xterm"}, {"LC_ALL", "C.UTF-8"}]} | Config]),
                {0, Out} = collect(Port, <<>>),
                true = has("\e[1m", binary_to_list(Out)),
                [] = [Text || Text <- string:split(Out, "\r\n", all),
                              Plain <- [re:replace(Text, "\e\\[[0-9]*m", "", [global, unicode, {return, list}])],
                              length(Plain) > 50]
            end)
    end.

%% One process is sensitive and waits: it is not said to run. One runs, and no advice is given that cannot be followed.
what_is_not_known_there_is_said(Config) ->
    Up = "'register(silent, spawn(fun() -> process_flag(sensitive, true), receive never -> ok end end)), "
         "register(spins, spawn(fun F() -> F() end)), "
         "[silent ! {work, I} || I <- lists:seq(1, 10)], io:put_chars([os:getpid(), 10])'",
    with_port(["exec erl -noinput -eval ", Up], fun(OsPid) ->
        Run = fun(Words) -> sonde(["--pid ", OsPid, " ", Words], [{real, true} | Config]) end,
        Said = [{"silent", "waits, but not known from outside"}, {"spins", "busy"}],
        ok = sonde_test:until(both_are_named, fun() ->
            {0, [_ | _], Missed} = Run("proc_count memory 1"),
            [] =:= [Name || {Name, Why} <- Said,
                            re:run(Missed, ["> ", Name, " in [^(]*\\(", Why, "\\)"]) =:= nomatch]
        end),
        %% in JSON as well, and on standard error
        {0, Json, Named} = Run("proc_count memory 1 --json"),
        #{<<"missed">> := #{<<"pids">> := Pids}} = read(Json),
        [{<<"waits, but not known from outside">>, <<"erlang:apply/2">>, <<_, _/bits>>}] =
            [{Why, Call, Current} || #{<<"name">> := <<"silent">>, <<"why">> := Why, <<"initial_call">> := Call,
                                       <<"current_function">> := Current} <- Pids],
        true = has("> silent in ", Named),
        %% Between two of its time slices it can be read.
        ok = sonde_test:until(refused, fun() ->
            case Run("heap spins") of
                {0, [_ | _], _} -> false;
                {1, "", No} -> has("the process cannot be read from outside", No) andalso not has("--suspend", No)
            end
        end)
    end).

%% Nothing was read: then nothing is known to be well.
no_time_is_no_answer(Config) ->
    with_node(fun(OsPid) ->
        Run = fun(Words) -> sonde(["--pid ", OsPid, " ", Words], [{real, true} | Config]) end,
        {1, Out, Said} = Run("diagnose --interval 0 --timeout 0"),
        {_, true} = {Out, has("No process was read in full", Out) andalso not has("No suspects", Out)
                          andalso has("processes: no time was left for ", Out)},
        true = has("no time left", Said),
        {1, Json, _} = Run("diagnose --interval 0 --timeout 0 --json"),
        #{<<"read">> := 0, <<"suspects">> := [], <<"not_looked_at">> := #{<<"processes">> := [<<"no_time">>, N]}} = read(Json),
        true = N > 10,
        {0, "no process waits for another one, of those that were read\n", Missed} = Run("waits 3 --timeout 0"),
        true = has("no time left", Missed)
    end).

%% None was asked for: that is not to say that there is none. Content that was not asked for is not forbidden.
none_is_said_of_all(Config) ->
    with_node(fun(OsPid) ->
        "" = os:cmd("kill -STOP " ++ OsPid),
        Run = fun(Words) -> of_stopped(OsPid, Words, [{real, true} | Config]) end,
        _ = [{Words, {0, "none asked for\n", ""}} = {Words, Run(Words)}
             || Words <- ["waits 0", "bin_waste 0", "heap_top init 0"]],
        {0, "no process waits for another one\n", ""} = Run("waits 1"),
        _ = [begin
                 {0, Text, ""} = Run(Words),
                 {0, Json, ""} = Run(Words ++ " --json"),
                 {Words, true} = {Words, has("needs --values", Text) andalso has("\"not_asked\"", Json)
                                         andalso not has("forbidden", Text ++ Json)},
                 {0, Shown, ""} = Run(Words ++ " --values"),
                 {Words, false} = {Words, has("needs --values", Shown)}
             end || Words <- ["heap_top init 2", "mailbox init 2"]]
    end).

%% Nothing changes in a node that is stopped, so each call has the same stacks.
flame_graphs_are_those_of_the_rows(Config) ->
    with_xml(fun() -> flame_graphs(Config) end).

with_xml(Fun) ->
    case code:which(xmerl_sax_parser) of
        non_existing -> {skip, "not installed: xmerl"};
        _ -> Fun()
    end.

flame_graphs(Config) ->
    Ebin = filename:dirname(code:which(?MODULE)),
    with_node("", [["-pa '", Ebin, "' -s outside_SUITE start_odd"]], fun(OsPid) ->
        "" = os:cmd("kill -STOP " ++ OsPid),
        Rows = same_stacks(fun(Words) -> sonde(["--pid ", OsPid, " ", Words], [{real, true} | Config]) end, Config),
        [3] = [N || #{<<"stack">> := [Odd | _], <<"processes">> := N} <- Rows, string:find(Odd, "<a&b>") =/= nomatch]
    end).

%% In the target: functions whose name is markup.
start_odd() ->
    _ = [spawn(?MODULE, '<a&b>\"', []) || _ <- [1, 2, 3]],
    ok.

'<a&b>\"'() -> receive never -> ok end.

%% The rows of a call, of which the lines and the picture say the same. Also core_SUITE's.
same_stacks(Run, Config) ->
    {0, Json, _} = Run("stacks 1000 --json"),
    #{<<"rows">> := Rows} = read(Json),
    Stacks = [{case lists:reverse([unquoted(Call) || Call <- Stack]) of [] -> [<<"(none)">>]; Calls -> Calls end, N}
              || #{<<"stack">> := Stack, <<"processes">> := N} <- Rows],
    {_, true} = {Stacks, length(Stacks) > 5},
    {0, Lines, _} = Run("stacks 1000 --collapsed"),
    {Same, Same} = {lists:sort([binary_to_list(iolist_to_binary([lists:join($;, Calls), $\s, integer_to_list(N)])) || {Calls, N} <- Stacks]),
                    lists:sort(string:lexemes(unquoted(Lines), "\n"))},
    File = filename:join(get(dir, Config), "stacks.svg"),
    {0, Svg, _} = Run("stacks 1000 --svg -"),
    {0, "", _} = Run(["stacks 1000 --svg ", File]),
    {ok, Written} = file:read_file(File),
    Written = list_to_binary(Svg),
    Drawn = [{[unquoted(Call) || Call <- Path], N} || {Path, N} <- drawn(Svg)],
    Expected = maps:to_list(lists:foldl(fun({Calls, N}, Sums) ->
                                            lists:foldl(fun(Length, Acc) ->
                                                            maps:update_with(lists:sublist([<<"all">> | Calls], Length), fun(M) -> M + N end, N, Acc)
                                                        end, Sums, lists:seq(1, 1 + length(Calls)))
                                        end, #{}, Stacks)),
    {[], []} = {Expected -- Drawn, Drawn -- Expected},
    Rows.

%% Lines for other tools have no quotes around names.
unquoted(Call) when is_binary(Call) -> binary:replace(Call, <<"'">>, <<>>, [global]);
unquoted(Text) -> Text -- [$' || $' <- Text].

%% Each function of a picture: its path from the bottom, by where it stands, and its number of processes, which is also
%% its width.
drawn(Svg) ->
    Frames = frames(list_to_binary(Svg)),
    [{Total, _, _, Whole, <<"all">>}] = [Frame || {_, _, _, _, <<"all">>} = Frame <- Frames],
    [] = [Frame || {N, _, _, Width, _} = Frame <- Frames, abs(Width - N * Whole / Total) > 0.02],
    [{lists:reverse(path(Frame, Frames)), N} || {N, _, _, _, _} = Frame <- Frames].

%% The one below holds it from side to side.
path({_, X, Y, Width, Name}, Frames) ->
    case [Below || {_, X1, Y1, Width1, _} = Below <- Frames, Y1 =:= Y + 19, X1 =< X + 0.02, X1 + Width1 >= X + Width - 0.02] of
        [] -> [Name];
        [Below] -> [Name | path(Below, Frames)]
    end.

%% The picture is well-formed XML.
frames(Svg) ->
    {ok, {[], Frames}, <<"\n">>} = xmerl_sax_parser:stream(Svg, [{event_fun, fun event/3}, {event_state, {[], []}}]),
    Frames.

%% Of a title and a rectangle in a group, a frame.
event({startElement, _, "title", _, _}, _, {_, Frames}) -> {[title], Frames};
event({characters, Text}, _, {[title | Before], Frames}) -> {[title | Before ++ Text], Frames};
event({startElement, _, "rect", _, Attrs}, _, {[title | Title], Frames}) ->
    case {re:run(Title, "^(.*): ([0-9,]+) process(?:es)?, [0-9.]+%$", [unicode, {capture, all_but_first, binary}]),
          maps:from_list([{Name, Value} || {_, _, Name, Value} <- Attrs])} of
        {{match, [Name, N]}, #{"x" := X, "y" := Y, "width" := Width}} ->
            {[], [{binary_to_integer(binary:replace(N, <<",">>, <<>>, [global])), list_to_float(X), list_to_integer(Y), list_to_float(Width), Name} | Frames]};
        {nomatch, _} -> {[], Frames} % that of the whole picture
    end;
event(_, _, State) -> State.

%% The file that scripts/escript makes, on a node that is stopped.
command_answers(Config) ->
    as_one_file(Config, fun(File) ->
        with_node(fun(OsPid) ->
            "" = os:cmd("kill -STOP " ++ OsPid),
            _ = [{Words, {0, [_ | _], ""}} =
                     {Words, of_stopped(OsPid, Words, [{file, File} | Config])}
                 || Words <- ["native", "proc_count memory 3 --json", "stacks 3", "schedulers", "stacks 3 --collapsed",
                              "info code_server", "info 0.0.0 memory --json", "heap init", "waits 3",
                              "proc_group initial_call memory reductions", "waits 3 --timeout 10000"]],
            _ = [{Words, Said} = {Words, of_stopped(OsPid, Words, [{file, File} | Config])}
                 || {Words, Why} <- [{"heap nobody", "it has no process that is registered as nobody"},
                                     {"info 0.1.99999999999", "no process can have the pid 0.1.99999999999"},
                                     {"info 0.7777.0", "it has no process <0.7777.0>"},
                                     {"info init links", "links cannot be read from outside the node"},
                                     {"proc_group label memory", "label cannot be read from outside the node"}],
                    Said <- [{1, "", "sonde: process " ++ OsPid ++ ": " ++ Why ++ "\n"}]],
            Report = filename:join(get(dir, Config), "report.html"),
            Run = fun(More) -> of_stopped(OsPid, ["report ", Report, More], [{file, File} | Config]) end,
            {0, _, Missing} = Run(""),
            true = has("missing in the report: tables: tables cannot be read from outside the node", Missing),
            %% the diagnosis is there, and not all of it
            true = has("not complete in the report: diagnosis: of the memory, only that of processes", Missing),
            false = has("missing in the report: diagnosis", Missing),
            Node = list_to_binary("process " ++ OsPid),
            #{<<"node">> := Node, <<"made_by">> := <<_, _/bits>>} = report_SUITE:data([{file, Report}]),
            {0, Page, Missing} = of_stopped(OsPid, "report -", [{file, File} | Config]),
            true = cli_SUITE:is_page(Page),
            {1, "", Exists} = Run(""),
            true = has("exists", Exists),
            {0, Json, _} = Run(" --force --json"),
            Bytes = filelib:file_size(Report),
            #{<<"bytes">> := Bytes, <<"missing">> := [_ | _], <<"incomplete">> := [#{<<"section">> := _, <<"why">> := _} | _]} = read(Json),
            [] = folders(Config)
        end)
    end).

%% Fun(File), where File is the command as one file.
as_one_file(Config, Fun) ->
    case os:find_executable("escript") of
        false ->
            {skip, "not installed: escript"};
        _ ->
            File = filename:join(get(dir, Config), "sonde"),
            "" = os:cmd([filename:join(os:getenv("SONDE_ROOT", "."), "scripts/escript"), " '",
                         sonde_attach_helper:ebin(), "' '", File, "'"]),
            Fun(File)
    end.

%% Without the line that says so.
of_stopped(OsPid, Words, Config) ->
    {Code, Out, Said} = sonde(["--pid ", OsPid, " ", Words], Config),
    [First, Others] = string:split(Said, "\n"),
    {_, true} = {Said, has("process " ++ OsPid ++ " is stopped", First)},
    {Code, Out, Others}.

%% ---- nodes

%% Fun gets the OS pid of a node that has nothing to do.
with_node(Fun) -> with_node("", [], Fun).

with_node(Before, Flags, Fun) ->
    with_port(["exec ", Before, "erl ", lists:join($\s, Flags), " -noinput -eval ", up()], Fun).

up() -> "'io:put_chars([os:getpid(), 10])'".

%% A VM as erlexec starts it.
with_vm(Root, Bin, Boot, Fun) ->
    with_port(vm("", Root, Bin, Boot), Fun).

vm(Before, Root, Bin, Boot) ->
    ["ROOTDIR=", Root, " BINDIR=", Bin, " EMU=beam PROGNAME=erl exec ", Before, Bin, "/beam.smp",
     " -- -root ", Root, " -bindir ", Bin, " -progname erl -- -home / -- -boot ", Boot,
     " -noshell -noinput -eval ", up()].

with_port(Script, Fun) ->
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", unicode:characters_to_list(Script)]}, {line, 200}, exit_status,
                      stderr_to_stdout, {env, [{"ERL_FLAGS", false}, {"ERL_LIBS", false}, {"HOME", "/"}]}, {cd, "/"}]),
    try
        receive
            {Port, {data, {eol, "1"}}} -> Fun(Port, "1");
            {Port, {data, {eol, OsPid}}} -> true = list_to_integer(OsPid) > 1, Fun(OsPid);
            {Port, Other} -> error({no_node, Other})
        end
    after stop(Port)
    end.

%% It may end by itself just now; then kill finds nobody.
stop(Port) ->
    case erlang:port_info(Port, os_pid) of
        {os_pid, OsPid} -> _ = os:cmd(lists:concat(["kill -KILL ", OsPid])), true;
        undefined -> true
    end.

os_pid(Port) ->
    {os_pid, OsPid} = erlang:port_info(Port, os_pid),
    integer_to_list(OsPid).

%% ---- the command

%% What the twin says of itself.
twin(OsPid, Config) ->
    {0, Out, ""} = sonde(["--pid ", OsPid, " native --json"], Config),
    read(Out).

sonde(Words, Config) ->
    Errors = filename:join(get(dir, Config), "stderr"),
    ok = file:write_file(Errors, ""),
    Port = run_shell([command(Words, Config), " 2>>", Errors, " </dev/null"], Config),
    {Code, Out} = collect(Port, <<>>),
    {ok, Said} = file:read_file(Errors),
    {Code, binary_to_list(Out), binary_to_list(Said)}.

%% `real': with sonde's own sonde_outside; `file': the command as one file; `as': as another user.
command(Words, Config) ->
    Ebin = case get(real, Config) of
               true -> sonde_attach_helper:ebin();
               _ -> filename:join(get(stub, Config), "ebin")
           end,
    [proplists:get_value(as, Config, ""),
     case get(file, Config) of
         undefined -> ["erl +Bd -boot no_dot_erlang -noinput -pa ", Ebin, " -eval 'sonde_cli:main(init:get_plain_arguments()).' -extra "];
         File -> [File, $\s]
     end, Words].

run_shell(Script, Config) ->
    Env = [{"TMPDIR", get(dir, Config)}, {"TWIN", proplists:get_value(twin, Config, "")},
           {"ERL_FLAGS", false}, {"TERM", "dumb"}, {"HOME", "/"}],
    open_port({spawn_executable, "/bin/sh"},
              [{args, ["-c", unicode:characters_to_list(Script)]},
               {env, maps:to_list(maps:merge(maps:from_list(Env), maps:from_list(
                                                                    proplists:get_value(env, Config, []))))},
               {cd, "/"}, exit_status, binary]).

%% In the place of its shell.
started(Words, Config) ->
    run_shell(["exec ", command(Words, Config), " </dev/null"], Config).

collect(Port, Out) ->
    receive
        {Port, {data, Data}} -> collect(Port, <<Out/binary, Data/binary>>);
        {Port, {exit_status, Code}} -> {Code, Out}
    end.

read(Json) -> cli_SUITE:read(list_to_binary(Json)).

is_one_line(Said) ->
    lists:prefix("sonde: ", Said) andalso length(string:split(Said, "\n", all)) =:= 2.

has(Part, Text) ->
    string:find(Text, Part) =/= nomatch.
