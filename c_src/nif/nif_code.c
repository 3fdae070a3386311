/* nif_code.c: learns how the VM lists its code, from processes that wait in known functions.
 * Knows: the arguments from Erlang. Does not know: how code is listed. */
#include "nif/nif.h"

#include "vm/term.h"

/* {Pid, {Module, Function, Arity}, Line}, and the program counter of that process. */
static bool get_known(ErlNifEnv *env, const struct vm *vm, ERL_NIF_TERM term, struct known_line *at,
                      struct mfa *known)
{
    const ERL_NIF_TERM *place;
    const ERL_NIF_TERM *mfa;
    int arity;
    uintptr_t proc;
    unsigned n;
    if (!enif_get_tuple(env, term, &arity, &place) || arity != 3 ||
        !nif_is_probe(sonde_of(env), place[0]) || !nif_find_process(env, vm, place[0], &proc) ||
        !enif_get_tuple(env, place[1], &arity, &mfa) || arity != 3 || !enif_is_atom(env, mfa[0]) ||
        !enif_is_atom(env, mfa[1]) || !enif_get_uint(env, mfa[2], &n) ||
        !enif_get_uint(env, place[2], &at->line))
        return false;
    *known = (struct mfa){mfa[0], mfa[1], n};
    return proc != 0 && peek_word(vm->reader, proc + LF(vm->lay, pc), &at->pc);
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
    /* ([{Probe, Function, Line | 0}]): true, if it could be learned from the first and is right for all. Lines are
     * learned as well, from those that have one, if they can be */
    struct learning l;
    struct vm *vm = &l.vm;
    ERL_NIF_TERM head;
    ERL_NIF_TERM list = argv[0];
    struct code code = {0};
    struct known_line lines[SEAL_PROBES];
    struct known_line at;
    struct mfa known;
    unsigned n = 0;
    bool ok = false;
    if (!nif_learn(env, &l) || vm->tab.max == 0)
        return nif_raise(env, ATOM(badarg));
    for (unsigned i = 0; i < SEAL_PROBES && enif_get_list_cell(env, list, &head, &list); i++) {
        ok = vm->reader != PEEK_NONE && get_known(env, vm, head, &at, &known) &&
             (i > 0 || code_learn(vm->reader, at.pc, &known, &code)) &&
             is_right(vm, &code, at.pc, &known);
        if (!ok)
            break;
        lines[n] = at;
        n += at.line > 0;
    }
    if (ok)
        (void)code_learn_lines(vm->reader, lines, n, &code);
    vm->code = ok ? code : (struct code){0};
    NIF_KEEP(env, &l, code);
    return ok ? ATOM(true) : ATOM(false);
}

/* Some of the code may be missing in a core file. */
static bool is_any_in_file(const struct vm *vm)
{
    struct code_cursor at = {0, 0, false};
    struct code_module m;
    while (code_next(PEEK_OTHER, &vm->code, &at, &m)) {
        if (m.n > 0)
            return true;
    }
    return false;
}

NIF(nif_has_code)
{
    /* (): whether functions can be found by their addresses, in a core file also whether there are any */
    const struct sonde *s = sonde_of(env);
    bool has = atomic_load_explicit(&s->proved, memory_order_acquire) && s->vm.code.n > 0;
    return has && (!s->core || is_any_in_file(&s->vm)) ? ATOM(true) : ATOM(false);
}
