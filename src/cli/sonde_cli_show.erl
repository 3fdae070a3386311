%% @private
%% Results on the screen, or as JSON, as the node that they are from would write them.
-module(sonde_cli_show).

-export([show/5, cluster/4, as_there/2]).

-type command() :: sonde_cli_table:command().

%% @doc Prints the result of a command on one node, as that node would print it; in JSON with the
%% parts of its report, if it has one, that matter to people. With text, the caller prints the report.
-spec show(text | json, command(), [term()], term(), #{left_out => non_neg_integer(), atom() => term()}) -> ok.
show(json, Command, _, Result, Report) ->
    put_json(maps:merge(one_object(Command, Result), of_report(Report)));
show(text, Command, Args, [], Report) ->
    io:put_chars([none(Command, Args, Report), $\n]);
show(text, #{run := Run} = Command, Args, [{_, _, _} | _] = Rows, _)
  when Run =/= {sonde, proc_group} ->
    print_rows(value(Command, Args), Rows);
show(text, #{run := {sonde, native}}, _, #{checks := Checks} = Native, _) ->
    {Ok, Others} = lists:partition(fun({_, Said}) -> Said =:= ok end, Checks),
    print(Native#{checks := [{ok, length(Ok)} | Others]});
show(text, _, _, Result, _) ->
    print(Result).

%% That there is none is known only if all were asked for, and read.
none(#{args := Wanted} = Command, Args, Report) ->
    Given = lists:zip(lists:sublist(Wanted, length(Args)), Args),
    case {[0 || {#{type := count}, 0} <- Given], Report} of
        {[_ | _], _} -> "none asked for";
        {[], #{left_out := N}} when N > 0 -> [said_of_none(Command), ", of those that were read"];
        {[], _} -> said_of_none(Command)
    end.

said_of_none(Command) -> maps:get(none, Command, "no processes to show").

print_rows(none, Rows) -> print(Rows);
print_rows(Value, Rows) -> print([{Value, Rows}]).

%% The attribute that the values are of; it decides their unit.
value(#{run := {sonde, Function}}, [Attr | _])
  when Function =:= proc_count; Function =:= proc_window; Function =:= ets_count;
       Function =:= port_count; Function =:= inet_count; Function =:= inet_window -> Attr;
value(Command, _) -> maps:get(value, Command, none).

of_report(Report) ->
    maps:map(fun(missed, #{pids := Pids} = Missed) ->
                     Missed#{pids := [not_read(One) || One <- Pids]};
                (suspended, #{count := N, pids := Pids}) ->
                     #{count => N, pids => [#{pid => Pid, ms => Ms} || {Pid, Ms} <- Pids]};
                (_, Value) ->
                     Value
             end, maps:with([missed, suspended, suspended_ms], Report)).

not_read({Pid, Why}) -> #{pid => Pid, why => Why};
not_read({Pid, Why, Attrs}) -> into({attrs, Attrs}, not_read({Pid, Why})).

%% @doc Prints the rows of several nodes. With text, the caller reports what failed.
-spec cluster(text | json, command(), [term()],
              #{rows := list(), failed := list(), reports := list()}) -> ok.
cluster(json, Command, _, #{rows := Rows, failed := Failed, reports := Reports}) ->
    put_json(#{rows => [maps:put(node, Node, row(Command, Row)) || {Node, Row} <- Rows],
               failed => [#{node => Node, reason => Why} || {Node, Why} <- Failed],
               reports => [maps:put(node, Node, of_report(Report)) || {Node, Report} <- Reports]});
cluster(text, #{run := diagnose}, _, #{rows := Reports}) ->
    %% It begins with the node's name.
    each(fun(_, Diagnosis) -> io:put_chars(sonde_diagnose:format(Diagnosis)) end, Reports);
cluster(text, #{each := true}, _, #{rows := Reports}) ->
    each(fun(Node, Report) -> io:put_chars([atom_to_list(Node), $\n]), print(Report) end, Reports);
cluster(text, _, _, #{rows := [], failed := [_ | _]}) ->
    ok;
cluster(text, Command, Args, #{rows := [], reports := Reports}) ->
    show(text, Command, Args, [], #{left_out => lists:sum([N || {_, #{left_out := N}} <- Reports])});
cluster(text, Command, Args, #{rows := Rows}) ->
    print_rows(value(Command, Args), [with_node(Node, Row) || {Node, Row} <- Rows]).

%% With an empty line between them.
each(_, []) -> ok;
each(Print, [{Node, Report} | Reports]) ->
    ok = Print(Node, Report),
    _ = [io:put_chars("\n") || Reports =/= []],
    each(Print, Reports).

put_json(Term) ->
    io:put_chars([sonde_json:encode(Term), $\n]).

%% A file or a pipe has no width, so nothing is cut.
print(Result) ->
    sonde_print:print(Result, case is_terminal() of
                                  true -> #{color => color()};
                                  false -> #{color => never, width => 10000}
                              end).

%% ---- one object for each result

one_object(_, Map) when is_map(Map) ->
    maps:merge(Map, of_report(Map));
one_object(Command, Rows) when is_list(Rows), is_map_key(row, Command) orelse is_map(hd(Rows)) ->
    #{rows => [row(Command, Row) || Row <- Rows]};
one_object(_, [{_, _} | _] = Props) ->
    maps:from_list(Props);
one_object(_, Rows) when is_list(Rows) ->
    #{rows => Rows};
one_object(_, {Key, Value}) when is_atom(Key) ->
    #{Key => Value};
one_object(_, Value) ->
    #{value => Value}.

row(_, #{path := Path} = Thing) ->
    Thing#{path := unicode:characters_to_binary(sonde_heap_top:path_text(Path))};
row(_, Row) when is_map(Row) ->
    Row;
row(#{row := Names}, Row) ->
    lists:foldl(fun into/2, #{}, lists:zip(Names, tuple_to_list(Row)));
row(_, Row) ->
    #{value => Row}.

%% An attribute never replaces a field of the row itself.
into({attrs, Attrs}, Row) -> maps:merge(maps:from_list([attr(A) || A <- Attrs]), Row);
into({Name, Value}, Row) -> Row#{Name => Value}.

attr({Key, Value}) -> {Key, Value};
attr(Name) -> {name, Name}.

%% ---- rows of any shape as triples, with the node first among the attributes

with_node(Node, {What, Value, Attrs}) when is_list(Attrs) ->
    {What, Value, [{node, Node} | Attrs]};
with_node(Node, {Type, Count, Bytes, Holders}) ->
    {Type, Count, [{node, Node}, {bytes, Bytes}, {holders, Holders}]};
with_node(Node, {Name, Value}) ->
    {Name, Value, [{node, Node}]};
with_node(Node, #{id := Id, size := Size, refc := Refc, holders := Holders}) ->
    {Id, Size, [{node, Node}, {refc, Refc}, {holders, length(Holders)}]}.

%% ---- the terminal

color() ->
    case os:getenv("NO_COLOR", "") =:= "" andalso os:getenv("TERM", "dumb") =/= "dumb" of
        true -> always;
        false -> never
    end.

%% Before OTP 26 nothing says it of the output alone, but the system may.
is_terminal() ->
    case {proplists:get_value(stdout, options()), file:read_link("/proc/self/fd/1")} of
        {Is, _} when is_boolean(Is) -> Is;
        {_, {ok, "/dev/pts/" ++ _}} -> true;
        {_, {ok, "/dev/tty" ++ _}} -> true;
        {_, {ok, "/dev/console"}} -> true;
        {_, {ok, _}} -> false;
        {_, {error, _}} -> element(1, io:columns()) =:= ok
    end.

options() ->
    case io:getopts() of
        Options when is_list(Options) -> Options;
        _ -> []
    end.

%% ---- terms of another node

%% @doc With the pids, ports and references of that node as if they were of this one, so that they
%% are written as they are there: `<0.44.0>'. Those of third nodes, and what is in funs, stay as they
%% are.
-spec as_there(term(), node()) -> term().
as_there(Term, Node) when Node =:= node() ->
    Term;
as_there(Pid, Node) when is_pid(Pid), node(Pid) =:= Node ->
    here(pid_to_list(Pid), fun list_to_pid/1, Pid);
as_there(Port, Node) when is_port(Port), node(Port) =:= Node ->
    here(port_to_list(Port), fun list_to_port/1, Port);
as_there(Ref, Node) when is_reference(Ref), node(Ref) =:= Node ->
    here(ref_to_list(Ref), fun list_to_ref/1, Ref);
as_there([Term | Tail], Node) ->
    [as_there(Term, Node) | as_there(Tail, Node)];
as_there(Tuple, Node) when is_tuple(Tuple) ->
    list_to_tuple([as_there(Term, Node) || Term <- tuple_to_list(Tuple)]);
as_there(Map, Node) when is_map(Map) ->
    maps:from_list([{as_there(K, Node), as_there(V, Node)} || {K, V} <- maps:to_list(Map)]);
as_there(Term, _Node) ->
    Term.

%% The first number is the node's.
here(Text, From, Foreign) ->
    {match, [Before, After]} =
        re:run(Text, "^([^0-9]*)[0-9]+(.*)$", [{capture, all_but_first, list}]),
    try From(Before ++ "0" ++ After)
    catch error:badarg -> Foreign
    end.
