/* fuzz_walk.c: runs the walkers and the scan over model processes, and compares with the model.
 * Knows: the model's answer holds wherever the walk is cut, reads are bounded, no process is lost,
 * and there is no answer if the stamp changed.
 * Does not know: what the processes look like. */
#include "fuzz/fuzz.h"

#include "util/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Noreturn void fuzz_fail(const char *what, const char *where)
{
    (void)fprintf(stderr, "WRONG: %s %s\n", what, where);
    abort();
}

static void must(bool ok, const char *what, enum attr attr)
{
    static const char *const names[] = {
#define X(Name) #Name,
        ATTR_LIST(X)
#undef X
    };
    if (!ok)
        fuzz_fail(what, names[attr]);
}

/* ---- what the walkers need from outside -------------------------------------------------------- */

static long allocated;
static long fail_at; /* the n-th allocation from now fails */
static bool failed;

static bool fails(void)
{
    bool now = fail_at > 0 && --fail_at == 0;
    failed = failed || now;
    return now;
}

void *sonde_alloc(size_t bytes)
{
    void *p = fails() ? NULL : malloc(bytes);
    allocated += p != NULL;
    return p;
}

void *sonde_realloc(void *p, size_t bytes)
{
    void *moved = fails() ? NULL : realloc(p, bytes);
    allocated += moved != NULL && p == NULL;
    return moved;
}

void sonde_free(void *p)
{
    allocated -= p != NULL;
    free(p);
}

/* A scan pauses for processes that run; the fuzzer does not wait. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
    (void)wanted, (void)left;
    return 0;
}

bool fuzz_failed(void)
{
    return failed;
}

void fuzz_begin(const struct image *img, bool changing, uint64_t reads)
{
    fail_at = img->fail_at;
    failed = false;
    memory_begin(changing, reads);
}

/* ---- one walk ---------------------------------------------------------------------------------- */

/* A monitor needs the most reads: its node, the node of the other end, the count, the reference. A
 * message's chains may be those of others, too. */
enum { THING_READS = 12, FIXED_READS = 240 };
/* A word of a frame, and what it may point to. */
enum { FRAME_READS = 4 * (int)AWAITED_FRAME };

#define MOST_THINGS                                                                                \
    ((uint64_t)LINKS_MONITORS_MAX + MESSAGES_MAX + 3 * (uint64_t)ENTRIES_MAX +                     \
     2 * (uint64_t)BLOCKS_MAX + 16 * (uint64_t)MEMORY_WORDS +                                      \
     (uint64_t)MESSAGES_MAX * ENTRIES_MAX)
#define MOST_READS (FIXED_READS + THING_READS * MOST_THINGS)

struct attempt {
    enum status status;
    int64_t value;
    bool clean;
};

static struct attempt walk_all(struct walk *w, const struct vm *vm, const struct question *q,
                               struct budget turn)
{
    enum status st = ST_TIMESLICE;
    struct budget b;
    walk_start(w, vm, q);
    walk_prefetch(w);
    for (unsigned i = 0; st == ST_TIMESLICE; i++) {
        must(i < 2 * MOST_THINGS, "a walk that takes more turns than steps:", q->attr);
        b = turn;
        st = walk_go(w, vm, &b);
    }
    walk_end(w);
    if (st == ST_OK)
        st = walk_finish(w, vm);
    return (struct attempt){st, w->value, w->clean};
}

static const char *wrong(const struct attempt *a, const struct verdict *v, enum attr attr)
{
    if (failed != (a->status == ST_NOMEM) && !(failed && fuzz_is_waste(attr)))
        return "an allocation failed, or did not:";
    if (a->status == ST_NOMEM)
        return NULL;
    if (v->kind == ANY) /* but no number of bytes, processes or messages is below zero */
        return a->status == ST_OK && a->value < 0 ? "less than nothing:" : NULL;
    if (v->kind == MUST && a->status != ST_OK)
        return "no answer for a whole process:";
    if (v->kind == REFUSED && a->status == ST_OK)
        return "an answer for a broken process:";
    if (a->status == ST_OK && (a->value != v->value || a->clean != v->clean))
        return "a wrong answer:";
    return NULL;
}

