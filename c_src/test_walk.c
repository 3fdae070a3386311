/* test_walk.c: the walkers and the scan over a made-up VM in plain memory.
 * Knows: how to lay out processes, chains, queues and trees by each layout table.
 * Does not know: a real VM. */
#include "alloc.h"
#include "scan.h"
#include "term.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a tiny test runner -------------------------------------------------------------------- */

static unsigned passed;
static unsigned failed;

static void check(bool ok, const char *what, const char *layout)
{
    if (ok) {
        passed++;
    } else {
        failed++;
        printf("FAILED %s: %s\n", layout, what);
    }
}

static long fail_at; /* the n-th allocation from now fails */

void *sonde_alloc(size_t bytes)
{
    return fail_at > 0 && --fail_at == 0 ? NULL : malloc(bytes);
}

void *sonde_realloc(void *p, size_t bytes)
{
    return fail_at > 0 && --fail_at == 0 ? NULL : realloc(p, bytes);
}

void sonde_free(void *p)
{
    free(p);
}

/* ---- the made-up VM ------------------------------------------------------------------------ */

enum { SLOTS = 1024, ARENA = 1 << 24, HEAP_WORDS = 40000, HEAP_BYTES = HEAP_WORDS * 8 };

struct world {
    struct vm vm;
    uint64_t table[SLOTS];
    char *arena;
    size_t used;
};

static void *make(struct world *w, size_t bytes)
{
    char *p = w->arena + w->used;
    w->used += (bytes + 15) & ~(size_t)15;
    if (w->used > ARENA)
        abort();
    memset(p, 0, bytes);
    return p;
}

static uintptr_t address(const void *p)
{
    return (uintptr_t)p;
}

static void put(const struct world *w, char *object, enum layout_field field, uint64_t value)
{
    memcpy(object + w->vm.lay->f[field], &value, layout_width(w->vm.lay, field));
}

static uint64_t pid_of(const struct world *w, unsigned slot)
{
    return w->vm.lay->pid_slot_high ? (uint64_t)slot << 32 | slot << 4 | 3
                                    : (uint64_t)slot << 4 | 3;
}

static char *make_process(struct world *w, unsigned slot)
{
    char *p = make(w, LF(w->vm.lay, proc_size));
    char *heap = make(w, HEAP_BYTES);
    put(w, p, LF_id, pid_of(w, slot));
    put(w, p, LF_state, 0x2A);
    put(w, p, LF_heap, address(heap));
    put(w, p, LF_htop, address(heap));
    put(w, p, LF_hend, address(heap) + HEAP_BYTES);
    put(w, p, LF_stop, address(heap) + HEAP_BYTES - 16);
    put(w, p, LF_heap_sz, HEAP_WORDS);
    put(w, p, LF_reds, 1000 + slot);
    put(w, p, LF_arg_reg, address(p) + LF(w->vm.lay, def_arg_reg));
    put(w, p, LF_sig_flags, 2);
    w->table[slot] = address(p);
    return p;
}

static uint64_t get(const struct world *w, const char *object, enum layout_field field)
{
    uint64_t value = 0;
    memcpy(&value, object + w->vm.lay->f[field], layout_width(w->vm.lay, field));
    return value;
}

/* A chain of n entries on the heap, every third of them no binary. Returns its head. */
static uint64_t make_chain(struct world *w, char *p, unsigned n, uint64_t *count, uint64_t *bytes)
{
    uint64_t next = 0;
    uint64_t top = get(w, p, LF_htop);
    for (unsigned i = 0; i < n; i++, top += 48) {
        uint64_t entry[6] = {0};
        bool binary = i % 3 != 0;
        char *bin = make(w, 64);
        put(w, bin, LF_bin_size, 100 + i);
        entry[0] = binary ? LF(w->vm.lay, bin_thing) : 0xF0;
        entry[2] = next;
        entry[LF(w->vm.lay, bin_ptr) / 8] = address(bin);
        memcpy((void *)(uintptr_t)top, entry, sizeof entry); // NOLINT
        next = top;
        *count += binary;
        *bytes += binary ? 100 + i : 0;
    }
    put(w, p, LF_htop, top);
    return next;
}

