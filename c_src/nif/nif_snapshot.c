/* nif_snapshot.c: the pieces of a heap snapshot, as Erlang terms.
 * Knows: a piece is valid only if the stamp still is.
 * Does not know: what is in the text, or how strings are spelled. */
#include "nif/nif_heap.h"
#include "graph/snapshot.h"

#include <string.h>

enum { NAMES_AT_ONCE = 300 };

/* Whether a snapshot has a piece: it waits for room, or it is done. */
static bool has_text(const struct look *l)
{
    return l->walker == &snapshot_walker && (l->st == ST_ASK || l->st == ST_OK);
}

/* Whether a snapshot has names: its piece was taken, and it goes on or is done. */
static bool has_names(const struct look *l)
{
    return l->walker == &snapshot_walker && (l->st == ST_TIMESLICE || l->st == ST_OK);
}

/* Whether everything read so far belongs to one state of the process, and may go out. */
static enum status still(const struct sonde *s, struct look *l)
{
    l->vm.reader = nif_peek_reader(s);
    if (l->vm.reader == PEEK_NONE)
        return ST_TORN;
    if (l->args.content == CONTENT_SHOWN && atomic_load(&s->no_content))
        return ST_TORN;
    return look_close(l);
}

/* ---- names ---------------------------------------------------------------------------------- */

static ERL_NIF_TERM tagged(ErlNifEnv *env, const char *tag, ERL_NIF_TERM term)
{
    return enif_make_tuple2(env, enif_make_atom(env, tag), term);
}

static ERL_NIF_TERM fixed(ErlNifEnv *env, const char *text)
{
    ERL_NIF_TERM term;
    size_t n = strlen(text);
    unsigned char *bytes = enif_make_new_binary(env, n, &term);
    if (!bytes)
        return nif_raise(env, ATOM(badarg));
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)text[i];
    return term;
}

/* An atom of another OS process is another one here, so its text goes out. */
static ERL_NIF_TERM number_or_atom(ErlNifEnv *env, const struct look *l, uint64_t word)
{
    if (term_is_small(word))
        return (ERL_NIF_TERM)word;
    if (!sonde_of(env)->is_aimed)
        return nif_atom(word, l->args.n);
    ERL_NIF_TERM text = term_is_atom(word) ? nif_atom_there(env, &l->vm, word) : ATOM(other);
    return text == ATOM(other) ? ATOM(undefined) : text;
}

static ERL_NIF_TERM name(ErlNifEnv *env, const void *look, size_t i)
{
    const struct look *l = look;
    const struct snapshot *s = l->state;
    if (i < STRING_TABLE_FIXED_N)
        return fixed(env, string_table_fixed[i]);
    const struct name *n = &s->names.list[i - STRING_TABLE_FIXED_N];
    ERL_NIF_TERM number = enif_make_uint64(env, n->n);
    ERL_NIF_TERM word = number_or_atom(env, l, n->word);
    switch (n->kind) {
    case NAME_OF_TUPLE:
        return enif_make_tuple3(env, ATOM(tuple), number, n->word != 0 ? word : ATOM(undefined));
    case NAME_OF_FUN:
        return nif_fun_kind(env, l, &s->names.funs[n->n]);
    case NAME_OF_KEY:
        return tagged(env, "key", word);
    case NAME_OF_ENTRY:
        return tagged(env, "entry", word);
    case NAME_OF_FOLDED:
        return enif_make_tuple3(env, enif_make_atom(env, "folded"), number,
                                enif_make_uint64(env, n->word));
    default:
        return tagged(env, "number", number);
    }
}

LOOK_NIF(do_look_names)
{
    /* (Look, From): after look_text: the data of the names, or torn, or gone */
    const struct look *l = &h->look;
    if (!has_names(l) || !enif_is_number(env, argv[1]))
        return nif_raise(env, ATOM(badarg));
    enum status st = nif_may_tell(sonde_of(env), &h->look);
    if (st != ST_OK)
        return nif_status_atom(env, st);
    size_t n = STRING_TABLE_FIXED_N + ((const struct snapshot *)l->state)->names.n;
    return nif_page(env, argv[1], enif_make_uint(env, NAMES_AT_ONCE), l, n, name);
}

/* ---- pieces --------------------------------------------------------------------------------- */

static ERL_NIF_TERM titled(ErlNifEnv *env, const struct look *l)
{
    const struct snapshot *s = l->state;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    size_t at = s->tokens.n;
    for (uint32_t i = s->titled_n; i > 0; i--) {
        const struct titled *t = &s->titled[i - 1];
        at -= t->tokens;
        ERL_NIF_TERM tokens = nif_tokens(env, l, &s->tokens, at, t->tokens);
        list = enif_make_list_cell(env, enif_make_tuple2(env, name(env, l, t->name), tokens), list);
    }
    return list;
}

static ERL_NIF_TERM piece(ErlNifEnv *env, struct look *l)
{
    struct snapshot *s = l->state;
    ERL_NIF_TERM text;
    unsigned char *bytes = enif_make_new_binary(env, s->text_n, &text);
    if (!bytes)
        return nif_raise(env, ATOM(no_memory));
    memcpy(bytes, s->text, s->text_n);
    ERL_NIF_TERM names = titled(env, l);
    snapshot_taken(s);
    if (l->st == ST_ASK)
        l->st = ST_TIMESLICE;
    return enif_make_tuple4(env, text, names, enif_make_uint64(env, s->nodes_n),
                            enif_make_uint64(env, s->edges_n));
}

LOOK_NIF(do_look_text)
{
    /* (Look): of a snapshot: {Text, [{Name, Preview}], Nodes, Edges}; afterwards it can continue */
    struct look *l = &h->look;
    if (!has_text(l))
        return nif_raise(env, ATOM(badarg));
    enum status st = still(sonde_of(env), l);
    if (st == ST_OK)
        return piece(env, l);
    l->st = st;
    return nif_status_atom(env, st);
}
