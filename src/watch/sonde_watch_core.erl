%% @private
%% How the watcher judges its samples, without a process, a clock, or a call to the node: series of
%% values that may leak, what is accused and since when, and which limits are near. Returns events.
-module(sonde_watch_core).

-export([new/1, step/2, followed/1, accused/1]).
-export_type([state/0, sample/0, event/0, what/0, process/0, table/0]).

-type what() :: {process, pid()} | {table, ets:table()} | {memory, atom()} | {count, atom()}.
%% `live': bytes that the process reaches, with the binaries that it refers to, if its heap was read
%% for this sample; `later': it will be read; `unknown': it cannot be read, so `bytes' must do.
-type process() :: {pid(), Bytes :: non_neg_integer(),
                    Live :: non_neg_integer() | later | unknown, sonde_attr:attrs()}.
-type table() :: {ets:table(), Bytes :: non_neg_integer(), [term()]}.
%% `at': milliseconds of a monotonic clock; `reductions': of the node since it started.
-type sample() :: #{at := integer(), reductions := non_neg_integer(),
                    memory := [{atom(), non_neg_integer()}],
                    counts := [{atom(), non_neg_integer(), Limit :: pos_integer() | undefined}],
                    processes := [process()], tables := [table()], gone := [what()],
                    atom() => term()}.
-type event() :: #{event := leak | leak_over | limit | limit_over | atom(), atom() => term()}.

%% `watched': by key its series, when it was last large, and what is known of it.
-record(state, {min_bytes, most, index, before, load, watched = #{}, accused = #{},
                strikes = #{}, near = #{}}).

-opaque state() :: #state{}.

%% The growth that counts, for bytes and for counts; also as a share of the level before it.
%% Sums over many, and values that include an unknown amount of garbage, are judged later, and by
%% their least values.
-define(BYTES, #{growth => 2000000, share => 0.005, hours => 5, bins => mean}).
-define(SUMS, #{growth => 3000000, share => 0.005, hours => 12, bins => least}).
-define(COUNT, #{growth => 300, share => 0.05, hours => 12, bins => mean}).
%% So many blocks in a row, for and against. A table needs one more, since one that fills up grows in as clear an order
%% as a leak, and growth in an order that is less clear must last for an hour.
-define(STRIKES, 2).
-define(TABLE, 3).
-define(UNCLEAR, 4).
-define(CLEAR_TAU, 0.97).
%% So many in a row where growth may last for a while and is none: numbers follow the load, which rises
%% for half of each day, and what a day or more shows changes little from one block to the next. Numbers that grew for
%% days must grow for a quarter of a day.
-define(LASTING, 8).
-define(DAYS_LASTING, 24).
-define(DAY, 24).             % hours
-define(HALF_DAY, 12).        % hours; a window of a day may show a little less than 24
-define(NEAR, 0.8).           % of a limit
-define(FAR, 0.7).
-define(SMALL_MS, 2700000).   % after that time below `min_bytes' it is not followed any more

