#include "vm/peek.h"

#include "vm/filter.h"
#include "vm/handler.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <sys/uio.h>
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

/* ---- the syscall reader -------------------------------------------------------------------- */

#if defined(__linux__)

enum { IOVECS = PEEK_GATHER_MAX };

static bool readv_words(const struct iovec *remote, unsigned n, uint64_t *out, size_t words)
{
    struct iovec local = {out, words * sizeof *out};
    ssize_t got = process_vm_readv(getpid(), &local, 1, remote, n, 0);
    return got >= 0 && (size_t)got == words * sizeof *out;
}

static void *remote_address(uintptr_t addr)
{
    return (void *)addr; // NOLINT(performance-no-int-to-ptr)
}

static bool syscall_block(uintptr_t addr, size_t words, uint64_t *out)
{
    struct iovec remote = {remote_address(addr), words * sizeof *out};
    return readv_words(&remote, 1, out, words);
}

/* The kernel reads the pieces one after the other, so the order of the words is kept. */
static bool syscall_gather(uintptr_t base, const uint16_t *off, unsigned n, uint64_t *out)
{
    struct iovec remote[IOVECS];
    for (unsigned done = 0; done < n;) {
        unsigned k = 0;
        for (; k < IOVECS && done + k < n; k++) {
            remote[k].iov_base = remote_address(base + off[done + k]);
            remote[k].iov_len = sizeof *out;
        }
        if (!readv_words(remote, k, out + done, k))
            return false;
        done += k;
    }
    return true;
}

static bool syscall_works(void)
{
    static const uint64_t known = 0x736f6e6465212121;
    uint64_t seen = 0;
    return syscall_block((uintptr_t)&known, 1, &seen) && seen == known;
}

#else
static bool syscall_block(uintptr_t addr, size_t words, uint64_t *out)
{
    (void)addr, (void)words, (void)out;
    return false;
}

static bool syscall_gather(uintptr_t base, const uint16_t *off, unsigned n, uint64_t *out)
{
    (void)base, (void)off, (void)n, (void)out;
    return false;
}

static bool syscall_works(void)
{
    return false;
}
#endif

static bool syscall_scan(uintptr_t table, size_t from, size_t to, size_t *found)
{
    uint64_t chunk[512];
    for (size_t i = from; i < to;) {
        size_t n = to - i < 512 ? to - i : 512;
        if (!syscall_block(table + i * 8, n, chunk))
            return false;
        for (size_t k = 0; k < n; k++) {
            if (chunk[k] != 0) {
                *found = i + k;
                return true;
            }
        }
        i += n;
    }
    *found = to;
    return true;
}

/* ---- the barrier between a walk and its closing check ------------------------------------- */

#if defined(__linux__) && !defined(__x86_64__)
/* The VM sets RUNNING with release order only, so our closing reads need its store made visible:
 * one expedited membarrier makes every thread of the node pass a full barrier. */
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
    atomic_signal_fence(memory_order_seq_cst);
}
#else
static bool barrier_works(void)
{
    return false; /* no way known to make the other side's release stores visible in time */
}

void peek_barrier(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}
#endif

/* ---- what callers use ---------------------------------------------------------------------- */

enum peek_reader peek_ready(enum peek_reader want)
{
    if (want == PEEK_NONE || atomic_load(&peek_left) || !barrier_works())
        return PEEK_NONE;
    if (want == PEEK_GUARDED && handler_is_armed())
        return PEEK_GUARDED;
    return filter_may_try_syscalls() && syscall_works() ? PEEK_SYSCALL : PEEK_NONE;
}

bool peek_word_slowly(enum peek_reader r, uintptr_t addr, uint64_t *out)
{
    return r != PEEK_NONE && (addr & 7) == 0 && syscall_block(addr, 1, out);
}

bool peek_gather_slowly(enum peek_reader r, uintptr_t base, const uint16_t *offsets, unsigned n,
                        uint64_t *out)
{
    return r != PEEK_NONE && (base & 7) == 0 && syscall_gather(base, offsets, n, out);
}

bool peek_differ_slowly(enum peek_reader r, uintptr_t base, const uint16_t *offsets, unsigned n,
                        const uint64_t *seen, uint64_t *bits)
{
    uint64_t now[PEEK_GATHER_MAX];
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
    return syscall_block(addr, words, out);
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
    return syscall_scan(table, from, to, found);
}
