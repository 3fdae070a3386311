%% @private
%% Loads sonde temporarily onto a node that does not have it, for as long as a client is attached.
%% A process here sends a beat every few seconds; a process there (`sonde_janitor') loads and later
%% removes two modules: one with all our functions (`sonde_remote_name' has their names in it), and
%% `sonde_nif'. A node that has sonde is used as it is.
-module(sonde_attach).

-export([open/2, open/3, close/1]).
-export([hold/4]).
-export_type([attached/0, reason/0]).

%% How sonde came to be there. `others': another client is attached already. `portable' has the
%% reason: there are libraries, but none for the node's system; it has no folder for the library; or
%% there is no library.
-type how() :: has_it | others | native
             | {portable, {other_system, sonde_bundle:system()} | {no_folder, atom()} | no_library}.
-type attached() :: #{node := node(), how := how(), holder := pid() | none}.
-type opts() :: #{beat_ms => pos_integer(), linger_ms => non_neg_integer()}.
-type reason() :: noconnection | timeout | no_guest | {not_loaded, term()} | {taken, [module()]}
                | term().

-define(LOAD_MS, 60000).      % until everything is there, over a slow line
-define(LEAVE_MS, 60000).
-define(BEAT_MS, 5000).       % nine of them are less than a minute
-define(LINGER_MS, 20000).
-define(RETRIES, 100).
-define(PAUSE_MS, 100).

%% Runs in a process of that node as code of OTP alone, so that none of our modules need be there,
%% and no exit halfway leaves anything behind. The name is a lock against a second client.
-define(BOOT, "
    try register(sonde_attaching, self())
    catch error:badarg -> exit(taken)
    end,
    whereis(sonde_janitor) =:= undefined orelse exit(taken),
    code:is_loaded(Module) =:= false orelse exit(taken),
    code:purge(Module),
    case code:load_binary(Module, File, Object) of
        {module, Module} -> Module:Start(Job);
        {error, Why} -> exit({not_loaded, [{Module, Why}]})
    end.").

%% @doc Makes `sonde_remote_name:on(Node, sonde, Function)' callable there until {@link close/1}, or
%% until the caller ends.
-spec open(node(), sonde_bundle:ours()) -> {ok, attached()} | {error, reason()}.
open(Node, Ours) ->
    open(Node, Ours, #{}).

%% @doc `beat_ms': the time between two beats; after nine missed beats, the node counts us as gone.
%% `linger_ms': how long sonde stays there after the last client left, in case one comes again.
-spec open(node(), sonde_bundle:ours(), opts()) -> {ok, attached()} | {error, reason()}.
open(Node, Ours, Opts) ->
    Given = maps:merge(#{beat_ms => ?BEAT_MS, linger_ms => ?LINGER_MS}, Opts),
    Ref = make_ref(),
    {Holder, Mon} = spawn_monitor(?MODULE, hold, [{self(), Ref}, Node, Ours, Given]),
    receive
        {Ref, Answer} ->
            true = demonitor(Mon, [flush]),
            opened(Answer, Node, Holder);
        {'DOWN', Mon, process, Holder, Why} ->
            {error, Why}
    end.

opened({ok, has_it}, Node, _) -> {ok, #{node => Node, how => has_it, holder => none}};
opened({ok, How}, Node, Holder) -> {ok, #{node => Node, how => How, holder => Holder}};
opened({error, Why}, _, _) -> {error, Why}.

%% @doc When it returns `ok', the node knows that we left. It removes sonde unless another client is
%% still attached, or one comes again within `linger_ms'.
-spec close(attached()) -> ok | {error, timeout | noconnection}.
close(#{holder := none}) ->
    ok;
close(#{holder := Holder}) ->
    Mon = monitor(process, Holder),
    Holder ! close,
    receive
        {'DOWN', Mon, process, Holder, {left, Result}} -> Result;
        {'DOWN', Mon, process, Holder, _} -> {error, noconnection}
    end.

%% ---- the process that holds it

-spec hold({pid(), reference()}, node(), sonde_bundle:ours(), opts()) -> term().
hold({Owner, Ref}, Node, Ours, #{beat_ms := BeatMs} = Opts) ->
    Watch = monitor(process, Owner),
    try enter(Node, maps:merge(Ours, Opts), ?RETRIES) of
        {How, none} ->
            Owner ! {Ref, {ok, How}};
        {How, Janitor, Mon} ->
            Owner ! {Ref, {ok, How}},
            beat(Janitor, Mon, Watch, BeatMs)
    catch
        throw:Why -> Owner ! {Ref, {error, Why}}
    end.

%% Another client may be about to come or to leave: then try again.
enter(_, _, 0) ->
    throw(timeout);
enter(Node, Ours, Tries) ->
    Entered = case sonde_loader:call(Node, erlang, whereis, [sonde_janitor]) of
                  undefined -> bring(Node, Ours);
                  Janitor -> join(Janitor)
              end,
    case Entered of
        again -> timer:sleep(?PAUSE_MS), enter(Node, Ours, Tries - 1);
        _ -> Entered
    end.

join(Janitor) ->
    Mon = monitor(process, Janitor),
    Janitor ! {join, self()},
    receive
        {sonde_janitor, Janitor, joined} -> {others, Janitor, Mon};
        {'DOWN', Mon, process, Janitor, noconnection} -> throw(noconnection);
        {'DOWN', Mon, process, Janitor, _} -> again
    after ?LOAD_MS -> throw(timeout)
    end.

%% A sonde that is there may have been loaded temporarily a moment ago.
bring(Node, Ours) ->
    case sonde_loader:there(Node) =/= none
        andalso sonde_loader:call(Node, erlang, whereis, [sonde_janitor]) of
        undefined -> {has_it, none};
        false -> start(Node, Ours, sonde_loader:system(Node));
        _Janitor -> again
    end.

start(_, #{guest := none}, _) ->
    throw(no_guest);
start(Node, #{modules := Modules, libraries := Libraries, guest := Guest} = How, System) ->
    {Module, Name, Object} = Guest,
    {Module, Start} = sonde_remote_name:guest(sonde_janitor, start),
    Base = "lent-sonde-" ++ binary_to_list(binary:encode_hex(rand:bytes(12))),
    File = filename:join(Base, Name),
    Bindings = [{'Module', Module}, {'Start', Start}, {'Object', Object}, {'File', File},
                {'Job', (maps:with([beat_ms, linger_ms], How))#{
                          client => self(), guest => {Module, File},
                          nif => lists:keyfind(sonde_nif, 1, Modules),
                          libraries => sonde_bundle:fitting(System, Libraries)}}],
    {Boot, Mon} = spawn_opt(Node, erl_eval, exprs, [boot(), Bindings], [monitor]),
    receive
        {'DOWN', Mon, process, Boot, {started, Janitor}} -> ready(Janitor, Libraries, System);
        {'DOWN', Mon, process, Boot, taken} -> again;
        {'DOWN', Mon, process, Boot, Why} -> throw(Why)
    after ?LOAD_MS -> throw(timeout)
    end.

boot() ->
    {ok, Tokens, _} = erl_scan:string(?BOOT),
    {ok, Expressions} = erl_parse:parse_exprs(Tokens),
    Expressions.

ready(Janitor, Libraries, System) ->
    Mon = monitor(process, Janitor),
    receive
        {sonde_janitor, Janitor, {ready, Side}} -> {how(Side, Libraries, System), Janitor, Mon};
        {sonde_janitor, Janitor, {error, Why}} -> throw(Why);
        {'DOWN', Mon, process, Janitor, Why} -> throw(Why)
    after ?LOAD_MS -> throw(timeout)
    end.

how(native, _, _) -> native;
how(portable, [], _) -> {portable, no_library};
how(portable, _, System) -> {portable, {other_system, System}};
how(NoFolder, _, _) -> {portable, NoFolder}.

beat(Janitor, Mon, Watch, BeatMs) ->
    receive
        close -> exit({left, leave(Janitor, Mon)});
        {'DOWN', Watch, process, _, _} -> leave(Janitor, Mon);
        {'DOWN', Mon, process, Janitor, noconnection} -> exit({left, {error, noconnection}});
        {'DOWN', Mon, process, Janitor, _} -> wait_for_close(Watch)
    after BeatMs ->
        Janitor ! {beat, self()},
        beat(Janitor, Mon, Watch, BeatMs)
    end.

leave(Janitor, Mon) ->
    Janitor ! {leave, self()},
    receive
        {sonde_janitor, Janitor, left} -> true = demonitor(Mon, [flush]), ok;
        {'DOWN', Mon, process, Janitor, noconnection} -> {error, noconnection};
        {'DOWN', Mon, process, Janitor, _} -> ok
    after ?LEAVE_MS -> {error, timeout}
    end.

%% Either sonde was loaded there for good meanwhile, or nothing is left to hold.
wait_for_close(Watch) ->
    receive
        close -> exit({left, ok});
        {'DOWN', Watch, process, _, _} -> ok
    end.
