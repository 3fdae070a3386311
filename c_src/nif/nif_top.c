/* nif_top.c: the objects that retain most, as Erlang terms.
 * Knows: rows, steps and tokens as terms. The words of atoms and pids go out once the look is done,
 * and of atoms only those that existed when it began.
 * Does not know: how they were found. */
#include "graph/top_retained.h"
#include "nif/nif_heap.h"

#include <math.h>
#include <string.h>

/* A row may have some hundred tokens; the text of an atom of another OS process costs a few system calls. */
enum { ROWS_AT_ONCE = 4, ROWS_THERE = 1 };

static ERL_NIF_TERM name(ErlNifEnv *env, const char *text)
{
    return enif_make_atom(env, text);
}

/* ---- tokens --------------------------------------------------------------------------------- */

static ERL_NIF_TERM tagged(ErlNifEnv *env, const char *tag, uint64_t n)
{
    return enif_make_tuple2(env, name(env, tag), enif_make_uint64(env, n));
}

static ERL_NIF_TERM container(ErlNifEnv *env, const char *tag, const struct token *t)
{
    return enif_make_tuple3(env, name(env, tag), enif_make_uint(env, t->shown),
                            enif_make_uint64(env, t->n));
}

static ERL_NIF_TERM value(ErlNifEnv *env, ERL_NIF_TERM term)
{
    return enif_make_tuple2(env, name(env, "v"), term);
}

/* An atom of another OS process is another one here. */
static ERL_NIF_TERM immediate(ErlNifEnv *env, const struct look *l, uint64_t w)
{
    if (term_is_atom(w) && sonde_of(env)->is_aimed)
        return nif_atom_there(env, &l->vm, w);
    bool good = term_is_local_pid(w) || term_is_small(w) || w == TERM_NIL ||
                (term_is_atom(w) && w >> 6 < l->args.n);
    return good ? value(env, (ERL_NIF_TERM)w) : name(env, "other");
}

static ERL_NIF_TERM real(ErlNifEnv *env, uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return isfinite(d) ? value(env, enif_make_double(env, d)) : name(env, "other");
}

static ERL_NIF_TERM one_token(ErlNifEnv *env, const struct look *l, const struct token *t)
{
    static const char *const plain[TOKEN_KINDS] = {
        [TOKEN_FUN] = "fun",     [TOKEN_REF] = "ref", [TOKEN_EXTERNAL] = "external",
        [TOKEN_OTHER] = "other", [TOKEN_CUT] = "cut",
    };
    switch (t->kind) {
    case TOKEN_WORD:
        return immediate(env, l, t->word);
    case TOKEN_FLOAT:
        return real(env, t->word);
    case TOKEN_BIGNUM:
        return tagged(env, "bignum", t->n);
    case TOKEN_BINARY:
        return tagged(env, "binary", t->n);
    case TOKEN_RECORD:
        return tagged(env, "record", t->n);
    case TOKEN_TUPLE:
        return container(env, "tuple", t);
    case TOKEN_LIST:
        return container(env, "list", t);
    case TOKEN_MAP:
        return container(env, "map", t);
    default:
        return name(env, plain[t->kind]);
    }
}

ERL_NIF_TERM nif_tokens(ErlNifEnv *env, const struct look *l, const struct tokens *ts, size_t first,
                        size_t n)
{
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (size_t i = n; i > 0; i--)
        list = enif_make_list_cell(env, one_token(env, l, &ts->list[first + i - 1]), list);
    return list;
}

/* ---- paths ---------------------------------------------------------------------------------- */

static ERL_NIF_TERM element(ErlNifEnv *env, const struct path_step *s, uint64_t atoms_n)
{
    return enif_make_tuple4(env, name(env, "element"), enif_make_uint64(env, s->index),
                            nif_atom(s->key, atoms_n), enif_make_uint64(env, s->arity));
}

