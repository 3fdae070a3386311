%% @private
%% Loads modules onto other nodes: any module as recon does, sonde itself with its shared object.
%%
%% The node gets plain calls of OTP functions only, so none of our modules need be there before. The
%% loader needs the shared object as a file: it is written into a new folder that only the node's
%% user can enter, laid out like an application's. The folder is removed after loading.
-module(sonde_loader).

-export([load/2, load_nif/3, call/4, there/1, system/1]).
-export_type([node_result/0]).

-type node_result() :: {node(), {ok | already, sonde_vm:status()} | {error, term()}}.

-define(TIMEOUT_MS, 30000).   % for one call of a node
-define(ALL_MS, 120000).

-spec load(term(), term()) -> term().
load(Nodes, Modules) when is_list(Modules) ->
    [load(Nodes, Module) || Module <- Modules];
load(Node, Module) when not is_list(Node) ->
    load([Node], Module);
load(Nodes, sonde) ->
    bring(Nodes);
load(Nodes, Module) ->
    is_atom(Module) orelse error(badarg), % it would crash the code server, and the node with it
    {Module, Object, File} = code:get_object_code(Module),
    Nodes =/= [] orelse error(badarg),
    _ = [bring_if_we_can(Nodes, Need) || Need <- needs(Object), Need =/= Module],
    rpc:multicall(Nodes, code, load_binary, [Module, File, Object]).

%% Modules of compat/recon do not work by themselves, and people who load them elsewhere take them
%% for recon's.
needs(Object) ->
    {ok, {_, [{attributes, Attributes}]}} = beam_lib:chunks(Object, [attributes]),
    proplists:get_value(needs, Attributes, []).

bring_if_we_can(Nodes, sonde) ->
    try bring(Nodes)
    catch error:no_object_code -> []
    end;
bring_if_we_can(Nodes, Module) ->
    bring_if_we_can(Nodes, Module, code:get_object_code(Module)).

%% Only onto nodes that answer and have no such module, be it recon's own or one loaded before.
bring_if_we_can(Nodes, Module, {Module, Object, File}) ->
    Found = erpc:multicall(Nodes, code, ensure_loaded, [Module], ?TIMEOUT_MS),
    Bare = [Node || {Node, {ok, {error, _}}} <- lists:zip(Nodes, Found)],
    erpc:multicall(Bare, code, load_binary, [Module, File, Object], ?TIMEOUT_MS);
bring_if_we_can(_Nodes, _Module, error) ->
    [].

%% ---- sonde

