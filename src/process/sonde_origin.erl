%% @private
%% Rows as people read them: with what a process of `proc_lib' began with (`dets:init/2'), where the
%% VM knows only that it was `proc_lib:init_p/5'. Rows that calls return keep what recon has there.
-module(sonde_origin).

-export([attrs/2, rows/1, shown/2]).

%% Bytes of a process whose dictionary may be copied: up to OTP 26.1 a process cannot be asked for
%% one key of it.
-define(SMALL, 1000000).
%% Nobody reads more rows, and each process is sent a signal.
-define(MOST, 1000).

%% What this process, which began with that call, began with for those who read it.
call(Pid, {proc_lib, _, _} = Call) when node(Pid) =:= node() ->
    Small = case sonde_every_process:one(Pid, [memory]) of
                {ok, [Memory]} -> Memory < ?SMALL;
                undefined -> false
            end,
    case sonde_group:initial_call(Pid, Small) of
        {_, _, _} = Known -> Known;
        _ -> Call
    end;
call(_, Call) ->
    Call.

%% @doc The same among the attributes of a row.
-spec attrs(pid(), Attrs) -> Attrs when Attrs :: [term()].
attrs(Pid, Attrs) ->
    case lists:keyfind(initial_call, 1, Attrs) of
        {_, Call} -> lists:keyreplace(initial_call, 1, Attrs, {initial_call, call(Pid, Call)});
        false -> Attrs
    end.

%% @doc Any result, with the rows in it that there are; those of other nodes as they are.
-spec rows(term()) -> term().
rows(#{rows := Rows} = Report) -> Report#{rows := rows(Rows)};
rows({Rows, #{left_out := _} = Report}) -> {rows(Rows), Report};
rows({Pid, _, _} = Row) when is_pid(Pid) -> row(Row);
rows(Result) -> rows(Result, ?MOST).

rows([{Attr, [{Pid, _, _} | _] = Rows} | Rest], Left) when Left > 0, is_pid(Pid) ->
    [{Attr, rows(Rows, Left)} | rows(Rest, Left)];
rows([Row | Rest], Left) when Left > 0 ->
    [row(Row) | rows(Rest, Left - 1)];
rows(Rest, _) ->
    Rest.

%% Somebody else's third element need be no list, nor proper.
row({Pid, Value, Attrs}) when is_pid(Pid), length(Attrs) > 0 -> {Pid, Value, attrs(Pid, Attrs)};
row(Row) -> Row.

%% @doc What a call with these arguments returned, for the command.
-spec shown([term()], term()) -> term().
shown([Pid | _], Info) when is_pid(Pid) -> info(Pid, Info);
shown(_, Result) -> rows(Result).

info(Pid, {initial_call, Call}) -> {initial_call, call(Pid, Call)};
info(Pid, {location, Info}) -> {location, info(Pid, Info)};
info(Pid, [Item | Info]) -> [info(Pid, Item) | info(Pid, Info)];
info(_, Other) -> Other.
