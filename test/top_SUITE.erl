%% sonde:top: what each page looks like (the files in top_SUITE_data, to the byte, from made-up
%% samples), what each key does, and that the live view starts, updates and ends as it should.
-module(top_SUITE).

-compile([export_all, nowarn_export_all]).

-import(sonde_test, [raised/1, until/2]).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [{group, looks}, {group, keys}, {group, samples}, {group, live}, {group, others}].

groups() ->
    [{looks, [], [looks_as_ever, rows_have_their_names, help_is_whole, elixir_is_as_elixir_writes_it,
                  no_line_is_too_long, numbers_are_never_cut, too_small_is_one_line, names_of_any_kind_fit,
                  plain_has_no_escapes, prompt_says_enter]},
     {keys, [], [every_key_of_a_line, keys_one_by_one_are_those_of_lines, special_keys,
                 same_key_again_is_growth, twice_is_growth, walked_attributes_have_no_growth,
                 every_native_attribute_has_a_key, a_number_is_a_row, rows_forth_and_back,
                 interval_has_bounds, pause_asks_for_nothing, deep_is_asked_once,
                 sample_of_another_page_is_not_shown, sample_of_other_rows_is_not_shown,
                 every_row_leads_to_its_process, up_leads_back, pages_have_their_own_order,
                 more_of_a_process, search_is_asked, nothing_is_skipped, own_pages_have_their_keys]},
     {samples, [], [owners_and_holders_have_names, settings_are_those_of_the_calls, rows_are_those_of_proc_count, rows_of_growth, rows_of_a_page_only,
                    walked_attributes, every_page_has_a_sample, page_of_a_process,
                    page_of_the_dead, no_pid_leaves_the_node, search_by_name_pid_or_call,
                    search_on_other_pages, search_makes_no_atom, ports_and_sockets, page_of_a_port,
                    applications_are_those_of_proc_group, status_of_applications, labels_are_shown, tree_of_an_application, tree_is_bounded,
                    tree_of_what_does_not_answer, tree_of_what_is_not_there, machine_memory,
                    tables_of_mnesia, relations_of_a_process, stack_and_mailbox, own_page, own_page_that_is_none]},
     {live, [], [options_that_make_no_sense, shows_and_quits, caller_has_no_row, shows_again_and_again,
                 plain_shows_at_each_line, end_of_input_ends_it, ends_with_its_caller,
                 ends_with_its_terminal, terminal_that_is_stuck, leaves_the_terminal_as_it_was,
                 no_process_is_left, nothing_reaches_the_mailbox, times_are_measured_meanwhile,
                 node_that_is_not_there, own_pages_of_the_node]},
     {others, [], [another_node, traffic_by_tls, node_that_goes_away, node_that_hangs, node_without_sonde]}].

init_per_suite(Config) ->
    Term = os:getenv("TERM"),
    true = os:putenv("TERM", "xterm"),
    true = os:unsetenv("NO_COLOR"),
    sonde_test:init([{term, Term} | Config]).

end_per_suite(Config) ->
    case proplists:get_value(term, Config) of
        false -> os:unsetenv("TERM");
        Term -> os:putenv("TERM", Term)
    end.

%% The node from which other nodes are watched.
init_per_group(others, Config) -> [{here, sonde_peer_helper:start_node(shipped)} | Config];
init_per_group(_, Config) -> Config.

end_per_group(others, Config) ->
    {Here, _} = proplists:get_value(here, Config),
    sonde_peer_helper:stop(Here);
end_per_group(_, _Config) ->
    ok.

%% ---- goldens

looks_as_ever(Config) ->
    Dir = proplists:get_value(data_dir, Config),
    Bad = [{Name, Shown} || {Name, Shown} <- goldens(),
                            {ok, Shown} =/= file:read_file(golden(Dir, Name))],
    _ = [ct:pal("~s is now~n~ts", [Name, Shown]) || {Name, Shown} <- Bad],
    [] = [Name || {Name, _} <- Bad],
    [] = [Name ++ ".txt" || {Name, _} <- goldens()]
        -- [filename:basename(F) || F <- filelib:wildcard(filename:join(Dir, "*.txt"))].

%% The pages of processes, of tables, and of one process.
elixir_is_as_elixir_writes_it(_Config) ->
    Pid = sonde_elixir_helper:start(),
    Text = pid_to_list(Pid),
    Shown = fun(Keys, Sample) ->
                    Wide = sonde_top_model:size(200, 40, model(new(), {Keys, [Sample]})),
                    unicode:characters_to_list(lists:join($\n, sonde_top_view:lines(Wide, style())))
            end,
    Procs = Shown([], take({procs, {count, memory}})),
    true = has(Procs, " MyApp\\.Worker +MyApp\\.Worker\\.\"odd name\"/1"),
    Tables = Shown(["E"], take({ets, memory})),
    true = has(Tables, " MyApp\\.Worker +MyApp\\.Cache +MyApp\\.Cache"),
    Process = Shown([string:trim(Text, both, "<>")], take({process, Text})),
    true = has(Process, "process " ++ Text ++ "  MyApp\\.Worker *\n"),
    true = has(Process, "current function MyApp\\.Worker\\.\"odd name\"/1"),
    true = sonde_test:pick(has(Process, "dictionary / key MyApp\\.Key .*\\{MyApp\\.Value,\\["),
                           not has(Process, "MyApp\\.Key")),
    sonde_elixir_helper:stop(Pid).

%% Run in a shell, in test/: top_SUITE:write_goldens("top_SUITE_data"). Then review the files.
write_goldens(Dir) ->
    [ok = file:write_file(golden(Dir, Name), Shown) || {Name, Shown} <- goldens()].

golden(Dir, Name) ->
    filename:join(Dir, Name ++ ".txt").

