/* budget.h: how far a walk may go before it yields.
 * Knows: steps. Does not know: the clock (the scan looks at it), or what a step is spent on. */
#ifndef SONDE_BUDGET_H
#define SONDE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/* A limit of a walk or a table. The fuzzer's build uses a small one, so that the fuzzer reaches
 * each limit thousands of times a second. */
#ifdef SONDE_FUZZ
#define BOUND(Real, Fuzzed) (Fuzzed)
#else
#define BOUND(Real, Fuzzed) (Real)
#endif

struct budget {
    uint32_t steps;
    bool shared; /* other walks share the core: instead of stalling on memory, prefetch and yield */
    uint32_t beyond; /* taken when there were none left */
};

#define BUDGET(Steps) ((struct budget){(Steps), false, 0})

enum { BUDGET_STEPS = 512 }; /* a step is a cache miss or two: about 50 us */

/* Takes one step; false: none is left. */
static inline bool budget_step(struct budget *b)
{
    if (b->steps == 0)
        return false;
    b->steps--;
    return true;
}

/* Takes n steps that are done already, because the work could not stop in between. */
static inline void budget_charge(struct budget *b, uint32_t n)
{
    uint32_t left = n < b->steps ? n : b->steps;
    b->steps -= left;
    b->beyond += n - left;
}

#endif
