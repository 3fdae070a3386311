/* clock.h: what time it is.
 * Knows: the system's monotonic clock, in nanoseconds.
 * Does not know: whose deadline it is. */
#ifndef SONDE_CLOCK_H
#define SONDE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

#endif
