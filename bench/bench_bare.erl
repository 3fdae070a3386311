%% The bare C loop (bare_loop.c) as Erlang sees it.
-module(bench_bare).

-export([start/0, binary_memory/1, largest/2]).
-export([find/2, sizes/2, word/3, chase/1, gather/1, touch/0]).

-on_load(init/0).
-nifs([find/2, sizes/2, word/3, chase/1, gather/1, touch/0]).

init() ->
    erlang:load_nif(filename:join(filename:dirname(code:which(?MODULE)), "bare_loop"), 0).

%% Finds the process table, by the layout table that sonde has proved.
-spec start() -> ok.
start() ->
    #{status := active, layout := Layout} = sonde:native(),
    [Index] = [I || {I, Name, _, _, _, _} <- sonde_nif:tables(), Name =:= Layout],
    ok = find(Index, erlang:system_info(process_limit)).

-spec find(non_neg_integer(), pos_integer()) -> ok | error.
find(_Table, _Limit) -> erlang:nif_error(not_loaded).

%% @doc Bytes and number of all refc binaries in the processes' off-heap lists.
-spec binary_memory(Threads :: pos_integer()) -> {non_neg_integer(), non_neg_integer()}.
binary_memory(Threads) ->
    {Bytes, Counts} = lists:unzip(parts(Threads, fun sizes/2)),
    {lists:sum(Bytes), lists:sum(Counts)}.

%% @doc The largest value of a process that lives, in one word, and its id.
-spec largest(reductions | heap_size, Threads :: pos_integer()) -> {non_neg_integer(), non_neg_integer()}.
largest(Attr, Threads) ->
    lists:max(parts(Threads, fun(Part, Parts) -> word(Attr, Part, Parts) end)).

%% Each part of the table in a dirty scheduler of its own, as sonde divides it.
parts(1, Loop) ->
    [Loop(0, 1)];
parts(Threads, Loop) ->
    Refs = [element(2, spawn_monitor(fun() -> exit({part, Loop(Part, Threads)}) end))
            || Part <- lists:seq(0, Threads - 1)],
    [receive {'DOWN', Ref, process, _, {part, Result}} -> Result end || Ref <- Refs].

-spec sizes(non_neg_integer(), pos_integer()) -> {non_neg_integer(), non_neg_integer()}.
sizes(_Part, _Parts) -> erlang:nif_error(not_loaded).

-spec word(reductions | heap_size, non_neg_integer(), pos_integer()) -> {non_neg_integer(), non_neg_integer()}.
word(_Attr, _Part, _Parts) -> erlang:nif_error(not_loaded).

%% Words of the lists, tuples and maps that a term of the caller leads to; each link is followed.
-spec chase(term()) -> non_neg_integer().
chase(_Term) -> erlang:nif_error(not_loaded).

%% Finds all refc binaries in the lists of these processes, each once. Returns their number and their
%% bytes.
-spec gather([pid()]) -> {non_neg_integer(), non_neg_integer()}.
gather(_Pids) -> erlang:nif_error(not_loaded).

%% Reads the gathered binaries, which must still exist. Returns their bytes and the sum of their
%% references.
-spec touch() -> {non_neg_integer(), non_neg_integer()}.
touch() -> erlang:nif_error(not_loaded).
