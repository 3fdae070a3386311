%% @private
%% What waits in a mailbox: the number, shapes and sizes of messages. The native path copies no
%% message; the portable path copies all of them, into a helper.
-module(sonde_mailbox).

-export([mailbox/3, there/3]).
-export_type([mailbox/0, shape/0]).

%% An atom of another OS process that is none here is its text. Only such a mailbox has `constants', or
%% the content `forbidden'.
-type shape() :: atom() | binary() | {Tag :: atom() | binary(), Arity :: non_neg_integer()}.
-type mailbox() ::
    #{messages := non_neg_integer(), bytes := non_neg_integer(),
      binary_bytes := non_neg_integer(), examined := non_neg_integer(),
      shapes := [#{shape := shape(), messages := pos_integer(), bytes := non_neg_integer(),
                   from := pid() | undefined}],
      content => sensitive | forbidden,
      constants => non_neg_integer(),
      suspended_ms => non_neg_integer()}.
%% The shape of an atom is `{Atom}' until the end, to distinguish it from the other shapes.
-type raw() :: {atom() | {atom, binary()}} | {{atom, binary()}, non_neg_integer()} | shape().
-type row() :: {raw(), Messages :: pos_integer(), Words :: non_neg_integer(),
                pid() | undefined}.

-define(SAMPLE, 100000).
-define(SHAPES_MAX, 4096).    % as in mailbox.h
-define(MAX_MS, 16#FFFFFFFF).
-define(HIDDEN, 3).           % empty answers, although messages wait, before it counts as sensitive

%% @doc See {@link sonde:mailbox/3}. Without the native side only if the process has no more than
%% `max_words', either.
-spec mailbox(pid(), non_neg_integer(), term()) ->
    mailbox() | sonde_look:errors() | {error, content_forbidden}.
mailbox(Pid, N, Given) when is_pid(Pid), node(Pid) =:= node(), is_integer(N), N >= 0 ->
    Opts = sonde_opts:read(Given, options()),
    Side = sonde_vm:side(),
    case {sonde_content:allowed(), Side} of
        {false, _} -> {error, content_forbidden};
        {true, native} -> native(Pid, N, Opts);
        {true, {portable, Why}} -> portable(Pid, N, Opts, Why)
    end;
mailbox(_, _, _) ->
    error(badarg).

answer({Messages, Words, Visible, Examined, _Constants}, Rows, N) ->
    #{messages => Messages, bytes => bytes(Words), binary_bytes => Visible,
      examined => Examined, shapes => [shape(Row) || Row <- lists:sublist(ranked(Rows), N)]}.

%% Most messages first, then most bytes.
ranked(Rows) ->
    lists:sort(fun({ShapeA, A, WordsA, _}, {ShapeB, B, WordsB, _}) ->
                       {-A, -WordsA, ShapeA} =< {-B, -WordsB, ShapeB}
               end, Rows).

-spec shape(row()) -> map().
shape({Raw, Messages, Words, From}) ->
    #{shape => named(Raw),
      messages => Messages, bytes => bytes(Words), from => From}.

named({{atom, Text}}) -> sonde_names:existing(Text);
named({{atom, Text}, Arity}) -> {sonde_names:existing(Text), Arity};
named({Atom}) -> Atom;
named(Raw) -> Raw.

bytes(Words) -> Words * erlang:system_info(wordsize).

%% ---- native

native(Pid, N, Opts) ->
    looked(Pid, Opts, fun(Look) -> seen(sonde_nif:look_content(Look), Look, N) end).

