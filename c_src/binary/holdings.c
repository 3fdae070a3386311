#include "binary/holdings.h"

#include "util/alloc.h"

#include <assert.h>

/* Where the references are. A word without LISTED and QUEUED is the holder of the holdings that follow,
 * shifted left by three. COUNTED: the next word has the numbers; otherwise there is one in each place. */
enum { LISTED = 1, QUEUED = 2, COUNTED = 4, MARKS = LISTED | QUEUED | COUNTED };

enum { BLOCK_WORDS = BOUND(1 << 16, 4), AHEAD = 24 };
enum { FREE_STEPS = 64 }; /* of the budget, for one block */

void holdings_init(struct holdings *h, size_t max)
{
    *h = (struct holdings){.max = max};
    census_init(&h->freed, max, true);
}

static uint64_t *word_at(const struct holdings *h, size_t i)
{
    return &h->blocks[i / BLOCK_WORDS][i % BLOCK_WORDS];
}

static enum status push(struct holdings *h, uint64_t word)
{
    if (h->n == h->max)
        return ST_TOO_LARGE;
    if (h->n == h->blocks_n * BLOCK_WORDS) {
        if (h->blocks_n == h->blocks_cap && !SONDE_GROW(h->blocks, h->blocks_cap, 16))
            return ST_NOMEM;
        uint64_t *block = sonde_alloc(BLOCK_WORDS * sizeof *block);
        if (!block)
            return ST_NOMEM;
        h->blocks[h->blocks_n++] = block;
    }
    *word_at(h, h->n++) = word;
    return ST_OK;
}

static uint64_t marks_of(const struct holding *g)
{
    uint64_t marks = (g->refs > g->queued ? LISTED : 0) | (g->queued > 0 ? QUEUED : 0);
    uint32_t places = (g->refs > g->queued ? 1 : 0) + (g->queued > 0 ? 1 : 0);
    return marks | (g->refs != places ? COUNTED : 0);
}

enum status holdings_add(struct holdings *h, const struct holding *g)
{
    uint64_t marks = marks_of(g);
    enum status st = ST_OK;
    assert((g->binary & MARKS) == 0 && g->refs > 0 && g->queued <= g->refs);
    if (h->n == 0 || h->holder != g->holder)
        st = push(h, (uint64_t)g->holder << 3);
    if (st == ST_OK) {
        h->holder = g->holder;
        st = push(h, g->binary | marks);
    }
    if (st == ST_OK && (marks & COUNTED)) {
        st = push(h, (uint64_t)g->refs << 32 | g->queued);
        h->n -= st != ST_OK;
    }
    return st;
}

enum status holdings_forget(struct holdings *h, uint64_t binary, uint32_t holder)
{
    struct known *k;
    enum status st = census_add(&h->freed, binary, &k);
    if (st == ST_OK && k->size < holder)
        k->size = holder;
    return st;
}

/* Holders on the way are taken; the holding is at at->i then. false: no more. */
static bool enter(const struct holdings *h, struct holdings_at *at)
{
    for (; at->i < h->n; at->i++) {
        uint64_t word = *word_at(h, at->i);
        if (word & (LISTED | QUEUED))
            return true;
        at->holder = (uint32_t)(word >> 3);
    }
    return false;
}

static bool holds(const struct holdings *h, uint64_t binary, uint32_t holder)
{
    const struct known *k = h->freed.n > 0 ? census_find(&h->freed, binary) : NULL;
    return !k || holder >= k->size;
}

static void take(const struct holdings *h, struct holdings_at *at, struct holding *g)
{
    uint64_t word = *word_at(h, at->i++);
    *g = (struct holding){.binary = word & ~(uint64_t)MARKS,
                          .holder = at->holder,
                          .refs = (word & LISTED ? 1 : 0) + (word & QUEUED ? 1 : 0),
                          .queued = word & QUEUED ? 1 : 0};
    if (word & COUNTED) {
        uint64_t numbers = *word_at(h, at->i++);
        g->refs = (uint32_t)(numbers >> 32);
        g->queued = (uint32_t)numbers;
    }
}

enum status holdings_next(const struct holdings *h, struct holdings_at *at, struct budget *b,
                          struct holding *g)
{
    while (enter(h, at)) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        take(h, at, g);
        if (holds(h, g->binary, g->holder))
            return ST_OK;
    }
    return ST_GONE;
}

uint64_t holdings_ahead(const struct holdings *h, const struct holdings_at *at)
{
    return at->i + AHEAD < h->n ? *word_at(h, at->i + AHEAD) & ~(uint64_t)MARKS : 0;
}

enum status holdings_join(struct holdings *h, const struct holdings *from, uint32_t base,
                          struct holdings_at *at, struct budget *b)
{
    struct holding g;
    enum status st;
    while ((st = holdings_next(from, at, b, &g)) == ST_OK) {
        g.holder += base;
        st = holdings_add(h, &g);
        if (st != ST_OK)
            return st;
    }
    return st == ST_GONE ? ST_OK : st;
}

bool holdings_free_some(struct holdings *h, struct budget *b)
{
    h->n = 0;
    while (h->blocks_n > 0) {
        if (!budget_step(b))
            return false;
        b->steps -= b->steps < FREE_STEPS ? b->steps : FREE_STEPS;
        sonde_free(h->blocks[--h->blocks_n]);
    }
    if (!census_free_some(&h->freed, b))
        return false;
    holdings_free(h);
    return true;
}

void holdings_free(struct holdings *h)
{
    while (h->blocks_n > 0)
        sonde_free(h->blocks[--h->blocks_n]);
    sonde_free(h->blocks);
    h->blocks = NULL;
    h->n = h->blocks_cap = 0;
    census_free(&h->freed);
}
