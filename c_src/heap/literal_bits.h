/* literal_bits.h: one bit for each word of the literal area, so that each literal counts once.
 * Knows: the area's bounds, and pages of bits that are allocated on first use.
 * Does not know: what a literal is, or what refers to it. */
#ifndef SONDE_LITERAL_BITS_H
#define SONDE_LITERAL_BITS_H

#include "vm/stamp.h"

struct literal_bits {
    uint64_t **pages; /* NULL: not used yet */
    size_t n;
};

/* OK, NOMEM; ASK: the literal area is unknown. Always call literal_bits_end; it accepts zeroed
 * memory. */
enum status literal_bits_start(struct literal_bits *l, const struct vm *vm);
void literal_bits_end(struct literal_bits *l);

/* OK: it was not marked before. GONE: it was. ASK: it is not in the literal area. NOMEM. */
enum status literal_bits_mark(struct literal_bits *l, const struct vm *vm, uintptr_t at);

#endif
