/* account.h: the holders of all Binaries: processes, tables and literals.
 * Knows: how to merge one holder's Binaries into a census of all, and how to share out a Binary's
 * bytes.
 * Does not know: how references are found. Follows no address. */
#ifndef SONDE_ACCOUNT_H
#define SONDE_ACCOUNT_H

#include "binary/holdings.h"
#include "binary/pending.h"
#include "vm/proctab.h"
#include "util/top_n.h"
#include "process/resource_types.h"

/* The bytes of a Binary belong to exactly one of these. */
enum share {
    SHARE_EXCLUSIVE, /* one process */
    SHARE_SHARED,    /* several processes */
    SHARE_TABLES,
    SHARE_QUEUES, /* messages that are not on a heap yet */
    SHARE_LITERALS,
    SHARE_MIXED,     /* several of these */
    SHARE_RESOURCES, /* not binaries: memory of native libraries */
    SHARE_ELSEWHERE, /* it has a reference that was not found in any of these */
    SHARE_COUNT
};

/* Sums over all Binaries of a census. The caller multiplies a sample's bytes and overhead by
 * 2^level. */
struct sums_of_all {
    uint64_t count;
    uint64_t bytes[SHARE_COUNT];
    uint64_t overhead; /* headers, and what the allocator adds */
    double square;     /* of the bytes, for the error of a sample */
};

enum account_by { BY_SIZE, BY_REFERENCES, BY_PARTS };

/* Types of resources with separate sums. */
enum { ACCOUNT_TYPES = BOUND(1024, 4) };

/* The progress of merging one process into an account. The caller zeroes it once and uses it for
 * one process after another. */
struct merge {
    bool begun;
    uint32_t of; /* the era of the account; it changes if the account is emptied meanwhile */
    uint32_t me; /* index of the process in pids */
    size_t at;   /* in the census of the process */
    uint64_t types[(ACCOUNT_TYPES + 63) / 64]; /* bits: the process has this type */
};

/* The progress of joining an account into another one. */
struct join {
    const struct account *into; /* the other one, */
    uint32_t of, mine;          /* its era, and the own one */
    int stage;
    size_t at;
    struct holdings_at held;
    size_t part;      /* of the census, for which there is room; from 1 */
    uint32_t base, n; /* index of the first process there, and how many there are */
    uint32_t types_n;
    uint32_t types[ACCOUNT_TYPES]; /* index there of each type */
};

/* The progress of bringing a census up to date, since a record was added last. */
struct settling {
    size_t part;               /* of the records */
    unsigned expected, fitted; /* parts of the census */
};

/* Of more processes nothing is lent: to copy their list would take too long. */
enum { ACCOUNT_LENDS = 1 << 20 };

/* Parts that another account has lent: every n-th one, from the i-th on. */
struct lent {
    const struct account *by;
    uint32_t of, mine; /* its era, and the own one */
    unsigned i, n;
    size_t max; /* the limit before */
};

/* What an account has added up of the parts of another one's processes: of every n-th block of the holdings,
 * from the i-th on. */
struct parts_share {
    const struct account *of;
    uint32_t era; /* of that one */
    unsigned i, n;
    bool done;
};

/* More threads than this are not needed: a set of them is a word. */
enum { ACCOUNT_SHARES = 64 };

struct account {
    const struct layout *lay;
    struct proctab tab;
    struct census all;
    struct pending pending; /* not in `all' yet */
    struct settling settling;
    uint64_t *pids; /* of processes; known.first is an index */
    size_t n, cap;
    size_t at;            /* progress of sum and rank */
    uint32_t era;         /* how often it was emptied */
    unsigned block_bytes; /* the allocator's own bytes in a block */
    struct sums_of_all sums;
    struct resource_types types;
    struct top_n top;
    enum account_by by;   /* the order of `top' */
    bool ranked;          /* everything has been considered for `top' */
    bool crowded;         /* nearly as many entries as allowed, so no more records wait */
    bool repeats;         /* most of the records are of Binaries that are in `all' */
    bool keeps;           /* what each process holds is kept, in */
    struct holdings held; /* which names processes by their index in pids */
    struct census wanted; /* if there are any: all others are left out */
    uint64_t *parts;      /* bytes of each process, in the order of pids; NULL: not known yet */
    size_t parts_n,
        cleared; /* how many there are, and how many of them are set to zero, or were taken */
    struct parts_share share;
    uint64_t shares;   /* bits: taken from other accounts, */
    unsigned shares_n; /* of so many */
    struct holdings_at parts_at, list_at;
    struct join join;
    struct lent lent;
};

