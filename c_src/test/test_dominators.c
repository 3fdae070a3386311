/* test_dominators.c: retained sizes on random heaps, compared with removing each object and
 * counting again; and snapshots of these heaps, in slices, without memory, and while they change.
 * Knows: which objects the roots reach without one of them. Does not know: a real VM. */
#include "test/test_random_heap.h"

/* ---- taking away and counting again ---------------------------------------------------------- */

static uint64_t reached_without(const struct made *m, unsigned without)
{
    bool seen[OBJECTS] = {false};
    uint64_t words = 0;
    for (unsigned i = 0; i < ROOTS; i++)
        seen[m->roots[i]] = true;
    for (unsigned i = m->n; i-- > 0;) {
        if (!seen[i] || i == without)
            continue;
        words += m->words[i];
        for (unsigned k = 0; k < m->children_n[i]; k++)
            seen[m->children[i][k]] = true;
    }
    return words;
}

static unsigned object_at(const struct made *m, uintptr_t at)
{
    for (unsigned i = 0; i < m->n; i++) {
        if (m->at[i] == at)
            return i;
    }
    return m->n;
}

static void check_rows(const struct made *m, const struct top_retained *l, const char *name)
{
    uint64_t all = reached_without(m, OBJECTS);
    uint64_t self = 0;
    bool right = true;
    bool sorted = true;
    for (size_t i = 0; i < l->n; i++) {
        const struct large *r = &l->rows[i];
        unsigned object = object_at(m, graph_address(&l->graph, r->place));
        right = right && object < m->n && all - reached_without(m, object) == r->retained &&
                r->self <= r->retained;
        sorted = sorted && (i == 0 || r->retained <= l->rows[i - 1].retained);
        self += r->self;
    }
    check(right, "retained is what goes when it is taken away", name);
    check(sorted && self <= all, "the largest first, and nothing twice", name);
    check(marking_reached(&l->heap) == all, "all is reached", name);
}

static void test_random(const struct layout *lay)
{
    static struct made m;
    struct look l;
    for (unsigned i = 0; i < 300; i++) {
        struct world *w = make_heap(lay, &m);
        check(look(w, &l, OBJECTS) == ST_OK, "a heap at random", lay->name);
        if (l.st == ST_OK)
            check_rows(&m, l.state, lay->name);
        end_look(&l);
        free_world(w);
    }
}

static bool same_rows(const struct top_retained *few, const struct top_retained *all)
{
    bool same = few->n <= all->n;
    for (size_t i = 0; same && i < few->n; i++) {
        const struct large *r = &few->rows[i];
        const struct large *s = &all->rows[i];
        same = r->place == s->place && r->retained == s->retained && r->self == s->self &&
               r->kind == s->kind && r->n == s->n;
        for (unsigned k = 0; same && k < r->n; k++)
            same = few->edges[r->way[k]].step.kind == all->edges[s->way[k]].step.kind &&
                   few->edges[r->way[k]].step.index == all->edges[s->way[k]].step.index;
    }
    return same;
}

/* Small leaves are left out if few rows are wanted, and never where all are. The rows are the same. */
static void test_few_rows(const struct layout *lay)
{
    static struct made m;
    unsigned left_out = 0;
    for (unsigned i = 0; i < 200; i++) {
        struct world *w = make_heap(lay, &m);
        struct look few;
        struct look all;
        uint64_t rows = 1 + draw(20);
        bool both = look(w, &few, rows) == ST_OK;
        both = look(w, &all, OBJECTS) == ST_OK && both;
        check(both, "few rows, and all", lay->name);
        const struct top_retained *l = few.state;
        const struct top_retained *whole = all.state;
        check(same_rows(l, whole), "the first of all rows", lay->name);
        check(whole->graph.leaf_max == 0 && l->graph.nodes <= whole->graph.nodes &&
                  (l->graph.leaf_max > 0 || l->graph.nodes == whole->graph.nodes),
              "leaves are left out only if few rows are wanted", lay->name);
        left_out += l->graph.nodes < whole->graph.nodes;
        end_look(&few);
        end_look(&all);
        free_world(w);
    }
    check(left_out > 50, "leaves are left out", lay->name);
}

