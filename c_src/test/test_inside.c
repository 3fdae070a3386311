/* test_inside.c: flat sizes, mailboxes, slices and the account of a model process: the same answer
 * wherever a time slice ends, and an orderly end if memory runs out.
 * Knows: how to build a process with some of every structure.
 * Does not know: the right answers, which the Erlang tests check. */
#include "test/test_world.h"

#include "heap/root_size.h"
#include "heap/mailbox.h"
#include "vm/object.h"
#include "binary/waste.h"

#include <sys/mman.h>
#include <unistd.h>

enum { NIL = TERM_NIL, NUMBER = 0x12F, SLOT_N = 77, TAG_ATOM = 5 << 6 | 0x0B };

enum { MESSAGES = 60, CHAIN = 24, FRAGMENTS = 12, DEEP = 500, LITERALS = 40, WIDE = 6000 };

#define MOST (1ULL << 40)

struct subject {
    struct world *w;
    char *p;
    uint64_t top;
    uint64_t heap_chain; /* its last entry */
};

/* ---- terms ----------------------------------------------------------------------------------- */

static uint64_t cons(struct subject *s, uint64_t head, uint64_t tail)
{
    return put_cons(&s->top, head, tail);
}

static uint64_t header_of(const struct subject *s, enum kind kind, uint64_t arity)
{
    return kind_header(s->w->vm.lay, kind, arity);
}

static uint64_t tuple(struct subject *s, uint64_t arity, uint64_t word)
{
    uint64_t at = s->top;
    put_word(at, arity << 6);
    for (uint64_t i = 1; i <= arity; i++)
        put_word(at + i * 8, word);
    s->top += 8 + arity * 8;
    return at | TAG_BOXED;
}

/* A ProcBin or BinRef to this Binary, on the off-heap list. */
static uint64_t reference(struct subject *s, uint64_t binary)
{
    const struct layout *lay = s->w->vm.lay;
    uint64_t at = s->top;
    unsigned words = lay->refc_is_term ? 6 : 3;
    memset((void *)(uintptr_t)at, 0, words * (size_t)8); // NOLINT(performance-no-int-to-ptr)
    put_word(at, LF(lay, bin_thing));
    if (lay->refc_is_term) {
        put_word(at + 8, 1000);
        put_word(at + LF(lay, bin_ptr) + 8, binary + LF(lay, bin_bytes));
    }
    put_word(at + LF(lay, oh_next), s->heap_chain);
    put_word(at + LF(lay, bin_ptr), binary);
    s->heap_chain = at;
    s->top += words * 8ULL;
    return at | TAG_BOXED;
}

static uint64_t refc_binary(const struct subject *s, uint64_t size, uint64_t refc)
{
    char *b = make(s->w, 64);
    put(s->w, b, LF_bin_size, size);
    put(s->w, b, LF_bin_refc, refc);
    return address(b);
}

static uint64_t slice(struct subject *s, uint64_t refc, uint64_t from, uint64_t size)
{
    const struct layout *lay = s->w->vm.lay;
    uint64_t at = s->top;
    uint64_t ptr;
    memcpy(&ptr, (char *)(uintptr_t)term_pointer(refc) + LF(lay, bin_ptr), 8); // NOLINT
    uint64_t base = ptr + LF(lay, bin_bytes);
    put_word(at, header_of(s, KIND_SUB_BINARY, 4));
    put_word(at + 8, lay->refc_is_term ? size : base);
    put_word(at + 16, lay->refc_is_term ? from : from * 8);
    put_word(at + 24, lay->refc_is_term ? 0 : (from + size) * 8);
    put_word(at + 32, refc);
    s->top += 40;
    return at | TAG_BOXED;
}

static uint64_t binaries(struct subject *s, uint64_t list)
{
    uint64_t bin = 0;
    for (unsigned i = 0; i < CHAIN; i++) {
        if (i % 3 == 0)
            bin = refc_binary(s, 1000 + i, 1 + i % 4);
        uint64_t refc = reference(s, bin);
        if (i % 4 != 1) /* the others are garbage */
            list = cons(s, slice(s, refc, 10ULL * i, 100 + i), list);
    }
    return list;
}

