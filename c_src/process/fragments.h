/* fragments.h: the heap fragments of a process, as blocks.
 * Knows: the lists of fragments and of received messages.
 * Does not know: what lies in a fragment. */
#ifndef SONDE_FRAGMENTS_H
#define SONDE_FRAGMENTS_H

#include "vm/blocks.h"
#include "vm/stamp.h"

/* While collections are delayed, as in the middle of a `receive' that is interpreted, a fragment serves as the heap
 * when the heap is full. Process.heap_sz is still the size of the heap of before. */
static inline bool fragments_have_heap(const struct reading *rd)
{
    return stamp_word(rd, LF_abandoned) != 0;
}

/* Collects the abandoned heap, the process's fragments, then those of messages; it can stop and resume. */
struct fragments {
    uint64_t abandoned; /* 0: there is none, or its block was added */
    uint64_t size;      /* its words, */
    uint64_t used;      /* and those in use; 0 if there is none */
    uint64_t frag;      /* the next fragment, of the process or of the current message */
    uint64_t message;   /* the next message */
    uint64_t steps;     /* steps left; a longer list is a cycle or too long: ASK */
    uint64_t waiting;   /* messages seen in queues */
    uint64_t external;  /* of these, messages from another node that are not decoded */
    bool queue;         /* the list is a queue, which may contain other signals */
};

/* msg_frag: received messages with data that the next collection copies onto the heap. */
void fragments_start(struct fragments *c, uint64_t mbuf, uint64_t msg_frag);

/* Those of a process. The plan has LF_abandoned, LF_heap_sz, LF_mbuf and LF_msg_frag. */
void fragments_of(struct fragments *c, const struct reading *rd);

static inline bool fragments_are_none(const struct fragments *c)
{
    return (c->abandoned | c->frag | c->message) == 0;
}

/* After that, once for each queue: the messages that wait in it. */
void fragments_collect_queue(struct fragments *c, uint64_t first);

/* OK, TIMESLICE (call again), TORN, ASK, NOMEM; BUSY: a signal that may change anything waits. */
enum status fragments_collect(struct fragments *c, const struct vm *vm, struct blocks *blocks,
                              struct budget *b);

#endif
