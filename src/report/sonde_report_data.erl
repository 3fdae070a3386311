%% @private
%% All that a report has, as one JSON text. Each section has a time and a size of its own: one that
%% failed, was not done in time or had to be cut says so, and the others are still there.
-module(sonde_report_data).

-export([json/1, json/2, options/0, intervals/0, sections/2, section/2, native/1, quoted/1]).
-export_type([section/0, made/0, missing/0, source/0]).

%% What a section has; `keep' is for other sections.
-type made() :: #{data := #{atom() => term()}, cut => [binary()], keep => [{pid(), binary()}]}.
%% `failed' in place of `data'; `cut': what is not all there, and why.
-type section() :: #{ms := non_neg_integer(), data => term(), failed => binary(), cut => [binary()]}.
%% Where the sections come from, if not from this node. `node': what stands for its name; `outside': how it was read.
-type source() :: #{node := binary(), outside := binary(), section := fun((atom(), #{atom() => term()}) -> made())}.
-type missing() :: [{Section :: binary(), Why :: binary()}].

-define(VERSION, 1).
-define(MOST_TOP, 1000).
-define(LEAST_MS, 100).
-define(MOST_MS, 600000).
%% Milliseconds for one section; the diagnosis has its interval, too.
-define(SECTION_MS, 15000).
%% Bytes of the JSON of one section, and of all. The page takes the rest of two million.
-define(SECTION_BYTES, 600000).
-define(ALL_BYTES, 1500000).
-define(FEW, 10).             % rows that are left in any case
%% Those that watch nothing, the quickest first.
-define(AT_ONCE, [ports, sockets, allocators, processes, groups, stacks, waits, tables, binaries]).
-define(LATE, <<"it was not done in time">>).

-spec options() -> sonde_opts:known().
options() ->
    IsInterval = fun(Ms) -> is_integer(Ms) andalso Ms >= ?LEAST_MS andalso Ms =< ?MOST_MS end,
    #{content => sonde_opts:flag(false), interval => {2000, IsInterval},
      top => {200, fun(N) -> sonde_opts:is_positive(N) andalso N =< ?MOST_TOP end},
      watcher => {sonde_watch, fun(W) -> is_atom(W) orelse is_pid(W) end},
      %% of the sonde that writes the file
      version => {"", fun io_lib:printable_list/1}}.

%% @doc The least and the longest interval.
-spec intervals() -> {pos_integer(), pos_integer()}.
intervals() -> {?LEAST_MS, ?MOST_MS}.

