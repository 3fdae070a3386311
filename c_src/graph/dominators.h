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

#define PLACE_NONE UINT32_MAX

/* A node with too many words for its four bits. */
struct many_words {
    uint32_t node, words;
};

struct dominators {
    struct graph *g;
    int stage;
    /* Arrays by node. */
    /* Links to it still to come; once it is ready, the place of the node that is ready after it; once
     * it is taken, its depth. In the end NODE_NONE for every node, so that callers may use it. */
    uint32_t *waiting;
    uint32_t *idom;
    uint64_t *joins;    /* bits: several links lead to it, but none from a root */
    uint32_t *retained; /* words; before that the ancestor further up */
    uint8_t *small;     /* its own words, four bits each; DOMINATORS_LARGE: they are in `large' */
    struct many_words *large;
    size_t large_n, large_cap;
    /* If the caller wants it, the places of nodes, each before those that it leads to. */
    bool ordered;
    uint32_t *order;
    uint32_t nodes; /* as in the graph */
    uint32_t n;     /* nodes taken */
    uint32_t ready; /* the place of the next ready node, or PLACE_NONE */
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

/* The node's own words; DOMINATORS_LARGE: they are in `large'. */
static inline uint32_t dominators_small(const struct dominators *d, uint32_t node)
{
    return d->small[node / 2] >> node % 2 * 4 & 15;
}

/* Frees one of the arrays of own words, which callers may use after dominators_make; true: there was one. */
static inline bool dominators_drop_words(struct dominators *d)
{
    return SONDE_DROP(d->small) || SONDE_DROP(d->large);
}

/* Whether the shortest path to the node ends with its dominator: a root refers to it, or nothing else
 * does. If roots of several kinds do, the dominator is NODE_ROOT. */
static inline bool dominators_is_nearest(const struct dominators *d, uint32_t node)
{
    return !(d->joins[node / 64] >> (node % 64) & 1);
}

/* Bytes of memory that it takes now, without the graph's. */
size_t dominators_bytes(const struct dominators *d);

#endif