/* max: of more Binaries the account is a sample. tagged: whether the allocator tags each block
 * (+M<S>atags). keeps: also remember what each process holds, which parts and lists need; then more Binaries are an
 * error. */
void account_init(struct account *a, const struct layout *lay, const struct proctab *tab,
                  size_t max, bool tagged, bool keeps);
void account_free(struct account *a);

/* Frees in slices: OK, TIMESLICE (call again). */
enum status account_free_some(struct account *a, struct budget *b);

/* Merges the Binaries of one process. known.first is the number of its refs in messages, or the
 * index of a resource's type; known.holders is not 0 if a term sees it as a binary. OK, TIMESLICE
 * (call again with the same arguments), NOMEM, TOO_LARGE. */
enum status account_merge(struct account *a, struct merge *m, uint64_t pid,
                          const struct census *its, const struct resource_types *types,
                          struct budget *b);

/* A process that holds nothing. OK, NOMEM, TOO_LARGE. */
enum status account_note(struct account *a, uint64_t pid);

/* Adds what `from' has of other processes; `from' has no Binary of a table or literal, and is of no use
 * afterwards. OK, TIMESLICE (call again), NOMEM, TOO_LARGE. */
enum status account_join(struct account *a, struct account *from, struct budget *b);

/* What was merged waits outside the census until this brings it up to date; sums and ranks do it, too. OK,
 * TIMESLICE (call again), NOMEM, TOO_LARGE. */
enum status account_settle(struct account *a, struct budget *b);

/* So that several threads can settle: `to', which is empty, gets every n-th part of what was merged, from the
 * i-th on; i is 1 to n - 1. Both settle, each by itself, then `to' returns all. In between nothing else
 * may be done with them. OK, NOMEM, TOO_LARGE (also where it is not allowed); account_return also TIMESLICE
 * (call again). */
enum status account_lend(struct account *a, struct account *to, unsigned i, unsigned n);
enum status account_return(struct account *a, struct account *from, struct budget *b);

/* Adds a Binary of a table or literal, as ets:info(_, binary) reports it; the account is settled. OK, NOMEM,
 * TOO_LARGE. */
enum status account_add(struct account *a, enum census_kind kind, const struct known *has);

/* Computes a->sums. OK, TIMESLICE (call again), NOMEM, TOO_LARGE. */
enum status account_sum(struct account *a, struct budget *b);

/* Puts the n Binaries with most bytes or references into a->top, with addresses in place of pids; or the n
 * processes with the largest parts. A Binary's holders have equal parts of its bytes, and the first of them
 * in term order also gets the remainder. A process is one holder for its off-heap lists, and another for its
 * messages; all references that no walk finds are together one holder, the first. OK, TIMESLICE (call
 * again), NOMEM. */
void account_rank_start(struct account *a, size_t n, enum account_by by);
enum status account_rank(struct account *a, struct budget *b);

/* So that several threads can add up parts, before they are ranked: `to' adds up the i-th of n shares of the parts of
 * `of', which is settled, and is only read; i < n <= ACCOUNT_SHARES. Then `of' takes all shares, each from another
 * account. OK, TIMESLICE (call again), NOMEM, TOO_LARGE (also where it is not allowed). */
enum status account_parts(struct account *to, const struct account *of, unsigned i, unsigned n,
                          struct budget *b);
enum status account_take_parts(struct account *of, struct account *from, struct budget *b);

/* After this, the account counts and lists this Binary and others that are wanted, and no more. OK, NOMEM,
 * TOO_LARGE. */
enum status account_want(struct account *a, uint64_t binary);

/* Of the processes, what they hold of the wanted Binaries, one holding after the other; from the first one
 * on. OK; GONE: there are no more; TIMESLICE: call again. */
void account_list_start(struct account *a);
enum status account_list(struct account *a, struct budget *b, struct holding *g);

#endif
