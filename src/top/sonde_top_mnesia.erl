%% @private
%% The page of Mnesia of {@link sonde:top/1}: its tables on this node, and what its transactions and
%% locks leave behind. It takes what Mnesia keeps in tables and counters, and calls none of its
%% processes except those of tables that are only on disk. The name is a variable, as Mnesia is
%% optional.
-module(sonde_top_mnesia).

-export([take/2, lines/3]).
-export_type([attr/0, row/0]).

-type attr() :: memory | size.
-type row() :: {Name :: string(), Value :: non_neg_integer(), #{atom() => term()}}.

-define(PATIENCE_MS, 2000).
-define(COUNTERS, [transaction_commits, transaction_failures, transaction_restarts,
                   transaction_log_writes]).
-define(LOCKS, [{locks_held, mnesia_held_locks}, {locks_waited_for, mnesia_lock_queue}]).
-define(SERVERS, [mnesia_tm, mnesia_locker]).

-spec take(attr(), sonde_top_sample:request()) ->
    #{mnesia := not_loaded | not_running | unanswered | failed | [{atom(), term()}], _ => _}.
take(Attr, Request) ->
    case {erlang:module_loaded(mnesia), whereis(mnesia_sup)} of
        {false, _} -> #{mnesia => not_loaded};
        {true, undefined} -> #{mnesia => not_running};
        {true, _} -> took(sonde_top_rows:within(?PATIENCE_MS, fun() -> look(mnesia, Attr, Request) end))
    end.

took({ok, #{} = Body}) -> Body;
took({ok, failed}) -> #{mnesia => failed};
took(unanswered) -> #{mnesia => unanswered}.

look(Mnesia, Attr, #{from := From, rows := N} = Request) ->
    Find = maps:get(find, Request, ""),
    Wanted = {Find, sonde_top_rows:named(Find)},
    Rows = [Row || Tab <- Mnesia:system_info(tables), {_, _, Of} = Row <- [row(Mnesia, Tab, Attr)],
                   is_found(Wanted, Row, Of)],
    Best = sonde_lib:sublist_top_n_attrs(Rows, From + N),
    #{mnesia => [{tables, length(Rows)}]
      ++ [{Key, Mnesia:system_info(Key)} || Key <- ?COUNTERS]
      ++ [{Key, Size} || {Key, Tab} <- ?LOCKS, Size <- [ets:info(Tab, size)], is_integer(Size)]
      ++ [{Name, Queue} || Name <- ?SERVERS, Pid <- [whereis(Name)], is_pid(Pid),
                           {ok, [Queue]} <- [sonde_every_process:one(Pid, [message_queue_len])]],
      tables => [{Name, Value, name_of_owner(Of)} 
                 || {Name, Value, Of} <- lists:nthtail(min(From, length(Best)), Best)]}.

is_found({Find, Named}, {Name, _, #{storage := Storage}}, Of) ->
    sonde_top_rows:is_found({Find, Named}, maps:get(owner, Of, none), [Name, atom_to_list(Storage)]).

%% A table that is deleted meanwhile has no row.
row(Mnesia, Tab, Attr) ->
    try
        [Size, Memory, Type, Storage, Index] =
            [Mnesia:table_info(Tab, Item) || Item <- [size, memory, type, storage_type, index]],
        Of = #{size => count(Size), memory => bytes(Memory, Storage), type => Type,
               storage => storage(Storage), index => length(Index)},
        {atom_to_list(Tab), maps:get(Attr, Of), maps:merge(Of, owner(Tab, Storage))}
    catch
        _:_ -> gone
    end.

count(N) when is_integer(N) -> N;
count(_) -> 0.

%% A table on disk only has the size of its file.
bytes(N, disc_only_copies) when is_integer(N) -> N;
bytes(N, _) when is_integer(N) -> N * erlang:system_info(wordsize);
bytes(_, _) -> 0.

%% `unknown': the table is on other nodes only.
storage(unknown) -> elsewhere;
storage(Storage) when is_atom(Storage) -> Storage;
storage({ext, Alias, _}) -> Alias.

owner(Tab, Storage) when Storage =:= ram_copies; Storage =:= disc_copies ->
    case ets:info(Tab, owner) of
        Pid when is_pid(Pid) -> #{owner => Pid};
        undefined -> #{}
    end;
owner(_, _) ->
    #{}.

name_of_owner(#{owner := Pid} = Of) ->
    Of#{owner := pid_to_list(Pid), owner_name => sonde_top_rows:name(Pid)};
name_of_owner(Of) ->
    Of.

%% ---- how it looks

-spec lines(attr(), sonde_top_model:model(), sonde_top_text:style()) ->
    {sonde_top_text:line(), [[sonde_top_text:line()]]}.
lines(Attr, #{sample := #{body := #{mnesia := Known}}} = Model, Style) when is_list(Known) ->
    {["tables of Mnesia by ", atom_to_list(Attr)], 
     [lists:sublist(sonde_top_text:pairs(Known, Style), sonde_top_model:info(Model)),
      table(Model, Style)]};
lines(_, #{sample := #{body := #{mnesia := Why}}}, Style) ->
    {"Mnesia", [[sonde_top_text:cut(why(Why), Style)]]}.

why(not_loaded) -> "Mnesia is not loaded on this node";
why(not_running) -> "Mnesia does not run on this node";
why(failed) -> "Mnesia starts or stops: it could not be read";
why(unanswered) -> sonde_top_text:missing(unanswered).

table(#{from := From} = Model, #{width := Width} = Style) ->
    Wide = Width >= 95,
    sonde_top_text:table(
      ["  #", "    memory", "      rows", "storage         "] ++ ["type" || Wide] ++ ["index" || Wide]
      ++ ["owner     " || Wide] ++ [{name, "table"}],
      [[Number, sonde_top_text:value(memory, Memory, Style), sonde_top_text:value(size, Size, Style),
        {text, atom_to_list(Storage)}]
       ++ [{text, atom_to_list(Type)} || Wide] ++ [sonde_top_text:value(index, Index, Style) || Wide]
       ++ [{text, maps:get(owner_name, Of, "-")} || Wide] ++ [{text, Name}]
       || {Number, {Name, _, #{memory := Memory, size := Size, storage := Storage, type := Type,
                               index := Index} = Of}}
              <- sonde_top_text:numbered(From, sonde_top_model:rows(Model))], Style).
