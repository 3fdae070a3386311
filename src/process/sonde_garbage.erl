%% @private
%% What a collection would free, and what binaries hold in vain, over all processes: nothing is
%% collected, nobody is asked but the winners for their names.
%%
%% No call of the VM has these numbers. So a process whose heap cannot be read is left out, and
%% counted; with the native side off there is no answer at all.
-module(sonde_garbage).

-export([proc_count/3, rows/3, options/0, bin_garbage/3, bin_waste/2, bin_slices/2]).
-export([bin_owned/2]).
-export_type([opts/0, report/0, waste_row/0, slices/0]).

-type opts() :: #{self := boolean(), max_words := non_neg_integer(),
                  timeout := non_neg_integer(), report := boolean(), suspend := boolean(),
                  atom() => term()}.
-type report() :: sonde_scan:report().
-type rows() :: [sonde_proc_count:row()] | [{sonde_attr:attr(), [sonde_proc_count:row()]}].
-type waste_row() ::
        {pid(), Bytes :: pos_integer(),
         [{worst, [{Visible :: non_neg_integer(), Pinned :: pos_integer(),
                    Slices :: pos_integer()}]}
          | atom() | {current_function | initial_call, mfa() | undefined}]}.
-type slices() :: [{Id :: non_neg_integer(), Size :: non_neg_integer(), Refc :: pos_integer(),
                    [{Start :: non_neg_integer(), End :: non_neg_integer()}]}].

-define(SPARE, 100).          % candidates more than rows wanted: some are dead, or ours
-define(CHUNK, 1000).
-define(TOGETHER, 256).       % processes in a scan of some
-define(WORST, 3).

