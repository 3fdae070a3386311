/* term_size.h: the size of a term, each part counted wherever it occurs.
 * Knows: the words that an object takes in a message (the VM's size_object); it enters literals.
 * Does not know: which process the term belongs to, or why it is measured.
 *
 * Shared parts can make a term larger than any memory, so there is a limit instead of marks. The
 * stack holds the rest of each object that is still to be visited. A rest of only immediates is not
 * pushed, so neither a long list nor nesting needs a stack. Once it is crowded, small parts are
 * measured at once, and only two large branches of one object cost an entry. */
#ifndef SONDE_TERM_SIZE_H
#define SONDE_TERM_SIZE_H

#include "heap/parts.h"
#include "util/address_set.h"
#include "vm/blocks.h"
#include "vm/stamp.h"

enum term_size_want {
    TERM_SIZE_BYTES = 1,   /* the sizes of large binaries in lists, tuples and maps */
    TERM_SIZE_VISIBLE = 2, /* the bytes of Binaries that the terms see */
    TERM_SIZE_BINARIES = 4 /* and the set of these Binaries; with VISIBLE */
};

struct sums {
    uint64_t words;
    uint64_t bytes;   /* TERM_SIZE_BYTES */
    uint64_t visible; /* TERM_SIZE_VISIBLE */
};

struct term_size {
    const struct blocks *blocks; /* of the process */
    struct blocks own;           /* the fragments of the current message */
    unsigned want;
    uint64_t max_words; /* of all terms together; more: TOO_LARGE */
    struct sums sum;
    uint64_t constants; /* references to literals of another OS process, which are not measured */
    struct address_set *binaries; /* NULL: none yet */
    struct part now;
    struct parts stack;
};

/* The blocks must be sorted; the caller keeps and frees them. */
void term_size_start(struct term_size *m, const struct blocks *blocks, unsigned want,
                     uint64_t max_words);

/* Also after an unfinished walk. */
void term_size_end(struct term_size *m);

/* Adds a term; then call term_size_go until it returns OK. OK, TORN; ASK: the literal area is
 * unknown, and not that of another OS process; TOO_LARGE, NOMEM. */
enum status term_size_of(struct term_size *m, const struct vm *vm, uint64_t term);

/* TIMESLICE: call again. Otherwise as term_size_of. */
enum status term_size_go(struct term_size *m, const struct vm *vm, struct budget *b);

/* The block that holds `words` words at `at`, perhaps the literal area; NULL: none. */
static inline const struct block *term_size_find(const struct term_size *m, const struct vm *vm,
                                                 uintptr_t at, unsigned words)
{
    const struct block *b = blocks_find(m->blocks, at, words);
    if (!b && m->own.n > BLOCK_FRAGMENTS)
        b = blocks_find_fragment(&m->own, at, words);
    return !b && block_holds(&vm->literals, at, words) ? &vm->literals : b;
}

/* A binary term. */
struct bits {
    uint64_t size;   /* bits */
    uint64_t words;  /* in a message */
    uint64_t binary; /* the Binary outside; 0: the bytes are on the heap */
    uint64_t whole;  /* bytes of that Binary */
};

/* OK, TORN, ASK. t: the object at the address: a sub-binary, heap binary or (up to 26) ProcBin. */
struct object;
enum status term_size_bits(const struct term_size *m, const struct vm *vm, uintptr_t at,
                           const struct object *t, struct bits *bits);

#endif
