%% Node names without epmd: the port is in the node's name (p4711@127.0.0.1). For -epmd_module.
-module(sonde_epmd).

-export([start_link/0, register_node/2, register_node/3, listen_port_please/2, port_please/2,
         port_please/3, address_please/3, names/1]).

start_link() -> ignore.

register_node(Name, Port) -> register_node(Name, Port, inet).
register_node(_Name, _Port, _Family) -> {ok, 1}.

listen_port_please(Name, _Host) -> {ok, port(Name)}.

port_please(Name, Host) -> port_please(Name, Host, infinity).
port_please(Name, _Host, _Timeout) -> {port, port(Name), 6}.

address_please(Name, _Host, _Family) -> {ok, {127, 0, 0, 1}, port(Name), 6}.

names(_Host) -> {error, address}.

port(Name) when is_atom(Name) -> port(atom_to_list(Name));
port(Name) ->
    case string:split(Name, "@") of
        ["p" ++ Digits | _] -> list_to_integer(Digits);
        _ -> 0
    end.
