/* shared_size.h: how many words a term has where each part counts once; literals apart.
 * Knows: how to mark what a term refers to, on the heap and among literals.
 * Does not know: whose term it is.
 *
 * As heap.h: a small stack, and grey marks for what has no room on it. Literals have bits too, in pages
 * that are made when they are first touched; what of them has no room waits in a list of its own, that
 * is as long as they are many. Where a sub-binary is no literal but what it shows is (from OTP 27), this
 * is left out, as in the portable twin, which cannot see it. */
#ifndef SONDE_SHARED_SIZE_H
#define SONDE_SHARED_SIZE_H

#include "util/census.h"
#include "heap/literal_bits.h"
#include "heap/marks.h"
#include "heap/term_size.h"

enum { PARTS_INLINE = BOUND(64, 4) };

struct parts {
    size_t n, cap, max;
    struct part *list;
    struct part first[PARTS_INLINE];
};

struct shared_size {
    const struct term_size *measure; /* for its blocks, and what it knows of binaries */
    struct marks marks;
    struct literal_bits leaves;
    struct part now;
    struct part spill; /* what it refers to is being made grey: there was no room on the stack */
    struct parts stack, later; /* of the heap; of literals */
    bool spilled;              /* something is grey */
    uint64_t words, literals;
    struct census *refs; /* NULL; or where literals' references to Binaries are put, each once */
};

/* Blocks with more words get no bits: they may be read from pointers that moved meanwhile, and it is memory
 * that is taken for them. */
#define SHARED_SIZE_WORDS_MAX BOUND(1ULL << 33, 1ULL << 16)

/* Then marks_clear(&s->marks, _) until it says true. OK, NOMEM, TORN, TOO_LARGE; ASK: where literals lie is not
 * known. In any case shared_size_end. Zeroed memory may be ended too. */
enum status shared_size_start(struct shared_size *s, const struct vm *vm,
                              const struct term_size *measure);
void shared_size_end(struct shared_size *s);

/* The term whose words are counted; then shared_size_go until it says OK. */
enum status shared_size_of(struct shared_size *s, const struct vm *vm, uint64_t term);
enum status shared_size_go(struct shared_size *s, const struct vm *vm, struct budget *b);

#endif
