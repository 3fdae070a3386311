/* term_size.h: how large a term is where each part counts at each place at which it is.
 * Knows: how many words an object takes in a message (the VM's size_object); literals are entered.
 * Does not know: whose term it is, or why it is asked.
 *
 * Parts that are shared can make a term larger than any memory, so there are no marks, but a bound.
 * The stack holds the rests of objects that are still to be looked at. Nothing is pushed where only
 * immediates are left, so neither a long list nor nesting needs a stack. Once it is crowded, small
 * parts are measured at once, and only two large branches of one object cost an entry. */
#ifndef SONDE_TERM_SIZE_H
#define SONDE_TERM_SIZE_H

#include "util/address_set.h"
#include "vm/blocks.h"
#include "vm/stamp.h"

enum term_size_want {
    TERM_SIZE_BYTES = 1,   /* the sizes of large binaries in lists, tuples and maps */
    TERM_SIZE_VISIBLE = 2, /* what is seen of Binaries */
    TERM_SIZE_BINARIES = 4 /* and which ones they are; with VISIBLE */
};

/* Words that are still to be looked at. Both have the bit HELD if they are held by a fun or a record,
 * where the bytes of TERM_SIZE_BYTES do not count. */
struct part {
    uintptr_t at, to;
};

struct sums {
    uint64_t words;
    uint64_t bytes;   /* TERM_SIZE_BYTES */
    uint64_t visible; /* TERM_SIZE_VISIBLE */
};

enum { TERM_SIZE_INLINE = BOUND(64, 4) };

struct term_size {
    const struct blocks *blocks; /* of the process */
    struct blocks own;           /* further fragments: those of the message at hand */
    unsigned want;
    uint64_t max_words; /* of all terms together; beyond: TOO_LARGE */
    struct sums sum;
    struct address_set *binaries; /* NULL: none so far */
    struct part now;
    struct part *stack;
    size_t n, cap;
    struct part first[TERM_SIZE_INLINE];
};

/* The blocks are sorted. They stay with the caller. */
void term_size_start(struct term_size *m, const struct blocks *blocks, unsigned want,
                     uint64_t max_words);

/* Also after one that did not finish. */
void term_size_end(struct term_size *m);

/* One more term; then term_size_go until it says OK. OK, TORN; ASK: where literals lie is not known;
 * TOO_LARGE, NOMEM. */
enum status term_size_of(struct term_size *m, const struct vm *vm, uint64_t term);

/* TIMESLICE: call again. Else as above. */
enum status term_size_go(struct term_size *m, const struct vm *vm, struct budget *b);

/* The block in which so many words lie, which may be that of the literals; NULL: none. */
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
    uint64_t words;  /* what a message takes for it */
    uint64_t binary; /* the Binary outside; 0: it is on the heap */
    uint64_t whole;  /* bytes of that */
};

/* OK, TORN, ASK. t: what is at the address: a sub-binary, heap binary or (to 26) ProcBin. */
struct object;
enum status term_size_bits(const struct term_size *m, const struct vm *vm, uintptr_t at,
                           const struct object *t, struct bits *bits);

#endif
