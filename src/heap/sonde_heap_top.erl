%% @private
%% The objects of one heap that retain most. C finds the objects and their paths; this module turns
%% them into readable rows.
-module(sonde_heap_top).

-export([top/3, shape/3, text/1, path_text/1]).
-export_type([row/0, step/0]).

-type row() :: #{path := [step()], retained := pos_integer(), self := pos_integer(),
                 kind := sonde_heap_map:kind(), preview := binary() | forbidden | sensitive}.
-type step() :: dictionary | {key, term()} | {stack | register | message, pos_integer()}
              | {other, group_leader | parent | seq_trace_token | receive_marker
                           | fragment}
              | {element | index | tail | env, pos_integer()} | {field, atom()}
              | key | keys | binary | '...'.
%% A result of look_top: one token for each visible term, a container before its content.
-type token() :: {v, term()} | {atom, binary()} | {atom(), non_neg_integer()} | atom()
               | {tuple | list | map, Shown :: non_neg_integer(), non_neg_integer()}.

-define(TEXT_BYTES, 200).
-define(MOST, 100000). % rows: each takes 300 bytes of the walk's own memory
%% How a list continues.
-define(ENDS, 0).
-define(GOES_ON, 1).
-define(IMPROPER, 2).

%% @doc See {@link sonde:heap_top/3}.
-spec top(pid(), non_neg_integer(), map()) -> [row()] | sonde_look:errors().
top(Pid, N, Opts) ->
    _ = sonde_vm:side(),
    top(Pid, N, Opts, sonde_content:allowed()).

%% @doc The same rows without content: no previews, and only keys that are atoms. Atoms of another OS
%% process that are none here are text.
-spec shape(pid(), non_neg_integer(), map()) -> [row()] | sonde_look:errors().
shape(Pid, N, Opts) ->
    top(Pid, N, Opts, false).

