/* graph.h: the objects that a walk has reached, as numbered nodes with links from one to another.
 * Knows: which objects a person takes for one, and which number each of those has.
 * Does not know: who dominates whom, or what the numbers are good for.
 *
 * A list is one node, and so is a large map with all that is inside it, or a slice with what it is a
 * slice of: an object belongs to the node of the only other one that leads to it, if it is but a part
 * of that. A part that several lead to is a node by itself. So there is about one node for each
 * tuple, and few for lists of numbers and for maps, in which sense arrays by node remain small.
 *
 * A node is found by the first word of its first object, which has a bit; its number is how many such
 * bits stand before. */
#ifndef SONDE_GRAPH_H
#define SONDE_GRAPH_H

#include "graph/edges.h"

/* Numbers: one for all roots, one for each kind of root, then the objects by address. */
enum { NODE_ROOT = 0, NODE_AREA = 1, NODE_FIRST = NODE_AREA + ROOT_COUNT };

#define NODE_NONE UINT32_MAX

/* Parts inside parts: a map's nodes lie below each other, at most about as deep as half of this. */
enum { INSIDE_MAX = BOUND(48, 6) };

/* All links that lead out of one node. */
struct inside {
    struct edges piece; /* at hand */
    bool inner;         /* it is a part that nobody sees: see graph.inner */
    unsigned n;
    uint64_t cells;                 /* of the list, up to this one */
    uint64_t words;                 /* of all pieces so far */
    struct edges outer[INSIDE_MAX]; /* those that it is in, with words still to come */
};

struct graph {
    struct marking *heap;
    uint64_t *head;   /* bits: here a node begins */
    uint64_t *inner;  /* bits: a node of a large map, its pairs; those of the dictionary */
    uint64_t *seen;   /* bits: a part that was met; later whatever their user likes */
    uint32_t *before; /* nodes before each word of bits */
    uint32_t nodes;   /* their number */
    int stage;
    bool collisions; /* there are maps with a list of pairs in a tuple */
    size_t done;     /* words of bits that are cleared, or counted */
    uint64_t place;  /* of the object at hand */
    bool entered;    /* the object at hand is partly done */
    struct edges piece;
    struct roots roots;
    uintptr_t chain; /* pairs of the dictionary still to come */
    uint64_t steps;  /* words that may come, before the heap must be changing */
};

void graph_start(struct graph *g, struct marking *h);

/* After marking_walk was OK. OK, TIMESLICE (call again), TORN, NOMEM, TOO_LARGE. */
enum status graph_make(struct graph *g, const struct reading *rd);

/* Also of what was not made to the end. */
void graph_end(struct graph *g);

/* Bytes held now, without those of the heap. */
size_t graph_bytes(const struct graph *g);

/* ---- places: an object's bit, counted from the first one --------------------------------------- */

static inline uint64_t graph_places(const struct graph *g)
{
    return (uint64_t)g->heap->marks.n * 64;
}

static inline uint64_t mark_place(struct mark k)
{
    return (uint64_t)k.at * 64 + (unsigned)__builtin_ctzll(k.bit);
}

static inline bool bit_test(const uint64_t *bits, struct mark k)
{
    return (bits[k.at] & k.bit) != 0;
}

static inline struct mark place_mark(uint64_t place)
{
    return (struct mark){place / 64, 1ULL << (place % 64)};
}

static inline uintptr_t graph_address(const struct graph *g, uint64_t place)
{
    return marks_address(&g->heap->marks, place / 64, (unsigned)(place % 64));
}

/* The first set bit from *place on. OK, GONE, TIMESLICE. */
enum status graph_scan(const struct graph *g, const uint64_t *bits, uint64_t *place,
                       struct budget *b);

/* ---- nodes ----------------------------------------------------------------------------------- */

static inline uint32_t graph_node(const struct graph *g, struct mark k)
{
    return NODE_FIRST + g->before[k.at] +
           (uint32_t)__builtin_popcountll(g->head[k.at] & (k.bit - 1));
}

/* The place of a node that is no root. */
uint64_t graph_place(const struct graph *g, uint32_t node);

/* Before the links of the node that begins here. OK, TORN. */
enum status inside_start(const struct graph *g, const struct vm *vm, uint64_t place,
                         struct inside *in);

/* The next link to another node. OK; GONE: there are no more, and in->words are all of its words;
 * TIMESLICE; TORN. */
enum status inside_next(const struct graph *g, const struct vm *vm, struct inside *in,
                        struct budget *b, struct link *link);

/* The next root word that leads to a node; before the graph is made, to an object. OK, GONE, TIMESLICE, TORN. */
enum status graph_root(const struct graph *g, struct roots *roots, const struct reading *rd,
                       struct link *link);

#endif
