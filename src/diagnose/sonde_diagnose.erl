%% @private
%% `sonde:diagnosis/1': the node at several moments, the suspects, and what was not looked at.
-module(sonde_diagnose).

-export([diagnosis/1, format/1, format/2]).
-export_type([diagnosis/0]).

-type diagnosis() ::
        #{at := integer(), node := node(),
          memory := #{allocated | used | mapped | kept := non_neg_integer(),
                      total | processes | binary | ets | code | atom
                      := non_neg_integer() | undefined, rss := non_neg_integer() | undefined,
                      by_allocator := [{atom(), non_neg_integer()}]},
          growth := #{ms := pos_integer(), memory := #{atom() => integer() | undefined},
                      processes | ports | atoms | tables := integer()},
          counts := #{processes | ports | atoms | tables
                      := {Count :: non_neg_integer(), Limit :: pos_integer()}},
          suspects := [sonde_judge:suspect()],
          not_looked_at := [{atom(), sonde_facts:because()}]}.

-define(LEAST_MS, 100).
-define(MOST_MS, 600000).
-define(KINDS, [total, processes, binary, ets, code, atom]).
-define(COUNTS, [processes, ports, atoms, tables]).

-spec diagnosis(map()) -> diagnosis().
diagnosis(Given) ->
    #{interval := Ms} = sonde_opts:read(Given, #{interval => {2000, fun is_interval/1}}),
    sonde_helper:call(fun(Caller) -> report(sonde_facts:take(Ms, Caller)) end).

is_interval(Ms) -> is_integer(Ms) andalso Ms >= ?LEAST_MS andalso Ms =< ?MOST_MS.

report(#{moments := Moments, limits := Limits, not_looked_at := Not, rss := Rss, mapped := Mapped, kept := Kept,
         by_allocator := ByAllocator} = Facts) ->
    #{memory := First} = Before = hd(Moments),
    #{memory := Last, allocated := Allocated, used := Used} = Now = lists:last(Moments),
    #{at => erlang:system_time(millisecond), node => node(),
      memory => maps:merge(maps:from_list([{K, maps:get(K, Last, undefined)} || K <- ?KINDS]),
                           #{allocated => Allocated, used => Used, rss => Rss, mapped => Mapped, kept => Kept,
                             by_allocator => ByAllocator}),
      growth => maps:merge(#{ms => map_get(at, Now) - map_get(at, Before),
                             memory => maps:from_list([{K, grown(K, First, Last)}
                                                       || K <- ?KINDS])},
                           maps:from_list([{K, map_get(K, Now) - map_get(K, Before)}
                                           || K <- ?COUNTS])),
      counts => maps:from_list([{K, {map_get(K, Now), map_get(K, Limits)}} || K <- ?COUNTS]),
      suspects => sonde_judge:find(Facts), not_looked_at => Not}.

grown(Kind, First, Last) ->
    case {First, Last} of
        {#{Kind := Before}, #{Kind := Now}} -> Now - Before;
        _ -> undefined
    end.

%% @doc The report as text, 80 columns wide.
-spec format(diagnosis()) -> unicode:chardata().
format(Diagnosis) ->
    format(Diagnosis, #{width => 80}).

%% @doc `width': no line has more characters.
-spec format(diagnosis(), #{width := pos_integer()}) -> unicode:chardata().
format(#{node := Node} = Diagnosis, #{width := Width}) ->
    [[Line, $\n]
     || Line <- sonde_diagnose_text:lines(Diagnosis, Width, sonde_names:shell(Node))].
