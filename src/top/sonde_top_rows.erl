%% @private
%% What the pages of {@link sonde:top/1} share on the node that is looked at: which rows are on the
%% page, the search, names, and work that is given up after a time.
-module(sonde_top_rows).

-export([shown/2, want/1, native/1, pid/1, name/1, labels/1, labelled/1, text/1, named/1, has/2, is_found/3, within/2,
         until/1, ask/4]).

-define(LABEL, 80).   % characters

-type request() :: #{from := non_neg_integer(), rows := non_neg_integer(), _ => _}.
%% The processes and ports that are registered under a name with this text.
-type named() :: #{pid() | port() => true}.

%% @doc The part of the rows that is on the page.
-spec shown([Row], request()) -> [Row] when Row :: tuple().
shown(Rows, #{from := From, rows := N} = Request) ->
    Without = maps:get(without, Request, []),
    lists:sublist([Row || Row <- Rows, not lists:member(element(1, Row), Without)], From + 1, N).

%% @doc How many rows are needed for that.
-spec want(request()) -> pos_integer().
want(#{from := From, rows := N} = Request) when is_integer(From), is_integer(N) ->
    From + N + length(maps:get(without, Request, [])).

%% @doc For calls that need the native path, or another process.
-spec native(fun(() -> Result)) -> Result | {error, term()}.
native(Fun) ->
    try Fun()
    catch error:{native_off, Why} -> {error, {native_off, Why}};
          error:system_limit -> {error, system_limit}
    end.

%% @doc The process of this node that is written like that.
-spec pid(string()) -> pid() | undefined.
pid(Text) ->
    try list_to_pid(Text) of
        Pid when node(Pid) =:= node() -> Pid;
        _ -> undefined
    catch error:badarg -> undefined
    end.

%% @doc The registered name of a process, or its pid.
-spec name(pid()) -> string().
name(Pid) ->
    case node(Pid) =:= node() andalso process_info(Pid, registered_name) of
        {registered_name, Name} -> text(Name);
        _ -> pid_to_list(Pid)
    end.

%% @doc The labels of several processes, which are asked together if they do not answer at once.
-spec labels([pid()]) -> #{pid() => [{label, string()}]}.
labels(Pids) ->
    case erlang:function_exported(proc_lib, get_label, 1) of
        true -> sonde_helper:ask(fun labelled/1, fun(Pid, Label, Labels) -> Labels#{Pid => Label} end, #{}, Pids);
        false -> #{}
    end.

%% @doc The label that the process gave itself (OTP 27 and later), as an attribute; else none.
-spec labelled(pid()) -> [{label, string()}].
labelled(Pid) ->
    case erlang:function_exported(proc_lib, get_label, 1) andalso sonde_attr:read({dictionary, '$process_label'}, Pid) of
        {ok, Label} when Label =/= undefined ->
            [{label, lists:flatten(sonde_names:readable(io_lib:format("~0tp", [Label], [{chars_limit, ?LABEL}])))}];
        _ ->
            []
    end.

-spec text(term()) -> string().
text(Term) -> lists:flatten(sonde_names:readable(io_lib:format("~0tp", [Term]))).

%% ---- the search

-spec named(Find :: string()) -> named().
named("") ->
    #{};
named(Find) ->
    maps:from_list([{Known, true} || Name <- registered(), has(atom_to_list(Name), Find),
                                     Known <- [whereis(Name)], Known =/= undefined]).

%% @doc Whether this is in a text, in lower or upper case.
-spec has(unicode:chardata(), Find :: string()) -> boolean().
has(_, "") -> true;
has(Text, Find) -> string:find(string:casefold(Text), string:casefold(Find)) =/= nomatch.

%% @doc Whether a row belongs to a process that was found by its name, or has the text.
-spec is_found({string(), named()}, pid() | port() | none, [unicode:chardata()]) -> boolean().
is_found({"", _}, _, _) -> true;
is_found({_, Named}, Pid, _) when is_map_key(Pid, Named) -> true;
is_found({Find, _}, _, Texts) -> lists:any(fun(Text) -> has(Text, Find) end, Texts).

%% ---- work with an end

%% @doc Runs `Fun' in a helper, which is killed if there is no result after that time.
-spec within(pos_integer(), fun(() -> Result)) -> {ok, Result} | {ok, failed} | unanswered.
within(Ms, Fun) ->
    sonde_helper:call(fun(Caller) ->
        ask([{only, Fun}], fun(only, Answer, _) -> Answer end, unanswered, {until(Ms), Caller})
    end).

-spec until(pos_integer()) -> integer().
until(Ms) when is_integer(Ms) -> erlang:monotonic_time(millisecond) + Ms.

%% @doc Runs some at the same time, each in a helper, and folds over what comes of each: `{ok, Result}',
%% `{ok, failed}' for an exception, or `unanswered'. Call it only in a helper.
-spec ask([{Key, fun(() -> term())}], fun((Key, {ok, term()} | unanswered, Acc) -> Acc), Acc,
          {Until :: integer(), Caller :: reference()}) -> Acc.
ask(Funs, Fold, Acc, {Until, Caller}) ->
    sonde_helper:jobs(fun({_, Fun}) -> sonde_helper:job(fun result/1, Fun) end,
                      fun({Key, _}, Answer, A) -> Fold(Key, Answer, A) end, Acc, Funs,
                      #{in_flight => 8, until => Until, caller => Caller}).

result(Fun) ->
    try {ok, Fun()}
    catch _:_ -> {ok, failed}
    end.
