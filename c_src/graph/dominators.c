#include "graph/dominators.h"

#include "util/alloc.h"
#include "util/fill.h"

#include <string.h>

enum stages { COUNT, ALLOCATE, CLEAR_JOINS, CLEAR_IDOM, TAKE_ROOTS, TAKE, FORGET, ADD, DONE };

void dominators_start(struct dominators *d, struct graph *g)
{
    memset(d, 0, sizeof *d);
    d->g = g;
}

bool dominators_end(struct dominators *d)
{
    return !(SONDE_DROP(d->waiting) || SONDE_DROP(d->idom) || SONDE_DROP(d->retained) ||
             SONDE_DROP(d->order) || SONDE_DROP(d->joins) || dominators_drop_words(d));
}

size_t dominators_bytes(const struct dominators *d)
{
    size_t n = d->nodes;
    return (d->waiting ? n * sizeof *d->waiting : 0) +
           (d->order ? n * 3 * sizeof *d->order + n / 8 : 0) + (d->small ? n / 2 : 0) +
           d->large_cap * sizeof *d->large;
}

/* The graph's degrees are freed before the other arrays are allocated. */
static enum status degrees(struct dominators *d, struct budget *b)
{
    d->nodes = d->g->nodes;
    if (!d->waiting)
        d->waiting = sonde_alloc(d->nodes * sizeof *d->waiting);
    return d->waiting ? graph_degrees(d->g, d->waiting, b) : ST_NOMEM;
}

static enum status allocate(struct dominators *d)
{
    size_t n = d->nodes;
    d->idom = sonde_alloc(n * sizeof *d->idom);
    d->retained = sonde_alloc(n * sizeof *d->retained);
    d->order = sonde_alloc(n * sizeof *d->order);
    d->small = sonde_alloc(n / 2 + 1);
    d->joins = sonde_alloc((n / 64 + 1) * sizeof *d->joins);
    return d->idom && d->retained && d->order && d->small && d->joins ? ST_OK : ST_NOMEM;
}

/* ---- ancestors ------------------------------------------------------------------------------ */

/* While the tree grows, `waiting' has a node's depth and `retained' its ancestor further up. */
static uint32_t depth(const struct dominators *d, uint32_t node)
{
    return d->waiting[node];
}

static uint32_t up(const struct dominators *d, uint32_t node)
{
    return d->retained[node];
}

/* Two jumps of the same length become one that is twice as long. */
static void settle(struct dominators *d, uint32_t node, uint32_t parent)
{
    uint32_t far = up(d, parent);
    uint32_t farther = up(d, far);
    bool same = depth(d, parent) - depth(d, far) == depth(d, far) - depth(d, farther);
    d->idom[node] = parent;
    d->waiting[node] = depth(d, parent) + 1;
    d->retained[node] = same ? farther : parent;
}

/* The nearest common ancestor. It takes steps, but continues if none are left. */
static uint32_t common(const struct dominators *d, uint32_t x, uint32_t y, struct budget *b)
{
    while (x != y) {
        if (depth(d, x) < depth(d, y)) {
            uint32_t z = x;
            x = y;
            y = z;
        }
        (void)budget_step(b);
        if (depth(d, x) == depth(d, y)) {
            bool together = up(d, x) == up(d, y);
            x = together ? d->idom[x] : up(d, x);
            y = together ? d->idom[y] : up(d, y);
        } else {
            x = depth(d, up(d, x)) >= depth(d, y) ? up(d, x) : d->idom[x];
        }
    }
    return x;
}

/* ---- nodes, each after all nodes that lead to it ---------------------------------------------- */

/* Handles one link. false: the node has more links than were counted. */
static bool meet(struct dominators *d, uint32_t parent, const struct link *link, struct budget *b)
{
    uint32_t node = graph_node(d->g, link->mark);
    if (node >= d->nodes || d->waiting[node] == 0 || d->end == d->n)
        return false;
    uint32_t idom = d->idom[node];
    d->idom[node] = idom == NODE_NONE ? parent : common(d, idom, parent, b);
    if (idom == NODE_NONE && parent >= NODE_FIRST && d->waiting[node] > 1)
        d->joins[node / 64] |= 1ULL << (node % 64);
    if (--d->waiting[node] == 0) {
        settle(d, node, d->idom[node]);
        d->order[--d->end] = (uint32_t)mark_place(link->mark);
        peek_prefetch(link->to);
    }
    return true;
}

static void start_areas(struct dominators *d)
{
    d->idom[NODE_ROOT] = d->waiting[NODE_ROOT] = d->retained[NODE_ROOT] = NODE_ROOT;
    for (uint32_t i = NODE_AREA; i < NODE_FIRST; i++)
        settle(d, i, NODE_ROOT);
    d->n = 0;
    d->end = d->nodes;
}

