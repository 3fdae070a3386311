/* nif.c: the library as Erlang sees it: load, upgrade, unload, the table of functions.
 * Knows: atoms, the library's state, and who shares it. No logic.
 * Does not know: VM internals. */
#include "nif.h"

#include "alloc.h"

#include <stdlib.h>
#include <string.h>

struct atoms atoms;

/* ---- memory -------------------------------------------------------------------------------- */

#ifdef SONDE_TEST
static atomic_int fail_alloc; /* the n-th allocation from now fails; 0: none */

bool nif_out_of_memory(void)
{
    return atomic_load(&fail_alloc) > 0 && atomic_fetch_sub(&fail_alloc, 1) == 1;
}
#endif

/* AddressSanitizer knows where an allocation ends only if it was malloc's. */
#if defined(__SANITIZE_ADDRESS__)
#define ALLOC   malloc
#define REALLOC realloc
#define FREE    free
#else
#define ALLOC   enif_alloc
#define REALLOC enif_realloc
#define FREE    enif_free
#endif

void *sonde_alloc(size_t bytes)
{
    return nif_out_of_memory() ? NULL : ALLOC(bytes);
}

void *sonde_realloc(void *p, size_t bytes)
{
    if (nif_out_of_memory())
        return NULL;
    return p ? REALLOC(p, bytes) : ALLOC(bytes);
}

void sonde_free(void *p)
{
    if (p)
        FREE(p);
}

struct sonde *sonde_of(ErlNifEnv *env)
{
    return enif_priv_data(env);
}

ERL_NIF_TERM nif_status_atom(enum status st)
{
    switch (st) {
    case ST_OK:
        return ATOM(done);
    case ST_BUSY:
        return ATOM(busy);
    case ST_TORN:
        return ATOM(torn);
    case ST_GONE:
        return ATOM(gone);
    case ST_ASK:
        return ATOM(ask);
    case ST_TOO_LARGE:
        return ATOM(too_large);
    case ST_TIMESLICE:
        return ATOM(more);
    default:
        return ATOM(no_memory);
    }
}

bool nif_open_type(ErlNifEnv *env, const char *name, ErlNifResourceDtor *release,
                   ErlNifResourceType **type)
{
    ErlNifResourceFlags flags = ERL_NIF_RT_CREATE | ERL_NIF_RT_TAKEOVER;
    ErlNifResourceType *opened =
        nif_out_of_memory() ? NULL : enif_open_resource_type(env, NULL, name, release, flags, NULL);
    if (opened)
        *type = opened;
    return opened != NULL;
}

bool nif_field(ErlNifEnv *env, ERL_NIF_TERM term, enum layout_field *field)
{
    char name[32];
    if (!enif_get_atom(env, term, name, sizeof name, ERL_NIF_LATIN1))
        return false;
    for (unsigned i = 0; i < LAYOUT_FIELD_COUNT; i++) {
        if (strcmp(name, layout_field_name(i)) == 0) {
            *field = i;
            return true;
        }
    }
    return false;
}

bool nif_attr(ErlNifEnv *env, ERL_NIF_TERM term, enum attr *attr)
{
    static const char *const names[] = {
#define X(Name) #Name,
        ATTR_LIST(X)
#undef X
    };
    char name[32];
    if (!enif_get_atom(env, term, name, sizeof name, ERL_NIF_LATIN1))
        return false;
    for (unsigned i = 0; i < ATTR_COUNT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *attr = i;
            return true;
        }
    }
    return false;
}

/* ---- status -------------------------------------------------------------------------------- */

static ERL_NIF_TERM nif_build_id(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc, (void)argv;
    return enif_make_tuple2(env, enif_make_string(env, SONDE_ABI, ERL_NIF_LATIN1),
                            enif_make_string(env, SONDE_BUILD_ID, ERL_NIF_LATIN1));
}

/* The outcome of the proof, kept here: a persistent_term that changes makes every process of the
 * node pay, and the first caller of any process needs it. */
static ERL_NIF_TERM nif_put_status(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    /* (Status) */
    struct sonde *s = sonde_of(env);
    ErlNifEnv *kept = nif_out_of_memory() ? NULL : enif_alloc_env();
    if (!kept)
        return enif_raise_exception(env, ATOM(no_memory));
    ERL_NIF_TERM copy = enif_make_copy(kept, argv[0]);
    enif_mutex_lock(s->lock);
    ErlNifEnv *old = s->status_env;
    s->status_env = kept;
    s->status = copy;
    enif_mutex_unlock(s->lock);
    if (old)
        enif_free_env(old);
    return ATOM(ok);
}

static ERL_NIF_TERM nif_status(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc, (void)argv;
    struct sonde *s = sonde_of(env);
    ERL_NIF_TERM status = ATOM(undefined);
    enif_mutex_lock(s->lock);
    if (s->status_env)
        status = enif_make_copy(env, s->status);
    enif_mutex_unlock(s->lock);
    return status;
}

static ERL_NIF_TERM reader_atom(enum peek_reader r)
{
    return r == PEEK_GUARDED ? ATOM(guarded) : r == PEEK_SYSCALL ? ATOM(syscall) : ATOM(none);
}

