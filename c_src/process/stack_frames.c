#include "process/stack_frames.h"

#include "vm/blocks.h"
#include "vm/term.h"

const enum layout_field stack_frames_fields[] = {LF_stop, LF_hend, LAYOUT_FIELD_COUNT};

void stack_frames_start(struct stack_frames *f, const struct reading *rd, uint64_t max)
{
    f->at = stamp_word(rd, LF_stop);
    f->max = max == 0 ? 1 : max < STACK_FRAMES_MAX ? (unsigned)max : STACK_FRAMES_MAX;
    f->n = 1;
    f->frame[0] = stamp_word(rd, LF_pc);
}

/* Addresses of code have the two low bits of a header, and no header is on a stack. So have the addresses of
 * frames, which are on the stack where the VM keeps frame pointers for profilers. */
static bool is_return_address(const struct block *stack, uint64_t word)
{
    return term_is_header(word) && (word < stack->from || word > stack->to);
}

/* The VM's traces show an address once if it is on the stack several times in a row, in a recursion. */
enum status stack_frames_walk(struct stack_frames *f, const struct reading *rd)
{
    const struct block stack = {stamp_word(rd, LF_stop), stamp_word(rd, LF_hend)};
    if (stack.from > stack.to)
        return ST_TORN;
    for (; f->n < f->max && block_holds(&stack, f->at, 1); f->at += 8) {
        uint64_t word;
        if (!budget_step(rd->budget))
            return ST_TIMESLICE;
        if (!peek_word(rd->vm->reader, f->at, &word))
            return ST_TORN;
        if (is_return_address(&stack, word) && word != f->frame[f->n - 1])
            f->frame[f->n++] = word;
    }
    return ST_OK;
}
