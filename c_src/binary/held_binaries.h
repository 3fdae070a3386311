/* held_binaries.h: the Binaries that one process holds: on its lists, and in messages that wait for it.
 * Knows: where references to Binaries are found, and what makes a Binary a process's own.
 * Does not know: who else holds them, unless an account of all is at hand.
 *
 * process_info(_, binary) lists what is on the lists, each reference; to 26 without the binaries that
 * are appended to, on no release with what waits in fragments of messages. Here all of it counts, and
 * each Binary once. */
#ifndef SONDE_HELD_BINARIES_H
#define SONDE_HELD_BINARIES_H

#include "binary/account.h"
#include "process/offheap.h"

enum held_binaries_what {
    HELD_UNIQUE,    /* bytes of the Binaries */
    HELD_EXCLUSIVE, /* of those to which nobody else refers */
    HELD_SHARE,     /* what belongs to it, where all holders have an equal share */
    HELD_ALL        /* nothing; but resources are among the entries */
};

/* Of one process, unless the caller sets another bound after held_binaries_start. */
enum { HELD_MAX = BOUND(20000000, 60) };

/* Fragments of the process; of a message there may be fewer. */
enum { HELD_BLOCKS_MAX = BOUND(1 << 24, 24) };

/* Kinds of resources that a process may hold before the others are `unknown'. */
enum { HELD_TYPES = BOUND(16, 2) };

enum { HELD_PENDING = BOUND(16, 4) };

struct held_binaries {
    enum held_binaries_what what;
    int stage;
    bool queued; /* what is found now is in a message */
    uint64_t pid;
    const struct account *account; /* of all holders, for SHARE */
    uint64_t value;                /* bytes */
    uint64_t print;                /* of what it has, for SHARE */
    uint64_t message;              /* the next one */
    uint64_t steps;                /* left, before a queue must be a cycle */
    size_t at;                     /* in the census */
    unsigned n, taken; /* found, and looked at; those in between are on their way: a ring */
    uint64_t pending[HELD_PENDING];
    struct offheap offheap;
    /* `first' is how many of refs are in messages, `holders' how many are those of binaries; of resources
     * `first' is their type, */
    struct census binaries;
    struct resource_types types; /* one of these */
};

/* What a plan for such a walk must hold, besides queue_fields; ended by LAYOUT_FIELD_COUNT. */
#define held_binaries_fields offheap_fields

/* true: there is nothing, and the answer is 0. */
bool held_binaries_is_none(const struct reading *rd);

void held_binaries_start(struct held_binaries *h, const struct reading *rd,
                         enum held_binaries_what what, const struct account *account);

/* OK, TIMESLICE (call again), TORN, BUSY, TOO_LARGE, NOMEM; CHANGED: it has not what the account says. */
enum status held_binaries_walk(struct held_binaries *h, const struct reading *rd);

/* Also after a walk that did not finish. */
void held_binaries_end(struct held_binaries *h);

#endif
