#include "util/census.h"

#include "util/alloc.h"

#include <assert.h>
#include <string.h>

enum {
    PARTS = CENSUS_PARTS,
    FIRST_CAP = BOUND(16, 2),
    ONE_CAP = BOUND(4096, 3), /* a single part with more entries becomes many */
    LEVEL_MAX = 20
};

_Static_assert(sizeof(struct known) == 32, "an entry has 32 bytes");

/* The lowest bits select the sample, the next ones the part, the highest ones the slot. */
static uint64_t hash(uint64_t binary)
{
    uint64_t h = binary >> 3;
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9ULL;
    h = (h ^ h >> 27) * 0x94D049BB133111EBULL;
    return h ^ h >> 31;
}

static bool is_sampled(uint64_t h, unsigned level)
{
    return (h & ((1ULL << level) - 1)) == 0;
}

static bool is_kept(const struct census *c, uint64_t binary)
{
    return c->level == 0 || is_sampled(hash(binary), c->level);
}

static struct census_part *part_of(const struct census *c, uint64_t h)
{
    return c->parts ? &c->parts[(h >> LEVEL_MAX) % PARTS] : (struct census_part *)&c->one;
}

/* Its slot, or the free slot for it: there is always one, see has_room. */
static struct known *place(const struct census_part *p, uint64_t h, uint64_t binary)
{
    uint32_t i = (uint32_t)((h >> 32) * p->cap >> 32);
    while (p->entries[i].binary != 0 && p->entries[i].binary != binary)
        i = i + 1 == p->cap ? 0 : i + 1;
    return &p->entries[i];
}

/* The first entries are cleared when one is added: most processes have none. */
void census_init(struct census *c, size_t max, bool whole)
{
    c->n = c->pruned = 0;
    c->max = max;
    c->whole = whole;
    c->level = 0;
    c->one = (struct census_part){0};
    c->parts = NULL;
}

static void free_entries(const struct census *c, const struct census_part *p)
{
    if (p->entries != c->first)
        sonde_free(p->entries);
}

void census_free(struct census *c)
{
    for (size_t i = 0; c->parts && i < PARTS; i++)
        sonde_free(c->parts[i].entries);
    sonde_free(c->parts);
    free_entries(c, &c->one);
    c->parts = NULL;
    c->one = (struct census_part){0};
    c->n = 0;
}

