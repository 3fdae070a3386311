/* nif_stub.c: whether the VM calls this load of the library directly, or still through stubs.
 * Knows: the words of a Process, and what its current function looks like.
 * Does not know: the layout, because the first call comes before the proof, and when the VM frees the stubs. */
#include "nif/nif.h"
#include "util/clock.h"

/* Words of a Process among which the current function is, on any release. */
enum { OWN_WORDS = 96 };

/* The three words of an ErtsCodeMFA: module, function, arity. */
static bool is_this_function(enum peek_reader reader, uint64_t at)
{
    uint64_t module;
    uint64_t function;
    uint64_t arity;
    return at != 0 && (at & 7) == 0 && peek_word(reader, (uintptr_t)at, &module) &&
           module == ATOM(sonde_nif) && peek_word(reader, (uintptr_t)at + 8, &function) &&
           function == ATOM(do_direct) && peek_word(reader, (uintptr_t)at + 16, &arity) &&
           arity == 1;
}

/* Where the VM keeps the name of the function that the caller is in: while it goes through a stub, in the stub,
 * later in the code of the module. The word of the caller's Process is from *word on. 0: not found. */
static uint64_t current_function(ErlNifEnv *env, enum peek_reader reader, unsigned *word)
{
    uint64_t proc;
    uint64_t at;
    if (reader == PEEK_NONE || enif_thread_type() != ERL_NIF_THR_NORMAL_SCHEDULER ||
        !peek_word(reader, (uintptr_t)env + ENV_PROC, &proc))
        return 0;
    for (; *word < OWN_WORDS && peek_word(reader, (uintptr_t)proc + 8ULL * *word, &at); ++*word) {
        if (is_this_function(reader, at))
            return at;
    }
    return 0;
}

/* By system calls: they do not fault at words that are no pointers, and a library that is only loaded installs
 * no handler. */
static ERL_NIF_TERM first(ErlNifEnv *env, struct sonde *s)
{
    unsigned word = 0;
    uint64_t at = current_function(env, peek_ready(PEEK_SYSCALL), &word);
    atomic_store(&s->stub_word, at ? word : 0);
    atomic_store(&s->before, atomic_load(&s->stub));
    atomic_store(&s->guessed, false);
    atomic_store(&s->stub, at);
    atomic_store(&s->stub_ns, clock_ns());
    return ATOM(ok);
}

/* How long after the load a call waits at most: if the VM never replaced the stub; and if nothing can be read. */
enum { LIMIT_MS = 10000, UNSEEN_MS = 1000 };

static bool is_late(const struct sonde *s, uint64_t ms)
{
    return clock_ns() - atomic_load(&s->stub_ns) >= ms * 1000000;
}

/* Where the kernel filters system calls, a load sees no stub. Then the next call takes what it sees for the stub. If
 * the VM has replaced the stub before, nothing else will be seen: so the limit is the shorter one. */
static bool is_direct(struct sonde *s, uint64_t at)
{
    uint64_t stub = 0;
    if (at == 0)
        return is_late(s, UNSEEN_MS);
    if (atomic_compare_exchange_strong(&s->stub, &stub, at))
        atomic_store(&s->guessed, true);
    else if (at != stub && at != atomic_load(&s->before))
        return true;
    return is_late(s, atomic_load(&s->guessed) ? UNSEEN_MS : LIMIT_MS);
}

/* (first | now): first: in on_load, where the call goes through the stub. now: whether the VM calls this load
 * directly. */
NIF(nif_do_direct)
{
    struct sonde *s = sonde_of(env);
    unsigned word = atomic_load(&s->stub_word);
    if (argv[0] == ATOM(first))
        return first(env, s);
    /* of this VM, whatever the library is aimed at */
    enum peek_reader own = s->is_aimed ? peek_ready(PEEK_SYSCALL) : nif_peek_reader(s);
    uint64_t at = current_function(env, own, &word);
    return is_direct(s, at) ? ATOM(true) : ATOM(false);
}
