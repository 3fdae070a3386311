/* test_heap.c: marking of a model heap: every kind, every shape, in slices of every length.
 * Knows: the objects that its roots reach.
 * Does not know: a real VM, or how a mark is used. */
#include "test/test_world.h"

#include "heap/marking.h"
#include "process/look.h"
#include "vm/object.h"

#include <sys/mman.h>
#include <unistd.h>

enum { NIL = 0x3B, NUMBER = 0x12F };

#define WORDS_MAX (1ULL << 40)

/* A process and its heap, as large as the test needs. */
struct subject {
    struct world *w;
    char *p;
    uint64_t top;
    char *own; /* the heap, if the world's is too small */
};

static struct subject begin(const struct layout *lay, size_t words)
{
    struct subject s = {.w = new_world(lay)};
    s.p = make_process(s.w, 7);
    put(s.w, s.p, LF_group_leader, NIL);
    put(s.w, s.p, LF_parent, NIL);
    put(s.w, s.p, LF_seq_token, NIL);
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

static void end(struct subject *s)
{
    free(s->own);
    free_world(s->w);
}

static void push(const struct subject *s, uint64_t term)
{
    push_word(s->w, s->p, term);
}

static uint64_t cons(struct subject *s, uint64_t head, uint64_t tail)
{
    return put_cons(&s->top, head, tail);
}

static uint64_t header_of(const struct subject *s, enum kind kind, uint64_t arity)
{
    return kind_header(s->w->vm.lay, kind, arity);
}

/* A header, then the same word in all other places. */
static uint64_t boxed(struct subject *s, enum kind kind, uint64_t arity, uint64_t word, uint64_t n)
{
    uint64_t at = s->top;
    put_word(at, header_of(s, kind, arity));
    for (uint64_t i = 1; i < n; i++)
        put_word(at + i * 8, word);
    s->top += n * 8;
    return at | TAG_BOXED;
}

static uint64_t tuple(struct subject *s, uint64_t arity, uint64_t word)
{
    return boxed(s, KIND_TUPLE, arity, word, arity + 1);
}

static struct plan make_plan(const struct layout *lay)
{
    enum layout_field fields[MARKING_FIELDS_MAX];
    struct plan plan;
    marking_fields(fields);
    plan_make(&plan, lay, STATE_UNSETTLED, LOCK_MAIN, fields);
    return plan;
}

enum { ALL = MARKING_HISTOGRAM | MARKING_VISIBLE | MARKING_LITERALS };

struct made {
    enum status st;
    uint64_t reached, literals, literal_words, visible;
    uint64_t roots[ROOT_COUNT];
    struct histogram bars;
    size_t bytes;
    uint64_t turns;
    bool spilled;
};

/* Marks the subject's heap in slices of `steps` steps. */
static void mark_in(struct subject *s, unsigned want, uint64_t max_words, uint32_t steps,
                    struct made *m)
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
        b = (struct budget){steps, false};
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

static void mark_all(struct subject *s, struct made *m)
{
    mark_in(s, ALL, WORDS_MAX, UINT32_MAX, m);
}

static uint64_t used(const struct subject *s)
{
    return (s->top - get(s->w, s->p, LF_heap)) / 8;
}

static bool whole(const struct subject *s, const struct made *m)
{
    return m->st == ST_OK && m->reached == used(s);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static uint64_t fun(struct subject *s, uint64_t n, uint64_t term)
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

static uint64_t flatmap(struct subject *s, uint64_t n, uint64_t keys, uint64_t value)
{
    uint64_t at = boxed(s, KIND_MAP, 0, value, 3 + n);
    put_word(term_pointer(at) + 8, n);
    put_word(term_pointer(at) + 16, keys);
    return at;
}

/* A node of a hashmap, or its head. */
static uint64_t node(struct subject *s, bool head, unsigned children, uint64_t term)
{
    uint64_t bits = ((1ULL << children) - 1) << 10 | (head ? MAP_HEAD_BITMAP : MAP_NODE);
    uint64_t at = boxed(s, KIND_MAP, bits, term, (head ? 2 : 1) + (uint64_t)children);
    if (head)
        put_word(term_pointer(at) + 8, 1000);
    return at;
}

static bool bar_is(const struct bar *bar, uint64_t count, uint64_t words)
{
    return bar->count == count && bar->words == words;
}

/* Objects of every kind; most hold the one before. */
static void test_kinds(const struct layout *lay)
{
    struct subject s = begin(lay, 0);
    struct made m;
    bool old = lay->otp <= 26;
    uint64_t t = boxed(&s, KIND_FLOAT, 1, 77, 2);
    t = cons(&s, t, NUMBER);
    t = tuple(&s, 3, t);
    t = flatmap(&s, 2, tuple(&s, 2, NIL), t);
    t = node(&s, true, 3, node(&s, false, 2, t));
    t = fun(&s, 2, t);
    t = cons(&s, t, boxed(&s, KIND_BIGNUM, 2, 99, 3));
    t = cons(&s, t, boxed(&s, KIND_REF, 3, 99, 4));
    t = cons(&s, t, boxed(&s, KIND_HEAP_BINARY, 2, 8, 3));
    t = cons(&s, t, boxed(&s, KIND_EXTERNAL, 3, 8, 4));
    t = tuple(&s, BARS_TUPLES + 2, t);
    push(&s, tuple(&s, 0, NIL));
    push(&s, t);
    push(&s, NUMBER);
    push(&s, 0xFFF0); /* a return address */
    mark_all(&s, &m);
    check(whole(&s, &m), "all kinds are reached, each once", lay->name);
    check(bar_is(&m.bars.bars[BAR_FLOAT], 1, 2) && bar_is(&m.bars.bars[BAR_CONS], 5, 10) &&
              bar_is(&m.bars.tuples[3], 1, 4) && bar_is(&m.bars.tuples[2], 1, 3) &&
              bar_is(&m.bars.tuples[0], 1, 1) && bar_is(&m.bars.bars[BAR_FLATMAP], 1, 5) &&
              bar_is(&m.bars.bars[BAR_HASHMAP], 1, 8) && bar_is(&m.bars.bars[BAR_BIGNUM], 1, 3) &&
              bar_is(&m.bars.bars[BAR_REF], 1, 4) && bar_is(&m.bars.bars[BAR_EXTERNAL], 1, 4) &&
              bar_is(&m.bars.bars[BAR_HEAP_BINARY], 1, 3),
          "and counted as what they are", lay->name);
    uint64_t funs = 0;
    uint64_t large = 0;
    for (unsigned i = 0; i < BARS_KEYED; i++) {
        funs += m.bars.funs[i].bar.words;
        large += m.bars.large[i].bar.words;
    }
    check(funs == (old ? 7 : 4) && large == BARS_TUPLES + 3, "funs and large tuples as well",
          lay->name);
    end(&s);
}

/* Which bytes of binaries are visible, and what a collection would free. */
static void test_binaries(const struct layout *lay)
{
    bool old = lay->otp <= 26;
    for (unsigned copied = 0; copied < 2; copied++) {
        struct subject s = begin(lay, 0);
        struct made m;
        uint64_t size = copied ? 10 : 100;
        uint64_t refc = boxed(&s, KIND_REFC, old ? 5 : 2, 0, old ? 6 : 3);
        uint64_t words = used(&s);
        put_word(term_pointer(refc) + 8, 5000);
        uint64_t part = boxed(&s, KIND_SUB_BINARY, 4, 0, 5);
        uint64_t at = term_pointer(part);
        put_word(at + (old ? 8 : 16), old ? size : 0);
        put_word(at + (old ? 16 : 24), old ? 7 : size * 8);
        put_word(at + 32, refc);
        push(&s, part);
        push(&s, part);
        mark_all(&s, &m);
        bool kept = !(old && copied);
        check(m.st == ST_OK && m.reached == used(&s) - (kept ? 0 : words) &&
                  m.visible == (kept ? size : 0),
              "a slice keeps its binary, unless a collection copies it", lay->name);
        if (old) { /* the same object as a term of its own */
            push(&s, refc);
            mark_all(&s, &m);
            check(whole(&s, &m) && m.visible == 5000 + (kept ? size : 0),
                  "a binary that is a term is seen whole", lay->name);
        }
        end(&s);
    }
}

/* ---- shapes ---------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__)
enum { LONG_LIST = 200000 };
#else
enum { LONG_LIST = 10000000 };
#endif

/* n nested cells. in: the place of the next level: 0: tail, 1: head, 2: both in turn, beside a
 * float. */
static uint64_t deep(struct subject *s, unsigned n, unsigned in)
{
    uint64_t t = NIL;
    for (unsigned i = 0; i < n; i++) {
        bool first = in == 1 || (in == 2 && (i & 1));
        uint64_t other = in == 2 ? boxed(s, KIND_FLOAT, 1, i, 2) : NUMBER;
        t = first ? cons(s, t, other) : cons(s, other, t);
    }
    return t;
}

/* Neither length nor depth costs memory. */
static void test_shapes(const struct layout *lay, unsigned n)
{
    for (unsigned in = 0; in < 3; in++) {
        struct subject s = begin(lay, 4ULL * n + 100);
        struct made m;
        push(&s, deep(&s, n, in));
        mark_all(&s, &m);
        check(whole(&s, &m), "a long list, or a deep term, is reached to its end", lay->name);
        check(m.spilled == (in > 0), "what is deep does not fit the stack", lay->name);
        check(m.bytes < sizeof(struct marking) + used(&s) * 8 / 20, "in 5 percent of the heap",
              lay->name);
        end(&s);
    }
}

/* Each level refers to the next one five times, the last cell also to itself. */
static void test_sharing(const struct layout *lay)
{
    struct subject s = begin(lay, 0);
    struct made m;
    uint64_t t = NIL;
    for (unsigned i = 0; i < 1000; i++)
        t = tuple(&s, 5, t);
    uint64_t last = cons(&s, t, NIL);
    put_word(term_pointer(last) + 8, last); /* a cycle, which no term has */
    push(&s, last);
    push(&s, last);
    mark_all(&s, &m);
    check(whole(&s, &m), "what is shared counts once", lay->name);
    end(&s);
}

/* Literal number i of n; each is a float. */
static uint64_t literal(struct subject *s, unsigned n, unsigned i)
{
    struct block *area = &s->w->vm.literals;
    if (area->to == 0) {
        area->from = address(make(s->w, n * (size_t)16));
        area->to = area->from + n * (uintptr_t)16;
    }
    put_word(area->from + i * (uintptr_t)16, header_of(s, KIND_FLOAT, 1));
    return (area->from + i * (uintptr_t)16) | TAG_BOXED;
}

/* The walk meets a large tuple when its stack is full, so it spills the elements. Literals and
 * binaries among them still count. */
static void test_spilled(const struct layout *lay)
{
    enum { MANY = 3000, LITERALS = 50 };
    struct subject s = begin(lay, 0);
    struct made m;
    bool old = lay->otp <= 26;
    uint64_t refc = boxed(&s, KIND_REFC, old ? 5 : 2, 0, old ? 6 : 3);
    put_word(term_pointer(refc) + 8, 700);
    uint64_t part = boxed(&s, KIND_SUB_BINARY, 4, 0, 5);
    put_word(term_pointer(part) + (old ? 8 : 24), old ? 100 : 800);
    put_word(term_pointer(part) + 32, refc);
    uint64_t pair = cons(&s, NIL, NIL);
    uint64_t large = tuple(&s, MANY, pair);
    put_word(term_pointer(large) + 8, boxed(&s, KIND_FLOAT, 1, 3, 2));
    for (unsigned i = 0; i < LITERALS; i++)
        put_word(term_pointer(large) + 8 * (MANY - 10ULL - i), literal(&s, LITERALS, i));
    uint64_t first = cons(&s, tuple(&s, 1, pair), NIL);
    put_word(term_pointer(large) + 8, first);
    put_word(term_pointer(large) + 8ULL * MANY, part);
    if (old)
        put_word(term_pointer(large) + 8 * (MANY - 1ULL), refc);
    uint64_t t = large;
    for (unsigned i = 0; i < 400; i++)
        t = cons(&s, t, boxed(&s, KIND_FLOAT, 1, i, 2));
    push(&s, t);
    push(&s, part);
    mark_all(&s, &m);
    check(m.st == ST_OK && m.spilled && m.reached == used(&s) - 2, "what was spilled is reached",
          lay->name);
    check(m.literals == LITERALS && m.literal_words == 2ULL * LITERALS,
          "literals in what was spilled", lay->name);
    check(m.visible == 100 + (old ? 700 : 0), "binaries in what was spilled", lay->name);
    struct made one;
    mark_in(&s, ALL, WORDS_MAX, 1, &one);
    check(one.reached == m.reached && one.literals == m.literals &&
              one.literal_words == m.literal_words && one.visible == m.visible && one.turns > MANY,
          "a large tuple is spilled in slices", lay->name);
    end(&s);
}

/* More fragments than a list of blocks has room for at first, unsorted, each referring to
 * another. */
static void test_fragments(const struct layout *lay)
{
    enum { FRAGMENTS = 1000, STEP = 7 };
    struct subject s = begin(lay, 0);
    struct made m;
    char *frag[FRAGMENTS];
    uint64_t t = NIL;
    for (unsigned i = 0; i < FRAGMENTS; i++)
        frag[i] = make(s.w, LF(lay, frag_mem) + 24);
    for (unsigned i = 0; i < FRAGMENTS; i++) {
        char *f = frag[i * STEP % FRAGMENTS];
        uint64_t at = address(f) + LF(lay, frag_mem);
        put(s.w, f, LF_frag_used, 2);
        put(s.w, f, LF_frag_next, get(s.w, s.p, LF_mbuf));
        put(s.w, s.p, LF_mbuf, address(f));
        put_word(at, t);
        put_word(at + 8, NUMBER);
        put_word(at + 16, cons(&s, NIL, NIL)); /* beyond the used words */
        t = at | TAG_LIST;
    }
    s.top = get(s.w, s.p, LF_heap);
    push(&s, t);
    mark_all(&s, &m);
    check(m.st == ST_OK && m.reached == 2ULL * FRAGMENTS, "all fragments, and no word behind them",
          lay->name);
    for (unsigned steps = 1; steps < 4; steps++) {
        struct made cut;
        mark_in(&s, ALL, WORDS_MAX, steps, &cut);
        check(cut.st == ST_OK && cut.reached == m.reached && cut.turns > FRAGMENTS,
              "sorted and walked in slices", lay->name);
    }
    mark_in(&s, ALL, 1000, UINT32_MAX, &m);
    check(m.st == ST_TOO_LARGE, "fragments count for the bound", lay->name);
    end(&s);
}

/* ---- roots ----------------------------------------------------------------------------------- */

static uint64_t message(struct subject *s, uint64_t next, const uint64_t *terms)
{
    char *msg = make(s->w, LF(s->w->vm.lay, msg_size));
    put(s->w, msg, LF_msg_next, next);
    memcpy(msg + LF(s->w->vm.lay, msg_tag), terms, 24);
    return address(msg);
}

/* Each root has its own object; most also hold a shared one, which counts for the first root. */
static void test_roots(const struct layout *lay)
{
    struct subject s = begin(lay, 0);
    struct made m;
    uint64_t shared = tuple(&s, 6, NIL);
    char *dict = make(s.w, LF(lay, dict_head) + 32);
    char *marks = make(s.w, 64);
    put(s.w, dict, LF_dict_used, 2);
    put_word(address(dict) + LF(lay, dict_head), NIL);
    put_word(address(dict) + LF(lay, dict_head) + 8, tuple(&s, 2, shared));
    put_word(address(dict) + LF(lay, dict_head) + 16, cons(&s, NIL, NIL)); /* not in use */
    put(s.w, s.p, LF_dictionary, address(dict));
    for (unsigned i = 0; i < 8; i++)
        put_word(address(marks) + 8ULL * i, i == 7 ? boxed(&s, KIND_REF, 2, i, 3) : NIL);
    put(s.w, s.p, LF_recv_marks, address(marks));
    put_word(address(s.p) + LF(lay, def_arg_reg), tuple(&s, 1, shared));
    put_word(address(s.p) + LF(lay, def_arg_reg) + 8, cons(&s, NIL, NIL)); /* no argument */
    put(s.w, s.p, LF_arity, 1);
    uint64_t terms[3] = {tuple(&s, 3, shared), NIL, tuple(&s, 4, NIL)};
    uint64_t signal[3] = {16 << 6 | 0x30, 1, 1};
    uint64_t remote[3] = {0, 1, 1};
    put(s.w, s.p, LF_sig_first, message(&s, message(&s, message(&s, 0, remote), signal), terms));
    uint64_t outer[3] = {tuple(&s, 5, shared), NIL, NIL};
    put(s.w, s.p, LF_inq_first, message(&s, 0, outer));
    put(s.w, s.p, LF_seq_token, tuple(&s, 7, shared));
    put(s.w, s.p, LF_group_leader, boxed(&s, KIND_EXTERNAL, 3, 1, 4));
    put(s.w, s.p, LF_parent, boxed(&s, KIND_EXTERNAL, 3, 1, 4));
    push(&s, tuple(&s, 8, shared));
    mark_all(&s, &m);
    check(m.st == ST_OK && m.roots[ROOT_STACK] == 9 + 7 && m.roots[ROOT_REGISTERS] == 2 &&
              m.roots[ROOT_DICTIONARY] == 3 && m.roots[ROOT_MAILBOX] == 4 + 5 + 6 &&
              m.roots[ROOT_OTHER] == 4 + 4 + 8 + 3,
          "each root has what no root before it has", lay->name);
    end(&s);
}

/* Fragments that a BIF left are live up to the one that live_frag_end names, with all that they
 * refer to. */
static void test_live_fragments(const struct layout *lay)
{
    struct subject s = begin(lay, 0);
    struct made m;
    char *frag[2];
    uint64_t young = cons(&s, NIL, NIL);
    for (unsigned i = 0; i < 2; i++) {
        frag[i] = make(s.w, LF(lay, frag_mem) + 5 * 8);
        put(s.w, frag[i], LF_frag_used, 5);
        uint64_t *mem = (uint64_t *)(frag[i] + LF(lay, frag_mem));
        mem[0] = 2 << 6; /* a pair, then a cell; nothing refers to them */
        mem[1] = mem[4] = NIL;
        mem[2] = mem[3] = young;
    }
    put(s.w, frag[0], LF_frag_next, address(frag[1]));
    put(s.w, s.p, LF_mbuf, address(frag[0]));
    mark_all(&s, &m);
    check(m.st == ST_OK && m.roots[ROOT_OTHER] == 0, "fragments are no roots", lay->name);
    put(s.w, s.p, LF_live_frag_end, address(frag[1]));
    mark_all(&s, &m);
    check(m.st == ST_OK && m.roots[ROOT_OTHER] == 5 + 2, "those before the end are", lay->name);
    put(s.w, s.p, LF_live_frag_end, 0);
    mark_all(&s, &m);
    check(m.st == ST_OK && m.roots[ROOT_OTHER] == 5 + 5 + 2, "or all", lay->name);
    put(s.w, frag[1], LF_frag_used, 4);
    mark_all(&s, &m);
    check(m.st == ST_TORN, "what has no end in its fragment is torn", lay->name);
    end(&s);
}

static void test_not_readable(const struct layout *lay)
{
    struct subject s = begin(lay, 0);
    struct made m;
    char *psd = make(s.w, LF(lay, psd_size));
    uint64_t signal[3] = {3 << 6 | 0x30, 1, 1};
    put(s.w, s.p, LF_psd, address(psd));
    put(s.w, psd, LF_psd_nfunc, 1);
    mark_all(&s, &m);
    check(m.st == ST_OK, "who waits is in no NIF", lay->name);
    put(s.w, s.p, LF_state, 0x202A);
    mark_all(&s, &m);
    check(m.st == ST_BUSY, "a NIF that gave way keeps terms", lay->name);
    put(s.w, s.p, LF_state, 0x2A);
    put(s.w, s.p, LF_heap_sz, 3);
    mark_all(&s, &m);
    check(m.st == ST_BUSY, "a heap that waits to be collected", lay->name);
    put(s.w, s.p, LF_heap_sz, HEAP_WORDS);
    put(s.w, s.p, LF_inq_first, message(&s, 0, signal));
    mark_all(&s, &m);
    check(m.st == ST_BUSY, "a signal that may change anything", lay->name);
    end(&s);
}

/* ---- hostile ---------------------------------------------------------------------------------- */

static enum status status_of(const struct layout *lay, uint64_t word, uint64_t second, bool list)
{
    struct subject s = begin(lay, 0);
    struct made m;
    uint64_t at = s.top;
    put_word(at, word);
    put_word(at + 8, second);
    s.top += 16;
    push(&s, at | (list ? TAG_LIST : TAG_BOXED));
    mark_all(&s, &m);
    end(&s);
    return m.st;
}

static void test_lies(const struct layout *lay)
{
    struct subject s = begin(lay, 0);
    const uint64_t boxed_words[] = {header_of(&s, KIND_TUPLE, 2),
                                    header_of(&s, KIND_TUPLE, 1ULL << 57),
                                    header_of(&s, KIND_FLOAT, 2),
                                    header_of(&s, KIND_BIGNUM, 1ULL << 40),
                                    header_of(&s, KIND_SUB_BINARY, 4),
                                    header_of(&s, KIND_FUN, 0xFFFF),
                                    header_of(&s, KIND_REFC, 6),
                                    header_of(&s, KIND_MAP, 0x3FF << 10 | 1),
                                    header_of(&s, KIND_EXTERNAL, 200),
                                    header_of(&s, KIND_REF, 0x7FFFFFF),
                                    s.top | TAG_BOXED,
                                    /* moved */ s.top | TAG_LIST,
                                    NIL};
    for (unsigned i = 0; i < sizeof boxed_words / sizeof *boxed_words; i++)
        check(status_of(lay, boxed_words[i], 0xFF00, false) == ST_TORN,
              "a header that promises too much, or is none", lay->name);
    check(status_of(lay, header_of(&s, KIND_MAP, 0), 65, false) == ST_TORN,
          "a flatmap that is too large", lay->name);
    check(status_of(lay, header_of(&s, KIND_MAP, 0), 1ULL << 61, false) == ST_TORN,
          "a flatmap whose size overflows", lay->name);
    check(status_of(lay, header_of(&s, KIND_FLOAT, 1), NIL, true) == ST_TORN,
          "a list with a header", lay->name);
    check(status_of(lay, 0, NIL, true) == ST_TORN, "a list without a head", lay->name);
    for (unsigned tag = 0; tag < 16; tag++) {
        if (lay->kinds[tag] == KIND_NONE)
            check(status_of(lay, tag << 2, NIL, false) == ST_TORN, "no object of this release",
                  lay->name);
    }
    end(&s);
}

/* A sub-binary must be a part of a binary. */
static void test_part_of_lies(const struct layout *lay)
{
    for (unsigned i = 0; i < 3; i++) {
        struct subject s = begin(lay, 0);
        struct made m;
        uint64_t orig = i == 0   ? tuple(&s, 2, NIL)
                        : i == 1 ? cons(&s, NIL, NIL)
                                 : s.top | TAG_BOXED;
        uint64_t part = boxed(&s, KIND_SUB_BINARY, 4, 0, 5);
        put_word(term_pointer(part) + 8, 100);
        put_word(term_pointer(part) + 32, orig);
        push(&s, part);
        mark_all(&s, &m);
        check(m.st == ST_TORN, "a part of what is no binary", lay->name);
        end(&s);
    }
}

/* Memory outside the process's blocks belongs to others and is not read. */
static void test_outside(const struct layout *lay)
{
    static const uint64_t wild[] = {8, 0xFFFFFFFFFFFFFFF8, 0x8DEFFAC8, 0x100000000000};
    struct subject s = begin(lay, 0);
    struct made m;
    for (unsigned i = 0; i < 4; i++) {
        push(&s, wild[i] | TAG_BOXED);
        push(&s, wild[i] | TAG_LIST);
    }
    push(&s, s.top | TAG_BOXED);
    push(&s, (s.top + 8) | TAG_LIST);
    mark_all(&s, &m);
    check(m.st == ST_OK && m.reached == 0 && m.literals == 10,
          "what lies elsewhere is not followed", lay->name);
    end(&s);
}

static void test_torn_blocks(const struct layout *lay)
{
    struct subject s = begin(lay, 0);
    struct made m;
    push(&s, cons(&s, NIL, NIL));
    uint64_t top = s.top;
    s.top = get(s.w, s.p, LF_heap) - 8;
    mark_all(&s, &m);
    check(m.st == ST_TORN, "a heap upside down", lay->name);
    s.top = get(s.w, s.p, LF_heap) + (1ULL << 46);
    mark_in(&s, ALL, 1000000000, UINT32_MAX, &m);
    check(m.st == ST_TOO_LARGE && m.bytes < 1 << 20, "a heap that is too large costs nothing",
          lay->name);
    s.top = top;
    char *frag = make(s.w, 64);
    put(s.w, s.p, LF_mbuf, address(frag));
    put(s.w, frag, LF_frag_next, address(frag));
    mark_all(&s, &m);
    check(m.st == ST_TOO_LARGE, "fragments in a circle", lay->name);
    put(s.w, frag, LF_frag_next, 0);
    put(s.w, frag, LF_frag_used, 1ULL << 60);
    mark_all(&s, &m);
    check(m.st == ST_TORN, "a fragment of more than there is", lay->name);
    end(&s);
}

/* ---- slices and allocations ---------------------------------------------------------------------- */

/* A heap with a bit of everything: deep, wide, shared, in fragments. */
static struct subject mixture(const struct layout *lay)
{
    struct subject s = begin(lay, 0);
    uint64_t t = deep(&s, 1500, 2);
    uint64_t keys = tuple(&s, 3, NUMBER);
    for (unsigned i = 0; i < 200; i++)
        t = cons(&s, flatmap(&s, 3, keys, fun(&s, 2, t)), t);
    for (unsigned i = 0; i < 40; i++) {
        char *f = make(s.w, LF(lay, frag_mem) + 32);
        uint64_t at = address(f) + LF(lay, frag_mem);
        put(s.w, f, LF_frag_used, 4);
        put(s.w, f, LF_frag_next, get(s.w, s.p, LF_mbuf));
        put(s.w, s.p, LF_mbuf, address(f));
        put_word(at, header_of(&s, KIND_TUPLE, 3));
        for (unsigned k = 1; k < 4; k++)
            put_word(at + 8ULL * k, t);
        t = at | TAG_BOXED;
    }
    for (unsigned i = 0; i < 20; i++)
        t = cons(&s, t, cons(&s, literal(&s, 10, i % 10), NIL));
    char *dict = make(s.w, LF(lay, dict_head) + 8);
    put(s.w, dict, LF_dict_used, 1);
    put_word(address(dict) + LF(lay, dict_head), cons(&s, tuple(&s, 2, t), NIL));
    put(s.w, s.p, LF_dictionary, address(dict));
    uint64_t terms[3] = {tuple(&s, 3, t), NIL, tuple(&s, 4, NIL)};
    put(s.w, s.p, LF_sig_first, message(&s, message(&s, 0, terms), terms));
    put(s.w, s.p, LF_inq_first, message(&s, 0, terms));
    push(&s, t);
    return s;
}

/* A fun's entry may be the last object in memory: only the words that name it are read. */
static void test_fun_entries(const struct layout *lay)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *pages =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0)
        return check(false, "two pages", lay->name);
    memset(pages, 0x55, page);
    struct vm vm = {.reader = peek_ready(PEEK_GUARDED), .lay = lay};
    for (unsigned addresses = 3; addresses <= 4; addresses++) {
        uint64_t entry[FUN_ENTRY_WORDS];
        unsigned words = addresses + lay->fun_names;
        uintptr_t last = (uintptr_t)pages + page - words * sizeof *entry;
        vm.fun_module = (uint16_t)(addresses * 8);
        check(words <= FUN_ENTRY_WORDS && fun_entry_read(&vm, last, entry) && entry[0] != 0 &&
                  entry[words - 1] == entry[0] &&
                  (words == FUN_ENTRY_WORDS || entry[FUN_ENTRY_WORDS - 1] == 0),
              "all of a fun's entry is read, and no more", lay->name);
        check(!fun_entry_read(&vm, last + 8, entry), "not what ends before", lay->name);
        check(!fun_entry_read(&vm, last - 4, entry), "nor what is not aligned", lay->name);
    }
    vm.fun_module = 0;
    uint64_t none[FUN_ENTRY_WORDS];
    check(fun_entry_read(&vm, (uintptr_t)pages + page, none) && none[0] == 0,
          "nothing is read of what cannot be named", lay->name);
    (void)munmap(pages, 2 * page);
}

