%% @private
%% A scan of what nobody can be asked for: who could not be read is looked at again and again, after
%% pauses, and then named. `sonde_procs' and `sonde_each' ask them.
-module(sonde_sweep).

-export([scan/4, run/2]).
-export_type([how/0]).

-type how() ::
        #{attrs := [atom()],
          max_words => non_neg_integer(),          % of heaps that are marked
          max_entries => non_neg_integer(),        % processes that a first look remembers
          until => integer() | infinity,           % of the monotonic clock, in milliseconds
          callers => [reference()],                % who waits for us, if we are a helper
          without => [pid()],                      % who is left out, besides ourselves
          account => sonde_nif:account(),          % that is to be filled, or to be looked into
          atom() => term()}.

-define(NO_LIMIT, 134217727).
-define(WORDS_MAX, (1 bsl 60)). % more than there can be
-define(TRIES, 10).
-define(PAUSE_MS, 2).

%% @doc A scan in this mode (`sonde_nif:scan_new/6'), of all processes or of these, or the second
%% look after that first one.
-spec scan(sonde_nif:mode(), non_neg_integer(), sonde_nif:scan() | [pid()] | undefined, how()) ->
    sonde_nif:scan().
scan(Mode, Want, From, #{attrs := Attrs} = How) ->
    Scan = sonde_nif:scan_new(Attrs, Mode, Want, with_account(From, How),
                              [self() | maps:get(without, How, [])],
                              maps:get(max_entries, How, ?NO_LIMIT)),
    ok = sonde_nif:scan_limit(Scan, min(maps:get(max_words, How, ?WORDS_MAX), ?WORDS_MAX)),
    Scan.

with_account(From, #{account := Account}) -> {Account, From};
with_account(From, _) -> From.

%% @doc Steps through it. `all': every process was looked at; `some': the time was up. Then how many
%% were too large, and who could not be read, these included.
-spec run(sonde_nif:scan(), how()) -> {all | some, non_neg_integer(), [pid()]}.
run(Scan, How) ->
    run(Scan, How, 0, []).

run(Scan, How, TooLarge, Unread) ->
    case step(Scan, How) of
        done ->
            {all, TooLarge, Unread};
        late ->
            {some, TooLarge, Unread};
        more ->
            run(Scan, How, TooLarge, Unread);
        {ask, Pids} ->
            {Rows, Large, Left} = again(Pids, How, ?TRIES),
            ok = sonde_nif:scan_feed(Scan, Rows),
            run(Scan, How, TooLarge + Large, Left ++ Unread)
    end.

step(Scan, How) ->
    _ = [sonde_helper:check_caller(Caller) || Caller <- maps:get(callers, How, [])],
    case is_late(How) of
        true -> late;
        false ->
            case sonde_nif:scan_step(Scan) of
                {error, no_reader} -> error({native_off, {unsupported, no_reader}});
                {error, Why} -> error(Why);
                Other -> Other
            end
    end.

is_late(#{until := Until}) when is_integer(Until) ->
    erlang:monotonic_time(millisecond) >= Until;
is_late(_) ->
    false.

%% ---- those who could not be read

again(Pids, How, Tries) ->
    Scan = scan(mode(How), 0, Pids, How),
    {Rest, Rows, Unread} = some(Scan, How, [], []),
    #{too_large := TooLarge} = sonde_nif:scan_info(Scan),
    Left = case Rest of
               all -> Unread;
               some -> Pids -- [Pid || {Pid, _} <- Rows]
           end,
    case Tries =:= 1 orelse Rest =:= some orelse length(Left) =:= TooLarge of
        true ->
            {Rows, TooLarge, Left};
        false ->
            timer:sleep(?PAUSE_MS),
            {More, Large, Later} = again(Unread, How, Tries - 1),
            {Rows ++ More, Large, Later}
    end.

%% An account takes what it finds; else there are rows.
mode(#{account := _, attrs := [binary_unique]}) -> account;
mode(_) -> each.

some(Scan, How, Rows, Unread) ->
    case step(Scan, How) of
        done -> {all, Rows, Unread};
        late -> {some, Rows, Unread};
        more -> some(Scan, How, Rows, Unread);
        {rows, More} -> some(Scan, How, More ++ Rows, Unread);
        {ask, Pids} ->
            ok = sonde_nif:scan_feed(Scan, []),
            some(Scan, How, Rows, Pids ++ Unread)
    end.
