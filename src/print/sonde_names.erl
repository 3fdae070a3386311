%% @private
%% Names for people: modules, functions and calls of Elixir as Elixir writes them, all others as
%% Erlang does. A name may be a binary, for want of the atom. No atom is made.
-module(sonde_names).

-export([atom/2, call/2, existing/1, is_name/1, of_elixir/2, readable/1, text/1, typed/2, shell/1]).
-export_type([name/0, shell/0]).

%% A binary is the text of an atom, in UTF-8.
-type name() :: atom() | binary().
-type shell() :: erlang | elixir.

-define(ASK_MS, 5000).
-define(LONGEST, (255 * 4)).  % bytes of the text of an atom
%% Those that Elixir's Macro.inspect_atom(:remote_call, _) leaves unquoted and that are no words.
-define(OPERATORS, ["!", "!=", "!==", "&", "&&", "&&&", "*", "**", "+", "++", "+++", "-", "--",
                    "---", "/", "::", "<", "<-", "<<<", "<<~", "<=", "<>", "<|>", "<~", "<~>", "=",
                    "==", "===", "=~", ">", ">=", ">>>", "@", "\\\\", "^", "^^^", "|", "|>", "||",
                    "|||", "~>", "~>>", "~~~"]).

%% @doc The atom with this text if there is one, else the text. Makes no atom.
-spec existing(binary()) -> atom() | binary().
existing(Text) ->
    try binary_to_existing_atom(Text)
    catch error:_ -> Text
    end.

%% @doc `Unicode': may there be characters beyond Latin-1?
-spec atom(name(), Unicode :: boolean()) -> unicode:chardata().
atom(Name, Unicode) ->
    case module(text(Name)) of
        none -> quoted_atom(Name, Unicode);
        Module -> Module
    end.

%% Every reserved word is an atom once OTP's scanner is loaded.
quoted_atom(Name, Unicode) when is_binary(Name) ->
    false = erl_scan:reserved_word(ok),
    try binary_to_existing_atom(Name) of
        Atom -> quoted_atom(Atom, Unicode)
    catch
        error:_ -> new_atom(text(Name), Unicode)
    end;
quoted_atom(Atom, true) -> io_lib:write_atom(Atom);
quoted_atom(Atom, false) -> io_lib:write_atom_as_latin1(Atom).

%% As OTP quotes atoms.
new_atom(Text, Unicode) ->
    case {re:run(Text, "\\A[a-z\\xDF-\\xF6\\xF8-\\xFF][0-9A-Za-z_@\\xC0-\\xD6\\xD8-\\xF6\\xF8-\\xFF]*\\z",
                 [unicode, {capture, none}]), Unicode} of
        {match, _} -> Text;
        {nomatch, true} -> io_lib:write_string(Text, $');
        {nomatch, false} -> io_lib:write_string_as_latin1(Text, $')
    end.

%% @doc The characters of a name.
-spec text(name()) -> string().
text(Atom) when is_atom(Atom) -> atom_to_list(Atom);
text(Binary) ->
    Text = unicode:characters_to_list(Binary),
    true = is_list(Text),
    Text.

%% @doc Whether this is a name: a binary may be any other data.
-spec is_name(term()) -> boolean().
is_name(Atom) when is_atom(Atom) ->
    true;
is_name(Binary) when is_binary(Binary), byte_size(Binary) =< ?LONGEST ->
    case unicode:characters_to_list(Binary) of
        Text when is_list(Text) -> length(Text) < 256;
        _ -> false
    end;
is_name(_) ->
    false.

%% @doc `worker:init/1', or as Elixir's `Exception.format_mfa/3' has it: `MyApp.Worker.init/1',
%% `anonymous fn/1 in MyApp.Worker.init/1'.
-spec call({name(), name(), arity()}, Unicode :: boolean()) -> unicode:chardata().
call({M, F, A} = Call, Unicode) ->
    case of_elixir(Call, Unicode) of
        none -> [quoted_atom(M, Unicode), $:, quoted_atom(F, Unicode), $/, integer_to_list(A)];
        Text -> Text
    end.

-spec of_elixir({name(), name(), arity()}, Unicode :: boolean()) -> unicode:chardata() | none.
of_elixir({M, F, A}, Unicode) ->
    case module(text(M)) of
        none -> none;
        Module -> of_elixir(Module, text(F), integer_to_list(A), Unicode)
    end.

%% The compiler names a fun after its function, and `fun init/1' after what it captures. The name of
%% a function may contain slashes.
of_elixir(Module, Name, Arity, Unicode) ->
    case re:run(Name, "\\A-(fun\\.)?(.*)/([0-9]+)-(fun-[0-9]+-)?\\z",
                [unicode, dotall, {capture, all_but_first, list}]) of
        {match, [Fun, Of, In, [_ | _]]} ->
            ["anonymous fn/", Arity, " in ", Module, $., function(Fun ++ Of, Unicode), $/, In];
        {match, ["fun.", Of, Captured | _]} ->
            [$&, Module, $., function(Of, Unicode), $/, Captured];
        _ ->
            [Module, $., function(Name, Unicode), $/, Arity]
    end.

