%% @private
%% A file that nobody else reads, follows or finds half written: how a dump gets to the
%% disk. What is in it comes from a fun, piece by piece.
-module(sonde_private_file).

-include_lib("kernel/include/file.hrl").

-export([write/3]).
-export([watch/1]).
-export_type([open/0, next/0]).

%% Called until it says `done', or says why there is no more.
-type next() :: fun(() -> {data, iodata()} | {done, #{nodes := non_neg_integer(),
                                                      edges := non_neg_integer()}} | no()).
-type no() :: undefined | {error, term()}.
%% Called once there is a file to write to.
-type open() :: fun(() -> {ok, next()} | no()).

%% @doc A new file; with `Force' in the place of what has that name, which stays as it is until the
%% new one is complete. The work is done in a helper, and where that ends early, for whatever
%% reason, there is no file.
-spec write(file:name_all(), boolean(), open()) -> {ok, sonde_heap:written()} | no().
write(File, Force, Open) ->
    Start = erlang:monotonic_time(millisecond),
    Name = filename:absname(File), % also where the directory changes meanwhile
    case sonde_helper:call(fun(Caller) -> write(Name, Force, Open, Caller) end) of
        {ok, Written} -> {ok, Written#{ms => erlang:monotonic_time(millisecond) - Start}};
        No -> No
    end.

write(File, false, Open, Caller) ->
    create(File, Open, Caller, fun(_) -> ok end);
write(File, true, Open, Caller) ->
    case is_replaceable(file:read_link_info(File, [raw])) of
        true -> create(beside(File), Open, Caller, fun(Path) -> file:rename(Path, File) end);
        Error -> Error
    end.

%% A link is replaced, not what it leads to. Nobody means to replace a pipe or a device.
is_replaceable({ok, #file_info{type = Type}}) when Type =:= regular; Type =:= symlink -> true;
is_replaceable({ok, #file_info{type = directory}}) -> {error, eisdir};
is_replaceable({ok, _}) -> {error, eexist};
is_replaceable({error, enoent}) -> true;
is_replaceable(Error) -> Error.

%% In the same directory, or it could not be renamed. Nobody is to guess it and be there first.
beside(File) ->
    Name = ".sonde-" ++ integer_to_list(rand:uniform(1 bsl 59), 36),
    filename:join(filename:dirname(File), Name).

create(Path, Open, Caller, Complete) ->
    Guard = guard(),
    case file:open(Path, [write, exclusive, raw, binary]) of
        {ok, Fd} ->
            Guard ! {self(), made, Path},
            try close(fill(Fd, Path, Open, Caller), Fd, Path, Complete) of
                {ok, _} = Ok -> Ok;
                No -> _ = remove(Path), No
            catch
                Class:Why:Stack -> _ = remove(Path), erlang:raise(Class, Why, Stack)
            end;
        Error ->
            Error
    end.

remove(Path) ->
    file:delete(Path, [raw]).

fill(Fd, Path, Open, Caller) ->
    case make_private(Fd, Path) of
        ok -> content(Open(), Fd, Caller);
        NotPrivate -> NotPrivate
    end.

%% Some file systems tell only here that there was no room.
close(Filled, Fd, Path, Complete) ->
    case {Filled, file:close(Fd)} of
        {{ok, _}, ok} ->
            case Complete(Path) of
                ok -> Filled;
                Error -> Error
            end;
        {{ok, _}, Error} -> Error;
        {No, _} -> No
    end.

%% The mode is set by name. What is asked whether it came out right is the file that we write to.
make_private(Fd, Path) ->
    case file:write_file_info(Path, #file_info{mode = 8#600}, [raw]) of
        ok ->
            case file:read_file_info(Fd) of
                {ok, #file_info{mode = Mode}} when Mode band 8#777 =:= 8#600 -> ok;
                {ok, _} -> {error, eperm};
                Error -> Error
            end;
        Error ->
            Error
    end.

content({ok, Next}, Fd, Caller) -> content(Next, Fd, Caller, 0);
content(No, _Fd, _Caller) -> No.

content(Next, Fd, Caller, Bytes) ->
    ok = sonde_helper:check_caller(Caller),
    case Next() of
        {data, Data} ->
            case file:write(Fd, Data) of
                ok -> content(Next, Fd, Caller, Bytes + iolist_size(Data));
                Error -> Error
            end;
        {done, #{nodes := _, edges := _} = Done} ->
            {ok, Done#{bytes => Bytes}};
        No ->
            No
    end.

%% ---- a second helper, which removes the file if the first one is killed

guard() ->
    Guard = sonde_helper:job(fun ?MODULE:watch/1, self()),
    receive {Guard, watching} -> Guard end.

-spec watch(pid()) -> ok.
watch(Helper) ->
    _ = process_flag(trap_exit, true),
    Helper ! {self(), watching},
    receive
        {Helper, made, Path} ->
            receive
                {'EXIT', Helper, killed} -> _ = remove(Path), ok;
                {'EXIT', Helper, _} -> ok
            end;
        {'EXIT', Helper, _} ->
            ok
    end.