static uint64_t deep(struct subject *s, unsigned n, uint64_t t)
{
    for (unsigned i = 0; i < n; i++)
        t = i & 1 ? cons(s, t, tuple(s, 1, NUMBER)) : cons(s, tuple(s, 2, NUMBER), t);
    return t;
}

/* Literals: tuples and cells in turn, each holding the one before; every tenth time anew. */
static uint64_t literals(struct subject *s)
{
    uint64_t *area = make(s->w, (size_t)LITERALS * 5 * 8);
    uint64_t t = NIL;
    for (unsigned i = 0; i < LITERALS; i++) {
        uint64_t *p = area + 5ULL * i;
        p[0] = 2 << 6;
        p[1] = p[2] = p[3] = t;
        p[4] = NIL;
        t = i % 10 == 9 ? NIL : i % 2 ? address(p) | TAG_BOXED : address(p + 3) | TAG_LIST;
    }
    s->w->vm.literals = (struct block){address(area), address(area + 5ULL * LITERALS)};
    return address(area + 5ULL * (LITERALS - 2)) | TAG_BOXED;
}

/* ---- the process ----------------------------------------------------------------------------- */

static char *fragment(const struct subject *s, uint64_t next, uint64_t term)
{
    char *f = make(s->w, LF(s->w->vm.lay, frag_mem) + 24);
    uint64_t at = address(f) + LF(s->w->vm.lay, frag_mem);
    put(s->w, f, LF_frag_used, 3);
    put(s->w, f, LF_frag_next, next);
    put_word(at, 2 << 6);
    put_word(at + 8, TAG_ATOM + ((uint64_t)(s->w->used % 7) << 6));
    put_word(at + 16, term);
    return f;
}

static uint64_t in_fragment(const struct subject *s, const char *f)
{
    return (address(f) + LF(s->w->vm.lay, frag_mem)) | TAG_BOXED;
}

/* A message with this many fragments, each referring to the one before. */
static uint64_t message(const struct subject *s, uint64_t next, uint64_t term, unsigned fragments)
{
    char *f = NULL;
    for (unsigned i = 0; i < fragments; i++) {
        f = fragment(s, f ? address(f) : 0, term);
        term = in_fragment(s, f);
    }
    char *m = make(s->w, LF(s->w->vm.lay, msg_size));
    uint64_t terms[3] = {term, NIL, pid_of(s->w, 3)};
    memcpy(m + LF(s->w->vm.lay, msg_tag), terms, sizeof terms);
    put(s->w, m, LF_msg_next, next);
    put(s->w, m, LF_msg_attached, f ? address(f) : 0);
    return address(m);
}

static void queues(struct subject *s, uint64_t small)
{
    uint64_t inner = 0;
    uint64_t outer = 0;
    for (unsigned i = 0; i < MESSAGES; i++) {
        uint64_t term = i % 5 == 0 ? TAG_ATOM : i % 5 == 1 ? small : NUMBER;
        uint64_t *queue = i & 1 ? &inner : &outer;
        *queue = message(s, *queue, term, i == MESSAGES - 1 ? 40 : i % 6);
    }
    put(s->w, s->p, LF_sig_first, inner);
    put(s->w, s->p, LF_inq_first, outer);
}

static void dictionary(struct subject *s, uint64_t small)
{
    char *dict = make(s->w, LF(s->w->vm.lay, dict_head) + 24);
    uint64_t at = address(dict) + LF(s->w->vm.lay, dict_head);
    uint64_t bucket = NIL;
    for (unsigned i = 0; i < 9; i++)
        bucket = cons(s, tuple(s, 2, small), bucket);
    put(s->w, dict, LF_dict_used, 3);
    put_word(at, tuple(s, 2, small));
    put_word(at + 8, bucket);
    put_word(at + 16, NIL);
    put(s->w, s->p, LF_dictionary, address(dict));
}

static void push(const struct subject *s, uint64_t term)
{
    push_word(s->w, s->p, term);
}

