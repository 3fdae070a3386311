%% @private
%% Which processes drop most binaries in a collection: recon's bin_leak, with native counts,
%% parallel collections and a deadline. A helper process does everything.
%%
%% The native path counts all processes, asks those that hold binaries or have waiting messages to
%% collect, and counts these again. The portable path, and a process that could not be read, use a
%% job for each process, which asks, collects and asks again, as recon does one after the other.
-module(sonde_bin_leak).

-export([rows/2, report/2]).
-export_type([report/0, row/0, opts/0]).

-type opts() :: #{collect := holders | all, deadline := non_neg_integer(),
                  in_flight := pos_integer(), threads := sonde_threads:threads()}.
-type row() :: {pid(), integer(), sonde_attr:attrs()}.
-type report() :: #{rows := [row()],
                    collected := non_neg_integer(),
                    skipped := non_neg_integer(),
                    left := non_neg_integer(),
                    total := {bytes(), bytes()},
                    binary := {bytes(), bytes()},
                    ms := non_neg_integer()}.
-type bytes() :: non_neg_integer() | undefined.

-define(SPARE, 100).          % extra candidates: some are dead, or belong to sonde
-define(CHUNK, 1000).         % pids fetched from the scan at a time
-define(LEAST_MS, 100).       % for names, when the deadline has passed
-define(SETTLE_MS, 10).       % until the node's figures include what one scheduler frees for another

