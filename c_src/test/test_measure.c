/* test_measure.c: measuring and marking a term, compared with counting it as simply as possible.
 * Knows: how to build random terms of a few kinds, with shared parts.
 * Does not know: processes. */
#include "heap/shared_size.h"
#include "test/test_world.h"

enum { TERMS = 400, WORDS = 1 << 16, IMMEDIATE = 0x1F, NIL_TERM = 0x3B };

/* An area that is filled from below: the heap, or the literals. */
struct store {
    uint64_t *at, *from, *to;
};

struct build {
    struct world *w;
    struct blocks blocks;
    struct store heap, literals;
    unsigned n;
    uint64_t terms[TERMS];
    uint64_t flat[TERMS]; /* the expected flat size of each */
};

static uint64_t *take(struct store *s, unsigned words)
{
    uint64_t *p = s->at;
    s->at += words;
    if (s->at > s->to)
        abort();
    return p;
}

static void add(struct build *b, const uint64_t *p, unsigned tag, uint64_t flat)
{
    b->terms[b->n] = address(p) | tag;
    b->flat[b->n++] = flat;
}

/* A term that was built before, or an immediate. A literal never refers to the heap. */
static uint64_t any(struct build *b, bool literal, uint64_t *flat)
{
    unsigned back = draw(8);
    unsigned i = back < b->n ? b->n - 1 - back : b->n;
    bool fits = i < b->n && (!literal || b->terms[i] >= address(b->literals.from));
    if (!fits)
        return IMMEDIATE;
    *flat += b->flat[i];
    return b->terms[i];
}

static void make_cons(struct build *b, struct store *s, bool literal)
{
    uint64_t flat = 2;
    uint64_t *p = take(s, 2);
    p[0] = any(b, literal, &flat);
    p[1] = draw(4) == 0 ? NIL_TERM : any(b, literal, &flat);
    add(b, p, TAG_LIST, flat);
}

static void make_tuple(struct build *b, struct store *s, bool literal)
{
    unsigned arity = draw(6);
    uint64_t flat = arity == 0 ? 0 : 1 + arity;
    uint64_t *p = take(s, 1 + arity);
    p[0] = (uint64_t)arity << 6;
    for (unsigned i = 0; i < arity; i++)
        p[1 + i] = any(b, literal, &flat);
    add(b, p, TAG_BOXED, flat);
}

static unsigned tag_of(const struct build *b, enum kind kind)
{
    for (unsigned i = 0; i < 16; i++) {
        if (b->w->vm.lay->kinds[i] == kind)
            return i << 2;
    }
    abort();
}

static void make_bignum(struct build *b, struct store *s)
{
    unsigned digits = 1 + draw(5);
    uint64_t *p = take(s, 1 + digits);
    memset(p, 0x55, (1 + digits) * sizeof *p);
    p[0] = (uint64_t)digits << 6 | 8;
    add(b, p, TAG_BOXED, 1 + digits);
}

/* A slice of a Binary. A copy in a message is the ProcBin alone up to OTP 26, from 27 on both
 * objects. */
static void make_slice(struct build *b, struct store *s)
{
    const struct layout *lay = b->w->vm.lay;
    unsigned refc_words = lay->refc_is_term ? 6 : 3;
    char *binary = make(b->w, 64);
    uint64_t *refc = take(s, refc_words);
    uint64_t *p = take(s, 5);
    put(b->w, binary, LF_bin_size, 1000);
    memset(refc, 0, refc_words * sizeof *refc);
    refc[0] = LF(lay, bin_thing);
    refc[LF(lay, bin_ptr) / 8] = address(binary);
    p[0] = 4 << 6 | tag_of(b, KIND_SUB_BINARY);
    p[1] = lay->refc_is_term ? 100 : 0;
    p[2] = 0;
    p[3] = lay->refc_is_term ? 0 : 800;
    p[4] = address(refc) | TAG_BOXED;
    add(b, p, TAG_BOXED, lay->refc_is_term ? 6 : 8);
}

static void make_some(struct build *b)
{
    bool literal = draw(4) == 0;
    struct store *s = literal ? &b->literals : &b->heap;
    switch (draw(8)) {
    case 0:
        make_bignum(b, s);
        break;
    case 1:
        make_slice(b, s);
        break;
    case 2:
    case 3:
    case 4:
        make_cons(b, s, literal);
        break;
    default:
        make_tuple(b, s, literal);
        break;
    }
}

