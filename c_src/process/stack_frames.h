/* stack_frames.h: where a process is: its program counter, and the return addresses on its stack.
 * Knows: which words of a stack are return addresses, and which of these the VM's own traces show.
 * Does not know: in which functions they lie. */
#ifndef SONDE_STACK_FRAMES_H
#define SONDE_STACK_FRAMES_H

#include "vm/stamp.h"

extern const enum layout_field stack_frames_fields[];

/* As many as the VM's own traces have at most. */
enum { STACK_FRAMES_MAX = BOUND(64, 5) };

struct stack_frames {
    uintptr_t at; /* the next word of the stack */
    unsigned n, max;
    uint64_t frame
        [STACK_FRAMES_MAX]; /* the program counter, then return addresses, the last call first */
};

void stack_frames_start(struct stack_frames *f, const struct reading *rd, uint64_t max);

/* OK, TIMESLICE (call again), TORN. */
enum status stack_frames_walk(struct stack_frames *f, const struct reading *rd);

#endif
