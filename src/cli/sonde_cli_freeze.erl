%% @private
%% Stops an OS process for one look, and always lets it go on: `--freeze'. Only its own two signals are sent, to a
%% process that still is the one that was looked at.
%%
%% A shell of its own sends them. It goes on when its input ends, so also if this VM is killed. Beside it runs a clock
%% that lets the process go on after the limit, also if that shell is killed or this VM is stopped.
-module(sonde_cli_freeze).

-export([during/3, is_stopped/1, script/0]).

-type text() :: unicode:chardata().

-define(ANSWER_MS, 10000).    % of the shell; this machine may be busy
-define(STOPPED_MS, 1000).    % until each thread has stopped
-define(TRIES, 50).            % until no thread of it is leaving its processor
-define(ENDS_TRIES, 50).       % of 10 ms: a process that was killed is there for a moment
-define(MARGIN_MS, 50).       % left of the limit when the look has to be done

%% @doc Runs Fun while the process is stopped, for at most that long; it gets the time that it has. A process that was
%% stopped before stays so. Returns what is to be said of it; `late': it went on before the look was done, by our clock or
%% because something else let it go on, so the result is not of one moment.
-spec during(pos_integer(), Limit :: pos_integer(), fun((Ms :: non_neg_integer()) -> Result)) ->
    {ok, Result, text()} | {late, Result, text()} | {error, text()}.
during(OsPid, Limit, Fun) ->
    case started(OsPid) of
        none -> {error, "there is no such process"};
        Started ->
            Begun = now_ms(),
            Port = open_port({spawn_executable, "/bin/sh"},
                             [{args, ["-c", script(), "sh", integer_to_list(OsPid), Started, seconds(Limit)]},
                              {line, 200}, exit_status]),
            try stopped(heard(Port), Port, OsPid, Limit, Begun, Fun)
            after close(Port)
            end
    end.

stopped(<<"was">>, _, OsPid, Limit, Begun, Fun) ->
    at_rest(OsPid, Limit, Begun, Fun, fun(Result) -> {ok, Result, "was stopped before, and stays so"} end);
stopped(<<"stopped">>, Port, OsPid, Limit, Begun, Fun) ->
    at_rest(OsPid, Limit, Begun, Fun, fun(Result) -> going_on(Port, Begun, Result) end);
stopped(<<"gone">>, _, _, _, _, _) ->
    {error, "there is no such process"};
stopped(Said, _, _, _, _, _) ->
    {error, ["it cannot be stopped (", printable(Said), "): the kernel lets only its own user, or root, send it a signal. Run "
             "the command so, or without --freeze"]}.

%% Others may let it go on meanwhile, even if they stop it again: a shell, or another command like this one.
at_rest(OsPid, Limit, Begun, Fun, Done) ->
    case each_thread(OsPid, now_ms() + min(?STOPPED_MS, Limit)) of
        true ->
            Before = settled(OsPid, threads(OsPid), ?TRIES),
            Result = Fun(max(0, Limit - (now_ms() - Begun) - ?MARGIN_MS)),
            Still = threads(OsPid) =:= Before,
            case Done(Result) of
                {ok, _, _} when not Still ->
                    {late, Result, case ends(OsPid, ?ENDS_TRIES) of
                                       true -> "it ended while it was stopped";
                                       false -> "it went on before the look was done: something else sent it SIGCONT"
                                   end};
                Other -> Other
            end;
        false ->
            {error, "it did not stop in time (--freeze-limit MS), or a thread of it is in a system call that cannot be interrupted"}
    end.

%% Whether it is being killed: until it is gone, its threads have run.
ends(_, 0) -> false;
ends(OsPid, Tries) ->
    case status(lists:concat(["/proc/", OsPid, "/stat"])) of
        [State | _] when State =/= <<"Z">>, State =/= <<"X">> ->
            ok = timer:sleep(10),
            ends(OsPid, Tries - 1);
        _ ->
            true
    end.

going_on(Port, Begun, Result) ->
    true = port_command(Port, "\n"),
    case heard(Port) of
        <<"continued">> -> {ok, Result, ["was stopped for ", seconds(now_ms() - Begun), " s"]};
        <<"late">> -> {late, Result, "it had to go on before the look was done (--freeze-limit MS)"};
        <<"gone">> -> {late, Result, "it ended while it was stopped"};
        Said -> {late, Result, ["it did not go on (", printable(Said), "): send it SIGCONT"]}
    end.

heard(Port) ->
    receive
        {Port, {data, {_, Line}}} -> iolist_to_binary(Line);
        {Port, {exit_status, _}} -> <<"no answer">>
    after ?ANSWER_MS -> <<"no answer">>
    end.

%% Its input ends, so the process goes on. Nothing is sent to us after that.
close(Port) ->
    _ = try port_close(Port) catch error:badarg -> true end,
    ok.

printable(Said) -> [C || C <- unicode:characters_to_list(Said, latin1), C >= $\s, C < 127].

seconds(Ms) -> io_lib:format("~b.~3..0b", [Ms div 1000, Ms rem 1000]).

now_ms() -> erlang:monotonic_time(millisecond).

