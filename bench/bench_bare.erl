%% The bare C loop (bare_loop.c) as Erlang sees it.
-module(bench_bare).

-export([start/0, binary_memory/0]).
-export([find/2, chase/1, gather/0, touch/0]).

-on_load(init/0).
-nifs([find/2, binary_memory/0, chase/1, gather/0, touch/0]).

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

%% Bytes and number of all refc binaries in the processes' off-heap chains.
-spec binary_memory() -> {non_neg_integer(), non_neg_integer()}.
binary_memory() -> erlang:nif_error(not_loaded).

%% Words of the lists, tuples and maps that a term of the caller leads to; each link is followed.
-spec chase(term()) -> non_neg_integer().
chase(_Term) -> erlang:nif_error(not_loaded).

%% Finds all refc binaries in the chains, each once. Returns their number and their bytes.
-spec gather() -> {non_neg_integer(), non_neg_integer()}.
gather() -> erlang:nif_error(not_loaded).

%% Reads the gathered binaries, which must still exist. Returns their bytes and the sum of their
%% references.
-spec touch() -> {non_neg_integer(), non_neg_integer()}.
touch() -> erlang:nif_error(not_loaded).
