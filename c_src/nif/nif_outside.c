/* nif_outside.c: aims the library at another OS process.
 * Knows: the arguments from Erlang, and what must hold on the other side before anything there is read.
 * Does not know: how a process, a function or the text of an atom is found, or what is read there later.
 *
 * Only the command does this, in a VM of its own that runs the target's program: all that it proved in this
 * VM holds there, too, once every address in the program was moved. There is no way back. */
#include "nif/nif.h"

#include "util/alloc.h"
#include "vm/core_file.h"
#include "vm/executable.h"
#include "vm/stamp.h"
#include "vm/target.h"
#include "vm/term.h"

#include <errno.h>
#include <string.h>

enum { KNOWN_MAX = 64, SAMPLED = 200, SLOTS_LOOKED = 1 << 22, TRIES = 100 };

static struct mfa get_mfa(ErlNifEnv *env, ERL_NIF_TERM term)
{
    const ERL_NIF_TERM *mfa;
    int arity;
    unsigned n;
    if (!enif_get_tuple(env, term, &arity, &mfa) || arity != 3 || !enif_is_atom(env, mfa[0]) ||
        !enif_is_atom(env, mfa[1]) || !enif_get_uint(env, mfa[2], &n))
        return (struct mfa){0};
    return (struct mfa){mfa[0], mfa[1], n};
}

/* ---- what only another OS process needs is learned from processes and atoms of this one --------------- */

bool nif_get_known(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM term,
                   struct known_process *out)
{
    const ERL_NIF_TERM *known;
    int arity;
    if (!enif_get_tuple(env, term, &arity, &known) || arity != 4 ||
        !nif_find_process(env, vm, known[0], &out->proc) || out->proc == 0)
        return false;
    out->who.name = enif_is_atom(env, known[1]) ? known[1] : 0;
    out->who.call = get_mfa(env, known[2]);
    out->who.current = get_mfa(env, known[3]);
    return true;
}

static bool learn_identity(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM list,
                           struct identity_form *out)
{
    struct known_process known[KNOWN_MAX];
    ERL_NIF_TERM head;
    unsigned n = 0;
    for (; n < KNOWN_MAX && enif_get_list_cell(env, list, &head, &list); n++) {
        if (!nif_get_known(env, vm, head, &known[n]))
            return false;
    }
    return identity_learn(vm->reader, vm->lay, known, n, out);
}

/* [{Atom, Text}] */
static bool learn_atoms(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM list,
                        struct atom_table *out)
{
    struct known_atom known[KNOWN_MAX];
    const ERL_NIF_TERM *pair;
    ERL_NIF_TERM head;
    ErlNifBinary text;
    int arity;
    unsigned n = 0;
    for (; n < KNOWN_MAX && enif_get_list_cell(env, list, &head, &list); n++) {
        if (!enif_get_tuple(env, head, &arity, &pair) || arity != 2 ||
            !enif_is_atom(env, pair[0]) || !enif_inspect_binary(env, pair[1], &text))
            return false;
        known[n] = (struct known_atom){pair[0], (unsigned)text.size, text.data};
    }
    return atom_table_learn(vm->reader, known, n, out);
}

NIF(nif_do_learn)
{
    /* ([{Pid, Name | [], Call, Current | []}], [{Atom, Text}]): ok, or what could not be learned */
    struct sonde *s = sonde_of(env);
    struct vm vm;
    if (!atomic_load_explicit(&s->proved, memory_order_acquire) || s->is_aimed ||
        !enif_is_list(env, argv[0]) || !enif_is_list(env, argv[1]))
        return nif_raise(env, ATOM(badarg));
    vm = s->vm;
    vm.reader = nif_peek_reader(s);
    if (vm.reader == PEEK_NONE)
        return ATOM(no_reader);
    if (vm.code.n == 0)
        return ATOM(code);
    if (!learn_atoms(env, &vm, argv[1], &s->vm.atoms))
        return ATOM(atoms);
    return learn_identity(env, &vm, argv[0], &s->vm.identity) ? ATOM(ok) : ATOM(identity);
}

