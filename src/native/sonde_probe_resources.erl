%% @private
%% What a resource of ours shows of how the VM keeps those of all native libraries.
-module(sonde_probe_resources).

-export([checks/0]).

-define(FIELDS, [ref_bin, magic_data, magic_free, type_module, type_name]).
-define(TRIES, 20).

%% Each looks once more: what one finds is kept for the scans.
-spec checks() -> [{atom(), fun(() -> [{term(), term()}])}].
checks() ->
    [{Field, fun() -> [{true, proplists:get_value(Field, shown(?TRIES))}] end} || Field <- ?FIELDS].

%% Which of the references of this process is that of the probe is known by what was there before.
shown(Tries) ->
    Before = magic_refs(),
    Probe = sonde_nif:probe_resource(64 + rand:uniform(1000)),
    case magic_refs() -- Before of
        [{Id, _, _}] -> shown_by(Probe, Id);
        _ when Tries > 1 -> shown(Tries - 1);
        _ -> [{Field, unknown} || Field <- ?FIELDS]
    end.

shown_by(Probe, Id) ->
    Larger = sonde_nif:probe_resource(2000 + rand:uniform(1000)),
    sonde_nif:calibrate_resources(Probe, Larger, atomics:new(1, []), Id, sonde_nif).

magic_refs() ->
    {magic_ref, Refs} = process_info(self(), magic_ref),
    Refs.
