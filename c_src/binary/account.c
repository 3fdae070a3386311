#include "binary/account.h"

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
    /* as much as the entries take, at their limit */
    holdings_init(&a->held, max > SIZE_MAX / 4 ? SIZE_MAX : 4 * max);
    top_n_init(&a->top, 0);
}

/* A ranking is no longer valid once the census changes. */
static void unrank(struct account *a)
{
    if (a->top.limit > 0) {
        top_n_free(&a->top);
        top_n_init(&a->top, 0);
    }
    (void)SONDE_DROP(a->parts);
    a->ranked = false;
}

void account_free(struct account *a)
{
    census_free(&a->all);
    census_free(&a->wanted);
    holdings_free(&a->held);
    unrank(a);
    resource_types_free(&a->types);
    sonde_free(a->pids);
    a->pids = NULL;
    a->era++; /* a scan may still be merging into the old account */
    account_list_start(a);
    a->at = 0;
    a->n = a->cap = 0;
}

enum status account_free_some(struct account *a, struct budget *b)
{
    a->era++; /* from the first slice on, nothing may go on with what was there */
    unrank(a);
    account_list_start(a);
    if (!census_free_some(&a->all, b) || !holdings_free_some(&a->held, b))
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
    unrank(a);
    if (a->n >= UINT32_MAX)
        return ST_TOO_LARGE;
    if (a->n == a->cap && !grow_pids(a))
        return ST_NOMEM;
    a->pids[a->n++] = pid;
    return ST_OK;
}

/* ---- holders -------------------------------------------------------------------------------- */

/* The Binary was freed meanwhile, and another one, or a resource, has its address now. */
static enum status is_another(struct account *a, struct known *k)
{
    *k = (struct known){.binary = k->binary};
    return a->keeps ? holdings_forget(&a->held, k->binary) : ST_OK;
}

static enum status meet(struct account *a, struct known *k, const struct known *has)
{
    bool other = k->size != has->size || ((k->kinds ^ has->kinds) & CENSUS_RESOURCE);
    enum status st = k->refs != 0 && other ? is_another(a, k) : ST_OK;
    k->size = has->size;
    k->refc = has->refc;
    k->refs = census_count32((uint64_t)k->refs + has->refs);
    return st;
}

static bool comes_before(const struct account *a, uint64_t pid, uint32_t other)
{
    return proctab_order(a->lay, &a->tab, pid) < proctab_order(a->lay, &a->tab, a->pids[other]);
}

static void on_heap(const struct account *a, struct known *k, uint32_t me)
{
    if (!(k->kinds & CENSUS_HEAP) || comes_before(a, a->pids[me], k->first))
        k->first = me;
    k->kinds |= k->kinds & CENSUS_HEAP ? CENSUS_SEVERAL : CENSUS_HEAP;
    k->holders++;
}

static void in_queue(const struct account *a, struct known *k, uint32_t me)
{
    bool first = !(k->kinds & CENSUS_QUEUE) || comes_before(a, a->pids[me], k->first);
    if (first && !(k->kinds & CENSUS_HEAP))
        k->first = me;
    k->kinds |= CENSUS_QUEUE;
    k->holders++;
}

/* has->first is an index in the process's own list of types. */
static enum status resource(struct account *a, struct known *k, const struct known *has,
                            const struct resource_types *types, struct merge *m)
{
    uint32_t i = resource_types_index(&a->types, &types->list[has->first], ACCOUNT_TYPES);
    if (i == RESOURCE_TYPES_NOMEM)
        return ST_NOMEM;
    a->types.list[i].holders += !(m->types[i / 64] >> i % 64 & 1);
    m->types[i / 64] |= 1ULL << i % 64;
    k->kinds = CENSUS_RESOURCE;
    k->first = i;
    k->holders++;
    return ST_OK;
}

static bool is_wanted(const struct account *a, uint64_t binary)
{
    return a->wanted.n == 0 || census_find(&a->wanted, binary);
}

/* The entry for a Binary. GONE: it is not wanted, or not in the sample. */
static enum status entry_of(struct account *a, uint64_t binary, struct known **k)
{
    unrank(a);
    return is_wanted(a, binary) ? census_add(&a->all, binary, k) : ST_GONE;
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
    struct known *k;
    enum status st = entry_of(a, has->binary, &k);
    if (st != ST_OK)
        return st == ST_GONE ? ST_OK : st;
    st = meet(a, k, has);
    if (st == ST_OK && (has->kinds & CENSUS_RESOURCE)) {
        st = resource(a, k, has, types, m);
    } else if (st == ST_OK) {
        if (has->refs > has->first)
            on_heap(a, k, m->me);
        if (has->first > 0)
            in_queue(a, k, m->me);
    }
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
        if (st == ST_OK) {
            census_prefetch(&a->all, its, m->at);
            st = merge(a, m, has, types);
        }
    }
    m->begun = st == ST_TIMESLICE;
    return st == ST_GONE ? ST_OK : st;
}

