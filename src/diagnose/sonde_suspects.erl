%% @private
%% Who of a node's processes, tables and limits is in trouble, from the facts of `sonde_facts', the
%% worst first. Pure, and it knows no names: only sizes, series and how things behave.
%%
%% What only is large is not accused: a cache is large. Accused is what keeps growing, and what
%% shows that it is not needed, at each of the moments: garbage, parts of binaries that nobody sees,
%% messages that nobody takes, monitors on the same process, processes without any tie.
-module(sonde_suspects).

-export([find/1]).
-export_type([suspect/0, kind/0, remedy/0]).

-type kind() :: garbage | passed_on_binaries | pinned_slices | mailbox | monitors | links | stack
              | dictionary | state | binaries | ets_table | ets_tables | processes | orphans | ports
              | atoms | fragmentation | outside.
-type remedy() :: hibernate | fullsweep_after | binary_copy | drop_unmatched | batches | demonitor
                | unlink | tail_call | erase | bound_state | evict | delete_tables | end_processes
                | supervise | close_ports | list_to_existing_atom | allocator_settings
                | native_library.
%% `bytes': what it holds, or for a limit what lies behind it. `share': of the node's memory, or,
%% where that is more, of the limit. `what' says which: a pid, a table, the initial call of a group
%% of processes, or `node'.
-type suspect() ::
        #{kind := kind(), what := pid() | {ets, ets:table()} | {processes, mfa()} | node,
          bytes := non_neg_integer(), share := float(), evidence := [{atom(), term()}],
          see := mfargs(), remedy := remedy(), frees => non_neg_integer()}.
-type mfargs() :: {module(), atom(), [term()]}.

-define(SHARE, 0.03).         % of the node's memory, below which nobody is accused
-define(LEAST, 2000000).      % bytes, likewise
-define(GROWN, 524288).       % bytes; growth below is no growth
-define(GROWTH_SHARE, 0.04).  % of all growth

%% @doc The same process or table is accused once, for what holds most.
-spec find(sonde_facts:facts()) -> [suspect()].
find(#{moments := [_ | _]} = Facts) ->
    Node = node_of(Facts),
    All = lists:append([sonde_judge:processes(Facts, Node), sonde_judge:tables(Facts, Node),
                        sonde_judge:crowd(Facts, Node), sonde_judge:limits(Facts, Node),
                        sonde_judge:memory(Facts, Node)]),
    once(lists:sort(fun worse/2, All), []).

%% Several may be told of one thing.
once([#{what := node} = Suspect | Rest], Seen) ->
    [Suspect | once(Rest, Seen)];
once([#{what := What} = Suspect | Rest], Seen) ->
    case lists:member(What, Seen) of
        true -> once(Rest, Seen);
        false -> [Suspect | once(Rest, [What | Seen])]
    end;
once([], _) ->
    [].

worse(#{share := A, bytes := X}, #{share := B, bytes := Y}) -> {A, X} >= {B, Y}.

%% What is measured against.
node_of(#{moments := Moments, processes := Processes, tables := Tables}) ->
    Totals = [Size || #{size := Size} <- Moments],
    Grown = lists:sum([max(0, grown(size, S)) || #{samples := S} <- Processes])
        + lists:sum([max(0, grown(bytes, S)) || #{samples := S} <- Tables]),
    Total = lists:max(Totals),
    #{total => Total, least => max(?LEAST, round(?SHARE * Total)),
      grown => max(?GROWN, round(?GROWTH_SHARE * max(Grown, lists:last(Totals) - hd(Totals))))}.

grown(Key, Samples) ->
    maps:get(Key, lists:last(Samples)) - maps:get(Key, hd(Samples)).
