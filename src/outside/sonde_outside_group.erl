%% @private
%% Totals of attributes over groups of processes of another OS process. What a process belongs to is read a moment
%% after its values.
-module(sonde_outside_group).

-export([groups/3]).

-type by() :: initial_call | current_function | registered_name.
%% `not_known': it cannot be read, because it is not in the file.
-type group() :: {sonde_outside_names:name() | sonde_outside_names:function_there() | undefined | not_known,
                  Processes :: pos_integer(), [{atom(), integer()}]}.

%% Rows that wait until their processes are named, at once.
-define(AT_ONCE, 64).
-define(FIRST, 63).           % the number of the last of the first processes

%% @doc Returns the groups, those with the largest total of the first attribute first.
-spec groups(by(), [atom()], sonde_scan:how()) -> {[group()], sonde_scan:result()}.
groups(By, Attrs, How) ->
    {Groups, Result} = case By =:= initial_call andalso sonde_nif:has_first_call() of
                           true ->
                               try counted(Attrs, How)
                               catch error:system_limit -> named(By, Attrs, How) % too many groups to be counted there
                               end;
                           false -> named(By, Attrs, How)
                       end,
    {sorted(Attrs, Groups), Result}.

%% ---- counted natively

%% What cannot be read in that sweep is named one by one.
counted(Attrs, How) ->
    ok = knows_key(),
    Wanted = lists:usort(Attrs),
    InOrder = sonde_every_process:in_order(Attrs, Wanted),
    Here = How#{attrs := Wanted ++ [origin]},
    Scans = sonde_scan:scan(groups, 0, undefined, Here),
    Policy = #{ask => fun(_, _, Pids, {Groups, Missed}) ->
                              {Rows, Left} = again(Pids, How),
                              {All, []} = names(initial_call, Rows, Groups, 1),
                              {[], {All, Left ++ Missed}}
                      end,
               join => fun({A, Some}, {B, Others}) ->
                               {maps:fold(fun(Key, {N, Totals}, All) -> count(Key, N, Totals, All) end, A, B), Some ++ Others}
                       end},
    {End, {Asked, Missed}} = drive(Scans, Here, Policy, {#{}, []}),
    Add = fun({_, Call, First, N, _, Sums}, All) -> count(began(Call, First), N, InOrder(Sums), All) end,
    {lists:foldl(Add, Asked, sonde_group:counted(Scans)), result(End, Missed, Scans, How)}.

%% In a core file another look sees the same, but the values may be there without the call.
again(Pids, #{still := true} = How) -> sonde_scan:look(Pids, How);
again(Pids, How) -> sonde_scan:again(Pids, How).

began(Call, undefined) -> Call;
began(_, First) -> First.

%% One of the first processes of each node tells which atom proc_lib uses there; without it, the text of each atom in a
%% dictionary would be read.
knows_key() ->
    _ = sonde_nif:each_of(initial_call, [list_to_pid("<0." ++ integer_to_list(I) ++ ".0>") || I <- lists:seq(0, ?FIRST)]),
    ok.

%% ---- named one by one

named(By, Attrs, How) ->
    Scans = sonde_scan:scan(each, 0, undefined, How#{attrs := Attrs}),
    Policy = #{ask => fun(_, Here, Pids, {Groups, Rows, Missed}) ->
                              {More, Left} = sonde_scan:again(Pids, Here),
                              {[], {Groups, More ++ Rows, Left ++ Missed}}
                      end,
               row => fun(Row, {Groups, Rows, Missed}) ->
                              {More, Left} = names(By, [Row | Rows], Groups, ?AT_ONCE),
                              {More, Left, Missed}
                      end},
    {End, {Groups, Rows, Missed}} = drive(Scans, How, Policy, {#{}, [], []}),
    {All, []} = names(By, Rows, Groups, 1),
    {All, result(End, Missed, Scans, How)}.

drive(Scans, How, Policy, Acc) ->
    case sonde_scan:drive(Scans, How, Policy, Acc) of
        {no_reader, _} -> throw(no_reader);
        Ended -> Ended
    end.

result(End, Missed, Scans, How) ->
    Result = (sonde_scan:nothing())#{missed := Missed},
    case End of
        done -> Result;
        late -> sonde_scan:late(Scans, How, Result)
    end.

sorted(Attrs, Groups) ->
    Sorted = lists:reverse(lists:sort([{hd(Totals), Count, key(Key), Totals}
                                       || {Key, {Count, Totals}} <- maps:to_list(Groups)])),
    [{Key, Count, lists:zip(Attrs, Totals)} || {_, Count, Key, Totals} <- Sorted].

key({_, _, _} = Function) -> sonde_outside_names:function(Function);
key(Name) -> sonde_outside_names:name(Name).

names(By, Rows, Groups, Least) when length(Rows) >= Least ->
    Keys = sonde_nif:each_of(By, [Pid || {Pid, _} <- Rows]),
    {Now, Left} = lists:split(length(Keys), Rows),
    names(By, Left, lists:foldl(fun add/2, Groups, lists:zip(Keys, Now)), Least);
names(_, Rows, Groups, _) ->
    {Groups, Rows}.

%% One that has ended meanwhile is in no group.
add({gone, _}, Groups) -> Groups;
add({Key, {_, Values}}, Groups) -> count(Key, 1, Values, Groups).

count(Key, N, Values, Groups) ->
    maps:update_with(Key, fun({Others, Totals}) -> {Others + N, [V + T || {V, T} <- lists:zip(Values, Totals)]} end,
                     {N, Values}, Groups).
