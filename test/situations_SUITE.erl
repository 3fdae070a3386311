%% `sonde:diagnosis/0' on nodes in situations from field reports (`sonde_situations_helper'): a
%% healthy situation has no suspect, a leak is named with a kind and a remedy that are right, and a
%% remedy that is followed frees what its suspect promised.
%%
%% SONDE_FIRST_SEED names the first seed; without it, one is drawn and printed. SONDE_SEEDS is the
%% number of mixed nodes.
-module(situations_SUITE).

-define(SEEDS, 2).
-define(MORE, 10).
-define(LEAST, 8388608).      % bytes; a smaller leak need not be named,
-define(PART, 20).            % nor one below this part of the node's memory
-define(FREED, 0.7).          % of what a suspect promised,
-define(TRIES, 200).          % within so many seconds: ten collections may take two minutes on OTP 27

-export([all/0, suite/0, init_per_suite/1, end_per_suite/1]).
-export([each_alone/1, mixed/1, remedies_free_what_they_say/1, healthy_stay_bounded/1]).
-export([collected/1]).

suite() ->
    [{timetrap, {seconds, 900 + 60 * (?MORE + number("SONDE_SEEDS", ?SEEDS))}}].

all() ->
    [mixed, each_alone, remedies_free_what_they_say, healthy_stay_bounded].

init_per_suite(Config) ->
    true = os:putenv("SONDE_TEST_DIR", proplists:get_value(priv_dir, Config)),
    sonde_test:init(Config).

end_per_suite(_Config) -> ok.

%% ---- nodes

%% One node for each situation.
each_alone(_Config) ->
    Seed = first_seed(),
    Results = results([{Seed, [Name]} || {Name, _} <- sonde_situations_helper:names()]),
    verdict("alone", Results, length(Results) div 50).

%% One node for each seed, in several situations at once.
mixed(_Config) ->
    First = first_seed(),
    Number = number("SONDE_SEEDS", ?SEEDS),
    Results = mixed(First, Number),
    case is_any_seed() andalso count(false, Results) > 0 of
        true -> verdict("mixed", Results ++ mixed(First + Number, ?MORE), 1);
        false -> verdict("mixed", Results, Number div 50)
    end.

mixed(First, Number) ->
    results([{Seed, sonde_situations_helper:mix(Seed)} || Seed <- lists:seq(First, First + Number - 1)]).

first_seed() -> number("SONDE_FIRST_SEED", rand:uniform(1000000)).

number(Name, Default) ->
    list_to_integer(os:getenv(Name, integer_to_list(Default))).

is_any_seed() -> os:getenv("SONDE_SEEDS") =:= false.

results(Nodes) -> [once_more(judged(Node), Node) || Node <- Nodes].

%% If SONDE_SEEDS is set, a node is judged only once; elsewhere a machine that is busy for a moment
%% fails no test.
once_more(Result, Node) ->
    case is_wrong(Result) andalso is_any_seed() of
        true -> told(Result), judged(Node);
        false -> Result
    end.

