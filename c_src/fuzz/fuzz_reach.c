/* fuzz_reach.c: marks the objects that the roots of a model process reach, and compares with the model.
 * Knows: as fuzz_walk.c.
 * Does not know: how the model finds them (fuzz_mark.c). */
#include "fuzz/fuzz.h"

#include <string.h>

enum { MARK_READS = 20000000, MARK_WORDS = 1 << 20, MARK_SLICES = 8 };

static void must_mark(bool ok, const char *what)
{
    if (!ok)
        fuzz_fail("mark:", what);
}

static unsigned mark_want(const struct image *img)
{
    static const unsigned wants[] = {MARKING_HISTOGRAM | MARKING_VISIBLE, 0, MARKING_HISTOGRAM,
                                     MARKING_VISIBLE | MARKING_SLICES};
    return wants[img->mode >> 5 & 3];
}

static enum status mark_all(struct marking *h, struct reading rd, unsigned want, uint32_t steps)
{
    enum status st = ST_TIMESLICE;
    marking_start(h, &rd, want, MARK_WORDS);
    h->slices.max = MARK_SLICES;
    for (uint64_t i = 0; st == ST_TIMESLICE; i++) {
        must_mark(i < MARK_READS, "more turns than reads");
        struct budget b = BUDGET(steps);
        rd.budget = &b;
        st = marking_walk(h, &rd);
    }
    return st;
}

static void same_bars(const struct marking *h, const struct reach *r)
{
    const struct histogram *g = h->histogram;
    struct bar other = g->bars[BAR_OTHER];
    for (unsigned i = 0; i < BARS_KEYED; i++) {
        other.count += g->large[i].bar.count + g->funs[i].bar.count;
        other.words += g->large[i].bar.words + g->funs[i].bar.words;
    }
    for (unsigned i = 0; i < BAR_OTHER; i++)
        must_mark(memcmp(&g->bars[i], &r->bars[i], sizeof g->bars[i]) == 0, "a wrong bar");
    must_mark(memcmp(g->tuples, r->tuples, sizeof g->tuples) == 0, "a wrong bar of tuples");
    must_mark(memcmp(&other, &r->bars[BAR_OTHER], sizeof other) == 0, "a wrong bar of the rest");
}

static void same_reach(const struct marking *h, const struct reach *r)
{
    for (unsigned i = 0; i < ROOT_COUNT; i++)
        must_mark(h->reached[i] == r->words[i], "other words reached from a root");
    must_mark(h->literals == r->literals, "other literals");
    must_mark(!(r->want & MARKING_VISIBLE) || h->visible == r->visible, "other bytes visible");
    for (unsigned i = 0; i < r->blocks_n; i++) {
        for (uint64_t p = r->from[i]; p != r->to[i]; p += 8) {
            bool as_whole = p != r->from[i] && r->whole[(p - 8 - MEMORY_BASE) / 8 % REACH_WORDS];
            must_mark(marking_has_reached(h, p) == reach_has(r, p) || as_whole,
                      "another object reached");
        }
    }
    if (r->want & MARKING_HISTOGRAM)
        same_bars(h, r);
}

static void compare_mark(const struct marking *h, enum status st, const struct reach *r)
{
    must_mark(st != ST_NOMEM || fuzz_failed(), "no memory, and none was refused");
    if (st == ST_NOMEM)
        return;
    must_mark(r->kind != MUST || st == ST_OK, "no answer for a whole heap");
    must_mark(r->kind != REFUSED || st != ST_OK || (r->lied && h->spilled) || r->doubted,
              "an answer for a broken heap");
    if (r->kind == MUST)
        same_reach(h, r);
}

static void mark_still(const struct image *img, const struct plan *plan, size_t slot, uint64_t proc)
{
    static struct reach r;
    const uint32_t steps[] = {UINT32_MAX, 1, img->steps};
    struct view view;
    const struct reading rd = {&img->vm, plan, &view, NULL};
    struct marking h;
    fuzz_begin(img, false, 0);
    model_reach(&img->vm, proc, mark_want(img), MARK_WORDS, MARK_SLICES, &r);
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        fuzz_begin(img, false, MARK_READS);
        if (stamp_open(&img->vm, plan, slot, proc, &view) != ST_OK)
            return;
        enum status st = mark_all(&h, rd, r.want, steps[i]);
        compare_mark(&h, st, &r);
        marking_end(&h);
        must_mark(stamp_close(&rd) == ST_OK, "torn, and nothing changed");
    }
}

/* As check_running. */
static void mark_running(const struct image *img, const struct plan *plan, size_t slot,
                         uint64_t proc)
{
    uint64_t before;
    uint64_t after;
    struct view view;
    const struct reading rd = {&img->vm, plan, &view, NULL};
    struct marking h;
    fuzz_begin(img, true, MARK_READS);
    if (stamp_open(&img->vm, plan, slot, proc, &view) != ST_OK)
        return;
    unsigned opened = memory_changed();
    bool settled = model_reach_stamp(&img->vm, proc, &before);
    must_mark(settled || memory_still() < 2, "opened, and not settled");
    (void)mark_all(&h, rd, mark_want(img), img->steps);
    marking_end(&h);
    unsigned walked = memory_changed();
    settled = model_reach_stamp(&img->vm, proc, &after);
    bool there = fuzz_word(img->vm.tab.tab + slot * 8) == proc;
    enum status st = stamp_close(&rd);
    if (opened > 0 || memory_changed() != walked)
        return;
    must_mark(st != ST_OK || (there && settled && before == after), "it moved, and is not torn");
}

void check_marks(const struct image *img)
{
    enum layout_field fields[MARKING_FIELDS_MAX];
    struct plan plan;
    marking_fields(fields);
    plan_make(&plan, img->vm.lay, STATE_UNSETTLED, LOCK_MAIN, fields);
    for (size_t slot = 0; slot < SLOTS; slot++) {
        fuzz_begin(img, false, 0);
        uint64_t proc = fuzz_word(img->vm.tab.tab + slot * 8);
        if (proc == 0)
            continue;
        mark_still(img, &plan, slot, proc);
        if (memory_changes() > 0)
            mark_running(img, &plan, slot, proc);
    }
}
