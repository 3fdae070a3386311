%% @private
%% What Erlang code can see of the parts of a term: the words that a map, a fun or a native record
%% takes for itself, and the terms that it holds. `erts_debug:flat_size/1' of the whole term does
%% not yield, and never ends if terms are shared often enough; so this module calls it only for
%% terms that cannot be large.
-module(sonde_parts).

-export([is_boxed/1, map_words/1, fun_parts/1, has_fun_ref/0, record_parts/1]).
-export([closure/1]).

%% @doc Returns whether the term takes words of its own. An atom, a small integer, a pid of this
%% node, `[]' and `{}' take none.
-spec is_boxed(term()) -> boolean().
is_boxed(Term) when is_atom(Term) -> false;
is_boxed(Term) when is_integer(Term); is_pid(Term); is_port(Term) ->
    erts_debug:flat_size(Term) > 0;
is_boxed(Term) -> Term =/= [] andalso Term =/= {}.

%% @doc Returns the words of a map without its keys and values; those of a small map include the
%% tuple of its keys. For a large map `map_info/1' counts the nodes: each has one word more than it
%% has children, the first one two more; each child is a node or a pair of two words.
-spec map_words(map()) -> {small | large, pos_integer()}.
map_words(Map) ->
    try erts_debug:map_info(Map) of
        Info -> {large, 2 * node_count(Info) + 3 * map_size(Map)}
    catch
        error:badarg when Map =:= #{} -> {small, 3};
        error:badarg -> {small, 3 + map_size(Map) + 1 + map_size(Map)}
    end.

node_count(Info) ->
    lists:sum([N || {Kind, N, _} <- Info, Kind =/= leafs]).

%% @doc Returns the words of a fun alone, and the terms that it holds: on OTP 25, also the process
%% that made it.
-spec fun_parts(function()) -> {pos_integer(), [term()]}.
fun_parts(Fun) ->
    case erlang:fun_info(Fun, type) of
        {type, external} ->
            {erts_debug:flat_size(Fun), []};
        {type, local} ->
            {env, Env} = erlang:fun_info(Fun, env),
            {pid, Maker} = erlang:fun_info(Fun, pid),
            {erts_debug:flat_size(fun() -> ok end) + length(Env), [Maker | Env]}
    end.

%% @doc Returns whether a fun has a part that may be a literal of its module, as on OTP 27.
-spec has_fun_ref() -> boolean().
has_fun_ref() ->
    %% An external call, so that the compiler does not see what the fun holds.
    Fun = ?MODULE:closure(1),
    erts_debug:flat_size(Fun) > erts_debug:size_shared(Fun).

-spec closure(Held) -> fun(() -> Held).
closure(Held) -> fun() -> Held end.

%% @doc Returns the words of a native record (OTP 29) alone, how many of them are a literal (its
%% definition), an identity of this literal, and the values.
-spec record_parts(term()) -> {pos_integer(), non_neg_integer(), term(), [term()]}.
record_parts(Record) ->
    [Module, Name, Fields] = [records(Function, [Record])
                              || Function <- [get_module, get_name, get_field_names]],
    Bare = records(update, [Record, Module, Name, maps:from_keys(Fields, 0)]),
    Words = erts_debug:flat_size(Bare),
    {Words, Words - erts_debug:size_shared(Bare), {record, Module, Name, Fields},
     [records(get, [Field, Record]) || Field <- Fields]}.

%% Releases without native records do not have this module.
records(Function, Args) ->
    apply(records, Function, Args).
