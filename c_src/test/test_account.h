/* test_account.h: Binaries and their holders, for the tests of a census and of an account.
 * Knows: how to name a Binary, and how to run an account's stages in slices.
 * Does not know: what is tested. */
#ifndef SONDE_TEST_ACCOUNT_H
#define SONDE_TEST_ACCOUNT_H

#include "binary/account.h"
#include "test/test_world.h"

enum { ALL = 20000, PIDS = 40 };

/* Groups of 64 lie side by side, like blocks of one carrier. */
static inline uint64_t binary_of(unsigned i)
{
    return 0x7F0000000000 + (i / 64) * 0x40000ULL + (i % 64) * 48ULL;
}

static inline unsigned index_of(uint64_t binary)
{
    uint64_t at = binary - 0x7F0000000000;
    return (unsigned)(at / 0x40000 * 64 + at % 0x40000 / 48);
}

static inline struct known *place_of(struct census *c, unsigned i, enum status *st)
{
    struct known *k = NULL;
    *st = census_add(c, binary_of(i), &k);
    return *st == ST_OK ? k : NULL;
}

/* An account that keeps each process's holdings. */
static inline void new_account(struct account *a, const struct layout *lay, size_t max)
{
    const struct proctab tab = {.max = 64};
    account_init(a, lay, &tab, max, false, true);
}

static inline enum status join(struct account *a, struct account *from, uint32_t steps)
{
    enum status st = ST_TIMESLICE;
    while (st == ST_TIMESLICE) {
        struct budget b = BUDGET(steps);
        st = account_join(a, from, &b);
    }
    return st;
}

static inline void rank(struct account *a, size_t n, enum account_by by, const char *layout)
{
    enum status st;
    account_rank_start(a, n, by);
    do {
        struct budget b = BUDGET(3);
        st = account_rank(a, &b);
    } while (st == ST_TIMESLICE);
    check(st == ST_OK, "a ranking", layout);
}

static inline uint64_t part_of(const struct account *a, unsigned pid)
{
    for (size_t i = 0; i < a->top.n; i++) {
        if (a->top.rows[i].pid == pid_in(a->lay, pid))
            return (uint64_t)a->top.rows[i].value;
    }
    return UINT64_MAX;
}

#endif
