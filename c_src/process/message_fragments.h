/* message_fragments.h: the fragments that one waiting message has for itself.
 * Knows: where a message keeps its data. Does not know: what the data are.
 *
 * A message's term lies in these, among the blocks of the process, or with the literals: so a million
 * messages need no list of a million blocks. */
#ifndef SONDE_MESSAGE_FRAGMENTS_H
#define SONDE_MESSAGE_FRAGMENTS_H

#include "process/fragments.h"

/* About a millisecond, which some thousand fragments need; a message with more is asked for. */
enum { MESSAGE_SORT_STEPS = BOUND(1 << 20, 1000) };

/* In place of those of another message. The message is one whose terms can be read. All of them at once,
 * but the caller's next message waits as many steps. OK, TORN, NOMEM; TOO_LARGE: too many. */
static inline enum status message_fragments_collect(struct blocks *own, const struct vm *vm,
                                                    uintptr_t message, struct budget *of_caller)
{
    enum { COLLECT_STEPS = BLOCKS_MAX + 2 };
    struct fragments c;
    struct budget b = {COLLECT_STEPS, false};
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
    taken += MESSAGE_SORT_STEPS - b.steps;
    of_caller->steps -= taken < of_caller->steps ? taken : of_caller->steps;
    return st == ST_TIMESLICE || st == ST_ASK ? ST_TOO_LARGE : st;
}

#endif
