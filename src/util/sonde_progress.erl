%% @private
%% The line that shows the progress of a long call. A process of its own draws it, and the call does
%% not wait for it: the call may be suspending the very process that prints.
-module(sonde_progress).

-export([start/1, tell/3, stop/1]).
-export([paint/1]).
-export_type([painter/0]).

-opaque painter() :: none | {pid(), atomics:atomics_ref()}.

-define(DONE, 1).
-define(TOTAL, 2).
-define(DRAW_MS, 50).
-define(LAST_MS, 300). % until the line is gone, where it can be drawn at all

-spec start(Wanted :: boolean()) -> painter().
start(false) ->
    none;
start(true) ->
    Cells = atomics:new(2, []),
    {sonde_helper:aside(fun ?MODULE:paint/1, {self(), Cells}), Cells}.

-spec tell(painter(), non_neg_integer(), non_neg_integer()) -> ok.
tell(none, _Done, _Total) ->
    ok;
tell({_, Cells}, Done, Total) ->
    ok = atomics:put(Cells, ?DONE, Done),
    ok = atomics:put(Cells, ?TOTAL, Total).

%% @doc Removes the line.
-spec stop(painter()) -> ok.
stop(none) ->
    ok;
stop({Pid, _}) ->
    Ref = monitor(process, Pid),
    Pid ! stop,
    receive
        {'DOWN', Ref, process, Pid, _} -> ok
    after ?LAST_MS ->
            true = demonitor(Ref, [flush]),
            ok
    end.

%% ---- the process that draws

-spec paint({pid(), atomics:atomics_ref()}) -> ok.
paint({Owner, Cells}) ->
    paint(monitor(process, Owner), Cells, nothing).

paint(Owner, Cells, Last) ->
    receive
        stop -> clear(Last);
        {'DOWN', Owner, process, _, _} -> clear(Last)
    after ?DRAW_MS ->
            case {atomics:get(Cells, ?DONE), atomics:get(Cells, ?TOTAL)} of
                {_, 0} -> paint(Owner, Cells, Last);
                Last -> paint(Owner, Cells, Last);
                {Done, Total} = Now ->
                    put_text(io_lib:format("\r~b of ~b words, ~b%\e[K",
                                           [Done, Total, Done * 100 div Total])),
                    paint(Owner, Cells, Now)
            end
    end.

clear(nothing) -> ok;
clear(_) -> put_text("\r\e[K").

%% Without a device to draw on, there is no line.
put_text(Text) ->
    try io:put_chars(Text) catch error:_ -> ok end.
