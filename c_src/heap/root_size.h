/* root_size.h: the size of a message that contained the terms of some roots of a process.
 * Knows: the roots, and how to find one term that a waiting process of sonde keeps on its stack.
 * Does not know: how a term is measured, or whether the process changed meanwhile.
 *
 * In the dictionary the pairs count, as tuples, but not the lists that link the pairs of one
 * bucket. In a message its term counts. A message from another node that is not decoded has no term
 * yet. */
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
    ROOT_SIZE_SLOT = 16, /* only the term of {N, Term} on the stack; N is a small integer */
    ROOT_SIZE_BYTES = 32,
    ROOT_SIZE_BINARIES = 64,
    ROOT_SIZE_SHARED = 128, /* the term of the slot: its words, each part counted once */
    ROOT_SIZE_REFS = 256 /* the term of the slot: only the references of its literals to Binaries */
};

/* Limit for ROOT_SIZE_REFS. */
enum { ROOT_SIZE_REFS_MAX = BOUND(20000000, 60) };

struct root_size {
    unsigned want;
    int stage;
    uint64_t n;      /* the N of ROOT_SIZE_SLOT */
    bool found;      /* {N, Term} was found */
    uint64_t slot;   /* that Term */
    uint64_t bucket; /* the rest of the current bucket's list */
    uint64_t pairs;  /* how many pairs may follow: the heap has no room for more */
    struct fragments collect;
    struct blocks blocks;
    struct roots roots;
    struct term_size measure;
    struct shared_size shared;
    struct census refs;
};

/* Its answer is in measure, shared and refs. */
extern const struct walker root_size_walker;

#endif
