/* measure.h: how large a term is where each part counts at each place at which it is.
 * Knows: how many words a thing takes in a message (the VM's size_object); literals are entered.
 * Does not know: whose term it is, or why it is asked.
 *
 * Parts that are shared can make a term larger than any memory, so there are no marks, but a bound.
 * The stack holds the rests of things that are still to be looked at. Nothing is pushed where only
 * immediates are left, so neither a long list nor nesting needs a stack. Once it is crowded, small
 * parts are measured at once, and only two large branches of one thing cost an entry. */
#ifndef SONDE_MEASURE_H
#define SONDE_MEASURE_H

#include "util/binaries.h"
#include "vm/blocks.h"
#include "vm/stamp.h"

enum measure_want {
    MEASURE_BYTES = 1,   /* the sizes of large binaries in lists, tuples and maps */
    MEASURE_VISIBLE = 2, /* what is seen of Binaries */
    MEASURE_BINARIES = 4 /* and which ones they are; with VISIBLE */
};

/* Words that are still to be looked at. Both have the bit HELD if they are held by a fun or a record,
 * where the bytes of MEASURE_BYTES do not count. */
struct part {
    uintptr_t at, to;
};

struct sums {
    uint64_t words;
    uint64_t bytes;   /* MEASURE_BYTES */
    uint64_t visible; /* MEASURE_VISIBLE */
};

enum { MEASURE_INLINE = BOUND(64, 4) };

struct measure {
    const struct blocks *blocks; /* of the process */
    struct blocks own;           /* further fragments: those of the message at hand */
    unsigned want;
    uint64_t max_words; /* of all terms together; beyond: TOO_LARGE */
    struct sums sum;
    struct binaries *binaries; /* NULL: none so far */
    struct part now;
    struct part *stack;
    size_t n, cap;
    struct part first[MEASURE_INLINE];
};

/* The blocks are sorted. They stay with the caller. */
void measure_start(struct measure *m, const struct blocks *blocks, unsigned want,
                   uint64_t max_words);

/* Also after one that did not finish. */
void measure_end(struct measure *m);

/* One more term; then measure_go until it says OK. OK, TORN; ASK: where literals lie is not known;
 * TOO_LARGE, NOMEM. */
enum status measure_term(struct measure *m, const struct vm *vm, uint64_t term);

/* TIMESLICE: call again. Else as above. */
enum status measure_go(struct measure *m, const struct vm *vm, struct budget *b);

/* The block in which so many words lie, which may be that of the literals; NULL: none. */
static inline const struct block *measure_find(const struct measure *m, const struct vm *vm,
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
    uint64_t words;  /* what a message takes for it */
    uint64_t binary; /* the Binary outside; 0: it is on the heap */
    uint64_t whole;  /* bytes of that */
};

/* OK, TORN, ASK. t: what is at the address: a sub-binary, heap binary or (to 26) ProcBin. */
struct thing;
enum status measure_bits(const struct measure *m, const struct vm *vm, uintptr_t at,
                         const struct thing *t, struct bits *bits);

#endif
