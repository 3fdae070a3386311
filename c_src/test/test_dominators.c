/* test_dominators.c: retained sizes on random heaps, compared with removing each object and
 * counting again; and snapshots of these heaps.
 * Knows: which object leads to which, because it built them.
 * Does not know: a real VM. */
#include "graph/top_retained.h"
#include "graph/snapshot.h"
#include "test/test_world.h"

enum { THINGS = 400, CHILDREN = 8, ROOTS = 6, ALL = 100000 };

/* The objects of a heap and their links. Objects lead only to earlier ones. */
struct made {
    unsigned n;
    unsigned words[THINGS];
    uintptr_t at[THINGS];
    uint64_t term[THINGS];
    unsigned children_n[THINGS];
    unsigned children[THINGS][CHILDREN];
    unsigned roots[ROOTS];
};

static uint64_t seed = 1;

static unsigned dice(unsigned n)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(seed >> 33) % (n > 0 ? n : 1);
}

static uint64_t small(uint64_t n)
{
    return n << 4 | 15;
}

static void poke(uintptr_t at, uint64_t word)
{
    memcpy((void *)at, &word, 8); // NOLINT(performance-no-int-to-ptr)
}

/* A process with terms in the fields that are roots. */
static char *process(struct world *w)
{
    char *p = make_process(w, 7);
    put(w, p, LF_group_leader, TERM_NIL);
    put(w, p, LF_parent, TERM_NIL);
    put(w, p, LF_seq_token, TERM_NIL);
    return p;
}

/* ---- heaps at random ------------------------------------------------------------------------ */

struct builder {
    struct world *w;
    char *process;
    struct made *m;
};

static uintptr_t take_words(const struct builder *b, unsigned words)
{
    uint64_t top = get(b->w, b->process, LF_htop);
    put(b->w, b->process, LF_htop, top + (uint64_t)words * 8);
    return top;
}

static uint64_t child(const struct builder *b, unsigned of, unsigned which)
{
    struct made *m = b->m;
    m->children[of][m->children_n[of]++] = which;
    return m->term[which];
}

/* An earlier object, usually a recent one, or a small integer. */
static uint64_t any(const struct builder *b, unsigned i)
{
    if (i == 0 || dice(4) == 0)
        return small(i);
    return child(b, i, dice(3) == 0 ? dice(i) : i - 1 - dice(i < 6 ? i : 6));
}

static unsigned map_header_bits(const struct layout *lay)
{
    for (unsigned k = 0; k < 16; k++) {
        if (lay->kinds[k] == KIND_MAP)
            return k << 2;
    }
    abort();
}

static void add_thing(const struct builder *b, unsigned words, uint64_t header, unsigned first)
{
    struct made *m = b->m;
    unsigned i = m->n;
    uintptr_t at = take_words(b, words);
    m->children_n[i] = 0;
    m->words[i] = words;
    m->at[i] = at;
    m->term[i] = at | (header ? TAG_BOXED : TAG_LIST);
    if (header)
        poke(at, header);
    for (unsigned k = first; k < words; k++)
        poke(at + (uintptr_t)k * 8, any(b, i));
    m->n++;
}

static void add_tuple(const struct builder *b)
{
    unsigned arity = 1 + dice(5);
    add_thing(b, 1 + arity, (uint64_t)arity << 6, 1);
}

static void add_cell(const struct builder *b)
{
    add_thing(b, 2, 0, 0);
}

/* A map and its keys, to which other objects may lead too. */
static void add_flatmap(const struct builder *b)
{
    add_thing(b, 3, 2 << 6, 1);
    unsigned i = b->m->n;
    add_thing(b, 5, 0x100 | map_header_bits(b->w->vm.lay), 3);
    poke(b->m->at[i] + 8, 2);
    poke(b->m->at[i] + 16, child(b, i, i - 1));
}

/* A large map: its head leads to a pair and to an inner node with two pairs. */
static void add_hashmap(const struct builder *b)
{
    uint64_t bits = map_header_bits(b->w->vm.lay);
    unsigned first = b->m->n;
    add_cell(b);
    add_cell(b);
    add_thing(b, 3, (uint64_t)3 << 16 | MAP_NODE << 6 | bits, 3);
    poke(b->m->at[first + 2] + 8, child(b, first + 2, first));
    poke(b->m->at[first + 2] + 16, child(b, first + 2, first + 1));
    add_cell(b);
    add_thing(b, 4, (uint64_t)3 << 16 | MAP_HEAD_BITMAP << 6 | bits, 4);
    poke(b->m->at[first + 4] + 8, 3);
    poke(b->m->at[first + 4] + 16, child(b, first + 4, first + 2));
    poke(b->m->at[first + 4] + 24, child(b, first + 4, first + 3));
}

