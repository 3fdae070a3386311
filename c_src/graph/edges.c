#include "graph/edges.h"

/* The words of a boxed object that a collection follows. Up to 26 a collection copies a small slice
 * of a binary, so the slice does not retain the binary. */
static enum status boxed(const struct vm *vm, const struct block *block, struct edges *p)
{
    struct object t;
    bool copied = false;
    if (!object_read(vm->reader, vm->lay, p->object, p->header, &t) ||
        !block_holds(block, p->object, (unsigned)t.words) ||
        (t.kind == KIND_SUB_BINARY && !object_is_copied(vm->reader, vm->lay, p->object, &copied)))
        return ST_TORN;
    p->kind = t.kind;
    p->words = t.words;
    p->at = p->object + t.first * 8;
    p->to = copied ? p->at : p->object + t.last * 8;
    return ST_OK;
}

enum status edges_read(const struct marking *h, const struct vm *vm, uintptr_t at, struct edges *p)
{
    const struct block *block = blocks_find(&h->blocks, at, 1);
    p->object = at;
    if (!block || !peek_word(vm->reader, at, &p->header))
        return ST_TORN;
    if (term_is_header(p->header))
        return boxed(vm, block, p);
    p->kind = KIND_NONE;
    p->words = 2;
    p->at = at;
    p->to = at + 16;
    return block_holds(block, at, 2) ? ST_OK : ST_TORN;
}

enum status edges_link(const struct marking *h, uint64_t word, struct link *link)
{
    if (term_is_immediate(word))
        return ST_GONE;
    if (term_is_header(word))
        return ST_TORN;
    link->word = word;
    link->to = term_pointer(word);
    const struct block *block = blocks_find(&h->blocks, link->to, 1);
    if (!block)
        return ST_GONE;
    link->mark = marks_of(&h->marks, block, link->to);
    return marks_test(&h->marks, link->mark) ? ST_OK : ST_TORN;
}

enum status edges_next(const struct marking *h, const struct vm *vm, struct edges *p,
                       struct budget *b, struct link *link)
{
    while (p->at != p->to) {
        uint64_t word;
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (!peek_word(vm->reader, p->at, &word))
            return ST_TORN;
        link->at = p->at;
        p->at += 8;
        enum status st = edges_link(h, word, link);
        if (st != ST_GONE)
            return st;
    }
    return ST_GONE;
}
