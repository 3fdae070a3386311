#include "heap/marks.h"

#include "util/alloc.h"

#include <assert.h>
#include <string.h>

/* With more words of bits, grey bits are allocated beforehand and cleared in slices together with
 * the black ones: clearing them all at once would take too long. */
enum { CLEAR_AT_ONCE = BOUND(1 << 17, 4), CLEAR_STEP = BOUND(32, 2) };

static size_t bits_of(const struct block *b)
{
    return ((b->to - b->from) / 8 + 63) / 64;
}

static bool alloc_base(struct marks *m)
{
    m->base = m->base_first;
    if (m->blocks->n > BLOCKS_INLINE)
        m->base = sonde_alloc(m->blocks->n * sizeof *m->base);
    return m->base != NULL;
}

static bool alloc_grey(struct marks *m)
{
    size_t n = (m->n + 63) / 64;
    m->grey = sonde_alloc(m->n * sizeof *m->grey);
    m->summary = sonde_alloc(n * sizeof *m->summary);
    if (!m->grey || !m->summary)
        return false;
    m->low = n;
    return true;
}

enum status marks_init(struct marks *m, const struct blocks *blocks)
{
    uint64_t words;
    m->blocks = blocks;
    m->grey = m->summary = NULL;
    m->black = m->black_first;
    m->n = m->cleared = m->low = m->used = 0;
    m->placed = 0;
    if (!alloc_base(m))
        return ST_NOMEM;
    if (!blocks_words(blocks, &words))
        return ST_TORN;
    m->n = words / 64 + blocks->n;
    if (m->n > MARKS_INLINE)
        m->black = sonde_alloc(m->n * sizeof *m->black);
    if (!m->black || (m->n > CLEAR_AT_ONCE && !alloc_grey(m)))
        return ST_NOMEM;
    return ST_OK;
}

static void clear_grey(struct marks *m, size_t from, size_t n)
{
    memset(m->grey + from, 0, n * sizeof *m->grey);
    memset(m->summary + from / 64, 0, (n + 63) / 64 * sizeof *m->summary);
}

static bool place_blocks(struct marks *m, struct budget *b)
{
    for (; m->placed < m->blocks->n; m->placed++) {
        if (m->placed % 64 == 63 && !budget_step(b))
            return false;
        m->base[m->placed] = m->used;
        m->used += bits_of(&m->blocks->list[m->placed]);
    }
    assert(m->used <= m->n);
    return true;
}

bool marks_clear(struct marks *m, struct budget *b)
{
    while (m->cleared < m->n) {
        size_t n = m->n - m->cleared < CLEAR_STEP ? m->n - m->cleared : CLEAR_STEP;
        if (!budget_step(b))
            return false;
        memset(m->black + m->cleared, 0, n * sizeof *m->black);
        if (m->grey)
            clear_grey(m, m->cleared, n);
        m->cleared += n;
    }
    return place_blocks(m, b);
}

void marks_end(struct marks *m)
{
    if (m->base != m->base_first)
        sonde_free(m->base);
    if (m->black != m->black_first)
        sonde_free(m->black);
    marks_drop_grey(m);
    m->base = m->base_first;
    m->black = m->black_first;
}

bool marks_set_grey(struct marks *m, struct mark k)
{
    if (!m->grey) {
        if (!alloc_grey(m))
            return false;
        clear_grey(m, 0, m->n);
    }
    m->grey[k.at] |= k.bit;
    m->summary[k.at / 64] |= 1ULL << (k.at % 64);
    if (k.at / 64 < m->low)
        m->low = k.at / 64;
    return true;
}

void marks_drop_grey(struct marks *m)
{
    sonde_free(m->grey);
    sonde_free(m->summary);
    m->grey = m->summary = NULL;
}

enum status marks_take_grey(struct marks *m, uintptr_t *p)
{
    size_t n = (m->n + 63) / 64;
    if (!m->grey)
        return ST_GONE;
    while (m->low < n && m->summary[m->low] == 0)
        m->low++;
    if (m->low == n)
        return ST_GONE;
    size_t at = m->low * 64 + (unsigned)__builtin_ctzll(m->summary[m->low]);
    unsigned bit = (unsigned)__builtin_ctzll(m->grey[at]);
    m->grey[at] &= m->grey[at] - 1;
    if (m->grey[at] == 0)
        m->summary[m->low] &= m->summary[m->low] - 1;
    *p = marks_address(m, at, bit);
    return ST_OK;
}

size_t marks_bytes(const struct marks *m)
{
    size_t bytes = m->base != m->base_first ? m->blocks->n * sizeof *m->base : 0;
    if (m->black != m->black_first)
        bytes += m->n * sizeof *m->black;
    return bytes + (m->grey ? m->n * sizeof *m->grey + (m->n + 63) / 64 * 8 : 0);
}
