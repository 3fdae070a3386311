%% @private
%% Whose files these are: whether another user could have chosen what is in them, or can still change it.
-module(sonde_cli_owner).

-export([others/1, others/2]).

-include_lib("kernel/include/file.hrl").

-define(ROOT, 0).
-define(MOST_LINKS, 40).      % of one path, as in the kernel
-define(STICKY, 8#1000).
-define(GROUP_WRITES, 8#020).
-define(OTHERS_WRITE, 8#002).

%% @doc The first of these paths that another user than root and this one owns or can write, or in which a folder or
%% link on its way is of that kind; `none' if there is none. Files that are not there count as safe.
-spec others([binary()]) -> {other, binary()} | none.
others(Paths) ->
    others(Paths, us()).

%% @doc The same for the user and the group with these numbers.
-spec others([binary()], {Uid :: non_neg_integer(), Gid :: non_neg_integer()}) -> {other, binary()} | none.
others(Paths, Us) ->
    others(Paths, Us, #{}).

others([], _, _) ->
    none;
others([Path | Paths], Us, Known) ->
    case way(<<"/">>, tl(filename:split(filename:absname(Path))), Us, look(<<"/">>, Us, Known), ?MOST_LINKS) of
        {other, _} = Other -> Other;
        More -> others(Paths, Us, More)
    end.

%% `Known': what is of each file that was looked at, so that folders are looked at once.
way(_, _, _, {other, _} = Other, _) -> Other;
way(_, [], _, Known, _) -> Known;
way(At, [<<".">> | Names], Us, Known, Left) -> way(At, Names, Us, Known, Left);
way(At, [<<"..">> | Names], Us, Known, Left) -> way(filename:dirname(At), Names, Us, Known, Left);
way(At, [Name | Names], Us, Known, Left) ->
    Path = filename:join(At, Name),
    case look(Path, Us, Known) of
        #{Path := {link, _}} when Left =:= 0 -> {other, Path};
        #{Path := {link, To}} = More ->
            case filename:split(To) of
                [<<"/">> | Rest] -> way(<<"/">>, Rest ++ Names, Us, More, Left - 1);
                Rest -> way(At, Rest ++ Names, Us, More, Left - 1)
            end;
        More -> way(Path, Names, Us, More, Left)
    end.

look(Path, Us, Known) when not is_map_key(Path, Known) ->
    case file:read_link_info(Path, [raw, {time, posix}]) of
        {ok, Info} ->
            case is_good(Info, Us) of
                true -> Known#{Path => kind(Path, Info)};
                false -> {other, Path}
            end;
        {error, enoent} -> Known#{Path => none};
        {error, enotdir} -> Known#{Path => none};
        {error, _} -> {other, Path}
    end;
look(_, _, Known) ->
    Known.

kind(Path, #file_info{type = symlink}) ->
    case file:read_link_all(Path) of
        {ok, To} when is_binary(To) -> {link, To};
        {ok, To} ->
            case unicode:characters_to_binary(To, unicode, file:native_name_encoding()) of
                Raw when is_binary(Raw) -> {link, Raw};
                _ -> none
            end;
        {error, _} -> none
    end;
kind(_, #file_info{}) ->
    file.

%% What is in a sticky folder, such as /tmp, only its owner can replace.
is_good(#file_info{uid = Owner, gid = Group, mode = Mode, type = Type}, {Uid, Gid}) ->
    Writers = [true || Mode band ?OTHERS_WRITE =/= 0]
        ++ [true || Mode band ?GROUP_WRITES =/= 0, Group =/= ?ROOT, Group =/= Gid],
    (Owner =:= ?ROOT orelse Owner =:= Uid)
        andalso (Type =:= symlink orelse Writers =:= [] orelse (Type =:= directory andalso Mode band ?STICKY =/= 0)).

%% Effective user and group.
us() ->
    {ok, Status} = file:read_file("/proc/self/status"),
    [Uid, Gid] = [begin
                      {match, [Id]} = re:run(Status, ["^", Key, ":\\s*[0-9]+\\s+([0-9]+)"],
                                             [multiline, {capture, [1], binary}]),
                      binary_to_integer(Id)
                  end || Key <- ["Uid", "Gid"]],
    {Uid, Gid}.
