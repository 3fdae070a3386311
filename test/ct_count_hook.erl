%% Writes what happens, case by case, to the file that run_ct reads: so a run that is interrupted
%% still shows its results so far, and in which case it was. Cases that are not in the plan are
%% skipped and not counted.
-module(ct_count_hook).

-export([init/2, pre_init_per_testcase/4, post_end_per_testcase/5]).
-export([on_tc_fail/4, on_tc_skip/4]).
-export([say/2]).

-define(NOT_IN_THE_PLAN, not_in_the_plan).

init(_Id, {Plan, Logs}) ->
    {ok, #{plan => Plan, say => fun(Term) -> say(Logs, Term) end, since => 0}}.

pre_init_per_testcase(Suite, Case, Config, #{plan := {Default, Others}, say := Say} = State) ->
    case proplists:get_value(Case, Others, Default) of
        false -> {{skip, ?NOT_IN_THE_PLAN}, State};
        true ->
            ok = Say({begun, {Suite, Case}}),
            {Config, State#{since := now_ms()}}
    end.

post_end_per_testcase(Suite, Case, _Config, Return, #{say := Say, since := Since} = State) ->
    ok = Say({done, {Suite, Case}, now_ms() - Since}),
    {Return, State}.

%% Also called for init_per_suite and its like.
on_tc_fail(Suite, Name, Reason, #{say := Say} = State) ->
    ok = Say({failed, {Suite, name(Name)}, Reason}),
    State.

on_tc_skip(_Suite, _Name, {_Kind, ?NOT_IN_THE_PLAN}, State) ->
    State;
on_tc_skip(Suite, Name, {_Kind, Reason}, #{say := Say} = State) ->
    Case = name(Name),
    _ = [ok = Say({skipped, {Suite, Case}, reason(Reason)})
         || not lists:member(Case, [init_per_suite, end_per_suite, init_per_group, end_per_group])],
    State.

name({Case, _Group}) -> Case;
name(Case) -> Case.

reason({failed, {_Suite, Function, _Why}}) -> lists:flatten(io_lib:format("~s failed", [Function]));
reason(Why) when Why =:= undefined; Why =:= []; Why =:= <<>> -> "";
reason(Why) when is_binary(Why) -> unicode:characters_to_list(Why);
reason(Why) ->
    case io_lib:printable_unicode_list(Why) of
        true -> Why;
        false -> lists:flatten(io_lib:format("~0tP", [Why, 40]))
    end.

now_ms() -> erlang:monotonic_time(millisecond).

%% One line for each term. Terms that cannot be read back (a pid, a fun) are written as text.
say(Logs, {failed, Where, Why}) when not is_list(Why) ->
    say(Logs, {failed, Where, lists:flatten(io_lib:format("~0tP", [Why, 60]))});
say(Logs, Term) ->
    file:write_file(filename:join(Logs, "results"),
                    unicode:characters_to_binary(io_lib:format("~0tp.~n", [Term])), [append]).
