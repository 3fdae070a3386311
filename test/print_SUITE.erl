%% sonde_print: what each kind of result looks like (the files in print_SUITE_data, to the byte). No
%% term and no width makes it raise, write too long a line, or send a terminal a control character.
-module(print_SUITE).

-include_lib("proper/include/proper.hrl").

-import(sonde_test, [raised/1]).

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [looks_as_ever, what_was_missed_is_named, {group, elixir}, {group, options}, {group, devices}, {group, terms}].

groups() ->
    [{elixir, [], [calls_of_elixir_are_as_elixir_writes_them, modules_of_elixir_have_no_prefix,
                   what_is_not_elixirs_prints_as_ever, process_of_elixir_is_readable,
                   any_name_of_elixir_prints]},
     {options, [], [unknown_options_are_badarg, bad_values_are_badarg, bad_options_print_nothing,
                    width_is_that_of_the_device, width_is_80_without_one, color_is_for_terminals,
                    color_changes_no_text]},
     {devices, [], [standard_io_is_the_group_leader, named_device, latin1_device_gets_latin1,
                    no_message_reaches_the_caller]},
     {terms, [], [any_term_prints, live_results_print, large_terms_are_cut, large_tables_print,
                  no_atom_is_made, improper_lists_print]}].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% The report is printed as a sentence, not as the map that the call returns.
