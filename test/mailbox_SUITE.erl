%% sonde_mailbox reports what sorting the messages by hand gives, on both sides.
-module(mailbox_SUITE).

-include_lib("proper/include/proper.hrl").

-compile([export_all, nowarn_export_all]).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [messages_of_every_kind, any_mailbox, shapes_have_names, commonest_come_first, sender_is_named,
     sample_is_the_oldest, no_sample_portably, more_shapes_than_there_is_room,
     markers_are_no_messages, own_mailbox, a_million_messages, flooded_and_suspended,
     told_how_long, received_and_kept, limits, content_can_be_forbidden, who_is_not_there,
     bad_arguments].

init_per_suite(Config) ->
    ok = sonde_terms_helper:init(),
    sonde_test:init(Config).

end_per_suite(_Config) -> ok.

%% ---- compared with sorting by hand

messages_of_every_kind(_Config) ->
    Messages = [sonde_terms_helper:value(Kind, N) || Kind <- sonde_terms_helper:kinds(),
                                                     N <- [1, 2, 40]],
    _ = [same_as_by_hand(Messages ++ wrapped(Messages), Opts) || Opts <- queues()].

wrapped(Messages) ->
    [{tagged, M} || M <- Messages] ++ [{M, M} || M <- Messages] ++ [[M] || M <- Messages].

queues() -> [[], [{message_queue_data, off_heap}]].

any_mailbox(_Config) ->
    Property =
        ?FORALL({Values, Queue}, {list(message()), oneof(queues())},
                begin
                    ok = same_as_by_hand(Values, Queue),
                    true
                end),
    proper:quickcheck(Property, [quiet, {numtests, 60}, {max_size, 40}, {max_shrinks, 20}])
        orelse ct:fail({counterexample, proper:counterexample()}).

message() ->
    ?LET({Kind, N, Wrap}, {oneof(sonde_terms_helper:kinds()), range(1, 40), range(0, 4)},
         wrap(Wrap, sonde_terms_helper:value(Kind, N))).

wrap(0, T) -> T;
wrap(1, T) -> {tag, T};
wrap(2, T) -> {T, tag};
wrap(3, _) -> an_atom;
wrap(4, T) -> {'$gen_cast', T}.

