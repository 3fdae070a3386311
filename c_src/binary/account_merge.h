/* account_merge.h: how the entries of an account change. For account*.c alone.
 * Knows: which comes first of a Binary's holders, which records are not in the census yet.
 * Does not know: where a record comes from. */
#ifndef SONDE_ACCOUNT_MERGE_H
#define SONDE_ACCOUNT_MERGE_H

#include "binary/account.h"

/* A ranking is no longer valid once the census changes. */
void account_unrank(struct account *a);

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
