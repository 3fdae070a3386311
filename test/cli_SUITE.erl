%% The command `sonde': what it parses, prints and returns. Cases about the OS process run the file
%% that scripts/escript makes (command/2); the others call the same code in a node (sonde/2). The
%% nodes that the command looks at are connected over the loopback interface and have sonde loaded
%% temporarily throughout.
-module(cli_SUITE).

-compile([export_all, nowarn_export_all]).

-import(sonde_peer_helper, [call/4]).

suite() -> [{timetrap, {minutes, 3}}].

all() ->
    [every_command_is_parsed, options_stand_anywhere, wrong_words_are_one_line, out_of_range_is_wrong_usage,
     attributes_become_no_atoms, help_has_every_command, every_option_is_in_the_help,
     every_call_of_the_table_is_there, bash_completes, completions_are_shell_scripts,
     json_is_read_back, json_of_what_it_has_nothing_for, json_of_rows, jq_reads_it,
     pids_are_those_of_the_node, file_works_on_its_own, the_process_has_the_exit_code,
     every_command_answers, stacks_for_flame_graphs, what_was_not_read_is_said, suspends_what_runs,
     bin_holder_is_who_holds_it, bin_window_is_who_grows,
     port_info_is_about_that_port, inet_window_is_who_sends, top_is_one_look_where_nobody_types,
     timeout_is_beyond_what_the_call_waits_for, suspend_holds_the_process, values_are_in_the_dump,
     what_goes_wrong_is_one_line, cookies, dump_is_a_file_here, report_is_a_file_here, a_report_is_printed, a_report_of_another_watcher, reports_of_a_cluster, diagnosis_with_suspects_is_3,
     names_beyond_latin_1, elixir_is_as_elixir_writes_it, calls_to_type_are_elixirs,
     nothing_is_cut_or_coloured_for_nobody, cluster_is_one_table,
     no_column_is_called_value, empty_answers_are_sentences, calls_are_in_no_row,
     wrong_spelling_says_what_to_try, sigterm_ends_it_at_once, sigterm_leaves_nothing,
     cluster_of_diagnoses,
     cluster_of_accounts, cluster_merges_largest_first, cluster_says_who_failed, cluster_takes_no_funs].

%% The command is the same on either path: the target node chooses between native and portable.
init_per_suite(Config0) ->
    case os:find_executable("escript") of
        false -> {skip, "not installed: escript"};
        _ -> with_nodes(with_command(sonde_test:init(Config0)))
    end.

with_command(Config) ->
    Root = os:getenv("SONDE_ROOT", "."),
    File = filename:join(get(priv_dir, Config), "sonde"),
    Ebin = sonde_attach_helper:ebin(),
    "" = os:cmd(filename:join(Root, "scripts/escript") ++ " '" ++ Ebin ++ "' '" ++ File ++ "'"),
    [{sonde, File} | Config].

%% One node that calls, and two nodes that it looks at.
with_nodes(Config) ->
    Dir = folder(nodes, Config),
    {Home, _} = sonde_attach_helper:home(Dir),
    true = call(Home, os, putenv, ["SONDE_COOKIE", sonde_attach_helper:cookie()]),
    Bare = [sonde_attach_helper:bare(Dir) || _ <- [1, 2]],
    _ = [{ok, native} = sonde_attach_helper:attach(Home, Node, Node) || {_, Node} <- Bare],
    Holder = call(element(1, hd(Bare)), ?MODULE, start_holder, []),
    [{nodes, [Home | Bare]}, {holder, Holder} | Config].

end_per_suite(Config) ->
    [Home | Bare] = get(nodes, Config),
    _ = [sonde_attach_helper:stop(Peer) || Peer <- [Home | [P || {P, _} <- Bare]]],
    ok.

init_per_testcase(Case, Config) ->
    [{dir, folder(Case, Config)} | Config].

end_per_testcase(_Case, _Config) ->
    ok.

folder(Name, Config) ->
    Dir = filename:join(get(priv_dir, Config), Name),
    ok = file:make_dir(Dir),
    Dir.

get(Key, Config) -> proplists:get_value(Key, Config).

%% ---- arguments

%% Each command gets an argument of the right kind at each place.
every_command_is_parsed(_Config) ->
    _ = [begin
             Words = ["--node", "a@h", Name | [word(T) || #{type := T} <- Args]],
             check_parsed(Command, sonde_cli_args:parse(Words))
         end || #{name := Name, args := Args} = Command <- sonde_cli_table:commands()],
    ok.

check_parsed(#{run := help}, {help, Command}) when is_map(Command) -> ok;
check_parsed(#{args := Args} = Command, {run, Command, Values, #{node := a@h}}) ->
    true = length(Args) =:= length(Values),
    ok.

word({one_of, [Atom | _]}) -> atom_to_list(Atom);
word(process) -> "<0.1.0>";
word(port) -> "#Port<0.1>";
word(local_file) -> "file";
word(command) -> "top";
word(_) -> "3".

options_stand_anywhere(_Config) ->
    Parsed = {run, sonde_cli_table:command("bin_leak"), [3], #{node => a@h, json => true}},
    _ = [Parsed = sonde_cli_args:parse(string:lexemes(Words, " "))
         || Words <- ["--node a@h --json bin_leak 3", "bin_leak 3 --json --node a@h",
                      "bin_leak --node=a@h 3 -j", "-n a@h -j -- bin_leak 3"]],
    {run, _, [{process, "--json"}], #{node := a@h}} =
        sonde_cli_args:parse(["-n", "a@h", "heap", "--", "--json"]),
    {help, #{name := "heap"}} = sonde_cli_args:parse(["heap", "--help"]),
    {help, none} = sonde_cli_args:parse(["--help"]),
    {help, none} = sonde_cli_args:parse(["help"]),
    {help, #{name := "heap"}} = sonde_cli_args:parse(["help", "heap"]),
    version = sonde_cli_args:parse(["--version"]),
    {run, _, [memory, 3], #{cluster := [a@h, b@h]}} =
        sonde_cli_args:parse(["--cluster", "a@h,b@h", "proc_count", "memory", "3"]),
    {run, _, [application, [memory, reductions]], _} =
        sonde_cli_args:parse(["-n", "a@h", "proc_group", "application", "memory", "reductions"]),
    {run, _, [2], _} = sonde_cli_args:parse(["-n", "a@h", "bin_holders", "2"]),
    {run, _, [2, count], _} = sonde_cli_args:parse(["-n", "a@h", "bin_holders", "2", "count"]),
    ok.

wrong_words_are_one_line(Config) ->
    %% a file without a name, as an argument or of an option
    _ = [{Args, Why} = {Args, lists:flatten(element(2, sonde_cli_args:parse(Args)))}
         || {Args, Why} <- [{["-n", "a@h", "report", ""], "FILE is empty"}, {["-n", "a@h", "dump", "init", ""], "FILE is empty"},
                            {["--core", "", "native"], "--core is empty"}]],
    _ = [begin
             {2, "", Said} = sonde(Words, Config),
             {Words, true} = {Words, is_one_line(Said)}
         end || Words <- ["", "native", "--frob native", "--node a@h frob", "--node a native",
                          "--node a@h native 3", "--node a@h bin_leak", "--node a@h bin_leak x",
                          "--node a@h bin_leak -1", "--node a@h proc_count nonsense 3",
                          "--node a@h heap_top 0.1.0 3 --force", "--node a@h native --json=yes",
                          "--node", "--node a@h --cluster a@h,b@h bin_leak 1",
                          "--cluster a@h heap 0.1.0", "help nonsense", "completion tcsh",
                          "--node a@h scheduler_usage 99999999999", "-x"]],
    ok.

%% Nothing is loaded onto a node for a call that it would refuse.
out_of_range_is_wrong_usage(_Config) ->
    Parsed = fun(Words) -> sonde_cli_args:parse(string:lexemes(Words, " ")) end,
    _ = [{Words, {wrong, _}} = {Words, Parsed(Words)}
         || Words <- ["-n a@h stacks 3 --depth 0", "-p 1 stacks 3 --depth 0", "-c a@h,b@h stacks 3 --depth 65",
                      "-n a@h diagnose --interval 99", "-c a@h,b@h diagnose --interval 600001",
                      "-n a@h report file --interval 1", "-c , proc_count memory 1",
                      "-n a@h native --trust"]],
    _ = [{Words, {run, _, _, _}} = {Words, Parsed(Words)}
         || Words <- ["-n a@h stacks 3 --depth 64", "-n a@h diagnose --interval 100",
                      "-p 1 diagnose --interval 0", "-c a@h, proc_count memory 1"]],
    ok.

%% Not even a wrong attribute becomes an atom.
attributes_become_no_atoms(_Config) ->
    Unknown = "unknown_" ++ integer_to_list(erlang:unique_integer([positive])),
    _ = [{wrong, _} = sonde_cli_args:parse(["-n", "a@h" | Words])
         || Words <- [["proc_count", Unknown, "3"], [Unknown], ["info", "0.1.0", Unknown],
                      ["--" ++ Unknown, "native"]]],
    badarg = sonde_test:raised(fun() -> list_to_existing_atom(Unknown) end),
    ok.

%% ---- help

help_has_every_command(Config) ->
    {0, General, ""} = sonde("--help", Config),
    _ = [begin
             {Name, true} = {Name, has("  " ++ Name, General)},
             {0, Text, ""} = sonde("help " ++ Name, Config),
             {0, Text, ""} = sonde(Name ++ " --help", Config),
             {Name, true} = {Name, has(Name, Text) andalso has("Usage: sonde", Text)},
             narrow(Text)
         end || Name <- ["proc_count", "dump", "completion", "diagnose"]],
    _ = [begin
             Text = unicode:characters_to_list(sonde_cli_help:command(Command)),
             {Name, true} = {Name, has(Name, General) andalso has(Name, Text)},
             narrow(Text)
         end || #{name := Name} = Command <- sonde_cli_table:commands()],
    narrow(General).

narrow(Text) ->
    [] = [Line || Line <- string:split(Text, "\n", all), length(Line) > 80],
    ok.

every_option_is_in_the_help(Config) ->
    {0, General, ""} = sonde("--help", Config),
    _ = [{Name, true} = {Name, has("--" ++ atom_to_list(Name), General)}
         || #{name := Name} <- sonde_cli_table:options()],
    _ = [{Name, true} = {Name, has("--" ++ atom_to_list(Name),
                                   unicode:characters_to_list(sonde_cli_help:command(Command)))}
         || #{options := Options} = Command <- sonde_cli_table:commands(),
            #{name := Name} <- Options],
    {0, "sonde " ++ _, ""} = sonde("--version", Config).

%% A call must exist with each number of arguments that the table allows.
every_call_of_the_table_is_there(_Config) ->
    _ = code:ensure_loaded(sonde),
    [] = [{F, Arity}
          || #{run := {sonde, F}, args := Args} = Command <- sonde_cli_table:commands(),
             Least <- [length([A || A <- Args, not is_map_key(optional, A)])],
             Arity <- lists:usort([Least, length(Args)
                                   | [length(Args) + 1 || #{options := _} <- [Command]]]),
             not erlang:function_exported(sonde, F, Arity)],
    ok.

%% ---- completions

bash_completes(Config) ->
    case os:find_executable("bash") of
        false ->
            {skip, "no bash"};
        _ ->
            File = script(bash, Config),
            Complete = fun(Words) ->
                Last = length(Words),
                Line = ["source ", File, "; COMP_WORDS=(", [["'", W, "' "] || W <- Words], ")",
                        "; COMP_CWORD=", integer_to_list(Last - 1), "; _sonde",
                        "; echo ${COMPREPLY[*]}"],
                string:lexemes(os:cmd("bash -c \"" ++ quoted(lists:flatten(Line)) ++ "\""), " \n")
            end,
            true = lists:sort([N || #{name := N} <- sonde_cli_table:commands()])
                =:= lists:sort(Complete(["sonde", ""])),
            ["proc_count"] = Complete(["sonde", "--node", "a@h", "proc_c"]),
            ["reductions"] = Complete(["sonde", "--node", "a@h", "proc_count", "red"]),
            [] = Complete(["sonde", "--node", "a@h", "proc_count", "memory", ""]),
            ["reductions"] = Complete(["sonde", "proc_group", "application", "memory", "red"]),
            ["--force"] = Complete(["sonde", "dump", "--fo"]),
            ["--node"] = Complete(["sonde", "--no"]),
            ["diagnose"] = Complete(["sonde", "help", "diag"]),
            [] = Complete(["sonde", "--node", ""])
    end.

quoted(Line) ->
    lists:append([case lists:member(C, "\"$`\\") of true -> [$\\, C]; false -> [C] end
                  || C <- Line]).

