%% @private
%% The processes that have the most of something, now or gained in a window of time. Both roads give
%% `[{Value, Pid}]', largest first and for equal values the higher pid first; names and call sites
%% are asked of the winners only.
-module(sonde_proc_count).

-export([count/3, counts/3, largest/2, window/4, named/2]).
-export_type([row/0]).

-type row() :: {pid(), term(), sonde_attr:attrs()}.

%% More winners than rows wanted, since some may have died, or be ours, when their names are asked.
-define(SPARE, 10).
-define(NO_LIMIT, 134217727).
%% Of one that died before it was asked. Readers of recon's rows rely on the two.
-define(UNKNOWN, [{current_function, undefined}, {initial_call, undefined}]).

%% @doc `Self': whether the caller has a row too.
-spec count(sonde_attr:attr(), non_neg_integer(), boolean()) -> [row()].
count(Attr, N, Self) ->
    [{Attr, Rows}] = counts([Attr], N, Self),
    Rows.

%% @doc The same for several attributes, from one sweep.
-spec counts([sonde_attr:attr()], non_neg_integer(), boolean()) -> [{sonde_attr:attr(), [row()]}].
counts([], _N, _Self) ->
    [];
counts(Attrs, 0, _Self) ->
    [{Attr, []} || Attr <- Attrs];
counts(Attrs, N, Self) ->
    Unique = lists:usort(Attrs),
    Rows = maps:from_list(lists:zip(Unique, counts(Unique, N, Self, most(N + ?SPARE)))),
    [{Attr, map_get(Attr, Rows)} || Attr <- Attrs].

