%% @doc Names records and their fields in what {@link sonde_trace} prints, like recon's `recon_rec'.
%%
%% <ul>
%% <li>Import the records of a module? {@link import/1}</li>
%% <li>Show a few of their fields, or none? {@link limit/3}</li>
%% <li>Which records are known? {@link list/0}, {@link get_list/0}</li>
%% <li>Remove them? {@link clear/1}, {@link clear/0}</li>
%% </ul>
%% Imported records are known on the whole node until they are cleared. They are kept in the table
%% `sonde_rec', which the first call creates, unless it is {@link is_active/0}, {@link clear/0},
%% {@link clear/1} or {@link format_tuple/1}. A definition is found by the name of the record and
%% its number of fields, so if two modules have the same record only the first import counts.
%%
%% ```
%% 1> sonde_rec:import(lobby).
%% [{imported,lobby,player,3}]
%% 2> sonde_rec:limit(player, 3, [name, score]).
%% ok
%% 3> io:put_chars([sonde_rec:format_tuple({player, "joe", 7, secret}), "\n"]).
%% #player{name="joe", score=7, more='...'}
%% '''
-module(sonde_rec).

-export([import/1, limit/3, list/0, get_list/0, clear/0, clear/1, is_active/0, format_tuple/1]).
-export([fields/2]).

-export_type([field/0, limit/0, import_result/0]).

-type field() :: atom().
-type limit() :: all | none | field() | [field()].
%% Hides everything, nothing, or everything but these fields.
-type import_result() :: {imported | overwritten, module(), Record :: atom(), arity()}
                       | {ignored, module(), Record :: atom(), arity(), Has :: module()}.

-define(TABLE, ?MODULE).

%% @doc Reads the records of modules, including those from header files, from their beam files. The
%% result for each record is `imported'; or `overwritten' if the same module had it before (its
%% limit is forgotten); or `ignored' if a record of this name and size is known from another module,
%% which comes last in the tuple. The records of the last module come first.
%%
%% Raises `{badmatch, _}', with the error of `beam_lib:chunks/2', if there is no such module or it
%% was compiled without `debug_info'; the modules before it are then imported. Raises
%% `function_clause' if a module is not an atom.
%%
%% ```
%% 1> sonde_rec:import([lobby, game]).
%% [{ignored,game,player,3,lobby},{imported,game,board,2},{imported,lobby,player,3}]
%% '''
-spec import(module() | [module()]) -> [import_result()].
import(Module) when is_atom(Module) ->
    import([Module]);
import(Modules) when length(Modules) >= 0 ->
    lists:foldl(fun(Module, Results) -> import_one(Module) ++ Results end, [], Modules).

import_one(Module) when is_atom(Module) ->
    [import_record(Module, Record) || Record <- records(Module)].

records(Module) ->
    {ok, {_, [{abstract_code, {_, Forms}}]}} = beam_lib:chunks(code:which(Module), [abstract_code]),
    [{Name, [field(F) || F <- Fields]}
     || {attribute, _, record, {Name, Fields}} <- Forms, is_atom(Name), is_list(Fields)].

field({record_field, _, {atom, _, Name}}) -> Name;
field({record_field, _, {atom, _, Name}, _Default}) -> Name;
field({typed_record_field, Field, _Type}) -> field(Field).

import_record(Module, {Name, Fields}) ->
    Arity = length(Fields),
    Row = {{Name, Arity}, Fields, Module, none},
    case with(fun(Table) -> insert(Table, Row) end) of
        {ignored, Other} -> {ignored, Module, Name, Arity, Other};
        How -> {How, Module, Name, Arity}
    end.

insert(Table, {Key, _, Module, _} = Row) ->
    case ets:insert_new(Table, Row) orelse ets:lookup(Table, Key) of
        true -> imported;
        [{_, _, Module, _}] -> true = ets:insert(Table, Row), overwritten;
        [{_, _, Other, _}] -> {ignored, Other};
        [] -> insert(Table, Row)
    end.

