%% A terminal that is a process: it speaks the io protocol, keeps what is written, and supplies
%% lines on request of the test. For tests of interactive programs without a terminal.
-module(sonde_terminal_helper).

-export([start/1, type/2, close/1, written/1, screens/1, requests/1, stop/1, on/2]).

%% Opts: `columns', `rows' (without them it is no terminal), `encoding', `stuck' (it never replies
%% to writes).
start(Opts) ->
    spawn(fun() -> loop(#{opts => Opts, written => [], lines => queue:new(), waiting => none,
                          requests => 0}) end).

%% Calls Fun with this terminal as group leader, in a monitored process that exits with the result.
on(Terminal, Fun) ->
    spawn_monitor(fun() ->
                          true = group_leader(Terminal, self()),
                          exit({result, Fun()})
                  end).

type(Terminal, Line) -> call(Terminal, {type, Line ++ "\n"}).

%% End of input: no line follows.
close(Terminal) -> call(Terminal, {type, eof}).

%% All output so far.
written(Terminal) -> call(Terminal, written).

%% The output in parts; each begins where the screen does.
screens(Terminal) -> tl(string:split("\n" ++ written(Terminal), "\e[H", all)).

%% The number of lines that were requested.
requests(Terminal) -> call(Terminal, requests).

stop(Terminal) -> sonde_test:stop(Terminal).

call(Terminal, Request) ->
    Ref = make_ref(),
    Terminal ! {Request, Ref, self()},
    receive {Ref, Result} -> Result end.

loop(#{written := Written, lines := Lines, requests := N} = State) ->
    receive
        {{type, Line}, Ref, From} ->
            From ! {Ref, ok},
            loop(give(State#{lines := queue:in(Line, Lines)}));
        {written, Ref, From} ->
            From ! {Ref, lists:append(lists:reverse(Written))},
            loop(State);
        {requests, Ref, From} ->
            From ! {Ref, N},
            loop(State);
        {io_request, From, As, {get_line, _, _}} ->
            loop(give(State#{waiting := {From, As}, requests := N + 1}));
        {io_request, From, As, Request} ->
            loop(answer(Request, From, As, State))
    end.

give(#{waiting := {From, As}, lines := Lines} = State) ->
    case queue:out(Lines) of
        {{value, Line}, Rest} ->
            From ! {io_reply, As, Line},
            State#{waiting := none, lines := Rest};
        {empty, _} ->
            State
    end;
give(State) ->
    State.

answer({put_chars, unicode, _}, _, _, #{opts := #{stuck := true}} = State) ->
    State;
answer({put_chars, unicode, Text}, From, As, #{written := Written} = State) ->
    From ! {io_reply, As, ok},
    State#{written := [unicode:characters_to_list(Text) | Written]};
answer({get_geometry, What}, From, As, #{opts := Opts} = State) ->
    From ! {io_reply, As, maps:get(What, Opts, {error, enotsup})},
    State;
answer(getopts, From, As, #{opts := Opts} = State) ->
    From ! {io_reply, As, [{echo, true}, {encoding, maps:get(encoding, Opts, unicode)}]},
    State;
answer(_, From, As, State) ->
    From ! {io_reply, As, {error, enotsup}},
    State.
