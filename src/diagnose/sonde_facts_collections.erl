%% @private
%% Which processes collect by themselves while a diagnosis watches them. The few samples of a
%% process do not show it: a process that waits in each of them is always in the same state. So two
%% words of each process are read much more often, natively and without a message to it.
-module(sonde_facts_collections).

-export([watch/4, seen/2]).
-export_type([seen/0, count/0]).

%% Collections that were noticed; there may have been more.
-type count() :: #{minor | full := non_neg_integer()}.
-opaque seen() :: #{pid() => {Last :: state(), count()}}.
-type state() :: {MinorGcs :: non_neg_integer(), HeapSize :: non_neg_integer()}.

%% @doc Reads each of the processes every `Pause' milliseconds, until that time.
-spec watch([pid()], Until :: integer(), Pause :: pos_integer(),
            {fun(() -> ok), seen()}) -> seen().
watch(Pids, Until, Pause, {Check, Seen0}) ->
    ok = Check(),
    Seen = lists:foldl(fun look/2, Seen0, Pids),
    case Until - erlang:monotonic_time(millisecond) of
        Left when Left > 0 ->
            timer:sleep(min(Left, Pause)),
            watch(Pids, Until, Pause, {Check, Seen});
        _ ->
            Seen
    end.

look(Pid, Seen) ->
    case {sonde_every_process:read(Pid, minor_gcs), sonde_every_process:read(Pid, heap_size)} of
        {Gcs, Size} when is_integer(Gcs), is_integer(Size) ->
            Now = {Gcs, Size},
            maps:update_with(Pid, fun({Before, Count}) -> {Now, add(Before, Now, Count)} end,
                             {Now, #{minor => 0, full => 0}}, Seen);
        _ ->
            Seen
    end.

%% A full collection resets the number of minor ones, and often changes the size of the heap.
add(Same, Same, Count) -> Count;
add({Before, _}, {Now, _}, #{minor := Minor} = Count) when Now > Before ->
    Count#{minor := Minor + Now - Before};
add(_, _, #{full := Full} = Count) ->
    Count#{full := Full + 1}.

%% @doc The collections of a process.
-spec seen(pid(), seen()) -> count().
seen(Pid, Seen) ->
    {_, Count} = maps:get(Pid, Seen, {none, #{minor => 0, full => 0}}),
    Count.
