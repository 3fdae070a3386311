/* nif_heap.c: the NIFs of a look at one process's heap. */
#include "nif/nif_heap.h"

#include "util/clock.h"
#include "graph/top_retained.h"
#include "heap/root_size.h"
#include "heap/mailbox.h"
#include "binary/waste.h"
#include "graph/snapshot.h"
#include "scan/overview.h"

enum { SLICE_NS = 5000000, LOOK_NS = 1000000, LOOK_NS_MAX = 1000000000, WANTS_MAX = 64 };

void nif_release_look(UNUSED ErlNifEnv *env, void *obj)
{
    struct held_look *h = obj;
    (void)look_end(&h->look, LOOK_NS_MAX);
    nif_free_all(&h->left);
}

/* ---- mark ----------------------------------------------------------------------------------- */

static void mark_start(void *w, const struct reading *rd, const struct look_args *args)
{
    struct marking *h = w;
    marking_start(h, rd, args->want, args->max_words);
    if (args->max_entries != 0)
        h->slices.max = args->max_entries;
}

static enum status mark_walk(void *w, const struct reading *rd)
{
    return marking_walk(w, rd);
}

static void mark_progress(const void *w, uint64_t *done, uint64_t *total)
{
    const struct marking *h = w;
    *done = marking_reached(h);
    *total = h->words;
}

static bool mark_end(void *w)
{
    marking_end(w);
    return true;
}

static const struct walker mark_walker = {
    sizeof(struct marking), marking_fields, mark_start, mark_walk, mark_progress, mark_end, 0};

/* ---- new and step --------------------------------------------------------------------------- */

/* The bit for an atom of look_new's third argument; each walker defines its bits. */
static bool want_of(ERL_NIF_TERM atom, unsigned *want)
{
    const struct {
        ERL_NIF_TERM atom;
        unsigned want;
    } wants[] = {
        {ATOM(histogram), MARKING_HISTOGRAM},
        {ATOM(visible), MARKING_VISIBLE},
        {ATOM(slices), MARKING_SLICES | MARKING_VISIBLE},
        {ATOM(stack), ROOT_SIZE_STACK},
        {ATOM(registers), ROOT_SIZE_REGISTERS},
        {ATOM(dictionary), ROOT_SIZE_DICTIONARY},
        {ATOM(messages), ROOT_SIZE_MESSAGES},
        {ATOM(slot), ROOT_SIZE_SLOT},
        {ATOM(bytes), ROOT_SIZE_BYTES},
        {ATOM(binaries), ROOT_SIZE_BINARIES},
        {ATOM(content), TOP_RETAINED_CONTENT},
        {ATOM(values), SNAPSHOT_VALUES},
        {ATOM(shared), ROOT_SIZE_SHARED},
        {ATOM(refs), ROOT_SIZE_REFS},
    };
    for (unsigned i = 0; i < sizeof wants / sizeof *wants; i++) {
        if (wants[i].atom == atom) {
            *want |= wants[i].want;
            return true;
        }
    }
    return false;
}

static bool get_want(ErlNifEnv *env, ERL_NIF_TERM list, unsigned *want)
{
    ERL_NIF_TERM head;
    *want = 0;
    for (unsigned n = 0; enif_get_list_cell(env, list, &head, &list); n++) {
        if (n == WANTS_MAX || !want_of(head, want))
            return false;
    }
    return enif_is_empty_list(env, list);
}

/* The walker for look_new's first argument. */
static const struct walker *walker_of(ERL_NIF_TERM kind)
{
    const struct {
        ERL_NIF_TERM kind;
        const struct walker *walker;
    } walkers[] = {
        {ATOM(mark), &mark_walker},        {ATOM(account), &account_walker},
        {ATOM(top), &top_retained_walker}, {ATOM(snapshot), &snapshot_walker},
        {ATOM(flat), &root_size_walker},   {ATOM(mailbox), &mailbox_walker},
        {ATOM(slices), &slices_walker},    {ATOM(process), &overview_walker},
    };
    for (unsigned i = 0; i < sizeof walkers / sizeof *walkers; i++) {
        if (walkers[i].kind == kind)
            return walkers[i].walker;
    }
    return NULL;
}

static ERL_NIF_TERM start(ErlNifEnv *env, struct sonde *s, const struct vm *vm, ERL_NIF_TERM pid,
                          const struct walker *walker, const struct look_args *args)
{
    uintptr_t proc;
    if (!nif_find_process(env, vm, pid, &proc))
        return nif_raise(env, ATOM(badarg));
    if (vm->reader == PEEK_NONE)
        return ATOM(no_reader);
    if (proc == 0)
        return ATOM(gone);
    struct held_look *h = nif_out_of_memory() ? NULL : enif_alloc_resource(s->look_type, sizeof *h);
    if (!h)
        return nif_raise(env, ATOM(no_memory));
    atomic_flag_clear(&h->in_use);
    h->left = (struct leftovers){NULL};
    enum status st =
        look_start(&h->look, vm, proctab_slot(vm->lay, &vm->tab, pid), proc, walker, args);
    ERL_NIF_TERM term = st == ST_OK ? enif_make_resource(env, h) : nif_status_atom(env, st);
    enif_release_resource(h);
    return term;
}

