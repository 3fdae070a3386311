/* ties.h: the links and monitors of a process: how many, how large.
 * Knows: the trees and lists they hang in, and which of them process_info lists.
 * Does not know: who is at the other end, or whether the process stayed still meanwhile. */
#ifndef SONDE_TIES_H
#define SONDE_TIES_H

#include "util/budget.h"
#include "vm/stamp.h"

extern const enum layout_field ties_fields[];

enum ties_what { TIES_LINKS, TIES_MONITORS, TIES_MONITORED_BY, TIES_BYTES };

/* A red-black tree of 2^48 nodes is less than 128 deep. */
enum { TIES_DEPTH = BOUND(128, 10) };

/* More than processes and ports can be. */
enum { TIES_MAX = BOUND(1 << 28, 200) };

/* A walk; it can stop and go on. */
struct ties {
    enum ties_what what;
    int stage;
    uint64_t sum;
    uint64_t steps;
    uint64_t first; /* of the circular list */
    unsigned depth;
    uint64_t todo[TIES_DEPTH];
};

void ties_start(struct ties *t, enum ties_what what);

/* OK, TIMESLICE (call again), TORN, ASK (one end on another node: its size or state is kept
 * where no check without a second node could prove it). */
enum status ties_walk(struct ties *t, const struct vm *vm, const struct plan *plan,
                      const struct view *view, struct budget *b);

#endif
