%% @private
%% The requests of the live page ({@link sonde_web}), for OTP's httpd: the page, and its data. Whatever is
%% not exactly one of these, from where it may come, gets one answer, which reveals nothing.
-module(sonde_web_http).

-export([do/1, config/3, answer/3, is_token/1, is_loopback/1]).
-export([response_default_headers/0, response_header/1, request_header/1]). % httpd_custom_api

-export_type([what/0]).

-type what() :: #{server := pid(), token := binary(), page := binary(), policy := string(),
                  loopback := boolean()}.
-type answer() :: page | {data, After :: non_neg_integer()} | not_found | not_allowed.

%% As documented in inets' httpd.hrl, which is not there on every machine that compiles this.
-record(mod, {init_data, data = [], socket_type, socket, config_db, method, absolute_uri, request_uri,
              http_version, request_line, parsed_header = [], entity_body, connection}).

-define(SHORTEST, 32).        % characters of a token
-define(LONGEST, 128).
-define(PATIENCE_MS, 15000).  % of a request, for the first sample

%% @doc What httpd needs to know. It serves no file: the folders are only mandatory.
-spec config(inet:ip_address(), inet:port_number(), pid()) -> [{atom(), term()}].
config(Ip, Port, Server) ->
    Folder = code:root_dir(),
    [{port, Port}, {bind_address, Ip}, {ipfamily, case tuple_size(Ip) of 4 -> inet; 8 -> inet6 end},
     {server_name, "sonde"}, {server_root, Folder}, {document_root, Folder},
     {modules, [?MODULE]}, {customize, ?MODULE}, {server_tokens, none},
     {max_clients, 20}, {max_uri_size, 256}, {max_header_size, 16384}, {max_body_size, 1024},
     {keep_alive, true}, {keep_alive_timeout, 15}, {sonde_web, Server}].

-spec is_loopback(inet:ip_address()) -> boolean().
is_loopback({127, _, _, _}) -> true;
is_loopback(Ip) -> Ip =:= {0, 0, 0, 0, 0, 0, 0, 1}.

-spec is_token(term()) -> boolean().
is_token(Token) ->
    is_binary(Token) andalso byte_size(Token) >= ?SHORTEST andalso byte_size(Token) =< ?LONGEST
        andalso re:run(Token, "^[A-Za-z0-9_-]+$", [dollar_endonly, {capture, none}]) =:= match.

%% @doc Called by httpd, in the process of the connection.
-spec do(tuple()) -> {proceed, [{response, {response, [{term(), term()}], iodata()}}]}.
do(#mod{config_db = Db, method = Method, request_uri = Uri, parsed_header = Headers} = Mod) ->
    [{_, Server}] = ets:lookup(Db, sonde_web),
    Made = try
               What = gen_server:call(Server, what, ?PATIENCE_MS),
               made(answer({Method, Uri}, Headers, What), What)
           catch
               exit:_ -> response(503, "text/plain", [], <<"not available">>);
               _:_ -> made(not_found, #{})
           end,
    {proceed, [{response, Made} | Mod#mod.data]}.

made({data, After}, #{server := Server}) ->
    response(200, "application/json", [], gen_server:call(Server, {data, After}, ?PATIENCE_MS));
made(page, #{page := Page, policy := Policy}) ->
    response(200, "text/html; charset=utf-8", [{"content-security-policy", Policy}], Page);
made(not_allowed, _) ->
    response(405, "text/plain", [{"allow", "GET"}], <<"not allowed">>);
made(not_found, _) ->
    response(404, "text/plain", [], <<"not found">>).

response(Code, Type, Headers, Body) ->
    Bytes = iolist_to_binary(Body),
    {response, [{code, Code}, {content_type, Type}, {content_length, integer_to_list(byte_size(Bytes))} | Headers], Bytes}.

%% ---- what is asked for, and from where

%% @doc Decides about a request.
-spec answer({Method :: string(), Uri :: string()}, [{string(), string()}], what()) -> answer().
answer({"GET", Uri}, Headers, #{token := Token} = What) ->
    case is_local(Headers, What) andalso asked(Uri, Token) of
        page -> allowed(page, fetched(Headers) orelse is_navigation(Headers));
        {data, After} -> allowed({data, After}, fetched(Headers));
        false -> not_found
    end;
answer(_, _, _) ->
    not_allowed.

allowed(Asked, true) -> Asked;
allowed(_, false) -> not_found.

asked(Uri, Token) ->
    Size = byte_size(Token),
    case list_to_binary(Uri) of
        <<"/", Given:Size/binary, Rest/binary>> -> same(Given, Token) andalso path(Rest);
        _ -> false
    end.

path(<<"/">>) -> page;
path(<<"/data">>) -> {data, 0};
path(<<"/data?after=", Digits/binary>>) when byte_size(Digits) < 16 ->
    case re:run(Digits, "^[0-9]+$", [dollar_endonly, {capture, none}]) of
        match -> {data, binary_to_integer(Digits)};
        nomatch -> false
    end;
path(_) -> false.

%% Takes the same time wherever they differ.
same(A, B) ->
    0 =:= lists:foldl(fun({X, Y}, Differ) -> Differ bor (X bxor Y) end, 0,
                      lists:zip(binary_to_list(A), binary_to_list(B))).

%% A page elsewhere can give its own name this machine's address, but a request then still has that name.
is_local(Headers, What) ->
    case [Host || {"host", Host} <- Headers] of
        [Host] -> is_host(name(Host), What) andalso is_origin(Host, Headers);
        _ -> false
    end.

name("[" ++ _ = Host) ->
    case re:run(Host, "^\\[([0-9a-fA-F:.]+)\\](:[0-9]+)?$", [dollar_endonly, {capture, [1], list}]) of
        {match, [Name]} -> Name;
        nomatch -> ""
    end;
name(Host) ->
    hd(string:split(Host, ":")).

is_host(Name, #{loopback := Loopback}) ->
    case inet:parse_strict_address(Name) of
        {ok, Ip} -> not Loopback orelse is_loopback(Ip);
        {error, _} -> string:lowercase(Name) =:= "localhost"
    end.

is_origin(Host, Headers) ->
    [Origin || {"origin", Origin} <- Headers, Origin =/= "http://" ++ Host] =:= [].

%% Browsers say which page a request comes from.
fetched(Headers) ->
    [Site || {"sec-fetch-site", Site} <- Headers, Site =/= "same-origin", Site =/= "none"] =:= [].

%% A link to the page, but no frame and no script of another page.
is_navigation(Headers) ->
    [Mode || {"sec-fetch-mode", Mode} <- Headers] =:= ["navigate"]
        andalso [Dest || {"sec-fetch-dest", Dest} <- Headers] =:= ["document"].

%% ---- the headers of each response, also of httpd's own refusals

-spec response_default_headers() -> [{string(), string()}].
response_default_headers() ->
    [{"cache-control", "no-store"}, {"content-security-policy", "default-src 'none'; frame-ancestors 'none'"},
     {"cross-origin-opener-policy", "same-origin"}, {"cross-origin-resource-policy", "same-origin"},
     {"referrer-policy", "no-referrer"}, {"x-content-type-options", "nosniff"}, {"x-frame-options", "DENY"}].

-spec response_header(Header) -> {true, Header} when Header :: {string(), string()}.
response_header(Header) -> {true, Header}.

-spec request_header(Header) -> {true, Header} when Header :: {string(), string()}.
request_header(Header) -> {true, Header}.
