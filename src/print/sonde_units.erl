%% @private
%% The text of one value in a table, in human units if its key has a unit. However large the value
%% is, the work and the text are bounded.
-module(sonde_units).

-export([cell/3, text/3, unit/1, long/3, safe/1, bytes/1, missed/2]).
-export_type([cell/0, unit/0]).

%% Numbers are aligned to the right of their column.
-type cell() :: {number | text, unicode:chardata()}.
%% `words' are printed as bytes; `counted_words', of keys that name words, as words.
-type unit() :: bytes | words | counted_words | share | ms | plain.

%% Printing is bounded in depth and in characters, except for integers of a million digits. So a
%% term is cut before; the nodes that are left are more than can be printed.
-define(CELL_NODES, 5000).
-define(CELL_DEPTH, 30).
-define(CELL_CHARS, 1000).
-define(LONG_NODES, 200000).
-define(LONG_DEPTH, 10000).
-define(LONG_CHARS, 100000).
-define(WIDEST, 1000).        % elements of one tuple or map
-define(LARGEST, (1 bsl 256)).
-define(IS_COUNT(N), is_integer(N), abs(N) < ?LARGEST).

%% The keys that have a unit.
-define(BYTES,
        [retained, self, reachable, garbage, literals, bytes, binary_bytes, garbage_bytes,
         bin_garbage_bytes, bin_waste, binary_unique, binary_exclusive, binary_proportional,
         exclusive, shared, ets, queues, mixed, resources, elsewhere, overhead, unseen, unused,
         octets, memory, binary_memory, total, binary, memory_total, memory_procs, memory_atoms,
         memory_bin, memory_ets, bytes_in, bytes_out, recv_oct, send_oct, oct, send_pend, recv_avg,
         recv_max, send_avg, send_max, input, output, queue_size, mbcs, sbcs, mbcs_block_size,
         mbcs_carriers_size, sbcs_block_size, sbcs_carriers_size]).
-define(WORDS, [heap_size, total_heap_size, stack_size, flat_size, min_heap_size,
                min_bin_vheap_size]).
-define(SHARES, [mbcs_usage, sbcs_usage, hit_rate, usage]).

