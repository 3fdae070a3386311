/* test_peek_signals.c: tests of peek.c, without a VM: no signal changes its meaning.
 * Knows: the handlers that programs install for SIGSEGV and SIGBUS, and children that are meant to
 * die.
 * Does not know: how peek works.
 *
 * Prints a line for each failure or skipped test, and the totals. A child without our handler is
 * the reference for a child with it: their wait statuses must be the same. So only the children of
 * this program make the guarded reader ready, never the program itself. */
#include "test/test_peek.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

/* ---- children ------------------------------------------------------------------------------ */

/* For children: a page that faults, one that raises SIGBUS, and two pipe ends to talk with the
 * parent. */
static volatile uint64_t *trap;
static volatile uint64_t *hole;
static int ready_fd, go_fd;
static const char *core_dir;

enum { PATIENCE = 4, MUCH_PATIENCE = 60 }; /* seconds */

static void die_with_parent(void)
{
#if defined(__linux__)
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

static void be_a_child(unsigned seconds)
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
static int child(void (*body)(void))
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

static bool blocked(int sig)
{
    sigset_t now;
    return pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, sig) == 1;
}

/* Handlers that the program installed before us. Their exit codes report what they saw. */

enum { SAW_ADDRESS = 1, SAW_SENDER = 2, SAW_MASK = 4, SAW_SELF_BLOCKED = 8, SAW_INFO = 64 };

// cppcheck-suppress constParameter; a handler has this type
static void tell_info(int sig, siginfo_t *si, void *ctx)
{
    int saw = SAW_INFO;
    if (si->si_addr == (void *)trap)
        saw |= SAW_ADDRESS;
    else if (si->si_pid == getppid())
        saw |= SAW_SENDER;
    if (blocked(SIGUSR1))
        saw |= SAW_MASK;
    if (blocked(sig))
        saw |= SAW_SELF_BLOCKED;
    _exit(ctx != NULL && si->si_signo == sig ? saw : 1);
}

static void tell_signal(int sig)
{
    _exit(sig);
}

static void do_nothing(int sig)
{
    (void)sig;
}

static volatile sig_atomic_t repairs;

static void repair(int sig)
{
    (void)sig;
    repairs++;
    (void)mprotect((void *)trap, page_size, PROT_READ); // NOLINT(bugprone-signal-handler)
}

static void fault_again(int sig)
{
    (void)sig;
    (void)*trap;
}

struct had {
    void (*handler)(int);
    void (*action)(int, siginfo_t *, void *);
    int flags;
};

static const struct had dfl = {SIG_DFL, NULL, 0};
static const struct had dfl_info = {SIG_DFL, NULL, SA_SIGINFO};
static const struct had ign = {SIG_IGN, NULL, 0};
static const struct had ign_info = {SIG_IGN, NULL, SA_SIGINFO};
static const struct had info = {NULL, tell_info, SA_SIGINFO};
static const struct had info_nodefer = {NULL, tell_info, SA_SIGINFO | SA_NODEFER};
static const struct had plain = {tell_signal, NULL, 0};
static const struct had idle = {do_nothing, NULL, 0};
static const struct had idle_restart = {do_nothing, NULL, SA_RESTART};
static const struct had idle_once = {do_nothing, NULL, (int)SA_RESETHAND};
static const struct had repairing = {repair, NULL, 0};
static const struct had repairing_once = {repair, NULL, (int)SA_RESETHAND};
static const struct had clumsy = {fault_again, NULL, 0};

static void install(const struct had *had)
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

/* What happens under these handlers. */

static void do_fault(void)
{
    (void)*trap;
}

static void do_bus(void)
{
    (void)*hole;
}

static void do_raise(void)
{
    (void)raise(SIGSEGV);
}

/* After a repair the load returns the value, and the signal mask is what it was. */
static void do_fault_twice(void)
{
    if (*trap != 0 || repairs != 1 || blocked(SIGUSR1) || blocked(SIGSEGV))
        _exit(2);
    (void)mprotect((void *)trap, page_size, PROT_NONE);
    if (*trap != 0 || repairs != 2)
        _exit(3);
}