/* Of another OS process, only walkers that count, or whose atoms go out as text: the words of atoms over there
 * mean others here. With 0 atoms and without content the others name none. */
static bool may_look(const struct sonde *s, const struct walker *walker)
{
    if (walker == &overview_walker)
        return s->is_aimed;
    return walker && (!s->is_aimed || walker == &account_walker || walker == &slices_walker ||
                      walker == &mailbox_walker || walker == &top_retained_walker ||
                      walker == &snapshot_walker);
}

NIF(nif_do_look_new)
{
    /* (Kind, Pid, Want, MaxWords, MaxEntries, N) */
    struct vm vm;
    ErlNifUInt64 max_words;
    ErlNifUInt64 max_entries;
    ErlNifUInt64 n;
    struct look_args args;
    struct sonde *s = sonde_of(env);
    const struct walker *walker = walker_of(argv[0]);
    if (!may_look(s, walker) || !nif_best_vm(env, &vm) || !get_want(env, argv[2], &args.want) ||
        !enif_get_uint64(env, argv[3], &max_words) ||
        !enif_get_uint64(env, argv[4], &max_entries) || !enif_get_uint64(env, argv[5], &n))
        return nif_raise(env, ATOM(badarg));
    args.max_words = max_words;
    args.max_entries = max_entries;
    args.n = s->is_aimed ? 0 : n;
    args.content = atomic_load(&s->no_content) ? CONTENT_FORBIDDEN : CONTENT_SHOWN;
    return start(env, s, &vm, argv[1], walker, &args);
}

struct held_look *nif_take_look(ErlNifEnv *env, ERL_NIF_TERM term)
{
    struct held_look *h = nif_resource(env, term, sonde_of(env)->look_type);
    return h && !atomic_flag_test_and_set(&h->in_use) ? h : NULL;
}

void nif_give_look(struct held_look *h)
{
    atomic_flag_clear(&h->in_use);
}

enum status nif_may_tell(const struct sonde *s, struct look *l)
{
    if (l->args.content == CONTENT_SHOWN && atomic_load(&s->no_content))
        return ST_TORN;
    l->vm.reader = nif_peek_reader(s);
    return l->vm.reader == PEEK_NONE ? ST_TORN : look_may_tell(l);
}

LOOK_NIF(do_look_content)
{
    /* (Look): true, or the reason why its answers have no content: forbidden, sensitive */
    enum content content = h->look.args.content;
    return content == CONTENT_SENSITIVE
               ? ATOM(sensitive)
               : (content == CONTENT_FORBIDDEN ? ATOM(forbidden) : ATOM(true));
}

/* What the walk drops is freed before it goes on, so that it hardly adds to the memory of the walk. */
static ERL_NIF_TERM step(ErlNifEnv *env, const struct sonde *s, struct held_look *h)
{
    uint64_t end = clock_ns() + SLICE_NS;
    enum status st = ST_TIMESLICE;
    do {
        if (h->left.first) {
            (void)nif_free_step(&h->left);
            continue;
        }
        enum peek_reader reader = nif_peek_reader(s);
        if (reader == PEEK_NONE)
            return ATOM(no_reader);
        leftovers_collect(&h->left);
        st = look_step(&h->look, reader, LOOK_NS);
        leftovers_collect(NULL);
    } while (st == ST_TIMESLICE && clock_ns() < end);
    return nif_status_atom(env, st);
}

LOOK_NIF(do_look_step)
{
    /* (Look): dirty, because a slice is too long for a normal scheduler */
    return step(env, sonde_of(env), h);
}

LOOK_NIF(do_look_progress)
{
    /* (Look): {WordsDone, WordsTotal} */
    uint64_t done = 0;
    uint64_t total = 0;
    if (h->look.state)
        h->look.walker->progress(h->look.state, &done, &total);
    return enif_make_tuple2(env, enif_make_uint64(env, done), enif_make_uint64(env, total));
}

LOOK_NIF(do_look_end)
{
    /* (Look): more | ok. Frees its memory now, not at the next collection of its holder, one step a call;
     * afterwards it has no answer. Dirty: there may be much to free. */
    leftovers_collect(&h->left);
    bool done = look_end(&h->look, LOOK_NS);
    leftovers_collect(NULL);
    h->look.st = ST_GONE;
    return nif_free_step(&h->left) && done ? ATOM(ok) : ATOM(more);
}

/* ---- answers -------------------------------------------------------------------------------- */

