/* fuzz_scan.c: runs whole scans over model processes, and compares their rows with the model.
 * Knows: that no process is lost or has two rows, in which order rows come, and what a second look compares.
 * Does not know: how one process is read. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

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
        uint64_t proc = fuzz_word(img->vm.tab.tab + 8 * slot);
        *l = (struct sight){0};
        if (proc == 0)
            continue;
        enum opened opened = model_open(&img->vm, attr, waiting, slot, proc);
        if (opened == OPEN_NOBODY)
            continue;
        l->pid = fuzz_word(proc);
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
        fuzz_must(by_rank(&top->rows[i - 1], &top->rows[i]) <= 0, "rows out of order:", attr);
    fuzz_must(top->n <= top->limit, "more rows than wanted:", attr);
    if (!e->exact)
        return;
    qsort(e->row, e->n, sizeof *e->row, by_rank);
    fuzz_must(top->n == (e->n < top->limit ? e->n : top->limit), "rows too many or few:", attr);
    for (size_t i = 0; i < top->n; i++) {
        struct row *r = &top->rows[i];
        fuzz_must(by_rank(r, &e->row[i]) == 0, "a wrong row:", attr);
        fuzz_must(r->order == proctab_order(s->vm.lay, &s->vm.tab, r->pid), "a wrong pid:", attr);
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
    fuzz_must(s->out_n <= SCAN_OUT && s->out_n % (1 + s->qn) == 0, "half a row:", attr);
    for (unsigned i = 0; i < s->out_n; i += 1 + s->qn) {
        for (unsigned k = 0; k < s->qn; k++) {
            fuzz_must(handed_out[k].n < 2 * SLOTS, "too many rows:", attr);
            expect_row(img, &handed_out[k], (uint64_t)s->out[i], s->out[i + 1 + k]);
        }
    }
    scan_taken(s);
}

/* Before the scan: changes of the memory, and whether an allocation failed. */
static unsigned changed_before;
static bool failed_before;

