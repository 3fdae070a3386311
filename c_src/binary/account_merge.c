#include "binary/account_merge.h"

#include "util/alloc.h"

/* ---- holders -------------------------------------------------------------------------------- */

/* The Binary was freed meanwhile, and another one, or a resource, has its address now. Of two, that of the later
 * processes is the present one; after a join these may be met first. GONE: it is the one that was freed. */
static enum status is_another(struct account *a, struct known *k, uint32_t me)
{
    bool process = k->kinds & (CENSUS_HEAP | CENSUS_QUEUE);
    bool later = process && k->first > me;
    if (!later)
        *k = (struct known){.binary = k->binary};
    enum status st = a->keeps ? holdings_forget(&a->held, k->binary, later ? me + 1 : me) : ST_OK;
    return st == ST_OK && later ? ST_GONE : st;
}

enum status account_meet(struct account *a, struct known *k, const struct known *has, uint32_t me)
{
    bool other = k->size != has->size || ((k->kinds ^ has->kinds) & CENSUS_RESOURCE);
    enum status st = k->refs != 0 && other ? is_another(a, k, me) : ST_OK;
    if (st != ST_OK)
        return st;
    k->size = has->size;
    k->refc = has->refc;
    k->refs = census_count32((uint64_t)k->refs + has->refs);
    return ST_OK;
}

bool account_comes_before(const struct account *a, uint64_t pid, uint32_t other)
{
    return proctab_order(a->lay, &a->tab, pid) < proctab_order(a->lay, &a->tab, a->pids[other]);
}

static void on_heap(const struct account *a, struct known *k, uint32_t me)
{
    if (!(k->kinds & CENSUS_HEAP) || account_comes_before(a, a->pids[me], k->first))
        k->first = me;
    k->kinds |= k->kinds & CENSUS_HEAP ? CENSUS_SEVERAL : CENSUS_HEAP;
    k->holders++;
}

static void in_queue(const struct account *a, struct known *k, uint32_t me)
{
    bool first = !(k->kinds & CENSUS_QUEUE) || account_comes_before(a, a->pids[me], k->first);
    if (first && !(k->kinds & CENSUS_HEAP))
        k->first = me;
    k->kinds |= CENSUS_QUEUE;
    k->holders++;
}

/* ---- records that are not in the census yet ------------------------------------------------------ */

/* A record is what a process holds of a Binary: `holders' is the index of the process; `first', how many
 * of the references are in messages, or the type of a resource. */
static enum status settle_record(struct account *a, const struct known *r)
{
    struct known *k;
    uint32_t me = r->holders;
    enum status st = census_add(&a->all, r->binary, &k);
    if (st != ST_OK)
        return st == ST_GONE ? ST_OK : st;
    st = account_meet(a, k, r, me);
    if (st == ST_GONE)
        return ST_OK;
    if (st == ST_OK && (r->kinds & CENSUS_RESOURCE)) {
        k->kinds = CENSUS_RESOURCE;
        k->first = r->first;
        k->holders++;
    } else if (st == ST_OK) {
        if (r->refs > r->first)
            on_heap(a, k, me);
        if (r->first > 0)
            in_queue(a, k, me);
    }
    return st;
}

static enum status settle_block(struct account *a, const struct pending_block *from)
{
    enum { AHEAD = 8 };
    enum status st = ST_OK;
    for (uint32_t i = 0; i < from->n && st == ST_OK; i++) {
        if (i + AHEAD < from->n)
            census_ask(&a->all, from->list[i + AHEAD].binary);
        st = settle_record(a, &from->list[i]);
    }
    return st;
}

uint64_t account_settled(const struct account *a, size_t part)
{
    uint64_t n = 0;
    for (size_t i = 0; i < CENSUS_SHARE; i++)
        n += census_count(&a->all, part * CENSUS_SHARE + i);
    return n;
}

/* The first part shows how many of the records are of the same Binaries. */
enum { SAMPLE = 0 };

static enum status settle_some(struct account *a, size_t part)
{
    struct pending_block *from = pending_take(&a->pending, part);
    if (!from)
        return ST_OK;
    uint64_t before = account_settled(a, part);
    enum status st = settle_block(a, from);
    if (part == SAMPLE)
        a->repeats = account_settled(a, part) - before < from->n / 2;
    sonde_free(from);
    return st;
}

/* A record takes less memory than an entry; so as long as most of them are of new Binaries, there may be many.
 * With
 * the entries that they are and may become they stay within the limit of the census. */
static uint64_t may_be_pending(const struct account *a, size_t part)
{
    enum { FEW = 2 * PENDING_BLOCK, MANY = 16 * PENDING_BLOCK };
    bool many = part != SAMPLE && !a->repeats;
    uint64_t n = account_settled(a, part);
    uint64_t most = a->all.max / PENDING_PARTS;
    uint64_t some = many ? 4 * n : n;
    uint64_t first = many ? MANY : FEW;
    uint64_t left = most > n ? (most - n) / 2 : 0;
    some = some < first ? first : some;
    return some < left ? some : left;
}