static struct subject begin(const struct layout *lay)
{
    struct subject s = {.w = new_world(lay)};
    s.p = make_process(s.w, 7);
    s.top = get(s.w, s.p, LF_heap);
    uint64_t list = binaries(&s, literals(&s));
    uint64_t small = tuple(&s, 3, cons(&s, list, NIL));
    uint64_t wide = tuple(&s, WIDE, cons(&s, NIL, NIL));
    uint64_t t = cons(&s, wide, small);
    for (unsigned i = 0; i < 2 * PARTS_INLINE; i++) /* fills a stack */
        t = cons(&s, t, tuple(&s, 1, NUMBER));
    t = deep(&s, DEEP, t);
    for (unsigned i = 0; i < FRAGMENTS; i++) {
        char *f = fragment(&s, get(s.w, s.p, LF_mbuf), t);
        put(s.w, s.p, LF_mbuf, address(f));
        t = in_fragment(&s, f);
    }
    dictionary(&s, small);
    queues(&s, small);
    uint64_t slot = tuple(&s, 2, t);
    put_word(term_pointer(slot) + 8, (uint64_t)SLOT_N << 4 | 15);
    push(&s, slot);
    push(&s, NUMBER);
    push(&s, 0xFFF0); /* a return address */
    put(s.w, s.p, LF_off_heap, s.heap_chain);
    put(s.w, s.p, LF_htop, s.top);
    return s;
}

/* ---- walks ----------------------------------------------------------------------------------- */

struct inquiry {
    const char *name;
    const struct walker *walker;
    unsigned want;
    uint64_t entries;
    void (*answer)(const void *state, uint64_t *sums);
};

enum { SUMS = 64, FIRST_WASTE = 32 };

static void flat_answer(const void *state, uint64_t *sums)
{
    const struct root_size *f = state;
    sums[0] = f->measure.sum.words;
    sums[1] = f->measure.sum.bytes;
    sums[2] = f->measure.sum.visible;
    sums[3] = f->measure.binaries ? address_set_bytes(f->measure.binaries) : 0;
    sums[4] = f->shared.measure ? f->shared.words : 0;
    sums[5] = f->shared.measure ? f->shared.literals : 0;
}

static void mailbox_answer(const void *state, uint64_t *sums)
{
    const struct mailbox *m = state;
    sums[0] = m->messages;
    sums[1] = m->examined;
    sums[2] = m->measure.sum.words;
    sums[3] = m->measure.sum.visible;
    for (unsigned i = 0; i <= SHAPES_TABLE; i++) {
        const struct shape *s = i == SHAPES_TABLE ? &m->other : &m->shapes[i];
        sums[4] += s->messages * (i + 1);
        sums[5] += s->words * (i + 3);
        sums[6] += s->visible * (i + 7);
        sums[7] += s->messages != 0;
    }
}

static void waste_answer(const void *state, uint64_t *sums)
{
    const struct waste *w = state;
    for (unsigned i = 0; i < WASTE_TOGETHER; i++) {
        sums[FIRST_WASTE + i] = waste_value(w, 1U << i);
        sums[0] += sums[FIRST_WASTE + i];
    }
    sums[1] = w->live;
    sums[2] = w->garbage;
    sums[3] = w->pinned_bytes;
    sums[4] = marking_reached(&w->heap);
    sums[5] = w->heap.visible;
    sums[6] = w->heap.literal_words;
    for (size_t i = 0; i < w->n; i++)
        sums[7] += (i + 1) * (w->pinned[i].visible + w->pinned[i].n * 1000 + w->pinned[i].size);
    for (unsigned i = 0; w->heap.histogram && i < BAR_COUNT; i++)
        sums[8] += w->heap.histogram->bars[i].count * (i + 1);
    sums[9] = w->entries;
}

static void entry_bytes_start(void *w, const struct reading *rd, const struct look_args *args)
{
    waste_start(w, rd, (unsigned)args->n, args->max_words);
}

static struct walker other_waste; /* slices_walker with another question */

