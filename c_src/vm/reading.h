/* reading.h: the context of a walk over one process.
 * Knows: the words of the process read at the opening, and the position of each field among them.
 * Does not know: when they are read and compared (see stamp.h). */
#ifndef SONDE_READING_H
#define SONDE_READING_H

#include "util/budget.h"
#include "vm/vm.h"

enum { STAMP_MAX = 48 };

/* Which fields to read, and which must not have changed. Made once for each query. */
struct plan {
    uint32_t unsettled; /* state bits that mean busy */
    uint32_t locks;     /* lock bits that mean busy */
    unsigned n;         /* words of the stamp: state, lock, then the fields */
    uint16_t off[STAMP_MAX + 2];
    uint8_t at[LAYOUT_FIELD_COUNT];
    uint8_t shift[STAMP_MAX]; /* where the field starts in its word, */
    uint64_t mask[STAMP_MAX]; /* and its bits */
};

/* One process, as it was at the opening. */
struct view {
    size_t slot;
    uintptr_t proc;
    uint64_t pid;
    uint64_t w[STAMP_MAX + 2];
};

struct reading {
    const struct vm *vm;
    const struct plan *plan;
    const struct view *view;
    struct budget *budget; /* NULL at a start and at a close, which walk nothing */
};

#endif
