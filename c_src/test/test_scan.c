/* test_scan.c: scans over a model VM in plain memory: windows, second counts, slots that change
 * hands.
 * Knows: the expected rows and their order, and the processes that process_info must answer for.
 * Does not know: a real VM, or how one process is read (test_walk.c). */
#include "test/test_world.h"

/* A sample and a diff report gains, new processes and dead ones. */
static void test_window(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct scan *first = malloc(sizeof *first);
    struct scan *second = malloc(sizeof *second);
    struct answer a;
    if (!first || !second)
        abort();
    char *grown = make_process(w, 5);
    (void)make_process(w, 9);
    start(first, &w->vm, ATTR_reductions, SCAN_SAMPLE, 10, NULL, SLOTS);
    run(first, &w->vm, LONG, &a);
    put(w, grown, LF_reds, 1005 + 77);
    w->table[9] = 0;
    (void)make_process(w, 11);
    start(second, &w->vm, ATTR_reductions, SCAN_DIFF, 10, &first->own, SLOTS);
    run(second, &w->vm, LONG, &a);
    check(a.rows == 3 && a.row[0].value == 1011 && a.row[1].value == 1009 &&
              a.row[1].pid == pid_of(w, 9) && a.row[2].value == 77,
          "a window has gains, the born and the dead", lay->name);
    scan_free(second);
    start(second, &w->vm, ATTR_reductions, SCAN_SAMPLE, 0, NULL, 1);
    run(second, &w->vm, LONG, &a);
    check(a.result == SCAN_FULL, "a sample keeps to its bound", lay->name);
    scan_free(second);
    scan_free(first);
    free(first);
    free(second);
    free_world(w);
}

/* The second count of bin_leak yields in a long chain. Behind it one process is dead, and no
 * process may be forgotten. */
static void test_after(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct answer a;
    struct scan *s = malloc(sizeof *s);
    char *p[4];
    uint64_t count[4] = {0};
    uint64_t bytes = 0;
    if (!s)
        abort();
    for (unsigned i = 0; i < 4; i++) {
        p[i] = make_process(w, 5 + i);
        put(w, p[i], LF_off_heap, make_chain(w, p[i], i == 0 ? 3000 : 9 * i, &count[i], &bytes));
    }
    start(s, &w->vm, ATTR_binary_count, SCAN_HOLDERS, 10, NULL, 100);
    run(s, &w->vm, 0, &a);
    w->table[5 + 2] = 0;
    put(w, p[1], LF_off_heap, 0);
    put(w, p[3], LF_off_heap, 0);
    check(scan_after(s), "the second count follows the first", lay->name);
    run(s, &w->vm, 0, &a);
    check(a.result == SCAN_DONE && a.rows == 4 && a.row[0].value == (int64_t)count[3] &&
              a.row[0].pid == pid_of(w, 8) && a.row[1].value == (int64_t)count[1] &&
              a.row[2].value == 0 && a.row[3].value == 0,
          "the one behind a walk that stopped, and behind a dead one, is counted", lay->name);
    scan_free(s);
    free(s);
    free_world(w);
}

/* In a table of the largest size, a dummy holds the slot of the pid that no process has. */
static void test_nobody(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct answer a;
    uint64_t nobody = ~(uint64_t)0xC;
    (void)make_process(w, 3);
    put(w, make_process(w, SLOTS - 1), LF_id, nobody);
    ask(w, ATTR_heap_size, LONG, &a);
    check(a.rows == 1 && a.row[0].pid == pid_of(w, 3), "nobody has no row", lay->name);
    if (lay->pid_slot_high)
        put(w, make_process(w, 0), LF_id, nobody & 0xFFFFFFFF);
    ask(w, ATTR_heap_size, LONG, &a);
    check(a.rows == 1 && a.row[0].pid == pid_of(w, 3), "nobody has no row in slot 0", lay->name);
    free_world(w);
}

