%% @private
%% The command `sonde': attaches to a node, makes one call of `sonde' there, prints the result, and
%% disconnects.
-module(sonde_cli).

-export([main/1, run/1]).
-export([work/1]).

-import(sonde_cli_answer, [answer/2, complain/1, failed/1, format/1, good/1, not_in_it/2, of_file/3, ok/1, picture/3,
                           put_text/1, reported_to/4, show/6, wait/1, with_missing/1]).

-define(DONE, 0).
-define(FAILED, 1).
-define(WRONG_USAGE, 2).
-define(SUSPECTS, 3).
-define(TERMINATED, 143).     % what a shell reports for SIGTERM: 128 + 15
-define(CALL_MS, 60000).
-define(PUT_BACK_MS, 600).    % longer than top waits for its terminal
-define(LOOK_MS, 20).
-define(MOST_REPORT_MS, 3600000).
-define(MAX_PORT, 16#FFFFFFFFFFFFFFFF).
-define(REPORTS, 4).          % at a time

%% @doc The entry point of the escript.
-spec main([string()]) -> no_return().
main(Words) ->
    ok = logger:set_primary_config(level, none),      % what fails is said by run/1, in one line
    ok = sonde_cli_signal:tell(self()),
    _ = [io:setopts(Device, [{encoding, unicode}]) || is_utf8(), Device <- [standard_io, standard_error]],
    {Pid, Ref} = spawn_monitor(?MODULE, work, [Words]),
    receive
        {'DOWN', Ref, process, Pid, {done, Code}} ->
            erlang:halt(Code);
        {'DOWN', Ref, process, Pid, _} ->
            erlang:halt(?FAILED);
        sigterm ->
            true = exit(Pid, kill),
            ok = put_back(),
            erlang:halt(?TERMINATED, [{flush, false}])
    end.

%% Before OTP 26, a script writes Latin-1 whatever the locale is.
is_utf8() ->
    Locale = [Value || Name <- ["LC_ALL", "LC_CTYPE", "LANG"], Value <- [os:getenv(Name, "")], Value =/= ""],
    re:run(lists:sublist(Locale, 1), "utf-?8", [caseless, {capture, none}]) =:= match.

-spec work([string()]) -> no_return().
work(Words) ->
    exit({done, run(Words)}).

%% A helper notices that its caller is gone: `top' restores the terminal, `dump' deletes the file;
%% if that helper is killed, a second one does. The node that we look at notices that the connection
%% is gone.
put_back() ->
    case helpers_end(?PUT_BACK_MS) of
        [] -> ok;
        Helpers ->
            _ = [exit(Pid, kill) || {Pid, serve} <- Helpers],
            _ = helpers_end(?PUT_BACK_MS),
            ok
    end.

helpers_end(Ms) ->
    Helpers = [{P, F} || P <- processes(),
                         {initial_call, {sonde_helper, F, _}} <- [process_info(P, initial_call)]],
    case Helpers of
        [_ | _] when Ms > 0 -> timer:sleep(?LOOK_MS), helpers_end(Ms - ?LOOK_MS);
        _ -> Helpers
    end.

%% @doc Runs the command and returns its exit code.
-spec run([string()]) -> 0..3.
run(Words) ->
    try command(sonde_cli_args:parse(Words), Words) of
        Code -> written(Code)
    catch
        throw:{failed, Text} ->
            complain(Text),
            ?FAILED;
        error:terminated -> unwritten();           % the device has ended
        Class:Why:Stack ->
            complain(io_lib:format("~0tP", [{Class, Why, Stack}, 60])),
            ?FAILED
    end.

%% Output is written later, and the device ends if it cannot be.
written(Code) ->
    ok = drained(group_leader()),
    case io:getopts() of
        {error, _} -> unwritten();
        _ -> Code
    end.

unwritten() ->
    complain("the output could not be written"),
    ?FAILED.

%% Before OTP 26, this is the process with the port.
drained(Device) ->
    Ports = case node(Device) =:= node() andalso process_info(Device, links) of
                {links, Links} -> [Port || Port <- Links, is_port(Port)];
                _ -> []
            end,
    case [Port || Port <- Ports, {queue_size, N} <- [erlang:port_info(Port, queue_size)], N > 0] of
        [] -> ok;
        _ -> timer:sleep(?LOOK_MS), drained(Device)
    end.

command({help, none}, _) -> put_text(sonde_cli_help:general());
command({help, Command}, _) -> put_text(sonde_cli_help:command(Command));
command(version, _) -> put_text(sonde_cli_help:version());
command({wrong, Why}, _) ->
    complain([Why, " (sonde --help)"]),
    ?WRONG_USAGE;
command({run, #{run := completion}, [Shell], _}, _) ->
    put_text(sonde_cli_complete:script(Shell));
command({run, Command, Args, #{pid := OsPid} = Opts}, Words) ->
    case sonde_cli_twin:is_twin() of
        true -> sonde_cli_outside:run(OsPid, Command, Args, Opts);
        false -> ok(good(twin(OsPid, maps:get(trust, Opts, false), Words)))
    end;
command({run, Command, Args, #{core := Name} = Opts}, Words) ->
    case sonde_cli_twin:is_twin() of
        true ->
            {ok, Core} = good(sonde_cli_core:open(Name)),
            lists:foreach(fun sonde_cli_answer:complain/1, sonde_cli_core:said(Core)),
            sonde_cli_outside:run(Core, Command, Args, Opts);
        false ->
            ok(good(sonde_cli_twin:run(sonde_cli_core:target(Name, Opts), Words)))
    end;
command({run, Command, Args, Opts}, _) ->
    Nodes = case Opts of #{node := N} -> [N]; #{cluster := Ns} -> lists:usort(Ns) end,
    ok = good(sonde_cli_node:start(Nodes, maps:get('cookie-file', Opts, undefined))),
    Ours = sonde_bundle:ours(),
    case Opts of
        #{node := Node} -> one(Node, Ours, Command, Args, Opts);
        #{cluster := _} -> several(Nodes, Ours, Command, Args, Opts)
    end.

%% What went wrong may be that it ended just now, and its files in /proc with it.
twin(OsPid, Trust, Words) ->
    case sonde_cli_twin:run(sonde_cli_target:read(OsPid, Trust), Words) of
        {ok, Code} -> {ok, Code};
        {error, _} = Error ->
            case sonde_cli_target:read(OsPid, Trust) of
                {ok, _} -> Error;
                Now -> Now
            end
    end.

%% ---- attach and leave

attach(Node, Ours) ->
    case sonde_cli_node:connect(Node) of
        ok ->
            case sonde_attach:open(Node, Ours) of
                {ok, #{how := {portable, Why}} = Attached} ->
                    complain([atom_to_list(Node), ": ", sonde_cli_errors:side(Why, Ours)]),
                    {ok, Attached};
                {ok, Attached} ->
                    {ok, Attached};
                {error, Why} ->
                    {error, [atom_to_list(Node), ": ", sonde_cli_errors:attach(Why, Ours)]}
            end;
        Error ->
            Error
    end.

leave(Attached) ->
    case sonde_attach:close(Attached) of
        ok ->
            ok;
        {error, _} ->
            complain([atom_to_list(maps:get(node, Attached)),
                      ": no answer; if the node still runs, it removes sonde by itself within a minute"])
    end.

%% ---- one node

one(Node, Ours, Command, Args, Opts) ->
    case attach(Node, Ours) of
        {ok, Attached} ->
            try on(Node, Command, Args, Opts)
            catch throw:{failed, Text} -> failed([atom_to_list(Node), ": ", Text])
            after leave(Attached)
            end;
        {error, Text} ->
            failed(Text)
    end.

on(Node, #{run := top}, [], _) ->
    case sonde:top(#{node => Node}) of
        ok -> ?DONE;
        {error, {_, Why}} -> failed(io_lib:format("~0tP", [Why, 20]))
    end;
on(Node, #{run := diagnose} = Command, [], Opts) ->
    Interval = maps:with([interval], Opts),
    Found = call(Node, diagnosis, [Interval], wait(Opts) + both_looks(Opts)),
    #{suspects := Suspects} = Diagnosis = sonde_cli_show:as_there(Found, Node),
    case format(Opts) of
        json -> ok = sonde_cli_show:show(json, Command, [], Diagnosis, #{});
        text -> io:put_chars(sonde_diagnose:format(Diagnosis))
    end,
    case Suspects of
        [] -> ?DONE;
        [_ | _] -> ?SUSPECTS
    end;
on(Node, #{run := dump} = Command, [Process, File], Opts) ->
    Look = maps:merge(#{force => false, values => false, suspend => false, progress => false,
                        max_nodes => 5000000, max_words => 1000000000, timeout => wait(Opts)},
                      maps:with([force, values, suspend], Opts)),
    Written = case sonde_dump:write(Node, there(Node, Process), File, Look) of
                  {error, Why} -> {error, of_file(File, Why, Why)};
                  Other -> Other
              end,
    show(Node, Command, [], ok(answer(Written, dump)), #{}, Opts);
on(Node, #{run := report} = Command, [File], Opts) ->
    case report(Node, File, Opts) of
        {ok, Written} -> reported_to(Command, "", Written, Opts);
        {error, Text} -> failed(Text)
    end;
on(Node, #{run := {sonde, Function}} = Command, Args, Opts) ->
    There = [there(Node, Arg) || Arg <- Args],
    {Answer, Report} = reported(Node, Command, There, wait(Opts) + windows(Command, Args), Opts),
    show(Node, Command, Args, with_calls(Node, There, answer(Answer, Function)), Report, Opts).

%% Replaces recon's `proc_lib:init_p/5' in rows by the function that the process began with.
with_calls(Node, Args, Answer) ->
    {Module, Shown} = sonde_remote_name:on(Node, sonde_origin, shown),
    try erpc:call(Node, Module, Shown, [Args, Answer], ?CALL_MS)
    catch _:_ -> Answer
    end.

report(Node, File, Opts) ->
    try
        Ask = maps:merge(#{node => Node, timeout => min(wait(Opts), ?MOST_REPORT_MS)},
                         maps:with([force, content, interval], Opts)),
        made(File, maps:merge(Ask, maps:map(fun(_, Watcher) -> there(Node, Watcher) end, maps:with([watcher], Opts))))
    of
        {ok, Written} -> {ok, Written};
        {error, Why} -> {error, of_file(File, Why, sonde_cli_errors:report(Why))}
    catch
        error:badarg -> {error, sonde_cli_errors:report(badarg)};
        throw:{failed, Text} -> {error, Text}
    end.

made("-", Ask) -> sonde_report:printed(Ask, here);
made(File, Ask) -> sonde:report(File, Ask).

%% The answer, and its report if there is one. Another build of sonde may not know the option
%% `report': then ask for the rows alone.
reported(Node, #{run := {sonde, Function}, missed := true}, Args, Ms, Opts) ->
    case tried(Node, Function, with_report(Function, Args, Opts), Ms) of
        {ok, {Rows, Report}} ->
            {Rows, Report};
        {error, Why} when Why =:= undef orelse Why =:= badarg, not is_map_key(suspend, Opts),
                          not is_map_key(depth, Opts) ->
            {call(Node, Function, Args, Ms), #{}};
        Other ->
            {result(Other, Function), #{}}
    end;
reported(Node, #{run := {sonde, Function}}, Args, Ms, Opts) ->
    {call(Node, Function, Args ++ [#{suspend => true} || #{suspend := true} <- [Opts]], Ms), #{}}.

with_report(Function, Args, Opts) ->
    all_args(Function, Args) ++ [maps:merge(#{report => true}, maps:with([suspend, depth], Opts))].

%% The arguments before the options, with their defaults.
all_args(bin_garbage, [N]) -> [N, count];
all_args(bin_holders, [N]) -> [N, size];
all_args(_, Args) -> Args.

both_looks(Opts) -> sonde_facts:longest(maps:get(interval, Opts, 2000)).

%% How long the call takes because of its arguments, in milliseconds.
windows(#{args := Wanted}, Args) ->
    Given = lists:zip(lists:sublist(Wanted, length(Args)), Args),
    Ms = lists:sum([V || {#{type := ms}, V} <- Given]),
    case Given of
        [{#{type := count}, N}, {#{type := ms}, _}] -> N * Ms;
        _ -> Ms
    end.

%% ---- arguments that name a process or a port of the node

there(Node, {process, Text}) -> process(Node, Text, re:run(Text, "^<?([0-9.]+)>?$",
                                                           [unicode, {capture, all_but_first, list}]));
there(_, {port, Text}) ->
    case re:run(Text, "^(?:([0-9]+)|#Port<0\\.([0-9]+)>)\\z", [unicode, {capture, all_but_first, list}]) of
        {match, Number} -> port_number(lists:last(Number), Text);
        nomatch -> failed(["not a port, such as 12 or #Port<0.12>: ", Text])
    end;
there(_, Arg) -> Arg.

port_number(Number, Text) ->
    case list_to_integer(Number) of
        N when N =< ?MAX_PORT -> N;
        _ -> failed(["no port can have the number of ", Text])
    end.

process(Node, Text, {match, [Numbers]}) ->
    case ask(Node, erlang, list_to_pid, ["<" ++ Numbers ++ ">"]) of
        Pid when is_pid(Pid), node(Pid) =:= Node ->
            ask(Node, erlang, is_process_alive, [Pid])
                orelse failed(["no such process: ", Text]),
            Pid;
        _ ->
            failed(["no such process: ", Text])
    end;
process(Node, Text, nomatch) ->
    %% `MyApp.Repo' is what a table shows of 'Elixir.MyApp.Repo'.
    case [Pid || Registered <- [Text, "Elixir." ++ Text],
                 Name <- [ask(Node, erlang, list_to_existing_atom, [Registered])], is_atom(Name),
                 Pid <- [ask(Node, erlang, whereis, [Name])], is_pid(Pid)] of
        [Pid | _] -> Pid;
        [] -> failed(["no process is registered as ", Text])
    end.

%% The result, or `{raised, Why}'.
ask(Node, Module, Function, Args) ->
    try erpc:call(Node, Module, Function, Args, ?CALL_MS)
    catch error:{exception, Why, _} -> {raised, Why}
    end.

call(Node, Function, Args, Ms) ->
    result(tried(Node, Function, Args, Ms), Function).

result({ok, Answer}, _) -> Answer;
result({error, Why}, Function) -> failed(sonde_cli_errors:call(Why, Function)).

tried(Node, Function, Args, Ms) ->
    {Module, Named} = sonde_remote_name:on(Node, sonde, Function),
    Asked = sonde_cluster:asked(Function, Args),
    try erpc:call(Node, Module, Named, Asked, min(Ms, 16#FFFFFFFF)) of
        Answer -> {ok, sonde_cluster:rows(Function, Args, Answer)}
    catch
        Class:Why -> {error, sonde_cluster:reason({Class, Why})}
    end.

%% ---- several nodes

several(Nodes, Ours, Command, Args, Opts) ->
    Attached = [{Node, attach(Node, Ours)} || Node <- Nodes],
    try of_attached(Attached, Command, Args, Opts)
    after [leave(A) || {_, {ok, A}} <- Attached]
    end.

%% A file for each node; one without an answer does not hold up the others.
of_attached(Attached, #{run := report} = Command, [File], Opts) ->
    Refused = [{Node, Text} || {Node, {error, Text}} <- Attached],
    Written = each_report([Node || {Node, {ok, _}} <- Attached], File, Opts),
    Failed = Refused ++ [{Node, [atom_to_list(Node), ": ", Text]} || {Node, _, {error, Text}} <- Written],
    ok = show_reports([{Node, Name, Done} || {Node, Name, {ok, Done}} <- Written], Failed, Command, format(Opts)),
    _ = [complain(Text) || {_, Text} <- Failed],
    case Failed of
        [] -> ?DONE;
        [_ | _] -> ?FAILED
    end;
of_attached(Attached, Command, Args, Opts) ->
    #{rows := Rows, failed := Failed} = Result =
        of_cluster([Node || {Node, {ok, _}} <- Attached], Command, Args, Opts),
    All = [{Node, Text} || {Node, {error, Text}} <- Attached]
        ++ [{Node, [atom_to_list(Node), ": ", Text]} || {Node, Text} <- Failed],
    Shown = [{Node, sonde_cli_show:as_there(with_calls(Node, [], Row), Node)}
             || {Node, Row} <- Rows],
    Reports = [{Node, sonde_cli_show:as_there(Report, Node)}
               || {Node, Report} <- maps:get(reports, Result, [])],
    ok = show_cluster(
           Command, Args, Opts,
           #{rows => Shown, reports => Reports,
             failed => [{Node, unicode:characters_to_binary(Text)} || {Node, Text} <- All]}),
    _ = [complain(Text) || {_, Text} <- All],
    _ = [complain([atom_to_list(Node), ": ", Text])
         || {Node, Report} <- Reports ++ [Each || {_, #{missed := _}} = Each <- Shown],
            Text <- sonde_cli_errors:missed(Report, Opts)],
    case [Suspect || {_, #{suspects := [Suspect | _]}} <- Shown] of
        [_ | _] -> ?SUSPECTS;
        [] when All =:= [] -> ?DONE;
        [] -> ?FAILED
    end.

each_report(Nodes, File, Opts) ->
    One = fun(Node) -> report(Node, of_node(File, Node), Opts) end,
    Ms = (wait(Opts) + both_looks(Opts) + ?CALL_MS) * (1 + length(Nodes) div ?REPORTS),
    Done = sonde_helper:call(
             fun(Caller) ->
                     sonde_helper:jobs(fun(Node) -> sonde_helper:job(One, Node) end,
                                       fun(Node, Answer, Acc) -> Acc#{Node => Answer} end, #{}, Nodes,
                                       #{in_flight => ?REPORTS, caller => Caller,
                                         until => erlang:monotonic_time(millisecond) + Ms})
             end),
    [{Node, of_node(File, Node), case map_get(Node, Done) of
                                     unanswered -> {error, "not done in time (--timeout MS)"};
                                     Answer -> Answer
                                 end} || Node <- Nodes].

%% incident.html: incident-rabbit@host.html
of_node(File, Node) ->
    filename:rootname(File) ++ "-" ++ atom_to_list(Node) ++ filename:extension(File).

show_reports(Written, Failed, Command, json) ->
    Rows = [{Node, (with_missing(Done))#{file => unicode:characters_to_binary(Name)}} || {Node, Name, Done} <- Written],
    sonde_cli_show:cluster(json, Command, [], #{rows => Rows, reports => [],
                                                failed => [{Node, unicode:characters_to_binary(Text)} || {Node, Text} <- Failed]});
show_reports(Written, _, _, text) ->
    _ = [begin
             ok = not_in_it([atom_to_list(Node), ": "], Done),
             io:put_chars([atom_to_list(Node), "  ", Name, $\n])
         end || {Node, Name, Done} <- Written],
    ok.

show_cluster(#{run := {sonde, stacks}}, _, #{collapsed := true}, #{rows := Rows}) ->
    io:put_chars([[atom_to_list(Node), $;, sonde_stacks:collapsed([Row])] || {Node, Row} <- Rows]);
show_cluster(#{run := {sonde, stacks}}, _, #{svg := File} = Opts, #{rows := Rows}) ->
    picture(File, sonde_stacks:flame([{atom_to_list(Node), Row} || {Node, Row} <- Rows]), Opts);
show_cluster(Command, Args, Opts, Shown) ->
    sonde_cli_show:cluster(format(Opts), Command, Args, Shown).

%% In `failed', the reasons are texts.
of_cluster(Nodes, #{run := diagnose}, [], Opts) ->
    of_each(diagnosis, [maps:with([interval], Opts)], Nodes, wait(Opts) + both_looks(Opts));
of_cluster(Nodes, #{run := {sonde, Function}, each := true}, Args, Opts) ->
    of_each(Function, Args ++ [#{suspend => true} || #{suspend := true} <- [Opts]], Nodes,
            wait(Opts));
of_cluster(Nodes, #{run := {sonde, Function}} = Command, Args, Opts) ->
    #{failed := Failed} = Answer =
        everywhere(Command, Args, Opts,
                   #{nodes => Nodes, timeout => wait(Opts) + windows(Command, Args)}),
    Answer#{failed := [{Node, sonde_cli_errors:call(Why, Function)} || {Node, Why} <- Failed]}.

%% Like reported/5: if one node has another build of sonde, asks all for the rows alone.
everywhere(#{run := {sonde, Function}, missed := true}, Args, Opts, How) ->
    #{failed := Failed} = Result = sonde:cluster({Function, with_report(Function, Args, Opts)}, How),
    Older = [Node || {Node, Why} <- Failed, Why =:= undef orelse Why =:= badarg],
    case Older =:= [] orelse is_map_key(suspend, Opts) orelse is_map_key(depth, Opts) of
        true -> Result;
        false -> sonde:cluster({Function, Args}, How)
    end;
everywhere(#{run := {sonde, Function}}, Args, _Opts, How) ->
    sonde:cluster({Function, Args}, How).

of_each(Function, Args, Nodes, Ms) ->
    Answers = [{Node, of_one(Answer, Function)}
               || {Node, Answer} <- sonde_cluster:each(Function, Args, Nodes, Ms)],
    #{rows => [{Node, Report} || {Node, {ok, Report}} <- Answers],
      failed => [{Node, Text} || {Node, {failed, Text}} <- Answers]}.

of_one({error, Why}, Function) -> {failed, sonde_cli_errors:call(Why, Function)};
of_one({ok, Answer}, Function) ->
    case sonde_cli_errors:answer(Answer, Function) of
        answer -> {ok, Answer};
        Failed -> Failed
    end.
