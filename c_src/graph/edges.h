/* edges.h: one object on a marked heap, and its words that lead to other objects.
 * Knows: the words of an object that a collection follows. Reads one word at a time, so that a walk
 * may stop anywhere.
 * Does not know: which objects form one node, or how the object was found. */
#ifndef SONDE_EDGES_H
#define SONDE_EDGES_H

#include "heap/marking.h"
#include "vm/object.h"

struct edges {
    uintptr_t object;
    uintptr_t at, to; /* the rest of its words that are terms */
    uint64_t words;   /* of the object */
    uint64_t header;  /* of a boxed object */
    enum kind kind;   /* KIND_NONE: a list cell */
};

/* A word that leads to an object in a block. */
struct link {
    uintptr_t at; /* address of the word */
    uint64_t word;
    uintptr_t to;
    struct mark mark; /* of that object */
};

/* Reads the marked object at this address. OK, TORN. */
enum status edges_read(const struct marking *h, const struct vm *vm, uintptr_t at, struct edges *p);

/* The next word that leads to an object in a block. OK, GONE (no more), TIMESLICE, TORN. */
enum status edges_next(const struct marking *h, const struct vm *vm, struct edges *p,
                       struct budget *b, struct link *link);

/* The same for a word from elsewhere: OK; GONE: it leads to no object in a block; TORN. */
enum status edges_link(const struct marking *h, uint64_t word, struct link *link);

static inline bool edges_is_map_node(const struct edges *p)
{
    return p->kind == KIND_MAP && map_type(p->header) != MAP_FLAT;
}

static inline bool edges_is_flatmap(const struct edges *p)
{
    return p->kind == KIND_MAP && map_type(p->header) == MAP_FLAT;
}

/* The index of the word in its object, from 0. */
static inline uint64_t edges_index(const struct edges *p, uintptr_t at)
{
    return (at - p->object) / 8;
}

#endif
