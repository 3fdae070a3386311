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

%% @doc Returns the groups, those with the largest total of the first attribute first.
-spec groups(by(), [atom()], sonde_scan:how()) -> {[group()], sonde_scan:result()}.
groups(By, Attrs, How) ->
    Scans = sonde_scan:scan(each, 0, undefined, How),
    Policy = #{ask => fun(_, Here, Pids, {Groups, Rows, Missed}) ->
                              {More, Left} = sonde_scan:again(Pids, Here),
                              {[], {Groups, More ++ Rows, Left ++ Missed}}
                      end,
               row => fun(Row, {Groups, Rows, Missed}) ->
                              {More, Left} = named(By, [Row | Rows], Groups, ?AT_ONCE),
                              {More, Left, Missed}
                      end},
    case sonde_scan:drive(Scans, How, Policy, {#{}, [], []}) of
        {no_reader, _} ->
            throw(no_reader);
        {End, {Groups, Rows, Missed}} ->
            {All, []} = named(By, Rows, Groups, 1),
            Result = (sonde_scan:nothing())#{missed := Missed},
            {sorted(Attrs, All), case End of
                                     done -> Result;
                                     late -> sonde_scan:late(Scans, How, Result)
                                 end}
    end.

sorted(Attrs, Groups) ->
    Sorted = lists:reverse(lists:sort([{hd(Totals), Count, key(Key), Totals}
                                       || {Key, {Count, Totals}} <- maps:to_list(Groups)])),
    [{Key, Count, lists:zip(Attrs, Totals)} || {_, Count, Key, Totals} <- Sorted].

key({_, _, _} = Function) -> sonde_outside_names:function(Function);
key(Name) -> sonde_outside_names:name(Name).

named(By, Rows, Groups, Least) when length(Rows) >= Least ->
    Keys = sonde_nif:each_of(By, [Pid || {Pid, _} <- Rows]),
    {Now, Left} = lists:split(length(Keys), Rows),
    named(By, Left, lists:foldl(fun add/2, Groups, lists:zip(Keys, Now)), Least);
named(_, Rows, Groups, _) ->
    {Groups, Rows}.

%% One that has ended meanwhile is in no group.
add({gone, _}, Groups) ->
    Groups;
add({Key, {_, Values}}, Groups) ->
    maps:update_with(Key, fun({N, Totals}) -> {N + 1, [V + T || {V, T} <- lists:zip(Values, Totals)]} end,
                     {1, Values}, Groups).
