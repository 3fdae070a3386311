%% @private
%% What the kernel has of the sockets of another OS process: to which other ends it has bytes to send that they do not
%% take.
-module(sonde_outside_sockets).

-export([full/1, other_ends/1]).

-define(MOST_FILES, 65536).   % of the process
-define(MOST_BYTES, (64 bsl 20)). % of a table of sockets
-define(FULL, 4096).          % bytes
-define(FEW, 3).
-define(ESTABLISHED, "01").

%% @doc Up to three of them, with the bytes that wait in the kernel, most first.
-spec full(pos_integer()) -> [{unicode:chardata(), Bytes :: pos_integer()}].
full(OsPid) ->
    Of = fun(Name) -> ["/proc/", integer_to_list(OsPid), $/, Name] end,
    Ends = [End || Table <- ["net/tcp", "net/tcp6"], End <- other_ends(read(Of(Table)))],
    Own = case Ends of
              [] -> #{};
              _ -> sockets(Of("fd"))
          end,
    lists:sublist(lists:reverse(lists:keysort(2, [{Address, Bytes} || {Inode, Address, Bytes} <- Ends,
                                                                     is_map_key(Inode, Own)])), ?FEW).

%% @doc The lines of /proc/net/tcp or tcp6 that are connections with much to send.
-spec other_ends(binary()) -> [{Inode :: binary(), Address :: string(), Bytes :: pos_integer()}].
other_ends(Table) ->
    [{list_to_binary(Inode), address(Remote), Bytes}
     || Line <- binary:split(Table, <<"\n">>, [global]),
        [_, _, Remote, ?ESTABLISHED, Queues, _, _, _, _, Inode | _] <- [string:lexemes(binary_to_list(Line), " ")],
        [Sent, _] <- [string:split(Queues, ":")], Bytes <- [list_to_integer(Sent, 16)], Bytes >= ?FULL].

%% Words of the address in the order of this machine, and the port.
address(Text) ->
    [Hex, Port] = string:split(Text, ":"),
    Bytes = << <<(list_to_integer(Word, 16)):32/native>> || Word <- words(Hex) >>,
    Shown = case Bytes of
                <<A, B, C, D>> -> inet:ntoa({A, B, C, D});
                <<0:80, 16#FFFF:16, A, B, C, D>> -> inet:ntoa({A, B, C, D});
                _ -> [$[, inet:ntoa(list_to_tuple([Part || <<Part:16>> <= Bytes])), $]]
            end,
    lists:flatten([Shown, $:, integer_to_list(list_to_integer(Port, 16))]).

words([A, B, C, D, E, F, G, H | Hex]) -> [[A, B, C, D, E, F, G, H] | words(Hex)];
words([]) -> [].

sockets(Folder) ->
    Names = case file:list_dir(Folder) of
                {ok, All} -> lists:sublist(All, ?MOST_FILES);
                {error, _} -> []
            end,
    maps:from_list([{list_to_binary(lists:droplast(Inode)), true}
                    || Name <- Names, {ok, "socket:[" ++ Inode} <- [file:read_link([Folder, $/, Name])]]).

read(File) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Open} ->
            try iolist_to_binary(lines(Open, file:read(Open, 65536), 0))
            after file:close(Open)
            end;
        {error, _} -> <<>>
    end.

%% A file of /proc has no size.
lines(Open, {ok, Bytes}, N) when N < ?MOST_BYTES ->
    [Bytes | lines(Open, file:read(Open, 65536), N + byte_size(Bytes))];
lines(_, _, _) -> [].
