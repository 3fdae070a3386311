/* peek.c: reads memory that may not be mapped, without ever crashing.
 * Knows: the guarded loads, the fault handler behind them, the syscall in its place.
 * Does not know: what is at an address, or why somebody wants it.
 *
 * HotSpot (SafeFetch) and wasm engines do the same: a load at a known address may fault; the
 * handler sees the program counter there and makes the load return "no". Every other signal goes
 * where it would have gone without us. */
#include "vm/peek.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/ucontext.h> /* macOS: <ucontext.h> itself refuses to be included */
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#endif

#define HAVE_GUARDED PEEK_HAVE_GUARDED

#if HAVE_GUARDED
extern const char sonde_pc_gather[], sonde_pc_gather_end[], sonde_pc_gather1[], sonde_pc_differ[],
    sonde_pc_differ_end[], sonde_pc_differ1[], sonde_pc_copy[], sonde_pc_scan[],
    sonde_pc_scan_end[], sonde_pc_scan1[], sonde_fault[];
#if PEEK_HAVE_INLINE
/* The inline loads, as the linker collected them; both fields count from themselves. */
struct guarded {
    int32_t load, landing;
};
extern const struct guarded __start_sonde_guarded[] __attribute__((visibility("hidden")));
extern const struct guarded __stop_sonde_guarded[] __attribute__((visibility("hidden")));
#else
extern const char sonde_pc_load[];
#endif

void sonde_on_fault(int sig, siginfo_t *si, void *ctx) __attribute__((visibility("hidden")));
#if defined(__ELF__)
void sonde_handler_1(int sig, siginfo_t *si, void *ctx); /* goes on there, and has a name */
#define OUR_HANDLER sonde_handler_1
#else
#define OUR_HANDLER sonde_on_fault
#endif
#endif

/* ---- the program counter of an interrupted thread ------------------------------------------ */

#if defined(__linux__) && defined(__x86_64__)
#define UC_PC(uc) ((uc)->uc_mcontext.gregs[REG_RIP])
#elif defined(__linux__) && defined(__aarch64__)
#define UC_PC(uc) ((uc)->uc_mcontext.pc)
#elif defined(__APPLE__) && defined(__x86_64__)
#define UC_PC(uc) ((uc)->uc_mcontext->__ss.__rip)
#elif defined(__APPLE__) && defined(__aarch64__)
#define UC_PC(uc) ((uc)->uc_mcontext->__ss.__pc)
#elif defined(__FreeBSD__) && defined(__x86_64__)
#define UC_PC(uc) ((uc)->uc_mcontext.mc_rip)
#elif defined(__FreeBSD__) && defined(__aarch64__)
#define UC_PC(uc) ((uc)->uc_mcontext.mc_gpregs.gp_elr)
#endif

static _Atomic uint64_t faults;

uint64_t peek_faults(void)
{
    return atomic_load_explicit(&faults, memory_order_relaxed);
}

/* ---- who reads -------------------------------------------------------------------------------- */

struct peek_slot peek_slots[PEEK_SLOTS];
atomic_bool peek_left;

/* After peek_left was set: who came in later than that found no reader, and does not matter. */
static bool nobody_reads(void)
{
    for (unsigned i = 0; i < PEEK_SLOTS; i++) {
        if (atomic_load(&peek_slots[i].calls) != 0)
            return false;
    }
    return true;
}

/* Held where the handler comes or goes, and where readers are allowed again. */
static pthread_mutex_t install_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the handler --------------------------------------------------------------------------- */

#if HAVE_GUARDED

enum { SIGNALS = 2 };
static const int signals[SIGNALS] = {SIGSEGV, SIGBUS};

/* What was installed before us: written under install_lock, then only read. */
static struct sigaction previous[SIGNALS];

/* A previous handler with SA_RESETHAND has had its one call. */
static atomic_bool spent[SIGNALS];

/* Did an instruction of this thread fault, or did somebody send the signal (kill; also the kernel,
 * about a broken page that nobody touched yet)? Linux gives senders codes that are not positive;
 * the BSDs give them large ones; macOS cannot be relied on to tell, and takes all for faults. */
static bool is_fault(const siginfo_t *si)
{
#if defined(__linux__)
    return si->si_code > 0 && !(si->si_signo == SIGBUS && si->si_code == BUS_MCEERR_AO);
#else
#if defined(SI_LWP)
    if (si->si_code == SI_LWP)
        return false;
#endif
    return si->si_code != SI_USER && si->si_code != SI_QUEUE;
#endif
}

static bool between(uintptr_t pc, const char *from, const char *to)
{
    return pc >= (uintptr_t)from && pc < (uintptr_t)to;
}

