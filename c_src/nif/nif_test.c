/* nif_test.c: only in the tests' library: readers that are weak or held, wrong offsets, allocations
 * that fail, how long each call holds its scheduler, and what it frees at once.
 * Knows: the table of functions. Does not know: what they do. */
#ifdef SONDE_TEST
#include "nif/nif.h"

#include <stdatomic.h>
#include <time.h>

/* ---- the reader ----------------------------------------------------------------------------- */

NIF(nif_do_weaken)
{
    /* (enum stamp_weakness) */
    int weakness;
    if (!enif_get_int(env, argv[0], &weakness) || weakness < STAMP_SOUND ||
        weakness > STAMP_REDUCTIONS)
        return nif_raise(env, ATOM(badarg));
    stamp_weakness = weakness;
    return ATOM(ok);
}

NIF(nif_do_hold_reader)
{
    /* (Pid, opened | walked | learned): holds the next reader of this process there, or the prover that it is */
    static const char *const places[] = {"opened", "walked", "learned"};
    ErlNifPid pid;
    unsigned place = nif_one_of(env, argv[1], places, STAMP_LEARNED + 1);
    if (!enif_get_local_pid(env, argv[0], &pid) || place > STAMP_LEARNED)
        return nif_raise(env, ATOM(badarg));
    stamp_hold_next(argv[0], (enum stamp_place)place);
    return ATOM(ok);
}

void nif_hold_learner(ErlNifEnv *env)
{
    ErlNifPid self;
    struct view view = {.pid = enif_self(env, &self) ? enif_make_pid(env, &self) : 0};
    stamp_hold(&view, STAMP_LEARNED);
}

NIF(nif_is_reader_held)
{
    return stamp_is_held() ? ATOM(true) : ATOM(false);
}

NIF(nif_release_reader)
{
    /* (): returns whether a reader was held */
    bool held = stamp_is_held();
    stamp_go_on();
    return held ? ATOM(true) : ATOM(false);
}

/* ---- the layout ----------------------------------------------------------------------------- */

NIF(nif_do_set_offset)
{
    /* (Field | none | objects, Offset): forgets the proof; the next calibrate uses this offset */
    struct sonde *s = sonde_of(env);
    enum layout_field field = LAYOUT_FIELD_COUNT;
    unsigned offset;
    bool objects = enif_is_identical(argv[0], enif_make_atom(env, "things"));
    if ((!objects && argv[0] != ATOM(none) && !nif_field(env, argv[0], &field)) ||
        !enif_get_uint(env, argv[1], &offset) || offset > 0xFFFF)
        return nif_raise(env, ATOM(badarg));
    s->mutated_field = objects ? LAYOUT_FIELD_COUNT + 1 : field;
    s->mutated_offset = offset;
    atomic_store(&s->proved, false);
    return ATOM(ok);
}

NIF(nif_forget_proof)
{
    /* (): forgets the proof and its status */
    struct sonde *s = sonde_of(env);
    enif_mutex_lock(s->lock);
    atomic_store(&s->proved, false);
    ErlNifEnv *old = s->status_env;
    s->status_env = NULL;
    enif_mutex_unlock(s->lock);
    if (old)
        enif_free_env(old);
    return ATOM(ok);
}

NIF(nif_prover_knows)
{
    /* (): [table | turnover | self_bit | code | places | schedulers | ports], what the prover learned up to now */
    struct sonde *s = sonde_of(env);
    ERL_NIF_TERM list = enif_make_list(env, 0);
    enif_mutex_lock(s->lock);
    const struct vm *vm = &s->candidate;
    const struct {
        const char *what;
        bool is_known;
    } all[] = {{"table", vm->tab.max != 0},
               {"turnover", vm->tab.has_turnover},
               {"self_bit", vm->lay && vm->lay->self_bit},
               {"code", vm->code.n != 0},
               {"places", vm->identity.has_place},
               {"schedulers", vm->schedulers.is_known},
               {"ports", vm->ports.name != 0}};
    for (unsigned i = sizeof all / sizeof *all; i-- > 0;) {
        if (all[i].is_known)
            list = enif_make_list_cell(env, enif_make_atom(env, all[i].what), list);
    }
    enif_mutex_unlock(s->lock);
    return list;
}

NIF(nif_unseal)
{
    /* (true | false | asked): whether any process may use the tools of the proof on any other */
    struct sonde *s = sonde_of(env);
    enif_mutex_lock(s->lock);
    bool was = s->seal.open;
    s->seal.open = argv[0] == ATOM(true) || (was && argv[0] != ATOM(false));
    enif_mutex_unlock(s->lock);
    return was ? ATOM(true) : ATOM(false);
}

/* ---- memory --------------------------------------------------------------------------------- */

static atomic_int fail_alloc; /* the n-th allocation from now fails; 0: none */

bool nif_out_of_memory(void)
{
    return atomic_load(&fail_alloc) > 0 && atomic_fetch_sub(&fail_alloc, 1) == 1;
}

NIF(nif_do_fail_alloc)
{
    /* (N): the N-th allocation from now fails, 0: none */
    int n;
    if (!enif_get_int(env, argv[0], &n) || n < 0)
        return nif_raise(env, ATOM(badarg));
    atomic_store(&fail_alloc, n);
    return ATOM(ok);
}