/* A scan also yields in a long stretch of empty slots, or of dead processes in a list. */
static void test_stretches(const struct layout *lay)
{
    enum { LARGE = 1 << 19, DEAD = 900, ROWS = 2000 };
    struct world *w = new_world(lay);
    struct answer a;
    struct scan *s = malloc(sizeof *s);
    uint64_t *table = calloc(LARGE, sizeof *table);
    uint64_t count = 0;
    uint64_t bytes = 0;
    if (!s || !table)
        abort();
    char *p = make_process(w, 1);
    uint64_t pid = lay->pid_slot_high ? (uint64_t)(LARGE - 1) << 32 | 3 : (LARGE - 1) << 4 | 3;
    put(w, p, LF_id, pid);
    table[LARGE - 1] = address(p);
    struct vm vm = w->vm;
    vm.tab = (struct proctab){.tab = address(table), .max = LARGE};
    start(s, &vm, ATTR_reductions, SCAN_TOP, 1, NULL, 0);
    run(s, &vm, 0, &a);
    check(a.rows == 1 && a.row[0].pid == pid && a.slices > 3, "the last slot of an empty table",
          lay->name);
    scan_free(s);

    w->table[1] = 0;
    p = make_process(w, 0);
    put(w, p, LF_off_heap, make_chain(w, p, 3, &count, &bytes));
    start(s, &w->vm, ATTR_binary_count, SCAN_ALL, ROWS, NULL, ROWS);
    run(s, &w->vm, LONG, &a);
    for (unsigned i = 1; i <= DEAD; i++)
        check(sample_add(&s->own, pid_of(w, i), 5, 0) == ST_OK, "remembered", lay->name);
    (void)make_process(w, DEAD);
    check(scan_after(s), "the second count follows the first", lay->name);
    run(s, &w->vm, 0, &a);
    check(a.rows == 1 + DEAD && a.row[0].value == 5 && a.row[0].pid == pid_of(w, DEAD) &&
              a.row[1].value == 0 && a.slices > 2,
          "the one behind many dead ones is counted", lay->name);
    scan_free(s);
    free(s);
    free(table);
    free_world(w);
}

/* A process in the slot of a dead one is neither read nor asked in its place. */
static void test_newcomer(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct answer a;
    struct scan *s = malloc(sizeof *s);
    uint64_t count = 0;
    uint64_t bytes = 0;
    if (!s)
        abort();
    char *p = make_process(w, 9);
    put(w, p, LF_off_heap, make_chain(w, p, 3, &count, &bytes));
    start(s, &w->vm, ATTR_binary_count, SCAN_HOLDERS, 10, NULL, 10);
    run(s, &w->vm, LONG, &a);
    uint64_t other =
        lay->pid_slot_high ? pid_of(w, 9) + (1 << 20) : pid_of(w, 9) + ((uint64_t)SLOTS << 4);
    p = make_process(w, 9);
    put(w, p, LF_id, other);
    put(w, p, LF_state, 0x2A | STATE_RUNNING);
    check(scan_after(s), "the second count follows the first", lay->name);
    run(s, &w->vm, LONG, &a);
    check(a.asked == 0 && a.rows == 1 && a.row[0].pid == pid_of(w, 9) && a.row[0].value == 0,
          "a newcomer in a dead one's slot is not asked", lay->name);
    scan_free(s);
    start(s, &w->vm, ATTR_binary_count, SCAN_HOLDERS, 10, NULL, 10);
    run(s, &w->vm, LONG, &a);
    check(a.asked == 1, "one that runs is asked", lay->name);
    struct entry *e = sample_find(&s->own, other);
    check(e != NULL, "one that is asked is remembered", lay->name);
    if (e)
        e->key |= SAMPLE_SKIP;
    check(scan_after(s), "the second count follows the first", lay->name);
    run(s, &w->vm, LONG, &a);
    check(a.asked == 0 && a.rows == 0, "one that never answered is not asked again", lay->name);
    scan_free(s);
    free(s);
    free_world(w);
}

/* From OTP 26 on, successive numbers go to slots 0 8 16 ... 1016, 1 9 17 ...: a cache line
 * apart. */
static void test_order(const struct layout *lay)
{
    struct world *w = new_world(lay);
    bool ascending = true;
    uint64_t number = 0;
    for (uint64_t round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < SLOTS; i++, number++) {
            uint64_t slot = lay->pid_slot_high ? i : i % (SLOTS / 8) * 8 + i / (SLOTS / 8);
            uint64_t pid =
                lay->pid_slot_high ? slot << 32 | number << 4 | 3 : (round * SLOTS + slot) << 4 | 3;
            ascending = ascending && proctab_slot(lay, &w->vm.tab, pid) == slot &&
                        proctab_order(lay, &w->vm.tab, pid) == number;
        }
    }
    check(ascending, "pids come in the order of their numbers", lay->name);
    free_world(w);
}

