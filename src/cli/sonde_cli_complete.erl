%% @private
%% Completions for shells, from the table: the command first, then the values of each argument;
%% options anywhere. Node names are not completed.
-module(sonde_cli_complete).

-export([script/1]).

-spec script(bash | zsh | fish) -> unicode:chardata().
script(bash) ->
    ["# bash completion of sonde, printed by: sonde completion bash\n"
     "_sonde() {\n"
     "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
     "    local command= at=0 i\n"
     "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
     "        case ${COMP_WORDS[i]} in\n"
     "        ", lists:join($|, with_value()), ") ((i++)) ;;\n"
     "        -*) ;;\n"
     "        *) if [ -z \"$command\" ]; then command=${COMP_WORDS[i]}; else ((at++)); fi ;;\n"
     "        esac\n"
     "    done\n"
     "    COMPREPLY=()\n"
     "    case $prev in\n", [bash_option(O) || O <- all_options(), is_map_key(arg, O)],
     "    esac\n"
     "    case $cur in\n"
     "    -*) local options='", lists:join($\s, names(sonde_cli_table:options())), "'\n"
     "        case $command in\n",
     [["        ", Name, ") options+=' ", lists:join($\s, names(Options)), "' ;;\n"]
      || #{name := Name, options := Options} <- sonde_cli_table:commands()],
     "        esac\n"
     "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
     "        return ;;\n"
     "    esac\n"
     "    case $command:$at in\n"
     "    :0) COMPREPLY=($(compgen -W '", lists:join($\s, command_names()),
     "' -- \"$cur\")) ;;\n",
     [["    ", place(Name, At, Arg), ") ", bash_values(Type), " ;;\n"]
      || {Name, At, #{type := Type} = Arg} <- places(), has_values(Type)],
     "    esac\n"
     "}\n"
     "complete -F _sonde sonde\n"];
script(zsh) ->
    ["#compdef sonde\n"
     "# zsh completion of sonde, printed by: sonde completion zsh\n"
     "_sonde() {\n"
     "    local context state line command at\n"
     "    local -a commands=(\n",
     [["        '", Name, $:, quoted(Help), "'\n"]
      || #{name := Name, help := Help} <- sonde_cli_table:commands()],
     "    )\n"
     "    local -a options=(\n", [zsh_option(O) || O <- sonde_cli_table:options()],
     "    )\n"
     "    _arguments -C $options '1: :->command' '*:: :->arguments'\n"
     "    case $state in\n"
     "    command) _describe command commands ;;\n"
     "    arguments)\n"
     "        command=$line[1]\n"
     "        at=$((CURRENT - 1))\n"
     "        case $command in\n",
     [["        ", Name, ") options+=(\n", [["    ", zsh_option(O)] || O <- Options],
       "        ) ;;\n"] || #{name := Name, options := Options} <- sonde_cli_table:commands()],
     "        esac\n"
     "        if [[ $PREFIX == -* ]]; then\n"
     "            _arguments $options\n"
     "            return\n"
     "        fi\n"
     "        case $command:$at in\n",
     [["        ", place(Name, At, Arg), ") ", zsh_values(Type), " ;;\n"]
      || {Name, At, #{type := Type} = Arg} <- places(), has_values(Type)],
     "        esac ;;\n"
     "    esac\n"
     "}\n"
     "if [ \"$funcstack[1]\" = _sonde ]; then _sonde \"$@\"; else compdef _sonde sonde; fi\n"];
script(fish) ->
    ["# fish completion of sonde, printed by: sonde completion fish\n"
     "function __sonde_at\n"
     "    set -l words (commandline -opc)\n"
     "    set -l found\n"
     "    set -l skip 0\n"
     "    for word in $words[2..-1]\n"
     "        if test $skip = 1\n"
     "            set skip 0\n"
     "        else if contains -- $word ", lists:join($\s, with_value()), "\n"
     "            set skip 1\n"
     "        else if not string match -q -- '-*' $word\n"
     "            set -a found $word\n"
     "        end\n"
     "    end\n"
     "    test \"$argv\" = \"$found[1] \"(math (count $found) - 1)\n"
     "    or test \"$argv\" = none -a (count $found) = 0\n"
     "    or test \"$argv\" = \"$found[1]\" -a (count $found) -gt 0\n"
     "end\n"
     "complete -c sonde -f\n",
     [fish_option("", O) || O <- sonde_cli_table:options()],
     [["complete -c sonde -n '__sonde_at none' -a ", Name, " -d '",
      fish_quoted(Help), "'\n"]
      || #{name := Name, help := Help} <- sonde_cli_table:commands()],
     [fish_option([" -n '__sonde_at ", Name, "'"], O)
      || #{name := Name, options := Options} <- sonde_cli_table:commands(), O <- Options],
     [["complete -c sonde -n '__sonde_at ", fish_place(Name, At, Arg), "' ", fish_values(Type),
       "\n"]
      || {Name, At, #{type := Type} = Arg} <- places(), has_values(Type)]].

%% ---- the table, argument by argument

places() ->
    [{Name, At, Arg} || #{name := Name, args := Args} <- sonde_cli_table:commands(),
                        {At, Arg} <- lists:zip(lists:seq(0, length(Args) - 1), Args)].

has_values({one_of, _}) -> true;
has_values(Type) -> Type =:= local_file orelse Type =:= command.

values({one_of, Atoms}) -> [atom_to_list(A) || A <- Atoms];
values(command) -> command_names().

command_names() ->
    [Name || #{name := Name} <- sonde_cli_table:commands()].

all_options() ->
    sonde_cli_table:options()
        ++ lists:append([Options || #{options := Options} <- sonde_cli_table:commands()]).

%% Options that take the next word.
with_value() ->
    lists:usort(names([O || #{arg := _} = O <- all_options()])).

names(Options) ->
    lists:append([["--" ++ atom_to_list(Name) | [[$-, L] || #{letter := L} <- [O]]]
                  || #{name := Name} = O <- Options]).

%% The last argument of a command may repeat.
place(Name, _, #{many := true}) -> [Name, ":*"];
place(Name, At, _) -> [Name, $:, integer_to_list(At)].

quoted(Text) ->
    [case C of $' -> "'\\''"; $: -> "\\:"; $[ -> "\\["; $] -> "\\]"; _ -> C end || C <- Text].

%% ---- bash

bash_option(#{arg := {_, local_file}} = Option) ->
    ["    ", lists:join($|, names([Option])),
     ") COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n"];
bash_option(Option) ->
    ["    ", lists:join($|, names([Option])), ") return ;;\n"].

bash_values(local_file) -> "COMPREPLY=($(compgen -f -- \"$cur\"))";
bash_values(Type) ->
    ["COMPREPLY=($(compgen -W '", lists:join($\s, values(Type)), "' -- \"$cur\"))"].

%% ---- zsh

zsh_option(#{help := Help} = Option) ->
    Value = case Option of
                #{arg := {Arg, local_file}} -> [$:, Arg, ":_files"];
                #{arg := {Arg, _}} -> [$:, Arg, ": "];
                #{} -> ""
            end,
    [["        '", Name, $[, quoted(Help), $], Value, "'\n"] || Name <- names([Option])].

zsh_values(local_file) -> "_files";
zsh_values(Type) -> ["compadd -- ", lists:join($\s, values(Type))].

%% ---- fish

fish_option(Where, #{name := Name, help := Help} = Option) ->
    ["complete -c sonde", Where, " -l ", atom_to_list(Name),
     [[" -s ", L] || #{letter := L} <- [Option]],
     case Option of
         #{arg := {_, local_file}} -> " -r -F";
         #{arg := _} -> " -x";
         #{} -> ""
     end,
     " -d '", fish_quoted(Help), "'\n"].

fish_quoted(Text) ->
    [case C of $' -> "\\'"; _ -> C end || C <- Text].

fish_place(Name, _, #{many := true}) -> Name;
fish_place(Name, At, _) -> [Name, $\s, integer_to_list(At)].

fish_values(local_file) -> "-F";
fish_values(Type) -> ["-a '", lists:join($\s, values(Type)), "'"].
