/* nif.c: load, upgrade and unload; the table of functions; the state of the library. */
#include "nif/nif.h"

#include "util/alloc.h"
#include "vm/filter.h"
#include "vm/handler.h"

#include <stdlib.h>
#include <string.h>

struct atoms atoms;

/* ---- memory -------------------------------------------------------------------------------- */

/* AddressSanitizer knows the bounds of an allocation only if it is malloc's. */
#if defined(__SANITIZE_ADDRESS__)
#define ALLOC   malloc
#define REALLOC realloc
#define FREE    free
#else
#define ALLOC   enif_alloc
#define REALLOC enif_realloc
#define FREE    enif_free
#endif

/* Before each block: its size, so that a large one can be freed in steps. */
struct head {
    size_t bytes, unused; /* so that the block is aligned as the allocator's */
};

static void *after_head(struct head *h, size_t bytes)
{
    if (!h)
        return NULL;
    h->bytes = bytes;
    return h + 1;
}

void *sonde_alloc(size_t bytes)
{
    size_t all = bytes + sizeof(struct head);
    return nif_out_of_memory() || all < bytes ? NULL : after_head(ALLOC(all), all);
}

void *sonde_realloc(void *p, size_t bytes)
{
    size_t all = bytes + sizeof(struct head);
    if (!p)
        return sonde_alloc(bytes);
    return nif_out_of_memory() || all < bytes ? NULL
                                              : after_head(REALLOC((struct head *)p - 1, all), all);
}

static void free_block(void *block)
{
    FREE(block);
}

void sonde_free(void *p)
{
    struct head *h = p ? (struct head *)p - 1 : NULL;
    if (!h || leftovers_take(h, h->bytes))
        return;
    nif_frees_at_once(h->bytes);
    free_block(h);
}

bool nif_free_step(struct leftovers *l)
{
    return leftovers_step(l, free_block);
}

void nif_free_all(struct leftovers *l)
{
    leftovers_free(l, free_block);
}

struct sonde *sonde_of(ErlNifEnv *env)
{
    return enif_priv_data(env);
}

enum peek_reader nif_peek_reader(const struct sonde *s)
{
    return peek_ready((enum peek_reader)atomic_load(&s->reader));
}

ERL_NIF_TERM nif_status_atom(ErlNifEnv *env, enum status st)
{
    switch (st) {
    case ST_OK:
        return ATOM(done);
    case ST_TIMESLICE:
        return ATOM(more);
    case ST_NOMEM:
        return ATOM(no_memory);
    default:
        return enif_make_atom(env, status_name(st));
    }
}

/* enif_make_pid needs an ErlNifPid, which is the pid's word. */
ERL_NIF_TERM nif_make_pid(ErlNifEnv *env, uint64_t pid)
{
    ErlNifPid p = {.pid = (ERL_NIF_TERM)pid};
    return enif_make_pid(env, &p);
}

void *nif_resource(ErlNifEnv *env, ERL_NIF_TERM term, ErlNifResourceType *type)
{
    void *obj;
    return enif_get_resource(env, term, type, &obj) ? obj : NULL;
}

ERL_NIF_TERM nif_raise(ErlNifEnv *env, ERL_NIF_TERM why)
{
    return enif_make_tuple2(env, ATOM(raise), why);
}

ERL_NIF_TERM nif_page(ErlNifEnv *env, ERL_NIF_TERM from, ERL_NIF_TERM count, const void *of,
                      size_t n, nif_item *item)
{
    ErlNifUInt64 first;
    ErlNifUInt64 most;
    if (!enif_get_uint64(env, from, &first) || !enif_get_uint64(env, count, &most))
        return nif_raise(env, ATOM(badarg));
    if (most > PAGE_MAX)
        most = PAGE_MAX;
    if (first > n)
        first = n;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (size_t to = n - first < most ? n : first + most; to > first; to--)
        list = enif_make_list_cell(env, item(env, of, to - 1), list);
    return list;
}

ERL_NIF_TERM nif_map(ErlNifEnv *env, ERL_NIF_TERM keys[], ERL_NIF_TERM values[], size_t n)
{
    ERL_NIF_TERM map;
    return enif_make_map_from_arrays(env, keys, values, n, &map) ? map
                                                                 : nif_raise(env, ATOM(badarg));
}

unsigned nif_one_of(ErlNifEnv *env, ERL_NIF_TERM term, const char *const names[], unsigned n)
{
    char name[32];
    unsigned i = 0;
    if (!enif_get_atom(env, term, name, sizeof name, ERL_NIF_LATIN1))
        return n;
    while (i < n && strcmp(name, names[i]) != 0)
        i++;
    return i;
}