what_was_missed_is_named(_Config) ->
    Printed = fun(Missed) -> unicode:characters_to_list(printed(#{missed => Missed}, #{})) end,
    "missed  none\n" = Printed(#{count => 0, pids => []}),
    Self = pid_to_list(self()),
    Named = "missed  2 processes, " ++ Self ++ " (busy), ...\n",
    Named = Printed(#{count => 2, pids => [{self(), busy}]}),
    _ = [true = is_list(Printed(#{count => 1, pids => Odd})) || Odd <- [[x], [x | y], x, [{self(), 1}]]].

%% ---- goldens

looks_as_ever(Config) ->
    Dir = proplists:get_value(data_dir, Config),
    Bad = [{Name, Printed} || {Name, Result, Opts} <- goldens(),
                              Printed <- [unicode:characters_to_binary(printed(Result, Opts))],
                              {ok, Printed} =/= file:read_file(golden(Dir, Name))],
    _ = [ct:pal("~s is now~n~ts", [Name, Printed]) || {Name, Printed} <- Bad],
    [] = [Name || {Name, _} <- Bad],
    [] = [Name ++ ".txt" || {Name, _, _} <- goldens()]
        -- [filename:basename(F) || F <- filelib:wildcard(filename:join(Dir, "*.txt"))].

%% Run in a shell, in test/: print_SUITE:write_goldens("print_SUITE_data"). Then review the files.
write_goldens(Dir) ->
    [ok = file:write_file(golden(Dir, Name), unicode:characters_to_binary(printed(Result, Opts)))
     || {Name, Result, Opts} <- goldens()].

golden(Dir, Name) ->
    filename:join(Dir, Name ++ ".txt").

goldens() ->
    [{Name, Result, #{}}
     || {Name, Result} <- [{"proc_count", rows()}, {"proc_count_of_several", parts()},
                           {"proc_count_unnamed", unnamed()}, {"proc_count_status", statuses()},
                           {"proc_window", window()}, {"proc_group", groups_of_processes()},
                           {"bin_leak", leak()}, {"info", info()}, {"info_of_the_dead", dead()},
                           {"info_category", {memory_used, memory_used()}},
                           {"info_memory", {memory, 4321987}},
                           {"bin_account", account()},
                           {"bin_account_of_a_sample",
                            (account())#{sampled => 0.125, error => 123456}},
                           {"bin_holders", binaries()}, {"bin_holder", hd(binaries())},
                           {"bin_resources", resources()}, {"heap", heap()},
                           {"bin_slices", slices()},
                           {"mailbox", mailbox()}, {"mailbox_empty", (mailbox())#{messages := 0, shapes := []}},
                           {"mailbox_from_outside", mailbox_there()}, {"bin_account_from_outside", account_there()},
                           {"binary_attributes", binary_attributes()},
                           {"inet_count", inet()}, {"port_info", port_info()},
                           {"node_stats", sample()}, {"node_stats_list", [sample(), sample()]},
                           {"scheduler_usage", [{1, 0.0}, {2, 0.1234}, {10, 1.0}]},
                           {"alloc_types", alloc_types()},
                           {"alloc_instances", [{0, 1024}, {1, 7000000}]},
                           {"alloc_fragmentation", fragmentation()},
                           {"alloc_average_block_sizes", average()},
                           {"alloc_cache_hit_rates", hit_rates()},
                           {"alloc_sbcs_to_mbcs", ratios()}, {"memory", memory()},
                           {"port_types", [{"tcp_inet", 12}, {"0/1", 1}]},
                           {"native", native()}, {"native_off", (native())#{status => off()}},
                           {"remote_load", loaded()}, {"remote_load_of_a_module", loaded_module()},
                           {"named_rpc", {[{a@h, 1}], []}}, {"other_rows", other_rows()},
                           {"mixed_rows", rows() ++ [{odd, 1}]}, {"odd_names", odd_names()},
                           {"error", {error, {not_loaded, "no such file"}}},
                           {"nothing", []}, {"number", 1234567}, {"long_line", long_line()},
                           {"term", {lists:seq(1, 40), #{key => <<"binary">>}, 'ŀ', "text\n"}}]]
        ++ [{"narrow", parts(), #{width => 40}}, {"narrowest", parts(), #{width => 20}},
            {"narrow_fragmentation", fragmentation(), #{width => 45}},
            {"wide", parts(), #{width => 150}}, {"narrow_term", long_line(), #{width => 30}},
            {"color", parts() ++ [{links, []}], #{color => always}},
            {"color_error", {error, nodedown}, #{color => always}},
            {"unicode", odd_names(), #{device => unicode}},
            {"unicode_term", {lists:seq(1, 40), 'ŀ', "text\n"}, #{device => unicode}}].

pid(N) -> list_to_pid("<0." ++ integer_to_list(N) ++ ".0>").
port(N) -> list_to_port("#Port<0." ++ integer_to_list(N) ++ ">").

attrs(Call) -> [{current_function, Call}, {initial_call, {proc_lib, init_p, 5}}].

rows() ->
    [{pid(44), 1426552, [code_server | attrs({code_server, loop, 1})]},
     {pid(10), 263712, [erl_prim_loader, {current_function, {erl_prim_loader, loop, 3}},
                        {initial_call, {erlang, apply, 2}}]},
     {pid(2017), 1000, attrs({gen_server, loop, 7})},
     {pid(3), 0, [{current_function, undefined}, {initial_call, {prim_file, start, 0}}]}].

unnamed() -> [{pid(1), 7, attrs({a, b, 0})}, {pid(222), -1, []}].

statuses() ->
    [{pid(1), waiting, [init | attrs({init, loop, 1})]},
     {pid(2), [{process, pid(N)} || N <- lists:seq(1, 30)], attrs({gen_server, loop, 7})},
     {pid(3), 12, attrs({a, b, 1})}].

window() ->
    [{pid(44), 82, [code_server | attrs({code_server, loop, 1})]},
     {pid(45), -1000000, [{current_function, {'Elixir.GenServer', loop, 7}},
                          {initial_call, {proc_lib, init_p, 5}}]}].

parts() ->
    [{memory, rows()}, {message_queue_len, unnamed()}, {links, []},
     {heap_size, [{pid(9), 1234567, [logger | attrs({gen_server, loop, 7})]}]},
     {binary_memory, [{pid(9), 1048524, []}, {pid(8), 1048525, []}, {pid(8), 1023, []}]}].

groups_of_processes() ->
    [{{rabbit_channel, init, 1}, 12000, [{memory, 3456789012}, {message_queue_len, 3}]},
     {{'Elixir.DBConnection', init, 1}, 20, [{memory, 123456}, {message_queue_len, 0}]},
     {undefined, 1, [{memory, 1000}, {message_queue_len, 12345}]}].

leak() ->
    #{rows => [{pid(215), -8192, [router | attrs({gen_server, loop, 7})]},
               {pid(98), 0, []}],
      collected => 1234, skipped => 2, left => 98765, total => {1234567890, 1134567890},
      binary => {undefined, undefined}, ms => 1234}.

account() ->
    #{total => 34021776, exclusive => 2442944, shared => 1186768, ets => 10485760,
      queues => 19780000, literals => 0, mixed => 0, resources => 2696, elsewhere => 1000,
      overhead => 121904, unseen => -1704, unused => 2440704, ms => 1305, processes_missed => 2,
      tables_missed => 1}.

binaries() ->
    [#{id => 140125401493544, size => 1114096, refc => 1, elsewhere => 0,
       holders => [{pid(147), 1, 1048576}]},
     #{id => 140125405696040, size => 1048576, refc => 10051, elsewhere => 7000,
       holders => [{pid(3), 2, undefined}, {{queue, pid(4)}, 1000, 12},
                   {{ets, cache}, 2045, undefined},
                   {literals, 1, undefined} | [{pid(N), 1, 0} || N <- lists:seq(10, 14)]]},
     #{id => 8, size => 100, refc => 30, elsewhere => 1,
       holders => [{pid(N), 1, 0} || N <- lists:seq(100, 128)]},
     #{id => 16, size => 0, refc => 1, elsewhere => 1, holders => []}].

resources() ->
    [{{crypto, 'OSSL'}, 12345, 9876543, 3}, {{'Elixir.Rust', 'two words'}, 1, 40, 1},
     {unknown, 7, 1000, 5}].

heap() ->
    #{blocks => #{young => 15328, old => 20704, stack => 32, fragments => 0, free => 105776},
      reachable => 20048, garbage => 16016, literals => 32,
      roots => #{stack => 19968, registers => 0, dictionary => 80, mailbox => 0, other => 0},
      histogram => [{cons, 1242, 19872}, {{tuple, 8}, 1, 72}, {hashmap, 1, 104}],
      binaries => #{live => 1048576, garbage => 0, visible => 84, pinned => 1048576}}.

slices() ->
    [{140125401493544, 1048576, 2, [{0, 80}, {40, 100}, {1000000, 1000004}]},
     {140125401493999, 1000, 1, [{N, N + 1} || N <- lists:seq(0, 9)]}].

mailbox() ->
    #{messages => 1234567, examined => 100000, bytes => 352600, binary_bytes => 0,
      shapes => [#{shape => {work, 4}, messages => 90000, bytes => 360000, from => pid(9)},
                 #{shape => {any, 2}, messages => 8000, bytes => 800, from => undefined},
                 #{shape => {'Elixir.My.Event', 2}, messages => 1999, bytes => 64, from => undefined},
                 #{shape => {'two words', 3}, messages => 1, bytes => 40, from => undefined},
                 #{shape => stop, messages => 1, bytes => 0, from => pid(80)},
                 #{shape => list, messages => 1, bytes => 16, from => undefined}]}.

%% Where this VM has no atom, there is a text.
mailbox_there() ->
    #{messages => 2, examined => 2, bytes => 96, binary_bytes => 4096, constants => 17, content => forbidden,
      shapes => [#{shape => {<<"only_there">>, 3}, messages => 1, bytes => 32, from => undefined},
                 #{shape => <<"only there">>, messages => 1, bytes => 64, from => pid(9)}]}.

account_there() ->
    #{exclusive => 12345678, shared => 65536, queues => 0, mixed => 0, resources => 40, elsewhere => 1048576,
      not_known => [total, ets, literals, overhead, unseen, unused], processes_missed => 3}.

binary_attributes() ->
    [{Attr, [{pid(9), 1234567, [logger | attrs({gen_server, loop, 7})]}]}
     || Attr <- [binary_unique, binary_exclusive, binary_proportional]].

memory_used() ->
    [{memory, 426552}, {message_queue_len, 1234}, {heap_size, 28690}, {total_heap_size, 46422},
     {garbage_collection, [{min_bin_vheap_size, 46422}, {min_heap_size, 233},
                           {fullsweep_after, 65535}, {minor_gcs, 4}]}].

info() ->
    [{meta, [{registered_name, router}, {dictionary, [{'$ancestors', [sup, pid(7)]}, {rand, 1}]},
             {group_leader, pid(8)}, {status, waiting}]},
     {signals, [{links, [pid(7), port(3)]}, {monitors, [{process, pid(4)}]}, {monitored_by, []},
                {trap_exit, true}]},
     {location, [{initial_call, {proc_lib, init_p, 5}},
                 {current_stacktrace,
                  [{gen_server, loop, 7, [{file, "gen_server.erl"}, {line, 433}]},
                   {proc_lib, init_p_do_apply, 3, [{file, "proc_lib.erl"}, {line, 240}]}]}]},
     {memory_used, memory_used()},
     {work, [{reductions, 68512345}]}].

dead() -> [{C, undefined} || C <- [meta, signals, location, memory_used, work]].

inet() ->
    [{port(12), 123456789, [{recv_oct, 100000000}, {send_oct, 23456789}]},
     {port(3), 12, [{recv_oct, 12}, {send_oct, 0}]}].

port_info() ->
    [{meta, [{id, 40}, {name, "tcp_inet"}, {os_pid, undefined}]},
     {signals, [{connected, pid(9)}, {links, [pid(9)]}, {monitors, []}]},
     {io, [{input, 0}, {output, 1536}]}, {memory_used, [{memory, 40}, {queue_size, 0}]},
     {type, [{statistics, [{recv_oct, 0}, {recv_cnt, 0}]}, {peername, {{127, 0, 0, 1}, 5672}},
             {options, [{active, true}, {buffer, 1460}]}]}].

sample() ->
    {[{process_count, 12345}, {run_queue, 3}, {memory_total, 1234567890}, {memory_procs, 234567890},
      {memory_atoms, 264598}, {memory_bin, 65536}, {memory_ets, 358772}],
     [{bytes_in, 123456}, {bytes_out, 0}, {gc_count, 71}, {gc_words_reclaimed, 123456},
      {reductions, 7654321}, {scheduler_usage, [{1, 0.5}, {2, 0.0123}, {3, 1.0}]}]}.

alloc_types() ->
    [{binary_alloc, 720896}, {driver_alloc, 196608}, {eheap_alloc, 13107200}, {ll_alloc, 0}].

fragmentation() ->
    [{{ll_alloc, 0}, fragments(1.0, 0.7452, 0, 6251856)},
     {{eheap_alloc, 12}, fragments(0.99, 0.3, 123456789, 542)}].

fragments(Sbcs, Mbcs, Large, Small) ->
    [{sbcs_usage, Sbcs}, {mbcs_usage, Mbcs}, {sbcs_block_size, Large}, {sbcs_carriers_size, Large},
     {mbcs_block_size, Small}, {mbcs_carriers_size, Small}].

average() ->
    [{binary_alloc, [{mbcs, 3942.023}, {sbcs, 657104.0}]}, {temp_alloc, [{mbcs, 0}, {sbcs, 0}]}].

hit_rates() ->
    [{{instance, 0}, [{hit_rate, 0.5}, {hits, 1234567}, {calls, 2469134}]},
     {{instance, 11}, [{hit_rate, 1.0}, {hits, 0}, {calls, 0}]}].

ratios() ->
    [{{eheap_alloc, 2}, infinity}, {{ets_alloc, 1}, 12.5}, {{ets_alloc, 11}, 0.0001},
     {{temp_alloc, 0}, 0}].

memory() ->
    [{total, 15431864}, {processes, 4297576}, {processes_used, 4236936}, {system, 11123360},
     {atom, 278697}, {atom_used, 264598}, {binary, 136600}, {code, 5810142}, {ets, 362768}].

native() ->
    #{status => active, otp => "27", erts => "15.2", arch => "x86_64-pc-linux-gnu", flavor => jit,
      layout => otp27, reader => guarded, checks => [pid, heap, binary],
      counters => #{native => 123456}}.

off() -> {off, {not_loaded, "no sonde_nif*.so beside the module"}}.

loaded() ->
    [{'rabbit@host1', {ok, native()}}, {'rabbit@host2', {already, native()}},
     {'a@b', {ok, (native())#{status := off()}}}, {'rabbit@host3', {error, nodedown}}].

loaded_module() -> {[{module, lobby}, {badrpc, {'EXIT', undef}}], ['rabbit@host3']}.

%% Rows of other calls: tables, terms shown by their name, sockets.
other_rows() ->
    [{sessions, 123456789, #{memory => 2345678, owner => pid(44), name => sessions, size => 12}},
     {<<"a key that is a long binary, longer than its column">>, 12, [{memory, 5}]},
     {{ets, 12, [a, b]}, undefined, #{}}].

odd_names() ->
    [{pid(1), 12, ['größe' | attrs({'ünï', 'ŀoop', 1})]},
     {pid(2), 1, ['日本' | attrs({a, b, 1})]},
     {pid(3), 1, ['e\x{301}tude' | attrs({a, b, 1})]},
     {pid(4), 1, ['\e[31mred\e[0m\a\r\n' | attrs({'two words', 'Up', 1})]},
     {pid(5), 1, ['\x{202e}turned\x{9b}' | attrs({a, b, 1})]},
     {pid(6), 1, [<<"\e]0;title\a", 255>> | attrs({a, b, 1})]}].

long_line() ->
    {'an atom that is much longer than a line of the table is, so it has to be broken',
     <<"é\e"/utf8>>}.

%% ---- Elixir: as Exception.format_mfa/3 writes a call

calls_of_elixir_are_as_elixir_writes_them(_Config) ->
    M = 'Elixir.MyApp.Worker',
    _ = [{Call, Text} = {Call, cell(Call, unicode)}
         || {Call, Text} <-
                [{{M, init, 1}, "MyApp.Worker.init/1"},
                 {{M, valid_1, 0}, "MyApp.Worker.valid_1/0"},
                 {{M, 'valid?', 0}, "MyApp.Worker.valid?/0"}, {{M, 'go!', 2}, "MyApp.Worker.go!/2"},
                 {{M, 'odd name', 1}, "MyApp.Worker.\"odd name\"/1"},
                 {{M, 'Up', 1}, "MyApp.Worker.\"Up\"/1"}, {{M, '', 1}, "MyApp.Worker.\"\"/1"},
                 {{M, 'a!b', 1}, "MyApp.Worker.\"a!b\"/1"},
                 {{M, 'q"\\#{x}', 1}, "MyApp.Worker.\"q\\\"\\\\\\#{x}\"/1"},
                 {{M, '\e[1m\n', 1}, "MyApp.Worker.\"\\x{1B}[1m\\x{A}\"/1"},
                 {{M, 'été', 1}, "MyApp.Worker.été/1"}, {{M, '日本', 1}, "MyApp.Worker.日本/1"},
                 {{M, '|>', 2}, "MyApp.Worker.|>/2"}, {{M, '..', 2}, "MyApp.Worker.\"..\"/2"},
                 {{M, '/', 2}, "MyApp.Worker.//2"}, {{M, 'not', 1}, "MyApp.Worker.not/1"},
                 {{M, '-start/2-fun-0-', 1}, "anonymous fn/1 in MyApp.Worker.start/2"},
                 {{M, '-odd name/2-fun-12-', 1}, "anonymous fn/1 in MyApp.Worker.\"odd name\"/2"},
                 {{M, '-a/b/2-fun-0-', 0}, "anonymous fn/0 in MyApp.Worker.\"a/b\"/2"},
                 {{M, '-fun.start/2-', 2}, "&MyApp.Worker.start/2"},
                 {{M, '-start/2-lc$^0/1-0-', 1}, "MyApp.Worker.\"-start/2-lc$^0/1-0-\"/1"},
                 {{'Elixir.A', f, 1, [{line, 3}]}, "A.f/1"},
                 {{'fun', M, '-start/2-fun-0-', 1}, "anonymous fn/1 in MyApp.Worker.start/2"}]],
    "MyApp.Worker.\"\\x{65E5}\"/1" = cell({M, '日', 1}, latin1),
    "MyApp.Worker.é/1" = cell({M, 'é', 1}, latin1),
    "A.f/1 < gen_server:loop/7" = cell(current_stacktrace, [{'Elixir.A', f, 1, []},
                                                           {gen_server, loop, 7, []}], latin1).

modules_of_elixir_have_no_prefix(_Config) ->
    _ = [{Term, Text} = {Term, cell(Term, latin1)}
         || {Term, Text} <- [{'Elixir.MyApp.Repo', "MyApp.Repo"}, {'Elixir.A_1.B2', "A_1.B2"},
                             {'Elixir.Elixir.Foo', "Elixir.Elixir.Foo"},
                             {{ets, 'Elixir.MyApp.Cache'}, "{ets,MyApp.Cache}"},
                             {['Elixir.A', self(), 'it\'s', "'Elixir.A'", <<"\"'Elixir.A'">>],
                              lists:concat(["[A,", pid_to_list(self()), ",'it\\'s',\"'Elixir.A'\","
                                            "<<\"\\\"'Elixir.A'\">>]"])}]],
    ok.

%% These are neither Elixir modules nor aliases. What is printed as a term is printed as Erlang.
what_is_not_elixirs_prints_as_ever(_Config) ->
    _ = [{Term, Text} = {Term, cell(Term, latin1)}
         || {Term, Text} <- [{{gen_server, loop, 7}, "gen_server:loop/7"},
                             {{'two words', 'Up', 1}, "'two words':'Up'/1"},
                             {{m, '-start/2-fun-0-', 1}, "m:'-start/2-fun-0-'/1"},
                             {{m, 'Elixir.A', 1}, "m:'Elixir.A'/1"},
                             {{'fun', m, '-a/0-fun-0-', 1}, "{'fun',m,'-a/0-fun-0-',1}"}
                             | [{A, "'" ++ atom_to_list(A) ++ "'"}
                                || A <- ['Elixir', 'Elixir.', 'Elixir.a', 'Elixir.A.b', 'Elixir.A.',
                                         'Elixir.A..B', 'Elixir.A-B', 'Elixir.1']]]],
    "{error,{'Elixir.MyApp.Worker',init,1}}\n" =
        printed({error, {'Elixir.MyApp.Worker', init, 1}}, #{}).

cell(Value, Encoding) ->
    cell(key, Value, Encoding).

cell(Key, Value, Encoding) ->
    Text = printed(#{Key => Value}, #{width => 1000}, device([{encoding, Encoding}])),
    string:trim(lists:nthtail(length(atom_to_list(Key)), Text)).

process_of_elixir_is_readable(_Config) ->
    Pid = sonde_elixir_helper:start(),
    Rows = [Row || {P, _, _} = Row <- sonde:proc_count(memory, 100000), P =:= Pid],
    [_, Row] = lines(printed(Rows, #{width => 200})),
    {match, _} = re:run(Row, " MyApp\\.Worker +MyApp\\.Worker\\.\"odd name\"/1 "),
    Info = printed(sonde:info(Pid), #{width => 1000})
        ++ printed(sonde:proc_group(initial_call, [memory]), #{width => 200}),
    _ = [{Part, {match, _}} = {Part, re:run(Info, Part)}
         || Part <- ["registered_name +MyApp\\.Worker\n",
                     "\nanonymous fn/0 in MyApp\\.Worker\\.start/0 +1 ",
                     "\\{MyApp\\.Key,\\{MyApp\\.Value,"]],
    sonde_elixir_helper:stop(Pid).

any_name_of_elixir_prints(_Config) ->
    Property = ?FORALL({Name, Unicode}, {atom_text(), bool()},
                       begin
                           Call = {'Elixir.A', list_to_atom(Name), 1},
                           Encoding = case Unicode of true -> unicode; false -> latin1 end,
                           is_fit(cell(Call, Encoding), 1000, Unicode, false)
                       end),
    true = proper:quickcheck(Property, [quiet, {numtests, 500}]).

atom_text() ->
    ?LET(Parts, list(oneof(["-", "/", "fun", ".", "-fun-0-", "1", "\"", "\\", "#{", [range(0, 255)],
                            [16#301], [16#65E5], "a", "é"])),
         lists:sublist(lists:append(Parts), 255)).

%% ---- options

unknown_options_are_badarg(_Config) ->
    _ = [{Opts, badarg} = {Opts, raised(fun() -> sonde_print:print([], Opts) end)}
         || Opts <- [#{colour => never}, #{width => 80, foo => 1}, [], [{width, 80}], 80,
                    #{1 => 2}]],
    ok.

bad_values_are_badarg(_Config) ->
    _ = [{Opts, badarg} = {Opts, raised(fun() -> sonde_print:print([], Opts) end)}
         || Opts <- [#{width => W} || W <- [0, -1, 19, 10001, 80.0, "80", infinity]]
                ++ [#{color => C} || C <- [true, false, "auto", 1]]
                ++ [#{device => D} || D <- [no_such_device, undefined, "out", 1, make_ref()]]],
    _ = [ok = sonde_print:print([], #{device => device([]), width => W}) || W <- [20, 10000]],
    ok.

bad_options_print_nothing(_Config) ->
    Device = device([]),
    badarg = raised(fun() -> sonde_print:print(rows(), #{device => Device, width => 1}) end),
    "" = text(Device).

width_is_that_of_the_device(_Config) ->
    _ = [begin
             Widest = lists:max([string:length(L) || L <- lines(printed_on([{columns, Columns}]))]),
             {Columns, Expected} = {Columns, Widest}
         end || {Columns, Expected} <- [{50, 50}, {30, 30}, {20, 20}, {5, 20}]],
    printed = case printed_on([{columns, 1000}]) =:= printed_on([{columns, 20000}]) of
                  true -> printed
              end.

printed_on(Has) ->
    Device = device(Has),
    ok = sonde_print:print(#{a => lists:duplicate(800, $a)}, #{device => Device, color => never}),
    text(Device).

width_is_80_without_one(_Config) ->
    Device = device([]),
    ok = sonde_print:print(rows(), #{device => Device}),
    Text = text(Device),
    Text = printed(rows(), #{width => 80}).

color_is_for_terminals(_Config) ->
    Terminal = [{columns, 80}, {rows, 25}],
    Saved = [{Name, os:getenv(Name)} || Name <- ["NO_COLOR", "TERM"]],
    try
        _ = [{Env, Has, Color} = {Env, Has, colored(Env, Has, #{color => Opt})}
             || {Env, Has, Opt, Color} <-
                    [{[], Terminal, auto, true}, {[], [], auto, false},
                     {[{"TERM", "dumb"}], Terminal, auto, false},
                     {[{"TERM", "xterm"}], Terminal, auto, true},
                     {[{"NO_COLOR", "1"}], Terminal, auto, false},
                     {[{"NO_COLOR", ""}], Terminal, auto, true},
                     {[], [{opts, [{terminal, false}]} | Terminal], auto, false},
                     {[], [{opts, [{terminal, true}]} | Terminal], auto, true},
                     {[], Terminal, never, false}, {[], [], always, true},
                     {[{"NO_COLOR", "1"}, {"TERM", "dumb"}], [], always, true}]]
    after
        _ = [set_env(Name, Value) || {Name, Value} <- Saved]
    end,
    true = colored([], Terminal, #{}) =:= (os:getenv("NO_COLOR", "") =:= ""
                                           andalso os:getenv("TERM") =/= "dumb").

colored(Env, Has, Opts) ->
    _ = [set_env(Name, proplists:get_value(Name, Env, os:getenv(Name)))
         || Name <- ["NO_COLOR", "TERM"], Env =/= []],
    _ = [set_env(Name, false) || Name <- ["NO_COLOR", "TERM"], Env =:= [], map_size(Opts) > 0],
    Device = device(Has),
    ok = sonde_print:print(parts(), Opts#{device => Device}),
    lists:member($\e, text(Device)).

set_env(Name, false) -> os:unsetenv(Name);
set_env(Name, Value) -> os:putenv(Name, Value).

color_changes_no_text(_Config) ->
    _ = [begin
             Colored = printed(Result, Opts#{color => always}),
             Plain = printed(Result, Opts#{color => never}),
             {Name, Plain} = {Name, re:replace(Colored, "\e\\[[0-9]*m", "",
                                               [global, unicode, {return, list}])}
         end || {Name, Result, Opts} <- goldens()],
    ok.

%% ---- devices

standard_io_is_the_group_leader(_Config) ->
    Device = device([]),
    Leader = group_leader(),
    true = group_leader(Device, self()),
    try
        ok = sonde_print:print({error, one}),
        ok = sonde_print:print({error, two}, #{device => standard_io})
    after
        group_leader(Leader, self())
    end,
    "{error,one}\n{error,two}\n" = text(Device).

named_device(_Config) ->
    Device = device([]),
    true = register(sonde_print_device, Device),
    ok = sonde_print:print(12, #{device => sonde_print_device}),
    "12\n" = text(Device).

latin1_device_gets_latin1(Config) ->
    Name = filename:join(proplists:get_value(priv_dir, Config), "latin1"),
    {ok, File} = file:open(Name, [write]),
    ok = sonde_print:print([{pid(1), 'ŀ', ['日本']}, {pid(2), 'é', []}], #{device => File}),
    ok = sonde_print:print({'ŀ', "ŀ", 'é'}, #{device => File}),
    ok = file:close(File),
    {ok, Text} = file:read_file(Name),
    Lines = binary:split(Text, <<"\n">>, [global]),
    [<<"pid      value      name">>,
     <<"<0.1.0>  '\\x{140}'  '\\x{65E5}\\x{672C}'">>,
     <<"<0.2.0>  ", 16#e9>>,
     <<"{'\\x{140}',[320],", 16#e9, "}">>, <<>>] = Lines.

no_message_reaches_the_caller(_Config) ->
    sonde_test:no_message(fun() -> [printed(Result, Opts) || {_, Result, Opts} <- goldens()] end).

%% ---- terms

any_term_prints(_Config) ->
    proper:quickcheck(prop_any_term(), [quiet, {numtests, 500}, {max_size, 14}])
        orelse ct:fail({counterexample, proper:counterexample()}).

prop_any_term() ->
    ?FORALL({Result, Width, Unicode, Color}, {result(), range(20, 200), bool(), bool()},
            begin
                Device = device([{encoding, case Unicode of true -> unicode; false -> latin1 end}]),
                ok = sonde_print:print(Result, #{device => Device, width => Width,
                                                 color => case Color of
                                                              true -> always;
                                                              false -> never
                                                          end}),
                is_fit(text(Device), Width, Unicode, Color)
            end).

is_fit(Text0, Width, Unicode, Color) ->
    Text = case Color of
               true -> re:replace(Text0, "\e\\[(1|31|0)m", "", [global, unicode, {return, list}]);
               false -> Text0
           end,
    Long = [L || L <- lines(Text), string:length(L) > Width],
    Control = [C || C <- Text, C =/= $\n, C < 32 orelse C >= 127 andalso C < 160],
    Foreign = [C || C <- Text, not Unicode, C > 255],
    _ = [ct:log("~0tp", [{Width, Long, Control, Foreign}]) || Long ++ Control ++ Foreign =/= []],
    Long =:= [] andalso Control =:= [] andalso Foreign =:= [].

%% Terms of any kind, and some that look almost like results.
result() ->
    ?LAZY(frequency([{3, any()}, {4, list(row())}, {2, list({key(), list(row())})},
                     {2, list({key(), props()})}, {2, list({any(), value()})}, {1, props()},
                     {1, a_map(key(), value())}, {1, {props(), props()}}, {1, {key(), value()}},
                     {1, {error, value()}}, {1, [row() | any()]}, {1, {list(row()), list(atom())}},
                     {1, list(held())}, {1, held()},
                     {1, list({value(), value(), value(), value()})},
                     {1, ?LET({M, Rows}, {a_map(key(), value()), list(row())}, M#{rows => Rows})},
                     {1, {[{process_count, value()} | props()], [{bytes_in, value()} | props()]}},
                     {1, ?LAZY([smaller(result())])},
                     {1, ?LAZY({smaller(result()), smaller(result())})}])).

held() ->
    ?LET({Id, Size, Refc, Holders, Elsewhere},
         {value(), value(), value(),
          oneof([value(), list({value(), number_like(), value()})]), value()},
         #{id => Id, size => Size, refc => Refc, holders => Holders, elsewhere => Elsewhere}).

row() ->
    ?LAZY(smaller(frequency([{6, {value(), value(), oneof([list(attr()), a_map(key(), value())])}},
               {2, {pid_like(), number_like(), list(attr())}}, {1, {value(), value()}},
               {1, {value(), value(), value()}}]))).

attr() -> frequency([{4, {key(), value()}}, {2, key()}, {1, value()}]).
props() -> ?LAZY(smaller(list({key(), value()}))).
pid_like() -> oneof([self(), pid(12), port(1)]).

number_like() ->
    oneof([integer(), float(), 1 bsl 70, 1 bsl 3000, -(1 bsl 3000), 1.0e300, -1.0e-300,
           ?LET(N, range(0, 60), (1 bsl N) - 1), {integer(), integer()}]).

smaller(Type) -> ?SIZED(Size, resize(Size div 3, Type)).

a_map(Key, Value) -> ?LET(Pairs, list({Key, Value}), maps:from_list(Pairs)).

key() ->
    oneof([memory, heap_size, mbcs_usage, hit_rate, usage, ms, binary_alloc, name, rows, total,
           scheduler_usage, current_function, current_stacktrace, input, 'ŀ', 'a\e[1mb',
           '\x{202e}x',
           'a name that is so long that there is no room for it in most of the tables here', '']).

value() ->
    ?LAZY(smaller(frequency([{4, number_like()}, {3, key()}, {3, any()}, {2, pid_like()},
                     {2, utf8()}, {2, text_like()}, {1, {atom(), atom(), range(0, 300)}},
                     {1, list({atom(), atom(), integer(), list(any())})},
                     {1, {ok, #{status => any()}}},
                     {1, list({integer(), float()})},
                     {1, ?LAZY([smaller(value()) | smaller(value())])},
                     {1, ?LET(V, smaller(value()), #{V => V})}, {1, list(float())}]))).

text_like() ->
    list(oneof([range(0, 255), 16#301, 16#65E5, 16#1F468, 16#200D, 16#FEFF, $\s, $a, $\n, $\e])).

live_results_print(_Config) ->
    Port = hd(erlang:ports()),
    Live = [sonde:proc_count(memory, 20), sonde:proc_count(links, 5),
            sonde:proc_window(reductions, 5, 1),
            sonde:bin_leak(5), sonde:bin_leak(5, #{}), sonde:native(), process_info(self()),
            process_info(self(), [dictionary, messages, backtrace]), erlang:memory(),
            [erlang:port_info(P) || P <- [Port]], ets:info(ac_tab), erlang:system_info(allocator),
            erlang:system_info({allocator, binary_alloc}), sys:get_status(kernel_sup),
            [{M, sonde:proc_count(M, 3)} || M <- [memory, heap_size, status]],
            sonde:bin_account(), sonde:bin_holders(5, size), sonde:bin_holders(5, count),
            sonde:bin_resources(9), sonde:bin_window(9, 1),
            sys:get_state(kernel_sup), code:all_loaded(), supervisor:which_children(kernel_sup)],
    _ = [true = is_fit(printed(Result, #{}), 80, false, false) || Result <- Live],
    ok.

%% Each term is too large to print whole.
large_terms_are_cut(_Config) ->
    N = 300000,
    Int = erlang:'bsl'(1, 7 * N), % half a million digits: a minute to print
    Deep = lists:foldl(fun(_, T) -> [T] end, [], lists:seq(1, N)),
    Large = [lists:seq(1, N), lists:duplicate(N, $a), lists:duplicate(N, 16#416), Deep,
             lists:foldl(fun(_, T) -> {T, a} end, x, lists:seq(1, N)),
             lists:foldl(fun(_, T) -> #{a => T} end, x, lists:seq(1, N)),
             lists:foldl(fun(_, T) -> [a | T] end, improper, lists:seq(1, N)),
             list_to_tuple(lists:seq(1, N)), maps:from_list([{I, Deep} || I <- lists:seq(1, N)]),
             binary:copy(<<"text">>, N), <<0:(8 * N)>>, <<1, 0:(8 * N + 3)>>, Int, {Int, [-Int]}],
    _ = [begin
             Text = printed(Shape, #{}),
             true = is_fit(Text, 80, false, false),
             true = length(Text) < 400000
         end || T <- Large, Shape <- [T, {T, T}, {error, T}, [{pid(1), T, [{memory, T}, {a, T}]}],
                                      [{memory, [{T, T, #{links => T}}]}], [{meta, [{memory, T}]}],
                                      #{memory => T, T => x}]],
    ok.

large_tables_print(_Config) ->
    Rows = [{pid(N), N, [{current_function, {gen_server, loop, 7}}]} || N <- lists:seq(1, 20000)],
    Lines = lines(printed(Rows, #{})),
    20001 = length(Lines),
    "<0.20000.0>  20,000  gen_server:loop/7" = lists:last(Lines).

improper_lists_print(_Config) ->
    _ = [true = is_fit(printed(T, #{}), 80, false, false)
         || T <- [[a | b], [{pid(1), 1, []} | x], [{pid(1), 1, [{a, 1} | x]}],
                  [{memory, rows() ++ x}],
                  [{meta, [{a, 1} | x]}], #{rows => rows() ++ x}, {meta, [{a, 1} | x]},
                  {[{process_count, 1} | x], [{bytes_in, 1} | y]}, {[{module, a} | x], [b | c]},
                  [{a, [{b, 1} | c]}, {d, [{b, 1}]}], #{current_stacktrace => [{m, f, 1, [x | y]}]},
                  #{current_stacktrace => [{m, f, 1, [{line, x} | y]}]}]],
    ok.

no_atom_is_made(_Config) ->
    Print = fun(I) ->
                    Name = "no_atom_yet_" ++ integer_to_list(I),
                    printed([{Name, I, [{memory, list_to_binary(Name)},
                                        {current_function, {'Elixir.A', '-b/0-fun-0-', 1}}]}],
                            #{})
            end,
    _ = Print(0),
    Atoms = erlang:system_info(atom_count),
    _ = [Print(I) || I <- lists:seq(1, 200)],
    true = erlang:system_info(atom_count) - Atoms < 50.

%% ---- a device

printed(Result, #{device := unicode} = Opts) ->
    printed(Result, maps:remove(device, Opts), device([{encoding, unicode}]));
printed(Result, Opts) ->
    printed(Result, Opts, device([])).

printed(Result, Opts, Device) ->
    ok = sonde_print:print(Result, Opts#{device => Device}),
    text(Device).

lines(Text) ->
    string:split(string:trim(Text, trailing, "\n"), "\n", all).

%% A device that collects what is written, with the properties in `Has'.
device(Has) ->
    Owner = self(),
    spawn(fun() -> device(monitor(process, Owner), Has, []) end).

device(Owner, Has, Text) ->
    receive
        {io_request, From, As, {put_chars, unicode, Chars}} ->
            From ! {io_reply, As, ok},
            device(Owner, Has, [Text | unicode:characters_to_list(Chars)]);
        {io_request, From, As, Request} ->
            From ! {io_reply, As, device_has(Request, Has)},
            device(Owner, Has, Text);
        {text, From} ->
            From ! {self(), lists:flatten(Text)};
        {'DOWN', Owner, process, _, _} ->
            ok
    end.

device_has(getopts, Has) ->
    [{encoding, proplists:get_value(encoding, Has, latin1)} | proplists:get_value(opts, Has, [])];
device_has({get_geometry, What}, Has) -> proplists:get_value(What, Has, {error, enotsup});
device_has(_, _) -> {error, request}.

text(Device) ->
    Device ! {text, self()},
    receive {Device, Text} -> Text end.
