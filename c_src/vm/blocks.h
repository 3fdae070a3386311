/* blocks.h: the blocks of memory that belong to one process.
 * Knows: young heap, old heap, fragments; how to find the block that holds an address.
 * Does not know: what is in a block. */
#ifndef SONDE_BLOCKS_H
#define SONDE_BLOCKS_H

#include "util/budget.h"
#include "util/status.h"

#include <stddef.h>

struct block {
    uintptr_t from, to;
};

enum { BLOCKS_INLINE = BOUND(16, 4), BLOCKS_MAX = BOUND(16384, 24) };

#define BLOCK_WORDS_MAX ((uint64_t)1 << 44)

enum { BLOCK_YOUNG = 0, BLOCK_OLD = 1, BLOCK_FRAGMENTS = 2 };

/* Young heap, old heap (an empty block if there is none), then fragments by address. */
struct blocks {
    unsigned n, cap;
    unsigned max;       /* more blocks: ASK */
    unsigned gap, i, j; /* progress of the sort */
    uint64_t fragment_words;
    struct block *list;
    struct block first[BLOCKS_INLINE];
};

void blocks_init(struct blocks *bs, uintptr_t heap, uintptr_t htop, uintptr_t old_heap,
                 uintptr_t old_htop);
void blocks_end(struct blocks *bs);

/* Removes all fragments. */
static inline void blocks_forget(struct blocks *bs)
{
    bs->n = BLOCK_FRAGMENTS;
    bs->fragment_words = 0;
    bs->gap = 0;
}

/* Adds a fragment. OK, ASK, NOMEM, TORN. */
enum status blocks_add(struct blocks *bs, uintptr_t from, uint64_t words);

/* After the last blocks_add, before the first search. false: no steps left, call again. */
bool blocks_sort(struct blocks *bs, struct budget *b);

/* Words of all blocks. false: a block's pointers moved while they were read. */
bool blocks_words(const struct blocks *bs, uint64_t *words);

static inline bool block_holds(const struct block *b, uintptr_t p, unsigned words)
{
    return p >= b->from && p < b->to && b->to - p >= (uintptr_t)words * 8;
}

/* The fragment that holds `words` words at p; NULL: none. */
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
