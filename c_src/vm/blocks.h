/* blocks.h: the blocks of memory that belong to one process.
 * Knows: young heap, old heap, fragments; how to find the one that an address lies in.
 * Does not know: what is in a block, or who follows which pointer. */
#ifndef SONDE_BLOCKS_H
#define SONDE_BLOCKS_H

#include "util/budget.h"
#include "util/status.h"

#include <stddef.h>

struct block {
    uintptr_t from, to;
};

enum { BLOCKS_INLINE = BOUND(16, 4), BLOCKS_MAX = BOUND(16384, 24) };

enum { BLOCK_YOUNG = 0, BLOCK_OLD = 1, BLOCK_FRAGMENTS = 2 };

/* Young heap, old heap (empty where there is none), then fragments by address. */
struct blocks {
    unsigned n, cap;
    unsigned max;       /* beyond it: ASK */
    unsigned gap, i, j; /* how far sorting has come */
    uint64_t fragment_words;
    struct block *list;
    struct block first[BLOCKS_INLINE];
};

void blocks_init(struct blocks *bs, uintptr_t heap, uintptr_t htop, uintptr_t old_heap,
                 uintptr_t old_htop);
void blocks_end(struct blocks *bs);

/* No fragments. */
static inline void blocks_forget(struct blocks *bs)
{
    bs->n = BLOCK_FRAGMENTS;
    bs->fragment_words = 0;
    bs->gap = 0;
}

/* One more fragment. OK, ASK, NOMEM, TORN. */
enum status blocks_add(struct blocks *bs, uintptr_t from, uint64_t words);

/* After the last one, before the first search. false: there are no steps left, call again. */
bool blocks_sort(struct blocks *bs, struct budget *b);

/* Words of all blocks. false: some block is read from pointers that moved meanwhile. */
bool blocks_words(const struct blocks *bs, uint64_t *words);

static inline bool block_holds(const struct block *b, uintptr_t p, unsigned words)
{
    return p >= b->from && p < b->to && b->to - p >= (uintptr_t)words * 8;
}

/* The block in which so many words lie; NULL: none. */
const struct block *blocks_find_fragment(const struct blocks *bs, uintptr_t p, unsigned words);

static inline const struct block *blocks_find(const struct blocks *bs, uintptr_t p, unsigned words)
{
    if (block_holds(&bs->list[BLOCK_YOUNG], p, words))
        return &bs->list[BLOCK_YOUNG];
    if (block_holds(&bs->list[BLOCK_OLD], p, words))
        return &bs->list[BLOCK_OLD];
    return bs->n > BLOCK_FRAGMENTS ? blocks_find_fragment(bs, p, words) : NULL;
}

#endif
