%% @private
%% Computes sizes of a term on the portable path, in the caller and without a copy. A shared part
%% counts at each place, so a term can be larger than any memory: the walk ends at a limit of words
%% or time. Its work list grows with the terms still to be visited, not with the length of a list or
%% the depth of a term.
-module(sonde_size).

-export([options/1, flat/2, bytes/2, term/2]).
-export_type([opts/0, failure/0, sizes/0]).

-type opts() :: #{max_words => non_neg_integer(), timeout => Ms :: non_neg_integer(),
                  suspend => boolean(), progress => boolean()}.
-type failure() :: {error, {heap_too_large, Words :: pos_integer(), Limit :: non_neg_integer()}}
                 | {error, timeout}.
%% Words, and bytes of off-heap binaries.
-type sizes() :: #{flat_words := non_neg_integer(),
                   shared_words := non_neg_integer(),
                   literal_words := non_neg_integer(),
                   binary_visible := non_neg_integer(),
                   binary_pinned := non_neg_integer()}.
%% The terms still to be visited; the next one is outermost.
-type work() :: done
              | {term, term(), work()}
              | {terms, [term(), ...], work()}
              | {elements, tuple(), Next :: pos_integer(), work()}
              | {pairs, {term(), term(), maps:iterator()}, work()}.

