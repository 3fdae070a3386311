/* bfs.h: nodes in the order in which one gets to them from the roots, the nearest first.
 * Knows: links between nodes. Does not know: what the order, or the way to a node, is good for. */
#ifndef SONDE_BFS_H
#define SONDE_BFS_H

#include "graph/prune.h"

struct bfs {
    const struct graph *g;
    /* Both belong to the caller, with room for all nodes; `value' is NODE_NONE everywhere. */
    uint32_t *value;      /* by node: by which node it was found, */
    bool numbers;         /* or as the how manyth, from NODE_FIRST */
    uint32_t *queue;      /* places, in the order found */
    uint32_t n, at;       /* found; looked at */
    const uint64_t *want; /* bits of nodes: at the last of so many it ends; NULL: at the end */
    uint64_t wanted;
    const struct prune *fold; /* NULL, or which nodes are there, and their other links */
    uint64_t links;           /* so many were met */
    uint64_t area_links[ROOT_COUNT];
    size_t other, others; /* of the node at hand: the next of its other links; left */
    uint32_t area;
    bool rooted, entered, inside_done;
    struct inside inside;
    struct roots roots;
};

void bfs_start(struct bfs *r, const struct graph *g, uint32_t *value, uint32_t *queue);

/* OK, TIMESLICE, TORN. */
enum status bfs_walk(struct bfs *r, const struct reading *rd);

#endif
