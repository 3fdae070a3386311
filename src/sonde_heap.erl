%% @doc Writes the heap of one process into a file for Chrome, and compares two such files.
%%
%% A dump is a V8 heap snapshot (`.heapsnapshot'). In Chrome, open Developer tools, Memory, Load.
%% Chrome then shows which object holds which (Containment), which kind of object takes most
%% (Summary), what keeps an object alive (Retainers), what would be freed with an object (Retained
%% Size), and two dumps side by side (Comparison).
-module(sonde_heap).

-export([dump/2, dump/3]).
-export([diff/2]).
-export_type([written/0, error/0, growth/0]).

-type written() :: #{nodes := non_neg_integer(), edges := non_neg_integer(),
                     bytes := non_neg_integer(), ms := non_neg_integer(), content => sensitive}.
-type error() :: busy | timeout | content_forbidden | content_sensitive | file:posix()
               | {heap_too_large, Words :: non_neg_integer(), Limit :: non_neg_integer()}
               | {native_off, Reason :: term()}.
%% Path and Kind are those of the file.
-type growth() :: {Path :: binary(), Kind :: binary(), CountDelta :: integer(),
                   BytesDelta :: integer()}.

%% @equiv dump(Pid, File, #{})
-spec dump(pid(), file:name_all()) ->
          {ok, written()} | undefined | {error, error()}.
dump(Pid, File) ->
    dump(Pid, File, #{}).

%% @doc Writes the heap of a local process into a new file that only its owner can read: kinds,
%% sizes, atoms and paths, but no other content of the heap. The process continues to run; it is not
%% collected, and its heap is not copied.
%%
%% `bytes' is the size of the file and `ms' the duration in milliseconds. `undefined': there is no
%% such process. If the call fails, it leaves no part of a file, unless the node itself goes down.
%%
%% <dl>
%% <dt>`force' (`false')</dt><dd>Replaces a file of the same name once the new one is complete.
%%   Without it the error is `eexist'. A symbolic link is never followed: with `force', the link
%%   itself is replaced, and its target stays. One to a device, a pipe, a folder or into /proc is an error.</dd>
%% <dt>`values' (`false')</dt><dd>Adds previews of values. Where the environment of the application
%%   has `{allow_content, false}' the result is `{error, content_forbidden}', and for a sensitive
%%   process `{error, content_sensitive}'.</dd>
%% <dt>`max_nodes' (5000000)</dt><dd>Beyond this number the smallest subtrees are folded into one
%%   node each.</dd>
%% <dt>`max_words' (1000000000)</dt><dd>A larger heap returns `{error, {heap_too_large, Words,
%%   Limit}}'.</dd>
%% <dt>`timeout' (30000)</dt><dd>Milliseconds until `{error, timeout}'.</dd>
%% <dt>`suspend' (`false')</dt><dd>Suspends the process while it is read.</dd>
%% <dt>`progress' (`false')</dt><dd>Draws a progress line on the terminal.</dd>
%% </dl>
%%
%% The dump of a process with `process_flag(sensitive, true)' has kinds, sizes and paths, but no
%% atoms, keys or names of functions; then `content' is `sensitive'.
%%
%% ```
%% sonde_heap:dump(whereis(my_server), "/tmp/my_server.heapsnapshot").
%% '''
-spec dump(pid(), file:name_all(), #{atom() => term()}) ->
          {ok, written()} | undefined | {error, error()}.
dump(Pid, File, Opts) ->
    (is_pid(Pid) andalso node(Pid) =:= node()) orelse error(badarg),
    #{force := Force} = Read = sonde_opts:read(Opts, options()),
    Name = sonde_private_file:name(File),
    case sonde_vm:side() of
        {portable, Why} -> {error, {native_off, Why}};
        native -> sonde_private_file:write(Name, Force, fun(_) -> sonde_v8_writer:open(Pid, Read) end)
    end.

options() ->
    sonde_look:options(#{force => sonde_opts:flag(false), values => sonde_opts:flag(false),
                         max_nodes => sonde_opts:positive(5000000)}).

%% @doc Returns what grew from one dump to the next, the largest growth in bytes first; what shrank
%% comes last, with negative numbers.
%%
%% `Path' is the path from a root to the counted objects: `<<"dictionary / {key,cache} / [2]">>'. It
%% has at most four steps; deeper objects count at its last step. If one object has more than 32
%% children, they share one step (`[_]'), except for the keys of the dictionary. An object that can
%% be reached in several ways counts once, on the first path in the file. `Kind' is the name that
%% Chrome shows. Sizes are bytes; an object without a size of its own does not count.
%%
%% The call compares two dumps of any size in bounded memory: 8 bytes for each node of one file, and
%% at most 65536 paths and 100000 kinds in paths. Further objects count for the path above them, and
%% for the kind `<<"...">>'. The call takes about a second for each million nodes.
%%
%% For a file that is not a dump it returns `{error, {bad_snapshot, {File, Why}}}', for a file that
%% cannot be read `{error, FileError}'.
-spec diff(file:name_all(), file:name_all()) ->
          [growth()] | {error, file:posix() | {bad_snapshot, {file:name_all(), Why :: atom()}}}.
diff(FileA, FileB) ->
    Names = [sonde_private_file:name(File) || File <- [FileA, FileB]],
    sonde_helper:call(fun(Caller) -> sonde_heap_diff:diff(Names, Caller) end).
