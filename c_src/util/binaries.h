/* binaries.h: a set of Binaries, by address, and how many bytes they have together.
 * Knows: each counts once. Does not know: who refers to them, or what a Binary is.
 *
 * The table is in many parts, each of which grows by itself, so that no addition takes long. */
#ifndef SONDE_BINARIES_H
#define SONDE_BINARIES_H

#include "util/budget.h"
#include "util/status.h"

#include <stddef.h>

enum { BINARIES_MAX = BOUND(20000000, 60) };

struct binaries;

struct binaries *binaries_new(void); /* NULL: no memory */
void binaries_free(struct binaries *s);

/* true: it was in it already. */
bool binaries_has(const struct binaries *s, uint64_t binary);

/* One that is not in it. OK or NOMEM, also where there are too many. */
enum status binaries_add(struct binaries *s, uint64_t binary, uint64_t bytes);

uint64_t binaries_bytes(const struct binaries *s);

#endif
