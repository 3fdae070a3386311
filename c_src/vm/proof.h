/* proof.h: reads one field of one process, so that Erlang can compare it with an official answer.
 * Knows: how to follow a path of named fields from a process, and a few comparisons.
 * Does not know: the expected result, or any stamp: the probes that it reads do not run.
 *
 * A path starts at a Process and names only fields of the layout: no caller can choose an address.
 * The result is a small number or a boolean, never a word that may be an address. */
#ifndef SONDE_PROOF_H
#define SONDE_PROOF_H

#include "vm/stamp.h"

enum proof_step_kind {
    STEP_READ, /* the value of the field */
    STEP_AT,   /* the address of the field itself (a struct inside a struct) */
    STEP_BASE  /* from a link or monitor node to the struct that contains it */
};

struct proof_step {
    enum proof_step_kind kind;
    enum layout_field field;
};

enum { PROOF_STEPS = 4 };

/* clang-format off */
#define PROOF_OPS(X)                                                                   \
    X(value)      /* the value itself, if small; else -1 */                            \
    X(constant)   /* the table's number for the field; nothing is read */              \
    X(is)         /* is it this word? */                                               \
    X(minus)      /* words between it and another field of the process */              \
    X(own)        /* does it point at another field of the process itself? */          \
    X(same)       /* does the other process have the same value? */                    \
    X(less)       /* does the other process have a larger value? */                    \
    X(has)        /* is this word among the n words it points at, whatever its tag? */ \
    X(has_pair)   /* ... a pointer to a pair with this word first? */                  \
    X(has_data)   /* ... a pointer to a binary that starts with this word? */          \
    X(has_ref)    /* ... a term that is a reference? */                                \
    X(has_count)  /* ... a pointer to a struct that starts with this 32-bit number? */ \
    X(head_field) /* does it point at the table's number for the other field? */       \
    X(head_ref)   /* is it a term that is a reference? */                              \
    X(head_count) /* does it point at this 32-bit number? */
/* clang-format on */

enum proof_op {
#define X(Name) OP_##Name,
    PROOF_OPS(X)
#undef X
        OP_COUNT
};

struct proof {
    unsigned n;
    struct proof_step path[PROOF_STEPS];
    enum proof_op op;
    unsigned from, words;    /* has...: the first word, and how many */
    uint64_t word;           /* is, has...: the expected word */
    enum layout_field other; /* minus, own, head_field */
    uintptr_t other_proc;    /* same */
};

/* false: it cannot be read. */
bool proof_read(const struct vm *vm, uintptr_t proc, const struct proof *p, int64_t *result);

#endif
