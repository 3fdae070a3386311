%% Tells run_ct what failed and what was skipped, by way of a table that it made.
-module(ct_count_hook).

-export([init/2, on_tc_fail/4, on_tc_skip/4]).

init(_Id, _Opts) ->
    {ok, ?MODULE}.

%% Also called for init_per_suite and its like.
on_tc_fail(Suite, Name, Reason, Table) ->
    true = ets:insert(Table, {failed, {Suite, Name}, Reason}),
    Table.

on_tc_skip(Suite, Name, {Kind, Reason}, Table) ->
    true = ets:insert(Table, {Kind, {Suite, Name}, Reason}),
    Table.
