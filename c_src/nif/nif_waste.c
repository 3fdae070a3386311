/* nif_waste.c: the NIFs of a look at the slices of binaries that one process holds.
 * Knows: the answers as terms. Does not know: how slices are found. */
#include "nif/nif_heap.h"
#include "binary/waste.h"

/* ---- answers -------------------------------------------------------------------------------- */

static ERL_NIF_TERM pinned_item(ErlNifEnv *env, const void *w, size_t i)
{
    const struct pinned *p = &((const struct waste *)w)->pinned[i];
    return enif_make_tuple5(env, enif_make_uint64(env, p->binary), enif_make_uint64(env, p->size),
                            enif_make_uint64(env, p->refc), enif_make_uint64(env, p->visible),
                            enif_make_uint64(env, p->n));
}

static ERL_NIF_TERM slice_item(ErlNifEnv *env, const void *w, size_t i)
{
    const struct slice *s = &((const struct waste *)w)->heap.slices.list[i];
    return enif_make_tuple2(env, enif_make_uint64(env, s->from), enif_make_uint64(env, s->to));
}

static bool is_done(const struct look *l)
{
    return l->st == ST_OK && l->walker == &slices_walker;
}

LOOK_NIF(do_look_pinned)
{
    /* (Look, From, Count) */
    const struct waste *w = h->look.state;
    return is_done(&h->look) ? nif_page(env, argv[1], argv[2], w, w->n, pinned_item)
                             : nif_raise(env, ATOM(badarg));
}

LOOK_NIF(do_look_slices)
{
    /* (Look, From, Count) */
    const struct waste *w = h->look.state;
    return is_done(&h->look) ? nif_page(env, argv[1], argv[2], w, w->heap.slices.n, slice_item)
                             : nif_raise(env, ATOM(badarg));
}
