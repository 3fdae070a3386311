/* test_marking_slices.c: marking in slices of every length, without memory, and within a look.
 * Knows: that the result is the same. Does not know: which one is right (test_marking.c). */
#include "test/test_marking.h"

#include "process/look.h"

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

static bool same(const struct marked *a, const struct marked *b)
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
    struct marked first;
    struct marked cut;
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
    struct marked first;
    struct marked m;
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
        test_slices(lay);
        test_no_memory(lay);
        test_look(lay);
    }
    return outcome();
}
