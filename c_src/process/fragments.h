/* fragments.h: the heap fragments of a process, as blocks.
 * Knows: the lists of fragments and of received messages.
 * Does not know: what lies in a fragment. */
#ifndef SONDE_FRAGMENTS_H
#define SONDE_FRAGMENTS_H

#include "vm/blocks.h"
#include "vm/stamp.h"

/* false: a fragment serves as the heap while collection is delayed, as in the middle of a `receive' that is
 * interpreted; the heap of before is in no block (Process.abandoned_heap is not in the tables). */
static inline bool fragments_heap_is_whole(const struct reading *rd)
{
    return (stamp_word(rd, LF_hend) - stamp_word(rd, LF_heap)) / 8 == stamp_word(rd, LF_heap_sz);
}

/* Collects the process's fragments, then those of messages; it can stop and resume. */
struct fragments {
    uint64_t frag;     /* the next fragment, of the process or of the current message */
    uint64_t message;  /* the next message */
    uint64_t steps;    /* steps left; a longer list is a cycle or too long: ASK */
    uint64_t waiting;  /* messages seen in queues */
    uint64_t external; /* of these, messages from another node that are not decoded */
    bool queue;        /* the list is a queue, which may contain other signals */
};

/* msg_frag: received messages with data that the next collection copies onto the heap. */
void fragments_start(struct fragments *c, uint64_t mbuf, uint64_t msg_frag);

/* After that, once for each queue: the messages that wait in it. */
void fragments_collect_queue(struct fragments *c, uint64_t first);

/* OK, TIMESLICE (call again), TORN, ASK, NOMEM; BUSY: a signal that may change anything waits. */
enum status fragments_collect(struct fragments *c, const struct vm *vm, struct blocks *blocks,
                              struct budget *b);

#endif
