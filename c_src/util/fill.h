/* fill.h: sets a large array to one value, in slices.
 * Knows: how many entries take one step. Does not know: what the array is. */
#ifndef SONDE_FILL_H
#define SONDE_FILL_H

#include "util/budget.h"
#include "util/status.h"

enum { FILL_STEP = 256 };

/* *done starts at 0. OK: all n entries are set; TIMESLICE: call again. */
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