#if PEEK_HAVE_INLINE
static uintptr_t inline_landing(uintptr_t pc)
{
    for (const struct guarded *g = __start_sonde_guarded; g < __stop_sonde_guarded; g++) {
        if ((uintptr_t)&g->load + (uintptr_t)(intptr_t)g->load == pc)
            return (uintptr_t)&g->landing + (uintptr_t)(intptr_t)g->landing;
    }
    return 0;
}
#else
static uintptr_t inline_landing(uintptr_t pc)
{
    return pc == (uintptr_t)sonde_pc_load ? (uintptr_t)sonde_fault : 0;
}
#endif

/* Where to go on after a fault at pc; 0: it is not one of our loads. */
static uintptr_t landing(uintptr_t pc)
{
    if (pc == (uintptr_t)sonde_pc_copy || between(pc, sonde_pc_gather, sonde_pc_gather_end) ||
        pc == (uintptr_t)sonde_pc_gather1 || between(pc, sonde_pc_differ, sonde_pc_differ_end) ||
        pc == (uintptr_t)sonde_pc_differ1 || between(pc, sonde_pc_scan, sonde_pc_scan_end) ||
        pc == (uintptr_t)sonde_pc_scan1)
        return (uintptr_t)sonde_fault;
    return inline_landing(pc);
}

static void set_default(int sig)
{
    struct sigaction dfl;
    memset(&dfl, 0, sizeof dfl);
    dfl.sa_handler = SIG_DFL;
    (void)sigemptyset(&dfl.sa_mask);
    (void)sigaction(sig, &dfl, NULL);
}

/* The node must end (or not) exactly as it would have without us. */
static void end_as_before(int sig, bool fault, bool ignored)
{
    if (fault) {
        /* The instruction faults again, now with the default action: signal 11 and a core, at
         * the true place. The kernel does not let a process ignore its own fault either. */
        set_default(sig);
    } else if (!ignored && getpid() != 1) {
        /* The first process of a container is safe from signals it has no handler for. Any other
         * ends here: SA_NODEFER, so the signal is not blocked. */
        set_default(sig);
        (void)raise(sig);
    }
}

static void call_previous(const struct sigaction *prev, int sig, siginfo_t *si, void *ctx)
{
    sigset_t mask = prev->sa_mask;
    sigset_t saved;
    if (!(prev->sa_flags & SA_NODEFER))
        (void)sigaddset(&mask, sig);
    (void)pthread_sigmask(SIG_BLOCK, &mask, &saved);
    if (prev->sa_flags & SA_SIGINFO)
        prev->sa_sigaction(sig, si, ctx);
    else
        prev->sa_handler(sig);
    (void)pthread_sigmask(SIG_SETMASK, &saved, NULL);
}

static void forward(int sig, siginfo_t *si, void *ctx)
{
    int ix = sig == signals[0] ? 0 : 1;
    const struct sigaction *prev = &previous[ix];
    /* One union: DFL and IGN mean the same in both, whatever SA_SIGINFO says. */
    void (*handler)(int) = prev->sa_handler;
    if ((prev->sa_flags & (int)SA_RESETHAND) && atomic_exchange(&spent[ix], true))
        handler = SIG_DFL;
    if (handler == SIG_DFL || handler == SIG_IGN)
        end_as_before(sig, is_fault(si), handler == SIG_IGN);
    else
        call_previous(prev, sig, si, ctx);
}

void sonde_on_fault(int sig, siginfo_t *si, void *ctx)
{
    ucontext_t *uc = ctx;
    uintptr_t next = is_fault(si) ? landing((uintptr_t)UC_PC(uc)) : 0;
    if (next != 0) {
        atomic_fetch_add_explicit(&faults, 1, memory_order_relaxed);
        UC_PC(uc) = (__typeof__(UC_PC(uc)))next;
    } else {
        forward(sig, si, ctx);
    }
}

/* SA_ONSTACK: Erlang code runs with its stack pointer inside an Erlang heap; a signal frame there
 * would overwrite live terms. SA_NODEFER: a fault inside the handler must not be fatal by itself. */
static const int our_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;

static bool is_ours(const struct sigaction *sa)
{
    return (sa->sa_flags & our_flags) == our_flags && sa->sa_sigaction == OUR_HANDLER;
}

/* ---- other builds of sonde in this node ------------------------------------------------------ */

/* A build's place in the chain of handlers. Images stay mapped (nodelete), so a pointer to one of these is
 * good for ever. All builds rely on its form: another one needs another name of the handler. */
enum { FAMILY_MAX = 1000 };
struct family {
    void (*handler)(int, siginfo_t *, void *);
    /* Whose handler was in place before this one, for each signal; NULL: a stranger's, or it is not
     * installed. A handler of the family passes on what it does not know. */
    const struct family *_Atomic before[SIGNALS];
    /* Its own one goes now, if that is what it is to do. */
    void (*settle)(void);
};

