/* test_graph_shapes.c: retained sizes and snapshots of heaps that are built to be expensive or
 * hostile: what a slice may do, and what happens if a root moves.
 * Knows: the shape of each heap, and the steps that it may cost. Does not know: a real VM. */
#include "test/test_graph.h"

/* ---- shapes that are expensive to walk up step by step --------------------------------------- */

/* Nested tuples {Next, Shared}: the search for the dominator of Shared starts at each of them. */
static uint64_t deep(struct world *w, char *p, unsigned n)
{
    uint64_t top = get(w, p, LF_htop);
    uint64_t shared = top | TAG_BOXED;
    uint64_t next = small(0);
    put_word(top, 1 << 6);
    put_word(top + 8, small(1));
    top += 16;
    for (unsigned i = 0; i < n; i++, top += 24) {
        put_word(top, 2 << 6);
        put_word(top + 8, next);
        put_word(top + 16, shared);
        next = top | TAG_BOXED;
    }
    put(w, p, LF_htop, top);
    return next;
}

/* A list of n references to one object. */
static uint64_t same(struct world *w, char *p, unsigned n)
{
    uint64_t top = get(w, p, LF_htop);
    uint64_t shared = top | TAG_BOXED;
    uint64_t next = TERM_NIL;
    put_word(top, 1 << 6);
    put_word(top + 8, small(1));
    top += 16;
    for (unsigned i = 0; i < n; i++, top += 16) {
        put_word(top, shared);
        put_word(top + 8, next);
        next = top | TAG_LIST;
    }
    put(w, p, LF_htop, top);
    return next;
}

static uint64_t steps_for(struct slow *s, const char *name)
{
    uint64_t steps = 0;
    enum status st;
    do {
        st = slow_slice(s, 1000);
        steps += 1000;
    } while (st == ST_TIMESLICE && steps < 100 * (uint64_t)HEAP_WORDS);
    check(st == ST_OK, "an expensive shape", name);
    return steps;
}

static void test_expensive(const struct layout *lay)
{
    static uint64_t (*const shapes[])(struct world *, char *, unsigned) = {deep, same};
    struct look_args args = {.max_words = ALL, .max_entries = 10, .n = 1000};
    for (unsigned i = 0; i < 2; i++) {
        struct world *w = new_world(lay);
        struct slow s;
        char *p = make_rootless(w, 7);
        uint64_t root = shapes[i](w, p, 12000);
        put_word(get(w, p, LF_stop), root);
        slow_start(&s, w, &top_retained_walker, &args);
        const struct top_retained *l = s.state;
        uint64_t steps = steps_for(&s, lay->name);
        check(steps < 45 * (uint64_t)HEAP_WORDS, "no more than a logarithm for each link",
              lay->name);
        check(l->n > 0 && l->rows[0].retained == marking_reached(&l->heap),
              "what is at the root retains all", lay->name);
        check(l->n < 2 || i == 0 || l->rows[1].retained == 2, "what is shared retains itself",
              lay->name);
        slow_end(&s);
        free_world(w);
    }
}

/* ---- what a slice may do ---------------------------------------------------------------------- */

static uint64_t cell(struct world *w, char *p, uint64_t head, uint64_t tail)
{
    uint64_t top = get(w, p, LF_htop);
    put_word(top, head);
    put_word(top + 8, tail);
    put(w, p, LF_htop, top + 16);
    return top | TAG_LIST;
}

static uint64_t real(struct world *w, char *p)
{
    uint64_t top = get(w, p, LF_htop);
    put_word(top, 0x58);
    put(w, p, LF_htop, top + 16);
    return top | TAG_BOXED;
}

/* A list of floats, which have no links; at its end a list that takes long. */
static struct world *many_leaves(const struct layout *lay)
{
    struct world *w = new_world(lay);
    char *p = make_rootless(w, 7);
    uint64_t last = TERM_NIL;
    for (unsigned i = 0; i < 2000; i++)
        last = cell(w, p, small(i), last);
    uint64_t list = cell(w, p, last, TERM_NIL);
    uint64_t leaf = 0;
    for (unsigned i = 0; i < 8000; i++) {
        leaf = real(w, p);
        list = cell(w, p, leaf, list);
    }
    list = cell(w, p, leaf, list); /* two ways to it, so that the shortest is searched for */
    put_word(get(w, p, LF_stop), list);
    return w;
}

struct progress {
    int stage, dominators;
    uint32_t n, at, node;
};

static struct progress progress_of(const struct walker *walker, const void *state)
{
    const struct top_retained *l = state;
    const struct snapshot *s = state;
    if (walker == &top_retained_walker)
        return (struct progress){l->stage, l->dominators.stage, l->dominators.n, l->breadth.at,
                                 (uint32_t)l->at};
    return (struct progress){s->stage, s->dominators.stage, s->dominators.n, s->breadth.at, s->at};
}

