%% @private
%% The native side as Erlang sees it: stubs, and the loading of the library.
%%
%% Knows where the shared object is and why it could not be loaded. `on_load' always succeeds: a
%% module that fails there does not exist for its callers, and could not be brought to another node.
-module(sonde_nif).

-export([loaded/0]).
-export([build_id/0, status/0, put_status/1, reader/0, want_reader/1, state/0, switch/1,
         counters/0]).
-export([tables/0, calibrate/2, probe/4, probe_swollen/4, read/2,
         adopt/0]).
-export([scan_new/6, scan_step/1, scan_feed/2, scan_rows/1, scan_rows/2, scan_rows/4, scan_info/1,
         scan_pids/3, scan_values/1, scan_values/3, scan_skip/2, scan_after/1]).
-ifdef(TEST).
-export([set_offset/2, fail_alloc/1, weaken/1]).
-endif.

-export_type([scan/0, attr/0, mode/0]).

-on_load(init/0).
-nifs([build_id/0, status/0, put_status/1, reader/0, want_reader/1, state/0, switch/1,
       counters/0, tables/0, calibrate/2, probe/4, probe_swollen/4, read/2,
         adopt/0, scan_new/6, scan_step/1, scan_feed/2,
       scan_rows/4, scan_info/1, scan_pids/3, scan_values/3, scan_skip/2, scan_after/1]).
-ifdef(TEST).
-nifs([set_offset/2, fail_alloc/1, weaken/1]).
-endif.

%% Must be what SONDE_ABI says in nif.h.
-define(ABI, "sonde-2").
-define(REASON, {?MODULE, not_loaded}).

-type scan() :: reference().
-type attr() :: atom().
-type mode() :: top | sample | diff | holders | all | each.

%% @doc `true', or the reason why there is no native side.
-spec loaded() -> true | {not_loaded, string()}.
loaded() ->
    %% First of all the library itself: an earlier loading may have failed.
    try build_id() of
        {?ABI, _} -> true;
        {Other, _} -> {not_loaded, "the library speaks " ++ Other ++ ", not " ++ ?ABI}
    catch
        error:_ ->
            {not_loaded, persistent_term:get(?REASON, "the module was loaded without its library")}
    end.

init() ->
    case load(candidates()) of
        ok -> ok;
        {error, Text} -> persistent_term:put(?REASON, Text)
    end,
    ok.

load([]) ->
    {error, "no sonde_nif*.so beside the module"};
load([File]) ->
    load_one(File);
load([File | Rest]) ->
    case load_one(File) of
        ok -> ok;
        {error, _} -> load(Rest)
    end.

load_one(File) ->
    case erlang:load_nif(filename:rootname(File, ".so"), load_info()) of
        ok -> ok;
        {error, {_, Text}} -> {error, lists:flatten(Text)}
    end.

%% In the tests' build, which allocation of the loading is to fail.
-ifdef(TEST).
load_info() -> persistent_term:get({?MODULE, fail_load}, 0).
-else.
load_info() -> 0.
-endif.

%% The name carries the build's id: the library stays mapped for ever, and a library that is loaded
%% again from the same path would be the old one.
candidates() ->
    lists:append([lists:sort(filelib:wildcard(filename:join(Dir, Pattern)))
                  || Dir <- directories(), Pattern <- ["sonde_nif-*.so", "sonde_nif.so"]]).

-ifdef(TEST).
%% The tests' own library can be told to read wrong offsets; it is never shipped.
directories() ->
    case os:getenv("SONDE_TEST_NIF") of
        false -> beside();
        Dir -> [Dir]
    end.
-else.
directories() -> beside().
-endif.

%% Beside the beam: in a release, in a checkout, and where remote_load has put both. In an upgrade
%% code:which/1 still says where the old one is, so the code path is asked first.
beside() ->
    case [File || File <- [code:where_is_file(?MODULE_STRING ".beam"), code:which(?MODULE)],
                  is_list(File), File =/= []] of
        [File | _] ->
            Dir = filename:dirname(File),
            [filename:join([filename:dirname(Dir), "priv"]), Dir];
        [] ->
            []
    end.

%% All rows of a scan that is done, best first.
-spec scan_rows(scan()) -> [{pid(), integer()}].
scan_rows(Scan) -> scan_rows(Scan, 0).

%% Of one of its questions, counted from 0.
-spec scan_rows(scan(), non_neg_integer()) -> [{pid(), integer()}].
scan_rows(Scan, Question) -> scan_rows_from(Scan, Question, 0).

scan_rows_from(Scan, Question, From) ->
    case scan_rows(Scan, Question, From, 1000) of
        [] -> [];
        Rows -> Rows ++ scan_rows_from(Scan, Question, From + length(Rows))
    end.

%% All that a first look remembers. `undefined': it has no value, since the process was busy and then
%% died; `skip': there is to be no row for it.
-spec scan_values(scan()) -> [{pid(), integer() | undefined | skip}].
scan_values(Scan) -> scan_values_from(Scan, 0).

