/* message_fragments.h: the fragments that belong to one waiting message.
 * Knows: where a message keeps its data. Does not know: what the data is.
 *
 * A message's term lies in these fragments, in the blocks of the process, or among the literals.
 * They are collected one message at a time, so a million messages need no list of a million
 * blocks. */
#ifndef SONDE_MESSAGE_FRAGMENTS_H
#define SONDE_MESSAGE_FRAGMENTS_H

#include "process/fragments.h"

/* About a millisecond, enough for some thousand fragments; a message with more is too large. */
enum { MESSAGE_SORT_STEPS = BOUND(1 << 20, 1000) };

/* Replaces the fragments of another message in `own`. The message must be decoded. It takes all
 * fragments in one go and charges the steps to the caller's budget afterwards. OK, TORN, NOMEM;
 * TOO_LARGE: too many. */
static inline enum status message_fragments_collect(struct blocks *own, const struct vm *vm,
                                                    uintptr_t message, struct budget *of_caller)
{
    enum { COLLECT_STEPS = BLOCKS_MAX + 2 };
    struct fragments c;
    struct budget b = BUDGET(COLLECT_STEPS);
    uint64_t attached;
    blocks_forget(own);
    if (!peek_word(vm->reader, message + LF(vm->lay, msg_attached), &attached))
        return ST_TORN;
    fragments_start(&c, attached == 1 ? message + LF(vm->lay, msg_hfrag) : attached, 0);
    enum status st = fragments_collect(&c, vm, own, &b);
    uint32_t taken = COLLECT_STEPS - b.steps;
    b.steps = MESSAGE_SORT_STEPS;
    if (st == ST_OK && !blocks_sort(own, &b))
        st = ST_TIMESLICE;
    budget_charge(of_caller, taken + MESSAGE_SORT_STEPS - b.steps);
    return st == ST_TIMESLICE || st == ST_ASK ? ST_TOO_LARGE : st;
}

#endif