/* OK: there is room for another block; GONE: there will be none. Settles two blocks for each new one, so that no
 * addition takes long and there will be fewer. */
static enum status make_room(struct account *a, size_t part)
{
    uint64_t most = may_be_pending(a, part);
    bool none = most < 2 * (uint64_t)PENDING_BLOCK;
    for (unsigned i = 0; i < 2 || none; i++) {
        uint64_t n = pending_count(&a->pending, part);
        if (n == 0 || (!none && n + PENDING_BLOCK <= most))
            break;
        enum status st = settle_some(a, part);
        if (st != ST_OK)
            return st;
    }
    return none ? ST_GONE : ST_OK;
}

static enum status put(struct account *a, const struct known *record)
{
    if (!a->all.parts)
        return settle_record(a, record);
    size_t part = pending_part(record->binary);
    if (a->crowded && pending_count(&a->pending, part) == 0)
        return settle_record(a, record);
    enum status st = pending_is_full(&a->pending, part) ? make_room(a, part) : ST_OK;
    a->crowded = a->crowded || st == ST_GONE;
    if (st != ST_OK)
        return st == ST_GONE ? settle_record(a, record) : st;
    a->settling = (struct settling){0};
    return pending_add(&a->pending, part, record);
}

/* Room is made in each part of the census, then come the records, then what is too much is given back. */
static enum status settle_step(struct account *a)
{
    struct settling *s = &a->settling;
    size_t first = s->part * CENSUS_SHARE;
    uint32_t left = pending_count(&a->pending, s->part);
    if (left > 0 && s->expected < CENSUS_SHARE)
        return census_expect(&a->all, first + s->expected++, left / CENSUS_SHARE);
    if (left > 0)
        return settle_some(a, s->part);
    if (s->fitted < s->expected)
        return census_fit(&a->all, first + s->fitted++);
    *s = (struct settling){.part = s->part + 1};
    return ST_OK;
}

enum status account_settle(struct account *a, struct budget *b)
{
    enum { STEPS = 64 }; /* of the budget, for a block */
    enum status st = ST_OK;
    while (st == ST_OK && a->pending.parts && a->settling.part < PENDING_PARTS) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        b->steps -= b->steps < STEPS ? b->steps : STEPS;
        st = settle_step(a);
    }
    return st;
}

/* ---- processes ---------------------------------------------------------------------------------- */

/* has->first is an index in the process's own list of types; *i is that of the account's. */
static enum status resource_type(struct account *a, const struct known *has,
                                 const struct resource_types *types, struct merge *m, uint32_t *i)
{
    *i = resource_types_index(&a->types, &types->list[has->first], ACCOUNT_TYPES);
    if (*i == RESOURCE_TYPES_NOMEM)
        return ST_NOMEM;
    a->types.list[*i].holders += !(m->types[*i / 64] >> *i % 64 & 1);
    m->types[*i / 64] |= 1ULL << *i % 64;
    return ST_OK;
}

/* Only of a resource that a term sees as a binary. */
static enum status keep(struct account *a, const struct merge *m, const struct known *has)
{
    bool is_resource = has->kinds & CENSUS_RESOURCE;
    struct holding g = {has->binary, m->me, has->refs, is_resource ? 0 : has->first};
    if (!a->keeps || (is_resource && (has->holders == 0 || a->wanted.n > 0)))
        return ST_OK;
    return holdings_add(&a->held, &g);
}

static enum status merge(struct account *a, struct merge *m, const struct known *has,
                         const struct resource_types *types)
{
    struct known record = *has;
    enum status st = ST_OK;
    account_unrank(a);
    if (!account_wants(a, has->binary))
        return ST_OK;
    record.kinds &= CENSUS_RESOURCE;
    record.holders = m->me;
    if (has->kinds & CENSUS_RESOURCE)
        st = resource_type(a, has, types, m, &record.first);
    if (st == ST_OK)
        st = put(a, &record);
    return st == ST_OK ? keep(a, m, has) : st;
}

static enum status begin(struct account *a, struct merge *m, uint64_t pid)
{
    enum status st = account_note(a, pid);
    if (st == ST_OK)
        *m = (struct merge){.begun = true, .of = a->era, .me = (uint32_t)a->n - 1};
    return st;
}

enum status account_merge(struct account *a, struct merge *m, uint64_t pid,
                          const struct census *its, const struct resource_types *types,
                          struct budget *b)
{
    const struct known *has;
    enum status st = m->begun && m->of == a->era ? ST_OK : begin(a, m, pid);
    while (st == ST_OK) {
        st = census_next(its, &m->at, b, &has);
        if (st == ST_OK)
            st = merge(a, m, has, types);
    }
    m->begun = st == ST_TIMESLICE;
    return st == ST_GONE ? ST_OK : st;
}