-spec new(#{min_bytes := non_neg_integer(), top := non_neg_integer(), atom() => term()}) -> state().
new(#{min_bytes := Least, top := Top}) ->
    #state{min_bytes = Least, most = 2 * Top, load = sonde_trend:new(mean)}.

%% @doc Which processes and tables a sample must have, though they are not among the largest.
-spec followed(state()) -> {[pid()], [ets:table()]}.
followed(#state{watched = Watched}) ->
    Keys = maps:keys(Watched),
    {lists:usort([Pid || {{process, Pid}, _} <- Keys]), [Tab || {{table, Tab}, _} <- Keys]}.

%% @doc What is accused now, as the events that reported it.
-spec accused(state()) -> [event()].
accused(#state{accused = Accused, near = Near}) -> maps:values(Accused) ++ maps:values(Near).

-spec step(sample(), state()) -> {[event()], state()}.
step(#{at := At, gone := Gone} = Sample, #state{index = Before} = State0) ->
    Index = sonde_trend:index(At),
    State1 = follow(Sample, load(Sample, State0)),
    {Over, State2} = forget(At, Gone, State1),
    {Limits, State3} = limits(Sample, State2),
    case Index of
        Before ->
            {Over ++ Limits, State3};
        _ ->
            {Leaks, State4} = judge(At, State3#state{index = Index}),
            {Over ++ Limits ++ Leaks, State4}
    end.

%% ---- the series

%% Work done in a second.
load(#{at := At, reductions := Done}, #state{before = {Then, DoneThen}, load = Load} = State)
  when At > Then ->
    State#state{before = {At, Done},
                load = sonde_trend:add(At, (Done - DoneThen) * 1000 / (At - Then), Load)};
load(#{at := At, reductions := Done}, State) ->
    State#state{before = {At, Done}}.

follow(#{at := At, memory := Memory, counts := Counts, processes := Processes, tables := Tables},
       #state{watched = Watched0} = State) ->
    Watched1 = lists:foldl(fun({Kind, Bytes}, W) ->
                                   add(At, {{memory, Kind}, bytes}, Bytes, true, [], W)
                           end, Watched0, rest(Memory, Tables)),
    Watched2 = lists:foldl(fun({Kind, N, _}, W) ->
                                   add(At, {{count, Kind}, number}, N, true, [], W)
                           end, Watched1, Counts),
    Watched3 = lists:foldl(fun(Row, W) -> process(At, Row, State, W) end, Watched2, Processes),
    Watched4 = lists:foldl(fun(Row, W) -> table(At, Row, State, W) end, Watched3, Tables),
    State#state{watched = Watched4}.

%% The large tables are judged one by one.
rest(Memory, Tables) ->
    [{Kind, case Kind of
                ets -> max(0, Bytes - lists:sum([Large || {_, Large, _} <- Tables]));
                _ -> Bytes
            end} || {Kind, Bytes} <- Memory].

process(At, {Pid, Bytes, Live, Attrs}, #state{min_bytes = Least} = State, Watched) ->
    Large = Bytes >= Least,
    case Live of
        later -> Watched;
        unknown -> one(At, {{process, Pid}, bytes}, Bytes, Large, Attrs, State, Watched);
        _ -> one(At, {{process, Pid}, live}, Live, Large, Attrs, State, Watched)
    end.

table(At, {Tab, Bytes, Attrs}, #state{min_bytes = Least} = State, Watched) ->
    one(At, {{table, Tab}, bytes}, Bytes, Bytes >= Least, Attrs, State, Watched).

%% A new one is followed only if it is large, and while there is room.
one(At, Key, Value, Large, Attrs, #state{most = Most}, Watched) ->
    case is_map_key(Key, Watched) orelse Large andalso map_size(Watched) < 20 + 4 * Most of
        true -> add(At, Key, Value, Large, Attrs, Watched);
        false -> Watched
    end.

add(At, Key, Value, Large, Attrs, Watched) ->
    {Series, Seen, Known} = case Watched of
                                #{Key := Known0} -> Known0;
                                _ -> {sonde_trend:new(kind(Key)), At, Attrs}
                            end,
    Watched#{Key => {sonde_trend:add(At, Value, Series),
                     case Large of true -> At; false -> Seen end,
                     case Attrs of [] -> Known; _ -> Attrs end}}.

kind({{count, _}, _}) -> mean;
kind(_) -> least.

%% Forgets what is dead, and what has been small for long.
forget(At, Gone, #state{watched = Watched0, accused = Accused, strikes = Strikes} = State) ->
    Dead = maps:from_keys(Gone, []),
    Watched = maps:filter(fun({What, _}, {_, Seen, _}) ->
                                  not is_map_key(What, Dead) andalso At - Seen =< ?SMALL_MS
                          end, Watched0),
    case map_size(Watched) =:= map_size(Watched0) of
        true ->
            {[], State};
        false ->
            Left = maps:from_list([{What, []} || {What, _} <- maps:keys(Watched)]),
            Over = [What || What <- maps:keys(Accused), not is_map_key(What, Left)],
            {[over(leak_over, map_get(What, Accused), At) || What <- Over],
             State#state{watched = Watched, accused = maps:without(Over, Accused),
                         strikes = maps:with(maps:keys(Left), Strikes)}}
    end.

over(Event, Said, At) ->
    (maps:with([what, of_what], Said))#{event => Event, at => At}.

%% ---- leaks: accused after two blocks with growth or more, acquitted after two without

judge(At, #state{watched = Watched, load = Load} = State) ->
    Found = maps:fold(fun({What, _} = Key, {Series, _, Attrs}, Acc) ->
                              case is_best(Key, Watched)
                                  andalso sonde_trend:judge(Series, Load, rule(Key)) of
                                  {grows, Finding} -> Acc#{What => leak(At, Key, Finding, Attrs)};
                                  _ -> Acc
                              end
                      end, #{}, Watched),
    verdicts(At, Found, State).

%% The bytes that a process reaches are better evidence than its size, if the series is long enough.
is_best({What, bytes}, Watched) ->
    case Watched of
        #{{What, live} := {Series, _, _}} -> length(sonde_trend:blocks(Series)) < 20;
        _ -> true
    end;
is_best(_, _) ->
    true.

rule({{count, _}, _}) -> ?COUNT;
rule({{table, _}, _}) -> ?BYTES;
rule({_, live}) -> ?BYTES;
rule(_) -> ?SUMS.

leak(At, {What, Of}, Finding, Attrs) ->
    maps:merge(maps:map(fun rounded/2, Finding),
               #{event => leak, at => At, what => What, of_what => Of, attrs => Attrs}).

rounded(tau, Tau) -> Tau;
rounded(hours, Hours) -> round(Hours * 10) / 10;
rounded(_, Number) -> round(Number).

verdicts(At, Found, #state{accused = Accused, strikes = Strikes0} = State) ->
    Free = maps:without(maps:keys(Accused), Found),
    Clear = maps:without(maps:keys(Found), Accused),
    Strikes = maps:map(fun(What, _) -> maps:get(What, Strikes0, 0) + 1 end,
                       maps:merge(Free, Clear)),
    Out = [What || {What, N} <- maps:to_list(Strikes), N >= needed(maps:get(What, Free, none))],
    New = maps:with(Out, Free),
    Old = maps:with(Out, Clear),
    {[over(leak_over, Said, At) || Said <- maps:values(Old)] ++ maps:values(New),
     State#state{accused = maps:merge(maps:merge(maps:without(maps:keys(Old), Accused),
                                                 maps:with(maps:keys(Accused), Found)), New),
                 strikes = maps:without(Out, Strikes)}}.

needed(#{what := {count, _}, hours := Hours}) when Hours > ?DAY -> ?DAYS_LASTING;
needed(#{what := {count, _}}) -> ?LASTING;
needed(#{what := {memory, _}}) -> ?STRIKES;
needed(#{hours := Hours}) when Hours > ?HALF_DAY -> ?LASTING;
needed(#{tau := Tau}) when Tau < ?CLEAR_TAU -> ?UNCLEAR;
needed(#{what := {table, _}}) -> ?TABLE;
needed(_) -> ?STRIKES.

%% ---- limits

limits(#{at := At, counts := Counts}, State) ->
    lists:foldl(fun({_, _, undefined}, Acc) -> Acc;
                   (Count, Acc) -> limit(At, Count, Acc)
                end, {[], State}, Counts).

limit(At, {Kind, N, Limit}, {Events, #state{near = Near} = State}) ->
    case Near of
        #{Kind := Said} when N < ?FAR * Limit ->
            {[over(limit_over, Said, At) | Events], State#state{near = maps:remove(Kind, Near)}};
        #{Kind := _} ->
            {Events, State};
        _ when N >= ?NEAR * Limit ->
            Event = #{event => limit, at => At, what => {count, Kind}, count => N, limit => Limit},
            {[Event | Events], State#state{near = Near#{Kind => Event}}};
        _ ->
            {Events, State}
    end.