top(Pid, N, Opts, Content) when is_integer(N), N >= 0 ->
    Read = sonde_opts:read(Opts, sonde_look:options(#{})),
    _ = sonde_vm:side(),
    Atoms = erlang:system_info(atom_count),
    sonde_look:run(Pid, {top, [content || Content], min(N, ?MOST), Atoms}, Read,
                   fun(Look) -> rows(Look, 0, shown(Content, sonde_nif:look_content(Look))) end);
top(_, _, _, _) ->
    error(badarg).

shown(false, true) -> forbidden;
shown(_, Given) -> Given.

rows(Look, From, Content) ->
    case sonde_look:given(sonde_nif:look_top(Look, From)) of
        [] -> [];
        Rows -> [row(Row, Content) || Row <- Rows] ++ rows(Look, From + length(Rows), Content)
    end.

row({Way, Retained, Self, Kind, Preview}, Content) ->
    #{path => path(Way), retained => Retained, self => Self, kind => sonde_heap_map:kind(Kind),
      preview => case Content of true -> text(Preview); Why -> Why end}.

%% ---- paths

path([{tail, N}, {How, I} | Way]) when How =:= index; How =:= tail -> path([{How, N + I} | Way]);
path([Step | Way]) -> [step(Step) | path(Way)];
path([]) -> [].

step({element, I, Tag, Arity}) -> element(I, Tag, Arity);
step({key, Tokens}) -> {key, key(Tokens)};
step({other, I}) -> {other, other(I)};
step(Step) -> Step.

element(I, Tag, Arity) when I > 1, Tag =/= undefined ->
    case sonde_rec:fields(Tag, Arity - 1) of
        unknown -> {element, I};
        Fields -> {field, lists:nth(I - 1, Fields)}
    end;
element(I, _, _) ->
    {element, I}.

%% In the order of roots.c; 0 is a fragment that a collection keeps in place.
other(0) -> fragment;
other(1) -> group_leader;
other(2) -> parent;
other(3) -> seq_trace_token;
other(I) when I =< 11 -> receive_marker;
other(_) -> fragment.

%% Without tokens the key may not be shown.
key([]) ->
    '_';
key(Tokens) ->
    case whole(Tokens) of
        {Term, []} -> Term;
        cut -> text(Tokens)
    end.

%% The term itself, if the tokens contain all of it.
whole([{v, Term} | Rest]) ->
    {Term, Rest};
whole([{atom, Text} | Rest]) ->
    {there(Text), Rest};
whole([{tuple, N, N} | Rest]) ->
    case wholes(N, Rest, []) of
        {Es, Left} -> {list_to_tuple(Es), Left};
        cut -> cut
    end;
whole([{list, N, ?ENDS} | Rest]) ->
    wholes(N, Rest, []);
whole(_) ->
    cut.

%% An atom of another OS process, which may not be one here.
there(Text) ->
    case sonde_names:existing(Text) of
        Text -> unicode:characters_to_binary(sonde_names:atom(Text, true));
        Atom -> Atom
    end.

wholes(0, Rest, Es) ->
    {lists:reverse(Es), Rest};
wholes(N, Rest, Es) ->
    case whole(Rest) of
        {E, Left} -> wholes(N - 1, Left, [E | Es]);
        cut -> cut
    end.

%% @doc Returns the steps of a path as one text.
-spec path_text([step()]) -> unicode:chardata().
path_text(Path) ->
    lists:join(" / ", [step_text(Step) || Step <- Path]).

step_text({index, I}) -> io_lib:format("[~b]", [I]);
step_text({field, Name}) -> io_lib:format("#~tp", [Name]);
step_text({key, Text}) when is_binary(Text) -> ["key ", Text];
step_text({What, Which}) -> [atom_to_list(What), $\s, term(Which)];
step_text(Step) -> atom_to_list(Step).

%% ---- previews

%% @doc Returns the text of tokens, cut to 200 bytes.
-spec text([token()]) -> binary().
text(Tokens) ->
    {Text, []} = one(Tokens),
    cut(unicode:characters_to_binary(Text)).

cut(Text) when byte_size(Text) =< ?TEXT_BYTES -> Text;
cut(Text) -> cut(Text, ?TEXT_BYTES - 3).

%% Cuts only between characters.
cut(Text, N) ->
    case Text of
        <<_:N/binary, 2#10:2, _/bits>> -> cut(Text, N - 1);
        <<Some:N/binary, _/bits>> -> <<Some/binary, "...">>
    end.

one([Token | Rest]) -> one(Token, Rest).

one({v, Term}, Rest) -> {term(Term), Rest};
one({atom, Text}, Rest) -> {sonde_names:atom(Text, true), Rest};
one({binary, N}, Rest) -> {io_lib:format("<<~b bytes>>", [N]), Rest};
one({bignum, N}, Rest) -> {io_lib:format("<integer of ~b bytes>", [N]), Rest};
one({record, _}, Rest) -> {"#record{...}", Rest};
one({tuple, Shown, N}, Rest) -> within("{", Shown, N > Shown, "}", Rest);
one({map, Shown, N}, Rest) -> pairs(Shown, N > Shown, Rest);
one({list, Shown, ?IMPROPER}, Rest) -> improper(Shown, Rest);
one({list, Shown, How}, Rest) -> list(Shown, How =:= ?GOES_ON, Rest);
one(cut, Rest) -> {"...", Rest};
one(Other, Rest) -> {["#", atom_to_list(Other)], Rest}.

several(0, Rest, Texts) ->
    {lists:reverse(Texts), Rest};
several(N, Rest, Texts) ->
    {Text, Left} = one(Rest),
    several(N - 1, Left, [Text | Texts]).

within(Open, N, More, Close, Rest) ->
    {Texts, Left} = several(N, Rest, []),
    {[Open, commas(Texts, More), Close], Left}.

commas(Texts, More) ->
    lists:join(",", Texts ++ ["..." || More]).

%% A list that looks like a string is shown as one.
list(N, More, Rest) ->
    Chars = [C || {v, C} <- lists:sublist(Rest, N), is_integer(C)],
    case length(Chars) =:= N andalso N > 0 andalso io_lib:printable_latin1_list(Chars) of
        true -> {[io_lib:format("~0tp", [Chars]), ["..." || More]], lists:nthtail(N, Rest)};
        false -> within("[", N, More, "]", Rest)
    end.

improper(N, Rest) ->
    {Texts, Left} = several(N, Rest, []),
    {Tail, After} = one(Left),
    {["[", commas(Texts, false), "|", Tail, "]"], After}.

pairs(N, More, Rest) ->
    {Texts, Left} = several(2 * N, Rest, []),
    {["#{", commas(arrows(Texts), More), "}"], Left}.

arrows([K, V | Texts]) -> [[K, " => ", V] | arrows(Texts)];
arrows([]) -> [].

term(Term) -> sonde_names:readable(io_lib:format("~0tp", [Term])).
