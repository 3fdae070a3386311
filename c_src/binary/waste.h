/* waste.h: what a collection of one process would free, and what its binaries hold in vain.
 * Knows: which binaries on the chains no root reaches; which bytes of its binaries a heap sees.
 * Does not know: how marking works, or who asks.
 *
 * Where no binary is on any chain the answers about binaries are 0 at once, without a mark: so it is
 * with most processes of a node. */
#ifndef SONDE_WASTE_H
#define SONDE_WASTE_H

#include "heap/marking.h"
#include "process/offheap.h"

enum waste_what {
    WASTE_HEAP,        /* bytes of heaps and fragments that no root reaches */
    WASTE_ENTRIES,     /* binaries on the chains that no root reaches */
    WASTE_ENTRY_BYTES, /* bytes of the Binaries to which only such entries refer */
    WASTE_UNSEEN,      /* bytes of the Binaries that are seen, less what is seen of them */
    WASTE_SLICES,      /* the same, and keep which they are */
    WASTE_ACCOUNT      /* bytes of Binaries: live, garbage, pinned; and what the heap is made of */
};

/* Unless the caller sets another bound after waste_start: of unreached entries. */
enum { WASTE_ENTRIES_MAX = BOUND(20000000, 60) };

/* A Binary that the heap sees. */
struct pinned {
    uint64_t binary, size, refc;
    uint64_t visible; /* bytes that some slice sees */
    size_t first, n;  /* its slices, in the sorted list */
};

/* How many unreached entries refer to a Binary; for the account all entries. */
struct tally {
    uint64_t binary, n; /* n is 0: free */
};

/* Beside n: some entry is reached. */
#define TALLY_LIVE (1ULL << 63)

struct waste {
    enum waste_what what;
    unsigned stage; /* in the order of what is asked */
    bool entered;
    uint64_t value;
    uint64_t live, garbage, pinned_bytes; /* bytes of Binaries, for the account */
    uint64_t max_entries, entries;        /* unreached ones; for the account all */
    struct marking heap;
    struct offheap offheap;
    size_t slots, slot, used; /* of the tallies */
    struct tally *tallies;
    size_t slice;      /* the next one */
    uint64_t seen;     /* of the Binary at hand, up to this byte */
    struct pinned now; /* the Binary at hand */
    size_t n, cap;     /* of the list */
    struct pinned *pinned;
};

/* true: there is nothing, and the answer is 0. */
bool waste_is_none(enum waste_what what, const struct reading *rd);

/* The plan is one for marking_fields. */
void waste_start(struct waste *w, const struct reading *rd, enum waste_what what,
                 uint64_t max_words);

/* OK, TIMESLICE (call again), TORN, BUSY, TOO_LARGE, NOMEM. */
enum status waste_walk(struct waste *w, const struct reading *rd);

/* Also after a walk that did not finish. */
void waste_end(struct waste *w);

/* A look for WASTE_SLICES; of its arguments it takes max_words, and max_entries for the slices. */
struct walker;
extern const struct walker slices_walker;

/* A look for WASTE_ACCOUNT; of its arguments it takes max_words. */
extern const struct walker account_walker;

#endif
