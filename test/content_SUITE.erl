%% Content is only shown to those who may see it: of a sensitive process, no call returns anything
%% but numbers, and once the node's owner has forbidden content, no call returns any. Tested through
%% the calls that people use, and through the library's own functions, as any code on the node can
%% call them.
-module(content_SUITE).

-compile([export_all, nowarn_export_all]).

-import(sonde_test, [settle/1, stop/1, until/2]).

-define(KINDS, [mark, account, top, snapshot, flat, mailbox, slices]).
%% Every option that asks for content or for names.
-define(WANTS, #{mark => [histogram, visible], top => [content], snapshot => [content, values],
                 flat => [stack, registers, dictionary, messages]}).
-define(CARD, 4111111111111111).

suite() -> [{timetrap, {minutes, 2}}].

all() ->
    [calls_show_nothing_of_a_sensitive_process, raw_calls_show_nothing_of_a_sensitive_process,
     tracing_hides_nothing, sensitive_and_traced, sensitive_caller_sees_numbers,
     not_sensitive_any_more, empty_mailbox_withholds_nothing, sensitive_between_slices,
     sensitive_before_the_answer_is_taken, gone_before_the_answer_is_taken,
     sensitive_while_a_reader_is_held, sensitive_while_a_dump_is_written,
     forbidden_for_good, forbidden_for_raw_calls, forbidden_before_the_answer_is_taken,
     forbidden_for_what_is_loaded_again, forbidden_on_the_command_line,
     forbidden_before_the_application_is_loaded, portable_mailbox_of_a_sensitive_process].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

%% ---- a process that holds secrets in every part

%% Strings that give the content away. An answer has them for no other reason, this module's name
%% included, and no number in a dump is one of them by chance.
secrets() ->
    ["secret_", integer_to_list(?CARD), "content_SUITE", "3141592653"].

%% No literals: these are on no heap.
copied(Term) -> binary_to_term(term_to_binary(Term)).

