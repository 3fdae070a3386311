#include "binary/account.h"

#include "binary/account_merge.h"
#include "util/alloc.h"
#include "util/fill.h"

#include <string.h>

void account_init(struct account *a, const struct layout *lay, const struct proctab *tab,
                  size_t max, bool tagged, bool keeps)
{
    *a = (struct account){.lay = lay, .tab = *tab, .block_bytes = 8, .keeps = keeps};
    a->block_bytes += tagged ? lay->tag_bytes : 0;
    census_init(&a->all, max, keeps); /* parts and holdings of a sample would be of no use */
    census_init(&a->wanted, max, true);
    pending_init(&a->pending);
    /* as much as the entries take, at their limit */
    holdings_init(&a->held, max > SIZE_MAX / 4 ? SIZE_MAX : 4 * max);
    top_n_init(&a->top, 0);
}

/* A ranking is no longer valid once the census changes. */
void account_unrank(struct account *a)
{
    if (a->top.limit > 0) {
        top_n_free(&a->top);
        top_n_init(&a->top, 0);
    }
    account_drop_parts(a);
    a->ranked = false;
}

void account_free(struct account *a)
{
    census_free(&a->all);
    census_free(&a->wanted);
    pending_free(&a->pending);
    holdings_free(&a->held);
    account_unrank(a);
    resource_types_free(&a->types);
    sonde_free(a->pids);
    a->pids = NULL;
    a->era++; /* a scan may still be merging into the old account */
    account_list_start(a);
    a->at = 0;
    a->n = a->cap = 0;
    a->repeats = a->crowded = false;
    a->lent = (struct lent){0};
}

enum status account_free_some(struct account *a, struct budget *b)
{
    a->era++; /* from the first slice on, nothing may go on with what was there */
    account_unrank(a);
    account_list_start(a);
    if (!pending_free_some(&a->pending, b) || !census_free_some(&a->all, b) ||
        !census_free_some(&a->wanted, b) || !holdings_free_some(&a->held, b))
        return ST_TIMESLICE;
    account_free(a);
    return ST_OK;
}

/* ---- processes ---------------------------------------------------------------------------------- */

/* Grows by half, which the allocator can often do without a copy. */
static bool grow_pids(struct account *a)
{
    enum { FIRST = BOUND(64, 2) };
    size_t more = a->cap == 0 ? FIRST : a->cap + a->cap / 2;
    uint64_t *grown = sonde_realloc(a->pids, more * sizeof *grown);
    if (!grown)
        return false;
    a->pids = grown;
    a->cap = more;
    return true;
}

enum status account_note(struct account *a, uint64_t pid)
{
    account_unrank(a);
    if (a->n >= UINT32_MAX)
        return ST_TOO_LARGE;
    if (a->n == a->cap && !grow_pids(a))
        return ST_NOMEM;
    a->pids[a->n++] = pid;
    return ST_OK;
}

/* ---- tables, literals, and what is wanted -------------------------------------------------------- */

bool account_wants(const struct account *a, uint64_t binary)
{
    return a->wanted.n == 0 || census_find(&a->wanted, binary);
}

/* The entry for a Binary. GONE: it is not wanted, or not in the sample. */
static enum status entry_of(struct account *a, uint64_t binary, struct known **k)
{
    account_unrank(a);
    return account_wants(a, binary) ? census_add(&a->all, binary, k) : ST_GONE;
}

enum status account_add(struct account *a, enum census_kind kind, const struct known *has)
{
    struct known *k;
    struct known same = *has;
    enum status st = entry_of(a, has->binary, &k);
    if (st != ST_OK)
        return st == ST_GONE ? ST_OK : st;
    same.kinds = k->kinds & CENSUS_RESOURCE; /* a table does not tell them apart */
    st = account_meet(a, k, &same, (uint32_t)a->n);
    k->kinds |= kind & 0xFF;
    k->holders++;
    return st;
}

enum status account_want(struct account *a, uint64_t binary)
{
    struct known *k;
    account_unrank(a);
    return census_add(&a->wanted, binary, &k);
}

