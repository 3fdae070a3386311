/* filter.h: whether the kernel filters what this node may call (seccomp).
 * Knows: where the kernel says so. Does not know: which calls are wanted.
 *
 * A call that the filter does not expect may end the node. Unless the configuration says that the filter
 * lets our calls pass, sonde tries none: then only the guarded reader works, and no reader works where
 * it needs membarrier (it does not on x86-64). */
#ifndef SONDE_FILTER_H
#define SONDE_FILTER_H

#include <stdbool.h>

/* The filter lets process_vm_readv and membarrier pass. */
void filter_allows(void);

bool filter_may_try_syscalls(void);

#endif