%% @doc From now on, shows only these fields of the record; `all' hides all of them, `none' hides
%% none. Returns `{error, record_unknown}' if no record with this name and number of fields was
%% imported.
%%
%% Raises `function_clause' if the name is not an atom, the arity is not an integer, or the limit is
%% invalid.
%%
%% ```
%% 1> sonde_rec:limit(player, 3, name).
%% ok
%% '''
-spec limit(Record :: atom(), arity(), limit()) -> ok | {error, record_unknown}.
limit(Name, Arity, Limit) when is_atom(Name), is_integer(Arity), is_atom(Limit);
                               is_atom(Name), is_integer(Arity), length(Limit) >= 0 ->
    case with(fun(Table) -> ets:update_element(Table, {Name, Arity}, {4, Limit}) end) of
        true -> ok;
        false -> {error, record_unknown}
    end.

%% @doc Prints the known records: module, record, number of fields, fields, limit.
%%
%% ```
%% 1> sonde_rec:list().
%% Module: #Name(Size){<Fields>} Limits
%% ==========
%% lobby: #player(3){name,score,token} [name,score]
%% ok
%% '''
-spec list() -> ok.
list() ->
    Rows = get_list(),
    io:format("Module: #Name(Size){<Fields>} Limits~n==========~n"),
    lists:foreach(fun({Module, Name, Fields, Limit}) ->
                          io:format("~tp: #~tp(~b){~ts} ~tp~n",
                                    [Module, Name, length(Fields),
                                     lists:join(",", [atom_to_list(F) || F <- Fields]), Limit])
                  end, Rows).

%% @doc Returns the known records, sorted.
%%
%% ```
%% 1> sonde_rec:get_list().
%% [{lobby,player,[name,score,token],[name,score]}]
%% '''
-spec get_list() -> [{module(), Record :: atom(), [field()], limit()}].
get_list() ->
    lists:sort([{Module, Name, Fields, Limit}
                || {{Name, _}, Fields, Module, Limit} <- with(fun ets:tab2list/1)]).

%% @doc Removes all records.
-spec clear() -> ok.
clear() ->
    sonde_ets_owner:drop(?TABLE).

%% @doc Removes the records of a module. The result is that of recon: for each record that was
%% known, in no order, `true' if it belonged to this module, otherwise `ok'. Raises `badarg' if
%% there is no table (see {@link is_active/0}).
-spec clear(module()) -> [true | ok].
clear(Module) ->
    [case Row of
         {Key, _, Module, _} -> ets:delete(?TABLE, Key);
         _ -> ok
     end || Row <- ets:tab2list(?TABLE)].

%% @doc Returns whether the table of records exists.
-spec is_active() -> boolean().
is_active() ->
    sonde_ets_owner:is_there(?TABLE).

%% @doc Returns the text of a tuple and its elements: `#name{field=value, ...}' for an imported
%% record, with `more' as the last field if some are hidden; `{a, b}' for another tuple that begins
%% with an atom. Any other term, also a tuple that does not begin with an atom, looks as `~p' prints
%% it. Maps in it are shown by the definitions of {@link sonde_map}. The result is an iolist:
%% characters outside of Latin-1 are escaped.
%%
%% Raises `badarg' if the argument is not a tuple.
%%
%% ```
%% 1> lists:flatten(sonde_rec:format_tuple({player, "joe", {a, b}})).
%% "{player, \"joe\", {a, b}}"
%% '''
-spec format_tuple(tuple()) -> iolist().
format_tuple(Tuple) when is_tuple(Tuple), tuple_size(Tuple) > 0, is_atom(element(1, Tuple)) ->
    [Name | Values] = tuple_to_list(Tuple),
    case definition(Name, length(Values)) of
        {Fields, Limit} ->
            ["#", io_lib:write_atom_as_latin1(Name), "{", fields(Fields, Values, Limit), "}"];
        unknown ->
            ["{", lists:join(", ", [text(V) || V <- [Name | Values]]), "}"]
    end;
format_tuple(Tuple) when is_tuple(Tuple) ->
    io_lib:format("~p", [Tuple]);
format_tuple(_) ->
    error(badarg).

%% @doc Returns the field names of an imported record, whatever its limit.
-spec fields(Record :: atom(), arity()) -> [field()] | unknown.
fields(Name, Arity) ->
    case definition(Name, Arity) of
        {Fields, _} -> Fields;
        unknown -> unknown
    end.

%% The table may disappear at any time.
definition(Name, Arity) ->
    try ets:lookup(?TABLE, {Name, Arity}) of
        [{_, Fields, _, Limit}] -> {Fields, Limit};
        [] -> unknown
    catch error:badarg -> unknown
    end.

fields(_, _, all) ->
    "";
fields(Fields, Values, none) ->
    lists:join(", ", [pair(F, V) || {F, V} <- lists:zip(Fields, Values)]);
fields(Fields, Values, Field) when is_atom(Field) ->
    fields(Fields, Values, [Field]);
fields(Fields, Values, Shown) ->
    lists:join(", ", [pair(F, V) || {F, V} <- lists:zip(Fields, Values), lists:member(F, Shown)]
               ++ [pair(more, '...')]).

pair(Field, Value) ->
    [text(Field), "=", text(Value)].

text(Term) ->
    sonde_term_text:format(true, sonde_map:is_active(), Term).

with(Fun) ->
    sonde_ets_owner:with(?TABLE, set, Fun).
