%% @doc Looks inside a running node without stopping it. There is nothing to start: load the
%% application, or load it onto another node with {@link remote_load/2}, and call these functions.
%%
%% <h4>What do you want to know?</h4>
%% <ul>
%% <li>Which processes have most memory, messages, binaries, links, monitors? {@link
%%     proc_count/2}</li>
%% <li>Which processes grow or work most right now? {@link proc_window/3}</li>
%% <li>Which kind of process, or which application, has most? {@link proc_group/2}</li>
%% <li>Which processes hold binaries that they no longer need? {@link bin_garbage/1} reads the
%%     heaps, {@link bin_leak/1} collects garbage and counts; {@link bin_leak/2} also reports the
%%     node's memory before and after</li>
%% <li>Which small slices hold large binaries? {@link bin_waste/1}, {@link bin_slices/1}</li>
%% <li>Where is all the binary memory of the node? {@link bin_account/0}. Which processes own most
%%     of it? {@link bin_owned/1}. Which binaries are the largest or the most shared, and which
%%     processes hold them? {@link bin_holders/2}, {@link bin_holder/1}. Which processes gain binary
%%     memory right now? {@link bin_window/2}. What do native libraries hold? {@link
%%     bin_resources/1}</li>
%% <li>Which processes wait for which? Which process makes the others wait, and is there a deadlock?
%%     {@link waits/1}</li>
%% <li>What are all these processes doing? {@link stacks/1} groups them by their stacks</li>
%% <li>What holds the schedulers? {@link schedulers/0} names what each of them runs</li>
%% <li>What is on the heap of this process, and how much of it is garbage? {@link heap/1}. Which
%%     objects on it retain most, and which path leads to them? {@link heap_top/2}. What waits in
%%     its mailbox? {@link mailbox/2}. How large is this term? {@link flat_size/1}, {@link
%%     byte_size/1}, {@link term_size/1}. The whole heap as a file for Chrome: {@link
%%     sonde_heap:dump/3}</li>
%% <li>What does this process do, and what does it hold? {@link info/1}, {@link info/2}. What is the
%%     state of a `gen_server' or another OTP process? {@link get_state/1}</li>
%% <li>How is the node doing, and how busy are its schedulers? {@link node_stats_print/2}, {@link
%%     node_stats_list/2}, {@link scheduler_usage/1}</li>
%% <li>Which sockets have most traffic, in total or right now? {@link inet_count/2}, {@link
%%     inet_window/3}. Sockets of the `socket' module, which are not ports: {@link sockets/0}</li>
%% <li>Which ports are there, and what is this one? {@link port_types/0}, {@link tcp/0}, {@link
%%     udp/0}, {@link sctp/0}, {@link files/0}, {@link port_info/1}</li>
%% <li>Which ports and which ETS tables use most memory? {@link port_count/2}, {@link ets_count/2},
%%     which also finds binaries that only a table holds</li>
%% <li>What is the source of the code that runs here? {@link source/1}</li>
%% <li>How do I look into a node that does not have sonde? {@link remote_load/2}. Into many nodes?
%%     {@link cluster/2}, {@link rpc/2}, {@link named_rpc/2}</li>
%% <li>What is wrong with this node? {@link diagnose/0}. All of that as a page for the incident's
%%     ticket: {@link report/1}</li>
%% <li>How do I print all this as a table? {@link print/1}. How do I watch it live? {@link
%%     top/0}</li>
%% <li>Does sonde read natively here, and if not, why not? {@link native/0}</li>
%% </ul>
%%
%% <h4>Attributes</h4>
%% The calls about processes take every item of `erlang:process_info/2', in its own unit, and:
%% <ul>
%% <li>`binary_memory': bytes of the refc binaries in `process_info(Pid, binary)'; a binary that the
%%     process refers to twice counts twice</li>
%% <li>`binary_count': the length of `process_info(Pid, binary)'</li>
%% <li>`link_count', `monitor_count', `monitored_by_count': the lengths of these lists, including
%%     ports and remote ends</li>
%% <li>`dictionary_size': the number of keys in the process dictionary</li>
%% <li>`garbage_bytes': bytes of the heap that a collection would free; `bin_garbage': the number of
%%     references to binaries that it would drop; `bin_garbage_bytes': bytes of the binaries that it
%%     would free; `bin_waste': bytes of binaries that slices hold but do not show; `flat_size':
%%     words of a copy of all that the roots lead to. These five walk each heap; only {@link
%%     proc_count/2} and {@link proc_count/3} take them</li>
%% <li>`binary_unique': bytes of the off-heap binaries that the process refers to, each counted
%%     once. It counts references from its heaps and fragments (also from garbage that is not
%%     collected yet), binaries that are being appended to, with their spare room, and references
%%     from waiting messages, on the heap or not. It leaves out references to memory of native
%%     libraries. The source is the process's own lists and queues, read under a stamp</li>
%% <li>`binary_exclusive': bytes of those binaries to which nothing else refers, because the
%%     reference count of the binary equals the number of references in this process. This is what
%%     would be freed if the process dropped them</li>
%% <li>`binary_proportional': bytes of those binaries, where each of `k' holders counts the size
%%     `div k', and the first holder in term order counts the rest, so that the sum over all holders
%%     is the size. Holders are processes, their messages that are not on a heap yet, tables, and
%%     one holder for persistent terms and all that is not walked, which comes first. This attribute
%%     reads the whole node. As for `binary_unique' and `binary_exclusive', only {@link
%%     proc_count/2} and {@link proc_count/3} take it</li>
%% </ul>
%% `memory', `binary_memory' and the last three attributes above are bytes; `heap_size',
%% `total_heap_size' and `stack_size' are words.
%%
%% <h4>What it costs the node</h4>
%% sonde reads `memory', `total_heap_size', `heap_size', `stack_size', `message_queue_len',
%% `reductions' and the attributes above natively: it sends no message to any process except the
%% winners and the few that changed too fast to be read. It asks each process for all other items by
%% `process_info/2', and for all items where {@link native/0} reports that the native path is off;
%% the results are the same. A call without a portable path returns or raises `{native_off,
%% Reason}', as its documentation says.
%%
%% Results are plain terms: rows `{What, Value, Attrs}', largest first. Invalid arguments raise
%% `badarg', or what recon 2.5 raises if recon has the same call. Where a call takes options, an
%% unknown option, a bad value of one, and an `N' that is not a non-negative integer raise `badarg'.
-module(sonde).

-export([proc_count/2, proc_count/3,
         proc_window/3, proc_window/4,
         proc_group/2, proc_group/3,
         bin_leak/1, bin_leak/2,
         bin_garbage/1, bin_garbage/2, bin_garbage/3, bin_waste/1, bin_waste/2,
         bin_slices/1, bin_slices/2,
         bin_account/0, bin_account/1, bin_owned/1, bin_owned/2, bin_holders/1, bin_holders/2, bin_holders/3,
         bin_holder/1, bin_resources/1, bin_resources/2, bin_window/2, bin_window/3,
         waits/1, waits/2, stacks/1, stacks/2, schedulers/0, schedulers/1,
         heap/1, heap/2, heap_top/2, heap_top/3, mailbox/2, mailbox/3,
         flat_size/1, flat_size/2, flat_size/3, byte_size/1, byte_size/2, term_size/1, term_size/2,
         info/1, info/2, info/3, info/4, get_state/1, get_state/2,
         tcp/0, udp/0, sctp/0, files/0, port_types/0, port_info/1, port_info/2,
         inet_count/2, inet_window/3, sockets/0, sockets/1,
         port_count/2, ets_count/2, ets_count/3,
         diagnose/0, diagnose/1, diagnosis/0, diagnosis/1, report/1, report/2,
         node_stats/4, node_stats_print/2, node_stats_list/2, scheduler_usage/1, source/1,
         remote_load/1, remote_load/2,
         rpc/1, rpc/2, rpc/3, named_rpc/1, named_rpc/2, named_rpc/3, cluster/2,
         print/1, print/2, top/0, top/1,
         native/0, native/1]).

-export_type([heap_opts/0, heap/0, heap_error/0, heap_row/0, mailbox/0, size_opts/0,
              attr/0, attrs/0, row/0, report/0, count_opts/0, window_opts/0, by/0, group/0, group_opts/0,
              leak_opts/0, leak_report/0,
              bytes/0, threads/0, node_result/0, status/0, socket_row/0, node_stats/0, cluster_opts/0]).

-type attr() :: sonde_attr:attr().
%% An item of `process_info/2', or an attribute of sonde: `binary_memory', `binary_count',
%% `link_count', `monitor_count', `monitored_by_count', `dictionary_size'.
-type attrs() :: sonde_attr:attrs().
%% The registered name, if there is one, `{current_function, _}', `{initial_call, _}'.
-type row() :: {pid(), Value :: term(), attrs()}.
-type count_opts() :: #{self => boolean(), max_words => non_neg_integer(),
                        timeout => Ms :: non_neg_integer(), report => boolean(),
                        suspend => boolean(), threads => threads()}.
-type window_opts() :: #{self => boolean(), max_entries => pos_integer(), report => boolean(),
                         threads => threads()}.
-type threads() :: sonde_threads:threads().
%% How many threads read processes, each another part of the process table: 1 to 8, or `auto'. They
%% are dirty I/O schedulers; there are never more than the node has of these. `auto', the default: as
%% many as there are idle cores when the call begins, at most one for each 10,000 processes, and at
%% most 8. On a node whose schedulers are all busy, `auto' is one.
%% With `suspend' there is always one. The answer is the same with any number.
-type by() :: sonde_group:by().
-type group() :: sonde_group:group().
-type group_opts() :: #{self => boolean(), max_groups => pos_integer(), report => boolean(),
                       threads => threads()}.
-type report() :: sonde_scan:report().
%% With `report => true' a call returns `{Rows, Report}' instead of rows, where `Report' is
%% `#{left_out, too_large, busy, timeout, missed}'. `left_out' is the number of processes that have no row
%% because they were not read: those with more than `max_words' (`too_large'), those that ran at
%% every attempt to read them (`busy'), and those that were not read before the `timeout'. `missed' is
%% `#{count, pids}': `count' equals `left_out', and `pids' has up to ten of them as `{Pid, busy |
%% too_large | timeout}'. If a call asks each process that it cannot read, all these numbers are 0.
%%
%% With `suspend => true' (default `false') sonde suspends each busy process
%% (`erlang:suspend_process/1'), reads it, and resumes it, one at a time; it waits at most half a
%% second for a process to leave a dirty call. The report then also has `suspended', `#{count,
%% pids}' with `{Pid, Ms}', and `suspended_ms', the sum. A suspended process always resumes, also if
%% the caller is killed. sonde never suspends the caller, its group leader, its own helpers, and
%% processes that the VM or the call may have to wait for (`init', `code_server', `logger', `user'
%% and a few more).
-type leak_opts() :: #{collect => holders | all, deadline => Ms :: non_neg_integer(),
                       in_flight => 1..10000, threads => threads()}.
