%% @private
%% A diagnosis as text: the node in a few lines, then the suspects, each with its evidence, what to
%% do, and the call that shows more.
-module(sonde_diagnose_text).

-export([lines/3, outside/3, told/2, not_looked_at/1, remedy/1]).

-define(UNICODE, false).
-define(NAMED, 2).            % pids that fit in a line

-type mfargs() :: {module(), atom(), [term()]}.

%% @doc `Shell': how calls are to be typed.
-spec lines(sonde_diagnose:diagnosis(), pos_integer(), sonde_names:shell()) ->
          [unicode:chardata()].
lines(#{suspects := Suspects, not_looked_at := Not} = Diagnosis, Width, Shell) ->
    All = [head(Diagnosis), "" | memory(Diagnosis)] ++ counts(Diagnosis)
        ++ ["", found(Suspects)]
        ++ lists:append([["" | suspect(I, S, Width, Shell)]
                         || {I, S} <- lists:zip(lists:seq(1, length(Suspects)), Suspects)])
        ++ unseen(Not),
    [sonde_grid:fit(Line, #{width => Width, unicode => ?UNICODE}) || Line <- All].

head(#{node := Node, at := At, growth := #{ms := Ms}}) ->
    [atom_to_list(Node), "  ", calendar:system_time_to_rfc3339(At div 1000), "  watched for ",
     io_lib:format("~.1f s", [Ms / 1000])].

%% ---- the node

memory(#{memory := Memory, growth := #{ms := Ms, memory := Grown}}) ->
    #{allocated := Allocated, used := Used, rss := Rss, by_allocator := By} = Memory,
    [row("memory", "now", "growth per second")]
        ++ [row(atom_to_list(K), bytes(maps:get(K, Memory)), per_second(maps:get(K, Grown), Ms))
            || K <- [total, processes, binary, ets, code, atom],
               is_integer(maps:get(K, Memory))]
        ++ [row("allocated", bytes(Allocated), [bytes(Used), " of it in use"])]
        ++ [row("mapped", bytes(Mapped), [bytes(Kept), " of it kept for later use"])
            || #{mapped := Mapped, kept := Kept} <- [Memory], Kept > 0]
        ++ [row("resident", bytes(Rss), "reported by the operating system") || is_integer(Rss)]
        ++ [["in ", lists:join(", ", [[atom_to_list(A), $\s, bytes(B)]
                                      || {A, B} <- largest(By, 3)])]].

row(Name, Now, Grown) ->
    [string:pad(Name, 12), string:pad(unicode:characters_to_list(Now), 12, leading), "  ", Grown].

per_second(Bytes, Ms) ->
    case Bytes * 1000 div max(1, Ms) of
        0 -> "";
        N when N > 0 -> [$+ | bytes(N)];
        N -> bytes(N)
    end.

largest(By, N) ->
    lists:sublist(lists:reverse(lists:keysort(2, By)), N).

counts(#{counts := Counts, growth := Growth}) ->
    ["" | [row(atom_to_list(K), count(N), [changed(maps:get(K, Growth)), "of ", count(Limit)])
           || K <- [processes, ports, atoms, tables], #{K := {N, Limit}} <- [Counts]]].

changed(0) -> "";
changed(N) when N > 0 -> [$+, count(N), "  "];
changed(N) -> [count(N), "  "].

%% ---- suspects

found([]) -> "No suspects.";
found([_]) -> "One suspect:";
found(Suspects) -> [integer_to_list(length(Suspects)), " suspects, the worst first:"].

none_among(0) -> "No process was read in full, so no suspects are known.";
none_among(N) -> ["No suspects among the ", count(N), case N of 1 -> " process that was"; _ -> " processes that were" end,
                  " read in full."].

%% @doc What is known of a node from outside; `Typed' writes the call that shows more.
-spec outside(sonde_outside_diagnose:diagnosis(), pos_integer(), fun((mfargs()) -> unicode:chardata())) ->
          [unicode:chardata()].
