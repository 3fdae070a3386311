%% @private
%% Rows for people: they show the first function of a `proc_lib' process (`dets:init/2'), where the
%% VM reports `proc_lib:init_p/5'. Rows that calls of recon return keep recon's value.
-module(sonde_origin).

-export([attrs/2, rows/1, shown/2]).

%% The largest size in bytes of a process with a dictionary that may be copied: up to OTP 26.1 a
%% process cannot be asked for one key of it.
-define(SMALL, 1000000).
%% People do not read more rows, and each row costs a signal to its process.
-define(MOST, 1000).

%% What this process, which began with that call, began with for a reader.
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

%% @doc Replaces the initial call among the attributes of a row.
-spec attrs(pid(), Attrs) -> Attrs when Attrs :: [term()].
attrs(Pid, Attrs) ->
    case lists:keyfind(initial_call, 1, Attrs) of
        {_, Call} -> lists:keyreplace(initial_call, 1, Attrs, {initial_call, call(Pid, Call)});
        false -> Attrs
    end.

%% @doc Replaces the initial calls in the rows of any result; rows of other nodes stay as they are.
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

%% In a row that is not sonde's, the third element may be no list, or an improper one.
row({Pid, Value, Attrs}) when is_pid(Pid), length(Attrs) > 0 -> {Pid, Value, attrs(Pid, Attrs)};
row(Row) -> Row.

%% @doc Returns the result of a call with these arguments, for the command.
-spec shown([term()], term()) -> term().
shown([Pid | _], Info) when is_pid(Pid) -> info(Pid, Info);
shown(_, Result) -> rows(Result).

info(Pid, {initial_call, Call}) -> {initial_call, call(Pid, Call)};
info(Pid, {location, Info}) -> {location, info(Pid, Info)};
info(Pid, [Item | Info]) -> [info(Pid, Item) | info(Pid, Info)];
info(_, Other) -> Other.
