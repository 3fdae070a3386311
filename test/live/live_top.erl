%% sonde:top in terminals: types what a person types, and compares the screens with those in
%% top/*.txt, numbers masked. top.sh starts it. The rows that are shown are planted: processes with
%% more messages than any other.
-module(live_top).

-export([main/1, plant/0]).

-import(live_report, [title/1, say/2, check/3]).
-import(live_tmux, [has/2, until/1]).

-define(PLANTED, 40).

%% `write' rewrites the files.
main([Goldens | Write]) ->
    live_report:start(),
    put(goldens, {Goldens, Write =:= ["write"]}),
    title("sonde:top in terminals"),
    ok = live_tmux:open("target", {80, 24}, "$SONDE_NODE $SONDE_TARGET"),
    _ = [watched(Terminal) || Terminal <- terminals()],
    halt(live_report:finish("top")).

%% The last terminal looks at another node: its shell runs on that node, its terminal is here.
terminals() ->
    [{"80x24", {80, 24}, "TERM=screen $SONDE_NODE"},
     {"120x40", {120, 40}, "TERM=screen $SONDE_NODE"},
     {"dumb", {80, 24}, "TERM=dumb $SONDE_NODE"},
     {"remote", {80, 24}, "TERM=screen $SONDE_REMOTE"}].

watched({Name, _, _} = Terminal) ->
    try watch(Terminal)
    catch Class:Why:Stack -> check(Name ++ " came to its end", false, {Class, Why, Stack})
    end.

watch({Name, Size, Command}) ->
    ok = live_tmux:open(Name, Size, Command),
    ok = until(fun() -> has(live_tmux:screen(Name), "1>\\s*$") end),
    live_tmux:type(Name, "live_top:plant()."),
    ok = until(fun() -> has(live_tmux:screen(Name), "2>\\s*$") end),
    live_tmux:type(Name, "sonde:top(#{sort => message_queue_len})."),
    golden(Name, "processes", "messages .*\n  1 .* planted_01 (.*\n)+.*\na key, then Enter>\\s*$"),
    live_tmux:type(Name, "1"),
    golden(Name, "process", "process <[0-9.]+>  planted_01(.*\n)+retained"),
    live_tmux:type(Name, "h"),
    golden(Name, "help", "\nhelp\n(.*\n)+by: "),
    live_tmux:type(Name, "nn"),
    shows(Name, "growth", "processes by message_queue_len  grown in 1000 ms\n"),
    live_tmux:type(Name, "g"),
    shows(Name, "garbage", "processes by garbage_bytes\n.*\n  1 "),
    live_tmux:type(Name, "E"),
    shows(Name, "tables", "tables by memory\n.* type .* owner .* name.*\n  1 "),
    live_tmux:type(Name, "B"),
    shows(Name, "binaries", "binaries  looked at once; a: again\ntotal "),
    live_tmux:type(Name, "A"),
    shows(Name, "allocators", "allocators\nallocated .*(.*\n)+.*worst fragmented"),
    live_tmux:type(Name, "P"),
    live_tmux:type(Name, "/TED_33"),
    shows(Name, "search", "processes by garbage_bytes  /TED_33.*\n.*\n  1 .* planted_33 .*\n(\n|by: )"),
    live_tmux:type(Name, "1"),
    live_tmux:type(Name, "Q"),
    shows(Name, "mailbox", "mailbox of <[0-9.]+>\nmessages 80 .*\n.*\n  1 +80 .*\\{planted,2\\}"),
    live_tmux:type(Name, "K"),
    shows(Name, "stack", "stack of <[0-9.]+>\n.*function.*\n  1  "),
    live_tmux:type(Name, "L"),
    shows(Name, "links", "links and monitors of <[0-9.]+>\nlinks 0 (.*\n)+  1 .* parent "),
    live_tmux:type(Name, "u"),
    shows(Name, "up", "stack of "),
    live_tmux:type(Name, "G"),
    shows(Name, "applications", "applications by memory  looked at once; a: again\n(.*\n)+.* kernel "),
    live_tmux:type(Name, "/kernel"),
    shows(Name, "search for an application", "  /kernel\n.*\n  1 .* kernel .*\n(\n|by: )"),
    live_tmux:type(Name, "1"),
    shows(Name, "tree", "tree of kernel (.*\n){4} +3 .*     kernel_sup"),
    live_tmux:type(Name, "3"),
    shows(Name, "process of the tree", "process <[0-9.]+>  kernel_sup(.*\n)+.*application kernel"),
    live_tmux:type(Name, "N"),
    shows(Name, "network", "ports and sockets by traffic\n"),
    live_tmux:type(Name, "m"),
    shows(Name, "ports", "ports and sockets by memory\n.* memory .*\n  1 .*#Port<"),
    live_tmux:type(Name, "1"),
    shows(Name, "port", "port #Port<[0-9.]+>\n(.*\n)+ +1 +<[0-9.]+> +owner"),
    live_tmux:type(Name, "M"),
    shows(Name, "no Mnesia", "Mnesia\nMnesia is not loaded on this node"),
    live_tmux:type(Name, "S"),
    shows(Name, "system", "system\nschedulers  1 . \\d+%"),
    live_tmux:type(Name, "no such thing"),
    shows(Name, "what is no key", "no such key: no such thing"),
    live_tmux:type(Name, "q"),
    shows(Name, "q, the shell again", "\nok\n.*3>\\s*$"),
    State = live_tmux:state(Name, "#{alternate_on} #{cursor_flag}"),
    check(Name ++ ": the terminal is as it was", State =:= "0 1", State),
    live_tmux:type(Name, "[P || P <- processes(), {initial_call, {M, _, _}} <- "
                         "[process_info(P, initial_call)], sonde_attr:is_ours({M, a, 1})]."),
    shows(Name, "no process is left", "\n\\[\\]\n.*4>\\s*$").

shows(Name, What, Pattern) ->
    Good = until(fun() -> has(live_tmux:screen(Name), Pattern) end),
    check(Name ++ ": " ++ What, Good =:= ok, Good),
    _ = [show(live_tmux:screen(Name)) || Good =/= ok],
    Good.

show(Screen) -> [say("~ts", [Line]) || Line <- string:split(Screen, "\n", all), Line =/= ""].

%% A screen that is half drawn, or has no rates yet, does not count.
golden(Name, Page, Pattern) ->
    {Dir, Write} = get(goldens),
    File = filename:join(Dir, Name ++ "_" ++ Page ++ ".txt"),
    Kept = file:read_file(File),
    Is = fun() ->
                 Screen = live_tmux:screen(Name),
                 has(Screen, Pattern) andalso has(Screen, "(?m)^sonde ")
                     andalso (Write orelse Kept =:= {ok, masked(Page, Screen)})
         end,
    Good = until(Is),
    check(Name ++ ": " ++ Page, Good =:= ok, Good),
    _ = [begin
             show(unicode:characters_to_list(masked(Page, live_tmux:screen(Name)))),
             say("instead of ~ts", [File])
         end || Good =/= ok],
    _ = [ok = file:write_file(File, masked(Page, live_tmux:screen(Name))) || Write],
    ok.

%% ---- what no two runs have the same

masked(Page, Screen) ->
    Lines = last_frame([masked(Line) || Line <- string:split(Screen, "\n", all)]),
    [First, Work, Limits, Kinds, Bytes, _Sparks | Rest] = Lines,
    Told = re:replace(Work, "^busy (-|# \\S+)  ?run queue # sweep #.*$", "busy, run queue, sweep",
                      [unicode]),
    unicode:characters_to_binary(
      lists:join($\n, [First, Told, Limits, Kinds, Bytes, "the last samples" | body(Page, Rest)])).

%% On a dumb terminal frames follow each other, with the end of an earlier one above.
last_frame(Lines) ->
    {Rest, [Title | _]} = lists:splitwith(fun(Line) -> not lists:prefix("sonde ", Line) end,
                                          lists:reverse(Lines)),
    [Title | lists:reverse(Rest)].

%% Where lines are broken depends on the numbers in them.
body("process", Lines) -> [[Line, " "] || Line <- Lines];
body(_, Lines) -> Lines.

masked(Line) ->
    lists:foldl(fun({Pattern, By}, Text) ->
                        unicode:characters_to_list(re:replace(Text, Pattern, By, [unicode, global]))
                end, unicode:characters_to_list(Line),
                [{"\\d[\\d.,:]*(?:[kMGTPE](?= |/|%|$)|%)?(?: ?[KMGTP]iB\\b| B\\b| ms\\b)?", "#"},
                 {" +", " "}, {" $", ""}]).

%% ---- in the nodes

%% The first has the most messages. They live until the node ends.
plant() ->
    _ = [begin
             Pid = spawn(fun() -> receive after infinity -> ok end end),
             true = register(list_to_atom(lists:concat(["planted_", N div 10, N rem 10])), Pid),
             [Pid ! {planted, I} || I <- lists:seq(1, 10 * (?PLANTED + 1 - N))]
         end || N <- lists:seq(1, ?PLANTED), whereis(planted_40) =:= undefined],
    ok.
