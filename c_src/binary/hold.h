/* hold.h: the Binaries that one process holds: on its lists, and in messages that wait for it.
 * Knows: where references to Binaries are found, and what makes a Binary a process's own.
 * Does not know: who else holds them, unless an account of all is at hand.
 *
 * process_info(_, binary) lists what is on the lists, each reference; to 26 without the binaries that
 * are appended to, on no release with what waits in fragments of messages. Here all of it counts, and
 * each Binary once. */
#ifndef SONDE_HOLD_H
#define SONDE_HOLD_H

#include "binary/account.h"
#include "process/offheap.h"

enum hold_what {
    HOLD_UNIQUE,    /* bytes of the Binaries */
    HOLD_EXCLUSIVE, /* of those to which nobody else refers */
    HOLD_SHARE,     /* what belongs to it, where all holders have an equal share */
    HOLD_ALL        /* nothing; but resources are among the entries */
};

/* Of one process, unless the caller sets another bound after hold_start. */
enum { HOLD_MAX = BOUND(20000000, 60) };

/* Fragments of the process; of a message there may be fewer. */
enum { HOLD_BLOCKS_MAX = BOUND(1 << 24, 24) };

/* Kinds of resources that a process may hold before the others are `unknown'. */
enum { HOLD_TYPES = BOUND(16, 2) };

enum { HOLD_PENDING = BOUND(16, 4) };

struct hold {
    enum hold_what what;
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
    uint64_t pending[HOLD_PENDING];
    struct offheap offheap;
    /* `first' is how many of refs are in messages, `holders' how many are those of binaries; of resources
     * `first' is their type, */
    struct census binaries;
    struct resource_types types; /* one of these */
};

/* What a plan for such a walk must hold, besides queue_fields; ended by LAYOUT_FIELD_COUNT. */
#define hold_fields offheap_fields

/* true: there is nothing, and the answer is 0. */
bool hold_is_none(const struct vm *vm, const struct plan *plan, const struct view *view);

void hold_start(struct hold *h, const struct vm *vm, const struct plan *plan,
                const struct view *view, enum hold_what what, const struct account *account);

/* OK, TIMESLICE (call again), TORN, BUSY, TOO_LARGE, NOMEM; CHANGED: it has not what the account says. */
enum status hold_walk(struct hold *h, const struct vm *vm, const struct plan *plan,
                      const struct view *view, struct budget *b);

/* Also after a walk that did not finish. */
void hold_end(struct hold *h);

#endif