/* ---- the other side ---------------------------------------------------------------------------------- */

/* A reader checks each process that it reads. This tells at once that nothing there is as expected. A slot
 * may change while it is looked at; and a core file may lack a process, which then is not read. */
static bool slot_is_sound(const struct vm *vm, const struct core_file *core, size_t slot,
                          bool *used)
{
    uint64_t proc;
    uint64_t id;
    uint64_t again;
    for (unsigned i = 0; i < TRIES; i++) {
        if (!peek_word(vm->reader, vm->tab.tab + slot * 8, &proc))
            return false;
        if (proc == 0 || (core && !core_file_has(core, proc, LF(vm->lay, proc_size))))
            return true;
        *used = true;
        bool ok = peek_word(vm->reader, (uintptr_t)proc + LF(vm->lay, id), &id);
        peek_barrier();
        if (ok && peek_word(vm->reader, vm->tab.tab + slot * 8, &again) && again == proc &&
            (proctab_may_hold(vm->lay, &vm->tab, slot, id) || proctab_is_nobody(vm->lay, id)))
            return true;
    }
    return false;
}

/* The processes that a VM starts with are in its first slots, so an empty table need not be read to its end. */
static bool processes_are_sound(const struct vm *vm, const struct core_file *core)
{
    unsigned sampled = 0;
    size_t to = vm->tab.max < SLOTS_LOOKED ? vm->tab.max : SLOTS_LOOKED;
    for (size_t slot = 0; slot < to && sampled < SAMPLED;) {
        bool used = false;
        if (!peek_scan(vm->reader, vm->tab.tab, slot, to, &slot))
            return false;
        if (slot < to && !slot_is_sound(vm, core, slot++, &used))
            return false;
        sampled += used;
    }
    return sampled > 0;
}

static bool has_text(const struct vm *vm, uint64_t word, const char *text)
{
    struct atom_text found;
    return atom_table_text(vm->reader, &vm->atoms, word, &found) && found.n == strlen(text) &&
           memcmp(found.bytes, text, found.n) == 0;
}

static void move(struct vm *vm, uintptr_t shift)
{
    vm->tab.record += shift;
    vm->atoms.record += shift;
    vm->resource_free += shift;
    for (unsigned i = 0; i < vm->code.n; i++)
        vm->code.ranges[i] += shift;
    vm->literals = (struct block){0, 0}; /* each VM has its own */
    vm->first_call_key = 0;              /* it is an atom of this VM */
    vm->begins_late.module = 0;
    vm->tab.has_turnover = false; /* its words would come from pages that are kept */
}

/* Without schedulers, only the one call that asks for them does not answer; without ports, it does not read those that run.
 * Atoms `false' and `true' are the first two of every VM. 0: all is as expected. core: NULL for a living one. */
static ERL_NIF_TERM unexpected(struct vm *vm, uintptr_t shift, const struct core_file *core)
{
    uint64_t max = vm->tab.max;
    if (!proctab_read(vm->reader, vm->lay, vm->tab.record, &vm->tab))
        return ATOM(process_table);
    if (vm->tab.max != max)
        return ATOM(process_limit);
    if (core && !core_file_has(core, vm->tab.tab, vm->tab.max * 8ULL))
        return ATOM(process_table);
    if (!has_text(vm, ATOM(false), "false") || !has_text(vm, ATOM(true), "true"))
        return ATOM(atoms);
    (void)schedulers_move(vm->reader, vm->lay, shift, &vm->schedulers);
    (void)ports_move(vm->reader, vm->lay, shift, &vm->ports);
    return processes_are_sound(vm, core) ? 0 : ATOM(processes);
}

static ERL_NIF_TERM not_found(enum target_status st)
{
    return st == TARGET_GONE        ? ATOM(gone)
           : st == TARGET_FORBIDDEN ? ATOM(forbidden)
                                    : ATOM(other_program);
}

static bool may_aim(const struct sonde *s)
{
    return !s->is_aimed && s->vm.atoms.record != 0 && s->vm.identity.is_known;
}