/* Runs a scan that loses its reader after `steps` steps. Returns how many processes have an answer
 * or are to be asked; -1: the scan reports the loss. */
static int answered(const struct world *w, unsigned steps)
{
    struct scan *s = malloc(sizeof *s);
    enum scan_result r = SCAN_MORE;
    size_t asked = 0;
    if (!s)
        abort();
    start(s, &w->vm, ATTR_binary_count, SCAN_TOP, SLOTS, NULL, SLOTS);
    for (unsigned i = 0; r == SCAN_MORE || r == SCAN_ASK; i++) {
        r = scan_step(s, i < steps ? w->vm.reader : PEEK_NONE, NOTHING);
        if (r == SCAN_ASK) {
            asked += s->ask_n;
            scan_asked(s);
        }
    }
    size_t rows = s->top->n;
    scan_free(s);
    free(s);
    return r == SCAN_DONE ? (int)(rows + asked) : -1;
}

static void test_reader_lost(const struct layout *lay)
{
    enum { MANY = 50, RUN = 20 };
    struct world *w = new_world(lay);
    int n = -1;
    for (unsigned i = 0; i < MANY; i++)
        put(w, make_process(w, i + 1), LF_state, i < RUN ? 0x2A | STATE_RUNNING : 0x2A);
    check(answered(w, 0) == -1, "no answer without a reader", lay->name);
    for (unsigned steps = 1; n == -1 && steps < 1000; steps++)
        n = answered(w, steps);
    check(n == MANY, "a scan that loses the reader loses no process", lay->name);
    free_world(w);
}

/* Takes all rows that a scan hands out. Returns their number, and adds up their values in *sum. */
static size_t take_all(struct scan *s, const struct vm *vm, unsigned *asked, int64_t *sum)
{
    size_t rows = 0;
    enum scan_result r = SCAN_MORE;
    for (unsigned n = 0; r != SCAN_DONE && n < 100000; n++) {
        r = scan_step(s, vm->reader, NOTHING);
        for (unsigned i = 0; r == SCAN_ROWS && i < s->out_n; i += 1 + s->qn) {
            rows++;
            for (unsigned k = 1; k <= s->qn; k++)
                *sum += s->out[i + k];
        }
        if (r == SCAN_ROWS)
            scan_taken(s);
        if (r == SCAN_ASK) {
            *asked += s->ask_n;
            scan_asked(s);
        }
    }
    return rows;
}

/* Several questions in one sweep have the answers that each has alone. A process that cannot be
 * read is asked once for all of them. A scan can cover some processes only. */
