/* budget.h: how long a native call may still run.
 * Knows: the clock, and a deadline for the slice. Does not know: what the time is spent on. */
#ifndef SONDE_BUDGET_H
#define SONDE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct budget {
    uint64_t deadline; /* ns */
    uint32_t fuel;     /* steps until the clock is looked at again */
};

enum { BUDGET_FUEL = 512 }; /* a step is a cache miss or two: about 50 us */

static inline uint64_t budget_now(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static inline struct budget budget_start(uint64_t ns)
{
    return (struct budget){budget_now() + ns, BUDGET_FUEL};
}

/* One step; false: the slice is used up. */
static inline bool budget_step(struct budget *b)
{
    if (--b->fuel != 0)
        return true;
    b->fuel = BUDGET_FUEL;
    return budget_now() < b->deadline;
}

#endif
