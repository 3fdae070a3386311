#include "binary/holdings.h"

#include "util/alloc.h"

#include <assert.h>

/* Where the references are. A word without LISTED and QUEUED is the holder of the holdings that follow,
 * shifted left by three. COUNTED: the next word has the numbers; otherwise there is one in each place. */
enum { LISTED = 1, QUEUED = 2, COUNTED = 4, MARKS = LISTED | QUEUED | COUNTED };

enum { BLOCK_WORDS = BOUND(1 << 14, 4), AHEAD = 24 };
enum { FREE_STEPS = 16 }; /* of the budget, for one block */

/* Begins with a holder, and no holding goes on in the next block. */
struct holdings_block {
    uint32_t n;
    uint32_t base; /* added to its holders */
    uint64_t words[BLOCK_WORDS];
};

void holdings_init(struct holdings *h, size_t max)
{
    *h = (struct holdings){.max = max};
    census_init(&h->freed, max, true);
}

static enum status append(struct holdings *h, struct holdings_block *block)
{
    /* a list of pointers */
    // NOLINTNEXTLINE(bugprone-sizeof-expression)
    if (h->blocks_n == h->blocks_cap && !SONDE_GROW(h->blocks, h->blocks_cap, 16))
        return ST_NOMEM;
    h->blocks[h->blocks_n++] = block;
    return ST_OK;
}

static struct holdings_block *last_block(const struct holdings *h)
{
    return h->open ? h->blocks[h->blocks_n - 1] : NULL;
}

static enum status start_block(struct holdings *h)
{
    struct holdings_block *block = sonde_alloc(sizeof *block);
    if (!block)
        return ST_NOMEM;
    block->n = block->base = 0;
    enum status st = append(h, block);
    if (st != ST_OK)
        sonde_free(block);
    h->open = h->open || st == ST_OK;
    return st;
}

static uint64_t marks_of(const struct holding *g)
{
    uint64_t marks = (g->refs > g->queued ? LISTED : 0) | (g->queued > 0 ? QUEUED : 0);
    uint32_t places = (g->refs > g->queued ? 1 : 0) + (g->queued > 0 ? 1 : 0);
    return marks | (g->refs != places ? COUNTED : 0);
}

static void push(struct holdings *h, uint64_t word)
{
    struct holdings_block *block = last_block(h);
    block->words[block->n++] = word;
    h->n++;
}

enum status holdings_add(struct holdings *h, const struct holding *g)
{
    uint64_t marks = marks_of(g);
    uint32_t words = marks & COUNTED ? 2 : 1;
    const struct holdings_block *last = last_block(h);
    bool fits = last && last->n + words + (h->holder != g->holder) <= BLOCK_WORDS;
    bool names = !fits || h->holder != g->holder;
    assert((g->binary & MARKS) == 0 && g->refs > 0 && g->queued <= g->refs);
    if (h->max - h->n < words + names)
        return ST_TOO_LARGE;
    enum status st = fits ? ST_OK : start_block(h);
    if (st != ST_OK)
        return st;
    if (names)
        push(h, (uint64_t)g->holder << 3);
    h->holder = g->holder;
    push(h, g->binary | marks);
    if (marks & COUNTED)
        push(h, (uint64_t)g->refs << 32 | g->queued);
    return ST_OK;
}

enum status holdings_forget(struct holdings *h, uint64_t binary, uint32_t holder)
{
    struct known *k;
    enum status st = census_add(&h->freed, binary, &k);
    if (st == ST_OK && k->size < holder)
        k->size = holder;
    return st;
}

/* Holders on the way are taken; the holding is at at->i of this block then. NULL: no more. */
static const struct holdings_block *enter(const struct holdings *h, struct holdings_at *at)
{
    for (; at->block < h->blocks_n; at->block += 1 + at->skip, at->i = 0) {
        const struct holdings_block *block = h->blocks[at->block];
        for (; at->i < block->n; at->i++) {
            uint64_t word = block->words[at->i];
            if (word & (LISTED | QUEUED))
                return block;
            at->holder = block->base + (uint32_t)(word >> 3);
        }
    }
    return NULL;
}

static bool holds(const struct holdings *h, uint64_t binary, uint32_t holder)
{
    const struct known *k = h->freed.n > 0 ? census_find(&h->freed, binary) : NULL;
    return !k || holder >= k->size;
}

static void take(const struct holdings_block *block, struct holdings_at *at, struct holding *g)
{
    uint64_t word = block->words[at->i++];
    *g = (struct holding){.binary = word & ~(uint64_t)MARKS,
                          .holder = at->holder,
                          .refs = (word & LISTED ? 1 : 0) + (word & QUEUED ? 1 : 0),
                          .queued = word & QUEUED ? 1 : 0};
    if (word & COUNTED) {
        uint64_t numbers = block->words[at->i++];
        g->refs = (uint32_t)(numbers >> 32);
        g->queued = (uint32_t)numbers;
    }
}

enum status holdings_next(const struct holdings *h, struct holdings_at *at, struct budget *b,
                          struct holding *g)
{
    const struct holdings_block *block;
    while ((block = enter(h, at))) {
        if (!budget_step(b))
            return ST_TIMESLICE;
        take(block, at, g);
        if (holds(h, g->binary, g->holder))
            return ST_OK;
    }
    return ST_GONE;
}

uint64_t holdings_ahead(const struct holdings *h, const struct holdings_at *at)
{
    const struct holdings_block *block = at->block < h->blocks_n ? h->blocks[at->block] : NULL;
    return block && at->i + AHEAD < block->n ? block->words[at->i + AHEAD] & ~(uint64_t)MARKS : 0;
}

/* What is not valid any more stays behind. */
static enum status join_valid(struct holdings *h, const struct holdings *from, uint32_t base,
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

static enum status join_blocks(struct holdings *h, struct holdings *from, uint32_t base,
                               struct budget *b)
{
    while (from->blocks_n > 0) {
        struct holdings_block *block = from->blocks[from->blocks_n - 1];
        if (!budget_step(b))
            return ST_TIMESLICE;
        if (block->n > h->max - h->n)
            return ST_TOO_LARGE;
        enum status st = append(h, block);
        if (st != ST_OK)
            return st;
        h->open = from->open = false;
        block->base += base;
        h->n += block->n;
        from->n -= block->n;
        from->blocks_n--;
    }
    return ST_OK;
}

enum status holdings_join(struct holdings *h, struct holdings *from, uint32_t base,
                          struct holdings_at *at, struct budget *b)
{
    return from->freed.n > 0 ? join_valid(h, from, base, at, b) : join_blocks(h, from, base, b);
}

bool holdings_free_some(struct holdings *h, struct budget *b)
{
    h->n = 0;
    h->open = false;
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
    h->open = false;
    census_free(&h->freed);
}
