%% @private
%% The terminal of {@link sonde:top/1}, by requests of the io protocol to a group leader that may be
%% on another node: what it can do, and the text to write. Reads and writes are sent without waiting
%% for the reply, so that a terminal that does not answer blocks nothing.
-module(sonde_top_screen).

-export([open/2, size/1, enter/1, frame/3, leave/1, write/2, read/1]).
-export_type([screen/0]).

-type screen() :: #{device := pid(), how := keys | lines | plain, unicode := boolean(),
                    color := boolean(), width := pos_integer() | auto,
                    height := pos_integer() | auto}.
%% `keys': it delivers single keys; `lines': it delivers lines, and can be written to meanwhile;
%% `plain': it knows no escapes, or cannot be written to while it waits for a line.

-define(ASK_MS, 5000).
-define(COLUMNS, 80).
-define(ROWS, 24).

-spec open(pid(), #{width := _, height := _, atom() => term()}) -> screen().
open(Device, #{width := Width, height := Height}) ->
    Has = case io:getopts(Device) of
              Opts when is_list(Opts) -> Opts;
              _ -> []
          end,
    {Term, NoColor} = {env(Device, "TERM"), env(Device, "NO_COLOR")},
    How = how(Device, Term, Has),
    #{device => Device, how => How, unicode => lists:member({encoding, unicode}, Has),
      color => How =/= plain andalso lists:member(NoColor, [false, ""]),
      width => Width, height => Height}.

%% The environment variable of the node that has the terminal.
env(Device, Name) ->
    try erpc:call(node(Device), os, getenv, [Name], ?ASK_MS)
    catch error:{erpc, _} -> false
    end.

how(_, "dumb", _) ->
    plain;
how(Device, _, Has) ->
    case {io:rows(Device), io:columns(Device)} of
        {{ok, _}, {ok, _}} ->
            case proplists:get_value(stdin, Has, true) of
                false -> plain;
                _ -> how(Device)
            end;
        _ ->
            plain
    end.

%% From OTP 28 on, and only if no shell reads the terminal, it can be set to deliver single keys.
how(Device) ->
    case Device =:= whereis(user) andalso is_set(shell, raw) of
        true -> keys;
        false -> lines
    end.

%% The module is a variable because its function does not exist before OTP 28.
is_set(Shell, Mode) ->
    list_to_integer(erlang:system_info(otp_release)) >= 28
        andalso Shell:start_interactive({noshell, Mode}) =:= ok.

%% @doc The terminal's current size.
-spec size(screen()) -> {pos_integer(), pos_integer()}.
size(#{device := Device, width := Width, height := Height} = Screen) ->
    {size(Width, fun() -> io:columns(Device) end, ?COLUMNS, Screen),
     size(Height, fun() -> io:rows(Device) end, ?ROWS, Screen)}.

size(auto, _, Default, #{how := plain}) -> Default;
size(auto, Ask, Default, _) ->
    case Ask() of
        {ok, N} when is_integer(N), N > 0 -> min(N, 1000);
        _ -> Default
    end;
size(N, _, _, _) -> N.

%% @doc Enters the alternate screen if the terminal has one; otherwise only clears the screen.
-spec enter(screen()) -> string().
enter(#{how := plain}) -> [];
enter(#{how := keys}) -> "\e[?1049h\e[?25l\e[H\e[2J";
enter(_) -> "\e[?1049h\e[H\e[2J".

-spec leave(screen()) -> string().
leave(#{how := plain}) ->
    [];
leave(#{how := keys}) ->
    _ = is_set(shell, cooked),
    "\e[?25h\e[?1049l";
leave(_) ->
    "\e[?1049l".

%% @doc Overwrites the frame before: clearing first would flicker. The cursor ends in the last line,
%% in which the person types; with single keys, that line has the `Kept' characters.
-spec frame([unicode:chardata()], Kept :: string(), screen()) -> unicode:chardata().
frame(Lines, _, #{how := plain}) ->
    [[Line, $\n] || Line <- without_empty(lists:reverse(Lines))];
frame(Lines, _, #{how := lines}) ->
    ["\e[H", lists:join("\e[K\n", Lines), "\e[J\n"];
frame(Lines, Kept, #{how := keys}) ->
    ["\e[H", [[Line, "\e[K\r\n"] || Line <- Lines], "> ", Kept, "\e[J"].

%% Plain output needs no empty lines to fill a screen.
without_empty([Keys2, Keys1 | Lines]) ->
    lists:reverse([Keys2, Keys1 | lists:dropwhile(fun(Line) -> Line =:= "" end, Lines)]);
without_empty(Lines) ->
    lists:reverse(Lines).

%% @doc The terminal answers with a message `{io_reply, Ref, Result}'.
-spec write(unicode:chardata(), screen()) -> reference().
write(Text, #{device := Device}) ->
    request(Device, {put_chars, unicode, unicode:characters_to_binary(Text)}).

-spec read(screen()) -> reference().
read(#{device := Device, how := keys}) -> request(Device, {get_chars, unicode, "", 100});
read(#{device := Device}) -> request(Device, {get_line, unicode, "a key, then Enter> "}).

request(Device, Request) ->
    Ref = make_ref(),
    Device ! {io_request, self(), Ref, Request},
    Ref.