-type leak_report() :: sonde_bin_leak:report().
-type bytes() :: non_neg_integer().
-type heap_opts() :: #{suspend => boolean(), max_words => non_neg_integer(),
                       timeout => Ms :: non_neg_integer(), progress => boolean()}.
%% Options of every call on one heap. `suspend' (`false'): suspend the process by
%% `erlang:suspend_process/1' while its heap is read, and report the time in `suspended_ms'; the
%% process always resumes, also if the caller is killed. `max_words' (1000000000) and `timeout'
%% (30000 ms): the call gives up beyond them; what takes less than 5 ms may be answered with any
%% timeout. `progress' (`false'): draw a progress line.
-type heap() :: sonde_heap_map:heap().
-type heap_row() :: sonde_heap_top:row().
-type mailbox() :: sonde_mailbox:mailbox().
-type size_opts() :: #{max_words => non_neg_integer(), timeout => Ms :: non_neg_integer()}.
-type heap_error() :: sonde_look:errors().
%% `undefined': there is no such process. `busy': the process ran at every attempt to read it;
%% `suspend' helps. `{heap_too_large, Words, Limit}': the heap has more than `max_words'; for the
%% size of a term, or of a root, `Words' is how many were counted until then.
%% `{native_off, Reason}': the native path is off, and no official call reports this without copying
%% the heap.
-type node_result() :: sonde_loader:node_result().
-type status() :: sonde_vm:status().
-type socket_row() :: sonde_port:socket_row().
-type node_stats() :: sonde_node:stats().
-type cluster_opts() :: sonde_cluster:opts().

%% There are BIFs of these names.
-compile({no_auto_import, [byte_size/1]}).

-define(MAX_MS, 16#FFFFFFFF).

%% ---- processes

%% @doc Returns the `N' processes that have most of `Attr': `{Pid, Value, Attrs}', largest value
%% first, for equal values the higher pid first, without the caller. `Attrs' is the registered name,
%% if there is one, then `{current_function, MFA}' and `{initial_call, MFA}'.
%%
%% The values are those of `process_info/2', in its units. On the native path only the winners are
%% asked. Values that are not numbers sort in term order. Large items (`messages', `backtrace') are
%% fetched from every process, one after the other: this is expensive where mailboxes are long.
%%
%% A list of attributes returns `[{Attr, Rows}]' in the given order, from one sweep over the
%% processes (`binary_proportional' has another one). The sweep visits each process once; a process that must be asked is asked for all of
%% them at once.
%%
%% Raises `badarg' if `Attr' is not an attribute, `badarith' if `N' is not a number. As in recon, a
%% negative `N' or a float returns all processes.
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

%% @doc Works like {@link proc_count/2}, with options. `self => true': the caller has a row too, if
%% its value is among the largest (default `false'). `report => true': returns `{Rows, Report}'
%% ({@type report()}). `threads': {@type threads()}. `max_words' (1000000000), `timeout' (30000 ms)
%% and `suspend' (`false') apply to the attributes that have no portable path (`garbage_bytes',
%% `bin_garbage', `bin_garbage_bytes', `bin_waste', `flat_size', `binary_unique', `binary_exclusive',
%% `binary_proportional'). For these, a process has no row if the heap that the call has to walk is
%% larger than `max_words', if the process never rests, or if it was not read before the timeout; it
%% is never shown as 0. `binary_proportional' needs all holders: it has no rows at all if the time was
%% up before each process was read. Where the native path is off, these attributes raise `{native_off, Reason}'.
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

%% @doc Returns the `N' processes with the largest growth of `Attr' in the next `Ms' milliseconds,
%% with the rows of {@link proc_count/2} and the growth as the value. A process that started in the
%% window counts with its full value, a process that died in the window with its value at the start.
%% For a process that died, `Attrs' was recorded at the start, if the process ranked then; otherwise
%% both calls in it are `undefined'.
%%
%% The call costs two scans, and between them 16 bytes for each process (about 100 bytes where the
%% native path is off). `infinity' waits forever.
%%
%% Before the window starts, raises `badarg' if `Attr' is not an attribute, `badarith' if the
%% attribute or `N' is not a number, `timeout_value' if `Ms' is not a timeout.
%%
%% ```
%% 1> sonde:proc_window(reductions, 3, 1000).
%% '''
-spec proc_window(attr(), N :: number(), Ms :: timeout()) -> [row()].
proc_window(Attr, N, Ms) ->
    ok = check_window(Attr, Ms),
    sonde_proc_count:window(Attr, amount(N), Ms, #{self => false}).

%% @doc Works like {@link proc_window/3}, with options. `self => true': the caller has a row too
%% (default `false'). `max_entries': how many processes the call may remember, 16 bytes each
%% (default 134217727, the most that a node can have); more raise `system_limit'. `report => true':
%% returns `{Rows, Report}' ({@type report()}); this call asks each process that it cannot read, so
%% it misses none. `threads': {@type threads()}.
%%
%% ```
%% 1> sonde:proc_window(memory, 3, 1000, #{self => true}).
%% '''
-spec proc_window(attr(), N :: non_neg_integer(), Ms :: timeout(), window_opts()) ->
    [row()] | {[row()], report()}.
proc_window(Attr, N, Ms, Opts) ->
    sonde_opts:is_count(N) orelse error(badarg),
    Read = sonde_opts:read(Opts, #{self => sonde_opts:flag(false), report => sonde_opts:flag(false),
                                   max_entries => sonde_scan:max_entries(),
                                   threads => sonde_threads:option()}),
    ok = check_window(Attr, Ms),
    none_missed(sonde_proc_count:window(Attr, N, Ms, Read), Read).

%% For calls that ask each process that they cannot read.
none_missed(Rows, Opts) -> told({Rows, sonde_scan:report(false)}, Opts).

told(Both, #{report := true}) -> Both;
told({Rows, _}, _) -> Rows.

%% For calls that recon does not have: rows show the initial call as proc_lib knows it.
rows(Both) -> shown(Both, #{report => false}).

shown(Both, Opts) -> sonde_origin:rows(told(Both, Opts)).

%% @equiv proc_group(By, Attrs, #{})
-spec proc_group(by(), [attr()]) -> [group()].
proc_group(By, Attrs) ->
    grouped(By, Attrs, group_opts(#{})).

%% @doc Returns totals over groups of processes: `[{Key, Processes, [{Attr, Total}]}]', largest
%% first by the first attribute, then by the number of processes; the totals are in the order of
%% `Attrs'. `By' is one of these, and decides what `Key' is:
%% <ul>
%% <li>`initial_call': what `proc_lib:translate_initial_call/1' returns (for a `gen_server' its
%%     callback module), or the first call of a process without `proc_lib'</li>
%% <li>`current_function': the function that the process runs now, or waits in</li>
%% <li>`registered_name': the name of the process, `undefined' for all processes without a name</li>
%% <li>`application': the application of the group leader of the process, `undefined' without
%%     one</li>
%% <li>`label': the label that `proc_lib:set_label/1' set, `undefined' without one; before OTP 27,
%%     `badarg'</li>
%% </ul>
%% The values are those of {@link proc_count/2}, in their units. A shared binary counts for each
%% process that refers to it.
%%
%% Options: `self => true': the caller counts too (default `false'). `max_groups': the largest
%% number of groups (default 100000); more raise `system_limit'. `report => true': returns `{Groups,
%% Report}' ({@type report()}); this call asks each process that it cannot read, so it misses none.
%% `threads': {@type threads()}.
%%
%% <strong>What it costs</strong>: native attributes are read natively, and so is the key if it is
%% `initial_call' or `application'. For other keys each process is asked once by `process_info/2',
%% which for `registered_name' sends no message to a process that waits. The portable path asks each
%% process for its key; on OTP 25 `initial_call' then copies the process dictionaries, one at a time.
%%
%% Before it reads anything, raises `badarg' for an invalid attribute or key, `badarith' for an
%% attribute that is not a number.
%%
%% ```
%% 1> sonde:proc_group(application, [memory], #{self => true}).
%% [{kernel,31,[{memory,1270432}]},{undefined,10,[{memory,449784}]},
%%  {stdlib,2,[{memory,9696}]}]
%% '''
-spec proc_group(by(), [attr()], group_opts()) -> [group()] | {[group()], report()}.
proc_group(By, Attrs, Opts) ->
    Read = group_opts(Opts),
    none_missed(grouped(By, Attrs, Read), Read).

group_opts(Opts) ->
    sonde_opts:read(Opts, #{self => sonde_opts:flag(false), report => sonde_opts:flag(false),
                            threads => sonde_threads:option(),
                            max_groups => sonde_opts:positive(100000)}).

grouped(By, Attrs, Opts) ->
    is_list(Attrs) andalso is_key(By) orelse error(badarg),
    lists:all(fun is_number/1, check_attrs(Attrs)) orelse error(badarith),
    sonde_group:group(By, Attrs, Opts).

%% @doc Collects garbage and returns the `N' processes that drop most refc binaries: `{Pid, Change,
%% Attrs}', where `Change' is the number of binaries after the collection minus the number before
%% it; the most negative first, for equal changes the higher pid first. The caller can have a row.
%% `Attrs' is that of {@link proc_count/2}; a process that died meanwhile is `{Pid, 0, []}'. A
%% change can be positive: a collection moves waiting messages from the mailbox onto the heap.
%%
%% <strong>It disturbs the node</strong>: every process that holds a binary, or has a waiting
%% message, does a full collection, up to 100 at the same time. A process that has neither is left
%% alone, since nothing can change; its row has 0. Hibernated processes do not collect. The call
%% takes at most 5 seconds: a process that does not answer by then (because it runs a long native
%% call) has no row. The work ends if the caller is killed.
%%
%% Raises `badarith' if `N' is not a number. As in recon, a negative `N' returns all processes. The
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

