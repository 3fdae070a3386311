/* failing_alloc.h: allocations that are counted, and of which one can be made to fail. A program includes it once.
 * Knows: the calls of util/alloc.h. Does not know: what is allocated. */
#ifndef SONDE_FAILING_ALLOC_H
#define SONDE_FAILING_ALLOC_H

#include "util/alloc.h"

#include <stdbool.h>
#include <stdlib.h>

static long fail_at; /* the n-th allocation from now fails; 0: none */
static long allocated;
static bool allocation_failed;
static void (*on_failure)(void); /* called when one fails */

static bool must_fail(void)
{
    bool now = fail_at > 0 && --fail_at == 0;
    allocation_failed = allocation_failed || now;
    if (now && on_failure)
        on_failure();
    return now;
}

void *sonde_alloc(size_t bytes)
{
    void *p = must_fail() ? NULL : malloc(bytes);
    allocated += p != NULL;
    return p;
}

void *sonde_realloc(void *p, size_t bytes)
{
    void *moved = must_fail() ? NULL : realloc(p, bytes);
    allocated += moved != NULL && p == NULL;
    return moved;
}

void sonde_free(void *p)
{
    allocated -= p != NULL;
    free(p);
}

#endif