static void test_questions(const struct layout *lay)
{
    enum { MANY = 40, RUN = 20, WANTED = 7 };
    static const enum attr all[] = {
#define X(Name) ATTR_##Name,
        ATTR_LIST(X)
#undef X
    };
    static const enum attr wastes[WASTE_TOGETHER] = {ATTR_garbage_bytes, ATTR_bin_garbage,
                                                     ATTR_bin_garbage_bytes, ATTR_bin_waste};
    struct world *w = new_world(lay);
    struct answer a;
    struct scan *s = malloc(sizeof *s);
    bool same = true;
    uint64_t count = 0;
    uint64_t bytes = 0;
    int64_t sum = 0;
    uint64_t pids[3];
    int64_t expected = 0;
    unsigned asked = 0;
    if (!s)
        abort();
    for (unsigned i = 0; i < MANY; i++) {
        char *p = make_process(w, i + 1);
        put(w, p, LF_off_heap, make_chain(w, p, i % 9, &count, &bytes));
    }
    scan_init(s, &w->vm, all, SCAN_QUESTIONS, SCAN_TOP, 20, NULL, 0);
    run(s, &w->vm, NOTHING, &a);
    for (unsigned k = 0; k < SCAN_QUESTIONS; k++) {
        ask(w, all[k], LONG, &a);
        same = same && s->top[k].n == 20 && memcmp(s->top[k].rows, a.row, 20 * sizeof *a.row) == 0;
        for (size_t i = 0; i < a.rows; i++)
            expected += a.row[i].value;
    }
    check(same && s->counters.native == MANY, "every question has the rows it has alone",
          lay->name);
    scan_free(s);

    scan_init(s, &w->vm, all, SCAN_QUESTIONS, SCAN_EACH, 0, NULL, 0);
    check(take_all(s, &w->vm, &asked, &sum) == MANY && asked == 0 && sum == expected,
          "each process' values are handed out once", lay->name);
    scan_free(s);

    unsigned rooms = 0;
    scan_init(s, &w->vm, wastes, WASTE_TOGETHER, SCAN_EACH, 0, NULL, 0);
    (void)take_all(s, &w->vm, &asked, &sum);
    for (unsigned i = 0; i < SCAN_WALKS; i++)
        rooms += s->walks[i].room != NULL;
    check(rooms > 0 && rooms <= s->per, "a heap is marked once for all questions", lay->name);
    scan_free(s);

    for (unsigned i = 0; i < RUN; i++)
        put(w, (char *)w->table[i + 1], LF_state, 0x2A | STATE_RUNNING); // NOLINT
    scan_init(s, &w->vm, all, SCAN_QUESTIONS, SCAN_EACH, 0, NULL, 0);
    check(take_all(s, &w->vm, &asked, &sum) == MANY - RUN && asked == RUN,
          "one that runs is asked once, and has no row", lay->name);
    scan_free(s);

    asked = 0;
    scan_init(s, &w->vm, all, 2, SCAN_EACH, 0, NULL, 0);
    for (unsigned i = 0; i < WANTED; i++)
        (void)scan_only(s, pid_of(w, RUN - 3 + i));
    check(take_all(s, &w->vm, &asked, &sum) == WANTED - 4 && asked == 4, "only what is wanted",
          lay->name);
    scan_free(s);

    asked = 0;
    scan_init(s, &w->vm, all, 1, SCAN_EACH, 0, NULL, 0);
    (void)scan_only(s, pid_of(w, RUN));
    (void)scan_only(s, pid_of(w, RUN + 1));
    scan_patience(s, 5000000);
    check(take_all(s, &w->vm, &asked, &sum) == 1 && asked == 1 && s->round > 4,
          "one that runs is looked at again and again, others are read", lay->name);
    check(!s->ask_large[0] && scan_waiting(s, w->vm.reader, pids, 3) == 0,
          "when it is done, nobody waits", lay->name);
    scan_free(s);

    scan_init(s, &w->vm, all, 1, SCAN_TOP, 1, NULL, 0);
    check(scan_waiting(s, w->vm.reader, pids, 3) == 3 && pids[0] == pid_of(w, 1) &&
              pids[2] == pid_of(w, 3),
          "before it began, all wait", lay->name);
    scan_free(s);
    free(s);
    free_world(w);
}

/* Each process is in one part; a window's second look at a part covers the same processes as its
 * first. */
static void test_parts(const struct layout *lay)
{
    enum { MANY = 40 };
    struct world *w = new_world(lay);
    struct scan *s = malloc(2 * sizeof *s);
    const enum attr attr = ATTR_reductions;
    struct answer a;
    bool right = true;
    if (!s)
        abort();
    for (unsigned i = 0; i < MANY; i++)
        put(w, make_process(w, i + 1), LF_reds, 100 + i);
    for (unsigned parts = 1; parts <= 64; parts = parts * 2 + parts % 3) {
        size_t rows = 0;
        unsigned asked = 0;
        int64_t sum = 0;
        for (unsigned i = 0; i < parts; i++) {
            scan_init(s, &w->vm, &attr, 1, SCAN_EACH, 0, NULL, 0);
            right = right && scan_is_new(s);
            scan_part(s, i, parts);
            rows += take_all(s, &w->vm, &asked, &sum);
            scan_free(s);
        }
        right = right && rows == MANY && asked == 0 && sum == MANY * 100 + MANY * (MANY - 1) / 2;
    }
    check(right, "each process is in one part of the table", lay->name);
    for (unsigned i = 0; i < 3; i++) {
        scan_init(&s[0], &w->vm, &attr, 1, SCAN_SAMPLE, MANY, NULL, MANY);
        scan_part(&s[0], i, 3);
        run(&s[0], &w->vm, LONG, &a);
        scan_init(&s[1], &w->vm, &attr, 1, SCAN_DIFF, MANY, &s[0].own, 0);
        scan_part(&s[1], i, 3);
        run(&s[1], &w->vm, LONG, &a);
        right = right && a.rows == s[0].own.n;
        for (size_t k = 0; k < a.rows; k++)
            right = right && a.row[k].value == 0;
        scan_free(&s[1]);
        scan_free(&s[0]);
    }
    check(right, "the second look at a part is of the same processes", lay->name);
    free(s);
    free_world(w);
}

