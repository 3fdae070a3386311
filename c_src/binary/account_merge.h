/* account_merge.h: how the entries of an account change. For account*.c alone.
 * Knows: which comes first of a Binary's holders, which records are not in the census yet.
 * Does not know: where a record comes from. */
#ifndef SONDE_ACCOUNT_MERGE_H
#define SONDE_ACCOUNT_MERGE_H

#include "binary/account.h"

/* A ranking is no longer valid once the census changes. */
void account_unrank(struct account *a);

/* Whether there is a reference that was not found. */
static inline bool account_is_elsewhere(const struct known *k)
{
    return k->refs < k->refc;
}

/* The parts of all processes, if they are not known yet: OK, TIMESLICE, NOMEM, TOO_LARGE. */
enum status account_all_parts(struct account *a, struct budget *b);
void account_drop_parts(struct account *a);

bool account_wants(const struct account *a, uint64_t binary);

bool account_comes_before(const struct account *a, uint64_t pid, uint32_t other);

/* Adds references to an entry. me: index of the process that holds them; of several, the first. OK; GONE: that
 * is a Binary that was freed since, so they do not count; NOMEM, TOO_LARGE. */
enum status account_meet(struct account *a, struct known *k, const struct known *has, uint32_t me);

enum {
    CENSUS_SHARE = CENSUS_PARTS / PENDING_PARTS
}; /* parts of the census in one of the records */

/* How many entries there are for a part of the records. */
uint64_t account_settled(const struct account *a, size_t part);

#endif
