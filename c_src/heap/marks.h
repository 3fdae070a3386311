/* marks.h: one bit for each word of the blocks of a process, and another one where it is needed.
 * Knows: where the bits of a block are, and how to find a set one again.
 * Does not know: what a bit means to whoever sets it.
 *
 * Black: reached. Grey: to be looked at later, because there was no room to remember it otherwise. The
 * grey ones are made only when the first is set, with a summary (one bit for 64 words of bits), so
 * that the next one is found at once. Both together take a thirty-second of the heap. */
#ifndef SONDE_MARKS_H
#define SONDE_MARKS_H

#include "vm/blocks.h"

enum { MARKS_INLINE = BOUND(64, 4) }; /* bits of 4096 words: more than most heaps have */

struct marks {
    const struct blocks *blocks;
    size_t n;        /* words of bits, at least */
    size_t cleared;  /* so many of them are 0 so far */
    unsigned placed; /* so many blocks have their bits */
    size_t used;     /* words of bits of those */
    uint64_t *black, *grey, *summary;
    size_t low;   /* no grey bit before this word of the summary */
    size_t *base; /* where each block's bits begin */
    size_t base_first[BLOCKS_INLINE];
    uint64_t black_first[MARKS_INLINE];
};

/* The place of a word. */
struct mark {
    size_t at;
    uint64_t bit;
};

/* The blocks are complete and sorted. OK, NOMEM, TORN. Then marks_clear until it says true: of many
 * blocks, or large ones, it takes a while. */
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

/* Takes a grey one away. OK, with its address; GONE: there are none. */
enum status marks_take_grey(struct marks *m, uintptr_t *p);

/* After the last grey one was taken: their room is given back. */
void marks_drop_grey(struct marks *m);

/* The word whose bit this is: of so many words of bits, the bit. */
uintptr_t marks_address(const struct marks *m, size_t at, unsigned bit);

/* Bytes held now. */
size_t marks_bytes(const struct marks *m);

#endif
