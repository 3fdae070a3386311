%% @private
%% Writes a private file: no other user can read it, no symbolic link redirects it, and it never
%% appears half written. A fun provides the content piece by piece.
-module(sonde_private_file).

-include_lib("kernel/include/file.hrl").

-export([write/3, name/1, beside/1]).
-export([watch/1]).
-export_type([open/0, next/0, no/0]).

%% Called until it returns `done', or the reason why there is no more.
-type next() :: fun(() -> {data, iodata()} | {done, #{atom() => term()}} | no()).
-type no() :: undefined | {error, term()}.
%% Called once there is a file to write to, with the handle for {@link sonde_helper:check_caller/1}.
-type open() :: fun((reference()) -> {ok, next()} | no()).

%% @doc A name that file:open/2 accepts, or badarg.
-spec name(term()) -> file:filename_all().
name(File) ->
    Name = try filename:flatten(proper(File)) catch error:_ -> error(badarg) end,
    case file:read_link_info(Name, [raw]) of
        {error, badarg} -> error(badarg);
        _ when Name =:= ""; Name =:= <<>> -> error(badarg);
        _ -> Name
    end.

%% `filename:flatten/1' takes the end of an improper list for a part of the name.
proper(File) when is_list(File) -> lists:flatten(File);
proper(File) -> File.

%% @doc Writes a new file; with `Force' it replaces a file of the same name, which stays as it is
%% until the new one is complete. A helper does the work; if the helper ends early, for whatever
%% reason, there is no file.
-spec write(file:name_all(), boolean(), open()) ->
    {ok, #{bytes := non_neg_integer(), ms := non_neg_integer(), atom() => term()}} | no().
write(File, Force, Open) ->
    Start = erlang:monotonic_time(millisecond),
    Name = filename:absname(File), % valid even if the directory changes meanwhile
    case sonde_helper:call(fun(Caller) -> write(Name, Force, Open, Caller) end) of
        {ok, Written} -> {ok, Written#{ms => erlang:monotonic_time(millisecond) - Start}};
        No -> No
    end.

write(File, false, Open, Caller) ->
    create(File, Open, Caller, fun(_) -> ok end);
write(File, true, Open, Caller) ->
    case beside(File) of
        {ok, New} -> create(New, Open, Caller, fun(Path) -> file:rename(Path, File) end);
        Error -> Error
    end.

%% Replaces a link itself, not its target; never a pipe or a device, which is not intended.
is_replaceable(File) ->
    case file:read_link_info(File, [raw]) of
        {ok, #file_info{type = symlink}} -> is_replaceable_link(File);
        Info -> is_replaceable_file(Info)
    end.

%% Nor a link to one. /dev/stdout leads into /proc, to whatever is open there.
is_replaceable_link(Link) ->
    case {file:read_link_all(Link), file:read_file_info(Link, [raw])} of
        {{ok, Target}, Info} ->
            case filename:split(Target) of
                [Root, Proc | _] when Root =:= "/", Proc =:= "proc"; Root =:= <<"/">>, Proc =:= <<"proc">> -> {error, eexist};
                _ when Info =:= {error, eloop} -> true;
                _ -> is_replaceable_file(Info)
            end;
        {Error, _} -> Error
    end.

is_replaceable_file({ok, #file_info{type = regular}}) -> true;
is_replaceable_file({ok, #file_info{type = directory}}) -> {error, eisdir};
is_replaceable_file({ok, _}) -> {error, eexist};
is_replaceable_file({error, enoent}) -> true;
is_replaceable_file(Error) -> Error.

%% @doc A name for a new file that can be renamed to File, which may exist. It is in the same directory, since a rename
%% cannot cross file systems, and random, so that no other user can guess it and create the file first.
-spec beside(file:name_all()) -> {ok, file:filename_all()} | {error, file:posix() | badarg}.
beside(File) ->
    case is_replaceable(File) of
        true -> {ok, filename:join(filename:dirname(File), ".sonde-" ++ integer_to_list(rand:uniform(1 bsl 59), 36))};
        Error -> Error
    end.

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
        ok -> content(Open(Caller), Fd, Caller);
        NotPrivate -> NotPrivate
    end.

%% Some file systems report only here that there was no room.
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

%% The mode is set by name, but checked on the open file, which is the one that receives the data.
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
        {done, Done} ->
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
