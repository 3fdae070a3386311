%% @doc recon's way of showing records, answered by {@link sonde_rec}: each function is the one of
%% the same name there, and `h(sonde_rec, import).' tells what it does.
-module(recon_rec).

%% sonde:remote_load/2 loads these together: code that finds one module of recon on a node expects
%% the others there.
-needs([sonde, recon, recon_lib, recon_alloc, recon_map, recon_rec, recon_trace]).

-export([import/1, clear/0, clear/1, list/0, get_list/0, limit/3, format_tuple/1, is_active/0]).

-type limit() :: all | none | atom() | [atom()].

-spec import(module() | [module()]) -> [tuple()].
import(Modules) -> sonde_rec:import(Modules).

-spec clear() -> ok.
clear() -> sonde_rec:clear().

-spec clear(module()) -> term().
clear(Module) -> sonde_rec:clear(Module).

-spec list() -> ok.
list() -> sonde_rec:list().

-spec get_list() -> [{module(), Record :: atom(), Fields :: [atom()], limit()}].
get_list() -> sonde_rec:get_list().

-spec limit(Record :: atom(), arity(), limit()) -> ok | {error, term()}.
limit(Record, Arity, Limit) -> sonde_rec:limit(Record, Arity, Limit).

-spec format_tuple(tuple()) -> iolist().
format_tuple(Tuple) -> sonde_rec:format_tuple(Tuple).

-spec is_active() -> boolean().
is_active() -> sonde_rec:is_active().