static bool little(uint32_t before, uint32_t now, uint32_t most)
{
    return now < before || now - before <= most;
}

/* A node costs a step even if it has no links. */
static void steps_of(const struct layout *lay, const struct walker *walker, uint64_t n)
{
    enum { STEPS = 7 };
    struct look_args args = {.max_words = ALL, .max_entries = n, .n = 1000};
    struct world *w = many_leaves(lay);
    struct slow s;
    enum status st;
    bool right = true;
    unsigned stages = 0;
    slow_start(&s, w, walker, &args);
    do {
        struct progress before = progress_of(walker, s.state);
        st = slow_slice_dropped(&s, STEPS);
        struct progress now = progress_of(walker, s.state);
        stages |= 1U << now.stage;
        right = right && (before.dominators != now.dominators || little(before.n, now.n, STEPS)) &&
                little(before.at, now.at, STEPS) &&
                (before.stage != now.stage || little(before.node, now.node, 256 * STEPS));
    } while (st == ST_TIMESLICE);
    check(st == ST_OK && right, "no slice does more than its steps", lay->name);
    check(walker != &top_retained_walker || n < ALL || (stages & (stages + 1)) == 0,
          "no stage with many rows is done at once", lay->name);
    slow_end(&s);
    free_world(w);
}

static void test_steps(const struct layout *lay)
{
    steps_of(lay, &top_retained_walker, 10);
    steps_of(lay, &top_retained_walker, ALL);
    steps_of(lay, &snapshot_walker, ALL);
    steps_of(lay, &snapshot_walker, 1000);
}

/* ---- hostile heaps ---------------------------------------------------------------------------- */

/* After `after` slices the root moves to the last cell of its list, which is no node and has no
 * node behind it. Returns false if the walk ended before that. */
static bool root_moves(const struct layout *lay, const struct walker *walker, unsigned after)
{
    struct look_args args = {.max_words = ALL, .max_entries = ALL, .n = 1000};
    struct world *w = new_world(lay);
    char *p = make_rootless(w, 7);
    struct slow s;
    enum status st;
    unsigned slices = 0;
    uint64_t top = get(w, p, LF_htop);
    put_word(get(w, p, LF_stop), top | TAG_LIST);
    for (unsigned i = 0; i < 5; i++, top += 16) {
        put_word(top, small(i));
        put_word(top + 8, i == 4 ? TERM_NIL : (top + 16) | TAG_LIST);
    }
    put(w, p, LF_htop, top);
    slow_start(&s, w, walker, &args);
    do {
        st = slow_slice_dropped(&s, 2);
        if (++slices == after)
            put_word(get(w, p, LF_stop), (top - 16) | TAG_LIST);
    } while (st == ST_TIMESLICE && slices < 100000);
    check(st == ST_OK || st == ST_TORN, "a root that moves is torn, or comes too late", lay->name);
    slow_end(&s);
    free_world(w);
    return slices > after;
}

static void test_root_moves(const struct layout *lay)
{
    for (unsigned after = 1; root_moves(lay, &top_retained_walker, after);)
        after++;
    for (unsigned after = 1; root_moves(lay, &snapshot_walker, after);)
        after++;
}

/* A map without pairs, where each node leads to the next sixteen times. No VM builds such a map,
 * but a read during a write may see one. */
static void test_barren_map(const struct layout *lay)
{
    enum { LEVELS = 14 };
    struct world *w = new_world(lay);
    char *p = make_rootless(w, 7);
    uint64_t bits = kind_header(lay, KIND_MAP, 0);
    uint64_t at = get(w, p, LF_htop);
    struct look l;
    uint64_t below = at | TAG_BOXED;
    put_word(at, MAP_NODE << 6 | bits);
    at += 8;
    for (unsigned i = 0; i < LEVELS; i++) {
        bool is_head = i == LEVELS - 1;
        uint64_t node = at;
        put_word(at, (uint64_t)0xFFFF << 16 | (is_head ? MAP_HEAD_ARRAY : MAP_NODE) << 6 | bits);
        put_word(at + 8, 40);
        at += is_head ? 16 : 8;
        for (unsigned k = 0; k < 16; k++, at += 8)
            put_word(at, below);
        below = node | TAG_BOXED;
    }
    put(w, p, LF_htop, at);
    put_word(get(w, p, LF_stop), below);
    check(look(w, &l, 10) == ST_TORN, "a map without pairs has no preview", lay->name);
    end_look(&l);
    free_world(w);
}

/* ---- long paths ------------------------------------------------------------------------------- */

