%% The speed of a walk through one heap, compared with the collection that the walk replaces, and
%% with a bare loop in C that follows the same pointers and remembers nothing.
-module(bench_heap).

-export([rows/2]).
-export([hold/2]).

-define(WORD, 8).
-define(RUNS, 3).
-define(LARGE, 20000000). % words: a larger heap takes minutes

%% @doc Emits the rows for heaps of these sizes in bytes.
-spec rows([pos_integer()], fun((map()) -> term())) -> ok.
rows(Sizes, Emit) ->
    ok = bench_bare:start(),
    _ = [shape(Shape, Size, Emit) || Size <- Sizes, Shape <- [tuples, maps, list]],
    ok.

%% The heap was just collected, so all of it is live.
shape(Shape, Size, Emit) ->
    {Pid, Ref} = spawn_monitor(?MODULE, hold, [self(), {Shape, Size}]),
    receive {Pid, ready} -> ok end,
    Look = fun() -> sonde:heap(Pid, #{timeout => 600000}) end,
    Times = bench_clock:alternate(?RUNS, 10,
                                  #{bare => fun() -> ask(Pid, chase) end,
                                    collect => fun() -> true = erlang:garbage_collect(Pid) end,
                                    sonde => Look}),
    #{bare := Bare, collect := Collect, sonde := Sonde} =
        maps:map(fun(_, Ns) -> bench_clock:median(Ns) end, Times),
    {Words, Bytes} = walked(Pid),
    What = lists:flatten(io_lib:format("~p MB, ~s", [round(Size / 1000000), what(Shape)])),
    Emit(#{kind => heap, call => "heap, " ++ What ++ ", and a collection", other => Collect,
           sonde => Sonde, words => Words, bytes => Bytes,
           targets => [{slower, 1.0}, {share, 5}]}),
    Emit(#{kind => heap, call => "heap, " ++ What ++ ", and the bare pointer chase", other => Bare,
           sonde => Sonde, words => Words, bytes => Bytes,
           targets => [{rate, 100} || Shape =/= list]}),
    _ = [size_rows(Pid, Shape, What, Words, Emit) || Words < ?LARGE],
    exit(Pid, kill),
    receive {'DOWN', Ref, process, Pid, _} -> ok end.

size_rows(Pid, Shape, What, Words, Emit) ->
    Top = fun() -> [_ | _] = sonde:heap_top(Pid, 10) end,
    File = filename:join(os:getenv("TMPDIR", "/tmp"), "bench-" ++ os:getpid() ++ ".heapsnapshot"),
    Dump = fun() -> {ok, _} = sonde_heap:dump(Pid, File, #{force => true}) end,
    Aims = [{share, 60} || Shape =/= list],
    _ = [begin
             #{it := Ns} = bench_clock:alternate(1, 10, #{it => Call}),
             #{allocated := Peak} = bench_clock:peak(Call),
             Emit(#{kind => heap, call => Name ++ ", " ++ What ++ ", and sys:get_state's copy",
                    other => copied(Pid), sonde => bench_clock:median(Ns), words => Words,
                    bytes => Peak, targets => Targets})
         end || {Name, Call, Targets} <- [{"heap_top", Top, Aims}, {"dump", Dump, []}]],
    ok = file:delete(File).

%% The time to copy the heap, which is how to look inside it without sonde.
copied(Pid) ->
    #{copy := Ns} = bench_clock:alternate(1, 10, #{copy => fun() -> ask(Pid, show) end}),
    bench_clock:median(Ns).

walked(Pid) ->
    Opts = #{suspend => false, max_words => 1000000000, timeout => 600000, progress => false},
    sonde_look:run(Pid, {account, [], 0, 0}, Opts,
                   fun(Look) ->
                           {#{words := Words, bytes := Bytes}, _, _} = sonde_nif:look_heap(Look),
                           {Words, Bytes}
                   end).

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