static const struct inquiry inquiries[] = {
    {"flat, of all roots", &root_size_walker,
     ROOT_SIZE_STACK | ROOT_SIZE_REGISTERS | ROOT_SIZE_DICTIONARY | ROOT_SIZE_MESSAGES, SLOT_N,
     flat_answer},
    {"flat, of one term", &root_size_walker, ROOT_SIZE_SLOT | ROOT_SIZE_BYTES, SLOT_N, flat_answer},
    {"flat, with binaries and what is shared", &root_size_walker,
     ROOT_SIZE_SLOT | ROOT_SIZE_BINARIES | ROOT_SIZE_SHARED, SLOT_N, flat_answer},
    {"mailbox", &mailbox_walker, 0, 1000, mailbox_answer},
    {"mailbox, some of it", &mailbox_walker, 0, 20, mailbox_answer},
    {"slices", &slices_walker, 0, 0, waste_answer},
    {"account", &account_walker, 0, 0, waste_answer},
    {"garbage", &other_waste, 0, WASTE_HEAP, waste_answer},
    {"entries", &other_waste, 0, WASTE_ENTRIES, waste_answer},
    {"bytes of entries", &other_waste, 0, WASTE_ENTRY_BYTES, waste_answer},
    {"waste", &other_waste, 0, WASTE_UNSEEN, waste_answer},
    {"all four", &other_waste, 0, (1U << WASTE_TOGETHER) - 1, waste_answer},
};

enum { INQUIRIES = sizeof inquiries / sizeof *inquiries };

/* Runs a walker in slices of `steps` steps. Its state starts as garbage, so it must initialize
 * it. */
