/* fill.h: sets a large array to one value, in slices.
 * Knows: how many entries take one step. Does not know: what the array is. */
#ifndef SONDE_FILL_H
#define SONDE_FILL_H

#include "util/budget.h"
#include "util/status.h"

#include <stddef.h>
#include <string.h>

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

/* The same with zeros, for entries of any size. A step is a part of a page, because a new page takes the system as long as
 * many steps. */
static inline enum status wipe(void *array, size_t size, size_t n, size_t *done, struct budget *b)
{
    enum { WIPE_BYTES = 512 };
    size_t step = size < WIPE_BYTES ? WIPE_BYTES / size : 1;
    while (*done < n) {
        size_t some = n - *done < step ? n - *done : step;
        if (!budget_step(b))
            return ST_TIMESLICE;
        memset((char *)array + *done * size, 0, some * size);
        *done += some;
    }
    return ST_OK;
}

#endif