completions_are_shell_scripts(Config) ->
    _ = [begin
             File = script(Shell, Config),
             "" = os:cmd(atom_to_list(Shell) ++ " -n " ++ File)
         end || Shell <- [bash, zsh, fish], os:find_executable(atom_to_list(Shell)) =/= false],
    ok.

script(Shell, Config) ->
    File = filename:join(get(priv_dir, Config),
                         "completion." ++ atom_to_list(Shell)),
    ok = file:write_file(File, unicode:characters_to_binary(sonde_cli_complete:script(Shell))),
    File.

%% ---- JSON

%% A reader that follows RFC 8259 and knows nothing of Erlang must read back what was written.
json_is_read_back(_Config) ->
    _ = rand:seed(exsss, {1, 2, 3}),
    _ = [begin
             Term = some_json(4),
             Text = iolist_to_binary(sonde_json:encode(Term)),
             [] = [C || <<C>> <= Text, C < 32 orelse C > 126],
             {Term, Term} = {Term, read(Text)}
         end || _ <- lists:seq(1, 3000)],
    ok.

%% Only terms that survive the round trip: text is a binary, `undefined' is null.
some_json(0) -> some_leaf(rand:uniform(5));
some_json(Depth) ->
    case rand:uniform(4) of
        1 -> maps:from_list([{some_text(), some_json(Depth - 1)} || _ <- some()]);
        2 -> [some_json(Depth - 1) || _ <- some()];
        _ -> some_json(0)
    end.

some() -> lists:seq(1, rand:uniform(5) - 1).

some_leaf(1) -> rand:uniform(1 bsl 80) - (1 bsl 79);
some_leaf(2) -> (rand:uniform() - 0.5) * math:pow(10, rand:uniform(600) - 300);
some_leaf(3) -> lists:nth(rand:uniform(3), [true, false, undefined]);
some_leaf(_) -> some_text().

some_text() ->
    unicode:characters_to_binary([some_char(rand:uniform(6)) || _ <- some()]).

some_char(1) -> rand:uniform(32) - 1;
some_char(2) -> lists:nth(rand:uniform(4), "\"\\/\d");
some_char(3) -> 16#FFFF + rand:uniform(16#100000);
some_char(4) -> 16#7FF + rand:uniform(16#C000);
some_char(_) -> $a + rand:uniform(26) - 1.

json_of_what_it_has_nothing_for(_Config) ->
    Ref = make_ref(),
    _ = [{Term, Json} = {Term, read(iolist_to_binary(sonde_json:encode(Term)))}
         || {Term, Json} <-
                [{self(), list_to_binary(pid_to_list(self()))},
                 {Ref, list_to_binary(ref_to_list(Ref))},
                 {fun lists:map/2, <<"fun lists:map/2">>},
                 {{lists, map, 2}, <<"lists:map/2">>},
                 {"text", <<"text">>}, {[], []}, {{}, []}, {#{}, #{}}, {[1, 2], [1, 2]},
                 {<<255, 0>>, <<"<<255,0>>">>}, {<<1:3>>, <<"<<1:3>>">>},
                 {[1 | 2], <<"[1|2]">>}, {atom, <<"atom">>}, {{a, 1}, [<<"a">>, 1]},
                 {[{a, 1}, {b, 2}], #{<<"a">> => 1, <<"b">> => 2}},
                 {[{a, 1}, {a, 2}], [[<<"a">>, 1], [<<"a">>, 2]]},
                 {#{1 => 2, {a, b} => c}, #{<<"1">> => 2, <<"{a,b}">> => <<"c">>}},
                 {1.0e22, 1.0e22}, {-0.5, -0.5}]],
    ok.

json_of_rows(_Config) ->
    Rows = [{self(), 3, [a_name, {initial_call, {m, f, 1}}]}],
    Command = sonde_cli_table:command("proc_count"),
    {ok, Shown} = shown(fun() -> sonde_cli_show:show(json, Command, [], Rows, #{}) end),
    Pid = list_to_binary(pid_to_list(self())),
    #{<<"rows">> := [#{<<"pid">> := Pid, <<"value">> := 3, <<"name">> := <<"a_name">>,
                       <<"initial_call">> := <<"m:f/1">>}]} = read(list_to_binary(Shown)).

jq_reads_it(Config) ->
    case os:find_executable("jq") of
        false ->
            {skip, "no jq"};
        _ ->
            _ = rand:seed(exsss, {4, 5, 6}),
            File = filename:join(get(priv_dir, Config), "some.json"),
            Objects = [[sonde_json:encode(#{some => some_json(4)}), $\n] || _ <- lists:seq(1, 500)],
            ok = file:write_file(File, Objects),
            "500\n" = os:cmd("jq -c . '" ++ File ++ "' | wc -l"),
            ok
    end.

%% ---- a reader of JSON

read(Text) ->
    {Value, Rest} = value(space(Text)),
    <<>> = space(Rest),
    Value.

space(<<C, Rest/binary>>) when C =:= $\s; C =:= $\n; C =:= $\r; C =:= $\t -> space(Rest);
space(Text) -> Text.

value(<<"null", Rest/binary>>) -> {undefined, Rest};
value(<<"true", Rest/binary>>) -> {true, Rest};
value(<<"false", Rest/binary>>) -> {false, Rest};
value(<<$", Rest/binary>>) -> text(Rest, <<>>);
value(<<$[, Rest/binary>>) -> several(space(Rest), $], fun value/1, []);
value(<<${, Rest/binary>>) ->
    {Pairs, Left} = several(space(Rest), $}, fun pair/1, []),
    true = length(Pairs) =:= length(lists:ukeysort(1, Pairs)),
    {maps:from_list(Pairs), Left};
value(Text) ->
    {match, [{0, Length} | _] = Found} =
        re:run(Text, "^-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][-+]?[0-9]+)?"),
    <<Number:Length/binary, Rest/binary>> = Text,
    {number(Number, length(Found)), Rest}.

number(Number, 2) -> binary_to_integer(Number);
number(Number, _) ->
    case binary:match(Number, <<".">>) of
        nomatch -> binary_to_float(binary:replace(Number, <<"e">>, <<".0e">>));
        _ -> binary_to_float(Number)
    end.

several(<<End, Rest/binary>>, End, _, []) -> {[], Rest};
several(Text, End, One, Before) ->
    {Value, Rest} = One(space(Text)),
    case space(Rest) of
        <<$,, More/binary>> -> several(space(More), End, One, [Value | Before]);
        <<End, Left/binary>> -> {lists:reverse([Value | Before]), Left}
    end.

pair(<<$", Text/binary>>) ->
    {Key, Rest} = text(Text, <<>>),
    <<$:, Left/binary>> = space(Rest),
    {Value, Last} = value(space(Left)),
    {{Key, Value}, Last}.

text(<<$", Rest/binary>>, Done) -> {Done, Rest};
text(<<"\\u", High:4/binary, "\\u", Low:4/binary, Rest/binary>>, Done)
  when (High >= <<"d800">> andalso High =< <<"dbff">>) ->
    Char = 16#10000 + ((hex(High) - 16#D800) bsl 10) + hex(Low) - 16#DC00,
    text(Rest, <<Done/binary, Char/utf8>>);
text(<<"\\u", Hex:4/binary, Rest/binary>>, Done) ->
    text(Rest, <<Done/binary, (hex(Hex))/utf8>>);
text(<<$\\, C, Rest/binary>>, Done) ->
    {C, Char} = lists:keyfind(C, 1, [{$", $"}, {$\\, $\\}, {$/, $/}, {$n, $\n}, {$r, $\r},
                                     {$t, $\t}, {$b, $\b}, {$f, $\f}]),
    text(Rest, <<Done/binary, Char>>);
text(<<C/utf8, Rest/binary>>, Done) when C >= 32 ->
    text(Rest, <<Done/binary, C/utf8>>).

hex(Hex) -> binary_to_integer(Hex, 16).

%% ---- commands on nodes

%% Pids are written as the target node itself writes them.
pids_are_those_of_the_node(Config) ->
    {Peer, Node} = bare(Config),
    #{<<"links">> := Seen} = json(at(Node, "info kernel_sup links"), Config),
    Seen = [_ | _] = call(Peer, ?MODULE, links_as_text, [kernel_sup]),
    Pid = call(Peer, ?MODULE, pid_as_text, [kernel_sup]),
    Rows = answer(at(Node, "proc_count reductions 1000"), Config),
    true = has(Pid ++ " ", Rows),
    true = has("supervisor:kernel/1", Rows),
    false = has("proc_lib:init_p/5", Rows),
    true = has("supervisor:kernel/1", answer(at(Node, "info " ++ Pid ++ " location"), Config)),
    Same = answer(at(Node, "info " ++ Pid ++ " registered_name"), Config),
    Same = answer(at(Node, "info kernel_sup registered_name"), Config),
    ok.

links_as_text(Name) ->
    {links, Links} = process_info(whereis(Name), links),
    [list_to_binary(pid_to_list(Pid)) || Pid <- Links].

pid_as_text(Name) ->
    pid_to_list(whereis(Name)).

%% Runs in an empty directory with no sonde in any code path. The command leaves sonde loaded for a
%% while in case it is run again, but only until a connection to a node that looks breaks.
file_works_on_its_own(Config) ->
    Home = home(Config),
    {Peer, Node} = sonde_attach_helper:bare(get(dir, Config)),
    try
        {0, Json, ""} = command(at(Node, "native --json"), Config),
        #{<<"status">> := <<"active">>} = read(list_to_binary(Json)),
        true = sonde_attach_helper:is_there(Peer),
        {ok, others} = sonde_attach_helper:attach(Home, somebody, Node),
        true = call(Home, erlang, disconnect_node, [Node]),
        ok = sonde_test:until(gone, fun() -> not sonde_attach_helper:is_there(Peer) end)
    after sonde_attach_helper:stop(Peer)
    end.

the_process_has_the_exit_code(Config) ->
    {_, Node} = bare(Config),
    {0, "sonde " ++ _, ""} = command("--version", Config),
    {1, "", NoProcess} = command(at(Node, "info no_such_process"), Config),
    {2, "", NoCommand} = command(at(Node, "frob"), Config),
    [true, true] = [is_one_line(Said) || Said <- [NoProcess, NoCommand]],
    ok.

%% Commands that are missing here have cases of their own.
every_command_answers(Config) ->
    {_, Node} = bare(Config),
    Holder = get(holder, Config),
    Words = ["proc_count memory 3", "proc_window reductions 2 10",
             "proc_group registered_name memory reductions", "bin_leak 2", "info " ++ Holder,
             "mailbox cli_suite_holder 3", "ets_count memory 2", "port_types", "native",
             "scheduler_usage 10", "node_stats 1 10", "sockets", "port_count memory 2",
             "inet_count oct 2", "bin_account", "bin_owned 2", "bin_holders 2 count",
             "bin_resources 2", "heap cli_suite_holder", "heap_top cli_suite_holder 2",
             "bin_garbage 2", "bin_slices cli_suite_holder", "bin_waste 1", "waits 2", "stacks 2", "schedulers"],
    Elsewhere = ["top", "diagnose", "report", "bin_holder", "bin_window", "port_info", "inet_window", "dump",
                 "completion", "help"],
    {[], []} = {[N || #{name := N} <- sonde_cli_table:commands()]
                -- ([hd(string:lexemes(W, " ")) || W <- Words] ++ Elsewhere),
                [W || W <- Words, [] =:= answer(at(Node, W), Config)]},
    _ = [{W, true} = {W, is_map(json(at(Node, W), Config))} || W <- Words],
    ok.

%% A line for each stack, the first call first, and a count; in a cluster the node comes before.
stacks_for_flame_graphs(Config) ->
    {_, Node} = bare(Config),
    Lines = fun(Words) -> string:lexemes(answer(Words, Config), "\n") end,
    Deep = Lines(at(Node, "stacks 1000 --collapsed")),
    true = lists:any(fun(Line) -> lists:prefix("proc_lib:init_p_do_apply/3;gen_server:loop/", Line) end, Deep),
    [] = [Line || Line <- Deep, re:run(Line, "^[^ ]+ [0-9]+$") =:= nomatch],
    Flat = Lines(at(Node, "stacks 1000 --depth 1 --collapsed")),
    [] = [Line || Line <- Flat, lists:member($;, Line)],
    true = length(Flat) > 3 andalso length(Flat) =< length(Deep),
    [] = [Line || Line <- Lines(lists:concat(["--cluster ", Node, " stacks 5 --collapsed"])),
                  not lists:prefix(lists:concat([Node, ";"]), Line)],
    %% as a picture, and in a private file
    "<svg " ++ Svg = answer(at(Node, "stacks 1000 --svg -"), Config),
    {match, _} = re:run(Svg, "<title>gen_server:loop/[0-9]: "),
    File = filename:join(proplists:get_value(priv_dir, Config), "stacks.svg"),
    {0, "", _} = sonde(lists:concat(["--cluster ", Node, " stacks 5 --svg ", File]), Config),
    {ok, <<"<svg ", Several/bits>>} = file:read_file(File),
    {match, _} = re:run(Several, ["<title>", atom_to_list(Node), ": "]),
    {1, "", Exists} = sonde(at(Node, "stacks 5 --svg " ++ File), Config),
    true = string:find(Exists, "file already exists") =/= nomatch,
    {0, "", _} = sonde(at(Node, "stacks 5 --force --svg " ++ File), Config),
    _ = [{2, "", _} = sonde(at(Node, "stacks 5 " ++ Both), Config)
         || Both <- ["--collapsed --svg " ++ File, "--json --collapsed", "--json --svg " ++ File]],
    ok = file:delete(File).

%% A process in a long call on a dirty scheduler cannot be read. The command reports it on standard
%% error, and with --json in a field of its own, for one node and for several.
what_was_not_read_is_said(Config) ->
    {Peer, Node} = bare(Config),
    Pid = call(Peer, ?MODULE, start_dirty, []),
    Text = pid_text(Peer, Pid),
    Shown = binary_to_list(Text),
    _ = [begin
             {0, _, Said} = sonde(at(Node, Words), Config),
             {Words, true} = {Words, is_one_line(Said)},
             {match, _} = re:run(Said, "not read: [0-9]+ process.*" ++ Shown ++ " \\(busy\\)"
                                 ".*: --suspend reads them"),
             {0, Json, Said} = sonde(at(Node, Words ++ " --json"), Config),
             #{<<"missed">> := #{<<"count">> := N, <<"pids">> := Pids}} =
                 read(list_to_binary(Json)),
             true = N >= length(Pids)
                 andalso lists:member(#{<<"pid">> => Text, <<"why">> => <<"busy">>}, Pids)
         end || Words <- ["proc_count garbage_bytes 2", "bin_garbage 2", "bin_waste 2",
                          "bin_owned 2", "bin_holders 2", "bin_resources 2", "bin_window 2 10",
                          "bin_account"]],
    #{<<"reports">> := [#{<<"node">> := _, <<"missed">> := #{<<"pids">> := [_ | _]}}]} =
        json(lists:concat(["--cluster ", Node, " bin_owned 2 --json"]), Config, Shown),
    {0, _, ""} = sonde(at(Node, "proc_count memory 2"), Config),
    {0, _, Suspends} = sonde(at(Node, "bin_owned 2 --suspend"), Config),
    true = has("not read", Suspends) andalso not has("--suspend", Suspends),
    ok = call(Peer, missed_SUITE, gone, [[Pid]]).

json(Words, Config, Said) ->
    {0, Json, Err} = sonde(Words, Config),
    true = has(Said, Err),
    read(list_to_binary(Json)).

start_dirty() ->
    Pid = spawn(fun() -> erts_debug:dirty_io(wait, 30000) end),
    ok = sonde_test:until(dirty, fun() -> process_info(Pid, current_function)
                                              =:= {current_function, {erts_debug, dirty_io, 2}} end),
    Pid.

%% Reports the processes that were read only because of --suspend, and how long each was suspended.
suspends_what_runs(Config) ->
    {Peer, Node} = bare(Config),
    Pid = call(Peer, missed_SUITE, spinner, [2000000]),
    Text = pid_text(Peer, Pid),
    {0, Json, Said} = sonde(at(Node, "proc_count flat_size 3 --suspend --json"), Config),
    #{<<"rows">> := Rows, <<"missed">> := #{<<"count">> := 0},
      <<"suspended">> := #{<<"pids">> := [#{<<"pid">> := Text}]}} = read(list_to_binary(Json)),
    [_] = [Row || #{<<"pid">> := P} = Row <- Rows, P =:= Text],
    {match, _} = re:run(Said, "suspended: " ++ binary_to_list(Text) ++ " \\([0-9.]+ ms\\)"),
    ok = call(Peer, missed_SUITE, gone, [[Pid]]).

-define(SIZE, 3333333).

start_holder() ->
    Pid = sonde_test:hold(fun() -> put(cli_suite_key, {self(), tell_tale}),
                                   binary:copy(<<"x">>, ?SIZE)
                          end),
    true = register(cli_suite_holder, Pid),
    pid_to_list(Pid).

bin_holder_is_who_holds_it(Config) ->
    {_, Node} = bare(Config),
    Holder = list_to_binary(get(holder, Config)),
    #{<<"rows">> := Rows} = json(at(Node, "bin_holders 20"), Config),
    [Id] = [Id || #{<<"id">> := Id, <<"size">> := ?SIZE} <- Rows],
    Ask = at(Node, "bin_holder " ++ integer_to_list(Id)),
    #{<<"id">> := Id, <<"size">> := ?SIZE, <<"refc">> := 1, <<"elsewhere">> := 0,
      <<"holders">> := [[Holder, 1, ?SIZE]]} = json(Ask, Config),
    true = has(binary_to_list(Holder), answer(Ask, Config)).

bin_window_is_who_grows(Config) ->
    {Peer, Node} = bare(Config),
    Grower = call(Peer, ?MODULE, start_grower, []),
    Text = pid_text(Peer, Grower),
    %% A process that is running when the command looks has no row.
    ok = sonde_test:until({a_row, Text}, fun() ->
        #{<<"rows">> := Rows} = json(at(Node, "bin_window 1 300"), Config),
        case Rows of
            [#{<<"holder">> := Text, <<"value">> := Bytes}] -> Bytes >= 10000;
            [] -> false
        end
    end),
    ok = call(Peer, sonde_test, stop, [Grower]).

start_grower() ->
    spawn(fun() -> grow([]) end).

grow(Held) ->
    timer:sleep(5),
    grow([binary:copy(<<"x">>, 10000) | Held]).

%% The port is given as text and as a number.
port_info_is_about_that_port(Config) ->
    {Peer, Node} = bare(Config),
    {Pid, Port, _} = call(Peer, ?MODULE, start_sender, []),
    [Text, Number] = [call(Peer, ?MODULE, F, [Port]) || F <- [port_text, port_number]],
    Owner = pid_text(Peer, Pid),
    #{<<"meta">> := #{<<"name">> := <<"tcp_inet">>},
      <<"signals">> := #{<<"connected">> := Owner}} =
        json(at(Node, "port_info " ++ Text), Config),
    Said = answer(at(Node, "port_info " ++ Text ++ " --json"), Config),
    #{<<"meta">> := Meta} = read(list_to_binary(Said)),
    #{<<"meta">> := Meta} = json(at(Node, "port_info " ++ Number), Config),
    _ = [begin
             {1, "", Wrong} = sonde(at(Node, "port_info " ++ Word), Config),
             {Word, true} = {Word, has("port", Wrong) andalso has(Word, Wrong)}
         end || Word <- ["nonsense", "-1", "99999999999999999999"]],
    ok = call(Peer, sonde_test, stop, [Pid]).

inet_window_is_who_sends(Config) ->
    {Peer, Node} = bare(Config),
    {Pid, Port, Bytes} = call(Peer, ?MODULE, start_sender, []),
    Text = list_to_binary(call(Peer, ?MODULE, port_text, [Port])),
    ok = sonde_test:until({a_row, Text}, fun() ->
        #{<<"rows">> := Rows} = json(at(Node, "inet_window send_oct 100 300"), Config),
        [N || #{<<"port">> := P, <<"value">> := N} <- Rows, P =:= Text, N > 0, N rem Bytes =:= 0]
            =/= []
    end),
    ok = call(Peer, sonde_test, stop, [Pid]).

%% On the other node: a process that sends to itself, its port, and how many bytes it sends at a
%% time. With another inet backend, sockets are no ports.
start_sender() ->
    Parent = self(),
    Pid = spawn(fun() ->
        Opts = [{inet_backend, inet}, binary, {active, false}],
        {ok, Listen} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}} | tl(Opts)]),
        {ok, Number} = inet:port(Listen),
        {ok, Out} = gen_tcp:connect({127, 0, 0, 1}, Number, Opts),
        {ok, In} = gen_tcp:accept(Listen),
        Parent ! {self(), Out},
        pump(Out, In)
    end),
    receive {Pid, Port} -> {Pid, Port, 777} end.

pump(Out, In) ->
    ok = gen_tcp:send(Out, binary:copy(<<"x">>, 777)),
    {ok, _} = gen_tcp:recv(In, 777),
    timer:sleep(5),
    pump(Out, In).

port_text(Port) -> port_to_list(Port).

port_number(Port) ->
    {match, [Number]} = re:run(port_to_list(Port), "\\.(\\d+)>", [{capture, [1], list}]),
    Number.

pid_text(Peer, Pid) ->
    list_to_binary(call(Peer, erlang, pid_to_list, [Pid])).

%% No key is pressed, and the output is no terminal.
top_is_one_look_where_nobody_types(Config) ->
    {Peer, Node} = bare(Config),
    Largest = call(Peer, ?MODULE, large, []),
    {0, Text, ""} = command(at(Node, "top"), Config),
    true = lists:prefix("sonde " ++ atom_to_list(Node), Text),
    [_, _] = string:split(Text, "processes by memory", all),
    true = has(call(Peer, erlang, pid_to_list, [Largest]) ++ " ", Text),
    [] = [C || C <- Text, C < $\s, C =/= $\n],
    call(Peer, sonde_test, stop, [Largest]).

large() -> sonde_test:hold(fun() -> lists:seq(1, 1000000) end).

%% A slow call gets a longer timeout on a busy machine. The wait grows with it, so the call never
%% ends within the timeout alone.
timeout_is_beyond_what_the_call_waits_for(Config) ->
    {_, Node} = bare(Config),
    {1, "", Said} = sonde(at(Node, "bin_leak 3 --timeout 0"), Config),
    true = is_one_line(Said) andalso has("--timeout", Said),
    {0, _, ""} = sonde(at(Node, "bin_leak 3 -t 60000"), Config),
    true = lists:any(fun(Ms) ->
                             Words = lists:concat(["scheduler_usage ", 2 * Ms, " --timeout ", Ms]),
                             element(1, sonde(at(Node, Words), Config)) =:= 0
                     end, [250, 1000, 4000, 16000]).

%% Processes are suspended only if that is asked for, and not longer than needed.
suspend_holds_the_process(Config) ->
    {Peer, Node} = bare(Config),
    Holder = call(Peer, erlang, whereis, [cli_suite_holder]),
    File = filename:join(get(dir, Config), "dump"),
    %% The node proves its native path first: no proof runs while all processes are traced.
    #{status := active} = sonde_attach_helper:from(home(Config), Node, native, []),
    Suspended = fun(Words) ->
        Calls = sonde_attach_helper:traced(Peer, [{erlang, suspend_process}], fun() ->
            {0, _, ""} = sonde(at(Node, Words), Config)
        end),
        [Pid || {suspend_process, [Pid | _]} <- Calls]
    end,
    _ = [begin
             {Words, []} = {Words, Suspended(Words)},
             {Words, [Holder | _]} = {Words, Suspended(Words ++ " --suspend")},
             {status, waiting} = call(Peer, erlang, process_info, [Holder, status])
         end || Words <- ["heap cli_suite_holder", "heap_top cli_suite_holder 2",
                          "mailbox cli_suite_holder 2", "bin_slices cli_suite_holder",
                          "dump --force cli_suite_holder " ++ File]],
    %% Commands with rows suspend only what they cannot read otherwise: see suspends_what_runs.
    [] = [Name || #{name := Name, options := Options} = Command <- sonde_cli_table:commands(),
                  #{name := suspend} <- Options,
                  Name =/= "bin_account", not is_map_key(missed, Command),
                  not lists:member(Name, ["heap", "heap_top", "mailbox", "bin_slices", "dump"])].

values_are_in_the_dump(Config) ->
    {_, Node} = bare(Config),
    Dumped = fun(Option) ->
        File = filename:join(get(dir, Config), "dump"),
        {0, _, ""} = sonde(at(Node, "dump --force cli_suite_holder " ++ File ++ Option), Config),
        {ok, Text} = file:read_file(File),
        binary_to_list(Text)
    end,
    [false, true] = [has("tell_tale", Dumped(Option)) || Option <- ["", " --values"]],
    ok.

what_goes_wrong_is_one_line(Config) ->
    {_, Node} = bare(Config),
    Port = integer_to_list(sonde_peer_helper:free_port()),
    _ = [begin
             {Words, {1, "", Said}} = {Words, sonde(Words, Config)},
             {Words, true, Said} = {Words, is_one_line(Said), Said}
         end || Words <- ["--node p" ++ Port ++ "@127.0.0.1 native",
                          "--node p" ++ Port ++ "@no.such.host.invalid native",
                          "--cookie-file /no/such/file " ++ at(Node, "native"),
                          at(Node, "info no_such_process"), at(Node, "heap 0.999999.0"),
                          at(Node, "heap nonsense.0"), at(Node, "port_info nonsense"),
                          at(Node, "bin_holder 12")]],
    ok.

%% The cookie comes from the environment or from a file, also a wrong one; never from the command
%% line.
cookies(Config) ->
    {_, Node} = bare(Config),
    Dir = get(dir, Config),
    Cookie = sonde_attach_helper:cookie(),
    [Right, Wrong] = [filename:join(Dir, Name) || Name <- ["right", "wrong"]],
    ok = file:write_file(Right, [Cookie, "\n"]),
    ok = file:write_file(Wrong, "wrong\n"),
    Ask = at(Node, "info kernel_sup registered_name"),
    {0, Answer, ""} = command(Ask, Config),
    {0, Answer, ""} =
        command("--cookie-file " ++ Right ++ " " ++ Ask, [{cookie, "wrong"} | Config]),
    {1, "", Refused} = command("--cookie-file " ++ Wrong ++ " " ++ Ask, Config),
    true = is_one_line(Refused) andalso has("cookie", Refused),
    {1, "", Refused} = command(Ask, [{cookie, "wrong"} | Config]),
    {1, "", None} = command(Ask, [{cookie, ""} | Config]),
    true = is_one_line(None) andalso has("no cookie", None),
    ok = file:write_file(filename:join(Dir, ".erlang.cookie"), Cookie),
    {0, Answer, ""} = command(Ask, [{cookie, ""} | Config]).

dump_is_a_file_here(Config) ->
    {_, Node} = bare(Config),
    File = filename:join(get(dir, Config), "holder.heapsnapshot"),
    Dump = at(Node, "dump cli_suite_holder " ++ File),
    #{<<"bytes">> := Bytes} = json(Dump, Config),
    {ok, Dumped} = file:read_file(File),
    Bytes = byte_size(Dumped),
    #{<<"snapshot">> := _} = read(Dumped),
    {1, "", Exists} = sonde(Dump, Config),
    true = is_one_line(Exists) andalso has("exists", Exists),
    {0, _, ""} = sonde(Dump ++ " --force", Config),
    {1, "", NoDir} = sonde(Dump ++ "/in/no/folder", Config),
    true = is_one_line(NoDir).

%% The node has neither the page nor a watcher; the command has the page.
report_is_a_file_here(Config) ->
    {_, Node} = bare(Config),
    File = filename:join(get(dir, Config), "report.html"),
    Report = at(Node, "report --interval 100 " ++ File),
    {0, Text, Missing} = sonde(Report, Config),
    true = has("bytes", Text) andalso is_one_line(Missing) andalso has("no watcher", Missing),
    {ok, Page} = file:read_file(File),
    Name = list_to_binary(lists:concat(["\"node\":\"", Node, "\""])),
    {_, _} = binary:match(Page, Name),
    {1, "", Exists} = sonde(Report, Config),
    true = is_one_line(Exists) andalso has("exists", Exists),
    #{<<"bytes">> := Bytes, <<"missing">> := [#{<<"section">> := <<"watcher">>}]} =
        json(Report ++ " --force --json", Config, "no watcher"),
    Bytes = filelib:file_size(File),
    {1, "", NoDir} = sonde(Report ++ "/in/no/folder", Config),
    true = is_one_line(NoDir),
    ok.

%% The standard output has the page and nothing else; there is no file of that name.
a_report_is_printed(Config) ->
    {_, Node} = bare(Config),
    {0, Page, Said} = command(at(Node, "report --interval 100 -"), Config),
    true = is_one_line(Said) andalso has("no watcher", Said),
    true = is_page(Page),
    {ok, Names} = file:list_dir(get(dir, Config)),
    false = lists:member("-", Names),
    File = filename:join(get(dir, Config), "printed.html"),
    ok = file:write_file(File, Page),
    Name = atom_to_binary(Node),
    #{<<"node">> := Name} = report_SUITE:data([{file, File}]),
    {1, "", Late} = sonde(at(Node, "report --timeout 1 -"), Config),
    true = is_one_line(Late) andalso has("no report was written", Late),
    _ = [begin
             {2, "", Wrong} = sonde(Words, Config),
             {Words, true} = {Words, is_one_line(Wrong) andalso has("report - prints", Wrong)}
         end || Words <- ["--cluster a@h report -", at(Node, "report - --json"), "--pid 1 report - --json"]],
    {2, "", NoFile} = sonde(at(Node, "dump init -"), Config),
    true = is_one_line(NoFile) andalso has("dump prints nothing", NoFile).

is_page(Text) ->
    lists:prefix("<!doctype html>\n", Text) andalso lists:suffix("</html>\n", Text) andalso length(string:split(Text, "<!doctype", all)) =:= 2.

%% By its name or its pid there. A name that is none, or a process that is no watcher, is said, and gets no message.
a_report_of_another_watcher(Config) ->
    Dir = get(dir, Config),
    {Peer, Node} = sonde_attach_helper:bare(Dir, ["-pa", sonde_attach_helper:ebin()]),
    Name = "cli_suite_watcher",
    Watcher = call(Peer, ?MODULE, start_watcher, [Name]),
    Found = fun(Words, Options) ->
                {0, _, Said} = sonde(lists:concat([Words, " report --interval 100 --force ", Options, filename:join(Dir, "watched.html")]), Config),
                [File] = filelib:wildcard(filename:join(Dir, "watched*.html")),
                #{<<"sections">> := #{<<"watcher">> := Section}} = report_SUITE:data([{file, File}]),
                ok = file:delete(File),
                {Said, maps:get(<<"data">>, Section, none)}
            end,
    One = at(Node, ""),
    _ = [{Words, {"", #{<<"interval">> := 777}}} = {Words, Found(Words, ["--watcher ", Which, " "])}
         || {Words, Which} <- [{One, Name}, {One, call(Peer, erlang, pid_to_list, [Watcher])},
                               {lists:concat(["--cluster ", Node]), Name}]],
    {None, none} = Found(One, ""),
    true = has("no watcher runs on this node", None),
    Other = call(Peer, erlang, spawn, [timer, sleep, [infinity]]),
    true = call(Peer, erlang, register, [cli_suite_other, Other]),
    {No, none} = Found(One, "--watcher cli_suite_other "),
    true = has("this process is no watcher", No),
    {message_queue_len, 0} = call(Peer, erlang, process_info, [Other, message_queue_len]),
    _ = [begin
             {1, "", Nobody} = sonde(lists:concat([Words, " report --watcher nobody_is_this ", filename:join(Dir, "none.html")]), Config),
             {Words, true} = {Words, is_one_line(Nobody) andalso has("no process is registered as nobody_is_this", Nobody)}
         end || Words <- [One, lists:concat(["--cluster ", Node])]],
    [] = filelib:wildcard(filename:join(Dir, "none*")),
    _ = [begin
             {2, "", Wrong} = sonde(Words ++ " report x.html --watcher a", Config),
             {Words, true} = {Words, is_one_line(Wrong) andalso has("--watcher needs", Wrong)}
         end || Words <- ["--pid 1", "--core f"]],
    sonde_attach_helper:stop(Peer).

%% There.
start_watcher(Name) ->
    Self = self(),
    {_, Ref} = spawn_monitor(fun() ->
        {ok, Watcher} = sonde_watch:start_link(#{interval => 777, budget => 100, name => list_to_atom(Name)}),
        ok = sonde_test:until(sampled, fun() -> sonde_watch:history(Watcher, 1) =/= [] end),
        Self ! {sampled, Watcher},
        receive never -> ok end
    end),
    receive
        {sampled, Watcher} -> Watcher;
        {'DOWN', Ref, process, _, Why} -> exit(Why)
    end.

%% A file for each node; one that does not answer is said, and the others are written.
reports_of_a_cluster(Config) ->
    [_, {_, One}, {_, Two}] = get(nodes, Config),
    File = fun(Node) -> filename:join(get(dir, Config), lists:concat(["cluster-", Node, ".html"])) end,
    Words = fun(Nodes) -> lists:concat(["--cluster ", lists:concat(lists:join(",", Nodes)), " report --interval 100 ",
                                        filename:join(get(dir, Config), "cluster.html")]) end,
    {1, Text, Said} = sonde(Words([One, "p1@127.0.0.1", Two]), Config),
    true = has("p1@127.0.0.1", Said),
    _ = [begin
             true = has(lists:concat([Node, "  ", File(Node), "\n"]), Text),
             true = has(lists:concat([Node, ": missing in the report: watcher: "]), Said),
             Name = atom_to_binary(Node),
             #{<<"node">> := Name} = report_SUITE:data([{file, File(Node)}])
         end || Node <- [One, Two]],
    false = has("p1@", Text),
    {0, Json, _} = sonde(Words([One]) ++ " --force --json", Config),
    Path = list_to_binary(File(One)),
    #{<<"rows">> := [#{<<"file">> := Path, <<"bytes">> := _, <<"missing">> := [_ | _]}], <<"failed">> := []} = read(list_to_binary(Json)),
    {1, "", Exists} = sonde(Words([One]), Config),
    true = is_one_line(Exists) andalso has(atom_to_list(One), Exists) andalso has("exists", Exists),
    {2, "", _} = sonde("--pid 1 report", Config),
    ok.

%% Runs on the other node, which has nothing else to report.
diagnosis_with_suspects_is_3(Config) ->
    {Peer, Node} = lists:last(get(nodes, Config)),
    _ = call(Peer, sonde_leaks_helper, start,
                  [#{plan => [#{of_kind => leak, kind => unmatched, bytes => 30000000,
                                named => false}]}]),
    {3, Json, ""} = command(at(Node, "diagnose --interval 2000 --json"), Config),
    #{<<"suspects">> := [_ | _] = Suspects} = read(list_to_binary(Json)),
    [#{<<"remedy">> := <<"drop_unmatched">>}] =
        [S || #{<<"kind">> := <<"mailbox">>} = S <- Suspects].

names_beyond_latin_1(Config) ->
    {Peer, Node} = bare(Config),
    Name = [16#142, 16#540D],
    Pid = call(Peer, erlang, spawn, [timer, sleep, [infinity]]),
    true = call(Peer, erlang, register, [list_to_atom(Name), Pid]),
    #{<<"registered_name">> := Same} = json(at(Node, "info " ++ Name ++ " registered_name"), Config),
    Same = unicode:characters_to_binary(Name),
    #{<<"messages">> := 0} = json(at(Node, "mailbox " ++ Name ++ " 1"), Config),
    {1, "", Unknown} = sonde(at(Node, "info " ++ [16#142] ++ " status"), Config),
    true = has(lists:flatten(["no process is registered as ", 16#142]), Unknown),
    {1, "", NoPort} = sonde(at(Node, "port_info " ++ [16#142]), Config),
    true = has("not a port", NoPort),
    %% other cases expect no such name in this node
    true = call(Peer, erlang, exit, [Pid, kill]),
    ok = sonde_test:until(ended, fun() -> not call(Peer, erlang, is_process_alive, [Pid]) end).

%% Tables show Elixir's names and arguments may be such names; JSON has the atoms.
elixir_is_as_elixir_writes_it(Config) ->
    {Peer, Node} = bare(Config),
    Pid = call(Peer, sonde_elixir_helper, start, []),
    Rows = answer(at(Node, "proc_count memory 1000"), Config),
    {match, _} = re:run(Rows, " MyApp\\.Worker +MyApp\\.Worker\\.\"odd name\"/1 "),
    true = has("MyApp.Cache", answer(at(Node, "ets_count memory 5"), Config)),
    true = has("dictionary / key MyApp.Key ", answer(at(Node, "heap_top MyApp.Worker 3"), Config)),
    Same = answer(at(Node, "info MyApp.Worker registered_name"), Config),
    Same = answer(at(Node, "info Elixir.MyApp.Worker registered_name"), Config),
    #{<<"registered_name">> := <<"Elixir.MyApp.Worker">>} =
        json(at(Node, "info MyApp.Worker registered_name"), Config),
    #{<<"current_function">> := <<"Elixir.MyApp.Worker:odd name/1">>} =
        json(at(Node, "info MyApp.Worker current_function"), Config),
    ok = call(Peer, sonde_elixir_helper, stop, [Pid]).

%% In the shell syntax of the target node, whatever the command itself runs on.
calls_to_type_are_elixirs(Config) ->
    {Peer, Node} = lists:last(get(nodes, Config)),
    _ = call(Peer, sonde_leaks_helper, start,
             [#{plan => [#{of_kind => leak, kind => unmatched, bytes => 30000000,
                           named => false}]}]),
    Diagnose = at(Node, "diagnose --interval 300"),
    {3, Erlang, ""} = sonde(Diagnose, Config),
    {match, _} = re:run(Erlang, "    sonde:mailbox\\(<0\\.[0-9.]+>, 5\\)\\.\n"),
    ok = call(Peer, sonde_elixir_helper, load_kernel, []),
    {3, Elixir, ""} = sonde(Diagnose, Config),
    {match, _} = re:run(Elixir, "    :sonde\\.mailbox\\(pid\\(\"0\\.[0-9.]+\"\\), 5\\)\n"),
    true = call(Peer, code, delete, ['Elixir.Kernel']).

%% Although the name would not fit, and the terminal has colours.
nothing_is_cut_or_coloured_for_nobody(Config) ->
    {Peer, Node} = bare(Config),
    Name = lists:duplicate(200, $n),
    Pid = call(Peer, ?MODULE, start_named, [Name]),
    {0, Text, ""} = command(at(Node, "proc_count memory 100"), [{term, "xterm"} | Config]),
    true = has(Name, Text),
    false = has("\e", Text),
    ok = call(Peer, sonde_test, stop, [Pid]).

start_named(Name) ->
    Pid = sonde_test:hold(fun() -> lists:seq(1, 100000) end),
    true = register(list_to_atom(Name), Pid),
    Pid.

%% ---- several nodes

cluster_is_one_table(Config) ->
    [_, {_, One}, {_, Two}] = get(nodes, Config),
    Both = lists:concat(["--cluster ", One, ",", Two, " "]),
    Text = answer(Both ++ "proc_count memory 2", Config),
    true = has("node", Text) andalso has(atom_to_list(One), Text)
        andalso has(atom_to_list(Two), Text),
    #{<<"rows">> := Rows, <<"failed">> := []} = json(Both ++ "proc_count memory 2", Config),
    4 = length(Rows),
    Values = [V || #{<<"value">> := V} <- Rows],
    Values = lists:reverse(lists:sort(Values)),
    _ = [{Words, [_ | _]} = {Words, answer(Both ++ Words, Config)}
         || Words <- ["port_types", "proc_group registered_name memory", "bin_leak 1"]],
    {1, Some, Said} = sonde(lists:concat(["--cluster ", One, ",p1@127.0.0.1 ",
                                          "proc_count memory 2"]), Config),
    true = has(atom_to_list(One), Some) andalso is_one_line(Said)
        andalso has("p1@127.0.0.1", Said).

%% Each column says what it counts, and in which unit.
no_column_is_called_value(Config) ->
    [_, {_, One}, {_, Two}] = get(nodes, Config),
    Both = lists:concat(["--cluster ", One, ",", Two, " "]),
    Words = ["proc_count memory 3", "proc_window reductions 2 10", "bin_leak 2", "bin_owned 2",
             "proc_group registered_name memory", "bin_resources 2", "bin_holders 2",
             "port_types", "port_count memory 2", "ets_count memory 2", "inet_count oct 2"],
    [] = [{Target, W} || Target <- [at(One, ""), Both], W <- Words,
                         nomatch =/= re:run(answer(Target ++ W, Config), "\\bvalue\\b")],
    true = has("references_dropped", answer(at(One, "bin_leak 1"), Config)),
    {match, _} = re:run(answer(at(One, "bin_owned 1"), Config), "binary_exclusive(?s:.*) MiB"),
    Heap = answer(at(One, "heap cli_suite_holder"), Config),
    Slices = answer(at(One, "bin_slices cli_suite_holder"), Config),
    _ = [{Text, nomatch} = {Text, re:run(Text, "[\\[#]")} || Text <- [Heap, Slices]],
    _ = [true = has(Part, Heap) || Part <- ["reachable by root", "kind", " KiB", " MiB"]],
    true = has("3.2 MiB", Slices) andalso has("slices", Slices),
    true = has(" words", answer(at(One, "node_stats 1 10"), Config)).

%% Only for people: in JSON the rows are an empty list, as ever.
empty_answers_are_sentences(Config) ->
    [_, {_, One}, {_, Two}] = get(nodes, Config),
    Targets = [at(One, ""), lists:concat(["--cluster ", One, ",", Two, " "])],
    _ = [begin
             Text = answer(Target ++ Words, Config),
             {Words, match} = {Words, re:run(Text, "^[a-z][a-z ]+\n$", [{capture, none}])},
             {Words, Text} = {Words, case lists:suffix(" 0", Words) of true -> "none asked for\n"; false -> Text end},
             #{<<"rows">> := []} = json(Target ++ Words, Config)
         end || Target <- Targets,
                Words <- ["proc_count memory 0", "bin_leak 0", "sockets sctp", "ets_count memory 0",
                          "port_count memory 0", "bin_holders 0", "bin_waste 0"]],
    "the process refers to no binary" ++ _ = answer(at(One, "bin_slices init"), Config),
    %% No such sentence about nodes that were not reached.
    {1, "", _} = sonde("--cluster p1@127.0.0.1 port_types", Config).

%% The processes that `erpc' starts for the command do not count as processes of the node, and take
%% no row.
calls_are_in_no_row(Config) ->
    [_, {Peer, One}, {_, Two}] = get(nodes, Config),
    All = [answer(Target ++ "bin_leak 100000", Config)
           || Target <- [at(One, ""), lists:concat(["--cluster ", One, ",", Two, " "])]],
    _ = [false = has("sonde_helper", Text) || Text <- All],
    #{<<"rows">> := Rows} = json(at(One, "bin_leak 3"), Config),
    3 = length(Rows),
    #{failed := [], rows := Leaks} = (cluster(Config))({bin_leak, [3]}, #{nodes => [One]}),
    3 = length(Leaks),
    true = is_list(call(Peer, erlang, processes, [])).

