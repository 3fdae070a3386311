%% @private
%% Sizes of terms, and of what the roots of a process hold. The native path copies nothing: it
%% measures a small term inside the caller's native call; for a larger one the caller waits with the
%% term on its stack, where a helper reads it.
-module(sonde_term).

-export([flat_size/2, byte_size/2, term_size/2, root_size/3]).
-export([hold/2, keep/1]).
-export_type([root/0]).

-type root() :: stack | dictionary | messages | all.

-spec flat_size(term(), term()) -> non_neg_integer() | sonde_size:failure().
flat_size(Term, Given) ->
    Opts = sonde_size:options(Given),
    sized(Term, [slot], Opts, fun(Sums) -> element(1, Sums) end, fun sonde_size:flat/2).

-spec byte_size(term(), term()) -> pos_integer() | sonde_size:failure().
byte_size(Term, Given) ->
    Opts = sonde_size:options(Given),
    sized(Term, [slot, bytes], Opts,
          fun(Sums) -> erlang:system_info(wordsize) * (1 + element(1, Sums)) + element(2, Sums) end,
          fun sonde_size:bytes/2).

-spec term_size(term(), term()) -> sonde_size:sizes() | sonde_size:failure().
term_size(Term, Given) ->
    Opts = sonde_size:options(Given),
    case sonde_vm:side() of
        native ->
            quick(more, Term, [slot, binaries, shared], Opts, fun sizes/1, fun sonde_size:term/2);
        {portable, _} -> sonde_size:term(Term, Opts)
    end.

sizes({Flat, _, Visible, Pinned, Shared, Literal}) ->
    #{flat_words => Flat, shared_words => Shared, literal_words => Literal,
      binary_visible => Visible, binary_pinned => Pinned}.

%% @doc See {@link sonde:flat_size/3}.
-spec root_size(pid(), root(), term()) -> non_neg_integer() | sonde_look:errors().
root_size(Pid, Root, Given) ->
    Opts = sonde_opts:read(Given, sonde_look:options(#{})),
    sonde_look:run(Pid, {flat, roots(Root), 0, 0}, Opts,
                   fun(Look) -> element(1, sonde_nif:look_flat(Look)) end).

roots(all) -> [stack, registers, dictionary, messages];
roots(Root) when Root =:= stack; Root =:= dictionary; Root =:= messages -> [Root];
roots(_) -> error(badarg).

%% ---- a term of the caller

sized(Term, Want, Opts, Make, Portable) ->
    Quick = fun() ->
                    case sonde_vm:side() of
                        native -> sonde_nif:flat_quick(Term);
                        {portable, _} -> portable
                    end
            end,
    case sonde_retry:run(Quick) of
        portable -> Portable(Term, Opts);
        Sums -> quick(Sums, Term, Want, Opts, Make, Portable)
    end.

quick(more, Term, Want, Opts, Make, Portable) ->
    case held(Term, Want, Opts) of
        Sums when tuple_size(Sums) =:= 6 -> Make(Sums);
        {error, {heap_too_large, _, _}} = Error -> Error;
        {error, timeout} = Error -> Error;
        %% the caller cannot be read, for example because it gets messages all the time
        _ -> Portable(Term, Opts)
    end;
quick({Words, _}, _, _, #{max_words := Max}, _, _) when Words > Max ->
    {error, {heap_too_large, Words, Max}};
quick(Sums, _, _, _, Make, _) ->
    Make(Sums).

%% The arguments of the helper do not refer to the term, or the spawn would copy it. The helper
%% finds it on the stack of the caller by a number.
held(Term, Want, Opts) ->
    Me = self(),
    Id = erlang:phash2(make_ref()),
    Look = fun(Caller) ->
                   sonde_look:run(Me, {flat, Want, 0, Id},
                                  Opts#{suspend := false, caller => Caller},
                                  fun sonde_nif:look_flat/1)
           end,
    ?MODULE:hold({Id, Term}, Look).

%% Both are external calls, so that the compiler does not see that the pair is never used.
-spec hold({non_neg_integer(), term()}, fun((reference()) -> Answer)) -> Answer.
hold(Pair, Look) ->
    Answer = sonde_helper:call(Look),
    ok = ?MODULE:keep(Pair),
    Answer.

-spec keep({non_neg_integer(), term()}) -> ok.
keep({_, _}) -> ok.
