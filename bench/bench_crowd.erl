%% The processes to measure with, and the recon to compare with.
-module(bench_crowd).

-export([idle/1, holders/2, fill_up/1, servers/1, full/2, load_recon/1]).
-export([wait/0, hold/3, serve/1]).

-define(WAVE, 1000).  % holders that build their binaries at the same time

%% @doc Starts `N' processes that wait.
-spec idle(non_neg_integer()) -> ok.
idle(N) ->
    _ = [spawn(?MODULE, wait, []) || _ <- lists:seq(1, N)],
    ok.

%% @doc Starts idle processes until the node has `N'.
-spec fill_up(non_neg_integer()) -> ok.
fill_up(N) ->
    idle(max(0, N - erlang:system_info(process_count))).

%% @doc Starts `N' processes like those of a server, with proc_lib.
-spec servers(non_neg_integer()) -> ok.
servers(N) ->
    _ = [proc_lib:start(?MODULE, serve, [self()]) || _ <- lists:seq(1, N)],
    ok.

%% @doc Starts a process with this many messages, and keys in its dictionary.
-spec full(non_neg_integer(), non_neg_integer()) -> pid().
full(Messages, Keys) ->
    Pid = spawn(fun() ->
                        _ = [put({key, I}, I) || I <- lists:seq(1, Keys)],
                        wait()
                end),
    _ = [Pid ! {message, I} || I <- lists:seq(1, Messages)],
    {message_queue_len, Messages} = process_info(Pid, message_queue_len),
    Pid.

%% @doc Starts `N' processes with `Binaries' refc binaries of 65 to 200 bytes each. All build them
%% at the same time, so neighbours in memory belong to different processes.
-spec holders(non_neg_integer(), non_neg_integer()) -> [pid()].
holders(0, _) ->
    [];
holders(N, Binaries) ->
    Now = min(N, ?WAVE),
    Pids = [spawn(?MODULE, hold, [self(), I, Binaries]) || I <- lists:seq(1, Now)],
    _ = [receive {Pid, ready} -> ok end || Pid <- Pids],
    Pids ++ holders(N - Now, Binaries).

serve(Parent) ->
    ok = proc_lib:init_ack(Parent, ok),
    wait().

wait() ->
    receive stop -> ok end.

hold(Owner, Seed, Binaries) ->
    _ = rand:seed(exsss, {Seed, Binaries, 1}),
    Held = [binary:copy(<<0>>, 64 + rand:uniform(136)) || _ <- lists:seq(1, Binaries)],
    _ = garbage_collect(),
    Owner ! {self(), ready},
    hold(Held).

hold(Held) ->
    receive
        {show, Pid} -> Pid ! Held, hold(Held);
        stop -> ok
    end.

%% @doc Loads recon's beams. If the compiler of another release made them (they may not even load),
%% compiles them again from the code that they contain. Returns which of the two it did.
-spec load_recon(file:name()) -> as_shipped | compiled_again.
load_recon(Dir) ->
    Files = [filename:join(Dir, M ++ ".beam") || M <- ["recon_lib", "recon", "recon_alloc"]],
    case lists:usort([load(F) || F <- Files]) of
        [as_shipped] -> as_shipped;
        _ -> compiled_again
    end.

load(File) ->
    {ok, {Module, [{compile_info, Info}, {abstract_code, {raw_abstract_v1, Forms}}]}} =
        beam_lib:chunks(File, [compile_info, abstract_code]),
    case proplists:get_value(version, Info) =:= compiler() of
        true ->
            {module, Module} = code:load_abs(filename:rootname(File)),
            as_shipped;
        false ->
            {ok, Module, Beam} = compile:forms(Forms, [binary]),
            {module, Module} = code:load_binary(Module, File, Beam),
            compiled_again
    end.

compiler() ->
    _ = application:load(compiler),
    {ok, Version} = application:get_key(compiler, vsn),
    Version.
