#include "graph/bfs.h"

#include <string.h>

void bfs_start(struct bfs *r, const struct graph *g, uint32_t *value, uint32_t *queue)
{
    memset(r, 0, sizeof *r);
    r->g = g;
    r->value = value;
    r->queue = queue;
    roots_start(&r->roots, g->heap->collect.waiting);
}

static enum status found(struct bfs *r, uint32_t by, struct mark k)
{
    uint32_t node = graph_node(r->g, k);
    if (node >= r->g->nodes)
        return ST_TORN;
    if (r->fold && !prune_keeps(r->fold, k))
        return ST_OK;
    r->links++;
    if (by >= NODE_AREA && by < NODE_FIRST)
        r->area_links[by - NODE_AREA]++;
    if (r->value[node] != NODE_NONE)
        return ST_OK;
    r->value[node] = r->numbers ? NODE_FIRST + r->n : by;
    r->queue[r->n++] = (uint32_t)mark_place(k);
    if (r->want && bit_test(r->want, k))
        r->wanted--;
    return ST_OK;
}

static bool satisfied(const struct bfs *r)
{
    return r->want && r->wanted == 0;
}

/* The node's links that replace folded nodes. */
static enum status others(struct bfs *r, uint32_t node, struct budget *b)
{
    if (!r->fold)
        return ST_GONE;
    for (; r->others > 0; r->others--, r->other++) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        uint64_t place = r->fold->links.rows[r->other].pid;
        enum status st = found(r, node, place_mark(place));
        if (st != ST_OK)
            return st;
    }
    return ST_GONE;
}

static void start_others(struct bfs *r, uint32_t node)
{
    if (r->fold)
        r->other = prune_links(r->fold, node, &r->others);
}

/* The same links of the roots. */
static enum status others_of_roots(struct bfs *r, struct budget *b)
{
    for (; r->area < NODE_FIRST; r->area++) {
        if (!r->entered)
            start_others(r, r->area);
        r->entered = true;
        enum status st = others(r, r->area, b);
        if (st != ST_GONE)
            return st;
        r->entered = false;
    }
    return ST_GONE;
}

static enum status from_roots(struct bfs *r, const struct reading *rd)
{
    struct link link;
    enum status st = r->inside_done ? ST_GONE : ST_OK;
    while (st == ST_OK && (st = graph_root(r->g, &r->roots, rd, &link)) == ST_OK)
        st = found(r, NODE_AREA + r->roots.root, link.mark);
    r->inside_done = st == ST_GONE;
    return st == ST_GONE ? others_of_roots(r, rd->budget) : st;
}

static enum status from_node(struct bfs *r, const struct vm *vm, struct budget *b)
{
    struct link link;
    enum status st = ST_OK;
    uint32_t place = r->queue[r->at];
    uint32_t node = graph_node(r->g, place_mark(place));
    if (!r->entered) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        st = inside_start(r->g, vm, place, &r->inside);
        start_others(r, node);
        r->inside_done = false;
    }
    r->entered = true;
    if (r->inside_done)
        return others(r, node, b);
    while (st == ST_OK && !satisfied(r)) {
        st = inside_next(r->g, vm, &r->inside, b, &link);
        if (st == ST_OK)
            st = found(r, node, link.mark);
    }
    r->inside_done = st == ST_GONE;
    return st == ST_GONE ? others(r, node, b) : st;
}

enum status bfs_walk(struct bfs *r, const struct reading *rd)
{
    if (!r->rooted) {
        enum status st = from_roots(r, rd);
        if (st != ST_GONE)
            return st;
        r->rooted = true;
    }
    while (r->at < r->n && !satisfied(r)) {
        enum status st = from_node(r, rd->vm, rd->budget);
        if (st != ST_GONE)
            return st == ST_OK && satisfied(r) ? ST_OK : st;
        r->entered = false;
        r->at++;
    }
    return ST_OK;
}