build() ->
    _ = [put(copied(Key), copied(Value))
         || {Key, Value} <- [{secret_key, {card, 1, ?CARD}}, {{secret_compound, 1}, lists:seq(1, 50)},
                             {3141592653, {secret_small, lists:seq(1, 20)}},
                             {"secret_text", [{secret_text}]},
                             {card, [{card, I, ?CARD + 16 * I} || I <- lists:seq(0, 30)]}]],
    Small = copied(#{secret_map_key => [{secret_in_map, 1}], 3141592653 => [{secret_in_map, 2}]}),
    Large = maps:from_list([{{secret_pair, I}, {secret_value, [I]}} || I <- lists:seq(1, 50)]
                           ++ [{secret_large, [secret_head]}]),
    {secret_record, Small, Large, fun() -> {secret_env, Small} end, fun ?MODULE:build/0,
     [secret_atom, ?CARD, 1.5]}.

%% Keeps what Fun returns, too.
holder(Fun) ->
    Pid = sonde_test:hold(fun() -> Fun(), build() end),
    _ = [Pid ! Message
         || Message <- [secret_message, {secret_tag, ?CARD}, {secret_tag, <<"secret_bytes">>},
                        [secret_list], #{secret_map_key => 1}]],
    ok = settle(Pid),
    Pid.

sensitive() -> holder(fun() -> process_flag(sensitive, true) end).
plain() -> holder(fun() -> ok end).

%% The secrets that appear in the text of an answer or of a file.
shown(Answer) ->
    Text = unicode:characters_to_list(io_lib:format("~0tp", [Answer])),
    [Secret || Secret <- secrets(), string:find(Text, Secret) =/= nomatch].

answers(Pid, Config) ->
    [{heap, sonde:heap(Pid)}, {heap_top, sonde:heap_top(Pid, 1000)},
     {mailbox, sonde:mailbox(Pid, 100)}, {dump, dumped(Pid, Config, #{})}].

dumped(Pid, Config, Opts) ->
    File = filename:join(proplists:get_value(priv_dir, Config), "content.heapsnapshot"),
    case sonde_heap:dump(Pid, File, Opts#{force => true}) of
        {ok, Written} ->
            {ok, Text} = file:read_file(File),
            {maps:with([content], Written), binary_to_list(Text)};
        No ->
            No
    end.

%% ---- sensitive

calls_show_nothing_of_a_sensitive_process(Config) ->
    Pid = sensitive(),
    Answers = answers(Pid, Config),
    [] = [{Call, shown(Answer), Answer} || {Call, Answer} <- Answers, shown(Answer) =/= []],
    %% The numbers are there, and the reason why nothing else is.
    #{content := sensitive, histogram := [_ | _] = Bars, reachable := Reachable}
        = proplists:get_value(heap, Answers),
    true = Reachable > 1000,
    [_ | _] = Funs = [Kind || {Kind, _, _} <- Bars, is_tuple(Kind), element(1, Kind) =:= 'fun'],
    [] = [Kind || {'fun', Module, Name, _} = Kind <- Funs, {Module, Name} =/= {undefined, undefined}],
    [sensitive] = lists:usort([P || #{preview := P} <- proplists:get_value(heap_top, Answers)]),
    #{messages := 5, examined := 5, bytes := Bytes, shapes := [], content := sensitive}
        = proplists:get_value(mailbox, Answers),
    true = Bytes > 0,
    {#{content := sensitive}, [_ | _]} = proplists:get_value(dump, Answers),
    {error, content_sensitive} = dumped(Pid, Config, #{values => true}),
    stop(Pid),
    %% The same for a process that is not sensitive.
    Plain = plain(),
    [] = [{Call, Answer} || {Call, Answer} <- answers(Plain, Config), shown(Answer) =:= []],
    {Written, Values} = dumped(Plain, Config, #{values => true}),
    {true, #{}} = {lists:member(integer_to_list(?CARD), shown(Values)), Written},
    #{messages := 5, bytes := Bytes} = sonde:mailbox(Plain, 1),
    #{reachable := Reachable} = Heap = sonde:heap(Plain),
    false = is_map_key(content, Heap),
    stop(Plain).

%% Called as a stranger would, with every option that the functions take.
raw_calls_show_nothing_of_a_sensitive_process(_Config) ->
    #{status := active} = sonde:native(),
    Pid = sensitive(),
    Said = [{Kind, raw(Kind, Pid)} || Kind <- ?KINDS],
    [] = [{Kind, shown(Answers), Answers} || {Kind, Answers} <- Said, shown(Answers) =/= []],
    [] = [{Kind, Pid} || {Kind, Answers} <- Said, mentions(Pid, Answers) orelse mentions(self(), Answers)],
    [sensitive] = lists:usort([Content || {_, [Content | _]} <- Said]),
    stop(Pid),
    Plain = plain(),
    [mark, account, top, snapshot, mailbox]
        = [Kind || Kind <- ?KINDS, shown(raw(Kind, Plain)) =/= []],
    stop(Plain).

%% Every result that one look can return, or none.
raw(Kind, Pid) ->
    Look = new(Kind, Pid),
    Texts = finish(Look),
    Rest = [try F(Look) catch error:badarg -> none end
            || F <- [fun sonde_nif:look_heap/1, fun sonde_nif:look_top_info/1,
                     fun sonde_nif:look_flat/1, fun sonde_nif:look_mailbox/1,
                     fun sonde_nif:look_progress/1,
                     fun(L) -> sonde_nif:look_top(L, 0) end,
                     fun(L) -> [sonde_nif:look_top(L, I) || I <- lists:seq(0, 200, 4)] end,
                     fun(L) -> [sonde_nif:look_names(L, I) || I <- lists:seq(0, 900, 300)] end,
                     fun(L) -> [sonde_nif:look_shapes(L, I) || I <- lists:seq(0, 8000, 1000)] end,
                     fun(L) -> sonde_nif:look_refs(L, 0) end,
                     fun(L) -> sonde_nif:look_pinned(L, 0, 1000) end,
                     fun(L) -> sonde_nif:look_slices(L, 0, 1000) end]],
    Content = sonde_nif:look_content(Look),
    ok = sonde_look:finish(Look),
    [Content | Texts ++ Rest].

new(Kind, Pid) ->
    Rows = 1000,
    new(Kind, Pid, Rows, 10).

new(Kind, Pid, Rows, Tries) ->
    Wants = maps:get(Kind, ?WANTS, []),
    case sonde_nif:look_new(Kind, Pid, Wants, 1 bsl 40, Rows, erlang:system_info(atom_count)) of
        Look when is_reference(Look) -> Look;
        _ when Tries > 0 -> timer:sleep(5), new(Kind, Pid, Rows, Tries - 1)
    end.

%% The texts of a snapshot, piece by piece; other looks have none.
finish(Look) ->
    case sonde_nif:look_step(Look) of
        more -> finish(Look);
        ask -> [sonde_nif:look_text(Look) | finish(Look)];
        done -> try [sonde_nif:look_text(Look)] catch error:badarg -> [] end;
        Why -> error({look, Why})
    end.

mentions(Pid, Pid) -> true;
mentions(Pid, [H | T]) -> mentions(Pid, H) orelse mentions(Pid, T);
mentions(Pid, T) when is_tuple(T) -> mentions(Pid, tuple_to_list(T));
mentions(_, _) -> false.

%% Tracing sets other bits of the same word.
tracing_hides_nothing(Config) ->
    Pid = plain(),
    traced(Pid, fun() ->
                        [] = [{Call, Answer} || {Call, Answer} <- answers(Pid, Config),
                                                shown(Answer) =:= []],
                        true = [] =/= [P || #{preview := P} <- sonde:heap_top(Pid, 1000),
                                            is_binary(P), string:find(P, "411111") =/= nomatch]
                end),
    stop(Pid).

%% Whichever was set first.
sensitive_and_traced(Config) ->
    Before = holder(fun() ->
                            Parent = self(),
                            tracer(fun() -> erlang:trace(Parent, true, [call, procs]) end),
                            process_flag(sensitive, true)
                    end),
    After = sensitive(),
    traced(After, fun() -> show_nothing([Before, After], Config) end),
    show_nothing([Before, After], Config),
    stop([Before, After]).

show_nothing(Pids, Config) ->
    [] = [{Call, shown(Answer)} || Pid <- Pids, {Call, Answer} <- answers(Pid, Config),
                                   shown(Answer) =/= []].

traced(Pid, Fun) ->
    Tracer = tracer(fun() -> erlang:trace(Pid, true, [send, 'receive', procs, call]) end),
    try Fun() after stop(Tracer) end.

%% Keeps the messages that it is sent.
tracer(Trace) ->
    Parent = self(),
    Tracer = spawn(fun() -> Trace(), Parent ! {traces, self()}, timer:sleep(infinity) end),
    receive {traces, Tracer} -> Tracer end.

sensitive_caller_sees_numbers(Config) ->
    {Pid, Ref} = spawn_monitor(fun() ->
                                       Kept = build(),
                                       _ = process_flag(sensitive, true),
                                       self() ! {secret_tag, 1},
                                       Answers = answers(self(), Config),
                                       [] = [{Call, shown(Answer)}
                                             || {Call, Answer} <- Answers, shown(Answer) =/= []],
                                       exit({ok, tuple_size(Kept)})
                               end),
    receive {'DOWN', Ref, process, Pid, {ok, 6}} -> ok;
            {'DOWN', Ref, process, Pid, Why} -> ct:fail(Why)
    end.

%% Only the process itself can clear the flag.
not_sensitive_any_more(_Config) ->
    Pid = spawn(fun() -> _ = process_flag(sensitive, true), flags(copied({secret_tag, 1})) end),
    ok = settle(Pid),
    sensitive = preview(Pid),
    ok = flag(Pid, false),
    true = is_binary(preview(Pid)),
    ok = flag(Pid, true),
    sensitive = preview(Pid),
    stop(Pid).

preview(Pid) ->
    [#{preview := Preview} | _] = sonde:heap_top(Pid, 10),
    Preview.

flags(Kept) ->
    receive
        {flag, Value, From} ->
            _ = process_flag(sensitive, Value),
            From ! {flagged, self()},
            flags(Kept)
    end.

flag(Pid, Value) ->
    Pid ! {flag, Value, self()},
    receive {flagged, Pid} -> settle(Pid) end.

empty_mailbox_withholds_nothing(_Config) ->
    Pid = sonde_test:hold(fun() -> process_flag(sensitive, true) end),
    #{messages := 0, shapes := []} = Mailbox = sonde:mailbox(Pid, 1),
    false = is_map_key(content, Mailbox),
    stop(Pid).

portable_mailbox_of_a_sensitive_process(_Config) ->
    sonde_peer_helper:with(shipped, fun(Peer) ->
        ok = sonde_peer_helper:call(Peer, ?MODULE, portable_there, [])
    end).

portable_there() ->
    #{status := {off, disabled}} = sonde:native(off),
    Pid = sensitive(),
    {error, {native_off, disabled}} = sonde:mailbox(Pid, 10),
    stop(Pid),
    Plain = plain(),
    #{messages := 5, shapes := [_ | _]} = sonde:mailbox(Plain, 10),
    stop(Plain).

%% ---- made sensitive while it is read

%% Sets its own flag when asked, and holds enough for many slices.
turns(Bytes) ->
    Pid = spawn(fun() -> flags({secret_record, [{secret_tag, I} || I <- lists:seq(1, Bytes div 40)]})
                end),
    ok = settle(Pid),
    Pid.

sensitive_between_slices(_Config) ->
    _ = [begin
             Pid = turns(8000000),
             Look = new(Kind, Pid),
             more = sonde_nif:look_step(Look),
             ok = flag(Pid, true),
             torn = sonde_nif:look_step(Look),
             [] = shown([try F() catch error:badarg -> none end
                         || F <- [fun() -> sonde_nif:look_top(Look, 0) end,
                                  fun() -> sonde_nif:look_text(Look) end,
                                  fun() -> sonde_nif:look_names(Look, 0) end]]),
             ok = sonde_look:finish(Look),
             stop(Pid)
         end || Kind <- [top, snapshot]],
    ok.

answers_later() ->
    [{top, fun(Look) -> sonde_nif:look_top(Look, 0) end},
     {mailbox, fun(Look) -> sonde_nif:look_shapes(Look, 0) end},
     {account, fun sonde_nif:look_heap/1},
     {snapshot, fun(Look) -> sonde_nif:look_names(Look, 0) end}].

%% What was copied while it was allowed is not returned later.
sensitive_before_the_answer_is_taken(_Config) ->
    taken_after(fun(Pid) -> ok = flag(Pid, true) end, torn),
    %% A flag that was set and cleared again goes unnoticed here; the stamp notices it in the walk.
    taken_after(fun(Pid) -> ok = flag(Pid, true), ok = flag(Pid, false) end, given).

gone_before_the_answer_is_taken(_Config) ->
    taken_after(fun(Pid) -> stop(Pid), until(gone, fun() -> not is_process_alive(Pid) end) end, gone).

taken_after(Change, Expected) ->
    _ = [begin
             Pid = turns(1000),
             Pid ! {secret_tag, 1},
             ok = settle(Pid),
             Look = new(Kind, Pid),
             _ = finish(Look),
             true = is_given(Take(Look)),
             Change(Pid),
             {Kind, Expected} = {Kind, case Take(Look) of
                                           Atom when is_atom(Atom) -> Atom;
                                           _ -> given
                                       end},
             ok = sonde_look:finish(Look),
             stop(Pid)
         end || {Kind, Take} <- answers_later()],
    ok.

is_given(Answer) -> not is_atom(Answer).

%% A reader that is held at the end of its walk notices the flag; a reader that compares no stamp
%% still returns no content, since the flag is read again.
sensitive_while_a_reader_is_held(_Config) ->
    case sonde_peer_helper:needs_test_build() of
        ok ->
            sonde_peer_helper:with(test, fun(Peer) ->
                ok = sonde_peer_helper:call(Peer, ?MODULE, held_there, [])
            end);
        Skip ->
            Skip
    end.

held_there() ->
    #{status := active} = sonde:native(),
    _ = [{Kind, [torn, none]} = {Kind, held(Kind, Take, 0)} || {Kind, Take} <- answers_later()],
    _ = [{Kind, [done, torn]} = {Kind, held(Kind, Take, 1)}
         || {Kind, Take} <- answers_later(), Kind =/= snapshot],
    ok.

held(Kind, Take, Weakness) ->
    Pid = turns(1000),
    Pid ! {secret_tag, 1},
    ok = settle(Pid),
    ok = sonde_nif:hold_reader(Pid, walked),
    ok = sonde_nif:weaken(Weakness),
    {Reader, Ref} =
        spawn_monitor(fun() ->
                              Look = new(Kind, Pid),
                              Said = stepped(Look),
                              exit([Said, try Take(Look) catch error:badarg -> none end])
                      end),
    ok = until(held, fun sonde_nif:is_reader_held/0),
    ok = flag(Pid, true),
    true = sonde_nif:release_reader(),
    Said = receive {'DOWN', Ref, process, Reader, Answer} -> Answer end,
    ok = sonde_nif:weaken(0),
    stop(Pid),
    Said.

%% On a busy machine, the first slice may not be enough.
stepped(Look) ->
    case sonde_nif:look_step(Look) of
        more -> stepped(Look);
        Said -> Said
    end.

%% No part of the file is left.
sensitive_while_a_dump_is_written(_Config) ->
    Pid = turns(4000000),
    Opts = #{timeout => 30000, progress => false, suspend => false, values => true,
             max_words => 1 bsl 40, max_nodes => 5000000},
    {ok, Next} = sonde_v8_writer:open(Pid, Opts),
    ok = first_piece(Next),
    ok = flag(Pid, true),
    {error, busy} = rest(Next, Next()),
    stop(Pid).

first_piece(Next) ->
    case Next() of
        {data, Data} ->
            case iolist_size(Data) of
                0 -> first_piece(Next);
                _ -> ok
            end
    end.

rest(Next, {data, Data}) ->
    [] = shown(unicode:characters_to_list(Data)),
    rest(Next, Next());
rest(_, End) -> End.

%% ---- forbidden, in nodes of their own

there(Args, F, A) ->
    sonde_peer_helper:with(shipped, Args, fun(Peer) ->
        ok = sonde_peer_helper:call(Peer, ?MODULE, F, A)
    end).

forbidden_for_good(Config) -> there([], forbidden_there, [Config]).

forbidden_there(Config) ->
    Pid = plain(),
    true = sonde_nif:content(true),
    {_, _} = dumped(Pid, Config, #{values => true}),
    true = is_binary(preview(Pid)),
    ok = application:set_env(sonde, allow_content, false),
    ok = gives_no_content(Pid, Config),
    ok = application:set_env(sonde, allow_content, true),
    ok = gives_no_content(Pid, Config),
    ok = application:unset_env(sonde, allow_content),
    ok = gives_no_content(Pid, Config),
    %% Nor if the Erlang side forgets the setting.
    ok = application:unset_env(sonde_vm, forbidden),
    ok = gives_no_content(Pid, Config),
    stop(Pid).

%% Names do not count as content here.
gives_no_content(Pid, Config) ->
    {error, content_forbidden} = sonde:mailbox(Pid, 10),
    {error, content_forbidden} = dumped(Pid, Config, #{values => true}),
    {_, Text} = dumped(Pid, Config, #{}),
    Rows = sonde:heap_top(Pid, 1000),
    [forbidden] = lists:usort([P || #{preview := P} <- Rows]),
    [] = [S || S <- shown({Text, Rows}), S =:= integer_to_list(?CARD) orelse S =:= "3141592653"],
    true = lists:member("secret_", shown(Rows)),
    ok.

forbidden_for_raw_calls(_Config) -> there([], forbidden_raw, []).

forbidden_raw() ->
    #{status := active} = sonde:native(),
    Pid = plain(),
    false = sonde_nif:content(false),
    false = sonde_nif:content(true),
    badarg = sonde_test:raised(fun() -> sonde_nif:content(maybe_so) end),
    _ = [begin
             [forbidden | _] = Said = raw(Kind, Pid),
             [] = [{Kind, S} || S <- shown(Said), S =:= integer_to_list(?CARD) orelse S =:= "3141592653"],
             [] = [Kind || Kind =:= mailbox, shown(Said) =/= []]
         end || Kind <- ?KINDS],
    stop(Pid).

forbidden_before_the_answer_is_taken(_Config) -> there([], forbidden_later, []).

forbidden_later() ->
    #{status := active} = sonde:native(),
    Pid = plain(),
    Looks = [{Take, begin Look = new(Kind, Pid), _ = finish(Look), Look end}
             || {Kind, Take} <- answers_later()],
    [] = [torn || {Take, Look} <- Looks, not is_given(Take(Look))],
    false = sonde_nif:content(false),
    [] = [given || {Take, Look} <- Looks, is_given(Take(Look))],
    stop(Pid).

forbidden_for_what_is_loaded_again(_Config) -> there([], loaded_again, []).

loaded_again() ->
    Pid = plain(),
    true = is_binary(preview(Pid)),
    ok = application:set_env(sonde, allow_content, false),
    forbidden = preview(Pid),
    ok = application:set_env(sonde, allow_content, true),
    _ = [begin
             _ = code:purge(M),
             {module, M} = code:load_file(M)
         end || M <- [sonde_content, sonde_nif, sonde_vm, sonde_nif]],
    forbidden = preview(Pid),
    stop(Pid).

%% The setting applies from the first call on, even if the application was never loaded.
forbidden_on_the_command_line(_Config) ->
    there(["-sonde", "allow_content", "false"], first_call_is_forbidden, []).

first_call_is_forbidden() ->
    undefined = application:get_env(sonde, allow_content),
    Pid = plain(),
    forbidden = preview(Pid),
    {error, content_forbidden} = sonde:mailbox(Pid, 1),
    stop(Pid).

%% Loading the application resets the setting, but content stays forbidden.
forbidden_before_the_application_is_loaded(_Config) -> there([], set_before_it_is_loaded, []).

set_before_it_is_loaded() ->
    ok = application:set_env(sonde, allow_content, false),
    Pid = plain(),
    forbidden = preview(Pid),
    {ok, true} = application:get_env(sonde, allow_content),
    forbidden = preview(Pid),
    stop(Pid).