static enum status take_roots(struct dominators *d, const struct reading *rd)
{
    struct link link;
    enum status st;
    while ((st = graph_root(d->g, &d->roots, rd, &link)) == ST_OK) {
        if (!meet(d, NODE_AREA + d->roots.root, &link, rd->budget))
            return ST_TORN;
    }
    return st == ST_GONE ? ST_OK : st;
}

/* The next waiting node. GONE: all are taken. TORN: none waits, but some were never reached. */
static enum status next_node(struct dominators *d, const struct vm *vm)
{
    if (d->end == d->nodes)
        return d->n == d->nodes - NODE_FIRST ? ST_GONE : ST_TORN;
    uint32_t place = d->order[d->end++];
    d->order[d->n++] = place;
    d->node = graph_node(d->g, place_mark(place));
    d->entered = true;
    return inside_start(d->g, vm, place, &d->inside);
}

/* All nodes together have at most the words of the heap. */
static enum status keep_words(struct dominators *d)
{
    uint64_t words = d->inside.words;
    d->words += words;
    if (d->words > d->g->heap->words)
        return ST_TORN;
    uint32_t k = d->n - 1;
    uint8_t few = words < DOMINATORS_LARGE ? (uint8_t)words : DOMINATORS_LARGE;
    d->small[k / 2] = (uint8_t)(k % 2 == 0 ? few : d->small[k / 2] | few << 4);
    if (words < DOMINATORS_LARGE)
        return ST_OK;
    if (d->large_n == d->large_cap && !SONDE_GROW(d->large, d->large_cap, 64))
        return ST_NOMEM;
    d->large[d->large_n++] = (uint32_t)words;
    d->large_at = d->large_n;
    return ST_OK;
}

static enum status take(struct dominators *d, const struct vm *vm, struct budget *b)
{
    for (;;) {
        struct link link;
        enum status st = ST_OK;
        if (!d->entered) {
            st = budget_step(b) ? next_node(d, vm) : ST_TIMESLICE;
            if (st != ST_OK)
                return st == ST_GONE ? ST_OK : st;
        }
        while ((st = inside_next(d->g, vm, &d->inside, b, &link)) == ST_OK) {
            if (!meet(d, d->node, &link, b))
                return ST_TORN;
        }
        if (st == ST_GONE)
            st = keep_words(d);
        if (st != ST_OK)
            return st;
        d->entered = false;
    }
}

/* ---- sizes ---------------------------------------------------------------------------------- */

static void add_areas(struct dominators *d)
{
    for (uint32_t i = NODE_AREA; i < NODE_FIRST; i++)
        d->retained[NODE_ROOT] += d->retained[i];
}

/* Backwards, so that a node's retained size is complete before it is added to its dominator's. */
static enum status add(struct dominators *d, struct budget *b)
{
    while (d->n > 0) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        uint32_t node = graph_node(d->g, place_mark(d->order[--d->n]));
        d->retained[node] += dominators_words(d, d->n, &d->large_at);
        d->retained[d->idom[node]] += d->retained[node];
    }
    d->n = d->nodes - NODE_FIRST;
    add_areas(d);
    /* every reached word is counted exactly once */
    return d->retained[NODE_ROOT] == marking_reached(d->g->heap) ? ST_OK : ST_TORN;
}

/* ---- stages --------------------------------------------------------------------------------- */

static enum status make_stage(struct dominators *d, const struct reading *rd)
{
    switch (d->stage) {
    case COUNT:
        return degrees(d, rd->budget);
    case ALLOCATE:
        return allocate(d);
    case CLEAR_JOINS:
        return wipe(d->joins, sizeof *d->joins, d->nodes / 64 + 1, &d->at, rd->budget);
    case CLEAR_IDOM:
        return fill(d->idom, d->nodes, &d->done, NODE_NONE, rd->budget);
    case TAKE_ROOTS:
        return take_roots(d, rd);
    case TAKE:
        return take(d, rd->vm, rd->budget);
    case FORGET:
        return fill(d->retained, d->nodes, &d->done, 0, rd->budget);
    default:
        return add(d, rd->budget);
    }
}

enum status dominators_make(struct dominators *d, const struct reading *rd)
{
    while (d->stage != DONE) {
        enum status st = make_stage(d, rd);
        if (st != ST_OK)
            return st;
        d->done = 0;
        d->entered = false;
        roots_start(&d->roots, d->g->heap->collect.waiting);
        if (++d->stage == TAKE_ROOTS)
            start_areas(d);
    }
    return ST_OK;
}
