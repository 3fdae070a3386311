/* dominators.h: each node's immediate dominator and its retained size.
 * Knows: numbers of nodes and the links between them.
 * Does not know: what a node is.
 *
 * Terms have no cycles, so nodes can be taken in topological order (Kahn). A node's dominator is
 * then the nearest common ancestor of all nodes that lead to it, in the dominator tree built so
 * far. Finding an ancestor takes logarithmic time in the tree's depth: each node keeps its depth
 * and one ancestor further up, chosen as in the random-access lists of Myers. */
#ifndef SONDE_DOMINATORS_H
#define SONDE_DOMINATORS_H

#include "graph/graph.h"

enum { DOMINATORS_LARGE = BOUND(15, 4) };

struct dominators {
    struct graph *g;
    int stage;
    /* Arrays by node. */
    uint32_t *waiting; /* links to it still to come; then its depth; callers may reuse it later */
    uint32_t *idom;
    uint64_t *joins;    /* bits: several links lead to it, but none from a root */
    uint32_t *retained; /* words; before that the ancestor further up */
    /* Places of nodes, each before those that it leads to; nodes that are ready wait at the end of
     * the array. Callers may reuse it later. */
    uint32_t *order;
    uint8_t *
        small; /* words of the nodes in `order', four bits for each; DOMINATORS_LARGE: the next of `large' */
    uint32_t *large;
    size_t large_n, large_cap, large_at;
    uint32_t nodes;  /* as in the graph */
    uint32_t n, end; /* nodes taken; start of the waiting ones */
    uint32_t done;
    size_t at; /* words of bits cleared */
    bool entered;
    uint32_t node;
    uint64_t words; /* of all nodes so far */
    struct inside inside;
    struct roots roots;
};

void dominators_start(struct dominators *d, struct graph *g);

/* After graph_make was OK. OK, TIMESLICE, TORN, NOMEM. */
enum status dominators_make(struct dominators *d, const struct reading *rd);

/* Frees one of its arrays; true: none is left. */
bool dominators_end(struct dominators *d);

/* The words of the k-th node of `order', if asked for from the last one on; *large starts as large_n. */
static inline uint32_t dominators_words(const struct dominators *d, uint32_t k, size_t *large)
{
    uint32_t words = d->small[k / 2] >> k % 2 * 4 & 15;
    return words < DOMINATORS_LARGE ? words : d->large[--*large];
}

/* Whether the shortest path to the node ends with its dominator: a root refers to it, or nothing else
 * does. If roots of several kinds do, the dominator is NODE_ROOT. */
static inline bool dominators_is_nearest(const struct dominators *d, uint32_t node)
{
    return !(d->joins[node / 64] >> (node % 64) & 1);
}

/* Frees an array that only dominators_words needs; true: there was one. */
static inline bool dominators_drop_words(struct dominators *d)
{
    d->large_cap = 0;
    return SONDE_DROP(d->small) || SONDE_DROP(d->large);
}

/* Bytes of memory that it takes now, without the graph's. */
size_t dominators_bytes(const struct dominators *d);

#endif
