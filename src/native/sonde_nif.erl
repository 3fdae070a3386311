%% @private The native library as Erlang sees it: stubs, and the code that loads it. It knows where
%% the shared object is and why it could not be loaded. `on_load' always succeeds: otherwise the
%% module would not exist for its callers, and could not be loaded onto another node.
%%
%% This is not an API, and it is sealed. The functions that switch, adopt or leave accept only
%% processes with an initial call in one of sonde's own modules, `?OURS'. The tools of the proof,
%% which read what is not proved yet, accept only the running prover and its probes, until something
%% is proved; then no process. Every other caller gets `badarg'.
-module(sonde_nif).

-export([loaded/0]).
-export([build_id/0, instance/0, status/0, put_status/1, reader/0, want_reader/1, state/0, switch/1,
         leave/0, counters/0]).
-export([tables/0, calibrate/1, calibrate_table/1, probe/4, probe_swollen/4, probe_trap/0, read/2,
         adopt/1]).
-export([prover_begin/0, prover_end/0, prover/0, allow_probe/1, disallow_probe/1]).
-export([scan_new/6, scan_begin/1, scan_step/1, scan_feed/2, scan_rows/1, scan_rows/2, scan_rows/4, scan_info/1,
         scan_pids/3, scan_values/1, scan_values/3, scan_skip/2, scan_after/1, scan_limit/3,
         scan_part/3, scan_place/2, scan_calls/4, scan_exclude/2, scan_stacks/2, scan_stack/2, scan_groups/2, account_join/2, account_lend/4, account_settle/1,
         account_return/2, account_parts/4, account_take_parts/2]).
-export([learn/2, aim/1, aim_core/4, absent/1, identity/1, find_name/2, count_there/0, look_process/1, each_of/2]).
-export([own_scheduler/1, calibrate_schedulers/3, calibrate_ports/1, calibrate_places/1, has_schedulers/0, schedulers/3,
         guess_queue/1]).
-export([calibrate_fun/2, calibrate_literals/2, calibrate_code/1, has_code/0, has_first_call/0,
         turnover/0, trust_turnover/0, has_turnover/0, trust_self_bit/0, look_new/6, look_step/1, look_progress/1,
         look_heap/1, look_top/2, look_top_info/1, look_text/1, look_names/2, look_flat/1,
         look_refs/2, flat_quick/1, look_mailbox/1, look_shapes/2, look_pinned/3, look_slices/3,
         look_end/1, look_content/1, content/1]).
-export([probe_resource/1, calibrate_resources/5, account_new/3, account_add/3, account_want/2,
         account_sum/1, account_rank/3, account_ranked/2, account_holdings/2, account_known/2,
         account_resources/2, account_end/1]).
-ifdef(TEST).
-export([set_offset/2, fail_alloc/1, weaken/1, hold_reader/2, is_reader_held/0, release_reader/0,
         longest_calls/0, reset_calls/0, freed_at_once/0, prover_knows/0, unseal/1, forget_proof/0]).
-endif.

-export_type([scheduler/0, function_there/0, who_there/0, scan/0, attr/0, mode/0, look/0, account/0, withheld/0]).

-on_load(init/0).
-nifs([build_id/0, instance/0, status/0, do_put_status/1, reader/0, do_want_reader/1, state/0,
       do_switch/1, do_leave/0, do_counters/0, tables/0, do_calibrate/1, do_probe/4,
       do_probe_swollen/4, do_probe_trap/0, do_read/2, do_calibrate_table/1,
       do_prover_begin/0, do_prover_end/0, prover/0, do_allow_probe/1, do_disallow_probe/1,
       do_adopt/1, do_scan_new/6, do_scan_begin/1, do_scan_step/1, do_scan_feed/2, do_scan_rows/4,
       do_scan_info/1, do_scan_pids/3, do_scan_values/3, do_scan_skip/2, do_scan_after/1,
       do_scan_limit/3, do_scan_part/3, do_scan_place/2, do_scan_exclude/2, do_scan_stacks/2,
       do_scan_stack/3, do_scan_groups/3, do_calibrate_code/1, has_code/0,
       has_first_call/0, do_turnover/0, do_trust_turnover/0,
       has_turnover/0, do_trust_self_bit/0, do_account_join/2, do_account_lend/4,
       do_account_settle/1, do_account_return/2, do_account_parts/4, do_account_take_parts/2,
       do_calibrate_fun/2,
       do_calibrate_literals/2, do_look_new/6,
       do_look_step/1, do_look_progress/1, do_look_heap/1, do_look_top/2, do_look_top_info/1,
       do_look_text/1, do_look_names/2, do_look_flat/1, do_look_refs/2, flat_quick/1,
       do_look_mailbox/1, do_look_shapes/2, do_look_pinned/3, do_look_slices/3,
       do_look_end/1, do_look_content/1, do_content/1, do_probe_resource/1,
       do_calibrate_resources/5, do_account_new/3, do_account_add/3, do_account_want/2,
       do_account_sum/1, do_account_rank/3, do_account_ranked/2, do_account_holdings/2,
       do_account_known/2, do_account_resources/2, do_account_end/1, do_learn/2, do_aim/1,
       do_aim_core/4, do_absent/1, do_identity/1, do_find_name/2, count_there/0,
       do_look_process/1, do_scan_calls/4, do_each_of/2, do_own_scheduler/1,
       do_calibrate_schedulers/3, do_calibrate_ports/1, do_calibrate_places/1, has_schedulers/0, do_schedulers/3,
       do_guess_queue/2, do_queue_is_guessed/0, do_direct/1]).
-ifdef(TEST).
-nifs([do_set_offset/2, do_fail_alloc/1, do_weaken/1, do_hold_reader/2, is_reader_held/0,
       release_reader/0, longest_calls/0, reset_calls/0, freed_at_once/0, prover_knows/0, unseal/1, forget_proof/0]).
-endif.

%% Must equal SONDE_ABI in nif.h.
-define(ABI, "sonde-12").
-define(REASON, {?MODULE, not_loaded}).
%% The default reason. on_load does not record it, so there is nothing to remove.
-define(NO_LIBRARY, "no sonde_nif*.so beside the module").
%% The modules of the processes that may switch and prove, of those that may leave, and of the one that
%% may look at another OS process. On a node
%% where sonde is loaded temporarily, all of these processes belong to `sonde_guest'.
-define(OURS, [sonde_vm, sonde_guest]).
-define(LEAVERS, [sonde_janitor, sonde_guest]).
-define(AIMERS, [sonde_outside]).

