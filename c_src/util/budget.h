/* budget.h: how far a walk may go before it lets others go on.
 * Knows: steps. Does not know: the clock (the scan looks at it), or what a step is spent on. */
#ifndef SONDE_BUDGET_H
#define SONDE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* How long a walk can be at all. A build for the fuzzer makes it short, because there the end of each
 * such bound is to be reached thousands of times a second. */
#ifdef SONDE_FUZZ
#define BOUND(Real, Fuzzed) (Fuzzed)
#else
#define BOUND(Real, Fuzzed) (Real)
#endif

struct budget {
    uint32_t steps;
    bool shared; /* other walks want the core: do not wait for memory, ask for it and come again */
};

enum { BUDGET_STEPS = 512 }; /* a step is a cache miss or two: about 50 us */

/* One step; false: there are none left. */
static inline bool budget_step(struct budget *b)
{
    if (b->steps == 0)
        return false;
    b->steps--;
    return true;
}

#endif
