%% @private
%% What the command `sonde' understands: the one table from which it is parsed, and its help and the
%% completions of shells are made.
-module(sonde_cli_table).

-export([options/0, commands/0, command/1, option/2]).
-export_type([option/0, command/0, arg/0, type/0]).

%% `count': an integer from 0 on; `ms': milliseconds; `process': a pid or a registered name;
%% `{one_of, _}': one of these atoms, and no other text becomes one.
-type type() :: count | integer | ms | node | nodes | process | port | file | local_file | command
              | {one_of, [atom()]}.
%% Optional ones are last; `many' takes all that are left, at least one.
-type arg() :: #{name := string(), type := type(), optional => true, many => true}.
%% One without `arg' is a switch.
-type option() :: #{name := atom(), letter => char(), arg => {string(), type()},
                    help := string()}.
%% `run': the call of `sonde' that takes the arguments, or what the command does itself. `row': names
%% for the elements of its rows, in JSON. `value': what their values count, as it is called in a table
%% where no ATTR says it. `none': what an answer without rows means. `each': what has no rows, and is
%% shown of each node of a cluster. `missed': it takes `report => true', and says what it could not
%% read.
-type command() :: #{name := string(), args := [arg()], options => [option()], help := string(),
                     text => [string()], run := {sonde, atom()} | atom(), row => [atom()],
                     value => atom(), none => string(), each => true, missed => true}.

-spec options() -> [option()].
options() ->
    [#{name => node, letter => $n, arg => {"NODE", node},
       help => "the node to look at, as rabbit@host. Where the host has a dot, names are long"},
     #{name => cluster, letter => $c, arg => {"NODES", nodes},
       help => "several, with commas between them: one table of all their rows, or a report of "
               "each"},
     #{name => 'cookie-file', arg => {"FILE", local_file},
       help => "its first line is the cookie; else $SONDE_COOKIE, else ~/.erlang.cookie"},
     #{name => timeout, letter => $t, arg => {"MS", ms},
       help => "how long a call may take, in milliseconds (60000)"},
     #{name => json, letter => $j, help => "the answer as one JSON object"},
     #{name => help, letter => $h, help => "this text; after a command, about that one"},
     #{name => version, help => "the version"}].

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
     #{name => "diagnose", args => [], run => diagnose, each => true,
       options => [#{name => interval, arg => {"MS", ms},
                     help => "between the two looks, in milliseconds (2000)"}],
       help => "what takes memory, what grows, and what to do about it",
       text => ["The exit code is 3 if there are suspects, of a cluster on any node."]}].

of_processes() ->
    Row = [pid, value, attrs],
    [#{name => "proc_count", args => [attr(), n()], run => {sonde, proc_count}, row => Row,
       missed => true, options => [suspend()],
       help => "the N processes that have most of ATTR"},
     #{name => "proc_window", args => [numbers(), n(), ms()], run => {sonde, proc_window},
       row => Row, help => "the N processes whose ATTR grows most in the next MS milliseconds"},
     #{name => "proc_group", args => [by(), (numbers())#{many => true}],
       run => {sonde, proc_group}, row => [group, processes, attrs], value => processes,
       help => "totals of ATTR by what processes have in common"}].

binaries() ->
    Row = [pid, value, attrs],
    [#{name => "bin_leak", args => [n()], run => {sonde, bin_leak}, row => Row,
       value => references_dropped,
       help => "collect, and show the N processes that let go of most binaries"},
     #{name => "bin_garbage", args => [n()], run => {sonde, bin_garbage}, row => Row,
       missed => true, options => [suspend()],
       value => references, none => "no process refers to binaries from garbage alone",
       help => "what bin_leak would find, without collecting anything"},
     #{name => "bin_waste", args => [n()], run => {sonde, bin_waste}, row => Row,
       missed => true, options => [suspend()],
       value => bin_waste, none => "no process holds parts of binaries that it does not see",
       help => "the N processes whose slices of binaries hold most bytes in vain"},
     #{name => "bin_owned", args => [n()], run => {sonde, bin_owned}, row => Row,
       missed => true, options => [suspend()], value => binary_exclusive,
       help => "the N processes that own most binary memory"},
     #{name => "bin_account", args => [], run => {sonde, bin_account}, each => true,
       options => [suspend()], help => "where all binary memory is"},
     #{name => "bin_holders", args => [n(), optional("BY", {one_of, [size, count]})],
       run => {sonde, bin_holders}, missed => true, options => [suspend()],
       value => bytes, none => "no binary outside of heaps is held",
       help => "the N largest binaries, or the most shared, and who holds them"},
     #{name => "bin_holder", args => [arg("ID", integer)], run => {sonde, bin_holder},
       help => "who holds this binary"},
     #{name => "bin_resources", args => [n()], run => {sonde, bin_resources},
       row => [type, count, bytes, holders], missed => true, options => [suspend()],
       value => count, none => "no process refers to memory of native libraries",
       help => "memory of native libraries that processes refer to"},
     #{name => "bin_window", args => [n(), ms()], run => {sonde, bin_window},
       row => [holder, value, attrs], missed => true, options => [suspend()],
       value => exclusive, none => "no process and no table gained binary memory of its own",
       help => "the N processes and tables whose own binary memory grows most in MS milliseconds"}].