static bool same(const struct made *a, const struct made *b)
{
    return a->st == b->st && memcmp(a->roots, b->roots, sizeof a->roots) == 0 &&
           a->literals == b->literals && a->literal_words == b->literal_words &&
           a->visible == b->visible &&
           memcmp(a->bars.bars, b->bars.bars, sizeof a->bars.bars) == 0 &&
           memcmp(a->bars.tuples, b->bars.tuples, sizeof a->bars.tuples) == 0 &&
           memcmp(a->bars.large, b->bars.large, sizeof a->bars.large) == 0 &&
           memcmp(a->bars.funs, b->bars.funs, sizeof a->bars.funs) == 0;
}

static void test_slices(const struct layout *lay)
{
    struct subject s = mixture(lay);
    struct made first;
    struct made cut;
    mark_all(&s, &first);
    check(first.st == ST_OK && first.reached == used(&s) + 160 && first.spilled && first.turns == 1,
          "a bit of everything", lay->name);
    for (uint32_t steps = 1; steps < 300; steps += 1 + steps / 16) {
        mark_in(&s, ALL, WORDS_MAX, steps, &cut);
        check(same(&first, &cut), "the same in slices of any length", lay->name);
    }
    end(&s);
}

static void test_no_memory(const struct layout *lay)
{
    struct subject s = mixture(lay);
    struct made first;
    struct made m;
    unsigned refused = 0;
    mark_all(&s, &first);
    for (long n = 1; n < 30; n++) {
        fail_at = n;
        mark_all(&s, &m);
        bool met = fail_at == 0;
        fail_at = 0;
        refused += m.st == ST_NOMEM;
        check(m.st == ST_NOMEM ? met : same(&first, &m), "no memory is an error, or no matter",
              lay->name);
    }
    check(refused >= 5, "allocations were refused", lay->name);
    end(&s);
}

