/* handler.h: the SIGSEGV/SIGBUS handler behind the guarded loads.
 * Knows: which instructions may fault and where each goes on; the handlers before ours, and the other
 * builds of sonde in this node.
 * Does not know: what is read, or why.
 *
 * HotSpot (SafeFetch) and wasm engines do the same: a load at a known address may fault; the
 * handler sees the program counter there and makes the load return "no". Every other signal goes
 * where it would have gone without us. */
#ifndef SONDE_HANDLER_H
#define SONDE_HANDLER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Held while the handler is installed or removed, and while readers are allowed again. */
extern pthread_mutex_t handler_lock;

/* Installs the handler, once. true: a fault in this thread would reach it now. */
bool handler_is_armed(void);

/* Removes the handler, with handler_lock held. A foreign handler over ours may chain to it; to install ours
 * again later would then be wrong, so ours stays and counts as installed. Returns what another build,
 * whose handler is in place again, has to do now, without the lock; or NULL. */
typedef void handler_settle(void);
handler_settle *handler_uninstall(void);

/* Faults caught since the library was loaded. */
uint64_t handler_faults(void);

#endif
