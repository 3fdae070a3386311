/* test_peek_ready.c: tests of peek.c, without a VM: which reader works when handlers are replaced or
 * chained, signals are blocked or sent, or system calls are denied.
 * Knows: how to make each reader impossible, in a child.
 * Does not know: how peek works.
 *
 * Prints a line for each failure or skipped test, and the totals. */
#include "test/test_signals.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#endif

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

/* ---- system calls that are denied --------------------------------------------------------------- */

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

/* ---- all of them --------------------------------------------------------------------------- */

static const struct child_test children[] = {
    {"handler replaced, signal blocked", replaced_or_blocked},
    {"syscall reader installs nothing", syscall_installs_nothing},
    {"signals sent while reading", sent_while_reading},
    {"system call denied", denied},
    {"system call that kills", killed_for_it},
    {"first process of a container", first_process},
};

int main(void)
{
    if (set_up_children()) {
        test_children(children, sizeof children / sizeof *children);
        begin("chained to after the look");
        test_chained();
        end(NULL);
    }
    return outcome();
}
