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
    Written = file:write_file(File, <<"new">>, [exclusive || not maps:get(force, Opts, false)]),
    {ok, Answer, Report} = call(native, [], Opts),
    case Written of
        ok -> ok = file:write_file(filename:join(filename:dirname(File), "was"), <<>>), {ok, Answer#{bytes => 3, ms => 0}, Report};
        Error -> {ok, Error, #{}}
    end;
call(native, [], Opts) ->
    case os:getenv("TWIN") of
        "holds " ++ File -> ok = file:write_file(File, os:getpid()), timer:sleep(infinity);
        "late" -> timer:sleep(1500), told(Opts);
        "left out" ->
            {ok, Answer, #{}} = told(Opts),
            {ok, Answer, #{left_out => 3, timeout => 3, missed => #{count => 3, pids => []}}};
        "lets it go on" -> ok = goes_on(Opts), told(Opts);
        "stops it again" -> ok = goes_on(Opts), ok = signal("STOP", Opts), told(Opts);
        "ends it" -> ok = signal("KILL", Opts), told(Opts);
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

%% Until its first thread has run.
goes_on(#{os_pid := OsPid} = Opts) ->
    Before = switches(OsPid),
    ok = signal("CONT", Opts),
    ok = has_run(OsPid, Before).

has_run(OsPid, Before) ->
    case switches(OsPid) of
        Before -> timer:sleep(1), has_run(OsPid, Before);
        _ -> ok
    end.

switches(OsPid) ->
    {ok, Status} = file:read_file(lists:concat(["/proc/", OsPid, "/status"])),
    {match, Found} = re:run(Status, "^\\w+_ctxt_switches:\\s*([0-9]+)", [multiline, global, {capture, [1], list}]),
    Found.

signal(Signal, #{os_pid := OsPid}) ->
    "" = os:cmd(lists:concat(["kill -", Signal, " ", OsPid])),
    ok.

applications() -> lists:sort([Name || {Name, _, _} <- application:which_applications()]).

%% Of the folder, and its owner.
mode(File) ->
    list_to_binary(string:trim(os:cmd("stat -c '%a %u' " ++ filename:dirname(filename:dirname(File))))).
