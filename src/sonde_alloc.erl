%% @doc Shows what the emulator's memory allocators hold, how full their carriers are, and where
%% memory is lost between them.
%%
%% The emulator asks the operating system for <em>carriers</em> and cuts them into <em>blocks</em>.
%% A carrier is a single-block carrier (`sbcs', by default for a block of 512 kB and more) or a
%% multi-block carrier (`mbcs'). Each scheduler has an instance of each allocator; instance 0 serves
%% all other threads. `erlang:memory/0' counts blocks; the operating system counts carriers. A node
%% with `allocated' far above `used' is fragmented, or has just freed much memory.
%%
%% <h4>What do you want to know?</h4>
%% <ul>
%% <li>How much of the memory that the node took is in use? {@link memory/1}, with `usage',
%%     `unused', `allocated_types'</li>
%% <li>Which allocator loses it? {@link fragmentation/1} now and at the `max'</li>
%% <li>Is the limit between single-block and multi-block carriers (`+M<S>sbct') well set? {@link
%%     sbcs_to_mbcs/1}, {@link average_block_sizes/1}</li>
%% <li>Is the segment cache effective? {@link cache_hit_rates/0}</li>
%% <li>What are all the figures? {@link allocators/0}, {@link allocators/1}</li>
%% </ul>
%%
%% <h4>Which allocators</h4>
%% The calls sum and compare `temp_alloc', `eheap_alloc', `binary_alloc', `ets_alloc',
%% `driver_alloc', `sl_alloc', `ll_alloc', `fix_alloc' and `std_alloc'. Only {@link allocators/0}
%% and {@link allocators/1} show `literal_alloc', `exec_alloc', `sys_alloc', `mseg_alloc' and
%% `erts_mmap'. An allocator that is switched off (`+M<S>e false', `+Mea min') has no figures: its
%% memory comes from `malloc'.
%%
%% <h4>Now, and the maximum</h4>
%% `current' is the present figure, including carriers that were abandoned to a pool. `max' is the
%% largest figure since the node started, for each instance; since instances reach their maxima at
%% different times, a sum of them may be larger than the node ever was. Any other keyword raises
%% `function_clause'.
%%
%% <h4>Snapshots</h4>
%% {@link snapshot/0} keeps all figures in the caller's process dictionary; every call except {@link
%% allocators/0} then answers from them, in this process, until {@link snapshot_clear/0}. {@link
%% snapshot_save/1} and {@link snapshot_load/1} move them to another node. They are compatible with
%% recon's snapshots, in files and in the process dictionary.
%%
%% <h4>What it costs the node</h4>
%% The sources are `erlang:system_info({allocator_sizes, _})' for sizes, and `({allocator, _})' where
%% blocks are counted. Each call sends one request to all schedulers, for what it needs, and waits
%% until each of them has answered: about ten microseconds on an idle node. A scheduler that runs a
%% long native call answers after that call. Nothing is stopped.
-module(sonde_alloc).

-export([memory/1, memory/2, fragmentation/1, cache_hit_rates/0,
         average_block_sizes/1, sbcs_to_mbcs/1, allocators/0, allocators/1]).
-export([snapshot/0, snapshot_clear/0, snapshot_print/0, snapshot_get/0,
         snapshot_save/1, snapshot_load/1]).
-export([set_unit/1]).

-export_type([allocator/0, instance/0, moment/0, size/0, snapshot/0]).

-type allocator() :: temp_alloc | eheap_alloc | binary_alloc | ets_alloc | driver_alloc
                   | sl_alloc | ll_alloc | fix_alloc | std_alloc.