static void compare(const struct attempt *a, const struct verdict *v, enum attr attr)
{
    const char *what = wrong(a, v, attr);
    if (what)
        (void)fprintf(stderr, "%s %" PRId64 ", %d; the model has %" PRId64 ", %d\n",
                      status_name(a->status), a->value, a->clean, v->value, v->clean);
    must(!what, what, attr);
}

/* An unchanging process: the model's answer, in one slice, step by step, and in slices that share
 * the core with other walks. */
static void check_still(const struct image *img, const struct question *q, size_t slot,
                        uint64_t proc)
{
    const struct budget turns[] = {{UINT32_MAX, false}, {1, false}, {img->steps, true}};
    struct verdict v = model_answer(&img->vm, q->attr, q->waiting, proc);
    enum opened opened = model_open(&img->vm, q->attr, q->waiting, slot, proc);
    enum status first = ST_OK;
    struct walk w = {.room = NULL};
    for (unsigned i = 0; i < sizeof turns / sizeof *turns; i++) {
        uint64_t frame = q->attr == ATTR_waits_for || q->attr == ATTR_waits_call ? FRAME_READS : 0;
        fuzz_begin(img, false, FIXED_READS + frame + THING_READS * v.steps);
        enum status st = stamp_open(&img->vm, &q->plan, slot, proc, &w.view);
        must((st == ST_OK) == (opened == OPEN_OK), "opened, or not:", q->attr);
        must((st == ST_BUSY) == (opened == OPEN_BUSY), "busy, or not:", q->attr);
        if (st != ST_OK)
            break;
        struct attempt a = walk_all(&w, &img->vm, q, turns[i]);
        compare(&a, &v, q->attr);
        must(walk_close(&w, &img->vm) == ST_OK, "torn, and nothing changed:", q->attr);
        if (i == 0)
            first = a.status;
        /* other slices may meet an error and a limit in another order, and allocate differently */
        bool any = v.kind == MAY || v.kind == ANY || a.status == ST_NOMEM || first == ST_NOMEM ||
                   (v.kind == REFUSED && q->attr == ATTR_flat_size);
        must(a.status == first || any, "another answer in other slices:", q->attr);
    }
    walk_free(&w);
}

static uint64_t word_at(uint64_t address)
{
    const uint64_t *w = memory_at(address);
    return w ? *w : 0;
}

/* A process that runs meanwhile: any answer is right, but there must be none if a word under the
 * stamp changed. A change while opening or closing reads the fields may go unseen. */
static void check_running(const struct image *img, const struct question *q, size_t slot,
                          uint64_t proc)
{
    uint64_t before;
    uint64_t after;
    struct walk w = {.room = NULL};
    fuzz_begin(img, true, MOST_READS);
    if (stamp_open(&img->vm, &q->plan, slot, proc, &w.view) != ST_OK)
        return;
    unsigned opened = memory_changed();
    /* opening reads state and lock twice, the second time last of all */
    bool settled = model_stamp(&img->vm, q->attr, q->waiting, proc, &before);
    must(settled || memory_still() < 2, "opened, and not settled:", q->attr);
    (void)walk_all(&w, &img->vm, q, (struct budget){img->steps, false});
    walk_free(&w);
    unsigned walked = memory_changed();
    settled = model_stamp(&img->vm, q->attr, q->waiting, proc, &after);
    bool there = word_at(img->vm.tab.tab + slot * 8) == proc;
    enum status st = walk_close(&w, &img->vm);
    if (opened > 0 || memory_changed() != walked)
        return;
    must(st != ST_OK || there, "another process, and not torn:", q->attr);
    must(st != ST_OK || (settled && before == after) || q->one_word,
         "it moved, and is not torn:", q->attr);
    must(st == ST_OK || walked > 0, "it did not move, and is torn:", q->attr);
}

static const struct places the_place = {1, {MODEL_PLACE}};

static void begin_scan(struct scan *s, const struct image *img, const enum attr *attrs, unsigned n,
                       enum scan_mode mode, size_t remembered)
{
    scan_init(s, &img->vm, attrs, n, mode, img->rows, NULL, remembered);
    s->places = the_place;
}

