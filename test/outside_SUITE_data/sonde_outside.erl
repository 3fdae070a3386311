%% In the place of sonde's own: what the twin is, in what it prints, or what goes wrong in it.
-module(sonde_outside).

-export([open/2, call/3, errors/1]).

open(_OsPid, _Content) ->
    case os:getenv("TWIN") of
        "refuses" -> {error, refused};
        "halts " ++ Code -> halt(list_to_integer(Code));
        "crashes" -> os:cmd("kill -KILL " ++ os:getpid()), timer:sleep(infinity);
        "stays " ++ File -> ok = file:write_file(File, os:getpid()), timer:sleep(infinity);
        _ -> ok
    end.

errors(refused) -> "it is refused".

call(dump, [_Pid, File], Opts) ->
    ok = file:write_file(File, <<>>),
    ok = file:write_file(File ++ ".was", <<>>),
    call(native, [], Opts);
call(native, [], Opts) ->
    case os:getenv("TWIN") of
        "holds " ++ File -> ok = file:write_file(File, os:getpid()), timer:sleep(infinity);
        "late" -> timer:sleep(1500), told(Opts);
        "fails" -> {error, refused};
        "crashes later" -> error(crash);
        _ -> told(Opts)
    end.

told(Opts) ->
    {ok, Line} = file:read_file("/proc/self/cmdline"),
    {ok, Exe} = file:read_link("/proc/self/exe"),
    {ok, #{exe => unicode:characters_to_binary(Exe), line => binary:split(Line, <<0>>, [global]),
           otp => list_to_binary(erlang:system_info(otp_release)), opts => Opts,
           os_pid => list_to_binary(os:getpid()),
           limit => erlang:system_info(process_limit), alive => is_alive(),
           native => maps:get(status, sonde_vm:native()), applications => applications(),
           path => list_to_binary(code:which(?MODULE)), mode => mode(code:which(?MODULE))},
     #{}}.

applications() -> lists:sort([Name || {Name, _, _} <- application:which_applications()]).

%% Of the folder, and its owner.
mode(File) ->
    list_to_binary(string:trim(os:cmd("stat -c '%a %u' " ++ filename:dirname(filename:dirname(File))))).