%% @doc The options of `proc_count/3', with their defaults and which values are good.
-spec options() -> #{atom() => {term(), fun((term()) -> boolean())}}.
options() ->
    Number = fun(N) -> is_integer(N) andalso N >= 0 end,
    sonde_scan:options(#{self => {false, fun is_boolean/1}, max_words => {1000000000, Number},
                          timeout => {30000, Number}}).

%% @doc The `N' largest of attributes some of which need heaps to be marked:
%% <ul>
%% <li>`garbage_bytes': bytes of the process's heap, old heap and fragments that nothing refers to
%%     any more: what a full collection would free there. What binaries hold outside is not in it.
%%     What waits in the mailbox is referred to</li>
%% <li>`bin_garbage': references to binaries that nothing refers to any more: how many
%%     `garbage_collect/1' would drop</li>
%% <li>`bin_garbage_bytes': bytes of the binaries that would be freed with these references, since
%%     nobody else has one</li>
%% <li>`bin_waste': bytes of the binaries that the process refers to, less the bytes of them that it
%%     can see: what `binary:copy/1' of its slices would free, were nobody else to refer to them.
%%     What was allocated for a binary to grow counts as unseen</li>
%% <li>`flat_size': words, not bytes: what the terms on the stack, in the argument registers, in the
%%     dictionary and in the mailbox would take in a message ({@link sonde_term:root_size/3}). A
%%     part that is shared counts at each place where it is; `max_words' bounds what is counted</li>
%% <li>`binary_unique': bytes of the binaries outside of the heap that the process refers to, each
%%     once (its size, with the room that was allocated to append to it): of heap, old heap and
%%     fragments, garbage that was not collected yet included, of what is being appended to, and of
%%     all queues. References to memory of native libraries are left out</li>
%% <li>`binary_exclusive': bytes of those among them whose count of references is what was found in
%%     this process, so that they would go if it let go</li>
%% <li>`binary_proportional': bytes of them, each divided by its holders (processes, messages that
%%     are not on a heap yet, tables, and one for persistent terms and all else); the remainder is
%%     the first holder's in term order, all else before the others. An account of the whole node is
%%     made for it ({@link sonde:bin_account/1}). Who has something else than that account says when
%%     its part is added up, as little as a message that was received, is followed by a second one,
%%     and has its part of what it held when it was counted there</li>
%% </ul>
%% Each process is read under a stamp, without a message to it. A process that runs all the time is
%% looked at again for about 80 ms, which meets it at rest where the walk is short. Then it is left
%% out, never shown as 0, and so is one whose heap has more than `max_words' words; when `timeout'
%% milliseconds are over, so are all that were not looked at. For the last three no heap is marked,
%% so `max_words' does not matter: the source are the process's own lists of binaries and its
%% messages, and too large is a process with more than 20 million binaries. `report => true' gives
%% `{Rows, Report}' ({@type report()}), which names what was left out. `suspend => true' suspends the
%% busy ones, one at a time, while each is read. These attributes come from a sweep of their own.
%%
%% With the native side off it raises `{native_off, Reason}'.
-spec proc_count(sonde_attr:attr() | [sonde_attr:attr()], non_neg_integer(), opts()) ->
    rows() | {rows(), report()}.
proc_count(Attrs, N, #{report := true} = Opts) ->
    told(Attrs, N, Opts);
proc_count(Attrs, N, Opts) ->
    rows(Attrs, N, Opts).

%% @doc The same without a report.
-spec rows(sonde_attr:attr() | [sonde_attr:attr()], non_neg_integer(), opts()) -> rows().
rows(Attrs, N, Opts) ->
    {Rows, _} = told(Attrs, N, Opts),
    Rows.

told(Attrs, N, #{self := Self} = Opts) when is_list(Attrs) ->
    {Heap, Other} = lists:partition(fun sonde_attr:is_heap/1, lists:usort(Attrs)),
    {Marked, Report} = marked(Heap, N, Opts),
    ByAttr = maps:from_list(Marked ++ sonde_proc_count:counts(Other, N, Self)),
    {[{Attr, map_get(Attr, ByAttr)} || Attr <- Attrs], Report};
told(Attr, N, Opts) ->
    {[{Attr, Rows}], Report} = told([Attr], N, Opts),
    {Rows, Report}.

%% @doc The `N' processes that refer to most binaries in vain: `{Pid, Count, Attrs}', largest first,
%% where `Count' is how many references to binaries `garbage_collect(Pid)' would drop. Nothing is
%% collected, and no process disturbed: {@link sonde:bin_leak/1} without the collection, and without
%% its loss of evidence. The caller is among them; processes with nothing to drop have no row.
%%
%% With `bytes': the bytes of the binaries that would be freed. A binary to which somebody else
%% refers would not.
%%
%% Where messages wait, a collection also brings in what they refer to; that is not subtracted here.
%% Hibernated processes do not collect when they are told to, but have nothing to drop.
%%
%% Options are those of {@link proc_count/3}; `self' is `true' here. With the native side off it raises
%% `{native_off, Reason}'.
-spec bin_garbage(non_neg_integer(), count | bytes, map()) ->
    {[{pid(), pos_integer(), sonde_attr:attrs()}], report()}.
bin_garbage(N, What, Opts) when is_integer(N), N >= 0 ->
    positive(told(garbage_attr(What), N, everybody(Opts)));
bin_garbage(_, _, _) ->
    error(badarg).

garbage_attr(count) -> bin_garbage;
garbage_attr(bytes) -> bin_garbage_bytes;
garbage_attr(_) -> error(badarg).

%% @doc The `N' processes with most binary memory that is theirs alone; without the caller, unless
%% the options say so.
-spec bin_owned(non_neg_integer(), map()) -> {[sonde_proc_count:row()], report()}.
bin_owned(N, Opts) when is_integer(N), N >= 0 ->
    told(binary_exclusive, N, sonde_opts:read(Opts, options()));
bin_owned(_, _) ->
    error(badarg).

%% @doc The `N' processes whose slices of binaries hold most bytes that they do not see:
%% `{Pid, Pinned - Visible, [{worst, [{Visible, Pinned, Slices}]} | Attrs]}', largest first.
%% `Pinned' is the size of the binaries that the process refers to, `Visible' what it sees of them;
%% `worst' has the three binaries with most unseen bytes, how much of each is seen and by how many
%% slices ({@link sonde:bin_slices/1} has all). The remedy is `binary:copy/1' where a slice is kept.
%%
%% `worst' is from a second look: it is `[]' if the process cannot be read by then. A binary that
%% was appended to has room to grow, which counts as unseen. The caller is among the processes;
%% those that see all they hold have no row. Left out is who cannot be read, as in `bin_garbage'.
%%
%% With the native side off it raises `{native_off, Reason}'.
-spec bin_waste(non_neg_integer(), map()) -> {[waste_row()], report()}.
bin_waste(N, Opts) when is_integer(N), N >= 0 ->
    {Rows, Report} = positive(told(bin_waste, N, everybody(Opts))),
    {[{Pid, Bytes, [{worst, worst(Pid)} | Attrs]} || {Pid, Bytes, Attrs} <- Rows], Report};