bool nif_field(ErlNifEnv *env, ERL_NIF_TERM term, enum layout_field *field)
{
    *field = nif_one_of(env, term, layout_field_names, LAYOUT_FIELD_COUNT);
    return *field != LAYOUT_FIELD_COUNT;
}

bool nif_attr(ErlNifEnv *env, ERL_NIF_TERM term, enum attr *attr)
{
    static const char *const names[] = {
#define X(Name) #Name,
        ATTR_LIST(X)
#undef X
    };
    *attr = nif_one_of(env, term, names, ATTR_COUNT);
    return *attr != ATTR_COUNT;
}

/* ---- status -------------------------------------------------------------------------------- */

NIF(nif_build_id)
{
    return enif_make_tuple2(env, enif_make_string(env, SONDE_ABI, ERL_NIF_LATIN1),
                            enif_make_string(env, SONDE_BUILD_ID, ERL_NIF_LATIN1));
}

/* The status of the proof is kept here and not in a persistent_term: changing one costs every
 * process of the node. */
static ERL_NIF_TERM keep_status(ErlNifEnv *env, ERL_NIF_TERM status, bool adopt)
{
    struct sonde *s = sonde_of(env);
    ErlNifEnv *old = nif_out_of_memory() ? NULL : enif_alloc_env();
    if (!old)
        return nif_raise(env, ATOM(no_memory));
    ERL_NIF_TERM copy = enif_make_copy(old, status);
    enif_mutex_lock(s->lock);
    bool late = atomic_load(&s->proved);
    if (!late) {
        ErlNifEnv *kept = old;
        old = s->status_env;
        s->status_env = kept;
        s->status = copy;
        if (adopt)
            nif_adopt_candidate(s);
    }
    enif_mutex_unlock(s->lock);
    if (old)
        enif_free_env(old);
    return late ? ATOM(proved) : ATOM(ok);
}

/* The status of a failed proof; an earlier successful proof stays. */
NIF(nif_do_put_status)
{
    /* (Status) */
    return keep_status(env, argv[0], false);
}

/* Adopts a successful proof together with its status, so that neither is visible alone. */
NIF(nif_do_adopt)
{
    /* (Status) */
    struct sonde *s = sonde_of(env);
    if (!nif_is_prover(env) || !s->candidate.lay || s->candidate.tab.max == 0)
        return nif_raise(env, ATOM(badarg));
    return keep_status(env, argv[0], true);
}

NIF(nif_status)
{
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
    return r == PEEK_GUARDED   ? ATOM(guarded)
           : r == PEEK_SYSCALL ? ATOM(syscall)
           : r == PEEK_OTHER   ? ATOM(other)
                               : ATOM(none);
}

/* The reader that works in this thread now. */
NIF(nif_reader)
{
    const struct sonde *s = sonde_of(env);
    enum peek_reader r = nif_peek_reader(s);
    return r == PEEK_OTHER && s->core ? ATOM(core) : reader_atom(r);
}

NIF(nif_do_want_reader)
{
    /* (guarded | syscall | filtered): the reader to use; filtered: system calls may be used
     * although the kernel filters them */
    if (argv[0] == ATOM(filtered)) {
        filter_allows();
        return ATOM(ok);
    }
    if (argv[0] != ATOM(guarded) && argv[0] != ATOM(syscall))
        return nif_raise(env, ATOM(badarg));
    atomic_store(&sonde_of(env)->reader, argv[0] == ATOM(guarded) ? PEEK_GUARDED : PEEK_SYSCALL);
    return ATOM(ok);
}

/* on: proved; off: switched off by hand; none: not proved (yet). */
NIF(nif_state)
{
    struct sonde *s = sonde_of(env);
    if (atomic_load(&s->off))
        return ATOM(off);
    return atomic_load_explicit(&s->proved, memory_order_acquire) ? ATOM(on) : ATOM(none);
}

NIF(nif_do_switch)
{
    /* (on | off) */
    if (argv[0] != ATOM(on) && argv[0] != ATOM(off))
        return nif_raise(env, ATOM(badarg));
    atomic_store(&sonde_of(env)->off, argv[0] == ATOM(off));
    return ATOM(ok);
}

NIF(nif_do_content)
{
    /* (true | false): false forbids content for good. Returns whether content is allowed */
    struct sonde *s = sonde_of(env);
    if (argv[0] != ATOM(true) && argv[0] != ATOM(false))
        return nif_raise(env, ATOM(badarg));
    if (argv[0] == ATOM(false))
        atomic_store(&s->no_content, true);
    return atomic_load(&s->no_content) ? ATOM(false) : ATOM(true);
}

/* This call itself is between peek_enter and peek_exit, so the handler stays until its end. */
NIF(nif_do_leave)
{
    peek_leave();
    return ATOM(ok);
}

/* Resources are valid as long as this does not change. */
NIF(nif_instance)
{
    return enif_make_int64(env, sonde_of(env)->instance);
}

