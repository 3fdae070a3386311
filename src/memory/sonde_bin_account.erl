%% @private
%% Accounts for all binary memory: it attributes each binary, once, to processes, tables and
%% persistent terms. It collects nothing and sends no message; it reads a process under a stamp, and
%% again if the process ran meanwhile. There is no portable path.
-module(sonde_bin_account).

-export([bin_account/1, bin_resources/2, bin_holders/3, bin_holder/2, of_ids/2, all/2, parts/4, natively/1, there/1]).
-export_type([there/0, account/0, options/0, holder/0, resources/0]).

-type account() ::
        #{total := non_neg_integer() | undefined, exclusive := non_neg_integer(), shared := non_neg_integer(),
          ets := non_neg_integer(), queues := non_neg_integer(), literals := non_neg_integer(),
          mixed := non_neg_integer(), resources := non_neg_integer(),
          elsewhere := non_neg_integer(), overhead := non_neg_integer(), unseen := integer() | undefined,
          unused := non_neg_integer(), ms := non_neg_integer(),
          processes_missed := non_neg_integer(), tables_missed := non_neg_integer(),
          missed := #{count := non_neg_integer(), pids := sonde_scan:missed()},
          suspended => #{count := non_neg_integer(), pids := [{pid(), float()}]},
          suspended_ms => float(),
          literals_missed => true, sampled => float(), error => non_neg_integer()}.
%% Of another OS process: its tables, persistent terms and allocators are not read. What they hold is in `elsewhere', also
%% if processes hold it as well.
-type there() ::
        #{exclusive := non_neg_integer(), shared := non_neg_integer(), queues := non_neg_integer(),
          mixed := non_neg_integer(), resources := non_neg_integer(), elsewhere := non_neg_integer(),
          not_known := [total | ets | literals | overhead | unseen | unused], processes_missed := non_neg_integer(),
          sampled => float(), error => non_neg_integer()}.
%% `report' applies only to calls that return rows.
-type options() :: #{max_entries => pos_integer(), max_rows => non_neg_integer(),
                     suspend => boolean(), threads => sonde_threads:threads(),
                     report => boolean()}.
-type holder() ::
        #{id := pos_integer(), size := non_neg_integer(), refc := non_neg_integer(),
          holders := [{pid() | {queue, pid()} | {ets, ets:table()} | literals,
                       References :: pos_integer(),
                       VisibleBytes :: non_neg_integer() | undefined}],
          elsewhere := non_neg_integer()}.
-type resources() ::
        [{Type :: {module(), atom()} | unknown, Count :: pos_integer(), Bytes :: non_neg_integer(),
          Holders :: pos_integer()}].

-define(CHUNK, 1000).
-define(ENTRIES, 20000000).
-define(MOST, (1 bsl 60)).    % more than there can be; a number or an option may have any size
%% The error of a sum over many parts of a sample exceeds this in one of twenty cases.
-define(DEVIATIONS, 1.96).
%% The limits, in processes and time, of the search for the visible bytes of binaries.
-define(LOOKS, 1000).
-define(LOOKS_MS, 30000).

-spec bin_account(options()) -> account().
bin_account(Opts) ->
    Start = erlang:monotonic_time(millisecond),
    Read = sonde_opts:read(Opts, maps:remove(report, options())),
    Account = run(Read, fun account/3),
    Account#{ms => erlang:monotonic_time(millisecond) - Start}.

