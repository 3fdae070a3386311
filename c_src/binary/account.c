#include "binary/account.h"

#include "util/alloc.h"

#include <string.h>

void account_init(struct account *a, const struct layout *lay, const struct proctab *tab,
                  size_t max, bool tagged)
{
    *a = (struct account){.lay = lay, .tab = *tab, .block_bytes = 8, .prints = true};
    a->block_bytes += tagged ? lay->tag_bytes : 0;
    census_init(&a->all, max, false);
    census_init(&a->counted, UINT32_MAX, true); /* as many as there are processes, like pids */
    census_init(&a->followed, max, true);
    top_n_init(&a->top, 0);
}

/* A ranking is no longer valid once the census changes. */
static void unrank(struct account *a)
{
    if (a->top.limit > 0) {
        top_n_free(&a->top);
        top_n_init(&a->top, 0);
    }
    a->ranked = false;
}

void account_free(struct account *a)
{
    census_free(&a->all);
    census_free(&a->counted);
    census_free(&a->followed);
    unrank(a);
    resource_types_free(&a->types);
    sonde_free(a->pids);
    sonde_free(a->holdings);
    a->pids = NULL;
    a->holdings = NULL;
    a->era++; /* a scan may still be merging into the old account */
    a->at = 0;
    a->n = a->cap = a->holdings_n = a->holdings_cap = 0;
}

enum status account_free_some(struct account *a, struct budget *b)
{
    if (!census_free_some(&a->all, b) || !census_free_some(&a->counted, b))
        return ST_TIMESLICE;
    account_free(a);
    return ST_OK;
}

/* Makes room for one more. Grows by half, which the allocator can often do without a copy. */
static bool room(void **list, size_t n, size_t *cap, size_t size)
{
    enum { FIRST = BOUND(64, 2) };
    size_t more = *cap == 0 ? FIRST : *cap + *cap / 2;
    if (n < *cap)
        return true;
    void *grown = sonde_realloc(*list, more * size);
    if (!grown)
        return false;
    *list = grown;
    *cap = more;
    return true;
}

/* ---- holdings ------------------------------------------------------------------------------- */

