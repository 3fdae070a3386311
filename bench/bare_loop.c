/* bare_loop.c: the minimum that any reader of all binaries' sizes, or of a word of each process that lives, has to
 * do. Not shipped.
 * Knows: the same tables and the same search for the process table as sonde.
 * Does not know: anything that makes reading a live node safe or its answer useful. Loads are
 * plain, no stamp is taken, no process is ranked: the answer is right only if no process runs. */
#include "vm/layout.h"
#include "vm/peek.h"
#include "vm/proctab.h"
#include "vm/object.h"
#include "vm/stamp.h"

#include <erl_nif.h>

#include <stdlib.h>
#include <string.h>

enum { ENV_PROC = 8 };

static const struct layout *lay;
static struct proctab tab;

static uint64_t word(uintptr_t addr)
{
    return *(const uint64_t *)addr; // NOLINT(performance-no-int-to-ptr)
}

static ERL_NIF_TERM find(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    /* (TableIndex, ProcessLimit): on a normal scheduler, where the environment knows the caller */
    unsigned index;
    ErlNifUInt64 limit;
    ErlNifPid self;
    if (!enif_get_uint(env, argv[0], &index) || index >= layout_count() ||
        !enif_get_uint64(env, argv[1], &limit) || !enif_self(env, &self))
        return enif_make_badarg(env);
    lay = layout_table(index);
    /* not the guarded reader: its handler would be installed in front of sonde's */
    bool found = proctab_find(PEEK_SYSCALL, lay, limit, enif_make_pid(env, &self),
                              word((uintptr_t)env + ENV_PROC), &tab);
    return enif_make_atom(env, found ? "ok" : "error");
}

/* ---- the whole table, or a part of it for each thread ---------------------------------------- */

static bool get_part(ErlNifEnv *env, const ERL_NIF_TERM argv[], uint64_t *from, uint64_t *to)
{
    unsigned part;
    unsigned parts;
    if (!enif_get_uint(env, argv[0], &part) || !enif_get_uint(env, argv[1], &parts) ||
        part >= parts)
        return false;
    *from = tab.max * part / parts;
    *to = tab.max * (part + 1) / parts;
    return true;
}

static ERL_NIF_TERM sizes(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    /* (Part, Parts): {Bytes, Binaries} */
    const uintptr_t off_heap = LF(lay, off_heap);
    const uintptr_t next = LF(lay, oh_next);
    const uintptr_t pointer = LF(lay, bin_ptr);
    const uintptr_t size = LF(lay, bin_size);
    const uint64_t binary = LF(lay, bin_thing);
    uint64_t bytes = 0;
    uint64_t count = 0;
    uint64_t slot;
    uint64_t end;
    if (!get_part(env, argv, &slot, &end))
        return enif_make_badarg(env);
    for (; slot < end; slot++) {
        uintptr_t proc = word(tab.tab + slot * 8);
        if (proc == 0)
            continue;
        for (uintptr_t at = word(proc + off_heap); at != 0; at = word(at + next)) {
            if (word(at) == binary) {
                bytes += word(word(at + pointer) + size);
                count++;
            }
        }
    }
    return enif_make_tuple2(env, enif_make_uint64(env, bytes), enif_make_uint64(env, count));
}

static ERL_NIF_TERM one_word(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    /* (reductions | heap_size, Part, Parts): the largest, and whose it is; sonde's loads, but nothing faults here */
    char attr[16];
    uint64_t most = 0;
    uint64_t whose = 0;
    uint64_t slot;
    uint64_t end;
    if (!enif_get_atom(env, argv[0], attr, sizeof attr, ERL_NIF_LATIN1) ||
        !get_part(env, argv + 1, &slot, &end))
        return enif_make_badarg(env);
    const uintptr_t field = strcmp(attr, "heap_size") == 0 ? LF(lay, heap_sz) : LF(lay, reds);
    for (; slot < end; slot++) {
        uint64_t proc;
        uint64_t state;
        uint64_t id;
        uint64_t value;
        if (!peek_word(PEEK_GUARDED, tab.tab + slot * 8, &proc) || proc == 0 ||
            !peek_word(PEEK_GUARDED, proc + (LF(lay, state) & ~7U), &state) ||
            !peek_word(PEEK_GUARDED, proc + LF(lay, id), &id) ||
            !peek_word(PEEK_GUARDED, proc + field, &value))
            continue;
        if ((state & STATE_GONE) == 0 && value > most) {
            most = value;
            whose = id;
        }
    }
    return enif_make_tuple2(env, enif_make_uint64(env, most), enif_make_uint64(env, whose));
}

