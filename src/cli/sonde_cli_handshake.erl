%% @private
%% The name that a node has for itself, from the start of the distribution handshake: the node sends
%% it before it checks any cookie. Then we disconnect; to the node, the connection broke.
-module(sonde_cli_handshake).

-export([name/2]).

-define(WAIT_MS, 3000).
%% Without these capabilities, a node of OTP 25 refuses the connection: the flags of the documented
%% protocol from EXTENDED_REFERENCES to MANDATORY_25_DIGEST.
-define(FLAGS, (16#4 bor 16#10 bor 16#80 bor 16#100 bor 16#200 bor 16#400 bor 16#800 bor 16#10000
                bor 16#20000 bor 16#40000 bor 16#1000000 bor 16#2000000 bor (1 bsl 34)
                bor (1 bsl 36))).

%% @doc Returns `{error, {no_port, Why}}' if nothing listens there.
-spec name(inet:hostname(), inet:port_number()) ->
    {ok, string()} | {error, {no_port, inet:posix() | timeout} | no_answer}.
name(Host, Port) ->
    case gen_tcp:connect(Host, Port, [binary, {active, false}, {packet, 2}], ?WAIT_MS) of
        {ok, Socket} ->
            try ask(Socket)
            after gen_tcp:close(Socket)
            end;
        {error, Why} ->
            {error, {no_port, Why}}
    end.

%% A name that no node has: for one that is connected already, the node would first check whether
%% that connection is still alive.
ask(Socket) ->
    Me = list_to_binary(["sonde-asks-", integer_to_list(rand:uniform(1 bsl 60), 36), "@nohost"]),
    _ = gen_tcp:send(Socket, <<$N, ?FLAGS:64, 1:32, (byte_size(Me)):16, Me/binary>>),
    case gen_tcp:recv(Socket, 0, ?WAIT_MS) of
        {ok, <<"sok", _/bits>>} -> challenge(gen_tcp:recv(Socket, 0, ?WAIT_MS));
        _ -> {error, no_answer}
    end.

challenge({ok, <<$N, _Flags:64, _Challenge:32, _Creation:32, Size:16, Name:Size/binary,
                 _/bits>>}) ->
    case unicode:characters_to_list(Name) of
        Text when is_list(Text) -> {ok, Text};
        _ -> {error, no_answer}
    end;
challenge(_) ->
    {error, no_answer}.