%% @doc `Unicode': whether the text may have characters beyond Latin-1.
-spec cell(Key :: term(), Value :: term(), Unicode :: boolean()) -> cell().
cell(Key, Value, Unicode) ->
    case in(unit(Key), Value) of
        plain -> plain(Key, Value, Unicode);
        Text -> {number, Text}
    end.

-spec text(Key :: term(), Value :: term(), Unicode :: boolean()) -> unicode:chardata().
text(Key, Value, Unicode) ->
    {_, Text} = cell(Key, Value, Unicode),
    Text.

in(bytes, N) when ?IS_COUNT(N) -> bytes(N);
in(bytes, F) when is_float(F), abs(F) < 1.0e30 -> bytes(round(F * alloc_unit()));
in(bytes, {Before, After}) when ?IS_COUNT(Before), ?IS_COUNT(After) ->
    [bytes(Before), " -> ", bytes(After)];
in(words, N) when ?IS_COUNT(N) -> bytes(N * erlang:system_info(wordsize));
in(counted_words, N) when ?IS_COUNT(N) -> [count(N), " words"];
in(share, F) when is_float(F), F >= 0.0, F =< 1.0 -> share(F);
in(ms, N) when ?IS_COUNT(N) -> [count(N), " ms"];
in(_, _) -> plain.

%% Sizes are floats if the caller has chosen a unit in recon_alloc, or if they are averages.
alloc_unit() ->
    case get(recon_alloc_unit) of
        Bytes when is_integer(Bytes), Bytes > 0, Bytes < 1 bsl 40 -> Bytes;
        _ -> 1
    end.

%% @doc The processes that could not be read: how many, and the named ones with the reason.
-spec missed(pos_integer(), [{pid() | string(), Why :: atom()}]) -> unicode:chardata().
missed(Count, Named) ->
    [integer_to_list(Count), case Count of 1 -> " process"; _ -> " processes" end,
     [[", ", case is_pid(Pid) of true -> pid_to_list(Pid); false -> Pid end, " (", why(Why), ")"]
      || {Pid, Why} <- Named],
     [", ..." || Named =/= [], Count > length(Named)]].

why(busy) -> "busy";
why(runnable) -> "wants to run";
why(too_large) -> "too large";
why(timeout) -> "no time left";
why(Other) -> atom_to_list(Other).

%% @doc The unit of a number with this key.
-spec unit(term()) -> unit().
unit(gc_words_reclaimed) ->
    counted_words;
unit(ms) ->
    ms;
unit(Key) when is_atom(Key) ->
    Units = [{bytes, ?BYTES}, {words, ?WORDS}, {share, ?SHARES}],
    case [Unit || {Unit, Keys} <- Units, lists:member(Key, Keys)] of
        [Unit] -> Unit;
        [] -> case lists:suffix("_alloc", atom_to_list(Key)) of true -> bytes; false -> plain end
    end;
unit(_) ->
    plain.

plain(_, N, _) when ?IS_COUNT(N) -> {number, count(N)};
plain(_, F, _) when is_float(F) -> {number, decimal(F)};
plain(scheduler_usage, [{Id, _} | _] = Usage, _) when is_integer(Id), length(Usage) > 0 ->
    {text, lists:join(", ", [usage(U) || U <- lists:sublist(Usage, ?WIDEST)])};
plain(current_stacktrace, [_ | _] = Stack, Unicode) when length(Stack) > 0 ->
    {text, lists:join(" < ", [[named(C, Unicode) | line(C)] || C <- lists:sublist(Stack, ?WIDEST)])};
plain(Key, {_, _, _} = Call, Unicode) when Key =:= current_function; Key =:= initial_call; Key =:= group ->
    {text, named(Call, Unicode)};
plain(Key, Name, Unicode) when is_binary(Name), Key =:= name orelse Key =:= registered_name orelse Key =:= group ->
    case sonde_names:is_name(Name) of
        true -> {text, sonde_names:atom(Name, Unicode)};
        false -> {text, call(Name, Unicode)}
    end;
plain(content, not_asked, _) ->
    {text, "needs --values"};
plain(missed, #{count := 0}, _) ->
    {text, "none"};
plain(missed, #{count := N, pids := [_ | _] = Pids} = Value, Unicode)
  when ?IS_COUNT(N), length(Pids) =< 10 ->
    case [Named || {Pid, Why} = Named <- Pids, is_pid(Pid), is_atom(Why)] of
        Pids -> {text, missed(N, Pids)};
        _ -> {text, call(Value, Unicode)}
    end;
plain(_, {How, #{status := Status}}, Unicode) when is_atom(How) ->
    {text, [short(How, Unicode), ", ", short(Status, Unicode)]};
plain(_, Value, Unicode) ->
    {text, call(Value, Unicode)}.

usage({Id, Share}) when ?IS_COUNT(Id), is_float(Share) ->
    [integer_to_list(Id), ": ", share(Share)];
usage(Other) ->
    short(Other, false).

%% Of a function, where nothing else is expected: its names may be binaries.
line({_, _, _, Location}) when length(Location) > 0 ->
    case lists:keyfind(line, 1, Location) of
        {_, Line} when ?IS_COUNT(Line) -> [" line ", integer_to_list(Line)];
        _ -> []
    end;
line(_) -> [].

named({M, F, A} = Call, Unicode) when is_integer(A), A >= 0, A < 256 ->
    case sonde_names:is_name(M) andalso sonde_names:is_name(F) of
        true -> sonde_names:call(Call, Unicode);
        false -> call(Call, Unicode)
    end;
named({M, F, A, Location}, Unicode) when is_list(Location) ->
    named({M, F, A}, Unicode);
named(Term, Unicode) ->
    call(Term, Unicode).

call({M, F, A} = Call, Unicode)
  when is_atom(M), is_atom(F), is_integer(A), A >= 0, A < 256 ->
    sonde_names:call(Call, Unicode);
call({M, F, A, Location}, Unicode) when is_list(Location), is_integer(A) ->
    call({M, F, A}, Unicode);
call({'fun', M, F, A} = Kind, Unicode)
  when is_atom(M), is_atom(F), F =/= undefined, is_integer(A), A >= 0, A < 256 ->
    case sonde_names:of_elixir({M, F, A}, Unicode) of
        none -> short(Kind, Unicode);
        Text -> Text
    end;
call(Term, Unicode) ->
    short(Term, Unicode).

%% ---- numbers

-spec bytes(integer()) -> iolist().
bytes(N) when N < 0 -> [$- | bytes(-N)];
bytes(N) when N < 1024 -> [integer_to_list(N), " B"];
bytes(N) -> scaled(N, 1024, ["KiB", "MiB", "GiB", "TiB", "PiB"]).

%% A value that would round to 1024.0 is 1.0 of the next unit.
scaled(N, Size, [Unit | Units]) when Units =:= []; N < Size * 1024 - Size div 20 ->
    Tenths = (N * 10 + Size div 2) div Size,
    [integer_to_list(Tenths div 10), $., $0 + Tenths rem 10, $\s, Unit];
scaled(N, Size, [_ | Units]) ->
    scaled(N, Size * 1024, Units).

%% 1234567 is 1,234,567.
count(N) when N < 0 -> [$- | count(-N)];
count(N) -> lists:reverse(thousands(lists:reverse(integer_to_list(N)))).

thousands([A, B, C, D | Rest]) -> [A, B, C, $, | thousands([D | Rest])];
thousands(Digits) -> Digits.

share(F) when abs(F) < 1.0e9 -> io_lib:format("~.1f%", [100 * F]);
share(F) -> decimal(F).

decimal(F) when F == 0 -> "0.0";
decimal(F) when abs(F) < 0.001; abs(F) >= 1.0e15 -> io_lib:format("~.3e", [F]);
decimal(F) when F < 0 -> [$- | decimal(-F)];
decimal(F) when F < 1000 -> io_lib:format("~.3f", [F]);
decimal(F) -> Tenths = round(F * 10), [count(Tenths div 10), $., $0 + Tenths rem 10].

%% ---- terms

short(Term, Unicode) ->
    sonde_names:readable(io_lib:format(format("~0t", Unicode),
                                       [clip(Term, ?CELL_NODES), ?CELL_DEPTH],
                                       [{chars_limit, ?CELL_CHARS}])).

%% @doc As `~p' prints it, in lines of about `Width' characters at most.
-spec long(term(), Width :: pos_integer(), Unicode :: boolean()) -> unicode:chardata().
long(Term, Width, Unicode) ->
    io_lib:format(format("~*t", Unicode), [Width, clip(Term, ?LONG_NODES), ?LONG_DEPTH],
                  [{chars_limit, ?LONG_CHARS}]).