static void do_raise_twice(void)
{
    (void)pthread_kill(pthread_self(), SIGSEGV);
    (void)pthread_kill(pthread_self(), SIGSEGV);
}

/* The parent sends a signal while we wait for the end of the pipe. Exit code 4: it interrupted the
 * wait. */
static void do_wait(void)
{
    char c = 0;
    must(write(ready_fd, &c, 1) == 1, "write");
    if (read(go_fd, &c, 1) != 0)
        _exit(4);
}

static const struct scenario {
    const char *name;
    const struct had *had;
    void (*happens)(void); /* do_wait: the parent sends SIGSEGV */
    int exits, dies;       /* expected: exit code, or signal */
} scenarios[] = {
    {"default, fault", &dfl, do_fault, 0, SIGSEGV},
    {"default, SIGBUS fault", &dfl, do_bus, 0, SIGBUS},
    {"default, kill", &dfl, do_wait, 0, SIGSEGV},
    {"default, raise", &dfl, do_raise, 0, SIGSEGV},
    {"default with SA_SIGINFO, fault", &dfl_info, do_fault, 0, SIGSEGV},
    {"default with SA_SIGINFO, kill", &dfl_info, do_wait, 0, SIGSEGV},
    {"ignored, fault", &ign, do_fault, 0, SIGSEGV},
    {"ignored, SIGBUS fault", &ign, do_bus, 0, SIGBUS},
    {"ignored, kill", &ign, do_wait, 0, 0},
    {"ignored, raise", &ign, do_raise, 0, 0},
    {"ignored with SA_SIGINFO, kill", &ign_info, do_wait, 0, 0},
    {"ignored with SA_SIGINFO, fault", &ign_info, do_fault, 0, SIGSEGV},
    {"siginfo handler, fault", &info, do_fault,
     SAW_INFO | SAW_ADDRESS | SAW_MASK | SAW_SELF_BLOCKED, 0},
    {"siginfo handler, kill", &info, do_wait, SAW_INFO | SAW_SENDER | SAW_MASK | SAW_SELF_BLOCKED,
     0},
    {"SA_NODEFER handler, fault", &info_nodefer, do_fault, SAW_INFO | SAW_ADDRESS | SAW_MASK, 0},
    {"plain handler, fault", &plain, do_fault, SIGSEGV, 0},
    {"plain handler, SIGBUS fault", &plain, do_bus, SIGBUS, 0},
    {"plain handler, kill", &plain, do_wait, SIGSEGV, 0},
    {"handler that returns, kill", &idle, do_wait, 4, 0},
    {"SA_RESTART handler, kill", &idle_restart, do_wait, 0, 0},
    {"handler that repairs, two faults", &repairing, do_fault_twice, 0, 0},
    {"SA_RESETHAND handler, one fault", &repairing_once, do_fault, 0, 0},
    {"SA_RESETHAND handler, two faults", &repairing_once, do_fault_twice, 0, SIGSEGV},
    {"SA_RESETHAND handler, two raises", &idle_once, do_raise_twice, 0, SIGSEGV},
    {"handler that faults itself", &clumsy, do_fault, 0, SIGSEGV},
};

static void play(const struct scenario *s, bool with_us)
{
    be_a_child(PATIENCE);
    install(s->had);
    if (with_us && peek_ready(PEEK_GUARDED) != PEEK_GUARDED)
        _exit(99);
    if (with_us && !refuses(PEEK_GUARDED, (uintptr_t)trap))
        _exit(96);
    s->happens();
    _exit(0);
}

/* The wait status of a child that goes through the scenario. */
static int outcome(const struct scenario *s, bool with_us)
{
    int ready[2];
    int go[2];
    must(pipe(ready) == 0 && pipe(go) == 0, "pipe");
    (void)fflush(NULL);
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        ready_fd = ready[1];
        go_fd = go[0];
        must(close(go[1]) == 0, "close");
        play(s, with_us);
    }
    must(close(ready[1]) == 0 && close(go[0]) == 0, "close");
    char c = 0;
    if (s->happens == do_wait && read(ready[0], &c, 1) == 1) {
        pause_ms(40);
        (void)kill(pid, SIGSEGV);
        pause_ms(20);
    }
    int status = 0;
    must(close(go[1]) == 0 && waitpid(pid, &status, 0) == pid, "waitpid");
    must(close(ready[0]) == 0, "close");
    return status;
}

