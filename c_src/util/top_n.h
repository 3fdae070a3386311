/* top_n.h: the N largest of many rows; the rest is not kept.
 * Knows: the order of recon's rows: larger value first, then the higher pid.
 * Does not know: what the values mean. */
#ifndef SONDE_TOP_N_H
#define SONDE_TOP_N_H

#include "util/budget.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct row {
    int64_t value;
    uint64_t order; /* breaks ties: the position of the pid in the order of pids */
    uint64_t pid;
};

struct top_n {
    size_t n, cap, limit;
    size_t unsorted;  /* while sorting: rows that still form the heap */
    struct row *rows; /* a binary heap, the smallest row first */
};

void top_n_init(struct top_n *t, size_t limit);

/* false: a row with this value cannot be among the N largest. */
static inline bool top_n_may_take(const struct top_n *t, int64_t value)
{
    return t->n < t->limit || (t->n > 0 && value >= t->rows[0].value);
}

/* A row by its address: a copy of words that were just written one by one would be waited for.
 * false: no memory; the rows pushed so far stay. */
bool top_n_push(struct top_n *t, const struct row *row);

/* Sorts, largest first. false: the slice is used up, call again. Push nothing after it. */
bool top_n_sort(struct top_n *t, struct budget *b);

void top_n_free(struct top_n *t);

#endif