/* {Number, Second}, or a cell [First | Second]; Second may be []. */
static unsigned add_pair(const struct builder *b, bool is_cell, unsigned first, unsigned second)
{
    unsigned i = b->m->n;
    add_thing(b, is_cell ? 2 : 3, is_cell ? 0 : 2 << 6, 3);
    uintptr_t at = b->m->at[i] + (is_cell ? 0 : 8);
    poke(at, is_cell ? child(b, i, first) : small(i));
    poke(at + 8, second < i ? child(b, i, second) : TERM_NIL);
    return i;
}

/* A dictionary: one bucket is a pair {Key, Value}, one a list of such pairs. */
static void make_dictionary(const struct builder *b, unsigned *pair, unsigned *list)
{
    const struct layout *lay = b->w->vm.lay;
    unsigned n = b->m->n;
    char *dict = make(b->w, LF(lay, dict_head) + 24);
    *pair = add_pair(b, false, 0, dice(n));
    *list = add_pair(b, true, add_pair(b, false, 0, dice(n)), THINGS);
    for (unsigned i = dice(3); i > 0; i--)
        *list = add_pair(b, true, add_pair(b, false, 0, dice(n)), *list);
    put(b->w, dict, LF_dict_used, 3);
    poke(address(dict) + LF(lay, dict_head), TERM_NIL);
    poke(address(dict) + LF(lay, dict_head) + 8, b->m->term[*pair]);
    poke(address(dict) + LF(lay, dict_head) + 16, b->m->term[*list]);
    put(b->w, b->process, LF_dictionary, address(dict));
}

static void send(const struct builder *b, enum layout_field queue, uint64_t term)
{
    char *message = make(b->w, LF(b->w->vm.lay, msg_size));
    const uint64_t terms[] = {term, TERM_NIL, small(1)};
    memcpy(message + LF(b->w->vm.lay, msg_tag), terms, sizeof terms);
    put(b->w, message, LF_msg_next, get(b->w, b->process, queue));
    put(b->w, b->process, queue, address(message));
}

static void push_roots(const struct builder *b)
{
    struct made *m = b->m;
    uint64_t stop = get(b->w, b->process, LF_hend);
    unsigned n = m->n;
    for (unsigned i = 0; i < ROOTS; i++)
        m->roots[i] = i == 0 ? n - 1 : dice(n);
    make_dictionary(b, &m->roots[2], &m->roots[3]);
    send(b, LF_sig_first, m->term[m->roots[4]]);
    send(b, LF_inq_first, m->term[m->roots[5]]);
    for (unsigned i = 0; i < 2; i++) {
        stop -= 8;
        poke(stop, m->term[m->roots[i]]);
    }
    put(b->w, b->process, LF_stop, stop);
}

static struct world *make_heap(const struct layout *lay, struct made *m)
{
    struct builder b = {new_world(lay), NULL, m};
    unsigned n = 2 + dice(THINGS - 20);
    b.process = process(b.w);
    for (m->n = 0; m->n < n;) {
        switch (dice(10)) {
        case 0:
            add_flatmap(&b);
            break;
        case 1:
            add_hashmap(&b);
            break;
        case 2:
        case 3:
        case 4:
            add_tuple(&b);
            break;
        default:
            add_cell(&b);
        }
    }
    push_roots(&b);
    return b.w;
}

/* ---- taking away and counting again ---------------------------------------------------------- */