static enum status ask_in(const struct subject *s, const struct inquiry *q, uint32_t steps,
                          uint64_t *sums, uint64_t *turns)
{
    struct look_args args = {
        .want = q->want, .max_words = MOST, .max_entries = q->entries, .n = q->entries};
    struct plan plan;
    struct view view;
    enum layout_field fields[LOOK_FIELDS_MAX];
    enum status st;
    void *state = malloc(q->walker->size);
    q->walker->fields(fields);
    plan_make(&plan, s->w->vm.lay, STATE_UNSETTLED,
              q->walker->locks != 0 ? q->walker->locks : LOCK_MAIN, fields);
    if (!state || stamp_open(&s->w->vm, &plan, 7, address(s->p), &view) != ST_OK)
        abort();
    memset(state, 0xA5, q->walker->size);
    memset(sums, 0, SUMS * sizeof *sums);
    *turns = 0;
    struct budget b;
    const struct reading rd = {&s->w->vm, &plan, &view, &b};
    q->walker->start(state, &rd, &args);
    do {
        b = BUDGET(steps);
        st = q->walker->walk(state, &rd);
        ++*turns;
    } while (st == ST_TIMESLICE && *turns < 10000000);
    if (st == ST_OK)
        q->answer(state, sums);
    while (!q->walker->end(state)) {
    }
    free(state);
    return st;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_slices(const struct layout *lay)
{
    struct subject s = begin(lay);
    for (unsigned i = 0; i < INQUIRIES; i++) {
        const struct inquiry *q = &inquiries[i];
        uint64_t whole[SUMS];
        uint64_t cut[SUMS];
        uint64_t turns;
        enum status st = ask_in(&s, q, UINT32_MAX, whole, &turns);
        check(st == ST_OK && whole[0] + whole[1] > 0, q->name, lay->name);
        for (uint32_t steps = 1; steps < 400; steps += 1 + steps / 4) {
            st = ask_in(&s, q, steps, cut, &turns);
            bool same = st == ST_OK && memcmp(whole, cut, sizeof cut) == 0;
            check(same && turns > 1, q->name, lay->name);
        }
    }
    free_world(s.w);
}

/* When the stack is full, setting a large tuple aside takes a step for each of its words. */
static void test_put_aside(const struct layout *lay)
{
    const struct inquiry flat = {"", &root_size_walker, ROOT_SIZE_SLOT, SLOT_N, flat_answer};
    const struct inquiry shared = {"", &root_size_walker, ROOT_SIZE_SLOT | ROOT_SIZE_SHARED, SLOT_N,
                                   flat_answer};
    struct subject s = begin(lay);
    uint64_t sums[SUMS];
    uint64_t measured;
    uint64_t turns;
    ask_in(&s, &flat, 1, sums, &measured);
    check(ask_in(&s, &shared, 1, sums, &turns) == ST_OK && turns - measured > WIDE,
          "each word that is put aside is a step", lay->name);
    free_world(s.w);
}

/* From one mark: the same answers as one by one, in fewer steps. */
static void test_together(const struct layout *lay)
{
    struct inquiry q = {"together", &other_waste, 0, 0, waste_answer};
    struct subject s = begin(lay);
    uint64_t sums[SUMS];
    uint64_t one[SUMS];
    uint64_t turns;
    for (uint64_t all = 1; all < 1U << WASTE_TOGETHER; all++) {
        uint64_t needed;
        uint64_t alone = 0;
        q.entries = all;
        check(ask_in(&s, &q, 1, sums, &needed) == ST_OK, q.name, lay->name);
        for (unsigned i = 0; i < WASTE_TOGETHER; i++) {
            if (!(all & 1U << i))
                continue;
            q.entries = 1U << i;
            check(ask_in(&s, &q, 1, one, &turns) == ST_OK &&
                      one[FIRST_WASTE + i] == sums[FIRST_WASTE + i],
                  "the same answer together", lay->name);
            alone += turns;
        }
        check(needed == alone || needed < alone * 3 / 4, "together there is one mark", lay->name);
    }
    free_world(s.w);
}

/* A message's fragments are found all at once, so a slice has room for few messages with many
 * fragments. */
static void test_many_fragments(const struct layout *lay)
{
    enum { MANY = 100, EACH = 300 };
    static const struct inquiry all[] = {
        {"mailbox", &mailbox_walker, 0, 1000, mailbox_answer},
        {"flat", &root_size_walker, ROOT_SIZE_MESSAGES, 0, flat_answer},
    };
    struct subject s = begin(lay);
    uint64_t queue = 0;
    for (unsigned i = 0; i < MANY; i++) {
        queue = message(&s, queue, NUMBER, EACH);
        put_word(queue + LF(lay, msg_tag), get(s.w, s.p, LF_heap) | TAG_LIST);
    }
    uint64_t *cell = (uint64_t *)(uintptr_t)get(s.w, s.p, LF_heap); // NOLINT
    cell[0] = cell[1] = NIL;
    put(s.w, s.p, LF_sig_first, 0);
    put(s.w, s.p, LF_inq_first, queue);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t sums[SUMS];
        uint64_t turns;
        enum status st = ask_in(&s, &all[i], EACH, sums, &turns);
        check(st == ST_OK && turns >= MANY, "messages of many fragments", all[i].name);
    }
    free_world(s.w);
}

/* A process with a slice of a Binary of 104 bytes, or of a native library's memory. */
static struct subject with_slice(const struct layout *lay, const char *elsewhere)
{
    struct subject s = begin(lay);
    uint64_t refc = reference(&s, refc_binary(&s, 104, 1));
    uint64_t part = slice(&s, refc, 0, elsewhere ? 70 : 104);
    if (elsewhere && lay->refc_is_term)
        put_word(term_pointer(refc) + LF(lay, bin_ptr) + 8, address(elsewhere));
    else if (elsewhere)
        put_word(term_pointer(part) + 8, address(elsewhere) & ~(uint64_t)7);
    push(&s, part);
    put(s.w, s.p, LF_off_heap, s.heap_chain);
    put(s.w, s.p, LF_htop, s.top);
    return s;
}

/* A native library may show its own memory as a binary. It lies in no Binary, so none of it counts
 * as waste: as if all of the Binary were seen. */
static void test_elsewhere(const struct layout *lay)
{
    static char own[5000];
    struct subject s = with_slice(lay, own);
    struct subject whole = with_slice(lay, NULL);
    for (unsigned i = 0; i < INQUIRIES; i++) {
        uint64_t sums[SUMS];
        uint64_t all[SUMS];
        uint64_t turns;
        const struct inquiry *q = &inquiries[i];
        check(ask_in(&s, q, UINT32_MAX, sums, &turns) == ST_OK, "memory elsewhere", q->name);
        check(ask_in(&whole, q, UINT32_MAX, all, &turns) == ST_OK, "all of a Binary", q->name);
        bool same = q->answer != waste_answer || (sums[0] == all[0] && sums[7] == all[7]);
        check(same, "as if all of it were seen", q->name);
    }
    free_world(s.w);
    free_world(whole.w);
}

