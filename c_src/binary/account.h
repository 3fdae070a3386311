/* account.h: who holds which Binaries, over all processes, tables and literals.
 * Knows: how what one holder has goes into a census of all, and to whom a Binary's bytes belong.
 * Does not know: how references are found. Follows no address. */
#ifndef SONDE_ACCOUNT_H
#define SONDE_ACCOUNT_H

#include "util/census.h"
#include "vm/proctab.h"
#include "util/top_n.h"
#include "process/resource_types.h"

/* To whom the bytes of a Binary belong: to exactly one of these. */
enum share {
    SHARE_EXCLUSIVE, /* one process */
    SHARE_SHARED,    /* several processes */
    SHARE_TABLES,
    SHARE_QUEUES, /* messages that are not on a heap yet */
    SHARE_LITERALS,
    SHARE_MIXED,     /* several of these */
    SHARE_RESOURCES, /* no binaries, but memory of native libraries */
    SHARE_ELSEWHERE, /* something refers to it that is none of these */
    SHARE_COUNT
};

/* Sums over all Binaries of a census; of a sample as if each of its Binaries stood for all that are left
 * out with it. */
struct sums_of_all {
    uint64_t count;
    uint64_t bytes[SHARE_COUNT];
    uint64_t overhead; /* headers, and what the allocator adds */
    double square;     /* of the bytes, for the error of a sample */
};

/* What one process has of a Binary that is wanted. */
struct holding {
    uint64_t binary, pid, size;
    uint32_t refs, queued; /* references, and how many of them are in messages */
};

/* For how many types of resources there are sums of their own. */
enum { ACCOUNT_TYPES = BOUND(1024, 4) };

/* One process on its way into an account; who merges has one, zeroed, and uses it for one process after
 * the other. */
struct merge {
    bool begun, followed;
    uint32_t of; /* the account may be emptied meanwhile: it is another one then */
    uint32_t me; /* an index of its pids */
    size_t at;   /* in the census of the process */
    uint64_t print;
    uint64_t types[(ACCOUNT_TYPES + 63) / 64]; /* that it has */
};

struct account {
    const struct layout *lay;
    struct proctab tab;
    struct census all;
    uint64_t *pids; /* of processes that hold something; known.first is an index */
    size_t n, cap;
    size_t at;              /* how far sums were added */
    uint32_t era;           /* how often it was emptied */
    bool prints;            /* there is a second pass: the prints are noted */
    struct census counted;  /* by pid, 32 bytes each: `size' is the print of what it had */
    struct census followed; /* by pid: whose holdings are kept */
    unsigned block_bytes;   /* what the allocator adds to a block */
    struct sums_of_all sums;
    struct resource_types types;
    struct top_n top;
    bool ranked; /* all of them have been looked at */
    bool wants;  /* not all Binaries, but those that are in `all' already, and their holders */
    struct holding *holdings;
    size_t holdings_n, holdings_cap;
};

/* tagged: whether the allocator says before each block whose it is. */
void account_init(struct account *a, const struct layout *lay, const struct proctab *tab,
                  size_t max, bool tagged);
void account_free(struct account *a);

/* The same in slices: OK, TIMESLICE (call again). */
enum status account_free_some(struct account *a, struct budget *b);

/* What one process has: known.first says how many of refs are in messages, of a resource which of the types
 * it is, and known.holders how many see it as a binary. OK, TIMESLICE (call again with the same), NOMEM,
 * TOO_LARGE. */
enum status account_merge(struct account *a, struct merge *m, uint64_t pid,
                          const struct census *its, const struct resource_types *types,
                          struct budget *b);

/* What a table or the literals have, in the words of ets:info(_, binary). OK, NOMEM, TOO_LARGE. */
enum status account_add(struct account *a, enum census_kind kind, const struct known *has);

/* OK, TIMESLICE (call again). */
enum status account_sum(struct account *a, struct budget *b);

/* The n with most bytes, or most references; a->top then has their addresses in place of pids. OK, TIMESLICE
 * (call again), NOMEM. */
enum status account_rank(struct account *a, bool by_references, struct budget *b);
void account_rank_start(struct account *a, size_t n);

/* Of the bytes of a Binary those that belong to this process, where each holder has an equal share and the
 * first of them, in the order of terms, what remains. What is not walked is one holder, and the first.
 * OK; CHANGED: that is not what was counted. */
enum status account_share(const struct account *a, uint64_t pid, const struct known *has,
                          uint64_t *share);

/* A process has the part of a holder for its lists, and one for its messages. Its parts add up to what it
 * was counted with only if it has the same, in the same places, as then: the sum of these prints says so.
 * Resources do not count, because one walk meets more of them than the other. */
uint64_t account_print(const struct known *has);
bool account_is_counted(const struct account *a, uint64_t pid, uint64_t print);

/* Who has something else than that is among the holdings, with no binary. OK, NOMEM. */
enum status account_note_changed(struct account *a, uint64_t pid);

/* Keeps what this process has, with it, so that its part needs no second look. OK, NOMEM, TOO_LARGE. */
enum status account_follow(struct account *a, uint64_t pid);

/* From now on only this Binary, and all others that are wanted. OK, NOMEM, TOO_LARGE. */
enum status account_want(struct account *a, uint64_t binary);

#endif