#if defined(__ELF__)
extern struct family sonde_family __attribute__((visibility("hidden")));
struct family sonde_family = {OUR_HANDLER, {NULL, NULL}, peek_settle};

/* Of a handler; NULL: a stranger's. The loader knows the name of a function by its address; nothing of
 * what is in a stranger's library is read. */
static const struct family *family_of(const struct sigaction *sa)
{
    static const struct family *_Atomic known;
    const struct family *f = atomic_load(&known);
    Dl_info info;
    if (!(sa->sa_flags & SA_SIGINFO) || (sa->sa_flags & our_flags) != our_flags)
        return NULL;
    if (f && f->handler == sa->sa_sigaction)
        return f;
    void *address = (void *)(uintptr_t)sa->sa_sigaction; // NOLINT(performance-no-int-to-ptr)
    if (dladdr(address, &info) == 0 || !info.dli_sname || info.dli_saddr != address ||
        strcmp(info.dli_sname, "sonde_handler_1") != 0)
        return NULL;
    int64_t offset;
    const char *before = (const char *)address - sizeof offset;
    memcpy(&offset, before, sizeof offset);
    f = (const void *)(before + offset);
    atomic_store(&known, f);
    return f;
}

static void remember_before(int ix, const struct family *f)
{
    atomic_store(&sonde_family.before[ix], f);
}

static const struct family *before_us(int ix)
{
    return atomic_load(&sonde_family.before[ix]);
}

/* Is ours in place, or will another build's pass on to it what is ours? */
static bool reaches_us(int ix, const struct sigaction *now)
{
    const struct family *f = is_ours(now) ? &sonde_family : family_of(now);
    for (unsigned i = 0; f && f != &sonde_family && i < FAMILY_MAX; i++)
        f = atomic_load(&f->before[ix]);
    return f == &sonde_family;
}
#else
static const struct family *family_of(const struct sigaction *sa)
{
    (void)sa;
    return NULL;
}

static void remember_before(int ix, const struct family *f)
{
    (void)ix, (void)f;
}

static const struct family *before_us(int ix)
{
    (void)ix;
    return NULL;
}

static bool reaches_us(int ix, const struct sigaction *now)
{
    (void)ix;
    return is_ours(now);
}
#endif

static atomic_bool installed;

static bool install_one(int ix)
{
    struct sigaction ours;
    struct sigaction old;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = OUR_HANDLER;
    ours.sa_flags = our_flags;
    (void)sigemptyset(&ours.sa_mask);
    /* First ask, so that `previous` is right before our handler can run. */
    if (sigaction(signals[ix], NULL, &old) != 0)
        return false;
    if (is_ours(&old))
        return true;
    previous[ix] = old;
    remember_before(ix, NULL);
    /* System calls go on after a signal, or do not, as they did before. */
    if (old.sa_handler == SIG_IGN || (old.sa_flags & SA_RESTART))
        ours.sa_flags |= SA_RESTART;
    /* And told again, should somebody have come in between. */
    if (sigaction(signals[ix], &ours, &previous[ix]) != 0)
        return false;
    remember_before(ix, family_of(&previous[ix]));
    return true;
}

static bool install(void)
{
    if (atomic_load_explicit(&installed, memory_order_acquire))
        return true;
    (void)pthread_mutex_lock(&install_lock);
    bool ok = atomic_load_explicit(&installed, memory_order_relaxed);
    if (!ok) {
        ok = install_one(0) && install_one(1);
        atomic_store_explicit(&installed, ok, memory_order_release);
    }
    (void)pthread_mutex_unlock(&install_lock);
    return ok;
}

static bool is_in_place(int ix)
{
    struct sigaction now;
    return sigaction(signals[ix], NULL, &now) == 0 && is_ours(&now);
}

static void uninstall_one(int ix)
{
    struct sigaction before = previous[ix];
    if (atomic_exchange(&spent[ix], false))
        before.sa_handler = SIG_DFL;
    struct sigaction was;
    /* Somebody may have come since we looked: then his is put back. */
    if (sigaction(signals[ix], &before, &was) == 0 && !is_ours(&was))
        (void)sigaction(signals[ix], &was, NULL);
    else
        remember_before(ix, NULL);
}

/* Who has put his own over ours may chain to it: then it would be wrong to install it again later,
 * so it counts as installed. With install_lock. The build whose handler is in place again, if any. */
