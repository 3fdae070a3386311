%% @private
%% Writes the content of a dump, the heap of a process as a V8 heap snapshot, piece by piece. C
%% writes the numbers; this module writes the strings, which come last.
-module(sonde_v8_writer).

-export([open/2]).

-define(TRIES, 50).
-define(PAUSE_MS, 2).
-define(MOST, (1 bsl 60)).    % more than there can be

%% @doc Returns a source of the dump of this process, in pieces of at most about 64 kB, each of
%% which takes some milliseconds. Before the first piece, a process that ran meanwhile is read
%% again; after it, the result is `{error, busy}'. With `suspend' the process stays suspended until
%% the end of the dump or of the caller.
%%
%% `Opts' are all options of a look, `values' and `max_nodes'.
-spec open(pid(), #{atom() => term()}) -> {ok, sonde_private_file:next()} | sonde_private_file:no().
open(Pid, Opts) when is_pid(Pid), node(Pid) =:= node() ->
    case sonde_vm:side() of
        native ->
            case maps:get(values, Opts) andalso not sonde_content:allowed() of
                true -> {error, content_forbidden};
                false -> start(Pid, Opts)
            end;
        {portable, Why} -> {error, {native_off, Why}}
    end.

%% The state between calls is in the dictionary of the calling process.
start(Pid, #{timeout := Timeout, progress := Progress} = Opts) ->
    Until = erlang:monotonic_time(millisecond) + Timeout,
    case hold(Pid, Until, Opts) of
        true ->
            Key = {?MODULE, make_ref()},
            _ = put(Key, Opts#{instance => sonde_retry:instance(), pid => Pid, until => Until,
                                tries => ?TRIES, look => none,
                               painter => sonde_progress:start(Progress),
                               content => #{}, written => false, strings => none}),
            {ok, fun() -> next(Key) end};
        No ->
            No
    end.

hold(Pid, Until, #{suspend := true}) -> sonde_look:hold(Pid, Until);
hold(_, _, _) -> true.

release(#{suspend := true, pid := Pid}) -> sonde_look:release(Pid);
release(_) -> true.

next(Key) ->
    #{until := Until, painter := Painter} = State = get(Key),
    case tried(erlang:monotonic_time(millisecond) >= Until, State) of
        {data, Data, New} ->
            _ = put(Key, New),
            {data, Data};
        End ->
            _ = erase(Key),
            ok = forget(State),
            _ = release(State),
            ok = sonde_progress:stop(Painter),
            End
    end.

%% If another build was loaded meanwhile, the look does not belong to it.
tried(Late, #{instance := Instance} = State) ->
    try step(Late, State)
    catch
        throw:{sonde_look, Withheld} -> no(Withheld, State);
        error:badarg:Stack ->
            case sonde_retry:instance() of
                Instance -> erlang:raise(error, badarg, Stack);
                Other -> again(State#{instance := Other, look := none})
            end
    end.

again(#{written := true}) ->
    {error, {native_off, reloaded}};
again(State) ->
    case sonde_vm:side() of
        native -> {data, [], State};
        {portable, Why} -> {error, {native_off, Why}}
    end.

step(true, _State) ->
    {error, timeout};
step(false, #{look := none, pid := Pid, max_words := Words, max_nodes := Nodes} = State) ->
    try sonde_nif:look_new(snapshot, Pid, want(State), min(Words, ?MOST), min(Nodes, ?MOST),
                           erlang:system_info(atom_count)) of
        Look when is_reference(Look) ->
            content(sonde_nif:look_content(Look), State#{look := Look});
        Why -> no(Why, State)
    catch
        error:no_memory -> no(no_memory, State)
    end;
step(false, #{look := Look, strings := {From, Nodes, Edges}, content := Content} = State) ->
    case sonde_look:given(sonde_nif:look_names(Look, From)) of
        [] -> {data, "]}\n", State#{strings := {done, Content#{nodes => Nodes, edges => Edges}}}};
        Names -> {data, strings(Names), State#{strings := {From + length(Names), Nodes, Edges}}}
    end;
step(false, #{strings := {done, _} = Done}) ->
    Done;
step(false, #{look := Look} = State) ->
    case sonde_nif:look_step(Look) of
        more -> moving(Look, State);
        ask -> text(sonde_nif:look_text(Look), State);
        done -> last(sonde_nif:look_text(Look), State);
        too_large -> too_large(sonde_nif:look_progress(Look), State);
        Why -> no(Why, State)
    end.

moving(Look, State) ->
    ok = sonde_look:report(Look, State),
    {data, [], State}.

want(#{values := Values}) ->
    [content || sonde_content:allowed()] ++ [values || Values].

%% Content that was requested and is withheld is an error; otherwise its absence is only reported.
content(true, State) -> {data, [], State};
content(forbidden, #{values := true}) -> {error, content_forbidden};
content(sensitive, #{values := true}) -> {error, content_sensitive};
content(forbidden, State) -> {data, [], State};
content(sensitive, State) -> {data, [], State#{content := #{content => sensitive}}}.

forget(#{look := none}) -> ok;
forget(#{look := Look}) ->
    try sonde_look:finish(Look)
    catch error:badarg -> ok % a look of another build: freed when it is collected
    end.

too_large({_, Total}, #{max_words := Limit}) ->
    {error, {heap_too_large, Total, Limit}}.

no(gone, _) -> undefined;
no(no_memory, _) -> {error, no_memory};
no(no_reader, _) -> {error, {native_off, {unsupported, no_reader}}};
no(_, #{written := true}) -> {error, busy};
no(_, #{tries := 1}) -> {error, busy};
no(_, #{tries := Tries} = State) ->
    ok = forget(State),
    timer:sleep(?PAUSE_MS),
    {data, [], State#{look := none, tries := Tries - 1}}.

%% ---- pieces

text({Text, Titled, _, _}, State) ->
    {Fixed, New} = fixed(Titled =/= [], State),
    {data, [Text, Fixed | titles(Titled)], New#{written := true}};
text(Why, State) ->
    no(Why, State).

last({Text, Titled, Nodes, Edges}, State) ->
    {Fixed, #{fixed := N} = New} = fixed(true, State),
    {data, [Text, Fixed | titles(Titled)], New#{strings := {N, Nodes, Edges}, written := true}};
last(Why, State) ->
    no(Why, State).

%% The fixed strings come before all others.
fixed(true, #{look := Look} = State) when not is_map_key(fixed, State) ->
    [First | Names] = Fixed = [Name || Name <- sonde_look:given(sonde_nif:look_names(Look, 0)),
                                is_binary(Name)],
    {[string(First) | strings(Names)], State#{fixed => length(Fixed)}};
fixed(_, State) ->
    {[], State}.

titles(Titled) ->
    strings([case Tokens of
                 [] -> spell(Name);
                 _ -> [spell(Name), ": ", sonde_heap_top:text(Tokens)]
             end || {Name, Tokens} <- Titled]).

strings(Names) ->
    [[",\n", string(Name)] || Name <- Names].

string(Name) ->
    sonde_json:string(unicode:characters_to_list(spell(Name))).

%% ---- names

spell({tuple, Arity, undefined}) -> ["tuple/", integer_to_list(Arity)];
spell({tuple, Arity, Tag}) -> ["{", atom(Tag), ", ...}/", integer_to_list(Arity)];
spell({'fun', _, _, _} = Kind) -> function(sonde_heap_map:kind(Kind));
spell({key, Atom}) -> atom(Atom);
spell({entry, {atom, _} = Key}) -> ["{key,", atom(Key), $}];
spell({entry, Key}) -> ["{key,", sonde_names:readable(io_lib:format("~0tp", [Key])), $}];
spell({number, N}) -> integer_to_list(N);
spell({folded, Things, Bytes}) -> io_lib:format("folded: ~b things, ~b bytes", [Things, Bytes]);
spell(Text) -> Text.

function({'fun', Module, Name, Arity}) ->
    ["fun ", sonde_names:call({Module, Name, Arity}, true)].

%% Of another OS process it is a text.
atom({atom, Text}) -> sonde_names:atom(Text, true);
atom(Atom) -> sonde_names:atom(Atom, true).
