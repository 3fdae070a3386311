%% @private
%% The processes that make many others wait, and circles of processes that wait for each other. It works
%% only natively and sends no process a message.
-module(sonde_facts_waits).

-export([first/1, last/1]).
-export_type([wait/0, waits/0]).

%% `direct', `waiters', `next', `circle': as sonde_wait_graph has them at the start. `queued': messages
%% in its mailbox, at the start and at the end. `stuck': those of `some' waiters that were in the
%% same call at both moments. `stays': whether all processes on the circle were.
-type wait() :: #{pid := pid(), names := [atom()], direct := pos_integer(), waiters := pos_integer(),
                  processes := pos_integer(),
                  next := sonde_wait_graph:waited() | undefined, circle := [pid()] | undefined,
                  queued := {non_neg_integer(), non_neg_integer()},
                  some := pos_integer(), stuck := [pid()], stays := boolean()}.
-opaque waits() :: [{pid(), map()}].

-define(MANY, 20).            % waiters of one process
-define(MOST, 20).            % processes that are watched
-define(LOOK_MS, 5000).

%% @doc Returns the processes to watch.
-spec first(native | {portable, term()}) -> {waits(), [{atom(), sonde_facts:because()}]}.
first(native) ->
    try watched(sonde_waits:look(until()))
    catch error:{native_off, Why} -> first({portable, Why})
    end;
first({portable, Why}) ->
    {[], [{waits, {native_off, Why}}]}.

%% After a complete sweep, the missed processes are those that ran at each look: they did not wait.
watched({Graph, #{unseen := Unseen, missed := Missed}}) ->
    All = [{Pid, N} || {Pid, N} <- sonde_wait_graph:totals(Graph), is_pid(Pid)],
    On = [Circle || Circle <- lists:sublist(sonde_wait_graph:circles(Graph), ?MOST)],
    Heads = [hd(Circle) || Circle <- On],
    Many = [Pid || {Pid, _} <- lists:sublist(All, ?MOST), sonde_wait_graph:direct(Pid, Graph) >= ?MANY,
                   sonde_wait_graph:circle(Pid, Graph) =:= undefined],
    Waits = [{Pid, #{direct => sonde_wait_graph:direct(Pid, Graph),
                     waiters => proplists:get_value(Pid, All),
                     next => sonde_wait_graph:next(Pid, Graph),
                     circle => sonde_wait_graph:circle(Pid, Graph),
                     some => sonde_wait_graph:some(Pid, Graph),
                     queued => queued(Pid)}} || Pid <- Heads ++ Many],
    {seen(Waits), [{waits, {left_out, Unseen + length(Missed)}} || Unseen > 0]}.

seen(Waits) ->
    Now = now(Waits),
    [{Pid, Wait#{then => Now}} || {Pid, Wait} <- Waits].

%% @doc Returns what became of them at the end.
-spec last(waits()) -> [wait()].
last(Waits) ->
    Now = now(Waits),
    Processes = erlang:system_info(process_count),
    [(maps:with([direct, waiters, next, circle], Wait))
         #{pid => Pid, names => [Name || {registered_name, Name} <- [process_info(Pid, registered_name)]],
           processes => Processes, queued => {Queued, queued(Pid)},
           some => length(Some), stuck => [Waiter || Waiter <- Some, same(Waiter, Then, Now)],
           stays => is_list(Circle) andalso lists:all(fun(P) -> same(P, Then, Now) end, Circle)}
     || {Pid, #{some := Some, queued := Queued, then := Then, circle := Circle} = Wait} <- Waits].

same(Pid, Then, Now) ->
    case {Then, Now} of
        {#{Pid := Call}, #{Pid := Call}} -> true;
        _ -> false
    end.

now([]) -> #{};
now(Waits) ->
    Pids = lists:append([Some ++ [P || is_list(Circle), P <- Circle]
                         || {_, #{some := Some, circle := Circle}} <- Waits]),
    try sonde_waits:look_at(lists:usort(Pids), until())
    catch error:{native_off, _} -> #{}
    end.

until() -> erlang:monotonic_time(millisecond) + ?LOOK_MS.

%% Natively, because a busy process would not answer for a while.
queued(Pid) ->
    case sonde_every_process:read(Pid, message_queue_len) of
        N when is_integer(N) -> N;
        _ -> 0
    end.
