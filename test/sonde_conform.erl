%% Conformance: makes the same call on recon's module and on ours. A case is a function of the
%% module under test; its result or error and its output must be the same for both. Intended
%% differences are listed in recon_differences.eterm, with our answer and the reason; a listed
%% difference that does not occur fails too.
-module(sonde_conform).

-export([cases/2, exports/1, outcome/2, differences/0, ours/1]).
-export([shape/1, sorted/1]).

-type call() :: atom().
-type name() :: atom().
-type outcome() :: {returned, term(), Printed :: string()}
                 | {raised, error | exit | throw, term(), Printed :: string()}.
-export_type([outcome/0]).

-define(TIMES, 20). % a node that changes may give two answers to the same question

%% ---- for suites

%% Runs all cases of one of recon's modules. Each exported function must have one. Returns ok, or
%% {skip, Why} if recon's modules are not available.
-spec cases(module(), [{call(), name(), fun((module()) -> term())}]) -> ok | {skip, string()}.
cases(Recon, Cases) ->
    with_recon(fun() ->
        Listed = [{F, N} || {M, F, N, Where, _, _} <- differences(), M =:= Recon, is_here(Where)],
        [] = Listed -- [{F, N} || {F, N, _} <- Cases],
        Untested = lists:usort([F || {F, _} <- exported(Recon)]) -- [F || {F, _, _} <- Cases],
        Bad = [{no_case, F} || F <- Untested]
            ++ lists:append([compare(Recon, Case) || Case <- Cases]),
        _ = [ct:pal("~tp~n", [B]) || B <- Bad],
        [] = [{element(1, B), element(2, B)} || B <- Bad],
        ok
    end).

%% Our module exports whatever recon's does.
-spec exports(module()) -> ok | {skip, string()}.
exports(Recon) ->
    with_recon(fun() -> [] = exported(Recon) -- exported(ours(Recon)), ok end).

with_recon(Fun) ->
    case sonde_test:recon() of
        ok -> Fun();
        Skip -> Skip
    end.

exported(Module) ->
    {module, Module} = code:ensure_loaded(Module),
    Module:module_info(exports) -- [{module_info, 0}, {module_info, 1}].

%% Our module that replaces recon's.
-spec ours(module()) -> module().
ours(recon) -> sonde;
ours(recon_lib) -> sonde_lib;
ours(recon_alloc) -> sonde_alloc;
ours(recon_map) -> sonde_map;
ours(recon_rec) -> sonde_rec;
ours(recon_trace) -> sonde_trace.

compare(Recon, {Function, Name, Case}) ->
    Wanted = [{Ours, Why} || {M, F, N, Where, Ours, Why} <- differences(),
                             M =:= Recon, F =:= Function, N =:= Name, is_here(Where)],
    {Both, Again} = both(Recon, Case, 0),
    _ = [sonde_test:figures("~s:~s, ~0tp: the same as recon's after ~b more questions",
                            [Recon, Function, Name, Again])
         || Again > 0, element(1, Both) =:= same],
    case {Both, Wanted} of
        {{same, _}, []} -> [];
        {{same, Answer}, [_]} -> [{listed_but_equal, {Recon, Function, Name}, Answer}];
        {{Theirs, Ours}, []} -> [{differs, {Recon, Function, Name}, {theirs, Theirs}, {ours, Ours}}];
        {{Theirs, Ours}, [{Pattern, _}]} ->
            [{not_as_listed, {Recon, Function, Name}, {theirs, Theirs}, {ours, Ours}}
             || not matches(Pattern, Ours)]
    end.

%% The sides differ if they do so four times, the last time between two equal answers of recon: the
%% values may change, and cannot be held still here.
both(Recon, Case, Again) ->
    Theirs = outcome(Recon, Case),
    case outcome(ours(Recon), Case) of
        Theirs -> {{same, Theirs}, Again};
        Ours when Again =:= ?TIMES -> {{Theirs, Ours}, Again};
        Ours ->
            case outcome(Recon, Case) of
                Theirs when Again > 2 -> {{Theirs, Ours}, Again};
                _ -> both(Recon, Case, Again + 1)
            end
    end.