static const struct family *uninstall(void)
{
    if (!atomic_load_explicit(&installed, memory_order_relaxed) || !is_in_place(0) ||
        !is_in_place(1))
        return NULL;
    const struct family *next = before_us(0);
    for (int ix = 0; ix < SIGNALS; ix++)
        uninstall_one(ix);
    atomic_store_explicit(&installed, false, memory_order_release);
    return next;
}

/* A handler that was ours and is replaced is never put back: whoever replaced it may chain to us,
 * and two handlers that chain to each other never end. Another build's chains to us if nobody else's is in
 * between. */
static bool armed(void)
{
    sigset_t blocked;
    if (!install() || pthread_sigmask(SIG_BLOCK, NULL, &blocked) != 0)
        return false;
    for (int ix = 0; ix < SIGNALS; ix++) {
        struct sigaction now;
        if (sigaction(signals[ix], NULL, &now) != 0 || !reaches_us(ix, &now) ||
            sigismember(&blocked, signals[ix]) != 0)
            return false;
    }
    return true;
}

#else
struct family {
    void (*settle)(void);
};

static const struct family *uninstall(void)
{
    return NULL;
}

static bool armed(void)
{
    return false;
}
#endif

/* Under the lock nobody is allowed to read again, so who comes in meanwhile finds no reader. */
void peek_settle(void)
{
    const struct family *next = NULL;
    (void)pthread_mutex_lock(&install_lock);
    if (atomic_load(&peek_left) && nobody_reads())
        next = uninstall();
    (void)pthread_mutex_unlock(&install_lock);
    /* That one may have waited for us to go. */
    if (next)
        next->settle();
}

void peek_leave(void)
{
    atomic_store(&peek_left, true);
    peek_settle();
}

void peek_return(void)
{
    (void)pthread_mutex_lock(&install_lock);
    atomic_store(&peek_left, false);
    (void)pthread_mutex_unlock(&install_lock);
}

/* ---- system calls that a filter may answer with death -------------------------------------------- */

static atomic_bool filtered_too;

void peek_allow_filtered(void)
{
    atomic_store(&filtered_too, true);
}

#if defined(__linux__)
enum { NO_FILTER = 0, FILTER = 2, STATUS_BYTES = 8192, LOOK_AGAIN_S = 1 };

/* What a line of the file says of this thread; -1: there is no such file. The VM opens and reads files
 * itself, so no filter that it lives under forbids that. */
static int filter_of_status(const char *path)
{
    char text[STATUS_BYTES];
    size_t n = 0;
    ssize_t got = 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    while (got > 0 && n < sizeof text - 1) {
        got = read(fd, text + n, sizeof text - 1 - n);
        n += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    text[n] = 0;
    const char *line = strstr(text, "\nSeccomp:");
    if (!line) /* a kernel without filters */
        return n > 0 ? NO_FILTER : -1;
    return strtol(line + sizeof "\nSeccomp:" - 1, NULL, 10) == 0 ? NO_FILTER : FILTER;
}

/* Without a /proc we ask the kernel. The VM names its threads by the same system call. */
static int filter_of_kernel(void)
{
    return prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == FILTER ? FILTER : NO_FILTER;
}

/* A filter never goes; it may come, so where there is none we look again, not each time. */
static bool is_filtered(void)
{
    static atomic_bool known;
    static atomic_llong next;
    struct timespec now = {0, 0};
    if (atomic_load(&known))
        return true;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if ((long long)now.tv_sec < atomic_load(&next))
        return false;
    int filter = filter_of_status("/proc/thread-self/status");
    if (filter < 0)
        filter = filter_of_status("/proc/self/status");
    if (filter < 0)
        filter = filter_of_kernel();
    atomic_store(&known, filter == FILTER);
    atomic_store(&next, (long long)now.tv_sec + LOOK_AGAIN_S);
    return filter == FILTER;
}

static bool may_try_syscalls(void)
{
    return atomic_load(&filtered_too) || !is_filtered();
}
#else
static bool may_try_syscalls(void)
{
    return true;
}
#endif

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
    if (!may_try_syscalls())
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
    if (want == PEEK_GUARDED && armed())
        return PEEK_GUARDED;
    return may_try_syscalls() && syscall_works() ? PEEK_SYSCALL : PEEK_NONE;
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
#if HAVE_GUARDED
    if (r == PEEK_GUARDED)
        return !sonde_copy(addr, words, out).fault;
#endif
    return syscall_block(addr, words, out);
}

bool peek_scan(enum peek_reader r, uintptr_t table, size_t from, size_t to, size_t *found)
{
    if (r == PEEK_NONE || (table & 7))
        return false;
#if HAVE_GUARDED
    if (r == PEEK_GUARDED) {
        struct loaded got = sonde_scan(table, from, to);
        *found = got.value;
        return !got.fault;
    }
#endif
    return syscall_scan(table, from, to, found);
}