-type scan() :: reference().
-type look() :: reference().
-type account() :: reference().
%% For a process that became sensitive, or ended, after it was read.
-type withheld() :: torn | gone.
-type from() :: scan() | [pid()] | undefined.
-type attr() :: atom().
-type mode() :: top | sample | diff | holders | all | each | account | stacks | groups.
%% Of another OS process, with texts in place of its atoms.
%% `undefined': there is none; `not_known': it cannot be read.
-type function_there() :: {binary(), binary(), arity()} | undefined | not_known.
-type who_there() :: {binary() | undefined | not_known, Call :: function_there(), Current :: function_there(), Status :: atom()}.
-type scheduler() :: {Number :: pos_integer(), Queue :: non_neg_integer() | undefined,
                     none | busy | torn | {pid(), Status :: atom(), Mark :: non_neg_integer(), Call :: mfa() | function_there(),
                                           Current :: mfa() | function_there()}
                     | {port, port(), Mark :: non_neg_integer(), Name :: binary()}}.
-type binary_refs() :: {Id :: pos_integer(), Size :: non_neg_integer(), Refc :: non_neg_integer(),
                        References :: pos_integer()}.

%% @doc Returns `true', or the reason why the library is not loaded.
-spec loaded() -> true | {not_loaded, string()}.
loaded() ->
    %% Asks the library itself first: an earlier load may have failed.
    try build_id() of
        {?ABI, _} -> true;
        {Other, _} -> {not_loaded, "the library speaks " ++ Other ++ ", not " ++ ?ABI}
    catch
        error:_ ->
            {not_loaded, persistent_term:get(?REASON, ?NO_LIBRARY)}
    end.

init() ->
    case load(candidates()) of
        {error, Text} when Text =/= ?NO_LIBRARY -> persistent_term:put(?REASON, Text);
        _ -> ok
    end,
    ok.

load([]) ->
    {error, ?NO_LIBRARY};
load([File | Rest]) ->
    case load_one(File) of
        {error, _} when Rest =/= [] -> load(Rest);
        Last -> Last
    end.

%% Yields first: the call of do_direct/1 must follow before this process is scheduled out.
load_one(File) ->
    true = erlang:yield(),
    case erlang:load_nif(filename:rootname(File, ".so"), load_info()) of
        ok -> first();
        {error, {_, Text}} -> {error, lists:flatten(Text)}
    end.

%% The library of an older release, left beside this module, has no such function: build_id/0 then shows
%% what it is.
first() ->
    try do_direct(first)
    catch error:_ -> ok
    end.

%% The name contains the build id: the library stays mapped forever, and a library that is loaded
%% again from the same path would be the old one.
candidates() ->
    lists:append([lists:sort(filelib:wildcard(filename:join(Dir, Pattern)))
                  || Dir <- directories(), Pattern <- ["sonde_nif-*.so", "sonde_nif.so"]]).

-ifdef(TEST).
%% Which allocation of the load is to fail.
load_info() -> persistent_term:get({?MODULE, fail_load}, 0).

%% The test library can be made to read wrong offsets; it is never shipped.
directories() ->
    case os:getenv("SONDE_TEST_NIF") of
        false -> beside();
        Dir -> [Dir]
    end.

may_switch(Modules) -> began_in(Modules) orelse unseal(asked).
-else.
load_info() -> 0.
directories() -> beside().
may_switch(Modules) -> began_in(Modules).
-endif.

%% Beside the beam: in a release, in a checkout, and where remote_load has put both. During an
%% upgrade code:which/1 still returns the old place, so the code path is searched first.
beside() ->
    case [File || File <- [code:where_is_file(?MODULE_STRING ".beam"), code:which(?MODULE)],
                  is_list(File), File =/= []] of
        [File | _] ->
            Dir = filename:dirname(File),
            [filename:join([filename:dirname(Dir), "priv"]), Dir];
        [] ->
            []
    end.

%% No fun here: while another library is loaded, a fun of this module would run code of the new one,
%% which has no functions of the library yet.

%% All rows of a finished scan, best first.
-spec scan_rows(scan()) -> [{pid(), integer()}].
scan_rows(Scan) -> scan_rows(Scan, 0).

%% The rows of one attribute of the scan, counted from 0.
-spec scan_rows(scan(), non_neg_integer()) -> [{pid(), integer()}].
scan_rows(Scan, Question) -> scan_rows_from(Scan, Question, 0).

scan_rows_from(Scan, Question, From) ->
    case scan_rows(Scan, Question, From, 1000) of
        [] -> [];
        Rows -> Rows ++ scan_rows_from(Scan, Question, From + length(Rows))
    end.

%% All that a first pass remembers. `undefined': there is no value, since the process was busy and
%% then died; `skip': there must be no row for it.
-spec scan_values(scan()) -> [{pid(), integer() | undefined | skip}].
scan_values(Scan) -> scan_values_from(Scan, 0).

scan_values_from(Scan, From) ->
    case scan_values(Scan, From, 1000) of
        [] -> [];
        Values -> Values ++ scan_values_from(Scan, From + length(Values))
    end.

%% ---- for sonde's own processes

-spec put_status(term()) -> ok | proved.
put_status(Status) ->
    of_ours(?OURS),
    said(do_put_status(Status)).
do_put_status(_Status) -> erlang:nif_error(not_loaded).

%% `filtered': system calls may be tried although the kernel filters them.
-spec want_reader(guarded | syscall | filtered) -> ok.
want_reader(Reader) ->
    of_ours(?OURS),
    said(do_want_reader(Reader)).
do_want_reader(_Reader) -> erlang:nif_error(not_loaded).

-spec switch(on | off) -> ok.
switch(OnOff) ->
    of_ours(?OURS),
    said(do_switch(OnOff)).
do_switch(_OnOff) -> erlang:nif_error(not_loaded).

%% From now on no reader works. The last running call of the last instance of the module also
%% removes the signal handler, if it is still installed. A library that is loaded later reads again.
-spec leave() -> ok.
leave() ->
    of_ours(?LEAVERS),
    do_leave().
do_leave() -> erlang:nif_error(not_loaded).

%% Makes the caller the prover, unless another process is, or a proof is no longer needed.
-spec prover_begin() -> ok | proved | {busy, pid()}.
prover_begin() ->
    of_ours(?OURS),
    said(do_prover_begin()).
do_prover_begin() -> erlang:nif_error(not_loaded).

%% Learns from processes and atoms of this VM what only the look at another OS process needs: ok, or what
%% could not be learned.
-spec learn([{pid(), atom() | [], mfa(), mfa() | []}], [{atom(), binary()}]) ->
    ok | no_reader | code | atoms | identity.