static struct world *new_world(const struct layout *lay)
{
    struct world *w = calloc(1, sizeof *w);
    if (!w || !(w->arena = malloc(ARENA)))
        abort();
    w->vm = (struct vm){peek_ready(PEEK_GUARDED), lay, {address(w->table), SLOTS}};
    return w;
}

static void free_world(struct world *w)
{
    free(w->arena);
    free(w);
}

/* ---- one scan to its end ------------------------------------------------------------------- */

struct answer {
    enum scan_result result;
    unsigned slices, asked;
    size_t rows;
    struct row row[SLOTS];
};

static void run(struct scan *s, const struct vm *vm, uint64_t ns, struct answer *a)
{
    memset(a, 0, sizeof *a);
    for (a->slices = 1; a->slices < 100000; a->slices++) {
        a->result = scan_step(s, vm->reader, ns);
        if (a->result == SCAN_ASK) {
            a->asked += s->ask_n;
            scan_asked(s);
        } else if (a->result != SCAN_MORE) {
            break;
        }
    }
    a->rows = s->top.n;
    if (a->rows > 0)
        memcpy(a->row, s->top.rows, a->rows * sizeof *a->row);
}

static void ask(const struct world *w, enum attr attr, uint64_t ns, struct answer *a)
{
    struct scan *s = malloc(sizeof *s);
    if (!s)
        abort();
    scan_init(s, &w->vm, attr, SCAN_TOP, SLOTS, NULL, SLOTS);
    run(s, &w->vm, ns, a);
    scan_free(s);
    free(s);
}

/* ---- tests --------------------------------------------------------------------------------- */

enum { LONG = 1000000000, NOTHING = 1 };

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

/* Writable binaries count where process_info lists them, and keep a process from being left out. */
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
    scan_init(s, &w->vm, ATTR_binary_count, SCAN_HOLDERS, 10, NULL, SLOTS);
    run(s, &w->vm, LONG, &a);
    check(s->sample->n == 1 && s->left == 1, "who holds a writable binary is collected", lay->name);
    scan_free(s);
    free(s);
    free_world(w);
}

/* A chain that leads anywhere else than into the process's own blocks is not followed. */
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
        uint64_t next = i < sizeof wild / sizeof *wild ? wild[i] : head; /* a cycle at last */
        memcpy((void *)(uintptr_t)(head + 16), &next, 8);                // NOLINT
        put(w, p, LF_off_heap, head);
        ask(w, ATTR_binary_memory, LONG, &a);
        check(a.result == SCAN_DONE && a.rows == 0 && a.asked == 1, "a chain gone wild is asked",
              lay->name);
        free_world(w);
    }
}

/* Heap pointers read while they moved: the one block is upside down, and a cycle in the other still ends. */
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

/* Numbers that no process has: sums may wrap, and are thrown away; the sanitizer sees that nothing is
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
    scan_init(first, &w->vm, ATTR_reductions, SCAN_SAMPLE, 10, NULL, SLOTS);
    run(first, &w->vm, LONG, &a);
    put(w, p, LF_reds, 1);
    scan_init(second, &w->vm, ATTR_reductions, SCAN_DIFF, 10, &first->own, SLOTS);
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

/* Messages in both queues, a receive marker among them: as process_info computes memory. */
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
    put(w, p, LF_state, 0x2A | 0x1000000 | 0x1000); /* to 26: it has written to itself some time */
    ask(w, ATTR_message_queue_len, LONG, &whole);
    check(whole.asked == (lay->otp >= 27) && whole.rows == (lay->otp < 27),
          "mail that may wait in buffers is asked for", lay->name);
    free_world(w);
}

/* A balanced tree of links, and the circular list of those who watch. */
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

