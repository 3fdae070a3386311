/* queue.h: the message queues of a process: their length, and what they hold.
 * Knows: inner, middle and outer queue, and how large messages are.
 * Does not know: what is in a message, or whether the process stayed still meanwhile. */
#ifndef SONDE_QUEUE_H
#define SONDE_QUEUE_H

#include "util/budget.h"
#include "vm/stamp.h"

enum { MESSAGES_MAX = BOUND(1 << 30, 200) };

extern const enum layout_field queue_fields[];

/* Messages in all queues, from the counters, without walking the messages. */
enum status queue_length(const struct reading *rd, uint64_t *length);

/* true: nothing waits, neither message nor other signal. */
bool queue_is_empty(const struct reading *rd);

/* Whether all that waits is in the inner and the outer queue, where it can be walked. */
bool queue_is_walkable(const struct reading *rd);

/* A walk over the messages; it can stop and go on. */
struct queue {
    int stage;
    uint64_t cursor;
    uint64_t frag; /* rest of the fragments attached to the message at the cursor */
    uint64_t steps;
    uint64_t struct_bytes;   /* of messages and receive markers */
    uint64_t attached_words; /* of the data in fragments of their own */
};

void queue_start(struct queue *q, const struct reading *rd);

/* OK, TIMESLICE (call again), TORN, BUSY (a signal waits that may change anything), ASK. */
enum status queue_walk(struct queue *q, const struct reading *rd);

#endif
