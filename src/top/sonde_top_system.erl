%% @private
%% The page of the whole system of {@link sonde:top/1}: limits, each scheduler, what the allocators do,
%% connections to other nodes, and the memory of the machine.
-module(sonde_top_system).

-export([take/0, os_memory/2, lines/2]).

-include_lib("kernel/include/net_address.hrl").

-define(PATIENCE_MS, 1000).
-define(MEMINFO, "/proc/meminfo").
-define(LONGEST, 65536).      % bytes of that file
-define(MOST_NODES, 100).
-define(ASK_MS, 500).

-type os_memory() :: {Source :: string(), [{atom(), non_neg_integer()}]} | unanswered | unknown.

%% ---- on the node

-spec take() -> #{atom() => term()}.
take() ->
    {Switches, _} = erlang:statistics(context_switches),
    {Collections, Words, _} = erlang:statistics(garbage_collection),
    {{input, In}, {output, Out}} = erlang:statistics(io),
    #{system => [{erlang, erlang:system_info(version)}, {emulator, emulator()},
                 {built_for, erlang:system_info(system_architecture)},
                 {word_bytes, erlang:system_info(wordsize)},
                 {port_parallelism, erlang:system_info(port_parallelism)}],
      processors => [{Key, N} || Key <- [logical_processors, logical_processors_available],
                                 N <- [erlang:system_info(Key)], is_integer(N)]
      ++ [{Key, erlang:system_info(Key)}
          || Key <- [schedulers, schedulers_online, dirty_cpu_schedulers, dirty_io_schedulers]]
      ++ [{async_threads, erlang:system_info(thread_pool_size)}],
      counters => [{active_tasks, erlang:statistics(total_active_tasks_all)}, {context_switches, Switches}, {collections, Collections},
                   {gc_words_reclaimed, Words}, {input, In}, {output, Out}],
      queues => erlang:statistics(run_queue_lengths_all),
      os => os_memory(?MEMINFO, whereis(memsup)), resident => sonde_memory:resident(), virtual => sonde_memory:virtual(),
      allocators => allocators(), hits => sonde_alloc:cache_hit_rates(), nodes => connections(),
      queue_limit => erlang:system_info(dist_buf_busy_limit), most_single => ratios(max)}.

%% The item exists from OTP 24 on.
emulator() -> lists:concat([erlang:system_info(emu_flavor), " ", erlang:system_info(emu_type)]).

allocators() ->
    [Now, Most] = [maps:from_list(sonde_alloc:average_block_sizes(When)) || When <- [current, max]],
    Ratios = ratios(current),
    [{atom_to_list(Allocator), Bytes,
      [proplists:get_value(Of, maps:get(Allocator, Sizes, []), 0)
       || Of <- [mbcs, sbcs], Sizes <- [Now, Most]],
      maps:get(atom_to_list(Allocator), Ratios, 0)}
     || {Allocator, Bytes} <- lists:reverse(lists:keysort(2, sonde_alloc:memory(allocated_types)))].

%% Of the instance with the highest.
ratios(When) ->
    maps:from_list(lists:reverse([{atom_to_list(Allocator), Ratio} || {{Allocator, _}, Ratio} <- sonde_alloc:sbcs_to_mbcs(When)])).

%% Of connections that are no ports, as those by TLS, `net_kernel' knows packets and address: it asks the owner of each
%% connection, which may not answer. All of them are up.
connections() ->
    All = erlang:system_info(dist_ctrl),
    {Ports, _} = sonde_facts_ports:nodes_first(),
    Others = [Node || {Node, _} <- lists:sublist(All, ?MOST_NODES), not lists:keymember(Node, 1, Ports)],
    Known = known(Others),
    Hidden = nodes(hidden),
    Row = fun(Node, Address, Traffic) ->
                  {atom_to_list(Node), case lists:member(Node, Hidden) of true -> hidden; false -> normal end, Address, Traffic}
          end,
    {length(All), [Row(Node, peer(Port), [received(Port), Sent, Queued])
                   || {Node, Port, Queued, Sent} <- lists:sublist(Ports, ?MOST_NODES)]
     ++ [Row(Node, Address, [In, Out, undefined])
         || Node <- Others, {Address, In, Out} <- [maps:get(Node, Known, {undefined, undefined, undefined})]]}.

known([]) ->
    #{};
known(Nodes) ->
    Asked = fun(Caller) ->
                    sonde_top_rows:ask([{Node, fun() -> net_kernel:node_info(Node) end} || Node <- Nodes], fun counted/3, #{},
                                       {sonde_top_rows:until(?ASK_MS), Caller})
            end,
    case sonde_top_rows:native(fun() -> sonde_helper:call(Asked) end) of
        #{} = Known -> Known;
        {error, _} -> #{}
    end.

counted(Node, {ok, {ok, Info}}, Found) ->
    case [N || Key <- [in, out], {_, N} <- [lists:keyfind(Key, 1, Info)], is_integer(N)] of
        [In, Out] ->
            Address = [sonde_top_network:address(At) || {address, #net_address{address = At}} <- Info, At =/= undefined],
            Found#{Node => {hd(Address ++ [undefined]), {packets, In}, {packets, Out}}};
        _ -> Found
    end;
counted(_, _, Found) ->
    Found.

peer(Port) ->
    case inet:peername(Port) of
        {ok, Address} -> sonde_top_network:address(Address);
        {error, _} -> undefined
    end.

received(Port) ->
    case inet:getstat(Port, [recv_oct]) of
        {ok, [{recv_oct, Bytes}]} -> Bytes;
        {error, _} -> undefined
    end.

%% @doc The memory of the machine: from a file of Linux, or else from `memsup' of os_mon if that runs.
-spec os_memory(file:filename(), pid() | undefined) -> os_memory().
os_memory(File, Memsup) ->
    case meminfo(first_bytes(File)) of
        [] when is_pid(Memsup) -> memsup(memsup);
        [] -> unknown;
        Known -> {File, Known}
    end.

