%% The heap of one process in a file, for Chrome, and what grew between two such files.
%%
%% A dump is a V8 heap snapshot (`.heapsnapshot'). In Chrome: Developer tools, Memory, Load. It then
%% shows what holds what (Containment), what kind of thing takes most (Summary), who keeps a thing
%% alive (Retainers), what would go if it went (Retained Size), and two dumps beside each other
%% (Comparison).
-module(sonde_heap).

-export([dump/2, dump/3]).
-export([diff/2]).
-export_type([written/0, error/0, growth/0]).

-type written() :: #{nodes := non_neg_integer(), edges := non_neg_integer(),
                     bytes := non_neg_integer(), ms := non_neg_integer(), content => sensitive}.
-type error() :: busy | timeout | content_forbidden | content_sensitive | file:posix()
               | {heap_too_large, Words :: non_neg_integer(), Limit :: non_neg_integer()}
               | {native_off, Reason :: term()}.
%% Path and Kind are as in the file.
-type growth() :: {Path :: binary(), Kind :: binary(), CountDelta :: integer(),
                   BytesDelta :: integer()}.

%% @equiv dump(Pid, File, #{})
-spec dump(pid(), file:name_all()) ->
          {ok, written()} | undefined | {error, error()}.
dump(Pid, File) ->
    dump(Pid, File, #{}).

%% @doc Writes the heap of a local process into a new file, which only its owner can read: kinds,
%% sizes, atoms and paths, and nothing else of what is on the heap. The process goes on meanwhile;
%% it is not collected, and its heap is not copied.
%%
%% `bytes' is the size of the file and `ms' the time it took, in milliseconds. `undefined': there
%% is no such process (any more). Whatever goes wrong, no part of a file is left, unless the node
%% itself goes down.
%%
%% <dl>
%% <dt>`force' (`false')</dt><dd>A file of this name is replaced, once the new one is complete.
%%   Without it the error is `eexist'. A symbolic link is never followed.</dd>
%% <dt>`values' (`false')</dt><dd>Adds previews of values. Where the environment of the application
%%   has `{allow_content, false}' the answer is `{error, content_forbidden}', and of a sensitive
%%   process `{error, content_sensitive}'.</dd>
%% <dt>`max_nodes' (5000000)</dt><dd>Beyond it the smallest subtrees are folded into one node
%%   each.</dd>
%% <dt>`max_words' (1000000000)</dt><dd>A larger heap is `{error, {heap_too_large, Words,
%%   Limit}}'.</dd>
%% <dt>`timeout' (30000)</dt><dd>Milliseconds until `{error, timeout}'.</dd>
%% <dt>`suspend' (`false')</dt><dd>Holds the process while it is read.</dd>
%% <dt>`progress' (`false')</dt><dd>Draws a line of progress on the terminal.</dd>
%% </dl>
%%
%% The dump of a process with `process_flag(sensitive, true)' has kinds, sizes and paths, but neither
%% atoms nor keys nor names of functions; then `content' is `sensitive'.
%%
%% ```
%% sonde_heap:dump(whereis(my_server), "/tmp/my_server.heapsnapshot").
%% '''
-spec dump(pid(), file:name_all(), #{atom() => term()}) ->
          {ok, written()} | undefined | {error, error()}.
dump(Pid, File, Opts) ->
    (is_pid(Pid) andalso node(Pid) =:= node()) orelse error(badarg),
    #{force := Force} = Read = sonde_opts:read(Opts, options()),
    Name = name(File),
    case sonde_vm:side() of
        {portable, Why} -> {error, {native_off, Why}};
        native -> sonde_private_file:write(Name, Force, fun() -> sonde_v8_writer:open(Pid, Read) end)
    end.

options() ->
    sonde_look:options(#{force => sonde_opts:flag(false), values => sonde_opts:flag(false),
                         max_nodes => sonde_opts:positive(5000000)}).

%% @doc What grew from one dump to the next, the largest growth in bytes first; what shrank comes
%% last, with negative numbers.
%%
%% `Path' is the way from a root to what is counted: `<<"dictionary / {key,cache} / [2]">>'. It has
%% at most four steps; what lies deeper is counted at the end of them. Where one thing has more
%% than 32 others, their places are not told apart (`[_]'), except for the keys of the dictionary.
%% What can be reached in several ways is counted once, for the first in the file. `Kind' is what
%% Chrome shows as the name. Sizes are bytes; what has no size of its own is not counted.
%%
%% Two dumps of any size are compared in bounded memory: 8 bytes for each node of one file, and at
%% most 65536 paths and 100000 kinds in paths; what comes later counts for the path above it, and
%% for the kind `<<"...">>'. It takes about a second for each million of nodes.
%%
%% A file that is no dump is `{error, {bad_snapshot, {File, Why}}}'; one that cannot be read,
%% `{error, FileError}'.
-spec diff(file:name_all(), file:name_all()) ->
          [growth()] | {error, file:posix() | {bad_snapshot, {file:name_all(), Why :: atom()}}}.
diff(FileA, FileB) ->
    Names = [name(FileA), name(FileB)],
    sonde_helper:call(fun(Caller) -> sonde_heap_diff:diff(Names, Caller) end).

%% As file:open/2 takes it, or badarg.
name(File) ->
    Name = try filename:flatten(File) catch error:_ -> error(badarg) end,
    case file:read_link_info(Name, [raw]) of
        {error, badarg} -> error(badarg);
        _ -> Name
    end.