suspend() ->
    #{name => suspend, help => "suspend what cannot be read otherwise, one process at a time"}.

one_process() ->
    Hold = #{name => suspend, help => "hold the process meanwhile"},
    [#{name => "info", args => [process(), optional("KEY", {one_of, info_keys()})],
       run => {sonde, info}, help => "what is known of a process, or one item of it"},
     #{name => "heap", args => [process()], options => [Hold], run => {sonde, heap},
       help => "what is on the heap of a process, and what of it is garbage"},
     #{name => "heap_top", args => [process(), n()], options => [Hold], run => {sonde, heap_top},
       none => "nothing on the heap to show",
       help => "the N things on its heap that retain most"},
     #{name => "mailbox", args => [process(), n()], options => [Hold], run => {sonde, mailbox},
       help => "what waits in its mailbox, by shape"},
     #{name => "bin_slices", args => [process()], options => [Hold], run => {sonde, bin_slices},
       row => [id, size, refc, slices],
       none => "the process refers to no binary outside of its heap",
       help => "which parts of which binaries it refers to"},
     #{name => "dump", args => [process(), arg("FILE", local_file)], run => dump,
       options => [Hold,
                   #{name => force, help => "replace a file of that name"},
                   #{name => values, help => "with previews of values"}],
       help => "its heap as a file on this machine, for Chrome's Memory panel"}].

others() ->
    Inet = {one_of, [recv_cnt, recv_oct, send_cnt, send_oct, cnt, oct]},
    [#{name => "ets_count", args => [arg("ATTR", {one_of, [memory, size, binary_memory]}), n()],
       run => {sonde, ets_count}, row => [table, value, attrs], none => "no tables to show",
       help => "the N ETS tables that have most of ATTR"},
     #{name => "port_count", args => [arg("ATTR", {one_of, [memory, queue_size, input, output]}),
                                      n()],
       run => {sonde, port_count}, row => [port, value, attrs], none => "no ports to show",
       help => "the N ports that have most of ATTR"},
     #{name => "port_types", args => [], run => {sonde, port_types}, row => [name, value],
       value => ports, none => "the node has no ports",
       help => "how many ports there are of each kind"},
     #{name => "port_info", args => [arg("PORT", port)], run => {sonde, port_info},
       help => "what is known of a port"},
     #{name => "inet_count", args => [arg("ATTR", Inet), n()], run => {sonde, inet_count},
       row => [port, value, attrs], none => "no sockets to show",
       help => "the N sockets that have most of ATTR"},
     #{name => "inet_window", args => [arg("ATTR", Inet), n(), ms()], run => {sonde, inet_window},
       row => [port, value, attrs], none => "no sockets to show",
       help => "the N sockets whose ATTR grows most in MS milliseconds"},
     #{name => "sockets", args => [optional("PROTOCOL", {one_of, [tcp, udp, sctp]})],
       run => {sonde, sockets}, row => [socket, value, attrs],
       value => octets, none => "no sockets of the socket module",
       help => "sockets of the socket module, which are no ports"},
     #{name => "scheduler_usage", args => [ms()], run => {sonde, scheduler_usage},
       row => [scheduler, usage],
       help => "how busy the schedulers are in the next MS milliseconds"},
     #{name => "node_stats", args => [n(), ms()], run => {sonde, node_stats_list},
       row => [absolutes, increments], none => "no looks were asked for",
       help => "N looks at the node's figures, each after MS milliseconds"},
     #{name => "native", args => [], run => {sonde, native},
       help => "does sonde read that node's memory itself, and if not, why not"}].

itself() ->
    [#{name => "completion", args => [arg("SHELL", {one_of, [bash, zsh, fish]})],
       run => completion, help => "what makes a shell complete this command's arguments",
       text => ["bash: sonde completion bash > /etc/bash_completion.d/sonde",
                "zsh:  sonde completion zsh > DIRECTORY_OF_FPATH/_sonde",
                "fish: sonde completion fish > ~/.config/fish/completions/sonde.fish"]},
     #{name => "help", args => [optional("COMMAND", command)], run => help,
       help => "all commands, or more about one"}].

%% ---- arguments

arg(Name, Type) -> #{name => Name, type => Type}.
optional(Name, Type) -> #{name => Name, type => Type, optional => true}.
n() -> arg("N", count).
ms() -> arg("MS", ms).
process() -> arg("PROCESS", process).
attr() -> arg("ATTR", {one_of, sonde_attr:native() ++ sonde_attr:heap() ++ items()}).
numbers() -> arg("ATTR", {one_of, sonde_attr:native() ++ items()}).
by() -> arg("BY", {one_of, [initial_call, current_function, registered_name, application, label]}).

%% Those of process_info/2 that are numbers, and that nothing above is.
items() ->
    [catchlevel, min_bin_vheap_size, min_heap_size].

info_keys() ->
    [meta, signals, location, memory_used, work] ++ sonde_attr:native() ++ items()
        ++ [current_function, current_location, current_stacktrace, dictionary, error_handler,
            garbage_collection, group_leader, initial_call, links, message_queue_data, messages,
            monitored_by, monitors, priority, registered_name, status, suspending, trap_exit].
