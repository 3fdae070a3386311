/* piece.h: one thing on a marked heap, and which of its words lead to other things there.
 * Knows: what a collection follows from a thing. Reads it word by word, so that a walk may stop anywhere.
 * Does not know: which things belong together, or how the thing was found. */
#ifndef SONDE_PIECE_H
#define SONDE_PIECE_H

#include "heap/heap.h"
#include "vm/thing.h"

struct piece {
    uintptr_t thing;
    uintptr_t at, to; /* words still to come, that are terms */
    uint64_t words;   /* of the thing */
    uint64_t header;  /* what is not a list cell begins with */
    enum kind kind;   /* KIND_NONE: a list cell */
};

/* A word that leads to a thing in a block. */
struct link {
    uintptr_t at; /* where the word is */
    uint64_t word;
    uintptr_t to;
    struct mark mark; /* of that thing */
};

/* What lies at this address, which has a mark. OK, TORN. */
enum status piece_read(const struct heap *h, const struct vm *vm, uintptr_t at, struct piece *p);

/* The next word that leads to a thing in a block. OK, GONE (no more), TIMESLICE, TORN. */
enum status piece_next(const struct heap *h, const struct vm *vm, struct piece *p, struct budget *b,
                       struct link *link);

/* The same of a word that was found elsewhere: OK; GONE: it leads to none; TORN. */
enum status piece_link(const struct heap *h, uint64_t word, struct link *link);

static inline bool piece_is_map_node(const struct piece *p)
{
    return p->kind == KIND_MAP && map_type(p->header) != MAP_FLAT;
}

static inline bool piece_is_flatmap(const struct piece *p)
{
    return p->kind == KIND_MAP && map_type(p->header) == MAP_FLAT;
}

/* Which word of the thing it is; its first one is 0. */
static inline uint64_t piece_index(const struct piece *p, uintptr_t at)
{
    return (at - p->thing) / 8;
}

#endif