%% @doc The report's data, which sections are missing in it, and which are not complete. Called on the node, by name from another one.
-spec json(#{atom() => term()}) -> {ok, #{json := binary(), missing := missing(), incomplete := missing()}}
                                 | {error, content_forbidden | timeout}.
json(Given) -> json(Given, here).

%% @doc The same, with sections from elsewhere.
-spec json(#{atom() => term()}, here | source()) -> {ok, #{json := binary(), missing := missing(), incomplete := missing()}}
                                                 | {error, content_forbidden | timeout}.
json(#{timeout := Ms} = Given, Source) ->
    Opts = from(Source, sonde_opts:read(maps:remove(timeout, Given), options())),
    Side = sonde_vm:side(),
    case Opts of
        #{content := true} ->
            case sonde_content:allowed() of
                true -> made(Side, Opts, Ms);
                false -> {error, content_forbidden}
            end;
        #{content := false} ->
            made(Side, Opts, Ms)
    end.

from(here, Opts) -> Opts;
from(Source, Opts) -> Opts#{source => Source}.

%% A report in which nothing was read is none.
made(Side, Opts, Ms) ->
    Sections = sections(Opts#{side => Side}, Ms),
    case {[Name || {Name, #{data := _}} <- Sections], [Name || {Name, #{failed := ?LATE}} <- Sections]} of
        {[], [_ | _]} -> {error, timeout};
        _ -> {ok, encoded_all(Sections, Side, Opts)}
    end.

encoded_all(Sections, Side, Opts) ->
    Fitted = within(Sections),
    Parts = [part(Name, Json) || {Name, {_, Json}} <- Fitted],
    Named = [{atom_to_binary(Name), Section} || {Name, {Section, _}} <- Fitted],
    {Node, Outside, Host} = about(Opts),
    Head = #{version => ?VERSION, node => Node, outside => Outside, host => Host,
             at => erlang:system_time(millisecond), made_by => sonde_report_text:text(maps:get(version, Opts)),
             content => maps:get(content, Opts), native => native(Side),
             wordsize => erlang:system_info(wordsize), top => maps:get(top, Opts)},
    #{json => iolist_to_binary([${, [[part(Key, sonde_json:encode(Value)), $,]
                                     || {Key, Value} <- lists:sort(maps:to_list(Head))],
                                part(sections, [${, lists:join($,, Parts), $}]), $}]),
      missing => [{Name, Why} || {Name, #{failed := Why}} <- Named],
      incomplete => [{Name, Why} || {Name, #{cut := Whys}} <- Named, Why <- Whys]}.

%% A number of a process, or a name of a file, means something only on the machine where the report was made.
about(#{source := #{node := Node, outside := Outside}}) ->
    {ok, Host} = inet:gethostname(),
    {Node, Outside, sonde_report_text:text(Host)};
about(_) ->
    {sonde_report_text:text(atom_to_list(node())), undefined, undefined}.

%% @doc The path that answers, as text.
-spec native(native | {portable, term()}) -> binary().
native(native) -> <<"native">>;
native({portable, Why}) -> sonde_report_text:text(io_lib:format("~0tP", [Why, 8])).

%% ---- sections

%% @doc The sections, in the order of the page. Those that watch nothing begin first, in half of the time, so that little time
%% is enough for them. The diagnosis waits most of its time: meanwhile the node is measured, and the processes that work.
-spec sections(#{atom() => term()}, Ms :: pos_integer()) -> [{atom(), section()}].
sections(#{interval := Interval} = Opts, Ms) ->
    Start = now_ms(),
    Until = Start + Ms,
    sonde_helper:call(
      fun(Caller) ->
              How = #{caller => Caller, until => Until},
              {Early, Left} = early(?AT_ONCE, Start + Ms div 2, Opts, How#{ms => ?SECTION_MS}, []),
              Watch = watch(Interval, Until - now_ms()),
              Watched = some([node, diagnosis, busy], 3, Opts#{interval := Watch}, How#{ms => ?SECTION_MS + 2 * Watch}),
              %% last, because a watcher may not answer
              Late = lists:append([some([Name], 1, Opts, How#{ms => ?SECTION_MS}) || Name <- Left ++ [watcher]]),
              First = [{Name, shortly(Name, Section, Watch, Interval)} || {Name, Section} <- Watched],
              Others = in_order([binaries, groups, processes, tables, ports, sockets, allocators, waits, stacks, watcher], Early ++ Late),
              Known = Opts#{worst => worst(First ++ Others)},
              Heaps = some([heaps], 1, Known, How#{ms => ?SECTION_MS}),
              [{Name, maps:remove(keep, Section)} || {Name, Section} <- First ++ Others ++ Heaps]
      end).

in_order(Names, Sections) -> [lists:keyfind(Name, 1, Sections) || Name <- Names].

%% Those that began before `Half', and the names of the others.
early([Name | Names], Half, Opts, How, Done) ->
    case now_ms() < Half of
        true -> early(Names, Half, Opts, How, Done ++ some([Name], 1, Opts, How));
        false -> {Done, [Name | Names]}
    end;
early([], _, _, _, Done) ->
    {Done, []}.

%% The diagnosis looks twice, and its sweeps need time, too.
watch(Interval, Left) -> min(Interval, max(?LEAST_MS, sonde_facts:interval(3 * Left div 4))).

shortly(diagnosis, #{data := _} = Section, Watch, Interval) when Watch < Interval ->
    Text = sonde_report_text:text(io_lib:format("there was time to watch the node for ~b ms, not for ~b ms", [Watch, Interval])),
    Section#{cut => [Text | maps:get(cut, Section, [])]};
shortly(_, Section, _, _) ->
    Section.

some(Names, InFlight, Opts, #{caller := Caller, until := Until, ms := Ms}) ->
    Start = now_ms(),
    Limits = #{in_flight => InFlight, until => min(Until, Start + Ms), caller => Caller},
    Done = sonde_helper:jobs(fun(Name) -> sonde_helper:job(fun one/1, [Name, Opts]) end,
                             fun(Name, Answer, Acc) -> Acc#{Name => Answer} end, #{}, Names, Limits),
    [{Name, answered(map_get(Name, Done), now_ms() - Start)} || Name <- Names].

answered(unanswered, Ms) -> #{ms => Ms, failed => ?LATE};
answered(Section, _) -> Section.

one([Name, Opts]) -> section(Name, Opts).

%% @doc One section, whatever happens. Runs in a helper.
-spec section(atom(), #{atom() => term()}) -> map().
section(Name, Opts) ->
    Start = now_ms(),
    Section = try asked(Name, Opts)
              catch Class:Why -> #{failed => failed(Class, Why)}
              end,
    Section#{ms => now_ms() - Start}.

asked(Name, #{source := #{section := Ask}} = Opts) -> Ask(Name, Opts);
asked(Name, Opts) -> sonde_report_sections:section(Name, Opts).

%% A reason may have any term in it, so only its kind is shown.
failed(error, {native_off, Why}) ->
    sonde_report_text:text(io_lib:format("the native path is off (~0tP), and no official call reports this",
                                         [Why, 8]));
failed(throw, {none, Text}) -> Text;
failed(_, Why) when is_atom(Why) -> sonde_report_text:text(["it failed: ", atom_to_list(Why)]);
failed(_, Why) when is_tuple(Why), is_atom(element(1, Why)) ->
    sonde_report_text:text(["it failed: ", atom_to_list(element(1, Why))]);
failed(_, _) -> <<"it failed">>.

%% The processes to look into: first those that the diagnosis suspects, then the largest.
worst(Sections) ->
    lists:append([Keep || {Name, #{keep := Keep}} <- Sections, Name =:= diagnosis])
        ++ lists:append([Keep || {Name, #{keep := Keep}} <- Sections, Name =:= processes]).

now_ms() -> erlang:monotonic_time(millisecond).

%% ---- size

%% Of sections that are too large, the longest lists are halved, again and again. With each section comes
%% its JSON.
within(Sections) ->
    Fitted = [{Name, fit(Section, ?SECTION_BYTES)} || {Name, Section} <- Sections],
    case lists:sum([byte_size(Json) || {_, {_, Json}} <- Fitted]) of
        Bytes when Bytes > ?ALL_BYTES ->
            [{Name, fit(Section, byte_size(Json) * ?ALL_BYTES div Bytes)} || {Name, {Section, Json}} <- Fitted];
        _ ->
            Fitted
    end.

fit(Section, Most) ->
    Json = quoted(iolist_to_binary(sonde_json:encode(Section))),
    case byte_size(Json) > Most andalso smaller(Section) of
        false -> {Section, Json};
        Smaller -> fit(Smaller, Most)
    end.

%% @doc JSON for a script element, which `<' could end, whatever the data are. In JSON it occurs only in strings.
-spec quoted(binary()) -> binary().
quoted(Json) ->
    binary:replace(Json, <<"<">>, <<"\\u003c">>, [global]).

smaller(#{data := Data} = Section) ->
    case halved(Data) of
        Data -> (maps:remove(data, Section))#{failed => <<"it is too large">>};
        Less -> Section#{data := Less,
                         cut => lists:usort([<<"shortened: it was too large">> | maps:get(cut, Section, [])])}
    end;
smaller(_) ->
    false.

halved(Map) when is_map(Map) -> maps:map(fun(_, Value) -> halved(Value) end, Map);
halved([First | _] = List) when not is_integer(First), length(List) > ?FEW ->
    [halved(Item) || Item <- lists:sublist(List, max(?FEW, length(List) div 2))];
halved([First | _] = List) when not is_integer(First) -> [halved(Item) || Item <- List];
halved(Other) -> Other.

part(Key, Json) -> [sonde_json:encode(Key), $:, Json].
