/* mailbox.h: what waits in the queues of a process: how many messages, of which shapes, how large.
 * Knows: where messages are, and what their first word tells of a term.
 * Does not know: how a term is measured, output formats, or whether the process stayed still.
 *
 * Who is flooded gets messages all the time, and these change the process: the top of its heap, the
 * end of its queue, counters. None of that is in the stamp here, or such a process could never be
 * read. The messages that were there remain as they are until it runs. */
#ifndef SONDE_MAILBOX_H
#define SONDE_MAILBOX_H

#include "process/fragments.h"
#include "process/look.h"
#include "heap/term_size.h"

enum shape_kind {
    SHAPE_FREE, /* no shape */
    SHAPE_OTHER,
    SHAPE_ATOM,
    SHAPE_TUPLE,
    SHAPE_LIST,
    SHAPE_MAP,
    SHAPE_BINARY
};

/* More shapes than so many are counted as other ones. */
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
    bool shapeless; /* content may not go out: all messages are other ones, from nobody */
    uint64_t cursor, steps;
    uint64_t messages; /* all of them */
    uint64_t sample, examined;
    struct fragments collect;
    struct blocks blocks;
    struct term_size measure;
    struct sums before;    /* the message at hand, */
    struct shape *current; /* and of what shape it is; NULL: there is none */
    unsigned shapes_n;
    struct shape other;
    struct shape shapes[SHAPES_TABLE];
};

extern const struct walker mailbox_walker;

#endif
