%% What clients notice: windows of time, in turns without sonde and with sonde scanning each second.
%% The clients publish as fast as their confirms come.
%%
%% bin_leak is not among the scans: it collects garbage, which costs the broker work with any tool.
-module(live_windows).

-export([run/4]).

-define(SCANS, [memory, binary_memory, message_queue_len, reductions]).
-define(SCAN_MS, 1000).

%% @doc Prints a line for each window, then the quartiles over the windows of either kind. Timing is
%% no verdict; how many messages were confirmed in each window and scans made is returned.
run(Clients, Node, Count, Ms) ->
    _ = [live_report:say("~-8s ~9s ~6s  ~8s ~8s ~8s ~8s", Heading)
         || Heading <- [["", "confirmed", "", "p25", "p50", "p75", "p99"],
                        ["", "per s", "scans", "ms", "ms", "ms", "ms"]]],
    Windows = [window(Kind, Clients, Node, Ms)
               || _ <- lists:seq(1, Count div 2), Kind <- [without, with]],
    _ = [overlap(What, Unit, [{Kind, [maps:get(What, W) || {Kind1, W} <- Windows, Kind1 =:= Kind]}
                              || Kind <- [without, with]])
         || {What, Unit} <- [{rate, "messages/s"}, {p50, "ms"}, {p99, "ms"}]],
    [Window || {_, Window} <- Windows].

window(Kind, Clients, Node, Ms) ->
    Scanner = scanner(Kind, Node),
    _ = live_load:take(Clients),
    Start = erlang:monotonic_time(microsecond),
    timer:sleep(Ms),
    Latencies = lists:sort(live_load:take(Clients)),
    Us = erlang:monotonic_time(microsecond) - Start,
    Scans = stopped(Scanner),
    [P25, P50, P75, P99] = [at(Part, Latencies) / 1000 || Part <- [0.25, 0.5, 0.75, 0.99]],
    Rate = length(Latencies) * 1000000 / Us,
    live_report:say("~-8s ~9b ~6b  ~8.2f ~8.2f ~8.2f ~8.2f",
                    [Kind, round(Rate), Scans, P25, P50, P75, P99]),
    {Kind, #{rate => Rate, p50 => P50, p99 => P99, confirmed => length(Latencies),
             scans => Scans, kind => Kind}}.

at(_, []) -> 0;
at(Part, Sorted) -> lists:nth(max(1, ceil(Part * length(Sorted))), Sorted).

%% ---- the scanner

scanner(without, _Node) -> none;
scanner(with, Node) -> spawn_link(fun() -> scan(Node, 0) end).

scan(Node, Count) ->
    _ = [[_ | _] = erpc:call(Node, sonde, proc_count, [Attr, 10], 60000) || Attr <- ?SCANS],
    receive
        {stop, Pid} -> Pid ! {scans, self(), (Count + 1) * length(?SCANS)}
    after ?SCAN_MS -> scan(Node, Count + 1)
    end.

stopped(none) -> 0;
stopped(Scanner) ->
    Scanner ! {stop, self()},
    receive {scans, Scanner, Count} -> Count end.

%% ---- quartiles over the windows

overlap(What, Unit, Kinds) ->
    [Without, With] = [quartiles(Values) || {_, Values} <- Kinds],
    live_report:say("quartiles of ~s, ~s: without ~s, with ~s, overlap: ~s",
                    [What, Unit, range(Without), range(With), overlap(Without, With)]).

overlap({Low, _, High}, {OtherLow, _, OtherHigh}) when Low =< OtherHigh, OtherLow =< High -> "yes";
overlap(_, _) -> "no".

%% A quartile may fall between two windows.
quartiles(Values) ->
    Sorted = lists:sort(Values),
    {quartile(0.25, Sorted), quartile(0.5, Sorted), quartile(0.75, Sorted)}.

quartile(Part, Sorted) ->
    Place = Part * (length(Sorted) - 1),
    {Low, High} = {lists:nth(floor(Place) + 1, Sorted), lists:nth(ceil(Place) + 1, Sorted)},
    Low + (High - Low) * (Place - floor(Place)).

range({Low, Middle, High}) ->
    io_lib:format("~s .. ~s .. ~s", [number(Low), number(Middle), number(High)]).

number(N) when N >= 1000 -> integer_to_list(round(N));
number(N) -> float_to_list(float(N), [{decimals, 2}]).
