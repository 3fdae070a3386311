%% @private A probe that holds one term of every kind, and what a walk over its heap must find: its
%% roots reach as many words as a collection leaves.
-module(sonde_probe_terms).

-export([hold_all/2, leave_garbage/2, small_slice/1, checks/1, resource_checks/0, at_rest/1]).

-define(RESOURCE_FIELDS, [ref_bin, magic_data, magic_free, type_module, type_name]).
-define(SETTLE_TRIES, 2000).
-define(TRIES, 20).
-define(STEPS, 100000).
-define(WORDS, 1000000000).

%% One term of each kind, and the number of each kind that collections leave. A term made at run
%% time is not a literal. The funs have different numbers of free variables, so that no wrong place of
%% that number fits both.
-spec hold_all(integer(), binary()) -> [term()].
hold_all(N, Bytes0) ->
    Bytes = binary:copy(Bytes0),
    [{N}, {N, N, N}, #{N => {N}, a => [N]}, maps:from_list([{I, N} || I <- lists:seq(1, 100)]),
     1 bsl 70 + N, -(1 bsl 130) - N, N / 7, make_ref(), atomics:new(1, []),
     fun() -> {N, Bytes} end, fun() -> N end, binary:copy(<<N:64>>), Bytes, binary:part(Bytes, 7, 100),
     part_of(binary:copy(Bytes), 150), bits_of(binary:copy(Bytes), 1333),
     lists:foldl(fun(I, Acc) -> <<Acc/binary, I:32>> end, <<N:64>>, lists:seq(1, 30))
     | elsewhere()].

%% Nothing else holds the whole binary.
part_of(Bytes, Size) -> binary:part(Bytes, 11, Size).

bits_of(Bytes, Bits) ->
    <<_:8, Part:Bits/bitstring, _/bitstring>> = Bytes,
    Part.

%% A pid, a port and a reference of another node.
elsewhere() ->
    Node = <<119, 14, "sonde@nowhere.">>,
    [binary_to_term(<<131, 88, Node/binary, 1:32, 2:32, 3:32>>),
     binary_to_term(<<131, 89, Node/binary, 1:32, 3:32>>),
     binary_to_term(<<131, 90, 3:16, Node/binary, 3:32, 1:32, 2:32, 3:32>>)].

%% A collection makes a heap binary of it (up to OTP 26), and drops the binary behind it. A small
%% slice is what was appended to and then appended to once more.
-spec small_slice(binary()) -> binary().
small_slice(<<Bytes:16/binary, _/bits>>) ->
    Slice = append(binary:copy(Bytes)),
    24 = byte_size(append(Slice)),
    Slice.

append(Bytes) -> <<Bytes/binary, 7:32>>.

-spec leave_garbage(integer(), binary()) -> ok.
leave_garbage(N, Bytes) ->
    _ = length([hold_all(N, Bytes) || _ <- lists:seq(1, 3)]),
    ok.

