%% @private
%% Why a process of another OS process, or of a core file, has no row. A living one may be read in the next call;
%% what a core file does not have, it never has.
-module(sonde_outside_missed).

-export([why/3]).

-define(LOOK_MS, 1000).

%% @doc Words for the reason that a scan gives.
-spec why(core | living, pid(), atom()) -> atom().
why(core, _, no_code) -> 'its code is not in the file';
why(living, _, no_code) -> 'its code cannot be read';
why(Kind, Pid, busy) -> at_rest(Kind, Pid, sonde_nif:each_of(status, [Pid]));
why(_, _, Why) -> Why.

at_rest(living, _, [waiting]) -> 'waits, but not known from outside';
at_rest(living, _, [suspended]) -> suspended;
at_rest(living, _, _) -> busy;
at_rest(core, _, [running]) -> ran;
at_rest(core, _, [garbage_collecting]) -> 'collected its heap';
at_rest(core, _, [exiting]) -> 'was ending';
at_rest(core, Pid, [runnable]) -> in_file(Pid, 'wanted to run');
at_rest(core, Pid, [waiting]) -> in_file(Pid, 'waits, but not known from outside');
at_rest(core, Pid, [suspended]) -> in_file(Pid, suspended);
at_rest(core, _, _) -> 'not in the file'.

%% That word, if the process and its code are in the file.
in_file(Pid, Why) ->
    case sonde_outside_info:process(Pid, [], #{timeout => ?LOOK_MS}) of
        [_ | _] = Sections ->
            Items = maps:from_list(lists:append([Items || {_, Items} <- Sections])),
            case Items of
                #{current_stacktrace := busy} -> 'not in the file';
                #{memory := not_known} -> Why;
                #{current_function := not_known} -> 'its code is not in the file';
                #{} -> Why
            end;
        _ ->
            'not in the file'
    end.
