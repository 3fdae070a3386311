%% sonde_map and sonde_rec give recon's answers. The suite also guards what recon does not promise:
%% what happens if two processes use them at once, or if the owner of a table is killed.
-module(terms_SUITE).

-import(sonde_test, [raised/1]).

-compile([export_all, nowarn_export_all]).

all() ->
    [map_as_recon, rec_as_recon,
     first_label_in_order_wins, all_hides_every_field_and_none_hides_none,
     killed_owner_is_replaced, clear_is_done_when_it_returns, limit_and_clear_at_once,
     renaming_at_once_has_one_winner, tables_outlive_their_maker, no_message_reaches_the_caller,
     recon_and_ours_on_one_node,
     first_module_of_a_record_is_heard, failed_import_keeps_the_ones_before,
     defaults_and_types_and_includes, import_again_forgets_the_limit, imports_at_once_lose_nothing,
     text_of_any_term_is_an_iolist, text_of_deep_terms, pattern_that_raises_costs_no_text,
     import_makes_no_atom_of_data].

init_per_suite(Config) ->
    Dir = filename:join(proplists:get_value(priv_dir, Config), "records"),
    ok = filelib:ensure_dir(filename:join(Dir, "x")),
    ok = file:write_file(filename:join(Dir, "sonde_terms.hrl"),
                         "-record(included, {first, second}).\n"),
    _ = [ok = write_module(Dir, Module, Opts, Records) || {Module, Opts, Records} <- modules()],
    true = code:add_pathz(Dir),
    sonde_test:init([{dir, Dir} | Config]).

end_per_suite(Config) ->
    true = code:del_path(proplists:get_value(dir, Config)),
    ok.

init_per_testcase(_Case, Config) ->
    ok = sonde_map:clear(),
    ok = sonde_rec:clear(),
    Config.

end_per_testcase(_Case, _Config) ->
    ok = sonde_map:clear(),
    ok = sonde_rec:clear().

modules() ->
    [{sonde_recs_a, [debug_info],
      ["-record(one, {a, b = 3, c :: integer() | undefined, d = \"x\" :: string()}).",
       "-record(two, {x, y}).", "-record(zero, {}).", "-record('Odd Name', {'Fie ld', 'ünï'}).",
       "-record(same, {p, q})."]},
     {sonde_recs_b, [debug_info],
      ["-record(one, {aa, bb, cc, dd}).", "-record(same, {r, s}).", "-record(pair, {l, r}).",
       "-record(nest, {one = #one{}, pair = #pair{l = {x}} :: #pair{}})."]},
     {sonde_recs_c, [debug_info], []},
     {sonde_recs_d, [], ["-record(no_debug_info, {a})."]},
     {sonde_recs_e, [debug_info], ["-include(\"sonde_terms.hrl\").", "-record('ŀrec', {'ŀ'})."]}].

write_module(Dir, Module, Opts, Records) ->
    File = filename:join(Dir, atom_to_list(Module)) ++ ".erl",
    Text = io_lib:format("%% -*- coding: utf-8 -*-~n-module(~s).~n-compile(nowarn_unused_record).~n"
                         "~ts~n", [Module, lists:join("\n", Records)]),
    ok = file:write_file(File, unicode:characters_to_binary(Text)),
    {ok, Module} = compile:file(File, [{outdir, Dir}, {i, Dir} | Opts]),
    ok.

%% ---- beside recon

map_as_recon(_Config) ->
    sonde_conform:cases(recon_map, [fresh(Case) || Case <- map_cases()]).

rec_as_recon(_Config) ->
    sonde_conform:cases(recon_rec, [fresh(Case) || Case <- rec_cases()]).

%% Each case starts with no limits and no imported records, and leaves none.
fresh({Function, Name, Case}) ->
    {Function, Name, fun(M) ->
                             {Map, Rec} = both(M),
                             ok = Map:clear(),
                             ok = Rec:clear(),
                             try Case(M)
                             after Map:clear(), Rec:clear()
                             end
                     end}.

both(M) when M =:= recon_map; M =:= recon_rec -> {recon_map, recon_rec};
both(M) when M =:= sonde_map; M =:= sonde_rec -> {sonde_map, sonde_rec}.