/* What works in this thread now. */
static ERL_NIF_TERM nif_reader(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc, (void)argv;
    return reader_atom(peek_ready((enum peek_reader)atomic_load(&sonde_of(env)->reader)));
}

static ERL_NIF_TERM nif_want_reader(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    /* (guarded | syscall) */
    if (argv[0] != ATOM(guarded) && argv[0] != ATOM(syscall))
        return enif_make_badarg(env);
    atomic_store(&sonde_of(env)->reader, argv[0] == ATOM(guarded) ? PEEK_GUARDED : PEEK_SYSCALL);
    return ATOM(ok);
}

/* ready: proved and on; off: switched off by hand; none: not proved (yet). */
static ERL_NIF_TERM nif_state(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc, (void)argv;
    struct sonde *s = sonde_of(env);
    if (atomic_load(&s->off))
        return ATOM(off);
    return atomic_load_explicit(&s->proved, memory_order_acquire) ? ATOM(on) : ATOM(none);
}

static ERL_NIF_TERM nif_switch(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    /* (on | off) */
    if (argv[0] != ATOM(on) && argv[0] != ATOM(off))
        return enif_make_badarg(env);
    atomic_store(&sonde_of(env)->off, argv[0] == ATOM(off));
    return ATOM(ok);
}

static ERL_NIF_TERM nif_leave(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc, (void)argv;
    atomic_store(&sonde_of(env)->leave, true);
    return ATOM(ok);
}

static ERL_NIF_TERM nif_counters(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc, (void)argv;
    struct sonde *s = sonde_of(env);
    ERL_NIF_TERM keys[] = {ATOM(native), ATOM(busy), ATOM(torn), ATOM(asked), ATOM(faults)};
    ERL_NIF_TERM values[] = {
        enif_make_uint64(env, atomic_load(&s->native)),
        enif_make_uint64(env, atomic_load(&s->busy)), enif_make_uint64(env, atomic_load(&s->torn)),
        enif_make_uint64(env, atomic_load(&s->asked)), enif_make_uint64(env, peek_faults())};
    ERL_NIF_TERM map;
    if (!enif_make_map_from_arrays(env, keys, values, 5, &map))
        return enif_make_badarg(env);
    return map;
}

/* ---- only in the library that the tests load ------------------------------------------------ */

#ifdef SONDE_TEST
static ERL_NIF_TERM nif_weaken(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    /* (enum stamp_weakness) */
    int weakness;
    if (!enif_get_int(env, argv[0], &weakness) || weakness < STAMP_SOUND ||
        weakness > STAMP_REDUCTIONS)
        return enif_make_badarg(env);
    stamp_weakness = weakness;
    return ATOM(ok);
}

static ERL_NIF_TERM nif_set_offset(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    /* (Field | none | things, Offset): the next calibrate uses it, and nothing is proved any more */
    struct sonde *s = sonde_of(env);
    enum layout_field field = LAYOUT_FIELD_COUNT;
    unsigned offset;
    bool things = enif_is_identical(argv[0], enif_make_atom(env, "things"));
    if ((!things && argv[0] != ATOM(none) && !nif_field(env, argv[0], &field)) ||
        !enif_get_uint(env, argv[1], &offset) || offset > 0xFFFF)
        return enif_make_badarg(env);
    s->mutated_field = things ? LAYOUT_FIELD_COUNT + 1 : field;
    s->mutated_offset = offset;
    atomic_store(&s->proved, false);
    return ATOM(ok);
}

static ERL_NIF_TERM nif_fail_alloc(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
    (void)argc;
    /* (N): the N-th allocation from now fails, 0: none */
    int n;
    if (!enif_get_int(env, argv[0], &n) || n < 0)
        return enif_make_badarg(env);
    atomic_store(&fail_alloc, n);
    return ATOM(ok);
}

/* The same for the allocations of load or upgrade itself, which come before any call. */
static void fail_load(ErlNifEnv *env, ERL_NIF_TERM info)
{
    int n;
    if (enif_get_int(env, info, &n) && n > 0)
        atomic_store(&fail_alloc, n);
}
#else
static void fail_load(ErlNifEnv *env, ERL_NIF_TERM info)
{
    (void)env, (void)info;
}
#endif

/* ---- life cycle ---------------------------------------------------------------------------- */

static void make_atoms(ErlNifEnv *env)
{
#define X(Name) atoms.a_##Name = enif_make_atom(env, #Name);
    ATOM_LIST(X)
#undef X
}

static struct sonde *make_state(ErlNifEnv *env)
{
    struct sonde *s = sonde_alloc(sizeof *s);
    if (!s)
        return NULL;
    memset(s, 0, sizeof *s);
    (void)strncpy(s->build, SONDE_BUILD_ID, sizeof s->build - 1);
    atomic_init(&s->users, 1);
    atomic_init(&s->reader, PEEK_GUARDED);
#ifdef SONDE_TEST
    s->mutated_field = LAYOUT_FIELD_COUNT;
#endif
    s->lock = nif_out_of_memory() ? NULL : enif_mutex_create("sonde_status");
    if (!s->lock || !nif_scan_types(env, s) || !nif_heap_types(env, s) ||
        !nif_account_types(env, s) || !nif_resource_types(env, s)) {
        if (s->lock)
            enif_mutex_destroy(s->lock);
        sonde_free(s);
        return NULL;
    }
    return s;
}

