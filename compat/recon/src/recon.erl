%% @doc recon's calls, answered by {@link sonde}: each function is the one of the same name there,
%% and `h(sonde, proc_count).' tells what it gives, in which unit, and what it costs.
-module(recon).

%% sonde:remote_load/2 loads these together: code that finds one module of recon on a node expects
%% the others there.
-needs([sonde, recon, recon_lib, recon_alloc, recon_map, recon_rec, recon_trace]).

-export([info/1, info/2, info/3, info/4,
         proc_count/2, proc_window/3, bin_leak/1,
         node_stats/4, node_stats_print/2, node_stats_list/2, scheduler_usage/1,
         get_state/1, get_state/2,
         remote_load/1, remote_load/2, source/1,
         tcp/0, udp/0, sctp/0, files/0, port_types/0,
         inet_count/2, inet_window/3, port_info/1, port_info/2,
         rpc/1, rpc/2, rpc/3, named_rpc/1, named_rpc/2, named_rpc/3]).

-export_type([proc_attrs/0, inet_attrs/0, pid_term/0, port_term/0]).

-type proc_attrs() :: {pid(), Value :: term(), [Name :: atom() | {atom(), mfa() | undefined}]}.
-type inet_attrs() :: {port(), Value :: number(), [{atom(), term()}]}.
-type pid_term() :: pid() | atom() | string() | binary() | {global, term()}
                  | {via, module(), term()}
                  | {non_neg_integer(), non_neg_integer(), non_neg_integer()}.
-type port_term() :: port() | atom() | string() | non_neg_integer().
-type props() :: [{atom(), term()}].
-type stats() :: {Absolutes :: props(), Increments :: props()}.
-type node_or_nodes() :: node() | [node(), ...].

%% ---- processes

-spec info(pid_term()) -> [{atom(), props() | undefined}].
info(Pid) -> sonde:info(Pid).

-spec info(pid_term(), atom() | [atom()]) -> {atom(), term()} | [{atom(), term()}] | []
                                           | undefined.
info(Pid, What) -> sonde:info(Pid, What).

-spec info(non_neg_integer(), non_neg_integer(), non_neg_integer()) ->
          [{atom(), props() | undefined}].
info(A, B, C) -> sonde:info(A, B, C).

-spec info(non_neg_integer(), non_neg_integer(), non_neg_integer(), atom() | [atom()]) ->
          {atom(), term()} | [{atom(), term()}] | [] | undefined.
info(A, B, C, What) -> sonde:info(A, B, C, What).

%% recon does not accept a list of attributes.
-spec proc_count(atom(), number()) -> [proc_attrs()].
proc_count(Attr, N) when is_list(Attr) -> error(badarg, [Attr, N]);
proc_count(Attr, N) -> sonde:proc_count(Attr, N).

-spec proc_window(atom(), number(), timeout()) -> [proc_attrs()].
proc_window(Attr, N, Ms) when is_list(Attr) -> error(badarg, [Attr, N, Ms]);
proc_window(Attr, N, Ms) -> sonde:proc_window(Attr, N, Ms).

-spec bin_leak(number()) -> [proc_attrs()].
bin_leak(N) -> sonde:bin_leak(N).

-spec get_state(pid_term()) -> term().
get_state(Pid) -> sonde:get_state(Pid).

-spec get_state(pid_term(), timeout()) -> term().
get_state(Pid, Timeout) -> sonde:get_state(Pid, Timeout).

%% ---- the node

-spec node_stats(non_neg_integer(), non_neg_integer(), fun((stats(), Acc) -> Acc), Acc) -> Acc.
node_stats(N, Ms, Fun, Acc) -> sonde:node_stats(N, Ms, Fun, Acc).

-spec node_stats_print(non_neg_integer(), non_neg_integer()) -> ok.
node_stats_print(N, Ms) -> sonde:node_stats_print(N, Ms).

-spec node_stats_list(non_neg_integer(), non_neg_integer()) -> [stats()].
node_stats_list(N, Ms) -> sonde:node_stats_list(N, Ms).

-spec scheduler_usage(non_neg_integer()) -> [{pos_integer(), number()}] | undefined.
scheduler_usage(Ms) -> sonde:scheduler_usage(Ms).

%% ---- code

-spec remote_load(module()) -> term().
remote_load(Module) -> sonde:remote_load(Module).

-spec remote_load(node_or_nodes(), module() | [module()]) -> term().
remote_load(Nodes, Modules) -> sonde:remote_load(Nodes, Modules).

-spec source(module()) -> iolist().
source(Module) -> sonde:source(Module).

%% ---- ports

-spec tcp() -> [port()].
tcp() -> sonde:tcp().

-spec udp() -> [port()].
udp() -> sonde:udp().

-spec sctp() -> [port()].
sctp() -> sonde:sctp().

-spec files() -> [port()].
files() -> sonde:files().

-spec port_types() -> [{Type :: string(), Count :: pos_integer()}].
port_types() -> sonde:port_types().

-spec inet_count(atom(), number()) -> [inet_attrs()].
inet_count(Attr, N) -> sonde:inet_count(Attr, N).

-spec inet_window(atom(), number(), timeout()) -> [inet_attrs()].
inet_window(Attr, N, Ms) -> sonde:inet_window(Attr, N, Ms).

-spec port_info(port_term()) -> [{atom(), props()}].
port_info(Port) -> sonde:port_info(Port).

-spec port_info(port_term(), atom() | [atom()]) -> {atom(), term()} | [term()] | undefined.
port_info(Port, What) -> sonde:port_info(Port, What).

%% ---- other nodes

-spec rpc(fun(() -> term())) -> {[term()], [node()]}.
rpc(Fun) -> sonde:rpc(Fun).

-spec rpc(node_or_nodes(), fun(() -> term())) -> {[term()], [node()]}.
rpc(Nodes, Fun) -> sonde:rpc(Nodes, Fun).

-spec rpc(node_or_nodes(), fun(() -> term()), timeout()) -> {[term()], [node()]}.
rpc(Nodes, Fun, Timeout) -> sonde:rpc(Nodes, Fun, Timeout).

-spec named_rpc(fun(() -> term())) -> {[term()], [node()]}.
named_rpc(Fun) -> sonde:named_rpc(Fun).

-spec named_rpc(node_or_nodes(), fun(() -> term())) -> {[term()], [node()]}.
named_rpc(Nodes, Fun) -> sonde:named_rpc(Nodes, Fun).

-spec named_rpc(node_or_nodes(), fun(() -> term()), timeout()) -> {[term()], [node()]}.
named_rpc(Nodes, Fun, Timeout) -> sonde:named_rpc(Nodes, Fun, Timeout).
