%% @private
%% What a collection would free, and what binaries hold in vain, over all processes. It collects
%% nothing, and asks only the winners for their names. No call of the VM reports these numbers, so
%% it counts and leaves out a process with a heap that cannot be read, and has no portable path.
-module(sonde_garbage).

-export([most/3, bin_garbage/3, bin_waste/2, bin_slices/2, bin_owned/2]).
-export_type([opts/0, report/0, waste_row/0, slices/0]).

-type opts() :: #{self := boolean(), max_words := non_neg_integer(),
                  timeout := non_neg_integer(), report := boolean(), suspend := boolean(),
                  atom() => term()}.
-type report() :: sonde_scan:report().
-type waste_row() ::
        {pid(), Bytes :: pos_integer(),
         [{worst, [{Visible :: non_neg_integer(), Pinned :: pos_integer(),
                    Slices :: pos_integer()}]}
          | atom() | {current_function | initial_call, mfa() | undefined}]}.
-type slices() :: [{Id :: non_neg_integer(), Size :: non_neg_integer(), Refc :: pos_integer(),
                    [{Start :: non_neg_integer(), End :: non_neg_integer()}]}].

-define(SPARE, 100).          % extra candidates: some are dead, or belong to sonde
-define(CHUNK, 1000).
-define(TOGETHER, 256).       % processes in a scan of some
-define(WORST, 3).

%% @doc The `N' largest of attributes for which heaps must be marked, or all of them counted
%% (`sonde_attr:heap/0'): natively, or not at all. One of the binaries outside of the heap needs no
%% mark, so `max_words' does not matter to it: its source are the process's own lists of binaries and
%% its messages, and one with more than 20 million binaries is too large. For `binary_proportional'
%% an account of the whole node is made; a process that has something else than that account says
%% when its part is added up has its part of what it held when it was counted there.
-spec most([sonde_attr:attr()], non_neg_integer(), opts()) ->
    {[{sonde_attr:attr(), [sonde_proc_count:row()]}], report()}.
