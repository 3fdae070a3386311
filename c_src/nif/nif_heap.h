/* nif_heap.h: what the NIFs share that look into heaps.
 * Knows: erl_nif.h. Does not know: VM internals. */
#ifndef SONDE_NIF_HEAP_H
#define SONDE_NIF_HEAP_H

#include "heap/marking.h"
#include "process/look.h"
#include "nif/nif.h"
#include "graph/preview.h"

/* A look as Erlang holds it. It can be shared, but only one call at a time may use it. */
struct held_look {
    struct look look;
    atomic_flag in_use;
};

/* NULL: it is none, or in use. Afterwards nif_give_look. */
struct held_look *nif_take_look(ErlNifEnv *env, ERL_NIF_TERM term);
void nif_give_look(struct held_look *h);

/* Whether an answer that can show content or names may go out now. OK, GONE; TORN: it was copied while it
 * was allowed, and no longer is: look again. */
enum status nif_may_tell(const struct sonde *s, struct look *l);

/* {'fun', Module, Name | {Index, Uniq, OldIndex, OldUniq}, Arity}; atoms are those below l->args.n. */
ERL_NIF_TERM nif_fun_kind(ErlNifEnv *env, const struct look *l, const struct fun_bar *b);

/* A word as an atom, if it is one that exists; else undefined. */
ERL_NIF_TERM nif_atom(uint64_t word, uint64_t atoms_n);

/* So many tokens as a list. */
ERL_NIF_TERM nif_tokens(ErlNifEnv *env, const struct tokens *ts, size_t first, size_t n,
                        uint64_t atoms_n);

#endif
