%% @private
%% Visits every process but the caller once, and returns its values. The native path takes the
%% values from the scan, a few hundred processes at a time, and asks a process only for items that
%% cannot be read, if there are any.
-module(sonde_every_process).

-export([fold/4, ask_all/5, one/2, read/2, glance/3, in_order/2]).

-type fold(Acc) :: fun((pid(), Values :: [term()], [{Item :: term(), term()}], Acc) -> Acc).

%% @doc Folds over values in the order of `Attrs' and `process_info/2' items in the order of
%% `Items'. Leaves out a process that dies before it is asked.
-spec fold(fold(Acc), Acc, [sonde_attr:attr()], [term()]) -> Acc.
fold(Fun, Acc, Attrs, Items) ->
    sonde_retry:run(fun() -> folded(Fun, Acc, Attrs, Items) end).

folded(Fun, Acc, Attrs, Items) ->
    Native = lists:usort(lists:filter(fun sonde_attr:is_native/1, Attrs)),
    case Native =/= [] andalso sonde_vm:side() of
        native -> native(Fun, Acc, Attrs, Native, Items);
        _ -> ask_all(Fun, Acc, Attrs, Items, processes())
    end.

%% @doc Returns the values of one process, natively if possible; never natively for the caller,
%% which runs. Most processes can be read at once; a process with a long mailbox or many links and
%% monitors is scanned in slices.
-spec one(pid(), [sonde_attr:attr()]) -> {ok, [term()]} | undefined.
one(Pid, Attrs) ->
    sonde_retry:run(fun() -> read_or_ask(Pid, Attrs) end).

read_or_ask(Pid, Attrs) ->
    case Pid =/= self() andalso lists:all(fun sonde_attr:is_native/1, Attrs)
         andalso sonde_vm:side() of
        native -> read_one(Pid, Attrs);
        _ -> ask_one(Pid, Attrs)
    end.

%% @doc Reads a native attribute of a process, and never asks the process. An atom: why it could not be read.
-spec read(pid(), sonde_attr:attr()) -> integer() | atom().
read(Pid, Attr) ->
    try sonde_nif:read(Pid, Attr)
    catch error:badarg -> no_reader % another build was loaded
    end.

%% @doc Returns the values of many processes. The native path waits for no process: it leaves out a
%% process that runs all the time. `Ask' is for the portable path, which has to ask each process.
-spec glance([pid()], [sonde_attr:attr()], fun(([pid()]) -> Known)) ->
    [{pid(), [term()]}] | Known.
glance(Pids, Attrs, Ask) ->
    Look = fun() ->
                   case sonde_vm:side() of
                       native ->
                           Policy = #{ask => fun(_, _, _, Known) -> {[], Known} end,
                                      row => fun(Row, Known) -> [Row | Known] end},
                           {_, Known} = scan(Attrs, Pids, Policy, []),
                           Known;
                       _ ->
                           portable
                   end
           end,
    case sonde_retry:run(Look) of
        portable -> Ask(Pids);
        Known -> Known
    end.

read_one(Pid, Attrs) ->
    Read = [sonde_nif:read(Pid, Attr) || Attr <- Attrs],
    case {lists:all(fun is_integer/1, Read), lists:member(timeslice, Read)} of
        {true, _} -> {ok, Read};
        {false, true} -> scan_one(Pid, Attrs);
        {false, false} -> ask_one(Pid, Attrs)
    end.

scan_one(Pid, Attrs) ->
    Policy = #{ask => fun(_, _, _, _) -> {[], ask} end, row => fun({_, Values}, _) -> {ok, Values} end},
    case scan(Attrs, [Pid], Policy, undefined) of
        {done, Known} when Known =/= ask -> Known;
        _ -> ask_one(Pid, Attrs)
    end.

scan(Attrs, Pids, Policy, Acc) ->
    How = #{attrs => Attrs},
    try
        sonde_scan:drive(sonde_scan:scan(each, 0, Pids, How), How, Policy, Acc)
    catch
        error:no_memory -> {no_memory, Acc}
    end.

ask_one(Pid, Attrs) ->
    case sonde_attr:ask(Pid, Attrs, []) of
        {Values, []} -> {ok, Values};
        undefined -> undefined
    end.

%% ---- portable: ask for everything

%% @doc The same of these, but not of the caller, and none of it natively.
-spec ask_all(fold(Acc), Acc, [sonde_attr:attr()], [term()], [pid()]) -> Acc.
ask_all(Fun, Acc, Attrs, Items, Pids) ->
    sonde_helper:ask(fun(Pid) -> sonde_attr:ask(Pid, Attrs, Items) end,
                     fun(Pid, {Values, Told}, A) -> Fun(Pid, Values, Told, A);
                        (_, undefined, A) -> A
                     end, Acc, Pids -- [self()]).

%% ---- native. Fun must be pure: if the readers disappear midway, everything starts again by
%% asking; if another build is loaded, natively

native(Fun, Acc, Attrs, Native, Items) ->
    Other = lists:usort(lists:filter(fun(Attr) -> not sonde_attr:is_native(Attr) end, Attrs)),
    InOrder = in_order(Attrs, Native ++ Other),
    Row = fun({Pid, Read}, A) ->
                  case told(Pid, Other, Items) of
                      {Said, Told} -> Fun(Pid, InOrder(Read ++ Said), Told, A);
                      undefined -> A
                  end
          end,
    Ask = fun(_, _, Pids, A) -> {[], ask_all(Fun, A, Attrs, Items, Pids)} end,
    case scan(Native, undefined, #{ask => Ask, row => Row}, Acc) of
        {done, Result} -> Result;
        {no_reader, _} -> ask_all(Fun, Acc, Attrs, Items, processes())
    end.

%% @doc The values are read sorted and without duplicates; restores the requested order.
-spec in_order([sonde_attr:attr()], Read :: [sonde_attr:attr()]) -> fun(([Value]) -> [Value]).
in_order(Attrs, Attrs) ->
    fun(Values) -> Values end;
in_order(Attrs, Known) ->
    fun(Values) ->
            ByAttr = maps:from_list(lists:zip(Known, Values)),
            [map_get(Attr, ByAttr) || Attr <- Attrs]
    end.

told(_Pid, [], []) -> {[], []};
told(Pid, Other, Items) -> sonde_attr:ask(Pid, Other, Items).
