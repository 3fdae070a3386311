%% @private
%% The node's memory by kind, also if the VM has no sums: if one of its allocators is off (`+MHe
%% false', `+Mea min'), `erlang:memory/1' raises `notsup' for every kind, although most of its parts
%% are known.
-module(sonde_memory).

-export([read/0, read/1, known/0, total/0, resident/0, virtual/0, mapped/0, off/0, unused/0, timers/0]).
-export_type([kind/0]).

-type kind() :: atom().
%% The kinds of `erlang:memory/0': `total', `processes', `processes_used', `system', `atom',
%% `atom_used', `binary', `code', `ets'.

-define(NEEDED, [sl_alloc, std_alloc, ll_alloc, eheap_alloc, ets_alloc, fix_alloc, binary_alloc,
                 driver_alloc]).
%% `fun_list' exists since OTP 29.
-define(CODE, [module_table, export_table, export_list, fun_table, fun_list, module_refs,
               loaded_code]).
-define(REPLY_MS, 1000).

%% @doc Returns the kinds that are known, in bytes: all of `erlang:memory/0', or at least `atom',
%% `atom_used' and `code'.
-spec read() -> [{kind(), non_neg_integer()}].
read() ->
    try erlang:memory()
    catch error:notsup -> known()
    end.

%% @doc Returns each of these kinds, in this order; `undefined' for a kind that is not known.
-spec read([kind()]) -> [{kind(), non_neg_integer() | undefined}].
read(Kinds) ->
    try erlang:memory(Kinds) of
        Memory when is_list(Memory) -> Memory
    catch
        error:notsup ->
            Known = known(),
            [{Kind, proplists:get_value(Kind, Known)} || Kind <- Kinds]
    end.

%% @doc Returns the size of the node, as the base of shares: its `total', otherwise the resident
%% memory reported by the operating system, otherwise what its allocators took.
-spec total() -> non_neg_integer().
total() ->
    case read([total]) of
        [{total, Total}] when is_integer(Total) -> Total;
        _ -> total(resident())
    end.

total(undefined) -> trunc(sonde_alloc:memory(allocated));
total(Resident) -> Resident.

%% @doc Returns the resident set on Linux. Other systems report it only through an external program.
-spec resident() -> non_neg_integer() | undefined.
resident() -> of_process("VmRSS").

%% @doc Returns the size of the address space on Linux, most of which is only reserved.
-spec virtual() -> non_neg_integer() | undefined.
virtual() -> of_process("VmSize").

of_process(Key) ->
    case file:read_file("/proc/self/status") of
        {ok, Status} ->
            case re:run(Status, ["^", Key, ":\\s*([0-9]+) kB"], [multiline, {capture, [1], binary}]) of
                {match, [Kilobytes]} -> binary_to_integer(Kilobytes) * 1024;
                nomatch -> undefined
            end;
        {error, _} ->
            undefined
    end.

%% @doc Returns what the VM has from the operating system, by its own count: the carriers of its allocators, and the
%% segments that were freed and that it keeps to use them again. After large heaps these may be many: each scheduler
%% keeps up to ten, of any size, and returns one about every second.
-spec mapped() -> non_neg_integer().
mapped() ->
    trunc(lists:sum([mapped(Parts) || {_, Parts} <- figures(erts_mmap)]
                    ++ [carriers(sys_alloc_carriers_size, Part)
                        || A <- erlang:system_info(alloc_util_allocators), {instance, _, Parts} <- figures(A),
                           {_, [_ | _] = Part} <- Parts])).

