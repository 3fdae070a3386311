%% @private
%% A named public table in a process of its own, from its first use until it is dropped: the
%% settings of sonde_map and sonde_rec. Its owner belongs to no application, so that no application
%% ends it when it stops.
-module(sonde_ets_owner).

-export([with/3, drop/1, is_there/1]).
-export([own/3]).

%% @doc Returns what `Fun(Table)' returns. `Fun' must only read and write the table, which is
%% created if it does not exist. If the table is dropped meanwhile, `Fun' starts again with a new
%% one.
-spec with(atom(), set | ordered_set, fun((ets:tid()) -> Result)) -> Result.
with(Name, Type, Fun) ->
    Table = table(Name, Type),
    try Fun(Table)
    catch error:badarg:Stack ->
            case ets:info(Table, id) of
                undefined -> with(Name, Type, Fun);
                _ -> erlang:raise(error, badarg, Stack)
            end
    end.

%% @doc When it returns, the table is gone.
-spec drop(atom()) -> ok.
drop(Name) ->
    case ets:info(Name, owner) of
        undefined ->
            ok;
        Owner ->
            Ref = monitor(process, Owner),
            true = exit(Owner, kill),
            receive {'DOWN', Ref, process, Owner, _} -> ok end
    end.

-spec is_there(atom()) -> boolean().
is_there(Name) ->
    ets:whereis(Name) =/= undefined.

table(Name, Type) ->
    case ets:whereis(Name) of
        undefined ->
            {Pid, Ref} = spawn_monitor(?MODULE, own, [self(), Name, Type]),
            receive
                {Pid, owns} -> demonitor(Ref, [flush]);
                {'DOWN', Ref, process, Pid, _} -> ok
            end,
            table(Name, Type);
        Table ->
            Table
    end.

%% Two may start at the same time: the name of the table decides which one owns it.
-spec own(pid(), atom(), set | ordered_set) -> no_return() | ok.
own(Caller, Name, Type) ->
    true = group_leader(whereis(init), self()),
    try ets:new(Name, [Type, public, named_table]) of
        Name ->
            Caller ! {self(), owns},
            receive after infinity -> ok end
    catch error:badarg ->
            ok
    end.
