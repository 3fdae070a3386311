%% @doc Looks inside a running node without stopping it. Nothing has to be started: load the
%% application, or bring it with {@link remote_load/2}, and call.
%%
%% <h4>What do you want to know?</h4>
%% <ul>
%% <li>Which processes have most memory, messages, binaries, links, monitors?
%%     {@link proc_count/2}</li>
%% <li>Which of them grow, or work, just now? {@link proc_window/3}</li>
%% <li>Which kind of processes, or which application, has it all? {@link proc_group/2}</li>
%% <li>Which processes keep binaries that they do not need any more? {@link bin_garbage/1} looks,
%%     and {@link bin_leak/1} collects; with the node's memory before and after
%%     {@link bin_leak/2}</li>
%% <li>Which small slices hold large binaries? {@link bin_waste/1}, {@link bin_slices/1}</li>
%% <li>Where is the binary memory of the node, all of it? {@link bin_account/0}; which processes own
%%     most of it? {@link bin_owned/1}; which are the largest binaries, or the most shared, and who
%%     holds them? {@link bin_holders/2}, {@link bin_holder/1}; whose grows just now?
%%     {@link bin_window/2}; what do native libraries hold? {@link bin_resources/1}</li>
%% <li>What is on the heap of this process, and what of it is garbage? {@link heap/1}; what is the
%%     largest thing in it, and how do I get there? {@link heap_top/2}; what waits in its mailbox?
%%     {@link mailbox/2}; how large is this term? {@link flat_size/1}, {@link byte_size/1}, {@link
%%     term_size/1}; all of it as a file for Chrome: {@link sonde_heap:dump/3}</li>
%% <li>What is this process doing, and what does it hold? {@link info/1}, {@link info/2}; the state
%%     of a `gen_server' and its kin: {@link get_state/1}</li>
%% <li>How is the node doing, and how busy are its schedulers? {@link node_stats_print/2},
%%     {@link node_stats_list/2}, {@link scheduler_usage/1}</li>
%% <li>Which sockets have most traffic, altogether or just now? {@link inet_count/2},
%%     {@link inet_window/3}; those of the `socket' module, which are no ports: {@link sockets/0}
%%     </li>
%% <li>Which ports are there, and what is this one? {@link port_types/0}, {@link tcp/0},
%%     {@link udp/0}, {@link sctp/0}, {@link files/0}, {@link port_info/1}</li>
%% <li>Which ports, and which ETS tables, have the memory? {@link port_count/2},
%%     {@link ets_count/2}, which also finds binaries that only a table holds</li>
%% <li>How does the code that runs here look? {@link source/1}</li>
%% <li>How do I look into a node that does not have sonde? {@link remote_load/2}; into many nodes?
%%     {@link cluster/2}, {@link rpc/2}, {@link named_rpc/2}</li>
%% <li>What is wrong with this node? {@link diagnose/0}</li>
%% <li>How do I read all this? {@link print/1}; how do I watch it live? {@link top/0}</li>
%% <li>Does it read natively, and if not, why not? {@link native/0}</li>
%% </ul>
%%
%% <h4>Attributes</h4>
%% The calls about processes take every item of `erlang:process_info/2', in its own unit, and:
%% <ul>
%% <li>`binary_memory': bytes of the refc binaries in `process_info(Pid, binary)'; a binary that the
%%     process refers to twice counts twice</li>
%% <li>`binary_count': the length of `process_info(Pid, binary)'</li>
%% <li>`link_count', `monitor_count', `monitored_by_count': the lengths of these lists, ports and
%%     remote ends included</li>
%% <li>`dictionary_size': keys in the process dictionary</li>
%% <li>`garbage_bytes', `bin_garbage', `bin_garbage_bytes', `bin_waste': what a collection would
%%     free of the heap, which references to binaries it would drop, bytes of the binaries that
%%     would go with them, and bytes of binaries that slices hold and do not see; `flat_size': words
%%     that a copy of all that its roots lead to would take. Each heap is walked for them: of
%%     {@link proc_count/3} only</li>
%% <li>`binary_unique': bytes of the binaries outside of the heap that the process refers to, each
%%     once: from its heaps and fragments (garbage that was not collected yet, too), with binaries
%%     that are being appended to and their spare room, and from messages that wait, on a heap or
%%     not. References to memory of native libraries are left out. The source are the process's own
%%     lists and queues, read under a stamp</li>
%% <li>`binary_exclusive': bytes of those among them to which nothing else refers, since the count
%%     of references that each binary has is what was found in this process: what would be freed if
%%     it let go</li>
%% <li>`binary_proportional': bytes of them, where each of `k' holders has the size `div k', and the
%%     first in term order what remains, so that the sum over all holders is the size. Holders are
%%     processes, their messages that are not on a heap yet, tables, and one for persistent terms
%%     and all that is not walked, which comes first. The whole node is looked through. As for the
%%     two before it, of {@link proc_count/3} only</li>
%% </ul>
%% `memory', `binary_memory' and the last three above are bytes; `heap_size', `total_heap_size' and
%% `stack_size' are words.
%%
%% <h4>What it costs the node</h4>
%% `memory', `total_heap_size', `heap_size', `stack_size', `message_queue_len', `reductions' and the
%% attributes above are read natively: no message goes to any process but the winners, and to the
%% few that changed too fast to be read. All other items, and all of them where {@link native/0}
%% says that the native side is off, are asked of each process by `process_info/2'; the results are
%% the same. Calls that look inside heaps have no
%% such answer: they say `{native_off, Reason}' where they are documented to.
%%
%% Results are plain terms: rows `{What, Value, Attrs}', largest first. Arguments that make no sense
%% raise `badarg', or what recon 2.5 raises where the call is one of its own.
-module(sonde).

-export([proc_count/2, proc_count/3,
         proc_window/3, proc_window/4,
         proc_group/2, proc_group/3,
         bin_leak/1, bin_leak/2,
         bin_garbage/1, bin_garbage/2, bin_garbage/3, bin_waste/1, bin_waste/2,
         bin_slices/1, bin_slices/2,
         bin_account/0, bin_account/1, bin_owned/1, bin_owned/2, bin_holders/1, bin_holders/2, bin_holders/3,
         bin_holder/1, bin_resources/1, bin_resources/2, bin_window/2, bin_window/3,
         heap/1, heap/2, heap_top/2, heap_top/3, mailbox/2, mailbox/3,
         flat_size/1, flat_size/2, flat_size/3, byte_size/1, byte_size/2, term_size/1, term_size/2,
         info/1, info/2, info/3, info/4, get_state/1, get_state/2,
         tcp/0, udp/0, sctp/0, files/0, port_types/0, port_info/1, port_info/2,
         inet_count/2, inet_window/3, sockets/0, sockets/1,
         port_count/2, ets_count/2, ets_count/3,
         diagnose/0, diagnose/1, diagnosis/0, diagnosis/1,
         node_stats/4, node_stats_print/2, node_stats_list/2, scheduler_usage/1, source/1,
         remote_load/1, remote_load/2,
         rpc/1, rpc/2, rpc/3, named_rpc/1, named_rpc/2, named_rpc/3, cluster/2,
         print/1, print/2, top/0, top/1,
         native/0, native/1]).

-export_type([heap_opts/0, heap/0, heap_error/0, heap_row/0, mailbox/0, size_opts/0,
              attr/0, attrs/0, row/0, report/0, count_opts/0, window_opts/0, by/0, group/0, group_opts/0,
              leak_opts/0, leak_report/0,
              bytes/0, node_result/0, status/0, socket_row/0, node_stats/0, cluster_opts/0]).

-type attr() :: sonde_attr:attr().
%% An item of `process_info/2', or one of ours: `binary_memory', `binary_count', `link_count',
%% `monitor_count', `monitored_by_count', `dictionary_size'.
-type attrs() :: sonde_attr:attrs().
%% The registered name, if there is one, `{current_function, _}', `{initial_call, _}'.
-type row() :: {pid(), Value :: term(), attrs()}.
-type count_opts() :: #{self => boolean(), max_words => non_neg_integer(),
                        timeout => Ms :: non_neg_integer(), report => boolean(),
                        suspend => boolean()}.
