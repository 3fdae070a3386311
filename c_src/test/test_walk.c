/* test_walk.c: the walkers over a model VM in plain memory: lists, queues and trees, intact or
 * hostile.
 * Knows: the value of each attribute for a process that it built.
 * Does not know: a real VM, or the modes of a scan (test_scan.c). */
#include "test/test_world.h"

/* The answer does not depend on where the slices cut a walk. */
static void test_slices(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct answer whole;
    struct answer cut;
    uint64_t count = 0;
    uint64_t bytes = 0;
    char *p = make_process(w, 7);
    (void)make_process(w, 3);
    put(w, p, LF_off_heap, make_chain(w, p, 5000, &count, &bytes));
    ask(w, ATTR_binary_memory, LONG, &whole);
    ask(w, ATTR_binary_memory, NOTHING, &cut);
    check(whole.result == SCAN_DONE && whole.rows == 2 && whole.row[0].value == (int64_t)bytes &&
              whole.row[0].pid == pid_of(w, 7) && whole.row[1].value == 0,
          "bytes of a long chain in one slice", lay->name);
    check(cut.slices > 8 && cut.rows == 2 && cut.row[0].value == (int64_t)bytes,
          "the same bytes in many slices", lay->name);
    ask(w, ATTR_binary_count, NOTHING, &cut);
    check(cut.row[0].value == (int64_t)count, "count of a long chain in many slices", lay->name);
    free_world(w);
}

/* Writable binaries count in releases whose process_info lists them. In all releases a process that
 * holds one is collected. */
static void test_writable(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct answer a;
    uint64_t listed = 0;
    uint64_t bytes = 0;
    char *p = make_process(w, 7);
    put(w, p, LF_wrt_bins, make_chain(w, p, 10, &listed, &bytes));
    ask(w, ATTR_binary_count, LONG, &a);
    check(a.row[0].value == (lay->wrt_bins_listed ? (int64_t)listed : 0), "writable binaries",
          lay->name);
    struct scan *s = malloc(sizeof *s);
    if (!s)
        abort();
    (void)make_process(w, 8);
    start(s, &w->vm, ATTR_binary_count, SCAN_HOLDERS, 10, NULL, SLOTS);
    run(s, &w->vm, LONG, &a);
    check(s->sample->n == 1 && s->left == 1, "who holds a writable binary is collected", lay->name);
    scan_free(s);
    free(s);
    free_world(w);
}

/* A chain that leads out of the process's own blocks is not followed. */
static void test_hostile_chains(const struct layout *lay)
{
    static const uint64_t wild[] = {8, 0x7, 0xFFFFFFFFFFFFFFF8, 0x8DEFFACD, 0x100000000000};
    struct answer a;
    for (unsigned i = 0; i <= sizeof wild / sizeof *wild; i++) {
        struct world *w = new_world(lay);
        uint64_t count = 0;
        uint64_t bytes = 0;
        char *p = make_process(w, 7);
        uint64_t head = make_chain(w, p, 100, &count, &bytes);
        uint64_t next = i < sizeof wild / sizeof *wild ? wild[i] : head; /* the last is a cycle */
        memcpy((void *)(uintptr_t)(head + 16), &next, 8);                // NOLINT
        put(w, p, LF_off_heap, head);
        ask(w, ATTR_binary_memory, LONG, &a);
        check(a.result == SCAN_DONE && a.rows == 0 && a.asked == 1, "a chain gone wild is asked",
              lay->name);
        free_world(w);
    }
}

/* Heap pointers that were read while they moved: one block ends below its start, and the walk still
 * ends although the other holds a cycle. */
static void test_heap_upside_down(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct answer a;
    uint64_t count = 0;
    uint64_t bytes = 0;
    char *p = make_process(w, 7);
    uint64_t first = get(w, p, LF_heap);
    uint64_t head = make_chain(w, p, 100, &count, &bytes);
    memcpy((void *)(uintptr_t)(first + 16), &head, 8); // NOLINT
    put(w, p, LF_off_heap, head);
    put(w, p, LF_old_heap, first);
    put(w, p, LF_old_htop, get(w, p, LF_htop));
    put(w, p, LF_heap, get(w, p, LF_htop) + 800);
    ask(w, ATTR_binary_count, NOTHING, &a);
    check(a.result == SCAN_DONE && a.rows == 0 && a.asked == 1, "a heap upside down is asked",
          lay->name);
    free_world(w);
}

