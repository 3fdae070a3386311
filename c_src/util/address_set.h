/* address_set.h: a set of Binaries, keyed by address, and the sum of their bytes.
 * Knows: each counts once. Does not know: what refers to them, or what a Binary is.
 *
 * The table has many parts that grow one at a time, so that no addition takes long. */
#ifndef SONDE_ADDRESS_SET_H
#define SONDE_ADDRESS_SET_H

#include "util/budget.h"
#include "util/status.h"

#include <stddef.h>

enum { ADDRESS_SET_MAX = BOUND(20000000, 60) };

struct address_set;

struct address_set *address_set_new(void); /* NULL: no memory */
void address_set_free(struct address_set *s);

bool address_set_has(const struct address_set *s, uint64_t binary);

/* Adds a Binary that is not in the set. OK; NOMEM, also beyond ADDRESS_SET_MAX. */
enum status address_set_add(struct address_set *s, uint64_t binary, uint64_t bytes);

uint64_t address_set_bytes(const struct address_set *s);

#endif
