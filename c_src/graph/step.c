/* step.c: one step of the way from a root to a thing, as a person would call it.
 * Knows: that the value of a pair in a map is found by its key, and an element of a list by its index.
 * Does not know: how steps are written, or which way is taken. */
#include "graph/step.h"

void step_root(const struct roots *r, struct step *s)
{
    static const enum step_kind kinds[ROOT_COUNT] = {
        [ROOT_STACK] = STEP_STACK,           [ROOT_REGISTERS] = STEP_REGISTER,
        [ROOT_DICTIONARY] = STEP_DICTIONARY, [ROOT_MAILBOX] = STEP_MESSAGE,
        [ROOT_OTHER] = STEP_OTHER,
    };
    *s = (struct step){.kind = kinds[r->root], .index = r->in_live ? 0 : r->index};
}

static enum status pair(const struct vm *vm, uintptr_t key, bool value, struct step *s)
{
    s->kind = value ? STEP_KEY : STEP_IN_KEY;
    return peek_word(vm->reader, key, &s->key) ? ST_OK : ST_TORN;
}

static enum status of_cell(const struct vm *vm, const struct inside *in, const struct link *link,
                           struct step *s)
{
    uint64_t i = piece_index(&in->piece, link->at);
    if (in->inner)
        return pair(vm, in->piece.thing, i == 1, s);
    s->kind = i == 0 ? STEP_INDEX : STEP_TAIL;
    s->index = in->cells;
    return ST_OK;
}

/* An inner tuple is a pair of the dictionary; the keys of a small map stand in one too. */
static enum status of_tuple(const struct vm *vm, const struct inside *in, const struct link *link,
                            struct step *s)
{
    s->kind = STEP_ELEMENT;
    s->index = piece_index(&in->piece, link->at);
    s->arity = in->piece.words - 1;
    if (in->inner)
        return pair(vm, in->piece.thing + 8, s->index == 2, s);
    if (in->n > 0 && piece_is_flatmap(&in->outer[in->n - 1]))
        s->kind = STEP_IN_KEY;
    return peek_word(vm->reader, in->piece.thing + 8, &s->key) ? ST_OK : ST_TORN;
}

/* Keys are often literals, which lie in no block. */
static enum status of_flatmap(const struct graph *g, const struct vm *vm, const struct inside *in,
                              const struct link *link, struct step *s)
{
    uint64_t keys;
    uint64_t i = piece_index(&in->piece, link->at);
    s->kind = STEP_KEYS;
    if (i == 2)
        return ST_OK;
    if (!peek_word(vm->reader, in->piece.thing + 16, &keys) ||
        !heap_may_hold(g->heap, vm, term_pointer(keys), i - 1))
        return ST_TORN;
    return pair(vm, term_pointer(keys) + (i - 2) * 8, true, s);
}

static enum status named_step(const struct graph *g, const struct vm *vm, const struct inside *in,
                              const struct link *link, struct step *s)
{
    uint64_t i = piece_index(&in->piece, link->at);
    *s = (struct step){.kind = STEP_NONE, .index = i};
    if (bit_test(g->inner, link->mark) && (in->inner || piece_is_map_node(&in->piece)))
        return ST_OK;
    switch (in->piece.kind) {
    case KIND_NONE:
        return of_cell(vm, in, link, s);
    case KIND_TUPLE:
        return of_tuple(vm, in, link, s);
    case KIND_RECORD: /* its first word is the definition */
        s->kind = STEP_ELEMENT;
        s->index = i - 1;
        return ST_OK;
    case KIND_MAP:
        return piece_is_flatmap(&in->piece) ? of_flatmap(g, vm, in, link, s) : ST_OK;
    case KIND_FUN: /* to 26 its creator comes first: 0 */
        s->kind = STEP_ENV;
        s->index = i + 1 - vm->lay->fun.raw - vm->lay->fun.more;
        return ST_OK;
    default:
        s->kind = STEP_BINARY;
        return ST_OK;
    }
}

enum status step_inside(const struct graph *g, const struct vm *vm, const struct inside *in,
                        const struct link *link, struct step *s)
{
    enum status st = named_step(g, vm, in, link, s);
    if (g->heap->nameless)
        s->key = 0;
    return st;
}
