#include "binary/account_merge.h"
#include "util/alloc.h"
#include "util/fill.h"

/* The bytes of this Binary that belong to its holder. Most have one holder, and a division takes longer than all the
 * rest. */
static uint64_t part_of(const struct account *a, const struct holding *g)
{
    const struct known *k = census_find(&a->all, g->binary);
    if (!k || k->holders == 0)
        return 0;
    uint64_t mine = (uint64_t)(g->refs > g->queued) + (g->queued > 0);
    uint64_t others = account_is_elsewhere(k) || (k->kinds & CENSUS_LITERAL) ? 1 : 0;
    uint64_t holders = k->holders - ((k->kinds & CENSUS_LITERAL) != 0) + others;
    if (holders == 1)
        return mine * k->size;
    bool processes_first =
        (k->kinds & CENSUS_HEAP) ? g->refs > g->queued : !(k->kinds & CENSUS_TABLE);
    bool first =
        others == 0 && processes_first && !(k->kinds & CENSUS_RESOURCE) && k->first == g->holder;
    uint64_t each = k->size / holders;
    return mine * each + (first ? k->size - each * holders : 0);
}

void account_drop_parts(struct account *a)
{
    (void)SONDE_DROP(a->parts);
    a->parts_n = 0;
    a->shares = 0;
    a->share = (struct parts_share){0};
}

static enum status start_parts(struct account *to, const struct account *of)
{
    to->parts = sonde_alloc((of->n + 1) * sizeof *to->parts);
    to->parts_n = of->n;
    to->cleared = 0;
    to->parts_at = (struct holdings_at){.block = to->share.i, .skip = to->share.n - 1};
    return to->parts ? ST_OK : ST_NOMEM;
}

/* What `of' has may change between two slices, so each holder is compared with the length of the list. */
static enum status add_up(struct account *to, const struct account *of, struct budget *b)
{
    struct holding g;
    enum status st = to->parts ? ST_OK : start_parts(to, of);
    if (st == ST_OK)
        st = wipe(to->parts, sizeof *to->parts, to->parts_n, &to->cleared, b);
    while (st == ST_OK && (st = holdings_next(&of->held, &to->parts_at, b, &g)) == ST_OK) {
        census_ask(&of->all, holdings_ahead(&of->held, &to->parts_at));
        if (g.holder >= to->parts_n)
            return ST_TOO_LARGE;
        to->parts[g.holder] += part_of(of, &g);
    }
    if (st != ST_GONE)
        return st;
    to->share.done = true;
    to->cleared = 0;
    return ST_OK;
}

/* Starts anew unless it is the same share. */
static enum status add_share(struct account *to, const struct account *of, struct parts_share s,
                             struct budget *b)
{
    const struct parts_share *has = &to->share;
    if (has->of != s.of || has->era != s.era || has->i != s.i || has->n != s.n) {
        account_drop_parts(to);
        to->share = s;
    }
    return has->done ? ST_OK : add_up(to, of, b);
}

static bool is_settled(const struct account *a)
{
    return !a->pending.parts || a->settling.part == PENDING_PARTS;
}

enum status account_parts(struct account *to, const struct account *of, unsigned i, unsigned n,
                          struct budget *b)
{
    if (to == of || i >= n || n > ACCOUNT_SHARES || to->n > 0 || !is_settled(of))
        return ST_TOO_LARGE;
    return add_share(to, of, (struct parts_share){.of = of, .era = of->era, .i = i, .n = n}, b);
}

static bool has_all_shares(const struct account *a)
{
    return a->shares != 0 && a->shares == UINT64_MAX >> (ACCOUNT_SHARES - a->shares_n);
}

enum status account_all_parts(struct account *a, struct budget *b)
{
    if (has_all_shares(a))
        return ST_OK;
    if (a->shares != 0)
        account_drop_parts(a);
    return add_share(a, a, (struct parts_share){.of = a, .era = a->era, .i = 0, .n = 1}, b);
}

static bool may_take(const struct account *a, const struct account *from)
{
    const struct parts_share *s = &from->share;
    bool same = a->shares == 0 || a->shares_n == s->n;
    return a != from && s->done && s->of == a && s->era == a->era && from->parts_n == a->n &&
           same && !(a->shares >> s->i & 1);
}

/* The first share becomes the sum. */
static enum status take_first(struct account *a, struct account *from)
{
    struct parts_share s = from->share;
    account_drop_parts(a);
    a->parts = from->parts;
    a->parts_n = from->parts_n;
    from->parts = NULL;
    account_drop_parts(from);
    a->shares_n = s.n;
    a->shares = 1ULL << s.i;
    return ST_OK;
}

enum status account_take_parts(struct account *a, struct account *from, struct budget *b)
{
    enum { STEP = 64 };
    if (!may_take(a, from))
        return ST_TOO_LARGE;
    if (a->shares == 0)
        return take_first(a, from);
    for (size_t *i = &from->cleared; *i < a->parts_n; ++*i) {
        if (*i % STEP == 0 && !budget_step(b))
            return ST_TIMESLICE;
        a->parts[*i] += from->parts[*i];
    }
    a->shares |= 1ULL << from->share.i;
    account_drop_parts(from);
    return ST_OK;
}