%% A super carrier (`+MMscs') whose memory is reserved at the start counts as a whole: what was touched once stays
%% resident, and the VM does not report how much that is. So memory of native libraries may hide behind what was never
%% touched of it. Otherwise its used areas count, at both of its ends.
mapped(Parts) ->
    [Options, Os, Carrier] = [proplists:get_value(Key, Parts, []) || Key <- [options, os, supercarrier]],
    Size = fun(Key, Of) -> proplists:get_value(Key, proplists:get_value(sizes, Of, []), 0) end,
    Size(used, Os) + case proplists:get_value(scrpm, Options, false) of
                         true -> Size(total, Carrier);
                         false -> Size(total_sa, Carrier) + Size(total_sua, Carrier)
                     end.

%% None of an allocator that is switched off.
figures(Allocator) ->
    case erlang:system_info({allocator, Allocator}) of
        [_ | _] = Figures -> Figures;
        _ -> []
    end.

%% @doc Returns the allocators that are switched off, which is why there are no sums.
-spec off() -> [atom()].
off() ->
    [A || A <- ?NEEDED, erlang:system_info({allocator_sizes, A}) =:= false].

%% @doc Returns the parts that need no sums; on any node they equal those of `erlang:memory/0'. They
%% do not include memory from malloc.
-spec known() -> [{kind(), non_neg_integer()}].
known() ->
    Areas = erlang:system_info(allocated_areas),
    {_, Space, Used} = lists:keyfind(atom_space, 1, Areas),
    {_, Table} = lists:keyfind(atom_table, 1, Areas),
    Sizes = [{A, erlang:system_info({allocator_sizes, A})}
             || A <- erlang:system_info(alloc_util_allocators)],
    [{atom, Space + Table}, {atom_used, Used + Table}]
        ++ [{binary, Bytes} || Bytes <- blocks(binary_alloc, Sizes)]
        ++ [{code, lists:sum([Bytes || {Area, Bytes} <- Areas, lists:member(Area, ?CODE)])}]
        ++ [{ets, Bytes + proplists:get_value(ets_misc, Areas, 0)}
            || Bytes <- blocks(ets_alloc, Sizes)].

%% One number, or none if the allocator is off. Its blocks may lie in carriers of another allocator.
blocks(Allocator, Sizes) ->
    [lists:sum([element(2, lists:keyfind(size, 1, Figures))
                || {_, [_ | _] = Instances} <- Sizes, {instance, _, Parts} <- Instances,
                   {_, [_ | _] = Part} <- Parts, {blocks, Types} <- Part,
                   {Type, Figures} <- Types, Type =:= Allocator])
     || {Its, [_ | _]} <- Sizes, Its =:= Allocator].

%% @doc Returns, for each allocator, the bytes of its carriers that no block took at any moment
%% since the last call of `erlang:system_info({allocator_sizes, _})', by any caller, and the bytes of its
%% carriers. The first may be too small, because the instances of an allocator have their maxima at
%% different moments. The VM keeps no maximum for the carriers' pool.
-spec unused() -> [{atom(), Unused :: non_neg_integer(), Carriers :: non_neg_integer()}].
unused() ->
    [begin
         Parts = [Part || {instance, _, All} <- Instances, {_, [_ | _] = Part} <- All],
         Carriers = lists:sum([carriers(Part) || Part <- Parts]),
         {A, max(0, Carriers - lists:sum([blocks(Part) || Part <- Parts])), Carriers}
     end || A <- erlang:system_info(alloc_util_allocators),
            [_ | _] = Instances <- [erlang:system_info({allocator_sizes, A})]].

%% @doc Returns the bytes of all timers of `erlang:send_after/3' and `start_timer/3', without their messages;
%% `undefined' if the VM does not report them. `{allocator_sizes, fix_alloc}' has the bytes by type only
%% where carriers are not shared; this request, which `erlang:memory/0' makes, always has them.
-spec timers() -> non_neg_integer() | undefined.
timers() ->
    Ref = make_ref(),
    try
        _ = erlang:system_info({memory_internal, Ref, [fix_alloc]}),
        timers(erts_internal:no_aux_work_threads() - 1, Ref, 0)
    catch
        error:_ -> undefined
    end.

%% Each thread replies with the figures of its instance, words without a sign: where one thread frees what
%% another one allocated, one of them may be below zero, and only the sum is right.
timers(0, _, Bytes) when is_integer(Bytes) ->
    <<Sum:64/signed>> = <<Bytes:64>>,
    max(0, Sum);
timers(Left, Ref, Bytes) ->
    receive
        {Ref, _, [{fix_alloc, false} | _]} ->
            undefined;
        {Ref, _, Its} ->
            timers(Left - 1, Ref, Bytes + lists:sum([timers(Parts) || {fix_alloc, _, Parts} <- Its]))
    after ?REPLY_MS ->
        undefined
    end.

timers(Parts) ->
    [Types] = [element(tuple_size(Part), Part) || Part <- Parts, element(1, Part) =:= fix_types],
    {_, _, Used} = lists:keyfind(bif_timer, 1, Types),
    Used.

carriers(Part) ->
    carriers(carriers_size, Part).

carriers(Key, Part) ->
    case lists:keyfind(Key, 1, Part) of
        false -> 0;
        Sizes -> element(2, Sizes)
    end.

blocks(Part) ->
    lists:sum([case lists:keyfind(size, 1, Figures) of
                   {_, _, Most, _} -> Most;
                   {_, Now} -> Now
               end || {blocks, Types} <- Part, {_, Figures} <- Types]).