%% @doc Works like {@link bin_leak/1}, with options, and reports what the collection changed on the
%% node:
%% <ul>
%% <li>`rows': the rows of {@link bin_leak/1}</li>
%% <li>`collected': the number of processes that did a full collection; `skipped': of those that did
%%     not answer in time and have no row; `left': of those not collected because nothing could
%%     change</li>
%% <li>`total', `binary': `{Before, After}' of `erlang:memory(total)' and `erlang:memory(binary)',
%%     bytes of the node (`undefined' for a number that is not known because an allocator is
%%     switched off)</li>
%% <li>`ms': the duration of the call in milliseconds</li>
%% </ul>
%% Options:
%% <ul>
%% <li>`collect => holders | all' (default `holders'): `all' also collects processes where nothing
%%     can change. With the native path off sonde cannot know which these are: it collects all
%%     processes, and `left' is 0</li>
%% <li>`deadline => Ms' for the whole call (default 5000)</li>
%% <li>`in_flight => 1..10000' (default 100): how many processes collect at the same time. A process
%%     that has not answered for a tenth of a second no longer counts against this limit</li>
%% <li>`threads': how many threads count ({@type threads()})</li>
%% </ul>
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

%% @doc Returns what the heap of a process is made of, without stopping the process, copying the
%% heap, or forcing a collection. All sizes are bytes:
%% <ul>
%% <li>`blocks': the used part of the heap (`young') and of the old heap, the stack, the heap
%%     fragments (including those of waiting messages), and the free part of the two heaps</li>
%% <li>`reachable': what the roots reach, which is what a major collection would keep; `roots': the
%%     same by root. What several roots reach counts for the first of stack, registers, dictionary,
%%     mailbox, other</li>
%% <li>`garbage': what no root reaches. `reachable + garbage + free + stack' is the sum of
%%     `blocks'</li>
%% <li>`literals': bytes of the literals that the heap refers to, each counted once and without what
%%     it refers to; they belong to no process. `undefined': the location of literals is not
%%     known</li>
%% <li>`histogram': `{Kind, Count, Bytes}' of reachable objects, most bytes first. A hashmap is one
%%     object with all its nodes. For a process with `process_flag(sensitive, true)' functions have
%%     no name (`{'fun', undefined, undefined, N}', where `N' is the size of the environment), and
%%     `content' is `sensitive'</li>
%% <li>`binaries': bytes of off-heap binaries. `live': of those on the process's own list to which a
%%     reachable term refers; `garbage': of those to which only garbage refers; `pinned': `live'
%%     plus the binaries of waiting messages; `visible': the part of them that terms show, where
%%     each slice counts</li>
%% </ul>
%% The source is the heap itself, read under a stamp: if the process ran meanwhile, sonde reads it
%% again. For the caller, the result describes its heap while it waits for the answer. Options and
%% errors: {@type heap_opts()}, {@type heap_error()}.
-spec heap(pid(), heap_opts()) -> heap() | heap_error().
heap(Pid, Opts) -> sonde_heap_map:heap(Pid, Opts).

%% @equiv heap_top(Pid, N, #{})
-spec heap_top(pid(), N :: non_neg_integer()) -> [heap_row()] | heap_error().
heap_top(Pid, N) -> heap_top(Pid, N, #{}).

%% @doc Returns the `N' objects on the heap of a process that retain most, the largest first, each
%% with a path that leads to it: `#{path, retained, self, kind, preview}'. {@link print/1} prints
%% them as a table.
%%
%% `retained': bytes of the heap that would become free if nothing led to the object any more (its
%% dominator tree); literals and the bytes of large binaries lie outside of the heap and do not
%% count. `self': bytes of the object itself; `kind': as in {@link heap/1}. A list is one object, at
%% its first cell (but a tail to which something else refers too is a separate object), and a map of
%% any size is one object.
%%
%% `path' is the shortest path from a root. It starts with `dictionary', `{stack, I}' (1 is the
%% top), `{register, I}', `{message, I}' or `{other, What}'. The next steps are `{key, K}' in a map
%% or the dictionary, `{element, I}' of a tuple, `{field, Name}' if {@link sonde_rec} knows the
%% record, `{index, I}' in a list, `{tail, I}' for the tail after `I' cells of a list, `{env, I}'
%% for a term in the environment of a fun, `key' for a term inside a key, `keys' for the tuple of
%% keys that several small maps share, and `binary' for the binary behind a slice. A path has at
%% most 32 steps; `...' stands for those left out in the middle. A key that is too large to be shown
%% in full is a binary with its text.
%%
%% `preview' is text of at most 200 bytes: three levels, ten elements of each, binaries by their
%% sizes. Where the environment of the application has `{allow_content, false}', it is `forbidden',
%% and only keys that are atoms are shown. For a process with `process_flag(sensitive, true)' it is
%% `sensitive', and the rows have no keys, fields or names of functions.
%%
%% There are at most 100000 rows. The call temporarily takes 6 percent of the size of the heap, and 13
%% bytes for each object on it, or up to 29 for one of 15 words or more; a list counts as one object.
%% The source is the heap, read under a stamp. Options and errors:
%% {@type heap_opts()}, {@type heap_error()}.
-spec heap_top(pid(), N :: non_neg_integer(), heap_opts()) -> [heap_row()] | heap_error().
heap_top(Pid, N, Opts) -> sonde_heap_top:top(Pid, N, Opts).