/* ---- two accounts of different processes ---------------------------------------------------------- */

enum join_stages { PIDS, TYPES, ENTRIES, HOLDINGS, JOINED };

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
    if (better || (equal && (!(k->kinds & processes) || comes_before(a, a->pids[first], k->first))))
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
    st = meet(a, k, more);
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
    unrank(a);
    census_lower(&a->all, from->all.level);
    while ((st = census_next(&from->all, &j->at, b, &more)) == ST_OK) {
        size_t part = j->at >> 32;
        if (j->part > 0 && part + 1 != j->part)
            census_drop(&from->all, j->part - 1);
        if (part + 1 != j->part)
            st = census_expect(&a->all, &from->all, part);
        j->part = part + 1;
        if (st == ST_OK)
            st = unite(a, j, more);
        if (st != ST_OK)
            return st;
    }
    return st == ST_GONE ? ST_OK : st;
}

/* Unless there are more processes than were joined. */
static enum status join_holdings(struct account *a, struct account *from, struct budget *b)
{
    struct join *j = &from->join;
    unrank(a);
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

enum status account_add(struct account *a, enum census_kind kind, const struct known *has)
{
    struct known *k;
    struct known same = *has;
    enum status st = entry_of(a, has->binary, &k);
    if (st != ST_OK)
        return st == ST_GONE ? ST_OK : st;
    same.kinds = k->kinds & CENSUS_RESOURCE; /* a table does not tell them apart */
    st = meet(a, k, &same);
    k->kinds |= kind & 0xFF;
    k->holders++;
    return st;
}

enum status account_want(struct account *a, uint64_t binary)
{
    struct known *k;
    unrank(a);
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
    while (st == ST_OK && !is_wanted(a, g->binary));
    return st;
}

/* ---- sums ----------------------------------------------------------------------------------- */

static bool is_elsewhere(const struct known *k)
{
    return k->refs < k->refc;
}

static enum share share_of(const struct known *k)
{
    if (k->kinds & CENSUS_RESOURCE)
        return SHARE_RESOURCES;
    if (is_elsewhere(k))
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
    enum status st;
    while ((st = census_next(&a->all, &a->at, b, &k)) == ST_OK) {
        if (k->refs == 0)
            continue;
        a->sums.count++;
        if (k->kinds & CENSUS_RESOURCE) {
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

/* The bytes of this Binary that belong to its holder. */
static uint64_t part_of(const struct account *a, const struct holding *g)
{
    const struct known *k = census_find(&a->all, g->binary);
    if (!k || k->holders == 0)
        return 0;
    uint64_t mine = (uint64_t)(g->refs > g->queued) + (g->queued > 0);
    uint64_t others = is_elsewhere(k) || (k->kinds & CENSUS_LITERAL) ? 1 : 0;
    uint64_t holders = k->holders - ((k->kinds & CENSUS_LITERAL) != 0) + others;
    bool processes_first =
        (k->kinds & CENSUS_HEAP) ? g->refs > g->queued : !(k->kinds & CENSUS_TABLE);
    bool first =
        others == 0 && processes_first && !(k->kinds & CENSUS_RESOURCE) && k->first == g->holder;
    return mine * (k->size / holders) + (first ? k->size % holders : 0);
}

static enum status start_parts(struct account *a)
{
    a->parts = sonde_alloc((a->n + 1) * sizeof *a->parts);
    a->cleared = 0;
    a->parts_at = (struct holdings_at){0};
    return a->parts ? ST_OK : ST_NOMEM;
}

static enum status parts(struct account *a, struct budget *b)
{
    struct holding g;
    enum status st = a->parts ? ST_OK : start_parts(a);
    if (st == ST_OK)
        st = wipe(a->parts, sizeof *a->parts, a->n, &a->cleared, b);
    while (st == ST_OK && (st = holdings_next(&a->held, &a->parts_at, b, &g)) == ST_OK) {
        census_ask(&a->all, holdings_ahead(&a->held, &a->parts_at));
        a->parts[g.holder] += part_of(a, &g);
    }
    return st == ST_GONE ? ST_OK : st;
}

static enum status push(struct account *a, struct row row)
{
    return top_n_may_take(&a->top, row.value) && !top_n_push(&a->top, row) ? ST_NOMEM : ST_OK;
}

static enum status rank_processes(struct account *a, struct budget *b)
{
    enum status st = parts(a, b);
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
    unrank(a);
    a->by = by;
    top_n_init(&a->top, n);
    a->at = 0;
}

enum status account_rank(struct account *a, struct budget *b)
{
    enum status st = ST_OK;
    if (!a->ranked)
        st = a->by == BY_PARTS ? rank_processes(a, b) : rank_binaries(a, b);
    if (st != ST_OK)
        return st;
    a->ranked = true;
    return top_n_sort(&a->top, b) ? ST_OK : ST_TIMESLICE;
}
