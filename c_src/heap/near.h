/* near.h: the objects that nearly every heap is made of, followed without a call.
 * Knows: list cells, tuples and small maps in the two heaps; the word of mark bits that was used last.
 * Does not know: other objects, fragments, literals, or what a walk does with the words below an object.
 *
 * A collection leaves objects in the order of their links, so that the next mark is mostly in the same word of
 * bits. While that word is in a register, no mark waits for the store of the one before. A walk that calls
 * anything else that looks at the marks closes it first. */
#ifndef SONDE_NEAR_H
#define SONDE_NEAR_H

#include "heap/histogram.h"
#include "heap/marks.h"
#include "heap/parts.h"

#define NEAR_INLINE static inline __attribute__((always_inline))

struct near {
    struct marks *marks;
    struct histogram *histogram; /* may be NULL */
    struct block heaps[BLOCK_FRAGMENTS];
    size_t base[BLOCK_FRAGMENTS];
    size_t at; /* of the word of bits */
    uint64_t bits;
    uint64_t cells, words; /* of objects that were reached; words: without those of cells */
};

/* Also after the marks may have changed. */
NEAR_INLINE void near_open(struct near *n)
{
    n->bits = n->marks->black[n->at];
}

NEAR_INLINE void near_close(const struct near *n)
{
    n->marks->black[n->at] = n->bits;
}

NEAR_INLINE struct near near_start(struct marks *m, struct histogram *g)
{
    struct near n = {.marks = m, .histogram = g};
    for (unsigned i = 0; i < BLOCK_FRAGMENTS; i++) {
        n.heaps[i] = m->blocks->list[i];
        n.base[i] = m->base[i];
    }
    near_open(&n);
    return n;
}

/* Words of the reached objects since the last call. */
NEAR_INLINE uint64_t near_end(struct near *n)
{
    uint64_t words = n->words + 2 * n->cells;
    near_close(n);
    if (n->histogram)
        histogram_cells(n->histogram, n->cells);
    n->cells = n->words = 0;
    return words;
}

/* true: its mark is set. */
NEAR_INLINE bool near_test(struct near *n, struct mark k)
{
    if (k.at != n->at) {
        near_close(n);
        n->at = k.at;
        near_open(n);
    }
    return (n->bits & k.bit) != 0;
}

/* The size of a tuple or a small map of at most `most` words, and the first of its words that are terms. false:
 * it is something else, or cannot be read. */
NEAR_INLINE bool near_size(struct near *n, const struct vm *vm, uintptr_t at, uint64_t most,
                           uint64_t *words, uint64_t *first)
{
    uint64_t header;
    uint64_t size;
    if (!peek_word(vm->reader, at, &header) || !term_is_header(header))
        return false;
    switch (vm->lay->kinds[header >> 2 & 15]) {
    case KIND_TUPLE:
        size = term_header_arity(header);
        *first = 1;
        *words = 1 + size;
        if (size >= BARS_TUPLES || *words > most)
            return false;
        if (n->histogram)
            histogram_small_tuple(n->histogram, size);
        return true;
    case KIND_MAP:
        *first = 2;
        if (map_type(header) != MAP_FLAT || !peek_word(vm->reader, at + 8, &size) ||
            size > MAP_FLAT_MAX || 3 + size > most)
            return false;
        *words = 3 + size;
        if (n->histogram)
            histogram_small_map(n->histogram, *words);
        return true;
    default:
        return false;
    }
}

/* Follows a word that is not immediate. *below: the terms of its object; empty if it was reached before. false:
 * follow it otherwise; nothing is changed. `again': a boxed object that was reached before is followed otherwise. */
NEAR_INLINE bool near_follow(struct near *n, const struct vm *vm, uint64_t word, bool again,
                             struct part *below)
{
    uintptr_t at = term_pointer(word);
    bool is_old = !block_holds(&n->heaps[BLOCK_YOUNG], at, 2);
    const struct block *heap = &n->heaps[is_old ? BLOCK_OLD : BLOCK_YOUNG];
    if (term_is_header(word) || (is_old && !block_holds(heap, at, 2)))
        return false;
    size_t i = (at - heap->from) / 8;
    struct mark k = {n->base[is_old ? BLOCK_OLD : BLOCK_YOUNG] + i / 64, 1ULL << (i % 64)};
    *below = (struct part){0, 0};
    if (near_test(n, k))
        return term_is_list(word) || !again;
    if (term_is_list(word)) {
        n->cells++;
        *below = (struct part){at, at + 16};
    } else {
        uint64_t words;
        uint64_t first;
        if (!near_size(n, vm, at, (heap->to - at) / 8, &words, &first))
            return false;
        n->words += words;
        *below = (struct part){at + first * 8, at + words * 8};
    }
    n->bits |= k.bit;
    return true;
}

#endif
