/* nif_waste.c: the NIFs of a look at the slices of binaries that one process holds.
 * Knows: the answers as terms. Does not know: how slices are found. */
#include "nif/nif_heap.h"
#include "binary/waste.h"

enum { CHUNK_MAX = 1000 };

/* ---- answers -------------------------------------------------------------------------------- */

static ERL_NIF_TERM pinned_item(ErlNifEnv *env, const struct waste *w, size_t i)
{
    const struct pinned *p = &w->pinned[i];
    return enif_make_tuple5(env, enif_make_uint64(env, p->binary), enif_make_uint64(env, p->size),
                            enif_make_uint64(env, p->refc), enif_make_uint64(env, p->visible),
                            enif_make_uint64(env, p->n));
}

static ERL_NIF_TERM slice_item(ErlNifEnv *env, const struct waste *w, size_t i)
{
    const struct slice *s = &w->heap.slices->list[i];
    return enif_make_tuple2(env, enif_make_uint64(env, s->from), enif_make_uint64(env, s->to));
}

static size_t slices_n(const struct waste *w)
{
    return w->heap.slices ? w->heap.slices->n : 0;
}

/* argv: (Look, From, Count); at most CHUNK_MAX items */
static ERL_NIF_TERM items(ErlNifEnv *env, const ERL_NIF_TERM argv[], const struct look *l, bool all,
                          ERL_NIF_TERM (*item)(ErlNifEnv *, const struct waste *, size_t))
{
    ErlNifUInt64 first;
    ErlNifUInt64 count;
    if (l->st != ST_OK || l->walker != &slices_walker || !enif_get_uint64(env, argv[1], &first) ||
        !enif_get_uint64(env, argv[2], &count))
        return nif_raise(env, ATOM(badarg));
    const struct waste *w = l->state;
    size_t n = all ? slices_n(w) : w->n;
    size_t from = first < n ? first : n;
    if (count > CHUNK_MAX)
        count = CHUNK_MAX;
    size_t to = n - from < count ? n : from + count;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    while (to > from)
        list = enif_make_list_cell(env, item(env, w, --to), list);
    return list;
}

NIF(nif_do_look_pinned)
{
    /* (Look, From, Count) */
    struct held_look *h = nif_take_look(env, argv[0]);
    if (!h)
        return nif_raise(env, ATOM(badarg));
    ERL_NIF_TERM list = items(env, argv, &h->look, false, pinned_item);
    nif_give_look(h);
    return list;
}

NIF(nif_do_look_slices)
{
    /* (Look, From, Count) */
    struct held_look *h = nif_take_look(env, argv[0]);
    if (!h)
        return nif_raise(env, ATOM(badarg));
    ERL_NIF_TERM list = items(env, argv, &h->look, true, slice_item);
    nif_give_look(h);
    return list;
}
