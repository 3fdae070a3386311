%% @private
%% The files to load onto another node: our modules and our shared objects, from the folder that
%% this node loads them from, or from the archive inside the command `sonde'.
-module(sonde_bundle).

-export([ours/0, system/0, version/0, page/0]).
-export_type([ours/0, object/0, system/0]).

-define(GUEST, "sonde_guest.beam").

-type object() :: {module(), File :: file:filename(), Object :: binary()}.
%% Architecture, word sizes, release: what a shared object was built for. The calls of
%% `system_info/1' in this order.
-type system() :: [{term(), term()}].
%% There may be several builds of the shared object; the loader takes the one that fits. `guest':
%% the module for temporary loading (scripts/merge), or `none' if not built; the command has it.
-type ours() :: #{modules := [object(), ...], libraries := [{file:filename(), binary()}],
                  guest := object() | none, built_for := system()}.

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

%% @doc The system of this node, in the form of `built_for'.
-spec system() -> system().
system() ->
    [{Item, erlang:system_info(Item)}
     || Item <- [system_architecture, {wordsize, internal}, {wordsize, external}, otp_release]].

-spec version() -> string().
version() ->
    _ = application:load(sonde),
    case application:get_key(sonde, vsn) of
        {ok, Version} -> Version;
        undefined -> maps:get(version, built(archived()))
    end.

folder(Ebin, Beams) ->
    #{modules => [object(filename:basename(Beam, ".beam")) || Beam <- Beams],
      libraries => [{filename:basename(Library), read(filename:join(Place, Library))}
                    || Place <- [filename:join(filename:dirname(Ebin), "priv"), Ebin],
                       Library <- filelib:wildcard("sonde_nif*.so", Place)],
      guest => guest(file:read_file(filename:join([filename:dirname(Ebin), "priv", ?GUEST]))),
      built_for => system()}.

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
    Named = fun(Extension) -> [{filename:basename(File, Extension), Bytes}
                               || {File, Bytes} <- Files, filename:extension(File) =:= Extension]
            end,
    #{system := System} = built(Files),
    {_, Guest} = lists:keyfind("sonde/priv/" ?GUEST, 1, Files),
    #{modules => [{list_to_atom(Name), Name ++ ".beam", Object}
                  || {Name, Object} <- Named(".beam"), Name =/= "sonde_guest"],
      libraries => [{Name ++ ".so", Bytes} || {Name, Bytes} <- Named(".so")],
      guest => {sonde_guest, ?GUEST, Guest},
      built_for => System}.

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