static void check_walks(const struct image *img, enum attr attr)
{
    struct question q;
    bool waiting = attr == ATTR_binary_count && (img->mode & 1);
    question_make(&q, img->vm.lay, attr, waiting);
    q.places = &the_place;
    for (size_t slot = 0; slot < SLOTS; slot++) {
        fuzz_begin(img, false, 0);
        uint64_t proc = word_at(img->vm.tab.tab + slot * 8);
        if (proc == 0)
            continue;
        check_still(img, &q, slot, proc);
        if (memory_changes() > 0)
            check_running(img, &q, slot, proc);
    }
}

/* ---- what the prover reads ---------------------------------------------------------------------- */

/* A proof returns small numbers, yes or no, and never a word of the memory. */
static void check_proof(const struct image *img)
{
    int64_t result = 0;
    uint64_t proc = word_at(img->vm.tab.tab + 24);
    fuzz_begin(img, false, 100);
    if (!proof_read(&img->vm, proc, &img->proof, &result))
        return;
    switch (img->proof.op) {
    case OP_value:
    case OP_minus:
        must(result <= 1LL << 40 && result >= -(1LL << 40), "a large number", 0);
        break;
    case OP_constant:
        must(result >= 0 && result <= UINT16_MAX, "a number that is in no table", 0);
        break;
    default:
        must(result == 0 || result == 1, "neither yes nor no", 0);
    }
}

/* ---- what the roots of a process reach ---------------------------------------------------------- */

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
        struct budget b = {steps, false};
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
    must_mark(st != ST_NOMEM || failed, "no memory, and none was refused");
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
    bool there = word_at(img->vm.tab.tab + slot * 8) == proc;
    enum status st = stamp_close(&rd);
    if (opened > 0 || memory_changed() != walked)
        return;
    must_mark(st != ST_OK || (there && settled && before == after), "it moved, and is not torn");
}

static void check_mark(const struct image *img)
{
    enum layout_field fields[MARKING_FIELDS_MAX];
    struct plan plan;
    marking_fields(fields);
    plan_make(&plan, img->vm.lay, STATE_UNSETTLED, LOCK_MAIN, fields);
    for (size_t slot = 0; slot < SLOTS; slot++) {
        fuzz_begin(img, false, 0);
        uint64_t proc = word_at(img->vm.tab.tab + slot * 8);
        if (proc == 0)
            continue;
        mark_still(img, &plan, slot, proc);
        if (memory_changes() > 0)
            mark_running(img, &plan, slot, proc);
    }
}

/* ---- whole scans -------------------------------------------------------------------------------- */

/* The expected row of each process; not exact where a walker may choose. */
struct expected {
    bool exact;
    unsigned n;
    struct row row[2 * SLOTS];
};

/* What a read of one slot gives. */
struct sight {
    uint64_t pid; /* 0: no process */
    bool known, clean;
    bool read; /* without process_info */
    int64_t value;
};

/* What process_info reports for a process that is asked. */
static bool told(uint64_t pid, int64_t *value)
{
    *value = (int64_t)((pid >> 4 ^ pid >> 30) * 37 % 5000);
    return *value % 4 != 0; /* else it is dead */
}

static void look_at_all(const struct image *img, enum attr attr, bool waiting, struct sight *looks,
                        bool *exact)
{
    for (size_t slot = 0; slot < SLOTS; slot++) {
        struct sight *l = &looks[slot];
        uint64_t proc = word_at(img->vm.tab.tab + 8 * slot);
        *l = (struct sight){0};
        if (proc == 0)
            continue;
        enum opened opened = model_open(&img->vm, attr, waiting, slot, proc);
        if (opened == OPEN_NOBODY)
            continue;
        l->pid = word_at(proc);
        struct verdict v = {.kind = REFUSED};
        if (opened == OPEN_OK)
            v = model_answer(&img->vm, attr, waiting, proc);
        *exact = *exact && v.kind != MAY && v.kind != ANY;
        l->known = true;
        l->value = v.value;
        l->clean = v.kind == MUST && v.clean;
        l->read = v.kind == MUST;
        if (v.kind != MUST)
            l->known = told(l->pid, &l->value);
    }
}

