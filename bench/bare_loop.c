/* bare_loop.c: the least that any reader of all binaries' sizes has to do. Not shipped.
 * Knows: the same tables and the same search for the process table as sonde.
 * Does not know: anything that makes reading a live node safe or its answer useful: loads are plain,
 * nothing is stamped, no process is ranked. It is right only where every process keeps still. */
#include "layout.h"
#include "peek.h"
#include "proctab.h"

#include <erl_nif.h>

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
    /* not the guarded reader: its handler would be a second one in front of sonde's */
    bool found = proctab_find(PEEK_SYSCALL, lay, limit, enif_make_pid(env, &self),
                              word((uintptr_t)env + ENV_PROC), &tab);
    return enif_make_atom(env, found ? "ok" : "error");
}

static ERL_NIF_TERM binary_memory(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc, (void)argv;
    const uintptr_t off_heap = LF(lay, off_heap);
    const uintptr_t next = LF(lay, oh_next);
    const uintptr_t pointer = LF(lay, bin_ptr);
    const uintptr_t size = LF(lay, bin_size);
    const uint64_t binary = LF(lay, bin_thing);
    uint64_t bytes = 0;
    uint64_t count = 0;
    for (uint64_t slot = 0; slot < tab.max; slot++) {
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

/* On the same kind of scheduler as sonde's scan. */
static ErlNifFunc functions[] = {
    {"find", 2, find, 0},
    {"binary_memory", 0, binary_memory, ERL_NIF_DIRTY_JOB_IO_BOUND},
};

ERL_NIF_INIT(bench_bare, functions, NULL, NULL, NULL, NULL)