/* Values that no process has: sums may wrap and are discarded; the sanitizer checks that nothing is
 * undefined. */
static void test_nonsense(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct scan *first = malloc(sizeof *first);
    struct scan *second = malloc(sizeof *second);
    struct answer a;
    char *p = make_process(w, 7);
    if (!first || !second)
        abort();
    put(w, p, LF_mbuf_sz, UINT64_MAX / 2);
    ask(w, ATTR_memory, LONG, &a);
    check(a.result == SCAN_DONE && a.rows == 1, "memory of nonsense", lay->name);
    ask(w, ATTR_total_heap_size, LONG, &a);
    check(a.result == SCAN_DONE && a.rows == 1, "heap size of nonsense", lay->name);
    put(w, p, LF_reds, (uint64_t)1 << 63);
    start(first, &w->vm, ATTR_reductions, SCAN_SAMPLE, 10, NULL, SLOTS);
    run(first, &w->vm, LONG, &a);
    put(w, p, LF_reds, 1);
    start(second, &w->vm, ATTR_reductions, SCAN_DIFF, 10, &first->own, SLOTS);
    run(second, &w->vm, LONG, &a);
    check(a.rows == 1 && a.row[0].value == 1 + INT64_MIN, "a difference of nonsense", lay->name);
    scan_free(second);
    scan_free(first);
    free(second);
    free(first);
    free_world(w);
}

static char *make_message(struct world *w, uint64_t tag, unsigned attached_words)
{
    char *m = make(w, LF(w->vm.lay, msg_size));
    put(w, m, LF_msg_tag, tag);
    if (attached_words > 0) {
        char *frag = make(w, 64);
        put(w, frag, LF_frag_used, attached_words);
        put(w, m, LF_msg_attached, address(frag));
    }
    return m;
}

/* Messages in both queues, and a receive marker, count as process_info counts memory. */
static void test_queue(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct answer whole;
    struct answer cut;
    char *p = make_process(w, 7);
    uint64_t inner = 0;
    uint64_t outer = 0;
    for (unsigned i = 0; i < 3000; i++) {
        char *m = make_message(w, i == 5 ? 0x30 | SIGNAL_RECV_MARK << 6 : 0x1F, i % 4);
        put(w, m, LF_msg_next, inner);
        inner = address(m);
        m = make_message(w, 0x1F, i % 2);
        put(w, m, LF_msg_next, outer);
        outer = address(m);
    }
    put(w, p, LF_sig_first, inner);
    put(w, p, LF_inq_first, outer);
    put(w, p, LF_sig_len, 2999);
    put(w, p, LF_inq_len, 3000);
    uint64_t words = HEAP_WORDS + 750 * 6 - 1 + 1500;
    uint64_t bytes = LF(lay, proc_size) + 5999 * LF(lay, msg_size) + LF(lay, marker_size);
    ask(w, ATTR_memory, LONG, &whole);
    ask(w, ATTR_memory, NOTHING, &cut);
    check(whole.row[0].value == (int64_t)(bytes + 8 * words), "memory with messages", lay->name);
    check(cut.row[0].value == whole.row[0].value && cut.slices > 5,
          "memory with messages in slices", lay->name);
    ask(w, ATTR_message_queue_len, LONG, &whole);
    check(whole.row[0].value == 5999, "message_queue_len over both queues", lay->name);
    put(w, p, LF_state, 0x2A | 0x1000000 | 0x2000); /* off-heap queue, active: buffers may exist */
    ask(w, ATTR_message_queue_len, LONG, &whole);
    check(whole.asked == 1, "an active process with an off-heap queue is asked", lay->name);
    put(w, p, LF_state, 0x2A | 0x1000000 | 0x1000); /* in some releases: it once wrote to itself */
    ask(w, ATTR_message_queue_len, LONG, &whole);
    check(whole.asked == 1, "mail that may wait in buffers is asked for", lay->name);
    struct layout old = *lay;
    old.self_bit = true;
    w->vm.lay = &old;
    ask(w, ATTR_message_queue_len, LONG, &whole);
    check(whole.asked == 0 && whole.rows == 1, "a process that once wrote to itself is read",
          lay->name);
    put(w, p, LF_state, 0x2A | 0x1000000 | 0x80000);
    ask(w, ATTR_message_queue_len, LONG, &whole);
    check(whole.asked == 1, "other signals are asked for there, too", lay->name);
    w->vm.lay = lay;
    free_world(w);
}

