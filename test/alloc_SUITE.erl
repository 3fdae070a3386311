%% sonde_alloc answers right about the allocators: as recon does on the same snapshots, as worked
%% out by hand, as other calls of the emulator report, and in the format of each release.
-module(alloc_SUITE).

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([answers_as_recon/1, any_snapshot_as_recon/1]).
-export([figures_are_those_worked_out_by_hand/1, sums_do_not_lose_the_giga/1]).
-export([snapshots_of_each_release_are_read/1, node_that_uses_malloc_alone_is_read/1,
         blocks_of_others_count/1]).
-export([blocks_of_binaries_are_what_memory_says/1, planted_binary_is_seen/1,
         carriers_are_what_was_asked_of_the_system/1]).
-export([figures_wait_in_the_snapshot/1, snapshot_of_recon_in_the_dictionary_is_ours/1,
         file_that_cannot_be_loaded_leaves_the_snapshot/1,
         answers_without_the_undocumented_call/1, no_message_reaches_the_caller/1]).
-export([crowd/1]). % in a peer

-define(ALLOCATORS, [temp_alloc, eheap_alloc, binary_alloc, ets_alloc, driver_alloc,
                     sl_alloc, ll_alloc, fix_alloc, std_alloc]).
-define(CONTAINERS, [mbcs, mbcs_pool, sbcs]).
-define(MEMORY, [used, allocated, unused, usage, allocated_types, allocated_instances]).

all() ->
    [answers_as_recon, any_snapshot_as_recon,
     figures_are_those_worked_out_by_hand, sums_do_not_lose_the_giga,
     snapshots_of_each_release_are_read, node_that_uses_malloc_alone_is_read,
     blocks_of_others_count,
     blocks_of_binaries_are_what_memory_says, planted_binary_is_seen,
     carriers_are_what_was_asked_of_the_system,
     figures_wait_in_the_snapshot, snapshot_of_recon_in_the_dictionary_is_ours,
     file_that_cannot_be_loaded_leaves_the_snapshot,
     answers_without_the_undocumented_call, no_message_reaches_the_caller].

init_per_suite(Config) ->
    ct:timetrap({minutes, 5}),
    sonde_test:init(Config).

end_per_suite(_Config) ->
    ok.

%% ---- compared with recon

%% On a snapshot that recon wrote of a node with carriers of all kinds, the answers are equal. On
%% this node, whose figures change, they have the same shape.
answers_as_recon(Config) ->
    case sonde_test:recon() of
        ok ->
            Files = files(Config),
            ok = saved_by_recon(maps:get(recon, Files)),
            sonde_conform:cases(recon_alloc, cases(Files));
        Skip -> Skip
    end.

files(Config) ->
    Dir = proplists:get_value(priv_dir, Config),
    Files = maps:from_list([{Name, filename:join(Dir, atom_to_list(Name))}
                            || Name <- [recon, raw, empty, large, written]]),
    ok = write(maps:get(raw, Files), raw()),
    ok = write(maps:get(empty, Files), {[], []}),
    ok = write(maps:get(large, Files), {[], large()}),
    Files#{dir => Dir}.

saved_by_recon(File) ->
    sonde_peer_helper:with(shipped, ["+S", "2:2", "+Mucp", "@"], fun(Peer) ->
        Recon = filename:dirname(code:which(recon_alloc)),
        true = sonde_peer_helper:call(Peer, code, add_pathz, [Recon]),
        ok = sonde_peer_helper:call(Peer, ?MODULE, crowd, [fun recon_alloc:allocators/0]),
        ok = sonde_peer_helper:call(Peer, recon_alloc, snapshot_save, [File])
    end).

cases(Files) ->
    equal(Files) ++ alike() ++ snapshot_cases(Files) ++ unit_cases(Files) ++ errors(Files)
        ++ better(Files).

