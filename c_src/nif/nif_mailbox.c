/* nif_mailbox.c: the answers about a mailbox, as Erlang terms.
 * Knows: shapes as Erlang has them. Does not know: how they were found. */
#include "heap/mailbox.h"
#include "nif/nif_heap.h"
#include "vm/term.h"

/* The text of an atom of another OS process costs a few system calls. */
enum { ROWS_MAX = 1000, ROWS_THERE = 64 };

static const struct mailbox *mailbox_of(const struct held_look *h)
{
    const struct look *l = &h->look;
    return l->st == ST_OK && l->walker == &mailbox_walker ? l->state : NULL;
}

LOOK_NIF(do_look_mailbox)
{
    /* (Look): after mailbox, {Messages, Words, Visible, Examined, Constants} */
    const struct mailbox *m = mailbox_of(h);
    if (!m)
        return nif_raise(env, ATOM(badarg));
    return enif_make_tuple5(
        env, enif_make_uint64(env, m->messages), enif_make_uint64(env, m->measure.sum.words),
        enif_make_uint64(env, m->measure.sum.visible), enif_make_uint64(env, m->examined),
        enif_make_uint64(env, m->measure.constants));
}

/* Does not name an atom that was created after the look began. An atom of another OS process is text. */
static ERL_NIF_TERM tag_term(ErlNifEnv *env, const struct look *l, uint64_t tag,
                             ERL_NIF_TERM otherwise)
{
    if (term_is_atom(tag) && sonde_of(env)->is_aimed)
        return nif_atom_there(env, &l->vm, tag);
    return term_is_atom(tag) && tag >> 6 < l->args.n ? (ERL_NIF_TERM)tag : otherwise;
}

static ERL_NIF_TERM shape_term(ErlNifEnv *env, const struct look *l, const struct shape *s)
{
    switch (s->kind) {
    case SHAPE_ATOM:
        return enif_make_tuple1(env, tag_term(env, l, s->tag, ATOM(other)));
    case SHAPE_TUPLE:
        return enif_make_tuple2(env, tag_term(env, l, s->tag, ATOM(any)),
                                enif_make_uint64(env, s->arity));
    case SHAPE_LIST:
        return ATOM(list);
    case SHAPE_MAP:
        return ATOM(map);
    case SHAPE_BINARY:
        return ATOM(binary);
    default:
        return ATOM(other);
    }
}

static ERL_NIF_TERM row(ErlNifEnv *env, const struct look *l, const struct shape *s)
{
    bool known = term_is_local_pid(s->from) && !proctab_is_nobody(&l->lay, s->from);
    return enif_make_tuple5(env, shape_term(env, l, s), enif_make_uint64(env, s->messages),
                            enif_make_uint64(env, s->words), enif_make_uint64(env, s->visible),
                            known ? (ERL_NIF_TERM)s->from : ATOM(undefined));
}

/* The shapes of the table, then SHAPE_OTHER. */
static ERL_NIF_TERM rows(ErlNifEnv *env, const struct look *l, const struct mailbox *m,
                         unsigned from)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    unsigned to = from + (sonde_of(env)->is_aimed ? ROWS_THERE : ROWS_MAX);
    for (unsigned i = from; i <= SHAPES_TABLE && i < to; i++) {
        const struct shape *s = i == SHAPES_TABLE ? &m->other : &m->shapes[i];
        if (s->messages != 0)
            list = enif_make_list_cell(env, row(env, l, s), list);
    }
    return to > SHAPES_TABLE ? enif_make_tuple2(env, ATOM(done), list)
                             : enif_make_tuple2(env, enif_make_uint(env, to), list);
}

LOOK_NIF(do_look_shapes)
{
    /* (Look, From): after mailbox, {Next | done, [{Shape, Messages, Words, Visible, From}]} | torn
     * | gone; {Atom} is the shape of an atom; an atom of another OS process is {atom, Text} */
    unsigned from;
    const struct mailbox *m = mailbox_of(h);
    if (!m || !enif_get_uint(env, argv[1], &from) || from > SHAPES_TABLE)
        return nif_raise(env, ATOM(badarg));
    enum status st = nif_may_tell(sonde_of(env), &h->look);
    return st == ST_OK ? rows(env, &h->look, m, from) : nif_status_atom(env, st);
}