function(Name, Unicode) ->
    case is_callable(Name) andalso (Unicode orelse lists:max(Name) < 256) of
        true -> Name;
        false -> quoted(Name, Unicode)
    end.

is_callable(Name) ->
    lists:member(Name, ?OPERATORS) orelse
        match =:= re:run(Name, "\\A[_\\p{Ll}\\p{Lo}][_\\p{L}\\p{Nd}]*[?!]?\\z",
                         [unicode, ucp, {capture, none}]).

quoted(Name, Unicode) -> [$", escaped(Name, Unicode), $"].

escaped([C | Cs], Unicode) when C =:= $"; C =:= $\\ -> [$\\, C | escaped(Cs, Unicode)];
escaped([$#, ${ | Cs], Unicode) -> ["\\#{" | escaped(Cs, Unicode)];
escaped([C | Cs], Unicode) when C < 32; C >= 127, C < 160; C > 255, not Unicode ->
    [io_lib:format("\\x{~.16B}", [C]) | escaped(Cs, Unicode)];
escaped([C | Cs], Unicode) -> [C | escaped(Cs, Unicode)];
escaped([], _) -> [].

%% What Elixir calls a module, if it is an alias there; not every name that begins so is one.
module("Elixir." ++ Alias = Name) ->
    case {is_alias(Alias), Alias} of
        {false, _} -> none;
        {true, "Elixir"} -> Name;
        {true, "Elixir." ++ _} -> Name;
        {true, _} -> Alias
    end;
module(_) ->
    none.

is_alias(Name) ->
    match =:= re:run(Name, "\\A[A-Z][a-zA-Z0-9_]*(\\.[A-Z][a-zA-Z0-9_]*)*\\z",
                     [unicode, {capture, none}]).

%% @doc A term that was printed as Erlang prints it, the modules of Elixir in it as Elixir writes
%% them. Strings stay as they are.
-spec readable(unicode:chardata()) -> [char() | string()].
readable(Text) ->
    read(unicode:characters_to_list(Text)).

read([Quote | Cs]) when Quote =:= $'; Quote =:= $" ->
    {Inside, After} = inside(Quote, Cs, []),
    [unquoted(Quote, Inside) | read(After)];
read([C | Cs]) -> [C | read(Cs)];
read([]) -> [].

inside(Quote, [Quote | Cs], Inside) -> {lists:reverse(Inside), Cs};
inside(Quote, [$\\, C | Cs], Inside) -> inside(Quote, Cs, [C, $\\ | Inside]);
inside(Quote, [C | Cs], Inside) -> inside(Quote, Cs, [C | Inside]);
inside(_, [], Inside) -> {lists:reverse(Inside), []}.

unquoted(Quote, Inside) ->
    case Quote =:= $' andalso module(Inside) of
        Module when is_list(Module) -> Module;
        _ -> [Quote] ++ Inside ++ [Quote]
    end.

%% @doc A call as it is typed in that shell.
-spec typed({module(), atom(), [term()]}, shell()) -> unicode:chardata().
typed({M, F, Args}, erlang) ->
    io_lib:format("~tp:~tp(~ts).", [M, F, lists:join(", ", [io_lib:format("~0tp", [A])
                                                            || A <- Args])]);
typed({M, F, Args}, elixir) ->
    [literal(M), $., function(atom_to_list(F), true), $(, literals(Args), $)].

literals(Terms) -> lists:join(", ", [literal(T) || T <- Terms]).

literal(Atom) when is_atom(Atom) ->
    Name = atom_to_list(Atom),
    case {module(Name), lists:member(Atom, [true, false, nil])} of
        {none, true} -> Name;
        {none, false} -> [$:, function(Name, true)];
        {Module, _} -> Module
    end;
literal(Pid) when is_pid(Pid) -> ["pid(\"", string:trim(pid_to_list(Pid), both, "<>"), "\")"];
literal(List) when is_list(List) -> [$[, literals(List), $]];
literal(Tuple) when is_tuple(Tuple) -> [${, literals(tuple_to_list(Tuple)), $}];
literal(Integer) when is_integer(Integer) -> integer_to_list(Integer).

%% @doc What is typed on a node: Elixir where it is loaded. No connection is made.
-spec shell(node()) -> shell().
shell(Node) ->
    case is_elixir(Node) of
        true -> elixir;
        false -> erlang
    end.

is_elixir(Node) when Node =:= node() ->
    erlang:module_loaded('Elixir.Kernel');
is_elixir(Node) ->
    lists:member(Node, nodes(connected)) andalso
        try erpc:call(Node, erlang, module_loaded, ['Elixir.Kernel'], ?ASK_MS)
        catch error:{erpc, _} -> false
        end.
