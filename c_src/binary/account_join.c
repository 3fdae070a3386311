#include "binary/account_merge.h"
#include "util/alloc.h"

enum join_stages { PIDS, TYPES, ENTRIES, RECORDS, HOLDINGS, JOINED };

static enum status join_pids(struct account *a, struct account *from, struct budget *b)
{
    struct join *j = &from->join;
    if (j->at == 0)
        j->base = (uint32_t)a->n;
    j->n = (uint32_t)from->n;
    if (a->n + (from->n - j->at) >= UINT32_MAX)
        return ST_TOO_LARGE;
    for (; j->at < from->n; j->at++) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        enum status st = account_note(a, from->pids[j->at]);
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
}

static enum status join_types(struct account *a, struct account *from)
{
    struct join *j = &from->join;
    for (uint32_t i = 0; i < from->types.n; i++) {
        const struct resource_type *type = &from->types.list[i];
        uint32_t there = resource_types_index(&a->types, type, ACCOUNT_TYPES);
        if (there == RESOURCE_TYPES_NOMEM)
            return ST_NOMEM;
        a->types.list[there].holders += type->holders;
        j->types[i] = there;
    }
    j->types_n = from->types.n;
    return ST_OK;
}

/* Its first holder is the first one that has it on its heap, or else in a message. */
static void unite_holders(const struct account *a, struct known *k, const struct known *more,
                          uint32_t first)
{
    const unsigned processes = CENSUS_HEAP | CENSUS_QUEUE;
    bool better = (more->kinds & CENSUS_HEAP) && !(k->kinds & CENSUS_HEAP);
    bool equal = !((more->kinds ^ k->kinds) & CENSUS_HEAP) && (more->kinds & processes);
    if (better ||
        (equal && (!(k->kinds & processes) || account_comes_before(a, a->pids[first], k->first))))
        k->first = first;
    bool several = k->kinds & more->kinds & CENSUS_HEAP;
    k->kinds |= more->kinds | (several ? CENSUS_SEVERAL : 0);
}

/* Unless one of the accounts has grown meanwhile, or is another one. */
static bool may_unite(const struct account *a, const struct join *j, const struct known *more)
{
    if (more->kinds & CENSUS_RESOURCE)
        return more->first < j->types_n && j->types[more->first] < a->types.n;
    return more->first < j->n && (uint64_t)j->base + more->first < a->n;
}

static enum status unite(struct account *a, const struct join *j, const struct known *more)
{
    struct known *k;
    if (!may_unite(a, j, more))
        return ST_TOO_LARGE;
    enum status st = census_add(&a->all, more->binary, &k);
    if (st != ST_OK)
        return st == ST_GONE ? ST_OK : st;
    st = account_meet(a, k, more, j->base);
    k->holders += more->holders;
    if (more->kinds & CENSUS_RESOURCE) {
        k->kinds = CENSUS_RESOURCE;
        k->first = j->types[more->first];
    } else {
        unite_holders(a, k, more, j->base + more->first);
    }
    return st;
}

/* Both are in the order of the hash, so nothing is far away. What is joined is freed at once, so that
 * both together never take much more than the result. */
static enum status join_entries(struct account *a, struct account *from, struct budget *b)
{
    struct join *j = &from->join;
    const struct known *more;
    enum status st;
    account_unrank(a);
    census_lower(&a->all, from->all.level);
    while ((st = census_next(&from->all, &j->at, b, &more)) == ST_OK) {
        size_t part = j->at >> 32;
        if (j->part > 0 && part + 1 != j->part)
            census_drop(&from->all, j->part - 1);
        if (part + 1 != j->part)
            st = census_expect(&a->all, part, census_count(&from->all, part));
        j->part = part + 1;
        if (st == ST_OK)
            st = unite(a, j, more);
        if (st != ST_OK)
            return st;
    }
    return st == ST_GONE ? ST_OK : st;
}

static enum status rename_records(const struct account *a, const struct join *j,
                                  struct pending_block *block)
{
    for (uint32_t i = 0; i < block->n; i++) {
        struct known *r = &block->list[i];
        if (r->holders >= j->n || (uint64_t)j->base + r->holders >= a->n ||
            ((r->kinds & CENSUS_RESOURCE) && r->first >= j->types_n))
            return ST_TOO_LARGE;
        r->holders += j->base;
        if (r->kinds & CENSUS_RESOURCE)
            r->first = j->types[r->first];
    }
    return ST_OK;
}

/* Blocks change hands, and are settled later. */
static enum status join_records(struct account *a, struct account *from, struct budget *b)
{
    enum { STEPS = 16 }; /* of the budget, for a block */
    struct join *j = &from->join;
    a->settling = (struct settling){0};
    while (j->at < PENDING_PARTS) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        struct pending_block *block = pending_take(&from->pending, j->at);
        if (!block) {
            j->at++;
            continue;
        }
        b->steps -= b->steps < STEPS ? b->steps : STEPS;
        enum status st = rename_records(a, j, block);
        if (st == ST_OK)
            st = pending_give(&a->pending, j->at, block);
        if (st != ST_OK) {
            sonde_free(block);
            return st;
        }
    }
    return ST_OK;
}

/* Unless there are more processes than were joined. */
static enum status join_holdings(struct account *a, struct account *from, struct budget *b)
{
    struct join *j = &from->join;
    account_unrank(a);
    if (from->n != j->n || (uint64_t)j->base + j->n > a->n)
        return ST_TOO_LARGE;
    return holdings_join(&a->held, &from->held, j->base, &j->held, b);
}

static enum status join_stage(struct account *a, struct account *from, struct budget *b)
{
    switch (from->join.stage) {
    case PIDS:
        return join_pids(a, from, b);
    case TYPES:
        return join_types(a, from);
    case ENTRIES:
        return join_entries(a, from, b);
    case RECORDS:
        return join_records(a, from, b);
    default:
        return join_holdings(a, from, b);
    }
}

enum status account_join(struct account *a, struct account *from, struct budget *b)
{
    struct join *j = &from->join;
    if (j->into != a || j->of != a->era || j->mine != from->era)
        *j = (struct join){.into = a, .of = a->era, .mine = from->era};
    while (j->stage != JOINED) {
        enum status st = join_stage(a, from, b);
        if (st != ST_OK)
            return st;
        j->stage++;
        j->at = 0;
    }
    return ST_OK;
}
