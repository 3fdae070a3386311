%% The command `sonde' against nodes that do not have it: the broker that rabbitmq.sh has started,
%% and yaws, which is started here. jq reads what the command prints; afterwards the nodes must have
%% what they had before.
-module(live_attach).

-export([main/1]).

-define(MINUTE_MS, 60000).

main([_Amqp, _Seconds, _Logs]) ->
    live_report:start(),
    live_report:title("a broker that never heard of sonde"),
    look('rabbit@localhost', "rabbit_node_monitor"),
    live_report:title("yaws likewise"),
    Stop = start_yaws(),
    look('yaws@localhost', "yaws_server"),
    ok = Stop(),
    live_report:title("what is not there"),
    refused(),
    halt(live_report:finish("rabbitmq")).

%% ---- one node

look(Node, Process) ->
    Before = traces(Node),
    live_report:check("nothing of ours is there", ours(Before) =:= [], ours(Before)),
    {_, Library, _} = command(Node, "native --json", "jq -r 'if .status == \"active\" then "
                              "\"active\" else .status[0] end'"),
    live_report:check("read natively", Library =:= "active\n", "~ts", [string:trim(Library)]),
    _ = [answers(Node, Words, Filter)
         || {Words, Filter} <-
                [{"proc_count memory 5", ".rows | length == 5"},
                 {"proc_count binary_memory 5", ".rows[0].pid | startswith(\"<0.\")"},
                 {"proc_window reductions 5 200", ".rows[0].value > 0"},
                 {"proc_group application memory", ".rows[0].memory > 0"},
                 {"bin_account", ".total > 0"},
                 {"bin_owned 3", ".rows | length == 3"},
                 {"bin_garbage 3", ".rows | type == \"array\""},
                 {"bin_leak 3", ".rows | length == 3"},
                 {"ets_count memory 3", ".rows[0].size >= 0"},
                 {"port_types", ".rows | length > 0"},
                 {"info " ++ Process, ".meta.registered_name == \"" ++ Process ++ "\""},
                 {"heap " ++ Process, ".reachable > 0"},
                 {"heap_top " ++ Process ++ " 2", ".rows | length == 2"},
                 {"mailbox " ++ Process ++ " 2", ".messages >= 0"}]],
    dumps(Node, Process),
    gone(Node, Before, "after leaving"),
    cut(Node),
    gone(Node, Before, "after the command was killed in the middle of a call").

answers(Node, Words, Filter) ->
    {Text, Said, _} = command(Node, Words, ""),
    {Json, _, _} = command(Node, Words ++ " --json", "jq -e '" ++ Filter ++ "'"),
    live_report:check(Words, Text =:= 0 andalso length(Said) > 10 andalso Json =:= 0,
                      "exit codes ~b and ~b, ~ts", [Text, Json, hd(string:split(Said, "\n"))]).

dumps(Node, Process) ->
    File = filename:join(os:getenv("HOME"), lists:concat([Node, ".heapsnapshot"])),
    {Code, Said, _} = command(Node, "dump " ++ Process ++ " " ++ File, ""),
    {Read, Nodes, _} = run("jq -e '.snapshot.node_count' " ++ File),
    live_report:check("dump to a file here", Code =:= 0 andalso Read =:= 0, "~ts",
                      [string:trim(Nodes) ++ " nodes, " ++ hd(string:split(Said, "\n"))]).

%% Cuts the command off in a window of ten minutes, so that it never leaves.
cut(Node) ->
    Port = open_port({spawn_executable, os:getenv("SONDE_COMMAND")},
                     [{args, ["--node", atom_to_list(Node), "proc_window", "memory", "3",
                              "600000"]}, {env, env()}, exit_status]),
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    There = until(fun() -> is_in_a_window(Node) end),
    "" = os:cmd("kill -9 " ++ integer_to_list(Pid)),
    receive {Port, {exit_status, _}} -> ok end,
    live_report:check("a call of ten minutes has begun", There, "~0tp", [There]).

%% The command loads one module; its functions have the names of our modules as a prefix.
is_in_a_window(Node) ->
    Stacks = [Stack || Pid <- erpc:call(Node, erlang, processes, []),
                       {current_stacktrace, Stack} <- [erpc:call(Node, erlang, process_info,
                                                                 [Pid, current_stacktrace])]],
    lists:any(fun({sonde_guest, F, _, _}) -> lists:prefix("sonde_proc_count:", atom_to_list(F));
                 (_) -> false
              end, lists:append(Stacks)).

%% ---- what there is of ours on a node

gone(Node, Before, When) ->
    Start = erlang:monotonic_time(millisecond),
    Gone = until(fun() -> traces(Node) =:= Before end),
    Ms = erlang:monotonic_time(millisecond) - Start,
    live_report:check("nothing is left " ++ When, Gone andalso Ms < ?MINUTE_MS, "~b ms~ts",
                      [Ms, live_report:some(traces(Node) -- Before)]).

traces(Node) ->
    [{modules, [M || M <- loaded(Node), is_ours(M)]},
     {old_code, [M || M <- loaded_here(), on(Node, erlang, check_old_code, [M])]},
     {names, [N || N <- on(Node, erlang, registered, []), is_ours(N)]},
     {terms, [K || {{M, _} = K, _} <- on(Node, persistent_term, get, []), is_ours(M)]},
     {files, on(Node, file, list_dir, [on(Node, os, getenv, ["TMPDIR", "/tmp"])])},
     {code_path, on(Node, code, get_path, [])}].

ours(Traces) ->
    lists:append([What || {Kind, What} <- Traces, lists:member(Kind, [modules, names, terms])]).

loaded(Node) ->
    lists:sort([M || {M, _} <- on(Node, code, all_loaded, [])]).

%% The names of all our modules.
loaded_here() ->
    [list_to_atom(filename:basename(F, ".beam"))
     || F <- filelib:wildcard(filename:join(filename:dirname(code:which(sonde)), "sonde*.beam"))].

is_ours(Name) ->
    lists:prefix("sonde", atom_to_list(Name)).

on(Node, Module, Function, Args) ->
    erpc:call(Node, Module, Function, Args, 30000).

until(Is) ->
    until(Is, 900).

until(_, 0) -> false;
until(Is, Times) ->
    case Is() of
        true -> true;
        false -> timer:sleep(100), until(Is, Times - 1)
    end.

%% ---- the command

command(Node, Words, Filter) ->
    Line = lists:concat([os:getenv("SONDE_COMMAND"), " --node ", Node, " ", Words]),
    case Filter of
        "" -> run(Line);
        _ -> run("set -o pipefail; " ++ Line ++ " | " ++ Filter)
    end.

%% Exit code, standard output, standard error.
run(Line) -> run(Line, []).

run(Line, Env) ->
    Errors = filename:join(os:getenv("HOME"), "errors"),
    Port = open_port({spawn_executable, "/bin/bash"},
                     [{args, ["-c", "{ " ++ Line ++ "; } 2>" ++ Errors ++ " </dev/null"]},
                      {env, env() ++ Env}, exit_status, binary]),
    {Code, Out} = collect(Port, <<>>),
    {ok, Said} = file:read_file(Errors),
    {Code, unicode:characters_to_list(Out), unicode:characters_to_list(Said)}.

env() ->
    [{"SONDE_COOKIE", atom_to_list(erlang:get_cookie())}, {"ERL_LIBS", false}].

collect(Port, Out) ->
    receive
        {Port, {data, Data}} -> collect(Port, <<Out/binary, Data/binary>>);
        {Port, {exit_status, Code}} -> {Code, Out}
    end.

refused() ->
    Sonde = os:getenv("SONDE_COMMAND"),
    _ = [begin
             {Is, Out, Said} = run(Sonde ++ Words, Env),
             live_report:check(What, Is =:= Code andalso Out =:= "" andalso
                               length(string:lexemes(Said, "\n")) =:= 1, "exit code ~b, ~ts",
                               [Is, string:trim(Said)])
         end || {What, Code, Words, Env} <-
                    [{"a node that is not there", 1, " --node nobody@localhost native", []},
                     {"a host that is not there", 1, " --node rabbit@nohost.invalid native", []},
                     {"another cookie", 1, " --node rabbit@localhost native",
                      [{"SONDE_COOKIE", "another"}]},
                     {"an option that is not there", 2, " --node rabbit@localhost --frob native",
                      []}]],
    ok.

%% ---- yaws

start_yaws() ->
    Dir = filename:join(os:getenv("HOME"), "yaws"),
    ok = filelib:ensure_dir(filename:join([Dir, "tmp", "x"])),
    Start = "yaws:start_embedded(\"" ++ Dir ++ "\", [{port, 0}, {listen, {127,0,0,1}}, "
        "{servername, \"localhost\"}], [{logdir, \"" ++ Dir ++ "\"}], \"t\").",
    {ok, Erl} = {ok, os:find_executable("erl")},
    Port = open_port({spawn_executable, Erl},
                     [{args, ["-noinput", "-sname", "yaws@localhost", "-setcookie",
                              atom_to_list(erlang:get_cookie()), "-kernel",
                              "inet_dist_use_interface", "{127,0,0,1}", "-pa",
                              os:getenv("SONDE_YAWS"), "-eval", Start]},
                      {env, [{"TMPDIR", filename:join(Dir, "tmp")}, {"ERL_LIBS", false}]},
                      {cd, Dir}, exit_status]),
    true = until(fun() -> net_kernel:connect_node('yaws@localhost') =:= true andalso
                              on('yaws@localhost', erlang, whereis, [yaws_server]) =/= undefined
                 end),
    fun() ->
            true = rpc:cast('yaws@localhost', erlang, halt, []),
            receive {Port, {exit_status, _}} -> ok after 10000 -> ok end
    end.
