/* marking.h: marks what the roots of a process reach, as a collection would.
 * Knows: how to get from a root to everything below it, in little memory, in slices.
 * Does not know: output formats, or whether the process changed meanwhile.
 *
 * Marking keeps a stack of spans of words that it still has to visit. The stack is small: if it is
 * full, the objects that a span still refers to get a grey mark instead of an entry, and are found
 * again when the stack is empty. So neither a long list nor a deep term needs extra memory.
 *
 * Literals are leaves: they belong to no process. Up to OTP 26 a collection copies small slices of
 * large binaries and releases the binaries; a binary that only such a slice refers to does not
 * count as reached. */
#ifndef SONDE_MARKING_H
#define SONDE_MARKING_H

#include "heap/histogram.h"
#include "heap/literal_bits.h"
#include "heap/marks.h"
#include "heap/parts.h"
#include "heap/roots.h"
#include "heap/slices.h"

enum marking_want {
    MARKING_HISTOGRAM = 1, /* count objects by kind */
    MARKING_VISIBLE = 2,   /* how many bytes of binaries are seen, exact also up to 26 */
    MARKING_SLICES = 4,    /* remember which parts of which binaries are seen; with VISIBLE */
    MARKING_LITERALS = 8   /* the size of the literals referred to */
};

/* The default; the caller may set another limit after marking_start. */
enum { MARKING_SLICES_MAX = BOUND(20000000, 60) };

/* Words that led to a literal before; a power of two. */
enum { MARKING_LEAVES = BOUND(16, 2) };

/* Fragments, including those of messages; more: TOO_LARGE. */
enum { MARKING_BLOCKS_MAX = BOUND(1 << 24, 24) };

struct marking {
    unsigned want;
    int stage;
    bool nameless;      /* the process is sensitive: keep none of its words but pointers */
    uint64_t max_words; /* of heaps and fragments; more: TOO_LARGE */
    uint64_t words;     /* of heaps and fragments */
    uint64_t fragment_words;
    struct fragments collect;
    struct blocks blocks;
    struct marks marks;
    struct roots roots;
    struct part now;              /* being visited */
    struct part spill;            /* being made grey, because the stack is full */
    bool spilled;                 /* grey bits were set */
    bool drained;                 /* everything below the last root is marked */
    bool has_map_nodes;           /* a map with more than 32 keys was reached */
    bool has_seconds;             /* the bit of the second word of some ProcBin is set */
    uint64_t reached[ROOT_COUNT]; /* words */
    uint64_t literals;            /* words that refer to literals */
    uint64_t literal_words;       /* of these literals, each once, without the terms below it */
    uint64_t visible;             /* bytes that binary terms see of binaries outside the heap */
    struct histogram *histogram;
    struct slices slices;       /* for MARKING_SLICES */
    struct literal_bits leaves; /* for MARKING_LITERALS, if the literal area is known */
    uint64_t leaf[MARKING_LEAVES];
    struct parts stack;
};

/* The fields that the walk needs in its plan; LAYOUT_FIELD_COUNT ends them. */
enum { MARKING_FIELDS_MAX = 48 };
void marking_fields(enum layout_field *fields);

void marking_start(struct marking *h, const struct reading *rd, unsigned want, uint64_t max_words);

/* OK, TIMESLICE (call again), TORN, BUSY, TOO_LARGE, NOMEM. */
enum status marking_walk(struct marking *h, const struct reading *rd);

/* Also after an unfinished walk. */
void marking_end(struct marking *h);

uint64_t marking_reached(const struct marking *h);

/* After OK: whether the object at this address was reached; false if it is in no block. */
bool marking_has_reached(const struct marking *h, uintptr_t p);

/* Whether `words` words can lie at p: inside one block of the process or the literal area, or
 * outside all blocks if the literal area is unknown. */
bool marking_may_hold(const struct marking *h, const struct vm *vm, uintptr_t p, uint64_t words);

/* Bytes of memory that the walk takes now. */
size_t marking_bytes(const struct marking *h);

#endif
