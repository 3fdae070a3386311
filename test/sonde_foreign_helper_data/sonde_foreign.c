/* sonde_foreign.c: a foreign library, as users may have them: for tests and measurements.
 * Knows: long calls, signal handlers of its own, real faults, a refused system call, resources.
 * Does not know: sonde. Builds with plain cc -shared -fPIC and erl_nif.h of any release. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <erl_nif.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#define NIF(Name) static ERL_NIF_TERM Name(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])

static ERL_NIF_TERM atom(ErlNifEnv *env, const char *name)
{
    return enif_make_atom(env, name);
}

static bool is(ErlNifEnv *env, ERL_NIF_TERM term, const char *name)
{
    return enif_is_identical(term, atom(env, name));
}

/* ---- long calls ----------------------------------------------------------------------------- */

NIF(nif_sleep)
{
    (void)argc;
    /* (Ms, Term) -> Term */
    int ms;
    if (!enif_get_int(env, argv[0], &ms) || ms < 0)
        return enif_make_badarg(env);
    struct timespec left = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
    return argv[1];
}

NIF(nif_spin)
{
    (void)argc;
    /* (Us, Term) -> Term */
    int us;
    if (!enif_get_int(env, argv[0], &us) || us < 0)
        return enif_make_badarg(env);
    ErlNifTime end = enif_monotonic_time(ERL_NIF_USEC) + us;
    while (enif_monotonic_time(ERL_NIF_USEC) < end)
        ;
    return argv[1];
}

/* ---- handlers of its own --------------------------------------------------------------------- */

enum { SIGNALS = 2, DEPTH = 16, SWALLOWED = 43 };
static const int signals[SIGNALS] = {SIGSEGV, SIGBUS};

/* What take_signals found, for give_back to restore; `chains` forwards to the last one. */
static struct sigaction found[DEPTH][SIGNALS];
static atomic_int depth;
static atomic_int seen_faults, seen_sent;

static void count(const siginfo_t *si)
{
    atomic_fetch_add(si->si_code > 0 ? &seen_faults : &seen_sent, 1);
}

/* Forwards everything, as crash reporters do with signals that they do not handle. */
static void chains(int sig, siginfo_t *si, void *ctx)
{
    int d = atomic_load(&depth);
    const struct sigaction *prev = &found[d > 0 ? d - 1 : 0][sig == signals[0] ? 0 : 1];
    count(si);
    if (prev->sa_handler == SIG_DFL || prev->sa_handler == SIG_IGN)
        (void)signal(sig, SIG_DFL); /* the fault repeats */
    else if (prev->sa_flags & SA_SIGINFO)
        prev->sa_sigaction(sig, si, ctx);
    else
        prev->sa_handler(sig);
}

/* Forwards nothing. A fault would repeat for ever, so it ends the node, with an exit code that
 * nothing else uses. */
static void swallows(int sig, siginfo_t *si, void *ctx)
{
    (void)sig, (void)ctx;
    count(si);
    if (si->si_code > 0)
        _exit(SWALLOWED);
}

static bool kind_of(ErlNifEnv *env, ERL_NIF_TERM kind, const struct sigaction *old,
                    struct sigaction *sa)
{
    memset(sa, 0, sizeof *sa);
    sigemptyset(&sa->sa_mask);
    sa->sa_flags = SA_SIGINFO | SA_ONSTACK;
    if (is(env, kind, "chains")) {
        sa->sa_sigaction = chains;
    } else if (is(env, kind, "swallows")) {
        sa->sa_sigaction = swallows;
    } else if (is(env, kind, "default") || is(env, kind, "ignore")) {
        sa->sa_flags = 0;
        sa->sa_handler = is(env, kind, "default") ? SIG_DFL : SIG_IGN;
    } else { /* the old handler, but on the stack of the interrupted code */
        *sa = *old;
        sa->sa_flags &= ~SA_ONSTACK;
        return is(env, kind, "no_onstack");
    }
    return true;
}

NIF(nif_take_signals)
{
    (void)argc;
    /* (chains | swallows | default | ignore | no_onstack) */
    int d = atomic_load(&depth);
    struct sigaction sa[SIGNALS];
    if (d == DEPTH)
        return enif_make_badarg(env);
    for (int i = 0; i < SIGNALS; i++) {
        if (sigaction(signals[i], NULL, &found[d][i]) != 0 ||
            !kind_of(env, argv[0], &found[d][i], &sa[i]))
            return enif_make_badarg(env);
    }
    atomic_store(&depth, d + 1); /* before `chains` may read it */
    for (int i = 0; i < SIGNALS; i++)
        (void)sigaction(signals[i], &sa[i], NULL);
    return atom(env, "ok");
}

NIF(nif_give_back)
{
    (void)argc, (void)argv;
    int d = atomic_load(&depth);
    if (d == 0)
        return enif_make_badarg(env);
    for (int i = 0; i < SIGNALS; i++)
        (void)sigaction(signals[i], &found[d - 1][i], NULL);
    atomic_store(&depth, d - 1);
    return atom(env, "ok");
}

