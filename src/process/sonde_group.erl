%% @private
%% Totals of attributes over groups of processes: by what they run, their name, or their
%% application. The native path reads the first call and the group leader of each process and adds up
%% there; it asks only processes that it cannot read.
-module(sonde_group).

-export([group/3, initial_call/2, counted/1]).
-export_type([by/0, group/0, options/0]).

-type by() :: initial_call | current_function | registered_name | application | label.
%% `{Application, InitialCall}'.
-type by_both() :: application_call.
-type group() :: {Key :: term(), Processes :: pos_integer(), [{sonde_attr:attr(), number()}]}.
%% `self': whether the caller counts (default: not).
-type options() :: #{max_groups := pos_integer(), self => boolean(), threads => sonde_threads:threads(),
                     atom() => term()}.
%% Below the key of each group, the number of its processes and their totals.
-type groups() :: #{term() => {pos_integer(), [number()]}}.

%% @doc Returns the groups. More than `max_groups' raise `system_limit'.
-spec group(by() | by_both(), [sonde_attr:attr()], options()) -> [group()].
group(By, Attrs, #{max_groups := Max} = Opts) ->
    Items = items(By),
    Leaders = leaders(By),
    Add = fun(_, Values, Told, Groups) -> add(By, Leaders, Values, Told, Groups, Max) end,
    {Others, _} = sonde_retry:run(fun() -> others(By, Leaders, Add, Attrs, Items, Opts) end),
    Groups = case maps:get(self, Opts, false) of
                 true -> element(1, with_caller(Add, {Others, #{}}, Attrs, Items));
                 false -> Others
             end,
    %% largest first by the first attribute, then by the number of processes
    Sorted = lists:reverse(lists:sort([{lists:sublist(Totals, 1), Processes, Key, Totals}
                                       || {Key, {Processes, Totals}} <- maps:to_list(Groups)])),
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
                false -> not_ours(key(initial_call, Told))
            end
    end.

not_ours(Call) ->
    case sonde_attr:is_ours(Call) of
        true -> helper;
        false -> Call
    end.

%% The application of each process that leads one. application:get_application/1 would ask a process of each
%% leader, and one in a long native call does not answer.
leaders(By) when By =:= application; By =:= application_call ->
    maps:from_list([{Leader, App} || {App, _, _} <- application:loaded_applications(),
                                     Leader <- [application_controller:get_master(App)], is_pid(Leader)]);
leaders(_) ->
    #{}.

others(By, Leaders, Add, Attrs, Items, Opts) ->
    Native = is_native(By) andalso lists:all(fun sonde_attr:is_native/1, Attrs)
        andalso sonde_vm:side() =:= native andalso sonde_nif:has_first_call(),
    case Native andalso natively(By, Leaders, Add, Attrs, Items, Opts) of
        {#{}, _} = Groups -> Groups;
        false -> sonde_every_process:fold(Add, {#{}, #{}}, Attrs, Items)
    end.

%% ---- native

is_native(By) -> lists:member(By, [initial_call, application, application_call]).

%% `false': the processes can no longer be read, or have too many different keys to count them there.
natively(By, Leaders, Add, Attrs, Items, #{max_groups := Max} = Opts) ->
    Caller = self(),
    Wanted = lists:usort(Attrs),
    InOrder = sonde_every_process:in_order(Attrs, Wanted),
    How = #{attrs => Wanted ++ [origin], threads => maps:get(threads, Opts, auto), without => [Caller]},
    Ask = fun(_, _, Pids, Groups) ->
                  {[], sonde_every_process:ask_all(Add, Groups, Attrs, Items, Pids)}
          end,
    Join = fun({A, Ours}, {B, More}) -> {join(A, B, Max), maps:merge(Ours, More)} end,
    sonde_helper:call(
      fun(Ref) ->
              Scans = sonde_scan:scan(groups, 0, undefined, How),
              try sonde_scan:drive(Scans, How#{by => Ref}, #{ask => Ask, join => Join}, {#{}, #{}}) of
                  {done, {Asked, Ours}} -> {all(By, Leaders, counted(Scans), InOrder, Asked, Max), Ours};
                  {no_reader, _} -> false
              catch
                  error:system_limit -> false
              end
      end).

%% @doc The groups that these finished scans have counted. One that several of them met has a row of each.
-spec counted(sonde_scan:scans()) -> [{pid() | undefined, Call, First, Processes :: pos_integer(), pid(), [integer()]}]
  when Call :: mfa() | sonde_nif:function_there(), First :: mfa() | sonde_nif:function_there().
counted(Scans) -> lists:append([counted(Scan, 1) || Scan <- Scans]).

counted(Scan, From) ->
    case sonde_nif:scan_groups(Scan, From) of
        {done, Groups} -> Groups;
        {Next, Groups} -> Groups ++ counted(Scan, Next);
        no_reader -> throw(no_reader) % another OS process has ended
    end.

all(By, Leaders, Counted, InOrder, Asked, Max) ->
    lists:foldl(fun({Leader, Call, First, N, _, Sums}, Groups) ->
                        count(native_key(By, Leader, Call, First, Leaders), N, InOrder(Sums), Groups, Max)
                end, Asked, [One || {_, Call, First, _, _, _} = One <- Counted,
                                    not sonde_attr:is_ours(Call), not sonde_attr:is_ours(First)]).

native_key(application, Leader, _, _, Leaders) -> maps:get(Leader, Leaders, undefined);
native_key(initial_call, _, Call, First, _) -> translated(Call, [{'$initial_call', First} || First =/= undefined]);
native_key(application_call, Leader, Call, First, Leaders) ->
    {native_key(application, Leader, Call, First, Leaders), native_key(initial_call, Leader, Call, First, Leaders)}.

join(A, B, Max) ->
    maps:fold(fun(Key, {N, Totals}, Groups) -> count(Key, N, Totals, Groups, Max) end, A, B).

%% ---- asked

with_caller(Add, Groups, Attrs, Items) ->
    {Values, Told} = sonde_attr:ask(self(), Attrs, Items),
    Add(self(), Values, Told, Groups).

%% The first two show which processes belong to sonde. For its current function, each process would have to
%% answer itself.
items(By) ->
    [initial_call, parent | key_items(By)].

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

%% Groups, and of the parents met whether they are ours. A parent that wants to run answers late, so it is asked only
%% where the key leaves open whose process this is.
add(By, Leaders, Values, [{initial_call, Call} = Began, {parent, Parent} | Told], {Groups, Known}, Max) ->
    Key = told_key(By, Leaders, [Began | Told]),
    {Is, Ours} = case sonde_attr:is_ours(Call) orelse is_our_key(By, Key) of
                     unknown -> of_parent(Call, Parent, Known);
                     Clear -> {Clear, Known}
                 end,
    case Is of
        true -> {Groups, Ours};
        false -> {count(Key, 1, Values, Groups, Max), Ours}
    end.

%% Those of sonde_waits:hold/1 have no name. One that has not begun is where proc_lib began it.
is_our_key(By, {proc_lib, init_p, _}) when By =:= current_function; By =:= initial_call -> unknown;
is_our_key(current_function, Now) -> sonde_attr:is_hold(Now);
is_our_key(initial_call, Call) -> sonde_attr:is_ours(Call);
is_our_key(registered_name, Name) when Name =/= undefined -> false;
is_our_key(_, _) -> unknown.

%% What proc_lib has started for one of ours is ours too.
of_parent({proc_lib, init_p, _}, Parent, Known) when is_pid(Parent), node(Parent) =:= node() ->
    case Known of
        #{Parent := Is} ->
            {Is, Known};
        _ ->
            Is = sonde_attr:is_ours(sonde_attr:initial_call(Parent)),
            {Is, Known#{Parent => Is}}
    end;
of_parent(_, _, Known) ->
    {false, Known}.

told_key(application, Leaders, [_, {group_leader, Leader}]) ->
    maps:get(Leader, Leaders, undefined);
told_key(application_call, Leaders, [Call, Leader, Told]) ->
    {told_key(application, Leaders, [Call, Leader]), key(initial_call, [Call, Told])};
told_key(By, _, Told) ->
    key(By, Told).

-spec count(term(), pos_integer(), [number()], groups(), pos_integer()) -> groups().
count(Key, N, Values, Groups, Max) ->
    case Groups of
        #{Key := {Others, Totals}} ->
            Groups#{Key := {Others + N, [V + T || {V, T} <- lists:zip(Values, Totals)]}};
        _ when map_size(Groups) >= Max ->
            error(system_limit);
        _ ->
            Groups#{Key => {N, Values}}
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
