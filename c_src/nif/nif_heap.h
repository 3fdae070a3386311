/* nif_heap.h: shared by the NIFs that look at heaps.
 * Knows: erl_nif.h. Does not know: VM internals. */
#ifndef SONDE_NIF_HEAP_H
#define SONDE_NIF_HEAP_H

#include "heap/marking.h"
#include "process/look.h"
#include "nif/nif.h"
#include "graph/preview.h"
#include "util/census.h"

/* A look as a NIF resource. */
struct held_look {
    atomic_flag in_use;
    struct look look;
    struct leftovers left;
};

struct held_look *nif_take_look(ErlNifEnv *env, ERL_NIF_TERM term);
void nif_give_look(struct held_look *h);
#define LOOK_NIF(Name) NIF_WITH(Name, held_look, nif_take_look, nif_give_look)

/* Whether an answer with content or names may go out now. OK, GONE; TORN: it was allowed when it
 * was copied, but is no longer: start a new look. */
enum status nif_may_tell(const struct sonde *s, struct look *l);

ERL_NIF_TERM nif_bar_name(ErlNifEnv *env, enum bar_kind kind);

/* {'fun', Module, Name | {Index, Uniq, OldIndex, OldUniq}, Arity}; atoms: those below l->args.n. */
ERL_NIF_TERM nif_fun_kind(ErlNifEnv *env, const struct look *l, const struct fun_bar *b);

/* The word as a term if it is one of the first atoms_n atoms; else undefined. */
ERL_NIF_TERM nif_atom(uint64_t word, uint64_t atoms_n);

/* {Id, Size, Refc, References} */
ERL_NIF_TERM nif_known(ErlNifEnv *env, const struct known *k);

/* n tokens, from `first' on, as a list. After nif_may_tell. */
ERL_NIF_TERM nif_tokens(ErlNifEnv *env, const struct look *l, const struct tokens *ts, size_t first,
                        size_t n);

/* An atom of the OS process at which the library is aimed: {atom, Text}; `other' if it has none. */
ERL_NIF_TERM nif_atom_there(ErlNifEnv *env, const struct vm *vm, uint64_t word);

#endif