/* Running, locked, collecting: busy, then asked. Dead: no row at all. */
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
    put(w, p, LF_state, 0x2A | 0x800);
    ask(w, ATTR_reductions, LONG, &a);
    check(a.asked == 0 && a.rows == 0, "an exiting process has no row", lay->name);
    free_world(w);
}

/* Sample and diff: gains, the newly born, the dead. */
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
    scan_init(first, &w->vm, ATTR_reductions, SCAN_SAMPLE, 10, NULL, SLOTS);
    run(first, &w->vm, LONG, &a);
    put(w, grown, LF_reds, 1005 + 77);
    w->table[9] = 0;
    (void)make_process(w, 11);
    scan_init(second, &w->vm, ATTR_reductions, SCAN_DIFF, 10, &first->own, SLOTS);
    run(second, &w->vm, LONG, &a);
    check(a.rows == 3 && a.row[0].value == 1011 && a.row[1].value == 1009 &&
              a.row[1].pid == pid_of(w, 9) && a.row[2].value == 77,
          "a window has gains, the born and the dead", lay->name);
    scan_free(second);
    scan_init(second, &w->vm, ATTR_reductions, SCAN_SAMPLE, 0, NULL, 1);
    run(second, &w->vm, LONG, &a);
    check(a.result == SCAN_FULL, "a sample keeps to its bound", lay->name);
    scan_free(second);
    scan_free(first);
    free(first);
    free(second);
    free_world(w);
}

/* The second count of bin_leak stops in a long chain; behind it one is dead, nobody may be forgotten. */
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
    scan_init(s, &w->vm, ATTR_binary_count, SCAN_HOLDERS, 10, NULL, 100);
    run(s, &w->vm, 0, &a);
    w->table[5 + 2] = 0;
    put(w, p[1], LF_off_heap, 0);
    put(w, p[3], LF_off_heap, 0);
    check(scan_after(s), "the second count follows the first", lay->name);
    run(s, &w->vm, 0, &a);
    check(a.result == SCAN_DONE && a.rows == 4 && a.row[0].value == (int64_t)count[3] &&
              a.row[0].pid == pid_of(w, 8) && a.row[1].value == (int64_t)count[1] &&
              a.row[2].value == 0 && a.row[3].value == 0,
          "who comes behind a walk that stopped, and behind a dead one, is counted", lay->name);
    scan_free(s);
    free(s);
    free_world(w);
}

/* The dummy that holds the slot of the pid that nobody has, in a table of the largest size. */
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

/* A stretch of empty slots, or of dead processes in a list, is no reason to hold a scheduler for long. */
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
    vm.tab = (struct proctab){address(table), LARGE};
    scan_init(s, &vm, ATTR_reductions, SCAN_TOP, 1, NULL, 0);
    run(s, &vm, 0, &a);
    check(a.rows == 1 && a.row[0].pid == pid && a.slices > 3, "the last slot of an empty table",
          lay->name);
    scan_free(s);

    w->table[1] = 0;
    p = make_process(w, 0);
    put(w, p, LF_off_heap, make_chain(w, p, 3, &count, &bytes));
    scan_init(s, &w->vm, ATTR_binary_count, SCAN_ALL, ROWS, NULL, ROWS);
    run(s, &w->vm, LONG, &a);
    for (unsigned i = 1; i <= DEAD; i++)
        check(sample_add(&s->own, pid_of(w, i), 5, 0) == ST_OK, "remembered", lay->name);
    (void)make_process(w, DEAD);
    check(scan_after(s), "the second count follows the first", lay->name);
    run(s, &w->vm, 0, &a);
    check(a.rows == 1 + DEAD && a.row[0].value == 5 && a.row[0].pid == pid_of(w, DEAD) &&
              a.row[1].value == 0 && a.slices > 2,
          "who comes behind many dead ones is counted", lay->name);
    scan_free(s);
    free(s);
    free(table);
    free_world(w);
}

