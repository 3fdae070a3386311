%% @private
%% The one table of the command `sonde': its parser, its help and the completions of shells are made
%% from it.
-module(sonde_cli_table).

-export([options/0, commands/0, command/1, option/2]).
-export_type([option/0, command/0, arg/0, type/0]).

%% `count': an integer, at least 0; `ms': milliseconds; `process': a pid or a registered name;
%% `{one_of, _}': one of these atoms; other text does not become an atom.
-type type() :: count | integer | ms | os_pid | node | nodes | process | port | file | local_file | command
              | {one_of, [atom()]}.
%% Optional arguments are last; `many' takes all that are left, at least one.
-type arg() :: #{name := string(), type := type(), optional => true, many => true}.
%% An option without `arg' is a switch.
-type option() :: #{name := atom(), letter => char(), arg => {string(), type()},
                    help := string()}.
%% `run': the call of `sonde' that takes the arguments, or an action of the command itself. `row':
%% names of the elements of its rows, in JSON. `value': what the values count, as a heading where no
%% ATTR names it. `none': what an answer without rows means. `each': it has no rows, and is printed
%% once for each node of a cluster. `missed': it takes `report => true', and reports what it could
%% not read. `outside': it can look at a process of this machine, with --pid; `core': into a core file, with --core.
-type command() :: #{name := string(), args := [arg()], options => [option()], help := string(),
                     text => [string()], run := {sonde, atom()} | atom(), row => [atom()],
                     value => atom(), none => string(), each => true, missed => true,
                     outside => true, core => true}.

-spec options() -> [option()].
options() ->
    [#{name => node, letter => $n, arg => {"NODE", node},
       help => "the node to look at, such as rabbit@host; a host with a dot means long names"},
     #{name => cluster, letter => $c, arg => {"NODES", nodes},
       help => "several nodes, separated by commas: one table of all their rows, or a report of "
               "each"},
     #{name => pid, letter => $p, arg => {"OSPID", os_pid},
       help => "the node that is this process of this machine, looked at from outside: it need not "
               "answer, and nothing is loaded onto it"},
     #{name => core, arg => {"FILE", local_file},
       help => "the node that left this core file when it died"},
     #{name => sysroot, arg => {"DIR", local_file},
       help => "with --core: a folder with the files of the machine or container that the core file is from"},
     #{name => freeze,
       help => "with --pid: stop the process for the look, then let it go on; it says for how long"},
     #{name => 'freeze-limit', arg => {"MS", ms},
       help => "with --freeze: let it go on after that long in any case (default 5000, at most 60000)"},
     #{name => trust,
       help => "with --pid or --core: run the program of another user's node with your rights"},
     #{name => 'cookie-file', arg => {"FILE", local_file},
       help => "read the cookie from the first line of FILE; default: $SONDE_COOKIE, then "
               "~/.erlang.cookie"},
     #{name => timeout, letter => $t, arg => {"MS", ms},
       help => "how long a call may take, in milliseconds (default 60000)"},
     #{name => json, letter => $j, help => "print the result as one JSON object"},
     #{name => help, letter => $h, help => "print this text, or the help of the command"},
     #{name => version, help => "print the version"}].

%% @doc The general options, and those of the command.
-spec option(string(), command() | none) -> option() | none.
option(Name, Command) ->
    Own = case Command of none -> []; _ -> maps:get(options, Command, []) end,
    case [O || #{name := N} = O <- Own ++ options(), atom_to_list(N) =:= Name] of
        [Option | _] -> Option;
        [] -> none
    end.

-spec command(string()) -> command() | none.
command(Name) ->
    case [C || #{name := N} = C <- commands(), N =:= Name] of
        [Command] -> Command;
        [] -> none
    end.

-spec commands() -> [command()].
commands() ->
    overviews() ++ of_processes() ++ binaries() ++ one_process() ++ others() ++ itself().

%% ---- the whole node

overviews() ->
    [#{name => "top", args => [], run => top,
       help => "a live view of the node; its keys are on the screen"},
     #{name => "diagnose", args => [], run => diagnose, each => true, outside => true, core => true,
       options => [#{name => interval, arg => {"MS", ms},
                     help => "how long to watch the node, in milliseconds (default 2000)"}],
       help => "what takes memory, what grows, and what to do about it",
       text => ["The exit code is 3 if there are suspects; in a cluster, on any of its nodes."]},
     #{name => "report", args => [arg("FILE", local_file)], run => report, each => true, outside => true, core => true,
       options => [#{name => force, help => "overwrite an existing file"},
                   #{name => content, help => "include previews and keys of the heaps in the report"},
                   #{name => interval, arg => {"MS", ms},
                     help => "how long the diagnosis watches the node, in milliseconds (default 2000)"},
                   #{name => watcher, arg => {"PROCESS", process},
                     help => "the watcher with the history (default sonde_watch)"}],
       help => "write a report of the node to an HTML file on this machine, for any browser",
       text => ["The file needs no network. Without --content it has no values, no messages,",
                "and no keys but atoms. With --cluster there is a file for each node: of",
                "incident.html, incident-rabbit@host.html. If FILE is -, the page is printed",
                "on the standard output."]}].

