%% @private
%% What can be read of one process of another OS process, in the shape of `sonde:info'. All of it is of one
%% moment, if the process ever rests. Otherwise its items are `busy', except those that are a single word.
-module(sonde_outside_info).

-export([process/3, words/2]).

%% `busy': it runs at each look, or has a signal to handle first. `not_shown': content, or a list that may be
%% long. `not_known': sonde does not know where the VM keeps it.
-type item() :: {atom(), term() | busy | not_shown | not_known}.

-define(STACK, 8).
-define(TRIES, 5).
-define(PAUSE_MS, 5).

%% @doc Returns all categories, or the one category or item of that list.
-spec process(pid(), [atom()], #{timeout => non_neg_integer()}) ->
    [{sonde_info:category(), [item()]}] | {sonde_info:category(), [item()]} | item()
  | undefined | {error, {not_known, atom()}} | sonde_look:errors().
process(Pid, Keys, Opts) ->
    case [Key || Key <- Keys, not is_known(Key)] of
        [Key] ->
            {error, {not_known, Key}};
        [] ->
            case read(Pid, sonde_opts:read(Opts, sonde_look:options(#{})), ?TRIES) of
                #{} = Known -> answer(Keys, Known);
                Error -> Error
            end
    end.

answer([], Known) -> [{Category, values(Items, Known)} || {Category, Items} <- categories()];
answer([Key], Known) ->
    case lists:keyfind(Key, 1, categories()) of
        {Key, Items} -> {Key, values(Items, Known)};
        false -> {Key, map_get(Key, Known)}
    end.

values(Items, Known) -> [{Item, value(Item, Known)} || Item <- Items].

value(Item, _) when Item =:= dictionary; Item =:= links; Item =:= monitors; Item =:= monitored_by -> not_shown;
value(Item, _) when Item =:= trap_exit; Item =:= garbage_collection -> not_known;
value(Item, Known) -> map_get(Item, Known).

categories() ->
    [{meta, [registered_name, dictionary_size, dictionary, group_leader, status]},
     {signals, [link_count, links, monitor_count, monitors, monitored_by_count, monitored_by, trap_exit]},
     {location, [initial_call, current_function, current_stacktrace]},
     {memory_used, [memory, message_queue_len, heap_size, total_heap_size, stack_size, binary_memory,
                    binary_count, garbage_collection]},
     {work, [reductions]}].

is_known(Key) ->
    lists:member(Key, [meta, signals, location, memory_used, work, registered_name, group_leader, status,
                       initial_call, current_function, current_stacktrace | sonde_attr:native()]).

%% ---- reading

%% A process that waits may have to handle a signal first, and does so soon.
read(Pid, Opts, Tries) ->
    case sonde_look:run(Pid, {process, [], 0, 0}, Opts#{max_words := ?STACK}, fun known/1) of
        #{} = Known when Tries > 1 ->
            case lists:member(busy, maps:values(Known)) of
                true -> timer:sleep(?PAUSE_MS), read(Pid, Opts, Tries - 1);
                false -> Known
            end;
        {error, busy} ->
            at_once(Pid);
        Other ->
            Other
    end.

known(Look) ->
    {Who, Leader, Values, Stack} = sonde_look:given(sonde_nif:look_process(Look)),
    maps:merge(named(Who, #{group_leader => known_or_not(Leader),
                            current_stacktrace => called(Stack)}),
               maps:from_list(lists:zip(sonde_attr:native(), [number(Value) || Value <- Values]))).

%% The names of files are not read.
called(not_known) ->
    not_known;
called(Stack) ->
    [{M, F, A, [{line, Line} || Line > 0]}
     || {Call, Line} <- Stack, {M, F, A} <- [sonde_outside_names:function(Call)]].

number(ask) -> not_known;
number(Value) -> Value.

known_or_not(undefined) -> not_known;
known_or_not(Value) -> Value.

named({Name, Call, Current, Status}, More) ->
    More#{registered_name => case Name of undefined -> []; _ -> sonde_outside_names:name(Name) end,
          initial_call => known_or_not(sonde_outside_names:function(Call)),
          current_function => known_or_not(sonde_outside_names:function(Current)), status => Status}.

%% Of a process that never rests: words that are whole at any time, each of its own moment.
at_once(Pid) ->
    case sonde_nif:identity(Pid) of
        gone -> undefined;
        Who ->
            Rest = maps:from_list([{Item, busy} || Item <- [group_leader, current_stacktrace | sonde_attr:native()]]),
            maps:merge(named(Who, Rest), maps:from_list(lists:append([words(Pid, Attrs) || Attrs <- at_any_time()])))
    end.

at_any_time() -> [[reductions, heap_size, catchlevel], [message_queue_len]].

%% @doc The values of these attributes, each of its own moment; none if the process has ended.
-spec words(pid(), [atom()]) -> [{atom(), integer()}].
words(Pid, Attrs) ->
    case sonde_scan:look([Pid], #{attrs => Attrs, until => infinity, outside => true}) of
        {[{Pid, Values}], []} -> lists:zip(Attrs, Values);
        {[], _} -> []
    end.
