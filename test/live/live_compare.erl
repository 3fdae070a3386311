%% Compares sonde with recon. Runs inside the broker, where sonde:remote_load/2 loads it: that keeps
%% the time between two calls as short as possible.
%%
%% Two calls never look at the same moment, so a difference alone proves nothing. Instead the test
%% makes a sandwich, recon - sonde - recon, of all processes. For each process:
%%
%%   - Recon's two values are equal: nothing seems to have changed, and sonde must report the same.
%%     Otherwise its value `differs'. This is the verdict for every attribute but one.
%%   - They are numbers and not equal: sonde's is expected between them, or it is `outside'. This is
%%     the verdict for `reductions': answering costs some, so they never stand still, but they only
%%     grow, by two or three in a process that sleeps, and sonde's value must lie between.
%%   - They are something else and not equal: the value changed, and there is no verdict.
%%
%% Either verdict can occur without a fault: a value may go up and come back. So there is a control,
%% a sandwich recon - recon - recon, taken just after. What differs there is the broker's own doing,
%% and sonde may have about as many differences. One difference is more frequent with sonde: a
%% message that waits. A process that is asked has taken all earlier messages when it answers; a
%% process that is read has not. Under load that is a queue length of 1, and 88 bytes, in any
%% process that a message is on its way to.
%%
%% Rounds go on while some process was a stray, of either kind, in each of them: chance finds
%% another one each time, a wrong answer does not.
-module(live_compare).

-export([values/2, tops/2, switched_off/1, own_row/0, windows/3, nested/1, leaks/2, leak_tops/1,
         timed/4]).
-export([native/0, asked/0, recon/1]).

-define(ALL, 100000000).
-define(MOST_ROUNDS, 20).
-define(SHOWN, 3).
-define(LONGEST_MS, 30000).

%% ---- attributes

%% Attributes that are read from memory.
native() ->
    [memory, total_heap_size, heap_size, stack_size, message_queue_len, reductions, binary_memory,
     binary_count, link_count, monitor_count, monitored_by_count, dictionary_size].

%% All others that process_info/2 has on this release: each process is asked, by either tool.
asked() ->
    [Item || Item <- [async_dist, backtrace, binary, catchlevel, current_function, current_location,
                      current_stacktrace, dictionary, error_handler, fullsweep_after,
                      garbage_collection, garbage_collection_info, group_leader, initial_call,
                      label, last_calls, links, magic_ref, max_heap_size, message_queue_data,
                      messages, min_bin_vheap_size, min_heap_size, monitored_by, monitors, parent,
                      priority, priority_messages, registered_name, sequential_trace_token, status,
                      suspending, trace, trap_exit],
             is_item(Item)].

is_item(Item) ->
    try process_info(self(), Item) of
        _ -> true
    catch
        error:badarg -> false
    end.

%% The item that recon is asked for, and how its value is converted.
recon(binary_count) -> {binary, fun erlang:length/1};
recon(link_count) -> {links, fun erlang:length/1};
recon(monitor_count) -> {monitors, fun erlang:length/1};
recon(monitored_by_count) -> {monitored_by, fun erlang:length/1};
recon(dictionary_size) -> {dictionary, fun erlang:length/1};
recon(Attr) -> {Attr, fun(Value) -> same(Attr, Value) end}.

%% The number of references to a binary does not belong to the process: reading messages changes it.
%% Texts as long as a backtrace are compared by their hash.
same(binary, Binaries) -> lists:sort([{Id, Size} || {Id, Size, _} <- Binaries]);
same(messages, Messages) -> erlang:md5(term_to_binary(Messages));
same(backtrace, Text) -> erlang:md5(Text);
same(_, Value) -> Value.

%% ---- all processes

-record(look, {values :: #{pid() => term()}, names :: #{pid() => term()}, sorted :: boolean()}).

look(recon, Attr) ->
    {Item, Convert} = recon(Attr),
    taken(recon:proc_count(Item, ?ALL), Convert);
look(sonde, Attr) ->
    taken(sonde:proc_count(Attr, ?ALL), fun(Value) -> same(Attr, Value) end).

%% Names and origins are compared, `current_function' is not.
taken(Rows, Convert) ->
    Keys = [{Value, Pid} || {Pid, Value, _} <- Rows],
    #look{values = maps:from_list([{Pid, Convert(Value)} || {Pid, Value, _} <- Rows]),
          names = maps:from_list([{Pid, lists:keydelete(current_function, 1, Attrs)}
                                  || {Pid, _, Attrs} <- Rows]),
          sorted = Keys =:= lists:reverse(lists:sort(Keys))}.