%% The node exists, under another name.
wrong_spelling_says_what_to_try(Config) ->
    {_, Node} = bare(Config),
    [Name, "127.0.0.1"] = string:split(atom_to_list(Node), "@"),
    _ = [begin
             {1, "", Said} = sonde("--node " ++ Name ++ "@" ++ Host ++ " native", Config),
             {Said, true} = {Said, is_one_line(Said) andalso has("--node " ++ atom_to_list(Node), Said)}
         end || Host <- ["127.1"]
                    ++ [H || {ok, _} <- [inet:gethostbyname("localhost")],
                             H <- ["localhost", "localhost.no.such.domain.invalid"]]],
    %% The name is right, so it is not suggested, whatever the reason for the failure.
    {1, "", Refused} = command(at(Node, "native"), [{cookie, "wrong"} | Config]),
    true = has("another cookie", Refused),
    false = has("try", Refused).

%% The command waits for a node that accepts the connection and never answers.
sigterm_ends_it_at_once(Config) ->
    {ok, Listen} = gen_tcp:listen(0, [binary, {active, false}]),
    {ok, Number} = inet:port(Listen),
    Started = started(lists:concat(["--node p", Number, "@127.0.0.1 native"]), Config),
    {ok, Socket} = gen_tcp:accept(Listen, 60000),
    {ok, _} = gen_tcp:recv(Socket, 0, 60000),
    143 = terminated(Started),
    %% The connection is closed as well.
    {error, closed} = gen_tcp:recv(Socket, 0, 60000),
    {ok, <<>>} = file:read_file(filename:join(get(dir, Config), "out")),
    ok = gen_tcp:close(Listen).