static enum scan_result run_scan(const struct image *img, struct scan *s, enum attr attr)
{
    const uint64_t forever = UINT64_MAX / 4;
    changed_before = memory_changed();
    failed_before = fuzz_failed();
    enum scan_result r = SCAN_MORE;
    for (unsigned i = 0; r == SCAN_MORE || r == SCAN_ASK || r == SCAN_ROWS; i++) {
        fuzz_must(i < 100000, "a scan that does not end:", attr);
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

static void begin_scan(struct scan *s, const struct image *img, const enum attr *attrs, unsigned n,
                       enum scan_mode mode, size_t remembered)
{
    scan_init(s, &img->vm, attrs, n, mode, img->rows, NULL, remembered);
    s->places = fuzz_place;
}

static bool readable_table(const struct image *img)
{
    return memory_at(img->vm.tab.tab + (SLOTS - 1) * 8ULL) != NULL;
}

/* true: the scan completed. */
static bool check_result(const struct image *img, const struct scan *s, enum scan_result r,
                         enum attr attr)
{
    /* a process that ran meanwhile is read again */
    bool without = failed_before || memory_changed() > changed_before;
    for (unsigned k = 0; k < s->qn; k++)
        without = without || fuzz_is_waste(s->q[k].attr);
    fuzz_must(r == SCAN_NOMEM ? fuzz_failed() : !fuzz_failed() || without || r != SCAN_DONE,
              "an allocation failed:", attr);
    fuzz_must((r == SCAN_LOST) <= !readable_table(img), "a table is lost that is there:", attr);
    fuzz_must(r != SCAN_FULL || img->remembered < SLOTS || s->stacks.n == s->stacks.cap,
              "full, and has room:", attr);
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
        diff.places = fuzz_place;
        if (check_result(img, &diff, run_scan(img, &diff, attr), attr))
            compare_rows(&diff, e, attr);
        scan_free(&diff);
    } else {
        fuzz_must(scan_after(s), "no second count after the first:", attr);
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
    fuzz_must(s.own.n <= img->remembered, "more remembered than allowed:", attr);
    if (whole) {
        if (!waiting)
            compare_rows(&s, &e, attr);
        if (mode != SCAN_TOP)
            check_second(img, &s, attr, mode, first, &e);
    }
    scan_free(&s);
}

/* Each process that can be read counts once. */
static void check_stacks(const struct image *img, bool changing)
{
    static const enum attr attr = ATTR_stack;
    static struct scan s;
    struct sight looks[SLOTS];
    bool exact = !changing;
    uint64_t wanted = 0;
    uint64_t counted = 0;
    fuzz_begin(img, changing, SLOTS * 12ULL * (MOST_READS + 2));
    look_at_all(img, attr, false, looks, &exact);
    for (unsigned i = 0; i < SLOTS; i++)
        wanted += looks[i].read;
    begin_scan(&s, img, &attr, 1, SCAN_STACKS, 0);
    bool whole = check_result(img, &s, run_scan(img, &s, attr), attr);
    for (size_t i = 1; i < s.stacks.n; i++) {
        const struct stack_node *node = &s.stacks.nodes[i];
        fuzz_must(node->parent < i, "a call that leads back to itself:", attr);
        counted += node->count;
    }
    fuzz_must(!whole || !exact || counted == wanted, "processes that do not count:", attr);
    fuzz_must(counted == s.answered || !whole, "not each that was read counts:", attr);
    scan_free(&s);
}

/* How many processes of the model have this key, and the sum of their values. */
static unsigned count_origin(const struct image *img, const struct sight origins[SLOTS],
                             const struct sight looks[SLOTS], const struct origin *key,
                             uint64_t *sum)
{
    unsigned n = 0;
    *sum = 0;
    for (size_t slot = 0; slot < SLOTS; slot++) {
        struct origin other;
        if (!origins[slot].read || !looks[slot].read)
            continue;
        (void)model_origin(&img->vm, fuzz_word(img->vm.tab.tab + 8 * slot), &other);
        if (memcmp(&other, key, sizeof other) != 0)
            continue;
        n++;
        *sum += (uint64_t)looks[slot].value;
    }
    return n;
}

/* Each process that can be read is in one group, that of its own key, with its value. */
static void check_groups(const struct image *img, enum attr attr, bool changing)
{
    const enum attr attrs[] = {attr, ATTR_origin};
    static struct scan s;
    struct sight origins[SLOTS];
    struct sight looks[SLOTS];
    bool exact = !changing;
    uint64_t counted = 0;
    fuzz_begin(img, changing, SLOTS * 24ULL * (MOST_READS + 2));
    look_at_all(img, ATTR_origin, false, origins, &exact);
    look_at_all(img, attr, false, looks, &exact);
    begin_scan(&s, img, attrs, 2, SCAN_GROUPS, 0);
    bool whole = check_result(img, &s, run_scan(img, &s, attr), attr);
    for (size_t i = 1; i < s.stacks.n; i++) {
        struct origin key;
        uint64_t sum;
        counted += s.stacks.nodes[i].count;
        if (s.stacks.nodes[i].count == 0 || !whole || !exact)
            continue;
        (void)stack_tree_frames(&s.stacks, i, key.word, ORIGIN_WORDS);
        fuzz_must(count_origin(img, origins, looks, &key, &sum) == s.stacks.nodes[i].count,
                  "another number of processes in a group:", attr);
        fuzz_must((uint64_t)s.stacks.sums[i] == sum, "another total of a group:", attr);
    }
    for (unsigned i = 0; i < SLOTS && whole && exact; i++)
        counted -= origins[i].read && looks[i].read;
    fuzz_must(!whole || counted == (exact ? 0 : s.answered), "processes in no group:", attr);
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
        fuzz_must(got->n == e[k].n, "handed out too many or few:", attrs[k]);
        for (unsigned i = 0; i < got->n; i++)
            fuzz_must(by_rank(&got->row[i], &e[k].row[i]) == 0,
                      "a wrong row handed out:", attrs[k]);
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
    for (unsigned i = 0; i < parts && !fuzz_failed(); i++) {
        begin_scan(&s, img, attrs, MANY, SCAN_EACH, 0);
        scan_part(&s, i, parts);
        whole = check_result(img, &s, run_scan(img, &s, attrs[0]), attrs[0]) && whole;
        scan_free(&s);
    }
    if (whole && !fuzz_failed() && exact)
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
    fuzz_must(scan_waiting(&s, img->vm.reader, waiting, 3) <= 3,
              "more waiting than asked for:", attr);
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
    if (each && !some && !fuzz_failed())
        check_parts(img, attrs, e, exact);
}

void check_scans(const struct image *img)
{
    check_scan(img, img->attr, false);
    check_many(img, img->attr, false);
    if (img->attr == ATTR_stack)
        check_stacks(img, false);
    if (img->attr != ATTR_origin)
        check_groups(img, img->attr, false);
    if (memory_changes() == 0)
        return;
    check_scan(img, img->attr, true);
    check_many(img, img->attr, true);
    if (img->attr == ATTR_stack)
        check_stacks(img, true);
    if (img->attr != ATTR_origin)
        check_groups(img, img->attr, true);
}