-type instance() :: non_neg_integer().
%% 0 for threads that are not schedulers, otherwise the number of the scheduler.
-type moment() :: current | max.
-type size() :: integer() | float().
%% Bytes; a float if {@link set_unit/1} has set another unit.
-type props() :: [tuple()].
-type snapshot() :: {Memory :: [{atom(), non_neg_integer()}], [{{atom(), instance()}, props()}]}.
%% `erlang:memory/0' and {@link allocators/0}.

-type container() :: mbcs | sbcs.

%% recon's key, so that both libraries find each other's snapshots.
-define(SNAPSHOT, recon_alloc_snapshot).
-define(UNIT, recon_alloc_unit).

-define(ALLOCATORS, [temp_alloc, eheap_alloc, binary_alloc, ets_alloc, driver_alloc,
                     sl_alloc, ll_alloc, fix_alloc, std_alloc]).
%% {Name, Current, MaxSinceTheLastLook, Max}
-define(CURRENT, 2).
-define(MAX, 4).
-define(GIGA, 1000000000). % counters of calls are {Name, Giga, Rest}

-define(IS_CONTAINER(Kind), (Kind =:= mbcs orelse Kind =:= mbcs_pool orelse Kind =:= sbcs)).

%% ---- figures

%% @equiv memory(Key, current)
-spec memory(used | allocated | unused) -> size();
            (usage) -> float();
            (allocated_types) -> [{allocator(), size()}];
            (allocated_instances) -> [{instance(), size()}].
memory(Key) ->
    memory(Key, current).

%% @doc Returns the memory of all allocators, in bytes (see {@link set_unit/1}), now or at its
%% maximum:
%% <ul>
%% <li>`used': in blocks, including foreign blocks in the carriers of an allocator</li>
%% <li>`allocated': in carriers, which is what the operating system gave</li>
%% <li>`unused': `allocated' minus `used'</li>
%% <li>`usage': `used' divided by `allocated', 1.0 if nothing is allocated</li>
%% <li>`allocated_types': `[{Allocator, Bytes}]', the carriers of each allocator, by name</li>
%% <li>`allocated_instances': `[{Instance, Bytes}]', the carriers of each scheduler</li>
%% </ul>
%% Unlike `erlang:memory(total)', `used' has no literals, and nothing that lies outside of these
%% allocators. Any other key raises `function_clause'.
%%
%% ```
%% 1> sonde_alloc:memory(allocated_types, current).
%% [{binary_alloc,720896},{driver_alloc,196608},{eheap_alloc,2359296},
%%  {ets_alloc,655360},{fix_alloc,196608},{ll_alloc,11010048},
%%  {sl_alloc,196608},{std_alloc,720896},{temp_alloc,393216}]
%% '''
-spec memory(used | allocated | unused, moment()) -> size();
            (usage, moment()) -> float();
            (allocated_types, moment()) -> [{allocator(), size()}];
            (allocated_instances, moment()) -> [{instance(), size()}].
memory(used, When) ->
    in_unit(total(blocks_size, position(When), sized()));
memory(allocated, When) ->
    in_unit(total(carriers_size, position(When), sized()));
memory(unused, When) ->
    {Used, Allocated} = totals(When),
    in_unit(Allocated - Used);
memory(usage, When) ->
    usage(totals(When));
memory(allocated_types, When) ->
    carriers_by(1, position(When));
memory(allocated_instances, When) ->
    carriers_by(2, position(When)).

%% @doc Returns how full the carriers of each instance are; instances with most unused bytes come
%% first. `sbcs_usage' and `mbcs_usage' are the size of the blocks divided by the size of the
%% carriers (1.0 without carriers), the other figures are bytes (see {@link set_unit/1}).
%%
%% A low `mbcs_usage' now and a high one at the `max' show memory that the allocator holds and
%% cannot give back, since each carrier still has some block in it.
%%
%% ```
%% 1> hd(sonde_alloc:fragmentation(current)).
%% {{ll_alloc,0},
%%  [{sbcs_usage,1.0},{mbcs_usage,0.7452869415283203},
%%   {sbcs_block_size,0},{sbcs_carriers_size,0},
%%   {mbcs_block_size,6251920},{mbcs_carriers_size,8388608}]}
%% '''
-spec fragmentation(moment()) -> [{{allocator(), instance()}, [{atom(), size()}]}].
fragmentation(When) ->
    Pos = position(When),
    Rows = [fullness(Key, bytes(sbcs, Pos, Props), bytes(mbcs, Pos, Props))
            || {Key, Props} <- sized()],
    [{Key, [{sbcs_usage, SUsage}, {mbcs_usage, MUsage},
            {sbcs_block_size, in_unit(SBlocks)}, {sbcs_carriers_size, in_unit(SCarriers)},
            {mbcs_block_size, in_unit(MBlocks)}, {mbcs_carriers_size, in_unit(MCarriers)}]}
     || {_, Key, SUsage, MUsage, {SBlocks, SCarriers}, {MBlocks, MCarriers}} <- worst(Rows)].