%% @doc The shell's program: `was' if the process is stopped already, `stopped', and after a line or the end of its input
%% `continued', or `late' if the clock was first. Some shells report that a signal ended the clock: not to us. The fields of
%% its status come after its name, which may be anything.
%%
%% From the stop on, the shell needs no new process: on a sick machine there may be none. So it reads the status
%% itself, and the clock has its `sleep' before. The clock goes on to let the process go on, because this shell may
%% come to the stop only after the limit, and so does the shell when it finds that the clock was first.
-spec script() -> string().
script() ->
    "exec 2>/dev/null\n"
    "trap '' INT TERM HUP QUIT PIPE\n"
    "set -f\n"
    "pid=$1 begun=$2 limit=$3\n"
    "same() {\n"
    "    line=\n"
    "    [ -r \"/proc/$pid/stat\" ] || return 1\n"
    "    { while IFS= read -r part || [ -n \"$part\" ]; do line=$line$part; done <\"/proc/$pid/stat\"; } || return 1\n"
    "    set -- ${line##*) }\n"
    "    [ $# -ge 20 ] || return 1\n"
    "    state=$1\n"
    "    shift 19\n"
    "    [ \"$1\" = \"$begun\" ]\n"
    "}\n"
    "same || { echo gone; exit; }\n"
    "case $state in T|t) echo was; exit ;; esac\n"
    "(\n"
    "    sleep \"$limit\" >/dev/null 2>&1 &\n"
    "    clock=$!\n"
    "    trap 'kill -KILL $clock; exit 3' USR1\n"
    "    wait $clock\n"
    "    trap 'exit 0' USR1\n"
    "    for again in 1 2 3 4 5 6 7 8 9 10; do\n"
    "        same && kill -CONT \"$pid\"\n"
    "        sleep 1 >/dev/null 2>&1\n"
    "    done\n"
    "    exit 0\n"
    ") &\n"
    "clock=$!\n"
    "if same && said=$(kill -STOP \"$pid\" 2>&1); then\n"
    "    echo stopped\n"
    "    read -r line\n"
    "    kill -USR1 $clock\n"
    "    wait $clock\n"
    "    late=$?\n"
    "    if same; then\n"
    "        kill -CONT \"$pid\"\n"
    "        if [ $late = 0 ]; then echo late; else echo continued; fi\n"
    "    else echo gone; fi\n"
    "else\n"
    "    kill -USR1 $clock\n"
    "    echo \"${said:-gone}\"\n"
    "fi\n".

%% ---- what /proc has

%% @doc Whether it is stopped, by a signal or by a debugger.
-spec is_stopped(pos_integer()) -> boolean().
is_stopped(OsPid) ->
    case status(["/proc/", integer_to_list(OsPid), "/stat"]) of
        [State | _] -> stands(State);
        none -> false
    end.

stands(State) -> State =:= <<"T">> orelse State =:= <<"t">>.

%% When it began, in the kernel's own unit.
started(OsPid) ->
    case status(["/proc/", integer_to_list(OsPid), "/stat"]) of
        none -> none;
        Fields -> binary_to_list(lists:nth(20, Fields))
    end.

each_thread(OsPid, Until) ->
    Tasks = lists:concat(["/proc/", OsPid, "/task"]),
    Names = case file:list_dir(Tasks) of
                {ok, All} -> All;
                {error, _} -> []
            end,
    Runs = [Name || Name <- Names, [State | _] <- [status([Tasks, $/, Name, "/stat"])], not stands(State)],
    case Runs =:= [] of
        true -> true;
        false ->
            case now_ms() < Until of
                true -> timer:sleep(1), each_thread(OsPid, Until);
                false -> false
            end
    end.

%% What changes if a thread runs, however short. A thread is shown as stopped just before it leaves its processor.
threads(OsPid) ->
    Tasks = lists:concat(["/proc/", OsPid, "/task"]),
    case file:list_dir(Tasks) of
        {ok, Names} -> [{Name, state(status([Tasks, $/, Name, "/stat"])), switches([Tasks, $/, Name, "/status"])}
                        || Name <- lists:sort(Names)];
        {error, _} -> none
    end.

settled(_, Threads, 0) -> Threads;
settled(OsPid, Threads, Tries) ->
    ok = timer:sleep(1),
    case threads(OsPid) of
        Threads -> Threads;
        Others -> settled(OsPid, Others, Tries - 1)
    end.

%% Whether it is stopped, and its time in its own code and in the kernel.
state(none) -> none;
state([State | _] = Fields) -> {stands(State), lists:nth(12, Fields), lists:nth(13, Fields)}.

switches(File) ->
    case file:read_file(File) of
        {ok, Text} -> re:run(Text, "^\\w+_ctxt_switches:\\s*([0-9]+)", [multiline, global, {capture, [1], binary}]);
        {error, _} -> none
    end.

%% The fields from the third on, after the name.
status(File) ->
    case file:read_file(File) of
        {ok, Line} -> string:lexemes(lists:last(binary:split(Line, <<") ">>, [global])), " \n");
        {error, _} -> none
    end.