-define(MAX_MS, 16#FFFFFFFF).
-define(STEP, 100000).        % words between two checks of the clock, about a millisecond
-define(REFC_LIMIT, 64).      % bytes; a larger binary is off-heap

%% True for terms that a guard recognizes as taking no words. (Some others take none either; the
%% walk tests them.)
-define(IS_PLAIN(Term),
        (is_atom(Term) orelse Term =:= []
         orelse is_integer(Term) andalso Term < 16#4000000 andalso Term > -16#4000000)).

%% `next': the number of words at which the walk next checks its limits.
-record(walk, {counts :: words | bytes | sizes,
               limit :: non_neg_integer(),
               until :: integer(),
               next = 0 :: non_neg_integer(),
               bytes = 0 :: non_neg_integer(),
               nodes = 0 :: non_neg_integer(),  % words of the nodes of large maps
               offheap :: sonde_binary_probe:found()}).

%% @doc Reads the options of all calls on one heap. Only the first two have an effect here.
-spec options(term()) -> sonde_look:options().
options(Given) ->
    IsTime = fun(T) -> sonde_opts:is_count(T) andalso T =< ?MAX_MS end,
    sonde_opts:read(Given, sonde_look:options(#{timeout => {30000, IsTime}})).

%% @doc Returns words, equal to `erts_debug:flat_size/1'.
-spec flat(term(), opts()) -> non_neg_integer() | failure().
flat(Term, Opts) ->
    try walk(Term, start(words, Opts)) of
        {Words, _} -> Words
    catch
        throw:{?MODULE, Why} -> {error, Why}
    end.

%% @doc Bytes, as {@link sonde:byte_size/2}.
-spec bytes(term(), opts()) -> pos_integer() | failure().
bytes(Term, Opts) ->
    try walk(Term, start(bytes, Opts)) of
        {Words, #walk{bytes = Bytes}} -> erlang:system_info(wordsize) * (1 + Words) + Bytes
    catch
        throw:{?MODULE, Why} -> {error, Why}
    end.

%% @doc As {@link sonde:term_size/2}.
-spec term(term(), opts()) -> sizes() | failure().
term(Term, Opts) ->
    try sizes(Term, Opts)
    catch throw:{?MODULE, Why} -> {error, Why}
    end.

sizes(Term, Opts) ->
    {Flat, #walk{until = Until, nodes = Nodes, offheap = Found}} = walk(Term, start(sizes, Opts)),
    {Visible, Pinned} = sonde_binary_probe:sum(Found),
    Check = fun() -> check_time(Until) end,
    {Shared, Literal} = sonde_shared:words(Term, Flat, Nodes, Check),
    #{flat_words => Flat, shared_words => Shared, literal_words => Literal,
      binary_visible => Visible, binary_pinned => Pinned}.

start(Counts, Opts) ->
    #{max_words := Limit, timeout := Ms} = options(Opts),
    #walk{counts = Counts, limit = Limit, until = sonde_look:until(Ms),
          offheap = sonde_binary_probe:new()}.

%% ---- the walk: clauses are tail calls of each other, so the stack does not grow

-spec walk(term(), #walk{}) -> {non_neg_integer(), #walk{}}.
walk(Term, Walk) ->
    any(Term, done, 0, Walk).

-spec any(term(), work(), non_neg_integer(), #walk{}) -> {non_neg_integer(), #walk{}}.
any(Term, Work, Words, #walk{next = Next} = Walk) when Words >= Next ->
    any(Term, Work, Words, checked(Words, Walk));
any([_ | _] = List, Work, Words, Walk) ->
    cells(List, Work, Words, Walk);
any(Tuple, Work, Words, Walk) when is_tuple(Tuple), Tuple =/= {} ->
    N = tuple_size(Tuple),
    elements(Tuple, seek(Tuple, 1, N), N, Work, Words + 1 + N, Walk);
any(Map, Work, Words, Walk) when is_map(Map) ->
    %% If its pairs, of two words each, are too many, the nodes are not even counted.
    Pairs = 2 * map_size(Map),
    Checked = still(Words + Pairs, Walk),
    {Kind, Own} = sonde_parts:map_words(Map),
    Nodes = Own - Pairs,
    pairs(maps:next(maps:iterator(Map)), Work, Words + Nodes, nodes(Kind, Nodes, Checked));
any(Bits, Work, Words, Walk) when is_bitstring(Bits) ->
    rest(Work, Words + erts_debug:flat_size(Bits), binary(Bits, Walk));
any(Fun, Work, Words, Walk) when is_function(Fun) ->
    {Own, Held} = sonde_parts:fun_parts(Fun),
    held(Held, Work, Words + Own, Walk);
any(Leaf, Work, Words, Walk) when is_atom(Leaf); is_number(Leaf); is_pid(Leaf); is_port(Leaf);
                                  is_reference(Leaf); Leaf =:= []; Leaf =:= {} ->
    rest(Work, Words + erts_debug:flat_size(Leaf), Walk);
any(Record, Work, Words, Walk) ->
    {Own, _, _, Values} = sonde_parts:record_parts(Record),
    held(Values, Work, Words + Own, Walk).

rest(done, Words, Walk) -> {Words, still(Words, Walk)};
rest({term, Term, Work}, Words, Walk) -> any(Term, Work, Words, Walk);
rest({terms, Terms, Work}, Words, Walk) -> terms(Terms, Work, Words, Walk);
rest({elements, Tuple, I, Work}, Words, Walk) ->
    elements(Tuple, I, tuple_size(Tuple), Work, Words, Walk);
rest({pairs, Next, Work}, Words, Walk) -> pairs(Next, Work, Words, Walk).

%% A term that takes no words does not go onto the work list: so a deep term or a long list keeps it
%% short.
later(Term, Work) when ?IS_PLAIN(Term) -> Work;
later(Term, Work) -> {term, Term, Work}.

cells([_ | _] = List, Work, Words, #walk{next = Next} = Walk) when Words >= Next ->
    cells(List, Work, Words, checked(Words, Walk));
cells([H | T], Work, Words, Walk) when ?IS_PLAIN(H) ->
    cells(T, Work, Words + 2, Walk);
cells([H | T], Work, Words, Walk) ->
    any(H, later(T, Work), Words + 2, Walk);
cells([], Work, Words, Walk) ->
    rest(Work, Words, Walk);
cells(Tail, Work, Words, Walk) ->
    any(Tail, Work, Words, Walk).

%% I: the next element that may take words; 0: there is none.
elements(_Tuple, 0, _N, Work, Words, Walk) ->
    rest(Work, Words, Walk);
elements(Tuple, I, N, Work, Words, Walk) ->
    case seek(Tuple, I + 1, N) of
        0 -> any(element(I, Tuple), Work, Words, Walk);
        Next -> any(element(I, Tuple), {elements, Tuple, Next, Work}, Words, Walk)
    end.

seek(_Tuple, I, N) when I > N -> 0;
seek(Tuple, I, N) when ?IS_PLAIN(element(I, Tuple)) -> seek(Tuple, I + 1, N);
seek(_Tuple, I, _N) -> I.

nodes(small, _, Walk) -> Walk;
nodes(large, Words, #walk{nodes = Nodes} = Walk) -> Walk#walk{nodes = Nodes + Words}.

pairs(none, Work, Words, Walk) ->
    rest(Work, Words, Walk);
pairs(Next, Work, Words, #walk{next = Check} = Walk) when Words >= Check ->
    pairs(Next, Work, Words, checked(Words, Walk));
pairs({Key, Value, Rest}, Work, Words, Walk) when ?IS_PLAIN(Key), ?IS_PLAIN(Value) ->
    pairs(maps:next(Rest), Work, Words + 2, Walk);
pairs({Key, Value, Rest}, Work, Words, Walk) ->
    After = case maps:next(Rest) of
                none -> Work;
                Next -> {pairs, Next, Work}
            end,
    any(Key, later(Value, After), Words + 2, Walk).

%% `erlang_term' does not count bytes of binaries inside a fun or a record. A fun inside a fun
%% changes nothing: the recursion is one level deep.
held(Terms, Work, Words, #walk{counts = bytes} = Walk) ->
    {More, Walked} = terms(Terms, done, Words, Walk#walk{counts = words}),
    rest(Work, More, Walked#walk{counts = bytes});
held(Terms, Work, Words, Walk) ->
    terms(Terms, Work, Words, Walk).

terms([], Work, Words, Walk) -> rest(Work, Words, Walk);
terms([Term], Work, Words, Walk) -> any(Term, Work, Words, Walk);
terms([Term | Terms], Work, Words, Walk) -> any(Term, {terms, Terms, Work}, Words, Walk).

binary(Bin, #walk{counts = bytes, bytes = Bytes} = Walk)
  when is_binary(Bin), byte_size(Bin) > ?REFC_LIMIT ->
    Walk#walk{bytes = Bytes + byte_size(Bin)};
binary(Bits, #walk{counts = sizes, offheap = Found} = Walk) ->
    Walk#walk{offheap = sonde_binary_probe:add(Bits, Found)};
binary(_, Walk) ->
    Walk.

%% ---- limits

still(Words, #walk{next = Next} = Walk) when Words < Next -> Walk;
still(Words, Walk) -> checked(Words, Walk).

checked(Words, #walk{limit = Limit}) when Words > Limit ->
    throw({?MODULE, {heap_too_large, Words, Limit}});
checked(Words, #walk{limit = Limit, until = Until} = Walk) ->
    ok = check_time(Until),
    Walk#walk{next = min(Words + ?STEP, Limit + 1)}.

check_time(Until) ->
    case erlang:monotonic_time(millisecond) < Until of
        true -> ok;
        false -> throw({?MODULE, timeout})
    end.