%% All nodes at the same time, each from a process of its own.
bring(Nodes) ->
    length(Nodes) >= 0 andalso lists:all(fun is_atom/1, Nodes) orelse error(badarg),
    Ours = sonde_bundle:ours(),
    Work = fun(Node) -> {Node, try to_node(Node, Ours) catch _:Why -> {error, Why} end} end,
    Until = erlang:monotonic_time(millisecond) + ?ALL_MS,
    sonde_helper:call(
      fun(Caller) ->
              Done = sonde_helper:jobs(fun(Node) -> sonde_helper:job(Work, Node) end,
                                       fun answer/3, #{}, lists:usort(Nodes),
                                       #{in_flight => 100, until => Until, caller => Caller}),
              [{Node, map_get(Node, Done)} || Node <- Nodes]
      end).

answer(Node, unanswered, Done) -> Done#{Node => {error, timeout}};
answer(Node, {Node, Answer}, Done) -> Done#{Node => Answer}.

to_node(Node, Ours) ->
    case there(Node) of
        none -> install(Node, Ours);
        Theirs ->
            Status = call(Node, sonde, native, []),
            case there(node()) of
                Theirs -> {already, Status};
                _ -> {error, {other_build, Status}}
            end
    end.

%% If sonde is loaded temporarily (sonde_attach), `sonde_nif' is there, and must stay from now on.
keep(Node) ->
    {Guest, Keep} = sonde_remote_name:guest(sonde_janitor, keep),
    _ = [quietly(fun() -> call(Node, Guest, Keep, []) end)
         || call(Node, erlang, whereis, [sonde_janitor]) =/= undefined],
    ok.

%% @doc The checksum of the sonde on that node.
-spec there(node()) -> binary() | none.
there(Node) ->
    try
        call(Node, sonde, module_info, [md5])
    catch
        throw:{undef, _} -> none
    end.

%% The modules first, all or none; the one with the shared object last.
install(Node, #{modules := Modules, libraries := Libraries}) ->
    {value, Nif, Pure} = lists:keytake(sonde_nif, 1, Modules),
    case call(Node, code, atomic_load, [Pure]) of
        ok -> ok;
        {error, Why} -> throw({not_loaded, Why})
    end,
    ok = keep(Node),
    try
        Fitting = sonde_bundle:fitting(system(Node), Libraries),
        _ = [ok = load_nif(Node, Nif, Fitting) || not is_same(Node, Nif, Fitting)],
        {ok, call(Node, sonde, native, [])}
    catch
        throw:Reason ->
            _ = [quietly(fun() -> remove(Node, Module) end) || {Module, _, _} <- Modules],
            throw(Reason)
    end.

is_same(Node, {Module, _, Object}, Libraries) ->
    {ok, {_, Md5}} = beam_lib:md5(Object),
    call(Node, code, is_loaded, [Module]) =/= false
        andalso call(Node, Module, module_info, [md5]) =:= Md5
        andalso (Libraries =:= [] orelse call(Node, Module, loaded, []) =:= true).

remove(Node, Module) ->
    _ = call(Node, code, purge, [Module]),
    _ = call(Node, code, delete, [Module]),
    call(Node, code, purge, [Module]).

%% @doc Another system gets the modules alone; its `native/0' will report that there is no library.
-spec system(node()) -> sonde_bundle:system().
system(Node) ->
    sonde_bundle:system(fun(Item) -> call(Node, erlang, system_info, [Item]) end).

%% @doc Loads the module with the shared object. Throws the reason if it cannot.
-spec load_nif(node(), sonde_bundle:object(), [{file:filename(), binary()}]) -> ok.
load_nif(Node, {Module, _, _} = Object, Libraries) ->
    %% Loading a module with `on_load' does not purge its old code.
    _ = call(Node, code, purge, [Module]),
    load_nif_now(Node, Object, Libraries).

load_nif_now(Node, {Module, File, Object}, []) ->
    loaded(Module, call(Node, code, load_binary, [Module, File, Object]));
load_nif_now(Node, {Module, _, Object}, Libraries) ->
    Dir = private_folder(Node, Libraries),
    [Ebin, Priv] = Subs = [filename:join(Dir, Sub) || Sub <- ["ebin", "priv"]],
    try
        _ = [good(call(Node, file, make_dir, [Sub])) || Sub <- Subs],
        put_file(Node, Ebin, atom_to_list(Module) ++ ".beam", Object),
        _ = [put_file(Node, Priv, Name, Library) || {Name, Library} <- Libraries],
        %% The loader looks for the library beside the module, and for the module in the code path.
        true = call(Node, code, add_patha, [Ebin]),
        loaded(Module, call(Node, code, load_file, [Module]))
    after
        quietly(fun() -> call(Node, code, del_path, [Ebin]) end),
        quietly(fun() -> call(Node, file, del_dir_r, [Dir]) end)
    end.

loaded(Module, {module, Module}) -> ok;
loaded(Module, {error, Why}) -> throw({not_loaded, [{Module, Why}]}).

%% The folder is new (mkdir follows no link and fails if the name exists), closed to other users,
%% and checked to be empty after that.
private_folder(Node, Libraries) ->
    Place = call(Node, os, getenv, ["TMPDIR", "/tmp"]),
    Dir = make_folder(Node, [filename:join(Place, "sonde-" ++ Name)
                             || Name <- [own_name(Node, Libraries), random_name()]]),
    good(call(Node, file, change_mode, [Dir, 8#700])),
    {ok, []} = call(Node, file, list_dir, [Dir]),
    Dir.

make_folder(Node, [Dir | Others]) ->
    case call(Node, file, make_dir, [Dir]) of
        ok -> Dir;
        {error, eexist} when Others =/= [] -> make_folder(Node, Others);
        Error -> good(Error)
    end.

%% The name is the same for the same libraries as long as that node lives, and differs between
%% nodes. The library stays mapped after its file is removed (nodelete), and glibc compares the path
%% with those that it has mapped before it opens a file: the same path gives the same image, not a
%% second one. A loader that compares files instead (musl, macOS) maps it again each time.
own_name(Node, Libraries) ->
    Instance = [call(Node, erlang, system_info, [start_time]), call(Node, os, getpid, []),
                call(Node, erlang, system_info, [creation])],
    Builds = [{Name, byte_size(Library), erlang:phash2(Library)} || {Name, Library} <- Libraries],
    name(binary:part(erlang:md5(term_to_binary([Instance, Builds])), 0, 12)).

random_name() ->
    name(rand:bytes(12)).

name(Bytes) ->
    binary_to_list(binary:encode_hex(Bytes)).

%% Exclusive: a file or a link that is already there is an error.
put_file(Node, Dir, Name, Bytes) ->
    Path = filename:join(Dir, Name),
    good(call(Node, file, write_file, [Path, Bytes, [exclusive]])),
    good(call(Node, file, change_mode, [Path, 8#600])).

good(ok) -> ok;
good({error, Why}) -> throw({no_folder, Why}).

%% @doc Throws why there is no result.
-spec call(node(), module(), atom(), [term()]) -> term().
call(Node, Module, Function, Args) ->
    try
        erpc:call(Node, Module, Function, Args, ?TIMEOUT_MS)
    catch
        error:{exception, undef, [{Module, Function, _, _} | _]} -> throw({undef, Module});
        error:{exception, Why, _} -> throw(Why);
        error:{erpc, Why} -> throw(Why);
        _:Why -> throw(Why)
    end.

quietly(Fun) ->
    try Fun() of
        _ -> ok
    catch
        _:_ -> ok
    end.