/* ---- each Binary once ----------------------------------------------------------------------- */

struct met {
    uintptr_t binary;
    uint64_t when; /* position in the chains */
};

static struct met *all;
static size_t all_n, all_cap;

static int by_address(const void *a, const void *b)
{
    const struct met *x = a;
    const struct met *y = b;
    return (x->binary > y->binary) - (x->binary < y->binary);
}

static int by_time(const void *a, const void *b)
{
    const struct met *x = a;
    const struct met *y = b;
    return (x->when > y->when) - (x->when < y->when);
}

static bool meet(uintptr_t binary)
{
    enum { FIRST = 4096 };
    if (all_n == all_cap) {
        size_t cap = all_cap == 0 ? FIRST : all_cap * 2;
        struct met *more = realloc(all, cap * sizeof *more);
        if (!more)
            return false;
        all = more;
        all_cap = cap;
    }
    all[all_n] = (struct met){binary, all_n};
    all_n++;
    return true;
}

/* Other processes may drop theirs before they are touched. */
static bool meet_all(ErlNifEnv *env, ERL_NIF_TERM pids)
{
    ERL_NIF_TERM head;
    ErlNifPid pid;
    while (enif_get_list_cell(env, pids, &head, &pids)) {
        if (!enif_get_local_pid(env, head, &pid))
            return false;
        uintptr_t proc = word(tab.tab + proctab_slot(lay, &tab, pid.pid) * 8);
        uintptr_t at = proc ? word(proc + LF(lay, off_heap)) : 0;
        for (; at != 0; at = word(at + LF(lay, oh_next))) {
            if (word(at) == LF(lay, bin_thing) && !meet(word(at + LF(lay, bin_ptr))))
                return false;
        }
    }
    return true;
}

/* Reads each size and reference count, which share a cache line. */
static uint64_t touch_all(uint64_t *refs)
{
    const uintptr_t size = LF(lay, bin_size);
    const uintptr_t refc = LF(lay, bin_refc);
    uint64_t bytes = 0;
    for (size_t i = 0; i < all_n; i++) {
        bytes += word(all[i].binary + size);
        *refs += word(all[i].binary + refc);
    }
    return bytes;
}

static ERL_NIF_TERM gather(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    /* ([Pid]), which neither run nor end: {Binaries, Bytes}; keeps the order of the chains, in which touch reads them */
    uint64_t refs = 0;
    size_t n = 0;
    all_n = 0;
    if (!meet_all(env, argv[0]))
        return enif_make_badarg(env);
    qsort(all, all_n, sizeof *all, by_address);
    for (size_t i = 0; i < all_n; i++) {
        if (n == 0 || all[n - 1].binary != all[i].binary)
            all[n++] = all[i];
    }
    all_n = n;
    qsort(all, all_n, sizeof *all, by_time);
    uint64_t bytes = touch_all(&refs);
    return enif_make_tuple2(env, enif_make_uint64(env, all_n), enif_make_uint64(env, bytes));
}

static ERL_NIF_TERM touch(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc, (void)argv;
    uint64_t refs = 0;
    uint64_t bytes = touch_all(&refs);
    return enif_make_tuple2(env, enif_make_uint64(env, bytes), enif_make_uint64(env, refs));
}

/* Follows each pointer of lists, tuples and maps, lists without recursion. */
static uint64_t follow(uint64_t term)
{
    uint64_t words = 0;
    while ((term & 3) == 1) {
        uintptr_t at = term & ~(uint64_t)7;
        words += 2 + ((word(at) & 3) == 3 ? 0 : follow(word(at)));
        term = word(at + 8);
    }
    if ((term & 3) != 2)
        return words;
    uintptr_t at = term & ~(uint64_t)7;
    struct object t;
    if (!object_read(PEEK_GUARDED, lay, at, word(at), &t))
        return words;
    for (uint64_t i = t.first; i < t.last; i++) {
        if ((word(at + i * 8) & 3) != 3)
            words += follow(word(at + i * 8));
    }
    return words + t.words;
}

static ERL_NIF_TERM chase(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    /* (Term): a term of the caller that is not deep */
    return enif_make_uint64(env, follow(argv[0]));
}

/* They run on the same kind of scheduler as sonde's scan. */
static ErlNifFunc functions[] = {
    {"find", 2, find, 0},
    {"chase", 1, chase, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"gather", 1, gather, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"touch", 0, touch, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"sizes", 2, sizes, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"word", 3, one_word, ERL_NIF_DIRTY_JOB_IO_BOUND},
};

ERL_NIF_INIT(bench_bare, functions, NULL, NULL, NULL, NULL)