outside(#{at := At, ms := Ms, memory := #{processes := Bytes}, counts := #{processes := {Count, Limit}}, read := Read,
          suspects := Suspects, largest := Largest, not_looked_at := Not}, Width, Typed) ->
    All = [["from outside  ", calendar:system_time_to_rfc3339(At div 1000), "  ", how_long(Ms)], "",
           row("processes", bytes(Bytes), [count(Count), " of ", count(Limit)]), "",
           case Suspects =:= [] andalso Read < Count of
               true -> none_among(Read);
               false -> found(Suspects)
           end]
        ++ lists:append([["" | suspect(I, S, Width, Typed)] || {I, S} <- lists:enumerate(Suspects)])
        ++ large([{Attr, Row} || Attr <- [memory, binary_memory], Row <- map_get(Attr, Largest)]) ++ unseen(Not),
    [case Line of
         {whole, Command} -> Command;
         _ -> sonde_grid:fit(Line, #{width => Width, unicode => ?UNICODE})
     end || Line <- All].

large([]) ->
    [];
large(Rows) ->
    ["", "Largest, which may be as it should be:"]
        ++ [["  ", string:pad(words_of(Attr), 15), string:pad(bytes(Bytes), 9, leading), "  ",
             [[string:pad([grown(Key, Grown), bytes(Grown)], 13), "  "] || {Key, Grown} <- Attrs, Key =:= grown orelse Key =:= grown_over],
             short(Pid), [[$\s, name(Name)] || Name <- Attrs, not is_tuple(Name), Name =/= not_known],
             [[" in ", sonde_names:call(Call, true)] || {current_function, {_, _, _} = Call} <- Attrs]]
            || {Attr, {Pid, Bytes, Attrs}} <- Rows].

grown(grown_over, _) -> "over +";
grown(grown, Bytes) -> [$+ || Bytes > 0].

how_long(0) -> "at one moment";
how_long(Ms) -> ["at two moments, ", io_lib:format("~.1f s apart", [Ms / 1000])].

%% One sentence, what it rests on, what to do, and where to look next.
suspect(I, Suspect, Width, Shell) ->
    #{finding := Finding, evidence := Evidence, remedy := Remedy, see := See} = told(Suspect, Shell),
    sentence(io_lib:format("~2b. ", [I]), [Finding], Width) ++ aligned(Evidence, Width)
        ++ sentence("    ", [Remedy], Width) ++ call(["    ", See], Width, Shell).

%% What does not fit on a line goes on below: both shells read on until the call is complete. A command stays on its line.
call(Typed, _, Command) when is_function(Command) -> [{whole, Typed}];
call(Typed, Width, _) ->
    case string:length(Typed) > Width of
        true -> sentence("    ", Typed, Width);
        false -> [Typed]
    end.

%% @doc A suspect in words.
-spec told(sonde_judge:suspect() | sonde_outside_diagnose:suspect(),
           sonde_names:shell() | fun((mfargs()) -> unicode:chardata())) ->
          #{finding | remedy | see := unicode:chardata(),
            evidence := [{unicode:chardata(), unicode:chardata()}]}.
told(#{evidence := Evidence, see := See, remedy := Remedy} = Suspect, Shell) ->
    #{finding => finding(Suspect), evidence => [pair(E) || E <- Evidence, element(2, E) =/= undefined],
      remedy => [remedy(Remedy), frees(Suspect)],
      see => case Shell of
                 _ when is_atom(Shell) -> sonde_names:typed(See, Shell);
                 Typed -> Typed(See)
             end}.

%% Words, as many on a line as fit. The lines after the first are indented as it is.
sentence(Before, Text, Width) ->
    Indent = lists:duplicate(string:length(Before), $\s),
    [First | Rest] = sonde_grid:fill(string:lexemes(unicode:characters_to_list(Text), " "), " ",
                                     Width - length(Indent)),
    [[Before, First] | [[Indent, Line] || Line <- Rest]].

%% Keys on the left, values on the right; a value without room goes on below itself.
aligned([], _) -> [];
aligned(Pairs, Width) ->
    Longest = lists:max([string:length(Key) || {Key, _} <- Pairs]),
    lists:append([sentence(["      ", string:pad(Key, Longest), "  "], [Value], Width)
                  || {Key, Value} <- Pairs]).