/* Another size means that the Binary was freed meanwhile, and another one has its address now. */
static void meet(struct known *k, const struct known *has)
{
    if (k->refs != 0 && k->size != has->size)
        *k = (struct known){.binary = k->binary};
    k->size = has->size;
    k->refc = has->refc;
    k->refs = census_count32((uint64_t)k->refs + has->refs);
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

static enum status add_holding(struct account *a, struct holding g)
{
    void *list = a->holdings;
    if (!room(&list, a->holdings_n, &a->holdings_cap, sizeof *a->holdings))
        return ST_NOMEM;
    a->holdings = list;
    a->holdings[a->holdings_n++] = g;
    return ST_OK;
}

static enum status note_holding(struct account *a, uint64_t pid, const struct known *has)
{
    struct holding g = {has->binary, pid, has->size, has->refs, has->first};
    if (has->kinds & CENSUS_RESOURCE)
        g.queued = 0;
    return a->wants || a->holdings_n < a->all.max ? add_holding(a, g) : ST_TOO_LARGE;
}

enum status account_note_changed(struct account *a, uint64_t pid)
{
    return add_holding(a, (struct holding){.pid = pid});
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

/* The entry for a Binary. GONE: it is not wanted, or not in the sample. */
static enum status entry_of(struct account *a, uint64_t binary, struct known **k)
{
    unrank(a);
    return a->wants && !census_find(&a->all, binary) ? ST_GONE : census_add(&a->all, binary, k);
}

static enum status merge(struct account *a, struct merge *m, const struct known *has,
                         const struct resource_types *types)
{
    struct known *k;
    enum status st = entry_of(a, has->binary, &k);
    if (st != ST_OK)
        return st == ST_GONE ? ST_OK : st;
    if ((k->kinds ^ has->kinds) & CENSUS_RESOURCE) /* `first' would mean something else, too */
        *k = (struct known){.binary = k->binary};
    meet(k, has);
    if (has->kinds & CENSUS_RESOURCE) {
        st = resource(a, k, has, types, m);
        return st == ST_OK && m->followed && has->holders > 0 ? note_holding(a, a->pids[m->me], has)
                                                              : st;
    }
    m->print += a->prints ? account_print(has) : 0;
    if (has->refs > has->first)
        on_heap(a, k, m->me);
    if (has->first > 0)
        in_queue(a, k, m->me);
    return a->wants || m->followed ? note_holding(a, a->pids[m->me], has) : ST_OK;
}

static enum status begin(struct account *a, struct merge *m, uint64_t pid)
{
    void *list = a->pids;
    if (a->n >= UINT32_MAX)
        return ST_TOO_LARGE;
    if (!room(&list, a->n, &a->cap, sizeof *a->pids))
        return ST_NOMEM;
    a->pids = list;
    a->pids[a->n] = pid;
    *m = (struct merge){.begun = true,
                        .followed = census_find(&a->followed, pid) != NULL,
                        .of = a->era,
                        .me = (uint32_t)a->n++};
    return ST_OK;
}

/* A second pass must find the same print. */
static enum status note_print(struct account *a, const struct merge *m)
{
    struct known *k;
    enum status st = a->wants || m->print == 0 ? ST_GONE : ST_OK;
    if (st == ST_OK)
        st = census_add(&a->counted, a->pids[m->me], &k);
    if (st == ST_OK)
        k->size = m->print & KNOWN_SIZE_MAX;
    return st == ST_GONE ? ST_OK : st;
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
    if (st == ST_GONE)
        st = note_print(a, m);
    m->begun = st == ST_TIMESLICE;
    return st;
}

/* ---- two accounts of different processes ---------------------------------------------------------- */

enum join_stages { PIDS, TYPES, ENTRIES, COUNTED, HOLDINGS, JOINED };

static enum status join_pids(struct account *a, struct account *from, struct budget *b)
{
    struct join *j = &from->join;
    if (j->at == 0)
        j->base = (uint32_t)a->n;
    j->n = (uint32_t)from->n;
    if (a->n + (from->n - j->at) >= UINT32_MAX)
        return ST_TOO_LARGE;
    for (; j->at < from->n; j->at++) {
        void *list = a->pids;
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (!room(&list, a->n, &a->cap, sizeof *a->pids))
            return ST_NOMEM;
        a->pids = list;
        a->pids[a->n++] = from->pids[j->at];
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
    if (more->refs == 0) /* wanted, and not met */
        return ST_OK;
    if (!may_unite(a, j, more))
        return ST_TOO_LARGE;
    enum status st = census_add(&a->all, more->binary, &k);
    if (st != ST_OK)
        return st == ST_GONE ? ST_OK : st;
    if ((k->kinds ^ more->kinds) & CENSUS_RESOURCE)
        *k = (struct known){.binary = k->binary};
    meet(k, more);
    k->holders += more->holders;
    if (more->kinds & CENSUS_RESOURCE) {
        k->kinds = CENSUS_RESOURCE;
        k->first = j->types[more->first];
    } else {
        unite_holders(a, k, more, j->base + more->first);
    }
    return ST_OK;
}

/* Both are in the order of the hash, so nothing is far away. */
static enum status join_entries(struct account *a, struct account *from, struct budget *b)
{
    struct join *j = &from->join;
    const struct known *more;
    enum status st;
    unrank(a);
    census_lower(&a->all, from->all.level);
    while ((st = census_next(&from->all, &j->at, b, &more)) == ST_OK) {
        size_t part = j->at >> 32;
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

static enum status join_counted(struct account *a, struct account *from, struct budget *b)
{
    const struct known *more;
    struct known *k;
    enum status st;
    while ((st = census_next(&from->counted, &from->join.at, b, &more)) == ST_OK &&
           (st = census_add(&a->counted, more->binary, &k)) == ST_OK)
        k->size = more->size;
    return st == ST_GONE ? ST_OK : st;
}

static enum status join_holdings(struct account *a, struct account *from, struct budget *b)
{
    struct join *j = &from->join;
    for (; j->at < from->holdings_n; j->at++) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (!a->wants && a->holdings_n >= a->all.max)
            return ST_TOO_LARGE;
        enum status st = add_holding(a, from->holdings[j->at]);
        if (st != ST_OK)
            return st;
    }
    return ST_OK;
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
    case COUNTED:
        return join_counted(a, from, b);
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

enum status account_follow(struct account *a, uint64_t pid)
{
    struct known *k;
    return census_add(&a->followed, pid, &k);
}

/* A hash of everything that decides a share. Sums of it are equal by chance once in 2^56 times. */
uint64_t account_print(const struct known *has)
{
    uint64_t places = (has->refs > has->first ? 1U : 0U) | (has->first > 0 ? 2U : 0U);
    uint64_t h = (has->binary | places) * 0x9E3779B97F4A7C15ULL ^ has->size * 0xC2B2AE3D27D4EB4FULL;
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9ULL;
    h = (h ^ h >> 27) * 0x94D049BB133111EBULL;
    return h ^ h >> 31;
}

bool account_is_counted(const struct account *a, uint64_t pid, uint64_t print)
{
    const struct known *k = census_find(&a->counted, pid);
    return (k ? k->size : 0) == (print & KNOWN_SIZE_MAX);
}

enum status account_add(struct account *a, enum census_kind kind, const struct known *has)
{
    struct known *k;
    enum status st = entry_of(a, has->binary, &k);
    if (st != ST_OK)
        return st == ST_GONE ? ST_OK : st;
    meet(k, has);
    k->kinds |= kind & 0xFF;
    k->holders++;
    return ST_OK;
}

enum status account_want(struct account *a, uint64_t binary)
{
    struct known *k;
    a->wants = true;
    unrank(a);
    return census_add(&a->all, binary, &k);
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

void account_rank_start(struct account *a, size_t n, bool by_references)
{
    a->by_references = by_references;
    top_n_free(&a->top);
    top_n_init(&a->top, n);
    a->at = 0;
    a->ranked = false;
}

enum status account_rank(struct account *a, struct budget *b)
{
    const struct known *k;
    enum status st = a->ranked ? ST_GONE : ST_OK;
    while (st == ST_OK && (st = census_next(&a->all, &a->at, b, &k)) == ST_OK) {
        struct row row = {a->by_references ? k->refs : (int64_t)k->size, k->binary, k->binary};
        bool is_binary = k->refs > 0 && !(k->kinds & CENSUS_RESOURCE);
        if (is_binary && top_n_may_take(&a->top, row.value) && !top_n_push(&a->top, row))
            st = ST_NOMEM;
    }
    if (st != ST_GONE)
        return st;
    a->ranked = true;
    return top_n_sort(&a->top, b) ? ST_OK : ST_TIMESLICE;
}

enum status account_share(const struct account *a, uint64_t pid, const struct known *has,
                          uint64_t *share)
{
    const struct known *k = census_find(&a->all, has->binary);
    uint64_t mine = (uint64_t)(has->refs > has->first) + (has->first > 0);
    /* it is new since the account; or another Binary has its address now */
    if (!k || k->holders < mine || k->size != has->size)
        return ST_CHANGED;
    uint64_t others = is_elsewhere(k) || (k->kinds & CENSUS_LITERAL) ? 1 : 0;
    uint64_t holders = k->holders - ((k->kinds & CENSUS_LITERAL) != 0) + others;
    bool processes_first =
        (k->kinds & CENSUS_HEAP) ? has->refs > has->first : !(k->kinds & CENSUS_TABLE);
    bool first =
        others == 0 && processes_first && !(k->kinds & CENSUS_RESOURCE) && a->pids[k->first] == pid;
    *share = mine * (has->size / holders) + (first ? has->size % holders : 0);
    return ST_OK;
}
