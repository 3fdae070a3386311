#include "vm/blocks.h"

#include "util/alloc.h"

#include <string.h>

static const uint64_t fragment_words_max = (uint64_t)1 << 60;

void blocks_init(struct blocks *bs, uintptr_t heap, uintptr_t htop, uintptr_t old_heap,
                 uintptr_t old_htop)
{
    bs->list = bs->first;
    bs->cap = BLOCKS_INLINE;
    bs->n = BLOCK_FRAGMENTS;
    bs->max = BLOCKS_MAX;
    bs->gap = 0;
    bs->fragment_words = 0;
    bs->list[BLOCK_YOUNG] = (struct block){heap, htop};
    bs->list[BLOCK_OLD] = (struct block){old_heap, old_htop};
}

void blocks_end(struct blocks *bs)
{
    if (bs->list && bs->list != bs->first)
        sonde_free(bs->list);
    bs->list = NULL;
}

static bool blocks_grow(struct blocks *bs)
{
    unsigned cap = bs->cap * 4;
    bool own = bs->list == bs->first;
    /* realloc may grow a long list without a copy */
    struct block *list = sonde_realloc(own ? NULL : bs->list, cap * sizeof *list);
    if (!list)
        return false;
    if (own)
        memcpy(list, bs->first, sizeof bs->first);
    bs->list = list;
    bs->cap = cap;
    return true;
}

enum status blocks_add(struct blocks *bs, uintptr_t from, uint64_t words)
{
    if (bs->n == bs->max)
        return ST_ASK;
    if (bs->n == bs->cap && !blocks_grow(bs))
        return ST_NOMEM;
    if (words > BLOCK_WORDS_MAX || from + words * 8 < from)
        return ST_TORN;
    bs->list[bs->n++] = (struct block){from, from + words * 8};
    bs->fragment_words += words;
    return bs->fragment_words <= fragment_words_max ? ST_OK : ST_TORN;
}

/* Insertion sort of the blocks that are `gap` apart: one pass of Shell's sort. */
static bool sort_apart(struct blocks *bs, struct block *list, unsigned n, struct budget *b)
{
    for (; bs->i < n; bs->j = ++bs->i) {
        for (; bs->j >= bs->gap; bs->j -= bs->gap) {
            struct block *high = &list[bs->j];
            struct block *low = high - bs->gap;
            if (!budget_step(b))
                return false;
            if (low->from <= high->from)
                break;
            struct block other = *low;
            *low = *high;
            *high = other;
        }
    }
    return true;
}

/* Shell's sort, because it can stop anywhere and needs no memory. */
bool blocks_sort(struct blocks *bs, struct budget *b)
{
    unsigned n = bs->n - BLOCK_FRAGMENTS;
    if (bs->gap == 0)
        bs->gap = bs->i = bs->j = n / 2 + 1;
    while (sort_apart(bs, bs->list + BLOCK_FRAGMENTS, n, b)) {
        if (bs->gap == 1)
            return true;
        bs->gap = (unsigned)((uint64_t)bs->gap * 4 / 9);
        bs->gap += bs->gap == 0;
        bs->i = bs->j = bs->gap;
    }
    return false;
}

bool blocks_words(const struct blocks *bs, uint64_t *words)
{
    *words = bs->fragment_words;
    for (unsigned i = 0; i < BLOCK_FRAGMENTS; i++) {
        const struct block *b = &bs->list[i];
        if (b->to < b->from || (b->to - b->from) / 8 > BLOCK_WORDS_MAX)
            return false;
        *words += (b->to - b->from) / 8;
    }
    return true;
}

const struct block *blocks_find_fragment(const struct blocks *bs, uintptr_t p, unsigned words)
{
    unsigned lo = BLOCK_FRAGMENTS;
    unsigned hi = bs->n;
    while (lo < hi) {
        unsigned mid = lo + (hi - lo) / 2;
        if (bs->list[mid].to <= p)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < bs->n && block_holds(&bs->list[lo], p, words) ? &bs->list[lo] : NULL;
}