account(Account, #{processes := Result} = Missed, #{unused := Unused, how := How} = With) ->
    #{caller := Caller} = With,
    [{binary, Total}] = sonde_memory:read([binary]),
    Report = sonde_scan:report(Result, maps:get(suspend, How)),
    #{missed := #{count := Processes}} = Report,
    maps:merge(maps:with([missed, suspended, suspended_ms], Report),
               report(less(Total, own()), Unused, Missed#{processes := Processes},
                      sums(Account, Caller))).

%% The total is not known if binaries come from malloc (`+MBe false').
less(undefined, _) -> undefined;
less(Total, Bytes) -> Total - Bytes.

%% Memory that this call itself takes; it cannot be read natively, since this process runs.
own() ->
    {magic_ref, Refs} = process_info(self(), magic_ref),
    lists:sum([Size || {_, Size, _} <- lists:usort(Refs)]).

report(Total, Unused, #{processes := Processes, tables := Tables, literals := Missed},
       {Bytes, Overhead, _, Level, Variance, _}) ->
    Parts = tuple_to_list(Bytes),
    Sums = maps:from_list(lists:zip([exclusive, shared, ets, queues, literals, mixed, resources,
                                     elsewhere], Parts)),
    maps:merge(maps:merge(sample(Level, Variance), missed(Missed)),
               Sums#{total => Total, overhead => Overhead,
                     unseen => less(Total, lists:sum(Parts) + Overhead), unused => Unused,
                     processes_missed => Processes, tables_missed => Tables}).

missed(true) -> #{literals_missed => true};
missed(false) -> #{}.

sample(0, _) -> #{};
sample(Level, Variance) ->
    #{sampled => 1 / (1 bsl Level), error => round(?DEVIATIONS * math:sqrt(Variance))}.

%% @doc The same of another OS process. Within it, that is within what processes hold.
-spec there(sonde_scan:how()) -> {there(), sonde_scan:result()}.
there(How) ->
    natively(fun(Caller) ->
        New = fun() -> sonde_nif:account_new(?ENTRIES, false, false) end,
        Account = New(),
        try
            #{missed := Missed, unseen := Unseen} = Result = processes(Account, New, How, Caller),
            {Bytes, _, _, Level, Variance, _} = sums(Account, Caller),
            {Exclusive, Shared, 0, Queues, 0, Mixed, Resources, Elsewhere} = Bytes,
            {(sample(Level, Variance))#{exclusive => Exclusive, shared => Shared, queues => Queues, mixed => Mixed,
                                        resources => Resources, elsewhere => Elsewhere,
                                        not_known => [total, ets, literals, overhead, unseen, unused],
                                        processes_missed => length(Missed) + Unseen},
             Result}
        after
            close(Account)
        end
    end).

%% @doc Returns the account, the `N' largest binaries with their holders, and the `N' largest resources, from
%% one visit to all processes. More binaries than are remembered raise `system_limit'.
-spec all(non_neg_integer(), options()) -> {account(), [holder()], resources()}.
all(N, Opts) ->
    Start = erlang:monotonic_time(millisecond),
    #{max_rows := MaxRows} = Read = (sonde_opts:read(Opts, options()))#{keeps => true},
    {Account, Holders, Resources} =
        run(Read, fun(Open, Missed, #{caller := Caller} = With) ->
                          ok = whole(Open, Caller),
                          {account(Open, Missed, With), largest(Open, N, size, MaxRows, Caller), resources(Open, N)}
                  end),
    {Account#{ms => erlang:monotonic_time(millisecond) - Start}, Holders, Resources}.

%% @doc Always returns a report, as {@link bin_holders/3} does.
-spec bin_resources(non_neg_integer(), options()) -> {resources(), sonde_scan:report()}.
bin_resources(N, Opts) when is_integer(N), N >= 0 ->
    Read = sonde_opts:read(Opts, options()),
    run(Read, fun(Account, #{processes := Result}, #{caller := Caller}) ->
                      ok = whole(Account, Caller),
                      told(resources(Account, N), Result, Read)
              end);
bin_resources(_, _) ->
    error(badarg).

resources(Account, N) ->
    Atoms = erlang:system_info(atom_count),
    Types = [{type(Type), Count, Bytes, Holders}
             || {Type, Count, Bytes, Holders} <- sonde_nif:account_resources(Account, Atoms)],
    lists:sublist(lists:reverse(lists:keysort(3, Types)), N).

whole(Account, Caller) ->
    case sums(Account, Caller) of
        {_, _, _, 0, _, _} -> ok;
        _ -> error(system_limit)
    end.

told(Rows, Result, #{suspend := Suspend}) -> {Rows, sonde_scan:report(Result, Suspend)}.

type(undefined) -> unknown;
type(Type) -> Type.

%% @doc Returns the processes with the largest parts: of each binary, all of its holders have equal ones.
%% All holders must be known: if the time was up before, there are no parts.
-spec parts(non_neg_integer(), map(), reference(), pid()) ->
    {[{Bytes :: non_neg_integer(), pid()}], sonde_scan:result()}.
parts(N, Opts, Caller, Pid) ->
    Read = sonde_opts:read(maps:with([suspend, threads], Opts), options()),
    #{parts := Parts, missed := Unread} =
        opened((maps:merge(Opts, Read))#{caller => Pid, keeps => true}, Caller,
               fun(Account, #{processes := Result}, #{how := How}) ->
                       case Result of
                           #{unseen := 0} ->
                               ok = add_parts(Account, How, Caller),
                               #{parts => ranked(Account, parts, N, Caller), missed => Result};
                           #{missed := Missed} ->
                               All = erlang:system_info(process_count) - 1 - length(Missed),
                               #{parts => [], missed => Result#{unseen := max(0, All)}}
                       end
               end),
    {Parts, Unread}.

%% Each thread adds up a share, and has an account for it; one thread alone needs none.
add_parts(Account, How, Caller) ->
    N = sonde_scan:threads(account, maps:with([suspend, threads], How)),
    Others = [sonde_nif:account_new(1, false, false) || N > 1, _ <- lists:seq(1, N)],
    Add = fun(I, Other) ->
                  fun(By) -> until_done(fun() -> sonde_nif:account_parts(Other, Account, I, N) end, By) end
          end,
    try
        _ = sonde_helper:all([Add(I, Other) || {I, Other} <- lists:enumerate(0, Others)],
                             fun(_) -> ok end, Caller),
        lists:foreach(fun(Other) -> ok = take_parts(Account, Other, Caller) end, Others)
    after
        lists:foreach(fun close/1, Others)
    end.

take_parts(Account, From, Caller) ->
    until_done(fun() -> sonde_nif:account_take_parts(Account, From) end, Caller).

%% ---- holders

-spec bin_holders(non_neg_integer(), size | count, options()) ->
    {[holder()], sonde_scan:report()}.
bin_holders(N, By, Opts) when is_integer(N), N >= 0, By =:= size orelse By =:= count ->
    Read = (sonde_opts:read(Opts, options()))#{caller => self()},
    natively(fun(Caller) ->
                     {Holders, Result} = largest(N, By, Read, Caller),
                     told(Holders, Result, Read)
             end);
bin_holders(_, _, _) ->
    error(badarg).

-spec bin_holder(pos_integer(), options()) -> holder() | undefined.
bin_holder(Id, Opts) when is_integer(Id) ->
    Read = (sonde_opts:read(Opts, options()))#{caller => self()},
    sonde_vm:must_be_native(),
    case Id > 0 andalso Id < 1 bsl 64 andalso Id rem 8 =:= 0
         andalso natively(fun(Caller) -> only([Id], Read, Caller) end) of
        [Holder] -> Holder;
        _ -> undefined
    end;
bin_holder(_, _) ->
    error(badarg).

%% @doc The holders of several binaries, from one visit to all processes. A binary that is gone is left out. The ids come
%% from {@link sonde_garbage:bin_slices/2}.
-spec of_ids([pos_integer()], options()) -> [holder()].
of_ids([], _) -> [];
of_ids(Ids, Opts) ->
    Read = (sonde_opts:read(Opts, options()))#{caller => self()},
    natively(fun(Caller) -> only(Ids, Read, Caller) end).

largest(0, _, _, _) ->
    {[], sonde_scan:nothing()};
largest(N, By, #{max_rows := MaxRows} = Opts, Caller) ->
    opened(Opts#{keeps => true}, Caller,
           fun(Account, #{processes := Result}, _) ->
                   {largest(Account, N, By, MaxRows, Caller), Result}
           end).

largest(Account, N, By, MaxRows, Caller) ->
    Ids = [Id || {Id, _, _, _} <- ranked(Account, By, N, Caller)],
    ok = want(Account, Ids),
    holders(Account, Ids, elsewhere(Ids, MaxRows, Caller), Caller).

%% The N largest of an account.
ranked(Account, By, N, Caller) ->
    ok = rank(Account, By, min(N, ?MOST), Caller),
    sonde_look:all(fun(From) -> sonde_nif:account_ranked(Account, From) end).

rank(Account, By, N, Caller) ->
    sonde_helper:check_caller(Caller),
    case sonde_nif:account_rank(Account, By, N) of
        ok -> ok;
        more -> rank(Account, By, next, Caller);
        {error, Why} -> error(Why)
    end.

%% An account of these binaries alone.
only(Ids, #{max_entries := Max, max_rows := MaxRows} = Opts, Caller) ->
    New = fun() ->
                  Account = sonde_nif:account_new(min(Max, ?MOST), false, true),
                  ok = want(Account, Ids),
                  Account
          end,
    Account = New(),
    try
        _ = processes(Account, New, Opts, Caller),
        Others = elsewhere(Ids, MaxRows, Caller),
        _ = [ok = add(Account, Kind, Binaries) || {_, Kind, Binaries} <- Others],
        holders(Account, Ids, Others, Caller)
    after
        close(Account)
    end.

want(Account, Ids) -> in_pieces(fun(Some) -> sonde_nif:account_want(Account, Some) end, Ids).

holders(_Account, [], _Others, _Caller) ->
    [];
holders(Account, Ids, Others, Caller) ->
    Held = lists:append([held(Holding) || Holding <- holdings(Account, first, Caller)])
        ++ [{Id, Place, References} || {Place, _, Binaries} <- Others, {Id, _, _, References} <- Binaries],
    Known = [Binary || Id <- Ids, Binary <- [sonde_nif:account_known(Account, Id)],
                       Binary =/= undefined],
    Seen = seen(lists:usort([Pid || {_, Holder, _} <- Held, Pid <- pid(Holder)]),
                maps:from_keys(Ids, true), Caller),
    ByBinary = maps:groups_from_list(fun({Id, _, _}) -> Id end,
                                     fun({Id, Holder, References}) ->
                                             {Holder, References, visible(Id, Holder, Seen)}
                                     end, Held),
    [#{id => Id, size => Size, refc => Refc, elsewhere => max(0, Refc - References),
       holders => lists:sort(maps:get(Id, ByBinary, []))}
     || {Id, Size, Refc, References} <- Known].

holdings(Account, Which, Caller) ->
    sonde_helper:check_caller(Caller),
    case sonde_nif:account_holdings(Account, Which) of
        {done, Some} -> Some;
        {more, Some} -> Some ++ holdings(Account, next, Caller)
    end.

held({Id, Pid, References, Queued}) ->
    [{Id, Pid, References - Queued} || References > Queued]
        ++ [{Id, {queue, Pid}, Queued} || Queued > 0].

pid({queue, Pid}) -> [Pid];
pid(Pid) when is_pid(Pid) -> [Pid];
pid(_) -> [].

%% What tables and persistent terms hold of these.
elsewhere(Ids, MaxRows, Caller) ->
    Wanted = maps:from_keys(Ids, true),
    [begin
         sonde_helper:check_caller(Caller),
         {{ets, Tab}, table, wanted(sonde_ets:binaries(Tab, MaxRows), Wanted)}
     end || Tab <- ets:all()] ++ [{literals, literal, wanted(literals(), Wanted)}].

wanted(Binaries, Wanted) when is_list(Binaries) ->
    [Binary || Binary <- Binaries, is_map_key(element(1, Binary), Wanted)];
wanted(_, _) ->
    [].

%% What processes show of binaries, including their mailboxes; unknown for a process that cannot be
%% read.
seen(Pids, Wanted, Caller) ->
    Until = now_ms() + ?LOOKS_MS,
    maps:from_list(lists:append([seen_by(Pid, Wanted, max(0, Until - now_ms()), Caller)
                                 || Pid <- lists:sublist(Pids, ?LOOKS)])).

now_ms() -> erlang:monotonic_time(millisecond).

seen_by(Pid, Wanted, Ms, Caller) ->
    Opts = (look_options())#{timeout := Ms, caller => Caller},
    Pinned = fun(Look) ->
                     sonde_look:all(fun(From) -> sonde_nif:look_pinned(Look, From, ?CHUNK) end)
             end,
    case sonde_look:run(Pid, {slices, [], 0, 0}, Opts, Pinned) of
        Shown when is_list(Shown) ->
            [{Pid, #{}} | [{{Pid, Id}, Visible} || {Id, _, _, Visible, _} <- Shown,
                                                   is_map_key(Id, Wanted)]];
        _ ->
            []
    end.

look_options() -> sonde_opts:read(#{}, sonde_look:options(#{})).

%% 0 if only garbage refers to the binary.
visible(Id, {queue, Pid}, Seen) -> visible(Id, Pid, Seen);
visible(Id, Pid, Seen) when is_map_key(Pid, Seen) -> maps:get({Pid, Id}, Seen, 0);
visible(_, _, _) -> undefined.

%% ---- an account of all

options() ->
    sonde_scan:options(#{max_entries => sonde_opts:positive(?ENTRIES),
                         max_rows => sonde_opts:count(10000000), threads => sonde_threads:option()}).

%% Takes options that sonde_opts has read.
run(Read, Fun) ->
    Pid = self(),
    natively(fun(Caller) -> opened(Read#{caller => Pid}, Caller, Fun) end).

%% @doc Runs this in a helper, or raises `{native_off, Reason}'.
-spec natively(fun((reference()) -> Answer)) -> Answer.
natively(Fun) ->
    sonde_retry:run(fun() ->
                            sonde_vm:must_be_native(),
                            sonde_helper:call(Fun)
                    end).

%% Visits all processes, tables and persistent terms, and reports those that could not be read. Only
%% in a helper.
opened(#{max_entries := Max, max_rows := MaxRows} = Opts, Caller, Fun) ->
    {Tagged, Unused} = allocator(),
    New = fun() -> sonde_nif:account_new(min(Max, ?MOST), Tagged, maps:get(keeps, Opts, false)) end,
    Account = New(),
    try
        Result = processes(Account, New, Opts, Caller),
        Fun(Account, others(Result, Account, MaxRows, Caller), #{unused => Unused, caller => Caller, how => Opts})
    after
        close(Account)
    end.

others(#{unseen := 0} = Result, Account, MaxRows, Caller) ->
    #{processes => Result, tables => tables(Account, MaxRows, Caller),
      literals => add(Account, literal, literals()) =:= missed};
others(Result, _, _, _) -> % the time was up
    #{processes => Result, tables => 0, literals => false}.

%% Also if the caller is gone: this frees the memory in slices; the garbage collector would free all
%% of it in one piece, on a normal scheduler.
close(Account) ->
    case sonde_nif:account_end(Account) of
        ok -> ok;
        more -> close(Account)
    end.

%% Whether blocks carry a tag with their type; and the bytes of carriers without blocks.
allocator() ->
    Instances = [Props || {{binary_alloc, _}, Props} <- sonde_alloc:allocators()],
    {lists:any(fun(Props) -> lists:member({atags, true},
                                          proplists:get_value(options, Props, [])) end,
               Instances),
     lists:sum([current(carriers_size, Part) - current(blocks_size, Part)
                || Props <- Instances, {Kind, Part} <- Props,
                   Kind =:= mbcs orelse Kind =:= sbcs orelse Kind =:= mbcs_pool])}.

current(Figure, Part) ->
    element(2, lists:keyfind(Figure, 1, Part)).

%% Returns the processes that could not be read. Each thread fills an account of its own; in the end
%% they are joined.
processes(Account, New, Opts, Caller) ->
    How = (maps:with([suspend, caller, threads, until, outside, still], Opts))#{attrs => [binary_unique], by => Caller},
    Others = [New() || _ <- lists:seq(2, sonde_scan:threads(account, How))],
    try
        All = How#{account => [Account | Others]},
        Result = sonde_scan:run(sonde_scan:scan(account, 0, undefined, All), All),
        lists:foreach(fun(Other) -> ok = join(Account, Other, Caller), ok = close(Other) end, Others),
        _ = settle(Account, Others, Caller),
        Result
    after
        lists:foreach(fun close/1, Others)
    end.

%% Each thread settles a part, and has an account for it.
settle(Account, Others, Caller) ->
    N = 1 + length(Others),
    _ = [ok = lend(Account, Other, I, N) || {I, Other} <- lists:zip(lists:seq(1, N - 1), Others)],
    _ = sonde_helper:all([fun(By) -> settled(One, By) end || N > 1, One <- [Account | Others]],
                         fun(_) -> ok end, Caller),
    lists:foreach(fun(Other) -> ok = return(Account, Other, Caller) end, Others).

lend(Account, To, I, N) ->
    case sonde_nif:account_lend(Account, To, I, N) of
        ok -> ok;
        {error, Why} -> error(Why)
    end.

settled(Account, Caller) ->
    until_done(fun() -> sonde_nif:account_settle(Account) end, Caller).

return(Account, From, Caller) ->
    until_done(fun() -> sonde_nif:account_return(Account, From) end, Caller).

join(Account, Other, Caller) ->
    until_done(fun() -> sonde_nif:account_join(Account, Other) end, Caller).

until_done(Call, Caller) ->
    sonde_helper:check_caller(Caller),
    case Call() of
        ok -> ok;
        more -> until_done(Call, Caller);
        {error, Why} -> error(Why)
    end.

sums(Account, Caller) ->
    sonde_helper:check_caller(Caller),
    case sonde_nif:account_sum(Account) of
        more -> sums(Account, Caller);
        {error, Why} -> error(Why);
        Sums -> Sums
    end.

%% ---- tables and literals

%% Returns the number of tables with too many rows.
tables(Account, MaxRows, Caller) ->
    lists:sum([begin
                   sonde_helper:check_caller(Caller),
                   case add(Account, table, sonde_ets:binaries(Tab, MaxRows)) of
                       {too_large, _} -> 1;
                       _ -> 0
                   end
               end || Tab <- ets:all()]).

%% Persistent terms are literals. This process holds all of them while another helper reads it.
literals() ->
    Me = self(),
    Id = erlang:phash2(make_ref()),
    Look = fun(Caller) ->
                   sonde_look:run(Me, {flat, [slot, refs], 0, Id},
                                  (look_options())#{caller => Caller},
                                  fun(Look) -> refs(Look, 0) end)
           end,
    case sonde_term:hold({Id, persistent_term:get()}, Look) of
        Binaries when is_list(Binaries) -> Binaries;
        {error, no_memory} -> error(no_memory);
        _ -> missed
    end.

refs(Look, At) ->
    case sonde_nif:look_refs(Look, At) of
        {done, Binaries} -> Binaries;
        {Next, Binaries} -> Binaries ++ refs(Look, Next)
    end.

%% A result that is not a list is the reason why there is none.
add(Account, Kind, Binaries) when is_list(Binaries) ->
    in_pieces(fun(Some) -> sonde_nif:account_add(Account, Kind, Some) end, Binaries);
add(_Account, _Kind, None) ->
    None.

%% As many as one call takes. To compute the length of the list for each chunk would take longer
%% than all the rest.
in_pieces(_Give, []) ->
    ok;
in_pieces(Give, All) ->
    {Some, Later} = first(?CHUNK, All, []),
    case Give(Some) of
        ok -> in_pieces(Give, Later);
        more -> in_pieces(Give, All);
        {error, Why} -> error(Why)
    end.

first(N, [Item | Rest], Acc) when N > 0 -> first(N - 1, Rest, [Item | Acc]);
first(_, Rest, Acc) -> {lists:reverse(Acc), Rest}.
