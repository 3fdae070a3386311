/* test_marking.h: a process with a heap of model objects, and its marking.
 * Knows: how to build an object of each kind, and how to mark in slices.
 * Does not know: what is tested. */
#ifndef SONDE_TEST_MARKING_H
#define SONDE_TEST_MARKING_H

#include "heap/marking.h"
#include "test/test_world.h"

enum { NIL = 0x3B, NUMBER = 0x12F };

#define WORDS_MAX (1ULL << 40)

/* A process and its heap, as large as the test needs. */
struct subject {
    struct world *w;
    char *p;
    uint64_t top;
    char *own; /* the heap, if the world's is too small */
};

static inline struct subject begin(const struct layout *lay, size_t words)
{
    struct subject s = {.w = new_world(lay)};
    s.p = make_rootless(s.w, 7);
    if (words > HEAP_WORDS) {
        s.own = malloc(words * 8);
        if (!s.own)
            abort();
        put(s.w, s.p, LF_heap, address(s.own));
        put(s.w, s.p, LF_hend, address(s.own) + words * 8);
        put(s.w, s.p, LF_stop, address(s.own) + words * 8);
        put(s.w, s.p, LF_heap_sz, words);
    }
    put(s.w, s.p, LF_stop, get(s.w, s.p, LF_hend));
    s.top = get(s.w, s.p, LF_heap);
    return s;
}

static inline void end(struct subject *s)
{
    free(s->own);
    free_world(s->w);
}

static inline void push(const struct subject *s, uint64_t term)
{
    push_word(s->w, s->p, term);
}

static inline uint64_t cons(struct subject *s, uint64_t head, uint64_t tail)
{
    return put_cons(&s->top, head, tail);
}

static inline uint64_t header_of(const struct subject *s, enum kind kind, uint64_t arity)
{
    return kind_header(s->w->vm.lay, kind, arity);
}

/* A header, then the same word in all other places. */
static inline uint64_t boxed(struct subject *s, enum kind kind, uint64_t arity, uint64_t word,
                             uint64_t n)
{
    uint64_t at = s->top;
    put_word(at, header_of(s, kind, arity));
    for (uint64_t i = 1; i < n; i++)
        put_word(at + i * 8, word);
    s->top += n * 8;
    return at | TAG_BOXED;
}

static inline uint64_t tuple(struct subject *s, uint64_t arity, uint64_t word)
{
    return boxed(s, KIND_TUPLE, arity, word, arity + 1);
}

static inline struct plan make_plan(const struct layout *lay)
{
    enum layout_field fields[MARKING_FIELDS_MAX];
    struct plan plan;
    marking_fields(fields);
    plan_make(&plan, lay, STATE_UNSETTLED, LOCK_MAIN, fields);
    return plan;
}

enum { ALL = MARKING_HISTOGRAM | MARKING_VISIBLE | MARKING_LITERALS };

struct marked {
    enum status st;
    uint64_t reached, literals, literal_words, visible;
    uint64_t roots[ROOT_COUNT];
    struct histogram bars;
    size_t bytes;
    uint64_t turns;
    bool spilled;
};

/* Marks the subject's heap in slices of `steps` steps. */
static inline void mark_in(struct subject *s, unsigned want, uint64_t max_words, uint32_t steps,
                           struct marked *m)
{
    const struct layout *lay = s->w->vm.lay;
    struct plan plan = make_plan(lay);
    struct view view;
    static struct marking h;
    memset(m, 0, sizeof *m);
    put(s->w, s->p, LF_htop, s->top);
    m->st = stamp_open(&s->w->vm, &plan, 7, address(s->p), &view);
    check(m->st == ST_OK, "the subject lies still", lay->name);
    struct budget b;
    const struct reading rd = {&s->w->vm, &plan, &view, &b};
    marking_start(&h, &rd, want, max_words);
    do {
        b = BUDGET(steps);
        m->st = marking_walk(&h, &rd);
        m->bytes = marking_bytes(&h) > m->bytes ? marking_bytes(&h) : m->bytes;
        m->turns++;
    } while (m->st == ST_TIMESLICE);
    m->reached = marking_reached(&h);
    m->literals = h.literals;
    m->literal_words = h.literal_words;
    m->visible = h.visible;
    m->spilled = h.spilled;
    memcpy(m->roots, h.reached, sizeof m->roots);
    if (h.histogram)
        m->bars = *h.histogram;
    marking_end(&h);
}

static inline void mark_all(struct subject *s, struct marked *m)
{
    mark_in(s, ALL, WORDS_MAX, UINT32_MAX, m);
}

static inline uint64_t used(const struct subject *s)
{
    return (s->top - get(s->w, s->p, LF_heap)) / 8;
}

static inline bool whole(const struct subject *s, const struct marked *m)
{
    return m->st == ST_OK && m->reached == used(s);
}

/* ---- objects --------------------------------------------------------------------------------- */

static inline uint64_t fun(struct subject *s, uint64_t n, uint64_t term)
{
    bool old = s->w->vm.lay->otp <= 26;
    uint64_t f = boxed(s, KIND_FUN, old ? 3 : n << 10, term, old ? 5 + n : 2 + n);
    put_word(term_pointer(f) + 8, 0xABC0);
    if (old) {
        put_word(term_pointer(f) + 16, 0);
        put_word(term_pointer(f) + 24, n << 8);
    }
    return f;
}

static inline uint64_t flatmap(struct subject *s, uint64_t n, uint64_t keys, uint64_t value)
{
    uint64_t at = boxed(s, KIND_MAP, 0, value, 3 + n);
    put_word(term_pointer(at) + 8, n);
    put_word(term_pointer(at) + 16, keys);
    return at;
}

/* n nested cells. in: the place of the next level: 0: tail, 1: head, 2: both in turn, beside a
 * float. */
static inline uint64_t deep(struct subject *s, unsigned n, unsigned in)
{
    uint64_t t = NIL;
    for (unsigned i = 0; i < n; i++) {
        bool first = in == 1 || (in == 2 && (i & 1));
        uint64_t other = in == 2 ? boxed(s, KIND_FLOAT, 1, i, 2) : NUMBER;
        t = first ? cons(s, t, other) : cons(s, other, t);
    }
    return t;
}

/* Literal number i of n; each is a float. */
static inline uint64_t literal(struct subject *s, unsigned n, unsigned i)
{
    struct block *area = &s->w->vm.literals;
    if (area->to == 0) {
        area->from = address(make(s->w, n * (size_t)16));
        area->to = area->from + n * (uintptr_t)16;
    }
    put_word(area->from + i * (uintptr_t)16, header_of(s, KIND_FLOAT, 1));
    return (area->from + i * (uintptr_t)16) | TAG_BOXED;
}

static inline uint64_t message(struct subject *s, uint64_t next, const uint64_t *terms)
{
    char *msg = make(s->w, LF(s->w->vm.lay, msg_size));
    put(s->w, msg, LF_msg_next, next);
    memcpy(msg + LF(s->w->vm.lay, msg_tag), terms, 24);
    return address(msg);
}

#endif