static const char *test_scenario(const struct scenario *s)
{
    int without = outcome(s, false);
    if (WIFSIGNALED(without) && WTERMSIG(without) == SIGALRM)
        return "a child without our handler hangs"; /* a bug of qemu-user */
    int with = outcome(s, true);
    bool right = s->dies ? WIFSIGNALED(without) && WTERMSIG(without) == s->dies
                         : WIFEXITED(without) && WEXITSTATUS(without) == s->exits;
    if (with != without)
        (void)printf("%s: wait status %#x without us, %#x with us\n", s->name, without, with);
    EXPECT(with == without);
    return right ? NULL : "the same with our handler and without, but not what Linux does";
}

static void empty_and_remove(const char *dir)
{
    DIR *d = opendir(dir);
    must(d != NULL, "opendir");
    for (struct dirent *e = readdir(d); e; e = readdir(d)) // NOLINT(concurrency-mt-unsafe)
        (void)unlinkat(dirfd(d), e->d_name, 0);
    (void)closedir(d);
    (void)rmdir(dir);
}

/* A death leaves a core if and only if it leaves one without us. */
static const char *test_core(void)
{
    static const struct scenario fault = {"core of a fault", &dfl, do_fault, 0, SIGSEGV};
    static const struct scenario sent = {"core of a kill", &dfl, do_wait, 0, SIGSEGV};
    char dir[] = "/tmp/test_peek.XXXXXX";
    char pattern = 0;
    int fd = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!read(fd, &pattern, 1);
        (void)close(fd);
    }
    if (ASAN || pattern == '|' || pattern == '/')
        return "cores are not ours to make here";
    must(mkdtemp(dir) != NULL, "mkdtemp");
    core_dir = dir;
    bool cores = WCOREDUMP(outcome(&fault, false));
    if (cores) {
        (void)test_scenario(&fault);
        (void)test_scenario(&sent);
    }
    core_dir = NULL;
    empty_and_remove(dir);
    return cores ? NULL : "a child without our handler leaves no core either";
}

/* ---- children: which reader works ----------------------------------------------------------- */

/* In a child: the exit code is the line of the first check that failed. */
#define CHILD_EXPECT(cond)                                                                         \
    do {                                                                                           \
        if (!(cond))                                                                               \
            _exit(__LINE__ % 251 + 1);                                                             \
    } while (0)

static void change_mask(int how, int sig)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, sig);
    must(pthread_sigmask(how, &set, NULL) == 0, "pthread_sigmask");
}

static void replaced_or_blocked(void)
{
    static const int sigs[2] = {SIGSEGV, SIGBUS};
    enum peek_reader other = peek_ready(PEEK_SYSCALL); /* NONE under an emulator */
    install(&dfl);
    CHILD_EXPECT(peek_ready(PEEK_NONE) == PEEK_NONE);
    for (int i = 0; i < 2; i++) {
        struct sigaction ours;
        struct sigaction theirs;
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
        change_mask(SIG_BLOCK, sigs[i]);
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == other);
        change_mask(SIG_UNBLOCK, sigs[i]);
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
        memset(&theirs, 0, sizeof theirs);
        theirs.sa_handler = tell_signal;
        CHILD_EXPECT(sigaction(sigs[i], &theirs, &ours) == 0);
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == other);
        theirs = ours;
        theirs.sa_flags &= ~SA_ONSTACK;
        CHILD_EXPECT(sigaction(sigs[i], &theirs, NULL) == 0);
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == other);
        CHILD_EXPECT(sigaction(sigs[i], &ours, NULL) == 0);
    }
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
    CHILD_EXPECT(refuses(PEEK_GUARDED, (uintptr_t)trap));
    _exit(0);
}

static struct sigaction before_chain;
static volatile sig_atomic_t chained;

// cppcheck-suppress constParameter; a handler has this type
static void chain(int sig, siginfo_t *si, void *ctx)
{
    chained++;
    before_chain.sa_sigaction(sig, si, ctx);
}

