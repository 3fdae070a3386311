/* nif_seal.c: restricts the tools of the proof, because they read with a layout that is not proved
 * yet.
 * Knows: the prover and its probes. Does not know: what is proved, or how.
 *
 * There is one prover at a time. Until it ends or has proved a layout, it and the probes that it
 * names may read each other, and no other process may read anything. */
#include "nif/nif.h"

static bool is_open(const struct sonde *s)
{
#ifdef SONDE_TEST
    return s->seal.open;
#else
    (void)s;
    return false;
#endif
}

static bool is_prover(ErlNifEnv *env, const struct seal *seal, ERL_NIF_TERM pid)
{
    ErlNifPid prover = seal->prover;
    return seal->has_prover && enif_make_pid(env, &prover) == pid;
}

static unsigned place_of(const struct seal *seal, ERL_NIF_TERM pid)
{
    unsigned i = 0;
    while (i < seal->probes_n && seal->probes[i] != pid)
        i++;
    return i;
}

/* Whether the caller is the prover or, with `probe', one of its probes. Under the lock. */
static bool may_now(ErlNifEnv *env, const struct sonde *s, bool probe)
{
    ErlNifPid self;
    if (!enif_self(env, &self))
        return false;
    ERL_NIF_TERM pid = enif_make_pid(env, &self);
    bool is =
        is_prover(env, &s->seal, pid) || (probe && place_of(&s->seal, pid) < s->seal.probes_n);
    return is_open(s) || (!atomic_load(&s->proved) && is);
}

static bool may(ErlNifEnv *env, bool probe)
{
    struct sonde *s = sonde_of(env);
    enif_mutex_lock(s->lock);
    bool ok = may_now(env, s, probe);
    enif_mutex_unlock(s->lock);
    return ok;
}

bool nif_lock_as_prover(ErlNifEnv *env)
{
    struct sonde *s = sonde_of(env);
    enif_mutex_lock(s->lock);
    bool ok = may_now(env, s, false);
    if (!ok)
        enif_mutex_unlock(s->lock);
    return ok;
}

bool nif_is_prover(ErlNifEnv *env)
{
    return may(env, false);
}

bool nif_is_proving(ErlNifEnv *env)
{
    return may(env, true);
}

bool nif_is_probe(struct sonde *s, ERL_NIF_TERM pid)
{
    enif_mutex_lock(s->lock);
    bool ok = is_open(s) || place_of(&s->seal, pid) < s->seal.probes_n;
    enif_mutex_unlock(s->lock);
    return ok;
}

/* The prover is the first of its own probes. */
static ERL_NIF_TERM begin(ErlNifEnv *env, struct sonde *s, const ErlNifPid *self)
{
    struct seal *seal = &s->seal;
    ErlNifPid other = seal->prover;
    if (atomic_load(&s->proved))
        return ATOM(proved);
    if (seal->has_prover && enif_is_process_alive(env, &other))
        return enif_make_tuple2(env, ATOM(busy), enif_make_pid(env, &other));
    seal->prover = *self;
    seal->has_prover = true;
    seal->probes[0] = enif_make_pid(env, self);
    seal->probes_n = 1;
    seal->own = 0;
    return ATOM(ok);
}

NIF(nif_do_prover_begin)
{
    /* (): ok, proved, or {busy, Prover} */
    struct sonde *s = sonde_of(env);
    ErlNifPid self;
    if (!enif_self(env, &self))
        return nif_raise(env, ATOM(badarg));
    enif_mutex_lock(s->lock);
    ERL_NIF_TERM answer = begin(env, s, &self);
    enif_mutex_unlock(s->lock);
    return answer;
}

NIF(nif_do_prover_end)
{
    /* (): does nothing unless the caller is the prover */
    struct sonde *s = sonde_of(env);
    ErlNifPid self;
    if (!enif_self(env, &self))
        return nif_raise(env, ATOM(badarg));
    ERL_NIF_TERM pid = enif_make_pid(env, &self);
    enif_mutex_lock(s->lock);
    if (is_prover(env, &s->seal, pid)) {
        s->seal.has_prover = false;
        s->seal.probes_n = 0;
    }
    enif_mutex_unlock(s->lock);
    return ATOM(ok);
}

NIF(nif_prover)
{
    /* (): the current prover, or undefined */
    struct sonde *s = sonde_of(env);
    enif_mutex_lock(s->lock);
    bool has = s->seal.has_prover;
    ErlNifPid prover = s->seal.prover;
    enif_mutex_unlock(s->lock);
    return has && enif_is_process_alive(env, &prover) ? enif_make_pid(env, &prover)
                                                      : ATOM(undefined);
}

NIF(nif_do_allow_probe)
{
    /* (Pid): makes it a probe, which the prover may read */
    struct sonde *s = sonde_of(env);
    ErlNifPid pid;
    if (!nif_is_prover(env) || !enif_get_local_pid(env, argv[0], &pid))
        return nif_raise(env, ATOM(badarg));
    enif_mutex_lock(s->lock);
    bool full = s->seal.probes_n == SEAL_PROBES;
    if (!full)
        s->seal.probes[s->seal.probes_n++] = argv[0];
    enif_mutex_unlock(s->lock);
    return full ? nif_raise(env, ATOM(system_limit)) : ATOM(ok);
}

NIF(nif_do_disallow_probe)
{
    /* (Pid): it is no longer a probe; the prover may call it even after the proof */
    struct sonde *s = sonde_of(env);
    ErlNifPid self;
    if (!enif_self(env, &self))
        return nif_raise(env, ATOM(badarg));
    enif_mutex_lock(s->lock);
    bool ours = is_prover(env, &s->seal, enif_make_pid(env, &self));
    unsigned i = place_of(&s->seal, argv[0]);
    if (ours && i < s->seal.probes_n)
        s->seal.probes[i] = s->seal.probes[--s->seal.probes_n];
    enif_mutex_unlock(s->lock);
    return ours ? ATOM(ok) : nif_raise(env, ATOM(badarg));
}
