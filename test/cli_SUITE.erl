%% The command `sonde': what it understands, what it says, and how it ends. It is the file that
%% scripts/escript makes; the nodes that it looks at are joined over the loopback interface.
-module(cli_SUITE).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 3}}].

all() ->
    [every_command_is_parsed, options_stand_anywhere, wrong_words_are_one_line,
     attributes_become_no_atoms, help_has_every_command, every_option_is_in_the_help,
     every_call_of_the_table_is_there, bash_completes, completions_are_shell_scripts,
     json_is_read_back, json_of_what_it_has_nothing_for, json_of_rows, jq_reads_it,
     pids_are_those_of_the_node, file_works_on_its_own, answers_and_exit_codes,
     what_goes_wrong_is_one_line, cookies, dump_is_a_file_here, diagnosis_with_suspects_is_3,
     nothing_is_cut_or_coloured_for_nobody, cluster_is_one_table,
     cluster_merges_largest_first, cluster_says_who_failed, cluster_takes_no_funs].

%% The command is the same whatever side the node answers from, and that is chosen over there.
init_per_suite(Config) ->
    case sonde_test:side() of
        native -> with_command(sonde_test:init(Config));
        portable -> {skip, "nothing of the command depends on the side of the node that runs it"}
    end.

with_command(Config) ->
    Root = os:getenv("SONDE_ROOT", "."),
    File = filename:join(proplists:get_value(priv_dir, Config), "sonde"),
    case os:find_executable("escript") of
        false ->
            Config;
        _ ->
            "" = os:cmd(filename:join(Root, "scripts/escript") ++ " '" ++ ebin() ++ "' '"
                        ++ File ++ "'"),
            [{sonde, File} | Config]
    end.

end_per_suite(_Config) -> ok.

%% ---- words

%% With an argument of its kind at each place.
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

%% Not even when it is wrong.
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

%% With each number of arguments that the table allows.
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
    File = filename:join(proplists:get_value(priv_dir, Config),
                         "completion." ++ atom_to_list(Shell)),
    ok = file:write_file(File, unicode:characters_to_binary(sonde_cli_complete:script(Shell))),
    File.

%% ---- JSON

%% What is written is read back by a reader that follows RFC 8259 and knows nothing of Erlang.
json_is_read_back(_Config) ->
    _ = rand:seed(exsss, {1, 2, 3}),
    _ = [begin
             Term = some_json(4),
             Text = iolist_to_binary(sonde_json:encode(Term)),
             [] = [C || <<C>> <= Text, C < 32 orelse C > 126],
             {Term, Term} = {Term, read(Text)}
         end || _ <- lists:seq(1, 3000)],
    ok.

%% Of terms that look the same afterwards: text is a binary, `undefined' is null.
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

json_of_rows(Config) ->
    Rows = [{self(), 3, [a_name, {initial_call, {m, f, 1}}]}],
    Command = sonde_cli_table:command("proc_count"),
    Shown = shown(fun() -> sonde_cli_show:show(json, Command, [], Rows) end, Config),
    Pid = list_to_binary(pid_to_list(self())),
    #{<<"rows">> := [#{<<"pid">> := Pid, <<"value">> := 3, <<"name">> := <<"a_name">>,
                       <<"initial_call">> := <<"m:f/1">>}]} = read(Shown).

jq_reads_it(Config) ->
    case os:find_executable("jq") of
        false ->
            {skip, "no jq"};
        _ ->
            _ = rand:seed(exsss, {4, 5, 6}),
            File = filename:join(proplists:get_value(priv_dir, Config), "some.json"),
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

%% ---- at work

%% As that node itself writes them.
pids_are_those_of_the_node(Config) ->
    with_node(Config, fun(Peer, Node) ->
        {0, Json, ""} = sonde(at(Node, "info kernel_sup links --json"), Config),
        #{<<"links">> := Seen} = read(list_to_binary(Json)),
        Seen = [_ | _] = peer:call(Peer, ?MODULE, links_as_text, [kernel_sup]),
        {0, Text, ""} = sonde(at(Node, "proc_count reductions 1000"), Config),
        Pid = peer:call(Peer, ?MODULE, pid_as_text, [kernel_sup]),
        true = has(Pid ++ " ", Text),
        {0, Same, ""} = sonde(at(Node, "info " ++ Pid ++ " registered_name"), Config),
        {0, Same, ""} = sonde(at(Node, "info kernel_sup registered_name"), Config)
    end).