learn(Processes, Atoms) ->
    of_twin(),
    said(do_learn(Processes, Atoms)).
do_learn(_Processes, _Atoms) -> erlang:nif_error(not_loaded).

%% After learn/2: from now on the library reads that OS process, which must run the very same program. There is no
%% way back.
-spec aim(OsPid :: pos_integer()) ->
    ok | gone | forbidden | other_program | process_table | process_limit | atoms | processes.
aim(OsPid) ->
    of_twin(),
    said(do_aim(OsPid)).
do_aim(_OsPid) -> erlang:nif_error(not_loaded).

%% The same for the core file of an OS process, whose program had its headers at that address. Segments: start, size
%% in the file and offset of each, in ascending order.
-spec aim_core(Path :: binary(), Seen :: {Size :: non_neg_integer(), Mtime :: non_neg_integer(),
                                          Inode :: non_neg_integer()},
               Headers :: non_neg_integer(), Segments :: binary()) ->
    ok | changed | no_memory | no_build_id | other_program | process_table | process_limit | atoms | processes.
aim_core(Path, Seen, Headers, Segments) ->
    of_twin(),
    said(do_aim_core(Path, Seen, Headers, Segments)).
do_aim_core(_Path, _Seen, _Headers, _Segments) -> erlang:nif_error(not_loaded).

%% After aim_core/4, from slot 0 on: how many processes are in the table of that file, and not in its memory; and the
%% slot to go on with.
-spec absent(Slot :: non_neg_integer()) -> {non_neg_integer(), pos_integer() | done} | no_reader.
absent(Slot) -> said(do_absent(Slot)).
do_absent(_Slot) -> erlang:nif_error(not_loaded).

%% After learn/2 and before aim/1: starts so many processes of each priority and looks where the VM has the length
%% of the run queue in which they wait. Returns whether that is known by now; of several lengths, only one place has
%% all. A length that changes meanwhile says nothing.
-spec guess_queue([{Priority :: low | normal | high, pos_integer()}]) -> {boolean(), [pid()]}.
guess_queue(Counts) ->
    of_twin(),
    Pids = [spawn_opt(erlang, is_list, [[]], [{priority, Priority}])
            || {Priority, Count} <- Counts, _ <- lists:seq(1, Count)],
    Number = erlang:system_info(scheduler_id),
    Length = queue_length(Number),
    ok = said(do_guess_queue(Number, Length)),
    {queue_length(Number) =:= Length andalso said(do_queue_is_guessed()), Pids}.
do_guess_queue(_Number, _Length) -> erlang:nif_error(not_loaded).
do_queue_is_guessed() -> erlang:nif_error(not_loaded).

queue_length(Number) -> lists:nth(Number, erlang:statistics(run_queue_lengths_all)).

%% After aim/1: the name, the first call, the current function and the status of a process over there.
-spec identity(pid()) -> who_there() | gone.
identity(Pid) -> said(do_identity(Pid)).
do_identity(_Pid) -> erlang:nif_error(not_loaded).

%% After aim/1: the same one thing of each of these processes; perhaps only of the first ones, at least one.
-spec each_of(initial_call | current_function | registered_name | status, [pid()]) ->
    [function_there() | binary() | atom()].
each_of(What, Pids) -> said(do_each_of(What, Pids)).
do_each_of(_What, _Pids) -> erlang:nif_error(not_loaded).

%% After aim/1: the process over there that has this name. If it returns a number, go on from there; from 0 at
%% first.
-spec find_name(binary(), non_neg_integer()) -> pid() | non_neg_integer() | none | not_known | no_reader.
find_name(Text, From) -> said(do_find_name(Text, From)).
do_find_name(_Text, _From) -> erlang:nif_error(not_loaded).

%% After a look of the kind `process': all of it is of one moment. The values are those of the attributes that
%% `sonde_attr:native/0' lists, in that order; an atom says why there is none.
-spec look_process(look()) ->
    {who_there(), Leader :: pid() | undefined, [integer() | busy | ask | too_large],
     [{function_there(), Line :: non_neg_integer()}] | not_known}
  | withheld().
look_process(Look) -> said(do_look_process(Look)).
do_look_process(_Look) -> erlang:nif_error(not_loaded).

%% After aim/1: how many processes there are.
-spec count_there() -> non_neg_integer() | undefined.
count_there() -> erlang:nif_error(not_loaded).

%% Only in a VM that was started to look at another OS process: in a node, all answers would be of that one.
of_twin() ->
    of_ours(?AIMERS),
    init:get_argument(sonde_twin) =/= error orelse error(badarg).

%% The VM knows the function with which each process was spawned.
of_ours(Modules) ->
    may_switch(Modules) orelse error(badarg).

began_in(Modules) ->
    {initial_call, {Module, Function, Arity}} = process_info(self(), initial_call),
    lists:member(Module, Modules) andalso erlang:function_exported(Module, Function, Arity).

%% ---- functions that pass the number of atoms, which no caller can choose

%% A look at one process under one stamp, by the walker of that kind. N is the number of atoms, or
%% for `flat' the root: a word counts as an atom only if its index is below that number.
-spec look_new(mark | account | top | snapshot | flat | mailbox | slices | process, pid(), [atom()],
               non_neg_integer(), non_neg_integer(), non_neg_integer()) ->
    look() | busy | torn | gone | no_memory | no_reader.
look_new(flat, Pid, Want, MaxWords, MaxEntries, N) ->
    said(do_look_new(flat, Pid, Want, MaxWords, MaxEntries, N));
look_new(Kind, Pid, Want, MaxWords, MaxEntries, N) ->
    said(do_look_new(Kind, Pid, Want, MaxWords, MaxEntries, atoms(N))).
do_look_new(_Kind, _Pid, _Want, _MaxWords, _MaxEntries, _N) -> erlang:nif_error(not_loaded).

%% After the sums: resources by type; `undefined': memory of the VM itself.
-spec account_resources(account(), AtomCount :: non_neg_integer()) ->
    [{{module(), atom()} | undefined, Count :: pos_integer(), Bytes :: non_neg_integer(),
      Holders :: pos_integer()}].
account_resources(Account, N) -> said(do_account_resources(Account, atoms(N))).
do_account_resources(_Account, _AtomCount) -> erlang:nif_error(not_loaded).

atoms(N) when is_integer(N) -> min(N, erlang:system_info(atom_count));
atoms(_) -> error(badarg).

%% ---- the library

