#include "graph/top_retained.h"

#include "util/alloc.h"
#include "util/fill.h"

#include <string.h>

enum stages {
    WALK,
    MAKE,
    DOMINATE,
    SELECT,
    SORT,
    ROWS,
    CHAINS,
    UNWANT,
    WANT,
    SEARCH,
    CLEAR,
    CLIMB,
    EDGES,
    SHOW,
    DONE
};

static const struct preview_limits of_row = {3, 10, 100};
static const struct preview_limits of_key = {2, 5, 20};

static void start(void *w, const struct reading *rd, const struct look_args *args)
{
    struct top_retained *l = w;
    memset(l, 0, sizeof *l);
    l->want = args->want;
    marking_start(&l->heap, rd, 0, args->max_words);
    graph_start(&l->graph, &l->heap, args->max_entries);
    dominators_start(&l->dominators, &l->graph);
    top_n_init(&l->top, args->max_entries);
}

static bool end(void *w)
{
    struct top_retained *l = w;
    if (!dominators_end(&l->dominators) || !graph_end(&l->graph))
        return false;
    top_n_free(&l->top);
    sonde_free(l->rows);
    sonde_free(l->edges);
    sonde_free(l->slots);
    preview_end(&l->tokens);
    marking_end(&l->heap);
    return true;
}

size_t top_retained_bytes(const struct top_retained *l)
{
    return sizeof *l - sizeof l->heap + marking_bytes(&l->heap) + graph_bytes(&l->graph) +
           dominators_bytes(&l->dominators) + l->top.cap * sizeof *l->top.rows +
           (l->rows ? l->top.n * sizeof *l->rows : 0) + l->edges_cap * sizeof *l->edges +
           (l->slots ? l->slots_n * sizeof *l->slots : 0) + l->tokens.cap * sizeof *l->tokens.list;
}

/* Marking is one of four passes over all words: mark, parts, links, order. */
static void progress(const void *w, uint64_t *done, uint64_t *total)
{
    const struct top_retained *l = w;
    uint64_t reached = marking_reached(&l->heap);
    *total = l->heap.words;
    *done =
        l->stage == WALK ? reached / 4 : reached / 4 + (uint64_t)(l->stage - WALK) * reached / DONE;
    if (*done > *total)
        *done = *total;
}

/* ---- which rows ----------------------------------------------------------------------------- */

/* Skips inner nodes: a row for a part of a map that several maps share, or for a pair of the
 * dictionary, would tell a reader nothing. Nodes are numbered in the order of their places; of equal
 * ones the first win. */
static enum status choose(struct top_retained *l, struct budget *b)
{
    const struct dominators *d = &l->dominators;
    for (; l->at < d->n; l->at++, l->place++) {
        enum status st =
            budget_step(b) ? graph_scan(&l->graph, l->graph.head, &l->place, b) : ST_TIMESLICE;
        if (st != ST_OK)
            return st;
        int64_t retained = d->retained[NODE_FIRST + l->at];
        if (bit_test(l->graph.inner, place_mark(l->place)) ||
            !top_n_may_take(&l->top, retained - 1))
            continue;
        struct row row = {retained, UINT32_MAX - l->place, l->place};
        if (!top_n_push(&l->top, &row))
            return ST_NOMEM;
    }
    return ST_OK;
}

static enum status allocate_rows(struct top_retained *l)
{
    size_t most = l->top.n * WAY_MAX < l->graph.nodes ? l->top.n * WAY_MAX : l->graph.nodes;
    for (l->slots_n = 16; l->slots_n < 2 * most;)
        l->slots_n *= 2;
    l->rows = sonde_alloc(l->top.n * sizeof *l->rows + 1);
    l->slots = sonde_alloc(l->slots_n * sizeof *l->slots);
    return l->rows && l->slots ? ST_OK : ST_NOMEM;
}

/* The own words of the rows that have many; their numbers are in `waiting'. */
static enum status large_rows(struct top_retained *l, struct budget *b)
{
    const struct dominators *d = &l->dominators;
    for (; l->large < d->large_n; l->large++) {
        uint32_t row = d->waiting[d->large[l->large].node];
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (row != NODE_NONE)
            l->rows[row].self = d->large[l->large].words;
    }
    return ST_OK;
}

static enum status make_rows(struct top_retained *l, struct budget *b)
{
    for (; l->n < l->top.n; l->n++) {
        struct large *r = &l->rows[l->n];
        if (!budget_step(b))
            return ST_TIMESLICE;
        memset(r, 0, sizeof *r);
        r->place = (uint32_t)l->top.rows[l->n].pid;
        r->node = graph_node(&l->graph, place_mark(r->place));
        r->retained = (uint64_t)l->top.rows[l->n].value;
        r->self = dominators_small(&l->dominators, r->node);
        l->dominators.waiting[r->node] = (uint32_t)l->n;
    }
    enum status st = large_rows(l, b);
    return st == ST_OK ? wipe(l->slots, sizeof *l->slots, l->slots_n, &l->at, b) : st;
}

