#include "scan/stripes.h"

#include <assert.h>

enum { STRIPE = BOUND(512, 2) }; /* slots */

void stripes_init(struct stripes *s, size_t max)
{
    *s = (struct stripes){.end = max, .max = max};
}

static size_t end_of(const struct stripes *s, size_t from)
{
    return s->max - from < STRIPE ? s->max : from + STRIPE;
}

void stripes_part(struct stripes *s, unsigned i, unsigned n)
{
    assert(i < n);
    size_t first = (size_t)i * STRIPE;
    if (n == 1)
        return;
    s->skip = (size_t)(n - 1) * STRIPE;
    s->next = first < s->max ? first : s->max;
    s->end = end_of(s, s->next);
}

/* At the end of a stripe goes on to the next one; false: there is none. */
static bool enter(struct stripes *s)
{
    if (s->next < s->end)
        return true;
    if (s->max - s->end <= s->skip)
        return false;
    s->next = s->end + s->skip;
    s->end = end_of(s, s->next);
    return true;
}

enum status stripes_next(struct stripes *s, const struct vm *vm, size_t *most, size_t *slot)
{
    if (!enter(s))
        return ST_GONE;
    size_t to = s->end - s->next < *most ? s->end : s->next + *most;
    if (!peek_scan(vm->reader, vm->tab.tab, s->next, to, slot))
        return ST_TORN;
    size_t next = *slot < to ? *slot + 1 : to;
    *most -= next - s->next;
    s->next = next;
    return *slot < to ? ST_OK : ST_TIMESLICE;
}