links_as_text(Name) ->
    {links, Links} = process_info(whereis(Name), links),
    [list_to_binary(pid_to_list(Pid)) || Pid <- Links].

pid_as_text(Name) ->
    pid_to_list(whereis(Name)).

%% In an empty folder, with nothing of ours in any path.
file_works_on_its_own(Config) ->
    with_node(Config, fun(Peer, Node) ->
        {0, Json, ""} = sonde(at(Node, "native --json"), Config),
        Status = maps:get(<<"status">>, read(list_to_binary(Json))),
        Status = case sonde_test:side() of
                     native -> <<"active">>;
                     portable -> [<<"off">>, <<"disabled">>]
                 end,
        ok = sonde_test:until(fun() -> not attach_SUITE:is_there(Peer) end)
    end).

answers_and_exit_codes(Config) ->
    with_node(Config, fun(Peer, Node) ->
        Pid = peer:call(Peer, ?MODULE, start_holder, []),
        _ = [begin
                 {Words, {0, Json, ""}} = {Words, sonde(at(Node, Words ++ " --json"), Config)},
                 true = is_map(read(list_to_binary(Json))),
                 {Words, {0, [_ | _], ""}} = {Words, sonde(at(Node, Words), Config)}
             end || Words <- ["proc_count memory 3", "proc_window reductions 2 10",
                              "proc_group registered_name memory reductions", "bin_leak 2",
                              "info " ++ Pid, "mailbox cli_suite_holder 3", "ets_count memory 2",
                              "port_types", "scheduler_usage 10", "node_stats 1 10", "sockets",
                              "port_count memory 2", "inet_count oct 2"]],
        Native = ["bin_account", "bin_owned 2", "bin_holders 2 count", "bin_resources 2",
                  "heap cli_suite_holder", "heap_top cli_suite_holder 2", "bin_garbage 2",
                  "bin_slices cli_suite_holder", "bin_waste 1"],
        Code = case sonde_test:side() of native -> 0; portable -> 1 end,
        _ = [{Words, {Code, _, _}} = {Words, sonde(at(Node, Words), Config)} || Words <- Native]
    end).

start_holder() ->
    Pid = sonde_test:hold(fun() -> [binary:copy(<<"held">>, 1000) || _ <- lists:seq(1, 10)] end),
    true = register(cli_suite_holder, Pid),
    pid_to_list(Pid).

what_goes_wrong_is_one_line(Config) ->
    with_node(Config, fun(_, Node) ->
        Port = integer_to_list(load_SUITE:free_port()),
        _ = [begin
                 {Words, {1, "", Said}} = {Words, sonde(Words, Config)},
                 {Words, true, Said} = {Words, is_one_line(Said), Said}
             end || Words <- ["--node p" ++ Port ++ "@127.0.0.1 native",
                              "--node p" ++ Port ++ "@no.such.host.invalid native",
                              "--cookie-file /no/such/file " ++ at(Node, "native"),
                              at(Node, "info no_such_process"), at(Node, "heap 0.999999.0"),
                              at(Node, "heap nonsense.0"), at(Node, "port_info nonsense"),
                              at(Node, "bin_holder 12")]],
        ok
    end).

%% From the environment, from a file, and the wrong one; never from the command line.
cookies(Config) ->
    with_node(Config, fun(_, Node) ->
        Dir = proplists:get_value(dir, Config),
        [Right, Wrong] = [filename:join(Dir, Name) || Name <- ["right", "wrong"]],
        ok = file:write_file(Right, [cookie(), "\n"]),
        ok = file:write_file(Wrong, "wrong\n"),
        Ask = at(Node, "port_types"),
        {0, Types, ""} = sonde(Ask, Config),
        {0, Types, ""} =
            sonde("--cookie-file " ++ Right ++ " " ++ Ask, [{cookie, "wrong"} | Config]),
        {1, "", Refused} = sonde("--cookie-file " ++ Wrong ++ " " ++ Ask, Config),
        true = is_one_line(Refused) andalso has("cookie", Refused),
        {1, "", Refused} = sonde(Ask, [{cookie, "wrong"} | Config]),
        {1, "", None} = sonde(Ask, [{cookie, ""} | Config]),
        true = is_one_line(None) andalso has("no cookie", None),
        ok = file:write_file(filename:join(Dir, ".erlang.cookie"), cookie()),
        {0, Types, ""} = sonde(Ask, [{cookie, ""} | Config])
    end).

