%% @private
%% Parses the command line by the table. Options may stand anywhere before `--'.
-module(sonde_cli_args).

-export([parse/1]).
-export_type([parsed/0, value/0]).

%% The name of a process or port of the other node stays text, with its type.
-type value() :: integer() | atom() | string() | {process | port, string()} | [value()].
-type parsed() :: {run, sonde_cli_table:command(), [value()], #{atom() => value()}}
                | {help, sonde_cli_table:command() | none} | version | {wrong, iodata()}.

-define(MAX_MS, 16#FFFFFFFF).

-spec parse([string()]) -> parsed().
parse(Words) ->
    case [I || {I, Word} <- lists:enumerate(Words), not is_text(Word)] of
        [] ->
            try words(Words, none, [], #{})
            catch throw:{wrong, Why} -> {wrong, Why}
            end;
        [I | _] ->
            {wrong, ["argument ", integer_to_list(I), " is not text in the encoding of this system"]}
    end.

%% The VM makes no list of bytes that are no text, or one with halves of characters.
is_text(Word) -> is_list(Word) andalso is_binary(unicode:characters_to_binary(Word)).

words([], Command, Args, Opts) ->
    finish(Command, lists:reverse(Args), Opts);
words(["--" | Words], Command, Args, Opts) ->
    {C, As} = lists:foldl(fun word/2, {Command, Args}, Words),
    words([], C, As, Opts);
words(["--" ++ Long | Words], Command, Args, Opts) ->
    [Name | Given] = string:split(Long, "="),
    option(sonde_cli_table:option(Name, Command), "--" ++ Name, Given, Words, Command, Args, Opts);
words([[$-, Letter] = Short | Words], Command, Args, Opts) when Letter < $0; Letter > $9 ->
    Found = [O || #{letter := L} = O <- sonde_cli_table:options(), L =:= Letter],
    option(hd(Found ++ [none]), Short, [], Words, Command, Args, Opts);
words([Word | Words], Command, Args, Opts) ->
    {C, As} = word(Word, {Command, Args}),
    words(Words, C, As, Opts).

%% The first word is the command, all others are its arguments.
word(Word, {none, Args}) ->
    case sonde_cli_table:command(Word) of
        none -> wrong(["no such command: ", Word]);
        Command -> {Command, Args}
    end;
word(Word, {Command, Args}) ->
    {Command, [Word | Args]}.

option(none, Written, _, _, none, _, _) ->
    wrong(["no such option: ", Written, " (a command's own options stand after it)"]);
option(none, Written, _, _, #{name := Name}, _, _) ->
    wrong(["no such option of ", Name, ": ", Written]);
option(#{arg := {_, Type}, name := Name}, Written, [Value], Words, Command, Args, Opts) ->
    words(Words, Command, Args, Opts#{Name => value(Type, Value, Written)});
option(#{arg := _} = Option, Written, [], [Value | Words], Command, Args, Opts) ->
    option(Option, Written, [Value], Words, Command, Args, Opts);
option(#{arg := {Name, _}}, Written, [], [], _, _, _) ->
    wrong([Written, " needs ", Name]);
option(#{}, Written, [_], _, _, _, _) ->
    wrong([Written, " takes no value"]);
option(#{name := Name}, _, [], Words, Command, Args, Opts) ->
    words(Words, Command, Args, Opts#{Name => true}).

finish(Command, _, #{help := true}) -> {help, Command};
finish(_, _, #{version := true}) -> version;
finish(none, _, _) -> wrong("no command");
finish(#{run := help}, [Name], _) ->
    case sonde_cli_table:command(Name) of
        none -> wrong(["no such command: ", Name]);
        Command -> {help, Command}
    end;
finish(#{run := help} = Command, Args, _) ->
    [] = arguments(Command, Args),
    {help, none};
finish(#{run := Run} = Command, Args, Opts) ->
    Values = arguments(Command, Args),
    ok = together(Opts),
    ok = in_range(Opts),
    ok = target(Run, Command, Opts),
    ok = printed(Run, Values, Opts),
    {run, Command, Values, Opts}.

-define(FREEZE_MS, 60000).    % the most
-define(DEPTH, 64).           % the most
-define(LEAST_MS, 100).
-define(MOST_MS, 600000).

together(#{json := true} = Opts) when is_map_key(collapsed, Opts); is_map_key(svg, Opts) ->
    wrong("--json excludes --collapsed and --svg");
together(#{collapsed := true, svg := _}) ->
    wrong("--collapsed and --svg exclude each other");
together(#{'freeze-limit' := Ms}) when Ms =:= 0; Ms > ?FREEZE_MS ->
    wrong(["--freeze-limit is out of range: ", integer_to_list(Ms)]);
together(#{'freeze-limit' := _} = Opts) when not is_map_key(freeze, Opts) ->
    wrong("--freeze-limit needs --freeze");
together(#{freeze := true} = Opts) when not is_map_key(pid, Opts) ->
    wrong("--freeze stops a process of this machine: it needs --pid");
together(_) ->
    ok.

%% As sonde:stacks/2 and sonde:diagnosis/1 take them. From outside, a look has no least interval.
in_range(#{depth := N}) when N < 1; N > ?DEPTH -> out_of_range("--depth", N, 1, ?DEPTH);
in_range(Opts) when is_map_key(pid, Opts); is_map_key(core, Opts) -> ok;
in_range(#{interval := Ms}) when Ms < ?LEAST_MS; Ms > ?MOST_MS ->
    out_of_range("--interval", Ms, ?LEAST_MS, ?MOST_MS);
in_range(_) -> ok.

-spec out_of_range(string(), integer(), integer(), integer()) -> no_return().
out_of_range(Option, N, Least, Most) ->
    wrong(io_lib:format("~s is out of range: ~b (at least ~b, at most ~b)", [Option, N, Least, Most])).

%% The target: one node, or several if the command has rows to merge or a report of each node, or a
%% process of this machine, or a core file.
target(completion, _, _) ->
    ok;
target(_, _, #{sysroot := _} = Opts) when not is_map_key(core, Opts) ->
    wrong("--sysroot needs --core");
target(_, _, #{trust := true} = Opts) when not is_map_key(pid, Opts), not is_map_key(core, Opts) ->
    wrong("--trust needs --pid or --core");
target(Run, Command, Opts) ->
    case [Target || Target <- [node, cluster, pid, core], is_map_key(Target, Opts)] of
        [Target] -> target(Target, Run, Command, Opts);
        [One, Other | _] -> wrong(io_lib:format("--~s and --~s exclude each other", [One, Other]));
        [] -> wrong("no node is given: use --node NAME@HOST")
    end.

target(node, Run, #{outside := true}, #{values := true}) when Run =/= dump ->
    wrong("--values needs --pid or --core: a node shows content by itself, unless it is forbidden there");
target(node, _, _, _) ->
    ok;
target(cluster, _, #{each := true}, _) ->
    ok;
target(cluster, Run, #{name := Name}, _) ->
    Functions = sonde_cluster:functions(),
    case Run of
        {sonde, Function} when is_map_key(Function, Functions) -> ok;
        _ -> wrong([Name, " has no rows to merge: use --node, not --cluster"])
    end;
target(pid, {sonde, proc_window}, _, #{freeze := true}) ->
    wrong("nothing grows in a process that is stopped: use proc_window without --freeze");
target(pid, report, _, #{watcher := _}) ->
    wrong("the history of a watcher cannot be read from outside: --watcher needs --node or --cluster");
target(pid, _, #{outside := true}, #{suspend := true}) ->
    wrong("--suspend cannot be done from outside: use --node");
target(pid, _, #{outside := true}, _) ->
    ok;
target(pid, _, #{name := Name}, _) ->
    wrong([Name, " cannot look from outside: use --node"]);
target(core, report, _, #{watcher := _}) ->
    wrong("the history of a watcher cannot be read from outside: --watcher needs --node or --cluster");
target(core, _, #{core := true}, #{suspend := true}) ->
    wrong("--suspend cannot be done in a core file");
target(core, _, #{core := true}, _) ->
    ok;
target(core, _, #{name := Name}, _) when Name =:= "proc_window"; Name =:= "node_stats"; Name =:= "scheduler_usage";
                                         Name =:= "inet_window"; Name =:= "bin_window" ->
    wrong(["a core file is of one moment, so nothing grows in it: ", Name, " needs --node or --pid"]);
target(core, _, #{name := Name}, _) ->
    wrong([Name, " cannot look into a core file"]).

%% A report on the standard output is one page, and nothing else stands there. A dump has no printed form.
printed(dump, [_, "-"], _) ->
    wrong("dump prints nothing: it needs the name of a file");
printed(report, ["-"], #{cluster := _}) ->
    wrong("report - prints one page: use --node, not --cluster");
printed(report, ["-"], #{json := true}) ->
    wrong("report - prints the page: it excludes --json");
printed(_, _, _) ->
    ok.

%% ---- arguments

arguments(#{name := Name, args := Wanted}, Given) ->
    take(Wanted, Given, Name).

take([#{many := true, name := N, type := Type}], [_ | _] = Given, _) ->
    [[value(Type, Text, N) || Text <- Given]];
take([#{name := N, type := Type} | Wanted], [Text | Given], Name) ->
    [value(Type, Text, N) | take(Wanted, Given, Name)];
take([#{optional := true} | _], [], _) ->
    [];
take([], [], _) ->
    [];
take([#{name := N} | _], [], Name) ->
    wrong([Name, ": ", N, " is missing"]);
take([], [Text | _], Name) ->
    wrong([Name, ": one argument too many: ", Text]).

value(count, Text, Of) -> number(Text, Of, 0, infinity);
value(integer, Text, Of) -> number(Text, Of, 0, infinity);
value(os_pid, Text, Of) -> number(Text, Of, 1, infinity);
value(ms, Text, Of) -> number(Text, Of, 0, ?MAX_MS);
value(node, Text, Of) -> node_name(Text, Of);
value(nodes, Text, Of) ->
    case string:lexemes(Text, ",") of
        [] -> wrong([Of, " names no node: ", Text]);
        Names -> [node_name(Name, Of) || Name <- Names]
    end;
value(process, Text, _) -> {process, Text};
value(port, Text, _) -> {port, Text};
value({one_of, Atoms}, Text, Of) ->
    case [A || A <- Atoms, atom_to_list(A) =:= Text] of
        [Atom] -> Atom;
        [] -> wrong([Of, " is not one of ", lists:join(", ", [atom_to_list(A) || A <- Atoms]),
                     ": ", Text])
    end;
value(local_file, "", Of) ->
    wrong([Of, " is empty"]);
value(_, Text, _) ->
    Text.

number(Text, Of, Least, Most) ->
    try list_to_integer(Text) of
        N when N >= Least, N =< Most -> N;
        _ -> wrong([Of, " is out of range: ", Text])
    catch
        error:badarg -> wrong([Of, " is not a number: ", Text])
    end.

%% The only text from the command line that becomes an atom.
node_name(Text, Of) ->
    case string:split(Text, "@", all) of
        [[_ | _], [_ | _]] when length(Text) < 256 -> list_to_atom(Text);
        _ -> wrong([Of, " is not NAME@HOST: ", Text])
    end.

-spec wrong(iodata()) -> no_return().
wrong(Why) ->
    throw({wrong, Why}).
