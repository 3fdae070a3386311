/* batch.h: the processes that a scan reads at a time.
 * Knows: which come next, the turns of their walks, and what becomes of each.
 * Does not know: what comes after the sweep, or how long a slice is.
 *
 * Open each under its stamp, find the processes of the next batch and prefetch their cache lines. Then all walks take
 * turns: a walk that would stall prefetches and yields. One barrier covers all walks that are done; then their
 * stamps are checked. Walks that are longer than a slice stay open under their stamps until the next slice. */
#ifndef SONDE_BATCH_H
#define SONDE_BATCH_H

#include "scan/scan.h"

enum phases { SWEEP, RETRY, ASK, LEFTOVERS, SORT, FINISHED };

/* Takes the processes that were found while the last batch was opened, and looks for more if they are too few. OK;
 * TIMESLICE: not enough yet; GONE: there are no more; TORN: the table cannot be read. */
enum status batch_fetch(struct scan *s);

/* Prefetches what the walks read first, and the lines of the next batch. */
void batch_open(struct scan *s);

/* Runs about BUDGET_STEPS, then the caller looks at the clock. */
void batch_walk(struct scan *s);

/* Walks that go on keep their stamps until the next slice; the other stamps are checked now. */
enum status batch_pause(struct scan *s);

/* A process that ran meanwhile invalidates its walk, so the walk ends here. */
void batch_resume(struct scan *s);

/* The walk of the p-th process that has the stamp. */
static inline const struct walk *first_walk(const struct scan *s, unsigned p)
{
    return &s->walks[(size_t)p * s->qn];
}

#endif