static void expect_row(const struct image *img, struct expected *e, uint64_t pid, int64_t value)
{
    e->row[e->n++] = (struct row){value, proctab_order(img->vm.lay, &img->vm.tab, pid), pid};
}

static int64_t minus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* One pass: the N largest, and in a window the processes to compare with. SCAN_HOLDERS has rows
 * only of processes that need no collection. */
static void expect_first(const struct image *img, enum scan_mode mode, const struct sight *looks,
                         struct expected *e)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        const struct sight *l = &looks[i];
        if (l->pid == 0)
            continue;
        if (mode == SCAN_HOLDERS && l->clean)
            expect_row(img, e, l->pid, 0);
        else if (l->known && (mode == SCAN_TOP || mode == SCAN_SAMPLE))
            expect_row(img, e, l->pid, l->value);
    }
}

/* The second pass: gains since the first, with new and dead processes; or losses. */
static void expect_second(const struct image *img, enum scan_mode mode, const struct sight *first,
                          const struct sight *second, struct expected *e)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        const struct sight *a = &first[i];
        const struct sight *b = &second[i];
        bool same = a->pid != 0 && a->pid == b->pid && b->known;
        if (mode == SCAN_SAMPLE) {
            if (b->known)
                expect_row(img, e, b->pid, same && a->known ? minus(b->value, a->value) : b->value);
            if (a->known && !same)
                expect_row(img, e, a->pid, a->value);
        } else if (a->pid != 0 && !(mode == SCAN_HOLDERS && a->clean)) {
            expect_row(img, e, a->pid, same && a->known ? minus(a->value, b->value) : 0);
        }
    }
}

static int by_rank(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return (x->order < y->order) - (x->order > y->order);
}

static void compare_top(const struct scan *s, const struct top_n *top, struct expected *e,
                        enum attr attr)
{
    for (size_t i = 1; i < top->n; i++)
        must(by_rank(&top->rows[i - 1], &top->rows[i]) <= 0, "rows out of order:", attr);
    must(top->n <= top->limit, "more rows than wanted:", attr);
    if (!e->exact)
        return;
    qsort(e->row, e->n, sizeof *e->row, by_rank);
    must(top->n == (e->n < top->limit ? e->n : top->limit), "rows too many or few:", attr);
    for (size_t i = 0; i < top->n; i++) {
        struct row *r = &top->rows[i];
        must(by_rank(r, &e->row[i]) == 0, "a wrong row:", attr);
        must(r->order == proctab_order(s->vm.lay, &s->vm.tab, r->pid), "a wrong pid:", attr);
    }
}

static void compare_rows(const struct scan *s, struct expected *e, enum attr attr)
{
    compare_top(s, s->top, e, attr);
}

/* A process that is asked has the same value for every question. */
static bool answer(struct scan *s, uint64_t pid)
{
    int64_t values[ATTR_COUNT];
    bool alive = told(pid, &values[0]);
    for (unsigned k = 1; k < s->qn; k++)
        values[k] = values[0];
    return scan_answer(s, pid, !alive, values) == ST_OK;
}

enum { MANY = 3 };

/* The rows of SCAN_EACH, by question. */
static struct expected handed_out[MANY];

static void take_rows(const struct image *img, struct scan *s, enum attr attr)
{
    must(s->out_n <= SCAN_OUT && s->out_n % (1 + s->qn) == 0, "half a row:", attr);
    for (unsigned i = 0; i < s->out_n; i += 1 + s->qn) {
        for (unsigned k = 0; k < s->qn; k++) {
            must(handed_out[k].n < 2 * SLOTS, "too many rows:", attr);
            expect_row(img, &handed_out[k], (uint64_t)s->out[i], s->out[i + 1 + k]);
        }
    }
    scan_taken(s);
}

