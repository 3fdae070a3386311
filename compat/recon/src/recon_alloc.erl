%% @doc recon's view of the allocators, answered by {@link sonde_alloc}: each function is the one of
%% the same name there, and `h(sonde_alloc, memory).' tells what it gives, in which unit.
-module(recon_alloc).

%% sonde:remote_load/2 loads these together: code that finds one module of recon on a node expects
%% the others there.
-needs([sonde, recon, recon_lib, recon_alloc, recon_map, recon_rec, recon_trace]).

-export([memory/1, memory/2, fragmentation/1, cache_hit_rates/0, average_block_sizes/1,
         sbcs_to_mbcs/1, allocators/0, allocators/1,
         snapshot/0, snapshot_clear/0, snapshot_print/0, snapshot_get/0, snapshot_save/1,
         snapshot_load/1, set_unit/1]).

-export_type([memory/0, allocator/0, instance/0, allocdata/1]).

-type memory() :: [{atom(), non_neg_integer()}].
-type allocator() :: atom().
-type instance() :: non_neg_integer().
-type allocdata(Data) :: {{allocator(), instance()}, Data}.
-type when_() :: current | max.
-type props() :: [{atom(), term()}].
-type snapshot() :: {memory(), [allocdata(term())]}.

-spec memory(used | allocated | unused) -> number();
            (usage) -> number();
            (allocated_types) -> [{allocator(), number()}];
            (allocated_instances) -> [{instance(), number()}].
memory(What) -> sonde_alloc:memory(What).

-spec memory(used | allocated | unused, when_()) -> number();
            (usage, when_()) -> number();
            (allocated_types, when_()) -> [{allocator(), number()}];
            (allocated_instances, when_()) -> [{instance(), number()}].
memory(What, When) -> sonde_alloc:memory(What, When).

-spec fragmentation(when_()) -> [allocdata(props())].
fragmentation(When) -> sonde_alloc:fragmentation(When).

-spec cache_hit_rates() -> [{{instance, instance()}, props()}].
cache_hit_rates() -> sonde_alloc:cache_hit_rates().

-spec average_block_sizes(when_()) -> [{allocator(), props()}].
average_block_sizes(When) -> sonde_alloc:average_block_sizes(When).

-spec sbcs_to_mbcs(when_()) -> [allocdata(number() | infinity)].
sbcs_to_mbcs(When) -> sonde_alloc:sbcs_to_mbcs(When).

-spec allocators() -> [allocdata(term())].
allocators() -> sonde_alloc:allocators().

-spec allocators(types) -> [{{allocator(), [instance()]}, term()}].
allocators(How) -> sonde_alloc:allocators(How).

-spec snapshot() -> snapshot() | undefined.
snapshot() -> sonde_alloc:snapshot().

-spec snapshot_clear() -> snapshot() | undefined.
snapshot_clear() -> sonde_alloc:snapshot_clear().

-spec snapshot_print() -> ok.
snapshot_print() -> sonde_alloc:snapshot_print().

-spec snapshot_get() -> snapshot() | undefined.
snapshot_get() -> sonde_alloc:snapshot_get().

-spec snapshot_save(file:name()) -> ok.
snapshot_save(File) -> sonde_alloc:snapshot_save(File).

-spec snapshot_load(file:name()) -> snapshot() | undefined.
snapshot_load(File) -> sonde_alloc:snapshot_load(File).

-spec set_unit(byte | kilobyte | megabyte | gigabyte) -> pos_integer() | undefined.
set_unit(Unit) -> sonde_alloc:set_unit(Unit).
