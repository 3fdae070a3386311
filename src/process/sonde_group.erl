%% @private
%% Totals of attributes over groups of processes: by what they run, their name, or their
%% application.
-module(sonde_group).

-export([group/4, initial_call/2]).
-export_type([by/0, group/0]).

-type by() :: initial_call | current_function | registered_name | application | label.
%% `{Application, InitialCall}'.
-type by_both() :: application_call.
-type group() :: {Key :: term(), Processes :: pos_integer(), [{sonde_attr:attr(), number()}]}.

%% @doc Returns the groups. `Self': whether the caller counts. More than `Max' groups raise
%% `system_limit'.
-spec group(by() | by_both(), [sonde_attr:attr()], boolean(), pos_integer()) -> [group()].
group(By, Attrs, Self, Max) ->
    Items = items(By),
    Add = fun(Pid, Values, Told, Groups) -> add(By, Pid, Values, Told, Groups, Max) end,
    Others = sonde_every_process:fold(Add, #{leaders => #{}}, Attrs, Items),
    Groups = maps:remove(leaders, case Self of
                                      true -> with_caller(Add, Others, Attrs, Items);
                                      false -> Others
                                  end),
    %% largest first by the first attribute, then by the number of processes
    Sorted = lists:reverse(lists:sort([{lists:sublist(Totals, 1), Processes, Key, Totals}
                                       || {{group, Key}, {Processes, Totals}} <- maps:to_list(Groups)])),
    [{Key, Processes, lists:zip(Attrs, Totals)} || {_, Processes, Key, Totals} <- Sorted].

%% @doc Returns the initial call of a process, as the key of its group; `helper' for a process of
%% sonde. `Small': whether its dictionary may be copied, which is necessary where it cannot be asked
%% for one key.
-spec initial_call(pid(), Small :: boolean()) -> mfa() | helper | undefined.
initial_call(Pid, Small) ->
    [Item] = key_items(initial_call),
    case process_info(Pid, [initial_call | [Item || Small orelse Item =/= dictionary]]) of
        undefined -> undefined;
        [{initial_call, Call} | _] = Told ->
            case sonde_attr:is_ours(Call) of
                true -> helper;
                false when length(Told) =:= 1 -> Call;
                false -> key(initial_call, Told)
            end
    end.

with_caller(Add, Groups, Attrs, Items) ->
    {Values, Told} = sonde_attr:ask(self(), Attrs, Items),
    Add(self(), Values, Told, Groups).

%% initial_call shows which processes belong to sonde.
items(By) ->
    [initial_call | key_items(By)].

key_items(initial_call) -> [one_key('$initial_call')];
key_items(current_function) -> [current_function];
key_items(registered_name) -> [registered_name];
key_items(application) -> [group_leader];
key_items(label) -> [{dictionary, '$process_label'}];
key_items(application_call) -> [group_leader | key_items(initial_call)].

%% From OTP 26.2 on a process can be asked for one key of its dictionary.
one_key(Key) ->
    Item = {dictionary, Key},
    try sonde_attr:check(Item) of
        _ -> Item
    catch
        error:badarg -> dictionary
    end.

add(By, Pid, Values, [{initial_call, Call} | _] = Told, Groups, Max) ->
    case sonde_attr:is_ours(Call) of
        true -> Groups;
        false -> add_one(By, Pid, Values, Told, Groups, Max)
    end.

add_one(application, Pid, Values, [_, {group_leader, Leader}], Groups, Max) ->
    {App, Known} = application_of(Pid, Leader, Groups),
    count(App, Values, Known, Max);
add_one(application_call, Pid, Values, [Call, {group_leader, Leader}, Told], Groups, Max) ->
    {App, Known} = application_of(Pid, Leader, Groups),
    count({App, key(initial_call, [Call, Told])}, Values, Known, Max);
add_one(By, _Pid, Values, Told, Groups, Max) ->
    count(key(By, Told), Values, Groups, Max).

application_of(Pid, Leader, #{leaders := Known} = Groups) ->
    case Known of
        #{Leader := App} ->
            {App, Groups};
        _ ->
            {App, Leaders} = application(Pid, Leader, Known),
            {App, Groups#{leaders := Leaders}}
    end.

count(Key, Values, Groups, Max) ->
    case Groups of
        #{{group, Key} := {N, Totals}} ->
            Groups#{{group, Key} := {N + 1, [V + T || {V, T} <- lists:zip(Values, Totals)]}};
        _ when map_size(Groups) > Max ->
            error(system_limit);
        _ ->
            Groups#{{group, Key} => {1, Values}}
    end.

%% If the process died, or changed its leader, before the answer came, the answer says nothing about
%% Leader.
application(Pid, Leader, Known) ->
    App = case application:get_application(Pid) of
              {ok, Name} -> Name;
              undefined -> undefined
          end,
    case process_info(Pid, group_leader) of
        {group_leader, Leader} -> {App, Known#{Leader => App}};
        _ -> {App, Known}
    end.

key(initial_call, [{initial_call, Call}, {dictionary, Dictionary}]) ->
    translated(Call, Dictionary);
key(initial_call, [{initial_call, Call}, {{dictionary, Key}, Value}]) ->
    translated(Call, [{Key, Value} || Value =/= undefined]);
key(registered_name, [_, {_, []}]) -> undefined;
key(_, [_, {_, Key}]) -> Key.

%% proc_lib reports init_p for a process that it did not start.
translated(Call, Dictionary) ->
    case proc_lib:translate_initial_call([{initial_call, Call}, {dictionary, Dictionary}]) of
        {proc_lib, init_p, _} -> Call;
        Translated -> Translated
    end.
