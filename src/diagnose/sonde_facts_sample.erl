%% @private
%% Groups of similar processes, estimated from a sample: each may be small while the group is large.
%% They are grouped by their initial call, or, if they began as a fun, by their current function.
%% For each process of the sample its names are read, and on the native path some heaps.
-module(sonde_facts_sample).

-export([first/2, unseen/1, last/4, is_idle/1]).
-export_type([crowd/0, group/0]).

%% `each': how many processes one of the sample stands for; `sampled': how many it has. `count', `bytes', `garbage' and the
%% numbers of orphans are of the whole group; they are estimates if `each' is more than 1. `born':
%% how many of the processes that gained the most memory are of this group and began in the
%% interval.
%% `rest': the reductions that even the quietest process of the sample used in the interval. The VM lets
%% each process check its code when a module is purged, for example.
%% `suspended': how many processes are suspended, for example because they send to a node with a busy
%% connection; `unknown' if the sample does not have all processes.
-type crowd() :: #{each := float(), sampled := non_neg_integer(), groups := [group()], rest := non_neg_integer(),
                   suspended := non_neg_integer() | unknown}.
-type group() :: #{key := mfa(), count := non_neg_integer(), bytes := non_neg_integer(),
                   orphans := non_neg_integer(), orphan_bytes := non_neg_integer(),
                   idle := non_neg_integer(), garbage := non_neg_integer(),
                   born := non_neg_integer(), current := mfa() | undefined, some := [pid()]}.
-type member() :: {pid(), #{atom() => term()}}.

-define(SAMPLE, 500).
-define(ALL, 1.1).            % a few processes of a sample of all end, or do not answer
-define(ANSWER_MS, 1000).     % for all of them
-define(LOOKS, 10).           % into heaps of one group
-define(LOOK_WORDS, 1000000).
-define(LOOK_MS, 50).
-define(SOME, 3).
-define(SMALL, 1000000).      % bytes; of a larger process the dictionary is not copied
-define(IDLE, 1000).          % reductions; answering requests takes fewer
-define(MOST_REST, 1000000).  % reductions
-define(ATTRS, [memory, reductions, link_count, monitor_count, monitored_by_count]).

-spec first(native | {portable, term()}, reference()) -> {term(), float(), [member()]}.
first(Side, Caller) ->
    Pids = processes() -- [self()],
    Sample = drawn(Pids, length(Pids)),
    {Side, length(Pids) / max(1, length(Sample)), maps:to_list(facts(Sample, Caller))}.

facts(Pids, Caller) ->
    Ask = fun(Some) ->
                  [{Pid, Values} || {Pid, {ok, Values}}
                                        <- each(fun(P) -> sonde_every_process:one(P, ?ATTRS) end, Some,
                                                Caller)]
          end,
    maps:from_list([{Pid, maps:from_list(lists:zip(?ATTRS, Values))}
                    || {Pid, Values} <- sonde_every_process:glance(Pids, ?ATTRS, Ask)]).

%% `{What, Answer}' of all that answer soon: a process in a long native call does not.
each(Fun, Whats, Caller) ->
    sonde_helper:jobs(fun(What) -> sonde_helper:job(Fun, What) end,
                      fun(What, Answer, Acc) -> [{What, Answer} || is_tuple(Answer)] ++ Acc end,
                      [], Whats,
                      #{in_flight => 10, caller => Caller,
                        until => erlang:monotonic_time(millisecond) + ?ANSWER_MS}).

drawn(Pids, Count) when Count =< ?SAMPLE -> Pids;
drawn(Pids, Count) ->
    Step = Count / ?SAMPLE,
    every(Pids, 1, 1 + trunc(rand:uniform() * Step), Step).

every([Pid | Pids], I, At, Step) when I >= At -> [Pid | every(Pids, I + 1, At + Step, Step)];
every([_ | Pids], I, At, Step) -> every(Pids, I + 1, At, Step);
every([], _, _, _) -> [].

%% @doc Reports that only a sample was read.
-spec unseen({term(), float(), [member()]}) -> [{atom(), sonde_facts:because()}].
unseen({_, Each, Members}) ->
    [{processes, {sampled, length(Members)}} || Each > ?ALL].

