%% @doc Looks inside a running node without stopping it. Nothing has to be started: load the
%% application, or bring it with {@link remote_load/2}, and call.
%%
%% <h4>What do you want to know?</h4>
%% <ul>
%% <li>Which processes have most memory, messages, binaries, links, monitors?
%%     {@link proc_count/2}</li>
%% <li>Which of them grow, or work, just now? {@link proc_window/3}</li>
%% <li>Which kind of processes, or which application, has it all? {@link proc_group/2}</li>
%% <li>Which processes keep binaries that they do not need any more? {@link bin_leak/1}, and with
%%     the node's memory before and after {@link bin_leak/2}</li>
%% <li>How do I look into a node that does not have sonde? {@link remote_load/2}</li>
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
%% </ul>
%% `memory' and `binary_memory' are bytes; `heap_size', `total_heap_size' and `stack_size' are
%% words.
%%
%% <h4>What it costs the node</h4>
%% `memory', `total_heap_size', `heap_size', `stack_size', `message_queue_len', `reductions' and the
%% attributes above are read natively: no message goes to any process but the winners, and to the
%% few that changed too fast to be read. All other items, and all of them where {@link native/0}
%% says that the native side is off, are asked of each process by `process_info/2'; the results are
%% the same. No call that is documented here answers `{native_off, _}'.
%%
%% Results are plain terms: rows `{What, Value, Attrs}', largest first. Arguments that make no sense
%% raise `badarg', or what recon 2.5 raises where the call is one of its own.
-module(sonde).

-export([proc_count/2, proc_count/3,
         proc_window/3, proc_window/4,
         proc_group/2, proc_group/3,
         bin_leak/1, bin_leak/2,
         remote_load/1, remote_load/2,
         native/0, native/1]).

-export_type([attr/0, attrs/0, row/0, count_opts/0, window_opts/0, by/0, group/0, group_opts/0,
              leak_opts/0, leak_report/0,
              bytes/0, node_result/0, status/0]).

-type attr() :: sonde_attr:attr().
%% An item of `process_info/2', or one of ours: `binary_memory', `binary_count', `link_count',
%% `monitor_count', `monitored_by_count', `dictionary_size'.
-type attrs() :: sonde_attr:attrs().
%% The registered name, if there is one, `{current_function, _}', `{initial_call, _}'.
-type row() :: {pid(), Value :: term(), attrs()}.
-type count_opts() :: #{self => boolean()}.
-type window_opts() :: #{self => boolean(), max_entries => pos_integer()}.
-type by() :: sonde_group:by().
-type group() :: sonde_group:group().
-type group_opts() :: #{self => boolean(), max_groups => pos_integer()}.
-type leak_opts() :: #{collect => holders | all, deadline => Ms :: non_neg_integer(),
                       in_flight => 1..10000}.
-type leak_report() :: sonde_bin:report().
-type bytes() :: non_neg_integer().
-type node_result() :: sonde_load:node_result().
-type status() :: sonde_vm:status().

-define(MAX_ENTRIES, 134217727).
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
    ok = check_attrs(Attr),
    count(Attr, amount(N), false).

