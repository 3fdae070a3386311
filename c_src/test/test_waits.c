/* test_waits.c: the process that another process waits for.
 * Knows: how a caller looks: its frame, its monitors and links.
 * Does not know: which places in the code are calls: the scan is shown one. */
#include "test/test_world.h"

enum { MON_PROC = 0, MON_PORT = 1, MON_DIST_PROC = 3, LINK_PROC = 10, LINK_DIST_PROC = 12 };
enum { TARGET = 1, PLACE = 0x1230, ELSEWHERE = 0x1234, TWIN = 500, CALLER = 7 };

/* A reference on the heap of that process, with these numbers. */
static uint64_t make_ref(struct world *w, char *p, uint64_t n)
{
    uint64_t top = get(w, p, LF_htop);
    put_word(top, kind_header(w->vm.lay, KIND_REF, 2));
    put_word(top + 8, n);
    put_word(top + 16, 0xABCD00000000 | n); /* the upper half is no part of it */
    put(w, p, LF_htop, top + 24);
    return top | TAG_BOXED;
}

static void put_both(struct world *w, char *node, unsigned flags, unsigned type)
{
    unsigned shift = w->vm.lay->flags_shift;
    put(w, node, LF_node_flags, (uint64_t)flags << shift);
    if (w->vm.lay->f[LF_node_type] == w->vm.lay->f[LF_node_flags])
        put(w, node, LF_node_type, (uint64_t)flags << shift | type);
    else
        put(w, node, LF_node_type, type);
}

/* Puts the new node in the place of the root, which becomes its left branch. */
static char *tie(struct world *w, char *p, enum layout_field root, unsigned type, unsigned other)
{
    char *node = make(w, LF(w->vm.lay, mon_size) + 24);
    put_both(w, node, 2, type);
    put(w, node, LF_node_other, pid_of(w, other));
    put(w, node, LF_tree_left, get(w, p, root));
    put(w, p, root, address(node));
    return node;
}

static char *monitor(struct world *w, char *p, unsigned type, unsigned other, uint64_t n)
{
    char *node = tie(w, p, LF_monitors, type, other);
    uint64_t ref = address(node) + LF(w->vm.lay, mon_size);
    put_word(ref, kind_header(w->vm.lay, KIND_REF, 3)); /* an alias has one word more */
    put_word(ref + 8, n);
    put_word(ref + 16, n);
    put(w, node, LF_mon_ref, ref | TAG_BOXED);
    return node;
}

/* A process that waits at the place, with a frame that ends. */
static char *make_caller(struct world *w, unsigned slot)
{
    char *p = make_process(w, slot);
    push_word(w, p, 0x7F00); /* a return address */
    put(w, p, LF_pc, PLACE);
    return p;
}

struct found {
    enum scan_result result;
    unsigned rows, asked;
    uint64_t pid, value; /* of the last row */
};

static struct found look(const struct world *w, enum status place)
{
    static const enum attr attr = ATTR_waits_for;
    struct scan *s = malloc(sizeof *s);
    struct found f = {.rows = 0};
    if (!s)
        abort();
    scan_init(s, &w->vm, &attr, 1, SCAN_EACH, 0, NULL, 0);
    check(scan_place(s, TWIN, w->table[TWIN]) == place, "the place of a twin", w->vm.lay->name);
    (void)scan_exclude(s, pid_of(w, TWIN));
    do {
        f.result = scan_step(s, w->vm.reader, NOTHING);
        for (unsigned i = 0; f.result == SCAN_ROWS && i < s->out_n; i += 2, f.rows++) {
            f.pid = (uint64_t)s->out[i];
            f.value = (uint64_t)s->out[i + 1];
        }
        if (f.result == SCAN_ROWS)
            scan_taken(s);
        f.asked += f.result == SCAN_ASK ? s->ask_n : 0;
        if (f.result == SCAN_ASK)
            scan_asked(s);
    } while (f.result < SCAN_DONE);
    scan_free(s);
    free(s);
    return f;
}

static void waits_for(const struct world *w, uint64_t awaited, const char *what)
{
    struct found f = look(w, ST_OK);
    check(f.result == SCAN_DONE && f.asked == 0 && f.rows == (awaited != 0) &&
              (awaited == 0 || (f.value == awaited && f.pid == pid_of(w, CALLER))),
          what, w->vm.lay->name);
}

static struct world *with_twin(const struct layout *lay)
{
    struct world *w = new_world(lay);
    (void)make_caller(w, TWIN);
    return w;
}