static ERL_NIF_TERM aimed(struct sonde *s, const struct vm *vm, const struct core_file *core)
{
    s->has_count = s->vm.tab.has_turnover;
    s->vm = *vm;
    s->core = core;
    atomic_store(&s->reader, PEEK_OTHER);
    s->is_aimed = true;
    return ATOM(ok);
}

NIF(nif_do_aim)
{
    /* (OsPid): ok, or why this OS process cannot be read. After it, no process of this VM is read */
    struct sonde *s = sonde_of(env);
    int process;
    uintptr_t shift;
    if (!enif_get_int(env, argv[0], &process) || process <= 0 || !may_aim(s))
        return nif_raise(env, ATOM(badarg));
    enum target_status st = target_find(process, &shift);
    if (st != TARGET_OK)
        return not_found(st);
    struct vm vm = s->vm;
    move(&vm, shift);
    vm.reader = PEEK_OTHER;
    /* where its table is: hardly the same in another node */
    int failed = peek_aim(process, vm.tab.record + LF(vm.lay, ptab_tab));
    if (failed != 0)
        return failed == EPERM    ? ATOM(forbidden)
               : failed == ENOSYS ? ATOM(filtered)
               : failed == ESRCH  ? ATOM(gone)
                                  : ATOM(process_table);
    ERL_NIF_TERM why = unexpected(&vm, shift, NULL);
    return why != 0 ? why : aimed(s, &vm, NULL);
}

/* ---- a core file ------------------------------------------------------------------------------------- */

enum { PATH_MAX_BYTES = 4096, PAGE_MASK = 4095 };

/* {Size, Mtime, Inode} */
static bool get_seen(ErlNifEnv *env, ERL_NIF_TERM term, struct core_seen *out)
{
    const ERL_NIF_TERM *seen;
    int arity;
    ErlNifUInt64 w[3];
    if (!enif_get_tuple(env, term, &arity, &seen) || arity != 3 ||
        !enif_get_uint64(env, seen[0], &w[0]) || !enif_get_uint64(env, seen[1], &w[1]) ||
        !enif_get_uint64(env, seen[2], &w[2]))
        return false;
    *out = (struct core_seen){w[0], w[1], w[2]};
    return true;
}

/* A binary without an end mark. */
static bool get_path(ErlNifEnv *env, ERL_NIF_TERM term, char out[PATH_MAX_BYTES])
{
    ErlNifBinary path;
    if (!enif_inspect_binary(env, term, &path) || path.size == 0 || path.size >= PATH_MAX_BYTES ||
        memchr(path.data, 0, path.size))
        return false;
    memcpy(out, path.data, path.size);
    out[path.size] = 0;
    return true;
}

static bool get_segments(ErlNifEnv *env, ERL_NIF_TERM term, ErlNifBinary *out, size_t *n)
{
    enum { SIZE = sizeof(struct core_segment) };
    if (!enif_inspect_binary(env, term, out) || out->size % SIZE != 0)
        return false;
    *n = out->size / SIZE;
    return *n <= CORE_SEGMENTS_MAX;
}

/* 0: the build id is there, and is ours. */
static ERL_NIF_TERM other_build(const struct core_file *core, uintptr_t shift)
{
    unsigned char bytes[EXECUTABLE_ID_MAX];
    uintptr_t at;
    size_t n;
    if (!executable_build_id(&at, &n) || !core_file_read(core, at + shift, bytes, n))
        return ATOM(no_build_id);
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return memcmp(bytes, (const void *)at, n) == 0 ? 0 : ATOM(other_program);
}

/* headers: where the program headers were in that OS process. 0: all is as expected. */
static ERL_NIF_TERM aim_core(struct core_file *core, uint64_t headers, struct vm *vm)
{
    uintptr_t own = executable_headers();
    uintptr_t shift = (uintptr_t)headers - own;
    if (own == 0 || (shift & PAGE_MASK) != 0)
        return ATOM(other_program);
    ERL_NIF_TERM why = other_build(core, shift);
    if (why != 0)
        return why;
    core_file_lend(core, shift);
    move(vm, shift);
    vm->reader = PEEK_OTHER;
    peek_aim_core(core);
    why = unexpected(vm, shift, core);
    return why == 0 && !core_file_is_same(core) ? ATOM(changed) : why;
}

