%% @private
%% The options of a watcher: their defaults and valid values.
-module(sonde_watch_opts).

-export([read/1]).
-export_type([given/0, opts/0, remedy/0]).

-type remedy() :: none | {collect, #{garbage_bytes := non_neg_integer(),
                                     per_minute := pos_integer()}}.
-type given() :: #{atom() => term()} | [{atom(), term()}].
-type opts() :: #{interval := pos_integer(), history := non_neg_integer(), top := non_neg_integer(),
                  min_bytes := non_neg_integer(), budget := number(),
                  callback := none | {module(), atom()}, remedy := remedy(), name := atom()}.

%% @doc Adds the defaults, or returns the first option that is not valid.
-spec read(term()) -> {ok, opts()} | {error, {badarg, term()}}.
read(Given) when is_map(Given) ->
    case [Bad || {Key, Value} = Bad <- maps:to_list(Given), not is_good(Key, Value)] of
        [] -> {ok, maps:merge(defaults(), Given)};
        [Bad | _] -> {error, {badarg, Bad}}
    end;
read(Given) when is_list(Given) ->
    try proplists:to_map(Given) of
        Map when map_size(Map) =:= length(Given) -> read(Map);
        _ -> {error, {badarg, Given}}
    catch
        error:_ -> {error, {badarg, Given}}
    end;
read(Given) ->
    {error, {badarg, Given}}.

defaults() ->
    #{interval => 30000, history => 120, top => 20, min_bytes => 10000000, budget => 1,
      callback => none, remedy => none, name => sonde_watch}.

is_good(interval, Ms) -> is_integer(Ms) andalso Ms > 0 andalso Ms =< 16#FFFFFFFF;
is_good(Key, N) when Key =:= history; Key =:= top; Key =:= min_bytes -> sonde_opts:is_count(N);
is_good(budget, Percent) -> is_number(Percent) andalso Percent > 0 andalso Percent =< 100;
is_good(callback, none) -> true;
is_good(callback, {M, F}) ->
    is_atom(M) andalso is_atom(F) andalso code:ensure_loaded(M) =:= {module, M}
        andalso erlang:function_exported(M, F, 1);
is_good(remedy, none) -> true;
is_good(remedy, {collect, #{garbage_bytes := Bytes, per_minute := N} = How}) ->
    map_size(How) =:= 2 andalso sonde_opts:is_count(Bytes) andalso sonde_opts:is_count(N) andalso N > 0;
is_good(name, Name) -> is_atom(Name);
is_good(_, _) -> false.
