%% Figures of this machine that explain why the same code takes longer on another one.
-module(bench_machine).

-export([figures/1]).
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
