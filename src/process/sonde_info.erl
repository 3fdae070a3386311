%% @private
%% What is known of one process. A dead one is an answer and no error.
-module(sonde_info).

-export([process/1, process/2]).
-export_type([category/0]).

-type category() :: meta | signals | location | memory_used | work.

-define(CATEGORIES, [meta, signals, location, memory_used, work]).

%% @doc Returns all categories.
-spec process(sonde_lib:pid_term()) -> [{category(), [{atom(), term()}] | undefined}].
process(Term) ->
    Items = [{Category, items(Category)} || Category <- ?CATEGORIES],
    case values(sonde_lib:term_to_pid(Term), lists:append([Is || {_, Is} <- Items])) of
        undefined -> [{Category, undefined} || Category <- ?CATEGORIES];
        Values -> deal(Items, Values)
    end.

deal([], []) ->
    [];
deal([{Category, Items} | Categories], Values) ->
    {Mine, Others} = lists:split(length(Items), Values),
    [{Category, Mine} | deal(Categories, Others)].

-spec process(sonde_lib:pid_term(), category() | atom() | [atom()]) -> term().
process(Term, Key) ->
    about(sonde_lib:term_to_pid(Term), Key).

about(Pid, Keys) when is_list(Keys) ->
    _ = length(Keys), % badarg unless it is a proper list
    values(Pid, Keys);
about(Pid, Key) when is_atom(Key) ->
    case {items(Key), sonde_attr:is_counted(Key)} of
        {none, false} -> process_info(Pid, Key);
        {none, true} -> one(values(Pid, [Key]));
        {Items, _} -> {Key, values(Pid, Items)}
    end.

one(undefined) -> undefined;
one([Value]) -> Value.

%% Reads natively only what the process would have to list; to ask one process for everything else
%% is fast. The read comes first, since asking makes the process run.
values(Pid, Keys) ->
    {Counted, Other} = lists:partition(fun sonde_attr:is_counted/1, Keys),
    case {read(Pid, Counted), told(Pid, Other, Counted)} of
        {{ok, Read}, Told} when is_list(Told) -> in_order(Keys, lists:zip(Counted, Read), Told);
        _ -> undefined
    end.

read(_Pid, []) -> {ok, []};
read(Pid, Counted) -> sonde_every_process:one(Pid, Counted).

told(_Pid, [], [_ | _]) -> [];
told(Pid, Other, _) -> process_info(Pid, Other).

in_order(_Keys, [], Told) -> Told;
in_order([Key | Keys], [{Key, _} = Value | Read], Told) -> [Value | in_order(Keys, Read, Told)];
in_order([Key | Keys], Read, [{Key, _} = Value | Told]) -> [Value | in_order(Keys, Read, Told)].

items(meta) -> [registered_name, dictionary, group_leader, status];
items(signals) -> [links, monitors, monitored_by, trap_exit];
items(location) -> [initial_call, current_stacktrace];
items(memory_used) -> [memory, message_queue_len, heap_size, total_heap_size, garbage_collection];
items(work) -> [reductions];
items(_) -> none.