%% No function of the library raises an exception; it returns the exception to be raised here. A
%% call that begins soon after a load goes through a stub. The VM keeps a pointer to the stub for a
%% stack trace, but frees the stub while a dirty call still runs, or before the trace is read
%% (`release_beam_stubs()' in erl_nif.c, OTP 25 and 27): a single exception then ends the node.
-spec said({raise, atom()} | Answer) -> Answer.
said({raise, Why}) -> error(Why);
said(Answer) -> Answer.

%% Waits until the VM calls this load directly. During a dirty call that came through a stub, the stub is
%% the current function of the process. The VM frees the stub meanwhile, and the next process that asks
%% for `current_function' of this one ends the node. After a load it takes the VM some milliseconds to
%% replace the stubs, longer on a machine that is overloaded. The library sees when they are replaced.
%% A process that waits here runs the code of this load, so a later load changes nothing for it.
settled() ->
    case do_direct(now) of
        true -> ok;
        false -> receive after 1 -> settled() end
    end.

-spec do_direct(first | now) -> ok | boolean().
do_direct(_When) -> erlang:nif_error(not_loaded).

-spec build_id() -> {string(), string()}.
build_id() -> erlang:nif_error(not_loaded).

%% A different number for each load of the library. A handle that another load made is `badarg'.
-spec instance() -> integer().
instance() -> erlang:nif_error(not_loaded).

-spec status() -> undefined | term().
status() -> erlang:nif_error(not_loaded).

-spec reader() -> guarded | syscall | other | core | none.
reader() -> erlang:nif_error(not_loaded).

-spec state() -> on | off | none.
state() -> erlang:nif_error(not_loaded).

-spec counters() -> #{native | busy | torn | asked | faults := non_neg_integer()}.
counters() -> said(do_counters()).
do_counters() -> erlang:nif_error(not_loaded).

-spec tables() ->
    [{Index :: non_neg_integer(), Name :: atom(), Otp :: pos_integer(),
      FlagsShift :: non_neg_integer(), TypeMask :: non_neg_integer(),
      [{atom(), non_neg_integer()}]}].
tables() -> erlang:nif_error(not_loaded).

-spec prover_end() -> ok.
prover_end() -> said(do_prover_end()).
do_prover_end() -> erlang:nif_error(not_loaded).

%% The process that runs the proof now.
-spec prover() -> pid() | undefined.
prover() -> erlang:nif_error(not_loaded).

%% Allows a process that the prover has spawned.
-spec allow_probe(pid()) -> ok.
allow_probe(Pid) -> said(do_allow_probe(Pid)).
do_allow_probe(_Pid) -> erlang:nif_error(not_loaded).

-spec disallow_probe(pid()) -> ok.
disallow_probe(Pid) -> said(do_disallow_probe(Pid)).
do_disallow_probe(_Pid) -> erlang:nif_error(not_loaded).

-spec calibrate(non_neg_integer()) -> ok | {failed, id} | no_reader | not_normal_scheduler.
calibrate(Table) -> said(do_calibrate(Table)).
do_calibrate(_Table) -> erlang:nif_error(not_loaded).

-spec calibrate_table(ProcessLimit :: pos_integer()) -> ok | {failed, id | process_table} | no_reader.
calibrate_table(ProcessLimit) ->
    ok = settled(),
    said(do_calibrate_table(ProcessLimit)).
do_calibrate_table(_ProcessLimit) -> erlang:nif_error(not_loaded).

-spec probe(pid(), [atom() | {at, atom()}], atom(), term()) ->
    integer() | torn | gone | no_reader.
probe(Pid, Path, Op, Argument) -> said(do_probe(Pid, Path, Op, Argument)).
do_probe(_Pid, _Path, _Op, _Argument) -> erlang:nif_error(not_loaded).

-spec probe_swollen({pos_integer(), pos_integer(), term()}, [atom() | {at, atom()}], atom(),
                    term()) -> integer() | torn | gone | no_reader.
probe_swollen(Swell, Path, Op, Argument) -> said(do_probe_swollen(Swell, Path, Op, Argument)).
do_probe_swollen(_Swell, _Path, _Op, _Argument) -> erlang:nif_error(not_loaded).

%% Yields once, leaving a NIF trap on the caller.
-spec probe_trap() -> ok.
probe_trap() -> said(do_probe_trap()).
do_probe_trap() -> erlang:nif_error(not_loaded).

-spec read(pid(), attr()) -> integer() | busy | torn | gone | ask | timeslice | no_reader.
read(Pid, Attr) -> said(do_read(Pid, Attr)).
do_read(_Pid, _Attr) -> erlang:nif_error(not_loaded).

%% Marks the calibrated layout as proved, with this outcome.
-spec adopt(term()) -> ok | proved.
adopt(Status) -> said(do_adopt(Status)).
do_adopt(_Status) -> erlang:nif_error(not_loaded).

%% `each': the answers come as `{rows, _}' while the scan runs; for the given processes, or for all.
%% `account': what each process holds goes into an account.
-spec scan_new(attr() | [attr()], mode(), non_neg_integer(), from() | {account(), from()}, [pid()],
               non_neg_integer()) -> scan().
scan_new(Attr, Mode, N, First, Exclude, MaxEntries) ->
    said(do_scan_new(Attr, Mode, N, First, Exclude, MaxEntries)).
do_scan_new(_Attr, _Mode, _N, _First, _Exclude, _MaxEntries) -> erlang:nif_error(not_loaded).

%% The first step, without a dirty scheduler; `more': it is not finished, or was not even begun.
-spec scan_begin(scan()) ->
    more | done | {ask, [pid()]} | {rows, [{pid(), [integer() | pid()]}]}
    | {error, system_limit | no_reader | no_memory}.
scan_begin(Scan) -> said(do_scan_begin(Scan)).
do_scan_begin(_Scan) -> erlang:nif_error(not_loaded).

-spec scan_step(scan()) ->
    more | done | {ask, [pid()]} | {rows, [{pid(), [integer() | pid()]}]}
    | {error, system_limit | no_reader | no_memory}.
scan_step(Scan) ->
    ok = settled(),
    said(do_scan_step(Scan)).
do_scan_step(_Scan) -> erlang:nif_error(not_loaded).

-spec scan_feed(scan(), [{pid(), integer() | [integer()] | undefined}]) -> ok.
scan_feed(Scan, Answers) -> said(do_scan_feed(Scan, Answers)).
do_scan_feed(_Scan, _Answers) -> erlang:nif_error(not_loaded).

-spec scan_rows(scan(), non_neg_integer(), non_neg_integer(), non_neg_integer()) ->
    [{pid(), integer()}].
scan_rows(Scan, Question, From, Count) -> said(do_scan_rows(Scan, Question, From, Count)).
do_scan_rows(_Scan, _Question, _From, _Count) -> erlang:nif_error(not_loaded).

%% `answered': the number of processes with a row; `too_large': of those to be asked, the number
%% with too large a heap; `large': which of those to be asked now; `waiting': up to ten processes
%% that the scan has not reached or not finished.
-spec scan_info(scan()) -> #{entries | left | top | answered | too_large := non_neg_integer(),
                             large | waiting := [pid()]}.
