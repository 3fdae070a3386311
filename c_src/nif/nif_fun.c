/* nif_fun.c: the function of a fun.
 * Knows: the fields of the VM's entry of a function, relative to the module.
 * Does not know: the names of local functions, which the Erlang side gets from the VM.
 *
 * A local function's entry begins with code addresses, as many as the flavour of the emulator
 * needs; its names follow, and calibration finds their offset with a known fun. Up to 27: module,
 * arity, index (32 bits), uniq (16 bytes), old uniq, old index (32 bits each). From 28: module,
 * uniq, arity, index, old uniq, old index, all of 32 bits. The entry of an external fun has module,
 * function and arity in a row further on. */
#include "nif/nif_heap.h"
#include "vm/term.h"

#include <string.h>

struct fun_name {
    uint32_t arity, index, old_uniq, old_index;
    unsigned char uniq[16];
};

ERL_NIF_TERM nif_atom(uint64_t word, uint64_t atoms_n)
{
    return term_is_atom(word) && word >> 6 < atoms_n ? (ERL_NIF_TERM)word : ATOM(undefined);
}

NIF(nif_do_calibrate_fun)
{
    /* (LocalFun, ItsModule): after calibrate */
    struct sonde *s = sonde_of(env);
    struct vm *vm = &s->candidate;
    uint64_t entry;
    if (!nif_is_prover(env) || !vm->lay || !enif_is_fun(env, argv[0]) ||
        !enif_is_atom(env, argv[1]))
        return nif_raise(env, ATOM(badarg));
    enum peek_reader reader = nif_peek_reader(s);
    vm->fun_module = 0;
    if (!peek_word(reader, term_pointer(argv[0]) + 8, &entry) || (entry & 7))
        return ATOM(ok);
    for (unsigned at = 3 * 8; at < 6 * 8; at += 8) {
        uint64_t word;
        if (peek_word(reader, entry + at, &word) && word == argv[1])
            vm->fun_module = (uint16_t)at;
    }
    return ATOM(ok);
}

static uint32_t half(const uint64_t *entry, unsigned at)
{
    return (uint32_t)(entry[at / 8] >> (at & 7) * 8);
}

static void read_name(const struct look *l, const uint64_t *entry, struct fun_name *n)
{
    unsigned m = l->vm.fun_module;
    bool uniq_first = l->lay.fun_uniq_first;
    unsigned then = m + (uniq_first ? 24 : 8);
    n->arity = half(entry, then);
    n->index = half(entry, uniq_first ? then + 4 : then + 8);
    memcpy(n->uniq, (const char *)entry + (uniq_first ? m + 8 : m + 20), sizeof n->uniq);
    n->old_uniq = half(entry, uniq_first ? then + 8 : m + 36);
    n->old_index = half(entry, uniq_first ? then + 12 : m + 40);
}

static ERL_NIF_TERM local_fun(ErlNifEnv *env, const struct look *l, const struct fun_bar *b,
                              ERL_NIF_TERM module)
{
    struct fun_name n;
    ERL_NIF_TERM uniq;
    read_name(l, b->entry, &n);
    unsigned char *bytes = enif_make_new_binary(env, sizeof n.uniq, &uniq);
    if (!bytes)
        return ATOM(undefined);
    memcpy(bytes, n.uniq, sizeof n.uniq);
    ERL_NIF_TERM id =
        enif_make_tuple4(env, enif_make_uint(env, n.index), uniq, enif_make_uint(env, n.old_index),
                         enif_make_uint(env, n.old_uniq));
    return enif_make_tuple4(env, ATOM(fun), module, id, enif_make_uint(env, n.arity));
}

ERL_NIF_TERM nif_fun_kind(ErlNifEnv *env, const struct look *l, const struct fun_bar *b)
{
    unsigned m = l->vm.fun_module / 8;
    uint64_t n = l->args.n;
    if (m != 0 && nif_atom(b->entry[m], n) != ATOM(undefined))
        return local_fun(env, l, b, nif_atom(b->entry[m], n));
    for (unsigned i = m; i + 2 < FUN_ENTRY_WORDS; i++) {
        ERL_NIF_TERM module = nif_atom(b->entry[i], n);
        ERL_NIF_TERM name = nif_atom(b->entry[i + 1], n);
        if (module != ATOM(undefined) && name != ATOM(undefined) && b->entry[i + 2] < 256)
            return enif_make_tuple4(env, ATOM(fun), module, name,
                                    enif_make_uint64(env, b->entry[i + 2]));
    }
    return enif_make_tuple4(env, ATOM(fun), ATOM(undefined), ATOM(undefined),
                            enif_make_uint64(env, b->free));
}
