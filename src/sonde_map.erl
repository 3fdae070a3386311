%% @doc Labels for maps, and which of their fields are shown, in what {@link sonde_trace} prints:
%% recon's `recon_map'.
%%
%% <ul>
%% <li>Show a few fields of some maps, or none? {@link limit/3}</li>
%% <li>What was said so far? {@link list/0}</li>
%% <li>Take it back? {@link remove/1}, {@link clear/0}</li>
%% </ul>
%% What is said holds for the node, until {@link clear/0}. It is kept in the table `sonde_map',
%% which any first call but {@link is_active/0}, {@link clear/0} and {@link process_map/1} makes.
%%
%% ```
%% 1> sonde_map:limit(session, #{type => session}, [user, <<"ip">>]).
%% ok
%% 2> sonde_map:process_map(#{type => session, user => joe, token => secret}).
%% {session,#{user => joe}}
%% '''
-module(sonde_map).

-export([limit/3, remove/1, rename/2, list/0, clear/0, is_active/0, process_map/1]).

-export_type([label/0, pattern/0, limit/0]).

-type label() :: atom().
-type pattern() :: map() | fun((map()) -> boolean()).
%% A map matches if it has all the fields of the pattern, with these very values.
-type limit() :: all | none | key() | [term()].
%% What is hidden: everything, nothing, everything but these fields.
-type key() :: atom() | binary().

-define(TABLE, ?MODULE).

%% @doc From now on a map that matches `Pattern' is called `Label', and has only the fields of
%% `Limit'; `all' hides all of them, `none' hides none. If more than one pattern matches, the one
%% whose label is first in term order counts. What was said for this label before is replaced.
%%
%% A map as the pattern is compared field by field with `=:=' (`_' is a value like others); a fun
%% says of a map `true' or `false'.
%%
%% Raises `function_clause' if the label is no atom, the pattern no map and no fun of one argument,
%% or the limit is not one.
%%
%% ```
%% 1> sonde_map:limit(big, fun(M) -> map_size(M) > 100 end, all).
%% ok
%% '''
-spec limit(label(), pattern(), limit()) -> ok.
limit(Label, Pattern, Limit) when is_atom(Label), is_map(Pattern) ->
    store({Label, maps:to_list(Pattern), fields(Limit)});
limit(Label, Pattern, Limit) when is_atom(Label), is_function(Pattern, 1) ->
    store({Label, Pattern, fields(Limit)}).

fields(Hidden) when Hidden =:= all; Hidden =:= none -> Hidden;
fields(Key) when is_atom(Key); is_binary(Key) -> [Key];
fields(Keys) when length(Keys) >= 0 -> Keys.

store(Row) ->
    with(fun(Table) -> true = ets:insert(Table, Row), ok end).

%% @doc Forgets what was said for a label. `true', also if nothing was.
%%
%% ```
%% 1> sonde_map:remove(big).
%% true
%% '''
-spec remove(label()) -> true.
remove(Label) ->
    with(fun(Table) -> ets:delete(Table, Label) end).

%% @doc What was said for `Label' holds for `NewLabel', whatever was said for that one before.
%%
%% ```
%% 1> sonde_map:rename(session, 'WebSession').
%% renamed
%% '''
-spec rename(label(), NewLabel :: label()) -> renamed | missing.
rename(Label, NewLabel) ->
    with(fun(Table) ->
                 case ets:take(Table, Label) of
                     [Row] -> true = ets:insert(Table, setelement(1, Row, NewLabel)), renamed;
                     [] -> missing
                 end
         end).

%% @doc Prints what was said, in the order in which patterns are tried.
%%
%% ```
%% 1> sonde_map:list().
%%
%% map definitions and limits:
%% session: [{type,session}] -> [user,<<"ip">>]
%%
%% ok
%% '''
-spec list() -> ok.
list() ->
    Rows = with(fun ets:tab2list/1),
    io:format("~nmap definitions and limits:~n"),
    lists:foreach(fun({Label, Pattern, Limit}) ->
                          io:format("~p: ~p -> ~p~n", [Label, Pattern, Limit])
                  end, Rows),
    io:format("~n").

%% @doc Forgets everything that was said.
-spec clear() -> ok.
clear() ->
    sonde_ets_owner:drop(?TABLE).

%% @doc Whether anything is kept: whether {@link process_map/1} can be asked.
-spec is_active() -> boolean().
is_active() ->
    sonde_ets_owner:is_there(?TABLE).

%% @doc The map as it is to be shown: `{Label, Trimmed}' if a pattern matches, else the map itself.
%% Trimmed is the map with those fields alone that are shown, in any case a part of the map.
%%
%% Raises `badarg' if nothing is kept (see {@link is_active/0}), `{badmap, _}' for what is no map,
%% and what a pattern that is a fun raises; `{case_clause, _}' if it does not return a boolean.
%%
%% ```
%% 1> sonde_map:process_map(#{a => 1}).
%% #{a => 1}
%% '''
-spec process_map(map()) -> map() | {label(), map()}.
process_map(Map) ->
    shown(Map, ets:tab2list(?TABLE)).

shown(Map, []) ->
    Map;
shown(Map, [{Label, Pattern, Limit} | Rows]) ->
    case matches(Map, Pattern) of
        true -> {Label, trimmed(Map, Limit)};
        false -> shown(Map, Rows)
    end.

matches(Map, Pattern) when is_map(Map), is_function(Pattern) -> Pattern(Map);
matches(Map, Fields) when is_list(Fields) ->
    lists:all(fun({Key, Value}) -> is_map_key(Key, Map) andalso map_get(Key, Map) =:= Value end,
              Fields).

trimmed(_, all) -> #{};
trimmed(Map, none) -> Map;
trimmed(Map, Keys) -> maps:with(Keys, Map).

with(Fun) ->
    sonde_ets_owner:with(?TABLE, ordered_set, Fun).
