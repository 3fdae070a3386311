/* sample.h: one number for each of many processes, kept from a first scan to a second.
 * Knows: how to keep it in 16 bytes an entry, in the order of the process table.
 * Does not know: what the numbers mean, or how they were read. */
#ifndef SONDE_SAMPLE_H
#define SONDE_SAMPLE_H

#include "vm/proctab.h"

/* A pid's low four bits are always 3, so they have room for marks. */
enum sample_mark {
    SAMPLE_UNKNOWN = 1, /* no value (yet): the process was busy, or died meanwhile */
    SAMPLE_SEEN = 2,    /* the second scan found it */
    SAMPLE_SKIP = 4     /* it never answered: no row */
};

struct entry {
    uint64_t key; /* the pid, with marks in place of its tag */
    int64_t value;
};

struct sample {
    const struct layout *lay;
    struct proctab tab;
    size_t n, cap, max, hint;
    struct entry *entries;
};

void sample_init(struct sample *s, const struct layout *lay, const struct proctab *tab, size_t max);
void sample_free(struct sample *s);

/* Add in ascending order of slots. OK, NOMEM, or ASK if max is reached. */
enum status sample_add(struct sample *s, uint64_t pid, int64_t value, unsigned marks);

struct entry *sample_find(struct sample *s, uint64_t pid);

static inline uint64_t entry_pid(const struct entry *e)
{
    return (e->key & ~(uint64_t)15) | 3;
}

#endif