%% @doc For each of the attributes the `N' processes with most, without names: nobody is asked for
%% them, so some may be dead, or ours. The caller is not among them.
-spec largest([sonde_attr:attr()], non_neg_integer()) -> [[{term(), pid()}]].
largest(Attrs, N) ->
    most_of(Attrs, N, false).

%% So many died that rows are missing: once more, with more spare.
counts(Attrs, N, Self, Want) ->
    Bests = most_of(Attrs, Want, Self),
    Rows = [name(N, Best) || Best <- Bests],
    case lists:any(fun({R, Best}) -> length(R) < N andalso length(Best) =:= Want end,
                   lists:zip(Rows, Bests)) andalso most(4 * Want) > Want of
        true -> counts(Attrs, N, Self, most(4 * Want));
        false -> Rows
    end.

%% @doc The growth in `Ms'. Who was born in between has the full value, who died the first one.
-spec window(sonde_attr:attr(), non_neg_integer(), timeout(),
             #{self := boolean(), max_entries := pos_integer(), atom() => term()}) -> [row()].
window(Attr, N, Ms, Opts) ->
    sonde_retry:run(fun() -> grown(Attr, N, Ms, Opts) end).

grown(Attr, N, Ms, #{self := Self, max_entries := Max}) ->
    Want = most(N + ?SPARE),
    Mine = own(Attr, Self),
    {Road, First, Largest} = first(road(Attr), Attr, Want, Max),
    Names = names(Largest),
    ok = timer:sleep(Ms),
    Best = second(Road, Attr, Want, Max, First),
    Gained = [{Now - Before, Pid}
              || {{Now, Pid}, {Before, Pid}} <- lists:zip(own(Attr, Self), Mine)],
    name_gone(N, with(Gained, Best, Want), Names).

%% ---- what both roads share

%% Where all can be read natively nothing but the winners leaves the native side. If one cannot,
%% each process' values come out (sonde_every_process), those that can be read still natively.
roads(Attrs) ->
    case lists:all(fun sonde_attr:is_native/1, Attrs) andalso sonde_vm:side() of
        native -> native;
        _ -> portable
    end.

road(Attr) ->
    roads([Attr]).

%% There are never more processes than this.
most(N) ->
    min(N, erlang:system_info(process_limit)).

%% The caller is busy with asking: its value is always what it says itself.
own(_Attr, false) ->
    [];
own(Attr, true) ->
    {ok, Value} = sonde_attr:read(Attr, self()),
    [{Value, self()}].

with([], Best, _Want) ->
    Best;
with(Own, Best, Want) ->
    lists:sublist(lists:reverse(lists:sort(Own ++ Best)), Want).

%% @doc The first `N' of `[{Value, Pid}]' that are alive and not ours, with their names.
-spec named(non_neg_integer(), [{term(), pid()}]) -> [row()].
named(N, Best) ->
    name(N, Best).

name(0, _) ->
    [];
name(_, []) ->
    [];
name(N, [{Value, Pid} | Best]) ->
    case sonde_attr:call_site(Pid) of
        {ok, Attrs} -> [{Pid, Value, Attrs} | name(N - 1, Best)];
        _ -> name(N, Best)
    end.

%% As name/2, but the dead stay.
name_gone(0, _, _) ->
    [];
name_gone(_, [], _) ->
    [];
name_gone(N, [{Value, Pid} | Best], Names) ->
    case sonde_attr:call_site(Pid) of
        {ok, Attrs} -> [{Pid, Value, Attrs} | name_gone(N - 1, Best, Names)];
        helper -> name_gone(N, Best, Names);
        undefined ->
            case maps:get(Pid, Names, {ok, ?UNKNOWN}) of
                {ok, Attrs} -> [{Pid, Value, Attrs} | name_gone(N - 1, Best, Names)];
                helper -> name_gone(N, Best, Names)
            end
    end.

%% Helpers too: one that ends meanwhile stays without a row.
names(Best) ->
    maps:from_list([{Pid, Site} || {_, Pid} <- Best, Site <- [sonde_attr:call_site(Pid)],
                                   Site =/= undefined]).

%% For each of the attributes.
most_of(Attrs, Want, Self) ->
    sonde_retry:run(fun() -> largest(roads(Attrs), Attrs, Want, Self) end).

largest(native, Attrs, Want, Self) ->
    case scan(Attrs, top, Want, undefined, ?NO_LIMIT) of
        no_reader -> largest(portable, Attrs, Want, Self);
        Scan -> [with(own(Attr, Self), rows(Scan, I), Want)
                 || {I, Attr} <- lists:zip(lists:seq(0, length(Attrs) - 1), Attrs)]
    end;
largest(portable, Attrs, Want, Self) ->
    Add = fun(Pid, Values, [], Bests) ->
                  [sonde_largest:add({Value, Pid}, Best)
                   || {Value, Best} <- lists:zip(Values, Bests)]
          end,
    Bests = sonde_every_process:fold(Add, [sonde_largest:new(Want) || _ <- Attrs], Attrs, []),
    [with(own(Attr, Self), sonde_largest:to_list(Best), Want)
     || {Attr, Best} <- lists:zip(Attrs, Bests)].

%% The first look, and who was largest in it.
first(native, Attr, Want, Max) ->
    case scan([Attr], sample, Want, undefined, Max) of
        no_reader -> first(portable, Attr, Want, Max);
        Scan -> {native, Scan, rows(Scan, 0)}
    end;
first(portable, Attr, Want, Max) ->
    Pids = processes(),
    length(Pids) =< Max orelse error(system_limit),
    Look = fun(Pid, Value, {Values, Best}) ->
                   {Values#{Pid => Value}, sonde_largest:add({Value, Pid}, Best)}
           end,
    {Values, Best} = fold(Look, {#{}, sonde_largest:new(Want)}, Attr, Pids),
    {portable, Values, sonde_largest:to_list(Best)}.

second(native, Attr, Want, Max, First) ->
    case scan([Attr], diff, Want, First, Max) of
        no_reader -> second(portable, Attr, Want, Max, remembered(First));
        Scan -> rows(Scan, 0)
    end;
second(portable, Attr, Want, _Max, First) ->
    Look = fun(Pid, Value, {Gone, Best}) ->
                   {Before, Rest} = take(Pid, Gone),
                   {Rest, sonde_largest:add({Value - Before, Pid}, Best)}
           end,
    {Gone, Best} = fold(Look, {First, sonde_largest:new(Want)}, Attr, processes()),
    Dead = maps:fold(fun(Pid, Value, Acc) -> sonde_largest:add({Value, Pid}, Acc) end, Best, Gone),
    sonde_largest:to_list(Dead).

%% As the portable side keeps a first look.
remembered(First) ->
    maps:from_list([Entry || {_, Value} = Entry <- sonde_nif:scan_values(First),
                             is_integer(Value)]).

take(Pid, Values) ->
    case maps:take(Pid, Values) of
        error -> {0, Values};
        Taken -> Taken
    end.

%% ---- portable: ask everybody but the caller

fold(Fun, Acc, Attr, Pids) ->
    Self = self(),
    lists:foldl(fun(Pid, A) when Pid =:= Self -> A;
                   (Pid, A) ->
                        case sonde_attr:read(Attr, Pid) of
                            {ok, Value} -> Fun(Pid, Value, A);
                            undefined -> A
                        end
                end, Acc, Pids).

%% ---- native. No reader: somebody took the signal handler away, and the other reader is forbidden;
%% then everybody is asked, in the middle of a window too

scan(Attrs, Mode, Want, First, Max) ->
    Scan = sonde_nif:scan_new(Attrs, Mode, Want, First, [self()], Max),
    run(Scan, Attrs, sonde_nif:scan_step(Scan)).

run(Scan, _Attrs, done) ->
    Scan;
run(Scan, Attrs, more) ->
    run(Scan, Attrs, sonde_nif:scan_step(Scan));
run(Scan, Attrs, {ask, Pids}) ->
    ok = sonde_nif:scan_feed(Scan, [{Pid, answer(Attrs, Pid)} || Pid <- Pids]),
    run(Scan, Attrs, sonde_nif:scan_step(Scan));
run(_Scan, _Attrs, {error, no_reader}) ->
    no_reader;
run(_Scan, _Attrs, {error, Why}) ->
    error(Why).

answer(Attrs, Pid) ->
    case sonde_attr:ask(Pid, Attrs, []) of
        {Values, []} -> Values;
        undefined -> undefined
    end.

rows(Scan, Question) ->
    [{Value, Pid} || {Pid, Value} <- sonde_nif:scan_rows(Scan, Question)].
