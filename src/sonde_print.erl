%% @doc Prints results of sonde, and results of the same shape as those of recon, as tables.
%%
%% A table's columns are as wide as they must be, and the last ones give way where the line is too
%% short; values are in human units where their key tells the unit: `memory', `binary_memory',
%% `recv_oct' and the like are bytes, `heap_size', `total_heap_size' and `stack_size' are words of
%% this node and are shown in bytes, `gc_words_reclaimed' is shown in words, usages are percents.
%% The value of a row in `proc_count(memory, 3)' is shown as the integer that it is, since its row
%% does not tell what it counts; in `proc_count([memory], 3)' it is known.
%%
%% Tables have modules and calls of Elixir as Elixir writes them, `MyApp.Worker.init/1'; a result that
%% is shown as a term is in Erlang's syntax throughout.
-module(sonde_print).

-export([print/1, print/2]).

-export_type([opts/0]).

-type opts() :: #{color => auto | always | never, width => Columns :: 20..10000,
                  device => io:device()}.

-define(COLUMNS, 80).
-define(NARROWEST, 20).
-define(WIDEST, 10000).
-define(LINES, 100).          % in one request to the device
-define(MOST_ATTRS, 16).      % of one row, and of all rows
-define(MOST_HOLDERS, 10).    % of one binary
-define(MOST_SLICES, 5).      % of one binary
-define(MOST_KEYS, 1000).     % of a map that is shown as a table

%% @equiv print(Result, #{})
-spec print(Result :: term()) -> ok.
print(Result) ->
    print(Result, #{}).

%% @doc Prints a result: rows `{What, Value, Attrs}' as a table with a column for each attribute,
%% lists of pairs and maps as two columns, the rows of {@link sonde:heap_top/2} with their paths as
%% text, those of {@link sonde:bin_holders/2} with the holders that have most references, the map of
%% {@link sonde:heap/1} and the slices of {@link sonde:bin_slices/1} as tables, results of several
%% parts one after the other, each under its name, any other term as `~p' does. Never raises an
%% exception for a term; large terms are cut. The options are those of {@link sonde:print/2}. Text
%% that is too long for a line (20 to 10000 characters) ends with `..'; columns without room are
%% named below the table. Characters that the encoding of the device does not have, and all
%% characters that could control a terminal, are escaped.
%%
%% ```
%% 1> sonde_print:print(sonde:proc_count(memory, 2), #{width => 100}).
%% pid         value  name             current_function        initial_call
%% <0.50.0>  176,224  code_server      code_server:loop/1      erlang:apply/2
%% <0.10.0>  109,248  erl_prim_loader  erl_prim_loader:loop/3  erlang:apply/2
%% ok
%% '''
-spec print(Result :: term(), opts()) -> ok.
print(Result, Opts) ->
    Read = sonde_opts:read(Opts, #{color => {auto, fun is_color/1}, width => {auto, fun is_width/1},
                                   device => {standard_io, fun is_device/1}}),
    Style = style(Read),
    Lines = lists:append(lists:join([""], [lines(B, Style) || B <- blocks(Result)])),
    put_lines(maps:get(device, Read), Lines).

is_color(Color) ->
    lists:member(Color, [auto, always, never]).

is_width(Width) ->
    is_integer(Width) andalso Width >= ?NARROWEST andalso Width =< ?WIDEST.

is_device(Device) ->
    is_pid(Device) orelse Device =:= standard_io
        orelse is_atom(Device) andalso is_pid(whereis(Device)).

%% ---- the device

style(#{device := Device} = Opts) ->
    Has = io:getopts(Device),
    #{width => width(Opts), unicode => has({encoding, unicode}, Has), color => color(Opts, Has)}.

has(Opt, Opts) ->
    is_list(Opts) andalso lists:member(Opt, Opts).

width(#{width := Width}) when is_integer(Width) -> Width;
width(#{device := Device}) ->
    case io:columns(Device) of
        {ok, Columns} when is_integer(Columns), Columns > 0 ->
            min(max(Columns, ?NARROWEST), ?WIDEST);
        _ ->
            ?COLUMNS
    end.

color(#{color := always}, _) -> true;
color(#{color := never}, _) -> false;
color(#{device := Device}, Has) ->
    os:getenv("NO_COLOR", "") =:= "" andalso os:getenv("TERM") =/= "dumb"
        andalso not has({terminal, false}, Has) andalso element(1, io:rows(Device)) =:= ok.

put_lines(_, []) ->
    ok;
put_lines(Device, Lines) ->
    {Some, Rest} = first(?LINES, Lines),
    ok = io:put_chars(Device, unicode:characters_to_binary([[Line, $\n] || Line <- Some])),
    put_lines(Device, Rest).

first(N, [Line | Lines]) when N > 0 ->
    {Some, Rest} = first(N - 1, Lines),
    {[Line | Some], Rest};
first(_, Lines) ->
    {[], Lines}.

%% ---- blocks, separated by an empty line

lines({titled, Title, Block}, Style) ->
    [title(Title, Style) | lines(Block, Style)];
lines({table, Table}, Style) ->
    sonde_grid:lines(Table(Style), Style);
lines({term, Term}, Style) ->
    wrapped(Term, Style);
lines({error, Term}, Style) ->
    [sonde_grid:red(Line, Style) || Line <- wrapped({error, Term}, Style)].

title(Words, #{unicode := Unicode} = Style) ->
    Title = lists:join($\s, [sonde_units:text(header, W, Unicode) || W <- Words]),
    sonde_grid:bold(sonde_grid:fit(Title, Style), Style).

wrapped(Term, #{width := Width, unicode := Unicode}) ->
    Text = sonde_units:long(Term, Width, Unicode),
    [Part || Line <- string:split(Text, "\n", all),
             Part <- parts(sonde_units:safe(Line), Width)].

parts(Line, Width) ->
    Rest = string:slice(Line, Width),
    case string:is_empty(Rest) of
        true -> [Line];
        false -> [string:slice(Line, 0, Width) | parts(Rest, Width)]
    end.

%% ---- the kind of result

blocks({error, Why}) ->
    [{error, Why}];
blocks(#{rows := Rows} = Report) ->
    case is_rows(Rows) of
        true -> blocks(Rows) ++ blocks(maps:remove(rows, Report));
        false -> map(Report)
    end;
blocks(#{holders := _} = Holder) ->
    case is_holder(Holder) of
        true -> [{table, holders([Holder])}];
        false -> map(Holder)
    end;
blocks(Map) when is_map(Map) ->
    map(Map);
blocks({[{process_count, _} | _], [{bytes_in, _} | _]} = Sample) ->
    case is_sample(Sample) of
        true -> sample([], Sample);
        false -> [{term, Sample}]
    end;
blocks({Results, BadNodes} = Result) when is_list(Results), is_list(BadNodes) ->
    case is_loaded(Results) andalso all(fun is_atom/1, BadNodes) of
        true -> [{table, pairs(Results ++ [{bad_nodes, BadNodes} || BadNodes =/= []])}
                 || Results =/= [] orelse BadNodes =/= []];
        false -> [{term, Result}]
    end;
blocks({Key, Value} = Pair) when is_atom(Key) ->
    case {Value, sonde_units:unit(Key)} of
        {[_ | _], plain} -> case is_props(Value) of
                                true -> [section(Pair)];
                                false -> [{term, Pair}]
                            end;
        {_, plain} -> [{term, Pair}];
        {_, _} -> [{table, pairs([Pair])}]
    end;
blocks([_ | _] = List) ->
    list(List);
blocks(Term) ->
    [{term, Term}].

list(List) ->
    case lists:dropwhile(fun({Is, _}) -> not Is(List) end, kinds()) of
        [{_, Blocks} | _] -> Blocks(List);
        [] -> [{term, List}]
    end.

kinds() ->
    [{fun(L) -> all(fun is_stack/1, L) end, fun(Stacks) -> [{table, stacks(Stacks)}] end},
     {fun is_rows/1, fun(Rows) -> [{table, rows(value, Rows)}] end},
     {fun(L) -> all(fun is_thing/1, L) end, fun(Things) -> [{table, things(Things)}] end},
     {fun(L) -> all(fun is_holder/1, L) end, fun(Holders) -> [{table, holders(Holders)}] end},
     {fun(L) -> all(fun is_sliced/1, L) end, fun(Slices) -> [{table, sliced(Slices)}] end},
     {fun(L) -> all(fun is_resource/1, L) end, fun(Types) -> [{table, resources(Types)}] end},
     {fun(L) -> all(fun is_sample/1, L) end, fun samples/1},
     {fun is_parts/1, fun(Parts) -> [part(P) || P <- Parts] end},
     {fun is_numbers/1, fun(Pairs) -> [{table, numbers(Pairs)}] end},
     {fun is_sections/1, fun(Sections) -> [section(S) || S <- Sections] end},
     {fun(L) -> all(fun is_pair/1, L) end, fun(Pairs) -> [{table, pairs(Pairs)}] end}].

is_pair(Term) ->
    is_tuple(Term) andalso tuple_size(Term) =:= 2.

%% A non-empty list of `{atom(), term()}'.
is_props(List) ->
    is_list(List) andalso List =/= []
        andalso all(fun({Key, _}) -> is_atom(Key); (_) -> false end, List).

