/* census.h: Binaries, each once, with how many references were found to it, and of how many holders.
 * Knows: addresses as keys, what is kept of each, how to stay within a bound by keeping a fraction.
 * Does not know: how references are found. Follows no address.
 *
 * Entries lie in parts, each of which grows by itself, so that no addition takes long; a small census
 * is a single part. Where there are more Binaries than allowed, those stay whose hash ends with so many
 * zeros: a sample that depends on nothing but the addresses. */
#ifndef SONDE_CENSUS_H
#define SONDE_CENSUS_H

#include "util/budget.h"
#include "util/status.h"

#include <stddef.h>

/* Where references were found. */
enum census_kind {
    CENSUS_HEAP = 1,    /* on the lists of a process */
    CENSUS_SEVERAL = 2, /* of more than one */
    CENSUS_QUEUE = 4,   /* in messages that are not on a heap yet */
    CENSUS_TABLE = 8,
    CENSUS_LITERAL = 16,
    CENSUS_RESOURCE = 32 /* it is no binary, but memory of a native library, or of the VM's own */
};

#define KNOWN_SIZE_MAX (UINT64_MAX >> 8)

/* 32 bytes. What the VM counts in 64 bits ends here at UINT32_MAX. */
struct known {
    uint64_t binary; /* 0: free */
    uint64_t size : 56, kinds : 8;
    uint32_t refc, refs; /* as the Binary says, and as found */
    uint32_t holders;    /* of refs */
    uint32_t first;      /* the caller's; of a resource its type */
};

struct census_part {
    struct known *entries;
    uint32_t n, cap;
};

struct census {
    size_t n, max;             /* entries, those included that are not in the sample any more */
    bool whole;                /* too many are an error, else a sample is kept */
    unsigned level;            /* of 2^level Binaries one is kept */
    size_t pruned;             /* parts that were gone through since the level rose, for room */
    struct census_part one;    /* all there is, */
    struct census_part *parts; /* unless there are these */
};

void census_init(struct census *c, size_t max, bool whole);
void census_free(struct census *c);

/* The same in slices, since to give back much memory takes its time: false: call again. */
bool census_free_some(struct census *c, struct budget *b);

/* Its entry, perhaps a new one with nothing but the address. OK; GONE: it is not in the sample; NOMEM,
 * TOO_LARGE. */
enum status census_add(struct census *c, uint64_t binary, struct known **entry);

/* NULL: it is not in it. */
const struct known *census_find(const struct census *c, uint64_t binary);

/* Entry after entry; *at is 0 before the first. OK; GONE: there are no more; TIMESLICE: call again. */
enum status census_next(const struct census *c, size_t *at, struct budget *b,
                        const struct known **entry);

/* Bytes of memory that it has. */
size_t census_bytes(const struct census *c);

static inline uint32_t census_count32(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

#endif
