%% yaws and ejabberd, extracted from packages and started on loopback, each on a node of its own
%% with a directory of its own. They end with `Stop', or when this node ends.
-module(live_servers).

-export([yaws/0, ejabberd/0, free_port/0]).

-define(START_MS, 60000).

%% @doc Serves the files of its directory.
yaws() ->
    Dir = directory("yaws"),
    Http = free_port(),
    ok = file:write_file(filename:join(Dir, "small.html"), binary:copy(<<"<p>small</p>\n">>, 100)),
    ok = file:write_file(filename:join(Dir, "large.txt"), rand:bytes(300000)),
    Start = lists:concat(["yaws:start_embedded(\"", Dir, "\", [{port, ", Http, "}, {listen, ",
                          "{127,0,0,1}}, {servername, \"localhost\"}], [{logdir, \"", Dir,
                          "\"}], \"t\")."]),
    Stop = node('yaws@localhost', Dir, ["-pa", os:getenv("SONDE_YAWS"), "-eval", Start], [],
                yaws_server),
    {'yaws@localhost', Http, Stop}.

%% @doc One host, `localhost', and a port for clients.
ejabberd() ->
    Dir = directory("ejabberd"),
    Xmpp = free_port(),
    Config = filename:join(Dir, "ejabberd.yml"),
    ok = file:write_file(Config, config(Xmpp)),
    Root = os:getenv("SONDE_EJABBERD"),
    Libs = lists:join(":", [filename:join(Root, Part)
                            || Part <- ["usr/lib/erlang/lib", "usr/lib/x86_64-linux-gnu"]]),
    Stop = node('ejabberd@localhost', Dir,
                ["-mnesia", "dir", "\"" ++ filename:join(Dir, "mnesia") ++ "\"", "-s", "ejabberd"],
                [{"ERL_LIBS", lists:flatten(Libs)}, {"EJABBERD_CONFIG_PATH", Config},
                 {"EJABBERD_LOG_PATH", filename:join(Dir, "ejabberd.log")}], ejabberd_sm),
    {'ejabberd@localhost', Xmpp, Stop}.

config(Xmpp) ->
    ["hosts: [localhost]\n"
     "loglevel: 3\n"
     "listen:\n"
     "  - {port: ", integer_to_list(Xmpp), ", ip: \"127.0.0.1\", module: ejabberd_c2s,\n"
     "     access: c2s, shaper: none}\n"
     "access_rules: {c2s: [allow: all]}\n"
     "modules: {mod_roster: {}, mod_offline: {}, mod_muc: {}, mod_disco: {}}\n"].

directory(Name) ->
    Dir = filename:join(os:getenv("HOME"), Name),
    ok = filelib:ensure_dir(filename:join([Dir, "tmp", "x"])),
    Dir.

free_port() ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    ok = gen_tcp:close(Socket),
    Port.

%% Returns when the process of that name is there. What the node prints goes to a file. The shell
%% kills it when its own input is at its end, which is the case, too, when this node was killed.
node(Node, Dir, Args, Env, Registered) ->
    Shell = "\"$@\" </dev/null >printed 2>&1 & read -r _; kill -9 $!",
    Port = open_port({spawn_executable, "/bin/sh"},
                     [{args, ["-c", Shell, "sh", "erl", "-noinput", "-sname", atom_to_list(Node),
                              "-setcookie", atom_to_list(erlang:get_cookie()), "-kernel",
                              "inet_dist_use_interface", "{127,0,0,1}" | Args]},
                      {env, [{"TMPDIR", filename:join(Dir, "tmp")}
                             | lists:ukeymerge(1, lists:sort(Env), [{"ERL_LIBS", false}])]},
                      {cd, Dir}]),
    true = until(fun() -> is_up(Node, Registered) end, ?START_MS div 100),
    fun() -> stop(Node, Port) end.

is_up(Node, Registered) ->
    net_kernel:connect_node(Node) =:= true
        andalso erpc:call(Node, erlang, whereis, [Registered]) =/= undefined.

stop(Node, Port) ->
    true = monitor_node(Node, true),
    true = port_close(Port),
    receive {nodedown, Node} -> ok end.

until(_, 0) -> false;
until(Is, Times) ->
    case Is() of
        true -> true;
        false -> timer:sleep(100), until(Is, Times - 1)
    end.