scan_info(Scan) -> said(do_scan_info(Scan)).
do_scan_info(_Scan) -> erlang:nif_error(not_loaded).

-spec scan_pids(scan(), non_neg_integer(), non_neg_integer()) -> [pid()].
scan_pids(Scan, From, Count) -> said(do_scan_pids(Scan, From, Count)).
do_scan_pids(_Scan, _From, _Count) -> erlang:nif_error(not_loaded).

-spec scan_values(scan(), non_neg_integer(), non_neg_integer()) ->
    [{pid(), integer() | undefined | skip}].
scan_values(Scan, From, Count) -> said(do_scan_values(Scan, From, Count)).
do_scan_values(_Scan, _From, _Count) -> erlang:nif_error(not_loaded).

-spec scan_skip(scan(), pid()) -> ok.
scan_skip(Scan, Pid) -> said(do_scan_skip(Scan, Pid)).
do_scan_skip(_Scan, _Pid) -> erlang:nif_error(not_loaded).

-spec scan_after(scan()) -> ok.
scan_after(Scan) -> said(do_scan_after(Scan)).
do_scan_after(_Scan) -> erlang:nif_error(not_loaded).

%% After calibrate: learns from a known fun where a fun names its function.
-spec calibrate_fun(fun(), module()) -> ok.
calibrate_fun(Fun, Module) -> said(do_calibrate_fun(Fun, Module)).
do_calibrate_fun(_Fun, _Module) -> erlang:nif_error(not_loaded).

%% Before the first step: the largest heap in words that is marked, and the number of microseconds
%% for which busy processes are retried without a pause. 0: a few rounds with pauses.
-spec scan_limit(scan(), non_neg_integer(), 0..1000000) -> ok.
scan_limit(Scan, MaxWords, PatienceUs) -> said(do_scan_limit(Scan, MaxWords, PatienceUs)).
do_scan_limit(_Scan, _MaxWords, _PatienceUs) -> erlang:nif_error(not_loaded).

%% Before the first step: of so many parts of the process table only this one, from 0. A process
%% stays in its part.
-spec scan_part(scan(), non_neg_integer(), 1..64) -> ok.
scan_part(Scan, Part, Parts) -> said(do_scan_part(Scan, Part, Parts)).
do_scan_part(_Scan, _Part, _Parts) -> erlang:nif_error(not_loaded).

%% Adds what the second account has of other processes. Repeat it until it says `ok'.
-spec account_join(account(), account()) -> ok | more | {error, system_limit | no_memory}.
account_join(Account, From) ->
    ok = settled(),
    said(do_account_join(Account, From)).
do_account_join(_Account, _From) -> erlang:nif_error(not_loaded).

%% So that several threads can settle, `To', an account that was ended, gets every N-th part of another one, from
%% the I-th on. In between, only account_settle/1 may be called.
-spec account_lend(account(), account(), pos_integer(), pos_integer()) ->
    ok | {error, system_limit | no_memory}.
account_lend(Account, To, I, N) ->
    ok = settled(),
    said(do_account_lend(Account, To, I, N)).
do_account_lend(_Account, _To, _I, _N) -> erlang:nif_error(not_loaded).

-spec account_return(account(), account()) -> ok | more | {error, system_limit | no_memory}.
account_return(Account, From) ->
    ok = settled(),
    said(do_account_return(Account, From)).
do_account_return(_Account, _From) -> erlang:nif_error(not_loaded).

%% Brings the census of an account up to date. Other calls do that, too, by one thread.
-spec account_settle(account()) -> ok | more | {error, system_limit | no_memory}.
account_settle(Account) ->
    ok = settled(),
    said(do_account_settle(Account)).
do_account_settle(_Account) -> erlang:nif_error(not_loaded).

%% So that several threads can add up the parts of the processes of `Of', which is settled: the first account, which
%% is empty, adds up the I-th of N shares, from 0. In between, `Of' may only be read. Repeat it until it says `ok'.
-spec account_parts(account(), Of :: account(), non_neg_integer(), pos_integer()) ->
    ok | more | {error, system_limit | no_memory}.
account_parts(Account, Of, I, N) ->
    ok = settled(),
    said(do_account_parts(Account, Of, I, N)).
do_account_parts(_Account, _Of, _I, _N) -> erlang:nif_error(not_loaded).

%% Takes the share of the second account, and leaves that one empty. After all shares, account_rank/3 adds up nothing.
-spec account_take_parts(account(), account()) -> ok | more | {error, system_limit | no_memory}.
account_take_parts(Account, From) ->
    ok = settled(),
    said(do_account_take_parts(Account, From)).
do_account_take_parts(_Account, _From) -> erlang:nif_error(not_loaded).

%% Before the first step, of a scan that asks for `waits_for': only of processes that wait at the same
%% place in the code as this one does.
-spec scan_place(scan(), pid()) -> ok | busy | torn | gone | no_reader | no_memory.
scan_place(Scan, Pid) -> said(do_scan_place(Scan, Pid)).
do_scan_place(_Scan, _Pid) -> erlang:nif_error(not_loaded).

%% The same after aim/1: only of processes that are in one of these functions of that module, with any arity; also
%% how many such functions there are. Starts at `{0, 0}'.
-spec scan_calls(scan(), binary(), [binary()], From) ->
    {From | done, non_neg_integer()} | no_reader | no_memory
      when From :: {non_neg_integer(), non_neg_integer()}.
scan_calls(Scan, Module, Functions, From) -> said(do_scan_calls(Scan, Module, Functions, From)).
do_scan_calls(_Scan, _Module, _Functions, _From) -> erlang:nif_error(not_loaded).

