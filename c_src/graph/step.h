/* step.h: one step of the way from a root to a thing, as a person would call it.
 * Knows: that the value of a pair in a map is found by its key, and an element of a list by its index.
 * Does not know: how steps are written, or which way is taken. */
#ifndef SONDE_STEP_H
#define SONDE_STEP_H

#include "graph/graph.h"

enum step_kind {
    STEP_NONE, /* from one inner part to another: nothing that a person sees */
    STEP_STACK,
    STEP_REGISTER,
    STEP_DICTIONARY,
    STEP_MESSAGE,
    STEP_OTHER,
    STEP_ELEMENT, /* of a tuple, or a record */
    STEP_INDEX,   /* of a list */
    STEP_TAIL,    /* what comes after so many cells */
    STEP_KEY,     /* the value of a key */
    STEP_IN_KEY,  /* a key itself */
    STEP_KEYS,    /* all keys of a small map */
    STEP_ENV,     /* what a fun has taken along */
    STEP_BINARY   /* what a slice is a slice of */
};

struct step {
    enum step_kind kind;
    uint64_t index; /* from 1; OTHER: 0 for what a collection takes as it is */
    uint64_t key; /* KEY: the word; ELEMENT: the tuple's first element; 0 of a sensitive process */
    uint64_t arity; /* ELEMENT: of the tuple */
};

/* The step that this link out of a node is. OK, TORN. */
enum status step_inside(const struct graph *g, const struct vm *vm, const struct inside *in,
                        const struct link *link, struct step *s);

/* The step from a root word that was just met. */
void step_root(const struct roots *r, struct step *s);

#endif