static void build_start(struct build *b, struct world *w, uint64_t seed)
{
    *b = (struct build){.w = w};
    rng = seed;
    uint64_t *heap = make(w, (size_t)WORDS * 8);
    uint64_t *literals = make(w, (size_t)WORDS * 8); /* above the heap */
    b->heap = (struct store){heap, heap, heap + WORDS};
    b->literals = (struct store){literals, literals, literals + WORDS};
    blocks_init(&b->blocks, address(heap), address(heap + WORDS), 0, 0);
    w->vm.literals = (struct block){address(literals), address(literals + WORDS)};
}

static enum status measure_all(struct term_size *m, const struct build *b, uint64_t term,
                               uint32_t steps, uint64_t max)
{
    term_size_start(m, &b->blocks, TERM_SIZE_BYTES | TERM_SIZE_VISIBLE | TERM_SIZE_BINARIES, max);
    enum status st = term_size_of(m, &b->w->vm, term);
    for (unsigned turns = 0; st == ST_OK || st == ST_TIMESLICE; turns++) {
        struct budget budget = BUDGET(steps);
        st = term_size_go(m, &b->w->vm, &budget);
        if (st != ST_TIMESLICE || turns > 1 << 24)
            break;
    }
    return st;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_random(struct world *w)
{
    const uint64_t most = 200000;
    bool right = true;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct build b;
        w->used = 0;
        build_start(&b, w, seed);
        while (b.n < TERMS)
            make_some(&b);
        for (unsigned i = 0; i < TERMS; i++) {
            for (uint32_t steps = 1; steps < 1000; steps += 300) {
                struct term_size m;
                enum status st = measure_all(&m, &b, b.terms[i], steps, most);
                right = right && (b.flat[i] > most ? st == ST_TOO_LARGE && m.sum.words > most
                                                   : st == ST_OK && m.sum.words == b.flat[i]);
                term_size_end(&m);
            }
        }
    }
    check(right, "random terms, in slices of many lengths", w->vm.lay->name);
}

/* {Deeper, Side} or {Side, Deeper}, nested so deep that the stack is crowded. */
static uint64_t deep_term(struct build *b, unsigned depth, unsigned side, bool first)
{
    uint64_t term = NIL_TERM;
    for (unsigned i = 0; i < depth; i++) {
        uint64_t *tuple = take(&b->heap, 1 + side);
        uint64_t *p = take(&b->heap, 3);
        tuple[0] = (uint64_t)side << 6;
        for (unsigned k = 0; k < side; k++)
            tuple[1 + k] = IMMEDIATE;
        p[0] = 2 << 6;
        p[1] = first ? term : address(tuple) | TAG_BOXED;
        p[2] = first ? address(tuple) | TAG_BOXED : term;
        term = address(p) | TAG_BOXED;
    }
    return term;
}

static void test_deep(struct world *w)
{
    static const unsigned sides[] = {1, 3, 100};
    for (unsigned i = 0; i < 6; i++) {
        struct build b;
        struct term_size m;
        unsigned side = sides[i / 2];
        unsigned depth = side == 100 ? 600 : 12000 / (side + 1);
        w->used = 0;
        build_start(&b, w, 1);
        uint64_t term = deep_term(&b, depth, side, i % 2 == 0);
        enum status st = measure_all(&m, &b, term, 7, 1 << 20);
        check(st == ST_OK && m.sum.words == (uint64_t)depth * (4 + side), "deep terms",
              w->vm.lay->name);
        term_size_end(&m);
    }
}

static void test_binaries(struct world *w)
{
    struct build b;
    struct term_size m;
    w->used = 0;
    build_start(&b, w, 1);
    make_slice(&b, &b.heap);
    make_slice(&b, &b.literals);
    uint64_t *p = take(&b.heap, 4);
    p[0] = 3 << 6;
    p[1] = p[2] = b.terms[0];
    p[3] = b.terms[1];
    enum status st = measure_all(&m, &b, address(p) | TAG_BOXED, 100, 1000);
    check(st == ST_OK && m.sum.visible == 300 && m.sum.bytes == 300 && m.binaries &&
              address_set_bytes(m.binaries) == 2000,
          "binaries, seen at each place, held once", w->vm.lay->name);
    term_size_end(&m);
}

