/* held_binaries.h: the Binaries on a process's off-heap lists and in its waiting messages.
 * Knows: where references to Binaries are, and when a Binary belongs to one process only.
 * Does not know: the other holders.
 *
 * process_info(_, binary) lists each reference on the off-heap lists; up to 26 it omits the
 * binaries that are being appended to, and in every release the fragments of waiting messages. Here
 * all of these count, and each Binary once. */
#ifndef SONDE_HELD_BINARIES_H
#define SONDE_HELD_BINARIES_H

#include "util/census.h"
#include "process/resource_types.h"
#include "process/offheap.h"

enum held_binaries_what {
    HELD_UNIQUE,    /* bytes of all its Binaries */
    HELD_EXCLUSIVE, /* bytes of the Binaries without another reference */
    HELD_ALL        /* no value, only the entries, including resources */
};

/* The default; the caller may set another limit after held_binaries_start. */
enum { HELD_MAX = BOUND(20000000, 60) };

/* Fragments of the process; message_fragments.h limits those of a message. */
enum { HELD_BLOCKS_MAX = BOUND(1 << 24, 24) };

/* Resource types of a process; the rest count as unknown. */
enum { HELD_TYPES = BOUND(16, 2) };

enum { HELD_PENDING = BOUND(32, 4) };

struct held_binaries {
    enum held_binaries_what what;
    int stage;
    bool queued;       /* the walk is in a message */
    bool waited;       /* for the last ones */
    uint64_t value;    /* bytes */
    uint64_t message;  /* the next message */
    uint64_t steps;    /* steps left; a longer queue is a cycle */
    size_t at;         /* in the census */
    unsigned n, taken; /* references found, and read; those in between are prefetched */
    uint64_t pending[HELD_PENDING]; /* a ring */
    struct offheap offheap;
    /* `first' is the number of refs in messages, or the index of a resource's type in `types';
     * `holders' is not 0 if a term sees it as a binary. */
    struct census binaries;
    struct resource_types types;
};

/* The fields for the walk's plan, besides queue_fields; LAYOUT_FIELD_COUNT ends them. */
#define held_binaries_fields offheap_fields

/* true: the process holds no Binary, and the answer is 0. */
bool held_binaries_is_none(const struct reading *rd);

void held_binaries_start(struct held_binaries *h, const struct reading *rd,
                         enum held_binaries_what what);

/* OK, TIMESLICE (call again), TORN, BUSY, TOO_LARGE, NOMEM. */
enum status held_binaries_walk(struct held_binaries *h, const struct reading *rd);

/* Also after an unfinished walk. */
void held_binaries_end(struct held_binaries *h);

#endif