static enum scan_result run_scan(const struct image *img, struct scan *s, enum attr attr)
{
    const uint64_t forever = UINT64_MAX / 4;
    enum scan_result r = SCAN_MORE;
    for (unsigned i = 0; r == SCAN_MORE || r == SCAN_ASK || r == SCAN_ROWS; i++) {
        must(i < 100000, "a scan that does not end:", attr);
        r = scan_step(s, img->vm.reader, img->mode & 16 ? forever : 0);
        for (unsigned k = 0; r == SCAN_ASK && k < s->ask_n; k++) {
            if (!answer(s, s->ask[k]))
                return SCAN_NOMEM;
        }
        if (r == SCAN_ASK)
            scan_asked(s);
        if (r == SCAN_ROWS)
            take_rows(img, s, attr);
    }
    return r;
}

static bool readable_table(const struct image *img)
{
    return memory_at(img->vm.tab.tab + (SLOTS - 1) * 8ULL) != NULL;
}

/* true: the scan completed. */
static bool check_result(const struct image *img, const struct scan *s, enum scan_result r,
                         enum attr attr)
{
    bool without = false;
    for (unsigned k = 0; k < s->qn; k++)
        without = without || fuzz_is_waste(s->q[k].attr);
    must(r == SCAN_NOMEM ? failed : !failed || without || r != SCAN_DONE,
         "an allocation failed:", attr);
    must((r == SCAN_LOST) <= !readable_table(img), "a table is lost that is there:", attr);
    must(r != SCAN_FULL || img->remembered < SLOTS, "full, and has room:", attr);
    return r == SCAN_DONE;
}

/* All changes of the input come between the two passes. */
static void check_second(const struct image *img, struct scan *s, enum attr attr,
                         enum scan_mode mode, const struct sight *first, struct expected *e)
{
    struct sight second[SLOTS];
    static struct scan diff;
    memory_change_all();
    look_at_all(img, attr, mode != SCAN_SAMPLE, second, &e->exact);
    if (mode == SCAN_SAMPLE)
        e->n = 0;
    expect_second(img, mode, first, second, e);
    if (mode == SCAN_SAMPLE) {
        scan_init(&diff, &img->vm, &attr, 1, SCAN_DIFF, img->rows, &s->own, SLOTS);
        diff.places = the_place;
        if (check_result(img, &diff, run_scan(img, &diff, attr), attr))
            compare_rows(&diff, e, attr);
        scan_free(&diff);
    } else {
        must(scan_after(s), "no second count after the first:", attr);
        if (check_result(img, s, run_scan(img, s, attr), attr))
            compare_rows(s, e, attr);
    }
}

static void check_scan(const struct image *img, enum attr attr, bool changing)
{
    static const enum scan_mode modes[] = {SCAN_TOP, SCAN_SAMPLE, SCAN_HOLDERS, SCAN_ALL};
    static struct scan s;
    enum scan_mode mode = modes[img->mode >> 1 & 3];
    bool waiting = mode == SCAN_HOLDERS || mode == SCAN_ALL;
    struct sight first[SLOTS];
    struct expected e = {.exact = !changing};
    if (waiting && attr != ATTR_binary_count) /* bin_leak asks only for that */
        return;
    fuzz_begin(img, changing, SLOTS * 12ULL * (MOST_READS + 2));
    look_at_all(img, attr, waiting, first, &e.exact);
    expect_first(img, mode, first, &e);
    begin_scan(&s, img, &attr, 1, mode, img->remembered);
    bool whole = check_result(img, &s, run_scan(img, &s, attr), attr);
    must(s.own.n <= img->remembered, "more remembered than allowed:", attr);
    if (whole) {
        if (!waiting)
            compare_rows(&s, &e, attr);
        if (mode != SCAN_TOP)
            check_second(img, &s, attr, mode, first, &e);
    }
    scan_free(&s);
}

/* ---- several questions in one sweep, and some processes only ------------------------------------- */

static bool is_left_out(const struct question *q, struct sight looks[MANY][SLOTS], unsigned slot)
{
    for (unsigned k = 0; k < MANY; k++) {
        if (q[k].sparse && looks[k][slot].value == 0)
            return true;
    }
    return false;
}