/* ---- the shortest path: first its nodes, then the steps between them ----------------------------- */

/* Where the dominators of each row are its shortest path, nothing is searched for. A climb ends at the next row,
 * which climbs for both: `waiting' has the numbers of the rows. */
static enum status chains(struct top_retained *l, struct budget *b)
{
    const struct dominators *d = &l->dominators;
    l->parent = d->idom;
    for (; l->at < l->n; l->at++, l->climb = 0) {
        if (l->climb == 0)
            l->climb = l->rows[l->at].node;
        for (; l->climb >= NODE_FIRST; l->climb = d->idom[l->climb]) {
            if (!budget_step(b))
                return ST_TIMESLICE;
            if (l->climb != l->rows[l->at].node && d->waiting[l->climb] != NODE_NONE)
                break;
            if (!dominators_is_nearest(d, l->climb)) {
                l->parent = d->waiting;
                return ST_OK;
            }
        }
    }
    return ST_OK;
}

static enum status unwant(struct top_retained *l, struct budget *b)
{
    struct graph *g = &l->graph;
    if (dominators_drop_words(&l->dominators))
        return ST_TIMESLICE;
    if (!g->seen)
        g->seen = sonde_alloc(l->heap.marks.n * sizeof *g->seen + 1);
    return g->seen ? wipe(g->seen, sizeof *g->seen, l->heap.marks.n, &l->at, b) : ST_NOMEM;
}

/* A search fills `waiting' and, as its queue, `idom', which are free then. */
static bool must_search(const struct top_retained *l)
{
    return l->parent == l->dominators.waiting;
}

static void want(struct top_retained *l, uint32_t place)
{
    struct mark k = place_mark(place);
    l->graph.seen[k.at] |= k.bit;
}

static enum status want_rows(struct top_retained *l, struct budget *b)
{
    struct dominators *d = &l->dominators;
    for (; l->at < l->n; l->at++) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        want(l, l->rows[l->at].place);
        d->waiting[l->rows[l->at].node] = NODE_NONE;
    }
    bfs_start(&l->breadth, &l->graph, d->waiting, d->idom);
    l->breadth.want = l->graph.seen;
    l->breadth.wanted = l->n;
    return ST_OK;
}

/* The slot of a node's edge, or the free slot for it. */
static uint32_t *slot(const struct top_retained *l, uint32_t node)
{
    uint64_t hash = node * 0x9E3779B97F4A7C15ULL >> 32;
    for (;; hash++) {
        uint32_t *s = &l->slots[hash & (l->slots_n - 1)];
        if (*s == 0 || l->edges[*s - 1].child == node)
            return s;
    }
}

static enum status add_edge(struct top_retained *l, uint32_t child, uint32_t *number)
{
    uint32_t *s = slot(l, child);
    if (*s == 0) {
        if (l->edges_n == l->edges_cap && !SONDE_GROW(l->edges, l->edges_cap, 64))
            return ST_NOMEM;
        l->edges[l->edges_n] = (struct edge){.child = child, .parent = l->parent[child]};
        *s = (uint32_t)++l->edges_n;
        want(l, (uint32_t)graph_place(&l->graph, child));
    }
    *number = *s - 1;
    return ST_OK;
}

/* By node: where its path begins to be cut, that is its ancestor of depth WAY_BEGIN. 0: not known, or it is not
 * deeper than that. In the array of the two that has no parents. */
static uint32_t *begins(const struct top_retained *l)
{
    return must_search(l) ? l->dominators.idom : l->dominators.waiting;
}

/* The end of a long path is kept in order, its beginning in a ring. */
static void keep_node(struct top_retained *l, struct large *r)
{
    if (l->climbed < WAY_END)
        r->way[l->climbed] = l->climb;
    else
        l->begin[(l->climbed - WAY_END) % WAY_BEGIN] = l->climb;
    l->climbed++;
}

/* From a row up to its root. Where an earlier climb tells how the path begins, the middle of it is passed. */
static enum status climb_up(struct top_retained *l, struct large *r, struct budget *b)
{
    for (; l->climb >= NODE_FIRST; l->climb = l->parent[l->climb]) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (l->climb >= l->graph.nodes || l->climbed >= l->graph.nodes)
            return ST_TORN;
        if (l->climbed >= WAY_END && begins(l)[l->climb] != 0) {
            l->climb = begins(l)[l->climb];
            l->climbed++; /* for all that are left out */
        }
        keep_node(l, r);
    }
    return ST_OK;
}

