/* handler.h: the SIGSEGV/SIGBUS handler behind the guarded loads.
 * Knows: which instructions may fault and where each goes on; who handled the signals before, and the other
 * builds of sonde in this node.
 * Does not know: who reads, or what.
 *
 * HotSpot (SafeFetch) and wasm engines do the same: a load at a known address may fault; the
 * handler sees the program counter there and makes the load return "no". Every other signal goes
 * where it would have gone without us. */
#ifndef SONDE_HANDLER_H
#define SONDE_HANDLER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Held where the handler comes or goes, and where readers are allowed again. */
extern pthread_mutex_t handler_lock;

/* Installs it, once, and tells whether a fault in this thread would reach it now. */
bool handler_is_armed(void);

/* Who has put its own over ours may chain to it: then it would be wrong to install it again later,
 * so it counts as installed. With handler_lock. What the build whose handler is in place again, if any, is
 * to do now, without the lock. */
typedef void handler_settle(void);
handler_settle *handler_uninstall(void);

/* Faults caught since the library was loaded. */
uint64_t handler_faults(void);

#endif
