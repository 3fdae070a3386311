#include "graph/path_step.h"

void path_step_root(const struct roots *r, struct path_step *s)
{
    static const enum path_step_kind kinds[ROOT_COUNT] = {
        [ROOT_STACK] = PATH_STEP_STACK,           [ROOT_REGISTERS] = PATH_STEP_REGISTER,
        [ROOT_DICTIONARY] = PATH_STEP_DICTIONARY, [ROOT_MAILBOX] = PATH_STEP_MESSAGE,
        [ROOT_OTHER] = PATH_STEP_OTHER,
    };
    *s = (struct path_step){.kind = kinds[r->root], .index = r->in_live ? 0 : r->index};
}

static enum status pair(const struct vm *vm, uintptr_t key, bool value, struct path_step *s)
{
    s->kind = value ? PATH_STEP_KEY : PATH_STEP_IN_KEY;
    return peek_word(vm->reader, key, &s->key) ? ST_OK : ST_TORN;
}

static enum status of_cell(const struct vm *vm, const struct inside *in, const struct link *link,
                           struct path_step *s)
{
    uint64_t i = edges_index(&in->piece, link->at);
    if (in->inner)
        return pair(vm, in->piece.object, i == 1, s);
    s->kind = i == 0 ? PATH_STEP_INDEX : PATH_STEP_TAIL;
    s->index = in->cells;
    return ST_OK;
}

/* An inner tuple is a pair of the dictionary; a tuple inside a flatmap has its keys. */
static enum status of_tuple(const struct vm *vm, const struct inside *in, const struct link *link,
                            struct path_step *s)
{
    s->kind = PATH_STEP_ELEMENT;
    s->index = edges_index(&in->piece, link->at);
    s->arity = in->piece.words - 1;
    if (in->inner)
        return pair(vm, in->piece.object + 8, s->index == 2, s);
    if (in->n > 0 && edges_is_flatmap(&in->outer[in->n - 1]))
        s->kind = PATH_STEP_IN_KEY;
    return peek_word(vm->reader, in->piece.object + 8, &s->key) ? ST_OK : ST_TORN;
}

/* The tuple of keys is often a literal, in no block. */
static enum status of_flatmap(const struct graph *g, const struct vm *vm, const struct inside *in,
                              const struct link *link, struct path_step *s)
{
    uint64_t keys;
    uint64_t i = edges_index(&in->piece, link->at);
    s->kind = PATH_STEP_KEYS;
    if (i == 2)
        return ST_OK;
    if (!peek_word(vm->reader, in->piece.object + 16, &keys) ||
        !marking_may_hold(g->heap, vm, term_pointer(keys), i - 1))
        return ST_TORN;
    return pair(vm, term_pointer(keys) + (i - 2) * 8, true, s);
}

static enum status named_step(const struct graph *g, const struct vm *vm, const struct inside *in,
                              const struct link *link, struct path_step *s)
{
    uint64_t i = edges_index(&in->piece, link->at);
    *s = (struct path_step){.kind = PATH_STEP_NONE, .index = i};
    if (bit_test(g->inner, link->mark) && (in->inner || edges_is_map_node(&in->piece)))
        return ST_OK;
    switch (in->piece.kind) {
    case KIND_NONE:
        return of_cell(vm, in, link, s);
    case KIND_TUPLE:
        return of_tuple(vm, in, link, s);
    case KIND_RECORD: /* the first word after the header is the definition */
        s->kind = PATH_STEP_ELEMENT;
        s->index = i - 1;
        return ST_OK;
    case KIND_MAP:
        return edges_is_flatmap(&in->piece) ? of_flatmap(g, vm, in, link, s) : ST_OK;
    case KIND_FUN: /* up to 26 its creator comes first, as 0 */
        s->kind = PATH_STEP_ENV;
        s->index = i + 1 - vm->lay->fun.raw - vm->lay->fun.more;
        return ST_OK;
    default:
        s->kind = PATH_STEP_BINARY;
        return ST_OK;
    }
}

enum status path_step_inside(const struct graph *g, const struct vm *vm, const struct inside *in,
                             const struct link *link, struct path_step *s)
{
    enum status st = named_step(g, vm, in, link, s);
    if (g->heap->nameless)
        s->key = 0;
    return st;
}