/* Tells it to the climbs that come here later, up to where it is known. */
static enum status tell_begin(struct top_retained *l, struct budget *b)
{
    for (; l->climb != l->beginning && begins(l)[l->climb] == 0; l->climb = l->parent[l->climb]) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        begins(l)[l->climb] = l->beginning;
    }
    return ST_OK;
}

static enum status climb(struct top_retained *l, struct large *r, struct budget *b)
{
    if (l->climbed == 0)
        l->climb = r->node;
    enum status st = l->beginning == 0 ? climb_up(l, r, b) : ST_OK;
    if (st != ST_OK || l->climbed < WAY_MAX)
        return st;
    if (l->beginning == 0) {
        l->beginning = l->begin[(l->climbed - WAY_END) % WAY_BEGIN];
        l->climb = r->node;
    }
    st = tell_begin(l, b);
    l->beginning = st == ST_OK ? 0 : l->beginning;
    return st;
}

/* Puts the beginning of the path before its end, and turns the nodes into edges. */
static enum status keep_way(struct top_retained *l, struct large *r)
{
    uint32_t way[WAY_MAX] = {0};
    uint32_t above = l->climbed;
    r->n = 0;
    if (l->climbed > WAY_END) {
        uint32_t ring = l->climbed - WAY_END;
        r->cut = ring > WAY_BEGIN;
        for (; r->n < WAY_BEGIN && r->n < ring; r->n++)
            way[r->n] = l->begin[(ring - 1 - r->n) % WAY_BEGIN];
        above = WAY_END;
    }
    while (above > 0)
        way[r->n++] = r->way[--above];
    l->climbed = 0;
    for (unsigned i = 0; i < r->n; i++) {
        enum status st = add_edge(l, way[i], &r->way[i]);
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
}

static enum status climb_all(struct top_retained *l, struct budget *b)
{
    for (; l->at < l->n; l->at++) {
        enum status st = climb(l, &l->rows[l->at], b);
        if (st == ST_OK)
            st = keep_way(l, &l->rows[l->at]);
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
}

/* ---- steps ---------------------------------------------------------------------------------- */

/* The edge of this link from that node; NULL: no path uses it, or its step is known. */
static struct edge *edge_of(struct top_retained *l, uint32_t parent, const struct link *link)
{
    if (!bit_test(l->graph.seen, link->mark))
        return NULL;
    uint32_t s = *slot(l, graph_node(&l->graph, link->mark));
    struct edge *e = s != 0 ? &l->edges[s - 1] : NULL;
    bool fits = e && (e->parent == parent || (e->parent == NODE_ROOT && parent < NODE_FIRST));
    return fits && !e->known ? e : NULL;
}

/* A token is up to four words in as many places. */
static enum status preview(struct top_retained *l, const struct vm *vm, uint64_t word,
                           const struct preview_limits *limits, struct budget *b)
{
    size_t before = l->tokens.n;
    enum status st = preview_take(&l->tokens, &l->heap, vm, word, limits);
    budget_charge(b, (uint32_t)(4 * (l->tokens.n - before)));
    return st;
}

static enum status keep_key(struct top_retained *l, const struct vm *vm, struct edge *e,
                            struct budget *b)
{
    if (e->step.kind != PATH_STEP_KEY)
        return ST_OK;
    if (!(l->want & TOP_RETAINED_CONTENT) && !term_is_atom(e->step.key))
        return ST_OK;
    e->key = l->tokens.n;
    enum status st = preview(l, vm, e->step.key, &of_key, b);
    e->key_n = (uint8_t)(l->tokens.n - e->key);
    return st;
}

static enum status root_edges(struct top_retained *l, const struct reading *rd)
{
    struct link link;
    enum status st;
    while ((st = graph_root(&l->graph, &l->roots, rd, &link)) == ST_OK) {
        struct edge *e = edge_of(l, NODE_AREA + l->roots.root, &link);
        if (e) {
            path_step_root(&l->roots, &e->step);
            e->known = true;
        }
    }
    return st == ST_GONE ? ST_OK : st;
}

static enum status edges_of(struct top_retained *l, const struct vm *vm, uint32_t parent,
                            struct budget *b)
{
    struct link link;
    enum status st = ST_OK;
    if (!l->entered)
        st = inside_start(&l->graph, vm, graph_place(&l->graph, parent), &l->inside);
    l->entered = true;
    while (st == ST_OK && (st = inside_next(&l->graph, vm, &l->inside, b, &link)) == ST_OK) {
        struct edge *e = edge_of(l, parent, &link);
        if (e) {
            st = path_step_inside(&l->graph, vm, &l->inside, &link, &e->step);
            e->known = true;
            if (st == ST_OK)
                st = keep_key(l, vm, e, b);
        }
    }
    return st;
}

/* One walk over a parent's links resolves all edges from it. */
static enum status all_edges(struct top_retained *l, const struct vm *vm, struct budget *b)
{
    for (; l->at < l->edges_n; l->at++) {
        const struct edge *e = &l->edges[l->at];
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (e->known && !l->entered)
            continue;
        enum status st = e->parent < NODE_FIRST ? ST_GONE : edges_of(l, vm, e->parent, b);
        if (st != ST_GONE)
            return st;
        l->entered = false;
        if (!l->edges[l->at].known)
            return ST_TORN;
    }
    return ST_OK;
}

static enum status resolve(struct top_retained *l, const struct reading *rd)
{
    enum status st = l->roots_done ? ST_OK : root_edges(l, rd);
    l->roots_done = st == ST_OK;
    return st == ST_OK ? all_edges(l, rd->vm, rd->budget) : st;
}

/* ---- kind, preview and size of a row ---------------------------------------------------------- */

static enum status look_at(struct top_retained *l, const struct vm *vm, struct large *r,
                           struct budget *b)
{
    const struct edges *p = &l->inside.piece;
    uint64_t word = p->object | (p->kind == KIND_NONE ? TAG_LIST : TAG_BOXED);
    r->header = p->kind == KIND_NONE ? 0 : p->header;
    r->kind = p->kind;
    r->fun.free = p->words - edges_index(p, p->at);
    if (p->kind == KIND_FUN && !l->heap.nameless &&
        (!peek_word(vm->reader, p->object + 8, &r->fun.key) ||
         !fun_entry_read(vm, r->fun.key, r->fun.entry)))
        return ST_TORN;
    if (!(l->want & TOP_RETAINED_CONTENT))
        return ST_OK;
    r->preview = l->tokens.n;
    enum status st = preview(l, vm, word, &of_row, b);
    r->preview_n = l->tokens.n - r->preview;
    return st;
}

/* What belongs to a row only because it is a small leaf is no part of it. */
static enum status less_leaves(struct top_retained *l, const struct vm *vm, struct large *r,
                               struct budget *b)
{
    struct link link;
    enum status st = ST_OK;
    l->inside.tells_leaves = true;
    while (st == ST_OK)
        st = inside_next(&l->graph, vm, &l->inside, b, &link);
    if (st == ST_GONE)
        r->self -= l->inside.leaf_words < r->self ? l->inside.leaf_words : 0;
    return st == ST_GONE ? ST_OK : st;
}

static enum status show(struct top_retained *l, const struct vm *vm, struct budget *b)
{
    for (; l->at < l->n; l->at++) {
        struct large *r = &l->rows[l->at];
        enum status st = ST_OK;
        if (!l->entered) {
            if (!budget_step(b))
                return ST_TIMESLICE;
            st = inside_start(&l->graph, vm, r->place, &l->inside);
            if (st == ST_OK)
                st = look_at(l, vm, r, b);
        }
        l->entered = true;
        if (st == ST_OK && l->graph.leaf_max > 0)
            st = less_leaves(l, vm, r, b);
        if (st != ST_OK)
            return st;
        l->entered = false;
    }
    return ST_OK;
}

/* ---- stages --------------------------------------------------------------------------------- */

static enum status walk_stage(struct top_retained *l, const struct reading *rd)
{
    switch (l->stage) {
    case WALK:
        return marking_walk(&l->heap, rd);
    case MAKE:
        return graph_make(&l->graph, rd);
    case DOMINATE:
        return dominators_make(&l->dominators, rd);
    case SELECT:
        return choose(l, rd->budget);
    case SORT:
        return top_n_sort(&l->top, rd->budget) ? allocate_rows(l) : ST_TIMESLICE;
    case ROWS:
        return make_rows(l, rd->budget);
    case CHAINS:
        return chains(l, rd->budget);
    case UNWANT:
        return unwant(l, rd->budget);
    case WANT:
        return want_rows(l, rd->budget);
    case SEARCH:
        return must_search(l) ? bfs_walk(&l->breadth, rd) : ST_OK;
    case CLEAR:
        return wipe(begins(l), sizeof *begins(l), l->graph.nodes, &l->at, rd->budget);
    case CLIMB:
        return climb_all(l, rd->budget);
    case EDGES:
        return resolve(l, rd);
    default:
        return show(l, rd->vm, rd->budget);
    }
}

static enum status walk(void *w, const struct reading *rd)
{
    struct top_retained *l = w;
    while (l->stage != DONE) {
        enum status st = walk_stage(l, rd);
        size_t bytes = top_retained_bytes(l);
        l->peak = bytes > l->peak ? bytes : l->peak;
        if (st != ST_OK)
            return st;
        l->stage++;
        l->at = 0;
        l->entered = false;
        l->roots_done = false;
        roots_start(&l->roots, l->heap.collect.waiting);
    }
    return ST_OK;
}

const struct walker top_retained_walker = {
    sizeof(struct top_retained), marking_fields, start, walk, progress, end, 0};