bool census_free_some(struct census *c, struct budget *b)
{
    enum { STEP_ENTRIES = 256 };
    for (size_t i = 0; c->parts && i < PARTS; i++) {
        struct census_part *p = &c->parts[i];
        if (!p->entries)
            continue;
        if (!budget_step(b))
            return false;
        uint32_t steps = p->cap / STEP_ENTRIES;
        b->steps -= b->steps < steps ? b->steps : steps;
        sonde_free(p->entries);
        *p = (struct census_part){0};
    }
    census_free(c);
    return true;
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* Moves the part's entries that are in the sample to a new array. Entries that left the sample stay
 * in other parts until room is needed, so that no addition waits for more than one part. */
static enum status rebuild(struct census *c, struct census_part *p, uint32_t cap)
{
    struct census_part more = {sonde_alloc(cap * sizeof *more.entries), 0, cap};
    if (!more.entries)
        return ST_NOMEM;
    memset(more.entries, 0, cap * sizeof *more.entries);
    for (uint32_t i = 0; i < p->cap; i++) {
        const struct known *k = &p->entries[i];
        if (k->binary == 0 || !is_kept(c, k->binary))
            continue;
        *place(&more, hash(k->binary), k->binary) = *k;
        more.n++;
    }
    c->n -= p->n - more.n;
    free_entries(c, p);
    *p = more;
    return ST_OK;
}

/* At most 13 of 16 slots are used, so that a search is short; cap_for has them just fit. */
static bool has_room(const struct census_part *p)
{
    return (uint64_t)(p->n + 1) * 16 <= (uint64_t)p->cap * 13;
}

static enum status grow(struct census *c, struct census_part *p)
{
    if (p == &c->one && p->cap == 0) {
        memset(c->first, 0, sizeof c->first);
        *p = (struct census_part){c->first, 0, CENSUS_INLINE};
        return ST_OK;
    }
    return rebuild(c, p, p->cap == 0 ? FIRST_CAP : p->cap + p->cap / 2);
}

bool census_begin(struct census *c)
{
    struct census_part *parts = sonde_alloc(PARTS * sizeof *parts);
    if (!parts)
        return false;
    memset(parts, 0, PARTS * sizeof *parts);
    c->parts = parts;
    return true;
}

static enum status split(struct census *c)
{
    struct census_part one = c->one;
    if (!census_begin(c))
        return ST_NOMEM;
    c->one = (struct census_part){0};
    enum status st = ST_OK;
    for (uint32_t i = 0; i < one.cap && st == ST_OK; i++) {
        const struct known *k = &one.entries[i];
        uint64_t h = hash(k->binary);
        struct census_part *p = part_of(c, h);
        if (k->binary == 0)
            continue;
        st = has_room(p) ? ST_OK : grow(c, p);
        if (st == ST_OK) {
            *place(p, h, k->binary) = *k;
            p->n++;
        }
    }
    free_entries(c, &one);
    return st;
}

/* Drops the next part's entries that left the sample; after the last part, halves the sample. */
static enum status make_room(struct census *c)
{
    size_t parts = c->parts ? PARTS : 1;
    if (c->whole || (c->pruned == parts && c->level == LEVEL_MAX))
        return ST_TOO_LARGE;
    if (c->level == 0 || c->pruned == parts) {
        c->level++;
        c->pruned = 0;
    }
    struct census_part *p = c->parts ? &c->parts[c->pruned] : &c->one;
    enum status st = p->cap > 0 ? rebuild(c, p, p->cap) : ST_OK;
    c->pruned += st == ST_OK;
    return st;
}

/* ---- entries -------------------------------------------------------------------------------- */

enum status census_add(struct census *c, uint64_t binary, struct known **entry)
{
    uint64_t h = hash(binary);
    enum status st = ST_OK;
    assert(binary != 0);
    while (st == ST_OK && is_sampled(h, c->level)) {
        struct census_part *p = part_of(c, h);
        if (p->cap > 0) {
            *entry = place(p, h, binary);
            if ((*entry)->binary != 0)
                return ST_OK;
        }
        if (c->n >= c->max) {
            st = make_room(c);
        } else if (!c->parts && p->n >= ONE_CAP) {
            st = split(c);
        } else if (!has_room(p)) {
            st = grow(c, p);
        } else {
            **entry = (struct known){.binary = binary};
            p->n++;
            c->n++;
            return ST_OK;
        }
    }
    return st == ST_OK ? ST_GONE : st;
}

const struct known *census_find(const struct census *c, uint64_t binary)
{
    uint64_t h = hash(binary);
    const struct census_part *p = part_of(c, h);
    if (p->cap == 0 || !is_sampled(h, c->level))
        return NULL;
    const struct known *k = place(p, h, binary);
    return k->binary != 0 ? k : NULL;
}

size_t census_part(uint64_t binary)
{
    return (hash(binary) >> LEVEL_MAX) % PARTS;
}

void census_move(struct census *to, struct census *from, size_t part)
{
    struct census_part *p = &to->parts[part];
    assert(p->n == 0);
    sonde_free(p->entries);
    *p = from->parts[part];
    from->parts[part] = (struct census_part){0};
    to->n += p->n;
    from->n -= p->n;
}

uint32_t census_count(const struct census *c, size_t part)
{
    return c->parts ? c->parts[part].n : 0;
}

static uint64_t cap_for(uint64_t n)
{
    return n + n / 4 + 2;
}

/* Above the limit room is made by other means. At least by half, so that many expectations of a few do
 * not move the entries each time. */
enum status census_expect(struct census *c, size_t part, uint32_t n)
{
    if (!c->parts || c->n + n > c->max)
        return ST_OK;
    struct census_part *p = &c->parts[part];
    uint64_t cap = cap_for((uint64_t)p->n + n);
    uint64_t half_more = (uint64_t)p->cap + p->cap / 2;
    if (cap <= p->cap)
        return ST_OK;
    cap = cap < half_more ? half_more : cap;
    return cap > UINT32_MAX ? ST_OK : rebuild(c, p, (uint32_t)cap);
}

enum status census_fit(struct census *c, size_t part)
{
    uint64_t cap = c->parts ? cap_for(c->parts[part].n) : 0;
    return cap == 0 || c->parts[part].cap < 2 * cap ? ST_OK
                                                    : rebuild(c, &c->parts[part], (uint32_t)cap);
}

void census_drop(struct census *c, size_t part)
{
    struct census_part *p = c->parts ? &c->parts[part] : &c->one;
    c->n -= p->n;
    free_entries(c, p);
    *p = (struct census_part){0};
}

/* Entries that left the sample stay until room is needed; census_next leaves them out. */
void census_lower(struct census *c, unsigned level)
{
    if (level <= c->level)
        return;
    c->level = level;
    c->pruned = 0;
}

enum status census_next(const struct census *c, size_t *at, struct budget *b,
                        const struct known **entry)
{
    size_t parts = c->parts ? PARTS : 1;
    for (;;) {
        size_t part = *at >> 32;
        uint32_t i = (uint32_t)*at;
        if (part >= parts)
            return ST_GONE;
        if (!budget_step(b))
            return ST_TIMESLICE;
        const struct census_part *p = c->parts ? &c->parts[part] : &c->one;
        if (i >= p->cap) {
            *at = (part + 1) << 32;
            continue;
        }
        ++*at;
        const struct known *k = &p->entries[i];
        if (k->binary != 0 && is_kept(c, k->binary)) {
            *entry = k;
            return ST_OK;
        }
    }
}

void census_ask(const struct census *c, uint64_t binary)
{
    uint64_t h = hash(binary);
    const struct census_part *p = part_of(c, h);
    if (p->cap > 0)
        __builtin_prefetch(&p->entries[(h >> 32) * p->cap >> 32], 1);
}

size_t census_bytes(const struct census *c)
{
    size_t bytes = c->one.cap * sizeof(struct known);
    for (size_t i = 0; c->parts && i < PARTS; i++)
        bytes += c->parts[i].cap * sizeof(struct known);
    return bytes + (c->parts ? PARTS * sizeof *c->parts : 0);
}