goldens() ->
    [{Name ++ Suffix, shown(Model, Size, Style)}
     || {Suffix, Size, Style} <- [{"_80x24", {80, 24}, style()}, {"_120x40", {120, 40}, style()},
                                  {"_dumb", {80, 24}, #{unicode => false, color => false}}],
        {Name, Model} <- models()]
        ++ [{Name ++ "_40x24", shown(Model, {40, 24}, style())} || {Name, Model} <- models()]
        ++ [{"memory_color", shown(model(memory), {80, 24}, #{unicode => true, color => true})},
            {"memory_40x12", shown(model(memory), {40, 12}, style())},
            {"too_small", shown(model(memory), {39, 24}, style())}].

style() -> #{unicode => true, color => false}.

shown(Model, {Width, Height}, #{unicode := Unicode} = Style) ->
    Lines = sonde_top_view:lines(sonde_top_model:size(Width, Height, Model), Style),
    Screen = #{how => case Unicode of true -> shown; false -> plain end},
    unicode:characters_to_binary(
      case Screen of
          #{how := plain} -> sonde_top_screen:frame(Lines, "", Screen);
          _ -> [[Line, $\n] || Line <- Lines]
      end).

models() ->
    [{atom_to_list(Name), model(Name)} || Name <- names()].

names() ->
    [memory, growth, walked, walked_off, portable, nothing_yet, paused, help, process, process_off,
     process_gone, tables, tables_binaries, binaries, binaries_off, allocators, waits, waits_off,
     search, network, port, applications, tree, tree_not, mnesia, mnesia_not, system, system_portable,
     links, stack, mailbox, mailbox_not, own, own_not].

model(Name) when Name =:= own; Name =:= own_not -> model(own_new(), seen(Name));
model(Name) -> model(new(), seen(Name)).

new() -> new(memory).
new(Sort) -> sonde_top_model:new(#{interval => 1000, rows => auto, sort => Sort}).
own_new() -> sonde_top_model:new(#{interval => 1000, rows => auto, sort => memory, pages => own_pages()}).

own_pages() -> [{$O, "pools", sonde_own_page_helper}].

%% The last key may need a row of the samples before the last one.
model(Model, {[Page, "1"], Samples}) ->
    {Before, [Last]} = lists:split(length(Samples) - 1, Samples),
    sonde_top_model:sampled(Last, pressed(["1"], model(Model, {[Page], Before})));
model(Model, {Keys, Samples}) ->
    lists:foldl(fun sonde_top_model:sampled/2, pressed(Keys, Model), Samples).

pressed(Keys, Model) ->
    lists:foldl(fun(Key, M) ->
                        {go, New} = sonde_top_model:key(sonde_top_keys:line(Key), M),
                        New
                end, Model, Keys).

%% The keys that were typed, and the samples that the node then returned.
seen(memory) -> {[], samples({procs, {count, memory}}, procs())};
seen(growth) -> {["rr"], samples({procs, {growth, reductions}}, grown())};
seen(walked) -> {["g"], samples({procs, {count, garbage_bytes}},
                                (procs())#{left_out => 12, missed => [{"<0.77.0>", busy}]})};
seen(walked_off) -> {["x"], samples({procs, {count, binary_exclusive}},
                                    #{rows => [], error => {native_off, disabled}})};
seen(portable) -> {[], [off(S) || S <- samples({procs, {count, memory}}, procs())]};
seen(nothing_yet) -> {[], []};
seen(paused) -> {["p"], samples({procs, {count, memory}}, procs())};
seen(help) -> {["h"], samples(none, #{})};
seen(process) -> {["<0.123.0>"], samples({process, "<0.123.0>"}, process())};
seen(process_off) ->
    Off = {error, {native_off, disabled}},
    {["<0.123.0>"], samples({process, "<0.123.0>"},
                            (process())#{heap => Off, things => Off, slices => Off})};
seen(process_gone) -> {["0.123.0"], samples({process, "<0.123.0>"}, process())
                           ++ [sample(4, {process, "<0.123.0>"}, #{info => undefined})]};
seen(tables) -> {["E"], samples({ets, memory}, tables())};
seen(tables_binaries) -> {["E", "b"], samples({ets, binary_memory}, large_tables())};
seen(binaries) -> {["B"], samples(binaries, binaries())};
seen(binaries_off) ->
    Off = {error, {native_off, {unsupported, no_layout}}},
    {["B"], samples(binaries, #{account => Off, owned => Off, holders => Off})};
seen(waits) -> {["W"], samples(waits, #{waits => waits()})};
seen(waits_off) -> {["W"], samples(waits, #{waits => {error, {native_off, disabled}}})};
seen(allocators) -> {["A"], samples(allocators, allocators())};
seen(search) -> {["/my_server"], samples({procs, {count, memory}}, grown())};
seen(network) -> {["N"], samples({network, {count, oct}}, #{sockets => sockets()})};
seen(port) ->
    {["N", "1"], samples({network, {count, oct}}, #{sockets => sockets()})
     ++ [sample(4, {port, "#Port<0.12>"}, port())]};
seen(applications) -> {["G", "n"], samples(apps, applications())};
seen(tree) -> {["G", "1"], samples(apps, applications()) ++ [sample(4, {tree, "my_app"}, tree())]};
seen(tree_not) ->
    {["G", "1"], samples(apps, applications())
     ++ [sample(4, {tree, "my_app"}, #{nodes => {error, no_processes}})]};
seen(mnesia) -> {["M", "s"], samples({mnesia, size}, mnesia())};
seen(mnesia_not) -> {["M"], samples({mnesia, memory}, #{mnesia => not_running})};
seen(system) -> {["S"], samples(system, system())};
seen(system_portable) ->
    %% of an older node
    {["S", ">"], samples(system, (maps:without([queue_limit, most_single], system()))#{os => unknown, resident => undefined, virtual => undefined, hits => [], nodes => {0, []}})};
seen(links) -> {["0.123.0", "L"], samples({links, "<0.123.0>"}, links())};
seen(stack) ->
    {["0.123.0", "K"], samples({stack, "<0.123.0>"},
                               #{related => {stack, [{{gen_server, loop, 7}, "gen_server.erl:871"},
                                                     {{'Elixir.My.Server', run, 1}, ""}]}})};
seen(mailbox) ->
    {["0.123.0", "Q"], samples({messages, "<0.123.0>"},
                               #{related => {[{messages, 1000012}, {bytes, 64000000}, {binary_bytes, 0},
                                              {examined, 100000}],
                                             [{"<0.7.0>", 99990, 6399360, {'$gen_call', 3}},
                                              {"-", 10, 160, stop}]}})};
seen(mailbox_not) ->
    {["0.123.0", "Q"], samples({messages, "<0.123.0>"}, #{related => {error, content_forbidden}})};

seen(own) -> {["O"], samples({own, {sonde_own_page_helper, none}}, own())};
seen(own_not) ->
    {["O"], samples({own, {sonde_own_page_helper, none}}, #{failed => "sonde_own_page_helper:page/1 did not return in time"})}.

own() ->
    #{columns => [{none, "pool"}, {$b, "busy"}, {$m, "memory"}, {none, "\x{416}"}], state => <<"kept">>,
      lines => ["2 pools of \x{416}", "taken since the last sample: 17"],
      rows => [{"<0.123.0>", [{text, "orders"}, {number, "17"}, {number, "1.0 MiB"}, {text, "<0.123.0>"}]},
               {none, [{text, "\x{416}"}, {number, "1,000,003"}, {number, "97.7 KiB"}, {text, "none"}]}]}.

samples(Page, Body) -> [sample(N, Page, Body) || N <- [1, 2, 3]].

off(#{head := Head} = Sample) -> Sample#{head := Head#{side := {portable, disabled}}}.

sample(N, Page, Body) ->
    #{page => Page, body => Body, ms => 10 * N, head => head(N)}.

head(N) ->
    #{node => 'rabbit@host', otp => "25", clock => {12, 3, N}, at => 1000 * N,
      uptime => 86400 * 3 + 3600 + N, side => native, run_queue => N - 1, schedulers => 2,
      times => [{1, 900 * N, 1000 * N}, {2, 100 * N, 1000 * N}, {3, 0, 1000 * N}],
      memory => [{total, 3456789012 + N * N * 1000}, {processes, 1234567 * (5 - N)},
                 {binary, 5000000}, {ets, 1023}, {code, 20000000}, {atom, 600000 + N}],
      counters => #{reductions => 12345678 * N, collections => 11 * N, input => 2000 * N,
                    output => 5000000 * N, runtime => 350 * N},
      limits => [{processes, 1000044, 1048576}, {ports, 12, 65536}, {atoms, 104857, 1048576},
                 {ets, 9999, 8192000}]}.

procs() ->
    #{rows => [{"<0.123.0>", 3456789, [demo_sessions | calls({gen_server, loop, 7})],
                [3456789, 0, 123456789]},
               {"<0.23891.17>", 1048575, calls({'Elixir.My.Very.Long.Module', handle_call, 3}),
                [1048575, 1234567, 12345678901]},
               {"<0.5.0>", 1000, calls({a, b, 0}), [1000, 1, 1]}
               | [{lists:concat(["<0.", N, ".0>"]), 100 - N, calls({m, f, N rem 10}), [N, 0, N]}
                  || N <- lists:seq(6, 90)]]}.

%% One process has died.
grown() ->
    #{rows => [{"<0.7.0>", 123456, [busy | calls({lists, map, 2})], [10000, 3, 99999]},
               {"<0.8.0>", 55, [{current_function, undefined}, {initial_call, undefined}],
                [undefined, undefined, undefined]},
               {"<0.9.0>", -7, calls({m, f, 1}), [10000, 3, 99999]}]}.

calls(Call) -> [{current_function, Call}, {initial_call, {my_server, init, 1}}].

process() ->
    #{info => [{registered_name, demo_sessions}, {status, waiting}, {priority, normal},
               {trap_exit, false}, {initial_call, {demo, init, 1}},
               {current_function, {gen_server, loop, 7}}, {group_leader, "<0.67.0>"}],
      numbers => lists:zip(sonde_attr:native() -- [catchlevel],
                           [3456789, 400000, 300000, 120, 0, 987654321, 1048576, 3, 2, 1, 0, 5]),
      heap => #{blocks => #{young => 1000, old => 2000000, stack => 120, fragments => 0,
                            free => 500000},
                reachable => 1900000, garbage => 101000, literals => 0,
                roots => #{stack => 1000, registers => 0, dictionary => 1899000, mailbox => 0,
                           other => 0},
                histogram => [{hashmap, 3, 1600000}, {{tuple, 3}, 2902, 200000}, {cons, 10, 160}],
                binaries => #{live => 1048576, garbage => 0, visible => 84, pinned => 1048576}},
      things => [#{path => [dictionary, {key, sessions}], retained => 1890000 - N, self => 160000,
                   kind => hashmap, preview => <<"#{2902 => {session,2902,...">>}
                 || N <- lists:seq(1, 40)],
      slices => {3, 1048576, [{140311042982336, 1048000, 2, 1, 80,
                               {2, ["<0.123.0>", "ets demo_cache"]}},
                              {140311042982999, 576, 1, 4, 576, undefined}]}}.

tables() ->
    #{tables => [{"demo_cache", 2710664, table_attrs(demo_cache), 2710664},
                 {"#Ref<0.1149475380.1180958723.123456>", 1000, table_attrs(code), 1000}]}.

table_attrs(Name) ->
    [{name, Name}, {owner, "<0.7094.1>"},
     {owner_name, case Name of code -> "code_server"; _ -> "<0.7094.1>" end},
     {type, ordered_set}, {size, 24130}, {protection, public}, {keypos, 2}, {read_concurrency, true},
     {write_concurrency, case Name of code -> false; _ -> auto end}].

large_tables() ->
    #{tables => [{"huge", {too_large, 12345678}, table_attrs(huge), 2710664},
                 {"demo_cache", 24003360, table_attrs(demo_cache), undefined}]}.

binaries() ->
    #{account => #{total => 69730304, exclusive => 44564480, shared => 56422, ets => 24012390,
                   queues => 0, literals => 0, mixed => 0, resources => 2252, elsewhere => 0,
                   overhead => 1030144, unseen => 26316, unused => 10695475, ms => 38,
                   processes_missed => 0, tables_missed => 0},
      owned => [{"<0.7090.1>", 44567964, [demo_slices | calls({demo, slices, 1})]},
                {"<0.3.0>", 0, calls({demo, slices, 1})}],
      holders => [{140674205499432, 1114096, 1, 0, {1, ["<0.133.0>"]}},
                  {140674207154216, 1048576, 100, 2, {100, ["<0.139.0>", "literals"]}}]}.

waits() ->
    Row = fun(Pid, Waiters, Direct, Chain, Messages, More) ->
                  {Pid, Waiters, [{initial_call, {gen_server, init_it, 6}}, {message_queue_len, Messages},
                                  {status, waiting}] ++ More
                   ++ [{direct, Direct}, {longest_chain, Chain}]}
          end,
    [Row("<0.146.0>", 1005001, 1, 3, 0, [my_database]),
     Row("<0.148.0>", 1005000, 1005000, 2, 1004999, [{waits_for, "<0.146.0>"}, my_server]),
     Row("<0.201.0>", 2, 1, 3, 1, [{waits_for, "<0.202.0> > <0.203.0> > <0.201.0>"}]),
     {"remote", 12, [{direct, 12}, {longest_chain, 2}]}].

sockets() ->
    Of = fun(Kind, Name, More) -> maps:merge(#{kind => Kind, owner => "<0.123.0>", owner_name => Name}, More) end,
    [{"#Port<0.12>", 12345678901, Of("tcp", "my_listener", #{recv_oct => 12345678900, send_oct => 1, memory => 1040,
                                                              queue_size => 70000, local => "10.0.0.1:5672",
                                                              remote => "10.0.0.2:51000"})},
     {"socket", 1000, Of("socket udp", "<0.123.0>", #{recv_oct => 0, send_oct => 1000,
                                                     local => "[2001:db8::1]:53"})},
     {"#Port<0.5>", 0, #{kind => "tcp"}}].

port() ->
    #{port => [{name, "tcp_inet"}, {id, 40}, {input, 100}, {output, 0}, {memory, 1040},
               {queue_size, 70000}, {peername, "10.0.0.2:51000"}, {sockname, "10.0.0.1:5672"}],
      statistics => [{recv_oct, 12345678900}, {send_oct, 1}, {send_pend, 70000}],
      options => [{active, false}, {nodelay, true}, {packet, 0}],
      related => [{"<0.123.0>", owner, "my_listener"}, {"<0.124.0>", linked, ""}]}.

applications() ->
    Totals = fun(Memory, Messages) -> [{memory, Memory}, {message_queue_len, Messages},
                                       {reductions, 1000 * Messages}, {binary_memory, 2 * Memory}] end,
    #{apps => [{"kernel", "8.5.3", started, 30, Totals(464400, 0)},
               {"my_app", "0.0.1", starting, 999000, Totals(3456789012, 77777)},
               {"(none)", "", unknown, 13, Totals(717500, 1)}, {"stdlib", "4.2", started, 0, Totals(0, 0)}]}.

tree() ->
    Call = fun(M) -> [{initial_call, {M, init, 1}}] end,
    #{nodes => [{"<0.80.0>", 0, Call(application_master), 4000, 3456789012, 0, 1},
                {"<0.81.0>", 1, [my_sup | Call(supervisor)], 10000000, 3456785012, 3, 2},
                {"<0.123.0>", 2, Call('Elixir.My.Worker'), 3400000, 3400000, 77777, 0},
                {"<0.23891.17>", 2, [my_pool | Call(supervisor)], 2000, 3443385012, 0, 1},
                {"<0.125.0>", 3, Call(my_conn), 2600, 2600, 0, 0},
                {"<0.126.0>", 3, unanswered, undefined, undefined, undefined, undefined},
                {"", 3, {more, 998800}, undefined, 3443380412, 12, undefined},
                {"", 2, {links, 1200000}, undefined, undefined, undefined, undefined}]}.

mnesia() ->
    Of = fun(Memory, Rows, Storage) -> #{memory => Memory, size => Rows, storage => Storage, type => set, index => 1} end,
    #{mnesia => [{tables, 3}, {transaction_commits, 12345678}, {transaction_failures, 3},
                 {transaction_restarts, 0}, {transaction_log_writes, 44}, {locks_held, 2},
                 {locks_waited_for, 0}, {mnesia_tm, 0}, {mnesia_locker, 0}],
      tables => [{"session", 1000000, (Of(640000000, 1000000, ram_copies))#{owner => "<0.91.0>",
                                                                             owner_name => "mnesia_monitor"}},
                 {"archive", 77, Of(99000, 77, disc_only_copies)}, {"other_node", 0, Of(0, 0, elsewhere)}]}.

system() ->
    #{system => [{erlang, "13.1.5"}, {emulator, "jit opt"}, {built_for, "x86_64-pc-linux-gnu"}, {word_bytes, 8},
                 {port_parallelism, false}],
      processors => [{logical_processors, 2}, {schedulers, 2}, {schedulers_online, 2},
                     {dirty_cpu_schedulers, 1}, {dirty_io_schedulers, 10}, {async_threads, 1}],
      counters => [{active_tasks, 7}, {context_switches, 123456}, {collections, 7890},
                   {gc_words_reclaimed, 1000000}, {input, 1000}, {output, 5000000}],
      queues => [0, 5, 1, 2],
      os => {"/proc/meminfo", [{total, 25200000000}, {available, 22000000000}, {free, 17000000000},
                               {cached, 4000000000}, {swap_total, 0}, {swap_free, 0}]},
      resident => 49000000, virtual => 2500000000,
      allocators => [{"eheap_alloc", 5500000, [12000.5, 8700.0, 0, 600000.0], 0.25},
                     {"ll_alloc", 12000000, [396.0, 399.0, 0, 0], infinity}],
      hits => [{{instance, 0}, [{hit_rate, 0.7}, {hits, 19}, {calls, 27}]}],
      nodes => {3, [{"other@host", normal, "10.0.0.2:34567", [123456789, 1, 77777]},
                    {"third@host", hidden, undefined, [undefined, undefined, undefined]},
                    {"tls@host", normal, "[2001:db8::7]:9100", [{packets, 123456}, {packets, 1}, undefined]}]},
      queue_limit => 1048576, most_single => #{"eheap_alloc" => 1.5, "ll_alloc" => infinity}}.

links() ->
    #{related => {[{links, 2}, {monitors, 3}, {monitored_by, 20001}, {not_listed, "monitored by"}],
                  [{"<0.81.0>", parent, 1, [my_sup]}, {"<0.81.0>", linked, 1, [my_sup]},
                   {"#Port<0.12>", linked, 1, []}, {"<0.150.0>", monitors, 3, [{initial_call, {my_db, init, 1}}]}]}}.

allocators() ->
    #{totals => [{allocated, 19600000}, {used, 10000000}, {unused, 9600000}, {usage, 0.5102}],
      types => [{ll_alloc, 11000000}, {eheap_alloc, 5000000}, {binary_alloc, 720000}],
      fragmentation => [{{eheap_alloc, 2}, usage(0.353)}, {{binary_alloc, 0}, usage(1.0)}]}.

usage(Share) ->
    [{sbcs_usage, 1.0}, {mbcs_usage, Share}, {sbcs_block_size, 0}, {sbcs_carriers_size, 0},
     {mbcs_block_size, 1400000}, {mbcs_carriers_size, 4000000}].

%% ---- what holds for every page

no_line_is_too_long(_Config) ->
    _ = [begin
             Lines = sonde_top_view:lines(sonde_top_model:size(W, H, Model), Style),
             [] = [{Name, W, L} || L <- Lines, string:length(L) >= W],
             {Name, W, H, H} = {Name, W, H, 1 + length(Lines)}
         end || {Name, Model} <- models(), W <- lists:seq(40, 160, 7) ++ [300], H <- [12, 24, 50],
                Style <- [style(), #{unicode => false, color => false}]],
    ok.

%% A cut number would be wrong: a value without room is left out, or its column is.
numbers_are_never_cut(_Config) ->
    Cut = "[0-9][0-9.,]*\x{2026} ",
    _ = [{Name, W, nomatch} =
             {Name, W, re:run(unicode:characters_to_binary(
                                lists:join($\n, lists:nthtail(6, Lines))), Cut, [unicode])}
         || {Name, Model} <- models(), Name =:= "memory" orelse Name =:= "growth",
            W <- lists:seq(40, 160),
            Lines <- [sonde_top_view:lines(sonde_top_model:size(W, 24, Model), style())]],
    nomatch = re:run(unicode:characters_to_binary([S || {_, S} <- goldens()]), "\\*\\*"),
    ok.

%% Also on the narrowest terminal, with at least 12 characters of it if others are that long.
rows_have_their_names(_Config) ->
    _ = [begin
             Shown = shown(model(Page), {W, 24}, style()),
             {Page, W, true} = {Page, W, has(Shown, Name)}
         end || {Page, Name} <- [{memory, "demo_sessi"}, {growth, "  busy"}, {tables, "  demo_cache"},
                                 {network, "  #Port<0\\.12>\n"}, {port, "  my_listener"}, {applications, "  kernel"}, {tree, "    my_sup"},
                                 {mnesia, "  other_node"}, {waits, "  my_database"}, {binaries, "  demo_slices"},
                                 {links, "  my_sup"}, {mailbox, "'\\$gen_call"}],
                W <- lists:seq(40, 100, 3)],
    ok.

%% No word of it is cut; the lines that have no room are behind a key, which the title names.
help_is_whole(_Config) ->
    Words = fun(Lines) -> string:lexemes(unicode:characters_to_list(lists:join($\s, Lines)), " ") end,
    Help = fun(Model) -> lists:droplast(lists:droplast(lists:nthtail(7, sonde_top_view:lines(Model, style())))) end,
    Wide = Words(Help(sonde_top_model:size(100, 50, model(help)))),
    Narrow = [sonde_top_model:size(40, 24, pressed(lists:duplicate(N, ">"), model(help))) || N <- [0, 1, 2, 3]],
    [true, _, _, false] = [has(lists:join($\n, sonde_top_view:lines(Model, style())), "help  >: more")
                           || Model <- Narrow],
    Shown = lists:append([Help(Model) || Model <- Narrow]),
    [] = Wide -- Words(Shown),
    [] = [Line || Line <- Shown, has(Line, "\x{2026}")].

too_small_is_one_line(_Config) ->
    _ = [{W, H, 1} = {W, H, length([L || L <- sonde_top_view:lines(
                                                sonde_top_model:size(W, H, model(memory)), style()),
                                         string:length(L) =< max(1, W - 1)])}
         || {W, H} <- [{39, 24}, {80, 11}, {1, 1}, {20, 5}]],
    ok.

%% A freely chosen name cannot move the cursor or push a column away.
names_of_any_kind_fit(_Config) ->
    Marks = lists:append(lists:duplicate(10, [$e, 16#301])),
    Names = [list_to_atom(lists:duplicate(200, $a)), 'a\e[2Jb', '\x{202e}abc', '\n\n', '',
             list_to_atom(lists:duplicate(100, 16#4E2D)), list_to_atom(lists:duplicate(100, 16#1F600)),
             list_to_atom(lists:duplicate(100, 16#FF21)), list_to_atom(lists:duplicate(100, 16#AC00)), list_to_atom(Marks)],
    Rows = [{"<0.1.0>", 1, [Name | calls({Name, Name, 1})], [1, 1, 1]} || Name <- Names],
    Model = model(new(), {[], samples({procs, {count, memory}}, #{rows => Rows})}),
    Lines = sonde_top_view:lines(Model, style()),
    23 = length(Lines),
    [] = [L || L <- Lines, C <- unicode:characters_to_list(L), C < 32 orelse C =:= 16#202e],
    %% no line wraps in a terminal, where these have two columns and a mark has none
    [] = [{N, L} || L <- Lines, N <- [columns(L)], N > 80],
    %% and none is cut without need
    [_ | _] = [L || L <- Lines, string:find(L, Marks) =/= nomatch].

columns(Line) ->
    lists:sum([case C of
                   16#301 -> 0;
                   _ when C =:= 16#4E2D; C =:= 16#1F600; C =:= 16#FF21; C =:= 16#AC00 -> 2;
                   _ -> 1
               end || C <- unicode:characters_to_list(Line)]).

plain_has_no_escapes(_Config) ->
    nomatch = re:run(unicode:characters_to_binary(
                       [S || {Name, S} <- goldens(), lists:suffix("_dumb", Name)]),
                     "[^\n -~]"),
    [] = sonde_top_screen:enter(#{how => plain}),
    [] = sonde_top_screen:leave(#{how => plain}).

%% The prompt mentions Enter on every page, in line mode; single keys need no Enter.
prompt_says_enter(_Config) ->
    _ = [begin
             _ = sonde_top_screen:read(#{device => self(), how => How}),
             receive {io_request, _, _, {get_line, unicode, Prompt}} -> true = has(Prompt, "Enter") end
         end || How <- [lines, plain]],
    _ = sonde_top_screen:read(#{device => self(), how => keys}),
    receive {io_request, _, _, {get_chars, unicode, "", _}} -> ok end,
    false = has(sonde_top_screen:frame(["x"], "", #{how => keys}), "Enter").

%% ---- keys

every_key_of_a_line(_Config) ->
    Line = fun sonde_top_keys:line/1,
    [quit, help, help, pause, pause, again, forth, back, next, next]
        = [Line(L ++ "\n") || L <- ["q", "h", "?", "p", " ", "a", ">", "<", "", "\r"]],
    [{page, procs}, {page, ets}, {page, binaries}, {page, allocators}, {page, waits}, {page, network},
     {page, apps}, {page, system}, {page, mnesia}]
        = [Line(L) || L <- ["P", "E", "B", "A", "W", "N", "G", "S", "M"]],
    [{of_process, links}, {of_process, stack}, {of_process, messages}, {of_process, tree}, up]
        = [Line(L) || L <- ["L", "K", "Q", "T", "u"]],
    [{find, ""}, {find, "x"}, {find, "My.App/1"}, {find, "12"}]
        = [Line(L) || L <- ["/", "/x", " / My.App/1 ", "/12"]],
    [{key, $m}, {twice, $m}, {key, $r}] = [Line(L) || L <- ["m", "mm", " r \n"]],
    [{row, 1}, {row, 12}, {row, 33}] = [Line(L) || L <- ["1", "12", "33"]],
    [{pid, "<0.123.0>"}, {pid, "<0.123.0>"}] = [Line(L) || L <- ["0.123.0", "<0.123.0>"]],
    [{interval, 2000}, {interval, 5}] = [Line(L) || L <- ["i 2000", "i5"]],
    _ = [{unknown, _} = Line(L)
         || L <- ["0", "z", "zz", "quit", "i", "i x", "1.2", "<1", "<0.1.0", "<0.x.0>", "1e3",
                  "-1", "99999999999", "\x{1f600}", [0], "\e[A"]],
    ok.

keys_one_by_one_are_those_of_lines(_Config) ->
    _ = [{Text, {[Action], ""}} = {Text, sonde_top_keys:typed("", Text)}
         || Text <- ["q", "h", "p", " ", "a", ">", "<", "P", "m", "z", "12\r", "0.123.0\r",
                     "i 2000\r", "N", "L", "u", "/ q x\r", "/\r"],
            Action <- [sonde_top_keys:line(Text)]],
    {[], "12"} = sonde_top_keys:typed("1", "2"),
    {[], "1"} = sonde_top_keys:typed("12", "\d"),
    {[], "/mmq"} = sonde_top_keys:typed("", "/mmqx\d"),
    {[], Longest} = sonde_top_keys:typed("", "/" ++ lists:duplicate(1000, $x)),
    true = length(Longest) < 100,
    {[{key, $m}], ""} = sonde_top_keys:typed("12", "m"),
    {[{key, $m}, {key, $m}, quit], ""} = sonde_top_keys:typed("", "mmq").

special_keys(_Config) ->
    {[back, forth, back, forth], ""} = sonde_top_keys:typed("", "\e[5~\e[6~\e[A\e[B"),
    {[], "\e["} = sonde_top_keys:typed("", "\e["),
    {[forth], ""} = sonde_top_keys:typed("\e[", "B"),
    {[], ""} = sonde_top_keys:typed("", "\e[Z"),
    {[quit], ""} = sonde_top_keys:typed("", [3]).

same_key_again_is_growth(_Config) ->
    {procs, {count, memory}} = page([]),
    {procs, {growth, memory}} = page(["m"]),
    {procs, {count, memory}} = page(["m", "m"]),
    {procs, {count, reductions}} = page(["r"]),
    {procs, {growth, reductions}} = page(["r", "r"]).

twice_is_growth(_Config) ->
    {procs, {growth, memory}} = page(["mm"]),
    {procs, {growth, memory}} = page(["mm", "mm"]),
    {procs, {growth, link_count}} = page(["ll"]).

walked_attributes_have_no_growth(_Config) ->
    _ = [{procs, {count, Attr}} = page(Keys)
         || {C, Attr, _} <- sonde_top_keys:sorts(), sonde_attr:is_heap(Attr),
            Keys <- [[[C]], [[C, C]], [[C], [C]]]],
    ok.

every_native_attribute_has_a_key(_Config) ->
    Sorts = sonde_top_keys:sorts(),
    [catchlevel] = sonde_attr:native() -- [Attr || {_, Attr, _} <- Sorts],
    [garbage_bytes, binary_exclusive] = [A || A <- [garbage_bytes, binary_exclusive],
                                              lists:keymember(A, 2, Sorts)],
    Keys = [C || {C, _, _} <- Sorts ++ sonde_top_keys:pages() ++ sonde_top_keys:of_process()] ++ "qhpaiu/<>",
    true = length(Keys) =:= length(lists:usort(Keys)).

page(Keys) ->
    maps:get(page, sonde_top_model:request(pressed(Keys, new()))).

a_number_is_a_row(_Config) ->
    Page = fun(Keys) -> maps:get(page, pressed(Keys, model(memory))) end,
    {process, "<0.123.0>"} = Page(["1"]),
    {process, "<0.5.0>"} = Page(["3"]),
    {procs, _} = Page(["99"]),
    "there is no row 99 here" = maps:get(note, pressed(["99"], model(memory))),
    "" = maps:get(note, pressed(["99", "m"], model(memory))),
    {process, "<0.7094.1>"} = maps:get(page, pressed(["1"], model(tables))),
    {ets, memory} = maps:get(page, pressed(["3"], model(tables))),
    {process, "<0.123.0>"} = maps:get(page, pressed(["1"], model(process))).

rows_forth_and_back(_Config) ->
    Page = #{rows => lists:sublist(maps:get(rows, procs()), 13)},
    Full = sonde_top_model:sampled(sample(1, {procs, {count, memory}}, Page), new()),
    #{from := 0, rows := 13} = sonde_top_model:request(Full),
    #{from := 13} = Next = pressed([">"], Full),
    #{from := 13, rows := 13} = sonde_top_model:request(Next),
    #{from := 0} = pressed(["<"], Next),
    #{from := 0} = pressed(["<", "<", "<"], Next),
    #{from := 0} = pressed(["r"], Next),
    Last = sonde_top_model:sampled(sample(2, {procs, {count, memory}}, grown()), Next),
    #{from := 13, note := "this is the last page"} = pressed([">"], Last),
    {process, "<0.8.0>"} = maps:get(page, pressed(["15"], Last)).

interval_has_bounds(_Config) ->
    [1000, 1000, 1000, 2500, 3600000, 1000]
        = [maps:get(interval, pressed([L], new()))
           || L <- ["i 999", "i 0", "i 1000", "i 2500", "i 3600000", "i 3600001"]].

pause_asks_for_nothing(_Config) ->
    Paused = model(paused),
    none = sonde_top_model:request(Paused),
    #{} = sonde_top_model:request(pressed(["p"], Paused)),
    %% Another page must be sampled, once.
    #{page := {procs, {count, reductions}}} = sonde_top_model:request(pressed(["r"], Paused)),
    %% The sample that was requested before the pause is shown.
    #{} = sonde_top_model:request(pressed(["p"], new())).

deep_is_asked_once(_Config) ->
    Deep = fun(Model) -> maps:get(deep, sonde_top_model:request(Model)) end,
    true = Deep(pressed(["<0.123.0>"], new())),
    false = Deep(model(process)),
    true = Deep(pressed(["a"], model(process))),
    true = Deep(pressed(["<0.124.0>"], model(process))),
    false = Deep(pressed([">"], model(process))),
    [true, false] = [Deep(M) || M <- [pressed(["B"], new()), model(binaries)]],
    [true, false] = [Deep(M) || M <- [pressed(["E", "b"], new()), model(tables_binaries)]],
    false = Deep(model(memory)).

sample_of_another_page_is_not_shown(_Config) ->
    Other = pressed(["E"], model(memory)),
    Lines = sonde_top_view:lines(Other, style()),
    [_] = [L || L <- Lines, unicode:characters_to_list(L) =:= "looking ..."],
    #{sample := #{page := {procs, _}}} = Other.

%% After `>', rows of the page before have other numbers.
sample_of_other_rows_is_not_shown(_Config) ->
    Full = #{rows => lists:sublist(maps:get(rows, procs()), 13)},
    Of = fun(From, Find) -> (sample(1, {procs, {count, memory}}, Full))#{from => From, find => Find} end,
    Is = fun(Sample, Keys) -> sonde_top_model:is_shown(pressed(Keys, sonde_top_model:sampled(Sample, new()))) end,
    [true, false, false, true] = [Is(Of(0, ""), []), Is(Of(0, ""), [">"]), Is(Of(0, ""), ["/x"]), Is(Of(0, ""), ["/x", "/"])],
    Next = pressed([">"], sonde_top_model:sampled(Of(0, ""), new())),
    "there is no row 14 here" = maps:get(note, pressed(["14"], Next)),
    {process, _} = maps:get(page, pressed(["14"], sonde_top_model:sampled(Of(13, ""), Next))).

every_row_leads_to_its_process(_Config) ->
    Behind = fun(Name, Key) -> maps:get(page, pressed([Key], model(Name))) end,
    {process, "<0.146.0>"} = Behind(waits, "1"),
    {process, "<0.7094.1>"} = Behind(tables_binaries, "1"),
    {port, "#Port<0.12>"} = Behind(network, "1"),
    {process, "<0.123.0>"} = Behind(network, "2"),
    {process, "<0.123.0>"} = Behind(port, "1"),
    {process, "<0.124.0>"} = Behind(port, "2"),
    {tree, "my_app"} = Behind(applications, "1"),
    {process, "<0.123.0>"} = Behind(tree, "3"),
    {process, "<0.91.0>"} = Behind(mnesia, "1"),
    {process, "<0.81.0>"} = Behind(links, "1"),
    {port, "#Port<0.12>"} = Behind(links, "3"),
    {process, "<0.7.0>"} = Behind(mailbox, "1"),
    %% without a process
    _ = [{Name, Key, true} = {Name, Key, has(maps:get(note, pressed([Key], model(Name))), "row")}
         || {Name, Key} <- [{applications, "2"}, {mnesia, "2"}, {tree, "7"}, {mailbox, "2"}, {stack, "1"}, {waits, "4"}]].

up_leads_back(_Config) ->
    Tree = pressed(["/conn"], model(tree)),
    Worker = pressed(["1"], Tree),
    {process, "<0.125.0>"} = maps:get(page, Worker),
    #{page := {tree, "my_app"}, find := "conn", from := 0} = pressed(["u"], Worker),
    #{page := {apps, message_queue_len}} = pressed(["u", "u"], pressed(["G", "n", "1"], model(applications))),
    #{page := {procs, _}} = pressed(["u"], new()),
    %% not for ever
    Many = pressed(lists:append(lists:duplicate(50, ["N", "S"])), new()),
    true = length(maps:get(back, Many)) < 50.

pages_have_their_own_order(_Config) ->
    [{network, {count, oct}}, {network, {growth, oct}}, {network, {growth, recv_oct}}, {network, {count, memory}},
     {network, {count, memory}}, {network, {count, queue_size}}, {network, {count, recv_cnt}}, {network, {growth, send_cnt}}]
        = [page(["N" | Keys]) || Keys <- [[], ["o"], ["rr"], ["m"], ["m", "m"], ["nn"], ["v"], ["tt"]]],
    [{mnesia, memory}, {mnesia, size}] = [page(["M" | Keys]) || Keys <- [[], ["s"]]],
    [apps, apps] = [page(["G" | Keys]) || Keys <- [[], ["b"]]],
    _ = [true = has(maps:get(note, pressed([Page, "y"], new())), "sorted by") || Page <- ["N", "M", "G", "E"]],
    First = fun(Keys) -> [{Name, _, _, _, _} | _] = sonde_top_model:rows(pressed(Keys, model(applications))), Name end,
    ["my_app", "my_app", "my_app"] = [First([Key]) || Key <- ["m", "c", "n"]],
    %% Another order needs no sample.
    false = maps:get(deep, sonde_top_model:request(pressed(["m"], model(applications)))).

more_of_a_process(_Config) ->
    [{links, "<0.123.0>"}, {stack, "<0.123.0>"}, {messages, "<0.123.0>"}, {tree, "<0.123.0>"}, {stack, "<0.123.0>"}]
        = [page(["0.123.0" | Keys]) || Keys <- [["L"], ["K"], ["Q"], ["T"], ["L", "T", "Q", "K"]]],
    "first choose a process, by its number or pid" = maps:get(note, pressed(["L"], new())).

search_is_asked(_Config) ->
    Request = fun(Keys) -> maps:with([find, from], sonde_top_model:request(pressed(Keys, new()))) end,
    #{find := "abc", from := 0} = Request(["/abc"]),
    #{find := ""} = Request(["/abc", "/"]),
    #{find := "abc"} = Request(["/abc", "r"]),
    #{find := ""} = Request(["/abc", "E"]),
    _ = [true = has(maps:get(note, pressed([Page, "/abc"], new())), "nothing to search") || Page <- ["B", "A", "S", "h"]],
    %% Also while nothing else is asked for.
    Paused = pressed(["/abc"], model(paused)),
    #{find := "abc"} = sonde_top_model:request(sonde_top_model:sampled((hd(samples({procs, {count, memory}}, procs())))#{from => 0, find => ""}, Paused)),
    [{"my_app", _, _, _, _}] = sonde_top_model:rows(pressed(["/MY_"], model(applications))),
    [{"<0.81.0>", _, _, _, _, _, _}] = sonde_top_model:rows(pressed(["/my_sup"], model(tree))).

own_pages_have_their_keys(_Config) ->
    Own = {own, {sonde_own_page_helper, none}},
    Note = fun(Keys, Model) -> maps:get(note, pressed(Keys, Model)) end,
    Page = fun(Keys, Model) -> maps:get(page, pressed(Keys, Model)) end,
    Own = Page(["O"], own_new()),
    {ets, memory} = Page(["O", "E", "O", "u"], own_new()),
    "no such key: V (h: help)" = Note(["V"], own_new()),
    "no such key: e (h: help)" = Note(["e"], own_new()),
    "no such key: O (h: help)" = Note(["O"], new()),
    Model = model(own),
    _ = [{own, {sonde_own_page_helper, Key}} = Page([[Key]], Model) || Key <- "bm"],
    true = has(Note(["r"], Model), "sorted by b m"),
    true = has(Note(["e"], Model), "sorted by b m"),
    true = has(Note(["ee"], Model), "no such key: ee"),
    "this page has no other order" = Note(["r"], model(own_not)),
    %% What the page returned comes with its next sample, and with no other.
    #{state := <<"kept">>} = sonde_top_model:request(Model),
    #{state := <<"kept">>} = sonde_top_model:request(pressed(["E", "O"], Model)),
    Two = model(sonde_top_model:new(#{interval => 1000, rows => auto, sort => memory, pages => own_pages() ++ [{$V, <<"others">>, lists}]}),
                {["O"], samples(Own, own())}),
    Other = sonde_top_model:sampled((sample(4, {own, {lists, none}}, own()))#{body := (own())#{state := <<"its">>}}, pressed(["V"], Two)),
    #{page := {own, {lists, none}}, state := <<"its">>} = sonde_top_model:request(Other),
    #{page := Own, state := <<"kept">>} = sonde_top_model:request(pressed(["O"], Other)),
    %% Keys work before the next sample.
    {own, {sonde_own_page_helper, $m}} = Page(["b", "m"], Model),
    true = has(shown(pressed(["b"], Model), {80, 24}, style()), "by: b busy  m memory"),
    true = has(shown(pressed(["h"], Two), {80, 24}, style()), "pages of your own: O pools  V others"),
    true = has(shown(sonde_top_model:sampled(sample(4, Own, (own())#{rows := []}), Model), {80, 24}, style()), "\nno row\n"),
    false = is_map_key(state, sonde_top_model:request(pressed(["E"], Model))),
    {process, "<0.123.0>"} = Page(["1"], Model),
    true = has(Note(["2"], Model), "no page behind it"),
    #{find := "ord"} = sonde_top_model:request(pressed(["/ord"], Model)),
    %% Those of the node count where none were asked for.
    Auto = fun(Pages) ->
                   #{head := Head} = Sample = hd(samples({procs, {count, memory}}, procs())),
                   sonde_top_model:sampled(Sample#{head := Head#{pages => Pages}},
                                           sonde_top_model:new(#{interval => 1000, rows => auto, sort => memory}))
           end,
    Own = Page(["O"], Auto(own_pages())),
    [] = sonde_top_model:own(Auto(invalid)),
    true = has(maps:get(note, Auto(invalid)), "top_pages").

%% Where the page has more than its rows, it still shows all of those that it numbers.
nothing_is_skipped(_Config) ->
    _ = [begin
             Rows = [Row || _ <- lists:seq(1, 100), Row <- [hd(Of)]],
             Model = sonde_top_model:size(W, 24, pressed(Keys, model(Name))),
             Sample = maps:get(sample, Model),
             Many = sonde_top_model:sampled(Sample#{body => Body(Rows)}, Model),
             Shown = sonde_top_model:rows(Many#{sample => Sample#{body => Body(lists:sublist(Rows, sonde_top_model:room(Many)))}}),
             Lines = sonde_top_view:lines(Many#{sample => Sample#{body => Body(Shown)}}, style()),
             {Name, W, true} = {Name, W, length([L || L <- Lines, has(L, "^ +\\d+  +\\S")]) >= length(Shown)}
         end || W <- [80, 120],
                {Name, Keys, Of, Body} <-
                    [{network, [], sockets(), fun(Rows) -> #{sockets => Rows} end},
                     {mnesia, [], maps:get(tables, mnesia()), fun(Rows) -> (mnesia())#{tables => Rows} end},
                     {port, [], maps:get(related, port()), fun(Rows) -> (port())#{related => Rows} end},
                     {links, [], element(2, maps:get(related, links())),
                      fun(Rows) -> #{related => {element(1, maps:get(related, links())), Rows}} end}]],
    ok.

%% ---- samples

request(Page) ->
    #{page => Page, from => 0, rows => 10, interval => 1, deep => true}.

take(Page) ->
    sonde_top_sample:take(request(Page)).

%% Our processes hold still; the node's other processes may change meanwhile.
rows_are_those_of_proc_count(_Config) ->
    Held = [sonde_test:hold(fun() -> lists:seq(1, 200000 + N) end) || N <- lists:seq(1, 12)],
    Mine = [pid_to_list(P) || P <- Held],
    sonde_test:same(rows,
                    fun() -> [{pid_to_list(P), V} || {P, V, _} <- sonde:proc_count(memory, 10),
                                                     lists:member(P, Held)] end,
                    fun() -> #{body := #{rows := Rows}} = take({procs, {count, memory}}),
                             [{P, V} || {P, V, _, [V, _, _]} <- Rows, lists:member(P, Mine)] end),
    sonde_test:stop(Held).

settings_are_those_of_the_calls(_Config) ->
    Held = sonde_test:hold(fun() ->
        Table = ets:new(top_suite_settings, [named_table, public, {keypos, 3}, {write_concurrency, true}]),
        true = ets:insert(Table, [{N, N, N} || N <- lists:seq(1, 300000)]),
        Table
    end),
    #{body := #{tables := Tables}} = Sample = take({ets, memory}),
    [[{protection, public}, {keypos, 3}, {read_concurrency, false}, {write_concurrency, true}]] =
        [lists:nthtail(length(As) - 4, As) || {"top_suite_settings", _, As, _} <- Tables],
    Lines = sonde_top_view:lines(sonde_top_model:size(140, 40, model(new(), {["E"], [Sample]})), style()),
    [_] = [L || L <- Lines, has(L, " public +3  write +<[0-9.]+> +top_suite_settings")],
    #{body := #{info := Info}} = take({process, pid_to_list(Held)}),
    {garbage_collection, Settings} = process_info(Held, garbage_collection),
    [{min_bin_vheap_size, N}] = [Pair || {min_bin_vheap_size, _} = Pair <- Info],
    {min_bin_vheap_size, N} = lists:keyfind(min_bin_vheap_size, 1, Settings),
    sonde_test:stop(Held).

%% They are shown by their registered name; the pid is there too, to be selected.
owners_and_holders_have_names(_Config) ->
    Pid = sonde_test:hold(fun() ->
        top_suite_table = ets:new(top_suite_table, [named_table]),
        true = ets:insert(top_suite_table, [{N, N} || N <- lists:seq(1, 300000)]),
        binary:copy(<<"x">>, 50000000)
    end),
    true = register(top_suite_owner, Pid),
    Text = pid_to_list(Pid),
    #{body := #{tables := Tables}} = Sample = take({ets, memory}),
    [Attrs] = [As || {"top_suite_table", _, As, _} <- Tables],
    {owner, Text} = lists:keyfind(owner, 1, Attrs),
    {owner_name, "top_suite_owner"} = lists:keyfind(owner_name, 1, Attrs),
    Lines = sonde_top_view:lines(model(new(), {["E"], [Sample]}), style()),
    [_] = [L || L <- Lines, has(L, "top_suite_owner +top_suite_table")],
    #{body := Body} = take(binaries),
    sonde_test:pick(fun() -> #{holders := Holders} = Body,
                             [_ | _] = [H || {_, 50000000, _, _, {1, ["top_suite_owner"]} = H} <- Holders]
                    end,
                    fun() -> #{holders := {error, _}} = Body end),
    sonde_test:stop(Pid).

rows_of_growth(_Config) ->
    Grower = sonde_test:hold(fun() -> ok end),
    Sender = spawn_link(fun() -> flood(Grower) end),
    Request = (request({procs, {growth, message_queue_len}}))#{interval => 200},
    ok = until({grows, Grower}, fun() ->
                       #{body := #{rows := Rows}, ms := Ms} = sonde_top_sample:take(Request),
                       Ms >= 0 andalso lists:keymember(pid_to_list(Grower), 1, Rows)
               end),
    unlink(Sender),
    sonde_test:stop([Sender, Grower]).

flood(To) -> To ! more, timer:sleep(1), flood(To).

rows_of_a_page_only(_Config) ->
    #{body := #{rows := Rows}} =
        sonde_top_sample:take((request({procs, {count, memory}}))#{from => 5, rows => 3}),
    3 = length(Rows),
    #{body := #{rows := []}} =
        sonde_top_sample:take((request({procs, {count, memory}}))#{from => 1000000}).

walked_attributes(_Config) ->
    _ = [begin
             Body = maps:get(body, take({procs, {count, Attr}})),
             sonde_test:pick(fun() -> #{rows := [_ | _], left_out := N, missed := Some} = Body,
                                      true = length(Some) =:= min(N, 1),
                                      true = is_integer(N)
                             end,
                             fun() -> #{rows := [], error := {native_off, disabled}} = Body end)
         end || {_, Attr, _} <- sonde_top_keys:sorts(), sonde_attr:is_heap(Attr)],
    ok.

%% Each page is also drawn.
every_page_has_a_sample(_Config) ->
    Samples = [begin
                   #{page := Page, body := #{}, head := #{}} = Sample = take(Page),
                   {Keys, Sample}
               end || {Keys, Page} <-
                          [{["h"], none}, {["E"], {ets, memory}}, {["E", "s"], {ets, size}},
                           {["E", "b"], {ets, binary_memory}}, {["B"], binaries},
                           {["A"], allocators}, {["W"], waits}, {["S"], system}, {["G"], apps},
                           {["N"], {network, {count, oct}}}, {["N", "rr"], {network, {growth, recv_oct}}},
                           {["N", "n"], {network, {count, queue_size}}}, {["M"], {mnesia, memory}},
                           {[pid_to_list(self()), "T"], {tree, pid_to_list(self())}},
                           {[pid_to_list(self()), "L"], {links, pid_to_list(self())}},
                           {[pid_to_list(self()), "K"], {stack, pid_to_list(self())}},
                           {[pid_to_list(whereis(init)), "Q"], {messages, pid_to_list(whereis(init))}},
                           {[pid_to_list(self())], {process, pid_to_list(self())}}]
                          ++ [{[[C]], {procs, {count, Attr}}}
                              || {C, Attr, _} <- sonde_top_keys:sorts(), Attr =/= memory]],
    _ = [begin
             Lines = sonde_top_view:lines(model(new(), {Keys, [Sample, Sample]}), style()),
             {Keys, 23} = {Keys, length(Lines)},
             {Keys, []} = {Keys, [L || L <- Lines, string:find(L, "looking ...") =/= nomatch]}
         end || {Keys, Sample} <- Samples],
    ok.

page_of_a_process(_Config) ->
    Pid = sonde_test:hold(fun() -> put(top_suite_key, lists:seq(1, 10000)), ok end),
    Take = fun() -> maps:get(body, take({process, pid_to_list(Pid)})) end,
    #{info := Info, numbers := Numbers} = Body = Take(),
    none = proplists:get_value(registered_name, Info),
    true = proplists:get_value(memory, Numbers) > 0,
    Off = {error, {native_off, disabled}},
    _ = sonde_test:pick(fun() -> until(inside, fun() -> is_inside(Take()) end) end,
                        fun() -> #{heap := Off, things := Off, slices := Off} = Body end),
    sonde_test:stop(Pid).

%% On a busy machine the look may not finish in time.
is_inside(#{heap := #{roots := #{dictionary := Bytes}}, slices := {_, _, _},
            things := [#{path := [dictionary, {key, top_suite_key}]} | _]}) ->
    Bytes >= 10000 * 16;
is_inside(_) ->
    false.

page_of_the_dead(_Config) ->
    Pid = sonde_test:hold(fun() -> ok end),
    sonde_test:stop(Pid),
    _ = [#{body := #{info := undefined}} = take({process, Text})
         || Text <- [pid_to_list(Pid), "<0.99999999.0>", "<1.2.3>", "x"]],
    ok.

%% Another node would write the pid with another first number.
no_pid_leaves_the_node(_Config) ->
    _ = [{Page, false} = {Page, has_pid(take(Page))}
         || Page <- [{procs, {count, memory}}, {process, pid_to_list(whereis(kernel_sup))},
                     {ets, memory}, {ets, binary_memory}, binaries, allocators, waits, none, system, apps,
                     {tree, "kernel"}, {network, {count, oct}}, {network, {count, memory}}, {mnesia, memory},
                     {port, "#Port<0.0>"}]
                    ++ [{What, pid_to_list(whereis(kernel_sup))} || What <- [links, stack, messages, tree]]],
    ok.

has_pid(T) when is_pid(T); is_port(T); is_reference(T); is_function(T) -> true;
has_pid([H | T]) -> has_pid(H) orelse has_pid(T);
has_pid(T) when is_tuple(T) -> has_pid(tuple_to_list(T));
has_pid(T) when is_map(T) -> has_pid(maps:to_list(T));
has_pid(_) -> false.

%% A name is found wherever it ranks; `init' is not large.
search_by_name_pid_or_call(_Config) ->
    Find = fun(Page, Text) -> #{body := #{rows := Rows}, find := Text} =
                                  sonde_top_sample:take((request(Page))#{find => Text}),
                              [Pid || {Pid, _, _, _} <- Rows]
           end,
    Crowd = [spawn_link(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 1500)],
    Held = sonde_test:hold(fun() -> ok end),
    true = register(top_suite_Found, Held),
    Text = pid_to_list(Held),
    _ = [{Attr, What, [Text]} = {Attr, What, Find({procs, {count, Attr}}, What)}
         || Attr <- [memory, message_queue_len, link_count], What <- ["suite_found", "TOP_SUITE_F", Text]],
    [] = Find({procs, {count, memory}}, "no such name or call"),
    true = length(Find({procs, {count, memory}}, "gen_server:loop")) > 3,
    %% The values are those of the process, and its row is like any other.
    #{body := #{rows := [{Text, Links, [top_suite_Found | _], [_, 0, _]}]}} =
        sonde_top_sample:take((request({procs, {count, link_count}}))#{find => "suite_found"}),
    {links, Linked} = process_info(Held, links),
    Links = length(Linked),
    _ = [begin unlink(Pid), exit(Pid, kill) end || Pid <- Crowd],
    sonde_test:stop(Held).

search_on_other_pages(_Config) ->
    Held = sonde_test:hold(fun() -> ets:new(top_suite_searched, [named_table]) end),
    true = register(top_suite_owner_of_it, Held),
    Find = fun(Page, Text) -> maps:get(body, sonde_top_sample:take((request(Page))#{find => Text})) end,
    _ = [#{tables := [{"top_suite_searched", _, _, _}]} = Find({ets, memory}, What)
         || What <- ["te_searched", "owner_of_it", pid_to_list(Held)]],
    #{tables := []} = Find({ets, memory}, "no such table"),
    Text = pid_to_list(Held),
    true = link(Held),
    #{related := {_, [{Text, linked, 1, [top_suite_owner_of_it | _]}]}} =
        Find({links, pid_to_list(self())}, "owner_of_it"),
    true = unlink(Held),
    sonde_test:stop(Held).

search_makes_no_atom(_Config) ->
    Pages = [{procs, {count, memory}}, {ets, memory}, {network, {count, oct}}, {mnesia, memory}, waits,
             {links, pid_to_list(self())}],
    Search = fun(Text) -> _ = [sonde_top_sample:take((request(Page))#{find => Text}) || Page <- Pages],
                          _ = sonde_top_sample:take(request({tree, Text})),
                          pressed(["/" ++ Text, Text], model(tree))
             end,
    _ = Search("top_suite_warm"),
    Before = erlang:system_info(atom_count),
    _ = Search("top_suite_never_an_atom_" ++ integer_to_list(erlang:unique_integer([positive]))),
    Before = erlang:system_info(atom_count).

%% Both ends of a connection, and a socket that is no port.
ports_and_sockets(_Config) ->
    Me = pid_to_list(self()),
    {ok, Listen} = gen_tcp:listen(0, [binary, {ip, {127, 0, 0, 1}}, {active, false}]),
    {ok, At} = inet:port(Listen),
    {ok, Client} = gen_tcp:connect({127, 0, 0, 1}, At, [binary, {active, false}]),
    {ok, Server} = gen_tcp:accept(Listen),
    {ok, Socket} = socket:open(inet, dgram, udp),
    ok = socket:bind(Socket, #{family => inet, addr => {127, 0, 0, 1}, port => 0}),
    ok = gen_tcp:send(Client, binary:copy(<<"x">>, 77777)),
    {ok, _} = gen_tcp:recv(Server, 77777),
    Take = fun(Order) -> #{body := #{sockets := Rows}} =
                             sonde_top_sample:take((request({network, Order}))#{find => Me, rows => 100}),
                         Rows
           end,
    Port = erlang:port_to_list(Client),
    Address = "127.0.0.1:" ++ integer_to_list(At),
    _ = [{Attr, {_, Value, #{owner := Me, kind := "tcp", remote := Address, send_oct := 77777, recv_oct := 0,
                             queue_size := 0}}} = {Attr, lists:keyfind(Port, 1, Take({count, Attr}))}
         || {Attr, Value} <- [{oct, 77777}, {send_oct, 77777}, {recv_oct, 0}, {queue_size, 0}, {recv_cnt, 0}]],
    {ok, [{send_cnt, Packets}]} = inet:getstat(Client, [send_cnt]),
    true = Packets > 0,
    [{Port, Packets, _}, {Port, Packets, _}] = [lists:keyfind(Port, 1, Take({count, Attr})) || Attr <- [cnt, send_cnt]],
    [{"socket", 0, _}, {"socket", 0, _}] = [lists:keyfind("socket", 1, Take({count, Attr})) || Attr <- [recv_cnt, send_cnt]],
    [{"socket", 0, #{kind := "socket udp", owner := Me, local := "127.0.0.1:" ++ _}}]
        = [Row || {"socket", _, _} = Row <- Take({count, oct})],
    [Port, _ | _] = [Id || {Id, _, _} <- Take({count, send_oct})],
    %% What grew in one interval: the server sends, meanwhile.
    Sender = spawn_link(fun() -> timer:sleep(150), ok = gen_tcp:send(Server, <<"answer">>) end),
    #{body := #{sockets := Grown}} =
        sonde_top_sample:take((request({network, {growth, send_oct}}))#{find => Me, interval => 1000}),
    Sending = erlang:port_to_list(Server),
    [{Sending, 6, _}] = [Row || {Id, _, _} = Row <- Grown, Id =:= Sending],
    unlink(Sender),
    ok = socket:close(Socket),
    _ = [gen_tcp:close(S) || S <- [Client, Server, Listen]].

page_of_a_port(_Config) ->
    {ok, Port} = gen_udp:open(0, [{ip, {127, 0, 0, 1}}]),
    Text = erlang:port_to_list(Port),
    Me = pid_to_list(self()),
    #{body := #{port := Info, statistics := [_ | _], options := [_ | _], related := Related}} = take({port, Text}),
    {name, "udp_inet"} = lists:keyfind(name, 1, Info),
    [{Me, owner, _}, {Me, linked, _}] = Related,
    ok = gen_udp:close(Port),
    _ = [#{body := #{port := undefined}} = take({port, Gone})
         || Gone <- [Text, "#Port<0.99999999>", "#Port<1.2>", "x", ""]].

applications_are_those_of_proc_group(_Config) ->
    #{body := #{apps := Apps}} = take(apps),
    [{_, _, started, N, Totals}] = [App || {"kernel", _, _, _, _} = App <- Apps],
    ok = until(equal, fun() ->
        {kernel, Count, _} = lists:keyfind(kernel, 1, sonde:proc_group(application, [memory])),
        #{body := #{apps := Now}} = take(apps),
        Count =:= element(4, lists:keyfind("kernel", 1, Now))
    end),
    true = N > 10 andalso proplists:get_value(memory, Totals) > 10000,
    [memory, message_queue_len, reductions, binary_memory] = [Attr || {Attr, _} <- Totals],
    {"stdlib", [_ | _], started, 0, _} = lists:keyfind("stdlib", 1, Apps),
    {"(none)", "", unknown, _, _} = lists:keyfind("(none)", 1, Apps),
    [] = [Name || {App, _, _} <- application:loaded_applications(), Name <- [atom_to_list(App)],
                  not lists:keymember(Name, 1, Apps)].

%% Behind the initial call, on its page, and for the search. It may be large, or have signs that turn text around.
labels_are_shown(_Config) ->
    case erlang:function_exported(proc_lib, set_label, 1) of
        false -> {skip, "OTP 27 has the first"};
        true -> shows_labels()
    end.

shows_labels() ->
    Me = self(),
    Labelled = fun(Label) ->
                       Pid = spawn(fun() -> ok = proc_lib:set_label(Label), _ = [put({I}, I) || I <- lists:seq(1, 100000)],
                                            Me ! {self(), labelled}, receive stop -> ok end end),
                       receive {Pid, labelled} -> pid_to_list(Pid) end
               end,
    [One, Large, Turned] = Texts = [Labelled(Label) || Label <- [{conn, 17}, lists:seq(1, 100000), list_to_atom([16#202E, $a, 16#20AC])]],
    #{body := #{rows := Rows}} = sonde_top_sample:take((request({procs, {count, memory}}))#{rows := 1000}),
    Label = fun(Text) -> proplists:get_value(label, element(3, lists:keyfind(Text, 1, Rows))) end,
    "{conn,17}" = Label(One),
    {_, true} = {Label(Large), length(Label(Large)) < 200},
    #{body := #{rows := [{One, _, _, _}]}} = sonde_top_sample:take((request({procs, {count, memory}}))#{find => "CONN,17"}),
    _ = [{Text, true} = {Text, lists:member({label, Label(Text)}, maps:get(info, maps:get(body, take({process, Text}))))} || Text <- Texts],
    Shown = fun(Unicode) -> Style = (style())#{width => 80, unicode := Unicode},
                            {text, Text} = sonde_top_text:known_by(element(3, lists:keyfind(Turned, 1, Rows)), Style),
                            unicode:characters_to_list(sonde_top_text:cut(Text, Style)) end,
    [[true, false], [false, false]] = [[lists:member(Char, Shown(Unicode)) || Char <- [16#20AC, 16#202E]] || Unicode <- [true, false]],
    _ = [exit(list_to_pid(Text), kill) || Text <- Texts],
    ok.

%% Also while one starts, and if the controller does not answer.
status_of_applications(_Config) ->
    Status = fun() -> #{body := #{apps := Apps}} = take(apps),
                      case lists:keyfind("top_suite_app", 1, Apps) of false -> none; App -> element(3, App) end
             end,
    Is = fun(Wanted) -> until(Wanted, fun() -> Status() =:= Wanted end) end,
    ok = start_app(),
    ok = Is(started),
    ok = application:stop(top_suite_app),
    ok = Is(loaded),
    ok = application:set_env(top_suite_app, wait, true),
    {_, Ref} = spawn_monitor(fun() -> ok = application:start(top_suite_app) end),
    Waiting = receive {starts, Pid} -> Pid after 60000 -> ct:fail(does_not_start) end,
    ok = Is(starting),
    Waiting ! go_on,
    normal = receive {'DOWN', Ref, process, _, Why} -> Why end,
    ok = Is(started),
    ok = sys:suspend(application_controller),
    unknown = try Status() after ok = sys:resume(application_controller) end,
    ok = application:stop(top_suite_app),
    ok = application:unload(top_suite_app),
    none = Status().

%% The application of the tests below: this module is its callback, and that of its supervisors.
start_app() ->
    _ = application:unload(top_suite_app),
    ok = application:load({application, top_suite_app, [{description, ""}, {vsn, "1"}, {modules, []}, {registered, []},
                                                        {applications, [kernel]}, {mod, {?MODULE, self()}}]}),
    ok = application:start(top_suite_app).

start(_, Test) ->
    _ = [receive go_on -> ok end || application:get_env(top_suite_app, wait) =:= {ok, true}, {starts, _} <- [Test ! {starts, self()}]],
    supervisor:start_link({local, top_suite_sup}, ?MODULE, {sup, Test}).

stop(_) -> ok.

init({sup, Test}) ->
    {ok, {#{}, [#{id => worker, start => {?MODULE, start_worker, [Test]}},
                #{id => inner, type => supervisor, shutdown => brutal_kill,
                  start => {supervisor, start_link, [{local, top_suite_inner}, ?MODULE, inner]}}]}};
init(inner) ->
    {ok, {#{strategy => simple_one_for_one}, [#{id => child, shutdown => brutal_kill, start => {?MODULE, start_child, []}}]}}.

start_worker(_Test) ->
    {ok, proc_lib:spawn_link(fun() -> true = register(top_suite_worker, self()), receive stop -> ok end end)}.

%% Of the last kind: it never tells its supervisor that it has started.
start_child(ends) -> {ok, proc_lib:spawn_link(fun() -> receive stop -> ok end end)};
start_child(hangs) -> proc_lib:start_link(timer, sleep, [infinity]).

stop_app() ->
    true = exit(whereis(top_suite_inner), kill),
    ok = application:stop(top_suite_app),
    ok = application:unload(top_suite_app).

%% The inner supervisor waits for a child that does not start, for ever. A process that is linked to a
%% supervisor, but was not started by it, is no child.
tree_of_an_application(_Config) ->
    ok = start_app(),
    {ok, _} = supervisor:start_child(top_suite_inner, [ends]),
    Stuck = spawn(fun() -> supervisor:start_child(top_suite_inner, [hangs]) end),
    ok = until(waits, fun() -> {links, Links} = process_info(whereis(top_suite_inner), links), length(Links) =:= 3 end),
    Linked = sonde_test:hold(fun() -> link(whereis(top_suite_sup)) end),
    {Us, #{body := #{nodes := Nodes}}} = timer:tc(fun() -> take({tree, "top_suite_app"}) end),
    true = Us < 60000000,
    [{0, {application_master, init, _}}, {1, {application_master, start_it, 4}}, {2, top_suite_sup} | Below]
        = [{Depth, case Attrs of [Name | _] when is_atom(Name) -> Name; [{initial_call, Call}] -> Call end}
           || {_, Depth, Attrs, _, _, _, _} <- Nodes],
    2 = length([inner || {3, top_suite_inner} <- Below]) + length([worker || {3, top_suite_worker} <- Below]),
    2 = length([child || {4, _} <- Below]),
    4 = length(Below),
    false = lists:keymember(pid_to_list(Linked), 1, Nodes),
    %% The sum of all is the first one's; each process is there once.
    [{_, 0, _, _, All, _, 1} | _] = Nodes,
    All = lists:sum([Memory || {_, _, _, Memory, _, _, _} <- Nodes]),
    true = length(Nodes) =:= length(lists:ukeysort(1, Nodes)),
    %% From a process of it, downwards.
    #{body := #{nodes := [{_, 0, [top_suite_inner | _], _, _, _, 2}, _, _]}} =
        take({tree, pid_to_list(whereis(top_suite_inner))}),
    exit(Stuck, kill),
    sonde_test:stop(Linked),
    stop_app().

%% 500 children: some of them are shown, the others are one row with their memory.
tree_is_bounded(_Config) ->
    Root = sonde_test:hold(fun() -> [spawn_link(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 500)] end),
    {links, [_ | _] = Links} = process_info(Root, links),
    #{body := #{nodes := [{_, 0, _, Own, Below, 0, Shown} | Rows]}} = take({tree, pid_to_list(Root)}),
    true = Shown > 0 andalso Shown < 500 andalso length(Rows) =:= Shown + 1,
    {"", 1, {more, More}, undefined, Bytes, Messages, undefined} = lists:last(Rows),
    %% the process that holds it is linked to it as well
    true = lists:member(Shown + More, [length(Links), length(Links) - 1]),
    sonde_test:pick(fun() -> 0 = Messages,
                             true = Bytes >= More * 2000,
                             Below = Own + Bytes + lists:sum([M || {_, _, _, M, _, _, 0} <- Rows])
                    end,
                    fun() -> {undefined, undefined} = {Bytes, Messages} end),
    sonde_test:stop(Root).

%% A child that is in a long native call, and does not answer: the others are shown, in time. Where the
%% VM answers for it, it is shown, too.
tree_of_what_does_not_answer(Config) ->
    Pipe = filename:join(proplists:get_value(priv_dir, Config), "tree_pipe"),
    "" = os:cmd("mkfifo '" ++ Pipe ++ "'"),
    Test = self(),
    Root = sonde_test:hold(fun() ->
        Test ! {blocked, spawn_link(fun() -> {ok, _} = file:open(Pipe, [read, raw]), receive stop -> ok end end)},
        spawn_link(fun() -> receive stop -> ok end end)
    end),
    Blocked = receive {blocked, Pid} -> Pid end,
    ok = until(blocked, fun() -> process_info(Blocked, current_function)
                                     =:= {current_function, {prim_file, open_nif, 2}} end),
    #{body := #{nodes := [_ | Below]}} = take({tree, pid_to_list(Root)}),
    {_, 1, _, _, _, _, _} = lists:keyfind(pid_to_list(Blocked), 1, Below),
    [_] = [Row || {_, 1, Attrs, _, _, _, 0} = Row <- lists:keydelete(pid_to_list(Blocked), 1, Below), is_list(Attrs)],
    "" = os:cmd("true > '" ++ Pipe ++ "'"),
    sonde_test:stop(Root).

tree_of_what_is_not_there(_Config) ->
    Nodes = fun(Text) -> maps:get(nodes, maps:get(body, take({tree, Text}))) end,
    {error, no_such_application} = Nodes("no_such_application_at_all"),
    {error, no_processes} = Nodes("stdlib"),
    Pid = sonde_test:hold(fun() -> ok end),
    sonde_test:stop(Pid),
    [{error, no_such_process}] = lists:usort([Nodes(Text) || Text <- [pid_to_list(Pid), "<0.99999999.0>", "<x"]]).

%% Read from the file, asked of memsup, or not known: what is written there is never invented.
machine_memory(Config) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "meminfo"),
    ok = file:write_file(File, "MemTotal:       24650740 kB\nMemFree:  17 kB\nCached: nonsense\nMemAvailable: 1 kB\n"),
    {File, [{total, 25242357760}, {available, 1024}, {free, 17408}]} = sonde_top_system:os_memory(File, undefined),
    unknown = sonde_top_system:os_memory(File ++ ".no", undefined),
    ok = file:write_file(File, ""),
    unknown = sonde_top_system:os_memory(File, undefined),
    case application:ensure_all_started(os_mon) of
        {ok, Started} ->
            case sonde_top_system:os_memory(File, whereis(memsup)) of
                {"memsup", [{total, Total} | _]} -> true = Total > 1000000;
                %% memsup reads a file of /proc as well
                Unknown -> {Unknown, {error, enoent}} = {Unknown, file:read_file("/proc/meminfo")}
            end,
            ok = sys:suspend(memsup),
            unanswered = sonde_top_system:os_memory(File, whereis(memsup)),
            ok = sys:resume(memsup),
            [ok = application:stop(App) || App <- lists:reverse(Started)];
        {error, _} ->
            unknown = sonde_top_system:os_memory(File, self())
    end.

tables_of_mnesia(_Config) ->
    Take = fun(Attr) -> maps:get(body, take({mnesia, Attr})) end,
    Mnesia = mnesia, % an application that may be absent
    case code:ensure_loaded(mnesia) of
        {error, _} ->
            #{mnesia := not_loaded} = Take(memory),
            {skip, "Mnesia is not installed"};
        {module, _} ->
            #{mnesia := not_running} = Take(memory),
            ok = Mnesia:start(),
            {atomic, ok} = Mnesia:create_table(top_suite_mnesia, [{ram_copies, [node()]}]),
            _ = [ok = Mnesia:dirty_write({top_suite_mnesia, N, N}) || N <- lists:seq(1, 5000)],
            {atomic, _} = Mnesia:transaction(fun() -> Mnesia:write({top_suite_mnesia, 1, 2}) end),
            #{mnesia := Known, tables := [{"top_suite_mnesia", 5000, Of} | _]} = Take(size),
            Bytes = 8 * Mnesia:table_info(top_suite_mnesia, memory),
            #{memory := Bytes, size := 5000, type := set, storage := ram_copies, index := 0} = Of,
            true = maps:get(owner, Of) =:= pid_to_list(ets:info(top_suite_mnesia, owner)),
            #{tables := [{"top_suite_mnesia", Bytes, _} | _]} = Take(memory),
            #{body := #{tables := [{"schema", _, _}]}} =
                sonde_top_sample:take((request({mnesia, memory}))#{find => "schem"}),
            2 = proplists:get_value(tables, Known),
            true = proplists:get_value(transaction_commits, Known) >= 1,
            Locks = fun() -> proplists:get_value(locks_held, maps:get(mnesia, Take(memory))) end,
            ok = until(no_lock, fun() -> Locks() =:= 0 end), % they are given back later
            Holder = spawn(fun() -> Mnesia:transaction(fun() -> Mnesia:write({top_suite_mnesia, 1, 3}), receive stop -> ok end end) end),
            ok = until(a_lock, fun() -> Locks() > 0 end),
            exit(Holder, kill),
            stopped = Mnesia:stop(),
            #{mnesia := not_running} = Take(memory),
            ok
    end.

relations_of_a_process(_Config) ->
    Me = pid_to_list(self()),
    Port = hd(erlang:ports()),
    Target = sonde_test:hold(fun() -> ok end),
    true = register(top_suite_target, Target),
    Test = self(),
    Pid = sonde_test:hold(fun() -> _ = [monitor(process, Target) || _ <- lists:seq(1, 3)],
                                   _ = monitor(port, Port),
                                   monitor(process, Test) end),
    %% The caller of top has no row in lists, but it may be what a process is linked to.
    Request = (request({links, pid_to_list(Pid)}))#{without => [self()]},
    #{related := {Counts, Rows}} = maps:get(body, sonde_top_sample:take(Request)),
    5 = proplists:get_value(monitors, Counts),
    Of = pid_to_list(Target),
    {Of, monitors, 3, [top_suite_target | _]} = lists:keyfind(Of, 1, Rows),
    true = lists:member({erlang:port_to_list(Port), monitors, 1, []}, Rows),
    [parent] = [How || {Text, How, _, _} <- Rows, Text =:= Me, How =:= parent],
    Watcher = pid_to_list(Pid),
    #{related := {_, Others}} = maps:get(body, take({links, Of})),
    [{Watcher, 'monitored by', 3, _}] = [Row || {Text, _, _, _} = Row <- Others, Text =:= Watcher],
    sonde_test:stop([Pid, Target]),
    _ = [#{related := undefined} = maps:get(body, take({What, Text}))
         || What <- [links, stack, messages], Text <- ["x", "<0.99999999.0>", "<1.2.3>"]].

stack_and_mailbox(_Config) ->
    Pid = spawn_link(fun() -> waits_here(self()) end),
    _ = [Pid ! {top_suite_message, N} || N <- lists:seq(1, 7)],
    ok = until(waits, fun() -> process_info(Pid, status) =:= {status, waiting} end),
    #{related := {stack, Stack}} = maps:get(body, take({stack, pid_to_list(Pid)})),
    {{?MODULE, waits_here, 1}, Where} = hd(Stack),
    true = has(Where, "top_SUITE.erl:\\d+$"),
    #{related := {Known, [{_, 7, _, {top_suite_message, 2}}]}} =
        maps:get(body, take({messages, pid_to_list(Pid)})),
    7 = proplists:get_value(messages, Known),
    unlink(Pid),
    exit(Pid, kill).

waits_here(Pid) ->
    receive {stop, Pid} -> ok end,
    waits_here(Pid).

own_page(_Config) ->
    Take = fun(Sort, More) ->
                   #{body := Body} = sonde_top_sample:take(maps:merge(request({own, {sonde_own_page_helper, Sort}}), More)),
                   Body
           end,
    Names = fun(#{rows := Rows}) -> [Name || {_, [{text, Name} | _]} <- Rows] end,
    #{state := Kept, lines := [], rows := [{"<0.0.0>", Cells}, {none, _}, {Port, _}],
      columns := [{none, "pool"}, {$b, "busy"}, {$m, "memory"}, {$w, "working"}, {$o, "of"}, {none, "owner"}]} = Take(none, #{}),
    [{text, "small"}, {number, "2"}, {number, "2.0 KiB"}, {number, "50.0%"}, {text, "{any,\"term\"}"}, {text, "<0.0.0>"}] = Cells,
    Port = port_to_list(hd(erlang:ports())),
    1 = binary_to_term(Kept),
    #{lines := ["looked at 7 times before"]} = Take(none, #{state => term_to_binary(7)}),
    ["small", "größte", "middle"] = Names(Take(none, #{})),
    ["größte", "middle", "small"] = Names(Take($b, #{})),
    ["größte", "small", "middle"] = Names(Take($m, #{})),
    ["middle", "small", "größte"] = Names(Take($w, #{})),
    ["middle", "größte", "small"] = Names(Take($o, #{})), % [1,2], text, {any,"term"}
    ["middle"] = Names(Take($b, #{from => 1, rows => 1})),
    ["größte"] = Names(Take(none, #{find => "GRÖ"})),
    ["small"] = Names(Take(none, #{find => "2.0 k"})).

%% The view goes on, and says why.
own_page_that_is_none(_Config) ->
    Fails = fun(Do) ->
                    #{body := #{failed := Why} = Body} =
                        sonde_top_sample:take((request({own, {sonde_own_page_helper, none}}))#{state => term_to_binary(Do)}),
                    [failed] = maps:keys(Body),
                    "sonde_own_page_helper:page/1 " ++ Text = Why,
                    Text
            end,
    Page = sonde_own_page_helper:pools(),
    "failed: {error,badarg}" = Fails(fun() -> error(badarg) end),
    "failed: {throw,ball}" = Fails(fun() -> throw(ball) end),
    "failed: {exit,normal}" = Fails(fun() -> exit(normal) end),
    "did not return in time" = Fails(fun() -> receive never -> ok end end),
    "ended: killed" = Fails(fun() -> exit(self(), kill) end),
    "ended: linked" = Fails(fun() -> _ = spawn_link(fun() -> exit(linked) end), receive never -> ok end end),
    Wrong = fun(Key, Value) -> Fails(fun() -> {Page#{Key => Value}, none} end) end,
    _ = ["returned no page" = Fails(fun() -> Not end)
         || Not <- [ok, Page, {Page, none, none}, {maps:remove(rows, Page), none}]],
    _ = ["returned no page" = Wrong(Key, Value) || {Key, Value} <- [{columns, x}, {rows, x}, {lines, x}]],
    "returned 0 columns" = Wrong(columns, []),
    "returned 21 columns" = Wrong(columns, lists:duplicate(21, "")),
    "returned lines that are no list of texts" = Wrong(lines, "hello"),
    "returned 3000006 bytes for its next call; the limit is 1000000" = Fails(fun() -> {Page, binary:copy(<<0>>, 3000000)} end),
    "returned a column with the letter q" = Wrong(columns, [{$q, "a"}, "", "", "", "", ""]),
    "returned a letter twice" = Wrong(columns, [{$b, "a"}, {$b, "b"}, "", "", "", ""]),
    _ = ["returned a column with the letter " ++ _ = Wrong(columns, [{Key, "a"}, "", "", "", "", ""])
         || Key <- "qhpaiuQ1/" ++ [b, -1, "b"]],
    _ = ["returned no list of 6 cells as row 2" = Wrong(rows, [[1, 2, 3, 4, 5, 6], Row]) || Row <- [[1], x, [1, 2, 3, 4, 5 | 6]]],
    %% No more of a text than a line has, and none that a terminal would obey.
    #{body := #{rows := [{none, [{text, Long} | _] = Cells}]}} =
        sonde_top_sample:take((request({own, {sonde_own_page_helper, none}}))#{
            state => term_to_binary(fun() -> {Page#{rows => [[lists:duplicate(10000, $x), 1 bsl 300000, {x, 1 bsl 300000},
                                                               [{I} || I <- lists:seq(1, 10000)], -1.0e300, <<255>>]]}, none} end)}),
    200 = length(Long),
    _ = [true = length(Text) =< 200 || {_, Text} <- Cells],
    %% One that traps exits ends with the sample that it was for.
    Me = self(),
    Stubborn = fun() -> false = process_flag(trap_exit, true), Me ! {stubborn, self()}, receive never -> ok end end,
    Taker = spawn(fun() -> sonde_top_sample:take((request({own, {sonde_own_page_helper, none}}))#{state => term_to_binary(Stubborn)}) end),
    Worker = receive {stubborn, Pid} -> Pid end,
    exit(Taker, kill),
    ok = until(worker_ends, fun() -> not is_process_alive(Worker) end),
    #{body := #{failed := "lists:page/1 is not on this node"}} = sonde_top_sample:take(request({own, {lists, none}})),
    #{body := #{failed := "top_SUITE_none:page/1 is not on this node"}} =
        sonde_top_sample:take(request({own, {top_SUITE_none, none}})).

%% ---- live

options_that_make_no_sense(_Config) ->
    Own = {$O, "pools", sonde_own_page_helper},
    _ = [{Pages, badarg} = {Pages, raised(fun() -> sonde:top(#{pages => Pages}) end)}
         || Pages <- [x, [x], [Own | x], [Own, Own], [setelement(1, Own, $P)], [setelement(1, Own, $L)], [setelement(1, Own, $o)],
                      [setelement(2, Own, "")], [setelement(1, Own, 79.0)], [Own, {$V, "again", sonde_own_page_helper}], [setelement(2, Own, <<255>>)], [setelement(2, Own, x)], [setelement(2, Own, lists:duplicate(21, $x))],
                      [setelement(2, Own, "\e")], [setelement(3, Own, "m")]]],
    _ = [{Opts, badarg} = {Opts, raised(fun() -> sonde:top(Opts) end)}
         || Opts <- [[], x, #{x => 1}, #{interval => 999}, #{interval => 1000.0},
                     #{interval => 3600001}, #{sort => foo}, #{sort => {growth, garbage_bytes}},
                     #{sort => {count, memory}}, #{rows => 0}, #{rows => -1}, #{width => 0},
                     #{height => x}, #{node => "n"}, #{interval => infinity}]],
    ok.

terminal() -> sonde_terminal_helper:start(#{columns => 80, rows => 24}).

top(Terminal) -> top(Terminal, #{}).

top(Terminal, Opts) -> sonde_terminal_helper:on(Terminal, fun() -> sonde:top(Opts) end).

ended({Pid, Ref}) ->
    receive {'DOWN', Ref, process, Pid, Why} -> Why end.

%% The screen finally shows this pattern.
shows(Terminal, Pattern) ->
    until({shows, Pattern}, fun() ->
        has(lists:last(["" | sonde_terminal_helper:screens(Terminal)]), Pattern)
    end).

%% It has asked for its Nth line: all lines before were read and handled.
asks(Terminal, N) ->
    until({asks, N}, fun() -> sonde_terminal_helper:requests(Terminal) =:= N end).

nobody_is_on(Terminal) ->
    until(nobody_on_the_terminal, fun() -> on(Terminal) =:= [] end).

has(Text, Pattern) ->
    re:run(unicode:characters_to_binary(Text), Pattern, [unicode, {capture, none}]) =:= match.

quit(Terminal, Top) ->
    ok = sonde_terminal_helper:type(Terminal, "q"),
    {result, ok} = ended(Top).

own_pages_of_the_node(_Config) ->
    ok = application:set_env(sonde, top_pages, own_pages()),
    try
        Terminal = terminal(),
        Top = top(Terminal),
        ok = shows(Terminal, "O pools"),
        ok = sonde_terminal_helper:type(Terminal, "O"),
        ok = shows(Terminal, "looked at [1-9] times before(?s:.*)größte +11"),
        ok = sonde_terminal_helper:type(Terminal, "b"),
        ok = shows(Terminal, "pools by busy(?s:.*)1 +größte"),
        quit(Terminal, Top)
    after application:unset_env(sonde, top_pages)
    end,
    _ = [begin
             ok = application:set_env(sonde, top_pages, Not),
             invalid = sonde_top_page:configured()
         end || Not <- [x, [x], [{$O, "pools", sonde_own_page_helper} | x], [{$P, "pools", sonde_own_page_helper}]]],
    ok = application:unset_env(sonde, top_pages),
    [] = sonde_top_page:configured().

shows_and_quits(_Config) ->
    Terminal = terminal(),
    Top = top(Terminal),
    ok = shows(Terminal, "sonde " ++ atom_to_list(node()) ++ "(?s:.*)processes by memory"),
    ok = sonde_terminal_helper:type(Terminal, "rr"),
    ok = shows(Terminal, "processes by reductions  grown in 1000 ms\\e"),
    ok = sonde_terminal_helper:type(Terminal, "E"),
    ok = shows(Terminal, "tables by memory\\e(?s:.*)ac_tab"),
    ok = sonde_terminal_helper:type(Terminal, "A"),
    ok = shows(Terminal, "allocators\\e(?s:.*)worst fragmented"),
    ok = sonde_terminal_helper:type(Terminal, "h"),
    ok = shows(Terminal, "help\\e"),
    ok = sonde_terminal_helper:type(Terminal, "nonsense"),
    ok = shows(Terminal, "no such key: nonsense"),
    quit(Terminal, Top),
    sonde_terminal_helper:stop(Terminal).

%% The caller is large and would rank, waiting in `sonde_helper:call/1', but it has no row; on the
%% page of binaries neither.
caller_has_no_row(_Config) ->
    Me = self(),
    Terminal = terminal(),
    Top = {Pid, _} = sonde_terminal_helper:on(Terminal, fun() ->
        put(large, [lists:seq(1, 2000000) | [binary:copy(<<"x">>, N * 100000)
                                             || N <- lists:seq(1, 100)]]),
        Me ! ready,
        sonde:top(#{width => 150})
    end),
    receive ready -> ok end,
    _ = [begin
             ok = sonde_terminal_helper:type(Terminal, Key),
             ok = shows(Terminal, Title ++ "(?s:.*) <\\d+\\.\\d+\\.\\d+> ")
         end || {Key, Title} <- [{"m", "processes by memory  grown"}, {"m", "processes by memory\\e"},
                                 {"b", "processes by binary_memory"},
                                 {"P", "processes by binary_memory"}]],
    ok = sonde_terminal_helper:type(Terminal, "B"),
    ok = shows(Terminal, "binaries  looked at once|needs the native path"),
    quit(Terminal, Top),
    Lines = string:split(sonde_terminal_helper:written(Terminal), "\n", all),
    Rows = [Line || Line <- Lines, has(Line, "^ +\\d+ +<")],
    true = length(Rows) > 0,
    [] = [Row || Row <- Rows, has(Row, "sonde_helper") orelse has(Row, pid_to_list(Pid) ++ " ")],
    Owned = fun(#{body := #{owned := Owned}}) when is_list(Owned) -> [P || {P, _, _} <- Owned];
               (_) -> []
            end,
    Request = (request(binaries))#{without => [self()]},
    false = lists:member(pid_to_list(self()), Owned(sonde_top_sample:take(Request))),
    sonde_terminal_helper:stop(Terminal).

%% New samples appear without a key.
shows_again_and_again(_Config) ->
    Terminal = terminal(),
    Top = top(Terminal),
    ok = until(three_clocks, fun() -> length(lists:usort(clocks(Terminal))) >= 3 end),
    1 = sonde_terminal_helper:requests(Terminal),
    quit(Terminal, Top),
    sonde_terminal_helper:stop(Terminal).

clocks(Terminal) ->
    [Clock || Screen <- sonde_terminal_helper:screens(Terminal),
              {match, [Clock]} <- [re:run(unicode:characters_to_binary(Screen),
                                          "(\\d\\d:\\d\\d:\\d\\d)  up",
                                          [{capture, all_but_first, list}])]].

%% No escape sequence is ever written.
plain_shows_at_each_line(_Config) ->
    Terminal = sonde_terminal_helper:start(#{encoding => latin1}),
    Top = top(Terminal),
    ok = asks(Terminal, 1),
    1 = frames(Terminal),
    ok = sonde_terminal_helper:type(Terminal, ""),
    ok = asks(Terminal, 2),
    2 = frames(Terminal),
    ok = sonde_terminal_helper:type(Terminal, "E"),
    ok = asks(Terminal, 3),
    true = has(sonde_terminal_helper:written(Terminal), "tables by memory\n"),
    _ = [begin
             ok = sonde_terminal_helper:type(Terminal, Key),
             ok = asks(Terminal, N)
         end || {N, Key} <- [{4, "p"}, {5, ""}, {6, "h"}, {7, "p"}, {8, "nonsense"}]],
    8 = frames(Terminal),
    false = has(sonde_terminal_helper:written(Terminal), "[^\n -~]"),
    quit(Terminal, Top),
    sonde_terminal_helper:stop(Terminal).

frames(Terminal) ->
    length(string:split(sonde_terminal_helper:written(Terminal), "sonde ", all)) - 1.

%% One sample is shown, as for a program that reads another's output.
end_of_input_ends_it(_Config) ->
    _ = [begin
             Terminal = sonde_terminal_helper:start(Opts),
             ok = sonde_terminal_helper:close(Terminal),
             {result, ok} = ended(top(Terminal)),
             true = has(sonde_terminal_helper:written(Terminal), "processes by memory"),
             sonde_terminal_helper:stop(Terminal)
         end || Opts <- [#{}, #{columns => 80, rows => 24}]],
    ok.

ends_with_its_caller(_Config) ->
    Terminal = terminal(),
    {Pid, _} = Top = top(Terminal),
    ok = shows(Terminal, "processes by"),
    true = exit(Pid, kill),
    killed = ended(Top),
    ok = nobody_is_on(Terminal),
    true = lists:suffix("\e[?1049l", sonde_terminal_helper:written(Terminal)),
    sonde_terminal_helper:stop(Terminal).

ends_with_its_terminal(_Config) ->
    Terminal = terminal(),
    Top = top(Terminal),
    ok = shows(Terminal, "processes by"),
    sonde_terminal_helper:stop(Terminal),
    {result, ok} = ended(Top),
    ok = nobody_is_on(Terminal).

%% A terminal that accepts no output blocks no process.
terminal_that_is_stuck(_Config) ->
    Terminal = sonde_terminal_helper:start(#{columns => 80, rows => 24, stuck => true}),
    Top = top(Terminal),
    ok = asks(Terminal, 1),
    quit(Terminal, Top),
    sonde_terminal_helper:stop(Terminal).

leaves_the_terminal_as_it_was(_Config) ->
    Terminal = terminal(),
    Top = top(Terminal),
    ok = shows(Terminal, "processes by"),
    quit(Terminal, Top),
    Written = sonde_terminal_helper:written(Terminal),
    true = lists:prefix("\e[?1049h", Written),
    true = lists:suffix("\e[?1049l", Written),
    %% Every attribute that is switched on is switched off again.
    {On, Off} = {count(Written, "\e[1m") + count(Written, "\e[31m"), count(Written, "\e[0m")},
    true = On > 0 andalso On =:= Off,
    sonde_terminal_helper:stop(Terminal).

count(Text, Part) -> length(string:split(Text, Part, all)) - 1.

no_process_is_left(_Config) ->
    Terminal = terminal(),
    Top = top(Terminal),
    ok = shows(Terminal, "processes by"),
    true = length(on(Terminal)) >= 3,
    quit(Terminal, Top),
    ok = nobody_is_on(Terminal),
    sonde_terminal_helper:stop(Terminal).

%% The processes of this terminal.
on(Terminal) ->
    [Pid || Pid <- processes(), process_info(Pid, group_leader) =:= {group_leader, Terminal}].

nothing_reaches_the_mailbox(_Config) ->
    Terminal = terminal(),
    Top = sonde_terminal_helper:on(Terminal, fun() -> {sonde:top(), sonde_test:mailbox()} end),
    ok = shows(Terminal, "processes by"),
    ok = sonde_terminal_helper:type(Terminal, "q"),
    {result, {ok, []}} = ended(Top),
    sonde_terminal_helper:stop(Terminal).

%% Other processes may measure too; ours is the one that ends.
times_are_measured_meanwhile(_Config) ->
    Terminal = terminal(),
    ok = until(no_meters, fun() -> meters() =:= [] end),
    Top = top(Terminal),
    ok = shows(Terminal, "\nbusy \\d+%"),
    [_] = meters(),
    quit(Terminal, Top),
    ok = until(no_meters, fun() -> meters() =:= [] end),
    sonde_terminal_helper:stop(Terminal).

meters() ->
    [Pid || Pid <- processes(),
            process_info(Pid, initial_call) =:= {initial_call, {sonde_top_sample, meter, 1}}].

%% ---- other nodes

another_node(Config) ->
    with_another(shipped, seen_on, Config).

%% Runs on a peer.
seen_on(Node) ->
    true = os:putenv("TERM", "xterm"),
    ok = erpc:call(Node, application, set_env, [sonde, top_pages, own_pages()]),
    Terminal = terminal(),
    Top = top(Terminal, #{node => Node}),
    ok = shows(Terminal, "sonde " ++ atom_to_list(Node) ++ "(?s:.*)\nbusy \\d"),
    %% Pids are written as that node writes them.
    ok = shows(Terminal, "  1 +<0\\.\\d+\\.0> "),
    ok = sonde_terminal_helper:type(Terminal, "1"),
    ok = shows(Terminal, "process <0\\.\\d+\\.0> (?s:.*)heap"),
    ok = sonde_terminal_helper:type(Terminal, "O"),
    ok = shows(Terminal, "looked at [1-9] times before(?s:.*) small +2 (?s:.*) <0\\.0\\.0>"),
    #{nodes := {_, Connected}} = sonde_top_system:take(),
    {_, Type, Address, [Received, Sent, Queued]} = lists:keyfind(atom_to_list(Node), 1, Connected),
    true = Received > 0 andalso Sent > 0 andalso Queued >= 0,
    {ok, Info} = net_kernel:node_info(Node),
    Type = proplists:get_value(type, Info),
    Port = proplists:get_value(Node, erlang:system_info(dist_ctrl)),
    {ok, {Ip, Number}} = inet:peername(Port),
    Address = lists:concat([inet:ntoa(Ip), ":", Number]),
    quit(Terminal, Top),
    ok = until(no_meters, fun() -> erpc:call(Node, ?MODULE, meters, []) =:= [] end).

%% A connection by TLS is no port. If its owner does not answer, nothing waits for it.
traffic_by_tls(Config) ->
    case code:which(ssl) of
        non_existing -> {skip, "no application ssl"};
        _ -> by_tls(proplists:get_value(priv_dir, Config))
    end.

by_tls(Dir) ->
    Signed = [{digest, sha256}, {key, {rsa, 2048, 65537}}],
    Chain = #{root => Signed, intermediates => [], peer => Signed},
    #{server_config := Config} = public_key:pkix_test_data(#{server_chain => Chain, client_chain => Chain}),
    [Cert, Key, File] = [filename:join(Dir, Name) || Name <- ["cert.pem", "key.pem", "tls.conf"]],
    {KeyType, KeyDer} = proplists:get_value(key, Config),
    ok = file:write_file(Cert, public_key:pem_encode([{'Certificate', proplists:get_value(cert, Config), not_encrypted}])),
    ok = file:write_file(Key, public_key:pem_encode([{KeyType, KeyDer, not_encrypted}])),
    ok = file:write_file(File, io_lib:format("[{server, [{certfile, ~p}, {keyfile, ~p}, {verify, verify_none}]}, "
                                             "{client, [{verify, verify_none}]}].~n", [Cert, Key])),
    Args = ["-proto_dist", "inet_tls", "-ssl_dist_optfile", File],
    sonde_peer_helper:with_nodes(2, Args, fun([{Peer, _}, {_, Other}]) ->
        ok = sonde_peer_helper:call(Peer, ?MODULE, seen_by_tls, [Other])
    end).

%% Runs on a peer.
seen_by_tls(Other) ->
    pong = net_adm:ping(Other),
    Name = atom_to_list(Other),
    Seen = fun() -> #{nodes := {1, [{Name, Type, Address, [In, Out, undefined]}]}} = sonde_top_system:take(), {In, Out, Type, Address} end,
    ok = until(packets, fun() -> {{packets, In}, {packets, Out}, normal, _} = Seen(), In > 0 andalso Out > 0 end),
    {{packets, Before}, _, _, Address} = Seen(),
    1000000 = length(erpc:call(Other, lists, seq, [1, 1000000])),
    ok = until(more, fun() -> {{packets, After}, _, _, _} = Seen(), After > Before end),
    {ok, Info} = net_kernel:node_info(Other),
    {address, {net_address, {Ip, Number}, _, _, _}} = lists:keyfind(address, 1, Info),
    Address = lists:concat([inet:ntoa(Ip), ":", Number]),
    Owner = proplists:get_value(owner, Info),
    true = erlang:suspend_process(Owner),
    {undefined, undefined, normal, undefined} = Seen(),
    true = erlang:resume_process(Owner),
    until(answers, fun() -> element(1, Seen()) =/= undefined end).

%% The line that is typed then goes to the pending request; the shell loses none.
node_that_goes_away(Config) ->
    with_another(shipped, seen_going, Config).

%% Runs on a peer.
seen_going(Node) ->
    true = os:putenv("TERM", "xterm"),
    Terminal = terminal(),
    Top = top(Terminal, #{node => Node}),
    ok = shows(Terminal, "processes by"),
    ok = erpc:call(Node, init, stop, []),
    ok = shows(Terminal, "noconnection\\. Press Enter"),
    ok = sonde_terminal_helper:type(Terminal, ""),
    {result, {error, {Node, noconnection}}} = ended(Top),
    1 = sonde_terminal_helper:requests(Terminal),
    ok.

%% What is shown of a node that does not answer is old, and a new sample ends that.
node_that_hangs(Config) ->
    with_another(shipped, seen_hanging, Config).

%% Runs on a peer.
seen_hanging(Node) ->
    true = os:putenv("TERM", "xterm"),
    Terminal = terminal(),
    Top = top(Terminal, #{node => Node}),
    ok = shows(Terminal, "every 1 s"),
    OsPid = erpc:call(Node, os, getpid, []),
    "" = os:cmd("kill -STOP " ++ OsPid),
    try
        ok = shows(Terminal, "no answer for \\d+ s")
    after
        "" = os:cmd("kill -CONT " ++ OsPid)
    end,
    ok = shows(Terminal, "every 1 s"),
    quit(Terminal, Top),
    ok.

node_that_is_not_there(_Config) ->
    Terminal = terminal(),
    {result, {error, {'nobody@127.0.0.1', noconnection}}} =
        ended(top(Terminal, #{node => 'nobody@127.0.0.1'})),
    "" = sonde_terminal_helper:written(Terminal),
    sonde_terminal_helper:stop(Terminal).

node_without_sonde(Config) ->
    with_another(bare, not_seen_on, Config).

not_seen_on(Node) ->
    Terminal = terminal(),
    {result, {error, {Node, no_sonde}}} = ended(top(Terminal, #{node => Node})),
    ok.

%% The other node may already be gone.
with_another(Build, Function, Config) ->
    {Here, _} = proplists:get_value(here, Config),
    {There, Node} = sonde_peer_helper:start_node(Build),
    try ok = sonde_peer_helper:call(Here, ?MODULE, Function, [Node])
    after sonde_attach_helper:stop(There)
    end.
