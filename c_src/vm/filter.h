/* filter.h: whether the kernel filters what this node may call (seccomp).
 * Knows: where the kernel says so. Does not know: which calls are wanted.
 *
 * One that the filter does not expect may end the node. Unless somebody says that the filter lets ours pass
 * none is tried: then only the guarded reader works, and none where that needs membarrier (it does not on
 * x86-64). */
#ifndef SONDE_FILTER_H
#define SONDE_FILTER_H

#include <stdbool.h>

/* It lets process_vm_readv and membarrier pass. */
void filter_allows(void);

bool filter_may_try_syscalls(void);

#endif
