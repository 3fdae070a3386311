/* test_peek_signals.c: tests of peek.c, without a VM: no signal changes its meaning.
 * Knows: the handlers that programs install for SIGSEGV and SIGBUS, and children that are meant to
 * die.
 * Does not know: how peek works.
 *
 * Prints a line for each failure or skipped test, and the totals. A child without our handler is
 * the reference for a child with it: their wait statuses must be the same. */
#include "test/test_signals.h"

#include <dirent.h>

/* For children: a page that raises SIGBUS, and two pipe ends to talk with the parent. */
static volatile uint64_t *hole;
static int ready_fd, go_fd;

/* ---- handlers that the program installed before us; their exit codes report what they saw ------- */

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

static const struct had dfl_info = {SIG_DFL, NULL, SA_SIGINFO};
static const struct had ign = {SIG_IGN, NULL, 0};
static const struct had ign_info = {SIG_IGN, NULL, SA_SIGINFO};
static const struct had info = {NULL, tell_info, SA_SIGINFO};
static const struct had info_nodefer = {NULL, tell_info, SA_SIGINFO | SA_NODEFER};
static const struct had idle = {do_nothing, NULL, 0};
static const struct had idle_restart = {do_nothing, NULL, SA_RESTART};
static const struct had idle_once = {do_nothing, NULL, (int)SA_RESETHAND};
static const struct had repairing = {repair, NULL, 0};
static const struct had repairing_once = {repair, NULL, (int)SA_RESETHAND};
static const struct had clumsy = {fault_again, NULL, 0};

/* ---- what happens under these handlers ---------------------------------------------------------- */

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
static int wait_status(const struct scenario *s, bool with_us)
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
    int without = wait_status(s, false);
    if (WIFSIGNALED(without) && WTERMSIG(without) == SIGALRM)
        return "a child without our handler hangs"; /* a bug of qemu-user */
    int with = wait_status(s, true);
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
    bool cores = WCOREDUMP(wait_status(&fault, false));
    if (cores) {
        (void)test_scenario(&fault);
        (void)test_scenario(&sent);
    }
    core_dir = NULL;
    empty_and_remove(dir);
    return cores ? NULL : "a child without our handler leaves no core either";
}

int main(void)
{
    if (set_up_children()) {
        hole = cut_page();
        for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
            begin(scenarios[i].name);
            end(test_scenario(&scenarios[i]));
        }
        begin("core");
        end(test_core());
    }
    return outcome();
}
