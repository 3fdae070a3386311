%% sonde_web: the page of a node for those who have its address, and for nobody else; its numbers are those of
%% the calls; it samples only while somebody looks, and leaves nothing behind.
-module(web_SUITE).

-compile([export_all, nowarn_export_all]).

-define(MARKUP, '</script><script>alert(1)</script>').

suite() ->
    [{timetrap, {minutes, 3}}].

all() ->
    [page_and_data, only_with_the_token, reads_only, only_from_here, only_from_its_own_page, only_on_loopback,
     bad_options_are_badarg, requests_are_bounded, no_log_has_the_token, tokens_of_ones_own,
     what_is_missing_is_an_error, numbers_are_those_of_the_calls, stacks_waits_and_binaries_too, diagnosis_is_told, names_are_text, nothing_is_content, path_is_told,
     idle_if_nobody_looks, viewers_share_samples, only_what_is_new, parts_stay_in_their_share, diagnosis_runs_beside, diagnosis_pays_for_its_threads,
     stop_closes_the_port, killed_leaves_nothing, ends_with_its_owner, lives_under_a_supervisor, a_lost_sampler_is_replaced].

init_per_suite(Config) ->
    sonde_test:init(Config).

end_per_suite(_Config) ->
    ok.

init_per_testcase(_Case, Config) -> Config.

end_per_testcase(_Case, _Config) ->
    sonde_web:stop().

%% ---- a client that can send anything

