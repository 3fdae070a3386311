%% What calls cost against the size of what they read, and against the number of threads. Each size
%% has a node of its own, with a process table that is no larger than needed.
-module(bench_growth).

-export([rows/2]).
-export([times/4]).

-type kind() :: processes | references | bytes.

-define(N, 10).
-define(RUNS, 5).
-define(THREAD_RUNS, 9).      % the figures "on paper" are differences of these
-define(PAUSE_MS, 10).
-define(TAKEN_BACK_MS, 10000).
-define(TABLE, 262144).       % the default size, and the smallest here
-define(SYSTEM, 1000).        % more than the processes of a new node
-define(CACHE_LINE, 64).
-define(EACH, 20).            % references of a process, a tenth of them to a neighbour's binaries

%% @doc Emits the rows; `Scaled' makes the sizes smaller.
-spec rows(fun((pos_integer()) -> pos_integer()), fun((map()) -> term())) -> ok.
rows(Scaled, Emit) ->
    _ = [size(Emit, Of, Scaled(Size)) || {Of, Sizes} <- sizes(), Size <- Sizes],
    _ = [threads(Emit, Of, Scaled(Size)) || {Of, Size} <- [{processes, 1000000},
                                                           {references, 2000000}]],
    ok.

sizes() ->
    [{processes, [1000, 10000, 100000, 1000000, 4000000]},
     {references, [10000, 100000, 1000000, 10000000, 20000000]},
     {bytes, [1000000, 10000000, 100000000, 1000000000, 2000000000]}].

%% A size for which there is not enough memory has a row that says so.
size(Emit, Of, Size) ->
    Row = #{kind => size, work => what(Of), call => call(Of), size => Size, targets => []},
    Needed = Size * most_bytes(Of),
    case free(Needed) of
        Free when Needed > Free ->
            Emit(Row#{needed => Needed, free => Free});
        _ ->
            [Ns] = in_node(Of, Size, ?RUNS, [#{}]),
            Emit(Row#{sonde => Ns})
    end.

%% The system may still be taking back the memory of the last node.
free(Needed) ->
    case bench_machine:free_memory() of
        Free when Needed > Free ->
            timer:sleep(?TAKEN_BACK_MS),
            bench_machine:free_memory();
        Free ->
            Free
    end.

threads(Emit, Of, Size) ->
    [One, Two] = in_node(Of, Size, ?THREAD_RUNS, [#{threads => 1}, #{threads => 2}]),
    Emit(#{kind => threads, work => "threads", one => One, sonde => Two, targets => [],
           bytes => Size * lines(Of) * ?CACHE_LINE,
           call => lists:concat([call(Of), ", ", bench_row:number(Size), " ", what(Of)])}).

what(processes) -> "processes";
what(references) -> "references to binaries";
what(bytes) -> "bytes of a heap".

call(processes) -> "proc_count(memory, 10)";
call(references) -> "bin_account()";
call(bytes) -> "heap(Pid)".

%% What a node of many had at most, for each, while it was built and read, and a fifth more.
most_bytes(processes) -> 3200;
most_bytes(references) -> 530;
most_bytes(bytes) -> 5.

%% The cache lines that the call reads of each. A process: its slot, and eleven with the fields of
%% `memory'. A reference: its entry in a list, the header of its binary, half a line for what is gathered,
%% and an entry of the account, each of which is written and read.
lines(processes) -> 12;
lines(references) -> 5.

in_node(Of, Size, Runs, Options) ->
    Most = max(?TABLE, processes(Of, Size) + ?SYSTEM),
    {ok, Peer, _} = peer:start(#{connection => standard_io, wait_boot => 60000,
                                 args => ["+P", integer_to_list(Most), "-pa" | path()]}),
    try peer:call(Peer, ?MODULE, times, [Of, Size, Runs, Options], infinity)
    after peer:stop(Peer)
    end.

processes(processes, Size) -> Size;
processes(references, Size) -> max(1, Size div ?EACH);
processes(bytes, _) -> 1.

path() -> [filename:dirname(code:which(M)) || M <- [sonde, ?MODULE]].

%% ---- in that node

%% The ns of the call with each of these options.
-spec times(kind(), pos_integer(), pos_integer(), [map()]) -> [number()].
times(Of, Size, Runs, Options) ->
    #{status := active} = sonde:native(),
    Call = crowd(Of, Size),
    Times = bench_clock:alternate(Runs, ?PAUSE_MS,
                                  maps:from_list([{O, fun() -> Call(O) end} || O <- Options])),
    [bench_clock:median(map_get(O, Times)) || O <- Options].

%% Starts what has the size, and returns the call.
crowd(processes, Size) ->
    bench_crowd:fill_up(Size),
    fun(Options) -> sonde:proc_count(memory, ?N, Options) end;
crowd(references, Size) ->
    Shared = ?EACH div 10,
    _ = bench_binaries:crowd(processes(references, Size), ?EACH - Shared, Shared),
    fun(Options) ->
            #{processes_missed := 0} = Account = sonde:bin_account(Options),
            false = is_map_key(sampled, Account)
    end;
crowd(bytes, Size) ->
    Pid = bench_heap:start({tuples, Size}),
    fun(Options) -> #{} = sonde:heap(Pid, Options#{timeout => 600000}) end.
