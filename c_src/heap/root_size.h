/* root_size.h: what a message would take that held the terms in some roots of a process.
 * Knows: which roots there are, and how to find one term that a waiting process holds for us.
 * Does not know: how a term is measured, or whether the process stayed still meanwhile.
 *
 * Of the dictionary the pairs count, as tuples; not the lists that hold those of one bucket. Of a
 * message its term counts. One that came from another node and is not decoded has no term yet. */
#ifndef SONDE_ROOT_SIZE_H
#define SONDE_ROOT_SIZE_H

#include "process/look.h"
#include "heap/term_size.h"
#include "heap/roots.h"
#include "heap/shared_size.h"

enum root_size_want {
    ROOT_SIZE_STACK = 1,
    ROOT_SIZE_REGISTERS = 2,
    ROOT_SIZE_DICTIONARY = 4,
    ROOT_SIZE_MESSAGES = 8,
    ROOT_SIZE_SLOT = 16, /* {N, Term} on the stack, N a small integer: that term alone */
    ROOT_SIZE_BYTES = 32,
    ROOT_SIZE_BINARIES = 64,
    ROOT_SIZE_SHARED = 128, /* of what is in the slot: words where each part counts once */
    ROOT_SIZE_REFS =
        256 /* of what is in the slot nothing but where its literals refer to Binaries */
};

/* Of literals. */
enum { ROOT_SIZE_REFS_MAX = BOUND(20000000, 60) };

struct root_size {
    unsigned want;
    int stage;
    uint64_t n;      /* ROOT_SIZE_SLOT's */
    bool found;      /* and whether it was there, */
    uint64_t slot;   /* with that term */
    uint64_t bucket; /* pairs still to come, */
    uint64_t pairs;  /* at most so many: there are no more on such a heap */
    struct fragments collect;
    struct blocks blocks;
    struct roots roots;
    struct term_size measure;
    struct shared_size shared;
    struct census refs;
};

/* Its answer is in measure, and in shared. */
extern const struct walker root_size_walker;

#endif
