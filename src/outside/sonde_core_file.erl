%% @private
%% What a core file says of the OS process that it is of: which of its memory is where in the file, which
%% program it ran, and how that was started. Knows ELF, and what Linux notes in a core file; does not know what a
%% VM has in its memory.
%%
%% The file may be anything. All that is read of it is bounded, and parsed in time linear in its size.
-module(sonde_core_file).

-export([open/1, words/1, flags/1, program/1, libraries/1, build_id/1, build_id_of/1, missing/1, errors/1]).
-export_type([core/0, why/0]).

%% `seen': the file as it was when it was opened; `segments': start, size in the file and offset of each part of the
%% memory, 64 bits each; `headers': where the program has its own headers; `files': what was mapped where; `line': the
%% first 79 bytes of its command line;
%% `missing': how many bytes the file is too short.
-type core() :: #{path := binary(), seen := {non_neg_integer(), non_neg_integer(), non_neg_integer()},
                  segments := binary(), headers := non_neg_integer(), auxv := #{non_neg_integer() => non_neg_integer()},
                  files := [{non_neg_integer(), non_neg_integer(), binary()}], line := binary(), missing := non_neg_integer()}.
-type why() :: {no_file, file:posix() | badarg | terminated} | no_core | compressed | other_machine | too_short
             | too_many_parts | overlapping | notes | no_auxv | {no_notes, Missing :: pos_integer()}.

-include_lib("kernel/include/file.hrl").

-define(HEADER, 64).
-define(SEGMENT, 56).
-define(CHUNK, 4096).          % program headers at a time
-define(SEGMENTS_MAX, (1 bsl 18)). % as in core_file.h
-define(NOTES_MAX, (16 bsl 20)).   % bytes; a thousand threads have about 5 MB
-define(AUXV_MAX, 4096).
-define(MANY, 16#FFFF).        % the number of segments is elsewhere
-define(ET_CORE, 4).
-define(X86_64, 62).
-define(PT_LOAD, 1).
-define(PT_NOTE, 4).
-define(PT_PHDR, 6).
-define(NT_PRPSINFO, 3).
-define(NT_AUXV, 6).
-define(NT_FILE, 16#46494C45).
-define(NT_GNU_BUILD_ID, 3).
-define(AT_PHDR, 3).
-define(AT_PHNUM, 5).
-define(AT_PLATFORM, 15).
-define(AT_EXECFN, 31).
-define(PROGRAM_HEADERS, 64).  % a program has about twelve
-define(PROGRAM_NOTES, 65536). % bytes
-define(WORDS_BYTES, (8 bsl 20)). % the kernel allows 6 MB for words and environment
-define(WORDS_MAX, 4096).
-define(ADDRESS_MAX, 16#FFFFFFFFFFFFFFFF).
-define(OFFSET_MAX, 16#3FFFFFFFFFFFFFFF).

-spec open(file:filename_all()) -> {ok, core()} | {error, why()}.
open(Name) ->
    try
        Seen = seen(Name),
        {ok, with_file(Name, fun(File) -> read(File, path(Name), Seen) end)}
    catch throw:{no_core, Why} -> {error, Why}
    end.

-spec no(why()) -> no_return().
no(Why) -> throw({no_core, Why}).

%% A pipe is not waited for.
seen(Name) ->
    case file:read_file_info(Name, [raw, {time, posix}]) of
        {ok, #file_info{type = regular, size = Size, mtime = Mtime, inode = Inode}} -> {Size, Mtime, Inode};
        {ok, _} -> no(no_core);
        {error, Why} -> no({no_file, Why})
    end.

with_file(Name, Fun) ->
    case file:open(Name, [read, raw, binary]) of
        {ok, File} ->
            try Fun(File)
            after file:close(File)
            end;
        {error, system_limit} -> no({no_file, emfile});
        {error, Why} -> no({no_file, Why})
    end.

path(Name) when is_binary(Name) -> Name;
path(Name) ->
    case unicode:characters_to_binary(Name, unicode, file:native_name_encoding()) of
        Path when is_binary(Path) -> Path;
        _ -> no({no_file, badarg})
    end.

read(File, Path, {Size, _, _} = Seen) ->
    {Offset, Count} = header(pread(File, 0, ?HEADER), File),
    Headers = headers(File, Offset, Count, []),
    Loads = lists:sort([{Start, Length, At} || {?PT_LOAD, At, Start, Length} <- Headers, Length > 0]),
    ok = is_ordered(Loads, 0),
    Notes = notes([pread(File, At, min(Length, max(0, Size - At)))
                   || {At, Length} <- bounded([{At, Length} || {?PT_NOTE, At, _, Length} <- Headers], 0)]),
    Auxv = auxv(Notes),
    End = lists:foldl(fun({_, Length, At}, Max) -> max(Max, At + Length) end, 0, Loads),
    Base = case Auxv of
               #{?AT_PHDR := Address} -> Address;
               #{} -> no(without_notes(lists:max([End | [At + Length || {?PT_NOTE, At, _, Length} <- Headers]]) - Size))
           end,
    #{path => Path, seen => Seen, headers => Base, auxv => Auxv, files => files(Notes),
      line => line(Notes),
      segments => << <<Start:64/native, Length:64/native, At:64/native>> || {Start, Length, At} <- Loads >>,
      missing => max(0, End - Size)}.

%% A debugger writes them last.
without_notes(Missing) when Missing > 0 -> {no_notes, Missing};
without_notes(_) -> no_auxv.

%% ---- segments

header(<<16#7F, "ELF", 2, 1, _:10/binary, Type:16/little, Machine:16/little, _:12/binary, Offset:64/little,
         Sections:64/little, _:6/binary, Size:16/little, Count:16/little, _/bits>>, File) ->
    Type =:= ?ET_CORE orelse no(no_core),
    Machine =:= ?X86_64 andalso Size =:= ?SEGMENT orelse no(other_machine),
    {Offset, case Count of ?MANY -> many(pread(File, Sections, ?HEADER)); _ -> Count end};
header(<<16#7F, "ELF", _:12/binary, ?ET_CORE:16/little, _/bits>>, _) -> no(other_machine);
header(<<16#1F, 16#8B, _/bits>>, _) -> no(compressed);
header(<<16#28, 16#B5, 16#2F, 16#FD, _/bits>>, _) -> no(compressed);
header(<<16#04, 16#22, 16#4D, 16#18, _/bits>>, _) -> no(compressed);
header(<<16#FD, "7zXZ", 0, _/bits>>, _) -> no(compressed);
header(_, _) -> no(no_core).

%% The first section header has the number.
many(<<_:44/binary, Count:32/little, _/bits>>) -> Count;
many(_) -> no(too_short).

headers(_, _, Count, _) when Count > ?SEGMENTS_MAX ->
    no(too_many_parts);
headers(File, Offset, Count, Done) ->
    Now = min(Count, ?CHUNK),
    Bytes = pread(File, Offset, Now * ?SEGMENT),
    byte_size(Bytes) =:= Now * ?SEGMENT orelse no(too_short),
    Found = [Parsed || <<Header:?SEGMENT/binary>> <= Bytes, Parsed <- [segment(Header)]],
    case Count - Now of
        0 -> lists:append(lists:reverse([Found | Done]));
        Left -> headers(File, Offset + Now * ?SEGMENT, Left, [Found | Done])
    end.

segment(<<Type:32/little, _:32, Offset:64/little, Start:64/little, _:64, Size:64/little, _/bits>>) ->
    {Type, Offset, Start, Size}.

is_ordered([{Start, Size, Offset} | Segments], Last) ->
    Start >= Last andalso Start + Size =< ?ADDRESS_MAX andalso Offset + Size =< ?OFFSET_MAX
        orelse no(overlapping),
    is_ordered(Segments, Start + Size);
is_ordered([], _) ->
    ok.

%% ---- notes

bounded([{At, Size} | Notes], Sum) ->
    Sum + Size =< ?NOTES_MAX orelse no(notes),
    [{At, Size} | bounded(Notes, Sum + Size)];
bounded([], _) ->
    [].

%% Of each kind that we need, the first one.
notes(Parts) ->
    lists:foldl(fun(Part, Found) -> maps:merge(notes(Part, #{}), Found) end, #{}, Parts).

notes(<<NameSize:32/little, Size:32/little, Type:32/little, Rest/bits>>, Found) ->
    Name = padded(NameSize),
    Length = padded(Size),
    case Rest of
        <<Owner:Name/binary, Bytes:Size/binary, More/bits>> ->
            Kept = case {Owner, Type} of
                       {<<"CORE", _/bits>>, ?NT_PRPSINFO} -> [psinfo];
                       {<<"CORE", _/bits>>, ?NT_AUXV} -> [auxv];
                       {<<"CORE", _/bits>>, ?NT_FILE} -> [files];
                       {<<"GNU", 0>>, ?NT_GNU_BUILD_ID} -> [build_id];
                       _ -> []
                   end,
            notes(skip(More, Length - Size), lists:foldl(fun(Key, Map) -> maps:merge(#{Key => Bytes}, Map) end,
                                                         Found, Kept));
        _ ->
            Found
    end;
notes(_, Found) ->
    Found.

padded(Size) -> (Size + 3) div 4 * 4.

skip(Bytes, N) ->
    case Bytes of
        <<_:N/binary, More/bits>> -> More;
        _ -> <<>>
    end.

line(#{psinfo := <<_:56/binary, Line:79/binary, _/bits>>}) -> hd(binary:split(Line, <<0>>));
line(#{}) -> <<>>.

auxv(#{auxv := Bytes}) when byte_size(Bytes) =< ?AUXV_MAX ->
    maps:from_list(lists:reverse([{Key, Value} || <<Key:64/little, Value:64/little>> <= Bytes]));
auxv(_) ->
    #{}.

%% Start, end and offset of each, then all names.
files(#{files := <<Count:64/little, _:64, Rest/bits>>}) when Count =< ?SEGMENTS_MAX ->
    Size = Count * 24,
    case Rest of
        <<Places:Size/binary, Names/bits>> -> named(Places, Names);
        _ -> no(notes)
    end;
files(#{files := _}) ->
    no(notes);
files(#{}) ->
    [].

named(<<Start:64/little, End:64/little, _:64, Places/bits>>, Names) ->
    case binary:split(Names, <<0>>) of
        [Name, More] -> [{Start, End, Name} | named(Places, More)];
        [_] -> no(notes)
    end;
named(<<>>, _) ->
    [].

%% ---- what was started

%% @doc The name of the file of its program; `deleted': there was no such file any more.
-spec program(core()) -> {file, binary()} | {deleted, binary()} | none.
program(#{headers := Address, files := Files}) ->
    case [Name || {Start, End, Name} <- Files, Address >= Start, Address < End] of
        [<<$/, _/bits>> = Name | _] -> is_deleted(Name);
        _ -> none
    end.

is_deleted(Name) ->
    Size = byte_size(Name) - byte_size(<<" (deleted)">>),
    case Name of
        <<File:Size/binary, " (deleted)">> -> {deleted, File};
        _ -> {file, Name}
    end.

%% @doc The names of the shared libraries that it had mapped.
-spec libraries(core()) -> [binary()].
libraries(#{files := Files}) ->
    lists:usort([Name || {_, _, <<$/, _/bits>> = Name} <- Files, binary:match(Name, <<".so">>) =/= nomatch]).

%% @doc The words of its command line, and then those of its environment. The kernel writes them to the stack between
%% the name of the platform and that of the program.
-spec words(core()) -> [binary()].
words(#{auxv := #{?AT_PLATFORM := From, ?AT_EXECFN := To}} = Core) when From < To, To - From =< ?WORDS_BYTES ->
    case memory(Core, From, To - From) of
        {ok, Bytes} ->
            [_Platform | Rest] = binary:split(Bytes, <<0>>),
            words(list_to_binary(Rest), ?WORDS_MAX, start);
        missing ->
            []
    end;
words(_) ->
    [].

words(<<0, Bytes/bits>>, N, start) -> words(Bytes, N, start);
words(<<>>, _, _) -> [];
words(_, 0, _) -> [];
words(Bytes, N, _) ->
    case binary:split(Bytes, <<0>>) of
        [Word, More] -> [Word | words(More, N - 1, more)];
        [_] -> []
    end.

%% @doc The flags of the emulator, by the beginning of its command line alone: for a file whose end is missing, where the
%% stack is.
-spec flags(core()) -> {ok, [binary()]} | none.
flags(#{line := Line}) ->
    case lists:splitwith(fun(Word) -> Word =/= <<"--">> end, binary:split(Line, <<" ">>, [global])) of
        {[_Program | Flags], [_, _ | _]} -> {ok, Flags};
        _ -> none
    end.

%% ---- which build

%% @doc Of its program; `none' if the file does not have it.
-spec build_id(core()) -> {ok, binary()} | none.
build_id(#{headers := Address, auxv := #{?AT_PHNUM := Count}} = Core) when Count =< ?PROGRAM_HEADERS ->
    case memory(Core, Address, Count * ?SEGMENT) of
        {ok, Bytes} ->
            Headers = [segment(Header) || <<Header:?SEGMENT/binary>> <= Bytes],
            Bases = [Address - Start || {?PT_PHDR, _, Start, _} <- Headers, Start =< Address],
            id([memory(Core, Base + Start, Size)
                || Base <- Bases, {?PT_NOTE, _, Start, Size} <- Headers, Size =< ?PROGRAM_NOTES]);
        missing ->
            none
    end;
build_id(_) ->
    none.

id(Notes) ->
    case notes([Bytes || {ok, Bytes} <- Notes]) of
        #{build_id := Id} when Id =/= <<>> -> {ok, Id};
        #{} -> none
    end.

%% @doc The same of an executable file.
-spec build_id_of(file:filename_all()) -> {ok, binary()} | none | {error, why()}.
build_id_of(Name) ->
    try with_file(Name, fun build_id_in/1) of
        {ok, Id} -> {ok, Id};
        none -> none
    catch throw:{no_core, Why} -> {error, Why}
    end.

build_id_in(File) ->
    case pread(File, 0, ?HEADER) of
        <<16#7F, "ELF", 2, 1, _:26/binary, Offset:64/little, _:14/binary, ?SEGMENT:16/little, Count:16/little, _/bits>>
          when Count =< ?PROGRAM_HEADERS ->
            Headers = [segment(Header) || <<Header:?SEGMENT/binary>> <= pread(File, Offset, Count * ?SEGMENT)],
            id([{ok, pread(File, At, Size)} || {?PT_NOTE, At, _, Size} <- Headers, Size =< ?PROGRAM_NOTES]);
        _ ->
            none
    end.

%% ---- reading

%% Of one segment.
memory(#{path := Path, segments := Segments}, Address, Size) ->
    case [Offset + (Address - Start)
          || <<Start:64/native, Length:64/native, Offset:64/native>> <= Segments,
             Address >= Start, Address + Size =< Start + Length] of
        [At] ->
            case with_file(Path, fun(File) -> pread(File, At, Size) end) of
                Bytes when byte_size(Bytes) =:= Size -> {ok, Bytes};
                _ -> missing
            end;
        _ ->
            missing
    end.

%% As much as the file has of it.
pread(_, _, 0) -> <<>>;
pread(_, Offset, _) when Offset > ?OFFSET_MAX -> <<>>;
pread(File, Offset, Size) ->
    case file:pread(File, Offset, Size) of
        {ok, Bytes} -> Bytes;
        eof -> <<>>;
        {error, Why} -> no({no_file, Why})
    end.

%% ---- words

%% @doc How many bytes the file is too short: the kernel, or a full disk, has cut it.
-spec missing(core()) -> non_neg_integer().
missing(#{missing := Missing}) -> Missing.

-spec errors(why()) -> unicode:chardata().
errors({no_file, Why}) -> file:format_error(Why);
errors(no_core) -> "it is not a core file";
errors(compressed) -> "it is compressed: decompress it first, or get it with coredumpctl dump";
errors(other_machine) -> "it is of another kind of machine than x86-64";
errors(too_short) -> "it is cut off before the list of its parts ends";
errors(too_many_parts) -> "it has more than 262144 parts";
errors(overlapping) -> "its parts overlap";
errors(notes) -> "its notes are larger than 16 MB, or broken";
errors({no_notes, Missing}) ->
    ["it is cut off: ", integer_to_list(Missing), " bytes are missing, and with them the notes that say where the program was "
     "loaded (gcore writes that at the end)"];
errors(no_auxv) -> "it does not say where the program was loaded: it is cut off, or not a core file of Linux".