/* The reference in the frame shows which of several monitors it is; references of other monitors do not. */
static void test_reference(const struct layout *lay)
{
    struct world *w = with_twin(lay);
    char *p = make_caller(w, CALLER);
    waits_for(w, 0, "without a monitor it waits for none");
    (void)monitor(w, p, MON_PROC, 20, 1);
    waits_for(w, pid_of(w, 20), "the only monitor needs no reference");
    (void)monitor(w, p, MON_PROC, 21, 2);
    (void)monitor(w, p, MON_PORT, 25, 3);
    waits_for(w, AWAITED_UNCLEAR, "one of two, and the frame does not say which");
    push_word(w, p, make_ref(w, p, 1));
    waits_for(w, pid_of(w, 20), "the one whose reference is in the frame");
    put(w, p, LF_stop, get(w, p, LF_stop) + 8);
    push_word(w, p, 0x7F10);
    push_word(w, p, make_ref(w, p, 2));
    waits_for(w, pid_of(w, 21), "a frame ends at the return address");
    char *node = monitor(w, p, MON_DIST_PROC, 22, 9);
    push_word(w, p, make_ref(w, p, 9));
    waits_for(w, AWAITED_UNCLEAR, "two references in one frame");
    put(w, p, LF_stop, get(w, p, LF_stop) + 8);
    push_word(w, p, 0x7F20);
    push_word(w, p, make_ref(w, p, 9));
    waits_for(w, AWAITED_REMOTE, "a process of another node");
    put_both(w, node, 2 | TARGET, MON_PROC);
    waits_for(w, AWAITED_UNCLEAR, "the one that monitors it is not the one it waits for");
    put(w, p, LF_pc, ELSEWHERE);
    waits_for(w, 0, "at another place in the code it does not wait");
    free_world(w);
}

/* References lie on a heap; what points elsewhere is no reference, whatever is there. */
static void test_bounds(const struct layout *lay)
{
    struct world *w = with_twin(lay);
    char *p = make_caller(w, CALLER);
    char *other = make_process(w, 8);
    put(w, other, LF_pc, ELSEWHERE);
    (void)monitor(w, p, MON_PROC, 20, 1);
    (void)monitor(w, p, MON_PROC, 21, 2);
    push_word(w, p, make_ref(w, other, 1));
    waits_for(w, AWAITED_UNCLEAR, "a reference of another heap");
    uint64_t top = get(w, p, LF_htop);
    push_word(w, p, make_ref(w, p, 1));
    put(w, p, LF_htop, top + 16);
    waits_for(w, AWAITED_UNCLEAR, "a reference that does not end on the heap");
    put(w, p, LF_htop, top + 24);
    waits_for(w, pid_of(w, 20), "a reference that does");
    for (unsigned i = 0; i < AWAITED_FRAME; i++)
        push_word(w, p, 0x3B);
    waits_for(w, AWAITED_UNCLEAR, "a frame is not read without end");
    free_world(w);
}

/* A process that starts another keeps its pid, and may have only a link to it. */
static void test_pids(const struct layout *lay)
{
    struct world *w = with_twin(lay);
    char *p = make_caller(w, CALLER);
    (void)tie(w, p, LF_links, LINK_PROC, 30);
    (void)tie(w, p, LF_links, LINK_PROC, 31);
    (void)tie(w, p, LF_links, LINK_DIST_PROC, 32);
    push_word(w, p, pid_of(w, 33));
    push_word(w, p, pid_of(w, 30));
    waits_for(w, pid_of(w, 30), "the linked one whose pid is in the frame");
    push_word(w, p, pid_of(w, 31));
    waits_for(w, 0, "of two linked ones none");
    (void)monitor(w, p, MON_PROC, 34, 1);
    waits_for(w, AWAITED_UNCLEAR, "nor the only monitored one, whose pid is not in the frame");
    free_world(w);
}

/* A process that does not wait has no row; a torn tree gives no answer. */
static void test_states(const struct layout *lay)
{
    static const uint32_t states[] = {STATE_ACTIVE, STATE_SUSPENDED, STATE_RUNNING};
    struct world *w = with_twin(lay);
    char *p = make_caller(w, CALLER);
    char *node = monitor(w, p, MON_PROC, 20, 1);
    for (unsigned i = 0; i < sizeof states / sizeof *states; i++) {
        put(w, p, LF_state, 0x2A | states[i]);
        struct found f = look(w, ST_OK);
        check(f.rows == 0 && f.asked == 1, "with work to do it does not wait", lay->name);
    }
    put(w, p, LF_state, 0x2A);
    put(w, node, LF_node_other, 0x0B);
    struct found f = look(w, ST_OK);
    check(f.rows == 0 && f.asked == 1, "a monitored atom is no process here", lay->name);
    put(w, node, LF_node_other, pid_of(w, 20));
    put(w, node, LF_mon_ref, pid_of(w, 20));
    f = look(w, ST_OK);
    check(f.rows == 0 && f.asked == 1, "a monitor has a reference", lay->name);
    put(w, (char *)w->table[TWIN], LF_state, 0x2A | STATE_ACTIVE); // NOLINT
    f = look(w, ST_BUSY);
    check(f.rows == 0, "without a place nobody waits", lay->name);
    free_world(w);
}

int main(void)
{
    for (unsigned i = 0; i < layout_count(); i++) {
        const struct layout *lay = layout_table(i);
        test_reference(lay);
        test_bounds(lay);
        test_pids(lay);
        test_states(lay);
    }
    return outcome();
}
