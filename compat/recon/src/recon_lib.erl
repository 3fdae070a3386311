%% @doc recon's building blocks, answered by {@link sonde_lib}: each function is the one of the same
%% name there, and `h(sonde_lib, proc_attrs).' tells what it gives.
-module(recon_lib).

%% sonde:remote_load/2 loads these together: code that finds one module of recon on a node expects
%% the others there.
-needs([sonde, recon, recon_lib, recon_alloc, recon_map, recon_rec, recon_trace]).

-export([sliding_window/2, sample/2, count/1,
         port_list/1, port_list/2,
         proc_attrs/1, proc_attrs/2, inet_attrs/1, inet_attrs/2,
         triple_to_pid/3, term_to_pid/1, term_to_port/1,
         time_map/5, time_fold/6,
         scheduler_usage_diff/2, sublist_top_n_attrs/2, binary_memory/1]).

-export_type([diff/0]).

-type diff() :: [recon:proc_attrs() | recon:inet_attrs()].
-type wall_time() :: [{Id :: pos_integer(), Active :: number(), Total :: number()}] | undefined.

%% ---- two moments

-spec sliding_window(diff(), diff()) -> diff().
sliding_window(First, Last) -> sonde_lib:sliding_window(First, Last).

-spec sample(non_neg_integer(), fun(() -> Result)) -> {Result, Result}.
sample(Ms, Fun) -> sonde_lib:sample(Ms, Fun).

-spec time_map(non_neg_integer(), non_neg_integer(), fun((State) -> {Value, State}), State,
               fun((Value) -> Result)) -> [Result].
time_map(N, Ms, Fun, State, MapFun) -> sonde_lib:time_map(N, Ms, Fun, State, MapFun).

-spec time_fold(non_neg_integer(), non_neg_integer(), fun((State) -> {Value, State}), State,
                fun((Value, Acc) -> Acc), Acc) -> Acc.
time_fold(N, Ms, Fun, State, FoldFun, Acc) -> sonde_lib:time_fold(N, Ms, Fun, State, FoldFun, Acc).

-spec scheduler_usage_diff(wall_time(), wall_time()) -> [{pos_integer(), number()}] | undefined.
scheduler_usage_diff(First, Last) -> sonde_lib:scheduler_usage_diff(First, Last).

%% ---- lists

-spec count([term()]) -> [{term(), pos_integer()}].
count(Terms) -> sonde_lib:count(Terms).

-spec sublist_top_n_attrs([Row], number()) -> [Row] when Row :: {term(), term(), term()}.
sublist_top_n_attrs(Rows, N) -> sonde_lib:sublist_top_n_attrs(Rows, N).

-spec binary_memory([tuple()]) -> non_neg_integer().
binary_memory(Binaries) -> sonde_lib:binary_memory(Binaries).

%% ---- processes and ports

-spec proc_attrs(atom()) -> [recon:proc_attrs()].
proc_attrs(Attr) -> sonde_lib:proc_attrs(Attr).

-spec proc_attrs(atom(), pid()) -> {ok, recon:proc_attrs()} | {error, undefined}.
proc_attrs(Attr, Pid) -> sonde_lib:proc_attrs(Attr, Pid).

-spec inet_attrs(atom()) -> [recon:inet_attrs()].
inet_attrs(Attr) -> sonde_lib:inet_attrs(Attr).

-spec inet_attrs(atom(), port()) -> {ok, recon:inet_attrs()} | {error, term()}.
inet_attrs(Attr, Port) -> sonde_lib:inet_attrs(Attr, Port).

-spec port_list(atom()) -> [{port(), term()}].
port_list(Attr) -> sonde_lib:port_list(Attr).

-spec port_list(atom(), term()) -> [port()].
port_list(Attr, Value) -> sonde_lib:port_list(Attr, Value).

-spec triple_to_pid(non_neg_integer(), non_neg_integer(), non_neg_integer()) -> pid().
triple_to_pid(A, B, C) -> sonde_lib:triple_to_pid(A, B, C).

%% A registered name may be a port's, in recon too.
-spec term_to_pid(recon:pid_term()) -> pid() | port() | undefined.
term_to_pid(Term) -> sonde_lib:term_to_pid(Term).

-spec term_to_port(recon:port_term()) -> port() | pid() | undefined.
term_to_port(Term) -> sonde_lib:term_to_port(Term).
