%% @private
%% What a collection would free, and what binaries hold in vain, over all processes. It collects
%% nothing, and asks only the winners for their names. No call of the VM reports these numbers, so
%% it counts and leaves out a process with a heap that cannot be read, and has no portable path.
-module(sonde_garbage).

-export([most/3, bin_garbage/3, bin_waste/2, bin_slices/2, bin_owned/2, worst/2]).
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
-define(PINNED, 250).          % five numbers each
-define(WORST, 3).

%% @doc The `N' largest of attributes for which heaps must be marked, or all of them counted
%% (`sonde_attr:heap/0'): natively, or not at all. One of the binaries outside of the heap needs no
%% mark, so `max_words' does not matter to it: its source are the process's own lists of binaries and
%% its messages, and one with more than 20 million binaries is too large. `binary_proportional' is read
%% from an account of the whole node.
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
    {[{Pid, Bytes, [{worst, worst(Pid, #{})} | Attrs]} || {Pid, Bytes, Attrs} <- Rows], Report};
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
    sonde_helper:call(fun(Caller) -> with_parts(Attrs, N, (without(Opts))#{by => Caller}) end);
looked(false, Attrs, N, #{self := false, report := false, suspend := false} = Opts) ->
    rows(largest(Attrs, N, Opts), N, Opts);
looked(false, Attrs, N, Opts) ->
    sonde_helper:call(fun(Caller) ->
                              rows(largest(Attrs, N, (without(Opts))#{by => Caller}), N, Opts)
                      end).

without(#{self := true} = Opts) -> Opts;
without(#{caller := Caller} = Opts) -> Opts#{without => [Caller]}.

%% A process's part of a binary depends on all holders of the binary.
with_parts(Attrs, N, #{by := Caller, caller := Pid, timeout := Timeout} = Opts) ->
    Without = maps:get(without, Opts, []),
    Until = now_ms() + Timeout,
    How = (maps:with([suspend, threads], Opts))#{until => Until},
    {Parts, #{missed := Missed} = First} =
        sonde_bin_account:parts(want(N + length(Without)), How, Caller, Pid),
    Others = [Row || {_, Of} = Row <- Parts, not lists:member(Of, Without)],
    {Found, Second} = case [Attr || Attr <- Attrs, Attr =/= binary_proportional] of
                          [] -> {[], sonde_scan:nothing()};
                          More -> largest(More, N, Opts#{until => Until})
                      end,
    All = [{binary_proportional, Others} | Found],
    Unread = First#{missed := [M || {Of, _} = M <- Missed, not lists:member(Of, Without)]},
    rows({[lists:keyfind(Attr, 1, All) || Attr <- Attrs], sonde_scan:merge(Second, Unread)}, N, Opts).

largest(Attrs, N, #{timeout := Timeout} = Opts) ->
    How = maps:merge(#{until => now_ms() + Timeout}, Opts#{attrs => Attrs}),
    Scans = sonde_scan:scan(top, want(N), undefined, How),
    Result = sonde_scan:run(Scans, How),
    {[{Attr, best(Scans, I, want(N))} || {I, Attr} <- lists:enumerate(0, Attrs)], Result}.

%% The rows of a scan that was stopped are not sorted yet.
best(Scans, I, Want) ->
    lists:sublist(lists:reverse(lists:sort(sonde_scan:rows(Scans, I, Want))), Want).

want(N) -> min(N + ?SPARE, erlang:system_info(process_limit)).

now_ms() -> erlang:monotonic_time(millisecond).

rows({Found, Result}, N, #{suspend := Suspend}) ->
    {[{Attr, sonde_attr:named(N, Best)} || {Attr, Best} <- Found], sonde_scan:report(Result, Suspend)}.

%% ---- slices of one process

%% @doc The binaries of which a process keeps most outside of its slices.
-spec worst(pid(), map()) ->
    [{Visible :: non_neg_integer(), Pinned :: pos_integer(), Slices :: pos_integer()}].
worst(Pid, Opts) ->
    Read = sonde_opts:read(Opts, sonde_look:options(#{})),
    case sonde_look:run(Pid, {slices, [], 0, 0}, Read, fun(Look) -> worst(Look, 0, []) end) of
        Worst when is_list(Worst) -> Worst;
        _ -> []
    end.

worst(Look, From, Best) ->
    case sonde_nif:look_pinned(Look, From, ?PINNED) of
        [] ->
            [{Visible, Size, Slices} || {_, Visible, Size, Slices} <- Best];
        Some ->
            Wasted = [{Size - Visible, Visible, Size, Slices}
                      || {_, Size, _, Visible, Slices} <- Some, Size > Visible],
            Sorted = lists:reverse(lists:sort(Wasted ++ Best)),
            worst(Look, From + length(Some), lists:sublist(Sorted, ?WORST))
    end.

slices(Look) ->
    Pinned = sonde_look:all(fun(From) -> sonde_nif:look_pinned(Look, From, ?PINNED) end),
    slices(Look, Pinned, [], 0, []).

%% Ready: the slices that were fetched and belong to the next binaries; From: the next to be fetched.
slices(_Look, [], _Ready, _From, Acc) ->
    lists:reverse(Acc);
slices(Look, [{Id, Size, Refc, _, N} | Rest], Ready, From, Acc) ->
    {Parts, Left, Next} = parts(Look, N, Ready, From, []),
    slices(Look, Rest, Left, Next, [{Id, Size, Refc, Parts} | Acc]).

parts(_Look, 0, Ready, From, Parts) ->
    {lists:reverse(Parts), Ready, From};
parts(Look, N, [Part | Ready], From, Parts) ->
    parts(Look, N - 1, Ready, From, [Part | Parts]);
parts(Look, N, [], From, Parts) ->
    [_ | _] = Some = sonde_nif:look_slices(Look, From, ?CHUNK),
    parts(Look, N, Some, From + length(Some), Parts).