/* A process has all its answers or none. */
static void expect_many(const struct image *img, const struct scan *s,
                        struct sight looks[MANY][SLOTS], bool some, struct expected *e)
{
    bool each = s->mode == SCAN_EACH;
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        const struct sight *l[MANY] = {&looks[0][slot], &looks[1][slot], &looks[2][slot]};
        bool read = l[0]->read && l[1]->read && l[2]->read;
        int64_t value;
        if (l[0]->pid == 0 || (some && slot % 2 == 0) ||
            !(read || (!each && told(l[0]->pid, &value))) ||
            (each && is_left_out(s->q, looks, slot)))
            continue;
        for (unsigned k = 0; k < MANY; k++)
            expect_row(img, &e[k], l[0]->pid, read ? l[k]->value : value);
    }
}

static void compare_handed_out(struct expected *e, const enum attr *attrs)
{
    for (unsigned k = 0; k < MANY; k++) {
        struct expected *got = &handed_out[k];
        qsort(e[k].row, e[k].n, sizeof *e[k].row, by_rank);
        qsort(got->row, got->n, sizeof *got->row, by_rank);
        must(got->n == e[k].n, "handed out too many or few:", attrs[k]);
        for (unsigned i = 0; i < got->n; i++)
            must(by_rank(&got->row[i], &e[k].row[i]) == 0, "a wrong row handed out:", attrs[k]);
    }
}

/* The parts of the table together: no process twice, none left out. */
static void check_parts(const struct image *img, const enum attr *attrs, struct expected *e,
                        bool exact)
{
    static struct scan s;
    unsigned parts = 2 + (img->mode >> 4) % 3;
    bool whole = true;
    for (unsigned k = 0; k < MANY; k++)
        handed_out[k].n = 0;
    for (unsigned i = 0; i < parts && !failed; i++) {
        begin_scan(&s, img, attrs, MANY, SCAN_EACH, 0);
        scan_part(&s, i, parts);
        whole = check_result(img, &s, run_scan(img, &s, attrs[0]), attrs[0]) && whole;
        scan_free(&s);
    }
    if (whole && !failed && exact)
        compare_handed_out(e, attrs);
}

static void check_many(const struct image *img, enum attr attr, bool changing)
{
    enum attr attrs[MANY] = {attr, (attr + 1 + (img->mode >> 4)) % ATTR_COUNT, attr};
    static struct sight looks[MANY][SLOTS];
    static struct expected e[MANY];
    static struct scan s;
    bool each = (img->mode & 2) != 0;
    bool some = false;
    fuzz_begin(img, changing, 24ULL * SLOTS * MANY * (MOST_READS + 2));
    bool exact = !changing;
    for (unsigned k = 0; k < MANY; k++)
        look_at_all(img, attrs[k], false, looks[k], &exact);
    begin_scan(&s, img, attrs, MANY, each ? SCAN_EACH : SCAN_TOP, 0);
    for (unsigned slot = 1; (img->mode & 4) != 0 && slot < SLOTS; slot += 2) {
        uint64_t pid = looks[0][slot].pid;
        bool wanted = pid != 0 && scan_only(&s, pid);
        some = some || wanted;
        exact =
            exact && (pid == 0 || (wanted && proctab_slot(img->vm.lay, &img->vm.tab, pid) == slot));
    }
    uint64_t waiting[3];
    must(scan_waiting(&s, img->vm.reader, waiting, 3) <= 3, "more waiting than asked for:", attr);
    for (unsigned k = 0; k < MANY; k++) {
        e[k].n = handed_out[k].n = 0;
        e[k].exact = exact;
    }
    expect_many(img, &s, looks, some, e);
    if (check_result(img, &s, run_scan(img, &s, attr), attr)) {
        for (unsigned k = 0; k < MANY && !each; k++)
            compare_top(&s, &s.top[k], &e[k], attrs[k]);
        if (each && exact)
            compare_handed_out(e, attrs);
    }
    scan_free(&s);
    if (each && !some && !failed)
        check_parts(img, attrs, e, exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image img;
    memory_clear();
    image_build(&img, data, size);
    check_account(&img);
    check_walks(&img, img.attr);
    check_scan(&img, img.attr, false);
    check_many(&img, img.attr, false);
    if (memory_changes() > 0) {
        check_scan(&img, img.attr, true);
        check_many(&img, img.attr, true);
    }
    check_proof(&img);
    check_mark(&img);
    check_looks(&img);
    must(allocated == 0, "memory that nobody freed:", img.attr);
    return 0;
}
