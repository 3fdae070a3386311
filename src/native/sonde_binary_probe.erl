%% @private The off-heap binaries that a term shows. No official call reports whether a small binary
%% is off-heap, or whether two are parts of the same one. So this module sends them, many at a time,
%% to a helper that holds nothing else, and reads the helper's list of binaries. A binary that was
%% appended to loses its spare room when it is sent.
-module(sonde_binary_probe).

-export([new/0, add/2, sum/1]).
-export_type([found/0]).

-define(REFC_LIMIT, 64).      % bytes; a larger one is off-heap
-define(BATCH, 1000).
-define(OLD_SLICE, 5).        % extra words of a slice that begins or ends within a byte, on OTP 25

%% `small' may be off-heap; keyed by their visible bytes.
-record(found, {visible = 0 :: non_neg_integer(),
                large = [] :: [bitstring()],
                small = #{} :: #{Bytes :: non_neg_integer() => [bitstring(), ...]},
                waiting = 0 :: non_neg_integer(),
                whole = #{} :: #{Id :: integer() => Bytes :: non_neg_integer()}}).

-opaque found() :: #found{}.

-spec new() -> found().
new() -> #found{}.

%% @doc Adds a binary or bit string, at one of its places.
-spec add(bitstring(), found()) -> found().
add(Bits, #found{waiting = ?BATCH} = Found) ->
    add(Bits, ask(Found));
add(Bits, #found{visible = Visible, large = Large, waiting = N} = Found)
  when byte_size(Bits) > ?REFC_LIMIT ->
    Found#found{visible = Visible + byte_size(Bits), large = [Bits | Large], waiting = N + 1};
add(Bits, #found{small = Small, waiting = N} = Found) ->
    %% The number of words of every off-heap reference.
    case erts_debug:flat_size(Bits) - erts_debug:flat_size(<<0:((?REFC_LIMIT + 1) * 8)>>) of
        More when More =:= 0; More =:= ?OLD_SLICE ->
            Alike = maps:get(byte_size(Bits), Small, []),
            Found#found{small = Small#{byte_size(Bits) => [Bits | Alike]}, waiting = N + 1};
        _ ->
            Found
    end.

%% @doc Returns the visible bytes, counted at each place, and the bytes of the whole binaries behind
%% them, each counted once.
-spec sum(found()) -> {Visible :: non_neg_integer(), Pinned :: non_neg_integer()}.
sum(Found) ->
    #found{visible = Visible, whole = Whole} = ask(Found),
    {Visible, lists:sum(maps:values(Whole))}.

ask(#found{visible = Visible, large = Large, small = Small, whole = Whole}) ->
    maps:fold(fun(Bytes, Alike, #found{visible = V, whole = W}) ->
                      Outside = references(Alike),
                      #found{visible = V + Bytes * length(Outside), whole = sizes(Outside, W)}
              end,
              #found{visible = Visible, whole = sizes(references(Large), Whole)}, Small).

sizes(Outside, Whole) ->
    lists:foldl(fun({Id, Size, _}, Sizes) -> Sizes#{Id => Size} end, Whole, Outside).

%% One for each off-heap binary. A literal is sent without a reference in the receiver, so what is
%% sent is a copy (of the references).
references([]) ->
    [];
references(Bins) ->
    Copies = erts_debug:copy_shared(Bins, true),
    sonde_helper:call(fun(_) -> held(Copies) end).

%% Keeps them alive during the question.
held(Bins) ->
    {binary, Held} = process_info(self(), binary),
    true = length(Held) =< length(Bins),
    Held.
