#include "process/fragments.h"

#include "vm/term.h"

void fragments_start(struct fragments *c, uint64_t mbuf, uint64_t msg_frag)
{
    *c = (struct fragments){.frag = mbuf, .message = msg_frag, .steps = BLOCKS_MAX + 1};
}

void fragments_of(struct fragments *c, const struct reading *rd)
{
    fragments_start(c, stamp_word(rd, LF_mbuf), stamp_word(rd, LF_msg_frag));
    c->abandoned = stamp_word(rd, LF_abandoned);
    c->size = c->abandoned != 0 ? stamp_word(rd, LF_heap_sz) : 0;
}

void fragments_collect_queue(struct fragments *c, uint64_t first)
{
    c->message = first;
    c->queue = true;
}

/* The VM stores the number of words in use in the last word, where the stack was (F_ABANDONED_HEAP_USE). */
static enum status collect_abandoned(struct fragments *c, const struct vm *vm,
                                     struct blocks *blocks)
{
    uint64_t at = c->abandoned;
    c->abandoned = 0;
    if ((at & 7) || c->size == 0 || c->size > BLOCK_WORDS_MAX ||
        !peek_word(vm->reader, at + (c->size - 1) * 8, &c->used) || c->used >= c->size)
        return ST_TORN;
    return blocks_add(blocks, at, c->used);
}

static enum status collect_fragment(struct fragments *c, const struct vm *vm, struct blocks *blocks)
{
    uint64_t used;
    uint64_t at = c->frag;
    if ((at & 7) || !peek_word(vm->reader, at + LF(vm->lay, frag_used), &used) ||
        !peek_word(vm->reader, at + LF(vm->lay, frag_next), &c->frag))
        return ST_TORN;
    return blocks_add(blocks, at + LF(vm->lay, frag_mem), used);
}

/* In a queue, signals other than messages, and messages not yet decoded, have no terms. The inner
 * queue has receive markers among the messages; any other signal may change anything. */
static enum status in_queue(struct fragments *c, const struct vm *vm, uint64_t at, bool *terms)
{
    uint64_t tag;
    if (!peek_word(vm->reader, at + LF(vm->lay, msg_tag), &tag))
        return ST_TORN;
    *terms = signal_is_message(tag) && tag != SIGNAL_EXTERNAL_MSG;
    c->waiting += signal_is_message(tag);
    c->external += tag == SIGNAL_EXTERNAL_MSG;
    return signal_is_message(tag) || signal_op(tag) == SIGNAL_RECV_MARK ? ST_OK : ST_BUSY;
}

/* attached: 0: the data is on the heap; 1: behind the message itself; else in a fragment. */
static enum status collect_message(struct fragments *c, const struct vm *vm)
{
    uint64_t attached;
    uint64_t at = c->message;
    bool terms = true;
    if (at & 7)
        return ST_TORN;
    enum status st = c->queue ? in_queue(c, vm, at, &terms) : ST_OK;
    if (st != ST_OK)
        return st;
    if (!peek_word(vm->reader, at + LF(vm->lay, msg_attached), &attached) ||
        !peek_word(vm->reader, at + LF(vm->lay, msg_next), &c->message))
        return ST_TORN;
    if (terms)
        c->frag = attached == 1 ? at + LF(vm->lay, msg_hfrag) : attached;
    return ST_OK;
}

enum status fragments_collect(struct fragments *c, const struct vm *vm, struct blocks *blocks,
                              struct budget *b)
{
    while (!fragments_are_none(c)) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (c->steps-- == 0)
            return ST_ASK;
        enum status st = c->abandoned != 0 ? collect_abandoned(c, vm, blocks)
                         : c->frag != 0    ? collect_fragment(c, vm, blocks)
                                           : collect_message(c, vm);
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
}
