/* waste.h: the memory that a collection of one process would free, and the bytes of its binaries
 * that no term sees.
 * Knows: which binaries on the off-heap lists no root reaches; which bytes of its binaries a heap
 * sees.
 * Does not know: how marking works, or why it is asked for.
 *
 * Most processes have no binary on any list: the answers about binaries are then 0 without a
 * mark. */
#ifndef SONDE_WASTE_H
#define SONDE_WASTE_H

#include "heap/marking.h"
#include "process/offheap.h"

/* What is wanted, as a set. The first four may be wanted together, from one mark. */
enum waste_what {
    WASTE_HEAP = 1,        /* bytes of heaps and fragments that no root reaches */
    WASTE_ENTRIES = 2,     /* binaries on the off-heap lists that no root reaches */
    WASTE_ENTRY_BYTES = 4, /* bytes of the Binaries that only such entries refer to */
    WASTE_UNSEEN = 8,      /* bytes of the visible Binaries that no term sees */
    WASTE_SLICES = 16,     /* the same, with the list of these Binaries */
    WASTE_ACCOUNT = 32 /* bytes of Binaries: live, garbage, pinned; and a histogram of the heap */
};
enum { WASTE_TOGETHER = 4 };

/* The default for max_entries; the caller may set another limit after waste_start. */
enum { WASTE_ENTRIES_MAX = BOUND(20000000, 60) };

/* A Binary that terms of the heap see. */
struct pinned {
    uint64_t binary, size, refc;
    uint64_t visible; /* bytes that some slice sees */
    size_t first, n;  /* its slices, in the sorted list */
};

/* The number of unreached entries that refer to a Binary; for WASTE_ACCOUNT of all entries. */
struct tally {
    uint64_t binary, n; /* n is 0: free */
};

/* A bit of n: some entry is reached. */
#define TALLY_LIVE (1ULL << 63)

struct waste {
    unsigned what;
    unsigned stage;
    bool entered;
    uint64_t heap_bytes, entry_bytes, unseen;
    uint64_t live, garbage, pinned_bytes; /* bytes of Binaries, for WASTE_ACCOUNT */
    uint64_t max_entries, entries;        /* unreached entries; for WASTE_ACCOUNT all */
    struct marking heap;
    struct offheap offheap;
    size_t slots, slot, used; /* of the tallies */
    struct tally *tallies;
    size_t slice;      /* the next slice */
    uint64_t seen;     /* the end of the visible bytes so far in the current Binary */
    struct pinned now; /* the current Binary */
    size_t n, cap;     /* of `pinned' */
    struct pinned *pinned;
};

/* true: the answer is 0 without a walk. */
bool waste_is_none(unsigned what, const struct reading *rd);

/* The plan must have the fields of marking_fields. */
void waste_start(struct waste *w, const struct reading *rd, unsigned what, uint64_t max_words);

/* OK, TIMESLICE (call again), TORN, BUSY, TOO_LARGE, NOMEM. */
enum status waste_walk(struct waste *w, const struct reading *rd);

/* After OK: one of the first four. */
uint64_t waste_value(const struct waste *w, enum waste_what what);

/* Frees one of its arrays, then the rest, also after an unfinished walk; true: nothing is left. */
bool waste_end(struct waste *w);

/* A look for WASTE_SLICES; it uses the arguments max_words and max_entries, the limit of slices. */
struct walker;
extern const struct walker slices_walker;

/* A look for WASTE_ACCOUNT; it uses the argument max_words. */
extern const struct walker account_walker;

#endif
