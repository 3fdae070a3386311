%% How much some work disturbs other processes: the round trips of two processes that send each
%% other messages without pause meanwhile.
-module(bench_trip).

-export([during/2]).
-export([echo/0]).
-export_type([trips/0]).

%% Nanoseconds; `scans': how often the work was done meanwhile.
-type trips() :: #{p50 | p99 | p999 | trips | scans := number()}.

%% A histogram: 32 buckets for each power of two, so a bucket is 3 % wide.
-define(FINE, 32).
-define(BUCKETS, 64 * ?FINE).

%% @doc Measures trips for `Ms' milliseconds while a process does `Work' over and over.
-spec during(fun(() -> term()), pos_integer()) -> trips().
during(Work, Ms) ->
    Self = self(),
    Scans = counters:new(1, []),
    Worker = spawn(fun() -> repeat(Work, Scans) end),
    {Pid, Ref} = spawn_monitor(fun() -> exit({result, ping(Ms, Self)}) end),
    Histogram = receive {'DOWN', Ref, process, Pid, {result, H}} -> H end,
    Gone = monitor(process, Worker),
    exit(Worker, kill),
    receive {'DOWN', Gone, process, Worker, _} -> ok end,
    (summary(Histogram))#{scans => counters:get(Scans, 1)}.

repeat(Work, Scans) ->
    _ = Work(),
    counters:add(Scans, 1, 1),
    repeat(Work, Scans).

ping(Ms, _Owner) ->
    Pong = spawn_link(?MODULE, echo, []),
    Histogram = counters:new(?BUCKETS, []),
    Now = erlang:monotonic_time(nanosecond),
    ping(Pong, Histogram, Now, Now + Ms * 1000000),
    unlink(Pong),
    exit(Pong, kill),
    [counters:get(Histogram, I) || I <- lists:seq(1, ?BUCKETS)].

ping(Pong, Histogram, Start, Until) when Start < Until ->
    Pong ! self(),
    receive Pong -> ok end,
    Stop = erlang:monotonic_time(nanosecond),
    counters:add(Histogram, bucket(Stop - Start), 1),
    ping(Pong, Histogram, Stop, Until);
ping(_, _, _, _) ->
    ok.

echo() ->
    receive From -> From ! self() end,
    echo().

bucket(Ns) when Ns < ?FINE -> Ns + 1;
bucket(Ns) -> bucket(Ns, 1).

bucket(Ns, Power) when Ns >= 2 * ?FINE -> bucket(Ns bsr 1, Power + 1);
bucket(Ns, Power) -> Power * ?FINE + (Ns - ?FINE) + 1.

%% The middle of a bucket.
value(Index) when Index =< ?FINE -> Index - 1;
value(Index) ->
    Power = (Index - 1) div ?FINE,
    (((?FINE + (Index - 1) rem ?FINE) * 2 + 1) bsl (Power - 1)) div 2.

summary(Histogram) ->
    Trips = lists:sum(Histogram),
    #{trips => Trips, p50 => at(Histogram, Trips * 0.5), p99 => at(Histogram, Trips * 0.99),
      p999 => at(Histogram, Trips * 0.999)}.

at(Histogram, Rank) -> at(Histogram, Rank, 1).

at([N | Rest], Rank, Index) when N < Rank, Rest =/= [] -> at(Rest, Rank - N, Index + 1);
at(_, _, Index) -> value(Index).