static const char *name_of(const struct sigaction *sa)
{
    if (sa->sa_handler == SIG_DFL)
        return "default";
    if (sa->sa_handler == SIG_IGN)
        return "ignore";
    return sa->sa_sigaction == chains     ? "chains"
           : sa->sa_sigaction == swallows ? "swallows"
                                          : "other";
}

NIF(nif_signals)
{
    (void)argc, (void)argv;
    /* -> [{Kind, OnStack}] of SIGSEGV and SIGBUS; other: neither the system's nor ours */
    ERL_NIF_TERM terms[SIGNALS];
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) != 0)
            return enif_make_badarg(env);
        terms[i] = enif_make_tuple2(env, atom(env, name_of(&now)),
                                    atom(env, now.sa_flags & SA_ONSTACK ? "true" : "false"));
    }
    return enif_make_list_from_array(env, terms, SIGNALS);
}

NIF(nif_seen)
{
    (void)argc, (void)argv;
    /* -> {Faults, Sent} that our handlers received */
    return enif_make_tuple2(env, enif_make_int(env, atomic_load(&seen_faults)),
                            enif_make_int(env, atomic_load(&seen_sent)));
}

NIF(nif_mask_signals)
{
    (void)argc;
    /* (block | unblock): in the thread that runs this, permanently */
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < SIGNALS; i++)
        (void)sigaddset(&set, signals[i]);
    bool block = is(env, argv[0], "block");
    if (pthread_sigmask(block ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL) != 0)
        return enif_make_badarg(env);
    return atom(env, "ok");
}

/* ---- real faults ------------------------------------------------------------------------------ */

NIF(nif_crash)
{
    (void)argc, (void)argv;
    volatile int *volatile nowhere = NULL; /* or the compiler would leave the write out */
    *nowhere = 1;
    return atom(env, "ok");
}

NIF(nif_raise_segv)
{
    (void)argc, (void)argv;
    (void)raise(SIGSEGV);
    return atom(env, "ok");
}

/* ---- a refused system call ----------------------------------------------------------------------- */

#if defined(__linux__) && defined(SYS_seccomp) && defined(SECCOMP_FILTER_FLAG_TSYNC)
static const char *deny(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0)
        return "this system does not let a process filter its own system calls";
    return NULL;
}
#else
static const char *deny(void)
{
    return "no filters for system calls here";
}
#endif

NIF(nif_deny_syscall)
{
    (void)argc, (void)argv;
    /* -> ok | {skip, Text}: refuses process_vm_readv to every thread, permanently */
    const char *why = deny();
    return why ? enif_make_tuple2(env, atom(env, "skip"),
                                  enif_make_string(env, why, ERL_NIF_LATIN1))
               : atom(env, "ok");
}

/* ---- resources ---------------------------------------------------------------------------------- */

static ErlNifResourceType *thing_type;

NIF(nif_thing)
{
    (void)argc;
    /* (Bytes) -> Resource */
    unsigned bytes;
    if (!enif_get_uint(env, argv[0], &bytes))
        return enif_make_badarg(env);
    void *obj = enif_alloc_resource(thing_type, bytes);
    ERL_NIF_TERM term = enif_make_resource(env, obj);
    enif_release_resource(obj);
    return term;
}

NIF(nif_thing_binary)
{
    (void)argc;
    /* (Resource) -> Binary with the bytes of the resource */
    void *obj;
    if (!enif_get_resource(env, argv[0], thing_type, &obj))
        return enif_make_badarg(env);
    return enif_make_resource_binary(env, obj, obj, enif_sizeof_resource(obj));
}

/* ---- the table ---------------------------------------------------------------------------------- */

#define EVERYWHERE(Name, Arity, Function)                                                          \
    {Name "_normal", Arity, Function, 0},                                                          \
        {Name "_dirty_cpu", Arity, Function, ERL_NIF_DIRTY_JOB_CPU_BOUND},                         \
    {                                                                                              \
        Name "_dirty_io", Arity, Function, ERL_NIF_DIRTY_JOB_IO_BOUND                              \
    }

static ErlNifFunc functions[] = {
    EVERYWHERE("sleep", 2, nif_sleep),
    EVERYWHERE("spin", 2, nif_spin),
    EVERYWHERE("crash", 0, nif_crash),
    EVERYWHERE("raise_segv", 0, nif_raise_segv),
    EVERYWHERE("mask_signals", 1, nif_mask_signals),
    {"take_signals", 1, nif_take_signals, 0},
    {"give_back", 0, nif_give_back, 0},
    {"signals", 0, nif_signals, 0},
    {"seen", 0, nif_seen, 0},
    {"deny_syscall", 0, nif_deny_syscall, 0},
    {"thing", 1, nif_thing, 0},
    {"thing_binary", 1, nif_thing_binary, 0},
};

static int load(ErlNifEnv *env, void **priv, ERL_NIF_TERM info)
{
    (void)priv, (void)info;
    thing_type = enif_open_resource_type(env, NULL, "thing", NULL, ERL_NIF_RT_CREATE, NULL);
    return thing_type ? 0 : 1;
}

ERL_NIF_INIT(sonde_foreign_helper, functions, load, NULL, NULL, NULL)
