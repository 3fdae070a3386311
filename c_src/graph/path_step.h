/* path_step.h: one step of the way from a root to an object, as a person would call it.
 * Knows: that the value of a pair in a map is found by its key, and an element of a list by its index.
 * Does not know: how steps are written, or which way is taken. */
#ifndef SONDE_PATH_STEP_H
#define SONDE_PATH_STEP_H

#include "graph/graph.h"

enum path_step_kind {
    PATH_STEP_NONE, /* from one inner part to another: nothing that a person sees */
    PATH_STEP_STACK,
    PATH_STEP_REGISTER,
    PATH_STEP_DICTIONARY,
    PATH_STEP_MESSAGE,
    PATH_STEP_OTHER,
    PATH_STEP_ELEMENT, /* of a tuple, or a record */
    PATH_STEP_INDEX,   /* of a list */
    PATH_STEP_TAIL,    /* what comes after so many cells */
    PATH_STEP_KEY,     /* the value of a key */
    PATH_STEP_IN_KEY,  /* a key itself */
    PATH_STEP_KEYS,    /* all keys of a small map */
    PATH_STEP_ENV,     /* what a fun has taken along */
    PATH_STEP_BINARY   /* what a slice is a slice of */
};

struct path_step {
    enum path_step_kind kind;
    uint64_t index; /* from 1; OTHER: 0 for what a collection takes as it is */
    uint64_t key; /* KEY: the word; ELEMENT: the tuple's first element; 0 of a sensitive process */
    uint64_t arity; /* ELEMENT: of the tuple */
};

/* The step that this link out of a node is. OK, TORN. */
enum status path_step_inside(const struct graph *g, const struct vm *vm, const struct inside *in,
                             const struct link *link, struct path_step *s);

/* The step from a root word that was just met. */
void path_step_root(const struct roots *r, struct path_step *s);

#endif