/* ---- snapshots, and slices -------------------------------------------------------------------- */

/* Both arrays are as long as the head declares, folded or not. */
static void test_snapshots(const struct layout *lay)
{
    static struct made m;
    for (unsigned i = 0; i < 100; i++) {
        struct world *w = make_heap(lay, &m);
        struct look l;
        uint64_t most = i % 4 == 0 ? ALL : 1 + draw(m.n);
        check(look_with(&snapshot_walker, w, &l, most) == ST_OK, "a snapshot", lay->name);
        const struct snapshot *s = l.state;
        check(s && s->nodes == 0 && s->edges == 0, "as many nodes and edges as it said", lay->name);
        check(s && s->nodes_n <= most + NODE_FIRST + ROOT_COUNT + 1, "no more than it may have",
              lay->name);
        end_look(&l);
        free_world(w);
    }
}

/* A hash of a snapshot's text, written in slices of `steps` steps. */
static uint64_t text_of(const struct world *w, uint64_t nodes, uint32_t steps)
{
    struct look_args args = {.max_words = ALL, .max_entries = nodes};
    struct slow slow;
    enum status st;
    uint64_t hash = 14695981039346656037U;
    slow_start(&slow, w, &snapshot_walker, &args);
    struct snapshot *s = slow.state;
    do {
        st = slow_slice(&slow, steps);
        for (size_t i = 0; s->text && st != ST_TIMESLICE && i < s->text_n; i++)
            hash = (hash ^ (unsigned char)s->text[i]) * 1099511628211U;
        if (st != ST_TIMESLICE)
            snapshot_taken(s);
    } while (st == ST_TIMESLICE || st == ST_ASK);
    check(st == ST_OK, "a snapshot in slices", w->vm.lay->name);
    slow_end(&slow);
    return hash;
}

static uint64_t mixed(uint64_t hash, uint64_t n)
{
    return (hash ^ n) * 1099511628211U;
}

static uint64_t tokens_as_number(uint64_t hash, const struct tokens *ts, size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        const struct token *t = &ts->list[i];
        uint64_t says = t->kind == TOKEN_WORD || t->kind == TOKEN_FLOAT ? t->word : t->n;
        hash = mixed(mixed(hash, (uint64_t)t->kind << 8 | t->shown), says);
    }
    return hash;
}

static uint64_t step_as_number(uint64_t hash, const struct top_retained *l, const struct edge *e)
{
    const struct path_step *s = &e->step;
    hash = mixed(mixed(mixed(hash, e->child), e->parent), (uint64_t)s->kind << 1 | e->known);
    hash = mixed(hash, s->index);
    if (s->kind == PATH_STEP_ELEMENT)
        hash = mixed(mixed(hash, s->arity), s->key);
    return tokens_as_number(hash, &l->tokens, e->key, e->key_n);
}

static uint64_t row_as_number(uint64_t hash, const struct top_retained *l, const struct large *r)
{
    hash = mixed(mixed(mixed(hash, r->place), r->retained), r->self);
    hash = mixed(mixed(mixed(hash, r->cut), r->kind), r->header);
    for (unsigned i = 0; i < r->n; i++)
        hash = step_as_number(hash, l, &l->edges[r->way[i]]);
    return tokens_as_number(hash, &l->tokens, r->preview, r->preview_n);
}

/* A hash of the rows, found in slices of `steps` steps. */
static uint64_t rows_of(const struct world *w, uint64_t rows, uint32_t steps)
{
    struct look_args args = {
        .want = TOP_RETAINED_CONTENT, .max_words = ALL, .max_entries = rows, .n = 1000};
    struct slow slow;
    enum status st;
    uint64_t hash = 14695981039346656037U;
    slow_start(&slow, w, &top_retained_walker, &args);
    const struct top_retained *l = slow.state;
    do
        st = slow_slice(&slow, steps);
    while (st == ST_TIMESLICE);
    check(st == ST_OK && l->n > 0, "rows in slices", w->vm.lay->name);
    for (size_t i = 0; i < l->n; i++)
        hash = row_as_number(hash, l, &l->rows[i]);
    for (size_t i = 0; i < l->heap.marks.n; i++)
        hash = mixed(hash, l->heap.marks.black[i]);
    for (unsigned i = 0; i < ROOT_COUNT; i++)
        hash = mixed(hash, l->heap.reached[i]);
    slow_end(&slow);
    return hash;
}

