%% @doc recon's way of showing less of maps, answered by {@link sonde_map}: each function is the one
%% of the same name there, and `h(sonde_map, limit).' tells what it does.
-module(recon_map).

%% sonde:remote_load/2 loads these together: code that finds one module of recon on a node expects
%% the others there.
-needs([sonde, recon, recon_lib, recon_alloc, recon_map, recon_rec, recon_trace]).

-export([limit/3, list/0, is_active/0, clear/0, remove/1, rename/2, process_map/1]).

-type label() :: atom().
-type pattern() :: map() | fun((map()) -> boolean()).
-type limit() :: all | none | atom() | binary() | [atom() | binary()].

-spec limit(label(), pattern(), limit()) -> ok.
limit(Label, Pattern, Limit) -> sonde_map:limit(Label, Pattern, Limit).

-spec list() -> ok.
list() -> sonde_map:list().

-spec is_active() -> boolean().
is_active() -> sonde_map:is_active().

-spec clear() -> ok.
clear() -> sonde_map:clear().

-spec remove(label()) -> true.
remove(Label) -> sonde_map:remove(Label).

-spec rename(label(), label()) -> renamed | missing.
rename(Old, New) -> sonde_map:rename(Old, New).

-spec process_map(map()) -> map() | {label(), map()}.
process_map(Map) -> sonde_map:process_map(Map).
