/* awaited.h: the process that another process waits for, in a call.
 * Knows: which reference a call keeps on the stack, and which monitor has that reference.
 * Does not know: which places in the code are calls, or whether the process changed meanwhile.
 *
 * A caller monitors its server, and the frame in which it waits for the answer keeps the monitor's
 * reference, because the answer has to match it. A process that starts another with proc_lib keeps
 * the pid. The frame ends at the first return address. */
#ifndef SONDE_AWAITED_H
#define SONDE_AWAITED_H

#include "process/links_monitors.h"
#include "vm/blocks.h"

extern const enum layout_field awaited_fields[]; /* besides links_monitors_fields */

/* Answers that are no pid. The low bits of a pid are 0011. */
enum {
    AWAITED_NOBODY = 0, /* what it waited for has ended */
    AWAITED_REMOTE = 1, /* a process of another node */
    AWAITED_UNCLEAR = 2 /* one of several, and the frame does not say which */
};

enum { AWAITED_FRAME = 64, AWAITED_HELD = 8 };

/* Words 1 and 2 of a reference: its numbers, of which the last has half a word. */
struct numbers {
    uint64_t a;
    uint32_t b;
};

struct awaited {
    struct links_monitors ties;
    bool begun;
    unsigned pids_n, refs_n;
    uint64_t pids[AWAITED_HELD]; /* in the frame */
    struct numbers refs[AWAITED_HELD];
    uint64_t call;                           /* the first word of the reference */
    uint64_t by_ref, by_pid, monitor;        /* the last of each */
    unsigned by_ref_n, by_pid_n, monitors_n; /* 0, 1: all the same, more */
};

void awaited_start(struct awaited *a);

/* OK, TIMESLICE (call again), TORN. */
enum status awaited_walk(struct awaited *a, const struct reading *rd);

/* After OK: a pid, or one of the AWAITED_ answers above. */
uint64_t awaited_answer(const struct awaited *a);

/* After OK: a number that no other call has at that time; 0: the frame does not show it. */
uint64_t awaited_call(const struct awaited *a);

#endif
