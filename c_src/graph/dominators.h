/* dominators.h: of each node the one nearest to the roots without which it would not be reached, and how
 * much goes if a node goes: its retained size.
 * Knows: numbers of nodes and the links between them.
 * Does not know: what a node is.
 *
 * Terms never lead back to themselves, so nodes can be taken in an order in which all that lead to one
 * come before it (Kahn). Then its dominator is the nearest common ancestor, in the tree of dominators as
 * far as it is made, of all of them. An ancestor is found in a logarithm of the tree's depth: each
 * node knows its depth and one ancestor further up, chosen as in the random-access lists of Myers. */
#ifndef SONDE_DOMINATORS_H
#define SONDE_DOMINATORS_H

#include "graph/graph.h"

struct dominators {
    struct graph *g;
    int stage;
    /* Arrays by node. */
    uint32_t *waiting; /* links to it still to come; then its depth; later free for others */
    uint32_t *idom;
    uint32_t *retained; /* words; before that the ancestor further up */
    /* Places of nodes, each before those that it leads to; those whose turn has come wait at the
     * end of it. Later free for others. */
    uint32_t *order;
    uint32_t nodes;  /* as in the graph */
    uint32_t n, end; /* taken; where those begin that wait */
    uint32_t done;
    uint64_t place; /* while links are counted; the node at hand */
    bool entered;
    uint32_t node;
    uint64_t words; /* of all nodes so far */
    struct inside inside;
    struct roots roots;
};

void dominators_start(struct dominators *d, struct graph *g);

/* After graph_make was OK. OK, TIMESLICE, TORN, NOMEM. */
enum status dominators_make(struct dominators *d, const struct reading *rd);

void dominators_end(struct dominators *d);

/* Bytes held now, without those of the graph. */
size_t dominators_bytes(const struct dominators *d);

#endif
