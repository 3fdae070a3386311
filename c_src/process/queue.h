/* queue.h: the message queues of a process: their length and the size of their messages.
 * Knows: inner, middle and outer queue, and the size of a message.
 * Does not know: what is in a message, or whether the process changed meanwhile. */
#ifndef SONDE_QUEUE_H
#define SONDE_QUEUE_H

#include "util/budget.h"
#include "vm/stamp.h"

enum { MESSAGES_MAX = BOUND(1 << 30, 200) };

extern const enum layout_field queue_fields[];

/* The number of messages in all queues, from the counters, without a walk. */
enum status queue_length(const struct reading *rd, uint64_t *length);

/* true: neither a message nor another signal waits. */
bool queue_is_empty(const struct reading *rd);

/* Whether all signals are in the inner and the outer queue, which can be walked. */
bool queue_is_walkable(const struct reading *rd);

/* A walk over the messages; it can stop and resume. */
struct queue {
    int stage;
    uint64_t cursor;
    uint64_t frag; /* the next fragment of the current message */
    uint64_t steps;
    uint64_t struct_bytes;   /* of messages and receive markers */
    uint64_t attached_words; /* of the data in fragments */
};

void queue_start(struct queue *q, const struct reading *rd);

/* OK, TIMESLICE (call again), TORN, BUSY (a signal that may change anything waits), ASK. */
enum status queue_walk(struct queue *q, const struct reading *rd);

#endif
