%% sonde is loaded temporarily onto a node that does not have it, and nothing of it is left after
%% the last process that looks at the node has gone, however that happens. Each case must leave the
%% one bare node as it was; if one does not, the next cases get nodes of their own.
-module(attach_SUITE).

-compile([export_all, nowarn_export_all]).

-import(sonde_attach_helper, [attach/3, attach/4, leave/2, from/4, keep/3, is_there/1,
                              modules/1]).

-import(sonde_peer_helper, [call/4]).

-define(NOT_THERE, 'p1@127.0.0.1').

suite() -> [{timetrap, {minutes, 4}}].

all() ->
    [answers_as_at_home, nothing_is_left_after_leaving, can_come_again,
     nothing_is_left_after_the_end_of_who_attached, nothing_is_left_when_its_node_is_killed,
     nothing_is_left_when_nobody_is_heard_of, who_comes_again_soon_finds_it_there,
     first_to_leave_takes_nothing_away,
     two_who_come_at_the_same_time, node_that_has_it_is_used_as_it_is,
     what_was_loaded_anew_meanwhile_stays, brought_for_good_it_stays,
     brought_for_good_while_it_lingers_it_stays,
     other_system_gets_no_library, library_is_chosen_by_the_nodes_system,
     machines_have_the_names_of_the_libraries, no_folder_no_library, module_of_that_name_is_left_alone,
     damaged_module_leaves_nothing, embedded_node, node_that_is_not_there,
     signals_are_handled_as_before,
     leaving_a_large_node_asks_nobody, leaving_a_very_large_node_asks_nobody,
     what_cannot_be_followed_is_refused, visits_leave_one_image, hundred_visits_leave_one_image,
     janitor_is_in_no_row, no_message_reaches_the_caller].

%% Some cases have nodes that answer on the portable path.
init_per_suite(Config0) ->
    Config = sonde_test:init(Config0),
    Dir = folder(nodes, Config),
    {Bare, _} = Nodes = sonde_attach_helper:bare(Dir),
    [{home, sonde_attach_helper:home(Dir)}, {dir, Dir}, {bare, Nodes},
     {before, sonde_attach_helper:traces(Bare, Dir)} | Config].

end_per_suite(Config) ->
    _ = [sonde_attach_helper:stop(Peer) || Key <- [home, bare], {Peer, _} <- [get(Key, Config)]],
    ok.

init_per_testcase(Case, Config) ->
    ok = sonde_attach_helper:kill_keepers(home(Config)),
    try as_before(Config, 10000) of
        ok -> Config
    catch
        error:_ ->
            Dir = folder(Case, Config),
            [{dir, Dir}, {bare, sonde_attach_helper:bare(Dir)}, {is_own, true} | Config]
    end.

end_per_testcase(_Case, Config) ->
    _ = [sonde_attach_helper:stop(bare(Config)) || get(is_own, Config) =:= true],
    ok.

folder(Name, Config) ->
    Dir = filename:join(get(priv_dir, Config), Name),
    ok = file:make_dir(Dir),
    Dir.

get(Key, Config) -> proplists:get_value(Key, Config).

%% ---- one attached process

