/* holdings.h: what each process holds of each Binary, in one list.
 * Knows: how little memory that takes, and which holdings are no longer valid.
 * Does not know: what else holds a Binary, or how large it is. Follows no address.
 *
 * The list has one word for most holdings: the Binary's address, and in its lowest three bits where the
 * references are. It lies in blocks that are never moved, so that no addition takes long; each block can be
 * read by itself, so that several threads can read the list. */
#ifndef SONDE_HOLDINGS_H
#define SONDE_HOLDINGS_H

#include "util/census.h"

struct holding {
    uint64_t binary;
    uint32_t holder;       /* index of the process; below 2^32 - 1 */
    uint32_t refs, queued; /* references, and how many of them are in messages */
};

struct holdings_block;

struct holdings {
    size_t n, max; /* words */
    size_t blocks_n, blocks_cap;
    struct holdings_block **blocks;
    bool open;       /* the last block may be added to, */
    uint32_t holder; /* and this is its last holder */
    struct census
        freed; /* Binaries that were freed: `size' is the first holder that has the next one */
};

struct holdings_at {
    size_t block;
    uint32_t i, holder;
    size_t skip; /* after each block, so many are left to other threads */
};

void holdings_init(struct holdings *h, size_t max);

/* OK, NOMEM, TOO_LARGE. */
enum status holdings_add(struct holdings *h, const struct holding *g);

/* The Binary was freed, and another one has its address now: what holders below this one hold of it is no
 * longer valid. OK, NOMEM, TOO_LARGE. */
enum status holdings_forget(struct holdings *h, uint64_t binary, uint32_t holder);

/* The next one that is valid; *at starts at zeros, or at one of the first blocks with `skip' set. OK; GONE: no more; TIMESLICE: call again. */
enum status holdings_next(const struct holdings *h, struct holdings_at *at, struct budget *b,
                          struct holding *g);

/* Of a holding that comes soon, or 0: asks no more than that the memory of its Binary is prefetched. */
uint64_t holdings_ahead(const struct holdings *h, const struct holdings_at *at);

/* Moves what `from' has, with `base' added to each holder. *at starts at zeros. OK, TIMESLICE (call again),
 * NOMEM, TOO_LARGE. */
enum status holdings_join(struct holdings *h, struct holdings *from, uint32_t base,
                          struct holdings_at *at, struct budget *b);

/* Frees in slices. false: call again. */
bool holdings_free_some(struct holdings *h, struct budget *b);
void holdings_free(struct holdings *h);

#endif