/* What the last process holds does not fit any more, and to free its own list takes many steps. */
static void test_account_is_full(const struct layout *lay, bool keeps)
{
    enum { ENTRIES = 6600, BINARIES = ENTRIES * 2 / 3 };
    struct world *w = new_world(lay);
    struct scan *s = malloc(sizeof *s);
    struct account *a = malloc(sizeof *a);
    const enum attr attr = ATTR_binary_unique;
    uint64_t count = 0;
    uint64_t bytes = 0;
    char *p = make_process(w, 3);
    if (!s || !a)
        abort();
    put(w, p, LF_off_heap, make_chain(w, p, ENTRIES, &count, &bytes));
    for (unsigned room = 0; room < 2; room++) {
        enum scan_result r = SCAN_MORE;
        account_init(a, lay, &w->vm.tab, BINARIES - 1 + room, false, keeps);
        scan_init(s, &w->vm, &attr, 1, SCAN_ACCOUNT, 0, NULL, 0);
        scan_account(s, a);
        while (r == SCAN_MORE)
            r = scan_step(s, w->vm.reader, NOTHING);
        check(r == (keeps && room == 0 ? SCAN_FULL : SCAN_DONE), "an account is full, or is not",
              lay->name);
        check((a->all.level > 0) == (!keeps && room == 0), "a sample, or none", lay->name);
        scan_free(s);
        account_free(a);
    }
    free(a);
    free(s);
    free_world(w);
}

/* The counts of a table of which the first `n' slots are in use. */
enum { RECORD_WORDS = 8, COUNT_WORD = 1 };

static void set_turnover(uint64_t *record, uint32_t count, uint32_t given)
{
    record[COUNT_WORD] = count | (uint64_t)given << 32;
}

/* A sweep ends where it met as many processes as there were, if none was started since. */
static void test_all_were_met(const struct layout *lay)
{
    enum { N = 40, FEW = 20 };
    struct world *w = new_world(lay);
    struct scan *s = malloc(sizeof *s);
    uint64_t record[RECORD_WORDS] = {0};
    struct answer a;
    if (!s)
        abort();
    for (unsigned i = 0; i < N; i++)
        (void)make_process(w, i);
    (void)make_process(w, SLOTS - 1);
    w->vm.tab.record = address(record + RECORD_WORDS);
    set_turnover(record, FEW, 7);
    ask(w, ATTR_heap_size, LONG, &a);
    check(a.rows == N + 1, "counts that are not proved do not count", lay->name);
    w->vm.tab.has_turnover = true;
    ask(w, ATTR_heap_size, LONG, &a);
    check(a.rows == FEW, "the rest of the table is not read", lay->name);
    set_turnover(record, N + 2, 7);
    ask(w, ATTR_heap_size, LONG, &a);
    check(a.rows == N + 1, "one of them exited since: all are read", lay->name);

    set_turnover(record, N, 7);
    start(s, &w->vm, ATTR_heap_size, SCAN_TOP, SLOTS, NULL, SLOTS);
    check(scan_step(s, w->vm.reader, 0) == SCAN_MORE, "a slice", lay->name);
    set_turnover(record, N, 8);
    run(s, &w->vm, 0, &a);
    check(a.rows == N + 1, "one of them may be new: all are read", lay->name);
    scan_free(s);

    set_turnover(record, N, 0);
    start(s, &w->vm, ATTR_heap_size, SCAN_TOP, SLOTS, NULL, SLOTS);
    scan_part(s, 1, 2);
    run(s, &w->vm, 0, &a);
    check(a.rows == 1, "a part does not know the others", lay->name);
    scan_free(s);
    free(s);
    free_world(w);
}