answers_as_at_home(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    {ok, How} = attach(Home, a, Node),
    How = expected(),
    3 = length(from(Home, Node, proc_count, [memory, 3])),
    [_] = from(Home, Node, proc_window, [reductions, 1, 1]),
    [_] = from(Home, Node, bin_leak, [1]),
    #{status := active} = from(Home, Node, native, []),
    true = is_there(Bare),
    ok = leave(Home, a).

nothing_is_left_after_leaving(Config) ->
    {Home, _, Node} = nodes_of(Config),
    {ok, _} = attach(Home, a, Node),
    _ = from(Home, Node, proc_count, [memory, 3]),
    {ok, []} = file:list_dir(get(dir, Config)),
    ok = leave(Home, a),
    as_before(Config).

can_come_again(Config) ->
    {Home, _, Node} = nodes_of(Config),
    _ = [begin
             {ok, How} = attach(Home, a, Node),
             How = expected(),
             #{status := active} = from(Home, Node, native, []),
             ok = leave(Home, a)
         end || _ <- lists:seq(1, 3)],
    as_before(Config).

%% ---- ends without leaving

nothing_is_left_after_the_end_of_who_attached(Config) ->
    {Home, _, Node} = nodes_of(Config),
    {ok, _} = attach(Home, a, Node),
    ok = call(Home, sonde_attach_helper, kill_keeper, [a]),
    as_before(Config).

nothing_is_left_when_its_node_is_killed(Config) ->
    with_home(Config, fun(Home, Node) ->
        {ok, _} = attach(Home, a, Node),
        %% Also in the middle of a call.
        ok = call(Home, ?MODULE, call_on, [Node]),
        kill_node(Home),
        as_before(Config)
    end).

%% Starts calls that go on over there after their caller has gone.
call_on(Node) ->
    _ = [spawn(fun() -> sonde_attach_helper:ask(Node, proc_window, [memory, 3, 100000]) end)
         || _ <- lists:seq(1, 5)],
    sonde_test:until(called, fun() -> erpc:call(Node, ?MODULE, in_calls, []) >= 5 end).

in_calls() ->
    length([Pid || Pid <- processes(), Pid =/= whereis(sonde_janitor),
                   {_, Stack} <- [process_info(Pid, current_stacktrace)],
                   lists:keymember(sonde_guest, 1, Stack)]).

%% A connection that breaks silently: the home node is stopped and sends nothing any more.
nothing_is_left_when_nobody_is_heard_of(Config) ->
    with_home(Config, fun(Home, Node) ->
        {ok, _} = attach(Home, a, Node, #{beat_ms => 100}),
        Pid = call(Home, os, getpid, []),
        "" = os:cmd("kill -STOP " ++ Pid),
        try as_before(Config)
        after os:cmd("kill -CONT " ++ Pid)
        end
    end).

%% Only after leaving: a connection that breaks leaves nothing for later.
who_comes_again_soon_finds_it_there(Config) ->
    with_home(Config, fun(Home, Node) ->
        Attach = fun(Name) -> attach(Home, Name, Node, #{linger_ms => 3600000}) end,
        {ok, _} = Attach(a),
        ok = leave(Home, a),
        {ok, others} = Attach(b),
        3 = length(from(Home, Node, proc_count, [memory, 3])),
        ok = leave(Home, b),
        {ok, others} = Attach(c),
        kill_node(Home),
        as_before(Config)
    end).

%% ---- several attached processes

first_to_leave_takes_nothing_away(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    with_home(Config, fun(Other, _) ->
        {ok, _} = attach(Home, a, Node),
        {ok, others} = attach(Other, b, Node),
        {ok, others} = attach(Home, c, Node),
        ok = leave(Home, a),
        3 = length(from(Other, Node, proc_count, [memory, 3])),
        ok = leave(Home, c),
        3 = length(from(Other, Node, proc_count, [memory, 3])),
        true = is_there(Bare),
        ok = leave(Other, b),
        as_before(Config)
    end).

two_who_come_at_the_same_time(Config) ->
    {Home, _, Node} = nodes_of(Config),
    Names = [a, b, c, d],
    _ = [begin
             Hows = [element(2, R) || R <- call(Home, ?MODULE, attach_all, [Names, Node])],
             [_] = Hows -- [others || _ <- Names],
             3 = length(from(Home, Node, proc_count, [memory, 3])),
             _ = [ok = leave(Home, Name) || Name <- Names]
         end || _ <- lists:seq(1, 3)],
    as_before(Config).

%% ---- what this visit did not bring

node_that_has_it_is_used_as_it_is(Config) ->
    with_bare(Config, [], fun(Home, Bare, Node) ->
        true = call(Bare, code, add_patha, [sonde_attach_helper:ebin()]),
        {ok, has_it} = attach(Home, a, Node),
        undefined = call(Bare, erlang, whereis, [sonde_janitor]),
        3 = length(from(Home, Node, proc_count, [memory, 3])),
        ok = leave(Home, a),
        {file, File} = call(Bare, code, is_loaded, [sonde]),
        File = filename:join(sonde_attach_helper:ebin(), "sonde.beam"),
        3 = length(call(Bare, sonde, proc_count, [memory, 3]))
    end).

what_was_loaded_anew_meanwhile_stays(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    {ok, _} = attach(Home, a, Node),
    ok = load_theirs(Bare),
    ok = leave(Home, a),
    only_theirs_is_left(Bare).

module_of_that_name_is_left_alone(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    ok = load_theirs(Bare),
    {error, {taken, [sonde_nif]}} = attach(Home, a, Node),
    only_theirs_is_left(Bare).

load_theirs(Bare) ->
    {sonde_nif, Object, _} = code:get_object_code(sonde_nif),
    {module, _} = call(Bare, code, load_binary, [sonde_nif, "theirs", Object]),
    ok.

%% Only the foreign module stays; the test then unloads it.
only_theirs_is_left(Bare) ->
    ok = sonde_test:until(only_theirs, fun() -> modules(Bare) =:= [sonde_nif] end),
    {file, "theirs"} = call(Bare, code, is_loaded, [sonde_nif]),
    ok = sonde_test:until(no_janitor, fun() -> janitor(Bare) =:= undefined end),
    sonde_attach_helper:unload(Bare).

janitor(Bare) ->
    call(Bare, erlang, whereis, [sonde_janitor]).

brought_for_good_it_stays(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    {ok, _} = attach(Home, a, Node),
    bring_for_good(Home, Node),
    ok = leave(Home, a),
    is_there_for_good(Bare).

%% sonde still lingers, since the process that left may come back; once loaded for good, it stays.
brought_for_good_while_it_lingers_it_stays(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    {ok, _} = attach(Home, a, Node, #{linger_ms => 8000}),
    ok = leave(Home, a),
    bring_for_good(Home, Node),
    is_there_for_good(Bare).

bring_for_good(Home, Node) ->
    [{Node, {ok, _}}] = call(Home, sonde, remote_load, [[Node], sonde]).

is_there_for_good(Bare) ->
    ok = sonde_test:until(no_janitor, fun() -> janitor(Bare) =:= undefined end),
    true = is_there(Bare),
    3 = length(call(Bare, sonde, proc_count, [memory, 3])),
    sonde_attach_helper:unload(Bare).

%% ---- other systems

%% All libraries are for another processor or C library, or for a later release.
other_system_gets_no_library(Config) ->
    {Home, _, Node} = nodes_of(Config),
    _ = [begin
             {ok, {portable, {other_system, There}}} =
                 call(Home, ?MODULE, attach_as, [a, Node, Item, Value]),
             There = sonde_bundle:system(),
             #{status := {off, _}} = from(Home, Node, native, []),
             3 = length(from(Home, Node, proc_count, [memory, 3])),
             ok = leave(Home, a),
             as_before(Config)
         end || sonde_attach_helper:has_library(),
                {Item, Value} <- [{machine, "riscv64-linux-gnu"}, {nif, "99.0"}]],
    ok.

%% Libraries for four systems, and nodes that say that they are each of these, or another one: of the
%% libraries, at most the right one is written there.
library_is_chosen_by_the_nodes_system(Config) ->
    _ = [with_bare(Config, [], fun(Home, Bare, Node) ->
             ok = sonde_attach_helper:pretend(Bare, #{system_architecture => Architecture,
                                                      allocator => {C, [2, 36], [], []}}),
             Calls = sonde_attach_helper:traced(Bare, [{file, write_file}], fun() ->
                         {ok, How} = call(Home, ?MODULE, attach_with_all, [a, Node]),
                         self() ! {how, How}
                     end),
             Written = [Bytes || {write_file, [Path, Bytes | _]} <- Calls, filename:extension(Path) =:= ".so"],
             {Architecture, Written, How} =
                 {Architecture, Right, receive {how, Any} -> Any end},
             #{status := {off, {not_loaded, _}}} = from(Home, Node, native, []),
             3 = length(from(Home, Node, proc_count, [memory, 3])),
             ok = leave(Home, a)
         end)
         || {Architecture, C, Right} <- systems(),
            How <- [case Right of
                        [] -> {portable, {other_system, system(Architecture, C)}};
                        [_] -> native
                    end]],
    ok.

systems() ->
    [{"x86_64-pc-linux-gnu", glibc, [<<"x86_64-linux-gnu">>]},
     {"x86_64-alpine-linux-musl", undefined, [<<"x86_64-linux-musl">>]},
     {"aarch64-unknown-linux-gnu", glibc, [<<"aarch64-linux-gnu">>]},
     {"aarch64-linux-musl", undefined, [<<"aarch64-linux-musl">>]},
     {"riscv64-unknown-linux-gnu", glibc, []},
     %% its name and its allocator contradict each other
     {"x86_64-pc-linux-gnu", undefined, []}].

system(Architecture, C) ->
    (sonde_bundle:system())#{machine := sonde_bundle:machine(Architecture, {C}, 8)}.

attach_with_all(Name, Node) ->
    keep(Name, Node, (sonde_bundle:ours())#{libraries := [{#{machine => binary_to_list(M), nif => "2.16"},
                                                           "sonde_nif-" ++ binary_to_list(M) ++ ".so", M}
                                                          || {_, _, [M]} <- systems()]}).

machines_have_the_names_of_the_libraries(_Config) ->
    _ = [{Architecture, Name} = {Architecture, sonde_bundle:machine(Architecture, {C}, 8)}
         || {Architecture, C, [Bytes]} <- systems(), Name <- [binary_to_list(Bytes)]],
    Names = [binary_to_list(Bytes) || {_, _, [Bytes]} <- systems()],
    [] = [A || {A, C, Word} <- [{"x86_64-pc-linux-gnux32", glibc, 4}, {"x86_64-linux-gnu", glibc, 4},
                                {"x86_64-linux-musl", glibc, 8}, {"x86_64-unknown-freebsd13.2", undefined, 8},
                                {"arm64-apple-darwin23", undefined, 8}, {"armv7l-linux-gnueabihf", glibc, 4}],
               lists:member(sonde_bundle:machine(A, {C}, Word), Names)],
    %% the same for a node that is looked at from outside
    Names = [sonde_cli_target:machine(Processor, Loader)
             || {Processor, Loader} <- [{62, <<"/lib64/ld-linux-x86-64.so.2">>}, {62, <<"/lib/ld-musl-x86_64.so.1">>},
                                        {183, <<"/lib/ld-linux-aarch64.so.1">>},
                                        {183, <<"/lib/ld-musl-aarch64.so.1">>}]],
    %% NIF versions are numbers
    Fits = fun(Has, Needs) ->
                   [] =/= sonde_bundle:fitting(#{machine => "m", nif => Has},
                                               [{#{machine => "m", nif => Needs}, "x.so", <<>>}])
           end,
    [true, true, true, false, false] =
        [Fits(Has, Needs) || {Has, Needs} <- [{"2.16", "2.16"}, {"2.18", "2.16"}, {"2.16", "2.9"},
                                              {"2.16", "2.17"}, {"2.9", "2.16"}]].

no_folder_no_library(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    true = call(Bare, os, putenv, ["TMPDIR", "/nowhere/at/all"]),
    try
        {ok, {portable, Why}} = attach(Home, a, Node),
        Why = case sonde_attach_helper:has_library() of
                  true -> {no_folder, enoent};
                  false -> no_library
              end,
        3 = length(from(Home, Node, proc_count, [memory, 3])),
        ok = leave(Home, a),
        as_before(Config)
    after call(Bare, os, putenv, ["TMPDIR", get(dir, Config)])
    end.

damaged_module_leaves_nothing(Config) ->
    {Home, _, Node} = nodes_of(Config),
    _ = [begin
             {error, {not_loaded, [{Module, _}]}} =
                 call(Home, ?MODULE, attach_damaged, [a, Node, Module]),
             as_before(Config)
         end || Module <- [sonde_nif, sonde_guest]],
    ok.

signals_are_handled_as_before(Config) ->
    with_bare(Config, [], fun(Home, Bare, Node) ->
        Caught = fun() -> sonde_attach_helper:caught(Bare) end,
        case Caught() of
            unknown ->
                {skip, "no /proc"};
            Before ->
                _ = [begin
                         {ok, _} = attach(Home, a, Node),
                         3 = length(from(Home, Node, proc_count, [memory, 3])),
                         #{reader := Reader} = from(Home, Node, native, []),
                         true = Reader =/= guarded orelse Caught() =/= Before,
                         ok = leave(Home, a),
                         ok = sonde_test:until({caught, Before},
                                               fun() -> Caught() =:= Before end)
                     end || _ <- [1, 2]],
                ok
        end
    end).

leaving_a_large_node_asks_nobody(Config) -> leaving_asks_nobody(20000, Config).

leaving_a_very_large_node_asks_nobody(Config) -> leaving_asks_nobody(100000, Config).

%% A process that is asked anything uses a few reductions and is switched to. The second visit has
%% to take out what the first one left, and leaves as quietly.
leaving_asks_nobody(N, Config) ->
    with_bare(Config, ["+P", "262144"], fun(Home, Bare, Node) ->
        Caught = fun() -> sonde_attach_helper:caught(Bare) end,
        Before = Caught(),
        _ = [begin
                 {ok, How} = attach(Home, a, Node),
                 How = expected(),
                 3 = length(from(Home, Node, proc_count, [memory, 3])),
                 ok = call(Bare, ?MODULE, idlers, [Visit, N]),
                 ok = sonde_test:until(all_lie_still, fun() -> call(Bare, ?MODULE, lie_still, []) end),
                 {Reductions, Switches0, Cpu0} = call(Bare, ?MODULE, idle, []),
                 ok = leave(Home, a),
                 ok = sonde_test:until(no_janitor, fun() -> janitor(Bare) =:= undefined end),
                 false = is_there(Bare),
                 [] = modules(Bare),
                 {Reductions, Switches1, Cpu1} = call(Bare, ?MODULE, idle, []),
                 ct:pal("~b processes: ~b ms of CPU, ~b switches",
                        [N, Cpu1 - Cpu0, Switches1 - Switches0]),
                 true = Switches1 - Switches0 < N div 10,
                 %% The handler does not wait for the purge.
                 ok = sonde_test:until({caught, Before}, fun() -> Caught() =:= Before end)
             end || Visit <- [1, 2]],
        ok
    end).

idlers(1, N) ->
    Parent = self(),
    Keeper = spawn(fun() ->
                           Pids = [spawn(fun() -> receive stop -> ok end end)
                                   || _ <- lists:seq(1, N)],
                           true = register(idlers, self()),
                           Parent ! {self(), ready},
                           keep_idlers(Pids)
                   end),
    receive {Keeper, ready} -> ok end;
idlers(_, _) ->
    ok.

keep_idlers(Pids) ->
    receive
        {which, From} -> From ! {idlers, Pids}, keep_idlers(Pids)
    end.

%% A new visit takes out what the last one left. Its literals are collected later, from one process
%% after the other.
lie_still() ->
    {Before, _, _} = idle(),
    ok = timer:sleep(300),
    {After, _, _} = idle(),
    Before =:= After.

%% The reductions of an idle process are read without waking it.
idle() ->
    idlers ! {which, self()},
    Pids = receive {idlers, Given} -> Given end,
    {Switches, _} = statistics(context_switches),
    {Cpu, _} = statistics(runtime),
    {[element(2, process_info(Pid, reductions)) || Pid <- Pids], Switches, Cpu}.

%% The temporary build is made by following calls. A call that gets its module or function from
%% elsewhere is refused, and so is the name of one of our modules used as a term.
what_cannot_be_followed_is_refused(Config) ->
    Ebin = folder(ebin, Config),
    _ = [{ok, _} = file:copy(F, filename:join(Ebin, filename:basename(F)))
         || F <- filelib:wildcard(filename:join(sonde_attach_helper:ebin(), "sonde*.beam"))],
    {0, _} = merge(Ebin, Config),
    Refused = [{"M = element(1, X), M:size(X)", "{calls,'_',size,1}"}, {"F = element(2, X), lists:F(X)", "{calls,lists,'_',1}"},
               {"apply(element(3, X), length, [X])", "{calls,'_',length,1}"},
               {"spawn(element(4, X), size, [X])", "{starts,spawn,3}"},
               {"erpc:call(node(), element(5, X), size, [X])", "{starts,erpc,call,4}"},
               {"{sonde_lib, X}", "{term,sonde_lib}"}],
    ok = with_body(Ebin, lists:append(lists:join(", ", [Body || {Body, _} <- Refused])) ++ "."),
    {Code, Text} = merge(Ebin, Config),
    true = Code =/= 0,
    Rows = [iolist_to_binary(["{{sonde_largest,add,2},", Why, "}"]) || {_, Why} <- Refused],
    {[], Text} = {[Row || Row <- Rows, binary:match(Text, Row) =:= nomatch], Text},
    ok = with_body(Ebin, "sonde_nif:read(X, memory)."),
    {0, _} = merge(Ebin, Config).

%% Compiles sonde_largest with another body for add/2.
with_body(Ebin, Body) ->
    {ok, {_, [{abstract_code, {_, Forms}}]}} =
        beam_lib:chunks(code:which(sonde_largest), [abstract_code]),
    {ok, Tokens, _} = erl_scan:string("add(X, _) -> " ++ Body),
    {ok, Function} = erl_parse:parse_form(Tokens),
    {ok, sonde_largest, Object} =
        compile:forms([case F of {function, _, add, 2, _} -> Function; _ -> F end || F <- Forms],
                      [debug_info, nowarn_unused_record]),
    file:write_file(filename:join(Ebin, "sonde_largest.beam"), Object).

merge(Ebin, Config) ->
    Merge = filename:join([os:getenv("SONDE_ROOT", "."), "scripts", "merge"]),
    Port = open_port({spawn_executable, os:find_executable("escript")},
                     [{args, [Merge, Ebin, filename:join(get(priv_dir, Config), "guest.beam")]},
                      exit_status, stderr_to_stdout, binary]),
    said(Port, <<>>).

said(Port, Text) ->
    receive
        {Port, {data, More}} -> said(Port, <<Text/binary, More/binary>>);
        {Port, {exit_status, Code}} -> {Code, Text}
    end.

%% Visits with the same build; also to a node onto which sonde is loaded for good between two
%% visits.
visits_leave_one_image(Config) -> visits_leave_one_image(4, Config).

hundred_visits_leave_one_image(Config) ->
    ct:timetrap({minutes, 20}),
    visits_leave_one_image(100, Config).

visits_leave_one_image(Visits, Config) ->
    with_bare(Config, [], fun(Home, Bare, Node) ->
        case {images(Bare), sonde_attach_helper:has_library()} of
            {0, true} ->
                Caught = sonde_attach_helper:caught(Bare),
                _ = [visit(V, Home, Bare, Node, Caught) || V <- lists:seq(1, Visits),
                                                           V rem 3 =/= 0 orelse not sonde_test:has_musl()],
                ok;
            _ ->
                {skip, "no /proc, or no library"}
        end
    end).

visit(V, Home, Bare, Node, _Caught) when V rem 3 =:= 0 ->
    [{Node, {ok, #{status := active}}}] = call(Home, sonde, remote_load, [[Node], sonde]),
    3 = length(call(Bare, sonde, proc_count, [memory, 3])),
    sonde_attach_helper:unload(Bare),
    true = images(Bare) =< images_after(V); % no process left, so the handler stays until the next visit ends
visit(V, Home, Bare, Node, Caught) ->
    {ok, native} = attach(Home, a, Node),
    #{status := active, counters := Before} = from(Home, Node, native, []),
    3 = length(from(Home, Node, proc_count, [memory, 3])),
    #{reader := Reader, counters := After} = from(Home, Node, native, []),
    true = maps:get(native, After) > maps:get(native, Before),
    true = Reader =/= guarded orelse sonde_attach_helper:caught(Bare) =/= Caught,
    ok = leave(Home, a),
    one_image(Bare, images_after(V), Caught).

%% musl compares files, not paths, and each visit brings a new file; so no visit ends what a visit left that was
%% removed without a leave.
images_after(Visits) ->
    case sonde_test:has_musl() of
        true -> Visits;
        false -> 1
    end.

one_image(Bare, Most, Caught) ->
    ok = sonde_test:until(bare, fun() -> modules(Bare) =:= [] end),
    ok = sonde_test:until({caught, Caught},
                          fun() -> sonde_attach_helper:caught(Bare) =:= Caught end),
    N = images(Bare),
    true = N >= 1 andalso N =< Most.

%% How often our code is mapped; `none' where the system does not report it.
images(Bare) ->
    case file:read_file("/proc/" ++ call(Bare, os, getpid, []) ++ "/maps") of
        {ok, Maps} ->
            length([Line || Line <- binary:split(Maps, <<"\n">>, [global]),
                            binary:match(Line, <<"r-xp">>) =/= nomatch,
                            binary:match(Line, <<"sonde_nif">>) =/= nomatch]);
        {error, _} ->
            none
    end.

embedded_node(Config) ->
    with_bare(Config, ["-mode", "embedded"], fun(Home, Bare, Node) ->
        Traces = fun() -> sonde_attach_helper:traces(Bare, get(dir, Config)) end,
        Before = Traces(),
        {ok, How} = attach(Home, a, Node),
        How = expected(),
        3 = length(from(Home, Node, proc_count, [memory, 3])),
        ok = leave(Home, a),
        sonde_test:until({as_before, Before}, fun() -> Traces() =:= Before end)
    end).

node_that_is_not_there(Config) ->
    {error, noconnection} = attach(home(Config), a, ?NOT_THERE).

%% ---- side effects

janitor_is_in_no_row(Config) ->
    {Home, Bare, Node} = nodes_of(Config),
    {ok, _} = attach(Home, a, Node),
    Janitor = janitor(Bare),
    true = is_pid(Janitor),
    Pids = sonde_test:pids(from(Home, Node, proc_count, [memory, 100000])),
    true = length(Pids) > 10,
    false = lists:member(Janitor, Pids),
    ok = leave(Home, a).

no_message_reaches_the_caller(Config) ->
    {Home, _, Node} = nodes_of(Config),
    {{ok, _}, {error, noconnection}, ok, []} =
        call(Home, ?MODULE, attach_and_look, [Node, ?NOT_THERE]).

attach_and_look(Node, NoNode) ->
    Ours = sonde_bundle:ours(),
    {ok, Attached} = Opened = sonde_attach:open(Node, Ours, #{linger_ms => 0}),
    Failed = sonde_attach:open(NoNode, Ours),
    Closed = sonde_attach:close(Attached),
    {Opened, Failed, Closed, sonde_test:mailbox()}.

%% ---- at home: attaching with other modules than ours

attach_as(Name, Node, Item, Value) ->
    #{libraries := Libraries} = Ours = sonde_bundle:ours(),
    keep(Name, Node, Ours#{libraries := [{For#{Item := Value}, File, Bytes} || {For, File, Bytes} <- Libraries]}).

attach_damaged(Name, Node, Module) ->
    #{modules := Modules, guest := Guest} = Ours = sonde_bundle:ours(),
    Damage = fun({M, File, Object}) when M =:= Module ->
                     {M, File, binary:part(Object, 0, byte_size(Object) div 2)};
                (Object) -> Object
             end,
    keep(Name, Node, Ours#{modules := lists:map(Damage, Modules), guest := Damage(Guest)}).

attach_all(Names, Node) ->
    Ours = sonde_bundle:ours(),
    Parent = self(),
    Pids = [spawn(fun() -> Parent ! {self(), keep(Name, Node, Ours)} end) || Name <- Names],
    [receive {Pid, Answer} -> Answer end || Pid <- Pids].

expected() ->
    case sonde_attach_helper:has_library() of
        true -> native;
        false -> {portable, no_library}
    end.

%% ---- nodes

nodes_of(Config) ->
    {Bare, Node} = get(bare, Config),
    {home(Config), Bare, Node}.

home(Config) -> element(1, get(home, Config)).
bare(Config) -> element(1, get(bare, Config)).

as_before(Config) ->
    as_before(Config, sonde_test:patience()).

as_before(Config, Ms) ->
    Before = get(before, Config),
    Traces = fun() -> sonde_attach_helper:traces(bare(Config), get(dir, Config)) end,
    try sonde_test:until(as_before, fun() -> Traces() =:= Before end, Ms)
    catch error:{waited_in_vain, _, _} ->
            Left = Traces(),
            error({left, maps:filter(fun(Key, What) -> What =/= map_get(Key, Before) end, Left)})
    end.

%% Another home, which the test may harm.
with_home(Config, Test) ->
    {_, _, Node} = nodes_of(Config),
    {Home, _} = sonde_attach_helper:home(get(dir, Config)),
    try Test(Home, Node)
    after sonde_attach_helper:stop(Home)
    end.

kill_node(Home) ->
    "" = os:cmd("kill -9 " ++ call(Home, os, getpid, [])).

with_bare(Config, Args, Test) ->
    {Bare, Node} = sonde_attach_helper:bare(get(dir, Config), Args),
    try Test(home(Config), Bare, Node)
    after sonde_attach_helper:stop(Bare)
    end.