%% @doc At least so many rounds.
-spec values(sonde:attr(), pos_integer()) -> map().
values(Attr, Rounds) ->
    rounds(Attr, Rounds, one_round(Attr), 1).

rounds(Attr, Rounds, #{suspects := Suspects} = Sum, Done) ->
    case Done < Rounds orelse (Suspects =/= [] andalso Done < ?MOST_ROUNDS) of
        true -> rounds(Attr, Rounds, add(Sum, one_round(Attr)), Done + 1);
        false -> shown(Sum)
    end.

add(#{suspects := Suspects} = Sum, #{suspects := Again} = Round) ->
    maps:map(fun(suspects, _) -> [S || {Pid, _} = S <- Again, lists:keymember(Pid, 1, Suspects)];
                (faults, Faults) -> Faults ++ map_get(faults, Round);
                (values, Count) -> Count + map_get(values, Round);
                (Counts, {Differ, Outside}) ->
                     {MoreDiffer, MoreOutside} = map_get(Counts, Round),
                     {Differ + MoreDiffer, Outside + MoreOutside}
             end, Sum).

shown(#{suspects := Suspects, faults := Faults} = Sum) ->
    Sum#{suspects := lists:sublist(Suspects, ?SHOWN),
         faults := lists:sublist(Faults, ?SHOWN)}.

one_round(Attr) ->
    Before = look(recon, Attr),
    Ours = look(sonde, Attr),
    After = look(recon, Attr),
    Control = look(recon, Attr),
    Last = look(recon, Attr),
    Strays = strays(Before, Ours, After),
    #{values => map_size(Ours#look.values),
      ours => counts(Strays), theirs => counts(strays(After, Control, Last)),
      suspects => [{Pid, Seen} || {Pid, _, Seen} <- Strays],
      faults => missing(Before, Ours, After) ++ misnamed(Ours, After) ++ unsorted(Ours)}.

%% {Pid, differs | outside, {recon's, sonde's, recon's}}
strays(#look{values = Before}, #look{values = Between}, #look{values = After}) ->
    [{Pid, Stray, {B, Value, A}}
     || {Pid, Value} <- maps:to_list(Between), is_map_key(Pid, Before), is_map_key(Pid, After),
        B <- [map_get(Pid, Before)], A <- [map_get(Pid, After)],
        Stray <- [stray(B, Value, A)], Stray =/= agrees].

stray(Same, Value, Same) when Value =/= Same -> differs;
stray(Before, Value, After) when is_number(Before), is_number(Value), is_number(After),
                                 (Value < Before andalso Value < After orelse
                                  Value > Before andalso Value > After) -> outside;
stray(_, _, _) -> agrees.

counts(Strays) ->
    {length([x || {_, differs, _} <- Strays]), length([x || {_, outside, _} <- Strays])}.

%% These have no excuse: a process that existed before and after existed in between, and names and
%% origins do not change.
missing(#look{values = Before}, #look{values = Between}, #look{values = After}) ->
    [{missing, Pid} || Pid <- maps:keys(maps:with(maps:keys(Before), After)),
                       not is_map_key(Pid, Between)].

misnamed(#look{names = Ours}, #look{names = Theirs}) ->
    [{misnamed, Pid, Name, map_get(Pid, Theirs)}
     || {Pid, Name} <- maps:to_list(Ours), is_map_key(Pid, Theirs), map_get(Pid, Theirs) =/= Name].

unsorted(#look{sorted = true}) -> [];
unsorted(#look{sorted = false}) -> [unsorted].

%% ---- the ten largest, row by row

%% @doc `agree' as soon as sonde said what recon said after it. Else the rows that only sonde and
%% that only recon had (none, if only the order is not the same), where recon last said the same
%% twice; or `never_still'.
tops(Attr, Tries) ->
    still(fun() -> recon_top(recon(Attr), Attr) end, fun() -> sonde:proc_count(Attr, 10) end,
          Tries, never_still).

still(_Recon, _Sonde, 0, Last) ->
    Last;
still(Recon, Sonde, Tries, Last) ->
    Before = Recon(),
    Ours = Sonde(),
    case Recon() of
        Ours -> agree;
        Before -> still(Recon, Sonde, Tries - 1, {not_so, Ours -- Before, Before -- Ours});
        _ -> still(Recon, Sonde, Tries - 1, Last)
    end.

%% Sorts by items that recon cannot sort by.
recon_top({Attr, _}, Attr) ->
    recon:proc_count(Attr, 10);
recon_top({Item, Convert}, _) ->
    Rows = [{Convert(Value), Pid, Attrs} || {Pid, Value, Attrs} <- recon:proc_count(Item, ?ALL)],
    Best = lists:sublist(lists:reverse(lists:sort(Rows)), 10),
    [{Pid, Value, Attrs} || {Value, Pid, Attrs} <- Best].

%% @doc The portable side, in the same sandwich.
switched_off(Attr) ->
    #{status := {off, disabled}} = sonde:native(off),
    try values(Attr, 1)
    after #{status := active} = sonde:native(on)
    end.

%% @doc Whether the caller has a row, with the option and without it.
own_row() ->
    [lists:keymember(self(), 1, Rows)
     || Rows <- [sonde:proc_count(memory, ?ALL, #{self => true}), sonde:proc_count(memory, ?ALL),
                 sonde:proc_window(memory, ?ALL, 1, #{self => true}),
                 sonde:proc_window(memory, ?ALL, 1)]].

%% ---- windows

%% @doc Two windows of recon and one of sonde at the same time. Growth that recon saw twice the
%% same, sonde has to see, too. Returns how many did not agree, and what was seen of the process
%% `Pid'.
windows(Attr, Ms, Pid) ->
    [One, Other, Ours] = at_once([fun() -> window(recon, Attr, Ms) end,
                                  fun() -> window(recon, Attr, Ms) end,
                                  fun() -> window(sonde, Attr, Ms) end]),
    #{processes => map_size(Ours), grown => [maps:get(Pid, Seen, 0) || Seen <- [One, Ours, Other]],
      strays => [{P, {map_get(P, One), Value, map_get(P, Other)}}
                 || {P, Value} <- maps:to_list(Ours), is_map_key(P, One), is_map_key(P, Other),
                    map_get(P, One) =:= map_get(P, Other), Value =/= map_get(P, One)]}.

%% @doc A window of sonde's, and what recon counted around it and inside it. Reductions only grow,
%% so for every process growth is least inside and most around, whatever moved. Inside is while the
%% caller of the window sleeps; on a machine that is too busy for that, the window is made longer.
nested(Ms) ->
    AroundFirst = reductions(),
    Worker = {Pid, _} = spawn_monitor(fun() -> exit({seen, window(sonde, reductions, Ms)}) end),
    ok = sleeping(Pid),
    InsideFirst = reductions(),
    timer:sleep(Ms div 4),
    InsideLast = reductions(),
    StillThere = is_asleep(Pid),
    Ours = seen(Worker),
    AroundLast = reductions(),
    case StillThere of
        false when Ms < ?LONGEST_MS -> nested(2 * Ms);
        _ -> ordered(growth(InsideFirst, InsideLast), Ours, growth(AroundFirst, AroundLast))
    end.

ordered(Inside, Ours, Around) ->
    Seen = [{Pid, map_get(Pid, Inside), Growth, map_get(Pid, Around)}
            || {Pid, Growth} <- maps:to_list(Ours),
               is_map_key(Pid, Inside), is_map_key(Pid, Around)],
    #{processes => length(Seen),
      strays => [Row || {_, Least, Growth, Most} = Row <- Seen,
                        Growth < Least orelse Growth > Most]}.

reductions() ->
    (look(recon, reductions))#look.values.

growth(First, Last) ->
    maps:map(fun(Pid, Value) -> Value - map_get(Pid, First) end, maps:with(maps:keys(First), Last)).

sleeping(Pid) ->
    case is_asleep(Pid) orelse not is_process_alive(Pid) of
        true -> ok;
        false -> timer:sleep(1), sleeping(Pid)
    end.

is_asleep(Pid) ->
    process_info(Pid, [current_function, status]) =:= [{current_function, {timer, sleep, 1}},
                                                       {status, waiting}].

window(Tool, Attr, Ms) ->
    maps:from_list([{Pid, Growth} || {Pid, Growth, _} <- Tool:proc_window(Attr, ?ALL, Ms)]).

at_once(Funs) ->
    [seen(Worker) || Worker <- [spawn_monitor(fun() -> exit({seen, Fun()}) end) || Fun <- Funs]].

seen({Pid, Ref}) ->
    receive
        {'DOWN', Ref, process, Pid, {seen, Seen}} -> Seen;
        {'DOWN', Ref, process, Pid, Why} -> error(Why)
    end.

%% ---- bin_leak

%% @doc What one tool says was let go, beside counts that the other one made before and after. On an
%% idle broker they are the same but for who happened to run; `noise' is how many processes the
%% other one saw change in the same time with nobody collecting.
leaks(Tool, Other) ->
    First = counted(Other),
    timer:sleep(100),
    Before = counted(Other),
    Rows = collected(Tool),
    After = counted(Other),
    Seen = [{Pid, {map_get(Pid, After) - map_get(Pid, Before), Change}}
            || {Pid, Change, _} <- Rows, is_map_key(Pid, Before), is_map_key(Pid, After)],
    #{processes => length(Seen), binaries => lists:sum(maps:values(Before)),
      let_go => -lists:sum([Change || {_, {_, Change}} <- Seen]),
      noise => length([Pid || {Pid, N} <- maps:to_list(First), maps:get(Pid, Before, N) =/= N]),
      strays => [Row || {_, {A, B}} = Row <- Seen, A =/= B],
      missing => maps:keys(maps:with(maps:keys(Before), After)) -- [Pid || {Pid, _, _} <- Rows]}.

%% With time for every process to answer, as recon has.
collected(recon) ->
    recon:bin_leak(?ALL);
collected(sonde) ->
    #{rows := Rows} = sonde:bin_leak(?ALL, #{deadline => 60000}),
    Rows.

%% @doc As tops/2. The caller collects, too, and is not the same in both.
leak_tops(Tries) ->
    Leaks = fun(Tool) -> [{Pid, Change, lists:keydelete(current_function, 1, Attrs)}
                          || {Pid, Change, Attrs} <- Tool:bin_leak(10), Pid =/= self()]
            end,
    still(fun() -> Leaks(recon) end, fun() -> Leaks(sonde) end, Tries, never_still).

counted(Tool) ->
    (look(Tool, binary_count))#look.values.

%% ---- time

%% @doc The median, in milliseconds.
timed(Tool, Function, Args, Runs) ->
    Times = [element(1, timer:tc(Tool, Function, Args)) || _ <- lists:seq(1, Runs)],
    lists:nth((Runs + 1) div 2, lists:sort(Times)) / 1000.
