/* path_step.h: one step of the path from a root to an object, in terms of the language.
 * Knows: a key leads to a value in a map, an index to an element of a list.
 * Does not know: how steps are printed, or which path is chosen. */
#ifndef SONDE_PATH_STEP_H
#define SONDE_PATH_STEP_H

#include "graph/graph.h"

enum path_step_kind {
    PATH_STEP_NONE, /* from one inner part to another: invisible in the language */
    PATH_STEP_STACK,
    PATH_STEP_REGISTER,
    PATH_STEP_DICTIONARY,
    PATH_STEP_MESSAGE,
    PATH_STEP_OTHER,
    PATH_STEP_ELEMENT, /* of a tuple or a record */
    PATH_STEP_INDEX,   /* of a list */
    PATH_STEP_TAIL,    /* the tail after `index' cells */
    PATH_STEP_KEY,     /* the value of a key */
    PATH_STEP_IN_KEY,  /* a key itself */
    PATH_STEP_KEYS,    /* all keys of a small map */
    PATH_STEP_ENV,     /* a term in the environment of a fun */
    PATH_STEP_BINARY   /* the whole binary of a slice */
};

struct path_step {
    enum path_step_kind kind;
    uint64_t index; /* from 1; OTHER: 0 in a fragment that a collection keeps whole */
    uint64_t key; /* KEY: the key; ELEMENT: the tuple's first element; 0 for a sensitive process */
    uint64_t arity; /* ELEMENT: of the tuple */
};

/* The step for this link out of a node. OK, TORN. */
enum status path_step_inside(const struct graph *g, const struct vm *vm, const struct inside *in,
                             const struct link *link, struct path_step *s);

/* The step for the root word that graph_root just returned. */
void path_step_root(const struct roots *r, struct path_step *s);

#endif
