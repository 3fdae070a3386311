%% A node with a live page, for web_page.mjs: 10,000 processes, one that works, and names that look like markup.
%% Its address is in DIR/url. It stops the page when there is a file DIR/stop, and ends with DIR/end.
-module(live_web).

-export([main/1]).

-define(PROCESSES, 10000).

-spec main([string()]) -> no_return().
main([Dir]) ->
    _ = [spawn(fun() -> hold(I) end) || I <- lists:seq(1, ?PROCESSES)],
    true = register('</script><script>document.title="run"</script>', spawn(fun() -> hold(1000000) end)),
    '<img src=x onerror=alert(1)>' = ets:new('<img src=x onerror=alert(1)>', [named_table, public]),
    true = ets:insert('<img src=x onerror=alert(1)>', [{I, I} || I <- lists:seq(1, 50000)]),
    true = register(live_web_works, spawn(fun work/0)),
    Large = binary:copy(<<"b">>, 5000000),
    Waited = spawn(fun() -> hold(1), Large end),
    _ = [spawn(fun() -> gen_server:call(Waited, never, infinity) end) || _ <- lists:seq(1, 7)],
    Grows = ets:new(live_web_grows, [public]),
    ok = more(Grows, 1, 50000),
    _ = spawn(fun() -> grow(Grows, 50001) end),
    {ok, _} = sonde_web:start_link(#{interval => 500}),
    ok = file:write_file(filename:join(Dir, "url.tmp"), sonde_web:url()),
    ok = file:rename(filename:join(Dir, "url.tmp"), filename:join(Dir, "url")),
    ok = seen(filename:join(Dir, "stop"), filename:join(Dir, "end")),
    ok = sonde_web:stop(),
    ok = seen(filename:join(Dir, "end"), filename:join(Dir, "end")),
    halt(0).

seen(File, Other) ->
    case filelib:is_file(File) orelse filelib:is_file(Other) of
        true -> ok;
        false -> timer:sleep(50), seen(File, Other)
    end.

hold(N) ->
    Kept = lists:seq(1, N rem 300 + N div 10),
    receive stop -> Kept end.

%% So that there is a suspect.
grow(Table, N) ->
    ok = more(Table, N, 100),
    ok = timer:sleep(50),
    grow(Table, N + 100).

more(Table, From, Rows) ->
    true = ets:insert(Table, [{I, lists:seq(1, 20)} || I <- lists:seq(From, From + Rows - 1)]),
    ok.

work() ->
    _ = lists:sum(lists:seq(1, 20000)),
    ok = timer:sleep(2),
    work().
