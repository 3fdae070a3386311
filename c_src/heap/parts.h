/* parts.h: a stack of the parts of objects that a walk still has to visit.
 * Knows: the first entries need no allocation. Does not know: what is in a part. */
#ifndef SONDE_PARTS_H
#define SONDE_PARTS_H

#include "util/alloc.h"
#include "util/budget.h"

#include <string.h>

/* Words that are still to be visited. */
struct part {
    uintptr_t at, to;
};

/* PARTS_SHARE: words of heap for each entry, so that a stack takes about one percent of it. */
enum { PARTS_INLINE = BOUND(64, 4), PARTS_SHARE = 200 };

struct parts {
    size_t n, cap, max;
    struct part *list;
    struct part first[PARTS_INLINE];
};

static inline void parts_start(struct parts *p, size_t max)
{
    p->n = 0;
    p->cap = PARTS_INLINE;
    p->max = max;
    p->list = p->first;
}

static inline void parts_end(struct parts *p)
{
    if (p->list != p->first)
        sonde_free(p->list);
    p->list = p->first;
}

/* false: it is at its limit, or there is no memory. */
static inline bool parts_push(struct parts *p, struct part part)
{
    if (p->n == p->cap) {
        struct part *list = p->cap * 2 <= p->max ? sonde_alloc(p->cap * 2 * sizeof *list) : NULL;
        if (!list)
            return false;
        memcpy(list, p->list, p->n * sizeof *list);
        parts_end(p);
        p->list = list;
        p->cap *= 2;
    }
    p->list[p->n++] = part;
    return true;
}

#endif