static ERL_NIF_TERM step(ErlNifEnv *env, const struct look *look, const struct edge *e)
{
    const struct top_retained *l = look->state;
    static const char *const plain[] = {[PATH_STEP_DICTIONARY] = "dictionary",
                                        [PATH_STEP_IN_KEY] = "key",
                                        [PATH_STEP_KEYS] = "keys",
                                        [PATH_STEP_BINARY] = "binary"};
    static const char *const numbered[] = {
        [PATH_STEP_STACK] = "stack",     [PATH_STEP_REGISTER] = "register",
        [PATH_STEP_MESSAGE] = "message", [PATH_STEP_OTHER] = "other",
        [PATH_STEP_INDEX] = "index",     [PATH_STEP_TAIL] = "tail",
        [PATH_STEP_ENV] = "env"};
    switch (e->step.kind) {
    case PATH_STEP_ELEMENT:
        return element(env, &e->step, look->args.n);
    case PATH_STEP_KEY:
        return enif_make_tuple2(env, name(env, "key"),
                                nif_tokens(env, look, &l->tokens, e->key, e->key_n));
    case PATH_STEP_DICTIONARY:
    case PATH_STEP_IN_KEY:
    case PATH_STEP_KEYS:
    case PATH_STEP_BINARY:
        return name(env, plain[e->step.kind]);
    default:
        return tagged(env, numbered[e->step.kind], e->step.index);
    }
}

static ERL_NIF_TERM way(ErlNifEnv *env, const struct look *look, const struct large *r)
{
    const struct top_retained *l = look->state;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (unsigned i = r->n; i > 0; i--) {
        const struct edge *e = &l->edges[r->way[i - 1]];
        if (e->step.kind != PATH_STEP_NONE)
            list = enif_make_list_cell(env, step(env, look, e), list);
        if (r->cut && i - 1 == WAY_BEGIN)
            list = enif_make_list_cell(env, name(env, "..."), list);
    }
    return list;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* The same kinds as in the histogram. */
static ERL_NIF_TERM kind(ErlNifEnv *env, const struct look *look, const struct large *r)
{
    switch (r->kind) {
    case KIND_TUPLE:
        return tagged(env, "tuple", term_header_arity(r->header));
    case KIND_MAP:
        return nif_bar_name(env, map_type(r->header) == MAP_FLAT ? BAR_FLATMAP : BAR_HASHMAP);
    case KIND_FUN:
        return nif_fun_kind(env, look, &r->fun);
    default:
        return nif_bar_name(env, histogram_bars[r->kind]);
    }
}

static ERL_NIF_TERM row(ErlNifEnv *env, const void *of, size_t i)
{
    const struct look *look = of;
    const struct top_retained *l = look->state;
    const struct large *r = &l->rows[i];
    return enif_make_tuple5(env, way(env, look, r), enif_make_uint64(env, r->retained * 8),
                            enif_make_uint64(env, r->self * 8), kind(env, look, r),
                            nif_tokens(env, look, &l->tokens, r->preview, r->preview_n));
}

static bool is_done(const struct look *look)
{
    return look->st == ST_OK && look->walker == &top_retained_walker;
}

LOOK_NIF(do_look_top)
{
    /* (Look, From): after top, some rows: [{Path, Retained, Self, Kind, Preview}] | torn | gone */
    const struct look *l = &h->look;
    if (!is_done(l) || !enif_is_number(env, argv[1]))
        return nif_raise(env, ATOM(badarg));
    enum status st = nif_may_tell(sonde_of(env), &h->look);
    if (st != ST_OK)
        return nif_status_atom(env, st);
    unsigned rows = sonde_of(env)->is_aimed ? ROWS_THERE : ROWS_AT_ONCE;
    return nif_page(env, argv[1], enif_make_uint(env, rows), l,
                    ((const struct top_retained *)l->state)->n, row);
}

LOOK_NIF(do_look_top_info)
{
    /* (Look): after top, a map: the heap's sizes, and the look's peak memory in bytes */
    if (!is_done(&h->look))
        return nif_raise(env, ATOM(badarg));
    const struct top_retained *l = h->look.state;
    ERL_NIF_TERM keys[] = {ATOM(words), name(env, "reached"), name(env, "nodes"), ATOM(bytes)};
    ERL_NIF_TERM values[] = {enif_make_uint64(env, l->heap.words),
                             enif_make_uint64(env, marking_reached(&l->heap)),
                             enif_make_uint64(env, l->graph.nodes), enif_make_uint64(env, l->peak)};
    return nif_map(env, keys, values, 4);
}