format(Start, true) -> Start ++ "P";
format(Start, false) -> lists:delete($t, Start) ++ "P".

%% The first parts of a term, and '...' for the others and for integers that are too large to read.
%% No element takes more than three quarters of what is left, so that each of the first ones shows.
clip(Term, Nodes) ->
    {Clipped, _} = clipped(Term, Nodes),
    Clipped.

clipped(_, Left) when Left =< 0 ->
    {'...', 0};
clipped([H | T], Left) ->
    {First, Used} = element_clipped(H, Left),
    {Rest, Left1} = rest_clipped(T, First, Left - Used),
    {[First | Rest], Left1};
clipped(Tuple, Left) when is_tuple(Tuple) ->
    {Es, Left1} = clipped(first(Tuple), Left - 1),
    {list_to_tuple(proper(Es)), Left1};
clipped(Map, Left) when is_map(Map) ->
    {Pairs, Left1} = clipped(some(maps:next(maps:iterator(Map)), ?WIDEST), Left - 1),
    {maps:from_list([Pair || {_, _} = Pair <- proper(Pairs)]), Left1};
clipped(N, Left) when is_integer(N), abs(N) >= ?LARGEST ->
    {'...', Left - 1};
clipped(Term, Left) ->
    {Term, Left - 1}.

element_clipped(Term, Left) ->
    Share = Left * 3 div 4,
    {Clipped, Left1} = clipped(Term, Share),
    {Clipped, max(1, Share - Left1)}.

%% Text stays text.
rest_clipped([], _, Left) -> {[], Left};
rest_clipped(_, C, Left) when Left =< 0, is_integer(C), C >= $\s -> {"...", 0};
rest_clipped(Rest, _, Left) -> clipped(Rest, Left).

first(Tuple) when tuple_size(Tuple) > ?WIDEST ->
    [element(I, Tuple) || I <- lists:seq(1, ?WIDEST)] ++ ['...'];
first(Tuple) ->
    tuple_to_list(Tuple).

some(none, _) -> [];
some(_, 0) -> [{'...', '...'}];
some({K, V, Rest}, N) -> [{K, V} | some(maps:next(Rest), N - 1)].

proper([H | T]) -> [H | proper(T)];
proper([]) -> [];
proper(Cut) -> [Cut].

%% ---- characters

%% @doc Text in which nothing can move a terminal's cursor, or turn its text around.
-spec safe(unicode:chardata()) -> [char() | string()].
safe(Text) ->
    [safe_char(C) || C <- unicode:characters_to_list(Text)].

safe_char(C) when C < 32; C >= 127, C < 160; C =:= 16#061C; C >= 16#200B, C =< 16#200F;
                  C >= 16#2028, C =< 16#202E; C >= 16#2060, C =< 16#206F; C =:= 16#FEFF ->
    escaped(C);
safe_char(C) -> C.

escaped(C) ->
    lists:flatten(io_lib:format("\\x{~.16B}", [C])).