static void test_no_memory(const struct layout *lay)
{
    struct subject s = begin(lay);
    for (unsigned i = 0; i < INQUIRIES; i++) {
        const struct inquiry *q = &inquiries[i];
        uint64_t whole[SUMS];
        uint64_t sums[SUMS];
        uint64_t turns;
        unsigned refused = 0;
        ask_in(&s, q, UINT32_MAX, whole, &turns);
        for (long n = 1; n < 40; n++) {
            fail_at = n;
            enum status st = ask_in(&s, q, UINT32_MAX, sums, &turns);
            bool met = fail_at == 0;
            fail_at = 0;
            refused += st == ST_NOMEM;
            check((st == ST_NOMEM && met) || (st == ST_OK && memcmp(whole, sums, sizeof sums) == 0),
                  "no memory is an error, or no matter", q->name);
        }
        check(refused > 0, "allocations were refused", q->name);
    }
    free_world(s.w);
}

/* The pairs of one slot form a cycle: no heap has one, but a torn read may see one. */
static void test_circle(const struct layout *lay)
{
    struct subject s = begin(lay);
    uint64_t sums[SUMS];
    uint64_t turns;
    uint64_t dict;
    memcpy(&dict, s.p + LF(lay, dictionary), sizeof dict);
    uint64_t pairs = cons(&s, NIL, NIL);
    put_word(term_pointer(pairs) + 8, pairs);
    put_word(dict + LF(lay, dict_head) + 8, pairs);
    put(s.w, s.p, LF_htop, s.top);
    check(ask_in(&s, &inquiries[0], 1000, sums, &turns) == ST_TORN, "a circle of pairs ends",
          lay->name);
    free_world(s.w);
}

/* A tuple that would extend beyond the end of the heap, into readable memory. */
static void test_behind(const struct layout *lay)
{
    struct subject s = begin(lay);
    uint64_t sums[SUMS];
    uint64_t turns;
    uint64_t slot = tuple(&s, 2, s.top | TAG_BOXED);
    put_word(term_pointer(slot) + 8, (uint64_t)SLOT_N << 4 | 15);
    put_word(term_pointer(slot) + 16, s.top | TAG_BOXED);
    put_word(s.top, 5 << 6);
    for (unsigned i = 1; i <= 5; i++)
        put_word(s.top + i * 8ULL, NIL);
    put(s.w, s.p, LF_htop, s.top + 16);
    push(&s, slot);
    check(ask_in(&s, &inquiries[1], 1000, sums, &turns) == ST_TORN, "an object lies in its block",
          lay->name);
    free_world(s.w);
}

/* All these walkers read the outer queue, so they wait while a sender links a message to it. */
static void test_queue_locked(const struct layout *lay)
{
    struct subject s = begin(lay);
    for (unsigned i = 0; i < INQUIRIES; i++) {
        const struct walker *walker = inquiries[i].walker;
        const struct look_args args = {
            .want = inquiries[i].want, .max_words = MOST, .max_entries = MOST};
        struct look l;
        put(s.w, s.p, LF_lock, LOCK_MSGQ);
        check(look_start(&l, &s.w->vm, 7, address(s.p), walker, &args) == ST_BUSY,
              "who links a message is waited for", inquiries[i].name);
        while (!look_end(&l, 0)) {
        }
        put(s.w, s.p, LF_lock, 0);
        check(look_start(&l, &s.w->vm, 7, address(s.p), walker, &args) == ST_OK, "not longer",
              inquiries[i].name);
        put(s.w, s.p, LF_lock, LOCK_MSGQ);
        check(look_close(&l) == ST_TORN, "also at the close", inquiries[i].name);
        put(s.w, s.p, LF_lock, 0);
        while (!look_end(&l, 0)) {
        }
    }
    free_world(s.w);
}