%% After a scan of mode `stacks': nodes at which stacks end, with the number of processes that have this
%% stack, and one of them. Starts at 1.
-spec scan_stacks(scan(), From :: pos_integer()) ->
    {Next :: pos_integer() | done, [{Node :: pos_integer(), Processes :: pos_integer(), pid()}]}.
scan_stacks(Scan, From) -> said(do_scan_stacks(Scan, From)).
do_scan_stacks(_Scan, _From) -> erlang:nif_error(not_loaded).

%% The functions on that stack, the last call first. Their names come from memory that may be anything by
%% now, so the library needs to know how many atoms there are.
-spec scan_stack(scan(), Node :: pos_integer()) -> [mfa() | function_there()] | not_known | no_reader.
scan_stack(Scan, Node) ->
    ok = settled(),
    said(do_scan_stack(Scan, Node, erlang:system_info(atom_count))).
do_scan_stack(_Scan, _Node, _Atoms) -> erlang:nif_error(not_loaded).

%% After a scan of mode `groups', whose last attribute is `origin': processes that have the same group leader
%% (`undefined': it is of another node), first call and `$initial_call', how many they are, one of them, and the sums
%% of the other attributes. Starts at 1.
-spec scan_groups(scan(), From :: pos_integer()) ->
    {Next :: pos_integer() | done,
     [{pid() | undefined, mfa() | function_there(), mfa() | function_there() | undefined, Processes :: pos_integer(), pid(), [integer()]}]}
    | no_reader.
scan_groups(Scan, From) -> said(do_scan_groups(Scan, From, erlang:system_info(atom_count))).
do_scan_groups(_Scan, _From, _Atoms) -> erlang:nif_error(not_loaded).

%% After calibrate: learns how the VM lists its code from the first probe, which waits in that function,
%% and whether that is right for all of them. Learns the lines as well, from those that have one.
-spec calibrate_code([{Probe :: pid(), mfa(), Line :: non_neg_integer()}]) -> boolean().
calibrate_code(Known) ->
    ok = settled(),
    said(do_calibrate_code(Known)).
do_calibrate_code(_Known) -> erlang:nif_error(not_loaded).

%% Whether calibrate_places/1 has learned where the first call is; never after aim/1.
-spec has_first_call() -> boolean().
has_first_call() -> erlang:nif_error(not_loaded).

%% For the prover: the number of processes by the process table's own count, and how many it ever had.
-spec turnover() -> {non_neg_integer(), non_neg_integer()} | no_reader.
turnover() -> said(do_turnover()).
do_turnover() -> erlang:nif_error(not_loaded).

%% The prover found these counts right, so a sweep may end where all processes were met.
-spec trust_turnover() -> ok.
trust_turnover() -> said(do_trust_turnover()).
do_trust_turnover() -> erlang:nif_error(not_loaded).

%% The prover found that one bit of a process's state tells that the process has sent to itself, not that messages
%% wait, as in newer releases.
-spec trust_self_bit() -> ok.
trust_self_bit() -> said(do_trust_self_bit()).
do_trust_self_bit() -> erlang:nif_error(not_loaded).

-spec has_turnover() -> boolean().
has_turnover() -> erlang:nif_error(not_loaded).

%% After calibrate: whether the scheduler that runs this process was found; it has this number.
-spec own_scheduler(Number :: pos_integer()) -> boolean().
own_scheduler(Number) -> said(do_own_scheduler(Number)).
do_own_scheduler(_Number) -> erlang:nif_error(not_loaded).

%% After own_scheduler/1: whether all others were found, so many of each kind.
-spec calibrate_schedulers(Normal :: pos_integer(), DirtyCpu :: pos_integer(), DirtyIo :: pos_integer()) ->
    boolean().
calibrate_schedulers(Normal, DirtyCpu, DirtyIo) ->
    ok = settled(),
    said(do_calibrate_schedulers(Normal, DirtyCpu, DirtyIo)).
do_calibrate_schedulers(_Normal, _DirtyCpu, _DirtyIo) -> erlang:nif_error(not_loaded).

%% After calibrate: whether the port table was found.
-spec calibrate_ports(PortLimit :: pos_integer()) -> boolean().
calibrate_ports(PortLimit) ->
    ok = settled(),
    said(do_calibrate_ports(PortLimit)).
do_calibrate_ports(_PortLimit) -> erlang:nif_error(not_loaded).

%% After calibrate: whether the words were found that say in which function a process is. One of these probes at
%% least is in a function that the VM keeps.
-spec calibrate_places([{Probe :: pid(), [], mfa(), mfa() | []}]) -> boolean().
calibrate_places(Known) ->
    ok = settled(),
    said(do_calibrate_places(Known)).
do_calibrate_places(_Known) -> erlang:nif_error(not_loaded).

%% Whether all of this was learned.
-spec has_schedulers() -> boolean().
has_schedulers() -> erlang:nif_error(not_loaded).

%% Some schedulers of that kind, after the first From ones, and how many came before the next: what each of them
%% runs. A mark stays the same only if nothing else ran there meanwhile. `busy': another process at
%% each look; `torn': not readable.
-spec schedulers(normal | dirty_cpu | dirty_io, From :: non_neg_integer(), AtomCount :: non_neg_integer()) ->
    {Next :: pos_integer() | done, [scheduler()]} | no_reader.
schedulers(Kind, From, N) -> said(do_schedulers(Kind, From, atoms(N))).
do_schedulers(_Kind, _From, _AtomCount) -> erlang:nif_error(not_loaded).

%% Whether calibrate_code/1 has learned it.
-spec has_code() -> boolean().
has_code() -> erlang:nif_error(not_loaded).

%% Leaves these processes out as well, from now on.
-spec scan_exclude(scan(), [pid()]) -> ok.
scan_exclude(Scan, Pids) -> said(do_scan_exclude(Scan, Pids)).
do_scan_exclude(_Scan, _Pids) -> erlang:nif_error(not_loaded).

%% After calibrate: one literal, and the number of bytes reserved for all literals; 0: not known.
-spec calibrate_literals(tuple(), non_neg_integer()) -> ok.
calibrate_literals(Literal, Bytes) -> said(do_calibrate_literals(Literal, Bytes)).
do_calibrate_literals(_Literal, _Bytes) -> erlang:nif_error(not_loaded).

%% `gone': the process is gone, or what was looked for is not there.
-spec look_step(look()) ->
    more | done | busy | torn | gone | ask | too_large | no_memory | no_reader.
look_step(Look) ->
    ok = settled(),
    said(do_look_step(Look)).
do_look_step(_Look) -> erlang:nif_error(not_loaded).

%% The number of words read so far, and their total; after `too_large' the total is what was too
%% large.
-spec look_progress(look()) -> {non_neg_integer(), non_neg_integer()}.
look_progress(Look) -> said(do_look_progress(Look)).
do_look_progress(_Look) -> erlang:nif_error(not_loaded).

%% Frees its memory, which would otherwise stay until the next collection of the holder. It has no
%% answer afterwards: `look_step/1' returns `gone'. `more': call again.
-spec look_end(look()) -> ok | more.
look_end(Look) ->
    ok = settled(),
    said(do_look_end(Look)).
do_look_end(_Look) -> erlang:nif_error(not_loaded).

%% After `mark' or `account' is done. All numbers but `words' are bytes.
-spec look_heap(look()) ->
    {#{atom() => term()}, #{atom() => non_neg_integer()},
     [{Kind :: term(), non_neg_integer(), non_neg_integer()}]} | withheld().
look_heap(Look) -> said(do_look_heap(Look)).
do_look_heap(_Look) -> erlang:nif_error(not_loaded).

%% After `top' is done, where MaxEntries is the number of rows: the next few rows from this one on,
%% counted from 0. A token is `{v, Term}' or describes a term at that place; if the term has parts,
%% their number follows. An atom of another OS process is `{atom, Text}'.
-spec look_top(look(), non_neg_integer()) ->
    [{Way :: [term()], Retained :: pos_integer(), Self :: pos_integer(), Kind :: term(),
      Preview :: [term()]}] | withheld().
look_top(Look, From) -> said(do_look_top(Look, From)).
do_look_top(_Look, _From) -> erlang:nif_error(not_loaded).

%% For `snapshot', where MaxEntries is the number of nodes: when it is done, and each time when it
%% returns `ask'. Returns the next text, and for nodes names with previews, and the final number of
%% nodes and edges. The look can then continue.
-spec look_text(look()) ->
    {binary(), [{Name :: term(), Preview :: [term()]}], non_neg_integer(), non_neg_integer()}
    | busy | torn | gone.
look_text(Look) -> said(do_look_text(Look)).
do_look_text(_Look) -> erlang:nif_error(not_loaded).

%% The parts of its names: the next few from this one on, counted from 0.
-spec look_names(look(), non_neg_integer()) -> [binary() | tuple()] | withheld().
look_names(Look, From) -> said(do_look_names(Look, From)).
do_look_names(_Look, _From) -> erlang:nif_error(not_loaded).

%% The cost of that look: `bytes' is the most that it held at one time.
-spec look_top_info(look()) -> #{words | reached | nodes | bytes := non_neg_integer()}.
look_top_info(Look) -> said(do_look_top_info(Look)).
do_look_top_info(_Look) -> erlang:nif_error(not_loaded).
%% After `flat' is done: words, bytes of large binaries, visible bytes of off-heap binaries, their
%% size, words with each part counted once, and words of literals.
-spec look_flat(look()) ->
    {non_neg_integer(), non_neg_integer(), non_neg_integer(), non_neg_integer(),
     non_neg_integer(), non_neg_integer()}.
look_flat(Look) -> said(do_look_flat(Look)).
do_look_flat(_Look) -> erlang:nif_error(not_loaded).

%% After `flat' with `refs': binaries to which literals refer, starting at 0; and where to continue.
-spec look_refs(look(), non_neg_integer()) -> {non_neg_integer() | done, [binary_refs()]}.
look_refs(Look, At) -> said(do_look_refs(Look, At)).
do_look_refs(_Look, _At) -> erlang:nif_error(not_loaded).

%% Words, and bytes of large binaries, of a small term of the caller. `more': the term is not small.
-spec flat_quick(term()) -> {non_neg_integer(), non_neg_integer()} | more.
flat_quick(_Term) -> erlang:nif_error(not_loaded).

%% After `mailbox' is done: the number of all messages; for those examined, words, visible bytes of
%% off-heap binaries, their number, and how often they refer to constants of another OS process, whose
%% size is not known.
-spec look_mailbox(look()) ->
    {non_neg_integer(), non_neg_integer(), non_neg_integer(), non_neg_integer(), non_neg_integer()}.
look_mailbox(Look) -> said(do_look_mailbox(Look)).
do_look_mailbox(_Look) -> erlang:nif_error(not_loaded).

%% A message that is an atom is `{Atom}'. If content may not be shown, all messages are `other'.
-spec look_shapes(look(), non_neg_integer()) ->
    {non_neg_integer() | done,
     [{Shape :: term(), Messages :: pos_integer(), Words :: non_neg_integer(),
       Visible :: non_neg_integer(), pid() | undefined}]} | withheld().
look_shapes(Look, From) -> said(do_look_shapes(Look, From)).
do_look_shapes(_Look, _From) -> erlang:nif_error(not_loaded).

%% Whether the answers of this look have content, or why not.
-spec look_content(look()) -> true | forbidden | sensitive.
look_content(Look) -> said(do_look_content(Look)).
do_look_content(_Look) -> erlang:nif_error(not_loaded).

%% `false' forbids content while the library stays loaded; `true' changes nothing. Returns whether
%% content is allowed.
-spec content(boolean()) -> boolean().
content(Allowed) -> said(do_content(Allowed)).
do_content(_Allowed) -> erlang:nif_error(not_loaded).

%% After `slices' is done, from the given one on and at most so many: the binaries that the heap
%% shows, by address; the visible bytes of each, and the number of slices.
-spec look_pinned(look(), non_neg_integer(), non_neg_integer()) ->
    [{Id :: non_neg_integer(), Size :: non_neg_integer(), Refc :: non_neg_integer(),
      Visible :: non_neg_integer(), Slices :: pos_integer()}].
look_pinned(Look, From, Count) -> said(do_look_pinned(Look, From, Count)).
do_look_pinned(_Look, _From, _Count) -> erlang:nif_error(not_loaded).

%% The slices of all of them, in the same order.
-spec look_slices(look(), non_neg_integer(), non_neg_integer()) ->
    [{Start :: non_neg_integer(), End :: non_neg_integer()}].
look_slices(Look, From, Count) -> said(do_look_slices(Look, From, Count)).
do_look_slices(_Look, _From, _Count) -> erlang:nif_error(not_loaded).

%% A resource of so many bytes that holds nothing.
-spec probe_resource(1..4096) -> reference().
probe_resource(Bytes) -> said(do_probe_resource(Bytes)).
do_probe_resource(_Bytes) -> erlang:nif_error(not_loaded).

%% After calibrate: two probes, the second one larger; another reference to memory of the VM; the id
%% of the first one in `process_info(_, magic_ref)'; this module. The fields to read are those that
%% show these known values.
-spec calibrate_resources(reference(), reference(), atomics:atomics_ref(), non_neg_integer(),
                          module()) ->
    [{atom(), boolean()}].
calibrate_resources(Probe, Larger, Other, Id, Module) ->
    said(do_calibrate_resources(Probe, Larger, Other, Id, Module)).
do_calibrate_resources(_Probe, _Larger, _Other, _Id, _Module) -> erlang:nif_error(not_loaded).

%% For at most so many binaries; of more it keeps a sample. The flags: whether the allocator tags
%% blocks; and whether to keep what each process holds, which parts and holdings need.
-spec account_new(non_neg_integer(), boolean(), boolean()) -> account().
account_new(MaxEntries, Tagged, Keeps) -> said(do_account_new(MaxEntries, Tagged, Keeps)).
do_account_new(_MaxEntries, _Tagged, _Keeps) -> erlang:nif_error(not_loaded).

%% The references of a table, or of the literals: at most 1000, each one once for each table. `more': then
%% again with the same list, of which nothing was added yet.
-spec account_add(account(), table | literal, [binary_refs()]) ->
    more | ok | {error, no_memory | system_limit}.
account_add(Account, Kind, Binaries) ->
    ok = settled(),
    said(do_account_add(Account, Kind, Binaries)).
do_account_add(_Account, _Kind, _Binaries) -> erlang:nif_error(not_loaded).

%% Before anything else: counts only these binaries, with their holders. Later: only their holdings are
%% listed. At most 1000.
-spec account_want(account(), [Id :: pos_integer()]) ->
    ok | {error, no_memory | system_limit}.
account_want(Account, Ids) ->
    ok = settled(),
    said(do_account_want(Account, Ids)).
do_account_want(_Account, _Ids) -> erlang:nif_error(not_loaded).

%% Bytes: `{Exclusive, Shared, Tables, Queues, Literals, Mixed, Resources, Elsewhere}'; overhead;
%% the number of known binaries; the Level of the sample, of 2^Level binaries one; the variance of
%% the bytes; and the memory that the account takes.
-spec account_sum(account()) ->
    more | {tuple(), non_neg_integer(), non_neg_integer(), non_neg_integer(), float(),
            non_neg_integer()} | {error, no_memory | system_limit}.
account_sum(Account) ->
    ok = settled(),
    said(do_account_sum(Account)).
do_account_sum(_Account) -> erlang:nif_error(not_loaded).

-spec account_rank(account(), size | count | parts, non_neg_integer() | next) ->
    more | ok | {error, no_memory | system_limit}.
account_rank(Account, By, N) ->
    ok = settled(),
    said(do_account_rank(Account, By, N)).
do_account_rank(_Account, _By, _N) -> erlang:nif_error(not_loaded).

-spec account_ranked(account(), From :: non_neg_integer()) ->
    [binary_refs()] | [{Part :: non_neg_integer(), pid()}].
account_ranked(Account, From) -> said(do_account_ranked(Account, From)).
do_account_ranked(_Account, _From) -> erlang:nif_error(not_loaded).

%% What processes hold of the wanted binaries, and how many of the references are in messages.
-spec account_holdings(account(), first | next) ->
    {more | done, [{Id :: pos_integer(), pid(), References :: pos_integer(),
                    Queued :: non_neg_integer()}]}.
account_holdings(Account, Which) ->
    ok = settled(),
    said(do_account_holdings(Account, Which)).
do_account_holdings(_Account, _Which) -> erlang:nif_error(not_loaded).

-spec account_known(account(), Id :: non_neg_integer()) -> binary_refs() | undefined.
account_known(Account, Id) -> said(do_account_known(Account, Id)).
do_account_known(_Account, _Id) -> erlang:nif_error(not_loaded).

%% Frees the memory of the account, like `look_end/1'; `more': call again.
-spec account_end(account()) -> ok | more.
account_end(Account) ->
    ok = settled(),
    said(do_account_end(Account)).
do_account_end(_Account) -> erlang:nif_error(not_loaded).

-ifdef(TEST).
-spec set_offset(atom(), non_neg_integer()) -> ok.
set_offset(Field, Offset) -> said(do_set_offset(Field, Offset)).
do_set_offset(_Field, _Offset) -> erlang:nif_error(not_loaded).

-spec fail_alloc(non_neg_integer()) -> ok.
fail_alloc(N) -> said(do_fail_alloc(N)).
do_fail_alloc(_N) -> erlang:nif_error(not_loaded).

%% 0: sound; 1: compares no stamp; 2: compares only the reductions.
-spec weaken(0..2) -> ok.
weaken(How) -> said(do_weaken(How)).
do_weaken(_How) -> erlang:nif_error(not_loaded).

%% Stops the next reader of this process, once, until it is released (or for 20 s): after it opened
%% the stamp and before it reads, or after it has read all and before it compares the stamp. Or stops this
%% process, as the prover, before it writes what it learned. The reader blocks its scheduler.
-spec hold_reader(pid(), opened | walked | learned) -> ok.
hold_reader(Pid, Where) -> said(do_hold_reader(Pid, Where)).
do_hold_reader(_Pid, _Where) -> erlang:nif_error(not_loaded).

-spec is_reader_held() -> boolean().
is_reader_held() -> erlang:nif_error(not_loaded).

%% Whether a reader was held until now.
-spec release_reader() -> boolean().
release_reader() -> erlang:nif_error(not_loaded).

%% The longest call of each function on each kind of scheduler that ran it, in CPU time of its
%% thread. Includes destructors, and what a NIF schedules; functions that were not called have 0.
-spec longest_calls() ->
    [{Name :: atom(), arity(), normal | dirty, Ns :: non_neg_integer(),
      Calls :: non_neg_integer()}].
longest_calls() -> erlang:nif_error(not_loaded).

%% The most bytes that one call of each function freed in large blocks without leaving them to later calls;
%% functions that freed none are left out.
-spec freed_at_once() -> [{Name :: atom(), Bytes :: pos_integer()}].
freed_at_once() -> erlang:nif_error(not_loaded).

-spec reset_calls() -> ok.
reset_calls() -> erlang:nif_error(not_loaded).

%% What the prover learned up to now.
-spec prover_knows() -> [table | turnover | self_bit | code | places | schedulers | ports].
prover_knows() -> erlang:nif_error(not_loaded).

%% Whether all sealed functions were open to every process until now.
-spec unseal(boolean() | asked) -> boolean().
unseal(_Open) -> erlang:nif_error(not_loaded).

%% Resets the proof: nothing is proved, and nothing was tried.
-spec forget_proof() -> ok.
forget_proof() -> erlang:nif_error(not_loaded).
-endif.
