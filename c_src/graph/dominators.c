#include "graph/dominators.h"

#include "util/alloc.h"
#include "util/fill.h"

#include <string.h>

enum stages {
    COUNT,
    ALLOCATE,
    CLEAR_JOINS,
    CLEAR_WORDS,
    CLEAR_IDOM,
    TAKE_ROOTS,
    TAKE,
    FORGET,
    CHILDREN,
    OWN,
    OWN_LARGE,
    ADD,
    DONE
};

/* Nodes in the order of their numbers are mostly near their dominators. */
enum { NEAR_STEP = 8 };

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

static size_t bytes_of_words(const struct dominators *d)
{
    return d->nodes / 2 + 1;
}

static size_t words_of_joins(const struct dominators *d)
{
    return d->nodes / 64 + 1;
}

size_t dominators_bytes(const struct dominators *d)
{
    size_t n = d->nodes;
    return (d->waiting ? n * sizeof *d->waiting : 0) +
           (d->joins ? n * 2 * sizeof *d->idom + words_of_joins(d) * sizeof *d->joins : 0) +
           (d->order ? n * sizeof *d->order : 0) + (d->small ? bytes_of_words(d) : 0) +
           (d->large ? d->large_cap * sizeof *d->large : 0);
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
    d->small = sonde_alloc(bytes_of_words(d));
    d->joins = sonde_alloc(words_of_joins(d) * sizeof *d->joins);
    if (d->ordered)
        d->order = sonde_alloc(n * sizeof *d->order);
    bool ordered = !d->ordered || d->order;
    return d->idom && d->retained && d->small && d->joins && ordered ? ST_OK : ST_NOMEM;
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
static bool meet(struct dominators *d, const struct vm *vm, uint32_t parent,
                 const struct link *link, struct budget *b)
{
    uint32_t node = graph_node(d->g, link->mark);
    if (node >= d->nodes || d->waiting[node] == 0)
        return false;
    uint32_t idom = d->idom[node];
    d->idom[node] = idom == NODE_NONE ? parent : common(d, idom, parent, b);
    if (idom == NODE_NONE && parent >= NODE_FIRST && d->waiting[node] > 1)
        d->joins[node / 64] |= 1ULL << (node % 64);
    if (--d->waiting[node] == 0) {
        d->waiting[node] = d->ready;
        d->ready = (uint32_t)mark_place(link->mark);
        if (vm->reader != PEEK_OTHER) /* of many ready ones, the last is taken first */
            peek_prefetch(vm->reader, link->to);
    }
    return true;
}

static void start_areas(struct dominators *d)
{
    d->idom[NODE_ROOT] = d->waiting[NODE_ROOT] = d->retained[NODE_ROOT] = NODE_ROOT;
    for (uint32_t i = NODE_AREA; i < NODE_FIRST; i++)
        settle(d, i, NODE_ROOT);
    d->n = 0;
    d->ready = PLACE_NONE;
}

static enum status take_roots(struct dominators *d, const struct reading *rd)
{
    struct link link;
    enum status st;
    while ((st = graph_root(d->g, &d->roots, rd, &link)) == ST_OK) {
        if (!meet(d, rd->vm, NODE_AREA + d->roots.root, &link, rd->budget))
            return ST_TORN;
    }
    return st == ST_GONE ? ST_OK : st;
}

/* The next ready node. GONE: all are taken. TORN: none is ready, but some were never reached; or, since
 * links changed after they were counted, what follows in the list is no node with a dominator. */
static enum status next_node(struct dominators *d, const struct vm *vm)
{
    uint32_t place = d->ready;
    bool all = d->n == d->nodes - NODE_FIRST;
    if (place == PLACE_NONE)
        return all ? ST_GONE : ST_TORN;
    if (all || place >= graph_places(d->g) || !bit_test(d->g->head, place_mark(place)))
        return ST_TORN;
    d->node = graph_node(d->g, place_mark(place));
    if (d->idom[d->node] == NODE_NONE)
        return ST_TORN;
    d->ready = d->waiting[d->node];
    settle(d, d->node, d->idom[d->node]);
    if (d->order)
        d->order[d->n] = place;
    d->n++;
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
    uint8_t few = words < DOMINATORS_LARGE ? (uint8_t)words : DOMINATORS_LARGE;
    d->small[d->node / 2] |= (uint8_t)(few << d->node % 2 * 4);
    if (words < DOMINATORS_LARGE)
        return ST_OK;
    if (d->large_n == d->large_cap && !SONDE_GROW(d->large, d->large_cap, 64))
        return ST_NOMEM;
    d->large[d->large_n++] = (struct many_words){d->node, (uint32_t)words};
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
            if (!meet(d, vm, d->node, &link, b))
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

/* How many nodes each node dominates. TORN: links changed, and some node was never taken. */
static enum status count_children(struct dominators *d, struct budget *b)
{
    uint32_t *waiting = d->waiting;
    for (; d->done < d->nodes; d->done++) {
        uint32_t idom = d->idom[d->done];
        if (d->done % NEAR_STEP == 0 && !budget_step(b))
            return ST_TIMESLICE;
        if (d->done < NODE_FIRST)
            continue;
        if (idom >= d->nodes)
            return ST_TORN;
        waiting[idom]++;
    }
    return ST_OK;
}

static enum status own(struct dominators *d, struct budget *b)
{
    for (; d->done < d->nodes; d->done++) {
        if (d->done % FILL_STEP == 0 && !budget_step(b))
            return ST_TIMESLICE;
        d->retained[d->done] = dominators_small(d, d->done);
    }
    return ST_OK;
}

static enum status own_large(struct dominators *d, struct budget *b)
{
    for (; d->done < d->large_n; d->done++) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        d->retained[d->large[d->done].node] = d->large[d->done].words;
    }
    return ST_OK;
}

static enum status add_areas(struct dominators *d)
{
    d->waiting[NODE_ROOT] = NODE_NONE;
    for (uint32_t i = NODE_AREA; i < NODE_FIRST; i++) {
        d->retained[NODE_ROOT] += d->retained[i];
        d->waiting[i] = NODE_NONE;
    }
    /* every reached word is counted exactly once */
    return d->retained[NODE_ROOT] == marking_reached(d->g->heap) ? ST_OK : ST_TORN;
}

/* Adds each node's retained size to its dominator's, once it is complete: when all nodes that it
 * dominates were added. Goes through the nodes, and from one that completes its dominator up to that. */
static enum status add(struct dominators *d, struct budget *b)
{
    while (d->done < d->nodes) {
        uint32_t node = d->entered ? d->node : d->done;
        if (!budget_step(b))
            return ST_TIMESLICE;
        d->entered = node >= NODE_FIRST && d->waiting[node] == 0;
        if (!d->entered) {
            d->done++;
            continue;
        }
        d->node = d->idom[node];
        d->retained[d->node] += d->retained[node];
        d->waiting[d->node]--;
        d->waiting[node] = NODE_NONE;
    }
    return add_areas(d);
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
        return wipe(d->joins, sizeof *d->joins, words_of_joins(d), &d->at, rd->budget);
    case CLEAR_WORDS:
        return wipe(d->small, 1, bytes_of_words(d), &d->at, rd->budget);
    case CLEAR_IDOM:
        return fill(d->idom, d->nodes, &d->done, NODE_NONE, rd->budget);
    case TAKE_ROOTS:
        return take_roots(d, rd);
    case TAKE:
        return take(d, rd->vm, rd->budget);
    case FORGET:
        return fill(d->waiting, d->nodes, &d->done, 0, rd->budget);
    case CHILDREN:
        return count_children(d, rd->budget);
    case OWN:
        return own(d, rd->budget);
    case OWN_LARGE:
        return own_large(d, rd->budget);
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
        d->at = 0;
        d->entered = false;
        roots_start(&d->roots, d->g->heap->collect.waiting);
        if (++d->stage == TAKE_ROOTS)
            start_areas(d);
    }
    return ST_OK;
}