%% Opened like that, no process of the node is called.
first_bytes(File) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Open} ->
            Read = file:read(Open, ?LONGEST),
            ok = file:close(Open),
            Read;
        {error, _} = Error ->
            Error
    end.

meminfo({ok, Text}) ->
    [{Key, binary_to_integer(Kilobytes) * 1024}
     || {Key, Name} <- [{total, "MemTotal"}, {available, "MemAvailable"}, {free, "MemFree"},
                        {cached, "Cached"}, {swap_total, "SwapTotal"}, {swap_free, "SwapFree"}],
        {match, [Kilobytes]} <- [re:run(Text, ["^", Name, ":\\s*([0-9]{1,15}) kB"],
                                        [multiline, {capture, [1], binary}])]];
meminfo(_) ->
    [].

%% The name is a variable, as os_mon is optional.
memsup(Memsup) ->
    case sonde_top_rows:within(?PATIENCE_MS, fun() -> Memsup:get_system_memory_data() end) of
        {ok, [_ | _] = Data} ->
            {"memsup", [{Key, Bytes}
                        || {Key, Its} <- [{total, system_total_memory}, {available, available_memory},
                                          {free, free_memory}, {cached, cached_memory},
                                          {swap_total, total_swap}, {swap_free, free_swap}],
                           Bytes <- [proplists:get_value(Its, Data)], is_integer(Bytes)]};
        unanswered ->
            unanswered;
        _ ->
            unknown
    end.

%% ---- how it looks

-spec lines(sonde_top_model:model(), sonde_top_text:style()) ->
    {sonde_top_text:line(), [[sonde_top_text:line()]]}.