/* The first step on a normal scheduler never pauses, and is for light scans only. */
static void test_begin(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct scan *s = malloc(sizeof *s);
    if (!s)
        abort();
    put(w, make_process(w, 1), LF_state, 0x8000);
    (void)make_process(w, 2);
    start(s, &w->vm, ATTR_stack_size, SCAN_TOP, SLOTS, NULL, SLOTS);
    check(scan_begin(s, PEEK_SYSCALL, LONG) == SCAN_MORE && scan_is_new(s),
          "the slower reader does not begin", lay->name);
    check(scan_begin(s, w->vm.reader, LONG) == SCAN_MORE && s->round == 1 && s->retry_n == 1,
          "a second look is for a longer step", lay->name);
    check(scan_begin(s, w->vm.reader, LONG) == SCAN_MORE && s->round == 1, "begun once", lay->name);
    check(scan_step(s, w->vm.reader, LONG) == SCAN_ASK, "the longer step goes on", lay->name);
    scan_free(s);

    w->table[1] = 0;
    start(s, &w->vm, ATTR_stack_size, SCAN_TOP, SLOTS, NULL, SLOTS);
    check(scan_begin(s, w->vm.reader, LONG) == SCAN_DONE && s->top->n == 1, "done at once",
          lay->name);
    scan_free(s);
    start(s, &w->vm, ATTR_flat_size, SCAN_TOP, SLOTS, NULL, SLOTS);
    check(scan_begin(s, w->vm.reader, LONG) == SCAN_MORE && scan_is_new(s), "no heap is marked",
          lay->name);
    scan_free(s);
    start(s, &w->vm, ATTR_stack_size, SCAN_TOP, SLOTS, NULL, SLOTS);
    scan_part(s, 0, 2);
    check(scan_begin(s, w->vm.reader, LONG) == SCAN_MORE && scan_is_new(s), "no part begins",
          lay->name);
    scan_free(s);
    free(s);
    free_world(w);
}

/* An allocation fails while its process changes: the walk is torn, and tried again. */
static struct world *changing_world;

static void run_for_a_moment(void)
{
    char *p = (char *)changing_world->table[1]; // NOLINT
    put(changing_world, p, LF_reds, get(changing_world, p, LF_reds) + 1);
}

static void test_refused(const struct layout *lay)
{
    static const enum attr attrs[] = {ATTR_garbage_bytes, ATTR_flat_size, ATTR_binary_exclusive};
    struct world *w = new_world(lay);
    struct scan *s = malloc(sizeof *s);
    struct answer a;
    uint64_t count = 0;
    uint64_t bytes = 0;
    char *p = make_process(w, 1);
    if (!s)
        abort();
    put(w, p, LF_off_heap, make_chain(w, p, 90, &count, &bytes));
    changing_world = w;
    for (unsigned k = 0; k < sizeof attrs / sizeof *attrs; k++) {
        start(s, &w->vm, attrs[k], SCAN_TOP, 10, NULL, 0);
        fail_at = 1;
        run(s, &w->vm, LONG, &a);
        check(a.result == SCAN_NOMEM, "no memory is an answer", lay->name);
        scan_free(s);
        start(s, &w->vm, attrs[k], SCAN_TOP, 10, NULL, 0);
        fail_at = 1;
        on_failure = run_for_a_moment;
        run(s, &w->vm, LONG, &a);
        on_failure = NULL;
        check(a.result == SCAN_DONE && a.rows == 1 && s->counters.torn == 1,
              "but a process that ran meanwhile is read again", lay->name);
        scan_free(s);
    }
    free(s);
    free_world(w);
}

/* The N largest rows, compared with sorting all. */
static int by_rank(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return (x->order < y->order) - (x->order > y->order);
}

static void test_top(void)
{
    struct row all[500];
    struct budget b = BUDGET(UINT32_MAX);
    bool same = true;
    unsigned seed = 1;
    for (size_t limit = 0; limit <= 501; limit += 1 + limit / 3) {
        struct top_n t;
        top_n_init(&t, limit);
        for (unsigned i = 0; i < 500; i++) {
            seed = seed * 1103515245 + 12345;
            all[i] = (struct row){(int64_t)(seed >> 20) % 50 - 25, i * 7919 % 500, i};
            same = same && top_n_push(&t, &all[i]);
        }
        same = same && top_n_sort(&t, &b);
        qsort(all, 500, sizeof *all, by_rank);
        same = same && t.n == (limit < 500 ? limit : 500) &&
               (t.n == 0 || memcmp(all, t.rows, t.n * sizeof *all) == 0);
        top_n_free(&t);
    }
    check(same, "top is sort and take", "any");
}

int main(void)
{
    test_top();
    for (unsigned i = 0; i < layout_count(); i++) {
        const struct layout *lay = layout_table(i);
        test_window(lay);
        test_after(lay);
        test_nobody(lay);
        test_stretches(lay);
        test_newcomer(lay);
        test_order(lay);
        test_reader_lost(lay);
        test_questions(lay);
        test_parts(lay);
        test_all_were_met(lay);
        test_begin(lay);
        test_refused(lay);
        test_account_is_full(lay, true);
        test_account_is_full(lay, false);
    }
    return outcome();
}
