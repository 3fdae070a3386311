/* stamp.h: the optimistic read protocol: was the process settled, and did it stay the same?
 * Knows: which words of a process change whenever it runs, and in which order to read them.
 * Does not know: what is read between opening and closing.
 *
 * Other threads write to a process that does not run: a sender puts a message on its heap (it holds
 * the main lock: htop moves first, the words come later), a collector collects it, a signal handler
 * works for it while it is in a dirty call. sonde cannot stop any of them, so:
 *
 *   open:  state, lock, the fields, then state and lock AGAIN. Both times no bit may say that the
 *          heap may be changing, and the main lock must be free; else busy.
 *   close: state and lock FIRST, then the fields: equal to those of the opening, else torn.
 *
 * Where memory is weakly ordered, all other threads pass a barrier before state and lock are read again,
 * and another one before the closing: a sender takes a lock, and what it stores then may be seen before
 * the lock is. test_memory_order.c tries all orders, with each of these steps and without.
 *
 * Senders link messages to the outer queue under the queue's own lock, so a walk over that queue requires
 * its lock to be free as well.
 *
 * The order matters. The VM saves the fields, adds the reductions, clears RUNNING, and unlocks:
 * fields read before state and lock can miss a whole run. */
#ifndef SONDE_STAMP_H
#define SONDE_STAMP_H

#include "util/status.h"
#include "vm/reading.h"

#include <assert.h>

/* Bits of Process.state; the same from OTP 25 to 29. */
enum {
    STATE_FREE = 0x400,
    STATE_EXITING = 0x800,
    STATE_ACTIVE = 0x2000, /* it has work to do, so it will run */
    STATE_RUNNING = 0x8000,
    STATE_SUSPENDED = 0x10000,
    STATE_GC = 0x20000,
    STATE_ACTIVE_SYS = 0x100000, /* a system task waits for it */
    STATE_RUNNING_SYS = 0x200000,
    STATE_DIRTY_CPU = 0x4000000,
    STATE_DIRTY_IO = 0x8000000,
    STATE_DIRTY_ACTIVE_SYS = 0x10000000,
    STATE_DIRTY_RUNNING = 0x20000000,
    STATE_DIRTY_RUNNING_SYS = 0x40000000,
    STATE_GONE = STATE_FREE | STATE_EXITING,
    /* heap, queues, links or dictionary may be changing */
    STATE_UNSETTLED = STATE_RUNNING | STATE_GC | STATE_RUNNING_SYS | STATE_DIRTY_CPU |
                      STATE_DIRTY_IO | STATE_DIRTY_ACTIVE_SYS | STATE_DIRTY_RUNNING |
                      STATE_DIRTY_RUNNING_SYS
};

enum { LOCK_MAIN = 1, LOCK_MSGQ = 2 };

/* F_SENSITIVE, a bit of the process's trace_flags; the same from OTP 25 to 29, as the check
 * `trace_flags' proves. The other bits belong to tracing. */
enum { TRACE_SENSITIVE = 8 };

/* LAYOUT_FIELD_COUNT ends `fields`. The plan always includes the id; unless no bit and no lock means busy, so that
 * nothing is compared at the closing, also reductions and program counter.
 * With the outer queue it also requires LOCK_MSGQ: a sender links a message to that queue under
 * that lock. */
void plan_make(struct plan *plan, const struct layout *lay, uint32_t unsettled, uint32_t locks,
               const enum layout_field *fields);

/* OK, BUSY, TORN, or GONE (no process in that slot, or one that process_info reports as dead). */
enum status stamp_open(const struct vm *vm, const struct plan *plan, size_t slot, uintptr_t proc,
                       struct view *view);

/* The same in two steps, for many processes with one barrier (peek_barrier) between them. Where PEEK_REORDERED is 0
 * the second one is not needed. */
enum status stamp_begin(const struct vm *vm, const struct plan *plan, size_t slot, uintptr_t proc,
                        struct view *view);
enum status stamp_confirm(const struct reading *rd);

/* OK: everything read since the opening belongs to one state. Call peek_barrier first. */
enum status stamp_close(const struct reading *rd);

/* A stamp of this process will be opened, or closed, next after the ones that are already expected. */
static inline void stamp_expect_open(const struct vm *vm, const struct plan *plan, uintptr_t proc)
{
    peek_expect(vm->reader, proc, plan->off, plan->n + 2);
}

static inline void stamp_expect_close(const struct vm *vm, const struct plan *plan, uintptr_t proc)
{
    peek_expect(vm->reader, proc, plan->off, plan->n);
}

/* Where the tests can hold a reader while its process changes, or a prover. */
enum stamp_place { STAMP_OPENED, STAMP_WALKED, STAMP_LEARNED };

#ifdef SONDE_TEST
/* Readers that are broken on purpose: they compare nothing, or only the reductions. */
enum stamp_weakness { STAMP_SOUND, STAMP_NOT_CLOSED, STAMP_REDUCTIONS };
extern _Atomic int stamp_weakness;

/* Holds the next reader of that process at that place until stamp_go_on, or for STAMP_HOLD_MS. */
enum { STAMP_HOLD_MS = 20000 };
void stamp_hold_next(uint64_t pid, enum stamp_place place);
void stamp_hold(const struct view *view, enum stamp_place place);
bool stamp_is_held(void);
void stamp_go_on(void);
#else
static inline void stamp_hold(const struct view *view, enum stamp_place place)
{
    (void)view, (void)place;
}
#endif

/* The value of a field at the opening. */
static inline uint64_t stamp_field(const struct reading *rd, enum layout_field field)
{
    unsigned i = rd->plan->at[field];
    assert(field != LF_inq_first);
    return rd->view->w[i] >> rd->plan->shift[i] & rd->plan->mask[i];
}

/* The same for a field that is a whole word: faster, for the fields that every process needs. */
static inline uint64_t stamp_word(const struct reading *rd, enum layout_field field)
{
    assert(rd->plan->mask[rd->plan->at[field]] == ~(uint64_t)0);
    assert(field != LF_inq_first || (rd->plan->locks & LOCK_MSGQ));
    return rd->view->w[rd->plan->at[field]];
}

/* Whether process_flag(sensitive, true) held at the opening; LF_trace_flags must be in the plan. */
static inline bool stamp_is_sensitive(const struct reading *rd)
{
    return (stamp_field(rd, LF_trace_flags) & TRACE_SENSITIVE) != 0;
}

/* Width of a field in bytes. */
unsigned layout_width(const struct layout *lay, enum layout_field field);

/* Whether a field lies inside the Process: memory behind it may look right by chance. */
bool layout_in_process(const struct layout *lay, enum layout_field field);

/* Extracts a field's value from its aligned word. */
uint64_t layout_narrow(uint64_t word, unsigned offset, unsigned width);

#endif