lines(#{from := From, sample := #{body := Body, head := Head}} = Model, Style) ->
    #{system := System, processors := Processors, counters := Counters, queues := Queues, os := Os,
      resident := Resident, virtual := Virtual, allocators := Allocators, hits := Hits, nodes := Nodes} = Body,
    Ours = processor(Head, Model) ++ resident(Resident, Os, Style)
        ++ [["virtual ", sonde_top_text:text(bytes, Virtual, Style)] || Virtual =/= undefined],
    All = lists:append(
            [schedulers(Head, Model, Queues, Style), os(Os, Ours, Style),
             limits(maps:get(limits, Head), Style),
             sonde_top_text:pairs(System, Style), sonde_top_text:pairs(Processors, Style),
             sonde_top_text:pairs(Counters, Style), allocators(Allocators, maps:get(most_single, Body, #{}), Style), hits(Hits, Style),
             connected(Nodes, Style), limit(Nodes, Body, Style)]), % an older node sends neither limit nor largest ratios
    %% The last lines stay on the page.
    {"system", [lists:nthtail(max(0, min(From, length(All) - sonde_top_model:room(Model))), All)]}.

%% Dirty CPU schedulers come after the others. Each has its share of the time, and of the queues
%% those that wait; dirty ones share a queue, the last two are those of the dirty ones.
schedulers(#{times := Now, schedulers := N}, #{before := #{times := Before}}, Queues, Style)
  when length(Before) =:= length(Now), Now =/= [] ->
    Usage = sonde_lib:scheduler_usage_diff(Before, Now),
    Waiting = maps:from_list(lists:zip(lists:seq(1, length(Queues)), Queues)),
    sonde_top_text:flow(
      ["schedulers" | [[integer_to_list(Id), " ", sonde_top_text:bar(Share, Style), " ",
                        sonde_top_text:percent(Share), waiting(maps:get(Id, Waiting, 0))]
                       || {Id, Share} <- Usage, Id =< N]]
      ++ ["dirty" | [[integer_to_list(Id - N), " ", sonde_top_text:bar(Share, Style), " ",
                      sonde_top_text:percent(Share)] || {Id, Share} <- Usage, Id > N]]
      ++ [["waiting for dirty ones ", integer_to_list(lists:sum(lists:nthtail(N, Queues)))]
          || length(Queues) > N], Style);
schedulers(_, _, _, Style) ->
    [sonde_top_text:cut("schedulers: no times yet", Style)].

waiting(0) -> "";
waiting(N) -> [" +", integer_to_list(N)].

os({Source, Known}, Ours, Style) ->
    sonde_top_text:flow([["machine (", Source, ")"]
                         | [[sonde_top_text:name(Key), " ", sonde_top_text:text(bytes, Bytes, Style)]
                            || {Key, Bytes} <- Known]], Style) ++ ours(Ours, Style);
os(unknown, Ours, Style) ->
    [sonde_top_text:cut("memory of the machine not known: no /proc/meminfo, and os_mon does not run", Style)
     | ours(Ours, Style)];
os(unanswered, Ours, Style) ->
    [sonde_top_text:cut("memory of the machine not known: memsup did not answer in time", Style)
     | ours(Ours, Style)].

ours(Ours, Style) -> sonde_top_text:flow([["this node's " | hd(Ours)] | tl(Ours)], Style).

%% Since the sample before, of one processor: more than 100 % if several work.
processor(#{at := Now, counters := #{runtime := Is}},
          #{before := #{at := Then, counters := #{runtime := Was}}}) when Now > Then ->
    [["processor time ", sonde_top_text:percent((Is - Was) / (Now - Then))]];
processor(_, _) ->
    [["processor time -"]].

resident(undefined, _, _) ->
    [];
resident(Bytes, Os, Style) ->
    [["resident set ", sonde_top_text:text(bytes, Bytes, Style),
      [[" (", sonde_top_text:percent(Bytes / Total), ")"]
       || {_, [{total, Total} | _]} <- [Os], Total > 0]]].

limits(Limits, Style) ->
    sonde_top_text:flow([[atom_to_list(Kind), " ", sonde_top_text:text(count, N, Style), " of ",
                          sonde_top_text:text(count, Most, Style)] || {Kind, N, Most} <- Limits], Style).

allocators(Rows, Largest, Style) ->
    sonde_top_text:table(["allocator   ", "  carriers", "mean mbc", "       max", "mean sbc", "       max",
                          "sbc/mbc", "    max"],
                         [[{text, Name}, sonde_top_text:value(bytes, Bytes, Style)]
                          ++ [sonde_top_text:value(bytes, case is_float(Size) of
                                                              true -> round(Size);
                                                              false -> Size
                                                          end, Style) || Size <- Sizes]
                          ++ [{number, ratio(Ratio)}, case Largest of #{Name := Most} -> {number, ratio(Most)}; #{} -> none end]
                          || {Name, Bytes, Sizes, Ratio} <- Rows], Style).

ratio(Ratio) when is_number(Ratio) -> io_lib:format("~.3f", [float(Ratio)]);
ratio(infinity) -> "no multi".

hits([], _) -> [];
hits(Rows, Style) ->
    sonde_top_text:flow(["cache of segments, hits" |
                         [io_lib:format("~b: ~b of ~b", [Instance, proplists:get_value(hits, Of),
                                                         proplists:get_value(calls, Of)])
                          || {{_, Instance}, Of} <- Rows]], Style).

connected({0, _}, _) -> ["no connection to another node"];
connected({N, Known}, Style) ->
    sonde_top_text:table(["connected to", "  received", "      sent", "to be sent", "type", "address"],
                         [[{text, Name} | [traffic(Value, Style) || Value <- Traffic]]
                          ++ [{text, atom_to_list(Type)}, case Address of undefined -> none; _ -> {text, Address} end]
                          || {Name, Type, Address, Traffic} <- Known], Style)
        ++ [["... ", integer_to_list(N - length(Known)), " more"] || N > length(Known)].

limit({N, _}, #{queue_limit := Limit}, Style) when N > 0 ->
    [sonde_top_text:cut(["senders are suspended if ", sonde_top_text:text(bytes, Limit, Style), " or more wait for a connection"], Style)];
limit(_, _, _) ->
    [].

traffic({packets, 1}, _) -> {number, "1 packet"};
traffic({packets, N}, Style) -> {number, [sonde_top_text:text(count, N, Style), " packets"]};
traffic(Bytes, Style) -> sonde_top_text:value(bytes, Bytes, Style).