NIF(nif_do_counters)
{
    struct sonde *s = sonde_of(env);
    ERL_NIF_TERM keys[] = {ATOM(native), ATOM(busy), ATOM(torn), ATOM(asked), ATOM(faults)};
    ERL_NIF_TERM values[] = {
        enif_make_uint64(env, atomic_load(&s->native)),
        enif_make_uint64(env, atomic_load(&s->busy)), enif_make_uint64(env, atomic_load(&s->torn)),
        enif_make_uint64(env, atomic_load(&s->asked)), enif_make_uint64(env, handler_faults())};
    return nif_map(env, keys, values, 5);
}

/* ---- life cycle ---------------------------------------------------------------------------- */

static void make_atoms(ErlNifEnv *env)
{
#define X(Name) atoms.a_##Name = enif_make_atom(env, #Name);
    ATOM_LIST(X)
#undef X
}

/* Opens a resource type of this build only: it must not release another build's resources. false:
 * it failed, and an older instance of the module keeps its type. */
static bool open_type(ErlNifEnv *env, const char *name, ErlNifResourceDtor *release,
                      ErlNifResourceType **type)
{
    ErlNifResourceFlags flags = ERL_NIF_RT_CREATE | ERL_NIF_RT_TAKEOVER;
    ErlNifResourceType *opened =
        nif_out_of_memory() ? NULL : enif_open_resource_type(env, NULL, name, release, flags, NULL);
    if (opened)
        *type = opened;
    return opened != NULL;
}

static bool open_types(ErlNifEnv *env, struct sonde *s)
{
#define X(Name) open_type(env, RESOURCE_TYPE(Name), MEASURED(release_##Name), &s->Name##_type) &&
    return RESOURCE_LIST(X) true;
#undef X
}

static struct sonde *make_state(ErlNifEnv *env)
{
    struct sonde *s = sonde_alloc(sizeof *s);
    if (!s)
        return NULL;
    memset(s, 0, sizeof *s);
    (void)strncpy(s->build, SONDE_BUILD_ID, sizeof s->build - 1);
    s->instance = enif_monotonic_time(ERL_NIF_NSEC);
    atomic_init(&s->users, 1);
    atomic_init(&s->reader, PEEK_GUARDED);
#ifdef SONDE_TEST
    s->mutated_field = LAYOUT_FIELD_COUNT;
#endif
    s->lock = nif_out_of_memory() ? NULL : enif_mutex_create("sonde_status");
    if (!s->lock || !open_types(env, s)) {
        if (s->lock)
            enif_mutex_destroy(s->lock);
        sonde_free(s);
        return NULL;
    }
    return s;
}

static int load(ErlNifEnv *env, void **priv, ERL_NIF_TERM info)
{
    nif_fail_load(env, info);
    make_atoms(env);
    *priv = make_state(env);
    if (!*priv)
        return 1;
    peek_return();
    return 0;
}

/* The same build shares its state, so its proof stays valid. The state of another build has an
 * unknown layout: make a new one, and the old one is freed with the old code. */
static int upgrade(ErlNifEnv *env, void **priv, void **old_priv, ERL_NIF_TERM info)
{
    struct sonde *old = *old_priv;
    if (!old || strncmp(old->build, SONDE_BUILD_ID, sizeof old->build) != 0)
        return load(env, priv, info);
    nif_fail_load(env, info);
    make_atoms(env);
    if (!open_types(env, old))
        return 1;
    atomic_fetch_add(&old->users, 1);
    *priv = old;
    peek_return();
    return 0;
}

static void unload(ErlNifEnv *env, void *priv)
{
    (void)env;
    struct sonde *s = priv;
    if (atomic_fetch_sub(&s->users, 1) != 1)
        return;
    peek_settle();
    if (s->status_env)
        enif_free_env(s->status_env);
    enif_mutex_destroy(s->lock);
    sonde_free(s);
}

#define X(Name, Arity, Where)                                                                      \
    NIF(nif_counted_##Name)                                                                        \
    {                                                                                              \
        struct peek_slot *slot = peek_enter();                                                     \
        ERL_NIF_TERM answer = MEASURED(Name)(env, argc, argv);                                     \
        peek_exit(slot);                                                                           \
        return answer;                                                                             \
    }
NIF_LIST(X)
SCHEDULED_LIST(X)
#undef X

static ErlNifFunc functions[] = {
#define X(Name, Arity, Where) {#Name, Arity, CALLED(Name), Where},
    NIF_LIST(X)
#undef X
#ifdef SONDE_TEST
#define X(Name, Arity) {#Name, Arity, nif_##Name, 0},
        TEST_LIST(X)
#undef X
#endif
};

ERL_NIF_INIT(sonde_nif, functions, load, NULL, upgrade, unload)