/* ---- a mailbox of another OS process ----------------------------------------------------------- */

enum { QUEUED = 8, KEPT_PAGE = 4096 };

static void queue_message(const struct subject *s, char *at, const char *next, uint64_t tag)
{
    put(s->w, at, LF_msg_next, next ? address(next) : 0);
    put(s->w, at, LF_msg_tag, tag);
}

static void end_queue(const struct subject *s, const char *message)
{
    put_word(address(s->p) + LF(s->w->vm.lay, inq_first) + 8,
             address(message) + LF(s->w->vm.lay, msg_next));
}

/* Each message in a page of its own; in the free memory of the first page, older messages in a chain. */
static char *queue_in_pages(const struct subject *s)
{
    char *pages = mmap(NULL, QUEUED * (size_t)KEPT_PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!pages || pages == MAP_FAILED)
        abort();
    for (unsigned i = 0; i < QUEUED; i++) {
        char *at = pages + i * (size_t)KEPT_PAGE;
        queue_message(s, at, i + 1 < QUEUED ? at + KEPT_PAGE : NULL, NUMBER);
    }
    for (unsigned i = 1; i < 20; i++) {
        char *old = pages + i * (size_t)128;
        queue_message(s, old, i + 1 < 20 ? old + 128 : NULL, NUMBER);
    }
    put(s->w, s->p, LF_sig_first, 0);
    put(s->w, s->p, LF_inq_first, address(pages));
    return pages;
}

static enum status walk_queue(struct look *l, unsigned steps)
{
    struct budget b = BUDGET(steps);
    l->rd.budget = &b;
    return l->walker->walk(l->state, &l->rd);
}

/* During the walk, a message is linked that lies in a page which the walk has kept from before: nothing of that
 * page may be counted. And where the end is never met, nothing is told. */
static void test_linked_meanwhile(const struct layout *lay)
{
    static const uint64_t known = 77;
    const struct look_args args = {
        .max_words = MOST, .max_entries = MOST, .content = CONTENT_SHOWN};
    check(peek_aim(getpid(), address(&known)) == 0 && peek_ready(PEEK_OTHER) == PEEK_OTHER, "aims",
          lay->name);
    for (unsigned met = 0; met < 2; met++) {
        struct subject s = begin(lay);
        char *pages = queue_in_pages(&s);
        char *end = pages + (QUEUED - 1) * (size_t)KEPT_PAGE;
        struct look l;
        end_queue(&s, met ? end : pages + 64);
        s.w->vm.reader = PEEK_OTHER;
        check(look_start(&l, &s.w->vm, 7, address(s.p), &mailbox_walker, &args) == ST_OK, "begins",
              lay->name);
        check(walk_queue(&l, 40) == ST_TIMESLICE, "in the middle of the queue", lay->name);
        queue_message(&s, pages + 128, NULL, NUMBER);
        put(s.w, end, LF_msg_next, address(pages + 128));
        check(walk_queue(&l, 1000) == (met ? ST_OK : ST_TORN), "as far as it should", lay->name);
        const struct mailbox *m = l.state;
        check(!met || m->messages == QUEUED, "only what waited at the beginning", lay->name);
        check(!met || look_close(&l) == ST_OK, "ends", lay->name);
        while (!look_end(&l, 0)) {
        }
        (void)munmap(pages, QUEUED * (size_t)KEPT_PAGE);
        free_world(s.w);
    }
}

int main(void)
{
    other_waste = slices_walker;
    other_waste.start = entry_bytes_start;
    for (unsigned i = 0; i < layout_count(); i++) {
        test_slices(layout_table(i));
        test_put_aside(layout_table(i));
        test_together(layout_table(i));
        test_many_fragments(layout_table(i));
        test_elsewhere(layout_table(i));
        test_no_memory(layout_table(i));
        test_circle(layout_table(i));
        test_behind(layout_table(i));
        test_queue_locked(layout_table(i));
        test_linked_meanwhile(layout_table(i));
    }
    return outcome();
}