%% The walk reaches, while there is garbage, what a collection leaves; after the collection there is
%% no garbage.
-spec checks(#{atom() => pid()}) -> [{atom(), fun(() -> [{term(), term()}])}].
checks(Pids) ->
    [{garbage, fun() -> [garbage(maps:get(things, Pids))] end},
     {things, fun() -> [left(Probe, ?TRIES) || Probe <- lists:sort(maps:to_list(Pids))]
                           ++ [kinds(maps:get(things, Pids))] end}].

garbage(Pid) ->
    {young, Before} = young(Pid),
    Reached = reached(Pid, all),
    true = erlang:garbage_collect(Pid),
    case young(Pid) of
        {young, Reached} when Before > Reached -> {Reached, Reached};
        {young, Left} ->
            {{reached, Left, of_more_than, Left}, {reached, Reached, of_more_than, Before}}
    end.

left({Name, Pid} = Probe, Tries) ->
    true = erlang:garbage_collect(Pid),
    {young, Left} = young(Pid),
    case reached(Pid, heap) of
        Left -> {Left, Left};
        Other when Tries > 0, is_integer(Other) -> erlang:yield(), left(Probe, Tries - 1);
        Reached -> {{Name, Left}, {Name, Reached}}
    end.

young(Pid) ->
    {_, Info} = process_info(Pid, garbage_collection_info),
    {young, proplists:get_value(heap_size, Info) + proplists:get_value(old_heap_size, Info)}.

%% Words, including those that wait beside the heap for the next collection; after a collection only
%% messages wait there, and all of them are reached.
reached(Pid, Where) ->
    case {look(Pid, []), Where} of
        {{#{roots := Roots}, _, _}, all} ->
            lists:sum(tuple_to_list(Roots)) div 8;
        {{#{roots := Roots, fragments := Fragments}, _, _}, heap} ->
            (lists:sum(tuple_to_list(Roots)) - Fragments) div 8;
        {Why, _} ->
            Why
    end.

%% On a busy node some process always asks the probe something: it rests only for a moment.
-spec at_rest(fun(() -> Found)) -> Found.
at_rest(Read) -> at_rest(Read, ?SETTLE_TRIES).

at_rest(Read, Tries) ->
    case Read() of
        Not when Tries > 0, Not =:= busy orelse Not =:= torn orelse Not =:= no_memory ->
            erlang:yield(),
            at_rest(Read, Tries - 1);
        Found ->
            Found
    end.

look(Pid, Want) -> at_rest(fun() -> look_once(Pid, Want) end).

look_once(Pid, Want) ->
    case sonde_nif:look_new(mark, Pid, Want, ?WORDS, 0, 0) of
        Look when is_reference(Look) -> step(Look, ?STEPS);
        Why -> Why
    end.

step(Look, Steps) ->
    case sonde_nif:look_step(Look) of
        done -> sonde_nif:look_heap(Look);
        more when Steps > 0 -> step(Look, Steps - 1);
        Why -> Why
    end.

%% Bytes, after a collection, which up to OTP 26 makes heap binaries of the smallest slices.
visible() ->
    Whole = 300 + 100 + 150 + (1333 + 7) div 8 + 8 + 30 * 4,
    case list_to_integer(erlang:system_info(otp_release)) of
        Otp when Otp =< 26 -> Whole;
        _ -> Whole + 20
    end.

kinds(Pid) ->
    %% a group leader of another node is on the heap, too
    {group_leader, Leader} = process_info(Pid, group_leader),
    Foreign = length([Leader || node(Leader) =/= node()]),
    Expected =
        [{bignum, 2}, {external, 3 + Foreign}, {flatmap, 1}, {float, 1}, {hashmap, 1}, {ref, 2}],
    case look(Pid, [histogram, visible]) of
        {_, #{visible := Visible}, Bars} ->
            {{Expected, visible()},
             {lists:sort([{K, N} || {K, N, _} <- Bars, lists:keymember(K, 1, Expected)]), Visible}};
        Why ->
            {Expected, Why}
    end.

%% ---- what a resource of ours shows of how the VM keeps those of all native libraries

%% Each looks once more: what one finds is kept for the scans.
-spec resource_checks() -> [{atom(), fun(() -> [{term(), term()}])}].
resource_checks() ->
    [{Field, fun() -> [{true, proplists:get_value(Field, shown(?TRIES))}] end} || Field <- ?RESOURCE_FIELDS].

%% Which of the references of this process is that of the probe is known by what was there before.
shown(Tries) ->
    Before = magic_refs(),
    Probe = sonde_nif:probe_resource(64 + rand:uniform(1000)),
    case magic_refs() -- Before of
        [{Id, _, _}] -> shown_by(Probe, Id);
        _ when Tries > 1 -> shown(Tries - 1);
        _ -> [{Field, unknown} || Field <- ?RESOURCE_FIELDS]
    end.

shown_by(Probe, Id) ->
    Larger = sonde_nif:probe_resource(2000 + rand:uniform(1000)),
    sonde_nif:calibrate_resources(Probe, Larger, atomics:new(1, []), Id, sonde_nif).

magic_refs() ->
    {magic_ref, Refs} = process_info(self(), magic_ref),
    Refs.
