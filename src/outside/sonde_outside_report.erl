%% @private
%% A report of another OS process, or of a core file, from its memory alone: the page and the sections of
%% `sonde:report/2', each from the call from outside that has the same numbers. What cannot be read from outside is said in
%% one sentence for each section.
-module(sonde_outside_report).

-export([write/3, printed/2, section/2]).
-export_type([about/0]).

%% `name' stands for the node's name; `command': what is typed to look at it again; `interval': milliseconds between two
%% looks, 0 where there is one moment.
-type about() :: #{name | command := unicode:chardata(), interval := non_neg_integer()}.

-import(sonde_report_text, [text/1, name/1, call/1, process/1]).

-define(STACKS, 400).
-define(WAITS, 100).
-define(DEPTH, 32).
-define(CALL_MS, 12000).       % less than a section may take
%% Each is whole at any time, by itself: also of a process that runs, which has no others.
-define(WORDS, [[reductions], [message_queue_len]]).

%% @doc Writes the file; after `sonde_outside:open/2'.
-spec write(file:name_all(), sonde_report:opts(), about()) -> {ok, sonde_report:written()} | {error, sonde_report:error()}.
write(File, Opts, About) ->
    sonde_report:write(File, asked_for(Opts, About), source(About)).

%% @doc The page itself; see `sonde_report:printed/2'.
-spec printed(sonde_report:opts(), about()) -> {ok, #{page := binary(), missing | incomplete := list()}} | {error, sonde_report:error()}.
printed(Opts, About) ->
    sonde_report:printed(asked_for(Opts, About), source(About)).

asked_for(Opts, #{interval := Ms}) ->
    {Least, Most} = sonde_report_data:intervals(),
    Opts#{interval => max(Least, min(Ms, Most))}.

source(#{name := Name, interval := Ms} = About) ->
    Outside = case Ms of
                  0 -> <<"read from outside, at one moment">>;
                  _ -> <<"read from outside">>
              end,
    #{node => text(Name), outside => Outside,
      section => fun(Section, #{interval := Left} = More) ->
                         section(Section, (maps:merge(More, About))#{interval := min(Ms, Left)})
                 end}.

%% @doc One section; see `sonde_report_sections:section/2'.
-spec section(atom(), #{atom() => term()}) -> sonde_report_data:made().
section(node, Opts) -> the_node(Opts);
section(diagnosis, Opts) -> diagnosis(Opts);
section(busy, Opts) -> busy(Opts);
section(binaries, _) -> binaries();
section(groups, _) -> groups();
section(processes, Opts) -> processes(Opts);
section(waits, _) ->
    {Rows, Report} = asked(waits, [?WAITS]),
    (sonde_report_sections:left_out(Report))#{data => sonde_report_sections:waits(Rows, fun named/1)};
section(stacks, _) ->
    {Rows, Report} = asked(stacks, [?STACKS], #{depth => ?DEPTH}),
    (sonde_report_sections:left_out(Report))#{data => sonde_report_sections:stacks(Rows, fun named/1)};
section(heaps, Opts) -> sonde_report_heaps:section(Opts#{named => fun named/1});
section(tables, _) -> none("tables cannot be read from outside the node");
section(ports, _) -> none("ports cannot be read from outside the node");
section(sockets, _) -> none("sockets cannot be read from outside the node");
section(allocators, _) -> none("the carriers of allocators cannot be read from outside the node");
section(watcher, _) -> none("the history of a watcher cannot be read from outside the node").

-spec none(unicode:chardata()) -> no_return().
none(Text) -> sonde_report_sections:none(text(Text)).

asked(Function, Args) -> asked(Function, Args, #{}).

asked(Function, Args, Opts) ->
    case sonde_outside:call(Function, Args, maps:merge(#{timeout => ?CALL_MS}, Opts)) of
        {ok, Answer, Report} -> {Answer, Report};
        {error, Why} -> none(sonde_outside:errors(Why))
    end.

%% A process with the name that it has there.
named(Pid) when is_pid(Pid) ->
    {Name, _, _} = sonde_outside_names:who(Pid),
    text([process(Pid) | [[$\s, Text] || Text <- [name(Name)], Text =/= undefined]]);
named(Other) -> process(Other).

%% ---- the node

%% This VM runs the same program.
the_node(#{interval := Ms}) ->
    {Rows, _} = asked(schedulers, []),
    Count = fun(Wanted) -> length([Kind || {{Kind, _}, _, _} <- Rows, Kind =:= Wanted]) end,
    Queues = [N || {_, N, _} <- Rows],
    #{cut => [<<"how busy the schedulers are, how many are online, and since when the node runs cannot be read from outside">>],
      data => #{otp => text(erlang:system_info(otp_release)), erts => text(erlang:system_info(version)),
                system => text(erlang:system_info(system_architecture)), emulator => sonde_report_sections:emulator(),
                schedulers => Count(normal), online => undefined, cores => undefined, up_ms => undefined, ms => Ms,
                run_queue => case lists:member(undefined, Queues) of
                                 true -> undefined;
                                 false -> lists:sum(Queues)
                             end,
                usage => undefined, increments => #{}}}.

%% ---- the diagnosis

diagnosis(#{interval := Ms, command := Command}) ->
    {#{ms := Apart, memory := #{processes := Bytes}, counts := #{processes := {Count, Limit}}, suspects := Suspects,
       read := Read, not_looked_at := Not}, Report} = asked(diagnose, [], #{interval => Ms, timeout => Ms + ?CALL_MS}),
    {Told, Keep} = sonde_report_sections:suspects(Suspects, fun(Call) -> sonde_outside_names:typed(Command, Call) end),
    Unknown = maps:from_list([{Kind, undefined} || Kind <- [total, processes, binary, ets, code, atom, allocated, used, mapped, kept, rss]]),
    (and_cut(<<"of the memory, only that of processes can be read from outside">>, sonde_report_sections:left_out(Report)))#{
      keep => Keep,
      data => #{ms => Apart, memory => Unknown#{processes => Bytes}, grown => Unknown, by_allocator => [],
                counts => [{<<"processes">>, Count, Limit, undefined}], suspects => Told,
                read => Read, not_looked_at => sonde_report_sections:not_looked_at(Not)}}.

and_cut(Text, Made) -> Made#{cut => [Text | maps:get(cut, Made, [])]}.

%% ---- processes

busy(#{interval := 0}) ->
    none("there is only one moment: which processes work is not known");
busy(#{top := N, interval := Ms}) ->
    {Rows, Report} = asked(proc_window, [reductions, N, Ms]),
    (sonde_report_sections:left_out(Report))#{
      data => #{ms => Ms, rows => [begin
                                       {Name, Initial, Current} = who(Pid),
                                       {process(Pid), Name, Initial, Current, Done}
                                   end || {Pid, Done, _} <- Rows, Done > 0]}}.

who(Pid) ->
    {Name, Initial, Current} = sonde_outside_names:who(Pid),
    {name(Name), call(Initial), call(Current)}.

groups() ->
    {Groups, Report} = asked(proc_group, [initial_call, [memory, binary_memory, message_queue_len]]),
    Made = sonde_report_sections:grouped([{{undefined, Call}, N, Totals} || {Call, N, Totals} <- Groups]),
    maps:merge(Made, and_cut(<<"which application a process belongs to cannot be read from outside">>,
                             sonde_report_sections:left_out(Report))).

processes(#{top := N}) ->
    Attrs = sonde_report_sections:attrs(),
    {Counted, [Report | _]} = lists:unzip([asked(proc_counts, [Some, N])
                                           || Some <- [Attrs -- lists:append(?WORDS) | ?WORDS]]),
    Known = maps:from_list(lists:append(Counted)),
    Rows = [{Attr, [{Pid, Value, none} || {Value, Pid} <- map_get(Attr, Known)]} || Attr <- Attrs],
    maps:merge(sonde_report_sections:table(Attrs, Rows, fun(Pid, _, Missing) -> {ok, read(Pid, Missing), who(Pid)} end),
               sonde_report_sections:left_out(Report)).

%% One that runs has only what is whole at any time.
read(_, []) ->
    [];
read(Pid, Attrs) ->
    Known = case sonde_outside_info:words(Pid, Attrs) of
                [] -> lists:append([sonde_outside_info:words(Pid, Words) || Words <- ?WORDS, Words -- Attrs =:= []]);
                All -> All
            end,
    [case lists:keyfind(Attr, 1, Known) of
         {_, Value} when is_integer(Value) -> Value;
         _ -> undefined
     end || Attr <- Attrs].

%% ---- binaries

binaries() ->
    {Account, _} = asked(bin_account, []),
    Parts = [exclusive, shared, queues, mixed, resources, elsewhere],
    Sampled = [<<"there were too many binaries to count each">> || is_map_key(sampled, Account)],
    #{cut => [<<"tables, the total, and which processes hold the largest binaries cannot be read from outside">> | Sampled],
      data => #{total => undefined, unused => undefined, parts => [{name(Part), map_get(Part, Account)} || Part <- Parts],
                missed => map_get(processes_missed, Account), tables_missed => undefined,
                sampled => maps:get(sampled, Account, undefined), error => maps:get(error, Account, undefined),
                holders => undefined, resources => []}}.
