%% @private
%% The ports that a diagnosis looks at: those with much to send, connections to other nodes, and the
%% processes with the most ports.
-module(sonde_facts_ports).

-export([first/0, last/1, connected/0, nodes_first/0, nodes_last/1]).
-export_type([queue/0, queues/0, connection/0]).

%% The bytes that the port had to send at the start and at the end, and what its peer took in the milliseconds
%% between. `node' is there for a connection to another node: the VM suspends its senders while it is busy.
-type queue() :: {port(), Owner :: pid(), First :: non_neg_integer(), Last :: non_neg_integer(),
                  {Taken :: non_neg_integer(), Ms :: non_neg_integer()}, [{node, node()}]}.
%% `queued': the bytes in the port at the start and at the end; more may wait before the port, up to
%% `erlang:system_info(dist_buf_busy_limit)', and then the VM suspends the senders. `taken': what the
%% other end took out of the port meanwhile.
-type connection() :: #{node := node(), port := port(), taken := non_neg_integer(),
                        queued := {non_neg_integer(), non_neg_integer()}}.
-type queues() :: [{port(), Queued :: non_neg_integer(), Sent :: non_neg_integer(), At :: integer()}].
-type nodes() :: [{node(), port(), Queued :: non_neg_integer(), Sent :: non_neg_integer()}].

-define(MOST, 20000).         % ports that are asked
-define(LEAST, 100000).       % bytes

%% @doc Ports beyond the first ?MOST are left out, and reported.
-spec first() -> {queues(), [{atom(), sonde_facts:because()}]}.
first() ->
    All = erlang:ports(),
    {[{Port, Bytes, Sent, now_ms()} || Port <- lists:sublist(All, ?MOST), Some <- queued(Port), Some >= ?LEAST,
                                       Sent <- sent(Port), Bytes <- queued(Port)],
     [{port_queues, {left_out, length(All) - ?MOST}} || length(All) > ?MOST]}.

queued(Port) ->
    [Bytes || {queue_size, Bytes} <- [erlang:port_info(Port, queue_size)]].

%% @doc Those that still are in the list, with their owners.
-spec last(queues()) -> [queue()].
last(First) ->
    Nodes = [{Port, [{node, Node}]} || {Node, Port} <- erlang:system_info(dist_ctrl)],
    [{Port, Owner, Before, Now, {taken(Before, Was, Now, Sent), now_ms() - At}, proplists:get_value(Port, Nodes, [])}
     || {Port, Before, Was, At} <- First, Now <- queued(Port), Sent <- sent(Port),
        {connected, Owner} <- [erlang:port_info(Port, connected)]].

now_ms() -> erlang:monotonic_time(millisecond).

%% What is sent between the reads of a port counts as taken: at the start its queue is read last, at the end first.
taken(Before, Was, Now, Sent) -> max(0, Before + Sent - Was - Now).

%% @doc The connections to other nodes, by TCP. Those that are not (a process has a connection by TLS), or that
%% do not answer, are left out, and reported.
-spec nodes_first() -> {nodes(), [{atom(), sonde_facts:because()}]}.
nodes_first() ->
    All = erlang:system_info(dist_ctrl),
    Asked = [{Node, Port, Bytes, Sent} || {Node, Port} <- All, is_port(Port), Sent <- entered(Port),
                                          Bytes <- queued(Port)],
    {Asked, [{connections, {left_out, length(All) - length(Asked)}} || length(All) > length(Asked)]}.

%% @doc Those that still are there.
-spec nodes_last(nodes()) -> [connection()].
nodes_last(First) ->
    [#{node => Node, port => Port, queued => {Before, Now}, taken => taken(Before, Was, Now, Sent)}
     || {Node, Port, Before, Was} <- First, Now <- queued(Port), Sent <- entered(Port)].

%% The VM counts no `output' of a connection to another node, but the socket counts what enters it. Other drivers
%% do not know the request.
entered(Port) ->
    [Sent || {name, "tcp_inet"} <- [erlang:port_info(Port, name)],
             {ok, [{send_oct, Sent}]} <- [inet:getstat(Port, [send_oct])]].

sent(Port) ->
    case entered(Port) of
        [] -> [Sent || {output, Sent} <- [erlang:port_info(Port, output)]];
        Sent -> Sent
    end.

%% @doc The processes with the most ports.
-spec connected() -> [{pid(), pos_integer()}].
connected() ->
    sonde_facts_tables:most([Pid || Port <- erlang:ports(),
                                    {connected, Pid} <- [erlang:port_info(Port, connected)]]).