of_processes() ->
    Row = [pid, value, attrs],
    [#{name => "proc_count", args => [attr(), n()], run => {sonde, proc_count}, row => Row,
       missed => true, outside => true, core => true, options => [suspend()],
       help => "the N processes with the highest ATTR"},
     #{name => "proc_window", args => [numbers(), n(), ms()], run => {sonde, proc_window},
       row => Row, outside => true,
       help => "the N processes with the most growth of ATTR in MS milliseconds"},
     #{name => "proc_group", args => [by(), (numbers())#{many => true}],
       run => {sonde, proc_group}, row => [group, processes, attrs], value => processes,
       outside => true, core => true,
       help => "groups of processes by what they have in common, with totals of ATTR"},
     #{name => "waits", args => [n()], run => {sonde, waits}, row => Row, missed => true,
       outside => true, core => true, value => waiters, none => "no process waits for another one",
       help => "the N processes for which most others wait, chains and deadlocks"},
     #{name => "stacks", args => [n()], run => {sonde, stacks}, row => [stack, processes, attrs],
       missed => true, outside => true, core => true,
       options => [depth(), collapsed(), svg(), #{name => force, help => "overwrite an existing file"}],
       help => "what processes wait at or run: the N stacks that most of them have"},
     #{name => "schedulers", args => [], run => {sonde, schedulers}, row => [scheduler, run_queue, attrs],
       outside => true, core => true, value => run_queue,
       help => "what each scheduler thread runs, for how long at least, and its run queue"}].

depth() ->
    #{name => depth, arg => {"N", count},
      help => "how many functions of a stack count (default: 8, or as the node has it)"}.

collapsed() ->
    #{name => collapsed, help => "print lines for tools that draw flame graphs"}.

svg() ->
    #{name => svg, arg => {"FILE", local_file},
      help => "write a flame graph to FILE (- for the standard output), for any browser"}.

binaries() ->
    Row = [pid, value, attrs],
    [#{name => "bin_leak", args => [n()], run => {sonde, bin_leak}, row => Row,
       value => references_dropped,
       help => "collect garbage, and show the N processes that dropped the most binaries"},
     #{name => "bin_garbage", args => [n()], run => {sonde, bin_garbage}, row => Row,
       missed => true, outside => true, core => true, options => [suspend()],
       value => references, none => "no process refers to binaries from garbage alone",
       help => "what bin_leak would find, without collecting garbage"},
     #{name => "bin_waste", args => [n()], run => {sonde, bin_waste}, row => Row,
       missed => true, outside => true, core => true, options => [suspend()],
       value => bin_waste, none => "no process keeps bytes of binaries outside of its slices",
       help => "the N processes that keep the most bytes of binaries outside of their slices"},
     #{name => "bin_owned", args => [n()], run => {sonde, bin_owned}, row => Row,
       missed => true, outside => true, core => true, options => [suspend()], value => binary_exclusive,
       help => "the N processes that hold the most binary memory exclusively"},
     #{name => "bin_account", args => [], run => {sonde, bin_account}, each => true, outside => true, core => true,
       options => [suspend()], help => "what holds the node's binary memory"},
     #{name => "bin_holders", args => [n(), optional("BY", {one_of, [size, count]})],
       run => {sonde, bin_holders}, missed => true, options => [suspend()],
       value => bytes, none => "no binary outside of heaps is held",
       help => "the N largest binaries, or the most shared, and what holds them"},
     #{name => "bin_holder", args => [arg("ID", integer)], run => {sonde, bin_holder},
       help => "what holds this binary"},
     #{name => "bin_resources", args => [n()], run => {sonde, bin_resources},
       row => [type, count, bytes, holders], missed => true, options => [suspend()],
       value => count, none => "no process refers to a resource of a native library",
       help => "resources of native libraries that processes refer to, by type"},
     #{name => "bin_window", args => [n(), ms()], run => {sonde, bin_window},
       row => [holder, value, attrs], missed => true, options => [suspend()],
       value => exclusive, none => "no process and no table gained exclusive binary memory",
       help => "the N processes and tables that gain the most exclusive binary memory in MS "
               "milliseconds"}].

suspend() ->
    #{name => suspend, help => "suspend processes that cannot be read otherwise, one at a time"}.

