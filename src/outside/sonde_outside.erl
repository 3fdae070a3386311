%% @private
%% Answers about another OS process that runs the same VM, from its memory alone: nothing there is asked,
%% stopped or written. Only the command uses this, in a VM of its own that runs the program of that OS
%% process (`sonde_cli_twin'); after {@link open/1} no call of sonde looks at this VM any more.
%%
%% A process that could not be read has no row, because it cannot be asked instead; the report counts it.
-module(sonde_outside).

-export([open/1, open/2, call/3, is_there/0, is_ordered/1, errors/1]).
-export([opener/3, known/1]). % initial calls
-export_type([why/0, row/0]).

-type why() :: {native_off, sonde_vm:reason()}
             | no_reader | code | atoms | identity | schedulers
             | no_code % over there
             | architecture
             | changed | no_memory | no_build_id % of a core file
             | gone | forbidden | filtered | other_program | process_table | process_limit | atoms_there | processes
             | system_limit
             | {no_process, pid()} | {no_pid, string()} | {no_name | name_not_known, string()} | timeout
             | {not_known, Item :: atom()} | {not_there, Function :: atom()} | {badarg, Function :: atom()}.
-type row() :: {pid(), integer(), [sonde_outside_names:name()
                                   | {current_function | initial_call,
                                      sonde_outside_names:function_there() | undefined | not_known}]}.

%% Longer than what an atom's text may be without a binary of its own (OTP 29).
-define(LONG, 'an atom whose text is longer than the sixty-four bytes that a small binary may have').

%% What must hold there before the first answer; open/1 names the one that does not.
-define(CHECKED, [program, process_table, process_limit, atoms, processes]).

-define(THREADS, 4).
%% As for a call on a node.
-define(CALL_MS, 60000).
-define(DEPTH, 8).
%% Of a dump, as on a node.
-define(NODES, 5000000).
-define(WORDS, 1000000000).
-define(WATCH_MS, 2000). % between the two looks of a diagnosis
-define(ATTRS, 20). % of one scan
-define(INTERVAL_MS, 100).
%% To find out where the VM keeps the length of a run queue.
-define(QUEUE_TRIES, 200).
-define(QUEUE_MOST, 12).
%% Calls with rows of processes that hold binaries, and their attribute.
-define(BINARIES, #{bin_garbage => bin_garbage, bin_waste => bin_waste, bin_owned => binary_exclusive}).

%% @doc Aims the library at that OS process, or at that core file, after it was proved on this VM.
-spec open(OsPid :: pos_integer() | sonde_core_file:core()) -> ok | {error, why()}.
open(Target) -> open(Target, false).

%% @doc The same; Content: whether content may be shown. That node's own setting is not known.
-spec open(OsPid :: pos_integer() | sonde_core_file:core(), Content :: boolean()) -> ok | {error, why()}.
open(Target, Content) ->
    case {sonde_vm:side(), is_ordered(erlang:system_info(system_architecture))} of
        {_, false} ->
            {error, architecture};
        {native, true} ->
            {Pid, Mon} = spawn_monitor(?MODULE, opener, [self(), Target, Content]),
            receive
                {'DOWN', Mon, process, Pid, {opened, ok}} -> ok;
                {'DOWN', Mon, process, Pid, {opened, Why}} -> {error, Why};
                {'DOWN', Mon, process, Pid, Why} -> exit(Why)
            end;
        {{portable, Why}, true} ->
            {error, {native_off, Why}}
    end.

%% @doc Whether this is a machine on which no barrier is needed to read another process in order: see peek_other.c.
-spec is_ordered(Architecture :: string()) -> boolean().
is_ordered(Architecture) ->
    string:prefix(Architecture, "x86_64") =/= nomatch.

%% Only a process with its initial call in this module may aim.
-spec opener(pid(), pos_integer() | sonde_core_file:core(), boolean()) -> no_return().
opener(_Caller, Target, Content) ->
    _ = [ok = sonde_content:forbid() || not Content],
    exit({opened, case learn() of
                      ok -> checked(aim(Target));
                      Why -> Why
                  end}).

%% This VM's own atoms were found.
checked(atoms) -> atoms_there;
checked(Aimed) -> Aimed.

aim(#{path := Path, seen := Seen, headers := Headers, segments := Segments}) ->
    sonde_nif:aim_core(Path, Seen, Headers, Segments);
aim(OsPid) ->
    sonde_nif:aim(OsPid).

%% @doc Whether it can still be read, and is what it was.
-spec is_there() -> boolean().
is_there() ->
    sonde_nif:reader() =/= none.

%% Processes that have a name, none, and a function that the VM keeps.
learn() ->
    Known = [spawn_link(?MODULE, known, [How]) || How <- [waits, hibernates]],
    Registered = [whereis(Name) || Name <- [init, erl_prim_loader, kernel_sup, logger]],
    ok = wait_until_still(Known),
    Learned = sonde_nif:learn([identity(Pid) || Pid <- Registered ++ Known, is_pid(Pid)],
                              [{Atom, atom_to_binary(Atom)} || Atom <- atoms()]),
    %% if not, only the lengths of run queues are not known
    _ = Learned =:= ok andalso sonde_nif:has_schedulers() andalso learn_queue(?QUEUE_TRIES),
    _ = [begin true = unlink(Pid), exit(Pid, kill) end || Pid <- Known],
    Learned.

%% The VM also counts the processes of each priority by themselves.
learn_queue(0) ->
    false;
learn_queue(Tries) ->
    {Known, Pids} = sonde_nif:guess_queue([{Priority, rand:uniform(?QUEUE_MOST)} || Priority <- [low, normal, high]]),
    ok = wait_until_dead(Pids),
    Known orelse learn_queue(Tries - 1).

wait_until_dead(Pids) ->
    case lists:any(fun is_process_alive/1, Pids) of
        false -> ok;
        true -> erlang:yield(), wait_until_dead(Pids)
    end.

atoms() ->
    [false, true, '', ok, erlang, ?MODULE, ?LONG, list_to_atom([228, 246, 252])].

-spec known(waits | hibernates) -> no_return().
known(waits) -> receive never -> exit(normal) end;
known(hibernates) -> erlang:hibernate(?MODULE, known, [waits]).

wait_until_still(Pids) ->
    case [Pid || Pid <- Pids, {status, waiting} =/= process_info(Pid, status)] of
        [] -> ok;
        Left -> timer:sleep(1), wait_until_still(Left)
    end.

identity(Pid) ->
    Items = process_info(Pid, [registered_name, initial_call, current_function]),
    [{_, Name}, {_, Call}, {_, Current}] = Items,
    {Pid, Name, Call, case Current of {erlang, hibernate, 3} -> Current; _ -> [] end}.

%% @doc A sentence.
-spec errors(why()) -> unicode:chardata().
errors({native_off, Why}) ->
    ["sonde could not prove how this VM keeps its processes: ", io_lib:format("~0tp", [Why])];
errors(architecture) ->
    "sonde looks into other processes and core files on x86-64 only: use --node";
errors(no_reader) -> "the process has ended";
errors(changed) -> "the file was changed";
errors(no_build_id) -> "it has no build id";
errors(gone) -> "there is no such process";
errors(forbidden) ->
    "the kernel does not let this user read its memory: it belongs to another user, has more rights than the command, or a "
    "security module forbids it. Run the command as root with the capability SYS_PTRACE";
errors(filtered) ->
    "a filter of system calls (seccomp), as containers have them, forbids process_vm_readv: run the command outside of the "
    "container, or start the container with --cap-add SYS_PTRACE or --security-opt seccomp=unconfined";
errors(other_program) -> "it does not run the program that the command was started with";
errors(process_limit) -> "its process limit is another one than that of the command (check: process_limit)";
errors({no_process, Pid}) ->
    ["it has no process ", pid_to_list(Pid)];
errors({no_pid, Text}) ->
    ["no process can have the pid ", Text];
errors({no_name, Text}) ->
    ["it has no process that is registered as ", printable(Text)];
errors({name_not_known, Text}) ->
    ["no process whose name can be read is registered as ", printable(Text), ", but some names cannot be read"];
errors({not_known, Item}) ->
    [atom_to_list(Item), " cannot be read from outside the node"];
errors(no_code) ->
    "its code cannot be read";
errors(no_memory) ->
    "there was no memory for what is to be remembered";
errors(system_limit) ->
    "there is more than one call can remember";
errors(timeout) ->
    "not done in time (--timeout MS)";
errors({not_there, Function}) ->
    [atom_to_list(Function), " does not work from outside the node: use --node"];
errors({badarg, Function}) when Function =:= proc_count; Function =:= proc_window ->
    [atom_to_list(Function), ": from outside the node, the attribute can be ",
     lists:join(", ", [atom_to_list(Attr) || Attr <- sonde_attr:native()])];
errors({badarg, Function}) ->
    ["these arguments do not work from outside the node: ", atom_to_list(Function)];
errors(Check) when Check =:= code; Check =:= atoms; Check =:= identity; Check =:= schedulers ->
    ["sonde did not find out how this VM keeps ",
     case Check of
         code -> "its code";
         atoms -> "its atoms";
         identity -> "the names of its processes";
         schedulers -> "its schedulers"
     end];
errors(atoms_there) ->
    "its memory is not as expected (check: atoms)";
errors(Check) when Check =:= process_table; Check =:= processes ->
    ["its memory is not as expected (check: ", atom_to_list(Check), ")"].

%% Bytes of a command line that are no text become halves of characters, which no terminal can be sent.
printable(Text) ->
    [case C >= 16#D800 andalso C =< 16#DFFF of
         true -> 16#FFFD;
         false -> C
     end || C <- Text].

%% @doc After open/1: an answer in the shape of that call of `sonde', and what is missing in it. An argument
%% `{process, Text}' is a pid as that node prints it, or a registered name.
-spec call(atom(), [term()], #{timeout => non_neg_integer(), depth => non_neg_integer(),
                              interval => non_neg_integer(), os_pid => pos_integer(), force => boolean(),
                              values => boolean()}) ->
    {ok, term(), sonde_scan:report() | #{}} | {error, why()}.
call(Function, Args, Opts) ->
    Ms = maps:get(timeout, Opts, ?CALL_MS),
    Until = erlang:monotonic_time(millisecond) + Ms,
    case processes(Args, Until) of
        {error, Why} -> {error, Why};
        Pids -> answer(Function, Pids, Opts#{until => Until, timeout => Ms})
    end.

processes([{process, Text} | Args], Until) ->
    case sonde_outside_names:process(Text, Until) of
        {ok, Pid} -> with(Pid, processes(Args, Until));
        Error -> Error
    end;
processes([Arg | Args], Until) ->
    with(Arg, processes(Args, Until));
processes([], _Until) ->
    [].

with(_, {error, Why}) -> {error, Why};
with(Arg, Args) -> [Arg | Args].

answer(native, [], _Opts) ->
    {ok, (sonde_vm:native())#{target => maps:from_keys(?CHECKED, ok)}, #{}};
answer(proc_count, [Attr, N], Opts) when is_integer(N), N >= 0 ->
    case sonde_attr:is_native(Attr) of
        true -> tried(fun() -> most(Attr, N, Opts) end);
        false -> {error, {badarg, proc_count}}
    end;
answer(proc_counts, [[_ | _] = Attrs, N], Opts) when length(Attrs) =< ?ATTRS, is_integer(N), N >= 0 ->
    case [Attr || Attr <- Attrs, not sonde_attr:is_native(Attr)] of
        [] -> tried(fun() -> each_most(Attrs, N, Opts) end);
        [Attr | _] -> {error, {not_known, Attr}}
    end;
answer(proc_window, [Attr, N, Ms], Opts) when is_integer(N), N >= 0, is_integer(Ms), Ms >= 0 ->
    case sonde_attr:is_native(Attr) of
        true -> tried(fun() -> grown(Attr, N, Ms, Opts) end);
        false -> {error, {badarg, proc_window}}
    end;
answer(proc_group, [By, [_ | _] = Attrs], Opts) when length(Attrs) =< ?ATTRS ->
    case {By, [Attr || Attr <- Attrs, not sonde_attr:is_native(Attr)]} of
        {_, []} when By =:= initial_call; By =:= current_function; By =:= registered_name ->
            tried(fun() -> sonde_outside_group:groups(By, Attrs, how(Attrs, Opts)) end);
        {_, []} -> {error, {not_known, By}};
        {_, [Attr | _]} -> {error, {not_known, Attr}}
    end;
answer(stacks, [N], Opts) when is_integer(N), N >= 0 ->
    tried(fun() -> stacks(N, Opts) end);
answer(diagnose, [], Opts) ->
    tried(fun() ->
              {#{read := Read} = Diagnosis, Missed} = sonde_outside_diagnose:diagnosis(watched(Opts), how(memory, Opts)),
              {Diagnosis#{read := max(0, Read - absent(0, 0))}, Missed}
          end);
answer(schedulers, [], Opts) ->
    tried(fun() -> {schedulers(Opts), sonde_scan:nothing()} end);
answer(waits, [N], Opts) when is_integer(N), N >= 0 ->
    tried(fun() -> waits(N, Opts) end);
answer(bin_account, [], Opts) ->
    tried(fun() -> sonde_bin_account:there(how(binary_unique, Opts)) end);
answer(dump, [Pid, File], #{timeout := Ms} = Opts) when is_pid(Pid), node(Pid) =:= node() ->
    Look = #{values => maps:get(values, Opts, false), suspend => false, progress => false, max_nodes => ?NODES,
             max_words => ?WORDS, timeout => Ms},
    case sonde_private_file:write(File, maps:get(force, Opts, false), fun(_) -> sonde_v8_writer:open(Pid, Look) end) of
        {ok, Written} -> {ok, Written, #{}};
        No -> looked(Pid, No)
    end;
answer(Function, [N], Opts) when is_integer(N), N >= 0, is_map_key(Function, ?BINARIES) ->
    tried(fun() -> binaries(Function, map_get(Function, ?BINARIES), N, Opts) end);
answer(heap, [Pid], Opts) when is_pid(Pid), node(Pid) =:= node() ->
    looked(Pid, case sonde_heap_map:heap(Pid, maps:with([timeout], Opts)) of
                    #{literals := undefined} = Heap -> Heap#{literals := not_known};
                    Other -> Other
                end);
answer(heap_top, [Pid, N], Opts) when is_pid(Pid), node(Pid) =:= node(), is_integer(N), N >= 0 ->
    looked(Pid, sonde_heap_top:top(Pid, N, maps:with([timeout], Opts)));
answer(mailbox, [Pid, N], Opts) when is_pid(Pid), node(Pid) =:= node(), is_integer(N), N >= 0 ->
    looked(Pid, sonde_mailbox:there(Pid, N, maps:with([timeout], Opts)));
answer(bin_slices, [Pid], Opts) when is_pid(Pid), node(Pid) =:= node() ->
    looked(Pid, sonde_garbage:bin_slices(Pid, maps:with([timeout], Opts)));
answer(info, [Pid | Key], Opts) when is_pid(Pid), node(Pid) =:= node(), length(Key) =< 1 ->
    case sonde_outside_info:process(Pid, Key, maps:with([timeout], Opts)) of
        {error, {not_known, _} = Why} -> {error, Why};
        Answer -> looked(Pid, Answer)
    end;
answer(Function, _, _) ->
    {error, {not_there, Function}}.

%% In a core file, and in an OS process that is stopped, there is one moment.
watched(Opts) ->
    (maps:with([os_pid, at], Opts))#{interval => case sonde_nif:reader() of
                      core -> 0;
                      _ -> maps:get(interval, Opts, ?WATCH_MS)
                  end}.

looked(Pid, undefined) -> {error, {no_process, Pid}};
looked(_Pid, {error, {native_off, {unsupported, no_reader}}}) -> {error, no_reader};
looked(_Pid, Answer) -> {ok, Answer, #{}}.

%% No reader is left once that OS process has ended.
tried(Fun) ->
    try
        {Answer, #{unseen := Unseen} = Result} = Fun(),
        {ok, Answer, sonde_scan:report(Result#{unseen := Unseen + absent(0, 0)}, false)}
    catch
        error:{native_off, {unsupported, no_reader}} -> {error, no_reader};
        error:{native_off, {unsupported, code}} -> {error, no_code};
        error:no_memory -> {error, no_memory};
        error:system_limit -> {error, system_limit};
        throw:Why when Why =:= no_reader; Why =:= schedulers -> {error, Why}
    end.

%% Processes of a core file that are not in it.
absent(Slot, Sum) ->
    case sonde_nif:absent(Slot) of
        {N, done} -> Sum + N;
        {N, Next} -> absent(Next, Sum + N);
        no_reader -> throw(no_reader)
    end.

how(Attr, Opts) when is_atom(Attr) -> how([Attr], Opts);
how(Attrs, #{until := Until}) ->
    #{attrs => Attrs, until => Until, outside => true, still => sonde_nif:reader() =:= core,
      threads => min(?THREADS, erlang:system_info(schedulers_online))}.

most(Attr, N, Opts) ->
    How = how(Attr, Opts),
    Scans = sonde_scan:scan(top, N, undefined, How),
    Result = sonde_scan:run(Scans, How),
    {named(N, Scans, #{}), Result}.

%% For several attributes, from one sweep, without names.
each_most(Attrs, N, Opts) ->
    How = how(Attrs, Opts),
    Scans = sonde_scan:scan(top, N, undefined, How),
    Result = sonde_scan:run(Scans, How),
    {[{Attr, lists:reverse(lists:sort(sonde_scan:rows(Scans, K, N)))}
      || {K, Attr} <- lists:zip(lists:seq(0, length(Attrs) - 1), Attrs)], Result}.

%% As on a node, only bin_owned has rows of 0.
binaries(Function, Attr, N, Opts) ->
    {Rows, Result} = most(Attr, N, Opts),
    {[{Pid, Bytes, worst(Function, Pid, Opts) ++ Attrs} || {Pid, Bytes, Attrs} <- Rows,
                                                     Bytes > 0 orelse Function =:= bin_owned], Result}.

worst(bin_waste, Pid, #{until := Until}) ->
    Left = max(0, Until - erlang:monotonic_time(millisecond)),
    [{worst, sonde_garbage:worst(Pid, #{timeout => Left})}];
worst(_, _, _) ->
    [].

%% As `sonde:proc_window/3': a process that began meanwhile counts in full.
grown(Attr, N, Ms, #{until := Until} = Opts) ->
    How = how(Attr, Opts#{until := Until + Ms}),
    Firsts = sonde_scan:scan(sample, N, undefined, How),
    #{missed := Missed} = First = sonde_scan:run(Firsts, How),
    ok = timer:sleep(Ms),
    Scans = sonde_scan:scan(diff, N + length(Missed), Firsts, How),
    %% to the second look, one that it cannot read has died, and one that the first could not read is new
    Second = sonde_scan:run(Scans, How#{skip_missed => true}),
    {named(N, Scans, maps:from_list(Missed)), sonde_scan:merge(First, Second)}.

named(N, Scans, Without) ->
    Rows = [Row || {_, Pid} = Row <- lists:reverse(lists:sort(sonde_scan:rows(Scans, 0, N + map_size(Without)))),
                   not is_map_key(Pid, Without)],
    [{Pid, Value, sonde_outside_names:attrs(Pid)} || {Value, Pid} <- lists:sublist(Rows, N)].

stacks(N, Opts) ->
    How = (how(stack, Opts))#{max_words => maps:get(depth, Opts, ?DEPTH)},
    Scans = sonde_scan:scan(stacks, 0, undefined, How),
    Result = sonde_scan:once(Scans, How),
    {Groups, Unread} = sonde_stacks:groups(Scans, fun sonde_outside_names:function/1),
    {[{Stack, Count, example(Pid, Count)} || {Less, Stack, Pid} <- lists:sublist(Groups, N),
                                             Count <- [-Less]], unread(Unread, Result)}.

%% One of them is named.
unread(none, Result) -> Result;
unread({Count, Pid}, #{missed := Missed, unseen := Unseen} = Result) ->
    Result#{missed := [{Pid, no_code} | Missed], unseen := Unseen + Count - 1}.

%% A core file never changes.
schedulers(Opts) ->
    sonde_nif:has_schedulers() orelse throw(schedulers),
    Ms = case sonde_nif:reader() of
             core -> 0;
             _ -> min(maps:get(interval, Opts, ?INTERVAL_MS), maps:get(timeout, Opts))
         end,
    case sonde_schedulers:there(Ms, fun name/1, fun sonde_outside_names:function/1) of
        no_reader -> throw(no_reader);
        Rows -> Rows
    end.

name(Pid) when is_pid(Pid) -> element(1, sonde_outside_names:who(Pid));
name(_Port) -> undefined.

example(Pid, Count) ->
    {Name, Call, _} = sonde_outside_names:who(Pid),
    [{example, Pid} | [Name || Name =/= undefined, Count =:= 1]] ++ [{initial_call, Call}].

waits(N, #{until := Until}) ->
    {Graph, Result} = sonde_waits:look_there(Until),
    {Pids, Others} = lists:partition(fun({For, _}) -> is_pid(For) end, sonde_wait_graph:totals(Graph)),
    Rows = [waited(Total, sonde_outside_names:who(Pid), Graph) || {Pid, _} = Total <- lists:sublist(Pids, N)],
    {Rows ++ [sonde_waits:row(Other, [], [], Graph) || Other <- Others], Result}.

waited({Pid, _} = Total, {Name, Call, _}, Graph) ->
    sonde_waits:row(Total, [Name || Name =/= undefined],
                    [{message_queue_len, N} || {message_queue_len, N} <- sonde_outside_info:words(Pid, [message_queue_len])]
                    ++ [{initial_call, Call}], Graph).