looked(Pid, #{sample := Sample} = Opts, Fun) ->
    %% the walker remembers numbers of 64 bits
    Entries = min(Sample, 1 bsl 60),
    sonde_look:run(Pid, {mailbox, [], Entries, erlang:system_info(atom_count)}, Opts, Fun).

%% @doc The same of another OS process: `constants' says how often messages refer to constants of the
%% program, whose size is not known. Without content, it has no shapes.
-spec there(pid(), non_neg_integer(), map()) -> mailbox() | sonde_look:errors().
there(Pid, N, Given) ->
    looked(Pid, sonde_opts:read(Given, options()), fun(Look) ->
        {_, _, _, _, Constants} = Totals = sonde_nif:look_mailbox(Look),
        (case sonde_nif:look_content(Look) of
             true -> answer(Totals, totals(rows(Look, 0)), N);
             Why -> (answer(Totals, [], 0))#{content => Why}
         end)#{constants => Constants}
    end).

options() ->
    sonde_look:options(#{sample => sonde_opts:count(?SAMPLE)}).

seen(true, Look, N) ->
    answer(sonde_nif:look_mailbox(Look), totals(rows(Look, 0)), N);
seen(sensitive, Look, N) ->
    case answer(sonde_nif:look_mailbox(Look), [], N) of
        #{messages := 0} = Empty -> Empty;
        Mailbox -> Mailbox#{content => sensitive}
    end;
seen(forbidden, _, _) ->
    {error, content_forbidden}.

totals(Rows) ->
    [{Shape, Messages, Words, From} || {Shape, Messages, Words, _, From} <- Rows].

rows(_Look, done) -> [];
rows(Look, From) ->
    {Next, Rows} = sonde_look:given(sonde_nif:look_shapes(Look, From)),
    Rows ++ rows(Look, Next).

%% ---- portable

portable(Pid, N, #{timeout := Ms} = Opts, Why) ->
    Until = sonde_look:until(Ms),
    sonde_helper:call(
      fun(Caller) ->
              sonde_look:held(Pid, Opts#{until => Until},
                              fun() -> answered(Pid, N, Opts, Why, Until, Caller) end)
      end).

answered(Pid, N, Opts, Why, Until, Caller) ->
    Ask = fun(P) -> ask(P, N, Opts, Why) end,
    sonde_helper:jobs(fun(P) -> sonde_helper:job(Ask, P) end,
                      fun(_, unanswered, _) -> {error, timeout};
                         (_, Answer, _) -> Answer
                      end,
                      none, [Pid], #{in_flight => 1, until => Until, caller => Caller}).

ask(Pid, N, #{sample := Sample, max_words := Max} = Opts, Why) ->
    case process_info(Pid, [message_queue_len, total_heap_size]) of
        undefined -> undefined;
        [{_, Messages}, _] when Messages > Sample -> {error, {native_off, Why}};
        [_, {_, Words}] when Words > Max -> {error, {heap_too_large, Words, Max}};
        _ ->
            case messages(Pid, ?HIDDEN) of
                undefined -> undefined;
                hidden -> {error, {native_off, Why}};
                Messages -> counted(Messages, N, Opts)
            end
    end.

%% For a sensitive process the VM returns an empty list of messages, but their number if only that
%% is requested.
messages(_Pid, 0) ->
    hidden;
messages(Pid, Tries) ->
    case {process_info(Pid, messages), process_info(Pid, message_queue_len)} of
        {{messages, []}, {message_queue_len, Waiting}} when Waiting > 0 -> messages(Pid, Tries - 1);
        {{messages, Messages}, _} -> Messages;
        {undefined, _} -> undefined
    end.

counted(Messages, N, Opts) ->
    %% from the oldest on: if there are too many shapes, the first ones count
    Groups = maps:to_list(lists:foldl(fun group/2, #{}, Messages)),
    try [sized(Raw, lists:reverse(Group), Opts) || {Raw, Group} <- Groups] of
        Sized ->
            Totals = {length(Messages), lists:sum([W || {{_, _, W, _}, _} <- Sized]),
                      lists:sum([V || {_, V} <- Sized]), length(Messages), 0},
            answer(Totals, [Row || {Row, _} <- Sized], N)
    catch
        throw:{too_much, Error} -> Error
    end.

group(Message, Groups) ->
    Raw = raw(Message),
    Shape = case Groups of
                #{Raw := _} -> Raw;
                _ when map_size(Groups) < ?SHAPES_MAX -> Raw;
                _ -> other
            end,
    Groups#{Shape => [Message | maps:get(Shape, Groups, [])]}.

raw(Atom) when is_atom(Atom) -> {Atom};
raw(Tuple) when is_tuple(Tuple), is_atom(element(1, Tuple)) ->
    {element(1, Tuple), tuple_size(Tuple)};
raw(Tuple) when is_tuple(Tuple) -> {any, tuple_size(Tuple)};
raw(List) when is_list(List) -> list;
raw(Map) when is_map(Map) -> map;
raw(Bits) when is_bitstring(Bits) -> binary;
raw(_) -> other.

%% In the list each message takes two more words.
sized(Raw, Messages, Opts) ->
    case sonde_size:term(Messages, limits(Opts)) of
        #{flat_words := Words, binary_visible := Visible} ->
            Count = length(Messages),
            {{Raw, Count, Words - 2 * Count, from(Messages)}, Visible};
        {error, _} = Error ->
            throw({too_much, Error})
    end.

%% The size of a term takes no longer timeout.
limits(#{max_words := Max, timeout := Ms}) ->
    #{max_words => Max, timeout => min(Ms, ?MAX_MS)}.

from(Messages) ->
    case lists:usort([caller(Message) || Message <- Messages]) of
        [Pid] when is_pid(Pid), node(Pid) =:= node() -> Pid;
        _ -> undefined
    end.

caller({'$gen_call', {Pid, _}, _}) when is_pid(Pid) -> Pid;
caller(_) -> undefined.