%% What each call returns, whether any entry is kept after it, and the results of clearing.
after_each(M, Calls) ->
    [begin
         Was = Call(),
         Is = M:is_active(),
         {Was, Is, M:clear(), M:is_active()}
     end || Call <- Calls].

map_cases() ->
    [{is_active, before, fun(M) -> M:is_active() end},
     {is_active, after_each,
      fun(M) ->
              after_each(M, [fun() -> M:list() end, fun() -> M:remove(x) end,
                             fun() -> M:rename(x, y) end, fun() -> M:limit(l, #{}, all) end,
                             fun() -> M:clear() end])
      end},
     {clear, twice, fun(M) -> ok = M:limit(l, #{}, all), {M:clear(), M:clear()} end},
     {process_map, no_table, fun(M) -> M:process_map(#{a => 1}) end},
     {remove, any, fun(M) ->
                           ok = M:limit(l, #{}, all),
                           {[M:remove(L) || L <- [l, l, "x", 1]], M:process_map(#{a => 1})}
                   end},
     {rename, some, fun(M) ->
                            ok = M:limit(l, #{a => 1}, all),
                            ok = M:limit(k, #{b => 1}, none),
                            {M:rename(l, m), M:rename(l, m), M:rename("x", y), M:rename(m, "text"),
                             M:process_map(#{a => 1}), M:rename("text", k),
                             M:process_map(#{a => 1}), M:process_map(#{b => 1})}
                    end},
     {rename, to_itself, fun(M) ->
                                 ok = M:limit(l, #{a => 1}, none),
                                 {M:rename(l, l), M:process_map(#{a => 1})}
                         end},
     {list, nothing, fun(M) -> M:list() end},
     {list, all_kinds, fun(M) -> [ok = M:limit(L, P, K) || {L, P, K} <- kinds()], M:list() end},
     {limit, patterns,
      fun(M) ->
              [{P, K, [limited(M, P, K, Map) || Map <- maps()]}
               || P <- [#{}, #{a => 1}, #{a => 1.0}, #{a => '_'}, #{a => '_', b => 2},
                        #{a => 1, b => 2}, #{'_' => 1}, #{a => #{x => 1}},
                        #{a => #{x => 1, y => 2}}, #{<<"k">> => 1}, #{{t} => x}],
                  K <- [all, none, a, [], [b, zz, b], [<<"k">>], <<"k">>, "ab", [all], [1]]]
      end},
     {limit, funs,
      fun(M) ->
              [[limited(M, P, [b], Map) || Map <- maps()]
               || P <- [fun(_) -> true end, fun(_) -> false end, fun(_) -> maybe_not end,
                        fun(_) -> throw(thrown) end, fun erlang:is_map/1, fun maps:size/1,
                        fun(X) -> maps:is_key(a, X) end, fun(#{a := A}) -> A =:= 1 end]]
      end},
     {limit, of_many_fields,
      fun(M) ->
              Map = maps:from_list([{I, I} || I <- lists:seq(1, 40)]),
              {limited(M, Map, none, Map#{41 => 41}), limited(M, Map, none, Map#{40 => 41}),
               limited(M, Map, [1, 2], Map#{41 => 41})}
      end},
     {limit, bad, fun(M) ->
                          [{P, raised(fun() -> apply(M, limit, P) end)}
                           || P <- [["l", #{}, all], [<<"l">>, #{}, all], [1, #{}, all],
                                    [l, [], all], [l, a, all], [l, {a}, all], [l, #{}, 1],
                                    [l, #{}, 1.0], [l, #{}, {a}], [l, #{}, #{}], [l, #{}, self],
                                    [l, #{}, <<1:3>>]]]
                  end},
     {limit, fun_of_two, fun(M) -> M:limit(l, fun(_, _) -> true end, all) end},
     {limit, improper_keys, fun(M) -> M:limit(l, #{}, [a | b]) end},
     {process_map, not_trimmed_inside,
      fun(M) ->
              ok = M:limit(l, #{a => 1}, all),
              [M:process_map(Map) || Map <- [#{b => #{a => 1}}, #{c => [#{a => 1}]}, #{}]]
      end}].

%% Labels, patterns and limits of each kind; long ones are printed over several lines.
kinds() ->
    Keys = [list_to_atom("key" ++ integer_to_list(I)) || I <- lists:seq(1, 30)],
    [{one, #{a => 1}, all}, {two, fun erlang:is_map/1, a}, {three, #{}, <<"a">>},
     {'Fo ur', #{<<"b">> => "text", {c} => '_'}, [a, <<"b">>]}, {'ünï', #{'ŀ' => "ŀ"}, none},
     {long, #{z => lists:seq(1, 50), b => "some text that is long enough to be broken into lines"},
      Keys},
     {nested, #{a => #{b => #{c => <<"ŀ"/utf8>>}}}, []}].

maps() ->
    [#{}, #{a => 1}, #{a => 1.0}, #{a => 1, b => 2}, #{a => x, b => #{a => 1}},
     #{c => 1, b => 2}, #{a => #{x => 1, y => 2}, b => 2}, #{<<"k">> => 1, 1 => one},
     #{a => '_', b => '_'}, #{{t} => x}, [], x, {a}, "text", self].

limited(M, Pattern, Limit, Map) ->
    ok = M:limit(l, Pattern, Limit),
    sonde_conform:outcome(M, fun(_) -> M:process_map(Map) end).

rec_cases() ->
    [{is_active, before, fun(M) -> M:is_active() end},
     {is_active, after_each,
      fun(M) ->
              after_each(M, [fun() -> M:list() end, fun() -> M:get_list() end,
                             fun() -> M:import([]) end, fun() -> M:import(sonde_recs_a) end,
                             fun() -> M:limit(x, 1, all) end, fun() -> M:clear() end])
      end},
     {import, one, fun(M) -> M:import(sonde_recs_a) end},
     {import, several, fun(M) -> M:import([sonde_recs_a, sonde_recs_c, sonde_recs_b]) end},
     {import, other_order, fun(M) -> M:import([sonde_recs_b, sonde_recs_a]) end},
     {import, again, fun(M) ->
                             _ = M:import(sonde_recs_a),
                             {M:import([sonde_recs_b, sonde_recs_a]), M:get_list()}
                     end},
     {import, nothing, fun(M) -> {M:import([]), M:import(sonde_recs_c)} end},
     {import, no_debug_info, fun(M) -> M:import(sonde_recs_d) end},
     {import, no_debug_info_in_list,
      fun(M) ->
              {raised(fun() -> M:import([sonde_recs_b, sonde_recs_d, sonde_recs_a]) end),
               M:get_list()}
      end},
     {import, no_module, fun(M) -> M:import(sonde_no_such_module) end},
     {import, preloaded, fun(M) -> M:import(erlang) end},
     {import, bad, fun(M) -> [raised(fun() -> M:import(X) end)
                              || X <- ["a", <<"a">>, 1, {a}, [sonde_recs_a | b], #{}]]
                   end},
     {get_list, nothing, fun(M) -> M:get_list() end},
     {get_list, sorted, fun(M) -> _ = M:import([sonde_recs_b, sonde_recs_a]), M:get_list() end},
     {get_list, limits, fun(M) -> _ = limit_all(M), M:get_list() end},
     {get_list, no_fields, fun(M) ->
                                   _ = M:import(sonde_recs_a),
                                   ok = M:limit(two, 2, []),
                                   lists:keyfind(two, 2, M:get_list())
                           end},
     {list, nothing, fun(M) -> M:list() end},
     {list, some, fun(M) -> _ = limit_all(M), M:list() end},
     {list, beyond_latin1, fun(M) -> _ = M:import(sonde_recs_e), M:list() end},
     {clear, of_a_module,
      fun(M) ->
              _ = M:import([sonde_recs_a, sonde_recs_b]),
              {lists:sort(M:clear(sonde_recs_c)), lists:sort(M:clear(sonde_recs_b)), M:get_list(),
               [M:clear(X) || X <- [[sonde_recs_a], "a", 1]], M:get_list()}
      end},
     {clear, of_the_only_module, fun(M) ->
                                         _ = M:import(sonde_recs_a),
                                         {M:clear(sonde_recs_a), M:clear(sonde_recs_a),
                                          M:is_active()}
                                 end},
     {clear, no_table, fun(M) -> M:clear(sonde_recs_a) end},
     {clear, twice, fun(M) -> _ = M:import(sonde_recs_a), {M:clear(), M:clear()} end},
     {limit, answers, fun(M) -> limit_all(M) end},
     {limit, bad, fun(M) -> [raised(fun() -> M:limit(R, A, all) end)
                             || {R, A} <- [{"one", 4}, {one, "4"}, {one, 4.0}, {<<"one">>, 4}]]
                  end},
     {limit, no_limits, fun(M) ->
                                _ = M:import(sonde_recs_a),
                                [raised(fun() -> M:limit(one, 4, L) end)
                                 || L <- [1, <<"a">>, {a}, [a | b]]]
                        end},
     {format_tuple, nothing_known, fun(M) -> texts(M, tuples()) end},
     {format_tuple, known, fun(M) ->
                                   _ = M:import([sonde_recs_a, sonde_recs_b]),
                                   texts(M, tuples())
                           end},
     {format_tuple, limits,
      fun(M) ->
              _ = M:import([sonde_recs_a, sonde_recs_b]),
              [begin
                   ok = M:limit(one, 4, L),
                   {L, texts(M, [{one, 1, "two", {two, x, y}, 4}, {nest, {one, 1, 2, 3, 4}, []}])}
               end || L <- [all, none, a, d, [], [c, a], [a, a], "ab", [zz], [zz, b], [<<"a">>]]]
      end},
     {format_tuple, unknown_field, fun(M) ->
                                           _ = M:import(sonde_recs_a),
                                           ok = M:limit(one, 4, zz),
                                           lists:flatten(M:format_tuple({one, 1, 2, 3, 4}))
                                   end},
     {format_tuple, maps,
      fun(M) ->
              {Map, M} = both(M),
              _ = M:import(sonde_recs_a),
              ok = Map:limit('La bel', #{a => 1}, all),
              ok = Map:limit('ü', #{b => 2}, b),
              texts(M, [{x, #{a => 1, b => 2}}, {two, #{a => 2}, #{b => 2, c => #{a => 1}}},
                        {x, [#{a => 1}], #{#{a => 1} => {two, #{b => 2}, 1}}}, {1, #{a => 1}},
                        {x, #{}}])
      end},
     {format_tuple, empty, fun(M) ->
                                   _ = M:import(sonde_recs_a),
                                   texts(M, [{}, {x, {}}, {two, {}, []}])
                           end},
     {format_tuple, odd_names, fun(M) ->
                                       _ = M:import([sonde_recs_a, sonde_recs_e]),
                                       texts(M, [{'Odd Name', 1, 2}, {'ŀrec', 1}])
                               end},
     {format_tuple, leaves_no_table, fun(M) ->
                                             {lists:flatten(M:format_tuple({a, b})), M:is_active()}
                                     end},
     {format_tuple, no_tuple, fun(M) -> [raised(fun() -> M:format_tuple(X) end)
                                         || X <- [a, [], #{}, "text", 1, [{a}], <<>>]]
                              end}].

limit_all(M) ->
    _ = M:import([sonde_recs_a, sonde_recs_b]),
    [M:limit(Name, Arity, Limit)
     || {Name, Arity, Limit} <- [{one, 4, b}, {one, 3, all}, {two, 2, all}, {nest, 2, [one, pair]},
                                 {zero, 0, none}, {pair, 2, none}, {foo, 4, all},
                                 {pair, 2, zz}, {'Odd Name', 2, ['ünï', zz]}, {same, -1, all}]].

texts(M, Tuples) ->
    [lists:flatten(M:format_tuple(Tuple)) || Tuple <- Tuples].

tuples() ->
    [{a}, {a, b}, {1, 2}, {one, 1, 2, 3, 4}, {one, 1, 2, 3}, {two, "text", <<"bin">>},
     {two, 'At om', "ŀŀ"}, {zero}, {nest, {one, 1, 2, 3, 4}, {pair, x, y}},
     {unk, {one, 1, 2, 3, 4}},
     {unk, [{one, 1, 2, 3, 4}], #{a => {two, 1, 2}}},
     {one, [a | b], <<1:3>>, fun lists:map/2, self},
     {two, #{a => {zero}}, [[]]}, {"a", b}, {{a, b}, c}, {{zero}, c}, {1.0, {zero}},
     {two, lists:seq(1, 300), <<0:2000>>}, {two, <<"åä"/utf8>>, <<255>>},
     {two, [1, 2, {two, 1, 2}], {x}}, {x, '_', "", <<>>, [], #{}}, {two, 1.0, 2.5e100},
     {a, "new\nline", "\e[31m", <<"\e">>, 'a\e\n'}, {two, [1, 2 | {two, 1, 2}], ["ab", $c]},
     {two, #{{two, 1, 2} => "v", <<"b">> => c, 1 => #{x => {zero}}}, [x | "ab"]},
     {lists:seq(1, 60), {two, 1, 2}},
     {two, list_to_tuple(lists:seq(1, 60)), [{two, [], [[{zero}]]}]},
     {two, {two, {two, {two, 1, 2}, 3}, 4}, 5}].

%% ---- sonde_map

first_label_in_order_wins(_Config) ->
    _ = [ok = sonde_map:limit(L, #{}, L) || L <- [c, a, b]],
    {a, #{a := 1} = A} = sonde_map:process_map(#{a => 1, b => 2}),
    1 = map_size(A),
    renamed = sonde_map:rename(a, d),
    {b, #{b := 2}} = sonde_map:process_map(#{a => 1, b => 2}),
    true = sonde_map:remove(b),
    {c, _} = sonde_map:process_map(#{a => 1, b => 2}).

all_hides_every_field_and_none_hides_none(_Config) ->
    ok = sonde_map:limit(l, #{}, all),
    Map = #{a => 1, <<"b">> => #{c => 2}},
    {l, Nothing} = sonde_map:process_map(Map),
    0 = map_size(Nothing),
    ok = sonde_map:limit(l, #{}, none),
    {l, Map} = sonde_map:process_map(Map),
    ok = sonde_map:limit(l, #{}, <<"b">>),
    {l, One} = sonde_map:process_map(Map),
    [{<<"b">>, #{c := 2}}] = maps:to_list(One).

%% ---- the tables

killed_owner_is_replaced(_Config) ->
    [begin
         ok = Say(),
         true = M:is_active(),
         ok = sonde_test:stop(ets:info(M, owner)),
         false = M:is_active(),
         ok = Say(),
         true = M:is_active()
     end || {M, Say} <- tables()].

clear_is_done_when_it_returns(_Config) ->
    [begin
         ok = Say(),
         ok = M:clear(),
         false = M:is_active(),
         undefined = ets:info(M, name)
     end || {M, Say} <- tables(), _ <- lists:seq(1, 200)].

tables() ->
    [{sonde_map, fun() -> sonde_map:limit(l, #{}, all) end},
     {sonde_rec, fun() -> [_ | _] = sonde_rec:import(sonde_recs_a), ok end}].

limit_and_clear_at_once(_Config) ->
    Clears = sonde_test:churn(2, fun() -> ok = sonde_map:clear(), ok = sonde_rec:clear() end),
    Says = [spawn_monitor(fun() -> say(Label, 300) end) || Label <- [a, b, c, d]],
    _ = [receive {'DOWN', Ref, process, Pid, Why} -> normal = Why end || {Pid, Ref} <- Says],
    ok = sonde_test:stop(Clears),
    ok = sonde_map:limit(l, #{}, all),
    {_, _} = sonde_map:process_map(#{a => 1}).

say(_, 0) ->
    ok;
say(Label, Times) ->
    ok = sonde_map:limit(Label, #{}, all),
    true = sonde_map:remove(other),
    missing = sonde_map:rename(another, other),
    {error, record_unknown} = sonde_rec:limit(Label, Times, all),
    [] = sonde_rec:get_list(),
    _ = sonde_rec:format_tuple({Label, #{a => {Times}}}),
    say(Label, Times - 1).

renaming_at_once_has_one_winner(_Config) ->
    [begin
         ok = sonde_map:limit(l, #{}, all),
         Names = [a, b, c, d],
         Pids = [spawn_monitor(fun() -> exit(sonde_map:rename(l, Name)) end) || Name <- Names],
         [missing, missing, missing, renamed] =
             lists:sort([receive {'DOWN', Ref, process, Pid, How} -> How end
                         || {Pid, Ref} <- Pids]),
         [_] = [Name || Name <- Names, sonde_map:rename(Name, z) =:= renamed]
     end || _ <- lists:seq(1, 50)].

%% Stopping an application, or ending a shell, kills all processes of its group.
tables_outlive_their_maker(_Config) ->
    [begin
         {Leader, Ref} = spawn_monitor(fun() -> receive stop -> ok end end),
         {Pid, MadeRef} = spawn_monitor(fun() -> group_leader(Leader, self()), ok = Say() end),
         receive {'DOWN', MadeRef, process, Pid, normal} -> ok end,
         Leader ! stop,
         receive {'DOWN', Ref, process, Leader, normal} -> ok end,
         true = M:is_active(),
         [{group_leader, Init}, {links, []}] =
             process_info(ets:info(M, owner), [group_leader, links]),
         Init = whereis(init)
     end || {M, Say} <- tables()].

no_message_reaches_the_caller(_Config) ->
    sonde_test:no_message(fun() ->
        {links, Links} = process_info(self(), links),
        _ = [begin
                 ok = sonde_map:limit(l, #{}, all),
                 _ = sonde_rec:import(sonde_recs_a),
                 ok = sonde_map:clear(),
                 ok = sonde_rec:clear()
             end || _ <- lists:seq(1, 50)],
        [{links, Links}, {monitors, []}] = process_info(self(), [links, monitors])
    end).

%% A node may have both; they do not share entries.
recon_and_ours_on_one_node(_Config) ->
    case sonde_test:recon() of
        ok -> apart([{recon_map, sonde_map, fun(M) -> ok = M:limit(l, #{}, all) end},
                     {recon_rec, sonde_rec, fun(M) -> [_ | _] = M:import(sonde_recs_a) end}]);
        Skip -> Skip
    end.

apart(Pairs) ->
    _ = [begin
             ok = Theirs:clear(),
             Say(Ours),
             {false, true} = {Theirs:is_active(), Ours:is_active()},
             Say(Theirs),
             ok = Ours:clear(),
             {true, false} = {Theirs:is_active(), Ours:is_active()},
             Say(Ours),
             ok = Theirs:clear(),
             {false, true} = {Theirs:is_active(), Ours:is_active()}
         end || {Theirs, Ours, Say} <- Pairs],
    ok.

%% ---- sonde_rec

first_module_of_a_record_is_heard(_Config) ->
    [{imported, sonde_recs_b, one, 4} | _] = sonde_rec:import(sonde_recs_b),
    [{ignored, sonde_recs_a, one, 4, sonde_recs_b} | _] = sonde_rec:import(sonde_recs_a),
    "#one{aa=1, bb=2, cc=3, dd=4}" = text({one, 1, 2, 3, 4}),
    _ = sonde_rec:clear(sonde_recs_b),
    "{one, 1, 2, 3, 4}" = text({one, 1, 2, 3, 4}),
    _ = sonde_rec:import(sonde_recs_a),
    "#one{a=1, b=2, c=3, d=4}" = text({one, 1, 2, 3, 4}),
    "{one, 1, 2, 3}" = text({one, 1, 2, 3}).

failed_import_keeps_the_ones_before(_Config) ->
    {badmatch, {ok, {sonde_recs_d, _}}} =
        raised(fun() -> sonde_rec:import([sonde_recs_b, sonde_recs_d, sonde_recs_a]) end),
    [sonde_recs_b] = lists:usort([M || {M, _, _, _} <- sonde_rec:get_list()]).

defaults_and_types_and_includes(_Config) ->
    _ = sonde_rec:import([sonde_recs_e, sonde_recs_b]),
    "#included{first=1, second=2}" = text({included, 1, 2}),
    "#nest{one=#one{aa=1, bb=2, cc=3, dd=4}, pair=#pair{l={x}, r=undefined}}" =
        text({nest, {one, 1, 2, 3, 4}, {pair, {x}, undefined}}).

import_again_forgets_the_limit(_Config) ->
    _ = sonde_rec:import(sonde_recs_a),
    ok = sonde_rec:limit(two, 2, x),
    "#two{x=1, more='...'}" = text({two, 1, 2}),
    ok = sonde_rec:limit(two, 2, []),
    "#two{more='...'}" = text({two, 1, 2}),
    ok = sonde_rec:limit(two, 2, all),
    "#two{}" = text({two, 1, 2}),
    [{overwritten, sonde_recs_a, one, 4} | _] = sonde_rec:import(sonde_recs_a),
    "#two{x=1, y=2}" = text({two, 1, 2}).

imports_at_once_lose_nothing(_Config) ->
    All = [sonde_recs_a, sonde_recs_b, sonde_recs_c, sonde_recs_e],
    [begin
         ok = sonde_rec:clear(),
         Pids = [spawn_monitor(fun() -> exit({done, sonde_rec:import(M)}) end)
                 || M <- All ++ All],
         Done = lists:append([receive {'DOWN', Ref, process, Pid, {done, Results}} -> Results end
                              || {Pid, Ref} <- Pids]),
         Imported = lists:sort([{M, R} || {imported, M, R, _} <- Done]),
         Imported = [{M, R} || {M, R, _, _} <- sonde_rec:get_list()],
         9 = length(Imported)
     end || _ <- lists:seq(1, 20)].

%% ---- text

text(Tuple) ->
    lists:flatten(sonde_rec:format_tuple(Tuple)).

text_of_any_term_is_an_iolist(_Config) ->
    _ = sonde_rec:import([sonde_recs_a, sonde_recs_b, sonde_recs_e]),
    ok = sonde_map:limit('ŀ', #{a => 'ŀ'}, none),
    Odd = ['ŀ', "ŀ", <<"ŀ"/utf8>>, {}, {'ŀrec', 'ŀ'}, {'ŀ', {}}, #{a => 'ŀ', 'ŀ' => {}}, [a | 'ŀ'],
           [#{} | {}], self(), make_ref(), fun() -> ok end, <<1:7>>, 1.0e300, [[] | []],
           hd(erlang:ports())],
    _ = [begin
             Text = sonde_rec:format_tuple(Tuple),
             true = is_binary(iolist_to_binary(Text))
         end || T <- tuples() ++ Odd, Tuple <- [{x, T}, {T, x}, {two, [T], #{T => T}}, {T}]],
    "{x, \\x{140}#{a=>'\\x{140}'}}" = text({x, #{a => 'ŀ'}}),
    ok.

text_of_deep_terms(_Config) ->
    _ = sonde_rec:import(sonde_recs_a),
    Deep = lists:foldl(fun(_, T) -> {two, [T], #{k => x}} end, {zero}, lists:seq(1, 3000)),
    Text = text(Deep),
    3000 = length(string:split(Text, "#two{x=[", all)) - 1,
    true = lists:suffix("], y=#{k=>x}}", Text).

pattern_that_raises_costs_no_text(_Config) ->
    _ = [begin
             ok = sonde_map:limit(l, Bad, all),
             "{x, #{a=>1}}" = text({x, #{a => 1}})
         end || Bad <- [fun(_) -> error(bad) end, fun(_) -> exit(bad) end, fun(_) -> throw(bad) end,
                        fun(_) -> what end, fun(#{b := 1}) -> true end]],
    ok = sonde_map:limit(l, fun(_) -> error(bad) end, all),
    bad = raised(fun() -> sonde_map:process_map(#{a => 1}) end),
    ok.

%% Only atoms for the names in the beam file are created.
import_makes_no_atom_of_data(_Config) ->
    _ = sonde_rec:import(sonde_recs_a),
    _ = text({two, "some", #{<<"text">> => 1}}),
    Atoms = erlang:system_info(atom_count),
    _ = [begin
             [_ | _] = sonde_rec:import(sonde_recs_a),
             Name = integer_to_list(I) ++ "_is_no_atom_yet",
             _ = text({two, Name, #{list_to_binary(Name) => Name}})
         end || I <- lists:seq(1, 100)],
    true = erlang:system_info(atom_count) - Atoms < 50.