static uint64_t reached_without(const struct made *m, unsigned without)
{
    bool seen[THINGS] = {false};
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

static unsigned thing_at(const struct made *m, uintptr_t at)
{
    for (unsigned i = 0; i < m->n; i++) {
        if (m->at[i] == at)
            return i;
    }
    return m->n;
}

/* ---- one look ------------------------------------------------------------------------------- */

/* n: the limit of rows or nodes. */
static enum status look_with(const struct walker *walker, struct world *w, struct look *l,
                             uint64_t n)
{
    struct look_args args = {.want = TOP_RETAINED_CONTENT | SNAPSHOT_VALUES,
                             .max_words = ALL,
                             .max_entries = n,
                             .n = 1000};
    enum status st = look_start(l, &w->vm, 7, (uintptr_t)w->table[7], walker, &args);
    if (st != ST_OK)
        return st;
    do {
        st = look_step(l, w->vm.reader, NOTHING);
        if (st == ST_ASK) {
            snapshot_taken(l->state);
            l->st = st = ST_TIMESLICE;
        }
    } while (st == ST_TIMESLICE);
    return st;
}

static enum status look(struct world *w, struct look *l, uint64_t rows)
{
    return look_with(&top_retained_walker, w, l, rows);
}

static void check_rows(const struct made *m, const struct top_retained *l, const char *name)
{
    uint64_t all = reached_without(m, THINGS);
    uint64_t self = 0;
    bool right = true;
    bool sorted = true;
    for (size_t i = 0; i < l->n; i++) {
        const struct large *r = &l->rows[i];
        unsigned object = thing_at(m, graph_address(&l->graph, r->place));
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
        check(look(w, &l, THINGS) == ST_OK, "a heap at random", lay->name);
        if (l.st == ST_OK)
            check_rows(&m, l.state, lay->name);
        while (!look_end(&l, 0)) {
        }
        free_world(w);
    }
}

/* ---- shapes that are expensive to walk up step by step --------------------------------------- */

/* Nested tuples {Next, Shared}: the search for the dominator of Shared starts at each of them. */
static uint64_t deep(struct world *w, char *p, unsigned n)
{
    uint64_t top = get(w, p, LF_htop);
    uint64_t shared = top | TAG_BOXED;
    uint64_t next = small(0);
    poke(top, 1 << 6);
    poke(top + 8, small(1));
    top += 16;
    for (unsigned i = 0; i < n; i++, top += 24) {
        poke(top, 2 << 6);
        poke(top + 8, next);
        poke(top + 16, shared);
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
    poke(top, 1 << 6);
    poke(top + 8, small(1));
    top += 16;
    for (unsigned i = 0; i < n; i++, top += 16) {
        poke(top, shared);
        poke(top + 8, next);
        next = top | TAG_LIST;
    }
    put(w, p, LF_htop, top);
    return next;
}

static uint64_t steps_for(struct world *w, struct top_retained *l, const struct plan *plan,
                          const struct view *view)
{
    struct look_args args = {.max_words = ALL, .max_entries = 10, .n = 1000};
    uint64_t steps = 0;
    enum status st;
    struct budget b;
    const struct reading rd = {&w->vm, plan, view, &b};
    top_retained_walker.start(l, &rd, &args);
    do {
        b = (struct budget){1000, false};
        st = top_retained_walker.walk(l, &rd);
        steps += 1000;
    } while (st == ST_TIMESLICE && steps < 100 * (uint64_t)HEAP_WORDS);
    check(st == ST_OK, "a dear shape", w->vm.lay->name);
    return steps;
}

static void test_dear(const struct layout *lay)
{
    static uint64_t (*const shapes[])(struct world *, char *, unsigned) = {deep, same};
    for (unsigned i = 0; i < 2; i++) {
        struct world *w = new_world(lay);
        struct top_retained *l = malloc(sizeof *l);
        struct plan plan;
        struct view view;
        enum layout_field fields[MARKING_FIELDS_MAX];
        char *p = process(w);
        uint64_t root = shapes[i](w, p, 12000);
        uint64_t stop = get(w, p, LF_stop);
        poke(stop, root);
        marking_fields(fields);
        plan_make(&plan, lay, STATE_UNSETTLED, LOCK_MAIN, fields);
        if (!l || stamp_open(&w->vm, &plan, 7, address(p), &view) != ST_OK)
            abort();
        uint64_t steps = steps_for(w, l, &plan, &view);
        check(steps < 45 * (uint64_t)HEAP_WORDS, "no more than a logarithm for each link",
              lay->name);
        check(l->n > 0 && l->rows[0].retained == marking_reached(&l->heap),
              "what is at the root retains all", lay->name);
        check(l->n < 2 || i == 0 || l->rows[1].retained == 2, "what is shared retains itself",
              lay->name);
        while (!top_retained_walker.end(l)) {
        }
        free(l);
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
        seed = 99;
        struct world *w = make_heap(lay, &m);
        fail_at = at;
        enum status st = look_with(walker, w, &l, n);
        fail_at = 0;
        failures += st == ST_NOMEM;
        check(st == ST_OK || st == ST_NOMEM, "a failed allocation is an error", lay->name);
        while (!look_end(&l, 0)) {
        }
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

/* Both arrays are as long as the head declares, folded or not. */
static void test_snapshots(const struct layout *lay)
{
    static struct made m;
    for (unsigned i = 0; i < 100; i++) {
        struct world *w = make_heap(lay, &m);
        struct look l;
        uint64_t most = i % 4 == 0 ? ALL : 1 + dice(m.n);
        check(look_with(&snapshot_walker, w, &l, most) == ST_OK, "a snapshot", lay->name);
        const struct snapshot *s = l.state;
        check(s && s->nodes == 0 && s->edges == 0, "as many nodes and edges as it said", lay->name);
        check(s && s->nodes_n <= most + NODE_FIRST + ROOT_COUNT + 1, "no more than it may have",
              lay->name);
        while (!look_end(&l, 0)) {
        }
        free_world(w);
    }
}

/* A hash of a snapshot's text, written in slices of `steps` steps. */
static uint64_t text_of(struct world *w, uint64_t nodes, uint32_t steps)
{
    struct look_args args = {.max_words = ALL, .max_entries = nodes};
    struct plan plan;
    struct view view;
    enum layout_field fields[MARKING_FIELDS_MAX];
    enum status st;
    uint64_t hash = 14695981039346656037U;
    struct snapshot *s = malloc(sizeof *s);
    marking_fields(fields);
    plan_make(&plan, w->vm.lay, STATE_UNSETTLED, LOCK_MAIN, fields);
    if (!s || stamp_open(&w->vm, &plan, 7, (uintptr_t)w->table[7], &view) != ST_OK)
        abort();
    struct budget b;
    const struct reading rd = {&w->vm, &plan, &view, &b};
    snapshot_walker.start(s, &rd, &args);
    do {
        b = (struct budget){steps, false};
        st = snapshot_walker.walk(s, &rd);
        for (size_t i = 0; s->text && st != ST_TIMESLICE && i < s->text_n; i++)
            hash = (hash ^ (unsigned char)s->text[i]) * 1099511628211U;
        if (st != ST_TIMESLICE)
            snapshot_taken(s);
    } while (st == ST_TIMESLICE || st == ST_ASK);
    check(st == ST_OK, "a snapshot in slices", w->vm.lay->name);
    while (!snapshot_walker.end(s)) {
    }
    free(s);
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
static uint64_t rows_of(struct world *w, uint64_t rows, uint32_t steps)
{
    struct look_args args = {
        .want = TOP_RETAINED_CONTENT, .max_words = ALL, .max_entries = rows, .n = 1000};
    struct plan plan;
    struct view view;
    enum layout_field fields[MARKING_FIELDS_MAX];
    enum status st;
    uint64_t hash = 14695981039346656037U;
    struct top_retained *l = malloc(sizeof *l);
    marking_fields(fields);
    plan_make(&plan, w->vm.lay, STATE_UNSETTLED, LOCK_MAIN, fields);
    if (!l || stamp_open(&w->vm, &plan, 7, (uintptr_t)w->table[7], &view) != ST_OK)
        abort();
    struct budget b;
    const struct reading rd = {&w->vm, &plan, &view, &b};
    top_retained_walker.start(l, &rd, &args);
    do {
        b = (struct budget){steps, false};
        st = top_retained_walker.walk(l, &rd);
    } while (st == ST_TIMESLICE);
    check(st == ST_OK && l->n > 0, "rows in slices", w->vm.lay->name);
    for (size_t i = 0; i < l->n; i++)
        hash = row_as_number(hash, l, &l->rows[i]);
    for (size_t i = 0; i < l->heap.marks.n; i++)
        hash = mixed(hash, l->heap.marks.black[i]);
    for (unsigned i = 0; i < ROOT_COUNT; i++)
        hash = mixed(hash, l->heap.reached[i]);
    while (!top_retained_walker.end(l)) {
    }
    free(l);
    return hash;
}

/* The result does not depend on where the slices end. */
static void test_slices(const struct layout *lay)
{
    static struct made m;
    for (unsigned i = 0; i < 60; i++) {
        struct world *w = make_heap(lay, &m);
        uint64_t most = i % 4 == 0 ? ALL : 1 + dice(m.n);
        uint64_t whole = text_of(w, most, UINT32_MAX);
        for (uint32_t steps = 2; steps < 60; steps += 1 + dice(10))
            check(text_of(w, most, steps) == whole, "the same in slices", lay->name);
        uint64_t rows = 1 + dice(THINGS);
        whole = rows_of(w, rows, UINT32_MAX);
        for (uint32_t steps = 2; steps < 40; steps += 1 + dice(6))
            check(rows_of(w, rows, steps) == whole, "the same rows in slices", lay->name);
        free_world(w);
    }
}

/* The heap changes during the walk, so the stamp would not match. The walk must still end. */
static void torn(struct world *w, const struct made *m, const struct walker *walker, uint64_t n)
{
    struct look_args args = {.want = TOP_RETAINED_CONTENT | SNAPSHOT_VALUES,
                             .max_words = ALL,
                             .max_entries = n,
                             .n = 1000};
    struct plan plan;
    struct view view;
    enum layout_field fields[MARKING_FIELDS_MAX];
    enum status st;
    unsigned quiet = dice(400);
    void *state = malloc(walker->size);
    marking_fields(fields);
    plan_make(&plan, w->vm.lay, STATE_UNSETTLED, LOCK_MAIN, fields);
    if (!state || stamp_open(&w->vm, &plan, 7, (uintptr_t)w->table[7], &view) != ST_OK)
        abort();
    struct budget b;
    const struct reading rd = {&w->vm, &plan, &view, &b};
    walker->start(state, &rd, &args);
    for (unsigned slices = 0;; slices++) {
        b = (struct budget){20, false};
        st = walker->walk(state, &rd);
        if (st == ST_ASK)
            snapshot_taken(state);
        if ((st != ST_TIMESLICE && st != ST_ASK) || slices == 100000)
            break;
        unsigned at = dice(m->n);
        if (slices > quiet)
            poke(m->at[at] + 8 * (uintptr_t)dice(m->words[at]),
                 dice(3) == 0 ? seed : m->term[dice(m->n)] + 8 * (uint64_t)dice(3));
    }
    check(st != ST_TIMESLICE && st != ST_ASK, "a walk that is torn ends", w->vm.lay->name);
    while (!walker->end(state)) {
    }
    free(state);
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

/* After `after` slices the root moves to the last cell of its list, which is no node and has no
 * node behind it. Returns false if the walk ended before that. */
static bool root_moves(const struct layout *lay, const struct walker *walker, unsigned after)
{
    struct look_args args = {.max_words = ALL, .max_entries = ALL, .n = 1000};
    struct world *w = new_world(lay);
    char *p = process(w);
    struct plan plan;
    struct view view;
    enum layout_field fields[MARKING_FIELDS_MAX];
    enum status st;
    unsigned slices = 0;
    void *state = malloc(walker->size);
    uint64_t top = get(w, p, LF_htop);
    poke(get(w, p, LF_stop), top | TAG_LIST);
    for (unsigned i = 0; i < 5; i++, top += 16) {
        poke(top, small(i));
        poke(top + 8, i == 4 ? TERM_NIL : (top + 16) | TAG_LIST);
    }
    put(w, p, LF_htop, top);
    marking_fields(fields);
    plan_make(&plan, lay, STATE_UNSETTLED, LOCK_MAIN, fields);
    if (!state || stamp_open(&w->vm, &plan, 7, address(p), &view) != ST_OK)
        abort();
    struct budget b;
    const struct reading rd = {&w->vm, &plan, &view, &b};
    walker->start(state, &rd, &args);
    do {
        b = (struct budget){2, false};
        st = walker->walk(state, &rd);
        if (st == ST_ASK)
            snapshot_taken(state);
        if (++slices == after)
            poke(get(w, p, LF_stop), (top - 16) | TAG_LIST);
    } while ((st == ST_TIMESLICE || st == ST_ASK) && slices < 100000);
    check(st == ST_OK || st == ST_TORN, "a root that moves is torn, or comes too late", lay->name);
    while (!walker->end(state)) {
    }
    free(state);
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

/* ---- what a slice may do ---------------------------------------------------------------------- */

static uint64_t cell(struct world *w, char *p, uint64_t head, uint64_t tail)
{
    uint64_t top = get(w, p, LF_htop);
    poke(top, head);
    poke(top + 8, tail);
    put(w, p, LF_htop, top + 16);
    return top | TAG_LIST;
}

static uint64_t real(struct world *w, char *p)
{
    uint64_t top = get(w, p, LF_htop);
    poke(top, 0x58);
    put(w, p, LF_htop, top + 16);
    return top | TAG_BOXED;
}

/* A list of floats, which have no links; at its end a list that takes long. */
static struct world *many_leaves(const struct layout *lay)
{
    struct world *w = new_world(lay);
    char *p = process(w);
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
    poke(get(w, p, LF_stop), list);
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
    struct plan plan;
    struct view view;
    enum layout_field fields[MARKING_FIELDS_MAX];
    enum status st;
    bool right = true;
    unsigned stages = 0;
    void *state = malloc(walker->size);
    marking_fields(fields);
    plan_make(&plan, lay, STATE_UNSETTLED, LOCK_MAIN, fields);
    if (!state || stamp_open(&w->vm, &plan, 7, (uintptr_t)w->table[7], &view) != ST_OK)
        abort();
    struct budget b;
    const struct reading rd = {&w->vm, &plan, &view, &b};
    walker->start(state, &rd, &args);
    do {
        struct progress before = progress_of(walker, state);
        b = (struct budget){STEPS, false};
        st = walker->walk(state, &rd);
        if (st == ST_ASK)
            snapshot_taken(state);
        struct progress now = progress_of(walker, state);
        stages |= 1U << now.stage;
        right = right && (before.dominators != now.dominators || little(before.n, now.n, STEPS)) &&
                little(before.at, now.at, STEPS) &&
                (before.stage != now.stage || little(before.node, now.node, 256 * STEPS));
    } while (st == ST_TIMESLICE || st == ST_ASK);
    check(st == ST_OK && right, "no slice does more than its steps", lay->name);
    check(walker != &top_retained_walker || n < ALL || (stages & (stages + 1)) == 0,
          "no stage with many rows is done at once", lay->name);
    while (!walker->end(state)) {
    }
    free(state);
    free_world(w);
}

static void test_steps(const struct layout *lay)
{
    steps_of(lay, &top_retained_walker, 10);
    steps_of(lay, &top_retained_walker, ALL);
    steps_of(lay, &snapshot_walker, ALL);
    steps_of(lay, &snapshot_walker, 1000);
}

/* A map without pairs, where each node leads to the next sixteen times. No VM builds such a map,
 * but a read during a write may see one. */
static void test_barren_map(const struct layout *lay)
{
    enum { LEVELS = 14 };
    struct world *w = new_world(lay);
    char *p = process(w);
    uint64_t bits = map_header_bits(lay);
    uint64_t at = get(w, p, LF_htop);
    struct look l;
    uint64_t below = at | TAG_BOXED;
    poke(at, MAP_NODE << 6 | bits);
    at += 8;
    for (unsigned i = 0; i < LEVELS; i++) {
        bool is_head = i == LEVELS - 1;
        uint64_t node = at;
        poke(at, (uint64_t)0xFFFF << 16 | (is_head ? MAP_HEAD_ARRAY : MAP_NODE) << 6 | bits);
        poke(at + 8, 40);
        at += is_head ? 16 : 8;
        for (unsigned k = 0; k < 16; k++, at += 8)
            poke(at, below);
        below = node | TAG_BOXED;
    }
    put(w, p, LF_htop, at);
    poke(get(w, p, LF_stop), below);
    check(look(w, &l, 10) == ST_TORN, "a map without pairs has no preview", lay->name);
    while (!look_end(&l, 0)) {
    }
    free_world(w);
}

int main(void)
{
    for (unsigned i = 0; i < layout_count(); i++) {
        const struct layout *lay = layout_table(i);
        test_random(lay);
        test_dear(lay);
        test_snapshots(lay);
        test_slices(lay);
        test_steps(lay);
        test_no_memory(lay);
        test_torn(lay);
        test_root_moves(lay);
        test_barren_map(lay);
    }
    return outcome();
}