%% [{Module, Function, Case, Where, Ours, Why}]: Where is `always' or a list of releases, Ours a
%% pattern of outcome() in which '_' stands for anything.
-spec differences() -> [tuple()].
differences() ->
    File = filename:join([os:getenv("SONDE_ROOT"), "test", "recon_differences.eterm"]),
    {ok, Terms} = file:consult(File),
    _ = [true = is_list(Why) andalso length(Why) > 20 || {_, _, _, _, _, Why} <- Terms],
    Terms.

is_here(always) -> true;
is_here(Releases) -> lists:member(list_to_integer(erlang:system_info(otp_release)), Releases).

matches('_', _) -> true;
matches(P, T) when is_tuple(P), is_tuple(T) -> matches(tuple_to_list(P), tuple_to_list(T));
matches([P | Ps], [T | Ts]) -> matches(P, T) andalso matches(Ps, Ts);
matches(P, T) -> P =:= T.

%% ---- one side: in a new process, whose output is captured

-spec outcome(module(), fun((module()) -> term())) -> outcome().
outcome(Module, Case) ->
    Self = self(),
    {Pid, Ref} = spawn_monitor(fun() ->
        group_leader(spawn_link(fun() -> catcher([]) end), self()),
        Result = try Case(Module) of
                     Value -> {returned, Value}
                 catch
                     Class:Why -> {raised, Class, Why}
                 end,
        Printed = printed(group_leader()),
        group_leader(whereis(init), self()),
        Self ! {self(), erlang:append_element(Result, Printed)}
    end),
    receive
        {Pid, Outcome} -> demonitor(Ref, [flush]), Outcome;
        {'DOWN', Ref, _, _, Why} -> {raised, exit, Why, ""}
    after 60000 ->
        exit(Pid, kill),
        error({hangs, Module})
    end.

printed(Catcher) ->
    Catcher ! {printed, self()},
    receive {Catcher, Text} -> unicode:characters_to_list(Text) end.

catcher(Text) ->
    receive
        {io_request, From, As, Request} ->
            {Reply, More} = io(Request),
            From ! {io_reply, As, Reply},
            catcher([Text | More]);
        {printed, From} ->
            From ! {self(), Text},
            catcher(Text)
    end.

io({put_chars, _, Chars}) -> {ok, unicode:characters_to_list(Chars)};
io({put_chars, _, M, F, A}) -> {ok, unicode:characters_to_list(apply(M, F, A))};
io({requests, Requests}) -> {ok, [Chars || R <- Requests, {_, Chars} <- [io(R)]]};
io(getopts) -> {[{encoding, unicode}], []};
io({get_geometry, _}) -> {{error, enotsup}, []};
io(_) -> {{error, request}, []}.

%% ---- shapes, for answers that are never the same twice

%% Replaces numbers, pids, ports and the like by their type; keeps atoms, text and structure.
-spec shape(term()) -> term().
shape(T) when is_integer(T) -> integer;
shape(T) when is_float(T) -> float;
shape(T) when is_pid(T) -> pid;
shape(T) when is_port(T) -> port;
shape(T) when is_reference(T) -> reference;
shape(T) when is_function(T) -> function;
shape(T) when is_tuple(T) -> list_to_tuple([shape(E) || E <- tuple_to_list(T)]);
shape([]) -> [];
shape([H | T] = L) ->
    case io_lib:printable_unicode_list(L) of
        true -> L;
        false -> [shape(H) | shape(T)]
    end;
shape(T) -> T.

%% For answers whose order does not matter.
-spec sorted(term()) -> term().
sorted(L) when is_list(L) -> lists:sort(L);
sorted(T) -> T.
