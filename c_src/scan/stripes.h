/* stripes.h: which slots of the process table one scan looks at.
 * Knows: how several scans share the table, and where a slot is in use.
 * Does not know: what is in a slot. */
#ifndef SONDE_STRIPES_H
#define SONDE_STRIPES_H

#include "vm/vm.h"

struct stripes {
    size_t next; /* slot */
    size_t end;  /* of the current stripe */
    size_t skip; /* slots between two stripes, which other scans have */
    size_t max;  /* slots of the table */
};

/* All slots of the table. */
void stripes_init(struct stripes *s, size_t max);

/* Of `n' parts of the table only the i-th, from 0: every n-th stripe, because a young node has filled only
 * the first slots. */
void stripes_part(struct stripes *s, unsigned i, unsigned n);

/* The next slot in use. OK; GONE: there are no more; TORN: the table cannot be read; TIMESLICE: call again.
 * *most: how many slots may be looked at; becomes less by those that were. */
enum status stripes_next(struct stripes *s, const struct vm *vm, size_t *most, size_t *slot);

#endif