/* A handler that is installed after we checked gets our faults first. If it forwards what it does
 * not know, it does no harm, even if it runs on the stack of the interrupted thread. */
static void chained_to_after_the_look(void)
{
    struct sigaction theirs;
    install(&dfl);
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
    CHILD_EXPECT(sigaction(SIGSEGV, NULL, &before_chain) == 0);
    for (int flags = SA_SIGINFO; flags <= (SA_SIGINFO | SA_ONSTACK); flags += SA_ONSTACK) {
        memset(&theirs, 0, sizeof theirs);
        theirs.sa_sigaction = chain;
        theirs.sa_flags = flags;
        chained = 0;
        CHILD_EXPECT(sigaction(SIGSEGV, &theirs, NULL) == 0);
        CHILD_EXPECT(refuses(PEEK_GUARDED, (uintptr_t)trap));
        CHILD_EXPECT(chained == 5 && !blocked(SIGSEGV)); /* refuses() tries five ways */
    }
    CHILD_EXPECT(handler_faults() == 10);
    (void)*trap; /* a true fault still ends us */
    _exit(2);
}

static void test_chained(void)
{
    int status = child(chained_to_after_the_look);
    EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* The syscall reader installs no handler. */
static void syscall_installs_nothing(void)
{
    struct sigaction now;
    install(&plain);
    (void)peek_ready(PEEK_SYSCALL);
    CHILD_EXPECT(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_handler == tell_signal);
    CHILD_EXPECT(sigaction(SIGBUS, NULL, &now) == 0 && now.sa_handler == tell_signal);
    _exit(0);
}

/* Are the handlers from before us in place, for both signals? */
static bool is_bare(void)
{
    struct sigaction segv;
    struct sigaction bus;
    return sigaction(SIGSEGV, NULL, &segv) == 0 && segv.sa_handler == tell_signal &&
           sigaction(SIGBUS, NULL, &bus) == 0 && bus.sa_handler == tell_signal;
}

/* peek_leave removes our handler where it is the installed one, and it can come back. Below another
 * handler it stays. */
static void left(void)
{
    struct sigaction now;
    struct sigaction theirs;
    install(&plain);
    for (int i = 0; i < 2; i++) {
        peek_leave(); /* the first time there is nothing to remove */
        CHILD_EXPECT(is_bare());
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_NONE &&
                     peek_ready(PEEK_SYSCALL) == PEEK_NONE);
        CHILD_EXPECT(is_bare());
        peek_return();
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
        CHILD_EXPECT(refuses(PEEK_GUARDED, (uintptr_t)trap));
        CHILD_EXPECT(sigaction(SIGSEGV, NULL, &before_chain) == 0);
    }
    memset(&theirs, 0, sizeof theirs);
    theirs.sa_sigaction = chain;
    theirs.sa_flags = SA_SIGINFO;
    CHILD_EXPECT(sigaction(SIGSEGV, &theirs, NULL) == 0);
    peek_leave();
    CHILD_EXPECT(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_sigaction == chain);
    CHILD_EXPECT(sigaction(SIGBUS, NULL, &now) == 0 && now.sa_handler != tell_signal);
    CHILD_EXPECT(refuses(PEEK_GUARDED, (uintptr_t)trap));
    /* it goes when the other one is gone and peek_settle tries again */
    CHILD_EXPECT(sigaction(SIGSEGV, &before_chain, NULL) == 0);
    peek_settle();
    CHILD_EXPECT(is_bare());
    _exit(0);
}

#if defined(__GLIBC__)
int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);

/* If set, another handler that chains to ours is installed just before ours is removed. */
static bool somebody_comes;

int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
    if (somebody_comes && sig == SIGSEGV && act && act->sa_handler == tell_signal) {
        struct sigaction theirs;
        memset(&theirs, 0, sizeof theirs);
        theirs.sa_sigaction = chain;
        theirs.sa_flags = SA_SIGINFO;
        somebody_comes = false;
        must(__sigaction(sig, &theirs, &before_chain) == 0, "sigaction");
    }
    return __sigaction(sig, act, old);
}