/* A balanced tree of links or monitors. */
static uint64_t make_tree(struct world *w, unsigned n, unsigned type) // NOLINT(misc-no-recursion)
{
    if (n == 0)
        return 0;
    char *node = make(w, LF(w->vm.lay, mon_size));
    unsigned shift = w->vm.lay->flags_shift;
    put(w, node, LF_node_flags, 2U << shift);
    uint64_t both =
        w->vm.lay->f[LF_node_type] == w->vm.lay->f[LF_node_flags] ? (2U << shift) | type : type;
    put(w, node, LF_node_type, both);
    put(w, node, LF_tree_left, make_tree(w, (n - 1) / 2, type));
    put(w, node, LF_tree_right, make_tree(w, n - 1 - (n - 1) / 2, type));
    return address(node);
}

static void test_ties(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct answer a;
    char *p = make_process(w, 7);
    put(w, p, LF_links, make_tree(w, 3000, 10));
    put(w, p, LF_monitors, make_tree(w, 2000, 0));
    ask(w, ATTR_link_count, NOTHING, &a);
    check(a.row[0].value == 3000 && a.slices > 4, "links in slices", lay->name);
    ask(w, ATTR_monitor_count, NOTHING, &a);
    check(a.row[0].value == 2000, "monitors in slices", lay->name);
    ask(w, ATTR_monitored_by_count, LONG, &a);
    check(a.row[0].value == 0, "monitors are not those who watch", lay->name);
    char *loop = make(w, 64);
    put(w, loop, LF_node_type, 10);
    put(w, loop, LF_tree_left, address(loop));
    put(w, loop, LF_tree_right, address(loop));
    put(w, p, LF_links, address(loop));
    ask(w, ATTR_link_count, LONG, &a);
    check(a.result == SCAN_DONE && a.asked == 1, "a tree that is none is asked", lay->name);
    free_world(w);
}

/* A process that runs, collects or is locked is busy, then asked. A dead one has no row. */
static void test_settled(const struct layout *lay)
{
    static const uint32_t moving[] = {0x8000, 0x20000, 0x200000, 0x4000000, 0x20000000};
    struct world *w = new_world(lay);
    struct answer a;
    char *p = make_process(w, 7);
    for (unsigned i = 0; i < sizeof moving / sizeof *moving; i++) {
        put(w, p, LF_state, 0x2A | moving[i]);
        ask(w, ATTR_binary_count, LONG, &a);
        check(a.asked == 1 && a.rows == 0, "a process that may change is asked", lay->name);
    }
    put(w, p, LF_state, 0x2A);
    put(w, p, LF_lock, 1);
    ask(w, ATTR_stack_size, LONG, &a);
    check(a.asked == 1, "a locked process is asked", lay->name);
    put(w, p, LF_lock, 0);
    put(w, p, LF_state, 0x2A | STATE_RUNNING);
    put(w, p, LF_gen_gcs, 0x1234);
    ask(w, ATTR_minor_gcs, LONG, &a);
    check(a.rows == 1 && a.row[0].value == 0x1234, "the collections of a process that runs",
          lay->name);
    ask(w, ATTR_oldest_message, LONG, &a);
    check(a.rows == 1 && a.row[0].value == 0, "no message is the oldest", lay->name);
    put(w, p, LF_sig_first, 0x7000);
    ask(w, ATTR_oldest_message, LONG, &a);
    check(a.rows == 1 && a.row[0].value > 0 && a.row[0].value != 0x7000,
          "the oldest message has a number that is no address", lay->name);
    put(w, p, LF_sig_first, 0);
    put(w, p, LF_state, 0x2A | 0x800);
    ask(w, ATTR_reductions, LONG, &a);
    check(a.asked == 0 && a.rows == 0, "an exiting process has no row", lay->name);
    free_world(w);
}

