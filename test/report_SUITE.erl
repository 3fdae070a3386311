%% sonde:report/1: one file with the numbers of the calls, no content of terms, and no code made of names.
%% What could not be had is said in it, and it is made all the same.
-module(report_SUITE).

-compile([export_all, nowarn_export_all]).

-define(MARKUP, '</script><script>alert(1)</script>').
%% What turns the text after it around: overrides, isolates and marks.
-define(TURNS, [16#061C, 16#200E, 16#200F, 16#202A, 16#202B, 16#202C, 16#202D, 16#202E, 16#2066, 16#2067, 16#2068, 16#2069]).

suite() ->
    [{timetrap, {minutes, 3}}].

all() ->
    [one_file_for_its_owner, the_printed_page_is_ascii, numbers_are_those_of_the_calls, answering_is_no_work,
     binaries_are_those_of_the_account,
     stacks_and_waits_are_those_of_the_calls, history_is_the_watchers, names_are_text, names_turn_nothing_around, nothing_is_content,
     content_only_if_asked_for, sensitive_even_if_asked_for, content_forbidden, bad_options_are_badarg, files_are_never_overwritten, no_link_is_followed,
     no_time_is_said, nothing_in_time_is_an_error, little_time_is_enough_for_most, one_that_never_answers_is_left_out, large_ones_are_cut, all_that_are_large_are_cut, native_off_is_said, ends_with_its_caller,
     another_node, no_page_is_an_error, heaps_are_trees, small_tables_with_much_are_there, each_library_has_its_licence].

init_per_suite(Config) ->
    sonde_test:init(Config).

end_per_suite(_Config) ->
    ok.

init_per_testcase(Case, Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), Case),
    ok = file:make_dir(Dir),
    [{file, filename:join(Dir, "report.html")} | Config].

end_per_testcase(_Case, _Config) ->
    ok.

file(Config) -> proplists:get_value(file, Config).

%% The quickest report.
report(Config) -> report(#{}, Config).

report(Opts, Config) ->
    {ok, Written} = sonde:report(file(Config), maps:merge(#{interval => 100, force => true}, Opts)),
    Written.

page(Config) ->
    {ok, Page} = file:read_file(file(Config)),
    Page.

%% The data in a file, as JSON.
json(Config) ->
    [_, Rest] = binary:split(page(Config), <<"<script type=\"application/json\" id=\"data\">">>),
    [Json, _] = binary:split(Rest, <<"</script>">>),
    Json.

data(Config) -> cli_SUITE:read(json(Config)).

section(Name, Data) ->
    #{<<"sections">> := #{Name := #{<<"data">> := Section}}} = Data,
    Section.

%% One section as it is made.
made(Name) -> made(Name, #{}).

made(Name, Opts) ->
    Defaults = maps:map(fun(_, {Default, _}) -> Default end, sonde_report_data:options()),
    #{data := Data} = sonde_helper:call(
                        fun(_) -> sonde_report_sections:section(
                                    Name, maps:merge(Defaults#{side => sonde_vm:side(), interval => 100}, Opts))
                        end),
    Data.

%% ---- what works

%% The names of each process are asked for while the work is measured, and others may ask as well.
answering_is_no_work(_Config) ->
    Idle = [spawn_link(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, 20)],
    Asks = spawn_link(fun Ask() -> _ = [process_info(Pid, status) || Pid <- Idle], ok = timer:sleep(20), Ask() end),
    Works = spawn_link(fun Work() -> _ = lists:seq(1, 1000), Work() end),
    #{rows := Rows} = made(busy),
    _ = [begin unlink(Pid), exit(Pid, kill) end || Pid <- [Asks, Works | Idle]],
    Listed = fun(Pid) -> lists:keymember(list_to_binary(pid_to_list(Pid)), 1, Rows) end,
    true = Listed(Works),
    [] = lists:filter(Listed, Idle),
    ok.

%% ---- the file

one_file_for_its_owner(Config) ->
    #{bytes := Bytes, ms := Ms, missing := Missing} = report(Config),
    {ok, Info} = file:read_file_info(file(Config)),
    {8#600, Bytes} = {element(8, Info) band 8#777, filelib:file_size(file(Config))},
    true = Bytes < 2000000 andalso is_integer(Ms),
    {_, _} = lists:keyfind(<<"watcher">>, 1, Missing),
    Page = page(Config),
    %% a policy, one style, one script and the data; no address but those in the licences
    [_, Policy, _] = re:split(Page, "Content-Security-Policy\" content=\"([^\"]+)\""),
    {match, _} = re:run(Policy, "^default-src 'none'; script-src 'sha256-[^' ]+'; style-src 'sha256-[^' ]+'; "),
    nomatch = re:run(Policy, "unsafe|http"),
    [] = [Found || Pattern <- [" src=", " href=\"http", "@import", "url\\(", " on[a-z]+=\"", " style=\"", "sourceMappingURL", "@[A-Z]+@"],
                   {match, Found} <- [re:run(Page, Pattern, [{capture, all, binary}])]],
    #{<<"node">> := _, <<"version">> := 1} = data(Config),
    ok.

%% So it is the same on a device of any encoding. It is the page of the file.
the_printed_page_is_ascii(Config) ->
    Name = [16#E9, 16#142, 16#540D, 16#1F600, $<],
    true = register(list_to_atom(Name), self()),
    {ok, #{page := Page, missing := [_ | _], incomplete := _} = Written} = sonde_report:printed(#{interval => 100}, here),
    3 = map_size(Written),
    [] = [C || <<C>> <= Page, C >= 128],
    ok = file:write_file(file(Config), Page),
    #{<<"rows">> := Rows} = section(<<"processes">>, data(Config)),
    Shown = unicode:characters_to_binary(["'", Name, "'"]),
    [Shown] = [N || [_, N | _] <- Rows, N =:= Shown],
    true = unregister(list_to_atom(Name)),
    Printed = frame(page(Config)),
    _ = report(Config),
    Printed = frame(page(Config)),
    badarg = sonde_test:raised(fun() -> sonde_report:printed(#{none => 1}, here) end),
    ok.

%% What stands before and after the data.
frame(Page) ->
    [Before, Rest] = binary:split(Page, <<"<script type=\"application/json\" id=\"data\">">>),
    [_, After] = binary:split(Rest, <<"</script>">>),
    {Before, After}.

files_are_never_overwritten(Config) ->
    File = file(Config),
    Quick = #{interval => 100},
    {ok, _} = sonde:report(File, Quick),
    Before = page(Config),
    {error, eexist} = sonde:report(File, Quick),
    Before = page(Config),
    {ok, _} = sonde:report(File, Quick#{force => true}),
    true = Before =/= page(Config),
    {error, enoent} = sonde:report(filename:join(File ++ ".none", "report.html"), Quick),
    {error, eisdir} = sonde:report(filename:dirname(File), Quick#{force => true}),
    {ok, ["report.html"]} = file:list_dir(filename:dirname(File)).

%% Whoever placed the link: what it leads to stays as it is, and is not made.
no_link_is_followed(Config) ->
    File = file(Config),
    In = fun(Name) -> filename:join(filename:dirname(File), Name) end,
    Quick = #{interval => 100},
    ok = file:write_file(In("theirs"), "theirs"),
    _ = [begin
             ok = file:make_symlink(To, File),
             {error, eexist} = sonde:report(File, Quick),
             {ok, To} = file:read_link(File),
             {ok, _} = sonde:report(File, Quick#{force => true}),
             {ok, Info} = file:read_link_info(File),
             {regular, 8#600} = {element(3, Info), element(8, Info) band 8#777},
             #{<<"node">> := _} = data(Config),
             ok = file:delete(File)
         end || To <- ["theirs", In("theirs"), "none"]],
    {ok, <<"theirs">>} = file:read_file(In("theirs")),
    {ok, ["theirs"]} = file:list_dir(filename:dirname(File)),
    %% one to a device stays
    ok = file:make_symlink("/dev/null", File),
    {error, eexist} = sonde:report(File, Quick#{force => true}),
    {ok, "/dev/null"} = file:read_link(File).

bad_options_are_badarg(Config) ->
    File = file(Config),
    _ = [{Bad, badarg} = {Bad, sonde_test:raised(fun() -> sonde:report(File, Bad) end)}
         || Bad <- [#{none => 1}, #{force => 1}, #{content => yes}, #{interval => 99}, #{interval => 600001},
                    #{interval => 1.0}, #{top => 0}, #{top => 1001}, #{timeout => 0}, #{timeout => infinity},
                    #{node => "n"}, #{watcher => 1}, #{version => "1"}, [], none]],
    _ = [{Bad, badarg} = {Bad, sonde_test:raised(fun() -> sonde:report(Bad) end)} || Bad <- [1, {file}, "a\0b", "", <<>>, [a | b], ["x", [a | b]]]],
    {error, enoent} = file:read_file(File).

no_page_is_an_error(_Config) ->
    {error, no_page} = sonde_report:page(fun() -> error end),
    {error, no_page} = sonde_report:page(fun() -> {ok, <<"<html>">>} end),
    {ok, {<<"a">>, <<"b">>}} = sonde_report:page(fun() -> {ok, <<"a@SONDE-DATA@b">>} end).

%% A helper notices that its caller is gone, and removes the file.
ends_with_its_caller(Config) ->
    File = file(Config),
    [Caller] = sonde_test:churn(1, fun() -> sonde:report(File, #{interval => 60000, force => true}) end),
    Dir = filename:dirname(File),
    Is = fun(N) -> fun() -> {ok, Names} = file:list_dir(Dir), length(Names) =:= N end end,
    ok = sonde_test:until(written, Is(1)),
    ok = sonde_test:stop(Caller),
    ok = sonde_test:until(removed, Is(0)),
    ok = sonde_test:until(ended, fun() -> sonde_test:helpers() =:= [] end).

%% ---- the numbers

numbers_are_those_of_the_calls(Config) ->
    Crowd = sonde_test:crowd(40),
    Table = ets:new(report_suite_table, [public]),
    true = ets:insert(Table, [{I, binary:copy(<<"b">>, 1000)} || I <- lists:seq(1, 50)]),
    _ = report(Config),
    Data = data(Config),
    Attrs = sonde_report_sections:attrs(),
    Still = lists:delete(reductions, Attrs), % to be asked takes some
    #{<<"attrs">> := Named, <<"rows">> := Rows} = section(<<"processes">>, Data),
    Named = [atom_to_binary(Attr) || Attr <- Attrs],
    ByPid = maps:from_list([{Pid, Values} || [Pid, _, _, _ | Values] <- Rows]),
    _ = [begin
             Told = sonde:info(Pid, Still),
             Row = [V || {Attr, _} = V <- lists:zip(Attrs, map_get(text(Pid), ByPid)), Attr =/= reductions],
             {Pid, [], []} = {Pid, Told -- Row, Row -- Told}
         end || Pid <- Crowd],
    %% the groups are all processes, and those of the crowd together
    #{<<"rows">> := Groups} = section(<<"groups">>, Data),
    true = lists:sum([N || [_, _, _, N | _] <- Groups]) >= 40,
    Calls = [iolist_to_binary(sonde_names:call(Call, true))
             || {initial_call, Call} <- [process_info(hd(Crowd), initial_call)]],
    true = lists:sum([N || [_, Call, 1, N | _] <- Groups, [Call] =:= Calls]) >= 40,
    Bytes = ets:info(Table, memory) * erlang:system_info(wordsize),
    [[_, _, <<"set">>, <<"public">>, 50, Bytes, 50000]] =
        [Row || [Name | _] = Row <- maps:get(<<"rows">>, section(<<"tables">>, Data)),
                binary:match(Name, text(Table)) =/= nomatch],
    #{<<"counts">> := Counts} = section(<<"diagnosis">>, Data),
    [{<<"processes">>, _}, {<<"ports">>, _}, {<<"atoms">>, _}, {<<"tables">>, _}] =
        [{Kind, Limit} || [Kind, _, Limit, _] <- Counts],
    #{<<"rows">> := Allocators} = section(<<"allocators">>, Data),
    true = lists:sum([Sbcs + Mbcs || [_, _, _, Sbcs, _, Mbcs] <- Allocators]) > 0,
    Few = made(processes, #{top => 3}),
    true = length(maps:get(rows, Few)) =< 3 * length(Attrs),
    _ = [{Attr, Most} = {Attr, lists:sublist(largest(I, maps:get(rows, Few)), 1)}
         || {I, Attr} <- lists:zip(lists:seq(5, 4 + length(Attrs)), Attrs), Attr =:= dictionary_size,
            Most <- [[lists:max([V || {_, V, _} <- sonde:proc_count(Attr, 1)])]]],
    true = ets:delete(Table),
    sonde_test:stop(Crowd).

largest(I, Rows) -> lists:reverse(lists:sort([element(I, Row) || Row <- Rows])).

text(Pid) when is_pid(Pid) -> list_to_binary(pid_to_list(Pid));
text(Ref) -> list_to_binary(ref_to_list(Ref)).

binaries_are_those_of_the_account(_Config) ->
    Large = binary:copy(<<"l">>, 5000000),
    [Pid] = sonde_test:hold_each([fun() -> Large end], []),
    report_suite_binaries = ets:new(report_suite_binaries, [named_table, public]),
    Check = fun() ->
                    #{parts := Made, holders := [#{size := Size, holders := Holders} | _]} = made(binaries),
                    Account = sonde:bin_account(),
                    5000000 = Size,
                    true = lists:any(fun({Name, 1, 5000000}) -> binary:match(Name, text(Pid)) =/= nomatch; (_) -> false end, Holders),
                    %% the suite's own garbage comes and goes
                    [] = [{P, B} || {P, B} <- Made, P =/= <<"unseen">>,
                                    abs(B - map_get(binary_to_existing_atom(P), Account)) > 1000000],
                    true
            end,
    true = Check(),
    {_, true} = sonde_test:in_process(fun() -> ets:insert(report_suite_binaries, {copy, binary:copy(<<"e">>, 3000000)}) end),
    true = Check(),
    #{parts := Parts} = made(binaries),
    true = proplists:get_value(<<"ets">>, Parts) >= 3000000,
    true = byte_size(Large) =:= 5000000,
    true = ets:delete(report_suite_binaries),
    sonde_test:stop(Pid).

stacks_and_waits_are_those_of_the_calls(_Config) ->
    Last = sonde_test:hold(fun() -> [] end),
    Waiting = [spawn(fun() -> gen_server:call(Last, ask, infinity) end) || _ <- lists:seq(1, 7)],
    ok = sonde_test:until(all_wait, fun() -> waits_for(Last) =:= 7 end),
    Text = text(Last),
    #{rows := Rows} = made(waits),
    [#{waiters := 7, direct := 7, waits_for := undefined, deadlock := []}] = [Row || #{process := P} = Row <- Rows, P =:= Text],
    #{calls := Calls, rows := Stacks} = made(stacks),
    Names = list_to_tuple(Calls),
    [7] = [N || {N, Stack, _} <- Stacks, N =:= 7,
                [<<"gen:do_call/4">> | _] <- [lists:reverse([element(I + 1, Names) || I <- tuple_to_list(Stack)])]],
    true = lists:sum([N || {N, _, _} <- Stacks]) >= length(processes()) - 10,
    sonde_test:stop([Last | Waiting]).

waits_for(Pid) ->
    case [N || {P, N, _} <- sonde:waits(100), P =:= Pid] of
        [N] -> N;
        [] -> 0
    end.

history_is_the_watchers(Config) ->
    {ok, Watcher} = sonde_watch:start_link(#{interval => 20, budget => 100, name => undefined}),
    ok = sonde_test:until(samples, fun() -> length(sonde_watch:history(Watcher, 10)) >= 3 end),
    #{missing := Missing} = report(#{watcher => Watcher}, Config),
    false = lists:keyfind(<<"watcher">>, 1, Missing),
    #{<<"times">> := Times, <<"series">> := Series, <<"findings">> := []} = section(<<"watcher">>, data(Config)),
    Kept = maps:from_list([{Time, Sample} || #{time := Time} = Sample <- sonde_watch:history(Watcher, 1000)]),
    [_, _, _ | _] = Times,
    [[_, _, Bytes]] = [One || [<<"memory">>, <<"binary">> | _] = One <- Series],
    [[_, _, Processes]] = [One || [<<"count">>, <<"processes">> | _] = One <- Series],
    Expected = [{proplists:get_value(binary, M), element(2, lists:keyfind(processes, 1, C))}
                || Time <- Times, #{memory := M, counts := C} <- [map_get(Time, Kept)]],
    Expected = lists:zip(Bytes, Processes),
    true = unlink(Watcher),
    sonde_test:stop(Watcher).

%% ---- names and content

names_are_text(Config) ->
    Pid = sonde_test:hold(fun() -> lists:seq(1, 1000) end),
    true = register(?MARKUP, Pid),
    ?MARKUP = ets:new(?MARKUP, [named_table, public]),
    _ = report(Config),
    Page = page(Config),
    {2, 2} = {length(binary:matches(Page, <<"<script">>)), length(binary:matches(Page, <<"</script>">>))},
    nomatch = binary:match(json(Config), <<"<">>),
    Data = data(Config),
    Name = <<"'", (atom_to_binary(?MARKUP))/binary, "'">>,
    [_] = [P || [P, N | _] <- maps:get(<<"rows">>, section(<<"processes">>, Data)), N =:= Name],
    [_] = [N || [N | _] <- maps:get(<<"rows">>, section(<<"tables">>, Data)), N =:= Name],
    true = ets:delete(?MARKUP),
    sonde_test:stop(Pid).

%% A name with each of them, and what the page may show instead.
turned() ->
    {list_to_atom("turned" ++ ?TURNS),
     unicode:characters_to_binary(["'turned", [io_lib:format("\\x{~.16B}", [C]) || C <- ?TURNS], "'"])}.

turns_in(Json) -> [C || C <- ?TURNS, binary:match(Json, <<C/utf8>>) =/= nomatch].

%% In rows, in sentences of the diagnosis, in the names of a heap and in a call.
names_turn_nothing_around(Config) ->
    {Name, Shown} = turned(),
    Pid = sonde_test:hold(fun() -> _ = put(Name, lists:seq(1, 2000000)), [self() ! I || I <- lists:seq(1, 20000)] end),
    true = register(Name, Pid),
    Name = ets:new(Name, [named_table, public]),
    _ = report(#{content => true}, Config),
    [] = turns_in(json(Config)),
    Data = data(Config),
    [_] = [P || [P, N | _] <- maps:get(<<"rows">>, section(<<"processes">>, Data)), N =:= Shown],
    [_] = [N || [N | _] <- maps:get(<<"rows">>, section(<<"tables">>, Data)), N =:= Shown],
    [] = turns_in(sonde_report_text:call({Name, Name, 1})),
    [] = turns_in(sonde_report_text:long(["suspect ", atom_to_list(Name)])),
    %% one that is cut has no half of an escape
    Long = sonde_report_text:text(lists:duplicate(500, 16#202E)),
    Whole = iolist_to_binary([lists:duplicate(197, "\\x{202E}"), "..."]),
    Whole = Long,
    %% letters of scripts from right to left are names as others are
    Hebrew = <<"'שלום'"/utf8>>,
    Hebrew = sonde_report_text:name(list_to_atom([16#5E9, 16#5DC, 16#5D5, 16#5DD])),
    true = ets:delete(Name),
    sonde_test:stop(Pid).

%% A table of three rows is among the smallest, though they refer to more than any other's.
small_tables_with_much_are_there(_Config) ->
    Others = [ets:insert(Tab, [{I} || I <- lists:seq(1, 5)]) andalso Tab
              || Tab <- [ets:new(other, []) || _ <- lists:seq(1, 10)]],
    Table = ets:new(much, []),
    true = ets:insert(Table, [{I, binary:copy(<<I>>, 30000000)} || I <- lists:seq(1, 3)]),
    Rows = fun(Opts) -> maps:get(rows, made(tables, maps:merge(#{top => 3}, Opts))) end,
    [{_, _, _, _, 3, _, 90000000}] = [Row || Row <- Rows(#{}), element(7, Row) =:= 90000000],
    %% without the question, only the largest are read
    [] = [Row || Row <- Rows(#{binaries => false}), element(5, Row) =:= 3, element(1, Row) =:= <<"much">>],
    lists:foreach(fun ets:delete/1, [Table | Others]).

%% Secrets in each place where a process, a table or a port may have some.
secrets() ->
    Holder = sonde_test:hold(fun() ->
                                     _ = put(<<"secret_key">>, <<"secret_dictionary">>),
                                     _ = put({"secret_tuple", 1}, [binary_to_list(<<"secret_list">>)]),
                                     _ = [self() ! {"secret_message", I} || I <- lists:seq(1, 20)],
                                     _ = [proc_lib:set_label("secret_label") || erlang:function_exported(proc_lib, set_label, 1)],
                                     {"secret_state", maps:from_list([{{"secret_key", I}, binary:copy(<<"secret_binary">>, 100)}
                                                                      || I <- lists:seq(1, 2000)]), lists:seq(1, 2000000)}
                             end),
    Table = ets:new(report_suite_secrets, [public]),
    true = ets:insert(Table, {<<"secret_row">>, <<"secret_value">>}),
    ok = persistent_term:put(<<"secret_term">>, <<"secret_kept">>),
    Port = open_port({spawn, "cat - secret_argument"}, []),
    {Holder, fun() ->
                     true = ets:delete(Table),
                     true = persistent_term:erase(<<"secret_term">>),
                     _ = try port_close(Port) catch error:badarg -> closed end,
                     sonde_test:stop(Holder)
             end}.

nothing_is_content(Config) ->
    {Holder, Clean} = secrets(),
    _ = report(Config),
    true = is_in(text(Holder), json(Config)),
    [] = secrets_in(json(Config)),
    Clean().

is_in(Text, Json) -> binary:match(Json, binary:replace(Text, <<"<">>, <<"\\u003c">>)) =/= nomatch.

secrets_in(Json) ->
    case re:run(Json, "secret_[a-z]+", [global, {capture, all, binary}]) of
        {match, Found} -> lists:usort(lists:append(Found));
        nomatch -> []
    end.

content_only_if_asked_for(Config) ->
    {_, Clean} = secrets(),
    _ = report(#{content => true}, Config),
    #{<<"content">> := true} = data(Config),
    Found = secrets_in(json(Config)),
    Clean(),
    %% of the heap, and of nothing else
    sonde_test:pick(fun() -> [_ | _] = [F || F <- Found, F =:= <<"secret_key">> orelse F =:= <<"secret_state">>] end, ok),
    [] = [F || F <- Found, lists:member(F, [<<"secret_row">>, <<"secret_value">>, <<"secret_term">>, <<"secret_kept">>,
                                            <<"secret_argument">>, <<"secret_label">>])].

sensitive_even_if_asked_for(Config) ->
    Holder = sonde_test:hold(fun() ->
                                     _ = process_flag(sensitive, true),
                                     _ = put(<<"secret_key">>, <<"secret_dictionary">>),
                                     _ = put(secret_atom, lists:seq(1, 2000000)),
                                     []
                             end),
    _ = report(#{content => true}, Config),
    [] = secrets_in(json(Config)),
    sonde_test:pick(fun() ->
                            #{<<"processes">> := [#{<<"process">> := Pid, <<"sensitive">> := true} | _]} =
                                section(<<"heaps">>, data(Config)),
                            Pid = text(Holder)
                    end, ok),
    sonde_test:stop(Holder).

content_forbidden(Config) ->
    sonde_peer_helper:with(
      shipped, ["-sonde", "allow_content", "false"],
      fun(Peer) ->
              Report = fun(Opts) -> sonde_peer_helper:call(Peer, sonde, report, [file(Config), Opts#{interval => 100}]) end,
              {error, content_forbidden} = Report(#{content => true}),
              {error, enoent} = file:read_file(file(Config)),
              {ok, _} = Report(#{}),
              #{<<"content">> := false} = data(Config)
      end),
    ok.

%% ---- what is missing

%% Sections as Section makes them, on no node.
source(Section) -> #{node => <<"none">>, outside => <<"made up">>, section => Section}.

no_time_is_said(Config) ->
    Section = fun(diagnosis, _) -> receive after 20000 -> #{data => #{}} end;
                 (_, _) -> #{data => #{}}
              end,
    {ok, #{missing := Missing}} = sonde_report:write(file(Config), #{timeout => 3000}, source(Section)),
    Late = [Name || {Name, <<"it was not done in time">>} <- Missing],
    true = lists:member(<<"diagnosis">>, Late) andalso lists:member(<<"heaps">>, Late),
    #{<<"sections">> := #{<<"diagnosis">> := #{<<"failed">> := <<"it was not done in time">>}, <<"ports">> := #{<<"data">> := _}}} = data(Config),
    ok = sonde_test:until(ended, fun() -> sonde_test:helpers() =:= [] end).

%% Neither an empty file nor success.
nothing_in_time_is_an_error(Config) ->
    Never = fun(_, _) -> receive after infinity -> #{} end end,
    {error, timeout} = sonde_report:write(file(Config), #{timeout => 300}, source(Never)),
    {error, enoent} = file:read_file_info(file(Config)),
    ok = sonde_test:until(ended, fun() -> sonde_test:helpers() =:= [] end),
    %% that there is nothing is no matter of time
    None = fun(_, _) -> throw({none, <<"there is none">>}) end,
    {ok, #{missing := Missing}} = sonde_report:write(file(Config), #{timeout => 60000}, source(None)),
    [<<"there is none">>] = lists:usort([Why || {_, Why} <- Missing]).

%% What watches nothing begins before the diagnosis, which takes no longer than there is time.
little_time_is_enough_for_most(Config) ->
    Self = self(),
    Section = fun(Name, #{interval := Ms}) -> Self ! {began, Name, Ms}, #{data => #{}} end,
    {ok, _} = sonde_report:write(file(Config), #{timeout => 60000, interval => 600000}, source(Section)),
    Began = (fun All() -> receive {began, Name, Ms} -> [{Name, Ms} | All()] after 0 -> [] end end)(),
    {AtOnce, Others} = lists:split(9, Began),
    [allocators, binaries, groups, ports, processes, sockets, stacks, tables, waits] = lists:sort([Name || {Name, _} <- AtOnce]),
    [busy, diagnosis, heaps, node, watcher] = lists:sort([Name || {Name, _} <- Others]),
    {_, Watch} = lists:keyfind(diagnosis, 1, Others),
    true = Watch =< 30000 andalso Watch >= 100,
    %% as here
    #{missing := Missing, incomplete := Cut} = report(#{timeout => 5000, interval => 600000}, Config),
    #{<<"sections">> := #{<<"ports">> := #{<<"data">> := _}}} = data(Config),
    {_, Why} = lists:keyfind(<<"diagnosis">>, 1, Missing ++ Cut),
    {match, _} = re:run(Why, "^(there was time to watch the node for [0-9]+ ms, not for 600000 ms|it was not done in time)$"),
    %% and where there is time, it is watched as long as asked for
    _ = report(#{interval => 150}, Config),
    #{<<"ms">> := 150} = section(<<"node">>, data(Config)).

one_that_never_answers_is_left_out(Config) ->
    {ok, Deaf} = sonde_watch:start_link(#{interval => 100000, name => undefined}),
    ok = sys:suspend(Deaf),
    #{missing := Missing} = report(#{watcher => Deaf, timeout => 3000}, Config),
    {_, <<"it was not done in time">>} = lists:keyfind(<<"watcher">>, 1, Missing),
    false = lists:keyfind(<<"stacks">>, 1, Missing),
    true = unlink(Deaf),
    sonde_test:stop(Deaf).

%% Names of the largest size, of characters that JSON writes with six.
large_ones_are_cut(Config) ->
    Names = [list_to_atom(lists:duplicate(250, 16#1F600) ++ integer_to_list(I)) || I <- lists:seq(10000, 10350)],
    Pids = sonde_test:hold_each([fun() -> [] end || _ <- Names], []),
    _ = [true = register(Name, Pid) || {Name, Pid} <- lists:zip(Names, Pids)],
    #{bytes := Bytes, missing := Missing, incomplete := Cut} = report(#{top => 1000}, Config),
    false = lists:keyfind(<<"processes">>, 1, Missing),
    true = Bytes < 2000000,
    {_, <<"shortened: it was too large">>} = lists:keyfind(<<"processes">>, 1, Cut),
    #{<<"sections">> := #{<<"processes">> := #{<<"cut">> := [_], <<"data">> := #{<<"rows">> := [_ | _]}}}} = data(Config),
    sonde_test:stop(Pids).

%% Whatever the sections have, the file is small, and says what it left out.
all_that_are_large_are_cut(Config) ->
    Write = fun(Section) ->
                    {ok, #{bytes := Bytes, missing := Missing, incomplete := Cut}} =
                        sonde_report:write(file(Config), #{interval => 100, force => true},
                                           #{node => <<"made up">>, outside => <<"not at all">>, section => fun(Name, _) -> Section(Name) end}),
                    true = Bytes < 2000000,
                    #{<<"sections">> := Sections} = data(Config),
                    {Sections, Missing, [Name || {Name, <<"shortened: it was too large">>} <- Cut]}
            end,
    Rows = fun(N, Text) -> #{data => #{rows => [[I, Text] || I <- lists:seq(1, N)]}} end,
    Text = binary:copy(<<"x">>, 90),
    _ = [begin
             {Sections, [], Shortened} = Write(fun(_) -> Rows(N, Of) end),
             true = map_size(Sections) > 10,
             [] = maps:keys(Sections) -- Shortened,
             [] = [Name || {Name, #{<<"data">> := #{<<"rows">> := Few}}} <- maps:to_list(Sections), length(Few) < 100 orelse length(Few) >= N]
         end || {N, Of} <- [{2000, Text}, {4000, Text}, {2000, binary:copy(<<"<">>, 90)}]],
    %% One that cannot be shortened is missing, and the others are there.
    {_, [{<<"groups">>, <<"it is too large">>}], []} =
        Write(fun(groups) -> #{data => #{text => binary:copy(<<"<">>, 200000)}}; (_) -> Rows(10, Text) end).

native_off_is_said(Config) ->
    #{missing := Missing} = report(Config),
    Off = lists:sort([Name || {Name, <<"the native path is off (disabled)", _/binary>>} <- Missing]),
    Off = sonde_test:pick([], [<<"binaries">>, <<"heaps">>, <<"waits">>]),
    #{<<"native">> := Native, <<"sections">> := Sections} = data(Config),
    Native = sonde_test:pick(<<"native">>, <<"disabled">>),
    _ = [#{Name := #{<<"failed">> := _}} = Sections || Name <- Off],
    #{<<"processes">> := #{<<"data">> := _}, <<"groups">> := #{<<"data">> := _}, <<"stacks">> := #{<<"data">> := _}} = Sections,
    ok.

%% ---- another node: its numbers, and the file here

another_node(Config) ->
    sonde_peer_helper:with_nodes(
      [shipped, shipped, bare],
      fun([{Here, _}, {There, Node}, {_, Bare}]) ->
              Pid = sonde_peer_helper:call(There, ?MODULE, named_there, []),
              Report = fun(Opts) -> sonde_peer_helper:call(Here, sonde, report, [file(Config), Opts#{interval => 100, force => true}]) end,
              {ok, _} = Report(#{node => Node}),
              Data = data(Config),
              Name = atom_to_binary(Node),
              #{<<"node">> := Name} = Data,
              [[Pid | _]] = [Row || [_, <<"report_suite_there">> | _] = Row <- maps:get(<<"rows">>, section(<<"processes">>, Data))],
              Page = page(Config),
              {error, {Bare, no_sonde}} = Report(#{node => Bare}),
              {error, {nobody@nowhere, noconnection}} = Report(#{node => nobody@nowhere}),
              Page = page(Config)
      end),
    ok.

named_there() ->
    Pid = spawn(fun() -> true = register(report_suite_there, self()), receive never -> ok end end),
    text(Pid).

%% ---- heaps

%% Made-up rows: each object once, no part larger than what it is in; and none of which it is not known in
%% which object it is, because several have the same path.
heaps_are_trees(_Config) ->
    Row = fun(Path, Retained, Self) -> #{path => Path, retained => Retained, self => Self, kind => cons, preview => forbidden} end,
    Rows = [Row([dictionary], 100, 10), Row([dictionary, {key, a}], 60, 60), Row([dictionary, {key, b}, {element, 1}], 20, 20),
            Row([dictionary, {key, b}], 25, 1), Row([dictionary, {key, '_'}], 3, 1), Row([dictionary, {key, '_'}], 2, 1),
            Row([dictionary, {key, '_'}, {element, 2}], 1, 1), Row([dictionary, {key, c}], 20, 20),
            Row([{stack, 1}], 5, 5), Row([{stack, 1}, {index, 2}], 50, 50)],
    #{bytes := 200, children := Top} = Tree = sonde_report_heaps:tree(Rows, 200),
    %% what an object does not retain, since it has no room for it, is not below it
    [100, 50, 20, 5] = [Bytes || #{bytes := Bytes} <- Top],
    true = fits(Tree),
    Named = lists:sort([{Name, Bytes} || #{name := Name, bytes := Bytes} <- flat(Tree)]),
    Named = lists:sort([{<<"reachable">>, 200}, {<<"dictionary">>, 100}, {<<"key a">>, 60}, {<<"key b">>, 25}, {<<"element 1">>, 20},
                        {<<"key '_'">>, 3}, {<<"key '_'">>, 2}, {<<"stack 1">>, 5}, {<<"dictionary / key c">>, 20},
                        {<<"stack 1 / [2]">>, 50}]),
    #{bytes := 175} = sonde_report_heaps:tree(Rows, 10),
    #{bytes := 7, children := []} = sonde_report_heaps:tree([], 7),
    ok.

flat(#{children := Children} = Node) -> [Node | lists:append([flat(C) || C <- Children])].

fits(#{bytes := Bytes, children := Children}) ->
    lists:sum([B || #{bytes := B} <- Children]) =< Bytes andalso lists:all(fun fits/1, Children).

%% ---- the licences of what is in the built pages

%% Those that the sources import, and what these need, by the lock of packages: no more and no fewer.
each_library_has_its_licence(_Config) ->
    Root = os:getenv("SONDE_ROOT", "."),
    Folder = filename:join(Root, "src/report/page"),
    {ok, Lock} = file:read_file(filename:join(Folder, "package-lock.json")),
    #{<<"packages">> := Packages} = cli_SUITE:read(Lock),
    _ = [begin
             {ok, Page} = file:read_file(filename:join([Root, "priv", Name])),
             Told = licences(Page),
             Needed = needed(imported([Entry], filename:join(Folder, "src"), []), Packages, []) -- unused(Page),
             {Name, [_ | _], []} = {Name, Needed, [Library || {Library, _, _} <- Told] -- Needed},
             _ = [begin
                      #{<<"version">> := Version, <<"license">> := Licence} = map_get(<<"node_modules/", Library/binary>>, Packages),
                      Heading = <<Version/binary, " (", Licence/binary, ")">>,
                      {Name, Library, Heading, [Text]} = {Name, Library, Heading, [T || {L, H, T} <- Told, L =:= Library, H =:= Heading]},
                      {Name, Library, []} = {Name, Library, [Part || Part <- parts(Licence), re:run(Text, Part) =:= nomatch]}
                  end || Library <- Needed]
         end || {Name, Entry} <- [{"report.html", "main.js"}, {"live.html", "live.js"}]].

%% The build leaves out a library of which nothing is used: what d3-array has this one for is not on our pages.
unused(Page) -> [<<"internmap">> || re:run(Page, "class [^{]* extends (Map|Set)\\b") =:= nomatch].

%% Who has the rights, who may use it, and that there is no warranty. Another licence needs a line here.
parts(<<"ISC">>) -> ["^Copyright .*[0-9]{4}", "Permission to use, copy, modify, and/or distribute", "appear in all copies", "PROVIDED \"AS IS\""].

%% Of the comment at the top of a page: the name of each library, what follows it, and the text below.
licences(Page) ->
    [_, Rest] = binary:split(Page, <<"It contains parts of these libraries:\n">>),
    [Comment, _] = binary:split(Rest, <<"-->">>),
    [_ | Blocks] = re:split(Comment, "^(?=[@a-z0-9/_-]+ [0-9.]+ \\()", [multiline]),
    [begin
         [Heading, Text] = binary:split(Block, <<"\n">>),
         [Name, Version] = binary:split(Heading, <<" ">>),
         {Name, Version, string:trim(Text)}
     end || Block <- Blocks].

%% Libraries that a source imports, or one of the sources that it imports.
imported([], _, Done) ->
    lists:usort([list_to_binary(Name) || Name <- Done, hd(Name) =/= $.]);
imported([Source | More], Folder, Done) ->
    {ok, Text} = file:read_file(filename:join(Folder, Source)),
    New = case re:run(Text, "(?:^import|\\bfrom) '([^']+)';?$", [global, multiline, {capture, [1], list}]) of
              {match, Found} -> [Name || [Name] <- Found, not lists:member(Name, Done)];
              nomatch -> []
          end,
    imported(More ++ [Name || "./" ++ Name <- New], Folder, Done ++ New).

needed([], _, Done) ->
    Done;
needed([Name | More], Packages, Done) ->
    case lists:member(Name, Done) of
        true -> needed(More, Packages, Done);
        false -> needed(More ++ maps:keys(maps:get(<<"dependencies">>, map_get(<<"node_modules/", Name/binary>>, Packages), #{})), Packages, [Name | Done])
    end.
