%% @private
%% The terminal of {@link sonde:top/1}, by requests of the io protocol to a group leader that may be
%% on another node: what it can do, and what has to be written. The requests are sent and not waited
%% for, so that one who does not answer holds up nobody.
-module(sonde_top_screen).

-export([open/2, size/1, enter/1, frame/3, leave/1, write/2, read/1]).
-export_type([screen/0]).

-type screen() :: #{device := pid(), how := keys | lines | plain, unicode := boolean(),
                    color := boolean(), width := pos_integer() | auto,
                    height := pos_integer() | auto}.
%% `keys': it gives single keys; `lines': it gives lines, while others write; `plain': it knows no
%% escapes, or nobody can write while it waits for a line.

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

%% That of the node that has the terminal.
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

%% From OTP 28 on, and only where no shell reads the terminal, it can be told to give single keys.
how(Device) ->
    case Device =:= whereis(user) andalso is_set(shell, raw) of
        true -> keys;
        false -> lines
    end.

%% The module is a variable since its function is not there before.
is_set(Shell, Mode) ->
    list_to_integer(erlang:system_info(otp_release)) >= 28
        andalso Shell:start_interactive({noshell, Mode}) =:= ok.

%% @doc As large as it is just now.
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

%% @doc The alternate screen, where the terminal has one; else it only clears.
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

%% @doc Over what was there before: clearing first would flicker. The cursor is in the last line
%% then, in which the person types; where keys are read it is for us to show those that were `Kept'.
-spec frame([unicode:chardata()], Kept :: string(), screen()) -> unicode:chardata().
frame(Lines, _, #{how := plain}) ->
    [[Line, $\n] || Line <- without_empty(lists:reverse(Lines))];
frame(Lines, _, #{how := lines}) ->
    ["\e[H", lists:join("\e[K\n", Lines), "\e[J\n"];
frame(Lines, Kept, #{how := keys}) ->
    ["\e[H", [[Line, "\e[K\r\n"] || Line <- Lines], "> ", Kept, "\e[J"].

%% What fills a screen is nothing where lines follow lines.
without_empty([Keys2, Keys1 | Lines]) ->
    lists:reverse([Keys2, Keys1 | lists:dropwhile(fun(Line) -> Line =:= "" end, Lines)]);
without_empty(Lines) ->
    lists:reverse(Lines).

%% @doc The answer is a message `{io_reply, Ref, Result}'.
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
