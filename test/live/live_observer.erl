%% observer_cli in a terminal: the test types what a person types, and reads the screen. Each view
%% must show what live_planted planted, on several refreshes in a row, and the node's log must hold
%% no error. observer_cli.sh starts it. Three terminals, with a node each, share the views, since
%% each view takes long.
-module(live_observer).

-export([main/1]).

-import(live_report, [title/1, say/2, check/3, check/4]).
-import(live_tmux, [has/2, until/1, deadline/0, in_tmp/1]).

-define(COLUMNS, 200).
-define(ROWS, 70).
-define(LOOK_MS, 100).

-record(terminal, {name :: string(), refreshes :: pos_integer(),
                   facts = [] :: [{atom(), term()}]}).

main([Recon, Refreshes]) ->
    live_report:start(),
    title("observer_cli on recon " ++ Recon),
    Self = self(),
    Pids = [spawn_link(fun() ->
                               Terminal = #terminal{name = Name,
                                                    refreshes = list_to_integer(Refreshes)},
                               Self ! {done, self(), watched(Terminal, Recon, Views)}
                       end) || {Name, Views} <- terminals()],
    _ = [receive {done, Pid, _} -> ok end || Pid <- Pids],
    halt(live_report:finish("observer_cli")).

watched(Terminal, Recon, Views) ->
    try watch(Terminal, Recon, Views)
    catch Class:Why:Stack ->
            check(Terminal#terminal.name ++ " came to its end", false, {Class, Why, Stack})
    end.

watch(Terminal, Recon, Views) ->
    ok = open(Terminal),
    Planted = Terminal#terminal{facts = planted(Terminal)},
    right_recon(Planted, Recon),
    type(Planted, "observer_cli:start()."),
    _ = [view(Planted, View) || View <- Views],
    type(Planted, "q"),
    Ended = until(fun() -> has(screen(Planted), "quit\\s+3>\\s*$") end) =:= ok,
    check(Terminal#terminal.name ++ ", q: the shell again", Ended, Ended),
    _ = [show(Terminal) || not Ended],
    log(Planted).

%% ---- the views: {what is typed, what the heading says, rows}

%% A row is a list of cells that stand side by side, or a pattern of its text.
terminals() ->
    [{"home", home()}, {"network", network()}, {"others", others()}].

home() ->
    Row = fun(Value, Name) -> [[pid, Value, Name]] end,
    [{"m", "recon:proc_count\\(memory", Row({bytes, server_memory}, "planted_server")},
     {"mm", "recon:proc_window\\(memory", Row({bytes, newborn_memory}, "planted_newborn")},
     {"b", "recon:proc_count\\(binary_memory", Row({bytes, 80000000}, "planted_binaries")},
     {"bb", "recon:proc_window\\(binary_memory", Row({bytes, 5000000}, "planted_newborn")},
     {"t", "recon:proc_count\\(total_heap", Row({bytes, server_words}, "planted_server")},
     {"tt", "recon:proc_window\\(total_heap", Row({bytes, newborn_words}, "planted_newborn")},
     {"r", "recon:proc_count\\(reductions", Row({about, worker}, "planted_worker")},
     {"rr", "recon:proc_window\\(reductions", Row({about, newborn_reductions}, "planted_newborn")},
     {"mmq", "recon:proc_window\\(message_queue", Row("23456", "planted_newborn")},
     {"mq", "recon:proc_count\\(message_queue", [["1", {fact, queue}, "34567", "planted_queue"]]},
     %% The process in the first line, which is the one with the queue.
     {"1", "Process Info", [["msg_queue_len", "34567"]]},
     {"M", "Message", ["Too many message\\(34567\\)"]},
     {"H", "recon:proc_count\\(message_queue", [["1", {fact, queue}, "34567", "planted_queue"]]},
     {"b", "recon:proc_count\\(binary_memory", [["1", pid, any, "planted_binaries"]]},
     {"1", "Process Info", [["msg_queue_len", "3"]]},
     {"M", "Message", ["planted_message,1", "planted_message,3"]},
     {"H", "recon:proc_count\\(binary_memory", [["1", pid, any, "planted_binaries"]]},
     {"m", "recon:proc_count\\(memory", [["1", {fact, server}]]},
     {"1", "Process Info", ["registered_name +\\| <[0-9.]+>/planted_server "]},
     {"D", "Dictionary", ["planted_key.*planted_value"]},
     {"C", "Current Stack", ["gen_server:loop/7"]},
     {"S", "State", ["planted_state,271828"]}].

network() ->
    Row = fun(Value) -> [["1", any, Value]] end,
    Oct = {bytes, 7654321},
    New = {bytes, 3456789},
    [{"N", "recon:inet_count\\(cnt", Row("111")},
     {"rc", "recon:inet_count\\(recv_cnt", Row("111")},
     {"sc", "recon:inet_count\\(send_cnt", Row("111")},
     {"ro", "recon:inet_count\\(recv_oct", Row(Oct)},
     {"so", "recon:inet_count\\(send_oct", Row(Oct)},
     {"oct", "recon:inet_count\\(oct", Row(Oct)},
     {"1", "Port Info", [["recv_oct", Oct]]},
     {"N", "recon:inet_count\\(oct", Row(Oct)},
     {"iw", "recon:inet_window\\(oct", Row(New)},
     {"rc", "recon:inet_window\\(recv_cnt", Row("33")},
     {"sc", "recon:inet_window\\(send_cnt", Row("33")},
     {"ro", "recon:inet_window\\(recv_oct", Row(New)},
     {"so", "recon:inet_window\\(send_oct", Row(New)},
     {"cnt", "recon:inet_window\\(cnt", Row("33")},
     {"ic", "recon:inet_count\\(cnt", Row("111")}].

others() ->
    Application = [["planted_app", "20"], ["9.8.7"]],
    [{"S", "System/Architecture", [["System Version", {fact, release}],
                                   ["binary_alloc", any, any, {begins, "3.81"}]]},
     {"E", "Table Name", [["planted_table", "43210", {bytes, table_memory}]]},
     {"s", "Table Name", [["planted_table", "43210", {bytes, table_memory}]]},
     {"M", "HideSystemTable", [["planted_mnesia", {bytes, mnesia_memory}, "2222"]]},
     {"A", "ProcessCount", Application},
     {"p", "ProcessCount", Application},
     {"m", "ProcessCount", Application},
     {"r", "ProcessCount", Application},
     {"mq", "ProcessCount", Application},
     {"D", "Start Mode", ["recon:proc_count/2"]},
     {"P", "Planted\\(PL\\)", [["planted attribute", "161803"], ["1", {fact, server}, "141421"]]},
     {"H", "recon:proc_count\\(memory", [["1", {fact, server}]]}].

view(#terminal{name = Name} = Terminal, {Keys, Heading, Rows}) ->
    type(Terminal, Keys),
    shows(Terminal, io_lib:format("~s, ~s", [Name, Keys]),
          fun(Screen) ->
                  has(Screen, Heading)
                      andalso lists:all(fun(Row) -> has_row(Screen, Row, Terminal) end, Rows)
          end).

%% ---- the screen

%% The screen must satisfy the check on several refreshes in a row. The heading has the node's
%% uptime in seconds, and no view is drawn twice in a second; half drawn, it may not satisfy yet.
shows(Terminal, What, Satisfies) ->
    {Good, Refreshes} = look(Terminal, Satisfies, deadline(), []),
    check(What, Good, "~ts", [lists:join(", ", lists:reverse(Refreshes))]),
    _ = [show(Terminal) || not Good],
    ok.

show(Terminal) ->
    [say("~ts", [Line]) || Line <- string:split(screen(Terminal), "\n", all), Line =/= ""].

look(#terminal{refreshes = Wanted} = Terminal, Satisfies, Deadline, Before) ->
    Screen = screen(Terminal),
    Refreshes = refreshed(uptime(Screen), Satisfies(Screen), Before),
    Run = [At || {At, true} <- lists:takewhile(fun({_, Good}) -> Good end, Refreshes)],
    case length(Run) >= Wanted of
        true -> {true, Run};
        false ->
            case erlang:monotonic_time(millisecond) > Deadline of
                true -> {false, Run};
                false -> timer:sleep(?LOOK_MS), look(Terminal, Satisfies, Deadline, Refreshes)
            end
    end.

refreshed(At, Good, [{At, Before} | Older]) -> [{At, Good orelse Before} | Older];
refreshed(At, Good, Older) -> [{At, Good} | Older].

uptime(Screen) ->
    case re:run(Screen, "\\d+Days \\d+:\\d+:\\d+", [{capture, first, list}]) of
        {match, [Uptime]} -> Uptime;
        nomatch -> "no heading"
    end.

has_row(Screen, [Cell | _] = Cells, Terminal) when not is_integer(Cell) ->
    lists:any(fun(Line) -> side_by_side(cells(Line), Cells, Terminal) end,
              string:split(Screen, "\n", all));
has_row(Screen, Pattern, _Terminal) ->
    has(Screen, Pattern).

cells(Line) ->
    [string:trim(Cell) || Cell <- string:split(Line, "|", all)].

side_by_side([_ | Rest] = Row, Cells, Terminal) ->
    (length(Row) >= length(Cells)
     andalso lists:all(fun({Text, Cell}) -> is_cell(Text, Cell, Terminal) end,
                       lists:zip(lists:sublist(Row, length(Cells)), Cells)))
        orelse side_by_side(Rest, Cells, Terminal);
side_by_side([], _, _) ->
    false.

is_cell(_, any, _) -> true;
is_cell(Text, pid, _) -> has(Text, "^<0\\.\\d+\\.\\d+>$");
is_cell(Text, {begins, Start}, _) -> lists:prefix(Start, Text);
is_cell(Text, {fact, Name}, Terminal) -> Text =:= fact(Name, Terminal);
is_cell(Text, {bytes, Name}, Terminal) -> Text =:= bytes(fact(Name, Terminal));
is_cell(Text, {about, Name}, Terminal) -> is_about(string:to_integer(Text), fact(Name, Terminal));
is_cell(Text, Exact, _) -> Text =:= Exact.

%% Observing a process costs it reductions, too.
is_about({Value, ""}, Fact) -> Value >= Fact * 0.99 andalso Value =< Fact * 1.01;
is_about(_, _) -> false.

%% As observer_cli writes them.
bytes(N) when N < 1024 -> integer_to_list(N) ++ " B";
bytes(N) when N < 1024 * 1024 -> decimals(N / 1024) ++ " KB";
bytes(N) -> decimals(N / 1024 / 1024) ++ " MB".

decimals(F) -> float_to_list(F, [{decimals, 4}]).

fact(Figure, _Terminal) when is_integer(Figure) -> Figure;
fact(release, _Terminal) -> erlang:system_info(otp_release);
fact(Name, #terminal{facts = Facts}) -> proplists:get_value(Name, Facts).

%% ---- the terminal, whose node has a shell

open(#terminal{name = Name}) ->
    live_tmux:open(Name, {?COLUMNS, ?ROWS},
                   ["$SONDE_NODE -kernel logger "
                    "'[{handler, default, logger_std_h, #{config => #{file => \\\"", log_file(Name),
                    "\\\"}}}]'"]).

planted(#terminal{name = Name} = Terminal) ->
    File = in_tmp(Name ++ ".facts"),
    ok = until(fun() -> has(screen(Terminal), "1>") end),
    type(Terminal, "live_planted:plant(\"" ++ File ++ "\")."),
    ok = until(fun() -> filelib:is_regular(File) end),
    {ok, [Facts]} = file:consult(File),
    Facts.

type(#terminal{name = Name}, Text) -> live_tmux:type(Name, Text).

screen(#terminal{name = Name}) -> live_tmux:screen(Name).

%% ---- what the node says of itself

right_recon(#terminal{name = Name, facts = Facts}, Recon) ->
    Versions = proplists:get_value(versions, Facts),
    Expected = case Recon of
                   "2.5.2" -> none;
                   _ -> active
               end,
    check(Name ++ ", the recon that is meant",
          {Recon, Expected} =:= {proplists:get_value(recon, Versions),
                                 proplists:get_value(sonde, Versions)}, Versions).

%% Checks for a line that is known to be there, which proves that it is the right log.
log(#terminal{name = Name}) ->
    {ok, Text} = file:read_file(log_file(Name)),
    {match, _} = re:run(Text, "planted: \\d+ processes"),
    Good = not has(Text, "(?i)error|crash|warning|exception|exit"),
    check(Name ++ ", no error and no crash report in the log", Good, Good),
    [say("~ts", [Text]) || not Good].

log_file(Name) -> in_tmp(Name ++ ".log").