%% @doc As {@link proc_count/2}, with options. `self => true': the caller has a row too, if its
%% value is among the largest (default `false').
%%
%% `N' must be a non-negative integer. That, an unknown option, or a bad value of one, is `badarg'.
%%
%% ```
%% 1> [{P, _, _}] = sonde:proc_count(memory, 1, #{self => true}).
%% '''
-spec proc_count(attr(), N :: non_neg_integer(), count_opts()) -> [row()];
                ([attr()], N :: non_neg_integer(), count_opts()) -> [{attr(), [row()]}].
proc_count(Attr, N, Opts) ->
    is_amount(N) orelse error(badarg),
    #{self := Self} = sonde_opts:read(Opts, #{self => {false, fun is_boolean/1}}),
    ok = check_attrs(Attr),
    count(Attr, N, Self).

count(Attrs, N, Self) when is_list(Attrs) -> sonde_procs:counts(Attrs, N, Self);
count(Attr, N, Self) -> sonde_procs:count(Attr, N, Self).

%% @doc The `N' processes whose `Attr' grew most in the next `Ms' milliseconds; rows as those of
%% {@link proc_count/2}, with the growth as the value. Who was born in the window has its full
%% value, who died in it the value of its beginning. For the dead, `Attrs' is what was known before
%% they died: of those that had most at the beginning it was asked, for others it is `[]'.
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
    sonde_procs:window(Attr, amount(N), Ms, #{self => false, max_entries => ?MAX_ENTRIES}).

%% @doc As {@link proc_window/3}, with options: `self => true' gives the caller a row too (default
%% `false'); `max_entries' is how many processes may be remembered, 16 bytes each (default
%% 134217727, the most that a node can have); more are `system_limit'.
%%
%% `N' must be a non-negative integer. That, an unknown option, or a bad value of one, is `badarg'.
%%
%% ```
%% 1> sonde:proc_window(memory, 3, 1000, #{self => true}).
%% '''
-spec proc_window(attr(), N :: non_neg_integer(), Ms :: timeout(), window_opts()) -> [row()].
proc_window(Attr, N, Ms, Opts) ->
    is_amount(N) orelse error(badarg),
    Read = sonde_opts:read(Opts, #{self => {false, fun is_boolean/1},
                                   max_entries => {?MAX_ENTRIES, fun is_entries/1}}),
    ok = check_window(Attr, Ms),
    sonde_procs:window(Attr, N, Ms, Read).

%% @doc As {@link proc_group/3}, with its defaults.
%%
%% ```
%% 1> sonde:proc_group(application, [memory]).
%% [{kernel,31,[{memory,1270432}]},{undefined,10,[{memory,449784}]},
%%  {stdlib,2,[{memory,9696}]}]
%% '''
-spec proc_group(by(), [attr()]) -> [group()].
proc_group(By, Attrs) ->
    proc_group(By, Attrs, #{}).

%% @doc Totals over groups of processes: `[{Key, Processes, [{Attr, Total}]}]', largest first by the
%% first attribute, then by the number of processes; the totals in the order asked. `Key' is, by
%% <ul>
%% <li>`initial_call': what `proc_lib:translate_initial_call/1' gives (the callback module of a
%%     `gen_server'), or the call that a process without `proc_lib' began with</li>
%% <li>`current_function': what it runs now, or waits in</li>
%% <li>`registered_name': its name, `undefined' for all that have none</li>
%% <li>`application': whose group leader it has, `undefined' for those of none</li>
%% <li>`label': what `proc_lib:set_label/1' gave it, `undefined' without; before OTP 27, `badarg'</li>
%% </ul>
%% Values are those of {@link proc_count/2}, in their units. A binary that is shared counts for each
%% process that refers to it.
%%
%% Options: `self => true': the caller counts too (default `false'); `max_groups' is how many groups
%% there may be (default 100000); more are `system_limit'.
%%
%% <strong>What it costs</strong>: attributes that can be read are read natively; for its key each process
%% is asked once, by `process_info/2', which for `registered_name' and `application' sends no message
%% to a process that waits. On OTP 25 `initial_call' copies the process dictionaries, one at a time.
%%
%% Raises `badarg' for what is not an attribute or a key, `badarith' for an attribute that is no
%% number; at once.
%%
%% ```
%% 1> sonde:proc_group(initial_call, [memory, message_queue_len], #{self => true}).
%% '''
-spec proc_group(by(), [attr()], group_opts()) -> [group()].
proc_group(By, Attrs, Opts) ->
    #{self := Self, max_groups := Max} =
        sonde_opts:read(Opts, #{self => {false, fun is_boolean/1},
                                max_groups => {100000, fun is_entries/1}}),
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
    sonde_bin:rows(amount(N), leak_opts(#{})).

%% @doc As {@link bin_leak/1}, and tells what the collection did for the node:
%% <ul>
%% <li>`rows': those of {@link bin_leak/1}</li>
%% <li>`collected': processes that did a full collection; `skipped': those that did not answer in
%%     time, and have no row; `left': those not collected because nothing could change</li>
%% <li>`total', `binary': `{Before, After}' of `erlang:memory(total)' and `erlang:memory(binary)',
%%     bytes of the node (`undefined' where the node's allocators keep no figures)</li>
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
    is_amount(N) orelse error(badarg),
    sonde_bin:report(N, leak_opts(Opts)).

%% ---- other nodes

%% @doc As {@link remote_load/2}, to all connected nodes.
%%
%% ```
%% 1> sonde:remote_load(sonde).
%% '''
-spec remote_load(module() | [module()]) -> term().
remote_load(Modules) ->
    sonde_load:load(nodes(), Modules).

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
%% name. Raises `badarg' if there is no node, `{badmatch, error}' if there is no such module.
%%
%% ```
%% 1> sonde:remote_load(['rabbit@host'], sonde).
%% [{rabbit@host,{ok,#{status => active,otp => 25,...}}}]
%% 2> erpc:call('rabbit@host', sonde, proc_count, [memory, 3]).
%% '''
-spec remote_load(node() | [node()], module() | [module()]) -> [node_result()] | term().
remote_load(Nodes, Modules) ->
    sonde_load:load(Nodes, Modules).

%% ---- the native side

%% @doc Whether sonde reads the node's memory itself, how, and if not, why not. The first call on a
%% node proves the layout of the memory against `process_info/2', in a fraction of a second.
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
%% status. Anything else than `on' and `off' is `badarg'.
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

is_key(label) ->
    {module, proc_lib} = code:ensure_loaded(proc_lib),
    erlang:function_exported(proc_lib, get_label, 1);
is_key(By) ->
    lists:member(By, [initial_call, current_function, registered_name, application]).

is_amount(N) ->
    is_integer(N) andalso N >= 0.

is_entries(Max) ->
    is_integer(Max) andalso Max > 0.

check_window(Attr, Ms) ->
    Value = sonde_attr:check(Attr),
    Ms =:= infinity orelse is_amount(Ms) orelse error(timeout_value),
    is_number(Value) orelse error(badarith),
    ok.

leak_opts(Opts) ->
    sonde_opts:read(Opts, #{collect => {holders, fun(C) -> C =:= holders orelse C =:= all end},
                            deadline => {5000, fun(D) -> is_amount(D) andalso D =< ?MAX_MS end},
                            in_flight => {100, fun(I) -> is_entries(I) andalso I =< 10000 end}}).
