/* graph.h: the objects that a walk reached, as numbered nodes with links between them.
 * Knows: which objects form one node, and the number of each node.
 * Does not know: dominators, or how the numbers are used.
 *
 * A list is one node, and so is a large map with its inner parts, or a slice with its binary: an
 * object that is part of another object belongs to the node of that object, if no other object
 * leads to it. A part that several objects lead to is a node of its own. So there is about one node
 * for each tuple, and there are few for lists of numbers and for maps, so arrays by node stay
 * small. If only the nodes that retain most are wanted, small leaves of one referrer belong to it, too: they cannot
 * be among these.
 *
 * Each node has a bit at the first word of its first object; its number is the count of such bits
 * before it. */
#ifndef SONDE_GRAPH_H
#define SONDE_GRAPH_H

#include "graph/edges.h"

/* Numbers: one for all roots, one for each kind of root, then the objects by address. */
enum { NODE_ROOT = 0, NODE_AREA = 1, NODE_FIRST = NODE_AREA + ROOT_COUNT };

#define NODE_NONE UINT32_MAX

/* Larger leaves are always nodes. */
enum { GRAPH_LEAF_MAX = 15 };

/* Levels of parts inside parts: a map's nodes nest at most about half as deep; and a leaf. */
enum { INSIDE_MAX = BOUND(49, 7) };

/* All links that lead out of one node. */
struct inside {
    struct edges piece; /* the current object */
    bool inner;         /* it is an inner part: see graph.inner */
    unsigned n;
    uint64_t cells;      /* of the list, up to this one */
    uint64_t words;      /* of all objects so far, */
    bool tells_leaves;   /* and if the caller sets this, */
    uint64_t leaf_words; /* of leaves among them that belong to it only because they are small */
    struct edges outer[INSIDE_MAX]; /* the objects that contain it and have words left */
};

struct graph {
    struct marking *heap;
    uint64_t *head;    /* bits: a node begins here */
    uint64_t *inner;   /* bits: an inner node or pair of a large map, or a pair of the dictionary */
    uint64_t *seen;    /* while links are counted, bits of objects without links; afterwards bits of
                        callers, which allocate and clear them when they need them */
    uint32_t *before;  /* nodes, or while links are counted objects, before each word of bits */
    uint8_t *degree;   /* by object: links that lead to it, without those in `carried' */
    uint32_t *carried; /* places of objects, one for each GRAPH_CARRY links */
    size_t carried_n, carried_cap;
    uint32_t objects, nodes; /* numbers of them */
    uint64_t rows;           /* how many nodes are wanted, those that retain most; 0: all */
    uint64_t sizes[GRAPH_LEAF_MAX + 2]; /* objects by their words; the last: more */
    uint64_t parts;                     /* at most so many of them are no nodes */
    bool linked;                        /* the current object has a link */
    uint32_t leaf_max; /* leaves of so many words are no nodes; 0: none is left out */
    uint32_t passed;   /* objects whose degrees were handed out */
    int stage;
    bool collisions; /* some map has pairs in a tuple */
    size_t done;     /* words of bits cleared or counted; degrees cleared or carried */
    uint64_t place;  /* of the current object */
    bool entered;    /* the current object is partly done */
    struct edges piece;
    struct roots roots;
    uintptr_t chain; /* the rest of the dictionary's current bucket */
    uint64_t steps;  /* words left; more would mean that the heap is changing */
};

/* rows: only so many nodes are wanted, those that retain most; 0: all. */
void graph_start(struct graph *g, struct marking *h, uint64_t rows);

/* After marking_walk was OK. OK, TIMESLICE (call again), TORN, NOMEM, TOO_LARGE. */
enum status graph_make(struct graph *g, const struct reading *rd);

/* Links that do not fit into a degree of one byte are carried. */
enum { GRAPH_DEGREE_MAX = BOUND(255, 7), GRAPH_CARRY = BOUND(128, 4) };

/* Frees one of its arrays, also after an unfinished graph_make; true: none is left. */
bool graph_end(struct graph *g);

/* Bytes of memory that it takes now, without the marking's. */
size_t graph_bytes(const struct graph *g);

/* ---- places: the number of an object's bit ----------------------------------------------------- */

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

/* Moves *place to the first set bit from there on. OK, GONE, TIMESLICE. */
static inline enum status graph_scan(const struct graph *g, const uint64_t *bits, uint64_t *place,
                                     struct budget *b)
{
    uint64_t places = graph_places(g);
    while (*place < places) {
        uint64_t left = bits[*place / 64] >> (*place % 64);
        if (left != 0) {
            *place += (unsigned)__builtin_ctzll(left);
            return ST_OK;
        }
        if (!budget_step(b))
            return ST_TIMESLICE;
        *place = (*place | 63) + 1;
    }
    return ST_GONE;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* In a few instructions on any processor, where __builtin_popcountll may be a call. */
static inline uint32_t count_bits(uint64_t bits)
{
    bits -= bits >> 1 & 0x5555555555555555;
    bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0F;
    return (uint32_t)(bits * 0x0101010101010101 >> 56);
}

static inline uint32_t graph_node(const struct graph *g, struct mark k)
{
    return NODE_FIRST + g->before[k.at] + count_bits(g->head[k.at] & (k.bit - 1));
}

/* The place of a node that is not a root. */
uint64_t graph_place(const struct graph *g, uint32_t node);

/* After graph_make: how many links lead to each node, from roots or other nodes, by node. Once only. OK,
 * TIMESLICE. */
enum status graph_degrees(struct graph *g, uint32_t *degrees, struct budget *b);

/* Frees one array that only graph_degrees needs; true: there was one. */
static inline bool graph_drop_degrees(struct graph *g)
{
    return SONDE_DROP(g->degree) || SONDE_DROP(g->carried);
}

/* Starts a walk over the links of the node at `place`. OK, TORN. */
enum status inside_start(const struct graph *g, const struct vm *vm, uint64_t place,
                         struct inside *in);

/* The next link to another node. OK; GONE: no more, and in->words is the size of the node;
 * TIMESLICE; TORN. */
enum status inside_next(const struct graph *g, const struct vm *vm, struct inside *in,
                        struct budget *b, struct link *link);

/* The next root word that leads to a node or, before the graph is made, to an object. OK, GONE,
 * TIMESLICE, TORN. */
enum status graph_root(const struct graph *g, struct roots *roots, const struct reading *rd,
                       struct link *link);

#endif