/* The result does not depend on where the slices end. */
static void test_slices(const struct layout *lay)
{
    static struct made m;
    for (unsigned i = 0; i < 60; i++) {
        struct world *w = make_heap(lay, &m);
        uint64_t most = i % 4 == 0 ? ALL : 1 + draw(m.n);
        uint64_t whole = text_of(w, most, UINT32_MAX);
        for (uint32_t steps = 2; steps < 60; steps += 1 + draw(10))
            check(text_of(w, most, steps) == whole, "the same in slices", lay->name);
        uint64_t rows = 1 + draw(OBJECTS);
        whole = rows_of(w, rows, UINT32_MAX);
        for (uint32_t steps = 2; steps < 40; steps += 1 + draw(6))
            check(rows_of(w, rows, steps) == whole, "the same rows in slices", lay->name);
        free_world(w);
    }
}

/* ---- what must not happen -------------------------------------------------------------------- */

static void no_memory(const struct layout *lay, const struct walker *walker, uint64_t n)
{
    static struct made m;
    struct look l;
    unsigned failures = 0;
    for (long at = 1; at < 60; at++) {
        rng = 99;
        struct world *w = make_heap(lay, &m);
        fail_at = at;
        enum status st = look_with(walker, w, &l, n);
        fail_at = 0;
        failures += st == ST_NOMEM;
        check(st == ST_OK || st == ST_NOMEM, "a failed allocation is an error", lay->name);
        end_look(&l);
        free_world(w);
    }
    check(failures >= 10, "allocations did fail", lay->name);
}

static void test_no_memory(const struct layout *lay)
{
    no_memory(lay, &top_retained_walker, 50);
    no_memory(lay, &snapshot_walker, ALL);
    no_memory(lay, &snapshot_walker, 50);
}

/* The heap changes during the walk, so the stamp would not match. The walk must still end. */
static void torn(const struct world *w, const struct made *m, const struct walker *walker,
                 uint64_t n)
{
    struct look_args args = {.want = TOP_RETAINED_CONTENT | SNAPSHOT_VALUES,
                             .max_words = ALL,
                             .max_entries = n,
                             .n = 1000};
    struct slow slow;
    enum status st;
    unsigned quiet = draw(400);
    slow_start(&slow, w, walker, &args);
    for (unsigned slices = 0;; slices++) {
        st = slow_slice_dropped(&slow, 20);
        if (st != ST_TIMESLICE || slices == 100000)
            break;
        unsigned at = draw(m->n);
        if (slices > quiet)
            put_word(m->at[at] + 8 * (uintptr_t)draw(m->words[at]),
                     draw(3) == 0 ? rng : m->term[draw(m->n)] + 8 * (uint64_t)draw(3));
    }
    check(st != ST_TIMESLICE, "a walk that is torn ends", w->vm.lay->name);
    slow_end(&slow);
}

static void test_torn(const struct layout *lay)
{
    static struct made m;
    for (unsigned i = 0; i < 300; i++) {
        struct world *w = make_heap(lay, &m);
        torn(w, &m, i % 2 == 0 ? &top_retained_walker : &snapshot_walker, i % 3 == 0 ? ALL : 20);
        free_world(w);
    }
}

int main(void)
{
    for (unsigned i = 0; i < layout_count(); i++) {
        const struct layout *lay = layout_table(i);
        test_random(lay);
        test_few_rows(lay);
        test_snapshots(lay);
        test_slices(lay);
        test_no_memory(lay);
        test_torn(lay);
    }
    return outcome();
}