scan_values_from(Scan, From) ->
    case scan_values(Scan, From, 1000) of
        [] -> [];
        Values -> Values ++ scan_values_from(Scan, From + length(Values))
    end.

-spec build_id() -> {string(), string()}.
build_id() -> erlang:nif_error(not_loaded).

-spec status() -> undefined | term().
status() -> erlang:nif_error(not_loaded).

-spec put_status(term()) -> ok.
put_status(_Status) -> erlang:nif_error(not_loaded).

-spec reader() -> guarded | syscall | none.
reader() -> erlang:nif_error(not_loaded).

-spec want_reader(guarded | syscall) -> ok.
want_reader(_Reader) -> erlang:nif_error(not_loaded).

-spec state() -> on | off | none.
state() -> erlang:nif_error(not_loaded).

-spec switch(on | off) -> ok.
switch(_OnOff) -> erlang:nif_error(not_loaded).

-spec counters() -> #{native | busy | torn | asked | faults := non_neg_integer()}.
counters() -> erlang:nif_error(not_loaded).

-spec tables() ->
    [{Index :: non_neg_integer(), Name :: atom(), Otp :: pos_integer(),
      FlagsShift :: non_neg_integer(), TypeMask :: non_neg_integer(),
      [{atom(), non_neg_integer()}]}].
tables() -> erlang:nif_error(not_loaded).

-spec calibrate(non_neg_integer(), pos_integer()) ->
    ok | {failed, id | process_table} | no_reader | not_normal_scheduler.
calibrate(_Table, _ProcessLimit) -> erlang:nif_error(not_loaded).

-spec probe(pid(), [atom() | {at, atom()}], atom(), term()) ->
    integer() | torn | gone | no_reader.
probe(_Pid, _Path, _Op, _Argument) -> erlang:nif_error(not_loaded).

-spec probe_swollen({pos_integer(), pos_integer(), term()}, [atom() | {at, atom()}], atom(),
                    term()) -> integer() | torn | gone | no_reader.
probe_swollen(_Swell, _Path, _Op, _Argument) -> erlang:nif_error(not_loaded).

-spec read(pid(), attr()) -> integer() | busy | torn | gone | ask | timeslice | no_reader.
read(_Pid, _Attr) -> erlang:nif_error(not_loaded).

-spec adopt() -> ok.
adopt() -> erlang:nif_error(not_loaded).

%% `each': the answers come as `{rows, _}' while it goes on; of the given processes, or of all.
-spec scan_new(attr() | [attr()], mode(), non_neg_integer(), scan() | [pid()] | undefined, [pid()],
               non_neg_integer()) -> scan().
scan_new(_Attr, _Mode, _N, _First, _Exclude, _MaxEntries) -> erlang:nif_error(not_loaded).

-spec scan_step(scan()) ->
    more | done | {ask, [pid()]} | {rows, [{pid(), [integer()]}]}
    | {error, system_limit | no_reader | no_memory}.
scan_step(_Scan) -> erlang:nif_error(not_loaded).

-spec scan_feed(scan(), [{pid(), integer() | [integer()] | undefined}]) -> ok.
scan_feed(_Scan, _Answers) -> erlang:nif_error(not_loaded).

-spec scan_rows(scan(), non_neg_integer(), non_neg_integer(), non_neg_integer()) ->
    [{pid(), integer()}].
scan_rows(_Scan, _Question, _From, _Count) -> erlang:nif_error(not_loaded).

-spec scan_info(scan()) -> #{entries | left | top := non_neg_integer()}.
scan_info(_Scan) -> erlang:nif_error(not_loaded).

-spec scan_pids(scan(), non_neg_integer(), non_neg_integer()) -> [pid()].
scan_pids(_Scan, _From, _Count) -> erlang:nif_error(not_loaded).

-spec scan_values(scan(), non_neg_integer(), non_neg_integer()) ->
    [{pid(), integer() | undefined | skip}].
scan_values(_Scan, _From, _Count) -> erlang:nif_error(not_loaded).

-spec scan_skip(scan(), pid()) -> ok.
scan_skip(_Scan, _Pid) -> erlang:nif_error(not_loaded).

-spec scan_after(scan()) -> ok.
scan_after(_Scan) -> erlang:nif_error(not_loaded).

-ifdef(TEST).
-spec set_offset(atom(), non_neg_integer()) -> ok.
set_offset(_Field, _Offset) -> erlang:nif_error(not_loaded).

-spec fail_alloc(non_neg_integer()) -> ok.
fail_alloc(_N) -> erlang:nif_error(not_loaded).

%% 0: sound; 1: no stamp is compared; 2: of it only the reductions.
-spec weaken(0..2) -> ok.
weaken(_How) -> erlang:nif_error(not_loaded).
-endif.