dump_is_a_file_here(Config) ->
    case sonde_test:side() of
        portable ->
            {skip, "there is no portable side of it"};
        native ->
            with_node(Config, fun(Peer, Node) ->
                _ = peer:call(Peer, ?MODULE, start_holder, []),
                File = filename:join(proplists:get_value(dir, Config), "holder.heapsnapshot"),
                Dump = at(Node, "dump cli_suite_holder " ++ File),
                {0, Json, ""} = sonde(Dump ++ " --json", Config),
                #{<<"bytes">> := Bytes} = read(list_to_binary(Json)),
                {ok, Dumped} = file:read_file(File),
                Bytes = byte_size(Dumped),
                #{<<"snapshot">> := _} = read(Dumped),
                {1, "", Exists} = sonde(Dump, Config),
                true = is_one_line(Exists) andalso has("exists", Exists),
                {0, _, ""} = sonde(Dump ++ " --force", Config),
                {1, "", NoDir} = sonde(Dump ++ "/in/no/folder", Config),
                true = is_one_line(NoDir)
            end)
    end.

diagnosis_with_suspects_is_3(Config) ->
    with_node(Config, fun(Peer, Node) ->
        Ask = at(Node, "diagnose --interval 300 --json"),
        _ = peer:call(Peer, sonde_leaks_helper, start,
                      [#{plan => [#{of_kind => leak, kind => unmatched, bytes => 30000000,
                                    named => false}]}], 60000),
        {3, Json, ""} = sonde(Ask, Config),
        #{<<"suspects">> := [_ | _] = Suspects} = read(list_to_binary(Json)),
        [#{<<"remedy">> := <<"drop_unmatched">>}] =
            [S || #{<<"kind">> := <<"mailbox">>} = S <- Suspects]
    end).

nothing_is_cut_or_coloured_for_nobody(Config) ->
    with_node(Config, fun(_, Node) ->
        {0, Text, ""} = sonde(at(Node, "proc_count memory 100"), Config),
        false = has("\e", Text),
        false = has("..", Text)
    end).

%% ---- several nodes

cluster_is_one_table(Config) ->
    with_node(Config, fun(_, One) ->
        with_node(Config, fun(_, Two) ->
            Both = lists:concat(["--cluster ", One, ",", Two, " "]),
            {0, Text, ""} = sonde(Both ++ "proc_count memory 2", Config),
            true = has("node", Text) andalso has(atom_to_list(One), Text)
                andalso has(atom_to_list(Two), Text),
            {0, Json, ""} = sonde(Both ++ "--json proc_count memory 2", Config),
            #{<<"rows">> := Rows, <<"failed">> := []} = read(list_to_binary(Json)),
            4 = length(Rows),
            Values = [V || #{<<"value">> := V} <- Rows],
            Values = lists:reverse(lists:sort(Values)),
            _ = [{Words, {0, _, ""}} = {Words, sonde(Both ++ Words, Config)}
                 || Words <- ["port_types", "proc_group registered_name memory", "bin_leak 1"]],
            {1, Some, Said} = sonde(lists:concat(["--cluster ", One, ",p1@127.0.0.1 ",
                                                  "proc_count memory 2"]), Config),
            true = has(atom_to_list(One), Some) andalso is_one_line(Said)
                andalso has("p1@127.0.0.1", Said)
        end)
    end).

cluster_merges_largest_first(_Config) ->
    with_two(fun(Call, _, Bs) ->
        #{failed := [], rows := Rows} = Call([{proc_count, [memory, 3]}, #{nodes => Bs}]),
        6 = length(Rows),
        Bs = lists:usort([Node || {Node, _} <- Rows]),
        Values = [V || {_, {_, V, _}} <- Rows],
        Values = lists:reverse(lists:sort(Values)),
        #{failed := [], rows := Types} = Call([{port_types, []}, #{nodes => Bs}]),
        Counts = [N || {_, {_, N}} <- Types],
        Counts = lists:reverse(lists:sort(Counts)),
        #{failed := [], rows := Groups} =
            Call([{proc_group, [registered_name, [memory]]}, #{nodes => Bs}]),
        Totals = [T || {_, {_, _, [{memory, T}]}} <- Groups],
        Totals = lists:reverse(lists:sort(Totals)),
        #{failed := [], rows := Leaks} = Call([{bin_leak, [3]}, #{nodes => Bs}]),
        Freed = [V || {_, {_, V, _}} <- Leaks],
        Freed = lists:sort(Freed),
        #{failed := [], rows := []} = Call([{proc_count, [memory, 3]}, #{nodes => []}])
    end).

cluster_says_who_failed(_Config) ->
    with_two(fun(Call, Home, [One | _]) ->
        Down = 'p1@127.0.0.1',
        #{failed := [{Down, noconnection}], rows := [{One, _}]} =
            Call([{proc_count, [memory, 1]}, #{nodes => [One, Down]}]),
        #{failed := [{One, timeout}], rows := []} =
            Call([{proc_window, [memory, 1, 100000]}, #{nodes => [One], timeout => 50}]),
        #{failed := [{One, badarg}], rows := []} =
            Call([{proc_count, [no_attribute, 1]}, #{nodes => [One]}]),
        [] = sonde_peer_helper:call(Home, ?MODULE, cluster_and_look, [One, Down])
    end).

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
                             {{proc_count, [memory, 3, #{report => true}]}, #{}},
                             {{bin_leak, [3, #{}]}, #{}}, {proc_count, #{}},
                             {{proc_count, [memory, 3]}, #{nodes => ["a@h"]}},
                             {{proc_count, [memory, 3]}, #{nodes => a@h}},
                             {{proc_count, [memory, 3]}, #{timeout => -1}},
                             {{proc_count, [memory, 3]}, #{timeout => infinity}},
                             {{proc_count, [memory, 3]}, #{unknown => 1}},
                             {{proc_count, [memory, 3]}, []}]],
    ok.

with_two(Test) ->
    {Home, HomeNode} = sonde_peer_helper:start_node(shipped),
    {Other, Node} = sonde_peer_helper:start_node(shipped),
    Call = fun(Args) -> sonde_peer_helper:call(Home, sonde, cluster, Args) end,
    try Test(Call, Home, lists:sort([HomeNode, Node]))
    after [sonde_peer_helper:stop(P) || P <- [Home, Other]]
    end.

%% ---- the command

with_node(Config, Test) ->
    Port = load_SUITE:free_port(),
    {Peer, Node} = attach_SUITE:start(["-erl_epmd_port", integer_to_list(Port)], Config, Port),
    try Test(Peer, Node)
    after peer:stop(Peer)
    end.

cookie() -> attach_SUITE:cookie().

at(Node, Words) ->
    lists:concat(["--node ", Node, " ", Words]).

%% Its exit code, and what it wrote to where.
sonde(Words, Config) ->
    Dir = proplists:get_value(dir, Config),
    Errors = filename:join(Dir, "stderr"),
    Quoted = [[" '", W, "'"] || W <- string:lexemes(Words, " ")],
    Flags = "-epmd_module sonde_epmd -start_epmd false -pa "
        ++ filename:dirname(code:which(sonde_epmd)),
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", unicode:characters_to_list(
                                      [proplists:get_value(sonde, Config), Quoted,
                                       " 2>'", Errors, "' </dev/null"])]},
                      {env, [{"ERL_FLAGS", Flags}, {"HOME", Dir}, {"XDG_CONFIG_HOME", Dir},
                             {"SONDE_COOKIE", proplists:get_value(cookie, Config, cookie())},
                             {"ERL_LIBS", false}]},
                      {cd, Dir}, exit_status, binary]),
    {Code, Out} = collect(Port, <<>>),
    {ok, Said} = file:read_file(Errors),
    {Code, binary_to_list(Out), binary_to_list(Said)}.

collect(Port, Out) ->
    receive
        {Port, {data, Data}} -> collect(Port, <<Out/binary, Data/binary>>);
        {Port, {exit_status, Code}} -> {Code, Out}
    end.

%% What a fun prints.
shown(Fun, Config) ->
    File = filename:join(proplists:get_value(dir, Config), "shown"),
    {ok, Device} = file:open(File, [write]),
    Leader = group_leader(),
    true = group_leader(Device, self()),
    try ok = Fun()
    after group_leader(Leader, self())
    end,
    ok = file:close(Device),
    {ok, Text} = file:read_file(File),
    Text.

is_one_line(Said) ->
    lists:prefix("sonde: ", Said) andalso length(string:split(Said, "\n", all)) =:= 2.

has(Part, Text) ->
    string:find(Text, Part) =/= nomatch.

init_per_testcase(Case, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), Case),
    ok = file:make_dir(Dir),
    [{dir, Dir} | Config].

end_per_testcase(_Case, _Config) ->
    ok.

ebin() ->
    filename:dirname(code:which(sonde)).
