%% @private
%% The map of one heap that `sonde:heap/1' returns.
-module(sonde_heap_map).

-export([heap/2, kind/1]).
-export_type([heap/0, kind/0]).

-type kind() :: cons | {tuple, Arity :: non_neg_integer()} | flatmap | hashmap | bignum | float
              | {'fun', module(), Name :: atom(), arity()}
              | heap_binary | sub_binary | refc_binary | ref | external | record | other.
-type heap() ::
    #{blocks := #{young | old | stack | fragments | free := non_neg_integer()},
      reachable := non_neg_integer(), garbage := non_neg_integer(),
      literals := non_neg_integer() | undefined,
      roots := #{stack | registers | dictionary | mailbox | other := non_neg_integer()},
      histogram := [{kind(), Count :: non_neg_integer(), Bytes :: non_neg_integer()}],
      binaries := #{live | garbage | visible | pinned := non_neg_integer()},
      content => sensitive, suspended_ms => non_neg_integer()}.

%% @doc Returns {@link sonde:heap/2}. For a sensitive process functions have no name (`{'fun',
%% undefined, undefined, Terms}', with the number of terms in the environment), and `content' is
%% `sensitive'.
-spec heap(term(), term()) -> heap() | sonde_look:errors().
heap(Pid, Given) ->
    Opts = sonde_opts:read(Given, sonde_look:options(#{})),
    sonde_look:run(Pid, {account, [], 0, erlang:system_info(atom_count)}, Opts, fun answer/1).

answer(Look) ->
    {#{young := Young, old := Old, fragments := Fragments, literals := Literals,
       roots := Reached} = Sums, Binaries, Bars} = sonde_look:given(sonde_nif:look_heap(Look)),
    Reachable = lists:sum(tuple_to_list(Reached)),
    withheld(sonde_nif:look_content(Look), #{
      blocks => maps:with([young, old, stack, fragments, free], Sums),
      reachable => Reachable,
      garbage => Young + Old + Fragments - Reachable,
      literals => Literals,
      roots => maps:from_list(lists:zip([stack, registers, dictionary, mailbox, other],
                                        tuple_to_list(Reached))),
      histogram => largest_first([{kind(Kind), Count, Bytes} || {Kind, Count, Bytes} <- Bars]),
      binaries => Binaries}).

withheld(sensitive, Heap) -> Heap#{content => sensitive};
withheld(_, Heap) -> Heap.

largest_first(Bars) ->
    [{Kind, Count, Bytes}
     || {Bytes, Count, Kind} <- lists:reverse(lists:sort([{Bytes, Count, Kind}
                                                          || {Kind, Count, Bytes} <- Bars]))].

%% @doc The VM returns the name of a function for its complete identity; `undefined' if the code of
%% the function is no longer loaded.
-spec kind(term()) -> kind().
kind({'fun', Module, {Index, Uniq, OldIndex, OldUniq}, Arity}) ->
    Name = case fun_name(Module, Index, Uniq, OldIndex, OldUniq, Arity) of
               N when is_atom(N), N =/= '' -> N;
               _ -> undefined
           end,
    {'fun', Module, Name, Arity};
kind(Kind) ->
    Kind.

%% A fun without an environment, in the external term format.
fun_name(Module, Index, Uniq, OldIndex, OldUniq, Arity) ->
    Rest = [Arity, Uniq, <<Index:32, 0:32>>,
            [external(T) || T <- [Module, OldIndex, OldUniq, self()]]],
    Fun = binary_to_term(iolist_to_binary([131, $p, <<(4 + iolist_size(Rest)):32>>, Rest])),
    element(2, erlang:fun_info(Fun, name)).

external(Term) ->
    <<131, External/binary>> = term_to_binary(Term),
    External.