static void test_broken(struct world *w)
{
    struct build b;
    struct term_size m;
    w->used = 0;
    build_start(&b, w, 1);
    uint64_t *p = take(&b.heap, 2);
    p[0] = IMMEDIATE;
    const struct {
        uint64_t word;
        const char *what;
    } bad[] = {
        {address(w->arena) + ARENA + 8 + TAG_LIST, "a pointer to nowhere"},
        {address(b.heap.to - 1) | TAG_LIST, "a cell that is half in the heap"},
        {address(b.heap.from) | TAG_BOXED, "a box without a header"},
        {64, "a header in a term's place"},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        p[1] = bad[i].word;
        check(measure_all(&m, &b, address(p) | TAG_LIST, 10, 1000) == ST_TORN, bad[i].what,
              w->vm.lay->name);
        term_size_end(&m);
    }
    p[1] = address(p) | TAG_LIST;
    check(measure_all(&m, &b, address(p) | TAG_LIST, 10, 1000) == ST_TOO_LARGE,
          "a list without an end", w->vm.lay->name);
    term_size_end(&m);
    p[1] = address(b.literals.from) | TAG_LIST;
    w->vm.literals = (struct block){0, 0};
    check(measure_all(&m, &b, address(p) | TAG_LIST, 10, 1000) == ST_ASK,
          "literals that may be anywhere", w->vm.lay->name);
    term_size_end(&m);
}

/* The words of a term, each object counted once: those on the heap, or those of literals. */
// NOLINTNEXTLINE(misc-no-recursion)
static uint64_t once(const struct build *b, uint64_t term, bool literals, uint64_t *marks)
{
    const struct layout *lay = b->w->vm.lay;
    uint64_t at = term_pointer(term);
    bool literal = at >= address(b->literals.from);
    if (term_is_immediate(term))
        return 0;
    uint64_t *mark = &marks[(at - address(b->heap.from)) / 8];
    const uint64_t *p = (const uint64_t *)at; // NOLINT(performance-no-int-to-ptr)
    uint64_t sum = 0;
    if (*mark)
        return 0;
    *mark = 1;
    unsigned first = 0;
    unsigned n = 2;
    unsigned words = 2;
    if (!term_is_list(term)) {
        enum kind kind = lay->kinds[p[0] >> 2 & 15];
        words = 1 + (unsigned)term_header_arity(p[0]);
        first = 1;
        n = kind == KIND_TUPLE ? words : 0;
        words = words == 1 ? 0 : words;
        if (kind == KIND_SUB_BINARY)
            words = lay->refc_is_term ? 6 : 8;
    }
    sum += literal == literals ? words : 0;
    for (unsigned i = first; i < n; i++)
        sum += once(b, p[i], literals, marks);
    return sum;
}

static void test_shared(struct world *w)
{
    static uint64_t marks[2 * WORDS + 16];
    bool right = true;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct build b;
        struct term_size m;
        w->used = 0;
        build_start(&b, w, seed);
        while (b.n < TERMS)
            make_some(&b);
        term_size_start(&m, &b.blocks, 0, 1);
        for (unsigned i = 0; i < TERMS; i += 7) {
            struct shared_size s = {0};
            struct budget budget = BUDGET(UINT32_MAX);
            enum status st = shared_size_start(&s, &w->vm, &m);
            s.stack.max = i % 3 == 0 ? 0 : s.stack.max; /* no room at all, or the default */
            s.stack.cap = i % 3 == 0 ? 1 : s.stack.cap;
            right = right && st == ST_OK && marks_clear(&s.marks, &budget) &&
                    shared_size_of(&s, &w->vm, b.terms[i]) == ST_OK;
            do {
                budget.steps = 3;
                st = shared_size_go(&s, &w->vm, &budget);
            } while (st == ST_TIMESLICE);
            memset(marks, 0, sizeof marks);
            right = right && st == ST_OK && s.words == once(&b, b.terms[i], false, marks);
            memset(marks, 0, sizeof marks);
            right = right && s.literals == once(&b, b.terms[i], true, marks);
            shared_size_end(&s);
        }
        term_size_end(&m);
    }
    check(right, "each part once, also without a stack", w->vm.lay->name);
}

static void test_no_memory(struct world *w)
{
    struct build b;
    bool right = true;
    unsigned refused = 0;
    w->used = 0;
    build_start(&b, w, 1);
    uint64_t term = deep_term(&b, 600, 100, true);
    make_slice(&b, &b.heap);
    uint64_t *p = take(&b.heap, 2);
    p[0] = term;
    p[1] = b.terms[0];
    for (long n = 1; n <= 20; n++) {
        struct term_size m;
        fail_at = n;
        enum status st = measure_all(&m, &b, address(p) | TAG_LIST, 50, 1 << 20);
        right = right && (st == ST_NOMEM || (st == ST_OK && m.sum.words > 600UL * 104));
        refused += st == ST_NOMEM;
        fail_at = 0;
        term_size_end(&m);
    }
    check(right && refused > 2, "allocations that fail", w->vm.lay->name);
}

int main(void)
{
    for (unsigned i = 0; i < layout_count(); i++) {
        struct world *w = new_world(layout_table(i));
        test_random(w);
        test_deep(w);
        test_binaries(w);
        test_broken(w);
        test_shared(w);
        test_no_memory(w);
        free_world(w);
    }
    return outcome();
}