%% The signal comes in the middle of a call, on a node that nobody else looks at.
sigterm_leaves_nothing(Config) ->
    {Peer, Node} = sonde_attach_helper:bare(get(dir, Config)),
    try
        Started = started(at(Node, "scheduler_usage 600000 -t 1000"), Config),
        ok = sonde_test:until(a_call, fun() ->
            sonde_attach_helper:is_there(Peer)
                andalso call(Peer, ?MODULE, calls_of_others, []) =/= []
        end),
        143 = terminated(Started),
        ok = sonde_test:until(gone, fun() -> not sonde_attach_helper:is_there(Peer) end)
    after sonde_attach_helper:stop(Peer)
    end.

calls_of_others() ->
    [Pid || Pid <- processes(),
            {current_stacktrace, Stack} <- [process_info(Pid, current_stacktrace)],
            lists:any(fun is_measured/1, Stack)].

%% The function's name where sonde is only loaded temporarily: see scripts/merge.
is_measured({_, Function, _, _}) -> lists:suffix("measured", atom_to_list(Function)).

%% The command in an OS process of its own: {Port, File with its OS pid}.
started(Words, Config) ->
    Dir = get(dir, Config),
    Quoted = [[" '", W, "'"] || W <- string:lexemes(Words, " ")],
    Script = unicode:characters_to_list(
               ["'", get(sonde, Config), "'", Quoted,
                " </dev/null >out 2>&1 & echo $! >pid.new; mv pid.new pid; wait $!"]),
    Flags = "-epmd_module sonde_epmd -start_epmd false -pa "
        ++ filename:dirname(code:which(sonde_epmd)),
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", Script]},
                      {env, [{"ERL_FLAGS", Flags}, {"HOME", Dir}, {"ERL_LIBS", false},
                             {"SONDE_COOKIE", sonde_attach_helper:cookie()}]},
                      {cd, Dir}, exit_status, binary]),
    {Port, filename:join(Dir, "pid")}.

