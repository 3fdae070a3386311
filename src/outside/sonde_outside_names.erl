%% @private
%% The processes of another OS process by name, and their names as text. Makes no atom: a name that this VM
%% does not have as an atom is a binary.
-module(sonde_outside_names).

-export([process/2, who/1, attrs/1, about/1, name/1, function/1, typed/2]).
-export_type([name/0, function_there/0]).

-type name() :: atom() | binary().
-type function_there() :: {name(), name(), arity()}.

%% @doc Finds a process by its pid, as that node prints it, or by its registered name.
-spec process(string(), Until :: integer()) ->
    {ok, pid()} | {error, {no_pid | no_name | name_not_known, string()} | timeout | no_reader}.
process(Text, Until) ->
    case numbers(Text) of
        [_ | _] = Numbers -> pid(Numbers, Text);
        [] -> registered(Text, Until)
    end.

%% Those of a pid. The text may be anything that can be typed.
numbers([$< | Text]) -> numbers(lists:reverse(Text), Text);
numbers(Text) -> numbers(none, Text).

numbers([$> | Reversed], _) -> numbers(none, lists:reverse(Reversed));
numbers(none, Text) ->
    case lists:all(fun(C) -> C =:= $. orelse (C >= $0 andalso C =< $9) end, Text) of
        true -> Text;
        false -> []
    end;
numbers(_, _) -> [].

pid(Numbers, Text) ->
    try list_to_pid("<" ++ Numbers ++ ">") of
        Pid when node(Pid) =:= node() -> {ok, Pid};
        _ -> {error, {no_pid, Text}}
    catch
        error:badarg -> {error, {no_pid, Text}}
    end.

%% `MyApp.Repo' is what a table shows of 'Elixir.MyApp.Repo'.
registered(Text, Until) ->
    case find(unicode:characters_to_binary(Text), 0, Until) of
        {ok, Pid} -> {ok, Pid};
        {error, Why} -> {error, Why};
        Not ->
            case find(unicode:characters_to_binary(["Elixir.", Text]), 0, Until) of
                {ok, Pid} -> {ok, Pid};
                {error, Why} -> {error, Why};
                none when Not =:= none -> {error, {no_name, Text}};
                _ -> {error, {name_not_known, Text}}
            end
    end.

find(Name, From, Until) when is_binary(Name) ->
    case sonde_nif:find_name(Name, From) of
        Pid when is_pid(Pid) -> {ok, Pid};
        Not when Not =:= none; Not =:= not_known -> Not;
        no_reader -> {error, no_reader};
        Next ->
            case erlang:monotonic_time(millisecond) < Until of
                true -> find(Name, Next, Until);
                false -> {error, timeout}
            end
    end;
find(_, _, _) ->
    none.

%% @doc The name of a process, the function that it began with, and the one that it is in. `undefined': there is none;
%% `not_known': it cannot be read, because it is not in the file.
-spec who(pid()) -> {name() | undefined, function_there() | undefined | not_known, function_there() | undefined | not_known}.
who(Pid) ->
    case sonde_nif:identity(Pid) of
        gone -> {undefined, undefined, undefined};
        {Name, Call, Current, _} -> {name(Name), function(Call), function(Current)}
    end.

%% @doc The same as in a row of `sonde'.
-spec attrs(pid()) -> [name() | {current_function | initial_call, function_there() | undefined | not_known}].
attrs(Pid) ->
    {Name, Call, Current} = who(Pid),
    [Name || Name =/= undefined] ++ [{current_function, Current}, {initial_call, Call}].

%% @doc The name of a process and where it is, of its attributes in a row, as text.
-spec about([term()]) -> unicode:chardata().
about(Attrs) ->
    [[sonde_names:atom(Name, true), $\s] || Name <- Attrs, not is_tuple(Name), Name =/= not_known]
        ++ case [proplists:get_value(Key, Attrs) || Key <- [current_function, initial_call]] of
               [{_, _, _} = Current, _] -> ["in ", sonde_names:call(Current, true)];
               [_, {_, _, _} = Call] -> ["began in ", sonde_names:call(Call, true)];
               _ -> []
           end.

-spec function(sonde_nif:function_there()) -> function_there() | undefined | not_known.
function({M, F, A}) -> {name(M), name(F), A};
function(Not) when Not =:= undefined; Not =:= not_known -> Not.

-spec name(binary() | undefined | not_known) -> name() | undefined.
name(Text) when is_binary(Text) -> sonde_names:existing(Text);
name(Not) when Not =:= undefined; Not =:= not_known -> Not.

%% ---- calls

%% @doc A call of sonde as the words of the command; Before is the command with its target.
-spec typed(unicode:chardata(), {sonde, atom(), [pid() | integer() | atom()]}) -> unicode:chardata().
typed(Before, {sonde, Function, Args}) ->
    lists:join($\s, [Before, atom_to_list(Function) | [word(Arg) || Arg <- Args]]).

word(Pid) when is_pid(Pid) -> string:trim(pid_to_list(Pid), both, "<>");
word(Number) when is_integer(Number) -> integer_to_list(Number);
word(Atom) -> atom_to_list(Atom).
