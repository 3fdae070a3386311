/* edges.h: one object on a marked heap, and its words that lead to other objects.
 * Knows: the words of an object that a collection follows. Reads one word at a time, so that a walk
 * may stop anywhere.
 * Does not know: which objects form one node, or how the object was found. */
#ifndef SONDE_EDGES_H
#define SONDE_EDGES_H

#include "heap/marking.h"
#include "vm/object.h"

struct edges {
    uintptr_t object;
    uintptr_t at, to; /* the rest of its words that are terms */
    uint64_t words;   /* of the object */
    uint64_t header;  /* of a boxed object */
    enum kind kind;   /* KIND_NONE: a list cell */
};

/* A word that leads to an object in a block. */
struct link {
    uintptr_t at; /* address of the word */
    uint64_t word;
    uintptr_t to;
    struct mark mark; /* of that object */
};

/* The words of a boxed object that a collection follows. Up to 26 a collection copies a small slice
 * of a binary, so the slice does not retain the binary. */
static inline enum status edges_boxed(const struct vm *vm, const struct block *block,
                                      struct edges *p)
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

/* Reads the marked object at this address. OK, TORN. */
static inline enum status edges_read(const struct marking *h, const struct vm *vm, uintptr_t at,
                                     struct edges *p)
{
    const struct block *block = blocks_find(&h->blocks, at, 1);
    p->object = at;
    if (!block || !peek_word(vm->reader, at, &p->header))
        return ST_TORN;
    if (term_is_header(p->header))
        return edges_boxed(vm, block, p);
    p->kind = KIND_NONE;
    p->words = 2;
    p->at = at;
    p->to = at + 16;
    return block_holds(block, at, 2) ? ST_OK : ST_TORN;
}

/* The link of a word that is not immediate. OK; GONE: it leads to no object in a block; TORN. */
static inline enum status edges_link(const struct marking *h, uint64_t word, struct link *link)
{
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

/* The next word that leads to an object in a block. OK, GONE (no more), TIMESLICE, TORN.
 * Most words are immediate, so the loop over them keeps its place in registers. */
static inline enum status edges_next(const struct marking *h, const struct vm *vm, struct edges *p,
                                     struct budget *b, struct link *link)
{
    uintptr_t at = p->at;
    enum status st = ST_GONE;
    for (; at != p->to && st == ST_GONE; at += 8) {
        uint64_t word;
        if (!budget_step(b)) {
            st = ST_TIMESLICE;
            break;
        }
        if (!peek_word(vm->reader, at, &word))
            return ST_TORN;
        if (!term_is_immediate(word)) {
            link->at = at;
            st = edges_link(h, word, link);
        }
    }
    p->at = at;
    return st;
}

static inline bool edges_is_map_node(const struct edges *p)
{
    return p->kind == KIND_MAP && map_type(p->header) != MAP_FLAT;
}

static inline bool edges_is_flatmap(const struct edges *p)
{
    return p->kind == KIND_MAP && map_type(p->header) == MAP_FLAT;
}

/* The index of the word in its object, from 0. */
static inline uint64_t edges_index(const struct edges *p, uintptr_t at)
{
    return (at - p->object) / 8;
}

#endif
