%% @private
%% What a person types at {@link sonde:top/1}: a line at a time, or key by key where the terminal
%% delivers single keys. Both become the same actions.
-module(sonde_top_keys).

-export([line/1, typed/2, sorts/0, pages/0, of_process/0]).
-export_type([action/0, page/0]).

-type page() :: procs | ets | binaries | allocators | waits | network | apps | system | mnesia.

-type action() :: quit | help | pause | again | forth | back | next
                | {key, char()} | {twice, char()} | {page, page()} | up | {find, string()}
                | {of_process, links | stack | messages | tree}
                | {row, pos_integer()} | {pid, string()} | {interval, Ms :: non_neg_integer()}
                | {unknown, string()}.
-define(LONGEST_SEARCH, 60).

%% `{key, K}': sort by the attribute of `K', or by its growth if that is the order already;
%% `{twice, K}': sort by its growth.

%% @doc The keys that sort, with their attributes.
-spec sorts() -> [{char(), sonde_attr:attr(), Short :: string()}].
sorts() ->
    [{$m, memory, "memory"}, {$n, message_queue_len, "messages"}, {$r, reductions, "reductions"},
     {$b, binary_memory, "binary"}, {$c, binary_count, "binaries"},
     {$t, total_heap_size, "heaps"}, {$s, heap_size, "heap"}, {$k, stack_size, "stack"},
     {$d, dictionary_size, "dictionary"}, {$l, link_count, "links"},
     {$o, monitor_count, "monitors"}, {$y, monitored_by_count, "monitored by"},
     {$g, garbage_bytes, "garbage"},
     {$v, bin_garbage_bytes, "garbage binaries"}, {$w, bin_waste, "waste"},
     {$x, binary_exclusive, "exclusive"}].

-spec pages() -> [{char(), page(), string()}].
pages() ->
    [{$P, procs, "procs"}, {$G, apps, "apps"}, {$N, network, "net"}, {$E, ets, "ets"},
     {$S, system, "system"}, {$B, binaries, "binaries"}, {$W, waits, "waits"},
     {$A, allocators, "allocators"}, {$M, mnesia, "mnesia"}].

%% @doc The keys that show more of the process that is looked at.
-spec of_process() -> [{char(), links | stack | messages | tree, string()}].
of_process() ->
    [{$L, links, "links"}, {$K, stack, "stack"}, {$Q, messages, "mailbox"}, {$T, tree, "tree"}].

%% @doc The action of a whole line.
-spec line(string()) -> action().
line(Line) ->
    case {string:trim(Line), lists:member($\s, Line)} of
        {"", true} -> pause;
        {"", false} -> next;
        {Text, _} -> text(Text)
    end.

text("q") -> quit;
text([$/ | Find]) -> {find, string:trim(Find)};
text([C]) when C >= $0, C =< $9 -> row([C]);
text([C]) -> single(C);
text([C, C] = Text) -> twice(C, Text);
text([$i | Ms] = Text) -> interval(string:trim(Ms), Text);
text([$< | _] = Pid) -> pid(Pid, Pid);
text(Text) ->
    case lists:member($., Text) of
        true -> pid([$<, Text, $>], Text);
        false -> row(Text)
    end.

single($q) -> quit;
single(C) when C =:= $h; C =:= $? -> help;
single(C) when C =:= $p; C =:= $\s -> pause;
single($a) -> again;
single($>) -> forth;
single($<) -> back;
single($u) -> up;
single($/) -> {find, ""};
single(C) ->
    case [lists:keyfind(C, 1, Keys) || Keys <- [sorts(), pages(), of_process()]] of
        [{C, _, _}, _, _] -> {key, C};
        [_, {C, Page, _}, _] -> {page, Page};
        [_, _, {C, What, _}] -> {of_process, What};
        _ -> {unknown, [C]}
    end.

twice(C, Text) ->
    case single(C) of
        {key, C} -> {twice, C};
        _ -> row(Text)
    end.

row(Text) ->
    case is_number_text(Text) andalso list_to_integer(Text) of
        N when is_integer(N), N > 0 -> {row, N};
        _ -> {unknown, Text}
    end.

interval(Ms, Text) ->
    case is_number_text(Ms) of
        true -> {interval, list_to_integer(Ms)};
        false -> {unknown, Text}
    end.

is_number_text(Text) ->
    Text =/= [] andalso length(Text) < 10
        andalso lists:all(fun(C) -> C >= $0 andalso C =< $9 end, Text).

pid(Pid, Text) ->
    Flat = lists:flatten(Pid),
    case re:run(Flat, "^<[0-9]{1,9}\\.[0-9]{1,10}\\.[0-9]{1,10}>$", [{capture, none}]) of
        match -> {pid, Flat};
        nomatch -> {unknown, Text}
    end.

%% @doc The actions of characters as they arrive. The start of a number, a pid, an interval or a search
%% is kept until Enter, and the start of a special key until the rest arrives.
-spec typed(Kept :: string(), Characters :: string()) -> {[action()], Kept :: string()}.
typed(Kept, Characters) ->
    lists:foldl(fun(C, {Actions, Before}) ->
                        {More, After} = one(Before, C),
                        {Actions ++ More, After}
                end, {[], Kept}, Characters).

one("\e", $[) -> {[], "\e["};
one("\e", _) -> {[], ""};
one("\e[", C) when C =:= $5; C =:= $6 -> {[], [$\e, $[, C]};
one("\e[", C) when C =:= $A; C =:= $D -> {[back], ""};
one("\e[", C) when C =:= $B; C =:= $C -> {[forth], ""};
one("\e[5", $~) -> {[back], ""};
one("\e[6", $~) -> {[forth], ""};
one([$\e | _], _) -> {[], ""};
one(_, $\e) -> {[], "\e"};
one(_, C) when C =:= 3; C =:= 4 -> {[quit], ""};
one("", C) when C =:= $\r; C =:= $\n -> {[next], ""};
one(Kept, C) when C =:= $\r; C =:= $\n -> {[text(Kept)], ""};
one([_ | _] = Kept, C) when C =:= 8; C =:= 127 -> {[], lists:droplast(Kept)};
one("", C) when C =:= $i; C =:= $/; C >= $0, C =< $9 -> {[], [C]};
one("", C) -> {[single(C)], ""};
one([$/ | _] = Kept, C) when length(Kept) < ?LONGEST_SEARCH, C >= $\s -> {[], Kept ++ [C]};
one([$/ | _] = Kept, _) -> {[], Kept};
one(Kept, C) when length(Kept) < 40, C >= $0, C =< $9; C =:= $.; C =:= $\s -> {[], Kept ++ [C]};
one(_, C) -> {[single(C)], ""}.
