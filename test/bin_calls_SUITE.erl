%% All calls that read the binaries of processes treat bad arguments, empty answers and a missing
%% native path alike, leave nothing of their helpers with the caller, and stop when it dies.
-module(bin_calls_SUITE).

-import(sonde_test, [raised/1]).

-compile([export_all, nowarn_export_all]).

-define(ALL, 1000000).

suite() -> [{timetrap, {minutes, 5}}].

all() ->
    [off_is_an_error, bad_arguments_are_badarg, other_calls_do_not_take_them, zero_rows, any_number,
     no_message_reaches_the_caller, helpers_have_no_row, killed_caller_ends_the_work].

init_per_suite(Config) -> sonde_test:init(Config).
end_per_suite(_Config) -> ok.

attrs() ->
    sonde_binaries_helper:attrs() ++ [garbage_bytes, bin_garbage, bin_garbage_bytes, bin_waste].

calls() ->
    [fun() -> sonde:bin_account() end, fun() -> sonde:bin_account(#{max_entries => 100000}) end,
     fun() -> sonde:bin_owned(3) end, fun() -> sonde:bin_owned(0) end,
     fun() -> sonde:bin_holders(3) end, fun() -> sonde:bin_holders(3, size) end,
     fun() -> sonde:bin_holders(3, count) end,
     fun() -> sonde:bin_holders(0, count, #{max_rows => 1}) end,
     fun() -> sonde:bin_holder(8) end, fun() -> sonde:bin_holder(-1) end,
     fun() -> sonde:bin_resources(3) end, fun() -> sonde:bin_resources(0, #{}) end,
     fun() -> sonde:bin_window(3, 1) end, fun() -> sonde:bin_window(0, 0, #{self => true}) end,
     fun() -> sonde:bin_garbage(5) end, fun() -> sonde:bin_garbage(5, bytes) end,
     fun() -> sonde:bin_waste(5) end]
        ++ [fun() -> sonde:proc_count(Attrs, 3, Opts) end
            || Attrs <- attrs() ++ [attrs(), [memory | attrs()], [memory, bin_waste]],
               Opts <- [#{}, #{self => true}, #{report => true}, #{self => true, timeout => 0}]].

slices() -> [sonde:bin_slices(Pid) || Pid <- [self(), whereis(init)]].

%% Runs only without the native path.
off_is_an_error(_Config) ->
    [{native_off, disabled}] = lists:usort([raised(Call) || Call <- calls()]),
    [{error, {native_off, disabled}}] = lists:usort(slices()).

bad_arguments_are_badarg(_Config) ->
    Amounts = [-1, 1.0, foo, "1"],
    Remote = sonde_terms_helper:value(foreign_pid, 1),
    Bad = [#{foo => 1}, #{max_entries => 0}, #{max_entries => -1}, #{max_entries => 1.0},
           #{max_rows => -1}, #{max_rows => all}, #{timeout => 1}, [], foo],
    Calls = [{F, [N]} || F <- [bin_owned, bin_holders, bin_resources, bin_garbage, bin_waste],
                         N <- Amounts]
        ++ [{bin_account, [Opts]} || Opts <- Bad]
        ++ [{bin_holders, [1, By]} || By <- [foo, sizes, 1, #{}]]
        ++ [{bin_holders, [N, size]} || N <- Amounts]
        ++ [{bin_holders, [1, count, Opts]} || Opts <- Bad]
        ++ [{bin_holder, [Id]} || Id <- [foo, 8.0, <<"8">>, self(), [], {8}]]
        ++ [{bin_resources, [1, Opts]} || Opts <- Bad]
        ++ [{bin_window, [N, 1]} || N <- Amounts]
        ++ [{bin_window, [1, Ms]} || Ms <- [1 bsl 32 | Amounts]]
        ++ [{bin_window, [1, 1, Opts]} || Opts <- [#{self => yes} | Bad]]
        ++ [{bin_garbage, [1, What]} || What <- [count_, 1, #{}, "bytes"]]
        ++ [{bin_slices, [Pid]} || Pid <- [1, foo, "<0.1.0>", Remote]]
        ++ [{bin_slices, [self(), Opts]}
            || Opts <- [#{foo => 1}, #{max_words => -1}, #{timeout => infinity}, #{suspend => 1},
                        []]]
        ++ [{proc_count, [Attr, 1, Opts]}
            || Attr <- attrs(),
               Opts <- [#{foo => 1}, #{max_words => -1}, #{max_words => 1.0},
                        #{timeout => infinity}, #{report => 1}, #{self => 1}, #{self => yes}, []]]
        ++ [{proc_count, [Attr, N, #{}]} || Attr <- attrs(), N <- Amounts]
        ++ [{proc_count, [Attrs, 1, #{}]}
            || Attrs <- [bin_garbages, [bin_garbage, foo], [binary_unique, binary_uniques]]],
    [] = [{Call, Raised} || {F, Args} = Call <- Calls,
                            Raised <- [raised(fun() -> apply(sonde, F, Args) end)],
                            Raised =/= badarg].

%% These attributes have no meaning in a window, in a group, or for process_info.
other_calls_do_not_take_them(_Config) ->
    [badarg] = lists:usort([raised(Call)
                            || Attr <- attrs(),
                               Call <- [fun() -> sonde:proc_window(Attr, 1, 1) end,
                                        fun() -> sonde:proc_group(application, [Attr]) end,
                                        fun() -> sonde:info(self(), Attr) end]]).

zero_rows(_Config) ->
    Calls = [fun() -> sonde:bin_owned(0) end, fun() -> sonde:bin_holders(0) end,
             fun() -> sonde:bin_resources(0) end, fun() -> sonde:bin_window(0, 0) end,
             fun() -> sonde:bin_garbage(0) end, fun() -> sonde:bin_waste(0) end]
        ++ [fun() ->
                    {Rows, #{left_out := 0}} = sonde:proc_count(Attr, 0, #{report => true}),
                    Rows
            end || Attr <- attrs()],
    Expected = sonde_test:pick({returned, []}, {native_off, disabled}),
    [Expected] = lists:usort([raised(Call) || Call <- Calls]).

%% The native code takes numbers of 64 bits.
any_number(_Config) ->
    Huge = 1 bsl 64,
    Many = #{max_entries => Huge, max_rows => Huge},
    Calls = [{F, [Huge]} || F <- [bin_owned, bin_holders, bin_resources, bin_garbage, bin_waste]]
        ++ [{bin_account, [Many]}, {bin_holders, [Huge, count, Many]}, {bin_resources, [Huge, Many]},
            {bin_window, [Huge, 0, Many]}]
        ++ [{proc_count, [Attr, Huge, #{max_words => Huge, timeout => Huge}]} || Attr <- attrs()],
    Expected = sonde_test:pick(returned, native_off),
    [] = [{Call, Raised} || {F, Args} = Call <- Calls,
                            Raised <- [raised(fun() -> apply(sonde, F, Args) end)],
                            not is_tuple(Raised) orelse element(1, Raised) =/= Expected],
    [_] = sonde:proc_window(memory, 1, 0, #{max_entries => Huge}),
    ok.

no_message_reaches_the_caller(_Config) ->
    Expected = sonde_test:pick(returned, native_off),
    ok = sonde_test:no_message(
           fun() ->
                   _ = slices(),
                   [Expected] = lists:usort([element(1, raised(Call)) || Call <- calls()])
           end),
    ok = sonde_test:until(no_helper_is_left, fun() -> sonde_test:helpers() =:= [] end).

helpers_have_no_row(_Config) ->
    [] = [Row || Attr <- attrs(),
                 {_, _, Attrs} = Row <- sonde:proc_count(Attr, ?ALL, #{self => true}),
                 {initial_call, {sonde_helper, _, _}} <- Attrs].

killed_caller_ends_the_work(_Config) ->
    Large = sonde_test:hold(fun() -> [binary:copy(<<1>>, 65) || _ <- lists:seq(1, 100000)] end),
    _ = [ok = sonde_test:ends_with_caller(Call)
         || Call <- [fun() -> sonde:bin_account() end, fun() -> sonde:bin_holders(3) end,
                     fun() -> sonde:bin_window(3, 600000) end, fun() -> sonde:bin_garbage(10) end,
                     fun() -> sonde:bin_waste(10) end,
                     fun() -> sonde:proc_count(binary_proportional, 3) end]],
    sonde_test:stop(Large).
