/* test_marking.c: marking of a model heap: every kind of object, every shape.
 * Knows: the objects that its roots reach.
 * Does not know: a real VM, or how a mark is used. */
#include "test/test_marking.h"

#include "vm/object.h"

#include <sys/mman.h>
#include <unistd.h>

/* ---- kinds ----------------------------------------------------------------------------------- */

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
    struct marked m;
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

/* Which bytes of binaries are visible, and what a collection would free. */
static void test_binaries(const struct layout *lay)
{
    bool old = lay->otp <= 26;
    for (unsigned copied = 0; copied < 2; copied++) {
        struct subject s = begin(lay, 0);
        struct marked m;
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

/* What does not fit into the heap: a cell is taken for a literal, and a boxed object is torn. */
static void test_ends(const struct layout *lay)
{
    for (unsigned i = 0; i < 3; i++) {
        struct subject s = begin(lay, 0);
        struct marked m;
        uint64_t holder = cons(&s, NIL, NIL);
        uint64_t cut = i == 0   ? cons(&s, NUMBER, NIL)
                       : i == 1 ? tuple(&s, 3, NIL)
                                : flatmap(&s, 3, tuple(&s, 3, NIL), NIL);
        put_word(term_pointer(holder), cut);
        push(&s, holder);
        mark_all(&s, &m);
        check(whole(&s, &m), "what ends with the heap is reached", lay->name);
        s.top -= 8;
        mark_all(&s, &m);
        check(i == 0 ? m.st == ST_OK && m.literals == 1 && m.reached == 2 : m.st == ST_TORN,
              "no word behind the heap is followed", lay->name);
        end(&s);
    }
}

/* ---- shapes ---------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__)
enum { LONG_LIST = 200000 };
#else
enum { LONG_LIST = 10000000 };
#endif

/* Neither length nor depth costs memory. */
static void test_shapes(const struct layout *lay, unsigned n)
{
    for (unsigned in = 0; in < 3; in++) {
        struct subject s = begin(lay, 4ULL * n + 100);
        struct marked m;
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
    struct marked m;
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

/* The walk meets a large tuple when its stack is full, so it spills the elements. Literals and
 * binaries among them still count. */
static void test_spilled(const struct layout *lay)
{
    enum { MANY = 3000, LITERALS = 50 };
    struct subject s = begin(lay, 0);
    struct marked m;
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
    struct marked one;
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
    struct marked m;
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
        struct marked cut;
        mark_in(&s, ALL, WORDS_MAX, steps, &cut);
        check(cut.st == ST_OK && cut.reached == m.reached && cut.turns > FRAGMENTS,
              "sorted and walked in slices", lay->name);
    }
    mark_in(&s, ALL, 1000, UINT32_MAX, &m);
    check(m.st == ST_TOO_LARGE, "fragments count for the bound", lay->name);
    end(&s);
}

int main(void)
{
    for (unsigned i = 0; i < layout_count(); i++) {
        const struct layout *lay = layout_table(i);
        test_kinds(lay);
        test_fun_entries(lay);
        test_binaries(lay);
        test_ends(lay);
        test_shapes(lay, 100000);
        test_sharing(lay);
        test_spilled(lay);
        test_fragments(lay);
    }
    test_shapes(layout_table(0), LONG_LIST);
    return outcome();
}
