%% Figures of this machine that explain why the same code takes longer on another one.
-module(bench_machine).

-export([figures/1, free_memory/0]).
-export([memory/0]).

-on_load(init/0).
-nifs([memory/0]).

-define(RUNS, 5).

init() ->
    erlang:load_nif(filename:join(filename:dirname(code:which(?MODULE)), "machine"), 0).

%% @doc The latency of a random load in 256 MiB, the rate of a sum of them, and the time of
%% `processes()' for each of so many processes, which are started and stay.
-spec figures(pos_integer()) -> #{load_ns | gb_s | processes_ns := float()}.
figures(Processes) ->
    {LoadNs, GbS, _} = memory(),
    ok = bench_crowd:idle(Processes),
    #{list := Ns} = bench_clock:alternate(?RUNS, 10, #{list => fun erlang:processes/0}),
    #{load_ns => LoadNs, gb_s => GbS,
      processes_ns => bench_clock:median(Ns) / erlang:system_info(process_count)}.

-spec memory() -> {LoadNs :: float(), GbS :: float(), term()}.
memory() -> erlang:nif_error(not_loaded).

%% @doc The bytes that the operating system can still give, or `unknown', which is more than any.
-spec free_memory() -> non_neg_integer() | unknown.
free_memory() ->
    lists:min([unknown | [list_to_integer(Number) * Unit || {File, Pattern, Unit} <- limits(),
                                                   {ok, Text} <- [file:read_file(File)],
                                                   {match, [Number]} <- [matched(Text, Pattern)]]]).

%% Of the whole machine, and of a container, by both versions of control groups.
limits() ->
    [{"/proc/meminfo", "MemAvailable: *([0-9]+) kB", 1024},
     {"/sys/fs/cgroup/memory.max", "^([0-9]+)", 1},
     {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "^([0-9]+)", 1}].

matched(Text, Pattern) -> re:run(Text, Pattern, [{capture, all_but_first, list}]).
