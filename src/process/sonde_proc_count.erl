%% @private
%% The processes that have most of an attribute, now or by growth in a window. Both paths return
%% `[{Value, Pid}]', largest first, for equal values the higher pid first; only the winners are
%% asked for names and call sites.
-module(sonde_proc_count).

-export([proc_count/3, count/3, counts/3, largest/2, window/4]).
-export_type([row/0]).

-type opts() :: #{self := boolean(), threads => sonde_threads:threads(), atom() => term()}.
-type row() :: {pid(), term(), sonde_attr:attrs()}.

%% More winners than rows wanted, since some may die, or belong to sonde, before they are named.
-define(SPARE, 10).
%% Of one that died before it was asked. Readers of recon's rows rely on the two.
-define(UNKNOWN, [{current_function, undefined}, {initial_call, undefined}]).

%% @doc Of what is known only after heaps were marked, too, which `sonde_garbage' knows.
-spec proc_count(sonde_attr:attr() | [sonde_attr:attr()], non_neg_integer(), sonde_garbage:opts()) ->
    {[row()] | [{sonde_attr:attr(), [row()]}], sonde_scan:report()}.
proc_count(Attrs, N, #{suspend := Suspend} = Opts) when is_list(Attrs) ->
    case lists:partition(fun sonde_attr:is_heap/1, lists:usort(Attrs)) of
        {[], _} ->
            {counts(Attrs, N, Opts), sonde_scan:report(Suspend)};
        {Heap, Other} ->
            {Marked, Report} = sonde_garbage:most(Heap, N, Opts),
            ByAttr = maps:from_list(Marked ++ counts(Other, N, Opts)),
            {[{Attr, map_get(Attr, ByAttr)} || Attr <- Attrs], Report}
    end;
proc_count(Attr, N, Opts) ->
    {[{Attr, Rows}], Report} = proc_count([Attr], N, Opts),
    {Rows, Report}.

%% @doc `self': whether the caller has a row too.
-spec count(sonde_attr:attr(), non_neg_integer(), opts()) -> [row()].
count(Attr, N, Opts) ->
    [{Attr, Rows}] = counts([Attr], N, Opts),
    Rows.

%% @doc Returns the rows for several attributes, from one sweep.
-spec counts([sonde_attr:attr()], non_neg_integer(), opts()) -> [{sonde_attr:attr(), [row()]}].
counts([], _N, _Opts) ->
    [];
counts(Attrs, 0, _Opts) ->
    [{Attr, []} || Attr <- Attrs];
counts(Attrs, N, Opts) ->
    Unique = lists:usort(Attrs),
    Rows = maps:from_list(lists:zip(Unique, counts(Unique, N, Opts, most(N + ?SPARE)))),
    [{Attr, map_get(Attr, Rows)} || Attr <- Attrs].

%% @doc Returns the `N' processes with most, for each attribute, without names: no process is asked
%% for them, so some may be dead, or belong to sonde. The caller is not among them.
-spec largest([sonde_attr:attr()], non_neg_integer()) -> [[{term(), pid()}]].
largest(Attrs, N) ->
    most_of(Attrs, N, #{self => false}).

%% Too many winners died; retry with a larger margin.
counts(Attrs, N, Opts, Want) ->
    Bests = most_of(Attrs, Want, Opts),
    Rows = [sonde_attr:named(N, Best) || Best <- Bests],
    case lists:any(fun({R, Best}) -> length(R) < N andalso length(Best) =:= Want end,
                   lists:zip(Rows, Bests)) andalso most(4 * Want) > Want of
        true -> counts(Attrs, N, Opts, most(4 * Want));
        false -> Rows
    end.

%% @doc Returns the growth in `Ms'. A process that started in between counts with its full value, a
%% process that died with its first value.
-spec window(sonde_attr:attr(), non_neg_integer(), timeout(),
             #{self := boolean(), max_entries => pos_integer(), threads => sonde_threads:threads(),
               atom() => term()}) -> [row()].
window(Attr, N, Ms, Opts) ->
    sonde_retry:run(fun() -> grown(Attr, N, Ms, Opts) end).

grown(Attr, N, Ms, #{self := Self} = Opts) ->
    Want = most(N + ?SPARE),
    Mine = own(Attr, Self),
    How = (maps:with([max_entries, threads], Opts))#{attrs => [Attr]},
    {Road, First, Largest} = first(roads([Attr]), Attr, Want, How),
    Names = names(Largest),
    ok = timer:sleep(Ms),
    Best = second(Road, Attr, Want, How, First),
    Gained = [{Now - Before, Pid}
              || {{Now, Pid}, {Before, Pid}} <- lists:zip(own(Attr, Self), Mine)],
    sonde_attr:named(N, with(Gained, Best, Want),
                     fun(Pid) -> maps:get(Pid, Names, {ok, ?UNKNOWN}) end).

%% ---- shared by both paths

%% If all attributes can be read natively, only the winners come back from C. Otherwise the values
%% of each process do (sonde_every_process), where those that can be read still come natively.
roads(Attrs) ->
    case lists:all(fun sonde_attr:is_native/1, Attrs) andalso sonde_vm:side() of
        native -> native;
        _ -> portable
    end.

%% There are never more processes than this.
most(N) ->
    min(N, erlang:system_info(process_limit)).

%% The caller runs while it asks: its value always comes from its own process_info/2.
own(_Attr, false) ->
    [];
own(Attr, true) ->
    {ok, Value} = sonde_attr:read(Attr, self()),
    [{Value, self()}].

with([], Best, _Want) ->
    Best;
with(Own, Best, Want) ->
    lists:sublist(lists:reverse(lists:sort(Own ++ Best)), Want).

%% Includes helpers: one that ends meanwhile still has no row.
names(Best) ->
    sonde_attr:call_sites([Pid || {_, Pid} <- Best]).

%% For each of the attributes.
most_of(Attrs, Want, Opts) ->
    sonde_retry:run(fun() -> largest(roads(Attrs), Attrs, Want, Opts) end).

largest(native, Attrs, Want, #{self := Self} = Opts) ->
    case scan(top, Want, undefined, (maps:with([threads], Opts))#{attrs => Attrs}) of
        no_reader -> largest(portable, Attrs, Want, Opts);
        Scans -> [with(own(Attr, Self), sonde_scan:rows(Scans, I, Want), Want)
                  || {I, Attr} <- lists:enumerate(0, Attrs)]
    end;
largest(portable, Attrs, Want, #{self := Self}) ->
    Add = fun(Pid, Values, [], Bests) ->
                  [sonde_largest:add({Value, Pid}, Best)
                   || {Value, Best} <- lists:zip(Values, Bests)]
          end,
    Bests = sonde_every_process:fold(Add, [sonde_largest:new(Want) || _ <- Attrs], Attrs, []),
    [with(own(Attr, Self), sonde_largest:to_list(Best), Want)
     || {Attr, Best} <- lists:zip(Attrs, Bests)].

%% The first look, and the largest in it.
first(native, Attr, Want, How) ->
    case scan(sample, Want, undefined, How) of
        no_reader -> first(portable, Attr, Want, How);
        Scans -> {native, Scans, sonde_scan:rows(Scans, 0, Want)}
    end;
first(portable, Attr, Want, How) ->
    Pids = processes(),
    length(Pids) =< maps:get(max_entries, How, infinity) orelse error(system_limit),
    Look = fun(Pid, [Value], [], {Values, Best}) ->
                   {Values#{Pid => Value}, sonde_largest:add({Value, Pid}, Best)}
           end,
    {Values, Best} = sonde_every_process:ask_all(Look, {#{}, sonde_largest:new(Want)}, [Attr], [],
                                                 Pids),
    {portable, Values, sonde_largest:to_list(Best)}.

second(native, Attr, Want, How, First) ->
    case scan(diff, Want, First, How) of
        no_reader -> second(portable, Attr, Want, How, remembered(First));
        Scans -> sonde_scan:rows(Scans, 0, Want)
    end;
second(portable, Attr, Want, _How, First) ->
    Look = fun(Pid, [Value], [], {Gone, Best}) ->
                   {Before, Rest} = take(Pid, Gone),
                   {Rest, sonde_largest:add({Value - Before, Pid}, Best)}
           end,
    {Gone, Best} = sonde_every_process:ask_all(Look, {First, sonde_largest:new(Want)}, [Attr], [],
                                               processes()),
    Dead = maps:fold(fun(Pid, Value, Acc) -> sonde_largest:add({Value, Pid}, Acc) end, Best, Gone),
    sonde_largest:to_list(Dead).

%% In the form in which the portable path keeps a first pass.
remembered(First) ->
    maps:from_list([Entry || {_, Value} = Entry <- sonde_scan:values(First),
                             is_integer(Value)]).

take(Pid, Values) ->
    case maps:take(Pid, Values) of
        error -> {0, Values};
        Taken -> Taken
    end.

%% ---- native. Where no process can be read any more, all are asked, in the middle of a window too

scan(Mode, Want, First, #{attrs := Attrs} = How) ->
    Scans = sonde_scan:scan(Mode, Want, First, How),
    Ask = fun(_, _, Pids, asked) ->
                  {sonde_helper:ask(fun(Pid) -> answer(Attrs, Pid) end,
                                    fun(Pid, Answer, Answers) -> [{Pid, Answer} | Answers] end, [], Pids), asked}
          end,
    Policy = #{ask => Ask, join => fun(asked, asked) -> asked end},
    case sonde_scan:drive(Scans, How, Policy, asked) of
        {done, _} -> Scans;
        {no_reader, _} -> no_reader
    end.

answer(Attrs, Pid) ->
    case sonde_attr:ask(Pid, Attrs, []) of
        {Values, []} -> Values;
        undefined -> undefined
    end.
