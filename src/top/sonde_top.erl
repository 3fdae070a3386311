%% @private
%% The live view, {@link sonde:top/1}: one process that receives lines from the terminal, samples
%% from a job, and the exit of its caller or its terminal, and waits for nothing else.
%% `sonde_top_model' decides what is shown, `sonde_top_view' how it looks.
-module(sonde_top).

-export([top/1, take/2]).
-export_type([opts/0, error/0]).

-type opts() :: #{node => node(), interval => Ms :: 1000..3600000, rows => pos_integer(),
                  sort => sonde_attr:attr() | {growth, sonde_attr:attr()},
                  pages => [sonde_top_page:own()],
                  width => Columns :: pos_integer(), height => Lines :: pos_integer()}.
-type error() :: {error, {node(), noconnection | no_sonde | timeout | term()}}.

-define(LEAVE_MS, 500).       % for the terminal to take the text that restores it
-define(LATE_MS, 3000).       % more than that without a sample is shown
-define(TICK_MS, 1000).
-define(REMOTE_MS, 120000).   % for a sample from another node, beyond its interval

-spec top(opts()) -> ok | error().
top(Opts) ->
    Read = options(Opts),
    Me = self(),
    sonde_helper:call(fun(Caller) -> run(Caller, Read#{without => Me}) end).

options(Opts) ->
    Size = fun(N) -> N =:= auto orelse is_integer(N) andalso N > 0 andalso N =< 1000 end,
    sonde_opts:read(Opts, #{node => {node(), fun is_atom/1},
                            interval => {1000, fun(Ms) -> is_integer(Ms) andalso Ms >= 1000
                                                              andalso Ms =< 3600000 end},
                            rows => {auto, Size}, width => {auto, Size}, height => {auto, Size},
                            pages => {auto, fun sonde_top_page:are_pages/1},
                            sort => {memory, fun is_sort/1}}).

is_sort({growth, Attr}) -> sonde_attr:is_native(Attr) andalso is_sort(Attr);
is_sort(Attr) -> lists:keymember(Attr, 2, sonde_top_keys:sorts()).

%% Nothing is drawn before the first sample: an error until then leaves the terminal as it is.
run(Caller, #{node := Node, without := Mine} = Opts) ->
    Device = group_leader(),
    State = #{caller => Caller, device => monitor(process, Device), node => Node,
              without => [Mine || Node =:= node()],
              model => sonde_top_model:new(Opts), screen => Opts, job => none, asked => none,
              started => 0, since => none, next => now_ms(), reading => none, drawing => none, changed => false,
              kept => ""},
    Job = start(State),
    receive
        {'EXIT', Pid, {answer, {ok, Sample}}} when Pid =:= map_get(job, Job) ->
            {Module, Function} = sonde_remote_name:on(Node, sonde_top_sample, meter),
            _ = spawn(Node, Module, Function, [self()]),
            Screen = sonde_top_screen:open(Device, Opts),
            _ = sonde_top_screen:write(sonde_top_screen:enter(Screen), Screen),
            loop(sampled(Sample, Job#{screen => Screen}));
        {'EXIT', Pid, Why} when Pid =:= map_get(job, Job) ->
            failed(Why, Job);
        {'DOWN', Ref, process, _, _} when Ref =:= Caller; Ref =:= map_get(device, Job) ->
            ok
    end.

failed({answer, {error, Why}}, _) -> {error, Why};
failed(Why, #{node := Node}) -> {error, {Node, Why}}.

loop(State) ->
    Ready = draw(read(sample(State))),
    #{caller := Caller, device := Device, job := Job, reading := Reading,
      drawing := Drawing} = Ready,
    receive
        {'EXIT', Job, {answer, {ok, Sample}}} when is_pid(Job) ->
            loop(sampled(Sample, Ready));
        {'EXIT', Job, Why} when is_pid(Job) ->
            told(failed(Why, Ready), Ready#{job => none});
        {io_reply, Drawing, ok} ->
            loop(Ready#{drawing => none});
        {io_reply, Reading, Read} ->
            got(Read, Ready#{reading => none});
        {io_reply, _, _} ->
            loop(Ready#{drawing => none});
        {'DOWN', Caller, process, _, _} ->
            leave(Ready);
        {'DOWN', Device, process, _, _} ->
            ok;
        _ ->
            loop(Ready)
    after patience(Ready) ->
        loop(late(Ready))
    end.

%% ---- samples

patience(#{job := none, next := Next, model := Model}) when Next =/= infinity ->
    case sonde_top_model:request(Model) of
        none -> infinity;
        _ -> max(0, Next - now_ms())
    end;
patience(#{job := Job}) when is_pid(Job) ->
    ?TICK_MS;
patience(_) ->
    infinity.

%% A node that hangs answers nothing: then what is shown is old.
late(#{job := Job, since := Since, model := #{interval := Ms} = Model} = State) when is_pid(Job) ->
    case now_ms() - Since - Ms of
        Late when Late > ?LATE_MS -> State#{changed => true, model => Model#{late => (Late + Ms) div 1000}};
        _ -> State
    end;
late(State) ->
    State.

sample(#{job := none, next := Next, model := Model} = State) when Next =/= infinity ->
    case now_ms() >= Next andalso sonde_top_model:request(Model) of
        #{} -> start(State);
        _ -> State
    end;
sample(State) ->
    State.

%% `since': when the node was first asked after its last answer.
start(#{node := Node, model := Model, without := Without, since := Since} = State) ->
    Request = sonde_top_model:request(Model),
    State#{since => case Since of none -> now_ms(); _ -> Since end,
           job => sonde_helper:job(fun([N, R]) -> take(N, R) end,
                                   [Node, Request#{without => Without}]),
           asked => Request, started => now_ms()}.

%% @doc Takes one sample of a node. Only the rows that are shown come from there.
-spec take(node(), sonde_top_sample:request()) ->
    {ok, sonde_top_sample:sample()} | {error, {node(), term()}}.
take(Node, Request) when Node =:= node() ->
    {ok, sonde_top_sample:take(Request)};
take(Node, #{interval := Ms} = Request) ->
    {Module, Function} = sonde_remote_name:on(Node, sonde_top_sample, take),
    try
        {ok, erpc:call(Node, Module, Function, [Request], Ms + ?REMOTE_MS)}
    catch
        error:{erpc, Why} -> {error, {Node, Why}};
        error:{exception, undef, _} -> {error, {Node, no_sonde}};
        error:{exception, Why, _} -> {error, {Node, Why}}
    end.

%% After a sample, the node is left alone for as long as the sample took: samples that take longer
%% than the interval must not run all the time.
sampled(#{ms := Ms} = Sample, #{model := Model, started := Started, screen := Screen} = State) ->
    #{interval := Interval} = Model,
    Next = case Screen of
               #{how := plain} -> infinity;
               _ -> max(Started + Interval, now_ms() + Ms)
           end,
    State#{job => none, since => none, next => Next, changed => true,
           model => sonde_top_model:sampled(Sample, Model#{late => 0})}.

%% ---- the terminal

draw(#{changed := true, drawing := none, job := Job, screen := #{how := How} = Screen,
       kept := Kept, model := Model} = State) when How =/= plain; Job =:= none ->
    {Width, Height} = sonde_top_screen:size(Screen),
    Sized = sonde_top_model:size(Width, Height, Model),
    Lines = sonde_top_view:lines(Sized, maps:with([unicode, color], Screen)),
    Ref = sonde_top_screen:write(sonde_top_screen:frame(Lines, Kept, Screen), Screen),
    State#{changed => false, drawing => Ref, model => Sized};
draw(State) ->
    State.

%% A terminal that cannot be written to while it reads is asked for a line after all is written.
read(#{reading := none, screen := #{how := How} = Screen, drawing := Drawing, job := Job,
       changed := Changed} = State)
  when How =/= plain; Drawing =:= none, Job =:= none, not Changed ->
    State#{reading => sonde_top_screen:read(Screen)};
read(State) ->
    State.

got(Text, #{screen := #{how := How}, kept := Kept} = State) when is_list(Text); is_binary(Text) ->
    case unicode:characters_to_list(Text) of
        Typed when is_list(Typed), How =:= keys ->
            {Actions, Left} = sonde_top_keys:typed(Kept, Typed),
            act(Actions, State#{kept => Left});
        Line when is_list(Line) ->
            act([sonde_top_keys:line(Line)], State);
        _ ->
            act([{unknown, "?"}], State)
    end;
%% No input will ever come: draw what there is before the end.
got(_, State) ->
    leave(drawn(draw(State))).

act([], State) ->
    loop(asked_otherwise(State#{changed => true}));
act([Action | Actions], #{model := Model} = State) ->
    case sonde_top_model:key(Action, Model) of
        {quit, _} -> leave(State);
        {go, New} -> act(Actions, State#{model => New})
    end.

%% A sample that is not wanted any more is killed. A plain terminal gets a new sample for each line.
asked_otherwise(#{screen := #{how := plain}, model := Model} = State) ->
    case sonde_top_model:request(Model) of
        none -> State;
        _ -> start(State)
    end;
asked_otherwise(#{job := Job, asked := Asked, model := Model} = State) ->
    case sonde_top_model:request(Model) of
        Asked -> State;
        _ when is_pid(Job) ->
            true = exit(Job, kill),
            receive {'EXIT', Job, _} -> State#{job => none, next => now_ms()} end;
        _ -> State#{next => now_ms()}
    end.

leave(State) ->
    leave("", State).

leave(Last, #{screen := Screen} = State) ->
    Ref = sonde_top_screen:write([sonde_top_screen:leave(Screen), Last], Screen),
    _ = drawn(State#{drawing => Ref}),
    ok.

%% The terminal still waits for a line, which would otherwise be taken from the shell.
told(Error, #{reading := none} = State) ->
    ok = leave(State),
    Error;
told({error, {Node, Why}} = Error, #{reading := Reading, caller := Caller,
                                     device := Device} = State) ->
    ok = leave(io_lib:format("sonde: ~ts: ~0tp. Press Enter.~n", [Node, Why]), State),
    receive
        {io_reply, Reading, _} -> Error;
        {'DOWN', Ref, process, _, _} when Ref =:= Caller; Ref =:= Device -> Error
    end.

drawn(#{drawing := none} = State) ->
    State;
drawn(#{drawing := Drawing, device := Device} = State) ->
    receive
        {io_reply, Drawing, _} -> State#{drawing => none};
        {'DOWN', Device, process, _, _} -> State#{drawing => none}
    after ?LEAVE_MS -> State#{drawing => none}
    end.

now_ms() -> erlang:monotonic_time(millisecond).
