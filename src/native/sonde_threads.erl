%% @private
%% How many threads may work at one call. Each is a dirty I/O scheduler, so a thread of its own, that
%% reads another part of the process table; memory has room for the misses of many cores.
-module(sonde_threads).

-export([option/0, count/1]).
-export_type([threads/0]).

-type threads() :: auto | 1..8.

-define(MOST, 8).
%% Below so many processes for each, to start another thread takes longer than its work.
-define(PROCESSES, 10000).

%% @doc The option of each call that may use several threads.
-spec option() -> sonde_opts:option().
option() ->
    {auto, fun(auto) -> true;
              (N) -> is_integer(N) andalso N >= 1 andalso N =< ?MOST
           end}.

%% @doc By default as many as there are idle cores at this moment, but on a small node, or a busy one,
%% only one.
-spec count(threads()) -> pos_integer().
count(auto) ->
    Wanted = min(?MOST, erlang:system_info(process_count) div ?PROCESSES),
    case Wanted > 1 of
        true -> max(1, min(Wanted, idle()));
        false -> 1
    end;
count(Threads) ->
    min(Threads, erlang:system_info(dirty_io_schedulers)).

%% The caller itself is active, but waits meanwhile.
idle() ->
    Active = erlang:statistics(active_tasks_all),
    Cores = erlang:system_info(schedulers_online),
    min(Cores + 1 - lists:sum(Active), erlang:system_info(dirty_io_schedulers)).