bin_waste(_, _) ->
    error(badarg).

%% @doc Which parts of which binaries a process refers to: `[{Id, Size, Refc, [{Start, End}]}]',
%% sorted; `Id', `Size' and `Refc' as in `process_info(Pid, binary)'. `[{Start, End}]' has one entry
%% for each binary term on its heap that something refers to: the bytes from `Start' on, before
%% `End'. They may overlap. A binary to which only garbage refers is not in it. One whose bytes lie
%% in memory of a native library's own has the size of what stands for them, and `{0, Size}' for
%% each term.
%%
%% Options are those of all calls that look into one heap: `suspend', `max_words', `timeout',
%% `progress'. `undefined' for a dead process; `{error, busy | timeout | {heap_too_large, Words,
%% Limit} | {native_off, Reason}}'; `badarg' for what is no local pid.
-spec bin_slices(pid(), map()) -> slices() | sonde_look:errors().
bin_slices(Pid, Opts) ->
    Read = sonde_opts:read(Opts, sonde_look:options(#{})),
    sonde_look:run(Pid, {slices, [], 0, 0}, Read, fun slices/1).

%% ---- rows

everybody(Opts) ->
    sonde_opts:read(Opts, (options())#{self := {true, fun is_boolean/1}}).

positive({Rows, Report}) ->
    {[Row || {_, Value, _} = Row <- Rows, Value > 0], Report}.

marked([], _N, #{suspend := Suspend}) ->
    {[], sonde_scan:report(Suspend)};
marked(Attrs, N, Opts) ->
    sonde_retry:run(fun() ->
                            sonde_vm:must_be_native(),
                            looked(lists:member(binary_proportional, Attrs), Attrs, N,
                                   Opts#{caller => self()})
                    end).

%% The caller is not at rest: for a row of its own it must wait for a helper. And a helper is needed
%% where answers may come too late, so for a report, and to suspend.
looked(_, Attrs, 0, #{suspend := Suspend}) ->
    {[{Attr, []} || Attr <- Attrs], sonde_scan:report(Suspend)};
looked(true, Attrs, N, Opts) ->
    sonde_helper:call(fun(Caller) -> shares(Attrs, N, without(Opts), Caller) end);
looked(false, Attrs, N, #{self := false, report := false, suspend := false} = Opts) ->
    largest(Attrs, N, Opts);
looked(false, Attrs, N, Opts) ->
    sonde_helper:call(fun(Caller) -> largest(Attrs, N, (without(Opts))#{callers => [Caller]}) end).

without(#{self := true} = Opts) -> Opts;
without(#{caller := Caller} = Opts) -> Opts#{without => [Caller]}.

%% The part of a binary that a process has depends on all of its holders.
shares(Attrs, N, #{suspend := Suspend, caller := Pid} = Opts, Caller) ->
    sonde_bin_account:shares(#{suspend => Suspend}, Caller, Pid,
                         fun(Account) ->
                                 largest(Attrs, N, Opts#{callers => [Caller], account => Account})
                         end).

largest(Attrs, N, #{timeout := Timeout, suspend := Suspend} = Opts) ->
    Until = erlang:monotonic_time(millisecond) + Timeout,
    Want = min(N + ?SPARE, erlang:system_info(process_limit)),
    How = Opts#{until => Until, attrs => Attrs},
    Scan = sonde_scan:scan(top, Want, undefined, How),
    Result = sonde_scan:run(Scan, How),
    {Late, Changed} = late(Result, How),
    Unread = #{missed => [{Pid, busy} || Pid <- Changed], suspended => [], unseen => 0,
               waiting => []},
    {[{Attr, sonde_proc_count:named(N, best(Scan, I, Want,
                                       [{Value, Pid} || {Pid, #{Attr := Value}} <- Late]))}
      || {I, Attr} <- numbered(Attrs)],
     sonde_scan:report(sonde_scan:merge(Result, Unread), Suspend)}.

%% Who had not what the account says: the values of some of them, and who is not read.
late(#{unseen := 0}, #{account := Account, callers := [Caller], attrs := Attrs} = How) ->
    {Changed, Parts} = sonde_bin_account:followed(Account, Caller),
    Others = beside(lists:usort(Attrs) -- [binary_proportional], maps:keys(Parts), How),
    Late = maps:intersect_with(fun(_, Part, Values) -> Values#{binary_proportional => Part} end,
                               Parts, Others),
    {maps:to_list(Late), Changed -- maps:keys(Late)};
late(_, _) ->
    {[], []}.

%% What else is asked for. Who cannot be read now has no row.
beside([], Pids, _How) ->
    maps:from_keys(Pids, #{});
beside(_Attrs, [], _How) ->
    #{};
beside(Attrs, Pids, How) ->
    {Now, Later} = lists:split(min(?TOGETHER, length(Pids)), Pids),
    Scan = sonde_scan:scan(each, 0, Now, maps:remove(account, How#{attrs := Attrs})),
    Rows = [{Pid, maps:from_list(lists:zip(Attrs, Values))} || {Pid, Values} <- each(Scan, How, [])],
    maps:merge(maps:from_list(Rows), beside(Attrs, Later, How)).

each(Scan, #{callers := [Caller]} = How, Rows) ->
    sonde_helper:check_caller(Caller),
    case sonde_nif:scan_step(Scan) of
        done -> Rows;
        more -> each(Scan, How, Rows);
        {rows, More} -> each(Scan, How, More ++ Rows);
        {ask, _} -> ok = sonde_nif:scan_feed(Scan, []), each(Scan, How, Rows);
        {error, no_reader} -> error({native_off, {unsupported, no_reader}});
        {error, Why} -> error(Why)
    end.

numbered(Attrs) ->
    lists:zip(lists:seq(0, length(Attrs) - 1), Attrs).

%% Those of a scan that was stopped are not sorted yet.
best(Scan, I, Want, Late) ->
    Rows = [{Value, Pid} || {Pid, Value} <- sonde_nif:scan_rows(Scan, I)],
    lists:sublist(lists:reverse(lists:sort(Late ++ Rows)), Want).

%% ---- slices of one process

worst(Pid) ->
    Opts = sonde_opts:read(#{}, sonde_look:options(#{})),
    case sonde_look:run(Pid, {slices, [], 0, 0}, Opts, fun(Look) -> worst(Look, 0, []) end) of
        Worst when is_list(Worst) -> Worst;
        _ -> []
    end.

worst(Look, From, Best) ->
    case sonde_nif:look_pinned(Look, From, ?CHUNK) of
        [] ->
            [{Visible, Size, Slices} || {_, Visible, Size, Slices} <- Best];
        Some ->
            Wasted = [{Size - Visible, Visible, Size, Slices}
                      || {_, Size, _, Visible, Slices} <- Some, Size > Visible],
            Sorted = lists:reverse(lists:sort(Wasted ++ Best)),
            worst(Look, From + length(Some), lists:sublist(Sorted, ?WORST))
    end.

slices(Look) ->
    slices(Look, pinned(Look, 0), 0, []).

pinned(Look, From) ->
    case sonde_nif:look_pinned(Look, From, ?CHUNK) of
        [] -> [];
        Some -> Some ++ pinned(Look, From + length(Some))
    end.

slices(_Look, [], _From, Acc) ->
    lists:reverse(Acc);
slices(Look, [{Id, Size, Refc, _, N} | Rest], From, Acc) ->
    slices(Look, Rest, From + N, [{Id, Size, Refc, parts(Look, From, From + N)} | Acc]).

parts(_Look, To, To) ->
    [];
parts(Look, From, To) ->
    Some = sonde_nif:look_slices(Look, From, min(?CHUNK, To - From)),
    Some ++ parts(Look, From + length(Some), To).
