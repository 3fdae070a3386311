%% @private
%% All pages of {@link sonde:top/1} except the list of processes: one process, tables, binaries,
%% allocators, help.
-module(sonde_top_pages).

-export([lines/2]).

-import(sonde_top_text, [cut/2, text/3, pairs/2, flow/2, table/3, value/3, known_by/2, missing/1,
                         numbered/2, titled/2]).

-type style() :: sonde_top_text:style().
-type line() :: sonde_top_text:line().

-define(ROOM_FOR_ALL, 20).
-define(SETTINGS, [message_queue_data, minor_gcs, fullsweep_after, min_heap_size, min_bin_vheap_size]).
-define(KINDS, 4).            % of the histogram of a heap
-define(LINES_FOR_ONE, 8).    % lines of a page for each binary that is shown of a process

%% @doc The lines below the header.
-spec lines(sonde_top_model:model(), style()) -> [line()].
lines(#{page := Page, note := Note, find := Find} = Model, Style) ->
    {Title, Blocks} = page(Page, Model, Style),
    [sonde_grid:bold(cut([Title, found(Find), noted(Note)], Style), Style) | lists:append(Blocks)].

noted("") -> "";
noted(Note) -> ["  ", Note].

found("") -> "";
found(Find) -> ["  /", Find].

%% On a low terminal, the heap needs the lines.
important([_ | Info], Room) when Room >= ?ROOM_FOR_ALL -> Info;
important([_ | Info], _) ->
    [Pair || {Key, _} = Pair <- Info, not lists:member(Key, ?SETTINGS)].

known_as(Info, Style) ->
    case proplists:get_value(registered_name, Info) of
        none -> text(initial_call, proplists:get_value(initial_call, Info), Style);
        Name -> text(name, Name, Style)
    end.

%% ---- help

help() ->
    ["the same key again, or twice (mm): what grew in one interval",
     "g v w x: every heap is walked; what cannot be read in a second is left out",
     "P processes  G applications  N network  E ets  W waits  M mnesia  S system",
     "B binaries  A allocators; of a process: L links  K stack  Q mailbox  T tree",
     "number: what is behind that row    0.123.0: that process    u: where you were",
     "/text: rows with it, by name, pid or call; / alone: all    < >: other rows",
     "a: look again at what is looked at once    i 2000: the interval in ms",
     "p or space: pause    h: back to the processes    q: quit, on every page",
     "Where keys are read as lines, press Enter after each."].

own([], _) -> [];
own(Own, Style) ->
    [lists:flatten(["pages of your own: " | lists:join("  ", [[Key, " ", sonde_top_text:escaped(Title, Style)] || {Key, Title, _} <- Own])])].

%% On a narrow terminal a line becomes several, between its parts if they are short.
wrapped(Line, #{width := Width} = Style) when length(Line) > Width ->
    Parts = [string:trim(Part) || Part <- string:split(Line, "  ", all), Part =/= ""],
    lists:append([words(lists:flatten(Some), Style) || Some <- sonde_grid:fill(Parts, "  ", Width)]);
wrapped(Line, _) ->
    [Line].

words(Text, #{width := Width}) when length(Text) =< Width -> [Text];
words(Text, #{width := Width}) -> sonde_grid:fill(string:lexemes(Text, " "), " ", Width).

page(help, #{from := From} = Model, Style) ->
    All = flow([[[Key], " ", atom_to_list(Attr)] || {Key, Attr, _} <- sonde_top_keys:sorts()], Style)
        ++ lists:append([wrapped(Line, Style) || Line <- help() ++ own(sonde_top_model:own(Model), Style)]),
    {Room, Most} = {sonde_top_model:room(Model), length(All)},
    Rest = lists:nthtail(max(0, min(From, Most - Room)), All), % the last lines stay on the page
    {["help" | ["  >: more" || length(Rest) > Room]], [Rest]};

%% ---- pages that have a module of their own

page({network, Order}, Model, Style) -> sonde_top_network:lines(Order, Model, Style);
page({port, Text}, Model, Style) -> sonde_top_network:port_lines(Text, Model, Style);
page({apps, Attr}, Model, Style) -> sonde_top_apps:lines(Attr, Model, Style);
page({tree, Text}, Model, Style) -> sonde_top_tree:lines(Text, Model, Style);
page({mnesia, Attr}, Model, Style) -> sonde_top_mnesia:lines(Attr, Model, Style);
page({own, {Module, Sort}}, Model, Style) -> sonde_top_page:lines(Module, Sort, Model, Style);
page(system, Model, Style) -> sonde_top_system:lines(Model, Style);
page({What, Text}, Model, Style) when What =:= links; What =:= stack; What =:= messages ->
    sonde_top_related:lines(What, Text, Model, Style);

%% ---- one process

page({process, Pid}, #{sample := #{body := #{info := undefined}}} = Model, Style) ->
    {["process ", Pid, " is gone"], case sonde_top_model:deep(Model) of
                                        none -> [];
                                        Deep -> last_known(Deep, Model, Style)
                                    end};
page({process, Pid}, #{from := From, sample := #{body := #{info := Info}}} = Model, Style)
  when From > 0 ->
    {["process ", Pid, "  ", known_as(Info, Style)],
     case sonde_top_model:deep(Model) of
         #{things := Things} -> [things(Things, Model, Style)];
         none -> []
     end};
page({process, Pid}, #{sample := #{body := #{info := Info, numbers := Numbers}}} = Model, Style) ->
    {["process ", Pid, "  ", known_as(Info, Style)],
     [pairs(important(Info, sonde_top_model:room(Model)), Style),
      pairs([Pair || {_, N} = Pair <- Numbers, N > 0], Style),
      trail(Pid, Model, Style)
      | last_known(sonde_top_model:deep(Model), Model, Style)]};

%% ---- tables

page({ets, Attr}, #{sample := #{body := Body}} = Model, Style) ->
    Title = ["tables by ", atom_to_list(Attr)],
    case {Attr, sonde_top_model:deep(Model)} of
        {binary_memory, #{tables := Tables}} ->
            {[Title, sonde_top_text:once()], [tables(Attr, Tables, Model, Style)]};
        {binary_memory, _} -> {[Title, "  looking ..."], []};
        _ -> {Title, [tables(Attr, maps:get(tables, Body, []), Model, Style)]}
    end;

%% ---- binaries

page(binaries, Model, Style) ->
    case sonde_top_model:deep(Model) of
        none -> {"binaries  looking ...", []};
        Deep -> {["binaries", sonde_top_text:once()], binaries(Deep, Model, Style)}
    end;

%% ---- waits

page(waits, #{sample := #{body := #{waits := Waits}}} = Model, Style) ->
    {"processes that wait for others", waits(Waits, Model, Style)};
page(waits, _, _) ->
    {"processes that wait for others  looking ...", []};

%% ---- allocators

page(allocators, #{sample := #{body := #{totals := Totals, types := Types,
                                         fragmentation := Rows}}}, Style) ->
    {"allocators",
     [flow([[atom_to_list(Key), " ", text(case Key of usage -> usage; _ -> memory end, V, Style)]
            || {Key, V} <- Totals], Style),
     flow([[atom_to_list(Type), " ", text(memory, Bytes, Style)] || {Type, Bytes} <- Types], Style),
     [""],
     table(["worst fragmented", "mbcs use", "  blocks", "carriers", "sbcs use", "  blocks",
            "carriers"],
           [[{text, [atom_to_list(Allocator), " ", integer_to_list(I)]} |
             [sonde_units:cell(Key, proplists:get_value(Key, Props), false)
              || Key <- [mbcs_usage, mbcs_block_size, mbcs_carriers_size, sbcs_usage,
                         sbcs_block_size, sbcs_carriers_size]]]
            || {{Allocator, I}, Props} <- Rows], Style)]}.

%% ---- one process over time: its memory, and what it worked from one sample to the next

trail(Pid, #{trail := {Pid, [{_, [_, _ | _] = Memory}, {_, Reductions}]}} = Model, Style) ->
    [history(Memory, Reductions, Style) || sonde_top_model:room(Model) >= ?ROOM_FOR_ALL];
trail(_, _, _) ->
    [].

history(Memory, Reductions, #{width := Width} = Style) ->
    Worked = [max(0, Now - Then)
              || {Now, Then} <- lists:zip(lists:droplast(Reductions), tl(Reductions))],
    Half = max(1, (Width - 24) div 2),
    cut(["memory ", sonde_top_text:sparks(Memory, Half, Style), "  reductions ",
         sonde_top_text:sparks(Worked, Half, Style)], Style).

%% ---- what is read only once, of a process

last_known(none, _, _) ->
    [["looking into its heap ..."]];
last_known(#{heap := Heap, things := Things, slices := Slices}, Model, Style) ->
    [heap(Heap, Style), slices(Slices, sonde_top_model:room(Model) div ?LINES_FOR_ONE, Style),
     things(Things, Model, Style)];
last_known(_, _, _) ->
    [].

heap(#{blocks := #{free := Free}, reachable := Reachable, garbage := Garbage, roots := Roots,
       histogram := Histogram, binaries := #{live := Live, garbage := InVain}}, Style) ->
    Sizes = fun(What, Pairs) ->
                    flow([What | [[Name, " ", text(bytes, N, Style)] || {Name, N} <- Pairs, N > 0]],
                         Style)
            end,
    Sizes("heap (a: again)", [{"reachable", Reachable}, {"garbage", Garbage}, {"free", Free},
                              {"binaries", Live}, {"binaries of garbage", InVain}])
        ++ Sizes("by root", [{atom_to_list(Root), map_get(Root, Roots)}
                             || Root <- [stack, registers, dictionary, mailbox, other]])
        ++ Sizes("by kind", [{text(kind, Kind, Style), Bytes}
                             || {Kind, _, Bytes} <- lists:sublist(Histogram, ?KINDS)]);
heap(Nothing, Style) ->
    [cut(["heap: ", missing(Nothing)], Style)].

slices({0, _, _}, _, _) ->
    ["no binaries outside of the heap"];
slices({N, Bytes, Largest}, Most, Style) ->
    [cut([text(count, N, Style), " binaries outside of the heap, ", text(bytes, Bytes, Style),
          "; the largest:"], Style)
     | table(["id", "size", "seen", "slices", "references", {name, "holders"}],
             [[{text, integer_to_list(Id)}, sonde_units:cell(bytes, Size, false),
               sonde_units:cell(bytes, Seen, false), sonde_units:cell(count, Parts, false),
               sonde_units:cell(count, Refc, false), {text, holders(Held)}]
              || {Id, Size, Refc, Parts, Seen, Held} <- lists:sublist(Largest, max(1, Most))],
             Style)];
slices(Nothing, _, Style) ->
    [cut(["binaries: ", missing(Nothing)], Style)].

holders(undefined) -> "-";
holders({N, First}) ->
    [lists:join(", ", First), [", ..." || N > length(First)]].

things(Things, Model, Style) when is_list(Things) ->
    table(["retained", "path", "kind", "self", "preview"],
          [[sonde_units:cell(retained, Retained, false), {text, sonde_heap_top:path_text(Path)},
            sonde_units:cell(kind, Kind, false), sonde_units:cell(self, Self, false),
            {text, case is_atom(Preview) of true -> atom_to_list(Preview); false -> Preview end}]
           || #{retained := Retained, path := Path, kind := Kind, self := Self,
                preview := Preview} <- sonde_top_model:rows(Model)], Style);
things(Nothing, _, Style) ->
    [cut(["largest on the heap: ", missing(Nothing)], Style)].

%% ---- tables

tables(Attr, Tables, #{from := From}, #{width := Width} = Style) ->
    Short = case Attr of binary_memory -> "binaries"; size -> "rows"; memory -> "memory" end,
    {Wide, Widest} = {Width >= 100, Width >= 139},
    table(["  #", string:pad(Short, 11, leading)]
          ++ ["    memory" || Attr =/= memory] ++ ["    rows" || Attr =/= size]
          ++ ["type"] ++ ["access" || Widest] ++ ["key" || Widest] ++ ["concurrency" || Widest]
          ++ ["owner     ", {name, "name"}] ++ ["table" || Wide],
          [[Number, value(Attr, Value, Style)]
           ++ [value(memory, Bytes, Style) || Attr =/= memory]
           ++ [value(size, proplists:get_value(size, Attrs), Style) || Attr =/= size]
           ++ [{text, atom_to_list(proplists:get_value(type, Attrs))}]
           ++ [value(protection, proplists:get_value(protection, Attrs), Style) || Widest]
           ++ [value(keypos, proplists:get_value(keypos, Attrs), Style) || Widest]
           ++ [{text, concurrency(Attrs)} || Widest]
           ++ [{text, proplists:get_value(owner_name, Attrs)},
               value(name, proplists:get_value(name, Attrs), Style)]
           ++ [{text, Table} || Wide]
           || {Number, {Table, Value, Attrs, Bytes}} <- numbered(From, Tables)], Style).

concurrency(Attrs) ->
    lists:join(" ", [case Is of auto -> [Of, " auto"]; true -> Of end
                     || {Key, Of} <- [{read_concurrency, "read"}, {write_concurrency, "write"}],
                        Is <- [proplists:get_value(Key, Attrs)], Is =:= true orelse Is =:= auto]).

%% ---- binaries

binaries(#{account := {error, _} = Error}, _, Style) ->
    [[cut(missing(Error), Style)]];
binaries(#{account := Account, owned := Owned, holders := Holders}, Model, Style) ->
    Parts = [total, exclusive, shared, ets, queues, literals, mixed, resources, elsewhere, overhead,
             unseen, unused, ms],
    Half = max(1, sonde_top_model:room(Model) div 2 - 2),
    [pairs([{Key, map_get(Key, Account)} || Key <- Parts], Style),
     titled("owned by one process", owned(Owned, Half, Style)),
     titled("largest, and what holds them", largest(Holders, Half, Style))].

owned(Rows, Most, #{unicode := Unicode} = Style) when is_list(Rows) ->
    table(["pid", "exclusive", {name, "name or initial call"}],
          [[{text, Pid}, sonde_units:cell(exclusive, Bytes, Unicode), called(Attrs, Unicode)]
           || {Pid, Bytes, Attrs} <- lists:sublist(Rows, Most), Bytes > 0], Style);
owned(Error, _, Style) ->
    [cut(missing(Error), Style)].

called([Name | _], Unicode) when is_atom(Name) -> sonde_units:cell(name, Name, Unicode);
called(Attrs, Unicode) ->
    sonde_units:cell(initial_call, proplists:get_value(initial_call, Attrs), Unicode).

largest(Rows, Most, Style) when is_list(Rows) ->
    table(["id", "size", "references", "elsewhere", {name, "holders"}],
          [[{text, integer_to_list(Id)}, sonde_units:cell(bytes, Size, false),
            sonde_units:cell(count, Refc, false), sonde_units:cell(count, Elsewhere, false),
            {text, holders(Held)}]
           || {Id, Size, Refc, Elsewhere, Held} <- lists:sublist(Rows, Most)], Style);
largest(Error, _, Style) ->
    [cut(missing(Error), Style)].

%% ---- waits

waits({error, _} = Error, _, Style) ->
    [[cut(missing(Error), Style)]];
waits([], _, _) ->
    [["no process waits for another one"]];
waits(Waits, #{from := From}, Style) ->
    [table(["  #", string:pad("pid", 11, leading), " waiters", "  direct", "messages", "chain",
            {name, "name or initial call"}, "waits for"],
           [[Number, {number, Text}, value(waiters, Waiters, Style),
             value(direct, proplists:get_value(direct, Attrs), Style),
             value(message_queue_len, proplists:get_value(message_queue_len, Attrs), Style),
             value(longest_chain, proplists:get_value(longest_chain, Attrs), Style),
             known_by(Attrs, Style), {text, proplists:get_value(waits_for, Attrs, "")}]
            || {Number, {Text, Waiters, Attrs}} <- numbered(From, Waits)], Style)].
