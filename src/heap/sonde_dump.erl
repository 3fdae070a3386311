%% @private
%% Dumps the heap of a process of another node into a file on this machine: it reads the dump there
%% piece by piece, and writes it here like a local dump.
-module(sonde_dump).

-export([write/4]).
-export([serve/3]).

-define(PIECE_MS, 60000).
-define(IDLE_MS, 60000).

%% @doc Returns what `sonde_heap:dump/3' returns. `Opts' are its `force', and the options of a look.
-spec write(node(), pid(), file:filename(), #{atom() => term()}) ->
    {ok, sonde_heap:written()} | undefined | {error, term()}.
write(Node, Pid, File, #{force := Force} = Opts) ->
    sonde_private_file:write(File, Force, fun(_) -> open(Node, Pid, maps:remove(force, Opts)) end).

%% Runs in the process that writes.
open(Node, Pid, Opts) ->
    {Module, Function} = sonde_remote_name:on(Node, ?MODULE, serve),
    {Reader, Mon} = spawn_opt(Node, Module, Function, [self(), Pid, Opts], [monitor]),
    {ok, fun() -> next(Reader, Mon) end}.

next(Reader, Mon) ->
    Reader ! {next, self()},
    receive
        {Reader, Piece} -> Piece;
        {'DOWN', Mon, process, Reader, Why} -> {error, Why}
    after ?PIECE_MS -> {error, timeout}
    end.

%% ---- on the other node

-spec serve(pid(), pid(), #{atom() => term()}) -> ok.
serve(Writer, Pid, Opts) ->
    Mon = monitor(process, Writer),
    serve(opened(sonde_v8_writer:open(Pid, Opts)), Mon).

opened({ok, Next}) -> Next;
opened(No) -> fun() -> No end.

serve(Next, Mon) ->
    receive
        {next, Writer} ->
            case Next() of
                {data, Data} ->
                    Writer ! {self(), {data, iolist_to_binary(Data)}},
                    serve(Next, Mon);
                End ->
                    Writer ! {self(), End},
                    ok
            end;
        {'DOWN', Mon, process, _, _} ->
            ok
    after ?IDLE_MS -> ok
    end.
