/* nif_flat.c: the NIFs of flat sizes.
 * Knows: the answers as terms, and which memory of the caller can be read during its own call.
 * Does not know: how a term is measured. */
#include "heap/root_size.h"
#include "nif/nif_heap.h"
#include "vm/term.h"

/* A small term takes at most QUICK_STEPS (about 50 us), or QUICK_STEPS_DEAR (half a millisecond) if
 * each word costs a system call. */
enum { QUICK_STEPS = 4096, QUICK_STEPS_DEAR = 256, QUICK_FRAGMENTS = 64 };

enum { LITERAL_BYTES_MAX_LOG2 = 40 };

NIF(nif_do_calibrate_literals)
{
    /* (Literal, Bytes): after calibrate. All literals lie in one area of Bytes bytes. */
    struct vm *vm = &sonde_of(env)->candidate;
    ErlNifUInt64 bytes;
    if (!nif_is_prover(env) || !vm->lay || !enif_is_tuple(env, argv[0]) ||
        !enif_get_uint64(env, argv[1], &bytes) || bytes >> LITERAL_BYTES_MAX_LOG2 != 0)
        return nif_raise(env, ATOM(badarg));
    uintptr_t at = term_pointer(argv[0]);
    vm->literals = (struct block){0, 0};
    if (bytes != 0)
        vm->literals = (struct block){at > bytes ? at - bytes : 8, (at + bytes) & ~(uintptr_t)7};
    return ATOM(ok);
}

/* ---- a look ---------------------------------------------------------------------------------- */

LOOK_NIF(do_look_flat)
{
    /* (Look): after flat, {Words, Bytes, Visible, Pinned, Shared, Literals} */
    const struct look *l = &h->look;
    if (l->st != ST_OK || l->walker != &root_size_walker)
        return nif_raise(env, ATOM(badarg));
    const struct root_size *f = l->state;
    const struct term_size *m = &f->measure;
    bool shared = f->shared.measure != NULL;
    return enif_make_tuple6(env, enif_make_uint64(env, m->sum.words),
                            enif_make_uint64(env, m->sum.bytes),
                            enif_make_uint64(env, m->sum.visible),
                            enif_make_uint64(env, m->binaries ? address_set_bytes(m->binaries) : 0),
                            enif_make_uint64(env, shared ? f->shared.words : 0),
                            enif_make_uint64(env, shared ? f->shared.literals : 0));
}

LOOK_NIF(do_look_refs)
{
    /* (Look, At): after flat with refs, {NextAt | done, [{Id, Size, Refc, References}]}; At:
     * from 0 */
    const struct look *l = &h->look;
    struct budget b = BUDGET(QUICK_STEPS);
    ERL_NIF_TERM list = enif_make_list(env, 0);
    const struct known *k;
    enum status st;
    ErlNifUInt64 first;
    if (l->st != ST_OK || l->walker != &root_size_walker || !enif_get_uint64(env, argv[1], &first))
        return nif_raise(env, ATOM(badarg));
    size_t at = first;
    while ((st = census_next(&((const struct root_size *)l->state)->refs, &at, &b, &k)) == ST_OK)
        list = enif_make_list_cell(env, nif_known(env, k), list);
    return enif_make_tuple2(env, st == ST_GONE ? ATOM(done) : enif_make_uint64(env, at), list);
}

/* ---- a term of the caller -------------------------------------------------------------------- */

/* No stamp is needed: while a process is in a NIF, nothing else writes to its heap. Its Process
 * does not have the current top of the heap meanwhile, so the block ends at hend. */
static bool own_blocks(const struct vm *vm, uintptr_t proc, struct blocks *blocks)
{
    static const enum layout_field fields[] = {LF_heap,     LF_hend, LF_old_heap,
                                               LF_old_hend, LF_mbuf, LF_msg_frag};
    uint64_t w[6];
    struct fragments c;
    struct budget b = BUDGET(QUICK_FRAGMENTS);
    for (unsigned i = 0; i < 6; i++) {
        if (!peek_word(vm->reader, proc + vm->lay->f[fields[i]], &w[i]))
            return false;
    }
    blocks_init(blocks, w[0], w[1], w[2], w[3]);
    fragments_start(&c, w[4], w[5]);
    return fragments_collect(&c, vm, blocks, &b) == ST_OK && blocks_sort(blocks, &b);
}

static bool quick(const struct vm *vm, const struct blocks *blocks, uint64_t term,
                  struct sums *sums)
{
    struct term_size m;
    struct budget b = BUDGET(vm->reader == PEEK_GUARDED ? QUICK_STEPS : QUICK_STEPS_DEAR);
    term_size_start(&m, blocks, TERM_SIZE_BYTES, QUICK_STEPS);
    enum status st = term_size_of(&m, vm, term);
    if (st == ST_OK)
        st = term_size_go(&m, vm, &b);
    *sums = m.sum;
    term_size_end(&m);
    return st == ST_OK;
}

NIF(nif_flat_quick)
{
    /* (Term): {Words, Bytes}, or more: it is not small, or its memory cannot be read now */
    struct vm vm;
    struct blocks blocks;
    struct sums sums;
    uint64_t pid;
    uint64_t proc;
    if (!nif_best_vm(env, &vm) || vm.reader == PEEK_NONE || !nif_own_process(env, &vm, &pid, &proc))
        return ATOM(more);
    blocks_init(&blocks, 0, 0, 0, 0);
    bool done = own_blocks(&vm, (uintptr_t)proc, &blocks) && quick(&vm, &blocks, argv[0], &sums);
    blocks_end(&blocks);
    return done ? enif_make_tuple2(env, enif_make_uint64(env, sums.words),
                                   enif_make_uint64(env, sums.bytes))
                : ATOM(more);
}