/* ---- the look around it -------------------------------------------------------------------------- */

static void look_start_heap(void *w, const struct reading *rd, const struct look_args *args)
{
    marking_start(w, rd, args->want, args->max_words);
}

static enum status look_walk(void *w, const struct reading *rd)
{
    return marking_walk(w, rd);
}

static bool look_end_heap(void *w)
{
    marking_end(w);
    return true;
}

static enum status look_through(const struct subject *s, const struct look_args *args, bool moves)
{
    static const struct walker walker = {
        sizeof(struct marking), marking_fields, look_start_heap, look_walk, NULL, look_end_heap, 0};
    struct look l;
    if (look_start(&l, &s->w->vm, 7, address(s->p), &walker, args) == ST_OK) {
        if (moves)
            put(s->w, s->p, LF_reds, get(s->w, s->p, LF_reds) + 1);
        while (look_step(&l, s->w->vm.reader, NOTHING) == ST_TIMESLICE) {
        }
    }
    while (!look_end(&l, 0)) {
    }
    return l.st;
}

/* A look at a process that ran meanwhile reports only that, not that the heap is too large or
 * memory is short. */
static void test_look(const struct layout *lay)
{
    struct subject s = mixture(lay);
    struct look_args args = {.want = ALL, .max_words = WORDS_MAX};
    put(s.w, s.p, LF_htop, s.top);
    check(look_through(&s, &args, false) == ST_OK, "a look from end to end", lay->name);
    check(look_through(&s, &args, true) == ST_TORN, "who moved is torn", lay->name);
    args.max_words = 10;
    check(look_through(&s, &args, false) == ST_TOO_LARGE, "too large", lay->name);
    check(look_through(&s, &args, true) == ST_TORN, "or not", lay->name);
    args.max_words = WORDS_MAX;
    for (long n = 1; n < 20; n++) {
        fail_at = n;
        enum status st = look_through(&s, &args, false);
        bool met = fail_at == 0;
        fail_at = 0;
        check(st == (met ? ST_NOMEM : ST_OK) || (met && st == ST_OK && n > 3),
              "no memory for a look", lay->name);
    }
    end(&s);
}

int main(void)
{
    for (unsigned i = 0; i < layout_count(); i++) {
        const struct layout *lay = layout_table(i);
        test_kinds(lay);
        test_fun_entries(lay);
        test_binaries(lay);
        test_shapes(lay, 100000);
        test_sharing(lay);
        test_spilled(lay);
        test_fragments(lay);
        test_roots(lay);
        test_live_fragments(lay);
        test_not_readable(lay);
        test_lies(lay);
        test_part_of_lies(lay);
        test_outside(lay);
        test_torn_blocks(lay);
        test_slices(lay);
        test_no_memory(lay);
        test_look(lay);
    }
    test_shapes(layout_table(0), LONG_LIST);
    return outcome();
}
