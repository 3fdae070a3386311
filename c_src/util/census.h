/* census.h: Binaries, each once, with the number of references found and of their holders.
 * Knows: addresses as keys, one entry per Binary, how to stay within a limit by keeping a sample.
 * Does not know: how references are found. Follows no address.
 *
 * Entries lie in parts that grow one at a time, so that no addition takes long; a small census has
 * a single part. Above the limit the census keeps the Binaries whose hash ends with a number of
 * zero bits (`level`): a sample that depends only on the addresses. */
#ifndef SONDE_CENSUS_H
#define SONDE_CENSUS_H

#include "util/budget.h"
#include "util/status.h"

#include <stddef.h>

/* Where references were found. */
enum census_kind {
    CENSUS_HEAP = 1,    /* on the off-heap lists of a process */
    CENSUS_SEVERAL = 2, /* of more than one process */
    CENSUS_QUEUE = 4,   /* in messages that are not on a heap yet */
    CENSUS_TABLE = 8,
    CENSUS_LITERAL = 16,
    CENSUS_RESOURCE = 32 /* not a binary: memory of a native library, or of the VM itself */
};

#define KNOWN_SIZE_MAX (UINT64_MAX >> 8)

/* Counts are 64 bits wide in the VM; here they stop at UINT32_MAX. */
struct known {
    uint64_t binary; /* 0: free */
    uint64_t size : 56, kinds : 8;
    uint32_t refc, refs; /* the Binary's reference count, and the references found */
    uint32_t holders;    /* of refs */
    uint32_t first;      /* for the caller's use; for a resource: its type */
};

struct census_part {
    struct known *entries;
    uint32_t n, cap;
};

enum {
    CENSUS_INLINE = BOUND(32, 2), /* more than the Binaries of most processes */
    CENSUS_PARTS = BOUND(1024, 4)
};

struct census {
    size_t n, max;             /* entries, including those that left the sample */
    bool whole;                /* more than max is an error; otherwise keep a sample */
    unsigned level;            /* one of 2^level Binaries is kept */
    size_t pruned;             /* parts made smaller since the level last rose */
    struct census_part one;    /* the only part, */
    struct census_part *parts; /* until these replace it */
    struct known first[CENSUS_INLINE];
};

void census_init(struct census *c, size_t max, bool whole);
void census_free(struct census *c);

/* Frees in slices, because freeing much memory takes long. false: call again. */
bool census_free_some(struct census *c, struct budget *b);

/* Finds or adds its entry; a new one has only the address. OK; GONE: it is not in the sample;
 * NOMEM; TOO_LARGE. */
enum status census_add(struct census *c, uint64_t binary, struct known **entry);

const struct known *census_find(const struct census *c, uint64_t binary);

/* Of a census with parts: the part where the entry of this Binary is, or would be. */
size_t census_part(uint64_t binary);

/* Gives an empty census its parts, which else it gets when it becomes large. false: no memory. */
bool census_begin(struct census *c);

/* Moves a part to where it has no entries. Both have parts. */
void census_move(struct census *to, struct census *from, size_t part);

/* How many entries a part has, with those that left the sample. */
uint32_t census_count(const struct census *c, size_t part);

/* Before n more entries are added to a part of a census with parts: makes room for all of them at
 * once. OK, NOMEM. */
enum status census_expect(struct census *c, size_t part, uint32_t n);

/* Gives back room of a part if there were far fewer entries than expected. OK, NOMEM. */
enum status census_fit(struct census *c, size_t part);

/* Frees the entries of a part, which are not needed any more. `part': of the `at' of census_next. */
void census_drop(struct census *c, size_t part);

/* Keeps at most the sample of a census with this level. */
void census_lower(struct census *c, unsigned level);

/* The next entry; *at starts at 0. OK; GONE: no more; TIMESLICE: call again. */
enum status census_next(const struct census *c, size_t *at, struct budget *b,
                        const struct known **entry);

/* Asks for the memory where this Binary's entry is, or would be. */
void census_ask(const struct census *c, uint64_t binary);

/* Bytes of memory that the census takes. */
size_t census_bytes(const struct census *c);

static inline uint32_t census_count32(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

#endif
