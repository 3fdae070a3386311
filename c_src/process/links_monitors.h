/* links_monitors.h: the links and monitors of a process: their number and their size.
 * Knows: their trees and lists, and which of them process_info lists.
 * Does not know: more of the other end than its pid, or whether the process changed meanwhile. */
#ifndef SONDE_LINKS_MONITORS_H
#define SONDE_LINKS_MONITORS_H

#include "util/budget.h"
#include "vm/stamp.h"

extern const enum layout_field links_monitors_fields[];

enum links_monitors_what {
    LINKS_MONITORS_LINKS,
    LINKS_MONITORS_MONITORS,
    LINKS_MONITORS_MONITORED_BY,
    LINKS_MONITORS_BYTES,
    LINKS_MONITORS_EACH
};

/* What this process is linked to or monitors: another process. */
struct tie {
    bool monitor;
    bool remote;    /* on another node; then `other' is not read */
    uint64_t other; /* a local pid */
    uint64_t ref;   /* the word of the monitor's reference */
};

/* OK, or TORN. */
typedef enum status take_tie(void *to, const struct vm *vm, const struct tie *tie);

/* A red-black tree of 2^48 nodes is less than 128 deep. */
enum { LINKS_MONITORS_DEPTH = BOUND(128, 10) };

/* More than all processes and ports together. */
enum { LINKS_MONITORS_MAX = BOUND(1 << 28, 200) };

/* A walk; it can stop and resume. */
struct links_monitors {
    enum links_monitors_what what;
    int stage;
    uint64_t sum;
    uint64_t steps;
    uint64_t first; /* of the circular list */
    take_tie *each; /* EACH */
    void *to;
    unsigned depth;
    uint64_t todo[LINKS_MONITORS_DEPTH];
};

void links_monitors_start(struct links_monitors *t, enum links_monitors_what what);

/* Passes each tie to `each', except links to other nodes. */
void links_monitors_each(struct links_monitors *t, take_tie *each, void *to);

/* OK, TIMESLICE (call again), TORN, ASK (one end is on another node: no check can prove the fields
 * with its size or state without a second node). */
enum status links_monitors_walk(struct links_monitors *t, const struct reading *rd);

#endif
