/* nif_code.c: learns how the VM lists its code, from processes that wait in known functions; and where it keeps
 * the function that a process began with.
 * Knows: the arguments from Erlang. Does not know: how code is listed, or how a place is found. */
#include "nif/nif.h"

#include "vm/term.h"

enum { FIRST_CALLS_MAX = 64 };

/* {Probe, {Module, Function, Arity}} */
static bool get_known(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM term, uintptr_t *proc,
                      struct mfa *known)
{
    const ERL_NIF_TERM *pair;
    const ERL_NIF_TERM *mfa;
    int arity;
    unsigned n;
    if (!enif_get_tuple(env, term, &arity, &pair) || arity != 2 ||
        !nif_is_probe(sonde_of(env), pair[0]) || !nif_find_process(env, vm, pair[0], proc) ||
        !enif_get_tuple(env, pair[1], &arity, &mfa) || arity != 3 || !enif_is_atom(env, mfa[0]) ||
        !enif_is_atom(env, mfa[1]) || !enif_get_uint(env, mfa[2], &n))
        return false;
    *known = (struct mfa){mfa[0], mfa[1], n};
    return *proc != 0;
}

/* And the program counter of that process. */
static bool get_place(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM term, uint64_t *pc,
                      struct mfa *known)
{
    uintptr_t proc;
    return get_known(env, vm, term, &proc, known) &&
           peek_word(vm->reader, proc + LF(vm->lay, pc), pc);
}

static bool is_right(const struct vm *vm, const struct code *code, uint64_t pc,
                     const struct mfa *known)
{
    struct mfa found;
    return code_find(vm->reader, code, pc, &found) && found.module == known->module &&
           found.function == known->function && found.arity == known->arity;
}

NIF(nif_do_calibrate_code)
{
    /* ([{Probe, Function}]): true, if it could be learned from the first and is right for all */
    struct sonde *s = sonde_of(env);
    struct vm vm = s->candidate;
    ERL_NIF_TERM head;
    ERL_NIF_TERM list = argv[0];
    struct code code = {0};
    struct mfa known;
    uint64_t pc;
    bool ok = false;
    if (!nif_is_prover(env) || !vm.lay || vm.tab.max == 0)
        return nif_raise(env, ATOM(badarg));
    vm.reader = nif_peek_reader(s);
    for (unsigned i = 0; i < SEAL_PROBES && enif_get_list_cell(env, list, &head, &list); i++) {
        ok = vm.reader != PEEK_NONE && get_place(env, &vm, head, &pc, &known) &&
             (i > 0 || code_learn(vm.reader, pc, &known, &code)) &&
             is_right(&vm, &code, pc, &known);
        if (!ok)
            break;
    }
    s->candidate.code = ok ? code : (struct code){0};
    return ok ? ATOM(true) : ATOM(false);
}

NIF(nif_has_code)
{
    const struct sonde *s = sonde_of(env);
    return atomic_load_explicit(&s->proved, memory_order_acquire) && s->vm.code.n > 0 ? ATOM(true)
                                                                                      : ATOM(false);
}

NIF(nif_do_calibrate_first_call)
{
    /* ([{Probe, Function}]): true, if exactly one place of a Process is right for all of these first calls */
    struct sonde *s = sonde_of(env);
    struct vm vm = s->candidate;
    struct known_process known[FIRST_CALLS_MAX] = {{0}};
    ERL_NIF_TERM head;
    ERL_NIF_TERM list = argv[0];
    uint16_t at = 0;
    unsigned n = 0;
    if (!nif_is_prover(env) || !vm.lay || vm.tab.max == 0)
        return nif_raise(env, ATOM(badarg));
    vm.reader = nif_peek_reader(s);
    bool ok = vm.reader != PEEK_NONE;
    for (; ok && n < FIRST_CALLS_MAX && enif_get_list_cell(env, list, &head, &list); n++)
        ok = get_known(env, &vm, head, &known[n].proc, &known[n].who.call);
    ok = ok && identity_learn_call(vm.reader, vm.lay, known, n, &at);
    s->candidate.first_call = ok ? at : 0;
    s->candidate.first_call_key = enif_make_atom(env, "$initial_call");
    return ok ? ATOM(true) : ATOM(false);
}

NIF(nif_has_first_call)
{
    const struct sonde *s = sonde_of(env);
    return atomic_load_explicit(&s->proved, memory_order_acquire) && s->vm.first_call != 0
               ? ATOM(true)
               : ATOM(false);
}
