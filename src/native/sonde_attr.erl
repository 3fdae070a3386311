%% @private The attributes of a process: their names, and which path reads each of them. An
%% attribute that `process_info/2' does not have is computed from an item that it has.
-module(sonde_attr).

-export([native/0, is_native/1, heap/0, is_heap/1, is_counted/1, check/1, read/2, ask/3,
         call_site/1, call_sites/1, named/2, named/3, is_ours/1, is_ours/3, is_hold/1, initial_call/1, without_calls/1]).
-export([item/1, value/2]).
-export_type([attr/0, attrs/0]).

%% Where sonde is loaded temporarily, all of its processes begin in `sonde_guest'.
-define(OURS, [sonde_helper, sonde_vm, sonde_ets_owner, sonde_watch_notify, sonde_trace_guard,
               sonde_top_sample, sonde_janitor, sonde_dump, sonde_attach, sonde_probe,
               sonde_guest]).

-type attr() :: atom() | {dictionary, term()}.
%% Every item of `process_info/2', and the names below, which it does not have.
-type attrs() :: [atom() | {current_function | initial_call, mfa() | undefined}].

%% @doc Returns what the C side reads without a message to the process.
-spec native() -> [atom()].
native() ->
    [memory, total_heap_size, heap_size, stack_size, message_queue_len, reductions, binary_memory,
     binary_count, link_count, monitor_count, monitored_by_count, dictionary_size,
     catchlevel].

-spec is_native(term()) -> boolean().
is_native(Attr) -> lists:member(Attr, native()).

%% @doc Returns the attributes that need a walk over a heap or an account of all binaries. No
%% process can be asked for them: `sonde_garbage' leaves out processes that cannot be read. No other
%% call takes these attributes.
-spec heap() -> [atom()].
heap() ->
    [garbage_bytes, bin_garbage, bin_garbage_bytes, bin_waste, flat_size, binary_unique,
     binary_exclusive, binary_proportional].

-spec is_heap(term()) -> boolean().
is_heap(Attr) -> lists:member(Attr, heap()).

%% @doc Returns whether sonde computes the attribute as the length of a list of `process_info/2'.
-spec is_counted(term()) -> boolean().
is_counted(Attr) -> item(Attr) =/= Attr.

%% @doc Raises badarg if the argument is not an attribute; otherwise returns the value of some
%% process.
-spec check(term()) -> term().
check(Attr) ->
    case is_native(Attr) of
        true -> 0;
        false -> element(2, {ok, _} = read(Attr, whereis(init)))
    end.

%% @doc Returns the value from `process_info/2'.
-spec read(term(), pid()) -> {ok, term()} | undefined.
read(Attr, Pid) ->
    case process_info(Pid, [item(Attr)]) of
        [{_, Value}] -> {ok, value(Attr, Value)};
        undefined -> undefined
    end.

%% @doc Asks for several values and further items of `process_info/2' at once: returns the values in
%% the order of the attributes, and the items as `{Item, _}' in their order.
-spec ask(pid(), [term()], [term()]) -> {[term()], [{term(), term()}]} | undefined.
ask(Pid, Attrs, Items) ->
    case process_info(Pid, lists:usort([item(Attr) || Attr <- Attrs] ++ Items)) of
        undefined -> undefined;
        Told -> {[value(Attr, told(item(Attr), Told)) || Attr <- Attrs],
                 [{Item, told(Item, Told)} || Item <- Items]}
    end.

told(Item, Told) ->
    {_, Value} = lists:keyfind(Item, 1, Told),
    Value.

%% @doc Returns name and call sites, in the order of rows; `helper' for a process of sonde.
-spec call_site(pid()) -> {ok, attrs()} | helper | undefined.
call_site(Pid) ->
    case process_info(Pid, [registered_name, current_function, initial_call]) of
        [{registered_name, Name} | [{current_function, Now}, {initial_call, Call}] = Calls] ->
            case is_ours(Pid, Call, Now) of
                true -> helper;
                false -> {ok, [Name || Name =/= []] ++ Calls}
            end;
        undefined ->
            undefined
    end.

%% @doc The same of several, without those that are dead.
-spec call_sites([pid()]) -> #{pid() => {ok, attrs()} | helper}.
call_sites(Pids) ->
    sonde_helper:ask(fun call_site/1,
                     fun(_, undefined, Sites) -> Sites;
                        (Pid, Site, Sites) -> Sites#{Pid => Site}
                     end, #{}, Pids).

%% @doc The first `N' of `[{Value, Pid}]' that are alive and not ours, with their names.
-spec named(non_neg_integer(), [{term(), pid()}]) -> [{pid(), term(), attrs()}].
named(N, Best) -> named(N, Best, fun(_) -> undefined end).

