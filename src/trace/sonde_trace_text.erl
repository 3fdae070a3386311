%% @private
%% Trace messages as text, letter by letter as recon prints them.
-module(sonde_trace_text).

-export([message/1]).

%% Messages with one term.
-define(OF_ONE,
        #{'receive' => "< ~p", exit => "EXIT ~p", link => "link(~p)", unlink => "unlink(~p)",
          getting_linked => "getting linked by ~p", getting_unlinked => "getting unlinked by ~p",
          register => "registered as ~p", unregister => "no longer registered as ~p"}).

-spec message(tuple()) -> iolist().
message(Message) ->
    {Pid, {Hour, Min, Sec}, Type, Info} = parts(tuple_to_list(Message)),
    {Format, Args} = what(Type, Info),
    % One format for all of it: a long term is broken at the column where it begins. The result is a
    % list of one element, so that code that uses it as a format finds no ~ in it.
    [io_lib:format("~n~p:~p:~9.6.0f ~p " ++ Format ++ "~n", [Hour, Min, Sec, Pid | Args])].

parts(List) ->
    case List of
        [trace, Pid, Type | Info] ->
            {Pid, clock(os:timestamp()), Type, Info};
        [trace_ts, Pid, Type | Rest] ->
            {Info, [Time]} = lists:split(length(Rest) - 1, Rest),
            {Pid, clock(Time), Type, Info}
    end.

clock({_, _, Micro} = Time) ->
    {_, {Hour, Min, Sec}} = calendar:now_to_local_time(Time),
    {Hour, Min, Sec + Micro / 1000000}.

what(send, [Message, To]) ->
    {" > ~p: ~p", [To, Message]};
what(send_to_non_existing_process, [Message, To]) ->
    {" > (non_existent) ~p: ~p", [To, Message]};
what(call, [{M, F, Args}]) ->
    {"~p:~p~ts", [M, F, args(Args)]};
what(call, [{M, F, Args}, Said]) ->
    {"~p:~p~ts ~ts", [M, F, args(Args), sonde_term_text:format(Said)]};
what(return_from, [{M, F, Arity}, Value]) ->
    {"~p:~p/~p --> ~ts", [M, F, Arity, sonde_term_text:format(Value)]};
what(return_to, [{M, F, Arity}]) ->
    {" '--> ~p:~p/~p", [M, F, Arity]};
what(exception_from, [{M, F, Arity}, {Class, Why}]) ->
    {"~p:~p/~p ~p ~p", [M, F, Arity, Class, Why]};
what(spawn, [Pid, {M, F, Args}]) ->
    {"spawned ~p as ~p:~p~ts", [Pid, M, F, args(Args)]};
what(in, [{M, F, Arity}]) ->
    {"scheduled in for ~p:~p/~p", [M, F, Arity]};
what(in, [0]) ->
    {"scheduled in", []};
what(out, [{M, F, Arity}]) ->
    {"scheduled out from ~p:~p/~p", [M, F, Arity]};
what(out, [0]) ->
    {"scheduled out", []};
what(gc_start, [Sizes]) ->
    {"gc beginning -- heap ~p bytes", [heap(Sizes)]};
what(gc_end, [Sizes]) ->
    {"gc finished -- heap ~p bytes", [heap(Sizes)]};
what(Type, Info) ->
    case ?OF_ONE of
        #{Type := Format} when length(Info) =:= 1 -> {Format, Info};
        #{} -> {"unknown trace type ~p -- ~p", [Type, Info]}
    end.

args(Arity) when is_integer(Arity) -> [$/, integer_to_list(Arity)];
args(Args) when is_list(Args) -> [$(, lists:join(", ", [sonde_term_text:format(A) || A <- Args]), $)].

heap(Sizes) ->
    lists:sum([proplists:get_value(S, Sizes, 0) || S <- [old_heap_size, heap_size, mbuf_size]]).