static ERL_NIF_TERM not_opened(enum core_status st)
{
    return st == CORE_BAD ? ATOM(badarg) : st == CORE_NOMEM ? ATOM(no_memory) : ATOM(changed);
}

NIF(nif_do_aim_core)
{
    /* (Path, {Size, Mtime, Inode}, Headers, Segments): ok, or why this core file cannot be read. Segments: for each
     * three words, as in struct core_segment. Of its memory, all is as after do_aim */
    struct sonde *s = sonde_of(env);
    char path[PATH_MAX_BYTES];
    struct core_seen seen;
    ErlNifUInt64 headers;
    ErlNifBinary segments;
    size_t n;
    struct core_file *core;
    if (!get_path(env, argv[0], path) || !get_seen(env, argv[1], &seen) ||
        !enif_get_uint64(env, argv[2], &headers) || !get_segments(env, argv[3], &segments, &n) ||
        !may_aim(s))
        return nif_raise(env, ATOM(badarg));
    /* Copying the bytes (up to 6 MB) would take 20 ms. A copy of the term shares them, unless the binary is small. */
    ErlNifEnv *kept = nif_out_of_memory() ? NULL : enif_alloc_env();
    if (!kept)
        return ATOM(no_memory);
    (void)enif_inspect_binary(kept, enif_make_copy(kept, argv[3]), &segments);
    enum core_status st = core_file_open(path, &seen, segments.data, n, &core);
    struct vm vm = s->vm;
    ERL_NIF_TERM why = st == CORE_OK ? aim_core(core, headers, &vm) : not_opened(st);
    if (why == 0)
        return aimed(s, &vm, core);
    if (st == CORE_OK) {
        peek_aim_core(NULL);
        core_file_close(core);
    }
    enif_free_env(kept);
    return why == ATOM(badarg) ? nif_raise(env, why) : why;
}

/* Slots of the table, and processes, that are looked at in one call: about 1 ms. */
enum { ABSENT_SLOTS = 1 << 17, ABSENT_PROCESSES = 1 << 12 };

/* Nothing is known of these but that they were there. */
static bool count_absent(const struct vm *vm, const struct core_file *core, size_t *next,
                         unsigned *absent)
{
    size_t left = vm->tab.max - *next;
    size_t end = *next + (left < ABSENT_SLOTS ? left : ABSENT_SLOTS);
    uint64_t proc;
    for (unsigned i = 0; *next < end && i < ABSENT_PROCESSES; i++) {
        if (!peek_scan(vm->reader, vm->tab.tab, *next, end, next))
            return false;
        if (*next < end && peek_word(vm->reader, vm->tab.tab + *next * 8, &proc)) {
            *absent += proc != 0 && !core_file_has(core, proc, LF(vm->lay, proc_size));
            ++*next;
        }
    }
    return true;
}

NIF(nif_do_absent)
{
    /* (Slot): {Count, Next | done}: processes that the core file has in its table, but not in its memory */
    struct sonde *s = sonde_of(env);
    struct vm vm = s->vm;
    ErlNifUInt64 from;
    if (!s->is_aimed || !enif_get_uint64(env, argv[0], &from) || from > vm.tab.max)
        return nif_raise(env, ATOM(badarg));
    vm.reader = nif_peek_reader(s);
    if (vm.reader == PEEK_NONE)
        return ATOM(no_reader);
    size_t next = from;
    unsigned n = 0;
    if (s->core && !count_absent(&vm, s->core, &next, &n))
        return ATOM(no_reader);
    bool more = s->core && next < vm.tab.max;
    return enif_make_tuple2(env, enif_make_uint(env, n),
                            more ? enif_make_uint64(env, next) : ATOM(done));
}