%% {Function, Name, Case}, on recon's file.
equal(#{recon := File}) ->
    [{F, name([same | Args]), on(File, fun(M) -> apply(M, F, Args) end)} || {F, Args} <- calls()].

calls() ->
    [{memory, [K | W]} || K <- ?MEMORY, W <- [[], [current], [max]]]
        ++ [{F, [W]} || F <- [fragmentation, average_block_sizes, sbcs_to_mbcs],
                        W <- [current, max]]
        ++ [{cache_hit_rates, []}, {allocators, [types]}, {snapshot_get, []},
            {snapshot_print, []}].

alike() ->
    [{memory, name([live | Args]),
      fun(M) -> sonde_conform:shape(apply(M, memory, Args)) end}
     || {memory, Args} <- calls()]
        ++ [{F, name([live | Args]), fun(M) -> keys(apply(M, F, Args)) end}
            || {F, Args} <- calls(), F =/= memory, F =/= snapshot_get, F =/= snapshot_print,
               F =/= allocators]
        ++ [{fragmentation, live_row,
             fun(M) -> [sonde_conform:shape(Row) || {_, Row} <- M:fragmentation(max)] end},
            {allocators, live, fun(M) -> alike(M:allocators()) end},
            {allocators, live_types,
             fun(M) -> alike(M:allocators(types)) end},
            {allocators, keys, fun(M) -> [Key || {Key, _} <- M:allocators()] end},
            {allocators, types_keys, fun(M) -> [Key || {Key, _} <- M:allocators(types)] end}].

snapshot_cases(#{recon := File, written := Out}) ->
    Written = fun(M) -> {M:snapshot_save(Out), file:read_file(Out)} end,
    [{snapshot, first, fun(M) -> M:snapshot() end},
     {snapshot, second, on(File, fun(M) -> M:snapshot() end)},
     {snapshot, kept, fun(M) ->
         _ = M:snapshot(),
         {Memory, All} = M:snapshot_get(),
         {sonde_conform:shape(Memory), alike(All)}
      end},
     {snapshot_clear, none, fun(M) -> M:snapshot_clear() end},
     {snapshot_clear, some, on(File, fun(M) -> {M:snapshot_clear(), M:snapshot_get()} end)},
     {snapshot_get, none, fun(M) -> M:snapshot_get() end},
     {snapshot_print, none, fun(M) -> M:snapshot_print() end},
     {snapshot_load, first, fun(M) -> M:snapshot_load(File) end},
     {snapshot_load, second, on(File, fun(M) -> M:snapshot_load(File) end)},
     {snapshot_load, binary_name, fun(M) -> M:snapshot_load(list_to_binary(File)) end},
     {snapshot_save, some, on(File, Written)},
     {snapshot_save, none, fun(M) ->
         {ok, {ok, _}} = Written(M),
         {ok, [{Memory, All}]} = file:consult(Out),
         {M:snapshot_get(), {sonde_conform:shape(Memory), alike(All)}}
      end},
     {allocators, not_of_the_snapshot, on(File, fun(M) ->
         length(without_mmap(M:allocators())) =:= length(element(2, M:snapshot_get()))
      end)}].

unit_cases(#{recon := File}) ->
    [{set_unit, Unit, on(File, fun(M) ->
         [M:set_unit(megabyte), M:set_unit(Unit)
          | [apply(M, F, Args) || {F, Args} <- calls(), F =/= snapshot_print]]
      end)} || Unit <- [byte, kilobyte, megabyte, gigabyte]]
        ++ [{set_unit, saved_in_bytes, fun(M) ->
                M:set_unit(kilobyte),
                M:snapshot(),
                {Memory, All} = M:snapshot_get(),
                {sonde_conform:shape(Memory), alike(All)}
             end}].

errors(Files) ->
    #{recon := File, written := Out, dir := Dir} = Files,
    Nowhere = filename:join(Dir, "no/file"),
    [{F, name([bad | Args]), fun(M) -> apply(M, F, Args) end}
     || {F, Args} <- [{memory, [foo]}, {memory, [foo, current]}, {memory, [foo, bar]},
                      {memory, [[used]]}, {memory, [used, foo]}, {memory, [allocated, foo]},
                      {memory, [unused, foo]}, {memory, [usage, foo]},
                      {memory, [allocated_types, foo]}, {memory, [allocated_instances, foo]},
                      {fragmentation, [foo]}, {average_block_sizes, [foo]}, {sbcs_to_mbcs, [foo]},
                      {allocators, [foo]}, {allocators, [[]]}, {set_unit, [foo]},
                      {set_unit, [1024]}, {set_unit, ["byte"]}]]
        ++ [{snapshot_load, no_file, fun(M) -> M:snapshot_load(Nowhere) end},
            {snapshot_load, bad_name, fun(M) -> M:snapshot_load({a}) end},
            {snapshot_save, no_directory, fun(M) -> M:snapshot_save(Nowhere) end},
            {snapshot_save, directory, fun(M) -> M:snapshot_save(Dir) end},
            {snapshot_save, bad_name, on(File, fun(M) -> M:snapshot_save({a}) end)}]
        ++ [{snapshot_load, list_to_atom(Text), fun(M) ->
                ok = file:write_file(Out, Text),
                {M:snapshot_load(Out), M:snapshot_get()}
             end}
            || Text <- ["foo.", "{a, b}.", "{1, 2, 3}.", "{[], foo}.", "{[], []}.", "",
                        "{[], []}. {[], []}.", "{x", "{[], [{ets_alloc, false}]}.",
                        "{[], [{ets_alloc, []}]}.", "{[], [{ets_alloc, [{instance, 2, []}]}]}.",
                        "{[], [{ets_alloc, [{instance, 2}]}, {{binary_alloc, 0}, []}]}.",
                        "{m, [{{a, 1}, [{b, 1}, {a, 1}, {versions, 1, 2}]}]}.",
                        "{m, [{{a, 0}, [{b, c, d, e}, {a, 1}]}, {b, []}]}."]].

%% Calls that sonde answers differently; recon_differences.eterm gives the reason.
better(#{recon := File, raw := Raw, empty := Empty, large := Large}) ->
    [{memory, raw, on(Raw, fun(M) -> M:memory(used) end)},
     {memory, keyword_that_is_a_number, on(File, fun(M) -> M:memory(used, 1) end)},
     {fragmentation, keyword_that_is_no_atom, on(File, fun(M) -> M:fragmentation("max") end)},
     {memory, usage_of_nothing, on(Empty, fun(M) -> M:memory(usage) end)},
     {memory, bad_keyword_for_nothing, on(Empty, fun(M) -> M:memory(used, foo) end)},
     {fragmentation, raw, on(Raw, fun(M) -> M:fragmentation(current) end)},
     {average_block_sizes, raw, on(Raw, fun(M) -> M:average_block_sizes(current) end)},
     {sbcs_to_mbcs, raw, on(Raw, fun(M) -> M:sbcs_to_mbcs(max) end)},
     {allocators, large, on(Large, fun(M) -> M:allocators(types) end)}]
        ++ [{F, name([nothing | Args]), on(Empty, fun(M) -> apply(M, F, Args) end)}
            || {F, Args} <- calls(), Args =/= [usage], hd(Args ++ [x]) =/= usage].

on(File, Case) ->
    fun(M) -> _ = M:snapshot_load(File), Case(M) end.

keys(Rows) -> lists:sort([Key || {Key, _} <- Rows]).

%% The shape of what changes. From OTP 27 on, an instance lists the types of the blocks that lie in
%% it now, and blocks of another allocator come and go with a carrier. A type is described the same
%% way wherever it lies, and some types are always there.
alike(Rows) ->
    Kept = without_mmap(Rows),
    {sonde_conform:shape([{Key, types(Props)} || {Key, Props} <- Kept]),
     lists:usort([sonde_conform:shape(Told) || {_, Props} <- Kept, {Kind, Part} <- Props,
                                               Kind =:= mbcs orelse Kind =:= sbcs,
                                               {Name, [_ | _] = Types} <- Part,
                                               Name =:= blocks orelse Name =:= raw_blocks,
                                               {_, Told} <- Types])}.

types({Name, [_ | _]}) when Name =:= blocks; Name =:= raw_blocks; Name =:= foreign_blocks ->
    {Name, []};
types(T) when is_tuple(T) -> list_to_tuple(types(tuple_to_list(T)));
types(L) when is_list(L) -> [types(E) || E <- L];
types(T) -> T.

without_mmap(Rows) -> [Row || {{A, _}, _} = Row <- Rows, A =/= erts_mmap].

name(Parts) -> list_to_atom(lists:flatten(lists:join("_", [text(P) || P <- Parts]))).

text(P) when is_atom(P) -> atom_to_list(P);
text(P) -> io_lib:format("~w", [P]).

write(File, Term) -> file:write_file(File, io_lib:format("~w.~n", [Term])).

%% Random snapshots that no node ever had.
any_snapshot_as_recon(_Config) ->
    case sonde_test:recon() of
        ok ->
            Seed = erlang:system_time(),
            _ = rand:seed(exsss, Seed),
            ct:pal("seed ~p~n", [Seed]),
            _ = [ok = same_figures(any_snapshot(), Unit)
                 || Unit <- [byte, kilobyte, gigabyte], _ <- lists:seq(1, 50)],
            ok;
        Skip -> Skip
    end.

same_figures(Snapshot, Unit) ->
    put(recon_alloc_snapshot, Snapshot),
    Answers = fun(M) ->
                      _ = M:set_unit(Unit),
                      [{F, Args, apply(M, F, Args)} || {F, Args} <- calls(), F =/= snapshot_print]
              end,
    [] = [{Snapshot, Theirs, Ours} || {Theirs, Ours} <- lists:zip(Answers(recon_alloc),
                                                                  Answers(sonde_alloc)),
                                      Theirs =/= Ours],
    Snapshot = sonde_alloc:snapshot_clear(),
    _ = sonde_alloc:set_unit(byte),
    ok.

any_snapshot() ->
    {[], [{{mseg_alloc, N}, [any_segments()]} || N <- [0, 1, 2]]
         ++ [{{A, N}, any_instance(N)} || A <- [literal_alloc | ?ALLOCATORS], N <- [0, 1, 2]]}.

any_segments() ->
    Hits = up_to(5),
    {memkind, [{name, "all memory"},
               {status, [{cache_hits, Hits}, {segments_watermark, up_to(9)},
                         {segments_size, up_to(99), up_to(99), up_to(99)}]},
               {calls, [{mseg_alloc, 0, Hits + up_to(5)}]}]}.

any_instance(N) ->
    [{calls, [{x, 0, up_to(1000)}]}, {mbcs, any_container()}]
        ++ [{mbcs_pool, any_pool()} || N > 0] ++ [{sbcs, any_container()}].

any_container() ->
    {Count, Size, Carriers} = any_figures(),
    [{blocks, Count, Count + 1, Count + 1 + up_to(10)}, {blocks_size, Size, Size, Size + up_to(10)},
     {foreign_blocks, []}, {raw_blocks, []}, {carriers, up_to(3), 3, 4},
     {mseg_alloc_carriers, 0}, {sys_alloc_carriers, 0},
     {carriers_size, Carriers, Carriers, Carriers + 10 + up_to(10)},
     {mseg_alloc_carriers_size, 0}, {sys_alloc_carriers_size, 0}].

any_pool() ->
    {Count, Size, Carriers} = any_figures(),
    [{blocks, Count}, {blocks_size, Size}, {foreign_blocks, []}, {raw_blocks, []},
     {carriers, up_to(3)}, {carriers_size, Carriers}, {fetch, 0, up_to(1000)}].

any_figures() ->
    Count = up_to(1) * up_to(50),
    Size = case Count of 0 -> 0; _ -> any_size() end,
    {Count, Size, Size + any_size()}.

any_size() ->
    case up_to(2) of 0 -> 0; 1 -> up_to(4); 2 -> up_to(100000000) end.

up_to(N) -> rand:uniform(N + 1) - 1.

%% ---- figures worked out by hand

%% A raw snapshot as the emulator lists it: two instances, one of which found a carrier with blocks
%% of another allocator; one that is empty; one that is off; two of segments. The fields mean
%% {Name, Now, MaxSinceTheLastLook, Max}, and in the pool {Name, Now}.
raw() ->
    {[{total, 1000}],
     [{ets_alloc, [{instance, 0, instance(
           [{ets_alloc, [{count, 3, 4, 5}, {size, 300, 400, 500}]}], 1000, [], 0,
           {[{ets_alloc, [{count, 1, 1, 2}, {size, 3000, 3000, 6000}]}], 4000})},
                   {instance, 1, instance(
           [{ets_alloc, [{count, 2, 2, 2}, {size, 100, 100, 100}]},
            {binary_alloc, [{count, 4, 4, 4}, {size, 400, 400, 700}]}], 2000,
           [{binary_alloc, [{count, 6}, {size, 50}]}], 500, {[], 0})}]},
      {binary_alloc, [{instance, 1, instance([], 0, [], 0,
           {[{binary_alloc, [{count, 1, 1, 1}, {size, 90, 90, 90}]}], 100})}]},
      {std_alloc, [{instance, 0, instance([], 0, [], 0, {[], 0})}]},
      {driver_alloc, false},
      {literal_alloc, [{instance, 0, instance(
           [{literal_alloc, [{count, 1, 1, 1}, {size, 77, 77, 77}]}], 99, [], 0, {[], 0})}]},
      {sys_alloc, [{instance, 0, [{options, [{m, libc}]}]}]},
      {mseg_alloc, [{instance, 0, segments(2, {1, 8})}, {instance, 1, segments(3, {0, 4})},
                    {instance, 2, segments(0, {0, 0})}]}]}.

instance(Blocks, Size, PoolBlocks, PoolSize, {SBlocks, SSize}) ->
    [{versions, "0.9", "3.0"}, {options, [{e, true}]},
     {mbcs, [{blocks, Blocks}, {carriers, 1, 1, 1}, {carriers_size, Size, Size, Size + 1000}]},
     {mbcs_pool, [{blocks, PoolBlocks}, {carriers, 1}, {carriers_size, PoolSize}]},
     {sbcs, [{blocks, SBlocks}, {carriers, 1, 1, 1}, {carriers_size, SSize, SSize, SSize * 2}]},
     {calls, []}].

segments(Hits, {Giga, Calls}) ->
    [{version, "0.9"}, {options, []},
     {memkind, [{name, "all memory"}, {status, [{cache_hits, Hits}]},
                {calls, [{mseg_alloc, Giga, Calls}]}]}].

figures_are_those_worked_out_by_hand(Config) ->
    #{raw := File} = files(Config),
    undefined = sonde_alloc:snapshot_load(File),
    ok = now_by_hand(),
    ok = maximum_by_hand(),
    ok = hit_rates_by_hand(),
    ok = kept_by_hand(),
    %% The same again, saved in recon's form.
    Again = filename:join(proplists:get_value(priv_dir, Config), "again"),
    ok = sonde_alloc:snapshot_save(Again),
    Before = sonde_alloc:snapshot_get(),
    Before = sonde_alloc:snapshot_load(Again),
    Before = sonde_alloc:snapshot_get(),
    ok = now_by_hand(),
    ok = maximum_by_hand(),
    Before = sonde_alloc:snapshot_clear(),
    ok.

now_by_hand() ->
    %% ets 0: 300 + 3000, ets 1: 100 + 400 + 50, binary 1: 90
    3940 = sonde_alloc:memory(used),
    %% ets 0: 1000 + 4000, ets 1: 2000 + 500, binary 1: 100
    7600 = sonde_alloc:memory(allocated),
    3660 = sonde_alloc:memory(unused),
    Usage = 3940 / 7600,
    Usage = sonde_alloc:memory(usage),
    [{binary_alloc, 100}, {ets_alloc, 7500}, {std_alloc, 0}] = sonde_alloc:memory(allocated_types),
    [{0, 5000}, {1, 2600}] = sonde_alloc:memory(allocated_instances),
    SUsage = 3000 / 4000,
    MUsage0 = 300 / 1000,
    MUsage1 = 550 / 2500,
    [{{ets_alloc, 1}, [{sbcs_usage, 1.0}, {mbcs_usage, MUsage1},
                       {sbcs_block_size, 0}, {sbcs_carriers_size, 0},
                       {mbcs_block_size, 550}, {mbcs_carriers_size, 2500}]}, % 1950 unused
     {{ets_alloc, 0}, [{sbcs_usage, SUsage}, {mbcs_usage, MUsage0},
                       {sbcs_block_size, 3000}, {sbcs_carriers_size, 4000},
                       {mbcs_block_size, 300}, {mbcs_carriers_size, 1000}]}, % 1700
     {{binary_alloc, 1}, [{sbcs_usage, 0.9}, {mbcs_usage, 1.0},
                          {sbcs_block_size, 90}, {sbcs_carriers_size, 100},
                          {mbcs_block_size, 0}, {mbcs_carriers_size, 0}]}, % 10
     {{std_alloc, 0}, [{sbcs_usage, 1.0}, {mbcs_usage, 1.0} | _]}] =
        sonde_alloc:fragmentation(current),
    MSize = (300 + 100 + 400 + 50) / (3 + 2 + 4 + 6),
    [{binary_alloc, [{mbcs, 0}, {sbcs, 90.0}]},
     {ets_alloc, [{mbcs, MSize}, {sbcs, 3000.0}]},
     {std_alloc, [{mbcs, 0}, {sbcs, 0}]}] = sonde_alloc:average_block_sizes(current),
    Third = 1 / 3,
    None = 0 / 12,
    [{{binary_alloc, 1}, infinity}, {{ets_alloc, 0}, Third}, {{std_alloc, 0}, 0},
     {{ets_alloc, 1}, None}] = sonde_alloc:sbcs_to_mbcs(current),
    ok.

%% Without the pool, which keeps no maximum.
maximum_by_hand() ->
    %% ets 0: 500 + 6000, ets 1: 100 + 700, binary 1: 90
    7390 = sonde_alloc:memory(used, max),
    %% ets 0: 2000 + 8000, ets 1: 3000, binary 1: 1000 + 200, std 0: 1000
    15200 = sonde_alloc:memory(allocated, max),
    [{binary_alloc, 1200}, {ets_alloc, 13000}, {std_alloc, 1000}] =
        sonde_alloc:memory(allocated_types, max),
    [{0, 11000}, {1, 4200}] = sonde_alloc:memory(allocated_instances, max),
    MSize = (500 + 100 + 700) / (5 + 2 + 4),
    {ets_alloc, [{mbcs, MSize}, {sbcs, 3000.0}]} =
        lists:keyfind(ets_alloc, 1, sonde_alloc:average_block_sizes(max)),
    [{_, infinity}, {{ets_alloc, 0}, 0.4} | _] = sonde_alloc:sbcs_to_mbcs(max),
    ok.

%% Calls are counted in two numbers: thousands of millions, and the rest.
hit_rates_by_hand() ->
    Rate = 2 / 1000000008,
    [{{instance, 0}, [{hit_rate, Rate}, {hits, 2}, {calls, 1000000008}]},
     {{instance, 1}, [{hit_rate, 0.75}, {hits, 3}, {calls, 4}]},
     {{instance, 2}, [{hit_rate, 1.0}, {hits, 0}, {calls, 0}]}] = sonde_alloc:cache_hit_rates(),
    ok.

kept_by_hand() ->
    {[{total, 1000}], All} = sonde_alloc:snapshot_get(),
    [{ets_alloc, 0}, {ets_alloc, 1}, {binary_alloc, 1}, {std_alloc, 0}, {literal_alloc, 0},
     {sys_alloc, 0}, {mseg_alloc, 0}, {mseg_alloc, 1}, {mseg_alloc, 2}] = [K || {K, _} <- All],
    {_, [{calls, []},
         {mbcs, [{blocks, 6, 6, 6}, {blocks_size, 500, 500, 800},
                 {foreign_blocks, [{binary_alloc, [{count, 4, 4, 4}, {size, 400, 400, 700}]}]},
                 {raw_blocks, [{ets_alloc, _}, {binary_alloc, _}]},
                 {carriers, 1, 1, 1}, {carriers_size, 2000, 2000, 3000}]},
         {mbcs_pool, [{blocks, 6}, {blocks_size, 50}, {foreign_blocks, [{binary_alloc, _}]},
                      {raw_blocks, [{binary_alloc, _}]}, {carriers, 1}, {carriers_size, 500}]},
         {options, [{e, true}]},
         {sbcs, [{blocks, 0, 0, 0}, {blocks_size, 0, 0, 0}, {foreign_blocks, []},
                 {raw_blocks, []} | _]}]} = lists:keyfind({ets_alloc, 1}, 1, All),
    ok.

%% Figures that recon sums wrongly: counters of calls, and the bytes of the fixed types.
large() ->
    [{{fix_alloc, N}, [{calls, [{fix_alloc, 1, 600000000}]},
                       {fix_types, [{proc, 3000000, 2000000}]},
                       {mbcs_pool, [{fetch, 0, 900000}]}]} || N <- [0, 1]].

sums_do_not_lose_the_giga(Config) ->
    #{large := File} = files(Config),
    undefined = sonde_alloc:snapshot_load(File),
    [{{fix_alloc, [1, 0]}, [{calls, [{fix_alloc, 3, 200000000}]},
                            {fix_types, [{proc, 6000000, 4000000}]},
                            {mbcs_pool, [{fetch, 0, 1800000}]}]}] = sonde_alloc:allocators(types),
    _ = sonde_alloc:snapshot_clear(),
    ok.

%% ---- the formats

%% Raw snapshots of live nodes of OTP 25, 27 and 29 (one scheduler, one carrier pool for all).
snapshots_of_each_release_are_read(Config) ->
    _ = [ok = is_read(File) || Otp <- ["25", "27", "29"],
                               File <- [filename:join(proplists:get_value(data_dir, Config),
                                                      "otp" ++ Otp ++ ".raw")]],
    ok.

is_read(File) ->
    {ok, [{Memory, Raw}]} = file:consult(File),
    undefined = sonde_alloc:snapshot_load(File),
    {Memory, All} = sonde_alloc:snapshot_get(),
    {Used, Used} = {all_that_is(size, 2, Raw), sonde_alloc:memory(used)},
    {Allocated, Allocated} = {all_that_is(carriers_size, 2, Raw), sonde_alloc:memory(allocated)},
    Binary = proplists:get_value(binary, Memory),
    Binary = of_type(binary_alloc, fun(_) -> true end, All),
    true = of_type(binary_alloc, fun(A) -> A =/= binary_alloc end, All) > 0,
    [] = [Key || {Key, Props} <- All, {Kind, C} <- Props, lists:member(Kind, ?CONTAINERS),
                 is_list(element(2, lists:keyfind(blocks, 1, C)))],
    _ = [true = length(apply(sonde_alloc, F, Args)) > 0
         || F <- [fragmentation, average_block_sizes, sbcs_to_mbcs, allocators],
            Args <- [[current], [max], [types]], (F =:= allocators) =:= (Args =:= [types])],
    true = sonde_alloc:memory(used, max) > 0,
    2 = length(sonde_alloc:cache_hit_rates()),
    {Memory, All} = sonde_alloc:snapshot_clear(),
    ok.

%% Summed in the simplest way: the field at Pos of all tuples with this name, at any depth.
all_that_is(Name, Pos, Raw) ->
    lists:sum([found(Name, Pos, Container)
               || {A, Instances} <- Raw, lists:member(A, ?ALLOCATORS), is_list(Instances),
                  {instance, _, Props} <- Instances,
                  {Kind, Container} <- Props, lists:member(Kind, ?CONTAINERS)]).

found(Name, Pos, T) when is_tuple(T), element(1, T) =:= Name -> element(Pos, T);
found(Name, Pos, T) when is_tuple(T) -> found(Name, Pos, tuple_to_list(T));
found(Name, Pos, [H | T]) -> found(Name, Pos, H) + found(Name, Pos, T);
found(_, _, _) -> 0.

%% The bytes of blocks of a type, in the carriers of these allocators.
of_type(Type, Where, All) ->
    lists:sum([element(2, lists:keyfind(size, 1, Figures))
               || {{A, _}, Props} <- All, Where(A), {Kind, C} <- Props,
                  lists:member(Kind, ?CONTAINERS),
                  {raw_blocks, Types} <- C, {T, Figures} <- Types, T =:= Type]).

binary_bytes() ->
    lists:sum([proplists:get_value(Figure, Row)
               || {{binary_alloc, _}, Row} <- sonde_alloc:fragmentation(current),
                  Figure <- [sbcs_block_size, mbcs_block_size]]).

%% recon raises notsup in all of these, since erlang:memory() does.
node_that_uses_malloc_alone_is_read(_Config) ->
    _ = [sonde_peer_helper:with(shipped, Args, fun(Peer) -> ok = is_answered(Peer, On) end)
         || {Args, On} <- [{["+Mea", "min"], [temp_alloc]},
                           {["+MEe", "false", "+MBe", "false"],
                            ?ALLOCATORS -- [ets_alloc, binary_alloc]}]],
    ok.

is_answered(Peer, On) ->
    Call = fun(F, Args) -> sonde_peer_helper:call(Peer, sonde_alloc, F, Args) end,
    _ = [true = is_number(Call(memory, [K, W])) || K <- [used, allocated, unused, usage],
                                                   W <- [current, max]],
    Sorted = lists:sort(On),
    Sorted = keys(Call(memory, [allocated_types])),
    _ = [Sorted = lists:usort([A || {{A, _}, _} <- Call(F, [current])])
         || F <- [fragmentation, sbcs_to_mbcs]],
    undefined = Call(snapshot_get, []),
    true = length(Call(allocators, [])) >= length(On),
    {[], All} = sonde_peer_helper:call(Peer, ?MODULE, crowd, [kept]),
    true = is_list(All),
    true = is_list(Call(allocators, [types])),
    true = is_list(Call(cache_hit_rates, [])),
    ok.

%% On a live node: the sums include blocks that moved into the carriers of another allocator.
blocks_of_others_count(_Config) ->
    sonde_peer_helper:with(shipped, ["+S", "2:2", "+Mucp", "@"], fun(Peer) ->
        Call = fun(M, F, Args) -> sonde_peer_helper:call(Peer, M, F, Args) end,
        ok = Call(?MODULE, crowd, [fun sonde_alloc:allocators/0]),
        {_, All} = Call(?MODULE, crowd, [kept]),
        true = lists:sum([of_type(T, fun(A) -> A =/= T end, All) || T <- ?ALLOCATORS]) > 0,
        Summed = fun(A) -> lists:member(A, ?ALLOCATORS) end,
        Used = fun(Of) -> lists:sum([of_type(T, Summed, Of) || T <- ?ALLOCATORS]) end,
        put(recon_alloc_snapshot, {[], All}),
        true = Used(All) =:= sonde_alloc:memory(used),
        _ = sonde_alloc:snapshot_clear(),
        %% The live figures come from another call, and another scheduler may free memory in
        %% between.
        sonde_test:until(live_figures_are_near, fun() ->
            {_, Now} = Call(?MODULE, crowd, [kept]),
            abs(Call(sonde_alloc, memory, [used]) - Used(Now)) < 4000000
        end)
    end).

%% In a peer: makes carriers of all kinds, with blocks in the pool and blocks of other allocators.
%% The processes that hold them stay.
crowd(kept) ->
    undefined = sonde_alloc:snapshot(),
    sonde_alloc:snapshot_clear();
crowd(Allocators) ->
    crowd(Allocators, 20).

crowd(Allocators, Times) when Times > 0 ->
    _ = [spawned(fun() -> {thin(), large_ones(), table()} end) || _ <- [1, 2, 3, 4]],
    _ = [spawned(fun table/0) || _ <- [1, 2, 3, 4]],
    Containers = [C || {_, Props} <- Allocators(), C = {Kind, _} <- Props,
                       lists:member(Kind, ?CONTAINERS)],
    case [x || {mbcs_pool, C} <- Containers, {blocks, N} <- C, N > 0] =/= []
        andalso [x || {sbcs, C} <- Containers, {blocks, N, _, _} <- C, N > 0] =/= []
        andalso [x || {mbcs, C} <- Containers, {foreign_blocks, [_ | _]} <- C] =/= [] of
        true -> ok;
        false -> crowd(Allocators, Times - 1)
    end.

spawned(Fun) ->
    Parent = self(),
    Pid = spawn(fun() ->
                        Held = Fun(),
                        Parent ! {held, self()},
                        sonde_test:park(Held)
                end),
    receive {held, Pid} -> ok end.

%% One block of many in each carrier.
thin() ->
    All = [binary:copy(<<I:32>>, 100 + I rem 50) || I <- lists:seq(1, 60000)],
    Kept = [B || {I, B} <- lists:zip(lists:seq(1, 60000), All), I rem 400 =:= 0],
    true = garbage_collect(),
    Kept.

large_ones() -> [binary:copy(<<1>>, 2000000)].

table() ->
    T = ets:new(t, []),
    true = ets:insert(T, [{I, lists:seq(1, I rem 40)} || I <- lists:seq(1, 5000)]),
    T.

%% ---- compared with other calls of the emulator

%% erlang:memory(binary) is another count of the same blocks.
blocks_of_binaries_are_what_memory_says(_Config) ->
    Memory = fun() -> erlang:memory(binary) end,
    ok = sonde_test:same(blocks, Memory, fun binary_bytes/0),
    ok = sonde_test:same(blocks_of_a_snapshot, Memory,
                         fun() ->
                                 _ = sonde_alloc:snapshot(),
                                 Binary = binary_bytes(),
                                 {All, _} = sonde_alloc:snapshot_clear(),
                                 case proplists:get_value(binary, All) of
                                     Binary -> Binary;
                                     Other -> {Other, Binary} % right only if the node moved
                                 end
                         end).

%% No other process may allocate as much meanwhile.
planted_binary_is_seen(_Config) ->
    Size = 64 * 1024 * 1024,
    Look = fun() -> [sonde_alloc:memory(used), binary_bytes(), sonde_alloc:memory(allocated),
                     proplists:get_value(binary_alloc, sonde_alloc:memory(allocated_types))] end,
    ok = sonde_test:still(fun() ->
        Before = at_rest(Look, Look()),
        Pid = sonde_test:hold(fun() -> binary:copy(<<1>>, Size) end),
        Holds = Look(),
        ok = sonde_test:stop(Pid),
        {Before, Holds, true} = {Before, Holds, lists:all(fun(G) -> is_about(Size, G) end,
                                                          grown(Before, Holds))},
        %% The block is freed later, by the scheduler that it is given back to.
        sonde_test:until(blocks_are_free, fun() ->
            lists:all(fun(G) -> is_about(Size, G) end,
                      lists:sublist(grown(Look(), Holds), 2))
        end)
    end).

%% What processes freed before they were suspended is given back later, by the schedulers.
at_rest(Look, Last) ->
    timer:sleep(200),
    case Look() of
        Last -> Last;
        Other -> at_rest(Look, Other)
    end.

grown(From, To) -> [B - A || {A, B} <- lists:zip(From, To)].

is_about(Size, Growth) -> abs(Growth - Size) < Size div 8.

%% All memory of carriers came from mseg_alloc or from sys_alloc, apart from the pools.
carriers_are_what_was_asked_of_the_system(_Config) ->
    _ = sonde_alloc:snapshot(),
    {_, All} = sonde_alloc:snapshot_get(),
    Parts = [element(2, P) || {{A, _}, Props} <- All, lists:member(A, ?ALLOCATORS),
                              {Kind, C} <- Props, lists:member(Kind, ?CONTAINERS), P <- C,
                              lists:member(element(1, P), [mseg_alloc_carriers_size,
                                                           sys_alloc_carriers_size])
                                  orelse Kind =:= mbcs_pool
                                         andalso element(1, P) =:= carriers_size],
    Allocated = lists:sum(Parts),
    Allocated = sonde_alloc:memory(allocated),
    Allocated = lists:sum([Bytes || {_, Bytes} <- sonde_alloc:memory(allocated_types)]),
    Allocated = lists:sum([Bytes || {_, Bytes} <- sonde_alloc:memory(allocated_instances)]),
    Instances = lists:seq(0, erlang:system_info(schedulers)),
    Instances = keys(sonde_alloc:memory(allocated_instances)),
    _ = sonde_alloc:snapshot_clear(),
    ok.

%% ---- snapshots

figures_wait_in_the_snapshot(_Config) ->
    undefined = sonde_alloc:snapshot(),
    Calls = [C || {F, _} = C <- calls(), F =/= snapshot_print],
    Ask = fun() -> [apply(sonde_alloc, F, Args) || {F, Args} <- Calls] end,
    First = Ask(),
    Held = [binary:copy(<<I>>, 1000000) || I <- lists:seq(1, 5)],
    First = Ask(),
    Snapshot = sonde_alloc:snapshot(),
    Snapshot = lists:nth(index({snapshot_get, []}, Calls), First),
    false = First =:= Ask(),
    5 = length(Held),
    {_, _} = sonde_alloc:snapshot_clear(),
    undefined = sonde_alloc:snapshot_clear(),
    undefined = sonde_alloc:snapshot_get(),
    ok.

index(Element, [Element | _]) -> 1;
index(Element, [_ | Rest]) -> 1 + index(Element, Rest).

%% Under recon's key and in its form: recon may have been called before in this shell.
snapshot_of_recon_in_the_dictionary_is_ours(_Config) ->
    put(recon_alloc_snapshot,
        {[], [{{ets_alloc, 1},
               [{mbcs, [{blocks, 1, 1, 1}, {blocks_size, 2048, 3, 4}, {foreign_blocks, []},
                        {raw_blocks, []}, {carriers, 1, 1, 1}, {carriers_size, 4096, 5, 6}]},
                {sbcs, []}]}]}),
    put(recon_alloc_unit, 1024),
    {2.0, 4.0, 0.5} = {sonde_alloc:memory(used), sonde_alloc:memory(allocated),
                       sonde_alloc:memory(usage)},
    1024 = sonde_alloc:set_unit(byte),
    undefined = sonde_alloc:set_unit(gigabyte),
    1073741824 = sonde_alloc:set_unit(byte),
    undefined = get(recon_alloc_unit),
    2048 = sonde_alloc:memory(used),
    {[], [_]} = sonde_alloc:snapshot_clear(),
    ok.

file_that_cannot_be_loaded_leaves_the_snapshot(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "bad"),
    ok = file:write_file(File, "{[], []}. {"),
    undefined = sonde_alloc:snapshot(),
    Snapshot = sonde_alloc:snapshot_get(),
    {badmatch, {error, _}} = try sonde_alloc:snapshot_load(File) catch error:Why -> Why end,
    Snapshot = sonde_alloc:snapshot_clear(),
    ok.

%% erlang:alloc_sizes/1 and alloc_info/1 are not documented: a release may remove them.
answers_without_the_undocumented_call(_Config) ->
    {ok, {_, [{abstract_code, {_, Forms}}]}} =
        beam_lib:chunks(code:which(sonde_alloc), [abstract_code]),
    {ok, Module, Beam} = compile:forms(renamed(Forms), [binary]),
    {module, Module} = code:load_binary(Module, "", Beam),
    _ = [{F, Args, Shape} = {F, Args, sonde_conform:shape(keys_or_value(apply(Module, F, Args)))}
         || {F, Args} <- calls(), F =/= snapshot_print,
            Shape <- [sonde_conform:shape(keys_or_value(apply(sonde_alloc, F, Args)))]],
    Keys = [Key || {Key, _} <- sonde_alloc:allocators()],
    Keys = [Key || {Key, _} <- Module:allocators()],
    true = code:delete(Module),
    _ = code:purge(Module),
    ok.

renamed(alloc_sizes) -> alloc_sizes_that_is_not;
renamed(alloc_info) -> alloc_info_that_is_not;
renamed(sonde_alloc) -> sonde_alloc_of_another_release;
renamed(T) when is_tuple(T) -> list_to_tuple(renamed(tuple_to_list(T)));
renamed([H | T]) -> [renamed(H) | renamed(T)];
renamed(T) -> T.

keys_or_value([{_, _} | _] = Rows) -> keys(Rows);
keys_or_value(Value) -> Value.

no_message_reaches_the_caller(_Config) ->
    sonde_test:no_message(fun() ->
        [apply(sonde_alloc, F, Args) || {F, Args} <- [{allocators, []}, {snapshot, []} | calls()],
                                        F =/= snapshot_print]
    end).
