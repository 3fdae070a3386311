%% @private
%% The names of a report, as text of bounded length: the browser gets no other text of a node. Characters that
%% would turn around what follows them on the page are escaped.
-module(sonde_report_text).

-export([text/1, long/1, name/1, call/1, names/1, process/1, registered/1, table/1, kind/1]).

-define(LONGEST, 200).        % characters
-define(LONGEST_SENTENCE, 1000).
-define(IS_NAME(Name), (is_binary(Name) orelse is_atom(Name) andalso Name =/= undefined)).

%% @doc A text, cut if it is too long.
-spec text(unicode:chardata()) -> binary().
text(Chars) ->
    case unicode:characters_to_list(Chars) of
        List when is_list(List) -> cut(safe(List));
        _ -> <<"?">>
    end.

%% A list of characters and of whole escapes, so that none is cut apart.
safe(List) -> sonde_units:safe(List).

cut(List) when length(List) =< ?LONGEST -> utf8(List);
cut(List) -> utf8(lists:sublist(List, ?LONGEST - 3) ++ "...").

%% @doc A sentence: the names in it are bounded, so it is, too.
-spec long(unicode:chardata()) -> binary().
long(Chars) -> utf8(lists:sublist(safe(lists:flatten([unicode:characters_to_list(Chars)])), ?LONGEST_SENTENCE)).

utf8(Safe) -> << <<C/utf8>> || C <- lists:flatten(Safe) >>.

%% @doc A name; from outside, one without an atom here is a binary.
-spec name(sonde_names:name()) -> binary() | undefined.
name(undefined) -> undefined;
name(Name) -> atom(Name).

atom(Name) -> text(sonde_names:atom(Name, true)).

-spec call({sonde_names:name(), sonde_names:name(), arity()} | undefined | not_known) -> binary() | undefined.
call({_, _, _} = Call) -> text(sonde_names:call(Call, true));
call(not_known) -> <<"not_known">>;
call(_) -> undefined.

%% @doc The texts of the attributes of a row: its name, and two calls.
-spec names(sonde_attr:attrs()) -> {binary() | undefined, binary() | undefined, binary() | undefined}.
names([Name | Attrs]) when is_atom(Name) -> setelement(1, names(Attrs), name(Name));
names(Attrs) -> {undefined, of_call(initial_call, Attrs), of_call(current_function, Attrs)}.

of_call(Key, Attrs) ->
    case lists:keyfind(Key, 1, Attrs) of
        {_, Call} -> call(Call);
        false -> undefined
    end.

%% @doc A process, port or reference as the node prints it, or what holds a binary.
-spec process(term()) -> binary().
process(Pid) when is_pid(Pid) -> list_to_binary(pid_to_list(Pid));
process(Port) when is_port(Port) -> list_to_binary(port_to_list(Port));
process(Ref) when is_reference(Ref) -> list_to_binary(ref_to_list(Ref));
process({queue, Pid}) -> text(["messages to ", named(Pid)]);
process({ets, Tab}) -> text(["table ", table(Tab)]);
process(Atom) when is_atom(Atom) -> atom(Atom).

%% @doc A process with its name, if it has one.
-spec registered(pid() | atom()) -> binary().
registered(Pid) -> text(named(Pid)).

named(Pid) when is_pid(Pid), node(Pid) =:= node() ->
    case process_info(Pid, registered_name) of
        {registered_name, Name} -> [process(Pid), $\s, atom(Name)];
        _ -> process(Pid)
    end;
named(Other) -> process(Other).

%% @doc The name of a table: one without a name of its own is a reference.
-spec table(ets:table()) -> binary().
table(Tab) when is_atom(Tab) -> atom(Tab);
table(Tab) ->
    case ets:info(Tab, name) of
        undefined -> process(Tab);
        Name -> text([atom(Name), $\s, process(Tab)])
    end.

%% @doc The kind of an object on a heap.
-spec kind(sonde_heap_map:kind()) -> binary().
kind({tuple, Arity}) -> text(["tuple of ", integer_to_list(Arity)]);
kind({'fun', M, F, A}) when ?IS_NAME(M), ?IS_NAME(F), is_integer(A) -> text(["fun ", sonde_names:call({M, F, A}, true)]);
kind({'fun', M, _, _}) when ?IS_NAME(M) -> text(["fun of ", atom(M)]);
kind({'fun', _, _, _}) -> <<"fun">>;
kind(cons) -> <<"list">>;
kind(Kind) when is_atom(Kind) -> text(string:replace(atom_to_list(Kind), "_", " ", all)).
