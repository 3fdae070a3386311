%% @private
%% Any term as JSON (RFC 8259), in ASCII: the encoding of a terminal or file cannot change it.
%%
%% Maps are objects, and so are lists of pairs `{Atom, _}' with different atoms; other lists, and
%% tuples, are arrays. `true' and `false' are themselves, `undefined' is null, other atoms are
%% strings; so are binaries that are text, lists of printable characters, and, as Erlang prints
%% them, all terms that JSON has no type for: pids, references, ports, funs, other binaries.
%% `{Module, Function, Arity}' is `"module:function/arity"'; under the keys of functions and stacks, its
%% names may be binaries.
-module(sonde_json).

-export([encode/1, string/1]).

-spec encode(term()) -> iodata().
encode(Map) when is_map(Map) ->
    object(lists:sort(maps:to_list(Map)));
encode(undefined) ->
    <<"null">>;
encode(Bool) when is_boolean(Bool) ->
    atom_to_binary(Bool);
encode(Atom) when is_atom(Atom) ->
    string(atom_to_list(Atom));
encode(N) when is_integer(N) ->
    integer_to_binary(N);
encode(F) when is_float(F) ->
    float_to_binary(F, [short]);
encode(Binary) when is_binary(Binary) ->
    case unicode:characters_to_list(Binary) of
        Chars when is_list(Chars) -> string(Chars);
        _ -> string(text(Binary))
    end;
encode([]) ->
    <<"[]">>;
encode([_ | _] = List) ->
    list(List, is_proper(List));
encode({M, F, A}) when is_atom(M), is_atom(F), is_integer(A), A >= 0, A < 256 ->
    string(lists:concat([M, ":", F, "/", A]));
encode(Tuple) when is_tuple(Tuple) ->
    array(tuple_to_list(Tuple));
encode(Other) ->
    string(text(Other)).

is_proper(List) ->
    try length(List) >= 0 catch error:badarg -> false end.

list(List, false) ->
    string(text(List));
list(List, true) ->
    case is_object(List) of
        true -> object(List);
        false -> chars(List)
    end.

chars(List) ->
    case io_lib:printable_unicode_list(List) of
        true -> string(List);
        false -> array(List)
    end.

is_object(List) ->
    lists:all(fun({Key, _}) -> is_atom(Key); (_) -> false end, List)
        andalso length(lists:ukeysort(1, List)) =:= length(List).

object(Pairs) ->
    [${, lists:join($,, [[key(Key), $:, encode(value(Key, Value))] || {Key, Value} <- Pairs]), $}].

value(Key, Call) when Key =:= current_function; Key =:= initial_call; Key =:= group -> call(Call);
value(Key, [_ | _] = Stack) when Key =:= stack; Key =:= current_stacktrace ->
    case is_proper(Stack) of
        true -> [call(Call) || Call <- Stack];
        false -> Stack
    end;
value(_, Value) -> Value.

call({M, F, A} = Call) when is_binary(M) orelse is_binary(F), is_integer(A) ->
    case sonde_names:is_name(M) andalso sonde_names:is_name(F) of
        true -> unicode:characters_to_binary([sonde_names:text(M), $:, sonde_names:text(F), $/,
                                              integer_to_list(A)]);
        false -> Call
    end;
call(Other) -> Other.

array(Terms) ->
    [$[, lists:join($,, [encode(Term) || Term <- Terms]), $]].

%% Keys of one map that differ only in their type get the same name. Our maps have no such keys.
key(Key) when is_atom(Key) -> string(atom_to_list(Key));
key(Key) ->
    case encode(Key) of
        <<$", _/bits>> = Text -> Text;
        [$" | _] = Text -> Text;
        _ -> string(text(Key))
    end.

text(Term) ->
    lists:flatten(io_lib:format("~0tp", [Term])).

-spec string([char()]) -> iolist().
string(Chars) ->
    [$", [char(C) || C <- Chars], $"].

char($") -> <<"\\\"">>;
char($\\) -> <<"\\\\">>;
char($\n) -> <<"\\n">>;
char($\r) -> <<"\\r">>;
char($\t) -> <<"\\t">>;
char(C) when C >= 32, C < 127 -> C;
char(C) when C < 16#10000 -> unit(C);
char(C) -> [unit(16#D800 + ((C - 16#10000) bsr 10)), unit(16#DC00 + (C band 16#3FF))].

unit(U) ->
    io_lib:format("\\u~4.16.0b", [U]).
