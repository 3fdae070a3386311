/* slices.h: the parts of binaries that a heap sees.
 * Knows: how a binary term on the heap leads to the Binary outside, and to the bytes in it.
 * Does not know: how the terms are found. */
#ifndef SONDE_SLICES_H
#define SONDE_SLICES_H

#include "util/budget.h"
#include "vm/stamp.h"

/* The fields of a binary term. */
struct view_of_bytes {
    uint64_t from, size; /* bytes */
    uint64_t base;       /* from 27: `from' is relative to this address, */
    bool volatile_base;  /* or, if the binary was writable once, to the Binary's first byte */
};

struct slice {
    uint64_t binary;   /* the address of the Binary */
    uint64_t from, to; /* bytes of it */
};

enum { SLICES_INLINE = BOUND(16, 2) };

struct slices {
    size_t n, cap, max;
    struct slice *list;
    bool sorting;
    size_t loose, unsorted; /* while sorting: not yet in the binary heap; not yet sorted */
    struct slice first[SLICES_INLINE];
};

/* The caller may set another limit than `max' before the first slice. */
void slices_init(struct slices *s, size_t max);
void slices_end(struct slices *s);

/* OK, TORN, NOMEM, TOO_LARGE. refc: the ProcBin or BinRef on the heap. */
enum status slices_add(struct slices *s, const struct vm *vm, uintptr_t refc,
                       const struct view_of_bytes *v);

/* Sorts by Binary, then by first byte. false: the time slice is used up, call again. */
bool slices_sort(struct slices *s, struct budget *b);

#endif
