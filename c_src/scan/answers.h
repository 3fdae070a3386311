/* answers.h: what becomes of an answer, by the mode of the scan.
 * Knows: rows, samples, and what the second look makes of the first one.
 * Does not know: how a process was found or read. */
#ifndef SONDE_ANSWERS_H
#define SONDE_ANSWERS_H

#include "scan/scan.h"

/* Whether each process has an entry in the sample, in the order of the sweep. */
bool answers_are_remembered(const struct scan *s);

/* The values of one process, in the order of the questions. late: the sweep has passed its slot. OK,
 * NOMEM, TOO_LARGE. */
enum status answers_add(struct scan *s, uint64_t pid, const int64_t *values, bool clean, bool late);

/* After a second look, rows for those of the first one that it did not meet. OK, TIMESLICE (call
 * again), NOMEM. */
enum status answers_of_the_dead(struct scan *s);

#endif