fullness(Key, {_, SCarriers} = Sbcs, {_, MCarriers} = Mbcs) ->
    SUsage = usage(Sbcs),
    MUsage = usage(Mbcs),
    {unused(SUsage, SCarriers) + unused(MUsage, MCarriers), Key, SUsage, MUsage, Sbcs, Mbcs}.

%% @doc Returns how often the cache of memory segments served a request, for each scheduler; the one
%% with most misses comes first. `calls' are all requests for a segment since the node started,
%% `hits' those that the cache served, `hit_rate' is 1.0 without calls. A low rate with many calls
%% means that the cache is too small (`+MMmcs').
%%
%% The source is `erlang:system_info({allocator, mseg_alloc})'; the result is `[]' if the system has
%% no such segments.
%%
%% ```
%% 1> sonde_alloc:cache_hit_rates().
%% [{{instance,0},[{hit_rate,0.4},{hits,4},{calls,10}]},
%%  {{instance,1},[{hit_rate,0.5},{hits,1},{calls,2}]}]
%% '''
-spec cache_hit_rates() -> [{{instance, instance()},
                             [{hit_rate | hits | calls, float() | integer()}]}].
cache_hit_rates() ->
    Rows = [hit_rate(Instance, hits(get_list(memkind, Props)))
            || {{_, Instance}, Props} <- instances(alloc_info, [mseg_alloc])],
    [{{instance, Instance}, [{hit_rate, Rate}, {hits, Hits}, {calls, Calls}]}
     || {_, Instance, Rate, Hits, Calls} <- worst(Rows)].

hit_rate(Instance, {Hits, Calls} = Of) ->
    Rate = usage(Of),
    {unused(Rate, Calls), Instance, Rate, Hits, Calls}.

%% @doc Returns the mean block size of each allocator, in its multi-block and in its single-block
%% carriers: bytes (see {@link set_unit/1}) as a float, 0 without blocks. The result is sorted by
%% name.
%%
%% ```
%% 1> sonde_alloc:average_block_sizes(current).
%% [{binary_alloc,[{mbcs,9159.764705882353},{sbcs,0}]},
%%  {driver_alloc,[{mbcs,213.95348837209303},{sbcs,0}]},
%%  ...]
%% '''
-spec average_block_sizes(moment()) -> [{allocator(), [{container(), size()}]}].
average_block_sizes(When) ->
    Pos = position(When),
    Sums = lists:foldl(
             fun({{Allocator, _}, Props}, Acc) ->
                     New = {blocks(mbcs, Pos, Props), blocks(sbcs, Pos, Props)},
                     maps:update_with(Allocator, fun(Old) -> pairs(New, Old) end, New, Acc)
             end, #{}, counted()),
    [{Allocator, [{mbcs, mean(Mbcs)}, {sbcs, mean(Sbcs)}]}
     || {Allocator, {Mbcs, Sbcs}} <- lists:sort(maps:to_list(Sums))].

%% @doc Returns the ratio of blocks in single-block carriers to blocks in multi-block carriers, for
%% each instance, the highest first: a float, 0 without any blocks, `infinity' if there are only
%% blocks in single-block carriers. A high ratio means that the threshold `+M<S>sbct' is low for
%% what the node allocates; each of these blocks then needs a carrier of its own.
%%
%% ```
%% 1> hd(sonde_alloc:sbcs_to_mbcs(current)).
%% {{eheap_alloc,2},0.16666666666666666}
%% '''
-spec sbcs_to_mbcs(moment()) -> [{{allocator(), instance()}, Ratio :: float() | 0 | infinity}].
sbcs_to_mbcs(When) ->
    Pos = position(When),
    [{Key, Ratio}
     || {Ratio, Key} <- worst([{ratio(blocks(sbcs, Pos, Props), blocks(mbcs, Pos, Props)), Key}
                               || {Key, Props} <- counted()])].

%% ---- everything

%% @doc Returns all that the emulator reports about all its allocators now, even if there is a
%% snapshot: `[{{Allocator, Instance}, Props}]'. `Props' is the result of
%% `erlang:system_info({allocator, _})', sorted, without `versions'. In the containers (`mbcs',
%% `mbcs_pool', `sbcs') the blocks, which the emulator lists for each type, are summed:
%% <ul>
%% <li>`{blocks, Current, MaxSinceTheLastLook, Max}': their number (`{blocks, Current}' in a pool);
%%     `{blocks_size, _, _, _}': their bytes</li>
%% <li>`{foreign_blocks, [{Type, _}]}': those of other allocators, in carriers that came from a
%%     pool</li>
%% <li>`{raw_blocks, [{Type, _}]}': the emulator's own list</li>
%% </ul>
%% The first entry, `{{erts_mmap, 0}, _}', is that of the emulator.
%%
%% ```
%% 1> [Key || {Key, _} <- sonde_alloc:allocators()].
%% [{erts_mmap,0},{sys_alloc,0},{mseg_alloc,0},{mseg_alloc,1},
%%  {temp_alloc,0},{temp_alloc,1}|...]
%% '''
-spec allocators() -> [{{atom(), instance()}, props()}].
allocators() ->
    All = [erts_mmap, sys_alloc, mseg_alloc | erlang:system_info(alloc_util_allocators)],
    [tidy(I) || I <- listed(ask(alloc_info, All))].

%% @doc Returns {@link allocators/0}, or the snapshot, with the instances of each allocator
%% combined: `[{{Allocator, [Instance]}, Props}]', figures summed, the last allocator first. Options
%% are those of the first instance; `blocks_size', `carriers_size' and `segments_size' are in the
%% unit of {@link set_unit/1}. Anything but `types' raises `function_clause'.
%%
%% ```
%% 1> [Key || {Key, _} <- sonde_alloc:allocators(types)].
%% [{driver_alloc,[2,1,0]},{binary_alloc,[2,1,0]},{literal_alloc,[0]}|...]
%% '''
-spec allocators(types) -> [{{atom(), [instance()]}, props()}].
allocators(types) ->
    Instances = case snapshot_get() of
                    undefined -> allocators();
                    {_, Kept} -> Kept
                end,
    [{{Allocator, Ns}, sizes_in_unit(Props)}
     || {Allocator, Ns, Props} <- lists:foldl(fun merge/2, [], Instances)].

%% ---- snapshots

%% @doc Keeps `erlang:memory()' and {@link allocators/0} in the process dictionary of the caller,
%% for all calls that follow. Returns the previous snapshot, or `undefined'. If the node has no such
%% figures (an allocator is switched off), the memory is `[]'.
%%
%% ```
%% 1> sonde_alloc:snapshot().
%% undefined
%% 2> {sonde_alloc:memory(used), sonde_alloc:memory(used)}.
%% {9156984,9156984}
%% 3> {_Memory, _Allocators} = sonde_alloc:snapshot_clear().
%% '''
-spec snapshot() -> snapshot() | undefined.
snapshot() ->
    put(?SNAPSHOT, now_()).

%% @doc Removes the caller's snapshot and returns it, or `undefined'.
-spec snapshot_clear() -> snapshot() | undefined.
snapshot_clear() ->
    erase(?SNAPSHOT).

%% @doc Prints the caller's snapshot (or `undefined') as a term and a full stop, in the format of
%% {@link snapshot_save/1}.
%%
%% ```
%% 1> sonde_alloc:snapshot_print().
%% {[{total,13497224},
%%   {processes,3921920},
%%   ...
%% ok
%% '''
-spec snapshot_print() -> ok.
snapshot_print() ->
    io:format("~p.~n", [snapshot_get()]).

%% @doc Returns the caller's snapshot, `{erlang:memory(), Allocators}', or `undefined'.
-spec snapshot_get() -> snapshot() | undefined.
snapshot_get() ->
    get(?SNAPSHOT).