one_process() ->
    Hold = #{name => suspend, help => "suspend the process while it is read"},
    Values = #{name => values, help => "with --pid or --core: also show content, as a node does by itself"},
    [#{name => "info", args => [process(), optional("KEY", {one_of, info_keys()})],
       run => {sonde, info}, outside => true, core => true, help => "information about a process, or one item of it"},
     #{name => "heap", args => [process()], options => [Hold], run => {sonde, heap}, outside => true, core => true,
       help => "what is on the heap of a process, and how much is garbage"},
     #{name => "heap_top", args => [process(), n()], options => [Hold, Values], run => {sonde, heap_top},
       outside => true, core => true,
       none => "no objects on the heap to show",
       help => "the N objects on the heap of a process that retain the most"},
     #{name => "mailbox", args => [process(), n()], options => [Hold, Values], run => {sonde, mailbox},
       outside => true, core => true,
       help => "the messages in the mailbox of a process, by shape"},
     #{name => "bin_slices", args => [process()], options => [Hold], run => {sonde, bin_slices},
       outside => true, core => true,
       row => [id, size, refc, slices],
       none => "the process refers to no binary outside of its heap",
       help => "which parts of which binaries a process refers to"},
     #{name => "dump", args => [process(), arg("FILE", local_file)], run => dump, outside => true, core => true,
       options => [Hold,
                   #{name => force, help => "overwrite an existing file"},
                   #{name => values, help => "include previews of values"}],
       help => "write the heap of a process to a file on this machine, for Chrome's Memory panel"}].

others() ->
    Inet = {one_of, [recv_cnt, recv_oct, send_cnt, send_oct, cnt, oct]},
    [#{name => "ets_count", args => [arg("ATTR", {one_of, [memory, size, binary_memory]}), n()],
       run => {sonde, ets_count}, row => [table, value, attrs], none => "no tables to show",
       help => "the N ETS tables with the highest ATTR"},
     #{name => "port_count", args => [arg("ATTR", {one_of, [memory, queue_size, input, output]}),
                                      n()],
       run => {sonde, port_count}, row => [port, value, attrs], none => "no ports to show",
       help => "the N ports with the highest ATTR"},
     #{name => "port_types", args => [], run => {sonde, port_types}, row => [name, value],
       value => ports, none => "the node has no ports",
       help => "how many ports there are of each type"},
     #{name => "port_info", args => [arg("PORT", port)], run => {sonde, port_info},
       help => "information about a port"},
     #{name => "inet_count", args => [arg("ATTR", Inet), n()], run => {sonde, inet_count},
       row => [port, value, attrs], none => "no sockets to show",
       help => "the N sockets with the highest ATTR"},
     #{name => "inet_window", args => [arg("ATTR", Inet), n(), ms()], run => {sonde, inet_window},
       row => [port, value, attrs], none => "no sockets to show",
       help => "the N sockets with the most growth of ATTR in MS milliseconds"},
     #{name => "sockets", args => [optional("PROTOCOL", {one_of, [tcp, udp, sctp]})],
       run => {sonde, sockets}, row => [socket, value, attrs],
       value => octets, none => "no sockets of the socket module",
       help => "sockets of the socket module, which are not ports"},
     #{name => "scheduler_usage", args => [ms()], run => {sonde, scheduler_usage},
       row => [scheduler, usage],
       help => "how busy the schedulers are in the next MS milliseconds"},
     #{name => "node_stats", args => [n(), ms()], run => {sonde, node_stats_list},
       row => [absolutes, increments],
       help => "N samples of the node's statistics, one every MS milliseconds"},
     #{name => "native", args => [], run => {sonde, native}, outside => true, core => true,
       help => "whether sonde reads that node's memory natively, and if not, why not"}].

itself() ->
    [#{name => "completion", args => [arg("SHELL", {one_of, [bash, zsh, fish]})],
       run => completion, help => "print a script that completes this command in a shell",
       text => ["bash: sonde completion bash > /etc/bash_completion.d/sonde",
                "zsh:  sonde completion zsh > DIRECTORY_OF_FPATH/_sonde",
                "fish: sonde completion fish > ~/.config/fish/completions/sonde.fish"]},
     #{name => "help", args => [optional("COMMAND", command)], run => help,
       help => "list all commands, or describe one"}].

%% ---- arguments

arg(Name, Type) -> #{name => Name, type => Type}.
optional(Name, Type) -> #{name => Name, type => Type, optional => true}.
n() -> arg("N", count).
ms() -> arg("MS", ms).
process() -> arg("PROCESS", process).
attr() -> arg("ATTR", {one_of, sonde_attr:native() ++ sonde_attr:heap() ++ items()}).
numbers() -> arg("ATTR", {one_of, sonde_attr:native() ++ items()}).
by() -> arg("BY", {one_of, [initial_call, current_function, registered_name, application, label]}).

%% Items of process_info/2 that are numbers and that `sonde_attr' does not have.
items() ->
    [min_bin_vheap_size, min_heap_size].

info_keys() ->
    [meta, signals, location, memory_used, work] ++ sonde_attr:native() ++ items()
        ++ [current_function, current_location, current_stacktrace, dictionary, error_handler,
            garbage_collection, group_leader, initial_call, links, message_queue_data, messages,
            monitored_by, monitors, priority, registered_name, status, suspending, trap_exit].