void account_list_start(struct account *a)
{
    a->list_at = (struct holdings_at){0};
}

enum status account_list(struct account *a, struct budget *b, struct holding *g)
{
    enum status st;
    do
        st = holdings_next(&a->held, &a->list_at, b, g);
    while (st == ST_OK && !account_wants(a, g->binary));
    return st;
}

/* ---- sums ----------------------------------------------------------------------------------- */

static enum share share_of(const struct known *k)
{
    if (k->kinds & CENSUS_RESOURCE)
        return SHARE_RESOURCES;
    if (account_is_elsewhere(k))
        return SHARE_ELSEWHERE;
    switch (k->kinds) {
    case CENSUS_HEAP:
        return SHARE_EXCLUSIVE;
    case CENSUS_HEAP | CENSUS_SEVERAL:
        return SHARE_SHARED;
    case CENSUS_TABLE:
        return SHARE_TABLES;
    case CENSUS_QUEUE:
        return SHARE_QUEUES;
    case CENSUS_LITERAL:
        return SHARE_LITERALS;
    default:
        return SHARE_MIXED;
    }
}

/* A block has the allocator's words, then the header and the bytes, rounded up to words. */
static uint64_t overhead(const struct account *a, uint64_t size)
{
    uint64_t wanted = LF(a->lay, bin_bytes) + size;
    return ((wanted + 7) & ~(uint64_t)7) + a->block_bytes - size;
}

enum status account_sum(struct account *a, struct budget *b)
{
    const struct known *k;
    enum status st = account_settle(a, b);
    while (st == ST_OK && (st = census_next(&a->all, &a->at, b, &k)) == ST_OK) {
        if (k->refs == 0)
            continue;
        a->sums.count++;
        /* what is lent has the types of the other account */
        if ((k->kinds & CENSUS_RESOURCE) && k->first < a->types.n) {
            a->types.list[k->first].count++;
            a->types.list[k->first].bytes += k->size;
        }
        a->sums.bytes[share_of(k)] += k->size;
        a->sums.overhead += overhead(a, k->size);
        a->sums.square += (double)k->size * (double)k->size;
    }
    return st == ST_GONE ? ST_OK : st;
}

/* ---- the largest ------------------------------------------------------------------------------ */

static enum status push(struct account *a, struct row row)
{
    return top_n_may_take(&a->top, row.value) && !top_n_push(&a->top, &row) ? ST_NOMEM : ST_OK;
}

static enum status rank_processes(struct account *a, struct budget *b)
{
    enum status st = account_all_parts(a, b);
    for (; st == ST_OK && a->at < a->n; a->at++) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        uint64_t pid = a->pids[a->at];
        st = push(a,
                  (struct row){(int64_t)a->parts[a->at], proctab_order(a->lay, &a->tab, pid), pid});
    }
    return st;
}

static enum status rank_binaries(struct account *a, struct budget *b)
{
    const struct known *k;
    enum status st = ST_OK;
    while (st == ST_OK && (st = census_next(&a->all, &a->at, b, &k)) == ST_OK) {
        int64_t value = a->by == BY_REFERENCES ? k->refs : (int64_t)k->size;
        if (k->refs > 0 && !(k->kinds & CENSUS_RESOURCE))
            st = push(a, (struct row){value, k->binary, k->binary});
    }
    return st == ST_GONE ? ST_OK : st;
}

void account_rank_start(struct account *a, size_t n, enum account_by by)
{
    top_n_free(&a->top);
    top_n_init(&a->top, n);
    a->ranked = false;
    a->by = by;
    a->at = 0;
}

enum status account_rank(struct account *a, struct budget *b)
{
    enum status st = ST_OK;
    if (!a->ranked)
        st = account_settle(a, b);
    if (!a->ranked && st == ST_OK)
        st = a->by == BY_PARTS ? rank_processes(a, b) : rank_binaries(a, b);
    if (st != ST_OK)
        return st;
    a->ranked = true;
    return top_n_sort(&a->top, b) ? ST_OK : ST_TIMESLICE;
}