%% @doc Writes the caller's snapshot, or the present figures if there is none, to a file. Raises the
%% reason (`enoent', `eacces') if the file cannot be written.
%%
%% ```
%% 1> sonde_alloc:snapshot_save("/tmp/allocators").
%% ok
%% '''
-spec snapshot_save(file:name_all()) -> ok.
snapshot_save(File) ->
    case file:write_file(File, io_lib:format("~p.~n", [snapshot_or_now()])) of
        ok -> ok;
        {error, Reason} -> error(Reason)
    end.

%% @doc Makes the content of a file the caller's snapshot; returns the previous snapshot, or
%% `undefined'. The file was written by {@link snapshot_save/1} or by recon; or it contains, from a
%% node that has neither, this term and a full stop:
%%
%% ```
%% {erlang:memory(),
%%  [{A, erlang:system_info({allocator, A})}
%%   || A <- erlang:system_info(alloc_util_allocators) ++ [sys_alloc, mseg_alloc]]}
%% '''
%%
%% `file:consult/1' reads it and makes the atoms that it finds: load only files that you trust. A
%% file that cannot be read raises `{badmatch, _}' (`{badmatch, {error, enoent}}'), a term that is
%% not a pair `{case_clause, _}'.
%%
%% ```
%% 1> sonde_alloc:snapshot_load("/tmp/allocators").
%% undefined
%% '''
-spec snapshot_load(file:name_all()) -> snapshot() | undefined.
snapshot_load(File) ->
    {ok, [Term]} = file:consult(File),
    Snapshot = case Term of
                   {Memory, [{A, _} | _] = Raw} when is_atom(A) ->
                       {Memory, [tidy(I) || I <- listed(Raw)]};
                   {Memory, Instances} ->
                       {Memory, [tidy(I) || {_, _} = I <- Instances]}
               end,
    put(?SNAPSHOT, Snapshot).

%% ---- units

%% @doc Sets the unit of sizes in this process. Sizes become floats, except for `byte', the default.
%% Returns the factor of the previous unit, `undefined' for `byte'; anything but the four units
%% raises `function_clause'.
%%
%% ```
%% 1> sonde_alloc:set_unit(megabyte).
%% undefined
%% 2> sonde_alloc:memory(used).
%% 13.26544189453125
%% 3> sonde_alloc:set_unit(byte).
%% 1048576
%% '''
-spec set_unit(byte | kilobyte | megabyte | gigabyte) -> undefined | pos_integer().
set_unit(byte) -> erase(?UNIT);
set_unit(kilobyte) -> put(?UNIT, 1 bsl 10);
set_unit(megabyte) -> put(?UNIT, 1 bsl 20);
set_unit(gigabyte) -> put(?UNIT, 1 bsl 30).

in_unit(Bytes) ->
    case get(?UNIT) of
        undefined -> Bytes;
        Factor -> Bytes / Factor
    end.

%% recon, too, converts these sizes where they are parts of a larger term.
sizes_in_unit(Props) ->
    case get(?UNIT) of
        undefined -> Props;
        _ -> [size_in_unit(P) || P <- Props]
    end.

size_in_unit({Part, Props}) when ?IS_CONTAINER(Part); Part =:= memkind; Part =:= status ->
    {Part, sizes_in_unit(Props)};
size_in_unit(Prop) when element(1, Prop) =:= blocks_size; element(1, Prop) =:= carriers_size;
                        element(1, Prop) =:= segments_size ->
    [Name | Sizes] = tuple_to_list(Prop),
    list_to_tuple([Name | [in_unit(Size) || Size <- Sizes]]);
size_in_unit(Prop) ->
    Prop.

%% ---- the source

snapshot_or_now() ->
    case snapshot_get() of
        undefined -> now_();
        Snapshot -> Snapshot
    end.

now_() ->
    {node_memory(), allocators()}.

%% The emulator has no sum if one of its allocators is off.
node_memory() ->
    try erlang:memory()
    catch error:notsup -> []
    end.

%% The instances of these allocators in the snapshot, or on the node with only the figures of Call.
instances(Call, Allocators) ->
    case snapshot_get() of
        undefined -> listed(ask(Call, Allocators));
        {_, All} -> [I || {{A, _}, _} = I <- All, lists:member(A, Allocators)]
    end.

%% One request to the schedulers instead of one for each allocator. These two functions of module
%% erlang are exported but not documented; the documented system_info/1 returns the same for one
%% allocator.
ask(Call, Allocators) ->
    try
        case Call of
            alloc_sizes -> erlang:alloc_sizes(Allocators);
            alloc_info -> erlang:alloc_info(Allocators)
        end
    catch
        error:undef -> [{A, ask_one(Call, A)} || A <- Allocators]
    end.

ask_one(alloc_sizes, Allocator) -> erlang:system_info({allocator_sizes, Allocator});
ask_one(alloc_info, Allocator) -> erlang:system_info({allocator, Allocator}).

%% `false' marks an allocator that is switched off; erts_mmap has no instances.
listed(Raw) ->
    lists:append([of_allocator(A, Info) || {A, Info} <- Raw, is_list(Info)]).

of_allocator(erts_mmap, Info) -> [{{erts_mmap, 0}, Info}];
of_allocator(A, Info) -> [{{A, N}, Props} || {_, N, Props} <- Info].

%% ---- recon's form of an instance

tidy({{erts_mmap, _}, _} = Raw) ->
    Raw;
tidy({Key, Props}) ->
    {Key, lists:sort([tidy(Key, P) || P <- proplists:delete(versions, Props)])}.

tidy({Allocator, _}, {Kind, Container}) when ?IS_CONTAINER(Kind) ->
    {Kind, summed(Allocator, Kind, Container)};
tidy(_, Prop) ->
    Prop.

summed(Allocator, Kind, [{blocks, Types} | Rest]) when is_list(Types) ->
    [sum({count, blocks}, Kind, Types), sum({size, blocks_size}, Kind, Types),
     {foreign_blocks, [B || {Type, _} = B <- Types, Type =/= Allocator]}, {raw_blocks, Types}
     | Rest];
summed(Allocator, Kind, [Prop | Rest]) ->
    [Prop | summed(Allocator, Kind, Rest)];
summed(_, _, []) ->
    [].

sum({Theirs, Ours}, Kind, Types) ->
    lists:foldl(fun({_, Props}, Sum) ->
                        add(setelement(1, lists:keyfind(Theirs, 1, Props), Ours), Sum)
                end, none(Ours, Kind), Types).

none(Figure, mbcs_pool) -> {Figure, 0}; % has no maxima
none(Figure, _) -> {Figure, 0, 0, 0}.

%% ---- the figures of one instance

sized() ->
    instances(alloc_sizes, ?ALLOCATORS).

counted() ->
    instances(alloc_info, ?ALLOCATORS).

position(current) -> ?CURRENT;
position(max) -> ?MAX.

%% The carriers in the pool are multi-block carriers; the emulator keeps no maximum for them.
figures(Figure, mbcs, ?CURRENT, Props) ->
    figure(Figure, ?CURRENT, get_list(mbcs, Props))
        + figure(Figure, ?CURRENT, get_list(mbcs_pool, Props));
figures(Figure, Kind, Pos, Props) ->
    figure(Figure, Pos, get_list(Kind, Props)).

%% For a container in recon's form, or in that of the emulator.
figure(blocks_size, Pos, Container) ->
    case lists:keyfind(blocks_size, 1, Container) of
        false -> of_types(size, Pos, get_list(blocks, Container));
        Sizes -> element(Pos, Sizes)
    end;
figure(Figure, Pos, Container) ->
    case lists:keyfind(Figure, 1, Container) of
        {blocks, Types} when is_list(Types) -> of_types(count, Pos, Types);
        false -> 0;
        Numbers -> element(Pos, Numbers)
    end.

of_types(Figure, Pos, [{_, Props} | Types]) ->
    element(Pos, lists:keyfind(Figure, 1, Props)) + of_types(Figure, Pos, Types);
of_types(_, _, []) ->
    0.

%% {Part, Whole}
bytes(Kind, Pos, Props) ->
    {figures(blocks_size, Kind, Pos, Props), figures(carriers_size, Kind, Pos, Props)}.

%% {Bytes, Count}
blocks(Kind, Pos, Props) ->
    {figures(blocks_size, Kind, Pos, Props), figures(blocks, Kind, Pos, Props)}.

hits(Memkind) ->
    {_, Hits} = lists:keyfind(cache_hits, 1, get_list(status, Memkind)),
    {_, Giga, Calls} = lists:keyfind(mseg_alloc, 1, get_list(calls, Memkind)),
    {Hits, Giga * ?GIGA + Calls}.

get_list(Key, Props) ->
    case lists:keyfind(Key, 1, Props) of
        {_, List} -> List;
        false -> []
    end.

%% ---- many instances

total(Figure, Pos, Instances) ->
    lists:sum([both(Figure, Pos, Props) || {_, Props} <- Instances]).

totals(When) ->
    Pos = position(When),
    Instances = sized(),
    {total(blocks_size, Pos, Instances), total(carriers_size, Pos, Instances)}.

both(Figure, Pos, Props) ->
    figures(Figure, sbcs, Pos, Props) + figures(Figure, mbcs, Pos, Props).

%% Groups by the first or the second element of {Allocator, Instance}.
carriers_by(Part, Pos) ->
    Sums = lists:foldl(fun({Key, Props}, Acc) ->
                               Size = both(carriers_size, Pos, Props),
                               maps:update_with(element(Part, Key), fun(Sum) -> Sum + Size end,
                                                Size, Acc)
                       end, #{}, sized()),
    [{By, in_unit(Sum)} || {By, Sum} <- lists:sort(maps:to_list(Sums))].

plus({A, B}, {C, D}) -> {A + C, B + D}.

pairs({A, B}, {C, D}) -> {plus(A, C), plus(B, D)}.

%% Computed as in recon, so that equal rows come in the same order.
unused(Usage, Whole) -> (1.0 - Usage) * Whole.

usage({_, 0}) -> 1.0;
usage({Part, Whole}) -> Part / Whole.

mean({_, 0}) -> 0;
mean({Bytes, Count}) -> in_unit(Bytes / Count).

ratio({_, 0}, {_, 0}) -> 0;
ratio(_, {_, 0}) -> infinity;
ratio({_, Sbcs}, {_, Mbcs}) -> Sbcs / Mbcs.

worst(Rows) ->
    lists:reverse(lists:sort(Rows)).

%% ---- the instances of an allocator combined

%% As in recon, the last allocator comes first, and so does its last instance.
merge({{Allocator, N}, Props}, Types) ->
    case lists:keytake(Allocator, 1, Types) of
        {value, {_, Ns, Sum}, Others} ->
            [{Allocator, [N | Ns], merge_props(Props, Sum)} | Others];
        false ->
            [{Allocator, [N], merge_props(Props, [])} | Types]
    end.

merge_props(New, Old) ->
    orddict:merge(fun merge_prop/3, Old, sorted(New)).

%% recon lists the parts of memkind in this order.
sorted(Props) ->
    lists:sort([case P of
                    {memkind, Parts} -> {memkind, lists:sort(Parts)};
                    _ -> P
                end || P <- Props]).

merge_prop(calls, Old, New) -> lists:zipwith(fun add_calls/2, New, Old);
merge_prop(memkind, Old, New) -> merge_props(New, Old);
merge_prop(Figures, Old, New) when Figures =:= fix_types; Figures =:= status;
                                   Figures =:= mbcs; Figures =:= sbcs ->
    lists:zipwith(fun add/2, New, Old);
merge_prop(mbcs_pool, Old, New) ->
    lists:zipwith(fun add_calls/2, New, Old);
merge_prop(_, Old, _) -> % options, version, name
    Old.

%% {Name, Giga, Rest}; the pool also has plain figures.
add_calls({Name, GigaA, A}, {Name, GigaB, B}) ->
    Sum = (GigaA + GigaB) * ?GIGA + A + B,
    {Name, Sum div ?GIGA, Sum rem ?GIGA};
add_calls(New, Old) ->
    add(New, Old).

add({Tag, New}, {Tag, Old}) when is_list(New) -> {Tag, New ++ Old};
add({segments_watermark, A}, {_, B}) -> {segments_watermark, max(A, B)}; % each at its own time
add({Tag, A}, {Tag, B}) -> {Tag, A + B};
add({Tag, A1, A2}, {Tag, B1, B2}) -> {Tag, A1 + B1, A2 + B2};
add({Tag, A1, A2, A3}, {Tag, B1, B2, B3}) -> {Tag, A1 + B1, A2 + B2, A3 + B3}.