static int load(ErlNifEnv *env, void **priv, ERL_NIF_TERM info)
{
    fail_load(env, info);
    make_atoms(env);
    *priv = make_state(env);
    return *priv ? 0 : 1;
}

/* The same build shares its state, and what is proved stays proved. Another build's state is not
 * ours to read: it starts anew, and the old one goes with the old code. */
static int upgrade(ErlNifEnv *env, void **priv, void **old_priv, ERL_NIF_TERM info)
{
    struct sonde *old = *old_priv;
    if (!old || strncmp(old->build, SONDE_BUILD_ID, sizeof old->build) != 0)
        return load(env, priv, info);
    fail_load(env, info);
    make_atoms(env);
    if (!nif_scan_types(env, old) || !nif_heap_types(env, old) || !nif_account_types(env, old) ||
        !nif_resource_types(env, old))
        return 1;
    atomic_fetch_add(&old->users, 1);
    *priv = old;
    return 0;
}

static void unload(ErlNifEnv *env, void *priv)
{
    (void)env;
    struct sonde *s = priv;
    if (atomic_fetch_sub(&s->users, 1) != 1)
        return;
    if (atomic_load(&s->leave))
        peek_leave();
    if (s->status_env)
        enif_free_env(s->status_env);
    enif_mutex_destroy(s->lock);
    sonde_free(s);
}

static ErlNifFunc functions[] = {
    {"build_id", 0, nif_build_id, 0},
    {"status", 0, nif_status, 0},
    {"put_status", 1, nif_put_status, 0},
    {"reader", 0, nif_reader, 0},
    {"want_reader", 1, nif_want_reader, 0},
    {"state", 0, nif_state, 0},
    {"switch", 1, nif_switch, 0},
    {"leave", 0, nif_leave, 0},
    {"counters", 0, nif_counters, 0},
    {"tables", 0, nif_tables, 0},
    {"calibrate", 2, nif_calibrate, 0},
    {"probe", 4, nif_probe, 0},
    {"probe_swollen", 4, nif_probe_swollen, 0},
    {"probe_trap", 0, nif_probe_trap, 0},
    {"read", 2, nif_read, 0},
    {"adopt", 0, nif_adopt, 0},
    {"scan_new", 6, nif_scan_new, 0},
    {"scan_step", 1, nif_scan_step, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"scan_feed", 2, nif_scan_feed, 0},
    {"scan_rows", 4, nif_scan_rows, 0},
    {"scan_info", 1, nif_scan_info, 0},
    {"scan_pids", 3, nif_scan_pids, 0},
    {"scan_values", 3, nif_scan_values, 0},
    {"scan_skip", 2, nif_scan_skip, 0},
    {"scan_after", 1, nif_scan_after, 0},
    {"scan_limit", 2, nif_scan_limit, 0},
    {"calibrate_fun", 2, nif_calibrate_fun, 0},
    {"calibrate_literals", 2, nif_calibrate_literals, 0},
    {"probe_resource", 1, nif_probe_resource, 0},
    {"calibrate_resources", 5, nif_calibrate_resources, 0},
    {"account_new", 2, nif_account_new, 0},
    {"account_add", 3, nif_account_add, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"account_want", 2, nif_account_want, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"account_sum", 1, nif_account_sum, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"account_rank", 3, nif_account_rank, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"account_ranked", 2, nif_account_ranked, 0},
    {"account_holdings", 2, nif_account_holdings, 0},
    {"account_known", 2, nif_account_known, 0},
    {"account_resources", 2, nif_account_resources, 0},
    {"account_end", 1, nif_account_end, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"look_new", 6, nif_look_new, 0},
    {"look_step", 1, nif_look_step, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"look_progress", 1, nif_look_progress, 0},
    {"look_end", 1, nif_look_end, ERL_NIF_DIRTY_JOB_IO_BOUND},
    {"look_heap", 1, nif_look_heap, 0},
    {"look_top", 2, nif_look_top, 0},
    {"look_top_info", 1, nif_look_top_info, 0},
    {"look_flat", 1, nif_look_flat, 0},
    {"look_refs", 2, nif_look_refs, 0},
    {"flat_quick", 1, nif_flat_quick, 0},
    {"look_mailbox", 1, nif_look_mailbox, 0},
    {"look_shapes", 2, nif_look_shapes, 0},
    {"look_pinned", 3, nif_look_pinned, 0},
    {"look_slices", 3, nif_look_slices, 0},
    {"look_text", 1, nif_look_text, 0},
    {"look_names", 2, nif_look_names, 0},
#ifdef SONDE_TEST
    {"set_offset", 2, nif_set_offset, 0},
    {"fail_alloc", 1, nif_fail_alloc, 0},
    {"weaken", 1, nif_weaken, 0},
#endif
};

ERL_NIF_INIT(sonde_nif, functions, load, NULL, upgrade, unload)
