%% Compares sonde with recon, in the same node and the same run. bench/run starts one node for each
%% work.
%%
%%   machine OUT                appends the machine's figures to OUT, a file of terms
%%   work NAME RECON_DIR OUT    does one work and appends its rows to OUT
%%   report FILE...             prints them
%%   write PAGE FILE...         puts them between the marks in PAGE, a file of markdown
%%   check RECORD FILE          compares the figures of a few rounds with what is recorded
%%   slower RECORD FILE         prints the works that have slower rows
%%   record RECORD FILE         records the figures of some rounds
%%   disturb DIR                bench_disturb, which prints its own figures
%%
%% bench_report describes the file, bench_row the rows.
-module(sonde_bench).

-export([main/0]).

-spec main() -> no_return().
main() ->
    Code = try command(init:get_plain_arguments())
           catch Class:Why:Stack ->
               io:format(standard_error, "bench: ~p: ~p~n~p~n", [Class, Why, Stack]),
               1
           end,
    halt(Code).

command(["machine", Out]) ->
    append(Out, fun(Put) -> Put(machine, bench_machine:figures(bench_works:scaled(1000000))) end);
command(["work", Name, ReconDir, Out]) ->
    How = bench_crowd:load_recon(ReconDir),
    #{status := active} = sonde:native(),
    append(Out, fun(Put) ->
                        Put(node, bench_report:node_facts(How)),
                        bench_works:work(Name, fun(Row) -> Put(row, Row), Row end)
                end);
command(["disturb", Dir]) ->
    #{status := active} = sonde:native(),
    ok = bench_disturb:run(Dir),
    0;
command(["report" | Files]) ->
    bench_report:print(Files),
    0;
command(["write", Page | Files]) ->
    bench_report:write(Page, Files);
command(["check", Record, File]) ->
    bench_check:check(Record, File);
command(["slower", Record, File]) ->
    bench_check:slower(Record, File);
command(["record", Record, File]) ->
    bench_check:record(Record, File).

append(Out, Fun) ->
    {ok, File} = file:open(Out, [append]),
    _ = Fun(fun(Kind, Map) -> bench_report:put(File, Kind, Map) end),
    ok = file:close(File),
    0.