-type window_opts() :: #{self => boolean(), max_entries => pos_integer(), report => boolean()}.
-type by() :: sonde_group:by().
-type group() :: sonde_group:group().
-type group_opts() :: #{self => boolean(), max_groups => pos_integer(), report => boolean()}.
-type report() :: sonde_scan:report().
%% What `report => true' adds to rows: `{Rows, Report}', where `Report' is `#{left_out, too_large,
%% busy, missed}'. `left_out' is how many processes are in no row because they were not read: those
%% with more than `max_words' (`too_large'), those that ran whenever they were looked at (`busy'),
%% and those that were not looked at when the time was up. `missed' is `#{count, pids}': `count' as
%% `left_out', and in `pids' up to ten of them, `{Pid, busy | too_large | timeout}'. Where a call
%% asks each process that it cannot read, all of it is 0.
%%
%% With `suspend => true' (default `false') each busy process is suspended
%% (`erlang:suspend_process/1'), read, and resumed, one at a time; a process in a dirty call for half
%% a second at most until it leaves that. The report has `suspended' as well, `#{count, pids}' with
%% `{Pid, Ms}', and `suspended_ms', the sum. It goes on in any case, also when the caller is killed.
%% Never suspended: the caller, its group leader, helpers of ours, and processes that the VM or the
%% call may have to wait for (`init', `code_server', `logger', `user' and a few more).
-type leak_opts() :: #{collect => holders | all, deadline => Ms :: non_neg_integer(),
                       in_flight => 1..10000}.
-type leak_report() :: sonde_bin_leak:report().
-type bytes() :: non_neg_integer().
-type heap_opts() :: #{suspend => boolean(), max_words => non_neg_integer(),
                       timeout => Ms :: non_neg_integer(), progress => boolean()}.
%% What every call on one heap takes. `suspend' (`false'): hold the process by
%% `erlang:suspend_process/1' meanwhile, and tell in `suspended_ms' how long that was; it goes on in
%% any case, also when the caller is killed. `max_words' (1000000000) and `timeout' (30000 ms):
%% beyond them the call gives up. `progress' (`false'): draw a line that says how far it is.
-type heap() :: sonde_heap_map:heap().
-type heap_row() :: sonde_heap_top:row().
-type mailbox() :: sonde_mailbox:mailbox().
-type size_opts() :: #{max_words => non_neg_integer(), timeout => Ms :: non_neg_integer()}.
-type heap_error() :: sonde_look:errors().
%% `undefined': there is no such process. `busy': it ran whenever it was looked at; `suspend' helps.
%% `{heap_too_large, Words, Limit}': more than `max_words'. `{native_off, Reason}': no official call
%% tells this without copying the heap.
-type node_result() :: sonde_loader:node_result().
-type status() :: sonde_vm:status().
-type socket_row() :: sonde_port:socket_row().
-type node_stats() :: sonde_node:stats().
-type cluster_opts() :: sonde_cluster:opts().

%% There are BIFs of these names.
-compile({no_auto_import, [byte_size/1]}).

-define(MAX_MS, 16#FFFFFFFF).

%% ---- processes

%% @doc The `N' processes that have most of `Attr': `{Pid, Value, Attrs}', largest value first, for
%% equal values the higher pid first, the caller left out. `Attrs' is the registered name, if there
%% is one, then `{current_function, MFA}' and `{initial_call, MFA}'.
%%
%% The values are those of `process_info/2', in its units. Natively nobody is asked but the winners.
%% Values that are no numbers sort in term order. Items that are large (`messages', `backtrace') are
%% fetched from every process, one after the other: dear where mailboxes are long.
%%
%% Of several attributes: `[{Attr, Rows}]' in the order asked, from one sweep over the processes.
%% Each process is met once; if it must be asked, for all of them at once.
%%
%% Raises `badarg' for what is not an attribute, `badarith' if `N' is no number. As in recon a
%% negative `N', and a float, gives all processes.
%%
%% ```
%% 1> sonde:proc_count(memory, 2).
%% [{<0.44.0>,426552,[code_server,{current_function,{code_server,loop,1}},
%%                    {initial_call,{erlang,apply,2}}]},
%%  {<0.10.0>,263712,[erl_prim_loader,{current_function,{erl_prim_loader,loop,3}},
%%                    {initial_call,{erlang,apply,2}}]}]
%% 2> [{memory, Big}, {message_queue_len, Late}] =
%%        sonde:proc_count([memory, message_queue_len], 5).
%% '''
-spec proc_count(attr(), N :: number()) -> [row()];
                ([attr()], N :: number()) -> [{attr(), [row()]}].
proc_count(Attr, N) ->
    ok = check_counted(Attr),
    {Rows, _} = sonde_proc_count:proc_count(Attr, amount(N), sonde_opts:read(#{}, sonde_scan:options())),
    Rows.

%% @doc As {@link proc_count/2}, with options. `self => true': the caller has a row too, if its
%% value is among the largest (default `false'). `report => true': the answer is `{Rows, Report}'
%% ({@type report()}). `max_words' (1000000000), `timeout' (30000 ms) and `suspend' (`false') are
%% about the attributes that no process can be asked for (`garbage_bytes', `bin_garbage',
%% `bin_garbage_bytes', `bin_waste', `flat_size', `binary_unique', `binary_exclusive',
%% `binary_proportional'): a process that has a larger heap (of those that it is marked for), never
%% rests, or was not looked at in time is left out, never shown as 0. Where the native side is off,
%% these attributes raise `{native_off, Reason}'.
%%
%% `N' must be a non-negative integer. That, an unknown option, or a bad value of one, is `badarg'.
%%
%% ```
%% 1> [{P, _, _}] = sonde:proc_count(memory, 1, #{self => true}).
%% 2> {Rows, #{missed := #{count := 1, pids := [{Pid, busy}]}}} =
%%        sonde:proc_count(garbage_bytes, 5, #{report => true}).
%% '''
-spec proc_count(attr() | [attr()], N :: non_neg_integer(), count_opts()) ->
    Rows | {Rows, report()} when Rows :: [row()] | [{attr(), [row()]}].
proc_count(Attr, N, Opts) ->
    sonde_opts:is_count(N) orelse error(badarg),
    Read = sonde_opts:read(Opts, sonde_scan:options()),
    ok = check_counted(Attr),
    told(sonde_proc_count:proc_count(Attr, N, Read), Read).

%% @doc The `N' processes whose `Attr' grew most in the next `Ms' milliseconds; rows as those of
%% {@link proc_count/2}, with the growth as the value. Who was born in the window has its full
%% value, who died in it the value of its beginning. For the dead, `Attrs' is what was known before
%% they died: of those that had most at the beginning it was asked, for others both calls are
%% `undefined'.
%%
%% Costs two scans, and in between 16 bytes for each process (about 100 where the native side is
%% off). `infinity' waits for ever.
%%
%% Raises `badarg' for what is not an attribute, `badarith' if the attribute or `N' is no number,
%% `timeout_value' if `Ms' is no time; all at once, before the window.
%%
%% ```
%% 1> sonde:proc_window(reductions, 3, 1000).
%% '''
-spec proc_window(attr(), N :: number(), Ms :: timeout()) -> [row()].
proc_window(Attr, N, Ms) ->
    ok = check_window(Attr, Ms),
    sonde_proc_count:window(Attr, amount(N), Ms, #{self => false}).

%% @doc As {@link proc_window/3}, with options: `self => true' gives the caller a row too (default
%% `false'); `max_entries' is how many processes may be remembered, 16 bytes each (default
%% 134217727, the most that a node can have); more are `system_limit'. `report => true': the answer
%% is `{Rows, Report}' ({@type report()}); this call asks what it cannot read, so none is missed.
%%
%% `N' must be a non-negative integer. That, an unknown option, or a bad value of one, is `badarg'.
%%
%% ```
%% 1> sonde:proc_window(memory, 3, 1000, #{self => true}).
%% '''
-spec proc_window(attr(), N :: non_neg_integer(), Ms :: timeout(), window_opts()) ->
    [row()] | {[row()], report()}.
proc_window(Attr, N, Ms, Opts) ->
    sonde_opts:is_count(N) orelse error(badarg),
    Read = sonde_opts:read(Opts, #{self => sonde_opts:flag(false), report => sonde_opts:flag(false),
                                   max_entries => sonde_scan:max_entries()}),
    ok = check_window(Attr, Ms),
    none_missed(sonde_proc_count:window(Attr, N, Ms, Read), Read).

%% Of calls that ask what they cannot read.
none_missed(Rows, Opts) -> told({Rows, sonde_scan:report(false)}, Opts).

told(Both, #{report := true}) -> Both;
told({Rows, _}, _) -> Rows.

%% Of calls that recon does not have: with what people know processes by.
rows(Both) -> shown(Both, #{report => false}).

shown(Both, Opts) -> sonde_origin:rows(told(Both, Opts)).

%% @doc As {@link proc_group/3}, with its defaults.
%%
%% ```
%% 1> sonde:proc_group(application, [memory]).
%% [{kernel,31,[{memory,1270432}]},{undefined,10,[{memory,449784}]},
%%  {stdlib,2,[{memory,9696}]}]
%% '''
-spec proc_group(by(), [attr()]) -> [group()].
proc_group(By, Attrs) ->
    grouped(By, Attrs, group_opts(#{})).

%% @doc Totals over groups of processes: `[{Key, Processes, [{Attr, Total}]}]', largest first by the
%% first attribute, then by the number of processes; the totals in the order asked. `Key' is, by
%% <ul>
%% <li>`initial_call': what `proc_lib:translate_initial_call/1' gives (the callback module of a
%%     `gen_server'), or the call that a process without `proc_lib' began with</li>
%% <li>`current_function': what it runs now, or waits in</li>
%% <li>`registered_name': its name, `undefined' for all that have none</li>
%% <li>`application': whose group leader it has, `undefined' for those of none</li>
%% <li>`label': what `proc_lib:set_label/1' gave it, `undefined' without; before OTP 27,
%%     `badarg'</li>
%% </ul>
%% Values are those of {@link proc_count/2}, in their units. A binary that is shared counts for each
%% process that refers to it.
%%
%% Options: `self => true': the caller counts too (default `false'); `max_groups' is how many groups
%% there may be (default 100000); more are `system_limit'. `report => true': the answer is
%% `{Groups, Report}' ({@type report()}); this call asks what it cannot read, so none is missed.
%%
%% <strong>What it costs</strong>: attributes that can be read are read natively; for its key each
%% process is asked once, by `process_info/2', which for `registered_name' and `application' sends
%% no message to a process that waits. On OTP 25 `initial_call' copies the process dictionaries, one
%% at a time.
%%
%% Raises `badarg' for what is not an attribute or a key, `badarith' for an attribute that is no
%% number; at once.
%%
%% ```
%% 1> sonde:proc_group(initial_call, [memory, message_queue_len], #{self => true}).
%% '''
-spec proc_group(by(), [attr()], group_opts()) -> [group()] | {[group()], report()}.
proc_group(By, Attrs, Opts) ->
    Read = group_opts(Opts),
    none_missed(grouped(By, Attrs, Read), Read).

group_opts(Opts) ->
    sonde_opts:read(Opts, #{self => sonde_opts:flag(false), report => sonde_opts:flag(false),
                            max_groups => sonde_opts:positive(100000)}).

grouped(By, Attrs, #{self := Self, max_groups := Max}) ->
    is_list(Attrs) andalso is_key(By) orelse error(badarg),
    ok = check_attrs(Attrs),
    lists:all(fun(Attr) -> is_number(sonde_attr:check(Attr)) end, Attrs) orelse error(badarith),
    sonde_group:group(By, Attrs, Self, Max).

%% @doc Collects garbage and shows the `N' processes that let go of most refc binaries:
%% `{Pid, Change, Attrs}', where `Change' is the number of binaries after the collection minus the
%% number before it: the most negative first, for equal changes the higher pid first. The caller is
%% among them. `Attrs' as in {@link proc_count/2}; a process that died meanwhile is `{Pid, 0, []}'.
%% A change can be positive: collecting moves messages that wait in the mailbox onto the heap.
%%
%% <strong>It disturbs the node</strong>: every process that holds a binary, or has a message
%% waiting, does a full collection, up to 100 at the same time. Processes that were seen to have
%% neither are left alone, since nothing can change; their row says 0. Hibernated processes do not
%% collect. It takes 5 seconds at most: a process that does not answer by then (it runs a long
%% native call) has no row. Killing the caller ends the work.
%%
%% Raises `badarith' if `N' is no number. As in recon a negative `N' gives all processes. The
%% numbers are the lengths of `process_info(Pid, binary)'.
%%
%% ```
%% 1> sonde:bin_leak(2).
%% [{<0.215.0>,-8192,[router,{current_function,{gen_server,loop,7}},
%%                    {initial_call,{proc_lib,init_p,5}}]},
%%  {<0.98.0>,-12,[{current_function,{gen_server,loop,7}},
%%                 {initial_call,{proc_lib,init_p,5}}]}]
%% '''
-spec bin_leak(N :: number()) -> [{pid(), Change :: integer(), attrs()}].
bin_leak(N) ->
    sonde_bin_leak:rows(amount(N), leak_opts(#{})).

%% @doc As {@link bin_leak/1}, and tells what the collection did for the node:
%% <ul>
%% <li>`rows': those of {@link bin_leak/1}</li>
%% <li>`collected': processes that did a full collection; `skipped': those that did not answer in
%%     time, and have no row; `left': those not collected because nothing could change</li>
%% <li>`total', `binary': `{Before, After}' of `erlang:memory(total)' and `erlang:memory(binary)',
%%     bytes of the node (`undefined' what is not known, where an allocator is switched off)</li>
%% <li>`ms': how long it took</li>
%% </ul>
%% Options:
%% <ul>
%% <li>`collect => holders | all' (default `holders'): `all' collects also those where nothing can
%%     change. With the native side off it cannot be known who they are: all are collected, `left'
%%     is 0</li>
%% <li>`deadline => Ms' for the whole call (default 5000)</li>
%% <li>`in_flight => 1..10000' (default 100): how many collect at the same time. Who has not
%%     answered for a tenth of a second is not counted any more</li>
%% </ul>
%% `N' must be a non-negative integer. That, an unknown option, or a bad value of one, is `badarg'.
%%
%% ```
%% 1> #{rows := Rows, binary := {Before, After}} = sonde:bin_leak(5, #{in_flight => 10}).
%% '''
-spec bin_leak(N :: non_neg_integer(), leak_opts()) -> leak_report().
bin_leak(N, Opts) ->
    sonde_opts:is_count(N) orelse error(badarg),
    sonde_bin_leak:report(N, leak_opts(Opts)).

%% ---- inside one heap

%% @equiv heap(Pid, #{})
-spec heap(pid()) -> heap() | heap_error().
heap(Pid) -> heap(Pid, #{}).

%% @doc What the heap of a process is made of, without stopping it, copying it, or making it
%% collect. All sizes are bytes:
%% <ul>
%% <li>`blocks': what is used of the heap (`young') and of the old heap, the stack, the heap
%%     fragments (those of waiting messages, too), and what is free in the two heaps' blocks</li>
%% <li>`reachable': what the roots reach, so what a major collection would keep; `roots': by root;
%%     what several reach counts for the first of stack, registers, dictionary, mailbox, other</li>
%% <li>`garbage': what no root reaches. `reachable + garbage + free + stack' is the sum of
%%     `blocks'</li>
%% <li>`literals': bytes of the literals that the heap refers to, each by itself and once, without
%%     what is below it; they belong to no process. `undefined': it is not known where they lie</li>
%% <li>`histogram': `{Kind, Count, Bytes}' of what is reachable, most bytes first. A hashmap is one
%%     thing with all its nodes. Of a process with `process_flag(sensitive, true)' no function is
%%     named (`{'fun', undefined, undefined, N}', where `N' is the size of the environment), and
%%     `content' is `sensitive'</li>
%% <li>`binaries': bytes of binaries outside of the heap. `live': of those that something reachable
%%     on the process's own list refers to; `garbage': of those that only garbage refers to;
%%     `pinned': as `live', with those of waiting messages; `visible': as much of them as the terms
%%     show, each slice by itself</li>
%% </ul>
%% The source is the heap itself, read under a stamp: if the process ran meanwhile, it is read
%% again. Of the caller: its heap while it waits for the answer. Options and errors:
%% {@type heap_opts()}, {@type heap_error()}.
-spec heap(pid(), heap_opts()) -> heap() | heap_error().
heap(Pid, Opts) -> sonde_heap_map:heap(Pid, Opts).

%% @equiv heap_top(Pid, N, #{})
-spec heap_top(pid(), N :: non_neg_integer()) -> [heap_row()] | heap_error().
heap_top(Pid, N) -> heap_top(Pid, N, #{}).

%% @doc The `N' things on the heap of a process that retain most, the largest first, each with a
%% path that leads to it: `#{path, retained, self, kind, preview}'. {@link print/1} shows them as a
%% table.
%%
%% `retained': bytes of the heap that would be free if nothing led to the thing any more (its
%% dominator tree); what lies outside of the heap, literals and the bytes of large binaries, counts
%% for nobody. `self': what the thing itself takes; `kind': as in {@link heap/1}. A list is one
%% thing, at its first cell (but a tail that something else refers to as well is another), and so is
%% a map of any size.
%%
%% `path' is the shortest way from a root: `dictionary', `{stack, I}' (the top is the first),
%% `{register, I}', `{message, I}', `{other, What}'; then `{key, K}' in a map or the dictionary,
%% `{element, I}' of a tuple, `{field, Name}' where {@link sonde_rec} knows the record, `{index, I}'
%% in a list, `{tail, I}': what comes after so many of its cells, `{env, I}': what a fun took along,
%% `key': in a key, `keys': the tuple of keys that several small maps share, `binary': what a slice
%% is a slice of. At most 32 steps; `...' stands for those left out in the middle. A key that cannot
%% be shown in full is a binary with its text.
%%
%% `preview' is text of at most 200 bytes: three levels, ten elements of each, binaries by their
%% sizes. Where the environment of the application has `{allow_content, false}' it is `forbidden',
%% and of keys only atoms are shown. Of a process with `process_flag(sensitive, true)' it is
%% `sensitive', and neither keys nor fields nor functions are named.
%%
%% There are at most 100000 rows. It takes memory of its own meanwhile: 7 percent of the heap, and
%% 16 bytes for each thing on it. The source is the heap, read under a stamp. Options and errors:
%% {@type heap_opts()}, {@type heap_error()}.
-spec heap_top(pid(), N :: non_neg_integer(), heap_opts()) -> [heap_row()] | heap_error().
heap_top(Pid, N, Opts) -> sonde_heap_top:top(Pid, N, Opts).

%% @equiv mailbox(Pid, N, #{})
-spec mailbox(pid(), N :: non_neg_integer()) ->
    mailbox() | heap_error() | {error, content_forbidden}.
mailbox(Pid, N) -> mailbox(Pid, N, #{}).

%% @doc What waits in a mailbox: `#{messages, bytes, binary_bytes, examined, shapes}', of the `N'
%% commonest shapes, most messages first: `#{shape, messages, bytes, from}'. Natively no message is
%% copied.
%%
%% The shape of an atom is that atom; of a tuple `{Tag, Arity}', where `Tag' is its first element if
%% that is an atom, and else `any'; and there are `list', `map', `binary' and `other'. A message
%% from another node that is not decoded yet is an `other' one without a size. (Shapes after the
%% first 4096 are `other', too.) `messages' is how many wait. Of them the oldest `examined', at most
%% the option `sample' (100000), are looked at: `bytes' is what their terms take in a message
%% (`erts_debug:flat_size/1', in bytes), `binary_bytes' what they show of binaries outside of the
%% heap. `from': who sent all of a shape, if that was one process of this node; `undefined': more
%% than one, or not known.
%%
%% Where the native side is off the messages are copied, in a helper, if no more than `sample' wait,
%% and `from' is known of calls of a `gen_server' only. `{error, content_forbidden}': the
%% environment of the application has `{allow_content, false}'. Of a process with
%% `process_flag(sensitive, true)' there are numbers only: if messages wait, `shapes' is empty and
%% `content' is `sensitive'; where the native side is off, the error is `{native_off, Reason}'. Other
%% options and errors: {@type heap_opts()}, {@type heap_error()}.
-spec mailbox(pid(), N :: non_neg_integer(), #{sample => non_neg_integer(), atom() => term()}) ->
    mailbox() | heap_error() | {error, content_forbidden}.
mailbox(Pid, N, Opts) -> sonde_mailbox:mailbox(Pid, N, Opts).

%% @doc Words of a term, equal to `erts_debug:flat_size/1': what it takes in a message. A part that
%% is shared counts at each place where it is, a literal as if it were copied. A term that shares
%% its parts can be larger than any memory: beyond a billion words, or 30 seconds, it is an error.
%% Answers on both sides; natively it looks at the caller's heap, and nothing is copied.
-spec flat_size(term()) -> non_neg_integer() | sonde_size:failure().
flat_size(Term) -> sonde_term:flat_size(Term, #{}).

%% @doc As {@link flat_size/1}, of a term, with other limits; or of what is in one root of a
%% process, as {@link flat_size/3} without options.
-spec flat_size(term(), size_opts()) -> non_neg_integer() | sonde_size:failure();
               (pid(), sonde_term:root()) -> non_neg_integer() | heap_error().
flat_size(Pid, Root) when is_atom(Root) -> flat_size(Pid, Root, #{});
flat_size(Term, Opts) -> sonde_term:flat_size(Term, Opts).

%% @doc Words that the terms in one root of a process would take in a message: what
%% `erts_debug:flat_size/1' says of each, added up; nothing is copied. `stack': what stands on it;
%% `dictionary': the pairs `{Key, Value}' as they are stored, so three words each and what key and
%% value have; `messages': each message that waits (one from another node that is not decoded yet
%% has no term, and counts 0); `all': these three and the argument registers. Options and errors:
%% {@type heap_opts()}, {@type heap_error()}; `max_words' bounds what is counted.
-spec flat_size(pid(), sonde_term:root(), heap_opts()) -> non_neg_integer() | heap_error().
flat_size(Pid, Root, Opts) -> sonde_term:root_size(Pid, Root, Opts).

%% @equiv byte_size(Term, #{})
-spec byte_size(term()) -> pos_integer() | sonde_size:failure().
byte_size(Term) -> byte_size(Term, #{}).

%% @doc Bytes of a term: one word for itself, its flat size ({@link flat_size/1}), and at each place
%% in lists, tuples and maps the size of a binary of more than 64 bytes; what `byte_size/1' of the
%% library erlang_term counts. Answers on both sides. Errors: as {@link flat_size/1}.
-spec byte_size(term(), size_opts()) -> pos_integer() | sonde_size:failure().
byte_size(Term, Opts) -> sonde_term:byte_size(Term, Opts).

%% @equiv term_size(Term, #{})
-spec term_size(term()) -> sonde_size:sizes() | sonde_size:failure().
term_size(Term) -> term_size(Term, #{}).

%% @doc What a term is made of: `#{flat_words, shared_words, literal_words, binary_visible,
%% binary_pinned}'. `flat_words': as {@link flat_size/1}. `shared_words': each part once, literals
%% left out, as `erts_debug:size_shared/1' says, but for the nodes of large maps, which that counts
%% twice. `literal_words': each literal that the term refers to once. `binary_visible': bytes of the
%% binaries outside of the heap, as much as the term shows of them, at each place; `binary_pinned':
%% the whole binaries behind them, each once. Answers on both sides. Errors: as {@link flat_size/1}.
-spec term_size(term(), size_opts()) -> sonde_size:sizes() | sonde_size:failure().
term_size(Term, Opts) -> sonde_term:term_size(Term, Opts).

%% @equiv bin_account(#{})
-spec bin_account() -> sonde_bin_account:account().
bin_account() -> bin_account(#{}).

%% @doc Where the binary memory is: all of `erlang:memory(binary)', attributed; bytes. Each binary
%% is in exactly one of
%% <ul>
%% <li>`exclusive': one process refers to it, and nothing else does; `shared': several
%%     processes</li>
%% <li>`ets': rows of tables; `queues': messages that are not on a heap yet; `literals': persistent
%%     terms; `mixed': several of these kinds</li>
%% <li>`resources': no binaries, but memory of native libraries and of the VM's own that processes
%%     refer to ({@link bin_resources/1})</li>
%% <li>`elsewhere': its count of references says that something refers to it which is none of these:
%%     a port's queue, a timer, a library, a constant of a module</li>
%% </ul>
%% `overhead': headers, and what the allocator adds, computed for each block; `total':
%% `erlang:memory(binary)', without what this call itself needs; `unseen': `total' less all of
%% these: what nothing refers to that was looked at, or what changed meanwhile (then it may be
%% negative); `unused': what the allocator's carriers hold beyond the blocks, so not part of
%% `total'. `processes_missed' could not be read, and `missed' names up to ten of them as in
%% {@type report()} (with `suspend => true' also what was suspended); `tables_missed' have more than
%% `max_rows' (10000000) rows; `ms': how long it took. Where binaries come from `malloc' (`+MBe false',
%% `+Mea min') `total' and `unseen' are `undefined'. Only where there are more persistent terms than can be
%% looked at: `literals_missed => true', and `literals' is 0.
%%
%% A binary takes 32 bytes of memory in the meantime, and some room to grow. Of more than
%% `max_entries' (20000000) a sample is kept, and the answer has `sampled', the fraction that was,
%% and `error': by how much a sum of all may be off, in 19 of 20 cases.
%%
%% ```
%% 1> sonde:bin_account().
%% #{elsewhere => 0,ets => 1000000,exclusive => 2204607,literals => 500000,
%%   missed => #{count => 0,pids => []},
%%   mixed => 0,ms => 4,overhead => 165669,processes_missed => 0,
%%   queues => 2892000,resources => 5960,shared => 4171588,tables_missed => 0,
%%   total => 10941688,unseen => 1864,unused => 1121152}
%% '''
%%
%% Sources: the lists of each process and its messages, read under a stamp; `ets:info(_, binary)';
%% `persistent_term:get/0'. Nothing is collected. Raises `badarg', and `{native_off, Reason}' where
%% the native side is off.
-spec bin_account(sonde_bin_account:options()) -> sonde_bin_account:account().
bin_account(Opts) -> sonde_bin_account:bin_account(Opts).

%% @doc The `N' processes that own most binary memory: `proc_count(binary_exclusive, N)', what would
%% go if they let go. Raises `{native_off, Reason}' where the native side is off.
-spec bin_owned(N :: non_neg_integer()) -> [row()].
bin_owned(N) -> rows(sonde_garbage:bin_owned(N, #{})).

%% @doc As {@link bin_owned/1}, with the options of {@link proc_count/3}.
-spec bin_owned(N :: non_neg_integer(), count_opts()) -> [row()] | {[row()], report()}.
bin_owned(N, Opts) -> shown(sonde_garbage:bin_owned(N, Opts), Opts).

%% @equiv bin_holders(N, size, #{})
-spec bin_holders(N :: non_neg_integer()) -> [sonde_bin_account:holder()].
bin_holders(N) -> bin_holders(N, size).

%% @equiv bin_holders(N, By, #{})
-spec bin_holders(N :: non_neg_integer(), By :: size | count) -> [sonde_bin_account:holder()].
bin_holders(N, By) -> rows(sonde_bin_account:bin_holders(N, By, #{})).

%% @doc The `N' largest binaries (`size'), or those with most references (`count'), and who holds
%% them: `#{id, size, refc, holders, elsewhere}', largest first. `id', `size' and `refc' are as in
%% `process_info(Pid, binary)'. `holders': `[{Holder, References, VisibleBytes}]', where `Holder' is
%% a pid, `{queue, Pid}' for messages of that process that are not on its heap yet, `{ets, Table}',
%% or `literals' for persistent terms. `VisibleBytes' is how much of the binary the terms of that
%% process see, its mailbox included: 0 where only garbage refers to it; `undefined' for what is no
%% process, for who could not be read, for all but the first 1000 processes, and for those whose
%% turn does not come within 30 s. `elsewhere': references that none of these have; they may be
%% those of a process that runs all the time, or of a table with more than `max_rows' rows.
%%
%% One look finds the binaries, and a second one who holds them, so what changed in between may be
%% missing. Options are those of {@link bin_account/1}, and `report => true' for `{Rows, Report}'
%% ({@type report()}). More than `max_entries' binaries: `system_limit'.
%%
%% ```
%% 1> sonde:bin_holders(1).
%% [#{elsewhere => 0,
%%    holders => [{<0.139.0>,1,4000000},{<0.140.0>,1,4000000}],
%%    id => 140446265438248,refc => 2,size => 4000000}]
%% '''
%% Raises `badarg', and `{native_off, Reason}' where the native side is off.
-spec bin_holders(N :: non_neg_integer(), By :: size | count, sonde_bin_account:options()) ->
    [sonde_bin_account:holder()] | {[sonde_bin_account:holder()], report()}.
bin_holders(N, By, Opts) -> told(sonde_bin_account:bin_holders(N, By, Opts), Opts).

%% @doc Who holds one binary, as {@link bin_holders/3} says it, for an `Id' as
%% `process_info(Pid, binary)' has it; `undefined' where no live binary has it. The number is
%% compared with those that are found, never followed.
-spec bin_holder(Id :: integer()) -> sonde_bin_account:holder() | undefined.
bin_holder(Id) -> sonde_bin_account:bin_holder(Id, #{}).

%% @equiv bin_resources(N, #{})
-spec bin_resources(N :: non_neg_integer()) -> sonde_bin_account:resources().
bin_resources(N) -> rows(sonde_bin_account:bin_resources(N, #{})).

%% @doc Memory of native libraries that processes refer to, which counts as binary memory:
%% `[{Type, Count, Bytes, Holders}]', most bytes first. `Type' is `{Module, Name}' of the resource
%% type, or `unknown' for memory of the VM's own (references of tables, compiled matches and the
%% like); `Holders' is how many processes have a reference. Options are those of
%% {@link bin_account/1}, and `report => true' for `{Rows, Report}' ({@type report()}). What a library took by other means, as from `malloc', nobody can see.
%% Raises `badarg', and `{native_off, Reason}' where the native side is off.
-spec bin_resources(N :: non_neg_integer(), sonde_bin_account:options()) ->
    sonde_bin_account:resources() | {sonde_bin_account:resources(), report()}.
bin_resources(N, Opts) -> told(sonde_bin_account:bin_resources(N, Opts), Opts).

%% @equiv bin_window(N, Ms, #{})
-spec bin_window(N :: non_neg_integer(), Ms :: non_neg_integer()) -> [sonde_bin_growth:row()].
bin_window(N, Ms) -> rows(sonde_bin_growth:run(N, Ms, #{})).

%% @doc The `N' processes and tables whose exclusive binary memory grew most in `Ms' milliseconds:
%% `{Holder, GrowthBytes, Attrs}', largest first, where `Holder' is a pid or `{ets, Table}', with
%% `Attrs' as in {@link proc_count/2} and in {@link ets_count/3}. Exclusive is what nothing else
%% refers to (`binary_exclusive'). Who did not grow has no row, nor has who died meanwhile or could
%% not be read. Options: `self' (the caller too), `max_rows' of tables (10000000), `max_entries' of
%% processes that are remembered, 16 bytes each, `suspend', and `report' for `{Rows, Report}'
%% ({@type report()}; of both looks). Raises `badarg', `system_limit' for more processes
%% than that, and `{native_off, Reason}' where the native side is off.
-spec bin_window(N :: non_neg_integer(), Ms :: non_neg_integer(), sonde_bin_growth:options()) ->
    [sonde_bin_growth:row()] | {[sonde_bin_growth:row()], report()}.
bin_window(N, Ms, Opts) -> shown(sonde_bin_growth:run(N, Ms, Opts), Opts).

%% @doc As {@link bin_garbage/2} with `count'.
%%
%% ```
%% 1> sonde:bin_garbage(2).
%% [{<0.82.0>,26254,[demo_router,
%%                   {current_function,{sonde_demo_leaks,router,0}},
%%                   {initial_call,{sonde_demo_leaks,router,0}}]},
%%  {<0.50.0>,8,[code_server,{current_function,{code_server,loop,1}},
%%               {initial_call,{erlang,apply,2}}]}]
%% '''
-spec bin_garbage(N :: non_neg_integer()) -> [{pid(), Count :: pos_integer(), attrs()}].
bin_garbage(N) -> bin_garbage(N, count).

%% @doc The `N' processes that refer to most binaries in vain: `{Pid, Count, Attrs}', largest first,
%% where `Count' is how many references to binaries `garbage_collect(Pid)' would drop. Nothing is
%% collected, and no process disturbed: {@link bin_leak/1} without the collection, and without its
%% loss of evidence. The caller is among them; processes with nothing to drop have no row.
%%
%% With `bytes': the bytes of the binaries that would be freed. A binary to which somebody else
%% refers would not.
%%
%% Where messages wait, a collection also brings in what they refer to; that is not subtracted here.
%% Hibernated processes do not collect when they are told to, but have nothing to drop. A process
%% that runs all the time is left out; {@link bin_garbage/3} reports that. The source is a mark of each heap that has binaries, under a stamp.
%%
%% Raises `badarg', and `{native_off, Reason}' where the native side is off.
-spec bin_garbage(N :: non_neg_integer(), count | bytes) ->
    [{pid(), Value :: pos_integer(), attrs()}].
bin_garbage(N, What) -> rows(sonde_garbage:bin_garbage(N, What, #{})).

%% @doc As {@link bin_garbage/2}, with the options of {@link proc_count/3}; `self' is `true' here.
-spec bin_garbage(N :: non_neg_integer(), count | bytes, count_opts()) ->
    Rows | {Rows, report()} when Rows :: [{pid(), Value :: pos_integer(), attrs()}].
bin_garbage(N, What, Opts) -> shown(sonde_garbage:bin_garbage(N, What, Opts), Opts).

%% @doc The `N' processes whose slices of binaries hold most bytes that they do not see:
%% `{Pid, Pinned - Visible, [{worst, [{Visible, Pinned, Slices}]} | Attrs]}', largest first, in
%% bytes. `Pinned' is the size of the binaries that the process refers to, `Visible' what it sees of
%% them; `worst' has the three binaries with most unseen bytes, how much of each is seen and by how
%% many slices ({@link bin_slices/1} has all). The remedy is `binary:copy/1' where a slice is kept.
%%
%% `worst' is from a second look: it is `[]' if the process cannot be read by then. A binary that
%% was appended to has room to grow, which counts as unseen. The caller is among the processes;
%% those that see all they hold have no row. Left out is who cannot be read, as in
%% {@link bin_garbage/2}.
%%
%% Raises `badarg', and `{native_off, Reason}' where the native side is off.
-spec bin_waste(N :: non_neg_integer()) -> [sonde_garbage:waste_row()].
bin_waste(N) -> rows(sonde_garbage:bin_waste(N, #{})).

%% @doc As {@link bin_waste/1}, with the options of {@link proc_count/3}; `self' is `true' here.
-spec bin_waste(N :: non_neg_integer(), count_opts()) ->
    [sonde_garbage:waste_row()] | {[sonde_garbage:waste_row()], report()}.
bin_waste(N, Opts) -> shown(sonde_garbage:bin_waste(N, Opts), Opts).

%% @equiv bin_slices(Pid, #{})
-spec bin_slices(pid()) -> sonde_garbage:slices() | heap_error().
bin_slices(Pid) -> bin_slices(Pid, #{}).

%% @doc Which parts of which binaries a process refers to: `[{Id, Size, Refc, [{Start, End}]}]',
%% sorted; `Id', `Size' and `Refc' as in `process_info(Pid, binary)'. `[{Start, End}]' has one entry
%% for each binary term on its heap that something refers to: the bytes from `Start' on, before
%% `End'. They may overlap. A binary to which only garbage refers is not in it. One whose bytes lie
%% in memory of a native library's own has the size of what stands for them, and `{0, Size}' for
%% each term. Options and errors: {@type heap_opts()}, {@type heap_error()}.
-spec bin_slices(pid(), heap_opts()) -> sonde_garbage:slices() | heap_error().
bin_slices(Pid, Opts) -> sonde_garbage:bin_slices(Pid, Opts).

%% ---- one process

%% @doc What is known of a process, by category:
%% <ul>
%% <li>`meta': `registered_name' (`[]' if it has none), `dictionary', `group_leader', `status'</li>
%% <li>`signals': `links', `monitors', `monitored_by', `trap_exit'</li>
%% <li>`location': `initial_call', `current_stacktrace'</li>
%% <li>`memory_used': `memory' (bytes), `message_queue_len', `heap_size' and `total_heap_size'
%%     (words), `garbage_collection'</li>
%% <li>`work': `reductions'</li>
%% </ul>
%% The process may be given as a pid, by its name, as `"<0.12.0>"' or `{0, 12, 0}', and as
%% `{global, Name}' or `{via, Module, Name}'.
%%
%% All comes from one `process_info/2', so it belongs together. It copies the process dictionary;
%% `memory' and `total_heap_size' look at every message that waits. Where one of them is huge, ask
%% with {@link info/2} for what you need.
%%
%% If the process is dead, each category is `undefined'. Raises `badarg' for a name that nobody has
%% and for a process of another node, `function_clause' for what cannot stand for a process.
%%
%% ```
%% 1> sonde:info(kernel_sup).
%% [{meta,[{registered_name,kernel_sup},{dictionary,[...]},
%%         {group_leader,<0.44.0>},{status,waiting}]},
%%  {signals,[{links,[...]},{monitors,[]},{monitored_by,[]},{trap_exit,true}]},
%%  {location,[{initial_call,{proc_lib,init_p,5}},{current_stacktrace,[...]}]},
%%  {memory_used,[{memory,372088},{message_queue_len,0},{heap_size,17731},
%%                {total_heap_size,46422},{garbage_collection,[...]}]},
%%  {work,[{reductions,27434}]}]
%% '''
-spec info(sonde_lib:pid_term()) -> [{sonde_info:category(), [{atom(), term()}] | undefined}].
info(Process) ->
    sonde_info:process(Process).

%% @doc One category of {@link info/1}; or one attribute, as {@link proc_count/2} takes it; or the
%% attributes of a list, in its order, from one `process_info/2'.
%%
%% A name alone, `registered_name', is `[]' where there is none, as in `process_info/2'. If the
%% process is dead, the result is `undefined', of a category `{Category, undefined}'. Raises
%% `badarg' for what is not an attribute (in a list, categories are none), and else what
%% {@link info/1} raises.
%%
%% ```
%% 1> sonde:info(kernel_sup, memory).
%% {memory,372088}
%% 2> sonde:info("<0.44.0>", [message_queue_len, binary_memory]).
%% [{message_queue_len,0},{binary_memory,2216}]
%% 3> sonde:info(kernel_sup, work).
%% {work,[{reductions,27434}]}
%% '''
-spec info(sonde_lib:pid_term(), sonde_info:category() | attr() | [attr()]) ->
    {atom(), term()} | [{attr(), term()}] | [] | undefined.
info(Process, Key) ->
    sonde_info:process(Process, Key).

%% @doc As {@link info/1} of the process `<A.B.C>'. Raises `badarg' if there can be none.
%%
%% ```
%% 1> sonde:info(0, 44, 0).
%% '''
-spec info(non_neg_integer(), non_neg_integer(), non_neg_integer()) ->
    [{sonde_info:category(), [{atom(), term()}] | undefined}].
info(A, B, C) ->
    info(sonde_lib:triple_to_pid(A, B, C)).

%% @doc As {@link info/2} of the process `<A.B.C>'.
%%
%% ```
%% 1> sonde:info(0, 44, 0, memory).
%% {memory,372088}
%% '''
-spec info(non_neg_integer(), non_neg_integer(), non_neg_integer(),
           sonde_info:category() | attr() | [attr()]) ->
    {atom(), term()} | [{attr(), term()}] | [] | undefined.
info(A, B, C, Key) ->
    info(sonde_lib:triple_to_pid(A, B, C), Key).

%% @doc As {@link get_state/2}, and waits 5000 milliseconds.
%%
%% ```
%% 1> sonde:get_state(kernel_safe_sup).
%% {state,{local,kernel_safe_sup},one_for_one,...}
%% '''
-spec get_state(sonde_lib:pid_term()) -> term().
get_state(Process) ->
    get_state(Process, 5000).

%% @doc The state of a process that handles system messages: a `gen_server', `gen_statem',
%% `gen_event', supervisor. It answers itself, after what waits in its mailbox, and its state is
%% copied. `Timeout' is in milliseconds.
%%
%% Exits as `sys:get_state/2' does: `{noproc, _}' for a name that nobody has and for the dead,
%% `{timeout, _}' if there is no answer in time, as from a process that is none of these.
%%
%% ```
%% 1> sonde:get_state(kernel_safe_sup, 100).
%% {state,{local,kernel_safe_sup},one_for_one,...}
%% '''
-spec get_state(sonde_lib:pid_term(), timeout()) -> term().
get_state(Process, Timeout) ->
    sys:get_state(sonde_lib:term_to_pid(Process), Timeout).

%% ---- ports

%% @doc The ports of TCP sockets. Sockets that the `socket' module made, also for `gen_tcp' with
%% `{inet_backend, socket}', are no ports: see {@link sockets/1}.
%%
%% ```
%% 1> sonde:tcp().
%% [#Port<0.5>,#Port<0.6>]
%% '''
-spec tcp() -> [port()].
tcp() -> sonde_port:ports(tcp).

%% @doc The ports of UDP sockets; see {@link tcp/0}.
%%
%% ```
%% 1> sonde:udp().
%% [#Port<0.7>]
%% '''
-spec udp() -> [port()].
udp() -> sonde_port:ports(udp).

%% @doc The ports of SCTP sockets; see {@link tcp/0}.
%%
%% ```
%% 1> sonde:sctp().
%% []
%% '''
-spec sctp() -> [port()].
sctp() -> sonde_port:ports(sctp).

%% @doc The ports of files: none, since files have not been ports from OTP 21 on.
%%
%% ```
%% 1> sonde:files().
%% []
%% '''
-spec files() -> [port()].
files() -> sonde_port:ports(file).

%% @doc How many ports there are of each kind, by the name of the driver or of the program; most
%% first, for equal numbers by the name.
%%
%% ```
%% 1> sonde:port_types().
%% [{"tcp_inet",2},{"2/2",1},{"forker",1}]
%% '''
-spec port_types() -> [{Name :: string(), pos_integer()}].
port_types() ->
    sonde_port:port_types().

%% @doc What is known of a port, by category:
%% <ul>
%% <li>`meta': `registered_name' if it has one, `id', `name', `os_pid'</li>
%% <li>`signals': `connected', `links', `monitors'</li>
%% <li>`io': `input', `output' (bytes)</li>
%% <li>`memory_used': `memory', `queue_size' (bytes)</li>
%% <li>`type': of sockets `statistics', `peername', `sockname' (where there is one) and `options',
%%     as the module `inet' gives them; of others `[]'</li>
%% </ul>
%% The port may be given as a port, by its name, as `"#Port<0.12>"', or as `12'. Of a closed one,
%% and of a name that nobody has, `type' is `[]', and each item of the others is `undefined'. Raises
%% `function_clause' for what cannot stand for a port, `badarg' for a number that can be none's.
%%
%% ```
%% 1> sonde:port_info("#Port<0.5>").
%% [{meta,[{id,40},{name,"tcp_inet"},{os_pid,undefined}]},
%%  {signals,[{connected,<0.82.0>},{links,[<0.82.0>]},{monitors,[]}]},
%%  {io,[{input,0},{output,1000}]},
%%  {memory_used,[{memory,40},{queue_size,0}]},
%%  {type,[{statistics,[...]},{peername,{{127,0,0,1},39081}},
%%         {sockname,{{127,0,0,1},58592}},{options,[...]}]}]
%% '''
-spec port_info(sonde_lib:port_term()) -> [{sonde_port:category(), [term()]}].
port_info(Port) ->
    sonde_port:info(Port).

%% @doc One category of {@link port_info/1} (`specific' for that which is called `type'); or an item
%% of `erlang:port_info/2'; or the items of a list, in its order.
%%
%% Of a closed port an item is `undefined'; a `registered_name' that there is not is `[]'. Raises
%% `badarg' for what is not an item, and else what {@link port_info/1} raises.
%%
%% ```
%% 1> sonde:port_info("#Port<0.5>", io).
%% {io,[{input,0},{output,1000}]}
%% 2> sonde:port_info("#Port<0.5>", [name, output]).
%% [{name,"tcp_inet"},{output,1000}]
%% '''
-spec port_info(sonde_lib:port_term(), sonde_port:category() | specific | atom() | [atom()]) ->
    term().
port_info(Port, Key) ->
    sonde_port:info(Port, Key).

%% @doc The `N' sockets that have most of `Attr' since they were opened: `{Port, Sum, Values}',
%% largest first, for equal sums the higher port first. `Attr' is `recv_cnt', `send_cnt' (packets),
%% `recv_oct', `send_oct' (octets), `cnt' or `oct' (both directions), or another item of
%% `inet:getstat/2'; for what is none the result is `[]'. A negative `N' gives all.
%%
%% Sees the sockets that are ports; {@link sockets/0} shows the others.
%%
%% ```
%% 1> sonde:inet_count(oct, 2).
%% [{#Port<0.6>,1000,[{recv_oct,1000},{send_oct,0}]},
%%  {#Port<0.5>,1000,[{recv_oct,0},{send_oct,1000}]}]
%% '''
-spec inet_count(sonde_lib:inet_attr(), N :: integer()) -> [sonde_lib:inet_row()].
inet_count(Attr, N) ->
    sonde_port:inet_count(Attr, N).

%% @doc The `N' sockets whose `Attr' grew most in the next `Ms' milliseconds: rows as those of
%% {@link inet_count/2}, with the growth as the sum, and the values at the end. What was opened in
%% the window, and what was closed in it, has its full sum.
%%
%% Raises `function_clause' if `Attr' is no atom, `timeout_value' if `Ms' is no time, `badarith' if
%% `N' is no number; all at once, before the window.
%%
%% ```
%% 1> sonde:inet_window(send_oct, 1, 1000).
%% [{#Port<0.5>,500,[{send_oct,1500}]}]
%% '''
-spec inet_window(sonde_lib:inet_attr(), N :: integer(), Ms :: timeout()) ->
    [{port(), Growth :: integer(), [{atom(), integer()}]}].
inet_window(Attr, N, Ms) when is_atom(Attr) ->
    ok = check_ms(Ms),
    sonde_port:inet_window(Attr, amount(N), Ms).

%% @doc The sockets of the `socket' module, which are no ports: those that were opened with it, and
%% those of `gen_tcp' and `gen_udp' with `{inet_backend, socket}'. `{Socket, Octets, Attrs}', most
%% traffic first, where `Octets' is what was read and written, files that were sent included, and
%% `Attrs' is
%% <ul>
%% <li>`owner': the process; of one that `gen_tcp' made, the process in which it is kept</li>
%% <li>`domain', `type', `protocol': `inet', `stream', `tcp' and the like</li>
%% <li>`local', `remote': `{Address, Port}' or `{local, Path}', where there is one</li>
%% <li>`counters': a map, with the names of `socket:info/1': `read_byte', `write_byte' (octets),
%%     `read_pkg', `write_pkg' (packets), `sendfile_byte', `acc_success' and more</li>
%% </ul>
%% Sockets that close meanwhile are left out, as are those that were opened with `use_registry =>
%% false'. No call waits for traffic: each socket is asked for its facts by `socket:info/1',
%% `socket:sockname/1' and `socket:peername/1'. `[]' where Erlang was built without the module's
%% native part.
%%
%% ```
%% 1> sonde:sockets().
%% [{{'$socket',#Ref<0.160.184.185>},1000,
%%   [{owner,<0.80.0>},{domain,inet},{type,stream},{protocol,tcp},
%%    {local,{{127,0,0,1},60446}},{remote,{{127,0,0,1},58861}},
%%    {counters,#{read_byte => 0,write_byte => 1000,...}}]}]
%% '''
-spec sockets() -> [socket_row()].
sockets() ->
    sonde_port:sockets().

%% @doc As {@link sockets/0}, of one protocol. Anything else than `tcp', `udp' and `sctp' is
%% `badarg'.
%%
%% ```
%% 1> [{_Socket, Octets, _Attrs} | _] = sonde:sockets(tcp).
%% '''
-spec sockets(tcp | udp | sctp) -> [socket_row()].
sockets(Protocol) when Protocol =:= tcp; Protocol =:= udp; Protocol =:= sctp ->
    sonde_port:sockets(Protocol);
sockets(_) ->
    error(badarg).

%% @doc The `N' ports that have most of `Attr': `{Port, Value, Attrs}', largest first, where `Attrs'
%% is the registered name, if there is one, `{name, Driver}' and `{connected, Pid}'. `Attr' is
%% `memory' (bytes that the VM took for the port itself; what waits in it is not among them),
%% `queue_size' (bytes that wait in it to be written), `input' or `output' (bytes so far); anything
%% else is `badarg'. The source is `erlang:port_info/2'; what is closed meanwhile has no row.
%%
%% ```
%% 1> sonde:port_count(output, 1).
%% [{#Port<0.6>,1000,[{name,"tcp_inet"},{connected,<0.82.0>}]}]
%% '''
-spec port_count(memory | queue_size | input | output, N :: non_neg_integer()) ->
    [{port(), Value :: non_neg_integer(), [atom() | {name, string()} | {connected, pid()}]}].
port_count(Attr, N) ->
    sonde_port:count(Attr, N).

%% @equiv ets_count(Attr, N, #{})
-spec ets_count(sonde_ets:attr(), N :: non_neg_integer()) -> [sonde_ets:row()].
ets_count(Attr, N) ->
    ets_count(Attr, N, #{}).

%% @doc The `N' ETS tables that have most of `Attr': `{Table, Value, [Name, {owner, Pid},
%% {type, Type}, {size, Rows}]}', largest first. `Attr' is
%% <ul>
%% <li>`memory': bytes, not words as in `ets:info(Table, memory)', from which it comes</li>
%% <li>`size': rows</li>
%% <li>`binary_memory': bytes of the binaries of more than 64 bytes that the rows refer to, each
%%     once; they lie outside of the table, and `memory' leaves them out. The source is
%%     `ets:info(Table, binary)', which also sees into private tables; it makes a tuple for each
%%     reference, in a helper process. A table of more than `max_rows' (10000000) rows is not
%%     listed: its value is `{too_large, Rows}', and it comes first</li>
%% </ul>
%% Anything else is `badarg'. Tables that are deleted meanwhile have no row.
%%
%% ```
%% 1> sonde:ets_count(binary_memory, 1).
%% [{demo_table,10241024,[demo_table,{owner,<0.84.0>},{type,set},{size,10001}]}]
%% '''
-spec ets_count(sonde_ets:attr(), N :: non_neg_integer(), sonde_ets:options()) ->
    [sonde_ets:row()].
ets_count(Attr, N, Opts) ->
    sonde_ets:count(Attr, N, Opts).

%% ---- the node

%% @doc As {@link diagnose/1}, with its defaults.
-spec diagnose() -> ok.
diagnose() -> diagnose(#{}).

%% @doc Watches the node for `interval' ms (2000; 100 to 600000) and prints who is in trouble: where
%% memory is and how fast it grows, then the suspects, the worst first, each with what it rests on,
%% what to do, and the call that shows more. {@link diagnosis/1} gives the same as a term.
%%
%% ```
%% 1> sonde:diagnose().
%% '''
-spec diagnose(#{interval => Ms :: pos_integer()}) -> ok.
diagnose(Opts) ->
    io:put_chars(sonde_diagnose:format(diagnosis(Opts))).

%% @doc As {@link diagnosis/1}, with its defaults.
-spec diagnosis() -> sonde_diagnose:diagnosis().
diagnosis() -> diagnosis(#{}).

%% @doc What {@link diagnose/1} prints: the node at several moments of `interval' ms (2000), and who
%% is suspected. Keys of the map:
%% <ul>
%% <li>`at' (system time in ms), `node'</li>
%% <li>`memory': bytes at the end: what `erlang:memory/0' says (`undefined' what is not known,
%%     where an allocator is switched off; see `not_looked_at'), `allocated' and `used' of all
%%     allocators, `by_allocator', and `rss', what the operating system counts as resident
%%     (`undefined' where it does not tell)</li>
%% <li>`growth': bytes by kind, and numbers of processes, ports, atoms and tables, in `ms'</li>
%% <li>`counts': `{Number, Limit}' of these</li>
%% <li>`suspects': maps, the one with the largest `share' (of the node's memory, or of a limit)
%%     first: `kind', `what' (a pid, `{ets, Table}', `{processes, InitialCall}' or `node'), `bytes',
%%     `evidence', `see' (a call that shows more), `remedy', and `frees', the bytes that the remedy
%%     would free where that is known</li>
%% <li>`not_looked_at': what could not be seen, and why</li>
%% </ul>
%% Suspected is what grew in most moments and fell in none (by 512 kB in all, or, of what is large,
%% by so much that it would double within a day), and what is of no use at each of them:
%% garbage, bytes of binaries that nobody sees, messages that nobody takes, monitors on one and the
%% same process, idle processes without link, monitor and name. What is merely large is not, nor is
%% what has less than 3 % of the node's memory, or 2 MB. A small leak that is slower is not seen
%% (`sonde_watch' is for those); what comes and goes in periods longer than the
%% interval may be taken for one.
%%
%% All processes are swept twice, natively all heaps are marked once (for up to 5 s); those that
%% have most of something are looked at seven times, and asked for their status and collections.
%% Nothing is collected, suspended or changed. With the native side off heaps are not looked into,
%% and `not_looked_at' says so. Raises `badarg' for an unknown option, or a bad value of one.
-spec diagnosis(#{interval => Ms :: pos_integer()}) -> sonde_diagnose:diagnosis().
diagnosis(Opts) ->
    sonde_diagnose:diagnosis(Opts).

%% @doc Looks at the node `N' times, after `Ms' milliseconds each time, and folds over what it sees:
%% `Fun({Absolutes, Increments}, Acc)' gives the next `Acc'.
%% <ul>
%% <li>`Absolutes': `process_count'; `run_queue'; `error_logger_queue_len', where there is a process
%%     of that name; `memory_total', `memory_procs' (used by processes), `memory_atoms' (used by
%%     atoms), `memory_bin', `memory_ets': bytes, of `erlang:memory/1' (`undefined' what is not
%%     known, where an allocator is switched off)</li>
%% <li>`Increments', since the look before: `bytes_in', `bytes_out' (of ports), `gc_count',
%%     `gc_words_reclaimed', `reductions', `scheduler_usage': `[{Id, 0.0..1.0}]' as in {@link
%%     scheduler_usage/1}</li>
%% </ul>
%% `N' is 0: `Acc' at once. A negative `N' goes on until `Fun' raises something or the caller is
%% killed. The node measures the times of its schedulers meanwhile; after that, also after an
%% exception, it does so only if somebody else wants it. Raises `timeout_value' if `Ms' is no time.
%%
%% ```
%% 1> sonde:node_stats(3, 1000, fun({A, _}, Most) ->
%%        max(proplists:get_value(run_queue, A), Most) end, 0).
%% 2
%% '''
-spec node_stats(N :: integer(), Ms :: timeout(), fun((node_stats(), Acc) -> Acc), Acc) -> Acc.
node_stats(N, Ms, Fun, Acc) ->
    sonde_node:stats(N, Ms, Fun, Acc).

%% @doc As {@link node_stats/4}, and prints what it sees.
%%
%% ```
%% 1> sonde:node_stats_print(1, 1000).
%% {[{process_count,43},{run_queue,0},{memory_total,15131768},...],
%%  [{bytes_in,0},{bytes_out,411},{gc_count,1},...,{scheduler_usage,[{1,0.04},...]}]}
%% ok
%% '''
-spec node_stats_print(N :: integer(), Ms :: timeout()) -> ok.
node_stats_print(N, Ms) ->
    node_stats(N, Ms, fun(Stats, ok) -> io:format("~p~n", [Stats]) end, ok).

%% @doc As {@link node_stats/4}, and lists what it sees, the oldest first.
%%
%% ```
%% 1> [{_Absolutes, Increments}] = sonde:node_stats_list(1, 1000).
%% '''
-spec node_stats_list(N :: non_neg_integer(), Ms :: timeout()) -> [node_stats()].
node_stats_list(N, Ms) ->
    lists:reverse(node_stats(N, Ms, fun(Stats, Seen) -> [Stats | Seen] end, [])).

%% @doc Which part of the next `Ms' milliseconds each scheduler is at work, from 0.0 to 1.0, by its
%% number: first the normal ones, then the dirty ones for work of the processor. It is what the node
%% does, not how busy the machine is: a scheduler that spins while it waits is at work to the
%% operating system and not here. Nothing stays switched on.
%%
%% Raises `function_clause' if `Ms' is no integer, `timeout_value' if it is negative.
%%
%% ```
%% 1> sonde:scheduler_usage(1000).
%% [{1,0.083},{2,2.6e-4},{3,0.0},{4,0.0}]
%% '''
-spec scheduler_usage(Ms :: non_neg_integer()) -> sonde_lib:scheduler_usage() | undefined.
scheduler_usage(Ms) when is_integer(Ms) ->
    sonde_node:scheduler_usage(Ms).

%% @doc The source text of a module, as it can be told from its debug information: an `iolist', laid
%% out by `erl_prettypr' where the application syntax_tools is there, else by `erl_pp'. Raises
%% `{badmatch, _}' if there is no beam file or no debug information in it.
%%
%% ```
%% 1> io:put_chars(sonde:source(lists)).
%% '''
-spec source(module()) -> iolist().
source(Module) ->
    sonde_node:source(Module).

%% ---- other nodes

%% @doc As {@link remote_load/2}, to all connected nodes.
%%
%% ```
%% 1> sonde:remote_load(sonde).
%% '''
-spec remote_load(module() | [module()]) -> term().
remote_load(Modules) ->
    sonde_loader:load(nodes(), Modules).

%% @doc Loads modules of this node on other nodes, where they need not be on the code path.
%%
%% `remote_load(Nodes, sonde)' brings all of sonde, with its shared object, and says for each node
%% what happened:
%% <ul>
%% <li>`{Node, {ok, Status}}': it was brought; `Status' is what {@link native/0} says there</li>
%% <li>`{Node, {already, Status}}': the node had this build of sonde; nothing was done</li>
%% <li>`{Node, {error, {other_build, Status}}}': the node has another build; nothing was done</li>
%% <li>`{Node, {error, Reason}}': it was not reached, or did not take it (modules of a newer
%%     Erlang/OTP are `{not_loaded, _}' on an older one); what had been loaded was removed</li>
%% </ul>
%% A node of another system or processor gets the modules alone, and answers from its portable
%% side. The shared object goes into a new folder below `TMPDIR' (or `/tmp') of the node, that only
%% its user can enter and that is removed as soon as it is loaded; it stays loaded until the node
%% ends. Raises `no_object_code' where this node's own modules are not files.
%%
%% `remote_load(Nodes, Module)' is `rpc:multicall(Nodes, code, load_binary, _)': `{Results,
%% BadNodes}'; for a list of modules a list of these. It replaces what the node has under that
%% name. Modules of `compat/recon' bring sonde along. Raises `badarg' if there is no node,
%% `{badmatch, error}' if there is no such module.
%%
%% ```
%% 1> sonde:remote_load(['rabbit@host'], sonde).
%% [{rabbit@host,{ok,#{status => active,otp => 25,...}}}]
%% 2> erpc:call('rabbit@host', sonde, proc_count, [memory, 3]).
%% '''
-spec remote_load(node() | [node()], module() | [module()]) -> [node_result()] | term().
remote_load(Nodes, Modules) ->
    sonde_loader:load(Nodes, Modules).

%% @doc As {@link rpc/2}, on this node and all connected nodes.
%%
%% ```
%% 1> sonde:rpc(fun() -> erlang:memory(total) end).
%% {[15131768,20487112],[]}
%% '''
-spec rpc(fun(() -> term())) -> {[term()], BadNodes :: [node()]}.
rpc(Fun) ->
    rpc([node() | nodes()], Fun).

%% @doc As {@link rpc/3}, and waits for ever.
%%
%% ```
%% 1> sonde:rpc([a@host, b@host], fun() -> length(processes()) end).
%% {[44,51],[]}
%% '''
-spec rpc(node() | [node(), ...], fun(() -> term())) -> {[term()], BadNodes :: [node()]}.
rpc(Nodes, Fun) ->
    rpc(Nodes, Fun, infinity).

%% @doc Calls `Fun()' on each of the nodes at the same time: what it returned there, in the order of
%% the nodes, and the nodes that were not reached or did not answer within `Timeout' milliseconds.
%% An error or an exit is `{badrpc, {'EXIT', Reason}}', a throw the value that was thrown.
%%
%% The fun itself goes there: the node must have the module in which it was made, the same version.
%% For funs that were typed in a shell that is always so; `fun Module:Function/0' needs a module of
%% that name. sonde need not be there.
%%
%% Raises `function_clause' if there is no node or `Fun' is no fun without arguments, `badarg' for
%% what is no node or no time.
%%
%% ```
%% 1> sonde:rpc([a@host], fun() -> length(processes()) end, 1000).
%% {[44],[]}
%% '''
-spec rpc(node() | [node(), ...], fun(() -> term()), timeout()) ->
    {[term()], BadNodes :: [node()]}.
rpc(Nodes = [_ | _], Fun, Timeout) when is_function(Fun, 0) ->
    sonde_cluster:rpc(Nodes, Fun, Timeout);
rpc(Node, Fun, Timeout) when is_atom(Node), is_function(Fun, 0) ->
    sonde_cluster:rpc([Node], Fun, Timeout).

%% @doc As {@link named_rpc/2}, on this node and all connected nodes.
%%
%% ```
%% 1> sonde:named_rpc(fun() -> erlang:memory(total) end).
%% {[{a@host,15131768},{b@host,20487112}],[]}
%% '''
-spec named_rpc(fun(() -> term())) -> {[term()], BadNodes :: [node()]}.
named_rpc(Fun) ->
    named_rpc([node() | nodes()], Fun).

%% @doc As {@link named_rpc/3}, and waits for ever.
%%
%% ```
%% 1> sonde:named_rpc([a@host, b@host], fun() -> length(processes()) end).
%% {[{a@host,44},{b@host,51}],[]}
%% '''
-spec named_rpc(node() | [node(), ...], fun(() -> term())) -> {[term()], BadNodes :: [node()]}.
named_rpc(Nodes, Fun) ->
    named_rpc(Nodes, Fun, infinity).

%% @doc As {@link rpc/3}, and each result comes with its node: `{Node, Result}'. What was raised
%% comes without, as there.
%%
%% ```
%% 1> sonde:named_rpc([a@host], fun() -> length(processes()) end, 1000).
%% {[{a@host,44}],[]}
%% '''
-spec named_rpc(node() | [node(), ...], fun(() -> term()), timeout()) ->
    {[term()], BadNodes :: [node()]}.
named_rpc(Nodes = [_ | _], Fun, Timeout) when is_function(Fun, 0) ->
    sonde_cluster:named_rpc(Nodes, Fun, Timeout);
named_rpc(Node, Fun, Timeout) when is_atom(Node), is_function(Fun, 0) ->
    sonde_cluster:named_rpc([Node], Fun, Timeout).

%% @doc One of the calls above on many nodes at the same time, and their rows as one list:
%% `#{rows => [{Node, Row}], failed => [{Node, Reason}]}', the rows in the order of the call, so the
%% largest first, whichever node they are from: up to `N' of each. The processes in which the call
%% runs there have no row. `Function' is the name of a call
%% of this module that returns rows: `proc_count' (of one attribute), `proc_window', `proc_group',
%% `bin_leak', `bin_garbage', `bin_waste', `bin_owned', `bin_holders', `bin_resources',
%% `bin_window', `port_count', `port_types', `ets_count', `inet_count', `inet_window', `sockets'.
%%
%% Options: `nodes' (this one and all connected ones), `timeout' (10000 ms) for all of them
%% together. The nodes must have sonde: `Reason' is `undef' where they do not, `noconnection',
%% `timeout', or what the call raised there. Anything else than a call of this list, an unknown
%% option, or a bad value of one, is `badarg'.
%%
%% ```
%% 1> sonde:cluster({proc_count, [memory, 1]}, #{nodes => [a@host, b@host, c@host]}).
%% #{failed => [{c@host,noconnection}],
%%   rows =>
%%       [{b@host,{<0.44.0>,426552,[code_server,...]}},
%%        {a@host,{<0.44.0>,426416,[code_server,...]}}]}
%% '''
-spec cluster({Function :: atom(), Args :: [term()]}, cluster_opts()) ->
    #{rows := [{node(), Row :: term()}], failed := [{node(), Reason :: term()}]}.
cluster(Call, Opts) ->
    sonde_cluster:call(Call, Opts).

%% ---- in a terminal

%% @doc As {@link print/2}, as wide as the terminal, in colour if it has any.
%%
%% ```
%% 1> sonde:print(sonde:proc_count([memory], 2)).
%% '''
-spec print(term()) -> ok.
print(Result) ->
    sonde_print:print(sonde_origin:rows(Result)).

%% @doc Prints a result of ours, or of recon's shape, as an aligned table with units that people
%% read; any other term as `~p' would. Rows alone do not say what their value is: those of a list of
%% attributes do, so bytes and words have units there. In up to 1000 rows of processes of this node,
%% the initial call is what a process of `proc_lib' began with, `dets:init/2', where rows have
%% `proc_lib:init_p/5' as recon's. Returns `ok'.
%%
%% Options:
%% <ul>
%% <li>`color => auto | always | never' (default `auto': if the device is a terminal, `TERM' is not
%%     `dumb', and `NO_COLOR' is not set)</li>
%% <li>`width => Columns' (default: those of the device, or 80). No line is longer</li>
%% <li>`device' to print to (default: the shell's)</li>
%% </ul>
%% An unknown option, or a bad value of one, is `badarg'.
%%
%% ```
%% 1> sonde:print(sonde:proc_group(application, [memory]), #{color => never, width => 100}).
%% '''
-spec print(term(), sonde_print:opts()) -> ok.
print(Result, Opts) ->
    sonde_print:print(sonde_origin:rows(Result), Opts).

%% @equiv top(#{})
-spec top() -> ok | sonde_top:error().
top() -> top(#{}).

%% @doc Shows the node live, in the terminal of the shell, until `q' is typed: a header (schedulers,
%% run queue, rates, limits, memory by kind with its last samples), and a page. The first page is
%% the processes, sorted by any attribute that is read natively, by its growth in one interval, by
%% garbage, by waste, or by exclusive binaries; others are one process (what is on its heap, and the
%% largest things there, its binaries and who else holds them), tables, binaries, allocators. The
%% keys are on the screen, `h' shows them all; `q' quits from every page. The caller has no row.
%% Owners of tables and holders of binaries have their registered names where they have one. Returns
%% `ok'.
%%
%% Each interval costs one sweep over the processes, natively and whatever their number; sorted by
%% growth, two. Nothing of a process is asked but of those that are shown. What takes its time, as
%% the heap of a process or the account of the binaries, is looked at once, and again with `a'.
%% Meanwhile the node measures the times of its schedulers.
%%
%% In a shell keys are read as lines: Enter ends each, and the prompt says so. Where no shell has the
%% terminal (`erl -noshell'), and it is OTP 28 or later, single keys are read. On a terminal that
%% knows no escapes (`TERM=dumb'), or that cannot be written to while it is read (a node without a
%% shell before OTP 26), there are plain lines, and each Enter shows the next sample.
%%
%% Options:
%% <ul>
%% <li>`node' (this one): the node that is looked at; it must have sonde ({@link remote_load/2}).
%%     Only the rows that are shown come from there</li>
%% <li>`interval' (1000): milliseconds from one sample to the next, at least 1000. As long as a
%%     sample takes, the node is left alone after it</li>
%% <li>`sort' (`memory'): an attribute, or `{growth, Attr}' of one that is read natively</li>
%% <li>`rows': at most so many on a page; `width', `height': instead of those of the terminal</li>
%% </ul>
%% Raises `badarg' for an unknown option, or a bad value of one. `{error, {Node, Why}}': the node
%% was not reached (`noconnection'), or does not have sonde (`no_sonde').
%%
%% ```
%% 1> sonde:top(#{sort => {growth, memory}}).
%% ok
%% '''
-spec top(sonde_top:opts()) -> ok | sonde_top:error().
top(Opts) ->
    sonde_top:top(Opts).

%% ---- the native side

%% @doc Whether sonde reads the node's memory itself, how, and if not, why not. The first call on a
%% node proves the layout of the memory against `process_info/2', in a fraction of a second.
%%
%% A proof has one of three outcomes. Proved: the status is `active'. Refuted, by a check that
%% failed on three fresh sets of probes: `{off, {check, Check}}', until `native(on)' tries it anew.
%% Disturbed: `{off, {probes_busy, Tries}}' (probes did not lie still, or were killed),
%% `{off, {disturbed, prover_died}}', `{off, {disturbed, prover_late}}' (not done in 30 s) or
%% `{off, {not_loaded, Text}}' (a module or the library); this call tries again at once, others
%% ever more rarely. Besides, `{off, disabled}' says that it was switched off, and
%% `{off, {unsupported, no_reader}}' that memory cannot be read here now. No call waits for a
%% proof for more than 32 s; without one the portable side answers.
%%
%% `status' is `active' or `{off, Reason}'; `layout' is the table in use, `reader' how memory is
%% read, `checks' what was proved, `counters' how many processes were read (`native'), read again
%% since they ran (`busy') or changed (`torn'), and asked by `process_info/2' (`asked'). No value
%% is an address.
%%
%% ```
%% 1> maps:get(status, sonde:native()).
%% active
%% '''
-spec native() -> status().
native() ->
    sonde_vm:native().

%% @doc Switches the native side off, or on again, for all callers on the node, and returns the new
%% status. What is proved stays proved; `on' tries anew what is not. Anything else than `on' and `off' is `badarg'.
%%
%% ```
%% 1> maps:get(status, sonde:native(off)).
%% {off,disabled}
%% '''
-spec native(on | off) -> status().
native(OnOff) when OnOff =:= on; OnOff =:= off ->
    sonde_vm:native(OnOff);
native(_) ->
    error(badarg).

%% ---- arguments

%% recon counts N down to 0, so what never gets there means all.
amount(N) when is_integer(N), N >= 0 -> N;
amount(N) when is_number(N) -> erlang:system_info(process_limit);
amount(_) -> error(badarith).

%% An attribute, or a list of them.
check_attrs(Attrs) when is_list(Attrs) ->
    true = length(Attrs) >= 0,
    _ = [sonde_attr:check(Attr) || Attr <- Attrs],
    ok;
check_attrs(Attr) ->
    _ = sonde_attr:check(Attr),
    ok.

%% proc_count takes also what is known only after a heap was marked.
check_counted(Attrs) when is_list(Attrs) ->
    true = length(Attrs) >= 0,
    check_attrs([Attr || Attr <- Attrs, not sonde_attr:is_heap(Attr)]);
check_counted(Attr) ->
    sonde_attr:is_heap(Attr) orelse check_attrs(Attr),
    ok.

is_key(label) ->
    {module, proc_lib} = code:ensure_loaded(proc_lib),
    erlang:function_exported(proc_lib, get_label, 1);
is_key(By) ->
    lists:member(By, [initial_call, current_function, registered_name, application]).

check_window(Attr, Ms) ->
    Value = sonde_attr:check(Attr),
    ok = check_ms(Ms),
    is_number(Value) orelse error(badarith),
    ok.

check_ms(Ms) ->
    Ms =:= infinity orelse sonde_opts:is_count(Ms) orelse error(timeout_value),
    ok.

leak_opts(Opts) ->
    sonde_opts:read(Opts, #{collect => {holders, fun(C) -> C =:= holders orelse C =:= all end},
                            deadline => {5000, fun(D) -> sonde_opts:is_count(D) andalso D =< ?MAX_MS end},
                            in_flight => {100, fun(I) -> sonde_opts:is_positive(I)
                                                             andalso I =< 10000 end}}).
