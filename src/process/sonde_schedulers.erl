%% @private
%% What each scheduler thread runs: a process or a port, since when at least, and how many wait for the scheduler. What
%% runs may be a native call that never returns, so nothing is asked, and nothing waits for a dirty scheduler: not even
%% for the code of a module, which `sonde_vm' loads early.
-module(sonde_schedulers).

-export([rows/1, there/3]).
-export_type([row/0, options/0]).

-type kind() :: normal | dirty_cpu | dirty_io.
-type function_there() :: sonde_nif:function_there().
-type row() :: {{kind(), Number :: pos_integer()}, RunQueue :: non_neg_integer() | undefined,
                [{pid, pid()} | {port, port()} | {name, string()} | {held_ms, non_neg_integer()}
                 | {status, atom()}          % also `busy', `not_read': then there is no pid
                 | {current_function | initial_call, mfa() | function_there()}
                 | (Name :: atom() | binary())]}.
-type options() :: #{interval => Ms :: non_neg_integer()}.

-define(KINDS, [normal, dirty_cpu, dirty_io]).
-define(INTERVAL_MS, 100).
-define(LONGEST_MS, 60000).

%% @doc Returns a row for each scheduler of this node; those that run the same for the longest time come first.
-spec rows(map()) -> [row()].
rows(Opts) ->
    #{interval := Ms} = sonde_opts:read(Opts, #{interval => {?INTERVAL_MS, fun is_interval/1}}),
    sonde_retry:run(fun() ->
                            ok = sonde_vm:must_be_native(),
                            sonde_nif:has_schedulers() orelse error({native_off, {unsupported, schedulers}}),
                            here(Ms)
                    end).

is_interval(Ms) -> is_integer(Ms) andalso Ms >= 0 andalso Ms =< ?LONGEST_MS.

here(Ms) ->
    case looks(Ms) of
        no_reader -> error({native_off, {unsupported, no_reader}});
        Looks ->
            Names = names(),
            sorted([row(Row, fun(F) -> F end, Names) || Row <- with_queues(Looks)])
    end.

%% @doc The same of another OS process, or of a core file, in which nothing changes.
-spec there(Ms :: non_neg_integer(), fun((pid() | port()) -> Name :: atom() | binary() | undefined),
            fun((function_there()) -> tuple() | undefined)) -> [row()] | no_reader.
there(Ms, Name, Function) ->
    case looks(Ms) of
        no_reader -> no_reader;
        Looks -> sorted([row(Row, Function, Name) || Row <- Looks])
    end.

%% ---- two looks

%% Of each scheduler: its kind and number, the length of its run queue, what it runs, and for how long at least.
looks(0) ->
    case look() of
        no_reader -> no_reader;
        Look -> [{Key, Queue, Running, unknown} || {Key, Queue, Running} <- Look]
    end;
looks(Ms) ->
    case look() of
        no_reader ->
            no_reader;
        First ->
            From = erlang:monotonic_time(millisecond),
            receive after Ms -> ok end,
            To = erlang:monotonic_time(millisecond),
            case look() of
                no_reader -> no_reader;
                Second -> held(maps:from_list([{Key, Running} || {Key, _, Running} <- First]), To - From, Second)
            end
    end.

held(Before, Ms, Look) ->
    [{Key, Queue, Running, case {Running, Before} of
                               {{Pid, _, Mark, _, _}, #{Key := {Pid, _, Mark, _, _}}} -> Ms;
                               {{port, Port, Mark, _}, #{Key := {port, Port, Mark, _}}} -> Ms;
                               _ -> unknown
                           end}
     || {Key, Queue, Running} <- Look].

look() ->
    look(?KINDS, 0, []).

look([], _, Rows) ->
    lists:reverse(Rows);
look([Kind | Kinds], From, Rows) ->
    case sonde_nif:schedulers(Kind, From, erlang:system_info(atom_count)) of
        no_reader -> no_reader;
        {Next, Some} ->
            More = lists:reverse([{{Kind, No}, Queue, Running} || {No, Queue, Running} <- Some], Rows),
            case Next of
                done -> look(Kinds, 0, More);
                _ -> look([Kind | Kinds], Next, More)
            end
    end.

%% All dirty schedulers of a kind share a run queue.
with_queues(Looks) ->
    {Normal, Dirty} = lists:split(erlang:system_info(schedulers), erlang:statistics(run_queue_lengths_all)),
    Lengths = maps:from_list([{{normal, No}, Length} || {No, Length} <- numbered(Normal)]),
    [Cpu, Io] = Dirty,
    [{Key, case Key of
               {normal, _} -> maps:get(Key, Lengths, Queue);
               {dirty_cpu, _} -> Cpu;
               {dirty_io, _} -> Io
           end, Running, Ms} || {Key, Queue, Running, Ms} <- Looks].

numbered(List) -> lists:zip(lists:seq(1, length(List)), List).

%% ---- rows

row({Key, Queue, none, _}, _, _) -> {Key, Queue, []};
row({Key, Queue, busy, _}, _, _) -> {Key, Queue, [{status, busy}]};
row({Key, Queue, torn, _}, _, _) -> {Key, Queue, [{status, not_read}]};
row({Key, Queue, {port, Port, _, Text}, Ms}, _, Name) ->
    {Key, Queue, [{port, Port}] ++ [N || N <- [Name(Port)], N =/= undefined] ++ held_for(Ms)
                 ++ [{name, binary_to_list(Text)}]};
row({Key, Queue, {Pid, Status, _, Call, Current}, Ms}, Function, Name) ->
    {Key, Queue, [{pid, Pid}] ++ [N || N <- [Name(Pid)], N =/= undefined] ++ held_for(Ms)
                 ++ [{status, Status} || Status =/= running]
                 ++ attrs(current_function, Function(Current)) ++ attrs(initial_call, Function(Call))}.

held_for(unknown) -> [];
held_for(Ms) -> [{held_ms, Ms}].

attrs(_, undefined) -> [];
attrs(Key, Function) -> [{Key, Function}].

%% A process or a port itself cannot be asked; which of them has a name can.
names() ->
    Names = maps:from_list([{What, Name} || Name <- registered(), What <- [whereis(Name)], What =/= undefined]),
    fun(What) -> maps:get(What, Names, undefined) end.

sorted(Rows) ->
    [Row || {_, Row} <- lists:sort([{order(Row), Row} || Row <- Rows])].

order({{Kind, No}, Queue, Attrs}) ->
    Held = case lists:keyfind(held_ms, 1, Attrs) of
               {_, Ms} -> Ms;
               false -> -1
           end,
    {-Held, Attrs =:= [], -length_of(Queue), rank(Kind), No}.

length_of(undefined) -> 0;
length_of(Queue) -> Queue.

rank(normal) -> 0;
rank(dirty_cpu) -> 1;
rank(dirty_io) -> 2.
