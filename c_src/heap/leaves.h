/* leaves.h: one bit for each word of the literal area, so that each literal counts once.
 * Knows: the area's bounds, and pages of bits that are made when they are first touched.
 * Does not know: what a literal is, or who refers to it. */
#ifndef SONDE_LEAVES_H
#define SONDE_LEAVES_H

#include "vm/stamp.h"

struct leaves {
    uint64_t **pages; /* NULL: not touched yet */
    size_t n;
};

/* OK, NOMEM; ASK: where literals lie is not known. In any case leaves_end; zeroed memory may be ended too. */
enum status leaves_start(struct leaves *l, const struct vm *vm);
void leaves_end(struct leaves *l);

/* OK: it was not marked before. GONE: it was. ASK: it lies elsewhere. NOMEM. */
enum status leaves_mark(struct leaves *l, const struct vm *vm, uintptr_t at);

#endif