%% Returns the exit code.
terminated({Port, File}) ->
    {ok, Text} = file:read_file(File),
    "" = os:cmd("kill -TERM " ++ string:trim(binary_to_list(Text))),
    {Code, <<>>} = collect(Port, <<>>),
    Code.

%% Each report stands under its node's name; suspects on one node are enough for exit code 3.
cluster_of_diagnoses(Config) ->
    [_, {_, One}, {Peer, Two}] = get(nodes, Config),
    _ = call(Peer, sonde_leaks_helper, start,
             [#{plan => [#{of_kind => leak, kind => unmatched, bytes => 30000000,
                           named => false}]}]),
    Both = lists:concat(["--cluster ", One, ",", Two, " diagnose --interval 300"]),
    {3, Text, ""} = sonde(Both, Config),
    _ = [true = has(lists:concat(["\n", Node, "  "]), "\n" ++ Text) || Node <- [One, Two]],
    {3, Json, ""} = sonde(Both ++ " --json", Config),
    #{<<"rows">> := Reports, <<"failed">> := []} = read(list_to_binary(Json)),
    Names = lists:sort([atom_to_binary(Node) || Node <- [One, Two]]),
    Names = lists:sort([N || #{<<"node">> := N, <<"suspects">> := S, <<"growth">> := #{}} <- Reports,
                             is_list(S)]),
    {3, _, Said} = sonde(lists:concat(["--cluster p1@127.0.0.1,", Two, " diagnose --interval 300"]),
                         Config),
    true = is_one_line(Said),
    {2, "", _} = sonde(lists:concat(["--cluster ", One, " heap init"]), Config),
    ok.

