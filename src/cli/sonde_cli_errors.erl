%% @private
%% The texts of errors, one line each.
-module(sonde_cli_errors).

-export([attach/2, side/2, call/2, report/1, answer/2, missed/2]).

-type text() :: unicode:chardata().

%% @doc Why sonde could not be loaded onto a node.
-spec attach(term(), sonde_bundle:ours()) -> text().
attach({not_loaded, [{Module, Why} | _]}, #{compiled_on := Release}) ->
    ["it cannot load code that was compiled on OTP ", Release, ": is its release older? (",
     atom_to_list(Module), ": ", short(Why), ")"];
attach({taken, Modules}, _) ->
    ["it has other modules of the same names: ",
     lists:join(", ", [atom_to_list(M) || M <- Modules])];
attach(no_guest, _) ->
    "there is nothing to load: this sonde is not the command, and scripts/merge was not run";
attach(Why, _) ->
    why(Why).

%% @doc Why a node onto which sonde was loaded uses the portable path.
-spec side(term(), sonde_bundle:ours()) -> text().
side({other_system, System}, #{libraries := Libraries}) ->
    ["no native library for ", system(System), ", only for ",
     lists:join("; ", [system(For) || {For, _, _} <- Libraries]), ", so the node uses the portable path"];
side({no_folder, Why}, _) ->
    ["no folder for the native library (", file:format_error(Why),
     "), so the node uses the portable path"];
side(no_library, _) ->
    "this sonde was built without its native library, so the node uses the portable path".

system(#{machine := Machine, nif := Nif}) -> [Machine, ", NIF ", Nif].

%% @doc Why a call of `sonde' failed.
-spec call(term(), atom()) -> text().
call(undef, Function) ->
    ["the sonde there has no ", atom_to_list(Function), ": is it another build?"];
call({native_off, Why}, Function) ->
    [atom_to_list(Function), " needs the native path, which is off there: ", short(Why)];
call(Why, Function) ->
    [atom_to_list(Function), ": ", why(Why)].

%% @doc Why there is no report.
-spec report(sonde_report:error() | badarg) -> text().
report(content_forbidden) -> "no permission: the node has {sonde, [{allow_content, false}]}";
report(no_page) -> "this sonde has no page for reports (priv/report.html)";
report(too_large) -> "the report is larger than 2 MB";
report(timeout) -> "no report was written: nothing was read in time (--timeout MS)";
report({_, no_sonde}) -> call(undef, report);
report({_, Why}) -> call(Why, report);
report(Why) -> call(Why, report).

%% @doc The text of an answer that is an error.
-spec answer(term(), atom()) -> {failed, text()} | answer.
answer(undefined, Function) when Function =:= bin_holder -> {failed, "no live binary has this id"};
answer(undefined, _) -> {failed, "no such process, or it ended meanwhile"};
answer({error, busy}, _) -> {failed, "the process was running at every attempt: try --suspend"};
answer({error, {heap_too_large, _, _} = Why}, _) -> {failed, short(Why)};
answer({error, content_forbidden}, _) ->
    {failed, "no permission: the node has {sonde, [{allow_content, false}]}"};
answer({error, content_sensitive}, _) ->
    {failed, "no values: the process has process_flag(sensitive, true)"};
answer({error, {native_off, _} = Why}, Function) -> {failed, call(Why, Function)};
answer({error, Why}, Function) -> {failed, call(Why, Function)};
answer(_, _) -> answer.

%% @doc The processes that were not read, or were suspended, by a report or an account.
-spec missed(term(), #{atom() => term()}) -> [text()].
missed(#{missed := #{count := N, pids := Named} = Missed} = Report, Opts) ->
    Busy = lists:keymember(busy, 2, Named) andalso not is_map_key(suspend, Opts),
    R = maps:get(runnable, Missed, 0),
    {Ready, Others} = lists:partition(fun({_, Why}) -> Why =:= runnable end, [said(One) || One <- Named]),
    [["not read: ", sonde_units:missed(N - R, Others), [": --suspend reads them" || Busy]] || N > R]
        ++ [["not read, because they want to run: ", sonde_units:missed(R, Ready)] || R > 0]
        ++ [["suspended: ", lists:join(", ", [[pid_to_list(Pid), io_lib:format(" (~.1f ms)", [Ms])]
                                              || {Pid, Ms} <- Pids]),
             [", ..." || Count > length(Pids)]]
            || #{suspended := #{count := Count, pids := Pids}} <- [Report], Count > 0];
missed(_, _) ->
    [].

%% From outside, they have their attributes with them.
said({Pid, Why, Attrs}) -> {[pid_to_list(Pid), $\s, sonde_outside_names:about(Attrs)], Why};
said(Named) -> Named.

why(noconnection) -> "the connection was lost";
why(timeout) -> "no answer in time (--timeout MS)";
why(system_limit) -> "that node reached a limit";
why(Posix) when is_atom(Posix) ->
    case file:format_error(Posix) of
        "unknown POSIX error" ++ _ -> atom_to_list(Posix);
        Text -> Text
    end;
why(Why) -> short(Why).

short(Text) when is_list(Text) ->
    case io_lib:printable_unicode_list(Text) of
        true -> Text;
        false -> io_lib:format("~0tP", [Text, 20])
    end;
short(Term) ->
    io_lib:format("~0tP", [Term, 20]).
