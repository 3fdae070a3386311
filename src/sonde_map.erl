%% @doc Labels maps, and selects which of their fields {@link sonde_trace} prints, like recon's
%% `recon_map'.
%%
%% <ul>
%% <li>Show a few fields of some maps, or none? {@link limit/3}</li>
%% <li>Which definitions are there? {@link list/0}</li>
%% <li>Remove them? {@link remove/1}, {@link clear/0}</li>
%% </ul>
%% Definitions are valid on the whole node until {@link clear/0}. They are kept in the table
%% `sonde_map', which the first call creates, unless it is {@link is_active/0}, {@link clear/0} or
%% {@link process_map/1}.
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
%% A map matches if it has all fields of the pattern, with the same values.
-type limit() :: all | none | key() | [term()].
%% Hides everything, nothing, or everything but these fields.
-type key() :: atom() | binary().

-define(TABLE, ?MODULE).

%% @doc From now on, shows a map that matches `Pattern' under the name `Label', with only the fields
%% of `Limit'; `all' hides all fields, `none' hides none. If more than one pattern matches, the
%% label that is first in term order counts. Replaces an earlier definition of this label.
%%
%% A pattern that is a map is compared field by field with `=:=' (`_' is an ordinary value); a
%% pattern that is a fun takes a map and returns `true' or `false'.
%%
%% Raises `function_clause' if the label is not an atom, the pattern is neither a map nor a fun of
%% one argument, or the limit is invalid.
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

%% @doc Removes the definition of a label. Returns `true', also if there was none.
%%
%% ```
%% 1> sonde_map:remove(big).
%% true
%% '''
-spec remove(label()) -> true.
remove(Label) ->
    with(fun(Table) -> ets:delete(Table, Label) end).

%% @doc Moves the definition of `Label' to `NewLabel', and replaces any definition of `NewLabel'.
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

%% @doc Prints the definitions, in the order in which patterns are tried.
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

%% @doc Removes all definitions.
-spec clear() -> ok.
clear() ->
    sonde_ets_owner:drop(?TABLE).

%% @doc Returns whether the table of definitions exists, so whether {@link process_map/1} can be
%% called.
-spec is_active() -> boolean().
is_active() ->
    sonde_ets_owner:is_there(?TABLE).

%% @doc Returns the map as it is shown: `{Label, Trimmed}' if a pattern matches, otherwise the map
%% itself. `Trimmed' is the map with only the fields that are shown.
%%
%% Raises `badarg' if there is no table (see {@link is_active/0}), `{badmap, _}' if the argument is
%% not a map, the exception of a pattern that is a fun, and `{case_clause, _}' if such a fun does
%% not return a boolean.
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