cluster_of_accounts(Config) ->
    [_, {_, One}, {_, Two}] = get(nodes, Config),
    Both = lists:concat(["--cluster ", One, ",", Two, " bin_account"]),
    Text = answer(Both, Config),
    _ = [true = has(lists:concat(["\n", Node, "\ntotal "]), "\n" ++ Text) || Node <- [One, Two]],
    #{<<"rows">> := [#{<<"node">> := A, <<"total">> := _}, #{<<"node">> := B}],
      <<"failed">> := []} = json(Both, Config),
    true = lists:sort([A, B]) =:= lists:sort([atom_to_binary(N) || N <- [One, Two]]),
    {1, Some, Said} = sonde(lists:concat(["--cluster ", One, ",p1@127.0.0.1 bin_account"]), Config),
    true = has("total ", Some) andalso is_one_line(Said).

cluster_merges_largest_first(Config) ->
    Call = cluster(Config),
    Bs = lists:sort([Node || {_, Node} <- tl(get(nodes, Config))]),
    #{failed := [], rows := Rows} = Call({proc_count, [memory, 3]}, #{nodes => Bs}),
    6 = length(Rows),
    Bs = lists:usort([Node || {Node, _} <- Rows]),
    Values = [V || {_, {_, V, _}} <- Rows],
    Values = lists:reverse(lists:sort(Values)),
    #{failed := [], rows := Types} = Call({port_types, []}, #{nodes => Bs}),
    Counts = [N || {_, {_, N}} <- Types],
    Counts = lists:reverse(lists:sort(Counts)),
    #{failed := [], rows := Groups} =
        Call({proc_group, [registered_name, [memory]]}, #{nodes => Bs}),
    Totals = [T || {_, {_, _, [{memory, T}]}} <- Groups],
    Totals = lists:reverse(lists:sort(Totals)),
    #{failed := [], rows := Leaks} = Call({bin_leak, [3]}, #{nodes => Bs}),
    Freed = [V || {_, {_, V, _}} <- Leaks],
    Freed = lists:sort(Freed),
    #{failed := [], rows := []} = Call({proc_count, [memory, 3]}, #{nodes => []}),
    ok.

cluster_says_who_failed(Config) ->
    Call = cluster(Config),
    {_, One} = bare(Config),
    Down = 'p1@127.0.0.1',
    #{failed := [{Down, noconnection}], rows := [{One, _}]} =
        Call({proc_count, [memory, 1]}, #{nodes => [One, Down]}),
    #{failed := [{One, timeout}], rows := []} =
        Call({proc_window, [memory, 1, 100000]}, #{nodes => [One], timeout => 50}),
    #{failed := [{One, badarg}], rows := []} =
        Call({proc_count, [no_attribute, 1]}, #{nodes => [One]}),
    [] = call(home(Config), ?MODULE, cluster_and_look, [One, Down]).

cluster_and_look(One, Down) ->
    _ = sonde:cluster({proc_window, [memory, 1, 300]}, #{nodes => [One, Down], timeout => 50}),
    timer:sleep(600),
    sonde_test:mailbox().

cluster_takes_no_funs(_Config) ->
    _ = [badarg = sonde_test:raised(fun() -> sonde:cluster(Call, Opts) end)
         || {Call, Opts} <- [{fun() -> ok end, #{}}, {{fun() -> ok end, []}, #{}},
                             {{native, []}, #{}}, {{remote_load, [a, b]}, #{}},
                             {{module_info, []}, #{}}, {{rpc, [fun() -> ok end]}, #{}},
                             {{proc_count, [memory]}, #{}}, {{proc_count, [[memory], 3]}, #{}},
                             {{proc_count, memory}, #{}},
                             {{bin_leak, [3, #{}]}, #{}}, {proc_count, #{}},
                             {{proc_count, [memory, 3]}, #{nodes => ["a@h"]}},
                             {{proc_count, [memory, 3]}, #{nodes => a@h}},
                             {{proc_count, [memory, 3]}, #{nodes => [a@h | b@h]}},
                             {{proc_count, [memory, 3]}, #{timeout => -1}},
                             {{proc_count, [memory, 3]}, #{timeout => infinity}},
                             {{proc_count, [memory, 3]}, #{unknown => 1}},
                             {{proc_count, [memory, 3]}, []}]],
    ok.

cluster(Config) ->
    fun(What, Opts) -> call(home(Config), sonde, cluster, [What, Opts]) end.

%% ---- the command

home(Config) -> hd(get(nodes, Config)).

bare(Config) -> lists:nth(2, get(nodes, Config)).

at(Node, Words) ->
    lists:concat(["--node ", Node, " ", Words]).

json(Words, Config) ->
    read(list_to_binary(answer(Words ++ " --json", Config))).

answer(Words, Config) ->
    {Words, {0, Out, ""}} = {Words, sonde(Words, Config)},
    Out.

%% Exit code, standard output and standard error. The call runs in a node that already has the right
%% cookie.
sonde(Words, Config) ->
    call(home(Config), ?MODULE, run, [string:lexemes(Words, " ")]).

run(Words) ->
    Errors = sonde_terminal_helper:start(#{}),
    Usual = whereis(standard_error),
    true = unregister(standard_error),
    true = register(standard_error, Errors),
    try
        {Code, Out} = shown(fun() -> sonde_cli:run(Words) end),
        {Code, Out, sonde_terminal_helper:written(Errors)}
    after
        ok = sonde_terminal_helper:stop(Errors),
        true = register(standard_error, Usual)
    end.

%% What a fun returns, and what it prints when its output is no terminal.
shown(Fun) ->
    Out = sonde_terminal_helper:start(#{}),
    {Pid, Ref} = sonde_terminal_helper:on(Out, Fun),
    {result, Result} = receive {'DOWN', Ref, process, Pid, Why} -> Why end,
    Text = sonde_terminal_helper:written(Out),
    ok = sonde_terminal_helper:stop(Out),
    {Result, Text}.

%% The same, of the command's file.
command(Words, Config) ->
    Dir = get(dir, Config),
    Errors = filename:join(Dir, "stderr"),
    Quoted = [[" '", W, "'"] || W <- string:lexemes(Words, " ")],
    Flags = "-epmd_module sonde_epmd -start_epmd false -pa "
        ++ filename:dirname(code:which(sonde_epmd)),
    Cookie = proplists:get_value(cookie, Config, sonde_attach_helper:cookie()),
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", unicode:characters_to_list(
                                      [get(sonde, Config), Quoted,
                                       " 2>'", Errors, "' </dev/null"])]},
                      {env, [{"ERL_FLAGS", Flags}, {"HOME", Dir}, {"XDG_CONFIG_HOME", Dir},
                             {"SONDE_COOKIE", Cookie}, {"ERL_LIBS", false},
                             {"TERM", proplists:get_value(term, Config, "dumb")}]},
                      {cd, Dir}, exit_status, binary]),
    {Code, Out} = collect(Port, <<>>),
    {ok, Said} = file:read_file(Errors),
    {Code, binary_to_list(Out), binary_to_list(Said)}.

collect(Port, Out) ->
    receive
        {Port, {data, Data}} -> collect(Port, <<Out/binary, Data/binary>>);
        {Port, {exit_status, Code}} -> {Code, Out}
    end.

is_one_line(Said) ->
    lists:prefix("sonde: ", Said) andalso length(string:split(Said, "\n", all)) =:= 2.

has(Part, Text) ->
    string:find(Text, Part) =/= nomatch.
