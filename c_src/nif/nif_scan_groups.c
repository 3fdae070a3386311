/* nif_scan_groups.c: the groups that a scan has counted: processes by their stacks, or by what they are.
 * Knows: these groups as terms, and the functions in them.
 * Does not know: how processes are read. */
#include "nif/nif_scan.h"
#include "vm/term.h"

/* ---- stacks -------------------------------------------------------------------------------- */

SCAN_NIF(do_scan_stacks)
{
    /* (Scan, From): {Next | done, [{Node, Processes, OneOfThem}]}; From: 1 for the first */
    const struct stack_tree *t = &h->scan.stacks;
    ErlNifUInt64 from;
    if (!enif_get_uint64(env, argv[1], &from) || from == 0)
        return nif_raise(env, ATOM(badarg));
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint64_t i = from;
    for (; i < t->n && i - from < PAGE_MAX; i++) {
        const struct stack_node *node = &t->nodes[i];
        if (node->count > 0)
            list = enif_make_list_cell(env,
                                       enif_make_tuple3(env, enif_make_uint64(env, i),
                                                        enif_make_uint64(env, node->count),
                                                        nif_make_pid(env, node->pid)),
                                       list);
    }
    return enif_make_tuple2(env, i < t->n ? enif_make_uint64(env, i) : ATOM(done), list);
}

static bool is_atom_of(uint64_t word, uint64_t count)
{
    return term_is_atom(word) && word >> 6 < count;
}

bool nif_make_own_function(ErlNifEnv *env, const struct mfa *mfa, uint64_t count, ERL_NIF_TERM *out)
{
    *out = ATOM(undefined);
    if (!is_atom_of(mfa->module, count) || !is_atom_of(mfa->function, count))
        return false;
    *out = enif_make_tuple3(env, mfa->module, mfa->function, enif_make_uint64(env, mfa->arity));
    return true;
}

/* false: it is in no function. not_known: over there it may be in one, which cannot be read. A return address is behind
 * the call, which may be the last instruction of its function. */
static bool make_call(ErlNifEnv *env, const struct vm *vm, const uint64_t *frames, unsigned i,
                      uint64_t count, ERL_NIF_TERM *call)
{
    struct mfa mfa;
    enum code_found found = code_look(vm->reader, &vm->code, frames[i] - (i > 0), &mfa, NULL);
    if (sonde_of(env)->is_aimed) {
        *call = found == CODE_FOUND ? nif_make_function(env, vm, &mfa) : ATOM(not_known);
        return found != CODE_NONE;
    }
    return found == CODE_FOUND && nif_make_own_function(env, &mfa, count, call);
}

SCAN_NIF(do_scan_stack)
{
    /* (Scan, Node, Atoms): the functions of its stack, the last call first, or not_known: one of them cannot be read;
     * Atoms: how many the VM has */
    struct vm *vm = &h->scan.vm;
    uint64_t frames[STACK_FRAMES_MAX];
    ErlNifUInt64 node;
    ErlNifUInt64 count;
    ERL_NIF_TERM call;
    if (!enif_get_uint64(env, argv[1], &node) || node == 0 || node >= h->scan.stacks.n ||
        !enif_get_uint64(env, argv[2], &count))
        return nif_raise(env, ATOM(badarg));
    vm->reader = nif_peek_reader(sonde_of(env));
    if (vm->reader == PEEK_NONE)
        return ATOM(no_reader);
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (unsigned i = stack_tree_frames(&h->scan.stacks, node, frames, STACK_FRAMES_MAX);
         i-- > 0;) {
        if (!make_call(env, vm, frames, i, count, &call))
            continue;
        if (call == ATOM(not_known))
            return call;
        list = enif_make_list_cell(env, call, list);
    }
    return list;
}

/* ---- groups -------------------------------------------------------------------------------- */

/* The texts of another OS process take system calls, and those of a core file may be read from disk. */
enum { PAGE_THERE = 64 };

/* undefined: there is none, or it was no function; not_known: over there its name is not readable. */
static ERL_NIF_TERM make_origin(ErlNifEnv *env, const struct vm *vm, const uint64_t words[2],
                                uint64_t count)
{
    struct mfa mfa = origin_function(words);
    ERL_NIF_TERM function;
    if (sonde_of(env)->is_aimed)
        return nif_make_function(env, vm, &mfa);
    (void)nif_make_own_function(env, &mfa, count, &function);
    return function;
}

static ERL_NIF_TERM make_group(ErlNifEnv *env, const struct scan *scan, size_t i, uint64_t count)
{
    const struct stack_tree *t = &scan->stacks;
    uint64_t key[ORIGIN_WORDS];
    ERL_NIF_TERM sums = enif_make_list(env, 0);
    (void)stack_tree_frames(t, i, key, ORIGIN_WORDS);
    for (unsigned k = t->width; k-- > 0;)
        sums = enif_make_list_cell(env, enif_make_int64(env, t->sums[i * t->width + k]), sums);
    return enif_make_tuple6(
        env, key[ORIGIN_LEADER] != 0 ? nif_make_pid(env, key[ORIGIN_LEADER]) : ATOM(undefined),
        make_origin(env, &scan->vm, &key[ORIGIN_CALL], count),
        make_origin(env, &scan->vm, &key[ORIGIN_FIRST], count),
        enif_make_uint64(env, t->nodes[i].count), nif_make_pid(env, t->nodes[i].pid), sums);
}

SCAN_NIF(do_scan_groups)
{
    /* (Scan, From, Atoms): {Next | done, [{Leader | undefined, Call, First | undefined, Processes, OneOfThem, [Sum]}]};
     * From: 1 for the first */
    const struct stack_tree *t = &h->scan.stacks;
    ErlNifUInt64 from;
    ErlNifUInt64 count;
    if (!enif_get_uint64(env, argv[1], &from) || from == 0 ||
        !enif_get_uint64(env, argv[2], &count) || h->scan.mode != SCAN_GROUPS)
        return nif_raise(env, ATOM(badarg));
    bool there = sonde_of(env)->is_aimed;
    h->scan.vm.reader = nif_peek_reader(sonde_of(env));
    if (there && h->scan.vm.reader == PEEK_NONE)
        return ATOM(no_reader);
    ERL_NIF_TERM list = enif_make_list(env, 0);
    uint64_t i = from;
    for (; i < t->n && i - from < (there ? PAGE_THERE : PAGE_MAX); i++) {
        if (t->nodes[i].count > 0)
            list = enif_make_list_cell(env, make_group(env, &h->scan, i, count), list);
    }
    return enif_make_tuple2(env, i < t->n ? enif_make_uint64(env, i) : ATOM(done), list);
}