static uint64_t pair(struct world *w, char *p, uint64_t first, uint64_t second)
{
    uint64_t top = get(w, p, LF_htop);
    put_word(top, 2 << 6);
    put_word(top + 8, first);
    put_word(top + 16, second);
    put(w, p, LF_htop, top + 24);
    return top | TAG_BOXED;
}

static uint64_t chain(struct world *w, char *p, unsigned n, uint64_t last)
{
    while (n-- > 0)
        last = pair(w, p, small(n), last);
    return last;
}

/* A chain of n pairs, with a side branch at each 50th. ways: what all of them end with has many ways to it, so that
 * the shortest is searched for. */
static struct world *branches(const struct layout *lay, unsigned n, bool ways)
{
    struct world *w = new_world(lay);
    char *p = make_rootless(w, 7);
    uint64_t last = ways ? pair(w, p, small(1), small(2)) : TERM_NIL;
    uint64_t next = last;
    for (unsigned i = 0; i < n; i++)
        next = pair(w, p, i % 50 == 0 ? chain(w, p, 45, last) : small(i), next);
    put_word(get(w, p, LF_stop), next);
    return w;
}

/* The way of a row is its whole path, or how that begins and how it ends. */
static bool is_path(const struct top_retained *l, const struct large *r)
{
    static uint32_t path[HEAP_WORDS];
    unsigned depth = 0;
    for (uint32_t node = r->node; node >= NODE_FIRST; node = l->parent[node])
        path[depth++] = node;
    unsigned gap = depth < WAY_MAX ? 0 : depth - (WAY_MAX - 1);
    bool right = r->cut == (gap > 0) && r->n == depth - gap;
    for (unsigned i = 0; right && i < r->n; i++)
        right = l->edges[r->way[i]].child ==
                path[depth - 1 - (gap > 0 && i >= WAY_BEGIN ? i + gap : i)];
    return right;
}

/* Each row of a chain has a path of its own; together they cost no more than the chain is long. */
static void test_long_paths(const struct layout *lay)
{
    struct look_args args = {.max_words = ALL, .max_entries = ALL, .n = 1000};
    for (unsigned ways = 0; ways < 2; ways++) {
        uint64_t steps[2];
        for (unsigned i = 0; i < 2; i++) {
            struct world *w = branches(lay, 2000U << i, ways == 1);
            struct slow s;
            slow_start(&s, w, &top_retained_walker, &args);
            steps[i] = steps_for(&s, lay->name);
            const struct top_retained *l = s.state;
            bool paths = l->n > 2000U << i;
            for (size_t k = 0; paths && k < l->n; k++)
                paths = is_path(l, &l->rows[k]);
            check(paths, "the paths of all rows", lay->name);
            check((l->parent == l->dominators.waiting) == (ways == 1), "searched for if it must be",
                  lay->name);
            slow_end(&s);
            free_world(w);
        }
        check(steps[1] < 3 * steps[0], "twice as many rows take twice as long", lay->name);
    }
}

/* Many rows that show the same: a slice has room for as many previews as it has steps for their words. */
static void test_large_previews(const struct layout *lay)
{
    struct look_args args = {
        .want = TOP_RETAINED_CONTENT, .max_words = ALL, .max_entries = ALL, .n = 1000};
    enum { SLICE = 1000, ONE = 400, WIDTH = 10 };
    struct world *w = new_world(lay);
    char *p = make_rootless(w, 7);
    uint64_t list = TERM_NIL;
    uint64_t inner = TERM_NIL;
    uint64_t outer = TERM_NIL;
    for (unsigned i = 0; i < WIDTH; i++)
        inner = cell(w, p, small(i), inner);
    for (unsigned i = 0; i < WIDTH; i++)
        outer = cell(w, p, inner, outer);
    for (unsigned i = 0; i < 2000; i++)
        list = cell(w, p, pair(w, p, outer, small(i)), list);
    put_word(get(w, p, LF_stop), list);
    struct slow s;
    enum status st;
    slow_start(&s, w, &top_retained_walker, &args);
    const struct top_retained *l = s.state;
    bool bounded = true;
    size_t before = 0;
    do {
        st = slow_slice(&s, SLICE);
        bounded &= l->tokens.n <= before + SLICE / 4 + ONE;
        before = l->tokens.n;
    } while (st == ST_TIMESLICE);
    check(st == ST_OK && l->tokens.n > 10 * (size_t)(SLICE / 4 + ONE), "many previews", lay->name);
    check(bounded, "no more of them in a slice than it has steps", lay->name);
    slow_end(&s);
    free_world(w);
}

int main(void)
{
    for (unsigned i = 0; i < layout_count(); i++) {
        const struct layout *lay = layout_table(i);
        test_expensive(lay);
        test_steps(lay);
        test_root_moves(lay);
        test_barren_map(lay);
        test_long_paths(lay);
        test_large_previews(lay);
    }
    return outcome();
}
