%% @private
%% The text of a term as recon's traces print it: records and maps as set in sonde_rec and
%% sonde_map, the rest as `~p' prints it. It is an iolist: characters beyond Latin-1 are escaped.
-module(sonde_term_text).

-export([format/1, format/3]).

%% @doc Uses the records that are imported and the map limits that are set now.
-spec format(term()) -> iolist().
format(Term) ->
    format(sonde_rec:is_active(), sonde_map:is_active(), Term).

-spec format(Recs :: boolean(), Maps :: boolean(), term()) -> iolist().
format(true, _, Tuple) when is_tuple(Tuple) -> sonde_rec:format_tuple(Tuple);
format(_, true, Tuple) when is_tuple(Tuple) -> [${, elements(Tuple), $}];
format(Recs, Maps, Map) when is_map(Map) -> map(Recs, Maps, Map);
format(Recs, Maps, [_ | _] = List) when Recs; Maps -> list(Recs, Maps, List);
format(_, _, Term) -> io_lib:format("~p", [Term]).

elements(Tuple) ->
    lists:join($,, [format(false, true, E) || E <- tuple_to_list(Tuple)]).

list(Recs, Maps, List) ->
    case io_lib:printable_list(List) of
        true -> io_lib:format("~p", [List]);
        false -> [$[, tail(Recs, Maps, List), $]]
    end.

tail(Recs, Maps, [Last]) -> format(Recs, Maps, Last);
tail(Recs, Maps, [E | Es]) when is_list(Es) -> [format(Recs, Maps, E), $,, tail(Recs, Maps, Es)];
tail(Recs, Maps, [E | Improper]) -> [format(Recs, Maps, E), $|, format(Recs, Maps, Improper)].

map(Recs, Maps, Map) ->
    {Label, Shown} = labelled(Maps, Map),
    Pairs = [[format(Recs, Maps, K), "=>", format(Recs, Maps, V)] || {K, V} <- maps:to_list(Shown)],
    [Label, "#{", lists:join(", ", Pairs), "}"].

%% The table may disappear between two reads, and a pattern that is a fun may raise: print anyway.
labelled(true, Map) ->
    try sonde_map:process_map(Map) of
        {Label, Trimmed} -> {label(Label), Trimmed};
        _ -> {"", Map}
    catch _:_ -> {"", Map}
    end;
labelled(false, Map) ->
    {"", Map}.

label(Label) ->
    [case C < 256 of true -> C; false -> io_lib:format("\\x{~.16B}", [C]) end
     || C <- atom_to_list(Label)].
