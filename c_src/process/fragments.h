/* fragments.h: the heap fragments of a process, as blocks.
 * Knows: the chains that fragments and received messages hang on.
 * Does not know: what lies in them. */
#ifndef SONDE_FRAGMENTS_H
#define SONDE_FRAGMENTS_H

#include "vm/blocks.h"
#include "vm/stamp.h"

/* Fragments first, then messages with theirs; it can stop and go on. */
struct fragments {
    uint64_t frag;     /* the next fragment, of the process or of the message at hand */
    uint64_t message;  /* the next message */
    uint64_t steps;    /* left, before a chain must be a cycle or too long: ASK */
    uint64_t waiting;  /* messages seen in the chains from a queue */
    uint64_t external; /* those of them that came from another node and are not decoded */
    bool queue;        /* the chain is a queue: there may be other signals in it */
};

/* Received messages keep their data until the next collection: behind themselves or apart. */
void fragments_start(struct fragments *c, uint64_t mbuf, uint64_t msg_frag);

/* Then, as often as there are queues: the messages that wait in one. */
void fragments_collect_queue(struct fragments *c, uint64_t first);

/* OK, TIMESLICE (call again), TORN, ASK, NOMEM; BUSY: a signal waits that may change anything. */
enum status fragments_collect(struct fragments *c, const struct vm *vm, struct blocks *blocks,
                              struct budget *b);

#endif
