#include "vm/handler.h"

#include "vm/peek.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>
#include <sys/ucontext.h> /* macOS: <ucontext.h> itself refuses to be included */
#include <unistd.h>

pthread_mutex_t handler_lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic uint64_t faults;

uint64_t handler_faults(void)
{
    return atomic_load_explicit(&faults, memory_order_relaxed);
}

#if PEEK_HAVE_GUARDED
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

/* ---- the handler --------------------------------------------------------------------------- */

enum { SIGNALS = 2 };
static const int signals[SIGNALS] = {SIGSEGV, SIGBUS};

/* What was installed before us: written under handler_lock, then only read. */
static struct sigaction previous[SIGNALS];

/* A previous handler with SA_RESETHAND has had its one call. */
static atomic_bool spent[SIGNALS];

/* Did an instruction of this thread fault, or was the signal sent (by kill; or by the kernel, about a
 * broken page that is not touched yet)? On Linux, codes of sent signals are not positive; on the
 * BSDs they are large; macOS does not report it reliably, so there every signal counts as a fault. */
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

/* The VM's signal stack is small, and in a chain each build's handler needs room on it: what only the last
 * one does has a frame of its own. */
#define RARE __attribute__((noinline))

/* The node must end (or not) exactly as it would have without us. */
RARE static void end_as_before(int sig, bool fault, bool ignored)
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
    if (prev->sa_flags & SA_SIGINFO)
        prev->sa_sigaction(sig, si, ctx);
    else
        prev->sa_handler(sig);
}

/* As ours, and so those of other builds. */
static bool blocks_nothing(const struct sigaction *sa)
{
    for (int sig = 1; sig < NSIG; sig++) {
        if (sigismember(&sa->sa_mask, sig) == 1)
            return false;
    }
    return sa->sa_flags & SA_NODEFER;
}

RARE static void call_blocked(const struct sigaction *prev, int sig, siginfo_t *si, void *ctx)
{
    sigset_t mask = prev->sa_mask;
    sigset_t saved;
    if (!(prev->sa_flags & SA_NODEFER))
        (void)sigaddset(&mask, sig);
    (void)pthread_sigmask(SIG_BLOCK, &mask, &saved);
    call_previous(prev, sig, si, ctx);
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
    else if (blocks_nothing(prev))
        call_previous(prev, sig, si, ctx);
    else
        call_blocked(prev, sig, si, ctx);
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
    /* The build whose handler was in place before this one, for each signal; NULL: a foreign handler, or
     * this one is not installed. A handler of the family passes on the faults that are not its own. */
    const struct family *_Atomic before[SIGNALS];
    /* Removes its own handler now, if that one is to go. */
    void (*settle)(void);
};

#if defined(__ELF__)
extern struct family sonde_family __attribute__((visibility("hidden")));
struct family sonde_family = {OUR_HANDLER, {NULL, NULL}, peek_settle};

/* The build of a handler; NULL: it is foreign. The loader finds the name of a function by its address;
 * nothing in a foreign library is read. */
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
    /* The call returns the handler again, in case another one was installed meanwhile. */
    if (sigaction(signals[ix], &ours, &previous[ix]) != 0)
        return false;
    remember_before(ix, family_of(&previous[ix]));
    return true;
}

static bool install(void)
{
    if (atomic_load_explicit(&installed, memory_order_acquire))
        return true;
    (void)pthread_mutex_lock(&handler_lock);
    bool ok = atomic_load_explicit(&installed, memory_order_relaxed);
    if (!ok) {
        ok = install_one(0) && install_one(1);
        atomic_store_explicit(&installed, ok, memory_order_release);
    }
    (void)pthread_mutex_unlock(&handler_lock);
    return ok;
}

static bool is_in_place(int ix)
{
    struct sigaction now;
    return sigaction(signals[ix], NULL, &now) == 0 && is_ours(&now);
}

/* false: ours stays below another handler, which may chain to it. */
static bool uninstall_one(int ix)
{
    struct sigaction before = previous[ix];
    if (atomic_exchange(&spent[ix], false))
        before.sa_handler = SIG_DFL;
    struct sigaction was;
    /* If another handler was installed meanwhile, restore it. */
    if (sigaction(signals[ix], &before, &was) == 0 && !is_ours(&was)) {
        (void)sigaction(signals[ix], &was, NULL);
        return false;
    }
    remember_before(ix, NULL);
    return true;
}

handler_settle *handler_uninstall(void)
{
    if (!atomic_load_explicit(&installed, memory_order_relaxed) || !is_in_place(0) ||
        !is_in_place(1))
        return NULL;
    const struct family *next = before_us(0);
    bool gone = true;
    for (int ix = 0; ix < SIGNALS; ix++)
        gone = uninstall_one(ix) && gone;
    /* One that stays below another counts as installed for ever: put in place again, it would chain to
     * its own successor, without end. */
    atomic_store_explicit(&installed, !gone, memory_order_release);
    return next ? next->settle : NULL;
}

/* A handler of ours that was replaced is never put back: its replacement may chain to it, and two
 * handlers that chain to each other never end. Another build's handler chains to ours if no foreign one
 * is in between. */
bool handler_is_armed(void)
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
handler_settle *handler_uninstall(void)
{
    return NULL;
}

bool handler_is_armed(void)
{
    return false;
}
#endif