%% The state during the collections. `best' has {Drop, Pid}.
-record(found, {scans, best, collected = 0, skipped = 0}).

%% @doc Returns only the rows. It does not read the node's memory, which would take longer than the
%% rest on a node with few processes.
-spec rows(non_neg_integer(), opts()) -> [row()].
rows(N, Opts) ->
    {Rows, _} = in_helper(fun(More) -> leak(N, More) end, Opts),
    Rows.

-spec report(non_neg_integer(), opts()) -> report().
report(N, Opts) ->
    in_helper(fun(More) -> full(N, More) end, Opts).

in_helper(Work, #{deadline := Ms} = Opts) ->
    Start = now_ms(),
    %% The last tenth is for the second count and the names.
    Times = Opts#{start => Start, until => Start + Ms - Ms div 10, last => Start + Ms},
    sonde_retry:run(fun() ->
                            Side = sonde_vm:side(),
                            sonde_helper:call(fun(Caller) ->
                                                      Work(Times#{side => Side, caller => Caller})
                                              end)
                    end).

full(N, #{start := Start} = Opts) ->
    {TotalBefore, BinaryBefore} = node_memory(),
    {Rows, Counts} = leak(N, Opts),
    timer:sleep(?SETTLE_MS),
    {TotalAfter, BinaryAfter} = node_memory(),
    Counts#{rows => Rows, ms => now_ms() - Start,
            total => {TotalBefore, TotalAfter}, binary => {BinaryBefore, BinaryAfter}}.

leak(N, #{side := Side, last := Last} = Opts) ->
    Want = min(N + ?SPARE, erlang:system_info(process_limit)),
    {Best, #found{collected = Collected, skipped = Skipped}, Left} = find(Side, Want, Opts),
    {Rows, Mute} = name(N, Best, Opts#{until => max(Last, now_ms() + ?LEAST_MS)}),
    {Rows, #{collected => Collected, skipped => Skipped + Mute, left => Left}}.

now_ms() ->
    erlang:monotonic_time(millisecond).

node_memory() ->
    [{total, Total}, {binary, Binary}] = sonde_memory:read([total, binary]),
    {Total, Binary}.

find(native, Want, #{collect := Collect} = Opts) ->
    Scans = sonde_scan:scan(Collect, Want, undefined, how(Opts)),
    case first_count(Scans, Opts) of
        {no_reader, _} -> find({portable, no_reader}, Want, Opts);
        {done, Unread} -> collect(Scans, Unread, Want, Opts)
    end;
find({portable, _}, Want, Opts) ->
    Found = sonde_helper:jobs(fun start/1, fun fold/3, #found{best = sonde_largest:new(Want)},
                              [{whole, Pid} || Pid <- lists:delete(self(), processes())], Opts),
    {sonde_largest:to_list(Found#found.best), Found, 0}.

%% ---- one process, as in recon: a separate job

whole(Pid) ->
    case process_info(Pid, [binary, initial_call]) of
        [{binary, Before}, {initial_call, Call}] ->
            case sonde_attr:is_ours(Call) of
                true -> helper;
                false -> collected(Pid, length(Before))
            end;
        undefined ->
            undefined
    end.

collected(Pid, Before) ->
    _ = garbage_collect(Pid),
    case sonde_attr:read(binary_count, Pid) of
        {ok, After} -> {ok, Before - After};
        undefined -> died
    end.

%% ---- native

%% A process that could not be read gets a job of its own later, and is nothing to the scan.
first_count(Scans, Opts) ->
    Ask = fun(Scan, _, Pids, Unread) ->
                  _ = [ok = sonde_nif:scan_skip(Scan, Pid) || Pid <- Pids],
                  {[], Pids ++ Unread}
          end,
    sonde_scan:drive(Scans, how(Opts), #{ask => Ask, join => fun lists:append/2}, []).

how(#{caller := Caller, threads := Threads}) ->
    #{attrs => [binary_count], by => Caller, threads => Threads}.

collect(Scans, Unread, Want, Opts) ->
    Left = lists:sum([N || Scan <- Scans, #{left := N} <- [sonde_nif:scan_info(Scan)]]),
    Asked = maps:from_keys(Unread, []),
    Pids = lists:foldr(fun(Scan, Last) -> remembered(Scan, Asked, 0, Last) end, [], Scans),
    Found = collect_all(Pids, Unread, #found{scans = Scans, best = sonde_largest:new(Want)}, Opts),
    _ = [ok = sonde_nif:scan_after(Scan) || Scan <- Scans],
    {End, Silent} = second_count(Scans, Opts),
    Rows = sonde_scan:rows(Scans, 0, Want),
    {Dropped, Mute} = case End of
                          no_reader -> ask_the_rest(Scans, Rows, Silent, Opts);
                          done -> {Rows, Silent}
                      end,
    Best = lists:foldl(fun sonde_largest:add/2, Found#found.best, Dropped),
    {sonde_largest:to_list(Best), Found#found{skipped = Found#found.skipped + Mute}, Left}.

%% The unread have jobs of their own, at the same time: on neither side may a process that does not answer
%% delay the others.
collect_all(Pids, [], None, Opts) ->
    sonde_collect:all(Pids, fun collected/3, None, Opts);
collect_all(Pids, Unread, None, #{caller := Caller} = Opts) ->
    [One, Other] =
        sonde_helper:all([fun(By) -> collect_all(Pids, [], None, Opts#{caller := By}) end,
                          fun(By) -> sonde_helper:jobs(fun start/1, fun fold/3, None,
                                                       [{whole, Pid} || Pid <- Unread],
                                                       Opts#{caller := By})
                          end], fun(_) -> ok end, Caller),
    One#found{best = lists:foldl(fun sonde_largest:add/2, One#found.best,
                                 sonde_largest:to_list(Other#found.best)),
              collected = One#found.collected + Other#found.collected,
              skipped = One#found.skipped + Other#found.skipped}.

%% A lazy list of the processes that the scan remembers, but those with a separate job.
remembered(Scan, Asked, From, Last) ->
    fun() ->
            case sonde_nif:scan_pids(Scan, From, ?CHUNK) of
                [] -> Last;
                Pids -> [Pid || Pid <- Pids, not is_map_key(Pid, Asked)]
                            ++ remembered(Scan, Asked, From + length(Pids), Last)
            end
    end.

start({whole, Pid}) ->
    sonde_helper:job(fun whole/1, Pid);
start({count, Pid}) ->
    sonde_helper:job(fun(P) -> sonde_attr:read(binary_count, P) end, Pid);
start({count, Pid, _}) ->
    start({count, Pid});
start({name, {_, Pid}}) ->
    sonde_helper:job(fun sonde_attr:call_site/1, Pid).

fold({whole, Pid}, {ok, Drop}, #found{best = Best, collected = Done} = Found) ->
    Found#found{best = sonde_largest:add({Drop, Pid}, Best), collected = Done + 1};
fold({whole, Pid}, died, #found{best = Best} = Found) ->
    Found#found{best = sonde_largest:add({0, Pid}, Best)};
fold({whole, _}, unanswered, #found{skipped = Skipped} = Found) ->
    Found#found{skipped = Skipped + 1};
fold(_, _, Found) ->
    Found.

collected(_, true, #found{collected = Done} = Found) ->
    Found#found{collected = Done + 1};
collected(_, false, Found) ->
    Found;
collected(Pid, unanswered, #found{scans = Scans, skipped = Skipped} = Found) ->
    ok = sonde_scan:skip(Scans, Pid),
    Found#found{skipped = Skipped + 1}.

%% With how many never answered; at `no_reader', of those that were asked until then.
second_count(Scans, #{last := Last} = Opts) ->
    Add = fun({count, Pid}, Answer, Asked) -> [{Pid, Answer} | Asked] end,
    Ask = fun(Scan, #{by := Caller}, Pids, Mute) ->
                  Asked = sonde_helper:jobs(fun start/1, Add, [], [{count, Pid} || Pid <- Pids],
                                            Opts#{until => Last, caller => Caller}),
                  Silent = [Pid || {Pid, unanswered} <- Asked],
                  _ = [ok = sonde_nif:scan_skip(Scan, Pid) || Pid <- Silent],
                  {[{Pid, N} || {Pid, {ok, N}} <- Asked], Mute + length(Silent)}
          end,
    sonde_scan:drive(Scans, how(Opts), #{ask => Ask, join => fun erlang:'+'/2}, 0).

%% No process can be read any more: each process without a row is asked for the second count. (A
%% process that lost its row to better ones loses again.)
ask_the_rest(Scans, Rows, Mute, #{last := Last} = Opts) ->
    HasRow = maps:from_list([{Pid, []} || {_, Pid} <- Rows]),
    sonde_helper:jobs(fun start/1, fun recounted/3, {Rows, Mute},
                      [{count, Pid, Before} || {Pid, Before} <- sonde_scan:values(Scans),
                                               Before =/= skip, not is_map_key(Pid, HasRow)],
                      Opts#{until => Last}).

recounted({count, Pid, Before}, {ok, Now}, {Rows, Mute}) when is_integer(Before) ->
    {[{Before - Now, Pid} | Rows], Mute};
recounted(_, unanswered, {Rows, Mute}) ->
    {Rows, Mute + 1};
recounted({count, Pid, _}, _, {Rows, Mute}) ->
    {[{0, Pid} | Rows], Mute}.

%% ---- names: only for rows; a dead process has neither a name nor, as in recon, a value

name(N, Best, Opts) ->
    name(N, Best, [], [], 0, Opts).

name(N, [_ | _] = Best, Live, Dead, Mute, Opts) when length(Live) < N ->
    {Now, Later} = lists:split(min(N - length(Live), length(Best)), Best),
    Named = sonde_helper:jobs(fun start/1, fun({name, Row}, Site, Acc) -> [{Row, Site} | Acc] end,
                              [], [{name, Row} || Row <- Now], Opts),
    name(N, Later,
         [{Drop, Pid, Attrs} || {{Drop, Pid}, {ok, Attrs}} <- Named] ++ Live,
         [{0, Pid, []} || {{_, Pid}, undefined} <- Named] ++ Dead,
         Mute + length([mute || {_, unanswered} <- Named]), Opts);
name(N, _, Live, Dead, Mute, _Opts) ->
    Sorted = lists:reverse(lists:sort(Live ++ Dead)),
    {[{Pid, -Drop, Attrs} || {Drop, Pid, Attrs} <- lists:sublist(Sorted, N)], Mute}.
