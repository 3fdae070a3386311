/* pending.h: what processes hold of Binaries, until it is merged into a large census.
 * Knows: records in the order of their arrival, apart for each part of the census.
 * Does not know: what a record means.
 *
 * The entries of a large census are in no cache. Merged in the order of their arrival, each record waits for
 * memory; merged part by part, only the first ones of a part do. There are fewer parts than those of the
 * census, because a processor writes to some dozens of places in turn as fast as to one. */
#ifndef SONDE_PENDING_H
#define SONDE_PENDING_H

#include "util/census.h"

enum { PENDING_PARTS = BOUND(64, 2), PENDING_BLOCK = BOUND(2047, 2) };

struct pending_block {
    struct pending_block *next;
    uint32_t n;
    struct known list[PENDING_BLOCK];
};

struct pending_part {
    struct pending_block *first, *last;
    uint32_t n;
};

struct pending {
    struct pending_part *parts; /* NULL: there were never any records */
};

void pending_init(struct pending *p);

/* Until the first record it needs no memory; this takes what it needs. false: there is none. */
bool pending_begin(struct pending *p);

/* OK, NOMEM. */
enum status pending_add(struct pending *p, size_t part, const struct known *record);

/* The part for this Binary. */
static inline size_t pending_part(uint64_t binary)
{
    return census_part(binary) / (CENSUS_PARTS / PENDING_PARTS);
}

/* Whether the next record of a part takes a new block. */
bool pending_is_full(const struct pending *p, size_t part);

/* The number of records of a part. */
uint32_t pending_count(const struct pending *p, size_t part);

/* Takes the first block of a part; NULL: it has no records. The caller gives it to another one, or frees it with
 * sonde_free. */
struct pending_block *pending_take(struct pending *p, size_t part);

/* OK, NOMEM. */
enum status pending_give(struct pending *p, size_t part, struct pending_block *block);

/* Moves all records of a part to where there are none. Both have begun. */
void pending_move(struct pending *to, struct pending *from, size_t part);

/* Frees in slices. false: call again. */
bool pending_free_some(struct pending *p, struct budget *b);
void pending_free(struct pending *p);

#endif