/* Our removal puts that handler back. It chains to ours, so ours must never chain to it. */
static void left_when_somebody_comes(void)
{
    struct sigaction now;
    install(&plain);
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
    somebody_comes = true;
    peek_leave();
    CHILD_EXPECT(!somebody_comes && sigaction(SIGSEGV, NULL, &now) == 0 &&
                 now.sa_sigaction == chain);
    peek_return();
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) != PEEK_GUARDED);
    CHILD_EXPECT(sigaction(SIGSEGV, NULL, &now) == 0 && now.sa_sigaction == chain);
    CHILD_EXPECT(raise(SIGSEGV) == 0);
    _exit(1);
}

/* The handler from before both gets the signal. */
static void test_left_when_somebody_comes(void)
{
    int status = child(left_when_somebody_comes);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == SIGSEGV);
}
#endif

/* Readers that have entered keep reading; the handler goes when the last of them exits. */
static void left_while_reading(void)
{
    install(&plain);
    struct peek_slot *one = peek_enter();
    struct peek_slot *two = peek_enter();
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
    peek_leave();
    CHILD_EXPECT(!is_bare() && refuses(PEEK_GUARDED, (uintptr_t)trap));
    peek_exit(one);
    CHILD_EXPECT(!is_bare() && refuses(PEEK_GUARDED, (uintptr_t)trap));
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_NONE);
    peek_exit(two);
    CHILD_EXPECT(is_bare());
    /* peek_return before the last exit keeps the handler */
    one = peek_enter();
    peek_return();
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
    peek_leave();
    peek_return();
    peek_exit(one);
    CHILD_EXPECT(!is_bare() && refuses(PEEK_GUARDED, (uintptr_t)trap));
    _exit(0);
}

/* ---- leaving and returning while others read: no read runs without the handler ------------------- */

static void *read_on(void *arg)
{
    atomic_bool *over = arg;
    while (!atomic_load(over)) {
        struct peek_slot *slot = peek_enter();
        if (peek_ready(PEEK_GUARDED) == PEEK_GUARDED && !refuses(PEEK_GUARDED, (uintptr_t)trap))
            _exit(3);
        peek_exit(slot);
    }
    return NULL;
}

static void left_and_back(void)
{
    enum { READERS = 3, ROUNDS = 20000 };
    static atomic_bool over;
    pthread_t readers[READERS];
    install(&plain);
    for (int i = 0; i < READERS; i++)
        CHILD_EXPECT(pthread_create(&readers[i], NULL, read_on, &over) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        peek_leave();
        if (i % 3 == 0)
            (void)sched_yield();
        peek_return();
    }
    peek_leave();
    atomic_store(&over, true);
    for (int i = 0; i < READERS; i++)
        CHILD_EXPECT(pthread_join(readers[i], NULL) == 0);
    CHILD_EXPECT(is_bare());
    _exit(0);
}

/* ---- signals that are sent while others read --------------------------------------------------- */

static atomic_bool stop;
static pthread_t target;
enum { SENT = 300 };
static atomic_int sent_signals, seen_signals;

static void count_seen(int sig)
{
    (void)sig;
    atomic_fetch_add(&seen_signals, 1);
}

static const struct had counting = {count_seen, NULL, 0};

static void *send_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < SENT; i++) {
        must(pthread_kill(target, SIGSEGV) == 0, "pthread_kill");
        atomic_fetch_add(&sent_signals, 1);
        while (atomic_load(&seen_signals) < atomic_load(&sent_signals))
            (void)sched_yield();
    }
    atomic_store(&stop, true);
    return NULL;
}

/* A signal that is sent in the middle of a guarded load is not a fault. */
static void sent_while_reading(void)
{
    static uint64_t zeros[512];
    pthread_t sender;
    install(&counting);
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
    target = pthread_self();
    atomic_store(&stop, false);
    start(&sender, send_many, NULL);
    while (!atomic_load(&stop)) {
        size_t found = 0;
        CHILD_EXPECT(peek_scan(PEEK_GUARDED, (uintptr_t)zeros, 0, 512, &found));
        CHILD_EXPECT(found == 512);
    }
    CHILD_EXPECT(handler_faults() == 0 && atomic_load(&seen_signals) == SENT);
    _exit(0);
}

enum { NOT_HERE = 95 };

