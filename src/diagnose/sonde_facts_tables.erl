%% @private
%% The ETS tables that a diagnosis looks at: a series of samples of each of the largest, and the
%% binaries behind those that may matter. It uses only documented calls.
-module(sonde_facts_tables).

-export([first/0, next/1, grows/1, last/2, owners/0, most/1]).
-export_type([table/0, tables/0, owner/0]).

%% `bytes': the size of the table itself. `binaries': the bytes of those that its rows refer to.
%% `slices': of the binaries of some rows, the bytes that the rows have and those that they keep;
%% `undefined' if no row was read. `timers': each row is a timer of the module `timer'.
-type table() :: #{table := ets:table(), name := atom(), owner := pid(), timers := boolean(),
                   samples := [#{at := integer(), bytes := non_neg_integer(),
                                 rows := non_neg_integer()}, ...],
                   binaries := non_neg_integer() | undefined, slices := slices() | undefined}.
-type slices() :: #{rows := pos_integer(), seen | pinned := non_neg_integer()}.
-type tables() :: #{ets:table() => [map()]}.
-type owner() :: {pid(), Tables :: pos_integer()}.

-define(MOST, 2000).          % tables that are sampled
-define(LARGEST, 200).        % sampled if there are more
-define(MOST_ROWS, 300000).   % of all tables for which binaries are listed
-define(SOME_ROWS, 50).       % that are read, of a table with many bytes of binaries
-define(ROW_BYTES, 20000).    % a table with larger rows is not read
-define(HEAP_BINARY, 64).     % bytes; the largest binary that is copied with its row

-spec first() -> tables().
first() ->
    All = ets:all(),
    Sampled = case length(All) > ?MOST of
                  false -> All;
                  true -> [Tab || {Tab, _, _} <- sonde_ets:count(memory, ?LARGEST, #{})]
              end,
    maps:from_list([{Tab, []} || Tab <- Sampled]).

-spec next(tables()) -> tables().
next(Tables) ->
    At = erlang:monotonic_time(millisecond),
    Word = erlang:system_info(wordsize),
    maps:map(fun(Tab, Samples) ->
                     case {ets:info(Tab, memory), ets:info(Tab, size)} of
                         {Words, Rows} when is_integer(Words), is_integer(Rows) ->
                             Samples ++ [#{at => At, bytes => Words * Word, rows => Rows}];
                         _ ->
                             Samples
                     end
             end, Tables).

%% @doc Whether any of them has more rows each time.
-spec grows(tables()) -> boolean().
grows(Tables) ->
    lists:any(fun(Samples) -> sonde_series:is_rising(rows, Samples, 1, none) end, maps:values(Tables)).

%% @doc Lists binaries of at most ?MOST_ROWS rows in all, of the tables that grew most first. Even a
%% small table may refer to large binaries.
-spec last(tables(), sonde_facts:moment()) -> {[table()], [{atom(), sonde_facts:because()}]}.
last(Tables, #{size := Total}) ->
    Known = [{{grown(Samples), maps:get(bytes, lists:last(Samples))}, Tab, Samples}
             || {Tab, [_ | _] = Samples} <- maps:to_list(Tables)],
    {Found, _, Skipped} =
        lists:foldl(fun({_, Tab, Samples}, {Acc, Left, Over}) ->
                            #{rows := Rows} = Last = lists:last(Samples),
                            case Rows =< Left of
                                true ->
                                    Binaries = binaries(Tab),
                                    {add(Tab, Samples, Binaries, slices(Tab, Binaries, Last, Total),
                                         Acc), Left - Rows, Over};
                                false -> {add(Tab, Samples, undefined, undefined, Acc), Left,
                                          Over + length([over || matters(Last, Total)])}
                            end
                    end, {[], ?MOST_ROWS, 0}, lists:reverse(lists:sort(Known))),
    {Found, [{table_binaries, {left_out, Skipped}} || Skipped > 0]}.

grown(Samples) ->
    maps:get(rows, lists:last(Samples)) - maps:get(rows, hd(Samples)).

%% Of a table that was skipped: even a row that only refers to a binary has some size of its own.
matters(#{bytes := Bytes}, Total) -> Bytes * 1000 > Total.

add(Tab, Samples, Binaries, Slices, Acc) ->
    case sonde_ets:row(Tab) of
        [{_, _, [Name, {owner, Owner} | _]}] ->
            [#{table => Tab, name => Name, owner => Owner, samples => Samples,
               timers => Name =:= timer andalso Owner =:= whereis(timer_server),
               binaries => Binaries, slices => Slices} | Acc];
        [] ->
            Acc
    end.

binaries(Tab) ->
    case sonde_ets:memory(Tab, ?MOST_ROWS) of
        Bytes when is_integer(Bytes) -> Bytes;
        _ -> undefined
    end.

%% ---- parts of binaries

%% Some rows are copied into this process, a helper, and only sizes leave it. A private table is not
%% read.
slices(Tab, Binaries, #{rows := Rows, bytes := Bytes}, Total)
  when is_integer(Binaries), Binaries * 100 > Total, Bytes < ?ROW_BYTES * Rows ->
    case sonde_content:allowed() andalso some(Tab) of
        [_ | _] = Some ->
            {Seen, Pinned} = parts(Some, {0, 0}),
            #{rows => length(Some), seen => Seen, pinned => Pinned};
        _ ->
            undefined
    end;
slices(_, _, _, _) ->
    undefined.

some(Tab) ->
    try ets:select(Tab, [{'_', [], ['$_']}], ?SOME_ROWS) of
        {Rows, _} -> Rows;
        '$end_of_table' -> []
    catch
        error:badarg -> private
    end.

parts(Binary, {Seen, Pinned} = Acc) when is_binary(Binary) ->
    case binary:referenced_byte_size(Binary) of
        Bytes when Bytes > ?HEAP_BINARY -> {Seen + byte_size(Binary), Pinned + Bytes};
        _ -> Acc
    end;
parts([Head | Tail], Acc) -> parts(Tail, parts(Head, Acc));
parts(Tuple, Acc) when is_tuple(Tuple) -> parts(tuple_to_list(Tuple), Acc);
parts(Map, Acc) when is_map(Map) -> maps:fold(fun(K, V, A) -> parts(V, parts(K, A)) end, Acc, Map);
parts(_, Acc) -> Acc.

%% @doc The processes with the most tables.
-spec owners() -> [owner()].
owners() ->
    most([Owner || Tab <- ets:all(), Owner <- [ets:info(Tab, owner)], is_pid(Owner)]).

%% @doc The three most frequent pids of a list, and how often each is in it.
-spec most([pid()]) -> [{pid(), pos_integer()}].
most(Pids) ->
    Sorted = lists:reverse(lists:sort([{N, Pid} || {Pid, N} <- sonde_lib:count(Pids)])),
    [{Pid, N} || {N, Pid} <- lists:sublist(Sorted, 3)].
