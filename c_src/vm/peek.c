#include "vm/peek.h"

#include "vm/filter.h"
#include "vm/handler.h"
#include "vm/peek_other.h"
#include "vm/peek_syscall.h"

#include <pthread.h>
#include <stdatomic.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* ---- readers ---------------------------------------------------------------------------------- */

struct peek_slot peek_slots[PEEK_SLOTS];
atomic_bool peek_left;

/* After peek_left was set: a call that began later found no reader, and does not matter. */
static bool nobody_reads(void)
{
    for (unsigned i = 0; i < PEEK_SLOTS; i++) {
        if (atomic_load(&peek_slots[i].calls) != 0)
            return false;
    }
    return true;
}

/* Under the lock no reader is allowed again, so a call that begins meanwhile finds none. */
void peek_settle(void)
{
    handler_settle *settle = NULL;
    (void)pthread_mutex_lock(&handler_lock);
    if (atomic_load(&peek_left) && nobody_reads())
        settle = handler_uninstall();
    (void)pthread_mutex_unlock(&handler_lock);
    /* The other build may have waited until ours was removed. */
    if (settle)
        settle();
}

void peek_leave(void)
{
    atomic_store(&peek_left, true);
    peek_settle();
}

void peek_return(void)
{
    (void)pthread_mutex_lock(&handler_lock);
    atomic_store(&peek_left, false);
    (void)pthread_mutex_unlock(&handler_lock);
}

/* ---- the barrier between a walk and its closing check ------------------------------------- */

#if defined(__linux__) && !defined(__x86_64__)
/* The VM stores that a process runs, or that its lock is taken, without a barrier behind it: what it writes next may
 * be seen first. One expedited membarrier makes every thread of the node pass a full barrier, at a boundary between
 * two instructions: what such a thread stored before something that we saw is seen by what we read next. */
enum { CMD_PRIVATE_EXPEDITED = 1 << 3, CMD_REGISTER_PRIVATE_EXPEDITED = 1 << 4 };

static bool barrier_works(void)
{
    static atomic_int state; /* 0 not tried, 1 works, 2 does not */
    if (!filter_may_try_syscalls())
        return false;
    if (atomic_load(&state) == 0) {
        bool ok = syscall(SYS_membarrier, CMD_REGISTER_PRIVATE_EXPEDITED, 0) == 0;
        atomic_store(&state, ok ? 1 : 2);
    }
    return atomic_load(&state) == 1;
}

void peek_barrier(void)
{
    other_barrier();
    atomic_thread_fence(memory_order_seq_cst);
    (void)syscall(SYS_membarrier, CMD_PRIVATE_EXPEDITED, 0);
}
#elif defined(__x86_64__)
/* Total store order: loads stay in order, and every locked instruction is a full barrier. */
static bool barrier_works(void)
{
    return true;
}

void peek_barrier(void)
{
    other_barrier();
    atomic_signal_fence(memory_order_seq_cst);
}
#else
static bool barrier_works(void)
{
    return false; /* no way known to make the other side's release stores visible in time */
}

void peek_barrier(void)
{
    other_barrier();
    atomic_thread_fence(memory_order_seq_cst);
}
#endif

/* ---- what callers use ---------------------------------------------------------------------- */

enum peek_reader peek_ready(enum peek_reader want)
{
    if (want == PEEK_NONE || atomic_load(&peek_left) || !barrier_works())
        return PEEK_NONE;
    other_begin();
    if (want == PEEK_OTHER)
        return other_works() ? PEEK_OTHER : PEEK_NONE;
    if (want == PEEK_GUARDED && handler_is_armed())
        return PEEK_GUARDED;
    return filter_may_try_syscalls() && syscall_works() ? PEEK_SYSCALL : PEEK_NONE;
}

bool peek_word_slowly(enum peek_reader r, uintptr_t addr, uint64_t *out)
{
    if (r == PEEK_NONE || (addr & 7))
        return false;
    return r == PEEK_OTHER ? other_word(addr, out) : syscall_block(addr, 1, out);
}

bool peek_gather_slowly(enum peek_reader r, uintptr_t base, const uint16_t *offsets, unsigned n,
                        uint64_t *out)
{
    if (r == PEEK_NONE || (base & 7))
        return false;
    return r == PEEK_OTHER ? other_gather(base, offsets, n, out)
                           : syscall_gather(base, offsets, n, out);
}

bool peek_differ_slowly(enum peek_reader r, uintptr_t base, const uint16_t *offsets, unsigned n,
                        const uint64_t *seen, uint64_t *bits)
{
    uint64_t now[PEEK_GATHER_MAX] = {0};
    if (n > PEEK_GATHER_MAX || !peek_gather_slowly(r, base, offsets, n, now))
        return false;
    *bits = 0;
    for (unsigned i = 0; i < n; i++)
        *bits |= now[i] ^ seen[i];
    return true;
}

bool peek_block(enum peek_reader r, uintptr_t addr, size_t words, uint64_t *out)
{
    if (r == PEEK_NONE || (addr & 7))
        return false;
#if PEEK_HAVE_GUARDED
    if (r == PEEK_GUARDED)
        return !sonde_copy(addr, words, out).fault;
#endif
    return r == PEEK_OTHER ? other_block(addr, words, out) : syscall_block(addr, words, out);
}

bool peek_scan(enum peek_reader r, uintptr_t table, size_t from, size_t to, size_t *found)
{
    if (r == PEEK_NONE || (table & 7))
        return false;
#if PEEK_HAVE_GUARDED
    if (r == PEEK_GUARDED) {
        struct loaded got = sonde_scan(table, from, to);
        *found = got.value;
        return !got.fault;
    }
#endif
    return r == PEEK_OTHER ? other_scan(table, from, to, found)
                           : syscall_scan(table, from, to, found);
}