same_as_by_hand(Messages, Queue) ->
    Pid = sonde_test:hold(fun() -> none end, Queue),
    _ = [Pid ! M || M <- Messages],
    ok = sonde_test:settle(Pid),
    Before = by_hand(Messages),
    Before = without_senders(sonde_mailbox:mailbox(Pid, 100000, #{})),
    %% the messages are now on its heap, in its inner queue
    true = garbage_collect(Pid),
    {messages, Messages} = process_info(Pid, messages),
    ok = sonde_test:settle(Pid),
    Before = without_senders(sonde_mailbox:mailbox(Pid, 100000, #{})),
    sonde_test:stop(Pid).

without_senders(#{shapes := Shapes} = Mailbox) ->
    Mailbox#{shapes := lists:sort([maps:remove(from, Shape) || Shape <- Shapes])}.

by_hand(Messages) ->
    Groups = lists:foldl(fun(M, G) -> maps:update_with(shape(M), fun(L) -> [M | L] end, [M], G) end,
                         #{}, Messages),
    Visible = [V || M <- Messages, #{binary_visible := V} <- [sonde_size:term(M, #{})]],
    #{messages => length(Messages), examined => length(Messages), bytes => bytes(Messages),
      binary_bytes => lists:sum(Visible),
      shapes => lists:sort([#{shape => name(Shape), messages => length(Group),
                              bytes => bytes(Group)}
                            || {Shape, Group} <- maps:to_list(Groups)])}.

bytes(Messages) -> 8 * lists:sum([erts_debug:flat_size(M) || M <- Messages]).

%% An atom may have the name of a shape.
name({atom, Atom}) -> Atom;
name(Shape) -> Shape.

shape(M) when is_atom(M) -> {atom, M};
shape(M) when is_tuple(M), tuple_size(M) > 0, is_atom(element(1, M)) ->
    {element(1, M), tuple_size(M)};
shape(M) when is_tuple(M) -> {any, tuple_size(M)};
shape(M) when is_list(M) -> list;
shape(M) when is_map(M) -> map;
shape(M) when is_bitstring(M) -> binary;
shape(_) -> other.

%% ---- shapes

shapes_have_names(_Config) ->
    Pid = sonde_test:hold(fun() -> none end),
    Messages = [{tick, a}, tock, {"x", 1, 2}, {}, [], "text", #{}, <<"b">>, <<1:3>>, 1, 1.5, self(),
                1 bsl 100, make_ref(), fun() -> ok end],
    _ = [Pid ! M || M <- Messages],
    ok = sonde_test:settle(Pid),
    #{shapes := Shapes} = sonde_mailbox:mailbox(Pid, 100, #{}),
    Names = [binary, list, map, other, tock, {any, 0}, {any, 3}, {tick, 2}],
    Names = lists:sort([Name || #{shape := Name} <- Shapes]),
    [6] = [N || #{shape := other, messages := N} <- Shapes],
    sonde_test:stop(Pid).

commonest_come_first(_Config) ->
    Pid = sonde_test:hold(fun() -> none end),
    _ = [Pid ! {list_to_atom([$a + I]), J} || I <- lists:seq(0, 9), J <- lists:seq(0, I)],
    ok = sonde_test:settle(Pid),
    #{messages := 55, examined := 55, shapes := Shapes} = sonde_mailbox:mailbox(Pid, 3, #{}),
    [{j, 10}, {i, 9}, {h, 8}] = [{Tag, N} || #{shape := {Tag, 2}, messages := N} <- Shapes],
    #{messages := 55, shapes := []} = sonde_mailbox:mailbox(Pid, 0, #{}),
    sonde_test:stop(Pid).

%% Natively each sender is named; portably only a sender that the message names.
sender_is_named(_Config) ->
    Pid = sonde_test:hold(fun() -> none end),
    Me = self(),
    [A, B] = [spawn_monitor(fun() ->
                                    Pid ! {'$gen_call', {self(), make_ref()}, Tag},
                                    Pid ! {Tag, 1},
                                    Pid ! {both, 1}
                            end) || Tag <- [a, b]],
    _ = [receive {'DOWN', Mon, process, _, _} -> ok end || {_, Mon} <- [A, B]],
    Pid ! {'$gen_cast', Me, me},
    Pid ! {'$gen_call', {Me, make_ref()}, three, 4},
    ok = sonde_test:settle(Pid),
    #{shapes := Shapes} = sonde_mailbox:mailbox(Pid, 100, #{}),
    From = fun(Shape) -> [F || #{shape := S, from := F} <- Shapes, S =:= Shape] end,
    Sender = element(1, A),
    Expected = sonde_test:pick([[Sender], [undefined], [undefined], [Me]],
                               lists:duplicate(4, [undefined])),
    Expected = [From(S) || S <- [{a, 2}, {both, 2}, {'$gen_call', 3}, {'$gen_cast', 3}]],
    sonde_test:stop(Pid).

sample_is_the_oldest(_Config) ->
    Pid = sonde_test:hold(fun() -> none end),
    _ = [Pid ! M || M <- [{old, 1}, {old, [2]}, young, young, young]],
    ok = sonde_test:settle(Pid),
    #{messages := 5, examined := 2, bytes := 64,
      shapes := [#{shape := {old, 2}, messages := 2, bytes := 64}]} =
        sonde_mailbox:mailbox(Pid, 10, #{sample => 2}),
    #{messages := 5, examined := 0, bytes := 0, shapes := []} =
        sonde_mailbox:mailbox(Pid, 10, #{sample => 0}),
    sonde_test:stop(Pid).

%% Runs on the portable side only.
no_sample_portably(_Config) ->
    Pid = sonde_test:hold(fun() -> none end),
    _ = [Pid ! young || _ <- lists:seq(1, 5)],
    _ = [{error, {native_off, disabled}} = sonde_mailbox:mailbox(Pid, 10, #{sample => Sample})
         || Sample <- [0, 2, 4]],
    #{messages := 5, examined := 5} = sonde_mailbox:mailbox(Pid, 10, #{sample => 5}),
    sonde_test:stop(Pid).

more_shapes_than_there_is_room(_Config) ->
    Pid = sonde_test:hold(fun() -> none end),
    _ = [Pid ! erlang:make_tuple(Arity, x) || Arity <- lists:seq(1, 5000)],
    ok = sonde_test:settle(Pid),
    #{messages := 5000, shapes := Shapes} = sonde_mailbox:mailbox(Pid, 10000, #{}),
    5000 = lists:sum([N || #{messages := N} <- Shapes]),
    [#{shape := other, messages := Others} | Named] = Shapes,
    true = length(Named) + Others =:= 5000 andalso length(Named) >= 4095,
    %% the first ones have a row of their own
    [] = lists:seq(1, length(Named)) -- [Arity || #{shape := {x, Arity}} <- Named],
    sonde_test:stop(Pid).

%% A receive that waits for an answer leaves a marker in the queue.
markers_are_no_messages(_Config) ->
    Silent = sonde_test:hold(fun() -> none end),
    Pid = spawn(fun() ->
                        self() ! first,
                        Ref = monitor(process, Silent),
                        receive {Ref, never} -> ok;
                                {'DOWN', Ref, process, _, _} -> ok
                        end,
                        sonde_test:park(none)
                end),
    _ = [Pid ! {tick, I} || I <- lists:seq(1, 10)],
    ok = sonde_test:settle(Pid),
    #{messages := 11} = sonde_mailbox:mailbox(Pid, 10, #{}),
    sonde_test:stop([Pid, Silent]).

own_mailbox(_Config) ->
    self() ! {own, 1},
    #{messages := 1, shapes := [#{shape := {own, 2}}]} = sonde_mailbox:mailbox(self(), 1, #{}),
    {messages, [{own, 1}]} = process_info(self(), messages),
    receive {own, 1} -> ok end.

a_million_messages(_Config) ->
    _ = [begin
             Pid = sonde_test:hold(fun() -> none end, Queue),
             _ = [Pid ! {number, I} || I <- lists:seq(1, 1000000)],
             ok = sonde_test:settle(Pid),
             Answer = sonde_mailbox:mailbox(Pid, 1, #{}),
             ok = sonde_test:pick(
                    fun() ->
                            #{messages := 1000000, examined := 100000, bytes := 2400000} = Answer,
                            ok
                    end,
                    fun() -> {error, {native_off, disabled}} = Answer, ok end),
             All = #{sample => 1000000, timeout => 120000},
             #{examined := 1000000, bytes := 24000000,
               shapes := [#{shape := {number, 2}, messages := 1000000}]} =
                 sonde_mailbox:mailbox(Pid, 1, All),
             sonde_test:stop(Pid)
         end || Queue <- queues()].

told_how_long(_Config) ->
    Pid = sonde_test:hold(fun() -> none end),
    Pid ! {a, message},
    ok = sonde_test:settle(Pid),
    #{messages := 1, bytes := 24, suspended_ms := Ms} = sonde:mailbox(Pid, 1, #{suspend => true}),
    true = is_integer(Ms) andalso Ms >= 0,
    ok = sonde_test:until(resumed, fun() -> process_info(Pid, status) =:= {status, waiting} end),
    [] = sonde_test:mailbox(),
    sonde_test:stop(Pid).

%% A flooded process changes with each message, but its earlier messages stay.
flooded_and_suspended(_Config) ->
    Pid = sonde_test:hold(fun() -> none end),
    _ = [Pid ! {number, I} || I <- lists:seq(1, 10000)],
    Flood = spawn_link(fun() -> flood(Pid, 500000) end),
    ok = sonde_test:until(flooded, fun() -> process_info(Pid, message_queue_len)
                                                > {message_queue_len, 10000} end),
    Opts = #{suspend => true, sample => sonde_test:pick(1000, 1000000), timeout => 120000},
    #{messages := All, examined := Examined, bytes := Bytes, shapes := Shapes, suspended_ms := _} =
        sonde_mailbox:mailbox(Pid, 2, Opts),
    Counts = [{Shape, N} || #{shape := Shape, messages := N} <- Shapes],
    Examined = lists:sum([N || {_, N} <- Counts]),
    Bytes = 24 * Examined,
    {true, true} = {All > 10000, Examined =< All},
    ok = sonde_test:pick(fun() -> [{{number, 2}, 1000}] = Counts, ok end,
                         fun() -> {_, 10000} = lists:keyfind({number, 2}, 1, Counts), ok end),
    unlink(Flood),
    sonde_test:stop([Flood, Pid]).

flood(_Pid, 0) -> ok;
flood(Pid, N) ->
    Pid ! {flood, N},
    erlang:yield(),
    flood(Pid, N - 1).

%% Fragments of received messages stay until a collection; a message to oneself may lie in them.
received_and_kept(_Config) ->
    Me = self(),
    Pid = spawn_opt(fun() ->
                            Kept = [receive {keep, Term} -> Term end || _ <- lists:seq(1, 20)],
                            self() ! {again, Kept},
                            Me ! {kept, self()},
                            sonde_test:park(Kept)
                    end, [{message_queue_data, off_heap}]),
    Terms = [lists:seq(1, I) || I <- lists:seq(1, 20)],
    _ = [Pid ! {keep, Term} || Term <- Terms],
    receive {kept, Pid} -> ok end,
    ok = sonde_test:settle(Pid),
    Bytes = 8 * erts_debug:flat_size({again, Terms}),
    #{messages := 1, bytes := Bytes} = sonde_mailbox:mailbox(Pid, 1, #{}),
    sonde_test:stop(Pid).

limits(_Config) ->
    Pid = sonde_test:hold(fun() -> none end),
    Pid ! lists:seq(1, 10000),
    ok = sonde_test:settle(Pid),
    {error, {heap_too_large, Words, 1000}} = sonde_mailbox:mailbox(Pid, 1, #{max_words => 1000}),
    true = Words > 1000,
    Huge = 1 bsl 64,
    #{messages := 1, bytes := 160000} =
        sonde_mailbox:mailbox(Pid, Huge, #{max_words => Huge, sample => Huge, timeout => Huge}),
    ok = sonde_test:until(answered_in_one_slice, fun() ->
        case sonde_mailbox:mailbox(Pid, 1, #{timeout => 0}) of
            #{messages := 1} -> true;
            {error, timeout} -> false
        end
    end),
    sonde_test:stop(Pid).

content_can_be_forbidden(_Config) ->
    sonde_peer_helper:with(shipped, fun(Peer) ->
        ok = sonde_peer_helper:call(Peer, ?MODULE, forbidden_there, [])
    end).

forbidden_there() ->
    #{messages := 0} = sonde_mailbox:mailbox(self(), 1, #{}),
    ok = application:set_env(sonde, allow_content, false),
    {error, content_forbidden} = sonde_mailbox:mailbox(self(), 1, #{}),
    badarg = sonde_test:raised(fun() -> sonde_mailbox:mailbox(self(), a, #{}) end),
    ok.

who_is_not_there(_Config) ->
    {Pid, Mon} = spawn_monitor(fun() -> ok end),
    receive {'DOWN', Mon, process, Pid, _} -> ok end,
    undefined = sonde_mailbox:mailbox(Pid, 1, #{}).

bad_arguments(_Config) ->
    Remote = sonde_terms_helper:value(foreign_pid, 1),
    Bad = [[Remote, 1, #{}], [a, 1, #{}], [self(), -1, #{}], [self(), 1.0, #{}], [self(), 1, []],
           [self(), 1, #{sample => -1}], [self(), 1, #{samples => 1}],
           [self(), 1, #{suspend => 1}]],
    [] = [Args || Args <- Bad,
                  sonde_test:raised(fun() -> apply(sonde_mailbox, mailbox, Args) end) =/= badarg].
