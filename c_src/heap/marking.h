/* marking.h: what of a process's heap its roots reach: a mark, as a collection would make it.
 * Knows: how to get from a root to everything below it, in little memory, in slices.
 * Does not know: output formats, or whether the process stayed still meanwhile.
 *
 * Marking keeps a stack of spans whose words are still to be looked at. The stack is small: where it
 * is full, what a span still refers to gets a grey mark in place of an entry, and is found again
 * when the stack is empty. So neither a long list nor a deep term needs memory of its own.
 *
 * Literals are leaves: they belong to no process. To OTP 26 a collection copies small slices of large
 * binaries and lets the binaries go; what only such a slice refers to does not count as reached. */
#ifndef SONDE_MARKING_H
#define SONDE_MARKING_H

#include "heap/histogram.h"
#include "heap/literal_bits.h"
#include "heap/marks.h"
#include "heap/roots.h"
#include "heap/slices.h"

enum marking_want {
    MARKING_HISTOGRAM = 1, /* count objects by kind */
    MARKING_VISIBLE = 2,   /* how much of binaries is seen, exactly also to 26 */
    MARKING_SLICES = 4,    /* remember which parts of which binaries are seen; with VISIBLE */
    MARKING_LITERALS = 8   /* how large those are that are referred to */
};

/* Unless the caller sets another bound after marking_start. */
enum { MARKING_SLICES_MAX = BOUND(20000000, 60) };

/* Fragments of so many messages are kept apart; more than that is too large. */
enum { MARKING_BLOCKS_MAX = BOUND(1 << 24, 24) };

/* Words that are still to be looked at. */
struct span {
    uintptr_t at, to;
};

enum { SPANS_INLINE = BOUND(64, 4) };

struct marking {
    unsigned want;
    int stage;
    bool nameless;      /* the process is sensitive: no word of it is kept but pointers */
    uint64_t max_words; /* of heaps and fragments; beyond: TOO_LARGE */
    size_t max_slices;
    uint64_t words; /* that lie in them */
    uint64_t fragment_words;
    struct fragments collect;
    struct blocks blocks;
    struct marks marks;
    struct roots roots;
    struct span now;   /* being looked at */
    struct span spill; /* what it refers to is being made grey: there was no room on the stack */
    struct span *stack;
    size_t n, cap, limit;
    bool spilled;                 /* something is grey */
    bool drained;                 /* the next root is to be looked at */
    uint64_t reached[ROOT_COUNT]; /* words */
    uint64_t literals;            /* words that refer to literals */
    uint64_t literal_words;       /* of these, each by itself and once, without what is below it */
    uint64_t visible;             /* bytes that binary terms see of binaries outside of the heap */
    struct histogram *histogram;
    struct slices *slices;
    struct literal_bits leaves; /* of MARKING_LITERALS, where it is known where they lie */
    struct span stack_first[SPANS_INLINE];
};

/* What a plan for such a walk must hold; ended by LAYOUT_FIELD_COUNT. */
enum { MARKING_FIELDS_MAX = 48 };
void marking_fields(enum layout_field *fields);

void marking_start(struct marking *h, const struct reading *rd, unsigned want, uint64_t max_words);

/* OK, TIMESLICE (call again), TORN, BUSY, TOO_LARGE, NOMEM. */
enum status marking_walk(struct marking *h, const struct reading *rd);

/* Also after a walk that did not finish. */
void marking_end(struct marking *h);

uint64_t marking_reached(const struct marking *h);

/* After OK: whether an object at this address was reached; false also where it is in no block. */
bool marking_has_reached(const struct marking *h, uintptr_t p);

/* Whether so many words can lie there: in one block of the process, or among the literals; where it is not
 * known where these are, in no block at all. */
bool marking_may_hold(const struct marking *h, const struct vm *vm, uintptr_t p, uint64_t words);

/* Bytes of memory that the walk holds now. */
size_t marking_bytes(const struct marking *h);

#endif
