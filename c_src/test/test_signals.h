/* test_signals.h: for the tests of peek.c that need children, because a signal ends them or peek
 * replaces a handler that the next test wants.
 * Knows: how to run a test in a child, and which handlers the program had before.
 * Does not know: what is tested.
 *
 * Only children make the guarded reader ready, never the program itself. */
#ifndef SONDE_TEST_SIGNALS_H
#define SONDE_TEST_SIGNALS_H

#include "test/test_peek.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

/* ---- children ------------------------------------------------------------------------------ */

static volatile uint64_t *trap; /* a page that faults */
static const char *core_dir;    /* where a child leaves its core; NULL: none */

enum { PATIENCE = 4, MUCH_PATIENCE = 60 }; /* seconds */

static inline void die_with_parent(void)
{
#if defined(__linux__)
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

static inline void be_a_child(unsigned seconds)
{
    struct rlimit core = {0, 0};
    die_with_parent();
    (void)alarm(seconds);
    int null =
        open("/dev/null", O_WRONLY | O_CLOEXEC); /* sanitizers and emulators print about deaths */
    must(null >= 0 && dup2(null, STDERR_FILENO) >= 0, "/dev/null");
    (void)getrlimit(RLIMIT_CORE, &core);
    core.rlim_cur = core_dir ? core.rlim_max : 0;
    (void)setrlimit(RLIMIT_CORE, &core);
    must(!core_dir || chdir(core_dir) == 0, "chdir");
}

/* Runs `body` in a child; returns its wait status. */
static inline int child(void (*body)(void))
{
    (void)fflush(NULL);
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        be_a_child(MUCH_PATIENCE);
        body();
        _exit(97);
    }
    int status = 0;
    must(waitpid(pid, &status, 0) == pid, "waitpid");
    return status;
}

static inline bool blocked(int sig)
{
    sigset_t now;
    return pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, sig) == 1;
}

static inline void change_mask(int how, int sig)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, sig);
    must(pthread_sigmask(how, &set, NULL) == 0, "pthread_sigmask");
}

/* In a child: the exit code is the line of the first check that failed. */
#define CHILD_EXPECT(cond)                                                                         \
    do {                                                                                           \
        if (!(cond))                                                                               \
            _exit(__LINE__ % 251 + 1);                                                             \
    } while (0)

enum { NOT_HERE = 95 }; /* exit code: the test cannot run on this system */

static inline const char *test_child(void (*body)(void))
{
    int status = child(body);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
        return "not possible here";
    if (status != 0)
        (void)printf("%s: wait status %#x\n", running, status);
    EXPECT(status == 0);
    return NULL;
}

struct child_test {
    const char *name;
    void (*body)(void);
};

static inline void test_children(const struct child_test *tests, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        begin(tests[i].name);
        end(test_child(tests[i].body));
    }
}

/* Before all tests; false: they cannot run. */
static inline bool set_up_children(void)
{
    set_up();
    trap = map(page_size, PROT_NONE);
    if (!under_valgrind())
        return true;
    begin("signals");
    end("not under valgrind");
    return false;
}

/* ---- handlers ------------------------------------------------------------------------------- */

static inline void tell_signal(int sig)
{
    _exit(sig);
}

struct had {
    void (*handler)(int);
    void (*action)(int, siginfo_t *, void *);
    int flags;
};

static const struct had dfl = {SIG_DFL, NULL, 0};
static const struct had plain = {tell_signal, NULL, 0};

static inline void install(const struct had *had)
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    (void)sigemptyset(&sa.sa_mask);
    (void)sigaddset(&sa.sa_mask, SIGUSR1);
    if (had->action)
        sa.sa_sigaction = had->action;
    else
        sa.sa_handler = had->handler;
    sa.sa_flags = had->flags;
    must(sigaction(SIGSEGV, &sa, NULL) == 0 && sigaction(SIGBUS, &sa, NULL) == 0, "sigaction");
}

static struct sigaction before_chain;
static volatile sig_atomic_t chained;

/* A handler that is installed above ours and forwards what it does not know. */
// cppcheck-suppress constParameter; a handler has this type
static inline void chain(int sig, siginfo_t *si, void *ctx)
{
    chained++;
    before_chain.sa_sigaction(sig, si, ctx);
}

#endif
