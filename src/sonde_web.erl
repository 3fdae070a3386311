%% @doc A live page of the node, in a browser: its memory, work and schedulers as lines, anew each second, and the sections of a
%% report as often as their cost allows: the diagnosis, processes by application, the largest and busiest processes, waits, stacks, binary
%% memory, tables, ports and allocators. It reads only, and it samples only while somebody looks.
%%
%% ```
%% 1> sonde_web:start().
%% http://127.0.0.1:40415/6f0c.../
%% {ok,<0.95.0>}
%% '''
%% In a supervision tree, `sonde_web:child_spec(Opts)' is a child; in Elixir, `{:sonde_web, port: 4040}'.
%% There is one page on a node. It needs the application inets, of OTP, which need not be started.
%%
%% <h4>Options</h4>
%% A map, or a list of pairs:
%% <ul>
%% <li>`port' (0): where it listens; 0 takes a free port</li>
%% <li>`ip' (`{127,0,0,1}'): the address, which must be one of the loopback interface</li>
%% <li>`beyond_loopback' (false): allows any address. Connections are not encrypted, so anyone who can listen to the
%%     network can read the token. Forward the port with `ssh -L' instead</li>
%% <li>`interval' (1000 ms): the time from one sample to the next, from 200 to 60000</li>
%% <li>`token' (none): a fun without arguments that returns the secret part of the address, 32 to 128 letters,
%%     digits, `-' and `_'. Without it, each start draws a new one of 32 random bytes</li>
%% </ul>
%% <h4>Who can see it</h4>
%% Whoever has the address: it has the token in it, so treat it like a password. The page has no content of terms, only numbers, and
%% names of processes, tables, modules and functions. All other requests get the same answer, 404, and
%% those that do not read get 405, or 501 from httpd. No log has the token.
%%
%% <h4>What it costs</h4>
%% On average less than 1 percent of the time of the node's processors, after the first minute in which somebody looks: a part that takes
%% long is sampled less often, and the page says how often. Several viewers share the samples. If nobody looked for five intervals,
%% nothing is sampled.
-module(sonde_web).

-behaviour(gen_server).

-export([child_spec/1, start_link/0, start_link/1, start/0, start/1, stop/0, url/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2, format_status/1]).
-export_type([opts/0, error/0]).

-type opts() :: #{port => inet:port_number(), ip => inet:ip_address(), beyond_loopback => boolean(),
                  interval => Ms :: pos_integer(), token => fun(() -> iodata())}
              | [{atom(), term()}].
-type error() :: {already_started, pid()} | no_inets | no_page | no_random_bytes | bad_token
               | {listen, inet:posix()} | term().

-define(LEAST_MS, 200).
-define(MOST_MS, 60000).
-define(LOOKS, 5).            % intervals after which nobody looks
-define(POINTS, 300).         % kept, for those who come later
-define(STUCK_MS, 120000).    % a sampler that sends nothing for so long is ended
-define(TOKEN_BYTES, 32).
-define(TRIES, 20).           % to listen, where another page may be about to end
-define(TRY_MS, 50).
-define(STOP_MS, 10000).

%% `number': of the last point. One that starts later has larger ones, so that a page goes on with it.
-record(web, {what, url, interval, httpd, owner, sampler, deadline, asked = 0, waiting = [], pace = #{},
              about = <<"null">>, number, points = [], kept = 0, parts = #{}}).

%% @doc Returns a child specification. Raises `badarg' for an invalid option.
-spec child_spec(opts()) -> supervisor:child_spec().
child_spec(Given) ->
    _ = read(Given),
    #{id => ?MODULE, start => {?MODULE, start_link, [Given]}, restart => permanent,
      shutdown => ?STOP_MS + 1000, type => worker, modules => [?MODULE]}.