%% The result of recon's remote_load and rpc: `{Results, BadNodes}'.
is_loaded(Results) ->
    all(fun({Key, _}) -> lists:member(Key, [module, error, badrpc]); (_) -> false end, Results).

%% The list may be improper.
all(Is, [Term | Terms]) -> Is(Term) andalso all(Is, Terms);
all(_, Tail) -> Tail =:= [].

map(#{blocks := Blocks, roots := Roots, histogram := Kinds, binaries := Binaries} = Heap) ->
    case all(fun is_kind/1, Kinds) andalso all(fun is_sizes/1, [Blocks, Roots, Binaries]) of
        true -> heap(Heap);
        false -> [{table, pairs(lists:sort(maps:to_list(Heap)))}]
    end;
map(#{exclusive := _, elsewhere := _} = Account) when map_size(Account) =< ?MOST_KEYS ->
    [{table, account(Account)}];
map(#{messages := _, bytes := _, examined := _, shapes := Shapes} = Mailbox) ->
    case all(fun is_shape/1, Shapes) of
        true -> mailbox(Mailbox);
        false -> [{table, pairs(lists:sort(maps:to_list(Mailbox)))}]
    end;
map(Map) when map_size(Map) > 0, map_size(Map) =< ?MOST_KEYS ->
    [{table, pairs(lists:sort(maps:to_list(Map)))}];
map(Map) ->
    [{term, Map}].

%% ---- a mailbox, from sonde:mailbox/2: its totals, and a row for each shape

is_shape(#{shape := _, messages := _, bytes := _, from := _}) -> true;
is_shape(_) -> false.

mailbox(#{shapes := Shapes} = Mailbox) ->
    Totals = ordered([messages, examined, bytes, binary_bytes], maps:remove(shapes, Mailbox)),
    [{table, pairs(Totals)} | [{table, shapes(Shapes)} || Shapes =/= []]].

shapes(Shapes) ->
    table(["messages", "bytes", "shape", "from"],
          fun(#{shape := Shape, messages := Messages, bytes := Bytes, from := From}, Cell) ->
                  [Cell(count, Messages), Cell(bytes, Bytes), {text, shape(Shape, Cell)},
                   case From of undefined -> none; _ -> Cell(from, From) end]
          end, Shapes).

shape({any, Arity}, _) when is_integer(Arity) -> ["tuple/", integer_to_list(Arity)];
shape({Tag, Arity}, Cell) when is_integer(Arity) -> ["{", text(Cell(name, Tag)), ", ...}/", integer_to_list(Arity)];
shape(Shape, Cell) -> text(Cell(name, Shape)).

%% ---- objects of a heap, from sonde:heap_top/2

is_thing(#{path := Path, retained := _, self := _, kind := _, preview := _}) -> is_list(Path);
is_thing(_) -> false.

things(Things) ->
    table(["retained", "path", "kind", "self", "preview"],
          fun(#{path := Path, retained := Retained, self := Self, kind := Kind,
                preview := Preview}, Cell) ->
                  [Cell(retained, Retained), {text, sonde_heap_top:path_text(Path)},
                   Cell(kind, Kind), Cell(self, Self), {text, preview(Preview)}]
          end, Things).

preview(Text) when is_binary(Text) -> Text;
preview(not_asked) -> "needs --values";
preview(Atom) -> atom_to_list(Atom).

%% ---- from sonde:stacks/1: the stacks come last, because they are long

is_stack({Stack, Processes, [{node, _}, {example, _} | _]}) -> is_stack(Stack, Processes);
is_stack({Stack, Processes, [{example, _} | _]}) -> is_stack(Stack, Processes);
is_stack(_) -> false.

is_stack(Stack, Processes) ->
    is_integer(Processes) andalso all(fun is_function_name/1, Stack).

is_function_name({M, F, A}) ->
    sonde_names:is_name(M) andalso sonde_names:is_name(F) andalso is_integer(A);
is_function_name(_) -> false.

stacks([{_, _, [{First, _} | _]} | _] = Stacks) ->
    Keys = [node || First =:= node] ++ [example],
    table({keys, [processes | Keys] ++ [stack]},
          fun({Stack, Processes, Attrs}, Cell) ->
                  [Cell(processes, Processes) | [attr(Key, Attrs, Cell) || Key <- Keys]]
                      ++ [stack(Stack, Cell)]
          end, Stacks).

stack([], _) -> {text, "(none)"};
stack(Stack, Cell) -> Cell(current_stacktrace, Stack).

%% ---- one heap, from sonde:heap/1: all its numbers are bytes, except the counts of the histogram

is_kind({_, Count, Bytes}) -> is_integer(Count) andalso is_integer(Bytes);
is_kind(_) -> false.

is_sizes(Map) ->
    is_map(Map) andalso all(fun is_integer/1, maps:values(Map)) andalso map_size(Map) =< ?MOST_KEYS.

heap(#{blocks := Blocks, roots := Roots, histogram := Kinds, binaries := Binaries} = Heap) ->
    Sizes = maps:without([blocks, roots, histogram, binaries], Heap),
    [{titled, [heap], {table, sizes([reachable, garbage, literals], Sizes)}},
     {titled, [blocks], {table, sizes([young, old, stack, fragments, free], Blocks)}},
     {titled, [reachable, by, root],
      {table, sizes([stack, registers, dictionary, mailbox, other], Roots)}}]
        ++ [{titled, [reachable, by, kind], {table, kinds_of(Kinds)}} || Kinds =/= []]
        ++ [{titled, [binaries, off, heap],
             {table, sizes([live, garbage, visible, pinned], Binaries)}}].

sizes(First, Sizes) ->
    pairs([], fun(_) -> bytes end, ordered(First, Sizes)).

%% The pairs of a map: these keys first, then the others.
ordered(First, Map) ->
    [{Key, map_get(Key, Map)} || Key <- First, is_map_key(Key, Map)]
        ++ lists:sort(maps:to_list(maps:without(First, Map))).

kinds_of(Kinds) ->
    table(["kind", "count", "bytes"],
          fun({Kind, Count, Bytes}, Cell) ->
                  [Cell(kind, Kind), Cell(count, Count), Cell(bytes, Bytes)]
          end, Kinds).

%% ---- slices of binaries, from sonde:bin_slices/1

is_sliced({Id, Size, Refc, [_ | _] = Parts}) ->
    is_integer(Id) andalso is_integer(Size) andalso is_integer(Refc)
        andalso all(fun({Start, End}) -> is_integer(Start) andalso is_integer(End);
                       (_) -> false
                    end, Parts);
is_sliced(_) ->
    false.

sliced(Binaries) ->
    table(["id", "size", "refc", "slices", "seen", "bytes from - to"],
          fun({Id, Size, Refc, Parts}, Cell) ->
                  [id(Id, Cell), Cell(bytes, Size), Cell(refc, Refc), Cell(slices, length(Parts)),
                   Cell(bytes, seen(Parts)), {text, parts_text(Parts, Cell)}]
          end, Binaries).

%% Counts each byte once: slices may overlap.
seen(Parts) ->
    {Seen, _} = lists:foldl(fun({Start, End}, {Sum, To}) ->
                                    {Sum + max(0, End - max(Start, To)), max(To, End)}
                            end, {0, 0}, lists:sort(Parts)),
    Seen.

parts_text(Parts, Cell) ->
    [lists:join(", ", [[text(Cell(from, Start)), " - ", text(Cell(to, End))]
                       || {Start, End} <- lists:sublist(Parts, ?MOST_SLICES)]),
     [", ..." || length(Parts) > ?MOST_SLICES]].

%% ---- all binary memory, from sonde:bin_account/0

%% The parts in the order in which they add up. In other results an `error' is not a number of
%% bytes.
account(Account) ->
    First = [total, exclusive, shared, ets, queues, literals, mixed, resources, elsewhere, overhead,
             unseen, unused],
    pairs([], fun in_account/1, ordered(First, Account)).

in_account(error) -> bytes;
in_account(sampled) -> usage;
in_account(Key) -> Key.

%% ---- holders of binaries, from sonde:bin_holders/2 and sonde:bin_holder/1

is_holder(#{id := _, size := _, refc := _, holders := Holders, elsewhere := _}) ->
    all(fun({_, References, _}) -> is_integer(References); (_) -> false end, Holders);
is_holder(_) ->
    false.

%% All holders of one binary would make a long line: show those with most references.
holders(Binaries) ->
    table(["id", "size", "refc", "elsewhere", "holders", "most references"],
          fun(#{id := Id, size := Size, refc := Refc, holders := Holders,
                elsewhere := Elsewhere}, Cell) ->
                  [id(Id, Cell), Cell(bytes, Size), Cell(refc, Refc), Cell(references, Elsewhere),
                   Cell(holders, length(Holders)), {text, holders_text(Holders, Cell)}]
          end, Binaries).

holders_text(Holders, Cell) ->
    Most = lists:sublist(lists:sort(fun({_, A, _}, {_, B, _}) -> A >= B end, Holders),
                         ?MOST_HOLDERS),
    lists:join(", ", [[text(Cell(holder, Holder)),
                       [[" x ", text(Cell(references, References))] || References =/= 1]]
                      || {Holder, References, _} <- Most]).

%% An id is there to be copied, so it has no separators.
id(Id, _) when is_integer(Id), Id >= 0, Id < 1 bsl 64 -> {number, integer_to_list(Id)};
id(Id, Cell) -> {number, text(Cell(id, Id))}.

text({_, Text}) -> Text.

%% Each item is a row; `Row' makes its cells with `Cell(Key, Value)'.
table(Headers, Row, Items) ->
    fun(#{unicode := Unicode}) ->
            Cell = fun(Key, Value) -> sonde_units:cell(Key, Value, Unicode) end,
            {headers(Headers, Cell), [Row(Item, Cell) || Item <- Items]}
    end.

headers({keys, Keys}, Cell) -> [text(Cell(header, Key)) || Key <- Keys];
headers(Texts, _) -> Texts.

%% ---- from sonde:bin_resources/1

is_resource({Type, Count, Bytes, Holders}) ->
    (Type =:= unknown orelse is_pair(Type)) andalso is_integer(Count) andalso is_integer(Bytes)
        andalso is_integer(Holders);
is_resource(_) ->
    false.

resources(Types) ->
    table(["type", "count", "bytes", "holders"],
          fun({Type, Count, Bytes, Holders}, Cell) ->
                  [{text, type_text(Type, Cell)}, Cell(count, Count), Cell(bytes, Bytes),
                   Cell(count, Holders)]
          end, Types).

type_text({Module, Name}, Cell) -> [text(Cell(type, Module)), $:, text(Cell(type, Name))];
type_text(Type, Cell) -> text(Cell(type, Type)).

%% ---- rows: {What, Value, Attrs}

is_rows(Rows) ->
    is_list(Rows) andalso Rows =/= [] andalso all(fun is_row/1, Rows).

is_row({_, _, Attrs}) when is_map(Attrs) -> map_size(Attrs) =< ?MOST_KEYS;
is_row({_, _, Attrs}) -> all(fun is_attr/1, Attrs);
is_row(_) -> false.

is_attr({Key, _}) -> is_atom(Key);
is_attr(Name) -> is_atom(Name) orelse is_binary(Name).

%% `Value' is the key of the values, which gives their unit.
rows(Value, Rows) ->
    Known = [{What, V, attrs(Attrs)} || {What, V, Attrs} <- Rows],
    Keys = keys(Known),
    {Key, Of, Number} = case is_groups(Known, Keys) of
                            true -> {key, group, processes};
                            false -> {what(Rows), what, Value}
                        end,
    table({keys, [Key, Number | Keys]},
          fun({What, V, As}, Cell) ->
                  [Cell(Of, What), Cell(Value, V) | [attr(K, As, Cell) || K <- Keys]]
          end, Known).

attrs(Map) when is_map(Map) -> attrs(lists:sort(maps:to_list(Map)));
attrs(List) -> [named(Attr) || Attr <- lists:sublist(List, ?MOST_ATTRS)].

named({_, _} = Attr) -> Attr;
named(Name) -> {name, Name}.

attr(Key, Attrs, Cell) ->
    case lists:keyfind(Key, 1, Attrs) of
        {_, Value} -> Cell(Key, Value);
        false -> none
    end.

%% Keys in the order of their first occurrence; a name comes first.
keys(Rows) ->
    Keys = lists:foldl(fun({_, _, Attrs}, Ks) -> lists:foldl(fun key/2, Ks, Attrs) end, [], Rows),
    [name || lists:member(name, Keys)] ++ lists:delete(name, lists:reverse(Keys)).

key({Key, _}, Keys) ->
    case lists:member(Key, Keys) orelse length(Keys) >= ?MOST_ATTRS of
        true -> Keys;
        false -> [Key | Keys]
    end.

what(Rows) ->
    All = fun(Is) -> all(fun({What, _, _}) -> Is(What) end, Rows) end,
    case {All(fun is_pid/1), All(fun is_port/1)} of
        {true, _} -> pid;
        {_, true} -> port;
        _ -> what
    end.

%% `{Key, Processes, [{Attr, Total}]}', with attributes of processes.
is_groups(Rows, [_ | _] = Keys) ->
    all(fun is_process_attr/1, Keys) andalso all(fun is_group/1, Rows);
is_groups(_, _) ->
    false.

is_group({Key, Processes, Attrs}) ->
    not is_pid(Key) andalso not is_port(Key) andalso is_integer(Processes) andalso Processes > 0
        andalso all(fun({_, Total}) -> is_number(Total) end, Attrs).

is_process_attr(Key) ->
    try sonde_attr:check(Key) of
        Value -> is_number(Value)
    catch error:_ -> false
    end.

%% ---- several results: [{Attr, Rows}]

is_parts(Parts) ->
    all(fun({Attr, Rows}) -> is_atom(Attr) andalso (Rows =:= [] orelse is_rows(Rows));
           (_) -> false
        end, Parts) andalso lists:any(fun({_, Rows}) -> Rows =/= [] end, Parts).

part({Attr, []}) -> {titled, [Attr], {term, []}};
part({Attr, Rows}) -> {titled, [Attr], {table, rows(Attr, Rows)}}.

%% ---- node_stats: {Absolutes, Increments}

is_sample({[{process_count, _} | _] = Absolutes, [{bytes_in, _} | _] = Increments}) ->
    is_props(Absolutes) andalso is_props(Increments);
is_sample(_) ->
    false.

samples(Samples) ->
    lists:append([sample([N], Sample)
                  || {N, Sample} <- lists:zip(lists:seq(1, length(Samples)), Samples)]).

sample(Number, {Absolutes, Increments}) ->
    [{titled, [absolutes | Number], {table, pairs(Absolutes)}},
     {titled, [increments | Number], {table, pairs(Increments)}}].

%% ---- the same numbers for several items: [{What, [{Key, Number}]}]

is_numbers([{_, [_ | _] = First} | _] = List) ->
    is_props(First) andalso length(First) =< ?MOST_ATTRS
        andalso all(fun({_, Props}) -> are_numbers(Props, First); (_) -> false end, List);
is_numbers(_) ->
    false.

are_numbers([{Key, N} | Props], [{Key, _} | First]) ->
    is_number(N) andalso are_numbers(Props, First);
are_numbers(Props, First) ->
    Props =:= [] andalso First =:= [].

numbers([{_, First} | _] = Pairs) ->
    table({keys, [what | [Key || {Key, _} <- First]]},
          fun({What, Props}, Cell) -> [Cell(what, What) | [Cell(K, N) || {K, N} <- Props]] end,
          Pairs).

%% ---- info/1 and port_info/1: [{Category, Props}]

is_sections(List) ->
    all(fun({_, Props}) -> Props =:= undefined orelse Props =:= [] orelse is_props(Props);
           (_) -> false
        end, List) andalso lists:any(fun({_, Props}) -> is_props(Props) end, List).

section({Name, [_ | _] = Props}) -> {titled, [Name], {table, pairs(Props)}};
section({Name, Nothing}) -> {titled, [Name], {term, Nothing}}.

%% ---- pairs

pairs(Pairs) ->
    {Headers, Key} = key_of(Pairs),
    pairs(Headers, Key, Pairs).

pairs(Headers, Key, Pairs) ->
    table(Headers, fun({K, V}, Cell) -> [Cell(key, K), Cell(Key(K), V)] end, Pairs).

%% The key that gives the unit of the value.
key_of(Pairs) ->
    case {all(fun is_usage/1, Pairs), all(fun is_memory/1, Pairs)} of
        {true, _} -> {["scheduler", "usage"], fun(_) -> usage end};
        {_, true} -> {[], fun(_) -> memory end};
        _ -> {[], fun(K) -> K end}
    end.

%% The result of `erlang:memory()'.
is_memory({Key, Bytes}) ->
    is_integer(Bytes) andalso
        lists:member(Key, [total, processes, processes_used, system, atom, atom_used, binary, code,
                           ets, maximum]).

%% Scheduler numbers start at 1, instances of allocators at 0.
is_usage({Id, Usage}) ->
    is_integer(Id) andalso Id > 0 andalso is_float(Usage) andalso Usage >= 0.0 andalso Usage =< 1.0;
is_usage(_) ->
    false.
