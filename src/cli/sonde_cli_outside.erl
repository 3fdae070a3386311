%% @private
%% The command from outside a node: reads the memory of an OS process or of a core file.
-module(sonde_cli_outside).

-include_lib("kernel/include/file.hrl").

-export([run/4]).

-import(sonde_cli_answer, [answer/2, complain/1, failed/1, format/1, not_read/2, of_file/3, reported_to/4, show/6, wait/1]).

-define(DONE, 0).
-define(FAILED, 1).
-define(SUSPECTS, 3).
-define(FREEZE_MS, 5000).
-define(COLUMNS, 80).
-define(MOST_REPORT_MS, 3600000).
-define(WRITE_MS, 500).       % to write a report, at most, when it is made
-define(WATCH_MS, 2000).
-define(OPTIONS, [depth, timeout, interval, force, values, os_pid, at]).

-spec run(pos_integer() | sonde_core_file:core(), sonde_cli_answer:command(), [term()], sonde_cli_answer:opts()) -> 0 | 1 | 3.
run(Target, Command, Args, Opts) ->
    Content = maps:get(values, Opts, maps:get(content, Opts, false)),
    Content andalso not sonde_cli_twin:may_show() andalso failed(sonde_cli_errors:report(content_forbidden)),
    _ = case sonde_outside:open(Target, Content) of
            ok -> ok;
            {error, No} -> no_answer(Target, No)
        end,
    _ = [complain(sonde_cli_core:without_code(Target)) || is_map(Target), not sonde_nif:has_code()],
    _ = [complain(["process ", integer_to_list(Target), " is stopped, by SIGSTOP or a debugger: nothing runs in it before SIGCONT "
                   "(kill -CONT ", integer_to_list(Target), ")"])
         || is_integer(Target), not is_map_key(freeze, Opts), sonde_cli_freeze:is_stopped(Target)],
    Function = function(Command),
    case asked_outside(Target, Function, Args, Opts) of
        {ok, Answer, Named} ->
            is_as_it_was(Target) orelse no_answer(Target, changed),
            shown_outside(Target, Command, Args, answer_outside(Target, Answer, Function), Named, Opts#{suspend => never});
        {error, Why} ->
            no_answer(Target, Why)
    end.

%% No process can be suspended from outside.
answer_outside(#{}, {error, busy}, _) ->
    failed("the process ran when the file was written, or its heap is not in the file");
answer_outside(_, {error, busy}, _) ->
    failed("the process cannot be read from outside: it ran, or had signals to handle, at every attempt");
answer_outside(_, Answer, Function) ->
    answer(Answer, Function).

function(#{run := {sonde, Function}}) -> Function;
function(#{run := Function}) -> Function.

asked_outside(Target, Function, Args, #{freeze := true} = Opts) ->
    case first_beside(Function, Args, Opts) of
        {ok, Args} -> frozen(Target, Function, Args, Opts);
        {ok, Beside} ->
            try put_in_place(frozen(Target, Function, Beside, Opts#{force := false, named => lists:last(Args)}), Beside, Args)
            after file:delete(lists:last(Beside))
            end;
        {error, Why} -> {error, {report, of_file(lists:last(Args), Why, file:format_error(Why))}}
    end;
asked_outside(Target, Function, Args, Opts) ->
    ask(Target, Function, Args, (maps:merge(Opts, one_moment(Target)))#{timeout => wait(Opts)}).

%% A file that is to be replaced stays until the look is known to be whole.
first_beside(Function, Args, #{force := true}) when Function =:= dump; Function =:= report ->
    {Before, [File]} = lists:split(length(Args) - 1, Args),
    case File =:= "-" orelse sonde_private_file:beside(File) of
        true -> {ok, Args};
        {ok, Beside} -> {ok, Before ++ [Beside]};
        Error -> Error
    end;
first_beside(_, Args, _) ->
    {ok, Args}.

put_in_place({ok, #{bytes := _}, _} = Answer, Beside, Args) ->
    [New, File] = [lists:last(Some) || Some <- [Beside, Args]],
    case file:rename(New, File) of
        ok -> Answer;
        {error, Why} -> {error, {report, of_file(File, Why, file:format_error(Why))}}
    end;
put_in_place(Answer, _, _) ->
    Answer.

%% With the names of processes, which are read before the target goes on.
ask(Target, report, Args, Opts) ->
    report(Target, Args, Opts);
ask(Target, Function, Args, Opts) ->
    case sonde_outside:call(Function, Args, maps:with(?OPTIONS, Opts)) of
        {ok, Answer, Report} -> {ok, Answer, with_names(Report, Target)};
        Error -> Error
    end.

frozen(Target, Function, Args, Opts) ->
    Limit = maps:get('freeze-limit', Opts, ?FREEZE_MS),
    Look = fun(Left) ->
                   ask(Target, Function, Args, Opts#{timeout => min(Left, wait(Opts)), interval => 0, os_pid => Target})
           end,
    case sonde_cli_freeze:during(Target, Limit, Look) of
        {ok, Answer, Said} ->
            is_whole(Answer) orelse begin
                ok = not_kept(Function, Args, Answer),
                failed(["process ", integer_to_list(Target), " ", Said,
                        ", but the look was not done in time (--freeze-limit MS, --timeout MS)"])
            end,
            complain(["process ", integer_to_list(Target), " ", Said]),
            Answer;
        {late, Answer, Text} ->
            ok = not_kept(Function, Args, Answer),
            failed(["process ", integer_to_list(Target), ": ", Text]);
        {error, Text} ->
            failed(["process ", integer_to_list(Target), ": ", Text])
    end.

%% Of a process that runs, what there was no time for is reported. One that was stopped was so in vain.
is_whole({ok, _, #{timeout := N}}) -> N =:= 0;
is_whole({ok, #{missing := Missing, incomplete := Cut}, _}) -> [Why || {_, Why} <- Missing ++ Cut, string:find(Why, "in time") =/= nomatch] =:= [];
is_whole({error, timeout}) -> false;
is_whole(_) -> true.

%% A file that was written too late says what was never true at one moment. If the look failed, it wrote no
%% file: a file of that name was there before.
not_kept(Function, Args, {ok, #{bytes := _}, _}) when Function =:= dump; Function =:= report ->
    _ = file:delete(lists:last(Args)),
    ok;
not_kept(_, _, _) ->
    ok.

%% Nothing changes in an OS process that is stopped.
one_moment(#{path := Path}) ->
    case file:read_file_info(Path, [raw, {time, posix}]) of
        {ok, #file_info{mtime = Written}} -> #{at => 1000 * Written};
        {error, _} -> #{}
    end;
one_moment(OsPid) -> maps:from_list([{os_pid, OsPid} | [{interval, 0} || sonde_cli_freeze:is_stopped(OsPid)]]).

shown_outside(Target, #{run := diagnose} = Command, _, #{suspects := Suspects, not_looked_at := Not} = Diagnosis, Report, Opts) ->
    _ = case format(Opts) of
            json -> ok = sonde_cli_show:show(json, Command, [], Diagnosis, Report);
            text ->
                Typed = fun(Call) -> sonde_outside_names:typed(again(Target, Opts), Call) end,
                io:put_chars([[Line, $\n] || Line <- sonde_diagnose_text:outside(Diagnosis, ?COLUMNS, Typed)])
        end,
    not_read(Report, Opts),
    case Suspects of
        [_ | _] -> ?SUSPECTS;
        [] ->
            case lists:keymember(processes, 1, Not) of
                true -> ?FAILED;
                false -> ?DONE
            end
    end;
shown_outside(_, #{run := report} = Command, _, Written, _, Opts) ->
    reported_to(Command, "", Written, Opts);
shown_outside(_, Command, Args, Answer, Report, Opts) ->
    show(node(), Command, Args, not_asked(Answer), Report, Opts).

%% What the node itself allows is not known: content is left out because it was not asked for.
not_asked(#{content := forbidden} = Answer) -> Answer#{content := not_asked};
not_asked([#{preview := forbidden} | _] = Rows) -> [Row#{preview := not_asked} || Row <- Rows];
not_asked(Answer) -> Answer.

%% A process that was stopped for the report is let go on in time.
report(Target, [File], #{timeout := Ms} = Opts) ->
    Left = case Opts of #{freeze := true} -> max(1, Ms - ?WRITE_MS); _ -> Ms end,
    Interval = case Target of #{} -> 0; _ -> maps:get(interval, Opts, ?WATCH_MS) end,
    Asked = maps:merge(#{timeout => min(Left, ?MOST_REPORT_MS)}, maps:with([force, content], Opts)),
    About = #{name => name(Target), command => again(Target, Opts), interval => Interval},
    Written = case File of
                  "-" -> sonde_outside_report:printed(Asked, About);
                  _ -> sonde_outside_report:write(File, Asked, About)
              end,
    case {Written, Opts} of
        {{ok, Answer}, _} -> {ok, Answer, #{}};
        {{error, timeout}, #{freeze := true}} -> {error, timeout};
        {{error, Why}, _} -> {error, {report, of_file(maps:get(named, Opts, File), Why, sonde_cli_errors:report(Why))}}
    end.

name(#{path := Path}) -> ["core file ", filename:basename(Path)];
name(OsPid) -> ["process ", integer_to_list(OsPid)].

%% How this command asks for more. What it needed to look at the target at all, it needs again.
again(Target, Opts) ->
    [target(Target), [[" --sysroot ", shell_word(Folder)] || #{sysroot := Folder} <- [Opts]], [" --trust" || #{trust := true} <- [Opts]]].

target(#{path := Path}) -> ["sonde --core ", shell_word(Path)];
target(OsPid) -> ["sonde --pid ", integer_to_list(OsPid)].

shell_word(Path) ->
    case re:run(Path, "^[\\w./,:@%+=-]+\\z", [unicode, {capture, none}]) of
        match -> Path;
        nomatch -> [$', string:replace(Path, "'", "'\\''", all), $']
    end.

is_as_it_was(#{}) -> sonde_outside:is_there();
is_as_it_was(_OsPid) -> true.

%% Those that run at each look may be the culprits.
with_names(#{missed := #{pids := Pids} = Missed} = Report, Target) ->
    Named = [{Pid, sonde_outside_missed:why(kind(Target), Pid, Why), sonde_outside_names:attrs(Pid)} || {Pid, Why} <- Pids],
    Report#{missed := Missed#{pids := Named}};
with_names(Report, _) ->
    Report.

kind(#{}) -> core;
kind(_OsPid) -> living.

-spec no_answer(pos_integer() | sonde_core_file:core(), sonde_outside:why() | {report, unicode:chardata()}) -> no_return().
no_answer(_, {report, Text}) ->
    failed(Text);
no_answer(#{path := Path}, Why) ->
    failed(["core ", Path, ": ", sonde_cli_core:errors(Why)]);
no_answer(OsPid, Why) ->
    failed(["process ", integer_to_list(OsPid), ": ", sonde_outside:errors(Why)]).