finding(#{kind := bottleneck, evidence := Evidence} = Suspect) ->
    [count(proplists:get_value(waiters, Evidence)), " processes wait for ", what(Suspect),
     [[", which waits for ", short(For)] || {waits_for, For} <- Evidence, For =/= undefined],
     ". Their requests lie unread."];
finding(#{kind := Kind, evidence := Evidence} = Suspect) when Kind =:= run_queue; Kind =:= suspended ->
    N = proplists:get_value(processes, Evidence),
    [count(N), $\s, what(N, Suspect),
     case {Kind, N} of
         {run_queue, 1} -> " waits for a scheduler.";
         {run_queue, _} -> " wait for a scheduler.";
         {suspended, 1} -> " is suspended.";
         {suspended, _} -> " are suspended."
     end];
finding(#{kind := monitors, evidence := Evidence} = Suspect) ->
    [Of, By] = [proplists:get_value(Key, Evidence) || Key <- [monitors, monitored_by]],
    [capital(what(Suspect)), if
                                 Of >= By -> " has many monitors of the same process";
                                 true -> " is monitored many times by the same process of another node"
                             end, how_much(Suspect), $.];
finding(#{kind := processes, what := {processes, _}} = Suspect) ->
    ["There are more and more ", what(Suspect), how_much(Suspect), $.];
finding(#{kind := heart, what := Pid, evidence := Evidence} = Suspect) ->
    case lists:keyfind(heart, 1, Evidence) of
        {heart, _} -> [capital(what(Suspect)), " does not answer heart."];
        false -> ["The callback of ", short(Pid), " heart does not return."]
    end;
finding(#{kind := Kind} = Suspect) ->
    [capital(what(Suspect)), $\s, said(Suspect, kind(Kind)), how_much(Suspect), $.].

%% Of a group, in the plural.
said(#{what := {processes, _}}, "has " ++ What) -> "have " ++ What;
said(_, What) -> What.

capital(Text) ->
    string:titlecase(unicode:characters_to_list(Text)).

%% Where a limit is near, that is what counts, not the memory.
how_much(#{kind := processes, what := {processes, _}, bytes := Bytes} = Suspect) ->
    [": ", about(Suspect), bytes(Bytes), " in all"];
how_much(#{kind := Kind, evidence := Evidence})
  when Kind =:= processes; Kind =:= ports; Kind =:= atoms; Kind =:= ets_tables ->
    [": ", share(proplists:get_value(count, Evidence) / proplists:get_value(limit, Evidence)), " of the limit"];
how_much(#{kind := max_heap, bytes := Bytes, share := Share}) ->
    [": ", bytes(Bytes), ", ", share(Share), " of it"];
how_much(#{bytes := 0}) ->
    "";
how_much(#{bytes := Bytes, share := Share} = Suspect) ->
    [": ", about(Suspect), bytes(Bytes), ", ", share(Share), " of the memory"].

about(#{evidence := Evidence}) ->
    ["about " || {estimated_from, _} <- Evidence].

what(1, #{what := {processes, {_, _, _} = Call}}) -> ["process of ", sonde_names:call(Call, true)];
what(_, Suspect) -> what(Suspect).

what(#{what := {ets, _}, evidence := Evidence}) ->
    io_lib:format("table ~ts", [short(proplists:get_value(name, Evidence))]);
what(#{what := {processes, {_, _, _} = Call}}) ->
    ["processes of ", sonde_names:call(Call, true)];
what(#{what := node}) ->
    "the node";
what(#{what := Pid, evidence := Evidence}) ->
    case lists:keyfind(registered_name, 1, Evidence) of
        {_, Name} -> [short(Pid), $\s, name(Name)];
        false -> short(Pid)
    end.

frees(#{frees := Bytes} = Suspect) -> [" This frees ", about(Suspect), bytes(Bytes), $.];
frees(_) -> "".

pair({registered_name, Name}) -> {"registered", name(Name)};
pair({port_name, Name}) -> {"port name", io_lib:format("~0tp", [binary_to_list(Name)])};
pair({deadlock, Pids}) -> {"waits in turn", lists:join(" > ", [short(P) || P <- Pids])};
pair({oldest_stayed_ms, Ms}) -> {"oldest stayed", io_lib:format("~.1f s", [Ms / 1000])};
pair({some, Pids}) -> {"some of them", lists:join(" ", [short(P) || P <- Pids])};
pair({estimated_from, N}) -> {"estimated from", ["a sample of ", count(N), " processes of the node"]};
pair({most, Of}) -> {"most", lists:join(" ", [[short(P), " (", count(N), $)] || {P, N} <- Of])};
pair({full_sockets, Full}) ->
    {"full sockets", lists:join(", ", [["to ", Address, " (", bytes(N), " wait)"] || {Address, N} <- Full])};
pair({Key, {M, F, A} = Call}) when is_atom(M) orelse is_binary(M), is_atom(F) orelse is_binary(F), is_integer(A) ->
    {words_of(Key), sonde_names:call(Call, true)};
pair({Key, Value}) ->
    {words_of(Key), value(Key, Value)}.

value(Key, Value) when is_integer(Value) ->
    case lists:member(Key, [garbage, binaries, seen, pinned, stack, bytes_grown, bytes_per_second,
                            allocated, used, mapped, carriers, resident, queued, taken, heap, heap_limit,
                            process_table, port_table]) of
        true -> bytes(Value);
        false -> count(Value)
    end;
value(_, Value) ->
    short(Value).

%% From outside, a name without an atom here is a text.
name(Name) when is_binary(Name) -> sonde_names:atom(Name, true);
name(Name) -> short(Name).

words_of(Key) -> string:replace(atom_to_list(Key), "_", " ", all).

short(Term) -> sonde_names:readable(io_lib:format("~0tP", [Term, 12])).

bytes(N) -> sonde_units:text(memory, N, ?UNICODE).
count(N) -> sonde_units:text(count, N, ?UNICODE).
share(Share) -> sonde_units:text(usage, min(1.0, Share), ?UNICODE).

%% What is said of it: its first word fits what is accused.
kind(garbage) -> "has garbage that no collection took";
kind(passed_on_binaries) -> "has binaries that it only passed on";
kind(pinned_slices) -> "has small parts of large binaries";
kind(mailbox) -> "has a backlog of messages";
kind(links) -> "has more and more links";
kind(stack) -> "has a deep stack";
kind(dictionary) -> "has a large process dictionary";
kind(state) -> "has a state that grows";
kind(binaries) -> "has more and more binaries";
kind(ets_table) -> "grows";
kind(ets_tables) -> "has more and more tables";
kind(processes) -> "has more and more processes";
kind(orphans) -> "are idle, without links, monitors or names";
kind(ports) -> "has more and more ports";
kind(atoms) -> "has more and more atoms";
kind(fragmentation) -> "has memory that the allocators hold but do not use";
kind(outside) -> "has memory that the VM does not count";
kind(persistent_terms) -> "has more and more persistent terms";
kind(persistent_values) -> "has larger and larger persistent terms";
kind(timers) -> "has more and more timers";
kind(log_queue) -> "leaves log events in its queue";
kind(port_queue) -> "has a port with a peer that takes too little";
kind(busy_connection) -> "has a connection to a node that takes nothing";
kind(max_heap) -> "has a heap that is near its limit";
kind(settings) -> "has a setting that costs";
kind(native_call) -> "is in a function that does not return";
kind(driver_call) -> "is in a call of its driver that does not return, or waits for its driver's lock";
kind(deadlock) -> "waits for itself, through others".

%% @doc What a remedy means, in a sentence or two.
-spec remedy(sonde_judge:remedy()) -> string().
remedy(hibernate) ->
    "Now: erlang:garbage_collect/1. For good: hibernate it when it has nothing to do.";
remedy(collect) ->
    "Now: erlang:garbage_collect/1. For good: collect after large work, or do it in short-lived"
    " processes.";
remedy(fullsweep_after) ->
    "Its minor collections leave this: set its fullsweep_after to 10.";
remedy(binary_copy) ->
    "Use binary:copy/1 on the parts that are kept.";
remedy(drop_unmatched) ->
    "It waits and seems to leave messages: look at them. If no clause takes them, add one for unexpected"
    " messages. If the process works on a request meanwhile, it is only slow.";
remedy(look_longer) ->
    "It waits, but was watched too briefly: it may be slow, or take none of the messages. Watch it for two"
    " seconds or more (interval).";
remedy(batches) ->
    "It is slower than its senders: let them wait for an answer, work in batches, or share the"
    " work out.";
remedy(resume) ->
    "It was suspended by sys:suspend/1: call sys:resume/1.";
remedy(let_run) ->
    "It is suspended: by erlang:suspend_process/1, or because a port or a node that it sends to is"
    " busy.";
remedy(cancel_timers) ->
    "Each row is a timer: cancel those that are not needed any more, by timer:cancel/1.";
remedy(demonitor) ->
    "Call demonitor(Ref, [flush]) after an answer, where the monitor was made, or monitor once and keep the"
    " reference.";
remedy(unlink) ->
    "Unlink or end the processes that are done.";
remedy(tail_call) ->
    "The recursion is not a tail call: carry the result in an argument.";
remedy(erase) ->
    "Erase keys that are not needed any more, or keep them in a table.";
remedy(bound_state) ->
    "Bound its state by size or by age, or keep it in a table that is cleaned.";
remedy(evict) ->
    "Delete old rows: by age, by size, or when their process ends.";
remedy(delete_tables) ->
    "Delete tables that are not needed any more; a table lives as long as its owner.";
remedy(end_processes) ->
    "They start faster than they end: give them a timeout, or use a pool.";
remedy(supervise) ->
    "No process would notice if they hung: link or monitor them, and give them a timeout.";
remedy(close_ports) ->
    "Close ports that are not needed any more, and set a timeout for the peer.";
remedy(list_to_existing_atom) ->
    "Atoms are never freed: use list_to_existing_atom/1, binary_to_term/2 with safe, or binaries.";
remedy(allocator_settings) ->
    "Carriers that hold a few blocks cannot be freed: see which allocator it is, and its +M flags.";
remedy(native_library) ->
    "Check native libraries and drivers: the VM does not count what they allocate by malloc.";
remedy(erase_terms) ->
    "Each key stays until it is erased: put no key that is made of data, or use a table.";
remedy(bound_values) ->
    "A value is replaced by a larger one again and again. Each time, the VM searches every process for the old"
    " value. Bound the value, or use a table.";
remedy(cancel_started) ->
    "Cancel each timer when what it waits for has come, by erlang:cancel_timer/1 or timer:cancel/1: until"
    " its time, the VM keeps it with its message.";
remedy(log_less) ->
    "While it waits, its queue grows, or processes that log wait for it; then it drops new events. See what"
    " it waits for: its device may be stuck. If it is only slow, log less, or to a faster device.";
remedy(slow_peer) ->
    "Limit what waits, by the socket's high_watermark and send_timeout; close it if the peer is"
    " gone.";
remedy(heap_limit) ->
    "A collection may soon end it: bound its state, or set a larger max_heap_size.";
remedy(unblock) ->
    "It answers one request after the other: let it hand them on, or not wait itself meanwhile.";
remedy(disconnect) ->
    "See whether that node runs and can be reached: sooner or later the VM suspends processes that send"
    " to it. erlang:disconnect_node/1 lets them go on, but in a cluster, global then disconnects other"
    " nodes, too (prevent_overlapping_partitions), and Mnesia is partitioned.";
remedy(break_circle) ->
    "Now: end one of them. For good: call in one direction only, or answer later, with"
    " gen_server:reply/2.";
remedy(native_function) ->
    "It holds a scheduler: a native function must return within a millisecond, or run on a dirty scheduler. If all"
    " schedulers are held so, the node answers nothing.";
remedy(driver) ->
    "A call of its driver holds a scheduler: it must return within a millisecond, and leave longer work to other"
    " threads (driver_async). If all schedulers are held so, the node answers nothing.";
remedy(answer_heart) ->
    "heart sends no beat meanwhile, and without one for HEART_BEAT_TIMEOUT it kills the node: its callback must not"
    " wait for what may take long.";
remedy(fewer_at_once) ->
    "They want to run all at once: let a pool of a few workers do it, and bound what may wait for it.";
remedy(generations) ->
    "Every collection copies the whole heap: remove ERL_FULLSWEEP_AFTER, or set it for single"
    " processes.";
remedy(smaller_process_table) ->
    "The VM's table has an entry for each process that the limit allows, and counts as memory of processes."
    " Start the node with a smaller +P; the default has room.";
remedy(smaller_port_table) ->
    "The VM's table has an entry for each port that the limit allows. Start the node with a smaller +Q, such"
    " as 65536. Without +Q, the VM takes the limit of open files (ulimit -n) where that is larger.".

%% ---- what is missing

unseen([]) ->
    [];
unseen(Not) ->
    ["", "Not looked at:"] ++ [["  ", What, ": ", Why] || {What, Why} <- not_looked_at(Not)].

%% @doc What a diagnosis could not look at, and why, in words.
-spec not_looked_at([{atom(), sonde_facts:because() | outside | one_moment | {no_time, pos_integer()}}]) ->
          [{unicode:chardata(), unicode:chardata()}].
not_looked_at(Not) ->
    [{words_of(What), because(Why)} || {What, Why} <- Not].

because({native_off, Why}) -> io_lib:format("the native path is off (~0tp)", [Why]);
because(no_proc) -> "the system does not report it (no /proc)";
because(not_reported) -> "the VM does not report it";
because({allocators_off, Off}) ->
    ["the VM has no totals without ", lists:join(", ", [atom_to_list(A) || A <- Off])];
because({left_out, N}) -> [count(N), " could not be read"];
because({left_out, N, Some}) ->
    ["could not read ", sonde_units:missed(N, lists:sublist(Some, ?NAMED))];
because({no_time, N}) -> ["no time was left for ", count(N), " of them (--timeout MS)"];
because(outside) -> "cannot be read from outside";
because(one_moment) -> "there is only one moment: what grows is not known";
because({sampled, N}) -> ["all but a sample of ", count(N)].