%% @equiv mailbox(Pid, N, #{})
-spec mailbox(pid(), N :: non_neg_integer()) ->
    mailbox() | heap_error() | {error, content_forbidden}.
mailbox(Pid, N) -> mailbox(Pid, N, #{}).

%% @doc Returns what waits in a mailbox: `#{messages, bytes, binary_bytes, examined, shapes}', where
%% `shapes' has the `N' most frequent shapes, most messages first: `#{shape, messages, bytes,
%% from}'. The native path copies no message.
%%
%% The shape of an atom is that atom. The shape of a tuple is `{Tag, Arity}', where `Tag' is its
%% first element if that is an atom, and `any' otherwise. The other shapes are `list', `map',
%% `binary' and `other'. A message from another node that is not decoded yet is `other' and has no
%% size. (Shapes after the first 4096 are `other', too.) `messages' is the number of waiting
%% messages. The call examines the oldest of them, at most as many as the option `sample' (100000)
%% allows; `examined' is their number. `bytes' is what their terms take in a message
%% (`erts_debug:flat_size/1', in bytes), `binary_bytes' what they show of off-heap binaries. `from'
%% is the process that sent all messages of a shape, if it is one process of this node; `undefined'
%% means more than one sender, or an unknown one.
%%
%% `max_words' limits the words of the messages that are examined.
%%
%% Where the native path is off, a helper process copies the messages if no more than `sample' wait
%% and the process has no more than `max_words' in all, and `from' is known only for calls of a
%% `gen_server'. `{error, content_forbidden}': the
%% environment of the application has `{allow_content, false}'. For a process with
%% `process_flag(sensitive, true)' the result has numbers only: if messages wait, `shapes' is empty
%% and `content' is `sensitive'; where the native path is off, the error is `{native_off, Reason}'.
%% Other options and errors: {@type heap_opts()}, {@type heap_error()}.
-spec mailbox(pid(), N :: non_neg_integer(), #{sample => non_neg_integer(), atom() => term()}) ->
    mailbox() | heap_error() | {error, content_forbidden}.
mailbox(Pid, N, Opts) -> sonde_mailbox:mailbox(Pid, N, Opts).

%% @doc Returns the size of a term in words, equal to `erts_debug:flat_size/1': the size that it has
%% in a message. A shared part counts at each place where it occurs, and a literal counts as if it
%% were copied. A term that shares its parts can be larger than any memory: beyond a billion words,
%% or 30 seconds, the result is an error. Both paths answer; the native path reads the caller's heap
%% and copies nothing.
-spec flat_size(term()) -> non_neg_integer() | sonde_size:failure().
flat_size(Term) -> sonde_term:flat_size(Term, #{}).

%% @doc With options, does {@link flat_size/1} with other limits. With a pid and a root, does {@link
%% flat_size/3} with the default options.
-spec flat_size(term(), size_opts()) -> non_neg_integer() | sonde_size:failure();
               (pid(), sonde_term:root()) -> non_neg_integer() | heap_error().
flat_size(Pid, Root) when is_atom(Root) -> flat_size(Pid, Root, #{});
flat_size(Term, Opts) -> sonde_term:flat_size(Term, Opts).

%% @doc Returns the words that the terms in one root of a process would take in a message: the sum
%% of `erts_debug:flat_size/1' over these terms; nothing is copied. `stack': the terms on the stack.
%% `dictionary': the pairs `{Key, Value}' as they are stored, so three words each plus key and
%% value. `messages': each waiting message (a message from another node that is not decoded yet has
%% no term, and counts 0). `all': these three and the argument registers. Options and errors: {@type
%% heap_opts()}, {@type heap_error()}; `max_words' limits the words that are counted.
-spec flat_size(pid(), sonde_term:root(), heap_opts()) -> non_neg_integer() | heap_error().
flat_size(Pid, Root, Opts) -> sonde_term:root_size(Pid, Root, Opts).

%% @equiv byte_size(Term, #{})
-spec byte_size(term()) -> pos_integer() | sonde_size:failure().
byte_size(Term) -> byte_size(Term, #{}).

%% @doc Returns the size of a term in bytes: one word for the term itself, its flat size ({@link
%% flat_size/1}), and the size of each binary of more than 64 bytes, at each place where it occurs
%% in lists, tuples and maps. `byte_size/1' of the library erlang_term returns the same. Both paths
%% answer. Errors are those of {@link flat_size/1}.
-spec byte_size(term(), size_opts()) -> pos_integer() | sonde_size:failure().
byte_size(Term, Opts) -> sonde_term:byte_size(Term, Opts).

%% @equiv term_size(Term, #{})
-spec term_size(term()) -> sonde_size:sizes() | sonde_size:failure().
term_size(Term) -> term_size(Term, #{}).

%% @doc Returns what a term is made of: `#{flat_words, shared_words, literal_words, binary_visible,
%% binary_pinned}'. `flat_words': {@link flat_size/1}. `shared_words': each part counted once,
%% without literals; this equals `erts_debug:size_shared/1' except for the nodes of large maps,
%% which that function counts twice. `literal_words': each literal that the term refers to, counted
%% once. `binary_visible': bytes of off-heap binaries that the term shows, counted at each place;
%% `binary_pinned': bytes of the whole binaries behind them, each counted once. Both paths answer.
%% Errors are those of {@link flat_size/1}.
-spec term_size(term(), size_opts()) -> sonde_size:sizes() | sonde_size:failure().
term_size(Term, Opts) -> sonde_term:term_size(Term, Opts).

%% @equiv bin_account(#{})
-spec bin_account() -> sonde_bin_account:account().
bin_account() -> bin_account(#{}).

%% @doc Returns where the binary memory is: all of `erlang:memory(binary)', attributed, in bytes.
%% Each binary counts in exactly one of these:
%% <ul>
%% <li>`exclusive': one process refers to it, and nothing else does; `shared': several processes
%%     refer to it</li>
%% <li>`ets': rows of tables; `queues': messages that are not on a heap yet; `literals': persistent
%%     terms; `mixed': several of these kinds</li>
%% <li>`resources': memory of native libraries and of the VM that processes refer to, which is not a
%%     binary ({@link bin_resources/1})</li>
%% <li>`elsewhere': its reference count includes a holder that is none of these: the queue of a
%%     port, a timer, a library, a constant of a module</li>
%% </ul>
%% `overhead': headers and what the allocator adds, computed for each block. `total':
%% `erlang:memory(binary)' without the memory that this call needs. `unseen': `total' minus all of
%% these: memory to which nothing that was read refers, or that changed meanwhile (then it may be
%% negative). `unused': what the allocator's carriers hold beyond the blocks, so it is not part of
%% `total'. `processes_missed': the number of processes that could not be read; `missed' has up to
%% ten of them as in {@type report()} (with `suspend => true' also those that were suspended).
%% `tables_missed': the number of tables with more than `max_rows' (10000000) rows. `ms': the
%% duration. If binaries come from `malloc' (`+MBe false', `+Mea min'), `total' and `unseen' are
%% `undefined'. If there are more persistent terms than the call can read, and only then, the result
%% has `literals_missed => true', and `literals' is 0.
%%
%% The call temporarily takes 32 bytes for each binary, once for each thread that meets it ({@type
%% threads()}), and some room to grow. Of more than
%% `max_entries' (20000000) binaries it keeps a sample: the result then has `sampled', the fraction
%% that was kept, and `error', the largest error of a sum over all of them in 19 of 20 cases.
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
%% `persistent_term:get/0'. The call collects no garbage. Raises `badarg', and `{native_off,
%% Reason}' where the native path is off.
-spec bin_account(sonde_bin_account:options()) -> sonde_bin_account:account().
bin_account(Opts) -> sonde_bin_account:bin_account(Opts).

%% @doc Returns the `N' processes that own most binary memory: `proc_count(binary_exclusive, N)',
%% the bytes that would be freed if the process dropped its references. Raises `{native_off,
%% Reason}' where the native path is off.
-spec bin_owned(N :: non_neg_integer()) -> [row()].
bin_owned(N) -> rows(sonde_garbage:bin_owned(N, #{})).

%% @doc Works like {@link bin_owned/1}, with the options of {@link proc_count/3}.
-spec bin_owned(N :: non_neg_integer(), count_opts()) -> [row()] | {[row()], report()}.
bin_owned(N, Opts) -> shown(sonde_garbage:bin_owned(N, Opts), Opts).

%% @equiv bin_holders(N, size, #{})
-spec bin_holders(N :: non_neg_integer()) -> [sonde_bin_account:holder()].
bin_holders(N) -> bin_holders(N, size).

%% @equiv bin_holders(N, By, #{})
-spec bin_holders(N :: non_neg_integer(), By :: size | count) -> [sonde_bin_account:holder()].
bin_holders(N, By) -> rows(sonde_bin_account:bin_holders(N, By, #{})).

%% @doc Returns the `N' largest binaries (`size'), or those with most references (`count'), and
%% their holders: `#{id, size, refc, holders, elsewhere}', largest first. `id', `size' and `refc'
%% are those of `process_info(Pid, binary)'. `holders' is `[{Holder, References, VisibleBytes}]',
%% where `Holder' is a pid, `{queue, Pid}' for messages of that process that are not on its heap
%% yet, `{ets, Table}', or `literals' for persistent terms. `VisibleBytes' is how much of the binary
%% the terms of that process show, including its mailbox; 0 if only garbage refers to it;
%% `undefined' for a holder that is not a process, for a process that could not be read, for all but
%% the first 1000 processes, and for those that could not be read within 30 s. `elsewhere' is the
%% number of references that none of these holders has; they may belong to a process that runs all
%% the time, or to a table with more than `max_rows' rows.
%%
%% One pass finds the binaries and the processes that hold them. Then tables, and what the processes
%% show, are read for these binaries; what changed in between may be missing. Options are those of
%% {@link bin_account/1}, and `report => true' for `{Rows, Report}' ({@type report()}). More than
%% `max_entries' binaries raise `system_limit', and so do more than four times as many holdings (a
%% binary of a process, or a process, counts as one; a binary that a process has several times, as two).
%%
%% ```
%% 1> sonde:bin_holders(1).
%% [#{elsewhere => 0,
%%    holders => [{<0.139.0>,1,4000000},{<0.140.0>,1,4000000}],
%%    id => 140446265438248,refc => 2,size => 4000000}]
%% '''
%% Raises `badarg', and `{native_off, Reason}' where the native path is off.
-spec bin_holders(N :: non_neg_integer(), By :: size | count, sonde_bin_account:options()) ->
    [sonde_bin_account:holder()] | {[sonde_bin_account:holder()], report()}.
bin_holders(N, By, Opts) -> told(sonde_bin_account:bin_holders(N, By, Opts), Opts).

%% @doc Returns one binary and its holders, in the form of {@link bin_holders/3}. `Id' is that of
%% `process_info(Pid, binary)'; the result is `undefined' if no live binary has it. sonde compares
%% the number with the binaries that it finds and never follows it as an address.
-spec bin_holder(Id :: integer()) -> sonde_bin_account:holder() | undefined.
bin_holder(Id) -> sonde_bin_account:bin_holder(Id, #{}).

%% @equiv bin_resources(N, #{})
-spec bin_resources(N :: non_neg_integer()) -> sonde_bin_account:resources().
bin_resources(N) -> rows(sonde_bin_account:bin_resources(N, #{})).

%% @doc Returns the memory of native libraries that processes refer to and that counts as binary
%% memory: `[{Type, Count, Bytes, Holders}]', most bytes first. `Type' is `{Module, Name}' of the
%% resource type, or `unknown' for memory of the VM itself (references of tables, compiled matches
%% and the like). `Holders' is the number of processes that have a reference. Options are those of
%% {@link bin_account/1}, and `report => true' for `{Rows, Report}' ({@type report()}). Memory that
%% a library takes by other means, such as `malloc', is not visible. Raises `badarg', and
%% `{native_off, Reason}' where the native path is off.
-spec bin_resources(N :: non_neg_integer(), sonde_bin_account:options()) ->
    sonde_bin_account:resources() | {sonde_bin_account:resources(), report()}.
bin_resources(N, Opts) -> told(sonde_bin_account:bin_resources(N, Opts), Opts).

%% @equiv bin_window(N, Ms, #{})
-spec bin_window(N :: non_neg_integer(), Ms :: non_neg_integer()) -> [sonde_bin_growth:row()].
bin_window(N, Ms) -> rows(sonde_bin_growth:run(N, Ms, #{})).

%% @doc Returns the `N' processes and tables with the largest growth of exclusive binary memory in
%% `Ms' milliseconds: `{Holder, GrowthBytes, Attrs}', largest first, where `Holder' is a pid or
%% `{ets, Table}', with the `Attrs' of {@link proc_count/2} or {@link ets_count/3}. A binary is
%% exclusive if nothing else refers to it (`binary_exclusive'). A holder has no row if it did not
%% grow, died meanwhile, or could not be read. Options: `self' (the caller too), `max_rows' of
%% tables (10000000), `max_entries', the number of processes that the call may remember, 16 bytes
%% each, `threads' ({@type threads()}), `suspend', and `report' for `{Rows, Report}' ({@type
%% report()}, over both passes). Raises `badarg', `system_limit' for more than `max_entries'
%% processes, and `{native_off, Reason}' where the native path is off.
-spec bin_window(N :: non_neg_integer(), Ms :: non_neg_integer(), sonde_bin_growth:options()) ->
    [sonde_bin_growth:row()] | {[sonde_bin_growth:row()], report()}.
bin_window(N, Ms, Opts) -> shown(sonde_bin_growth:run(N, Ms, Opts), Opts).

%% @equiv waits(N, #{})
-spec waits(N :: non_neg_integer()) -> [sonde_waits:row()].
waits(N) ->
    {Rows, _} = sonde_waits:rows(N, #{}),
    Rows.

%% @doc Returns the `N' processes that most others wait for: `{Pid, Waiters, Attrs}', largest first.
%% `Waiters' is the number of processes that cannot continue before `Pid' answers: they wait for it
%% directly or through others. So the end of a chain comes before its middle. `Attrs' contains:
%% <ul>
%% <li>`{longest_chain, Pids}': each of them waits for the one after it; `Pid' is the last</li>
%% <li>its registered name, if it has one</li>
%% <li>`{direct, N}': the number of processes that wait for `Pid' directly</li>
%% <li>`{waits_for, For}': what it waits for itself, if it waits</li>
%% <li>`{deadlock, Pids}': it waits for itself through others. Each waits for the one after it, and the
%%     last, which is `Pid', waits for the first. Two looks saw each of them in the same call</li>
%% <li>`message_queue_len', and `initial_call' as `erlang:process_info/2' reports it</li>
%% </ul>
%% After these rows there can be two more. `remote' counts processes that wait for a process of
%% another node. `unclear' counts processes that wait for one of several monitored processes, if
%% their stack does not show for which.
%%
%% ```
%% 1> sonde:waits(2).
%% [{<0.146.0>,5001,
%%   [{longest_chain,[<0.150.0>,<0.148.0>,<0.146.0>]},
%%    my_database,
%%    {direct,1},
%%    {message_queue_len,0},
%%    {initial_call,{proc_lib,init_p,5}}]},
%%  {<0.148.0>,5000,
%%   [{longest_chain,[<0.150.0>,<0.148.0>]},
%%    my_server,
%%    {direct,5000},
%%    {waits_for,<0.146.0>},
%%    {message_queue_len,4999},
%%    {initial_call,{proc_lib,init_p,5}}]}]
%% '''
%% A process waits if its status is `waiting' and it is in one of these places: a call of
%% `gen_server', `gen_statem', `gen_event' or another behaviour of `gen' (also Elixir's `GenServer'),
%% `receive_response' and `wait_response' of these, a request of `io', or `proc_lib:start' and
%% `start_link', where a supervisor waits for a child. Other receives do not count. So neither a call of
%% `erpc' nor a `Task.await' of Elixir counts. The call reads the monitors, the links and the stack of
%% each process under a stamp. It sends nothing to a process that waits.
%%
%% The call sees each process at a moment of its own, so a chain may change meanwhile. Options:
%% `timeout' in milliseconds (30000), and `report => true' for `{Rows, Report}' ({@type report()}).
%% The report counts the processes that were not looked at before the timeout, and those that ran or
%% were suspended at each of three attempts. Raises `badarg', and `{native_off, Reason}' if the native
%% path is off: no official call reports which of several monitored processes a process waits for.
-spec waits(N :: non_neg_integer(), sonde_waits:options()) ->
    [sonde_waits:row()] | {[sonde_waits:row()], report()}.
waits(N, Opts) -> told(sonde_waits:rows(N, Opts), Opts).

%% @equiv stacks(N, #{})
-spec stacks(N :: non_neg_integer()) -> [sonde_stacks:row()].
stacks(N) ->
    {Rows, _} = sonde_stacks:rows(N, #{}),
    Rows.

%% @doc Returns the `N' stacks that most processes have: `{Stack, Processes, Attrs}', largest first.
%% `Stack' is a list of functions, the one that the process is in first, then its callers, as
%% `current_stacktrace' of `erlang:process_info/2' reports them: without calls in tail position, and
%% a recursion from one place only once. It is `[]' for a process that hibernates. `Attrs' contains:
%% <ul>
%% <li>`{example, Pid}': one of these processes</li>
%% <li>its registered name, if it is the only one and has one</li>
%% <li>`initial_call' of the example, as `erlang:process_info/2' reports it</li>
%% </ul>
%%
%% ```
%% 1> sonde:stacks(2).
%% [{[{gen,do_call,4},{gen_server,call,3}],
%%   300,
%%   [{example,<0.81.0>},{initial_call,{erlang,apply,2}}]},
%%  {[{gen_server,loop,7},{proc_lib,init_p_do_apply,3}],
%%   16,
%%   [{example,<0.42.0>},{initial_call,{proc_lib,init_p,5}}]}]
%% '''
%% The native path reads the stack of each process under a stamp, counts equal ones, and looks up the
%% functions once for each: no process gets a message, whatever their number; only the examples are
%% asked for their names, which sends a signal to one with a new message. A process that runs at
%% each of a few looks is asked by `erlang:process_info/2'; one that does not answer within half a
%% second is in a long native call, and is in no row. On the portable path each process is asked.
%%
%% The caller and sonde's own processes have no row. Options:
%% <ul>
%% <li>`depth': how many functions of a stack count, from the one that the process is in: 1 to 64. The
%%     default is that of the node: 8, unless `erlang:system_flag/2' set `backtrace_depth'. The portable path, and
%%     processes that are asked, never show more than that</li>
%% <li>`timeout' in milliseconds (30000), and `threads' ({@type threads()})</li>
%% <li>`report': `{Rows, Report}' ({@type report()}); it counts the processes that have no row</li>
%% </ul>
%% Raises `badarg'; `system_limit' if stacks differ at more than 262,143 places; and `{native_off,
%% Reason}' for a `depth' above that of the node where the native path is off.
-spec stacks(N :: non_neg_integer(), sonde_stacks:options()) ->
    [sonde_stacks:row()] | {[sonde_stacks:row()], report()}.
stacks(N, Opts) -> told(sonde_stacks:rows(N, Opts), Opts).

%% @equiv schedulers(#{})
-spec schedulers() -> [sonde_schedulers:row()].
schedulers() ->
    schedulers(#{}).

%% @doc Returns what each scheduler thread runs now: `{{Kind, Number}, RunQueue, Attrs}'. `Kind' is `normal',
%% `dirty_cpu' or `dirty_io', and `RunQueue' how many processes and ports wait for it; all dirty
%% schedulers of a kind share a run queue. A scheduler that is in one long native call comes first,
%% then those that run a process, those with the longest run queue first.
%%
%% `Attrs' is `[]' if the scheduler runs neither a process nor a port: it sleeps, or does work of the VM. Otherwise it
%% contains:
%% <ul>
%% <li>`{pid, Pid}' or `{port, Port}'; neither, if it was another one at each look (the status is `busy'), or could not be
%%     read (`not_read')</li>
%% <li>the registered name, if it has one</li>
%% <li>`{held_ms, Ms}', if the process or port did not leave the scheduler between two looks: for at least that time it
%%     was in one native function, one garbage collection or one call of its driver, waited for its driver's lock, or the
%%     thread got no processor. Code in Erlang leaves after about a millisecond. How long it was there before is not known</li>
%% <li>`{name, Name}' of a port, as `erlang:port_info/2' reports it: that of its driver or of its program, at most
%%     255 bytes</li>
%% <li>`{status, Status}', if that is not `running'</li>
%% <li>`current_function': if the process has `held_ms', the native function that it is in, or for some short
%%     ones that the VM itself has, the function in which it was scheduled in. Without `held_ms', where it was last
%%     seen</li>
%% <li>`initial_call', as `erlang:process_info/2' reports it</li>
%% </ul>
%%
%% ```
%% 1> sonde:schedulers().
%% [{{dirty_io,1},
%%   3,
%%   [{pid,<0.84.0>},slow_disk,{held_ms,100},
%%    {current_function,{prim_file,read_nif,2}},{initial_call,{erlang,apply,2}}]},
%%  {{normal,1},
%%   0,
%%   [{pid,<0.82.0>},{current_function,{sonde,schedulers,1}},{initial_call,{erlang,apply,2}}]},
%%  {{normal,2},0,[]}]
%% '''
%% The process that calls is among them, since it runs. Nothing is asked, and once the layout is proved, nothing that
%% is needed waits for a dirty scheduler: this answers as long as one normal scheduler works. If none does, `sonde
%% --pid' answers.
%%
%% Option: `interval', the milliseconds between the two looks (100; 0 to 60000). With 0, there is one look
%% and no `held_ms'. Raises `badarg', and `{native_off, Reason}' if the native path is off, or if sonde could not prove
%% where this VM keeps its schedulers: no official call reports what a scheduler runs.
-spec schedulers(sonde_schedulers:options()) -> [sonde_schedulers:row()].
schedulers(Opts) -> sonde_schedulers:rows(Opts).

%% @doc Returns the `N' processes with most references to binaries that a collection would drop:
%% {@link bin_garbage/2} by `count'.
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

%% @doc Returns the `N' processes with most references to binaries that only garbage refers to:
%% `{Pid, Count, Attrs}', largest first, where `Count' is the number of references to binaries that
%% `garbage_collect(Pid)' would drop. The call collects nothing and disturbs no process: it answers
%% the question of {@link bin_leak/1} and leaves the evidence in place. The caller can have a row; a
%% process with nothing to drop has none.
%%
%% With `bytes' the value is the bytes of the binaries that a collection would free. A binary to
%% which something else refers would not be freed.
%%
%% If messages wait, a collection also moves the binaries of these messages onto the heap; the
%% result does not subtract those. A hibernated process does not collect on request, but has nothing
%% to drop. A process that runs all the time is left out; {@link bin_garbage/3} reports it. The
%% source is a mark of each heap that has binaries, under a stamp.
%%
%% Raises `badarg', and `{native_off, Reason}' where the native path is off.
-spec bin_garbage(N :: non_neg_integer(), count | bytes) ->
    [{pid(), Value :: pos_integer(), attrs()}].
bin_garbage(N, What) -> rows(sonde_garbage:bin_garbage(N, What, #{})).

%% @doc Works like {@link bin_garbage/2}, with the options of {@link proc_count/3}; the default of
%% `self' is `true' here.
-spec bin_garbage(N :: non_neg_integer(), count | bytes, count_opts()) ->
    Rows | {Rows, report()} when Rows :: [{pid(), Value :: pos_integer(), attrs()}].
bin_garbage(N, What, Opts) -> shown(sonde_garbage:bin_garbage(N, What, Opts), Opts).

%% @doc Returns the `N' processes with slices that hold most bytes of binaries without showing them:
%% `{Pid, Pinned - Visible, [{worst, [{Visible, Pinned, Slices}]} | Attrs]}', largest first, in
%% bytes. `Pinned' is the size of the binaries that the process refers to, `Visible' the part of
%% them that its terms show. `worst' has the three binaries with most bytes that are not shown: how
%% much of each is shown, its size, and the number of slices ({@link bin_slices/1} returns all). The
%% remedy is `binary:copy/1' where the process keeps a slice.
%%
%% `worst' comes from a second pass: it is `[]' if the process cannot be read by then. A binary that
%% was appended to has room to grow, which counts as not shown. The caller can have a row; a process
%% that shows all that it holds has none. A process that cannot be read is left out, as in {@link
%% bin_garbage/2}.
%%
%% Raises `badarg', and `{native_off, Reason}' where the native path is off.
-spec bin_waste(N :: non_neg_integer()) -> [sonde_garbage:waste_row()].
bin_waste(N) -> rows(sonde_garbage:bin_waste(N, #{})).

%% @doc Works like {@link bin_waste/1}, with the options of {@link proc_count/3}; the default of
%% `self' is `true' here.
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

%% @doc Returns what is known of a process, by category:
%% <ul>
%% <li>`meta': `registered_name' (`[]' if it has none), `dictionary', `group_leader', `status'</li>
%% <li>`signals': `links', `monitors', `monitored_by', `trap_exit'</li>
%% <li>`location': `initial_call', `current_stacktrace'</li>
%% <li>`memory_used': `memory' (bytes), `message_queue_len', `heap_size' and `total_heap_size'
%%     (words), `garbage_collection'</li>
%% <li>`work': `reductions'</li>
%% </ul>
%% `Process' is a pid, a registered name, `"<0.12.0>"', `{0, 12, 0}', `{global, Name}' or `{via,
%% Module, Name}'.
%%
%% All items come from one `process_info/2', so they are consistent. The call copies the process
%% dictionary, and `memory' and `total_heap_size' visit every waiting message. If the dictionary or
%% the mailbox is huge, ask for single items with {@link info/2}.
%%
%% If the process is dead, each category is `undefined'. Raises `badarg' for a name that is not
%% registered and for a process of another node, `function_clause' for a term that cannot denote a
%% process.
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

%% @doc Returns one category of {@link info/1}, or one attribute of {@link proc_count/2}, or the
%% attributes of a list, in its order, from one `process_info/2'.
%%
%% The single attribute `registered_name' is `[]' if the process has no name, as in
%% `process_info/2'. If the process is dead, the result is `undefined', and for a category
%% `{Category, undefined}'. Raises `badarg' for a key that is not an attribute (a list cannot
%% contain categories), and otherwise what {@link info/1} raises.
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

%% @doc Returns {@link info/1} for the process `<A.B.C>'. Raises `badarg' if no such pid can exist.
-spec info(non_neg_integer(), non_neg_integer(), non_neg_integer()) ->
    [{sonde_info:category(), [{atom(), term()}] | undefined}].
info(A, B, C) ->
    info(sonde_lib:triple_to_pid(A, B, C)).

%% @doc Returns {@link info/2} for the process `<A.B.C>'. Raises `badarg' if no such pid can exist.
-spec info(non_neg_integer(), non_neg_integer(), non_neg_integer(),
           sonde_info:category() | attr() | [attr()]) ->
    {atom(), term()} | [{attr(), term()}] | [] | undefined.
info(A, B, C, Key) ->
    info(sonde_lib:triple_to_pid(A, B, C), Key).

%% @equiv get_state(Process, 5000)
-spec get_state(sonde_lib:pid_term()) -> term().
get_state(Process) ->
    get_state(Process, 5000).

%% @doc Returns the state of a process that handles system messages: a `gen_server', `gen_statem',
%% `gen_event' or supervisor. The process itself answers, after the messages that wait in its
%% mailbox, and copies its state. `Timeout' is in milliseconds.
%%
%% Exits as `sys:get_state/2' does: `{noproc, _}' for a name that is not registered and for a dead
%% process, `{timeout, _}' if no answer comes in time, for example from a process that does not
%% handle system messages.
%%
%% ```
%% 1> sonde:get_state(kernel_safe_sup, 100).
%% {state,{local,kernel_safe_sup},one_for_one,...}
%% '''
-spec get_state(sonde_lib:pid_term(), timeout()) -> term().
get_state(Process, Timeout) ->
    sys:get_state(sonde_lib:term_to_pid(Process), Timeout).

%% ---- ports

%% @doc Returns the ports of TCP sockets. Sockets of the `socket' module, also those of `gen_tcp'
%% with `{inet_backend, socket}', are not ports: {@link sockets/1} returns them.
%%
%% ```
%% 1> sonde:tcp().
%% [#Port<0.5>,#Port<0.6>]
%% '''
-spec tcp() -> [port()].
tcp() -> sonde_port:ports(tcp).

%% @doc Returns the ports of UDP sockets. {@link sockets/1} returns sockets that are not ports.
%%
%% ```
%% 1> sonde:udp().
%% [#Port<0.7>]
%% '''
-spec udp() -> [port()].
udp() -> sonde_port:ports(udp).

%% @doc Returns the ports of SCTP sockets. {@link sockets/1} returns sockets that are not ports.
%%
%% ```
%% 1> sonde:sctp().
%% []
%% '''
-spec sctp() -> [port()].
sctp() -> sonde_port:ports(sctp).

%% @doc Returns the ports of files: always `[]', since files are not ports from OTP 21 on.
%%
%% ```
%% 1> sonde:files().
%% []
%% '''
-spec files() -> [port()].
files() -> sonde_port:ports(file).

%% @doc Returns the number of ports of each kind, by the name of the driver or of the program; most
%% first, for equal numbers by name.
%%
%% ```
%% 1> sonde:port_types().
%% [{"tcp_inet",2},{"2/2",1},{"forker",1}]
%% '''
-spec port_types() -> [{Name :: string(), pos_integer()}].
port_types() ->
    sonde_port:port_types().

%% @doc Returns what is known of a port, by category:
%% <ul>
%% <li>`meta': `registered_name' if it has one, `id', `name', `os_pid'</li>
%% <li>`signals': `connected', `links', `monitors'</li>
%% <li>`io': `input', `output' (bytes)</li>
%% <li>`memory_used': `memory', `queue_size' (bytes)</li>
%% <li>`type': for a socket `statistics', `peername', `sockname' (if there is one) and `options', as
%%     the module `inet' returns them; for any other port `[]'</li>
%% </ul>
%% `Port' is a port, a registered name, `"#Port<0.12>"' or `12'. For a closed port, and for a name
%% that is not registered, `type' is `[]', and each item of the other categories is `undefined'.
%% Raises `function_clause' for a term that cannot denote a port, `badarg' for a number that no port
%% can have.
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

%% @doc Returns one category of {@link port_info/1} (`specific' means `type'), or one item of
%% `erlang:port_info/2', or the items of a list, in its order.
%%
%% An item of a closed port is `undefined'; `registered_name' is `[]' if the port has no name.
%% Raises `badarg' for a key that is not an item, and otherwise what {@link port_info/1} raises.
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

%% @doc Returns the `N' sockets that have most of `Attr' since they were opened: `{Port, Sum,
%% Values}', largest first, for equal sums the higher port first. `Attr' is `recv_cnt', `send_cnt'
%% (packets), `recv_oct', `send_oct' (octets), `cnt' or `oct' (both directions), or another item of
%% `inet:getstat/2'; any other atom returns `[]'. A negative `N' returns all sockets.
%%
%% The call sees the sockets that are ports; {@link sockets/0} returns the others.
%%
%% ```
%% 1> sonde:inet_count(oct, 2).
%% [{#Port<0.6>,1000,[{recv_oct,1000},{send_oct,0}]},
%%  {#Port<0.5>,1000,[{recv_oct,0},{send_oct,1000}]}]
%% '''
-spec inet_count(sonde_lib:inet_attr(), N :: integer()) -> [sonde_lib:inet_row()].
inet_count(Attr, N) ->
    sonde_port:inet_count(Attr, N).

%% @doc Returns the `N' sockets with the largest growth of `Attr' in the next `Ms' milliseconds: the
%% rows of {@link inet_count/2}, with the growth as the sum, and the values at the end. A socket
%% that was opened or closed in the window counts with its full sum.
%%
%% Before the window starts, raises `function_clause' if `Attr' is not an atom, `timeout_value' if
%% `Ms' is not a timeout, `badarith' if `N' is not a number.
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

%% @doc Returns the sockets of the `socket' module, which are not ports: those that it opened, and
%% those of `gen_tcp' and `gen_udp' with `{inet_backend, socket}'. Rows are `{Socket, Octets,
%% Attrs}', most traffic first, where `Octets' is the sum of octets read and written, including sent
%% files, and `Attrs' is
%% <ul>
%% <li>`owner': the owner; for a socket of `gen_tcp', the process that keeps it</li>
%% <li>`domain', `type', `protocol': `inet', `stream', `tcp' and the like</li>
%% <li>`local', `remote': `{Address, Port}' or `{local, Path}', if there is one</li>
%% <li>`counters': a map with the names of `socket:info/1': `read_byte', `write_byte' (octets),
%%     `read_pkg', `write_pkg' (packets), `sendfile_byte', `acc_success' and more</li>
%% </ul>
%% The result leaves out sockets that close meanwhile, and those that were opened with `use_registry
%% => false'. No call waits for traffic: the values come from `socket:info/1', `socket:sockname/1'
%% and `socket:peername/1'. Returns `[]' if Erlang was built without the native part of that module.
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

%% @doc Returns the rows of {@link sockets/0} for one protocol: `tcp', `udp' or `sctp'. Anything
%% else raises `badarg'.
%%
%% ```
%% 1> [{_Socket, Octets, _Attrs} | _] = sonde:sockets(tcp).
%% '''
-spec sockets(tcp | udp | sctp) -> [socket_row()].
sockets(Protocol) when Protocol =:= tcp; Protocol =:= udp; Protocol =:= sctp ->
    sonde_port:sockets(Protocol);
sockets(_) ->
    error(badarg).

%% @doc Returns the `N' ports that have most of `Attr': `{Port, Value, Attrs}', largest first, where
%% `Attrs' is the registered name, if there is one, `{name, Driver}' and `{connected, Pid}'. `Attr'
%% is `memory' (bytes that the VM took for the port itself, without the data in its queue),
%% `queue_size' (bytes in its queue that wait to be written), `input' or `output' (bytes so far);
%% anything else raises `badarg'. The source is `erlang:port_info/2'; a port that closes meanwhile
%% has no row.
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

%% @doc Returns the `N' ETS tables that have most of `Attr': `{Table, Value, [Name, {owner, Pid},
%% {type, Type}, {size, Rows}]}', largest first. `Attr' is
%% <ul>
%% <li>`memory': bytes, where `ets:info(Table, memory)', the source, has words</li>
%% <li>`size': rows</li>
%% <li>`binary_memory': bytes of the binaries of more than 64 bytes that the rows refer to, each
%%     counted once; they lie outside of the table, and `memory' does not include them. The source
%%     is `ets:info(Table, binary)', which also reads private tables; it makes a tuple for each
%%     reference, in a helper process. A table of more than `max_rows' (10000000) rows is not read:
%%     its value is `{too_large, Rows}', and it comes first</li>
%% </ul>
%% Anything else raises `badarg'. A table that is deleted meanwhile has no row.
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

%% @equiv diagnose(#{})
-spec diagnose() -> ok.
diagnose() -> diagnose(#{}).

%% @doc Watches the node for `interval' ms (2000; 100 to 600000), and prints what is wrong: where
%% memory is and how fast it grows, then the suspects, the worst first. If something grows, it watches
%% half as long again. If a process keeps garbage, it watches for up to four seconds more. Each suspect has a sentence,
%% its evidence, a remedy, and the call that shows more. {@link diagnosis/1} returns the same as a term.
%%
%% ```
%% 1> sonde:diagnose().
%% '''
-spec diagnose(#{interval => Ms :: pos_integer()}) -> ok.
diagnose(Opts) ->
    io:put_chars(sonde_diagnose:format(diagnosis(Opts))).

%% @equiv diagnosis(#{})
-spec diagnosis() -> sonde_diagnose:diagnosis().
diagnosis() -> diagnosis(#{}).

%% @doc Returns what {@link diagnose/1} prints: the state of the node at several moments of
%% `interval' ms (2000), and the suspects. Keys of the map:
%% <ul>
%% <li>`at' (system time in ms), `node'</li>
%% <li>`memory': bytes at the end: those of `erlang:memory/0' (`undefined' for a number that is not
%%     known because an allocator is switched off; see `not_looked_at'), `allocated' and `used' of
%%     all allocators, `by_allocator', `mapped', what the VM has from the operating system, `kept', the part
%%     of it that is free, and that the VM keeps for later use, and `rss', the resident memory reported by the
%%     operating system (`undefined' if it does not report that)</li>
%% <li>`growth': bytes by kind, and numbers of processes, ports, atoms and tables, in `ms'</li>
%% <li>`counts': `{Number, Limit}' of these</li>
%% <li>`suspects': maps, the largest `share' (of the node's memory, or of a limit) first: `kind',
%%     `what' (a pid, `{ets, Table}', `{processes, InitialCall}' or `node'), `bytes', `evidence',
%%     `see' (a call that shows more), `remedy', and `frees', the bytes that the remedy would free
%%     if that is known</li>
%% <li>`not_looked_at': what the call could not read, and why. Of connections to other nodes, the call
%%     reads those by TCP, and no TLS</li>
%% </ul>
%% These are suspects:
%% <ul>
%% <li>What grew in most moments and fell in none: by 512 kB in all, or, if it is large, by enough to
%%     double within a day. In the second look, most values must be higher still: of many
%%     values that go up and down, some rise for a while</li>
%% <li>What is useless at each moment: garbage, bytes of binaries that no term shows, messages that stay
%%     for two seconds, monitors on the same process, idle processes without link, monitor and name</li>
%% <li>Limits that are near (80 %, or within 30 days at the present rate, and the `max_heap_size' of a
%%     process), persistent terms whose number and bytes grow, or whose bytes alone are more at each look (of
%%     nine or more, with an interval of 2000 ms or more), timers of `erlang:send_after/3' and the like whose bytes
%%     grow, ports with much to send at the start and at the end, if their peer would need more than two seconds
%%     for it, connections by TCP to nodes that take nothing for two seconds, handlers of `logger', and its proxy,
%%     with a queue above their `drop_mode_qlen', or with the same oldest event, at each moment of two seconds, a default of 0 for `fullsweep_after', and a
%%     limit of processes or ports (`+P', `+Q') whose table takes memory that the default would not</li>
%% <li>A process, if at least 20 processes wait for it directly at the start ({@link waits/1}), a
%%     quarter of them (of a sample) are in the same call at the end, and its mailbox has at least half as
%%     many messages both times</li>
%% <li>A deadlock: a circle that is the same at both moments</li>
%% </ul>
%% One fault is one suspect: a process or a table that keeps as many references or rows as there are new
%% timers is the suspect for the timers, and a handler of `logger' for its mailbox and for the processes
%% that wait for it. Garbage that the process itself collects is no suspect. This holds if the
%% process makes a full collection while it is watched, if one is due within a minute (for a process
%% that collects rarely, within five), and if the last one came within a minute and it makes them
%% again and again: it has made very many more minor collections in its life than since then, or ten
%% times as many if it is about as old as the node and always worked as now. A process with garbage
%% that makes none in the interval is watched for up to four seconds more, because it may work every
%% few seconds. If the process makes only minor collections, the garbage that they leave is a
%% suspect, unless `fullsweep_after' is at most 10. What
%% is merely large is no suspect, nor is what has less than 3 % of the node's memory, or 2 MB;
%% timers and persistent terms count by their growth alone. If
%% fewer than five heaps of a process were read, its growing size is a suspect only if the process
%% answered at least six times, and if no heap shows that only garbage grew. The call does not find
%% persistent terms that are replaced by larger ones less often than it looks, or a slower small leak
%% (`sonde_watch' finds the latter). It may report a leak for memory that comes and goes in periods longer than the interval,
%% and garbage of a process that works less often than it looks.
%%
%% The call sweeps all processes twice and marks all heaps once on the native path (for up to 5
%% s); it reads the processes that have most of something seven times, or 14 times if something grows or a process keeps garbage,
%% and asks them for their status and collections. Two words of processes with much garbage are read about a thousand
%% times on the native path, without a message to them. Of a table with many bytes of binaries it
%% copies up to 50 rows into a helper, to see how much of the binaries they show; not of a
%% private table, and not if `allow_content' is false. The call collects, suspends and changes
%% nothing. With the native path off it does not look into heaps, and `not_looked_at' reports
%% that; a process that keeps timers is a suspect of its own then.
-spec diagnosis(#{interval => Ms :: pos_integer()}) -> sonde_diagnose:diagnosis().
diagnosis(Opts) ->
    sonde_diagnose:diagnosis(Opts).

%% @equiv report(File, #{})
-spec report(file:name_all()) -> {ok, sonde_report:written()} | {error, sonde_report:error()}.
report(File) -> report(File, #{}).

%% @doc Writes a report of the node: one HTML file of less than 2 MB that any browser opens without a
%% network, and that only its owner can read. It has the diagnosis in words, memory by kind, where the
%% binary memory is, processes by application and initial call, sortable tables of the largest
%% processes, tables and ports, the allocators, which processes wait for which, what retains the heaps of
%% the three worst processes, the stacks, and the history of the watcher, if one runs.
%%
%% The result is `{ok, #{bytes, ms, missing, incomplete}}'. `missing' is `[{Section, Why}]': the sections that
%% failed or were not done in time. `incomplete' has those that were cut, or could not be read completely. The page says the same at each of them. Where the native path is
%% off, these are `binaries', `waits' and `heaps'.
%%
%% The report has names of processes, tables, modules and functions. It has no values, keys that are not
%% atoms, or messages, no arguments of external programs, and no addresses of sockets. Nothing in it is
%% code that comes from a name: the page allows only its own script.
%%
%% Options:
%% <ul>
%% <li>`force' (`false'): replaces a file of the same name once the new one is complete. Without it the
%%     error is `eexist'. A symbolic link is never followed: with `force', the link itself is replaced, and its target
%%     stays. One to a device, a pipe, a folder or into /proc is an error</li>
%% <li>`content' (`false'): adds previews and keys of the three heaps, as of {@link heap_top/3}. Where the
%%     environment has `{allow_content, false}' the error is `content_forbidden'</li>
%% <li>`interval' (2000 ms): how long the diagnosis watches the node; less if there is little time left when
%%     it begins</li>
%% <li>`top' (200, up to 1000): the number of rows for each attribute</li>
%% <li>`timeout' (60000 ms): for all sections together; each of them has 15 seconds, and the diagnosis its
%%     interval in addition. If nothing at all is read in this time, no file is written, and the error is `timeout'</li>
%% <li>`node' (this node): the node that is looked at; it must have sonde. The file is written here</li>
%% <li>`watcher' (`sonde_watch'): the watcher with the history</li>
%% </ul>
%% Other errors: `{Node, noconnection | no_sonde | timeout | Why}'; `no_page', if `priv/report.html' is not
%% beside the modules, as after {@link remote_load/2} (use `node'); and what prevents the file.
%%
%% ```
%% 1> sonde:report("incident.html").
%% {ok,#{bytes => 214321,incomplete => [],missing => [{<<"watcher">>,<<"no watcher runs on this node">>}],ms => 2874}}
%% '''
-spec report(file:name_all(), sonde_report:opts()) ->
    {ok, sonde_report:written()} | {error, sonde_report:error()}.
report(File, Opts) -> sonde_report:write(File, Opts).

%% @doc Reads the state of the node `N' times, each time after `Ms' milliseconds, and folds over it:
%% `Fun({Absolutes, Increments}, Acc)' returns the next `Acc'.
%% <ul>
%% <li>`Absolutes': `process_count'; `run_queue'; `error_logger_queue_len', if there is a process of
%%     that name; `memory_total', `memory_procs' (used by processes), `memory_atoms' (used by
%%     atoms), `memory_bin', `memory_ets': bytes of `erlang:memory/1' (`undefined' for a number that
%%     is not known because an allocator is switched off)</li>
%% <li>`Increments' since the previous sample: `bytes_in', `bytes_out' (of ports), `gc_count',
%%     `gc_words_reclaimed', `reductions', `scheduler_usage': `[{Id, 0.0..1.0}]' as in {@link
%%     scheduler_usage/1}</li>
%% </ul>
%% If `N' is 0, the call returns `Acc' at once. If `N' is negative, it goes on until `Fun' raises an
%% exception or the caller is killed. Meanwhile the node measures the times of its schedulers; it
%% stops afterwards, also after an exception, unless another process has requested them. Raises
%% `timeout_value' if `Ms' is not a timeout.
%%
%% ```
%% 1> sonde:node_stats(3, 1000, fun({A, _}, Most) ->
%%        max(proplists:get_value(run_queue, A), Most) end, 0).
%% 2
%% '''
-spec node_stats(N :: integer(), Ms :: timeout(), fun((node_stats(), Acc) -> Acc), Acc) -> Acc.
node_stats(N, Ms, Fun, Acc) ->
    sonde_node:stats(N, Ms, Fun, Acc).

%% @doc Prints the samples of {@link node_stats/4}.
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

%% @doc Returns the samples of {@link node_stats/4} as a list, the oldest first.
%%
%% ```
%% 1> [{_Absolutes, Increments}] = sonde:node_stats_list(1, 1000).
%% '''
-spec node_stats_list(N :: non_neg_integer(), Ms :: timeout()) -> [node_stats()].
node_stats_list(N, Ms) ->
    lists:reverse(node_stats(N, Ms, fun(Stats, Seen) -> [Stats | Seen] end, [])).

%% @doc Returns the part of the next `Ms' milliseconds during which each scheduler works, from 0.0
%% to 1.0, by its number: first the normal schedulers, then the dirty CPU schedulers. This is the
%% load of the node, not of the machine: a scheduler that spins while it waits is busy for the
%% operating system but not here. No measurement stays switched on.
%%
%% Raises `function_clause' if `Ms' is not an integer, `timeout_value' if it is negative.
%%
%% ```
%% 1> sonde:scheduler_usage(1000).
%% [{1,0.083},{2,2.6e-4},{3,0.0},{4,0.0}]
%% '''
-spec scheduler_usage(Ms :: non_neg_integer()) -> sonde_lib:scheduler_usage() | undefined.
scheduler_usage(Ms) when is_integer(Ms) ->
    sonde_node:scheduler_usage(Ms).

%% @doc Returns the source text of a module, rebuilt from its debug information: an `iolist', laid
%% out by `erl_prettypr' if the application syntax_tools is available, otherwise by `erl_pp'. Raises
%% `{badmatch, _}' if there is no beam file or it has no debug information.
%%
%% ```
%% 1> io:put_chars(sonde:source(lists)).
%% '''
-spec source(module()) -> iolist().
source(Module) ->
    sonde_node:source(Module).

%% ---- other nodes

%% @equiv remote_load(nodes(), Modules)
-spec remote_load(module() | [module()]) -> term().
remote_load(Modules) ->
    sonde_loader:load(nodes(), Modules).

%% @doc Loads modules of this node onto other nodes, where they need not be on the code path.
%%
%% `remote_load(Nodes, sonde)' loads all of sonde, with its shared object, and returns a result for
%% each node:
%% <ul>
%% <li>`{Node, {ok, Status}}': sonde was loaded; `Status' is {@link native/0} of that node</li>
%% <li>`{Node, {already, Status}}': the node had this build of sonde; nothing changed</li>
%% <li>`{Node, {error, {other_build, Status}}}': the node has another build; nothing changed</li>
%% <li>`{Node, {error, Reason}}': the node was not reached, or could not load it (modules of a newer
%%     Erlang/OTP are `{not_loaded, _}' on an older one); what had been loaded was removed</li>
%% </ul>
%% A node with another operating system or processor gets only the modules and uses the portable
%% path. The shared object goes into a new folder below `TMPDIR' (or `/tmp') of the node; only the
%% user of the node can enter this folder, and it is removed as soon as the object is loaded. The
%% object stays loaded until the node ends. Raises `no_object_code' if the modules of this node are
%% not files.
%%
%% `remote_load(Nodes, Module)' is `rpc:multicall(Nodes, code, load_binary, _)': it returns
%% `{Results, BadNodes}', and for a list of modules a list of these. It replaces a module of the
%% same name on the node. Modules of `compat/recon' load sonde too. Raises `badarg' if there is no
%% node, `{badmatch, error}' if there is no such module.
%%
%% ```
%% 1> sonde:remote_load(['rabbit@host'], sonde).
%% [{rabbit@host,{ok,#{status => active,otp => "25",...}}}]
%% 2> erpc:call('rabbit@host', sonde, proc_count, [memory, 3]).
%% '''
-spec remote_load(node() | [node()], module() | [module()]) -> [node_result()] | term().
remote_load(Nodes, Modules) ->
    sonde_loader:load(Nodes, Modules).

%% @equiv rpc([node() | nodes()], Fun)
-spec rpc(fun(() -> term())) -> {[term()], BadNodes :: [node()]}.
rpc(Fun) ->
    rpc([node() | nodes()], Fun).

%% @equiv rpc(Nodes, Fun, infinity)
-spec rpc(node() | [node(), ...], fun(() -> term())) -> {[term()], BadNodes :: [node()]}.
rpc(Nodes, Fun) ->
    rpc(Nodes, Fun, infinity).

%% @doc Calls `Fun()' on all the nodes at the same time. Returns the results, in the order of the
%% nodes, and the nodes that were not reached or did not answer within `Timeout' milliseconds. An
%% error or an exit is `{badrpc, {'EXIT', Reason}}', a throw is the thrown value.
%%
%% The call sends the fun itself: the node must have the module that made it, in the same version.
%% This always holds for funs typed in a shell; `fun Module:Function/0' needs a module of that name.
%% The nodes do not need sonde.
%%
%% Raises `function_clause' if there is no node or `Fun' is not a fun without arguments, `badarg'
%% for an invalid node or timeout.
%%
%% ```
%% 1> sonde:rpc([a@host, b@host], fun() -> length(processes()) end, 1000).
%% {[44,51],[]}
%% '''
-spec rpc(node() | [node(), ...], fun(() -> term()), timeout()) ->
    {[term()], BadNodes :: [node()]}.
rpc(Nodes = [_ | _], Fun, Timeout) when is_function(Fun, 0) ->
    sonde_cluster:rpc(Nodes, Fun, Timeout);
rpc(Node, Fun, Timeout) when is_atom(Node), is_function(Fun, 0) ->
    sonde_cluster:rpc([Node], Fun, Timeout).

%% @equiv named_rpc([node() | nodes()], Fun)
-spec named_rpc(fun(() -> term())) -> {[term()], BadNodes :: [node()]}.
named_rpc(Fun) ->
    named_rpc([node() | nodes()], Fun).

%% @equiv named_rpc(Nodes, Fun, infinity)
-spec named_rpc(node() | [node(), ...], fun(() -> term())) -> {[term()], BadNodes :: [node()]}.
named_rpc(Nodes, Fun) ->
    named_rpc(Nodes, Fun, infinity).

%% @doc Works like {@link rpc/3}, and returns each result with its node: `{Node, Result}'.
%% Exceptions come without the node, as in {@link rpc/3}.
%%
%% ```
%% 1> sonde:named_rpc([a@host, b@host], fun() -> length(processes()) end, 1000).
%% {[{a@host,44},{b@host,51}],[]}
%% '''
-spec named_rpc(node() | [node(), ...], fun(() -> term()), timeout()) ->
    {[term()], BadNodes :: [node()]}.
named_rpc(Nodes = [_ | _], Fun, Timeout) when is_function(Fun, 0) ->
    sonde_cluster:named_rpc(Nodes, Fun, Timeout);
named_rpc(Node, Fun, Timeout) when is_atom(Node), is_function(Fun, 0) ->
    sonde_cluster:named_rpc([Node], Fun, Timeout).

%% @doc Runs one of the calls above on many nodes at the same time and merges their rows: `#{rows =>
%% [{Node, Row}], failed => [{Node, Reason}]}'. The rows are in the order of the call, so the
%% largest come first, whichever node they are from; there are up to `N' of each node. The processes
%% that run the call on the nodes have no row. `Function' is the name of a call of this module that
%% returns rows: `proc_count' (with one attribute), `proc_window', `proc_group', `bin_leak',
%% `bin_garbage', `bin_waste', `bin_owned', `bin_holders', `bin_resources', `bin_window',
%% `port_count', `port_types', `ets_count', `inet_count', `inet_window', `sockets', `waits', `stacks'.
%%
%% Options: `nodes' (default: this node and all connected nodes), `timeout' (10000 ms) for all of
%% them together. The nodes must have sonde: `Reason' is `undef' if a node does not, or
%% `noconnection', `timeout', or what the call raised there. Raises `badarg' for a call that is not
%% in this list.
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

%% @equiv print(Result, #{})
-spec print(term()) -> ok.
print(Result) ->
    print(Result, #{}).

%% @doc Prints a result of sonde, or of the same shape as one of recon, as an aligned table with
%% readable units; prints any other term like `~p'. Rows alone do not contain the unit of their
%% value. The rows of a list of attributes do, so there bytes and words have units. In up to 1000
%% rows of processes of this node, the initial call is the first function of a `proc_lib' process,
%% such as `dets:init/2', where the rows contain `proc_lib:init_p/5' as those of recon do. Returns
%% `ok'.
%%
%% Options:
%% <ul>
%% <li>`color => auto | always | never' (default `auto': colour if the device is a terminal, `TERM'
%%     is not `dumb', and `NO_COLOR' is not set)</li>
%% <li>`width => Columns' (default: that of the device, or 80). No line is longer</li>
%% <li>`device': where to print (default: the device of the shell)</li>
%% </ul>
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

%% @doc Shows the node live in the terminal of the shell, until you type `q': a header (schedulers,
%% run queue, rates, limits, memory by kind with its last samples), and a page. The first page lists
%% the processes, sorted by any attribute that is read natively, by its growth in one interval, by
%% garbage, by waste, or by exclusive binaries. The other pages show one process (what is on its
%% heap, the largest objects there, its binaries and their other holders; its links and monitors, stack,
%% mailbox, and the processes below it), applications, ports and sockets, tables, Mnesia where it runs,
%% waits, binaries, allocators, the system. A number leads to what is behind a row, `/text' keeps the rows
%% with that text. The screen shows the keys, `h' shows all of them; `q' quits from every page. The
%% caller has no row. Owners of tables and holders of binaries appear by their registered names if
%% they have one. Returns `ok'.
%%
%% Each interval costs one sweep over the processes, on the native path whatever their number;
%% sorted by growth, two. Only the processes that are shown are asked for anything, those of a tree, and
%% by a search the first 1,000. Expensive data, such as the heap of a process, the totals of applications or the
%% account of the binaries, is read once, and again when you type `a'. Meanwhile the node measures the times of its schedulers.
%%
%% In a shell, keys are read as lines: each ends with Enter, and the prompt shows that. If no shell
%% has the terminal (`erl -noshell'), and on OTP 28 or later, single keys are read. On a terminal
%% without escape sequences (`TERM=dumb'), or where output is not possible while input is read (a
%% node without a shell before OTP 26), the output is plain lines, and each Enter prints the next
%% sample.
%%
%% Options:
%% <ul>
%% <li>`node' (this node): the node to look at; it must have sonde ({@link remote_load/2}). Only the
%%     rows that are shown come from there</li>
%% <li>`interval' (1000): milliseconds from one sample to the next, at least 1000. After a sample
%%     the pause is at least as long as the sample took</li>
%% <li>`sort' (`memory'): an attribute, or `{growth, Attr}' of an attribute that is read
%%     natively</li>
%% <li>`pages' (those in the environment of the application sonde, `top_pages', on that node): pages of your own, up
%%     to ten, each a key, a title and a module, such as `{$O, "pools", my_pools}' ({@link sonde_top_page})</li>
%% <li>`rows': the largest number of rows on a page; `width', `height': used instead of those of the
%%     terminal</li>
%% </ul>
%% Returns `{error, {Node, Why}}' if the node was not reached (`noconnection') or does not have
%% sonde (`no_sonde').
%%
%% ```
%% 1> sonde:top(#{sort => {growth, memory}}).
%% ok
%% '''
-spec top(sonde_top:opts()) -> ok | sonde_top:error().
top(Opts) ->
    sonde_top:top(Opts).

%% ---- the native path

%% @doc Returns whether and how sonde reads the node's memory itself, and if not, why not. The first
%% call on a node proves the memory layout against `process_info/2', in a fraction of a second.
%%
%% A proof has one of three outcomes. Proved: the status is `active'. Refuted, by a check that
%% failed on three fresh sets of probes: `{off, {check, Check}}', until `native(on)' tries it again.
%% Disturbed: `{off, {probes_busy, Tries}}' (probes did not stay idle, or were killed), `{off,
%% {disturbed, prover_died}}', `{off, {disturbed, prover_late}}' (not done in 30 s) or `{off,
%% {not_loaded, Text}}' (a module or the library); this call tries again at once, other calls less
%% and less often. Two more states: `{off, disabled}' means that the native path was switched off,
%% and `{off, {unsupported, no_reader}}' that memory cannot be read here now. No call waits for a
%% proof for more than 32 s; without a proof the portable path answers.
%%
%% `status' is `active' or `{off, Reason}'; `layout' is the layout table in use, `reader' how memory
%% is read, `checks' what was proved, `counters' how many processes were read (`native'), read again
%% because they ran (`busy') or changed (`torn'), and asked by `process_info/2' (`asked'). No value
%% is an address.
%%
%% ```
%% 1> maps:get(status, sonde:native()).
%% active
%% '''
-spec native() -> status().
native() ->
    sonde_vm:native().

%% @doc Switches the native path off, or on again, for all callers on the node, and returns the new
%% status. A proof stays valid; `on' runs it again if there is none. Raises `badarg' for anything
%% but `on' and `off'.
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

%% recon counts N down to 0, so an N that never reaches 0 means all.
amount(N) when is_integer(N), N >= 0 -> N;
amount(N) when is_number(N) -> erlang:system_info(process_limit);
amount(_) -> error(badarith).

%% Their values.
check_attrs(Attrs) ->
    true = length(Attrs) >= 0,
    [sonde_attr:check(Attr) || Attr <- Attrs].

%% proc_count also takes attributes that need a walk over the heap.
check_counted(Attrs) when is_list(Attrs) ->
    true = length(Attrs) >= 0,
    _ = check_attrs([Attr || Attr <- Attrs, not sonde_attr:is_heap(Attr)]),
    ok;
check_counted(Attr) ->
    check_counted([Attr]).

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
                            threads => sonde_threads:option(),
                            in_flight => {100, fun(I) -> sonde_opts:is_positive(I)
                                                             andalso I =< 10000 end}}).
