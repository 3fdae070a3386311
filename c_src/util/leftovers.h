/* leftovers.h: large blocks that were freed, and go back to the system some megabytes at a time.
 * Knows: that one large block takes milliseconds, because the system takes back each of its pages.
 * Does not know: which allocator they came from, or what was in them: the list lies in the blocks. */
#ifndef SONDE_LEFTOVERS_H
#define SONDE_LEFTOVERS_H

#include "util/budget.h"

#include <stddef.h>

struct leftover;

struct leftovers {
    struct leftover *first;
};

/* Smaller blocks are freed at once, and a large one in so many bytes at a time: a millisecond on a slow machine. A larger block is
 * freed alone: it may have a segment of its own, which the VM keeps for reuse and instead gives back another one, or it may be
 * the last one in its carrier. Either takes a millisecond or two. */
enum {
    LEFTOVER_MIN = BOUND(1 << 14, 64),
    LEFTOVER_ALONE = BOUND(1 << 16, 96),
    LEFTOVER_STEP = BOUND(1 << 22, 128)
};

/* From now on large blocks that this thread frees are collected; NULL: no longer. */
void leftovers_collect(struct leftovers *l);

/* Of a block that nothing uses any more: whether it is collected, so that the allocator must not free it. */
bool leftovers_take(void *block, size_t bytes);

/* Frees the next LEFTOVER_STEP bytes: a part of a block, a block, or several small ones. true: nothing is left. */
bool leftovers_step(struct leftovers *l, void (*release)(void *block));

/* Frees them all at once, for the thread of a destructor, which only hands blocks to the thread that allocated them. */
void leftovers_free(struct leftovers *l, void (*release)(void *block));

#endif
