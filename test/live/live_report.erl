%% The report of a live test: named checks with a verdict, lines in between, and the totals at the
%% end.
-module(live_report).

-export([start/0, title/1, say/2, check/3, check/4, some/1, finish/1]).

%% @doc Counts for the whole node: checks may be made by any process.
start() ->
    persistent_term:put(?MODULE, counters:new(2, [])).

title(Text) ->
    io:format("~n~ts~n", [Text]).

say(Format, Args) ->
    io:format("  " ++ Format ++ "~n", Args).

check(Name, Good, Detail) ->
    check(Name, Good, "~0tp", [Detail]).

%% @doc The detail is printed with either verdict: a bare `ok' says little about what was looked at.
check(Name, Good, Format, Args) when is_boolean(Good) ->
    counters:add(persistent_term:get(?MODULE), case Good of true -> 1; false -> 2 end, 1),
    Verdict = case Good of true -> "ok  "; false -> "FAIL" end,
    io:format("  ~s  ~ts: ~ts~n", [Verdict, Name, brief(io_lib:format(Format, Args))]).

%% @doc The first few of what should not be there; nothing if there is none.
some([]) -> "";
some(List) -> io_lib:format(", ~0tp", [lists:sublist(List, 3)]).

brief(Text) ->
    string:slice(Text, 0, 400).

%% @doc The last line, and the exit code of the node.
finish(Name) ->
    Counters = persistent_term:get(?MODULE),
    [Passed, Failed] = [counters:get(Counters, I) || I <- [1, 2]],
    io:format("~n~ts: ~b checks passed, ~b failed~n", [Name, Passed, Failed]),
    case Failed of
        0 when Passed > 0 -> 0;
        _ -> 1
    end.
