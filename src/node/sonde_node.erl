%% @private
%% The node as a whole: its memory, its work and its schedulers, over time; and its code.
-module(sonde_node).

-export([stats/4, scheduler_usage/1, source/1]).
-export_type([stats/0]).

-type stats() :: {Absolutes :: [{atom(), non_neg_integer() | undefined}], Increments :: [{atom(), term()}]}.

-spec stats(integer(), timeout(), fun((stats(), Acc) -> Acc), Acc) -> Acc.
stats(N, Ms, Fold, Acc) ->
    measured(fun() -> sonde_lib:time_fold(N, Ms, fun sample/1, counters(), Fold, Acc) end).

-spec scheduler_usage(non_neg_integer()) -> sonde_lib:scheduler_usage() | undefined.
scheduler_usage(Ms) ->
    measured(fun() ->
                     {First, Last} = sonde_lib:sample(Ms, fun wall_time/0),
                     sonde_lib:scheduler_usage_diff(First, Last)
             end).

%% The VM counts the processes that request this measurement, so requests of others stay valid
%% afterwards; if the caller is killed, the VM removes its request.
measured(Fun) ->
    _ = erlang:system_flag(scheduler_wall_time, true),
    try
        Fun()
    after
        erlang:system_flag(scheduler_wall_time, false)
    end.

wall_time() ->
    erlang:statistics(scheduler_wall_time).

sample(Before) ->
    Now = counters(),
    {{absolutes(), increments(Before, Now)}, Now}.

absolutes() ->
    [{total, Total}, {processes_used, Processes}, {atom_used, Atoms}, {binary, Binaries},
     {ets, Tables}] = sonde_memory:read([total, processes_used, atom_used, binary, ets]),
    [{process_count, erlang:system_info(process_count)},
     {run_queue, erlang:statistics(run_queue)}]
        ++ error_logger_queue()
        ++ [{memory_total, Total}, {memory_procs, Processes}, {memory_atoms, Atoms},
            {memory_bin, Binaries}, {memory_ets, Tables}].

%% A process of that name runs only if a handler of the old kind was added.
error_logger_queue() ->
    case whereis(error_logger) of
        undefined -> [];
        Pid -> [{error_logger_queue_len, Length}
                || {message_queue_len, Length} <- [process_info(Pid, message_queue_len)]]
    end.

%% Counters that only grow.
counters() ->
    {{input, In}, {output, Out}} = erlang:statistics(io),
    {Collections, Words, _} = erlang:statistics(garbage_collection),
    {Reductions, _} = erlang:statistics(reductions),
    {[{bytes_in, In}, {bytes_out, Out}, {gc_count, Collections}, {gc_words_reclaimed, Words},
      {reductions, Reductions}], wall_time()}.

increments({Before, TimesBefore}, {Now, Times}) ->
    [{Key, Last - First} || {{Key, First}, {Key, Last}} <- lists:zip(Before, Now)]
        ++ [{scheduler_usage, sonde_lib:scheduler_usage_diff(TimesBefore, Times)}].

%% ---- code

-spec source(module()) -> iolist().
source(Module) ->
    {ok, {_, [{abstract_code, {_, Forms}}]}} = beam_lib:chunks(code:which(Module), [abstract_code]),
    layout(erl_prettypr, erl_syntax, Forms).

%% The modules are variables because their application may be absent.
layout(Pretty, Syntax, Forms) ->
    case code:ensure_loaded(Pretty) of
        {module, Pretty} -> Pretty:format(Syntax:form_list(Forms));
        {error, _} -> [erl_pp:form(Form) || Form <- Forms]
    end.
