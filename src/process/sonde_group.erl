%% @private
%% Totals of attributes over groups of processes: by what they run, their name, or their
%% application. The native path reads the first call and the group leader of each process and adds up
%% there; it asks only processes that it cannot read.
-module(sonde_group).

-export([group/3, initial_call/2]).
-export_type([by/0, group/0, options/0]).

-type by() :: initial_call | current_function | registered_name | application | label.
%% `{Application, InitialCall}'.
-type by_both() :: application_call.
-type group() :: {Key :: term(), Processes :: pos_integer(), [{sonde_attr:attr(), number()}]}.
%% `self': whether the caller counts (default: not).
-type options() :: #{max_groups := pos_integer(), self => boolean(), threads => sonde_threads:threads(),
                     atom() => term()}.
%% Below `{group, Key}', the number of processes and their totals; below `leaders', the application of
%% each group leader.
-type groups() :: #{leaders := #{pid() => atom()},
                    {group, term()} => {pos_integer(), [number()]}}.

%% @doc Returns the groups. More than `max_groups' raise `system_limit'.
-spec group(by() | by_both(), [sonde_attr:attr()], options()) -> [group()].
group(By, Attrs, #{max_groups := Max} = Opts) ->
    Self = maps:get(self, Opts, false),
    Items = items(By),
    Add = fun(Pid, Values, Told, Groups) -> add(By, Pid, Values, Told, Groups, Max) end,
    Others = sonde_retry:run(fun() -> others(By, Add, Attrs, Items, Opts) end),
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

nothing() -> #{leaders => #{}}.

others(By, Add, Attrs, Items, Opts) ->
    Native = is_native(By) andalso lists:all(fun sonde_attr:is_native/1, Attrs)
        andalso sonde_vm:side() =:= native andalso sonde_nif:has_first_call(),
    case Native andalso natively(By, Add, Attrs, Items, Opts) of
        #{} = Groups -> Groups;
        false -> sonde_every_process:fold(Add, nothing(), Attrs, Items)
    end.

%% ---- native

is_native(By) -> lists:member(By, [initial_call, application, application_call]).

%% `false': the processes can no longer be read, or have too many different keys to count them there.
natively(By, Add, Attrs, Items, #{max_groups := Max} = Opts) ->
    Caller = self(),
    Wanted = lists:usort(Attrs),
    InOrder = sonde_every_process:in_order(Attrs, Wanted),
    How = #{attrs => Wanted ++ [origin], threads => maps:get(threads, Opts, auto), without => [Caller]},
    Ask = fun(_, _, Pids, Groups) ->
                  {[], sonde_every_process:ask_all(Add, Groups, Attrs, Items, Pids)}
          end,
    Join = fun(A, B) -> join(A, B, Max) end,
    sonde_helper:call(
      fun(Ref) ->
              Scans = sonde_scan:scan(groups, 0, undefined, How),
              try sonde_scan:drive(Scans, How#{by => Ref}, #{ask => Ask, join => Join}, nothing()) of
                  {done, Asked} -> all(By, lists:append([counted(Scan, 1) || Scan <- Scans]), InOrder, Asked, Max);
                  {no_reader, _} -> false
              catch
                  error:system_limit -> false
              end
      end).

counted(Scan, From) ->
    {Next, Groups} = sonde_nif:scan_groups(Scan, From),
    Groups ++ case Next of
                  done -> [];
                  _ -> counted(Scan, Next)
              end.

all(By, Counted, InOrder, Asked, Max) ->
    Theirs = [One || {_, Call, _, _, _, _} = One <- Counted, not sonde_attr:is_ours(Call)],
    Leaders = case By of
                  initial_call -> #{};
                  _ -> lists:foldl(fun led/2, map_get(leaders, Asked), Theirs)
              end,
    lists:foldl(fun({Leader, Call, First, N, _, Sums}, Groups) ->
                        count(native_key(By, Leader, Call, First, Leaders), N, InOrder(Sums), Groups, Max)
                end, Asked, Theirs).

%% A leader on another node leads no application here. Of several processes with one leader any may answer.
led({undefined, _, _, _, _, _}, Known) -> Known;
led({Leader, _, _, _, _, _}, Known) when is_map_key(Leader, Known) -> Known;
led({Leader, _, _, _, Pid, _}, Known) -> element(2, application(Pid, Leader, Known)).

native_key(application, Leader, _, _, Leaders) -> maps:get(Leader, Leaders, undefined);
native_key(initial_call, _, Call, First, _) -> translated(Call, [{'$initial_call', First} || First =/= undefined]);
native_key(application_call, Leader, Call, First, Leaders) ->
    {native_key(application, Leader, Call, First, Leaders), native_key(initial_call, Leader, Call, First, Leaders)}.

join(#{leaders := Some} = A, #{leaders := Others} = B, Max) ->
    maps:fold(fun({group, Key}, {N, Totals}, Groups) -> count(Key, N, Totals, Groups, Max) end,
              A#{leaders := maps:merge(Some, Others)}, maps:remove(leaders, B)).

%% ---- asked

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
    count(App, 1, Values, Known, Max);
add_one(application_call, Pid, Values, [Call, {group_leader, Leader}, Told], Groups, Max) ->
    {App, Known} = application_of(Pid, Leader, Groups),
    count({App, key(initial_call, [Call, Told])}, 1, Values, Known, Max);
add_one(By, _Pid, Values, Told, Groups, Max) ->
    count(key(By, Told), 1, Values, Groups, Max).

application_of(Pid, Leader, #{leaders := Known} = Groups) ->
    case Known of
        #{Leader := App} ->
            {App, Groups};
        _ ->
            {App, Leaders} = application(Pid, Leader, Known),
            {App, Groups#{leaders := Leaders}}
    end.

-spec count(term(), pos_integer(), [number()], groups(), pos_integer()) -> groups().
count(Key, N, Values, Groups, Max) ->
    case Groups of
        #{{group, Key} := {Others, Totals}} ->
            Groups#{{group, Key} := {Others + N, [V + T || {V, T} <- lists:zip(Values, Totals)]}};
        _ when map_size(Groups) > Max ->
            error(system_limit);
        _ ->
            Groups#{{group, Key} => {N, Values}}
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
