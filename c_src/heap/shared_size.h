/* shared_size.h: the words of a term, each part counted once, literals separately.
 * Knows: how to mark what a term refers to, on the heap and among literals.
 * Does not know: which process the term belongs to.
 *
 * As marking.h: a small stack, and grey marks for objects without room on it. Literals have
 * literal_bits instead; those without room on the stack wait in a second list that grows with their
 * number. If a sub-binary is not a literal but its whole binary is (from OTP 27), the whole binary
 * is not counted, because the portable path cannot see it either. */
#ifndef SONDE_SHARED_SIZE_H
#define SONDE_SHARED_SIZE_H

#include "util/census.h"
#include "heap/literal_bits.h"
#include "heap/marks.h"
#include "heap/term_size.h"

struct shared_size {
    const struct term_size *measure; /* for its blocks and the sizes of binaries */
    struct marks marks;
    struct literal_bits leaves;
    struct part now;
    struct part spill;         /* being made grey, because the stack is full */
    struct parts stack, later; /* later: literals without room on the stack */
    bool spilled;              /* grey bits were set */
    uint64_t words, literals;
    struct census *refs; /* collects the literals' references to Binaries, each once; or NULL */
};

/* Blocks with more words get no bits: their size may come from pointers that moved while they were
 * read, and the bits would take memory in proportion. */
#define SHARED_SIZE_WORDS_MAX BOUND(1ULL << 33, 1ULL << 16)

/* OK: call marks_clear(&s->marks, _) until it returns true. NOMEM, TORN, TOO_LARGE; ASK: the
 * literal area is unknown. Always call shared_size_end; it also accepts zeroed memory. */
enum status shared_size_start(struct shared_size *s, const struct vm *vm,
                              const struct term_size *measure);
void shared_size_end(struct shared_size *s);

/* Starts with this term; then call shared_size_go until it returns OK. */
enum status shared_size_of(struct shared_size *s, const struct vm *vm, uint64_t term);
enum status shared_size_go(struct shared_size *s, const struct vm *vm, struct budget *b);

#endif