#if defined(__linux__)
/* From now on both system calls result in `action'. */
static void filter_calls(uint32_t one, uint32_t other, uint32_t action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, one, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, other, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        _exit(NOT_HERE);
}

/* Without our handler, and with the system call denied, there is no reader and no harm. */
static void denied(void)
{
    install(&dfl);
    filter_calls(SYS_process_vm_readv, SYS_process_vm_readv, SECCOMP_RET_ERRNO | EPERM);
    CHILD_EXPECT(peek_ready(PEEK_SYSCALL) == PEEK_NONE);
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
    change_mask(SIG_BLOCK, SIGSEGV);
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_NONE);
    change_mask(SIG_UNBLOCK, SIGSEGV);
    install(&plain);
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_NONE);
    _exit(0);
}

/* Under a filter that kills, we make no call that it kills for, and the guarded reader works. */
static void killed_for_it(void)
{
    install(&dfl);
    filter_calls(SYS_process_vm_readv, SYS_membarrier, SECCOMP_RET_KILL);
#if defined(__x86_64__)
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
    CHILD_EXPECT(refuses(PEEK_GUARDED, (uintptr_t)trap));
#else
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_NONE);
#endif
    CHILD_EXPECT(peek_ready(PEEK_SYSCALL) == PEEK_NONE);
    change_mask(SIG_BLOCK, SIGSEGV);
    CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_NONE);
    _exit(0);
}

/* As the first process of a container: a sent signal does nothing, a fault kills. */
static void first_process(void)
{
    /* No system call reader: this is an emulator, whose first process cannot die of a fault. */
    if (peek_ready(PEEK_SYSCALL) != PEEK_SYSCALL || unshare(CLONE_NEWPID) != 0)
        _exit(NOT_HERE);
    pid_t pid = fork();
    if (pid == 0) {
        die_with_parent();
        if (getpid() != 1)
            _exit(NOT_HERE);
        install(&dfl);
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
        CHILD_EXPECT(raise(SIGSEGV) == 0);
        CHILD_EXPECT(peek_ready(PEEK_GUARDED) == PEEK_GUARDED);
        (void)*trap;
        _exit(0);
    }
    int status = 0;
    must(pid > 0 && waitpid(pid, &status, 0) == pid, "waitpid");
    if (WIFEXITED(status))
        _exit(WEXITSTATUS(status) == 0 ? 1 : WEXITSTATUS(status));
    _exit(WTERMSIG(status) == SIGSEGV ? 0 : 2);
}
#else
static void denied(void)
{
    _exit(NOT_HERE);
}

static void killed_for_it(void)
{
    _exit(NOT_HERE);
}

static void first_process(void)
{
    _exit(NOT_HERE);
}
#endif

static const char *test_child(void (*body)(void))
{
    int status = child(body);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_HERE)
        return "not possible here";
    if (status != 0)
        (void)printf("%s: wait status %#x\n", running, status);
    EXPECT(status == 0);
    return NULL;
}

/* ---- all of them --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*body)(void);
} children[] = {
    {"handler replaced, signal blocked", replaced_or_blocked},
    {"syscall reader installs nothing", syscall_installs_nothing},
    {"handler left", left},
    {"handler left while somebody reads", left_while_reading},
    {"handler left and back, while others read", left_and_back},
    {"signals sent while reading", sent_while_reading},
    {"system call denied", denied},
    {"system call that kills", killed_for_it},
    {"first process of a container", first_process},
};

static void test_signals(void)
{
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        begin(scenarios[i].name);
        end(test_scenario(&scenarios[i]));
    }
    for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
        begin(children[i].name);
        end(test_child(children[i].body));
    }
#if defined(__GLIBC__)
    begin("handler removed while another one is installed");
    test_left_when_somebody_comes();
    end(NULL);
#endif
    begin("chained to after the look");
    test_chained();
    end(NULL);
    begin("core");
    end(test_core());
}

int main(void)
{
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    page_size = (size_t)sysconf(_SC_PAGESIZE);
    trap = map(page_size, PROT_NONE);
    hole = cut_page();
    begin("signals");
    if (under_valgrind())
        end("not under valgrind");
    else
        test_signals();
    (void)printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
