/* flat.h: what a message would take that held the terms in some roots of a process.
 * Knows: which roots there are, and how to find one term that a waiting process holds for us.
 * Does not know: how a term is measured, or whether the process stayed still meanwhile.
 *
 * Of the dictionary the pairs count, as tuples; not the lists that hold those of one bucket. Of a
 * message its term counts. One that came from another node and is not decoded has no term yet. */
#ifndef SONDE_FLAT_H
#define SONDE_FLAT_H

#include "process/look.h"
#include "heap/measure.h"
#include "heap/roots.h"
#include "heap/shared.h"

enum flat_want {
    FLAT_STACK = 1,
    FLAT_REGISTERS = 2,
    FLAT_DICTIONARY = 4,
    FLAT_MESSAGES = 8,
    FLAT_SLOT = 16, /* {N, Term} on the stack, N a small integer: that term alone */
    FLAT_BYTES = 32,
    FLAT_BINARIES = 64,
    FLAT_SHARED = 128, /* of what is in the slot: words where each part counts once */
    FLAT_REFS = 256    /* of what is in the slot nothing but where its literals refer to Binaries */
};

/* Of literals. */
enum { FLAT_REFS_MAX = BOUND(20000000, 60) };

struct flat {
    unsigned want;
    int stage;
    uint64_t n;      /* FLAT_SLOT's */
    bool found;      /* and whether it was there, */
    uint64_t slot;   /* with that term */
    uint64_t bucket; /* pairs still to come, */
    uint64_t pairs;  /* at most so many: there are no more on such a heap */
    struct collect collect;
    struct blocks blocks;
    struct roots roots;
    struct measure measure;
    struct shared shared;
    struct census refs;
};

/* Its answer is in measure, and in shared. */
extern const struct walker flat_walker;

#endif
