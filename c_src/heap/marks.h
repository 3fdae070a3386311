/* marks.h: mark bits for the words of a process's blocks.
 * Knows: where the bits of a block are, and how to find a set bit again.
 * Does not know: how a walk uses the bits.
 *
 * Black: reached. Grey: to be visited later, because the stack had no room for it. The grey bits
 * are allocated when the first is set, with a summary (one bit for 64 words of bits), so that the
 * next one is found at once. Black and grey bits together take a thirty-second of the heap. */
#ifndef SONDE_MARKS_H
#define SONDE_MARKS_H

#include "vm/blocks.h"

enum { MARKS_INLINE = BOUND(64, 4) }; /* bits of 4096 words: more than most heaps have */

struct marks {
    const struct blocks *blocks;
    size_t n;        /* words of bits that are allocated */
    size_t cleared;  /* how many of them are cleared */
    unsigned placed; /* blocks that have their bits */
    size_t used;     /* words of bits of these blocks */
    uint64_t *black, *grey, *summary;
    size_t low;   /* no grey bit before this word of the summary */
    size_t *base; /* where each block's bits begin */
    size_t base_first[BLOCKS_INLINE];
    uint64_t black_first[MARKS_INLINE];
};

/* The place of a word's bit. */
struct mark {
    size_t at;
    uint64_t bit;
};

/* The blocks must be complete and sorted. OK, NOMEM, TORN. Then call marks_clear until it returns
 * true: many or large blocks take long. */
enum status marks_init(struct marks *m, const struct blocks *blocks);
bool marks_clear(struct marks *m, struct budget *b);
void marks_end(struct marks *m);

static inline struct mark marks_of(const struct marks *m, const struct block *block, uintptr_t p)
{
    size_t i = (p - block->from) / 8;
    size_t at = m->base[block - m->blocks->list] + i / 64;
    return (struct mark){at, 1ULL << (i % 64)};
}

static inline bool marks_test(const struct marks *m, struct mark k)
{
    return (m->black[k.at] & k.bit) != 0;
}

/* true: it was not set before. */
static inline bool marks_set(struct marks *m, struct mark k)
{
    bool fresh = !(m->black[k.at] & k.bit);
    m->black[k.at] |= k.bit;
    return fresh;
}

/* false: no memory. */
bool marks_set_grey(struct marks *m, struct mark k);

/* Clears a grey bit. OK, with the address of its word; GONE: none is set. */
enum status marks_take_grey(struct marks *m, uintptr_t *p);

/* Frees the grey bits, once marks_take_grey has returned GONE. */
void marks_drop_grey(struct marks *m);

/* The address of the word with bit number `bit` in word `at` of the bits. A binary search, because the
 * bits of the blocks are in the order of the list. */
static inline uintptr_t marks_address(const struct marks *m, size_t at, unsigned bit)
{
    unsigned lo = 0;
    unsigned hi = m->blocks->n;
    while (hi - lo > 1) {
        unsigned mid = lo + (hi - lo) / 2;
        if (m->base[mid] <= at)
            lo = mid;
        else
            hi = mid;
    }
    return m->blocks->list[lo].from + ((at - m->base[lo]) * 64 + bit) * 8;
}

/* Bytes of memory that the bits take now. */
size_t marks_bytes(const struct marks *m);

#endif
