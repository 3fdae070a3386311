%% @private
%% ETS tables by what they hold: their own memory, their rows, and the off-heap binaries that their
%% rows refer to, which `ets:info(_, memory)' leaves out. It uses only official calls, which also
%% cover private tables.
-module(sonde_ets).

-export([count/3, bytes/1, memory/2, binaries/2, row/1]).
-export_type([attr/0, row/0, options/0, binary_row/0]).

-type attr() :: memory | size | binary_memory.
-type row() :: {ets:table(), Value :: non_neg_integer() | {too_large, Rows :: pos_integer()},
                [atom() | {owner, pid()} | {type, atom()} | {size, non_neg_integer()}]}.
-type options() :: #{max_rows => non_neg_integer()}.
-type binary_row() :: {Id :: pos_integer(), Size :: non_neg_integer(), Refc :: pos_integer(),
                       References :: pos_integer()}.
%% `Id', `Size' and `Refc' are those of `ets:info(_, binary)'.

-spec count(attr(), non_neg_integer(), options()) -> [row()].
count(Attr, N, Opts) when is_integer(N), N >= 0 ->
    #{max_rows := Most} = sonde_opts:read(Opts, #{max_rows => sonde_opts:count(10000000)}),
    Value = value(Attr, Most),
    sonde_lib:sublist_top_n_attrs(lists:append([row(Tab, Value) || Tab <- ets:all()]), N);
count(_, _, _) ->
    error(badarg).

value(memory, _) -> fun(Tab, _) -> bytes(Tab) end;
value(size, _) -> fun(_, Size) -> Size end;
value(binary_memory, Most) -> fun(Tab, _) -> memory(Tab, Most) end;
value(_, _) -> error(badarg).

%% @doc Of a table itself, without the binaries outside of it.
-spec bytes(ets:table()) -> non_neg_integer() | undefined.
bytes(Tab) ->
    case ets:info(Tab, memory) of
        undefined -> undefined;
        Words when is_integer(Words) -> Words * erlang:system_info(wordsize)
    end.

%% @doc Returns a table as a row, with its number of rows as the value; `[]' if there is no such
%% table.
-spec row(ets:table()) -> [row()].
row(Tab) -> row(Tab, fun(_, Size) -> Size end).

%% A table that is deleted meanwhile has no row.
row(Tab, Value) ->
    [Name, Owner, Type, Size] = [ets:info(Tab, Item) || Item <- [name, owner, type, size]],
    case is_integer(Size) andalso Value(Tab, Size) of
        Found when Found =:= false; Found =:= undefined; Owner =:= undefined -> [];
        Found -> [{Tab, Found, [Name, {owner, Owner}, {type, Type}, {size, Size}]}]
    end.

%% @doc Returns the bytes of the binaries to which the rows of one table refer. The VM makes one
%% tuple for each reference: a separate process takes them, so they are not garbage of the caller.
-spec memory(ets:table(), non_neg_integer()) ->
    non_neg_integer() | {too_large, pos_integer()} | undefined.
memory(Tab, Most) ->
    sonde_helper:call(fun(_) ->
                              case binaries(Tab, Most) of
                                  Binaries when is_list(Binaries) ->
                                      lists:sum([Size || {_, Size, _, _} <- Binaries]);
                                  None ->
                                      None
                              end
                      end).

%% @doc Returns the binaries to which the rows refer, each once, since several references may share
%% one. For a table with more than the given number of rows it returns that number of rows;
%% `undefined' if there is no such table.
-spec binaries(ets:table(), non_neg_integer()) ->
    [binary_row()] | {too_large, pos_integer()} | undefined.
binaries(Tab, Most) ->
    case ets:info(Tab, size) of
        undefined -> undefined;
        Size when Size > Most -> {too_large, Size};
        _ -> counted(references(Tab))
    end.

references(Tab) ->
    try ets:info(Tab, binary)
    catch error:badarg -> undefined
    end.

counted(undefined) -> undefined;
counted(References) -> counted(lists:sort(References), []).

counted([{Id, Size, Refc} | Rest], [{Id, _, _, N} | Acc]) ->
    counted(Rest, [{Id, Size, Refc, N + 1} | Acc]);
counted([{Id, Size, Refc} | Rest], Acc) ->
    counted(Rest, [{Id, Size, Refc, 1} | Acc]);
counted([], Acc) ->
    Acc.