most(Attrs, N, Opts) ->
    sonde_retry:run(fun() ->
                            sonde_vm:must_be_native(),
                            looked(lists:member(binary_proportional, Attrs), Attrs, N,
                                   Opts#{caller => self()})
                    end).

most_of(Attr, N, Opts) ->
    {[{Attr, Rows}], Report} = most([Attr], N, Opts),
    {Rows, Report}.

-spec bin_garbage(non_neg_integer(), count | bytes, map()) ->
    {[{pid(), pos_integer(), sonde_attr:attrs()}], report()}.
bin_garbage(N, What, Opts) when is_integer(N), N >= 0 ->
    positive(most_of(garbage_attr(What), N, everybody(Opts)));
bin_garbage(_, _, _) ->
    error(badarg).

garbage_attr(count) -> bin_garbage;
garbage_attr(bytes) -> bin_garbage_bytes;
garbage_attr(_) -> error(badarg).

-spec bin_owned(non_neg_integer(), map()) -> {[sonde_proc_count:row()], report()}.
bin_owned(N, Opts) when is_integer(N), N >= 0 ->
    most_of(binary_exclusive, N, sonde_opts:read(Opts, sonde_scan:options()));
bin_owned(_, _) ->
    error(badarg).

-spec bin_waste(non_neg_integer(), map()) -> {[waste_row()], report()}.
bin_waste(N, Opts) when is_integer(N), N >= 0 ->
    {Rows, Report} = positive(most_of(bin_waste, N, everybody(Opts))),
    {[{Pid, Bytes, [{worst, worst(Pid)} | Attrs]} || {Pid, Bytes, Attrs} <- Rows], Report};
bin_waste(_, _) ->
    error(badarg).

-spec bin_slices(pid(), map()) -> slices() | sonde_look:errors().
bin_slices(Pid, Opts) ->
    Read = sonde_opts:read(Opts, sonde_look:options(#{})),
    sonde_look:run(Pid, {slices, [], 0, 0}, Read, fun slices/1).

%% ---- rows

everybody(Opts) ->
    sonde_opts:read(Opts, (sonde_scan:options())#{self := sonde_opts:flag(true)}).

positive({Rows, Report}) ->
    {[Row || {_, Value, _} = Row <- Rows, Value > 0], Report}.

%% The caller is not at rest: for a row of its own it must wait for a helper. And a helper is needed
%% where answers may come too late, so for a report, and to suspend.
looked(_, Attrs, 0, #{suspend := Suspend}) ->
    {[{Attr, []} || Attr <- Attrs], sonde_scan:report(Suspend)};
looked(true, Attrs, N, Opts) ->
    sonde_helper:call(fun(Caller) -> shares(Attrs, N, without(Opts), Caller) end);
looked(false, Attrs, N, #{self := false, report := false, suspend := false} = Opts) ->
    largest(Attrs, N, Opts);
looked(false, Attrs, N, Opts) ->
    sonde_helper:call(fun(Caller) -> largest(Attrs, N, (without(Opts))#{by => Caller}) end).

without(#{self := true} = Opts) -> Opts;
without(#{caller := Caller} = Opts) -> Opts#{without => [Caller]}.

%% A process's part of a binary depends on all holders of the binary.
shares(Attrs, N, #{caller := Pid} = Opts, Caller) ->
    sonde_bin_account:shares(maps:with([suspend, threads], Opts), Caller, Pid,
                         fun(Account) ->
                                 largest(Attrs, N, Opts#{by => Caller, account => Account})
                         end).

largest(Attrs, N, #{timeout := Timeout, suspend := Suspend} = Opts) ->
    Until = erlang:monotonic_time(millisecond) + Timeout,
    Want = min(N + ?SPARE, erlang:system_info(process_limit)),
    How = sonde_scan:with_memory(Opts#{until => Until, attrs => Attrs}),
    Scans = sonde_scan:scan(top, Want, undefined, How),
    Result = sonde_scan:run(Scans, How),
    {Late, Changed} = late(Result, How),
    Unread = (sonde_scan:nothing())#{missed := [{Pid, busy} || Pid <- Changed]},
    {[{Attr, sonde_attr:named(N, best(Scans, I, Want,
                                 [{Value, Pid} || {Pid, #{Attr := Value}} <- Late]))}
      || {I, Attr} <- lists:enumerate(0, Attrs)],
     sonde_scan:report(sonde_scan:merge(Result, Unread), Suspend)}.

%% Processes that no longer held what the account has: the values of some of them, and those that
%% are not read.
late(#{unseen := 0}, #{account := Account, by := Caller, attrs := Attrs} = How) ->
    {Changed, Parts} = sonde_bin_account:followed(Account, Caller),
    Others = beside(lists:usort(Attrs) -- [binary_proportional], maps:keys(Parts), How),
    Late = maps:intersect_with(fun(_, Part, Values) -> Values#{binary_proportional => Part} end,
                               Parts, Others),
    {maps:to_list(Late), Changed -- maps:keys(Late)};
late(_, _) ->
    {[], []}.

%% The other requested attributes. A process that cannot be read now has no row.
beside([], Pids, _How) ->
    maps:from_keys(Pids, #{});
beside(_Attrs, [], _How) ->
    #{};
beside(Attrs, Pids, How) ->
    {Now, Later} = lists:split(min(?TOGETHER, length(Pids)), Pids),
    {Read, _} = sonde_scan:look(Now, (maps:without([account, until], How))#{attrs := Attrs}),
    Rows = [{Pid, maps:from_list(lists:zip(Attrs, Values))} || {Pid, Values} <- Read],
    maps:merge(maps:from_list(Rows), beside(Attrs, Later, How)).

%% The rows of a scan that was stopped are not sorted yet.
best(Scans, I, Want, Late) ->
    Rows = sonde_scan:rows(Scans, I, Want),
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
    Pinned = sonde_look:all(fun(From) -> sonde_nif:look_pinned(Look, From, ?CHUNK) end),
    slices(Look, Pinned, 0, []).

slices(_Look, [], _From, Acc) ->
    lists:reverse(Acc);
slices(Look, [{Id, Size, Refc, _, N} | Rest], From, Acc) ->
    slices(Look, Rest, From + N, [{Id, Size, Refc, parts(Look, From, From + N)} | Acc]).

parts(_Look, To, To) ->
    [];
parts(Look, From, To) ->
    Some = sonde_nif:look_slices(Look, From, min(?CHUNK, To - From)),
    Some ++ parts(Look, From + length(Some), To).
