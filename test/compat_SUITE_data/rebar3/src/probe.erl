%% A project that uses recon. Started in a release, it writes what recon's calls answer there to the
%% file that PROBE_ANSWERS names, and ends the node.
-module(probe).
-behaviour(application).

-export([start/2, stop/1]).

start(_Type, _Args) ->
    Said = try answers() catch Class:Why:Stack -> failed({Class, Why, Stack}) end,
    ok = file:write_file(os:getenv("PROBE_ANSWERS"), io_lib:format("~p.~n", [Said])),
    {ok, spawn_link(fun init:stop/0)}.

stop(_State) ->
    ok.

%% As text: a pid cannot be read back.
failed(What) ->
    #{failed => lists:flatten(io_lib:format("~0tp", [What]))}.

answers() ->
    {ok, Version} = application:get_key(recon, vsn),
    [{Largest, Bytes, _}] = recon:proc_count(memory, 1),
    {memory_used, [{memory, Same} | _]} = recon:info(Largest, memory_used),
    #{version => Version,
      applications => [App || {App, _, _} <- application:which_applications(),
                              lists:member(App, [recon, sonde])],
      mode => code:get_mode(),
      status => maps:get(status, sonde:native()),
      %% Two looks at a process that may work meanwhile.
      proc_count => is_integer(Bytes) andalso is_integer(Same),
      windows => length(recon:proc_window(reductions, 2, 10)),
      used => recon_alloc:memory(used) > 0,
      usage => recon_alloc:memory(usage) > 0.0,
      pid => recon_lib:term_to_pid("<0.1.0>") =:= list_to_pid("<0.1.0>"),
      record => iolist_to_binary(recon_rec:format_tuple({a, 1})),
      map => recon_map:is_active(),
      traced => {recon_trace:calls({probe, stop, 1}, 1), recon_trace:clear()}}.