/* Who has the slot of one that died is not looked at, and not asked, in its place. */
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
    scan_init(s, &w->vm, ATTR_binary_count, SCAN_HOLDERS, 10, NULL, 10);
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
    scan_init(s, &w->vm, ATTR_binary_count, SCAN_HOLDERS, 10, NULL, 10);
    run(s, &w->vm, LONG, &a);
    check(a.asked == 1, "who runs is asked", lay->name);
    struct entry *e = sample_find(&s->own, other);
    check(e != NULL, "who is asked is remembered", lay->name);
    if (e)
        e->key |= SAMPLE_SKIP;
    check(scan_after(s), "the second count follows the first", lay->name);
    run(s, &w->vm, LONG, &a);
    check(a.asked == 0 && a.rows == 0, "who never answered is not asked again", lay->name);
    scan_free(s);
    free(s);
    free_world(w);
}

/* From 26 on numbers go through the lines of the table: 0 8 16 ... 1016, 1 9 17 ... */
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

/* Every allocation fails once: an error or the right answer, and nothing is lost. */
static void test_no_memory(const struct layout *lay)
{
    struct world *w = new_world(lay);
    struct answer a;
    uint64_t count = 0;
    uint64_t bytes = 0;
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
        check(a.result == SCAN_NOMEM || a.row[0].value == (int64_t)count,
              "a failed allocation is an error", lay->name);
    }
    fail_at = 0;
    free_world(w);
}

/* The reader is lost after so many steps. How many processes have an answer then, or are to be asked;
 * -1: the scan says that it is lost. */
static int answered(const struct world *w, unsigned steps)
{
    struct scan *s = malloc(sizeof *s);
    enum scan_result r = SCAN_MORE;
    size_t asked = 0;
    if (!s)
        abort();
    scan_init(s, &w->vm, ATTR_binary_count, SCAN_TOP, SLOTS, NULL, SLOTS);
    for (unsigned i = 0; r == SCAN_MORE || r == SCAN_ASK; i++) {
        r = scan_step(s, i < steps ? w->vm.reader : PEEK_NONE, NOTHING);
        if (r == SCAN_ASK) {
            asked += s->ask_n;
            scan_asked(s);
        }
    }
    size_t rows = s->top.n;
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
    check(n == MANY, "who loses the reader loses no process", lay->name);
    free_world(w);
}

/* The N largest, against sorting all. */
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
    struct budget b = {UINT32_MAX, false};
    bool same = true;
    unsigned seed = 1;
    for (size_t limit = 0; limit <= 501; limit += 1 + limit / 3) {
        struct top t;
        top_init(&t, limit);
        for (unsigned i = 0; i < 500; i++) {
            seed = seed * 1103515245 + 12345;
            all[i] = (struct row){(int64_t)(seed >> 20) % 50 - 25, i * 7919 % 500, i};
            same = same && top_push(&t, all[i]);
        }
        same = same && top_sort(&t, &b);
        qsort(all, 500, sizeof *all, by_rank);
        same = same && t.n == (limit < 500 ? limit : 500) &&
               (t.n == 0 || memcmp(all, t.rows, t.n * sizeof *all) == 0);
        top_free(&t);
    }
    check(same, "top is sort and take", "any");
}

int main(void)
{
    test_top();
    for (unsigned i = 0; i < layout_count(); i++) {
        const struct layout *lay = layout_table(i);
        test_slices(lay);
        test_writable(lay);
        test_hostile_chains(lay);
        test_heap_upside_down(lay);
        test_nonsense(lay);
        test_queue(lay);
        test_ties(lay);
        test_settled(lay);
        test_window(lay);
        test_after(lay);
        test_nobody(lay);
        test_stretches(lay);
        test_newcomer(lay);
        test_order(lay);
        test_no_memory(lay);
        test_reader_lost(lay);
    }
    printf("%u passed, %u failed\n", passed, failed);
    return failed != 0;
}
