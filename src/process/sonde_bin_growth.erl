%% @private
%% Growth of exclusive binary memory, of processes and tables, from now to a moment later.
-module(sonde_bin_growth).

-export([run/3]).
-export_type([row/0, options/0]).

-type row() ::
        {pid() | {ets, ets:table()}, Growth :: pos_integer(),
         sonde_attr:attrs()
         | [atom() | {owner, pid()} | {type, atom()} | {size, non_neg_integer()}]}.
-type options() :: #{self => boolean(), max_rows => non_neg_integer(),
                     max_entries => pos_integer(), report => boolean(), suspend => boolean(),
                     threads => sonde_threads:threads()}.

-define(SPARE, 100).
-define(MAX_MS, 16#FFFFFFFF).

%% @doc Returns rows for holders that grew. A process that could not be read in one of the two
%% passes, or died in between, has no row.
-spec run(non_neg_integer(), non_neg_integer(), options()) -> {[row()], sonde_scan:report()}.
run(N, Ms, Opts) when is_integer(N), N >= 0, is_integer(Ms), Ms >= 0, Ms =< ?MAX_MS ->
    #{self := Self} = Read = sonde_opts:read(Opts, options()),
    How = Read#{without => [self() || not Self], caller => self()},
    sonde_bin_account:natively(fun(Caller) -> window(N, Ms, How, Caller) end);
run(_, _, _) ->
    error(badarg).

options() ->
    sonde_scan:options(#{self => sonde_opts:flag(false), max_rows => sonde_opts:count(10000000),
                         max_entries => sonde_scan:max_entries(),
                         threads => sonde_threads:option()}).

window(N, Ms, #{max_rows := MaxRows, suspend := Suspend} = Opts, Caller) ->
    {First, #{missed := Unread} = Before} = look(sample, 0, undefined, Opts, Caller),
    Tables = tables(MaxRows, Caller),
    wait(Ms, Caller),
    Want = min(N + length(Unread) + ?SPARE, erlang:system_info(process_limit)),
    {Second, After} = look(diff, Want, First, Opts, Caller),
    Result = #{missed := Missed} = sonde_scan:merge(Before, After),
    Left = maps:from_list(Missed),
    Grown = [Row || {Value, Pid} = Row <- sonde_scan:rows(Second, 0, Want), Value > 0,
                     not is_map_key(Pid, Left)],
    All = sonde_attr:named(N, Grown) ++ grown(Tables, tables(MaxRows, Caller)),
    Rows = lists:sublist(lists:sort(fun({_, A, _}, {_, B, _}) -> A >= B end, All), N),
    {Rows, sonde_scan:report(Result, Suspend)}.

look(Mode, Want, First, Opts, Caller) ->
    How = Opts#{attrs => [binary_exclusive], by => Caller},
    Scans = sonde_scan:scan(Mode, Want, First, How),
    {Scans, sonde_scan:run(Scans, How)}.

%% Ends early if the caller dies.
wait(Ms, Caller) ->
    receive {'DOWN', Caller, process, _, _} -> exit(caller_is_gone)
    after Ms -> ok
    end.

%% ---- tables

%% Bytes of the binaries to which only the rows of the table refer.
tables(MaxRows, Caller) ->
    maps:from_list([begin
                        sonde_helper:check_caller(Caller),
                        {Tab, exclusive(sonde_ets:binaries(Tab, MaxRows))}
                    end || Tab <- ets:all()]).

exclusive(Binaries) when is_list(Binaries) ->
    lists:sum([Size || {_, Size, Refc, Refc} <- Binaries]);
exclusive(None) ->
    None.

grown(Before, After) ->
    [{{ets, Tab}, Bytes - Old, Attrs}
     || {Tab, Bytes} <- maps:to_list(After), is_integer(Bytes),
        Old <- [maps:get(Tab, Before, 0)], is_integer(Old), Bytes > Old,
        {_, _, Attrs} <- sonde_ets:row(Tab)].
