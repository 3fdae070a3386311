#include "binary/account_merge.h"
#include "util/alloc.h"

/* Who comes first of a Binary's holders is looked up in the list of processes. */
static bool copy_pids(struct account *a, const struct account *from)
{
    a->pids = sonde_alloc((from->n + 1) * sizeof *a->pids);
    if (!a->pids)
        return false;
    memcpy(a->pids, from->pids, from->n * sizeof *a->pids);
    a->n = from->n;
    a->cap = from->n + 1;
    return true;
}

static void move_part(struct account *to, struct account *from, size_t part)
{
    pending_move(&to->pending, &from->pending, part);
    for (size_t i = 0; i < CENSUS_SHARE; i++)
        census_move(&to->all, &from->all, part * CENSUS_SHARE + i);
}

static bool is_empty(const struct account *a)
{
    return a->n == 0 && a->all.n == 0 && !a->all.parts && !a->pending.parts && a->wanted.n == 0;
}

/* The limits of all are together that of a; but whether there are too many is only known in the end. */
static void share_limit(struct account *a, struct account *to, unsigned others)
{
    to->all.max = a->all.whole ? a->all.max : a->all.max / others;
    a->all.max -= a->all.whole ? 0 : to->all.max;
}

enum status account_lend(struct account *a, struct account *to, unsigned i, unsigned n)
{
    if (!is_empty(to) || a->lent.by || i == 0 || i >= n)
        return ST_TOO_LARGE;
    if (!a->all.parts || !a->pending.parts || a->n > ACCOUNT_LENDS)
        return ST_OK;
    if (!copy_pids(to, a) || !census_begin(&to->all) || !pending_begin(&to->pending))
        return ST_NOMEM;
    account_unrank(a);
    to->keeps = a->keeps;
    to->repeats = a->repeats;
    to->all.whole = a->all.whole;
    to->all.level = a->all.level;
    to->all.pruned = 0;
    to->lent = (struct lent){a, a->era, to->era, i, n, to->all.max};
    share_limit(a, to, n - i + 1);
    for (size_t part = i; part < PENDING_PARTS; part += n)
        move_part(to, a, part);
    a->settling = to->settling = (struct settling){0};
    return ST_OK;
}

/* Binaries that were freed while they settled. */
static enum status forget(struct account *a, const struct account *from, size_t *at,
                          struct budget *b)
{
    const struct known *k;
    enum status st;
    while ((st = census_next(&from->held.freed, at, b, &k)) == ST_OK) {
        st = holdings_forget(&a->held, k->binary, (uint32_t)k->size);
        if (st != ST_OK)
            return st;
    }
    return st == ST_GONE ? ST_OK : st;
}

static bool may_return(const struct account *a, const struct account *from)
{
    const struct lent *l = &from->lent;
    bool right = l->by == a && l->of == a->era && l->mine == from->era && from->n == a->n;
    for (size_t part = l->i; right && part < PENDING_PARTS; part += l->n)
        right = account_settled(a, part) == 0 && pending_count(&a->pending, part) == 0;
    return right;
}

enum status account_return(struct account *a, struct account *from, struct budget *b)
{
    const struct lent *l = &from->lent;
    if (!l->by && is_empty(from))
        return ST_OK;
    if (!l->by || !may_return(a, from))
        return ST_TOO_LARGE;
    enum status st = forget(a, from, &from->at, b);
    if (st != ST_OK)
        return st;
    for (size_t part = l->i; part < PENDING_PARTS; part += l->n)
        move_part(a, from, part);
    account_unrank(a);
    census_lower(&a->all, from->all.level);
    a->all.max += a->all.whole ? 0 : from->all.max;
    from->all.max = l->max;
    from->lent = (struct lent){0};
    from->at = 0;
    return a->all.whole && a->all.n > a->all.max ? ST_TOO_LARGE : ST_OK;
}
