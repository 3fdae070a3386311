%% @private
%% The files to load onto another node: our modules and our shared objects, from the folder that
%% this node loads them from, or from the archive inside the command `sonde'.
-module(sonde_bundle).

-export([ours/0, version/0, system/0, system/1, machine/3, fitting/2, page/0]).
-export_type([ours/0, object/0, library/0, system/0]).

-define(GUEST, "sonde_guest.beam").

-type object() :: {module(), File :: file:filename(), Object :: binary()}.
%% What a shared object was built for, or a node is: processor and C library, and the version of the NIF
%% interface. An OTP release loads what was built for its version and for earlier ones.
-type system() :: #{machine := string(), nif := string()}.
-type library() :: {system(), file:filename(), binary()}.
%% `libraries': several builds of the shared object, each for another system. `guest': the module for
%% temporary loading (scripts/merge), or `none' if not built; the command has it. `compiled_on': the
%% release of the modules.
-type ours() :: #{modules := [object(), ...], libraries := [library()],
                  guest := object() | none, compiled_on := string()}.

%% @doc Raises `no_object_code' if this node's own modules are not files.
-spec ours() -> ours().
ours() ->
    case code:which(sonde) of
        File when is_list(File) ->
            Ebin = filename:dirname(File),
            case filelib:wildcard("sonde*.beam", Ebin) of
                [] -> archive();
                Beams -> folder(Ebin, Beams)
            end;
        _ ->
            error(no_object_code)
    end.

%% @doc The system of this node.
-spec system() -> system().
system() ->
    system(fun erlang:system_info/1).

%% @doc The system of a node that answers these questions to `erlang:system_info/1'.
-spec system(fun((term()) -> term())) -> system().
system(Ask) ->
    #{machine => machine(Ask(system_architecture), Ask(allocator), Ask({wordsize, external})),
      nif => Ask(nif_version)}.

%% @doc The name that the prebuilt libraries have for it (scripts/prebuilt; c_src/build.sh has the same
%% rule), if there is one. The C library by whose headers the VM was compiled is known by its allocator: if
%% that says something else than the name of the architecture does, no prebuilt library fits.
-spec machine(Architecture :: string(), Allocator :: tuple(), WordBytes :: 4 | 8) -> string().
machine(Architecture, Allocator, WordBytes) ->
    IsGlibc = element(1, Allocator) =:= glibc,
    case re:run(Architecture, "^(x86_64|aarch64)-(?:.*-)?linux-(gnu|musl)$",
                [{capture, all_but_first, list}]) of
        {match, [Processor, C]} when WordBytes =:= 8, IsGlibc =:= (C =:= "gnu") ->
            Processor ++ "-linux-" ++ C;
        _ ->
            lists:concat([Architecture, " (", element(1, Allocator), ", ", WordBytes * 8, " bits)"])
    end.

%% @doc At most one.
-spec fitting(system(), [library()]) -> [{file:filename(), binary()}].
fitting(#{machine := Machine, nif := Nif}, Libraries) ->
    lists:sublist([{Name, Bytes} || {#{machine := For, nif := Needs}, Name, Bytes} <- Libraries,
                                    For =:= Machine, numbers(Needs) =< numbers(Nif)], 1).

numbers(Version) ->
    [list_to_integer(Number) || Number <- string:lexemes(Version, ".")].

-spec version() -> string().
version() ->
    _ = application:load(sonde),
    case application:get_key(sonde, vsn) of
        {ok, Version} -> Version;
        undefined -> maps:get(version, built(archived()))
    end.

folder(Ebin, Beams) ->
    #{modules => [object(filename:basename(Beam, ".beam")) || Beam <- Beams],
      libraries => [{system(), Library, read(filename:join(Place, Library))}
                    || Place <- [filename:join(filename:dirname(Ebin), "priv"), Ebin],
                       Library <- filelib:wildcard("sonde_nif-*.so", Place)],
      guest => guest(file:read_file(filename:join([filename:dirname(Ebin), "priv", ?GUEST]))),
      compiled_on => erlang:system_info(otp_release)}.

guest({ok, Object}) -> {sonde_guest, ?GUEST, Object};
guest({error, _}) -> none.

object(Name) ->
    {Module, Object, File} = code:get_object_code(list_to_atom(Name)),
    {Module, File, Object}.

read(File) ->
    {ok, Bytes} = file:read_file(File),
    Bytes.

%% @doc The page of reports inside the command.
-spec page() -> {ok, binary()} | error.
page() ->
    try lists:keyfind("sonde/priv/report.html", 1, archived()) of
        {_, Page} -> {ok, Page};
        false -> error
    catch
        error:no_object_code -> error
    end.

%% ---- the command's own file: an archive, which the module file cannot open

archive() ->
    Files = archived(),
    #{compiled_on := Release, libraries := Libraries} = built(Files),
    {_, Guest} = lists:keyfind("sonde/priv/" ?GUEST, 1, Files),
    #{modules => [{list_to_atom(Name), Name ++ ".beam", Object}
                  || {File, Object} <- Files, filename:extension(File) =:= ".beam",
                     Name <- [filename:basename(File, ".beam")], Name =/= "sonde_guest"],
      libraries => [{System, filename:basename(File), Bytes}
                    || {File, System} <- Libraries, {_, Bytes} <- [lists:keyfind(File, 1, Files)]],
      guest => {sonde_guest, ?GUEST, Guest},
      compiled_on => Release}.

archived() ->
    try
        {ok, Sections} = escript:extract(escript:script_name(), []),
        {archive, Archive} = lists:keyfind(archive, 1, Sections),
        {ok, Files} = zip:unzip(Archive, [memory]),
        Files
    catch
        _:_ -> error(no_object_code)
    end.

%% Written by scripts/escript.
built(Files) ->
    {_, Built} = lists:keyfind("sonde/ebin/sonde.built", 1, Files),
    binary_to_term(Built).
