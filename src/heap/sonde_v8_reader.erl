%% @private
%% Reads a V8 heap snapshot in the layout of sonde's dumps, from a file of any size, one block at a
%% time. It knows the parts of the file and checks that they are well-formed, but not what they
%% mean. Errors are thrown as `{bad, Why}'.
-module(sonde_v8_reader).

-include_lib("kernel/include/file.hrl").

-export([open/2, close/1, counts/1]).
-export([nodes/1, edges/1, more/1, ended/1, strings/4]).
-export_type([file/0, numbers/0, cursor/0]).

-opaque file() :: #{fd := file:fd(), caller := reference(), nodes := non_neg_integer(),
                    edges := non_neg_integer(), counts := {pos_integer(), non_neg_integer()}}.
%% The numbers that were read but not consumed, and the position of the next ones.
-type numbers() :: {[non_neg_integer()], cursor()}.
-opaque cursor() :: {file(), At :: non_neg_integer(), Begun :: none | non_neg_integer()}
                  | {closed, file(), At :: non_neg_integer()}.

-define(BLOCK, 65536).
-define(HEADER, 8192).
-define(STRING_MAX, 1048576).
%% An edge refers to its node by a number of 32 bits, 7 for each node.
-define(NODES_MAX, 16#FFFFFFFF div 7).

-define(IS_DIGIT(C), (C >= $0 andalso C =< $9)).
-define(IS_BETWEEN(C), (C =:= $, orelse C =:= $\n orelse C =:= $\s orelse C =:= $\r
                        orelse C =:= $\t)).
-define(IS_WORD(N), (N =< 16#FFFFFFFF)).

%% ---- the file and its header

%% @doc Opens a file. Only in a helper of that caller.
-spec open(file:name_all(), reference()) -> {ok, file()} | {error, file:posix()}.
open(Name, Caller) ->
    case file:read_file_info(Name, [raw]) of
        {ok, #file_info{type = Type}} when Type =/= regular, Type =/= directory ->
            throw({bad, not_a_file}); % opening a pipe would block
        _ ->
            case file:open(Name, [read, raw, binary]) of
                {ok, Fd} -> {ok, header(Fd, Caller)};
                {error, _} = Error -> Error
            end
    end.

-spec close(file()) -> ok.
close(#{fd := Fd}) ->
    _ = file:close(Fd),
    ok.

%% @doc Returns the number of nodes and edges in the header.
-spec counts(file()) -> {pos_integer(), non_neg_integer()}.
counts(#{counts := Counts}) ->
    Counts.

header(Fd, Caller) ->
    Text = read(Fd, 0, ?HEADER),
    {Head, Nodes} = array(Text, 0, <<"\"nodes\"">>, header),
    _ = [re:run(Head, Key, [{capture, none}]) =:= match orelse throw({bad, Why})
         || {Key, Why} <- [{"^\\s*{\\s*\"snapshot\"\\s*:", header},
                           {list("node_fields", node_fields()), node_fields},
                           {list("edge_fields", edge_fields()), edge_fields},
                           {list("edge_types", edge_types()), edge_types}]],
    {NodeCount, EdgeCount} = Counts = {count("node_count", Head), count("edge_count", Head)},
    {ok, Size} = file:position(Fd, eof),
    %% The file must be large enough for the declared numbers.
    NodeCount > 0 andalso NodeCount =< ?NODES_MAX andalso NodeCount * 14 + EdgeCount * 6 =< Size
        orelse throw({bad, counts}),
    re:run(read(Fd, max(0, Size - 64), 64), "\\]\\s*}\\s*\\z", [{capture, none}]) =:= match
        orelse throw({bad, truncated}),
    #{fd => Fd, caller => Caller, counts => Counts, nodes => Nodes,
      edges => find(Fd, Nodes, <<"\"edges\"">>, edges)}.

node_fields() ->
    ["type", "name", "id", "self_size", "edge_count", "trace_node_id", "detachedness"].

edge_fields() ->
    ["type", "name_or_index", "to_node"].

edge_types() ->
    ["context", "element", "property", "internal", "hidden", "shortcut", "weak"].

list(Key, Words) ->
    Space = "\\s*",
    [$", Key, $", Space, $:, Space, "\\[+", Space,
     lists:join([Space, $,, Space], [[$", W, $"] || W <- Words]), Space, $]].

count(Key, Head) ->
    case re:run(Head, [$", Key, "\"\\s*:\\s*([0-9]{1,12})\\s*[,}]"], [{capture, [1], binary}]) of
        {match, [Digits]} -> binary_to_integer(Digits);
        nomatch -> throw({bad, header})
    end.

%% The text before the array of that name, and the position in the file where its first element may
%% be.
array(Text, At, Name, Why) ->
    case re:run(Text, [Name, "\\s*:\\s*\\["]) of
        {match, [{Start, Length}]} -> {binary:part(Text, 0, Start), At + Start + Length};
        nomatch -> throw({bad, Why})
    end.

%% The part before it consists of numbers, so it cannot contain the name.
find(Fd, At, Name, Why) ->
    Block = read(Fd, At, ?BLOCK),
    case binary:match(Block, Name) of
        {Start, _} ->
            {_, First} = array(read(Fd, At + Start, 64), At + Start, Name, Why),
            First;
        nomatch ->
            find(Fd, At + max(1, byte_size(Block) - byte_size(Name) + 1), Name, Why)
    end.

read(Fd, At, Length) ->
    case file:pread(Fd, At, Length) of
        {ok, Bytes} -> Bytes;
        eof -> throw({bad, truncated});
        {error, Why} -> throw({bad, Why})
    end.

%% ---- numbers

%% @doc Nodes, seven numbers each: type, name, id, self size, edge count, and two without meaning.
-spec nodes(file()) -> numbers().
nodes(#{nodes := At} = File) ->
    {[], {File, At, none}}.

%% @doc Edges in the order of their nodes, three numbers each: type, name or index, node times
%% seven.
-spec edges(file()) -> numbers().
edges(#{edges := At} = File) ->
    {[], {File, At, none}}.

%% @doc Reads more numbers and appends them to the remaining ones.
-spec more(numbers()) -> numbers().
more({_, {closed, _, _}}) ->
    throw({bad, too_few});
more({Left, {#{fd := Fd, caller := Caller} = File, At, Begun}}) ->
    ok = sonde_helper:check_caller(Caller),
    Block = read(Fd, At, ?BLOCK),
    case block(Block, Begun) of
        {more, Unfinished, New} ->
            {Left ++ lists:reverse(New), {File, At + byte_size(Block), Unfinished}};
        {closed, Rest, New} ->
            {Left ++ lists:reverse(New), {closed, File, At + byte_size(Block) - Rest}}
    end.

%% @doc Checks that nothing is left, and returns where the array ends.
-spec ended(numbers()) -> numbers().
ended({[], {closed, _, _}} = Numbers) -> Numbers;
ended({[], _} = Numbers) -> ended(more(Numbers));
ended(_) -> throw({bad, too_many}).

block(Block, none) -> between(Block, []);
block(Block, Begun) -> number(Block, Begun, []).

between(<<C, Rest/bits>>, New) when ?IS_DIGIT(C) -> number(Rest, C - $0, New);
between(<<C, Rest/bits>>, New) when ?IS_BETWEEN(C) -> between(Rest, New);
between(<<$], Rest/bits>>, New) -> {closed, byte_size(Rest), New};
between(<<>>, New) -> {more, none, New};
between(_, _) -> throw({bad, no_number}).

number(<<C, Rest/bits>>, N, New) when ?IS_DIGIT(C), ?IS_WORD(N) ->
    number(Rest, N * 10 + C - $0, New);
number(<<C, Rest/bits>>, N, New) when ?IS_BETWEEN(C), ?IS_WORD(N) -> between(Rest, [N | New]);
number(<<$], Rest/bits>>, N, New) when ?IS_WORD(N) -> {closed, byte_size(Rest), [N | New]};
number(<<>>, N, New) when ?IS_WORD(N) -> {more, N, New};
number(_, _, _) -> throw({bad, no_number}).

%% ---- strings

%% @doc Folds over the strings whose indices are in the sorted list. The strings follow the edges,
%% which must have ended.
-spec strings(fun((non_neg_integer(), binary(), Acc) -> Acc), Acc, [non_neg_integer()],
              numbers()) -> Acc.
strings(Fun, Acc, Wanted, {[], {closed, #{fd := Fd} = File, At}}) ->
    {_, First} = array(read(Fd, At, 64), At, <<"\"strings\"">>, strings),
    each(Fun, Acc, Wanted, 0, <<>>, File, First).

%% Next: the index of the next string; Text: what was read and not consumed; At: the position of the
%% rest
each(_Fun, Acc, [], _I, _Text, _File, _At) ->
    Acc;
each(Fun, Acc, [I | Wanted] = All, Next, Text, File, At) ->
    case string(Text) of
        {String, Rest} when Next =:= I ->
            each(Fun, Fun(I, unescaped(String, []), Acc), Wanted, Next + 1, Rest, File, At);
        {_, Rest} ->
            each(Fun, Acc, All, Next + 1, Rest, File, At);
        closed ->
            throw({bad, too_few});
        more when byte_size(Text) > ?STRING_MAX ->
            throw({bad, string});
        more ->
            #{fd := Fd, caller := Caller} = File,
            ok = sonde_helper:check_caller(Caller),
            Block = read(Fd, At, ?BLOCK),
            each(Fun, Acc, All, Next, <<Text/binary, Block/binary>>, File, At + byte_size(Block))
    end.

string(<<C, Rest/bits>>) when ?IS_BETWEEN(C) -> string(Rest);
string(<<$", Rest/bits>>) ->
    case quote(Rest, 0) of
        more -> more;
        Length -> {binary:part(Rest, 0, Length),
                   binary:part(Rest, Length + 1, byte_size(Rest) - Length - 1)}
    end;
string(<<$], _/bits>>) -> closed;
string(<<>>) -> more;
string(_) -> throw({bad, string}).

quote(Text, N) ->
    case Text of
        <<_:N/binary, $", _/bits>> -> N;
        <<_:N/binary, $\\, _, _/bits>> -> quote(Text, N + 2);
        <<_:N/binary, $\\>> -> more;
        <<_:N/binary, _, _/bits>> -> quote(Text, N + 1);
        _ -> more
    end.

unescaped(<<"\\u", High:4/binary, "\\u", Low:4/binary, Rest/bits>>, Acc) ->
    case {hex(High), hex(Low)} of
        {H, L} when H >= 16#D800, H < 16#DC00, L >= 16#DC00, L < 16#E000 ->
            unescaped(Rest, [16#10000 + (H - 16#D800) * 16#400 + L - 16#DC00 | Acc]);
        {H, _} ->
            unescaped(<<"\\u", Low:4/binary, Rest/binary>>, [character(H) | Acc])
    end;
unescaped(<<"\\u", Hex:4/binary, Rest/bits>>, Acc) ->
    unescaped(Rest, [character(hex(Hex)) | Acc]);
unescaped(<<$\\, C, Rest/bits>>, Acc) ->
    unescaped(Rest, [control(C) | Acc]);
unescaped(<<C/utf8, Rest/bits>>, Acc) ->
    unescaped(Rest, [C | Acc]);
unescaped(<<>>, Acc) ->
    unicode:characters_to_binary(lists:reverse(Acc));
unescaped(_, _) ->
    throw({bad, string}).

hex(Hex) ->
    try binary_to_integer(Hex, 16)
    catch error:badarg -> throw({bad, string})
    end.

%% A lone surrogate has no meaning.
character(C) when C >= 16#D800, C < 16#E000 -> 16#FFFD;
character(C) when C >= 0 -> C;
character(_) -> throw({bad, string}).

control($b) -> $\b;
control($f) -> $\f;
control($n) -> $\n;
control($r) -> $\r;
control($t) -> $\t;
control(C) when C =:= $"; C =:= $\\; C =:= $/ -> C;
control(_) -> throw({bad, string}).