start() -> start(#{interval => 200}).

start(Opts) ->
    {ok, Pid} = sonde_web:start_link(Opts),
    Pid.

%% {Port, Path with the token}.
address() ->
    #{port := Port, path := Path} = uri_string:parse(sonde_web:url()),
    {Port, Path}.

port() -> element(1, address()).

fetch(Path) -> fetch(Path, []).

fetch(Path, Headers) -> request("GET", Path, [{"Host", "127.0.0.1"} | Headers]).

request(Method, Path, Headers) ->
    raw([Method, " ", Path, " HTTP/1.1\r\n", [[Name, ": ", Value, "\r\n"] || {Name, Value} <- Headers],
         "Connection: close\r\n\r\n"]).

raw(Text) ->
    {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, port(), [binary, {active, false}]),
    _ = gen_tcp:send(Socket, Text),
    response(received(Socket, [])).

received(Socket, Parts) ->
    case gen_tcp:recv(Socket, 0, 60000) of
        {ok, Part} -> received(Socket, [Parts, Part]);
        {error, _} -> ok = gen_tcp:close(Socket), iolist_to_binary(Parts)
    end.

response(<<>>) -> closed;
response(Answer) ->
    [Head, Body] = binary:split(Answer, <<"\r\n\r\n">>),
    [Status | Lines] = binary:split(Head, <<"\r\n">>, [global]),
    [<<"HTTP/1.", _>>, Code | _] = binary:split(Status, <<" ">>, [global]),
    {binary_to_integer(Code), maps:from_list([header(Line) || Line <- Lines]), Body}.

header(Line) ->
    [Name, Value] = binary:split(Line, <<":">>),
    {string:lowercase(Name), string:trim(Value)}.

code(Response) -> element(1, Response).

data() -> data(0).

data(After) ->
    {_, Path} = address(),
    {200, #{<<"content-type">> := <<"application/json">>}, Json} = fetch([Path, "data?after=", integer_to_list(After)]),
    cli_SUITE:read(Json).

%% All parts, when they are there.
part(Name) ->
    ok = sonde_test:until({part, Name}, fun() ->
                                                #{<<"parts">> := Parts} = data(),
                                                is_map_key(<<"data">>, maps:get(Name, Parts, #{}))
                                        end),
    #{<<"parts">> := #{Name := #{<<"data">> := Data}}} = data(),
    Data.

refused(Response) ->
    {404, _, <<"not found">>} = Response,
    true.

%% ---- who can see it

page_and_data(_Config) ->
    _ = start(),
    {_, Path} = address(),
    {200, Headers, Page} = fetch(Path),
    #{<<"content-type">> := <<"text/html; charset=utf-8">>, <<"cache-control">> := <<"no-store">>,
      <<"referrer-policy">> := <<"no-referrer">>, <<"x-content-type-options">> := <<"nosniff">>,
      <<"x-frame-options">> := <<"DENY">>, <<"content-security-policy">> := Policy} = Headers,
    {match, _} = re:run(Policy, "^default-src 'none'; script-src 'sha256-[^' ]+'; style-src 'sha256-[^' ]+'; connect-src 'self'; .*"
                        "frame-ancestors 'none'$"),
    nomatch = re:run(Policy, "unsafe|http"),
    %% no address but those in the licences, nothing to be fetched from elsewhere, and no server's version
    [] = [Found || Pattern <- [" src=", " href=\"http", "@import", "url\\(", " on[a-z]+=\"", " style=\"", "sourceMappingURL", "@[A-Z-]+@"],
                   {match, Found} <- [re:run(Page, Pattern, [{capture, all, binary}])]],
    false = is_map_key(<<"server">>, Headers),
    Name = atom_to_binary(node()),
    #{<<"version">> := 1, <<"about">> := #{<<"node">> := Name}, <<"points">> := [_ | _], <<"interval">> := 200} = data(),
    ok.

only_with_the_token(_Config) ->
    _ = start(),
    {_, Path} = address(),
    Token = string:trim(Path, both, "/"),
    64 = length(Token),
    [_, _ | Rest] = Path,
    Differ = [C || C <- "0123456789abcdef", C =/= lists:nth(2, Path)],
    _ = [true = refused(fetch(Wrong))
         || Wrong <- ["/", "/data", "//", "/" ++ Token, "/" ++ tl(Token) ++ "/", "/" ++ Token ++ "0/", "/" ++ tl(Token) ++ "0/data",
                      "/" ++ [hd(Differ)] ++ Rest, "/x" ++ Path, Path ++ "x", Path ++ "data/", Path ++ "data?after=", Path ++ "data?after=-1",
                      Path ++ "data?after=1e3", Path ++ "data?after=1234567890123456", Path ++ "data?x=1", "/" ++ string:uppercase(Token) ++ "/",
                      "/%00" ++ Path, "/" ++ lists:duplicate(64, $x) ++ "/", "*"]],
    {200, _, _} = fetch(Path),
    %% another one each time
    ok = sonde_web:stop(),
    _ = start(),
    true = refused(fetch(Path)).

reads_only(_Config) ->
    _ = start(),
    {_, Path} = address(),
    Local = [{"Host", "127.0.0.1"}],
    _ = [{405, #{<<"allow">> := <<"GET">>}, _} = request(Method, Where, [{"Content-Length", "0"} | Local])
         || Method <- ["POST", "PUT", "DELETE", "PATCH", "TRACE"], Where <- [Path, Path ++ "data", "/"]],
    405 = code(request("HEAD", Path, Local)),
    %% of httpd itself, as documented; that of OTP 29 knows OPTIONS
    501 = code(request("BREW", Path, Local)),
    true = lists:member(code(request("OPTIONS", Path, Local)), [405, 501]),
    ok.

%% Whoever's name leads to this machine's address, the request has that name.
only_from_here(_Config) ->
    _ = start(),
    {Port, Path} = address(),
    Ask = fun(Hosts) -> request("GET", Path, [{"Host", Host} || Host <- Hosts]) end,
    Own = ":" ++ integer_to_list(Port),
    _ = [{Host, 200} = {Host, code(Ask([Host]))}
         || Host <- ["127.0.0.1", "127.0.0.1" ++ Own, "localhost", "LocalHost:1", "127.0.0.2", "[::1]", "[::1]:8080"]],
    _ = [{Host, true} = {Host, refused(Ask([Host]))}
         || Host <- ["evil.example", "evil.example" ++ Own, "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0", "10.0.0.1", "", "[::2]",
                     "[::1", "[::1].evil.example", "127.1", "2130706433", "0x7f.0.0.1", "127.0.0.1@evil.example"]],
    true = refused(Ask(["127.0.0.1", "evil.example"])),
    true = refused(Ask(["evil.example", "127.0.0.1"])),
    400 = code(Ask([])),
    true = refused(raw(["GET ", Path, " HTTP/1.0\r\n\r\n"])).

only_from_its_own_page(_Config) ->
    _ = start(),
    {_, Path} = address(),
    Data = Path ++ "data",
    Navigates = [{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}, {"Sec-Fetch-Dest", "document"}],
    Framed = [{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Mode", "navigate"}, {"Sec-Fetch-Dest", "iframe"}],
    _ = [{Where, Headers, 200} = {Where, Headers, code(fetch(Where, Headers))}
         || {Where, Headers} <- [{Path, [{"Sec-Fetch-Site", "none"}]}, {Path, Navigates}, {Data, [{"Sec-Fetch-Site", "same-origin"}]},
                                 {Data, [{"Origin", "http://127.0.0.1"}]}]],
    _ = [{Where, Headers, true} = {Where, Headers, refused(fetch(Where, Headers))}
         || {Where, Headers} <- [{Data, Navigates}, {Path, Framed}, {Data, [{"Sec-Fetch-Site", "cross-site"}]},
                                 {Data, [{"Sec-Fetch-Site", "same-site"}]}, {Path, [{"Origin", "http://evil.example"}]},
                                 {Data, [{"Origin", "null"}]}, {Data, [{"Origin", "https://127.0.0.1"}]},
                                 {Data, [{"Origin", "http://127.0.0.1:1"}]}]],
    ok.

only_on_loopback(_Config) ->
    badarg = sonde_test:raised(fun() -> sonde_web:start_link(#{ip => {0, 0, 0, 0}}) end),
    badarg = sonde_test:raised(fun() -> sonde_web:start_link(#{ip => {0, 0, 0, 0, 0, 0, 0, 0}}) end),
    badarg = sonde_test:raised(fun() -> sonde_web:start_link(#{ip => {0, 0, 0, 0, 0, 16#FFFF, 16#0A00, 1}}) end),
    _ = start(),
    {ok, Interfaces} = inet:getifaddrs(),
    Others = [Ip || {_, Props} <- Interfaces, {addr, Ip} <- Props, not sonde_web_http:is_loopback(Ip), tuple_size(Ip) =:= 4],
    _ = [{Ip, {error, econnrefused}} = {Ip, gen_tcp:connect(Ip, port(), [])} || Ip <- Others],
    "http://127.0.0.1:" ++ _ = sonde_web:url(),
    ok = sonde_web:stop(),
    _ = start(#{ip => {0, 0, 0, 0}, beyond_loopback => true}),
    {_, Path} = address(),
    _ = [begin
             {ok, Socket} = gen_tcp:connect(Ip, port(), [binary, {active, false}]),
             ok = gen_tcp:send(Socket, ["GET ", Path, " HTTP/1.1\r\nHost: ", inet:ntoa(Ip), "\r\nConnection: close\r\n\r\n"]),
             200 = code(response(received(Socket, [])))
         end || Ip <- Others],
    true = refused(request("GET", Path, [{"Host", "evil.example"}])).

bad_options_are_badarg(_Config) ->
    _ = [{Bad, Call, badarg} = {Bad, Call, sonde_test:raised(fun() -> sonde_web:Call(Bad) end)}
         || Call <- [start, start_link, child_spec],
            Bad <- [#{none => 1}, #{port => -1}, #{port => 65536}, #{port => "1"}, #{ip => "127.0.0.1"}, #{ip => {127, 0, 0}},
                    #{interval => 199}, #{interval => 60001}, #{interval => 1.0}, #{token => <<"x">>}, #{token => fun(X) -> X end},
                    #{beyond_loopback => 1}, [port], [{port, 0}, {port, 1}], none]],
    undefined = whereis(sonde_web),
    #{id := sonde_web, start := {sonde_web, start_link, [[{port, 0}]]}} = sonde_web:child_spec([{port, 0}]),
    ok.

%% Answers of httpd itself have the same headers.
requests_are_bounded(_Config) ->
    _ = start(),
    {_, Path} = address(),
    Guarded = fun({Code, #{<<"content-security-policy">> := <<"default-src 'none'", _/binary>>, <<"x-content-type-options">> := <<"nosniff">>}, _}) -> Code end,
    414 = Guarded(fetch("/" ++ lists:duplicate(300, $a))),
    413 = Guarded(fetch(Path, [{"X", lists:duplicate(20000, $a)}])),
    413 = Guarded(request("POST", Path, [{"Host", "127.0.0.1"}, {"Content-Length", "2000000"}])),
    Many = [begin
                {ok, Socket} = gen_tcp:connect({127, 0, 0, 1}, port(), [binary, {active, false}]),
                Socket
            end || _ <- lists:seq(1, 40)],
    ok = sonde_test:until(busy, fun() -> 503 =:= code(fetch(Path)) end),
    _ = [ok = gen_tcp:close(Socket) || Socket <- Many],
    sonde_test:until(free_again, fun() -> 200 =:= code(fetch(Path)) end).

%% A handler of logger that sends what it would write.
log(#{level := Level} = Event, #{config := Receiver}) ->
    Receiver ! {logged, Level, unicode:characters_to_binary(logger_formatter:format(Event, #{}))}.

no_log_has_the_token(_Config) ->
    #{level := Level} = logger:get_primary_config(),
    ok = logger:set_primary_config(level, all),
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => self()}),
    try
        _ = process_flag(trap_exit, true),
        Pid = start(),
        {_, Path} = address(),
        Token = list_to_binary(string:trim(Path, both, "/")),
        _ = [fetch(Path, Headers) || Headers <- [[], [{"Origin", "null"}], [{"Content-Length", "x"}], [{"Expect", "y"}]]],
        _ = [raw([Method, " ", Path, Version, "\r\nHost: localhost\r\n\r\n"]) || Method <- ["GET", "BREW"], Version <- [" HTTP/9.9", " HTTP/1.1\r\nConnection: close", ""]],
        nomatch = binary:match(unicode:characters_to_binary(io_lib:format("~p", [[sys:get_status(Pid), ets:tab2list(httpd_table())]])), Token),
        Quiet = logged(0),
        [] = [L || {_, L} <- Quiet, binary:match(L, Token) =/= nomatch],
        %% nothing but what supervisors report when all is well
        [] = [L || {Of, L} <- Quiet, logger:compare_levels(Of, info) =:= gt, re:run(L, "sonde_web|httpd|127_0_0_1") =/= nomatch],
        %% killed, so that everything is reported that is known
        _ = sonde_test:stop(Pid),
        Killed = logged(500),
        [_ | _] = [L || {error, L} <- Killed],
        [] = [L || {_, L} <- Killed, binary:match(L, Token) =/= nomatch]
    after
        ok = logger:remove_handler(?MODULE),
        ok = logger:set_primary_config(level, Level)
    end.

httpd_table() ->
    [Table] = [Tab || Tab <- ets:all(), is_atom(Tab), lists:prefix("httpd_conf", atom_to_list(Tab))],
    Table.

logged(Ms) ->
    receive
        {logged, Level, Text} -> [{Level, Text} | logged(Ms)]
    after Ms -> []
    end.

tokens_of_ones_own(_Config) ->
    Token = <<"abcdefghijklmnopqrstuvwxyz_-ABCD0">>,
    _ = start(#{token => fun() -> Token end, interval => 200}),
    Path = "/" ++ binary_to_list(Token) ++ "/",
    {_, Path} = address(),
    {200, _, _} = fetch(Path),
    ok = sonde_web:stop(),
    _ = start(#{token => fun() -> binary_to_list(Token) end}),
    {_, Path} = address(),
    ok = sonde_web:stop(),
    _ = [{Bad, {error, bad_token}} = {Bad, sonde_web:start_link(#{token => fun() -> Bad end})}
         || Bad <- [<<"short">>, <<"abcdefghijklmnopqrstuvwxyz/-ABCD0">>, <<"abcdefghijklmnopqrstuvwxyz_-ABCD0\n">>, [Token | 256], {Token}, binary:copy(<<"a">>, 129)]],
    {error, bad_token} = sonde_web:start_link(#{token => fun() -> error(no) end}),
    undefined = whereis(sonde_web),
    ok.

what_is_missing_is_an_error(_Config) ->
    {ok, Taken} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Taken),
    {error, {listen, eaddrinuse}} = sonde_web:start_link(#{port => Port}),
    ok = gen_tcp:close(Taken),
    Pid = start(#{port => Port}),
    Port = port(),
    {error, {already_started, Pid}} = sonde_web:start_link(#{}),
    sonde_peer_helper:with(
      shipped,
      fun(Peer) ->
              Call = fun(M, F, A) -> sonde_peer_helper:call(Peer, M, F, A) end,
              Inets = Call(code, lib_dir, [inets]),
              true = Call(code, del_path, [inets]),
              {error, no_inets} = Call(sonde_web, start, []),
              true = Call(code, add_pathz, [filename:join(Inets, "ebin")]),
              {sonde_report, Object, _} = Call(code, get_object_code, [sonde_report]),
              {module, _} = Call(code, load_binary, [sonde_report, "/nowhere/ebin/sonde_report.beam", Object]),
              {error, no_page} = Call(sonde_web, start, [])
      end).

%% ---- what it shows

numbers_are_those_of_the_calls(_Config) ->
    Crowd = sonde_test:crowd(30),
    Large = sonde_test:hold(fun() -> lists:seq(1, 1000000) end),
    Table = ets:new(web_suite_table, [public]),
    true = ets:insert(Table, [{I, binary:copy(<<"b">>, 50)} || I <- lists:seq(1, 20000)]),
    _ = start(),
    #{<<"attrs">> := Named, <<"rows">> := Rows} = part(<<"processes">>),
    Attrs = sonde_test:pick([memory, binary_memory, message_queue_len, reductions], [memory, message_queue_len, reductions]),
    Named = [atom_to_binary(Attr) || Attr <- Attrs],
    Text = list_to_binary(pid_to_list(Large)),
    [Values] = [Values || [Pid, _, _, _ | Values] <- Rows, Pid =:= Text],
    _ = [{Attr, Value} = {Attr, element(2, hd(sonde:info(Large, [Attr])))} || {Attr, Value} <- lists:zip(Attrs, Values), Attr =/= reductions],
    #{<<"rows">> := Tables} = part(<<"tables">>),
    Bytes = ets:info(Table, memory) * erlang:system_info(wordsize),
    [_] = [Row || [Name, _, <<"set">>, <<"public">>, 20000, Memory, undefined] = Row <- Tables, Memory =:= Bytes, binary:match(Name, <<"web_suite_table">>) =/= nomatch],
    #{<<"rows">> := Groups} = part(<<"groups">>),
    true = lists:sum([N || [_, _, _, N | _] <- Groups]) >= 31,
    #{<<"rows">> := [_ | _]} = part(<<"allocators">>),
    #{<<"all">> := Ports} = part(<<"ports">>),
    true = Ports >= 1,
    #{<<"rows">> := Busy} = part(<<"busy">>),
    true = is_list(Busy),
    #{<<"about">> := #{<<"limits">> := Limits, <<"online">> := Online, <<"schedulers">> := Schedulers}} = data(),
    {Online, Schedulers} = {erlang:system_info(schedulers_online), erlang:system_info(schedulers)},
    Limits = #{<<"processes">> => erlang:system_info(process_limit), <<"ports">> => erlang:system_info(port_limit),
               <<"atoms">> => erlang:system_info(atom_limit), <<"tables">> => erlang:system_info(ets_limit)},
    ok = sonde_test:until(points, fun() -> length(maps:get(<<"points">>, data())) >= 3 end),
    #{<<"points">> := [First | More]} = data(),
    #{<<"reductions">> := undefined, <<"usage">> := undefined} = First,
    _ = [begin
             #{<<"memory">> := #{<<"processes">> := Processes, <<"ets">> := Ets}, <<"counts">> := #{<<"processes">> := Count},
               <<"usage">> := Usage, <<"reductions">> := Reductions, <<"run_queue">> := Queue} = Point,
             true = Processes > 8000000 andalso Ets > Bytes andalso Count >= 31 andalso Count < erlang:system_info(process_limit),
             true = length(Usage) =:= Schedulers andalso lists:all(fun(Share) -> Share >= 0 andalso Share =< 1.01 end, Usage),
             true = Reductions > 0 andalso Queue >= 0
         end || Point <- More],
    true = ets:delete(Table),
    sonde_test:stop([Large | Crowd]).

stacks_waits_and_binaries_too(_Config) ->
    Waiting = [spawn(fun ?MODULE:stay/0) || _ <- lists:seq(1, 30)],
    Server = sonde_test:hold(fun() -> binary:copy(<<"b">>, 3456789) end),
    Clients = [spawn(fun() -> gen_server:call(Server, never, infinity) end) || _ <- lists:seq(1, 5)],
    ok = sonde_test:settle([Server | Waiting ++ Clients]),
    _ = start(),
    #{<<"calls">> := Calls, <<"rows">> := Stacks} = part(<<"stacks">>),
    Stay = unicode:characters_to_binary(sonde_names:call({?MODULE, stay, 0}, true)),
    30 = lists:sum([N || [N, Stack, _] <- Stacks, lists:member(Stay, [lists:nth(Call + 1, Calls) || Call <- Stack])]),
    Pid = list_to_binary(pid_to_list(Server)),
    ok = sonde_test:pick(
           fun() ->
                   #{<<"rows">> := Waits} = part(<<"waits">>),
                   [5] = [N || #{<<"process">> := P, <<"waiters">> := N} <- Waits, P =:= Pid],
                   #{<<"holders">> := Holders, <<"parts">> := Parts} = part(<<"binaries">>),
                   [[[Pid, 1, _]]] = [Of || #{<<"size">> := 3456789, <<"holders">> := Of} <- Holders],
                   [true] = [Bytes >= 3456789 || [<<"exclusive">>, Bytes] <- Parts],
                   ok
           end,
           fun() ->
                   _ = [{match, _} = re:run(failed(Part), "native path is off") || Part <- [<<"waits">>, <<"binaries">>]],
                   ok
           end),
    sonde_test:stop([Server | Waiting ++ Clients]).

stay() -> receive never -> ok end.

failed(Name) ->
    ok = sonde_test:until({failed, Name}, fun() -> is_map_key(<<"failed">>, maps:get(Name, map_get(<<"parts">>, data()), #{})) end),
    #{<<"parts">> := #{Name := #{<<"failed">> := Why}}} = data(),
    Why.

%% In the words of the report, with the same evidence.
diagnosis_is_told(_Config) ->
    Table = ets:new(web_suite_hoard, [public]),
    ok = more(Table, 1, 40000),
    Hoards = spawn(fun() -> hoard(Table, 40001) end),
    _ = start(#{interval => 1000}),
    #{<<"ms">> := Watched, <<"suspects">> := Suspects, <<"memory">> := #{<<"total">> := Total}} = part(<<"diagnosis">>),
    true = Watched >= 2000 andalso Total > 1000000,
    [_ | _] = [Finding || #{<<"finding">> := Finding, <<"evidence">> := [_ | _], <<"see">> := _} <- Suspects,
                          binary:match(Finding, <<"web_suite_hoard">>) =/= nomatch],
    ok = sonde_test:stop(Hoards),
    true = ets:delete(Table),
    ok.

hoard(Table, N) ->
    ok = more(Table, N, 50),
    ok = timer:sleep(20),
    hoard(Table, N + 50).

more(Table, From, Rows) ->
    true = ets:insert(Table, [{I, lists:seq(1, 20)} || I <- lists:seq(From, From + Rows - 1)]),
    ok.

names_are_text(_Config) ->
    Pid = sonde_test:hold(fun() -> lists:seq(1, 1000000) end),
    true = register(?MARKUP, Pid),
    {Turned, Shown} = report_SUITE:turned(),
    Other = sonde_test:hold(fun() -> lists:seq(1, 1000000) end),
    true = register(Turned, Other),
    _ = start(),
    Name = <<"'", (atom_to_binary(?MARKUP))/binary, "'">>,
    #{<<"rows">> := Rows} = part(<<"processes">>),
    [_] = [P || [P, N | _] <- Rows, N =:= Name],
    [_] = [P || [P, N | _] <- Rows, N =:= Shown],
    {200, _, Json} = fetch(element(2, address()) ++ "data"),
    [] = report_SUITE:turns_in(Json),
    %% in the page is nothing of the node
    {_, Path} = address(),
    {200, _, Page} = fetch(Path),
    nomatch = binary:match(Page, <<"alert(1)">>),
    {1, 1} = {length(binary:matches(Page, <<"<script>">>)), length(binary:matches(Page, <<"</script>">>))},
    sonde_test:stop([Pid, Other]).

nothing_is_content(_Config) ->
    {Holder, Clean} = report_SUITE:secrets(),
    _ = start(#{interval => 1000}),
    _ = [part(atom_to_binary(Part)) || Part <- sonde_web_sample:parts() -- sonde_test:pick([], [waits, binaries])],
    {_, Path} = address(),
    {200, _, Json} = fetch(Path ++ "data"),
    {match, _} = re:run(Json, pid_to_list(Holder)),
    [] = report_SUITE:secrets_in(Json),
    Clean().

path_is_told(_Config) ->
    _ = start(),
    Told = sonde_test:pick(<<"native">>, <<"disabled">>),
    #{<<"about">> := #{<<"native">> := Told}} = data(),
    ok.

%% ---- what it costs

idle_if_nobody_looks(_Config) ->
    ok = sonde_test:until(none, fun() -> sonde_test:helpers() =:= [] end),
    _ = start(),
    [] = sonde_test:helpers(),
    undefined = erlang:statistics(scheduler_wall_time),
    #{<<"number">> := First} = data(),
    [_ | _] = sonde_test:helpers(),
    true = is_list(erlang:statistics(scheduler_wall_time)),
    ok = sonde_test:until(nobody, fun() -> sonde_test:helpers() =:= [] end),
    ok = sonde_test:until(not_measured, fun() -> erlang:statistics(scheduler_wall_time) =:= undefined end),
    %% back again, and the numbers go on
    #{<<"number">> := Last, <<"points">> := [_ | _]} = data(First),
    true = Last > First.

%% Fifty requests of ten viewers, and no more samples than one viewer would have had.
viewers_share_samples(_Config) ->
    _ = start(),
    #{<<"number">> := First} = data(),
    Start = erlang:monotonic_time(millisecond),
    Self = self(),
    Viewers = [spawn_link(fun() -> Self ! {self(), [data() || _ <- lists:seq(1, 5)]} end) || _ <- lists:seq(1, 10)],
    Seen = lists:append([receive {Viewer, Answers} -> Answers end || Viewer <- Viewers]),
    Elapsed = erlang:monotonic_time(millisecond) - Start,
    true = length(samplers()) =< 1,
    Last = lists:max([Number || #{<<"number">> := Number} <- Seen]),
    true = Last - First =< Elapsed div 200 + 2,
    %% one point at one moment, whoever asks
    ByTime = lists:usort([{At, Point} || #{<<"points">> := Points} <- Seen, #{<<"at">> := At} = Point <- Points]),
    true = length(ByTime) =:= length(lists:ukeysort(1, ByTime)),
    true = length(ByTime) =< Last - First + 1.

only_what_is_new(_Config) ->
    _ = start(),
    _ = part(<<"allocators">>),
    ok = sonde_test:until(points, fun() -> length(maps:get(<<"points">>, data())) >= 3 end),
    #{<<"number">> := Number, <<"points">> := Points} = data(),
    ok = sonde_test:until(more, fun() -> map_get(<<"number">>, data()) >= Number + 2 end),
    #{<<"number">> := Now, <<"points">> := New, <<"parts">> := Parts} = data(Number),
    {true, []} = {length(New) =:= Now - Number, [P || P <- New, lists:member(P, Points)]},
    %% every five seconds
    false = is_map_key(<<"allocators">>, Parts),
    #{<<"points">> := [_, _, _ | _], <<"parts">> := #{<<"allocators">> := _}} = data(Now + 1000000).

%% All together take less than 1 percent, however long each takes, and however many processors there are.
parts_stay_in_their_share(_Config) ->
    Parts = sonde_web_sample:parts(),
    _ = [begin
             Used = lists:sum([Ms / (Capacity * sonde_web_sample:pace(Part, Ms, Capacity)) || Part <- Parts]),
             true = Used =< 0.0064
         end || Ms <- [0.01, 1, 7, 130, 4000, 60000], Capacity <- [1, 2, 8, 64], Ms =< 7 orelse Capacity >= 1],
    Now = 1000000,
    Small = sonde_web_sample:first(Parts, extent(1000, 1000000, 1000), 2, Now),
    Small = maps:from_list([{Part, Now} || Part <- Parts]),
    #{groups := Groups, processes := Now} = sonde_web_sample:first(Parts -- [groups], extent(100000, 1000000, 1000), 2, Now),
    true = Groups > Now + 100000,
    #{groups := Groups, processes := Processes, tables := Now} = sonde_web_sample:first([], extent(100000, 1000000, 1000), 2, Now),
    true = Processes > Now + 100000,
    %% with a million processes, nothing that reads each of them comes before its share is saved up
    [binaries, busy, diagnosis, groups, processes, stacks, waits] =
        lists:sort([Part || {Part, Due} <- maps:to_list(sonde_web_sample:first(Parts, extent(1000000, 1000000, 1000), 2, Now)),
                            Due > Now + 100000]),
    %% few processes may have large heaps, or many tables
    #{diagnosis := Diagnosis, processes := Now, binaries := Now} = sonde_web_sample:first(Parts, extent(1000, 3000000000, 1000), 2, Now),
    #{diagnosis := Now, processes := Now, binaries := Binaries} = sonde_web_sample:first(Parts, extent(1000, 1000000, 1000000), 2, Now),
    true = Diagnosis > Now + 100000 andalso Binaries > Now + 100000.

extent(Processes, Bytes, Rows) -> #{processes => Processes, bytes => Bytes, rows => Rows}.

%% It watches for seconds, and the lines go on meanwhile. If the viewers leave before it is done, and one comes back, no
%% other one starts at once.
diagnosis_runs_beside(_Config) ->
    _ = start(#{interval => 1000}),
    #{<<"number">> := First} = data(),
    ok = sonde_test:until(begun, fun() -> diagnosing() =/= [] end),
    [Watches] = diagnosing(),
    true = erlang:suspend_process(Watches),
    Ended = monitor(process, Watches),
    ok = sonde_test:until(goes_on, fun() -> map_get(<<"number">>, data()) >= First + 3 end),
    false = is_map_key(<<"diagnosis">>, map_get(<<"parts">>, data())),
    ok = sonde_test:until(nobody, fun() -> samplers() =:= [] end),
    %% it is gone, unless that has to wait for this
    _ = try erlang:resume_process(Watches) catch error:badarg -> gone end,
    receive {'DOWN', Ended, process, Watches, _} -> ok end,
    #{<<"number">> := Back} = data(),
    ok = sonde_test:until(goes_on, fun() -> [] = diagnosing(), map_get(<<"number">>, data()) > Back end).

samplers() ->
    {links, Linked} = process_info(whereis(sonde_web), links),
    [P || P <- sonde_test:helpers(), lists:member(P, Linked)].

diagnosing() ->
    [P || P <- sonde_test:helpers(), {_, Stack} <- [process_info(P, current_stacktrace)], {sonde_web_sample, diagnose, _, _} <- Stack].

%% What it watches costs as well, and all that dirty schedulers did meanwhile.
diagnosis_pays_for_its_threads(_Config) ->
    _ = start(#{interval => 1000}),
    _ = part(<<"diagnosis">>),
    #{<<"parts">> := #{<<"diagnosis">> := #{<<"ms">> := Ms, <<"every">> := Every}}} = data(),
    Cores = erlang:system_info(schedulers_online),
    {true, true, _} = {Ms >= 200, Every >= 30000 andalso Every >= 100 * Ms / 0.12 / Cores - 100, {Ms, Every}},
    {0, 3.0} = {sonde_web_sample:dirty([{I, 1.0} || I <- lists:seq(1, others())]),
                sonde_web_sample:dirty([{I, 1.0} || I <- lists:seq(1, others() + 3)])},
    %% not more than there are, and no less where each process is asked
    [1.6, 2.1, 8.1, 1.1] = [sonde_web_sample:threads(Side, Dirty, Capacity)
                            || {Side, Dirty, Capacity} <- [{native, 1.5, 2}, {native, 10, 2}, {native, 10, 64}, {{portable, off}, 0, 2}]],
    ok.

others() -> erlang:system_info(schedulers) + erlang:system_info(dirty_cpu_schedulers).

%% ---- the end

is_closed(Port) -> {error, econnrefused} =:= gen_tcp:connect({127, 0, 0, 1}, Port, []).

nothing_left(Before, Port) ->
    ok = sonde_test:until(closed, fun() -> is_closed(Port) end),
    ok = sonde_test:until(ended, fun() -> left(Before) =:= [] end),
    {undefined, []} = {whereis(sonde_web), [Tab || Tab <- ets:all(), binary:match(iolist_to_binary(io_lib:format("~p", [Tab])), <<"httpd">>) =/= nomatch]},
    undefined = erlang:statistics(scheduler_wall_time),
    ok.

left(Before) ->
    [{Pid, Call} || Pid <- processes() -- Before, Call <- [proc_lib:translate_initial_call(Pid)],
                    lists:any(fun(Prefix) -> lists:prefix(Prefix, atom_to_list(element(1, Call))) end, ["sonde", "http", "supervisor"])].

stop_closes_the_port(_Config) ->
    Before = processes(),
    Pid = start(),
    Port = port(),
    _ = data(),
    {ok, Open} = gen_tcp:connect({127, 0, 0, 1}, Port, [binary, {active, false}]),
    true = unlink(Pid),
    ok = sonde_web:stop(),
    {error, closed} = gen_tcp:recv(Open, 0, 10000),
    ok = nothing_left(Before, Port),
    sonde_web:stop().

killed_leaves_nothing(_Config) ->
    _ = process_flag(trap_exit, true),
    Before = processes(),
    Pid = start(),
    Port = port(),
    _ = data(),
    ok = sonde_test:stop(Pid),
    nothing_left(Before, Port).

%% With the shell that started it, as its group leader stands for it, and with the process that is linked to it.
ends_with_its_owner(_Config) ->
    Before = processes(),
    Leader = spawn(fun() -> answer_io() end),
    Self = self(),
    _ = spawn(fun() ->
                      true = group_leader(Leader, self()),
                      Self ! sonde_web:start(#{interval => 200})
              end),
    {ok, Pid} = receive Started -> Started end,
    Port = port(),
    true = is_pid(Pid) andalso not is_closed(Port),
    ok = sonde_test:stop(Leader),
    ok = nothing_left(Before, Port),
    Linked = spawn(fun() -> Self ! {linked, sonde_web:start_link(#{})}, receive after infinity -> ok end end),
    {ok, _} = receive {linked, Again} -> Again end,
    Port2 = port(),
    ok = sonde_test:stop(Linked),
    nothing_left(Before, Port2).

answer_io() ->
    receive
        {io_request, From, As, _} -> From ! {io_reply, As, ok}, answer_io()
    end.

lives_under_a_supervisor(_Config) ->
    {ok, Sup} = supervisor:start_link(?MODULE, [sonde_web:child_spec(#{interval => 200})]),
    First = whereis(sonde_web),
    {200, _, _} = fetch(element(2, address())),
    ok = sonde_test:stop(First),
    ok = sonde_test:until(again, fun() -> whereis(sonde_web) =/= First andalso is_pid(whereis(sonde_web)) end),
    {200, _, _} = fetch(element(2, address())),
    Port = port(),
    true = unlink(Sup),
    ok = gen_server:stop(Sup),
    sonde_test:until(closed, fun() -> is_closed(Port) end).

init(Children) -> {ok, {#{}, Children}}.

a_lost_sampler_is_replaced(_Config) ->
    _ = start(),
    #{<<"number">> := Number} = data(),
    ok = sonde_test:stop(sonde_test:helpers()),
    ok = sonde_test:until(goes_on, fun() -> map_get(<<"number">>, data()) > Number end).