/* The same for the allocations of load and upgrade, which happen before any call. */
void nif_fail_load(ErlNifEnv *env, ERL_NIF_TERM info)
{
    int n;
    if (enif_get_int(env, info, &n) && n > 0)
        atomic_store(&fail_alloc, n);
}

/* ---- how long a call holds its scheduler ------------------------------------------------------ */

/* clang-format off */
enum call {
#define X(Name, Arity, Where) CALL_##Name,
    NIF_LIST(X)
    SCHEDULED_LIST(X)
#undef X
#define X(Name) RELEASE_##Name,
    RESOURCE_LIST(X)
#undef X
    CALL_COUNT
};

static struct call_times {
    const char *name;
    unsigned arity;
    atomic_uint_fast64_t calls[2], longest_ns[2]; /* on normal schedulers, on dirty ones */
    atomic_uint_fast64_t freed;                   /* bytes of large blocks, the most by one call */
} times[CALL_COUNT] = {
#define X(Name, Arity, Where) [CALL_##Name] = {.name = #Name, .arity = (Arity)},
    NIF_LIST(X)
    SCHEDULED_LIST(X)
#undef X
#define X(Name) [RELEASE_##Name] = {.name = "release_" #Name, .arity = 1},
    RESOURCE_LIST(X)
#undef X
};
/* clang-format on */

/* The thread's CPU time, so that other work on the machine does not count. */
static uint64_t cpu_ns(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static _Thread_local size_t freed; /* by the current call */

void nif_frees_at_once(size_t bytes)
{
    freed += bytes < LEFTOVER_MIN ? 0 : bytes;
}

static void keep_largest(atomic_uint_fast64_t *largest, uint64_t n)
{
    uint_fast64_t known = atomic_load(largest);
    while (known < n && !atomic_compare_exchange_weak(largest, &known, n))
        continue;
}

static uint64_t begins(void)
{
    freed = 0;
    return cpu_ns();
}

static void took(enum call call, uint64_t begin)
{
    uint64_t ns = cpu_ns() - begin;
    int thread = enif_thread_type();
    bool dirty =
        thread == ERL_NIF_THR_DIRTY_CPU_SCHEDULER || thread == ERL_NIF_THR_DIRTY_IO_SCHEDULER;
    keep_largest(&times[call].longest_ns[dirty], ns);
    keep_largest(&times[call].freed, freed);
    atomic_fetch_add(&times[call].calls[dirty], 1);
}

#define X(Name, Arity, Where)                                                                      \
    NIF(nif_measured_##Name)                                                                       \
    {                                                                                              \
        uint64_t begin = begins();                                                                 \
        ERL_NIF_TERM answer = nif_##Name(env, argc, argv);                                         \
        took(CALL_##Name, begin);                                                                  \
        return answer;                                                                             \
    }
NIF_LIST(X)
SCHEDULED_LIST(X)
#undef X

#define X(Name)                                                                                    \
    void nif_measured_release_##Name(ErlNifEnv *env, void *obj)                                    \
    {                                                                                              \
        uint64_t begin = begins();                                                                 \
        nif_release_##Name(env, obj);                                                              \
        took(RELEASE_##Name, begin);                                                               \
    }
RESOURCE_LIST(X)
#undef X

static ERL_NIF_TERM row(ErlNifEnv *env, const struct call_times *t, const char *where, bool dirty)
{
    return enif_make_tuple5(env, enif_make_atom(env, t->name), enif_make_uint(env, t->arity),
                            enif_make_atom(env, where),
                            enif_make_uint64(env, atomic_load(&t->longest_ns[dirty])),
                            enif_make_uint64(env, atomic_load(&t->calls[dirty])));
}

NIF(nif_longest_calls)
{
    /* (): [{Name, Arity, normal | dirty, LongestNs, Calls}]; includes functions with 0 calls */
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (unsigned i = CALL_COUNT; i-- > 0;) {
        const struct call_times *t = &times[i];
        bool dirty = atomic_load(&t->calls[true]) > 0;
        if (dirty)
            list = enif_make_list_cell(env, row(env, t, "dirty", true), list);
        if (!dirty || atomic_load(&t->calls[false]) > 0)
            list = enif_make_list_cell(env, row(env, t, "normal", false), list);
    }
    return list;
}

NIF(nif_freed_at_once)
{
    /* (): [{Name, Bytes}], of functions that freed large blocks and did not leave them to later calls */
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (unsigned i = CALL_COUNT; i-- > 0;) {
        uint64_t bytes = atomic_load(&times[i].freed);
        if (bytes > 0)
            list = enif_make_list_cell(env,
                                       enif_make_tuple2(env, enif_make_atom(env, times[i].name),
                                                        enif_make_uint64(env, bytes)),
                                       list);
    }
    return list;
}

NIF(nif_reset_calls)
{
    for (unsigned i = 0; i < 2 * CALL_COUNT; i++) {
        atomic_store(&times[i / 2].calls[i % 2], 0);
        atomic_store(&times[i / 2].longest_ns[i % 2], 0);
        atomic_store(&times[i / 2].freed, 0);
    }
    return ATOM(ok);
}
#endif