%% @doc At the end: which of them are still there, and which were idle. `Times' is how many intervals that
%% took. `Growers' are the rows of a window.
-spec last({term(), float(), [member()]}, [sonde_proc_count:row()], number(), reference()) -> crowd().
last({Side, Each, Members}, Growers, Times, Caller) ->
    Later = facts([Pid || {Pid, _} <- Members], Caller),
    Rest = lists:min([?MOST_REST | [Does - Did || {Pid, #{reductions := Did}} <- Members,
                                                  #{Pid := #{reductions := Does}} <- [Later]]]),
    Now = [Told || {_, Told} <- each(fun({Pid, Before}) -> named(Pid, Before, map_get(Pid, Later), {Rest, Times})
                                     end, [M || {Pid, _} = M <- Members, is_map_key(Pid, Later)],
                                     Caller)],
    Born = born([Row || {Pid, _, _} = Row <- Growers, not lists:keymember(Pid, 1, Members)],
                Caller),
    Groups = lists:foldl(fun({Key, Member}, Acc) ->
                                 maps:update_with(Key, fun(Of) -> [Member | Of] end, [Member], Acc)
                         end, maps:map(fun(_, _) -> [] end, Born), Now),
    #{each => Each, sampled => length(Members), rest => max(0, Rest),
      suspended => case Each > ?ALL of
                       true -> unknown;
                       false -> length([x || {_, #{status := suspended}} <- Now])
                   end,
      groups => [group(Key, Of, maps:get(Key, Born, 0), Each, Side)
                               || {Key, Of} <- maps:to_list(Groups)]}.

named(Pid, #{reductions := Did}, #{reductions := Does, memory := Bytes} = Now, {Rest, Times}) ->
    case {sonde_group:initial_call(Pid, Bytes < ?SMALL),
          process_info(Pid, [registered_name, current_function, status])} of
        {{_, _, _} = Call, [{_, Name}, {_, Current}, {_, Status}]} ->
            {key(Call, Current), Now#{pid => Pid, name => Name, current => Current, status => Status,
                                      idle => is_idle(round((Does - Did - Rest) / Times))}};
        _ ->
            none
    end.

%% @doc Whether a process only answered, for example the questions of a diagnosis, with so many reductions in the interval.
-spec is_idle(integer()) -> boolean().
is_idle(Reductions) -> Reductions < ?IDLE.

%% For a fun, the initial call is only erlang:apply/2; the current function says more.
key({erlang, apply, 2}, {_, _, _} = Current) -> Current;
key(Call, _) -> Call.

%% A process that gained all the memory that it has began within the window.
born(Growers, Caller) ->
    maps:from_list(sonde_lib:count([Key || {_, {Key, _}} <- each(fun newborn/1, Growers, Caller)])).

newborn({Pid, Gained, _}) ->
    case sonde_every_process:one(Pid, [memory]) of
        {ok, [Gained]} -> named(Pid, #{reductions => 0}, #{reductions => 0, memory => Gained}, {0, 1});
        _ -> older
    end.

group(Key, Members, Born, Each, Side) ->
    Orphans = [M || M <- Members, is_orphan(M)],
    #{key => Key, count => scaled(length(Members), Each), bytes => scaled(sum(Members), Each),
      orphans => scaled(length(Orphans), Each), orphan_bytes => scaled(sum(Orphans), Each),
      idle => scaled(length([M || #{idle := true} = M <- Members]), Each),
      garbage => scaled(garbage(Members, Side), Each), born => Born,
      current => commonest([C || #{current := C} <- Members]),
      some => lists:sublist([Pid || #{pid := Pid} <- Members], ?SOME)}.

is_orphan(#{link_count := 0, monitor_count := 0, monitored_by_count := 0, name := [],
            idle := true}) -> true;
is_orphan(_) -> false.

scaled(N, Each) -> round(N * Each).

sum(Members) -> lists:sum([Bytes || #{memory := Bytes} <- Members]).

commonest([]) -> undefined;
commonest(All) ->
    element(2, lists:max([{N, C} || {C, N} <- sonde_lib:count(All)])).

%% Only of idle processes: one that works collects by itself. The total is estimated from the few
%% heaps that are read.
garbage(Members, native) ->
    Idle = [Pid || #{pid := Pid, idle := true} <- Members],
    Opts = #{max_words => ?LOOK_WORDS, timeout => ?LOOK_MS},
    case [given_back(Heap) || Pid <- lists:sublist(Idle, ?LOOKS),
                              #{garbage := _} = Heap <- [sonde_heap_map:heap(Pid, Opts)]] of
        [] -> 0;
        Some -> lists:sum(Some) * length(Idle) div length(Some)
    end;
garbage(_, _) ->
    0.

%% A collection makes no heap smaller than the smallest one: idle processes of that size, as most
%% are, give nothing back.
given_back(#{garbage := Garbage, reachable := Live, blocks := Blocks}) ->
    {_, Words} = erlang:system_info(min_heap_size),
    All = lists:sum(maps:values(Blocks)),
    max(0, min(Garbage, All - max(Live, Words * erlang:system_info(wordsize)))).
