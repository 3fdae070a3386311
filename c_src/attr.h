/* attr.h: what can be asked of one process, and how the answer is put together.
 * Knows: which fields and walks make up each attribute, as process_info computes it.
 * Does not know: how processes are found, or what happens to the answers. */
#ifndef SONDE_ATTR_H
#define SONDE_ATTR_H

#include "offheap.h"
#include "queue.h"
#include "ties.h"

/* clang-format off */
#define ATTR_LIST(X)                                                        \
    X(memory) X(total_heap_size) X(heap_size) X(stack_size)                 \
    X(message_queue_len) X(reductions) X(binary_memory) X(binary_count)     \
    X(link_count) X(monitor_count) X(monitored_by_count) X(dictionary_size)
/* clang-format on */

enum attr {
#define X(Name) ATTR_##Name,
    ATTR_LIST(X)
#undef X
        ATTR_COUNT
};

struct question {
    enum attr attr;
    bool one_word; /* a moment's truth, no stamp needed */
    bool waiting;  /* also tell whether anything waits in a queue (for binary_count) */
    struct plan plan;
};

/* One process being asked; may stop and go on. */
struct walk {
    struct view view;
    int stage;
    int64_t value;
    bool clean; /* no binary in any chain and nothing queued: a collection changes nothing */
    union {
        struct offheap offheap;
        struct ties ties;
        struct queue queue;
    } u;
};

void question_make(struct question *q, const struct layout *lay, enum attr attr, bool waiting);

/* After stamp_open of walk->view. */
void walk_start(struct walk *w, const struct vm *vm, const struct question *q);

/* Asks for the cache lines that the walk will want first. */
void walk_prefetch(const struct walk *w, const struct question *q);

/* OK, TIMESLICE (call again), BUSY, TORN, ASK, NOMEM. After it: walk_finish; and before the value is
 * believed: walk_close. */
enum status walk_go(struct walk *w, const struct vm *vm, const struct question *q,
                    struct budget *b);

/* After OK from walk_go: reads what it asked for last. OK or TORN. */
enum status walk_finish(struct walk *w, const struct vm *vm, const struct question *q);
enum status walk_close(const struct walk *w, const struct vm *vm, const struct question *q);

/* Frees what the walk holds; always. */
void walk_end(struct walk *w, const struct question *q);

#endif
