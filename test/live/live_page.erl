%% Makes the reports that report_page.mjs looks at: of a node with 10,000 processes, names that look like
%% markup, chains of waits, a deadlock and a watcher, of the same node with content, from outside, and on the
%% portable path.
-module(live_page).

-export([main/1, outside/1]).

-define(PROCESSES, 10000).
-define(NAME, '</script><script>document.title="run"</script>').

main([Dir]) ->
    ok = logger:set_primary_config(level, error),
    plant(),
    ok = written(sonde:report(filename:join(Dir, "native.html"))),
    ok = written(sonde:report(filename:join(Dir, "content.html"), #{content => true})),
    %% it has one of the largest heaps, which is not read while it runs
    ok = sys:suspend(sonde_watch),
    ok = from_outside(Dir),
    ok = sys:resume(sonde_watch),
    #{status := {off, disabled}} = sonde:native(off),
    ok = written(sonde:report(filename:join(Dir, "portable.html"))),
    halt(0).

written({ok, #{bytes := Bytes, ms := Ms, missing := Missing}}) ->
    io:format("  a report of ~b bytes in ~b ms; missing: ~0tp~n", [Bytes, Ms, [Name || {Name, _} <- Missing]]).

%% In another VM of the same program.
from_outside(Dir) ->
    Ebins = [[" '", Path, "'"] || Module <- [?MODULE, sonde], Path <- [filename:dirname(code:which(Module))]],
    io:put_chars(os:cmd(lists:flatten(["erl -noinput +P 100000 -sonde_twin test -pa", Ebins, " -run live_page outside '", Dir, "' ", os:getpid()]))).

outside([Dir, OsPid]) ->
    ok = sonde_outside:open(list_to_integer(OsPid), false),
    ok = written(sonde_outside_report:write(filename:join(Dir, "outside.html"), #{}, #{name => "process 1", command => "sonde --pid 1", interval => 300})),
    halt(0).

plant() ->
    _ = [spawn(fun() -> sleep(lists:seq(1, I rem 300)) end) || I <- lists:seq(1, ?PROCESSES)],
    true = register(?NAME, spawn(fun() -> put(large, lists:seq(1, 200000)), sleep(maps) end)),
    ?NAME = ets:new(?NAME, [named_table, public]),
    true = ets:insert(?NAME, {'<img src=x>', binary:copy(<<"x">>, 100000)}),
    '<img src=x onerror=alert(1)>' = ets:new('<img src=x onerror=alert(1)>', [named_table]),
    Last = spawn(fun() -> sleep([]) end),
    true = register(live_last, Last),
    Middle = [spawn(fun() -> gen_server:call(Last, ask, infinity) end) || _ <- lists:seq(1, 3)],
    _ = [spawn(fun() -> gen_server:call(Pid, ask, infinity) end) || Pid <- Middle, _ <- lists:seq(1, 30)],
    One = spawn(fun() -> receive {wait_for, Pid} -> gen_server:call(Pid, ask, infinity) end end),
    One ! {wait_for, spawn(fun() -> gen_server:call(One, ask, infinity) end)},
    Binary = binary:copy(<<"y">>, 1000000),
    _ = [spawn(fun() -> sleep(Binary) end) || _ <- lists:seq(1, 3)],
    true = register(live_content, spawn(fun() -> self() ! {planted("message")}, sleep(content()) end)),
    {ok, _} = sonde_watch:start_link(#{interval => 50, budget => 100}),
    timer:sleep(1500).

%% What only a report with content may have, and which bytes of binaries none has. All of it is made while the
%% process runs, so it is on its heap.
content() ->
    #{large => lists:seq(1, 300000), {planted("key"), 1} => lists:seq(1, 100), lists:append("</", "script>") => lists:seq(1, 50),
      value => {planted("value"), lists:append("<img", " src=x")}, atom_to_binary(planted("bytes")) => atom_to_binary(planted("bytes"))}.

planted(Name) ->
    list_to_atom("planted_" ++ Name ++ " </script><img src=x onerror=alert(1)>").

sleep(Kept) ->
    receive never -> Kept end.
