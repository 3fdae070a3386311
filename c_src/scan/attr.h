/* attr.h: what can be asked of one process, and how the answer is put together.
 * Knows: which fields and walks make up each attribute, as process_info computes it.
 * Does not know: how processes are found, or what happens to the answers. */
#ifndef SONDE_ATTR_H
#define SONDE_ATTR_H

#include "binary/held_binaries.h"
#include "process/awaited.h"
#include "process/origin.h"
#include "process/queue.h"
#include "process/links_monitors.h"
#include "process/stack_frames.h"
#include "binary/waste.h"

/* clang-format off */
#define ATTR_LIST(X)                                                        \
    X(memory) X(total_heap_size) X(heap_size) X(stack_size)                 \
    X(message_queue_len) X(reductions) X(binary_memory) X(binary_count)     \
    X(link_count) X(monitor_count) X(monitored_by_count) X(dictionary_size) \
    X(catchlevel) \
    X(garbage_bytes) X(bin_garbage) X(bin_garbage_bytes) X(bin_waste) \
    X(flat_size) X(binary_unique) X(binary_exclusive) X(minor_gcs) X(waits_for) X(waits_call) \
    X(oldest_message) X(stack) X(origin)
/* clang-format on */

/* Heaps with more words are marked, and more words counted, only where the caller asks for it. */
enum { ATTR_WORDS_MAX = BOUND(1000000000, 4096) };

/* Places in the code where processes wait for another one: a single address, or all of a function. */
enum { ATTR_PLACES = 64 };
struct places {
    unsigned n;
    bool some_unread; /* code that is not readable may have more of them */
    struct block at[ATTR_PLACES];
};

enum attr {
#define X(Name) ATTR_##Name,
    ATTR_LIST(X)
#undef X
        ATTR_COUNT
};

struct attribute; /* how it is read */

struct question {
    enum attr attr;
    const struct attribute *row;
    bool one_word;  /* its plan is only for words that are true for one moment: no stamp needed */
    bool at_once;   /* a word of the stamp: walk_go succeeds, and needs no budget */
    bool waiting;   /* also report whether a queue has messages (for binary_count) */
    bool each;      /* what is held stays until walk_end, each Binary (for binary_unique) */
    bool is_pid;    /* the value is the word of a pid, or less than 3 */
    bool sparse;    /* no row where it is 0 (EACH) */
    unsigned from;  /* of those that were joined: whose walk answers it */
    unsigned waste; /* of a walk of waste: what it finds */
    const struct places *
        places; /* of waits_for, waits_call: 0 for a process elsewhere; ASK: it may be at an unread one */
    uint64_t max_words; /* of a heap that is marked; beyond: TOO_LARGE. Of stack: frames */
    struct plan plan;
};

/* One process being asked; may stop and go on. */
struct walk {
    const struct question *q;
    const struct walk *stamp; /* whose plan and view it reads: its own, or those of another walk */
    struct view view;         /* of its own stamp */
    int stage;
    int64_t value;
    int64_t waste[WASTE_TOGETHER];
    bool clean; /* no binary in any chain and nothing queued: a collection changes nothing */
    void *room; /* for the state of a walk that needs much; kept for the next process */
    union {
        struct offheap offheap;
        struct links_monitors ties;
        struct queue queue;
        struct origin origin; /* stays after walk_end */
        /* in the room; NULL: nothing needs to be walked, or it has not begun */
        struct waste *waste;
        struct root_size *flat;
        struct held_binaries *hold;
        struct awaited *awaited;
        struct stack_frames *stack; /* stays after walk_end */
    } u;
};

void question_make(struct question *q, const struct layout *lay, enum attr attr, bool waiting);

/* The first of n questions gets a plan that serves all of them: a process is opened and closed once for all, and
 * is busy if it is for one of them; and all that need the same mark of a heap have one walk. */
void questions_join(struct question *q, unsigned n, const struct layout *lay);

/* After stamp_open of the view of `stamp': the walk itself, or one whose question was joined with `q'. `q' and
 * `stamp' stay as long as the walk. Before the first one room is NULL; later ones have the same attribute. */
void walk_start(struct walk *w, const struct vm *vm, const struct question *q,
                const struct walk *stamp);

/* Whether it is read under a lock, so that what waits for the process can be read with it. */
bool attr_has_stamp(enum attr attr);

/* The same under a stamp of the caller, whose plan has the fields of the attribute: these are added to
 * `fields', which has n of them, and room for all; each once. Returns how many there are then. Then
 * walk_go_under in place of walk_go, and the caller closes its stamp. */
unsigned attr_fields(enum attr attr, enum layout_field *fields, unsigned n);
void walk_start_under(struct walk *w, const struct reading *rd, const struct question *q);
enum status walk_go_under(struct walk *w, const struct reading *rd);

/* Asks for the cache lines that the walk will want first. */
void walk_prefetch(const struct walk *w, enum peek_reader r);

/* OK, TIMESLICE (call again), BUSY, TORN, ASK; TOO_LARGE and NOMEM only if the stamp is unchanged. After OK:
 * walk_finish; and before the value is believed: walk_close. */
enum status walk_go(struct walk *w, const struct vm *vm, struct budget *b);

/* After OK from walk_go: reads what it asked for last. OK or TORN. */
enum status walk_finish(struct walk *w, const struct vm *vm);

/* What it found for a question that it answers. */
int64_t walk_value(const struct walk *w, const struct question *q);

/* Of a walk with a stamp of its own. */
enum status walk_close(const struct walk *w, const struct vm *vm);

/* Frees what the walk holds, but its room; always. */
void walk_end(struct walk *w);

/* After the last walk_end. */
void walk_free(struct walk *w);

#endif
