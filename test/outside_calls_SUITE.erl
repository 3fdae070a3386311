%% Calls that look into another OS process at one process, at waits and at groups: their answers are what it says
%% of itself, also of names that this VM has no atom for, of processes that are sensitive or never rest, and
%% while it is stopped. Rows of all processes are outside_rows_SUITE's.
-module(outside_calls_SUITE).

-compile([export_all, nowarn_export_all]).
-import(sonde_server_helper, [server/1]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [a_process_has_a_name_or_a_pid, no_such_process_is_a_sentence, no_time_is_reported, no_atom_is_made,
     info_is_that_of_the_target, info_of_one_item, info_of_every_state, what_cannot_be_known_is_said,
     one_that_never_rests, behaviours_show_their_own_call,
     waits_are_those_of_the_target, every_place_counts, a_deadlock_there,
     groups_are_those_of_the_target, more_groups_than_there_is_room_for, no_other_groups, a_target_that_is_stopped_answers,
     heaps_are_those_of_the_target, keys_are_text, mailboxes_have_sizes, constants_are_counted, a_heap_in_two_places_is_read,
     binaries_are_those_of_the_target, an_account_is_that_of_the_target, dumps_are_those_of_the_target, nothing_is_content, content_if_asked_for,
     a_report_has_the_numbers_of_the_calls, a_report_of_one_that_runs, a_report_shows_content_only_if_asked_for].

init_per_suite(Config) -> outside_rows_SUITE:init_per_suite(Config).
end_per_suite(_Config) -> ok.

%% Fun(Of, Twin): Of(M, F, A) calls the target, Twin(Function, Args) or Twin(Function, Args, Opts) is answered
%% from its memory.
both(Fun) -> both([], Fun).

%% More: the further arguments of `sonde_outside:open'.
both(More, Fun) ->
    sonde_peer_helper:with(shipped, fun(Target) ->
        outside_rows_SUITE:twin([], fun(Twin) ->
            Of = fun(M, F, A) -> sonde_peer_helper:call(Target, M, F, A) end,
            In = fun(M, F, A) -> sonde_peer_helper:call(Twin, M, F, A) end,
            ok = In(sonde_outside, open, [list_to_integer(Of(os, getpid, [])) | More]),
            Fun(Of, In)
        end)
    end).

ask(Twin, Function, Args) -> ask(Twin, Function, Args, #{}).

ask(Twin, Function, Args, Opts) -> Twin(sonde_outside, call, [Function, Args, Opts]).

%% The twin makes no atom; these are atoms here.
atoms(Text) when is_binary(Text) -> binary_to_existing_atom(Text);
atoms(List) when is_list(List) -> [atoms(Item) || Item <- List];
atoms(Tuple) when is_tuple(Tuple) -> list_to_tuple(atoms(tuple_to_list(Tuple)));
atoms(Other) -> Other.

%% ---- processes by name

%% In the target.
named(Names) ->
    [begin
         Pid = spawn(fun() -> receive never -> I end end),
         true = register(list_to_atom(Name), Pid),
         Pid
     end || {I, Name} <- lists:enumerate(Names)].

names() ->
    ["a", "Elixir.MyApp.Repo", lists:duplicate(255, $x), lists:duplicate(65, 1092), [228, 32, 39, 10],
     "only_there_" ++ integer_to_list(erlang:unique_integer([positive]))].

process(Text) -> {process, Text}.

a_process_has_a_name_or_a_pid(_Config) ->
    both(fun(Of, Twin) ->
        Names = names(),
        Pids = Of(?MODULE, named, [Names]),
        Found = fun(Text) ->
                    {ok, {registered_name, _}, #{}} = ask(Twin, info, [process(Text), registered_name]),
                    {ok, Pid} = Twin(sonde_outside_names, process, [Text, 1 bsl 60]),
                    Pid
                end,
        Pids = [Found(Name) || Name <- Names],
        Pids = [Found(Of(erlang, pid_to_list, [Pid])) || Pid <- Pids],
        Pids = [Found(string:trim(Of(erlang, pid_to_list, [Pid]), both, "<>")) || Pid <- Pids],
        [_, Repo | _] = Pids,
        Repo = Found("MyApp.Repo"),
        %% the exact name comes first
        [Short] = Of(?MODULE, named, [["MyApp.Repo"]]),
        Short = Found("MyApp.Repo"),
        Init = Of(erlang, whereis, [init]),
        Init = Found("init"),
        {ok, #{reachable := _}, _} = ask(Twin, heap, [process("a")]),
        true = Of(erlang, unregister, [a]),
        {error, {no_name, "a"}} = ask(Twin, heap, [process("a")])
    end).

no_such_process_is_a_sentence(_Config) ->
    both(fun(Of, Twin) ->
        Said = fun(Text) ->
                   {error, Why} = ask(Twin, info, [process(Text)]),
                   {error, Why} = ask(Twin, heap, [process(Text)]),
                   [_ | _] = unicode:characters_to_list(sonde_outside:errors(Why)),
                   Why
               end,
        {no_name, "nobody_is_called_this"} = Said("nobody_is_called_this"),
        _ = [{no_name, Text} = Said(Text) || Text <- ["", "x y", [55296], lists:duplicate(5000, $x)]],
        _ = [{no_pid, Text} = Said(Text) || Text <- ["<1.2.3>", "0.80", "<0.1.99999999999999999999>", "1"]],
        Pid = Of(?MODULE, dead, []),
        {no_process, Pid} = Said(Of(erlang, pid_to_list, [Pid]))
    end).

%% In the target.
dead() ->
    {Pid, Ref} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Ref, process, Pid, _} -> Pid end.

no_time_is_reported(_Config) ->
    both(fun(Of, Twin) ->
        Count = Of(erlang, system_info, [process_count]),
        _ = [begin
                 {ok, [], #{left_out := Left, missed := #{pids := [_ | _]}}} =
                     ask(Twin, Function, Args, #{timeout => 0}),
                 {_, true} = {Left, abs(Left - Count) < 10}
             end || {Function, Args} <- [{proc_count, [memory, 10]}, {stacks, [10]}, {waits, [10]},
                                         {proc_group, [initial_call, [memory]]}]],
        %% a suspect is one in both looks: what the first one missed counts, too
        _ = [begin
                 {ok, #{suspects := [], read := Read, counts := #{processes := {All, _}}, not_looked_at := Not}, #{left_out := Left}} =
                     ask(Twin, diagnose, [], #{timeout => 0, interval => Ms}),
                 {processes, {no_time, Late}} = lists:keyfind(processes, 1, Not),
                 {_, true} = {{Ms, All, Late, Left}, All - Left =:= Read andalso Read < 10 andalso Late > 10 andalso Left >= Late}
             end || Ms <- [0, 3000]],
        {ok, #{read := Whole, counts := #{processes := {Count1, _}}, not_looked_at := Other}, #{left_out := 0}} =
            whole(fun() -> ask(Twin, diagnose, [], #{interval => 0}) end),
        {Count1, false} = {Whole, lists:keymember(processes, 1, Other)}
    end).

%% Who just answered may still run for a moment.
whole(Ask) ->
    ok = sonde_test:until(missed_nothing, fun() ->
        {ok, _, #{left_out := Left}} = Answer = Ask(),
        _ = put(whole, Answer),
        Left =:= 0
    end),
    erase(whole).

no_atom_is_made(_Config) ->
    both(fun(Of, Twin) ->
        All = fun() ->
                  Names = names(),
                  [Pid | _] = Of(?MODULE, named, [Names -- ["a", "Elixir.MyApp.Repo"]]),
                  _ = [{ok, _, _} = ask(Twin, Function, Args)
                       || {Function, Args} <- [{info, [Pid]}, {waits, [10]},
                                               {proc_group, [registered_name, [memory]]},
                                               {info, [process(lists:last(Names))]}]],
                  [true = Of(erlang, exit, [P, kill])
                   || P <- [Of(erlang, whereis, [list_to_atom(Name)]) || Name <- Names], is_pid(P)],
                  Twin(erlang, system_info, [atom_count])
              end,
        _ = All(),
        Count = All(),
        Count = All()
    end).

%% ---- one process

%% In the target: all that can be known, as process_info has it.
said(Pid) ->
    Items = [registered_name, group_leader, status, initial_call, current_function, current_stacktrace],
    [Name, Leader, Status, _, Current, {_, Trace}] = process_info(Pid, Items),
    {_, Call} = sonde:info(Pid, initial_call),
    maps:from_list([Name, Leader, Status, Current,
                    {initial_call, case sonde_group:initial_call(Pid, true) of
                                       {_, _, _} = Known -> Known;
                                       _ -> Call
                                   end},
                    {current_stacktrace, [{M, F, A, [Line || {line, _} = Line <- Where]} || {M, F, A, Where} <- Trace]}
                    | [{Attr, element(2, sonde_attr:read(Attr, Pid))} || Attr <- sonde_attr:native()]]).

%% To be asked makes a process run: before the look, so that nothing is left to do, and after it.
compared(Of, Twin, Pid) ->
    _ = Of(?MODULE, said, [Pid]),
    ok = Of(sonde_test, settle, [Pid]),
    {ok, Sections, #{}} = ask(Twin, info, [Pid]),
    Known = maps:from_list(atoms(lists:append([Items || {_, Items} <- Sections]))),
    Said = Of(?MODULE, said, [Pid]),
    Here = maps:without([reductions, catchlevel], Said),
    {Pid, Here} = {Pid, maps:with(maps:keys(Here), Known)},
    {_, _, true} = {Known, Said, map_get(reductions, Known) =< map_get(reductions, Said)},
    Known.

info_is_that_of_the_target(_Config) ->
    both(fun(Of, Twin) ->
        Pids = Of(outside_rows_SUITE, crowd, []) ++ Of(?MODULE, named, [names()]) ++ [Of(?MODULE, first_of_two, [])]
            ++ [Of(erlang, whereis, [Name]) || Name <- [init, kernel_sup, code_server, logger]],
        _ = [compared(Of, Twin, Pid) || Pid <- Pids]
    end).

info_of_one_item(_Config) ->
    both(fun(Of, Twin) ->
        Pid = Of(erlang, whereis, [code_server]),
        {ok, Sections, _} = ask(Twin, info, [Pid]),
        [meta, signals, location, memory_used, work] = [Category || {Category, _} <- Sections],
        _ = [{ok, Section, #{}} = ask(Twin, info, [Pid, element(1, Section)]) || Section <- Sections,
                                                                                 element(1, Section) =/= work],
        Items = lists:append([Items || {_, Items} <- Sections]),
        _ = [{ok, Item, #{}} = ask(Twin, info, [Pid, element(1, Item)])
             || {Key, Value} = Item <- Items, Key =/= reductions, Value =/= not_shown, Value =/= not_known],
        {ok, {catchlevel, 0}, #{}} = ask(Twin, info, [Pid, catchlevel])
    end).

%% In the target.
states() ->
    Up = self(),
    Sensitive = spawn(fun() ->
                          _ = [put(I, I) || I <- lists:seq(1, 10)],
                          process_flag(sensitive, true),
                          wait(Up)
                      end),
    Hibernates = spawn(fun() -> Up ! {ready, self()}, erlang:hibernate(?MODULE, wait, [self()]) end),
    Suspended = spawn(fun() -> wait(Up) end),
    Deep = spawn(fun() -> deep(30, Up) end),
    Pids = [Sensitive, Hibernates, Suspended, Deep],
    _ = [receive {ready, Pid} -> ok end || Pid <- Pids],
    Never = spawn(erlang, hibernate, [?MODULE, wait, [Up]]),
    Holder = spawn(fun() -> true = erlang:suspend_process(Suspended), wait(Up) end),
    receive {ready, Holder} -> ok end,
    ok = sonde_test:settle([Sensitive, Hibernates, Deep, Never]),
    Pids ++ [Never].

wait(Up) ->
    Up ! {ready, self()},
    receive never -> ok end.

%% Behind the call in which it waits is the next one, on another line.
first_of_two() ->
    spawn(fun() ->
                  never(),
                  never(),
                  ok
          end).

never() -> receive never -> ok end.

deep(0, Up) -> wait(Up);
deep(N, Up) -> [deeper(N, Up)].

deeper(N, Up) -> {deep(N - 1, Up)}.

info_of_every_state(_Config) ->
    both(fun(Of, Twin) ->
        [Sensitive, Hibernates, Suspended, Deep, Never] = Of(?MODULE, states, []),
        {ok, Sections, _} = ask(Twin, info, [Sensitive]),
        Items = lists:append([All || {_, All} <- Sections]),
        {_, not_known} = lists:keyfind(dictionary_size, 1, Items),
        {_, waiting} = lists:keyfind(status, 1, Items),
        _ = [{dictionary, not_shown} = Item || {dictionary, _} = Item <- Items],
        _ = [compared(Of, Twin, Pid) || Pid <- [Hibernates, Deep, Never]],
        {ok, {status, suspended}, _} = ask(Twin, info, [Suspended, status]),
        {ok, {current_stacktrace, Trace}, _} = ask(Twin, info, [Deep, current_stacktrace]),
        8 = length(Trace)
    end).

what_cannot_be_known_is_said(_Config) ->
    both(fun(Of, Twin) ->
        Pid = Of(erlang, whereis, [init]),
        {ok, Sections, _} = ask(Twin, info, [Pid]),
        %% each item that the call has inside is there
        Inside = [{Category, [Item || {Item, _} <- Items]} || {Category, Items} <- Of(sonde, info, [Pid])],
        [] = [{Category, Item} || {Category, Items} <- Inside, {_, Here} <- [lists:keyfind(Category, 1, Sections)],
                                  Item <- Items, not lists:keymember(Item, 1, Here)],
        Items = lists:append([All || {_, All} <- Sections]),
        _ = [{Item, not_shown} = lists:keyfind(Item, 1, Items)
             || Item <- [dictionary, links, monitors, monitored_by]],
        _ = [{Item, not_known} = lists:keyfind(Item, 1, Items) || Item <- [trap_exit, garbage_collection]],
        _ = [begin
                 {error, {not_known, Item} = Why} = ask(Twin, info, [Pid, Item]),
                 true = has(atom_to_list(Item), sonde_outside:errors(Why))
             end || Item <- [dictionary, links, messages, trap_exit, priority, some_other]]
    end).

has(Part, Text) ->
    string:find(unicode:characters_to_list(Text), Part) =/= nomatch.

%% It is stopped just when it runs.
one_that_never_rests(_Config) ->
    both(fun(Of, Twin) ->
        Pid = Of(outside_rows_SUITE, spinner, []),
        OsPid = Of(os, getpid, []),
        ok = sonde_test:until(stopped_in_it, fun() ->
            "" = os:cmd("kill -STOP " ++ OsPid),
            try
                {ok, Sections, _} = ask(Twin, info, [process("sonde_spins")]),
                Items = lists:append([All || {_, All} <- Sections]),
                {_, sonde_spins} = atoms(lists:keyfind(registered_name, 1, Items)),
                {_, {outside_rows_SUITE, spins, 0}} = atoms(lists:keyfind(initial_call, 1, Items)),
                {_, Reductions} = lists:keyfind(reductions, 1, Items),
                true = is_integer(Reductions) andalso Reductions > 0,
                {_, 0} = lists:keyfind(message_queue_len, 1, Items),
                [running, busy, busy] =:=
                    [proplists:get_value(Key, Items) || Key <- [status, memory, current_stacktrace]]
            after
                "" = os:cmd("kill -CONT " ++ OsPid)
            end
        end),
        true = Of(erlang, exit, [Pid, kill])
    end).

%% ---- servers

%% In the target: a server with keys before and after proc_lib's own.
crowded() ->
    Pid = server(none),
    _ = sys:replace_state(Pid, fun(State) -> _ = [put({key, I}, I) || I <- lists:seq(1, 100)], State end),
    Pid.

behaviours_show_their_own_call(_Config) ->
    both(fun(Of, Twin) ->
        Pids = [Of(sonde_server_helper, server, [none]), Of(?MODULE, crowded, []), Of(erlang, whereis, [kernel_sup]),
                Of(erlang, whereis, [erl_signal_server])],
        Here = [Of(sonde_group, initial_call, [Pid, true]) || Pid <- Pids],
        [{sonde_server_helper, init, 1}, {sonde_server_helper, init, 1}, {supervisor, kernel, 1},
         {gen_event, init_it, 6}] = Here,
        ok = Of(sonde_test, settle, [Pids]),
        Here = [atoms(Call) || Pid <- Pids, {ok, {initial_call, Call}, _} <- [ask(Twin, info, [Pid, initial_call])]],
        {ok, Rows, _} = ask(Twin, proc_count, [memory, 1000]),
        Here = [atoms(Call) || Pid <- Pids, {P, _, Attrs} <- Rows, P =:= Pid, {initial_call, Call} <- Attrs],
        %% of a sensitive one nothing of its dictionary is shown
        _ = Of(sys, replace_state, [hd(Pids), fun(State) -> process_flag(sensitive, true), State end]),
        ok = Of(sonde_test, settle, [hd(Pids)]),
        {ok, {_, {proc_lib, init_p, 5}}, _} = ask(Twin, info, [hd(Pids), initial_call])
    end).

%% ---- waits

%% In the target: a chain of servers, and callers of the first one.
chain() ->
    End = server(none),
    Middle = server(End),
    true = register(outside_middle, Middle),
    Callers = [spawn(fun() -> gen_server:call(Middle, go, infinity) end) || _ <- lists:seq(1, 300)],
    ok = sonde_test:until(they_wait, fun() -> 601 =:= lists:sum([N || {Pid, N, _} <- sonde:waits(1000),
                                                                     lists:member(Pid, [End, Middle])]) end),
    {End, Middle, Callers}.

waits_are_those_of_the_target(_Config) ->
    both(fun(Of, Twin) ->
        {End, Middle, Callers} = Of(?MODULE, chain, []),
        Rows = all_waits(Twin, 20),
        Ours = fun(All) -> [atoms({Pid, N, lists:keydelete(longest_chain, 1, Attrs)})
                            || {Pid, N, Attrs} <- All, lists:member(Pid, [End, Middle])] end,
        %% inside, the command replaces the initial call
        Inside = [{Pid, N, lists:keyreplace(initial_call, 1, Attrs, {initial_call, {sonde_server_helper, init, 1}})}
                  || {Pid, N, Attrs} <- Ours(Of(sonde, waits, [1000]))],
        Inside = Ours(Rows),
        [{End, 301, First}, {Middle, 300, _}] = [Row || {Pid, _, _} = Row <- Rows, lists:member(Pid, [End, Middle])],
        {_, [Caller, Middle, End]} = lists:keyfind(longest_chain, 1, First),
        true = lists:member(Caller, Callers),
        {ok, [{End, _, _}], _} = ask(Twin, waits, [1]),
        {ok, [], _} = ask(Twin, waits, [0])
    end).

%% Of a target whose processes wait. One of its own may be busy for a moment, where the machine is.
all_waits(Twin, Tries) when Tries > 0 ->
    case ask(Twin, waits, [1000]) of
        {ok, Rows, #{left_out := 0}} -> Rows;
        {ok, _, #{missed := #{pids := [{_, busy} | _]}}} -> all_waits(Twin, Tries - 1)
    end.

%% In the target.
callers() ->
    Silent = sonde_test:hold(fun() -> ok end),
    Callers = [spawn(fun() -> Come(Silent) end) || {Module, _, Come} <- sonde_waits:places(), Module =/= proc_lib]
        ++ [spawn(fun() -> gen_statem:call(Silent, go) end),
            spawn(fun() -> gen_event:call(Silent, some, go, 100000) end),
            spawn(fun() -> io:get_line(Silent, "") end)],
    Starters = [spawn(fun() -> Start(Silent) end) || {proc_lib, _, Start} <- sonde_waits:places()],
    ok = sonde_test:settle(Callers ++ Starters),
    {Silent, length(Callers), Starters}.

%% Before the first look no process waits anywhere.
every_place_counts(_Config) ->
    both(fun(Of, Twin) ->
        {ok, _, _} = ask(Twin, waits, [10]),
        {Silent, N, Starters} = Of(?MODULE, callers, []),
        {ok, Rows, _} = ask(Twin, waits, [1000]),
        [N] = [Waiters || {Pid, Waiters, _} <- Rows, Pid =:= Silent],
        [] = Starters -- [Pid || {_, 1, [{longest_chain, [Pid, _]} | _]} <- Rows]
    end).

circle() ->
    [A, B, C] = [server(none) || _ <- [1, 2, 3]],
    _ = [gen_server:cast(From, {call, To}) || {From, To} <- [{A, B}, {B, C}, {C, A}]],
    ok = sonde_test:until(circle, fun() -> [] =/= [x || {Pid, _, Attrs} <- sonde:waits(1000), Pid =:= A,
                                                       {deadlock, _} <- Attrs] end),
    [A, B, C].

a_deadlock_there(_Config) ->
    both(fun(Of, Twin) ->
        [A, B, C] = Of(?MODULE, circle, []),
        {ok, Rows, _} = ask(Twin, waits, [1000]),
        [{A, 2, [B, C, A]}, {B, 2, [C, A, B]}, {C, 2, [A, B, C]}] =
            lists:sort([{Pid, N, Circle} || {Pid, N, Attrs} <- Rows, {deadlock, Circle} <- Attrs])
    end).

%% ---- groups

%% In the target, groups of processes that stay.
groups(By, Attrs) ->
    [Group || {Key, _, _} = Group <- sonde:proc_group(By, Attrs), lists:member(Key, stay(By))].

stay(initial_call) -> [{sonde_server_helper, init, 1}, {supervisor, kernel, 1}, {?MODULE, wait, 1}];
stay(current_function) -> [{?MODULE, wait, 1}];
stay(registered_name) -> [code_server, kernel_sup, outside_group].

members() ->
    Pids = [server(none) || _ <- lists:seq(1, 100)] ++ [spawn(?MODULE, wait, [self()]) || _ <- lists:seq(1, 100)],
    true = register(outside_group, lists:last(Pids)),
    Pids.

groups_are_those_of_the_target(_Config) ->
    both(fun(Of, Twin) ->
        Pids = Of(?MODULE, members, []),
        Attrs = [total_heap_size, stack_size, message_queue_len],
        _ = [ok = sonde_test:until({equal, By}, fun() -> % code_server may collect meanwhile
                 _ = Of(?MODULE, groups, [By, Attrs]), % makes each of them run
                 ok = Of(sonde_test, settle, [Pids]),
                 {ok, Groups, #{left_out := 0}} = ask(Twin, proc_group, [By, Attrs]),
                 Here = [Group || {Key, N, Totals} <- Groups, Group <- [{atoms(Key), N, Totals}],
                                  lists:member(element(1, Group), stay(By))],
                 {By, true} = {By, length(Here) > 0},
                 First = [Total || {_, _, [{total_heap_size, Total} | _]} <- Groups],
                 First = lists:reverse(lists:sort(First)),
                 Here =:= Of(?MODULE, groups, [By, Attrs])
             end) || By <- [initial_call, current_function, registered_name]],
        {ok, Groups, _} = ask(Twin, proc_group, [registered_name, [memory]]),
        [Many] = [N || {undefined, N, _} <- Groups],
        true = Many > 190
    end).

%% In the target: each has a leader of its own, which makes more keys than are counted natively.
leaders() ->
    Me = self(),
    Lead = fun() -> true = group_leader(self(), self()), Me ! led, sonde_kinds_helper:wait() end,
    Pids = [spawn(Lead) || _ <- lists:seq(1, 120000)],
    _ = [receive led -> ok end || _ <- Pids],
    sonde_test:settle(Pids).

more_groups_than_there_is_room_for(_Config) ->
    both(fun(Of, Twin) ->
        ok = Of(?MODULE, leaders, []),
        {ok, Groups, #{left_out := 0}} = ask(Twin, proc_group, [initial_call, [message_queue_len]]),
        true = lists:max([N || {_, N, _} <- Groups]) >= 120000
    end).

no_other_groups(_Config) ->
    both(fun(_, Twin) ->
        _ = [{error, {not_known, By}} = ask(Twin, proc_group, [By, [memory]]) || By <- [application, label]],
        {error, {not_known, min_heap_size}} = ask(Twin, proc_group, [initial_call, [memory, min_heap_size]]),
        {error, {not_there, proc_group}} =
            ask(Twin, proc_group, [initial_call, lists:duplicate(21, memory)])
    end).

%% ---- stopped

a_target_that_is_stopped_answers(_Config) ->
    both(fun(Of, Twin) ->
        {End, Middle, _} = Of(?MODULE, chain, []),
        OsPid = Of(os, getpid, []),
        ok = Of(sonde_test, settle, [[End, Middle]]),
        Said = Of(?MODULE, said, [End]),
        ok = Of(sonde_test, settle, [[End, Middle]]),
        "" = os:cmd("kill -STOP " ++ OsPid),
        try
            {ok, [{End, 301, _} | _], _} = ask(Twin, waits, [3]),
            {ok, {location, Items}, _} = ask(Twin, info, [process("outside_middle"), location]),
            {sonde_server_helper, init, 1} = atoms(proplists:get_value(initial_call, Items)),
            {ok, {memory, Memory}, _} = ask(Twin, info, [End, memory]),
            {Memory, Memory} = {map_get(memory, Said), Memory},
            {ok, Groups, _} = ask(Twin, proc_group, [initial_call, [memory]]),
            [2] = [N || {Key, N, _} <- atoms(Groups), Key =:= {sonde_server_helper, init, 1}]
        after
            "" = os:cmd("kill -CONT " ++ OsPid)
        end
    end).

%% ---- heaps, mailboxes, binaries

%% In the target: what is on heaps and in mailboxes. No two objects of one heap retain the same.
full() ->
    Binary = fun(I, Bytes) -> binary:copy(<<I>>, Bytes) end,
    Deep = sonde_test:hold(fun() ->
                               _ = [put({key, I}, [lists:seq(1, 100 * I), #{I => Binary(I, 60)}]) || I <- lists:seq(1, 20)],
                               {state, list_to_atom(text()), [list_to_tuple(lists:seq(1, 300 + 10 * I)) || I <- lists:seq(1, 20)]}
                           end),
    Keyed = sonde_test:hold(fun() ->
                                put(outside_key, lists:seq(1, 1000)),
                                put(list_to_atom(text()), lists:seq(1, 2000)),
                                put("a secret", lists:seq(1, 3000))
                            end),
    Letters = sonde_test:hold(fun() ->
                                  _ = [self() ! {self(), I, lists:seq(1, I), Binary(I, 50 * I)} || I <- lists:seq(1, 50)]
                              end),
    Slices = sonde_test:hold(fun() ->
                                 _ = [put(I, binary:part(Binary(I, 50000), I, 100 * I)) || I <- lists:seq(1, 20)],
                                 true = erlang:garbage_collect()
                             end),
    Garbage = sonde_test:hold(fun() ->
                                  true = erlang:garbage_collect(),
                                  [byte_size(Binary(I, 1000)) || I <- lists:seq(1, 20)]
                              end, [{min_heap_size, 10000}, {min_bin_vheap_size, 1000000}]),
    [Deep, Keyed, Letters, Slices, Garbage].

text() -> [1078, 32, 39, 10].

heaps_are_those_of_the_target(_Config) ->
    both(fun(Of, Twin) ->
        Pids = Of(?MODULE, full, []),
        _ = [begin
                 {ok, Rows, #{}} = ask(Twin, heap_top, [Pid, N]),
                 Inside = as_text(Of(sonde_heap_top, shape, [Pid, N, #{}])),
                 {Pid, Inside} = {Pid, as_text(Rows)},
                 {Pid, true} = {Pid, N =:= 0 orelse Rows =/= []}
             end || Pid <- Pids, N <- [0, 1, 30]],
        {ok, Rows, _} = ask(Twin, heap_top, [hd(Pids), 30]),
        30 = length(Rows),
        {error, {not_there, heap_top}} = ask(Twin, heap_top, [hd(Pids), -1])
    end).

as_text(Rows) ->
    [Row#{path := unicode:characters_to_list(sonde_heap_top:path_text(Path))} || #{path := Path} = Row <- Rows].

%% The twin has no atom for them. A key that is no atom is content.
keys_are_text(_Config) ->
    both(fun(Of, Twin) ->
        [_, Keyed | _] = Of(?MODULE, full, []),
        {ok, Rows, _} = ask(Twin, heap_top, [Keyed, 5]),
        Keys = [Key || #{path := [dictionary, {key, Key} | _]} <- Rows],
        ['_', Text, <<"outside_key">>] = Keys,
        Text = unicode:characters_to_binary(io_lib:format("~tp", [list_to_atom(text())])),
        [forbidden] = lists:usort([Preview || #{preview := Preview} <- Rows]),
        %% of a sensitive process none has a name
        Sensitive = Of(?MODULE, sensitive, []),
        {ok, Hidden, _} = ask(Twin, heap_top, [Sensitive, 5]),
        {['_'], _} = {lists:usort([Key || #{path := [dictionary, {key, Key} | _]} <- Hidden]), Hidden}
    end).

%% In the target.
sensitive() ->
    sonde_test:hold(fun() ->
                        true = is_boolean(process_flag(sensitive, true)),
                        put(outside_key, lists:seq(1, 1000))
                    end).

mailboxes_have_sizes(_Config) ->
    both(fun(Of, Twin) ->
        Pids = [_, _, Letters | _] = Of(?MODULE, full, []),
        _ = [begin
                 {ok, Outside, #{}} = ask(Twin, mailbox, [Pid, 10]),
                 Inside = Of(sonde, mailbox, [Pid, 0]),
                 {Pid, Inside} = {Pid, maps:without([content, constants], Outside)},
                 #{content := forbidden, constants := 0, shapes := []} = Outside
             end || Pid <- Pids],
        {ok, #{messages := 50, examined := 50}, _} = ask(Twin, mailbox, [Letters, 10])
    end).

%% In the target: a message that is partly a constant of this module, which is not copied.
constants() ->
    Pid = sonde_test:hold(fun() -> ok end),
    _ = [Pid ! {I, {a_constant, of_this, "module"}} || I <- lists:seq(1, 7)],
    ok = sonde_test:settle(Pid),
    Pid.

%% Where these are is not known there. Their references are counted instead, if the VM did not copy them.
constants_are_counted(_Config) ->
    both(fun(Of, Twin) ->
        Pid = Of(?MODULE, constants, []),
        #{bytes := Whole} = Of(sonde, mailbox, [Pid, 0]),
        {ok, #{messages := 7, bytes := Bytes, constants := Constants}, _} = ask(Twin, mailbox, [Pid, 0]),
        Tuple = 8 * (3 + 1 + 2 * length("module")),
        {Whole, Constants, Whole} = {Bytes + Constants * Tuple, Constants, Whole}
    end).

%% In the target: a `receive' that is interpreted calls a function for each message, and may not collect meanwhile. When
%% its heap is full, a fragment takes its place, while the messages stay where they are.
interpreted() ->
    {ok, Tokens, _} = erl_scan:string("F = fun Loop() -> receive never -> Loop() end end, F()."),
    {ok, Exprs} = erl_parse:parse_exprs(Tokens),
    Pid = spawn(fun() -> receive go -> erl_eval:exprs(Exprs, []) end end),
    _ = [Pid ! {work, a, b, I} || I <- lists:seq(1, 5000)],
    Pid ! go,
    ok = sonde_test:settle(Pid),
    Pid.

%% Where these messages are is known, so they are no constants.
a_heap_in_two_places_is_read(_Config) ->
    both(fun(Of, Twin) ->
        Pid = Of(?MODULE, interpreted, []),
        Known = [reachable, garbage, blocks, roots, binaries],
        #{reachable := Reachable, blocks := Blocks} = Inside = maps:with(Known, Of(sonde, heap, [Pid])),
        {ok, Heap, _} = ask(Twin, heap, [Pid]),
        Inside = maps:with(Known, Heap),
        {_, Info} = Of(erlang, process_info, [Pid, garbage_collection_info]),
        Sizes = [proplists:get_value(Item, Info) || Item <- [heap_block_size, old_heap_block_size, mbuf_size]],
        true = lists:sum(maps:values(Blocks)) > 8 * lists:sum(Sizes),
        {ok, #{messages := 5000, bytes := 200000, constants := 0}, _} = ask(Twin, mailbox, [Pid, 3]),
        %% a collection puts it together
        true = Of(erlang, garbage_collect, [Pid]),
        ok = Of(sonde_test, settle, [Pid]),
        {ok, #{reachable := Reachable}, _} = ask(Twin, heap, [Pid]),
        {ok, #{messages := 5000, bytes := 200000, constants := 0}, _} = ask(Twin, mailbox, [Pid, 3])
    end).

binaries_are_those_of_the_target(_Config) ->
    both(fun(Of, Twin) ->
        [_, _, _, Slices, Garbage] = Pids = Of(?MODULE, full, []),
        _ = [begin
                 {ok, Outside, #{}} = ask(Twin, bin_slices, [Pid]),
                 {Pid, Outside} = {Pid, Of(sonde, bin_slices, [Pid])}
             end || Pid <- Pids],
        Rows = fun(All) -> lists:sort([{Pid, Value, maps:with([worst], maps:from_list([A || {_, _} = A <- Attrs]))}
                                       || {Pid, Value, Attrs} <- All, lists:member(Pid, Pids)]) end,
        [[{Garbage, 20, _}], [{Slices, Waste, #{worst := [_, _, _]}}], Owned] =
            [begin
                 {ok, Outside, #{left_out := 0}} = ask(Twin, Function, [1000]),
                 Inside = Rows(Of(sonde, Function, [1000])),
                 {Function, Inside} = {Function, Rows(Outside)},
                 Values = [Value || {_, Value, _} <- Outside],
                 Values = lists:reverse(lists:sort(Values)),
                 Inside
             end || Function <- [bin_garbage, bin_waste, bin_owned]],
        Waste = lists:sum([50000 - 100 * I || I <- lists:seq(1, 20)]),
        {Slices, 1000000, _} = lists:keyfind(Slices, 1, Owned)
    end).

%% Tables are not read: what they hold with processes is elsewhere.
an_account_is_that_of_the_target(_Config) ->
    both(fun(Of, Twin) ->
        Holders = Of(core_SUITE, binaries, []),
        ok = Of(sonde_test, settle, [Holders]),
        #{mixed := Mixed, elsewhere := There} = Inside = Of(sonde, bin_account, []),
        {ok, #{elsewhere := Elsewhere} = Outside, #{left_out := 0}} = ask(Twin, bin_account, []),
        MB = 1 bsl 20,
        _ = [{Key, Bytes, Known, true} = {Key, Bytes, Known, abs(Bytes - Known) < MB}
             || Key <- [exclusive, shared, queues], #{Key := Known} <- [Inside], #{Key := Bytes} <- [Outside]],
        {_, true} = {Outside, map_get(exclusive, Outside) >= 11 * MB andalso map_get(shared, Outside) >= 7 * MB},
        {_, _, true} = {Elsewhere, Inside, abs(Elsewhere - Mixed - There) < MB}
    end).

%% To the byte, but for the names of functions.
dumps_are_those_of_the_target(Config) ->
    both([true], fun(Of, Twin) ->
        Pids = Of(?MODULE, full, []),
        _ = [begin
                 {Pid, {_, Inside}} = Of(core_SUITE, dumped, [Pid]),
                 File = filename:join(proplists:get_value(priv_dir, Config), "dump"),
                 {ok, #{bytes := Size}, _} = ask(Twin, dump, [Pid, File], #{values => false, force => true}),
                 {ok, Outside} = file:read_file(File),
                 Size = byte_size(Outside),
                 {Pid, []} = {Pid, [{A, B} || {A, B} <- lists:zip(core_SUITE:lines(Inside), core_SUITE:lines(Outside)), A =/= B,
                                              binary:match(A, <<"\"fun ">>) =:= nomatch]},
                 ok = file:delete(File)
             end || Pid <- Pids]
    end).

%% Also where the node itself would show it.
nothing_is_content(_Config) ->
    both(fun(Of, Twin) ->
        [Deep | _] = Of(?MODULE, full, []),
        true = lists:any(fun(#{preview := Preview}) -> is_binary(Preview) end, Of(sonde, heap_top, [Deep, 5])),
        [forbidden] = lists:usort([Preview || #{preview := Preview} <- Twin(sonde_heap_top, top, [Deep, 5, #{}])]),
        {error, content_forbidden} = Twin(sonde_mailbox, mailbox, [Deep, 5, #{}]),
        [{raised, badarg} = Twin(?MODULE, refused, [Kind, Deep]) || Kind <- [flat, mark]]
    end).

%% In the target: messages of many shapes, with tags that the twin does not have. No two shapes have as many.
letters() ->
    Pid = sonde_test:hold(fun() -> ok end),
    Tag = list_to_atom(text()),
    Shapes = [fun(_) -> Tag end, fun(I) -> {Tag, I} end, fun(I) -> {'$gen_call', {self(), I}, now} end, fun(I) -> [I] end,
              fun(I) -> {I, I} end, fun(I) -> #{I => I} end, fun(I) -> <<I>> end, fun(I) -> I end,
              fun(_) -> {whole, constant, "of this module"} end, fun(I) -> {'$gen_cast', Tag, I, I} end],
    _ = [Pid ! Shape(I) || {N, Shape} <- lists:enumerate(Shapes), I <- lists:seq(1, 3 * N)],
    ok = sonde_test:settle(Pid),
    Pid.

%% It is that which the node shows by itself. Nothing of a sensitive process is.
content_if_asked_for(_Config) ->
    both([true], fun(Of, Twin) ->
        Letters = Of(?MODULE, letters, []),
        #{shapes := Inside} = Whole = Of(sonde, mailbox, [Letters, 100]),
        {ok, #{shapes := Outside} = Mailbox, _} = ask(Twin, mailbox, [Letters, 100]),
        Shapes = fun(All) -> [{Shape, N, From} || #{shape := Shape, messages := N, from := From} <- All] end,
        {Same, Same} = {Shapes(Inside), [atoms(Row) || Row <- Shapes(Outside)]},
        10 = length(Same),
        {[], true} = {[content || content <- maps:keys(Mailbox)], map_get(messages, Whole) =:= map_get(messages, Mailbox)},
        {ok, #{shapes := [First, _]}, _} = ask(Twin, mailbox, [Letters, 2]),
        First = hd(Outside),
        [Deep, Keyed | _] = Of(?MODULE, full, []),
        _ = [begin
                 {ok, Rows, _} = ask(Twin, heap_top, [Pid, 20]),
                 There = as_text(Of(sonde, heap_top, [Pid, 20])),
                 {Pid, There} = {Pid, as_text(Rows)}
             end || Pid <- [Deep, Keyed]],
        Sensitive = Of(?MODULE, sensitive, []),
        {ok, Hidden, _} = ask(Twin, heap_top, [Sensitive, 5]),
        [sensitive] = lists:usort([Preview || #{preview := Preview} <- Hidden]),
        [{raised, badarg} = Twin(?MODULE, refused, [Kind, Deep]) || Kind <- [flat, mark]]
    end).

%% In the twin: kinds of looks whose answers have terms.
refused(Kind, Pid) ->
    try sonde_nif:look_new(Kind, Pid, [], 1000000, 0, 0) catch error:badarg -> {raised, badarg} end.

%% ---- reports

-define(MARKUP, "</script><script>alert(1)</script>").

%% The file of a report, and its data.
reported(Twin, Config, Opts, Interval) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "outside.html"),
    {ok, #{missing := Missing, incomplete := Cut}} = Twin(sonde_outside_report, write, [File, Opts#{force => true}, #{name => "process x", command => "sonde --pid 1", interval => Interval}]),
    {Missing ++ Cut, report_SUITE:data([{file, File}])}.

%% Ask(Function, Args) is answered from outside. Nothing changes there.
same_numbers(Data, Ask) ->
    Of = fun(Name) -> report_SUITE:section(Name, Data) end,
    Read = fun(Function, Args) -> {ok, Answer, _} = Ask(Function, Args), Answer end,
    #{<<"attrs">> := Attrs, <<"rows">> := Rows} = Of(<<"processes">>),
    ByPid = maps:from_list([{Pid, maps:from_list(lists:zip(Attrs, Values))} || [Pid, _, _, _ | Values] <- Rows]),
    Largest = fun(All) -> lists:sublist(lists:reverse(lists:sort(All)), 200) end,
    _ = [begin
             All = Read(proc_count, [binary_to_existing_atom(Attr), 100000]),
             Told = maps:from_list([{list_to_binary(pid_to_list(Pid)), Value} || {Pid, Value, _} <- All]),
             {Attr, []} = {Attr, [{Pid, Value} || {Pid, #{Attr := Value}} <- maps:to_list(ByPid), is_integer(Value), Value =/= maps:get(Pid, Told, Value)]},
             %% of equal ones, any
             {Most, Most} = {Largest([Value || {_, Value, _} <- All]), Largest([Value || #{Attr := Value} <- maps:values(ByPid), is_integer(Value)])}
         end || Attr <- Attrs],
    Text = fun(undefined) -> undefined; (Call) -> unicode:characters_to_binary(sonde_names:call(Call, true)) end,
    Groups = [[undefined, Text(Call), 1, N | [Total || {_, Total} <- Totals]]
              || {Call, N, Totals} <- Read(proc_group, [initial_call, [memory, binary_memory, message_queue_len]])],
    {[], []} = {Groups -- maps:get(<<"rows">>, Of(<<"groups">>)), maps:get(<<"rows">>, Of(<<"groups">>)) -- Groups},
    Waits = [{list_to_binary(pid_to_list(Pid)), N} || {Pid, N, _} <- Read(waits, [100])],
    Waits = [{Pid, N} || #{<<"process">> := Pid, <<"waiters">> := N} <- maps:get(<<"rows">>, Of(<<"waits">>))],
    #{<<"calls">> := Calls, <<"rows">> := Stacks} = Of(<<"stacks">>),
    Frames = list_to_tuple(Calls),
    {ok, Stacked, _} = Ask(stacks, [400]),
    true = lists:sum([N || {_, N, _} <- Stacked]) =:= lists:sum([N || [N | _] <- Stacks]),
    Innermost = fun([]) -> none; ([First | _]) -> Text(First) end,
    Sums = fun(All) -> lists:foldl(fun({Key, N}, Acc) -> maps:update_with(Key, fun(M) -> M + N end, N, Acc) end, #{}, All) end,
    {Same, Same} = {Sums([{Innermost(Stack), N} || {Stack, N, _} <- Stacked]),
                    Sums([{case lists:reverse(Stack) of [] -> none; [I | _] -> element(I + 1, Frames) end, N} || [N, Stack, _] <- Stacks])},
    Account = Read(bin_account, []),
    [] = [Part || [Part, Bytes] <- maps:get(<<"parts">>, Of(<<"binaries">>)), Bytes =/= map_get(binary_to_existing_atom(Part), Account)],
    #{memory := #{processes := Bytes}, counts := #{processes := {Count, Limit}}, read := InFull} = Read(diagnose, []),
    #{<<"read">> := InFull} = Of(<<"diagnosis">>),
    #{<<"memory">> := #{<<"processes">> := Bytes, <<"total">> := undefined}, <<"counts">> := [[<<"processes">>, Count, Limit, undefined]]} =
        Of(<<"diagnosis">>),
    #{<<"processes">> := [_, _, _] = Heaps} = Of(<<"heaps">>),
    _ = [#{reachable := Reachable} = Read(heap, [list_to_pid(binary_to_list(Pid))])
         || #{<<"process">> := Pid, <<"reachable">> := Reachable, <<"tree">> := #{<<"children">> := [_ | _]}} <- Heaps],
    ok.

%% What cannot be read from outside is said, in the result and on the page.
all_is_said(Missing, Data, More) ->
    Never = [<<"allocators">>, <<"ports">>, <<"sockets">>, <<"tables">>, <<"watcher">>],
    #{<<"sections">> := Sections} = Data,
    Failed = lists:sort([Name || {Name, #{<<"failed">> := _}} <- maps:to_list(Sections)]),
    Failed = lists:sort(Never ++ More),
    _ = [{Name, true} = {Name, has("from outside", Why)} || {Name, Why} <- Missing, lists:member(Name, Never)],
    _ = [{Name, #{<<"data">> := _, <<"cut">> := [_ | _]}} = {Name, map_get(Name, Sections)}
         || Name <- [<<"node">>, <<"diagnosis">>, <<"binaries">>, <<"groups">>]],
    14 = map_size(Sections),
    ok.

a_report_has_the_numbers_of_the_calls(Config) ->
    both(fun(Of, Twin) ->
        Pids = Of(?MODULE, full, []),
        {End, Middle, _} = Of(?MODULE, chain, []),
        Named = Of(?MODULE, named, [[?MARKUP]]),
        OsPid = Of(os, getpid, []),
        ok = Of(sonde_test, settle, [[End, Middle | Named ++ Pids]]),
        "" = os:cmd("kill -STOP " ++ OsPid),
        try
            _ = reported(Twin, Config, #{}, 0),
            Atoms = Twin(erlang, system_info, [atom_count]),
            {Missing, Data} = reported(Twin, Config, #{}, 0),
            Atoms = Twin(erlang, system_info, [atom_count]),
            ok = same_numbers(Data, fun(diagnose, []) -> ask(Twin, diagnose, [], #{interval => 0});
                                       (stacks, [N]) -> ask(Twin, stacks, [N], #{depth => 32});
                                       (Function, Args) -> ask(Twin, Function, Args)
                                    end),
            ok = all_is_said(Missing, Data, [<<"busy">>]),
            {ok, Host} = inet:gethostname(),
            Machine = list_to_binary(Host),
            #{<<"node">> := <<"process x">>, <<"outside">> := <<"read from outside, at one moment">>, <<"host">> := Machine} = Data,
            #{<<"suspects">> := [_ | _] = Suspects} = report_SUITE:section(<<"diagnosis">>, Data),
            [] = [See || #{<<"see">> := See} <- Suspects, not lists:prefix("sonde --pid 1 ", binary_to_list(See))],
            Name = <<"'" ?MARKUP "'">>,
            [_] = [Pid || [Pid, N | _] <- maps:get(<<"rows">>, report_SUITE:section(<<"processes">>, Data)), N =:= Name]
        after
            "" = os:cmd("kill -CONT " ++ OsPid)
        end
    end).

a_report_of_one_that_runs(Config) ->
    both(fun(Of, Twin) ->
        Pid = Of(outside_rows_SUITE, spinner, []),
        {Missing, Data} = reported(Twin, Config, #{}, 300),
        ok = all_is_said(Missing, Data, []),
        Text = list_to_binary(pid_to_list(Pid)),
        #{<<"ms">> := 300, <<"rows">> := Busy} = report_SUITE:section(<<"busy">>, Data),
        [<<"sonde_spins">>] = [Name || [P, Name | _] <- Busy, P =:= Text],
        %% it is not one of those that were read in full
        #{<<"read">> := InFull, <<"counts">> := [[<<"processes">>, Count | _]]} = report_SUITE:section(<<"diagnosis">>, Data),
        {_, true} = {{InFull, Count}, InFull > 0 andalso InFull < Count},
        %% it has what is whole at any time
        #{<<"attrs">> := Attrs, <<"rows">> := Rows} = report_SUITE:section(<<"processes">>, Data),
        [true] = [is_integer(proplists:get_value(<<"reductions">>, lists:zip(Attrs, Values))) || [P, _, _, _ | Values] <- Rows, P =:= Text],
        true = Of(erlang, exit, [Pid, kill])
    end).

a_report_shows_content_only_if_asked_for(Config) ->
    both([true], fun(Of, Twin) ->
        Large = Of(?MODULE, secretive, []),
        ok = Of(sonde_test, settle, [[Large]]),
        File = filename:join(proplists:get_value(priv_dir, Config), "outside.html"),
        Shown = fun(Opts) -> _ = reported(Twin, Config, Opts, 0), report_SUITE:secrets_in(report_SUITE:json([{file, File}])) end,
        [] = Shown(#{}),
        [_ | _] = Shown(#{content => true})
    end),
    both(fun(_, Twin) ->
        {error, content_forbidden} = Twin(sonde_outside_report, write, ["unwritten.html", #{content => true}, #{name => "x", command => "x", interval => 0}])
    end).

%% In the target.
secretive() ->
    sonde_test:hold(fun() ->
                        put("secret_key", lists:seq(1, 20000)),
                        {"secret_state", maps:from_list([{{"secret_key", I}, lists:seq(1, 100)} || I <- lists:seq(1, 300)])}
                    end).
