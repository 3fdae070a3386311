/* reading.h: what a walk over one process has in hand.
 * Knows: which words of the process were read at the opening, and where each field is among them.
 * Does not know: when they are read and compared (see stamp.h). */
#ifndef SONDE_READING_H
#define SONDE_READING_H

#include "util/budget.h"
#include "vm/vm.h"

enum { STAMP_MAX = 48 };

/* What to read of a process, and what must not have moved. Made once for each question. */
struct plan {
    uint32_t unsettled; /* state bits that mean busy */
    uint32_t locks;     /* lock bits that mean busy */
    unsigned n;         /* words of the stamp: state, lock, then the fields */
    uint16_t off[STAMP_MAX + 2];
    uint8_t at[LAYOUT_FIELD_COUNT];
    uint8_t shift[STAMP_MAX]; /* where in its word the field lies, */
    uint64_t mask[STAMP_MAX]; /* and how wide it is */
};

/* One process under a stamp. */
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
    struct budget *budget; /* NULL where nothing is walked: at a start, at a close */
};

#endif