%% Of fifty nodes at most one has a false suspect, and of ten leaks at most one is missed. Two nodes cannot show
%% that: a false suspect there asks for ten more nodes, and a second one fails the test. At the promised rate that
%% happens in fewer than 1 of 100 runs; if one node in three has a false suspect, in every second run.
verdict(What, [#{seed := First} | _] = Results, Allowed) ->
    [Planted, Named, Missed, False] = [count(Key, Results) || Key <- [planted, named, missed, false]],
    ok = sonde_test:figures("situations: ~b nodes ~s from seed ~b on: ~b leaks planted, ~b named, "
                            "~b missed, ~b false suspects",
                            [length(Results), What, First, Planted, Named, Missed, False]),
    lists:foreach(fun told/1, [Result || Result <- Results, is_wrong(Result)]),
    {true, _} = {False =< Allowed, {false_suspects, False}},
    {true, _} = {10 * Missed =< Planted + 9, {missed, Missed}},
    ok.

count(Key, Results) -> length(lists:append([map_get(Key, Result) || Result <- Results])).

is_wrong(#{missed := Missed, false := False}) -> Missed ++ False =/= [].

told(#{seed := Seed, names := Names, missed := Missed, false := False, suspects := Suspects}) ->
    sonde_test:figures("  seed ~b, ~w: missed ~w, false ~0tp, suspects ~0tp",
                       [Seed, Names, Missed, False, Suspects -- False]).

judged({Seed, Names}) ->
    sonde_peer_helper:with(shipped, fun(Peer) -> judge(Peer, Seed, Names) end).

judge(Peer, Seed, Names) ->
    Planted = [start(Peer, Name, Seed) || Name <- Names],
    #{suspects := Suspects} = Report = diagnosis(Peer),
    Leaks = [P || #{kinds := [_ | _]} = P <- Planted, matters(P, Report)],
    Named = [Name || #{name := Name} = P <- Leaks, is_named(P, Suspects)],
    #{seed => Seed, names => Names, planted => Leaks, named => Named,
      missed => [Name || #{name := Name} <- Leaks, can_be_seen(Name)] -- Named,
      false => [short(S) || S <- Suspects, not lists:any(fun(P) -> concerns(S, P) end, Planted),
                            not is_garbage(Peer, S, Planted)],
      suspects => [short(S) || S <- Suspects]}.

%% What a collection frees, or not, says whether a suspect was right. One that states no number is judged
%% by what it holds.
is_garbage(Peer, #{kind := Kind, what := Pid, bytes := Bytes} = Suspect, Planted) ->
    lists:member(Kind, [garbage, passed_on_binaries])
        andalso lists:member(Pid, lists:append([Pids || #{holds_garbage := Pids} <- Planted]))
        andalso sonde_peer_helper:call(Peer, ?MODULE, collected, [Pid])
            >= ?FREED * maps:get(frees, Suspect, Bytes).

%% In the node.
collected(Pid) ->
    Before = held(Pid),
    true = erlang:garbage_collect(Pid),
    Before - held(Pid).

held(Pid) ->
    [{memory, Bytes}, {binary, Binaries}] = process_info(Pid, [memory, binary]),
    Bytes + lists:sum(maps:values(maps:from_list([{Id, Size} || {Id, Size, _} <- Binaries]))).

start(Peer, Name, Seed) ->
    sonde_peer_helper:call(Peer, sonde_situations_helper, start, [Name, Seed]).

diagnosis(Peer) ->
    sonde_peer_helper:call(Peer, sonde, diagnosis, []).

short(#{kind := Kind, what := What, bytes := Bytes, remedy := Remedy, evidence := Evidence} = S) ->
    {Kind, What, proplists:get_value(initial_call, Evidence, unknown), Bytes, Remedy,
     {frees, maps:get(frees, S, unknown)}}.

%% No official call looks into a heap, or at one message.
can_be_seen(Name) ->
    sonde_test:pick(true, not lists:member(Name, [growing_state, subscribed_twice,
                                                  timers_not_cancelled, dictionary_cache,
                                                  late_replies_beside_work,
                                                  pinned_keys_in_state, idle_router, busy_router,
                                                  report_garbage, dropped_index,
                                                  idle_connections,
                                                  circle_of_calls, unanswered_calls])).

matters(#{bytes := none}, _) -> true;
matters(#{bytes := Bytes}, #{memory := #{total := Total}}) ->
    Bytes >= ?LEAST andalso ?PART * Bytes >= Total.

is_named(#{kinds := Kinds, remedies := Remedies} = Planted, Suspects) ->
    lists:any(fun(#{kind := Kind, remedy := Remedy} = Suspect) ->
                      is_of(Suspect, Planted) andalso lists:member(Kind, Kinds)
                          andalso lists:member(Remedy, Remedies)
              end, Suspects).

is_of(#{what := What}, #{whats := Whats}) -> lists:member(What, Whats).

concerns(#{what := node, kind := Kind}, #{kinds := Kinds}) -> lists:member(Kind, Kinds);
concerns(#{what := What} = S, #{accused := Accused} = P) ->
    is_of(S, P) orelse lists:member(What, Accused).

%% ---- remedies

%% On the portable path, no suspect states what its remedy frees.
remedies_free_what_they_say(_Config) ->
    Seed = first_seed(),
    Names = [Name || {Name, leak} <- sonde_situations_helper:names(), is_freed(Name)],
    Freed = lists:append([followed(Name, Seed) || Name <- Names]),
    [] = sonde_test:pick(Names -- [Name || {Name, _, _, _} <- Freed], []),
    _ = [sonde_test:figures("situations: seed ~b, ~w: ~w freed ~.1f MB, its suspect states ~.1f MB",
                            [Seed, Name, Remedy, Bytes / 1.0e6, Said / 1.0e6])
         || {Name, Remedy, Said, Bytes} <- Freed],
    [] = [{Seed, F} || {_, _, Said, Bytes} = F <- Freed, Bytes < ?FREED * Said],
    ok.

is_freed(Name) ->
    lists:member(Name, [pinned_keys_in_state, pinned_keys_in_bounded_table, idle_router,
                        busy_router, report_garbage, dropped_index, idle_connections]).

%% On a busy machine the suspect may be missed once.
followed(Name, Seed) ->
    Once = fun() -> sonde_peer_helper:with(shipped, fun(Peer) -> followed(Peer, Name, Seed) end) end,
    case Once() of
        [] -> sonde_test:pick(Once, []);
        Freed -> Freed
    end.

followed(Peer, Name, Seed) ->
    #{remedies := Remedies} = Planted = start(Peer, Name, Seed),
    #{suspects := Suspects} = diagnosis(Peer),
    case [{Remedy, Bytes} || #{remedy := Remedy, frees := Bytes} = Suspect <- Suspects,
                             is_of(Suspect, Planted), lists:member(Remedy, Remedies)] of
        [{Remedy, Said} | _] ->
            Before = level(Peer),
            ok = sonde_peer_helper:call(Peer, sonde_situations_helper, follow,
                                        [Name, Planted, Remedy]),
            [{Name, Remedy, Said, freed(Peer, Before, Said, ?TRIES)}];
        [] ->
            []
    end.

%% What works collects now and then, on a busy machine later.
freed(Peer, Before, Said, Tries) ->
    case Before - level(Peer) of
        Freed when Freed < ?FREED * Said, Tries > 1 -> freed(Peer, Before, Said, Tries - 1);
        Freed -> Freed
    end.

%% The mean of the node's memory within a second.
level(Peer) ->
    Totals = [begin timer:sleep(50), total(Peer) end || _ <- lists:seq(1, 20)],
    lists:sum(Totals) div length(Totals).

total(Peer) -> sonde_peer_helper:call(Peer, erlang, memory, [total]).

%% ---- the situations themselves

%% All healthy situations on one node: it needs no more memory after a while. On a busy machine they
%% take longer to get there.
healthy_stay_bounded(_Config) ->
    sonde_peer_helper:with(shipped, fun bounded/1).

bounded(Peer) ->
    Seed = first_seed(),
    _ = [start(Peer, Name, Seed) || {Name, healthy} <- sonde_situations_helper:names()],
    {First, Last} = settled(Peer, most(Peer, 15000), 3),
    ok = sonde_test:figures("situations: all healthy ones from seed ~b: at most ~.1f MB, and "
                            "~.1f MB half a minute later", [Seed, First / 1.0e6, Last / 1.0e6]),
    true = Last =< 1.1 * First.

settled(Peer, First, Tries) ->
    [_, Last] = [most(Peer, 15000) || _ <- [1, 2]],
    case Last =< 1.1 * First orelse Tries =:= 1 of
        true -> {First, Last};
        false -> settled(Peer, Last, Tries - 1)
    end.

most(Peer, Ms) ->
    lists:max([begin timer:sleep(100), total(Peer) end || _ <- lists:seq(1, Ms div 100)]).
