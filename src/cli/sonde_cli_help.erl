%% @private
%% The texts of `--help', from the table; 79 columns.
-module(sonde_cli_help).

-export([general/0, command/1, version/0]).

-define(COLUMN, 30).          % where the second column begins
-define(WIDTH, 79).

-spec general() -> unicode:chardata().
general() ->
    ["sonde looks inside a running Erlang node without stopping it.\n\n", usage(none),
     "\nCommands:\n", [wrapped(usage_of(C), H) || #{help := H} = C <- commands()],
     "\nOptions:\n", [option(O) || O <- sonde_cli_table:options()],
     [["\n", paragraph(Text)]
      || Text <- ["A PROCESS is a pid as the node prints it, <0.44.0> or 0.44.0, or a registered "
                  "name.",
                  "If the node does not have sonde, the command loads it temporarily. Modules and "
                  "files are removed within a minute after the last user disconnects or the "
                  "connection breaks. The native library stays mapped, unused, until the node "
                  "ends.",
                  "With --pid, sonde reads the memory of a node on this machine that cannot answer, "
                  "as its user or as root. It starts that node's own executable with your rights, "
                  "to learn how that VM keeps its processes. These commands can: " ++ which(outside) ++ ".",
                  "With --core, it reads the core file of a node that died, in the same way: it starts the "
                  "executable that the file names. These commands can: " ++ which(core) ++ ".",
                  "Exit codes: 0 done; 1 the node was not reached, or the call failed; 2 wrong "
                  "usage; 3 diagnose found suspects; 143 ended by SIGTERM.",
                  "sonde help COMMAND describes one command."]]].

which(Key) ->
    lists:append(lists:join(", ", [Name || #{name := Name} = Command <- commands(), is_map_key(Key, Command)])).

-spec command(sonde_cli_table:command()) -> unicode:chardata().
command(#{name := Name, help := Help} = Command) ->
    [paragraph(["sonde ", Name, ": ", Help]), "\n", usage(Command),
     [["\nArguments:\n", [argument(A) || A <- Args]] || #{args := [_ | _] = Args} <- [Command]],
     [["\nOptions:\n", [option(O) || O <- Options]] || #{options := Options} <- [Command]],
     [["\n", [[Line, $\n] || Line <- Text]] || #{text := Text} <- [Command]],
     [["\n", paragraph(["In Erlang: ", call(Command), "; in a shell, h(sonde, ",
                        atom_to_list(Function), "). prints its documentation."])]
      || #{run := {sonde, Function}} <- [Command]],
     "\nsonde --help lists the options that all commands take.\n"].

usage(none) ->
    "Usage: sonde --node NAME@HOST [OPTIONS] COMMAND [ARGUMENTS]\n"
    "       sonde --pid OSPID [OPTIONS] COMMAND [ARGUMENTS]\n"
    "       sonde --core FILE [OPTIONS] COMMAND [ARGUMENTS]\n";
usage(#{run := Run} = Command) when Run =:= completion; Run =:= help ->
    ["Usage: sonde ", usage_of(Command), "\n"];
usage(#{run := Run} = Command) ->
    Functions = sonde_cluster:functions(),
    Both = "--node NAME@HOST | --cluster NODES",
    Target = case Run of
                 _ when is_map_key(each, Command) -> Both;
                 {sonde, F} when is_map_key(F, Functions) -> Both;
                 _ -> "--node NAME@HOST"
             end,
    ["Usage: sonde ", Target, " [OPTIONS] ", usage_of(Command), "\n",
     [["       sonde --", Other, " [OPTIONS] ", usage_of(Command), "\n"]
      || {Key, Other} <- [{outside, "pid OSPID"}, {core, "core FILE"}], is_map_key(Key, Command)]].

-spec version() -> unicode:chardata().
version() ->
    ["sonde ", sonde_bundle:version(), "\n"].

commands() ->
    sonde_cli_table:commands().

usage_of(#{name := Name, args := Args}) ->
    lists:join($\s, [Name | [usage_of_arg(A) || A <- Args]]).

usage_of_arg(#{name := Name, many := true}) -> [Name, "..."];
usage_of_arg(#{name := Name, optional := true}) -> [$[, Name, $]];
usage_of_arg(#{name := Name}) -> Name.

call(#{run := {sonde, Function}, args := Args}) ->
    ["sonde:", atom_to_list(Function), $(, lists:join(", ", [in_call(A) || A <- Args]), $)].

in_call(#{name := Name, many := true}) -> [$[, Name, "]"];
in_call(#{name := Name}) -> Name.

argument(#{name := Name, type := Type}) -> wrapped(Name, what(Type)).

what({one_of, Atoms}) -> ["one of ", lists:join(", ", [atom_to_list(A) || A <- Atoms])];
what(count) -> "an integer, at least 0";
what(integer) -> "an integer";
what(ms) -> "milliseconds";
what(process) -> "a pid as the node prints it, or a registered name";
what(port) -> "a port as the node prints it, #Port<0.5>";
what(local_file) -> "a file on this machine";
what(command) -> "one of the commands".

option(#{name := Name, help := Help} = Option) ->
    Letter = case Option of #{letter := L} -> ["-", L, ", "]; _ -> "    " end,
    Arg = case Option of #{arg := {A, _}} -> [$\s, A]; _ -> "" end,
    wrapped([Letter, "--", atom_to_list(Name), Arg], Help).

%% Two columns; the second one wraps within its own width.
wrapped(Left, Right) ->
    [First | More] = sonde_grid:fill(string:lexemes(Right, " "), " ", ?WIDTH - ?COLUMN),
    Text = unicode:characters_to_list(Left),
    Head = case length(Text) > ?COLUMN - 4 of
               true -> ["  ", Text, $\n, lists:duplicate(?COLUMN, $\s)];
               false -> ["  ", string:pad(Text, ?COLUMN - 2)]
           end,
    [Head, First, $\n, [[lists:duplicate(?COLUMN, $\s), Line, $\n] || Line <- More]].

paragraph(Text) ->
    [[Line, $\n] || Line <- sonde_grid:fill(string:lexemes(Text, " "), " ", ?WIDTH)].
