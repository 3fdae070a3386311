/* fill.h: setting a large array to one value, in slices.
 * Knows: how much of it fits a step. Does not know: what the array is. */
#ifndef SONDE_FILL_H
#define SONDE_FILL_H

#include "util/budget.h"
#include "util/status.h"

/* Entries in a step. */
enum { FILL_STEP = 256 };

/* From *done on, which is 0 before. OK: all n are set; TIMESLICE: call again. */
static inline enum status fill(uint32_t *array, uint32_t n, uint32_t *done, uint32_t value,
                               struct budget *b)
{
    for (; *done < n; ++*done) {
        if (*done % FILL_STEP == 0 && !budget_step(b))
            return ST_TIMESLICE;
        array[*done] = value;
    }
    return ST_OK;
}

#endif
