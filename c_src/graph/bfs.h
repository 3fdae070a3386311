/* bfs.h: a breadth-first search over the nodes, from the roots.
 * Knows: links between nodes. Does not know: how callers use the order, or the path to a node. */
#ifndef SONDE_BFS_H
#define SONDE_BFS_H

#include "graph/prune.h"

struct bfs {
    const struct graph *g;
    /* Both arrays belong to the caller and have room for all nodes; `value' starts as NODE_NONE. */
    uint32_t *value;      /* by node: the node that it was found from, */
    bool numbers;         /* or its number in the order found, from NODE_FIRST */
    uint32_t *queue;      /* places, in the order found */
    uint32_t n, at;       /* nodes found; nodes visited */
    const uint64_t *want; /* bits of nodes: stop when `wanted' of them are found; NULL: visit all */
    uint64_t wanted;
    const struct prune *fold; /* which nodes are kept, and their other links; NULL: all */
    uint64_t links;           /* links met */
    uint64_t area_links[ROOT_COUNT];
    size_t other, others; /* of the current node's other links: the next; how many are left */
    uint32_t area;
    bool rooted, entered, inside_done;
    struct inside inside;
    struct roots roots;
};

void bfs_start(struct bfs *r, const struct graph *g, uint32_t *value, uint32_t *queue);

/* OK, TIMESLICE, TORN. */
enum status bfs_walk(struct bfs *r, const struct reading *rd);

#endif
