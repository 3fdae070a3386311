#include "binary/pending.h"

#include "util/alloc.h"

#include <assert.h>
#include <string.h>

void pending_init(struct pending *p)
{
    p->parts = NULL;
}

bool pending_begin(struct pending *p)
{
    const size_t bytes = PENDING_PARTS * sizeof *p->parts;
    if (p->parts)
        return true;
    p->parts = sonde_alloc(bytes);
    if (p->parts)
        memset(p->parts, 0, bytes);
    return p->parts;
}

static void append(struct pending_part *q, struct pending_block *block)
{
    block->next = NULL;
    if (q->last)
        q->last->next = block;
    else
        q->first = block;
    q->last = block;
    q->n += block->n;
}

static bool grow(struct pending_part *q)
{
    struct pending_block *more = sonde_alloc(sizeof *more);
    if (!more)
        return false;
    more->n = 0;
    append(q, more);
    return true;
}

bool pending_is_full(const struct pending *p, size_t part)
{
    return !p->parts || !p->parts[part].last || p->parts[part].last->n == PENDING_BLOCK;
}

enum status pending_add(struct pending *p, size_t part, const struct known *record)
{
    if (!pending_begin(p))
        return ST_NOMEM;
    struct pending_part *q = &p->parts[part];
    if (pending_is_full(p, part) && !grow(q))
        return ST_NOMEM;
    q->last->list[q->last->n++] = *record;
    q->n++;
    return ST_OK;
}

enum status pending_give(struct pending *p, size_t part, struct pending_block *block)
{
    if (!pending_begin(p))
        return ST_NOMEM;
    append(&p->parts[part], block);
    return ST_OK;
}

uint32_t pending_count(const struct pending *p, size_t part)
{
    return p->parts ? p->parts[part].n : 0;
}

struct pending_block *pending_take(struct pending *p, size_t part)
{
    struct pending_part *q = p->parts ? &p->parts[part] : NULL;
    struct pending_block *first = q ? q->first : NULL;
    if (first) {
        q->first = first->next;
        q->last = q->first ? q->last : NULL;
        q->n -= first->n;
    }
    return first;
}

void pending_move(struct pending *to, struct pending *from, size_t part)
{
    assert(!to->parts[part].first);
    to->parts[part] = from->parts[part];
    from->parts[part] = (struct pending_part){0};
}

bool pending_free_some(struct pending *p, struct budget *b)
{
    enum { STEPS = 16 }; /* of the budget, for a block */
    for (size_t part = 0; p->parts && part < PENDING_PARTS; part++) {
        while (p->parts[part].first) {
            if (!budget_step(b))
                return false;
            b->steps -= b->steps < STEPS ? b->steps : STEPS;
            sonde_free(pending_take(p, part));
        }
    }
    (void)SONDE_DROP(p->parts);
    return true;
}

void pending_free(struct pending *p)
{
    for (size_t part = 0; p->parts && part < PENDING_PARTS; part++) {
        while (p->parts[part].first)
            sonde_free(pending_take(p, part));
    }
    (void)SONDE_DROP(p->parts);
}
