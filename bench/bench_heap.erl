%% The speed of a walk through one heap, compared with the collection that the walk replaces, and
%% with a bare loop in C that follows the same pointers and remembers nothing.
-module(bench_heap).

-export([rows/3, start/1]).
-export([hold/2]).
-export_type([shape/0]).

-type shape() :: tuples | maps | list.

-define(WORD, 8).
-define(PAUSE_MS, 10).
-define(PEAKS, 5). % of a short call one peak may be missed, or another process's
-define(MS, 1000000).
-define(LARGE, 20000000). % words: a larger heap takes minutes

%% @doc Emits the rows for heaps of these nominal megabytes and true bytes, from so many runs.
-spec rows([{pos_integer(), pos_integer()}], pos_integer(), fun((map()) -> term())) -> ok.
rows(Sizes, Runs, Emit) ->
    ok = bench_bare:start(),
    lists:foreach(fun({Size, Shape}) -> shape(Shape, Size, Runs, Emit) end,
                  [{Size, Shape} || Size <- Sizes, Shape <- [tuples, maps, list]]).

%% The heap was just collected, so all of it is live.
shape(Shape, {Mb, Size}, Runs, Emit) ->
    Pid = start({Shape, Size}),
    {Words, Bytes} = walked(Pid),
    Row = fun(Name, Other, With, Times, Held) ->
                  Emit((bench_clock:against(Other, Name, Times))
                       #{kind => heap, words => Words, bytes => Held,
                         call => lists:concat([Name, ", ", amount(Size), ", ", what(Shape), With]),
                         targets => targets({Name, Other}, Mb, Shape)})
          end,
    Times = bench_clock:alternate(Runs, ?PAUSE_MS,
                                  #{chase => fun() -> ask(Pid, chase) end,
                                    collect => fun() -> true = erlang:garbage_collect(Pid) end,
                                    heap => fun() -> sonde:heap(Pid, #{timeout => 600000}) end}),
    Row(heap, collect, ", and a collection", Times, Bytes),
    Row(heap, chase, ", and the bare pointer chase", Times, Bytes),
    _ = [copied(Pid, Runs, Row) || Words < ?LARGE],
    Ref = monitor(process, Pid),
    exit(Pid, kill),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

%% @doc Starts a process with a heap of this size in bytes.
-spec start({shape(), pos_integer()}) -> pid().
start(What) ->
    Pid = spawn(?MODULE, hold, [self(), What]),
    receive {Pid, ready} -> Pid end.

%% Without sonde the way to look inside a heap is to copy it.
copied(Pid, Runs, Row) ->
    File = filename:join(os:getenv("TMPDIR", "/tmp"), "bench-" ++ os:getpid() ++ ".heapsnapshot"),
    Calls = #{heap_top => fun() -> [_ | _] = sonde:heap_top(Pid, 10) end,
              dump => fun() -> {ok, _} = sonde_heap:dump(Pid, File, #{force => true}) end},
    Times = bench_clock:alternate(Runs, ?PAUSE_MS, Calls#{copy => fun() -> ask(Pid, show) end}),
    lists:foreach(fun(Name) ->
                          Peaks = [maps:get(allocated, bench_clock:peak(map_get(Name, Calls)))
                                   || _ <- lists:seq(1, ?PEAKS)],
                          Row(Name, copy, ", and sys:get_state's copy", Times,
                              bench_clock:median(Peaks))
                  end, [heap_top, dump]),
    ok = file:delete(File).

targets({heap, chase}, _, Shape) -> [{rate, 100} || Shape =/= list];
targets({heap, _}, Mb, _) -> [{at_most, 1.0}, {share, 5} | [{within, ?MS} || Mb =:= 1]];
targets({heap_top, _}, 1, Shape) -> [{within, 3 * ?MS} | [{share, 60} || Shape =/= list]];
targets({heap_top, _}, 100, Shape) -> [{within, 500 * ?MS} | [{share, 30} || Shape =/= list]];
targets({dump, _}, 1, _) -> [{within, 6 * ?MS}];
targets({dump, _}, 100, _) -> [{within, 1000 * ?MS}];
targets(_, _, _) -> [].

walked(Pid) ->
    Opts = #{suspend => false, max_words => 1000000000, timeout => 600000, progress => false},
    sonde_look:run(Pid, {account, [], 0, 0}, Opts,
                   fun(Look) ->
                           {#{words := Words, bytes := Bytes}, _, _} = sonde_nif:look_heap(Look),
                           {Words, Bytes}
                   end).

amount(Bytes) when Bytes < 1000000 -> integer_to_list(Bytes div 1000) ++ " kB";
amount(Bytes) -> integer_to_list(Bytes div 1000000) ++ " MB".

what(tuples) -> "tuples";
what(maps) -> "maps";
what(list) -> "a list of integers".

ask(Pid, What) ->
    Pid ! {What, self()},
    receive {Pid, Answer} -> Answer end.

hold(Owner, Shape) ->
    Term = build(Shape),
    true = garbage_collect(),
    Owner ! {self(), ready},
    wait(Term).

wait(Term) ->
    receive
        {chase, From} -> From ! {self(), bench_bare:chase(Term)}, wait(Term);
        {show, From} -> From ! {self(), Term}, wait(Term)
    end.

%% Each element takes two more words for its list cell.
build({tuples, Size}) -> [{I, I, {I, I}} || I <- lists:seq(1, Size div (9 * ?WORD))];
build({maps, Size}) -> [#{id => I, at => {I, I}} || I <- lists:seq(1, Size div (10 * ?WORD))];
build({list, Size}) -> lists:seq(1, Size div (2 * ?WORD)).