%% @doc The same, with those of the dead for which `Known' has a call site.
-spec named(non_neg_integer(), [{term(), pid()}], Known) -> [{pid(), term(), attrs()}]
              when Known :: fun((pid()) -> {ok, attrs()} | helper | undefined).
named(N, Best, Known) when N > 0, Best =/= [] ->
    {Now, Later} = lists:split(min(N, length(Best)), Best),
    Sites = call_sites([Pid || {_, Pid} <- Now]),
    Rows = [{Pid, Value, Attrs} || {Value, Pid} <- Now,
                                   {ok, Attrs} <- [case Sites of
                                                       #{Pid := Site} -> Site;
                                                       _ -> Known(Pid)
                                                   end]],
    Rows ++ named(N - length(Rows), Later, Known);
named(_, _, _) ->
    [].

%% @doc Whether a process that began with this call is one of ours: those have no rows. `sonde:helper/1' is no
%% function: those of sonde_waits:hold/1, which proc_lib starts, have it in their dictionary as theirs.
-spec is_ours(mfa() | undefined) -> boolean().
is_ours({sonde_trace, Function, _}) -> Function =:= formatter;
is_ours({sonde, Function, _}) -> Function =:= helper;
is_ours({Module, _, _}) -> lists:member(Module, ?OURS);
is_ours(_) -> false.

%% @doc The same of a process that is now in this function. One that proc_lib has started but that has not run yet
%% is ours if its parent is.
-spec is_ours(pid(), mfa() | undefined, mfa() | undefined) -> boolean().
is_ours(Pid, {proc_lib, init_p, _} = Call, Call) -> is_ours(parent_call(Pid));
is_ours(_, Call, Now) -> is_hold(Now) orelse is_ours(Call).

-spec is_hold(mfa() | undefined) -> boolean().
is_hold({sonde_waits, hold, 1}) -> true;
is_hold({sonde_guest, 'sonde_waits:hold', 1}) -> true;
is_hold(_) -> false.

parent_call(Pid) ->
    case process_info(Pid, parent) of
        {parent, Parent} when is_pid(Parent), node(Parent) =:= node() -> initial_call(Parent);
        _ -> undefined
    end.

-spec initial_call(pid()) -> mfa() | undefined.
initial_call(Pid) ->
    case process_info(Pid, initial_call) of
        {initial_call, Call} -> Call;
        undefined -> undefined
    end.

%% @doc Removes, from rows of another node, the processes that `erpc' started there for calls of
%% sonde: each of them waits for a helper.
-spec without_calls(Rows) -> Rows when Rows :: [term()].
without_calls(Rows) ->
    [Row || Row <- Rows, not is_call(Row)].

is_call({Pid, _, Attrs}) when is_pid(Pid), is_list(Attrs) ->
    case {lists:keyfind(current_function, 1, Attrs), lists:keyfind(initial_call, 1, Attrs)} of
        {{_, {sonde_helper, call, 1}}, {_, {erpc, execute_call, _}}} -> true;
        {{_, {sonde_guest, 'sonde_helper:call', 1}}, {_, {erpc, execute_call, _}}} -> true;
        _ -> false
    end;
is_call(_) ->
    false.

%% @doc Returns the item of `process_info/2' from which the attribute is computed.
-spec item(term()) -> term().
item(Attr) ->
    maps:get(Attr, #{binary_memory => binary, binary_count => binary, link_count => links,
                     monitor_count => monitors, monitored_by_count => monitored_by,
                     dictionary_size => dictionary}, Attr).

%% @doc Computes the value from that of its item. As in recon, a binary that a process refers to
%% twice counts twice.
-spec value(term(), term()) -> term().
value(binary_memory, Binaries) -> lists:sum([Size || {_, Size, _} <- Binaries]);
value(Attr, Value) ->
    case is_counted(Attr) of
        true -> length(Value);
        false -> Value
    end.
