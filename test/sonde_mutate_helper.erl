%% The check that belongs to each number of the layout; and what mutation_SUITE runs on a peer with
%% the test build: one wrong number, one proof.
-module(sonde_mutate_helper).

-export([own_check/1, table/0, prove_with/2]).

%% Each number has a check of its own name, except those that lead to the process table: finding it
%% is one check, since any wrong number among them finds nothing.
own_check(Field) when Field =:= ptab_tab; Field =:= ptab_max; Field =:= ptab_element_size;
                      Field =:= proc_size -> process_table;
own_check(Field) -> Field.

%% The table in use, as chosen by the unmutated proof.
table() ->
    ok = sonde_nif:set_offset(none, 0),
    ok = sonde_nif:forget_proof(),
    #{status := active, layout := Name} = sonde_vm:native(),
    [Fields] = [Fs || {_, N, _, _, _, Fs} <- sonde_nif:tables(), N =:= Name],
    {Name, Fields}.

%% The status, and the checks that failed, with their values.
prove_with(Field, Offset) ->
    ok = sonde_nif:set_offset(Field, Offset),
    ok = sonde_nif:forget_proof(),
    #{status := Status, checks := Checks} = sonde_vm:native(),
    {Status, [Check || {_, {failed, _, _}} = Check <- Checks]}.