%% @equiv start_link(#{})
-spec start_link() -> {ok, pid()} | {error, error()}.
start_link() -> start_link(#{}).

%% @doc Starts the page, linked to the caller. Raises `badarg' for an invalid option. Errors:
%% <ul>
%% <li>`{already_started, Pid}': the node has a page</li>
%% <li>`no_inets': OTP's inets is not on this node</li>
%% <li>`no_page': `priv/live.html' is not here, as where sonde was loaded from another node</li>
%% <li>`no_random_bytes': neither crypto nor `/dev/urandom' gives a token</li>
%% <li>`bad_token': the fun returned something else, or failed</li>
%% <li>`{listen, Why}': the port cannot be had</li>
%% </ul>
-spec start_link(opts()) -> {ok, pid()} | {error, error()}.
start_link(Given) ->
    started(Given, fun(Args) -> gen_server:start_link({local, ?MODULE}, ?MODULE, Args, []) end, none).

%% @equiv start(#{})
-spec start() -> {ok, pid()} | {error, error()}.
start() -> start(#{}).

%% @doc Starts the page from a shell, and prints its address. It ends with the shell (with the group leader of the caller), or by {@link
%% stop/0}.
-spec start(opts()) -> {ok, pid()} | {error, error()}.
start(Given) ->
    case started(Given, fun(Args) -> gen_server:start({local, ?MODULE}, ?MODULE, Args, []) end, group_leader()) of
        {ok, Pid} ->
            io:format("~ts~n", [gen_server:call(Pid, url)]),
            {ok, Pid};
        Error ->
            Error
    end.

%% @doc Ends the page, and closes its port and connections.
-spec stop() -> ok.
stop() ->
    try gen_server:stop(?MODULE, normal, ?STOP_MS + 1000)
    catch exit:noproc -> ok
    end.

%% @doc Returns the address of the page, with the token. Exits if there is no page.
-spec url() -> string().
url() -> gen_server:call(?MODULE, url).

%% ---- the options

read(Given) when is_list(Given) ->
    try maps:from_list(Given) of
        Map when map_size(Map) =:= length(Given) -> read(Map);
        _ -> error(badarg)
    catch
        error:_ -> error(badarg)
    end;
read(Given) ->
    #{ip := Ip, beyond_loopback := Beyond} = Opts = sonde_opts:read(Given, options()),
    Beyond orelse sonde_web_http:is_loopback(Ip) orelse error(badarg),
    Opts.

options() ->
    #{port => {0, fun(Port) -> sonde_opts:is_count(Port) andalso Port < 65536 end},
      ip => {{127, 0, 0, 1}, fun inet:is_ip_address/1},
      beyond_loopback => sonde_opts:flag(false),
      interval => {1000, fun(Ms) -> is_integer(Ms) andalso Ms >= ?LEAST_MS andalso Ms =< ?MOST_MS end},
      token => {fun random/0, fun(Token) -> is_function(Token, 0) end}}.

%% The modules are variables because their applications may be absent.
random() -> random(crypto).

random(Crypto) ->
    Bytes = try Crypto:strong_rand_bytes(?TOKEN_BYTES)
            catch error:_ -> from_the_system(file:open("/dev/urandom", [read, raw, binary]))
            end,
    string:lowercase(binary:encode_hex(Bytes)).

from_the_system({ok, File}) ->
    {ok, Bytes} = file:read(File, ?TOKEN_BYTES),
    ok = file:close(File),
    ?TOKEN_BYTES = byte_size(Bytes),
    Bytes;
from_the_system({error, _}) ->
    throw(no_random_bytes).

%% ---- the start: what can fail is tried before there is a process

started(Given, Start, Owner) ->
    #{token := Token} = Opts = read(Given),
    try
        _ = [throw({already_started, Pid}) || Pid <- [whereis(?MODULE)], is_pid(Pid)],
        ok = inets(inets, httpd),
        Http = Opts#{token := token(Token), page => page(), port := port(Opts, ?TRIES)},
        %% a fun, so that no report has the token
        started(Start(fun() -> {Http, Owner} end))
    catch
        throw:Why -> {error, Why}
    end.

started({ok, Pid}) -> {ok, Pid};
started({error, {shutdown, Why}}) -> {error, Why};
started({error, Why}) -> {error, Why}.

inets(Inets, Httpd) ->
    case {code:ensure_loaded(Inets), code:ensure_loaded(Httpd)} of
        {{module, _}, {module, _}} -> ok;
        _ -> throw(no_inets)
    end.

page() ->
    case sonde_report:built("live.html") of
        {ok, Page} -> Page;
        error -> throw(no_page)
    end.

token(Draw) ->
    Token = try iolist_to_binary(Draw())
            catch throw:no_random_bytes -> throw(no_random_bytes); _:_ -> throw(bad_token)
            end,
    sonde_web_http:is_token(Token) orelse throw(bad_token),
    Token.

%% httpd fails with reports in the log if it cannot listen, so this is tried before. A page that ended just now
%% may still have the port.
port(#{ip := Ip, port := Wanted} = Opts, Tries) ->
    case gen_tcp:listen(Wanted, [{ip, Ip}, {reuseaddr, true}]) of
        {ok, Socket} ->
            {ok, Port} = inet:port(Socket),
            ok = gen_tcp:close(Socket),
            Port;
        {error, eaddrinuse} when Tries > 1 ->
            ok = timer:sleep(?TRY_MS),
            port(Opts, Tries - 1);
        {error, Why} ->
            throw({listen, Why})
    end.

%% @private
-spec init(fun(() -> {map(), pid() | none})) -> {ok, #web{}} | {stop, {shutdown, term()}}.
init(Args) ->
    {#{ip := Ip, port := Port, interval := Interval, token := Token, page := Page}, Owner} = Args(),
    _ = process_flag(trap_exit, true),
    case httpd(inets, sonde_web_http:config(Ip, Port, self())) of
        {ok, Httpd} ->
            {ok, #web{what = #{server => self(), token => Token, page => Page, policy => policy(Page),
                               loopback => sonde_web_http:is_loopback(Ip)},
                      url = ["http://", host(Ip), $:, integer_to_list(Port), $/],
                      httpd = Httpd, interval = Interval, number = erlang:system_time(millisecond),
                      owner = [monitor(process, Owner) || is_pid(Owner)]}};
        {error, Why} ->
            {stop, {shutdown, {httpd, Why}}}
    end.

%% Alone, not under the supervisor of inets: linked to this process, it ends with it.
httpd(Inets, Config) -> Inets:start(httpd, Config, stand_alone).

host({0, 0, 0, 0}) -> "127.0.0.1";
host({0, 0, 0, 0, 0, 0, 0, 0}) -> "[::1]";
host(Ip) when tuple_size(Ip) =:= 4 -> inet:ntoa(Ip);
host(Ip) -> [$[, inet:ntoa(Ip), $]].

%% The page has the same in an element, but frame-ancestors counts only in the header.
policy(Page) ->
    {match, [Policy]} = re:run(Page, "Content-Security-Policy\" content=\"([^\"]+)\"", [{capture, [1], list}]),
    Policy ++ "; frame-ancestors 'none'".

%% ---- the server

%% @private
-spec handle_call(term(), gen_server:from(), #web{}) -> {reply, term(), #web{}} | {noreply, #web{}}.
handle_call(url, _From, #web{url = Url, what = #{token := Token}} = Web) ->
    {reply, lists:flatten([Url, binary_to_list(Token), $/]), Web};
handle_call(what, _From, #web{what = What} = Web) ->
    {reply, What, Web};
handle_call({data, After}, From, #web{} = Web) ->
    case sampling(Web#web{asked = now_ms()}) of
        #web{points = []} = Now -> {noreply, Now#web{waiting = [{From, After} | Now#web.waiting]}};
        Now -> {reply, data(After, Now), Now}
    end;
handle_call(_, _From, Web) ->
    {reply, {error, badarg}, Web}.

%% @private
-spec handle_cast(term(), #web{}) -> {noreply, #web{}}.
handle_cast(_, Web) -> {noreply, Web}.

%% @private
-spec handle_info(term(), #web{}) -> {noreply, #web{}} | {stop, term(), #web{}}.
handle_info({about, Pid, Json}, #web{sampler = Pid} = Web) ->
    {noreply, Web#web{about = Json}};
handle_info({point, Pid, Json}, #web{sampler = Pid} = Web) ->
    {noreply, looked_at(told(keep(Json, alive(Web))))};
handle_info({part, Pid, Part, Json, Pace}, #web{sampler = Pid, parts = Parts, number = Number} = Web) ->
    {noreply, (alive(Web))#web{parts = Parts#{Part => {Number + 1, Json}}, pace = Pace}};
handle_info({pace, Pid, Pace}, #web{sampler = Pid} = Web) ->
    {noreply, Web#web{pace = Pace}};
handle_info({stuck, Pid}, #web{sampler = Pid} = Web) ->
    {noreply, ended(Web)};
handle_info({'EXIT', Pid, _}, #web{sampler = Pid} = Web) ->
    {noreply, ended(Web)};
handle_info({'EXIT', Httpd, Why}, #web{httpd = Httpd} = Web) ->
    {stop, {shutdown, {httpd, Why}}, Web};
handle_info({'DOWN', Ref, process, _, _}, #web{owner = [Ref]} = Web) ->
    {stop, {shutdown, owner_is_gone}, Web};
handle_info(_, Web) ->
    {noreply, Web}.

%% @private
-spec terminate(term(), #web{}) -> ok.
terminate(_, #web{httpd = Httpd} = Web) ->
    #web{} = ended(Web),
    Ref = monitor(process, Httpd),
    true = exit(Httpd, shutdown),
    receive
        {'DOWN', Ref, process, _, _} -> ok
    after ?STOP_MS ->
        true = exit(Httpd, kill),
        ok
    end.

%% @private
%% No report has the token.
-spec format_status(gen_server:format_status()) -> gen_server:format_status().
format_status(#{state := #web{} = Web} = Status) -> Status#{state := Web#web{what = hidden}};
format_status(Status) -> Status.

%% ---- samples

now_ms() -> erlang:monotonic_time(millisecond).

sampling(#web{sampler = undefined, interval = Interval, pace = Pace} = Web) ->
    Pid = sonde_web_sample:start(#{server => self(), interval => Interval, pace => Pace}),
    %% those of the last time would join with these to one line
    alive(Web#web{sampler = Pid, points = [], kept = 0});
sampling(Web) ->
    Web.

alive(#web{sampler = Pid, deadline = Before} = Web) ->
    _ = [erlang:cancel_timer(Before) || is_reference(Before)],
    Web#web{deadline = erlang:send_after(?STUCK_MS, self(), {stuck, Pid})}.

looked_at(#web{asked = Asked, interval = Interval} = Web) ->
    case now_ms() - Asked > ?LOOKS * Interval of
        true -> ended(Web);
        false -> Web
    end.

ended(#web{sampler = Pid, deadline = Deadline} = Web) ->
    _ = [exit(Pid, kill) || is_pid(Pid)],
    _ = [erlang:cancel_timer(Deadline) || is_reference(Deadline)],
    Web#web{sampler = undefined, deadline = undefined}.

%% Newest first; shortened only now and then.
keep(Json, #web{points = Points, kept = Kept, number = Number} = Web) ->
    More = [{Number + 1, Json} | Points],
    case Kept >= 2 * ?POINTS of
        true -> Web#web{points = lists:sublist(More, ?POINTS), kept = ?POINTS, number = Number + 1};
        false -> Web#web{points = More, kept = Kept + 1, number = Number + 1}
    end.

told(#web{waiting = Waiting} = Web) ->
    _ = [gen_server:reply(From, data(After, Web)) || {From, After} <- Waiting],
    Web#web{waiting = []}.

%% What came after a number that an earlier answer had; all, if there is no such answer of this page.
data(After, #web{number = Number} = Web) when After > Number -> data(0, Web);
data(After, #web{about = About, interval = Interval, number = Number, points = Points, parts = Parts}) ->
    New = lists:reverse([Json || {_, Json} <- lists:takewhile(fun({N, _}) -> N > After end, lists:sublist(Points, ?POINTS))]),
    Changed = [[sonde_json:encode(Part), $:, Json] || {Part, {N, Json}} <- lists:sort(maps:to_list(Parts)), N > After],
    [<<"{\"version\":1,\"about\":">>, About, <<",\"interval\":">>, integer_to_binary(Interval),
     <<",\"number\":">>, integer_to_binary(Number), <<",\"points\":[">>, lists:join($,, New),
     <<"],\"parts\":{">>, lists:join($,, Changed), <<"}}">>].
