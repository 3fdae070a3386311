%% Terms of every kind that this release has, for tests to hold, send and measure.
-module(sonde_terms_helper).

-export([init/0, kinds/0, value/2, record/2, forget_records/0]).

%% Call it before the first use.
init() ->
    _ = [load_native_record() || erlang:system_info(otp_release) >= "29"],
    ok.

load_native_record() ->
    load(sonde_native_record, "a, b", "A, B", "a = A, b = B").

%% A native record of a module that was just loaded with this definition.
record(Fields, Values) ->
    Names = string:lexemes(Fields, ", "),
    Vars = [string:uppercase(Name) || Name <- Names],
    ok = load(sonde_changing_record, Fields, lists:join(", ", Vars),
              lists:join(", ", [[Name, " = ", Var] || {Name, Var} <- lists:zip(Names, Vars)])),
    apply(sonde_changing_record, make, Values).

forget_records() ->
    _ = code:purge(sonde_changing_record),
    true = code:delete(sonde_changing_record),
    _ = code:purge(sonde_changing_record),
    true.

%% The compilers before OTP 29 do not know such records.
load(Module, Fields, Vars, Set) ->
    Source = [["-module(", atom_to_list(Module), ")."],
              "-compile([export_all, nowarn_export_all]).",
              ["-record #pair{", Fields, "}."], ["make(", Vars, ") -> #pair{", Set, "}."]],
    Forms = [begin
                 {ok, Tokens, _} = erl_scan:string(lists:flatten(Text)),
                 {ok, Form} = erl_parse:parse_form(Tokens),
                 Form
             end || Text <- Source],
    {ok, Module, Code} = compile:forms(Forms),
    _ = code:purge(Module),
    {module, Module} = code:load_binary(Module, atom_to_list(Module) ++ ".erl", Code),
    ok.

%% The kinds of terms that this release has.
kinds() ->
    [literal, fun_of_a_module, fun_with_environment, fun_that_holds_a_binary, external_fun,
     foreign_pid, foreign_ref, foreign_port, own_ref, alias_ref, magic_ref, large_integer, float,
     tuple, improper_list, string, small_map, large_map, bit_string, heap_binary, part,
     matched_part, rest_of_a_match, decoded, deep, atoms_and_nil, empty, map_of_known_keys,
     fun_from_elsewhere, alike_funs]
        ++ [native_record || erlang:function_exported(sonde_native_record, make, 2)].

%% N from 1 to 40 distinguishes terms of a kind, or gives the size.
value(literal, _) ->
    {"literals", #{in => [this, "module"]},
     <<"a binary of so many bytes that it does not lie on a heap, "
       "and is no process's own for all that">>};
value(fun_of_a_module, _) -> fun kinds/0;
value(fun_with_environment, N) -> fun() -> {N, lists:seq(1, N)} end;
value(fun_that_holds_a_binary, N) -> Held = binary:copy(<<N>>, 100), fun() -> Held end;
value(external_fun, _) -> fun lists:seq/2;
value(foreign_pid, N) -> foreign(88, <<N:32, 0:32, 7:32>>);
value(foreign_port, N) -> foreign(89, <<N:32, 7:32>>);
value(foreign_ref, N) ->
    binary_to_term(<<131, 90, 3:16, (node_name())/binary, 7:32, N:32, 1:32, 2:32>>);
value(own_ref, _) -> make_ref();
value(alias_ref, _) -> alias();
value(magic_ref, N) -> [atomics:new(N, []), ets:match_spec_compile([{'_', [], ['$_']}])];
value(large_integer, N) -> 1 bsl (60 + 40 * N);
value(float, N) -> N / 3;
value(tuple, N) -> list_to_tuple(lists:seq(1, N));
value(improper_list, N) -> lists:foldl(fun(I, Tail) -> [I | Tail] end, tail, lists:seq(1, N));
value(string, N) -> lists:duplicate(N, $x);
value(small_map, N) -> maps:from_list([{{key, I}, [I]} || I <- lists:seq(1, min(N, 30))]);
value(large_map, N) -> maps:from_list([{{key, I}, [I]} || I <- lists:seq(1, 40 + 20 * N)]);
value(bit_string, N) -> <<(binary:copy(<<N>>, 70))/binary, 1:3>>;
value(heap_binary, N) -> binary:copy(<<N>>, N);
value(part, N) -> binary:part(binary:copy(<<N>>, 1000), N, 900);
value(matched_part, N) -> <<_:N, Part:500/bitstring, _/bitstring>> = binary:copy(<<N>>, 100), Part;
value(rest_of_a_match, N) -> rest(binary:copy(<<N>>, 100), N);
value(decoded, N) ->
    binary_to_term(term_to_binary([binary:copy(<<I>>, 90) || I <- lists:seq(1, N)]));
value(deep, N) -> lists:foldl(fun(I, Inner) -> {I, [Inner]} end, [], lists:seq(1, 10 * N));
value(empty, N) -> lists:nth(N rem 4 + 1, [#{}, {}, <<>>, fun() -> ok end]);
value(map_of_known_keys, N) -> #{a => N, b => [N], "a literal" => {N}};
value(fun_from_elsewhere, N) -> made_apart(fun() -> fun_from_elsewhere(N) end);
value(alike_funs, N) -> maps:from_list([{I, I} || I <- lists:seq(1, 40)]
                                            ++ made_apart(fun() -> alike_funs(N) end));
value(atoms_and_nil, N) -> lists:duplicate(N, [an_atom, [], {}]);
value(native_record, N) -> sonde_native_record:make(lists:seq(1, N), binary:copy(<<N>>, 100)).

foreign(Tag, Rest) -> binary_to_term(<<131, Tag, (node_name())/binary, Rest/binary>>).

node_name() -> <<100, 7:16, "a@b.c.d">>.

rest(Rest, 0) -> Rest;
rest(<<_, Rest/binary>>, N) -> rest(Rest, N - 1).

%% Made in another process, so that nothing else of its making stays behind.
made_apart(Make) ->
    {Pid, Ref} = spawn_monitor(fun() -> exit({made, Make()}) end),
    receive {'DOWN', Ref, process, Pid, {made, Term}} -> Term end.

%% A fun that was made by a process of another node.
fun_from_elsewhere(N) ->
    Here = term_to_binary(self()),
    There = term_to_binary(foreign(88, <<N:32, 0:32, 7:32>>)),
    <<131, 112, _:32, Fun/binary>> = term_to_binary(fun() -> {N, [N]} end),
    Moved = binary:replace(Fun, binary:part(Here, 1, byte_size(Here) - 1),
                           binary:part(There, 1, byte_size(There) - 1)),
    binary_to_term(<<131, 112, (byte_size(Moved) + 4):32, Moved/binary>>).

%% Since OTP 27 funs of several versions of a module have the same hash, and collide in a map. Older
%% releases have no node for such keys.
alike_funs(N) ->
    <<131, 112, Start:5/binary, _:16/binary, Rest/binary>> = term_to_binary(fun() -> N end),
    [{binary_to_term(<<131, 112, Start/binary, Version:128, Rest/binary>>), [Version]}
     || erlang:system_info(otp_release) >= "27", Version <- lists:seq(1, N)].
