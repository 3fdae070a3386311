%% @private
%% The binaries outside of the heap that a term shows. No official call says whether a small binary
%% lies there, nor whether two are parts of the same one. So they are handed, many at a time, to a
%% helper that holds nothing else: its list of binaries tells. Being handed on, a binary that was
%% appended to loses its spare room.
-module(sonde_binary_probe).

-export([new/0, add/2, sum/1]).
-export_type([found/0]).

-define(REFC_LIMIT, 64).      % bytes; a larger one lies outside of the heap
-define(BATCH, 1000).
-define(OLD_SLICE, 5).        % words more of a slice that begins or ends within a byte, on OTP 25

%% `small' may lie outside; by what can be seen of them.
-record(found, {visible = 0 :: non_neg_integer(),
                large = [] :: [bitstring()],
                small = #{} :: #{Bytes :: non_neg_integer() => [bitstring(), ...]},
                waiting = 0 :: non_neg_integer(),
                whole = #{} :: #{Id :: integer() => Bytes :: non_neg_integer()}}).

-opaque found() :: #found{}.

-spec new() -> found().
new() -> #found{}.

%% @doc A binary or bit string, at one of the places where it is.
-spec add(bitstring(), found()) -> found().
add(Bits, #found{waiting = ?BATCH} = Found) ->
    add(Bits, ask(Found));
add(Bits, #found{visible = Visible, large = Large, waiting = N} = Found)
  when byte_size(Bits) > ?REFC_LIMIT ->
    Found#found{visible = Visible + byte_size(Bits), large = [Bits | Large], waiting = N + 1};
add(Bits, #found{small = Small, waiting = N} = Found) ->
    %% As many words as any reference to the outside has.
    case erts_debug:flat_size(Bits) - erts_debug:flat_size(<<0:((?REFC_LIMIT + 1) * 8)>>) of
        More when More =:= 0; More =:= ?OLD_SLICE ->
            Alike = maps:get(byte_size(Bits), Small, []),
            Found#found{small = Small#{byte_size(Bits) => [Bits | Alike]}, waiting = N + 1};
        _ ->
            Found
    end.

%% @doc The bytes that are seen, at each place; those of the whole binaries behind them, each once.
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

%% One for each that lies outside. Literals are handed on without a trace, so what is handed on is a
%% copy (of the references).
references([]) ->
    [];
references(Bins) ->
    Copies = erts_debug:copy_shared(Bins, true),
    sonde_helper:call(fun(_) -> held(Copies) end).

%% They are not garbage while it is asked.
held(Bins) ->
    {binary, Held} = process_info(self(), binary),
    true = length(Held) =< length(Bins),
    Held.