/* A sender holds the lock of the outer queue and may not have written all of the message yet.
 * Attributes that read that queue wait for the lock, at opening and at closing; others do not. */
static void test_queue_locked(const struct layout *lay)
{
    static const bool looks[ATTR_COUNT] = {
        [ATTR_memory] = true,
        [ATTR_total_heap_size] = true,
        [ATTR_message_queue_len] = true,
        [ATTR_garbage_bytes] = true,
        [ATTR_bin_garbage] = true,
        [ATTR_bin_garbage_bytes] = true,
        [ATTR_bin_waste] = true,
        [ATTR_flat_size] = true,
        [ATTR_binary_unique] = true,
        [ATTR_binary_exclusive] = true,
    };
    struct world *w = new_world(lay);
    char *p = make_process(w, 7);
    put(w, p, LF_inq_first, address(make_message(w, 0x1F, 0)));
    put(w, p, LF_inq_len, 1);
    for (unsigned k = 0; k < ATTR_COUNT * 2; k++) {
        struct question q;
        struct view view;
        const struct reading rd = {&w->vm, &q.plan, &view, NULL};
        enum attr attr = k % ATTR_COUNT;
        bool waiting = k >= ATTR_COUNT;
        bool waits = looks[attr] || (waiting && attr != ATTR_message_queue_len);
        if (waiting && attr != ATTR_binary_count)
            continue;
        question_make(&q, lay, attr, waiting);
        put(w, p, LF_lock, LOCK_MSGQ);
        check((stamp_open(&w->vm, &q.plan, 7, address(p), &view) == ST_BUSY) == waits,
              "who links a message is waited for", lay->name);
        put(w, p, LF_lock, 0);
        check(stamp_open(&w->vm, &q.plan, 7, address(p), &view) == ST_OK, "not longer", lay->name);
        put(w, p, LF_lock, LOCK_MSGQ);
        check((stamp_close(&rd) == ST_TORN) == waits, "also at the close", lay->name);
        put(w, p, LF_lock, 0);
    }
    free_world(w);
}

/* If an allocation fails, the answer is an error or right, and nothing leaks. */
static void test_no_memory(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct answer a;
    uint64_t count = 0;
    uint64_t bytes = 0;
    unsigned refused = 0;
    char *p = make_process(w, 7);
    put(w, p, LF_off_heap, make_chain(w, p, 100, &count, &bytes));
    for (unsigned i = 0; i < 200; i++) {
        char *frag = make(w, 64);
        put(w, frag, LF_frag_next, get(w, p, LF_mbuf));
        put(w, p, LF_mbuf, address(frag));
    }
    for (long n = 1; n < 10; n++) {
        fail_at = n;
        ask(w, ATTR_binary_count, LONG, &a);
        refused += a.result == SCAN_NOMEM;
        check(a.result == SCAN_NOMEM || a.row[0].value == (int64_t)count,
              "a failed allocation is an error", lay->name);
    }
    check(refused > 0, "allocations were refused", lay->name);
    fail_at = 0;
    free_world(w);
}

int main(void)
{
    for (unsigned i = 0; i < layout_count(); i++) {
        const struct layout *lay = layout_table(i);
        test_slices(lay);
        test_writable(lay);
        test_hostile_chains(lay);
        test_heap_upside_down(lay);
        test_nonsense(lay);
        test_queue(lay);
        test_ties(lay);
        test_queue_locked(lay);
        test_settled(lay);
        test_no_memory(lay);
    }
    return outcome();
}
