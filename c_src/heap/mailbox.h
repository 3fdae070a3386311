/* mailbox.h: the messages that wait in the queues of a process: number, shapes and sizes.
 * Knows: where messages are, and the shape of a term from its first words.
 * Does not know: how a term is measured, output formats, or whether the process changed meanwhile.
 *
 * A flooded process receives messages all the time, and these change the process: the top of its
 * heap, the end of its queue, counters. The stamp includes none of that here; otherwise such a
 * process could never be read. Messages already there do not change until the process runs.
 *
 * In another OS process, a message that is linked later may lie in a page that is kept from before. So there
 * the walk ends at the message that was the last one when it began. */
#ifndef SONDE_MAILBOX_H
#define SONDE_MAILBOX_H

#include "process/fragments.h"
#include "process/look.h"
#include "heap/term_size.h"

enum shape_kind {
    SHAPE_FREE, /* a free slot */
    SHAPE_OTHER,
    SHAPE_ATOM,
    SHAPE_TUPLE,
    SHAPE_LIST,
    SHAPE_MAP,
    SHAPE_BINARY
};

/* Further shapes count as SHAPE_OTHER. */
enum { SHAPES_MAX = BOUND(4096, 8), SHAPES_TABLE = 2 * SHAPES_MAX };

enum { FROM_NOBODY = 0, FROM_SEVERAL = 1 }; /* else the word of a local pid */

struct shape {
    enum shape_kind kind;
    uint64_t tag; /* an atom; 0: any */
    uint64_t arity;
    uint64_t messages, words, visible, from;
};

struct mailbox {
    int stage;
    bool shapeless; /* content may not go out: every message is SHAPE_OTHER, from FROM_NOBODY */
    uint64_t cursor, steps;
    uint64_t last;     /* where the link to the next message will be; 0: not needed, or met */
    uint64_t messages; /* examined or not */
    uint64_t sample, examined;
    struct fragments collect;
    struct blocks blocks;
    struct term_size measure;
    struct sums before;    /* before the current message */
    struct shape *current; /* of the current message; NULL: none */
    unsigned shapes_n;
    struct shape other;
    struct shape shapes[SHAPES_TABLE];
};

extern const struct walker mailbox_walker;

#endif
