%% Terminals for the live tests: sessions of one tmux, whose socket is in SONDE_TMP. The tests type
%% what a person types, and read the screen.
-module(live_tmux).

-export([open/3, type/2, press/2, screen/1, state/2, has/2, until/1, deadline/0, in_tmp/1]).

-define(DEADLINE_MS, 60000).   % of every wait
-define(LOOK_MS, 100).

%% @doc A terminal of this size, with this command of the shell in it.
open(Name, {Columns, Rows}, Command) ->
    "" = tmux("new-session -d -s ~s -x ~b -y ~b \"~s\"", [Name, Columns, Rows, Command]),
    ok.

%% @doc A line, and Enter. It has no single quotes.
type(Name, Text) ->
    "" = tmux("send-keys -t ~s -l '~s'", [Name, Text]),
    press(Name, "Enter").

press(Name, Key) ->
    "" = tmux("send-keys -t ~s ~s", [Name, Key]).

screen(Name) ->
    tmux("capture-pane -p -t ~s", [Name]).

%% @doc A format of tmux, as `#{alternate_on}'.
state(Name, Format) ->
    string:trim(tmux("display-message -p -t ~s '~s'", [Name, Format])).

tmux(Format, Args) ->
    os:cmd("tmux -u -f /dev/null -S '" ++ in_tmp("tmux") ++ "' " ++ io_lib:format(Format, Args)).

in_tmp(Name) ->
    filename:join(os:getenv("SONDE_TMP"), Name).

has(Screen, Pattern) ->
    re:run(Screen, Pattern, [unicode, {capture, none}]) =:= match.

until(True) ->
    until(True, deadline()).

until(True, Deadline) ->
    case True() of
        true -> ok;
        false ->
            case erlang:monotonic_time(millisecond) > Deadline of
                true -> late;
                false -> timer:sleep(?LOOK_MS), until(True, Deadline)
            end
    end.

deadline() -> erlang:monotonic_time(millisecond) + ?DEADLINE_MS.
