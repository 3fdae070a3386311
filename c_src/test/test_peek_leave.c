/* test_peek_leave.c: tests of peek.c, without a VM: our handler is removed and comes back, while others
 * read or install handlers.
 * Knows: the handlers from before us. Does not know: how peek works.
 *
 * Prints a line for each failure or skipped test, and the totals. */
#include "test/test_signals.h"

#include <sched.h>
#include <stdatomic.h>

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

/* ---- all of them --------------------------------------------------------------------------- */

static const struct child_test children[] = {
    {"handler left", left},
    {"handler left while a thread reads", left_while_reading},
    {"handler left and back, while others read", left_and_back},
};

int main(void)
{
    if (set_up_children()) {
        test_children(children, sizeof children / sizeof *children);
#if defined(__GLIBC__)
        begin("handler removed while another one is installed");
        test_left_when_somebody_comes();
        end(NULL);
#endif
    }
    return outcome();
}