static ERL_NIF_TERM heap_map(ErlNifEnv *env, const struct look *l, const struct marking *h)
{
    uint64_t stack = stamp_word(&l->rd, LF_hend) - stamp_word(&l->rd, LF_stop);
    uint64_t old = stamp_word(&l->rd, LF_old_htop) - stamp_word(&l->rd, LF_old_heap);
    uint64_t unused = stamp_word(&l->rd, LF_stop) - stamp_word(&l->rd, LF_htop) +
                      stamp_word(&l->rd, LF_old_hend) - stamp_word(&l->rd, LF_old_htop) +
                      8 * (h->collect.size - h->collect.used);
    uint64_t young =
        stamp_word(&l->rd, LF_htop) - stamp_word(&l->rd, LF_heap) + 8 * h->collect.used;
    ERL_NIF_TERM roots[ROOT_COUNT];
    for (unsigned i = 0; i < ROOT_COUNT; i++)
        roots[i] = enif_make_uint64(env, h->reached[i] * 8);
    ERL_NIF_TERM keys[] = {ATOM(young),
                           ATOM(old),
                           ATOM(stack),
                           ATOM(fragments),
                           ATOM(free),
                           ATOM(literals),
                           ATOM(literal_references),
                           ATOM(words),
                           ATOM(bytes),
                           ATOM(roots)};
    ERL_NIF_TERM values[] = {enif_make_uint64(env, young),
                             enif_make_uint64(env, old),
                             enif_make_uint64(env, stack),
                             enif_make_uint64(env, h->fragment_words * 8),
                             enif_make_uint64(env, unused),
                             h->leaves.pages ? enif_make_uint64(env, h->literal_words * 8)
                                             : ATOM(undefined),
                             enif_make_uint64(env, h->literals),
                             enif_make_uint64(env, h->words),
                             enif_make_uint64(env, marking_bytes(h)),
                             enif_make_tuple_from_array(env, roots, ROOT_COUNT)};
    return nif_map(env, keys, values, sizeof keys / sizeof *keys);
}

/* w: NULL after a mark, which only knows the visible bytes. */
static ERL_NIF_TERM binaries_map(ErlNifEnv *env, const struct waste *w, const struct marking *h)
{
    ERL_NIF_TERM keys[] = {ATOM(visible), ATOM(live), ATOM(garbage), ATOM(pinned)};
    ERL_NIF_TERM values[] = {
        enif_make_uint64(env, h->visible), enif_make_uint64(env, w ? w->live : 0),
        enif_make_uint64(env, w ? w->garbage : 0), enif_make_uint64(env, w ? w->pinned_bytes : 0)};
    return nif_map(env, keys, values, w ? 4 : 1);
}

ERL_NIF_TERM nif_bar_name(ErlNifEnv *env, enum bar_kind kind)
{
    static const char *const names[] = {
#define X(Id, Name) Name,
        BAR_LIST(X)
#undef X
    };
    return enif_make_atom(env, names[kind]);
}

static ERL_NIF_TERM bar(ErlNifEnv *env, ERL_NIF_TERM list, ERL_NIF_TERM kind, const struct bar *b)
{
    return b->count == 0 && b->words == 0
               ? list
               : enif_make_list_cell(env,
                                     enif_make_tuple3(env, kind, enif_make_uint64(env, b->count),
                                                      enif_make_uint64(env, b->words * 8)),
                                     list);
}

static ERL_NIF_TERM tuple_kind(ErlNifEnv *env, uint64_t arity)
{
    return enif_make_tuple2(env, ATOM(tuple), enif_make_uint64(env, arity));
}

static ERL_NIF_TERM bars(ErlNifEnv *env, const struct look *l, const struct histogram *g)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (unsigned i = 0; i < BAR_COUNT; i++)
        list = bar(env, list, nif_bar_name(env, i), &g->bars[i]);
    for (unsigned i = 0; i < BARS_TUPLES; i++)
        list = bar(env, list, tuple_kind(env, i), &g->tuples[i]);
    for (unsigned i = 0; i < BARS_KEYED; i++) {
        list = bar(env, list, tuple_kind(env, g->large[i].key - 1), &g->large[i].bar);
        list = bar(env, list, nif_fun_kind(env, l, &g->funs[i]), &g->funs[i].bar);
    }
    return list;
}

LOOK_NIF(do_look_heap)
{
    /* (Look): after mark or account, {Sizes, BytesOfBinaries, Histogram} | torn | gone */
    struct look *l = &h->look;
    const struct waste *w = l->walker == &account_walker ? l->state : NULL;
    const struct marking *heap = w ? &w->heap : l->state;
    if (!heap || l->st != ST_OK || (!w && l->walker != &mark_walker))
        return nif_raise(env, ATOM(badarg));
    enum status st = nif_may_tell(sonde_of(env), l);
    if (st != ST_OK)
        return nif_status_atom(env, st);
    ERL_NIF_TERM list = heap->histogram ? bars(env, l, heap->histogram) : enif_make_list(env, 0);
    return enif_make_tuple3(env, heap_map(env, l, heap), binaries_map(env, w, heap), list);
}
